//! From input row to design row.

use super::{Basis, BasisError, Candidate, Map};
use crate::error::{Error, Result};
use crate::rows::Rows;
use crate::theta::Theta;

/// An input whose gaps are filled with its mean over all rows learned.
///
/// In a row that misses the value the input is 0 and `indicator` is 1, so that a summary holds sums and counts of what is there.
/// Which number belongs into the gap is known when everything learned is solved, and not before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)] // for file, ingest, python
pub struct Fill {
    /// The input with gaps.
    pub value: usize,
    /// The input that is 1 where it has one; several may share it.
    pub indicator: usize,
}

/// From input row to design row: the basis, with an intercept column in front where wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    map: Map,
    intercept: bool,
    clip: Option<f64>,
    fills: Vec<Fill>,
    /// What goes into the gaps of each of `fills`; empty while rows are summarized, which keeps gaps apart.
    means: Vec<f64>,
}

impl Design {
    /// A design of a fixed basis map and, where `intercept`, a leading column of ones.
    pub fn new(map: Map, intercept: bool) -> Self {
        Self { map, intercept, clip: None, fills: Vec::new(), means: Vec::new() }
    }

    /// The same with inputs whose gaps are filled with their means.
    ///
    /// # Errors
    /// When the basis is not linear, there is no intercept, or an input is not there: means are linear in sums over rows, which
    /// a design has in its intercept.
    #[doc(hidden)] // for file, ingest, python
    pub fn with_fills(self, fills: Vec<Fill>) -> Result<Self> {
        if fills.is_empty() {
            return Ok(Self { fills, means: Vec::new(), ..self });
        }
        self.check_fillable()?;
        let count = self.inputs();
        let bad = |fill: &&Fill| {
            fill.value >= count || fill.indicator >= count || fill.value == fill.indicator
        };
        if let Some(fill) = fills.iter().find(bad) {
            let reason = format!("{fill:?} names an input that is not there, of {count}");
            return Err(Error::State { reason });
        }
        Ok(Self { fills, means: Vec::new(), ..self })
    }

    /// Refuses to fill gaps with means where rows are not mapped linearly, or their sums are not kept.
    pub(crate) fn check_fillable(&self) -> Result<()> {
        let reason = if !self.map.is_identity() || self.clip.is_some() {
            format!(
                "the mean of all rows is put in after they were summarized, which takes the linear basis without a clip, not \
                 {}; fill the gaps before, or drop the rows",
                self.map.basis()
            )
        } else if !self.intercept {
            "a model without an intercept keeps no sums of its inputs; give it an intercept, or drop the rows"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Unsupported { operation: "filling gaps with means", reason })
    }

    /// The inputs whose gaps are filled with their means.
    #[doc(hidden)] // for python
    pub fn fills(&self) -> &[Fill] {
        &self.fills
    }

    /// The same design, which puts these means into the gaps of rows: one for each of its fills.
    #[must_use]
    pub(crate) fn with_means(&self, means: Vec<f64>) -> Self {
        Self { means, ..self.clone() }
    }

    /// Design columns with gaps, their indicators, and what goes into the gaps.
    pub(crate) fn filled_columns(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let first = usize::from(self.intercept);
        self.fills
            .iter()
            .zip(&self.means)
            .map(move |(fill, mean)| (fill.value + first, fill.indicator + first, *mean))
    }

    /// Whether two designs have the same columns, whatever their gaps are filled with.
    pub(crate) fn has_columns_of(&self, other: &Self) -> bool {
        self.map == other.map && self.intercept == other.intercept && self.clip == other.clip
    }

    /// The same with features scaled down where they are longer than `clip`.
    #[must_use]
    pub fn with_clip(self, clip: Option<f64>) -> Self {
        Self { clip, ..self }
    }

    /// The longest features of a row, where they are bounded.
    pub fn clip(&self) -> Option<f64> {
        self.clip
    }

    /// The inputs as they are and, where `intercept`, a leading column of ones.
    ///
    /// # Errors
    /// When there are no inputs, or too many.
    pub fn linear(inputs: usize, intercept: bool) -> Result<Self> {
        Ok(Self::new(Basis::default().fix(&[], inputs)?, intercept))
    }

    /// Input columns.
    pub fn inputs(&self) -> usize {
        self.map.inputs()
    }

    /// Design columns `m`, the intercept included.
    pub fn width(&self) -> usize {
        self.map.width() + usize::from(self.intercept)
    }

    /// Whether column 0 is the intercept.
    pub fn intercept(&self) -> bool {
        self.intercept
    }

    /// The basis map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The same design in which the columns outside a candidate are 0 and not computed.
    pub(crate) fn masked(&self, candidate: &Candidate) -> Self {
        Self { map: self.map.masked(candidate), ..self.clone() }
    }

    /// The same design in which groups of columns that count for nothing are 0 and not computed.
    pub(crate) fn without_unused(&self, theta: &Theta) -> Option<Self> {
        let first = usize::from(self.intercept);
        let counts =
            |j: usize| (0..theta.targets()).any(|k| theta.column(k)[first + j].abs() > 0.0);
        Some(Self { map: self.map.without_unused(counts)?, ..self.clone() })
    }

    /// Whether these are parameters of the inputs alone, as they are.
    pub(crate) fn is_line(&self, theta: &Theta) -> bool {
        let counts = |j: usize| (0..theta.targets()).any(|k| theta.column(k)[j].abs() > 0.0);
        let first = usize::from(self.intercept);
        self.map.line().any(|j| counts(j + first))
    }

