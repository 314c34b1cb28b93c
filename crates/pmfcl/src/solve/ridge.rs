//! Choosing the ridge from summaries alone: generalised cross-validation and leave-one-task-out.
//!
//! With `R₁` the part of `R` below the intercept and `R₁ D^{−1/2} = U S Vᵀ`, every ridge fit is a filter on
//! `UᵀZ₁`, so a whole path of `λ` costs one SVD, and the coefficients at the chosen `λ` cost nothing more.
//!
//! **The choice does not depend on how rows were split, ordered or merged.** Sums made in another order differ by
//! rounding, so everything the choice rests on is either a continuous function of the pooled summary or a decision
//! taken where the deciding quantity has many correct digits:
//!
//! * a column that is constant next to the intercept is left out and has a coefficient of 0, so rounding is never
//!   standardized to a unit feature; the rank of the summary plays no part;
//! * the search covers a fixed number of decades below and above the largest singular value, whatever the number of rows,
//!   and starts well above what rounding leaves in a direction in which no row varies;
//! * degrees of freedom count 1.2 times in the score, which is infinite where none are left, so with no more rows than
//!   columns the score rises long before the fit interpolates;
//! * a residual below 1e-7 standard deviations of the target counts as that much, so that rounding does not decide
//!   between fits without error;
//! * a minimum is where the slope of the score changes its sign. Comparing scores would find half of its digits. Among
//!   minima of equal score the largest `λ` is taken.

use faer::Mat;

use super::reduced::{Correlations, Reduced};
use crate::basis::Map;
use crate::error::{Error, Result};
use crate::solve::{Outcome, Penalty, Rank, Solution, weights};
use crate::summary::{Summary, WIDE_DESIGN, is_constant};
use crate::theta::Theta;

/// Decades searched below and above the largest squared singular value. A smaller ridge is rounding, a larger one
/// predicts the mean.
const BELOW: u32 = 10;
const ABOVE: u32 = 3;
/// Rounding leaves squared singular values of up to 1e-30 of a column's size (squares of its mean included, which matters
/// where it hardly varies). The search starts at 1e8 times that, so that a direction made of rounding is never fitted.
pub(super) const ROUNDING: f64 = 1e-12;
/// Points per decade at which the sign of the slope is taken.
const PER_DECADE: u32 = 8;
/// Halvings of a bracket between two such points: leaves a relative error of `λ` of 1e-15.
const HALVINGS: u32 = 48;
/// Minima whose scores differ by less than this share are equal.
const TIE: f64 = 1e-9;

/// Degrees of freedom count this many times in the score. Plain cross-validation picks nearly interpolating fits for few
/// rows, with noise estimates near 0; 1.2 to 1.4 is what the field uses against that.
pub(super) const CAUTION: f64 = 1.2;

/// The same where the ridge becomes the shrinkage of a covariance: classes of few rows collapse at 1.2.
pub(super) const CLASS_CAUTION: f64 = 1.4;

/// Share of the largest direction from which on a ridge can be chosen by products of columns: predictions then keep nine digits.
const ACCURATE: f64 = 1e-7;

/// A ridge within this share of its lower bound is the bound, which has no error however small it is.
const AT_BOUND: f64 = 1e-9;

/// Columns from which on the ridge of a basis behind a frozen map is chosen by products: a lower bound keeps it far above rounding.
const WIDE_BOUNDED: usize = 128;

/// The share of a target's variance below which a residual is taken for rounding.
pub(super) const NO_ERROR: f64 = 1e-14;

/// A summary seen through the singular vectors of its penalised part.
///
/// `λ` is on the *mean* scale throughout, as in [`crate::Penalty`]; multiply by the sample count for
/// the textbook's `XᵀX + λI`.
#[derive(Debug, Clone)]
pub struct Spectrum {
    /// Samples `N` behind the summary.
    samples: f64,
    /// `s²/N`, descending.
    values: Vec<f64>,
    /// `Uᵀ(Z₁ − R₁θ₀)`, one row for each value, one column for each target.
    loadings: Mat<f64>,
    /// Right vectors scaled back by `D^{−1/2}`.
    vectors: Mat<f64>,
    /// Around which `λ` is searched.
    scale: f64,
    /// `c` of each target, on the scale of `samples`.
    residual: Vec<f64>,
    /// `Σ loading²/Σ(y−ȳ)²` of each value, over targets that vary: every target in its own variance, so that units do not
    /// choose the ridge.
    pulls: Vec<f64>,
    /// What no ridge explains: `Σ c/Σ(y−ȳ)²`, and the share taken for rounding.
    never: f64,
    /// How many times degrees of freedom count in the score.
    caution: f64,
    intercept: bool,
}

