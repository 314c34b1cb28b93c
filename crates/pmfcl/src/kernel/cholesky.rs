//! From sums to a triangle: `XᵀX = RᵀR`, `RᵀZ = XᵀY`.
//!
//! Rows of `R` are columns of `L = Rᵀ`, so the row-major triangle *is* the column-major lower factor,
//! and the decomposition runs where the result will stay.

use std::ops::Range;

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, MatMut, MatRef, Par, Spec};

use pulp::{Simd, WithSimd};

use super::instructions::dispatch;
use super::parallel::share;
use super::zeros;
use super::{Gram, Triangle};

/// Steps of power iteration: the estimate is within a factor of about two after three.
const STEPS: usize = 4;

/// The triangle of sums, and an estimate of the condition number of `X` after scaling its columns to
/// comparable length.
///
/// `None` where the sums are not finite or `XᵀX` is not positive definite to working precision.
/// Features that are zero in all rows give zero rows.
/// Cost: `m³/3 + m² p` flops.
pub(crate) fn decompose(gram: &Gram) -> Option<(Triangle, f64)> {
    if !gram.is_finite() {
        return None;
    }
    let (m, p) = gram.shape();
    let width = m + p;
    let mut cells = zeros(m * width);
    // Powers of two change no digit; they only keep the estimate from measuring units.
    let scale: Vec<f64> = (0..m).map(|i| unit(gram.xx(i, i))).collect();
    for i in 0..m {
        let row = &mut cells[i * width..(i + 1) * width];
        gram.xx_from(i, &mut row[i..m]);
        for (cell, s) in row[i..m].iter_mut().zip(&scale[i..]) {
            *cell = *cell * scale[i] * s;
        }
        for k in 0..p {
            row[m + k] = gram.xy(i, k) * scale[i];
        }
        if gram.xx(i, i) <= 0.0 {
            // Stands in for a feature that is always zero; taken out again below.
            row[i] = 1.0;
        }
    }
    if m <= SMALL {
        small(m, width, &mut cells)?;
    } else {
        large(m, p, &mut cells)?;
    }
    // All cells of a row, without a way out in between, so that the loop is one of vector instructions.
    let finite = |row: &[f64]| row.iter().fold(true, |all, cell| all & cell.is_finite());
    if !cells.chunks_exact(width).enumerate().all(|(i, row)| finite(&row[i..])) {
        return None;
    }
    let condition = condition(m, width, &cells);
    let mut residual: Vec<f64> = (0..p).map(|k| gram.yy(k)).collect();
    let sizes: Vec<f64> = scale.iter().map(|s| 1.0 / s).collect();
    for (i, row) in cells.chunks_exact_mut(width).enumerate() {
        if gram.xx(i, i) <= 0.0 {
            row[i] = 0.0;
        }
        for (r, s) in row[i..m].iter_mut().zip(&sizes[i..]) {
            *r *= s;
        }
        for (rest, z) in residual.iter_mut().zip(&row[m..]) {
            *rest -= z * z;
        }
    }
    for rest in &mut residual {
        *rest = rest.max(0.0);
    }
    Some((Triangle { m, p, rows: m, cells, residual }, condition))
}

/// Cholesky's decomposition of `[XᵀX | XᵀY]`, the upper half of `m` rows of `m + p` cells, to `[R | Z]` in their place. What is below the
/// diagonal is scratch. `None` where it is not positive definite to working precision.
///
/// Cost: `m³/3 + m² p` flops.
pub(crate) fn decompose_in_place(m: usize, p: usize, cells: &mut [f64]) -> Option<()> {
    blocked(m, p, cells, &mut Definite)?;
    let pivots = (0..m).map(|i| cells[i * (m + p) + i]);
    pivots.fold(true, |fine, pivot| fine && pivot > 0.0 && pivot.is_finite()).then_some(())
}

/// `[R₂ | Z₂]` after `[R₁ | Z₁]`: `R = R₂R₁`, `Z = R₂Z₁ + Z₂`.
pub(super) fn compose(second: &Triangle, first: &Triangle) -> Triangle {
    let (m, p, width) = (first.m, first.p, first.m + first.p);
    let mut cells = zeros(m * width);
    let a = MatRef::from_column_major_slice(&first.cells, width, m);
    let b = MatRef::from_column_major_slice(&second.cells, width, m);
    let out = MatMut::from_column_major_slice_mut(&mut cells, width, m);
    let (l1, z1) = a.split_at_row(m);
    let (l2, _) = b.split_at_row(m);
    let (mut l, mut z) = out.split_at_row_mut(m);
    triangular::matmul(
        l.as_mut(),
        BlockStructure::TriangularLower,
        Accum::Replace,
        l1,
        BlockStructure::TriangularLower,
        l2,
        BlockStructure::TriangularLower,
        1.0,
        Par::Seq,
    );
    if p > 0 {
        triangular::matmul(
            z.as_mut(),
            BlockStructure::Rectangular,
            Accum::Replace,
            z1,
            BlockStructure::Rectangular,
            l2,
            BlockStructure::TriangularLower,
            1.0,
            Par::Seq,
        );
    }
    for (row, add) in cells.chunks_exact_mut(width).zip(second.cells.chunks_exact(width)) {
        for k in m..width {
            row[k] += add[k];
        }
    }
    Triangle { m, p, rows: m, cells, residual: second.residual.clone() }
}

