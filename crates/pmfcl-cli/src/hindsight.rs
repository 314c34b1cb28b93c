//! `pmfcl prefer`, `pmfcl set` and `pmfcl unlearn`: changes to a model without its data.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pmfcl::{Error, Preference, Ridge};
use pmfcl_file::{Access, AuditEntry, Coding, ColumnNames, Model, Store};
use pmfcl_ingest::{ColumnSelection, summarize_again};

use crate::missing;
use crate::receipt::{Receipt, file_hash, now};
use crate::show::{document, task_reports};
use crate::sign_key::SignKey;
use pmfcl_terminal::{
    Reading, Table, answer, cut, ending_in, expand, grouped, maybe, short, write,
};

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
        change(&self.model, |model| {
            if let Some(preference) = preference {
                model.learner.prefer(preference)?;
            }
            if !budgets.is_empty() {
                model.learner.prefer_budgets(&budgets)?;
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
  pmfcl set sales.pmf --ridge auto
  pmfcl set sales.pmf --coding reference
  pmfcl set sales.pmf --basis chosen   (of --basis auto: drop the other candidates)")]
pub(crate) struct Set {
    /// The model file.
    model: PathBuf,
    /// (X/2)·‖θ‖² on the mean loss, intercept free; auto chooses it from the summaries, 0 is minimum norm.
    #[arg(long, value_name = "X|auto", required_unless_present_any = ["coding", "basis"])]
    ridge: Option<Ridge>,
    /// What coefficients of categories are relative to: onehot (nothing), reference (the first category of the column) or sum
    /// (the mean of its categories). Predictions stay as they are.
    #[arg(long, value_name = "KIND")]
    coding: Option<Coding>,
    /// Keep the candidate of `auto` that was chosen and drop the others for good.
    #[arg(long, value_name = "chosen", value_parser = ["chosen"])]
    basis: Option<String>,
}

impl Set {
    pub(crate) fn run(&self) -> Result<()> {
        change(&self.model, |model| {
            if let Some(coding) = self.coding {
                model.schema.coding = coding;
                model.check_coding()?;
            }
            if let Some(ridge) = &self.ridge {
                let standardize = model.learner.settings().standardize;
                model.learner.set_ridge(ridge.clone(), standardize)?;
            }
            if self.basis.is_some() {
                model.learner.keep_chosen()?;
            }
            Ok(())
        })
    }
}

/// Changes a model, writes it with its new solution, and prints what the change does to the tasks.
fn change(path: &Path, change: impl FnOnce(&mut Model) -> Result<()>) -> Result<()> {
    let (mut store, mut model) = Store::open(path, Access::Write)?;
    store.load(&mut model)?;
    let before = task_reports(&model)?;
    change(&mut model)?;
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

/// Remove a task, or rows of it, exactly: as if they had never been learned.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl unlearn sales.pmf 2024-03
  pmfcl unlearn visits.pmf 2024-03 --data patient-7.csv --receipt patient-7.json   (these rows of the task)
  pmfcl verify visits.pmf --receipt patient-7.json
  pmfcl unlearn compact.pmf 2024-03 --data 2024-03.csv   (compact memory needs all rows once more)")]
pub(crate) struct Unlearn {
    /// The model file.
    model: PathBuf,
    /// The task to remove.
    task: String,
    /// Remove these rows of the task only. Compact memory, which has merged its tasks, needs all rows of the task.
    #[arg(long, value_name = "FILE")]
    data: Vec<String>,
    /// Columns of the data that are not features.
    #[arg(long, value_delimiter = ',', value_name = "COLS")]
    exclude: Vec<String>,
    /// Write a statement of what was removed to this .json file; `pmfcl verify MODEL --receipt FILE` checks it.
    #[arg(long, value_name = "FILE", value_parser = ending_in(&[".json"]))]
    receipt: Option<PathBuf>,
    /// The ed25519 key to sign the receipt with, PKCS#8 PEM as `openssl genpkey -algorithm ed25519` writes it. By default
    /// pmfcl/sign-key.pem in the user's configuration, which is made when first needed.
    #[arg(long, value_name = "FILE", requires = "receipt")]
    sign_key: Option<PathBuf>,
    /// Keep the name of the task in the audit table of the model.
    #[arg(long)]
    audit_name: bool,
    #[command(flatten)]
    reading: Reading,
}

impl Unlearn {
    pub(crate) fn run(&self) -> Result<()> {
        let (mut store, mut model) = Store::open(&self.model, Access::Write)?;
        // A key that cannot be used is reported before anything is removed.
        let key = match &self.receipt {
            Some(_) => Some(SignKey::load(self.sign_key.as_deref())?),
            None => None,
        };
        let before = self.receipt.as_ref().map(|_| file_hash(&self.model)).transpose()?;
        store.load(&mut model)?;
        let known = model.learner.records().iter().find(|record| record.name == self.task);
        let mut removed = known.map(|record| record.head.clone());
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
            missing::check(&model, &self.reading)?;
            let selection =
                ColumnSelection { exclude: self.exclude.clone(), ..ColumnSelection::default() };
            let summary = summarize_again(&model, &files, &selection)?;
            let names = ColumnNames::of(&model.schema, &model.learner);
            let done = model.learner.unlearn_rows(&self.task, &summary);
            done.map_err(|error| removal_error(&model, &names, &error))?;
            removed = Some(summary.head);
        }
        let rows_only = model.learner.contains(&self.task);
        let entry = AuditEntry {
            time: now(),
            action: if rows_only { "unlearn rows" } else { "unlearn task" }.to_owned(),
            task: self.audit_name.then(|| self.task.clone()),
            rows: removed.as_ref().and_then(|head| head.rows),
            content: removed.as_ref().and_then(|head| head.content),
        };
        store.audit(entry.clone());
        // Rows that wait to be measured are measured before their inputs are renumbered.
        model.learner.measure()?;
        model.purge_categories()?;
        if !model.learner.records().is_empty() {
            model.learner.solution()?;
        }
        store.commit(&mut model)?;
        let tasks = task_reports(&model)?;
        // Memory that has merged its tasks cannot tell which categories and classes are left.
        let named = model.learner.is_folded()
            && (model.schema.has_text() || model.learner.problem().predicts_classes());
        let what = match entry.rows {
            Some(rows) if rows_only => format!("{} rows of {}", grouped(rows as f64), self.task),
            _ if rows_only => format!("rows of {}", self.task),
            _ => self.task.clone(),
        };
        let mut words = format!(
            "unlearned {what}: {} tasks are left; {} no longer holds anything of {} rows{}\n",
            tasks.len(),
            self.model.display(),
            if rows_only { "these" } else { "its" },
            if named { " but the names of categories and classes" } else { "" }
        );
        // The file is complete when it is closed.
        drop(store);
        if let (Some(path), Some(before), Some(key)) = (&self.receipt, before, &key) {
            let receipt = Receipt::new(&self.model, &entry, &before, &file_hash(&self.model)?, key);
            write(path, receipt.text().as_bytes())?;
            words.push_str(&format!(
                "{}: the receipt, signed by {}\n",
                path.display(),
                receipt.fingerprint()
            ));
        }
        answer(&document(&model, &tasks), &words)
    }
}

/// Why rows cannot be removed, with columns by name.
fn removal_error(model: &Model, names: &ColumnNames, error: &Error) -> anyhow::Error {
    let message = names.message(error, true);
    let few = message.contains("of some direction would remain");
    if few && model.schema.has_text() {
        return anyhow::anyhow!(
            "{message}; this is so where the rows are all of a category that the task has: unlearn the whole task and learn \
             its other rows again"
        );
    }
    anyhow::anyhow!(message)
}
