//! Parsing the fields of a piece into columns.

use std::sync::{Arc, Mutex};

use memchr::memchr2;

use super::cut::{Cutter, Text};
use super::header::{self, Header};
use super::marks::Marks;
use crate::cells::Words;
use crate::error::cut;
use crate::field::Found;
use crate::number::{self, Reading, Rules};
use crate::scan::{Pass, Piece};
use crate::{Batch, Column, DateFormat, Form, Gap, Kind, Missing, Options, Place, ReadError};

/// A pass over a CSV file.
pub(super) struct CsvPass {
    pub(super) cutter: Mutex<Cutter>,
    pub(super) decoder: Decoder,
}

impl Pass for CsvPass {
    fn next(&self) -> Result<Option<Piece>, ReadError> {
        self.cutter.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next()
    }

    fn decode(&self, piece: Piece) -> Result<Batch, ReadError> {
        self.decoder.decode(piece)
    }
}

/// What to do with a field of the file.
#[derive(Clone, Copy, Debug)]
enum Task {
    Pass,
    Read {
        column: usize,
        how: How,
    },
    /// Wanted more than once, in different forms.
    Many(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Written as programs write it.
    Number,
    /// With a decimal comma, separators of thousands, or numbers that stand for a missing value.
    WrittenNumber,
    Boolean,
    Date,
    Text,
}

pub(super) struct Decoder {
    file: Arc<str>,
    marks: Marks,
    /// One for each field of a record.
    tasks: Vec<Task>,
    /// The lists behind `Task::Many`.
    many: Vec<Vec<(usize, How)>>,
    found: Vec<Found>,
    /// For each column found how its dates are written, where that was said.
    formats: Vec<Option<DateFormat>>,
    rules: Rules,
    missing: Missing,
}

/// What a date should have been.
pub(crate) const DATE: &str =
    "a date like 2024-01-31 or 2024-01-31T12:30; --dates COLUMN:FORMAT reads others";

/// The columns as they grow.
enum Builder {
    Numbers(Vec<f64>),
    Words(Words),
}

/// The row being read.
struct Row<'a> {
    text: &'a Text,
    piece: &'a Piece,
    /// How many rows are behind.
    done: usize,
    /// Where it starts.
    start: usize,
    /// The cells without a value, of all rows.
    gaps: Vec<Gap>,
}

impl Decoder {
    pub(super) fn new(
        file: &Arc<str>,
        header: &Header,
        options: &Options,
        found: Vec<Found>,
    ) -> Self {
        let rules = Rules::of(options);
        let mut lists = vec![Vec::new(); header.fields.len()];
        for (column, f) in found.iter().enumerate() {
            let how = match (f.form, &f.kind) {
                (Form::Number, Kind::Boolean) => How::Boolean,
                (Form::Number, _) if rules.plain => How::Number,
                (Form::Number, _) => How::WrittenNumber,
                (Form::Text, _) => How::Text,
                (Form::Date, _) => How::Date,
            };
            lists[f.at].push((column, how));
        }
        let mut many = Vec::new();
        let tasks = lists
            .into_iter()
            .map(|list| match list[..] {
                [] => Task::Pass,
                [(column, how)] => Task::Read { column, how },
                _ => {
                    many.push(list);
                    Task::Many(many.len() - 1)
                }
            })
            .collect();
        let missing = options.missing;
        let formats = found.iter().map(|f| options.date_format(&f.name).cloned()).collect();
        let (file, marks) = (Arc::clone(file), header.marks);
        Self { file, marks, tasks, many, found, formats, rules, missing }
    }

