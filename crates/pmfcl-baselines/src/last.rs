//! The newest task alone.

use crate::method::{Kept, Method};
use crate::network::Network;
use crate::steps::{Steps, Trainer};
use crate::task::Task;

/// Starts anew with every task: what learning without a past amounts to.
#[derive(Debug, Clone)]
pub struct Last {
    start: Network,
    trainer: Trainer,
}

impl Last {
    /// Starts every task from this network.
    pub fn new(network: Network, steps: Steps) -> Self {
        Self { start: network.clone(), trainer: Trainer::new(network, steps) }
    }
}

impl Method for Last {
    fn name(&self) -> String {
        "last task".into()
    }

    fn learn(&mut self, task: &Task) {
        self.trainer.network.clone_from(&self.start);
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
