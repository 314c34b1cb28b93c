//! A hash of the rows of a task, to notice that the same rows come again.
//!
//! The hash of a row is a sum over its cells that are not zero, each multiplied with a key of the name of its column; the hash of a
//! task is the sum over its rows, each mixed. So neither the order of rows and columns nor the way they were cut matters, categories
//! that came later change nothing, parts add, and rows that are removed are subtracted. It notices repetition; against somebody who
//! makes up rows to match it is no protection.
//!
//! A row is hashed by the multilinear family (Carter and Wegman, 1979): the bits of every cell times a key of 64 bits, summed in 128
//! bits. Rows that differ in any cell collide for at most one key in 2⁶³; that is one multiplication per cell.

use crate::rows::{Targets, TaskRows};

/// The sum of the hashes of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[doc(hidden)] // for ingest, python
pub struct Content([u64; 4]);

/// Names of inputs and targets, hashed once.
#[derive(Debug, Clone)]
#[doc(hidden)] // for ingest, python
pub struct ContentKeys {
    inputs: Vec<u64>,
    targets: Vec<String>,
}

const LANES: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];

/// Both halves of the product, so that every bit of the factors reaches every bit of the result.
#[inline]
fn product(a: u64, b: u64) -> (u64, u64) {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64, (wide >> 64) as u64)
}

fn name_hash(name: &str) -> u64 {
    name.bytes().fold(LANES[0], |hash, byte| {
        let (low, high) = product(hash ^ u64::from(byte), LANES[1]);
        low ^ high.rotate_left(17)
    })
}

/// The key of a column: odd, so that no cell is lost.
fn column_key(name: &str) -> u64 {
    let (low, high) = product(name_hash(name) ^ LANES[2], LANES[0]);
    (low ^ high.rotate_left(23)) | 1
}

/// A cell times its key. Zero, of either sign, gives 0. In integers alone: moving numbers between the two kinds of registers costs
/// more than the product.
#[inline]
fn cell(value: f64, key: u64) -> u128 {
    let bits = value.to_bits();
    u128::from(if bits << 1 == 0 { 0 } else { bits }) * u128::from(key)
}

/// The cells of a row times their keys. One sum: two of them are put into one vector register by the compiler, and wait for it.
fn row_hash(values: &[f64], keys: &[u64]) -> u128 {
    values.iter().zip(keys).fold(0, |sum, (value, key)| sum.wrapping_add(cell(*value, *key)))
}

impl ContentKeys {
    /// The names under which cells are hashed: those of inputs (`age`, `colour=red`) and of targets.
    pub fn new(inputs: impl IntoIterator<Item = impl AsRef<str>>, targets: &[String]) -> Self {
        let inputs = inputs.into_iter().map(|name| column_key(name.as_ref())).collect();
        Self { inputs, targets: targets.to_vec() }
    }
}

impl Content {
    /// Adds rows; there is a key for each of their inputs.
    pub fn add(&mut self, keys: &ContentKeys, rows: &TaskRows<'_>) {
        let target = |k: usize| keys.targets.get(k).map_or("", String::as_str);
        let targets: Vec<u64> = match &rows.y {
            Targets::Classes { names, .. } => {
                names.iter().map(|class| column_key(&format!("{}={class}", target(0)))).collect()
            }
            Targets::Values(values) => (0..values.width()).map(|k| column_key(target(k))).collect(),
        };
        let weight = column_key("sample weight");
        let mut copy = Vec::new();
        for i in 0..rows.x.len() {
            let x = if let Some(x) = rows.x.as_f64(i, i + 1) {
                x
            } else {
                copy.clear();
                rows.x.slice(i, i + 1).append_to(&mut copy);
                &copy
            };
            let mut sum = row_hash(x, &keys.inputs);
            let mut put = |key: u64, value: f64| sum = sum.wrapping_add(cell(value, key));
            match &rows.y {
                Targets::Values(values) => {
                    targets.iter().enumerate().for_each(|(k, key)| put(*key, values.get(i, k)));
                }
                Targets::Classes { codes, .. } => put(targets[codes[i] as usize], 1.0),
            }
            if let Some(weights) = rows.weights {
                put(weight, weights[i]);
            }
            let (low, high) = (sum as u64, (sum >> 64) as u64);
            for (lane, constant) in self.0.iter_mut().zip(LANES) {
                let (low, high) = product(low ^ constant, high ^ constant.rotate_left(29));
                *lane = lane.wrapping_add(low ^ high.rotate_left(31));
            }
        }
    }

