//! `pmfcl calibrate`: measure the probabilities of a classifier at the present model.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use pmfcl::problem::RowSample;
use pmfcl::{Targets, TaskRows};
use pmfcl_file::{Access, Model, Store};
use pmfcl_ingest::{IngestError, class_name};
use pmfcl_read::{Column, Form, Wanted};
use serde_json::json;

use crate::missing;
use crate::score::entry;
use crate::stream::{Part, Streaming, stream};
use pmfcl_terminal::{Reading, answer, expand, grouped, short};

/// Measure how sure a gaussian classifier may be, at the present model and on rows given now. Predicted classes do not change.
///
/// Rows of a task are measured when it is learned, so the result depends on the order of the tasks. This measures all at once:
/// with new rows, or with rows that were learned (--learned). It also switches calibration on where it was off. Of many rows a
/// sample is used; no row is stored.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl calibrate iris.pmf held-out.csv
  pmfcl calibrate iris.pmf flowers-*.csv --learned    (rows the model has learned)")]
pub(crate) struct Calibrate {
    /// The model file.
    model: PathBuf,
    /// Data files, or `-` for CSV on stdin.
    #[arg(required = true)]
    data: Vec<String>,
    /// The target column; by default the model's.
    #[arg(long, value_name = "COL")]
    target: Option<String>,
    /// The rows are among those learned: each is left out of the model before it is scored.
    #[arg(long)]
    learned: bool,
    #[command(flatten)]
    reading: Reading,
}

impl Calibrate {
    pub(crate) fn run(&self) -> Result<()> {
        let (mut store, mut model) = Store::open(&self.model, Access::Write)?;
        if !model.learner.problem().options().iter().any(|(name, _)| *name == "calibrate") {
            bail!(
                "{}: the model has --loss {}; only the probabilities of gaussian are measured",
                self.model.display(),
                model.loss()
            );
        }
        let mut paths = Vec::new();
        for argument in &self.data {
            paths.extend(expand(argument)?);
        }
        let files = self.reading.files(paths)?;
        let target = self.target.clone().unwrap_or_else(|| model.schema.targets[0].clone());
        let (mut rows, mut sample) = (0, None::<RowSample>);
        stream(
            &model,
            &files,
            Streaming {
                extra: vec![Wanted::new(target.clone(), Form::Text)],
                labels: std::slice::from_ref(&target),
                extra_needed: true,
                gaps: missing::gaps(&model, &self.reading)?,
                ..Streaming::default()
            },
            &|part| Ok((part.batch.rows, sampled(&model, &part, &target)?)),
            |(count, next)| {
                rows += count;
                sample = Some(match sample.take() {
                    Some(before) => before.merge(next)?,
                    None => next,
                });
                Ok(())
            },
        )?;
        let Some(sample) = sample else { bail!("there are no rows to calibrate with") };
        model.learner.calibrate_with(&sample, self.learned)?;
        model.learner.solution()?;
        store.commit(&mut model)?;
        let learner = &model.learner;
        let facts = learner.facts()?;
        let Some(found) = learner.left_out() else { bail!("nothing was measured") };
        let mut document = json!({ "rows": rows, "measured": entry(&found) });
        facts.iter().for_each(|(name, value)| document[*name] = json!(value));
        let temperature = facts.iter().find(|(name, _)| *name == "temperature");
        let words = format!(
            "{}: measured with {} rows: temperature {}, accuracy {}, log-loss {}, calibration error {}\n",
            self.model.display(),
            grouped(rows as f64),
            temperature.map_or_else(|| "–".to_owned(), |(_, t)| short(*t)),
            short(found.accuracy()),
            short(found.log_loss()),
            short(found.calibration_error()),
        );
        answer(&document, &words)
    }
}

/// The sample of a batch.
fn sampled(model: &Model, part: &Part<'_>, target: &str) -> Result<RowSample, IngestError> {
    let field = part.source.fields().iter().find(|field| field.name == target);
    let Column::Texts(texts) = part.encoder.extra(part.batch, 0) else {
        return Ok(RowSample::default());
    };
    let names: Vec<String> = texts.names.iter().map(|name| class_name(field, name)).collect();
    let y = Targets::Classes { codes: &texts.codes, names: &names };
    Ok(model.learner.row_sample(TaskRows { x: part.rows()?, y, weights: None })?)
}
