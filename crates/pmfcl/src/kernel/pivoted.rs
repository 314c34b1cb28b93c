//! Cholesky's decomposition with pivots: rows that have given sums of products, the largest first.
//!
//! Column by column, a column that nearly depends on those before it either has no row, which changes it by the root of rounding (1e-7 of
//! its size), or a row of rounding, which takes later columns with it. With the largest of all that is left taken next, what is left out
//! is small in every column at once: it changes products, not columns, by rounding.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt_pivoting::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::matmul::triangular::{BlockStructure, matmul};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, Par, Spec};

use super::{Gram, Source};

/// What is left of a column of length 1 and taken for rounding.
const ROUNDING: f64 = 32.0 * f64::EPSILON;

/// Rows of features and targets, and the squares of the targets that they leave.
pub(crate) struct Rooted {
    width: usize,
    cells: Vec<f64>,
    pub(crate) residual: Vec<f64>,
}

impl Rooted {
    /// The rows of `first`, then rows with these sums, no more than `most`.
    ///
    /// Cost: `m³/3` flops, half of them in matrix products, and as many again for columns that nearly depend on others.
    pub(crate) fn new(first: &[f64], gram: &Gram, most: usize) -> Self {
        let (m, p) = gram.shape();
        let width = m + p;
        let columns: Vec<usize> = (0..m).filter(|&j| gram.xx(j, j) > 0.0).collect();
        // All columns of one length: what is small is judged by each column's own.
        let units: Vec<f64> = columns.iter().map(|&j| 1.0 / gram.xx(j, j).sqrt()).collect();
        let product = |i: usize, j: usize| {
            gram.xx(columns[i.min(j)], columns[i.max(j)]) * units[i] * units[j]
        };
        let (lower, order) = lower_of(columns.len(), product);
        let rank = lower.ncols().min(most);
        let pull = |i: usize, target: usize| {
            let at = order[i];
            gram.xy(columns[at], target) * units[at]
        };
        let mut pulls = Mat::from_fn(rank, p, pull);
        let triangle = lower.as_ref().submatrix(0, 0, rank, rank);
        solve_lower_triangular_in_place(triangle, pulls.as_mut(), Par::Seq);
        let mut cells = super::zeros(first.len() + rank * width);
        let (top, below) = cells.split_at_mut(first.len());
        top.copy_from_slice(first);
        let mut residual: Vec<f64> = (0..p).map(|k| gram.yy(k)).collect();
        for (i, row) in below.chunks_exact_mut(width).enumerate() {
            for (&at, v) in order[i..].iter().zip(&lower.col_as_slice(i)[i..]) {
                row[columns[at]] = v / units[at];
            }
            for (target, left) in residual.iter_mut().enumerate() {
                // No row explains more of a target than those before it have left.
                let bound = left.max(0.0).sqrt();
                let z = pulls[(i, target)].clamp(-bound, bound);
                row[m + target] = z;
                *left = (*left - z * z).max(0.0);
            }
        }
        Self { width, cells, residual }
    }
}

impl Source for Rooted {
    fn rows(&self) -> usize {
        self.cells.len() / self.width
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        out.copy_from_slice(&self.cells[from * self.width..][..out.len()]);
    }
}

/// `L`, of as many columns as the rank, and the order of the columns of products with a diagonal of 1: row `i` of `L` is that of
/// `order[i]`.
///
/// The library stops at `k ε`, which is far above what rounding leaves. It is asked again with what is left.
fn lower_of(k: usize, product: impl Fn(usize, usize) -> f64) -> (Mat<f64>, Vec<usize>) {
    let mut lower = Mat::from_fn(k, k, |i, j| if i < j { 0.0 } else { product(i, j) });
    let (order, rank) = pivoted(&mut lower);
    let left = k - rank;
    if left == 0 {
        return (lower, order);
    }
    // The last column has nothing in common with the others and is the largest: it says where to stop.
    let limit = ROUNDING / f64::EPSILON / (left + 1) as f64;
    let cell = |i: usize, j: usize| match (i < j, i < left) {
        (true, _) => 0.0,
        (false, true) => product(order[rank + i], order[rank + j]),
        (false, false) => f64::from(u8::from(i == j)) * limit,
    };
    let mut rest = Mat::from_fn(left + 1, left + 1, cell);
    let below = lower.as_ref().submatrix(rank, 0, left, rank);
    matmul(
        rest.as_mut().submatrix_mut(0, 0, left, left),
        BlockStructure::TriangularLower,
        Accum::Add,
        below,
        BlockStructure::Rectangular,
        below.transpose(),
        BlockStructure::Rectangular,
        -1.0,
        Par::Seq,
    );
    for i in 0..left {
        rest[(i, i)] = rest[(i, i)].max(0.0);
    }
    let (later, more) = pivoted(&mut rest);
    // The limit comes first.
    let more = more.saturating_sub(1);
    let mut all = Mat::zeros(k, rank + more);
    let place = |i: usize| if i < rank { i } else { rank + later[i - rank + 1] };
    for j in 0..rank {
        for i in j..k {
            all[(i, j)] = lower[(place(i), j)];
        }
    }
    for j in 0..more {
        for i in j..left {
            all[(rank + i, rank + j)] = rest[(i + 1, j + 1)];
        }
    }
    (all, (0..k).map(|i| order[place(i)]).collect())
}

