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

use super::{Gram, Triangle, each};

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
    let mut cells = vec![0.0; m * width];
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
    if cells.iter().any(|cell| !cell.is_finite()) {
        return None;
    }
    let condition = condition(m, width, &cells);
    let mut residual: Vec<f64> = (0..p).map(|k| gram.yy(k)).collect();
    for (i, row) in cells.chunks_exact_mut(width).enumerate() {
        if gram.xx(i, i) <= 0.0 {
            row[i] = 0.0;
        }
        for (r, s) in row.iter_mut().zip(&scale).skip(i) {
            *r /= s;
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
    let mut cells = vec![0.0; m * width];
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
        let (from, size) = (block.start, block.len());
        let width = cells.len() / block.end;
        let rows = &mut cells[from * width..];
        let all = MatMut::from_column_major_slice_mut(rows, width, size);
        let (mut lower, targets) =
            all.submatrix_mut(from, 0, to - from, size).split_at_row_mut(size);
        let params = Spec::default();
        let mut memory =
            MemBuffer::new(llt::cholesky_in_place_scratch::<f64>(size, Par::Seq, params));
        llt::cholesky_in_place(
            lower.as_mut(),
            llt::LltRegularization::default(),
            Par::Seq,
            MemStack::new(&mut memory),
            params,
        )
        .ok()?;
        if to > block.end {
            solve_lower_triangular_in_place(lower.as_ref(), targets.transpose_mut(), Par::Seq);
        }
        Some(())
    }

    fn is_left_out(&self, _: usize) -> bool {
        false
    }
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
        let all = MatMut::from_column_major_slice_mut(rows, width, to - from);
        let (corner, mut right) =
            all.submatrix_mut(from, 0, width - from, to - from).split_at_row_mut(to - from);
        let mut tiles = Vec::new();
        while right.nrows() > SOLVED {
            let (tile, after) = right.split_at_row_mut(SOLVED);
            tiles.push(tile);
            right = after;
        }
        tiles.push(right);
        let corner = corner.as_ref();
        each(tiles, |tile| {
            solve_lower_triangular_in_place(corner, tile.transpose_mut(), Par::Seq);
        });
        for i in from..to {
            if steps.is_left_out(i) {
                rows[(i - from) * width + to..(i - from + 1) * width].fill(0.0);
            }
        }
        let panel = MatRef::from_column_major_slice(&*rows, width, to - from);
        let tiles = below.chunks_mut(step * width).zip((to..m).step_by(step)).collect();
        each(tiles, |(tile, first): (&mut [f64], usize)| {
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
        normalise(&mut v);
        let mut next = vec![0.0; m];
        for i in 0..m {
            let w = dot(row(i), &v[i..]);
            axpy(w, row(i), &mut next[i..]);
        }
        v = next;
        largest = dot(&v, &v).sqrt();
    }
    let mut smallest = 0.0;
    let mut v = start;
    for _ in 0..STEPS {
        normalise(&mut v);
        for i in 0..m {
            v[i] /= row(i)[0];
            let (head, tail) = v.split_at_mut(i + 1);
            axpy(-head[i], &row(i)[1..], tail);
        }
        for i in (0..m).rev() {
            let explained = dot(&row(i)[1..], &v[i + 1..]);
            v[i] = (v[i] - explained) / row(i)[0];
        }
        smallest = dot(&v, &v).sqrt();
    }
    // A triangle too near to singular for the iteration counts as singular.
    let square = largest * smallest;
    if square.is_finite() { square.sqrt() } else { f64::INFINITY }
}

fn normalise(v: &mut [f64]) {
    let length = dot(v, v).sqrt();
    for x in v {
        *x /= length;
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_rest) = pulp::as_arrays::<8, f64>(a);
    let (b, b_rest) = pulp::as_arrays::<8, f64>(b);
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for k in 0..8 {
            sums[k] += a[k] * b[k];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

fn axpy(factor: f64, from: &[f64], to: &mut [f64]) {
    for (t, f) in to.iter_mut().zip(from) {
        *t += factor * f;
    }
}
