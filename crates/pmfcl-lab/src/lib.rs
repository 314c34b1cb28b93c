//! Experiments and benchmarks: every number the documents claim comes out of a function here.
//!
//! Each returns a [`Table`]; the command line prints it. A benchmark checks its result once before it
//! is timed.

pub mod conditioning;
pub mod footprint;
pub mod kernels;
pub mod scaling;
mod table;

pub use table::Table;
