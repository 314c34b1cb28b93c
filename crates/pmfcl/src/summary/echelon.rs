//! From a triangle as QR or Cholesky leaves it to the canonical row-echelon summary.

use std::ops::Range;

use faer::linalg::triangular_solve::solve_upper_triangular_in_place;
use faer::{Mat, MatMut, MatRef, Par};

use super::{Echelon, Form, Summary};
use crate::kernel::{
    Gram, Reflections, Rooted, Source, Steps, Triangle, blocked, decompose, factor, zeros,
};

/// Up to this many columns are reduced one by one; of wider triangles, [`PANEL`] columns are before the rest is updated at once.
const NARROW: usize = 128;
const PANEL: usize = 64;

/// Sums lose twice the digits of the condition number: below this, at least six are left to judge rank by.
const SAFE_CONDITION: f64 = 1e5;

/// Only a column whose part outside the span of those before it is below this share of its norm can be a dependent one.
const SUSPECT: f64 = 1e-6;

/// What a column depends on counts as no more than this many times its own norm; else columns that are nearly dependent among
/// themselves would take others down with them.
pub(super) const FAR: f64 = 1e4;

/// A column whose part outside the span of those before it is below this share of its [`DependencyScale`] has no pivot. Householder
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
    /// Cost: `O(m²)` at full rank, `O((m − r)·m²)` otherwise, nearly all of it in matrix products.
    pub(crate) fn from_triangle(mut t: Triangle, n: f64, target_sum: Vec<f64>) -> Self {
        let (m, p, w) = (t.m, t.p, t.m + t.p);
        let norms = column_norms(&t);
        let tolerance = tolerance(m);
        let mut pivots = Vec::with_capacity(t.rows);
        let step = if m <= NARROW { m } else { PANEL };
        for from in (0..m).step_by(step.max(1)) {
            let top = pivots.len();
            let panel = from..m.min(from + step);
            // The last columns take the targets with them.
            let to = if panel.end == m { w } else { panel.end };
            let mut scale = DependencyScale::new(w, panel.clone(), top);
            let mut reflections: Vec<Reflection> = Vec::new();
            let mut turned: Vec<usize> = Vec::new();
            for j in panel {
                let i = pivots.len();
                if i == t.rows {
                    break;
                }
                // R is upper trapezoidal, so column j reaches down to row j.
                let last = j.min(t.rows - 1);
                let below: f64 = scaled_norm((i..=last).map(|k| t.cells[k * w + j]));
                if below <= SUSPECT * norms[j] {
                    // The scale is between the norm and FAR times the norm.
                    let dependent = below <= tolerance * norms[j]
                        || below <= tolerance * FAR * norms[j]
                            && below <= tolerance * scale.of(&t.cells, &pivots, j, &norms);
                    if dependent {
                        for k in i..=last {
                            t.cells[k * w + j] = 0.0;
                        }
                        continue;
                    }
                }
                if last > i {
                    reflections.push(reflect(&mut t.cells, w, i..last + 1, j..to));
                }
                if t.cells[i * w + j] < 0.0 {
                    t.cells[i * w + j..i * w + to].iter_mut().for_each(|v| *v = -*v);
                    turned.push(i);
                }
                pivots.push(j as u32);
            }
            if to < w {
                apply(&reflections, &mut t.cells, w, to);
                for i in turned {
                    t.cells[i * w + to..(i + 1) * w].iter_mut().for_each(|v| *v = -*v);
                }
            }
        }
        // Rows without a pivot hold residual only.
        for row in t.cells.chunks_exact(w).skip(pivots.len()) {
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
        let form = Form::Triangle(Echelon { pivots, packed, starts, c });
        Self { n, m, p, target_sum, form }.compacted()
    }

    /// The same `R` with other `Z`, a row for each of its rows, and nothing outside their span.
    pub(crate) fn with_targets(&self, z: &faer::Mat<f64>) -> Self {
        let p = z.ncols();
        let mut packed = Vec::with_capacity(self.numbers() + self.rank() * p);
        let mut starts = Vec::with_capacity(self.rank());
        for i in 0..self.rank() {
            starts.push(packed.len());
            packed.extend_from_slice(self.row(i).1);
            packed.extend((0..p).map(|k| z[(i, k)]));
        }
        let pivots = self.echelon().pivots.clone();
        let form = Form::Triangle(Echelon { pivots, packed, starts, c: vec![0.0; p] });
        Self { p, form, target_sum: vec![0.0; p], ..*self }
    }

    /// Unpacks into a dense trapezoid.
    pub(crate) fn to_triangle(&self) -> Triangle {
        let w = self.m + self.p;
        let mut cells = vec![0.0; self.rank() * w];
        for (row, (pivot, r, z)) in cells.chunks_exact_mut(w).zip(self.iter()) {
            row[pivot..pivot + r.len()].copy_from_slice(r);
            row[self.m..].copy_from_slice(z);
        }
        Triangle {
            m: self.m,
            p: self.p,
            rows: self.rank(),
            cells,
            residual: self.residual().to_vec(),
        }
    }
}

