//! One error type for the crate: what is wrong, where, and what to do about it.

use crate::basis::BasisError;

/// What the caller can do something about.
///
/// A hard numerical situation (rank deficiency, separable data) is not an error but an outcome; see
/// [`crate::Outcome`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A cell is NaN or infinite.
    #[error(
        "{what} at row {row}, column {column} is {value}: values must be finite; drop the row or fill the gap"
    )]
    NotFinite {
        /// `"feature"`, `"target"` or `"sample weight"`.
        what: &'static str,
        /// Row, counted from 0 over everything given for the task so far.
        row: u64,
        /// Column, counted from 0 within features or targets.
        column: usize,
        /// The offending value.
        value: f64,
    },
    /// Two shapes that must agree do not.
    #[error(
        "{what} has {}, but {expected} {} expected",
        counted(*found, unit), if *expected == 1 { "was" } else { "were" }
    )]
    Shape {
        /// What was given: one thing, such as `"the target table"` or `"the list of labels"`.
        what: &'static str,
        /// What is counted, as a plural that ends in s: `"columns"`, `"rows"`, `"numbers"`…
        unit: &'static str,
        /// What would have been right.
        expected: usize,
        /// What was found.
        found: usize,
    },
    /// A table of parameters whose rows and columns are not those of the design and the targets.
    #[error(
        "{what} has {} × {}, but {} × {} were expected{}",
        counted(found[0], "rows"), counted(found[1], "columns"),
        counted(expected[0], "rows"), counted(expected[1], "columns"),
        if found[0] == expected[1] && found[1] == expected[0] { ": transpose it" } else { "" }
    )]
    TableShape {
        /// What was given.
        what: &'static str,
        /// The rows and columns that would have been right.
        expected: [usize; 2],
        /// The rows and columns found.
        found: [usize; 2],
    },
    /// A place for columns or targets that does not exist, or is given twice.
    #[error("{what} is {place}: {reason}")]
    Place {
        /// What was to be placed.
        what: &'static str,
        /// The place asked for, counted from 0.
        place: usize,
        /// Why it cannot be used.
        reason: String,
    },
    /// Nothing to learn from.
    #[error("{what} is empty: a task needs at least one row and one column")]
    Empty {
        /// What was empty.
        what: &'static str,
    },
    /// A sample or task weight is not a positive finite number.
    #[error(
        "{what} {at} is {value}: weights must be positive and finite; leave the row or task out instead of giving it no weight"
    )]
    Weight {
        /// `"sample weight of row"` or `"weight of task"`.
        what: &'static str,
        /// Row number or task name.
        at: String,
        /// The offending value.
        value: f64,
    },
    /// A number outside its range.
    #[error("{what} is {value}: it must be {must}")]
    Range {
        /// Name of the setting.
        what: &'static str,
        /// The offending value.
        value: f64,
        /// The allowed range in words.
        must: &'static str,
    },
    /// A text that names no setting.
    #[error("`{value}` is none of {expected}")]
    SettingName {
        /// The text.
        value: String,
        /// What may be written.
        expected: &'static str,
    },
    /// Squares or sums left the range of double precision.
    #[error(
        "column {column} overflows double precision when squared and summed: rescale it (the qr accumulator reaches further than gram)"
    )]
    Overflow {
        /// Design-matrix column (the intercept, if any, is column 0).
        column: usize,
    },
    /// The memory holds no task of that name.
    #[error("no task is named `{name}`; the memory holds {known}")]
    UnknownTask {
        /// The name asked for.
        name: String,
        /// The names there are, abbreviated.
        known: String,
    },
    /// A task of that name has been learned already.
    #[error(
        "a task named `{name}` has been learned already: choose another name, or unlearn it first"
    )]
    DuplicateTask {
        /// The name.
        name: String,
    },
    /// A label outside the classes that were fixed.
    #[error(
        "row {row} has class `{label}`, which is not among the classes {known}: correct the label, or name the class when the classifier is set up"
    )]
    UnknownClass {
        /// The label.
        label: String,
        /// Row, counted from 0.
        row: u64,
        /// The classes there are, abbreviated.
        known: String,
    },
    /// A target that the loss does not allow.
    #[error(
        "target {column} of row {row} is {value}: it must be {must}; correct or drop the row, or use another loss"
    )]
    Target {
        /// Row, counted from 0.
        row: u64,
        /// Target, counted from 0.
        column: usize,
        /// The offending value.
        value: f64,
        /// What is allowed.
        must: &'static str,
    },
    /// A preference that is no point of the simplex.
    #[error("preference: {reason}")]
    Preference {
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// What is to be removed is not in the summary, or cannot be taken out without losing digits.
    #[error("cannot remove: {reason}")]
    Removal {
        /// Why, and what to do.
        reason: String,
    },
    /// The operation needs something this memory or loss does not keep.
    #[error("{operation} is not possible here: {reason}")]
    Unsupported {
        /// What was asked.
        operation: &'static str,
        /// Why not, and what would make it possible.
        reason: String,
    },
    /// The operation needs summaries that are still in a model file.
    #[error(
        "{operation} needs the summaries of all tasks, and {missing} of them are not loaded: load them first"
    )]
    Unloaded {
        /// What was asked.
        operation: &'static str,
        /// How many tasks' summaries are elsewhere.
        missing: usize,
    },
    /// A state that is not one of a learner.
    #[error("the parts of the model do not fit together: {reason}")]
    State {
        /// Which, and why.
        reason: String,
    },
    /// Two summaries or learners that cannot be merged.
    #[error("cannot merge: {what} differs ({left} against {right})")]
    Mismatch {
        /// The setting that differs.
        what: &'static str,
        /// One side.
        left: String,
        /// The other side.
        right: String,
    },
    /// Bytes that are not a summary.
    #[error("not a summary: {reason}")]
    Bytes {
        /// What is wrong with them.
        reason: String,
    },
    /// Nothing has been learned yet.
    #[error("nothing has been learned yet: learn a task first")]
    NotLearned,
    /// A forgetting budget that no model satisfies.
    #[error("budget cannot be met: {reason}")]
    Infeasible {
        /// Which budget, and the least that is possible.
        reason: String,
    },
    /// An executor of passes was told to stop, for instance by Ctrl-C.
    #[error("interrupted before the end: nothing was changed")]
    Interrupted,
    /// The basis refused its spec or a row.
    #[error(transparent)]
    Basis(#[from] BasisError),
}

