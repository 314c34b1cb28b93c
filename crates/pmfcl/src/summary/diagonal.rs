//! Summaries whose rows have a single entry: a penalty, or a curvature of which only the diagonal is kept.
//!
//! Such a row is stored as its pivot entry and `Z`; the zeros between them are not. So `m` columns cost `O(m p)` numbers instead
//! of `O(m²)`, and merging two such summaries takes one rotation per column. Whether rows are stored this way depends on
//! the numbers alone, so a summary that was written and read again merges with the same bits as before.

use super::{Echelon, Form, Summary};

impl Summary {
    /// Rows with a single entry each: (column, entry, target value common to all targets), columns ascending. No samples.
    pub(crate) fn diagonal(
        m: usize,
        p: usize,
        rows: impl Iterator<Item = (usize, f64, f64)>,
    ) -> Self {
        let mut summary = Self::empty(m, p);
        let Echelon { pivots, packed, starts, .. } = summary.echelon_mut();
        for (j, entry, target) in rows {
            starts.push(packed.len());
            pivots.push(j as u32);
            packed.push(entry);
            packed.resize(packed.len() + p, target);
        }
        summary
    }

    /// Whether every row has its pivot entry alone. Never for a single column, where there is nothing to leave out.
    pub(super) fn is_diagonal(&self) -> bool {
        self.m > 1 && !self.is_summed() && self.numbers() == self.rank() * (1 + self.p)
    }

    /// The same summary without the zeros after the pivots, where every row has only zeros there. A negative zero is kept,
    /// so that the bytes of the summary stay the same.
    pub(super) fn compacted(self) -> Self {
        if self.is_summed() {
            return self;
        }
        let zeros = |r: &[f64]| r[1..].iter().all(|v| v.to_bits() == 0);
        if self.m == 1 || self.is_diagonal() || !self.iter().all(|(_, r, _)| zeros(r)) {
            return self;
        }
        let stored = 1 + self.p;
        let mut packed = Vec::with_capacity(self.rank() * stored);
        for (_, r, z) in self.iter() {
            packed.push(r[0]);
            packed.extend_from_slice(z);
        }
        let starts = (0..self.rank()).map(|i| i * stored).collect();
        let (pivots, c) = (self.echelon().pivots.clone(), self.residual().to_vec());
        Self { form: Form::Triangle(Echelon { pivots, packed, starts, c }), ..self }
    }

    /// Row `i` with the zeros that are not stored: `R[i, pivot..m]`, then `Z[i, ..]`.
    pub(crate) fn padded_row(&self, i: usize) -> impl Iterator<Item = f64> {
        let (pivot, r, z) = self.row(i);
        let zeros = self.m - pivot - r.len();
        r.iter().copied().chain(std::iter::repeat_n(0.0, zeros)).chain(z.iter().copied())
    }

    /// [`Summary::nbytes`] if the zeros of [`Summary::padded_row`] were stored, as they were when early model files were written.
    pub(crate) fn padded_nbytes(&self) -> usize {
        let missing: usize = self.iter().map(|(pivot, r, _)| self.m - pivot - r.len()).sum();
        self.nbytes() + 8 * missing
    }

    /// `R[i, j]`: 0 before the pivot, and where nothing is stored.
    pub(crate) fn entry(&self, i: usize, j: usize) -> f64 {
        let (pivot, r, _) = self.row(i);
        j.checked_sub(pivot).and_then(|at| r.get(at)).copied().unwrap_or(0.0)
    }

    /// [`Summary::rearrange`] of a diagonal summary: its rows change places. Cost: `O(r (p + log r))`.
    pub(super) fn rearrange_diagonal(&self, places: &[usize], width: usize) -> Summary {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        let place = |i: usize| places[self.echelon().pivots[i] as usize];
        order.sort_by_key(|&i| place(i));
        let mut packed = Vec::with_capacity(self.numbers());
        for &i in &order {
            let (_, r, z) = self.row(i);
            packed.extend_from_slice(r);
            packed.extend_from_slice(z);
        }
        let pivots = order.iter().map(|&i| place(i) as u32).collect();
        let (starts, c) = (self.echelon().starts.clone(), self.residual().to_vec());
        let form = Form::Triangle(Echelon { pivots, packed, starts, c });
        Self { m: width, form, target_sum: self.target_sum.clone(), ..*self }
    }
}

