//! Householder's method for matrices with a staircase of zeros.
//!
//! Column `j` of the matrix is zero from row `ends(j)` on, and `ends` never falls. That covers
//!
//! ```text
//! dense rows      rows above a triangle     two triangles, row by row
//! x x x           x x x                     a a a
//! x x x           x x x                     b b b
//! x x x           r r r                       a a
//! x x x             r r                       b b
//! x x x               r                         a
//! ```
//!
//! so one routine factors strips, continues a factor, and merges two. Below the stairs nothing is
//! computed: merging costs `2m³/3` flops instead of the `10m³/3` of a full matrix.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, Par};
use pulp::{Simd, WithSimd};

use super::columns::column_tiles;
use super::instructions::dispatch;
use super::parallel;

/// Columns reduced one by one before the rest is updated at once.
const PANEL: usize = 32;

/// Up to this many columns the blocked update does not pay.
const PLAIN: usize = 48;

/// Of more columns, several panels are reduced before the rest is updated: the rest passes through the processor that much less often.
const WIDE: usize = 512;
const PANELS: usize = 4 * PANEL;

/// Columns that one thread updates at once.
const TILE: usize = 256;

/// A column-major matrix being brought to trapezoidal form.
pub(super) struct Staircase<'a> {
    /// `rows × columns`, column after column.
    pub(super) cells: &'a mut [f64],
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Staircase<'_> {
    /// Reduces the first `m` columns; the upper trapezoid is the result, what is below is scratch.
    ///
    /// Column `j` is zero from row `ends(j)` on. Squares must neither overflow nor vanish.
    pub(super) fn reduce(self, m: usize, ends: impl Fn(usize) -> usize) {
        let Self { cells, rows, columns } = self;
        let m = m.min(rows);
        if columns <= PLAIN {
            let ends: Vec<usize> = (0..m).map(&ends).collect();
            let panel = Panel { cells, rows, from: 0, ends: &ends, all: columns };
            dispatch(panel);
            return;
        }
        let step = if columns > WIDE { PANELS } else { PANEL };
        for first in (0..m).step_by(step) {
            let last = (first + step).min(m);
            let mut all = Vec::with_capacity(step);
            for from in (first..last).step_by(PANEL) {
                let to = (from + PANEL).min(last);
                let stairs: Vec<usize> = (from..to).map(&ends).collect();
                let panel = Panel {
                    cells: &mut cells[from * rows..to * rows],
                    rows,
                    from,
                    ends: &stairs,
                    all: to - from,
                };
                let taus = dispatch(panel);
                if to < last {
                    update(&mut cells[..last * rows], rows, to, from..ends(to - 1), &taus);
                }
                all.extend(taus);
            }
            if last < columns {
                update(cells, rows, last, first..ends(last - 1), &all);
            }
        }
    }
}

/// Applies the reflections of the columns from `span.start` on, one for each of `taus`, to all columns from `to` on, on the rows
/// `span`.
fn update(cells: &mut [f64], rows: usize, to: usize, span: Range<usize>, taus: &[f64]) {
    let (from, wide, tall) = (span.start, taus.len(), span.len());
    let vectors = Mat::from_fn(tall, wide, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Less => 0.0,
        std::cmp::Ordering::Equal => 1.0,
        std::cmp::Ordering::Greater => cells[(from + j) * rows + from + i],
    });
    let columns = cells.len() / rows;
    let all = MatMut::from_column_major_slice_mut(cells, rows, columns);
    let rest = all.submatrix_mut(from, to, tall, columns - to);
    Reflections::new(vectors, taus).apply(rest);
}

/// A product of reflections `H₁ H₂ … = I − V T Vᵀ`, `H_j = I − τ_j v_j v_jᵀ`.
pub(crate) struct Reflections {
    vectors: Mat<f64>,
    t: Mat<f64>,
}

impl Reflections {
    /// Of the columns of `vectors`, the first one applied first.
    pub(crate) fn new(vectors: Mat<f64>, taus: &[f64]) -> Self {
        let wide = taus.len();
        // T from VᵀV, column by column: T[..j, j] = −τ_j T[..j, ..j] Vᵀ v_j.
        let mut products = Mat::<f64>::zeros(wide, wide);
        let v = vectors.as_ref();
        matmul(products.as_mut(), Accum::Replace, v.transpose(), v, 1.0, Par::Seq);
        let mut t = Mat::<f64>::zeros(wide, wide);
        for j in 0..wide {
            for i in 0..j {
                let sum: f64 = (i..j).map(|k| t[(i, k)] * products[(k, j)]).sum();
                t[(i, j)] = -taus[j] * sum;
            }
            t[(j, j)] = taus[j];
        }
        Self { vectors, t }
    }

    /// Those that bring a column-major block of `rows` rows to upper trapezoidal form, which is then in its place; what is below is
    /// scratch.
    pub(super) fn of_panel(cells: &mut [f64], rows: usize) -> Self {
        let columns = cells.len() / rows;
        let ends = vec![rows; columns.min(rows)];
        let taus = dispatch(Panel { cells, rows, from: 0, ends: &ends, all: columns });
        let vectors = Mat::from_fn(rows, ends.len(), |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => cells[j * rows + i],
        });
        Self::new(vectors, &taus)
    }

    /// `V`
    pub(super) fn vectors(&self) -> faer::MatRef<'_, f64> {
        self.vectors.as_ref()
    }

    /// `T`
    pub(super) fn factor(&self) -> faer::MatRef<'_, f64> {
        self.t.as_ref()
    }

    /// `C ← (I − V Tᵀ Vᵀ) C`.
    pub(crate) fn apply(&self, c: MatMut<'_, f64>) {
        parallel::each(column_tiles(c, TILE), |mut tile| {
            let (v, wide) = (self.vectors.as_ref(), self.t.ncols());
            let mut w = Mat::<f64>::zeros(wide, tile.ncols());
            let mut tw = Mat::<f64>::zeros(wide, tile.ncols());
            matmul(w.as_mut(), Accum::Replace, v.transpose(), tile.as_ref(), 1.0, Par::Seq);
            matmul(tw.as_mut(), Accum::Replace, self.t.transpose(), w.as_ref(), 1.0, Par::Seq);
            matmul(tile.as_mut(), Accum::Add, v, tw.as_ref(), -1.0, Par::Seq);
        });
    }
}

