//! Continual learning that equals joint training.

pub mod basis;
pub mod classify;
mod error;
mod kernel;
pub mod learner;
pub mod loss;
pub mod pareto;
pub mod report;
mod rows;
pub mod solve;
pub mod summary;
mod theta;

pub use basis::{Basis, Map};
pub use classify::{ClassLoss, Classifier, ClassifierSettings, Labels};
pub use error::{Error, Result};
pub use learner::{Learner, MemoryKind, Preference, Ridge, Settings, TaskReport};
pub use loss::{Loss, Point, Squared};
pub use rows::Rows;
pub use solve::{Model, Outcome, Penalty, solve};
pub use summary::{Accumulator, Design, Summarizer, Summary};
pub use theta::Theta;
