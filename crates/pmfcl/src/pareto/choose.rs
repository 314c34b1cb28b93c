//! Choosing a point of the front by what it must achieve.

use crate::error::{Error, Result};
use crate::pareto::{scalarized, scale};
use crate::summary::Summary;
use crate::theta::Theta;

/// A model chosen from the front.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for cli, file, python
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
    pub(super) fn at(
        tasks: &[&Summary],
        alpha: Vec<f64>,
        intercept: bool,
        gap: f64,
    ) -> Result<Self> {
        let theta = scalarized(tasks, &alpha, intercept)?;
        let losses = tasks.iter().map(|s| s.loss(&theta)).collect::<Result<_>>()?;
        Ok(Self { alpha, theta, losses, gap })
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
#[doc(hidden)] // for report
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
#[doc(hidden)] // for tests
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
