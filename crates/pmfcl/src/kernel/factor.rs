//! An accurate triangle at the speed of sums.
//!
//! Sums of products square the condition number. So rows are whitened before they are summed, by the triangle of a sketch: far fewer
//! rows, each the sum of some of them ([`super::sketch`]). Whatever the condition of `X`, that of `X₁` is near `(1 + √(m/k)) / (1 − √(m/k))`
//! for `k` rows of the sketch, at most 6 for `k ≥ 2m` (randomised Cholesky QR: Balabanov, 2022; Higgins, Boman, Szyld, 2023):
//!
//! ```text
//! (SX)ᵀSX = R₁ᵀR₁     X₁ = X R₁⁻¹, Y₁ = Y − X₁Z₁     X₁ᵀX₁ = R₂ᵀR₂     R = R₂R₁, Z = R₂Z₁ + Z₂
//! ```
//!
//! Sums over all rows can take the place of the sketch (CholeskyQR2: Yamamoto, Nakatsukasa, Yanagisawa, Fukaya, 2015).
//!
//! | rows                                                      | way                        | flops / n m² |
//! |-----------------------------------------------------------|----------------------------|--------------|
//! | condition ≤ 10, nothing explained beyond 99.9 %           | sums once                  | 1            |
//! | condition < 1e7, confirmed by that of `X₁`, at most 10    | sums over a sketch, once   | 2 + k/n      |
//! | the same, where `X₁` shows that the sketch missed columns | sums over a sketch, twice  | 4 + k/n      |
//! | condition < 1e7, too few rows for a sketch, or it failed  | sums twice, `X₁ᵀX₁ ≈ I`    | 3            |
//! | all others, and fewer than `2m` rows                      | Householder                | 2            |
//!
//! Sums of products of `X₁` are off by `γ σ₁²`, `γ` a few `m ε` and `σ` the singular values of `X₁`. A change of `X₁` that explains this is at
//! most `γ σ₁² / 2σ_m` long. In column `j` of `X` that is as much times `‖R₁e_j‖`, which is at most `‖x_j‖ / σ_m`: `‖Δx_j‖` is at most
//! `γ κ(X₁)² / 2` of `‖x_j‖`, 18 `γ` where `κ(X₁)` is 6 and 50 `γ` where it is 10, the bound that rows summed once are held to. (Only the largest of
//! errors that are all of one direction come near.) The solve that whitens is off by little of each row of `X₁`, whatever the condition of
//! `R₁`. `κ(X₁)` is estimated, within a factor of two where it is small; what a sketch has missed stands out, as every step of the
//! inverse iteration multiplies it by `κ²`.

use std::ops::Range;

use super::cholesky::{compose, decompose};
use super::householder::Staircase;
use super::sketch::Sketch;
use super::solve::Whitener;
use super::strip::{DEEP, fill};
use super::{Gram, Source, Triangle, parallel};

/// One round of sums loses a factor of the condition number in accuracy: one digit is granted.
const WELL: f64 = 10.0;

/// The unexplained part below which `yy − ‖z‖²` cancels more than three digits.
const UNEXPLAINED: f64 = 1e-3;

/// Rows that are looked at first, and how much larger the condition of as few rows as a sketch has may be than that of all of them.
const SOME: usize = DEEP;
const FEW: f64 = 4.0;

/// Beyond this the first round leaves `X₁` too far from orthogonal to be repaired by a second.
const ILL: f64 = 1e7;

/// Squared norms below this may have lost digits to underflow.
const TINY: f64 = 1e-280;

/// Numbers of rows that are filled at once, and rows that are turned into columns at once.
const FILLED: usize = 1 << 19;
const TURNED: usize = 16;

/// Columns that one thread fills at once.
const COLUMNS: usize = 256;

/// An accurate triangle of the given rows.
///
/// The error is that of Householder's method: `X + ΔX = QR` with `‖Δx_j‖` a few `m ε ‖x_j‖` in every
/// column. Cost: see the table in this module.
pub(crate) fn factor(m: usize, p: usize, source: &impl Source, rows: Range<usize>) -> Triangle {
    if rows.len() >= (2 * m).max(16)
        && let Some(triangle) = by_sums(m, p, source, rows.clone())
    {
        return triangle;
    }
    by_reflections(m, p, source, rows)
}

