//! Mean and variance of every design column: they make a prior independent of units.

/// Variance below this share of the second moment is rounding.
const CONSTANT: f64 = 1e-12;

/// Count, means and centred squares of the design columns without the intercept. Moments of disjoint rows add.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for file, lab
pub struct Moments {
    n: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    /// Moments of no rows.
    pub(crate) fn none(columns: usize) -> Self {
        Self { n: 0.0, mean: vec![0.0; columns], squares: vec![0.0; columns] }
    }

    /// Moments of a block of design rows of `m` columns, the first `skip` of which are left out.
    pub(crate) fn of(cells: &[f64], m: usize, skip: usize, weights: Option<&[f64]>) -> Self {
        let mut block = Self::none(m - skip);
        for (i, row) in cells.chunks_exact(m).enumerate() {
            let w = weights.map_or(1.0, |w| w[i]);
            block.n += w;
            block.mean.iter_mut().zip(&row[skip..]).for_each(|(s, v)| *s += w * v);
        }
        block.mean.iter_mut().for_each(|s| *s /= block.n);
        for (i, row) in cells.chunks_exact(m).enumerate() {
            let w = weights.map_or(1.0, |w| w[i]);
            for ((s, mean), v) in block.squares.iter_mut().zip(&block.mean).zip(&row[skip..]) {
                *s += w * (v - mean) * (v - mean);
            }
        }
        block
    }

    /// The moments of some of the columns; those that are not there have been zero.
    pub(crate) fn choose(&self, keep: &[usize]) -> Self {
        let pick =
            |list: &[f64]| keep.iter().map(|&j| list.get(j).copied().unwrap_or(0.0)).collect();
        Self { n: self.n, mean: pick(&self.mean), squares: pick(&self.squares) }
    }

    /// Number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.mean.len()
    }

    /// Sum of sample weights.
    pub(crate) fn n(&self) -> f64 {
        self.n
    }

    /// With another set of rows added (`sign` 1) or removed (`sign` −1). The shorter one has been zero in the columns it lacks.
    pub(crate) fn plus(&self, other: &Self, sign: f64) -> Self {
        let columns = self.columns().max(other.columns());
        let n = self.n + sign * other.n;
        if n <= 0.0 {
            return Self::none(columns);
        }
        let share = sign * other.n / n;
        let mut sum = self.widened(columns);
        sum.n = n;
        let at = |list: &[f64], j: usize| list.get(j).copied().unwrap_or(0.0);
        for j in 0..columns {
            let gap = at(&other.mean, j) - sum.mean[j];
            sum.mean[j] += share * gap;
            sum.squares[j] += sign * at(&other.squares, j) + share * self.n * gap * gap;
            sum.squares[j] = sum.squares[j].max(0.0);
        }
        sum
    }

    /// Variance of every column; 1 where it does not vary, so that a prior holds it too.
    pub(crate) fn variances(&self) -> Vec<f64> {
        let variance = |(s, mean): (&f64, &f64)| {
            let v = s / self.n;
            if v > CONSTANT * mean * mean { v } else { 1.0 }
        };
        self.squares.iter().zip(&self.mean).map(variance).collect()
    }

    /// The size of what a linear function with these coefficients takes on such rows, as if columns were uncorrelated. The first
    /// coefficient is that of the intercept where there is one.
    pub(crate) fn size_of(&self, coefficients: &[f64]) -> f64 {
        let (intercepts, slopes) = coefficients.split_at(coefficients.len() - self.columns());
        let constant: f64 = intercepts.iter().sum();
        let (mut mean, mut squares) = (constant, 0.0);
        for ((slope, m), s) in slopes.iter().zip(&self.mean).zip(&self.squares) {
            mean += slope * m;
            squares += slope * slope * s / self.n;
        }
        mean.hypot(squares.sqrt())
    }

    /// With columns at the end that have been zero so far.
    pub(crate) fn widened(&self, columns: usize) -> Self {
        let longer = |values: &[f64]| {
            let mut values = values.to_vec();
            values.resize(columns.max(values.len()), 0.0);
            values
        };
        Self { n: self.n, mean: longer(&self.mean), squares: longer(&self.squares) }
    }

    /// With columns at the end that have had one value each so far, behind those that have been zero up to `columns`.
    pub(crate) fn with_constants(&self, columns: usize, values: &[f64]) -> Self {
        let mut wider = self.widened(columns);
        wider.mean.extend_from_slice(values);
        wider.squares.resize(wider.mean.len(), 0.0);
        wider
    }

    /// With column `j` at `places[j]` of `count`; the others have been zero so far.
    pub(crate) fn rearranged(&self, places: &[usize], count: usize) -> Self {
        let mut moved = Self { n: self.n, ..Self::none(count) };
        for (j, &place) in places.iter().enumerate() {
            moved.mean[place] = self.mean[j];
            moved.squares[place] = self.squares[j];
        }
        moved
    }

    /// Count, means, squares, end to end.
    pub fn to_numbers(&self) -> Vec<f64> {
        [&[self.n][..], &self.mean, &self.squares].concat()
    }

    /// What [`Moments::to_numbers`] gave; `None` where the numbers cannot be that.
    pub fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (n, rest) = numbers.split_first()?;
        let columns = rest.len() / 2;
        let sound = rest.len().is_multiple_of(2)
            && numbers.iter().all(|v| v.is_finite())
            && *n > 0.0
            && rest[columns..].iter().all(|s| *s >= 0.0);
        sound.then(|| Self {
            n: *n,
            mean: rest[..columns].to_vec(),
            squares: rest[columns..].to_vec(),
        })
    }

    /// Bytes of the numbers.
    pub(crate) fn nbytes(&self) -> usize {
        8 * (1 + 2 * self.mean.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_parts_add_and_are_removed_again() {
        let x: Vec<f64> = (0..1300).map(|i| f64::from(i * i % 97) + 1e3).collect();
        let of = |a: usize, b: usize| Moments::of(&x[a..b], 1, 0, None);
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
