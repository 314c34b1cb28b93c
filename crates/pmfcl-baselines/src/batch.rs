//! A few rows of a task, side by side in memory.

use crate::loss::Goal;
use crate::task::{Targets, Task};

/// Inputs and targets of some rows. A class is kept as its code, one number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
    pub(crate) rows: usize,
    pub(crate) goal: Goal,
}

impl Batch {
    /// Takes these rows of a task, in this order, in place of what was there.
    pub(crate) fn fill(&mut self, task: &Task, rows: &[usize]) {
        let width = task.x.width();
        self.rows = rows.len();
        self.x.resize(rows.len() * width, 0.0);
        for (out, &row) in self.x.chunks_exact_mut(width).zip(rows) {
            task.x.write(row, out);
        }
        self.goal = task.y.goal();
        self.y.clear();
        for &row in rows {
            task.y.append(row, &mut self.y);
        }
    }

    /// Adds one row at the end.
    pub(crate) fn push(&mut self, x: &[f64], y: &[f64]) {
        self.x.extend_from_slice(x);
        self.y.extend_from_slice(y);
        self.rows += 1;
    }
}

impl Targets {
    pub(crate) fn goal(&self) -> Goal {
        match self {
            Self::Classes { .. } => Goal::Class,
            Self::Values { .. } => Goal::Values,
        }
    }

    /// Numbers a target row takes in a batch.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Classes { .. } => 1,
            Self::Values { width, .. } => *width,
        }
    }

    fn append(&self, row: usize, out: &mut Vec<f64>) {
        match self {
            Self::Classes { codes, .. } => out.push(f64::from(codes[row])),
            Self::Values { cells, width } => {
                out.extend_from_slice(&cells[row * width..(row + 1) * width]);
            }
        }
    }
}
