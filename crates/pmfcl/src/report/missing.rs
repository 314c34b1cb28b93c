//! Why a p-value, a standard error or an interval cannot be given.

use std::fmt;

use crate::learner::Learner;
use crate::settings::setting_names;
use crate::summary::Summary;

/// Why a p-value, a standard error or an interval cannot be given; `Display` says it in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingReason {
    /// The summaries are bounds of a loss.
    Bounds,
    /// The sample weights of a task do not add up to a whole number.
    Weights,
    /// The number of rows of a task is not on record, so that weights cannot be taken for precisions.
    RowsUnknown,
    /// No two tasks see the same direction of the features.
    NothingShared,
    /// Not even one degree of freedom is left.
    NoFreedom,
    /// Residuals are rounding errors.
    Rounding,
    /// Targets have ridges of their own, so they do not share one covariance.
    OwnRidges,
}

impl fmt::Display for MissingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bounds => "the summaries are bounds of the loss, not squared errors of rows",
            Self::Weights => {
                "sample weights that do not add up to a whole number are not copies of rows; where they are \
                 precisions, say so (weights: precision)"
            }
            Self::RowsUnknown => {
                "the number of rows of a task is not on record (it was learned by an earlier version, or sent without it)"
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
            Self::OwnRidges => {
                "every target has a ridge of its own, and errors are given for one ridge of all targets; set one number"
            }
        })
    }
}

/// What sample weights are, for standard errors, intervals and p-values. The model itself does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SampleWeights {
    /// A weight of 3 stands for three rows.
    #[default]
    Copies,
    /// A weight of 3 stands for one row whose noise has a third of the variance.
    Precision,
}

setting_names!(
    SampleWeights,
    "copies, precision",
    "copies" => SampleWeights::Copies,
    "precision" => SampleWeights::Precision,
);

impl MissingReason {
    /// What no number of samples would change: [`MissingReason::Bounds`], [`MissingReason::Weights`] or
    /// [`MissingReason::RowsUnknown`].
    ///
    /// Weights that add up to a whole number are believed to be copies; others cannot be.
    pub fn of_summaries(learner: &Learner) -> Option<Self> {
        Self::of_learner(learner, SampleWeights::Copies)
    }

    /// The same where sample weights are what is said.
    pub fn of_learner(learner: &Learner, weights: SampleWeights) -> Option<Self> {
        if !learner.is_exact() {
            return Some(Self::Bounds);
        }
        if weights == SampleWeights::Precision {
            let known = learner.records().iter().all(|record| record.head.rows.is_some());
            return (!known).then_some(Self::RowsUnknown);
        }
        let whole = learner.records().iter().all(|record| record.head.samples.fract() == 0.0);
        (!whole).then_some(Self::Weights)
    }

    pub(crate) fn of_weights<'a>(mut tasks: impl Iterator<Item = &'a Summary>) -> Option<Self> {
        tasks.any(|task| task.n().fract() != 0.0).then_some(Self::Weights)
    }
}
