//! Experiments and benchmarks: every number the documents claim comes out of a function here.
//!
//! Each returns a [`Table`]; the command line prints it. A benchmark checks its result once before it
//! is timed.
//!
//! [`data`] reads a data set (Parquet), [`stream`] divides it into tasks, [`classifiers`] runs every classifier over
//! every stream.

pub mod classifiers;
pub mod conditioning;
pub mod data;
pub mod footprint;
pub mod kernels;
pub mod reproduce;
pub mod scaling;
pub mod stream;
mod table;

pub use table::Table;
