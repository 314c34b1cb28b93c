//! From table files to what a model learns: the way from **read** to **summarize**.
//!
//! ```text
//! files ──pieces──▶ batches ──encode──▶ rows ──summarize──▶ partial summaries ──merge, in order──▶ one per task
//! ```
//!
//! Every piece of a file is decoded, encoded and summarized by whichever thread is free; the partial summaries
//! are merged in the order of the file. So reading and summarizing overlap, memory holds a few pieces, and the
//! result does not depend on the number of threads.
//!
//! A category that the model does not know is a column of the piece it appears in; merging puts columns of the same
//! name together. Threads therefore share no dictionary, and none has to be known beforehand.

#![warn(clippy::unwrap_used)]

mod columns;
mod encode;
mod error;
mod flow;
mod gather;
mod head;
mod pieces;
mod roles;
mod schema_file;
mod shell;
mod spill;
mod tasks;

pub use columns::{
    ChosenColumns, ColumnSelection, add_stated_columns, check_columns, check_labels, choose_columns,
};
pub use encode::{Encoded, Encoder, Gaps, class_name};
pub use error::IngestError;
pub use flow::{Files, Flow, Step};
pub use gather::{Gathered, GatheredTargets, Words, gather};
pub use roles::{ColumnRole, Role, check_doubts, describe_columns};
pub use schema_file::TableSchema;
pub use shell::{shell_option, shell_word};
pub use tasks::{Ingest, Learning, NamedTask, Read, summarize_again};

/// Results of this crate.
pub type Result<T, E = IngestError> = std::result::Result<T, E>;
