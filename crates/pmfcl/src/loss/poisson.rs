//! Poisson loss with the log link, on a bounded domain.

use super::{Loss, Point};
use crate::error::{Error, Result};

/// `e^η − yη`, the Poisson likelihood of a count `y` with rate `e^η` (less `log y!`), for `η ≤ cap`.
///
/// The exponential outgrows every parabola, so **no quadratic bounds this loss for all `η`**. So the loss itself goes on
/// as its tangent beyond the cap: a rate above `e^cap` is charged linearly, not exponentially. That *capped* loss has a
/// bound that holds everywhere, and it is the Poisson likelihood itself wherever predictions stay below the cap. With
/// `s = cap − η > 0` its smallest curvature at `η` is
///
/// ```text
/// c = e^η (e^s − 1)² / 2((s − 1)e^s + 1)
/// ```
///
/// from the parabola that touches the tangent line beyond the cap; it lies between the curvature `e^η` at the row
/// and the largest one, `e^cap`, which serves for `η ≥ cap`.
/// Choose `cap` a little above the logarithm of the largest rate there can be; each unit costs a factor `e` of tightness.
///
/// ```
/// use pmfcl::loss::Poisson;
/// use pmfcl::{Learner, Ridge, Rows, Settings};
/// let settings = Settings { ridge: Ridge::Fixed(1e-9), ..Settings::default() };
/// let mut learner = Learner::with_loss(settings, Poisson::new(3.0)?)?;
/// let model = learner.learn(
///     "counts",
///     Rows::new(&[0.0, 0.0, 1.0, 1.0], 1)?,
///     Rows::new(&[1.0, 3.0, 3.0, 5.0], 1)?,
/// )?;
/// // Two groups with means 2 and 4: the slope is log 2.
/// assert!((model.theta.column(0)[1] - 2f64.ln()).abs() < 1e-6);
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poisson {
    cap: f64,
}

impl Poisson {
    /// Rates up to `e^cap`.
    ///
    /// # Errors
    /// When `cap` is outside −100 to 100.
    pub fn new(cap: f64) -> Result<Self> {
        if cap.abs() <= 100.0 {
            Ok(Self { cap })
        } else {
            Err(Error::Range {
                what: "the cap of Poisson loss",
                value: cap,
                must: "between -100 and 100",
            })
        }
    }

    /// The largest logarithm of a rate.
    pub fn cap(&self) -> f64 {
        self.cap
    }

    /// Value, slope and curvature of the capped exponential.
    fn exponential(self, eta: f64) -> (f64, f64, f64) {
        let top = self.cap.exp();
        if eta >= self.cap {
            // On the tangent. Backwards the exponential bends away upwards from it with at most the curvature of
            // the cap, forwards not at all.
            return (top * (1.0 + eta - self.cap), top, top);
        }
        let (e, s) = (eta.exp(), self.cap - eta);
        let below = if s < 1.0 {
            // (s − 1)e^s + 1 = Σ (k − 1) s^k / k! from k = 2, without the cancellation; 20 terms reach 1e-17.
            let mut term = s;
            (2..22).fold(0.0, |sum, k| {
                term *= s / f64::from(k);
                sum + f64::from(k - 1) * term
            })
        } else {
            (s - 1.0) * s.exp() + 1.0
        };
        // Squares of e^s stay finite: as a ratio of e^s − 1 to what is below it.
        let rest = if below > 0.0 { s.exp_m1() * (s.exp_m1() / below) / 2.0 } else { 1.0 };
        (e, e, e * rest)
    }
}

impl Loss for Poisson {
    fn name(&self) -> &'static str {
        "poisson"
    }

    fn at(&self, eta: &[f64], y: &[f64], gradient: &mut [f64]) -> Point {
        let (mut value, mut curvature) = (0.0, 0.0_f64);
        for ((g, eta), y) in gradient.iter_mut().zip(eta).zip(y) {
            let (e, slope, c) = self.exponential(*eta);
            value += e - y * eta;
            *g = slope - y;
            curvature = curvature.max(c);
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
    fn the_bound_lies_above_the_capped_loss_everywhere() {
        let grid: Vec<f64> = (-240..=240).map(|i| f64::from(i) / 20.0).collect();
        for cap in [-1.0, 0.0, 2.0, 5.0] {
            let poisson = Poisson::new(cap).unwrap();
            let (mut g, mut unused) = ([0.0], [0.0]);
            for &eta in &grid {
                let Point { value, curvature } = poisson.at(&[eta], &[3.0], &mut g);
                assert!(curvature > 0.0);
                for &there in &grid {
                    let step = there - eta;
                    let bound = value + g[0] * step + curvature / 2.0 * step * step;
                    let loss = poisson.at(&[there], &[3.0], &mut unused).value;
                    // Sums of a few products below e⁵·24²: rounding 1e-11.
                    assert!(
                        loss <= bound + 1e-10,
                        "cap {cap}: {loss} above {bound}, {eta} → {there}"
                    );
                }
            }
        }
        assert!(Poisson::new(f64::NAN).is_err() && Poisson::new(1000.0).is_err());
    }
}
