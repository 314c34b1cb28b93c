//! Pieces of files become parts of tasks, and parts of the same name one task.
//!
//! ```text
//! batch ──rows of each task──▶ encoded rows ──first pass, or kept──▶ TaskPart ──merge, in the order of the file──▶ TaskFound
//! ```
//!
//! Rows of a wide design are gathered over pieces before they are summarized: a piece has few rows, and its sums of products would
//! take more memory and time than they do. Where all rows of a task take less memory than its sums, they wait until the task is fitted.

use std::collections::HashMap;

use pmfcl::basis::Fill;
use pmfcl::basis::Parts;
use pmfcl::problem::{Content, ContentKeys, Partial, TaskContext, Worker};
use pmfcl::report::check::RowFindings;
use pmfcl::summary::Counter;
use pmfcl::{ClassList, Design, Learner, Rows, Settings, Targets, TaskRows};
use pmfcl_file::{ColumnNames, Input, Schema};
use pmfcl_read::{Batch, Column, Missing, Source, Wanted};

use crate::columns::{check_columns, check_labels};
use crate::encode::{Encoded, Encoder, class_name};
use crate::flow::Flow;
use crate::spill::{ChunkTargets, FileRows, NewChunk, Spill};
use crate::tasks::{Learning, Read};
use crate::{IngestError, Result};

/// A task of some files: its name, its rows, and what was seen of them.
pub(crate) type TaskFound = (String, TaskRowsRead, Seen);

/// What was seen of the rows of a task while they were read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) content: Content,
    pub(crate) findings: RowFindings,
    /// Rows left out of the files, where they are one task.
    pub(crate) dropped: u64,
}

impl Seen {
    fn merge(&mut self, other: Self) {
        self.content = self.content.plus(&other.content);
        self.findings.merge(other.findings);
        self.dropped += other.dropped;
    }
}

#[derive(Debug)]
pub(crate) enum TaskRowsRead {
    /// The answer to the only pass its problem asks for.
    Once(Box<Partial>),
    /// All rows of a wide design, which are few, and for which the pass is still to be made.
    Gathered(Spill),
    /// All rows, to be read several times.
    Kept(Spill),
}

/// How pieces of files become parts of tasks.
pub(crate) struct Recipe<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) learning: &'a Learning<'a>,
    pub(crate) learner: &'a Learner,
    pub(crate) settings: Settings,
    /// The design for the schema's inputs.
    pub(crate) design: &'a Design,
    /// Whether later passes need the rows, so that they are kept instead of summarized.
    pub(crate) keep_rows: bool,
}

/// Some rows of a task.
struct TaskPart {
    name: String,
    rows: PartRows,
    seen: Seen,
}

enum PartRows {
    Summary(Box<Partial>),
    Rows(NewChunk, Vec<f64>),
}

/// A task that grows part by part.
#[derive(Default)]
struct Growing {
    parts: Counter<Partial>,
    rows: Spill,
    seen: Seen,
    /// Whether gathered rows were summarized already, or may be refused, so that they do not wait.
    cannot_wait: bool,
}

/// Columns from which on threads share the sums of one piece, and rows are gathered over pieces.
pub(crate) const WIDE: usize = 512;

/// Gathered rows are summarized once there are so many for each column: adding their sums to others then takes no time to speak of.
const ROWS_PER_COLUMN: usize = 4;

/// No sum of products of random features of such numbers overflows.
const LARGEST: f64 = 1e60;

