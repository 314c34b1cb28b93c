//! Online elastic weight consolidation.

use crate::batch::Batch;
use crate::loss::{Goal, probabilities};
use crate::method::{Kept, Method};
use crate::network::Network;
use crate::steps::{Steps, Trainer};
use crate::task::Task;

/// What elastic weights need in addition to the steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EwcArguments {
    /// Weight of the pull towards the parameters at the end of the last task. Steps are stable while
    /// `rate · 2λ · max F < 2`.
    pub lambda: f64,
    /// What is left of earlier importance when a task is added.
    pub gamma: f64,
}

/// Holds back parameters by a diagonal of the Fisher information: penalty `λ·Σ F (θ − θ̄)²`, no half.
///
/// For classes a row counts the square of its gradient of `log p(y|x)` times `p(y|x)`, of the label that was observed:
/// neither the empirical Fisher nor the true one, but what the published code computes. The sum is divided by whole
/// batches × rows of a batch. For values it is the Fisher of a unit-variance Gaussian, the mean of the squared
/// derivatives of the outputs: `mean x²` in a linear model.
#[derive(Debug, Clone)]
pub struct Ewc {
    trainer: Trainer,
    arguments: EwcArguments,
    /// `F` and `θ̄`; nothing during the first task.
    past: Option<(Vec<f64>, Vec<f64>)>,
}

impl Ewc {
    /// Starts from this network, with no past.
    pub fn new(network: Network, steps: Steps, arguments: EwcArguments) -> Self {
        Self { trainer: Trainer::new(network, steps), arguments, past: None }
    }

    /// Adds the pull to the gradient in place.
    fn pull(&mut self) {
        let Some((fisher, anchor)) = &self.past else { return };
        let lambda = self.arguments.lambda;
        let parameters = self.trainer.network.parameters();
        for (i, gradient) in self.trainer.gradient.iter_mut().enumerate() {
            *gradient += 2.0 * lambda * fisher[i] * (parameters[i] - anchor[i]);
        }
    }

    /// The end of a task: one pass over it for its importance, and the anchor moves up.
    fn settle(&mut self, task: &Task) {
        let new = fisher(&mut self.trainer, task);
        let anchor = self.trainer.network.parameters().to_vec();
        let fisher = match self.past.take() {
            None => new,
            Some((old, _)) => {
                let gamma = self.arguments.gamma;
                old.iter().zip(&new).map(|(old, new)| gamma * old + new).collect()
            }
        };
        self.past = Some((fisher, anchor));
    }
}

/// The importance of every parameter for a task.
fn fisher(trainer: &mut Trainer, task: &Task) -> Vec<f64> {
    let Trainer { network, steps, pass, gradient, .. } = trainer;
    let (width, rows) = (network.outputs(), task.x.rows());
    let mut sum = vec![0.0; gradient.len()];
    let mut batch = Batch::default();
    let all: Vec<usize> = (0..rows).collect();
    for part in all.chunks(steps.batch) {
        batch.fill(task, part);
        network.forward(&batch.x, batch.rows, pass);
        // Values have one square for each output, classes one for the label.
        let passes = if batch.goal == Goal::Class { 1 } else { width };
        for k in 0..passes {
            let (outputs, slope) = pass.slope_mut();
            let rows = outputs.chunks_exact(width).zip(slope.chunks_exact_mut(width));
            for (i, (outputs, slope)) in rows.enumerate() {
                match batch.goal {
                    Goal::Class => {
                        let code = batch.y[i] as usize;
                        probabilities(outputs, slope);
                        let root = slope[code].sqrt();
                        slope[code] -= 1.0;
                        slope.iter_mut().for_each(|s| *s *= root);
                    }
                    Goal::Values => {
                        slope.fill(0.0);
                        slope[k] = 1.0;
                    }
                }
            }
            network.backward_squares(&batch.x, pass, gradient);
            sum.iter_mut().zip(&*gradient).for_each(|(s, g)| *s += g);
        }
    }
    let count = match batch.goal {
        Goal::Class => rows.div_ceil(steps.batch) * steps.batch,
        Goal::Values => rows,
    };
    sum.iter_mut().for_each(|s| *s /= count.max(1) as f64);
    sum
}

