//! `pmfcl prefer` and `pmfcl unlearn`: changing one's mind without the data.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pmfcl::{Error, Learner, MemoryKind, Preference, Ridge, pareto};
use pmfcl_file::{Access, Change, Learned, Model, Store, Word};
use pmfcl_ingest::{Wish, summarize_again};
use pmfcl_lab::Table;

use crate::data::{Reading, expand};
use crate::show::{document, task_reports};
use crate::terminal::{answer, cut, maybe, short};

/// Weigh the tasks otherwise, in hindsight; or choose another ridge.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl prefer sales.pmf north=0.7 south=0.3
  pmfcl prefer sales.pmf --equal
  pmfcl prefer sales.pmf --budget north=0.02     (north may lose at most 0.02)
  pmfcl prefer sales.pmf --ridge 0.1")]
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
    /// A task counts G times less with every task after it.
    #[arg(long, value_name = "G", group = "way")]
    decay: Option<f64>,
    /// The most a task may lose; several with commas. The others count as they do now.
    #[arg(long, value_name = "TASK=LOSS", value_delimiter = ',', group = "way")]
    budget: Vec<String>,
    /// Another ridge.
    #[arg(long, value_name = "X|auto", value_parser = <Ridge as Word>::parse)]
    ridge: Option<Ridge>,
}

impl Prefer {
    pub(crate) fn run(&self) -> Result<()> {
        let (mut store, mut model) = Store::open(&self.model, Access::Write)?;
        store.load(&mut model)?;
        let before = task_reports(&model)?;
        let preference = self.preference(&model)?;
        if preference.is_none() && self.ridge.is_none() {
            bail!(
                "say how to weigh the tasks: TASK=WEIGHT …, --samples, --equal, --decay G, --budget TASK=LOSS, or --ridge X"
            );
        }
        if let Some(preference) = preference {
            match &mut model.learned {
                Learned::Regression(learner) => learner.prefer(preference).map(|_| ())?,
                Learned::Classification(classifier) => classifier.prefer(preference)?,
            }
        }
        if let Some(ridge) = self.ridge {
            let standardize = model.learner().settings().standardize;
            match &mut model.learned {
                Learned::Regression(learner) => {
                    learner.set_ridge(ridge, standardize).map(|_| ())?;
                }
                Learned::Classification(classifier) => classifier.set_ridge(ridge, standardize)?,
            }
        }
        store.commit(&mut model, Change::Solution)?;
        let after = task_reports(&model)?;
        let mut table = Table::new(
            &format!("{}: what the change does", self.model.display()),
            &["task", "weight before", "after", "forgetting before", "after"],
        );
        for (a, b) in before.iter().zip(&after) {
            let lost = |t: &pmfcl::TaskReport| maybe(t.forgetting.or(t.bound));
            table.row([cut(&a.name, 20), short(a.weight), short(b.weight), lost(a), lost(b)]);
        }
        answer(&document(&model, &after), &table.text())
    }

    fn preference(&self, model: &Model) -> Result<Option<Preference>> {
        if self.samples {
            return Ok(Some(Preference::Samples));
        }
        if self.equal {
            return Ok(Some(Preference::Equal));
        }
        if let Some(g) = self.decay {
            return Ok(Some(Preference::Decay(g)));
        }
        if !self.budget.is_empty() {
            return budgeted(model.learner(), &pairs(&self.budget)?).map(Some);
        }
        if self.weights.is_empty() {
            return Ok(None);
        }
        Ok(Some(Preference::Chosen(pairs(&self.weights)?)))
    }
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

/// The weights under which no budgeted task loses more than its budget.
fn budgeted(learner: &Learner, budgets: &[(String, f64)]) -> Result<Preference> {
    let names: Vec<&str> = learner.names().collect();
    let mut places = Vec::with_capacity(budgets.len());
    for (name, budget) in budgets {
        let at = names.iter().position(|n| n == name).ok_or_else(|| Error::UnknownTask {
            name: name.clone(),
            known: names.iter().take(8).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "),
        })?;
        places.push((at, *budget));
    }
    let Some(summaries) = learner.summaries() else {
        bail!(
            "a budget needs the summaries of single tasks, which compact memory has merged; use the ledger"
        );
    };
    let tasks: Vec<_> = summaries.iter().collect();
    let alpha: Vec<f64> = learner.tasks()?.iter().map(|t| t.weight).collect();
    let chosen = pareto::budget(&tasks, &alpha, &places, learner.settings().intercept)?;
    let sum: f64 = chosen.alpha.iter().sum();
    let list = names.iter().zip(&chosen.alpha).map(|(n, a)| ((*n).to_owned(), a / sum));
    Ok(Preference::Chosen(list.collect()))
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
        if !self.data.is_empty() && model.learner().settings().memory == MemoryKind::Ledger {
            bail!(
                "{0}: the model keeps the summary of every task (--memory ledger), and rows cannot be removed from one yet; `pmfcl unlearn {0} {1}` without --data removes the whole task `{1}`",
                self.model.display(),
                self.task
            );
        }
        store.load(&mut model)?;
        if self.data.is_empty() {
            let done = match &mut model.learned {
                Learned::Regression(learner) => learner.unlearn(&self.task),
                Learned::Classification(classifier) => classifier.unlearn(&self.task),
            };
            done.map_err(|error| match error {
                Error::Unsupported { .. } if model.learner().is_folded() => anyhow::anyhow!(
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
            let summary = summarize_again(&model, &files, &Wish::default())?;
            match &mut model.learned {
                Learned::Regression(learner) => learner.unlearn_summary(&self.task, &summary)?,
                Learned::Classification(classifier) => {
                    classifier.unlearn_summary(&self.task, &summary)?;
                }
            }
        }
        store.commit(&mut model, Change::All)?;
        let tasks = task_reports(&model)?;
        // A category or class of this task alone is an input that counts for nothing now.
        let named = model.schema.has_text() || model.classifier().is_some();
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
