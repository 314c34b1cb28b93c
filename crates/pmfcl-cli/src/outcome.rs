//! What is printed after tasks were learned.

use std::path::Path;

use anyhow::Result;
use pmfcl::Learner;
use pmfcl_file::Model;
use pmfcl_terminal::{answer, bytes, closed_pipe, grouped, note, print_text, short, verbosity};
use serde_json::{Value, json};

/// The result of `learn`.
pub(crate) struct Done {
    document: Value,
    words: String,
}

impl Done {
    /// Prints it, as JSON where that was asked for.
    pub(crate) fn answer(&self) -> Result<()> {
        answer(&self.document, &self.words)
    }

    /// One more entry of the document.
    pub(crate) fn add(&mut self, name: &str, value: Value) {
        self.document[name] = value;
    }

    /// Prints the text, unless JSON or nothing was asked for.
    pub(crate) fn print(&self) {
        if !verbosity().json && !verbosity().quiet {
            // A closed pipe is no reason to fail after the work is done.
            let _ = print_text(&self.words);
        }
    }
}

/// What is answered after tasks were learned, or would have been.
pub(crate) fn outcome(path: &Path, model: &Model, dry_run: bool, learned: &[Value]) -> Done {
    let learner = &model.learner;
    let forgetting = MeanForgetting::of(learner);
    let mut document = json!({
        "model": path.display().to_string(),
        "learned": if dry_run { &[] } else { learned },
        "tasks": learner.records().len(),
        "samples": learner.samples(),
        "state_bytes": model.state_bytes(),
    });
    if dry_run {
        document["would_learn"] = json!(learned);
    }
    forgetting.enter(&mut document);
    learner.warnings().iter().for_each(|warning| note(warning));
    let words = format!(
        "{}{}: {} tasks, {} samples, {} of memory{}\n",
        if dry_run { "nothing was changed; afterwards " } else { "" },
        path.display(),
        learner.records().len(),
        grouped(learner.samples()),
        bytes(model.state_bytes()),
        forgetting.words(),
    );
    Done { document, words }
}

/// Reports that a task is safe.
pub(crate) fn report_task(model: &Model, name: &str, done: &str) -> Result<Value> {
    // Somebody else may have learned a task since.
    let Some(record) = model.learner.records().iter().rfind(|r| r.name == name) else {
        return Ok(Value::Null);
    };
    let known = !model.learner.problem().description().least_squares_stand_in;
    let least = record.head.least.value().filter(|_| known);
    if !verbosity().json && !verbosity().quiet {
        let tail = match (least, model.learner.is_exact()) {
            (Some(least), true) => format!(", least loss {}", short(least)),
            (Some(least), false) => format!(", least loss at least {}", short(least)),
            (None, _) => String::new(),
        };
        let printed = print_text(&format!(
            "{done} {name}: {} samples, rank {}{tail}\n",
            grouped(record.head.samples),
            record.rank
        ));
        // Where nobody listens any more, learning goes on.
        printed.or_else(|error| if closed_pipe(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(json!({
        "name": name,
        "samples": record.head.samples,
        "rows": record.head.rows,
        "rank": record.rank,
        "min_loss": least,
        "outcome": record.head.outcome.to_string(),
    }))
}

/// The mean forgetting under the preference: itself, or a bound on it. None where the summaries kept do not determine it.
pub(crate) enum MeanForgetting {
    Value(Option<f64>),
    Bound { value: Option<f64>, guaranteed: bool },
}

impl MeanForgetting {
    pub(crate) fn of(learner: &Learner) -> Self {
        let value = learner.mean_forgetting().ok();
        if learner.is_exact() {
            return Self::Value(value);
        }
        let guaranteed = learner.records().iter().all(|r| r.head.exactness.guaranteed());
        Self::Bound { value, guaranteed }
    }

    /// Into a document: a bound is not written as a value.
    pub(crate) fn enter(&self, document: &mut Value) {
        match self {
            Self::Value(value) => document["mean_forgetting"] = json!(value),
            Self::Bound { value, .. } => {
                document["mean_forgetting"] = Value::Null;
                document["mean_forgetting_bound"] = json!(value);
            }
        }
    }

    /// For the end of a line.
    fn words(&self) -> String {
        match self {
            Self::Value(Some(value)) => format!(", mean forgetting {}", short(*value)),
            Self::Bound { value: Some(value), guaranteed: true } => {
                format!(", mean forgetting at most {}", short(*value))
            }
            Self::Bound { value: Some(value), guaranteed: false } => {
                format!(", mean forgetting estimated to be at most {}", short(*value))
            }
            Self::Value(None) | Self::Bound { value: None, .. } => String::new(),
        }
    }
}
