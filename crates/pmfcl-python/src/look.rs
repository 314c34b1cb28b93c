//! What can be seen of a model: parameters, tasks, history, conflicts, fronts, intervals, the page, exports.

use std::collections::HashSet;

use numpy::{PyArray1, PyArray2};
use pmfcl::report::inference::Covariance;
use pmfcl::report::{MissingReason, conflict};
use pmfcl::{ClassLoss, Outcome, Preference, TaskReport};
use pmfcl_export::{ExportError, Exported, Input as ExportInput};
use pmfcl_file::{ColumnKind, Input, Learned, Word};
use pmfcl_report::{FrontPoint, Pair, Subject, page};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::call::{outside, raised, raised_by_export, raised_by_report};
use crate::model::PyModel;
use crate::summary::PySummary;
use crate::table::{Table, table};

/// A table of numbers that may be unknown.
type Grid = Vec<Vec<Option<f64>>>;

/// Why numbers of such a table are unknown.
type Reasons = Vec<Vec<Option<String>>>;

/// Numbers as NumPy has them.
type List<'py> = Bound<'py, PyArray1<f64>>;
type Matrix<'py> = Bound<'py, PyArray2<f64>>;

impl PyModel {
    fn task_reports(&self) -> PyResult<Vec<TaskReport>> {
        match self.model.classifier() {
            Some(classifier) => {
                Ok(classifier.tasks().map_err(raised)?.into_iter().map(|t| t.report).collect())
            }
            None => self.model.learner().tasks().map_err(raised),
        }
    }

    /// Loss and forgetting of every task after every task.
    fn along_the_way(&self) -> Result<(Grid, Grid), pmfcl::Error> {
        let learner = self.model.learner();
        let steps = learner.replay()?;
        let summaries = learner.at_hand();
        let count = summaries.len();
        let (mut loss, mut forgetting) = (Grid::new(), Grid::new());
        for (k, step) in steps.iter().enumerate() {
            let (mut losses, mut lost) = (vec![None; count], vec![None; count]);
            match self.model.classifier() {
                // Discriminants: the classifier of the first tasks alone, by giving the others no weight.
                Some(classifier) if classifier.settings().loss == ClassLoss::Gaussian => {
                    let mut then = classifier.clone();
                    let names = learner.names().map(str::to_owned);
                    then.prefer(Preference::Chosen(names.zip(step.weights.clone()).collect()))?;
                    for (t, task) in then.tasks()?.iter().enumerate().take(k + 1) {
                        (losses[t], lost[t]) = (task.report.loss, task.report.forgetting);
                    }
                }
                other => {
                    let exact = other.is_none_or(|c| c.settings().loss == ClassLoss::Squared);
                    for t in 0..=k {
                        let at = summaries[t].loss(&step.model.theta)?;
                        losses[t] = Some(at);
                        lost[t] = Some(if exact {
                            summaries[t].forgetting(&step.model.theta)?
                        } else {
                            (at - learner.records()[t].min_loss).max(0.0)
                        });
                    }
                }
            }
            loss.push(losses);
            forgetting.push(lost);
        }
        Ok((loss, forgetting))
    }

