//! `pmfcl predict`: predictions in the order of the rows.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pmfcl::report::inference::{Covariance, Interval};
use pmfcl_file::{Access, Learned, Model, Store};
use serde_json::{Value, json};

use crate::data::{Reading, expand};
use crate::picture::draft_in;
use crate::stream::stream;
use crate::terminal::{note, voice};

/// Predict the rows of data files, in their order, as CSV.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl predict sales.pmf next-month.parquet -o predicted.csv
  pmfcl predict sales.pmf next-month.csv --interval 0.95
  pmfcl predict iris.pmf new.csv --proba")]
pub(crate) struct Predict {
    /// The model file.
    model: PathBuf,
    /// Data files, or `-` for CSV on stdin.
    #[arg(required = true)]
    data: Vec<String>,
    /// Write to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Probabilities of all classes beside the class.
    #[arg(long)]
    proba: bool,
    /// Intervals that cover a new observation with this probability (squared loss). They assume equal, independent noise, and that a
    /// sample weight counts copies of its row.
    #[arg(long, value_name = "LEVEL")]
    interval: Option<f64>,
    #[command(flatten)]
    reading: Reading,
}

/// What stands for an interval that nothing bounds.
const UNBOUNDED: &str = "the row varies in a column that is the same in all rows learned";

/// Predictions of a batch: numbers, numbers with intervals, or a class followed by its probabilities.
enum Predicted {
    Numbers(Vec<f64>),
    Intervals(Vec<Vec<Interval>>),
    Classes(Vec<String>, Vec<f64>),
}

impl Predict {
    pub(crate) fn run(&self) -> Result<()> {
        let (store, mut model) = Store::open(&self.model, Access::Read)?;
        let mut paths = Vec::new();
        for argument in &self.data {
            paths.extend(expand(argument)?);
        }
        let files = self.reading.files(paths)?;
        let covariance = self.covariance(&store, &mut model)?;
        let mut columns: Vec<String> = Vec::new();
        match &model.learned {
            Learned::Regression(_) if self.proba => {
                bail!("--proba is for classes; this model predicts numbers")
            }
            Learned::Regression(_) => {
                for target in &model.schema.targets {
                    columns.push(target.clone());
                    if covariance.is_some() {
                        columns.extend([format!("{target}_low"), format!("{target}_high")]);
                    }
                }
            }
            Learned::Classification(classifier) => {
                columns.push(model.schema.targets[0].clone());
                if self.proba {
                    columns.extend(classifier.classes().iter().map(|c| format!("proba_{c}")));
                }
            }
        }
        let mut sink = Sink::new(self.output.clone(), &columns)?;
        let level = self.interval.unwrap_or(0.95);
        stream(
            &model,
            &files,
            Vec::new(),
            &|part| {
                let x = part.rows()?;
                Ok(match (&model.learned, &covariance) {
                    (Learned::Regression(learner), Some(covariance)) => {
                        Predicted::Intervals(covariance.intervals(learner, x, level)?)
                    }
                    (Learned::Regression(learner), None) => Predicted::Numbers(learner.predict(x)?),
                    (Learned::Classification(classifier), _) => {
                        let proba =
                            if self.proba { classifier.predict_proba(x)? } else { Vec::new() };
                        Predicted::Classes(classifier.predict(x)?, proba)
                    }
                })
            },
            |part| sink.put(&part),
        )?;
        sink.finish()
    }