/// The sum of diagonal summaries, column by column.
pub(super) struct DiagonalSum {
    p: usize,
    /// For each column its entry, 0 where there is none, and `Z`.
    rows: Vec<f64>,
    /// What the rotations leave of the squares of each target.
    residual: Vec<f64>,
}

impl DiagonalSum {
    pub(super) fn new(m: usize, p: usize) -> Self {
        Self { p, rows: vec![0.0; m * (1 + p)], residual: vec![0.0; p] }
    }

    /// Adds the rows of a diagonal summary times `root`.
    ///
    /// Of two rows `[a | z]` and `[b | y]` a rotation makes `[r | (a z + b y) / r]`, `r² = a² + b²`, and leaves `(a y − b z) / r`.
    pub(super) fn add(&mut self, part: &Summary, root: f64) {
        for (j, entry, targets) in part.iter() {
            let row = &mut self.rows[j * (1 + self.p)..(j + 1) * (1 + self.p)];
            let (own, other) = (row[0], root * entry[0]);
            let length = libm::hypot(own, other);
            row[0] = length;
            // A row that is too short to be scaled has lost its feature, and leaves its targets as residual.
            let (cosine, sine) =
                if length > 0.0 { (own / length, other / length) } else { (1.0, 0.0) };
            for ((z, y), c) in row[1..].iter_mut().zip(targets).zip(&mut self.residual) {
                let y = root * y;
                let left = cosine * y - sine * *z;
                *z = cosine * *z + sine * y;
                *c += left * left;
            }
        }
    }

