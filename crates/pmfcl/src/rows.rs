//! Stage 1, **read**: a borrowed table of numbers, the only matrix in the public interface.

use crate::error::{Error, ROW_WEIGHT, Result};

/// Numbers as they lie in the caller's memory.
#[derive(Debug, Clone, Copy)]
enum Cells<'a> {
    F64(&'a [f64]),
    F32(&'a [f32]),
    /// The column of each row that is 1; all others are 0.
    Indicators(&'a [u32]),
}

/// A row-major table of numbers, borrowed from the caller.
///
/// `f32` is widened on the way in; sums are always `f64`. That values are finite is checked while
/// they are summarized, where every value is touched anyway.
///
/// ```
/// use pmfcl::Rows;
/// let x = Rows::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2)?;
/// assert_eq!((x.len(), x.width()), (3, 2));
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    cells: Cells<'a>,
    len: usize,
    width: usize,
}

impl<'a> Rows<'a> {
    /// A table of `cells.len() / width` rows.
    ///
    /// # Errors
    /// When `width` is 0 or does not divide the number of cells.
    pub fn new(cells: &'a [f64], width: usize) -> Result<Self> {
        Ok(Self { len: count(cells.len(), width)?, cells: Cells::F64(cells), width })
    }

    /// The same for single precision.
    ///
    /// # Errors
    /// As [`Rows::new`].
    pub fn from_f32(cells: &'a [f32], width: usize) -> Result<Self> {
        Ok(Self { len: count(cells.len(), width)?, cells: Cells::F32(cells), width })
    }

    /// A table of zeros with a 1 in each row, in the column that `codes` say, below `width`.
    pub(crate) fn indicators(codes: &'a [u32], width: usize) -> Self {
        debug_assert!(codes.iter().all(|code| (*code as usize) < width));
        Self { len: codes.len(), cells: Cells::Indicators(codes), width }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// One cell, widened.
    pub fn get(&self, row: usize, column: usize) -> f64 {
        match self.cells {
            Cells::F64(c) => c[row * self.width + column],
            Cells::F32(c) => f64::from(c[row * self.width + column]),
            Cells::Indicators(codes) => f64::from(u8::from(codes[row] as usize == column)),
        }
    }

    /// Rows `from .. to`.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> Rows<'a> {
        let span = from * self.width..to * self.width;
        let cells = match self.cells {
            Cells::F64(c) => Cells::F64(&c[span]),
            Cells::F32(c) => Cells::F32(&c[span]),
            Cells::Indicators(codes) => Cells::Indicators(&codes[from..to]),
        };
        Rows { cells, len: to - from, width: self.width }
    }

    /// The cells of rows `from .. to` without a copy, where they are `f64` already.
    pub(crate) fn as_f64(&self, from: usize, to: usize) -> Option<&'a [f64]> {
        match self.cells {
            Cells::F64(c) => Some(&c[from * self.width..to * self.width]),
            Cells::F32(_) | Cells::Indicators(_) => None,
        }
    }

    /// The column of each row that is 1, where all others are 0 by the way the table was made.
    pub(crate) fn as_indicators(&self) -> Option<&'a [u32]> {
        match self.cells {
            Cells::Indicators(codes) => Some(codes),
            Cells::F64(_) | Cells::F32(_) => None,
        }
    }

    /// Copies rows `from ..` into `out`, `stride` apart, starting at `offset` within each row, times
    /// `scale[i]` where a scale is given.
    pub(crate) fn copy_into(
        &self,
        from: usize,
        out: &mut [f64],
        stride: usize,
        offset: usize,
        scale: Option<&[f64]>,
    ) {
        let w = self.width;
        match (self.cells, scale) {
            (Cells::F64(c), None) => {
                let source = c[from * w..].chunks_exact(w);
                for (row, src) in out.chunks_exact_mut(stride).zip(source) {
                    row[offset..offset + w].copy_from_slice(src);
                }
            }
            (Cells::F64(c), Some(s)) => {
                let source = c[from * w..].chunks_exact(w);
                for ((row, src), &s) in out.chunks_exact_mut(stride).zip(source).zip(s) {
                    for (o, &v) in row[offset..offset + w].iter_mut().zip(src) {
                        *o = v * s;
                    }
                }
            }
            (Cells::F32(c), _) => {
                let source = c[from * w..].chunks_exact(w);
                for (i, (row, src)) in out.chunks_exact_mut(stride).zip(source).enumerate() {
                    let s = scale.map_or(1.0, |s| s[i]);
                    for (o, &v) in row[offset..offset + w].iter_mut().zip(src) {
                        *o = f64::from(v) * s;
                    }
                }
            }
            (Cells::Indicators(codes), _) => {
                for (i, (row, code)) in out.chunks_exact_mut(stride).zip(&codes[from..]).enumerate()
                {
                    row[offset..offset + w].fill(0.0);
                    row[offset + *code as usize] = scale.map_or(1.0, |s| s[i]);
                }
            }
        }
    }

    /// Appends all cells to `out`, widened.
    pub(crate) fn append_to(&self, out: &mut Vec<f64>) {
        match self.cells {
            Cells::F64(c) => out.extend_from_slice(c),
            Cells::F32(c) => out.extend(c.iter().map(|&v| f64::from(v))),
            Cells::Indicators(codes) => {
                let from = out.len();
                out.resize(from + codes.len() * self.width, 0.0);
                self.copy_into(0, &mut out[from..], self.width, 0, None);
            }
        }
    }

    /// The first cell that is not finite: row, column, value.
    pub(crate) fn first_not_finite(&self) -> Option<(usize, usize, f64)> {
        let at = match self.cells {
            Cells::F64(c) => c.iter().position(|v| !v.is_finite()),
            Cells::F32(c) => c.iter().position(|v| !v.is_finite()),
            Cells::Indicators(_) => None,
        }?;
        let (row, column) = (at / self.width, at % self.width);
        Some((row, column, self.get(row, column)))
    }
}

