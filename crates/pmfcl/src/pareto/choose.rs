//! Choosing a point of the front by what it must achieve.

use faer::Mat;
use faer::linalg::solvers::Solve as _;

use crate::error::{Error, Result};
use crate::pareto::{check, pooled, scalarized, scale};
use crate::solve::{Penalty, solve};
use crate::summary::{Summary, dot};
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
/// Convex; solved in its dual, one multiplier a budget, by Newton's method. Cost: one pool and one solve
/// a step, of which there are some ten (more where a budget is all but impossible).
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
    /// Budgets are met, and bind where they have a multiplier, to this share of the loss without a model.
    const TOLERANCE: f64 = 1e-9;
    const STEPS: usize = 200;
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
    let problem = Problem { tasks, alpha, budgets, intercept };
    let mut dual = problem.at(vec![0.0; budgets.len()])?;
    for _ in 0..STEPS {
        if dual.settled(TOLERANCE * scale) {
            break;
        }
        if let Some(missed) = problem.least_excess(&dual.mu)?.filter(|m| *m > TOLERANCE * scale) {
            return Err(Error::Infeasible {
                reason: format!(
                    "whatever the model, the budgets are missed by {missed} on average; loosen one"
                ),
            });
        }
        match problem.ascend(&dual)? {
            Some(higher) => dual = higher,
            None => break,
        }
    }
    let gap = dual.over.iter().copied().fold(0.0, f64::max);
    if gap > 1e-6 * scale {
        return Err(Error::Infeasible {
            reason: format!("the budgets together are missed by {gap}; loosen one of them"),
        });
    }
    Chosen::at(tasks, problem.preference(&dual.mu), intercept, gap)
}

/// `min_θ Σ α_t L_t(θ) + Σ μ_i (F_i(θ) − ε_i)` as a function of the multipliers `μ ≥ 0`: concave, and
/// its gradient is what each budget is exceeded by.
struct Problem<'a> {
    tasks: &'a [&'a Summary],
    alpha: &'a [f64],
    budgets: &'a [(usize, f64)],
    intercept: bool,
}

/// The dual function at a point.
struct Dual {
    mu: Vec<f64>,
    value: f64,
    /// `F_i − ε_i`
    over: Vec<f64>,
    /// `H^{−1/2} ∇F_i`: the second derivatives are minus their inner products.
    halves: Vec<Vec<f64>>,
}

impl Dual {
    /// Every budget met, and met exactly where it has a multiplier.
    fn settled(&self, tolerance: f64) -> bool {
        self.over
            .iter()
            .zip(&self.mu)
            .all(|(over, mu)| *over <= tolerance && (*mu <= 0.0 || *over >= -tolerance))
    }
}

impl Problem<'_> {
    /// `α + μ`, not normalised. A budgeted task without any weight keeps a trace of it, so that among
    /// equally good models the one best for it is looked at.
    fn weights(&self, mu: &[f64]) -> Vec<f64> {
        const TRACE: f64 = 1e-9;
        let mut weights = self.alpha.to_vec();
        for ((task, _), mu) in self.budgets.iter().zip(mu) {
            weights[*task] = (weights[*task] + mu).max(TRACE);
        }
        weights
    }

    fn preference(&self, mu: &[f64]) -> Vec<f64> {
        let weights = self.weights(mu);
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect()
    }

    fn at(&self, mu: Vec<f64>) -> Result<Dual> {
        let weights = self.weights(&mu);
        let pooled = pooled(self.tasks, &weights)?;
        let theta = solve(&pooled, self.intercept, Penalty::NONE, None)?.theta;
        let mut value = 0.0;
        for (task, alpha) in self.tasks.iter().zip(self.alpha) {
            value += alpha * task.loss(&theta)?;
        }
        let (mut over, mut halves) = (Vec::new(), Vec::new());
        for ((task, epsilon), mu) in self.budgets.iter().zip(&mu) {
            let excess = self.tasks[*task].forgetting(&theta)? - epsilon;
            value += mu * excess;
            over.push(excess);
            let gradient = self.tasks[*task].gradient(&theta)?;
            let columns = (0..theta.targets()).map(|k| pooled.coordinates(gradient.column(k)).0);
            halves.push(columns.flatten().collect());
        }
        Ok(Dual { mu, value, over, halves })
    }

    /// A Newton step up, shortened until it climbs; `None` where rounding leaves nothing to climb.
    fn ascend(&self, from: &Dual) -> Result<Option<Dual>> {
        // Budgets that are met and have no multiplier stay out of it.
        let free: Vec<usize> =
            (0..from.mu.len()).filter(|&i| from.mu[i] > 0.0 || from.over[i] > 0.0).collect();
        let curvature = |i: usize, j: usize| dot(&from.halves[free[i]], &from.halves[free[j]]);
        let largest = (0..free.len()).map(|i| curvature(i, i)).fold(f64::MIN_POSITIVE, f64::max);
        let newton = Mat::from_fn(free.len(), free.len(), |i, j| {
            curvature(i, j) + if i == j { 1e-12 * largest } else { 0.0 }
        });
        let mut step = Mat::from_fn(free.len(), 1, |i, _| from.over[free[i]]);
        newton.partial_piv_lu().solve_in_place(step.as_mut());
        let alone = |i: usize| from.over[free[i]] / curvature(i, i).max(1e-12 * largest);
        // Projected on μ ≥ 0 a Newton step may not climb; one multiplier at a time always does.
        for coupled in [true, false] {
            let mut length = 1.0;
            for _ in 0..40 {
                let mut mu = from.mu.clone();
                for (i, &at) in free.iter().enumerate() {
                    let by = if coupled { step[(i, 0)] } else { alone(i) };
                    mu[at] = (mu[at] + length * by).max(0.0);
                }
                let promised: f64 =
                    (0..mu.len()).map(|i| from.over[i] * (mu[i] - from.mu[i])).sum();
                if promised > 0.0 && mu.iter().all(|m| m.is_finite()) {
                    let next = self.at(mu)?;
                    if next.value >= from.value + 1e-4 * promised {
                        return Ok(Some(next));
                    }
                }
                length *= 0.5;
            }
        }
        Ok(None)
    }

    /// The least mean of `F_i − ε_i` over all models, weighted by the multipliers: where it is above zero
    /// no model meets all budgets. Looked at once the multipliers outweigh everything else.
    fn least_excess(&self, mu: &[f64]) -> Result<Option<f64>> {
        let sum: f64 = mu.iter().sum();
        if sum <= 1.0 {
            return Ok(None);
        }
        let mut weights = vec![0.0; self.tasks.len()];
        for ((task, _), mu) in self.budgets.iter().zip(mu) {
            weights[*task] = mu / sum;
        }
        let theta = scalarized(self.tasks, &weights, self.intercept)?;
        let mut excess = 0.0;
        for ((task, epsilon), mu) in self.budgets.iter().zip(mu) {
            excess += mu / sum * (self.tasks[*task].forgetting(&theta)? - epsilon);
        }
        Ok(Some(excess))
    }
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
        for a in &mut alpha {
            *a /= sum;
        }
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
