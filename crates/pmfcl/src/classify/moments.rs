//! Mean and variance of every design column: what makes a prior free of units.

use crate::error::Result;
use crate::rows::Rows;
use crate::summary::Design;

/// Rows mapped at a time.
const BLOCK: usize = 512;
/// Variance below this share of the second moment is rounding.
const CONSTANT: f64 = 1e-12;

/// Count, means and centred squares of the design columns but the intercept. They add up.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moments {
    n: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    /// One pass over the rows. Cost: `O(n m)` beside the basis.
    pub(super) fn of(design: &Design, x: &Rows<'_>, weights: Option<&[f64]>) -> Result<Self> {
        let (m, first) = (design.width(), usize::from(design.intercept()));
        let mut all = Self::none(m - first);
        let mut rows = vec![0.0; BLOCK.min(x.len()) * m];
        let mut from = 0;
        while from < x.len() {
            let to = (from + BLOCK).min(x.len());
            let rows = &mut rows[..(to - from) * m];
            design.write(x, from, rows, m, None)?;
            let mut block = Self::none(m - first);
            for (i, row) in (from..to).zip(rows.chunks_exact(m)) {
                let w = weights.map_or(1.0, |w| w[i]);
                block.n += w;
                block.mean.iter_mut().zip(&row[first..]).for_each(|(s, v)| *s += w * v);
            }
            block.mean.iter_mut().for_each(|s| *s /= block.n);
            for (i, row) in (from..to).zip(rows.chunks_exact(m)) {
                let w = weights.map_or(1.0, |w| w[i]);
                for ((s, mean), v) in block.squares.iter_mut().zip(&block.mean).zip(&row[first..]) {
                    *s += w * (v - mean) * (v - mean);
                }
            }
            all = all.plus(&block, 1.0);
            from = to;
        }
        Ok(all)
    }

    fn none(columns: usize) -> Self {
        Self { n: 0.0, mean: vec![0.0; columns], squares: vec![0.0; columns] }
    }

    /// With another set of rows added (`sign` 1) or taken away (`sign` −1).
    pub(super) fn plus(&self, other: &Self, sign: f64) -> Self {
        let n = self.n + sign * other.n;
        if n <= 0.0 {
            return Self::none(self.mean.len());
        }
        let share = sign * other.n / n;
        let mut sum = self.clone();
        sum.n = n;
        for j in 0..self.mean.len() {
            let gap = other.mean[j] - self.mean[j];
            sum.mean[j] += share * gap;
            sum.squares[j] += sign * other.squares[j] + share * self.n * gap * gap;
            sum.squares[j] = sum.squares[j].max(0.0);
        }
        sum
    }

    /// All of them together.
    pub(super) fn total<'a>(parts: impl Iterator<Item = &'a Self>) -> Option<Self> {
        parts.fold(None, |sum, part| match sum {
            None => Some(part.clone()),
            Some(sum) => Some(sum.plus(part, 1.0)),
        })
    }

    /// Variance of every column; 1 where it does not vary, so that a prior holds it too.
    pub(super) fn variances(&self) -> Vec<f64> {
        let variance = |(s, mean): (&f64, &f64)| {
            let v = s / self.n;
            if v > CONSTANT * mean * mean { v } else { 1.0 }
        };
        self.squares.iter().zip(&self.mean).map(variance).collect()
    }

    /// With `count` columns at `at` that have been zero so far.
    pub(super) fn extended(&self, at: usize, count: usize) -> Self {
        let insert = |values: &[f64]| [&values[..at], &vec![0.0; count], &values[at..]].concat();
        Self { n: self.n, mean: insert(&self.mean), squares: insert(&self.squares) }
    }

    /// With column `j` at `places[j]` of `count`; the others have been zero so far.
    pub(super) fn rearranged(&self, places: &[usize], count: usize) -> Self {
        let mut moved = Self { n: self.n, ..Self::none(count) };
        for (j, &place) in places.iter().enumerate() {
            moved.mean[place] = self.mean[j];
            moved.squares[place] = self.squares[j];
        }
        moved
    }

    /// Count, means, squares, end to end: to be kept.
    pub(super) fn to_numbers(&self) -> Vec<f64> {
        [&[self.n][..], &self.mean, &self.squares].concat()
    }

    /// What [`Moments::to_numbers`] gave, for `columns` columns; `None` where it cannot have been that.
    pub(super) fn from_numbers(numbers: &[f64], columns: usize) -> Option<Self> {
        let (n, rest) = numbers.split_first()?;
        let sound = rest.len() == 2 * columns
            && numbers.iter().all(|v| v.is_finite())
            && *n > 0.0
            && rest[columns..].iter().all(|s| *s >= 0.0);
        sound.then(|| Self {
            n: *n,
            mean: rest[..columns].to_vec(),
            squares: rest[columns..].to_vec(),
        })
    }

    /// Bytes of the three.
    pub(super) fn nbytes(&self) -> usize {
        8 * (1 + 2 * self.mean.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Basis;

    #[test]
    fn moments_of_parts_add_up_and_come_off_again() {
        let x: Vec<f64> = (0..1300).map(|i| f64::from(i * i % 97) + 1e3).collect();
        let design = Design::new(Basis::default().fix(&[], 1).unwrap(), true);
        let of = |a, b| Moments::of(&design, &Rows::new(&x[a..b], 1).unwrap(), None).unwrap();
        let (whole, a, b) = (of(0, 1300), of(0, 700), of(700, 1300));
        let close = |p: &Moments, q: &Moments| {
            assert!((p.mean[0] - q.mean[0]).abs() < 1e-10, "{p:?} {q:?}");
            assert!((p.squares[0] / q.squares[0] - 1.0).abs() < 1e-10, "{p:?} {q:?}");
        };
        close(&a.plus(&b, 1.0), &whole);
        close(&whole.plus(&b, -1.0), &a);
        let mean = x.iter().sum::<f64>() / 1300.0;
        let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 1300.0;
        assert!((whole.variances()[0] / variance - 1.0).abs() < 1e-12);
    }
}
