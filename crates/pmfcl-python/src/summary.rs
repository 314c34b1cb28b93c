//! `Summary`: the piece to use inside any distributed engine.

use std::hash::{DefaultHasher, Hash, Hasher};

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray2};
use pmfcl::problem::{Outputs, Problem, TaskContext};
use pmfcl::{Basis, Design, Error, Penalty, Settings, Summary, Theta, solve};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::{outside, raised};
use crate::model::parsed;
use crate::passes::{Failure, in_blocks};
use crate::table::{Table, Target, TaskTable, Weights};

/// All that is ever kept of a table of rows: what `+` merges and `-` removes again.
///
/// Paper: Lemma 4.1 (`lem:msi_linear`), in square-root form.
#[pyclass(name = "Summary", module = "pmfcl._core", frozen, eq, from_py_object)]
#[derive(Clone, PartialEq)]
pub(crate) struct PySummary {
    pub(crate) summary: Summary,
}

/// One ridge for all targets, or one for each.
#[derive(FromPyObject)]
pub(crate) enum Ridges {
    One(f64),
    PerTarget(Vec<f64>),
}

/// A summary for Python.
fn kept(summary: Result<Summary, Error>) -> PyResult<PySummary> {
    Ok(PySummary { summary: summary.map_err(raised)? })
}

/// The summary of rows of values by the linear basis.
fn summarized(settings: &Settings, table: &TaskTable, inputs: usize) -> Result<Summary, Failure> {
    let map = Basis::default().fix(&[], inputs).map_err(Error::from)?;
    let (problem, design) = (Problem::squared(), Design::new(map, settings.intercept));
    let outputs = Outputs::Values(0);
    let context = TaskContext { problem: &problem, settings, design: &design, outputs: &outputs };
    let mut found = in_blocks(context, table, |passes| passes.run(&problem.first_pass()))?;
    let task = found.tasks.pop().ok_or(Error::Empty { what: "the table" })?;
    Ok(task.quadratic)
}

