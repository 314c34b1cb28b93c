//! The Rust half of the Python package `pmfcl`: arrays in, summaries and models out.
//!
//! Python decides what a call means (names, defaults, scikit-learn's rules); this crate runs it, with the interpreter's lock
//! released. Settings have the names of the command line and the model file.
//!
//! | module | what it is for |
//! | --- | --- |
//! | `table`, `arrow` | the caller's numbers, copied before they are read |
//! | `call` | work with the lock released; panics and errors become exceptions |
//! | `passes` | passes over rows that Ctrl-C can interrupt |
//! | `summary` | `Summary` |
//! | `parts` | summaries of some rows of a task as bytes, for clusters |
//! | `federation`, `private`, `secagg` | agreement and server of a federation; private uploads; masked sums |
//! | `check` | rows before they are learned; columns of frames |
//! | `model`, `hindsight`, `look`, `file` | `Model`: learning and predicting; changes in hindsight; reports; bytes and files |

mod arrow;
mod call;
mod check;
mod federation;
mod file;
mod hindsight;
mod look;
mod model;
mod parts;
mod passes;
mod private;
mod secagg;
mod summary;
mod table;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<summary::PySummary>()?;
    module.add_class::<model::PyModel>()?;
    module.add_class::<federation::PyAgreement>()?;
    module.add_class::<federation::PyServer>()?;
    module.add_class::<private::PyAccount>()?;
    module.add_class::<secagg::PySecAggClient>()?;
    module.add_class::<secagg::PySecAggServer>()?;
    module.add("RefusedError", module.py().get_type::<federation::RefusedError>())?;
    module.add("ModelChangedError", module.py().get_type::<call::ModelChangedError>())?;
    module.add_function(wrap_pyfunction!(look::problem, module)?)?;
    module.add_function(wrap_pyfunction!(parts::merge_parts, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::arrow_table, module)?)
}
