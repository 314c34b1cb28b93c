//! Parts of tasks: summaries of some rows, made anywhere as bytes, that meet by name and are learned at one place.

use pmfcl::problem::{Draft, Encoding, Partial, Pass, TaskContext};
use pmfcl::{Design, Error, Learner, Settings, TaskSummary};
use pmfcl_file::{Column, ColumnKind, FittedPart, Input, Model, Schema, Shard};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;

use crate::call::{outside, raised, raised_by_file, raised_in};
use crate::model::{PyModel, problem_of, settings_of};
use crate::passes::{by_asking, in_blocks};
use crate::table::{Table, Target, TaskTable, Weights};

/// What a column holds, by its name: `number`, `date`, `text`, or `block:K` for lists of K numbers.
fn kind_of(name: &str) -> PyResult<ColumnKind> {
    match (name, name.strip_prefix("block:").and_then(|width| width.parse().ok())) {
        ("number", _) => Ok(ColumnKind::Number),
        ("date", _) => Ok(ColumnKind::Date),
        ("text", _) => Ok(ColumnKind::Text),
        (_, Some(width)) => Ok(ColumnKind::Block(width)),
        _ => Err(PyTypeError::new_err(format!("there is no kind of column `{name}`"))),
    }
}

fn kind_name(kind: ColumnKind) -> String {
    match kind {
        ColumnKind::Number => "number".to_owned(),
        ColumnKind::Date => "date".to_owned(),
        ColumnKind::Text => "text".to_owned(),
        ColumnKind::Block(width) => format!("block:{width}"),
    }
}

/// The settings of a learner for so many threads.
fn with_threads(learner: &Learner, threads: Option<usize>) -> Settings {
    let settings = learner.settings().clone();
    Settings { threads: threads.unwrap_or(settings.threads).max(1), ..settings }
}

fn read_part(bytes: &[u8]) -> PyResult<TaskSummary> {
    TaskSummary::from_bytes(bytes, usize::MAX)
        .map_err(|e| PyValueError::new_err(format!("these bytes are no part of a task: {e}")))
}

/// Merges parts of one task, or answers to one pass, in their order; classes and new inputs meet by name.
#[pyfunction]
pub(crate) fn merge_parts(
    py: Python<'_>,
    parts: Vec<PyBackedBytes>,
) -> PyResult<Bound<'_, PyBytes>> {
    let merged = outside(py, || {
        if parts.first().is_some_and(|part| part.starts_with(ANSWER)) {
            return merge_answers(&parts);
        }
        let mut sum: Option<TaskSummary> = None;
        for part in &parts {
            let next = read_part(part)?;
            sum = Some(match sum {
                Some(sum) => sum.merge(&next).map_err(raised)?,
                None => next,
            });
        }
        let sum = sum.ok_or_else(|| PyValueError::new_err("there is no part to merge"))?;
        Ok(sum.to_bytes(Encoding::Packed))
    })?;
    Ok(PyBytes::new(py, &merged))
}

/// What the answer to a pass begins with.
const ANSWER: &[u8] = b"PMFA";

pub(crate) fn read_answer(bytes: &[u8]) -> PyResult<Partial> {
    Partial::from_bytes(bytes)
        .map_err(|e| PyValueError::new_err(format!("these bytes are no answer to a pass: {e}")))
}

fn merge_answers(parts: &[PyBackedBytes]) -> PyResult<Vec<u8>> {
    let mut sum = Partial::default();
    for part in parts {
        sum = sum.merge(read_answer(part)?).map_err(raised)?;
    }
    Ok(sum.to_bytes())
}

/// A shard as bytes: the digest of its recipe, rows read and dropped, name and part of each task, the template where it is to
/// be learned without the recipe.
#[pyfunction]
#[pyo3(signature = (recipe, rows, dropped, tasks, template=None))]
pub(crate) fn pack_shard<'py>(
    py: Python<'py>,
    recipe: [u8; 32],
    rows: u64,
    dropped: u64,
    tasks: Vec<(String, PyBackedBytes)>,
    template: Option<&[u8]>,
) -> Bound<'py, PyBytes> {
    let tasks = tasks.into_iter().map(|(name, part)| (name, part.to_vec())).collect();
    let template = template.map(<[u8]>::to_vec);
    PyBytes::new(py, &Shard { recipe, source: None, rows, dropped, template, tasks }.to_bytes())
}

/// What a shard holds.
type Unpacked<'py> = (Bound<'py, PyBytes>, u64, u64, Vec<(String, Bound<'py, PyBytes>)>);

/// The way back.
#[pyfunction]
pub(crate) fn unpack_shard<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Unpacked<'py>> {
    let shard = Shard::from_bytes(bytes).map_err(|what| PyValueError::new_err(what.0))?;
    let tasks = shard.tasks.iter().map(|(name, part)| (name.clone(), PyBytes::new(py, part)));
    Ok((PyBytes::new(py, &shard.recipe), shard.rows, shard.dropped, tasks.collect()))
}

