//! What the paper says, and what the numbers say to it.
//!
//! A claim is a function of results: the sentence changes when they do.

mod beyond;
mod cost;
mod forgetting;
mod parameters;

use super::Outcome;

pub(crate) use cost::PAPER_SECONDS;

/// Whether a claim stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does under a condition.
    HoldsIf(String),
    /// It does not.
    Fails,
}

impl Verdict {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::Holds => "holds".to_owned(),
            Self::HoldsIf(condition) => format!("holds only if {condition}"),
            Self::Fails => "does not hold".to_owned(),
        }
    }

    /// A word for files: `holds`, `conditional`, `fails`.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsIf(_) => "conditional",
            Self::Fails => "fails",
        }
    }

    /// Holds when true, fails otherwise.
    fn of(true_or_not: bool) -> Self {
        if true_or_not { Self::Holds } else { Self::Fails }
    }

    /// Holds when all of them do, fails when none does.
    fn count(good: usize, all: usize, condition: impl FnOnce() -> String) -> Self {
        match good {
            good if good == all => Self::Holds,
            0 => Self::Fails,
            _ => Self::HoldsIf(condition()),
        }
    }
}

/// A claim with what the numbers say to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// A short name, for files.
    pub id: &'static str,
    /// Where the paper says it, by its label; or that it is ours.
    pub source: &'static str,
    /// The claim, in our words.
    pub claim: &'static str,
    /// Whether it stands.
    pub verdict: Verdict,
    /// What was found, in a sentence or two.
    pub text: String,
    /// The numbers behind it.
    pub numbers: Vec<(&'static str, f64)>,
}

/// All claims.
pub fn all(outcome: &Outcome) -> Vec<Finding> {
    let studies = &outcome.studies;
    let mut findings = vec![
        forgetting::lowest_training(studies),
        forgetting::lowest_cumulative_of_paper(studies),
        forgetting::lowest_cumulative_of_all(studies),
        forgetting::dominant_from_third(studies),
        parameters::converges(studies),
        parameters::small_ridge(studies),
        forgetting::lowest_current(studies),
        forgetting::no_recency(studies),
        forgetting::decay_for_now(studies),
        cost::memory(studies),
        cost::time(&outcome.seconds),
    ];
    findings.extend(parameters::breakdown(studies));
    findings.extend(parameters::printed(studies));
    findings.extend([
        beyond::on_front(&outcome.conflict, &outcome.shared),
        beyond::bound_fronts(&outcome.bounds),
        beyond::guarantee(&outcome.classes),
        beyond::near_joint(&outcome.classes),
        beyond::lowest_log_loss(&outcome.classes),
        beyond::merged_is_pooled(&outcome.federated),
        beyond::federated_errors(&outcome.federated),
    ]);
    findings
}

/// The findings as a page of text.
pub(super) fn markdown(outcome: &Outcome, findings: &[Finding]) -> String {
    let mut out = String::from("# The paper's experiments, run again\n\n");
    out.push_str(&super::captions::lead(outcome, findings));
    out.push_str("\n\n| claim | where | verdict | numbers |\n| --- | --- | --- | --- |\n");
    for f in findings {
        let verdict = f.verdict.words();
        out.push_str(&format!("| {} | {} | **{verdict}** | {} |\n", f.claim, f.source, f.text));
    }
    out.push_str("\n## How it was run\n\n");
    for line in super::captions::protocol(outcome) {
        out.push_str(&format!("- {line}\n"));
    }
    for table in super::tables::shown(outcome) {
        out.push_str(&format!("\n## {}\n\n{}", table.title, table.markdown()));
        for note in &table.notes {
            out.push_str(&format!("\n{note}\n"));
        }
    }
    out
}
