//! A symmetric matrix in tridiagonal form, by way of a band.
//!
//! ```text
//! x . . . . .      x . . . . .      x . . . . .
//! x x . . . .      x x . . . .      x x . . . .
//! x x x . . .  ──▶ x x x . . .  ──▶   x x . . .
//! x x x x . .        x x x . .          x x . .
//! x x x x x .          x x x .            x x .
//! x x x x x x            x x x              x x
//! ```
//!
//! Straight to tridiagonal form half of the flops are products of the whole matrix with one vector, at the speed of memory. To a band
//! they are products with [`BAND`] vectors; the second step has `6 m² BAND` flops, in cache.

#![allow(
    clippy::inline_always,
    reason = "a kernel must be inlined to see the processor's registers"
)]

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};

use super::columns::column_tiles;
use super::householder::Reflections;
use super::instructions::dispatch;
use super::parallel::each;
use super::sweeps::{SIDE, Side};
use super::tile::registers_mut;

/// Entries below the diagonal that the first step leaves.
const BAND: usize = 32;

/// Columns that one thread works on at once.
const TILE: usize = 192;

/// `QᵀAQ`: its diagonal, and what is below it.
pub(crate) struct Tridiagonal {
    pub(crate) diagonal: Vec<f64>,
    pub(crate) below: Vec<f64>,
}

/// Brings a symmetric matrix, of which the lower half is given, to tridiagonal form; `vectors` becomes `Qᵀ vectors`.
///
/// Cost: `4m³/3` flops.
pub(crate) fn tridiagonal(mut a: Mat<f64>, vectors: &mut Mat<f64>) -> Tridiagonal {
    let m = a.ncols();
    let mut from = 0;
    while from + BAND + 1 < m {
        let low = from + BAND;
        let reflections = panel(a.as_mut().submatrix_mut(low, from, m - low, BAND));
        let (_, rest) = vectors.as_mut().split_at_row_mut(low);
        reflections.apply(rest);
        two_sided(a.as_mut().submatrix_mut(low, low, m - low, m - low), &reflections);
        from = low;
    }
    let mut band = Band::new(&a);
    drop(a);
    let mut chase = Chase { first: 0, column: 0, from: 1 };
    while !chase.is_done(m) {
        let mut steps = Steps::default();
        dispatch(Down { band: &mut band, chase: &mut chase, steps: &mut steps });
        each(column_tiles(vectors.as_mut(), SIDE), |tile| turn_all(tile, &steps));
    }
    let diagonal = (0..m).map(|j| band.cells[j * band.stride]).collect();
    let below = (1..m).map(|j| band.cells[(j - 1) * band.stride + 1]).collect();
    Tridiagonal { diagonal, below }
}

/// Brings a block to upper trapezoidal form by reflections.
fn panel(mut block: MatMut<'_, f64>) -> Reflections {
    let (rows, columns) = (block.nrows(), block.ncols());
    let mut cells = Vec::with_capacity(rows * columns);
    (0..columns).for_each(|j| cells.extend(block.as_ref().col(j).iter()));
    let reflections = Reflections::of_panel(&mut cells, rows);
    for (j, column) in cells.chunks_exact(rows).enumerate() {
        for (i, v) in column.iter().enumerate() {
            block[(i, j)] = if i <= j { *v } else { 0.0 };
        }
    }
    reflections
}

