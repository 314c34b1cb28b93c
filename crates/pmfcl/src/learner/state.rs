//! A learner as it is kept: what a model file holds.

use std::collections::HashMap;
use std::sync::Arc;

use super::lazy::Lazy;
use super::memory::Memory;
use super::{Learner, TaskRecord};
use crate::basis::Design;
use crate::error::{Error, Result};
use crate::problem::{Outputs, Pool, Problem, Solved, TaskSummary};
use crate::settings::{MemoryKind, Settings};
use crate::solve::Solution;

/// The state of a learner.
#[derive(Debug, Clone)]
#[doc(hidden)] // for file
pub struct LearnerState {
    /// What is predicted, and by which loss.
    pub problem: Problem,
    /// The settings.
    pub settings: Settings,
    /// The design, once fixed.
    pub design: Option<Design>,
    /// What the columns of parameters stand for.
    pub outputs: Outputs,
    /// The tasks in the order they were learned; the summary is absent where it is still in the file, or merged.
    pub tasks: Vec<(TaskRecord, Option<Arc<TaskSummary>>)>,
    /// The pool of the first `pool.tasks` tasks, where one is kept.
    pub pool: Option<Pool>,
    /// The solution of all tasks, where one is kept, and for each column of parameters whether its class has rows.
    pub solution: Option<(Solution, Vec<bool>)>,
}

impl Learner {
    /// The learner of a state. Summaries of a ledger may be absent until something needs them ([`Learner::load_summaries`]).
    ///
    /// # Errors
    /// [`Error::State`] where the parts contradict each other, with the one that does.
    pub fn from_state(state: LearnerState) -> Result<Self> {
        let LearnerState { problem, settings, design, outputs, tasks, pool, solution } = state;
        problem.check(&settings)?;
        let mut learner = Self::empty(problem, settings);
        learner.design = design;
        learner.outputs = outputs;
        let mut index = HashMap::with_capacity(tasks.len());
        for (t, (record, _)) in tasks.iter().enumerate() {
            check_record(record)?;
            if index.insert(record.name.clone(), t).is_some() {
                return refuse(format!("two tasks are named `{}`", record.name));
            }
        }
        learner.index = index;
        let (records, summaries): (Vec<_>, Vec<_>) = tasks.into_iter().unzip();
        learner.records = records;
        learner.check_design_and_outputs()?;
        learner.check_counts()?;
        for (record, summary) in learner.records.iter().zip(&summaries) {
            if let Some(summary) = summary {
                learner.check_summary(record, summary)?;
            }
        }
        if let Some(pool) = &pool {
            learner.check_pool(pool)?;
        }
        learner.memory = learner.kept_memory(summaries, pool)?;
        learner.preference_fits()?;
        if let Some((solution, present)) = solution {
            learner.keep_solution(solution, present)?;
        }
        Ok(learner)
    }

    /// The memory of these summaries and this pool.
    fn kept_memory(
        &mut self,
        summaries: Vec<Option<Arc<TaskSummary>>>,
        pool: Option<Pool>,
    ) -> Result<Memory> {
        if self.records.is_empty() {
            return if pool.is_none() {
                Ok(Memory::Empty)
            } else {
                refuse("there is a pool, but no task".to_owned())
            };
        }
        let count = summaries.len();
        if self.settings.memory == MemoryKind::Ledger {
            let pooled = pool.as_ref().map_or(0, |pool| pool.tasks as usize);
            let pool = pool.map(Arc::new);
            if pooled == count
                && let Some(pool) = &pool
            {
                self.pooled = Lazy::made(pool.clone());
            }
            return Ok(Memory::Ledger { summaries, base: pool, pooled });
        }
        let Some(pool) = pool else {
            let held: Option<Vec<Arc<TaskSummary>>> = summaries.into_iter().collect();
            return match held {
                Some(held) => Ok(Memory::Held(held)),
                None => refuse("compact memory lacks a summary, and has no pool".to_owned()),
            };
        };
        let first = pool.tasks as usize;
        let waiting: Option<Vec<Arc<TaskSummary>>> = summaries.into_iter().skip(first).collect();
        match waiting {
            Some(waiting) => {
                let base = Arc::new(pool);
                if waiting.is_empty() {
                    self.pooled = Lazy::made(base.clone());
                }
                Ok(Memory::Folded { base, waiting })
            }
            None => refuse("compact memory lacks the summary of a task".to_owned()),
        }
    }

    fn keep_solution(&mut self, solution: Solution, present: Vec<bool>) -> Result<()> {
        let (m, p) = self.shape()?;
        let theta = &solution.theta;
        if (theta.width(), theta.targets()) != (m, p) || !theta.is_finite() {
            return refuse("the solution does not have the shape of the design".to_owned());
        }
        if present.len() != p {
            return refuse("the solution does not say which classes have rows".to_owned());
        }
        let response = self.problem.method().response(present);
        self.solved = Lazy::made(Solved::new(solution, response));
        Ok(())
    }