    fn decode(&self, mut piece: Piece) -> Result<Batch, ReadError> {
        let content = std::mem::replace(&mut piece.content, Box::new(()));
        let text = content.downcast::<Text>().expect("a piece of this scan");
        let mut columns: Vec<Builder> = self
            .found
            .iter()
            .map(|f| match f.form {
                Form::Text => Builder::Words(Words::with_capacity(piece.rows)),
                Form::Number | Form::Date => Builder::Numbers(vec![0.0; piece.rows]),
            })
            .collect();
        let mut row = Row { text: &text, piece: &piece, done: 0, start: 0, gaps: Vec::new() };
        let bytes = text.bytes.as_slice();
        let mut scratch = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at..] {
                [b'\n', ..] => at += 1,
                [b'\r', b'\n', ..] => at += 2,
                _ => {
                    row.start = at;
                    at = if text.quoted {
                        self.record::<true>(&mut row, &mut columns, &mut scratch)?
                    } else {
                        self.record::<false>(&mut row, &mut columns, &mut scratch)?
                    };
                    row.done += 1;
                }
            }
        }
        assert_eq!(row.done, piece.rows, "records counted and records read");
        let gaps = std::mem::take(&mut row.gaps);
        let columns = columns
            .into_iter()
            .map(|builder| match builder {
                Builder::Numbers(values) => Column::Numbers(values.into()),
                Builder::Words(words) => Column::Texts(words.finish()),
            })
            .collect();
        let batch = Batch {
            index: piece.index,
            first_row: piece.first_row,
            rows: piece.rows,
            dropped: 0,
            columns,
            gaps,
            kept: None,
        };
        Ok(if self.missing == Missing::Drop { batch.without_gaps() } else { batch })
    }

    /// Reads one record; returns the place behind it.
    #[inline]
    fn record<const QUOTED: bool>(
        &self,
        row: &mut Row,
        columns: &mut [Builder],
        scratch: &mut Vec<u8>,
    ) -> Result<usize, ReadError> {
        let text = row.text.bytes.as_slice();
        let Marks { delimiter, quote } = self.marks;
        let last = self.tasks.len() - 1;
        let mut at = row.start;
        for (field, &task) in self.tasks.iter().enumerate() {
            let end = match task {
                Task::Pass if !(QUOTED && text[at] == quote) => {
                    at + memchr2(delimiter, b'\n', &text[at..])
                        .expect("a piece ends with a line end")
                }
                Task::Read { column, how: How::Number }
                    if let Some((value, end)) = self.number(text, at)
                        && let Builder::Numbers(values) = &mut columns[column] =>
                {
                    values[row.done] = value;
                    end
                }
                _ => self.cell(task, at, row, columns, scratch)?,
            };
            at = end + 1;
            if (text[end] == b'\n') != (field == last) {
                return Err(self.ragged(row, scratch));
            }
        }
        Ok(at)
    }

    /// The plain number at `at` and the place of the mark behind it.
    #[inline]
    fn number(&self, text: &[u8], at: usize) -> Option<(f64, usize)> {
        let (value, length) = number::prefix(&text[at..])?;
        let end = at + length;
        match text[end..] {
            [b'\n', ..] => Some((value, end)),
            [b'\r', b'\n', ..] => Some((value, end + 1)),
            [mark, ..] if mark == self.marks.delimiter => Some((value, end)),
            _ => None,
        }
    }

    /// Any other field: quoted, not a plain number, or not wanted as one.
    fn cell(
        &self,
        task: Task,
        at: usize,
        row: &mut Row,
        columns: &mut [Builder],
        scratch: &mut Vec<u8>,
    ) -> Result<usize, ReadError> {
        let text = row.text.bytes.as_slice();
        let (cell, end) = self.marks.field(text, at, scratch).map_err(|what| {
            ReadError::Quoting { file: self.file.to_string(), place: row.place(), what }
        })?;
        let cell = cell.bytes(text, scratch);
        match task {
            Task::Pass => {}
            Task::Read { column, how } => self.put(column, how, cell, row, columns)?,
            Task::Many(list) => {
                for &(column, how) in &self.many[list] {
                    self.put(column, how, cell, row, columns)?;
                }
            }
        }
        Ok(end)
    }

    /// Puts a cell into its column.
    fn put(
        &self,
        column: usize,
        how: How,
        cell: &[u8],
        row: &mut Row,
        columns: &mut [Builder],
    ) -> Result<(), ReadError> {
        let name = || self.found[column].name.clone();
        let file = || self.file.to_string();
        let reading = match (&mut columns[column], how) {
            (Builder::Words(words), _) => {
                if cell.is_empty() || self.rules.is_missing(cell) {
                    words.push_missing();
                    Reading::Missing
                } else {
                    let word = std::str::from_utf8(cell).map_err(|_| ReadError::NotUtf8 {
                        file: file(),
                        place: row.place(),
                        column: name(),
                    })?;
                    words.push(word);
                    return Ok(());
                }
            }
            (Builder::Numbers(values), how) => {
                let (reading, wanted) = match how {
                    How::Boolean => (self.rules.boolean(cell), "true or false"),
                    How::Date => {
                        let format = self.formats[column].as_ref();
                        let wanted = match format {
                            Some(_) => "a date in the format given",
                            None => DATE,
                        };
                        (self.rules.date(cell, format), wanted)
                    }
                    How::Number | How::WrittenNumber | How::Text => {
                        (self.rules.number(cell), self.rules.wanted(cell))
                    }
                };
                match reading {
                    Reading::Value(value) => {
                        values[row.done] = value;
                        return Ok(());
                    }
                    Reading::Missing => {
                        values[row.done] = f64::NAN;
                        Reading::Missing
                    }
                    Reading::Other => {
                        return Err(ReadError::WrongValue {
                            file: file(),
                            place: row.place(),
                            column: name(),
                            value: cut(cell),
                            wanted,
                        });
                    }
                }
            }
        };
        debug_assert_eq!(reading, Reading::Missing);
        match self.missing {
            Missing::Drop | Missing::Keep => {
                row.gaps.push(Gap { row: row.done as u32, column: column as u32 });
                Ok(())
            }
            Missing::Refuse | Missing::Unstated => Err(ReadError::MissingValue {
                file: file(),
                place: row.place(),
                column: name(),
                value: cut(cell.trim_ascii()),
            }),
        }
    }

    /// The error for a record with too few or too many fields.
    #[cold]
    fn ragged(&self, row: &Row, scratch: &mut Vec<u8>) -> ReadError {
        let (file, place) = (self.file.to_string(), row.place());
        let text = row.text.bytes.as_slice();
        let (mut at, mut found) = (row.start, 0);
        loop {
            match self.marks.field(text, at, scratch) {
                Ok((_, end)) => {
                    found += 1;
                    at = end + 1;
                    if text[end] == b'\n' {
                        let expected = self.tasks.len();
                        return ReadError::Ragged { file, place, found, expected };
                    }
                }
                Err(what) => return ReadError::Quoting { file, place, what },
            }
        }
    }
}

impl Row<'_> {
    #[cold]
    fn place(&self) -> Place {
        Place {
            row: self.piece.first_row + self.done as u64 + 1,
            line: Some(header::line(&self.text.bytes, self.start, self.text.line)),
        }
    }
}
