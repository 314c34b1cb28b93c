//! Sums of products in the place of a triangle, for wide designs.
//!
//! A triangle that is made of sums has no more digits than they have, and costs as many flops as `m/3` rows. Sums add, a ridge is solved
//! from them by one Cholesky decomposition, and the triangle is made when somebody asks for it.
//!
//! ```text
//! [X Y]ᵀ[X Y] = f fᵀ + rest        f: the first row of the triangle, rest: zero in column 0
//! ```
//!
//! With an intercept `f` is `√n (1, x̄, ȳ)` and `rest` has the products of centred columns, so that a mean far from zero costs no digits.
//! Two first rows become one by a rotation, which leaves a row for the rest: the difference of the means.

mod summed;

use std::sync::OnceLock;

use super::echelon::Decision;
use super::few_rows::FewRows;
use super::{Echelon, Form, Summary, dot, echelon};
use crate::kernel::{Gram, Source};

/// Sums beyond this are not taken: what the triangle is made of might overflow.
const MOST: f64 = 1e300;

/// A pivot below the norm of its column by more than this factor: sums of products keep less than eight digits of it.
const ACCURATE_CONDITION: f64 = 1e4;

/// Sums of products over the rows of a task or a pool.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    /// The first row of the triangle, features and targets; zeros where column 0 is zero in all rows.
    first: Vec<f64>,
    /// Sums of products of what the rows have in addition to it. Column 0 is zero.
    rest: Rest,
    /// Rows, where they were counted: the rank is not above their number.
    rows: Option<u64>,
    /// How the triangle is made.
    decision: Decision,
    echelon: OnceLock<Echelon>,
}

/// Sums of products, or the few rows that they are made of when somebody asks.
#[derive(Debug, Clone)]
enum Rest {
    Made(Gram),
    Rows(FewRows),
}

impl Rest {
    fn gram(&self) -> &Gram {
        match self {
            Self::Made(gram) => gram,
            Self::Rows(rows) => rows.gram(),
        }
    }

    /// The sums to change.
    fn gram_mut(&mut self) -> &mut Gram {
        if let Self::Rows(rows) = self {
            *self = Self::Made(rows.gram().clone());
        }
        match self {
            Self::Made(gram) => gram,
            Self::Rows(_) => unreachable!("replaced above"),
        }
    }

    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Made(gram) => gram.shape(),
            Self::Rows(rows) => rows.shape(),
        }
    }

    /// The sum of squares of feature `j`.
    fn xx(&self, j: usize) -> f64 {
        match self {
            Self::Made(gram) => gram.xx(j, j),
            Self::Rows(rows) => rows.xx(j),
        }
    }

    /// The sum of squares of target `k`.
    fn yy(&self, k: usize) -> f64 {
        match self {
            Self::Made(gram) => gram.yy(k),
            Self::Rows(rows) => rows.yy(k),
        }
    }

    /// Adds these, times `factor`, to other sums.
    fn add_to(&self, sums: &mut Gram, factor: f64) {
        match self {
            Self::Made(gram) => sums.add_scaled(gram, factor),
            Self::Rows(rows) => rows.add_to(sums, factor),
        }
    }
}

impl Sums {
    /// Sums over no rows.
    fn empty(m: usize, p: usize) -> Self {
        let (first, rest) = (vec![0.0; m + p], Rest::Made(Gram::new(m, p)));
        let (rows, decision) = (Some(0), Decision::ByColumn);
        Self { first, rest, rows, decision, echelon: OnceLock::new() }
    }

    /// The sums of rows from which `shift` was subtracted, which is empty or 0 in column 0.
    pub(super) fn new(mut rest: Gram, shift: &[f64], rows: Option<u64>) -> Self {
        let (m, p) = rest.shape();
        let mut first = vec![0.0; m + p];
        let square = rest.xx(0, 0);
        if square > 0.0 {
            let root = square.sqrt();
            rest.xx_from(0, &mut first[..m]);
            (0..p).for_each(|k| first[m + k] = rest.xy(0, k));
            first.iter_mut().for_each(|v| *v /= root);
            rest.add_outer(&first, -1.0);
            first.iter_mut().zip(shift).for_each(|(v, shift)| *v += root * shift);
        }
        rest.clear(0);
        for j in 1..m {
            // What rounding has left of a column that does not vary.
            if rest.xx(j, j) <= 0.0 {
                rest.clear(j);
            }
        }
        let rest = Rest::Made(rest);
        Self { first, rest, rows, decision: Decision::ByColumn, echelon: OnceLock::new() }
    }

