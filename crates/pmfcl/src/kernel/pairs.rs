//! One number for every pair of two lists of vectors: their inner product, or the square of their distance.
//!
//! A general product of matrices would be faster, but the order of its sums may depend on how many vectors there are. Here each pair is
//! summed by itself, inner products in the order of [`crate::summary::dot`], so a row is scored to the same bits alone and among others.
//! Pairs are made in tiles: a tile has enough sums side by side that none waits for itself.

use pulp::{Simd, WithSimd};

use super::instructions::dispatch;
use super::parallel::each;

/// Running sums of an inner product.
const LANES: usize = 4;
/// Vectors of the second list in a tile.
const ACROSS: usize = 4;
/// Vectors of the first list that stay in a second-level cache while those of the second pass by.
const STRIP: usize = 16;

/// `⟨a, b⟩` for every `a` and `b`, all for the first `a`, then for the second. Vectors have the same length.
pub(crate) fn products(a: &[&[f64]], b: &[&[f64]]) -> Vec<f64> {
    strips(a, b, |a, out| dispatch(Products { a, b, out }))
}

/// `‖a − b‖²` in the same order.
pub(crate) fn square_distances(a: &[&[f64]], b: &[&[f64]]) -> Vec<f64> {
    strips(a, b, |a, out| dispatch(Distances { a, b, out }))
}

fn strips(a: &[&[f64]], b: &[&[f64]], tiles: impl Fn(&[&[f64]], &mut [f64]) + Sync) -> Vec<f64> {
    let mut out = vec![0.0; a.len() * b.len()];
    if !out.is_empty() {
        let strips = a.chunks(STRIP).zip(out.chunks_mut(STRIP * b.len())).collect();
        each(strips, |(a, out): (&[&[f64]], &mut [f64])| tiles(a, out));
    }
    out
}

struct Products<'a> {
    a: &'a [&'a [f64]],
    b: &'a [&'a [f64]],
    out: &'a mut [f64],
}

struct Distances<'a> {
    a: &'a [&'a [f64]],
    b: &'a [&'a [f64]],
    out: &'a mut [f64],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        tiles::<2>(self.a, self.b, self.out, products_of);
    }
}

impl WithSimd for Distances<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        tiles::<4>(
            self.a,
            self.b,
            self.out,
            #[inline(always)]
            |left, right| distances_of(simd, left, right),
        );
    }
}

/// Pairs of `DOWN` vectors of the first list and [`ACROSS`] of the second at a time.
#[inline(always)]
fn tiles<const DOWN: usize>(
    a: &[&[f64]],
    b: &[&[f64]],
    out: &mut [f64],
    tile: impl Fn([&[f64]; DOWN], [&[f64]; ACROSS]) -> [[f64; ACROSS]; DOWN],
) {
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
            let found = tile(left, right);
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

#[inline(always)]
fn products_of<const DOWN: usize>(
    left: [&[f64]; DOWN],
    right: [&[f64]; ACROSS],
) -> [[f64; ACROSS]; DOWN] {
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
                    sums[r][c][l] += a[r][at][l] * b[c][at][l];
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
                tail += left[r][at] * right[c][at];
            }
            let [p, q, s, t] = sums[r][c];
            out[r][c] = (p + s) + (q + t) + tail;
        }
    }
    out
}

#[inline(always)]
fn distances_of<S: Simd, const DOWN: usize>(
    simd: S,
    left: [&[f64]; DOWN],
    right: [&[f64]; ACROSS],
) -> [[f64; ACROSS]; DOWN] {
    let whole = left[0].len() / S::F64_LANES;
    let mut a: [&[S::f64s]; DOWN] = [&[]; DOWN];
    for r in 0..DOWN {
        a[r] = &S::as_simd_f64s(left[r]).0[..whole];
    }
    let mut b: [&[S::f64s]; ACROSS] = [&[]; ACROSS];
    for c in 0..ACROSS {
        b[c] = &S::as_simd_f64s(right[c]).0[..whole];
    }
    let mut sums = [[simd.splat_f64s(0.0); ACROSS]; DOWN];
    for at in 0..whole {
        for r in 0..DOWN {
            for c in 0..ACROSS {
                let apart = simd.sub_f64s(a[r][at], b[c][at]);
                sums[r][c] = simd.mul_add_e_f64s(apart, apart, sums[r][c]);
            }
        }
    }
    let mut out = [[0.0; ACROSS]; DOWN];
    for r in 0..DOWN {
        for c in 0..ACROSS {
            let mut tail = 0.0;
            for at in whole * S::F64_LANES..left[r].len() {
                let apart = left[r][at] - right[c][at];
                tail += apart * apart;
            }
            out[r][c] = simd.reduce_sum_f64s(sums[r][c]) + tail;
        }
    }
    out
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
