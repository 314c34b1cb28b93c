//! A sample of the rows of a task that neither the order of rows nor how they were cut into blocks decides.
//!
//! The rows kept are those with the smallest hashes of their own content: inputs and class. Equal rows are one entry that counts
//! them, so the sample is the same set however the rows arrive, and samples of parts unite to the sample of the whole. Inputs that
//! are zero add nothing to a hash: a category that a part has not met does not change its rows.
//!
//! A sample lives in memory and nowhere else. It has no form as bytes: rows reach no file and no message.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::kernel;
use crate::rows::{Rows, Targets, TaskRows};

/// Most different rows that are kept of a task.
pub(crate) const MOST_ROWS: usize = 2000;
/// Most bytes of the cells of one sample: a wide task keeps fewer rows.
const MOST_BYTES: usize = 1 << 24;
/// Rows that one thread hashes at once.
const PIECE: usize = 256;

/// Rows of a task, chosen by their hashes.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(hidden)] // for cli, ingest
pub struct RowSample {
    /// Inputs of each row.
    width: usize,
    /// Names of inputs beyond the agreed ones: the last of each row.
    new_inputs: Vec<String>,
    classes: Vec<String>,
    /// By hash.
    rows: BTreeMap<u64, SampledRow>,
    /// A factor for each input, to hash with.
    factors: Vec<u64>,
}

/// A row that was kept, with all that are equal to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SampledRow {
    /// Its inputs.
    pub(crate) cells: Box<[f64]>,
    /// Its class, as a position in [`RowSample::classes`].
    pub(crate) class: usize,
    /// Sum of the weights of all copies.
    pub(crate) weight: f64,
    /// How many there are.
    pub(crate) copies: f64,
}

/// The cells of one row.
fn row_of<'a>(x: &Rows<'a>, i: usize) -> Cow<'a, [f64]> {
    match x.as_f64(i, i + 1) {
        Some(cells) => Cow::Borrowed(cells),
        None => Cow::Owned((0..x.width()).map(|j| x.get(i, j)).collect()),
    }
}

impl RowSample {
    /// A sample of no rows; `new_inputs` name the last inputs of each.
    pub(crate) fn new(width: usize, new_inputs: Vec<String>) -> Self {
        let known = width.saturating_sub(new_inputs.len());
        let named = new_inputs.iter().map(|name| mix(hash_of(name)) | 1);
        let factors = (0..known as u64).map(|j| mix(j) | 1).chain(named).collect();
        Self { width, new_inputs, classes: Vec::new(), rows: BTreeMap::new(), factors }
    }

    /// Takes rows of classes; values are not sampled. All threads of [`kernel::with_threads`] read the rows.
    pub(crate) fn add(&mut self, rows: &TaskRows<'_>) {
        let Targets::Classes { codes, names } = rows.y else { return };
        let places: Vec<usize> = names.iter().map(|name| self.place(name)).collect();
        let salts: Vec<u64> = names.iter().map(|name| hash_of(name)).collect();
        let most = self.most();
        let mut hashes = vec![0; codes.len()];
        let pieces = hashes.chunks_mut(PIECE).zip((0..).step_by(PIECE)).collect();
        kernel::each(pieces, |(hashes, first): (&mut [u64], usize)| {
            for (hash, i) in hashes.iter_mut().zip(first..) {
                *hash = self.hash(&row_of(&rows.x, i), salts[codes[i] as usize]);
            }
        });
        for (i, (&code, hash)) in codes.iter().zip(hashes).enumerate() {
            let weight = rows.weights.map_or(1.0, |w| w[i]);
            if weight <= 0.0 {
                continue;
            }
            if self.rows.len() >= most
                && self.rows.last_key_value().is_some_and(|(last, _)| hash > *last)
            {
                continue;
            }
            let class = places[code as usize];
            let entry = self.rows.entry(hash).or_insert_with(|| SampledRow {
                cells: row_of(&rows.x, i).into_owned().into(),
                class,
                weight: 0.0,
                copies: 0.0,
            });
            entry.weight += weight;
            entry.copies += 1.0;
            if self.rows.len() > most {
                self.rows.pop_last();
            }
        }
    }