impl Spectrum {
    /// Decomposes a pooled summary that stands for `samples` rows.
    ///
    /// Cost: one SVD, `O(m³)`.
    ///
    /// # Errors
    /// When the SVD does not converge.
    pub fn new(pooled: &Summary, intercept: bool, standardize: bool, samples: f64) -> Result<Self> {
        let d = weights(pooled, intercept, standardize);
        Self::scaled_by(pooled, intercept, &d, samples, None)
    }

    fn scaled_by(
        pooled: &Summary,
        intercept: bool,
        d: &[f64],
        samples: f64,
        origin: Option<&[f64]>,
    ) -> Result<Self> {
        let first = usize::from(intercept);
        let top = usize::from(intercept && pooled.pivots().next() == Some(0));
        let rows = pooled.rank() - top;
        let factor = samples / pooled.n();
        let root = factor.sqrt();
        // A constant column explains nothing, and rounding in it must not.
        let varies = pooled.variances(first);
        let inverse: Vec<f64> = d[first..]
            .iter()
            .zip(&varies[first..])
            .map(|(&d, &v)| if d > 0.0 && v > 0.0 { 1.0 / d.sqrt() } else { 0.0 })
            .collect();
        // Columns that are zero for all rows are not decomposed: of a portfolio most may be masked. None has a pivot, so the
        // left vectors still span all rows of `R`.
        let squares = pooled.column_squares();
        let kept: Vec<usize> = (0..inverse.len()).filter(|&j| squares[first + j] > 0.0).collect();
        let r = Mat::from_fn(rows, kept.len(), |i, j| {
            root * pooled.entry(top + i, kept[j] + first) * inverse[kept[j]]
        });
        let z = Mat::from_fn(rows, pooled.targets(), |i, k| root * pooled.row(top + i).2[k]);
        let svd = r.thin_svd().map_err(|_| Error::Unsupported {
            operation: "choosing the ridge",
            reason: "the singular values of the pooled summary do not converge".to_owned(),
        })?;
        let size = rows.min(kept.len());
        let residual: Vec<f64> = pooled.residual().iter().map(|c| c * factor).collect();
        let mut total = residual.clone();
        for i in 0..rows {
            for (k, t) in total.iter_mut().enumerate() {
                *t += z[(i, k)] * z[(i, k)];
            }
        }
        for (k, t) in total.iter_mut().enumerate() {
            if is_constant(*t, pooled.squares(k) * factor) {
                *t = 0.0;
            }
        }
        let mut vectors = Mat::zeros(inverse.len(), size);
        for i in 0..size {
            for (j, &column) in kept.iter().enumerate() {
                vectors[(column, i)] = svd.V()[(j, i)] * inverse[column];
            }
        }
        let mut distance = z;
        if let Some(origin) = origin {
            for i in 0..rows {
                let (pivot, cells, _) = pooled.row(top + i);
                let at_origin = root * crate::summary::dot(cells, &origin[pivot - first..]);
                for k in 0..pooled.targets() {
                    distance[(i, k)] -= at_origin;
                }
            }
        }
        let values: Vec<f64> = (0..size).map(|i| svd.S()[i] * svd.S()[i] / samples).collect();
        let sizes = pooled.column_squares();
        let sizes = sizes[first..].iter().zip(&inverse).map(|(s, i)| s / pooled.n() * i * i);
        let noise = ROUNDING * sizes.fold(0.0, f64::max);
        let loadings = svd.U().transpose() * distance;
        let share = |k: usize, squares: f64| if total[k] > 0.0 { squares / total[k] } else { 0.0 };
        let targets = 0..pooled.targets();
        let pull = |i: usize| targets.clone().map(|k| share(k, loadings[(i, k)].powi(2))).sum();
        let pulls = (0..values.len()).map(pull).collect();
        let never =
            targets.clone().map(|k| share(k, residual[k]) + share(k, NO_ERROR * total[k])).sum();
        Ok(Self {
            samples,
            pulls,
            never,
            caution: CAUTION,
            scale: values.first().map_or(0.0, |largest| largest.max(noise)),
            values,
            loadings,
            vectors,
            residual,
            intercept,
        })
    }

    #[cfg(test)]
    pub(super) fn largest(&self) -> f64 {
        self.values[0]
    }

    /// Effective number of parameters, `Σ s²/(s²+λ)` and one for the intercept.
    pub fn degrees(&self, ridge: f64) -> f64 {
        let fitted: f64 =
            self.values.iter().map(|s| if *s > 0.0 { s / (s + ridge) } else { 0.0 }).sum();
        fitted + f64::from(u8::from(self.intercept))
    }

