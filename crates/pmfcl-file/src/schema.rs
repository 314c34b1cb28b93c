//! How the named columns of a table become the numbered inputs of a model.
//!
//! A number, a date and a boolean are one input each; a block (a list of numbers of fixed length in every
//! row) one for each of its places; a text column one for each category seen so far, 1 where the row has it.
//! Categories seen later become inputs at the end, so earlier inputs never move. Where missing values are allowed, the column that
//! misses one gets an input that is 1 in such rows, from the first of them on.

use pmfcl::basis::Fill;
use serde::{Deserialize, Serialize};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// Numbers or booleans.
    Number,
    /// Dates and times, as days since 1970.
    Date,
    /// Categories.
    Text,
    /// That many numbers in every row.
    Block(usize),
}

/// A column of features.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
    /// How its dates are written in text, in the directives of `strptime`; `None` for `2024-01-31`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

/// Where an input comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// The number or date of a column.
    Value {
        /// The column, counted from 0.
        column: usize,
    },
    /// One place of a block.
    Part {
        /// The column, counted from 0.
        column: usize,
        /// The place, counted from 0.
        place: usize,
    },
    /// 1 where a text column has this category.
    Category {
        /// The column, counted from 0.
        column: usize,
        /// The category.
        value: String,
    },
    /// 1 where a column misses its value, all of whose other inputs are then 0.
    Missing {
        /// The column, counted from 0.
        column: usize,
    },
}

/// What becomes of a value of a feature that a row misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingValues {
    /// Such rows are an error, or left out.
    #[default]
    Refused,
    /// The mean of the column over all rows learned, of a category its share.
    Mean,
    /// A coefficient of its own.
    Indicator,
}

impl MissingValues {
    /// Whether rows that miss a value are learned.
    pub fn are_learned(self) -> bool {
        self != Self::Refused
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn are_refused(&self) -> bool {
        *self == Self::Refused
    }
}

impl std::fmt::Display for MissingValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Refused => "error",
            Self::Mean => "mean",
            Self::Indicator => "indicator",
        })
    }
}

impl std::str::FromStr for MissingValues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "error" => Ok(Self::Refused),
            "mean" => Ok(Self::Mean),
            "indicator" => Ok(Self::Indicator),
            other => Err(format!("'{other}' is none of error, mean, indicator")),
        }
    }
}

/// What coefficients of categories are relative to. Inputs are the same in all codings, and so are predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coding {
    /// Nothing: each category has the coefficient of its input, and a constant may move between them and the intercept.
    #[default]
    Onehot,
    /// The first category of the column, which is part of the intercept.
    Reference,
    /// The mean of all categories of the column, which is part of the intercept: coefficients sum to zero.
    Sum,
}

impl Coding {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_onehot(&self) -> bool {
        *self == Self::Onehot
    }
}

impl std::fmt::Display for Coding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Onehot => "onehot",
            Self::Reference => "reference",
            Self::Sum => "sum",
        })
    }
}

impl std::str::FromStr for Coding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "onehot" => Ok(Self::Onehot),
            "reference" => Ok(Self::Reference),
            "sum" => Ok(Self::Sum),
            other => Err(format!("'{other}' is none of onehot, reference, sum")),
        }
    }
}

impl Input {
    /// The column it comes from.
    pub fn column(&self) -> usize {
        match self {
            Self::Value { column }
            | Self::Part { column, .. }
            | Self::Category { column, .. }
            | Self::Missing { column } => *column,
        }
    }

    /// How pieces of a table call an input that the model does not have yet: a category, or the gaps of a column.
    pub fn key(&self) -> String {
        match self {
            Self::Category { column, value } => format!("{column}:{value}"),
            Self::Missing { column } => format!("{column}?"),
            Self::Value { column } | Self::Part { column, .. } => column.to_string(),
        }
    }

