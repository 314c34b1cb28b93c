//! The temperature of gaussian probabilities.
//!
//! Real data are not normal, and covariances of few rows are too sure of themselves: discriminants rank classes well but are too
//! large, and their softmax is overconfident. Dividing them by a temperature `T > 1` repairs that and changes no predicted class.
//!
//! [`super::Temperature::Auto`] measures it on rows the model has not seen, while they are available: the rows of a task are divided
//! in two by a hash of their design row, the model of the past and one half predicts the other, and the log-loss at each of 25
//! temperatures is kept: 200 bytes per task. `T` minimises their sum over tasks, weighed by samples. A task may hold some classes
//! only, and in other shares than the whole: its rows are told apart among its own classes, at its own shares, so that which
//! classes a task happens to have does not pass for overconfidence. A task of one class says nothing.
//!
//! What a task adds depends on the tasks before it. So `T`, and with it the probabilities, depend on the order of tasks; classes,
//! discriminants, forgetting and everything else remain exact. With `Temperature::Fixed` the probabilities are exact too. Cost: two
//! more solutions per task.

use super::discriminants::Discriminants;
use crate::error::Result;
use crate::problem::pass::{Block, Partial, RowWork};
use crate::problem::task::CalibrationTable;
use crate::rows::Targets;
use crate::summary::dot;
use crate::theta::Theta;

/// Temperatures tried: `2^{(g − 4)/4}`, from ½ to 32.
pub(super) const GRID: usize = 25;

fn at(g: f64) -> f64 {
    2f64.powf((g - 4.0) / 4.0)
}

/// The temperature with the least log-loss over all tasks; 1 where nothing is known.
pub(super) fn best<'a>(tasks: impl Iterator<Item = &'a CalibrationTable>) -> f64 {
    let mut sums = [0.0; GRID];
    for task in tasks {
        for (sum, loss) in sums.iter_mut().zip(&task.losses) {
            *sum += task.samples * loss;
        }
    }
    let mut low = 0;
    for g in 1..GRID {
        if sums[g] < sums[low] {
            low = g;
        }
    }
    let spread = sums.iter().copied().fold(0.0, f64::max) - sums[low];
    if spread <= 0.0 {
        return 1.0;
    }
    if low == 0 || low == GRID - 1 {
        return at(low as f64);
    }
    // The parabola through the lowest point and its neighbours, in log T.
    let (a, b, c) = (sums[low - 1], sums[low], sums[low + 1]);
    let bend = a - 2.0 * b + c;
    at(low as f64 + if bend > 0.0 { 0.5 * (a - c) / bend } else { 0.0 })
}

impl CalibrationTable {
    /// Whether it has the length and the numbers of one.
    pub fn is_valid(&self) -> bool {
        let numbers = || self.losses.iter().chain([&self.samples]);
        self.losses.len() == GRID && numbers().all(|v| v.is_finite() && *v >= 0.0)
    }
}

/// Which half of a task a row is in: by its design row, so that neither the order of rows nor how they were read matters.
pub(super) fn half(row: &[f64]) -> usize {
    let mut hash = 0x9E37_79B9_7F4A_7C15_u64;
    for v in row {
        hash = (hash ^ (v + 0.0).to_bits()).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        hash ^= hash >> 31;
    }
    ((hash.wrapping_mul(0x94D0_49BB_1331_11EB) >> 63) & 1) as usize
}

/// What rows are scored under: for each half the model of the past and the other half.
#[derive(Debug, Clone)]
pub struct Scoring {
    models: [(Theta, Vec<f64>); 2],
    /// Names of the classes by their columns.
    classes: Vec<String>,
    /// Shares of the classes in the task.
    shares: Vec<f64>,
}

impl Scoring {
    /// `models[h]` knows the past and half `h`.
    pub(super) fn new(models: [&Discriminants; 2], classes: Vec<String>, shares: Vec<f64>) -> Self {
        let keep = |model: &Discriminants| (model.theta().clone(), model.priors().to_vec());
        Self { models: models.map(keep), classes, shares }
    }
}

/// Adds the log-losses of rows: for each temperature, and the weight of the rows scored.
pub(super) struct Score {
    pub(super) scoring: Scoring,
    pub(super) sums: Vec<f64>,
}

impl RowWork for Score {
    fn add(&mut self, block: Block<'_>) -> Result<()> {
        let Targets::Classes { codes, names } = block.rows.y else { return Ok(()) };
        let Scoring { models, classes, shares } = &self.scoring;
        let m = models[0].0.width();
        let place = |name: &String| classes.iter().position(|c| c == name);
        let places: Vec<Option<usize>> = names.iter().map(place).collect();
        let known = models.each_ref().map(|(_, priors)| {
            (0..shares.len())
                .filter(|&k| shares[k] > 0.0 && priors[k] > 0.0)
                .map(|k| (k, (shares[k] / priors[k]).ln()))
                .collect::<Vec<(usize, f64)>>()
        });
        for (i, row) in block.cells.chunks_exact(m).enumerate() {
            // The half the row is not in.
            let other = 1 - half(row);
            let (theta, known) = (&models[other].0, &known[other]);
            let own = places[codes[i] as usize];
            let Some(y) = known.iter().position(|(k, _)| Some(*k) == own) else { continue };
            let w = block.rows.weights.map_or(1.0, |w| w[i]);
            let scores: Vec<f64> =
                known.iter().map(|(k, shift)| dot(row, theta.column(*k)) + shift).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            for (g, sum) in self.sums[..GRID].iter_mut().enumerate() {
                let t = at(g as f64);
                let all: f64 = scores.iter().map(|s| ((s - top) / t).exp()).sum();
                *sum += w * (all.ln() - (scores[y] - top) / t);
            }
            self.sums[GRID] += w;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        Ok(Partial { sums: self.sums, ..Partial::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_a_parabola_in_log_t_is_found() {
        let losses = (0..GRID).map(|g| (g as f64 - 9.3).powi(2)).collect();
        let found = best([CalibrationTable { samples: 3.0, losses }].iter());
        assert!((found / at(9.3) - 1.0).abs() < 1e-12, "{found}");
        let flat = CalibrationTable { samples: 3.0, losses: vec![0.0; GRID] };
        assert!((best([flat].iter()) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn rows_fall_into_two_halves_of_about_the_same_size() {
        let first = (0..1000).filter(|i| half(&[1.0, f64::from(*i) / 7.0]) == 0).count();
        assert!((430..570).contains(&first), "{first}");
        assert_eq!(half(&[0.0, 1.0]), half(&[-0.0, 1.0]));
    }
}
