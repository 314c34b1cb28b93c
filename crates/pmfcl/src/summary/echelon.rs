//! From a triangle as QR or Cholesky leaves it to the canonical row-echelon summary.

use super::Summary;
use crate::kernel::{Gram, Triangle, decompose};

/// Sums lose twice the digits of the condition number: below this, at least six are left to judge rank by.
const SAFE_CONDITION: f64 = 1e5;

/// Only a column whose part outside the span of those before it is below this share of its norm can be a dependent one.
const SUSPECT: f64 = 1e-6;

/// What a column depends on counts as no more than this many times its own norm; else columns that are nearly dependent among
/// themselves would take others down with them.
pub(super) const FAR: f64 = 1e4;

/// A column whose part outside the span of those before it is below this share of what it is made of ([`reach`]) has no pivot. Householder
/// QR leaves `c·ε·√m` of rounding there; the factor is measured, not proved: dependent columns over 10⁶ rows stay below 30 ε.
pub(super) fn tolerance(m: usize) -> f64 {
    (16.0 + 4.0 * (m as f64).sqrt()) * 8.0 * f64::EPSILON
}

/// The same for the square of that part where only sums of products are known.
pub(super) fn gram_tolerance(m: usize) -> f64 {
    (8.0 + (m as f64).sqrt()) * 8.0 * f64::EPSILON
}

impl Summary {
    /// Turns a triangle into its canonical form and packs it.
    ///
    /// Cost: `O(m²)` at full rank, `O((m − r)·m²)` otherwise.
    pub(crate) fn from_triangle(mut t: Triangle, n: f64, target_sum: Vec<f64>) -> Self {
        let (m, p, w) = (t.m, t.p, t.m + t.p);
        let norms = column_norms(&t);
        let tolerance = tolerance(m);
        let mut pivots = Vec::with_capacity(t.rows);
        let mut i = 0;
        for j in 0..m {
            if i == t.rows {
                break;
            }
            // R is upper trapezoidal, so column j reaches down to row j.
            let last = j.min(t.rows - 1);
            let below: f64 = scaled_norm((i..=last).map(|k| t.cells[k * w + j]));
            let suspect = below <= SUSPECT * norms[j];
            if suspect && below <= tolerance * reach(&t.cells, w, &pivots, j, &norms) {
                for k in i..=last {
                    t.cells[k * w + j] = 0.0;
                }
                continue;
            }
            if last > i {
                reflect(&mut t.cells, w, i, last, j);
            }
            if t.cells[i * w + j] < 0.0 {
                for v in &mut t.cells[i * w + j..(i + 1) * w] {
                    *v = -*v;
                }
            }
            pivots.push(j as u32);
            i += 1;
        }
        // Rows without a pivot hold residual only.
        for row in t.cells.chunks_exact(w).skip(i) {
            for (c, z) in t.residual.iter_mut().zip(&row[m..]) {
                *c += z * z;
            }
        }
        Self::pack(m, p, n, pivots, &t.cells, t.residual, target_sum)
    }

    /// Packs echelon rows that lie `m + p` apart in `cells`.
    pub(super) fn pack(
        m: usize,
        p: usize,
        n: f64,
        pivots: Vec<u32>,
        cells: &[f64],
        c: Vec<f64>,
        target_sum: Vec<f64>,
    ) -> Self {
        let w = m + p;
        let numbers = pivots.iter().map(|&j| w - j as usize).sum();
        let mut packed = Vec::with_capacity(numbers);
        let mut starts = Vec::with_capacity(pivots.len());
        for (row, &j) in cells.chunks_exact(w.max(1)).zip(&pivots) {
            starts.push(packed.len());
            packed.extend_from_slice(&row[j as usize..]);
        }
        Self { n, m, p, pivots, packed, starts, c, target_sum }.compacted()
    }

