//! A batch of rows as columns, and its way into a row-major table.

use std::ops::{Deref, Range};

/// Memory that columns share: of an Arrow array, or a vector.
#[cfg(feature = "formats")]
type Shared = arrow_buffer::ScalarBuffer<f64>;
#[cfg(not(feature = "formats"))]
type Shared = std::sync::Arc<Vec<f64>>;

/// Rows of a file, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The number of the piece this came from.
    pub index: usize,
    /// The row of the file, from 0, at which the piece starts.
    pub first_row: u64,
    /// How many rows there are, without those left out.
    pub rows: usize,
    /// How many rows were left out for a missing value.
    pub dropped: u64,
    /// The columns, in the order wanted.
    pub columns: Vec<Column>,
    /// The cells without a value, row by row: of the rows left out, or of all rows where they are kept.
    pub gaps: Vec<Gap>,
    /// The rows that stayed, counted from `first_row`; `None` when all did.
    pub(crate) kept: Option<Vec<u32>>,
}

/// A cell without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The row, counted from the first of the piece.
    pub row: u32,
    /// The column, by its place among those wanted.
    pub column: u32,
}

/// One column of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// A number in each row.
    Numbers(Numbers),
    /// A word in each row.
    Texts(Texts),
    /// Several numbers in each row.
    Block {
        /// How many.
        width: usize,
        /// Row after row.
        cells: Numbers,
    },
}

/// A column of numbers; reads as a slice. A copy shares the memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers(pub(crate) Shared);

impl Deref for Numbers {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        &self.0
    }
}

impl From<Vec<f64>> for Numbers {
    fn from(values: Vec<f64>) -> Self {
        Self(values.into())
    }
}

/// A column of words: each distinct one once, and a code in each row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// The distinct words, in order of appearance in this batch.
    pub names: Vec<String>,
    /// For each row the number of its word in `names`.
    pub codes: Vec<u32>,
}

impl Column {
    /// How many numbers each row takes in a row-major table; none for words.
    pub fn width(&self) -> usize {
        match self {
            Self::Numbers(_) => 1,
            Self::Texts(_) => 0,
            Self::Block { width, .. } => *width,
        }
    }
}

/// Rows moved at a time: 64 rows of 64 columns are 32 kB, the size of the innermost cache.
const ROWS: usize = 64;
/// Columns moved at a time: one cache line of the table.
const COLUMNS: usize = 8;

impl Batch {
    /// Row `i` of this batch as a row of the file, from 0.
    pub fn file_row(&self, i: usize) -> u64 {
        self.first_row + self.kept.as_ref().map_or(i as u64, |kept| u64::from(kept[i]))
    }

