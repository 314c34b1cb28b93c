//! Plain stochastic gradient steps: no momentum, no decay.

use crate::batch::Batch;
use crate::network::{Network, Pass};
use crate::random::Random;
use crate::task::Task;

/// How a network is trained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steps {
    /// Learning rate.
    pub rate: f64,
    /// Rows a step. The last, shorter batch of an epoch counts as well.
    pub batch: usize,
    /// How often every row of a task is seen, each time in a new order.
    pub epochs: usize,
    /// Seed of the order of rows and of all draws from a buffer.
    pub seed: u64,
}

/// A network with what it needs to take steps.
#[derive(Debug, Clone)]
pub(crate) struct Trainer {
    pub(crate) network: Network,
    pub(crate) steps: Steps,
    pub(crate) pass: Pass,
    /// The gradient of the next step.
    pub(crate) gradient: Vec<f64>,
    random: Random,
}

impl Trainer {
    pub(crate) fn new(network: Network, steps: Steps) -> Self {
        assert!(steps.batch > 0, "a step needs rows");
        let gradient = vec![0.0; network.parameters().len()];
        let random = Random::of(steps.seed, "order");
        Self { network, steps, pass: Pass::default(), gradient, random }
    }

    /// The rows of a task in the order of another epoch.
    pub(crate) fn order(&mut self, task: &Task) -> Vec<usize> {
        assert_eq!(task.x.width(), self.network.inputs(), "the network has other inputs");
        assert_eq!(task.y.outputs(), self.network.outputs(), "the network has other outputs");
        self.random.permutation(task.x.rows())
    }

    /// Puts the gradient of the mean loss over a batch in place; returns the loss.
    pub(crate) fn descend(&mut self, batch: &Batch) -> f64 {
        self.network.forward(&batch.x, batch.rows, &mut self.pass);
        let (outputs, slope) = self.pass.slope_mut();
        let loss = batch.goal.slope(outputs, &batch.y, self.network.outputs(), 1.0, slope);
        self.network.backward(&batch.x, &mut self.pass, &mut self.gradient);
        loss
    }

    /// One step down the gradient.
    pub(crate) fn step(&mut self) {
        let rate = self.steps.rate;
        let parameters = self.network.parameters_mut();
        parameters.iter_mut().zip(&self.gradient).for_each(|(p, g)| *p -= rate * g);
    }

    /// All epochs of plain steps on a task.
    pub(crate) fn train(&mut self, task: &Task) {
        let mut batch = Batch::default();
        for _ in 0..self.steps.epochs {
            for rows in self.order(task).chunks(self.steps.batch) {
                batch.fill(task, rows);
                self.descend(&batch);
                self.step();
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::task::{Matrix, Targets};

    /// The line `w·x + b`.
    pub(crate) fn line(w: f64, b: f64) -> Network {
        let mut network = Network::new(&[1, 1], 0);
        network.parameters_mut().copy_from_slice(&[w, b]);
        network
    }

    /// A task of one row.
    pub(crate) fn one_row(x: f64, y: f64) -> Task {
        let y = Targets::Values { cells: vec![y], width: 1 };
        Task { x: Arc::new(Matrix::new(vec![x], 1)), y: Arc::new(y) }
    }

    /// A task of one input and these classes.
    pub(crate) fn classes(x: &[f64], codes: &[u32], count: usize) -> Task {
        let y = Targets::Classes { codes: codes.to_vec(), count };
        Task { x: Arc::new(Matrix::new(x.to_vec(), 1)), y: Arc::new(y) }
    }

    #[test]
    fn every_row_is_seen_once_an_epoch_and_the_last_batch_is_kept() {
        let steps = Steps { rate: 0.1, batch: 4, epochs: 1, seed: 3 };
        let mut trainer = Trainer::new(line(0.0, 0.0), steps);
        let task = classes(&[0.0; 10], &[0; 10], 1);
        let (first, second) = (trainer.order(&task), trainer.order(&task));
        assert_ne!(first, second);
        assert_eq!(first.chunks(4).map(<[usize]>::len).collect::<Vec<_>>(), [4, 4, 2]);
        for mut order in [first, second] {
            order.sort_unstable();
            assert_eq!(order, (0..10).collect::<Vec<_>>());
        }
    }
}