    /// The input of a key, where it is one of a new input.
    pub fn of_key(key: &str) -> Option<Self> {
        let end = key.find(|c: char| !c.is_ascii_digit())?;
        let column = key[..end].parse().ok()?;
        match key[end..].split_at_checked(1)? {
            (":", value) => Some(Self::Category { column, value: value.to_owned() }),
            ("?", "") => Some(Self::Missing { column }),
            _ => None,
        }
    }
}

/// Columns, inputs and targets of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// The feature columns.
    pub columns: Vec<Column>,
    /// The inputs, in the order of the model.
    pub inputs: Vec<Input>,
    /// The target columns; a classifier has one, which holds the class.
    pub targets: Vec<String>,
    /// Columns that tables may have in addition to these.
    #[serde(default)]
    pub others: Others,
    /// What becomes of values that rows miss.
    #[serde(default, skip_serializing_if = "MissingValues::are_refused")]
    pub missing: MissingValues,
    /// What coefficients of categories are relative to.
    #[serde(default, skip_serializing_if = "Coding::is_onehot")]
    pub coding: Coding,
}

/// Columns that are no features and no targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Others {
    /// These were left out by name; any other is a surprise.
    Named(Vec<String>),
    /// The features were chosen by name, so all others are passed over.
    Any,
}

impl Default for Others {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

impl Schema {
    /// A schema of these columns, before any category is known.
    pub fn new(columns: Vec<Column>, targets: Vec<String>) -> Self {
        let mut inputs = Vec::new();
        for (column, c) in columns.iter().enumerate() {
            match c.kind {
                ColumnKind::Number | ColumnKind::Date => inputs.push(Input::Value { column }),
                ColumnKind::Block(width) => {
                    inputs.extend((0..width).map(|place| Input::Part { column, place }));
                }
                ColumnKind::Text => {}
            }
        }
        let (missing, coding) = (MissingValues::default(), Coding::default());
        Self { columns, inputs, targets, others: Others::default(), missing, coding }
    }

    /// A schema of plain numbers.
    pub fn numbers(features: &[String], targets: &[String]) -> Self {
        let column =
            |name: &String| Column { name: name.clone(), kind: ColumnKind::Number, format: None };
        Self::new(features.iter().map(column).collect(), targets.to_vec())
    }

    /// Names of the inputs: `age`, `pixels[3]`, `colour=red`, `age is missing`.
    pub fn features(&self) -> Vec<String> {
        self.inputs
            .iter()
            .map(|input| {
                let name = &self.columns[input.column()].name;
                match input {
                    Input::Value { .. } => name.clone(),
                    Input::Part { place, .. } => format!("{name}[{place}]"),
                    Input::Category { value, .. } => format!("{name}={value}"),
                    Input::Missing { .. } => format!("{name} is missing"),
                }
            })
            .collect()
    }

