//! Work outside the interpreter's lock, and what Python hears of it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pmfcl::{Accumulator, Design, Error, Rows, Summarizer, Summary};
use pmfcl_export::ExportError;
use pmfcl_file::FileError;
use pmfcl_report::ReportError;
use pyo3::exceptions::{
    PyBlockingIOError, PyFileExistsError, PyFileNotFoundError, PyIsADirectoryError, PyOSError,
    PyPermissionError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

/// Runs `work` while other Python threads go on. A panic is a defect of ours, and becomes an exception all the same:
/// learners compute a change beside the old state, so nothing is left half done.
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

/// What the core says is wrong is the caller's to correct.
pub(crate) fn raised(error: Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The same, with the name of the feature.
pub(crate) fn raised_in(error: Error, features: &[String]) -> PyErr {
    match error {
        Error::NotFinite { what: "feature", row, column, value } if column < features.len() => {
            PyValueError::new_err(format!(
                "feature '{}' at row {row} is {value}: values must be finite; drop the row or fill the gap",
                features[column]
            ))
        }
        other => raised(other),
    }
}

pyo3::create_exception!(
    pmfcl,
    ModelChangedError,
    PyOSError,
    "Another process or model has changed the file since it was read; nothing was written. The message says what changed and how to go on."
);

/// What a model file says.
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

/// What a page or a front says.
pub(crate) fn raised_by_report(error: ReportError) -> PyErr {
    match error {
        ReportError::Model(error) => raised(error),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// What an export says.
pub(crate) fn raised_by_export(error: &ExportError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Leaves each thread takes between two looks at Ctrl-C: some tenths of a second at most.
const LEAVES: usize = 8;

/// Rows with their targets and weights, to be summarized in blocks. `targets` makes those of a block of rows where they
/// are not there as numbers.
pub(crate) struct Feed<'a> {
    pub(crate) x: Rows<'a>,
    pub(crate) targets: Targets<'a>,
    pub(crate) weights: Option<&'a [f64]>,
}

/// What is to be predicted.
#[derive(Clone, Copy)]
pub(crate) enum Targets<'a> {
    Numbers(Rows<'a>),
    /// The class of every row, below the count.
    Classes(&'a [u32], usize),
}

impl Targets<'_> {
    fn len(self) -> usize {
        match self {
            Self::Numbers(rows) => rows.len(),
            Self::Classes(codes, _) => codes.len(),
        }
    }
}

impl Feed<'_> {
    /// The summary of all rows. Ctrl-C is heard between blocks; the bits do not depend on them.
    pub(crate) fn summarize(
        &self,
        py: Python<'_>,
        design: &Design,
        accumulator: Accumulator,
        threads: usize,
    ) -> PyResult<Result<Summary, Error>> {
        let width = match self.targets {
            Targets::Numbers(rows) => rows.width(),
            Targets::Classes(_, count) => count,
        };
        let made = Summarizer::new(design.clone(), width, accumulator);
        let mut summarizer = match made.and_then(|made| self.agreed().map(|()| made)) {
            Ok(summarizer) => summarizer.threads(threads),
            Err(error) => return Ok(Err(error)),
        };
        let block = summarizer.leaf_rows() * threads.max(1) * LEAVES;
        let mut from = 0;
        while from < self.x.len() {
            let to = (from + block).min(self.x.len());
            if let Err(error) = outside(py, || Ok(self.add(&mut summarizer, from, to)))? {
                return Ok(Err(error));
            }
            py.check_signals()?;
            from = to;
        }
        outside(py, || Ok(summarizer.finish()))
    }

    fn add(&self, summarizer: &mut Summarizer, from: usize, to: usize) -> Result<(), Error> {
        let x = self.x.slice(from, to);
        let weights = self.weights.map(|w| &w[from..to]);
        match self.targets {
            Targets::Numbers(y) => summarizer.add(x, y.slice(from, to), weights),
            Targets::Classes(codes, count) => {
                let mut cells = vec![0.0; (to - from) * count];
                for (row, &code) in cells.chunks_exact_mut(count).zip(&codes[from..to]) {
                    row[code as usize] = 1.0;
                }
                summarizer.add(x, Rows::new(&cells, count)?, weights)
            }
        }
    }

    /// As many targets and weights as rows?
    fn agreed(&self) -> Result<(), Error> {
        let expected = self.x.len();
        let lists = [
            ("the target table", "rows", Some(self.targets.len())),
            ("the list of sample weights", "numbers", self.weights.map(<[f64]>::len)),
        ];
        for (what, unit, found) in lists {
            if let Some(found) = found.filter(|found| *found != expected) {
                return Err(Error::Shape { what, unit, expected, found });
            }
        }
        Ok(())
    }
}
