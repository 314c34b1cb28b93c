//! A learner taken apart and put together again: what a model file keeps.
//!
//! A file asks for the parts one by one, so that nothing is copied to be written. Put together, the parts are
//! checked against each other; the summaries of a ledger may stay in the file until something needs them.

use super::memory::{Memory, Pool};
use super::{Learner, MemoryKind, Settings};
use crate::error::{Error, Result};
use crate::solve::Model;
use crate::summary::{Design, Summary};

/// What is known of a task beside its summary: a line of the register, a few dozen bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRecord {
    /// Its name.
    pub name: String,
    /// Samples, or the sum of their weights.
    pub samples: f64,
    /// Rank of its design.
    pub rank: usize,
    /// The weight it was learned with, 1 where none was given.
    pub weight: f64,
    /// The least loss any model has on it, or a lower bound of it.
    pub min_loss: f64,
    /// Bytes of its summary.
    pub bytes: usize,
}

/// The memory of a learner as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub enum MemoryParts {
    /// Nothing has been learned.
    Empty,
    /// One summary a task, and their pool. An empty list leaves them where they are, for
    /// [`Learner::supply`] to bring when they are needed.
    Ledger {
        /// The pool `Σ (u_t/n_t) summary_t`.
        pool: Summary,
        /// `Σ u_t min L_t`.
        floor: f64,
        /// All summaries, or none of them.
        summaries: Vec<Summary>,
    },
    /// Compact memory that still holds the factors of its tasks.
    Held(Vec<Summary>),
    /// Compact memory that has merged them.
    Folded {
        /// The pool, as above.
        pool: Summary,
        /// As above.
        floor: f64,
    },
}

/// A learner's parts.
#[derive(Debug, Clone)]
pub struct LearnerParts {
    /// The settings.
    pub settings: Settings,
    /// The design, once fixed.
    pub design: Option<Design>,
    /// Targets; 0 before the first task.
    pub targets: usize,
    /// The register of tasks, in the order they were learned.
    pub tasks: Vec<TaskRecord>,
    /// The memory.
    pub memory: MemoryParts,
    /// The solution.
    pub model: Option<Model>,
}

impl Learner {
    /// Puts a learner for squared loss together.
    ///
    /// # Errors
    /// [`Error::Parts`] where the parts contradict each other, with the one that does.
    pub fn from_parts(parts: LearnerParts) -> Result<Self> {
        // Weights chosen in hindsight are no way to start, but a way to be found in.
        let prefer = parts.settings.prefer.clone();
        prefer.check()?;
        let mut learner =
            Self::new(Settings { prefer: super::Preference::Samples, ..parts.settings })?;
        learner.settings.prefer = prefer;
        learner.design = parts.design;
        learner.targets = parts.targets;
        for (t, record) in parts.tasks.iter().enumerate() {
            check_record(record)?;
            if learner.index.insert(record.name.clone(), t).is_some() {
                return refuse(format!("two tasks are named `{}`", record.name));
            }
        }
        learner.register = parts.tasks;
        learner.memory = learner.remembered(parts.memory)?;
        learner.model = parts.model;
        learner.check_parts()?;
        learner.count_again()?;
        Ok(learner)
    }

    /// Brings the summaries of the tasks that lie elsewhere, in order.
    ///
    /// # Errors
    /// When they are not those of the register; the learner is then what it was.
    pub fn supply(&mut self, summaries: Vec<Summary>) -> Result<()> {
        let away = self.away();
        if summaries.len() != away {
            return refuse(format!("{} summaries for {away} tasks", summaries.len()));
        }
        for (summary, record) in summaries.iter().zip(&self.register) {
            self.check_summary(summary, record)?;
        }
        if let Some(Memory::Ledger { away, summaries: fresh, .. }) = &mut self.memory {
            *away = 0;
            fresh.splice(0..0, summaries);
        }
        Ok(())
    }

