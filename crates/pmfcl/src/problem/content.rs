//! A hash of the rows of a task, to notice that the same rows come again.
//!
//! The hash of a row is a sum over its cells that are not zero, each multiplied with keys of the name of its column; the hash of a
//! task is the sum over its rows, each mixed. So neither the order of rows and columns nor the way they were cut matters, categories
//! that came later change nothing, parts add, and rows that are removed are subtracted. It notices repetition; against somebody who
//! makes up rows to match it is no protection.
//!
//! A cell is hashed as in NH of UMAC (Black et al., CRYPTO 1999): the product of its two halves, each with a key added. That is one
//! multiplication of 32 bits, which processors do several at a time, and two keys give 128 bits.

use pulp::NullaryFnOnce;

use crate::rows::{Targets, TaskRows};

/// The sum of the hashes of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[doc(hidden)] // for ingest, python
pub struct Content([u64; 4]);

/// Names of inputs and targets, hashed once.
#[derive(Debug, Clone)]
#[doc(hidden)] // for ingest, python
pub struct ContentKeys {
    inputs: [Vec<u32>; 4],
    targets: Vec<String>,
}

const LANES: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];

/// Rows that are hashed at a time: choosing the processor's instructions costs as much as a short row.
const BLOCK: usize = 64;

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
fn column_keys(name: &str) -> [u32; 4] {
    let hash = name_hash(name);
    let (a, b) = product(hash ^ LANES[2], LANES[0]);
    let (c, d) = product(hash.rotate_left(32) ^ LANES[3], LANES[1]);
    let (first, second) = (a ^ d.rotate_left(23), b ^ c.rotate_left(41));
    [first as u32, (first >> 32) as u32, second as u32, (second >> 32) as u32]
}

/// The product of the halves of a cell, to each of which a key is added. Zero, of either sign, gives the product of the keys.
#[inline(always)]
#[allow(clippy::inline_always, reason = "only inlined does it take the processor's width")]
fn cell(value: f64, low: u32, high: u32) -> u64 {
    let bits = (value + 0.0).to_bits();
    let halves = ((bits as u32).wrapping_add(low), ((bits >> 32) as u32).wrapping_add(high));
    u64::from(halves.0) * u64::from(halves.1)
}

/// Rows, one after the other, with the keys of their columns.
struct RowBlock<'a> {
    cells: &'a [f64],
    keys: [&'a [u32]; 4],
    sums: &'a mut [[u64; 2]],
}

/// Both hashes of every row, with the products of all keys. Not a closure, which would be compiled for the oldest processor.
impl NullaryFnOnce for RowBlock<'_> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as above")]
    fn call(self) {
        let width = self.keys[0].len();
        for (row, sums) in self.sums.iter_mut().enumerate() {
            let values = &self.cells[row * width..][..width];
            let [a, b, c, d] = self.keys.map(|key| &key[..width]);
            let (mut first, mut second) = (0_u64, 0_u64);
            for (j, &value) in values.iter().enumerate() {
                first = first.wrapping_add(cell(value, a[j], b[j]));
                second = second.wrapping_add(cell(value, c[j], d[j]));
            }
            *sums = [first, second];
        }
    }
}

impl ContentKeys {
    /// The names under which cells are hashed: those of inputs (`age`, `colour=red`) and of targets.
    pub fn new(inputs: impl IntoIterator<Item = impl AsRef<str>>, targets: &[String]) -> Self {
        let mut keys: [Vec<u32>; 4] = Default::default();
        for name in inputs {
            let column = column_keys(name.as_ref());
            keys.iter_mut().zip(column).for_each(|(keys, key)| keys.push(key));
        }
        Self { inputs: keys, targets: targets.to_vec() }
    }
}

impl Content {
    /// Adds rows; there is a key for each of their inputs.
    pub fn add(&mut self, keys: &ContentKeys, rows: &TaskRows<'_>) {
        let target = |k: usize| keys.targets.get(k).map_or("", String::as_str);
        let targets: Vec<[u32; 4]> = match &rows.y {
            Targets::Classes { names, .. } => {
                names.iter().map(|class| column_keys(&format!("{}={class}", target(0)))).collect()
            }
            Targets::Values(values) => {
                (0..values.width()).map(|k| column_keys(target(k))).collect()
            }
        };
        let weight = column_keys("sample weight");
        let width = rows.x.width();
        let inputs = [0, 1, 2, 3].map(|k| &keys.inputs[k][..width]);
        // Cells that are zero count nothing, so what a row of zeros would give is taken off.
        let mut zeros = [[0; 2]];
        RowBlock { cells: &vec![0.0; width], keys: inputs, sums: &mut zeros }.call();
        let [zeros] = zeros;
        let (processor, mut copy) = (pulp::Arch::new(), Vec::new());
        let mut found = [[0; 2]; BLOCK];
        for start in (0..rows.x.len()).step_by(BLOCK) {
            let end = rows.x.len().min(start + BLOCK);
            let cells = if let Some(cells) = rows.x.as_f64(start, end) {
                cells
            } else {
                copy.clear();
                rows.x.slice(start, end).append_to(&mut copy);
                &copy
            };
            let found = &mut found[..end - start];
            processor.dispatch(RowBlock { cells, keys: inputs, sums: found });
            for (i, found) in (start..end).zip(found) {
                let mut sum = [0, 1].map(|k| found[k].wrapping_sub(zeros[k]));
                let mut put = |[a, b, c, d]: [u32; 4], value: f64| {
                    sum[0] = sum[0].wrapping_add(cell(value, a, b)).wrapping_sub(cell(0.0, a, b));
                    sum[1] = sum[1].wrapping_add(cell(value, c, d)).wrapping_sub(cell(0.0, c, d));
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
                for (lane, constant) in self.0.iter_mut().zip(LANES) {
                    let (low, high) = product(sum[0] ^ constant, sum[1] ^ constant.rotate_left(29));
                    *lane = lane.wrapping_add(low ^ high.rotate_left(31));
                }
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
