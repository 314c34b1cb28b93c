//! `XᵀX v` from the rows of `X`, without the products.

use pulp::{Simd, WithSimd};

use super::instructions::dispatch;

/// Running sums of an inner product.
const SUMS: usize = 4;

/// Adds `Σ ⟨row, v⟩ row` over rows, row-major and as wide as `v`, to `out`.
pub(crate) fn add_applied(rows: &[f64], v: &[f64], out: &mut [f64]) {
    dispatch(Apply { rows, v, out });
}

struct Apply<'a> {
    rows: &'a [f64],
    v: &'a [f64],
    out: &'a mut [f64],
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, v, out } = self;
        let m = v.len();
        let (v, v_rest) = S::as_simd_f64s(v);
        let (out, out_rest) = S::as_mut_simd_f64s(out);
        // Loops by number: what iterators do is compiled by itself, for the oldest processor.
        for i in 0..rows.len() / m.max(1) {
            let (row, row_rest) = S::as_simd_f64s(&rows[i * m..(i + 1) * m]);
            let mut sums = [simd.splat_f64s(0.0); SUMS];
            for j in 0..row.len() {
                sums[j % SUMS] = simd.mul_add_e_f64s(row[j], v[j], sums[j % SUMS]);
            }
            let [a, b, c, d] = sums;
            let sum = simd.add_f64s(simd.add_f64s(a, b), simd.add_f64s(c, d));
            let mut along = simd.reduce_sum_f64s(sum);
            for j in 0..row_rest.len() {
                along += row_rest[j] * v_rest[j];
            }
            let splat = simd.splat_f64s(along);
            for j in 0..row.len() {
                out[j] = simd.mul_add_e_f64s(splat, row[j], out[j]);
            }
            for j in 0..row_rest.len() {
                out_rest[j] += along * row_rest[j];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::instructions::tests::each_set;

    #[test]
    fn it_is_the_sum_over_rows() {
        for (n, m) in [(1, 1), (3, 7), (5, 64), (2, 101)] {
            let draw = |i: usize| ((i as f64 * 12.9898).sin() * 43_758.547).fract();
            let rows: Vec<f64> = (0..n * m).map(draw).collect();
            let v: Vec<f64> = (0..m).map(|i| draw(7000 + i)).collect();
            let mut expected = vec![1.0; m];
            for row in rows.chunks_exact(m) {
                let along: f64 = row.iter().zip(&v).map(|(a, b)| a * b).sum();
                expected.iter_mut().zip(row).for_each(|(sum, x)| *sum += along * x);
            }
            each_set(|set| {
                let mut found = vec![1.0; m];
                add_applied(&rows, &v, &mut found);
                for (f, e) in found.iter().zip(&expected) {
                    // Numbers below 1 in another order.
                    assert!((f - e).abs() <= 4.0 * (n * m) as f64 * f64::EPSILON, "{set} {n} {m}");
                }
            });
        }
    }
}