/// Up to this many features plain loops are faster than a blocked method.
const SMALL: usize = 12;

fn small(m: usize, width: usize, cells: &mut [f64]) -> Option<()> {
    for i in 0..m {
        let (head, tail) = cells.split_at_mut((i + 1) * width);
        let row = &mut head[i * width..];
        if row[i] <= 0.0 {
            return None;
        }
        let inverse = 1.0 / row[i].sqrt();
        for r in &mut row[i..] {
            *r *= inverse;
        }
        for (below, j) in tail.chunks_exact_mut(width).zip(i + 1..m) {
            let factor = row[j];
            for (b, r) in below[j..].iter_mut().zip(&row[j..]) {
                *b -= factor * r;
            }
        }
    }
    Some(())
}

/// Rows factored together, and rows that one thread updates at once; twice as many where the rows below do not stay in cache, so that
/// they pass through the processor half as often.
fn step(m: usize) -> usize {
    if m > 2048 { 256 } else { 128 }
}

fn large(m: usize, p: usize, cells: &mut [f64]) -> Option<()> {
    blocked(m, p, cells, &mut Definite)?;
    // The other half has served as scratch.
    for (i, row) in cells.chunks_exact_mut(m + p).enumerate() {
        row[..i].fill(0.0);
    }
    Some(())
}

/// What [`blocked`] does with the rows of one block.
pub(crate) trait Steps {
    /// Factors the rows `block` of `cells`, from which all rows above it have been subtracted, in the columns from the block's
    /// first up to `to`. The rows of the result hold `R`.
    fn factor(&mut self, cells: &mut [f64], block: Range<usize>, to: usize) -> Option<()>;

    /// Whether row `i` has no part in the result. Its diagonal is then 1 and the rest of it zero.
    fn is_left_out(&self, i: usize) -> bool;
}

/// Cholesky's decomposition of a positive definite matrix: no row is left out.
struct Definite;

impl Steps for Definite {
    fn factor(&mut self, cells: &mut [f64], block: Range<usize>, to: usize) -> Option<()> {
        let width = cells.len() / block.end;
        let rows = &mut cells[block.start * width..];
        factor_corner(rows, width, block.start)?;
        if to > block.end {
            solve_right(rows, width, block.start);
        }
        Some(())
    }

    fn is_left_out(&self, _: usize) -> bool {
        false
    }
}

/// Cholesky's decomposition of the corner of some rows of `width` cells, whose columns begin at `from`; upper half.
pub(super) fn factor_corner(rows: &mut [f64], width: usize, from: usize) -> Option<()> {
    let size = rows.len() / width;
    let all = MatMut::from_column_major_slice_mut(rows, width, size);
    let params = Spec::default();
    let mut memory = MemBuffer::new(llt::cholesky_in_place_scratch::<f64>(size, Par::Seq, params));
    llt::cholesky_in_place(
        all.submatrix_mut(from, 0, size, size),
        llt::LltRegularization::default(),
        Par::Seq,
        MemStack::new(&mut memory),
        params,
    )
    .ok()
    .map(|_| ())
}

/// Solves some rows, whose factored corner begins at column `from`, for the columns on its right, in tiles that threads share.
pub(super) fn solve_right(rows: &mut [f64], width: usize, from: usize) {
    let size = rows.len() / width;
    let cells = rows.len();
    let all = MatMut::from_column_major_slice_mut(rows, width, size);
    let (corner, mut right) = all.submatrix_mut(from, 0, width - from, size).split_at_row_mut(size);
    let mut tiles = Vec::new();
    while right.nrows() > SOLVED {
        let (tile, after) = right.split_at_row_mut(SOLVED);
        tiles.push(tile);
        right = after;
    }
    tiles.push(right);
    let corner = corner.as_ref();
    share(cells, tiles, |tile| {
        solve_lower_triangular_in_place(corner, tile.transpose_mut(), Par::Seq);
    });
}

/// Cholesky's decomposition, block of rows by block of rows: `cells` holds the upper half of `m` rows of `m + p`, and then `[R | Z]`.
/// What is below the diagonal is scratch.
///
/// After a block is factored, its rows are solved for the columns on the right and subtracted from all rows below it, in tiles
/// that threads share. `None` where a block cannot be factored. Cost: `m³/3 + m² p` flops.
pub(crate) fn blocked(m: usize, p: usize, cells: &mut [f64], steps: &mut impl Steps) -> Option<()> {
    let (width, step) = (m + p, step(m));
    for from in (0..m).step_by(step) {
        let to = m.min(from + step);
        let last = to == m;
        steps.factor(&mut cells[..to * width], from..to, if last { width } else { to })?;
        if last {
            break;
        }
        let (done, below) = cells.split_at_mut(to * width);
        let rows = &mut done[from * width..];
        solve_right(rows, width, from);
        for i in from..to {
            if steps.is_left_out(i) {
                rows[(i - from) * width + to..(i - from + 1) * width].fill(0.0);
            }
        }
        let panel = MatRef::from_column_major_slice(&*rows, width, to - from);
        let tiles = below.chunks_mut(step * width).zip((to..m).step_by(step)).collect();
        share(m * width, tiles, |(tile, first): (&mut [f64], usize)| {
            let count = tile.len() / width;
            let tile = MatMut::from_column_major_slice_mut(tile, width, count);
            let tile = tile.submatrix_mut(first, 0, width - first, count);
            let left = panel.submatrix(first, 0, width - first, to - from);
            let right = panel.submatrix(first, 0, count, to - from);
            matmul(tile, Accum::Add, left, right.transpose(), -1.0, Par::Seq);
        });
    }
    Some(())
}