#[pymethods]
impl PySummary {
    /// Summarizes rows.
    #[staticmethod]
    #[pyo3(signature = (x, y, sample_weight=None, *, fit_intercept=true, accumulator="auto", n_jobs=None))]
    fn from_data(
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        sample_weight: Option<&Bound<'_, PyAny>>,
        fit_intercept: bool,
        accumulator: &str,
        n_jobs: Option<i64>,
    ) -> PyResult<Self> {
        let py = x.py();
        let (x, y, weights): (Table, Target, Weights) =
            inputs(py)?.call_method1("arrays", (x, y, sample_weight))?.extract()?;
        let settings = Settings {
            intercept: fit_intercept,
            accumulator: parsed("accumulator", accumulator)?,
            threads: threads_of(n_jobs)?,
            ..Settings::default()
        };
        let inputs = x.width(py);
        let table = TaskTable::new(py, x, y, weights)?;
        let summary =
            outside(py, || summarized(&settings, &table, inputs).map_err(Failure::raised_unnamed))?;
        Ok(Self { summary })
    }

    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        kept(Summary::from_bytes(bytes))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.summary.to_bytes())
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let from_bytes = slf.get_type().getattr("from_bytes")?;
        Ok((from_bytes, (slf.get().to_bytes(slf.py()),)))
    }

    fn __copy__(&self) -> Self {
        self.clone()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.clone()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.summary.to_bytes().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let s = &self.summary;
        format!(
            "Summary(n_samples={}, width={}, n_targets={}, rank={}, nbytes={})",
            s.n(),
            s.width(),
            s.targets(),
            s.rank(),
            s.nbytes()
        )
    }

    fn __add__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        outside(py, || kept(self.summary.merge(&other.summary)))
    }

    /// `sum(summaries)` starts at 0.
    fn __radd__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        if other.extract::<i64>().is_ok_and(|zero| zero == 0) {
            return Ok(self.clone());
        }
        Err(PyTypeError::new_err("a summary is added to summaries only"))
    }

    fn __sub__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        outside(py, || kept(self.summary.remove(&other.summary)))
    }

    /// The summary with every sample weight multiplied by `weight`.
    fn scale(&self, weight: f64) -> PyResult<Self> {
        kept(self.summary.scale(weight))
    }

    /// Inserts design columns that are zero on all rows seen so far.
    fn extend_features(&self, at: usize, count: usize) -> PyResult<Self> {
        kept(self.summary.extend_features(at, count))
    }

    /// Inserts targets that are zero on all rows seen so far.
    fn extend_targets(&self, at: usize, count: usize) -> PyResult<Self> {
        kept(self.summary.extend_targets(at, count))
    }

    /// Sum of sample weights; the number of rows where there were none.
    #[getter]
    fn n_samples(&self) -> f64 {
        self.summary.n()
    }

    /// Design columns, the intercept included.
    #[getter]
    fn width(&self) -> usize {
        self.summary.width()
    }

    #[getter]
    fn n_targets(&self) -> usize {
        self.summary.targets()
    }

    /// Rank of the rows, to working precision.
    #[getter]
    fn rank(&self) -> usize {
        self.summary.rank()
    }

    /// Bytes of the summary.
    #[getter]
    fn nbytes(&self) -> usize {
        self.summary.nbytes()
    }

    /// The loss of the best model of these rows alone.
    #[getter]
    fn min_loss(&self) -> f64 {
        self.summary.min_loss()
    }

    /// Half the mean squared error of `theta`, summed over targets.
    fn loss(&self, theta: &Bound<'_, PyAny>) -> PyResult<f64> {
        self.summary.loss(&self.parameters(theta)?).map_err(raised)
    }

    /// `loss(theta) - min_loss`, exactly and never negative.
    fn forgetting(&self, theta: &Bound<'_, PyAny>) -> PyResult<f64> {
        self.summary.forgetting(&self.parameters(theta)?).map_err(raised)
    }

    /// Parameters of the penalised least-squares model, the intercept first: `(width,)`, or `(n_targets, width)`. `ridge` is a
    /// number, or one for each target.
    #[pyo3(signature = (ridge=Ridges::One(0.0), *, standardize=false, fit_intercept=true), text_signature = "(self, ridge=0.0, *, standardize=False, fit_intercept=True)")]
    fn solve<'py>(
        &self,
        py: Python<'py>,
        ridge: Ridges,
        standardize: bool,
        fit_intercept: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = outside(py, || {
            let penalty = match ridge {
                Ridges::One(ridge) => Penalty::new(ridge, standardize),
                Ridges::PerTarget(list) => Penalty::per_target(&list, standardize),
            };
            let penalty = penalty.map_err(raised)?;
            solve(&self.summary, fit_intercept, penalty, None).map_err(raised)
        })?;
        let theta = PyArray1::from_slice(py, found.theta.cells());
        if found.theta.targets() == 1 {
            return Ok(theta.into_any());
        }
        Ok(theta.reshape([found.theta.targets(), found.theta.width()])?.into_any())
    }

    /// Mean of each target.
    #[getter]
    fn target_mean<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_vec(py, self.summary.target_mean())
    }
}

impl PySummary {
    /// Parameters given as one list, or target by target. Here a row is a target, so a wrong shape is reported the way
    /// Python users see it.
    fn parameters(&self, theta: &Bound<'_, PyAny>) -> PyResult<Theta> {
        let theta: PyReadonlyArray2<'_, f64> =
            inputs(theta.py())?.call_method1("parameters", (theta,))?.extract()?;
        let view = theta.as_array();
        let found = view.dim();
        let expected = (self.summary.targets(), self.summary.width());
        if found != expected {
            let hint = if found == (expected.1, expected.0) { "; transpose it" } else { "" };
            return Err(PyValueError::new_err(format!(
                "theta has the shape {found:?}, but {expected:?} was expected: a row for each target, a column for each \
                 design column{hint}"
            )));
        }
        Theta::from_columns(found.1, found.0, view.iter().copied().collect()).map_err(raised)
    }
}

/// The Python module that makes arrays of whatever was given.
fn inputs(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("pmfcl._inputs")
}

/// Threads for `n_jobs` as scikit-learn counts: none given or −1 is all, −2 all but one.
pub(crate) fn threads_of(n_jobs: Option<i64>) -> PyResult<usize> {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    match n_jobs {
        None => Ok(all),
        Some(0) => Err(PyValueError::new_err("n_jobs is 0; give 1 or more, or -1 for all threads")),
        Some(n) if n > 0 => Ok(usize::try_from(n).unwrap_or(all)),
        Some(n) => {
            let spared = usize::try_from(n.unsigned_abs() - 1).unwrap_or(all);
            Ok(all.saturating_sub(spared).max(1))
        }
    }
}
