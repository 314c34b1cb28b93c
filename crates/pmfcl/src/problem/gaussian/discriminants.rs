//! Linear discriminant analysis from a pooled one-hot summary.
//!
//! Every class is normal around its own mean with one covariance `Σ` for all:
//!
//! ```text
//! log p(x, k) = −½ (x−μ_k)ᵀ Σ⁻¹ (x−μ_k) − ½ log det 2πΣ + log π_k
//! ```
//!
//! Counts, means and scatter are sums over rows, so the model does not depend on the order or the split of
//! tasks, merges, and is exact after a removal; a class that appears later is a column of zeros before.
//!
//! **Shrinkage.** `S` is the within-class scatter over `N − K` (over `N` for [`Shrinkage::Identity`]). `Σ = (1−s) S + s diag(S)` does not depend on
//! the features' units. Left to itself, `s = λ/(1+λ)` within `[10⁻⁸, 1]`, where `λ` is the ridge that generalised cross-validation
//! chooses for least squares of the class indicators on standardized features: the least
//!
//! ```text
//! RSS(λ) / (1 − 1.4 df(λ)/N)²
//! ```
//!
//! Degrees of freedom count 1.4 times, which keeps the shrinkage of 50 to 100 rows from collapsing. All of it follows from the
//! pool, continuously, so it does not depend on the order or the split of tasks. With one class so far there is nothing to regress
//! on; then `s` is the share of the off-diagonal correlations' squares that chance alone would give normal data,
//!
//! ```text
//! s = Σ_{i≠j} (1 − r_ij²)² / ((N − K) Σ_{i≠j} r_ij²)        within [10⁻⁸, 1]
//! ```
//!
//! (Schäfer and Strimmer 2005 with the variance of a normal sample's correlation).
//!
//! **Features that do not vary.** One that is constant in all rows counts nothing. One that is constant
//! within every class but differs between classes is given `10⁻⁶` of its total variance, or the variance of the least
//! spread that can be told from rounding, whichever is larger. With no more
//! samples than classes there is no within-class scatter at all: the total variances stand in for it.

use faer::Mat;

use super::Shrinkage;
use super::scatter::{Scatter, Within, scaled_products};
use crate::error::{Error, Result};
use crate::kernel::{column_tiles, decompose_in_place, each};
use crate::solve::ridge;
use crate::summary::{LEAST_SPREAD, Summary, WIDE_DESIGN, dot};
use crate::theta::Theta;

/// Least within-class variance of a feature, as a share of its total variance.
const LEAST_VARIANCE: f64 = 1e-6;
/// Least automatic shrinkage: keeps the covariance of dependent features invertible.
const LEAST_SHRINKAGE: f64 = 1e-8;
/// A covariance of which less than this share is not diagonal is taken for diagonal where its trace is asked for.
const NEARLY_DIAGONAL: f64 = 1e-6;
/// A fitted gaussian model.
#[derive(Debug, Clone)]
#[doc(hidden)] // a part of `Response`
pub struct Discriminants {
    theta: Theta,
    priors: Vec<f64>,
    /// Their logarithms.
    log_priors: Vec<f64>,
    means: Mat<f64>,
    shrinkage: f64,
    /// Features that vary, and `1/√` of the scale each is measured in.
    active: Vec<usize>,
    inverse: Vec<f64>,
    root: Root,
    /// `x̄`, and `Σ^{−1/2}(μ_k − x̄)` in columns.
    centre: Vec<f64>,
    white_means: Mat<f64>,
    /// Weight of each class in the pool.
    counts: Vec<f64>,
    /// What a row adds to `Σ` is this times its weight times the square of its distance from the mean of its class.
    unit: f64,
    effective_features: f64,
}

/// `Σ` on scaled features, factored.
#[derive(Debug, Clone)]
enum Root {
    /// Upper triangle `L`, `Σ = LᵀL`.
    Triangle(Mat<f64>),
    /// `Σ⁺ = V diag(1/λ²) Vᵀ`: without shrinkage, dependent features leave `Σ` singular.
    Spectral { v: Mat<f64>, lambda: Vec<f64> },
}

