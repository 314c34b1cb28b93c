//! Tables of predictions, written batch by batch: CSV, JSON lines, Parquet, Arrow.

#[cfg(feature = "formats")]
mod columnar;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use pmfcl_terminal::{Draft, ending_of};
use serde_json::{Value, json};

/// The files predictions can be written to.
pub(crate) const ENDINGS: &[&str] =
    &[".csv", ".csv.gz", ".csv.zst", ".parquet", ".arrow", ".feather", ".jsonl"];

/// The name of the column that says why a row has no prediction.
const REASON: &str = "reason";

/// The columns of the table: a name of the row, the class where there are classes, numbers, and why a row has no prediction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    pub(crate) id: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) numbers: Vec<String>,
    pub(crate) reason: bool,
}

impl Columns {
    fn names(&self) -> impl Iterator<Item = &str> {
        let named = self.id.iter().chain(&self.class).chain(&self.numbers).map(String::as_str);
        named.chain(self.reason.then_some(REASON))
    }
}

/// Predictions for neighbouring rows of a file.
#[derive(Debug, Default)]
pub(crate) struct Predicted {
    /// How many rows the file has here.
    pub(crate) rows: usize,
    /// Which of them have a prediction, counted from the first; `None` where all have.
    pub(crate) known: Option<Vec<usize>>,
    /// The name of each row of the file, where names are copied.
    pub(crate) ids: Vec<String>,
    /// Why rows have no prediction, by row.
    pub(crate) reasons: BTreeMap<usize, String>,
    /// The class of each row that has a prediction.
    pub(crate) classes: Vec<String>,
    /// The numbers of each row that has a prediction, row after row; an end of an interval may be missing.
    pub(crate) numbers: Vec<Option<f64>>,
    /// Rows whose interval has no ends, counted from the first.
    pub(crate) unbounded: Vec<usize>,
}

impl Predicted {
    /// For each row of the file the place of its prediction.
    fn places(&self) -> Vec<Option<usize>> {
        let Some(known) = &self.known else { return (0..self.rows).map(Some).collect() };
        let mut places = vec![None; self.rows];
        for (at, row) in known.iter().enumerate() {
            places[*row] = Some(at);
        }
        places
    }
}

/// Where predictions go.
pub(crate) struct Sink {
    columns: Columns,
    form: Form,
    draft: Option<Draft>,
    /// Whether anything was put in. What comes before the first row is written with it: data that is refused at once
    /// leaves nothing on stdout.
    begun: bool,
}

/// How the table is written.
enum Form {
    Csv(Box<dyn Write>),
    PackedCsv(Box<dyn Packer>),
    JsonLines(BufWriter<File>),
    /// One document on stdout.
    Document(Vec<Value>),
    #[cfg_attr(not(feature = "formats"), expect(dead_code, reason = "nothing writes columns then"))]
    Columnar(Box<dyn ColumnarWriter>),
}

/// A writer that packs what it is given, and has to be told when nothing more comes.
trait Packer: Write {
    fn end(self: Box<Self>) -> std::io::Result<()>;
}

impl Packer for flate2::write::GzEncoder<BufWriter<File>> {
    fn end(self: Box<Self>) -> std::io::Result<()> {
        self.finish()?.flush()
    }
}

#[cfg(feature = "formats")]
impl Packer for zstd::stream::write::Encoder<'static, BufWriter<File>> {
    fn end(self: Box<Self>) -> std::io::Result<()> {
        self.finish()?.flush()
    }
}

/// A writer of columns.
trait ColumnarWriter {
    fn put(&mut self, columns: &Columns, part: &Predicted) -> Result<()>;
    fn end(self: Box<Self>) -> Result<()>;
}

impl Sink {
    /// A table on stdout: CSV, or one JSON document.
    pub(crate) fn stdout(columns: Columns, document: bool) -> Result<Self> {
        let form = if document {
            Form::Document(Vec::new())
        } else {
            Form::Csv(Box::new(BufWriter::new(std::io::stdout())))
        };
        Self { columns, form, draft: None, begun: false }.checked()
    }

    /// A table in a file, in the format its name ends in.
    pub(crate) fn file(columns: Columns, path: &Path) -> Result<Self> {
        let draft = Draft::new(path)?;
        let plain = || -> Result<File> { draft.writer() };
        let buffered = || -> Result<BufWriter<File>> { Ok(BufWriter::new(plain()?)) };
        let form = match ending_of(path, ENDINGS) {
            Some(".csv") => Form::Csv(Box::new(buffered()?)),
            Some(".csv.gz") => {
                let level = flate2::Compression::default();
                Form::PackedCsv(Box::new(flate2::write::GzEncoder::new(buffered()?, level)))
            }
            Some(".jsonl") => Form::JsonLines(buffered()?),
            #[cfg(feature = "formats")]
            Some(".csv.zst") => {
                Form::PackedCsv(Box::new(zstd::stream::write::Encoder::new(buffered()?, 0)?))
            }
            #[cfg(feature = "formats")]
            Some(".parquet") => Form::Columnar(columnar::parquet(plain()?, &columns)?),
            #[cfg(feature = "formats")]
            Some(_) => Form::Columnar(columnar::arrow(buffered()?, &columns)?),
            #[cfg(not(feature = "formats"))]
            Some(ending) => bail!(
                "this program was built without writing {ending} files; write .csv, or build it with \
                 `cargo build --release -p pmfcl-cli`"
            ),
            None => bail!("{}: no table can be written to a file of this name", path.display()),
        };
        Self { columns, form, draft: Some(draft), begun: false }.checked()
    }

