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
