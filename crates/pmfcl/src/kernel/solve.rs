//! Whitening: `X ← X R⁻¹` and `Y ← Y − X R⁻¹ Z`, one packed strip at a time.
//!
//! Column by column of blocks, from left to right: what the columns before explain is subtracted, then the block is multiplied by
//! the inverse of its corner of `R`.
//!
//! ```text
//!       ┌─┬─┬─┐
//!   R = │C│F│F│     X_j ← (X_j − Σ_i X_i F_ij) C_j⁻¹
//!       │ │C│F│
//!       │ │ │C│
//!       └─┴─┴─┘
//! ```
//!
//! Only corners of up to 24 columns are inverted: that costs no digits against substitution, while with the whole of `R⁻¹` the
//! rows would be off by its condition number.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::instructions::{Instructions, dispatch};
use super::strip::{Aligned, Strip, WIDE, groups};
use super::tile;

/// Features eliminated in one go: their factors for three panels stay in the first-level cache.
const AHEAD: usize = 64;

/// Columns of the widest corner, and rows that are whitened at once with eight-number registers and with others.
const CORNER: usize = 3 * WIDE;
const EIGHT: usize = 8;
const SIX: usize = 6;

/// `[R | Z]` laid out for [`Whitener::apply`].
pub(super) struct Whitener {
    p: usize,
    /// Panels in a group.
    size: usize,
    /// For each group of panels, feature panels first: for each feature before it, its factors. A lone target
    /// has one factor per feature.
    factors: Vec<Aligned>,
    /// For each group of feature panels the inverse of `R` there, row after row.
    corners: Vec<Aligned>,
}

impl Whitener {
    /// Lays out `m` rows of width `m + p`. Features that are always zero have zero rows, and stay zero.
    pub(super) fn new(m: usize, p: usize, cells: &[f64]) -> Self {
        let (x, y) = (m.div_ceil(WIDE), p.div_ceil(WIDE));
        let size = Instructions::current().group();
        // Columns that only fill up a panel are zero; a one on the diagonal keeps them so.
        let r = |i: usize, j: usize| match (i < m, j < m) {
            (true, true) if i == j && cells[i * (m + p) + j] <= 0.0 => 1.0,
            (true, true) if i <= j => cells[i * (m + p) + j],
            (false, false) if i == j => 1.0,
            _ => 0.0,
        };
        let z = |i: usize, k: usize| if i < m && k < p { cells[i * (m + p) + m + k] } else { 0.0 };
        let (mut factors, mut corners) = (Vec::new(), Vec::new());
        for group in groups(x, size) {
            let (from, wide) = (group.start * WIDE, group.len() * WIDE);
            factors.push(lay_out(from, wide, |i, j| r(i, from + j)));
            corners.push(inverse(wide, |i, j| r(from + i, from + j)));
        }
        for group in groups(y, size) {
            let columns = if is_single(p, &group) { 1 } else { group.len() * WIDE };
            factors.push(lay_out(WIDE * x, columns, |i, k| z(i, group.start * WIDE + k)));
        }
        Self { p, size, factors, corners }
    }

    /// Whitens the rows of a strip where they are.
    ///
    /// Cost: `n m (m + 2p)` flops for `n` rows.
    pub(super) fn apply(&self, strip: &mut Strip) {
        dispatch(Apply { whitener: self, strip });
    }
}

fn lay_out(rows: usize, columns: usize, cell: impl Fn(usize, usize) -> f64) -> Aligned {
    let mut out = Aligned::zeros(rows * columns);
    for (i, row) in out.cells_mut().chunks_exact_mut(columns).enumerate() {
        for (j, to) in row.iter_mut().enumerate() {
            *to = cell(i, j);
        }
    }
    out
}

/// The inverse of a small upper triangle, row-major.
fn inverse(size: usize, r: impl Fn(usize, usize) -> f64) -> Aligned {
    let mut out = Aligned::zeros(size * size);
    let cells = out.cells_mut();
    for j in 0..size {
        cells[j * size + j] = 1.0 / r(j, j);
        for i in (0..j).rev() {
            let known: f64 = (i + 1..=j).map(|k| r(i, k) * cells[k * size + j]).sum();
            cells[i * size + j] = -known / r(i, i);
        }
    }
    out
}

/// Whether a group of target panels holds one target only.
fn is_single(p: usize, group: &Range<usize>) -> bool {
    group.len() == 1 && p - group.start * WIDE == 1
}

