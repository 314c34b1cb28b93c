//! Cholesky's decomposition of sums in their own place: `XᵀX = RᵀR`, `RᵀZ = XᵀY`.
//!
//! Rows of `R` that are known are rows like any others. What they explain is taken from the sums by adding their products to the
//! *negative* sums, with the kernel of [`Gram::add`] and at its speed:
//!
//! ```text
//!   ┌──┬─────────┐   1. factor C, solve for the rows on its right, keep them as rows of R
//!   │C │  rows   │
//!   └──┼─────────┤   2. −rest += rowsᵀ rows
//!      │ −rest   │
//!      └─────────┘
//! ```

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::cholesky::{factor_corner, solve_right};
use super::gram::Gram;
use super::instructions::dispatch;
use super::strip::{DEEP, STRIPS, WIDE};
use super::{Mixed, Source, each, zeros};

/// Rows factored together: as many as the sums pass through the processor for once. A multiple of 24, which is how many zeros at the
/// beginning of a row a strip passes over at once.
const ROWS: usize = DEEP * STRIPS;

/// `[R | Z]` in the layout of sums.
pub(crate) struct Root(Gram);

impl Root {
    /// The root of `[XᵀX | XᵀY]` whose negative is given; it becomes the result. `None` where `XᵀX` is not positive definite to working
    /// precision.
    ///
    /// The same bits on any number of threads. Cost: `m³/3 + m² p` flops.
    pub(crate) fn of_negative(sums: Gram) -> Option<Self> {
        Self::factor(sums, None)
    }

    /// The same to about seven digits: what known rows explain is summed in double precision, from products in single. It takes half the
    /// time, and [`Root::apply_inverse`] makes a preconditioner of it.
    ///
    /// `units` has a power of two for each feature that brings it to sizes near 1.
    pub(crate) fn of_negative_rounded(sums: Gram, units: &[f64]) -> Option<Self> {
        Self::factor(sums, Some(&Mixed { units }))
    }

    fn factor(mut sums: Gram, mixed: Option<&Mixed<'_>>) -> Option<Self> {
        let (m, p) = sums.shape();
        let width = m + p;
        let mut cells = zeros(ROWS.min(m) * width);
        for from in (0..m).step_by(ROWS) {
            let to = m.min(from + ROWS);
            let cells = &mut cells[..(to - from) * width];
            sums.write_negative_rows(from..to, cells);
            factor_corner(cells, width, from)?;
            solve_right(cells, width, from);
            for (i, row) in cells.chunks_exact_mut(width).enumerate() {
                let pivot = row[from + i];
                if !(pivot > 0.0 && pivot.is_finite()) {
                    return None;
                }
                row[..from + i].fill(0.0);
            }
            sums.set_rows(from, cells);
            if to < m {
                let known = Known { cells, width, to };
                match mixed {
                    Some(mixed) => mixed.add(&mut sums, &known, 0..to - from),
                    None => sums.add(&known, 0..to - from),
                }
            }
        }
        Some(Self(sums))
    }

    /// `R[j][j]`.
    pub(crate) fn pivot(&self, j: usize) -> f64 {
        self.0.xx(j, j)
    }

    /// `Z[j][k]`.
    pub(crate) fn z(&self, j: usize, k: usize) -> f64 {
        self.0.xy(j, k)
    }

    /// `x ← R⁻¹x`
    pub(crate) fn substitute_back(&self, x: &mut [f64]) {
        self.in_panels(x, back);
    }

    /// `x ← (RᵀR)⁻¹x`
    pub(crate) fn apply_inverse(&self, x: &mut [f64]) {
        self.in_panels(x, |blocks, x| {
            forward(blocks, x);
            back(blocks, x);
        });
    }

    fn in_panels(&self, x: &mut [f64], substitute: impl Fn(&[Block], &mut [[f64; WIDE]])) {
        // Filled up with zeros.
        let mut panels = vec![[0.0; WIDE]; x.len().div_ceil(WIDE)];
        panels.as_flattened_mut()[..x.len()].copy_from_slice(x);
        let rows = pulp::as_arrays::<WIDE, f64>(self.0.blocks()).0;
        substitute(pulp::as_arrays::<WIDE, [f64; WIDE]>(rows).0, &mut panels);
        x.copy_from_slice(&panels.as_flattened()[..x.len()]);
    }
}

/// Eight rows of eight columns.
type Block = [[f64; WIDE]; WIDE];

/// Rows of `R`, of which the columns before `to` are no longer needed.
struct Known<'a> {
    cells: &'a [f64],
    width: usize,
    to: usize,
}

impl Source for Known<'_> {
    fn rows(&self) -> usize {
        self.cells.len() / self.width
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        let rows = self.cells[from * self.width..].chunks_exact(self.width);
        for (out, row) in out.chunks_exact_mut(self.width).zip(rows) {
            out[..self.to].fill(0.0);
            out[self.to..].copy_from_slice(&row[self.to..]);
        }
    }

    fn zeros(&self, _from: usize) -> usize {
        self.to
    }
}