impl Discriminants {
    /// Fits the model to a pooled one-hot summary (intercept in column 0) that stands for `samples` rows; the automatic shrinkage of
    /// features that are `bounded` has the lower bound of their ridge.
    ///
    /// Cost: `O(m³)`.
    ///
    /// # Errors
    /// When the summary is empty, or a decomposition does not converge.
    pub fn new(
        pooled: &Summary,
        samples: f64,
        shrinkage: Shrinkage,
        bounded: bool,
    ) -> Result<Self> {
        let shrunk = match shrinkage {
            Shrinkage::Auto => true,
            Shrinkage::Diagonal(s) | Shrinkage::Identity(s) | Shrinkage::Ridge(s) => s > 0.0,
        };
        let scatter = if shrunk && pooled.width() > WIDE_DESIGN {
            Scatter::of_products(pooled)?
        } else {
            Scatter::of(pooled)?
        };
        let d = scatter.total.len();
        let freedom = samples - scatter.present() as f64;
        let known = freedom > 0.5;
        // GᵀG / n is on the scale of the preference; N/(N−K) makes it unbiased, which `Identity` leaves out.
        let unbiased =
            if matches!(shrinkage, Shrinkage::Identity(_)) { 1.0 } else { samples / freedom };
        let share = if known { unbiased / scatter.n } else { 0.0 };
        let within: Vec<f64> = scatter.within_squares().iter().map(|v| v * share).collect();
        let variance = |j: usize| {
            let total = scatter.total[j] / scatter.n;
            let resolved = LEAST_SPREAD * LEAST_SPREAD * (total + scatter.centre[j].powi(2));
            if known { within[j].max(LEAST_VARIANCE * total).max(resolved) } else { total }
        };
        let active: Vec<usize> = (0..d).filter(|&j| scatter.total[j] > 0.0).collect();
        let q = active.len();
        let sphere = (0..d).map(variance).sum::<f64>() / d as f64;
        let scales: Vec<f64> = active
            .iter()
            .map(|&j| match shrinkage {
                Shrinkage::Auto | Shrinkage::Diagonal(_) => variance(j),
                Shrinkage::Identity(_) | Shrinkage::Ridge(_) => sphere,
            })
            .collect();
        let inverse: Vec<f64> = scales.iter().map(|v| 1.0 / v.sqrt()).collect();
        let scaled = match &scatter.within {
            Within::Root(g) => Scaled::Root(Mat::from_fn(g.nrows(), q, |i, j| {
                g[(i, active[j])] * share.sqrt() * inverse[j]
            })),
            Within::Products { about_centre, between } => {
                let factors: Vec<f64> = inverse.iter().map(|v| v * share.sqrt()).collect();
                Scaled::Products(scaled_products(about_centre, between, &active, &factors))
            }
        };
        let (keep, add) = match shrinkage {
            _ if !known => (0.0, 1.0),
            Shrinkage::Auto => {
                let s = if scatter.present() > 1 {
                    let lambda = ridge::of_indicators(pooled, samples, bounded)?;
                    (lambda / (1.0 + lambda)).clamp(LEAST_SHRINKAGE, 1.0)
                } else {
                    scaled.noise_share(q, freedom)
                };
                (1.0 - s, s)
            }
            Shrinkage::Diagonal(s) | Shrinkage::Identity(s) => (1.0 - s, s),
            Shrinkage::Ridge(s) => (1.0, s),
        };
        let (root, spread) = match scaled {
            Scaled::Root(c) => {
                let root = Root::of(&c, keep, add)?;
                let spread = root.whiten(c.transpose().to_owned()).squared_norm_l2();
                (root, spread)
            }
            Scaled::Products(cells) => Root::of_products(cells, q, keep, add)?,
        };
        let effective_features =
            if known && spread > 0.0 { spread * freedom / samples } else { q.max(1) as f64 };
        let mut model = Self {
            centre: scatter.centre.clone(),
            white_means: Mat::zeros(0, 0),
            counts: scatter.counts.clone(),
            unit: keep * share,
            effective_features,
            theta: Theta::zeros(d + 1, scatter.counts.len()),
            log_priors: scatter.counts.iter().map(|c| (c / scatter.n).ln()).collect(),
            priors: scatter.counts.iter().map(|c| c / scatter.n).collect(),
            means: scatter.shifts.clone(),
            shrinkage: add,
            active,
            inverse,
            root,
        };
        model.discriminants(&scatter);
        for j in 0..d {
            for k in 0..scatter.counts.len() {
                model.means[(j, k)] += scatter.centre[j];
            }
        }
        if model.theta.is_finite() {
            return Ok(model);
        }
        Err(Error::Range {
            what: "a coefficient",
            value: f64::INFINITY,
            must: "finite: rescale the features, or give more shrinkage",
        })
    }