    /// The summary of the sum, with `c` of its parts.
    pub(super) fn finish(self, n: f64, c: &[f64], target_sum: Vec<f64>) -> Summary {
        let stored = 1 + self.p;
        let there: Vec<usize> =
            (0..self.rows.len() / stored).filter(|j| self.rows[j * stored] != 0.0).collect();
        let mut packed = Vec::with_capacity(there.len() * stored);
        for j in &there {
            packed.extend_from_slice(&self.rows[j * stored..(j + 1) * stored]);
        }
        let form = Form::Triangle(Echelon {
            pivots: there.iter().map(|&j| j as u32).collect(),
            starts: (0..there.len()).map(|i| i * stored).collect(),
            packed,
            c: c.iter().zip(&self.residual).map(|(c, left)| c + left).collect(),
        });
        Summary { n, m: self.rows.len() / stored, p: self.p, target_sum, form }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{dot, pool};
    use super::*;
    use crate::kernel;
    use crate::theta::Theta;

    /// Numbers that follow no pattern, in (0.5, 2.5).
    fn value(seed: usize) -> f64 {
        let bits = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        0.5 + bits as f64 / f64::from(1 << 23)
    }

    fn some(m: usize, p: usize, seed: usize, skip: usize) -> Summary {
        let rows = (0..m).filter(|j| j % 5 != skip);
        let rows = rows.map(|j| (j, value(seed + j), value(seed + 7 * j) - 1.5));
        Summary { n: value(seed), ..Summary::diagonal(m, p, rows) }
    }

    fn assert_near(a: &Summary, b: &Summary) {
        assert_eq!(a.echelon().pivots, b.echelon().pivots);
        for i in 0..a.rank() {
            for (x, y) in a.padded_row(i).zip(b.padded_row(i)) {
                assert!((x - y).abs() <= 1e-14 * (1.0 + y.abs()), "{x} {y}");
            }
        }
        for (x, y) in a.residual().iter().zip(b.residual()) {
            assert!((x - y).abs() <= 1e-13 * (1.0 + y.abs()), "{x} {y}");
        }
    }

    #[test]
    fn twenty_thousand_columns_take_two_numbers_each() {
        let m = 20_000;
        let (a, b) = (some(m, 1, 1, 0), some(m, 1, 2, 1));
        assert_eq!(a.numbers(), 2 * (m - m / 5));
        assert!(a.echelon().packed.capacity() <= 4 * m && a.nbytes() < 30 * m);
        let both = a.merge(&b).expect("finite");
        assert_eq!((both.rank(), both.numbers()), (m, 2 * m));
        assert!(both.echelon().packed.capacity() <= 4 * m);
        let three = pool(m, 1, [(&a, 0.5), (&b, 2.0), (&a, 0.5)].into_iter()).expect("finite");
        assert_eq!(three.numbers(), 2 * m);
        let places: Vec<usize> = (0..m).rev().collect();
        assert_eq!(both.rearrange(&places, m + 10).expect("places").numbers(), 2 * m);
        assert_eq!(both.extend_features(7, 100).expect("a place").numbers(), 2 * m);
        assert_eq!(both.extend_targets(1, 2).expect("a place").numbers(), 4 * m);
        // Column by column: a² + b².
        for j in [0, 1, 2, m - 1] {
            let square = |s: &Summary| {
                s.pivots().position(|q| q == j).map_or(0.0, |i| s.row(i).1[0].powi(2))
            };
            let expected = square(&a) + square(&b);
            assert!((square(&both) - expected).abs() < 1e-14 * expected);
        }
    }

    #[test]
    fn sums_are_those_of_stacked_rows() {
        let (m, p) = (13, 2);
        let (a, b, c) = (some(m, p, 3, 0), some(m, p, 40, 1), some(m, p, 90, 2));
        let both = a.merge(&b).expect("finite");
        let stacked = kernel::stack(a.to_triangle(), b.to_triangle());
        assert_near(&both, &Summary::from_triangle(stacked, a.n + b.n, vec![0.0; p]));
        assert_eq!(both.to_bytes(), b.merge(&a).expect("finite").to_bytes(), "either order");
        let all = pool(m, p, [(&a, 4.0), (&b, 4.0), (&c, 4.0)].into_iter()).expect("finite");
        let merged = both.merge(&c).and_then(|s| s.scale(4.0)).expect("finite");
        assert_near(&all, &merged);
        // A part that is not diagonal is factored with the others as before.
        let mut row = vec![0.0; m + p];
        (row[2], row[5]) = (1.0, 1.0);
        let full = Summary::pack(m, p, 1.0, vec![2], &row, vec![0.0; p], vec![0.0; p]);
        assert!(!full.is_diagonal());
        let mixed = all.merge(&full).expect("finite");
        let expected = kernel::stack(full.to_triangle(), all.to_triangle());
        assert_near(&mixed, &Summary::from_triangle(expected, mixed.n, vec![0.0; p]));
        let pooled = pool(m, p, [(&all, 1.0), (&full, 1.0)].into_iter()).expect("finite");
        assert_near(&pooled, &mixed);
    }

    #[test]
    fn short_rows_calculate_as_padded_ones() {
        let (m, p) = (11, 2);
        let s = some(m, p, 5, 3);
        let mut full = s.clone();
        let pivots = &s.echelon().pivots;
        let start = |i: usize| (0..i).map(|q| m - pivots[q] as usize + p).sum();
        let echelon = full.echelon_mut();
        echelon.packed = (0..s.rank()).flat_map(|i| s.padded_row(i)).collect();
        echelon.starts = (0..s.rank()).map(start).collect();
        assert!(s.is_diagonal() && !full.is_diagonal());
        assert_eq!(s, full);
        assert_eq!(full.clone().compacted().echelon().packed, s.echelon().packed);
        assert_eq!(s.to_bytes(), full.to_bytes());
        assert_eq!(s.padded_nbytes(), full.nbytes());
        let mut theta = Theta::zeros(m, p);
        (0..p).for_each(|k| (0..m).for_each(|j| theta.column_mut(k)[j] = value(3 * j + k)));
        assert_eq!(s.excess(&theta), full.excess(&theta));
        assert_eq!(s.gradient(&theta), full.gradient(&theta));
        assert_eq!(s.gradient_size(&theta).to_bits(), full.gradient_size(&theta).to_bits());
        let along = |s: &Summary| s.excess_along(&theta, &theta).to_bits();
        assert_eq!(along(&s), along(&full));
        assert_eq!(
            (s.column_squares(), s.variances(0)),
            (full.column_squares(), full.variances(0))
        );
        assert_eq!(s.coordinates(theta.column(0)), full.coordinates(theta.column(0)));
        assert_eq!(s.products(), full.products());
        assert_eq!(s.keep_targets(&[1]), full.keep_targets(&[1]));
        assert_eq!(s.extend_targets(1, 2), full.extend_targets(1, 2));
        assert_eq!(s.rearrange_targets(&[2, 0], 3), full.rearrange_targets(&[2, 0], 3));
        let z = faer::Mat::from_fn(s.rank(), p, |i, k| value(i + 9 * k));
        assert_eq!(s.with_targets(&z), full.with_targets(&z));
        for (at, count) in [(0, 2), (4, 3), (m, 1)] {
            let (short, long) = (s.extend_features(at, count), full.extend_features(at, count));
            assert_eq!(short, long);
            assert_eq!(short.expect("a place").numbers(), s.numbers());
        }
        let places: Vec<usize> = (0..m).map(|j| (j * 3) % 11).collect();
        assert_near(
            &s.rearrange(&places, m + 1).expect("places"),
            &full.rearrange(&places, m + 1).expect("places"),
        );
        let part = s.scale(0.25).expect("positive");
        assert_near(&s.remove(&part).expect("a part"), &full.remove(&part).expect("a part"));
        for i in 0..s.rank() {
            assert!((0..m).all(|j| s.entry(i, j).to_bits() == full.entry(i, j).to_bits()));
        }
        assert_eq!(dot(&[2.0], &[3.0, 1.0, 1.0, 1.0, 1.0]).to_bits(), 6.0_f64.to_bits());
        let mut wrong = s.clone();
        wrong.echelon_mut().packed.fill(f64::INFINITY);
        assert_eq!(wrong.kept().err(), Some(crate::Error::Overflow { column: 0 }));
        let mut wrong = s.clone();
        wrong.echelon_mut().packed[2] = f64::INFINITY;
        assert_eq!(wrong.kept().err(), Some(crate::Error::Overflow { column: m + 1 }));
    }

    #[test]
    fn a_round_trip_is_equal_and_as_small() {
        let s = some(9, 2, 1, 2);
        let back = Summary::from_bytes(&s.to_bytes()).expect("its own bytes");
        assert_eq!(back, s);
        let (read, made) = (back.echelon(), s.echelon());
        assert_eq!((&read.packed, &read.starts), (&made.packed, &made.starts));
        // 28 bytes of header, pivots, every row from its pivot to the last column, c and Σy, checksum.
        let cells: usize = s.pivots().map(|j| 9 - j + 2).sum();
        assert_eq!(s.to_bytes().len(), 28 + 4 * s.rank() + 8 * (cells + 4) + 4);
        // A negative zero is a number like others: it comes back.
        let mut row = vec![1.0, -0.0, 2.0];
        let minus = Summary::pack(2, 1, 1.0, vec![0], &row, vec![0.0], vec![2.0]);
        assert_eq!((minus.numbers(), minus.to_bytes().len()), (3, 28 + 4 + 8 * 5 + 4));
        let back = Summary::from_bytes(&minus.to_bytes()).expect("its own bytes");
        assert_eq!(back.to_bytes(), minus.to_bytes());
        row[1] = 0.0;
        let plus = Summary::pack(2, 1, 1.0, vec![0], &row, vec![0.0], vec![2.0]);
        assert_eq!((plus.numbers(), &plus), (2, &minus));
        assert_eq!(minus.with_plain_zeros().numbers(), 2);
    }
}
