//! A symmetric system solved whatever its scales, and whatever its rank.

use faer::linalg::solvers::{Llt, Solve};
use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, Side};

/// A pivot below this (of a matrix with unit diagonal) means a direction the rows do not determine.
const RANK: f64 = 1e-13;
/// What is then added to the diagonal: small enough to leave the determined directions their digits, large
/// enough to keep rounding from wandering off along the others.
const DAMPING: f64 = 1e-10;

/// Cholesky of `D^{−1/2} H D^{−1/2}`, `D` the diagonal of `H`: free of the features' units.
#[derive(Debug)]
pub(super) struct Factor {
    llt: Llt<f64>,
    inverse: Vec<f64>,
}

impl Factor {
    /// Factors a positive semi-definite matrix given by its lower triangle. Cost: `m³/3`.
    ///
    /// `None` when it holds numbers that are not finite.
    pub(super) fn new(mut h: Mat<f64>) -> Option<Self> {
        let m = h.nrows();
        if (0..m).any(|j| !h[(j, j)].is_finite()) {
            return None;
        }
        let inverse: Vec<f64> =
            (0..m).map(|j| if h[(j, j)] > 0.0 { 1.0 / h[(j, j)].sqrt() } else { 0.0 }).collect();
        for j in 0..m {
            for i in j..m {
                h[(i, j)] *= inverse[i] * inverse[j];
            }
            h[(j, j)] = 1.0;
        }
        let mut damping = 0.0;
        loop {
            for j in 0..m {
                h[(j, j)] = 1.0 + damping;
            }
            if let Ok(llt) = h.llt(Side::Lower) {
                let least = (0..m).fold(f64::INFINITY, |a, j| a.min(llt.L()[(j, j)].powi(2)));
                if least > RANK || damping > 0.0 {
                    return Some(Self { llt, inverse });
                }
            }
            if damping > 1.0 {
                return None;
            }
            damping = if damping > 0.0 { 100.0 * damping } else { DAMPING };
        }
    }

    /// `x ← H⁻¹ x`
    pub(super) fn solve(&self, mut x: MatMut<'_, f64>) {
        self.scale(x.rb_mut());
        self.llt.solve_in_place(x.rb_mut());
        self.scale(x);
    }

    fn scale(&self, mut x: MatMut<'_, f64>) {
        for k in 0..x.ncols() {
            for (j, s) in self.inverse.iter().enumerate() {
                x[(j, k)] *= s;
            }
        }
    }
}
