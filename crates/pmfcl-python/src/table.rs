//! Tables and lists of numbers as NumPy has them.
//!
//! Work runs with the interpreter's lock released, so another thread may write to the caller's array meanwhile. No Rust
//! reference to that memory is ever made: NumPy copies the rows that are worked on next, a block of them where they are looked
//! at once, into an array nobody else has.

use numpy::{
    Element, PyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyUntypedArrayMethods, ndarray::Dimension,
};
use pmfcl::{Error, Rows, Targets, TaskRows};
use pyo3::prelude::*;
use pyo3::types::PySlice;

use crate::call::raised;

/// A table of f64 or f32, where the caller has it; or a sparse one of f64, of which a block at a time is made dense.
#[derive(FromPyObject)]
pub(crate) enum Table {
    Double(Py<PyArray2<f64>>),
    Single(Py<PyArray2<f32>>),
    Sparse {
        #[pyo3(attribute("shape"))]
        shape: (usize, usize),
        /// Makes all of it dense; NumPy's arrays have none, so it tells sparse tables from them.
        #[pyo3(attribute("toarray"))]
        dense: Py<PyAny>,
        /// Takes a slice of rows.
        #[pyo3(attribute("__getitem__"))]
        rows: Py<PyAny>,
    },
}

/// Rows of a table that nobody else can change.
pub(crate) enum OwnTable<'py> {
    Double(PyReadonlyArray2<'py, f64>),
    Single(PyReadonlyArray2<'py, f32>),
}

/// A copy of some rows, made by NumPy, row-major.
fn copied<'py, T: Element, D: Dimension>(
    py: Python<'py>,
    array: &Py<PyArray<T, D>>,
    (from, to): (usize, usize),
) -> PyResult<Bound<'py, PyArray<T, D>>> {
    let bounds = PySlice::new(py, from.cast_signed(), to.cast_signed(), 1);
    // `copy` writes each number once; zeros to copy into would be written twice.
    let own = array.bind(py).get_item(bounds)?.call_method1("copy", ("C",))?;
    Ok(own.cast_into::<PyArray<T, D>>()?)
}

impl Table {
    pub(crate) fn len(&self, py: Python<'_>) -> usize {
        match self {
            Self::Double(array) => array.bind(py).shape()[0],
            Self::Single(array) => array.bind(py).shape()[0],
            Self::Sparse { shape, .. } => shape.0,
        }
    }

    pub(crate) fn width(&self, py: Python<'_>) -> usize {
        match self {
            Self::Double(array) => array.bind(py).shape()[1],
            Self::Single(array) => array.bind(py).shape()[1],
            Self::Sparse { shape, .. } => shape.1,
        }
    }

    /// A copy of some rows.
    pub(crate) fn block<'py>(
        &self,
        py: Python<'py>,
        range: (usize, usize),
    ) -> PyResult<OwnTable<'py>> {
        Ok(match self {
            Self::Double(array) => OwnTable::Double(copied(py, array, range)?.readonly()),
            Self::Single(array) => OwnTable::Single(copied(py, array, range)?.readonly()),
            Self::Sparse { shape, dense, rows } => {
                let (from, to) = range;
                let made = if range == (0, shape.0) {
                    dense.bind(py).call0()?
                } else {
                    let bounds = PySlice::new(py, from.cast_signed(), to.cast_signed(), 1);
                    rows.bind(py).call1((bounds,))?.call_method0("toarray")?
                };
                // Nobody else has what was just made.
                OwnTable::Double(made.cast_into::<PyArray2<f64>>()?.readonly())
            }
        })
    }

    /// A copy of all rows.
    pub(crate) fn whole<'py>(&self, py: Python<'py>) -> PyResult<OwnTable<'py>> {
        self.block(py, (0, self.len(py)))
    }
}

impl OwnTable<'_> {
    pub(crate) fn rows(&self) -> PyResult<Rows<'_>> {
        match self {
            Self::Double(array) => Rows::new(array.as_slice()?, array.shape()[1]),
            Self::Single(array) => Rows::from_f32(array.as_slice()?, array.shape()[1]),
        }
        .map_err(raised)
    }
}

/// What rows are to predict: a table of values, or a pair of a code for each row and a name for each code.
#[derive(FromPyObject)]
pub(crate) enum Target {
    Values(Table),
    Classes(Py<PyArray1<u32>>, Vec<String>),
}

/// Sample weights, where there are any.
pub(crate) type Weights = Option<Py<PyArray1<f64>>>;

/// The rows of a task, where the caller has them.
pub(crate) struct TaskTable {
    x: Table,
    y: Target,
    weights: Weights,
}

/// Rows of a task that nobody else can change.
pub(crate) struct OwnTaskTable<'a, 'py> {
    x: OwnTable<'py>,
    y: OwnTarget<'a, 'py>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
}

enum OwnTarget<'a, 'py> {
    Values(OwnTable<'py>),
    Classes(PyReadonlyArray1<'py, u32>, &'a [String]),
}

impl TaskTable {
    /// Rows, what they are to predict, and weights.
    ///
    /// # Errors
    /// When their numbers differ.
    pub(crate) fn new(py: Python<'_>, x: Table, y: Target, weights: Weights) -> PyResult<Self> {
        let count = x.len(py);
        let targets = match &y {
            Target::Values(table) => table.len(py),
            Target::Classes(codes, _) => codes.bind(py).len(),
        };
        let given = weights.as_ref().map_or(count, |weights| weights.bind(py).len());
        for (what, found) in [("the target table", targets), ("the sample weights", given)] {
            if found != count {
                return Err(raised(Error::Shape { what, unit: "rows", expected: count, found }));
            }
        }
        Ok(Self { x, y, weights })
    }

    pub(crate) fn len(&self, py: Python<'_>) -> usize {
        self.x.len(py)
    }

    /// A copy of some rows.
    pub(crate) fn block<'a, 'py>(
        &'a self,
        py: Python<'py>,
        range: (usize, usize),
    ) -> PyResult<OwnTaskTable<'a, 'py>> {
        let y = match &self.y {
            Target::Values(table) => OwnTarget::Values(table.block(py, range)?),
            Target::Classes(codes, names) => {
                OwnTarget::Classes(copied(py, codes, range)?.readonly(), names)
            }
        };
        let weights = self.weights.as_ref().map(|weights| copied(py, weights, range));
        let weights = weights.transpose()?.map(|weights| weights.readonly());
        Ok(OwnTaskTable { x: self.x.block(py, range)?, y, weights })
    }

    /// A copy of all rows.
    pub(crate) fn whole<'a, 'py>(&'a self, py: Python<'py>) -> PyResult<OwnTaskTable<'a, 'py>> {
        self.block(py, (0, self.len(py)))
    }
}

impl OwnTaskTable<'_, '_> {
    pub(crate) fn rows(&self) -> PyResult<TaskRows<'_>> {
        let y = match &self.y {
            OwnTarget::Values(table) => Targets::Values(table.rows()?),
            OwnTarget::Classes(codes, names) => {
                Targets::Classes { codes: codes.as_slice()?, names }
            }
        };
        let weights = self.weights.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        Ok(TaskRows { x: self.x.rows()?, y, weights })
    }
}

/// Numbers end to end become a table of `width` columns.
pub(crate) fn table(
    py: Python<'_>,
    cells: Vec<f64>,
    width: usize,
) -> PyResult<Bound<'_, PyArray2<f64>>> {
    let rows = cells.len().checked_div(width).unwrap_or(0);
    PyArray1::from_vec(py, cells).reshape([rows, width])
}