/// Condition number of columns of equal length up to which sums of products keep eight digits.
const ACCURATE_CONDITION: f64 = 1e4;

/// Whether some columns depend on others so nearly that sums of products lose more than half of the digits. Columns that depend on
/// others up to rounding do not count: they have no part in the result.
pub(super) fn loses_digits(gram: &Gram) -> bool {
    let (_, p) = gram.shape();
    if decompose(gram).is_some_and(|(_, condition)| condition <= ACCURATE_CONDITION) {
        return false;
    }
    let sums = Sums { gram, n: 1.0, rows: None, target_sum: vec![0.0; p], shift: &[] };
    from_gram(sums).is_ok_and(|summary| {
        let nearly = |j: usize, r: f64| (r * ACCURATE_CONDITION).powi(2) < gram.xx(j, j);
        summary.iter().any(|(j, r, _)| nearly(j, r[0]))
    })
}

/// Sums of products and what they are sums of.
pub(super) struct Sums<'a> {
    pub(super) gram: &'a Gram,
    /// Σ of sample weights.
    pub(super) n: f64,
    /// How many rows there were, where that is known: the rank is not above it.
    pub(super) rows: Option<u64>,
    pub(super) target_sum: Vec<f64>,
    /// Was subtracted from every row of features and targets, and is put back into the row of the intercept; empty for none.
    pub(super) shift: &'a [f64],
}

/// Cholesky of the sums in echelon form: a pivot that cancels to rounding has no row.
///
/// Forming `XᵀX` has squared the condition number, so a dependency is only seen down to `√ε`. Returns the offending column where
/// the sums have overflowed.
pub(super) fn from_gram(sums: Sums<'_>) -> Result<Summary, usize> {
    let Sums { gram, n, rows, target_sum, shift } = sums;
    let (m, p) = gram.shape();
    if let Some(column) = (0..m).find(|&j| !gram.xx(j, j).is_finite()) {
        return Err(column);
    }
    if let Some(k) = (0..p).find(|&k| !gram.yy(k).is_finite()) {
        return Err(m + k);
    }
    let most = rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(m);
    // Far from dependent columns the plain decomposition is right.
    if most >= m
        && let Some((mut triangle, condition)) = decompose(gram)
        && condition < SAFE_CONDITION
    {
        unshift(&mut triangle.cells, shift);
        return Ok(Summary::from_triangle(triangle, n, target_sum));
    }
    let Decided { mut cells, pivots, residual: c } = decided(gram, most);
    if shift.is_empty() {
        return Ok(Summary::pack(m, p, n, pivots, &cells, c, target_sum));
    }
    // With the shift back in place, a column may turn out to vary by no more than rounding.
    unshift(&mut cells, shift);
    let triangle = Triangle { m, p, rows: pivots.len(), cells, residual: c };
    Ok(Summary::from_triangle(triangle, n, target_sum))
}

/// How the triangle of sums is made where columns nearly depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// A column that depends on those before it, as far as products can tell, has no row.
    ByColumn,
    /// What rounding leaves of all columns has no row: see [`Rooted`]. For models with a ridge far above rounding, which needs products
    /// that are right and no decision on which column depends on which.
    LargestFirst,
}

