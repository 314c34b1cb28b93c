//! `pmfcl prefer`, `pmfcl set` and `pmfcl unlearn`: changes to a model without its data.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pmfcl::{Error, Learner, MemoryKind, Preference, Ridge};
use pmfcl_file::{Access, Store};
use pmfcl_ingest::{ColumnSelection, summarize_again};

use crate::show::{document, task_reports};
use pmfcl_terminal::{Reading, Table, answer, cut, expand, maybe, short};

/// Change the weights of the tasks, without their data.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl prefer sales.pmf north=0.7 south=0.3
  pmfcl prefer sales.pmf --equal
  pmfcl prefer sales.pmf --decay 0.9             (each task counts 0.9 times as much as the next)
  pmfcl prefer sales.pmf --budget north=1500     (the forgetting of north, as `pmfcl show` prints it,
                                                  may be at most 1500)")]
pub(crate) struct Prefer {
    /// The model file.
    model: PathBuf,
    /// TASK=WEIGHT for each task that counts; weights sum to 1.
    #[arg(value_name = "TASK=WEIGHT", group = "way")]
    weights: Vec<String>,
    /// Every sample counts the same.
    #[arg(long, group = "way")]
    samples: bool,
    /// Every task counts the same.
    #[arg(long, group = "way")]
    equal: bool,
    /// Each task counts G times as much as the next one; G is above 0 and at most 1.
    #[arg(long, value_name = "G", group = "way")]
    decay: Option<f64>,
    /// The most a task may forget, in the units of `pmfcl show`; several with commas. The others keep their proportions. A
    /// budget that no weights can keep is refused, and the error states the smallest one that can be kept.
    #[arg(long, value_name = "TASK=LOSS", value_delimiter = ',', group = "way")]
    budget: Vec<String>,
}

impl Prefer {
    pub(crate) fn run(&self) -> Result<()> {
        let preference = self.preference()?;
        let budgets = pairs(&self.budget)?;
        if preference.is_none() && budgets.is_empty() {
            bail!(
                "no weights are given: use TASK=WEIGHT …, --samples, --equal, --decay G, or --budget TASK=LOSS"
            );
        }
        change(&self.model, |learner| {
            if let Some(preference) = preference {
                learner.prefer(preference)?;
            }
            if !budgets.is_empty() {
                learner.prefer_budgets(&budgets)?;
            }
            Ok(())
        })
    }

    fn preference(&self) -> Result<Option<Preference>> {
        if self.samples {
            return Ok(Some(Preference::Samples));
        }
        if self.equal {
            return Ok(Some(Preference::Equal));
        }
        if let Some(g) = self.decay {
            return Ok(Some(Preference::Decay(g)));
        }
        if self.weights.is_empty() {
            return Ok(None);
        }
        Ok(Some(Preference::Chosen(pairs(&self.weights)?)))
    }
}

/// Change a setting of a model, without its data.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl set sales.pmf --ridge 0.1
  pmfcl set sales.pmf --ridge auto")]
pub(crate) struct Set {
    /// The model file.
    model: PathBuf,
    /// (X/2)·‖θ‖² on the mean loss, intercept free; auto chooses it from the summaries, 0 is minimum norm.
    #[arg(long, value_name = "X|auto", required = true)]
    ridge: Ridge,
}

impl Set {
    pub(crate) fn run(&self) -> Result<()> {
        change(&self.model, |learner| {
            let standardize = learner.settings().standardize;
            Ok(learner.set_ridge(self.ridge.clone(), standardize)?)
        })
    }
}

/// Changes a model, writes it with its new solution, and prints what the change does to the tasks.
fn change(path: &Path, change: impl FnOnce(&mut Learner) -> Result<()>) -> Result<()> {
    let (mut store, mut model) = Store::open(path, Access::Write)?;
    store.load(&mut model)?;
    let before = task_reports(&model)?;
    change(&mut model.learner)?;
    model.learner.solution()?;
    store.commit(&mut model)?;
    let after = task_reports(&model)?;
    let mut table = Table::new(
        &format!("{}: what the change does", path.display()),
        &["task", "weight before", "after", "forgetting before", "after"],
    );
    for (a, b) in before.iter().zip(&after) {
        let lost = |t: &pmfcl::TaskReport| maybe(t.forgetting.or(t.bound));
        table.row([cut(&a.name, 20), short(a.weight), short(b.weight), lost(a), lost(b)]);
    }
    answer(&document(&model, &after), &table.text())
}

/// `TASK=NUMBER` pairs; the last `=` counts, so that names may hold one.
fn pairs(list: &[String]) -> Result<Vec<(String, f64)>> {
    list.iter()
        .map(|text| {
            let (name, value) = text
                .rsplit_once('=')
                .with_context(|| format!("'{text}' is not of the form TASK=NUMBER"))?;
            let value: f64 =
                value.parse().with_context(|| format!("'{value}' in '{text}' is not a number"))?;
            Ok((name.to_owned(), value))
        })
        .collect()
}

/// Remove a task exactly, as if it had never been learned.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl unlearn sales.pmf 2024-03
  pmfcl unlearn compact.pmf patient-7 --data patient-7.csv   (compact memory needs the rows once more)")]
pub(crate) struct Unlearn {
    /// The model file.
    model: PathBuf,
    /// The task to remove.
    task: String,
    /// Its rows, where compact memory has merged it with the others.
    #[arg(long, value_name = "FILE")]
    data: Vec<String>,
    #[command(flatten)]
    reading: Reading,
}

impl Unlearn {
    pub(crate) fn run(&self) -> Result<()> {
        let (mut store, mut model) = Store::open(&self.model, Access::Write)?;
        if !self.data.is_empty() && model.learner.settings().memory == MemoryKind::Ledger {
            bail!(
                "{0}: the model keeps the summary of every task (--memory ledger), and rows cannot be removed from one yet; `pmfcl unlearn {0} {1}` without --data removes the whole task `{1}`",
                self.model.display(),
                self.task
            );
        }
        store.load(&mut model)?;
        if self.data.is_empty() {
            let done = model.learner.unlearn(&self.task);
            done.map_err(|error| match error {
                Error::Unsupported { .. } if model.learner.is_folded() => anyhow::anyhow!(
                    "compact memory has merged `{0}` with the other tasks; give its rows once more: pmfcl unlearn {1} {0} --data FILE",
                    self.task,
                    self.model.display()
                ),
                other => other.into(),
            })?;
        } else {
            let mut paths = Vec::new();
            for argument in &self.data {
                paths.extend(expand(argument)?);
            }
            let files = self.reading.files(paths)?;
            let summary = summarize_again(&model, &files, &ColumnSelection::default())?;
            model.learner.unlearn_summary(&self.task, &summary)?;
        }
        if !model.learner.records().is_empty() {
            model.learner.solution()?;
        }
        store.commit(&mut model)?;
        let tasks = task_reports(&model)?;
        // A category or class of this task alone is an input that counts for nothing now.
        let named = model.schema.has_text() || model.learner.problem().predicts_classes();
        let words = format!(
            "unlearned {}: {} tasks are left; {} no longer holds anything of its rows{}\n",
            self.task,
            tasks.len(),
            self.model.display(),
            if named { " but the names of categories and classes" } else { "" }
        );
        answer(&document(&model, &tasks), &words)
    }
}
