//! Which columns of a table are features, and whether a table has those a model knows.

use std::collections::BTreeSet;

use pmfcl_file::{Column, ColumnKind, Input, Model, Others, Schema};
use pmfcl_read::{CommaCell, DateFormat, Field, Kind, Source};

use crate::{IngestError, Result, shell_option};

/// Which columns of a table have which role, by name.
#[derive(Debug, Clone, Default)]
pub struct ColumnSelection {
    /// The targets.
    pub targets: Vec<String>,
    /// The features; where `None`, every column that has no other role.
    pub features: Option<Vec<String>>,
    /// Columns that are not features.
    pub exclude: Vec<String>,
    /// Columns with another role: task, client.
    pub reserved: Vec<String>,
    /// Columns of dates, to be days since 1970, and how they are written where that is not `2024-01-31`.
    pub dates: Vec<(String, Option<DateFormat>)>,
    /// Columns of numbers to be read as categories, and columns of texts such as `1,5` that are not decimals.
    pub categories: Vec<String>,
    /// Columns to be read as numbers, whatever their first rows hold.
    pub numbers: Vec<String>,
    /// Columns that a model does not have yet, to be added: they have been zero in all rows it has learned.
    pub new: Vec<String>,
    /// Of these, the ones that have held something else in all rows it has learned: a number, days since 1970 for a date, a category.
    pub past: Vec<(String, String)>,
}

impl ColumnSelection {
    /// How the dates of a column are written, where it is one of dates.
    fn date(&self, name: &str) -> Option<&Option<DateFormat>> {
        self.dates.iter().find(|(column, _)| column == name).map(|(_, format)| format)
    }
}

/// The columns chosen, and whether the target holds classes.
#[derive(Debug, Clone)]
pub struct ChosenColumns {
    /// Columns, inputs and targets of a new model.
    pub schema: Schema,
    /// Whether the target column is text.
    pub text_target: bool,
    /// The columns left out because they are the index of a pandas table, and nobody named them.
    pub index: Vec<String>,
}

/// Chooses the columns of a new model.
///
/// # Errors
/// When a name is missing, a column has two roles, or a column cannot be a feature. Numbers with a comma are not
/// taken for categories.
pub fn choose_columns(source: &Source, selection: &ColumnSelection) -> Result<ChosenColumns> {
    let file = source.label();
    let wrong = |what: String| IngestError::Column { file: file.to_owned(), what };
    let find = |name: &String| {
        source.fields().iter().find(|f| f.name == *name).ok_or_else(|| {
            let there = listing(source.fields());
            wrong(format!("there is no column '{name}'; there are: {there}"))
        })
    };
    let mut asked: Vec<&String> = selection.targets.iter().collect();
    asked.extend(&selection.exclude);
    asked.extend(&selection.reserved);
    let dates = selection.dates.iter().map(|(name, _)| name);
    let stated = selection.categories.iter().chain(&selection.numbers);
    for name in asked.iter().copied().chain(dates).chain(stated) {
        find(name)?;
    }
    if selection.targets.is_empty() {
        return Err(wrong("no target is named; give --target COLUMN".to_owned()));
    }
    let mut taken: BTreeSet<&String> = BTreeSet::new();
    for name in selection.targets.iter().chain(&selection.reserved) {
        if !taken.insert(name) {
            return Err(wrong(format!(
                "column '{name}' is named twice, as target or as task; name it once"
            )));
        }
    }
    let mut index: Vec<String> = Vec::new();
    let features: Vec<&Field> = match &selection.features {
        Some(names) => {
            if let Some(name) =
                names.iter().find(|n| taken.contains(n) || selection.exclude.contains(n))
            {
                return Err(wrong(format!(
                    "column '{name}' cannot be a feature as well; leave it out of --features"
                )));
            }
            names.iter().map(find).collect::<Result<_>>()?
        }
        None => {
            taken.extend(&selection.exclude);
            let named = |name: &String| {
                selection.date(name).is_some() || selection.categories.contains(name)
            };
            let unnamed = source.index_columns().iter().filter(|name| !named(name));
            index.extend(unnamed.filter(|name| !taken.contains(name)).cloned());
            let left = |f: &&Field| !taken.contains(&f.name) && !index.contains(&f.name);
            source.fields().iter().filter(left).collect()
        }
    };
    if features.is_empty() {
        let hint = match &index[..] {
            [] => String::new(),
            list => {
                format!("; {} uses the index of the pandas table", shell_option("--features", list))
            }
        };
        return Err(wrong(format!("no column is left to be a feature{hint}")));
    }
    let mut columns = Vec::with_capacity(features.len());
    for field in features {
        let kind = match &field.kind {
            _ if selection.date(&field.name).is_some() => ColumnKind::Date,
            Kind::Text if selection.numbers.contains(&field.name) => ColumnKind::Number,
            Kind::Number | Kind::Boolean if selection.categories.contains(&field.name) => {
                ColumnKind::Text
            }
            Kind::Number | Kind::Boolean => ColumnKind::Number,
            Kind::Text => ColumnKind::Text,
            Kind::Block { width } => ColumnKind::Block(*width),
            Kind::Date => {
                let name = &field.name;
                return Err(wrong(format!(
                    "column '{name}' holds dates; use them as days since 1970 with {}, or leave them out with {}",
                    shell_option("--dates", &[name]),
                    shell_option("--exclude", &[name])
                )));
            }
            Kind::Other(what) => {
                let name = &field.name;
                return Err(wrong(format!(
                    "column '{name}' holds values of type {what}, which cannot be features; \
                     leave it out with {}",
                    shell_option("--exclude", &[name])
                )));
            }
        };
        let format = selection.date(&field.name).and_then(Clone::clone);
        columns.push(Column {
            name: field.name.clone(),
            kind,
            format: format.map(|format| format.to_string()),
        });
    }
    let target = &selection.targets[0];
    let text_target = find(target)?.kind == Kind::Text && !selection.numbers.contains(target);
    let mut schema = Schema::new(columns, selection.targets.clone());
    schema.others = if selection.features.is_some() {
        Others::Any
    } else {
        Others::Named([&selection.exclude[..], &selection.reserved, &index].concat())
    };
    check_categories(source, &schema, selection)?;
    check_labels(source, &selection.targets, &[], selection)?;
    Ok(ChosenColumns { schema, text_target, index })
}