    /// Residual sum of squares of every target at `λ`.
    pub fn residuals(&self, ridge: f64) -> Vec<f64> {
        let mut rss = self.residual.clone();
        for (i, s) in self.values.iter().enumerate() {
            let left = if *s > 0.0 { ridge / (s + ridge) } else { 1.0 };
            for (k, r) in rss.iter_mut().enumerate() {
                *r += (left * self.loadings[(i, k)]).powi(2);
            }
        }
        rss
    }

    /// Generalised cross-validation: `N·RSS/(N − df)²`, summed over targets.
    pub fn gcv(&self, ridge: f64) -> f64 {
        let freedom = self.samples - self.degrees(ridge);
        self.samples * self.residuals(ridge).iter().sum::<f64>() / (freedom * freedom)
    }

    /// What the automatic ridge minimises, `(N/(N − 1.2 df))² Σ RSS/Σ(y−ȳ)²`, and its relative derivative by `λ`. One pass,
    /// since the search asks a hundred times.
    ///
    /// Infinite where no degrees of freedom are left: beyond the pole the score would fall again. Without freedom, or with
    /// nothing to explain, more ridge is better.
    fn score_and_slope(&self, ridge: f64) -> (f64, f64) {
        let mut degrees = f64::from(u8::from(self.intercept));
        let (mut unexplained, mut rise, mut gain) = (self.never, 0.0, 0.0);
        for (s, pull) in self.values.iter().zip(&self.pulls) {
            if *s > 0.0 {
                let inverse = 1.0 / (s + ridge);
                let (fitted, left) = (s * inverse, ridge * inverse);
                let shrinks = fitted * inverse;
                degrees += fitted;
                gain += shrinks;
                unexplained += pull * left * left;
                rise += 2.0 * left * shrinks * pull;
            } else {
                unexplained += pull;
            }
        }
        let freedom = self.samples - self.caution * degrees;
        if freedom <= 0.0 || unexplained <= 0.0 {
            return (f64::INFINITY, f64::NEG_INFINITY);
        }
        let score = unexplained * (self.samples / freedom).powi(2);
        (score, rise / unexplained - 2.0 * self.caution * gain / freedom)
    }

    /// `V f(S²) UᵀZ₁`: coefficients without the intercept, one column for each target.
    fn filtered(&self, filter: impl Fn(f64) -> f64) -> Mat<f64> {
        let root = self.samples.sqrt();
        let shrunk = Mat::from_fn(self.values.len(), self.loadings.ncols(), |i, k| {
            let s = self.values[i];
            if s > 0.0 { filter(s) * self.loadings[(i, k)] / root } else { 0.0 }
        });
        &self.vectors * shrunk
    }

    /// Coefficients at `λ`, as a distance from the origin.
    fn coefficients(&self, ridge: f64) -> Mat<f64> {
        self.filtered(|s| s.sqrt() / (s + ridge))
    }

    /// The derivative of [`Self::coefficients`] by `λ`.
    fn coefficient_slopes(&self, ridge: f64) -> Mat<f64> {
        self.filtered(|s| -s.sqrt() / ((s + ridge) * (s + ridge)))
    }
}

/// The `λ` that minimises generalised cross-validation, degrees of freedom counted 1.2 times.
///
/// # Errors
/// When the SVD does not converge.
pub fn by_gcv(pooled: &Summary, intercept: bool, standardize: bool, samples: f64) -> Result<f64> {
    let d = weights(pooled, intercept, standardize);
    if let Some(path) = Path::new(pooled, intercept, &d, samples, Unit::OwnVariance, 0.0) {
        return Ok(path.best);
    }
    Ok(Spectrum::new(pooled, intercept, standardize, samples)?.best())
}

/// The ridge on standardized features that generalised cross-validation chooses for class indicators, all in one unit, degrees of
/// freedom counted 1.4 times. As for values it has a lower bound where features are bounded.
///
/// Cost: one SVD, `O(m³)`.
///
/// # Errors
/// When the SVD does not converge.
pub(crate) fn of_indicators(pooled: &Summary, samples: f64, bounded: bool) -> Result<f64> {
    let d = weights(pooled, true, true);
    let least = if bounded { least_share(samples) } else { 0.0 };
    if let Some(path) = Path::new(pooled, true, &d, samples, Unit::Shared, least) {
        return Ok(path.best);
    }
    let mut spectrum = Spectrum::new(pooled, true, true, samples)?;
    let trace: f64 = spectrum.values.iter().sum();
    spectrum.scale = spectrum.scale.max(beginning_at(least * trace));
    spectrum.join_targets(pooled);
    spectrum.caution = CLASS_CAUTION;
    Ok(spectrum.best())
}

