//! Targets that are zero in most rows, such as indicators of many classes: their products with features, number by number.

use pulp::Simd;

use super::gram::BLOCK;
use super::strip::{Strip, WIDE};
use super::tile::{registers, registers_mut};

/// A number of a panel that is not zero.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    row: usize,
    column: usize,
    value: f64,
}

impl Entry {
    /// A 1.
    pub(super) fn one(row: usize, column: usize) -> Self {
        Self { row, column, value: 1.0 }
    }
}

/// Lists the numbers of a panel that are not zero, column after column; whether they are so few, as in indicators of many classes,
/// that adding them one by one is faster than a product.
pub(super) fn few_entries(panel: &[f64], entries: &mut Vec<Entry>) -> bool {
    entries.clear();
    let most = panel.len() / WIDE;
    for (row, cells) in pulp::as_arrays::<WIDE, f64>(panel).0.iter().enumerate() {
        for (column, &value) in cells.iter().enumerate() {
            if value != 0.0 {
                entries.push(Entry { row, column, value });
            }
        }
        if entries.len() > most {
            return false;
        }
    }
    entries.sort_by_key(|entry| (entry.column, entry.row));
    true
}

/// Adds the products of some numbers of a panel of targets, column after column, with all features. The sums are those of a product of the whole panel, to
/// the bit: the zeros change none.
#[inline(always)]
pub(super) fn add_entries<S: Simd, const V: usize>(
    simd: S,
    strip: &Strip,
    entries: &[Entry],
    blocks: &mut [f64],
) {
    for j in 0..blocks.len() / BLOCK {
        let right = registers::<S, V>(strip.panel(j));
        let block = registers_mut::<S, V>(&mut blocks[j * BLOCK..(j + 1) * BLOCK]);
        let mut at = 0;
        while at < entries.len() {
            let column = entries[at].column;
            let mut sums = [simd.splat_f64s(0.0); V];
            while at < entries.len() && entries[at].column == column {
                let l = simd.splat_f64s(entries[at].value);
                let r = right[entries[at].row];
                for v in 0..V {
                    sums[v] = simd.mul_add_e_f64s(l, r[v], sums[v]);
                }
                at += 1;
            }
            for v in 0..V {
                block[column][v] = simd.add_f64s(block[column][v], sums[v]);
            }
        }
    }
}

/// Adds the squares of some numbers of a panel. Those of indicators are exact in any order.
pub(super) fn add_squares(entries: &[Entry], sums: &mut [f64]) {
    for entry in entries {
        sums[entry.column] += entry.value * entry.value;
    }
}