    /// Refuses two columns of one name: readers could not distinguish them.
    fn checked(self) -> Result<Self> {
        let mut names: Vec<&str> = self.columns.names().collect();
        names.sort_unstable();
        if let Some([twin, _]) = names.array_windows().find(|[a, b]| a == b) {
            bail!("two columns of the predictions would be named '{twin}'");
        }
        Ok(self)
    }

    /// Adds the predictions of the rows that follow.
    pub(crate) fn put(&mut self, part: &Predicted) -> Result<()> {
        let written = self.refusal();
        self.begin().with_context(|| written.clone())?;
        let columns = &self.columns;
        match &mut self.form {
            Form::Csv(out) => csv(out, columns, part).context(written),
            Form::PackedCsv(out) => csv(out, columns, part).context(written),
            Form::JsonLines(out) => json_lines(out, columns, part).context(written),
            Form::Document(rows) => {
                rows.extend(cells(columns, part).map(Value::Array));
                Ok(())
            }
            Form::Columnar(out) => out.put(columns, part).context(written),
        }
    }

    fn begin(&mut self) -> Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        let head: Vec<String> = self.columns.names().map(quoted).collect();
        let head = head.join(",") + "\n";
        match &mut self.form {
            Form::Csv(out) => out.write_all(head.as_bytes())?,
            Form::PackedCsv(out) => out.write_all(head.as_bytes())?,
            Form::JsonLines(_) | Form::Document(_) | Form::Columnar(_) => {}
        }
        Ok(())
    }

    /// Ends the table; gives the file its name.
    ///
    /// A document names the rows with a cell that is missing, and why.
    pub(crate) fn finish(mut self, missing: Vec<Value>) -> Result<()> {
        let (written, draft) = (self.refusal(), self.draft.take());
        self.end(missing).context(written)?;
        if let Some(draft) = draft {
            draft.keep()?;
        }
        Ok(())
    }

    /// What is said where the disk is full, or whatever else keeps the table from being written.
    fn refusal(&self) -> String {
        self.draft.as_ref().map_or("the predictions cannot be written".to_owned(), Draft::refusal)
    }

    /// Writes what is left of the table.
    fn end(mut self, missing: Vec<Value>) -> Result<()> {
        self.begin()?;
        match self.form {
            Form::Csv(mut out) => out.flush()?,
            Form::PackedCsv(out) => out.end()?,
            Form::JsonLines(mut out) => out.flush()?,
            Form::Document(rows) => {
                let names: Vec<&str> = self.columns.names().collect();
                let mut document = json!({ "columns": names, "predictions": rows });
                if !missing.is_empty() {
                    document["missing"] = Value::Array(missing);
                }
                pmfcl_terminal::print(&format!("{document}\n"))?;
            }
            Form::Columnar(out) => out.end()?,
        }
        Ok(())
    }
}

/// One row of the file after the other; a row without a prediction is `null` in every column.
fn cells<'a>(
    columns: &'a Columns,
    part: &'a Predicted,
) -> impl Iterator<Item = Vec<Value>> + use<'a> {
    let width = columns.numbers.len();
    part.places().into_iter().enumerate().map(move |(row, place)| {
        let mut cells: Vec<Value> = columns.id.iter().map(|_| json!(part.ids[row])).collect();
        match place {
            Some(at) => {
                cells.extend(columns.class.iter().map(|_| json!(part.classes[at])));
                cells.extend(part.numbers[at * width..][..width].iter().map(|v| json!(v)));
            }
            None => {
                cells.extend(columns.class.iter().chain(&columns.numbers).map(|_| Value::Null));
            }
        }
        cells.extend(columns.reason.then(|| json!(part.reasons.get(&row))));
        cells
    })
}

/// A row without a prediction has empty cells. A lone one is quoted: readers of CSV pass over blank lines.
fn csv(out: &mut impl Write, columns: &Columns, part: &Predicted) -> std::io::Result<()> {
    let width = columns.numbers.len();
    let alone = columns.names().count() == 1;
    for (row, place) in part.places().into_iter().enumerate() {
        let mut comma = "";
        let mut put = |out: &mut dyn Write, cell: &str| {
            out.write_all(comma.as_bytes())?;
            comma = ",";
            out.write_all(cell.as_bytes())
        };
        if columns.id.is_some() {
            put(out, &quoted(&part.ids[row]))?;
        }
        match place {
            Some(at) => {
                if columns.class.is_some() {
                    put(out, &quoted(&part.classes[at]))?;
                }
                for v in &part.numbers[at * width..][..width] {
                    put(out, &v.map_or_else(String::new, shortest))?;
                }
            }
            None => {
                let empty = if alone { "\"\"" } else { "" };
                for _ in columns.class.iter().chain(&columns.numbers) {
                    put(out, empty)?;
                }
            }
        }
        if columns.reason {
            let reason = part.reasons.get(&row).map_or("", String::as_str);
            put(out, &if reason.is_empty() { String::new() } else { quoted(reason) })?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// The shortest digits that read back as the same number: very small and very large ones with an exponent.
fn shortest(v: f64) -> String {
    if v == 0.0 || (1e-5..1e16).contains(&v.abs()) { v.to_string() } else { format!("{v:e}") }
}

/// One object per row, its keys in the order of the columns.
fn json_lines(out: &mut impl Write, columns: &Columns, part: &Predicted) -> std::io::Result<()> {
    let keys: Vec<String> = columns.names().map(|name| json!(name).to_string()).collect();
    for row in cells(columns, part) {
        let pairs: Vec<String> = keys.iter().zip(row).map(|(k, v)| format!("{k}:{v}")).collect();
        writeln!(out, "{{{}}}", pairs.join(","))?;
    }
    Ok(())
}

/// A CSV field; a class without a name is not a missing one.
fn quoted(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
