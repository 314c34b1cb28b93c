//! What fuzzing does with the bytes it makes up: one module for each target.
//!
//! A body panics when a promise is broken. They need no fuzzer, so that the tests of the crates can run the
//! same code over the files in `corpus/`.

pub mod agreement;
pub mod basis;
pub mod broadcast;
pub mod columnar;
pub mod crc;
pub mod csv;
pub mod idx;
pub mod model;
pub mod npy;
pub mod options;
pub mod secagg;
pub mod summary;
pub mod table;
pub mod update;
