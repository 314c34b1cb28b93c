//! Rows that are far from everything learned: a cell far from its column's mean, or a target far from its prediction.

use std::sync::Arc;

use super::columns::{Spread, spreads_of};
use super::relation::Follow;
use super::short;
use crate::basis::Fill;
use crate::error::Result;
use crate::learner::Learner;
use crate::problem::Evaluation;
use crate::report::inference::Covariance;
use crate::rows::{Rows, Targets, TaskRows};

/// Standard deviations of its prediction from which a target is outlying.
pub(super) const TARGET_BEYOND: f64 = 8.0;
/// The same for a cell and its column: columns may have heavy tails, the noise hardly.
pub(super) const CELL_BEYOND: f64 = 20.0;
/// How many rows are kept.
const WORST: usize = 10;

/// What single rows are compared with: means and spreads of inputs, and the noise of the model.
#[derive(Debug, Clone)]
pub struct Reference {
    /// `None` for categories, and where memory does not hold them.
    inputs: Vec<Option<Spread>>,
    /// Noise of each target; none where it is unknown.
    sigma: Vec<f64>,
    /// Means of the inputs over the rows that have them; none where memory does not hold them.
    means: Vec<f64>,
    /// What is expected of each target, before any row.
    follow: Vec<Follow>,
    /// How well predictions are known; `None` where the noise is not.
    covariance: Option<Arc<Covariance>>,
}

/// A row that is far from everything learned.
#[derive(Debug, Clone, PartialEq)]
pub struct OutlyingRow {
    /// The row, counted from 0.
    pub row: u64,
    /// How many standard deviations off.
    pub size: f64,
    /// What is off.
    pub reason: RowReason,
}

/// What is off about a row.
#[derive(Debug, Clone, PartialEq)]
pub enum RowReason {
    /// A cell, far from the mean of its column.
    Cell {
        /// The input.
        input: usize,
        /// The value.
        value: f64,
        /// The mean in memory.
        mean: f64,
    },
    /// A target, far from its prediction.
    Target {
        /// The target.
        target: usize,
        /// The value.
        value: f64,
        /// What the model predicts.
        predicted: f64,
    },
}

impl RowReason {
    /// In words; `size` is how many standard deviations off.
    pub fn words(&self, size: f64, inputs: &[String], targets: &[String]) -> String {
        let name = |list: &[String], at: usize| {
            list.get(at).cloned().unwrap_or_else(|| format!("column {at}"))
        };
        match self {
            Self::Cell { input, value, mean } => format!(
                "'{}' is {}, {} sd from the mean {}",
                name(inputs, *input),
                short(*value),
                short(size),
                short(*mean)
            ),
            Self::Target { target, value, predicted } => format!(
                "'{}' is {}, {} sd from the prediction {}",
                name(targets, *target),
                short(*value),
                short(size),
                short(*predicted)
            ),
        }
    }
}

/// What was seen in rows, one by one. Findings of disjoint rows merge.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowFindings {
    /// Rows looked at.
    pub rows: u64,
    /// Rows with a target beyond 8 standard deviations of its prediction, or a cell beyond 20 of its column.
    pub beyond: u64,
    /// The farthest of them, the farthest first.
    pub worst: Vec<OutlyingRow>,
    /// How well the model does on them.
    pub evaluation: Option<Evaluation>,
    /// How closely each target follows what memory predicts; empty where memory predicts no values.
    pub follow: Vec<Follow>,
}

impl RowFindings {
    /// Adds what was seen in other rows.
    pub fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.beyond += other.beyond;
        self.worst.extend(other.worst);
        self.keep_worst();
        self.evaluation = match (self.evaluation.take(), other.evaluation) {
            (Some(mut a), Some(b)) => {
                a.merge(&b);
                Some(a)
            }
            (a, b) => a.or(b),
        };
        if self.follow.is_empty() {
            self.follow = other.follow;
        } else {
            self.follow.iter_mut().zip(&other.follow).for_each(|(a, b)| a.merge(b));
        }
    }

    fn keep_worst(&mut self) {
        // Of rows that are equally far the first, so that the result does not depend on how rows were cut.
        self.worst.sort_by(|a, b| b.size.total_cmp(&a.size).then(a.row.cmp(&b.row)));
        self.worst.truncate(WORST);
    }
}

