//! The accumulators: sums of products, in double or mixed precision, and the triangle of a QR decomposition.
//!
//! ```text
//! Source ──strip──▶ packed rows ──┬──gram, mixed──▶ Gram ──cholesky──▶ Triangle
//!                                 └──factor (below) ─────────────────▶ Triangle ──stack──▶ Triangle
//! ```
//!
//! Everything here gives the same bits for the same rows. Whoever has more threads hands out disjoint
//! ranges of rows, of [`leaf_rows`] each, and joins the results in a fixed order; for one wide matrix
//! they can share its tiles instead ([`with_threads`]).
//!
//! | symbol | here                    | shape     |
//! |--------|-------------------------|-----------|
//! | `X`    | feature columns         | n × m     |
//! | `Y`    | target columns          | n × p     |
//! | `R`    | `Triangle`, first `m`   | rows × m  |
//! | `Z`    | `Triangle`, last `p`    | rows × p  |

#![allow(
    clippy::inline_always,
    reason = "a kernel must be inlined to see the processor's registers"
)]

mod absorb;
mod apply;
mod cells;
mod cholesky;
mod columns;
mod entries;
mod exponential;
mod factor;
mod fingerprint;
mod gram;
mod householder;
mod instructions;
mod mixed;
mod pairs;
mod parallel;
mod pivoted;
mod root;
mod sketch;
mod solve;
mod strip;
mod sweeps;
#[cfg(test)]
mod tests;
mod tile;
mod tridiagonal;

pub(crate) use apply::add_applied;
pub(crate) use cells::zeros;
pub(crate) use cholesky::{Steps, blocked, decompose, decompose_in_place};
pub(crate) use columns::{column_tiles, matrix_of};
pub(crate) use exponential::{exponentials, square};
pub(crate) use factor::{Stairs, factor, stack};
pub(crate) use fingerprint::{CellKeys, cell_sums, row_sums};
pub(crate) use gram::Gram;
pub(crate) use householder::Reflections;
pub use instructions::instruction_set;
pub(crate) use mixed::Mixed;
pub(crate) use pairs::{products, square_distances};
pub(crate) use parallel::{each, with_threads};
pub(crate) use pivoted::Rooted;
pub(crate) use root::Root;
pub(crate) use sweeps::{SIDE, Side, Sweeps};
pub(crate) use tridiagonal::{Tridiagonal, tridiagonal};

/// Rows that can be produced on demand: `m` feature columns followed by `p` target columns,
/// row-major. All numbers are finite.
pub(crate) trait Source: Sync {
    /// How many rows there are.
    fn rows(&self) -> usize;

    /// Writes the rows `from .. from + out.len() / (m + p)`.
    fn fill(&self, from: usize, out: &mut [f64]);

    /// All rows as they lie in memory, where nothing is done to them but a shift.
    fn plain(&self) -> Option<Plain<'_>> {
        None
    }

    /// The first features of all rows from `from` on that are zero, as far as that is known.
    fn zeros(&self, _from: usize) -> usize {
        0
    }
}

/// Rows of a [`Source`] that lie in memory.
#[derive(Clone, Copy)]
pub(crate) struct Plain<'a> {
    /// Whether the first feature is 1 in every row and not among the cells of `x`.
    pub(crate) intercept: bool,
    /// The other features, row-major, and the targets.
    pub(crate) x: &'a [f64],
    pub(crate) y: PlainTargets<'a>,
    /// Subtracted from every row of features and targets; empty for nothing.
    pub(crate) shift: &'a [f64],
}

/// Targets of [`Plain`] rows.
#[derive(Clone, Copy)]
pub(crate) enum PlainTargets<'a> {
    /// Row-major.
    Numbers(&'a [f64]),
    /// The target of each row that is 1; all others are 0.
    Indicators(&'a [u32]),
}

/// `R` and `Z` of the QR decomposition of `[X | Y]`, and what `X` leaves of `Y`.
///
/// For every `θ`
///
/// ```text
/// ‖X θ − y_k‖² = ‖R θ − z_k‖² + residual[k]
/// ```
///
/// `cells` are row-major, `m + p` wide, zero below the diagonal, which is not negative. There are at
/// most `min(n, m)` rows. Where the numbers of the rows exceed about 1e300, cells may be infinite,
/// and the squares in `residual` are from 1e154 on; nothing is ever NaN.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Triangle {
    pub(crate) m: usize,
    pub(crate) p: usize,
    pub(crate) rows: usize,
    pub(crate) cells: Vec<f64>,
    pub(crate) residual: Vec<f64>,
}

impl Triangle {
    /// The triangle of no rows.
    pub(crate) fn empty(m: usize, p: usize) -> Self {
        Self { m, p, rows: 0, cells: Vec::new(), residual: vec![0.0; p] }
    }
}

/// Rows to give to [`factor`] at once: so many that joining the triangles costs little, and a
/// function of `m` alone, so that the pieces, and with them the bits, do not depend on threads.
pub(crate) fn leaf_rows(m: usize) -> usize {
    (16 * m).clamp(4096, 1 << 16)
}
