//! Files become tasks: read once, fitted one after the other, inserted by the caller.
//!
//! ```text
//! Ingest::read, for each file ──▶ first pass on pieces, or rows stored for later passes
//! Ingest::next(&model) ──▶ one fitted task ──▶ NamedTask::insert(&mut model)
//! ```
//!
//! All files of a command are read before the first task is inserted, so an error in the last leaves the model unchanged.

use std::collections::VecDeque;

use pmfcl::problem::{Draft, Partial, Passes};
use pmfcl::report::check::{Check, Effort, NewTask, Reference};
use pmfcl::{Basis, Design, Learner, Rows, Settings, TaskSummary};
use pmfcl_file::{ColumnNames, Input, Model, Schema};
use pmfcl_read::{Form, Wanted};

use crate::columns::{ColumnSelection, with_new_columns};
use crate::flow::{Files, Step};
use crate::head::{check_count, first_rows, learn_categories};
use crate::pieces::{Recipe, Seen, TaskFound, TaskRowsRead, WIDE};
use crate::spill::ChunkTargets;
use crate::{IngestError, Result, shell_option};

/// What to learn and how.
pub struct Learning<'a> {
    /// The files; together they are one task unless `task` names a column.
    pub files: &'a Files,
    /// Which columns are meant.
    pub selection: &'a ColumnSelection,
    /// The column that names the task of a row.
    pub task: Option<&'a str>,
    /// The name of the task, where it is one.
    pub name: &'a str,
    /// The weight of each task.
    pub weight: f64,
    /// What rows are compared with while they are read, where the model has learned something.
    pub reference: Option<&'a Reference>,
    /// Called after every piece.
    pub progress: &'a (dyn Fn(Step) + Sync),
}

/// Rows read from files, and rows left out for missing values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Read {
    /// Rows learned.
    pub rows: u64,
    /// Rows left out.
    pub dropped: u64,
}

/// Files that have been read, and whose tasks are fitted one after the other.
#[derive(Debug)]
pub struct Ingest {
    /// The columns and the design under which all files of a command are read, settled by the first of them.
    schema: Schema,
    design: Option<Design>,
    /// Classes found in the files, where all must be known before the first task.
    classes: Vec<String>,
    tasks: VecDeque<ReadTask>,
    /// Whether columns were added that the model does not have.
    grown: bool,
}

/// A task that has been read and not yet fitted.
#[derive(Debug)]
struct ReadTask {
    name: String,
    weight: f64,
    rows: TaskRowsRead,
    seen: Seen,
}

/// A fitted task with its name, to be inserted.
#[derive(Debug)]
pub struct NamedTask {
    name: String,
    weight: f64,
    schema: Schema,
    design: Design,
    draft: Draft,
    /// The classes to be fixed first, where the task lacks some of those in the files.
    classes: Option<Vec<String>>,
    seen: Seen,
}

impl NamedTask {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the model says of the task, which is not yet in it; `None` where the model has learned nothing.
    ///
    /// # Errors
    /// When numbers leave the range of double precision.
    pub fn check(&self, model: &Model, effort: Effort) -> Result<Option<Check>> {
        if model.learner.records().is_empty() {
            return Ok(None);
        }
        let task = NewTask {
            design: &self.design,
            draft: &self.draft,
            rows: &self.seen.findings,
            dropped: self.seen.dropped,
            inputs: &self.schema.features(),
            targets: &self.schema.targets,
            gaps: &self.schema.gaps(),
        };
        Ok(Some(Check::of(&model.learner, &task, effort)?))
    }

    /// Puts the task into a model: the one it was fitted for, unchanged since.
    ///
    /// # Errors
    /// As [`Learner::insert`].
    pub fn insert(self, model: &mut Model) -> Result<()> {
        if let Some(classes) = self.classes {
            model.learner.fix_classes(classes)?;
        }
        model.learner.insert(&self.name, &self.design, self.draft, self.weight)?;
        model.schema = self.schema;
        Ok(())
    }
}

