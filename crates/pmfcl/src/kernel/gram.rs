//! Sums of products: `XᵀX`, `XᵀY` and the squared norms of `Y`.
//!
//! ```text
//!            X panels                 X panels
//!          ┌─┬─┬─┬─┐                ┌─┬─┬─┬─┐
//! X panels │▓│▓│▓│▓│       Y panels │▓│▓│▓│▓│
//!          │ │▓│▓│▓│                └─┴─┴─┴─┘
//!          │ │ │▓│▓│       and Σ y² for each target.
//!          │ │ │ │▓│
//!          └─┴─┴─┴─┘
//! ```
//!
//! Each ▓ is a 4 × 4 block, kept in one piece. A tile is up to two blocks side by side.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::strip::{Strip, WIDE, groups};
use super::{Source, parallel, tile};

/// Numbers in a block.
pub(super) const BLOCK: usize = WIDE * WIDE;

/// Panels on the left that stay in the second-level cache while those on the right pass by.
const LEFT: usize = 24;

/// Feature panels from which on threads share a strip, and the panels on the right that one of them takes at once.
const SHARED: usize = 128;
const BAND: usize = 32;

/// `XᵀX` (upper half), `XᵀY` and the squared norm of each column of `Y`, as running sums.
///
/// Sums of squares overflow beyond 1e154 and lose digits below 1e-140; [`super::factor`] has no such
/// limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gram {
    m: usize,
    p: usize,
    /// Blocks `(i, j)`, `i ≤ j`, column of blocks after column of blocks.
    xx: Vec<f64>,
    /// Blocks `(k, j)`: targets `4k..` against features `4j..`.
    yx: Vec<f64>,
    yy: Vec<f64>,
}

impl Gram {
    /// Sums over no rows.
    pub(crate) fn new(m: usize, p: usize) -> Self {
        let (x, y) = (m.div_ceil(WIDE), p.div_ceil(WIDE));
        Self {
            m,
            p,
            xx: vec![0.0; x * (x + 1) / 2 * BLOCK],
            yx: vec![0.0; y * x * BLOCK],
            yy: vec![0.0; y * WIDE],
        }
    }

    /// Sums made elsewhere: `xx` row after row from the diagonal on, `xy` feature after feature.
    pub(crate) fn from_upper(m: usize, p: usize, xx: &[f64], xy: &[f64], yy: &[f64]) -> Self {
        let mut gram = Self::new(m, p);
        let mut cells = xx.iter();
        for i in 0..m {
            for (j, v) in (i..m).zip(cells.by_ref()) {
                gram.xx[upper(i / WIDE, j / WIDE) + i % WIDE * WIDE + j % WIDE] = *v;
                // The block on the diagonal is whole.
                if i / WIDE == j / WIDE {
                    gram.xx[upper(i / WIDE, j / WIDE) + j % WIDE * WIDE + i % WIDE] = *v;
                }
            }
        }
        for (i, row) in xy.chunks_exact(p.max(1)).enumerate() {
            for (k, v) in row.iter().enumerate() {
                let at = k / WIDE * m.div_ceil(WIDE) + i / WIDE;
                gram.yx[at * BLOCK + k % WIDE * WIDE + i % WIDE] = *v;
            }
        }
        gram.yy[..p].copy_from_slice(yy);
        gram
    }

    /// Adds the given rows.
    ///
    /// The same rows in the same pieces give the same bits, on any number of threads.
    /// Cost: `n m (m + 2p)` flops.
    pub(crate) fn add(&mut self, source: &impl Source, rows: Range<usize>) {
        Strip::new(self.m, self.p).each(source, rows, |strip| self.absorb(strip));
    }

    /// Adds the rows of one packed strip. Threads share the columns of a wide one; every sum is made by one of them, in the order
    /// of the rows.
    pub(super) fn absorb(&mut self, strip: &Strip) {
        let (x, _) = strip.panels();
        if x < SHARED || parallel::threads() < 2 {
            let Self { xx, yx, p, .. } = self;
            let targets = Some(yx.as_mut_slice());
            tile::dispatch(Absorb { columns: 0..x, xx, targets, p: *p, strip });
        } else {
            let (p, mut targets) = (self.p, std::mem::take(&mut self.yx));
            // The last columns are the longest: they come first.
            let mut jobs: Vec<Absorb<'_>> = self
                .bands(BAND)
                .into_iter()
                .rev()
                .map(|(columns, xx)| Absorb { columns, xx, targets: None, p, strip })
                .collect();
            jobs.push(Absorb { columns: 0..0, xx: &mut [], targets: Some(&mut targets), p, strip });
            parallel::each(jobs, tile::dispatch);
            self.yx = targets;
        }
        for (k, sums) in self.yy.chunks_exact_mut(WIDE).enumerate() {
            squares(strip.panel(x + k), sums);
        }
    }