/// Decomposes products, the lower half, in place; the order of their columns, and how many were taken.
fn pivoted(products: &mut Mat<f64>) -> (Vec<usize>, usize) {
    let k = products.ncols();
    let (mut order, mut inverse) = (vec![0_usize; k], vec![0_usize; k]);
    let params = Spec::default();
    let mut memory = MemBuffer::new(cholesky_in_place_scratch::<usize, f64>(k, Par::Seq, params));
    let stack = MemStack::new(&mut memory);
    let done =
        cholesky_in_place(products.as_mut(), &mut order, &mut inverse, Par::Seq, stack, params);
    // It refuses a diagonal that is negative or no number.
    let rank = done.map_or(0, |(info, _)| info.rank);
    (order, rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmfcl_oracle::Draw;

    /// Rows of `m` features of very different sizes and one target, of which the last features are others and a little more.
    fn rows(n: usize, m: usize, near: f64, draw: &mut Draw) -> Vec<f64> {
        let mut rows = draw.normals(n * (m + 1));
        for row in rows.chunks_exact_mut(m + 1) {
            for j in 0..m / 3 {
                row[m - 1 - j] = row[j] + near * row[m - 1 - j];
            }
            (0..m).for_each(|j| row[j] *= libm::exp10((j % 7) as f64 - 3.0));
        }
        rows
    }

    struct Cells<'a>(&'a [f64], usize);

    impl Source for Cells<'_> {
        fn rows(&self) -> usize {
            self.0.len() / self.1
        }

        fn fill(&self, from: usize, out: &mut [f64]) {
            out.copy_from_slice(&self.0[from * self.1..][..out.len()]);
        }
    }

    #[test]
    fn rows_have_the_sums_they_were_made_of() {
        let mut draw = Draw::new(11);
        for (n, m, near) in [(90, 30, 1.0), (90, 30, 1e-4), (400, 150, 1e-6), (60, 30, 0.0)] {
            let cells = rows(n, m, near, &mut draw);
            let mut gram = Gram::new(m, 1);
            gram.add(&Cells(&cells, m + 1), 0..n);
            let rooted = Rooted::new(&[], &gram, m);
            // Copies have no rows; what differs by more than the root of rounding has.
            let exact = near == 0.0;
            assert_eq!(rooted.rows() == m, !exact, "{near}: {}", rooted.rows());
            assert!(rooted.rows() >= m - m / 3);
            let mut again = Gram::new(m, 1);
            again.add(&rooted, 0..rooted.rows());
            let allowed = 4.0 * ROUNDING;
            for j in 0..m {
                for i in 0..=j {
                    let scale = (gram.xx(i, i) * gram.xx(j, j)).sqrt();
                    let off = (again.xx(i, j) - gram.xx(i, j)).abs() / scale;
                    assert!(off <= allowed, "{near}: {i}, {j} are off by {off:e}");
                }
            }
            assert!((again.yy(0) + rooted.residual[0] - gram.yy(0)).abs() <= 1e-12 * gram.yy(0));
        }
    }

    #[test]
    fn no_more_rows_than_asked_for_and_the_first_stay() {
        let cells = rows(40, 12, 1.0, &mut Draw::new(3));
        let mut gram = Gram::new(12, 1);
        gram.add(&Cells(&cells, 13), 0..40);
        let first = vec![2.0; 13];
        let rooted = Rooted::new(&first, &gram, 5);
        assert_eq!(rooted.rows(), 6);
        assert_eq!(rooted.cells[..13], first);
    }
}
