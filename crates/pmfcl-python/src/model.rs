//! `Model`: a learner with the names of its columns, as a model file holds it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use numpy::{PyArray1, PyArray2};
use pmfcl::problem::{Calibrate, Covariance, Curvature, Draft, Scheme, Shrinkage};
use pmfcl::{ClassList, Design, Error, Learner, Problem, Rows, Settings, TaskSummary};
use pmfcl_file::{Model, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::{outside, raised, raised_in};
use crate::check::{NewInput, content, grown};
use crate::file::KnownFiles;
use crate::passes::fit_with;
use crate::summary::{PySummary, threads_of};
use crate::table::{Table, Target, TaskTable, Weights, table};

/// Rows predicted between two checks for Ctrl-C.
const BLOCK: usize = 1 << 14;

/// A model and the names of its inputs, for messages.
#[pyclass(name = "Model", module = "pmfcl._core")]
pub(crate) struct PyModel {
    pub(crate) model: Model,
    pub(crate) features: Vec<String>,
    pub(crate) files: KnownFiles,
}

impl PyModel {
    pub(crate) fn of(model: Model) -> Self {
        Self { features: model.schema.features(), model, files: KnownFiles::default() }
    }

    pub(crate) fn learner(&self) -> &Learner {
        &self.model.learner
    }

    /// Answers for blocks of rows, end to end, with the lock released. The first block may have to solve.
    fn in_blocks<T: Send>(
        &self,
        py: Python<'_>,
        x: &Table,
        answer: impl Fn(&Learner, Rows<'_>) -> Result<Vec<T>, Error> + Sync,
    ) -> PyResult<Vec<T>> {
        let mut all = Vec::new();
        let (count, mut from) = (x.len(py), 0);
        loop {
            let to = (from + BLOCK).min(count);
            let own = x.block(py, (from, to))?;
            let rows = own.rows()?;
            let block = outside(py, || {
                let found = answer(self.learner(), rows);
                found.map_err(|e| {
                    let error = e.in_later_rows(from as u64);
                    raised_in(&error, &self.model.schema, self.learner())
                })
            })?;
            if from == 0 && to == count {
                return Ok(block);
            }
            all.extend(block);
            if to == count {
                return Ok(all);
            }
            py.check_signals()?;
            from = to;
        }
    }
}

/// The problem of a loss with its options. An estimator has parameters for the options of every loss: those this one does not
/// have are checked and not used.
pub(crate) fn problem_of(
    loss: &str,
    options: &BTreeMap<String, String>,
    classes: Option<Vec<String>>,
) -> PyResult<Problem> {
    let of_classes = classes.is_some();
    let list = classes
        .map(|names| if names.is_empty() { ClassList::Open } else { ClassList::Fixed(names) });
    let mut problem = Problem::parse(loss, list).map_err(|e| about("loss", &e))?;
    if problem.predicts_classes() && !of_classes {
        return Err(PyValueError::new_err(format!(
            "loss: {loss} predicts classes; use ContinualClassifier, or a loss of values (squared, huber, poisson)"
        )));
    }
    let known = problem.options();
    for (name, value) in options {
        if known.iter().any(|(own, _)| own == name) {
            problem = problem.with_option(name, value).map_err(|e| about(name, &e))?;
        } else {
            check_option(name, value)?;
        }
    }
    Ok(problem)
}

/// Checks the value of an option that the problem does not have.
fn check_option(name: &str, value: &str) -> PyResult<()> {
    match name {
        "shrinkage" => parsed::<Shrinkage>(name, value).map(drop),
        "covariance" => parsed::<Covariance>(name, value).map(drop),
        "calibrate" => parsed::<Calibrate>(name, value).map(drop),
        "curvature" => parsed::<Curvature>(name, value).map(drop),
        "scheme" => parsed::<Scheme>(name, value).map(drop),
        "certify" => parsed::<bool>(name, value).map(drop),
        other => Err(PyTypeError::new_err(format!("there is no option `{other}`"))),
    }
}

/// A setting by its name.
pub(crate) fn parsed<T: FromStr<Err: Display>>(name: &str, value: &str) -> PyResult<T> {
    value.parse().map_err(|e| about(name, &e))
}

fn about(name: &str, error: &dyn Display) -> PyErr {
    PyValueError::new_err(format!("{name}: {error}"))
}

/// The settings in a dict, all of which must be there.
pub(crate) fn settings_of(given: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let required = |name: &str| {
        let found = given.get_item(name)?;
        found.ok_or_else(|| PyTypeError::new_err(format!("the setting `{name}` is missing")))
    };
    let text = |name: &str| required(name)?.extract::<String>();
    let n_jobs: Option<i64> = required("n_jobs")?.extract()?;
    Ok(Settings {
        basis: parsed("basis", &text("basis")?)?,
        intercept: required("fit_intercept")?.is_truthy()?,
        clip: None,
        ridge: parsed("ridge", &text("ridge")?)?,
        standardize: required("standardize")?.is_truthy()?,
        memory: parsed("memory", &text("memory")?)?,
        accumulator: parsed("accumulator", &text("accumulator")?)?,
        store: parsed("store", &text("store")?)?,
        prefer: parsed("preference", &text("preference")?)?,
        threads: threads_of(n_jobs)?,
    })
}

impl PyModel {
    /// Fits rows whose last columns stand for `new_inputs`, and lets `put` learn them; the schema then has these inputs too.
    fn take_rows(
        &mut self,
        py: Python<'_>,
        table: &TaskTable,
        weight: f64,
        new_inputs: &[NewInput],
        put: impl FnOnce(&mut Learner, &Design, Draft) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        let Model { schema, learner } = &mut self.model;
        let grown = grown(schema, new_inputs)?;
        outside(py, || {
            let (design, mut draft) = fit_with(learner, table, weight, new_inputs.len())
                .map_err(|failure| failure.raised(&grown, learner))?;
            let design = design.with_fills(grown.fills()).map_err(raised)?;
            draft.summary.head.content = Some(content(&grown, table)?);
            put(learner, &design, draft).map_err(|e| raised_in(&e, &grown, learner))
        })?;
        if !new_inputs.is_empty() {
            self.features = grown.features();
            *schema = grown;
        }
        Ok(())
    }
}

#[pymethods]
impl PyModel {
    /// A model that has learned nothing. `classes` is `None` for values, an empty list for classes as they appear.
    #[new]
    #[pyo3(signature = (features, targets, loss, options, settings, classes=None))]
    fn new(
        features: Vec<String>,
        targets: Vec<String>,
        loss: &str,
        options: BTreeMap<String, String>,
        settings: &Bound<'_, PyDict>,
        classes: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let problem = problem_of(loss, &options, classes)?;
        let learner = Learner::new(problem, settings_of(settings)?).map_err(raised)?;
        Ok(Self::of(Model { schema: Schema::numbers(&features, &targets), learner }))
    }

    /// Learns a task of values or classes; `new_inputs` are categories that its last columns stand for.
    #[pyo3(signature = (name, x, y, sample_weight, weight, new_inputs=Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "Python calls it by position")]
    fn learn(
        &mut self,
        py: Python<'_>,
        name: &str,
        x: Table,
        y: Target,
        sample_weight: Weights,
        weight: f64,
        new_inputs: Vec<NewInput>,
    ) -> PyResult<()> {
        let table = TaskTable::new(py, x, y, sample_weight)?;
        // A name that is taken is reported before any row is looked at.
        self.learner().check_new(name, weight).map_err(raised)?;
        self.take_rows(py, &table, weight, &new_inputs, |learner, design, draft| {
            learner.insert(name, design, draft, weight)
        })
    }

    /// A copy with inputs at the end that have had one value each in all rows learned so far.
    fn with_inputs(
        &self,
        py: Python<'_>,
        new_inputs: Vec<NewInput>,
        past: Vec<f64>,
    ) -> PyResult<Self> {
        let (mut model, files) = (self.model.clone(), self.files.clone());
        model.schema = grown(&model.schema, &new_inputs)?;
        outside(py, || model.learner.extend_inputs_with(&past).map_err(raised))?;
        Ok(Self { features: model.schema.features(), model, files })
    }

    /// Adds rows to the task learned last.
    #[pyo3(signature = (x, y, sample_weight, new_inputs=Vec::new()))]
    fn append(
        &mut self,
        py: Python<'_>,
        x: Table,
        y: Target,
        sample_weight: Weights,
        new_inputs: Vec<NewInput>,
    ) -> PyResult<()> {
        let table = TaskTable::new(py, x, y, sample_weight)?;
        let weight = self.learner().records().last().map_or(1.0, |record| record.weight);
        self.take_rows(py, &table, weight, &new_inputs, Learner::append)
    }

    /// Learns a task summarized elsewhere; `classes` name its targets where classes are predicted. Without a name it is added
    /// to the task learned last.
    fn learn_summary(
        &mut self,
        py: Python<'_>,
        name: Option<&str>,
        summary: PySummary,
        classes: Vec<String>,
        weight: f64,
    ) -> PyResult<()> {
        let learner = &mut self.model.learner;
        let (inputs, targets) = (self.features.len(), summary.summary.targets());
        let width = inputs + usize::from(learner.settings().intercept);
        let of_classes = learner.problem().predicts_classes();
        let shape = |what, unit, expected, found| Error::Shape { what, unit, expected, found };
        if of_classes && classes.len() != targets {
            return Err(raised(shape("the list of classes", "names", targets, classes.len())));
        }
        if learner.design().is_none() && summary.summary.width() != width {
            return Err(raised(shape("the summary", "columns", width, summary.summary.width())));
        }
        outside(py, || {
            let task = if of_classes {
                TaskSummary::exact_classes(summary.summary, classes, None)
            } else {
                TaskSummary::exact(summary.summary, None)
            };
            match (name, learner.design().cloned()) {
                (Some(name), _) => learner.insert_summary(name, task, weight),
                (None, Some(design)) => learner.append(&design, task),
                (None, None) => Err(Error::NotLearned),
            }
            .map_err(raised)
        })
    }

    /// Predicted values, `(rows, targets)`.
    fn predict<'py>(&self, py: Python<'py>, x: Table) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let cells = self.in_blocks(py, &x, Learner::predict)?;
        let targets = cells.len().checked_div(x.len(py)).unwrap_or(0);
        table(py, cells, targets)
    }

    /// Scores of every class, `(rows, classes)`.
    fn scores<'py>(&self, py: Python<'py>, x: Table) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let cells = self.in_blocks(py, &x, Learner::scores)?;
        table(py, cells, self.learner().classes().len())
    }

    /// Probabilities of every class, `(rows, classes)`.
    fn probabilities<'py>(&self, py: Python<'py>, x: Table) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let cells = self.in_blocks(py, &x, Learner::probabilities)?;
        table(py, cells, self.learner().classes().len())
    }

    /// How novel every row looks, between 0 and 1.
    fn novelty<'py>(&self, py: Python<'py>, x: Table) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let found = self.in_blocks(py, &x, Learner::novelty)?;
        Ok(PyArray1::from_vec(py, found))
    }

    /// Measures probabilities at the present model with these rows.
    fn calibrate(&mut self, py: Python<'_>, x: Table, y: Target, learned: bool) -> PyResult<()> {
        let table = TaskTable::new(py, x, y, None)?;
        let own = table.whole(py)?;
        let rows = own.rows()?;
        let Model { schema, learner } = &mut self.model;
        outside(py, || {
            let done = learner.calibrate(rows, learned);
            done.map_err(|e| raised_in(&e, schema, learner))
        })
    }

    /// The class of every row, as its position in `classes()`.
    fn predict_codes<'py>(&self, py: Python<'py>, x: Table) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let codes = self.in_blocks(py, &x, Learner::predict_codes)?;
        Ok(PyArray1::from_vec(py, codes))
    }

    /// Classes by name, in sorted order: that of the columns of `scores` and `probabilities`.
    fn classes(&self) -> Vec<String> {
        self.learner().classes().to_vec()
    }
}
