//! `pmfcl score`: how well a model does on data it is shown.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use pmfcl_file::{Access, Learned, Model, Store};
use pmfcl_ingest::{Files, IngestError, class_name};
use pmfcl_lab::Table;
use pmfcl_read::{Column, Form, Wanted};
use serde_json::{Map, Value, json};

use crate::data::{Reading, expand, task_name};
use crate::stream::{Part, stream};
use crate::terminal::{answer, cut, grouped, short};

/// Score a model on data files: mse and r2, or accuracy and log-loss.
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
        let mut tallies: Vec<(String, Tally)> = Vec::new();
        for argument in &self.data {
            let files = self.reading.files(expand(argument)?)?;
            self.tally(&model, &files, &task_name(argument), &mut tallies)?;
        }
        let mut overall = Tally::new(&model);
        for (_, tally) in &tallies {
            overall.merge(tally);
        }
        if overall.n <= 0.0 {
            bail!("there are no rows to score");
        }
        let tasks: Vec<Value> = tallies
            .iter()
            .map(|(name, tally)| {
                let mut entry = tally.json();
                entry.insert("name".to_owned(), json!(name));
                Value::Object(entry)
            })
            .collect();
        let document = json!({ "tasks": tasks, "overall": overall.json() });
        answer(&document, &words(&tallies, &overall))
    }

    fn tally(
        &self,
        model: &Model,
        files: &Files,
        name: &str,
        tallies: &mut Vec<(String, Tally)>,
    ) -> Result<()> {
        let classes = model.classifier().is_some();
        let form = if classes { Form::Text } else { Form::Number };
        let targets = if self.target.is_empty() { &model.schema.targets } else { &self.target };
        let mut beside: Vec<Wanted> =
            targets.iter().map(|t| Wanted::new(t.clone(), form)).collect();
        beside.extend(self.task_column.iter().map(|t| Wanted::new(t.clone(), Form::Text)));
        let (p, by) = (targets.len(), self.task_column.as_deref());
        let labels = if classes { &targets[..] } else { &[] };
        stream(model, files, beside, labels, &|part| tallied(model, &part, p, by), |parts| {
            for (task, tally) in parts {
                let task = task.unwrap_or_else(|| name.to_owned());
                match tallies.iter_mut().find(|(known, _)| *known == task) {
                    Some((_, sum)) => sum.merge(&tally),
                    None => tallies.push((task, tally)),
                }
            }
            Ok(())
        })
    }
}

/// Sums over rows from which the scores follow.
#[derive(Debug, Clone)]
struct Tally {
    n: f64,
    /// Of each target: mean, squares about it, squared errors.
    targets: Vec<[f64; 3]>,
    hits: f64,
    log_loss: f64,
    classes: bool,
}

impl Tally {
    fn new(model: &Model) -> Self {
        let classes = model.classifier().is_some();
        let targets = if classes { 0 } else { model.schema.targets.len() };
        Self { n: 0.0, targets: vec![[0.0; 3]; targets], hits: 0.0, log_loss: 0.0, classes }
    }

    /// Adds the sums of other rows (the pairwise update for squares about the mean).
    fn merge(&mut self, other: &Self) {
        let n = self.n + other.n;
        if n <= 0.0 {
            return;
        }
        for (a, b) in self.targets.iter_mut().zip(&other.targets) {
            let gap = b[0] - a[0];
            a[1] += b[1] + gap * gap * self.n * other.n / n;
            a[0] += gap * other.n / n;
            a[2] += b[2];
        }
        self.n = n;
        self.hits += other.hits;
        self.log_loss += other.log_loss;
    }

    fn scores(&self) -> (f64, f64) {
        if self.classes {
            return (self.hits / self.n, self.log_loss / self.n);
        }
        let p = self.targets.len() as f64;
        let mse = self.targets.iter().map(|t| t[2] / self.n).sum::<f64>() / p;
        (mse, self.targets.iter().map(r2).sum::<f64>() / p)
    }