/// What the rows of a task are to predict.
#[derive(Debug, Clone, Copy)]
pub enum Targets<'a> {
    /// Numbers, one column for each target.
    Values(Rows<'a>),
    /// A class for each row.
    Classes {
        /// The class of each row, as a position in `names`.
        codes: &'a [u32],
        /// Names of the classes; some may have no row.
        names: &'a [String],
    },
}

impl<'a> From<Rows<'a>> for Targets<'a> {
    fn from(values: Rows<'a>) -> Self {
        Self::Values(values)
    }
}

impl<'a> Targets<'a> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Classes { codes, .. } => codes.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows `from .. to`.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> Targets<'a> {
        match *self {
            Self::Values(values) => Self::Values(values.slice(from, to)),
            Self::Classes { codes, names } => Self::Classes { codes: &codes[from..to], names },
        }
    }
}

/// The rows of a task: inputs, what they are to predict, and sample weights.
///
/// ```
/// use pmfcl::{Labels, Rows, TaskRows};
/// let x = Rows::new(&[1.0, 2.0, 3.0], 1)?;
/// let values = TaskRows::new(x, Rows::new(&[2.0, 4.1, 5.9], 1)?);
/// let labels = Labels::new(&["low", "low", "high"]);
/// let classes = TaskRows::new(x, &labels).weighted(&[1.0, 1.0, 2.0][..]);
/// assert_eq!(values.len(), classes.len());
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TaskRows<'a> {
    /// Inputs.
    pub x: Rows<'a>,
    /// What they are to predict.
    pub y: Targets<'a>,
    /// Sample weights, 1 where there are none; 3 counts as three copies of the row.
    pub weights: Option<&'a [f64]>,
}

