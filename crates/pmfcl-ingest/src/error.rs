//! What can go wrong between a file and a summary.

use pmfcl_read::{Batch, Place, ReadError, Source};

/// Why a table could not be learned, scored or predicted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The learner refuses what the file holds.
    #[error("{place}: {error}")]
    Refused {
        /// File, and row where one is to blame.
        place: String,
        /// What the learner said.
        error: pmfcl::Error,
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
         convert it to decimal points (`pmfcl learn --categories {column}` takes such texts as categories)"
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

impl IngestError {
    /// What a model said of the rows of a batch.
    pub fn in_batch(source: &Source, batch: &Batch, error: pmfcl::Error) -> Self {
        Self::at(source.label(), |row| batch.file_row(row as usize), error)
    }

    /// What the learner said of rows that begin at row `first` (counted from 0) of a file.
    pub(crate) fn at(file: &str, row: impl Fn(u64) -> u64, error: pmfcl::Error) -> Self {
        Self::of_row(error, |found| (file.to_owned(), found.map(&row)))
    }

    /// What the learner said of a row; `place` gives the file, and the row of it counted from 0.
    pub(crate) fn of_row(
        error: pmfcl::Error,
        place: impl Fn(Option<u64>) -> (String, Option<u64>),
    ) -> Self {
        use pmfcl::Error;
        use pmfcl::basis::BasisError;
        let row = match &error {
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
        Self::Refused { place, error }
    }
}
