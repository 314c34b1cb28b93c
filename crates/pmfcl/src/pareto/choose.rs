//! Choosing a point of the front by what it must achieve.

use crate::error::{Error, Result};
use crate::pareto::{check, scalarized, scale};
use crate::summary::Summary;
use crate::theta::Theta;

/// A model chosen from the front.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The preference it minimises.
    pub alpha: Vec<f64>,
    /// Its parameters.
    pub theta: Theta,
    /// Its loss on every task.
    pub losses: Vec<f64>,
    /// By how much the goal may still be missed at most, in units of loss.
    pub gap: f64,
}

impl Chosen {
    fn at(tasks: &[&Summary], alpha: Vec<f64>, intercept: bool, gap: f64) -> Result<Self> {
        let theta = scalarized(tasks, &alpha, intercept)?;
        let losses = tasks.iter().map(|s| s.loss(&theta)).collect::<Result<_>>()?;
        Ok(Self { alpha, theta, losses, gap })
    }
}

/// The model that minimises `Σ α_t L_t` while each budgeted task loses at most its budget,
/// `F_t(θ) ≤ ε_t`.
///
/// Convex; solved in its dual, one multiplier a budget, by bisection on one after the other until none
/// moves. Cost: one pool and one solve for each trial.
///
/// # Errors
/// When the preference is not on the simplex, a budget is negative or names a task twice, or no model
/// meets all of them (to a millionth of the loss without a model).
pub fn budget(
    tasks: &[&Summary],
    alpha: &[f64],
    budgets: &[(usize, f64)],
    intercept: bool,
) -> Result<Chosen> {
    check(tasks, alpha)?;
    let scale = scale(tasks)?;
    for (i, (task, epsilon)) in budgets.iter().enumerate() {
        if !(*epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(Error::Range {
                what: "budget",
                value: *epsilon,
                must: "0 or more, and finite",
            });
        }
        if *task >= tasks.len() || budgets[..i].iter().any(|(t, _)| t == task) {
            return Err(Error::Preference {
                reason: format!("task number {task} is unknown or budgeted twice"),
            });
        }
    }
    /// Multipliers beyond this mean that the budgeted task alone decides, and still misses its budget.
    const CAP: f64 = 1e12;
    const ROUNDS: usize = 60;
    let mut mu = vec![0.0; budgets.len()];
    let weights = |mu: &[f64]| {
        let mut weights = alpha.to_vec();
        for ((task, _), mu) in budgets.iter().zip(mu) {
            weights[*task] += mu;
        }
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect::<Vec<f64>>()
    };
    let forgetting = |mu: &[f64], task: usize| -> Result<f64> {
        tasks[task].forgetting(&scalarized(tasks, &weights(mu), intercept)?)
    };
    for _ in 0..ROUNDS {
        let mut moved = 0.0_f64;
        for (i, (task, epsilon)) in budgets.iter().enumerate() {
            let before = mu[i];
            mu[i] = 0.0;
            // Forgetting falls as the multiplier rises: bracket, then bisect in its logarithm.
            if forgetting(&mu, *task)? > *epsilon {
                let (mut low, mut high) = (1e-12, 1.0);
                mu[i] = high;
                while forgetting(&mu, *task)? > *epsilon && high < CAP {
                    low = high;
                    high *= 16.0;
                    mu[i] = high;
                }
                if high >= CAP {
                    let least = forgetting(&mu, *task)?;
                    if least > *epsilon + 1e-9 * scale {
                        return Err(Error::Infeasible {
                            reason: format!(
                                "task number {task} may lose {epsilon}, but loses {least} at the least \
                                 beside the other budgets"
                            ),
                        });
                    }
                }
                for _ in 0..60 {
                    let middle = (low * high).sqrt();
                    mu[i] = middle;
                    if forgetting(&mu, *task)? > *epsilon {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                mu[i] = high;
            }
            moved = moved.max((mu[i] - before).abs() / (1.0 + before));
        }
        if moved < 1e-9 || budgets.len() < 2 {
            break;
        }
    }
    let chosen = Chosen::at(tasks, weights(&mu), intercept, 0.0)?;
    let mut gap = 0.0_f64;
    for (task, epsilon) in budgets {
        let over = tasks[*task].forgetting(&chosen.theta)? - epsilon;
        gap = gap.max(over);
    }
    if gap > 1e-6 * scale {
        return Err(Error::Infeasible {
            reason: format!("the budgets together are missed by {gap}; loosen one of them"),
        });
    }
    Ok(Chosen { gap, ..chosen })
}

/// The model whose worst loss over all tasks is as small as it can be.
///
/// Maximises `min_θ Σ α_t L_t` over the simplex by multiplicative steps with a certificate: the gap
/// between the worst loss and the weighted one bounds how far from the best it can be. Cost: one pool and
/// one solve a step, at most `steps`.
///
/// # Errors
/// When the tasks differ in shape or there is none.
pub fn minmax(tasks: &[&Summary], intercept: bool, steps: usize) -> Result<Chosen> {
    let count = tasks.len();
    let scale = scale(tasks)?;
    let mut alpha = vec![1.0 / count.max(1) as f64; count];
    let mut best: Option<Chosen> = None;
    let mut floor = f64::NEG_INFINITY;
    let mut rate = 1.0;
    let mut last_value = f64::NEG_INFINITY;
    for _ in 0..steps.max(1) {
        let mut point = Chosen::at(tasks, alpha.clone(), intercept, 0.0)?;
        let value: f64 = point.alpha.iter().zip(&point.losses).map(|(a, l)| a * l).sum();
        let worst = point.losses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        floor = floor.max(value);
        if value < last_value {
            rate *= 0.7;
        }
        last_value = value;
        point.gap = worst;
        if best.as_ref().is_none_or(|b| worst < b.gap) {
            best = Some(point.clone());
        }
        let spread = worst - point.losses.iter().copied().fold(f64::INFINITY, f64::min);
        let reached = best.as_ref().map_or(f64::INFINITY, |b| b.gap);
        if reached - floor <= 1e-9 * floor.abs() + f64::EPSILON * scale || spread <= 0.0 {
            break;
        }
        for (a, l) in alpha.iter_mut().zip(&point.losses) {
            *a *= (rate * (l - value) / spread).exp();
        }
        let sum: f64 = alpha.iter().sum();
        alpha.iter_mut().for_each(|a| *a /= sum);
    }
    let chosen = best.ok_or(Error::NotLearned)?;
    Ok(Chosen { gap: (chosen.gap - floor).max(0.0), ..chosen })
}

/// All points of the simplex over `tasks` tasks whose weights are multiples of `1/steps`.
///
/// There are `C(steps + tasks − 1, tasks − 1)` of them.
pub fn simplex_grid(tasks: usize, steps: usize) -> Vec<Vec<f64>> {
    fn fill(left: usize, tasks: usize, head: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
        if tasks == 1 {
            let mut point = head.clone();
            point.push(left);
            out.push(point);
            return;
        }
        for take in 0..=left {
            head.push(take);
            fill(left - take, tasks - 1, head, out);
            head.pop();
        }
    }
    let mut out = Vec::new();
    if tasks > 0 && steps > 0 {
        fill(steps, tasks, &mut Vec::new(), &mut out);
    }
    out.iter().map(|p| p.iter().map(|&k| k as f64 / steps as f64).collect()).collect()
}
