//! `pmfcl merge`: several models become one.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pmfcl_file::{Access, Input, Model, Store};

use crate::show::{document, task_reports};
use pmfcl_terminal::{answer, grouped};

/// Merge models that were made with the same settings into a new one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl merge all.pmf north.pmf south.pmf
  pmfcl merge all.pmf site-*.pmf --rename     (tasks of the same name become site-a/january, …)")]
pub(crate) struct Merge {
    /// The new model file.
    out: PathBuf,
    /// The models to merge.
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// Put the model's name before task names that occur twice.
    #[arg(long)]
    rename: bool,
}

impl Merge {
    pub(crate) fn run(&self) -> Result<()> {
        if self.out.exists() {
            return Err(pmfcl_file::FileError::Exists(self.out.clone()).into());
        }
        let mut opened: Vec<(PathBuf, Model)> = Vec::new();
        for path in &self.models {
            let (mut store, mut model) = Store::open(path, Access::Read)?;
            store.load(&mut model)?;
            if model.learner.records().is_empty() {
                bail!("{}: this model has learned nothing; leave it out", path.display());
            }
            opened.push((path.clone(), model));
        }
        let mut taken: HashSet<String> = HashSet::new();
        for (path, model) in &mut opened {
            self.rename_twins(path, model, &mut taken)?;
        }
        let mut rest = opened.into_iter();
        let Some((first, mut sum)) = rest.next() else { bail!("no models are named") };
        for (path, model) in rest {
            join(&mut sum, model).with_context(|| {
                format!("{} and {} cannot be merged", first.display(), path.display())
            })?;
        }
        Store::create(&self.out, &sum)?;
        let tasks = task_reports(&sum)?;
        let words = format!(
            "{}: {} tasks, {} samples from {} models\n",
            self.out.display(),
            tasks.len(),
            grouped(sum.learner.samples()),
            self.models.len()
        );
        answer(&document(&sum, &tasks), &words)
    }

    fn rename_twins(
        &self,
        path: &Path,
        model: &mut Model,
        taken: &mut HashSet<String>,
    ) -> Result<()> {
        let names: Vec<String> = model.learner.names().map(str::to_owned).collect();
        let stem = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        for name in names {
            if taken.insert(name.clone()) {
                continue;
            }
            if !self.rename {
                bail!(
                    "{}: the task `{name}` is in another of the models too; with --rename it becomes `{stem}/{name}`",
                    path.display()
                );
            }
            let new = format!("{stem}/{name}");
            model.learner.rename(&name, &new)?;
            if !taken.insert(new.clone()) {
                bail!("{}: the task `{new}` is there twice; rename the model file", path.display());
            }
        }
        Ok(())
    }
}

/// Adds a model to another, with its inputs put where the other has them.
fn join(sum: &mut Model, mut other: Model) -> Result<()> {
    let classes = |model: &Model| model.learner.problem().predicts_classes();
    if sum.loss() != other.loss() || classes(sum) != classes(&other) {
        bail!("the loss differs ({} against {})", describe(sum), describe(&other));
    }
    if sum.schema.targets != other.schema.targets {
        bail!(
            "the target differs ({} against {})",
            sum.schema.targets.join(","),
            other.schema.targets.join(",")
        );
    }
    if sum.schema.missing != other.schema.missing {
        bail!(
            "what becomes of missing values differs (--missing {} against {})",
            sum.schema.missing,
            other.schema.missing
        );
    }
    let mut places = Vec::with_capacity(other.schema.columns.len());
    for column in &other.schema.columns {
        let Some(at) = sum.schema.column(&column.name) else {
            bail!("the column '{}' is in one of them only", column.name);
        };
        if sum.schema.columns[at].kind != column.kind {
            bail!("the column '{}' holds something else in each", column.name);
        }
        places.push(at);
    }
    if let Some(lone) = sum.schema.columns.iter().find(|c| other.schema.column(&c.name).is_none()) {
        bail!("the column '{}' is in one of them only", lone.name);
    }
    let moved: Vec<Input> = other
        .schema
        .inputs
        .iter()
        .map(|input| match input {
            Input::Value { column } => Input::Value { column: places[*column] },
            Input::Part { column, place } => Input::Part { column: places[*column], place: *place },
            Input::Category { column, value } => {
                Input::Category { column: places[*column], value: value.clone() }
            }
            Input::Missing { column } => Input::Missing { column: places[*column] },
        })
        .collect();
    let before = sum.schema.inputs.len();
    let mut inputs = sum.schema.inputs.clone();
    inputs.extend(moved.iter().filter(|i| !sum.schema.inputs.contains(i)).cloned());
    let spots: Vec<usize> =
        moved.iter().map(|i| inputs.iter().position(|known| known == i).unwrap_or(0)).collect();
    let count = inputs.len();
    let in_place = count == moved.len() && spots.iter().enumerate().all(|(i, s)| i == *s);
    if !in_place {
        other.learner.rearrange_inputs(&spots, count)?;
    }
    if count > before {
        sum.learner.extend_inputs(count - before)?;
    }
    sum.learner.merge(&other.learner)?;
    sum.schema.inputs = inputs;
    // Gaps that one of them had concern the categories of the other too.
    sum.learner.set_fills(sum.schema.fills())?;
    Ok(())
}

fn describe(model: &Model) -> String {
    let kind = if model.learner.problem().predicts_classes() { "of classes" } else { "of numbers" };
    format!("{} {kind}", model.loss())
}
