//! Forgetting over time, and the field's other measures, each under its own name.
//!
//! | name | formula, `R[i][j]` the score on task `j` after learning task `i` | who |
//! |------|------|-----|
//! | forgetting `F_t` | `L_t(θ_k) − min L_t`, on the training loss | the paper, Definition 3.7 (`def:forgetting`) |
//! | [`Scores::chaudhry_forgetting`] | mean over `j < T` of `max_{i<T} R[i][j] − R[T][j]` | Chaudhry et al. 2018 |
//! | [`Scores::backward_transfer`] | mean over `j < T` of `R[T][j] − R[j][j]` | Lopez-Paz and Ranzato 2017 |
//! | [`Scores::forward_transfer`] | mean over `j > 1` of `R[j−1][j] − b_j`, `b` an untrained model | as above |
//! | [`Scores::avalanche_forgetting`] | mean over `j < T` of `R[j][j] − R[T][j]`, may be negative | Avalanche |
//! | [`Scores::mammoth_forgetting`] | mean over `j < T` of `max_{i≤T} R[i][j] − R[T][j]`, missing cells 0 | Mammoth |

use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::problem::r_squared;
use crate::report::conflict::per_task;
use crate::theta::Theta;

/// Forgetting of every task after every task.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// Task names in the order they were learned.
    pub names: Vec<String>,
    /// `[k][t]`: forgetting of task `t` after task `k`; `None` for `t > k`.
    pub forgetting: Vec<Vec<Option<f64>>>,
    /// `[k]`: `Σ_t α_t F_t` after task `k`, `α` as it was then.
    pub mean: Vec<f64>,
    /// `[k]`: the plain mean over tasks, the paper's `F̄_k`.
    pub average: Vec<f64>,
}

/// Replays a learner's summaries and records what each model along the way had forgotten.
///
/// Exact and without data; cost: one merge and one solve a task, `O(T²m²)` for the losses.
///
/// # Errors
/// Without per-task summaries.
pub fn history(learner: &Learner) -> Result<History> {
    let tasks = per_task(learner)?;
    let mut history = History {
        names: learner.names().map(str::to_owned).collect(),
        forgetting: Vec::with_capacity(tasks.len()),
        mean: Vec::with_capacity(tasks.len()),
        average: Vec::with_capacity(tasks.len()),
    };
    for (k, step) in learner.replay()?.iter().enumerate() {
        let row: Vec<f64> = tasks[..=k]
            .iter()
            .map(|s| s.forgetting(&step.solution.theta))
            .collect::<Result<_>>()?;
        history.mean.push(row.iter().zip(&step.weights).map(|(f, a)| f * a).sum());
        history.average.push(row.iter().sum::<f64>() / (k + 1) as f64);
        let unseen = tasks.len() - k - 1;
        history
            .forgetting
            .push(row.into_iter().map(Some).chain(std::iter::repeat_n(None, unseen)).collect());
    }
    Ok(history)
}

/// Whether a larger score is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)] // for lab
pub enum Direction {
    /// Accuracy, R².
    HigherIsBetter,
    /// Loss, mean squared error.
    LowerIsBetter,
}

/// Scores on every task after every task: `R[i][j]`, on task `j` after learning task `i`.
///
/// All measures are given so that *positive forgetting is worse* and *positive transfer is better*,
/// whichever direction the score has.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for cli, lab, python
pub struct Scores {
    table: Vec<Vec<f64>>,
    sign: f64,
}

impl Scores {
    /// A square table of scores.
    ///
    /// # Errors
    /// When it is not square, empty, or not finite.
    pub fn new(table: Vec<Vec<f64>>, direction: Direction) -> Result<Self> {
        let count = table.len();
        if count == 0 {
            return Err(Error::Empty { what: "the table of scores" });
        }
        for row in &table {
            if row.len() != count {
                return Err(Error::Shape {
                    what: "the table of scores",
                    unit: "columns",
                    expected: count,
                    found: row.len(),
                });
            }
            if let Some(&value) = row.iter().find(|v| !v.is_finite()) {
                return Err(Error::Range { what: "a score", value, must: "finite" });
            }
        }
        let sign = if direction == Direction::HigherIsBetter { 1.0 } else { -1.0 };
        Ok(Self { table, sign })
    }

    /// `R[i][j]`
    pub fn table(&self) -> &[Vec<f64>] {
        &self.table
    }

    fn last(&self, j: usize) -> f64 {
        self.table[self.table.len() - 1][j]
    }

    /// Mean over tasks of a quantity of tasks before the last; 0 with one task.
    fn mean_before_last(&self, f: impl Fn(usize) -> f64) -> f64 {
        let before = self.table.len() - 1;
        if before == 0 { 0.0 } else { (0..before).map(f).sum::<f64>() / before as f64 }
    }

