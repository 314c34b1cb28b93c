//! Stage 3, **summarize**: all that is ever kept of a task.
//!
//! Paper: Lemma 4.1 (`lem:msi_linear`) and Definition 3.8 (`def:msi`), in square-root form.
//!
//! | paper           | here              | shape  |
//! |-----------------|-------------------|--------|
//! | `n_t`           | [`Summary::n`]    | 1      |
//! | `Σ_t V_tᵀ`      | `R`, up to a rotation from the left | r × m |
//! | `Σ_t ỹ_t`       | `Z = UᵀY`         | r × p  |
//! | `min L_t`, left out in the paper | `c` per target | p |
//!
//! so that for every parameter `θ`
//!
//! ```text
//! 2 n_t L_t(θ) = ‖Φ_t θ − Y_t‖²_F = ‖R θ − Z‖²_F + Σ c
//! ```
//!
//! `R` is kept in *row-echelon* form: every row starts at its pivot column, pivots move right, and are
//! positive. A column that depends on those before it has no pivot. That makes the summary full row
//! rank (so `‖Rθ − Z‖² / 2n` is the forgetting itself), rank-revealing, unique up to rounding for
//! the same data in any order, and small: a packed trapezoid of `r(m+p) − r(r−1)/2` numbers, at full
//! rank about half of the paper's `m(m+2)`.

mod accumulator;
mod algebra;
mod build;
mod bytes;
mod counter;
mod diagonal;
mod echelon;
mod few_rows;
mod in_order;
mod leaf;
mod products;
mod room;
mod row_sum;
mod sums;

pub use accumulator::Accumulator;
pub(crate) use build::Held;
pub use build::Summarizer;
pub use counter::Counter;
pub use products::Products;

pub(crate) use algebra::{WIDE_DESIGN, pool};
pub(crate) use bytes::crc32;
pub(crate) use sums::Sums;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::theta::Theta;

/// The minimal sufficient information of a task: see the module page for the formula.
///
/// Summaries add up ([`Summary::merge`]), scale, extend and can be taken away again
/// ([`Summary::remove`]); the model is solved from them alone.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Σ of sample weights; the row count where there are none.
    n: f64,
    /// Columns of the design matrix, the intercept included.
    m: usize,
    /// Targets.
    p: usize,
    /// Σ w·y of each target, for R² about the mean.
    target_sum: Vec<f64>,
    form: Form,
}

/// What a summary is kept as. Everything except merging and solving sees the triangle, which sums are brought to when it is asked for.
#[derive(Debug, Clone)]
enum Form {
    Triangle(Echelon),
    Sums(Arc<Sums>),
}

/// `R`, `Z` and what they leave of the targets.
#[derive(Debug, Clone, Default)]
struct Echelon {
    /// Pivot column of every row of `R`, ascending.
    pivots: Vec<u32>,
    /// Row after row: `R[i, pivot..m]`, then `Z[i, ..]`. Where all rows have zeros after their pivot, these are left out.
    packed: Vec<f64>,
    /// Start of every row in `packed`.
    starts: Vec<usize>,
    /// Squared norm of what of each target lies outside the span of the features.
    c: Vec<f64>,
}

impl Summary {
    /// The same with zeros of one sign, which can be left out when it is sent.
    pub(crate) fn with_plain_zeros(mut self) -> Self {
        self.echelon_mut().packed.iter_mut().for_each(|v| *v += 0.0);
        self.compacted()
    }

    /// The neutral element of merging: no rows, `m` columns, `p` targets.
    pub fn empty(m: usize, p: usize) -> Self {
        let form = Form::Triangle(Echelon { c: vec![0.0; p], ..Echelon::default() });
        Self { n: 0.0, m, p, target_sum: vec![0.0; p], form }
    }

    /// The triangle; made of the sums if nobody has asked before.
    fn echelon(&self) -> &Echelon {
        match &self.form {
            Form::Triangle(echelon) => echelon,
            Form::Sums(sums) => sums.echelon(),
        }
    }

    /// The triangle to change: what is kept from then on.
    fn echelon_mut(&mut self) -> &mut Echelon {
        if let Form::Sums(sums) = &self.form {
            self.form = Form::Triangle(sums.echelon().clone());
        }
        match &mut self.form {
            Form::Triangle(echelon) => echelon,
            Form::Sums(_) => unreachable!("replaced above"),
        }
    }

