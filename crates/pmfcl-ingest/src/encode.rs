//! A batch of columns as rows of model inputs.

use std::collections::HashMap;

use pmfcl::basis::Fill;
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
    /// The inputs of each column.
    inputs_of: Vec<Vec<usize>>,
    /// The input of the gaps of each column, where it has one.
    indicators: Vec<Option<usize>>,
    /// What becomes of gaps.
    gaps: Gaps,
}

/// What becomes of gaps in features.
#[derive(Debug, Clone, Default)]
pub enum Gaps {
    /// The caller leaves their rows out.
    #[default]
    LeftOut,
    /// They are inputs of their own, as the schema says.
    Learned,
    /// The same; a column that had none in the rows learned gets these means of the inputs, where they are known.
    Filled(Option<Vec<f64>>),
}

/// The input of a category that is none.
const NONE: usize = usize::MAX;

/// A batch as rows.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// Inputs of a row, those of new categories included.
    pub width: usize,
    /// Inputs the schema does not have, in order of appearance: categories, and gaps of columns that had none. They follow those
    /// of the schema.
    pub new: Vec<Input>,
    /// For each text column of the encoder, the input of each code of the batch.
    inputs: Vec<(usize, Vec<usize>)>,
    /// For each column, the input of its gaps; `None` where means are put in.
    indicators: Vec<Option<usize>>,
}

impl Encoded {
    /// The inputs that have gaps, and the inputs that say where, those the schema does not have included.
    pub(crate) fn gaps(&self, schema: &Schema) -> Vec<Fill> {
        if self.indicators.iter().all(Option::is_none) {
            return Vec::new();
        }
        let inputs = schema.inputs.iter().chain(&self.new).cloned().collect();
        Schema { inputs, ..schema.clone() }.gaps()
    }

    /// Names of the inputs the schema does not have.
    pub(crate) fn new_names(&self, schema: &Schema) -> Vec<String> {
        let with = Schema { inputs: self.new.clone(), ..schema.clone() };
        with.features()
    }
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
                Input::Part { .. } | Input::Category { .. } | Input::Missing { .. } => {}
            }
        }
        for (at, column) in schema.columns.iter().enumerate() {
            if column.kind == ColumnKind::Text {
                let numbers = are_numbers(schema.categories(at).map(|(name, _)| name));
                texts.push((at, schema.categories(at).collect(), numbers));
            }
        }
        let indicators = (0..schema.columns.len()).map(|at| schema.missing_input(at)).collect();
        let mut inputs_of = vec![Vec::new(); schema.columns.len()];
        for (at, input) in schema.inputs.iter().enumerate() {
            inputs_of[input.column()].push(at);
        }
        let gaps = if schema.missing.are_learned() { Gaps::Learned } else { Gaps::LeftOut };
        Self { schema, extra, places, texts, open, zero: false, inputs_of, indicators, gaps }
    }

    /// The same, where gaps become something else than the schema says.
    #[must_use]
    pub fn with_gaps(mut self, gaps: Gaps) -> Self {
        self.gaps = gaps;
        self
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

    /// Gives every category of the batch, and its gaps, their inputs.
    ///
    /// # Errors
    /// When a category is new and the encoder is closed, or a gap can be nothing.
    pub fn categories(&self, source: &Source, batch: &Batch) -> Result<Encoded> {
        let d = self.schema.inputs.len();
        let mut new: Vec<Input> = Vec::new();
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
                        let input = Input::Category { column: *column, value: name };
                        let at = new.iter().position(|p| *p == input).unwrap_or(new.len());
                        if at == new.len() {
                            new.push(input);
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
        let mut indicators = self.indicators.clone();
        if !matches!(self.gaps, Gaps::LeftOut) {
            for gap in &batch.gaps {
                let column = gap.column as usize;
                let Some(None) = indicators.get(column) else { continue };
                if self.check_gap(source, batch, gap.row as usize, column)? {
                    continue;
                }
                indicators[column] = Some(d + new.len());
                new.push(Input::Missing { column });
            }
        }
        Ok(Encoded { width: d + new.len(), new, inputs, indicators })
    }

    /// Whether a gap of a column that had none is filled with means; else it is an input of its own.
    ///
    /// # Errors
    /// When it can be neither.
    fn check_gap(&self, source: &Source, batch: &Batch, row: usize, column: usize) -> Result<bool> {
        let own = &self.schema.columns[column];
        let refused = |why: &str| IngestError::Column {
            file: source.label().to_owned(),
            what: format!(
                "row {}, column '{}' is missing: {why}; drop the row with --missing drop",
                batch.file_row(row) + 1,
                own.name
            ),
        };
        if matches!(own.kind, ColumnKind::Block(_)) {
            return Err(refused("a block of numbers has no mean and no indicator"));
        }
        match &self.gaps {
            Gaps::Filled(Some(_)) => Ok(true),
            _ if self.open => Ok(false),
            _ => Err(refused(
                "no row that was learned missed it, and this model does not know the means of its columns",
            )),
        }
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
        let gaps = !batch.gaps.is_empty() && !matches!(self.gaps, Gaps::LeftOut);
        if !self.texts.is_empty() || gaps || self.indicators.iter().any(Option::is_some) {
            // Categories a row does not have are zero, and so are indicators; numbers are all overwritten.
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
        if gaps {
            self.write_gaps(batch, encoded, (from, to), out);
        }
    }

    /// Writes what stands for the gaps of rows `from .. to`.
    fn write_gaps(
        &self,
        batch: &Batch,
        encoded: &Encoded,
        (from, to): (usize, usize),
        out: &mut [f64],
    ) {
        // Gaps stand in the order of their rows.
        let first = batch.gaps.partition_point(|gap| (gap.row as usize) < from);
        for gap in batch.gaps[first..].iter().take_while(|gap| (gap.row as usize) < to) {
            let (row, column) = (gap.row as usize, gap.column as usize);
            if column >= self.schema.columns.len() {
                continue;
            }
            let cells = &mut out[(row - from) * encoded.width..][..encoded.width];
            let indicator = encoded.indicators[column];
            for &at in &self.inputs_of[column] {
                cells[at] = match &self.gaps {
                    Gaps::Filled(Some(means)) if indicator.is_none() => means[at],
                    _ => 0.0,
                };
            }
            if let Some(at) = indicator {
                cells[at] = 1.0;
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
