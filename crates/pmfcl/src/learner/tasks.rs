//! Every task as it stands under the current solution.

use super::gaps::{filled_by, with_least};
use super::{Learner, TaskRecord};
use crate::error::{Error, Result};
use crate::problem::{
    AssessInput, Assessment, Evaluation, Exactness, FitOutcome, TaskContext, TaskSummary, r_squared,
};
use crate::summary::{Accumulator, dot};

/// A task as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskReport {
    /// Its name.
    pub name: String,
    /// Samples, or the sum of their weights.
    pub samples: f64,
    /// Rank of its design.
    pub rank: usize,
    /// Its preference `α_t`; all sum to one.
    pub weight: f64,
    /// Bytes of its summary.
    pub bytes: usize,
    /// The least loss any model has on it; for a loss that is bounded a certified lower bound of that. `None` where it is unknown.
    pub min_loss: Option<f64>,
    /// The loss of the current model on it. `None` where only a bound is known, or in folded memory.
    pub loss: Option<f64>,
    /// `loss − min_loss`: what the current model has forgotten of it. `None` as above.
    pub forgetting: Option<f64>,
    /// An upper bound on the forgetting; equal to it for squared loss. `None` in folded memory.
    pub bound: Option<f64>,
    /// Whether the bound is proved.
    pub guaranteed: bool,
    /// Mean squared error of each target.
    pub mse: Option<Vec<f64>>,
    /// R² of each target about its own mean.
    pub r2: Option<Vec<f64>>,
    /// Samples of each class that occurs in it, in sorted order; empty for values.
    pub counts: Vec<(String, f64)>,
    /// How its fit ended.
    pub outcome: FitOutcome,
    /// How well rows of it were predicted by the model without them, when its probabilities were measured (`gaussian`).
    pub left_out: Option<Evaluation>,
}

/// From this share of the predictions' standard deviation on, what single precision may have done deserves a warning.
const MUCH_ROUNDING: f64 = 0.5;

/// How well a model fits one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetFit {
    /// The root of the mean squared error, in the units of the target.
    pub rmse: f64,
    /// The share of the target's variance that is explained.
    pub r2: f64,
}

/// The share of samples of missing classes from which log-loss is worth a warning: 7 % cost four points of accuracy where it was
/// measured, 48 % cost fifteen (`docs/choosing.md`, WISDM by users and by classes).
const MUCH_MISSING: f64 = 0.2;

impl Learner {
    /// Every task as it stands under the current solution; see the problem for what its loss is.
    ///
    /// # Errors
    /// When nothing has been learned, or summaries are still in a file.
    pub fn tasks(&self) -> Result<Vec<TaskReport>> {
        if self.records.is_empty() {
            return Err(Error::NotLearned);
        }
        let missing = self.unloaded();
        if missing > 0 {
            return Err(Error::Unloaded { operation: "a report on all tasks", missing });
        }
        let shares = self.shares()?;
        let sum: f64 = shares.iter().sum();
        let input = self.assess_input()?;
        (0..self.records.len())
            .map(|t| {
                let left_out = self.calibration(t).and_then(|table| table.left_out.clone());
                let assessment = match self.task_summary_at(t) {
                    Some(task) if !self.is_folded() => self.assess(&input, task)?,
                    _ => self.folded_assessment(t),
                };
                let report = self.task_report(&self.records[t], shares[t] / sum, assessment);
                Ok(TaskReport { left_out, ..report })
            })
            .collect()
    }

