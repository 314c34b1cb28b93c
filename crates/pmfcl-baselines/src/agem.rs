//! Averaged gradient episodic memory.

use crate::batch::Batch;
use crate::buffer::Buffer;
use crate::method::{Kept, Method};
use crate::network::Network;
use crate::steps::{Steps, Trainer};
use crate::task::Task;

/// What averaged episodic memory needs in addition to the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgemArguments {
    /// Examples held.
    pub buffer: usize,
    /// Examples drawn a step.
    pub minibatch: usize,
}

/// Takes from every step what would raise the loss on drawn examples: when `g·ĝ < 0`, `g ← g − (g·ĝ/‖ĝ‖²)ĝ`.
///
/// At the end of a task one more batch of it is offered to the buffer; nothing is offered on the way.
#[derive(Debug, Clone)]
pub struct Agem {
    trainer: Trainer,
    arguments: AgemArguments,
    buffer: Buffer,
}

impl Agem {
    /// Starts from this network with an empty buffer.
    pub fn new(network: Network, steps: Steps, arguments: AgemArguments) -> Self {
        let buffer = Buffer::new(arguments.buffer, steps.seed);
        Self { trainer: Trainer::new(network, steps), arguments, buffer }
    }
}

/// Makes a gradient one that does not raise the reference loss.
fn project(gradient: &mut [f64], reference: &[f64]) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let along = dot(gradient, reference);
    if along < 0.0 {
        let scale = along / dot(reference, reference);
        gradient.iter_mut().zip(reference).for_each(|(g, r)| *g -= scale * r);
    }
}

impl Method for Agem {
    fn name(&self) -> String {
        format!("A-GEM {}", self.arguments.buffer)
    }

    fn learn(&mut self, task: &Task) {
        self.buffer.shape(task, true, false);
        let (mut batch, mut past, mut reference) = (Batch::default(), Batch::default(), Vec::new());
        for _ in 0..self.trainer.steps.epochs {
            for rows in self.trainer.order(task).chunks(self.trainer.steps.batch) {
                if self.buffer.rows.is_empty() {
                    batch.fill(task, rows);
                    self.trainer.descend(&batch);
                } else {
                    past.fill(task, &[]);
                    self.buffer.replay(self.arguments.minibatch, &mut past);
                    self.trainer.descend(&past);
                    reference.clear();
                    reference.extend_from_slice(&self.trainer.gradient);
                    batch.fill(task, rows);
                    self.trainer.descend(&batch);
                    project(&mut self.trainer.gradient, &reference);
                }
                self.trainer.step();
            }
        }
        let order = self.trainer.order(task);
        batch.fill(task, &order[..self.trainer.steps.batch.min(order.len())]);
        self.buffer.offer(&batch, &[], batch.rows);
    }

    fn outputs(&self, x: &[f64], rows: usize) -> Vec<f64> {
        self.trainer.network.predict(x, rows)
    }

    fn kept(&self) -> Kept {
        self.buffer.kept()
    }

    fn linear(&self) -> Option<Vec<f64>> {
        self.trainer.network.linear()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_harmful_gradient_loses_its_harmful_part_and_no_more() {
        let reference = [1.0, 2.0, -1.0];
        let mut gradient = [-3.0, 0.5, 1.0];
        project(&mut gradient, &reference);
        let dot: f64 = gradient.iter().zip(&reference).map(|(a, b)| a * b).sum();
        assert!(dot.abs() < 1e-14, "{dot}");
        // −3 of the way along, of six: a half of the reference was added.
        assert!((gradient[0] + 2.5).abs() + (gradient[1] - 1.5).abs() < 1e-14, "{gradient:?}");
        let mut harmless = [1.0, 0.0, 0.0];
        project(&mut harmless, &reference);
        assert_eq!(harmless.map(f64::to_bits), [1.0, 0.0, 0.0f64].map(f64::to_bits));
    }
}
