//! What must be known before a basis can be fixed: the first rows, and all categories.

use std::collections::BTreeSet;

use pmfcl_file::{ColumnKind, Input, Schema};
use pmfcl_read::{Column, Form, Missing, Wanted};

use crate::encode::{Encoder, are_numbers, class_name};
use crate::flow::{Files, Flow};
use crate::{IngestError, Result, shell_option};

/// Rows a basis takes its ranges and centres from.
const ROWS: usize = 10_000;

/// The most categories a column may have.
pub(crate) const MOST_CATEGORIES: usize = 1000;

/// Adds the categories of the files to the schema, in order of appearance, column by column.
///
/// Where rows that miss a value are dropped, categories that only those rows have are dropped too. All columns are then
/// read, the `extra` ones included.
pub(crate) fn learn_categories(files: &Files, schema: &mut Schema, extra: &[Wanted]) -> Result<()> {
    let texts: Vec<usize> =
        (0..schema.columns.len()).filter(|&c| schema.columns[c].kind == ColumnKind::Text).collect();
    if texts.is_empty() {
        return Ok(());
    }
    let mut wanted: Vec<Wanted> =
        texts.iter().map(|&c| Wanted::new(schema.columns[c].name.clone(), Form::Text)).collect();
    if files.options.missing == Missing::Drop {
        let all = Encoder::new(schema, extra.to_vec(), true).wanted();
        let known: Vec<String> = wanted.iter().map(|w| w.name.clone()).collect();
        wanted.extend(all.into_iter().filter(|w| !known.contains(&w.name)));
    }
    let mut seen: Vec<(BTreeSet<String>, Vec<String>)> = texts
        .iter()
        .map(|&c| (schema.categories(c).map(|(v, _)| v.to_owned()).collect(), Vec::new()))
        .collect();
    let names: Vec<String> = texts.iter().map(|&c| schema.columns[c].name.clone()).collect();
    let numbers: Vec<bool> =
        texts.iter().map(|&c| are_numbers(schema.categories(c).map(|(name, _)| name))).collect();
    let flow = Flow {
        plan: &|_| Ok(wanted.clone()),
        work: &|source, batch| {
            let own = batch.columns.iter().take(names.len()).enumerate();
            let columns = own.map(|(i, column)| match column {
                Column::Texts(texts) => {
                    let field = source.fields().iter().find(|f| numbers[i] && f.name == names[i]);
                    texts.names.iter().map(|text| class_name(field, text)).collect()
                }
                _ => Vec::new(),
            });
            Ok((source.label().to_owned(), columns.collect::<Vec<_>>()))
        },
        progress: &|_| {},
    };
    files.run(&flow, |(file, columns)| {
        for (((known, order), values), name) in seen.iter_mut().zip(columns).zip(&names) {
            // A gap is no category.
            for value in values.into_iter().filter(|value: &String| !value.is_empty()) {
                if known.insert(value.clone()) {
                    order.push(value);
                }
            }
            check_count(&file, name, known.len())?;
        }
        Ok(true)
    })?;
    for (&column, (_, order)) in texts.iter().zip(seen) {
        schema.inputs.extend(order.into_iter().map(|value| Input::Category { column, value }));
    }
    Ok(())
}

/// Refuses a column that holds free text instead of categories.
pub(crate) fn check_count(file: &str, column: &str, count: usize) -> Result<()> {
    if count <= MOST_CATEGORIES {
        return Ok(());
    }
    Err(IngestError::Column {
        file: file.to_owned(),
        what: format!(
            "column '{column}' has more than {MOST_CATEGORIES} different texts; leave it out with {}, or, if it holds \
             dates, use them with {}",
            shell_option("--exclude", &[column]),
            shell_option("--dates", &[column])
        ),
    })
}

/// The first rows of the files under a closed schema; a row counts if it has the `extra` columns too.
pub(crate) fn first_rows(files: &Files, schema: &Schema, extra: &[Wanted]) -> Result<Vec<f64>> {
    let encoder = Encoder::new(schema, extra.to_vec(), false);
    let d = schema.inputs.len();
    let mut rows: Vec<f64> = Vec::new();
    let flow = Flow {
        plan: &|_| Ok(encoder.wanted()),
        work: &|source, batch| {
            let encoded = encoder.categories(source, batch)?;
            let mut out = Vec::new();
            encoder.write(batch, &encoded, (0, batch.rows.min(ROWS)), &mut out);
            Ok(out)
        },
        progress: &|_| {},
    };
    files.run(&flow, |part| {
        rows.extend(part);
        Ok(rows.len() < ROWS * d)
    })?;
    rows.truncate(ROWS * d);
    Ok(rows)
}