    /// How well the current model fits all rows learned, as the preference weighs them: one for each target. `None` where the
    /// summaries hold no squared errors of values.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn fits(&self) -> Result<Option<Vec<TargetFit>>> {
        if !self.problem.description().exact || self.problem.predicts_classes() {
            return Ok(None);
        }
        let (pool, theta) = (&self.pool()?.quadratic, &self.solution()?.theta);
        let excess = pool.excess(theta)?;
        let errors: Vec<f64> = excess.iter().zip(pool.residual()).map(|(e, c)| e + c).collect();
        let r2 = r_squared(pool, theta, &errors, self.accumulator());
        let rmse = errors.iter().map(|e| (e / pool.n()).sqrt());
        Ok(Some(rmse.zip(r2).map(|(rmse, r2)| TargetFit { rmse, r2 }).collect()))
    }

    pub(super) fn assess_input(&self) -> Result<AssessInput<'_>> {
        let (context, solved) = (self.context()?, self.solved()?);
        let effective = self.effective_samples()?;
        Ok(match self.chosen()? {
            Some(chosen) => {
                let context = TaskContext { design: &chosen.design, ..context };
                AssessInput { context, pool: &chosen.pool, effective, solved }
            }
            None => AssessInput { context, pool: self.pool()?, effective, solved },
        })
    }

    /// A task under a solution.
    pub(super) fn assess(&self, input: &AssessInput<'_>, task: &TaskSummary) -> Result<Assessment> {
        let (m, p) = self.shape()?;
        let whole = task.widened(m, p)?;
        // The discriminants of a portfolio are those of the columns chosen; other losses have a coefficient of 0 for the rest.
        if self.problem.description().least_squares_stand_in
            && let Some(columns) = input.context.design.computed_columns()
        {
            return self.problem.method().assess(input, task, &whole.mask_columns(&columns)?);
        }
        // A basis with something to choose has no gaps to fill.
        if input.context.design.fills().is_empty() {
            return self.problem.method().assess(input, task, &whole);
        }
        let filled = filled_by(input.context.design, whole)?;
        self.problem.method().assess(input, &with_least(task, &filled), &filled)
    }

    /// What is known of a task once compact memory has merged it with the others.
    fn folded_assessment(&self, t: usize) -> Assessment {
        let description = self.problem.description();
        let known = !description.least_squares_stand_in;
        let least = if known { self.records[t].head.least.value() } else { None };
        Assessment { least, ..Assessment::default() }
    }

    pub(super) fn task_report(
        &self,
        record: &TaskRecord,
        weight: f64,
        found: Assessment,
    ) -> TaskReport {
        let head = &record.head;
        let classes = self.outputs.classes();
        let counts = classes.map_or_else(Vec::new, |classes| {
            let named = classes.names().iter().zip(classes.places());
            named
                .filter_map(|(name, &place)| {
                    let count = head.counts.get(place as usize).copied().unwrap_or(0.0);
                    (count > 0.0).then(|| (name.clone(), count))
                })
                .collect()
        });
        TaskReport {
            name: record.name.clone(),
            samples: head.samples,
            rank: record.rank,
            weight,
            bytes: record.bytes,
            min_loss: found.least,
            loss: found.loss,
            forgetting: found.forgetting,
            bound: found.bound,
            guaranteed: head.exactness.guaranteed(),
            mse: found.mse,
            r2: found.r2,
            counts,
            outcome: head.outcome,
            left_out: None,
        }
    }

    /// Whether every quadratic in memory is the loss of its task, and not a bound of it.
    pub fn is_exact(&self) -> bool {
        self.problem.exactness() == Exactness::Exact
            && self.records.iter().all(|record| record.head.exactness == Exactness::Exact)
    }

    /// How well rows were predicted by the model without them, over all tasks that were measured (`gaussian`); `None` where none
    /// was. What was measured with a task depends on what had been learned by then.
    pub fn left_out(&self) -> Option<Evaluation> {
        let tables = (0..self.records.len()).filter_map(|at| self.calibration(at));
        let found = tables.filter_map(|table| table.left_out.as_ref());
        found.fold(None, |sum: Option<Evaluation>, next| {
            let mut sum = sum.unwrap_or_else(|| Evaluation::new(0));
            sum.merge(next);
            Some(sum)
        })
    }

    /// Numbers the problem chose for the current solution, by name, such as the shrinkage of `gaussian`.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn facts(&self) -> Result<Vec<(&'static str, f64)>> {
        // The temperature is chosen with the response.
        self.response()?;
        self.problem.method().facts(&self.assess_input()?)
    }

    /// Whether the solution that is kept is the one of the pool that is kept: what a check of a model file asks.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn solution_follows(&self) -> Result<bool> {
        self.problem.method().follows(&self.solve_input()?, self.solution()?)
    }

    /// `Σ α_t F_t(θ)`: the weighted mean forgetting of the current model, or the mean of the bounds on it for a loss that is only
    /// bounded. Exact in every memory, `L_pooled(θ) − Σ α_t min L_t`, except for `gaussian`, which needs the single tasks.
    ///
    /// # Errors
    /// When nothing has been learned, the least loss of a task is unknown, or for `gaussian` the tasks have been merged.
    pub fn mean_forgetting(&self) -> Result<f64> {
        let unknown = |reason: String| Error::Unsupported { operation: "mean forgetting", reason };
        let filled = self.filled_pool()?.is_some();
        if !self.problem.description().least_squares_stand_in && !filled {
            let (pool, theta) = (self.pool()?, &self.solution()?.theta);
            let least = pool
                .least
                .ok_or_else(|| unknown("the least loss of a task is not known".to_owned()))?;
            return Ok((pool.quadratic.loss(theta)? - least / pool.quadratic.n()).max(0.0));
        }
        let mut mean = 0.0;
        for task in self.tasks()? {
            let forgetting = task.forgetting.ok_or_else(|| {
                unknown(format!(
                    "what `{}` has of its own is gone or has no weight; use the ledger",
                    task.name
                ))
            })?;
            mean += task.weight * forgetting;
        }
        Ok(mean)
    }

    /// How much of the data is of classes that a task lacks: the share of all samples that is of other classes than the task's,
    /// averaged over tasks by their samples. 0 where every task has all classes, and for values.
    ///
    /// Under `logistic` a task says "never" of a class it lacks, and no other task's bound takes that back: where this share is large
    /// the model is far from joint training. `gaussian` and `squared` are exact whatever it is.
    pub fn missing_class_share(&self) -> f64 {
        let count = self.outputs.classes().map_or(0, crate::labels::Classes::len);
        let mut totals = vec![0.0; count];
        for record in &self.records {
            totals.iter_mut().zip(&record.head.counts).for_each(|(t, n)| *t += n);
        }
        let all: f64 = totals.iter().sum();
        let missing = |record: &TaskRecord| -> f64 {
            let counts = &record.head.counts;
            let own: f64 = counts.iter().sum();
            let covered: f64 =
                counts.iter().zip(&totals).filter(|(n, _)| **n > 0.0).map(|(_, t)| t).sum();
            own * (all - covered).max(0.0)
        };
        if all > 0.0 { self.records.iter().map(missing).sum::<f64>() / (all * all) } else { 0.0 }
    }

    /// How rows are accumulated: what `auto` stands for at the width of the design, once that is known. Bounds of losses that are
    /// not quadratic are always factored.
    pub fn accumulator(&self) -> Accumulator {
        match &self.design {
            _ if !self.problem.description().exact => Accumulator::Qr,
            Some(design) => self.settings.accumulator_for(design),
            None => self.settings.accumulator,
        }
    }

    /// How far single precision can have moved the predictions, at most: the root mean square of the change over the rows
    /// learned, as a share of the standard deviation of the predictions. Infinite without a ridge or shrinkage; `None` for
    /// accumulators other than `mixed`.
    ///
    /// With `G` the products of standardized features divided by `n`, `τ` what `mixed` adds to its diagonal, `E` the rounding, no larger
    /// than `τ` in any direction, and `λ` the ridge on standardized features, the coefficients `θ` are off by
    /// `(G + λ)⁻¹(E + τ)θ`, and predictions by at most `‖θ‖ τ/√λ`.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn rounding_bound(&self) -> Result<Option<f64>> {
        if self.accumulator() != Accumulator::Mixed {
            return Ok(None);
        }
        let (pool, solution) = (&self.pool()?.quadratic, self.solution()?);
        let first = usize::from(self.settings.intercept);
        let variances = pool.variances(first);
        let shrinkage = self.facts()?.into_iter().find(|(name, _)| *name == "shrinkage");
        let ridge = match shrinkage {
            Some((_, share)) => share,
            None if solution.penalty.standardize() => solution.penalty.ridge(),
            None => solution.penalty.ridge() / variances.iter().copied().fold(0.0, f64::max),
        };
        let share = |k: usize| {
            let theta = solution.theta.column(k);
            let size: f64 = theta.iter().zip(&variances).map(|(t, v)| t * t * v).sum();
            let rows = pool.iter().filter(|(pivot, ..)| *pivot >= first);
            let spread: f64 = rows.map(|(pivot, r, _)| dot(r, &theta[pivot..]).powi(2)).sum();
            if size > 0.0 { (size * pool.n() / spread / ridge).sqrt() } else { 0.0 }
        };
        let worst = (0..solution.theta.targets()).map(share).fold(0.0, f64::max);
        Ok(Some(Accumulator::single_precision(pool.width()) * worst))
    }

    /// What to tell people about the tasks learned so far, where something deserves a word: classes that tasks lack, fits that
    /// stopped before their minimum, a solution that single precision may have moved far.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        // Only where a solution is there: a warning is not worth one.
        if self.is_solved()
            && let Ok(Some(bound)) = self.rounding_bound()
            && bound > MUCH_ROUNDING
        {
            let much = if bound.is_finite() {
                format!("by up to {:.0} % of their standard deviation", 100.0 * bound)
            } else {
                "by any amount, since there is no ridge".to_owned()
            };
            warnings.push(format!(
                "Single precision (the mixed accumulator) may have moved predictions {much}. Give a larger ridge, or learn with \
                 the accumulator gram."
            ));
        }
        let share = self.missing_class_share();
        if !self.problem.description().exact && share > MUCH_MISSING {
            warnings.push(format!(
                "On average a task lacks the classes of {:.0} % of all rows: bounds of log-loss cannot take back what a task says \
                 of classes it has not seen, and the model may be far from joint training. The gaussian loss equals joint \
                 training whatever classes a task has.",
                100.0 * share
            ));
        }
        let stopped = self.records.iter().filter_map(|record| match record.head.outcome {
            FitOutcome::Stopped { gap } => Some((&record.name, gap)),
            FitOutcome::Converged | FitOutcome::Separable => None,
        });
        for (name, gap) in stopped.take(3) {
            warnings.push(format!(
                "The fit of task `{name}` stopped before its minimum (gap {gap:.1e}): its bound holds, but a better one exists. \
                 Rescale its features, or give a larger ridge."
            ));
        }
        warnings
    }
}
