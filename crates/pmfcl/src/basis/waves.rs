//! `√(2/m)·cos(x̃W + b)` for many rows at a time: the random features behind a frozen map.
//!
//! The product is summed and its cosine taken in registers, so that no number is written before it is a feature. A feature depends on its
//! own row alone, summed input after input: the bits do not depend on which rows are mapped together.

#![allow(
    clippy::inline_always,
    reason = "a kernel must be inlined to see the processor's registers"
)]

use pulp::{Simd, WithSimd};

/// Rows and registers of features that are summed side by side: one sum would wait for itself, and weights that are loaded once serve several rows.
const ROWS: usize = 4;
const SIDE: usize = 2;

/// Features of rows whose inputs are bounded, so that no argument is beyond 1e6.
pub(super) struct Waves<'a> {
    /// Rows of `inputs` numbers each.
    pub(super) rows: &'a [f64],
    pub(super) inputs: usize,
    /// The weights of input j for all features, input after input.
    pub(super) weights: &'a [f64],
    /// One for each feature.
    pub(super) phase: &'a [f64],
    pub(super) factor: f64,
    /// The features of row i begin at `i * stride`.
    pub(super) out: &'a mut [f64],
    pub(super) stride: usize,
}

impl WithSimd for Waves<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (count, features) = (self.rows.len() / self.inputs, self.phase.len());
        let whole = features - features % (SIDE * S::F64_LANES);
        for row in (0..count - count % ROWS).step_by(ROWS) {
            for feature in (0..whole).step_by(SIDE * S::F64_LANES) {
                self.tile::<S, ROWS>(simd, row, feature);
            }
            for feature in (whole..features).step_by(S::F64_LANES) {
                self.rest::<S, ROWS>(simd, row, feature);
            }
        }
        for row in count - count % ROWS..count {
            for feature in (0..whole).step_by(SIDE * S::F64_LANES) {
                self.tile::<S, 1>(simd, row, feature);
            }
            for feature in (whole..features).step_by(S::F64_LANES) {
                self.rest::<S, 1>(simd, row, feature);
            }
        }
    }
}

impl Waves<'_> {
    /// [`SIDE`] registers of features of some rows.
    #[inline(always)]
    fn tile<S: Simd, const N: usize>(&mut self, simd: S, row: usize, feature: usize) {
        let (d, m, wide) = (self.inputs, self.phase.len(), SIDE * S::F64_LANES);
        let rows = &self.rows[row * d..(row + N) * d];
        let mut sums = [[simd.splat_f64s(0.0); SIDE]; N];
        for j in 0..d {
            let weights = S::as_simd_f64s(&self.weights[j * m + feature..][..wide]).0;
            for i in 0..N {
                let x = simd.splat_f64s(rows[i * d + j]);
                for v in 0..SIDE {
                    sums[i][v] = simd.mul_add_e_f64s(x, weights[v], sums[i][v]);
                }
            }
        }
        let phase = S::as_simd_f64s(&self.phase[feature..][..wide]).0;
        let factor = simd.splat_f64s(self.factor);
        for i in 0..N {
            let out = &mut self.out[(row + i) * self.stride + feature..][..wide];
            let out = S::as_mut_simd_f64s(out).0;
            for v in 0..SIDE {
                let cosine = cosine(simd, simd.add_f64s(sums[i][v], phase[v]));
                out[v] = simd.mul_f64s(factor, cosine);
            }
        }
    }

    /// One register of features, or the last ones, which are fewer.
    #[inline(always)]
    fn rest<S: Simd, const N: usize>(&mut self, simd: S, row: usize, feature: usize) {
        let (d, m) = (self.inputs, self.phase.len());
        let wide = S::F64_LANES.min(m - feature);
        let mut sums = [simd.splat_f64s(0.0); N];
        for j in 0..d {
            let weights = simd.partial_load_f64s(&self.weights[j * m + feature..][..wide]);
            for i in 0..N {
                let x = simd.splat_f64s(self.rows[(row + i) * d + j]);
                sums[i] = simd.mul_add_e_f64s(x, weights, sums[i]);
            }
        }
        let phase = simd.partial_load_f64s(&self.phase[feature..][..wide]);
        for i in 0..N {
            let cosine = cosine(simd, simd.add_f64s(sums[i], phase));
            let out = &mut self.out[(row + i) * self.stride + feature..][..wide];
            simd.partial_store_f64s(out, simd.mul_f64s(simd.splat_f64s(self.factor), cosine));
        }
    }
}

