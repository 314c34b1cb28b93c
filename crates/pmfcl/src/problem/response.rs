//! From parameters to predictions.

use crate::labels::Classes;
use crate::loss::Link;
use crate::summary::dot;
use crate::theta::Theta;

/// How parameters answer for a design row.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export, lab, python, report
pub enum Response {
    /// With values: the linear predictor of each target through a link.
    Values(Link),
    /// With classes: a score for each, the class of the largest, and probabilities by a rule.
    Classes {
        /// How scores become probabilities.
        rule: ClassRule,
        /// For each column of parameters, whether its class has rows; one that has none scores `−∞`.
        present: Vec<bool>,
        /// Whether the first of two classes scores 0 and has no column of its own.
        first_is_zero: bool,
    },
}

/// How the scores of the classes become probabilities.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[doc(hidden)] // for export
pub enum ClassRule {
    /// Clipped to `[0, 1]` and divided by their sum; equal shares of the classes that have rows where that is 0. These
    /// probabilities rank classes; they are **not calibrated**.
    Clip,
    /// Softmax of the scores over a temperature.
    Softmax {
        /// The temperature.
        temperature: f64,
    },
}

impl Response {
    /// Values of design rows, row after row.
    pub(crate) fn values(&self, theta: &Theta, rows: &[f64], out: &mut Vec<f64>) {
        let link = match self {
            Self::Values(link) => *link,
            Self::Classes { .. } => Link::Identity,
        };
        for row in rows.chunks_exact(theta.width()) {
            out.extend((0..theta.targets()).map(|k| link.apply(dot(row, theta.column(k)))));
        }
    }

    /// Scores of design rows, row after row, in the sorted order of the classes.
    pub(crate) fn scores(
        &self,
        theta: &Theta,
        classes: &Classes,
        rows: &[f64],
        out: &mut Vec<f64>,
    ) {
        let Self::Classes { present, first_is_zero, .. } = self else { return };
        let present = |k: usize| present.get(k).copied().unwrap_or(true);
        for row in rows.chunks_exact(theta.width()) {
            out.extend(classes.places().iter().map(|&place| match place as usize {
                0 if *first_is_zero => 0.0,
                place => {
                    let k = place - usize::from(*first_is_zero);
                    if present(k) { dot(row, theta.column(k)) } else { f64::NEG_INFINITY }
                }
            }));
        }
    }

    /// Turns scores of the classes into probabilities, row by row.
    pub(crate) fn probabilities(&self, scores: &mut [f64], classes: usize) {
        let Self::Classes { rule, .. } = self else { return };
        for row in scores.chunks_exact_mut(classes) {
            match rule {
                ClassRule::Clip => clip(row),
                ClassRule::Softmax { temperature } => softmax(row, *temperature),
            }
        }
    }
}

/// Position of the largest score, the first where several are equal.
pub(crate) fn largest(scores: &[f64]) -> u32 {
    let mut best = 0;
    for (k, s) in scores.iter().enumerate() {
        if *s > scores[best] {
            best = k;
        }
    }
    best as u32
}

/// `exp(s_k/T) / Σ exp(s_l/T)`, with the largest subtracted first.
fn softmax(scores: &mut [f64], temperature: f64) {
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
