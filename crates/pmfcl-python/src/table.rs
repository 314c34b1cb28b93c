//! Tables and lists of numbers as NumPy has them.

use numpy::{
    PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods,
};
use pmfcl::{Rows, Targets, TaskRows};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::call::raised;

/// A table of f64 or f32. Only row-major ones can be read; Python makes others so.
#[derive(FromPyObject)]
pub(crate) enum Table<'py> {
    Double(PyReadonlyArray2<'py, f64>),
    Single(PyReadonlyArray2<'py, f32>),
}

impl Table<'_> {
    /// The rows, without a copy.
    pub(crate) fn rows(&self) -> PyResult<Rows<'_>> {
        let (width, row_major) = match self {
            Self::Double(array) => (array.shape()[1], array.is_c_contiguous()),
            Self::Single(array) => (array.shape()[1], array.is_c_contiguous()),
        };
        if !row_major {
            return Err(PyTypeError::new_err("a table must be row-major (C order)"));
        }
        match self {
            Self::Double(array) => Rows::new(array.as_slice()?, width),
            Self::Single(array) => Rows::from_f32(array.as_slice()?, width),
        }
        .map_err(raised)
    }
}

/// What rows are to predict: a table of values, or a pair of a code for each row and a name for each code.
#[derive(FromPyObject)]
pub(crate) enum Target<'py> {
    Values(Table<'py>),
    Classes(PyReadonlyArray1<'py, u32>, Vec<String>),
}

impl Target<'_> {
    fn targets(&self) -> PyResult<Targets<'_>> {
        Ok(match self {
            Self::Values(table) => Targets::Values(table.rows()?),
            Self::Classes(codes, names) => Targets::Classes { codes: codes.as_slice()?, names },
        })
    }
}

/// Sample weights, where there are any.
pub(crate) type Weights<'py> = Option<PyReadonlyArray1<'py, f64>>;

/// The rows of a task, without a copy.
pub(crate) fn task_rows<'a>(
    x: &'a Table<'_>,
    y: &'a Target<'_>,
    weights: &'a Weights<'_>,
) -> PyResult<TaskRows<'a>> {
    let weights = weights.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
    Ok(TaskRows { x: x.rows()?, y: y.targets()?, weights })
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