/// cos(x) for |x| below 1e6, to 4e-16: without branches or tables.
///
/// cos(x) = (−1)ᵏ sin(r) with x + π/2 = kπ + r and |r| ≤ π/2; π in three parts of which kπ is exact; the series of
/// the sine up to r²¹/21!.
#[expect(clippy::unreadable_literal, reason = "the parts of pi, digit for digit")]
#[inline(always)]
fn cosine<S: Simd>(simd: S, x: S::f64s) -> S::f64s {
    /// Adding and taking away 1.5·2⁵² rounds to a whole number.
    const ROUND: f64 = 6755399441055744.0;
    const PI: [f64; 3] = [3.1415926534682512, 1.215420100718692e-10, 5.825464112186712e-20];
    const SERIES: [f64; 10] = [
        -1.0 / 6.0,
        1.0 / 120.0,
        -1.0 / 5040.0,
        1.0 / 362880.0,
        -1.0 / 39916800.0,
        1.0 / 6227020800.0,
        -1.0 / 1307674368000.0,
        1.0 / 355687428096000.0,
        -1.0 / 121645100408832000.0,
        1.0 / 51090942171709440000.0,
    ];
    let splat = |v: f64| simd.splat_f64s(v);
    let (round, half) = (splat(ROUND), splat(0.5));
    // cos(x) = sin(x + π/2): the half is put into k, so that no digit of x is lost.
    let turns = simd.mul_add_e_f64s(x, splat(std::f64::consts::FRAC_1_PI), half);
    let k = simd.sub_f64s(simd.add_f64s(turns, round), round);
    let less = simd.sub_f64s(half, k);
    let mut r = x;
    for part in PI {
        r = simd.mul_add_e_f64s(less, splat(part), r);
    }
    let even = simd.sub_f64s(simd.mul_add_e_f64s(k, half, round), round);
    let odd = simd.mul_add_e_f64s(splat(-2.0), even, k);
    let sign = simd.mul_add_e_f64s(simd.mul_f64s(splat(-2.0), odd), odd, splat(1.0));
    let s = simd.mul_f64s(r, r);
    let mut sum = splat(SERIES[9]);
    for c in SERIES[..9].iter().rev() {
        sum = simd.mul_add_e_f64s(sum, s, splat(*c));
    }
    simd.mul_f64s(sign, simd.mul_add_e_f64s(simd.mul_f64s(r, s), sum, r))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Features of rows with one input and a weight of 1: `cos(x + phase)`.
    fn cosines(x: &[f64], phase: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; x.len() * phase.len()];
        let (weights, stride) = (vec![1.0; phase.len()], phase.len());
        let waves = Waves {
            rows: x,
            inputs: 1,
            weights: &weights,
            phase,
            factor: 1.0,
            out: &mut out,
            stride,
        };
        pulp::Arch::new().dispatch(waves);
        out
    }

    #[test]
    fn cosines_many_at_a_time_are_cosines() {
        let x: Vec<f64> = (-200_000..=200_000).map(|i| f64::from(i) * 0.00731).collect();
        for (x, found) in x.iter().zip(cosines(&x, &[0.0])) {
            let expected = libm::cos(*x);
            assert!((found - expected).abs() <= 5e-16, "cos({x}): {found} against {expected}");
        }
        let far = [1e5, -123_456.789, 9.9e5];
        for (x, found) in far.iter().zip(cosines(&far, &[0.0])) {
            assert!((found - libm::cos(*x)).abs() <= 1e-14, "{x}");
        }
    }

    #[test]
    fn a_feature_has_the_same_bits_whatever_rows_and_features_are_next_to_it() {
        let value = |i: usize| (i as f64 * 0.7391).sin() * 3.0;
        for (count, d, m) in [(1, 3, 1), (9, 2, 37), (6, 5, 16), (3, 1, 7), (4, 20, 91)] {
            let rows: Vec<f64> = (0..count * d).map(value).collect();
            let weights: Vec<f64> = (0..d * m).map(|i| value(i + 1000)).collect();
            let phase: Vec<f64> = (0..m).map(|i| value(i + 5000) + 3.0).collect();
            let stride = m + 2;
            let mapped = |rows: &[f64]| {
                let mut out = vec![7.0; rows.len() / d * stride];
                let inputs = d;
                let (weights, phase) = (&weights[..], &phase[..]);
                let factor = 0.25;
                pulp::Arch::new().dispatch(Waves {
                    rows,
                    inputs,
                    weights,
                    phase,
                    factor,
                    out: &mut out,
                    stride,
                });
                out
            };
            let together = mapped(&rows);
            for i in 0..count {
                let row = &rows[i * d..][..d];
                let own = &together[i * stride..][..stride];
                assert_eq!(mapped(row), own, "{count} × {d}, {m} features");
                assert!(own[m..].iter().all(|v| (*v - 7.0).abs() <= 0.0), "nothing beyond");
                for (k, found) in own[..m].iter().enumerate() {
                    let z: f64 = (0..d).map(|j| row[j] * weights[j * m + k]).sum();
                    let expected = 0.25 * libm::cos(z + phase[k]);
                    assert!((found - expected).abs() < 1e-13, "{found} against {expected}");
                }
            }
        }
    }
}
