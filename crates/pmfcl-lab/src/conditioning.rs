//! How many digits each way of learning ten tasks keeps, as conditioning worsens.
//!
//! Truth is the least-squares solution in double-double arithmetic.

use faer::linalg::solvers::{Solve as _, SolveLstsq as _};
use faer::{Mat, Side};
use pmfcl::{Accumulator, Error, Learner, MemoryKind, Problem, Ridge, Rows, Settings, TaskRows};
use pmfcl_oracle::recursion::{Form, Recursion};
use pmfcl_oracle::{Draw, conditioned, least_squares, relative_error};

use pmfcl_terminal::Table;

const CONDITIONS: [f64; 4] = [1e2, 1e4, 1e6, 1e8];

/// Size of the experiment.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Tasks.
    pub tasks: usize,
    /// Rows of each task.
    pub n: usize,
    /// Columns.
    pub d: usize,
    /// Seeds; the table shows medians.
    pub seeds: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { tasks: 10, n: 200, d: 30, seeds: 5 }
    }
}

/// Median relative error of `θ` after all tasks, one row for each way.
///
/// # Errors
/// When the learner refuses the data.
pub fn run(sizes: Sizes) -> Result<Table, Error> {
    let mut errors: Vec<(&str, Vec<Vec<f64>>)> = WAYS.iter().map(|w| (*w, Vec::new())).collect();
    for cond in CONDITIONS {
        let mut columns = vec![Vec::new(); WAYS.len()];
        for seed in 0..sizes.seeds {
            for (way, error) in one(sizes, cond, seed)?.into_iter().enumerate() {
                columns[way].push(error);
            }
        }
        for (way, values) in columns.into_iter().enumerate() {
            errors[way].1.push(values);
        }
    }
    let mut table = Table::new(
        &format!(
            "Relative error of θ after {} tasks of {} rows, {} columns, noise 0.1",
            sizes.tasks, sizes.n, sizes.d
        ),
        &["way", "cond 1e2", "1e4", "1e6", "1e8"],
    );
    for (way, by_cond) in errors {
        let cells = by_cond.into_iter().map(|v| format!("{:.1e}", median(v)));
        table.row(std::iter::once(way.to_owned()).chain(cells));
    }
    table.note(format!("Medians over {} seeds; truth in double-double arithmetic.", sizes.seeds));
    Ok(table)
}

const WAYS: [&str; 6] = [
    "sums of products, Cholesky",
    "pmfcl, gram accumulator",
    "the paper's: SVD, A_k, λ = 1e-6",
    "the paper's, pseudo-inverse",
    "pmfcl, qr accumulator",
    "joint Householder QR of all rows",
];

fn one(sizes: Sizes, cond: f64, seed: u64) -> Result<Vec<f64>, Error> {
    let Sizes { tasks, n, d, .. } = sizes;
    let mut draw = Draw::new(seed);
    let rows = tasks * n;
    // Entries of size about one, as data have.
    let scale = (rows as f64 / d as f64).sqrt();
    let x: Vec<f64> = conditioned(rows, d, cond, &mut draw).iter().map(|v| v * scale).collect();
    let theta = draw.normals(d);
    let y: Vec<f64> = x
        .chunks_exact(d)
        .map(|r| r.iter().zip(&theta).map(|(a, b)| a * b).sum::<f64>() + 0.1 * draw.normal())
        .collect();
    let truth = least_squares(&x, d, &y, None, &[]);
    let task = |t: usize| (&x[t * n * d..(t + 1) * n * d], &y[t * n..(t + 1) * n]);
    let ours = |accumulator| -> Result<f64, Error> {
        let settings = Settings {
            intercept: false,
            ridge: Ridge::Fixed(0.0),
            memory: MemoryKind::Compact,
            accumulator,
            ..Settings::default()
        };
        let mut learner = Learner::new(Problem::squared(), settings)?;
        for t in 0..tasks {
            let (x, y) = task(t);
            let rows = TaskRows::new(Rows::new(x, d)?, Rows::new(y, 1)?);
            learner.learn(&t.to_string(), rows, 1.0)?;
        }
        Ok(relative_error(learner.solution()?.theta.column(0), &truth))
    };
    let paper = |lambda: f64| {
        let mut recursion = Recursion::new(d, Form::Corrected, lambda);
        for t in 0..tasks {
            let (x, y) = task(t);
            recursion.learn(x, y);
        }
        relative_error(recursion.theta(), &truth)
    };
    let sums = {
        let a = Mat::from_fn(rows, d, |i, j| x[i * d + j]);
        let xy = a.transpose() * Mat::from_fn(rows, 1, |i, _| y[i]);
        // Beyond a condition number of 1e8 there is no factor: no digit is left.
        (a.transpose() * &a).llt(Side::Lower).map_or(f64::INFINITY, |factor| {
            let solution = factor.solve(&xy);
            let theta: Vec<f64> = (0..d).map(|j| solution[(j, 0)]).collect();
            relative_error(&theta, &truth)
        })
    };
    let joint = {
        let a = Mat::from_fn(rows, d, |i, j| x[i * d + j]);
        let solution = a.qr().solve_lstsq(&Mat::from_fn(rows, 1, |i, _| y[i]));
        let theta: Vec<f64> = (0..d).map(|j| solution[(j, 0)]).collect();
        relative_error(&theta, &truth)
    };
    let (gram, qr) = (ours(Accumulator::Gram)?, ours(Accumulator::Qr)?);
    Ok(vec![sums, gram, paper(1e-6), paper(0.0), qr, joint])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_qr_way_is_the_most_accurate_of_the_streaming_ones() {
        let sizes = Sizes { tasks: 4, n: 60, d: 8, seeds: 1 };
        let errors = one(sizes, 1e6, 1).unwrap();
        let [sums, gram, paper, pseudo, qr, _] = errors[..] else { panic!("{errors:?}") };
        assert!(qr < sums && qr < paper && qr < pseudo, "{errors:?}");
        // Columns that nearly depend on each other are factored, whatever the accumulator.
        assert!(qr < 1e-8 && gram < 1e-8, "{errors:?}");
    }
}
