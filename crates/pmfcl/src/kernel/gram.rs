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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use pulp::{Simd, WithSimd};

use super::instructions::dispatch;
use super::strip::{DEEP, STRIPS, Strip, WIDE, groups};
use super::tile::{self, SIX};
use super::{Source, parallel};

/// Numbers in a block.
const BLOCK: usize = WIDE * WIDE;

/// Panels on the left that stay in the second-level cache, with [`STRIPS`] strips, while those on the right pass by: the more, the less
/// often the right ones come from further away. Three panels are four tiles of six.
pub(super) const LEFT: usize = 36;

/// Feature panels up to which strips are summed one by one.
const NARROW: usize = 24;

/// Feature panels from which on threads share strips, and the panels on the right that one of them takes at once.
const SHARED: usize = 48;
pub(super) const BAND: usize = 12;

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
    /// Blocks `(k, j)`: targets `8k..` against features `8j..`.
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
        self.add_prepared(source, rows, |_| ());
    }

    /// Adds the given rows after `prepare` has changed each strip of them.
    ///
    /// Threads share the strips of a wide matrix, then its columns; every sum is made by one of them, in the order of the rows.
    pub(super) fn add_prepared(
        &mut self,
        source: &impl Source,
        rows: Range<usize>,
        prepare: impl Fn(&mut Strip) + Sync,
    ) {
        let (m, p, panels) = (self.m, self.p, self.m.div_ceil(WIDE));
        // The sums of a narrow matrix stay in cache: one strip at a time does too.
        let threads = if panels < SHARED { 1 } else { parallel::threads() };
        let most = if panels <= NARROW { 1 } else { STRIPS.max(threads) };
        let count = rows.len().div_ceil(DEEP).min(most);
        if count == 0 {
            return;
        }
        let strips: Vec<RwLock<Strip>> =
            (0..count).map(|_| RwLock::new(Strip::new(m, p, rows.len()))).collect();
        let Self { xx, yx, yy, .. } = self;
        // One thread alone goes through all columns at once.
        let bands = bands(xx, panels, if threads < 2 { panels.max(1) } else { BAND });
        // The last columns are the longest: they come first.
        let bands: Vec<Mutex<(Range<usize>, &mut [f64])>> =
            bands.into_iter().rev().map(Mutex::new).collect();
        let targets = Mutex::new((yx, yy));
        let rounds = rows.len().div_ceil(count * DEEP);
        let tickets: Vec<[AtomicUsize; 2]> = (0..rounds).map(|_| Default::default()).collect();
        parallel::team(threads, |meeting| {
            for (round, [loads, jobs]) in tickets.iter().enumerate() {
                let first = rows.start + round * count * DEEP;
                loop {
                    let at = loads.fetch_add(1, Ordering::Relaxed);
                    let Some(strip) = strips.get(at) else { break };
                    let from = rows.end.min(first + at * DEEP);
                    let strip = &mut *strip.write().unwrap_or_else(PoisonError::into_inner);
                    strip.load(source, from..rows.end.min(from + DEEP));
                    prepare(strip);
                }
                meeting.wait();
                let loaded: Vec<_> = strips
                    .iter()
                    .map(|strip| strip.read().unwrap_or_else(PoisonError::into_inner))
                    .collect();
                let strips: Vec<&Strip> =
                    loaded.iter().map(|strip| &**strip).filter(|strip| !strip.is_empty()).collect();
                loop {
                    let job = jobs.fetch_add(1, Ordering::Relaxed);
                    if let Some(band) = bands.get(job) {
                        let (columns, xx) = &mut *lock(band);
                        dispatch(Absorb { columns: columns.clone(), xx, strips: &strips });
                    } else if job == bands.len() {
                        let (yx, yy) = &mut *lock(&targets);
                        dispatch(Meet { yx, yy, p, strips: &strips });
                    } else {
                        break;
                    }
                }
                drop(strips);
                drop(loaded);
                meeting.wait();
            }
        });
    }

    /// Columns of panels, `wide` at a time, with their blocks of `XᵀX`, which lie in one piece.
    pub(super) fn bands(&mut self, wide: usize) -> Vec<(Range<usize>, &mut [f64])> {
        bands(&mut self.xx, self.m.div_ceil(WIDE), wide)
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

/// Columns of panels, `wide` at a time, with their blocks.
fn bands(xx: &mut [f64], panels: usize, wide: usize) -> Vec<(Range<usize>, &mut [f64])> {
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

/// Adds the products of some columns of panels with those before them.
struct Absorb<'a> {
    columns: Range<usize>,
    /// Blocks of the columns.
    xx: &'a mut [f64],
    strips: &'a [&'a Strip],
}

impl WithSimd for Absorb<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { columns, xx, strips } = self;
        let base = upper(0, columns.start);
        let wide = S::F64_LANES == WIDE;
        let skipped = strips.iter().map(|strip| strip.skipped()).min().unwrap_or(0);
        for band in (skipped / LEFT * LEFT..columns.end).step_by(LEFT) {
            let first = band.max(skipped);
            for right in groups(columns.len(), if wide { 3 } else { 1 }) {
                let right = columns.start + right.start..columns.start + right.end;
                let last = right.end.min(band + LEFT);
                if last <= first {
                    continue;
                }
                for strip in strips {
                    if wide {
                        for left in first..last {
                            // Below the diagonal there is nothing to do.
                            let from = right.start.max(left);
                            let at = |j| upper(left, from + j) - base;
                            product(strip, left, from..right.end, xx, at);
                        }
                    } else {
                        let column = &mut xx[upper(0, right.start) - base..];
                        sixes(strip, 0, first * WIDE..last * WIDE, right.start, column);
                    }
                }
            }
        }
    }
}

