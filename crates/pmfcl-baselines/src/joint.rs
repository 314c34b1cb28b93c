//! Joint training: what all others try to reach without keeping everything.

use std::sync::{Arc, OnceLock};

use crate::buffer::row_bytes;
use crate::method::{Kept, Method};
use crate::network::Network;
use crate::steps::{Steps, Trainer};
use crate::task::{Inputs, Targets, Task};

/// Keeps every task, and trains once on the union of all so far when outputs are asked for.
///
/// Training starts from the first network each time, so what is asked on the way changes nothing later. Until a task is
/// there, outputs are those of the untrained network.
#[derive(Debug)]
pub struct Joint {
    start: Network,
    steps: Steps,
    tasks: Vec<Task>,
    trained: OnceLock<Network>,
}

impl Joint {
    /// Trains from this network.
    pub fn new(network: Network, steps: Steps) -> Self {
        Self { start: network, steps, tasks: Vec::new(), trained: OnceLock::new() }
    }

    fn network(&self) -> &Network {
        self.trained.get_or_init(|| {
            let mut trainer = Trainer::new(self.start.clone(), self.steps);
            if let Some(union) = union(&self.tasks) {
                trainer.train(&union);
            }
            trainer.network
        })
    }
}

/// All rows of several tasks as one.
fn union(tasks: &[Task]) -> Option<Task> {
    let mut y = Targets::clone(&tasks.first()?.y);
    for task in &tasks[1..] {
        match (&mut y, &*task.y) {
            (Targets::Classes { codes, .. }, Targets::Classes { codes: more, .. }) => {
                codes.extend_from_slice(more);
            }
            (Targets::Values { cells, .. }, Targets::Values { cells: more, .. }) => {
                cells.extend_from_slice(more);
            }
            _ => panic!("tasks of classes and of values have no union"),
        }
    }
    let mut end = 0;
    let parts = tasks.iter().map(|task| {
        end += task.x.rows();
        (end, Arc::clone(&task.x))
    });
    Some(Task { x: Arc::new(Union { parts: parts.collect() }), y: Arc::new(y) })
}

/// Inputs one after the other, each with the row at which it ends.
struct Union {
    parts: Vec<(usize, Arc<dyn Inputs>)>,
}

impl Inputs for Union {
    fn rows(&self) -> usize {
        self.parts.last().map_or(0, |(end, _)| *end)
    }

    fn width(&self) -> usize {
        self.parts[0].1.width()
    }

    fn write(&self, i: usize, out: &mut [f64]) {
        let at = self.parts.partition_point(|(end, _)| *end <= i);
        let before = if at == 0 { 0 } else { self.parts[at - 1].0 };
        self.parts[at].1.write(i - before, out);
    }

    fn cell_bytes(&self) -> usize {
        self.parts[0].1.cell_bytes()
    }
}

impl Method for Joint {
    fn name(&self) -> String {
        "joint".into()
    }

    fn learn(&mut self, task: &Task) {
        self.tasks.push(task.clone());
        self.trained = OnceLock::new();
    }

    fn outputs(&self, x: &[f64], rows: usize) -> Vec<f64> {
        self.network().predict(x, rows)
    }

    fn kept(&self) -> Kept {
        self.tasks.iter().fold(Kept::default(), |sum, task| {
            let rows = task.x.rows();
            Kept {
                numbers: sum.numbers + rows * (task.x.width() + task.y.width()),
                bytes: sum.bytes + rows * row_bytes(task),
                examples: sum.examples + rows,
            }
        })
    }

    fn linear(&self) -> Option<Vec<f64>> {
        self.network().linear()
    }
}