fn by_sums(m: usize, p: usize, source: &impl Source, rows: Range<usize>) -> Option<Triangle> {
    let mut gram = Gram::new(m, p);
    let mut done = rows.start;
    if let Some(sketch) = Sketch::new(m, p, source, rows.clone()) {
        let well;
        (done, well) = begins_well(&mut gram, source, rows.start..rows.start + sketch.rows());
        if !well && let Some(triangle) = by_sketch(m, p, source, rows.clone(), &sketch) {
            return Some(triangle);
        }
    }
    gram.add(source, done..rows.end);
    if !in_range(&gram, source, rows.clone()) {
        return None;
    }
    let (first, condition) = decompose(&gram)?;
    if condition <= WELL && clear(&first, &gram) {
        return Some(first);
    }
    if condition > ILL {
        return None;
    }
    repeated(&first, source, rows)
}

/// Adds the first of the given rows to the sums: some, and all unless those have shown a condition of more than [`WELL`]. Returns where the
/// rest begins, and whether the sums of all rows may well be accurate at once.
fn begins_well(gram: &mut Gram, source: &impl Source, rows: Range<usize>) -> (usize, bool) {
    let (m, _) = gram.shape();
    let some = rows.end.min(rows.start + SOME);
    gram.add(source, rows.start..some);
    // Of a matrix with ones on its diagonal no eigenvalue is above ‖·‖F, and the largest is no less than ‖·‖F² / m. The least is at most 1.
    if gram.correlation_norm().powi(2) > WELL.powi(2) * m as f64 {
        return (some, false);
    }
    gram.add(source, some..rows.end);
    let first = decompose(gram);
    let well =
        |(first, condition): &(Triangle, f64)| *condition <= FEW * WELL && clear(first, gram);
    (rows.end, first.as_ref().is_some_and(well))
}

/// Whether rows that have left this of the targets have left enough to be read off sums.
fn clear(triangle: &Triangle, gram: &Gram) -> bool {
    (0..triangle.p).all(|k| triangle.residual[k] >= UNEXPLAINED * gram.yy(k))
}

/// Whitens by the triangle of a sketch, and sums once; twice where the sketch has missed something.
pub(super) fn by_sketch<S: Source>(
    m: usize,
    p: usize,
    source: &S,
    rows: Range<usize>,
    sketch: &Sketch<'_, S>,
) -> Option<Triangle> {
    let mut gram = Gram::new(m, p);
    gram.add(sketch, 0..sketch.rows());
    if !in_range(&gram, source, rows.clone()) {
        return None;
    }
    let (first, condition) = decompose(&gram)?;
    if condition > ILL {
        return None;
    }
    let whitened = whitened(&first, source, rows.clone());
    let (second, condition) = decompose(&whitened)?;
    let both = compose(&second, &first);
    // What is left of a target that is nearly explained is rounding, of which no digits are needed.
    let fine = (0..p).all(|k| {
        let left = whitened.yy(k);
        second.residual[k] >= UNEXPLAINED * left || left <= f64::EPSILON * gram.yy(k)
    });
    if condition <= WELL && fine {
        return Some(both);
    }
    if condition > ILL {
        return None;
    }
    repeated(&both, source, rows)
}

/// Sums of products of rows whitened by a triangle.
pub(super) fn whitened(first: &Triangle, source: &impl Source, rows: Range<usize>) -> Gram {
    let (m, p) = (first.m, first.p);
    let whitener = Whitener::new(m, p, &first.cells);
    let mut whitened = Gram::new(m, p);
    whitened.add_prepared(source, rows, |strip| whitener.apply(strip));
    whitened
}

/// The triangle of rows of which sums have given one already, by sums over whitened ones.
fn repeated(first: &Triangle, source: &impl Source, rows: Range<usize>) -> Option<Triangle> {
    let whitened = whitened(first, source, rows);
    if distance_from_identity(&whitened).total_cmp(&0.5).is_gt() {
        return None;
    }
    let (second, _) = decompose(&whitened)?;
    Some(compose(&second, first))
}