    /// Where every input comes from: column, kind, and the place in a block or the category.
    fn origins(&self) -> Vec<(String, &'static str, Option<String>)> {
        let schema = &self.model.schema;
        let origin = |input: &Input| {
            let column = &schema.columns[input.column()];
            let (kind, part) = match (input, column.kind) {
                (Input::Category { value, .. }, _) => ("category", Some(value.clone())),
                (Input::Part { place, .. }, _) => ("part", Some(place.to_string())),
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
            Input::Value { .. } | Input::Part { .. } => ExportInput::Number(name.clone()),
        };
        schema.inputs.iter().zip(&self.features).map(input).collect()
    }

    fn exported(&self, format: &str, title: &str) -> Result<Option<Vec<u8>>, ExportError> {
        let inputs = self.export_inputs();
        let exported = match &self.model.learned {
            Learned::Regression(learner) => {
                let (Some(design), Ok(model)) = (learner.design(), learner.model()) else {
                    return Ok(None);
                };
                let targets = &self.model.schema.targets;
                Exported::regression(title, &inputs, design, &model.theta, targets)?
            }
            Learned::Classification(classifier) => {
                Exported::classification(title, &inputs, classifier)?
            }
        };
        Ok(match format {
            "onnx" => Some(pmfcl_export::onnx(&exported)?),
            "safetensors" => Some(pmfcl_export::safetensors(&exported)?),
            "json" => Some(pmfcl_export::json(&exported)?.into_bytes()),
            _ => None,
        })
    }
}

fn described<'py>(py: Python<'py>, task: &TaskReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &task.name)?;
    dict.set_item("samples", task.samples)?;
    dict.set_item("rank", task.rank)?;
    dict.set_item("weight", task.weight)?;
    dict.set_item("bytes", task.bytes)?;
    dict.set_item("loss", task.loss)?;
    dict.set_item("min_loss", task.min_loss.is_finite().then_some(task.min_loss))?;
    dict.set_item("forgetting", task.forgetting)?;
    dict.set_item("bound", task.bound)?;
    dict.set_item("guaranteed", task.guaranteed)?;
    Ok(dict)
}

#[pymethods]
impl PyModel {
    /// Intercepts, and coefficients row by row: one of each for every target or class.
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<(List<'py>, Matrix<'py>)> {
        let learner = self.model.learner();
        let theta = &learner.model().map_err(raised)?.theta;
        let first = usize::from(learner.settings().intercept);
        let columns = || (0..theta.targets()).map(|k| theta.column(k));
        let intercept = columns().map(|c| if first == 1 { c[0] } else { 0.0 }).collect();
        let coef = columns().flat_map(|c| c[first..].iter().copied()).collect();
        Ok((PyArray1::from_vec(py, intercept), table(py, coef, theta.width() - first)?))
    }