    /// Brings summaries of tasks that are still in a file, each with its position.
    ///
    /// # Errors
    /// When one is not the one on record; the learner is then unchanged.
    pub fn load_summaries(&mut self, found: Vec<(usize, TaskSummary)>) -> Result<()> {
        for (at, summary) in &found {
            let Some(record) = self.records.get(*at) else {
                return refuse(format!("there is no task number {at}"));
            };
            self.check_summary(record, summary)?;
        }
        if let Memory::Ledger { summaries, .. } = &mut self.memory {
            for (at, summary) in found {
                summaries[at] = Some(Arc::new(summary));
            }
        }
        Ok(())
    }

    /// The pool that is kept, of the first so many tasks; none while compact memory still holds the tasks singly. Unlike
    /// [`Learner::pool`] it makes none.
    pub fn kept_pool(&self) -> Option<&Pool> {
        let base = match &self.memory {
            // A pool that was made here is not memory: kept as such, the tasks would count as merged.
            Memory::Held(_) | Memory::Empty => return None,
            Memory::Ledger { base, .. } => base.as_deref(),
            Memory::Folded { base, .. } => Some(&**base),
        };
        // What a check has added up is not worth a triangle: the tasks of a ledger give it again.
        let ledger = matches!(self.memory, Memory::Ledger { .. });
        let worth = |pool: &&Pool| !ledger || self.is_solved() || !pool.quadratic.is_summed();
        self.pooled.get().map(|pool| &**pool).filter(worth).or(base.filter(worth))
    }

    /// For each column of parameters, whether its class has rows; all `true` for values.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn present_columns(&self) -> Result<Vec<bool>> {
        let solved = self.solved()?;
        let columns = solved.solution.theta.targets();
        Ok(match &solved.response {
            crate::problem::Response::Classes { present, .. } if !present.is_empty() => {
                present.clone()
            }
            _ => vec![true; columns],
        })
    }

    fn preference_fits(&self) -> Result<()> {
        match self.settings.prefer.shares(&self.weighed()) {
            Ok(_) => Ok(()),
            Err(error) => refuse(error.to_string()),
        }
    }

    fn check_design_and_outputs(&self) -> Result<()> {
        let Some(design) = &self.design else {
            return if self.records.is_empty() {
                Ok(())
            } else {
                refuse("there are tasks, but no basis was fixed".to_owned())
            };
        };
        if design.map().basis() != &self.settings.basis
            || design.intercept() != self.settings.intercept
            || design.clip() != self.settings.clip
        {
            return refuse("the design is not the one the settings ask for".to_owned());
        }
        let classes = matches!(self.outputs, Outputs::Classes(_));
        if classes != self.problem.predicts_classes() {
            return refuse("the outputs are not those of the problem".to_owned());
        }
        let (_, p) = self.shape()?;
        if p == 0 && !self.records.is_empty() {
            return refuse("there are tasks, but no targets".to_owned());
        }
        Ok(())
    }

    /// Samples are counted for classes there are.
    fn check_counts(&self) -> Result<()> {
        let classes = self.outputs.classes().map_or(0, crate::labels::Classes::len);
        match self.records.iter().find(|record| record.head.counts.len() > classes) {
            None => Ok(()),
            Some(record) => refuse(format!(
                "the record of `{}` counts samples of classes that the model does not have",
                record.name
            )),
        }
    }

    fn check_pool(&self, pool: &Pool) -> Result<()> {
        let (m, p) = self.shape()?;
        let fits = pool.quadratic.width() <= m
            && pool.quadratic.targets() <= p
            && pool.tasks as usize <= self.records.len()
            && pool.quadratic.n() > 0.0
            && [pool.samples, pool.spread].iter().all(|v| v.is_finite() && *v >= 0.0)
            && pool.least.is_none_or(f64::is_finite)
            && pool.moments.as_ref().is_none_or(|moments| moments.columns() <= m)
            && pool.tails.as_ref().is_none_or(|tails| tails.targets() <= p)
            && pool.scatters.len() <= p
            && pool.scatters.iter().all(|s| s.width() <= m && s.targets() == 1);
        if fits {
            Ok(())
        } else {
            refuse("the pool does not have the shape of the design".to_owned())
        }
    }

    fn check_summary(&self, record: &TaskRecord, task: &TaskSummary) -> Result<()> {
        let (m, p) = self.shape()?;
        let quadratic = &task.quadratic;
        let fits = quadratic.width() <= m
            && quadratic.targets() <= p
            && task.head.samples.to_bits() == record.head.samples.to_bits()
            && quadratic.rank() == record.rank
            && [task.nbytes(), task.padded_nbytes()].contains(&record.bytes)
            && task.classes.is_empty()
            && task.new_inputs.is_empty()
            && task.tails.as_ref().is_none_or(|tails| tails.targets() <= p)
            && task.moments.as_ref().is_none_or(|moments| moments.columns() <= m);
        if fits {
            return Ok(());
        }
        refuse(format!("the summary of `{}` is not the one on record", record.name))
    }
}

fn check_record(record: &TaskRecord) -> Result<()> {
    let head = &record.head;
    let sound = head.samples > 0.0
        && head.samples.is_finite()
        && record.weight > 0.0
        && record.weight.is_finite()
        && head.least.value().is_none_or(f64::is_finite)
        && head.counts.iter().all(|n| n.is_finite() && *n >= 0.0);
    if sound {
        return Ok(());
    }
    refuse(format!("the record of `{}` holds an invalid number", record.name))
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::State { reason })
}
