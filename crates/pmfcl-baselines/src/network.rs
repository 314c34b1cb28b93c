//! Dense layers with rectifiers between them; one layer is the linear model.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use crate::random::Random;

/// A network of dense layers: `[d, k]` is linear, `[784, 100, 100, 10]` has two hidden layers.
///
/// All parameters are one vector: for each layer the weights, inputs × outputs row after row, then the intercepts.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    widths: Vec<usize>,
    intercepts: bool,
    parameters: Vec<f64>,
}

impl Network {
    /// Weights uniform in ±√(6 / (inputs + outputs)) of each layer (Xavier), intercepts zero.
    ///
    /// # Panics
    /// With fewer than two widths, or a width of zero.
    pub fn new(widths: &[usize], seed: u64) -> Self {
        assert!(widths.len() > 1 && !widths.contains(&0), "a network needs inputs and outputs");
        let mut random = Random::of(seed, "weights");
        let mut parameters = Vec::new();
        for pair in widths.windows(2) {
            let bound = (6.0 / (pair[0] + pair[1]) as f64).sqrt();
            let draw = |_| bound * (2.0 * random.uniform() - 1.0);
            parameters.extend((0..pair[0] * pair[1]).map(draw));
            parameters.extend(std::iter::repeat_n(0.0, pair[1]));
        }
        Self { widths: widths.to_vec(), intercepts: true, parameters }
    }

    /// The same weights without intercepts: they are no longer among the parameters.
    #[must_use]
    pub fn without_intercepts(self) -> Self {
        let mut parameters = Vec::with_capacity(self.parameters.len());
        for layer in 0..self.layers() {
            parameters.extend_from_slice(self.weights(layer));
        }
        Self { intercepts: false, parameters, ..self }
    }

    /// Numbers in a row of inputs.
    pub fn inputs(&self) -> usize {
        self.widths[0]
    }

    /// Numbers in a row of outputs.
    pub fn outputs(&self) -> usize {
        self.widths[self.widths.len() - 1]
    }

    /// All parameters.
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// All parameters, to be changed.
    pub fn parameters_mut(&mut self) -> &mut [f64] {
        &mut self.parameters
    }

    /// The parameters of a linear model: inputs × outputs, row after row, and the intercepts last, zero where the
    /// network has none; nothing for a network with hidden layers.
    pub fn linear(&self) -> Option<Vec<f64>> {
        (self.layers() == 1).then(|| {
            let mut all = self.parameters.clone();
            all.resize((self.inputs() + 1) * self.outputs(), 0.0);
            all
        })
    }

    fn layers(&self) -> usize {
        self.widths.len() - 1
    }

    /// Where a layer's weights begin, where its intercepts begin, and where it ends.
    fn span(&self, layer: usize) -> (usize, usize, usize) {
        let extra = usize::from(self.intercepts);
        let size = |pair: &[usize]| (pair[0] + extra) * pair[1];
        let start: usize = self.widths.windows(2).take(layer).map(size).sum();
        let middle = start + self.widths[layer] * self.widths[layer + 1];
        (start, middle, middle + extra * self.widths[layer + 1])
    }

    fn weights(&self, layer: usize) -> &[f64] {
        let (start, middle, _) = self.span(layer);
        &self.parameters[start..middle]
    }

    /// Outputs for `rows` rows of inputs, row after row.
    pub fn predict(&self, x: &[f64], rows: usize) -> Vec<f64> {
        let mut pass = Pass::default();
        let mut out = Vec::with_capacity(rows * self.outputs());
        // As many rows at a time as stay in the cache.
        for part in x[..rows * self.inputs()].chunks(512 * self.inputs()) {
            self.forward(part, part.len() / self.inputs(), &mut pass);
            out.extend_from_slice(pass.outputs());
        }
        out
    }

    /// Runs `rows` rows through, keeping in `pass` what [`Self::backward`] needs.
    pub fn forward(&self, x: &[f64], rows: usize, pass: &mut Pass) {
        let layers = self.layers();
        pass.layers.resize_with(layers, Vec::new);
        for layer in 0..layers {
            let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
            let (before, rest) = pass.layers.split_at_mut(layer);
            let from = before.last().map_or_else(|| &x[..rows * inputs], Vec::as_slice);
            let out = &mut rest[0];
            out.resize(rows * outputs, 0.0);
            matmul(
                MatMut::from_row_major_slice_mut(out, rows, outputs),
                Accum::Replace,
                MatRef::from_row_major_slice(from, rows, inputs),
                MatRef::from_row_major_slice(self.weights(layer), inputs, outputs),
                1.0,
                Par::Seq,
            );
            if self.intercepts {
                let (_, middle, end) = self.span(layer);
                for row in out.chunks_exact_mut(outputs) {
                    row.iter_mut().zip(&self.parameters[middle..end]).for_each(|(o, b)| *o += b);
                }
            }
            if layer + 1 < layers {
                out.iter_mut().for_each(|o| *o = o.max(0.0));
            }
        }
    }

