//! Continual learning that equals joint training.
//!
//! Every task is boiled down to a [`Summary`]; summaries merge; the merged one is solved. Data flows one
//! way, and each stage is one module:
//!
//! ```text
//! rows ──read──▶ Rows ──map──▶ design ──summarize──▶ Summary ──merge──▶ Summary ──solve──▶ Model ──report──▶
//! ```
//!
//! | stage | module | principal type |
//! | --- | --- | --- |
//! | read | | [`Rows`] |
//! | map | [`basis`] | [`Basis`], [`Map`] |
//! | summarize, merge | [`summary`] | [`Summary`], [`Summarizer`] |
//! | solve | [`mod@solve`] | [`Model`], [`Penalty`] |
//! | all of it, task after task | [`learner`], [`loss`] | [`Learner`], [`Loss`] |
//! | the same between clients | [`federated`] | [`federated::Server`] |
//! | with differential privacy, behind the feature `private` | `private` | `private::Released` |
//! | report | [`report`], [`pareto`] | |
//!
//! ```
//! use pmfcl::{Learner, Rows, Settings};
//!
//! let mut learner = Learner::new(Settings::default())?;
//! learner.learn("spring", Rows::new(&[1.0, 2.0, 3.0], 1)?, Rows::new(&[2.0, 4.1, 5.9], 1)?)?;
//! learner.learn("summer", Rows::new(&[4.0, 5.0], 1)?, Rows::new(&[8.1, 9.9], 1)?)?;
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
pub mod classify;
mod error;
pub mod federated;
mod kernel;
pub mod learner;
pub mod loss;
pub mod pareto;
#[cfg(feature = "private")]
pub mod private;
pub mod report;
mod rows;
pub mod solve;
pub mod summary;
mod theta;

pub use basis::{Basis, Map, Parts};
pub use classify::{ClassLoss, Classifier, ClassifierSettings, Labels};
pub use error::{Error, Result};
pub use learner::{Learner, MemoryKind, Preference, Ridge, Settings, TaskReport};
pub use loss::{Loss, Point, Squared};
pub use rows::Rows;
pub use solve::{Model, Outcome, Penalty, solve};
pub use summary::{Accumulator, Design, Summarizer, Summary};
pub use theta::Theta;

/// The README's example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
