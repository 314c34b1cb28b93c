//! Examples held for replay, and what they weigh.

use crate::batch::Batch;
use crate::method::Kept;
use crate::reservoir::Reservoir;
use crate::task::{Targets, Task};

/// A reservoir of examples: inputs, then the target where the method keeps it, then outputs where it keeps those.
#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    pub(crate) rows: Reservoir,
    /// Inputs, target and outputs: numbers in each part of a row.
    widths: [usize; 3],
    /// Bytes a number of each part takes.
    bytes: [usize; 3],
}

impl Buffer {
    pub(crate) fn new(capacity: usize, seed: u64) -> Self {
        Self { rows: Reservoir::new(capacity, seed), widths: [0; 3], bytes: [0; 3] }
    }

    /// Learns from a task how wide its parts are and what they weigh. Outputs are held in single precision by every
    /// published implementation and count four bytes.
    pub(crate) fn shape(&mut self, task: &Task, target: bool, outputs: bool) {
        self.widths = [
            task.x.width(),
            if target { task.y.width() } else { 0 },
            if outputs { task.y.outputs() } else { 0 },
        ];
        self.bytes = [task.x.cell_bytes(), target_bytes(task), 4];
    }

    /// Adds up to `count` drawn examples with their targets to a batch.
    pub(crate) fn replay(&mut self, count: usize, batch: &mut Batch) {
        let [x, y, _] = self.widths;
        for row in self.rows.draw(count) {
            batch.push(&row[..x], &row[x..x + y]);
        }
    }

    /// Adds the inputs of up to `count` drawn examples to a batch, and the outputs held with them to a list.
    pub(crate) fn recall(&mut self, count: usize, batch: &mut Batch, outputs: &mut Vec<f64>) {
        let [x, y, _] = self.widths;
        for row in self.rows.draw(count) {
            batch.push(&row[..x], &[]);
            outputs.extend_from_slice(&row[x + y..]);
        }
    }

    /// Offers the first `rows` rows of a batch with as much of target and outputs as is kept.
    pub(crate) fn offer(&mut self, batch: &Batch, outputs: &[f64], rows: usize) {
        let [x, y, z] = self.widths;
        for i in 0..rows {
            let own = |width: usize| i * width..(i + 1) * width;
            self.rows.offer(&[&batch.x[own(x)], &batch.y[own(y)], &outputs[own(z)]]);
        }
    }

    pub(crate) fn kept(&self) -> Kept {
        let examples = self.rows.len();
        Kept {
            numbers: examples * self.rows.width(),
            bytes: examples
                * self.widths.iter().zip(&self.bytes).map(|(w, b)| w * b).sum::<usize>(),
            examples,
        }
    }
}

/// Bytes of a number of a target: a class takes one while there are at most 256, a value eight.
fn target_bytes(task: &Task) -> usize {
    match *task.y {
        Targets::Classes { count, .. } if count <= 256 => 1,
        Targets::Classes { .. } => 4,
        Targets::Values { .. } => 8,
    }
}

/// Bytes of a row of a task with its target.
pub(crate) fn row_bytes(task: &Task) -> usize {
    task.x.width() * task.x.cell_bytes() + task.y.width() * target_bytes(task)
}