/// What the squares of a target count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Each target in its own variance.
    OwnVariance,
    /// All targets in one unit: class indicators.
    Shared,
}

/// The score of every ridge on a wide design, from products of its columns; see [`super::reduced`]. An SVD of the triangle would cost ten
/// times as much.
struct Path {
    reduced: Reduced,
    squares: Vec<f64>,
    shares: Vec<f64>,
    /// The share taken for rounding.
    never: f64,
    samples: f64,
    caution: f64,
    intercept: bool,
    /// The ridge of least score.
    best: f64,
}

impl Path {
    /// `None` for narrow designs, where nothing varies, and where the best ridge is so small that products have too few digits and the
    /// triangle has more, unless it is the least one looked at: the share `least` of the trace.
    fn new(
        pooled: &Summary,
        intercept: bool,
        d: &[f64],
        samples: f64,
        unit: Unit,
        least: f64,
    ) -> Option<Self> {
        let narrow = if least > 0.0 { WIDE_BOUNDED } else { WIDE_DESIGN };
        if pooled.width() <= narrow {
            return None;
        }
        let found = Correlations::new(pooled, intercept, d);
        let Correlations { products, pulls, squares, largest_square, .. } = found;
        let varies = |k: usize| !is_constant(squares[k], pooled.squares(k) / pooled.n());
        let shares: Vec<f64> = match unit {
            Unit::Shared => vec![1.0; squares.len()],
            Unit::OwnVariance => {
                let share = |k: usize| if varies(k) { 1.0 / squares[k] } else { 0.0 };
                (0..squares.len()).map(share).collect()
            }
        };
        let never = NO_ERROR * squares.iter().zip(&shares).map(|(s, share)| s * share).sum::<f64>();
        let caution = if unit == Unit::Shared { CLASS_CAUTION } else { CAUTION };
        let trace: f64 = (0..products.ncols()).map(|i| products[(i, i)]).sum();
        let reduced = Reduced::new(products, pulls);
        let size = reduced.largest().max(ROUNDING * largest_square);
        let scale = size.max(beginning_at(least * trace));
        let mut path =
            Self { reduced, squares, shares, never, samples, caution, intercept, best: 0.0 };
        path.best = minimise(
            scale,
            |ridge| path.score_and_slope(ridge).0,
            |ridge| path.score_and_slope(ridge).1,
        );
        // Where the score is flat, an error of its slope moves the ridge by far more than its own share.
        let at_bound = path.best <= (1.0 + AT_BOUND) * least * trace;
        let final_sums = pooled.sums().is_some_and(|sums| !sums.is_shrunk());
        let accurate = final_sums || at_bound || path.best >= ACCURATE * size;
        (scale > 0.0 && accurate).then_some(path)
    }

    fn degrees(&self, ridge: f64) -> f64 {
        let fit = self.reduced.fit(ridge, &self.squares, &self.shares);
        fit.degrees + f64::from(u8::from(self.intercept))
    }

    /// As [`Spectrum::score_and_slope`].
    fn score_and_slope(&self, ridge: f64) -> (f64, f64) {
        let fit = self.reduced.fit(ridge, &self.squares, &self.shares);
        let degrees = fit.degrees + f64::from(u8::from(self.intercept));
        let freedom = self.samples - self.caution * degrees;
        let unexplained = fit.unexplained.max(0.0) + self.never;
        if freedom <= 0.0 || unexplained <= 0.0 {
            return (f64::INFINITY, f64::NEG_INFINITY);
        }
        let score = unexplained * (self.samples / freedom).powi(2);
        (score, fit.rise / unexplained - 2.0 * self.caution * fit.gain / freedom)
    }
}

impl Spectrum {
    /// Counts the squares of all targets in one unit.
    fn join_targets(&mut self, pooled: &Summary) {
        let squares =
            |i: usize| (0..pooled.targets()).map(|k| self.loadings[(i, k)].powi(2)).sum::<f64>();
        self.pulls = (0..self.values.len()).map(squares).collect();
        let residual: f64 = self.residual.iter().sum();
        self.never = residual + NO_ERROR * (residual + self.pulls.iter().sum::<f64>());
    }

    fn best(&self) -> f64 {
        minimise(
            self.scale,
            |ridge| self.score_and_slope(ridge).0,
            |ridge| self.score_and_slope(ridge).1,
        )
    }

