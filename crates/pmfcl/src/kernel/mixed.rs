//! Sums of products of features: those of a strip of rows in single precision, those of all strips in double.
//!
//! ```text
//! rows ──fill (f64)──▶ strip ──units, round──▶ tiles of columns (f32) ──products (f32)──▶ sums (f64)
//!                        └──────────────────── products with targets (f64) ─────────────▶ sums (f64)
//! ```
//!
//! Every number is off by `2⁻²⁴` of itself and a strip's sum by a few times that, independently of other strips, so a sum over many
//! rows has about seven digits however many there are. Columns are first brought to sizes near 1 by powers of two, which change no
//! digit, so that no square leaves the range of single precision.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::gram::{BLOCK, upper};
use super::strip::{WIDE, fill};
use super::{Gram, Source, parallel};

/// Panels in a tile: two tiles of a strip and their product stay in a second-level cache.
const TILE: usize = 64;

/// Rows in a strip: so many that adding a product to the sums costs little next to making it.
const DEEP: usize = 512;

/// Rows of which products in single precision are made and summed in double.
pub(crate) struct Mixed<'a> {
    /// A power of two for each feature, by which it is multiplied before it is rounded.
    pub(crate) units: &'a [f64],
}

impl Mixed<'_> {
    /// Adds the given rows to the sums.
    ///
    /// The same rows in the same pieces give the same bits, on any number of threads.
    /// Cost: `n m²` flops in single precision and `2 n m p` in double.
    pub(crate) fn add(&self, gram: &mut Gram, source: &impl Source, rows: Range<usize>) {
        let (m, p) = gram.shape();
        let (panels, width) = (m.div_ceil(WIDE), m + p);
        let deep = DEEP.min(rows.len());
        let mut filled = vec![0.0; deep * width];
        let mut rounded = vec![0.0_f32; deep * panels * WIDE];
        for from in rows.clone().step_by(deep.max(1)) {
            let count = deep.min(rows.end - from);
            let filled = &mut filled[..count * width];
            fill(source, from, width, filled);
            let filled = &*filled;
            let spans: Vec<Range<usize>> =
                (0..panels).step_by(TILE).map(|q| q..panels.min(q + TILE)).collect();
            let mut rest = rounded.as_mut_slice();
            let mut tiles = Vec::with_capacity(spans.len());
            for span in &spans {
                let (tile, after) = rest.split_at_mut(count * span.len() * WIDE);
                tiles.push((span.start * WIDE, tile));
                rest = after;
            }
            parallel::each(tiles, |(first, tile): (usize, &mut [f32])| {
                self.round(filled, width, first, tile);
            });
            self.products(gram, &rounded, &spans, count);
            targets(gram, filled, &spans);
        }
    }

    /// Writes the columns from `first` on of all rows, in their units and rounded.
    fn round(&self, filled: &[f64], width: usize, first: usize, tile: &mut [f32]) {
        let rows = filled.len() / width;
        let wide = tile.len() / rows;
        let units = &self.units[first..self.units.len().min(first + wide)];
        for (to, row) in tile.chunks_exact_mut(wide).zip(filled.chunks_exact(width)) {
            for ((to, v), unit) in to.iter_mut().zip(&row[first..]).zip(units) {
                *to = (v * unit) as f32;
            }
            to[units.len()..].fill(0.0);
        }
    }

    /// Adds `XᵀX` of one strip; threads share columns of tiles.
    fn products(&self, gram: &mut Gram, rounded: &[f32], spans: &[Range<usize>], rows: usize) {
        let tile = |span: &Range<usize>| {
            let wide = span.len() * WIDE;
            let cells = &rounded[rows * span.start * WIDE..][..rows * wide];
            MatRef::from_row_major_slice(cells, rows, wide)
        };
        // 1/unit, in whole panels.
        let mut sizes: Vec<f64> = self.units.iter().map(|unit| 1.0 / unit).collect();
        sizes.resize(sizes.len().next_multiple_of(WIDE), 1.0);
        // The last columns are the longest: they come first.
        let bands = gram.bands(TILE).into_iter().rev().collect();
        parallel::each(bands, |(right, sums): (Range<usize>, &mut [f64])| {
            let base = upper(0, right.start);
            let wide = right.len() * WIDE;
            let mut product = vec![0.0_f32; TILE * WIDE * wide];
            for left in spans.iter().take_while(|left| left.start <= right.start) {
                let high = left.len() * WIDE;
                let product = &mut product[..high * wide];
                let out = MatMut::from_row_major_slice_mut(product, high, wide);
                matmul(out, Accum::Replace, tile(left).transpose(), tile(&right), 1.0, Par::Seq);
                for j in right.clone() {
                    for i in left.start..left.end.min(j + 1) {
                        let block = &mut sums[upper(i, j) - base..][..BLOCK];
                        for (r, row) in block.chunks_exact_mut(WIDE).enumerate() {
                            let at =
                                ((i - left.start) * WIDE + r) * wide + (j - right.start) * WIDE;
                            let size = sizes[i * WIDE + r];
                            let columns = product[at..at + WIDE].iter().zip(&sizes[j * WIDE..]);
                            for (sum, (v, other)) in row.iter_mut().zip(columns) {
                                *sum += f64::from(*v) * size * other;
                            }
                        }
                    }
                }
            }
        });
    }
}

/// Adds `XᵀY` and `Σ y²` of one strip, in double precision; threads share the columns.
fn targets(gram: &mut Gram, filled: &[f64], spans: &[Range<usize>]) {
    let (m, p) = gram.shape();
    let width = m + p;
    let rows = filled.len() / width;
    // Row-major rows are the columns of the transposed matrix.
    let all = MatRef::from_column_major_slice(filled, width, rows);
    let y = all.subrows(m, p);
    let mut found: Vec<(Range<usize>, Vec<f64>)> = spans
        .iter()
        .map(|span| span.start * WIDE..m.min(span.end * WIDE))
        .map(|columns| (columns.clone(), vec![0.0; columns.len() * p]))
        .collect();
    parallel::each(found.iter_mut().collect(), |(columns, out): &mut (Range<usize>, Vec<f64>)| {
        let x = all.subrows(columns.start, columns.len());
        let out = MatMut::from_column_major_slice_mut(out, columns.len(), p);
        matmul(out, Accum::Replace, x, y.transpose(), 1.0, Par::Seq);
    });
    for (columns, products) in found {
        for (k, column) in products.chunks_exact(columns.len()).enumerate() {
            for (i, v) in columns.clone().zip(column) {
                gram.add_xy(i, k, *v);
            }
        }
    }
    for k in 0..p {
        let squares = filled.iter().skip(m + k).step_by(width).map(|y| y * y).sum();
        gram.add_yy(k, squares);
    }
}