impl Ingest {
    /// Before the first file.
    pub fn new(model: &Model) -> Self {
        Self {
            schema: model.schema.clone(),
            design: model.learner.design().cloned(),
            classes: Vec::new(),
            tasks: VecDeque::new(),
            grown: false,
        }
    }

    /// Reads files; the model is not changed.
    ///
    /// # Errors
    /// When a file cannot be read, a row is invalid, or a task name is taken.
    pub fn read(&mut self, model: &Model, learning: &Learning<'_>) -> Result<Read> {
        let learner = &model.learner;
        let lacking = |name: &String| self.schema.column(name).is_none();
        if learning.selection.new.iter().any(lacking) {
            self.add_columns(learning)?;
        }
        let files = learning.files.with_formats(&self.schema)?;
        let learning = &Learning { files: &files, ..*learning };
        let extra =
            extra_columns(&self.schema, learning.task, learner.problem().predicts_classes());
        if self.design.is_none() {
            self.fix_design(learner, learning.files, &extra)?;
        }
        let Some(design) = &self.design else { return Err(pmfcl::Error::NotLearned.into()) };
        // Pieces are summarized on threads, and inside one there is one; of a wide design one piece is work for all.
        let threads = if design.width() > WIDE { learner.settings().threads } else { 1 };
        let recipe = Recipe {
            schema: &self.schema,
            learning,
            learner,
            settings: Settings { threads, ..learner.settings().clone() },
            design,
            keep_rows: learner.problem().looks_again(),
        };
        let (tasks, read) = recipe.run(extra)?;
        if tasks.is_empty() {
            return Err(no_rows(learning.files, read));
        }
        if learner.problem().needs_all_classes() {
            self.note_classes(model, &tasks, learning)?;
        }
        let alone = tasks.len() == 1;
        for (name, rows, mut seen) in tasks {
            seen.dropped = if alone { read.dropped } else { 0 };
            let name = if learning.task.is_some() { name } else { learning.name.to_owned() };
            let twice = self.tasks.iter().any(|task| task.name == name);
            if learner.contains(&name) || twice {
                return Err(pmfcl::Error::DuplicateTask { name }.into());
            }
            self.tasks.push_back(ReadTask { name, weight: learning.weight, rows, seen });
        }
        Ok(read)
    }

    /// Adds the new columns of the first file, behind all inputs there are.
    fn add_columns(&mut self, learning: &Learning<'_>) -> Result<()> {
        let Some(design) = &self.design else { return Err(pmfcl::Error::NotLearned.into()) };
        let source = learning.files.first()?;
        let schema = with_new_columns(&source, &self.schema, learning.selection)?;
        let wider = design.with_inputs(schema.inputs.len() - design.inputs())?;
        (self.schema, self.design) = (schema, Some(wider));
        self.grown = true;
        Ok(())
    }

    /// The design under which the first file of the first task is read.
    fn fix_design(&mut self, learner: &Learner, files: &Files, extra: &[Wanted]) -> Result<()> {
        let settings = learner.settings();
        let linear = settings.basis == Basis::default();
        // Text alone has no inputs except its categories, and other bases are fixed on all of them.
        if !linear || self.schema.inputs.is_empty() {
            learn_categories(files, &mut self.schema, extra)?;
        }
        let inputs = self.schema.inputs.len();
        let rows = if settings.basis.needs_rows() {
            first_rows(files, &self.schema, extra)?
        } else {
            vec![0.0; inputs]
        };
        if rows.is_empty() {
            return Err(no_rows(files, Read::default()));
        }
        let design = learner.design_for(&Rows::new(&rows, inputs)?);
        let names = || ColumnNames::of(&self.schema, learner);
        self.design = Some(design.map_err(|e| {
            let file = files.paths[0].display().to_string();
            IngestError::Refused { place: file, message: names().message(&e, false) }
        })?);
        Ok(())
    }

