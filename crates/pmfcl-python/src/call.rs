//! Work outside the interpreter's lock, and the exceptions it raises.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pmfcl::{Error, Learner};
use pmfcl_export::ExportError;
use pmfcl_file::{ColumnNames, FileError, Schema};
use pmfcl_report::ReportError;
use pyo3::exceptions::{
    PyBlockingIOError, PyFileExistsError, PyFileNotFoundError, PyIsADirectoryError, PyOSError,
    PyPermissionError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

/// Runs `work` with the interpreter's lock released. A panic is a defect of ours and becomes an exception: learners check a
/// change before they make it, so nothing is left half done.
///
/// Everything that may have to solve runs here. A thread that waits for the solution another thread makes must not hold the
/// lock meanwhile.
pub(crate) fn outside<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> PyResult<T> + Send,
) -> PyResult<T> {
    py.detach(|| {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(defect(panic.as_ref())))
    })
}

fn defect(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    PyRuntimeError::new_err(format!("a defect in pmfcl, please report it: {text}"))
}

/// The exception for an error of the core: the caller can correct it.
pub(crate) fn raised(error: Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The same, with the columns of the table by name.
pub(crate) fn raised_in(error: &Error, schema: &Schema, learner: &Learner) -> PyErr {
    PyValueError::new_err(ColumnNames::of(schema, learner).message(error, true))
}

pyo3::create_exception!(
    pmfcl,
    ModelChangedError,
    PyOSError,
    "Another process or model has changed the file since it was read; nothing was written. The message says what changed and how to go on."
);

/// The exception for an error of a model file.
pub(crate) fn raised_by_file(error: FileError) -> PyErr {
    let text = error.to_string();
    match error {
        FileError::NotFound(_) => PyFileNotFoundError::new_err(text),
        FileError::Exists(_) | FileError::Occupied(..) => PyFileExistsError::new_err(text),
        FileError::Directory(_) => PyIsADirectoryError::new_err(text),
        FileError::Permission(..) => PyPermissionError::new_err(text),
        FileError::Locked(_) | FileError::Reading(_) => PyBlockingIOError::new_err(text),
        FileError::Changed(..) | FileError::Moved(_) => ModelChangedError::new_err(text),
        FileError::Full(_) | FileError::Io(..) => PyOSError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// The exception for an error of a page or a front.
pub(crate) fn raised_by_report(error: ReportError) -> PyErr {
    match error {
        ReportError::Model(error) => raised(error),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// The exception for an error of an export.
pub(crate) fn raised_by_export(error: &ExportError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
