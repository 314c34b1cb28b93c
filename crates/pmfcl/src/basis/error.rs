//! What can be wrong with a basis: its spec, the rows that fix it, the rows it is applied to.

use super::spec::NAMES;

/// A basis that cannot be read, fixed or applied.
///
/// Rows are counted from 0 within the slice that was handed in; columns are inputs, also from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BasisError {
    /// The word before the colon is not a basis.
    #[error("`{name}` is not a basis{}; there are {}", did_you_mean(*nearest), list(NAMES))]
    UnknownName {
        /// What was written.
        name: String,
        /// The basis spelled most like it.
        nearest: Option<&'static str>,
    },
    /// An option the basis does not have.
    #[error("`{basis}` has no option `{option}`{}; {}", did_you_mean(*nearest), options(allowed))]
    UnknownOption {
        /// The basis.
        basis: &'static str,
        /// What was written.
        option: String,
        /// The options there are.
        allowed: &'static [&'static str],
        /// The option spelled most like it.
        nearest: Option<&'static str>,
    },
    /// A value that does not fit its place.
    #[error("`{piece}` in a `{basis}` basis: expected {expected}")]
    Value {
        /// The basis.
        basis: &'static str,
        /// The part of the spec that holds the value.
        piece: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// The number after the colon is missing.
    #[error("`{basis}` needs {expected} after a colon, as in `{example}`")]
    MissingNumber {
        /// The basis.
        basis: &'static str,
        /// What is missing.
        expected: &'static str,
        /// A spec that works.
        example: &'static str,
    },
    /// The same option twice.
    #[error("`{option}` is given twice in a `{basis}` basis")]
    Repeated {
        /// The basis.
        basis: &'static str,
        /// The option.
        option: &'static str,
    },
    /// More numbers than can reasonably be held.
    #[error("`{basis}` on {inputs} inputs has more than {most} {what}: take a smaller basis")]
    TooLarge {
        /// The spec.
        basis: String,
        /// Number of inputs.
        inputs: usize,
        /// What there are too many of: columns or weights.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// Inputs that are not the image a basis needs.
    #[error("`{basis}` on {inputs} inputs: {reason}")]
    Image {
        /// The spec.
        basis: String,
        /// Number of inputs.
        inputs: usize,
        /// What does not fit, and what to do.
        reason: String,
    },
    /// A basis that learns its ranges from the first rows was given none.
    #[error("`{basis}` is fixed from the first rows, but there are none")]
    NoRows {
        /// The spec.
        basis: String,
    },
    /// There is nothing to map.
    #[error("a basis needs at least one input")]
    NoInputs,
    /// A flat slice of rows that does not divide into rows.
    #[error("{len} numbers are not rows of {inputs} inputs")]
    Shape {
        /// Numbers handed in.
        len: usize,
        /// Numbers in a row.
        inputs: usize,
    },
    /// The place for the result is too small.
    #[error("mapped rows need {needed} numbers in the {what}, but there are {found}")]
    Room {
        /// Where: `stride` or `output`.
        what: &'static str,
        /// Numbers needed.
        needed: usize,
        /// Numbers there are.
        found: usize,
    },
    /// A missing or infinite input.
    #[error("row {row}, column {column} is {value}: drop the row, or fill the gap")]
    NotFinite {
        /// Row, from 0.
        row: usize,
        /// Input column, from 0.
        column: usize,
        /// The value.
        value: f64,
    },
    /// An input at which the mapped value is too large for a number.
    #[error(
        "row {row}, column {column} is {value}, where `{basis}` overflows: \
         rescale the column, or take a basis that grows more slowly, such as `log`"
    )]
    Overflow {
        /// The spec.
        basis: String,
        /// Row, from 0.
        row: usize,
        /// Input column, from 0; where several meet, the largest.
        column: usize,
        /// The value.
        value: f64,
    },
    /// Zero raised to a negative power.
    #[error(
        "row {row}, column {column} is 0, where `{basis}` is undefined: \
         shift the column, or take a positive exponent"
    )]
    Pole {
        /// The spec.
        basis: String,
        /// Row, from 0.
        row: usize,
        /// Input column, from 0.
        column: usize,
    },
    /// The first rows span more (or vary less) than a number can hold.
    #[error("column {column} runs from {lo} to {hi} in the first rows: rescale the column")]
    Range {
        /// Input column, from 0.
        column: usize,
        /// Smallest value.
        lo: f64,
        /// Largest value.
        hi: f64,
    },
    /// Stored numbers that do not belong to this basis.
    #[error("stored numbers do not fit a `{basis}` basis on {inputs} inputs: {what}")]
    Frozen {
        /// The spec.
        basis: String,
        /// Number of inputs.
        inputs: usize,
        /// What is wrong with them.
        what: &'static str,
    },
}

impl BasisError {
    /// The same error with its row counted from `rows` further up.
    pub(crate) fn shifted(mut self, rows: usize) -> Self {
        if let Self::NotFinite { row, .. } | Self::Overflow { row, .. } | Self::Pole { row, .. } =
            &mut self
        {
            *row += rows;
        }
        self
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

fn options(allowed: &[&str]) -> String {
    if allowed.is_empty() { "it has none".into() } else { format!("it has {}", list(allowed)) }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
