//! What can be seen of a model: problem, settings, parameters, tasks, history, conflicts, fronts, intervals, pages, exports.

use std::collections::BTreeMap;

use numpy::{PyArray1, PyArray2};
use pmfcl::problem::{Evaluation, Exactness, Response};
use pmfcl::report::inference::Covariance;
use pmfcl::report::{MissingReason, SampleWeights, conflict};
use pmfcl::{Outcome, Preference, Problem, Ridge, Summary, TaskReport};
use pmfcl_export::{ExportError, Exported, Input as ExportInput};
use pmfcl_file::{ColumnKind, Input};
use pmfcl_report::{Coded, FrontPoint, Pair, Subject, page};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::call::{outside, raised, raised_by_export, raised_by_report};
use crate::model::{PyModel, parsed, problem_of};
use crate::summary::PySummary;
use crate::table::{Table, table};

/// A table of numbers that may be unknown.
type Grid = Vec<Vec<Option<f64>>>;

/// Why numbers of such a table are unknown.
type Reasons = Vec<Vec<Option<String>>>;

/// Numbers as NumPy has them.
type List<'py> = Bound<'py, PyArray1<f64>>;
type Matrix<'py> = Bound<'py, PyArray2<f64>>;

/// Facts about a problem, by name.
fn problem_facts<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyDict>> {
    let exactness = problem.exactness();
    let options = PyDict::new(py);
    for (name, value) in problem.options() {
        options.set_item(name, value)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("name", problem.name())?;
    dict.set_item("spec", problem.to_string())?;
    dict.set_item("predicts_classes", problem.predicts_classes())?;
    dict.set_item("fixed_classes", problem.class_list().and_then(|list| list.names()))?;
    dict.set_item("exact", exactness == Exactness::Exact)?;
    dict.set_item("guaranteed", exactness.guaranteed())?;
    dict.set_item("nonnegative_targets", problem.refuses_target(-1.0).is_some())?;
    dict.set_item("options", options)?;
    Ok(dict)
}

/// Facts about the problem that a loss stands for: of values, or of classes.
#[pyfunction]
pub(crate) fn problem<'py>(
    py: Python<'py>,
    loss: &str,
    classes: bool,
) -> PyResult<Bound<'py, PyDict>> {
    problem_facts(py, &problem_of(loss, &BTreeMap::new(), classes.then(Vec::new))?)
}

impl PyModel {
    /// Loss and forgetting of every task after every task; for a loss that is bounded, bounds on both.
    fn over_time(&self) -> Result<(Grid, Grid), pmfcl::Error> {
        let count = self.learner().records().len();
        let (mut loss, mut forgetting) = (Grid::new(), Grid::new());
        for reports in self.learner().tasks_after(&(0..count).collect::<Vec<_>>())? {
            let (mut losses, mut lost) = (vec![None; count], vec![None; count]);
            for (t, task) in reports.iter().enumerate() {
                let bound = task.bound.zip(task.min_loss).map(|(bound, least)| bound + least);
                (losses[t], lost[t]) = (task.loss.or(bound), task.forgetting.or(task.bound));
            }
            loss.push(losses);
            forgetting.push(lost);
        }
        Ok((loss, forgetting))
    }

    /// The summary of a task over all columns, targets of classes in sorted order.
    fn wide_summary(&self, name: &str) -> Result<Summary, pmfcl::Error> {
        let learner = self.learner();
        let summary = &learner.task_summary(name)?.quadratic;
        let width = learner.design().map_or(summary.width(), pmfcl::Design::width);
        let summary = summary.extend_features(summary.width(), width - summary.width())?;
        let Some(classes) = learner.outputs().classes() else { return Ok(summary) };
        if learner.problem().exactness() != Exactness::Exact {
            return Ok(summary);
        }
        let mut position = vec![0; classes.len()];
        for (sorted, place) in classes.places().iter().enumerate() {
            position[*place as usize] = sorted;
        }
        summary.rearrange_targets(&position[..summary.targets()], classes.len())
    }

    /// Where every input comes from: column, kind, and the position in a list or the category.
    fn origins(&self) -> Vec<(String, &'static str, Option<String>)> {
        let schema = &self.model.schema;
        let origin = |input: &Input| {
            let column = &schema.columns[input.column()];
            let (kind, part) = match (input, column.kind) {
                (Input::Category { value, .. }, _) => ("category", Some(value.clone())),
                (Input::Part { place, .. }, _) => ("part", Some(place.to_string())),
                (Input::Missing { .. }, _) => ("missing", None),
                (Input::Value { .. }, ColumnKind::Date) => ("date", None),
                (Input::Value { .. }, _) => ("number", None),
            };
            (column.name.clone(), kind, part)
        };
        schema.inputs.iter().map(origin).collect()
    }

