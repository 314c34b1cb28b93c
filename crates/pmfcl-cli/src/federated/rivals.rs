//! Federated averaging over the same steps and clients.

use std::sync::Arc;

use pmfcl_baselines as field;
use pmfcl_baselines::{FedAvg, FedAvgArguments, Matrix, Network, Steps, Task};

use super::stage::{Stage, Targets};

/// Rates that are tried; the best counts.
const RATES: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];
/// Rows a step of a client.
const BATCH: usize = 32;

/// How federated averaging did with its best rate.
pub(super) struct Averaged {
    pub(super) rate: f64,
    /// Rounds a step.
    pub(super) rounds: usize,
    /// Error after each step.
    pub(super) errors: Vec<f64>,
    /// Bytes one client sends in a step, and gets: a network a round, in single precision.
    pub(super) bytes: usize,
}

/// A linear model on the same design, averaged over `rounds` rounds a step among the clients that are there. Inputs and values are
/// measured in means and deviations of the first step. The rate is the one with the least final error on the very rows it is
/// judged by: in its favour.
pub(super) fn average(
    stage: &Stage,
    design: &[f64],
    width: usize,
    (rounds, seed): (usize, u64),
) -> Option<Averaged> {
    let first: Vec<usize> = stage.there(0).into_iter().flat_map(|c| stage.learned(c, 0)).collect();
    let units = Units::of(design, width, &first);
    let x: Vec<f64> = units.apply(design);
    let (outputs, scale) = match &stage.y {
        Targets::Values { cells, width } => (*width, Some(Units::of(cells, *width, &first))),
        Targets::Classes { names, .. } => (names.len(), None),
    };
    let pick = |rows: &[usize]| -> Vec<f64> {
        rows.iter().flat_map(|&r| &x[r * width..(r + 1) * width]).copied().collect()
    };
    let task = |client: usize, step: usize| {
        let rows = stage.learned(client, step);
        let y = match (&stage.y, &scale) {
            (Targets::Classes { codes, names }, _) => field::Targets::Classes {
                codes: rows.iter().map(|&r| codes[r]).collect(),
                count: names.len(),
            },
            (Targets::Values { .. }, Some(scale)) => {
                field::Targets::Values { cells: scale.apply(&stage.values(&rows)), width: outputs }
            }
            (Targets::Values { .. }, None) => {
                field::Targets::Values { cells: stage.values(&rows), width: outputs }
            }
        };
        Task { x: Arc::new(Matrix::new(pick(&rows), width)), y: Arc::new(y) }
    };
    let tasks: Vec<Vec<Task>> = (0..stage.steps.len())
        .map(|step| stage.there(step).into_iter().map(|c| task(c, step)).collect())
        .collect();
    let tested: Vec<(Vec<usize>, Vec<f64>)> = (0..stage.steps.len())
        .map(|step| {
            let rows = stage.tested(step);
            let x = pick(&rows);
            (rows, x)
        })
        .collect();
    let run = |rate: f64| {
        let mut network = Network::new(&[width, outputs], seed);
        let steps = Steps { rate, batch: BATCH, epochs: 1, seed };
        let errors: Vec<f64> = tasks
            .iter()
            .zip(&tested)
            .map(|(clients, (rows, x))| {
                let mut server = FedAvg::new(network.clone(), steps, FedAvgArguments { rounds });
                network = server.train(clients, |_, _| {}).clone();
                let out = network.predict(x, rows.len());
                let out = match &scale {
                    Some(scale) => scale.back(&out),
                    None => out.chunks_exact(outputs).map(largest).collect(),
                };
                stage.error(&out, rows)
            })
            .collect();
        let bytes = 4 * rounds * network.parameters().len();
        Averaged { rate, rounds, errors, bytes }
    };
    let last = |run: &Averaged| run.errors.last().copied().unwrap_or(f64::NAN);
    RATES
        .iter()
        .map(|&rate| run(rate))
        .filter(|run| run.errors.iter().zip(&tested).all(|(e, t)| e.is_finite() || t.0.is_empty()))
        .min_by(|a, b| last(a).total_cmp(&last(b)))
}

/// The place of the largest score, as a number.
fn largest(scores: &[f64]) -> f64 {
    let mut best = 0;
    for (k, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = k;
        }
    }
    best as f64
}

/// Means and deviations of columns.
struct Units {
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

impl Units {
    fn of(cells: &[f64], width: usize, rows: &[usize]) -> Self {
        let n = rows.len().max(1) as f64;
        let column = |j: usize| rows.iter().map(move |&r| cells[r * width + j]);
        let mean: Vec<f64> = (0..width).map(|j| column(j).sum::<f64>() / n).collect();
        let deviation = (0..width)
            .map(|j| (column(j).map(|v| (v - mean[j]) * (v - mean[j])).sum::<f64>() / n).sqrt())
            .zip(&mean)
            // What does not vary in the first step is left as it is.
            .map(|(s, m)| if s > 1e-9 * m.abs() { s } else { 1.0 })
            .collect();
        Self { mean, deviation }
    }

    fn apply(&self, cells: &[f64]) -> Vec<f64> {
        let d = self.mean.len();
        let unit = |(i, v): (usize, &f64)| (v - self.mean[i % d]) / self.deviation[i % d];
        cells.iter().enumerate().map(unit).collect()
    }

    fn back(&self, cells: &[f64]) -> Vec<f64> {
        let d = self.mean.len();
        let unit = |(i, v): (usize, &f64)| v * self.deviation[i % d] + self.mean[i % d];
        cells.iter().enumerate().map(unit).collect()
    }
}