    /// Notes the classes of the files, and refuses those a model that has learned does not know.
    fn note_classes(
        &mut self,
        model: &Model,
        tasks: &[TaskFound],
        learning: &Learning<'_>,
    ) -> Result<()> {
        let mut found: Vec<String> = Vec::new();
        for (_, rows, _) in tasks {
            let TaskRowsRead::Kept(spill) = rows else { continue };
            for chunk in &spill.chunks {
                let ChunkTargets::Classes { codes, names } = &chunk.y else { continue };
                let mut used = vec![false; names.len()];
                codes.iter().for_each(|&code| used[code as usize] = true);
                let names = names.iter().zip(used).filter(|(_, used)| *used);
                found.extend(names.map(|(name, _)| name.clone()));
            }
        }
        let known = model.learner.classes();
        if let Some(new) = found.iter().find(|c| !known.is_empty() && !known.contains(c)) {
            let mut all = known.to_vec();
            for class in &found {
                if !all.contains(class) {
                    all.push(class.clone());
                }
            }
            return Err(IngestError::Column {
                file: learning.files.paths[0].display().to_string(),
                what: format!(
                    "column '{}' has the class '{new}', which the model does not know; log-loss has to know all classes from \
                     the start: make the model with {}, or with --loss gaussian",
                    self.schema.targets[0],
                    shell_option("--classes", &all),
                ),
            });
        }
        for class in found {
            if !self.classes.contains(&class) {
                self.classes.push(class);
            }
        }
        Ok(())
    }

    /// The model that has learned nothing under which the files were read, and the summary of each task in it: for a problem
    /// that looks at rows once. New categories are named in the summaries.
    ///
    /// # Errors
    /// When nothing was read, or the problem looks at rows again.
    pub fn into_parts(self, model: &Model) -> Result<(Model, Vec<(String, TaskSummary)>)> {
        let Some(design) = self.design else { return Err(pmfcl::Error::NotLearned.into()) };
        let mut template = Model { schema: self.schema, ..model.emptied()? };
        template.learner.fix_design(design)?;
        let mut parts = Vec::with_capacity(self.tasks.len());
        for ReadTask { name, rows, seen, .. } in self.tasks {
            let summary = match rows {
                TaskRowsRead::Once(mut partial) => partial.tasks.pop(),
                TaskRowsRead::Gathered(spill) => {
                    let Some(design) = template.learner.design() else {
                        return Err(pmfcl::Error::NotLearned.into());
                    };
                    let names = ColumnNames::under(&template.schema, design);
                    spill.first_pass(template.learner.context_with(design), &names)?.tasks.pop()
                }
                TaskRowsRead::Kept(_) => None,
            };
            let Some(mut summary) = summary else {
                return Err(pmfcl::Error::Unsupported {
                    operation: "a shard of summaries",
                    reason: format!(
                        "{} looks at the rows of a task several times",
                        model.learner.problem()
                    ),
                }
                .into());
            };
            summary.head.content = Some(seen.content.to_bytes());
            parts.push((name, summary));
        }
        Ok((template, parts))
    }

    /// Settles columns and design by the first rows of these files, without learning them.
    ///
    /// # Errors
    /// As [`Ingest::read`].
    pub fn settle(&mut self, model: &Model, learning: &Learning<'_>) -> Result<()> {
        let files = learning.files.with_formats(&self.schema)?;
        let classes = model.learner.problem().predicts_classes();
        let extra = extra_columns(&self.schema, learning.task, classes);
        if self.design.is_none() {
            self.fix_design(&model.learner, &files, &extra)?;
        }
        Ok(())
    }

    /// How many tasks have not been fitted yet.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether every task has been fitted.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Fits the next task, given the model with the tasks before it; `None` when there are no more.
    ///
    /// # Errors
    /// When a row is invalid, or the task does not go with those before it.
    pub fn next(&mut self, model: &Model) -> Result<Option<NamedTask>> {
        self.next_watched(model, &|_, _| {})
    }

