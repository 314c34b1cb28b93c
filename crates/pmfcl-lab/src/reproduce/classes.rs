//! The stream of Appendix G with two classes in place of a number: what the paper leaves out.

use std::sync::Arc;

use pmfcl::problem::logistic::{Objective, OneTask};
use pmfcl::{Design, Error, Rows, Theta};
use pmfcl_baselines::{Matrix, Targets, Task};
use pmfcl_oracle::Draw;

use super::drift::dot;

/// Ridge on the mean log-loss of every model solved for, joint training included.
pub const RIDGE: f64 = 1e-3;

/// Rows of every test set.
const TEST_ROWS: usize = 1000;

/// What a stream of two-class tasks is drawn from.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSetting {
    /// Features.
    pub d: usize,
    /// Tasks.
    pub tasks: usize,
    /// Training rows of each.
    pub rows: usize,
    /// Standard deviation of the log-odds in the first task.
    pub scale: f64,
    /// Standard deviation of how far the log-odds of a row move from task to task.
    pub drift: f64,
}

impl ClassSetting {
    /// The setting of the page.
    pub fn standard(tasks: usize) -> Self {
        Self { d: 15, tasks, rows: 200, scale: 3.0, drift: 1.0 }
    }

    /// In words.
    pub fn words(&self) -> String {
        format!(
            "d = {}, n = {}, log-odds of standard deviation {} that move by {} a task",
            self.d, self.rows, self.scale, self.drift
        )
    }
}

/// Rows with classes 0 and 1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Labelled {
    /// Features, row after row.
    pub x: Vec<f64>,
    /// Classes.
    pub labels: Vec<u32>,
}

impl Labelled {
    /// `rows` rows whose log-odds are `xᵀθ`.
    pub fn draw(rows: usize, theta: &[f64], draw: &mut Draw) -> Self {
        let x = draw.normals(rows * theta.len());
        let chance = |row: &[f64]| 1.0 / (1.0 + (-dot(row, theta)).exp());
        let labels = x
            .chunks_exact(theta.len())
            .map(|row| u32::from(draw.uniform() < chance(row)))
            .collect();
        Self { x, labels }
    }

    /// Mean log-loss of log-odds that are linear in the row.
    pub fn log_loss(&self, theta: &[f64]) -> f64 {
        let rows = self.x.chunks_exact(theta.len()).zip(&self.labels);
        let sum: f64 = rows.map(|(row, label)| loss(dot(row, theta), *label)).sum();
        sum / self.labels.len() as f64
    }

    /// Mean log-loss of two scores a row.
    pub fn log_loss_of_scores(&self, scores: &[f64]) -> f64 {
        let rows = scores.chunks_exact(2).zip(&self.labels);
        let sum: f64 = rows.map(|(z, label)| loss(z[1] - z[0], *label)).sum();
        sum / self.labels.len() as f64
    }

    /// For the library: rows as they are, without an intercept.
    ///
    /// # Errors
    /// When the rows are not whole.
    pub fn one_task(&self, d: usize) -> Result<OneTask<'_>, Error> {
        OneTask::new(&plain(d)?, Rows::new(&self.x, d)?, (&self.labels, 2), None, 1)
    }

    /// For the baselines.
    pub fn task(&self, d: usize) -> Task {
        Task {
            x: Arc::new(Matrix::new(self.x.clone(), d)),
            y: Arc::new(Targets::Classes { codes: self.labels.clone(), count: 2 }),
        }
    }
}

/// `log(1 + e^η) − y η` without overflow.
fn loss(eta: f64, label: u32) -> f64 {
    eta.max(0.0) + (-eta.abs()).exp().ln_1p() - f64::from(label) * eta
}

/// One drawn stream.
#[derive(Debug, Clone)]
pub struct ClassStream {
    /// Features.
    pub d: usize,
    /// Training rows of every task.
    pub train: Vec<Labelled>,
    /// Test rows of every task.
    pub test: Vec<Labelled>,
    /// The lowest training log-loss found for every task alone.
    pub least: Vec<f64>,
}

/// Rows as they are, without an intercept.
///
/// # Errors
/// Never for the plain basis.
pub fn plain(d: usize) -> Result<Design, Error> {
    Design::linear(d, false)
}

/// The minimizer of log-loss over all these rows at once, under [`RIDGE`].
///
/// # Errors
/// When the solver refuses the rows.
pub fn joint(rows: &Labelled, d: usize) -> Result<Theta, Error> {
    let penalty = vec![RIDGE * rows.labels.len() as f64; d];
    let objective = Objective { scale: 1.0, past: None, penalty: &penalty };
    Ok(rows.one_task(d)?.minimize(&objective, None)?.theta)
}

impl ClassSetting {
    /// Draws a stream.
    ///
    /// # Errors
    /// When the least loss of a task cannot be found.
    pub fn stream(&self, seed: u64) -> Result<ClassStream, Error> {
        let mut draw = Draw::new(seed);
        let share = 1.0 / (self.d as f64).sqrt();
        let mut theta: Vec<f64> =
            draw.normals(self.d).iter().map(|v| v * self.scale * share).collect();
        let mut stream =
            ClassStream { d: self.d, train: Vec::new(), test: Vec::new(), least: Vec::new() };
        for k in 0..self.tasks {
            if k > 0 {
                theta.iter_mut().for_each(|v| *v += self.drift * share * draw.normal());
            }
            let train = Labelled::draw(self.rows, &theta, &mut draw);
            stream.least.push(train.one_task(self.d)?.least_loss(None)?.reached);
            stream.train.push(train);
            stream.test.push(Labelled::draw(TEST_ROWS, &theta, &mut draw));
        }
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_loss_is_that_of_the_textbook_and_does_not_overflow() {
        let rows = Labelled { x: vec![1.0, -2.0], labels: vec![1, 0] };
        let wanted = (-(1.0_f64 / (1.0 + (-0.5_f64).exp())).ln()
            - (1.0 - 1.0 / (1.0 + 1.0_f64.exp())).ln())
            / 2.0;
        assert!((rows.log_loss(&[0.5]) - wanted).abs() < 1e-15);
        assert!((rows.log_loss_of_scores(&[0.0, 0.5, 1.0, 0.0]) - wanted).abs() < 1e-15);
        assert!((rows.log_loss(&[-800.0]) - 1200.0).abs() < 1e-9);
    }

    #[test]
    fn joint_training_is_a_minimum() {
        let stream = ClassSetting { rows: 60, ..ClassSetting::standard(1) }.stream(1).unwrap();
        let rows = &stream.train[0];
        let theta = joint(rows, stream.d).unwrap();
        let at = |theta: &[f64]| rows.log_loss(theta) + RIDGE / 2.0 * dot(theta, theta);
        let best = at(theta.column(0));
        for j in 0..stream.d {
            for step in [-1e-3, 1e-3] {
                let mut moved = theta.column(0).to_vec();
                moved[j] += step;
                assert!(at(&moved) > best);
            }
        }
        assert!(stream.least[0] <= best);
    }
}
