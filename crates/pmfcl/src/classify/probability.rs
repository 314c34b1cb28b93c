//! From scores to classes and probabilities.

use super::{ClassLoss, Classifier, gaussian};
use crate::error::Result;
use crate::rows::Rows;
use crate::summary::dot;
use crate::theta::Theta;

/// Rows scored at a time: a block of design rows stays in cache.
const BLOCK: usize = 512;

impl Classifier {
    /// Scores of every row, [`Classifier::classes`] end to end: fitted indicators for `squared`,
    /// discriminants for `gaussian`, log-odds against the first class (two classes) or centred log-odds for
    /// `logistic`. A class without rows has none: `−∞`.
    ///
    /// # Errors
    /// When nothing has been learned, or the inputs have other columns or values that are not finite.
    pub fn decision(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        let theta = &self.learner.model()?.theta;
        let mut scores = Vec::with_capacity(x.len() * theta.targets());
        let mut from = 0;
        while from < x.len() {
            let to = (from + BLOCK).min(x.len());
            let rows =
                self.learner.design_rows(x.slice(from, to)).map_err(|e| e.shifted(from as u64))?;
            score(self.settings.loss, theta, &rows, &mut scores);
            from = to;
        }
        Ok(scores)
    }

    /// The class of every row, as a position in [`Classifier::classes`].
    ///
    /// # Errors
    /// As [`Classifier::decision`].
    pub fn predict_codes(&self, x: Rows<'_>) -> Result<Vec<u32>> {
        let scores = self.decision(x)?;
        Ok(scores.chunks_exact(self.classes().len()).map(largest).collect())
    }

    /// The class of every row, by name.
    ///
    /// # Errors
    /// As [`Classifier::decision`].
    pub fn predict(&self, x: Rows<'_>) -> Result<Vec<String>> {
        let codes = self.predict_codes(x)?;
        Ok(codes.iter().map(|&c| self.classes()[c as usize].clone()).collect())
    }

    /// Probabilities of every row, [`Classifier::classes`] end to end; each row sums to 1.
    ///
    /// * `gaussian`: softmax of the discriminants over the temperature.
    /// * `squared`: fitted indicators clipped to `[0, 1]` and divided by their sum (equal shares where all
    ///   are clipped to 0). They rank classes; they are **not calibrated**.
    ///
    /// # Errors
    /// As [`Classifier::decision`].
    pub fn predict_proba(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        let mut scores = self.decision(x)?;
        let temperature = self.temperature();
        for row in scores.chunks_exact_mut(self.classes().len()) {
            match self.settings().loss {
                ClassLoss::Squared => clip(row),
                ClassLoss::Gaussian => softmax(row, temperature),
                ClassLoss::Logistic => softmax(row, 1.0),
            }
        }
        Ok(scores)
    }
}

/// Scores of design rows under parameters of a loss, class after class for each row.
pub(crate) fn score(loss: ClassLoss, theta: &Theta, rows: &[f64], scores: &mut Vec<f64>) {
    let columns = theta.targets();
    let binary = loss == ClassLoss::Logistic && columns == 1;
    let absent: Vec<bool> = (0..columns).map(|k| is_absent(loss, theta.column(k))).collect();
    for row in rows.chunks_exact(theta.width()) {
        if binary {
            scores.push(0.0);
        }
        let own = |k: usize| {
            if absent[k] { f64::NEG_INFINITY } else { dot(row, theta.column(k)) }
        };
        scores.extend((0..columns).map(own));
    }
}

/// Whether this column is of a class without rows: its indicator is 0 everywhere, and so is its fit.
fn is_absent(loss: ClassLoss, column: &[f64]) -> bool {
    match loss {
        ClassLoss::Squared => column.iter().all(|v| *v == 0.0),
        ClassLoss::Gaussian => column[0] <= gaussian::NEVER,
        ClassLoss::Logistic => false,
    }
}

/// Position of the largest score, the first where several are equal.
fn largest(scores: &[f64]) -> u32 {
    let mut best = 0;
    for (k, s) in scores.iter().enumerate() {
        if *s > scores[best] {
            best = k;
        }
    }
    best as u32
}

/// `exp(s_k/T) / Σ exp(s_l/T)`, with the largest taken off first.
pub(super) fn softmax(scores: &mut [f64], temperature: f64) {
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for s in scores.iter_mut() {
        *s = ((*s - top) / temperature).exp();
        sum += *s;
    }
    for s in scores {
        *s /= sum;
    }
}

/// Clips to `[0, 1]` and divides by the sum.
fn clip(scores: &mut [f64]) {
    let possible = scores.iter().filter(|s| **s > f64::NEG_INFINITY).count();
    let mut sum = 0.0;
    for s in scores.iter_mut() {
        if *s > f64::NEG_INFINITY {
            *s = s.clamp(0.0, 1.0);
            sum += *s;
        }
    }
    for s in scores {
        *s = match (*s > f64::NEG_INFINITY, sum > 0.0) {
            (false, _) => 0.0,
            (true, true) => *s / sum,
            (true, false) => 1.0 / possible as f64,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_sum_to_one_whatever_the_scores() {
        for row in [[0.2, -3.0, 5.0], [-1.0, -2.0, f64::NEG_INFINITY], [900.0, 899.0, -1e300]] {
            let (mut a, mut b) = (row, row);
            clip(&mut a);
            softmax(&mut b, 1.0);
            for p in [a, b] {
                assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-15, "{row:?} gives {p:?}");
                assert!(p.iter().all(|v| (0.0..=1.0).contains(v)));
            }
        }
    }
}