    /// Effective number of samples `n_t`: the sum of sample weights.
    pub fn n(&self) -> f64 {
        self.n
    }

    /// Columns of the design matrix, the intercept included.
    pub fn width(&self) -> usize {
        self.m
    }

    /// Number of targets.
    pub fn targets(&self) -> usize {
        self.p
    }

    /// Rank of the design matrix, to working precision and independent of column scales.
    pub fn rank(&self) -> usize {
        self.echelon().pivots.len()
    }

    /// Size of what is kept, in bytes: 8 for each number, 4 for each pivot.
    pub fn nbytes(&self) -> usize {
        let rows = match &self.form {
            Form::Triangle(echelon) => echelon.pivots.len(),
            Form::Sums(_) => self.m,
        };
        8 * (self.numbers() + 2 * self.p + 1) + 4 * rows
    }

    /// How many numbers are kept of `R` and `Z`: `r(m+p) − r(r−1)/2` at most, `r(1+p)` where each row has a single entry.
    pub fn numbers(&self) -> usize {
        match &self.form {
            Form::Triangle(echelon) => echelon.packed.len(),
            Form::Sums(_) => self.m * (self.m + 1) / 2 + self.m * self.p,
        }
    }

    /// `c` of each target: the residual sum of squares of the task's own best fit.
    pub fn residual(&self) -> &[f64] {
        &self.echelon().c
    }

    /// Sum of each target; for class indicators the samples of each class.
    pub fn target_sums(&self) -> &[f64] {
        &self.target_sum
    }

    /// Mean and deviation of a target under the weights of the rows; from 0 without an intercept.
    ///
    /// Of centred targets: the squares of the mean are left out, not taken off, which would cost the digits of the deviation.
    pub(crate) fn target_spread(&self, k: usize, intercept: bool) -> (f64, f64) {
        let (weight, mean, squares) = match self.sums() {
            Some(sums) => (sums.first()[0], sums.first()[self.m + k], sums.yy(k)),
            None if self.pivots().next() == Some(0) => {
                let below = self.iter().skip(1).map(|(_, _, z)| z[k] * z[k]).sum::<f64>();
                let (_, r, z) = self.row(0);
                (r[0], z[k], self.residual()[k] + below)
            }
            None => (0.0, 0.0, 0.0),
        };
        if intercept && weight > 0.0 {
            return (mean / weight, squares.max(0.0).sqrt() / weight);
        }
        (0.0, (self.squares(k) / self.n).max(0.0).sqrt())
    }

    /// Mean of each target.
    pub fn target_mean(&self) -> Vec<f64> {
        self.target_sum.iter().map(|s| if self.n > 0.0 { s / self.n } else { 0.0 }).collect()
    }

    /// Row `i` as (pivot column, `R[i, pivot..]`, `Z[i, ..]`). What of `R` is not stored is zero.
    pub(crate) fn row(&self, i: usize) -> (usize, &[f64], &[f64]) {
        let Echelon { pivots, packed, starts, .. } = self.echelon();
        let end = starts.get(i + 1).copied().unwrap_or(packed.len());
        let (r, z) = packed[starts[i]..end].split_at(end - starts[i] - self.p);
        (pivots[i] as usize, r, z)
    }