    /// `β_k = Σ⁻¹(μ_k − x̄)` and the intercept that goes with it. A shift common to all classes is free; this
    /// one, about the mean of all rows, cancels the least.
    fn discriminants(&mut self, scatter: &Scatter<'_>) {
        let white = self.whiten(&scatter.shifts);
        let beta = self.root.solve_root(&white);
        for (k, prior) in self.priors.iter().enumerate() {
            let column = self.theta.column_mut(k);
            if *prior <= 0.0 {
                // A class without rows has no probability, whatever its column.
                continue;
            }
            for (i, &j) in self.active.iter().enumerate() {
                column[j + 1] = beta[(i, k)] * self.inverse[i];
            }
            let square: f64 = (0..white.nrows()).map(|i| white[(i, k)].powi(2)).sum();
            column[0] = prior.ln() - square / 2.0 - dot(&scatter.centre, &column[1..]);
        }
        self.white_means = white;
    }

    /// `Σ^{−1/2}(x − x̄)` of design rows, one column per row.
    pub(super) fn white_rows(&self, rows: &[f64]) -> Mat<f64> {
        self.root.whiten(self.scaled_rows(rows))
    }

    /// `x − x̄` of design rows, scaled, one column per row.
    pub(super) fn scaled_rows(&self, rows: &[f64]) -> Mat<f64> {
        let m = self.theta.width();
        Mat::from_fn(self.active.len(), rows.len() / m, |i, row| {
            let j = self.active[i];
            (rows[row * m + j + 1] - self.centre[j]) * self.inverse[i]
        })
    }

    /// `μ_k − x̄` of some classes, scaled, one column per class.
    pub(super) fn scaled_shifts(&self, classes: &[usize]) -> Mat<f64> {
        Mat::from_fn(self.active.len(), classes.len(), |i, k| {
            let j = self.active[i];
            (self.means[(j, classes[k])] - self.centre[j]) * self.inverse[i]
        })
    }

    /// The rows of a summary about their own mean, scaled, times `factor`: its square is their scatter.
    pub(super) fn scaled_root(&self, scatter: &Summary, factor: f64) -> Mat<f64> {
        let rows = scatter.rank().saturating_sub(1);
        Mat::from_fn(rows, self.active.len(), |i, j| {
            scatter.entry(i + 1, self.active[j] + 1) * self.inverse[j] * factor
        })
    }

    /// `Σ` on the scaled features as an upper triangle; where it is singular, with the least shrinkage.
    pub(super) fn shared_triangle(&self) -> Result<Mat<f64>> {
        match &self.root {
            Root::Triangle(l) => Ok(l.clone()),
            Root::Spectral { v, lambda } => {
                let along = Mat::from_fn(lambda.len(), v.nrows(), |i, j| lambda[i] * v[(j, i)]);
                match Root::of(&along, 1.0, LEAST_SHRINKAGE)? {
                    Root::Triangle(l) => Ok(l),
                    Root::Spectral { .. } => {
                        Err(Error::State { reason: "a shrunk covariance is singular".to_owned() })
                    }
                }
            }
        }
    }

    /// `Σ^{−1/2}` as a matrix over all features, row after row, so that distances of many rows are one matrix product.
    pub(super) fn whitening(&self) -> Vec<f64> {
        self.whitening_of(&|scaled| self.root.whiten_diagonal(scaled))
    }

    /// The same for another covariance on the scaled features.
    pub(super) fn whitening_of(&self, whiten: &dyn Fn(Mat<f64>) -> Mat<f64>) -> Vec<f64> {
        let (q, d) = (self.active.len(), self.centre.len());
        let scaled = Mat::from_fn(q, q, |i, k| if i == k { self.inverse[i] } else { 0.0 });
        let white = whiten(scaled);
        let mut cells = vec![0.0; white.nrows() * d];
        for (i, row) in cells.chunks_exact_mut(d.max(1)).enumerate() {
            for (k, &j) in self.active.iter().enumerate() {
                row[j] = white[(i, k)];
            }
        }
        cells
    }

    /// `Σ^{−1/2}(μ_k − x̄)` in columns.
    pub(super) fn white_means(&self) -> &Mat<f64> {
        &self.white_means
    }

    /// `x̄`
    pub(super) fn centre(&self) -> &[f64] {
        &self.centre
    }

    /// Weight of a class in the pool.
    pub(super) fn class_weight(&self, k: usize) -> f64 {
        self.counts[k]
    }

    /// What a row adds to `Σ` is this times its weight times the square of its distance from the mean of its class.
    pub(super) fn unit(&self) -> f64 {
        self.unit
    }

    /// `m_eff`: the mean of `d_y²` over the rows learned.
    pub fn effective_features(&self) -> f64 {
        self.effective_features
    }