    /// The same, where `watch` is told the name of the task and how many passes over its rows have been made, after each of them.
    ///
    /// # Errors
    /// As [`Ingest::next`].
    pub fn next_watched(
        &mut self,
        model: &Model,
        watch: &dyn Fn(&str, u64),
    ) -> Result<Option<NamedTask>> {
        let Some(task) = self.tasks.pop_front() else { return Ok(None) };
        let ReadTask { name, weight, rows, seen } = task;
        let watch = |passes: u64| watch(&name, passes);
        let first = self.grown && model.schema.columns.len() < self.schema.columns.len();
        let mut schema = if model.learner.design().is_none() || first {
            self.schema.clone()
        } else {
            model.schema.clone()
        };
        let keys = match &rows {
            TaskRowsRead::Gathered(_) => Vec::new(),
            TaskRowsRead::Once(first) => {
                first.tasks.iter().flat_map(|task| task.new_inputs.clone()).collect()
            }
            TaskRowsRead::Kept(spill) => {
                spill.chunks.iter().flat_map(|chunk| chunk.new.clone()).collect::<Vec<_>>()
            }
        };
        for key in &keys {
            add_input(&mut schema, key)?;
        }
        let Some(base) = model.learner.design().or(self.design.as_ref()) else {
            return Err(pmfcl::Error::NotLearned.into());
        };
        let design = base.with_inputs(schema.inputs.len().saturating_sub(base.inputs()))?;
        let design = design.with_fills(schema.fills())?;
        let classes = self.classes_to_fix(model, &rows);
        let mut draft = match &classes {
            Some(names) => {
                let mut learner = model.learner.clone();
                learner.fix_classes(names.clone())?;
                rows.fitted(&learner, &schema, &design, weight, &watch)?
            }
            None => rows.fitted(&model.learner, &schema, &design, weight, &watch)?,
        };
        draft.summary.head.content = Some(seen.content.to_bytes());
        Ok(Some(NamedTask { name, weight, schema, design, draft, classes, seen }))
    }

    /// All classes of the files, where the first task lacks some and they cannot be added later.
    fn classes_to_fix(&self, model: &Model, rows: &TaskRowsRead) -> Option<Vec<String>> {
        let learner = &model.learner;
        if !learner.problem().needs_all_classes() || !learner.classes().is_empty() {
            return None;
        }
        let TaskRowsRead::Kept(spill) = rows else { return None };
        let has = |class: &String| {
            spill.chunks.iter().any(|chunk| match &chunk.y {
                ChunkTargets::Classes { codes, names } => names
                    .iter()
                    .position(|name| name == class)
                    .is_some_and(|at| codes.contains(&(at as u32))),
                ChunkTargets::Values { .. } => false,
            })
        };
        (!self.classes.iter().all(has)).then(|| self.classes.clone())
    }
}

impl TaskRowsRead {
    /// The fit of a task by a learner, under this schema and design.
    fn fitted(
        self,
        learner: &Learner,
        schema: &Schema,
        design: &Design,
        weight: f64,
        watch: &dyn Fn(u64),
    ) -> Result<Draft> {
        let place = |key: &str| input_of(schema, key).unwrap_or(0);
        match self {
            Self::Once(first) => {
                let mut first = *first;
                let offset = usize::from(design.intercept());
                for task in &mut first.tasks {
                    *task = placed(task, design.width(), &|key| offset + place(key))?;
                }
                let sample = first.sample.take();
                first.sample = sample.map(|rows| rows.placed(&place, design.inputs()));
                Ok(learner.fit(design, first, &mut NoMore, weight)?)
            }
            Self::Gathered(spill) => {
                let names = ColumnNames::under(schema, design);
                let first = spill.first_pass(learner.context_with(design), &names)?;
                Ok(learner.fit(design, first, &mut NoMore, weight)?)
            }
            Self::Kept(spill) => {
                let names = ColumnNames::under(schema, design);
                spill.with_passes(learner.context_with(design), &place, &names, |passes| {
                    let mut passes = Watched { passes, watch, made: 0 };
                    let first = passes.run(&learner.problem().first_pass())?;
                    learner.fit(design, first, &mut passes, weight)
                })
            }
        }
    }
}