    /// The sums of few rows, each of weight 1, from which `shift` was subtracted; the first feature is 1. In single precision where the
    /// power of two for each feature and the lift are given.
    pub(super) fn of_few(
        source: &impl Source,
        shape: (usize, usize),
        shift: &[f64],
        single: Option<(Vec<f64>, f64)>,
    ) -> Self {
        let (rows, mut first) = FewRows::of(source, shape, shift, single);
        let count = rows.len() as u64;
        let root = (count as f64).sqrt();
        first.iter_mut().for_each(|mean| *mean *= root);
        let (rest, decision) = (Rest::Rows(rows), Decision::ByColumn);
        Self { first, rest, rows: Some(count), decision, echelon: OnceLock::new() }
    }

    /// Sums as they were kept: the first row, what the rows have in addition to it, and how many rows there were.
    pub(super) fn kept(first: Vec<f64>, rest: Gram, rows: Option<u64>, shrunk: bool) -> Self {
        let decision = Decision::ByColumn;
        let rest = Rest::Made(rest);
        Self { first, rest, rows, decision, echelon: OnceLock::new() }.shrunk(shrunk)
    }

    /// Rows, where they were counted.
    pub(super) fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// The same for a model with a ridge far above rounding: no decision is taken on which column depends on which.
    pub(super) fn shrunk(mut self, shrunk: bool) -> Self {
        self.decision = if shrunk { Decision::LargestFirst } else { Decision::ByColumn };
        self
    }

    /// Whether the triangle has all digits that the sums have.
    pub(crate) fn is_shrunk(&self) -> bool {
        self.decision == Decision::LargestFirst
    }

    /// The first row of the triangle.
    pub(crate) fn first(&self) -> &[f64] {
        &self.first
    }

    /// Sums of products of what the rows have in addition to the first row.
    pub(crate) fn rest(&self) -> &Gram {
        self.rest.gram()
    }

    /// The largest eigenvalue of the products with features scaled to unit length, or more.
    pub(super) fn largest(&self) -> f64 {
        match &self.rest {
            Rest::Made(gram) => gram.correlation_norm() + 1.0,
            Rest::Rows(rows) => 2.0 * rows.largest() + 1.0,
        }
    }

    /// Features and targets.
    pub(super) fn shape(&self) -> (usize, usize) {
        self.rest.shape()
    }

    /// The sum of squares of feature `j` in addition to the first row.
    pub(super) fn xx(&self, j: usize) -> f64 {
        self.rest.xx(j)
    }

    /// The same of target `k`.
    pub(super) fn yy(&self, k: usize) -> f64 {
        self.rest.yy(k)
    }

    /// Adds the sums over other rows, times `factor`.
    fn add(&mut self, other: &Self, factor: f64) {
        other.rest.add_to(self.rest.gram_mut(), factor);
        let root = factor.sqrt();
        self.add_row(other.first.iter().map(|v| root * v).collect());
        if other.is_shrunk() {
            self.decision = Decision::LargestFirst;
        }
        self.count(other.rows);
    }

    /// Adds what a triangle stands for, times `factor`.
    fn add_triangle(&mut self, part: &Summary, factor: f64) {
        let (m, p, root) = (part.m, part.p, factor.sqrt());
        for (k, c) in part.residual().iter().enumerate() {
            self.rest.gram_mut().add_yy(k, factor * c);
        }
        let mut top = 0;
        if part.pivots().next() == Some(0) {
            let (_, r, z) = part.row(0);
            let mut row = vec![0.0; m + p];
            row.iter_mut().zip(r).for_each(|(v, r)| *v = root * r);
            row[m..].iter_mut().zip(z).for_each(|(v, z)| *v = root * z);
            self.add_row(row);
            top = 1;
        }
        let rest = self.rest.gram_mut();
        if part.is_diagonal() {
            for (j, r, z) in part.iter().skip(top) {
                rest.raise(j, factor * r[0] * r[0]);
                for (k, z) in z.iter().enumerate() {
                    rest.add_xy(j, k, factor * r[0] * z);
                    rest.add_yy(k, factor * z * z);
                }
            }
        } else {
            rest.add(&Scaled { part, root }, top..part.rank());
        }
        // Rows that leave no residual are as many as the rank, or in the span of so many.
        let exact = part.residual().iter().all(|c| *c <= 0.0);
        self.count(exact.then_some(part.rank() as u64));
    }

