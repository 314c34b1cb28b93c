//! `patches`: random filters over small windows of an image, cut off at zero and averaged over regions.
//!
//! ```text
//! image ──windows of s×s, every t pixels──▶ × F filters ──max(0, · + b)──▶ means over a g×g grid ──▶ F·g² columns
//! ```
//!
//! The first layer of a convolutional network, with filters that are drawn instead of learned. A filter has zero mean and unit
//! length, so it sees contrast and no brightness; its bias is uniform in ±½. All pixels have one unit, x̃ = (x − shift)/spread,
//! since windows compare them.
//!
//! Filter f is stream 16 + f of the seed: the weights of its window, row after row. Biases are stream 0.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::draw::Draw;
use super::{BasisError, Parts};

/// Streams of a seed. Filters take the numbers from `FILTERS` on.
const BIAS: u64 = 0;
const FILTERS: u64 = 16;

/// What a spec says about windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Windows {
    /// Height and width of the image; a square where they are not given.
    pub(super) shape: Option<(usize, usize)>,
    /// Pixels in a row and in a column of a window.
    pub(super) size: usize,
    /// Pixels from one window to the next.
    pub(super) step: usize,
    /// Regions in a row and in a column.
    pub(super) grid: usize,
}

impl Windows {
    pub(super) const DEFAULT: Self = Self { shape: None, size: 9, step: 2, grid: 4 };

    /// Columns for each filter.
    pub(super) fn regions(&self) -> usize {
        self.grid * self.grid
    }

    /// The windows of an image of `d` pixels, or why there are none.
    pub(super) fn lay(&self, d: usize) -> Result<Layout, String> {
        let side = d.isqrt();
        let (height, width) = match self.shape {
            Some((height, width)) if height.checked_mul(width) == Some(d) => (height, width),
            Some((height, width)) => {
                return Err(format!(
                    "an image of {height}x{width} pixels has another number of them"
                ));
            }
            None if side * side == d => (side, side),
            None => return Err("they are no square image: give shape=HxW".to_owned()),
        };
        let Self { size, step, grid, .. } = *self;
        let places = |length: usize| length.checked_sub(size).map_or(0, |rest| rest / step + 1);
        let layout =
            Layout { height, width, size, step, grid, down: places(height), across: places(width) };
        if layout.down.min(layout.across) < grid {
            return Err(format!(
                "an image of {height}x{width} pixels has {}x{} windows of {size}x{size} every {step} pixels, too few for \
                 {grid}x{grid} regions: take smaller values for size, step or grid",
                layout.down, layout.across
            ));
        }
        Ok(layout)
    }
}

/// Where windows lie on an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)] // for export
pub struct Layout {
    /// Pixels in a column of the image.
    pub height: usize,
    /// Pixels in a row of the image.
    pub width: usize,
    /// Pixels in a row and in a column of a window.
    pub size: usize,
    /// Pixels from one window to the next.
    pub step: usize,
    /// Regions in a row and in a column.
    pub grid: usize,
    /// Windows in a column.
    pub down: usize,
    /// Windows in a row.
    pub across: usize,
}

impl Layout {
    /// Windows on an image.
    pub fn windows(&self) -> usize {
        self.down * self.across
    }

    /// The pixels of window `w`, row after row, as numbers of inputs. Windows are counted row by row.
    pub fn pixels(&self, w: usize) -> impl Iterator<Item = usize> + use<'_> {
        let corner = (w / self.across * self.width + w % self.across) * self.step;
        (0..self.size).flat_map(move |i| (0..self.size).map(move |j| corner + i * self.width + j))
    }

    /// The region window `w` belongs to. Regions are counted row by row.
    pub fn region(&self, w: usize) -> usize {
        let row = w / self.across * self.grid / self.down;
        row * self.grid + w % self.across * self.grid / self.across
    }

    /// How many windows each region has.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.grid * self.grid];
        (0..self.windows()).for_each(|w| counts[self.region(w)] += 1);
        counts
    }
}

/// Random filters, and means of what they see.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Patches {
    layout: Layout,
    shift: f64,
    spread: f64,
    /// Row c holds the weights of pixel c of a window, one for each filter.
    weights: Vec<f64>,
    bias: Vec<f64>,
}

