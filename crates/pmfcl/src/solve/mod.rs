//! Stage 5, **solve**: a pooled summary becomes a model.
//!
//! Minimises `L(θ) + (λ/2) (θ − θ₀)ᵀ D (θ − θ₀)`, `L` the preference-weighted mean loss the pooled summary
//! stands for, `D = diag(0 for the intercept, 1…1)` or, standardized, the feature variances, and `θ₀`
//! the basis' origin (zero except for the NTK).
//!
//! Paper: eq. 6 (`eq:theta-p-star`) in square-root form: one QR, one triangular solve.

pub(crate) mod candidates;
#[doc(hidden)] // for other crates of the workspace
pub mod ridge;

mod normal;
mod reduced;

use std::fmt;
use std::sync::Arc;

use faer::{Mat, MatRef};

use crate::error::{Error, Result};
use crate::summary::{LEAST_SPREAD, Summary, WIDE_DESIGN, dot, pool};
use crate::theta::Theta;

/// How many minimizers there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// One.
    Unique,
    /// Many; the one with the shortest coefficients (intercept free) was returned.
    MinimumNorm,
}

/// A row that has less than this share of its length to itself, apart from the rows before it, has lost half its digits.
const VISIBLE: f64 = 1e-8;

/// The weight of a constant column, in units of its second moment.
const HOLD: f64 = 1.0 / (LEAST_SPREAD * LEAST_SPREAD);

/// The penalty `(λ/2) θᵀDθ` on the mean loss; `λ` is the same for all targets, or each has its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Penalty {
    /// `λ`, the largest where targets have their own.
    ridge: f64,
    standardize: bool,
    /// `λ` of each target, where they differ.
    own: Option<Arc<[f64]>>,
}

impl Penalty {
    /// No penalty: least squares, of minimum norm where that is not unique.
    pub const NONE: Penalty = Penalty { ridge: 0.0, standardize: false, own: None };

    /// Weight `ridge ≥ 0`; with `standardize` it is multiplied by each feature's variance, which makes
    /// the fit independent of the features' units.
    ///
    /// # Errors
    /// When `ridge` is negative or not finite.
    pub fn new(ridge: f64, standardize: bool) -> Result<Self> {
        if ridge >= 0.0 && ridge.is_finite() {
            Ok(Self { ridge, standardize, own: None })
        } else {
            Err(Error::Range { what: "ridge", value: ridge, must: "0 or more, and finite" })
        }
    }

    /// A weight of its own for each target. Targets do not meet in squared loss: each is solved as if it were alone.
    ///
    /// # Errors
    /// When there are none, or one is negative or not finite.
    pub fn per_target(ridges: &[f64], standardize: bool) -> Result<Self> {
        let [first, rest @ ..] = ridges else {
            return Err(Error::Empty { what: "the list of ridges" });
        };
        let mut penalty = Self::new(*first, standardize)?;
        for ridge in rest {
            penalty.ridge = penalty.ridge.max(Self::new(*ridge, standardize)?.ridge);
        }
        if rest.iter().any(|ridge| ridge.to_bits() != first.to_bits()) {
            penalty.own = Some(ridges.into());
        }
        Ok(penalty)
    }

    /// The weight `λ`; where targets have their own, the largest ([`Penalty::own_ridges`]).
    pub fn ridge(&self) -> f64 {
        self.ridge
    }

    /// The weight of each target, where they differ.
    pub fn own_ridges(&self) -> Option<&[f64]> {
        self.own.as_deref()
    }

    /// The weight that a target has.
    fn ridge_of(&self, target: usize) -> f64 {
        self.own.as_ref().map_or(self.ridge, |own| own[target])
    }

    /// The weight, for what needs one that all targets share.
    ///
    /// # Errors
    /// When targets have their own.
    pub fn one_ridge(&self, operation: &'static str) -> Result<f64> {
        match self.own {
            None => Ok(self.ridge),
            Some(_) => Err(Error::Unsupported {
                operation,
                reason: format!(
                    "it takes one ridge for all targets, and the model has a ridge for each ({self}); set one number"
                ),
            }),
        }
    }

    /// Whether it is multiplied by feature variances.
    pub fn standardize(&self) -> bool {
        self.standardize
    }
}