    /// The gradient by the parameters, given that by the outputs in [`Pass::slope_mut`], for the rows last run through.
    pub fn backward(&self, x: &[f64], pass: &mut Pass, gradient: &mut [f64]) {
        self.back(x, pass, false, gradient);
    }

    /// As [`Self::backward`], but with the squares of every row's own gradient added up.
    ///
    /// A row's gradient by a layer's weights is its input times its slope, so the squares are products of squares.
    pub fn backward_squares(&self, x: &[f64], pass: &mut Pass, squares: &mut [f64]) {
        self.back(x, pass, true, squares);
    }

    fn back(&self, x: &[f64], pass: &mut Pass, squares: bool, out: &mut [f64]) {
        let rows = pass.outputs().len() / self.outputs();
        let Pass { layers, slope, next, squared } = pass;
        for layer in (0..self.layers()).rev() {
            let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
            let (start, middle, end) = self.span(layer);
            let mut from = if layer == 0 { &x[..rows * inputs] } else { &layers[layer - 1] };
            let mut by = slope.as_slice();
            if squares {
                squared.clear();
                squared.extend(from.iter().chain(by).map(|v| v * v));
                (from, by) = squared.split_at(rows * inputs);
            }
            matmul(
                MatMut::from_row_major_slice_mut(&mut out[start..middle], inputs, outputs),
                Accum::Replace,
                MatRef::from_row_major_slice(from, rows, inputs).transpose(),
                MatRef::from_row_major_slice(by, rows, outputs),
                1.0,
                Par::Seq,
            );
            let sums = &mut out[middle..end];
            sums.fill(0.0);
            for row in by.chunks_exact(outputs) {
                sums.iter_mut().zip(row).for_each(|(s, d)| *s += d);
            }
            if layer > 0 {
                next.resize(rows * inputs, 0.0);
                matmul(
                    MatMut::from_row_major_slice_mut(next, rows, inputs),
                    Accum::Replace,
                    MatRef::from_row_major_slice(slope, rows, outputs),
                    MatRef::from_row_major_slice(self.weights(layer), inputs, outputs).transpose(),
                    1.0,
                    Par::Seq,
                );
                for (slope, &out) in next.iter_mut().zip(&layers[layer - 1]) {
                    if out <= 0.0 {
                        *slope = 0.0;
                    }
                }
                std::mem::swap(slope, next);
            }
        }
    }
}

/// What a run forward leaves for the run back; kept from step to step so that no step allocates.
#[derive(Debug, Clone, Default)]
pub struct Pass {
    layers: Vec<Vec<f64>>,
    slope: Vec<f64>,
    next: Vec<f64>,
    squared: Vec<f64>,
}

impl Pass {
    /// The outputs of the rows last run forward.
    pub fn outputs(&self) -> &[f64] {
        self.layers.last().map_or(&[], Vec::as_slice)
    }

