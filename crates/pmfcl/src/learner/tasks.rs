//! Every task as it stands under the current model.

use super::{Learner, TaskRecord};
use crate::error::{Error, Result};
use crate::summary::{Accumulator, Summary};
use crate::theta::Theta;

/// A task as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskReport {
    /// Its name.
    pub name: String,
    /// Samples, or the sum of their weights.
    pub samples: f64,
    /// Rank of its design.
    pub rank: usize,
    /// Its preference `α_t`; all sum to one.
    pub weight: f64,
    /// Bytes of its summary.
    pub bytes: usize,
    /// The least loss any model has on it.
    pub min_loss: f64,
    /// The loss of the current model on it. `None` where only a bound is known, or in folded memory.
    pub loss: Option<f64>,
    /// `loss − min_loss`: what the current model has forgotten of it. `None` as above.
    pub forgetting: Option<f64>,
    /// An upper bound on the forgetting; equal to it for squared loss. `None` in folded memory.
    pub bound: Option<f64>,
    /// Whether the bound is proved.
    pub guaranteed: bool,
    /// Mean squared error of each target.
    pub mse: Option<Vec<f64>>,
    /// R² of each target about its own mean.
    pub r2: Option<Vec<f64>>,
}

impl Learner {
    /// Every task as it is on record: nothing yet of what the current model makes of it.
    pub(crate) fn recorded(&self) -> Result<Vec<TaskReport>> {
        self.model()?;
        let shares = self.shares()?;
        let sum: f64 = shares.iter().sum();
        if self.away() > 0 {
            return Err(Error::Away { operation: "a report on all tasks", missing: self.away() });
        }
        let report = |(e, share): (&TaskRecord, &f64)| TaskReport {
            name: e.name.clone(),
            samples: e.samples,
            rank: e.rank,
            weight: share / sum,
            bytes: e.bytes,
            min_loss: e.min_loss,
            loss: None,
            forgetting: None,
            bound: None,
            guaranteed: self.loss.guaranteed(),
            mse: None,
            r2: None,
        };
        Ok(self.register.iter().zip(&shares).map(report).collect())
    }

    /// Whether summaries are squared errors of rows and not bounds of a loss.
    pub(crate) fn is_exact(&self) -> bool {
        self.loss.exact() && self.head.as_ref().is_none_or(|head| head.exact())
    }

    /// Every task as it stands under the current model.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn tasks(&self) -> Result<Vec<TaskReport>> {
        let mut reports = self.recorded()?;
        let theta = &self.model()?.theta;
        let summaries = self.summaries();
        let exact = self.loss.exact();
        for (t, report) in reports.iter_mut().enumerate() {
            if let Some(s) = summaries.map(|s| &s[t]) {
                let loss = s.loss(theta)?;
                report.bound =
                    Some(if exact { s.forgetting(theta)? } else { loss - report.min_loss });
                if exact {
                    report.loss = Some(loss);
                    report.forgetting = report.bound;
                    let errors: Vec<f64> =
                        s.excess(theta)?.iter().zip(s.residual()).map(|(e, c)| e + c).collect();
                    report.r2 = Some(r_squared(s, theta, &errors, self.settings.accumulator));
                    report.mse = Some(errors.iter().map(|e| e / s.n()).collect());
                }
            }
        }
        Ok(reports)
    }

    /// `Σ α_t F_t(θ)`: the weighted mean forgetting of the current model (or its bound, for a loss
    /// that is only bounded). Exact in every memory: `L_pooled(θ) − Σ α_t min L_t`.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn mean_forgetting(&self) -> Result<f64> {
        let theta = &self.model()?.theta;
        let pool = self.pool()?;
        let excess = pool.summary.loss(theta)? - pool.floor / pool.summary.n();
        Ok(excess.max(0.0))
    }
}

/// `1 − Σe²/Σ(y−ȳ)²` of each target; for a target that is constant up to rounding 1 if it is hit up to rounding, else 0.
pub(crate) fn r_squared(
    task: &Summary,
    theta: &Theta,
    errors: &[f64],
    accumulator: Accumulator,
) -> Vec<f64> {
    let still = task.rounding(&Theta::zeros(task.width(), task.targets()), accumulator);
    let hit = task.rounding(theta, accumulator);
    let totals = task.total_squares();
    (0..errors.len())
        .map(|k| match (totals[k] > still[k], errors[k] > hit[k]) {
            (true, _) => 1.0 - errors[k] / totals[k],
            (false, true) => 0.0,
            (false, false) => 1.0,
        })
        .collect()
}
