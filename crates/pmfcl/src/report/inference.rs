//! Standard errors, intervals and leverage.
//!
//! On the scale of the effective samples `N` ([`Learner::effective_samples`]), with `w_t = N α_t/n_t` what a sample of task `t` counts:
//!
//! ```text
//! A = Σ w_t X_tᵀX_t + NλD        M = Σ w_t² X_tᵀX_t + NλD
//! covariance of the parameters  σ² A⁻¹ M A⁻¹,   σ² = RSS / f
//! f = N − 2 tr(A⁻¹ M₀) + tr(A⁻¹ M A⁻¹ A₀)     A₀, M₀ without the penalty
//! ```
//!
//! Where every sample counts the same, `M = A` and `f = N − df`: the classical `σ² A⁻¹` without a ridge, the Bayesian (credible) one
//! with it. Under other preferences it is the covariance of the weighted estimate, with the same prior.
//!
//! All of it takes equal, independent noise, and a sample weight for that many copies of its row. Where that cannot be,
//! [`Covariance::missing`] says why.

use std::sync::OnceLock;

use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Mat, Par};

use crate::error::{Error, Result};
use crate::kernel::{each, with_threads};
use crate::learner::Learner;
use crate::report::distributions::student_quantile;
use crate::report::{MissingReason, SampleWeights};
use crate::rows::Rows;
use crate::solve::weights;
use crate::summary::{Summary, dot, pool};
use crate::theta::Theta;

/// Share of what cancels in a cell that may be left over before a row counts as outside the span of
/// the rows seen. Cell by cell, so that units do not matter.
const OUTSIDE: f64 = 1e-9;

/// Below this share of missing samples, `1 − N/Σn_t`, every sample counts the same: weights then differ by a millionth at most.
const EVEN: f64 = 1e-12;

/// Fewest degrees of freedom that are a base for intervals: below, quantiles of Student's t grow without limit.
const LEAST_FREEDOM: f64 = 1.0 - 1e-9;

/// Columns from which on degrees of freedom are found by blocked solutions, and rows that are solved for together.
const WIDE: usize = 64;
const TOGETHER: usize = 128;

/// The covariance of the parameters in factored form, and the noise level of each target.
#[derive(Debug, Clone)]
#[doc(hidden)] // for cli, python, report
pub struct Covariance {
    /// `T` in echelon form, `A = TᵀT`.
    root: Summary,
    /// `K` with `M = KᵀK`, where that is not `A`.
    middle: Option<Summary>,
    /// `Q` and `L` of `Tᵀ = Q L`, made when first asked for.
    turned: OnceLock<(Mat<f64>, Mat<f64>)>,
    samples: f64,
    freedom: f64,
    sigma: Vec<f64>,
    missing: Option<MissingReason>,
    approximate: bool,
}

