//! Files become task summaries: every piece on its own, then merged in order.

use std::collections::HashMap;

use pmfcl::{Accumulator, Basis, Design, Rows, Summarizer, Summary};
use pmfcl_file::Schema;
use pmfcl_read::{Batch, Column, Field, Form, Source, Wanted};

use crate::columns::{Wish, check_columns, check_labels};
use crate::encode::{Encoded, Encoder, class_name};
use crate::flow::{Files, Flow, Step};
use crate::head::check_count;
use crate::{IngestError, Result};

/// A task of a table, summarized under a schema that may since have grown.
#[derive(Debug, Clone)]
pub(crate) struct TaskSummary {
    /// The value of the task column; empty where the files are one task.
    pub(crate) name: String,
    /// Categories beyond the schema's, column and value: the last columns of the summary.
    pub(crate) new: Vec<(usize, String)>,
    /// Names of its targets, where they are classes.
    pub(crate) classes: Vec<String>,
    pub(crate) summary: Summary,
}

/// How to summarize.
pub(crate) struct Recipe<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) wish: &'a Wish,
    /// The column that names the task of a row.
    pub(crate) task: Option<&'a str>,
    /// The classes known so far, where the target holds classes.
    pub(crate) classes: Option<&'a [String]>,
    /// The design for the schema's inputs.
    pub(crate) design: &'a Design,
    pub(crate) accumulator: Accumulator,
    pub(crate) progress: &'a (dyn Fn(Step) + Sync),
}

/// Rows read, and rows left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) rows: u64,
    pub(crate) dropped: u64,
}

/// The columns wanted beside the features: the targets, then the one that names the task.
pub(crate) fn beside(schema: &Schema, task: Option<&str>, classes: bool) -> Vec<Wanted> {
    let form = if classes { Form::Text } else { Form::Number };
    let targets = schema.targets.iter().map(|name| Wanted::new(name.clone(), form));
    targets.chain(task.map(|name| Wanted::new(name, Form::Text))).collect()
}

/// Summarizes every task in the files, in order of appearance.
pub(crate) fn summarize(files: &Files, recipe: &Recipe<'_>) -> Result<(Vec<TaskSummary>, Count)> {
    let schema = recipe.schema;
    let beside = beside(schema, recipe.task, recipe.classes.is_some());
    let encoder = Encoder::new(schema, beside, recipe.design.map().is_identity());
    let flow = Flow {
        plan: &|source| {
            check_columns(source, schema, recipe.wish, true)?;
            if let Some(known) = recipe.classes {
                check_labels(source, &schema.targets, known, recipe.wish)?;
            }
            Ok(encoder.wanted())
        },
        work: &|source, batch| {
            let parts = recipe.parts(&encoder, source, batch)?;
            let count = Count { rows: batch.rows as u64, dropped: batch.dropped };
            Ok((source.label().to_owned(), parts, count))
        },
        progress: recipe.progress,
    };
    let mut tasks: Vec<Growing> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut total = Count::default();
    files.run(&flow, |(file, parts, count)| {
        total.rows += count.rows;
        total.dropped += count.dropped;
        for part in parts {
            let at = *places.entry(part.name.clone()).or_insert_with(|| {
                tasks.push(Growing::default());
                tasks.len() - 1
            });
            tasks[at].add(part, schema, recipe.design, &file)?;
        }
        Ok(true)
    })?;
    let mut done = Vec::with_capacity(tasks.len());
    for task in tasks {
        done.extend(task.finish()?);
    }
    Ok((done, total))
}

/// Room to lay rows out on, kept from piece to piece: fresh memory costs as much as filling it.
#[derive(Default)]
struct Bench {
    x: Vec<f64>,
    y: Vec<f64>,
    all: Vec<f64>,
}

thread_local! {
    static BENCH: std::cell::Cell<Bench> = std::cell::Cell::default();
}

