//! Continual learning that equals joint training.
//!
//! Every task is reduced to a [`TaskSummary`]; summaries merge; the merged one is solved. Data flows one way, and each stage is one
//! module:
//!
//! ```text
//! rows ──read──▶ Rows ──map──▶ design ──summarize──▶ TaskSummary ──merge──▶ Pool ──solve──▶ Solution ──report──▶
//! ```
//!
//! | stage | module | public names |
//! | --- | --- | --- |
//! | read | | [`Rows`], [`Targets`], [`TaskRows`], [`Label`], [`Labels`], [`Classes`] |
//! | map | [`basis`] | [`Basis`], [`Design`], [`basis::BasisError`] |
//! | summarize, merge | [`summary`] | [`Summarizer`], [`Accumulator`], [`Summary`] |
//! | solve | [`mod@solve`] | [`fn@solve`], [`Penalty`], [`Solution`], [`Outcome`], [`Theta`] |
//! | what is predicted | [`problem`] | [`Problem`], [`TaskSummary`], [`ClassList`], [`problem::Gaussian`], [`problem::Logistic`], their settings ([`problem::Calibrate`], [`problem::Covariance`], …), [`problem::Evaluation`] |
//! | a loss of your own | [`loss`] | [`loss::Loss`], [`loss::Point`], [`loss::Link`], [`loss::FirstTask`] |
//! | all of it, task after task | [`learner`], [`settings`] | [`Learner`], [`TaskReport`], [`Settings`], [`MemoryKind`], [`Preference`], [`Ridge`] |
//! | the same between clients | [`federated`] | [`problem::Agreement`], [`federated::Server`], [`federated::Update`], [`federated::Broadcast`], [`federated::Rules`], [`federated::Receipt`], [`federated::Refused`] |
//! | with differential privacy, behind the feature `private` | `private` | `Bounds`, `Clipped`, `Budget`, `Account`, `release`, `Released` |
//! | report | [`report`], [`pareto`] | conflicts, intervals, history, fronts, budgets |
//! | errors | | [`Error`], [`Result`] |
//!
//! These names are what the crate promises; `tests/surface/core.txt` of the repository lists them. Items marked `#[doc(hidden)]`
//! are for the other crates of the workspace (files, reading, export, report, Python) and may change in any version.
//!
//! ```
//! use pmfcl::{Learner, Problem, Rows, Settings, TaskRows};
//!
//! let mut learner = Learner::new(Problem::squared(), Settings::default())?;
//! let spring = TaskRows::new(Rows::new(&[1.0, 2.0, 3.0], 1)?, Rows::new(&[2.0, 4.1, 5.9], 1)?);
//! let summer = TaskRows::new(Rows::new(&[4.0, 5.0], 1)?, Rows::new(&[8.1, 9.9], 1)?);
//! learner.learn("spring", spring, 1.0)?;
//! learner.learn("summer", summer, 1.0)?;
//!
//! let predicted = learner.predict(Rows::new(&[6.0], 1)?)?;
//! assert!((predicted[0] - 12.0).abs() < 0.2);
//! assert!(learner.tasks()?.iter().all(|task| task.forgetting < Some(0.01)));
//! # Ok::<(), pmfcl::Error>(())
//! ```
//!
//! The method is that of the paper PMF-CL (arXiv 2605.19145); doc comments cite it by number and label, and the
//! repository's `docs/errata.md` lists where the code follows a corrected formula.

#![warn(clippy::unwrap_used)]

pub mod basis;
mod error;
pub mod federated;
mod kernel;
mod labels;
pub mod learner;
pub mod loss;
pub mod pareto;
#[cfg(feature = "private")]
pub mod private;
pub mod problem;
pub mod report;
mod rows;
pub mod settings;
pub mod solve;
pub mod summary;
mod theta;

pub use basis::{Basis, Design, Map, Parts};
pub use error::{Error, Result};
#[doc(hidden)] // for lab
pub use kernel::instruction_set;
pub use labels::{Classes, Label, Labels};
pub use learner::{Learner, TaskReport};
pub use problem::{ClassList, Problem, TaskSummary};
pub use rows::{Rows, Targets, TaskRows};
pub use settings::{MemoryKind, Preference, Ridge, Settings, StoredPrecision};
pub use solve::{Outcome, Penalty, Solution, solve};
pub use summary::{Accumulator, Summarizer, Summary};
pub use theta::Theta;

/// The README's example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
