//! Tables of plain arrays: a stretch of bytes, a type and a shape. NumPy and IDX files are such.

use std::ops::Range;
use std::sync::Arc;

use crate::field::Found;
use crate::gaps::Gaps;
use crate::scan::{Format, Pass, Piece, Ranges, piece_rows};
use crate::source::Contents;
use crate::store::Store;
use crate::{Batch, Column, Field, Form, Kind, Missing, Options, ReadError, cells::Words};

/// A number as it lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) class: Class,
    /// Bytes: 1, 2, 4 or 8.
    pub(crate) size: usize,
    /// Whether the first byte is the highest.
    pub(crate) big: bool,
}

/// What the bytes of a number mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Boolean,
    Signed,
    Unsigned,
    Float,
}

/// An array in a file.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) store: Store,
    /// Where its values start.
    pub(crate) offset: u64,
    pub(crate) element: Element,
    pub(crate) rows: u64,
    /// Values in each row.
    pub(crate) width: usize,
    /// Whether the values of a column lie together, and not those of a row.
    pub(crate) by_column: bool,
}

/// A column of such a table: some of the values of each row of an array.
#[derive(Clone, Debug)]
pub(crate) struct Strip {
    /// `None` for a column that cannot be used.
    pub(crate) array: Option<Arc<Array>>,
    /// The columns of the array.
    pub(crate) columns: Range<usize>,
}

/// A table of arrays of the same length.
pub(crate) fn table(
    file: &str,
    format: &'static str,
    columns: Vec<(Field, Strip)>,
    rows: u64,
    bytes: u64,
    options: &Options,
) -> Contents {
    let (fields, strips) = columns.into_iter().unzip();
    let dense = Dense { file: file.into(), format, strips, rows, bytes, options: options.clone() };
    Contents::new(fields, Some(rows), Box::new(dense))
}

struct Dense {
    file: Arc<str>,
    format: &'static str,
    strips: Vec<Strip>,
    rows: u64,
    bytes: u64,
    options: Options,
}

impl Format for Dense {
    fn scan(&self, found: Vec<Found>) -> Result<Box<dyn Pass>, ReadError> {
        let strips: Vec<Strip> = found.iter().map(|f| self.strips[f.at].clone()).collect();
        for f in &found {
            if f.form == Form::Date {
                return Err(ReadError::WrongKind {
                    file: self.file.to_string(),
                    column: f.name.clone(),
                    kind: f.kind.to_string(),
                    form: "dates",
                });
            }
        }
        // Rows of a wide array are read whole, wanted or not.
        let widest = strips.iter().filter_map(|s| s.array.as_ref()).map(|a| a.width).max();
        let fitting = ((2 << 20) / widest.unwrap_or(1).max(1)).max(1);
        let size =
            self.options.piece_rows.unwrap_or(piece_rows(&self.options, &found).min(fitting));
        let ranges = Ranges::new(self.rows, size.max(1), self.bytes);
        let (file, format, missing) = (Arc::clone(&self.file), self.format, self.options.missing);
        Ok(Box::new(DensePass { file, format, strips, found, missing, ranges }))
    }
}

struct DensePass {
    file: Arc<str>,
    format: &'static str,
    strips: Vec<Strip>,
    found: Vec<Found>,
    missing: Missing,
    ranges: Ranges,
}

impl Pass for DensePass {
    fn next(&self) -> Result<Option<Piece>, ReadError> {
        Ok(self.ranges.next())
    }

    fn decode(&self, piece: Piece) -> Result<Batch, ReadError> {
        let mut columns: Vec<Option<Column>> = vec![None; self.strips.len()];
        let mut gaps = Gaps::new(piece.rows);
        for first in 0..self.strips.len() {
            if columns[first].is_some() {
                continue;
            }
            let Some(array) = &self.strips[first].array else {
                return Err(self.damaged("a column of a type without numbers".into()));
            };
            // All columns out of the same array at once: its bytes are read a single time.
            let group: Vec<usize> = (first..self.strips.len())
                .filter(|&c| self.strips[c].array.as_ref().is_some_and(|a| Arc::ptr_eq(a, array)))
                .collect();
            let wanted: Vec<Range<usize>> =
                group.iter().map(|&c| self.strips[c].columns.clone()).collect();
            let values = array
                .read(piece.first_row, piece.rows, &wanted)
                .map_err(|e| self.damaged(e.to_string()))?;
            for (&c, cells) in group.iter().zip(values) {
                let width = self.strips[c].columns.len();
                gaps.infinities(c, &cells, width.max(1));
                let found = &self.found[c];
                columns[c] = Some(match (found.form, &found.kind) {
                    (Form::Text, kind) => {
                        let mut words = Words::with_capacity(piece.rows);
                        for v in &cells {
                            if *kind == Kind::Boolean {
                                words.push(if *v > 0.0 { "true" } else { "false" });
                            } else {
                                words.push(&v.to_string());
                            }
                        }
                        Column::Texts(words.finish())
                    }
                    (_, Kind::Block { .. }) => Column::Block { width, cells: cells.into() },
                    _ => Column::Numbers(cells.into()),
                });
            }
        }
        let columns = columns.into_iter().flatten().collect();
        gaps.finish(&self.file, &self.found, self.missing, &piece, columns)
    }
}

