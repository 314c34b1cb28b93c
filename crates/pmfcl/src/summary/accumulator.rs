//! How rows are accumulated: what a user chooses, and what it costs in digits.

use super::echelon;

/// Columns up to which `auto` is `qr`.
const NARROW: usize = 512;

/// How rows are accumulated.
///
/// | | products | digits lost | use |
/// | --- | --- | --- | --- |
/// | `qr` | none | as many as the condition number has | up to some hundred columns |
/// | `gram` | double | twice as many | wide designs; factors where columns nearly depend on each other |
/// | `mixed` | single | see `Learner::rounding_bound` | very wide random features |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accumulator {
    /// `qr` up to 512 design columns, `gram` beyond; for the basis `auto` up to 128 where its ridge makes that safe. The default.
    #[default]
    Auto,
    /// Orthogonal factors: loses as many digits as the condition number has.
    Qr,
    /// Sums of products: about three times faster, loses twice as many digits. With an intercept a row near the first ones
    /// is subtracted from all rows while they are summed, so that a mean far from zero costs no digits. Where the first rows
    /// show that columns nearly depend on each other, orthogonal factors are used all the same.
    Gram,
    /// Sums of products that are made in single precision and added up in double: about twice as fast as `gram`. Every feature's
    /// sum of squares is raised by [`Accumulator::single_precision`], so that rounding is never taken for signal; the rank then
    /// counts all columns that vary, since dependent ones cannot be told. No more rows than columns are factored in double
    /// precision instead.
    Mixed,
}

impl Accumulator {
    /// What this is for a design of `m` columns: `auto` stands for `qr` or `gram`.
    #[must_use]
    pub fn for_width(self, m: usize) -> Self {
        match self {
            Self::Auto if m <= NARROW => Self::Qr,
            Self::Auto => Self::Gram,
            chosen => chosen,
        }
    }

    /// The share of its own sum of squares by which `mixed` raises that of every feature of a design of `m` columns:
    /// `2⁻²² √m`, about what rounding to single precision can do to a sum of squares in any direction. It acts as a ridge of
    /// this size on standardized features.
    pub fn single_precision(m: usize) -> f64 {
        2.0 * f64::from(f32::EPSILON) * (m as f64).sqrt()
    }

    /// Share of `(‖y‖ + Σ ‖x_j‖|θ_j|)²` that rounding alone may leave of squared residuals over `m` columns.
    pub(crate) fn rounding(self, m: usize) -> f64 {
        match self.for_width(m) {
            Self::Auto | Self::Qr => echelon::tolerance(m).powi(2),
            Self::Gram => echelon::gram_tolerance(m),
            Self::Mixed => Self::single_precision(m),
        }
    }
}
