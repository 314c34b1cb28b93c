//! Tasks of files go into a model, one after the other.

use pmfcl::{Basis, ClassLoss, Classifier, Design, Labels, Rows, Summary};
use pmfcl_file::{Input, Learned, Model, Schema};

use crate::columns::{Wish, check_columns, check_labels};
use crate::encode::Encoder;
use crate::flow::{Files, Flow, Step};
use crate::head::{first_rows, learn_categories};
use crate::summarize::{Count, Recipe, TaskSummary, beside, summarize};
use crate::table::{LabelledTable, labelled_tables};
use crate::{IngestError, Result};

/// What to learn and how.
pub struct Learning<'a> {
    /// The files; together they are one task unless `task` names a column.
    pub files: &'a Files,
    /// Which columns are meant.
    pub wish: &'a Wish,
    /// The column that names the task of a row.
    pub task: Option<&'a str>,
    /// The name of the task, where it is one.
    pub name: &'a str,
    /// The weight of each task.
    pub weight: f64,
    /// Told after every piece.
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

/// The columns and the design under which all files of a command are read, settled by the first of them.
#[derive(Debug, Clone)]
pub struct Plan {
    schema: Schema,
    design: Option<Design>,
}

impl Plan {
    /// Before the first file.
    pub fn of(model: &Model) -> Self {
        Self { schema: model.schema.clone(), design: model.learner().design().cloned() }
    }
}

/// Files that have been read and found in order, and are not yet learned.
#[derive(Debug)]
pub struct Prepared {
    /// Named summaries; `None` where the loss looks at the rows again.
    tasks: Option<Vec<(String, TaskSummary)>>,
    count: Count,
}

/// Reads files and summarizes their tasks; no model is changed. Several files can thus be prepared before the first
/// is learned, so that a fault in the last leaves the model as it was.
///
/// # Errors
/// When a file cannot be read or summarized, or a task name is taken.
pub fn prepare(model: &Model, plan: &mut Plan, learning: &Learning<'_>) -> Result<Prepared> {
    if logistic(model) {
        return look_through(model, plan, learning);
    }
    let files = learning.files;
    let settings = model.learner().settings();
    let (linear, intercept) = (settings.basis == Basis::default(), settings.intercept);
    let beside = beside(&plan.schema, learning.task, model.classifier().is_some());
    if plan.design.is_none() {
        let schema = &mut plan.schema;
        // Text alone has no inputs but its categories, and other bases are fixed on all of them.
        if !linear || schema.inputs.is_empty() {
            learn_categories(files, schema, &beside)?;
        }
        plan.design = Some(if linear {
            linear_design(schema.inputs.len(), intercept)?
        } else {
            let rows = if settings.basis.needs_rows() {
                first_rows(files, schema, &beside)?
            } else {
                vec![0.0; schema.inputs.len()]
            };
            if rows.is_empty() {
                return Err(no_rows(files, Count::default()));
            }
            model.learner().design_for(&Rows::new(&rows, schema.inputs.len())?)?
        });
    }
    let Some(design) = &plan.design else { return Err(pmfcl::Error::NotLearned.into()) };
    let recipe = Recipe {
        schema: &plan.schema,
        wish: learning.wish,
        task: learning.task,
        classes: model.classifier().map(Classifier::classes),
        design,
        accumulator: settings.accumulator,
        progress: learning.progress,
    };
    let (tasks, count) = summarize(files, &recipe)?;
    if tasks.is_empty() {
        return Err(no_rows(files, count));
    }
    if learning.task.is_some() {
        check_names(model, tasks.iter().map(|t| t.name.as_str()))?;
    }
    let named = |task: TaskSummary| {
        let name = if learning.task.is_some() { &task.name } else { learning.name };
        (name.to_owned(), task)
    };
    Ok(Prepared { tasks: Some(tasks.into_iter().map(named).collect()), count })
}

/// Learns what was prepared into `model`. After each task, `learned` is told its name and what has changed of the
/// model: `true` where inputs or classes were added, so that all its summaries changed.
///
/// `load` is called before such a change: it must supply summaries that are still in a file.
///
/// # Errors
/// When a task cannot be learned; tasks before it have been learned and told.
pub fn learn_prepared(
    model: &mut Model,
    plan: &Plan,
    prepared: Prepared,
    learning: &Learning<'_>,
    load: &mut dyn FnMut(&mut Model) -> Result<()>,
    learned: &mut dyn FnMut(&mut Model, &str, bool) -> Result<()>,
) -> Result<Read> {
    let (Some(tasks), Some(design)) = (prepared.tasks, &plan.design) else {
        let count = learn_tables(model, learning, load, learned)?;
        return Ok(Read { rows: count.rows, dropped: count.dropped });
    };
    let base = plan.schema.inputs.len();
    if model.learner().design().is_none() {
        model.schema = plan.schema.clone();
    }
    for (name, task) in tasks {
        let grown = learn_one(model, &name, task, (design, base), learning.weight, load)?;
        learned(model, &name, grown)?;
    }
    Ok(Read { rows: prepared.count.rows, dropped: prepared.count.dropped })
}