    /// The inputs as exports name them.
    fn export_inputs(&self) -> Vec<ExportInput> {
        let schema = &self.model.schema;
        let input = |(input, name): (&Input, &String)| match input {
            Input::Category { column, value } => ExportInput::Category {
                column: schema.columns[*column].name.clone(),
                value: value.clone(),
            },
            Input::Missing { column } => {
                ExportInput::Missing { column: schema.columns[*column].name.clone() }
            }
            Input::Value { .. } | Input::Part { .. } => ExportInput::Number(name.clone()),
        };
        schema.inputs.iter().zip(&self.features).map(input).collect()
    }

    fn exported(&self, format: &str, title: &str) -> Result<Option<Vec<u8>>, ExportError> {
        let inputs = self.export_inputs();
        let targets = &self.model.schema.targets;
        let exported = Exported::of(title, &inputs, self.learner(), targets)?;
        Ok(match format {
            "onnx" => Some(pmfcl_export::onnx(&exported)?),
            "safetensors" => Some(pmfcl_export::safetensors(&exported)?),
            "json" => Some(pmfcl_export::json(&exported)?.into_bytes()),
            _ => None,
        })
    }
}

fn task_facts<'py>(py: Python<'py>, task: &TaskReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &task.name)?;
    dict.set_item("samples", task.samples)?;
    dict.set_item("rank", task.rank)?;
    dict.set_item("weight", task.weight)?;
    dict.set_item("bytes", task.bytes)?;
    dict.set_item("loss", task.loss)?;
    dict.set_item("min_loss", task.min_loss)?;
    dict.set_item("forgetting", task.forgetting)?;
    dict.set_item("bound", task.bound)?;
    dict.set_item("guaranteed", task.guaranteed)?;
    dict.set_item("outcome", task.outcome.to_string())?;
    let mean = |list: &Vec<f64>| list.iter().sum::<f64>() / list.len().max(1) as f64;
    dict.set_item("rmse", task.mse.as_ref().map(|mse| mean(mse).sqrt()))?;
    dict.set_item("r2", task.r2.as_ref().map(mean))?;
    if let Some(found) = &task.left_out {
        dict.set_item("left_out", scores(py, found)?)?;
    }
    Ok(dict)
}

/// How well rows of classes were predicted.
fn scores<'py>(py: Python<'py>, found: &Evaluation) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("samples", found.samples())?;
    dict.set_item("accuracy", found.accuracy())?;
    dict.set_item("log_loss", found.log_loss())?;
    dict.set_item("brier", found.brier())?;
    dict.set_item("calibration_error", found.calibration_error())?;
    let bins = found.reliability();
    let bins: Vec<_> = bins.iter().map(|b| (b.confidence, b.accuracy, b.samples)).collect();
    dict.set_item("reliability", bins)?;
    Ok(dict)
}

