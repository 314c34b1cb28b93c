//! One stream, one method: every score after every task.

use std::sync::Arc;

use pmfcl_baselines::{Kept, Matrix, Method, Targets, Task};

use super::drift::{Part, Setting, Stream};
use super::exact::least_squares;

/// What a method did on a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// `[k][t]`: test error on task `t` after task `k`, tasks to come included.
    pub test: Vec<Vec<f64>>,
    /// `[k][t]`: training error.
    pub train: Vec<Vec<f64>>,
    /// `[k]`: mean squared distance of the parameters to the optimum of all tasks.
    pub to_all: Vec<f64>,
    /// `[k]`: the same to the optimum of the tasks so far.
    pub to_now: Vec<f64>,
    /// The most that was held between tasks.
    pub kept: Kept,
}

/// What is looked at after every task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Test error on the task just learned.
    Current,
    /// Test error over all tasks so far, weighed by their rows.
    Cumulative,
    /// Training error over all rows so far.
    Training,
    /// Distance to the optimum of all tasks.
    ToAll,
    /// Distance to the optimum of the tasks so far.
    ToNow,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Current, Self::Cumulative, Self::Training, Self::ToAll, Self::ToNow];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current-test-mse",
            Self::Cumulative => "cumulative-test-mse",
            Self::Training => "cumulative-training-mse",
            Self::ToAll => "distance-to-joint-of-all",
            Self::ToNow => "distance-to-joint-so-far",
        }
    }
}

/// A stream with what its methods are measured by.
#[derive(Debug)]
pub struct Ground {
    /// The stream.
    pub stream: Stream,
    tasks: Vec<Task>,
    /// `[k]`: the least-squares parameters of the first `k + 1` tasks.
    optima: Vec<Vec<f64>>,
}

/// A part as a task for methods.
pub(super) fn task_of(part: &Part, d: usize) -> Task {
    Task {
        x: Arc::new(Matrix::new(part.x.clone(), d)),
        y: Arc::new(Targets::Values { cells: part.y.clone(), width: 1 }),
    }
}

impl Ground {
    /// Draws a stream of a setting.
    pub fn new(setting: &Setting, seed: u64) -> Self {
        let stream = setting.stream(seed);
        let tasks = stream.train.iter().map(|part| task_of(part, stream.d)).collect();
        let mut rows = Part::default();
        let optima = stream
            .train
            .iter()
            .map(|part| {
                rows.x.extend_from_slice(&part.x);
                rows.y.extend_from_slice(&part.y);
                least_squares(&rows.x, &rows.y, stream.d)
            })
            .collect();
        Self { stream, tasks, optima }
    }

    /// Lets a method learn the stream.
    pub fn run(&self, mut method: Box<dyn Method>) -> Track {
        let last = self.optima.len() - 1;
        let mut track = Track {
            test: Vec::new(),
            train: Vec::new(),
            to_all: Vec::new(),
            to_now: Vec::new(),
            kept: Kept::default(),
        };
        for (k, task) in self.tasks.iter().enumerate() {
            method.learn(task);
            let errors = |parts: &[Part]| -> Vec<f64> {
                parts.iter().map(|p| sane(p.mse(&method.outputs(&p.x, p.y.len())))).collect()
            };
            track.test.push(errors(&self.stream.test));
            track.train.push(errors(&self.stream.train));
            let theta = method.linear().unwrap_or_default();
            track.to_all.push(sane(distance(&theta, &self.optima[last])));
            track.to_now.push(sane(distance(&theta, &self.optima[k])));
            let kept = method.kept();
            if kept.numbers >= track.kept.numbers {
                track.kept = kept;
            }
        }
        track
    }

    /// Lets a method learn the stream and looks at nothing.
    pub fn only_learn(&self, mut method: Box<dyn Method>) -> Box<dyn Method> {
        for task in &self.tasks {
            method.learn(task);
        }
        method
    }

    /// Test errors of the zero model, which has learned nothing.
    pub fn untrained(&self) -> Vec<f64> {
        self.stream.test.iter().map(|part| part.mse(&vec![0.0; part.y.len()])).collect()
    }
}

/// A number, or infinity in place of what is none: a method that ran away has an infinite error.
fn sane(v: f64) -> f64 {
    if v.is_nan() { f64::INFINITY } else { v }
}

/// Mean squared difference to an optimum, intercept left aside.
fn distance(theta: &[f64], optimum: &[f64]) -> f64 {
    if theta.len() < optimum.len() {
        return f64::NAN;
    }
    let squares: f64 = theta.iter().zip(optimum).map(|(a, b)| (a - b).powi(2)).sum();
    squares / optimum.len() as f64
}

impl Track {
    /// One number per task.
    pub fn curve(&self, measure: Measure, rows: &[usize]) -> Vec<f64> {
        let weighed = |table: &[Vec<f64>]| -> Vec<f64> {
            (0..rows.len())
                .map(|k| {
                    let all: usize = rows[..=k].iter().sum();
                    (0..=k).map(|t| table[k][t] * rows[t] as f64).sum::<f64>() / all as f64
                })
                .collect()
        };
        match measure {
            Measure::Current => (0..rows.len()).map(|k| self.test[k][k]).collect(),
            Measure::Cumulative => weighed(&self.test),
            Measure::Training => weighed(&self.train),
            Measure::ToAll => self.to_all.clone(),
            Measure::ToNow => self.to_now.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::drift::grid;
    use crate::reproduce::exact::{Exact, Keep};

    #[test]
    fn joint_training_stands_on_the_optimum_and_cumulative_errors_weigh_rows() {
        let setting = Setting { d: 3, rows: vec![10, 30, 20], ..grid(3)[0].clone() };
        let ground = Ground::new(&setting, 1);
        let track = ground.run(Box::new(Exact::new(3, Keep::All)));
        assert!(track.to_now.iter().all(|v| *v < 1e-28));
        assert!(track.to_all[0] > 1e-6);
        let wanted = (10.0 * track.test[1][0] + 30.0 * track.test[1][1]) / 40.0;
        let found = track.curve(Measure::Cumulative, &setting.rows)[1];
        assert!((found - wanted).abs() < 1e-15);
        assert_eq!(track.kept.numbers, 60 * 4);
    }
}