/// Panels that are solved one after another before all others see them, and those of the others that one thread works on at once. Threads
/// share what lies outside of the triangles on the diagonal, which is nearly all of `R` and takes as long as memory takes to read it.
const GROUP: usize = 32;

/// The blocks of one column of blocks.
fn column(j: usize) -> Range<usize> {
    j * (j + 1) / 2..(j + 1) * (j + 2) / 2
}

/// `x ← R⁻¹x`; a column that only fills up the last panel has a pivot of 0 and stays 0.
fn back(blocks: &[Block], x: &mut [[f64; WIDE]]) {
    for first in (0..x.len()).step_by(GROUP).rev() {
        let (before, rest) = x.split_at_mut(first);
        let count = GROUP.min(rest.len());
        let own = &mut rest[..count];
        dispatch(Back { blocks, first, x: own });
        let known = &*own;
        let parts = (0..).step_by(GROUP).zip(before.chunks_mut(GROUP)).collect();
        each(parts, |(from, x): (usize, &mut [_])| {
            dispatch(Spread { blocks, first, known, from, x });
        });
    }
}

/// Solves panels `first..` for their own triangle.
struct Back<'a> {
    blocks: &'a [Block],
    first: usize,
    x: &'a mut [[f64; WIDE]],
}

impl WithSimd for Back<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { blocks, first, x } = self;
        // Loops by number: what iterators do is compiled by itself, for the oldest processor.
        for j in (0..x.len()).rev() {
            let blocks = &blocks[column(first + j)][first..];
            for a in (0..WIDE).rev() {
                let mut rest = x[j][a];
                for b in a + 1..WIDE {
                    rest -= blocks[j][a][b] * x[j][b];
                }
                let pivot = blocks[j][a][a];
                x[j][a] = if pivot > 0.0 { rest / pivot } else { 0.0 };
            }
            let known = x[j];
            for i in 0..j {
                subtract(&blocks[i], &known, &mut x[i]);
            }
        }
    }
}

/// Subtracts from panels `from..` what panels `first..`, which are known, contribute.
struct Spread<'a> {
    blocks: &'a [Block],
    first: usize,
    known: &'a [[f64; WIDE]],
    from: usize,
    x: &'a mut [[f64; WIDE]],
}

impl WithSimd for Spread<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { blocks, first, known, from, x } = self;
        for j in (0..known.len()).rev() {
            let blocks = &blocks[column(first + j)][from..];
            for i in 0..x.len() {
                subtract(&blocks[i], &known[j], &mut x[i]);
            }
        }
    }
}

/// `x ← R⁻ᵀx`; a column that only fills up the last panel has a pivot of 0 and stays 0.
fn forward(blocks: &[Block], x: &mut [[f64; WIDE]]) {
    for first in (0..x.len()).step_by(GROUP) {
        let (before, rest) = x.split_at_mut(first);
        let count = GROUP.min(rest.len());
        let own = &mut rest[..count];
        let known = &*before;
        let parts = (first..).zip(own.iter_mut()).collect();
        each(parts, |(j, x): (usize, &mut [f64; WIDE])| {
            dispatch(Gather { blocks: &blocks[column(j)], known, x });
        });
        dispatch(Forward { blocks, first, x: own });
    }
}

/// Subtracts from the panel of one column of blocks what the first panels, which are known, contribute.
struct Gather<'a> {
    blocks: &'a [Block],
    known: &'a [[f64; WIDE]],
    x: &'a mut [f64; WIDE],
}

impl WithSimd for Gather<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { blocks, known, x } = self;
        let mut sums = [0.0; WIDE];
        for i in 0..known.len() {
            for a in 0..WIDE {
                for b in 0..WIDE {
                    sums[b] += blocks[i][a][b] * known[i][a];
                }
            }
        }
        for b in 0..WIDE {
            x[b] -= sums[b];
        }
    }
}

/// Solves panels `first..` for the transpose of their own triangle.
struct Forward<'a> {
    blocks: &'a [Block],
    first: usize,
    x: &'a mut [[f64; WIDE]],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { blocks, first, x } = self;
        for j in 0..x.len() {
            let blocks = &blocks[column(first + j)][first..];
            let mut rest = x[j];
            for i in 0..j {
                for a in 0..WIDE {
                    for b in 0..WIDE {
                        rest[b] -= blocks[i][a][b] * x[i][a];
                    }
                }
            }
            for a in 0..WIDE {
                let pivot = blocks[j][a][a];
                rest[a] = if pivot > 0.0 { rest[a] / pivot } else { 0.0 };
                for b in a + 1..WIDE {
                    rest[b] -= blocks[j][a][b] * rest[a];
                }
            }
            x[j] = rest;
        }
    }
}

