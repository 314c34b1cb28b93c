//! Going back: models along the way, another preference or ridge, and unlearning. No rows needed.

use std::sync::Arc;

use super::gaps::{FilledPool, filled_by};
use super::lazy::Lazy;
use super::memory::Memory;
use super::{Learner, TaskRecord, TaskReport, weighed};
use crate::error::{Error, Result};
use crate::labels::Classes;
use crate::problem::choice::{Chosen, solve_chosen};
use crate::problem::{
    AssessInput, ClassList, Exactness, KnownTable, Outputs, Part, Pool, Pooling, Problem,
    SolveInput, Solved, TaskContext, TaskSummary,
};
use crate::settings::{Preference, Ridge, Settings};
use crate::solve::Solution;
use crate::theta::Theta;

/// A model on the way, and the preference it was solved under.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for cli, ingest, lab, terminal
pub struct Step {
    /// The solution after the task.
    pub solution: Solution,
    /// `α` over the tasks so far.
    pub weights: Vec<f64>,
}

impl Learner {
    /// The solutions after each task, made from the summaries under the present settings. Cost: one solution per task.
    ///
    /// # Errors
    /// When nothing has been learned, or compact memory has folded the tasks.
    pub fn replay(&self) -> Result<Vec<Step>> {
        self.replay_after(&(0..self.records.len()).collect::<Vec<_>>())
    }

    /// The solutions after some of the tasks, given by ascending positions.
    ///
    /// # Errors
    /// As [`Learner::replay`].
    pub fn replay_after(&self, after: &[usize]) -> Result<Vec<Step>> {
        self.after_each(after, |input, weights| {
            Ok(Step { solution: input.solved.solution.clone(), weights })
        })
    }

    /// Every task so far as it stood after some of the tasks, given by ascending positions: what [`Learner::tasks`] would have
    /// said then. Cost: one solution per position, and each task so far under it.
    ///
    /// # Errors
    /// As [`Learner::replay`].
    pub fn tasks_after(&self, after: &[usize]) -> Result<Vec<Vec<TaskReport>>> {
        let tasks = self.every_task("a replay")?;
        self.after_each(after, |input, weights| {
            let so_far = tasks.iter().zip(&self.records).zip(weights);
            so_far
                .map(|((task, record), weight)| {
                    Ok(self.task_report(record, weight, self.assess(input, task)?))
                })
                .collect()
        })
    }