impl Recipe<'_> {
    /// The tasks of one batch.
    fn parts(
        &self,
        encoder: &Encoder<'_>,
        source: &Source,
        batch: &Batch,
    ) -> Result<Vec<TaskSummary>> {
        if batch.rows == 0 {
            return Ok(Vec::new());
        }
        let encoded = encoder.categories(source, batch)?;
        let targets = Targets::of(self, encoder, source, batch);
        let task = self.task.map(|_| encoder.beside(batch, self.schema.targets.len()));
        let (names, groups): (Vec<String>, Vec<Vec<usize>>) = match task {
            Some(Column::Texts(texts)) => {
                let field = source.fields().iter().find(|f| Some(f.name.as_str()) == self.task);
                let mut groups = vec![Vec::new(); texts.names.len()];
                for (i, code) in texts.codes.iter().enumerate() {
                    groups[*code as usize].push(i);
                }
                (texts.names.iter().map(|name| class_name(field, name)).collect(), groups)
            }
            _ => (vec![String::new()], Vec::new()),
        };
        let whole = names.len() == 1;
        let mut parts = Vec::with_capacity(names.len());
        for (t, name) in names.into_iter().enumerate() {
            let rows = if whole { None } else { Some(&groups[t][..]) };
            let summary = self.one(encoder, (source, batch), &encoded, &targets, rows)?;
            let new = encoded.new.clone();
            parts.push(TaskSummary { name, new, classes: targets.classes.clone(), summary });
        }
        Ok(parts)
    }

    /// The summary of all rows of a batch, or of those listed.
    fn one(
        &self,
        encoder: &Encoder<'_>,
        (source, batch): (&Source, &Batch),
        encoded: &Encoded,
        targets: &Targets<'_>,
        listed: Option<&[usize]>,
    ) -> Result<Summary> {
        let design = widened(self.design, encoded.width)?;
        let width = targets.width();
        let mut summarizer = Summarizer::new(design, width, self.accumulator)?;
        // A leaf at a time, so that rows are still in the cache when they are factored.
        let leaf = summarizer.leaf_rows();
        let count = listed.map_or(batch.rows, <[usize]>::len);
        let row_of = |i: usize| listed.map_or(i, |rows| rows[i]);
        let mut bench = BENCH.take();
        let Bench { x, y, all } = &mut bench;
        if listed.is_some() {
            encoder.write(batch, encoded, (0, batch.rows), all);
        }
        let mut from = 0;
        while from < count {
            let to = (from + leaf).min(count);
            if listed.is_some() {
                x.clear();
                for i in from..to {
                    x.extend_from_slice(&all[row_of(i) * encoded.width..][..encoded.width]);
                }
            } else {
                encoder.write(batch, encoded, (from, to), x);
            }
            y.clear();
            y.resize((to - from) * width, 0.0);
            for (i, row) in (from..to).zip(y.chunks_exact_mut(width)) {
                targets.write(row_of(i), row);
            }
            summarizer
                .add(Rows::new(x, encoded.width)?, Rows::new(y, width)?, None)
                .map_err(|e| blame(source, batch, &row_of, e))?;
            from = to;
        }
        BENCH.set(bench);
        summarizer.finish().map_err(|e| blame(source, batch, &row_of, e))
    }
}

fn blame(
    source: &Source,
    batch: &Batch,
    row_of: &dyn Fn(usize) -> usize,
    error: pmfcl::Error,
) -> IngestError {
    IngestError::at(source.label(), |row| batch.file_row(row_of(row as usize)), error)
}

/// The design with room for categories the schema does not have; only the linear one is ever asked.
fn widened(design: &Design, inputs: usize) -> Result<Design> {
    if inputs == design.inputs() {
        return Ok(design.clone());
    }
    let map = Basis::default().fix(&[], inputs).map_err(pmfcl::Error::from)?;
    Ok(Design::new(map, design.intercept()))
}

/// The targets of a batch.
struct Targets<'a> {
    columns: Vec<&'a Column>,
    classes: Vec<String>,
    /// For each code of the label column its class.
    codes: Vec<usize>,
}

impl<'a> Targets<'a> {
    fn of(recipe: &Recipe<'_>, encoder: &Encoder<'_>, source: &Source, batch: &'a Batch) -> Self {
        let columns = (0..recipe.schema.targets.len()).map(|k| encoder.beside(batch, k)).collect();
        let mut targets = Self { columns, classes: Vec::new(), codes: Vec::new() };
        if let (Some(_), Column::Texts(texts)) = (recipe.classes, targets.columns[0]) {
            let field: Option<&Field> =
                source.fields().iter().find(|f| f.name == recipe.schema.targets[0]);
            for name in &texts.names {
                let name = class_name(field, name);
                let at = targets.classes.iter().position(|c| *c == name);
                targets.codes.push(at.unwrap_or(targets.classes.len()));
                if at.is_none() {
                    targets.classes.push(name);
                }
            }
        }
        targets
    }

