//! How the named columns of a table become the numbered inputs of a model.
//!
//! A number, a date and a boolean are one input each; a block (a list of numbers of fixed length in every
//! row) one for each of its places; a text column one for each category seen so far, 1 where the row has it.
//! Categories seen later become inputs at the end, so earlier inputs never move.

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
}

impl Input {
    /// The column it comes from.
    pub fn column(&self) -> usize {
        match self {
            Self::Value { column } | Self::Part { column, .. } | Self::Category { column, .. } => {
                *column
            }
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
        Self { columns, inputs, targets, others: Others::default() }
    }

    /// A schema of plain numbers.
    pub fn numbers(features: &[String], targets: &[String]) -> Self {
        let column =
            |name: &String| Column { name: name.clone(), kind: ColumnKind::Number, format: None };
        Self::new(features.iter().map(column).collect(), targets.to_vec())
    }

    /// Names of the inputs: `age`, `pixels[3]`, `colour=red`.
    pub fn features(&self) -> Vec<String> {
        self.inputs
            .iter()
            .map(|input| {
                let name = &self.columns[input.column()].name;
                match input {
                    Input::Value { .. } => name.clone(),
                    Input::Part { place, .. } => format!("{name}[{place}]"),
                    Input::Category { value, .. } => format!("{name}={value}"),
                }
            })
            .collect()
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

    /// What a category that a model may not know is called between machines: the position of its column, `:`, its value.
    pub fn category_key(column: usize, value: &str) -> String {
        format!("{column}:{value}")
    }

    /// Column and category of a key, where the column is one of text.
    fn of_key<'a>(&self, key: &'a str) -> Option<(usize, &'a str)> {
        let (column, value) = key.split_once(':')?;
        let column: usize = column.parse().ok()?;
        let text = self.columns.get(column).is_some_and(|c| c.kind == ColumnKind::Text);
        text.then_some((column, value))
    }

    /// Whether a key names a category of one of the text columns.
    pub fn has_key(&self, key: &str) -> bool {
        self.of_key(key).is_some()
    }

    /// The input of a category by its key, added at the end where the schema does not have it; `None` where the key names no text
    /// column.
    pub fn input_of_key(&mut self, key: &str) -> Option<usize> {
        let (column, value) = self.of_key(key)?;
        if let Some((_, at)) = self.categories(column).find(|(known, _)| *known == value) {
            return Some(at);
        }
        self.inputs.push(Input::Category { column, value: value.to_owned() });
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
        schema.inputs.push(Input::Part { column: 2, place: 2 });
        assert!(schema.check().is_err());
    }
}