/// Columns on the right that one thread solves for at once.
const SOLVED: usize = 512;

/// The power of two nearest to `1/√square`, 1 for zero.
fn unit(square: f64) -> f64 {
    if square > 0.0 { libm::exp2((-0.5 * libm::log2(square)).round()) } else { 1.0 }
}

/// Estimates `σ_max / σ_min` of the upper triangle in `cells`, by power iteration on `RᵀR` and its
/// inverse.
///
/// Never more than the truth except for rounding, and rarely less than half of it: the start is the
/// same scrambled vector every time.
fn condition(m: usize, width: usize, cells: &[f64]) -> f64 {
    dispatch(Condition { m, width, cells })
}

struct Condition<'a> {
    m: usize,
    width: usize,
    cells: &'a [f64],
}

impl WithSimd for Condition<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { m, width, cells } = self;
        let row = |i: usize| &cells[i * width + i..i * width + m];
        let start: Vec<f64> = (0..m as u64)
            .map(|i| {
                let bits = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
                0.5 + bits as f64 / f64::from(1 << 24)
            })
            .zip([1.0, -1.0].into_iter().cycle())
            .map(|(size, sign)| size * sign)
            .collect();
        let mut largest = 0.0;
        let mut v = start.clone();
        for _ in 0..STEPS {
            normalise(simd, &mut v);
            let mut next = vec![0.0; m];
            for i in 0..m {
                let w = dot(simd, row(i), &v[i..]);
                axpy(simd, w, row(i), &mut next[i..]);
            }
            v = next;
            largest = dot(simd, &v, &v).sqrt();
        }
        let mut smallest = 0.0;
        let mut v = start;
        for _ in 0..STEPS {
            normalise(simd, &mut v);
            for i in 0..m {
                v[i] /= row(i)[0];
                let (head, tail) = v.split_at_mut(i + 1);
                axpy(simd, -head[i], &row(i)[1..], tail);
            }
            for i in (0..m).rev() {
                let explained = dot(simd, &row(i)[1..], &v[i + 1..]);
                v[i] = (v[i] - explained) / row(i)[0];
            }
            smallest = dot(simd, &v, &v).sqrt();
        }
        // A triangle too near to singular for the iteration counts as singular.
        let square = largest * smallest;
        if square.is_finite() { square.sqrt() } else { f64::INFINITY }
    }
}

#[inline(always)]
fn normalise<S: Simd>(simd: S, v: &mut [f64]) {
    let length = dot(simd, v, v).sqrt();
    for i in 0..v.len() {
        v[i] /= length;
    }
}

#[inline(always)]
fn dot<S: Simd>(simd: S, a: &[f64], b: &[f64]) -> f64 {
    const SIDE: usize = 4;
    let ((a, a_rest), (b, b_rest)) = (S::as_simd_f64s(a), S::as_simd_f64s(b));
    let (a, a_last) = pulp::as_arrays::<SIDE, S::f64s>(a);
    let (b, b_last) = pulp::as_arrays::<SIDE, S::f64s>(b);
    let mut sums = [simd.splat_f64s(0.0); SIDE];
    // Loops by number: what iterators do is compiled by itself, for the oldest processor.
    for i in 0..a.len() {
        for k in 0..SIDE {
            sums[k] = simd.mul_add_e_f64s(a[i][k], b[i][k], sums[k]);
        }
    }
    for i in 0..a_last.len() {
        sums[0] = simd.mul_add_e_f64s(a_last[i], b_last[i], sums[0]);
    }
    let [one, two, three, four] = sums;
    let sum = simd.add_f64s(simd.add_f64s(one, two), simd.add_f64s(three, four));
    let mut sum = simd.reduce_sum_f64s(sum);
    for i in 0..a_rest.len() {
        sum += a_rest[i] * b_rest[i];
    }
    sum
}

#[inline(always)]
fn axpy<S: Simd>(simd: S, factor: f64, from: &[f64], to: &mut [f64]) {
    let factors = simd.splat_f64s(factor);
    let ((from, from_rest), (to, to_rest)) = (S::as_simd_f64s(from), S::as_mut_simd_f64s(to));
    for i in 0..to.len() {
        to[i] = simd.mul_add_e_f64s(factors, from[i], to[i]);
    }
    for i in 0..to_rest.len() {
        to_rest[i] += factor * from_rest[i];
    }
}