    /// Calls `f` with the solution after some of the tasks and the weights of the tasks so far.
    fn after_each<T>(
        &self,
        after: &[usize],
        mut f: impl FnMut(&AssessInput<'_>, Vec<f64>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let tasks = self.every_task("a replay")?;
        if tasks.is_empty() {
            return Err(Error::NotLearned);
        }
        let (m, p) = self.shape()?;
        let mut found = Vec::with_capacity(after.len());
        let mut settings = self.settings.clone();
        let mut running: Option<(Pool, usize)> = None;
        for &t in after {
            let records = &self.records[..=t];
            let names = records.iter().map(|record| record.name.as_str());
            settings.prefer = self.settings.prefer.restricted(names);
            let shares = settings.prefer.shares(&weighed(records))?;
            let chosen = matches!(self.settings.prefer, Preference::Chosen(_));
            let (base, from) = match running.take() {
                Some((pool, done)) if !chosen => (Some(pool), done),
                _ => (None, 0),
            };
            let parts: Vec<Part<'_>> =
                (from..=t).map(|i| Part { task: tasks[i], share: shares[i] }).collect();
            let fade = settings.prefer.fade(t + 1 - from);
            let base = base.as_ref().map(|pool| (pool, fade));
            let pool = Pool::with_tasks(base, (m, p), &parts, self.pooling())?;
            let design = self.design.as_ref().ok_or(Error::NotLearned)?;
            // Gaps are filled with the means of what had been learned by then.
            let filled = match design.fills() {
                [] => None,
                _ => Some(FilledPool::of(design, &pool)?),
            };
            let (then, design) = match &filled {
                Some(filled) => (&*filled.pool, &filled.design),
                None => (&pool, design),
            };
            let context = TaskContext { settings: &settings, ..self.context_with(design) };
            let effective = pool.effective().ok_or(Error::NotLearned)?;
            let (solved, chosen) =
                self.solved_then(context, then, effective, (&tasks[..=t], &shares))?;
            let sum: f64 = shares.iter().sum();
            let weights = shares.iter().map(|share| share / sum).collect();
            let input = match &chosen {
                Some(chosen) => {
                    let context = TaskContext { design: &chosen.design, ..context };
                    AssessInput { context, pool: &chosen.pool, effective, solved: &solved }
                }
                None => AssessInput { context, pool: then, effective, solved: &solved },
            };
            found.push(f(&input, weights)?);
            running = Some((pool, t + 1));
        }
        Ok(found)
    }

    /// The solution of a pool of the first tasks.
    fn solved_then(
        &self,
        context: TaskContext<'_>,
        pool: &Pool,
        effective: f64,
        (tasks, shares): (&[&Arc<TaskSummary>], &[f64]),
    ) -> Result<(Solved, Option<Chosen>)> {
        let (m, p) = self.shape()?;
        let records = tasks.len();
        let left_out = context.settings.ridge == Ridge::LeaveOneTaskOut && tasks.len() > 1;
        let tasks = if left_out {
            let filled = tasks.iter().map(|task| filled_by(context.design, task.widened(m, p)?));
            let wide = filled.collect::<Result<Vec<_>>>()?;
            Some(wide.into_iter().zip(shares.iter().copied()).collect())
        } else {
            None
        };
        let known = |task| {
            let table = self.calibration(task)?;
            Some(KnownTable { task, table, shape: None })
        };
        let tables = (0..records).filter_map(known).collect();
        let waiting = Vec::new();
        solve_chosen(SolveInput { context, pool, effective, tasks, tables, waiting })
    }

    /// Drops the candidates of a portfolio that were not chosen, for good: summaries shrink to the columns of the one that
    /// was, and the basis is that one from now on. Predictions stay the same to rounding.
    ///
    /// # Errors
    /// When nothing has been learned, the basis has nothing to choose, or summaries are still in a file. The learner is
    /// then unchanged.
    pub fn keep_chosen(&mut self) -> Result<()> {
        if self.records.is_empty() {
            return Err(Error::NotLearned);
        }
        let design = self.design.as_ref().ok_or(Error::NotLearned)?;
        let Some(chosen) = self.chosen()? else {
            return Err(Error::Unsupported {
                operation: "keeping what was chosen",
                reason: format!(
                    "the basis {} has no candidates to choose from; only `auto` has",
                    self.settings.basis
                ),
            });
        };
        let missing = self.unloaded();
        if missing > 0 {
            return Err(Error::Unloaded { operation: "keeping what was chosen", missing });
        }
        let columns = design.columns_of(&chosen.candidate);
        let restricted = design.restricted(&chosen.candidate)?;
        let (m, p) = self.shape()?;
        let fewer = |task: &Arc<TaskSummary>| -> Result<Arc<TaskSummary>> {
            let quadratic = task.widened(m, p)?.choose_columns(&columns)?;
            Ok(Arc::new(task.with_columns(quadratic, &columns, design.intercept())?))
        };
        let memory = match &self.memory {
            Memory::Empty => Memory::Empty,
            Memory::Ledger { summaries, .. } => {
                let summaries = summaries.iter().flatten().map(|task| fewer(task).map(Some));
                let summaries = summaries.collect::<Result<_>>()?;
                Memory::Ledger { summaries, base: None, pooled: 0 }
            }
            Memory::Held(held) => Memory::Held(held.iter().map(fewer).collect::<Result<_>>()?),
            Memory::Folded { .. } => {
                let whole = self.pool()?;
                let moments = whole.moments.as_ref();
                let first = usize::from(design.intercept());
                let features: Vec<usize> = columns[first..].iter().map(|j| j - first).collect();
                let few = |s: &crate::summary::Summary| s.choose_columns(&columns);
                let pool = Pool {
                    quadratic: few(&whole.quadratic)?,
                    moments: moments.map(|moments| moments.choose(&features)),
                    scatters: whole.scatters.iter().map(few).collect::<Result<_>>()?,
                    ..whole.clone()
                };
                Memory::Folded { base: Arc::new(pool), waiting: Vec::new() }
            }
        };
        // Nothing can fail from here on.
        self.keep_tables();
        let summaries: Vec<Option<Arc<TaskSummary>>> = match &memory {
            Memory::Ledger { summaries, .. } => summaries.clone(),
            Memory::Held(held) => held.iter().cloned().map(Some).collect(),
            Memory::Empty | Memory::Folded { .. } => Vec::new(),
        };
        for (record, task) in self.records.iter_mut().zip(summaries) {
            if let Some(task) = task {
                let calibration = record.head.calibration.take();
                *record = TaskRecord::of(&record.name, record.weight, &task);
                record.head.calibration = calibration;
            }
        }
        self.memory = memory;
        self.settings.basis = restricted.map().basis().clone();
        self.design = Some(restricted);
        self.pooled = Lazy::default();
        self.forget_solution();
        self.generation += 1;
        self.edits += 1;
        Ok(())
    }

    /// Another preference in hindsight.
    ///
    /// # Errors
    /// When it is no preference over these tasks, compact memory has folded them, or nothing has been learned.
    pub fn prefer(&mut self, preference: Preference) -> Result<()> {
        preference.check()?;
        if self.records.is_empty() {
            return Err(Error::NotLearned);
        }
        self.every_task("another preference in hindsight")?;
        preference.shares(&self.weighed())?;
        self.settings.prefer = preference;
        self.unsettle();
        Ok(())
    }

    /// Another ridge in hindsight: solved anew from the memory.
    ///
    /// # Errors
    /// When it is out of range, does not go with the problem or the memory, or nothing has been learned.
    pub fn set_ridge(&mut self, ridge: Ridge, standardize: bool) -> Result<()> {
        if self.problem.options().iter().any(|(name, _)| *name == "shrinkage") {
            return Err(Error::Unsupported {
                operation: "a ridge",
                reason: format!(
                    "{} shrinks its covariance instead; set the shrinkage",
                    self.problem.name()
                ),
            });
        }
        let settings = Settings { ridge, standardize, ..self.settings.clone() };
        self.problem.check(&settings)?;
        if self.records.is_empty() {
            return Err(Error::NotLearned);
        }
        let (_, targets) = self.shape()?;
        settings.ridge.check_targets(targets)?;
        if settings.ridge == Ridge::LeaveOneTaskOut {
            self.every_task("choosing the ridge by leaving tasks out")?;
        }
        self.settings = settings;
        self.pool_as_told();
        Ok(())
    }

    /// Keeps the pool for another solution, unless it is one of sums and triangles are asked for now.
    fn pool_as_told(&mut self) {
        if self.pooling() == Pooling::Triangles {
            self.unsettle();
        } else {
            self.solve_again();
        }
    }

    /// Another option of the problem in hindsight, such as the shrinkage of `gaussian`.
    ///
    /// # Errors
    /// When the problem has no such option, its value is invalid, or what was learned depends on it.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<()> {
        let changed = self.problem.with_option(name, value)?;
        changed.check(&self.settings)?;
        let in_hindsight = ["shrinkage", "calibrate", "temperature"].contains(&name);
        if !self.records.is_empty() && !in_hindsight && changed != self.problem {
            return Err(Error::Unsupported {
                operation: "another option in hindsight",
                reason: format!("the summaries were made with another {name}; begin a new model"),
            });
        }
        self.problem = changed;
        self.solve_again();
        Ok(())
    }