/// Whether all squares are far from overflow and underflow, or exactly zero.
fn in_range(gram: &Gram, source: &impl Source, rows: Range<usize>) -> bool {
    let (m, p) = gram.shape();
    let squares: Vec<f64> =
        (0..m).map(|i| gram.xx(i, i)).chain((0..p).map(|k| gram.yy(k))).collect();
    if !squares.iter().all(|s| s.is_finite() && (*s <= 0.0 || *s >= TINY)) {
        return false;
    }
    let zero: Vec<usize> = (0..m + p).filter(|&j| squares[j] <= 0.0).collect();
    zero.is_empty() || all_zero(&zero, m + p, source, rows)
}

/// Whether the given columns hold nothing but zeros: their squares may only have vanished.
fn all_zero(columns: &[usize], width: usize, source: &impl Source, rows: Range<usize>) -> bool {
    let mut filled = vec![0.0; 64 * width];
    for from in rows.clone().step_by(64) {
        let take = 64.min(rows.end - from);
        source.fill(from, &mut filled[..take * width]);
        let nonzero = |row: &[f64]| columns.iter().any(|&j| row[j].abs() > 0.0);
        if filled[..take * width].chunks_exact(width).any(nonzero) {
            return false;
        }
    }
    true
}

/// Frobenius norm of `XᵀX − I`, leaving out features that are always zero.
fn distance_from_identity(gram: &Gram) -> f64 {
    let (m, _) = gram.shape();
    let mut sum = 0.0;
    for j in 0..m {
        for i in 0..j {
            sum += 2.0 * gram.xx(i, j) * gram.xx(i, j);
        }
        let d = gram.xx(j, j);
        if d > 0.0 {
            sum += (d - 1.0) * (d - 1.0);
        }
    }
    sum.sqrt()
}

/// Householder's method, strip after strip above what the strips before have left.
pub(super) fn by_reflections(
    m: usize,
    p: usize,
    source: &impl Source,
    rows: Range<usize>,
) -> Triangle {
    let width = m + p;
    let deep = if m <= 1024 { (4 * m).max(1024) } else { 4096.max(m) };
    // The basis maps many rows at once; they are turned few by few, so that a cache line of each column stays in cache.
    let chunk = (FILLED / width / TURNED * TURNED).clamp(TURNED, 256);
    let mut filled = vec![0.0; chunk.min(rows.len()) * width];
    let mut scale = vec![1.0; width];
    if rows.len() > deep {
        let mut scales = Scales::none(width);
        for from in rows.clone().step_by(chunk) {
            let take = chunk.min(rows.end - from);
            fill(source, from, width, &mut filled[..take * width]);
            scales.see(&filled[..take * width]);
        }
        scale = scales.factors();
    }
    let mut seen = Triangle::empty(m, p);
    let kept = if rows.len() > deep { m } else { 0 };
    let mut cells = vec![0.0; (deep.min(rows.len()) + kept) * width];
    for start in rows.clone().step_by(deep) {
        let above = deep.min(rows.end - start);
        let tall = above + seen.rows;
        let matrix = &mut cells[..tall * width];
        for from in (0..above).step_by(chunk) {
            let take = chunk.min(above - from);
            fill(source, start + from, width, &mut filled[..take * width]);
            for (turn, rows) in filled[..take * width].chunks(TURNED * width).enumerate() {
                let (from, take) = (from + turn * TURNED, rows.len() / width);
                for (j, column) in matrix.chunks_exact_mut(tall).enumerate() {
                    for (i, cell) in column[from..from + take].iter_mut().enumerate() {
                        *cell = rows[i * width + j] * scale[j];
                    }
                }
            }
        }
        if rows.len() <= deep {
            // All rows are here: no need to make them twice.
            let largest = |column: &[f64]| column.iter().fold(0.0_f64, |l, v| l.max(v.abs()));
            scale = Scales(matrix.chunks_exact(tall).map(largest).collect()).factors();
            for (column, s) in matrix.chunks_exact_mut(tall).zip(&scale) {
                if s.to_bits() != 1f64.to_bits() {
                    column.iter_mut().for_each(|v| *v *= s);
                }
            }
        }
        for (j, column) in matrix.chunks_exact_mut(tall).enumerate() {
            for (i, cell) in column[above..].iter_mut().enumerate() {
                *cell = seen.cells[i * width + j];
            }
        }
        let below = seen.rows;
        let staircase = Staircase { cells: matrix, rows: tall, columns: width };
        staircase.reduce(m, |j| above + below.min(j + 1));
        let left = leftovers(matrix, tall, m, &seen.residual);
        seen = collect(m, p, matrix, tall, left);
    }
    unscale(seen, &scale)
}

