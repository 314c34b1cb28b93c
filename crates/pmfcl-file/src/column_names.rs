//! Errors of the core with the columns of a table by name instead of by number.

use pmfcl::basis::BasisError;
use pmfcl::{Basis, Design, Error, Learner};

use crate::Schema;

/// Features named in a message about the shape of a table.
const LISTED: usize = 12;

/// The names of the columns that the core counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnNames {
    /// The inputs: `age`, `pixels[3]`, `colour=red`.
    pub features: Vec<String>,
    /// The target columns.
    pub targets: Vec<String>,
    /// The columns of the design matrix; empty where the basis has not been fixed.
    pub design: Vec<String>,
}

impl ColumnNames {
    /// The names of a model's columns.
    pub fn of(schema: &Schema, learner: &Learner) -> Self {
        if let Some(design) = learner.design() {
            return Self::under(schema, design);
        }
        let (features, settings) = (schema.features(), learner.settings());
        // A linear design has one column per input, also before the first task.
        let linear = settings.basis == Basis::default();
        let mapped = if linear { features.clone() } else { Vec::new() };
        Self::new(schema, features, mapped, linear && settings.intercept)
    }

    /// The names of the columns of a design, for the inputs of a schema.
    pub fn under(schema: &Schema, design: &Design) -> Self {
        let features = schema.features();
        let fits = design.inputs() == features.len();
        let mapped = if fits { design.map().names(&features) } else { Vec::new() };
        Self::new(schema, features, mapped, fits && design.intercept())
    }

    fn new(schema: &Schema, features: Vec<String>, mapped: Vec<String>, intercept: bool) -> Self {
        let intercept = intercept.then(|| "intercept".to_owned());
        let design = intercept.into_iter().chain(mapped).collect();
        Self { features, targets: schema.targets.clone(), design }
    }

    /// With inputs that follow those of the schema, such as the new categories of a piece of a file.
    #[must_use]
    pub fn and_inputs(mut self, names: impl IntoIterator<Item = String>) -> Self {
        for name in names {
            if !self.design.is_empty() {
                self.design.push(name.clone());
            }
            self.features.push(name);
        }
        self
    }

    /// The message of an error with its column by name. The row is left out without `with_row`, for a caller that has
    /// printed the row of the file.
    pub fn message(&self, error: &Error, with_row: bool) -> String {
        self.named(error, with_row).unwrap_or_else(|| error.to_string())
    }

    fn named(&self, error: &Error, with_row: bool) -> Option<String> {
        let at = |row: u64| if with_row { format!(" at row {row}") } else { String::new() };
        Some(match error {
            Error::NotFinite { what: "sample weight", row, value, .. } => format!(
                "sample weight{} is {}: values must be finite; drop the row or fill the gap",
                at(*row),
                short(*value)
            ),
            Error::NotFinite { what, row, column, value } => {
                let names = if *what == "target" { &self.targets } else { &self.features };
                let name = names.get(*column)?;
                format!(
                    "{what} '{name}'{} is {}: values must be finite; drop the row or fill the gap",
                    at(*row),
                    short(*value)
                )
            }
            Error::Target { row, column, value, must } => format!(
                "target '{}'{} is {}: it must be {must}; correct or drop the row, or use another loss",
                self.targets.get(*column)?,
                at(*row),
                short(*value)
            ),
            Error::UnknownClass { label, row, known } => format!(
                "target '{}'{} has class `{label}`, which is not among the classes {known}: correct the label, \
                 or name the class when the model is made",
                self.targets.first()?,
                at(*row)
            ),
            Error::Overflow { column } => {
                let name = match column.checked_sub(self.design.len()) {
                    None => &self.design[*column],
                    // Targets are counted after the columns of the design.
                    Some(target) if !self.design.is_empty() => self.targets.get(target)?,
                    Some(_) => return None,
                };
                format!(
                    "column '{name}' overflows double precision when squared and summed: rescale it (the qr \
                     accumulator reaches further than gram)"
                )
            }
            Error::Shape { what: "the feature table", unit: "columns", expected, found }
                if *expected == self.features.len() =>
            {
                let mut names = self.features.iter().take(LISTED).cloned().collect::<Vec<_>>();
                if *expected > LISTED {
                    names.push("…".to_owned());
                }
                let (these, columns) =
                    (names.join(", "), if *found == 1 { "column" } else { "columns" });
                format!(
                    "the feature table has {found} {columns}, but {expected} were expected: {these}"
                )
            }
            Error::Basis(BasisError::NotFinite { row, column, value }) => format!(
                "feature '{}'{} is {}: drop the row, or fill the gap",
                self.features.get(*column)?,
                at(*row as u64),
                short(*value)
            ),
            Error::Basis(BasisError::Overflow { basis, row, column, value }) => format!(
                "feature '{}'{} is {}, where `{basis}` overflows: rescale the column, or take a basis that \
                 grows more slowly, such as `log`",
                self.features.get(*column)?,
                at(*row as u64),
                short(*value)
            ),
            Error::Basis(BasisError::Pole { basis, row, column }) => format!(
                "feature '{}'{} is 0, where `{basis}` is undefined: shift the column, or take a positive exponent",
                self.features.get(*column)?,
                at(*row as u64)
            ),
            Error::Basis(BasisError::Range { column, lo, hi }) => format!(
                "feature '{}' runs from {} to {} in the first rows: rescale the column",
                self.features.get(*column)?,
                short(*lo),
                short(*hi)
            ),
            _ => return None,
        })
    }
}