    /// Keeps the pool and forgets the solution.
    fn solve_again(&mut self) {
        self.settle();
        self.generation += 1;
    }

    /// Removes a task exactly: afterwards the model is the one of never having learned it. A class only this task had is gone
    /// with it, unless the classes were fixed.
    ///
    /// # Errors
    /// When there is no such task, compact memory has folded it ([`Learner::unlearn_summary`] removes it given its rows once more),
    /// or what was kept of others depends on it.
    pub fn unlearn(&mut self, name: &str) -> Result<()> {
        let at = self.position(name)?;
        self.problem.method().check_removable()?;
        if self.is_folded() {
            return Err(Error::Unsupported {
                operation: "unlearning by name alone",
                reason: "compact memory has merged the task with the others; give its rows once more (unlearn_summary), or use the ledger"
                    .to_owned(),
            });
        }
        self.every_task("unlearning")?;
        self.check_weights_without(name)?;
        self.forget(at);
        self.unsettle();
        self.drop_classes()
    }

    /// Refuses to remove the only task that weights chosen by name leave any weight.
    fn check_weights_without(&self, name: &str) -> Result<()> {
        let Preference::Chosen(list) = &self.settings.prefer else { return Ok(()) };
        let left: f64 = list.iter().filter(|(n, _)| n != name).map(|(_, a)| a).sum();
        if left > 0.0 || self.records.len() == 1 {
            return Ok(());
        }
        Err(Error::Preference {
            reason: format!("without `{name}` no task has any weight; prefer others first"),
        })
    }

