//! Reads a data set: Parquet with columns `y`, `task`, `split` (0 train, 1 test), the rest features.

use std::fs::File;
use std::path::Path;

use parquet::basic::Type;
use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader, SerializedFileReader};

/// What can go wrong while reading.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error("{path}: {error}")]
    Open {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The file is not what was expected.
    #[error("{path}: {reason}")]
    Format {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The library refused.
    #[error(transparent)]
    Learn(#[from] pmfcl::Error),
    /// The result cannot be written.
    #[error(transparent)]
    Write(#[from] std::io::Error),
}

/// A data set in memory.
#[derive(Debug, Clone)]
pub struct DataSet {
    /// Its name.
    pub name: String,
    /// Features in a row.
    pub width: usize,
    /// Row after row.
    pub x: Vec<f32>,
    /// Class of every row.
    pub y: Vec<u32>,
    /// Natural task of every row.
    pub task: Vec<u32>,
    /// Whether the row is for testing.
    pub test: Vec<bool>,
}

impl DataSet {
    /// Reads `DIR/NAME.parquet`.
    ///
    /// # Errors
    /// When the file is missing, damaged, or lacks one of the three columns.
    pub fn read(dir: &Path, name: &str) -> Result<Self, Error> {
        let path = dir.join(format!("{name}.parquet"));
        let shown = path.display().to_string();
        let format = |reason: String| Error::Format { path: shown.clone(), reason };
        let file = File::open(&path).map_err(|error| Error::Open { path: shown.clone(), error })?;
        let reader = SerializedFileReader::new(file).map_err(|e| format(e.to_string()))?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let rows = reader.metadata().file_metadata().num_rows() as usize;
        let names: Vec<String> = schema.columns().iter().map(|c| c.name().to_owned()).collect();
        let place = |wanted: &str| {
            names
                .iter()
                .position(|n| n == wanted)
                .ok_or_else(|| format(format!("no column `{wanted}`")))
        };
        let (y, task, split) = (place("y")?, place("task").ok(), place("split")?);
        let features: Vec<usize> =
            (0..names.len()).filter(|&c| c != y && Some(c) != task && c != split).collect();
        let width = features.len();
        let mut place_of = vec![None; names.len()];
        for (at, &c) in features.iter().enumerate() {
            place_of[c] = Some(at);
        }
        let mut table = Self {
            name: name.to_owned(),
            width,
            x: vec![0.0; rows * width],
            y: Vec::with_capacity(rows),
            task: Vec::with_capacity(rows),
            test: Vec::with_capacity(rows),
        };
        let mut start = 0;
        for g in 0..reader.num_row_groups() {
            let group = reader.get_row_group(g).map_err(|e| format(e.to_string()))?;
            let count = group.metadata().num_rows() as usize;
            for c in 0..names.len() {
                let kind = schema.column(c).physical_type();
                let column = group.get_column_reader(c).map_err(|e| format(e.to_string()))?;
                let values = numbers(column, count)
                    .map_err(|e| format(format!("{} ({kind}): {e}", names[c])))?;
                if let Some(at) = place_of[c] {
                    for (i, v) in values.iter().enumerate() {
                        table.x[(start + i) * width + at] = *v as f32;
                    }
                } else if c == y {
                    table.y.extend(values.iter().map(|v| *v as u32));
                } else if c == split {
                    table.test.extend(values.iter().map(|v| *v > 0.5));
                } else {
                    table.task.extend(values.iter().map(|v| *v as u32));
                }
            }
            start += count;
        }
        table.task.resize(rows, 0);
        Ok(table)
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.x[i * self.width..(i + 1) * self.width]
    }

    /// Number of classes: the largest label and one.
    pub fn classes(&self) -> usize {
        self.y.iter().max().map_or(0, |c| *c as usize + 1)
    }
}

/// The values of a column chunk; a column without definition levels, of any numeric type. Text columns are
/// numbered in order of appearance.
fn numbers(column: ColumnReader, rows: usize) -> Result<Vec<f64>, String> {
    macro_rules! read {
        ($reader:expr, $convert:expr) => {{
            let mut reader = $reader;
            let (mut values, mut levels) = (Vec::with_capacity(rows), Vec::new());
            while values.len() < rows {
                levels.clear();
                let left = rows - values.len();
                let (records, got, _) = reader
                    .read_records(left, Some(&mut levels), None, &mut values)
                    .map_err(|e| e.to_string())?;
                if records == 0 || got < records {
                    return Err("missing values".to_owned());
                }
            }
            Ok(values.into_iter().map($convert).collect())
        }};
    }
    match column {
        ColumnReader::BoolColumnReader(r) => read!(r, |v| f64::from(u8::from(v))),
        ColumnReader::Int32ColumnReader(r) => read!(r, f64::from),
        ColumnReader::Int64ColumnReader(r) => read!(r, |v| v as f64),
        ColumnReader::FloatColumnReader(r) => read!(r, f64::from),
        ColumnReader::DoubleColumnReader(r) => read!(r, |v| v),
        ColumnReader::ByteArrayColumnReader(r) => {
            let mut seen: Vec<Vec<u8>> = Vec::new();
            read!(r, |v: parquet::data_type::ByteArray| {
                let at = seen.iter().position(|s| s == v.data()).unwrap_or_else(|| {
                    seen.push(v.data().to_vec());
                    seen.len() - 1
                });
                at as f64
            })
        }
        _ => Err(format!("columns of this type are not read: {}", Type::FIXED_LEN_BYTE_ARRAY)),
    }
}