    /// Writes rows `range` of number and block columns into a row-major table: column `place.0` of
    /// this batch goes to `out[i * stride + place.1 ..]` for the i-th row of the range. Words are
    /// passed over.
    ///
    /// # Panics
    /// If the range or a place lies outside.
    pub fn gather(
        &self,
        range: Range<usize>,
        places: &[(usize, usize)],
        out: &mut [f64],
        stride: usize,
    ) {
        assert!(range.end <= self.rows, "rows {range:?} of a batch of {}", self.rows);
        if range.is_empty() {
            return;
        }
        // Neighbours in the table are moved together, a cache line of each row at a time.
        let mut numbers: Vec<(&[f64], usize)> = Vec::with_capacity(places.len());
        for &(column, to) in places {
            match &self.columns[column] {
                Column::Numbers(values) => numbers.push((&values[range.clone()], to)),
                Column::Texts(_) => {}
                Column::Block { width, cells } => {
                    for (i, row) in range.clone().enumerate() {
                        out[i * stride + to..][..*width]
                            .copy_from_slice(&cells[row * width..][..*width]);
                    }
                }
            }
        }
        numbers.sort_by_key(|&(_, to)| to);
        for start in (0..range.len()).step_by(ROWS) {
            let end = (start + ROWS).min(range.len());
            let table = &mut out[start * stride..];
            for group in numbers.chunks(COLUMNS) {
                match <&[(&[f64], usize); COLUMNS]>::try_from(group) {
                    Ok(g) if (1..COLUMNS).all(|j| g[j].1 == g[0].1 + j) => {
                        let columns = g.map(|(values, _)| &values[start..end]);
                        tile(&columns, table, g[0].1, stride);
                    }
                    _ => {
                        for &(values, to) in group {
                            for (i, &v) in values[start..end].iter().enumerate() {
                                table[i * stride + to] = v;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Leaves out the rows that have a gap.
    pub(crate) fn without_gaps(mut self) -> Self {
        if self.gaps.is_empty() {
            return self;
        }
        let mut missing = vec![false; self.rows];
        self.gaps.iter().for_each(|gap| missing[gap.row as usize] = true);
        self.leave_out(&missing);
        self
    }

    /// The rows that have a value in all of these columns, where rows with gaps were kept; the gaps left are counted by the rows
    /// left.
    #[must_use]
    pub fn complete_in(&self, columns: Range<usize>) -> Self {
        let mut missing = vec![false; self.rows];
        let within = |gap: &&Gap| columns.contains(&(gap.column as usize));
        self.gaps.iter().filter(within).for_each(|gap| missing[gap.row as usize] = true);
        let mut complete = self.clone();
        if !missing.contains(&true) {
            return complete;
        }
        let mut places = vec![None; self.rows];
        let kept = (0..self.rows).filter(|&i| !missing[i]);
        kept.enumerate().for_each(|(to, from)| places[from] = Some(to as u32));
        let moved = |gap: &Gap| Some(Gap { row: places[gap.row as usize]?, ..*gap });
        complete.gaps = self.gaps.iter().filter_map(moved).collect();
        complete.leave_out(&missing);
        complete
    }

    /// Leaves out the rows that are marked.
    fn leave_out(&mut self, missing: &[bool]) {
        let kept: Vec<u32> = (0..self.rows as u32).filter(|&i| !missing[i as usize]).collect();
        for column in &mut self.columns {
            match column {
                Column::Numbers(values) => {
                    let stay: Vec<f64> = kept.iter().map(|&i| values[i as usize]).collect();
                    *values = stay.into();
                }
                Column::Texts(texts) => texts.keep(&kept),
                Column::Block { width, cells } => {
                    let mut stay = Vec::with_capacity(kept.len() * *width);
                    for &i in &kept {
                        stay.extend_from_slice(&cells[i as usize * *width..][..*width]);
                    }
                    *cells = stay.into();
                }
            }
        }
        self.dropped += (self.rows - kept.len()) as u64;
        self.rows = kept.len();
        self.kept = Some(kept);
    }
}

impl Batch {
    /// Puts NaN, or an empty text, into the cells without a value.
    pub(crate) fn blank_gaps(&mut self) {
        let gaps = std::mem::take(&mut self.gaps);
        for (at, column) in self.columns.iter_mut().enumerate() {
            let rows: Vec<usize> =
                gaps.iter().filter(|g| g.column as usize == at).map(|g| g.row as usize).collect();
            if rows.is_empty() {
                continue;
            }
            match column {
                Column::Numbers(values) => {
                    let mut cells = values.to_vec();
                    rows.iter().for_each(|&row| cells[row] = f64::NAN);
                    *values = cells.into();
                }
                Column::Texts(texts) => {
                    let empty = texts.names.iter().position(String::is_empty);
                    let code = empty.unwrap_or_else(|| {
                        texts.names.push(String::new());
                        texts.names.len() - 1
                    });
                    rows.iter().for_each(|&row| texts.codes[row] = code as u32);
                    texts.keep(&(0..texts.codes.len() as u32).collect::<Vec<_>>());
                }
                Column::Block { width, cells } => {
                    let mut changed = cells.to_vec();
                    rows.iter().for_each(|row| changed[row * *width..][..*width].fill(f64::NAN));
                    *cells = changed.into();
                }
            }
        }
        self.gaps = gaps;
    }
}

/// Eight columns side by side into the rows of a table: each row's part is one cache line.
#[inline]
fn tile(columns: &[&[f64]; COLUMNS], table: &mut [f64], to: usize, stride: usize) {
    let n = columns[0].len();
    let columns = columns.map(|c| &c[..n]);
    for i in 0..n {
        let row: &mut [f64; COLUMNS] =
            (&mut table[i * stride + to..][..COLUMNS]).try_into().expect("a slice of eight");
        for j in 0..COLUMNS {
            row[j] = columns[j][i];
        }
    }
}

impl Texts {
    /// Keeps the given rows, and only the names they use, still in order of appearance.
    fn keep(&mut self, kept: &[u32]) {
        let mut new = vec![u32::MAX; self.names.len()];
        let mut order = Vec::new();
        let codes = kept
            .iter()
            .map(|&i| {
                let old = self.codes[i as usize] as usize;
                if new[old] == u32::MAX {
                    new[old] = order.len() as u32;
                    order.push(old);
                }
                new[old]
            })
            .collect();
        self.names = order.iter().map(|&old| std::mem::take(&mut self.names[old])).collect();
        self.codes = codes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(rows: usize, columns: Vec<Column>) -> Batch {
        Batch { index: 0, first_row: 0, rows, dropped: 0, columns, gaps: Vec::new(), kept: None }
    }

    #[test]
    fn gathering_puts_every_cell_in_its_place() {
        let rows = 203;
        let cell = |i: usize, j: usize| (i * 100 + j) as f64;
        let mut columns: Vec<Column> = (0..19)
            .map(|j| Column::Numbers((0..rows).map(|i| cell(i, j)).collect::<Vec<_>>().into()))
            .collect();
        let cells: Vec<f64> = (0..rows).flat_map(|i| [cell(i, 19), cell(i, 20)]).collect();
        columns.push(Column::Block { width: 2, cells: cells.into() });
        let b = batch(rows, columns);
        let stride = 23;
        // Columns in an order that breaks up runs of neighbours, the block at the front.
        let mut places: Vec<(usize, usize)> = (0..19).map(|j| (j, 2 + (j * 7) % 19)).collect();
        places.push((19, 0));
        let range = 5..200;
        let mut out = vec![-1.0; range.len() * stride];
        b.gather(range.clone(), &places, &mut out, stride);
        for (k, i) in range.enumerate() {
            for &(c, to) in &places {
                assert_eq!(out[k * stride + to].to_bits(), cell(i, c).to_bits());
            }
            assert_eq!(out[k * stride + 1].to_bits(), cell(i, 20).to_bits());
            assert!(out[k * stride + 21..(k + 1) * stride].iter().all(|v| *v < 0.0));
        }
    }

    #[test]
    fn rows_left_out_take_their_words_along() {
        let texts =
            Texts { names: vec!["a".into(), "b".into(), "c".into()], codes: vec![0, 1, 2, 1] };
        let mut b =
            batch(4, vec![Column::Numbers(vec![1.0, 2.0, 3.0, 4.0].into()), Column::Texts(texts)]);
        b.gaps = vec![Gap { row: 0, column: 1 }, Gap { row: 3, column: 0 }];
        let b = b.without_gaps();
        assert_eq!((b.rows, b.dropped), (2, 2));
        assert_eq!(b.columns[0], Column::Numbers(vec![2.0, 3.0].into()));
        let left = Texts { names: vec!["b".into(), "c".into()], codes: vec![0, 1] };
        assert_eq!(b.columns[1], Column::Texts(left));
        assert_eq!((b.file_row(0), b.file_row(1)), (1, 2));
    }

    #[test]
    fn rows_without_a_target_are_left_out_and_other_gaps_stay() {
        let numbers = |cells: [f64; 4]| Column::Numbers(cells.to_vec().into());
        let mut b = batch(4, vec![numbers([1.0, 2.0, 3.0, 4.0]), numbers([5.0, 6.0, 7.0, 8.0])]);
        b.gaps = vec![
            Gap { row: 0, column: 1 },
            Gap { row: 1, column: 0 },
            Gap { row: 3, column: 0 },
            Gap { row: 3, column: 1 },
        ];
        let left = b.complete_in(1..2);
        assert_eq!((left.rows, left.dropped), (2, 2));
        assert_eq!(left.columns[0], Column::Numbers(vec![2.0, 3.0].into()));
        assert_eq!(left.gaps, [Gap { row: 0, column: 0 }]);
        assert_eq!((left.file_row(0), left.file_row(1)), (1, 2));
    }
}