/// A task that was fitted by passes over rows elsewhere, not yet in the model.
#[pyclass(name = "FittedTask", module = "pmfcl._core", frozen)]
pub(crate) struct PyFittedTask(pub(crate) FittedPart);

#[pymethods]
impl PyModel {
    /// A model that has learned nothing, over columns of every kind; `categories` are those of text columns known beforehand,
    /// as the column's position and the category.
    #[staticmethod]
    #[pyo3(signature = (columns, categories, targets, loss, options, settings, classes=None))]
    fn with_columns(
        columns: Vec<(String, String)>,
        categories: Vec<(usize, String)>,
        targets: Vec<String>,
        loss: &str,
        options: BTreeMap<String, String>,
        settings: &Bound<'_, PyDict>,
        classes: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let kinds = columns
            .into_iter()
            .map(|(name, kind)| Ok(Column { name, kind: kind_of(&kind)?, format: None }));
        let mut schema = Schema::new(kinds.collect::<PyResult<_>>()?, targets);
        for (column, value) in categories {
            let key = Input::Category { column, value }.key();
            if schema.input_of_key(&key).is_none() {
                return Err(PyValueError::new_err(format!("`{key}` is no category of this model")));
            }
        }
        let problem = problem_of(loss, &options, classes)?;
        let learner = Learner::new(problem, settings_of(settings)?).map_err(raised)?;
        Ok(Self::of(Model { schema, learner }))
    }

    /// The columns of tables for this model: name and kind (`number`, `date`, `text`, `block:K`).
    fn columns(&self) -> Vec<(String, String)> {
        let columns = self.model.schema.columns.iter();
        columns.map(|column| (column.name.clone(), kind_name(column.kind))).collect()
    }

    /// A model with these columns and settings that has learned nothing and whose basis is fixed: as that of this model, or from
    /// rows where the basis needs some.
    #[pyo3(signature = (rows=None))]
    fn template(&self, py: Python<'_>, rows: Option<Table>) -> PyResult<Self> {
        let model = if self.learner().design().is_some() {
            self.model.template().map_err(raised_by_file)?
        } else {
            let own = rows.map(|rows| rows.whole(py)).transpose()?;
            let rows = own.as_ref().map(crate::table::OwnTable::rows).transpose()?;
            let empty = self.model.emptied().map_err(raised_by_file)?;
            outside(py, || empty.founded(rows).map_err(raised_by_file))?
        };
        Ok(Self::of(model))
    }