    /// Columns of panels, `wide` at a time, with their blocks of `XᵀX`, which lie in one piece.
    pub(super) fn bands(&mut self, wide: usize) -> Vec<(Range<usize>, &mut [f64])> {
        let panels = self.m.div_ceil(WIDE);
        let mut rest = self.xx.as_mut_slice();
        let mut bands = Vec::with_capacity(panels.div_ceil(wide));
        for from in (0..panels).step_by(wide) {
            let to = panels.min(from + wide);
            let (band, after) = rest.split_at_mut(upper(0, to) - upper(0, from));
            bands.push((from..to, band));
            rest = after;
        }
        bands
    }

    /// Adds the sums over other rows.
    pub(crate) fn merge(&mut self, other: &Self) {
        debug_assert_eq!((self.m, self.p), (other.m, other.p));
        for (mine, theirs) in
            [(&mut self.xx, &other.xx), (&mut self.yx, &other.yx), (&mut self.yy, &other.yy)]
        {
            for (a, b) in mine.iter_mut().zip(theirs) {
                *a += b;
            }
        }
    }

    /// Adds a share of itself to the sum of squares of every feature from `first` on.
    pub(crate) fn lift(&mut self, first: usize, share: f64) {
        for i in first..self.m {
            self.xx[upper(i / WIDE, i / WIDE) + i % WIDE * (WIDE + 1)] *= 1.0 + share;
        }
    }

    /// Features and targets.
    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.m, self.p)
    }

    /// `XᵀX[i][j]`, for `i ≤ j`.
    pub(crate) fn xx(&self, i: usize, j: usize) -> f64 {
        debug_assert!(i <= j && j < self.m);
        self.xx[upper(i / WIDE, j / WIDE) + i % WIDE * WIDE + j % WIDE]
    }

    /// Writes `XᵀX[i][i..]`.
    pub(crate) fn xx_from(&self, i: usize, out: &mut [f64]) {
        debug_assert_eq!(out.len(), self.m - i);
        let skip = i % WIDE;
        for (q, cells) in (i / WIDE..).zip(0..(skip + out.len()).div_ceil(WIDE)) {
            let row = &self.xx[upper(i / WIDE, q) + skip * WIDE..][..WIDE];
            for (j, cell) in row.iter().enumerate() {
                let at = cells * WIDE + j;
                if at >= skip && at - skip < out.len() {
                    out[at - skip] = *cell;
                }
            }
        }
    }

    /// `XᵀY[i][k]`.
    pub(crate) fn xy(&self, i: usize, k: usize) -> f64 {
        let at = k / WIDE * self.m.div_ceil(WIDE) + i / WIDE;
        self.yx[at * BLOCK + k % WIDE * WIDE + i % WIDE]
    }

    /// `Σ y²` of target `k`.
    pub(crate) fn yy(&self, k: usize) -> f64 {
        self.yy[k]
    }

    /// Adds to `XᵀY[i][k]`.
    pub(super) fn add_xy(&mut self, i: usize, k: usize, v: f64) {
        let at = k / WIDE * self.m.div_ceil(WIDE) + i / WIDE;
        self.yx[at * BLOCK + k % WIDE * WIDE + i % WIDE] += v;
    }

    /// Adds to `Σ y²` of target `k`.
    pub(super) fn add_yy(&mut self, k: usize, v: f64) {
        self.yy[k] += v;
    }

    /// Whether no sum has overflowed.
    pub(crate) fn is_finite(&self) -> bool {
        // Squares bound all products, so the diagonal tells.
        (0..self.m).all(|i| self.xx(i, i).is_finite()) && self.yy.iter().all(|s| s.is_finite())
    }
}

/// Where block `(i, j)` of the upper half begins.
pub(super) fn upper(i: usize, j: usize) -> usize {
    (j * (j + 1) / 2 + i) * BLOCK
}

