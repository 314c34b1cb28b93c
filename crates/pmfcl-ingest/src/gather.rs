//! A whole table in memory: inputs, targets, and the columns that name the task or client of a row.

use std::collections::HashMap;

use pmfcl_read::{Column, Form, Missing, Wanted};

use crate::columns::{ColumnSelection, check_columns, choose_columns};
use crate::encode::{Encoder, class_name};
use crate::flow::{Files, Flow, Step};
use crate::head::learn_categories;
use crate::{IngestError, Result};

/// A column of words: a number for each row, into the words in order of appearance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// The words.
    pub names: Vec<String>,
    /// The word of each row.
    pub codes: Vec<u32>,
}

impl Words {
    fn take(&mut self, places: &mut HashMap<String, u32>, names: &[String], codes: &[u32]) {
        let own: Vec<u32> = names
            .iter()
            .map(|name| {
                *places.entry(name.clone()).or_insert_with(|| {
                    self.names.push(name.clone());
                    self.names.len() as u32 - 1
                })
            })
            .collect();
        self.codes.extend(codes.iter().map(|&c| own[c as usize]));
    }
}

/// What is to be predicted.
#[derive(Debug, Clone, PartialEq)]
pub enum GatheredTargets {
    /// Numbers, row after row.
    Values(Vec<f64>),
    /// A class for each row.
    Classes(Words),
}

/// All rows of some files.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathered {
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Inputs, row after row.
    pub x: Vec<f64>,
    /// Targets.
    pub y: GatheredTargets,
    /// For each of the columns asked for, the word of each row.
    pub keys: Vec<Words>,
    /// Rows left out for missing values.
    pub dropped: u64,
    /// Columns left out because they are the index of a pandas table.
    pub index: Vec<String>,
}

/// Reads files whole. `selection.reserved` names the columns that come back as keys; the target is a class where it is text, or
/// where `classes` is set.
///
/// # Errors
/// As [`choose_columns`], and when a file cannot be read or has no rows.
pub fn gather(
    files: &Files,
    selection: &ColumnSelection,
    classes: bool,
    progress: &(dyn Fn(Step) + Sync),
) -> Result<Gathered> {
    if files.options.missing == Missing::Keep {
        return Err(IngestError::Column {
            file: files.paths[0].display().to_string(),
            what: "--missing mean and indicator are for models that `pmfcl learn` makes; use drop"
                .to_owned(),
        });
    }
    let chosen = choose_columns(&files.first()?, selection)?;
    let (mut schema, classes) = (chosen.schema, classes || chosen.text_target);
    let index = chosen.index;
    if classes && schema.targets.len() > 1 {
        return Err(IngestError::Column {
            file: files.paths[0].display().to_string(),
            what: format!("a classifier has one target, not {}", schema.targets.len()),
        });
    }
    let form = if classes { Form::Text } else { Form::Number };
    let targets = schema.targets.iter().map(|name| Wanted::new(name.clone(), form));
    let keys = selection.reserved.iter().map(|name| Wanted::new(name.clone(), Form::Text));
    let extra: Vec<Wanted> = targets.chain(keys).collect();
    learn_categories(files, &mut schema, &extra)?;
    let encoder = Encoder::new(&schema, extra.clone(), false);
    let flow = Flow {
        plan: &|source| {
            check_columns(source, &schema, selection, false)?;
            Ok(encoder.wanted())
        },
        work: &|source, batch| {
            let encoded = encoder.categories(source, batch)?;
            let mut x = Vec::new();
            encoder.write(batch, &encoded, (0, batch.rows), &mut x);
            let columns: Vec<Column> = (0..extra.len())
                .map(|i| match encoder.extra(batch, i) {
                    Column::Texts(texts) => {
                        let field = source.fields().iter().find(|f| f.name == extra[i].name);
                        let mut texts = texts.clone();
                        texts.names.iter_mut().for_each(|n| *n = class_name(field, n));
                        Column::Texts(texts)
                    }
                    other => other.clone(),
                })
                .collect();
            Ok((x, columns, batch.rows, batch.dropped))
        },
        progress,
    };
    let count = schema.targets.len();
    let mut values = Vec::new();
    let mut words = vec![Words::default(); extra.len()];
    let mut places = vec![HashMap::new(); extra.len()];
    let (mut x, mut rows, mut dropped) = (Vec::new(), 0, 0);
    files.run(&flow, |(part, columns, len, left)| {
        x.extend_from_slice(&part);
        for (i, column) in columns.iter().enumerate() {
            if let Column::Texts(texts) = column {
                words[i].take(&mut places[i], &texts.names, &texts.codes);
            }
        }
        if !classes {
            for row in 0..len {
                for column in &columns[..count] {
                    if let Column::Numbers(numbers) = column {
                        values.push(numbers[row]);
                    }
                }
            }
        }
        rows += len;
        dropped += left;
        Ok(true)
    })?;
    if rows == 0 {
        let file = files.paths[0].display().to_string();
        return Err(IngestError::Column { file, what: "there are no rows".to_owned() });
    }
    let keys = words.split_off(count);
    let y = match words.into_iter().next() {
        Some(words) if classes => GatheredTargets::Classes(words),
        _ => GatheredTargets::Values(values),
    };
    let inputs = schema.features();
    Ok(Gathered { inputs, x, y, keys, dropped, index })
}