    /// The rows of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].wrapping_add(other.0[i])))
    }

    /// These rows without those of `part`.
    #[must_use]
    pub fn minus(&self, part: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].wrapping_sub(part.0[i])))
    }

    /// As 32 bytes, for files.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes
            .chunks_exact_mut(8)
            .zip(self.0)
            .for_each(|(b, lane)| b.copy_from_slice(&lane.to_le_bytes()));
        bytes
    }

    /// What [`Content::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        let lane = |i: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[8 * i..][..8]);
            u64::from_le_bytes(eight)
        };
        Self(std::array::from_fn(lane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Rows;

    fn content(names: &[&str], x: &[f64], y: &[f64]) -> Content {
        let keys = ContentKeys::new(names, &["y".to_owned()]);
        let mut content = Content::default();
        let x = Rows::new(x, names.len()).unwrap();
        let y = Targets::Values(Rows::new(y, 1).unwrap());
        content.add(&keys, &TaskRows { x, y, weights: None });
        content
    }

    #[test]
    fn order_and_cuts_do_not_matter_and_any_change_does() {
        let all = content(&["a", "b"], &[1.0, 2.0, 3.0, 4.0, 1.0, 2.0], &[5.0, 6.0, 5.0]);
        let turned = content(&["b", "a"], &[4.0, 3.0, 2.0, 1.0, 2.0, 1.0], &[6.0, 5.0, 5.0]);
        assert_eq!(all, turned);
        let parts = content(&["a", "b"], &[3.0, 4.0], &[6.0]).plus(&content(
            &["a", "b"],
            &[1.0, 2.0, 1.0, 2.0],
            &[5.0, 5.0],
        ));
        assert_eq!(all, parts);
        assert_eq!(
            all.minus(&content(&["a", "b"], &[3.0, 4.0], &[6.0])).minus(&content(
                &["a", "b"],
                &[1.0, 2.0, 1.0, 2.0],
                &[5.0, 5.0]
            )),
            Content::default()
        );
        assert_eq!(Content::from_bytes(&all.to_bytes()), all);
        // A category that came later is zero in all rows.
        assert_eq!(
            all,
            content(
                &["a", "b", "c=x"],
                &[1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 1.0, 2.0, 0.0],
                &[5.0, 6.0, 5.0]
            )
        );
        for other in [
            content(&["a", "b"], &[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0]),
            content(&["a", "b"], &[2.0, 1.0, 3.0, 4.0, 1.0, 2.0], &[5.0, 6.0, 5.0]),
            content(&["a", "b"], &[1.0, 2.0, 3.0, 4.0, 1.0, 2.0], &[6.0, 5.0, 5.0]),
            content(&["a", "b"], &[1.0, 2.0, 3.0, 4.0, 1.0, 2.0 + 1e-15], &[5.0, 6.0, 5.0]),
            content(&["a", "c"], &[1.0, 2.0, 3.0, 4.0, 1.0, 2.0], &[5.0, 6.0, 5.0]),
        ] {
            assert_ne!(all, other);
        }
        // Two rows that exchange cells are two other rows.
        assert_ne!(
            content(&["a", "b"], &[1.0, 2.0, 3.0, 4.0], &[0.0, 0.0]),
            content(&["a", "b"], &[1.0, 4.0, 3.0, 2.0], &[0.0, 0.0])
        );
    }
}
