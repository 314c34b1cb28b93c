//! What can be wrong with a file, each with where and what to do.

use std::fmt;

use crate::remote::Remote;

/// A row of a file, and its line where the file has lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The data row, from 1; a header is not counted.
    pub row: u64,
    /// The line in the file, from 1.
    pub line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "row {} (line {line})", self.row),
            None => write!(f, "row {}", self.row),
        }
    }
}

/// Why a format of the feature `formats` cannot be read without it.
pub(crate) struct NotBuilt<'a>(pub(crate) &'a str);

impl fmt::Display for NotBuilt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this program was built without reading {}; build it with `cargo build --release -p pmfcl-cli`",
            self.0
        )
    }
}

/// Why a file, or a part of it, could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file does not open.
    #[error("{file}: cannot be opened: {error}")]
    Open {
        /// The file.
        file: String,
        /// The error of the operating system.
        // Not named `source`: the message has it, and a chain of causes would print it twice.
        error: std::io::Error,
    },
    /// An address where only files on disk are read.
    #[error(
        "{file}: is not on this machine, and this program was built without reading such files; build it with \
         `cargo build --release -p pmfcl-cli --features remote`, or download the file first"
    )]
    NotRemote {
        /// The address.
        file: String,
    },
    /// A format this program was built without.
    #[error("{file}: {}", NotBuilt(format))]
    NotBuilt {
        /// The file.
        file: String,
        /// The format.
        format: &'static str,
    },
    /// A folder was given.
    #[error("{file}: is a folder; name a file in it")]
    Folder {
        /// The folder.
        file: String,
    },
    /// Reading broke off.
    #[error("{file}: reading broke off: {error}")]
    Io {
        /// The file.
        file: String,
        /// The error of the operating system.
        // Not named `source`: the message has it, and a chain of causes would print it twice.
        error: std::io::Error,
    },
    /// The format cannot be found from the name.
    #[error(
        "{file}: unknown kind of file; the name must end in .csv or .tsv (also .gz, .zst), \
         .parquet, .arrow, .feather, .npy, .npz or -ubyte"
    )]
    UnknownFormat {
        /// The file.
        file: String,
    },
    /// A compressed wrapper around a format that is read in place.
    #[error("{file}: {format} inside a compressed file cannot be read; unpack it first")]
    Packed {
        /// The file.
        file: String,
        /// The format inside.
        format: &'static str,
    },
    /// A pipe where a file is needed.
    #[error("{file}: {format} cannot be read from a pipe; save it to a file first")]
    Pipe {
        /// The file.
        file: String,
        /// The format.
        format: &'static str,
    },
    /// Nothing in it.
    #[error("{file}: is empty")]
    Empty {
        /// The file.
        file: String,
    },
    /// The file is not what its name says, or it is cut off or broken.
    #[error("{file}: not a readable {format} file: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// The format that its name stands for.
        format: &'static str,
        /// What is wrong.
        what: String,
    },
    /// One name for two columns.
    #[error("{file}: two columns are named '{column}'; rename one of them")]
    DuplicateColumn {
        /// The file.
        file: String,
        /// The name.
        column: String,
    },
    /// A wanted column is not there.
    #[error(
        "{file}: there is no column '{column}'{}; there are: {there}",
        nearest.as_ref().map(|n| format!(" (did you mean '{n}'?)")).unwrap_or_default()
    )]
    NoColumn {
        /// The file.
        file: String,
        /// The name asked for.
        column: String,
        /// The name most like it.
        nearest: Option<String>,
        /// The names there are.
        there: String,
    },
    /// The column cannot be had in the form wanted.
    #[error("{file}: column '{column}' holds {kind}, which cannot be read as {form}")]
    WrongKind {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// What it holds.
        kind: String,
        /// What was wanted.
        form: &'static str,
    },
    /// Dates wanted as plain numbers.
    #[error("{file}: column '{column}' holds dates, not numbers; ask for it as dates")]
    DateAsNumber {
        /// The file.
        file: String,
        /// The column.
        column: String,
    },
    /// A record with too few or too many fields.
    #[error("{file}, {place}: has {found} fields where {expected} are expected")]
    Ragged {
        /// The file.
        file: String,
        /// Where.
        place: Place,
        /// How many fields it has.
        found: usize,
        /// How many the header has.
        expected: usize,
    },
    /// A value that is missing or not finite.
    #[error(
        "{file}, {place}, column '{column}': {} is missing or not finite; \
         leave such rows out with --missing drop, or learn them with --missing mean or indicator",
        shown(value)
    )]
    MissingValue {
        /// The file.
        file: String,
        /// Where.
        place: Place,
        /// The column.
        column: String,
        /// The value, empty if there is none.
        value: String,
    },
    /// Something else where a number is wanted.
    #[error("{file}, {place}, column '{column}': '{value}' is not {wanted}")]
    WrongValue {
        /// The file.
        file: String,
        /// Where.
        place: Place,
        /// The column.
        column: String,
        /// The value, cut short.
        value: String,
        /// What was expected: "a number", "a date like 2024-01-31", …
        wanted: &'static str,
    },
    /// Bytes that are not text.
    #[error("{file}, {place}, column '{column}': is not UTF-8 text; convert the file to UTF-8")]
    NotUtf8 {
        /// The file.
        file: String,
        /// Where; row 0 is the header.
        place: Place,
        /// The column, by name or number.
        column: String,
    },
    /// A quoted field that does not end, or goes on after its end.
    #[error("{file}, {place}: {what}")]
    Quoting {
        /// The file.
        file: String,
        /// Where.
        place: Place,
        /// What is wrong.
        what: &'static str,
    },
    /// A record beyond any reason.
    #[error(
        "{file}, {place}: the record is longer than {limit} MB; a quote may be open, or the line ends are not \\n"
    )]
    LongRecord {
        /// The file.
        file: String,
        /// Where it starts.
        place: Place,
        /// The bound.
        limit: usize,
    },
    /// Delimiter, quote and line end must differ.
    #[error("the delimiter and the quote must be two different characters, and no line ends")]
    Delimiter,
    /// A stream that has been read already.
    #[error("{file}: can be read once only; save it to a file to read it again")]
    Once {
        /// The stream.
        file: String,
    },
}

impl ReadError {
    /// The request that failed, where that is why a file looks damaged.
    pub(crate) fn or_failed_request(self, remote: Option<&Remote>) -> Self {
        match (self, remote.and_then(Remote::failure)) {
            (Self::Damaged { file, .. }, Some(error)) => Self::Io { file, error },
            (error, _) => error,
        }
    }
}

/// A value as shown in a message.
fn shown(value: &str) -> String {
    if value.is_empty() { "the value".into() } else { format!("'{value}'") }
}

/// The beginning of a cell, for a message.
pub(crate) fn cut(cell: &[u8]) -> String {
    const SHOWN: usize = 40;
    let text = String::from_utf8_lossy(&cell[..cell.len().min(4 * SHOWN)]);
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() || cell.len() > 4 * SHOWN {
        short.push('…');
    }
    short
}
