//! The penalty of losses that are bounded.
//!
//! Tasks whose classes can be separated, or that lack a class, have no minimizer of their own. So the objective carries
//! `(λ/2) Σ_j D_j θ_j²` on the *sum* of losses, `λ = 1` and `D` the feature variances over all rows seen (`Ridge::Auto`): the prior
//! of a standardized coefficient has variance 1, whatever the number of tasks. With `Ridge::Fixed(x)` it is `x` on the mean loss.
//! A task fitted alone carries the same prior with its own variances (the intercept is held too, so that it stays finite where
//! a class is missing); this moves only the anchor, never the bound, which holds at any anchor. Losses of values leave the
//! intercept free: a constant added to all targets must not change the model.

use super::TaskContext;
use super::moments::Moments;
use super::pool::Pool;
use crate::basis::Design;
use crate::error::{Error, Result};
use crate::settings::{Ridge, Settings};
use crate::solve::{Penalty, Rank, Solution, solve};
use crate::summary::{Summary, pool};
use crate::theta::Theta;

/// The automatic prior's hold on the intercept relative to that on a standardized coefficient: enough for a class nobody
/// has seen yet, too little to matter otherwise.
const INTERCEPT: f64 = 1e-2;

/// Solutions that agree to this share of their fitted values are the same, computed in another order.
const SAME: f64 = 1e-7;

/// A penalty `Σ_j D_j θ_j²` and its strength.
#[derive(Debug, Clone)]
pub(super) struct Prior {
    ridge: Ridge,
    /// `D`, one number for each design column.
    metric: Vec<f64>,
    intercept: bool,
}

impl Prior {
    pub(super) fn new(settings: &Settings, design: &Design, moments: &Moments) -> Self {
        let automatic = settings.ridge == Ridge::Auto;
        let mut metric = Vec::with_capacity(design.width());
        if design.intercept() {
            metric.push(if automatic { INTERCEPT } else { 0.0 });
        }
        if automatic || settings.standardize {
            metric.extend(moments.variances());
        } else {
            metric.resize(design.width(), 1.0);
        }
        // Columns that came after the last moments were taken have been zero.
        metric.resize(design.width(), 1.0);
        Self { ridge: settings.ridge.clone(), metric, intercept: design.intercept() }
    }

    /// The same without a hold on the intercept.
    pub(super) fn with_free_intercept(mut self) -> Self {
        if self.intercept {
            self.metric[0] = 0.0;
        }
        self
    }

    /// `λ` on the mean loss of `samples` rows.
    fn strength(&self, samples: f64) -> f64 {
        match self.ridge {
            Ridge::Fixed(x) => x,
            _ => 1.0 / samples,
        }
    }

    /// The penalty on the sum of losses that weigh `total` in all and stand for `samples` rows.
    pub(super) fn penalty(&self, total: f64, samples: f64) -> Vec<f64> {
        self.metric.iter().map(|d| total * self.strength(samples) * d).collect()
    }

    /// The same for a task of `n` samples alone, the intercept held as well.
    pub(super) fn alone(&self, n: f64) -> Vec<f64> {
        let mut penalty = self.penalty(n, n);
        if self.intercept {
            penalty[0] = n * self.strength(n);
        }
        penalty
    }

    /// The minimizer of a pooled quadratic under the prior.
    pub(super) fn solve(&self, pooled: &Summary, samples: f64) -> Result<Solution> {
        let penalty = self.penalty(pooled.n(), samples);
        let solution = solve_penalized(pooled, &penalty, self.intercept)?;
        let penalty = Penalty::new(self.strength(samples), self.ridge == Ridge::Auto)?;
        Ok(Solution { rank: Rank::of(pooled), penalty, ..solution })
    }
}

/// The minimizer of `½‖Rθ − Z‖² + ½ Σ penalty_j θ_j²`.
pub(super) fn solve_penalized(
    quadratic: &Summary,
    penalty: &[f64],
    intercept: bool,
) -> Result<Solution> {
    let (m, p) = (quadratic.width(), quadratic.targets());
    let roots = penalty.iter().enumerate().filter(|(_, v)| **v > 0.0);
    let prior = Summary::diagonal(m, p, roots.map(|(j, v)| (j, v.sqrt(), 0.0)));
    let both = pool(m, p, [(quadratic, 1.0), (&prior, 1.0)].into_iter())?;
    solve(&both, intercept, Penalty::NONE, None)
}

/// Refuses settings a bounded loss cannot work with.
pub(super) fn check(settings: &Settings, loss: &str) -> Result<()> {
    if settings.ridge == Ridge::LeaveOneTaskOut {
        return Err(Error::Unsupported {
            operation: "leaving tasks out",
            reason: format!(
                "the {loss} loss on a left-out task is only bounded; give a ridge, or auto"
            ),
        });
    }
    Ok(())
}

/// The prior of a pool.
pub(super) fn of_pool(context: &TaskContext<'_>, pool: &Pool) -> Result<Prior> {
    let Some(moments) = &pool.moments else {
        return Err(Error::State { reason: "the moments of the features are missing".to_owned() });
    };
    Ok(Prior::new(context.settings, context.design, moments))
}

/// Whether a solution is the one of the pool under the prior.
pub(super) fn follows(prior: &Prior, pool: &Pool, solution: &Solution) -> Result<bool> {
    let again = prior.solve(&pool.quadratic, pool.samples)?;
    Ok(apart(&pool.quadratic, &solution.theta, &again.theta) <= SAME)
}

/// The largest difference of fitted values under two sets of parameters, as a share of the larger ones.
pub(super) fn apart(pooled: &Summary, a: &Theta, b: &Theta) -> f64 {
    let (m, p) = (a.width(), a.targets());
    if (m, p) != (b.width(), b.targets()) {
        return f64::INFINITY;
    }
    let norms: Vec<f64> = pooled.column_squares().iter().map(|s| (s / pooled.n()).sqrt()).collect();
    let (mut gap, mut size) = (0.0_f64, f64::MIN_POSITIVE);
    for k in 0..p {
        let (a, b) = (a.column(k), b.column(k));
        for j in 0..m {
            gap = gap.max((a[j] - b[j]).abs() * norms[j]);
            size = size.max(a[j].abs().max(b[j].abs()) * norms[j]);
        }
    }
    gap / size
}
