//! Federated averaging over the same steps and clients.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use pmfcl_baselines as field;
use pmfcl_baselines::{FedAvg, FedAvgArguments, Matrix, Network, Steps, Task};

use super::rates::{Search, search};
use super::stage::{Stage, Targets};

/// Rows in a gradient step of a client.
pub(super) const BATCH: usize = 32;

/// How federated averaging did with one rate.
#[derive(Debug, Clone)]
pub(super) struct Averaged {
    /// Rounds per step.
    pub(super) rounds: usize,
    /// What became of the parameters from step to step.
    pub(super) carry: Carry,
    /// Error after each step, on the test rows of all steps so far.
    pub(super) errors: Vec<f64>,
    /// Error after each step, on the test rows of that step alone.
    pub(super) newest: Vec<f64>,
    /// Bytes one client sends in a step, and gets: a network per round and the moments of its rows, in single precision.
    pub(super) bytes: usize,
}

/// A linear model on the same design, averaged over `rounds` rounds per step among the clients that are there.
///
/// It is given what it could know. Inputs and values are standardized by their means and deviations over the rows of all steps so
/// far, which clients would send as sums, so that no later step is out of scale. It starts from zero. The rate, and what becomes
/// of the parameters when these units change, are those with the least final error on the very rows it is judged by, once for all
/// steps and once for the newest: in its favour.
pub(super) fn average(
    stage: &Stage,
    design: &[f64],
    width: usize,
    (rounds, seed): (usize, u64),
) -> Rival {
    let (cells, outputs): (&[f64], usize) = match &stage.y {
        Targets::Values { cells, width } => (cells, *width),
        Targets::Classes { names, .. } => (&[], names.len()),
    };
    let valued = matches!(stage.y, Targets::Values { .. });
    let mut seen = (Moments::none(width), Moments::none(outputs));
    let steps: Vec<Step> = (0..stage.steps.len())
        .map(|step| {
            let rows: Vec<Vec<usize>> =
                stage.there(step).into_iter().map(|client| stage.learned(client, step)).collect();
            for row in rows.iter().flatten() {
                seen.0.add(&design[row * width..(row + 1) * width]);
                if valued {
                    seen.1.add(&cells[row * outputs..(row + 1) * outputs]);
                }
            }
            // Classes are not measured in anything.
            let y = if valued { seen.1.units() } else { Units::plain(outputs) };
            let mut step = Step { x: seen.0.units(), y, clients: Vec::new() };
            step.clients = rows.iter().map(|rows| step.task(stage, design, rows)).collect();
            step
        })
        .collect();
    let run = |carry: Carry, rate: f64| {
        let mut network = Network::new(&[width, outputs], seed);
        network.parameters_mut().fill(0.0);
        let settings = Steps { rate, batch: BATCH, epochs: 1, seed };
        let (mut errors, mut newest) = (Vec::new(), Vec::new());
        for (k, step) in steps.iter().enumerate() {
            if let (Some(before), Carry::Rewritten) = (k.checked_sub(1), carry) {
                step.rewrite(&mut network, &steps[before]);
            }
            let mut server = FedAvg::new(network, settings, FedAvgArguments { rounds });
            network = server.train(&step.clients, |_, _| {}).clone();
            let rows = stage.tested(k);
            let out = network.predict(&step.x.apply(&picked(design, width, &rows)), rows.len());
            let out = if valued {
                step.y.back(&out)
            } else {
                out.chunks_exact(outputs).map(largest).collect()
            };
            if out.iter().any(|v| !v.is_finite()) {
                return None;
            }
            errors.push(stage.error(&out, &rows));
            newest.push(stage.error_of_step(&out, &rows, k));
        }
        let moments = 1 + 2 * (width + if valued { outputs } else { 0 });
        let bytes = 4 * (rounds * network.parameters().len() + moments);
        Some(Averaged { rounds, carry, errors, newest, bytes })
    };
    let done: RefCell<HashMap<(Carry, u64), Option<Averaged>>> = RefCell::default();
    let tuned = |error: &dyn Fn(&Averaged) -> f64| {
        let of = |carry: Carry| {
            search(|rate| {
                let mut done = done.borrow_mut();
                let run = done.entry((carry, rate.to_bits())).or_insert_with(|| run(carry, rate));
                run.as_ref().map(|run| (error(run), run.clone()))
            })
        };
        let least = |search: &Search<Averaged>| {
            search.best.as_ref().map_or(f64::INFINITY, |(_, run)| error(run))
        };
        let (rewritten, kept) = (of(Carry::Rewritten), of(Carry::Kept));
        if least(&kept) < least(&rewritten) { kept } else { rewritten }
    };
    let last = |errors: &[f64]| errors.last().copied().unwrap_or(f64::NAN);
    let newest = |run: &Averaged| match last(&run.newest) {
        error if error.is_finite() => error,
        // No test rows in the newest step.
        _ => last(&run.errors),
    };
    Rival { all: tuned(&|run| last(&run.errors)), newest: tuned(&newest) }
}

/// Federated averaging, tuned for the error over all steps, and tuned for that on the newest step alone.
pub(super) struct Rival {
    pub(super) all: Search<Averaged>,
    pub(super) newest: Search<Averaged>,
}

impl Rival {
    /// The error after each step over all steps so far.
    pub(super) fn errors(&self) -> Option<&[f64]> {
        self.all.best.as_ref().map(|(_, run)| &run.errors[..])
    }

    /// The error after each step on that step alone.
    pub(super) fn newest(&self) -> Option<&[f64]> {
        self.newest.best.as_ref().map(|(_, run)| &run.newest[..])
    }
}