/// `x ← x − block · known`
#[inline(always)]
fn subtract(block: &Block, known: &[f64; WIDE], x: &mut [f64; WIDE]) {
    for a in 0..WIDE {
        let mut sums = [0.0; WIDE];
        for b in 0..WIDE {
            sums[b] = block[a][b] * known[b];
        }
        let [c, d, e, f, g, h, k, l] = sums;
        x[a] -= ((c + g) + (d + h)) + ((e + k) + (f + l));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{decompose_in_place, with_threads};
    use super::*;

    fn draw(i: usize) -> f64 {
        ((i as f64 * 12.9898).sin() * 43_758.547).fract()
    }

    /// Sums over rows of numbers between −1 and 1, and 1/10 on the diagonal.
    fn sums(m: usize, p: usize) -> Gram {
        struct Drawn(usize);
        impl Source for Drawn {
            fn rows(&self) -> usize {
                40
            }
            fn fill(&self, from: usize, out: &mut [f64]) {
                for (i, v) in out.iter_mut().enumerate() {
                    *v = draw(from * self.0 + i);
                }
            }
        }
        let mut gram = Gram::new(m, p);
        gram.add(&Drawn(m + p), 0..40);
        (0..m).for_each(|j| gram.raise(j, 0.1));
        gram
    }

    #[test]
    fn the_root_is_that_of_rows_and_solves() {
        for (m, p) in [(1, 1), (7, 0), (24, 2), (100, 1), (335, 1), (336, 3), (337, 9), (700, 1)] {
            let gram = sums(m, p);
            let width = m + p;
            let mut expected = vec![0.0; m * width];
            gram.write_rows(&mut expected);
            decompose_in_place(m, p, &mut expected).unwrap();
            let root = Root::of_negative(gram.negated()).unwrap();
            for i in 0..m {
                // Columns have squares of about 13; the condition number is about 1e3.
                assert!((root.pivot(i) - expected[i * width + i]).abs() <= 1e-10, "{m} {i}");
                for k in 0..p {
                    let z = expected[i * width + m + k];
                    assert!((root.z(i, k) - z).abs() <= 1e-10, "{m} {i} {k}");
                }
            }
            for k in 0..p {
                let mut theta: Vec<f64> = (0..m).map(|j| root.z(j, k)).collect();
                root.substitute_back(&mut theta);
                for (j, v) in gram.times(&theta).iter().enumerate() {
                    assert!((v - gram.xy(j, k)).abs() <= 1e-9, "{m} {j} {k}");
                }
            }
        }
    }

    #[test]
    fn a_rounded_root_has_seven_digits_and_its_inverse_is_applied() {
        for (m, p) in [(9, 1), (337, 1), (700, 3), (1100, 1)] {
            let gram = sums(m, p);
            // Columns have squares of about 13.
            let root = Root::of_negative_rounded(gram.negated(), &vec![0.25; m]).unwrap();
            let exact = Root::of_negative(gram.negated()).unwrap();
            let v: Vec<f64> = (0..m).map(|j| draw(90_000 + j)).collect();
            let product = gram.times(&v);
            for (root, digits) in [(&root, 1e-2), (&exact, 1e-9)] {
                let mut x = product.clone();
                root.apply_inverse(&mut x);
                // The condition number is some thousands.
                for (j, (x, v)) in x.iter().zip(&v).enumerate() {
                    assert!((x - v).abs() <= digits, "{m} {j}: {x} {v}");
                }
            }
            for j in 0..m {
                assert!((root.pivot(j) - exact.pivot(j)).abs() <= 1e-4, "{m} {j}");
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let gram = sums(700, 2);
        let v: Vec<f64> = (0..700).map(draw).collect();
        let rounded = |threads| {
            with_threads(threads, || {
                let root = Root::of_negative_rounded(gram.negated(), &[0.25; 700]).unwrap();
                let mut x = v.clone();
                root.apply_inverse(&mut x);
                x.iter().chain(root.0.blocks()).map(|v| v.to_bits()).collect::<Vec<_>>()
            })
        };
        assert_eq!(rounded(1), rounded(2));
        assert_eq!(rounded(1), rounded(3));
        let bits = |threads| {
            let root = with_threads(threads, || Root::of_negative(gram.negated()).unwrap());
            root.0.blocks().iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(1), bits(2));
        assert_eq!(bits(1), bits(3));
    }

    #[test]
    fn sums_that_are_not_positive_definite_have_no_root() {
        for bad in [0, 350, 699] {
            let mut gram = sums(700, 1);
            gram.raise(bad, -100.0);
            assert!(Root::of_negative(gram.negated()).is_none(), "{bad}");
            gram.raise(bad, f64::NAN);
            assert!(Root::of_negative(gram.negated()).is_none(), "{bad}: NaN");
        }
    }
}
