//! What a learner remembers: every task's summary, or one sum of constant size.
//!
//! Both forms give the same model. A task that arrives waits next to the pool; waiting tasks are pooled together when the pool is
//! needed, and in compact memory when they outgrow one triangle.

use std::sync::Arc;

use crate::problem::{Pool, TaskHead, TaskSummary};

/// What is known of a task in addition to its summary: a line of the register, a few dozen bytes.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for file
pub struct TaskRecord {
    /// Its name.
    pub name: String,
    /// The weight it was learned with, 1 where none was given.
    pub weight: f64,
    /// Rank of its design.
    pub rank: usize,
    /// Bytes of its summary.
    pub bytes: usize,
    /// Samples, least loss, class counts.
    pub head: TaskHead,
}

impl TaskRecord {
    /// The record of a task summary.
    pub(crate) fn of(name: &str, weight: f64, task: &TaskSummary) -> Self {
        Self {
            name: name.to_owned(),
            weight,
            rank: task.quadratic.rank_at_most(),
            bytes: task.nbytes(),
            head: task.head.clone(),
        }
    }
}

/// The summaries of a learner. Records are kept apart, one for each task in every form.
#[derive(Debug, Clone, Default)]
pub(super) enum Memory {
    /// Nothing has been learned.
    #[default]
    Empty,
    /// Every task's summary, `None` while it is still in a file. The first `pooled` tasks are in `base`.
    Ledger { summaries: Vec<Option<Arc<TaskSummary>>>, base: Option<Arc<Pool>>, pooled: usize },
    /// Phase one of Algorithm 3: the summaries, while together they are smaller than the triangle.
    Held(Vec<Arc<TaskSummary>>),
    /// Phase two: one triangle, and the last tasks that are not yet in it.
    Folded { base: Arc<Pool>, waiting: Vec<Arc<TaskSummary>> },
}

impl Memory {
    /// How many tasks' summaries are still in a file.
    pub(super) fn unloaded(&self) -> usize {
        match self {
            Self::Ledger { summaries, .. } => summaries.iter().filter(|s| s.is_none()).count(),
            Self::Empty | Self::Held(_) | Self::Folded { .. } => 0,
        }
    }

    /// Bytes of the summaries that are in memory.
    pub(super) fn nbytes(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Ledger { summaries, .. } => {
                summaries.iter().flatten().map(|task| task.nbytes()).sum()
            }
            Self::Held(summaries) => summaries.iter().map(|task| task.nbytes()).sum(),
            Self::Folded { base, waiting } => {
                pool_bytes(base) + waiting.iter().map(|task| task.nbytes()).sum::<usize>()
            }
        }
    }
}

/// Bytes of a pool that stands for its tasks: the quadratic, the least loss, and moments and tails where there are some.
pub(super) fn pool_bytes(pool: &Pool) -> usize {
    let moments = pool.moments.as_ref().map_or(0, |m| 8 * m.to_numbers().len());
    let tails = pool.tails.as_ref().map_or(0, |t| 8 * t.to_numbers().len());
    pool.quadratic.nbytes() + 8 + moments + tails
}

/// Whether factors of these many numbers are still smaller than the packed triangle they fold into.
///
/// Paper: Algorithm 3 (`alg:linreg-cl`), the switch at `Σ r_t ≥ d`, corrected for packed storage.
pub(super) fn worth_holding(numbers: usize, m: usize, p: usize) -> bool {
    numbers < m * (m + 1) / 2 + m * p
}