    /// The model under a penalty, from the decomposition: no second factorisation, and no decision on rank.
    fn solve(
        &self,
        pooled: &Summary,
        penalty: Penalty,
        origin: Option<&[f64]>,
    ) -> Result<Solution> {
        let mut w = self.coefficients(penalty.ridge());
        for k in 0..w.ncols() {
            for (j, o) in origin.unwrap_or_default().iter().enumerate() {
                w[(j, k)] += o;
            }
        }
        let theta = with_intercept(&w, pooled, self.intercept);
        let theta = super::checked(theta)?;
        Ok(Solution { theta, rank: Rank::of(pooled), outcome: Outcome::Unique, penalty })
    }
}

/// A least squares fit, and how many parameters it has in effect.
pub(crate) struct RidgeFit {
    pub(crate) theta: Theta,
    pub(crate) degrees: f64,
}

/// The fit on standardized features at the `λ` that minimises generalised cross-validation; class indicators count in one unit.
///
/// # Errors
/// When the SVD does not converge, or numbers leave the range of double precision.
pub(crate) fn fit_by_gcv(
    pooled: &Summary,
    intercept: bool,
    samples: f64,
    classes: bool,
) -> Result<RidgeFit> {
    let d = weights(pooled, intercept, true);
    let unit = if classes { Unit::Shared } else { Unit::OwnVariance };
    if let Some(path) = Path::new(pooled, intercept, &d, samples, unit, 0.0) {
        let penalty = Penalty::new(path.best, true)?;
        let theta = super::solve(pooled, intercept, penalty, None)?.theta;
        return Ok(RidgeFit { theta, degrees: path.degrees(path.best) });
    }
    let mut spectrum = Spectrum::new(pooled, intercept, true, samples)?;
    if classes {
        spectrum.join_targets(pooled);
        spectrum.caution = CLASS_CAUTION;
    }
    let ridge = spectrum.best();
    let theta = spectrum.solve(pooled, Penalty::new(ridge, true)?, None)?.theta;
    Ok(RidgeFit { theta, degrees: spectrum.degrees(ridge) })
}

/// No row has more leverage than this under the ridge of a basis behind a frozen map, on the scale of rows as large as the mean one. With columns
/// that are nearly combinations of others the score goes on falling below that by little, while predictions of rows far from all
/// others leave the range of the targets.
const LEVERAGE: f64 = 1e4;

/// The least ridge of such a basis as a share of the trace, behind which there are so many rows.
pub(super) fn least_share(samples: f64) -> f64 {
    1.0 / (LEVERAGE * samples.clamp(1.0, 1e6))
}

/// The scale from which a search goes down as far as this ridge.
fn beginning_at(ridge: f64) -> f64 {
    ridge * libm::exp10(f64::from(BELOW))
}

/// The model at the `λ` that minimises generalised cross-validation, which has a lower bound where features are bounded.
///
/// # Errors
/// When the summary is empty, the SVD does not converge, or numbers leave the range of double precision.
pub(crate) fn solve_by_gcv(
    pooled: &Summary,
    intercept: bool,
    standardize: bool,
    samples: f64,
    map: &Map,
) -> Result<Solution> {
    if pooled.n() <= 0.0 {
        return Err(Error::NotLearned);
    }
    let origin = map.origin();
    let least = if map.is_bounded() { least_share(samples) } else { 0.0 };
    let d = weights(pooled, intercept, standardize);
    if origin.is_none()
        && let Some(path) = Path::new(pooled, intercept, &d, samples, Unit::OwnVariance, least)
    {
        return super::solve(pooled, intercept, Penalty::new(path.best, standardize)?, None);
    }
    let mut spectrum = Spectrum::scaled_by(pooled, intercept, &d, samples, origin)?;
    let trace: f64 = spectrum.values.iter().sum();
    spectrum.scale = spectrum.scale.max(beginning_at(least * trace));
    spectrum.solve(pooled, Penalty::new(spectrum.best(), standardize)?, origin)
}

/// The model at the `λ` with the least mean squared error on tasks left out, one after the other.
///
/// Each left-out task is predicted from the pool of the others: what a new task like the old ones
/// would see. Cost: one pool and one SVD for each task.
///
/// # Errors
/// With fewer than two tasks, and as [`solve_by_gcv`].
pub(crate) fn solve_by_leaving_tasks_out(
    pooled: &Summary,
    folds: &[(Summary, &Summary)],
    intercept: bool,
    standardize: bool,
    origin: Option<&[f64]>,
) -> Result<Solution> {
    let d = weights(pooled, intercept, standardize);
    let penalty = Penalty::new(LeftOut::new(folds, &d, intercept)?.best(), standardize)?;
    let spectrum = Spectrum::scaled_by(pooled, intercept, &d, pooled.n(), origin)?;
    spectrum.solve(pooled, penalty, origin)
}

