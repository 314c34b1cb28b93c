//! A batch of columns as rows of model inputs.

use std::collections::HashMap;

use pmfcl_file::{ColumnKind, Input, Schema};
use pmfcl_read::{Batch, Column, Field, Form, Kind, Source, Wanted};

use crate::{IngestError, Result};

/// Encodes batches under a schema. Batches have the columns of the schema first, then the extra ones.
#[derive(Debug, Clone)]
pub struct Encoder<'a> {
    schema: &'a Schema,
    extra: Vec<Wanted>,
    /// Number and block columns and the first input of each.
    places: Vec<(usize, usize)>,
    /// For each text column the inputs of its categories, and whether they are numbers.
    texts: Vec<(usize, HashMap<&'a str, usize>, bool)>,
    /// Whether categories that the schema does not have are accepted.
    open: bool,
    /// Whether such a category is none of those known, where it is not accepted.
    zero: bool,
}

/// The input of a category that is none.
const NONE: usize = usize::MAX;

/// A batch as rows.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// Inputs of a row, those of new categories included.
    pub width: usize,
    /// Categories the schema does not have: column and value, in order of appearance. Their inputs follow those of
    /// the schema.
    pub new: Vec<(usize, String)>,
    /// For each text column of the encoder, the input of each code of the batch.
    inputs: Vec<(usize, Vec<usize>)>,
}

impl<'a> Encoder<'a> {
    /// An encoder for a schema; `open` accepts new categories.
    pub fn new(schema: &'a Schema, extra: Vec<Wanted>, open: bool) -> Self {
        let mut places = Vec::new();
        let mut texts: Vec<(usize, HashMap<&str, usize>, bool)> = Vec::new();
        for (i, input) in schema.inputs.iter().enumerate() {
            match input {
                Input::Value { column } | Input::Part { column, place: 0 } => {
                    places.push((*column, i));
                }
                Input::Part { .. } | Input::Category { .. } => {}
            }
        }
        for (at, column) in schema.columns.iter().enumerate() {
            if column.kind == ColumnKind::Text {
                let numbers = are_numbers(schema.categories(at).map(|(name, _)| name));
                texts.push((at, schema.categories(at).collect(), numbers));
            }
        }
        Self { schema, extra, places, texts, open, zero: false }
    }

    /// The same, where a category that the schema does not have is 0 in all inputs of its column.
    #[must_use]
    pub fn with_unknown_as_zero(mut self, zero: bool) -> Self {
        self.zero = zero;
        self
    }

    /// The columns it wants, in the order batches must have them.
    pub fn wanted(&self) -> Vec<Wanted> {
        let own = self.schema.columns.iter().map(|c| {
            let form = match c.kind {
                ColumnKind::Number | ColumnKind::Block(_) => Form::Number,
                ColumnKind::Date => Form::Date,
                ColumnKind::Text => Form::Text,
            };
            Wanted::new(c.name.clone(), form)
        });
        own.chain(self.extra.iter().cloned()).collect()
    }

    /// Extra column `i` of a batch.
    pub fn extra<'b>(&self, batch: &'b Batch, i: usize) -> &'b Column {
        &batch.columns[self.schema.columns.len() + i]
    }

    /// Gives every category of the batch its input.
    ///
    /// # Errors
    /// When a category is new and the encoder is closed.
    pub fn categories(&self, source: &Source, batch: &Batch) -> Result<Encoded> {
        let d = self.schema.inputs.len();
        let mut new: Vec<(usize, String)> = Vec::new();
        let mut inputs = Vec::with_capacity(self.texts.len());
        for (column, known, numbers) in &self.texts {
            let Column::Texts(texts) = &batch.columns[*column] else { continue };
            let own = &self.schema.columns[*column].name;
            let field = source.fields().iter().find(|f| *numbers && f.name == *own);
            let mut list = Vec::with_capacity(texts.names.len());
            for (code, text) in texts.names.iter().enumerate() {
                let name = class_name(field, text);
                let input = match known.get(name.as_str()) {
                    Some(input) => *input,
                    // A row that misses it; where such rows are kept, the caller leaves them out.
                    None if name.is_empty() && !batch.gaps.is_empty() => NONE,
                    None if self.zero && !self.open => NONE,
                    None if self.open => {
                        let pair = (*column, name);
                        let at = new.iter().position(|p| *p == pair).unwrap_or(new.len());
                        if at == new.len() {
                            new.push(pair);
                        }
                        d + at
                    }
                    None => {
                        let at = texts.codes.iter().position(|c| *c as usize == code).unwrap_or(0);
                        return Err(IngestError::Category {
                            file: source.label().to_owned(),
                            row: batch.file_row(at) + 1,
                            column: own.clone(),
                            value: name,
                            advice: "correct it, learn rows that have it first, or predict with --unknown zero",
                        });
                    }
                };
                list.push(input);
            }
            inputs.push((*column, list));
        }
        Ok(Encoded { width: d + new.len(), new, inputs })
    }

    /// Writes rows `from .. to` of a batch into `out`, `encoded.width` numbers each.
    pub fn write(
        &self,
        batch: &Batch,
        encoded: &Encoded,
        (from, to): (usize, usize),
        out: &mut Vec<f64>,
    ) {
        let w = encoded.width;
        if !self.texts.is_empty() {
            // Categories a row does not have are zero; numbers are all overwritten.
            out.clear();
        }
        out.resize((to - from) * w, 0.0);
        batch.gather(from..to, &self.places, out, w);
        for (column, inputs) in &encoded.inputs {
            let Column::Texts(texts) = &batch.columns[*column] else { continue };
            for (row, code) in out.chunks_exact_mut(w).zip(&texts.codes[from..to]) {
                // There is no such place for a category that is none.
                if let Some(cell) = row.get_mut(inputs[*code as usize]) {
                    *cell = 1.0;
                }
            }
        }
    }
}

/// Whether all these categories are numbers as [`class_name`] writes them. True for a column that has no
/// category yet: the kind of the file's column then decides.
pub(crate) fn are_numbers<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    names.all(|name| name.parse::<f64>().is_ok_and(|v| v.is_finite() && v.to_string() == name))
}

/// The name of a class in a column of that kind: numbers go by their value, so that `1.0` is `1`.
pub fn class_name(field: Option<&Field>, text: &str) -> String {
    let number = field.is_some_and(|f| matches!(f.kind, Kind::Number));
    match text.trim().parse::<f64>() {
        Ok(value) if number && value.is_finite() => value.to_string(),
        _ => text.to_owned(),
    }
}