    /// Removes a task, given its summary made once more from its rows; folded memory needs that.
    ///
    /// # Errors
    /// When there is no such task, the summary is not the one that was added, too few digits would remain, or the preference
    /// depends on the order of tasks.
    pub fn unlearn_summary(&mut self, name: &str, task: &TaskSummary) -> Result<()> {
        let at = self.position(name)?;
        self.problem.method().check_removable()?;
        let task = match self.outputs.classes() {
            Some(classes) => task.clone().aligned(classes)?,
            None => task.clone(),
        };
        self.check_same_rows(at, &task)?;
        if !self.is_folded() {
            return self.unlearn(name);
        }
        if matches!(self.settings.prefer, Preference::Decay(_)) {
            return Err(Error::Unsupported {
                operation: "unlearning from compact memory under decay",
                reason: "the weights of the tasks before it would change; use the ledger"
                    .to_owned(),
            });
        }
        let share = self.shares()?[at];
        let pool = self.shared_pool()?;
        let rest = if self.records.len() == 1 {
            None
        } else {
            let (m, p) = self.shape()?;
            let wide = crate::problem::widened(&pool.quadratic, m, p)?.into_owned();
            Some(Arc::new(pool.with_quadratic(wide).without(&task, share)?))
        };
        self.forget(at);
        self.unsettle();
        self.memory = match rest {
            Some(base) => Memory::Folded { base, waiting: Vec::new() },
            None => Memory::Empty,
        };
        self.drop_classes()
    }

    /// Removes rows from a task exactly, given their summary: afterwards the model is the one of never having learned them. All
    /// rows of a task are the task. Compact memory that has merged its tasks can give back whole tasks only.
    ///
    /// # Errors
    /// When there is no such task, or the rows cannot be rows of it: more samples, a class or category it does not have, a
    /// direction it has never seen, squares it lacks; when too few digits would remain; and for losses that are bounded, whose
    /// bound is made of all rows together.
    pub fn unlearn_rows(&mut self, name: &str, rows: &TaskSummary) -> Result<()> {
        let at = self.position(name)?;
        let all = self.records[at].head.samples;
        if (rows.head.samples - all).abs() <= 1e-9 * all || self.is_folded() {
            return self.unlearn_summary(name, rows);
        }
        self.problem.method().check_removable()?;
        if self.problem.exactness() != Exactness::Exact {
            return Err(Error::Unsupported {
                operation: "removing single rows",
                reason: format!(
                    "{} keeps a bound that is made of all rows of a task together; unlearn `{name}` and learn the other rows again",
                    self.problem.name()
                ),
            });
        }
        self.every_task("removing rows")?;
        let rows = match self.outputs.classes() {
            Some(classes) => rows.clone().aligned(classes)?,
            None => rows.clone(),
        };
        let (m, p) = self.shape()?;
        let Some(task) = self.task_summary_at(at).cloned() else { return Err(Error::NotLearned) };
        if rows.head.samples > all {
            return Err(Error::Removal {
                reason: format!(
                    "`{name}` was learned with {all} samples, but {} were given: these are other rows",
                    rows.head.samples
                ),
            });
        }
        let counts: Vec<f64> = (0..task.head.counts.len().max(rows.head.counts.len()))
            .map(|k| {
                let of = |task: &TaskSummary| task.head.counts.get(k).copied().unwrap_or(0.0);
                of(&task) - of(&rows)
            })
            .collect();
        if let Some(k) = counts.iter().position(|count| *count < -1e-9 * all) {
            let class = self.outputs.classes().and_then(|c| c.by_place().get(k).cloned());
            return Err(Error::Removal {
                reason: format!(
                    "`{name}` has fewer rows of class `{}` than were given: these are other rows",
                    class.unwrap_or_default()
                ),
            });
        }
        let mut left = task.without(&rows, (m, p))?;
        left.head.counts = counts;
        let weight = self.records[at].weight;
        self.keep_tables();
        // Rows that were removed may be among them.
        self.samples.remove(&at);
        self.records[at] = TaskRecord::of(name, weight, &left);
        match &mut self.memory {
            Memory::Ledger { summaries, .. } => summaries[at] = Some(Arc::new(left)),
            Memory::Held(held) => held[at] = Arc::new(left),
            Memory::Folded { .. } | Memory::Empty => {}
        }
        self.edits += 1;
        self.unsettle();
        self.drop_classes()
    }

