//! A few rows that stand for many: each is the sum of some of them, with random signs.
//!
//! Rows are cut into blocks of as many as the sketch has. Every block is turned by a random distance, its rows get random signs, and
//! it is added to the sketch (here four blocks of eight rows):
//!
//! ```text
//! rows      a0 … a7 │ b0 … b7 │ c0 … c7 │ d0 … d7        S X, row 0:  a0 − b5 − c2 + d6
//!                                                               row 1:  a1 + b6 − c3 − d7   …
//! ```
//!
//! `E[(S X)ᵀ(S X)] = XᵀX`, and for `k` rows that stand for far more, and no few of which outweigh the others, the singular values of
//! `S Q` are within `1 ± √(m/k)` for every orthonormal basis `Q` of the columns (Clarkson, Woodruff, 2013; Tropp, 2011). Each row is in the
//! sketch, so one that outweighs all others is; so are as many neighbours as the sketch has rows, because they never meet.
//! "Random" are bits of the row's number, so that the same rows have the same sketch.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::instructions::dispatch;
use super::strip::MANY;
use super::{Plain, PlainTargets, Source};

/// Rows of a sketch beyond two for each feature: of few features, the singular values stray from their limits.
const BEYOND: usize = 128;

/// Blocks below which sums over a sketch cost too much against those over all rows.
const BLOCKS: usize = 3;

/// Cells of a source in memory that are added at once, and stay in a first-level cache.
const ADDED: usize = 1024;

/// A [`Source`] of sums of the rows of another one.
pub(super) struct Sketch<'a, S> {
    source: &'a S,
    m: usize,
    p: usize,
    rows: Range<usize>,
    size: usize,
}

impl<'a, S: Source> Sketch<'a, S> {
    /// Of rows with `m` features and `p` targets; none where there are too few for one to pay.
    pub(super) fn new(m: usize, p: usize, source: &'a S, rows: Range<usize>) -> Option<Self> {
        let blocks = rows.len() / (2 * m + BEYOND);
        // Blocks of one length: a sum of more rows than others would outweigh them.
        let size = rows.len().div_ceil(blocks.max(1));
        (blocks >= BLOCKS).then_some(Self { source, m, p, rows, size })
    }

    /// Adds the rows from `at` on of block `block`, with their signs.
    fn add(&self, block: usize, at: usize, cells: &mut [f64], out: &mut [f64]) {
        let (m, p, width) = (self.m, self.p, self.m + self.p);
        let number = block * self.size + at;
        let first = self.rows.start + number;
        let Some(Plain { intercept, x, y, shift }) = self.source.plain() else {
            let cells = &mut cells[..out.len()];
            self.source.fill(first, cells);
            return dispatch(Add { number, cells, width, shift: &[], out, step: width, at: 0 });
        };
        // Rows in memory are added from where they lie.
        let lead = usize::from(intercept);
        let count = out.len() / width;
        if intercept {
            let one = 1.0 - shift.first().unwrap_or(&0.0);
            for (i, sum) in (number..).zip(out.iter_mut().step_by(width)) {
                *sum += sign(i) * one;
            }
        }
        let y = match y {
            PlainTargets::Numbers(y) => &y[first * p..(first + count) * p],
            PlainTargets::Indicators(codes) => {
                let cells = &mut cells[..count * p];
                cells.fill(0.0);
                for (row, code) in cells.chunks_exact_mut(p).zip(&codes[first..]) {
                    row[*code as usize] = 1.0;
                }
                cells
            }
        };
        let x = &x[first * (m - lead)..(first + count) * (m - lead)];
        for (cells, at, width) in [(x, lead, m - lead), (y, m, p)] {
            let shift = shift.get(at..at + width).unwrap_or_default();
            dispatch(Add { number, cells, width, shift, out, step: m + p, at });
        }
    }
}

/// Adds rows, less a shift and with their signs, to some of the columns of `out`.
struct Add<'a> {
    /// Of the first row.
    number: usize,
    cells: &'a [f64],
    width: usize,
    /// Empty for nothing.
    shift: &'a [f64],
    out: &'a mut [f64],
    /// Columns of `out`, and the first that is meant.
    step: usize,
    at: usize,
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { number, cells, width, shift, out, step, at } = self;
        let (less, less_rest) = S::as_simd_f64s(shift);
        // Loops by number: what iterators do is compiled by itself, for the oldest processor.
        for i in 0..out.len() / step {
            let one = sign(number + i);
            let signs = simd.splat_f64s(one);
            let (row, row_rest) = S::as_simd_f64s(&cells[i * width..][..width]);
            let (sum, sum_rest) = S::as_mut_simd_f64s(&mut out[i * step + at..][..width]);
            if shift.is_empty() {
                for j in 0..sum.len() {
                    sum[j] = simd.mul_add_e_f64s(signs, row[j], sum[j]);
                }
                for j in 0..sum_rest.len() {
                    sum_rest[j] += one * row_rest[j];
                }
            } else {
                for j in 0..sum.len() {
                    sum[j] = simd.mul_add_e_f64s(signs, simd.sub_f64s(row[j], less[j]), sum[j]);
                }
                for j in 0..sum_rest.len() {
                    sum_rest[j] += one * (row_rest[j] - less_rest[j]);
                }
            }
        }
    }
}

impl<S: Source> Source for Sketch<'_, S> {
    fn rows(&self) -> usize {
        self.size
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        let (width, size) = (self.m + self.p, self.size);
        // A basis maps many rows at once; rows in memory are added few by few.
        let some = if self.source.plain().is_some() { (ADDED / width).max(1) } else { MANY };
        let mut cells = vec![0.0; some.min(out.len() / width) * width];
        for (from, out) in (from..).step_by(some).zip(out.chunks_mut(some * width)) {
            out.fill(0.0);
            for (block, start) in (0..self.rows.len()).step_by(size).enumerate() {
                let count = size.min(self.rows.len() - start);
                // Row `i` of the sketch has row `i + turn` of the block, counted in a circle.
                let turn = (scrambled(!(block as u64)) >> 32) as usize % size;
                let at = (from + turn) % size;
                let (head, tail) = out.split_at_mut(out.len().min((size - at) * width));
                for (at, out) in [(at, head), (0, tail)] {
                    let there = count.saturating_sub(at).min(out.len() / width);
                    if there > 0 {
                        self.add(block, at, &mut cells, &mut out[..there * width]);
                    }
                }
            }
        }
    }
}

/// The sign of a row.
#[inline(always)]
fn sign(i: usize) -> f64 {
    if scrambled(i as u64) >> 63 == 0 { 1.0 } else { -1.0 }
}

/// A number that looks random (the finaliser of splitmix64).
#[inline(always)]
fn scrambled(i: u64) -> u64 {
    let mut z = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
