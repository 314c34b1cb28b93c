//! How well a classifier does on rows that are at hand.

use super::{Classifier, Labels};
use crate::error::{Error, Result};
use crate::rows::Rows;

/// Probabilities below this count as this in the log-loss, as in scikit-learn.
const LEAST: f64 = f64::EPSILON;

/// The result of [`Classifier::evaluate`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// Rows that were scored.
    pub rows: usize,
    /// Share of rows whose class is predicted.
    pub accuracy: f64,
    /// Mean of `−log p(class)`; a probability below `2⁻⁵²` counts as that, also for a class never learned.
    pub log_loss: f64,
    /// Expected calibration error: mean gap between confidence and accuracy over 15 equal bins.
    pub calibration_error: f64,
}

impl Classifier {
    /// Accuracy, log-loss and calibration on labelled rows.
    ///
    /// # Errors
    /// As [`Classifier::decision`], and when there are no rows or not one label a row.
    pub fn evaluate(&self, x: Rows<'_>, labels: &Labels) -> Result<Evaluation> {
        if labels.len() != x.len() {
            return Err(Error::Shape {
                what: "the list of labels",
                unit: "rows",
                expected: x.len(),
                found: labels.len(),
            });
        }
        if x.is_empty() {
            return Err(Error::Empty { what: "the table to evaluate on" });
        }
        let places = labels.places(self.classes());
        let proba = self.predict_proba(x)?;
        let (mut right, mut loss) = (0.0, 0.0);
        let mut bins = [(0.0, 0.0); 15];
        for (p, &code) in proba.chunks_exact(self.classes().len()).zip(labels.codes()) {
            let mut best = 0;
            for k in 1..p.len() {
                if p[k] > p[best] {
                    best = k;
                }
            }
            let place = places[code as usize].map(|k| k as usize);
            let hit = f64::from(u8::from(place == Some(best)));
            right += hit;
            loss -= place.map_or(0.0, |k| p[k]).max(LEAST).ln();
            let bin = &mut bins[((p[best] * 15.0) as usize).min(14)];
            *bin = (bin.0 + p[best], bin.1 + hit);
        }
        let n = x.len() as f64;
        Ok(Evaluation {
            rows: x.len(),
            accuracy: right / n,
            log_loss: loss / n,
            calibration_error: bins.iter().map(|(p, hit)| (p - hit).abs()).sum::<f64>() / n,
        })
    }
}
