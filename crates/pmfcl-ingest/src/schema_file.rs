//! Schema files: what each column of a table is, to be written by `pmfcl schema`, corrected, and given to `pmfcl learn`.
//!
//! ```toml
//! decimal = ","
//! na = ["-", "n/k"]
//!
//! [columns]
//! revenue = "target"
//! day = "date:%d.%m.%Y"
//! town = "category"
//! customer = "ignore"
//! ```
//!
//! The same as JSON where the name ends in `.json`. Of TOML only what stands above is read: text, lists of text, one table.

use std::path::Path;

use pmfcl_file::{Coding, MissingValues};
use pmfcl_read::{Options, Source};
use serde_json::{Map, Value};

use crate::columns::ColumnSelection;
use crate::roles::{ColumnRole, Role};
use crate::{IngestError, Result};

/// What a schema file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableSchema {
    /// Every column and what it is.
    pub columns: Vec<(String, Role)>,
    /// The decimal mark, where it is said.
    pub decimal: Option<char>,
    /// What groups digits, where it is said.
    pub thousands: Option<char>,
    /// Words for a missing value.
    pub na: Vec<String>,
    /// What becomes of missing values, where it is said.
    pub missing: Option<MissingValues>,
    /// What coefficients of categories are relative to, where it is said.
    pub coding: Option<Coding>,
}

impl TableSchema {
    /// The schema of a table as it was described, read with these options.
    pub fn of(columns: &[ColumnRole], options: &Options) -> Self {
        Self {
            columns: columns.iter().map(|c| (c.name.clone(), c.role.clone())).collect(),
            decimal: (options.decimal != b'.').then(|| options.decimal.into()),
            thousands: options.thousands,
            na: options.na.clone(),
            missing: None,
            coding: None,
        }
    }

    /// Reads a schema file.
    ///
    /// # Errors
    /// When it cannot be read, or says something that is no schema; the message has the line.
    pub fn read(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let wrong = |what: String| IngestError::Column { file: file.clone(), what };
        let text =
            std::fs::read_to_string(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
        let json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
        let value = if json {
            serde_json::from_str(&text).map_err(|e| wrong(format!("not a JSON schema: {e}")))?
        } else {
            toml(&text).map_err(wrong)?
        };
        Self::of_value(&value).map_err(wrong)
    }

    fn of_value(value: &Value) -> Result<Self, String> {
        let object = value.as_object().ok_or("a schema is a table with [columns]")?;
        let mut schema = Self::default();
        let mark = |name: &str, value: &Value| {
            let mut chars = value.as_str().unwrap_or_default().chars();
            match (chars.next(), chars.next()) {
                (Some(mark), None) => Ok(Some(mark)),
                _ => Err(format!("{name} is {value}; it must be one character")),
            }
        };
        for (name, value) in object {
            match name.as_str() {
                "decimal" => {
                    schema.decimal = mark(name, value)?;
                    if !matches!(schema.decimal, Some('.' | ',')) {
                        return Err(format!("decimal is {value}; it must be \".\" or \",\""));
                    }
                }
                "thousands" => schema.thousands = mark(name, value)?,
                "na" => {
                    let words = value.as_array().ok_or("na must be a list of words")?;
                    let words = words.iter().map(|w| w.as_str().map(str::to_owned));
                    schema.na = words.collect::<Option<_>>().ok_or("na must be a list of words")?;
                }
                "missing" => {
                    let said = value.as_str().unwrap_or_default().parse();
                    schema.missing = Some(said.map_err(|what| format!("missing: {what}"))?);
                }
                "coding" => {
                    let said = value.as_str().unwrap_or_default().parse();
                    schema.coding = Some(said.map_err(|what| format!("coding: {what}"))?);
                }
                "columns" => {
                    let columns = value.as_object().ok_or("columns must be a table")?;
                    for (column, role) in columns {
                        let role = role.as_str().unwrap_or_default().parse::<Role>();
                        let role = role.map_err(|what| format!("column '{column}': {what}"))?;
                        schema.columns.push((column.clone(), role));
                    }
                }
                other => {
                    return Err(format!(
                        "'{other}' is none of columns, decimal, thousands, na, missing, coding"
                    ));
                }
            }
        }
        if schema.columns.is_empty() {
            return Err("there are no [columns]".to_owned());
        }
        Ok(schema)
    }

    /// The text of a schema file: JSON, or else TOML.
    pub fn to_text(&self, json: bool) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let mark = |mark: Option<char>| mark.map(|mark| text(&mark.to_string()));
        let na = (!self.na.is_empty()).then(|| Value::from(self.na.clone()).to_string());
        let settings = [
            ("decimal", mark(self.decimal)),
            ("thousands", mark(self.thousands)),
            ("na", na),
            ("missing", self.missing.map(|missing| text(&missing.to_string()))),
            ("coding", self.coding.map(|coding| text(&coding.to_string()))),
        ];
        let settings: Vec<(&str, String)> =
            settings.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let columns = self.columns.iter().map(|(name, role)| (text(name), text(&role.to_string())));
        if json {
            let settings: Vec<String> =
                settings.iter().map(|(name, value)| format!("  \"{name}\": {value},\n")).collect();
            let columns: Vec<String> =
                columns.map(|(name, role)| format!("    {name}: {role}")).collect();
            let (settings, columns) = (settings.concat(), columns.join(",\n"));
            return format!("{{\n{settings}  \"columns\": {{\n{columns}\n  }}\n}}\n");
        }
        let settings: Vec<String> =
            settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        let columns: Vec<String> =
            columns.map(|(name, role)| format!("{name} = {role}\n")).collect();
        let blank = if settings.is_empty() { "" } else { "\n" };
        format!(
            "# What each column is: number, boolean, category, date, date:FORMAT, block, target, task or ignore.\n\
             {}{blank}[columns]\n{}",
            settings.concat(),
            columns.concat()
        )
    }

