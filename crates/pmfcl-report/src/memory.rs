//! The size of the memory, and the rows it replaces.

use pmfcl::{MemoryKind, Outcome};

use crate::html::{Text, cut, label};
use crate::number;
use crate::study::Study;

/// Tasks with a bar of their own.
const BARS: usize = 24;

/// Bytes of the rows the model has seen, had they been kept: features and targets, eight bytes each.
pub(crate) fn row_bytes(study: &Study<'_>) -> f64 {
    let inputs = study.subject.learner.design().map_or(0, pmfcl::Design::inputs);
    // A class takes one number, however many classes there are.
    let learner = study.subject.learner;
    let targets =
        if learner.problem().predicts_classes() { 1 } else { study.subject.targets.len() };
    learner.samples() * (inputs + targets) as f64 * 8.0
}

/// Bytes of the memory.
pub(crate) fn state_bytes(study: &Study<'_>) -> f64 {
    study.subject.learner.state_bytes() as f64
}

pub(crate) fn html(study: &Study<'_>) -> String {
    let settings = study.subject.learner.settings();
    let (state, rows) = (state_bytes(study), row_bytes(study));
    let folded = study.summaries.is_none();
    let kind = match (settings.memory, folded) {
        (MemoryKind::Ledger, _) => {
            "ledger: one summary per task, so preferences can change in hindsight and tasks can be \
             unlearned by name"
        }
        (MemoryKind::Compact, true) => {
            "compact: all tasks are folded into one summary, which grows no more"
        }
        (MemoryKind::Compact, false) => {
            "compact, not folded yet: the summaries of the tasks together are still smaller than one \
             folded summary"
        }
    };
    let outcome = match study.solution.outcome {
        Outcome::Unique if study.solution.rank() < study.width() => "the ridge settles the rest",
        Outcome::Unique => "one best model",
        Outcome::MinimumNorm => "many equally good models; the shortest was taken",
    };
    let mut out = format!(
        "<dl class=\"facts\"><div><dt>Memory</dt><dd>{kind}</dd></div>\
         <div><dt>Size</dt><dd>{} instead of {} of rows ({})</dd></div>\
         <div><dt>Design columns</dt><dd>{}, of which the rows determine {} ({outcome})</dd></div>\
         <div><dt>Ridge</dt><dd>{}</dd></div></dl>\n",
        number::bytes(state),
        number::bytes(rows),
        number::percent(state / rows),
        number::grouped(study.width() as f64),
        number::grouped(study.solution.rank() as f64),
        ridge(study),
    );
    if folded {
        out.push_str(
            "<p class=\"note\">The register below still knows how many samples and which least loss each \
             task had when it was learned.</p>",
        );
        return out;
    }
    let most = study.tasks.iter().map(|task| task.bytes).max().unwrap_or(1).max(1) as f64;
    out.push_str("<ul class=\"sizes\" aria-label=\"Bytes of each task\">\n");
    for task in study.tasks.iter().take(BARS) {
        out.push_str(&format!(
            "<li><span class=\"who\" title=\"{}\">{}</span><span class=\"track\"><i style=\"width:{:.1}%\"></i></span>\
             <span class=\"n\">{}</span></li>\n",
            Text(&task.name),
            Text(&cut(label(&task.name), 17)),
            100.0 * task.bytes as f64 / most,
            number::bytes(task.bytes as f64),
        ));
    }
    out.push_str("</ul>\n");
    if study.tasks.len() > BARS {
        out.push_str(&format!(
            "<p class=\"note\">The first {BARS} of {} tasks; a summary is at most as large as the triangle \
             of its columns, however many rows it stands for.</p>\n",
            number::grouped(study.tasks.len() as f64)
        ));
    }
    out
}

fn ridge(study: &Study<'_>) -> String {
    if let Some(what) = study.about.shrunk {
        let facts = study.subject.learner.facts().unwrap_or_default();
        let share = facts.iter().find(|(name, _)| *name == "shrinkage");
        let share = share.map_or("–".to_owned(), |(_, share)| number::percent(*share));
        return format!("none; {what} is shrunk by {share}");
    }
    let penalty = &study.solution.penalty;
    if penalty.ridge() <= 0.0 {
        return "none".to_owned();
    }
    let scaled = if penalty.standardize() { ", times the variance of each column" } else { "" };
    let ridge = match penalty.own_ridges() {
        Some(own) => own.iter().map(|x| number::short(*x)).collect::<Vec<_>>().join(", "),
        None => number::short(penalty.ridge()),
    };
    format!("{ridge} on the mean loss{scaled}")
}