/// Adds the products of all targets with all features, and their squares.
struct Meet<'a> {
    yx: &'a mut [f64],
    yy: &'a mut [f64],
    p: usize,
    strips: &'a [&'a Strip],
}

impl WithSimd for Meet<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F64_LANES {
            8 => self.run::<S, 1>(simd),
            4 => self.run::<S, 2>(simd),
            2 => self.run::<S, 4>(simd),
            _ => self.run::<S, 8>(simd),
        }
    }
}

impl Meet<'_> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { yx, yy, p, strips } = self;
        for strip in strips {
            let (x, y) = strip.panels();
            for left in 0..y {
                squares::<S, V>(
                    simd,
                    strip.panel(x + left),
                    &mut yy[left * WIDE..(left + 1) * WIDE],
                );
                let single = p - left * WIDE == 1;
                for right in groups(x, if V == 1 { 3 } else { 1 }) {
                    let at = |j| (left * x + right.start + j) * BLOCK;
                    match (V, single, right.len()) {
                        (_, true, 3) => lone::<S, V, 3>(simd, strip, x + left, right.start, yx, at),
                        (_, true, 2) => lone::<S, V, 2>(simd, strip, x + left, right.start, yx, at),
                        (_, true, _) => lone::<S, V, 1>(simd, strip, x + left, right.start, yx, at),
                        (1, false, _) => product(strip, x + left, right.clone(), yx, at),
                        _ => {
                            let block = &mut yx[at(0)..at(0) + BLOCK];
                            let columns = 0..WIDE.min(p - left * WIDE);
                            sixes(strip, x + left, columns, right.start, block);
                        }
                    }
                }
            }
        }
    }
}

/// Adds the tile of panel `left` against the panels on the right to the blocks that begin `at(0)..`.
#[inline(always)]
fn product(
    strip: &Strip,
    left: usize,
    right: Range<usize>,
    blocks: &mut [f64],
    at: impl Fn(usize) -> usize,
) {
    fn tile<'a, const N: usize>(
        strip: &'a Strip,
        (left, from): (usize, usize),
        blocks: &'a mut [f64],
        at: impl Fn(usize) -> usize,
    ) -> tile::Outer<'a, N> {
        let right = std::array::from_fn(|j| strip.panel(from + j));
        tile::Outer { left: strip.panel(left), right, blocks, at: std::array::from_fn(at) }
    }
    match right.len() {
        3 => dispatch(tile::<3>(strip, (left, right.start), blocks, at)),
        2 => dispatch(tile::<2>(strip, (left, right.start), blocks, at)),
        _ => dispatch(tile::<1>(strip, (left, right.start), blocks, at)),
    }
}

/// Adds the products of some columns, counted from panel `first` on, with one panel on the right; `out` has eight sums for every
/// column.
#[inline(always)]
fn sixes(strip: &Strip, first: usize, columns: Range<usize>, right: usize, out: &mut [f64]) {
    let (x, y) = strip.panels();
    let right = strip.panel(right);
    for from in columns.clone().step_by(SIX) {
        let panel = first + from / WIDE;
        let left = [strip.panel(panel), strip.panel((panel + 1).min(x + y - 1))];
        let out = &mut out[from * WIDE..columns.end.min(from + SIX) * WIDE];
        match from % WIDE {
            0 => dispatch(tile::Six::<0> { left, right, out }),
            2 => dispatch(tile::Six::<2> { left, right, out }),
            4 => dispatch(tile::Six::<4> { left, right, out }),
            _ => dispatch(tile::Six::<6> { left, right, out }),
        }
    }
}

/// As [`product`], where only the first column of panel `left` is in use.
#[inline(always)]
fn lone<S: Simd, const V: usize, const N: usize>(
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

/// Adds the squared norm of each column of a panel; four rows are summed side by side, so that no sum waits for itself.
#[inline(always)]
fn squares<S: Simd, const V: usize>(simd: S, panel: &[f64], sums: &mut [f64]) {
    const SIDE: usize = 4;
    let rows = tile::registers::<S, V>(panel);
    let (blocks, rest) = pulp::as_arrays::<SIDE, [S::f64s; V]>(rows);
    let mut part = [[simd.splat_f64s(0.0); V]; SIDE];
    for block in 0..blocks.len() {
        for side in 0..SIDE {
            for v in 0..V {
                let y = blocks[block][side][v];
                part[side][v] = simd.mul_add_e_f64s(y, y, part[side][v]);
            }
        }
    }
    for row in 0..rest.len() {
        for v in 0..V {
            part[0][v] = simd.mul_add_e_f64s(rest[row][v], rest[row][v], part[0][v]);
        }
    }
    let sums = &mut tile::registers_mut::<S, V>(sums)[0];
    let [a, b, c, d] = part;
    for v in 0..V {
        let (ab, cd) = (simd.add_f64s(a[v], b[v]), simd.add_f64s(c[v], d[v]));
        sums[v] = simd.add_f64s(sums[v], simd.add_f64s(ab, cd));
    }
}