impl Covariance {
    /// Predicts with intervals; see [`predict_intervals`]. For rows that come in chunks.
    ///
    /// # Errors
    /// As [`predict_intervals`].
    pub fn intervals(
        &self,
        learner: &Learner,
        x: Rows<'_>,
        level: f64,
    ) -> Result<Vec<Vec<Interval>>> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::Range { what: "interval", value: level, must: "between 0 and 1" });
        }
        if let Some(reason) = self.missing {
            let advice = match reason {
                MissingReason::NoFreedom => "; use a larger ridge, or `auto`",
                _ => "",
            };
            return Err(Error::Unsupported {
                operation: "an interval",
                reason: format!("{reason}{advice}"),
            });
        }
        let t = student_quantile(f64::midpoint(1.0, level), self.freedom);
        let values = learner.predict(x)?;
        let rows = learner.design_rows(x)?;
        let (m, p) = (learner.solution()?.theta.width(), self.sigma.len());
        Ok(rows
            .chunks_exact(m)
            .zip(values.chunks_exact(p))
            .map(|(row, values)| {
                let reach = self.spread(row).map(|s| t * (1.0 + s).sqrt());
                values
                    .iter()
                    .zip(&self.sigma)
                    .map(|(&value, s)| {
                        let reach = reach.map(|r| r * s).filter(|r| r.is_finite());
                        Interval {
                            value,
                            low: reach.map(|r| value - r),
                            high: reach.map(|r| value + r),
                        }
                    })
                    .collect()
            })
            .collect())
    }

    /// The covariance of a learner's current model.
    ///
    /// Cost: `O(m³)`, and one pool of all tasks where samples count differently.
    ///
    /// # Errors
    /// When nothing has been learned, or samples count differently and summaries lie in a file ([`Learner::unloaded`]).
    pub fn of(learner: &Learner) -> Result<Self> {
        Self::with_weights(learner, SampleWeights::Copies)
    }

    /// The same where sample weights are copies of rows or precisions, as is said. As precisions they say nothing about the
    /// number of rows: what is left of the rows, not of the weights, is the freedom of the noise.
    ///
    /// # Errors
    /// As [`Covariance::of`].
    pub fn with_weights(learner: &Learner, weights: SampleWeights) -> Result<Self> {
        with_threads(learner.settings().threads, || Self::of_pool(learner, weights))
    }

    fn of_pool(learner: &Learner, weights: SampleWeights) -> Result<Self> {
        let model = learner.solution()?;
        let pooled = &learner.pool()?.quadratic;
        let samples = learner.effective_samples()?;
        let pooled = pooled.scale(samples / pooled.n())?;
        let penalty = penalty_rows(&pooled, learner, samples);
        let (m, p) = (pooled.width(), pooled.targets());
        let with_penalty = |rows: &Summary| pool(m, p, [(rows, 1.0), (&penalty, 1.0)].into_iter());
        let even = samples >= (1.0 - EVEN) * learner.samples();
        let squared = if even { None } else { squared_weights(learner, samples)? };
        let root = with_penalty(&pooled)?;
        let middle = squared.as_ref().map(with_penalty).transpose()?;
        let mut found = Self::from_root(root, middle, samples);
        found.approximate = !even && squared.is_none();
        found.freedom = found.freedom_left(&pooled, squared.as_ref());
        if let (SampleWeights::Precision, Some(rows)) = (weights, learner.pool()?.rows) {
            // As many rows as samples, the same share of them effective.
            found.freedom += samples * (rows as f64 / learner.samples() - 1.0);
        }
        let own = model.penalty.own_ridges().map(|_| MissingReason::OwnRidges);
        found.missing = MissingReason::of_learner(learner, weights)
            .or(own)
            .or_else(|| (found.freedom < LEAST_FREEDOM).then_some(MissingReason::NoFreedom));
        if found.missing.is_none() {
            let errors = pooled.excess(&model.theta)?;
            // Residuals that are rounding say that the noise is below it, not that it is as small as they are.
            let rounding = pooled.rounding(&model.theta, learner.accumulator());
            found.sigma = (0..p)
                .map(|k| {
                    let squares = (errors[k] + pooled.residual()[k]).max(rounding[k]);
                    (squares / found.freedom).sqrt()
                })
                .collect();
        }
        Ok(found)
    }

    fn from_root(root: Summary, middle: Option<Summary>, samples: f64) -> Self {
        let (freedom, sigma, turned) = (0.0, Vec::new(), OnceLock::new());
        Self { root, middle, turned, samples, freedom, sigma, missing: None, approximate: false }
    }

    /// `Q` and `L`. Cost: `O(m³)` the first time.
    fn turned(&self) -> (&Mat<f64>, &Mat<f64>) {
        let (q, l) = self.turned.get_or_init(|| {
            let root = &self.root;
            let transposed = Mat::from_fn(root.width(), root.rank(), |j, i| root.entry(i, j));
            let qr = transposed.qr();
            (qr.compute_thin_Q(), qr.thin_R().to_owned())
        });
        (q, l)
    }

    /// `f`, row by row of the summaries, so that the units of columns do not matter; `squared` stands for `M₀` where that is not `A₀`.
    fn freedom_left(&self, pooled: &Summary, squared: Option<&Summary>) -> f64 {
        let dense = |s: &Summary, i: usize| {
            let (pivot, r, _) = s.row(i);
            let mut row = vec![0.0; s.width()];
            row[pivot..pivot + r.len()].copy_from_slice(r);
            row
        };
        let rows = squared.unwrap_or(pooled);
        let fitted = self.inverse_squares(rows).unwrap_or_else(|| {
            let square =
                |i| self.root.coordinates(&dense(rows, i)).0.iter().map(|a| a * a).sum::<f64>();
            (0..rows.rank()).map(square).sum()
        });
        let Some(middle) = &self.middle else { return self.samples - fitted };
        let spread: f64 = (0..pooled.rank())
            .map(|i| self.through(middle, &self.root.coordinates(&dense(pooled, i)).0))
            .sum();
        self.samples - 2.0 * fitted + spread
    }

    /// `xᵀA⁻¹x`, summed over the rows of a summary, many at a time; `None` where `T` is narrow or has no inverse.
    ///
    /// Cost: `m³/3` flops.
    fn inverse_squares(&self, s: &Summary) -> Option<f64> {
        let m = self.root.width();
        if m < WIDE || self.root.rank() < m {
            return None;
        }
        let mut lower = Mat::<f64>::zeros(m, m);
        for (pivot, r, _) in self.root.iter() {
            lower.col_as_slice_mut(pivot)[pivot..][..r.len()].copy_from_slice(r);
        }
        let starts: Vec<usize> = (0..s.rank()).step_by(TOGETHER).collect();
        let mut sums = vec![0.0; starts.len()];
        each(starts.into_iter().zip(&mut sums).collect(), |(start, sum): (usize, &mut f64)| {
            // Rows begin at ascending pivots, so before the first of them all are 0.
            let first = s.row(start).0;
            let count = TOGETHER.min(s.rank() - start);
            let mut x = Mat::<f64>::zeros(m - first, count);
            for i in 0..count {
                let (pivot, r, _) = s.row(start + i);
                x.col_as_slice_mut(i)[pivot - first..][..r.len()].copy_from_slice(r);
            }
            let corner = lower.as_ref().submatrix(first, first, m - first, m - first);
            solve_lower_triangular_in_place(corner, x.as_mut(), Par::Seq);
            *sum = (0..count).map(|i| dot(x.col_as_slice(i), x.col_as_slice(i))).sum();
        });
        Some(sums.iter().sum())
    }

    /// `xᵀA⁻¹MA⁻¹x` for `x = Tᵀa`: `‖K T⁻¹a‖²`.
    fn through(&self, middle: &Summary, a: &[f64]) -> f64 {
        let mut u = vec![0.0; self.root.width()];
        for (i, a) in a.iter().enumerate().rev() {
            let (pivot, r, _) = self.root.row(i);
            u[pivot] = (a - dot(&r[1..], &u[pivot + 1..])) / r[0];
        }
        middle.iter().map(|(pivot, r, _)| dot(r, &u[pivot..]).powi(2)).sum()
    }

    /// Samples behind the model, as many as its preference makes of them
    /// ([`Learner::effective_samples`]).
    pub fn samples(&self) -> f64 {
        self.samples
    }

    /// Residual degrees of freedom `f`; `N − df` where every sample counts the same.
    pub fn freedom(&self) -> f64 {
        self.freedom
    }

    /// Noise standard deviation of each target; none where there is a reason in [`Covariance::missing`]. Where the rows
    /// are fitted exactly, it is what rounding may hide.
    pub fn sigma(&self) -> Option<&[f64]> {
        self.missing.is_none().then_some(&self.sigma[..])
    }

    /// Why there are no standard errors and intervals.
    pub fn missing(&self) -> Option<MissingReason> {
        self.missing
    }

    /// Whether errors and intervals are approximate: samples of some tasks count for more than others', and compact memory has
    /// merged the tasks, so their features are taken to be spread alike.
    pub fn approximate(&self) -> bool {
        self.approximate
    }

    /// `xᵀA⁻¹MA⁻¹x`; `None` where `x` is not in the span of the rows seen.
    pub(crate) fn spread(&self, x: &[f64]) -> Option<f64> {
        let (a, outside) = self.root.coordinates(x);
        (outside <= OUTSIDE).then(|| match &self.middle {
            None => dot(&a, &a),
            Some(middle) => self.through(middle, &a),
        })
    }

    /// `L⁻¹Qᵀx`: its square is `xᵀA⁺x`.
    pub(crate) fn half(&self, x: &[f64]) -> Vec<f64> {
        let (q, l) = self.turned();
        let mut u = q.transpose() * Mat::from_fn(x.len(), 1, |j, _| x[j]);
        l.solve_upper_triangular_in_place(u.as_mut());
        (0..u.nrows()).map(|i| u[(i, 0)]).collect()
    }

    /// `A⁺b`
    pub(crate) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let u = self.half(b);
        let mut u = Mat::from_fn(u.len(), 1, |i, _| u[i]);
        let (q, l) = self.turned();
        l.transpose().solve_lower_triangular_in_place(u.as_mut());
        let x = q * u;
        (0..x.nrows()).map(|j| x[(j, 0)]).collect()
    }

    /// Standard error of every parameter, `[target][column]`; `None` where the rows seen do not determine
    /// the parameter, and for all of them where there is a reason in [`Covariance::missing`].
    pub fn standard_errors(&self) -> Vec<Vec<Option<f64>>> {
        let single: Vec<Contrast> = (0..self.root.width()).map(|j| vec![(j, 1.0)]).collect();
        self.contrast_errors(&single)
    }

    /// The same for sums of parameters, `[target][contrast]`. An empty sum is 0, with an error of 0.
    #[doc(hidden)] // for python, report
    pub fn contrast_errors(&self, contrasts: &[Contrast]) -> Vec<Vec<Option<f64>>> {
        let Some(sigma) = self.sigma() else {
            return vec![vec![None; contrasts.len()]; self.root.targets()];
        };
        let mut row = vec![0.0; self.root.width()];
        let spread: Vec<Option<f64>> = contrasts
            .iter()
            .map(|contrast| {
                contrast.iter().for_each(|(j, factor)| row[*j] += factor);
                let spread = self.spread(&row);
                contrast.iter().for_each(|(j, _)| row[*j] = 0.0);
                spread.map(f64::sqrt)
            })
            .collect();
        sigma
            .iter()
            .map(|s| spread.iter().map(|v| v.map(|v| v * s).filter(|v| v.is_finite())).collect())
            .collect()
    }

    /// Leverage `xᵀA⁻¹x` of a design row: its mean over the rows learned is `df/N`; far above that, or
    /// infinite, means nothing like it has been seen.
    pub fn leverage(&self, x: &[f64]) -> f64 {
        let (a, outside) = self.root.coordinates(x);
        if outside <= OUTSIDE { dot(&a, &a) } else { f64::INFINITY }
    }
}