impl Recipe<'_> {
    /// Whether rows are gathered over pieces. The linear basis may get new inputs with every piece.
    fn gathers(&self) -> bool {
        !self.keep_rows && self.design.width() > WIDE && !self.design.map().is_identity()
    }

    /// Whether some rows can wait for their pass: it must not find anything wrong with them once other tasks have been learned.
    fn can_wait(&self, x: &[f64], y: &ChunkTargets) -> bool {
        let small = |cells: &[f64]| cells.iter().all(|v| v.abs() <= LARGEST);
        let open = self.learner.problem().class_list().is_none_or(|list| *list == ClassList::Open);
        let random =
            matches!(self.design.map().parts(), Parts::Random { .. } | Parts::Patches { .. });
        let targets = match y {
            ChunkTargets::Values { cells, .. } => small(cells),
            ChunkTargets::Classes { .. } => open,
        };
        random && targets && small(x)
    }

    /// Whether the gathered rows of a task are so many that their sums are made.
    fn are_enough(&self, rows: &Spill) -> bool {
        let (m, inputs) = (self.design.width(), self.design.inputs());
        rows.len() >= ROWS_PER_COLUMN * m || rows.len().saturating_mul(inputs) >= m * m / 2
    }

    /// Summarizes the rows a task has gathered.
    fn summarize(&self, task: &mut Growing) -> Result<()> {
        let rows = std::mem::take(&mut task.rows);
        if rows.len() == 0 {
            return Ok(());
        }
        let partial = rows.first_pass(self.context(self.design), &self.names())?;
        task.cannot_wait = true;
        task.parts.push(partial, Partial::merge).map_err(|e| self.error(&e))
    }

    fn context<'a>(&'a self, design: &'a Design) -> TaskContext<'a> {
        TaskContext {
            problem: self.learner.problem(),
            settings: &self.settings,
            design,
            outputs: self.learner.outputs(),
        }
    }

    fn names(&self) -> ColumnNames {
        ColumnNames::under(self.schema, self.design)
    }

    /// An error of the learner about the files as a whole, with its column by name.
    fn error(&self, error: &pmfcl::Error) -> IngestError {
        let file = self.learning.files.paths[0].display().to_string();
        IngestError::in_rows(&file, |row| row, error, &self.names())
    }

    /// Reads all files and gives the tasks in order of appearance.
    pub(crate) fn run(&self, extra: Vec<Wanted>) -> Result<(Vec<TaskFound>, Read)> {
        let (schema, selection) = (self.schema, self.learning.selection);
        let files = self.learning.files;
        let encoder = Encoder::new(schema, extra, self.design.map().is_identity());
        let classes = self.learner.problem().predicts_classes();
        let flow = Flow {
            plan: &|source| {
                check_columns(source, schema, selection, true)?;
                if classes {
                    check_labels(source, &schema.targets, self.learner.classes(), selection)?;
                }
                Ok(encoder.wanted())
            },
            work: &|source, batch| {
                // A row may miss features where that is learned, and never its target or its task.
                let complete;
                let batch = if batch.gaps.is_empty() || files.options.missing != Missing::Keep {
                    batch
                } else {
                    complete = batch.complete_in(schema.columns.len()..batch.columns.len());
                    &complete
                };
                let parts = self.parts(&encoder, source, batch)?;
                Ok((parts, Read { rows: batch.rows as u64, dropped: batch.dropped }))
            },
            progress: self.learning.progress,
        };
        let mut order: Vec<String> = Vec::new();
        let mut tasks: HashMap<String, Growing> = HashMap::new();
        let mut total = Read::default();
        self.learning.files.run(&flow, |(parts, read)| {
            total.rows += read.rows;
            total.dropped += read.dropped;
            for TaskPart { name, rows, seen } in parts {
                let task = tasks.entry(name.clone()).or_insert_with(|| {
                    order.push(name);
                    Growing::default()
                });
                task.seen.merge(seen);
                match rows {
                    PartRows::Summary(partial) => {
                        let merged = task.parts.push(*partial, Partial::merge);
                        merged.map_err(|e| self.error(&e))?;
                    }
                    PartRows::Rows(chunk, x) => {
                        let gathers = self.gathers();
                        task.cannot_wait |= gathers && !self.can_wait(&x, &chunk.y);
                        task.rows.push(chunk, x)?;
                        if gathers && self.are_enough(&task.rows) {
                            self.summarize(task)?;
                        }
                    }
                }
            }
            Ok(true)
        })?;
        let mut done = Vec::with_capacity(order.len());
        for name in order {
            let Some(mut task) = tasks.remove(&name) else { continue };
            let seen = task.seen.clone();
            let rows = if self.keep_rows {
                TaskRowsRead::Kept(task.rows)
            } else if self.gathers() && !task.cannot_wait {
                TaskRowsRead::Gathered(task.rows)
            } else {
                self.summarize(&mut task)?;
                let merged = task.parts.finish(Partial::merge);
                match merged.map_err(|e| self.error(&e))? {
                    Some(partial) => TaskRowsRead::Once(Box::new(partial)),
                    None => continue,
                }
            };
            done.push((name, rows, seen));
        }
        Ok((done, total))
    }

    /// The tasks of one batch.
    fn parts(
        &self,
        encoder: &Encoder<'_>,
        source: &Source,
        batch: &Batch,
    ) -> Result<Vec<TaskPart>> {
        if batch.rows == 0 {
            return Ok(Vec::new());
        }
        let encoded = encoder.categories(source, batch)?;
        let targets = BatchTargets::of(self, encoder, source, batch);
        let task = self.learning.task.map(|_| encoder.extra(batch, self.schema.targets.len()));
        let (names, groups): (Vec<String>, Vec<Vec<usize>>) = match task {
            Some(Column::Texts(texts)) => {
                let column = self.learning.task;
                let field = source.fields().iter().find(|f| Some(f.name.as_str()) == column);
                let mut groups = vec![Vec::new(); texts.names.len()];
                for (i, code) in texts.codes.iter().enumerate() {
                    groups[*code as usize].push(i);
                }
                (texts.names.iter().map(|name| class_name(field, name)).collect(), groups)
            }
            _ => (vec![String::new()], vec![(0..batch.rows).collect()]),
        };
        let whole = names.len() == 1;
        // Rows of several tasks are laid out once, and gathered task by task.
        let mut all = Vec::new();
        if !whole {
            encoder.write(batch, &encoded, (0, batch.rows), &mut all);
        }
        let known = self.schema.features().into_iter();
        let all_names = known.chain(encoded.new_names(self.schema));
        let keys = ContentKeys::new(all_names, &self.schema.targets);
        let gaps = encoded.gaps(self.schema);
        let mut parts = Vec::with_capacity(names.len());
        for (name, rows) in names.into_iter().zip(&groups) {
            if rows.is_empty() {
                continue;
            }
            let group = Group {
                source,
                batch,
                encoder,
                encoded: &encoded,
                gaps: &gaps,
                rows,
                whole,
                all: &all,
            };
            let mut seen = Seen::default();
            let rows = if self.keep_rows || self.gathers() {
                self.kept(&group, &targets, &keys, &mut seen)?
            } else {
                PartRows::Summary(Box::new(self.summarized(&group, &targets, &keys, &mut seen)?))
            };
            parts.push(TaskPart { name, rows, seen });
        }
        Ok(parts)
    }

    /// The rows of a group, kept for later passes.
    fn kept(
        &self,
        group: &Group<'_>,
        targets: &BatchTargets<'_>,
        keys: &ContentKeys,
        seen: &mut Seen,
    ) -> Result<PartRows> {
        let mut x = Vec::new();
        group.write(0, group.rows.len(), &mut x);
        let y = targets.chunk(group.rows);
        if let ChunkTargets::Values { cells, width } = &y {
            let problem = self.learner.problem();
            for (i, value) in cells.iter().enumerate() {
                if let Some(must) = problem.refuses_target(*value) {
                    let (row, column) = ((i / width) as u64, i % width);
                    let error = pmfcl::Error::Target { row, column, value: *value, must };
                    return Err(group.error(&error, self));
                }
            }
        }
        self.see(group, (0, &x), &y, keys, seen)?;
        let file_rows = FileRows::of(group.rows.iter().map(|&i| group.batch.file_row(i)));
        let chunk = NewChunk {
            file: group.source.label().to_owned(),
            file_rows,
            width: group.encoded.width,
            new: group.encoded.new.iter().map(Input::key).collect(),
            y,
            len: group.rows.len(),
        };
        Ok(PartRows::Rows(chunk, x))
    }

    /// Looks at rows of a group, the first of which is row `from` of it.
    fn see(
        &self,
        group: &Group<'_>,
        (from, x): (usize, &[f64]),
        y: &ChunkTargets,
        keys: &ContentKeys,
        seen: &mut Seen,
    ) -> Result<()> {
        let rows = task_rows(x, group.encoded.width, y)?;
        seen.content.add(keys, &rows);
        if let Some(reference) = self.learning.reference {
            let place = |i: usize| group.batch.file_row(group.rows[from + i]);
            seen.findings.merge(reference.look(self.learner, &rows, group.gaps, place));
        }
        Ok(())
    }

    /// The answer of a group to the first pass.
    fn summarized(
        &self,
        group: &Group<'_>,
        targets: &BatchTargets<'_>,
        keys: &ContentKeys,
        seen: &mut Seen,
    ) -> Result<Partial> {
        let new = group.encoded.width - self.design.inputs();
        let design = self.design.with_inputs(new)?;
        let context = self.context(&design);
        let new_inputs: Vec<String> = group.encoded.new.iter().map(Input::key).collect();
        let mut worker = Worker::new(context, &self.learner.problem().first_pass())?;
        worker.name_new_inputs(&new_inputs);
        // A block at a time, so that rows are still in the cache when they are summarized.
        let block = worker.block_rows();
        let mut x = ROOM.take();
        let mut from = 0;
        while from < group.rows.len() {
            let to = (from + block).min(group.rows.len());
            group.write(from, to, &mut x);
            let y = targets.chunk(&group.rows[from..to]);
            let rows = task_rows(&x, group.encoded.width, &y)?;
            worker.add(rows).map_err(|e| group.error(&e, self))?;
            self.see(group, (from, &x), &y, keys, seen)?;
            from = to;
        }
        ROOM.set(x);
        let mut partial = worker.finish().map_err(|e| group.error(&e, self))?;
        partial.tasks.iter_mut().for_each(|task| task.new_inputs.clone_from(&new_inputs));
        Ok(partial)
    }
}

