//! The temperature of gaussian probabilities.
//!
//! Real data are not normal, and covariances of few rows are too sure of themselves: the discriminants of
//! [`super::Gaussian`] rank classes well but are too large, and their softmax is overconfident. Dividing them by a
//! temperature `T > 1` repairs that and changes no predicted class.
//!
//! [`super::Temperature::Auto`] measures it on rows the model has not seen, while they are at hand: a task is
//! summarized in two halves (even and odd rows, which merge into the task's summary), the model of the past and one
//! half predicts the other, and the log-loss at each of 25 temperatures is kept: 200 bytes a task. `T` minimises
//! their sum over tasks, weighed by samples. A task may hold some classes only, and in other shares than the whole:
//! its rows are told apart among its own classes, at its own shares, so that which classes a task happens to have does
//! not pass for overconfidence. A task of one class says nothing.
//!
//! What a task adds depends on the tasks before it. So `T`, and with it the probabilities, depend on the order of
//! tasks; classes, discriminants, forgetting and everything else remain exact. With `Temperature::Fixed` the
//! probabilities are exact too. Cost: two more solutions a task.

use super::gaussian::{Gaussian, NEVER};
use super::logistic::Kept;
use super::{Classifier, Note, Temperature, count};
use crate::error::{Error, Result};
use crate::rows::Rows;
use crate::summary::{Design, Summary, dot};

/// Temperatures tried: `2^{(g − 4)/4}`, from ½ to 32.
const GRID: usize = 25;
/// Rows of a half that are scored at most.
const SCORED: usize = 2000;

fn at(g: f64) -> f64 {
    2f64.powf((g - 4.0) / 4.0)
}

/// Mean log-loss of a task at each temperature, and the samples it stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Losses {
    samples: f64,
    mean: Vec<f64>,
}

impl Losses {
    /// Samples and losses, end to end: to be kept.
    pub(super) fn to_numbers(&self) -> Vec<f64> {
        [&[self.samples][..], &self.mean].concat()
    }

    /// What [`Losses::to_numbers`] gave; `None` where it cannot have been that.
    pub(super) fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (samples, mean) = numbers.split_first()?;
        let sound = mean.len() == GRID && numbers.iter().all(|v| v.is_finite() && *v >= 0.0);
        sound.then(|| Self { samples: *samples, mean: mean.to_vec() })
    }
}