    fn json(&self) -> Map<String, Value> {
        let (first, second) = self.scores();
        let names = if self.classes { ["accuracy", "log_loss"] } else { ["mse", "r2"] };
        let mut entry = Map::new();
        entry.insert("samples".to_owned(), json!(self.n));
        entry.insert(names[0].to_owned(), json!(first));
        entry.insert(names[1].to_owned(), json!(second));
        if self.targets.len() > 1 {
            let list =
                |f: &dyn Fn(&[f64; 3]) -> f64| self.targets.iter().map(f).collect::<Vec<_>>();
            entry.insert("mse_per_target".to_owned(), json!(list(&|t| t[2] / self.n)));
            entry.insert("r2_per_target".to_owned(), json!(list(&r2)));
        }
        entry
    }
}

/// 1 − squared errors over squares about the mean; 0 for a constant target that is missed.
fn r2(t: &[f64; 3]) -> f64 {
    match (t[1] > 0.0, t[2] > 0.0) {
        (true, _) => 1.0 - t[2] / t[1],
        (false, true) => 0.0,
        (false, false) => 1.0,
    }
}

type Tallies = Vec<(Option<String>, Tally)>;

/// The sums of a batch, task by task.
fn tallied(
    model: &Model,
    part: &Part<'_>,
    p: usize,
    by: Option<&str>,
) -> Result<Tallies, IngestError> {
    let x = part.rows()?;
    let field =
        |name: Option<&str>| part.source.fields().iter().find(|f| Some(f.name.as_str()) == name);
    let mut groups: Tallies = match by.map(|_| part.encoder.beside(part.batch, p)) {
        Some(Column::Texts(texts)) => texts
            .names
            .iter()
            .map(|n| (Some(class_name(field(by), n)), Tally::new(model)))
            .collect(),
        _ => vec![(None, Tally::new(model))],
    };
    let group = |i: usize| match by.map(|_| part.encoder.beside(part.batch, p)) {
        Some(Column::Texts(texts)) => texts.codes[i] as usize,
        _ => 0,
    };
    match &model.learned {
        Learned::Regression(learner) => {
            let predicted = learner.predict(x)?;
            for (i, row) in predicted.chunks_exact(p).enumerate() {
                let mut one = Tally::new(model);
                one.n = 1.0;
                for (k, v) in row.iter().enumerate() {
                    if let Column::Numbers(values) = part.encoder.beside(part.batch, k) {
                        one.targets[k] = [values[i], 0.0, (values[i] - v).powi(2)];
                    }
                }
                groups[group(i)].1.merge(&one);
            }
        }
        Learned::Classification(classifier) => {
            let Column::Texts(labels) = part.encoder.beside(part.batch, 0) else {
                return Ok(groups);
            };
            let target = model.schema.targets.first().map(String::as_str);
            let proba = classifier.predict_proba(x)?;
            let codes = classifier.predict_codes(x)?;
            let k = classifier.classes().len();
            let known: Vec<Option<usize>> = labels
                .names
                .iter()
                .map(|n| {
                    let name = class_name(field(target), n);
                    classifier.classes().iter().position(|c| *c == name)
                })
                .collect();
            for i in 0..part.batch.rows {
                let tally = &mut groups[group(i)].1;
                tally.n += 1.0;
                // A class the model has never seen is missed, and as unlikely as numbers can say.
                let p = known[labels.codes[i] as usize].map_or(0.0, |c| proba[i * k + c]);
                let hit = known[labels.codes[i] as usize] == Some(codes[i] as usize);
                tally.hits += f64::from(u8::from(hit));
                tally.log_loss -= p.max(f64::MIN_POSITIVE).ln();
            }
        }
    }
    Ok(groups)
}

fn words(tallies: &[(String, Tally)], overall: &Tally) -> String {
    let names = if overall.classes { ["accuracy", "log-loss"] } else { ["mse", "r²"] };
    let mut table = Table::new("Scores", &["task", "samples", names[0], names[1]]);
    let all = ("overall".to_owned(), overall.clone());
    for (name, tally) in tallies.iter().chain([&all]) {
        let (first, second) = tally.scores();
        table.row([cut(name, 32), grouped(tally.n), short(first), short(second)]);
    }
    table.text()
}
