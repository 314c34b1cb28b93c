//! Norms rows are held to, given by the caller.

use crate::error::{Error, Result};

/// Held so far below a bound that no rounding on the way to a sum can pass it: norms of 10⁵ numbers are right to 10⁻¹¹.
pub(super) const MARGIN: f64 = 1e-9;

/// The largest norms of a row. They must come from what is known of the columns, never from the rows themselves: a bound taken from
/// the data tells of its largest row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    x: f64,
    y: f64,
}

impl Bounds {
    /// `‖φ‖ ≤ x` for the features after the basis, the intercept left out, and `‖y‖ ≤ y` for the targets. Longer ones are
    /// scaled down.
    ///
    /// # Errors
    /// When a bound is not positive, or so large or small that its square leaves double precision.
    pub fn new(x: f64, y: f64) -> Result<Self> {
        for (what, value) in [("the bound on features", x), ("the bound on targets", y)] {
            if !(1e-30..=1e30).contains(&value) {
                return Err(Error::Range { what, value, must: "between 1e-30 and 1e30" });
            }
        }
        Ok(Self { x, y })
    }

    /// Of the features.
    pub fn x(&self) -> f64 {
        self.x
    }

    /// Of the targets.
    pub fn y(&self) -> f64 {
        self.y
    }

    /// Whether the features were longer than the bound.
    pub(super) fn clip_x(&self, row: &mut [f64]) -> bool {
        clip(row, self.x)
    }

    /// Whether the targets were longer than the bound.
    pub(super) fn clip_y(&self, row: &mut [f64]) -> bool {
        clip(row, self.y)
    }
}

/// Scales finite numbers down to a norm just below `bound`; shorter rows are left as they are. Whether they were longer than the bound
/// itself: rows made to have that norm lose the margin alone.
fn clip(row: &mut [f64], bound: f64) -> bool {
    let limit = bound * (1.0 - MARGIN);
    let largest = row.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
    if largest <= 0.0 {
        return false;
    }
    // Relative to the largest, so that nothing overflows.
    let root = row.iter().map(|v| (v / largest) * (v / largest)).sum::<f64>().sqrt();
    if largest * root > limit {
        row.iter_mut().for_each(|v| *v = (*v / largest) * (limit / root));
    }
    largest * root > bound * (1.0 + MARGIN)
}