    /// `Σ^{−1/2} v` for every column of `v` (all features).
    fn whiten(&self, v: &Mat<f64>) -> Mat<f64> {
        let scaled = Mat::from_fn(self.active.len(), v.ncols(), |i, k| {
            v[(self.active[i], k)] * self.inverse[i]
        });
        self.root.whiten(scaled)
    }

    /// Discriminants: `θᵀ(1, x)` is `log p(x, k)` up to a term common to all classes.
    pub fn theta(&self) -> &Theta {
        &self.theta
    }

    /// The shrinkage `s` that was used.
    pub fn shrinkage(&self) -> f64 {
        self.shrinkage
    }

    /// Class shares `π_k`.
    pub fn priors(&self) -> &[f64] {
        &self.priors
    }

    /// Logarithms of the shares of the classes that have rows.
    pub(super) fn log_shares(&self) -> impl Iterator<Item = f64> {
        let shares = self.priors.iter().zip(&self.log_priors);
        shares.filter(|(share, _)| **share > 0.0).map(|(_, log)| *log)
    }

    /// Mean of class `k`, feature by feature.
    pub fn mean(&self, k: usize) -> Vec<f64> {
        (0..self.means.nrows()).map(|j| self.means[(j, k)]).collect()
    }

    /// The loss of this model on a task, and what of it is forgetting; see [`super::Gaussian`].
    /// `None` where a class of the task has no share in the model.
    pub(super) fn on_task(&self, task: &Summary) -> Result<Option<(f64, f64)>> {
        let own = Scatter::of(task)?;
        let shares: Vec<f64> = own.counts.iter().map(|c| c / own.n).collect();
        if shares.iter().zip(&self.priors).any(|(own, ours)| *own > 0.0 && *ours <= 0.0) {
            return Ok(None);
        }
        let moved = Mat::from_fn(own.shifts.nrows(), own.shifts.ncols(), |j, k| {
            if shares[k] > 0.0 {
                own.shifts[(j, k)] + own.centre[j] - self.means[(j, k)]
            } else {
                0.0
            }
        });
        let white = self.whiten(&moved);
        let (mut forgetting, mut entropy) = (0.0, 0.0);
        for (k, &share) in shares.iter().enumerate().filter(|(_, s)| **s > 0.0) {
            let square: f64 = (0..white.nrows()).map(|i| white[(i, k)].powi(2)).sum();
            forgetting += share * (square / 2.0 + (share / self.priors[k]).ln());
            entropy -= share * share.ln();
        }
        let spread = self.whiten(&own.root().transpose().to_owned()).squared_norm_l2() / own.n;
        let least = spread / 2.0 + entropy.max(0.0);
        Ok(Some((least + forgetting.max(0.0), forgetting.max(0.0))))
    }
}

/// The covariance `S` of scaled features.
enum Scaled {
    /// `C` with `S = CᵀC`.
    Root(Mat<f64>),
    /// The upper half of `S`, row-major.
    Products(Vec<f64>),
}

impl Root {
    /// Factors `Σ = keep · S + add · I`, given the upper half of `S`; with it `tr Σ⁻¹S`.
    fn of_products(mut cells: Vec<f64>, q: usize, keep: f64, add: f64) -> Result<(Self, f64)> {
        let trace: f64 = (0..q).map(|i| cells[i * q + i]).sum();
        let rows = cells.chunks_exact_mut(q.max(1)).enumerate().collect();
        each(rows, |(i, row): (usize, &mut [f64])| {
            row[i..].iter_mut().for_each(|v| *v *= keep);
            row[i] += add;
        });
        decompose_in_place(q, 0, &mut cells).ok_or_else(|| Error::Unsupported {
            operation: "a gaussian model",
            reason: "the covariance is not positive definite; give more shrinkage".to_owned(),
        })?;
        let upper = Mat::from_fn(q, q, |i, j| if i <= j { cells[i * q + j] } else { 0.0 });
        drop(cells);
        // tr Σ⁻¹(Σ − add) / keep; near a diagonal Σ that difference is rounding.
        let spread = if keep > NEARLY_DIAGONAL {
            (q as f64 - add * inverse_squares(&upper)) / keep
        } else {
            trace / (keep + add)
        };
        Ok((Self::Triangle(upper), spread))
    }

