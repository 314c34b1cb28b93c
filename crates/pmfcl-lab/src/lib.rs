//! Experiments and benchmarks: every number the documents claim comes out of a function here.
//!
//! Each returns a [`Table`](pmfcl_terminal::Table); the program `pmfcl-lab` prints it. A benchmark checks its result once before it
//! is timed.
//!
//! [`data`] reads a data set (Parquet), [`stream`] divides it into tasks, [`classifiers`] runs every classifier over
//! every stream. [`images`] runs the methods of the field over streams of images, next to their published numbers; [`random_features`] is PMF-CL
//! on thousands of random features there. [`tables`] holds bases against gradient boosting. [`contest`] holds all methods against each other over any table. [`reproduce`] is the
//! paper's own experiments.

pub mod classifiers;
pub mod conditioning;
pub mod contest;
pub mod data;
pub mod footprint;
pub mod images;
pub mod kernels;
pub mod many_classes;
pub mod random_features;
pub mod reproduce;
pub mod scaling;
pub mod stream;
pub mod tables;