    fn best(&self, j: usize, rows: impl Iterator<Item = usize>) -> f64 {
        rows.map(|i| self.sign * self.table[i][j]).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Mean score over all tasks after the last.
    pub fn average(&self) -> f64 {
        let count = self.table.len();
        (0..count).map(|j| self.last(j)).sum::<f64>() / count as f64
    }

    /// Chaudhry et al.: the best score since the task was learned, before the last task, minus the last.
    pub fn chaudhry_forgetting(&self) -> f64 {
        let end = self.table.len() - 1;
        self.mean_before_last(|j| self.best(j, j..end) - self.sign * self.last(j))
    }

    /// Lopez-Paz and Ranzato: the last score minus the one right after learning the task.
    pub fn backward_transfer(&self) -> f64 {
        self.mean_before_last(|j| self.sign * (self.last(j) - self.table[j][j]))
    }

    /// Lopez-Paz and Ranzato: the score just before learning a task minus that of an untrained model.
    ///
    /// # Errors
    /// When there is not one baseline a task.
    pub fn forward_transfer(&self, untrained: &[f64]) -> Result<f64> {
        let count = self.table.len();
        if untrained.len() != count {
            return Err(Error::Shape {
                what: "the list of untrained scores",
                unit: "numbers",
                expected: count,
                found: untrained.len(),
            });
        }
        if count == 1 {
            return Ok(0.0);
        }
        let gain = |j: usize| self.sign * (self.table[j - 1][j] - untrained[j]);
        Ok((1..count).map(gain).sum::<f64>() / (count - 1) as f64)
    }

    /// Avalanche: the score right after learning the task minus the last.
    pub fn avalanche_forgetting(&self) -> f64 {
        -self.backward_transfer()
    }

    /// Mammoth: the best score over all rows, the last included, minus the last; never negative.
    pub fn mammoth_forgetting(&self) -> f64 {
        self.mean_before_last(|j| {
            let seen = self.best(j, j..self.table.len());
            // Rows before the task was learned are missing there and count as 0.
            let best = if j > 0 { seen.max(0.0) } else { seen };
            best - self.sign * self.last(j)
        })
    }
}

/// Training scores of every model along the way on every task, from summaries alone.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // what `training_scores` gives
pub struct TrainingScores {
    /// Mean squared error over all targets.
    pub mse: Scores,
    /// R², the mean over targets.
    pub r2: Scores,
    /// MSE of the untrained (zero) model on each task, the baseline of forward transfer.
    pub untrained_mse: Vec<f64>,
    /// R² of the untrained model.
    pub untrained_r2: Vec<f64>,
}

/// Scores the models of a replay on all tasks, those still to come included.
///
/// # Errors
/// Without per-task summaries.
#[doc(hidden)] // for tests
pub fn training_scores(learner: &Learner) -> Result<TrainingScores> {
    let tasks = per_task(learner)?;
    let score = |theta: &Theta| -> Result<(Vec<f64>, Vec<f64>)> {
        let mut both = (Vec::new(), Vec::new());
        for s in &tasks {
            let errors: Vec<f64> =
                s.excess(theta)?.iter().zip(s.residual()).map(|(e, c)| e + c).collect();
            let r2 = r_squared(s, theta, &errors, learner.accumulator());
            both.0.push(errors.iter().sum::<f64>() / (s.n() * errors.len() as f64));
            both.1.push(r2.iter().sum::<f64>() / r2.len() as f64);
        }
        Ok(both)
    };
    let (mut mse, mut r2) = (Vec::new(), Vec::new());
    for step in learner.replay()? {
        let (a, b) = score(&step.solution.theta)?;
        mse.push(a);
        r2.push(b);
    }
    let (untrained_mse, untrained_r2) = score(&Theta::zeros(tasks[0].width(), tasks[0].targets()))?;
    Ok(TrainingScores {
        mse: Scores::new(mse, Direction::LowerIsBetter)?,
        r2: Scores::new(r2, Direction::HigherIsBetter)?,
        untrained_mse,
        untrained_r2,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Scores {
        // Task 0 falls from .9 to .6 by way of .95; task 1 rises from .8 to .85.
        let table = vec![vec![0.9, 0.2, 0.1], vec![0.95, 0.8, 0.3], vec![0.6, 0.85, 0.7]];
        Scores::new(table, Direction::HigherIsBetter).unwrap()
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-15, "{a} against {b}");
    }

    #[test]
    fn each_measure_is_the_one_its_name_says() {
        let s = table();
        near(s.chaudhry_forgetting(), ((0.95 - 0.6) + (0.8 - 0.85)) / 2.0);
        near(s.backward_transfer(), ((0.6 - 0.9) + (0.85 - 0.8)) / 2.0);
        near(s.avalanche_forgetting(), ((0.9 - 0.6) + (0.8 - 0.85)) / 2.0);
        near(s.mammoth_forgetting(), ((0.95 - 0.6) + 0.0) / 2.0);
        near(s.forward_transfer(&[0.0, 0.1, 0.1]).unwrap(), ((0.2 - 0.1) + (0.3 - 0.1)) / 2.0);
        near(s.average(), (0.6 + 0.85 + 0.7) / 3.0);
    }

    #[test]
    fn losses_give_the_same_signs() {
        let flipped = table().table.iter().map(|r| r.iter().map(|v| 1.0 - v).collect()).collect();
        let loss = Scores::new(flipped, Direction::LowerIsBetter).unwrap();
        near(loss.chaudhry_forgetting(), table().chaudhry_forgetting());
        near(loss.backward_transfer(), table().backward_transfer());
    }
}
