//! A table as tasks to learn and to test on, in units of the first task.

use std::sync::Arc;

use pmfcl_baselines::{Matrix, Random, Targets, Task};

use super::{Error, Rules};

/// Rows of training that are held out to choose arguments by: one in this many.
const HELD: usize = 5;
/// First rows that fix a basis.
const FIRST: usize = 10_000;

/// A table in memory.
#[derive(Debug, Clone)]
pub struct Table {
    /// Inputs, row after row.
    pub x: Vec<f64>,
    /// Inputs in a row.
    pub width: usize,
    /// Targets of all rows.
    pub y: Targets,
    /// Task of each row, as a number into `names`.
    pub tasks: Vec<u32>,
    /// Names of the tasks, in the order they are learned.
    pub names: Vec<String>,
    /// Whether each row is to test on; drawn where nothing is said.
    pub test: Option<Vec<bool>>,
}

/// What is predicted, and in which units it is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// Numbers: mean squared error in the table's own units; here the mean and deviation of each target.
    Values(Vec<(f64, f64)>),
    /// Classes: accuracy.
    Classes(usize),
}

impl Goal {
    /// What the score is called.
    pub fn measure(&self) -> &'static str {
        match self {
            Self::Values(_) => "mse",
            Self::Classes(_) => "accuracy",
        }
    }

    /// A score in words.
    pub fn words(&self, score: f64) -> String {
        match self {
            Self::Values(_) => format!("mse {score:.5}"),
            Self::Classes(_) => format!("accuracy {score:.4}"),
        }
    }
}

/// Rows to learn and rows to be asked about.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    /// All training rows.
    pub(super) train: Task,
    /// Training rows without those held out.
    pub(super) part: Task,
    /// Training rows held out.
    pub(super) held: Task,
    /// Test rows.
    pub(super) test: Task,
}

/// Tasks in the units of the first.
#[derive(Debug, Clone)]
pub struct Arena {
    /// Names of the tasks.
    pub names: Vec<String>,
    /// What is predicted.
    pub goal: Goal,
    /// Inputs after the basis.
    pub width: usize,
    /// Rows to learn, rows to test.
    pub rows: (usize, usize),
    pub(super) stages: Vec<Stage>,
}

impl Arena {
    /// Divides a table into tasks, and each task into rows to learn and rows to test.
    ///
    /// # Errors
    /// When there are fewer than two tasks, a task has too few rows, or the basis refuses the inputs.
    pub fn new(table: &Table, rules: &Rules) -> Result<Self, Error> {
        if table.names.len() < 2 {
            return Err(Error::Table(format!(
                "the task column has {} value; a stream needs two tasks or more",
                table.names.len()
            )));
        }
        let mut random = Random::of(rules.seed, "test rows");
        let mut split: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for (t, name) in table.names.iter().enumerate() {
            let rows: Vec<usize> =
                (0..table.tasks.len()).filter(|&i| table.tasks[i] as usize == t).collect();
            let (test, train): (Vec<usize>, Vec<usize>) = match &table.test {
                Some(test) => rows.iter().partition(|&&i| test[i]),
                None => {
                    let count = (rules.test * rows.len() as f64).round() as usize;
                    let mut chosen = vec![false; rows.len()];
                    random.permutation(rows.len())[..count].iter().for_each(|&i| chosen[i] = true);
                    let pick = |test: bool| {
                        rows.iter().zip(&chosen).filter(move |(_, c)| **c == test).map(|(i, _)| *i)
                    };
                    (pick(true).collect(), pick(false).collect())
                }
            };
            if train.len() < HELD || test.is_empty() {
                return Err(Error::Table(format!(
                    "task `{name}` has {} rows to learn and {} to test; it needs {HELD} and 1",
                    train.len(),
                    test.len()
                )));
            }
            split.push((train, test));
        }
        let (x, width) = mapped(table, rules, &split[0].0)?;
        let units = units(&x, width, &split[0].0);
        let x: Vec<f64> = standardized(&x, &units);
        let (y, goal) = targets(table, &split[0].0);
        let task = |rows: &[usize]| Task {
            x: Arc::new(Matrix::new(
                rows.iter().flat_map(|&i| x[i * width..(i + 1) * width].iter().copied()).collect(),
                width,
            )),
            y: Arc::new(chosen(&y, rows)),
        };
        let stages = split
            .iter()
            .map(|(train, test)| {
                let order = random.permutation(train.len());
                let (held, part) = order.split_at(train.len().div_ceil(HELD));
                let pick = |places: &[usize]| -> Vec<usize> {
                    let mut rows: Vec<usize> = places.iter().map(|&p| train[p]).collect();
                    rows.sort_unstable();
                    rows
                };
                Stage {
                    train: task(train),
                    part: task(&pick(part)),
                    held: task(&pick(held)),
                    test: task(test),
                }
            })
            .collect();
        let rows =
            split.iter().fold((0, 0), |(a, b), (train, test)| (a + train.len(), b + test.len()));
        Ok(Self { names: table.names.clone(), goal, width, rows, stages })
    }