/// Neighbouring columns reduced one by one: the first `ends.len()` of them, whose diagonal begins at
/// row `from`; the others, up to `all`, are updated along.
struct Panel<'a> {
    cells: &'a mut [f64],
    rows: usize,
    from: usize,
    ends: &'a [usize],
    all: usize,
}

impl WithSimd for Panel<'_> {
    /// The factor `τ` of each reflection.
    type Output = Vec<f64>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f64> {
        let Self { cells, rows, from, ends, all } = self;
        let mut taus = Vec::with_capacity(ends.len());
        for (j, &end) in ends.iter().enumerate() {
            let (head, tail) = cells[..all * rows].split_at_mut((j + 1) * rows);
            let pivot = from + j;
            let column = &mut head[j * rows + pivot..j * rows + end.max(pivot + 1)];
            let tau = reflect(simd, column);
            taus.push(tau);
            if tau > 0.0 {
                let v = &column[1..];
                let tall = v.len();
                for four in tail.chunks_mut(4 * rows) {
                    if four.len() == 4 * rows {
                        apply::<S, 4>(simd, tau, v, four, rows, pivot, tall);
                    } else {
                        for one in four.chunks_exact_mut(rows) {
                            apply::<S, 1>(simd, tau, v, one, rows, pivot, tall);
                        }
                    }
                }
            }
        }
        taus
    }
}

/// Turns a column `(α, x)` into `(β, v)` with `(I − τ (1, v)(1, v)ᵀ)(α, x) = (β, 0)`; returns `τ`.
#[inline(always)]
fn reflect<S: Simd>(simd: S, column: &mut [f64]) -> f64 {
    let (alpha, x) = column.split_at_mut(1);
    let square = dots::<S, 1>(simd, x, [x])[0];
    if square <= 0.0 {
        return 0.0;
    }
    let a = alpha[0];
    // Away from α, so that α − β does not cancel.
    let beta = -(a * a + square).sqrt().copysign(a);
    let inverse = 1.0 / (a - beta);
    for cell in x {
        *cell *= inverse;
    }
    alpha[0] = beta;
    (beta - a) / beta
}

/// Applies one reflection to `N` columns.
#[inline(always)]
fn apply<S: Simd, const N: usize>(
    simd: S,
    tau: f64,
    v: &[f64],
    columns: &mut [f64],
    rows: usize,
    pivot: usize,
    tall: usize,
) {
    let mut rest = columns.chunks_exact_mut(rows);
    let mut columns: [&mut [f64]; N] = std::array::from_fn(|_| match rest.next() {
        Some(column) => &mut column[pivot..=pivot + tall],
        None => &mut [],
    });
    let products = dots::<S, N>(simd, v, std::array::from_fn(|j| &columns[j][1..]));
    let (v, v_rest) = S::as_simd_f64s(v);
    for (column, product) in columns.iter_mut().zip(products) {
        let factor = tau * (column[0] + product);
        let wide = simd.splat_f64s(factor);
        column[0] -= factor;
        let (c, c_rest) = S::as_mut_simd_f64s(&mut column[1..]);
        for (c, v) in c.iter_mut().zip(v) {
            *c = simd.negate_mul_add_e_f64s(wide, *v, *c);
        }
        for (c, v) in c_rest.iter_mut().zip(v_rest) {
            *c -= factor * v;
        }
    }
}

/// Products of `v` with `N` columns of the same length.
#[inline(always)]
fn dots<S: Simd, const N: usize>(simd: S, v: &[f64], columns: [&[f64]; N]) -> [f64; N] {
    const SIDE: usize = 2;
    let (v, v_rest) = S::as_simd_f64s(v);
    let (pairs, v_last) = pulp::as_arrays::<SIDE, S::f64s>(v);
    let vectors = columns.map(|column| &S::as_simd_f64s(column).0[..v.len()]);
    let halves = vectors.map(|c| &pulp::as_arrays::<SIDE, S::f64s>(c).0[..pairs.len()]);
    let mut sums = [[simd.splat_f64s(0.0); SIDE]; N];
    for (at, pair) in pairs.iter().enumerate() {
        for j in 0..N {
            for s in 0..SIDE {
                sums[j][s] = simd.mul_add_e_f64s(pair[s], halves[j][at][s], sums[j][s]);
            }
        }
    }
    let mut out = [0.0; N];
    for j in 0..N {
        let mut sum = simd.add_f64s(sums[j][0], sums[j][1]);
        for (a, b) in v_last.iter().zip(&vectors[j][SIDE * pairs.len()..]) {
            sum = simd.mul_add_e_f64s(*a, *b, sum);
        }
        out[j] = simd.reduce_sum_f64s(sum);
        for (a, b) in v_rest.iter().zip(S::as_simd_f64s(columns[j]).1) {
            out[j] += a * b;
        }
    }
    out
}
