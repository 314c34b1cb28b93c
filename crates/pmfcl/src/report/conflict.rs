//! Is the conflict real? Chow's test from summaries.
//!
//! The weighted forgetting of the joint model is the numerator of Chow's F-test of «all tasks share one
//! parameter»:
//!
//! ```text
//! Σ_t n_t F_t(θ*) = ½ (RSS_pooled − Σ RSS_t)
//! F = [(RSS_pooled − Σ RSS_t) / (Σr_t − r)] / [Σ RSS_t / (N − Σr_t)]
//! ```
//!
//! with `r` ranks, so that tasks with fewer rows than columns are counted for what they determine. At full
//! rank the degrees of freedom are the textbook's `m(T−1)` and `N − Tm`.
//!
//! The test takes equal, independent, normal noise, and a sample weight for that many copies of its row. Where it
//! says nothing, [`ChowTest::missing`] says why.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::learner::{Learner, TaskReport};
use crate::report::distributions::fisher_survival;
use crate::report::inference::Covariance;
use crate::report::{MissingReason, SampleWeights};
use crate::settings::Preference;
use crate::solve::{Penalty, any_minimizer, solve};
use crate::summary::{Accumulator, Summary, pool};

/// Outcome of an F-test that several sets of rows share one parameter; one for each target.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for cli, report
pub struct ChowTest {
    /// The F statistic; `None` where there is a reason in `missing`.
    pub f: Option<f64>,
    /// Probability of an F at least this large without any conflict; `None` as above.
    pub p_value: Option<f64>,
    /// Why there is no p-value.
    pub missing: Option<MissingReason>,
    /// Degrees of freedom above and below.
    pub degrees: (f64, f64),
    /// Weighted mean forgetting that noise alone would cause: `σ² (Σr_t − r) / 2N`; `None` where the noise is
    /// unknown.
    pub noise_floor: Option<f64>,
    /// Weighted mean forgetting of the joint model, `Σ n_t F_t / N`.
    pub forgetting: f64,
}

/// Chow's test over any number of summaries, one result for each target. `accumulator` is what made the summaries:
/// it says which residuals are rounding.
///
/// # Errors
/// When the summaries differ in shape or there are fewer than two.
#[doc(hidden)] // for cli, report
pub fn chow<'a>(
    tasks: impl Iterator<Item = &'a Summary>,
    accumulator: Accumulator,
) -> Result<Vec<ChowTest>> {
    let tasks: Vec<&Summary> = tasks.collect();
    let missing = MissingReason::of_weights(tasks.iter().copied());
    let rows = tasks.iter().map(|task| task.n()).sum();
    compare(&tasks, accumulator, missing, rows)
}

/// Chow's test of tasks of so many rows, unless there is a reason against any p-value.
fn compare(
    tasks: &[&Summary],
    accumulator: Accumulator,
    missing: Option<MissingReason>,
    rows: f64,
) -> Result<Vec<ChowTest>> {
    let first = tasks.first().ok_or(Error::NotLearned)?;
    if tasks.len() < 2 {
        return Err(Error::Unsupported {
            operation: "a test of conflict",
            reason: "it takes at least two tasks".to_owned(),
        });
    }
    let pooled = pool(first.width(), first.targets(), tasks.iter().map(|s| (*s, 1.0)))?;
    let mut rounding = vec![0.0; first.targets()];
    for task in tasks {
        for (sum, level) in rounding.iter_mut().zip(rounding_of(task, accumulator)?) {
            *sum += level;
        }
    }
    Ok(test(tasks, &pooled, &rounding, missing, rows))
}

/// The residuals of a task, one for each target, up to which they are rounding.
fn rounding_of(task: &Summary, accumulator: Accumulator) -> Result<Vec<f64>> {
    Ok(task.rounding(&solve(task, false, Penalty::NONE, None)?.theta, accumulator))
}

/// Chow's test of tasks against all of them together, where residuals up to `rounding` are nothing.
fn test(
    tasks: &[&Summary],
    pooled: &Summary,
    rounding: &[f64],
    missing: Option<MissingReason>,
    rows: f64,
) -> Vec<ChowTest> {
    let ranks: usize = tasks.iter().map(|s| s.rank()).sum();
    let samples = pooled.n();
    let above = (ranks - pooled.rank()) as f64;
    let below = rows - ranks as f64;
    (0..pooled.targets())
        .map(|k| {
            let own: f64 = tasks.iter().map(|s| s.residual()[k]).sum();
            let extra = (pooled.residual()[k] - own).max(0.0);
            let noise = match missing {
                None if below <= 0.0 => Err(MissingReason::NoFreedom),
                None if own <= rounding[k] => Err(MissingReason::Rounding),
                None => Ok(own / below),
                Some(reason) => Err(reason),
            };
            let f = match noise {
                Ok(noise) if above > 0.0 => Ok(extra / above / noise),
                Ok(_) => Err(MissingReason::NothingShared),
                Err(reason) => Err(reason),
            };
            ChowTest {
                f: f.ok(),
                p_value: f.ok().map(|f| fisher_survival(f, above, below)),
                missing: f.err(),
                degrees: (above, below),
                noise_floor: noise.ok().map(|noise| noise * above / (2.0 * samples)),
                forgetting: extra / (2.0 * samples),
            }
        })
        .collect()
}