    /// Most rows of this width.
    fn most(&self) -> usize {
        MOST_ROWS.min(MOST_BYTES / (8 * self.width.max(1))).max(1)
    }

    fn place(&mut self, name: &String) -> usize {
        self.classes.iter().position(|class| class == name).unwrap_or_else(|| {
            self.classes.push(name.clone());
            self.classes.len() - 1
        })
    }

    /// A sum over inputs, so that their order does not matter; folded, since whole numbers have no low bits.
    fn hash(&self, cells: &[f64], salt: u64) -> u64 {
        let mut sum = salt;
        for (v, factor) in cells.iter().zip(&self.factors) {
            // −0 is 0.
            let bits = (v + 0.0).to_bits();
            sum = sum.wrapping_add((bits ^ (bits >> 32)).wrapping_mul(*factor));
        }
        mix(sum)
    }

    /// The sample of both sets of rows.
    ///
    /// # Errors
    /// When the two are of different columns.
    pub fn merge(mut self, other: Self) -> Result<Self> {
        if self.rows.is_empty() && self.width == 0 {
            return Ok(other);
        }
        if other.rows.is_empty() {
            return Ok(self);
        }
        let known = self.width - self.new_inputs.len();
        if known != other.width - other.new_inputs.len() {
            return Err(Error::Shape {
                what: "a sample of rows",
                unit: "columns",
                expected: known,
                found: other.width - other.new_inputs.len(),
            });
        }
        let mut names = self.new_inputs.clone();
        names.extend(other.new_inputs.iter().filter(|n| !self.new_inputs.contains(n)).cloned());
        let place = |name: &String| known + names.iter().position(|n| n == name).unwrap_or(0);
        let width = known + names.len();
        self.rearrange(&place, width);
        let mut other = other;
        other.rearrange(&place, width);
        self.new_inputs.clone_from(&names);
        self.factors = Self::new(width, names).factors;
        let places: Vec<usize> = other.classes.iter().map(|name| self.place(name)).collect();
        for (hash, row) in other.rows {
            let class = places[row.class];
            let entry = self.rows.entry(hash).or_insert_with(|| SampledRow {
                cells: row.cells,
                class,
                weight: 0.0,
                copies: 0.0,
            });
            entry.weight += row.weight;
            entry.copies += row.copies;
        }
        let most = self.most();
        while self.rows.len() > most {
            self.rows.pop_last();
        }
        Ok(self)
    }

    /// Puts new inputs where `place` has them, in rows of `width`.
    fn rearrange(&mut self, place: &dyn Fn(&String) -> usize, width: usize) {
        let known = self.width - self.new_inputs.len();
        let places: Vec<usize> = (0..known).chain(self.new_inputs.iter().map(place)).collect();
        self.move_inputs(&places, width);
    }

    /// Puts input `j` at `places[j]` of `width`; the others are zero.
    pub(crate) fn move_inputs(&mut self, places: &[usize], width: usize) {
        if width == self.width && places.iter().enumerate().all(|(j, place)| j == *place) {
            return;
        }
        for row in self.rows.values_mut() {
            let mut cells = vec![0.0; width];
            for (v, place) in row.cells.iter().zip(places) {
                cells[*place] = *v;
            }
            row.cells = cells.into();
        }
        self.width = width;
    }

    /// With inputs at the end that have had one value each, behind those that have been zero up to `width`. Hashes stay those of
    /// the rows as they came.
    pub(crate) fn extend_constants(&mut self, width: usize, values: &[f64]) {
        for row in self.rows.values_mut() {
            let mut cells = row.cells.to_vec();
            cells.resize(width, 0.0);
            cells.extend_from_slice(values);
            row.cells = cells.into();
        }
        self.width = width + values.len();
    }

    /// With the new inputs at the places the model has for them, of `width`.
    #[must_use]
    pub fn placed(mut self, place: &dyn Fn(&str) -> usize, width: usize) -> Self {
        self.rearrange(&|name: &String| place(name), width);
        self.new_inputs = Vec::new();
        self
    }

    /// Inputs of each row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Names of the classes.
    pub(crate) fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The rows in the order of their hashes, which is any order but always the same.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = &SampledRow> {
        self.rows.values()
    }