    /// Tasks whose summaries lie in a file and have not been supplied.
    pub fn away(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::away)
    }

    /// Whether compact memory has merged the tasks for good.
    pub fn is_folded(&self) -> bool {
        matches!(self.memory, Some(Memory::Folded(_)))
    }

    /// The register of tasks.
    pub fn records(&self) -> &[TaskRecord] {
        &self.register
    }

    /// The summaries at hand: those of the last tasks of the register, all of them unless some are
    /// [away](Learner::away) or folded.
    pub fn at_hand(&self) -> &[Summary] {
        match &self.memory {
            Some(Memory::Ledger { summaries, .. } | Memory::Held(summaries)) => summaries,
            Some(Memory::Folded(_)) | None => &[],
        }
    }

    /// The pool and its least loss `Σ u_t min L_t`, where the memory keeps one.
    pub fn kept_pool(&self) -> Option<(&Summary, f64)> {
        match &self.memory {
            Some(Memory::Ledger { pool, .. } | Memory::Folded(pool)) => {
                Some((&pool.summary, pool.floor))
            }
            Some(Memory::Held(_)) | None => None,
        }
    }

    fn remembered(&self, parts: MemoryParts) -> Result<Option<Memory>> {
        let pooled = |summary: Summary, floor: f64| {
            if floor.is_finite() {
                Ok(Pool { summary, floor })
            } else {
                refuse(format!("the pooled least loss is {floor}"))
            }
        };
        let kind = self.settings.memory;
        Ok(match (parts, kind) {
            (MemoryParts::Empty, _) => None,
            (MemoryParts::Ledger { pool, floor, summaries }, MemoryKind::Ledger) => {
                let away = if summaries.is_empty() { self.register.len() } else { 0 };
                Some(Memory::Ledger { away, summaries, pool: pooled(pool, floor)? })
            }
            (MemoryParts::Held(summaries), MemoryKind::Compact) => Some(Memory::Held(summaries)),
            (MemoryParts::Folded { pool, floor }, MemoryKind::Compact) => {
                Some(Memory::Folded(pooled(pool, floor)?))
            }
            _ => return refuse("the memory is not of the kind the settings say".to_owned()),
        })
    }

    fn check_parts(&self) -> Result<()> {
        let learned = self.memory.is_some();
        if learned != self.model.is_some() || learned == self.register.is_empty() {
            return refuse(
                "tasks, memory and solution are not there all together, or gone all together"
                    .to_owned(),
            );
        }
        let (Some(memory), Some(model)) = (&self.memory, &self.model) else { return Ok(()) };
        let Some(design) = &self.design else {
            return refuse("there are tasks, but no basis was fixed".to_owned());
        };
        if design.map().basis() != &self.settings.basis
            || design.intercept() != self.settings.intercept
        {
            return refuse("the design is not the one the settings ask for".to_owned());
        }
        let m = design.width();
        if model.theta.width() != m
            || model.theta.targets() != self.targets
            || !model.theta.is_finite()
        {
            return refuse("the solution does not have the shape of the design".to_owned());
        }
        if let Memory::Ledger { pool, .. } | Memory::Folded(pool) = memory
            && (pool.summary.width(), pool.summary.targets()) != (m, self.targets)
        {
            return refuse("the pool does not have the shape of the design".to_owned());
        }
        if let Memory::Ledger { away: 0, summaries, .. } | Memory::Held(summaries) = memory {
            if summaries.len() != self.register.len() {
                return refuse(format!(
                    "{} summaries for {} tasks",
                    summaries.len(),
                    self.register.len()
                ));
            }
            for (summary, record) in summaries.iter().zip(&self.register) {
                self.check_summary(summary, record)?;
            }
        }
        Ok(())
    }

    fn check_summary(&self, summary: &Summary, record: &TaskRecord) -> Result<()> {
        let m = self.design.as_ref().map_or(0, Design::width);
        let fits = (summary.width(), summary.targets()) == (m, self.targets)
            && summary.n().to_bits() == record.samples.to_bits()
            && summary.rank() == record.rank
            && summary.nbytes() == record.bytes;
        if fits {
            return Ok(());
        }
        refuse(format!("the summary of `{}` is not the one on record", record.name))
    }
}

fn check_record(record: &TaskRecord) -> Result<()> {
    let sound = record.samples > 0.0
        && record.samples.is_finite()
        && record.weight > 0.0
        && record.weight.is_finite()
        && record.min_loss.is_finite();
    if sound {
        return Ok(());
    }
    refuse(format!("the record of `{}` holds a number that makes no sense", record.name))
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Parts { reason })
}
