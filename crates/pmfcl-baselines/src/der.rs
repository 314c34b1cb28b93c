//! Dark experience replay: outputs are replayed, not only labels.

use crate::batch::Batch;
use crate::buffer::Buffer;
use crate::loss::squared;
use crate::method::{Kept, Method};
use crate::network::Network;
use crate::steps::{Steps, Trainer};
use crate::task::Task;

/// What dark replay needs in addition to the steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DerArguments {
    /// Examples held.
    pub buffer: usize,
    /// Examples a draw.
    pub minibatch: usize,
    /// Weight of the pull towards the outputs held, the mean of squares over all of them.
    pub alpha: f64,
    /// Weight of the loss on a second, independent draw with its labels, which makes it DER++.
    pub beta: Option<f64>,
}

/// DER, and DER++ with a β: every step pulls the outputs on drawn examples towards those they had when they were met.
///
/// Offered to the buffer are the rows of the batch with their outputs from before the step.
#[derive(Debug, Clone)]
pub struct Der {
    trainer: Trainer,
    arguments: DerArguments,
    buffer: Buffer,
}

impl Der {
    /// Starts from this network with an empty buffer.
    pub fn new(network: Network, steps: Steps, arguments: DerArguments) -> Self {
        let buffer = Buffer::new(arguments.buffer, steps.seed);
        Self { trainer: Trainer::new(network, steps), arguments, buffer }
    }

    /// One step on a batch of `fresh` rows of the task.
    fn step(&mut self, batch: &mut Batch, held: &mut Vec<f64>) {
        let DerArguments { minibatch, alpha, beta, .. } = self.arguments;
        let fresh = batch.rows;
        held.clear();
        self.buffer.recall(minibatch, batch, held);
        let recalled = batch.rows;
        let own_targets = batch.y.len();
        if beta.is_some() {
            self.buffer.replay(minibatch, batch);
        }
        let Trainer { network, pass, gradient, .. } = &mut self.trainer;
        network.forward(&batch.x, batch.rows, pass);
        let width = network.outputs();
        let (outputs, slope) = pass.slope_mut();
        let (first, second) = (fresh * width, recalled * width);
        let (own, rest) = slope.split_at_mut(first);
        let (dark, labelled) = rest.split_at_mut(second - first);
        let (own_y, replayed_y) = batch.y.split_at(own_targets);
        batch.goal.slope(&outputs[..first], own_y, width, 1.0, own);
        if recalled > fresh {
            squared(&outputs[first..second], held, alpha, dark);
        }
        if let (Some(beta), false) = (beta, replayed_y.is_empty()) {
            batch.goal.slope(&outputs[second..], replayed_y, width, beta, labelled);
        }
        held.clear();
        held.extend_from_slice(&outputs[..first]);
        network.backward(&batch.x, pass, gradient);
        self.trainer.step();
        self.buffer.offer(batch, held, fresh);
    }
}

impl Method for Der {
    fn name(&self) -> String {
        let plus = if self.arguments.beta.is_some() { "++" } else { "" };
        format!("DER{plus} {}", self.arguments.buffer)
    }

    fn learn(&mut self, task: &Task) {
        self.buffer.shape(task, self.arguments.beta.is_some(), true);
        let (mut batch, mut held) = (Batch::default(), Vec::new());
        for _ in 0..self.trainer.steps.epochs {
            for rows in self.trainer.order(task).chunks(self.trainer.steps.batch) {
                batch.fill(task, rows);
                self.step(&mut batch, &mut held);
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
