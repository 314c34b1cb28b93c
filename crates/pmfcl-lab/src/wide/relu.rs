//! Random directions over the whole image, cut off at zero.

use pmfcl_oracle::Draw;

use super::map::{FeatureMap, product};

/// `max(0, (x − ⅛)W + b)`: `W` and `b` standard normal. ⅛ is about the mean of a pixel.
#[derive(Debug, Clone)]
pub struct Relu {
    inputs: usize,
    width: usize,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Relu {
    /// A map of `inputs` numbers to `width` features.
    pub fn new(inputs: usize, width: usize, seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let weights: Vec<f32> = (0..inputs * width).map(|_| draw.normal() as f32).collect();
        let mut bias: Vec<f32> = (0..width).map(|_| draw.normal() as f32).collect();
        for row in weights.chunks_exact(width) {
            bias.iter_mut().zip(row).for_each(|(b, w)| *b -= w / 8.0);
        }
        Self { inputs, width, weights, bias }
    }
}

impl FeatureMap for Relu {
    fn name(&self) -> String {
        format!("relu:{}", self.width)
    }

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn width(&self) -> usize {
        self.width
    }

    fn write(&self, x: &[f32], rows: usize, out: &mut [f32]) {
        product(x, &self.weights, rows, out);
        for row in out.chunks_exact_mut(self.width) {
            for (v, b) in row.iter_mut().zip(&self.bias) {
                *v = (*v + b).max(0.0);
            }
        }
    }
}