    /// Factors `keep · CᵀC + add · I`.
    fn of(c: &Mat<f64>, keep: f64, add: f64) -> Result<Self> {
        let (rows, q) = (c.nrows(), c.ncols());
        if add > 0.0 {
            let (a, b) = (keep.sqrt(), add.sqrt());
            let stacked = Mat::from_fn(rows + q, q, |i, j| {
                if i < rows {
                    a * c[(i, j)]
                } else if i - rows == j {
                    b
                } else {
                    0.0
                }
            });
            return Ok(Self::Triangle(stacked.qr().thin_R().to_owned()));
        }
        if rows == 0 || q == 0 {
            return Ok(Self::Spectral { v: Mat::zeros(q, 0), lambda: Vec::new() });
        }
        let svd = c.thin_svd().map_err(|_| Error::Unsupported {
            operation: "a gaussian model",
            reason: "the singular values of the covariance do not converge".to_owned(),
        })?;
        let size = rows.min(q);
        let cut = rows.max(q) as f64 * 16.0 * f64::EPSILON * svd.S()[0];
        let rank = (0..size).take_while(|&i| svd.S()[i] > cut).count();
        Ok(Self::Spectral {
            v: svd.V().subcols(0, rank).to_owned(),
            lambda: (0..rank).map(|i| svd.S()[i] * keep.sqrt()).collect(),
        })
    }

    /// `L⁻ᵀ v`
    fn whiten(&self, mut v: Mat<f64>) -> Mat<f64> {
        match self {
            Self::Triangle(l) => {
                if l.ncols() > 0 {
                    each(column_tiles(v.as_mut(), TILE), |tile| {
                        l.transpose().solve_lower_triangular_in_place(tile);
                    });
                }
                v
            }
            Self::Spectral { v: vectors, lambda } => {
                let mut along = vectors.transpose() * v;
                for i in 0..along.nrows() {
                    for k in 0..along.ncols() {
                        along[(i, k)] /= lambda[i];
                    }
                }
                along
            }
        }
    }

    /// `L⁻ᵀ d` for a diagonal matrix: its columns are zero above the diagonal, and so are those of the result.
    fn whiten_diagonal(&self, mut d: Mat<f64>) -> Mat<f64> {
        let Self::Triangle(l) = self else { return self.whiten(d) };
        let q = l.ncols();
        each(column_tiles(d.as_mut(), TILE).into_iter().enumerate().collect(), |(i, tile)| {
            let from = i * TILE;
            let corner = l.as_ref().submatrix(from, from, q - from, q - from);
            corner.transpose().solve_lower_triangular_in_place(tile.subrows_mut(from, q - from));
        });
        d
    }

    /// `L⁻¹ w`
    fn solve_root(&self, w: &Mat<f64>) -> Mat<f64> {
        let mut w = w.clone();
        match self {
            Self::Triangle(l) => {
                if l.ncols() > 0 {
                    l.solve_upper_triangular_in_place(w.as_mut());
                }
                w
            }
            Self::Spectral { v, lambda } => {
                for i in 0..w.nrows() {
                    for k in 0..w.ncols() {
                        w[(i, k)] /= lambda[i];
                    }
                }
                v * w
            }
        }
    }
}

impl Scaled {
    /// The share of the correlations' squares that is noise; see the module page.
    fn noise_share(&self, q: usize, freedom: f64) -> f64 {
        let made;
        let correlation: &dyn Fn(usize, usize) -> f64 = match self {
            Self::Root(c) => {
                made = c.transpose() * c;
                &|i, j| made[(i, j)]
            }
            Self::Products(cells) => &|i, j| cells[i * q + j],
        };
        let (mut noise, mut squares) = (0.0, 0.0);
        for j in 0..q {
            for i in 0..j {
                let r2 = correlation(i, j).powi(2).min(1.0);
                noise += (1.0 - r2).powi(2);
                squares += r2;
            }
        }
        if squares > 0.0 { (noise / (freedom * squares)).clamp(LEAST_SHRINKAGE, 1.0) } else { 1.0 }
    }
}

/// Columns that one thread solves for at once.
const TILE: usize = 128;

/// `‖L⁻¹‖²` of an upper triangle. Cost: `q³/3` flops.
fn inverse_squares(upper: &Mat<f64>) -> f64 {
    let q = upper.ncols();
    let starts: Vec<usize> = (0..q).step_by(TILE).collect();
    let mut sums = vec![0.0; starts.len()];
    each(starts.into_iter().zip(&mut sums).collect(), |(from, sum): (usize, &mut f64)| {
        // Columns of the inverse end at the diagonal.
        let (to, count) = (q.min(from + TILE), TILE.min(q - from));
        let mut columns = Mat::from_fn(to, count, |i, j| f64::from(u8::from(i == from + j)));
        let corner = upper.as_ref().submatrix(0, 0, to, to);
        corner.solve_upper_triangular_in_place(columns.as_mut());
        *sum = columns.squared_norm_l2();
    });
    sums.iter().sum()
}