    /// The same `R` with other values of `Z`, `r × p`.
    pub(crate) fn with_targets(&self, z: &faer::Mat<f64>) -> Self {
        let mut other = self.clone();
        for i in 0..self.rank() {
            let from = self.starts[i] + self.row(i).1.len();
            for k in 0..self.p {
                other.packed[from + k] = z[(i, k)];
            }
        }
        other
    }

    /// Unpacks into a dense trapezoid.
    pub(crate) fn to_triangle(&self) -> Triangle {
        let w = self.m + self.p;
        let mut cells = vec![0.0; self.rank() * w];
        for (row, (pivot, r, z)) in cells.chunks_exact_mut(w).zip(self.iter()) {
            row[pivot..pivot + r.len()].copy_from_slice(r);
            row[self.m..].copy_from_slice(z);
        }
        Triangle { m: self.m, p: self.p, rows: self.rank(), cells, residual: self.c.clone() }
    }
}

/// Condition number of columns of equal length up to which sums of products keep eight digits.
const ACCURATE_CONDITION: f64 = 1e4;

/// Whether some columns depend on others so nearly that sums of products lose more than half of the digits. Columns that depend on
/// others up to rounding do not count: they have no part in the result.
pub(super) fn loses_digits(gram: &Gram, (m, p): (usize, usize)) -> bool {
    if decompose(gram).is_some_and(|(_, condition)| condition <= ACCURATE_CONDITION) {
        return false;
    }
    from_gram(gram, (m, p), 1.0, vec![0.0; p], &[]).is_ok_and(|summary| {
        let nearly = |j: usize, r: f64| (r * ACCURATE_CONDITION).powi(2) < gram.xx(j, j);
        summary.iter().any(|(j, r, _)| nearly(j, r[0]))
    })
}

/// Cholesky of the sums in echelon form: a pivot that cancels to rounding has no row.
///
/// Forming `XᵀX` has squared the condition number, so a dependency is only seen down to `√ε`.
/// `shift` was subtracted from every row of features and targets, and is put back into the row of the intercept; empty for
/// none. Returns the offending column where the sums have overflowed.
pub(super) fn from_gram(
    gram: &Gram,
    (m, p): (usize, usize),
    n: f64,
    target_sum: Vec<f64>,
    shift: &[f64],
) -> Result<Summary, usize> {
    if let Some(column) = (0..m).find(|&j| !gram.xx(j, j).is_finite()) {
        return Err(column);
    }
    if let Some(k) = (0..p).find(|&k| !gram.yy(k).is_finite()) {
        return Err(m + k);
    }
    // Far from dependent columns the blocked decomposition is right, and much faster for wide designs.
    if let Some((mut triangle, condition)) = decompose(gram)
        && condition < SAFE_CONDITION
    {
        unshift(&mut triangle.cells, shift);
        return Ok(Summary::from_triangle(triangle, n, target_sum));
    }
    let w = m + p;
    let threshold = gram_tolerance(m);
    let norms: Vec<f64> = (0..m).map(|j| gram.xx(j, j).max(0.0).sqrt()).collect();
    let mut cells = vec![0.0; m * w];
    let mut pivots: Vec<u32> = Vec::with_capacity(m);
    let mut row = vec![0.0; w];
    for j in 0..m {
        let diagonal = gram.xx(j, j);
        let i = pivots.len();
        // Row j of the Schur complement; rows above are final.
        for l in j..m {
            row[l] = gram.xx(j, l);
        }
        for k in 0..p {
            row[m + k] = gram.xy(j, k);
        }
        for above in cells[..i * w].chunks_exact(w) {
            let f = above[j];
            if f != 0.0 {
                for (v, a) in row[j..].iter_mut().zip(&above[j..]) {
                    *v -= f * a;
                }
            }
        }
        let pivot = row[j];
        let suspect = pivot <= SUSPECT * diagonal;
        if suspect && pivot <= threshold * reach(&cells, w, &pivots, j, &norms).powi(2) {
            // The column depends on those before it: what is left of its row is rounding.
            continue;
        }
        let root = pivot.sqrt();
        for (out, v) in cells[i * w + j..(i + 1) * w].iter_mut().zip(&row[j..]) {
            *out = v / root;
        }
        pivots.push(j as u32);
    }
    let mut c: Vec<f64> = (0..p).map(|k| gram.yy(k)).collect();
    for above in cells[..pivots.len() * w].chunks_exact(w) {
        for (c, z) in c.iter_mut().zip(&above[m..]) {
            *c -= z * z;
        }
    }
    for c in &mut c {
        *c = c.max(0.0);
    }
    if shift.is_empty() {
        return Ok(Summary::pack(m, p, n, pivots, &cells, c, target_sum));
    }
    // With the shift back in place, a column may turn out to vary by no more than rounding.
    cells.truncate(pivots.len() * w);
    unshift(&mut cells, shift);
    let triangle = Triangle { m, p, rows: pivots.len(), cells, residual: c };
    Ok(Summary::from_triangle(triangle, n, target_sum))
}

