//! Summaries that are kept as sums.

use std::sync::Arc;

use super::{ACCURATE_CONDITION, MOST, Rest, Sums};
use crate::error::{Error, Result};
use crate::summary::{Form, Summary};

impl Summary {
    /// A summary that is kept as sums.
    ///
    /// # Errors
    /// When sums have overflowed, or nearly so.
    pub(in crate::summary) fn of_sums(n: f64, target_sum: Vec<f64>, sums: Sums) -> Result<Self> {
        let (m, p) = sums.rest.shape();
        let large = |v: f64| v.is_nan() || v.abs() > MOST;
        let feature = (0..m).find(|&j| large(sums.xx(j)) || large(sums.first[j].powi(2)));
        let target = || {
            let wrong = |k: &usize| {
                large(sums.yy(*k)) || large(sums.first[m + k].powi(2)) || large(target_sum[*k])
            };
            (0..p).find(wrong).map(|k| m + k)
        };
        match feature.or_else(target).or(large(n).then_some(0)) {
            Some(column) => Err(Error::Overflow { column }),
            None => Ok(Self { n, m, p, target_sum, form: Form::Sums(Arc::new(sums)) }),
        }
    }

    /// The same with the triangle in the place of the sums.
    pub(crate) fn into_triangle(mut self) -> Self {
        self.echelon_mut();
        self
    }

    /// Whether squares are so far from overflow that many such summaries can be added.
    pub(crate) fn is_small(&self) -> bool {
        let small = |v: f64| v < 1e200;
        self.column_squares().into_iter().all(small) && (0..self.p).all(|k| small(self.squares(k)))
    }

    /// The sums, where the summary is kept as such.
    pub(crate) fn sums(&self) -> Option<&Sums> {
        match &self.form {
            Form::Triangle(_) => None,
            Form::Sums(sums) => Some(sums),
        }
    }

    /// The first row of `R`, where column 0 is not zero in all rows: with an intercept the means, times the root of `n`.
    pub(crate) fn first_row(&self) -> Option<&[f64]> {
        match self.sums() {
            Some(sums) => Some(&sums.first[..self.m]).filter(|first| first[0] > 0.0),
            None if self.pivots().next() == Some(0) => Some(self.row(0).1),
            None => None,
        }
    }

    /// Whether both are the same sums, of which nobody has asked for the triangle.
    pub(crate) fn has_same_sums(&self, other: &Summary) -> bool {
        match (&self.form, &other.form) {
            (Form::Sums(a), Form::Sums(b)) => Arc::ptr_eq(a, b) && a.echelon.get().is_none(),
            _ => false,
        }
    }

    /// Whether the summary is kept as sums.
    pub(crate) fn is_summed(&self) -> bool {
        self.sums().is_some()
    }

    /// Whether it has sums that were made already.
    fn has_made_sums(&self) -> bool {
        self.sums().is_some_and(|sums| matches!(sums.rest, Rest::Made(_)))
    }

    /// The rank, or the most it can be where the triangle has not been asked for.
    pub(crate) fn rank_at_most(&self) -> usize {
        match self.sums() {
            Some(sums) if sums.echelon.get().is_none() => sums.most_rank(),
            _ => self.rank(),
        }
    }

    /// Whether there are more rows than columns, so that the least loss is more than rounding.
    pub(crate) fn has_residual(&self) -> bool {
        self.sums().is_none_or(|sums| sums.rows.is_none_or(|rows| rows > self.m as u64))
    }

    /// Whether sums of products would keep eight digits of this summary; see `echelon::loses_digits`.
    pub(crate) fn may_be_summed(&self) -> bool {
        if self.is_summed() || self.is_diagonal() {
            return true;
        }
        let mut squares = vec![0.0; self.m];
        for (pivot, r, _) in self.iter().filter(|(pivot, ..)| *pivot > 0) {
            squares[pivot..].iter_mut().zip(r).for_each(|(s, v)| *s += v * v);
        }
        let kept = |(j, r): (usize, f64)| (r * ACCURATE_CONDITION).powi(2) >= squares[j];
        self.iter().filter(|(j, ..)| *j > 0).map(|(j, r, _)| (j, r[0])).all(kept)
    }

    /// The sums of these summaries, each times its factor. `base`, where there is one, is changed in place if nobody else has it.
    ///
    /// # Errors
    /// When sums overflow, or shapes differ.
    pub(crate) fn added_up<'a>(
        base: Option<Summary>,
        (m, p): (usize, usize),
        parts: impl Iterator<Item = (&'a Summary, f64)>,
    ) -> Result<Summary> {
        let mut total = base;
        for (part, factor) in parts {
            let Some(sum) = &mut total else {
                let empty = Sums::empty(m, p);
                total = Some(if part.has_made_sums() && (factor - 1.0).abs() == 0.0 {
                    part.clone()
                } else {
                    let mut sum = Self::of_sums(0.0, vec![0.0; p], empty)?;
                    sum.add_summary(part, factor)?;
                    sum
                });
                continue;
            };
            sum.add_summary(part, factor)?;
        }
        match total {
            Some(total) => Self::of_sums_again(total),
            None => Ok(Summary::empty(m, p)),
        }
    }

    fn of_sums_again(self) -> Result<Self> {
        match self.form {
            Form::Sums(sums) if Arc::strong_count(&sums) == 1 => {
                Self::of_sums(self.n, self.target_sum, Arc::unwrap_or_clone(sums))
            }
            form => Ok(Self { form, ..self }),
        }
    }

    /// Adds another summary, times `factor`, to the sums.
    fn add_summary(&mut self, part: &Summary, factor: f64) -> Result<()> {
        self.check_shape(part)?;
        let sums = self.sums_mut();
        match &part.form {
            Form::Sums(other) => sums.add(other, factor),
            Form::Triangle(_) => sums.add_triangle(part, factor),
        }
        self.n += factor * part.n;
        self.target_sum.iter_mut().zip(&part.target_sum).for_each(|(s, v)| *s += factor * v);
        Ok(())
    }

    /// Multiplies the sums.
    pub(in crate::summary) fn scale_sums(&mut self, factor: f64) {
        self.sums_mut().scale(factor);
        self.n *= factor;
        self.target_sum.iter_mut().for_each(|v| *v *= factor);
    }

    /// The sums to change; those of a triangle where there are none.
    fn sums_mut(&mut self) -> &mut Sums {
        if let Form::Triangle(_) = self.form {
            let mut sums = Sums::empty(self.m, self.p);
            sums.add_triangle(self, 1.0);
            self.form = Form::Sums(Arc::new(sums));
        }
        match &mut self.form {
            Form::Sums(sums) => Arc::make_mut(sums),
            Form::Triangle(_) => unreachable!("replaced above"),
        }
    }

    /// The same with other targets: target `k` is the `from(k)`-th of these, or zero in all rows. `None` for a triangle.
    pub(in crate::summary) fn sums_with_targets(
        &self,
        count: usize,
        from: impl Fn(usize) -> Option<usize>,
    ) -> Option<Summary> {
        if count == self.p && (0..count).all(|k| from(k) == Some(k)) {
            return self.is_summed().then(|| self.clone());
        }
        let sums = self.sums()?.with_targets(count, &from);
        let target_sum = (0..count).map(|k| from(k).map_or(0.0, |k| self.target_sum[k])).collect();
        Some(Self { p: count, target_sum, form: Form::Sums(Arc::new(sums)), ..*self })
    }
}