/// The smallest p-value over targets, corrected for their number (Bonferroni), or why there is none.
///
/// # Errors
/// The reason of the first target, where no target has a p-value.
#[doc(hidden)] // for report
pub fn smallest_p(tests: &[ChowTest]) -> std::result::Result<f64, MissingReason> {
    match tests.iter().filter_map(|test| test.p_value).reduce(f64::min) {
        Some(smallest) => Ok((smallest * tests.len() as f64).min(1.0)),
        None => {
            Err(tests.iter().find_map(|test| test.missing).unwrap_or(MissingReason::NothingShared))
        }
    }
}

/// Every pair of tasks against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct ConflictMatrix {
    /// Task names, for rows and columns.
    pub names: Vec<String>,
    /// `[i][j]`: what task `i` forgets in the joint model of `i` and `j` alone.
    pub forgetting: Vec<Vec<f64>>,
    /// `[i][j]`: Chow's p-value of the pair ([`smallest_p`]); `None` on the diagonal, and where there is none.
    pub p_value: Vec<Vec<Option<f64>>>,
    /// `[i][j]`: why a pair has no p-value; `None` on the diagonal.
    pub missing: Vec<Vec<Option<MissingReason>>>,
}

/// The pairwise conflicts of a learner's tasks.
///
/// Cost: one merge for each pair, `O(T² m³)`.
///
/// # Errors
/// Without per-task summaries.
pub fn matrix(learner: &Learner) -> Result<ConflictMatrix> {
    matrix_with_weights(learner, SampleWeights::Copies)
}

/// The same where sample weights are copies of rows or precisions, as is said.
///
/// # Errors
/// As [`matrix`].
#[doc(hidden)] // for python
pub fn matrix_with_weights(learner: &Learner, weights: SampleWeights) -> Result<ConflictMatrix> {
    let tasks = per_task(learner)?;
    let count = tasks.len();
    let mut forgetting = vec![vec![0.0; count]; count];
    let mut p_value = vec![vec![None; count]; count];
    let mut missing = vec![vec![None; count]; count];
    let precise = weights == SampleWeights::Precision;
    let general = if precise || !learner.is_exact() {
        MissingReason::of_learner(learner, weights)
    } else {
        None
    };
    let rows = |t: usize| match learner.records()[t].head.rows {
        Some(rows) if precise => rows as f64,
        _ => tasks[t].n(),
    };
    let accumulator = learner.accumulator();
    let roundings: Vec<Vec<f64>> =
        tasks.iter().map(|task| rounding_of(task, accumulator)).collect::<Result<_>>()?;
    for i in 0..count {
        for j in i + 1..count {
            let both = tasks[i].merge(&tasks[j])?;
            // What both leave open neither sees: any of their minimizers costs each of them the same.
            let theta = any_minimizer(&both)?;
            forgetting[i][j] = tasks[i].forgetting(&theta)?;
            forgetting[j][i] = tasks[j].forgetting(&theta)?;
            let pair = [&*tasks[i], &*tasks[j]];
            let reason = general.or_else(|| {
                if precise { None } else { MissingReason::of_weights(pair.into_iter()) }
            });
            let rounding: Vec<f64> =
                roundings[i].iter().zip(&roundings[j]).map(|(a, b)| a + b).collect();
            let p = smallest_p(&test(&pair, &both, &rounding, reason, rows(i) + rows(j)));
            (p_value[i][j], missing[i][j]) = (p.ok(), p.err());
            (p_value[j][i], missing[j][i]) = (p.ok(), p.err());
        }
    }
    let names = learner.names().map(str::to_owned).collect();
    Ok(ConflictMatrix { names, forgetting, p_value, missing })
}

/// Who pulls the joint model where.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // what `pulls` gives
pub struct Pulls {
    /// `[task][target][column]`: the Newton step `−A⁻¹g_t` task `t` would take from the joint model if it
    /// were alone in pulling; over all tasks the steps cancel.
    pub step: Vec<Vec<Vec<f64>>>,
    /// The same in standard errors of the coefficient; `None` where it has none ([`Covariance::standard_errors`]).
    pub in_errors: Vec<Vec<Vec<Option<f64>>>>,
}

