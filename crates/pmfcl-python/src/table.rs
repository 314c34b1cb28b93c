//! Tables and lists of numbers as NumPy has them.

use numpy::{
    PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods,
};
use pmfcl::Rows;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::call::raised;

/// A table of double or single precision. Only row-major ones can be read; Python makes others so.
#[derive(FromPyObject)]
pub(crate) enum Table<'py> {
    Double(PyReadonlyArray2<'py, f64>),
    Single(PyReadonlyArray2<'py, f32>),
}

impl Table<'_> {
    /// The rows where they lie.
    pub(crate) fn rows(&self) -> PyResult<Rows<'_>> {
        let (width, lies_in_rows) = match self {
            Self::Double(array) => (array.shape()[1], array.is_c_contiguous()),
            Self::Single(array) => (array.shape()[1], array.is_c_contiguous()),
        };
        if !lies_in_rows {
            return Err(PyTypeError::new_err("a table must lie row after row (C order)"));
        }
        match self {
            Self::Double(array) => Rows::new(array.as_slice()?, width),
            Self::Single(array) => Rows::from_f32(array.as_slice()?, width),
        }
        .map_err(raised)
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

/// The numbers of an optional list.
pub(crate) fn numbers<'a>(
    list: Option<&'a PyReadonlyArray1<'_, f64>>,
) -> PyResult<Option<&'a [f64]>> {
    Ok(match list {
        Some(list) => Some(list.as_slice()?),
        None => None,
    })
}
