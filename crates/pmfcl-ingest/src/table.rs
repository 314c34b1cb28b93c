//! Whole tables in memory, for a loss that looks at its rows several times.

use std::collections::HashMap;

use pmfcl_file::Schema;
use pmfcl_read::Column;

use crate::Result;
use crate::columns::{Wish, check_columns};
use crate::encode::{Encoder, class_name};
use crate::flow::{Files, Flow, Step};
use crate::summarize::{Count, beside};

/// The rows of a task and their labels.
#[derive(Debug, Clone, Default)]
pub struct LabelledTable {
    /// The value of the task column; empty where the files are one task.
    pub name: String,
    /// Inputs, row after row.
    pub x: Vec<f64>,
    /// The class of each row, as a number into `classes`.
    pub codes: Vec<u32>,
    /// The classes, in order of appearance.
    pub classes: Vec<String>,
}

/// Reads all tasks of the files into memory; the schema must know all categories.
pub(crate) fn labelled_tables(
    files: &Files,
    schema: &Schema,
    wish: &Wish,
    task: Option<&str>,
    progress: &(dyn Fn(Step) + Sync),
) -> Result<(Vec<LabelledTable>, Count)> {
    let encoder = Encoder::new(schema, beside(schema, task, true), false);
    let d = schema.inputs.len();
    let flow = Flow {
        plan: &|source| {
            check_columns(source, schema, wish, true)?;
            Ok(encoder.wanted())
        },
        work: &|source, batch| {
            let encoded = encoder.categories(source, batch)?;
            let mut x = Vec::new();
            encoder.write(batch, &encoded, (0, batch.rows), &mut x);
            let field = |name: &str| source.fields().iter().find(|f| f.name == name);
            let named = |i: usize, column: &str| match encoder.beside(batch, i) {
                Column::Texts(texts) => {
                    let names: Vec<String> =
                        texts.names.iter().map(|n| class_name(field(column), n)).collect();
                    (names, texts.codes.clone())
                }
                _ => (vec![String::new()], vec![0; batch.rows]),
            };
            let labels = named(0, &schema.targets[0]);
            let tasks =
                task.map_or_else(|| (vec![String::new()], vec![0; batch.rows]), |t| named(1, t));
            Ok((x, labels, tasks, batch.dropped))
        },
        progress,
    };
    let mut tables: Vec<LabelledTable> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut total = Count::default();
    files.run(&flow, |(x, (labels, codes), (tasks, of), dropped)| {
        total.rows += codes.len() as u64;
        total.dropped += dropped;
        let places: Vec<usize> = tasks
            .into_iter()
            .map(|name| {
                *places.entry(name.clone()).or_insert_with(|| {
                    tables.push(LabelledTable { name, ..LabelledTable::default() });
                    tables.len() - 1
                })
            })
            .collect();
        for ((row, code), task) in x.chunks_exact(d.max(1)).zip(codes).zip(of) {
            let table = &mut tables[places[task as usize]];
            let label = &labels[code as usize];
            let class = table.classes.iter().position(|c| c == label).unwrap_or_else(|| {
                table.classes.push(label.clone());
                table.classes.len() - 1
            });
            table.x.extend_from_slice(row);
            table.codes.push(class as u32);
        }
        Ok(true)
    })?;
    tables.retain(|table| !table.codes.is_empty());
    Ok((tables, total))
}