    /// All rows, top to bottom.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &[f64], &[f64])> {
        (0..self.rank()).map(|i| self.row(i))
    }

    /// Pivot columns, ascending.
    #[doc(hidden)] // for file
    pub fn pivots(&self) -> impl Iterator<Item = usize> {
        self.echelon().pivots.iter().map(|&j| j as usize)
    }

    /// `L_t(θ) = (‖Rθ − Z‖² + c) / 2n`, summed over targets.
    ///
    /// Paper: eq. 4 (`eq:linreg-task-loss`). Cost: `O(r m p)`.
    ///
    /// # Errors
    /// When `θ` has another shape than the summary, the summary is empty, or the loss leaves the range of
    /// double precision.
    pub fn loss(&self, theta: &Theta) -> Result<f64> {
        if let Some(sums) = self.sums() {
            self.check(theta)?;
            let squares: f64 = (0..self.p).map(|k| sums.squared_errors(k, theta.column(k))).sum();
            return within("the loss", squares / (2.0 * self.n));
        }
        within("the loss", self.forgetting(theta)? + self.min_loss())
    }

    /// `min L_t = Σc / 2n`: the loss of the task's own best model.
    pub fn min_loss(&self) -> f64 {
        self.residual().iter().sum::<f64>() / (2.0 * self.n)
    }

    /// `F_t(θ) = L_t(θ) − min L_t = ‖Rθ − Z‖² / 2n`, exactly and never negative.
    ///
    /// Paper: Theorem 4.3 (`thm:linreg_forgetting`), corrected by the weight `Σ` (erratum E2).
    ///
    /// # Errors
    /// As [`Summary::loss`].
    pub fn forgetting(&self, theta: &Theta) -> Result<f64> {
        within("the forgetting", self.excess(theta)?.iter().sum::<f64>() / (2.0 * self.n))
    }

    /// `‖Rθ_k − Z_k‖²` of every target.
    pub(crate) fn excess(&self, theta: &Theta) -> Result<Vec<f64>> {
        self.check(theta)?;
        let mut squares = vec![0.0; self.p];
        for (pivot, r, z) in self.iter() {
            for (k, square) in squares.iter_mut().enumerate() {
                let e = dot(r, &theta.column(k)[pivot..]) - z[k];
                *square += e * e;
            }
        }
        Ok(squares)
    }

    /// Gradient of the loss, `Rᵀ(Rθ − Z) / n`.
    ///
    /// # Errors
    /// As [`Summary::loss`].
    pub fn gradient(&self, theta: &Theta) -> Result<Theta> {
        self.check(theta)?;
        let mut gradient = Theta::zeros(self.m, self.p);
        for (pivot, r, z) in self.iter() {
            for k in 0..self.p {
                let e = (dot(r, &theta.column(k)[pivot..]) - z[k]) / self.n;
                for (g, &a) in gradient.column_mut(k)[pivot..].iter_mut().zip(r) {
                    *g += e * a;
                }
            }
        }
        let wrong = gradient.cells().iter().find(|v| !v.is_finite());
        within("the gradient", wrong.copied().unwrap_or(0.0)).map(|_| gradient)
    }

    /// `‖R‖ (‖R‖‖θ‖ + ‖Z‖) / n`: the size of what cancels in the gradient.
    pub(crate) fn gradient_size(&self, theta: &Theta) -> f64 {
        let (mut r2, mut z2) = (0.0, 0.0);
        for (_, r, z) in self.iter() {
            r2 += dot(r, r);
            z2 += dot(z, z);
        }
        (r2 * theta.norm() + (r2 * z2).sqrt()) / self.n
    }

    /// `Σ w (y − ȳ)²` of each target.
    pub fn total_squares(&self) -> Vec<f64> {
        (0..self.p)
            .map(|k| {
                let sum = self.target_sum[k];
                // Below an intercept lie the centred targets: its own row is (Σwy)²/n, left out here
                // instead of taken off again, which would cost the digits of the mean.
                let mean_row = self.pivots().next() == Some(0) && {
                    let (_, r, z) = self.row(0);
                    let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs();
                    near(r[0] * r[0], self.n) && near(z[k] * r[0], sum)
                };
                let squares = |from: usize| -> f64 {
                    self.residual()[k]
                        + self.iter().skip(from).map(|(_, _, z)| z[k] * z[k]).sum::<f64>()
                };
                if mean_row {
                    squares(1)
                } else if self.n > 0.0 {
                    // What is left may be rounding of what cancels.
                    let left = squares(0) - sum * sum / self.n;
                    if left > echelon::gram_tolerance(self.m) * squares(0) { left } else { 0.0 }
                } else {
                    squares(0)
                }
            })
            .collect()
    }

    /// `‖Rθ − Z‖²` along a direction: `2 Σ (Rθ − Z)ᵀ R δ`, its derivative at `θ`.
    pub(crate) fn excess_along(&self, theta: &Theta, direction: &Theta) -> f64 {
        let mut rate = 0.0;
        for (pivot, r, z) in self.iter() {
            for (k, z) in z.iter().enumerate() {
                let error = dot(r, &theta.column(k)[pivot..]) - z;
                rate += 2.0 * error * dot(r, &direction.column(k)[pivot..]);
            }
        }
        rate
    }

    /// Variance of every design column about its mean, which row 0 holds where `first` is 1 (an intercept); the second
    /// moment where `first` is 0. Exactly 0 for the intercept, and for a column that [is constant](is_constant).
    pub(crate) fn variances(&self, first: usize) -> Vec<f64> {
        let mut centred = vec![0.0; self.m];
        match self.sums() {
            Some(sums) if first == 1 => {
                centred.iter_mut().enumerate().for_each(|(j, s)| *s = sums.xx(j));
            }
            Some(sums) => centred = sums.column_squares(),
            None => {
                for (pivot, r, _) in self.iter().filter(|(pivot, ..)| *pivot >= first) {
                    for (s, a) in centred[pivot..].iter_mut().zip(r) {
                        *s += a * a;
                    }
                }
            }
        }
        for (j, (s, squares)) in centred.iter_mut().zip(self.column_squares()).enumerate() {
            *s = if j < first || is_constant(*s, squares) { 0.0 } else { *s / self.n };
        }
        centred
    }

    /// `Σ w y²` of target `k`.
    pub(crate) fn squares(&self, k: usize) -> f64 {
        if let Some(sums) = self.sums() {
            return sums.first()[self.m + k].powi(2) + sums.yy(k);
        }
        self.residual()[k] + self.iter().map(|(_, _, z)| z[k] * z[k]).sum::<f64>()
    }

    /// `Σ w x_j²` of every design column.
    pub fn column_squares(&self) -> Vec<f64> {
        if let Some(sums) = self.sums() {
            return sums.column_squares();
        }
        let mut squares = vec![0.0; self.m];
        for (pivot, r, _) in self.iter() {
            for (s, a) in squares[pivot..].iter_mut().zip(r) {
                *s += a * a;
            }
        }
        squares
    }

    /// Squared residuals of each target that rounding alone may leave around the fit `theta`: a target that is fitted exactly has
    /// no more. The rule by which columns count as dependent, for targets.
    pub(crate) fn rounding(&self, theta: &Theta, accumulator: Accumulator) -> Vec<f64> {
        let norms: Vec<f64> = self.column_squares().iter().map(|s| s.sqrt()).collect();
        let share = accumulator.rounding(self.m);
        (0..self.p)
            .map(|k| {
                let own = self.squares(k).sqrt();
                let parts = theta.column(k).iter().zip(&norms).map(|(t, x)| (t * x).abs());
                let reach = own + parts.sum::<f64>();
                share * reach.min(echelon::FAR * own).powi(2)
            })
            .collect()
    }

    /// `a` with `Rᵀa = x`, so that `‖a‖² = xᵀ(RᵀR)⁺x`, and the largest share of any cell of `x` that is
    /// left over: 0 to rounding where `x` is in the row space, whatever the units of the columns.
    pub(crate) fn coordinates(&self, x: &[f64]) -> (Vec<f64>, f64) {
        let mut left = x.to_vec();
        let mut size: Vec<f64> = x.iter().map(|v| v.abs()).collect();
        let mut a = Vec::with_capacity(self.rank());
        for (pivot, row, _) in self.iter() {
            let share = left[pivot] / row[0];
            if share == 0.0 {
                // A row that begins later: of a triangle's rows most of them.
                left[pivot] = 0.0;
                a.push(0.0);
                continue;
            }
            for ((l, s), r) in left[pivot..].iter_mut().zip(&mut size[pivot..]).zip(row) {
                *l -= share * r;
                *s += (share * r).abs();
            }
            left[pivot] = 0.0;
            a.push(share);
        }
        let outside = left.iter().zip(&size).filter(|(l, _)| **l != 0.0).map(|(l, s)| l.abs() / s);
        (a, outside.fold(0.0, f64::max))
    }

    /// Another sample count and an offset on `c`, for a loss whose weights are curvatures.
    pub(crate) fn recount(&mut self, n: f64, offset: f64) {
        self.n = n;
        self.echelon_mut().c[0] += offset;
    }

    /// The same `R` with `p` other targets: `z` row after row, `c` for all of them together.
    pub(crate) fn retarget(&self, p: usize, n: f64, z: &[f64], c: f64) -> Summary {
        let mut packed = Vec::with_capacity(self.numbers() + self.rank() * p);
        let mut starts = Vec::with_capacity(self.rank());
        for ((_, r, _), z) in self.iter().zip(z.chunks_exact(p)) {
            starts.push(packed.len());
            packed.extend_from_slice(r);
            packed.extend_from_slice(z);
        }
        let mut all = vec![0.0; p];
        all[0] = c;
        let pivots = self.echelon().pivots.clone();
        let form = Form::Triangle(Echelon { pivots, packed, starts, c: all });
        Self { n, m: self.m, p, target_sum: vec![0.0; p], form }
    }

    fn check(&self, theta: &Theta) -> Result<()> {
        if (theta.width(), theta.targets()) != (self.m, self.p) {
            return Err(theta.wrong_shape(self.m, self.p));
        }
        if self.n <= 0.0 {
            return Err(Error::Empty { what: "the summary" });
        }
        Ok(())
    }

    /// Is this summary, called `what`, one of `m` design columns and `p` targets?
    pub(crate) fn check_sizes(&self, what: &'static str, m: usize, p: usize) -> Result<()> {
        for (unit, expected, found) in [("design columns", m, self.m), ("targets", p, self.p)] {
            if expected != found {
                return Err(Error::Shape { what, unit, expected, found });
            }
        }
        Ok(())
    }

    /// The result of a calculation, if it is a summary still: sums may overflow.
    pub(crate) fn kept(self) -> Result<Self> {
        let m = self.m;
        let wrong = |v: &f64| !v.is_finite();
        let cell = self.iter().find_map(|(pivot, r, z)| {
            let feature = r.iter().position(wrong).map(|at| pivot + at);
            let target = || z.iter().position(wrong).map(|k| m + k);
            feature.or_else(target).or((r[0] <= 0.0).then_some(pivot))
        });
        let target = |list: &[f64]| list.iter().position(wrong).map(|k| m + k);
        let sums = cell.or_else(|| target(self.residual())).or_else(|| target(&self.target_sum));
        match sums.or((!self.n.is_finite()).then_some(0)) {
            Some(column) => Err(Error::Overflow { column }),
            None => Ok(self),
        }
    }

    /// Every number finite? Used at every door a summary can come through.
    pub(crate) fn is_finite(&self) -> bool {
        let finite = |list: &[f64]| list.iter().all(|v| v.is_finite());
        let form = match &self.form {
            Form::Triangle(echelon) => finite(&echelon.packed) && finite(&echelon.c),
            Form::Sums(sums) => sums.is_finite(),
        };
        self.n.is_finite() && form && finite(&self.target_sum)
    }
}

