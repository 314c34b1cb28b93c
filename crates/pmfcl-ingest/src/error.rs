//! What can go wrong between a file and a summary.

use pmfcl_file::ColumnNames;
use pmfcl_read::{Batch, Place, ReadError, Source};

use crate::shell_option;

/// Why a table could not be learned, scored or predicted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The learner refuses rows of a file.
    #[error("{place}: {message}")]
    Refused {
        /// The file, and the row where the error is about one.
        place: String,
        /// The reason, with the column by name.
        message: String,
    },
    /// The learner refuses.
    #[error(transparent)]
    Core(#[from] pmfcl::Error),
    /// The model file refuses.
    #[error(transparent)]
    File(#[from] pmfcl_file::FileError),
    /// A column of the file is not what the model or the command asks for.
    #[error("{file}: {what}")]
    Column {
        /// The file.
        file: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A category the model does not know.
    #[error(
        "{file}: row {row}, column '{column}': the model does not know the category '{value}'; {advice}"
    )]
    Category {
        /// The file.
        file: String,
        /// Row, counted from 1.
        row: u64,
        /// The column.
        column: String,
        /// The category.
        value: String,
        /// What to do.
        advice: &'static str,
    },
    /// A number with a comma in a column that would be read as text.
    #[error(
        "{file}, {place}, column '{column}': '{value}' is a number with a comma, so the column would be read as text; \
         read it with {} (`pmfcl learn {}` takes such texts as categories)",
        comma_options(value),
        shell_option("--as-category", &[column])
    )]
    CommaNumber {
        /// The file.
        file: String,
        /// Where.
        place: Place,
        /// The column.
        column: String,
        /// The number.
        value: String,
    },
    /// No row is left.
    #[error("{file}: there are no rows to learn from{}", if *.dropped > 0 { format!(" ({dropped} were dropped for missing values)") } else { String::new() })]
    NoRows {
        /// The file.
        file: String,
        /// Rows left out.
        dropped: u64,
    },
}

/// The options by which a number with a comma is read.
fn comma_options(value: &str) -> &'static str {
    let digits = |c: char| c.is_ascii_digit();
    let (before, after) = value.rsplit_once(',').unwrap_or((value, ""));
    if after.contains('.') || before.contains(',') {
        "--thousands ,"
    } else if before.contains('.') {
        "--decimal , --thousands ."
    } else if before.contains(|c: char| !digits(c) && !matches!(c, '-' | '+')) {
        "--decimal , --thousands \" \""
    } else if after.len() == 3 && after.chars().all(digits) {
        "--decimal , or --thousands ,"
    } else {
        "--decimal ,"
    }
}

impl IngestError {
    /// An error of the learner about the rows of a batch.
    pub fn in_batch(
        source: &Source,
        batch: &Batch,
        error: &pmfcl::Error,
        names: &ColumnNames,
    ) -> Self {
        Self::in_rows(source.label(), |row| batch.file_row(row as usize), error, names)
    }

    /// An error of the learner about rows of a file; `row` gives the row of the file, counted from 0.
    pub(crate) fn in_rows(
        file: &str,
        row: impl Fn(u64) -> u64,
        error: &pmfcl::Error,
        names: &ColumnNames,
    ) -> Self {
        Self::of_row(error, names, |found| (file.to_owned(), found.map(&row)))
    }

    /// An error of the learner about a row; `place` gives the file, and its row counted from 0.
    pub(crate) fn of_row(
        error: &pmfcl::Error,
        names: &ColumnNames,
        place: impl Fn(Option<u64>) -> (String, Option<u64>),
    ) -> Self {
        use pmfcl::Error;
        use pmfcl::basis::BasisError;
        let row = match error {
            Error::NotFinite { row: r, .. }
            | Error::Target { row: r, .. }
            | Error::UnknownClass { row: r, .. } => Some(*r),
            Error::Basis(
                BasisError::NotFinite { row: r, .. }
                | BasisError::Overflow { row: r, .. }
                | BasisError::Pole { row: r, .. },
            ) => Some(*r as u64),
            _ => None,
        };
        let (file, row) = place(row);
        let place = row.map_or_else(|| file.clone(), |row| format!("{file}, row {}", row + 1));
        Self::Refused { place, message: names.message(error, row.is_none()) }
    }
}