    fn covariance(&self, store: &Store, model: &mut Model) -> Result<Option<Covariance>> {
        let Some(level) = self.interval else { return Ok(None) };
        if !(level > 0.0 && level < 1.0) {
            bail!("--interval is {level}: it must lie between 0 and 1, such as 0.95");
        }
        let of = |model: &Model| match &model.learned {
            Learned::Regression(learner) => Ok(Covariance::of(learner)),
            Learned::Classification(_) => {
                bail!("--interval is for squared loss on numbers; use --proba for classes")
            }
        };
        let found = match of(model)? {
            // Samples of some tasks count for more than others': every summary is needed.
            Err(pmfcl::Error::Away { .. }) => {
                store.load(model)?;
                of(model)?
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

/// Where predictions go. A file appears when it is whole.
struct Sink {
    columns: Vec<String>,
    out: Box<dyn Write>,
    file: Option<(tempfile::NamedTempFile, PathBuf)>,
    rows: Vec<Value>,
    count: u64,
    /// Rows without an interval, counted from 0.
    unbounded: Vec<u64>,
    headed: bool,
}

impl Sink {
    fn new(path: Option<PathBuf>, columns: &[String]) -> Result<Self> {
        let file = match path {
            None => None,
            Some(path) => {
                let directory = path.parent().filter(|p| !p.as_os_str().is_empty());
                let directory = directory.map_or_else(|| PathBuf::from("."), PathBuf::from);
                let draft = draft_in(&directory)
                    .with_context(|| format!("{}: cannot be written", path.display()))?;
                Some((draft, path))
            }
        };
        let out: Box<dyn Write> = match &file {
            Some((draft, _)) => Box::new(std::io::BufWriter::new(draft.reopen()?)),
            None => Box::new(std::io::BufWriter::new(std::io::stdout())),
        };
        Ok(Self {
            columns: columns.to_vec(),
            out,
            file,
            rows: Vec::new(),
            count: 0,
            unbounded: Vec::new(),
            headed: false,
        })
    }

    /// The names of the columns go before the first rows, so that data refused at once leaves nothing behind.
    fn head(&mut self) -> Result<()> {
        if !self.headed && !self.json() {
            let header: Vec<String> = self.columns.iter().map(|c| quoted(c)).collect();
            writeln!(self.out, "{}", header.join(","))?;
        }
        self.headed = true;
        Ok(())
    }

    /// JSON goes to stdout; a file named is always CSV.
    fn json(&self) -> bool {
        voice().json && self.file.is_none()
    }

    fn put(&mut self, part: &Predicted) -> Result<()> {
        self.head()?;
        let width = self.columns.len();
        let json = self.json();
        match part {
            Predicted::Numbers(cells) => {
                for row in cells.chunks_exact(width) {
                    self.count += 1;
                    if json {
                        self.rows.push(json!(row));
                        continue;
                    }
                    for (k, v) in row.iter().enumerate() {
                        write!(self.out, "{}{v}", if k > 0 { "," } else { "" })?;
                    }
                    self.out.write_all(b"\n")?;
                }
            }
            Predicted::Intervals(rows) => {
                for row in rows {
                    if row.iter().any(|i| i.low.is_none()) {
                        self.unbounded.push(self.count);
                    }
                    self.count += 1;
                    let cells = row.iter().flat_map(|i| [Some(i.value), i.low, i.high]);
                    if json {
                        self.rows.push(json!(cells.collect::<Vec<_>>()));
                        continue;
                    }
                    let cells: Vec<String> =
                        cells.map(|c| c.map_or_else(String::new, |v| v.to_string())).collect();
                    writeln!(self.out, "{}", cells.join(","))?;
                }
            }
            Predicted::Classes(classes, proba) => {
                for (i, class) in classes.iter().enumerate() {
                    self.count += 1;
                    let own = &proba[i * (width - 1)..(i + 1) * (width - 1)];
                    if json {
                        let mut row = vec![json!(class)];
                        row.extend(own.iter().map(|p| json!(p)));
                        self.rows.push(Value::Array(row));
                        continue;
                    }
                    self.out.write_all(quoted(class).as_bytes())?;
                    for p in own {
                        write!(self.out, ",{p}")?;
                    }
                    self.out.write_all(b"\n")?;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.head()?;
        if self.json() {
            let mut document = json!({ "columns": self.columns, "predictions": self.rows });
            if !self.unbounded.is_empty() {
                let reasons =
                    self.unbounded.iter().map(|r| json!({ "row": r, "reason": UNBOUNDED }));
                document["missing"] = reasons.collect();
            }
            writeln!(self.out, "{document}")?;
        }
        self.out.flush()?;
        if let Some(first) = self.unbounded.first() {
            note(&format!(
                "{} of {} rows have no interval (the first is row {}): {UNBOUNDED}",
                self.unbounded.len(),
                self.count,
                first + 1
            ));
        }
        if let Some((draft, path)) = self.file {
            draft
                .persist(&path)
                .map_err(|e| e.error)
                .with_context(|| format!("{}: cannot be written", path.display()))?;
            note(&format!("{} predictions in {}", self.count, path.display()));
        }
        Ok(())
    }
}

/// A CSV field.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