impl Method for Ewc {
    fn name(&self) -> String {
        "oEWC".into()
    }

    fn learn(&mut self, task: &Task) {
        let mut batch = Batch::default();
        for _ in 0..self.trainer.steps.epochs {
            for rows in self.trainer.order(task).chunks(self.trainer.steps.batch) {
                batch.fill(task, rows);
                self.trainer.descend(&batch);
                self.pull();
                self.trainer.step();
            }
        }
        self.settle(task);
    }

    fn outputs(&self, x: &[f64], rows: usize) -> Vec<f64> {
        self.trainer.network.predict(x, rows)
    }

    /// `F` and `θ̄`.
    fn kept(&self) -> Kept {
        Kept::singles(self.past.as_ref().map_or(0, |(fisher, anchor)| fisher.len() + anchor.len()))
    }

    fn linear(&self) -> Option<Vec<f64>> {
        self.trainer.network.linear()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::tests::{classes, line, one_row};

    fn near(a: &[f64], b: &[f64]) {
        assert_eq!(a.len(), b.len());
        let worst = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-14, "{a:?} against {b:?}");
    }

    #[test]
    fn two_parameters_by_hand() {
        let steps = Steps { rate: 0.1, batch: 1, epochs: 1, seed: 0 };
        let mut ewc = Ewc::new(line(0.0, 0.0), steps, EwcArguments { lambda: 0.5, gamma: 0.9 });
        ewc.learn(&one_row(2.0, 0.2));
        near(ewc.trainer.network.parameters(), &[0.08, 0.04]);
        // The mean of x² and of 1.
        near(&ewc.past.as_ref().unwrap().0, &[4.0, 1.0]);
        ewc.trainer.steps.epochs = 2;
        ewc.learn(&one_row(1.0, 0.22));
        // First step: o = 0.12, gradient −0.2 each, no pull. Second: o = 0.16, −0.12 + 2·0.5·F·0.02.
        near(ewc.trainer.network.parameters(), &[0.1 + 0.004, 0.06 + 0.010]);
        near(&ewc.past.as_ref().unwrap().0, &[0.9 * 4.0 + 1.0, 0.9 + 1.0]);
        assert_eq!(ewc.kept(), Kept { numbers: 4, bytes: 16, examples: 0 });
    }

    #[test]
    fn classes_weigh_the_square_by_the_probability_of_the_label() {
        // Three rows of one input in batches of two: two batches, so the sum is divided by four.
        let steps = Steps { rate: 0.0, batch: 2, epochs: 1, seed: 0 };
        let mut network = Network::new(&[1, 2], 0);
        network.parameters_mut().copy_from_slice(&[0.3, -0.2, 0.1, 0.0]);
        let mut ewc = Ewc::new(network, steps, EwcArguments { lambda: 1.0, gamma: 1.0 });
        let (x, codes) = ([1.0, -2.0, 0.5], [0u32, 1, 1]);
        ewc.learn(&classes(&x, &codes, 2));
        let mut expected = [0.0; 4];
        for (x, code) in x.iter().zip(codes) {
            let (a, b) = ((0.3 * x + 0.1f64).exp(), (-0.2 * x).exp());
            let p = [a / (a + b), b / (a + b)];
            for k in 0..2 {
                let u = p[k] - f64::from(u8::from(k == code as usize));
                expected[k] += p[code as usize] * u * u * x * x / 4.0;
                expected[2 + k] += p[code as usize] * u * u / 4.0;
            }
        }
        near(&ewc.past.as_ref().unwrap().0, &expected);
    }
}