/// What becomes of the parameters when inputs and values are measured in new units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Carry {
    /// Rewritten, so that the model predicts what it did. A small slope learned where an input hardly varied may
    /// then be a large one where it does.
    Rewritten,
    /// Kept as they are, so that predictions stay within a few deviations.
    Kept,
}

/// A step as federated averaging sees it.
struct Step {
    x: Units,
    y: Units,
    clients: Vec<Task>,
}

impl Step {
    /// Rows of a client in the units of this step.
    fn task(&self, stage: &Stage, design: &[f64], rows: &[usize]) -> Task {
        let width = self.x.mean.len();
        let y = match &stage.y {
            Targets::Classes { codes, names } => field::Targets::Classes {
                codes: rows.iter().map(|&r| codes[r]).collect(),
                count: names.len(),
            },
            Targets::Values { width, .. } => {
                field::Targets::Values { cells: self.y.apply(&stage.values(rows)), width: *width }
            }
        };
        let x = self.x.apply(&picked(design, width, rows));
        Task { x: Arc::new(Matrix::new(x, width)), y: Arc::new(y) }
    }

    /// Turns a linear model in the units of the step before into one in those of this step that predicts the same.
    fn rewrite(&self, network: &mut Network, before: &Step) {
        let (inputs, outputs) = (network.inputs(), network.outputs());
        let (weights, intercepts) = network.parameters_mut().split_at_mut(inputs * outputs);
        for (k, intercept) in intercepts.iter_mut().enumerate() {
            *intercept = *intercept * before.y.deviation[k] + before.y.mean[k] - self.y.mean[k];
            for j in 0..inputs {
                let weight = &mut weights[j * outputs + k];
                // In units of the values over units of the input.
                let slope = *weight * before.y.deviation[k] / before.x.deviation[j];
                *intercept += slope * (self.x.mean[j] - before.x.mean[j]);
                *weight = slope * self.x.deviation[j] / self.y.deviation[k];
            }
            *intercept /= self.y.deviation[k];
        }
    }
}

/// Some rows of a table.
fn picked(cells: &[f64], width: usize, rows: &[usize]) -> Vec<f64> {
    rows.iter().flat_map(|&row| &cells[row * width..(row + 1) * width]).copied().collect()
}

/// The place of the largest score, as a number; not a number where a score is none.
fn largest(scores: &[f64]) -> f64 {
    let mut best = 0;
    for (k, score) in scores.iter().enumerate() {
        if !score.is_finite() {
            return f64::NAN;
        }
        if *score > scores[best] {
            best = k;
        }
    }
    best as f64
}

/// Running means and sums of squares about them, column by column (Welford).
struct Moments {
    rows: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    fn none(width: usize) -> Self {
        Self { rows: 0.0, mean: vec![0.0; width], squares: vec![0.0; width] }
    }

    fn add(&mut self, row: &[f64]) {
        self.rows += 1.0;
        for ((value, mean), squares) in row.iter().zip(&mut self.mean).zip(&mut self.squares) {
            let apart = value - *mean;
            *mean += apart / self.rows;
            *squares += apart * (value - *mean);
        }
    }

    fn units(&self) -> Units {
        let deviation = |(squares, mean): (&f64, &f64)| {
            let deviation = (squares / self.rows.max(1.0)).sqrt();
            // What has not varied yet is left as it is.
            if deviation > 1e-9 * mean.abs() { deviation } else { 1.0 }
        };
        let deviation = self.squares.iter().zip(&self.mean).map(deviation).collect();
        Units { mean: self.mean.clone(), deviation }
    }
}

/// What columns are measured in.
struct Units {
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

impl Units {
    /// Left as they are.
    fn plain(width: usize) -> Self {
        Self { mean: vec![0.0; width], deviation: vec![1.0; width] }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn units(rows: &[[f64; 2]]) -> Units {
        let mut moments = Moments::none(2);
        rows.iter().for_each(|row| moments.add(row));
        moments.units()
    }

    #[test]
    fn units_are_means_and_deviations_of_all_rows() {
        let found = units(&[[1.0, 7.0], [3.0, 7.0], [8.0, 7.0]]);
        // By hand: mean 4, squares 9 + 1 + 16 over 3 rows; what is constant keeps its unit.
        assert!((found.mean[0] - 4.0).abs() < 1e-15 && (found.mean[1] - 7.0).abs() < 1e-15);
        assert!((found.deviation[0] - (26.0_f64 / 3.0).sqrt()).abs() < 1e-15);
        assert!((found.deviation[1] - 1.0).abs() < 1e-15);
    }

    #[test]
    fn a_model_rewritten_for_new_units_predicts_the_same() {
        let mut network = Network::new(&[2, 2], 5);
        let before = Step {
            x: units(&[[1.0, 20.0], [2.0, -3.0]]),
            y: units(&[[100.0, 5.0], [300.0, 6.0]]),
            clients: Vec::new(),
        };
        let after = Step {
            x: units(&[[1.0, 20.0], [2.0, -3.0], [900.0, 4.0]]),
            y: units(&[[100.0, 5.0], [300.0, 6.0], [-7.0, 5e6]]),
            clients: Vec::new(),
        };
        let rows = [1.5, 7.0, -30.0, 2.0, 800.0, 1.0];
        let predict =
            |network: &Network, step: &Step| step.y.back(&network.predict(&step.x.apply(&rows), 3));
        let old = predict(&network, &before);
        after.rewrite(&mut network, &before);
        for (a, b) in predict(&network, &after).iter().zip(&old) {
            assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} is not {b}");
        }
    }
}
