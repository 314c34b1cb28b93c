//! `pmfcl predict`: predictions in the order of the rows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use pmfcl::Rows;
use pmfcl::report::inference::Covariance;
use pmfcl_file::{Access, Model, Store};
use pmfcl_ingest::{Gaps, IngestError};
use pmfcl_read::{Column, Form, Missing, Wanted};
use serde_json::json;

use crate::missing;
use crate::predictions::{Columns, ENDINGS, Predicted, Sink};
use crate::stream::{Part, Streaming, stream};
use pmfcl_terminal::{Reading, ending_in, expand, grouped, note, verbosity};

/// Predict the rows of data files: one row out for each row in, in their order.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl predict sales.pmf next-month.parquet -o predicted.parquet
  pmfcl predict sales.pmf next-month.csv --interval 0.95
  pmfcl predict iris.pmf new.csv --proba --unknown-score")]
pub(crate) struct Predict {
    /// The model file.
    model: PathBuf,
    /// Data files, or `-` for CSV on stdin.
    #[arg(required = true)]
    data: Vec<String>,
    /// Write to this file instead of stdout: .csv (.gz, .zst), .parquet, .arrow, .feather or .jsonl.
    #[arg(short, long, value_name = "FILE", value_parser = ending_in(ENDINGS))]
    output: Option<PathBuf>,
    /// Print the probability of every class after the class.
    #[arg(long)]
    proba: bool,
    /// Add the column `unknown`, between 0 and 1 (gaussian): the share of learned rows that were nearer to a class than this
    /// row is. Above 0.99 is one in a hundred of rows like those learned; a row above it may be of none of the classes.
    #[arg(long)]
    unknown_score: bool,
    /// Add intervals that cover a new observation with this probability, such as 0.95 (squared loss). They assume
    /// independent noise of equal variance, and that a sample weight counts copies of its row.
    #[arg(long, value_name = "LEVEL")]
    interval: Option<f64>,
    /// Copy this column of the data in front of the predictions.
    #[arg(long, value_name = "COL")]
    id: Option<String>,
    /// A category the model does not know: stop, or predict as if it were none of those it knows.
    #[arg(long, value_enum, default_value = "error", value_name = "WAY")]
    unknown: Unknown,
    #[command(flatten)]
    reading: Reading,
}

/// What to do with categories the model does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Unknown {
    /// Stop and name the cell.
    Error,
    /// 0 in all inputs of the column.
    Zero,
}

impl Predict {
    pub(crate) fn run(&self) -> Result<()> {
        let (mut store, mut model) = Store::open(&self.model, Access::Read)?;
        let mut paths = Vec::new();
        for argument in &self.data {
            paths.extend(expand(argument)?);
        }
        let mut files = self.reading.files(paths)?;
        if self.reading.drops_missing() {
            // The rows stay, so that each has its line: its name, no prediction, and the reason.
            files.options.missing = Missing::Keep;
        }
        let covariance = self.covariance(&mut store, &mut model)?;
        let gaps = missing::gaps(&model, &self.reading)?;
        let filled = !matches!(gaps, Gaps::LeftOut);
        let columns = self.columns(&model, covariance.is_some())?;
        let mut sink = match &self.output {
            Some(path) => Sink::file(columns, path)?,
            None => Sink::stdout(columns, verbosity().json)?,
        };
        let (mut rows, mut empty, mut unbounded) = (0, Empty::default(), Vec::new());
        stream(
            &model,
            &files,
            Streaming {
                extra: self.id.iter().map(|name| Wanted::new(name, Form::Text)).collect(),
                unknown_as_zero: self.unknown == Unknown::Zero,
                gaps: gaps.clone(),
                ..Streaming::default()
            },
            &|part| {
                let predicted = self.predict(&model, covariance.as_ref(), &part, filled)?;
                Ok((part.source.label().to_owned(), part.batch.first_row, predicted))
            },
            |(file, first, predicted)| {
                unbounded.extend(predicted.unbounded.iter().map(|row| rows + row));
                rows += predicted.rows;
                empty.count(&file, first, &predicted);
                sink.put(&predicted)
            },
        )?;
        sink.finish(
            unbounded.iter().map(|row| json!({ "row": row, "reason": UNBOUNDED })).collect(),
        )?;
        if let Some(first) = unbounded.first() {
            let (count, first) = (unbounded.len(), first + 1);
            note(&format!(
                "{count} of {rows} rows have no interval (the first is row {first}): {UNBOUNDED}"
            ));
        }
        if let Some(path) = &self.output {
            note(&format!("{} predictions in {}", rows - empty.rows, path.display()));
        }
        empty.report();
        Ok(())
    }

    /// The columns of the table.
    fn columns(&self, model: &Model, intervals: bool) -> Result<Columns> {
        let mut columns = Columns {
            id: self.id.clone(),
            reason: self.reading.drops_missing(),
            ..Columns::default()
        };
        if model.learner.problem().predicts_classes() {
            columns.class = model.schema.targets.first().cloned();
            if self.proba {
                let classes = model.learner.classes().iter();
                columns.numbers.extend(classes.map(|class| format!("proba_{class}")));
            }
            if self.unknown_score {
                columns.numbers.push("unknown".to_owned());
            }
            return Ok(columns);
        }
        for (given, flag) in [(self.proba, "--proba"), (self.unknown_score, "--unknown-score")] {
            if given {
                bail!("{flag} is for classes; this model predicts numbers")
            }
        }
        for target in &model.schema.targets {
            columns.numbers.push(target.clone());
            if intervals {
                columns.numbers.extend(["low", "high"].map(|end| format!("{target}_{end}")));
            }
        }
        Ok(columns)
    }

