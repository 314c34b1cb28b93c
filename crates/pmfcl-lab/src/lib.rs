//! Experiments: data sets as streams of tasks, and the tables in the documentation.
//!
//! | module | does |
//! |---|---|
//! | [`data`] | a Parquet file with columns `y`, `task`, `split` and features becomes a table |
//! | [`stream`] | a table becomes a stream of tasks: natural, class- or domain-incremental |
//! | [`classifiers`] | every loss, scheme and curvature over every stream; one Markdown table |

pub mod classifiers;
pub mod data;
pub mod stream;