/// `A ← QᵀAQ` for the lower half of a symmetric matrix. With `Q = I − V T Vᵀ`, `Y = A V T` and `X = Y − V TᵀVᵀY / 2` it is
/// `A − X Vᵀ − V Xᵀ`.
fn two_sided(a: MatMut<'_, f64>, reflections: &Reflections) {
    let (v, t) = (reflections.vectors(), reflections.factor());
    let (m, wide) = (a.nrows(), v.ncols());
    let starts: Vec<usize> = (0..m).step_by(TILE).collect();
    // Every strip of columns gives products of its own, which are added in order: bits do not depend on threads.
    let mut parts: Vec<Mat<f64>> = starts.iter().map(|&from| Mat::zeros(m - from, wide)).collect();
    let whole = a.as_ref();
    each(
        starts.iter().copied().zip(&mut parts).collect(),
        |(from, part): (usize, &mut Mat<f64>)| {
            product(whole, v, from, part.as_mut());
        },
    );
    let mut av = Mat::<f64>::zeros(m, wide);
    for (&from, part) in starts.iter().zip(&parts) {
        let mut rows = av.as_mut().subrows_mut(from, m - from);
        rows += part;
    }
    let mut x = &av * t;
    let s = t.transpose() * (v.transpose() * &x);
    matmul(x.as_mut(), Accum::Add, v, s.as_ref(), -0.5, Par::Seq);
    // [X V] [V X]ᵀ in one product.
    let left =
        Mat::from_fn(m, 2 * wide, |i, j| if j < wide { x[(i, j)] } else { v[(i, j - wide)] });
    let right =
        Mat::from_fn(m, 2 * wide, |i, j| if j < wide { v[(i, j)] } else { x[(i, j - wide)] });
    let tiles = starts.iter().zip(column_tiles(a, TILE));
    let strips = tiles.map(|(&from, tile)| (from, tile.subrows_mut(from, m - from))).collect();
    each(strips, |(from, strip): (usize, MatMut<'_, f64>)| {
        let count = strip.ncols();
        let left = left.as_ref().subrows(from, m - from);
        let right = right.as_ref().subrows(from, count);
        matmul(strip, Accum::Add, left, right.transpose(), -1.0, Par::Seq);
    });
}

/// What the columns from `from` on, [`TILE`] of them, have in the product of a symmetric matrix with `v`, for the rows from there on.
/// The tile on the diagonal is whole, except in the beginning; its lower half is taken.
fn product(a: MatRef<'_, f64>, v: MatRef<'_, f64>, from: usize, mut out: MatMut<'_, f64>) {
    let (m, count) = (a.nrows(), TILE.min(a.nrows() - from));
    let corner = a.submatrix(from, from, count, count);
    let corner = Mat::from_fn(count, count, |i, j| corner[(i.max(j), i.min(j))]);
    let own = v.subrows(from, count);
    let (mut top, bottom) = out.as_mut().split_at_row_mut(count);
    matmul(top.as_mut(), Accum::Replace, corner.as_ref(), own, 1.0, Par::Seq);
    if from + count < m {
        let low = from + count;
        let below = a.submatrix(low, from, m - low, count);
        matmul(top, Accum::Add, below.transpose(), v.subrows(low, m - low), 1.0, Par::Seq);
        matmul(bottom, Accum::Replace, below, own, 1.0, Par::Seq);
    }
}

/// The lower half of a symmetric band: column after column from its diagonal on, with room for what is chased down.
struct Band {
    m: usize,
    stride: usize,
    cells: Vec<f64>,
}

impl Band {
    fn new(a: &Mat<f64>) -> Self {
        let (m, stride) = (a.ncols(), 2 * BAND + 1);
        let mut cells = vec![0.0; (m + 1) * stride];
        for j in 0..m {
            for i in j..m.min(j + BAND + 1) {
                cells[j * stride + i - j] = a[(i, j)];
            }
        }
        Self { m, stride, cells }
    }

    /// `rows` rows of column `j`, from row `i` on.
    #[inline(always)]
    fn column(&mut self, i: usize, j: usize, rows: usize) -> &mut [f64] {
        let at = j * self.stride + i - j;
        &mut self.cells[at..at + rows]
    }

    /// Clears one column after another below its second entry. A reflection that does so fills the block below, whose first column is
    /// cleared next, and so on down the band; the other columns of a block wait for their turn.
    #[inline(always)]
    fn chase(&mut self, chase: &mut Chase, steps: &mut Steps) {
        let m = self.m;
        let (mut v, mut w) = (vec![0.0; BAND], vec![0.0; BAND]);
        while !chase.is_done(m) && steps.v.len() < STEPS {
            let Chase { column, from, .. } = *chase;
            let len = BAND.min(m - from);
            let (v, w) = (&mut v[..len], &mut w[..len]);
            let tau = reflection(self.column(from, column, len), v);
            if tau > 0.0 {
                for j in column + 1..from {
                    reflect(self.column(from, j, len), v, tau);
                }
                self.both_sides(from, v, w, tau);
                steps.places.push((from, len, tau));
                steps.v.extend_from_slice(v);
                self.right(from, v, w, tau);
            }
            chase.go_on(m, len);
        }
    }

