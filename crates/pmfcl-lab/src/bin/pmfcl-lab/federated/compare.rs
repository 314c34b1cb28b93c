//! The notes on the other methods, under their numbers.

use super::Line;
use super::rates::Search;
use super::rivals::{Averaged, BATCH, Carry, Rival};
use super::stage::Stage;
use pmfcl_terminal::{bytes, cut, maybe, short};

/// The errors of a model after a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Errors {
    /// On the test rows of all steps so far.
    pub(super) all: f64,
    /// On those of the newest step alone; not a number where it has none.
    pub(super) newest: f64,
}

impl Errors {
    pub(super) fn of(stage: &Stage, outputs: &[f64], tested: &[usize], step: usize) -> Self {
        Self {
            all: stage.error(outputs, tested),
            newest: stage.error_of_step(outputs, tested, step),
        }
    }
}

/// How the rival was run.
pub(super) fn fedavg_note(rival: Option<&Rival>) -> String {
    let Some(Rival { all: search, .. }) = rival else {
        return "FedAvg: left out (--rounds 0).".to_owned();
    };
    let (least, most) = search.range;
    let Some((rate, run)) = &search.best else {
        return format!(
            "FedAvg: diverged at each of {} rates from {least} to {most}.",
            search.tried
        );
    };
    let end = if search.inside {
        ""
    } else {
        "; that is an end of the grid, which was extended as far as it goes"
    };
    format!(
        "FedAvg: linear on the same design, {} rounds per step of one epoch in batches of {BATCH} among those present; inputs and targets standardized by their means and deviations over all steps so far, parameters {} when these change. Rate {rate}, the best on the test rows of {} from {least} to {most}{end}. {} up and down per client and step.",
        run.rounds,
        match run.carry {
            Carry::Rewritten => "rewritten to predict the same",
            Carry::Kept => "kept",
        },
        search.tried,
        bytes(run.bytes)
    )
}

/// The rate that was best for the newest step.
fn rate_of(search: &Search<Averaged>) -> String {
    let end = if search.inside { "" } else { ", an end of the grid" };
    let words = |(rate, _): &(f64, Averaged)| format!(" (rate {rate}, the best for that{end})");
    search.best.as_ref().map_or_else(String::new, words)
}

/// After the last step: who is better than ours, on all test rows and on those of the newest step alone.
pub(super) fn verdicts(lines: &[Line], rival: Option<&Rival>) -> Vec<String> {
    let Some(line) = lines.last() else { return Vec::new() };
    let fedavg = rival.and_then(|rival| {
        Some(Errors { all: rival.errors()?[line.at], newest: rival.newest()?[line.at] })
    });
    let mut out = Vec::new();
    let several = lines.len() > 1;
    if several {
        out.push(format!(
            "On the test rows of the newest step alone ({}): ours {}, FedAvg {}{}, local {}.",
            cut(&line.step, 24),
            short(line.ours.newest),
            maybe(fedavg.map(|e| e.newest)),
            rival.map_or_else(String::new, |rival| rate_of(&rival.newest)),
            short(line.local.newest)
        ));
    }
    let rivals = [
        (
            "FedAvg",
            fedavg,
            "it has trained on that step last, while ours weighs the rows of all steps alike",
        ),
        (
            "Every client alone",
            Some(line.local),
            "one model for all clients follows none of them closely",
        ),
    ];
    for (name, errors, why) in rivals {
        let Some(errors) = errors else { continue };
        // Below the digits shown nobody is better.
        let better = |theirs: f64, ours: f64| theirs < ours * (1.0 - 1e-5);
        let all = better(errors.all, line.ours.all);
        let newest = better(errors.newest, line.ours.newest);
        let place = match (all, newest) {
            (true, _) if !several => "on the test rows",
            (true, true) => "over all steps and on the newest",
            (true, false) => "over all steps, though not on the newest",
            (false, true) => "on the newest step, though not over all steps",
            (false, false) => continue,
        };
        let why = if several && newest { format!(": {why}") } else { String::new() };
        out.push(format!("{name} is better than ours {place}{why}."));
    }
    out
}
