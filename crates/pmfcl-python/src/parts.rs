//! Parts of tasks: summaries of some rows, made anywhere as bytes, that meet by name and are learned at one place.

use pmfcl::problem::{Encoding, Partial, Pass, Passes};
use pmfcl::{Design, Error, Learner, Preference, Settings, TaskSummary};
use pmfcl_file::{Column, ColumnKind, Input, Model, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;

use crate::call::{outside, raised, raised_by_file, raised_in};
use crate::model::{PyModel, problem_of, settings_of};
use crate::passes::in_blocks;
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

/// A new input, which is called `COLUMN:CATEGORY` with the column's position.
fn of_key(schema: &Schema, key: &str) -> PyResult<Input> {
    let text = |at: &usize| schema.columns.get(*at).is_some_and(|c| c.kind == ColumnKind::Text);
    Input::of_key(key)
        .filter(|input| matches!(input, Input::Category { column, .. } if text(column)))
        .ok_or_else(|| PyValueError::new_err(format!("`{key}` is no category of this model")))
}

/// The position of a new input; it is added where the schema does not have it.
fn input_at(schema: &mut Schema, key: &str) -> PyResult<usize> {
    let wanted = of_key(schema, key)?;
    if let Some(at) = schema.inputs.iter().position(|input| *input == wanted) {
        return Ok(at);
    }
    schema.inputs.push(wanted);
    Ok(schema.inputs.len() - 1)
}

/// Refuses more passes: a part is summarized once.
struct NoMore;

impl Passes for NoMore {
    fn run(&mut self, _: &Pass) -> Result<Partial, Error> {
        Err(Error::Unsupported {
            operation: "learning a part",
            reason: "this loss looks at the rows of a task again; give the rows".to_owned(),
        })
    }
}

fn read_part(bytes: &[u8]) -> PyResult<TaskSummary> {
    TaskSummary::from_bytes(bytes, usize::MAX)
        .map_err(|e| PyValueError::new_err(format!("these bytes are no part of a task: {e}")))
}

/// Merges parts of one task in their order; classes and new inputs meet by name.
#[pyfunction]
pub(crate) fn merge_parts(
    py: Python<'_>,
    parts: Vec<PyBackedBytes>,
) -> PyResult<Bound<'_, PyBytes>> {
    let merged = outside(py, || {
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
        for (column, value) in &categories {
            input_at(&mut schema, &format!("{column}:{value}"))?;
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
        let learner = self.learner();
        let prefer = match &learner.settings().prefer {
            Preference::Chosen(_) => Preference::Samples,
            other => other.clone(),
        };
        let settings = Settings { prefer, ..learner.settings().clone() };
        let mut empty = Learner::new(learner.problem().clone(), settings).map_err(raised)?;
        let schema = self.model.schema.clone();
        let model = match learner.design() {
            Some(design) => {
                empty.fix_design(design.clone()).map_err(raised)?;
                Model { schema, learner: empty }
            }
            None => {
                let own = rows.map(|rows| rows.whole(py)).transpose()?;
                let rows = own.as_ref().map(crate::table::OwnTable::rows).transpose()?;
                let empty = Model { schema, learner: empty };
                outside(py, || empty.founded(rows).map_err(raised_by_file))?
            }
        };
        Ok(Self::of(model))
    }

    /// Some rows of a task as a part. The last columns of `x` are inputs that the model does not have yet, named by `new_inputs`.
    #[pyo3(signature = (x, y, sample_weight, new_inputs))]
    fn summarize_part<'py>(
        &self,
        py: Python<'py>,
        x: Table,
        y: Target,
        sample_weight: Weights,
        new_inputs: Vec<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let Model { schema, learner } = &self.model;
        for key in &new_inputs {
            of_key(schema, key)?;
        }
        let table = TaskTable::new(py, x, y, sample_weight)?;
        let bytes = outside(py, || {
            let design = design_of(learner)?.with_inputs(new_inputs.len()).map_err(raised)?;
            let problem = learner.problem();
            if problem.looks_again() {
                return Err(PyValueError::new_err(format!(
                    "{problem} looks at the rows of a task several times, so its parts cannot be summarized apart; use \
                     squared or gaussian"
                )));
            }
            let found = in_blocks(learner.context_with(&design), &table, |passes| {
                passes.run(&problem.first_pass())
            });
            let mut tasks = found.map_err(|failure| failure.raised(schema, learner))?.tasks;
            let (Some(mut task), true) = (tasks.pop(), tasks.is_empty()) else {
                return Err(PyValueError::new_err(
                    "an automatic temperature is measured on halves of a task; give a number",
                ));
            };
            task.new_inputs = new_inputs;
            Ok(task.to_bytes(Encoding::Packed))
        })?;
        Ok(PyBytes::new(py, &bytes))
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
        let mut schema = self.model.schema.clone();
        let places: Vec<usize> = task
            .new_inputs
            .iter()
            .map(|key| input_at(&mut schema, key))
            .collect::<PyResult<_>>()?;
        let learner = &mut self.model.learner;
        outside(py, || {
            let base = design_of(learner)?;
            let more = schema.inputs.len().saturating_sub(base.inputs());
            let design = base.with_inputs(more).map_err(raised)?;
            let offset = usize::from(design.intercept());
            let known = task.quadratic.width().saturating_sub(places.len());
            let places: Vec<usize> =
                (0..known).chain(places.iter().map(|at| at + offset)).collect();
            let mut task = task.rearranged(&places, design.width()).map_err(raised)?;
            task.new_inputs = Vec::new();
            let first = Partial { tasks: vec![task], ..Partial::default() };
            let fitted = learner.fit(&design, first, &mut NoMore, weight);
            let draft = fitted.map_err(|e| raised_in(&e, &schema, learner))?;
            let learned = match name {
                Some(name) => learner.insert(name, &design, draft, weight),
                None => learner.append(&design, draft),
            };
            learned.map_err(|e| raised_in(&e, &schema, learner))
        })?;
        self.model.schema = schema;
        self.features = self.model.schema.features();
        Ok(())
    }
}

/// The design of a learner, fixed by its first task or beforehand.
fn design_of(learner: &Learner) -> PyResult<&Design> {
    learner.design().ok_or_else(|| raised(Error::NotLearned))
}