/// The triangle of sums that are kept, whose first row is kept apart from them. The rank is not above `rows`.
pub(super) fn of_sums(
    first: &[f64],
    gram: &Gram,
    rows: Option<usize>,
    decision: Decision,
) -> Echelon {
    let (m, p) = gram.shape();
    let w = m + p;
    let own = usize::from(first[0] > 0.0);
    let most = rows.map_or(m, |rows| rows.saturating_sub(own));
    let safe = |found: &(Triangle, f64)| found.1 < SAFE_CONDITION;
    let plain = if most + own >= m { decompose(gram).filter(safe) } else { None };
    let triangle = match plain {
        Some((mut triangle, _)) => {
            // Column 0 is zero in the sums, and so is its row.
            triangle.cells[..w].copy_from_slice(first);
            triangle
        }
        // Where there are fewer rows than columns, most of what is left of columns is rounding. The first that are large enough to be
        // taken for more would use up the rank, and columns that matter would have none of it.
        None if decision == Decision::LargestFirst || most + own < m => {
            let rooted = Rooted::new(&first[..own * w], gram, most);
            let mut triangle = factor(m, p, &rooted, 0..rooted.rows());
            let left = triangle.residual.iter_mut().zip(&rooted.residual);
            left.for_each(|(a, b)| *a += b);
            triangle
        }
        None => {
            let Decided { cells, pivots, residual } = decided(gram, most);
            let rows = own + pivots.len();
            let mut all = Vec::with_capacity(rows * w);
            all.extend_from_slice(&first[..own * w]);
            all.extend(cells);
            Triangle { m, p, rows, cells: all, residual }
        }
    };
    match Summary::from_triangle(triangle, 1.0, vec![0.0; p]).form {
        Form::Triangle(echelon) => echelon,
        Form::Sums(_) => unreachable!("a triangle was made"),
    }
}

/// Rows of a triangle, those of the pivots alone, and what they leave of the targets.
struct Decided {
    cells: Vec<f64>,
    pivots: Vec<u32>,
    residual: Vec<f64>,
}

/// Cholesky's decomposition of sums without the columns that depend on those before them, and of no more rank than `most`.
fn decided(gram: &Gram, most: usize) -> Decided {
    let (m, p) = gram.shape();
    let w = m + p;
    let mut cells = zeros(m * w);
    gram.write_rows(&mut cells);
    let norms = (0..m).map(|j| gram.xx(j, j).max(0.0).sqrt()).collect();
    let mut decision =
        RankDecision { m, w, most, norms, pivots: Vec::with_capacity(m), left_out: vec![false; m] };
    // Every block can be factored: what cannot be is left out.
    let _ = blocked(m, p, &mut cells, &mut decision);
    let pivots = decision.pivots;
    for (i, &j) in pivots.iter().enumerate() {
        let j = j as usize;
        cells.copy_within(j * w..(j + 1) * w, i * w);
        // Below the diagonal is scratch.
        cells[i * w..i * w + j].fill(0.0);
    }
    cells.truncate(pivots.len() * w);
    let mut c: Vec<f64> = (0..p).map(|k| gram.yy(k)).collect();
    for above in cells.chunks_exact_mut(w) {
        for (c, z) in c.iter_mut().zip(&mut above[m..]) {
            // No row explains more of a target than those before it have left. The row of a column that depends on others is made of
            // rounding, and might.
            let most = c.max(0.0).sqrt();
            *z = z.clamp(-most, most);
            *c = (*c - *z * *z).max(0.0);
        }
    }
    Decided { cells, pivots, residual: c }
}

/// Cholesky's decomposition that leaves out columns that depend on those before them.
struct RankDecision {
    m: usize,
    w: usize,
    /// The rank is not above this.
    most: usize,
    norms: Vec<f64>,
    pivots: Vec<u32>,
    left_out: Vec<bool>,
}

impl Steps for RankDecision {
    fn factor(&mut self, cells: &mut [f64], block: Range<usize>, to: usize) -> Option<()> {
        let (w, from) = (self.w, block.start);
        let threshold = gram_tolerance(self.m);
        let mut scale = DependencyScale::new(w, block.clone(), from);
        for j in block {
            let (above, row) = cells.split_at_mut(j * w);
            for above in above[from * w..].chunks_exact(w).zip(&self.left_out[from..]) {
                let (above, left_out) = above;
                let f = above[j];
                if !left_out && f != 0.0 {
                    for (v, a) in row[j..to].iter_mut().zip(&above[j..to]) {
                        *v -= f * a;
                    }
                }
            }
            let (pivot, diagonal) = (row[j], self.norms[j].powi(2));
            let mut dependent = self.pivots.len() == self.most || pivot <= threshold * diagonal;
            if !dependent && pivot <= SUSPECT * diagonal {
                let known: Vec<u32> = (0..from as u32).chain(self.in_block(from)).collect();
                dependent =
                    pivot <= threshold * scale.of_rows(cells, &known, j, &self.norms).powi(2);
            }
            let row = &mut cells[j * w..(j + 1) * w];
            if dependent {
                // What is left of its row is rounding.
                row[j..to].fill(0.0);
                row[j] = 1.0;
                self.left_out[j] = true;
                continue;
            }
            let root = pivot.sqrt();
            row[j..to].iter_mut().for_each(|v| *v /= root);
            self.pivots.push(j as u32);
        }
        Some(())
    }

