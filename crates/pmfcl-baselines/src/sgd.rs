//! Stochastic gradient descent: the newest task is all there is.

use crate::method::{Kept, Method};
use crate::network::Network;
use crate::steps::{Steps, Trainer};
use crate::task::Task;

/// Goes on training on each task, keeping nothing of those before.
#[derive(Debug, Clone)]
pub struct Sgd {
    trainer: Trainer,
}

impl Sgd {
    /// Starts from this network.
    pub fn new(network: Network, steps: Steps) -> Self {
        Self { trainer: Trainer::new(network, steps) }
    }
}

impl Method for Sgd {
    fn name(&self) -> String {
        "SGD".into()
    }

    fn learn(&mut self, task: &Task) {
        self.trainer.train(task);
    }

    fn outputs(&self, x: &[f64], rows: usize) -> Vec<f64> {
        self.trainer.network.predict(x, rows)
    }

    fn kept(&self) -> Kept {
        Kept::default()
    }

    fn linear(&self) -> Option<Vec<f64>> {
        self.trainer.network.linear()
    }
}