    /// The score of outputs against a task's targets; nothing where an output is no number.
    pub(super) fn score(&self, outputs: &[f64], y: &Targets) -> Option<f64> {
        if outputs.iter().any(|v| v.is_nan() || *v > f64::MAX) {
            return None;
        }
        match (y, &self.goal) {
            (Targets::Values { cells, width }, Goal::Values(units)) => {
                let squares = outputs
                    .iter()
                    .zip(cells)
                    .enumerate()
                    .map(|(i, (o, y))| ((o - y) * units[i % width].1).powi(2));
                let mse = squares.sum::<f64>() / cells.len() as f64;
                mse.is_finite().then_some(mse)
            }
            (Targets::Classes { codes, count }, _) => {
                let right = outputs.chunks_exact(*count).zip(codes).filter(|(scores, code)| {
                    (0..*count).reduce(|a, b| if scores[b] > scores[a] { b } else { a })
                        == Some(**code as usize)
                });
                Some(right.count() as f64 / codes.len() as f64)
            }
            _ => None,
        }
    }
}

/// All rows through the basis, fixed on the first task's rows.
fn mapped(table: &Table, rules: &Rules, first: &[usize]) -> Result<(Vec<f64>, usize), Error> {
    let d = table.width;
    let head: Vec<f64> = first
        .iter()
        .take(FIRST)
        .flat_map(|&i| table.x[i * d..(i + 1) * d].iter().copied())
        .collect();
    let map = rules.basis.fix(&head, d).map_err(pmfcl::Error::from)?;
    let width = map.width();
    let mut out = vec![0.0; table.x.len() / d * width];
    map.apply(&table.x, &mut out, width, 0).map_err(pmfcl::Error::from)?;
    Ok((out, width))
}

/// Mean and deviation of every column over some rows; a column that does not vary keeps its size.
fn units(x: &[f64], width: usize, rows: &[usize]) -> Vec<(f64, f64)> {
    let n = rows.len() as f64;
    (0..width)
        .map(|j| {
            let mean = rows.iter().map(|&i| x[i * width + j]).sum::<f64>() / n;
            let square = rows.iter().map(|&i| (x[i * width + j] - mean).powi(2)).sum::<f64>() / n;
            let deviation = square.sqrt();
            (
                mean,
                if deviation > 1e-12 * mean.abs().max(f64::MIN_POSITIVE) { deviation } else { 1.0 },
            )
        })
        .collect()
}

fn standardized(x: &[f64], units: &[(f64, f64)]) -> Vec<f64> {
    let cell = |(i, v): (usize, &f64)| {
        let (mean, deviation) = units[i % units.len()];
        (v - mean) / deviation
    };
    x.iter().enumerate().map(cell).collect()
}

fn targets(table: &Table, first: &[usize]) -> (Targets, Goal) {
    match &table.y {
        Targets::Classes { count, .. } => (table.y.clone(), Goal::Classes(*count)),
        Targets::Values { cells, width } => {
            let units = units(cells, *width, first);
            let cells = standardized(cells, &units);
            (Targets::Values { cells, width: *width }, Goal::Values(units))
        }
    }
}

fn chosen(y: &Targets, rows: &[usize]) -> Targets {
    match y {
        Targets::Classes { codes, count } => {
            Targets::Classes { codes: rows.iter().map(|&i| codes[i]).collect(), count: *count }
        }
        Targets::Values { cells, width } => {
            let row = |&i: &usize| cells[i * width..(i + 1) * width].iter().copied();
            Targets::Values { cells: rows.iter().flat_map(row).collect(), width: *width }
        }
    }
}
