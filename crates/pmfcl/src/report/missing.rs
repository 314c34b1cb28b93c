//! Why a p-value, a standard error or an interval cannot be given.

use std::fmt;

use crate::learner::Learner;
use crate::summary::Summary;

/// Why a p-value, a standard error or an interval cannot be given; `Display` says it in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingReason {
    /// The summaries are bounds of a loss.
    Bounds,
    /// The sample weights of a task do not add up to a whole number.
    Weights,
    /// No two tasks see the same direction of the features.
    NothingShared,
    /// Not even one degree of freedom is left.
    NoFreedom,
    /// Residuals are rounding errors.
    Rounding,
}

impl fmt::Display for MissingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bounds => "the summaries are bounds of the loss, not squared errors of rows",
            Self::Weights => {
                "sample weights that do not add up to a whole number are not copies of rows, and the \
                 number of rows is not recorded"
            }
            Self::NothingShared => {
                "the tasks determine no common direction of the features, so there is nothing to compare"
            }
            Self::NoFreedom => {
                "the model has about as many parameters as there are samples, so the noise is unknown"
            }
            Self::Rounding => {
                "the tasks are fitted exactly, up to rounding, so there is no noise to compare with"
            }
        })
    }
}

impl MissingReason {
    /// What no number of samples would change: [`MissingReason::Bounds`] or [`MissingReason::Weights`].
    ///
    /// A sample weight is taken as that many copies of its row. Weights that add up to a whole number are
    /// therefore believed; others cannot be copies.
    pub fn of_summaries(learner: &Learner) -> Option<Self> {
        if !learner.is_exact() {
            return Some(Self::Bounds);
        }
        let whole = learner.records().iter().all(|record| record.samples.fract() == 0.0);
        (!whole).then_some(Self::Weights)
    }

    pub(crate) fn of_weights<'a>(mut tasks: impl Iterator<Item = &'a Summary>) -> Option<Self> {
        tasks.any(|task| task.n().fract() != 0.0).then_some(Self::Weights)
    }
}
