//! Huber's loss: squares near the target, absolute values far from it.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::loss::{FirstTask, Loss, Point};
use crate::settings::{finite, unknown};

/// `½e²` for `|e| ≤ δ`, else `δ|e| − ½δ²`, with `e = η − y`; summed over targets.
///
/// Its curvature is 1 near the target and 0 beyond, so curvature 1 bounds it everywhere. The sharp curvature at an
/// error `e` is `min(1, δ/|e|)`: the parabola through `(e, ℓ(e))` that is symmetric about the target stays above
/// (the classic weight of iteratively reweighted least squares). With several targets one curvature must serve
/// all, and the largest does.
///
/// ```
/// use pmfcl::loss::{Loss, Point};
/// use pmfcl::problem::Huber;
/// let huber = Huber::new(1.0)?;
/// let mut slope = [0.0];
/// let Point { value, curvature } = huber.at(&[5.0], &[1.0], &mut slope);
/// assert_eq!((value, slope[0], curvature), (3.5, 1.0, 0.25));
/// # Ok::<(), pmfcl::Error>(())
/// ```
///
/// Without a `delta` the first task settles it: 1.345 times a robust scale of its residuals (the median of their sizes,
/// as that of normal ones), which keeps 95 % of the efficiency of least squares on normal noise.
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(hidden)] // for tests
pub struct Huber {
    delta: Option<f64>,
}

/// Its name.
pub(super) const NAME: &str = "huber";

/// Where squares end, in standard deviations of the residuals.
const TUNING: f64 = 1.345;

impl Huber {
    /// Errors beyond `delta` count linearly.
    ///
    /// # Errors
    /// When `delta` is not positive and finite.
    pub fn new(delta: f64) -> Result<Self> {
        if delta > 0.0 && delta.is_finite() {
            Ok(Self { delta: Some(delta) })
        } else {
            Err(Error::Range { what: "delta", value: delta, must: "positive and finite" })
        }
    }

    /// Errors count linearly beyond what the first task settles.
    pub fn automatic() -> Self {
        Self { delta: None }
    }
}

/// `huber` or `huber:DELTA`.
pub(super) fn parse(parameter: Option<&str>) -> Result<Arc<dyn Loss>> {
    Ok(match parameter {
        None => Arc::new(Huber::automatic()),
        Some(text) => match finite(text) {
            Some(delta) => Arc::new(Huber::new(delta)?),
            None => return unknown(text, "a number above 0 for DELTA in huber:DELTA"),
        },
    })
}

impl Loss for Huber {
    fn spec(&self) -> String {
        self.delta.map_or_else(|| NAME.to_owned(), |delta| format!("{NAME}:{delta}"))
    }

    fn at(&self, eta: &[f64], y: &[f64], gradient: &mut [f64]) -> Point {
        let delta = self.delta.unwrap_or(f64::INFINITY);
        let (mut value, mut curvature) = (0.0, 0.0_f64);
        for ((g, eta), y) in gradient.iter_mut().zip(eta).zip(y) {
            let e = eta - y;
            let size = e.abs();
            *g = e.clamp(-delta, delta);
            if size <= delta {
                value += e * e / 2.0;
                curvature = 1.0;
            } else {
                value += delta * (size - delta / 2.0);
                curvature = curvature.max(delta / size);
            }
        }
        Point { value, curvature }
    }

    fn guaranteed(&self) -> bool {
        true
    }

    /// `ℓ*(s) = s y + s²/2` for `|s| ≤ δ`.
    fn conjugate(&self, slope: f64, y: f64) -> Option<f64> {
        let inside = slope.abs() <= self.delta.unwrap_or(f64::INFINITY);
        Some(if inside { slope * y + slope * slope / 2.0 } else { f64::INFINITY })
    }

    fn settle(&self, first: &FirstTask) -> Result<Option<Arc<dyn Loss>>> {
        if self.delta.is_some() {
            return Ok(None);
        }
        // Rows that are fitted exactly have no scale; any will do, and one of the size of the targets is safe.
        let spread = (first.range[1] - first.range[0]).max(f64::MIN_POSITIVE);
        let scale = first.scale.filter(|s| *s > 1e-9 * spread).unwrap_or(spread);
        Ok(Some(Arc::new(Self::new(TUNING * scale)?)))
    }

    fn needs_scale(&self) -> bool {
        self.delta.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_lies_above_the_loss_everywhere() {
        let grid: Vec<f64> = (-400..=400).map(|i| f64::from(i) / 20.0).collect();
        for delta in [0.1, 1.0, 7.0] {
            let huber = Huber::new(delta).unwrap();
            let (mut g, mut unused) = ([0.0], [0.0]);
            for &e in &grid {
                let Point { value, curvature } = huber.at(&[e], &[0.0], &mut g);
                for &there in &grid {
                    let step = there - e;
                    let bound = value + g[0] * step + curvature / 2.0 * step * step;
                    let loss = huber.at(&[there], &[0.0], &mut unused).value;
                    // A handful of products of numbers below 400.
                    assert!(loss <= bound + 1e-12, "δ {delta}: {loss} above {bound} at {there}");
                }
            }
        }
        assert!(Huber::new(0.0).is_err() && Huber::new(f64::NAN).is_err());
    }
}
