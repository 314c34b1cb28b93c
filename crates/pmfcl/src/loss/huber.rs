//! Huber's loss: squares near the target, absolute values far from it.

use super::{Loss, Point};
use crate::error::{Error, Result};

/// `½e²` for `|e| ≤ δ`, else `δ|e| − ½δ²`, with `e = η − y`; summed over targets.
///
/// Its curvature is 1 near the target and 0 beyond, so curvature 1 bounds it everywhere. The sharp curvature at an
/// error `e` is `min(1, δ/|e|)`: the parabola through `(e, ℓ(e))` that is symmetric about the target stays above
/// (the classic weight of iteratively reweighted least squares). With several targets one curvature must serve
/// all, and the largest does.
///
/// ```
/// use pmfcl::loss::Huber;
/// use pmfcl::{Loss, Point};
/// let huber = Huber::new(1.0)?;
/// let mut slope = [0.0];
/// let Point { value, curvature } = huber.at(&[5.0], &[1.0], &mut slope);
/// assert_eq!((value, slope[0], curvature), (3.5, 1.0, 0.25));
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Huber {
    delta: f64,
}

impl Huber {
    /// Errors beyond `delta` count linearly.
    ///
    /// # Errors
    /// When `delta` is not positive and finite.
    pub fn new(delta: f64) -> Result<Self> {
        if delta > 0.0 && delta.is_finite() {
            Ok(Self { delta })
        } else {
            Err(Error::Range { what: "delta", value: delta, must: "positive and finite" })
        }
    }

    /// Where squares end.
    pub fn delta(&self) -> f64 {
        self.delta
    }
}

impl Loss for Huber {
    fn name(&self) -> &'static str {
        "huber"
    }

    fn at(&self, eta: &[f64], y: &[f64], gradient: &mut [f64]) -> Point {
        let (mut value, mut curvature) = (0.0, 0.0_f64);
        for ((g, eta), y) in gradient.iter_mut().zip(eta).zip(y) {
            let e = eta - y;
            let size = e.abs();
            *g = e.clamp(-self.delta, self.delta);
            if size <= self.delta {
                value += e * e / 2.0;
                curvature = 1.0;
            } else {
                value += self.delta * (size - self.delta / 2.0);
                curvature = curvature.max(self.delta / size);
            }
        }
        Point { value, curvature }
    }

    fn guaranteed(&self) -> bool {
        true
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
