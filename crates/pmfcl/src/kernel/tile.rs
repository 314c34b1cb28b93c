//! The micro-kernels: the few loops in which nearly all time is spent.
//!
//! A vector register holds `LANES` of a panel's four columns, `V = 4 / LANES` registers hold all of
//! them. The sums of a tile live in registers while the rows of a strip pass by. Every cell is summed
//! over rows in the same order whatever the width of the registers, so all processors with a fused
//! multiply-add give the same bits.
//!
//! Arithmetic stands in loops, never in closures: a closure is compiled for the oldest processor, and
//! every operation in it becomes a call.

use pulp::{Simd, WithSimd};

use super::strip::WIDE;

/// Runs `work` with the best instructions this processor has, up to AVX2.
pub(super) fn dispatch<W: WithSimd>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        match pulp::x86::V3::try_new() {
            Some(simd) => Simd::vectorize(simd, work),
            None => Simd::vectorize(pulp::Scalar, work),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        pulp::Arch::new().dispatch(work)
    }
}

/// A panel seen as rows of `V` registers.
#[inline(always)]
pub(super) fn registers<S: Simd, const V: usize>(panel: &[f64]) -> &[[S::f64s; V]] {
    pulp::as_arrays(S::as_simd_f64s(panel).0).0
}

/// As [`registers`], to be written.
#[inline(always)]
pub(super) fn registers_mut<S: Simd, const V: usize>(panel: &mut [f64]) -> &mut [[S::f64s; V]] {
    pulp::as_arrays_mut(S::as_mut_simd_f64s(panel).0).0
}

/// Adds to `N` blocks the sums of `left[i] · right[j]` over the rows of one panel on the left and `N` on the
/// right.
///
/// Compiled by itself: how fast it runs must not depend on what the compiler finds around it.
pub(super) struct Outer<'a, const N: usize> {
    pub(super) left: &'a [f64],
    pub(super) right: [&'a [f64]; N],
    /// Blocks of 4 × 4 sums, row-major.
    pub(super) blocks: &'a mut [f64],
    /// Where each of the `N` blocks begins.
    pub(super) at: [usize; N],
}

impl<const N: usize> WithSimd for Outer<'_, N> {
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

impl<const N: usize> Outer<'_, N> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let left = pulp::as_arrays::<WIDE, f64>(self.left).0;
        let mut right: [&[[S::f64s; V]]; N] = [&[]; N];
        for j in 0..N {
            right[j] = &registers::<S, V>(self.right[j])[..left.len()];
        }
        let mut sums = [[[simd.splat_f64s(0.0); V]; N]; WIDE];
        for row in 0..left.len() {
            let mut r = [[simd.splat_f64s(0.0); V]; N];
            for j in 0..N {
                r[j] = right[j][row];
            }
            for i in 0..WIDE {
                let l = simd.splat_f64s(left[row][i]);
                for j in 0..N {
                    for v in 0..V {
                        sums[i][j][v] = simd.mul_add_e_f64s(l, r[j][v], sums[i][j][v]);
                    }
                }
            }
        }
        for j in 0..N {
            let block = &mut self.blocks[self.at[j]..self.at[j] + WIDE * WIDE];
            let block = registers_mut::<S, V>(block);
            for i in 0..WIDE {
                for v in 0..V {
                    block[i][v] = simd.add_f64s(block[i][v], sums[i][j][v]);
                }
            }
        }
    }
}

/// Sums of `left[0] · right[j]` over the rows, for a panel of which only the first column is in use.
///
/// Four rows are summed side by side and joined at the end; one sum would wait for itself.
#[inline(always)]
pub(super) fn lone<S: Simd, const V: usize, const N: usize>(
    simd: S,
    left: &[f64],
    right: [&[f64]; N],
) -> [[S::f64s; V]; N] {
    const SIDE: usize = 4;
    let left = pulp::as_arrays::<{ SIDE * WIDE }, f64>(left).0;
    let blocks = left.len();
    let right = right
        .map(|panel| &pulp::as_arrays::<SIDE, [S::f64s; V]>(registers::<S, V>(panel)).0[..blocks]);
    let mut sums = [[[simd.splat_f64s(0.0); V]; N]; SIDE];
    for block in 0..blocks {
        for side in 0..SIDE {
            let l = simd.splat_f64s(left[block][side * WIDE]);
            for j in 0..N {
                for v in 0..V {
                    let r = right[j][block][side][v];
                    sums[side][j][v] = simd.mul_add_e_f64s(l, r, sums[side][j][v]);
                }
            }
        }
    }
    let [a, b, c, d] = sums;
    let mut out = a;
    for j in 0..N {
        for v in 0..V {
            let (ab, cd) = (simd.add_f64s(a[j][v], b[j][v]), simd.add_f64s(c[j][v], d[j][v]));
            out[j][v] = simd.add_f64s(ab, cd);
        }
    }
    out
}