impl fmt::Display for Penalty {
    /// The weight; where targets have their own, all of them, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.own {
            None => self.ridge.fmt(f),
            Some(own) => {
                let texts: Vec<String> = own.iter().map(f64::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

/// The rank of a pooled design. Where the pool is kept as sums of products, it takes a decomposition, and is found when it is asked for.
#[derive(Debug, Clone)]
#[doc(hidden)] // for file; others ask `Solution::rank`
pub struct Rank(RankOf);

#[derive(Debug, Clone)]
enum RankOf {
    Known(usize),
    Sums(Summary),
}

impl Rank {
    /// The rank of a pooled summary.
    pub fn of(pooled: &Summary) -> Self {
        Self(if pooled.is_summed() {
            RankOf::Sums(pooled.clone())
        } else {
            RankOf::Known(pooled.rank())
        })
    }

    /// Whether it is to be found from these sums when it is asked for.
    pub fn waits_for(&self, pooled: &Summary) -> bool {
        matches!(&self.0, RankOf::Sums(own) if own.has_same_sums(pooled))
    }

    fn value(&self) -> usize {
        match &self.0 {
            RankOf::Known(rank) => *rank,
            RankOf::Sums(pooled) => pooled.rank(),
        }
    }
}

impl From<usize> for Rank {
    fn from(rank: usize) -> Self {
        Self(RankOf::Known(rank))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

/// Parameters with what there is to know about how they came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// The parameters.
    pub theta: Theta,
    /// Rank of the pooled design; see [`Solution::rank`].
    pub rank: Rank,
    /// Whether the minimizer was unique.
    pub outcome: Outcome,
    /// The penalty that was used.
    pub penalty: Penalty,
}

impl Solution {
    /// Rank of the pooled design.
    pub fn rank(&self) -> usize {
        self.rank.value()
    }
}

/// Solves a pooled summary.
///
/// `intercept` says whether design column 0 is a free intercept. Cost: `O(m²(m + p))`, for every distinct ridge.
///
/// # Errors
/// When the summary is empty, or its numbers leave the range of double precision.
pub fn solve(
    pooled: &Summary,
    intercept: bool,
    penalty: Penalty,
    origin: Option<&[f64]>,
) -> Result<Solution> {
    if pooled.n() <= 0.0 {
        return Err(Error::NotLearned);
    }
    let targets = pooled.targets();
    if let Some(own) = penalty.own_ridges()
        && own.len() != targets
    {
        let (what, unit) = ("the list of ridges", "numbers");
        return Err(Error::Shape { what, unit, expected: targets, found: own.len() });
    }
    let ridge_of = |k: usize| penalty.ridge_of(k);
    let mut theta = Theta::zeros(pooled.width(), targets);
    let mut solved = vec![false; targets];
    for k in 0..targets {
        if solved[k] {
            continue;
        }
        let found = minimizer(pooled, intercept, (ridge_of(k), penalty.standardize), origin)?;
        for other in (k..targets).filter(|&j| ridge_of(j).to_bits() == ridge_of(k).to_bits()) {
            theta.column_mut(other).copy_from_slice(found.column(other));
            solved[other] = true;
        }
    }
    let outcome = if (0..targets).all(|k| ridge_of(k) > 0.0) || pooled.rank() == pooled.width() {
        Outcome::Unique
    } else {
        Outcome::MinimumNorm
    };
    Ok(Solution { theta: checked(theta)?, rank: Rank::of(pooled), outcome, penalty })
}

/// The minimizer with one ridge for all targets.
fn minimizer(
    pooled: &Summary,
    intercept: bool,
    (ridge, standardize): (f64, bool),
    origin: Option<&[f64]>,
) -> Result<Theta> {
    if ridge <= 0.0 {
        return Ok(shortest(pooled, intercept, origin));
    }
    if pooled.width() > WIDE_DESIGN {
        let d = weights(pooled, intercept, standardize);
        let hold: Vec<f64> = d.iter().map(|d| pooled.n() * ridge * d).collect();
        let start = |j| start(j, intercept, origin);
        let found = match pooled.sums() {
            Some(sums) => normal::minimizer_of_sums(sums, &hold, start),
            None => normal::minimizer(pooled, &hold, start),
        };
        if let Some(theta) = found {
            return Ok(theta);
        }
    }
    let rows = penalty_rows(pooled, intercept, (ridge, standardize), origin);
    let both = [(pooled, 1.0), (&rows, 1.0)];
    Ok(shortest(&pool(pooled.width(), pooled.targets(), both.into_iter())?, intercept, origin))
}

/// How far parameters are from solving a pooled summary under a penalty, in units of what rounding explains: at most 1
/// where they do.
///
/// The gradient of the penalised loss, `aⱼᵀ(Aθ − b)` with `A = [R; √(nλD)]` and `b = [Z; √(nλD)θ₀]`, is 0 at the solution. A
/// backward stable solver perturbs each column by `c·m·ε` of its norm (QR), or of the norm of the whole matrix in the
/// metric of the penalty (SVD), which leaves a gradient of that share of `‖aⱼ‖(‖b‖ + Σ‖aₗ‖|θₗ|)`. Another rule for choosing
/// the ridge does not matter: the ridge is the one given.
///
/// # Errors
/// When the parameters have another shape than the summary, or numbers leave the range of double precision.
pub(crate) fn residual_in_rounding(
    pooled: &Summary,
    intercept: bool,
    penalty: &Penalty,
    origin: Option<&[f64]>,
    theta: &Theta,
) -> Result<f64> {
    let (m, p, n) = (pooled.width(), pooled.targets(), pooled.n());
    let first = usize::from(intercept);
    let gradient = pooled.gradient(theta)?;
    let d = weights(pooled, intercept, penalty.standardize);
    let squares = pooled.column_squares();
    let start = |j: usize| start(j, intercept, origin);
    let allowed = 64.0 * (m + p) as f64 * f64::EPSILON;
    let mut worst = 0.0_f64;
    for k in 0..p {
        let hold: Vec<f64> = d.iter().map(|d| penalty.ridge_of(k) * d).collect();
        let norms: Vec<f64> = squares.iter().zip(&hold).map(|(s, h)| (s / n + h).sqrt()).collect();
        // The norm of all columns in the metric of the penalty; the intercept has none and stands for itself.
        let scaled = |j: usize| if d[j] > 0.0 { norms[j] * norms[j] / d[j] } else { 0.0 };
        let whole = (first..m).map(scaled).sum::<f64>().sqrt();
        let theta = theta.column(k);
        let held = |j: usize| hold[j].sqrt() * start(j);
        let b = (pooled.squares(k) / n + (0..m).map(|j| held(j).powi(2)).sum::<f64>()).sqrt();
        let size = b + (0..m).map(|j| norms[j] * theta[j].abs()).sum::<f64>();
        for j in 0..m {
            let g = gradient.column(k)[j] + hold[j] * (theta[j] - start(j));
            let column = norms[j] + d[j].sqrt() * whole;
            let share = g.abs() / (allowed * column * size);
            worst = worst.max(if column * size > 0.0 { share } else { 0.0 });
        }
    }
    Ok(worst)
}

/// Where the coefficient of a design column is pulled to.
fn start(j: usize, intercept: bool, origin: Option<&[f64]>) -> f64 {
    let first = usize::from(intercept);
    if j < first { 0.0 } else { origin.map_or(0.0, |o| o[j - first]) }
}

/// Parameters that are numbers.
fn checked(theta: Theta) -> Result<Theta> {
    match theta.cells().iter().find(|v| !v.is_finite()) {
        None => Ok(theta),
        Some(value) => Err(Error::Range {
            what: "a coefficient",
            value: *value,
            must: "finite: rescale the features, or give a larger ridge",
        }),
    }
}

/// The diagonal of `D`, one number for each design column: 1, or the variance with `standardize`; 0 for the intercept.
///
/// With an intercept, the rows of `R` below the first are those of the centred features, so the
/// variance is exact. Without one there is no mean to take off: the second moment is used. A column that is constant
/// next to the intercept has rounding for a variance, and a penalty of that size would make it a feature like any
/// other: it weighs so much that its coefficient is 0.
#[doc(hidden)] // for baselines, report
pub fn weights(pooled: &Summary, intercept: bool, standardize: bool) -> Vec<f64> {
    let first = usize::from(intercept);
    if !standardize {
        return (0..pooled.width()).map(|j| if j < first { 0.0 } else { 1.0 }).collect();
    }
    let mut weights = pooled.variances(first);
    let constant = weights.iter_mut().zip(pooled.column_squares()).skip(first);
    for (weight, squares) in constant.filter(|(weight, _)| **weight <= 0.0) {
        *weight = HOLD * squares / pooled.n();
    }
    weights
}

/// The penalty as rows: `√(n λ D)` against `√(n λ D) θ₀`.
fn penalty_rows(
    pooled: &Summary,
    intercept: bool,
    (ridge, standardize): (f64, bool),
    origin: Option<&[f64]>,
) -> Summary {
    let (m, p) = (pooled.width(), pooled.targets());
    let first = usize::from(intercept);
    let roots: Vec<f64> = weights(pooled, intercept, standardize)
        .iter()
        .map(|d| (pooled.n() * ridge * d).sqrt())
        .collect();
    let rows = (0..m).filter(|&j| roots[j] > 0.0);
    Summary::diagonal(
        m,
        p,
        rows.map(|j| (j, roots[j], roots[j] * origin.map_or(0.0, |o| o[j - first]))),
    )
}

/// A minimizer of `‖Rθ − Z‖²`: of columns that depend on others, the later ones have no part in it. Where only losses of the same
/// rows are asked for it is as good as the shortest one, and costs `m²`.
pub(crate) fn any_minimizer(s: &Summary) -> Result<Theta> {
    let mut theta = Theta::zeros(s.width(), s.targets());
    for k in 0..s.targets() {
        back_substitute(s, theta.column_mut(k), k, 0);
    }
    checked(theta)
}

/// The minimizer of `‖Rθ − Z‖²` whose coefficients are nearest to the origin, intercept free.
fn shortest(s: &Summary, intercept: bool, origin: Option<&[f64]>) -> Theta {
    let (m, p, r) = (s.width(), s.targets(), s.rank());
    let mut theta = Theta::zeros(m, p);
    if r == m {
        for k in 0..p {
            back_substitute(s, theta.column_mut(k), k, 0);
        }
        return theta;
    }
    let first = usize::from(intercept);
    let top = usize::from(intercept && s.pivots().next() == Some(0));
    let (rows, columns) = (r - top, m - first);
    let start = |k: usize| if k < columns { origin.map_or(0.0, |o| o[k]) } else { 0.0 };
    let mut w = Mat::<f64>::zeros(columns, p);
    if rows > 0 {
        // R₁ᵀ = Q L, so R₁ = Lᵀ Qᵀ and the shortest δ with R₁δ = Z₁ − R₁θ₀ is Q L⁻ᵀ(Z₁ − R₁θ₀).
        let transposed = Mat::from_fn(columns, rows, |j, i| s.entry(top + i, j + first));
        let qr = transposed.qr();
        let mut rhs = Mat::from_fn(rows, p, |i, k| s.row(top + i).2[k]);
        if origin.is_some() {
            let theta0 = Mat::from_fn(columns, p, |j, _| start(j));
            rhs -= transposed.transpose() * theta0;
        }
        w = qr.compute_thin_Q() * solve_visible(qr.thin_R(), rhs.clone());
        // What is left is put into the columns with pivots, so that units that are far apart cost the shortness of the
        // coefficients, where it is beyond double precision, and never the fit.
        rhs -= transposed.transpose() * &w;
        for k in 0..p {
            let mut delta = vec![0.0; m];
            for i in (0..rows).rev() {
                let (pivot, cells, _) = s.row(top + i);
                delta[pivot] = (rhs[(i, k)] - dot(&cells[1..], &delta[pivot + 1..])) / cells[0];
                w[(pivot - first, k)] += delta[pivot];
            }
        }
    }
    for k in 0..p {
        let column = theta.column_mut(k);
        for j in 0..columns {
            column[first + j] = w[(j, k)] + start(j);
        }
        if top == 1 {
            let (_, cells, z) = s.row(0);
            column[0] = (z[k] - dot(&cells[1..], &column[1..])) / cells[0];
        }
    }
    theta
}

/// Solves `Uᵀ x = b`, where `x` is 0 for a row of `Uᵀ` that the rows above it nearly give: of its own direction too few
/// digits are left.
fn solve_visible(upper: MatRef<'_, f64>, mut b: Mat<f64>) -> Mat<f64> {
    for i in 0..upper.ncols() {
        let norm = (0..=i).map(|q| upper[(q, i)].powi(2)).sum::<f64>().sqrt();
        let visible = upper[(i, i)].abs() > VISIBLE * norm;
        for k in 0..b.ncols() {
            let known: f64 = (0..i).map(|q| upper[(q, i)] * b[(q, k)]).sum();
            b[(i, k)] = if visible { (b[(i, k)] - known) / upper[(i, i)] } else { 0.0 };
        }
    }
    b
}

/// Solves the rows from the last up to row `top`, pivot by pivot.
fn back_substitute(s: &Summary, column: &mut [f64], k: usize, top: usize) {
    for i in (top..s.rank()).rev() {
        let (pivot, r, z) = s.row(i);
        column[pivot] = (z[k] - dot(&r[1..], &column[pivot + 1..])) / r[0];
    }
}