    /// Adds one row of features and targets: a rotation with the first row leaves it zero in column 0.
    pub(crate) fn add_row(&mut self, mut row: Vec<f64>) {
        let (a, b) = (self.first[0], row[0]);
        let length = libm::hypot(a, b);
        if length > 0.0 {
            for (f, r) in self.first.iter_mut().zip(&mut row) {
                (*f, *r) = ((a * *f + b * *r) / length, (a * *r - b * *f) / length);
            }
        }
        row[0] = 0.0;
        if row.iter().any(|v| *v != 0.0) {
            self.rest.gram_mut().add_outer(&row, 1.0);
        }
        self.echelon = OnceLock::new();
    }

    fn count(&mut self, more: Option<u64>) {
        self.rows = self.rows.zip(more).map(|(rows, more)| rows + more);
        self.echelon = OnceLock::new();
    }

    fn scale(&mut self, factor: f64) {
        let root = factor.sqrt();
        self.first.iter_mut().for_each(|v| *v *= root);
        self.rest.gram_mut().scale(factor);
        self.echelon = OnceLock::new();
    }

    /// The same with other targets: target `k` is the `from(k)`-th of these, or zero in all rows.
    fn with_targets(&self, count: usize, from: impl Fn(usize) -> Option<usize>) -> Self {
        let (m, _) = self.rest.shape();
        let mut first = self.first[..m].to_vec();
        first.extend((0..count).map(|k| from(k).map_or(0.0, |k| self.first[m + k])));
        let rest = match &self.rest {
            Rest::Made(gram) => Rest::Made(gram.with_targets(count, from)),
            Rest::Rows(rows) => Rest::Rows(rows.with_targets(count, from)),
        };
        let (rows, decision) = (self.rows, self.decision);
        Self { first, rest, rows, decision, echelon: OnceLock::new() }
    }

    /// The triangle.
    pub(super) fn echelon(&self) -> &Echelon {
        self.echelon.get_or_init(|| {
            if let Rest::Rows(rows) = &self.rest {
                let p = self.first.len() - rows.shape().0;
                let triangle = rows.triangle(&self.first);
                return match Summary::from_triangle(triangle, 1.0, vec![0.0; p]).form {
                    Form::Triangle(echelon) => echelon,
                    Form::Sums(_) => unreachable!("a triangle was made"),
                };
            }
            let most = self.rows.and_then(|rows| usize::try_from(rows).ok());
            echelon::of_sums(&self.first, self.rest(), most, self.decision)
        })
    }

    /// Whether no sum has overflowed.
    pub(super) fn is_finite(&self) -> bool {
        let (m, p) = self.shape();
        // Squares bound all products, so the diagonal tells.
        self.first.iter().all(|v| v.is_finite())
            && (0..m).all(|j| self.xx(j).is_finite())
            && (0..p).all(|k| self.yy(k).is_finite())
    }

    /// `Σ w x_j²` of every design column.
    pub(super) fn column_squares(&self) -> Vec<f64> {
        let (m, _) = self.rest.shape();
        (0..m).map(|j| self.first[j] * self.first[j] + self.xx(j)).collect()
    }

    /// `Σ w (y_k − xᵀθ)²` of target `k`.
    pub(super) fn squared_errors(&self, k: usize, theta: &[f64]) -> f64 {
        let (m, _) = self.rest.shape();
        let first = dot(&self.first[..m], theta) - self.first[m + k];
        let rest = match &self.rest {
            Rest::Rows(rows) => rows.squared_errors(k, theta),
            Rest::Made(sums) => {
                let pulled: f64 = (0..m).map(|j| sums.xy(j, k) * theta[j]).sum();
                sums.yy(k) + dot(&sums.times(theta), theta) - 2.0 * pulled
            }
        };
        first * first + rest.max(0.0)
    }

    /// The most that the rank can be.
    fn most_rank(&self) -> usize {
        let (m, _) = self.rest.shape();
        let own = usize::from(self.first[0] > 0.0);
        let columns = own + (1..m).filter(|&j| self.xx(j) > 0.0).count();
        self.rows.and_then(|rows| usize::try_from(rows).ok()).map_or(columns, |r| r.min(columns))
    }
}

/// The rows of a triangle, times a factor.
struct Scaled<'a> {
    part: &'a Summary,
    root: f64,
}

impl Source for Scaled<'_> {
    fn rows(&self) -> usize {
        self.part.rank()
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        self.part.fill(from, out);
        out.iter_mut().for_each(|v| *v *= self.root);
    }

    fn zeros(&self, from: usize) -> usize {
        self.part.zeros(from)
    }
}

#[cfg(test)]
mod tests;