impl<'a> TaskRows<'a> {
    /// Rows without sample weights.
    pub fn new(x: Rows<'a>, y: impl Into<Targets<'a>>) -> Self {
        Self { x, y: y.into(), weights: None }
    }

    /// The same rows with sample weights.
    #[must_use]
    pub fn weighted(self, weights: impl Into<Option<&'a [f64]>>) -> Self {
        Self { weights: weights.into(), ..self }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.x.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.x.is_empty()
    }

    /// Rows `from .. to`.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> TaskRows<'a> {
        Self {
            x: self.x.slice(from, to),
            y: self.y.slice(from, to),
            weights: self.weights.map(|w| &w[from..to]),
        }
    }

    /// One target and one weight for each row, weights positive, codes within the names.
    pub(crate) fn check(&self) -> Result<()> {
        let shape = |what, unit, expected: usize, found: usize| {
            if expected == found {
                Ok(())
            } else {
                Err(Error::Shape { what, unit, expected, found })
            }
        };
        match self.y {
            Targets::Values(values) => {
                shape("the target table", "rows", self.x.len(), values.len())?;
            }
            Targets::Classes { codes, names } => {
                shape("the list of labels", "rows", self.x.len(), codes.len())?;
                if let Some(code) = codes.iter().find(|&&c| c as usize >= names.len()) {
                    return Err(Error::Range {
                        what: "a class code",
                        value: f64::from(*code),
                        must: "below the number of class names",
                    });
                }
            }
        }
        let Some(weights) = self.weights else { return Ok(()) };
        shape("the list of sample weights", "numbers", self.x.len(), weights.len())?;
        match weights.iter().position(|&w| !(w > 0.0 && w.is_finite())) {
            Some(i) => {
                Err(Error::Weight { what: ROW_WEIGHT, at: i.to_string(), value: weights[i] })
            }
            None => Ok(()),
        }
    }
}

fn count(cells: usize, width: usize) -> Result<usize> {
    if width == 0 {
        return Err(Error::Empty { what: "the table (it has no columns)" });
    }
    if !cells.is_multiple_of(width) {
        return Err(Error::Shape {
            what: "the last row",
            unit: "columns",
            expected: width,
            found: cells % width,
        });
    }
    Ok(cells / width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ragged_table_is_refused() {
        assert!(matches!(Rows::new(&[1.0, 2.0, 3.0], 2), Err(Error::Shape { found: 1, .. })));
        assert!(matches!(Rows::new(&[], 0), Err(Error::Empty { .. })));
    }

    #[test]
    fn indicators_are_a_table_with_one_1_in_each_row() {
        let table = [0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0];
        let codes = [1, 2, 0];
        let (rows, cells) = (Rows::indicators(&codes, 3), Rows::new(&table, 3).unwrap());
        let (mut all, mut some) = (vec![7.0], [9.0; 8]);
        rows.append_to(&mut all);
        assert_eq!(all[1..], table);
        rows.slice(1, 3).copy_into(0, &mut some, 4, 1, Some(&[2.0, 3.0]));
        let expected = [9.0, 0.0, 0.0, 2.0, 9.0, 3.0, 0.0, 0.0];
        assert_eq!(some.map(f64::to_bits), expected.map(f64::to_bits));
        let get = |rows: Rows<'_>| (0..9).map(|i| rows.get(i / 3, i % 3)).collect::<Vec<_>>();
        assert_eq!(get(rows), get(cells));
    }

    #[test]
    fn single_precision_is_widened_and_scaled() {
        let cells = [1.5f32, 2.0, -3.0, 4.0];
        let rows = Rows::from_f32(&cells, 2).unwrap();
        let mut out = [0.0; 6];
        rows.copy_into(0, &mut out, 3, 1, Some(&[1.0, 2.0]));
        assert_eq!(out.map(f64::to_bits), [0.0, 1.5, 2.0, 0.0, -6.0, 8.0].map(f64::to_bits));
    }
}