/// [`Gram::absorb`] with the registers of one processor, for some columns of panels.
struct Absorb<'a> {
    columns: Range<usize>,
    /// Blocks of the columns.
    xx: &'a mut [f64],
    /// `YᵀX` of all columns, where it is to be updated too.
    targets: Option<&'a mut [f64]>,
    p: usize,
    strip: &'a Strip,
}

impl WithSimd for Absorb<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F64_LANES {
            4 => self.run::<S, 1>(simd),
            2 => self.run::<S, 2>(simd),
            _ => self.run::<S, 4>(simd),
        }
    }
}

impl Absorb<'_> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { columns, xx, mut targets, p, strip } = self;
        let (x, y) = strip.panels();
        let base = upper(0, columns.start);
        for first in (0..columns.end).step_by(LEFT) {
            let right = groups(columns.end - columns.start)
                .map(|group| columns.start + group.start..columns.start + group.end);
            for right in right.filter(|right| right.end > first) {
                for left in first..right.end.min(first + LEFT) {
                    // Below the diagonal there is nothing to do.
                    let from = right.start.max(left);
                    let at = |j| upper(left, from + j) - base;
                    match right.end - from {
                        2 => product::<2>(strip, left, from, xx, at),
                        _ => product::<1>(strip, left, from, xx, at),
                    }
                }
                // The panels on the right are in cache: multiply them by the targets now.
                if first == 0
                    && let Some(yx) = &mut targets
                {
                    meet::<S, V>(simd, strip, (x, y, p), right, yx);
                }
            }
        }
        if columns.is_empty()
            && let Some(yx) = &mut targets
        {
            groups(x).for_each(|right| meet::<S, V>(simd, strip, (x, y, p), right, yx));
        }
    }
}

/// Adds the products of all targets with one group of feature panels.
#[inline(always)]
fn meet<S: Simd, const V: usize>(
    simd: S,
    strip: &Strip,
    (x, y, p): (usize, usize, usize),
    right: Range<usize>,
    yx: &mut [f64],
) {
    for left in 0..y {
        let at = |j| (left * x + right.start + j) * BLOCK;
        let (k, from) = (x + left, right.start);
        match (right.len(), p - left * WIDE == 1) {
            (2, true) => single::<S, V, 2>(simd, strip, k, from, yx, at),
            (_, true) => single::<S, V, 1>(simd, strip, k, from, yx, at),
            (2, false) => product::<2>(strip, k, from, yx, at),
            (_, false) => product::<1>(strip, k, from, yx, at),
        }
    }
}

/// Adds the tile of panel `left` against `N` panels from `from` to the blocks that begin `at(0)..`.
#[inline(always)]
fn product<const N: usize>(
    strip: &Strip,
    left: usize,
    from: usize,
    blocks: &mut [f64],
    at: impl Fn(usize) -> usize,
) {
    let right = std::array::from_fn(|j| strip.panel(from + j));
    let at = std::array::from_fn(at);
    tile::dispatch(tile::Outer::<N> { left: strip.panel(left), right, blocks, at });
}

/// As [`product`], where only the first column of panel `left` is in use.
#[inline(always)]
fn single<S: Simd, const V: usize, const N: usize>(
    simd: S,
    strip: &Strip,
    left: usize,
    from: usize,
    blocks: &mut [f64],
    at: impl Fn(usize) -> usize,
) {
    let right = std::array::from_fn(|j| strip.panel(from + j));
    let sums = tile::lone::<S, V, N>(simd, strip.panel(left), right);
    for j in 0..N {
        let row = &mut tile::registers_mut::<S, V>(&mut blocks[at(j)..at(j) + WIDE])[0];
        for v in 0..V {
            row[v] = simd.add_f64s(row[v], sums[j][v]);
        }
    }
}

/// Adds the squared norm of each column of a panel.
#[inline(always)]
fn squares(panel: &[f64], sums: &mut [f64]) {
    let mut part = [0.0; BLOCK];
    for block in pulp::as_arrays::<BLOCK, f64>(panel).0 {
        for (s, y) in part.iter_mut().zip(block) {
            *s += y * y;
        }
    }
    for k in 0..WIDE {
        sums[k] += (part[k] + part[WIDE + k]) + (part[2 * WIDE + k] + part[3 * WIDE + k]);
    }
}