/// [`prepare`] and [`learn_prepared`] for files that stand alone.
///
/// # Errors
/// As the two.
pub fn learn_tasks(
    model: &mut Model,
    learning: &Learning<'_>,
    load: &mut dyn FnMut(&mut Model) -> Result<()>,
    learned: &mut dyn FnMut(&mut Model, &str, bool) -> Result<()>,
) -> Result<Read> {
    let mut plan = Plan::of(model);
    let prepared = if logistic(model) {
        Prepared { tasks: None, count: Count::default() }
    } else {
        prepare(model, &mut plan, learning)?
    };
    learn_prepared(model, &plan, prepared, learning, load, learned)
}

fn logistic(model: &Model) -> bool {
    model.classifier().is_some_and(|c| c.settings().loss == ClassLoss::Logistic)
}

/// Reads files whose rows will be read again, only to see that they can be.
fn look_through(model: &Model, plan: &Plan, learning: &Learning<'_>) -> Result<Prepared> {
    let schema = &plan.schema;
    let closed = model.learner().design().is_some_and(|d| !d.map().is_identity());
    let encoder = Encoder::new(schema, beside(schema, learning.task, true), !closed);
    let flow = Flow {
        plan: &|source| {
            check_columns(source, schema, learning.wish, true)?;
            if let Some(classifier) = model.classifier() {
                check_labels(source, &schema.targets, classifier.classes(), learning.wish)?;
            }
            Ok(encoder.wanted())
        },
        work: &|source, batch| encoder.categories(source, batch).map(|_| ()),
        progress: &|_| {},
    };
    learning.files.run(&flow, |()| Ok(true))?;
    Ok(Prepared { tasks: None, count: Count::default() })
}

/// Learns a task summarized with the first `base` inputs of the schema; says whether the model grew.
fn learn_one(
    model: &mut Model,
    name: &str,
    task: TaskSummary,
    (design, base): (&Design, usize),
    weight: f64,
    load: &mut dyn FnMut(&mut Model) -> Result<()>,
) -> Result<bool> {
    let offset = usize::from(design.intercept());
    let before = model.schema.inputs.len();
    let mut schema = model.schema.clone();
    // A basis of its own keeps its columns; only linear inputs ever move.
    let mut places: Vec<usize> = (0..design.width()).collect();
    for (column, value) in task.new {
        let known = schema.categories(column).find(|(v, _)| *v == value).map(|(_, i)| i);
        places.push(offset + known.unwrap_or(schema.inputs.len()));
        if known.is_none() {
            schema.inputs.push(Input::Category { column, value });
        }
    }
    let added = schema.inputs.len() - before;
    let fresh = model.learner().design().is_none();
    let new_class = model
        .classifier()
        .is_some_and(|c| !fresh && task.classes.iter().any(|class| !c.classes().contains(class)));
    if !fresh && (added > 0 || new_class) {
        load(model)?;
    }
    let design = match model.learner().design() {
        Some(_) if added > 0 => {
            match &mut model.learned {
                Learned::Regression(learner) => learner.extend_inputs(before, added)?,
                Learned::Classification(classifier) => classifier.extend_inputs(before, added)?,
            }
            linear_design(schema.inputs.len(), design.intercept())?
        }
        Some(design) => design.clone(),
        None if schema.inputs.len() > base => {
            linear_design(schema.inputs.len(), design.intercept())?
        }
        None => design.clone(),
    };
    model.schema = schema;
    let summary = task.summary.rearrange(&places, design.width())?;
    match &mut model.learned {
        Learned::Regression(learner) => {
            learner.learn_summarized(name, design, summary, weight)?;
        }
        Learned::Classification(classifier) => {
            classifier.learn_summarized(name, design, &summary, &task.classes, weight)?;
        }
    }
    Ok(!fresh && (added > 0 || new_class))
}

