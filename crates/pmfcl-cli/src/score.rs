//! `pmfcl score`: the error of a model on data files.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use pmfcl::problem::{Evaluation, ReliabilityBin};
use pmfcl::{Rows, Targets, TaskRows};
use pmfcl_file::{Access, Model, Store};
use pmfcl_ingest::{Files, IngestError, class_name};
use pmfcl_read::{Column, Form, Wanted};
use serde_json::{Map, Value, json};

use crate::missing;
use crate::stream::{Part, Streaming, stream};
use pmfcl_terminal::{Reading, Table, answer, cut, expand, grouped, short, task_name, wrapped};

/// Score a model on data files: mse and r2, or accuracy, log-loss and calibration.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl score sales.pmf 2025-02.parquet
  pmfcl score sales.pmf all.csv --task-column month --json")]
pub(crate) struct Score {
    /// The model file.
    model: PathBuf,
    /// Data files.
    #[arg(required = true)]
    data: Vec<String>,
    /// The target column; by default the model's.
    #[arg(long, value_delimiter = ',', value_name = "COL")]
    target: Vec<String>,
    /// Column that names the task of every row: scores for each, and overall.
    #[arg(long, value_name = "COL")]
    task_column: Option<String>,
    #[command(flatten)]
    reading: Reading,
}

impl Score {
    pub(crate) fn run(&self) -> Result<()> {
        let (_, model) = Store::open(&self.model, Access::Read)?;
        if !self.target.is_empty() && self.target.len() != model.schema.targets.len() {
            bail!(
                "the model predicts {}; --target names {} columns",
                model.schema.targets.join(","),
                self.target.len()
            );
        }
        let mut tasks: Vec<(String, Evaluation)> = Vec::new();
        for argument in &self.data {
            let files = self.reading.files(expand(argument)?)?;
            self.evaluate(&model, &files, &task_name(argument), &mut tasks)?;
        }
        let mut found = tasks.iter().map(|(_, evaluation)| evaluation.clone());
        let Some(mut overall) = found.next() else { bail!("there are no rows to score") };
        found.for_each(|evaluation| overall.merge(&evaluation));
        let entries: Vec<Value> = tasks
            .iter()
            .map(|(name, evaluation)| {
                let mut entry = entry(evaluation);
                entry.insert("name".to_owned(), json!(name));
                Value::Object(entry)
            })
            .collect();
        let document = json!({ "tasks": entries, "overall": entry(&overall) });
        answer(&document, &words(&tasks, &overall))
    }

    fn evaluate(
        &self,
        model: &Model,
        files: &Files,
        name: &str,
        tasks: &mut Vec<(String, Evaluation)>,
    ) -> Result<()> {
        let classes = model.learner.problem().predicts_classes();
        let form = if classes { Form::Text } else { Form::Number };
        let targets = if self.target.is_empty() { &model.schema.targets } else { &self.target };
        let mut extra: Vec<Wanted> = targets.iter().map(|t| Wanted::new(t.clone(), form)).collect();
        extra.extend(self.task_column.iter().map(|t| Wanted::new(t.clone(), Form::Text)));
        let by = self.task_column.as_deref();
        let labels = if classes { &targets[..] } else { &[] };
        stream(
            model,
            files,
            Streaming {
                extra,
                labels,
                extra_needed: true,
                gaps: missing::gaps(model, &self.reading)?,
                ..Streaming::default()
            },
            &|part| evaluated(model, &part, targets, by),
            |parts| {
                for (task, evaluation) in parts {
                    let task = task.unwrap_or_else(|| name.to_owned());
                    match tasks.iter_mut().find(|(known, _)| *known == task) {
                        Some((_, sum)) => sum.merge(&evaluation),
                        None => tasks.push((task, evaluation)),
                    }
                }
                Ok(())
            },
        )
    }
}

/// The scores of some rows, for a JSON document.
pub(crate) fn entry(evaluation: &Evaluation) -> Map<String, Value> {
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| drop(entry.insert(name.to_owned(), value));
    put("samples", json!(evaluation.samples()));
    if evaluation.is_of_classes() {
        put("accuracy", json!(evaluation.accuracy()));
        put("log_loss", json!(evaluation.log_loss()));
        put("brier", json!(evaluation.brier()));
        put("calibration_error", json!(evaluation.calibration_error()));
        let bin = |bin: &ReliabilityBin| json!({ "samples": bin.samples, "confidence": bin.confidence, "accuracy": bin.accuracy });
        let bins: Vec<Value> = evaluation.reliability().iter().map(bin).collect();
        put("reliability", json!(bins));
        if evaluation.unknown_samples() > 0.0 {
            put("unknown_samples", json!(evaluation.unknown_samples()));
            put("unknown_auroc", json!(evaluation.unknown_auroc()));
        }
        return entry;
    }
    put("mse", json!(evaluation.mse()));
    put("r2", json!(evaluation.r2()));
    if evaluation.mse_per_target().len() > 1 {
        put("mse_per_target", json!(evaluation.mse_per_target()));
        put("r2_per_target", json!(evaluation.r2_per_target()));
    }
    entry
}