/// The unit of all pixels: their range in the first rows.
pub(super) fn learn(rows: &[f64], d: usize) -> Result<Vec<f64>, BasisError> {
    let lo = rows.iter().copied().fold(f64::INFINITY, f64::min);
    let hi = rows.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let spread = if hi > lo { hi - lo } else { 1.0 };
    if spread.is_finite() {
        return Ok(vec![lo, spread]);
    }
    let column = rows.iter().position(|v| *v >= hi).unwrap_or_default() % d;
    Err(BasisError::Range { column, lo, hi })
}

impl Patches {
    /// Draws the filters; `frozen` is what [`learn`] found.
    pub(super) fn build(
        layout: Layout,
        filters: usize,
        seed: u64,
        frozen: &[f64],
    ) -> Result<Self, &'static str> {
        let &[shift, spread] = frozen else { return Err("there are too many or too few") };
        if spread <= 0.0 {
            return Err("a range is not positive");
        }
        let cells = layout.size * layout.size;
        let mut weights = vec![0.0; cells * filters];
        for f in 0..filters {
            let mut draw = Draw::new(seed, FILTERS + f as u64);
            let filter: Vec<f64> = (0..cells).map(|_| draw.normal()).collect();
            let mean = filter.iter().sum::<f64>() / cells as f64;
            let norm = filter.iter().map(|v| (v - mean).powi(2)).sum::<f64>().sqrt();
            for (c, v) in filter.iter().enumerate() {
                // A window of one pixel has no contrast: it is the pixel.
                weights[c * filters + f] = if norm > 0.0 { (v - mean) / norm } else { 1.0 };
            }
        }
        let mut draw = Draw::new(seed, BIAS);
        let bias = (0..filters).map(|_| draw.uniform() - 0.5).collect();
        Ok(Self { layout, shift, spread, weights, bias })
    }

    /// φ of all rows; row i of the result begins at `out[i * stride]`. `check` sees each row once.
    ///
    /// One product for each image, so that its columns have the same bits alone and in any block.
    /// Cost: `2·windows·size²·filters` flops a row.
    pub(super) fn apply(
        &self,
        rows: &[f64],
        out: &mut [f64],
        stride: usize,
        check: impl Fn(usize, &[f64]) -> Result<(), BasisError>,
    ) -> Result<(), BasisError> {
        let layout = &self.layout;
        let (filters, cells) = (self.bias.len(), layout.size * layout.size);
        let d = layout.height * layout.width;
        let places: Vec<usize> = (0..layout.windows()).flat_map(|w| layout.pixels(w)).collect();
        let regions: Vec<usize> = (0..layout.windows()).map(|w| layout.region(w)).collect();
        let shares: Vec<f64> = layout.counts().iter().map(|count| 1.0 / *count as f64).collect();
        let mut windows = vec![0.0; places.len()];
        let mut seen = vec![0.0; regions.len() * filters];
        for (i, (x, out)) in rows.chunks_exact(d).zip(out.chunks_mut(stride)).enumerate() {
            for (cell, &place) in windows.iter_mut().zip(&places) {
                *cell = (x[place] - self.shift) / self.spread;
            }
            matmul(
                MatMut::from_column_major_slice_mut(&mut seen, filters, regions.len()),
                Accum::Replace,
                MatRef::from_column_major_slice(&self.weights, filters, cells),
                MatRef::from_column_major_slice(&windows, cells, regions.len()),
                1.0,
                Par::Seq,
            );
            let row = &mut out[..shares.len() * filters];
            row.fill(0.0);
            for (&region, values) in regions.iter().zip(seen.chunks_exact(filters)) {
                let means = &mut row[region * filters..][..filters];
                for ((mean, v), bias) in means.iter_mut().zip(values).zip(&self.bias) {
                    // Not `max`, which would turn a NaN into 0.
                    let sum = v + bias;
                    *mean += if sum < 0.0 { 0.0 } else { sum };
                }
            }
            for (means, share) in row.chunks_exact_mut(filters).zip(&shares) {
                means.iter_mut().for_each(|mean| *mean *= share);
            }
            check(i, row)?;
        }
        Ok(())
    }

    pub(super) fn parts(&self) -> Parts<'_> {
        Parts::Patches {
            layout: self.layout,
            shift: self.shift,
            spread: self.spread,
            weights: &self.weights,
            bias: &self.bias,
        }
    }

    /// The input farthest out.
    pub(super) fn responsible_input(&self, x: &[f64]) -> usize {
        let size = |j: &usize| (x[*j] - self.shift).abs();
        (0..x.len()).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or_default()
    }

    /// `patch3(1,2)`: filter 3 in the first row and second column of regions.
    pub(super) fn names(&self) -> Vec<String> {
        let grid = self.layout.grid;
        let name =
            |at: usize, f: usize| format!("patch{}({},{})", f + 1, at / grid + 1, at % grid + 1);
        (0..grid * grid).flat_map(|at| (0..self.bias.len()).map(move |f| name(at, f))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::{Basis, Map, all_finite};

    fn fix(spec: &str, rows: &[f64], d: usize) -> Map {
        spec.parse::<Basis>().unwrap().fix(rows, d).unwrap()
    }

    fn phi(map: &Map, x: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; x.len() / map.inputs() * map.width()];
        map.apply(x, &mut out, map.width(), 0).unwrap();
        out
    }

    fn images(count: usize, d: usize) -> Vec<f64> {
        let mut draw = Draw::new(1, 1);
        (0..count * d).map(|_| 255.0 * draw.uniform()).collect()
    }

    #[test]
    fn columns_are_means_of_what_filters_see() {
        // Windows at 0..4 down and 0..5 across; of five, regions get three and two.
        let map = fix("patches:8,size=3,step=1,grid=2,shape=6x7,scale=none,seed=3", &[], 42);
        let Parts::Patches { weights, bias, layout, .. } = map.parts() else { panic!("patches") };
        assert_eq!((layout.down, layout.across, layout.counts()), (4, 5, vec![6, 4, 6, 4]));
        let image = images(1, 42);
        let found = phi(&map, &image);
        for (a, b, f) in [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)] {
            let columns = if b == 0 { 0..3 } else { 3..5 };
            let (mut sum, mut count) = (0.0, 0.0);
            for top in 2 * a..2 * a + 2 {
                for left in columns.clone() {
                    let mut seen = bias[f];
                    for c in 0..9 {
                        seen += weights[c * 2 + f] * image[(top + c / 3) * 7 + left + c % 3];
                    }
                    sum += seen.max(0.0);
                    count += 1.0;
                }
            }
            let column = found[(a * 2 + b) * 2 + f];
            assert!((column - sum / count).abs() < 1e-10, "{column} {}", sum / count);
        }
        assert_eq!(map.names(&[])[3], "patch2(1,2)");
    }

    #[test]
    fn filters_see_contrast_in_any_unit_and_no_brightness() {
        let x = images(4, 144);
        let spec = "patches:8,size=5,grid=2";
        let first = phi(&fix(spec, &x, 144), &x);
        let other: Vec<f64> = x.iter().map(|v| v / 256.0 + 4.0).collect();
        let second = phi(&fix(spec, &other, 144), &other);
        assert!(first.iter().zip(&second).all(|(a, b)| (a - b).abs() <= 1e-12));
        let brighter: Vec<f64> = x.iter().map(|v| v + 300.0).collect();
        let third = phi(&fix(spec, &x, 144), &brighter);
        assert!(first.iter().zip(&third).all(|(a, b)| (a - b).abs() <= 1e-12));
        assert!(all_finite(&first) && first.iter().any(|v| *v > 0.0));
    }

    #[test]
    fn an_image_has_the_same_bits_alone_and_in_any_block() {
        let x = images(7, 784);
        let map = fix("patches:64", &x, 784);
        let all = phi(&map, &x);
        for i in 0..7 {
            let alone = phi(&map, &x[i * 784..(i + 1) * 784]);
            assert_eq!(alone, all[i * 64..(i + 1) * 64], "image {i}");
        }
    }

    #[test]
    fn images_that_do_not_fit_are_refused_with_what_to_do() {
        let refused = |spec: &str, d: usize| {
            spec.parse::<Basis>()
                .and_then(|basis| basis.fix(&vec![1.0; d], d))
                .unwrap_err()
                .to_string()
        };
        let told = refused("patches:16", 783);
        assert!(told.contains("783 inputs") && told.contains("shape=HxW"), "{told}");
        assert!(refused("patches:16,shape=28x28", 100).contains("28x28"));
        assert!(refused("patches:16", 100).contains("smaller"), "windows do not fill the grid");
        assert!(refused("patches:17", 784).contains("multiple"));
        assert!(refused("patches:16,shape=28", 784).contains("HxW"));
        assert!(refused("patches:16,size=0", 784).contains("size=0"));
        assert_eq!(fix("patches:4,size=1,grid=2", &[0.5; 16], 16).width(), 4);
    }
}
