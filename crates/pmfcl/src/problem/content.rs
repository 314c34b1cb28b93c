//! A hash of the rows of a task, to notice that the same rows come again.
//!
//! The hash of a row is a sum over its cells that are not zero, each with keys of the name of its column (`kernel/fingerprint.rs`);
//! the hash of a task is the sum over its rows, each mixed. So neither the order of rows and columns nor the way they were cut matters,
//! categories that came later change nothing, parts add, and rows that are removed are subtracted. It notices repetition; against somebody who
//! makes up rows to match it is no protection.

use crate::kernel::{CellKeys, cell_sums, row_sums};
use crate::rows::{Targets, TaskRows};

/// The sum of the hashes of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[doc(hidden)] // for ingest, python
pub struct Content([u64; 4]);

/// Names of inputs and targets, hashed once.
#[derive(Debug, Clone)]
#[doc(hidden)] // for ingest, python
pub struct ContentKeys {
    inputs: CellKeys,
    targets: Vec<String>,
}

/// Rows that are widened to 64 bits at a time, where they are not.
const BLOCK: usize = 1024;

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

/// The keys of a column.
fn column_keys(name: &str) -> [u64; 2] {
    let hash = name_hash(name);
    [(LANES[2], LANES[0]), (LANES[3], LANES[1])].map(|(start, factor)| {
        let (low, high) = product(hash ^ start, factor);
        let (low, high) = product(low ^ start, high ^ factor);
        low ^ high.rotate_left(23)
    })
}

impl ContentKeys {
    /// The names under which cells are hashed: those of inputs (`age`, `colour=red`) and of targets.
    pub fn new(inputs: impl IntoIterator<Item = impl AsRef<str>>, targets: &[String]) -> Self {
        let inputs = inputs.into_iter().map(|name| column_keys(name.as_ref())).collect();
        Self { inputs, targets: targets.to_vec() }
    }
}

impl Content {
    /// Adds rows; there is a key for each of their inputs.
    pub fn add(&mut self, keys: &ContentKeys, rows: &TaskRows<'_>) {
        let target = |k: usize| keys.targets.get(k).map_or("", String::as_str);
        let targets: Vec<[u64; 2]> = match &rows.y {
            Targets::Classes { names, .. } => {
                names.iter().map(|class| column_keys(&format!("{}={class}", target(0)))).collect()
            }
            Targets::Values(values) => {
                (0..values.width()).map(|k| column_keys(target(k))).collect()
            }
        };
        let weight = column_keys("sample weight");
        let mut copy = Vec::new();
        for from in (0..rows.x.len()).step_by(BLOCK) {
            let to = (from + BLOCK).min(rows.x.len());
            let x = rows.x.as_f64(from, to).unwrap_or_else(|| {
                copy.clear();
                rows.x.slice(from, to).append_to(&mut copy);
                &copy
            });
            row_sums(x, rows.x.width(), &keys.inputs, |i, mut sums| {
                let i = from + i;
                let mut put = |keys: [u64; 2], value: f64| {
                    let cell = cell_sums(value, keys);
                    sums = [sums[0].wrapping_add(cell[0]), sums[1].wrapping_add(cell[1])];
                };
                match &rows.y {
                    Targets::Values(values) => {
                        targets.iter().enumerate().for_each(|(k, key)| put(*key, values.get(i, k)));
                    }
                    Targets::Classes { codes, .. } => put(targets[codes[i] as usize], 1.0),
                }
                if let Some(weights) = rows.weights {
                    put(weight, weights[i]);
                }
                self.add_row(sums);
            });
        }
    }

    /// Adds a row with these sums over its cells, mixed.
    #[inline]
    fn add_row(&mut self, sums: [u64; 2]) {
        for (lane, constant) in self.0.iter_mut().zip(LANES) {
            let (low, high) = product(sums[0] ^ constant, sums[1] ^ constant.rotate_left(29));
            *lane = lane.wrapping_add(low ^ high.rotate_left(31));
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