/// The penalty as rows: `√(NλD)`.
fn penalty_rows(pooled: &Summary, learner: &Learner, samples: f64) -> Summary {
    let (ridge, standardize) = learner
        .solution()
        .map_or((0.0, false), |model| (model.penalty.ridge(), model.penalty.standardize()));
    let d = weights(pooled, learner.settings().intercept, standardize);
    let rows = d.iter().enumerate().filter(|(_, d)| **d > 0.0 && ridge > 0.0);
    Summary::diagonal(
        pooled.width(),
        pooled.targets(),
        rows.map(|(j, d)| (j, (samples * ridge * d).sqrt(), 0.0)),
    )
}

/// `Σ w_t² X_tᵀX_t` as a summary; `None` where compact memory has merged the tasks.
fn squared_weights(learner: &Learner, samples: f64) -> Result<Option<Summary>> {
    if learner.is_folded() {
        return Ok(None);
    }
    let tasks = learner.every_summary("an interval under this preference")?;
    let first = tasks.first().ok_or(Error::NotLearned)?;
    let shares: Vec<f64> = learner.tasks()?.iter().map(|t| t.weight).collect();
    let parts = tasks
        .iter()
        .zip(&shares)
        .filter(|(_, share)| **share > 0.0)
        .map(|(task, share)| (&**task, (samples * share / task.n()).powi(2)));
    pool(first.width(), first.targets(), parts).map(Some)
}

