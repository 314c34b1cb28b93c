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

    /// Learns from a task how wide its parts are and what they weigh: inputs as they come, a class one byte while there
    /// are at most 256, values eight. Outputs are held in single precision by every published implementation and count
    /// four.
    pub(crate) fn shape(&mut self, task: &Task, target: bool, outputs: bool) {
        let class_bytes = |count: usize| if count <= 256 { 1 } else { 4 };
        let target_bytes = match *task.y {
            Targets::Classes { count, .. } => class_bytes(count),
            Targets::Values { .. } => 8,
        };
        self.widths = [
            task.x.width(),
            if target { task.y.width() } else { 0 },
            if outputs { task.y.outputs() } else { 0 },
        ];
        self.bytes = [task.x.cell_bytes(), target_bytes, 4];
    }

    /// Adds up to `count` drawn examples with their targets to a batch.
    pub(crate) fn replay(&mut self, count: usize, batch: &mut Batch) {
        let [x, y, _] = self.widths;
        for row in self.rows.draw(count) {
            batch.push(&row[..x], &row[x..x + y]);
        }
    }

    /// Offers the first `rows` rows of a batch.
    pub(crate) fn offer(&mut self, batch: &Batch, rows: usize) {
        let [x, y, _] = self.widths;
        for (x, y) in batch.x.chunks_exact(x).zip(batch.y.chunks_exact(y)).take(rows) {
            self.rows.offer(&[x, y]);
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
