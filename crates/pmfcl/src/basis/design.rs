//! From input row to design row.

use super::{Basis, BasisError, Candidate, Map};
use crate::error::{Error, Result};
use crate::rows::Rows;
use crate::theta::Theta;

/// From input row to design row: the basis, with an intercept column in front where wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    map: Map,
    intercept: bool,
    clip: Option<f64>,
}

impl Design {
    /// A design of a fixed basis map and, where `intercept`, a leading column of ones.
    pub fn new(map: Map, intercept: bool) -> Self {
        Self { map, intercept, clip: None }
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
        Ok(Self::new(map, self.intercept).with_clip(self.clip))
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
