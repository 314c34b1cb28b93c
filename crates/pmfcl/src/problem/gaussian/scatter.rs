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

use std::borrow::Cow;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, Par};

use crate::error::{Error, Result};
use crate::kernel::{Gram, each, matrix_of};
use crate::summary::Summary;

/// A direction of which classes leave less than this share has no scatter within them: the root of the rounding left
/// there, 1e-16, would be 1e-8 of its spread.
const SEPARATED: f64 = 1e-10;

/// What a gaussian model needs of a one-hot summary.
#[derive(Debug)]
pub(super) struct Scatter<'a> {
    /// Samples, or the sum of weights.
    pub(super) n: f64,
    /// `n_k`.
    pub(super) counts: Vec<f64>,
    /// `x̄`, without the intercept.
    pub(super) centre: Vec<f64>,
    /// `μ_k − x̄`, features × classes; zero where a class has no rows.
    pub(super) shifts: Mat<f64>,
    pub(super) within: Within<'a>,
    /// Total scatter of every feature about `x̄`; 0 where the feature is constant.
    pub(super) total: Vec<f64>,
}

/// The within-class scatter.
#[derive(Debug)]
pub(super) enum Within<'a> {
    /// `G`: `GᵀG` is the scatter.
    Root(Mat<f64>),
    /// The scatter about the mean of all rows, intercept included, and `B Bᵀ`, features × classes, that is to be subtracted. For wide
    /// designs under shrinkage, which keeps the digits that are left apart from rounding.
    Products { about_centre: Cow<'a, Gram>, between: Mat<f64> },
}

/// Rows of a covariance that one thread fills at once.
const TILE: usize = 128;

impl<'a> Scatter<'a> {
    /// Reads a summary as [`Scatter::of`] does, its scatter as products. Cost: those of the triangle; nothing where it is kept as sums.
    ///
    /// # Errors
    /// When the summary is empty.
    pub(super) fn of_products(summary: &'a Summary) -> Result<Self> {
        if summary.n() <= 0.0 {
            return Err(Error::NotLearned);
        }
        let (d, classes, n) = (summary.width() - 1, summary.targets(), summary.n());
        let counts: Vec<f64> = summary.target_mean().iter().map(|share| share * n).collect();
        let (first, about_centre): (Vec<f64>, Cow<'a, Gram>) = match summary.sums() {
            Some(sums) => (sums.first().to_vec(), Cow::Borrowed(sums.rest())),
            None => {
                let mut gram = Gram::new(d + 1, classes);
                gram.add(summary, 1..summary.rank());
                ((0..=d).map(|j| summary.entry(0, j)).collect(), Cow::Owned(gram))
            }
        };
        let centre = (1..=d).map(|j| first[j] / first[0]).collect();
        let per_class = |k: usize, power: f64| {
            if counts[k] > 0.0 { 1.0 / counts[k].powf(power) } else { 0.0 }
        };
        let column = |power: f64| {
            matrix_of(d, classes, |j, k| about_centre.xy(j + 1, k) * per_class(k, power))
        };
        let (shifts, between) = (column(1.0), column(0.5));
        let total = summary.variances(1)[1..].iter().map(|v| v * n).collect();
        let within = Within::Products { about_centre, between };
        Ok(Self { n, counts, centre, shifts, within, total })
    }

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
        let within = Within::Root(within);
        Ok(Self { n, counts, centre, shifts, within, total })
    }

    /// `G`, of a scatter that was read by [`Scatter::of`].
    pub(super) fn root(&self) -> &Mat<f64> {
        match &self.within {
            Within::Root(g) => g,
            Within::Products { .. } => unreachable!("it was read as products"),
        }
    }

    /// Classes that have rows.
    pub(super) fn present(&self) -> usize {
        self.counts.iter().filter(|c| **c > 0.0).count()
    }

    /// The within-class scatter of every feature.
    pub(super) fn within_squares(&self) -> Vec<f64> {
        let square = |g: &Mat<f64>, j: usize| g.col(j).iter().map(|v| v * v).sum::<f64>();
        match &self.within {
            Within::Root(g) => (0..g.ncols()).map(|j| square(g, j)).collect(),
            Within::Products { about_centre, between } => (0..between.nrows())
                .map(|j| {
                    let taken: f64 = between.row(j).iter().map(|v| v * v).sum();
                    (about_centre.xx(j + 1, j + 1) - taken).max(0.0)
                })
                .collect(),
        }
    }
}

/// The within-class scatter of some features, each times its factor, as the upper half of row-major cells.
pub(super) fn scaled_products(
    about_centre: &Gram,
    between: &Mat<f64>,
    features: &[usize],
    factors: &[f64],
) -> Vec<f64> {
    let q = features.len();
    let taken = Mat::from_fn(q, between.ncols(), |i, k| between[(features[i], k)] * factors[i]);
    let mut cells = vec![0.0; q * q];
    let tiles = cells.chunks_mut(TILE * q.max(1)).zip((0..q).step_by(TILE)).collect();
    each(tiles, |(tile, first): (&mut [f64], usize)| {
        let count = tile.len() / q;
        for (row, i) in tile.chunks_exact_mut(q).zip(first..) {
            let factor = factors[i];
            for ((cell, &j), other) in row.iter_mut().zip(features).zip(factors).skip(i) {
                *cell = about_centre.xx(features[i] + 1, j + 1) * factor * other;
            }
        }
        let columns = MatMut::from_column_major_slice_mut(tile, q, count);
        let columns = columns.subrows_mut(first, q - first);
        let (left, right) = (taken.as_ref().subrows(first, q - first), taken.as_ref());
        let right = right.subrows(first, count).transpose();
        matmul(columns, Accum::Add, left, right, -1.0, Par::Seq);
    });
    cells
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