/// Adds `shift` to the mean, which the first row holds times the root of `n`: rows below it are those of centred columns.
fn unshift(cells: &mut [f64], shift: &[f64]) {
    let root = cells.first().copied().unwrap_or(0.0);
    for (cell, shift) in cells.iter_mut().zip(shift) {
        *cell += root * shift;
    }
}

/// What column `j` is made of: `‖x_j‖ + Σ |c_k| ‖x_k‖`, where `Σ c_k x_k` comes closest to it. That much can be lost to rounding when it is
/// projected; a category seen once depends on columns that are longer by the root of the number of rows.
fn reach(cells: &[f64], w: usize, pivots: &[u32], j: usize, norms: &[f64]) -> f64 {
    let mut c = vec![0.0; pivots.len()];
    let mut total = norms[j];
    for a in (0..pivots.len()).rev() {
        let row = &cells[a * w..(a + 1) * w];
        let after: f64 = (a + 1..pivots.len()).map(|b| row[pivots[b] as usize] * c[b]).sum();
        c[a] = (row[j] - after) / row[pivots[a] as usize];
        total += c[a].abs() * norms[pivots[a] as usize];
    }
    if total.is_finite() { total.min(FAR * norms[j]) } else { norms[j] }
}

fn column_norms(t: &Triangle) -> Vec<f64> {
    let w = t.m + t.p;
    (0..t.m).map(|j| scaled_norm((0..t.rows.min(j + 1)).map(|i| t.cells[i * w + j]))).collect()
}

/// Euclidean norm without overflow or underflow of the squares.
fn scaled_norm(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(0.0_f64, |a, v| a.max(v.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    largest * values.map(|v| (v / largest).powi(2)).sum::<f64>().sqrt()
}

/// Householder reflection of rows `top..=bottom` that clears column `j` below row `top`.
fn reflect(cells: &mut [f64], w: usize, top: usize, bottom: usize, j: usize) {
    let norm = scaled_norm((top..=bottom).map(|i| cells[i * w + j]));
    let head = cells[top * w + j];
    let alpha = if head > 0.0 { -norm } else { norm };
    // v = x − αe₁, scaled so that its head is 1.
    let lead = head - alpha;
    let v: Vec<f64> = (top..=bottom).map(|i| cells[i * w + j] / lead).collect();
    let tau = -lead / alpha; // 2 / ‖v‖² with v[0] = 1
    let mut sums = vec![0.0; w - j];
    for (i, factor) in (top..=bottom).zip(std::iter::once(1.0).chain(v[1..].iter().copied())) {
        for (s, a) in sums.iter_mut().zip(&cells[i * w + j..(i + 1) * w]) {
            *s += factor * a;
        }
    }
    for (i, factor) in (top..=bottom).zip(std::iter::once(1.0).chain(v[1..].iter().copied())) {
        for (a, s) in cells[i * w + j..(i + 1) * w].iter_mut().zip(&sums) {
            *a -= tau * factor * s;
        }
    }
    cells[top * w + j] = alpha;
    for i in top + 1..=bottom {
        cells[i * w + j] = 0.0;
    }
}
