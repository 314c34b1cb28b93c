//! What a learner is set up with.

use super::{MemoryKind, Preference};
use crate::basis::Basis;
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::solve::Penalty;
use crate::summary::Accumulator;

/// How the ridge is set.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Ridge {
    /// Chosen after every task by generalised cross-validation, on standardized features (scale-free).
    #[default]
    Auto,
    /// Chosen after every task as the one that predicts left-out tasks best; needs the ledger. GCV while
    /// there is only one task.
    LeaveOneTaskOut,
    /// `(λ/2)‖θ‖²` on the mean loss, intercept free. 0 is least squares of minimum norm.
    Fixed(f64),
}

/// What a learner is set up with; cannot change afterwards, but for preference and ridge.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The basis inputs are mapped through.
    pub basis: Basis,
    /// Whether there is a free intercept.
    pub intercept: bool,
    /// The ridge.
    pub ridge: Ridge,
    /// Whether the ridge is multiplied by feature variances. `Ridge::Auto` always does.
    pub standardize: bool,
    /// What is remembered.
    pub memory: MemoryKind,
    /// How rows are accumulated.
    pub accumulator: Accumulator,
    /// How tasks are weighed.
    pub prefer: Preference,
    /// Threads to use; the result does not depend on it.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            basis: Basis::default(),
            intercept: true,
            ridge: Ridge::default(),
            standardize: false,
            memory: MemoryKind::default(),
            accumulator: Accumulator::default(),
            prefer: Preference::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// A ridge in range that the loss and the memory can work with, also in tasks to come.
pub(super) fn check_ridge(settings: &Settings, loss: &dyn Loss) -> Result<()> {
    if let Ridge::Fixed(x) = settings.ridge {
        Penalty::new(x, settings.standardize)?;
    }
    if !loss.exact() && !matches!(settings.ridge, Ridge::Fixed(x) if x > 0.0) {
        return Err(Error::Unsupported {
            operation: "an automatic or zero ridge",
            reason: format!(
                "the {} loss need not have a minimizer without one; give a ridge above 0",
                loss.name()
            ),
        });
    }
    if (settings.ridge, settings.memory) == (Ridge::LeaveOneTaskOut, MemoryKind::Compact) {
        return Err(Error::Unsupported {
            operation: "choosing the ridge by leaving tasks out",
            reason: "compact memory merges the tasks; use the ledger, or gcv".to_owned(),
        });
    }
    Ok(())
}