    fn is_left_out(&self, i: usize) -> bool {
        self.left_out[i]
    }
}

impl RankDecision {
    /// Pivots from column `from` on.
    fn in_block(&self, from: usize) -> impl Iterator<Item = u32> + '_ {
        self.pivots.iter().copied().skip_while(move |&j| (j as usize) < from)
    }
}

/// Adds `shift` to the mean, which the first row holds times the root of `n`: rows below it are those of centred columns.
fn unshift(cells: &mut [f64], shift: &[f64]) {
    let root = cells.first().copied().unwrap_or(0.0);
    for (cell, shift) in cells.iter_mut().zip(shift) {
        *cell += root * shift;
    }
}

/// How much a column is made of: `‖x_j‖ + Σ |c_k| ‖x_k‖`, where `Σ c_k x_k` comes closest to it. That much can be lost to rounding when it
/// is projected; a category seen once depends on columns that are longer by the root of the number of rows.
///
/// The coefficients of all columns of a panel on the rows above it are found at once, by a triangular solve, when the first of
/// them is asked for.
struct DependencyScale {
    w: usize,
    panel: Range<usize>,
    /// Rows above the panel.
    top: usize,
    /// `R₁₁⁻¹ R₁`, for the rows above the panel and its columns.
    solved: Option<Mat<f64>>,
}

impl DependencyScale {
    fn new(w: usize, panel: Range<usize>, top: usize) -> Self {
        Self { w, panel, top, solved: None }
    }

    /// Of column `j`, where row `a` of `cells` has its pivot in column `pivots[a]`.
    fn of(&mut self, cells: &[f64], pivots: &[u32], j: usize, norms: &[f64]) -> f64 {
        let rows: Vec<usize> = (self.top..pivots.len()).collect();
        self.scale(cells, pivots, &rows, j, norms)
    }

    /// Of column `j`, where a pivot in column `k` is that of row `k` of `cells`, and rows that have none are zero except for a
    /// diagonal of 1.
    fn of_rows(&mut self, cells: &[f64], pivots: &[u32], j: usize, norms: &[f64]) -> f64 {
        let rows: Vec<usize> = pivots[self.top..].iter().map(|&k| k as usize).collect();
        self.scale(cells, pivots, &rows, j, norms)
    }

    /// `rows`: those of the pivots of the panel.
    fn scale(
        &mut self,
        cells: &[f64],
        pivots: &[u32],
        rows: &[usize],
        j: usize,
        norms: &[f64],
    ) -> f64 {
        let (w, top, first) = (self.w, self.top, self.panel.start);
        let own = &pivots[top..];
        let mut c = vec![0.0; own.len()];
        let mut total = norms[j];
        for a in (0..own.len()).rev() {
            let row = &cells[rows[a] * w..(rows[a] + 1) * w];
            let after: f64 = (a + 1..own.len()).map(|b| row[own[b] as usize] * c[b]).sum();
            c[a] = (row[j] - after) / row[own[a] as usize];
            total += c[a].abs() * norms[own[a] as usize];
        }
        if top > 0 {
            let panel = &self.panel;
            let solved =
                self.solved.get_or_insert_with(|| coefficients(cells, w, &pivots[..top], panel));
            let mut above = solved.col(j - first).to_owned();
            for (c, &k) in c.iter().zip(own) {
                above -= faer::Scale(*c) * solved.col(k as usize - first);
            }
            for (c, &k) in above.iter().zip(pivots) {
                total += c.abs() * norms[k as usize];
            }
        }
        if total.is_finite() { total.min(FAR * norms[j]) } else { norms[j] }
    }
}

/// `R₁₁⁻¹ R₁` for the first rows, whose pivots are given, and the columns of a panel.
fn coefficients(cells: &[f64], w: usize, pivots: &[u32], panel: &Range<usize>) -> Mat<f64> {
    let top = pivots.len();
    let mut solved = Mat::from_fn(top, panel.len(), |i, j| cells[i * w + panel.start + j]);
    let whole = MatRef::from_column_major_slice(&cells[..top * w], w, top);
    let no_gap = pivots.last().is_none_or(|&last| last as usize + 1 == top);
    if no_gap {
        let upper = whole.get(..top, ..).transpose();
        solve_upper_triangular_in_place(upper, solved.as_mut(), Par::Seq);
    } else {
        let mut packed = vec![0.0; top * top];
        for (a, row) in packed.chunks_exact_mut(top).enumerate() {
            for (cell, &k) in row[a..].iter_mut().zip(&pivots[a..]) {
                *cell = cells[a * w + k as usize];
            }
        }
        let upper = MatRef::from_column_major_slice(&packed, top, top).transpose();
        solve_upper_triangular_in_place(upper, solved.as_mut(), Par::Seq);
    }
    solved
}

