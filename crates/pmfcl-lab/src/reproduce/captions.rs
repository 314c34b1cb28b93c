//! Sentences that findings and page share.

use super::Outcome;
use super::claims::{Finding, Verdict};
use super::federated::{ABSENT, APART, CLIENTS, JOIN, LATE, ROUNDS};
use super::logistic;
use super::roster::{BATCH, BUFFER, DECAYS, RATES, Who};

/// How many claims stand.
pub(super) fn lead(outcome: &Outcome, findings: &[Finding]) -> String {
    let count = |f: fn(&Verdict) -> bool| findings.iter().filter(|x| f(&x.verdict)).count();
    format!(
        "{} claims: {} hold, {} hold under a condition, {} do not. {} settings, {} trials of {} tasks each, seed {}.",
        findings.len(),
        count(|v| *v == Verdict::Holds),
        count(|v| matches!(v, Verdict::HoldsIf(_))),
        count(|v| *v == Verdict::Fails),
        outcome.studies.len(),
        outcome.effort.trials,
        outcome.effort.tasks,
        outcome.effort.seed,
    )
}

fn list(values: &[f64]) -> String {
    values.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
}

/// How everything was run.
pub(super) fn protocol(outcome: &Outcome) -> Vec<String> {
    let effort = &outcome.effort;
    let tuned = |who: &&Who| who.strength().is_some() && **who != Who::PmfDecay;
    let strengths: Vec<String> = Who::ALL
        .iter()
        .filter(tuned)
        .map(|who| {
            let mut tried: Vec<f64> = who.candidates().iter().map(|a| a.strength).collect();
            tried.sort_by(f64::total_cmp);
            tried.dedup();
            format!("{} {} in {}", who.name(), who.strength().unwrap_or(""), list(&tried))
        })
        .collect();
    vec![
        "The paper prints no number of its streams and none of its baselines' arguments; all of those here are ours.".to_owned(),
        "Regression: standard normal features, θ of the first task standard normal, every task's θ that of the task before plus \
         normal steps, no intercept in any model. Test sets of 400 rows a task; errors over several tasks weigh them by their \
         training rows. Bands are ±1 standard deviation over trials."
            .to_owned(),
        format!(
            "Gradient methods: a linear model, batches of {BATCH}, {} steps a task on average, as many examples from the buffer \
             as in a batch, buffers of {BUFFER} examples, SI's ξ = 1, EWC's γ = 1.",
            effort.steps
        ),
        format!(
            "Learning rates tried: {}. With each of them: {}. The best is chosen for every setting by the test error over all \
             tasks at the end on {} streams of their own, which is the measure they are then compared by.",
            list(&RATES),
            strengths.join("; "),
            effort.streams
        ),
        format!(
            "PMF-CL has no argument; its variant with decay takes the best of {} by the error on the task just learned.",
            list(&DECAYS)
        ),
        format!(
            "Two classes: {}; ridge {} on the mean loss for all models that are solved for; learning rates tried: {}.",
            outcome.classes.setting.words(),
            super::classes::RIDGE,
            list(&logistic::CLASS_RATES)
        ),
        format!(
            "Federated: {CLIENTS} clients whose parameters lie {APART} apart (each coordinate, standard deviation) and drift \
             together ({}); {LATE} of them join at step {}; {} % are absent from a step and send what they missed when they are \
             back; all are there in the last step. FedAvg: {ROUNDS} rounds per step, best rate of the same list ({} on the step's \
             rows, {} where clients keep all rows).",
            outcome.federated.federation.setting.words(),
            JOIN + 1,
            100.0 * ABSENT,
            outcome.federated.rates.0,
            outcome.federated.rates.1,
        ),
        "Times: one thread, one method after the other, the first run not counted.".to_owned(),
    ]
}