/// Adds the new columns of a table to a model whose past is stated, and takes them off the list of those to be added. The
/// summaries of all tasks must be loaded.
///
/// # Errors
/// As for other new columns, and when a value does not go with its column or the model cannot take it. The model is then
/// unchanged.
pub fn add_stated_columns(
    model: &mut Model,
    source: &Source,
    selection: &mut ColumnSelection,
) -> Result<()> {
    let stated = std::mem::take(&mut selection.past);
    selection.new.retain(|name| stated.iter().all(|(column, _)| column != name));
    let (mut schema, mut past) = (model.schema.clone(), Vec::new());
    for (name, value) in &stated {
        let one = ColumnSelection { new: vec![name.clone()], ..selection.clone() };
        schema = with_new_columns(source, &schema, &one)?;
        let column = schema.columns.len() - 1;
        if schema.columns[column].kind == ColumnKind::Text {
            schema.inputs.push(Input::Category { column, value: value.clone() });
            past.push(1.0);
            continue;
        }
        let number = match value.as_str() {
            "true" => Some(1.0),
            "false" => Some(0.0),
            text => text.parse().ok().filter(|number: &f64| number.is_finite()),
        };
        let Some(number) = number else {
            let kind = match schema.columns[column].kind {
                ColumnKind::Date => "dates, which are days since 1970",
                _ => "numbers",
            };
            let what = format!(
                "column '{name}' holds {kind}; '{value}' is none: state its past as --new-columns {name}=0"
            );
            return Err(IngestError::Column { file: source.label().to_owned(), what });
        };
        past.push(number);
    }
    model.learner.extend_inputs_with(&past)?;
    model.schema = schema;
    Ok(())
}

/// The schema of a model with the new columns of a table at its end.
///
/// # Errors
/// When the table does not have such a column, the model has it already, or it cannot be a feature.
pub(crate) fn with_new_columns(
    source: &Source,
    schema: &Schema,
    selection: &ColumnSelection,
) -> Result<Schema> {
    let mut schema = schema.clone();
    let wrong = |what: String| IngestError::Column { file: source.label().to_owned(), what };
    for name in &selection.new {
        if schema.column(name).is_some() || schema.targets.contains(name) {
            return Err(wrong(format!("the model has a column '{name}' already")));
        }
        let Some(field) = source.fields().iter().find(|f| f.name == *name) else {
            let there = listing(source.fields());
            return Err(wrong(format!("there is no column '{name}'; there are: {there}")));
        };
        let kind = match &field.kind {
            _ if selection.date(name).is_some() => ColumnKind::Date,
            Kind::Number | Kind::Boolean if selection.categories.contains(name) => ColumnKind::Text,
            Kind::Number | Kind::Boolean => ColumnKind::Number,
            Kind::Text => ColumnKind::Text,
            other => {
                return Err(wrong(format!("column '{name}' holds {other} and cannot be added")));
            }
        };
        let format = selection.date(name).and_then(Clone::clone);
        let format = format.map(|format| format.to_string());
        let column = schema.columns.len();
        schema.columns.push(Column { name: name.clone(), kind, format });
        if kind != ColumnKind::Text {
            schema.inputs.push(Input::Value { column });
        }
        if let Others::Named(others) = &mut schema.others {
            others.retain(|other| other != name);
        }
    }
    Ok(schema)
}