    /// The design that has the columns of a candidate alone.
    ///
    /// # Errors
    /// When the candidate is of another design.
    pub(crate) fn restricted(&self, candidate: &Candidate) -> Result<Self> {
        Ok(Self { map: self.map.restricted(candidate)?, ..self.clone() })
    }

    /// The columns of a candidate, the intercept included.
    pub(crate) fn columns_of(&self, candidate: &Candidate) -> Vec<usize> {
        let first = usize::from(self.intercept);
        (0..first).chain(candidate.columns.iter().map(|j| j + first)).collect()
    }

    /// The columns that are computed, the intercept included; `None` where all are.
    pub(crate) fn computed_columns(&self) -> Option<Vec<usize>> {
        let first = usize::from(self.intercept);
        let columns = self.map.computed_columns()?;
        Some((0..first).chain(columns.into_iter().map(|j| j + first)).collect())
    }

    /// Whether `wider` is this design with inputs added at the end; only the linear basis can grow.
    pub(crate) fn extends_to(&self, wider: &Self) -> bool {
        self.map.is_identity()
            && wider.map.is_identity()
            && self.intercept == wider.intercept
            && self.clip == wider.clip
            && self.inputs() <= wider.inputs()
    }

    /// The design with `count` inputs more, at the end.
    ///
    /// # Errors
    /// When the basis is not the linear one, whose columns alone do not depend on the number of inputs.
    pub fn with_inputs(&self, count: usize) -> Result<Self> {
        if count > 0 && !self.map.is_identity() {
            return Err(Error::Unsupported {
                operation: "a new input",
                reason: format!(
                    "the basis {} was fixed for {} inputs; only the linear basis can grow",
                    self.map.basis(),
                    self.inputs()
                ),
            });
        }
        if count == 0 {
            return Ok(self.clone());
        }
        let map = super::Basis::default().fix(&[], self.inputs() + count)?;
        Ok(Self { map, ..self.clone() })
    }

    /// Whether a design row is the row of inputs, after the intercept.
    pub(crate) fn is_plain(&self) -> bool {
        self.map.is_identity() && self.clip.is_none() && self.means.is_empty()
    }

    /// Writes the design rows of `x[from..]` into `out`, `stride` apart.
    pub(crate) fn write(
        &self,
        x: &Rows<'_>,
        from: usize,
        out: &mut [f64],
        stride: usize,
        scale: Option<&[f64]>,
    ) -> Result<(), BasisError> {
        let Some(clip) = self.clip else {
            return self.write_unclipped(x, from, out, stride, scale);
        };
        self.write_unclipped(x, from, out, stride, None)?;
        let (offset, width) = (usize::from(self.intercept), self.width());
        for (i, row) in out.chunks_exact_mut(stride).enumerate() {
            clip_row(&mut row[offset..width], clip);
            if let Some(scale) = scale {
                row[..width].iter_mut().for_each(|v| *v *= scale[i]);
            }
        }
        Ok(())
    }

    /// The same without the clip.
    pub(crate) fn write_unclipped(
        &self,
        x: &Rows<'_>,
        from: usize,
        out: &mut [f64],
        stride: usize,
        scale: Option<&[f64]>,
    ) -> Result<(), BasisError> {
        let offset = usize::from(self.intercept);
        if self.intercept {
            for (i, row) in out.chunks_exact_mut(stride).enumerate() {
                row[0] = scale.map_or(1.0, |s| s[i]);
            }
        }
        if self.map.is_identity() {
            x.copy_into(from, out, stride, offset, scale);
            self.fill_gaps(out, stride);
            return Ok(());
        }
        let to = from + out.len() / stride;
        #[cfg(test)]
        tests::MAPPED.with(|count| count.set(count.get() + to - from));
        match x.as_f64(from, to) {
            Some(rows) => self.map.apply(rows, out, stride, offset)?,
            None => {
                let mut widened = Vec::with_capacity((to - from) * x.width());
                x.slice(from, to).append_to(&mut widened);
                self.map.apply(&widened, out, stride, offset)?;
            }
        }
        if let Some(scale) = scale {
            for (row, s) in out.chunks_exact_mut(stride).zip(scale) {
                for v in &mut row[offset..self.width()] {
                    *v *= s;
                }
            }
        }
        Ok(())
    }
}

impl Design {
    /// Puts means into the gaps of design rows, where they are known.
    fn fill_gaps(&self, out: &mut [f64], stride: usize) {
        if self.means.is_empty() {
            return;
        }
        for row in out.chunks_exact_mut(stride) {
            for (value, indicator, mean) in self.filled_columns() {
                row[value] += mean * row[indicator];
            }
            for (_, indicator, _) in self.filled_columns() {
                row[indicator] = 0.0;
            }
        }
    }
}

/// Scales features down to a norm of `clip`; those that are not finite are left for the checks after.
fn clip_row(row: &mut [f64], clip: f64) {
    let largest = row.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
    if !(largest > 0.0 && largest.is_finite()) {
        return;
    }
    // Relative to the largest, so that nothing overflows.
    let root = row.iter().map(|v| (v / largest) * (v / largest)).sum::<f64>().sqrt();
    if largest * root > clip {
        row.iter_mut().for_each(|v| *v = (*v / largest) * (clip / root));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        /// Rows that this thread has mapped through a basis other than the linear one.
        pub(crate) static MAPPED: Cell<usize> = const { Cell::new(0) };
    }
}