/// A sum of parameters: columns of the design, each with its factor.
#[doc(hidden)] // for file, python, report
pub type Contrast = Vec<(usize, f64)>;

/// A prediction with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The predicted value.
    pub value: f64,
    /// Lower end; `None` where the row varies in a direction that no row seen has, so nothing bounds it.
    pub low: Option<f64>,
    /// Upper end; `None` as above.
    pub high: Option<f64>,
}

/// Predicts with intervals that cover a new observation with probability `level`, `[row][target]`.
///
/// `ŷ ± t_f σ √(1 + xᵀA⁻¹MA⁻¹x)`. Assumes equal, independent noise and sample weights that are copies; where tasks conflict,
/// see [`cluster_errors`].
///
/// # Errors
/// When `level` is not between 0 and 1, nothing has been learned, or there is a reason in [`Covariance::missing`].
pub fn predict_intervals(learner: &Learner, x: Rows<'_>, level: f64) -> Result<Vec<Vec<Interval>>> {
    Covariance::of(learner)?.intervals(learner, x, level)
}

/// Standard errors that treat tasks as clusters, `[target][column]`: `A⁻¹ (Σ g_t g_tᵀ) A⁻¹`.
///
/// Where tasks differ, classical errors are far too small (they cover 66 % instead of 95 % in our
/// measurements; these cover 94 %). Use with `T − 1` degrees of freedom.
///
/// # Errors
/// Without per-task summaries, or with a single task.
#[doc(hidden)] // for report
pub fn cluster_errors(learner: &Learner) -> Result<Vec<Vec<f64>>> {
    let width = learner.solution()?.theta.width();
    let single: Vec<Contrast> = (0..width).map(|j| vec![(j, 1.0)]).collect();
    cluster_errors_of(learner, &single)
}

