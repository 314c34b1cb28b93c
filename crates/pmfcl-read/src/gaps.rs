//! The cells of a batch that hold no value, and what is done about them.

use crate::field::Found;
use crate::scan::Piece;
use crate::{Batch, Column, Gap, Missing, ReadError};

/// The cells of a batch that hold no value.
pub(crate) struct Gaps {
    pub(crate) rows: usize,
    cells: Vec<Gap>,
    /// The first gap in reading order: row, column, what stands there.
    first: Option<(usize, usize, String)>,
}

impl Gaps {
    pub(crate) fn new(rows: usize) -> Self {
        Self { rows, cells: Vec::new(), first: None }
    }

    /// Adds a gap.
    pub(crate) fn mark(&mut self, row: usize, column: usize, value: impl FnOnce() -> String) {
        self.cells.push(Gap { row: row as u32, column: column as u32 });
        if self.first.as_ref().is_none_or(|(r, c, _)| (row, column) < (*r, *c)) {
            self.first = Some((row, column, value()));
        }
    }

    /// Adds the values of a column that are not finite; `width` values are a row.
    pub(crate) fn infinities(&mut self, column: usize, values: &[f64], width: usize) {
        // One more than an exponent of ones spills into the sign: no comparison, no way out of the
        // loop, so it runs on whole registers.
        const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
        let spilt = values
            .iter()
            .fold(0, |spilt, v| spilt | (v.to_bits() & EXPONENT).wrapping_add(1 << 52));
        if spilt >> 63 == 1 {
            for (i, value) in values.iter().enumerate().filter(|(_, v)| !v.is_finite()) {
                self.mark(i / width, column, || value.to_string());
            }
        }
    }

    /// The batch with what is to be done about its gaps, or the error for the first of them.
    pub(crate) fn finish(
        mut self,
        file: &str,
        found: &[Found],
        missing: Missing,
        piece: &Piece,
        columns: Vec<Column>,
    ) -> Result<Batch, ReadError> {
        self.cells.sort_unstable_by_key(|gap| (gap.row, gap.column));
        self.cells.dedup();
        let mut batch = Batch {
            index: piece.index,
            first_row: piece.first_row,
            rows: self.rows,
            dropped: 0,
            columns,
            gaps: self.cells,
            kept: None,
        };
        match (self.first, missing) {
            (None, _) => Ok(batch),
            (Some(_), Missing::Drop) => Ok(batch.without_gaps()),
            (Some(_), Missing::Keep) => {
                batch.blank_gaps();
                Ok(batch)
            }
            (Some((row, column, value)), Missing::Refuse | Missing::Unstated) => {
                Err(ReadError::MissingValue {
                    file: file.into(),
                    place: piece.place(row),
                    column: found[column].name.clone(),
                    value,
                })
            }
        }
    }
}
