//! Rows added to sums of products.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use pulp::{Simd, WithSimd};

use super::entries::{add_entries, add_squares, few_entries};
use super::gram::{BAND, BLOCK, Gram, bands, lock, upper};
use super::instructions::dispatch;
use super::strip::{DEEP, STRIPS, Strip, WIDE, groups};
use super::tile::{self, SIX};
use super::{Source, parallel};

/// Panels on the left that stay in the second-level cache, with [`STRIPS`] strips, while those on the right pass by: the more, the less
/// often the right ones come from further away. Three panels are four tiles of six.
pub(super) const LEFT: usize = 36;

/// Feature panels up to which strips are summed one by one.
const NARROW: usize = 24;

/// Feature panels from which on threads share strips.
const SHARED: usize = 48;

impl Gram {
    /// Adds the given rows.
    ///
    /// The same rows in the same pieces give the same bits, on any number of threads.
    /// Cost: `n m (m + 2p)` flops.
    pub(crate) fn add(&mut self, source: &impl Source, rows: Range<usize>) {
        self.add_strips(source, rows, None);
    }

    /// Adds the given rows after `prepare` has changed each strip of them.
    pub(super) fn add_prepared(
        &mut self,
        source: &impl Source,
        rows: Range<usize>,
        prepare: impl Fn(&mut Strip) + Sync,
    ) {
        self.add_strips(source, rows, Some(&prepare));
    }

    /// Threads share the strips of a wide matrix, then its columns; every sum is made by one of them, in the order of the rows.
    fn add_strips(
        &mut self,
        source: &impl Source,
        rows: Range<usize>,
        prepare: Option<&(dyn Fn(&mut Strip) + Sync)>,
    ) {
        let (m, p, panels) = (self.m, self.p, self.m.div_ceil(WIDE));
        // The sums of a narrow matrix stay in cache: one strip at a time does too.
        let threads = if panels < SHARED { 1 } else { parallel::threads() };
        let most = if panels <= NARROW { 1 } else { STRIPS.max(threads) };
        let count = rows.len().div_ceil(DEEP).min(most);
        if count == 0 {
            return;
        }
        let strip = || {
            let strip = Strip::new(m, p, rows.len());
            // What changes strips finds all numbers in them.
            if prepare.is_none() { strip.listing() } else { strip }
        };
        let strips: Vec<RwLock<Strip>> = (0..count).map(|_| RwLock::new(strip())).collect();
        let Self { xx, yx, yy, .. } = self;
        // One thread alone goes through all columns at once.
        let bands = bands(xx, panels, if threads < 2 { panels.max(1) } else { BAND });
        // The last columns are the longest: they come first.
        let bands: Vec<Mutex<(Range<usize>, &mut [f64])>> =
            bands.into_iter().rev().map(Mutex::new).collect();
        let each = TARGETS * panels * BLOCK;
        let targets: Vec<_> = (0..)
            .step_by(TARGETS)
            .zip(yx.chunks_mut(each.max(1)).zip(yy.chunks_mut(TARGETS * WIDE)))
            .map(|(first, (yx, yy))| Mutex::new((first, yx, yy)))
            .collect();
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
                    if let Some(prepare) = prepare {
                        prepare(strip);
                    }
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
                    } else if let Some(targets) = targets.get(job - bands.len()) {
                        let (first, yx, yy) = &mut *lock(targets);
                        dispatch(Meet { first: *first, yx, yy, p, strips: &strips });
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

/// Panels of targets that one thread takes at once.
const TARGETS: usize = 8;

/// Adds the products of some panels of targets with all features, and their squares.
struct Meet<'a> {
    /// The first panel of them.
    first: usize,
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
        let Self { first, yx, yy, p, strips } = self;
        let mut entries = Vec::new();
        for strip in strips {
            let (x, _) = strip.panels();
            for own in 0..yy.len() / WIDE {
                let left = x + first + own;
                let sums = &mut yy[own * WIDE..(own + 1) * WIDE];
                if strip.listed(first + own, &mut entries) {
                    add_squares(&entries, sums);
                    let blocks = &mut yx[own * x * BLOCK..(own + 1) * x * BLOCK];
                    add_entries::<S, V>(simd, strip, &entries, blocks);
                    continue;
                }
                let panel = strip.panel(left);
                squares::<S, V>(simd, panel, sums);
                let columns = WIDE.min(p - (first + own) * WIDE);
                let single = columns == 1;
                if !single && few_entries(panel, &mut entries) {
                    let blocks = &mut yx[own * x * BLOCK..(own + 1) * x * BLOCK];
                    add_entries::<S, V>(simd, strip, &entries, blocks);
                    continue;
                }
                for right in groups(x, if V == 1 { 3 } else { 1 }) {
                    let at = |j| (own * x + right.start + j) * BLOCK;
                    match (V, single, right.len()) {
                        (_, true, 3) => lone::<S, V, 3>(simd, strip, left, right.start, yx, at),
                        (_, true, 2) => lone::<S, V, 2>(simd, strip, left, right.start, yx, at),
                        (_, true, _) => lone::<S, V, 1>(simd, strip, left, right.start, yx, at),
                        (1, false, _) => product(strip, left, right.clone(), yx, at),
                        _ => {
                            let block = &mut yx[at(0)..at(0) + BLOCK];
                            sixes(strip, left, 0..columns, right.start, block);
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