/// The temperature with the least log-loss over all tasks; 1 where nothing is known.
pub(super) fn best<'a>(tasks: impl Iterator<Item = &'a Losses>) -> f64 {
    let mut sums = [0.0; GRID];
    for task in tasks {
        for (sum, loss) in sums.iter_mut().zip(&task.mean) {
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

impl Classifier {
    /// The temperature probabilities are made with.
    pub fn temperature(&self) -> f64 {
        match self.settings.temperature {
            Temperature::Fixed(t) => t,
            Temperature::Auto => {
                let notes = self.learner.names().filter_map(|name| self.notes.get(name));
                best(notes.filter_map(|note| note.losses.as_ref()))
            }
        }
    }

    /// All that is kept of a task, with its log-losses half by half. `new` are the places of new classes.
    pub(super) fn boil_down_in_halves(
        &self,
        design: &Design,
        x: Rows<'_>,
        codes: &[u32],
        weights: Option<&[f64]>,
        (classes, new, weight): (&[String], &[usize], f64),
    ) -> Result<Kept> {
        let halves = [0, 1].map(|parity| Half::new(&x, codes, weights, parity));
        let mut summaries = Vec::with_capacity(2);
        for (parity, half) in halves.iter().enumerate() {
            let rows = Rows::new(&half.x, x.width())?;
            let summary =
                self.one_hot(design, rows, &half.codes, half.weights.as_deref(), classes.len());
            summaries.push(summary.map_err(|e| e.interleaved(parity as u64))?);
        }
        let summary = summaries[0].merge(&summaries[1])?;
        let past = self.past(summary.n(), weight, new)?;
        let own: Vec<f64> = summary.target_mean();
        let mut losses = Losses { samples: summary.n(), mean: vec![0.0; GRID] };
        let mut scored = 0.0;
        for (known, asked) in [(0, 1), (1, 0)] {
            let (pool, samples) = match &past {
                Some((past, factor)) => (
                    past.merge(&summaries[known].scale(*factor)?)?,
                    self.learner.samples() + summaries[known].n(),
                ),
                None => (summaries[known].clone(), summaries[known].n()),
            };
            let model = Gaussian::new(&pool, samples, self.settings.shrinkage)?;
            scored += halves[asked].score(design, &model, &own, &mut losses.mean)?;
        }
        if scored > 0.0 {
            losses.mean.iter_mut().for_each(|l| *l /= scored);
        }
        let note = Note {
            counts: count(classes, codes, weights),
            separable: None,
            moments: None,
            losses: Some(losses),
        };
        Ok(Kept { least: summary.min_loss(), summary, note })
    }

    /// The pool a task of `n` samples would join, with the factor its rows would have.
    fn past(&self, n: f64, weight: f64, new: &[usize]) -> Result<Option<(Summary, f64)>> {
        let pooled = match self.learner.pooled() {
            Ok(pooled) => pooled,
            Err(Error::NotLearned) => return Ok(None),
            Err(other) => return Err(other),
        };
        let Some((share, fade)) = self.settings.prefer.arrival(n, weight) else {
            return Ok(None);
        };
        let wider = new.iter().try_fold(pooled, |s, &at| s.extend_targets(at, 1))?;
        Ok(Some((wider.scale(fade)?, share / n)))
    }
}

/// Every second row of a task.
struct Half {
    x: Vec<f64>,
    codes: Vec<u32>,
    weights: Option<Vec<f64>>,
}

impl Half {
    fn new(x: &Rows<'_>, codes: &[u32], weights: Option<&[f64]>, parity: usize) -> Self {
        let rows = || (parity..x.len()).step_by(2);
        Self {
            x: rows().flat_map(|i| (0..x.width()).map(move |j| x.get(i, j))).collect(),
            codes: rows().map(|i| codes[i]).collect(),
            weights: weights.map(|w| rows().map(|i| w[i]).collect()),
        }
    }

    /// Adds the log-losses of this half's rows under `model`, among the classes of the task and at its `shares`;
    /// returns the weight of the rows scored. Rows of classes the model has not seen say nothing.
    fn score(
        &self,
        design: &Design,
        model: &Gaussian,
        shares: &[f64],
        sums: &mut [f64],
    ) -> Result<f64> {
        let (m, d, theta) = (design.width(), design.inputs(), model.theta());
        let known: Vec<(usize, f64)> = (0..shares.len())
            .filter(|&k| shares[k] > 0.0 && theta.column(k)[0] > NEVER)
            .map(|k| (k, (shares[k] / model.priors()[k]).ln()))
            .collect();
        let stride = self.codes.len().div_ceil(SCORED).max(1);
        let mut row = vec![0.0; m];
        let mut total = 0.0;
        for i in (0..self.codes.len()).step_by(stride) {
            let Some(y) = known.iter().position(|(k, _)| *k == self.codes[i] as usize) else {
                continue;
            };
            let w = self.weights.as_ref().map_or(1.0, |w| w[i]);
            design.write(&Rows::new(&self.x[i * d..(i + 1) * d], d)?, 0, &mut row, m, None)?;
            let scores: Vec<f64> =
                known.iter().map(|(k, shift)| dot(&row, theta.column(*k)) + shift).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            for (g, sum) in sums.iter_mut().enumerate() {
                let t = at(g as f64);
                let all: f64 = scores.iter().map(|s| ((s - top) / t).exp()).sum();
                *sum += w * (all.ln() - (scores[y] - top) / t);
            }
            total += w;
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_a_parabola_in_log_t_is_found() {
        let mean = (0..GRID).map(|g| (g as f64 - 9.3).powi(2)).collect();
        let found = best([Losses { samples: 3.0, mean }].iter());
        assert!((found / at(9.3) - 1.0).abs() < 1e-12, "{found}");
        let flat = Losses { samples: 3.0, mean: vec![0.0; GRID] };
        assert!((best([flat].iter()) - 1.0).abs() < 1e-15);
    }
}
