//! What a table offers and what is wanted of it.

use std::sync::Arc;

use crate::{DateFormat, ReadError, RemoteFiles};

/// How a file is to be read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Between the fields of a CSV record; `None` looks at the header.
    pub delimiter: Option<u8>,
    /// Whether the first CSV record names the columns.
    pub header: bool,
    /// Around CSV fields that hold delimiters or line ends.
    pub quote: u8,
    /// What to do with rows that miss a value.
    pub missing: Missing,
    /// The decimal mark of numbers in text: `.` or `,`.
    pub decimal: u8,
    /// What stands between groups of three digits of numbers in text.
    pub thousands: Option<char>,
    /// Words that stand for a missing value, in addition to the usual ones.
    pub na: Vec<String>,
    /// Columns of dates that are written in another way than `2024-01-31`.
    pub dates: Vec<(String, DateFormat)>,
    /// Rows per piece instead of the size that suits the format; for tests.
    pub piece_rows: Option<usize>,
    /// Opens addresses such as `s3://bucket/file.parquet`; `None` reads files on disk only.
    pub remote: Option<Arc<dyn RemoteFiles>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            delimiter: None,
            header: true,
            quote: b'"',
            missing: Missing::Unstated,
            decimal: b'.',
            thousands: None,
            na: Vec::new(),
            dates: Vec::new(),
            piece_rows: None,
            remote: None,
        }
    }
}

/// What to do with a row in which a wanted value is missing or not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Nothing was said; as [`Missing::Refuse`], unless what the rows are for decides otherwise.
    Unstated,
    /// Stop with an error that names the cell.
    Refuse,
    /// Leave the row out and count it.
    Drop,
    /// Keep the row: NaN instead of the number, an empty text instead of the word.
    Keep,
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Integers, floats, decimals.
    Number,
    /// True and false; as numbers 1 and 0.
    Boolean,
    /// Words.
    Text,
    /// Days or moments.
    Date,
    /// Several numbers in each row.
    Block {
        /// How many.
        width: usize,
    },
    /// A type that cannot be used, by its name.
    Other(String),
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number => f.write_str("numbers"),
            Self::Boolean => f.write_str("true/false values"),
            Self::Text => f.write_str("text"),
            Self::Date => f.write_str("dates"),
            Self::Block { width } => write!(f, "blocks of {width} numbers"),
            Self::Other(name) => write!(f, "values of type {name}"),
        }
    }
}

/// A column on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, unique in the table.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// How a column is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As numbers; blocks too.
    Number,
    /// As words.
    Text,
    /// As days since 1970-01-01, with a fraction for the time of day.
    Date,
}

/// A column asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Its form.
    pub form: Form,
}

impl Wanted {
    /// The column `name` in `form`.
    pub fn new(name: impl Into<String>, form: Form) -> Self {
        Self { name: name.into(), form }
    }
}

/// A wanted column found in the file.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its number among the fields.
    pub(crate) at: usize,
    /// Its name.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) kind: Kind,
    /// How it is wanted.
    pub(crate) form: Form,
}

impl Options {
    /// How dates of a column are written, where that was said.
    pub(crate) fn date_format(&self, column: &str) -> Option<&DateFormat> {
        self.dates.iter().find(|(name, _)| name == column).map(|(_, format)| format)
    }
}

/// Finds each wanted column, or says what is there instead.
pub(crate) fn find(
    file: &str,
    fields: &[Field],
    wanted: &[Wanted],
) -> Result<Vec<Found>, ReadError> {
    wanted
        .iter()
        .map(|w| {
            let at = fields.iter().position(|f| f.name == w.name).ok_or_else(|| {
                ReadError::NoColumn {
                    file: file.into(),
                    column: w.name.clone(),
                    nearest: nearest(&w.name, fields),
                    there: listing(fields),
                }
            })?;
            let kind = fields[at].kind.clone();
            let fits = match (&kind, w.form) {
                (Kind::Other(_), _)
                | (Kind::Block { .. }, Form::Text | Form::Date)
                | (Kind::Boolean, Form::Date) => false,
                (Kind::Date, Form::Number) => {
                    return Err(ReadError::DateAsNumber {
                        file: file.into(),
                        column: w.name.clone(),
                    });
                }
                _ => true,
            };
            if fits {
                Ok(Found { at, name: w.name.clone(), kind, form: w.form })
            } else {
                Err(ReadError::WrongKind {
                    file: file.into(),
                    column: w.name.clone(),
                    kind: kind.to_string(),
                    form: match w.form {
                        Form::Number => "numbers",
                        Form::Text => "text",
                        Form::Date => "dates",
                    },
                })
            }
        })
        .collect()
}

/// Refuses a table in which one name stands for two columns.
pub(crate) fn unique(file: &str, fields: &[Field]) -> Result<(), ReadError> {
    let mut names: Vec<&str> = fields.iter().map(|f| f.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ReadError::DuplicateColumn { file: file.into(), column: pair[0].into() }),
        None => Ok(()),
    }
}

/// The names there are, cut short when there are many.
fn listing(fields: &[Field]) -> String {
    const SHOWN: usize = 12;
    let mut text =
        fields.iter().take(SHOWN).map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
    if fields.len() > SHOWN {
        text += &format!(", … ({} in all)", fields.len());
    }
    if text.is_empty() { "no columns".into() } else { text }
}

/// The name most like the one asked for, if any is like it at all.
fn nearest(name: &str, fields: &[Field]) -> Option<String> {
    let asked: Vec<char> = name.to_lowercase().chars().take(64).collect();
    fields
        .iter()
        .map(|f| {
            let there: Vec<char> = f.name.to_lowercase().chars().take(64).collect();
            (edits(&asked, &there), f)
        })
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= asked.len().div_ceil(3))
        .map(|(_, f)| f.name.clone())
}

/// How many letters must be put in, taken out or changed to get from `a` to `b`.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_finds_its_column() {
        let fields: Vec<Field> = ["temperature", "humidity", "Y"]
            .map(|n| Field { name: n.into(), kind: Kind::Number })
            .into();
        assert_eq!(nearest("temprature", &fields), Some("temperature".into()));
        assert_eq!(nearest("y", &fields), Some("Y".into()));
        assert_eq!(nearest("windspeed", &fields), None);
    }
}