/// Rows `[R | Z]` of which row `i` has nothing before column `i`.
pub(crate) trait Stairs: Sync {
    /// Features and targets.
    fn shape(&self) -> (usize, usize);

    /// How many rows there are.
    fn rows(&self) -> usize;

    /// Row `i`: a column before which, and entries after which, its features are zero, and its targets.
    fn row(&self, i: usize) -> (usize, &[f64], &[f64]);

    /// What all entries are to be multiplied by.
    fn factor(&self) -> f64 {
        1.0
    }

    /// What the rows leave of each target.
    fn residual(&self) -> &[f64];

    /// All rows, as they are to be.
    fn into_triangle(self) -> Triangle;
}

impl Stairs for Triangle {
    fn shape(&self) -> (usize, usize) {
        (self.m, self.p)
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn row(&self, i: usize) -> (usize, &[f64], &[f64]) {
        let width = self.m + self.p;
        let (r, z) = self.cells[i * width + i..(i + 1) * width].split_at(self.m - i);
        (i, r, z)
    }

    fn residual(&self) -> &[f64] {
        &self.residual
    }

    fn into_triangle(self) -> Triangle {
        self
    }
}

/// The triangle of the rows of `a` and of `b` together.
///
/// Rows alternate, so that below the stairs nothing is computed. Both are taken: of wide ones, no more should be alive than are needed.
/// Cost: `2m³/3 + 2m²p` flops.
pub(crate) fn stack(a: impl Stairs, b: impl Stairs) -> Triangle {
    let ((m, p), tall) = (a.shape(), a.rows() + b.rows());
    let width = m + p;
    debug_assert_eq!((m, p), b.shape());
    let residual: Vec<f64> = a.residual().iter().zip(b.residual()).map(|(a, b)| a + b).collect();
    if a.rows() == 0 || b.rows() == 0 {
        let sum = if a.rows() == 0 { b.into_triangle() } else { a.into_triangle() };
        return Triangle { residual, ..sum };
    }
    let mut scales = Scales::none(width);
    scales.see_stairs(&a);
    scales.see_stairs(&b);
    let scale = scales.factors();
    let mut cells = vec![0.0; tall * width];
    let (first, second) = (a.rows(), b.rows());
    let both = first.min(second);
    let place = |i: usize, second: usize| if i < both { 2 * i + second } else { both + i };
    let tiles = cells.chunks_mut(COLUMNS * tall).enumerate().collect();
    parallel::share(tall * width, tiles, |(tile, cells): (usize, &mut [f64])| {
        let from = tile * COLUMNS;
        turn(&a, from, tall, &scale, cells, |i| place(i, 0));
        turn(&b, from, tall, &scale, cells, |i| place(i, 1));
    });
    drop((a, b));
    let staircase = Staircase { cells: &mut cells, rows: tall, columns: width };
    staircase.reduce(m, |j| first.min(j + 1) + second.min(j + 1));
    let rows = tall.min(m);
    let left = leftovers(&cells, tall, m, &vec![0.0; p]);
    // What is below the triangle is given back before the triangle is copied.
    for j in 0..width {
        cells.copy_within(j * tall..j * tall + rows, j * rows);
    }
    cells.truncate(rows * width);
    cells.shrink_to_fit();
    let mut sum = unscale(collect(m, p, &cells, rows, left), &scale);
    for (r, before) in sum.residual.iter_mut().zip(&residual) {
        *r += before;
    }
    sum
}

/// Writes the columns from `from` on of some rows, column after column, row `i` to `place(i)`.
fn turn(
    stairs: &impl Stairs,
    from: usize,
    tall: usize,
    scale: &[f64],
    cells: &mut [f64],
    place: impl Fn(usize) -> usize,
) {
    let ((m, _), factor) = (stairs.shape(), stairs.factor());
    let to = from + cells.len() / tall;
    for top in (0..stairs.rows()).step_by(TURNED) {
        let last = stairs.rows().min(top + TURNED);
        let rows: Vec<_> = (top..last).map(|i| stairs.row(i)).collect();
        for (j, column) in
            (from..to).zip(cells.chunks_exact_mut(tall)).skip(top.saturating_sub(from))
        {
            for i in top..last.min(j + 1) {
                let (first, r, z) = rows[i - top];
                let v = if j < m {
                    j.checked_sub(first).and_then(|at| r.get(at))
                } else {
                    z.get(j - m)
                };
                if let Some(v) = v {
                    column[place(i)] = v * factor * scale[j];
                }
            }
        }
    }
}

/// `residual` and the squares of what a reduced matrix has of each target below the triangle.
fn leftovers(matrix: &[f64], tall: usize, m: usize, residual: &[f64]) -> Vec<f64> {
    let rest = matrix.chunks_exact(tall).skip(m).zip(residual);
    rest.map(|(y, before)| before + y[tall.min(m)..].iter().map(|y| y * y).sum::<f64>()).collect()
}

/// Reads the triangle off a reduced matrix, and turns its diagonal non-negative.
fn collect(m: usize, p: usize, matrix: &[f64], tall: usize, residual: Vec<f64>) -> Triangle {
    let (rows, width) = (tall.min(m), m + p);
    let mut cells = vec![0.0; rows * width];
    let tiles = cells.chunks_mut(TURNED * width).enumerate().collect();
    parallel::share(rows * width, tiles, |(tile, cells): (usize, &mut [f64])| {
        let (from, count) = (tile * TURNED, cells.len() / width);
        for (j, column) in matrix.chunks_exact(tall).enumerate().skip(from) {
            for i in from..(from + count).min(j + 1) {
                cells[(i - from) * width + j] = column[i];
            }
        }
        for (i, row) in (from..).zip(cells.chunks_exact_mut(width)) {
            if row[i].is_sign_negative() {
                for cell in &mut row[i..] {
                    *cell = -*cell;
                }
            }
        }
    });
    Triangle { m, p, rows, cells, residual }
}

/// Largest sizes seen in each column.
struct Scales(Vec<f64>);

impl Scales {
    fn none(width: usize) -> Self {
        Self(vec![0.0; width])
    }

