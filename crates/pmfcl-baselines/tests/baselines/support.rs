//! Small tasks with a seed.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::ops::Range;
use std::sync::Arc;

use pmfcl_baselines::{Matrix, Random, Steps, Targets, Task};

/// One epoch or more of plain steps.
pub fn steps(rate: f64, batch: usize, epochs: usize) -> Steps {
    Steps { rate, batch, epochs, seed: 11 }
}

fn cells(count: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..count).map(|_| 2.0 * random.uniform() - 1.0).collect()
}

/// Rows whose class is that of the largest of a few linear scores of the seed.
pub fn classes(rows: usize, width: usize, count: usize, seed: u64) -> Task {
    let (x, scores) = (cells(rows * width, seed), cells(width * count, seed + 100));
    let code = |row: &[f64]| {
        let score = |k: usize| (0..width).map(|j| row[j] * scores[j * count + k]).sum::<f64>();
        (0..count).max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap() as u32
    };
    let codes = x.chunks_exact(width).map(code).collect();
    Task { x: Arc::new(Matrix::new(x, width)), y: Arc::new(Targets::Classes { codes, count }) }
}

/// Rows whose targets are linear in the inputs, of the seed, with intercept.
pub fn values(rows: usize, width: usize, outputs: usize, seed: u64) -> Task {
    linear(&cells(rows * width, seed), width, &cells((width + 1) * outputs, seed + 100))
}

/// Targets of these inputs under the linear model θ, inputs × outputs and then the intercepts.
pub fn linear(x: &[f64], width: usize, theta: &[f64]) -> Task {
    let outputs = theta.len() / (width + 1);
    let mut cells = Vec::new();
    for row in x.chunks_exact(width) {
        for k in 0..outputs {
            let dot = (0..width).map(|j| row[j] * theta[j * outputs + k]).sum::<f64>();
            cells.push(dot + theta[width * outputs + k]);
        }
    }
    let y = Targets::Values { cells, width: outputs };
    Task { x: Arc::new(Matrix::new(x.to_vec(), width)), y: Arc::new(y) }
}

/// Some rows of a task.
pub fn rows(task: &Task, range: Range<usize>) -> Task {
    let width = task.x.width();
    let mut x = vec![0.0; range.len() * width];
    for (out, row) in x.chunks_exact_mut(width).zip(range.clone()) {
        task.x.write(row, out);
    }
    let y = match &*task.y {
        Targets::Classes { codes, count } => {
            Targets::Classes { codes: codes[range].to_vec(), count: *count }
        }
        Targets::Values { cells, width } => Targets::Values {
            cells: cells[range.start * width..range.end * width].to_vec(),
            width: *width,
        },
    };
    Task { x: Arc::new(Matrix::new(x, width)), y: Arc::new(y) }
}

/// Inputs to compare outputs on, and how many rows.
pub fn probe(width: usize) -> (Vec<f64>, usize) {
    (cells(20 * width, 999), 20)
}
