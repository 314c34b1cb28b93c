//! One number for every pair of two lists of vectors: their inner product, or the square of their distance.
//!
//! A general product of matrices would be faster, but the order of its sums may depend on how many vectors there are. Here each pair is
//! summed by itself, in the order of [`crate::summary::dot`], so a row is scored to the same bits alone and among others. Pairs are
//! made in tiles: a tile has enough sums side by side that none waits for itself.

use pulp::{Simd, WithSimd};

use super::instructions::dispatch;
use super::parallel::each;

/// Running sums of a pair.
const LANES: usize = 4;
/// Vectors of the first and of the second list in a tile.
const DOWN: usize = 2;
const ACROSS: usize = 4;
/// Vectors of the first list that stay in a second-level cache while those of the second pass by.
const STRIP: usize = 16;

/// `⟨a, b⟩` for every `a` and `b`, all for the first `a`, then for the second. Vectors have the same length.
pub(crate) fn products(a: &[&[f64]], b: &[&[f64]]) -> Vec<f64> {
    every::<false>(a, b)
}

/// `‖a − b‖²` in the same order.
pub(crate) fn square_distances(a: &[&[f64]], b: &[&[f64]]) -> Vec<f64> {
    every::<true>(a, b)
}

fn every<const APART: bool>(a: &[&[f64]], b: &[&[f64]]) -> Vec<f64> {
    let mut out = vec![0.0; a.len() * b.len()];
    if !out.is_empty() {
        let strips = a.chunks(STRIP).zip(out.chunks_mut(STRIP * b.len())).collect();
        each(strips, |(a, out)| dispatch(Tiles::<APART> { a, b, out }));
    }
    out
}

struct Tiles<'a, const APART: bool> {
    a: &'a [&'a [f64]],
    b: &'a [&'a [f64]],
    out: &'a mut [f64],
}

impl<const APART: bool> WithSimd for Tiles<'_, APART> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { a, b, out } = self;
        // Loops by number: what iterators do is compiled by itself, for the oldest processor.
        let mut j = 0;
        while j < b.len() {
            let across = ACROSS.min(b.len() - j);
            let mut i = 0;
            while i < a.len() {
                let down = DOWN.min(a.len() - i);
                // At the end of a list its last vector stands in for those that are not there.
                let mut left: [&[f64]; DOWN] = [&[]; DOWN];
                for r in 0..DOWN {
                    left[r] = a[i + r.min(down - 1)];
                }
                let mut right: [&[f64]; ACROSS] = [&[]; ACROSS];
                for c in 0..ACROSS {
                    right[c] = b[j + c.min(across - 1)];
                }
                let found = tile::<APART>(left, right);
                for r in 0..down {
                    for c in 0..across {
                        out[(i + r) * b.len() + j + c] = found[r][c];
                    }
                }
                i += DOWN;
            }
            j += ACROSS;
        }
    }
}

#[inline(always)]
fn tile<const APART: bool>(left: [&[f64]; DOWN], right: [&[f64]; ACROSS]) -> [[f64; ACROSS]; DOWN] {
    let len = left[0].len();
    let whole = len / LANES;
    let mut a: [&[[f64; LANES]]; DOWN] = [&[]; DOWN];
    for r in 0..DOWN {
        a[r] = &pulp::as_arrays::<LANES, f64>(left[r]).0[..whole];
    }
    let mut b: [&[[f64; LANES]]; ACROSS] = [&[]; ACROSS];
    for c in 0..ACROSS {
        b[c] = &pulp::as_arrays::<LANES, f64>(right[c]).0[..whole];
    }
    let mut sums = [[[0.0; LANES]; ACROSS]; DOWN];
    for at in 0..whole {
        for r in 0..DOWN {
            for c in 0..ACROSS {
                for l in 0..LANES {
                    sums[r][c][l] += term::<APART>(a[r][at][l], b[c][at][l]);
                }
            }
        }
    }
    let mut out = [[0.0; ACROSS]; DOWN];
    for r in 0..DOWN {
        for c in 0..ACROSS {
            // As a sum of no numbers begins.
            let mut tail = -0.0;
            for at in whole * LANES..len {
                tail += term::<APART>(left[r][at], right[c][at]);
            }
            let [p, q, s, t] = sums[r][c];
            out[r][c] = (p + s) + (q + t) + tail;
        }
    }
    out
}

#[inline(always)]
fn term<const APART: bool>(a: f64, b: f64) -> f64 {
    if APART { (a - b) * (a - b) } else { a * b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::dot;

    #[test]
    fn products_have_the_bits_of_single_ones_and_distances_are_theirs() {
        let draw = |i: usize| ((i as f64 * 12.9898).sin() * 43_758.547).fract() - 0.5;
        for (rows, columns, len) in [(1, 1, 1), (3, 5, 7), (17, 9, 64), (35, 2, 101), (2, 0, 3)] {
            let vectors = |from: usize, count: usize| -> Vec<Vec<f64>> {
                (0..count).map(|k| (0..len).map(|i| draw(from + k * len + i)).collect()).collect()
            };
            let (a, b) = (vectors(0, rows), vectors(5000, columns));
            let a: Vec<&[f64]> = a.iter().map(Vec::as_slice).collect();
            let b: Vec<&[f64]> = b.iter().map(Vec::as_slice).collect();
            let (products, apart) = (products(&a, &b), square_distances(&a, &b));
            assert_eq!(products.len(), rows * columns);
            for (i, a) in a.iter().enumerate() {
                for (j, b) in b.iter().enumerate() {
                    let at = i * columns + j;
                    assert_eq!(products[at].to_bits(), dot(a, b).to_bits(), "{i} {j}");
                    let square: f64 = a.iter().zip(*b).map(|(a, b)| (a - b) * (a - b)).sum();
                    // Sums of `len` squares below 1, in another order.
                    let rounding = len as f64 * f64::EPSILON * square;
                    assert!((apart[at] - square).abs() <= rounding, "{i} {j}");
                }
            }
        }
    }
}