    fn see(&mut self, rows: &[f64]) {
        for row in rows.chunks_exact(self.0.len()) {
            for (largest, cell) in self.0.iter_mut().zip(row) {
                *largest = largest.max(cell.abs());
            }
        }
    }

    fn see_stairs(&mut self, stairs: &impl Stairs) {
        let ((m, _), factor) = (stairs.shape(), stairs.factor());
        let (features, targets) = self.0.split_at_mut(m);
        for i in 0..stairs.rows() {
            let (first, r, z) = stairs.row(i);
            let seen = features[first..].iter_mut().zip(r).chain(targets.iter_mut().zip(z));
            for (largest, cell) in seen {
                *largest = largest.max((cell * factor).abs());
            }
        }
    }

    /// A power of two for each column that keeps its squares in range; 1 where they are.
    fn factors(&self) -> Vec<f64> {
        let factor = |&largest: &f64| {
            if largest > 0.0 && !(1e-100..=1e100).contains(&largest) {
                // Two steps of at most 2^±1000 would be needed beyond; ±1022 does for finite numbers.
                libm::exp2(-libm::log2(largest).round().clamp(-1000.0, 1000.0))
            } else {
                1.0
            }
        };
        self.0.iter().map(factor).collect()
    }
}

/// Takes the scaling of the columns back.
fn unscale(mut triangle: Triangle, scale: &[f64]) -> Triangle {
    if scale.iter().any(|s| s.to_bits() != 1f64.to_bits()) {
        for row in triangle.cells.chunks_exact_mut(scale.len()) {
            for (cell, s) in row.iter_mut().zip(scale) {
                *cell /= s;
            }
        }
        for (rest, s) in triangle.residual.iter_mut().zip(&scale[triangle.m..]) {
            *rest = *rest / s / s;
        }
    }
    triangle
}