/// Subtracts `sources · factors` from four rows of `N` panels: for each feature, `sources` has its four rows
/// side by side, and `factors` the `4 N` factors for the targets.
///
/// Compiled by itself, for the reason given at [`Outer`].
pub(super) struct Inner<'a, const N: usize> {
    pub(super) sources: &'a [f64],
    pub(super) factors: &'a [f64],
    pub(super) panels: &'a mut [f64],
    /// Where the four rows begin in each of the `N` panels.
    pub(super) at: [usize; N],
}

impl<const N: usize> WithSimd for Inner<'_, N> {
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

impl<const N: usize> Inner<'_, N> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let sources = pulp::as_arrays::<WIDE, f64>(self.sources).0;
        let factors = pulp::as_arrays::<N, [S::f64s; V]>(registers::<S, V>(self.factors)).0;
        let factors = &factors[..sources.len()];
        let mut sums = [[[simd.splat_f64s(0.0); V]; N]; WIDE];
        for feature in 0..sources.len() {
            let f = factors[feature];
            for i in 0..WIDE {
                let x = simd.splat_f64s(sources[feature][i]);
                for j in 0..N {
                    for v in 0..V {
                        sums[i][j][v] = simd.mul_add_e_f64s(x, f[j][v], sums[i][j][v]);
                    }
                }
            }
        }
        // The sums first and the rows after: together they do not fit in registers.
        for j in 0..N {
            let rows = &mut self.panels[self.at[j]..self.at[j] + WIDE * WIDE];
            let rows = registers_mut::<S, V>(rows);
            for i in 0..WIDE {
                for v in 0..V {
                    rows[i][v] = simd.sub_f64s(rows[i][v], sums[i][j][v]);
                }
            }
        }
    }
}

/// As [`Inner`] for a single target: one number per feature in `factors`, several sums in flight.
#[inline(always)]
pub(super) fn inner_single<S: Simd, const V: usize>(
    simd: S,
    sources: &[f64],
    factors: &[f64],
) -> [S::f64s; V] {
    const SIDE: usize = 4;
    let sources = pulp::as_arrays::<SIDE, [S::f64s; V]>(registers::<S, V>(sources)).0;
    let factors = pulp::as_arrays::<SIDE, f64>(factors).0;
    let mut sums = [[simd.splat_f64s(0.0); V]; SIDE];
    for (x, f) in sources.iter().zip(factors) {
        for side in 0..SIDE {
            let f = simd.splat_f64s(f[side]);
            for v in 0..V {
                sums[side][v] = simd.mul_add_e_f64s(x[side][v], f, sums[side][v]);
            }
        }
    }
    let [a, b, c, d] = sums;
    let mut out = a;
    for v in 0..V {
        out[v] = simd.add_f64s(simd.add_f64s(a[v], b[v]), simd.add_f64s(c[v], d[v]));
    }
    out
}

/// Four rows of a panel: `x ← x T⁻¹` for the upper triangle `T`, by substitution.
///
/// `t[i][j]` is `T` above its diagonal and the reciprocal on it. The rows are turned to lie side by
/// side in a register, so that substitution is four short steps for all of them. Returned are the
/// result as rows and, turned, as columns.
#[inline(always)]
pub(super) fn substitute<S: Simd, const V: usize>(
    simd: S,
    rows: [[S::f64s; V]; WIDE],
    t: &[[f64; WIDE]; WIDE],
) -> [[[S::f64s; V]; WIDE]; 2] {
    let mut x = turn::<S, V>(simd, rows);
    for j in 0..WIDE {
        for i in 0..j {
            let factor = simd.splat_f64s(t[i][j]);
            for v in 0..V {
                x[j][v] = simd.negate_mul_add_e_f64s(x[i][v], factor, x[j][v]);
            }
        }
        let reciprocal = simd.splat_f64s(t[j][j]);
        for v in 0..V {
            x[j][v] = simd.mul_f64s(x[j][v], reciprocal);
        }
    }
    [turn::<S, V>(simd, x), x]
}

/// Transposes a 4 × 4 block.
#[inline(always)]
fn turn<S: Simd, const V: usize>(simd: S, rows: [[S::f64s; V]; WIDE]) -> [[S::f64s; V]; WIDE] {
    if V == 1 {
        let columns: [S::f64s; WIDE] =
            simd.deinterleave_shfl_f64s(std::array::from_fn(|i| rows[i][0]));
        return columns.map(|column| [column; V]);
    }
    let mut out = rows;
    for i in 0..WIDE {
        for j in 0..WIDE {
            let from: &[f64] = pulp::bytemuck::cast_slice(rows[i].as_slice());
            let to: &mut [f64] = pulp::bytemuck::cast_slice_mut(out[j].as_mut_slice());
            to[i] = from[j];
        }
    }
    out
}
