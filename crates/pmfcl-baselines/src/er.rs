//! Experience replay.

use crate::batch::Batch;
use crate::buffer::Buffer;
use crate::method::{Kept, Method};
use crate::network::Network;
use crate::steps::{Steps, Trainer};
use crate::task::Task;

/// What replay needs in addition to the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErArguments {
    /// Examples held.
    pub buffer: usize,
    /// Examples replayed a step.
    pub minibatch: usize,
}

/// Appends drawn examples to every batch: one mean over both. The batch itself is offered to the buffer after the step,
/// so the first step has no replay, and examples of the current task may come back at once.
#[derive(Debug, Clone)]
pub struct Er {
    trainer: Trainer,
    arguments: ErArguments,
    buffer: Buffer,
}

impl Er {
    /// Starts from this network with an empty buffer.
    pub fn new(network: Network, steps: Steps, arguments: ErArguments) -> Self {
        let buffer = Buffer::new(arguments.buffer, steps.seed);
        Self { trainer: Trainer::new(network, steps), arguments, buffer }
    }
}

impl Method for Er {
    fn name(&self) -> String {
        format!("ER {}", self.arguments.buffer)
    }

    fn learn(&mut self, task: &Task) {
        self.buffer.shape(task, true, false);
        let mut batch = Batch::default();
        for _ in 0..self.trainer.steps.epochs {
            for rows in self.trainer.order(task).chunks(self.trainer.steps.batch) {
                batch.fill(task, rows);
                self.buffer.replay(self.arguments.minibatch, &mut batch);
                self.trainer.descend(&batch);
                self.trainer.step();
                self.buffer.offer(&batch, &[], rows.len());
            }
        }
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
