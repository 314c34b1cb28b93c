//! The micro-kernels: the few loops in which nearly all time is spent.
//!
//! A vector register holds `LANES` of a panel's eight columns, `V = 8 / LANES` registers hold all of
//! them. The sums of a tile live in registers while the rows of a strip pass by:
//!
//! ```text
//! 32 registers of 8 numbers                16 registers of 4 (or 32 of 2)
//!            panel panel panel                           panel
//! left 0     sum   sum   sum               left 0        sum sum
//!  …                                        …
//! left 7     sum   sum   sum               left 5        sum sum
//! ```
//!
//! Every cell of a Gram matrix is summed over rows in the same order whatever the tile.
//!
//! Arithmetic stands in loops, never in closures: a closure is compiled for the oldest processor, and
//! every operation in it becomes a call.

use pulp::{Simd, WithSimd};

use super::strip::WIDE;

/// Columns on the left of a tile for sixteen registers: 6 × 2 sums, two registers of the right and one of the left are fifteen.
pub(super) const SIX: usize = 6;

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
    /// Blocks of 8 × 8 sums, row-major.
    pub(super) blocks: &'a mut [f64],
    /// Where each of the `N` blocks begins.
    pub(super) at: [usize; N],
}

impl<const N: usize> WithSimd for Outer<'_, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::F64_LANES == WIDE {
            self.run::<S, 1>(simd);
        } else {
            unreachable!("other registers take tiles of six columns");
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

/// Adds the sums of six columns on the left times one panel on the right. The six begin with column `FROM` of one panel and may go
/// on in the next.
///
/// Compiled by itself, for the reason given at [`Outer`].
pub(super) struct Six<'a, const FROM: usize> {
    pub(super) left: [&'a [f64]; 2],
    pub(super) right: &'a [f64],
    /// Rows of eight sums, one for each column on the left; fewer than six where the others are not wanted.
    pub(super) out: &'a mut [f64],
}

impl<const FROM: usize> WithSimd for Six<'_, FROM> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F64_LANES {
            4 => self.run::<S, 2>(simd),
            2 => self.run::<S, 4>(simd),
            1 => self.run::<S, 8>(simd),
            _ => unreachable!("wide registers take tiles of whole panels"),
        }
    }
}