/// Numbers whose squares, and sums of them, are far from both ends of the range.
const SQUARED: Range<f64> = 1e-140..1e140;

/// Norms of the columns, without overflow or underflow of the squares.
fn column_norms(t: &Triangle) -> Vec<f64> {
    let (m, w) = (t.m, t.m + t.p);
    let mut largest = vec![0.0_f64; m];
    for (i, row) in t.cells.chunks_exact(w).enumerate() {
        for (l, v) in largest[i.min(m)..].iter_mut().zip(&row[i.min(m)..m]) {
            *l = l.max(v.abs());
        }
    }
    let plain = largest.iter().all(|l| *l == 0.0 || SQUARED.contains(l));
    let mut sums = vec![0.0; m];
    for (i, row) in t.cells.chunks_exact(w).enumerate() {
        let from = i.min(m);
        let rest = sums[from..].iter_mut().zip(&row[from..m]);
        if plain {
            rest.for_each(|(s, v)| *s += v * v);
        } else {
            rest.zip(&largest[from..]).for_each(|((s, v), l)| *s += (v / l).powi(2));
        }
    }
    if plain {
        return sums.into_iter().map(f64::sqrt).collect();
    }
    let norm = |(l, s): (&f64, f64)| if *l == 0.0 || !l.is_finite() { *l } else { l * s.sqrt() };
    largest.iter().zip(sums).map(norm).collect()
}

/// Euclidean norm without overflow or underflow of the squares.
fn scaled_norm(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(0.0_f64, |a, v| a.max(v.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    largest * values.map(|v| (v / largest).powi(2)).sum::<f64>().sqrt()
}

/// A Householder reflection `I − τ v vᵀ` of the rows from `top` on.
struct Reflection {
    top: usize,
    v: Vec<f64>,
    tau: f64,
}

/// Reflects the given rows so that their first column of `columns` is cleared below the first row; columns beyond the range are
/// not touched.
fn reflect(cells: &mut [f64], w: usize, rows: Range<usize>, columns: Range<usize>) -> Reflection {
    let (top, j) = (rows.start, columns.start);
    let norm = scaled_norm(rows.clone().map(|i| cells[i * w + j]));
    let head = cells[top * w + j];
    let alpha = if head > 0.0 { -norm } else { norm };
    // v = x − αe₁, scaled so that its head is 1.
    let lead = head - alpha;
    let mut v: Vec<f64> = rows.clone().map(|i| cells[i * w + j] / lead).collect();
    v[0] = 1.0;
    let tau = -lead / alpha; // 2 / ‖v‖² with v[0] = 1
    let mut sums = vec![0.0; columns.len()];
    for (i, factor) in rows.clone().zip(&v) {
        for (s, a) in sums.iter_mut().zip(&cells[i * w + j..]) {
            *s += factor * a;
        }
    }
    for (i, factor) in rows.clone().zip(&v) {
        for (a, s) in cells[i * w + j..].iter_mut().zip(&sums) {
            *a -= tau * factor * s;
        }
    }
    cells[top * w + j] = alpha;
    for i in rows.skip(1) {
        cells[i * w + j] = 0.0;
    }
    Reflection { top, v, tau }
}

/// Applies the reflections of a panel to the columns from `from` on.
fn apply(reflections: &[Reflection], cells: &mut [f64], w: usize, from: usize) {
    let Some(first) = reflections.first() else { return };
    let top = first.top;
    let end = reflections.iter().map(|r| r.top + r.v.len()).max().unwrap_or(top);
    let mut vectors = Mat::zeros(end - top, reflections.len());
    for (k, r) in reflections.iter().enumerate() {
        for (i, v) in (r.top - top..).zip(&r.v) {
            vectors[(i, k)] = *v;
        }
    }
    let taus: Vec<f64> = reflections.iter().map(|r| r.tau).collect();
    let rows = MatMut::from_column_major_slice_mut(&mut cells[top * w..end * w], w, end - top);
    let (_, rest) = rows.transpose_mut().split_at_col_mut(from);
    Reflections::new(vectors, &taus).apply(rest);
}