/// The same for sums of parameters, `[target][contrast]`.
///
/// # Errors
/// As [`cluster_errors`].
#[doc(hidden)] // for report
pub fn cluster_errors_of(learner: &Learner, contrasts: &[Contrast]) -> Result<Vec<Vec<f64>>> {
    let tasks = super::conflict::per_task(learner)?;
    if tasks.len() < 2 {
        return Err(Error::Unsupported {
            operation: "cluster-robust errors",
            reason: "they take at least two tasks".to_owned(),
        });
    }
    let theta: &Theta = &learner.solution()?.theta;
    let covariance = Covariance::of(learner)?;
    let shares: Vec<f64> = learner.tasks()?.iter().map(|t| t.weight).collect();
    let mut squares = vec![vec![0.0; contrasts.len()]; theta.targets()];
    for (task, share) in tasks.iter().zip(shares) {
        let gradient = task.gradient(theta)?;
        for (k, squares) in squares.iter_mut().enumerate() {
            let pull: Vec<f64> =
                gradient.column(k).iter().map(|g| g * share * covariance.samples).collect();
            let moved = covariance.solve(&pull);
            for (s, contrast) in squares.iter_mut().zip(contrasts) {
                *s += contrast.iter().map(|(j, factor)| factor * moved[*j]).sum::<f64>().powi(2);
            }
        }
    }
    Ok(squares.into_iter().map(|row| row.into_iter().map(f64::sqrt).collect()).collect())
}