    /// Every task as `show --json` has it.
    fn tasks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let reports = if self.model.learner().records().is_empty() {
            Vec::new()
        } else {
            outside(py, || self.task_reports())?
        };
        let dicts: Vec<_> = reports.iter().map(|t| described(py, t)).collect::<PyResult<_>>()?;
        PyList::new(py, dicts)
    }

    fn task_names(&self) -> Vec<String> {
        self.model.learner().names().map(str::to_owned).collect()
    }

    /// `task-K` with the next number that is free.
    fn next_name(&self) -> String {
        let learner = self.model.learner();
        let taken: HashSet<&str> = learner.names().filter(|n| n.starts_with("task-")).collect();
        let count = learner.names().len();
        let mut names = (count + 1..).map(|k| format!("task-{k}"));
        names.find(|name| !taken.contains(name.as_str())).unwrap_or_default()
    }

    /// Samples of each class, task by task.
    fn class_counts(&self) -> PyResult<Vec<Vec<(String, f64)>>> {
        let tasks = self.classifier()?.tasks().map_err(raised)?;
        Ok(tasks.into_iter().map(|t| t.counts).collect())
    }

    fn mean_forgetting(&self, py: Python<'_>) -> PyResult<f64> {
        outside(py, || {
            match &self.model.learned {
                Learned::Regression(learner) => learner.mean_forgetting(),
                Learned::Classification(classifier) => classifier.mean_forgetting(),
            }
            .map_err(raised)
        })
    }

    /// Facts about the model, by name.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let learner = self.model.learner();
        let s = learner.settings();
        let dict = PyDict::new(py);
        dict.set_item("loss", self.model.loss())?;
        dict.set_item("inputs", &self.features)?;
        dict.set_item("origins", self.origins())?;
        dict.set_item("targets", &self.model.schema.targets)?;
        dict.set_item("features", self.model.features())?;
        dict.set_item("basis", s.basis.word())?;
        dict.set_item("fit_intercept", s.intercept)?;
        dict.set_item("ridge", s.ridge.word())?;
        dict.set_item("standardize", s.standardize)?;
        dict.set_item("memory", s.memory.word())?;
        dict.set_item("accumulator", s.accumulator.word())?;
        dict.set_item("prefer", s.prefer.word())?;
        dict.set_item("samples", learner.samples())?;
        dict.set_item("state_bytes", self.model.state_bytes())?;
        dict.set_item("folded", learner.is_folded())?;
        if let Preference::Chosen(list) = &s.prefer {
            dict.set_item("weights", list.clone())?;
        }
        if let Ok(model) = learner.model() {
            dict.set_item("rank", model.rank)?;
            dict.set_item("unique", model.outcome == Outcome::Unique)?;
            dict.set_item("solved_ridge", model.penalty.ridge())?;
            dict.set_item("solved_standardize", model.penalty.standardize())?;
        }
        if let Some(classifier) = self.model.classifier() {
            let c = classifier.settings();
            dict.set_item("shrinkage", c.shrinkage.word())?;
            dict.set_item("curvature", c.curvature.word())?;
            dict.set_item("scheme", c.scheme.word())?;
            dict.set_item("certify", c.certify)?;
            dict.set_item("temperature", c.temperature.word())?;
            dict.set_item("fixed_classes", c.classes.clone())?;
            if c.loss == ClassLoss::Gaussian {
                let solved = classifier.gaussian().map(pmfcl::classify::Gaussian::shrinkage);
                dict.set_item("solved_shrinkage", solved.ok())?;
            }
        }
        Ok(dict)
    }

    /// The summary of one task.
    fn summary(&self, name: &str) -> PyResult<PySummary> {
        let summary = self.model.learner().summary(name).map_err(raised)?;
        Ok(PySummary { summary: summary.clone() })
    }

    /// Loss and forgetting `[k][t]` of task `t` after task `k`.
    fn history(&self, py: Python<'_>) -> PyResult<(Grid, Grid)> {
        outside(py, || self.along_the_way().map_err(raised))
    }

    /// What each task loses to each other, Chow's p-value of the pair, and why it has none.
    fn conflicts(&self, py: Python<'_>) -> PyResult<(Vec<Vec<f64>>, Grid, Reasons)> {
        let matrix = outside(py, || conflict::matrix(self.model.learner()).map_err(raised))?;
        let words = |row: Vec<Option<MissingReason>>| {
            row.into_iter().map(|reason| reason.map(|r| r.to_string())).collect()
        };
        let reasons = matrix.missing.into_iter().map(words).collect();
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
        let learner = self.model.learner();
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
    /// whether the others are approximate.
    fn intervals<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
        level: f64,
    ) -> PyResult<(Matrix<'py>, Matrix<'py>, Vec<usize>, bool)> {
        let (learner, x) = (self.model.learner(), x.rows()?);
        let (found, approximate) = outside(py, || {
            let covariance = Covariance::of(learner).map_err(raised)?;
            let found = covariance.intervals(learner, x, level).map_err(raised)?;
            Ok::<_, PyErr>((found, covariance.approximate()))
        })?;
        let targets = learner.model().map_err(raised)?.theta.targets();
        let low = found.iter().flatten().map(|i| i.low.unwrap_or(f64::NEG_INFINITY)).collect();
        let high = found.iter().flatten().map(|i| i.high.unwrap_or(f64::INFINITY)).collect();
        let without = |i: &usize| found[*i].iter().any(|interval| interval.low.is_none());
        let unbounded = (0..found.len()).filter(without).collect();
        Ok((table(py, low, targets)?, table(py, high, targets)?, unbounded, approximate))
    }

    /// One HTML page that shows what was learned, forgotten and traded off.
    fn page(&self, py: Python<'_>, title: &str) -> PyResult<String> {
        outside(py, || {
            page(&Subject {
                title,
                learner: self.model.learner(),
                classifier: self.model.classifier(),
                features: &self.model.features(),
                targets: self.model.outputs(),
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
        match self.exported(format, title).map_err(|e| raised_by_export(&e))? {
            Some(bytes) => Ok(PyBytes::new(py, &bytes)),
            None => {
                Err(PyValueError::new_err(format!("'{format}' is none of onnx, safetensors, json")))
            }
        }
    }
}