    /// The outputs, and room for the gradient by them.
    pub fn slope_mut(&mut self) -> (&[f64], &mut [f64]) {
        let outputs = self.layers.last().map_or(&[][..], Vec::as_slice);
        self.slope.resize(outputs.len(), 0.0);
        (outputs, &mut self.slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Goal, squared};

    /// A loss of the outputs that writes its gradient by them.
    type Loss = dyn Fn(&[f64], &mut [f64]) -> f64;

    /// Largest difference between the gradient and central differences.
    fn worst(mut network: Network, loss: &Loss) -> f64 {
        let mut random = Random::new(5);
        let rows = 6;
        let x: Vec<f64> = (0..rows * network.inputs()).map(|_| random.uniform() - 0.3).collect();
        // Away from zero, so that no intercept sits on the corner of a rectifier.
        network.parameters_mut().iter_mut().for_each(|p| *p += 0.2 * random.uniform());
        let mut pass = Pass::default();
        let mut gradient = vec![f64::NAN; network.parameters().len()];
        network.forward(&x, rows, &mut pass);
        let (outputs, slope) = pass.slope_mut();
        loss(outputs, slope);
        network.backward(&x, &mut pass, &mut gradient);
        let mut worst = 0.0f64;
        for i in 0..gradient.len() {
            let step = 1e-6;
            let value = |by: f64| {
                let mut moved = network.clone();
                moved.parameters_mut()[i] += by;
                let outputs = moved.predict(&x, rows);
                loss(&outputs, &mut vec![0.0; outputs.len()])
            };
            let slope = (value(step) - value(-step)) / (2.0 * step);
            worst = worst.max((slope - gradient[i]).abs());
        }
        worst
    }

    fn codes() -> Vec<f64> {
        vec![0.0, 2.0, 1.0, 1.0, 2.0, 0.0]
    }

    #[test]
    fn gradients_are_those_of_central_differences() {
        let values: Vec<f64> = (0..18).map(|i| f64::from(i) / 9.0 - 1.0).collect();
        let targets = values.clone();
        let entropy = |o: &[f64], s: &mut [f64]| Goal::Class.slope(o, &codes(), 3, 1.0, s);
        let square = move |o: &[f64], s: &mut [f64]| Goal::Values.slope(o, &values, 3, 1.0, s);
        // The pull of stored outputs on half of the rows, added to the cross-entropy of the others.
        let both = move |o: &[f64], s: &mut [f64]| {
            let (front, back) = s.split_at_mut(9);
            Goal::Class.slope(&o[..9], &codes()[..3], 3, 1.0, front)
                + 0.7 * squared(&o[9..], &targets[..9], 0.7, back)
        };
        for widths in [&[4, 3][..], &[4, 5, 3], &[4, 6, 5, 3]] {
            for network in [Network::new(widths, 1), Network::new(widths, 2).without_intercepts()] {
                // Central differences of step 1e-6 are good to about 1e-10 in double precision.
                for loss in [&entropy as &Loss, &square, &both] {
                    let worst = worst(network.clone(), loss);
                    assert!(worst < 1e-8, "{worst:e} at {widths:?}");
                }
            }
        }
    }

    #[test]
    fn squares_are_those_of_every_rows_own_gradient() {
        let network = Network::new(&[4, 5, 3], 1);
        let mut random = Random::new(6);
        let x: Vec<f64> = (0..24).map(|_| random.uniform() - 0.3).collect();
        let count = network.parameters().len();
        let (mut pass, mut row_wise) = (Pass::default(), vec![0.0; count]);
        let mut own = vec![0.0; count];
        for (row, code) in x.chunks_exact(4).zip(codes()) {
            network.forward(row, 1, &mut pass);
            let (outputs, slope) = pass.slope_mut();
            Goal::Class.slope(outputs, &[code], 3, 1.0, slope);
            network.backward(row, &mut pass, &mut own);
            row_wise.iter_mut().zip(&own).for_each(|(s, g)| *s += g * g);
        }
        network.forward(&x, 6, &mut pass);
        let (outputs, slope) = pass.slope_mut();
        // The mean over six rows, times six.
        Goal::Class.slope(outputs, &codes(), 3, 6.0, slope);
        network.backward_squares(&x, &mut pass, &mut own);
        for (a, b) in own.iter().zip(&row_wise) {
            assert!((a - b).abs() < 1e-14, "{a} against {b}");
        }
    }

    #[test]
    fn weights_start_within_their_bound_and_intercepts_at_zero() {
        let network = Network::new(&[30, 20, 10], 3);
        let (weights, intercepts) = (network.weights(0), &network.parameters()[600..620]);
        let bound = (6.0f64 / 50.0).sqrt();
        let most = weights.iter().map(|w| w.abs()).fold(0.0, f64::max);
        assert!(most <= bound && most > 0.95 * bound);
        assert!(intercepts.iter().all(|b| b.to_bits() == 0));
        assert_eq!(network.parameters().len(), 30 * 20 + 20 + 20 * 10 + 10);
    }

    #[test]
    fn a_linear_model_reads_as_weights_then_intercepts() {
        let network = Network::new(&[3, 2], 3);
        let theta = network.linear().unwrap();
        let x = [0.5, -1.0, 2.0];
        let by_hand =
            |k: usize| (0..3).map(|j| x[j] * theta[j * 2 + k]).sum::<f64>() + theta[6 + k];
        for (k, out) in network.predict(&x, 1).iter().enumerate() {
            assert!((out - by_hand(k)).abs() < 1e-15);
        }
        assert_eq!(network.without_intercepts().linear().unwrap().len(), 8);
        assert!(Network::new(&[3, 4, 2], 3).linear().is_none());
    }
}