    /// Whether it is another one with columns and inputs behind those there were.
    pub(crate) fn begins_with(&self, earlier: &Self) -> bool {
        self.columns.starts_with(&earlier.columns)
            && self.inputs.starts_with(&earlier.inputs)
            && (&self.targets, self.missing, self.coding)
                == (&earlier.targets, earlier.missing, earlier.coding)
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// The categories of a text column and their inputs.
    pub fn categories(&self, column: usize) -> impl Iterator<Item = (&str, usize)> {
        self.inputs.iter().enumerate().filter_map(move |(i, input)| match input {
            Input::Category { column: c, value } if *c == column => Some((value.as_str(), i)),
            _ => None,
        })
    }

    /// The input that is 1 where a column misses its value, where one did.
    pub fn missing_input(&self, column: usize) -> Option<usize> {
        self.inputs.iter().position(|input| *input == Input::Missing { column })
    }

    /// The inputs whose gaps are filled with their means, and the inputs that say where.
    pub fn fills(&self) -> Vec<Fill> {
        if self.missing == MissingValues::Mean { self.gaps() } else { Vec::new() }
    }

    /// The inputs that have had gaps, and the inputs that say where.
    pub fn gaps(&self) -> Vec<Fill> {
        let mut fills = Vec::new();
        for (indicator, input) in self.inputs.iter().enumerate() {
            let Input::Missing { column } = input else { continue };
            let own = self.inputs.iter().enumerate().filter(|(_, other)| {
                other.column() == *column && !matches!(other, Input::Missing { .. })
            });
            fills.extend(own.map(|(value, _)| Fill { value, indicator }));
        }
        fills
    }

    /// The new input a key names, where its column is one of the schema's, and for a category one of text.
    fn of_key(&self, key: &str) -> Option<Input> {
        let input = Input::of_key(key)?;
        let kind = self.columns.get(input.column())?.kind;
        let category = matches!(input, Input::Category { .. });
        (!category || kind == ColumnKind::Text).then_some(input)
    }

    /// Whether a key names a new input of one of the columns.
    pub fn has_key(&self, key: &str) -> bool {
        self.of_key(key).is_some()
    }

    /// The input of a key, added at the end where the schema does not have it; `None` where the key names no column that has such
    /// inputs.
    pub fn input_of_key(&mut self, key: &str) -> Option<usize> {
        let wanted = self.of_key(key)?;
        if let Some(at) = self.inputs.iter().position(|input| *input == wanted) {
            return Some(at);
        }
        self.inputs.push(wanted);
        Some(self.inputs.len() - 1)
    }

    /// Whether any column holds categories.
    pub fn has_text(&self) -> bool {
        self.columns.iter().any(|c| c.kind == ColumnKind::Text)
    }

    /// Whether it can be what [`Schema::new`] and later categories lead to; else what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        names.extend(self.targets.iter().map(String::as_str));
        names.sort_unstable();
        if let Some([twice, _]) = names.array_windows().find(|[a, b]| a == b) {
            return Err(format!("two columns are named `{twice}`"));
        }
        if self.targets.is_empty() {
            return Err("there is no target".to_owned());
        }
        for input in &self.inputs {
            let Some(column) = self.columns.get(input.column()) else {
                return Err("an input comes from a column that is not there".to_owned());
            };
            let fits = match (input, column.kind) {
                (Input::Value { .. }, ColumnKind::Number | ColumnKind::Date)
                | (Input::Category { .. }, ColumnKind::Text) => true,
                (Input::Missing { .. }, kind) => {
                    self.missing.are_learned() && !matches!(kind, ColumnKind::Block(_))
                }
                (Input::Part { place, .. }, ColumnKind::Block(width)) => *place < width,
                _ => false,
            };
            if !fits {
                return Err(format!("an input does not fit the column `{}`", column.name));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_named_after_their_columns() {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind, format: None };
        let mut schema = Schema::new(
            vec![
                column("age", ColumnKind::Number),
                column("colour", ColumnKind::Text),
                column("p", ColumnKind::Block(2)),
            ],
            vec!["y".to_owned()],
        );
        schema.inputs.push(Input::Category { column: 1, value: "red".to_owned() });
        assert_eq!(schema.features(), ["age", "p[0]", "p[1]", "colour=red"]);
        assert_eq!(schema.categories(1).collect::<Vec<_>>(), [("red", 3)]);
        schema.check().unwrap();
        let text = serde_json::to_string(&schema).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&text).unwrap(), schema);
        // Gaps have inputs where they are allowed, and share those of a column of categories.
        schema.inputs.push(Input::Missing { column: 1 });
        assert!(schema.check().is_err());
        schema.missing = MissingValues::Mean;
        schema.inputs.push(Input::Category { column: 1, value: "blue".to_owned() });
        schema.check().unwrap();
        assert_eq!(schema.features()[4..], ["colour is missing", "colour=blue"]);
        let fill = |value| Fill { value, indicator: 4 };
        assert_eq!(schema.fills(), [fill(3), fill(5)]);
        let text = serde_json::to_string(&schema).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&text).unwrap(), schema);
        schema.missing = MissingValues::Indicator;
        assert_eq!(schema.fills(), []);
        schema.inputs.push(Input::Part { column: 2, place: 2 });
        assert!(schema.check().is_err());
    }
}