impl<const FROM: usize> Six<'_, FROM> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let right = registers::<S, V>(self.right);
        let one = &pulp::as_arrays::<WIDE, f64>(self.left[0]).0[..right.len()];
        let two = &pulp::as_arrays::<WIDE, f64>(self.left[1]).0[..right.len()];
        let mut sums = [[simd.splat_f64s(0.0); V]; SIX];
        for row in 0..right.len() {
            let r = right[row];
            for i in 0..SIX {
                let at = FROM + i;
                let l = if at < WIDE { one[row][at] } else { two[row][at - WIDE] };
                let l = simd.splat_f64s(l);
                for v in 0..V {
                    sums[i][v] = simd.mul_add_e_f64s(l, r[v], sums[i][v]);
                }
            }
        }
        let out = registers_mut::<S, V>(self.out);
        // Numbers known to the compiler: sums that are looked up would have to be in memory.
        for i in 0..SIX {
            if i < out.len() {
                for v in 0..V {
                    out[i][v] = simd.add_f64s(out[i][v], sums[i][v]);
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
    let (blocks, rest) = pulp::as_arrays::<{ SIDE * WIDE }, f64>(left);
    let (blocks, rest) = (blocks, pulp::as_arrays::<WIDE, f64>(rest).0);
    let right = right.map(registers::<S, V>);
    let mut sums = [[[simd.splat_f64s(0.0); V]; N]; SIDE];
    for block in 0..blocks.len() {
        for side in 0..SIDE {
            let l = simd.splat_f64s(blocks[block][side * WIDE]);
            for j in 0..N {
                for v in 0..V {
                    let r = right[j][block * SIDE + side][v];
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
    for row in 0..rest.len() {
        let l = simd.splat_f64s(rest[row][0]);
        for j in 0..N {
            for v in 0..V {
                let r = right[j][blocks.len() * SIDE + row][v];
                out[j][v] = simd.mul_add_e_f64s(l, r, out[j][v]);
            }
        }
    }
    out
}

/// `ROWS` rows of `N` panels, less the rows' sources times `factors` or, with `REPLACE`, that product itself: `factors` has `8 N`
/// numbers for every column of the sources.
///
/// Compiled by itself, for the reason given at [`Outer`].
pub(super) struct Inner<'a, const ROWS: usize, const N: usize, const REPLACE: bool> {
    /// The `ROWS` rows of each panel of sources, `stride` apart.
    pub(super) sources: &'a [f64],
    pub(super) stride: usize,
    pub(super) factors: &'a [f64],
    pub(super) panels: &'a mut [f64],
    /// Where the rows begin in each of the `N` panels.
    pub(super) at: [usize; N],
}

impl<const ROWS: usize, const N: usize, const REPLACE: bool> WithSimd
    for Inner<'_, ROWS, N, REPLACE>
{
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

impl<const ROWS: usize, const N: usize, const REPLACE: bool> Inner<'_, ROWS, N, REPLACE> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let factors = pulp::as_arrays::<N, [S::f64s; V]>(registers::<S, V>(self.factors)).0;
        let factors = pulp::as_arrays::<WIDE, [[S::f64s; V]; N]>(factors).0;
        let mut sums = [[[simd.splat_f64s(0.0); V]; N]; ROWS];
        for panel in 0..factors.len() {
            let rows = &self.sources[panel * self.stride..][..ROWS * WIDE];
            let rows = pulp::as_arrays::<WIDE, f64>(rows).0;
            let rows = &pulp::as_arrays::<ROWS, [f64; WIDE]>(rows).0[0];
            for column in 0..WIDE {
                let f = factors[panel][column];
                for i in 0..ROWS {
                    let x = simd.splat_f64s(rows[i][column]);
                    for j in 0..N {
                        for v in 0..V {
                            sums[i][j][v] = simd.mul_add_e_f64s(x, f[j][v], sums[i][j][v]);
                        }
                    }
                }
            }
        }
        // The sums first and the rows after: together they do not fit in registers.
        for j in 0..N {
            let rows = &mut self.panels[self.at[j]..self.at[j] + ROWS * WIDE];
            let rows = registers_mut::<S, V>(rows);
            for i in 0..ROWS {
                for v in 0..V {
                    rows[i][v] = if REPLACE {
                        sums[i][j][v]
                    } else {
                        simd.sub_f64s(rows[i][v], sums[i][j][v])
                    };
                }
            }
        }
    }
}

/// As [`Inner`] for a single target: one factor per column of the sources, one result per row.
#[inline(always)]
pub(super) fn inner_single<S: Simd, const V: usize, const ROWS: usize>(
    simd: S,
    sources: &[f64],
    stride: usize,
    factors: &[f64],
) -> [f64; ROWS] {
    let factors = registers::<S, V>(factors);
    let mut sums = [[simd.splat_f64s(0.0); V]; ROWS];
    for panel in 0..factors.len() {
        let rows = registers::<S, V>(&sources[panel * stride..][..ROWS * WIDE]);
        let rows = &pulp::as_arrays::<ROWS, [S::f64s; V]>(rows).0[0];
        for i in 0..ROWS {
            for v in 0..V {
                sums[i][v] = simd.mul_add_e_f64s(rows[i][v], factors[panel][v], sums[i][v]);
            }
        }
    }
    let mut out = [0.0; ROWS];
    for i in 0..ROWS {
        let mut sum = sums[i][0];
        for v in 1..V {
            sum = simd.add_f64s(sum, sums[i][v]);
        }
        out[i] = simd.reduce_sum_f64s(sum);
    }
    out
}
