//! Random filters over small windows of an image, cut off at zero and averaged over regions.
//!
//! ```text
//! image ──windows of k×k, every s pixels──▶ × F filters ──max(0, · + b)──▶ means over a g×g grid ──▶ F·g² features
//! ```
//!
//! A convolutional network's first layer, with filters that were drawn instead of learned.

use pmfcl_oracle::Draw;

use super::map::{FeatureMap, product};

/// How windows are laid over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Pixels in a row and in a column of the image.
    pub image: usize,
    /// Pixels in a row and in a column of a window.
    pub size: usize,
    /// Pixels from one window to the next.
    pub step: usize,
    /// Regions in a row and in a column.
    pub grid: usize,
}

impl Window {
    /// For images of 28 × 28.
    pub const DIGITS: Self = Self { image: 28, size: 9, step: 2, grid: 4 };

    /// Windows in a row and in a column.
    fn places(self) -> usize {
        (self.image - self.size) / self.step + 1
    }
}

/// Random filters, and means of what they see.
#[derive(Debug, Clone)]
pub struct Patches {
    window: Window,
    filters: usize,
    /// Pixels of a window × filters.
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Patches {
    /// A map with this many filters: of zero mean and unit norm, with a bias uniform in ±½.
    pub fn new(window: Window, filters: usize, seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let cells = window.size * window.size;
        let mut weights = vec![0.0; cells * filters];
        let mut bias = Vec::with_capacity(filters);
        for f in 0..filters {
            let mut filter = draw.normals(cells);
            let mean = filter.iter().sum::<f64>() / cells as f64;
            filter.iter_mut().for_each(|v| *v -= mean);
            let norm = filter.iter().map(|v| v * v).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
            for (c, v) in filter.iter().enumerate() {
                weights[c * filters + f] = (v / norm) as f32;
            }
            bias.push((draw.uniform() - 0.5) as f32);
        }
        Self { window, filters, weights, bias }
    }

    /// Which region a place in a row or column belongs to.
    fn region(&self, place: usize) -> usize {
        place * self.window.grid / self.window.places()
    }
}

impl FeatureMap for Patches {
    fn name(&self) -> String {
        format!("patches:{}", self.width())
    }

    fn inputs(&self) -> usize {
        self.window.image * self.window.image
    }

    fn width(&self) -> usize {
        self.filters * self.window.grid * self.window.grid
    }

    fn write(&self, x: &[f32], rows: usize, out: &mut [f32]) {
        let Window { image, size, step, grid } = self.window;
        let (places, cells, filters) = (self.window.places(), size * size, self.filters);
        let mut count = vec![0.0_f32; grid];
        (0..places).for_each(|p| count[self.region(p)] += 1.0);
        let mut windows = vec![0.0; places * places * cells];
        let mut seen = vec![0.0; places * places * filters];
        for (image_cells, row) in
            x.chunks_exact(image * image).zip(out.chunks_exact_mut(self.width())).take(rows)
        {
            for (place, cut) in windows.chunks_exact_mut(cells).enumerate() {
                let corner = (place / places * image + place % places) * step;
                for (i, line) in cut.chunks_exact_mut(size).enumerate() {
                    line.copy_from_slice(&image_cells[corner + i * image..][..size]);
                }
            }
            product(&windows, &self.weights, places * places, &mut seen);
            row.fill(0.0);
            for (place, values) in seen.chunks_exact(filters).enumerate() {
                let (a, b) = (self.region(place / places), self.region(place % places));
                let share = 1.0 / (count[a] * count[b]);
                let mean = &mut row[(a * grid + b) * filters..][..filters];
                for ((m, v), bias) in mean.iter_mut().zip(values).zip(&self.bias) {
                    *m += share * (v + bias).max(0.0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_means_of_what_filters_see() {
        let window = Window { image: 6, size: 3, step: 1, grid: 2 };
        let map = Patches::new(window, 2, 3);
        let mut draw = Draw::new(1);
        let image: Vec<f32> = (0..36).map(|_| draw.uniform() as f32).collect();
        let mut out = vec![0.0; 8];
        map.write(&image, 1, &mut out);
        // Windows at 0..4 in each direction; region 1 holds places 2 and 3.
        for (a, b, f) in [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)] {
            let mut sum = 0.0;
            for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let (top, left) = (2 * a + i, 2 * b + j);
                let mut seen = map.bias[f];
                for c in 0..9 {
                    seen += map.weights[c * 2 + f] * image[(top + c / 3) * 6 + left + c % 3];
                }
                sum += seen.max(0.0);
            }
            let found = out[(a * 2 + b) * 2 + f];
            assert!((found - sum / 4.0).abs() < 1e-6, "{found} {}", sum / 4.0);
        }
    }
}