    /// Half of its rows, those with the smaller hashes.
    pub(crate) fn halved(&self) -> Self {
        let keep = self.rows.len() / 2;
        let rows = self.rows.iter().take(keep).map(|(hash, row)| (*hash, row.clone())).collect();
        Self { rows, factors: self.factors.clone(), ..self.empty() }
    }

    /// The same columns and classes, and no rows.
    fn empty(&self) -> Self {
        let (new_inputs, classes) = (self.new_inputs.clone(), self.classes.clone());
        Self { width: self.width, new_inputs, classes, ..Self::default() }
    }

    /// Bytes of the cells.
    pub(crate) fn nbytes(&self) -> usize {
        8 * self.width * self.rows.len()
    }
}

/// A hash of a name.
fn hash_of(name: &str) -> u64 {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3);
    mix(name.bytes().fold(0xCBF2_9CE4_8422_2325, step))
}

/// Spreads the bits of a number over all of it (the finaliser of splitmix64).
fn mix(v: u64) -> u64 {
    let v = v.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let v = (v ^ (v >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let v = (v ^ (v >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    v ^ (v >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Rows;

    fn sample(cells: &[f64], codes: &[u32]) -> RowSample {
        let names = ["a".to_owned(), "b".to_owned()];
        let mut sample = RowSample::new(2, Vec::new());
        let y = Targets::Classes { codes, names: &names };
        sample.add(&TaskRows { x: Rows::new(cells, 2).unwrap(), y, weights: None });
        sample
    }

    #[test]
    fn the_sample_is_the_same_however_rows_are_ordered_and_cut() {
        let n = 6000;
        let row = |i: usize| [(i % 700) as f64, (i / 700) as f64 / 3.0];
        let (mut cells, mut back) = (Vec::new(), Vec::new());
        (0..n).for_each(|i| cells.extend(row(i)));
        (0..n).rev().for_each(|i| back.extend(row(i)));
        let codes: Vec<u32> = (0..n as u32).map(|i| i % 2).collect();
        let reversed: Vec<u32> = codes.iter().rev().copied().collect();
        let whole = sample(&cells, &codes);
        assert_eq!(whole.rows.len(), MOST_ROWS);
        assert_eq!(sample(&back, &reversed).rows, whole.rows);
        let cut = 2 * 1234;
        let merged = sample(&cells[..cut], &codes[..1234])
            .merge(sample(&cells[cut..], &codes[1234..]))
            .unwrap();
        assert_eq!(merged.rows, whole.rows);
    }

    #[test]
    fn equal_rows_are_one_entry_and_zeros_of_either_sign_are_equal() {
        let found = sample(&[1.0, 0.0, 1.0, -0.0, 1.0, 0.0], &[0, 0, 1]);
        let mut copies: Vec<f64> = found.rows().map(|row| row.copies).collect();
        copies.sort_by(f64::total_cmp);
        assert_eq!(copies, [1.0, 2.0]);
    }

    #[test]
    fn a_new_input_has_the_same_rows_wherever_its_column_is() {
        let names = ["a".to_owned()];
        let part = |inputs: &[&str], cells: &[f64]| {
            let inputs: Vec<String> = inputs.iter().map(|&s| s.to_owned()).collect();
            let width = 1 + inputs.len();
            let mut sample = RowSample::new(width, inputs);
            let codes = vec![0; cells.len() / width];
            let y = Targets::Classes { codes: &codes, names: &names };
            sample.add(&TaskRows { x: Rows::new(cells, width).unwrap(), y, weights: None });
            sample
        };
        let both = part(&["red", "blue"], &[2.0, 1.0, 0.0])
            .merge(part(&["blue", "red"], &[2.0, 0.0, 1.0, 3.0, 1.0, 0.0]))
            .unwrap();
        assert_eq!(both.rows.len(), 2);
        let place = |name: &str| if name == "red" { 1 } else { 2 };
        let cells: Vec<_> =
            both.placed(&place, 3).rows().map(|row| (row.cells.to_vec(), row.copies)).collect();
        assert!(cells.contains(&(vec![2.0, 1.0, 0.0], 2.0)), "{cells:?}");
        assert!(cells.contains(&(vec![3.0, 0.0, 1.0], 1.0)), "{cells:?}");
    }
}