    fn width(&self) -> usize {
        if self.classes.is_empty() { self.columns.len() } else { self.classes.len() }
    }

    fn write(&self, i: usize, row: &mut [f64]) {
        for (k, column) in self.columns.iter().enumerate() {
            match column {
                Column::Numbers(values) => row[k] = values[i],
                Column::Texts(texts) => row[self.codes[texts.codes[i] as usize]] = 1.0,
                Column::Block { .. } => {}
            }
        }
    }
}

/// A task that grows part by part. Summaries are merged like the digits of a binary counter, which keeps the two
/// sides of a merger alike in size.
#[derive(Default)]
struct Growing {
    name: String,
    new: Vec<(usize, String)>,
    classes: Vec<String>,
    levels: Vec<Option<Summary>>,
}

impl Growing {
    fn add(
        &mut self,
        part: TaskSummary,
        schema: &Schema,
        design: &Design,
        file: &str,
    ) -> Result<()> {
        self.name = part.name;
        let known = design.width();
        let mut places: Vec<usize> = (0..known).collect();
        for pair in part.new {
            let at = self.new.iter().position(|p| *p == pair);
            places.push(known + at.unwrap_or(self.new.len()));
            if at.is_none() {
                let count = self.new.iter().filter(|(c, _)| *c == pair.0).count() + 1;
                let before = schema.categories(pair.0).count();
                check_count(file, &schema.columns[pair.0].name, before + count)?;
                self.new.push(pair);
            }
        }
        let mut summary = part.summary.rearrange(&places, known + self.new.len())?;
        if !part.classes.is_empty() {
            let mut columns = Vec::with_capacity(part.classes.len());
            for class in part.classes {
                let at = self.classes.iter().position(|c| *c == class);
                columns.push(at.unwrap_or(self.classes.len()));
                if at.is_none() {
                    self.classes.push(class);
                }
            }
            summary = summary.rearrange_targets(&columns, self.classes.len())?;
        }
        for level in &mut self.levels {
            match level.take() {
                Some(older) => summary = merged(&older, &summary)?,
                None => {
                    *level = Some(summary);
                    return Ok(());
                }
            }
        }
        self.levels.push(Some(summary));
        Ok(())
    }

    fn finish(self) -> Result<Option<TaskSummary>> {
        let mut sum: Option<Summary> = None;
        for level in self.levels.into_iter().flatten() {
            sum = Some(match sum {
                Some(small) => merged(&small, &level)?,
                None => level,
            });
        }
        let Some(summary) = sum else { return Ok(None) };
        let p = summary.targets();
        let summary = if self.classes.len() > p {
            summary.extend_targets(p, self.classes.len() - p)?
        } else {
            summary
        };
        // Classes other tasks of the same batch had are none of this one's.
        let kept: Vec<usize> =
            (0..self.classes.len()).filter(|&k| summary.target_sums()[k] > 0.0).collect();
        let classes: Vec<String> = kept.iter().map(|&k| self.classes[k].clone()).collect();
        let summary =
            if kept.len() < self.classes.len() { summary.choose_targets(&kept)? } else { summary };
        Ok(Some(TaskSummary { name: self.name, new: self.new, classes, summary }))
    }
}

/// New columns and classes come last, so the narrower summary is a prefix of the wider.
fn merged(a: &Summary, b: &Summary) -> Result<Summary> {
    let (m, p) = (a.width().max(b.width()), a.targets().max(b.targets()));
    let fit = |s: &Summary| -> pmfcl::Result<Summary> {
        s.extend_features(s.width(), m - s.width())?.extend_targets(s.targets(), p - s.targets())
    };
    let same = |s: &Summary| (s.width(), s.targets()) == (m, p);
    Ok(match (same(a), same(b)) {
        (true, true) => a.merge(b)?,
        (true, false) => a.merge(&fit(b)?)?,
        (false, true) => fit(a)?.merge(b)?,
        (false, false) => fit(a)?.merge(&fit(b)?)?,
    })
}