    /// Applies a reflection to the block on the diagonal from both sides.
    #[inline(always)]
    fn both_sides(&mut self, from: usize, v: &[f64], w: &mut [f64], tau: f64) {
        let len = v.len();
        w.fill(0.0);
        for j in 0..len {
            let x = self.column(from + j, from + j, len - j);
            let v_j = v[j];
            w[j] += product_sum(x, &v[j..]);
            x[1..].iter().zip(&mut w[j + 1..]).for_each(|(x, w)| *w += x * v_j);
        }
        let half = 0.5 * tau * tau * product_sum(w, v);
        w.iter_mut().zip(v).for_each(|(w, v)| *w = tau * *w - half * v);
        for j in 0..len {
            let (v_j, w_j) = (v[j], w[j]);
            let x = self.column(from + j, from + j, len - j);
            for ((x, v), w) in x.iter_mut().zip(&v[j..]).zip(&w[j..]) {
                *x -= v * w_j + w * v_j;
            }
        }
    }

    /// Applies a reflection to the columns of the block below from the right.
    #[inline(always)]
    fn right(&mut self, from: usize, v: &[f64], w: &mut [f64], tau: f64) {
        let low = from + v.len();
        let rows = BAND.min(self.m - low);
        let w = &mut w[..rows];
        w.fill(0.0);
        for (j, v) in v.iter().enumerate() {
            let x = self.column(low, from + j, rows);
            w.iter_mut().zip(x).for_each(|(w, x)| *w += *x * v);
        }
        for (j, v) in v.iter().enumerate() {
            let factor = tau * v;
            let x = self.column(low, from + j, rows);
            w.iter().zip(x).for_each(|(w, x)| *x -= w * factor);
        }
    }
}

/// How far the second step has come.
struct Chase {
    /// The column that is cleared in the end.
    first: usize,
    /// The column that is cleared now, and the first of its entries that take part.
    column: usize,
    from: usize,
}

impl Chase {
    fn is_done(&self, m: usize) -> bool {
        self.first + 2 >= m
    }

    /// Past a reflection of `len` entries.
    fn go_on(&mut self, m: usize, len: usize) {
        (self.column, self.from) = (self.from, self.from + len);
        if self.from + 2 > m {
            self.first += 1;
            (self.column, self.from) = (self.first, self.first + 1);
        }
    }
}

/// Numbers of reflections that are made before the vectors take part in them: 2 MB.
const STEPS: usize = 1 << 18;

/// Reflections of the second step.
#[derive(Default)]
struct Steps {
    /// The first entry that takes part, how many do, and `τ`.
    places: Vec<(usize, usize, f64)>,
    /// Their vectors, one after the other.
    v: Vec<f64>,
}

/// The second step, compiled for the registers of the processor. Products and sums alone: the same bits on all of them.
struct Down<'a> {
    band: &'a mut Band,
    chase: &'a mut Chase,
    steps: &'a mut Steps,
}

impl pulp::WithSimd for Down<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        self.band.chase(self.chase, self.steps);
    }
}

/// What reflections do to some vectors.
fn turn_all(mut vectors: MatMut<'_, f64>, steps: &Steps) {
    let count = vectors.ncols();
    // Row after row, so that no sum is over numbers of one register.
    let row = |i: usize| std::array::from_fn(|k| if k < count { vectors[(i, k)] } else { 0.0 });
    let mut rows: Side = (0..vectors.nrows()).map(row).collect();
    dispatch(Turn { rows: &mut rows, steps });
    for (i, row) in rows.iter().enumerate() {
        for (k, v) in row.iter().enumerate().take(count) {
            vectors[(i, k)] = *v;
        }
    }
}

/// The same for the rows of a matrix.
struct Turn<'a> {
    rows: &'a mut [[f64; SIDE]],
    steps: &'a Steps,
}

impl pulp::WithSimd for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        match S::F64_LANES {
            8 => self.run::<S, 2>(simd),
            4 => self.run::<S, 4>(simd),
            2 => self.run::<S, 8>(simd),
            _ => self.run::<S, SIDE>(simd),
        }
    }
}

impl Turn<'_> {
    #[inline(always)]
    fn run<S: pulp::Simd, const V: usize>(self, simd: S) {
        let rows = registers_mut::<S, V>(self.rows.as_flattened_mut());
        let mut rest = &self.steps.v[..];
        for &(from, len, tau) in &self.steps.places {
            let (v, after) = rest.split_at(len);
            rest = after;
            turn(simd, &mut rows[from..from + len], v, tau);
        }
    }
}