/// A number without rows of zeros: 1e300 has three hundred of them.
fn short(value: f64) -> String {
    let size = value.abs();
    let plain = !value.is_finite() || size <= 0.0 || (1e-5..1e16).contains(&size);
    if plain { value.to_string() } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use pmfcl::{Problem, Settings};

    use super::*;

    fn names(basis: &str) -> ColumnNames {
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let schema = Schema::numbers(&list(&["age", "income"]), &list(&["rent"]));
        let settings = Settings { basis: basis.parse().unwrap(), ..Settings::default() };
        ColumnNames::of(&schema, &Learner::new(Problem::squared(), settings).unwrap())
    }

    #[test]
    fn an_overflow_names_the_column_or_the_target() {
        let linear = names("linear");
        for (column, name) in [(0, "intercept"), (1, "age"), (2, "income"), (3, "rent")] {
            let message = linear.message(&Error::Overflow { column }, true);
            assert!(message.starts_with(&format!("column '{name}' overflows")), "{message}");
        }
        // Outside the table, and under a basis that has not been fixed, the number is all that is known.
        for (names, column) in [(linear, 4), (names("poly:2"), 3)] {
            let error = Error::Overflow { column };
            assert_eq!(names.message(&error, true), error.to_string());
        }
    }

    #[test]
    fn the_row_is_left_out_on_request() {
        let error = Error::Basis(BasisError::NotFinite { row: 7, column: 1, value: f64::NAN });
        let names = names("poly:2");
        assert_eq!(
            names.message(&error, true),
            "feature 'income' at row 7 is NaN: drop the row, or fill the gap"
        );
        assert_eq!(
            names.message(&error, false),
            "feature 'income' is NaN: drop the row, or fill the gap"
        );
    }

    #[test]
    fn inputs_of_new_categories_come_before_the_targets() {
        let names = names("linear").and_inputs(["colour=red".to_owned()]);
        for (column, name) in [(3, "colour=red"), (4, "rent")] {
            let message = names.message(&Error::Overflow { column }, true);
            assert!(message.starts_with(&format!("column '{name}' overflows")), "{message}");
        }
    }

    #[test]
    fn numbers_are_written_without_rows_of_zeros() {
        for (value, text) in
            [(1e300, "1e300"), (-2.5e-9, "-2.5e-9"), (0.0, "0"), (-0.25, "-0.25"), (1e6, "1000000")]
        {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn a_wrong_shape_names_what_was_expected() {
        let shape = |expected| Error::Shape {
            what: "the feature table",
            unit: "columns",
            expected,
            found: 1,
        };
        assert_eq!(
            names("linear").message(&shape(2), true),
            "the feature table has 1 column, but 2 were expected: age, income"
        );
        assert_eq!(names("linear").message(&shape(3), true), shape(3).to_string());
    }
}
