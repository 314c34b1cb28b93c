//! Poisson loss with the log link, on a bounded domain.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::loss::{FirstTask, Link, Loss, Point};
use crate::settings::{finite, unknown};

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
/// Without a cap the first task settles it: 2 above the logarithm of its largest count, seven times that rate.
///
/// ```
/// use pmfcl::problem::Poisson;
/// use pmfcl::{Learner, Problem, Ridge, Rows, Settings, TaskRows};
/// let settings = Settings { ridge: Ridge::Fixed(1e-9), ..Settings::default() };
/// let mut learner = Learner::new(Problem::row_wise(Poisson::new(3.0)?), settings)?;
/// let x = Rows::new(&[0.0, 0.0, 1.0, 1.0], 1)?;
/// learner.learn("counts", TaskRows::new(x, Rows::new(&[1.0, 3.0, 3.0, 5.0], 1)?), 1.0)?;
/// // Two groups with means 2 and 4: the slope is log 2.
/// assert!((learner.solution()?.theta.column(0)[1] - 2f64.ln()).abs() < 1e-6);
/// assert!((learner.predict(Rows::new(&[1.0], 1)?)?[0] - 4.0).abs() < 1e-5);
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(hidden)] // for tests
pub struct Poisson {
    cap: Option<f64>,
}

/// Its name.
pub(super) const NAME: &str = "poisson";

/// How far an automatic cap is above the logarithm of the largest count.
const ROOM: f64 = 2.0;

impl Poisson {
    /// Rates up to `e^cap`.
    ///
    /// # Errors
    /// When `cap` is outside −100 to 100.
    pub fn new(cap: f64) -> Result<Self> {
        if cap.abs() <= 100.0 {
            Ok(Self { cap: Some(cap) })
        } else {
            Err(Error::Range {
                what: "the cap of Poisson loss",
                value: cap,
                must: "between -100 and 100",
            })
        }
    }

    /// Rates up to what the first task settles.
    pub fn automatic() -> Self {
        Self { cap: None }
    }

    fn cap(self) -> f64 {
        self.cap.unwrap_or(100.0)
    }

    /// Value, slope and curvature of the capped exponential.
    fn exponential(self, eta: f64) -> (f64, f64, f64) {
        let top = self.cap().exp();
        if eta >= self.cap() {
            // On the tangent. Backwards the exponential bends away upwards from it with at most the curvature of
            // the cap, forwards not at all.
            return (top * (1.0 + eta - self.cap()), top, top);
        }
        let (e, s) = (eta.exp(), self.cap() - eta);
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
    fn spec(&self) -> String {
        self.cap.map_or_else(|| NAME.to_owned(), |cap| format!("{NAME}:{cap}"))
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

    fn second_derivative(&self, eta: &[f64], _: &[f64]) -> Option<f64> {
        let below = eta.iter().filter(|eta| **eta < self.cap());
        Some(below.map(|eta| eta.exp()).fold(0.0, f64::max))
    }

    fn link(&self) -> Link {
        Link::Exp
    }

    fn refuses(&self, y: f64) -> Option<&'static str> {
        if !(y >= 0.0 && y.is_finite()) {
            return Some("a count of 0 or more");
        }
        // Beyond the cap the loss goes on as a line, and with a count above its slope it has no least value.
        (y >= self.cap().exp())
            .then_some("below the largest rate, e^cap; give a larger cap, poisson:CAP")
    }

    /// `ℓ*(s) = r ln r − r` with the rate `r = s + y`, for rates from 0 to `e^cap`.
    fn conjugate(&self, slope: f64, y: f64) -> Option<f64> {
        let rate = slope + y;
        Some(if rate == 0.0 {
            0.0
        } else if rate > 0.0 && rate <= self.cap().exp() {
            rate * rate.ln() - rate
        } else {
            f64::INFINITY
        })
    }

    fn settle(&self, first: &FirstTask) -> Result<Option<Arc<dyn Loss>>> {
        if self.cap.is_some() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self::new(first.range[1].max(1.0).ln() + ROOM)?)))
    }
}

/// `poisson` or `poisson:CAP`.
pub(super) fn parse(parameter: Option<&str>) -> Result<Arc<dyn Loss>> {
    Ok(match parameter {
        None => Arc::new(Poisson::automatic()),
        Some(text) => match finite(text) {
            Some(cap) => Arc::new(Poisson::new(cap)?),
            None => return unknown(text, "a number for CAP in poisson:CAP"),
        },
    })
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