/// Refuses features that are numbers with a comma: as text, every number would be a separate category. Columns of which
/// the model knows such categories, and columns named as categories, are accepted.
fn check_categories(source: &Source, schema: &Schema, selection: &ColumnSelection) -> Result<()> {
    for (at, column) in schema.columns.iter().enumerate() {
        if column.kind == ColumnKind::Text && !schema.categories(at).any(|(c, _)| c.contains(',')) {
            check_commas(source, &column.name, selection)?;
        }
    }
    Ok(())
}

/// Refuses targets that are numbers with a comma: as text, every number would be a separate class. They are accepted where
/// the model knows such classes, or the target is named as a column of categories.
///
/// # Errors
/// The first such number.
pub fn check_labels(
    source: &Source,
    targets: &[String],
    known: &[String],
    selection: &ColumnSelection,
) -> Result<()> {
    if known.iter().any(|class| class.contains(',')) {
        return Ok(());
    }
    targets.iter().try_for_each(|name| check_commas(source, name, selection))
}

fn check_commas(source: &Source, column: &str, selection: &ColumnSelection) -> Result<()> {
    if selection.categories.iter().any(|name| name == column) {
        return Ok(());
    }
    let Some(CommaCell { place, value }) = source.comma_numbers(column) else { return Ok(()) };
    let (file, column) = (source.label().to_owned(), column.to_owned());
    Err(IngestError::CommaNumber { file, place, column, value })
}

/// Checks that a table has the columns of a model. With `refuse_unknown`, columns the model does not know are an error.
///
/// # Errors
/// The first column that is missing, of another kind, or unknown.
pub fn check_columns(
    source: &Source,
    schema: &Schema,
    selection: &ColumnSelection,
    refuse_unknown: bool,
) -> Result<()> {
    let file = source.label();
    let wrong = |what: String| IngestError::Column { file: file.to_owned(), what };
    let missing: Vec<&str> = schema
        .columns
        .iter()
        .map(|c| &c.name)
        .chain(&selection.reserved)
        .filter(|name| source.fields().iter().all(|f| f.name != **name))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        let many = if missing.len() == 1 { "column" } else { "columns" };
        let there = listing(source.fields());
        return Err(wrong(format!(
            "the model needs the {many} '{}', which the file does not have; there are: {there}",
            missing.join("', '")
        )));
    }
    for column in &schema.columns {
        let found = source.fields().iter().find(|f| f.name == column.name).map(|f| &f.kind);
        if let (ColumnKind::Block(ours), Some(Kind::Block { width })) = (column.kind, found)
            && ours != *width
        {
            return Err(wrong(format!(
                "column '{}' holds {width} numbers per row, but the model knows {ours}",
                column.name
            )));
        }
    }
    if !refuse_unknown {
        return Ok(());
    }
    check_categories(source, schema, selection)?;
    let Others::Named(others) = &schema.others else { return Ok(()) };
    let known = |name: &String| {
        schema.column(name).is_some()
            || [
                &schema.targets,
                others,
                &selection.exclude,
                &selection.reserved,
                &selection.targets,
                &selection.new,
            ]
            .iter()
            .any(|list| list.contains(name))
            || source.index_columns().contains(name)
    };
    match source.fields().iter().find(|f| !known(&f.name)) {
        Some(field) => Err(wrong(format!(
            "column '{}' is new: the model was made without it; leave it out with {}, or add it with {} (0 in all rows \
             learned before; COLUMN=VALUE states another value)",
            field.name,
            shell_option("--exclude", &[&field.name]),
            shell_option("--new-columns", &[&field.name])
        ))),
        None => Ok(()),
    }
}

fn listing(fields: &[Field]) -> String {
    const SHOWN: usize = 12;
    let names: Vec<&str> = fields.iter().take(SHOWN).map(|f| f.name.as_str()).collect();
    let more = fields.len().saturating_sub(SHOWN);
    if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
}