    /// How a table of this schema is read.
    pub fn apply(&self, options: &mut Options) {
        if let Some(mark) = self.decimal.and_then(|mark| u8::try_from(mark).ok()) {
            options.decimal = mark;
        }
        options.thousands = self.thousands.or(options.thousands);
        options.na.extend(self.na.iter().cloned());
    }

    /// Adds what the schema says to a selection. Targets and the task column that are named already stay.
    pub fn select(&self, selection: &mut ColumnSelection) {
        let new_targets = selection.targets.is_empty();
        for (name, role) in &self.columns {
            match role {
                Role::Target if new_targets => selection.targets.push(name.clone()),
                Role::Ignore => selection.exclude.push(name.clone()),
                Role::Category => selection.categories.push(name.clone()),
                Role::Number => selection.numbers.push(name.clone()),
                Role::Date(format) => selection.dates.push((name.clone(), format.clone())),
                Role::Target | Role::Task | Role::Boolean | Role::Block => {}
            }
        }
        selection.exclude.retain(|name| !selection.targets.contains(name));
    }

    /// The column that names the task of a row.
    pub fn task(&self) -> Option<&str> {
        self.columns.iter().find(|(_, role)| *role == Role::Task).map(|(name, _)| name.as_str())
    }

    /// Refuses a table with a column that the schema does not name.
    ///
    /// # Errors
    /// The first such column.
    pub fn check(&self, source: &Source) -> Result<()> {
        let named = |name: &String| self.columns.iter().any(|(column, _)| column == name);
        match source.fields().iter().find(|field| !named(&field.name)) {
            None => Ok(()),
            Some(field) => Err(IngestError::Column {
                file: source.label().to_owned(),
                what: format!(
                    "column '{}' is not in the schema; add `{} = \"ignore\"`, or what it is, to its [columns]",
                    field.name,
                    Value::from(field.name.as_str())
                ),
            }),
        }
    }
}

/// The part of TOML that schema files are written in.
fn toml(text: &str) -> Result<Value, String> {
    let mut top = Map::new();
    let mut columns: Option<Map<String, Value>> = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let wrong = |what: &str| format!("line {}: {what}: {line}", at + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            let name = line.split('#').next().unwrap_or_default().trim();
            if name != "[columns]" || columns.is_some() {
                return Err(wrong("the only table is [columns]"));
            }
            columns = Some(Map::new());
            continue;
        }
        let (key, rest) = match line.strip_prefix(['"', '\'']) {
            Some(_) => quoted(line).ok_or_else(|| wrong("the quote of the name does not end"))?,
            None => {
                let end = line.find(['=', ' ', '\t']).unwrap_or(line.len());
                (line[..end].to_owned(), &line[end..])
            }
        };
        let value = rest
            .trim_start()
            .strip_prefix('=')
            .ok_or_else(|| wrong("expected `name = \"value\"`"))?;
        let value = values(value.trim())
            .ok_or_else(|| wrong("the value must be text in quotes or a list of such texts"))?;
        let table = columns.as_mut().unwrap_or(&mut top);
        if table.insert(key.clone(), value).is_some() {
            return Err(wrong(&format!("'{key}' is there twice")));
        }
    }
    if let Some(columns) = columns {
        top.insert("columns".to_owned(), Value::Object(columns));
    }
    Ok(Value::Object(top))
}