/// A task summary with the columns of new inputs where the model has them.
fn placed(task: &TaskSummary, width: usize, place: &dyn Fn(&str) -> usize) -> Result<TaskSummary> {
    let known = task.quadratic.width() - task.new_inputs.len();
    let places: Vec<usize> =
        (0..known).chain(task.new_inputs.iter().map(|key| place(key))).collect();
    let mut moved = task.rearranged(&places, width)?;
    moved.new_inputs = Vec::new();
    Ok(moved)
}

/// An executor that says how many passes it has made.
struct Watched<'a> {
    passes: &'a mut dyn Passes,
    watch: &'a dyn Fn(u64),
    made: u64,
}

impl Passes for Watched<'_> {
    fn run(&mut self, pass: &pmfcl::problem::Pass) -> pmfcl::Result<Partial> {
        let partial = self.passes.run(pass)?;
        self.made += 1;
        (self.watch)(self.made);
        Ok(partial)
    }
}

/// The executor of a problem that asks for one pass.
struct NoMore;

impl Passes for NoMore {
    fn run(&mut self, _: &pmfcl::problem::Pass) -> pmfcl::Result<Partial> {
        Err(pmfcl::Error::State { reason: "the rows are gone after one pass".to_owned() })
    }
}

/// The input of a key.
fn input_of(schema: &Schema, key: &str) -> Option<usize> {
    let wanted = Input::of_key(key)?;
    schema.inputs.iter().position(|input| *input == wanted)
}

/// Adds the input of a key to a schema that does not have it.
fn add_input(schema: &mut Schema, key: &str) -> Result<()> {
    if input_of(schema, key).is_some() {
        return Ok(());
    }
    if let Some(input) = Input::of_key(key) {
        let column = input.column();
        let count = schema.categories(column).count() + 1;
        check_count("the files", &schema.columns[column].name, count)?;
        schema.inputs.push(input);
    }
    Ok(())
}

/// The columns read in addition to the features: the targets, then the one that names the task.
pub(crate) fn extra_columns(schema: &Schema, task: Option<&str>, classes: bool) -> Vec<Wanted> {
    let form = if classes { Form::Text } else { Form::Number };
    let targets = schema.targets.iter().map(|name| Wanted::new(name.clone(), form));
    targets.chain(task.map(|name| Wanted::new(name, Form::Text))).collect()
}

fn no_rows(files: &Files, read: Read) -> IngestError {
    IngestError::NoRows { file: files.paths[0].display().to_string(), dropped: read.dropped }
}

/// The task summary a model would keep of these files as one task, made once more: to unlearn it from compact memory.
///
/// # Errors
/// As [`Ingest::read`]; for categories or classes the model does not know.
pub fn summarize_again(
    model: &Model,
    files: &Files,
    selection: &ColumnSelection,
) -> Result<TaskSummary> {
    if model.learner.design().is_none() {
        return Err(pmfcl::Error::NotLearned.into());
    }
    let name = "these rows once more";
    let learning = Learning {
        files,
        selection,
        task: None,
        name,
        weight: 1.0,
        reference: None,
        progress: &|_| {},
    };
    let mut ingest = Ingest::new(model);
    ingest.read(model, &learning)?;
    let unknown = |what: &str, value: &str| IngestError::Column {
        file: files.paths[0].display().to_string(),
        what: format!(
            "the model does not know the {what} '{value}': these are not the rows it learned"
        ),
    };
    let Some(task) = ingest.next(model)? else { return Err(no_rows(files, Read::default())) };
    match task.schema.inputs.get(model.schema.inputs.len()) {
        Some(Input::Category { value, .. }) => return Err(unknown("category", value)),
        Some(Input::Missing { column }) => {
            return Err(unknown("gap in column", &model.schema.columns[*column].name));
        }
        _ => {}
    }
    let known = model.learner.classes();
    let summary = task.draft.summary;
    if let Some(class) = summary.classes.iter().find(|class| !known.contains(class)) {
        return Err(unknown("class", class));
    }
    Ok(summary)
}