/// `X ← (I − τ v vᵀ) X`
#[inline(always)]
fn turn<S: pulp::Simd, const V: usize>(simd: S, rows: &mut [[S::f64s; V]], v: &[f64], tau: f64) {
    // Two sums of every column, so that none waits for itself.
    let mut sums = [[simd.splat_f64s(0.0); V]; 2];
    for i in 0..rows.len() {
        let v = simd.splat_f64s(v[i]);
        for k in 0..V {
            sums[i % 2][k] = simd.add_f64s(sums[i % 2][k], simd.mul_f64s(rows[i][k], v));
        }
    }
    let tau = simd.splat_f64s(tau);
    let mut along = sums[0];
    for k in 0..V {
        along[k] = simd.mul_f64s(tau, simd.add_f64s(sums[0][k], sums[1][k]));
    }
    for i in 0..rows.len() {
        let v = simd.splat_f64s(v[i]);
        for k in 0..V {
            rows[i][k] = simd.sub_f64s(rows[i][k], simd.mul_f64s(along[k], v));
        }
    }
}

/// Σ aᵢbᵢ, eight sums side by side: one sum would wait for itself.
#[inline(always)]
fn product_sum(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + e) + (c + g)) + ((b + f) + (d + h)) + rest
}

/// The reflection `I − τ v vᵀ` that clears a column below its first entry, which it does.
#[inline(always)]
fn reflection(x: &mut [f64], v: &mut [f64]) -> f64 {
    let tail = product_sum(&x[1..], &x[1..]);
    if tail <= 0.0 {
        return 0.0;
    }
    let length = (x[0] * x[0] + tail).sqrt();
    let end = if x[0] > 0.0 { -length } else { length };
    let lead = x[0] - end;
    v[0] = 1.0;
    v[1..].iter_mut().zip(&x[1..]).for_each(|(v, x)| *v = x / lead);
    x.fill(0.0);
    x[0] = end;
    -lead / end
}

#[inline(always)]
fn reflect(x: &mut [f64], v: &[f64], tau: f64) {
    let along = tau * product_sum(x, v);
    x.iter_mut().zip(v).for_each(|(x, v)| *x -= along * v);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::with_threads;

    fn draw(i: usize) -> f64 {
        ((i as f64 * 12.9898).sin() * 43_758.547).fract()
    }

    /// `bᵀ Aᵏ b` for the first powers: what a rotation does not change.
    fn moments(times: impl Fn(&[f64]) -> Vec<f64>, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        (0..6)
            .map(|_| {
                let moment = x.iter().zip(b).map(|(x, b)| x * b).sum();
                x = times(&x);
                moment
            })
            .collect()
    }

    #[test]
    fn the_form_is_similar_to_the_matrix_and_has_the_same_bits_on_any_number_of_threads() {
        for m in [1, 2, 3, 31, 34, 65, 250, 431] {
            let a = Mat::from_fn(m, m, |i, j| draw(i.max(j) * 997 + i.min(j)) / (m as f64).sqrt());
            let vectors = Mat::from_fn(m, 2, |i, k| draw(5000 + 2 * i + k));
            let mut turned = vectors.clone();
            let form = tridiagonal(a.clone(), &mut turned);
            for k in 0..2 {
                let b: Vec<f64> = vectors.col(k).iter().copied().collect();
                let own: Vec<f64> = turned.col(k).iter().copied().collect();
                let whole = |x: &[f64]| {
                    (0..m).map(|i| (0..m).map(|j| a[(i, j)] * x[j]).sum()).collect::<Vec<f64>>()
                };
                let three = |x: &[f64]| {
                    let side = |i: usize, j: usize| form.below[i] * x[j];
                    let cell = |i: usize| {
                        let left = if i > 0 { side(i - 1, i - 1) } else { 0.0 };
                        let right = if i + 1 < m { side(i, i + 1) } else { 0.0 };
                        left + form.diagonal[i] * x[i] + right
                    };
                    (0..m).map(cell).collect::<Vec<f64>>()
                };
                let (expected, found) = (moments(whole, &b), moments(three, &own));
                for (e, f) in expected.iter().zip(&found) {
                    assert!((e - f).abs() <= 1e-11 * (1.0 + e.abs()), "{m}: {e} against {f}");
                }
            }
            let mut again = vectors.clone();
            let other = with_threads(3, || tridiagonal(a.clone(), &mut again));
            assert!(form.diagonal == other.diagonal && form.below == other.below, "{m}");
            assert_eq!(turned, again, "{m}");
        }
    }
}
