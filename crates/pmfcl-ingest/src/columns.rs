//! Which columns of a table are features, and whether a table has those a model knows.

use std::collections::BTreeSet;

use pmfcl_file::{Column, ColumnKind, Others, Schema};
use pmfcl_read::{CommaCell, Field, Kind, Source};

use crate::{IngestError, Result};

/// Which columns are wanted, by name.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// The targets.
    pub targets: Vec<String>,
    /// The features; all that are nothing else where `None`.
    pub features: Option<Vec<String>>,
    /// Columns that are no features.
    pub exclude: Vec<String>,
    /// Columns that play another part: task, client.
    pub reserved: Vec<String>,
    /// Columns of dates, to be days since 1970.
    pub dates: Vec<String>,
    /// Columns of numbers that are categories; also those of text that only looks like numbers with a comma.
    pub categories: Vec<String>,
}

/// The columns chosen, and whether the target holds classes.
#[derive(Debug, Clone)]
pub struct Selection {
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
/// When a name is not there, two parts want the same column, or a column cannot be a feature: numbers with a comma are
/// no categories.
pub fn choose_columns(source: &Source, wish: &Wish) -> Result<Selection> {
    let file = source.label();
    let wrong = |what: String| IngestError::Column { file: file.to_owned(), what };
    let find = |name: &String| {
        source.fields().iter().find(|f| f.name == *name).ok_or_else(|| {
            let there = listing(source.fields());
            wrong(format!("there is no column '{name}'; there are: {there}"))
        })
    };
    let mut asked: Vec<&String> = wish.targets.iter().collect();
    asked.extend(&wish.exclude);
    asked.extend(&wish.reserved);
    for name in asked.iter().copied().chain(&wish.dates).chain(&wish.categories) {
        find(name)?;
    }
    if wish.targets.is_empty() {
        return Err(wrong("no target is named; give --target COLUMN".to_owned()));
    }
    let mut taken: BTreeSet<&String> = BTreeSet::new();
    for name in wish.targets.iter().chain(&wish.reserved) {
        if !taken.insert(name) {
            return Err(wrong(format!("column '{name}' is asked for twice")));
        }
    }
    let mut index: Vec<String> = Vec::new();
    let features: Vec<&Field> = match &wish.features {
        Some(names) => {
            if let Some(name) = names.iter().find(|n| taken.contains(n) || wish.exclude.contains(n))
            {
                return Err(wrong(format!("column '{name}' cannot be a feature as well")));
            }
            names.iter().map(find).collect::<Result<_>>()?
        }
        None => {
            taken.extend(&wish.exclude);
            let named = |name: &String| wish.dates.contains(name) || wish.categories.contains(name);
            let unnamed = source.index_columns().iter().filter(|name| !named(name));
            index.extend(unnamed.filter(|name| !taken.contains(name)).cloned());
            let left = |f: &&Field| !taken.contains(&f.name) && !index.contains(&f.name);
            source.fields().iter().filter(left).collect()
        }
    };
    if features.is_empty() {
        let hint = match &index[..] {
            [] => String::new(),
            list => format!("; --features {} uses the index of the pandas table", list.join(",")),
        };
        return Err(wrong(format!("no column is left to be a feature{hint}")));
    }
    let mut columns = Vec::with_capacity(features.len());
    for field in features {
        let kind = match &field.kind {
            _ if wish.dates.contains(&field.name) => ColumnKind::Date,
            Kind::Number | Kind::Boolean if wish.categories.contains(&field.name) => {
                ColumnKind::Text
            }
            Kind::Number | Kind::Boolean => ColumnKind::Number,
            Kind::Text => ColumnKind::Text,
            Kind::Block { width } => ColumnKind::Block(*width),
            Kind::Date => {
                let name = &field.name;
                return Err(wrong(format!(
                    "column '{name}' holds dates; use them as days since 1970 with --dates {name}, \
                     or leave them out with --exclude {name}"
                )));
            }
            Kind::Other(what) => {
                let name = &field.name;
                return Err(wrong(format!(
                    "column '{name}' holds values of type {what}, which cannot be features; \
                     leave it out with --exclude {name}"
                )));
            }
        };
        columns.push(Column { name: field.name.clone(), kind });
    }
    let text_target = find(&wish.targets[0])?.kind == Kind::Text;
    let mut schema = Schema::new(columns, wish.targets.clone());
    schema.others = if wish.features.is_some() {
        Others::Any
    } else {
        Others::Named([&wish.exclude[..], &wish.reserved, &index].concat())
    };
    check_categories(source, &schema, wish)?;
    check_labels(source, &wish.targets, &[], wish)?;
    Ok(Selection { schema, text_target, index })
}

/// Refuses features that are numbers with a comma: as text, every number would be a category of its own. Not those of which
/// the model knows such categories, or that are named as categories.
fn check_categories(source: &Source, schema: &Schema, wish: &Wish) -> Result<()> {
    for (at, column) in schema.columns.iter().enumerate() {
        if column.kind == ColumnKind::Text && !schema.categories(at).any(|(c, _)| c.contains(',')) {
            check_commas(source, &column.name, wish)?;
        }
    }
    Ok(())
}

/// Refuses targets that are numbers with a comma: as text, every number would be a class of its own. Not where the model
/// knows such classes, or a target is named as one of categories.
///
/// # Errors
/// The first such number.
pub fn check_labels(
    source: &Source,
    targets: &[String],
    known: &[String],
    wish: &Wish,
) -> Result<()> {
    if known.iter().any(|class| class.contains(',')) {
        return Ok(());
    }
    targets.iter().try_for_each(|name| check_commas(source, name, wish))
}

fn check_commas(source: &Source, column: &str, wish: &Wish) -> Result<()> {
    if wish.categories.iter().any(|name| name == column) {
        return Ok(());
    }
    let Some(CommaCell { place, value }) = source.comma_numbers(column) else { return Ok(()) };
    let (file, column) = (source.label().to_owned(), column.to_owned());
    Err(IngestError::CommaNumber { file, place, column, value })
}

/// Does a table have the columns of a model? With `surprises`, columns it does not know are an error.
///
/// # Errors
/// The first column that is missing, of another kind, or unknown.
pub fn check_columns(source: &Source, schema: &Schema, wish: &Wish, surprises: bool) -> Result<()> {
    let file = source.label();
    let wrong = |what: String| IngestError::Column { file: file.to_owned(), what };
    let missing: Vec<&str> = schema
        .columns
        .iter()
        .map(|c| &c.name)
        .chain(&wish.reserved)
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
                "column '{}' holds {width} numbers a row, but the model knows {ours}",
                column.name
            )));
        }
    }
    if !surprises {
        return Ok(());
    }
    check_categories(source, schema, wish)?;
    let Others::Named(others) = &schema.others else { return Ok(()) };
    let known = |name: &String| {
        schema.column(name).is_some()
            || [&schema.targets, others, &wish.exclude, &wish.reserved, &wish.targets]
                .iter()
                .any(|list| list.contains(name))
            || source.index_columns().contains(name)
    };
    match source.fields().iter().find(|f| !known(&f.name)) {
        Some(field) => Err(wrong(format!(
            "column '{0}' is new: the model was made without it; leave it out with --exclude {0}",
            field.name
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