    /// Refuses a summary that cannot be the one of the task on record.
    fn check_same_rows(&self, at: usize, task: &TaskSummary) -> Result<()> {
        let record = &self.records[at];
        let name = &record.name;
        if (task.head.samples - record.head.samples).abs() > 1e-9 * record.head.samples {
            return Err(Error::Removal {
                reason: format!(
                    "`{name}` was learned with {} samples, but {} were given",
                    record.head.samples, task.head.samples
                ),
            });
        }
        // The least loss is on record: other rows of the same number are not what was learned.
        let own = &task.quadratic;
        let least = own.min_loss();
        let size = least + own.forgetting(&Theta::zeros(own.width(), own.targets()))?;
        let known = record.head.least.value().unwrap_or(least);
        let exact = record.head.exactness == Exactness::Exact;
        if exact && (least - known).abs() > 1e-8 * size.max(known) {
            return Err(Error::Removal {
                reason: format!(
                    "the least loss on `{name}` was {known}, but is {least} on what was given: these are other rows"
                ),
            });
        }
        Ok(())
    }

    /// Takes a task off the register and out of memory.
    fn forget(&mut self, at: usize) {
        self.edits += 1;
        // Tables and samples are known by the positions of their tasks, which are about to change.
        self.keep_tables();
        self.forget_solution();
        self.samples.remove(&at);
        let samples = std::mem::take(&mut self.samples);
        let moved = samples.into_iter().map(|(t, s)| (if t > at { t - 1 } else { t }, s));
        self.samples = moved.collect();
        let TaskRecord { name, .. } = self.records.remove(at);
        let numbered = self.records.iter().enumerate();
        self.index = numbered.map(|(i, record)| (record.name.clone(), i)).collect();
        match &mut self.memory {
            Memory::Ledger { summaries, .. } => {
                summaries.remove(at);
            }
            Memory::Held(held) => {
                held.remove(at);
            }
            Memory::Folded { .. } | Memory::Empty => {}
        }
        if let Preference::Chosen(list) = &mut self.settings.prefer {
            list.retain(|(n, _)| *n != name);
            let sum: f64 = list.iter().map(|(_, a)| a).sum();
            list.iter_mut().for_each(|(_, a)| *a /= sum);
        }
        if self.records.is_empty() {
            // What the removed rows had settled is open again; weights chosen by name have no names left.
            self.memory = Memory::Empty;
            self.design = None;
            self.outputs = self.problem.method().outputs();
            self.settings.prefer = self.settings.prefer.restricted(std::iter::empty());
        }
    }