/// Per-coefficient pulls of each task on the current model.
///
/// # Errors
/// Without per-task summaries.
#[doc(hidden)] // for tests
pub fn pulls(learner: &Learner) -> Result<Pulls> {
    let tasks = per_task(learner)?;
    let theta = &learner.solution()?.theta;
    let covariance = Covariance::of(learner)?;
    let errors = covariance.standard_errors();
    let shares: Vec<f64> = learner.tasks()?.iter().map(|t| t.weight).collect();
    let mut step = Vec::with_capacity(tasks.len());
    let mut in_errors = Vec::with_capacity(tasks.len());
    for (task, share) in tasks.iter().zip(shares) {
        let gradient = task.gradient(theta)?;
        let per_target: Vec<Vec<f64>> = (0..theta.targets())
            .map(|k| {
                let pull: Vec<f64> =
                    gradient.column(k).iter().map(|g| -g * share * covariance.samples()).collect();
                covariance.solve(&pull)
            })
            .collect();
        in_errors.push(
            per_target
                .iter()
                .zip(&errors)
                .map(|(s, e)| s.iter().zip(e).map(|(s, e)| e.map(|e| s / e)).collect())
                .collect(),
        );
        step.push(per_target);
    }
    Ok(Pulls { step, in_errors })
}

/// `[i][j]`: how the loss of task `i` changes as one more sample's worth of weight goes to task `j`,
/// `−(g_i/n_i)ᵀ (Σ XᵀX)⁻¹ (g_j/n_j)`, summed over targets. Negative: `j` helps `i`.
///
/// # Errors
/// Without per-task summaries.
#[doc(hidden)] // for tests
pub fn influence(learner: &Learner) -> Result<Vec<Vec<f64>>> {
    let tasks = per_task(learner)?;
    let theta = &learner.solution()?.theta;
    let covariance = Covariance::of(learner)?;
    let gradients: Vec<_> = tasks.iter().map(|s| s.gradient(theta)).collect::<Result<_>>()?;
    let halves: Vec<Vec<Vec<f64>>> = gradients
        .iter()
        .map(|g| (0..theta.targets()).map(|k| covariance.half(g.column(k))).collect())
        .collect();
    let inner = |a: &[Vec<f64>], b: &[Vec<f64>]| -> f64 {
        a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| a * b).sum()
    };
    Ok(halves.iter().map(|a| halves.iter().map(|b| -inner(a, b)).collect()).collect())
}

/// Does a task that has just arrived agree with memory? Chow's test of memory against the newcomer, one
/// result for each target, before anything is learned.
///
/// # Errors
/// When shapes differ, or compact memory was folded with weights other than samples.
#[doc(hidden)] // for tests
pub fn drift(learner: &Learner, incoming: &Summary) -> Result<Vec<ChowTest>> {
    if learner.records().is_empty() {
        return Err(Error::NotLearned);
    }
    if is_even(learner)? {
        return against(learner, &by_samples(learner)?, incoming);
    }
    let tasks = learner.summaries().ok_or_else(|| Error::Unsupported {
        operation: "the drift test",
        reason: "compact memory was folded with weights other than samples; use the ledger"
            .to_owned(),
    })?;
    let (m, p) = (tasks[0].width(), tasks[0].targets());
    against(learner, &pool(m, p, tasks.iter().map(|s| (&**s, 1.0)))?, incoming)
}

/// Whether every sample counts the same, so that the pool is the sum of all rows.
pub(crate) fn is_even(learner: &Learner) -> Result<bool> {
    let samples = learner.samples();
    let even = |t: &TaskReport| (t.weight * samples - t.samples).abs() <= 1e-9 * t.samples;
    let by_samples = learner.settings().prefer == Preference::Samples
        && learner.records().iter().all(|record| (record.weight - 1.0).abs() <= 1e-12);
    Ok(by_samples || learner.tasks()?.iter().all(even))
}

/// The pool of a learner in which every sample counts the same, on the scale of its samples.
pub(crate) fn by_samples(learner: &Learner) -> Result<Summary> {
    let pooled = &learner.pool()?.quadratic;
    pooled.scale(learner.samples() / pooled.n())
}

/// Chow's test of rows against a memory; the weights on record are those of `learner`.
pub(crate) fn against(
    learner: &Learner,
    memory: &Summary,
    incoming: &Summary,
) -> Result<Vec<ChowTest>> {
    incoming.check_sizes("the incoming task", memory.width(), memory.targets())?;
    // Of the counts on record: a folded pool is scaled back to its samples, with rounding.
    let missing = MissingReason::of_summaries(learner)
        .or_else(|| MissingReason::of_weights(std::iter::once(incoming)));
    let rows = memory.n() + incoming.n();
    compare(&[memory, incoming], learner.accumulator(), missing, rows)
}

pub(crate) fn per_task(learner: &Learner) -> Result<Vec<Cow<'_, Summary>>> {
    match learner.every_summary("a report on single tasks")? {
        none if none.is_empty() => Err(Error::NotLearned),
        tasks => Ok(tasks),
    }
}