fn learn_tables(
    model: &mut Model,
    learning: &Learning<'_>,
    load: &mut dyn FnMut(&mut Model) -> Result<()>,
    learned: &mut dyn FnMut(&mut Model, &str, bool) -> Result<()>,
) -> Result<Count> {
    let files = learning.files;
    let before = model.schema.inputs.len();
    let fresh = model.learner().design().is_none();
    let closed = !fresh && !model.learner().design().is_some_and(|d| d.map().is_identity());
    let mut schema = model.schema.clone();
    let beside = beside(&schema, learning.task, true);
    if !closed {
        learn_categories(files, &mut schema, &beside)?;
    }
    let added = schema.inputs.len() - before;
    let (tables, count) =
        labelled_tables(files, &schema, learning.wish, learning.task, learning.progress)?;
    if tables.is_empty() {
        return Err(no_rows(files, count));
    }
    if learning.task.is_some() {
        check_names(model, tables.iter().map(|t| t.name.as_str()))?;
    }
    let mut grown = !fresh && added > 0;
    if grown {
        load(model)?;
        if let Learned::Classification(classifier) = &mut model.learned {
            classifier.extend_inputs(before, added)?;
        }
    }
    model.schema = schema;
    let d = model.schema.inputs.len();
    for table in tables {
        let LabelledTable { name, x, codes, classes } = table;
        let name = if learning.task.is_some() { name } else { learning.name.to_owned() };
        let labels = Labels::from_codes(&codes, &classes)?;
        if let Learned::Classification(classifier) = &mut model.learned {
            let file = files.paths[0].display().to_string();
            let known = classifier.classes();
            if let Some(new) = classes.iter().find(|c| !known.is_empty() && !known.contains(c)) {
                return Err(IngestError::Column {
                    file,
                    what: format!(
                        "column '{}' has the class '{new}', which the model does not know; log-loss \
                         has to know all classes from the start: make the model with --classes {},{new}, \
                         or with --loss gaussian",
                        model.schema.targets[0],
                        known.join(","),
                    ),
                });
            }
            classifier
                .learn_weighted(&name, Rows::new(&x, d)?, &labels, None, learning.weight)
                .map_err(|e| IngestError::at(&file, |row| row, e))?;
        }
        learned(model, &name, grown)?;
        grown = false;
    }
    Ok(count)
}

/// A name that is taken is told before any of the tasks is learned.
fn check_names<'a>(model: &Model, mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    match names.find(|name| model.learner().names().any(|known| known == *name)) {
        Some(name) => Err(pmfcl::Error::DuplicateTask { name: name.to_owned() }.into()),
        None => Ok(()),
    }
}

fn linear_design(inputs: usize, intercept: bool) -> Result<Design> {
    let map = Basis::default().fix(&[], inputs).map_err(pmfcl::Error::from)?;
    Ok(Design::new(map, intercept))
}

fn no_rows(files: &Files, count: Count) -> IngestError {
    IngestError::NoRows { file: files.paths[0].display().to_string(), dropped: count.dropped }
}

/// The summary a model would keep of these files as one task, made once more: to unlearn it from compact memory.
///
/// # Errors
/// As [`learn_tasks`]; for logistic loss; and for categories or classes the model does not know.
pub fn summarize_again(model: &Model, files: &Files, wish: &Wish) -> Result<Summary> {
    let learner = model.learner();
    let Some(design) = learner.design() else { return Err(pmfcl::Error::NotLearned.into()) };
    if model.classifier().is_some_and(|c| c.settings().loss == ClassLoss::Logistic) {
        return Err(IngestError::Core(pmfcl::Error::Unsupported {
            operation: "unlearning a logistic task from compact memory",
            reason: "its bound cannot be made again alone; use the ledger".to_owned(),
        }));
    }
    let recipe = Recipe {
        schema: &model.schema,
        wish,
        task: None,
        classes: model.classifier().map(Classifier::classes),
        design,
        accumulator: learner.settings().accumulator,
        progress: &|_| {},
    };
    let (tasks, count) = summarize(files, &recipe)?;
    let Some(task) = tasks.into_iter().next() else { return Err(no_rows(files, count)) };
    let unknown = |what: &str, value: &str| IngestError::Column {
        file: files.paths[0].display().to_string(),
        what: format!(
            "the model does not know the {what} '{value}': these are not the rows it learned"
        ),
    };
    if let Some((_, value)) = task.new.first() {
        return Err(unknown("category", value));
    }
    let Some(classifier) = model.classifier() else { return Ok(task.summary) };
    let classes = classifier.classes();
    let mut places = Vec::with_capacity(task.classes.len());
    for class in &task.classes {
        let at = classes.iter().position(|c| c == class);
        places.push(at.ok_or_else(|| unknown("class", class))?);
    }
    Ok(task.summary.rearrange_targets(&places, classes.len())?)
}