    /// Drops classes that no task has any more, unless the classes were fixed or bounds depend on them.
    fn drop_classes(&mut self) -> Result<()> {
        let Outputs::Classes(classes) = &self.outputs else { return Ok(()) };
        let open = self.problem.class_list() == Some(&ClassList::Open);
        if !open || !self.problem.description().exact || self.records.is_empty() {
            return Ok(());
        }
        let has = |k: usize| {
            self.records.iter().any(|record| record.head.counts.get(k).is_some_and(|n| *n > 0.0))
        };
        let kept: Vec<usize> = (0..classes.len()).filter(|&k| has(k)).collect();
        if kept.len() == classes.len() {
            return Ok(());
        }
        let names = kept.iter().map(|&k| classes.by_place()[k].clone()).collect();
        let classes = Classes::new(names)?;
        self.transform(&|task| Ok(with_classes(task, &kept)))?;
        for record in &mut self.records {
            record.head.counts = kept_counts(&record.head.counts, &kept);
        }
        self.outputs = Outputs::Classes(classes);
        Ok(())
    }

    /// Replaces every task summary, and the pool of folded memory as if it were one.
    pub(super) fn transform(
        &mut self,
        f: &dyn Fn(&TaskSummary) -> Result<TaskSummary>,
    ) -> Result<()> {
        let missing = self.unloaded();
        if missing > 0 {
            return Err(Error::Unloaded { operation: "another set of columns", missing });
        }
        let one = |task: &Arc<TaskSummary>| f(task).map(Arc::new);
        self.memory = match &self.memory {
            Memory::Empty => Memory::Empty,
            Memory::Held(held) => Memory::Held(held.iter().map(one).collect::<Result<_>>()?),
            Memory::Ledger { summaries, .. } => {
                let changed = summaries.iter().flatten().map(|task| one(task).map(Some));
                let summaries = changed.collect::<Result<_>>()?;
                Memory::Ledger { summaries, base: None, pooled: 0 }
            }
            Memory::Folded { base, waiting } => {
                let mut whole = TaskSummary::exact(base.quadratic.clone(), None);
                whole.moments.clone_from(&base.moments);
                whole.scatters.clone_from(&base.scatters);
                let moved = f(&whole)?;
                let mut base = base.with_quadratic(moved.quadratic);
                (base.moments, base.scatters) = (moved.moments, moved.scatters);
                let waiting = waiting.iter().map(one).collect::<Result<_>>()?;
                Memory::Folded { base: Arc::new(base), waiting }
            }
        };
        self.edits += 1;
        self.unsettle();
        for t in 0..self.records.len() {
            let Some(task) = self.task_summary_at(t) else { continue };
            let (rank, bytes) = (task.quadratic.rank_at_most(), task.nbytes());
            (self.records[t].rank, self.records[t].bytes) = (rank, bytes);
        }
        Ok(())
    }

    /// Gives a task another name.
    ///
    /// # Errors
    /// When there is no such task, or one of the new name.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<()> {
        let at = self.position(name)?;
        self.check_new(new, 1.0)?;
        self.index.remove(name);
        self.index.insert(new.to_owned(), at);
        new.clone_into(&mut self.records[at].name);
        if let Preference::Chosen(list) = &mut self.settings.prefer {
            list.iter_mut().filter(|(n, _)| n == name).for_each(|(n, _)| new.clone_into(n));
        }
        self.edits += 1;
        Ok(())
    }

    /// The problem, for who has to name it.
    pub(super) fn same_problem(&self, other: &Problem) -> bool {
        self.problem == *other
    }
}

/// A task summary with the classes that are kept; it may have fewer than the model.
fn with_classes(task: &TaskSummary, kept: &[usize]) -> TaskSummary {
    let quadratic = &task.quadratic;
    let own: Vec<usize> = kept.iter().copied().filter(|&k| k < quadratic.targets()).collect();
    let mut changed = task.clone();
    changed.quadratic = quadratic.keep_targets(&own);
    changed.head.counts = kept_counts(&task.head.counts, kept);
    let scatter = |k: &usize| task.scatters.get(*k).cloned();
    changed.scatters = kept.iter().filter_map(scatter).collect();
    changed
}

fn kept_counts(counts: &[f64], kept: &[usize]) -> Vec<f64> {
    kept.iter().filter_map(|&k| counts.get(k).copied()).collect()
}