/// Inputs and targets as rows of a task.
fn task_rows<'a>(x: &'a [f64], width: usize, y: &'a ChunkTargets) -> Result<TaskRows<'a>> {
    let y = match y {
        ChunkTargets::Values { cells, width } => Targets::Values(Rows::new(cells, *width)?),
        ChunkTargets::Classes { codes, names } => Targets::Classes { codes, names },
    };
    Ok(TaskRows { x: Rows::new(x, width)?, y, weights: None })
}

thread_local! {
    /// Room to lay rows out in, kept from piece to piece: fresh memory costs as much as filling it.
    static ROOM: std::cell::Cell<Vec<f64>> = const { std::cell::Cell::new(Vec::new()) };
}

/// The rows of one task in a batch.
struct Group<'a> {
    source: &'a Source,
    batch: &'a Batch,
    encoder: &'a Encoder<'a>,
    encoded: &'a Encoded,
    /// The inputs that have gaps, and the inputs that say where.
    gaps: &'a [Fill],
    rows: &'a [usize],
    /// Whether these are all rows of the batch.
    whole: bool,
    /// All rows of the batch, encoded, where they are not.
    all: &'a [f64],
}

impl Group<'_> {
    /// Writes the inputs of rows `from .. to` of the group.
    fn write(&self, from: usize, to: usize, x: &mut Vec<f64>) {
        if self.whole {
            self.encoder.write(self.batch, self.encoded, (from, to), x);
            return;
        }
        let width = self.encoded.width;
        x.clear();
        for row in &self.rows[from..to] {
            x.extend_from_slice(&self.all[row * width..][..width]);
        }
    }

    /// An error of the learner about a row of the group, with its place in the file and its column by name.
    fn error(&self, error: &pmfcl::Error, recipe: &Recipe<'_>) -> IngestError {
        let row = |row: u64| self.batch.file_row(self.rows[row as usize]);
        let new = self.encoded.new_names(recipe.schema);
        IngestError::in_rows(self.source.label(), row, error, &recipe.names().and_inputs(new))
    }
}