/// The quoted text at the start, and what stands behind it. Text in single quotes is taken as it is.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut chars = text.char_indices();
    let (_, quote) = chars.next().filter(|(_, c)| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (at, c) in chars {
        if escaped {
            escaped = false;
        } else if c == '\\' && quote == '"' {
            escaped = true;
        } else if c == quote {
            let inner = &text[..=at];
            let read = if quote == '"' {
                serde_json::from_str(inner).ok()?
            } else {
                inner[1..at].to_owned()
            };
            return Some((read, &text[at + 1..]));
        }
    }
    None
}

/// A text, or a list of texts, and nothing behind it but a comment.
fn values(text: &str) -> Option<Value> {
    let over = |rest: &str| rest.trim().is_empty() || rest.trim().starts_with('#');
    let Some(mut rest) = text.strip_prefix('[') else {
        let (value, rest) = quoted(text)?;
        return over(rest).then_some(Value::from(value));
    };
    let mut list = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(rest) = rest.strip_prefix(']') {
            return over(rest).then_some(Value::from(list));
        }
        let (value, behind) = quoted(rest)?;
        list.push(value);
        rest = behind.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(rest) => rest,
            None if rest.starts_with(']') => rest,
            None => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_reads_back_as_it_was_written() {
        let role = |text: &str| text.parse::<Role>().unwrap();
        let schema = TableSchema {
            columns: vec![
                ("a b=\"c\"".to_owned(), role("number")),
                ("day".to_owned(), role("date:%d.%m.%Y")),
                ("y".to_owned(), role("target")),
                ("é".to_owned(), role("category")),
            ],
            decimal: Some(','),
            thousands: Some('\''),
            na: vec!["-".to_owned(), "n/k".to_owned()],
            missing: Some(MissingValues::Indicator),
            coding: Some(Coding::Sum),
        };
        for json in [false, true] {
            let text = schema.to_text(json);
            let value =
                if json { serde_json::from_str(&text).unwrap() } else { toml(&text).unwrap() };
            assert_eq!(TableSchema::of_value(&value).unwrap(), schema, "{text}");
        }
        let by_hand =
            "na=['-' , \"x\",]  # words\n[columns]\n 'a' =\"ignore\"# gone\nb\t= 'number'\n";
        let read = TableSchema::of_value(&toml(by_hand).unwrap()).unwrap();
        assert_eq!(read.na, ["-", "x"]);
        assert_eq!(read.columns, [("a".to_owned(), Role::Ignore), ("b".to_owned(), Role::Number)]);
    }

    #[test]
    fn what_is_no_schema_is_refused_with_its_line() {
        for (text, told) in [
            ("[columns]\na = number", "line 2"),
            ("[columns]\na = \"number\"\na = \"task\"", "twice"),
            ("[tables]\n", "only table is [columns]"),
            ("[columns]\na", "line 2"),
            ("[columns]\n\"a = \"number\"", "line 2"),
            ("na = [\"a\" \"b\"]", "line 1"),
        ] {
            let error = toml(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        for (text, told) in [
            ("[columns]\na = \"nummer\"", "column 'a': 'nummer' is none of"),
            ("decimal = \";\"\n[columns]\na = \"number\"", "decimal is \";\""),
            ("comma = \",\"\n[columns]\na = \"number\"", "'comma' is none of"),
            ("missing = \"median\"\n[columns]\na = \"number\"", "'median' is none of error, mean"),
            ("na = []", "no [columns]"),
            ("[columns]\na = \"date:%d\"", "needs a year"),
        ] {
            let error = TableSchema::of_value(&toml(text).unwrap()).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