/// Squared error on left-out tasks as a function of `λ`.
#[derive(Debug)]
pub(crate) struct LeftOut<'a> {
    folds: Vec<(Spectrum, &'a Summary, &'a Summary)>,
}

impl<'a> LeftOut<'a> {
    pub(crate) fn new(
        folds: &'a [(Summary, &'a Summary)],
        d: &[f64],
        intercept: bool,
    ) -> Result<Self> {
        if folds.len() < 2 {
            return Err(Error::Unsupported {
                operation: "leave-one-task-out",
                reason: "it needs at least two tasks; use gcv".to_owned(),
            });
        }
        let folds = folds
            .iter()
            .map(|(rest, left)| {
                Ok((Spectrum::scaled_by(rest, intercept, d, rest.n(), None)?, rest, *left))
            })
            .collect::<Result<_>>()?;
        Ok(Self { folds })
    }

    /// Mean squared error over all left-out samples.
    pub(crate) fn at(&self, ridge: f64) -> f64 {
        let (mut squares, mut samples) = (0.0, 0.0);
        for (spectrum, rest, left) in &self.folds {
            let theta = with_intercept(&spectrum.coefficients(ridge), rest, spectrum.intercept);
            let excess = left.excess(&theta).expect("folds share one shape");
            squares += excess.iter().chain(left.residual()).sum::<f64>();
            samples += left.n();
        }
        squares / samples
    }

    /// The derivative of the sum of squared errors by `λ`: `2 Σ (Rθ − Z)ᵀ R θ′`.
    fn slope(&self, ridge: f64) -> f64 {
        let slope = |(spectrum, rest, left): &(Spectrum, &Summary, &Summary)| {
            let theta = with_intercept(&spectrum.coefficients(ridge), rest, spectrum.intercept);
            let rate =
                intercept_slope(&spectrum.coefficient_slopes(ridge), rest, spectrum.intercept);
            left.excess_along(&theta, &rate)
        };
        self.folds.iter().map(slope).sum()
    }

    fn best(&self) -> f64 {
        let scale = self.folds.iter().map(|(s, ..)| s.scale).fold(0.0, f64::max);
        minimise(scale, |ridge| self.at(ridge), |ridge| self.slope(ridge))
    }
}

/// Puts the free intercept, which the first row of `R` determines, in front of the coefficients.
fn with_intercept(w: &Mat<f64>, pooled: &Summary, intercept: bool) -> Theta {
    led_by(w, pooled, intercept, |k| pooled.row(0).2[k])
}

/// The same for derivatives by `λ`, which the targets do not move.
fn intercept_slope(w: &Mat<f64>, pooled: &Summary, intercept: bool) -> Theta {
    led_by(w, pooled, intercept, |_| 0.0)
}

fn led_by(w: &Mat<f64>, pooled: &Summary, intercept: bool, z: impl Fn(usize) -> f64) -> Theta {
    let first = usize::from(intercept);
    let mut theta = Theta::zeros(pooled.width(), w.ncols());
    for k in 0..w.ncols() {
        let column = theta.column_mut(k);
        for j in 0..w.nrows() {
            column[first + j] = w[(j, k)];
        }
        if intercept && pooled.rank() > 0 {
            let (_, r, _) = pooled.row(0);
            column[0] = (z(k) - crate::summary::dot(&r[1..], &column[1..])) / r[0];
        }
    }
    theta
}

