//! Tables of any library that speaks the Arrow C stream interface.

use std::ptr::NonNull;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType};
use numpy::PyArray2;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::call::outside;
use crate::table::table;

/// Names of the columns and their numbers, row-major; a missing value is NaN, for the caller to refuse.
#[pyfunction]
pub(crate) fn arrow_table<'py>(
    source: &Bound<'py, PyAny>,
) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
    let py = source.py();
    let capsule = source.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>().map_err(PyErr::from)?;
    let (names, cells) = {
        let reader = taken(capsule)?;
        outside(py, || gathered(reader))?
    };
    let width = names.len();
    Ok((names, table(py, cells, width)?))
}

/// Takes the stream out of its capsule, which is left empty.
fn taken(capsule: &Bound<'_, PyCapsule>) -> PyResult<RecordBatchStreamReader> {
    let pointer: NonNull<FFI_ArrowArrayStream> =
        capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast();
    #[expect(unsafe_code, reason = "the interface hands over a pointer, and nothing else")]
    // Safety: a capsule of this name holds a stream the protocol says is ours to move out, and the capsule, which we
    // keep borrowed, keeps its memory.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    RecordBatchStreamReader::try_new(stream).map_err(|e| refused(&e))
}

fn refused(error: &ArrowError) -> PyErr {
    PyValueError::new_err(format!("the Arrow stream cannot be read: {error}"))
}

fn gathered(reader: RecordBatchStreamReader) -> PyResult<(Vec<String>, Vec<f64>)> {
    let schema = reader.schema();
    if schema.fields().is_empty() {
        return Err(PyValueError::new_err("the Arrow table has no columns"));
    }
    let names: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
    let mut cells = Vec::new();
    for batch in reader {
        append(&batch.map_err(|e| refused(&e))?, &names, &mut cells)?;
    }
    Ok((names, cells))
}

fn append(batch: &RecordBatch, names: &[String], cells: &mut Vec<f64>) -> PyResult<()> {
    let (start, width) = (cells.len(), names.len());
    cells.resize(start + batch.num_rows() * width, 0.0);
    for (j, (column, name)) in batch.columns().iter().zip(names).enumerate() {
        scatter(column, name, &mut cells[start..], j, width)?;
    }
    Ok(())
}

/// Writes a column into place `j` of every row.
fn scatter(
    column: &ArrayRef,
    name: &str,
    cells: &mut [f64],
    j: usize,
    width: usize,
) -> PyResult<()> {
    let rows = cells.chunks_exact_mut(width);
    macro_rules! written {
        ($type:ty, $convert:expr) => {
            for (row, value) in rows.zip(values::<$type>(column)) {
                row[j] = value.map_or(f64::NAN, $convert);
            }
        };
    }
    match column.data_type() {
        DataType::Float64 => written!(Float64Type, |v| v),
        DataType::Float32 => written!(Float32Type, f64::from),
        DataType::Int64 => written!(Int64Type, |v| v as f64),
        DataType::Int32 => written!(Int32Type, f64::from),
        DataType::Int16 => written!(Int16Type, f64::from),
        DataType::Int8 => written!(Int8Type, f64::from),
        DataType::UInt64 => written!(UInt64Type, |v| v as f64),
        DataType::UInt32 => written!(UInt32Type, f64::from),
        DataType::UInt16 => written!(UInt16Type, f64::from),
        DataType::UInt8 => written!(UInt8Type, f64::from),
        DataType::Boolean => {
            for (row, value) in rows.zip(column.as_boolean()) {
                row[j] = value.map_or(f64::NAN, |v| f64::from(u8::from(v)));
            }
        }
        other => {
            return Err(PyTypeError::new_err(format!(
                "column '{name}' holds {other}, not numbers; encode it first"
            )));
        }
    }
    Ok(())
}

fn values<T: ArrowPrimitiveType>(column: &dyn Array) -> impl Iterator<Item = Option<T::Native>> {
    column.as_primitive::<T>().iter()
}
