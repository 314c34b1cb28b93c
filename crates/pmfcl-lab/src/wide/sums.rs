//! Sums of products: a block's in single precision, all blocks' in double.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use pmfcl::summary::Products;

/// Columns in a tile: two strips of a block and a tile stay in a second-level cache.
const TILE: usize = 256;

/// Share of its square that is added to every feature: above what single precision leaves of directions that hardly vary, so
/// that rounding is never taken for signal. In effect a ridge on features of unit size.
pub(super) const FLOOR: f64 = 1e-4;

/// `XᵀX` in square tiles of its upper half, and class sums of the features.
///
/// A tile is one thread's at a time and sums blocks in order, so bits do not depend on the number of threads.
pub(super) struct Sums {
    features: usize,
    classes: usize,
    /// Tiles `(i, j)`, `i ≤ j`.
    tiles: Vec<Mutex<Vec<f64>>>,
    /// Sum of each feature over the rows of each class: feature after feature.
    by_class: Vec<f64>,
    counts: Vec<f64>,
}

impl Sums {
    pub(super) fn new(features: usize, classes: usize) -> Self {
        let side = features.div_ceil(TILE);
        Self {
            features,
            classes,
            tiles: (0..side * (side + 1) / 2).map(|_| Mutex::new(Vec::new())).collect(),
            by_class: vec![0.0; features * classes],
            counts: vec![0.0; classes],
        }
    }

    /// Adds a block of rows with their classes.
    ///
    /// Cost: `n m²` flops in single precision.
    pub(super) fn add(&mut self, rows: &[f32], codes: &[u32], threads: usize) {
        let m = self.features;
        for (row, &k) in rows.chunks_exact(m).zip(codes) {
            let k = k as usize;
            self.counts[k] += 1.0;
            for (i, v) in row.iter().enumerate() {
                self.by_class[i * self.classes + k] += f64::from(*v);
            }
        }
        let strips = strips(rows, m);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut product = vec![0.0_f32; TILE * TILE];
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(tile) = self.tiles.get(at) else { break };
                let (i, j) = place(at);
                let (h, w) = (span(i, m).len(), span(j, m).len());
                let left = MatRef::from_row_major_slice(&strips[i], codes.len(), h);
                let right = MatRef::from_row_major_slice(&strips[j], codes.len(), w);
                let product = &mut product[..h * w];
                let out = MatMut::from_row_major_slice_mut(&mut *product, h, w);
                matmul(out, Accum::Replace, left.transpose(), right, 1.0, Par::Seq);
                let mut sums = tile.lock().expect("no thread panics while it holds a tile");
                if sums.is_empty() {
                    sums.resize(h * w, 0.0);
                }
                for (sum, v) in sums.iter_mut().zip(product) {
                    *sum += f64::from(*v);
                }
            }
        };
        if threads <= 1 {
            work();
        } else {
            std::thread::scope(|scope| {
                (0..threads).for_each(|_| {
                    scope.spawn(work);
                });
            });
        }
    }

    /// The sums, as the library takes them, with a floor under every feature but the intercept, column 0.
    pub(super) fn products(&self, floor: f64) -> Products {
        let m = self.features;
        let mut xx = vec![0.0; m * (m + 1) / 2];
        for (at, tile) in self.tiles.iter().enumerate() {
            let tile = tile.lock().expect("no thread panics while it holds a tile");
            let (i, j) = place(at);
            let (a, b) = (span(i, m), span(j, m));
            for (r, row) in a.zip(tile.chunks_exact(b.len())) {
                let skip = r.saturating_sub(b.start);
                let from = r * m - r * r.saturating_sub(1) / 2 + (b.start + skip - r);
                xx[from..from + b.len() - skip].copy_from_slice(&row[skip..]);
            }
        }
        let mut at = m;
        for width in (1..m).rev() {
            xx[at] *= 1.0 + floor;
            at += width;
        }
        Products {
            n: self.counts.iter().sum(),
            features: m,
            targets: self.classes,
            xx,
            xy: self.by_class.clone(),
            yy: self.counts.clone(),
            y: self.counts.clone(),
        }
    }
}

/// The columns of each tile by themselves: rows of a wide block lie on a page each, and a product would wait for all of them.
fn strips(rows: &[f32], m: usize) -> Vec<Vec<f32>> {
    (0..m.div_ceil(TILE))
        .map(|i| rows.chunks_exact(m).flat_map(|row| &row[span(i, m)]).copied().collect())
        .collect()
}

/// Columns of tile `i`.
fn span(i: usize, m: usize) -> std::ops::Range<usize> {
    i * TILE..m.min((i + 1) * TILE)
}

/// Row and column of a tile by its number: column after column of the upper half.
fn place(at: usize) -> (usize, usize) {
    let mut j = ((((8 * at + 1) as f64).sqrt() - 1.0) / 2.0) as usize;
    // A root that was rounded the wrong way.
    while j * (j + 1) / 2 > at {
        j -= 1;
    }
    while (j + 1) * (j + 2) / 2 <= at {
        j += 1;
    }
    (at - j * (j + 1) / 2, j)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_counted_column_by_column() {
        let mut at = 0;
        for j in 0..60 {
            for i in 0..=j {
                assert_eq!(place(at), (i, j));
                at += 1;
            }
        }
    }

    #[test]
    fn sums_are_those_of_the_rows() {
        let m = TILE + 3;
        let rows: Vec<f32> = (0..5 * m).map(|i| (i % 17) as f32 - 4.0).collect();
        let mut sums = Sums::new(m, 2);
        sums.add(&rows[..3 * m], &[0, 1, 1], 2);
        sums.add(&rows[3 * m..], &[1, 0], 2);
        let products = sums.products(FLOOR);
        let mut at = 0;
        for i in 0..m {
            for j in i..m {
                let sum: f32 = (0..5).map(|r| rows[r * m + i] * rows[r * m + j]).sum();
                let floor = if i == j && i > 0 { FLOOR * f64::from(sum) } else { 0.0 };
                assert!((products.xx[at] - f64::from(sum) - floor).abs() < 1e-9);
                at += 1;
            }
        }
        let second: f32 = [1, 2, 3].iter().map(|r| rows[r * m + 7]).sum();
        assert!((products.xy[7 * 2 + 1] - f64::from(second)).abs() < 1e-9);
        assert_eq!(products.y, [2.0, 3.0]);
    }
}
