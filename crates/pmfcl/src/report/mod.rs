//! Stage 6, **report**: numbers a person acts on, from summaries alone. No printing.
//!
//! * [`continual`]: forgetting after every task, and the field's other measures under their own names
//! * [`check`]: do new rows go with memory, before they are learned
//! * [`conflict`]: do the tasks really disagree, which ones, and in which coefficients
//! * [`inference`]: standard errors, intervals, and how far from everything seen a new row is
//! * [`distributions`]: the F, t and normal distributions these need

#[doc(hidden)] // for ingest, cli, python: rows before they are learned
pub mod check;
pub mod conflict;
pub mod continual;
#[doc(hidden)] // for other crates of the workspace
pub mod distributions;
pub mod inference;
mod missing;

pub use missing::{MissingReason, SampleWeights};