impl Error {
    /// The same error of a row that `rows` others come before.
    #[must_use]
    pub fn in_later_rows(self, rows: u64) -> Self {
        self.shifted(rows)
    }

    /// The same error with its row number counted from `rows` further up.
    pub(crate) fn shifted(self, rows: u64) -> Self {
        match self {
            Error::NotFinite { what, row, column, value } => {
                Error::NotFinite { what, row: row + rows, column, value }
            }
            Error::Target { row, column, value, must } => {
                Error::Target { row: row + rows, column, value, must }
            }
            Error::UnknownClass { label, row, known } => {
                Error::UnknownClass { label, row: row + rows, known }
            }
            Error::Weight { what: ROW_WEIGHT, at, value } => {
                let at = at.parse().map_or(at, |row: u64| (row + rows).to_string());
                Error::Weight { what: ROW_WEIGHT, at, value }
            }
            Error::Basis(error) => Error::Basis(error.shifted(rows as usize)),
            other => other,
        }
    }
}

/// What [`Error::Weight`] is about where it is the weight of a row.
pub(crate) const ROW_WEIGHT: &str = "sample weight of row";

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `1 row`, `2 rows`: a count with its unit, which is given as a plural.
fn counted(count: usize, unit: &str) -> String {
    let unit = if count == 1 { unit.strip_suffix('s').unwrap_or(unit) } else { unit };
    format!("{count} {unit}")
}

/// `a, b, c and 7 more`, for messages that list task names.
pub(crate) fn listing<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let total = names.len();
    if total == 0 {
        return "no tasks".to_owned();
    }
    let mut text = names.take(SHOWN).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    if total > SHOWN {
        text.push_str(&format!(" and {} more", total - SHOWN));
    }
    text
}