impl Reference {
    /// What the memory of a learner says of rows. `names` are those of the inputs: `colour=red` is a category, which is rare
    /// without being wrong.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn of(learner: &Learner, names: &[String]) -> Result<Self> {
        let spreads = spreads_of(learner).unwrap_or_default();
        let category = |j: usize| {
            names.get(j).is_some_and(|name| name.contains('=') || name.ends_with(" is missing"))
        };
        let inputs = spreads
            .into_iter()
            .enumerate()
            .map(|(j, spread)| (!category(j) && spread.sd > 0.0).then_some(spread))
            .collect();
        let values = learner.problem().description().exact && !learner.problem().predicts_classes();
        let covariance = if values { Covariance::of(learner).ok() } else { None };
        let sigma = covariance.as_ref().and_then(|c| c.sigma().map(<[f64]>::to_vec));
        let sigma = sigma.unwrap_or_default();
        let follow = covariance.as_ref().and_then(|c| Follow::of(learner, c)).unwrap_or_default();
        learner.solution()?;
        let means = learner.input_means().unwrap_or_default();
        Ok(Self { inputs, sigma, means, follow, covariance: covariance.map(Arc::new) })
    }

    /// Standard deviations of the noise that an error of prediction has at a row: more than one where memory knows little of such
    /// rows, infinite where it has seen none.
    fn uncertainty(&self, learner: &Learner, row: &[f64]) -> f64 {
        let spread = self.covariance.as_ref().and_then(|covariance| {
            let design = learner.design_rows(Rows::new(row, row.len()).ok()?).ok()?;
            covariance.spread(&design)
        });
        spread.map_or(f64::INFINITY, |spread| (1.0 + spread).sqrt())
    }

    /// Looks at rows; `place` gives the number of each, and `gaps` says which inputs are 1 where others have no value. Inputs that
    /// the learner does not know are passed over, and so are rows that it cannot predict. A gap is no cell that is far off; where a
    /// column had none before, its mean stands there.
    pub fn look(
        &self,
        learner: &Learner,
        rows: &TaskRows<'_>,
        gaps: &[Fill],
        place: impl Fn(usize) -> u64,
    ) -> RowFindings {
        let mut found = RowFindings {
            rows: rows.x.len() as u64,
            follow: self.follow.clone(),
            ..RowFindings::default()
        };
        let known = learner.design().map_or(0, crate::basis::Design::inputs);
        let mut narrow = Vec::new();
        let x = if rows.x.width() > known {
            let new: Vec<&Fill> = gaps.iter().filter(|gap| gap.indicator >= known).collect();
            for i in 0..rows.x.len() {
                let from = narrow.len();
                narrow.extend((0..known).map(|j| rows.x.get(i, j)));
                for gap in new.iter().filter(|gap| rows.x.get(i, gap.indicator) > 0.0) {
                    if let (true, Some(mean)) = (gap.value < known, self.means.get(gap.value)) {
                        narrow[from + gap.value] = *mean;
                    }
                }
            }
            Rows::new(&narrow, known).ok()
        } else {
            Some(rows.x)
        };
        let predicted = match (&rows.y, x) {
            (Targets::Values(_), Some(x)) => learner.predict(x).unwrap_or_default(),
            _ => Vec::new(),
        };
        if let Some(x) = x {
            found.evaluation = learner.evaluate(TaskRows { x, y: rows.y, weights: None }).ok();
        }
        let mut indicators = vec![None; self.inputs.len()];
        for gap in gaps.iter().filter(|gap| gap.value < self.inputs.len()) {
            indicators[gap.value] = Some(gap.indicator);
        }
        for i in 0..rows.x.len() {
            let mut worst: Option<(f64, RowReason)> = None;
            let mut note = |size: f64, beyond: f64, reason: RowReason| {
                if size > beyond && worst.as_ref().is_none_or(|(known, _)| size > *known) {
                    worst = Some((size, reason));
                }
            };
            for (input, spread) in self.inputs.iter().enumerate() {
                let Some(Spread { mean, sd }) = *spread else { continue };
                if indicators[input].is_some_and(|at| rows.x.get(i, at) > 0.0) {
                    continue;
                }
                let value = rows.x.get(i, input);
                let reason = RowReason::Cell { input, value, mean };
                note((value - mean).abs() / sd, CELL_BEYOND, reason);
            }
            if let Targets::Values(values) = &rows.y {
                let guesses = predicted.chunks_exact(values.width().max(1)).nth(i).unwrap_or(&[]);
                for (target, follow) in found.follow.iter_mut().enumerate() {
                    if let Some(guess) = guesses.get(target) {
                        follow.add(*guess, values.get(i, target));
                    }
                }
                for (target, (sigma, guess)) in self.sigma.iter().zip(guesses).enumerate() {
                    let value = values.get(i, target);
                    let mut size = (value - guess).abs() / sigma;
                    if let (true, Some(x)) = (size > TARGET_BEYOND, x) {
                        // Few rows come here, so this costs little.
                        let row: Vec<f64> = (0..known).map(|j| x.get(i, j)).collect();
                        size /= self.uncertainty(learner, &row);
                    }
                    let reason = RowReason::Target { target, value, predicted: *guess };
                    note(size, TARGET_BEYOND, reason);
                }
            }
            if let Some((size, reason)) = worst {
                found.beyond += 1;
                found.worst.push(OutlyingRow { row: place(i), size, reason });
                if found.worst.len() > 20 * WORST {
                    found.keep_worst();
                }
            }
        }
        found.keep_worst();
        found
    }
}