#[pymethods]
impl PyModel {
    /// Facts about the problem: name, spec, what is predicted, whether it is exact, options.
    fn problem<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        problem_facts(py, self.learner().problem())
    }

    /// The settings, by the names the constructor takes. Weights chosen task by task are `chosen`.
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let s = self.learner().settings();
        let dict = PyDict::new(py);
        dict.set_item("basis", s.basis.to_string())?;
        dict.set_item("fit_intercept", s.intercept)?;
        match &s.ridge {
            Ridge::PerTarget(list) => dict.set_item("ridge", list)?,
            other => dict.set_item("ridge", other.to_string())?,
        }
        dict.set_item("standardize", s.standardize)?;
        dict.set_item("memory", s.memory.to_string())?;
        dict.set_item("accumulator", s.accumulator.to_string())?;
        dict.set_item("store", s.store.to_string())?;
        dict.set_item("preference", s.prefer.to_string())?;
        dict.set_item("missing", self.model.schema.missing.to_string())?;
        dict.set_item("coding", self.model.schema.coding.to_string())?;
        Ok(dict)
    }

    /// Facts that need no solution: columns, samples, bytes, whether memory is folded, weights chosen task by task.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let learner = self.learner();
        let dict = PyDict::new(py);
        dict.set_item("inputs", &self.features)?;
        dict.set_item("origins", self.origins())?;
        dict.set_item("columns", self.model.features())?;
        dict.set_item("targets", &self.model.schema.targets)?;
        dict.set_item("samples", learner.samples())?;
        dict.set_item("state_bytes", learner.state_bytes())?;
        dict.set_item("folded", learner.is_folded())?;
        dict.set_item("solved", learner.is_solved())?;
        if let Preference::Chosen(list) = &learner.settings().prefer {
            dict.set_item("weights", list.clone())?;
        }
        Ok(dict)
    }

    /// Facts about the solution: rank, ridge, and what the problem chose, such as a shrinkage.
    fn solution<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let learner = self.learner();
        let (solution, chosen) = outside(py, || {
            Ok((learner.solution().map_err(raised)?, learner.facts().map_err(raised)?))
        })?;
        let dict = PyDict::new(py);
        dict.set_item("rank", solution.rank())?;
        dict.set_item("unique", solution.outcome == Outcome::Unique)?;
        match solution.penalty.own_ridges() {
            Some(own) => dict.set_item("ridge", PyArray1::from_slice(py, own))?,
            None => dict.set_item("ridge", solution.penalty.ridge())?,
        }
        dict.set_item("standardize", solution.penalty.standardize())?;
        dict.set_item("accumulator", learner.accumulator().to_string())?;
        dict.set_item("rounding_bound", outside(py, || learner.rounding_bound().map_err(raised))?)?;
        for (name, value) in chosen {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// The candidates of a portfolio, narrow ones first: name, columns, score, whether it was chosen. Empty for other bases.
    fn candidates<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let learner = self.learner();
        let found = outside(py, || learner.candidates().map_err(raised))?;
        let one = |candidate: &pmfcl::problem::CandidateScore| {
            let dict = PyDict::new(py);
            dict.set_item("name", &candidate.name)?;
            dict.set_item("columns", candidate.columns)?;
            dict.set_item("gcv", candidate.score)?;
            dict.set_item("chosen", candidate.chosen)?;
            Ok(dict)
        };
        found.iter().map(one).collect()
    }

    /// How well rows were predicted by the model without them; `None` where nothing was measured.
    fn left_out<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let learner = self.learner();
        let found = outside(py, || {
            learner.solution().map_err(raised)?;
            Ok(learner.left_out())
        })?;
        found.as_ref().map(|found| scores(py, found)).transpose()
    }

    /// What to tell people about the tasks learned so far.
    fn warnings(&self) -> Vec<String> {
        self.learner().warnings()
    }

    /// Intercepts, and coefficients row by row: one of each for every target or class, classes in sorted order. A class without
    /// rows has an intercept of −∞.
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<(List<'py>, Matrix<'py>)> {
        let learner = self.learner();
        let found = outside(py, || learner.parameters().map_err(raised))?;
        let (theta, first) = (&found.theta, usize::from(learner.settings().intercept));
        let present = match &found.response {
            Response::Classes { present, .. } => &present[..],
            Response::Values { .. } => &[],
        };
        let intercept = |k: usize| {
            if !present.get(k).copied().unwrap_or(true) {
                return f64::NEG_INFINITY;
            }
            if first == 1 { theta.column(k)[0] } else { 0.0 }
        };
        let intercepts = (0..theta.targets()).map(intercept).collect();
        let columns = (0..theta.targets()).map(|k| theta.column(k));
        let coef = columns.flat_map(|c| c[first..].iter().copied()).collect();
        Ok((PyArray1::from_vec(py, intercepts), table(py, coef, theta.width() - first)?))
    }

    /// Every task as `show --json` has it.
    fn tasks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let learner = self.learner();
        let reports = if learner.records().is_empty() {
            Vec::new()
        } else {
            outside(py, || learner.tasks().map_err(raised))?
        };
        let dicts: Vec<_> = reports.iter().map(|t| task_facts(py, t)).collect::<PyResult<_>>()?;
        PyList::new(py, dicts)
    }

    fn task_names(&self) -> Vec<String> {
        self.learner().names().map(str::to_owned).collect()
    }

    /// Samples of each class that occurs, task by task.
    fn class_counts(&self) -> Vec<Vec<(String, f64)>> {
        let learner = self.learner();
        let Some(classes) = learner.outputs().classes() else { return Vec::new() };
        let counts = |counts: &[f64]| {
            let named = classes.names().iter().zip(classes.places());
            let count = |place: &u32| counts.get(*place as usize).copied().unwrap_or(0.0);
            named
                .map(|(name, place)| (name.clone(), count(place)))
                .filter(|(_, count)| *count > 0.0)
                .collect()
        };
        learner.records().iter().map(|record| counts(&record.head.counts)).collect()
    }

    /// The weighted mean forgetting, or nothing where only a bound is known; and the bound.
    fn mean_forgetting(&self, py: Python<'_>) -> PyResult<(Option<f64>, f64)> {
        let learner = self.learner();
        let mean = outside(py, || learner.mean_forgetting().map_err(raised))?;
        Ok((learner.is_exact().then_some(mean), mean))
    }

    /// The summary of one task.
    fn summary(&self, py: Python<'_>, name: &str) -> PyResult<PySummary> {
        let summary = outside(py, || self.wide_summary(name).map_err(raised))?;
        Ok(PySummary { summary })
    }

    /// Loss and forgetting `[k][t]` of task `t` after task `k`.
    fn history(&self, py: Python<'_>) -> PyResult<(Grid, Grid)> {
        outside(py, || self.over_time().map_err(raised))
    }

    /// What each task loses to each other, Chow's p-value of the pair, and why it has none; `weights` says what sample weights are.
    fn conflicts(&self, py: Python<'_>, weights: &str) -> PyResult<(Vec<Vec<f64>>, Grid, Reasons)> {
        let weights: SampleWeights = parsed("weights", weights)?;
        let learner = self.learner();
        let matrix =
            outside(py, || conflict::matrix_with_weights(learner, weights).map_err(raised))?;
        let texts = |row: Vec<Option<MissingReason>>| {
            row.into_iter().map(|reason| reason.map(|r| r.to_string())).collect()
        };
        let reasons = matrix.missing.into_iter().map(texts).collect();
        Ok((matrix.forgetting, matrix.p_value, reasons))
    }

    /// The Pareto front of two groups of tasks, as `front --json` has it.
    fn front<'py>(
        &self,
        py: Python<'py>,
        a: Vec<String>,
        b: Vec<String>,
        points: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (left, right): (Vec<&str>, Vec<&str>) =
            (a.iter().map(String::as_str).collect(), b.iter().map(String::as_str).collect());
        let learner = self.learner();
        let pair =
            outside(py, || Pair::of(learner, &left, &right, points).map_err(raised_by_report))?;
        let all =
            |value: fn(&FrontPoint) -> f64| PyArray1::from_iter(py, pair.points.iter().map(value));
        let one = |p: &FrontPoint| (p.weight, p.loss_a, p.loss_b);
        let dict = PyDict::new(py);
        dict.set_item("a", &pair.a)?;
        dict.set_item("b", &pair.b)?;
        dict.set_item("weight", all(|p| p.weight))?;
        dict.set_item("loss_a", all(|p| p.loss_a))?;
        dict.set_item("loss_b", all(|p| p.loss_b))?;
        dict.set_item("current", pair.current)?;
        dict.set_item("knee", one(&pair.knee))?;
        dict.set_item("minmax", one(&pair.minmax))?;
        Ok(dict)
    }

    /// Lower and upper ends of intervals for new observations, each `(rows, targets)`, the rows that have none (infinite ends), and
    /// whether the others are approximate; `weights` says what sample weights are.
    fn intervals<'py>(
        &self,
        py: Python<'py>,
        x: Table,
        level: f64,
        weights: &str,
    ) -> PyResult<(Matrix<'py>, Matrix<'py>, Vec<usize>, bool)> {
        let learner = self.learner();
        let own = x.whole(py)?;
        let x = own.rows()?;
        let weights: SampleWeights = parsed("weights", weights)?;
        let (found, approximate) = outside(py, || {
            let covariance = Covariance::with_weights(learner, weights).map_err(raised)?;
            let found = covariance.intervals(learner, x, level).map_err(raised)?;
            Ok((found, covariance.approximate()))
        })?;
        let targets = found.first().map_or(0, Vec::len);
        let low = found.iter().flatten().map(|i| i.low.unwrap_or(f64::NEG_INFINITY)).collect();
        let high = found.iter().flatten().map(|i| i.high.unwrap_or(f64::INFINITY)).collect();
        let without = |i: &usize| found[*i].iter().any(|interval| interval.low.is_none());
        let unbounded = (0..found.len()).filter(without).collect();
        Ok((table(py, low, targets)?, table(py, high, targets)?, unbounded, approximate))
    }

    /// One HTML page that shows what was learned, forgotten and traded off.
    fn page(&self, py: Python<'_>, title: &str) -> PyResult<String> {
        outside(py, || {
            let (contrasts, words) = (self.model.contrasts(), self.model.coding_words());
            let coding =
                words.as_deref().map(|words| Coded { contrasts: contrasts.as_deref(), words });
            page(&Subject {
                title,
                learner: self.learner(),
                features: &self.model.features(),
                targets: self.model.outputs(),
                coding,
            })
            .map_err(raised_by_report)
        })
    }

    /// The model for other runtimes: `onnx`, `safetensors` or `json`.
    fn export<'py>(
        &self,
        py: Python<'py>,
        format: &str,
        title: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let exported =
            outside(py, || self.exported(format, title).map_err(|e| raised_by_export(&e)))?;
        match exported {
            Some(bytes) => Ok(PyBytes::new(py, &bytes)),
            None => {
                Err(PyValueError::new_err(format!("'{format}' is none of onnx, safetensors, json")))
            }
        }
    }
}