    /// The predictions of a batch. Rows that miss a value have none, but they stay where they are.
    fn predict(
        &self,
        model: &Model,
        covariance: Option<&Covariance>,
        part: &Part<'_>,
        filled: bool,
    ) -> Result<Predicted, IngestError> {
        let batch = part.batch;
        let features = if filled { 0 } else { model.schema.columns.len() };
        let mut reasons: BTreeMap<usize, String> = BTreeMap::new();
        for gap in batch.gaps.iter().filter(|gap| (gap.column as usize) < features) {
            let name = &model.schema.columns[gap.column as usize].name;
            reasons.entry(gap.row as usize).or_insert_with(|| format!("{name} is missing"));
        }
        let complete: Vec<usize> =
            (0..batch.rows).filter(|row| !reasons.contains_key(row)).collect();
        let gathered: Vec<f64>;
        let x = if reasons.is_empty() {
            part.rows()?
        } else {
            let width = part.width;
            gathered =
                complete.iter().flat_map(|row| &part.x[row * width..][..width]).copied().collect();
            Rows::new(&gathered, width)?
        };
        let place = |i: usize| complete[i];
        let mut predicted = Predicted {
            rows: batch.rows,
            known: (!reasons.is_empty()).then(|| complete.clone()),
            reasons,
            ..Predicted::default()
        };
        if self.id.is_some()
            && let Column::Texts(texts) = part.encoder.extra(batch, 0)
        {
            let names = texts.codes.iter().map(|code| texts.names[*code as usize].clone());
            predicted.ids = names.collect();
        }
        if x.is_empty() {
            return Ok(predicted);
        }
        let learner = &model.learner;
        if learner.problem().predicts_classes() {
            predicted.classes = learner.predict_classes(x)?;
            let classes = learner.classes().len();
            let proba = if self.proba { learner.probabilities(x)? } else { Vec::new() };
            let unknown = if self.unknown_score { learner.novelty(x)? } else { Vec::new() };
            for i in 0..batch.rows {
                let own = proba.get(i * classes..(i + 1) * classes).unwrap_or_default();
                predicted.numbers.extend(own.iter().chain(unknown.get(i)).copied().map(Some));
            }
        } else if let Some(covariance) = covariance {
            let rows = covariance.intervals(learner, x, self.interval.unwrap_or(0.95))?;
            let open =
                rows.iter().enumerate().filter(|(_, row)| row.iter().any(|i| i.low.is_none()));
            predicted.unbounded = open.map(|(i, _)| place(i)).collect();
            let cells = rows.iter().flatten().flat_map(|i| [Some(i.value), i.low, i.high]);
            predicted.numbers = cells.collect();
        } else {
            predicted.numbers = learner.predict(x)?.into_iter().map(Some).collect();
        }
        Ok(predicted)
    }

    fn covariance(&self, store: &mut Store, model: &mut Model) -> Result<Option<Covariance>> {
        let Some(level) = self.interval else { return Ok(None) };
        if !(level > 0.0 && level < 1.0) {
            bail!("--interval is {level}: it must lie between 0 and 1, such as 0.95");
        }
        if model.learner.problem().predicts_classes() {
            bail!("--interval is for squared loss on numbers; use --proba for classes");
        }
        let found = match Covariance::of(&model.learner) {
            // Samples of some tasks count for more than others': every summary is needed.
            Err(pmfcl::Error::Unloaded { .. }) => {
                store.load(model)?;
                Covariance::of(&model.learner)
            }
            found => found,
        };
        let covariance = found?;
        if covariance.approximate() {
            note(
                "intervals are approximate: samples count differently, and compact memory no longer knows whether the \
                 features of its tasks are spread alike",
            );
        }
        Ok(Some(covariance))
    }
}

/// Why a row has no interval.
const UNBOUNDED: &str = "the row varies in a column that is the same in all rows learned";

/// How many of the rows without a prediction are named.
const NAMED: usize = 5;

/// The rows without a prediction.
#[derive(Debug, Default)]
struct Empty {
    rows: usize,
    /// The first of them: file and row, counted from 1.
    first: Vec<(String, u64)>,
}

impl Empty {
    /// Counts those of a batch that starts at row `first` of a file.
    fn count(&mut self, file: &str, first: u64, predicted: &Predicted) {
        let Some(known) = &predicted.known else { return };
        self.rows += predicted.rows - known.len();
        let mut known = known.iter().peekable();
        for row in 0..predicted.rows {
            if self.first.len() == NAMED {
                return;
            }
            if known.next_if_eq(&&row).is_none() {
                self.first.push((file.to_owned(), first + row as u64 + 1));
            }
        }
    }

    /// Prints how many there are, and the first of them.
    fn report(&self) {
        if self.rows == 0 {
            return;
        }
        let mut places = String::new();
        for (i, (file, row)) in self.first.iter().enumerate() {
            match i.checked_sub(1).map(|before| &self.first[before].0) {
                Some(same) if same == file => places.push_str(&format!(", {row}")),
                Some(_) => places.push_str(&format!("; {file} row {row}")),
                None => places.push_str(&format!("{file} row {row}")),
            }
        }
        let more = if self.rows > NAMED { ", …" } else { "" };
        let (count, rows) =
            (grouped(self.rows as f64), if self.rows == 1 { "row misses" } else { "rows miss" });
        note(&format!("{count} {rows} a value and got an empty prediction: {places}{more}"));
    }
}
