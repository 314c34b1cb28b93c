//! What a client does with the parameters it is sent: predict.

use super::{Agreement, Broadcast, Goal};
use crate::classify::score;
use crate::error::{Error, Result};
use crate::rows::Rows;
use crate::summary::dot;

/// Rows at a time: a block of design rows stays in cache.
const BLOCK: usize = 512;

impl Agreement {
    /// Predicted values, or scores of the classes, row after row, under parameters the server sent: those of
    /// [`Joint::decision`](super::Joint::decision), to the bit.
    ///
    /// # Errors
    /// When the parameters are of another model, or the inputs have other columns or values that are not finite.
    pub fn decide(&self, sent: &Broadcast, x: Rows<'_>) -> Result<Vec<f64>> {
        let design = self.design();
        let (m, p) = (design.width(), self.targets());
        let shape = (sent.theta.width(), sent.theta.targets());
        if sent.model != self.fingerprint() || shape != (m, p) {
            return Err(Error::Mismatch {
                what: "the model",
                left: format!("{:016x} here", self.fingerprint()),
                right: format!("{:016x} in what was sent", sent.model),
            });
        }
        if x.width() != design.inputs() {
            let (expected, found) = (design.inputs(), x.width());
            return Err(Error::Shape {
                what: "the feature table",
                unit: "columns",
                expected,
                found,
            });
        }
        let mut out = Vec::with_capacity(x.len() * p);
        let mut rows = vec![0.0; BLOCK.min(x.len()) * m];
        let mut from = 0;
        while from < x.len() {
            let block = x.slice(from, (from + BLOCK).min(x.len()));
            let rows = &mut rows[..block.len() * m];
            let written = design.write(&block, 0, rows, m, None);
            written.map_err(|e| Error::from(e).shifted(from as u64))?;
            match self.goal() {
                Goal::Classes(settings) => score(settings.loss, &sent.theta, rows, &mut out),
                Goal::Values { .. } => out.extend(
                    rows.chunks_exact(m)
                        .flat_map(|row| (0..p).map(move |k| dot(row, sent.theta.column(k)))),
                ),
            }
            from += block.len();
        }
        Ok(out)
    }
}