/// The `λ` of least score, within fixed decades around `scale`; 0 where nothing varies, which leaves no scale.
///
/// Candidates are the ends of the range, where the score falls towards them, and every point in between where its slope turns
/// from falling to rising, found by halving. Among candidates whose scores differ by rounding the largest `λ` is taken.
fn minimise(scale: f64, score: impl Fn(f64) -> f64, slope: impl Fn(f64) -> f64) -> f64 {
    if scale <= 0.0 {
        return 0.0;
    }
    let at = |x: f64| scale * 10f64.powf(x / f64::from(PER_DECADE) - f64::from(BELOW));
    let last = (BELOW + ABOVE) * PER_DECADE;
    let falls: Vec<bool> = (0..=last).map(|i| slope(at(f64::from(i))) < 0.0).collect();
    let mut candidates = Vec::new();
    if !falls[0] {
        candidates.push(at(0.0));
    }
    for (i, pair) in (0..last).zip(falls.windows(2)) {
        if pair[0] && !pair[1] {
            let (mut low, mut high) = (f64::from(i), f64::from(i + 1));
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(low, high);
                if slope(at(middle)) < 0.0 { low = middle } else { high = middle }
            }
            candidates.push(at(f64::midpoint(low, high)));
        }
    }
    if falls[last as usize] {
        candidates.push(at(f64::from(last)));
    }
    let scored: Vec<(f64, f64)> =
        candidates.into_iter().map(|ridge| (ridge, score(ridge))).collect();
    let least = scored.iter().map(|(_, s)| *s).fold(f64::INFINITY, f64::min);
    let best = scored.iter().rev().find(|(_, s)| *s <= least + TIE * least.abs());
    best.map_or(at(f64::from(last)), |(ridge, _)| *ridge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accumulator, Design, Rows, Summarizer};

    #[test]
    fn a_parabola_in_log_lambda_is_minimised() {
        let score = |l: f64| 1.0 + (l.log10() + 2.345).powi(2);
        let slope = |l: f64| l.log10() + 2.345;
        let found = minimise(1.0, score, slope);
        assert!((found.log10() + 2.345).abs() < 1e-12, "{found}");
    }

    #[test]
    fn the_best_of_several_minima_is_found_and_the_larger_of_two_that_tie() {
        // Minima at 1e-6 and 1e-2, the second lower by `step`.
        let score = |l: f64, step: f64| {
            let x = l.log10();
            ((x + 6.0) * (x + 2.0)).powi(2) + step * (x + 2.0)
        };
        for (step, expected) in [(0.5, -6.0), (-0.5, -2.0), (0.0, -2.0)] {
            let slope = |l: f64| {
                let x = l.log10();
                2.0 * (x + 6.0) * (x + 2.0) * (2.0 * x + 8.0) + step
            };
            let found = minimise(1.0, |l| 10.0 + score(l, step), slope);
            assert!((found.log10() - expected).abs() < 0.05, "{step}: {found}");
        }
    }

    #[test]
    fn a_score_that_falls_to_an_end_of_the_range_takes_that_end() {
        let up = minimise(2.0, |l| -l, |_| -1.0);
        assert!((up / 2e3 - 1.0).abs() < 1e-12, "{up}");
        let down = minimise(2.0, |l| l, |_| 1.0);
        assert!((down / 2e-10 - 1.0).abs() < 1e-12, "{down}");
        assert!(minimise(0.0, |l| l, |_| 1.0).abs() == 0.0);
    }

    #[test]
    fn indicators_of_bounded_features_have_a_least_ridge() {
        let draw = |i: usize| ((i as f64 * 12.9898).sin() * 43_758.547).fract();
        // A target that a column explains without error asks for no ridge at all. Narrow, by the SVD, and wide, by products.
        for (n, d) in [(200, 4), (900, WIDE_DESIGN + 8)] {
            let x: Vec<f64> = (0..n * d).map(draw).collect();
            let y: Vec<f64> = x.iter().step_by(d).copied().collect();
            let design = Design::linear(d, true).unwrap();
            let mut s = Summarizer::new(design, 1, Accumulator::Qr).unwrap();
            s.add(Rows::new(&x, d).unwrap(), Rows::new(&y, 1).unwrap(), None).unwrap();
            let (pooled, samples) = (s.finish().unwrap(), n as f64);
            // The trace of correlations is the number of columns.
            let least = least_share(samples) * d as f64;
            let bounded = of_indicators(&pooled, samples, true).unwrap();
            assert!((bounded / least - 1.0).abs() < 1e-3, "{d}: {bounded:e}, not {least:e}");
            let free = of_indicators(&pooled, samples, false).unwrap();
            assert!(free < least / 10.0, "{d}: {free:e}");
        }
    }

    #[test]
    fn the_slope_of_gcv_is_that_of_central_differences() {
        let draw = |i: usize| ((i as f64 * 12.9898).sin() * 43_758.547).fract();
        let x: Vec<f64> = (0..120).map(draw).collect();
        let y: Vec<f64> = (0..60).map(|i| draw(1000 + i) + x[2 * i]).collect();
        let design = Design::linear(4, true).unwrap();
        let mut s = Summarizer::new(design, 2, Accumulator::Qr).unwrap();
        s.add(Rows::new(&x, 4).unwrap(), Rows::new(&y, 2).unwrap(), None).unwrap();
        let spectrum = Spectrum::new(&s.finish().unwrap(), true, true, 30.0).unwrap();
        for ridge in [1e-4, 1e-2, 0.3, 2.0] {
            let step = 1e-5 * ridge;
            let log = |l: f64| spectrum.score_and_slope(l).0.ln();
            let slope = (log(ridge + step) - log(ridge - step)) / (2.0 * step);
            let own = spectrum.score_and_slope(ridge).1;
            assert!((own - slope).abs() < 1e-6 * (slope.abs() + 1e-3), "{own} against {slope}");
        }
    }

    #[test]
    fn a_wide_design_has_the_ridge_of_its_spectrum() {
        let (n, d) = (700, 520);
        let mut draw = pmfcl_oracle::Draw::new(4);
        let x = draw.normals(n * d);
        let y: Vec<f64> = (0..n)
            .flat_map(|i| {
                let signal: f64 = x[i * d..i * d + 40].iter().sum();
                [signal + 5.0 * draw.normal(), 1e3 * draw.normal()]
            })
            .collect();
        let made = |accumulator| {
            let design = Design::linear(d, true).unwrap();
            let mut s = Summarizer::new(design, 2, accumulator).unwrap().threads(2);
            s.add(Rows::new(&x, d).unwrap(), Rows::new(&y, 2).unwrap(), None).unwrap();
            s.finish().unwrap()
        };
        let pooled = made(Accumulator::Qr);
        let samples = n as f64;
        let d = weights(&pooled, true, true);
        for unit in [Unit::OwnVariance, Unit::Shared] {
            let path = Path::new(&pooled, true, &d, samples, unit, 0.0).expect("wide");
            let mut spectrum = Spectrum::new(&pooled, true, true, samples).unwrap();
            if unit == Unit::Shared {
                spectrum.join_targets(&pooled);
                spectrum.caution = CLASS_CAUTION;
            }
            let (found, expected) = (path.best, spectrum.best());
            assert!((found - expected).abs() <= 1e-8 * expected, "{found} against {expected}");
            let (found, expected) = (path.degrees(found), spectrum.degrees(expected));
            assert!((found - expected).abs() <= 1e-6, "{found} against {expected}");
        }
    }

    /// `leave_one_task_out_cv` of the oracle: one λ on the sum scale for all folds.
    #[test]
    fn leaving_tasks_out_scores_as_the_oracle_does() {
        let read = |name: &str| -> serde_json::Value {
            let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
        };
        let numbers = |v: &serde_json::Value| -> Vec<f64> {
            v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
        };
        let (data, stats) = (read("linear_full"), read("stats_tools"));
        let tasks: Vec<Summary> = data["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| {
                let x: Vec<f64> = t["X"].as_array().unwrap().iter().flat_map(&numbers).collect();
                let y = numbers(&t["y"]);
                let design = Design::linear(6, false).unwrap();
                let mut s = Summarizer::new(design, 1, Accumulator::Qr).unwrap();
                s.add(Rows::new(&x, 6).unwrap(), Rows::new(&y, 1).unwrap(), None).unwrap();
                s.finish().unwrap()
            })
            .collect();
        for (l, expected) in
            numbers(&stats["lams"]).iter().zip(numbers(&stats["leave_one_task_out_cv"]))
        {
            let (mut squares, mut samples) = (0.0, 0.0);
            for t in 0..tasks.len() {
                let rest = (0..tasks.len())
                    .filter(|i| *i != t)
                    .fold(Summary::empty(6, 1), |sum, i| sum.merge(&tasks[i]).unwrap());
                let spectrum = Spectrum::new(&rest, false, false, rest.n()).unwrap();
                let theta = with_intercept(&spectrum.coefficients(l / rest.n()), &rest, false);
                squares += 2.0 * tasks[t].n() * tasks[t].loss(&theta).unwrap();
                samples += tasks[t].n();
            }
            assert!((squares / samples - expected).abs() < 1e-9 * expected, "{l}");
        }
        let folds: Vec<(Summary, &Summary)> = (0..tasks.len())
            .map(|t| {
                let rest = (0..tasks.len())
                    .filter(|i| *i != t)
                    .fold(Summary::empty(6, 1), |sum, i| sum.merge(&tasks[i]).unwrap());
                (rest, &tasks[t])
            })
            .collect();
        let score = LeftOut::new(&folds, &[1.0; 6], false).unwrap();
        let best = score.best();
        for l in [1e-4, 1e-3, 1e-2, 1e-1, 1.0] {
            assert!(score.at(best) <= score.at(l) + 1e-12, "{l} is better than {best}");
            let step = 1e-6 * l;
            let rows: f64 = tasks.iter().map(Summary::n).sum();
            let slope = rows * (score.at(l + step) - score.at(l - step)) / (2.0 * step);
            let own = score.slope(l);
            assert!((own - slope).abs() < 1e-5 * (own.abs() + 1e-3), "{own} against {slope}");
        }
    }
}
