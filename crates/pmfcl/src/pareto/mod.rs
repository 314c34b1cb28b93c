//! The Pareto front: every trade-off between tasks, from summaries alone.
//!
//! For convex losses every Pareto-optimal model minimises some preference `α` on the simplex, and every
//! `α > 0` gives one. So fronts, knees, budgets and certificates are all questions about `α`.
//!
//! Paper: Definitions 3.2–3.4 (`def:pareto-front`), eq. 2 (`eq:mtl_lin_scalar`).
//!
//! * [`PairFront`]: two tasks or groups, one decomposition, then `O(m)` a point; knee and min-max points
//! * [`front`]: any number of tasks along a grid of preferences
//! * [`budget`], [`minmax`]: «task a may lose at most ε», «the worst-off task as well off as can be»; with a learner's own ridge
//!   [`Learner::prefer_budgets`](crate::Learner::prefer_budgets)
//! * `certificate`, `dominates`: is a given model Pareto-optimal, and by how much is it not

mod budget;
mod certificate;
mod choose;
mod pair;

pub use budget::budget;
pub use certificate::{Certificate, certificate, dominates, non_dominated};
pub use choose::{Chosen, minmax, simplex_grid};
pub use pair::{FrontPoint, PairFront};

use crate::error::{Error, Result};
use crate::solve::{Penalty, solve};
use crate::summary::{Summary, pool};
use crate::theta::Theta;

/// `Σ w_t L_t` as one summary.
fn pooled(tasks: &[&Summary], weights: &[f64]) -> Result<Summary> {
    let first = tasks.first().ok_or(Error::NotLearned)?;
    let parts = tasks.iter().zip(weights).filter(|(_, w)| **w > 0.0);
    pool(first.width(), first.targets(), parts.map(|(s, w)| (*s, w / s.n())))
}

/// The model that minimises `Σ α_t L_t`, without a penalty.
pub(crate) fn scalarized(tasks: &[&Summary], alpha: &[f64], intercept: bool) -> Result<Theta> {
    Ok(solve(&pooled(tasks, alpha)?, intercept, Penalty::NONE, None)?.theta)
}

/// Is this a point of the simplex over these tasks?
fn check(tasks: &[&Summary], alpha: &[f64]) -> Result<()> {
    let sum: f64 = alpha.iter().sum();
    if alpha.len() == tasks.len() && alpha.iter().all(|a| *a >= 0.0) && (sum - 1.0).abs() <= 1e-6 {
        return Ok(());
    }
    Err(Error::Preference {
        reason: format!(
            "{} weights that sum to {sum} for {} tasks; one weight a task, 0 or more, sum 1",
            alpha.len(),
            tasks.len()
        ),
    })
}

/// The largest loss any task has without a model: what losses are compared with.
fn scale(tasks: &[&Summary]) -> Result<f64> {
    let first = tasks.first().ok_or(Error::NotLearned)?;
    let nothing = Theta::zeros(first.width(), first.targets());
    tasks.iter().map(|s| s.loss(&nothing)).try_fold(0.0, |most, loss| Ok(f64::max(most, loss?)))
}

/// A model on the front of several tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct ManyPoint {
    /// Its preference.
    pub alpha: Vec<f64>,
    /// Its loss on every task.
    pub losses: Vec<f64>,
    /// Its parameters.
    pub theta: Theta,
}

/// Models on the front of several tasks, one for each preference given; [`simplex_grid`] makes a grid of
/// them.
///
/// Cost: one pool and one solve a point.
///
/// # Errors
/// When a preference is not on the simplex, or the tasks differ in shape.
pub fn front(tasks: &[&Summary], alphas: &[Vec<f64>], intercept: bool) -> Result<Vec<ManyPoint>> {
    alphas
        .iter()
        .map(|alpha| {
            check(tasks, alpha)?;
            let theta = scalarized(tasks, alpha, intercept)?;
            let losses = tasks.iter().map(|s| s.loss(&theta)).collect::<Result<_>>()?;
            Ok(ManyPoint { alpha: alpha.clone(), losses, theta })
        })
        .collect()
}