/// [`Whitener::apply`] with the registers of one processor.
struct Apply<'a> {
    whitener: &'a Whitener,
    strip: &'a mut Strip,
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F64_LANES {
            8 => self.run::<S, 1, EIGHT>(simd),
            4 => self.run::<S, 2, SIX>(simd),
            2 => self.run::<S, 4, SIX>(simd),
            _ => self.run::<S, 8, SIX>(simd),
        }
    }
}

impl Apply<'_> {
    #[inline(always)]
    fn run<S: Simd, const V: usize, const ROWS: usize>(self, simd: S) {
        let Self { whitener, strip } = self;
        let (x, y) = strip.panels();
        let (rows, stride, size) = (strip.padded(), strip.stride(), whitener.size);
        let mut factors = whitener.factors.iter().map(Aligned::cells);
        for (group, corner) in groups(x, size).zip(&whitener.corners) {
            let (known, panels) = strip.cells_mut().split_at_mut(group.start * stride);
            let factors = factors.next().unwrap_or(&[]);
            let mut job = Job { known, panels, rows, stride, factors };
            match group.len() {
                3 => job.solve::<ROWS, 3>(corner.cells()),
                2 => job.solve::<ROWS, 2>(corner.cells()),
                _ => job.solve::<ROWS, 1>(corner.cells()),
            }
        }
        let (known, targets) = strip.cells_mut().split_at_mut(x * stride);
        for group in groups(y, size) {
            let panels = &mut targets[group.start * stride..group.end * stride];
            let factors = factors.next().unwrap_or(&[]);
            let mut job = Job { known, panels, rows, stride, factors };
            match group.len() {
                3 => job.update::<ROWS, 3>(),
                2 => job.update::<ROWS, 2>(),
                _ if is_single(whitener.p, &group) => job.update_single::<S, V, ROWS>(simd),
                _ => job.update::<ROWS, 1>(),
            }
        }
    }
}

/// One group of panels, to be cleared of the features before it.
struct Job<'a> {
    /// Panels of whitened features.
    known: &'a [f64],
    panels: &'a mut [f64],
    rows: usize,
    stride: usize,
    factors: &'a [f64],
}

impl Job<'_> {
    /// Subtracts what the known features explain.
    #[inline(always)]
    fn update<const ROWS: usize, const N: usize>(&mut self) {
        let factors = self.factors.chunks(AHEAD * N * WIDE);
        let known = self.known.chunks(AHEAD / WIDE * self.stride);
        for (factors, known) in factors.zip(known) {
            for row in (0..self.rows).step_by(ROWS) {
                let at = std::array::from_fn(|j| j * self.stride + row * WIDE);
                let (sources, stride) = (&known[row * WIDE..], self.stride);
                let panels = &mut *self.panels;
                dispatch(tile::Inner::<ROWS, N, false> { sources, stride, factors, panels, at });
            }
        }
    }

    /// Subtracts what the known features explain, then solves within the group.
    #[inline(always)]
    fn solve<const ROWS: usize, const N: usize>(&mut self, corner: &[f64]) {
        self.update::<ROWS, N>();
        let mut copy = [0.0; EIGHT * CORNER];
        for row in (0..self.rows).step_by(ROWS) {
            let at: [usize; N] = std::array::from_fn(|j| j * self.stride + row * WIDE);
            for (to, from) in copy.chunks_exact_mut(ROWS * WIDE).zip(at) {
                to.copy_from_slice(&self.panels[from..from + ROWS * WIDE]);
            }
            let (sources, stride) = (&copy[..N * ROWS * WIDE], ROWS * WIDE);
            let (factors, panels) = (corner, &mut *self.panels);
            dispatch(tile::Inner::<ROWS, N, true> { sources, stride, factors, panels, at });
        }
    }

    /// As [`Self::update`], for a panel of which only the first column is in use.
    #[inline(always)]
    fn update_single<S: Simd, const V: usize, const ROWS: usize>(&mut self, simd: S) {
        for row in (0..self.rows).step_by(ROWS) {
            let sources = &self.known[row * WIDE..];
            let sums = tile::inner_single::<S, V, ROWS>(simd, sources, self.stride, self.factors);
            let panel = self.panels[row * WIDE..].chunks_exact_mut(WIDE);
            for (y, sum) in panel.zip(sums) {
                y[0] -= sum;
            }
        }
    }
}
