//! Rows that come later for the task learned last: a stream in small pieces whose memory does not grow.

use std::sync::Arc;

use super::memory::Memory;
use super::{Accepted, Learner, TaskRecord};
use crate::basis::Design;
use crate::error::{Error, Result};
use crate::problem::{Draft, LeastLoss, Part, Pool, TaskSummary};
use crate::settings::Preference;

impl Learner {
    /// Adds rows, fitted as [`Learner::fit`] does with the weight of the last task, to that task: afterwards the memory is the
    /// one of having learned all its rows at once. Where quadratics are bounds, the sum of the bounds is kept, which is a bound.
    ///
    /// # Errors
    /// When nothing has been learned, the rows do not go with those before, the summary of the last task is still in a file, or
    /// compact memory has merged it with others whose share would change.
    pub fn append(&mut self, design: &Design, draft: impl Into<Draft>) -> Result<()> {
        let Some(at) = self.records.len().checked_sub(1) else { return Err(Error::NotLearned) };
        let accepted = self.accept(design, draft.into())?;
        let part = &accepted.summary;
        let columns = accepted.columns(self);
        let shape = (design.width(), columns);
        let known = self.task_summary_at(at).cloned();
        let joined = match &known {
            Some(task) => Some(task.joined(part, shape)?),
            None if self.is_folded() => None,
            None => {
                return Err(Error::Unloaded { operation: "adding rows to a task", missing: 1 });
            }
        };
        let pool = self.pool_with(part, shape, joined.is_some())?;
        let record = match &joined {
            Some(task) => {
                let TaskRecord { name, weight, .. } = &self.records[at];
                TaskRecord::of(name, *weight, task)
            }
            None => self.merged_record(at, part, pool.as_deref()),
        };
        let held = match &accepted.sample {
            Some(more) => Some(self.held_sample(at).unwrap_or_default().with(more)?),
            None => None,
        };
        // Nothing can fail from here on.
        self.take_in(accepted, design);
        let measured = self.records[at].head.calibration.take();
        self.records[at] = record;
        self.records[at].head.calibration = measured;
        let joined = joined.map(Arc::new);
        match (&mut self.memory, joined, pool) {
            (Memory::Ledger { summaries, base, pooled }, Some(task), pool) => {
                summaries[at] = Some(task);
                match pool {
                    Some(pool) => *base = Some(pool),
                    None if *pooled > at => (*base, *pooled) = (None, 0),
                    None => {}
                }
            }
            (Memory::Held(held), Some(task), _) => held[at] = task,
            (Memory::Folded { waiting, .. }, Some(task), _) => {
                if let Some(last) = waiting.last_mut() {
                    *last = task;
                }
            }
            (Memory::Folded { base, .. }, None, Some(pool)) => *base = pool,
            _ => {}
        }
        self.settle_least();
        self.edits += 1;
        self.generation += 1;
        self.fold();
        self.hold_sample(at, held);
        Ok(())
    }

    /// The settled pool with more rows of its last task; `None` where the last task is not in it, or must be pooled anew.
    fn pool_with(
        &mut self,
        part: &TaskSummary,
        shape: (usize, usize),
        replaceable: bool,
    ) -> Result<Option<Arc<Pool>>> {
        self.settle();
        let last = &self.records[self.records.len() - 1];
        let (before, more) = (last.head.samples, part.head.samples);
        let base = match &self.memory {
            Memory::Ledger { base: Some(base), pooled, .. } if *pooled == self.records.len() => {
                base
            }
            Memory::Folded { base, waiting } if waiting.is_empty() => base,
            _ => return Ok(None),
        };
        // The factor on what is in the pool, and the weight of what is added.
        let (fade, share) = match &self.settings.prefer {
            Preference::Samples => (1.0, last.weight * more),
            _ if self.records.len() == 1 => {
                (before / (before + more), last.weight * more / (before + more))
            }
            _ if replaceable => return Ok(None),
            other => {
                return Err(Error::Unsupported {
                    operation: "adding rows to this task",
                    reason: format!(
                        "compact memory has merged it with the others, and under `{other}` its earlier rows would count \
                         differently; give the rows a task of their own, or use the ledger"
                    ),
                });
            }
        };
        let mut pool = Pool::with_tasks(
            Some((base, fade)),
            shape,
            &[Part { task: part, share }],
            self.pooling(),
        )?;
        pool.tasks -= 1;
        Ok(Some(Arc::new(pool)))
    }

    /// The record of a task that compact memory has merged, with more rows. Of a single task the pool tells the least loss; of
    /// one among others it is gone.
    fn merged_record(&self, at: usize, part: &TaskSummary, pool: Option<&Pool>) -> TaskRecord {
        let mut record = self.records[at].clone();
        record.head = record.head.joined(&part.head);
        record.rank = record.rank.max(part.quadratic.rank_at_most());
        record.head.least = match (record.head.least, pool) {
            (LeastLoss::Exact(_), Some(pool)) if self.records.len() == 1 => {
                record.rank = pool.quadratic.rank();
                LeastLoss::Exact(pool.quadratic.min_loss())
            }
            (LeastLoss::Exact(_), _) => LeastLoss::Unknown,
            (other, _) => other,
        };
        record
    }

    /// Sums the least losses of a settled pool anew: that of the last task has changed.
    fn settle_least(&mut self) {
        let Ok(shares) = self.shares() else { return };
        let parts = self.records.iter().zip(&shares);
        let least = parts.map(|(record, u)| record.head.least.value().map(|least| u * least)).sum();
        let base = match &mut self.memory {
            Memory::Ledger { base: Some(base), pooled, .. } if *pooled == self.records.len() => {
                base
            }
            Memory::Folded { base, waiting } if waiting.is_empty() => base,
            _ => return,
        };
        Arc::make_mut(base).least = least;
    }
}

impl Accepted {
    /// Columns of parameters with this task.
    fn columns(&self, learner: &Learner) -> usize {
        let problem = self.settled.as_ref().unwrap_or(&learner.problem);
        problem.method().columns(&self.outputs)
    }
}