/// The same numbers, whether zeros are stored or not.
impl PartialEq for Summary {
    fn eq(&self, other: &Self) -> bool {
        let same = || match (&self.form, &other.form) {
            (Form::Sums(a), Form::Sums(b)) if Arc::ptr_eq(a, b) => true,
            _ => {
                self.echelon().pivots == other.echelon().pivots
                    && (0..self.rank()).all(|i| self.padded_row(i).eq(other.padded_row(i)))
                    && self.residual() == other.residual()
            }
        };
        (self.n, self.m, self.p) == (other.n, other.m, other.p)
            && self.target_sum == other.target_sum
            && same()
    }
}

/// A column whose standard deviation is below this share of its root mean square is taken for constant.
///
/// Rounding moves the spread of a column by some 1e-15 of its size, so below this share the spread has too few correct
/// digits for predictions that agree to 1e-7 between sums made in different orders. At this share itself the spread has
/// eight correct digits: the comparison comes out the same for any order.
pub(crate) const LEAST_SPREAD: f64 = 3e-7;

/// Whether a column of sum of squares `squares` is constant, given its squares about the mean.
pub(crate) fn is_constant(centred: f64, squares: f64) -> bool {
    centred <= LEAST_SPREAD * LEAST_SPREAD * squares
}

/// A result that has not left the range of double precision.
fn within(what: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(Error::Range {
        what,
        value,
        must: "finite; numbers this large cannot be squared, rescale them",
    })
}

/// Sum of products; of the longer list, which may go on where a row has zeros that are not stored, only the beginning counts.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let both = a.len().min(b.len());
    let (a, b) = (&a[..both], &b[..both]);
    // Four running sums: lets the compiler vectorise without changing the result between builds.
    let mut sums = [0.0; 4];
    let (ca, cb) = (a.chunks_exact(4), b.chunks_exact(4));
    let tail: f64 = ca.remainder().iter().zip(cb.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in ca.zip(cb) {
        for l in 0..4 {
            sums[l] += x[l] * y[l];
        }
    }
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + tail
}
