//! Counts, means and the within-class scatter of a one-hot summary, in square-root form.
//!
//! With an intercept, row 0 of `R` holds the count and the mean, and the rows `R₁`, `Z₁` below it are
//! those of the centred features. From them alone
//!
//! ```text
//! n_k           = Σ w y_k
//! μ_k − x̄       = R₁ᵀ z_k / n_k
//! within scatter = R₁ᵀ (I − B Bᵀ) R₁,    B = Z₁ diag(n_k)^{−1/2}
//! ```
//!
//! The singular values σ of `B` are the canonical correlations between features and classes. With
//! `B = U diag(σ) Vᵀ` the factor `G = R₁ − U diag(1 − √(1−σ²)) Uᵀ R₁` has `GᵀG` = within scatter, so no
//! squared matrix is ever formed and subtracted: only the `K − 1` directions that tell classes apart pass
//! through a difference at all.

use faer::Mat;

use crate::error::{Error, Result};
use crate::summary::Summary;

/// A direction of which classes leave less than this share has no scatter within them: the root of the rounding left
/// there, 1e-16, would be 1e-8 of its spread.
const SEPARATED: f64 = 1e-10;

/// What a gaussian model needs of a one-hot summary.
#[derive(Debug, Clone)]
pub(super) struct Scatter {
    /// Samples, or the sum of weights.
    pub(super) n: f64,
    /// `n_k`.
    pub(super) counts: Vec<f64>,
    /// `x̄`, without the intercept.
    pub(super) centre: Vec<f64>,
    /// `μ_k − x̄`, features × classes; zero where a class has no rows.
    pub(super) shifts: Mat<f64>,
    /// `G`: `GᵀG` is the within-class scatter.
    pub(super) within: Mat<f64>,
    /// Total scatter of every feature about `x̄`; 0 where the feature is constant.
    pub(super) total: Vec<f64>,
}

impl Scatter {
    /// Reads a summary whose targets are class indicators and whose column 0 is the intercept.
    ///
    /// Cost: `O(r m K)` and the SVD of an `r × K` matrix.
    ///
    /// # Errors
    /// When the summary is empty or the SVD does not converge.
    pub(super) fn of(summary: &Summary) -> Result<Self> {
        if summary.n() <= 0.0 {
            return Err(Error::NotLearned);
        }
        let (d, classes) = (summary.width() - 1, summary.targets());
        let n = summary.n();
        let counts: Vec<f64> = summary.target_mean().iter().map(|share| share * n).collect();
        let centre: Vec<f64> = (1..=d).map(|j| summary.entry(0, j) / summary.entry(0, 0)).collect();
        let rows = summary.rank() - 1;
        let r = Mat::from_fn(rows, d, |i, j| summary.entry(i + 1, j + 1));
        let z = Mat::from_fn(rows, classes, |i, k| summary.row(i + 1).2[k]);
        let mut shifts = r.transpose() * &z;
        for k in 0..classes {
            let scale = if counts[k] > 0.0 { 1.0 / counts[k] } else { 0.0 };
            for j in 0..d {
                shifts[(j, k)] *= scale;
            }
        }
        let total = summary.variances(1)[1..].iter().map(|v| v * n).collect();
        let within = if rows == 0 { r } else { without_between(r, &z, &counts)? };
        Ok(Self { n, counts, centre, shifts, within, total })
    }

    /// Classes that have rows.
    pub(super) fn present(&self) -> usize {
        self.counts.iter().filter(|c| **c > 0.0).count()
    }

    /// `Σ_j G_ij²` of every feature.
    pub(super) fn within_squares(&self) -> Vec<f64> {
        let g = &self.within;
        (0..g.ncols()).map(|j| (0..g.nrows()).map(|i| g[(i, j)] * g[(i, j)]).sum()).collect()
    }
}

/// `(I − U diag(1 − √(1−σ²)) Uᵀ) R₁`
fn without_between(r: Mat<f64>, z: &Mat<f64>, counts: &[f64]) -> Result<Mat<f64>> {
    let b = Mat::from_fn(z.nrows(), z.ncols(), |i, k| {
        if counts[k] > 0.0 { z[(i, k)] / counts[k].sqrt() } else { 0.0 }
    });
    let svd = b.thin_svd().map_err(|_| Error::Unsupported {
        operation: "a gaussian model",
        reason: "the correlations of features and classes do not converge".to_owned(),
    })?;
    let u = svd.U();
    let mut along = u.transpose() * &r;
    for i in 0..along.nrows() {
        let sigma = svd.S()[i].min(1.0);
        let left = (1.0 - sigma) * (1.0 + sigma);
        // 1 − √(1−σ²) without cancellation for small σ.
        let taken = if left < SEPARATED { 1.0 } else { sigma * sigma / (1.0 + left.sqrt()) };
        for j in 0..along.ncols() {
            along[(i, j)] *= taken;
        }
    }
    Ok(r - u * along)
}
