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
//! Each ▓ is an 8 × 8 block, kept in one piece, and so is a column of blocks: eight columns of the matrix, row after row.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pulp::{Simd, WithSimd};

use super::cells::Cells;
use super::instructions::dispatch;
use super::parallel;
use super::strip::{WIDE, groups};

/// Numbers in a block.
pub(super) const BLOCK: usize = WIDE * WIDE;

/// Columns of panels that one thread takes at once.
pub(super) const BAND: usize = 12;

/// `XᵀX` (upper half), `XᵀY` and the squared norm of each column of `Y`, as running sums.
///
/// Sums of squares overflow beyond 1e154 and lose digits below 1e-140; [`super::factor`] has no such
/// limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gram {
    pub(super) m: usize,
    pub(super) p: usize,
    /// Blocks `(i, j)`, `i ≤ j`, column of blocks after column of blocks.
    pub(super) xx: Cells,
    /// Blocks `(k, j)`: targets `8k..` against features `8j..`.
    pub(super) yx: Vec<f64>,
    pub(super) yy: Vec<f64>,
}

impl Gram {
    /// Sums over no rows.
    pub(crate) fn new(m: usize, p: usize) -> Self {
        let (x, y) = (m.div_ceil(WIDE), p.div_ceil(WIDE));
        Self {
            m,
            p,
            xx: Cells::zeros(x * (x + 1) / 2 * BLOCK),
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

    /// Columns of panels, `wide` at a time, with their blocks of `XᵀX`, which lie in one piece.
    pub(super) fn bands(&mut self, wide: usize) -> Vec<(Range<usize>, &mut [f64])> {
        bands(&mut self.xx, self.m.div_ceil(WIDE), wide)
    }

    /// Adds the sums over other rows.
    pub(crate) fn merge(&mut self, other: &Self) {
        debug_assert_eq!((self.m, self.p), (other.m, other.p));
        let pairs =
            [(&mut *self.xx, &*other.xx), (&mut *self.yx, &*other.yx), (&mut *self.yy, &*other.yy)];
        for (mine, theirs) in pairs {
            for (a, b) in mine.iter_mut().zip(theirs) {
                *a += b;
            }
        }
    }

    /// Adds a share of itself to the sum of squares of every feature from `first` on.
    pub(crate) fn lift(&mut self, first: usize, share: f64) {
        for i in first..self.m {
            self.raise(i, share * self.xx(i, i));
        }
    }

    /// Adds to the sum of squares of feature `i`.
    pub(crate) fn raise(&mut self, i: usize, v: f64) {
        self.xx[upper(i / WIDE, i / WIDE) + i % WIDE * (WIDE + 1)] += v;
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
        let (block, skip) = (i / WIDE, i % WIDE);
        let row = |q: usize| &self.xx[upper(block, q) + skip * WIDE..][..WIDE];
        let (first, rest) = out.split_at_mut((WIDE - skip).min(self.m - i));
        first.copy_from_slice(&row(block)[skip..skip + first.len()]);
        let (whole, last) = pulp::as_arrays_mut::<WIDE, f64>(rest);
        for (q, out) in (block + 1..).zip(&mut *whole) {
            out.copy_from_slice(row(q));
        }
        if !last.is_empty() {
            last.copy_from_slice(&row(block + 1 + whole.len())[..last.len()]);
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
    pub(crate) fn add_xy(&mut self, i: usize, k: usize, v: f64) {
        let at = k / WIDE * self.m.div_ceil(WIDE) + i / WIDE;
        self.yx[at * BLOCK + k % WIDE * WIDE + i % WIDE] += v;
    }

    /// Adds to `Σ y²` of target `k`.
    pub(crate) fn add_yy(&mut self, k: usize, v: f64) {
        self.yy[k] += v;
    }

    /// Replaces the sums of the first feature with all features.
    pub(super) fn set_first(&mut self, sums: &[f64]) {
        for (j, v) in sums.iter().enumerate() {
            self.xx[upper(0, j / WIDE) + j % WIDE] = *v;
            // The block on the diagonal is whole.
            if j < WIDE {
                self.xx[j * WIDE] = *v;
            }
        }
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

/// Columns of panels, `wide` at a time, with their blocks.
pub(super) fn bands(xx: &mut [f64], panels: usize, wide: usize) -> Vec<(Range<usize>, &mut [f64])> {
    let mut rest = xx;
    let mut bands = Vec::with_capacity(panels.div_ceil(wide));
    for columns in groups(panels, wide) {
        let (band, after) = rest.split_at_mut(upper(0, columns.end) - upper(0, columns.start));
        bands.push((columns, band));
        rest = after;
    }
    bands
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers that one thread works on at once.
const PIECE: usize = 1 << 15;

/// Algebra of sums that are kept.
impl Gram {
    /// Adds the sums over other rows, times `factor`.
    pub(crate) fn add_scaled(&mut self, other: &Self, factor: f64) {
        debug_assert_eq!((self.m, self.p), (other.m, other.p));
        let pairs = self.xx.chunks_mut(PIECE).zip(other.xx.chunks(PIECE)).collect();
        parallel::each(pairs, |(mine, theirs): (&mut [f64], &[f64])| {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += factor * b);
        });
        for (mine, theirs) in [(&mut self.yx, &other.yx), (&mut self.yy, &other.yy)] {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += factor * b);
        }
    }

    /// Multiplies all sums.
    pub(crate) fn scale(&mut self, factor: f64) {
        parallel::each(self.xx.chunks_mut(PIECE).collect(), |piece: &mut [f64]| {
            piece.iter_mut().for_each(|v| *v *= factor);
        });
        self.yx.iter_mut().chain(&mut self.yy).for_each(|v| *v *= factor);
    }

    /// The same sums with the other sign.
    pub(crate) fn negated(&self) -> Self {
        let xx = Cells::map(&self.xx, |v| -v);
        let negative = |sums: &[f64]| sums.iter().map(|v| -v).collect();
        Self { m: self.m, p: self.p, xx, yx: negative(&self.yx), yy: negative(&self.yy) }
    }

    /// The blocks of `XᵀX`, column of blocks after column of blocks.
    pub(super) fn blocks(&self) -> &[f64] {
        &self.xx
    }

    /// Writes some rows of `−[XᵀX | XᵀY]`, each from the diagonal on, to rows of `m + p` cells. The first is the first of a block.
    pub(super) fn write_negative_rows(&self, rows: Range<usize>, cells: &mut [f64]) {
        let (m, p) = (self.m, self.p);
        let panels = rows.step_by(WIDE).zip(cells.chunks_mut(WIDE * (m + p))).collect();
        parallel::each(panels, |(first, cells): (usize, &mut [f64])| {
            for (i, row) in (first..).zip(cells.chunks_exact_mut(m + p)) {
                self.xx_from(i, &mut row[i..m]);
                row[i..m].iter_mut().for_each(|v| *v = -*v);
                for k in 0..p {
                    row[m + k] = -self.xy(i, k);
                }
            }
        });
    }

    /// Replaces the sums of the features from `first` on, the first of a block, with those after them, and with the targets, by rows of
    /// `m + p` cells.
    pub(super) fn set_rows(&mut self, first: usize, cells: &[f64]) {
        let (m, p, panels) = (self.m, self.p, self.m.div_ceil(WIDE));
        let width = m + p;
        let top = first / WIDE;
        parallel::each(bands(&mut self.xx, panels, BAND), |(columns, blocks)| {
            let base = upper(0, columns.start);
            for j in columns.start.max(top)..columns.end {
                let count = WIDE.min(m - j * WIDE);
                for (i, row) in (first..m.min((j + 1) * WIDE)).zip(cells.chunks_exact(width)) {
                    let at = upper(i / WIDE, j) - base + i % WIDE * WIDE;
                    blocks[at..at + count].copy_from_slice(&row[j * WIDE..j * WIDE + count]);
                }
            }
        });
        for (i, row) in (first..).zip(cells.chunks_exact(width)) {
            for k in 0..p {
                let at = k / WIDE * panels + i / WIDE;
                self.yx[at * BLOCK + k % WIDE * WIDE + i % WIDE] = row[m + k];
            }
        }
    }

    /// Adds the products of one row of features and targets, times `factor`.
    pub(crate) fn add_outer(&mut self, row: &[f64], factor: f64) {
        let (m, p, panels) = (self.m, self.p, self.m.div_ceil(WIDE));
        let mut x = vec![0.0; panels * WIDE];
        x[..m].copy_from_slice(&row[..m]);
        let x = &pulp::as_arrays::<WIDE, f64>(&x).0;
        parallel::each(bands(&mut self.xx, panels, BAND), |(columns, blocks)| {
            let lefts = columns.flat_map(|j| (0..=j).map(move |i| (i, j)));
            for (block, (i, j)) in blocks.chunks_exact_mut(BLOCK).zip(lefts) {
                for (row, a) in pulp::as_arrays_mut::<WIDE, f64>(block).0.iter_mut().zip(&x[i]) {
                    let a = factor * a;
                    row.iter_mut().zip(&x[j]).for_each(|(v, b)| *v += a * b);
                }
            }
        });
        for (k, y) in row[m..m + p].iter().enumerate() {
            for (i, x) in row[..m].iter().enumerate() {
                self.add_xy(i, k, factor * x * y);
            }
            self.yy[k] += factor * y * y;
        }
    }

    /// Sets all sums of feature `i` to zero.
    pub(crate) fn clear(&mut self, i: usize) {
        let (panel, at) = (i / WIDE, i % WIDE);
        for above in 0..=panel {
            let block = &mut self.xx[upper(above, panel)..][..BLOCK];
            block.iter_mut().skip(at).step_by(WIDE).for_each(|v| *v = 0.0);
        }
        for right in panel..self.m.div_ceil(WIDE) {
            self.xx[upper(panel, right) + at * WIDE..][..WIDE].fill(0.0);
        }
        for k in 0..self.p {
            let at = k / WIDE * self.m.div_ceil(WIDE) + panel;
            self.yx[at * BLOCK + k % WIDE * WIDE + i % WIDE] = 0.0;
        }
    }

    /// The same with other targets: target `k` is the `from(k)`-th of these, or zero in all rows.
    pub(crate) fn with_targets(&self, count: usize, from: impl Fn(usize) -> Option<usize>) -> Self {
        let panels = self.m.div_ceil(WIDE);
        let groups = count.div_ceil(WIDE);
        let (yx, yy) = (vec![0.0; groups * panels * BLOCK], vec![0.0; groups * WIDE]);
        let mut changed = Self { m: self.m, p: count, xx: self.xx.clone(), yx, yy };
        for k in 0..count {
            let Some(old) = from(k) else { continue };
            changed.yy[k] = self.yy[old];
            for i in 0..self.m {
                changed.add_xy(i, k, self.xy(i, old));
            }
        }
        changed
    }

    /// `XᵀX v`.
    ///
    /// Bands of columns have sums of their own, which are added in order, so that bits do not depend on threads.
    pub(crate) fn times(&self, v: &[f64]) -> Vec<f64> {
        let panels = self.m.div_ceil(WIDE);
        let mut padded = vec![0.0; panels * WIDE];
        padded[..self.m].copy_from_slice(v);
        let v = pulp::as_arrays::<WIDE, f64>(&padded).0;
        let wide = panels.div_ceil(WIDE).max(BAND);
        let mut parts = vec![vec![[0.0; WIDE]; panels]; panels.div_ceil(wide)];
        let jobs = groups(panels, wide).zip(&mut parts).collect();
        parallel::each(jobs, |(columns, out): (Range<usize>, &mut Vec<[f64; WIDE]>)| {
            let blocks = &self.xx[upper(0, columns.start)..upper(0, columns.end)];
            let rows = pulp::as_arrays::<WIDE, f64>(blocks).0;
            let blocks = pulp::as_arrays::<WIDE, [f64; WIDE]>(rows).0;
            dispatch(Times { columns, blocks, v, out });
        });
        let mut sum = vec![0.0; self.m];
        for part in &parts {
            sum.iter_mut().zip(part.as_flattened()).for_each(|(s, v)| *s += v);
        }
        sum
    }

    /// The Frobenius norm of `XᵀX` with features scaled to unit length: no eigenvalue is above it.
    pub(crate) fn correlation_norm(&self) -> f64 {
        let panels = self.m.div_ceil(WIDE);
        let mut inverse = vec![[0.0; WIDE]; panels];
        for (j, v) in inverse.as_flattened_mut()[..self.m].iter_mut().enumerate() {
            let square = self.xx(j, j);
            *v = if square > 0.0 { 1.0 / square } else { 0.0 };
        }
        let mut sums = vec![0.0; panels.div_ceil(BAND)];
        let jobs = groups(panels, BAND).zip(&mut sums).collect();
        parallel::each(jobs, |(columns, sum): (Range<usize>, &mut f64)| {
            let blocks = &self.xx[upper(0, columns.start)..upper(0, columns.end)];
            let lefts = columns.flat_map(|j| (0..=j).map(move |i| (i, j)));
            for (block, (i, j)) in blocks.chunks_exact(BLOCK).zip(lefts) {
                let mut squares = [0.0; WIDE];
                for (row, a) in pulp::as_arrays::<WIDE, f64>(block).0.iter().zip(inverse[i]) {
                    for b in 0..WIDE {
                        squares[b] += row[b] * row[b] * a;
                    }
                }
                let total: f64 = squares.iter().zip(inverse[j]).map(|(s, b)| s * b).sum();
                // Blocks above the diagonal stand for those below too.
                *sum += if i < j { 2.0 * total } else { total };
            }
        });
        sums.iter().sum::<f64>().sqrt()
    }

    /// Writes `[XᵀX | XᵀY]`, the upper half of it, to `m` rows of `m + p` cells.
    pub(crate) fn write_rows(&self, cells: &mut [f64]) {
        let (m, p) = (self.m, self.p);
        let panels = cells.chunks_mut(WIDE * (m + p)).enumerate().collect();
        parallel::each(panels, |(i, rows): (usize, &mut [f64])| {
            for (a, row) in rows.chunks_exact_mut(m + p).enumerate() {
                for j in i..m.div_ceil(WIDE) {
                    let from = upper(i, j) + a * WIDE;
                    let count = WIDE.min(m - j * WIDE);
                    row[j * WIDE..j * WIDE + count].copy_from_slice(&self.xx[from..from + count]);
                }
                for k in 0..p {
                    row[m + k] = self.xy(i * WIDE + a, k);
                }
            }
        });
    }
}

/// Adds to `out` what some columns of blocks, and the rows below the diagonal that they stand for, make of `v`.
struct Times<'a> {
    columns: Range<usize>,
    blocks: &'a [[[f64; WIDE]; WIDE]],
    v: &'a [[f64; WIDE]],
    out: &'a mut [[f64; WIDE]],
}

impl WithSimd for Times<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { columns, blocks, v, out } = self;
        // Loops by number: what iterators do is compiled by itself, for the oldest processor.
        let mut from = 0;
        for j in columns {
            let blocks = &blocks[from..=from + j];
            from += j + 1;
            let own = v[j];
            let mut down = [0.0; WIDE];
            for i in 0..j {
                let block = &blocks[i];
                for a in 0..WIDE {
                    for b in 0..WIDE {
                        down[b] += block[a][b] * v[i][a];
                    }
                }
                for a in 0..WIDE {
                    let mut sums = [0.0; WIDE];
                    for b in 0..WIDE {
                        sums[b] = block[a][b] * own[b];
                    }
                    let [c, d, e, f, g, h, k, l] = sums;
                    out[i][a] += ((c + g) + (d + h)) + ((e + k) + (f + l));
                }
            }
            // The block on the diagonal is whole.
            for a in 0..WIDE {
                for b in 0..WIDE {
                    down[b] += blocks[j][a][b] * own[a];
                }
            }
            for b in 0..WIDE {
                out[j][b] += down[b];
            }
        }
    }
}