impl DensePass {
    fn damaged(&self, what: String) -> ReadError {
        ReadError::Damaged { file: self.file.to_string(), format: self.format, what }
    }
}

impl Array {
    /// How many bytes it takes, if that is a number.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let values = self.rows.checked_mul(self.width as u64)?;
        values.checked_mul(self.element.size as u64)
    }

    /// Whether all of its values are in the file.
    pub(crate) fn fits(&self) -> bool {
        let end = self.bytes().and_then(|bytes| self.offset.checked_add(bytes));
        end.is_some_and(|end| end <= self.store.len())
    }

    /// For each range of columns its values in `rows` rows from `first` on, row after row.
    fn read(
        &self,
        first: u64,
        rows: usize,
        wanted: &[Range<usize>],
    ) -> std::io::Result<Vec<Vec<f64>>> {
        let size = self.element.size;
        let mut out: Vec<Vec<f64>> =
            wanted.iter().map(|columns| vec![0.0; rows * columns.len()]).collect();
        if self.by_column {
            let mut column = Vec::new();
            for (values, columns) in out.iter_mut().zip(wanted) {
                for (k, c) in columns.clone().enumerate() {
                    let at = self.offset + (c as u64 * self.rows + first) * size as u64;
                    let bytes = self.store.bytes(at, rows * size)?;
                    self.element.parse(&bytes, &mut column);
                    if columns.len() == 1 {
                        values.copy_from_slice(&column);
                    } else {
                        for (i, v) in column.iter().enumerate() {
                            values[i * columns.len() + k] = *v;
                        }
                    }
                }
            }
        } else {
            let at = self.offset + first * (self.width * size) as u64;
            let bytes = self.store.bytes(at, rows * self.width * size)?;
            // A few rows at a time, so that what was parsed is still in the cache when it is placed.
            let block = (4096 / self.width.max(1)).max(1);
            let mut parsed = Vec::new();
            for start in (0..rows).step_by(block) {
                let end = rows.min(start + block);
                let stride = self.width * size;
                self.element.parse(&bytes[start * stride..end * stride], &mut parsed);
                for (values, columns) in out.iter_mut().zip(wanted) {
                    let width = columns.len();
                    if width == 1 {
                        for (value, row) in
                            values[start..end].iter_mut().zip(parsed.chunks_exact(self.width))
                        {
                            *value = row[columns.start];
                        }
                    } else {
                        for (value, row) in values[start * width..end * width]
                            .chunks_exact_mut(width.max(1))
                            .zip(parsed.chunks_exact(self.width.max(1)))
                        {
                            value.copy_from_slice(&row[columns.clone()]);
                        }
                    }
                }
            }
        }
        Ok(out)
    }
}

impl Element {
    /// The kind of a column of these.
    pub(crate) fn kind(self) -> Kind {
        if self.class == Class::Boolean { Kind::Boolean } else { Kind::Number }
    }

    /// Reads values one after the other.
    fn parse(self, bytes: &[u8], out: &mut Vec<f64>) {
        fn each<const N: usize>(
            bytes: &[u8],
            out: &mut Vec<f64>,
            big: bool,
            value: impl Fn([u8; N]) -> f64,
        ) {
            let (chunks, _) = bytes.as_chunks::<N>();
            if big && N > 1 {
                out.extend(chunks.iter().map(|&chunk| {
                    let mut turned = chunk;
                    turned.reverse();
                    value(turned)
                }));
            } else {
                out.extend(chunks.iter().map(|&chunk| value(chunk)));
            }
        }
        out.clear();
        let big = self.big;
        match (self.class, self.size) {
            (Class::Boolean, _) => each::<1>(bytes, out, big, |[b]| f64::from(u8::from(b != 0))),
            (Class::Unsigned, 1) => each::<1>(bytes, out, big, |[b]| f64::from(b)),
            (Class::Unsigned, 2) => each(bytes, out, big, |b| f64::from(u16::from_le_bytes(b))),
            (Class::Unsigned, 4) => each(bytes, out, big, |b| f64::from(u32::from_le_bytes(b))),
            (Class::Unsigned, _) => each(bytes, out, big, |b| u64::from_le_bytes(b) as f64),
            (Class::Signed, 1) => each(bytes, out, big, |b| f64::from(i8::from_le_bytes(b))),
            (Class::Signed, 2) => each(bytes, out, big, |b| f64::from(i16::from_le_bytes(b))),
            (Class::Signed, 4) => each(bytes, out, big, |b| f64::from(i32::from_le_bytes(b))),
            (Class::Signed, _) => each(bytes, out, big, |b| i64::from_le_bytes(b) as f64),
            (Class::Float, 2) => {
                each(bytes, out, big, |b| f64::from(half::f16::from_le_bytes(b)));
            }
            (Class::Float, 4) => each(bytes, out, big, |b| f64::from(f32::from_le_bytes(b))),
            (Class::Float, _) => each(bytes, out, big, f64::from_le_bytes),
        }
    }
}
