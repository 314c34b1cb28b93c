//! Solutions of a tridiagonal system for many right sides, some side by side: each by itself waits for one row after the other.

use pulp::{Simd, WithSimd};

use super::instructions::dispatch;

/// Right sides that are solved, and vectors that are turned, side by side.
pub(crate) const SIDE: usize = 16;

/// Row after row, one number for each of some right sides.
pub(crate) type Side = Vec<[f64; SIDE]>;

/// A symmetric tridiagonal matrix `M`, eliminated from the top.
pub(crate) struct Sweeps<'a> {
    /// 1 over each pivot.
    pub(crate) inverse: &'a [f64],
    /// What each row takes of the one above; 0 for the first.
    pub(crate) factors: &'a [f64],
}

impl Sweeps<'_> {
    /// `⟨b, x⟩`, `⟨x, x⟩` and `⟨x, M⁻¹x⟩` with `x = M⁻¹b`. Products and sums alone: the same bits with all instructions.
    pub(crate) fn products(&self, b: &Side) -> [[f64; SIDE]; 3] {
        dispatch(Products { sweeps: self, b })
    }

    /// `x ← M⁻¹b`; returns `⟨b, x⟩` and `⟨x, x⟩`.
    #[inline(always)]
    fn solve<S: Simd, const V: usize>(
        &self,
        simd: S,
        b: &[[S::f64s; V]],
        x: &mut [[S::f64s; V]],
    ) -> [[S::f64s; V]; 2] {
        let k = x.len();
        let (b, inverse, factors) = (&b[..k], &self.inverse[..k], &self.factors[..k]);
        let zero = [simd.splat_f64s(0.0); V];
        let mut last = zero;
        for i in 0..k {
            let factor = simd.splat_f64s(factors[i]);
            for v in 0..V {
                last[v] = simd.sub_f64s(b[i][v], simd.mul_f64s(factor, last[v]));
            }
            x[i] = last;
        }
        let (mut last, mut after) = (zero, simd.splat_f64s(0.0));
        let mut products = [zero; 2];
        for i in (0..k).rev() {
            let inverse = simd.splat_f64s(inverse[i]);
            for v in 0..V {
                let own = simd.mul_f64s(x[i][v], inverse);
                last[v] = simd.sub_f64s(own, simd.mul_f64s(after, last[v]));
                products[0][v] = simd.add_f64s(products[0][v], simd.mul_f64s(b[i][v], last[v]));
                products[1][v] = simd.add_f64s(products[1][v], simd.mul_f64s(last[v], last[v]));
            }
            x[i] = last;
            after = simd.splat_f64s(factors[i]);
        }
        products
    }
}

struct Products<'a> {
    sweeps: &'a Sweeps<'a>,
    b: &'a Side,
}

impl WithSimd for Products<'_> {
    type Output = [[f64; SIDE]; 3];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        match S::F64_LANES {
            8 => self.run::<S, 2>(simd),
            4 => self.run::<S, 4>(simd),
            2 => self.run::<S, 8>(simd),
            _ => self.run::<S, SIDE>(simd),
        }
    }
}

impl Products<'_> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) -> [[f64; SIDE]; 3] {
        let Self { sweeps, b } = self;
        let b = pulp::as_arrays::<V, S::f64s>(S::as_simd_f64s(b.as_flattened()).0).0;
        let mut x = b.to_vec();
        let mut y = b.to_vec();
        let [pulls, lengths] = sweeps.solve::<S, V>(simd, b, &mut x);
        let [slopes, _] = sweeps.solve::<S, V>(simd, &x, &mut y);
        let mut out = [[0.0; SIDE]; 3];
        for (out, sums) in out.iter_mut().zip([pulls, lengths, slopes]) {
            S::as_mut_simd_f64s(out).0.copy_from_slice(&sums);
        }
        out
    }
}