/// The evaluations of a batch, task by task; those without rows are left out.
fn evaluated(
    model: &Model,
    part: &Part<'_>,
    targets: &[String],
    by: Option<&str>,
) -> Result<Vec<(Option<String>, Evaluation)>, IngestError> {
    if part.batch.rows == 0 {
        return Ok(Vec::new());
    }
    let x = part.rows()?;
    let field =
        |name: Option<&str>| part.source.fields().iter().find(|f| Some(f.name.as_str()) == name);
    let (names, codes) = match by.map(|_| part.encoder.extra(part.batch, targets.len())) {
        Some(Column::Texts(texts)) => {
            let name = |n: &String| Some(class_name(field(by), n));
            (texts.names.iter().map(name).collect(), Some(&texts.codes))
        }
        _ => (vec![None], None),
    };
    let group = |i: usize| codes.map_or(0, |codes| codes[i] as usize);
    let cells: Vec<f64>;
    let labels: Vec<String>;
    let y = match part.encoder.extra(part.batch, 0) {
        Column::Texts(texts) => {
            let target = targets.first().map(String::as_str);
            labels = texts.names.iter().map(|n| class_name(field(target), n)).collect();
            Targets::Classes { codes: &texts.codes, names: &labels }
        }
        _ => {
            cells = values(part, targets.len());
            Targets::Values(Rows::new(&cells, targets.len())?)
        }
    };
    let rows = TaskRows { x, y, weights: None };
    let found = model.learner.evaluate_groups(rows, group, names.len())?;
    Ok(names.into_iter().zip(found).filter(|(_, found)| found.samples() > 0.0).collect())
}

/// The values of all targets, row by row.
fn values(part: &Part<'_>, targets: usize) -> Vec<f64> {
    let value = |i: usize, k: usize| match part.encoder.extra(part.batch, k) {
        Column::Numbers(values) => values[i],
        Column::Texts(_) | Column::Block { .. } => f64::NAN,
    };
    (0..part.batch.rows).flat_map(|i| (0..targets).map(move |k| value(i, k))).collect()
}

fn words(tasks: &[(String, Evaluation)], overall: &Evaluation) -> String {
    let classes = overall.is_of_classes();
    let names: &[&str] = if classes {
        &["accuracy", "log-loss", "Brier", "calibration error"]
    } else {
        &["RMSE", "mse", "R²"]
    };
    let mut table = Table::new("Scores", &[&["task", "samples"], names].concat());
    let all = ("overall".to_owned(), overall.clone());
    for (name, found) in tasks.iter().chain([&all]) {
        let scores: &[f64] = if classes {
            &[found.accuracy(), found.log_loss(), found.brier(), found.calibration_error()]
        } else {
            &[found.mse().sqrt(), found.mse(), found.r2()]
        };
        let cells = [cut(name, 32), grouped(found.samples())];
        table.row(cells.into_iter().chain(scores.iter().map(|v| short(*v))));
    }
    if overall.unknown_samples() > 0.0 {
        let rows = grouped(overall.unknown_samples());
        let area = match overall.unknown_auroc() {
            Some(area) => format!(
                "; they look more novel than a row of a learned class {:.1} % of the time (AUROC)",
                100.0 * area
            ),
            None => String::new(),
        };
        let words = format!(
            "{rows} rows are of classes the model has never learned, and count as errors{area}"
        );
        wrapped(&words, 76).into_iter().for_each(|line| table.note(line));
    }
    let mut out = table.text();
    if classes {
        out.push('\n');
        out.push_str(&reliability(overall));
    }
    out
}

/// How often rows of about the same confidence are right.
fn reliability(overall: &Evaluation) -> String {
    let columns = ["confidence", "accuracy", "samples"];
    let mut table = Table::new("Reliability: calibrated where both columns agree", &columns);
    for bin in overall.reliability() {
        table.row([short(bin.confidence), short(bin.accuracy), grouped(bin.samples)]);
    }
    table.text()
}