/// The targets of a batch.
struct BatchTargets<'a> {
    columns: Vec<&'a Column>,
    /// Names of the classes, where classes are predicted.
    classes: Option<Vec<String>>,
    /// For each code of the label column its class.
    codes: Vec<u32>,
}

impl<'a> BatchTargets<'a> {
    fn of(recipe: &Recipe<'_>, encoder: &Encoder<'_>, source: &Source, batch: &'a Batch) -> Self {
        let columns: Vec<&Column> =
            (0..recipe.schema.targets.len()).map(|k| encoder.extra(batch, k)).collect();
        let mut targets = Self { columns, classes: None, codes: Vec::new() };
        if recipe.learner.problem().predicts_classes()
            && let Column::Texts(texts) = targets.columns[0]
        {
            let target = &recipe.schema.targets[0];
            let field = source.fields().iter().find(|f| f.name == *target);
            let mut classes: Vec<String> = Vec::new();
            for name in &texts.names {
                let name = class_name(field, name);
                let at = classes.iter().position(|c| *c == name).unwrap_or(classes.len());
                targets.codes.push(at as u32);
                if at == classes.len() {
                    classes.push(name);
                }
            }
            targets.classes = Some(classes);
        }
        targets
    }

    /// The targets of some rows.
    fn chunk(&self, rows: &[usize]) -> ChunkTargets {
        if let (Some(names), Column::Texts(texts)) = (&self.classes, self.columns[0]) {
            let codes = rows.iter().map(|&i| self.codes[texts.codes[i] as usize]).collect();
            return ChunkTargets::Classes { codes, names: names.clone() };
        }
        let width = self.columns.len();
        let mut cells = Vec::with_capacity(rows.len() * width);
        for &i in rows {
            cells.extend(self.columns.iter().map(|column| match column {
                Column::Numbers(values) => values[i],
                Column::Texts(_) | Column::Block { .. } => f64::NAN,
            }));
        }
        ChunkTargets::Values { cells, width }
    }
}