    /// SHA-256 of columns, problem and design.
    fn recipe_digest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.model.recipe_digest().map_err(raised_by_file)?))
    }

    /// The first pass as bytes, where the loss looks at rows again; else None.
    fn first_pass<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let problem = self.learner().problem();
        if !problem.looks_again() {
            return Ok(None);
        }
        Ok(Some(PyBytes::new(py, &problem.first_pass().to_bytes().map_err(raised)?)))
    }

    /// Whether a task can be fitted without those before it, once the first has settled what the loss leaves open.
    fn tasks_are_independent(&self) -> bool {
        !self.learner().problem().needs_past()
    }

    /// Names all classes, where the loss has to know them before the first task.
    fn fix_classes(&mut self, names: Vec<String>) -> PyResult<()> {
        let learner = &mut self.model.learner;
        if learner.problem().needs_all_classes() && learner.classes().is_empty() {
            learner.fix_classes(names).map_err(raised)?;
        }
        Ok(())
    }

    /// The answer of some rows to a pass. The last columns of `x` are new inputs, named where the pass is the first.
    /// As many threads are used as `threads` says, by default all.
    #[pyo3(signature = (pass_, x, y, sample_weight, new_inputs, threads=None))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn answer_pass<'py>(
        &self,
        py: Python<'py>,
        pass_: &[u8],
        x: Table,
        y: Target,
        sample_weight: Weights,
        new_inputs: Vec<String>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let Model { schema, learner } = &self.model;
        self.check_keys(&new_inputs)?;
        let settings = with_threads(learner, threads);
        let pass = Pass::from_bytes(pass_)
            .map_err(|e| PyValueError::new_err(format!("these bytes are no pass: {e}")))?;
        let table = TaskTable::new(py, x, y, sample_weight)?;
        let bytes = outside(py, || {
            let design = design_of(learner)?.with_inputs(new_inputs.len()).map_err(raised)?;
            let context = TaskContext { settings: &settings, ..learner.context_with(&design) };
            let found = in_blocks(context, &table, |passes| passes.run(&pass));
            let mut answer = found.map_err(|failure| failure.raised(schema, learner))?;
            if matches!(pass, Pass::Look) {
                answer.tasks.iter_mut().for_each(|task| task.new_inputs.clone_from(&new_inputs));
            }
            Ok(answer.to_bytes())
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Fits a task given the merged answer to its first pass. `run` is called with the bytes of each further pass and gives the
    /// bytes of its merged answer; `keys` are categories that have inputs before those of the task.
    fn fit_passes(
        &self,
        py: Python<'_>,
        keys: Vec<String>,
        first: &[u8],
        weight: f64,
        run: Py<PyAny>,
    ) -> PyResult<PyFittedTask> {
        let first = read_answer(first)?;
        outside(py, || {
            let fitted =
                by_asking(&run, |passes| self.model.fit_passes(&keys, first, passes, weight));
            fitted.map(PyFittedTask)
        })
    }

    /// Learns a fitted task; without a name it is added to the task learned last.
    fn insert_fitted(
        &mut self,
        py: Python<'_>,
        name: Option<&str>,
        fitted: &PyFittedTask,
        weight: f64,
    ) -> PyResult<()> {
        let FittedPart { schema, design, draft } = &fitted.0;
        self.take_in(py, name, (schema, design), draft.clone(), weight)
    }

    /// Classes and new inputs by name that the answer to a first pass has.
    #[staticmethod]
    fn names_in(answer: &[u8]) -> PyResult<(Vec<String>, Vec<String>)> {
        let mut tasks = read_answer(answer)?.tasks;
        let Some(task) = tasks.pop() else { return Ok(Default::default()) };
        Ok((task.classes, task.new_inputs))
    }

    /// Some rows of a task as a part. The last columns of `x` are inputs that the model does not have yet, named by `new_inputs`.
    ///
    /// With `content`, a hash of the rows is in it, by which the same rows are recognised. As many threads are used as `threads`
    /// says, by default all.
    #[pyo3(signature = (x, y, sample_weight, new_inputs, content=false, threads=None))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn summarize_part<'py>(
        &self,
        py: Python<'py>,
        x: Table,
        y: Target,
        sample_weight: Weights,
        new_inputs: Vec<String>,
        content: bool,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let Model { schema, learner } = &self.model;
        self.check_keys(&new_inputs)?;
        let settings = with_threads(learner, threads);
        let table = TaskTable::new(py, x, y, sample_weight)?;
        let bytes = outside(py, || {
            let design = design_of(learner)?.with_inputs(new_inputs.len()).map_err(raised)?;
            let problem = learner.problem();
            if problem.looks_again() {
                return Err(PyValueError::new_err(format!(
                    "{problem} looks at the rows of a task several times, so its parts cannot be summarized apart; learn \
                     it with distributed.learn_with, or take squared or gaussian"
                )));
            }
            let context = TaskContext { settings: &settings, ..learner.context_with(&design) };
            let found = in_blocks(context, &table, |passes| passes.run(&problem.first_pass()));
            let mut tasks = found.map_err(|failure| failure.raised(schema, learner))?.tasks;
            let (Some(mut task), true) = (tasks.pop(), tasks.is_empty()) else {
                return Err(PyValueError::new_err(
                    "an automatic temperature is measured on halves of a task; give a number",
                ));
            };
            if content {
                let mut grown = schema.clone();
                for key in &new_inputs {
                    grown.input_of_key(key);
                }
                task.head.content = Some(crate::check::content(&grown, &table)?);
            }
            task.new_inputs = new_inputs;
            Ok(task.to_bytes(Encoding::Packed))
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Fits a part as a task that is not yet learned.
    fn fit_part(&self, py: Python<'_>, part: &[u8], weight: f64) -> PyResult<PyFittedTask> {
        let task = read_part(part)?;
        let fitted = outside(py, || self.model.fit_part(&task, weight).map_err(raised_by_file))?;
        Ok(PyFittedTask(fitted))
    }

    /// Learns a part as a task; without a name it is added to the task learned last.
    fn learn_part(
        &mut self,
        py: Python<'_>,
        name: Option<&str>,
        part: &[u8],
        weight: f64,
    ) -> PyResult<()> {
        let task = read_part(part)?;
        let model = &self.model;
        let fitted = outside(py, || model.fit_part(&task, weight).map_err(raised_by_file))?;
        let FittedPart { schema, design, draft } = fitted;
        self.take_in(py, name, (&schema, &design), draft, weight)
    }
}

impl PyModel {
    /// Refuses names of new inputs that are no categories.
    fn check_keys(&self, keys: &[String]) -> PyResult<()> {
        match keys.iter().find(|key| !self.model.schema.has_key(key)) {
            Some(key) => {
                Err(PyValueError::new_err(format!("`{key}` is no category of this model")))
            }
            None => Ok(()),
        }
    }

    /// Puts a fitted task into the model.
    fn take_in(
        &mut self,
        py: Python<'_>,
        name: Option<&str>,
        (schema, design): (&Schema, &Design),
        draft: Draft,
        weight: f64,
    ) -> PyResult<()> {
        let learner = &mut self.model.learner;
        outside(py, || {
            let learned = match name {
                Some(name) => learner.insert(name, design, draft, weight),
                None => learner.append(design, draft),
            };
            learned.map_err(|e| raised_in(&e, schema, learner))
        })?;
        if schema.inputs.len() > self.model.schema.inputs.len() {
            self.model.schema = schema.clone();
        }
        self.features = self.model.schema.features();
        Ok(())
    }
}

/// The design of a learner, fixed by its first task or beforehand.
fn design_of(learner: &Learner) -> PyResult<&Design> {
    learner.design().ok_or_else(|| raised(Error::NotLearned))
}
