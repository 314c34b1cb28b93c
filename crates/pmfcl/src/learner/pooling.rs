//! What happens inside: a task goes into memory, summaries are pooled, the pool is solved.

use super::memory::{Memory, Pool, worth_holding};
use super::preference::Weighed;
use super::{Learner, MemoryKind, Ridge, TaskRecord, shape};
use crate::error::{Error, Result};
use crate::solve::{Model, Penalty, ridge, solve};
use crate::summary::{Design, Summary};

impl Learner {
    /// Puts a summarized task into memory and solves.
    pub(crate) fn absorb(
        &mut self,
        name: &str,
        design: Design,
        summary: Summary,
        least: f64,
        weight: f64,
    ) -> Result<&Model> {
        if !summary.is_finite() {
            return Err(Error::Bytes { reason: "it holds numbers that are not finite".to_owned() });
        }
        let (m, p) = (design.width(), summary.targets());
        if summary.width() != m {
            return Err(shape("the summary", "columns", m, summary.width()));
        }
        if self.targets != 0 && p != self.targets {
            return Err(shape("the task", "targets", self.targets, p));
        }
        let Some((share, fade)) = self.settings.prefer.arrival(summary.n(), weight) else {
            return Err(Error::Preference {
                reason: "the weights were chosen task by task, so a new task has none; prefer \
                         samples, equal or decay before learning on"
                    .to_owned(),
            });
        };
        let entry = TaskRecord {
            name: name.to_owned(),
            samples: summary.n(),
            rank: summary.rank(),
            weight,
            min_loss: least,
            bytes: summary.nbytes(),
        };
        // The first solution too is measured from where the basis starts.
        let first = self.design.is_none();
        if first {
            self.design = Some(design);
        }
        // Register, index and the list of summaries grow in place, so that a task costs the same
        // however many came before; they are cut back if anything below fails.
        self.index.insert(name.to_owned(), self.register.len());
        self.register.push(entry);
        let (alone, mut lone) = match &mut self.memory {
            Some(Memory::Ledger { summaries, .. } | Memory::Held(summaries)) => {
                summaries.push(summary);
                (None, Vec::new())
            }
            Some(Memory::Folded(_)) => (Some(summary), Vec::new()),
            None => (None, vec![summary]),
        };
        let done = self.with_task(m, p, &lone, alone.as_ref(), (share, fade, least));
        match done {
            Ok((pool, model)) => {
                self.targets = p;
                self.memory = Some(match (self.memory.take(), alone) {
                    (Some(Memory::Ledger { away, summaries, .. }), _) => {
                        Memory::Ledger { away, summaries, pool }
                    }
                    (_, Some(_)) => Memory::Folded(pool),
                    (Some(Memory::Held(summaries)), _) => self.shelve(m, p, summaries, pool),
                    _ => self.shelve(m, p, std::mem::take(&mut lone), pool),
                });
                Ok(self.model.insert(model))
            }
            Err(error) => {
                if first {
                    self.design = None;
                }
                self.register.pop();
                self.index.remove(name);
                if let Some(Memory::Ledger { summaries, .. } | Memory::Held(summaries)) =
                    &mut self.memory
                {
                    summaries.pop();
                }
                Err(error)
            }
        }
    }

    /// Pool and model with the newest task of the register counted in. Its summary is the last in
    /// memory, or `alone` beside folded memory, or in `lone` when it is the first of all.
    pub(super) fn with_task(
        &self,
        m: usize,
        p: usize,
        lone: &[Summary],
        alone: Option<&Summary>,
        (share, fade, least): (f64, f64, f64),
    ) -> Result<(Pool, Model)> {
        let intercept = self.settings.intercept;
        let (pool, tasks) = match (&self.memory, alone) {
            (Some(Memory::Folded(pool)), Some(task)) => (pool.add(task, share, least, fade)?, None),
            (Some(Memory::Ledger { away, summaries, pool }), _) => {
                let task = summaries.last().ok_or(Error::NotLearned)?;
                let all = (*away == 0).then_some(&summaries[..]);
                (pool.add(task, share, least, fade)?, all)
            }
            (Some(Memory::Held(held)), _) => {
                (self.pool_parts(m, p, held, &self.shares()?)?, Some(&held[..]))
            }
            _ => (self.pool_parts(m, p, lone, &self.shares()?)?, Some(lone)),
        };
        let model = self.solve_design(&pool, tasks, intercept)?;
        Ok((pool, model))
    }

    /// Chooses the memory's form for these summaries.
    pub(super) fn shelve(&self, m: usize, p: usize, summaries: Vec<Summary>, pool: Pool) -> Memory {
        match self.settings.memory {
            MemoryKind::Ledger => Memory::Ledger { away: 0, summaries, pool },
            MemoryKind::Compact => {
                let numbers = summaries.iter().map(Summary::numbers).sum();
                if worth_holding(numbers, m, p) {
                    Memory::Held(summaries)
                } else {
                    Memory::Folded(pool)
                }
            }
        }
    }

    pub(super) fn remember(&self, summaries: Vec<Summary>, shares: &[f64]) -> Result<Memory> {
        let pool = self.pool_of(&summaries, shares)?;
        let (m, p) = (pool.summary.width(), pool.summary.targets());
        Ok(self.shelve(m, p, summaries, pool))
    }

    pub(super) fn pool_of(&self, summaries: &[Summary], shares: &[f64]) -> Result<Pool> {
        let first = summaries.first().ok_or(Error::NotLearned)?;
        self.pool_parts(first.width(), first.targets(), summaries, shares)
    }

    pub(super) fn pool_parts(
        &self,
        m: usize,
        p: usize,
        summaries: &[Summary],
        shares: &[f64],
    ) -> Result<Pool> {
        let least = self.register.iter().map(|e| e.min_loss);
        Pool::of(m, p, summaries.iter().zip(shares).zip(least).map(|((s, u), l)| (s, *u, l)))
    }

    pub(super) fn pool(&self) -> Result<Pool> {
        match &self.memory {
            None => Err(Error::NotLearned),
            Some(Memory::Ledger { pool, .. } | Memory::Folded(pool)) => Ok(pool.clone()),
            Some(Memory::Held(held)) => self.pool_of(held, &self.shares()?),
        }
    }

    pub(super) fn solve_pool(&self, pool: &Pool) -> Result<Model> {
        self.solve_design(pool, self.summaries(), self.settings.intercept)
    }

    pub(super) fn solve_design(
        &self,
        pool: &Pool,
        tasks: Option<&[Summary]>,
        intercept: bool,
    ) -> Result<Model> {
        if let Some(head) = &self.head {
            return head.solve(&pool.summary, self.samples(), self.effective_samples()?);
        }
        let standardize = self.settings.standardize || self.settings.ridge == Ridge::Auto;
        let origin = self.design.as_ref().and_then(|d| d.map().origin());
        let chosen = match (self.settings.ridge, tasks) {
            (Ridge::Fixed(x), _) => x,
            (Ridge::LeaveOneTaskOut, Some(summaries)) if summaries.len() > 1 => {
                let folds = self.folds(summaries, &self.shares()?)?;
                let pool = &pool.summary;
                return ridge::solve_by_leaving_tasks_out(
                    pool,
                    &folds,
                    intercept,
                    standardize,
                    origin,
                );
            }
            (Ridge::LeaveOneTaskOut, None) => {
                const OPERATION: &str = "choosing the ridge by leaving tasks out";
                return Err(match self.away() {
                    0 => Error::Unsupported {
                        operation: OPERATION,
                        reason: "compact memory has merged the tasks; use the ledger, or gcv"
                            .to_owned(),
                    },
                    missing => Error::Away { operation: OPERATION, missing },
                });
            }
            (Ridge::Auto | Ridge::LeaveOneTaskOut, _) => {
                let samples = self.effective_samples()?;
                return ridge::solve_by_gcv(&pool.summary, intercept, standardize, samples, origin);
            }
        };
        solve(&pool.summary, intercept, Penalty::new(chosen, standardize)?, origin)
    }

    /// For every task, the pool of all others beside the task itself.
    pub(super) fn folds<'a>(
        &self,
        summaries: &'a [Summary],
        shares: &[f64],
    ) -> Result<Vec<(Summary, &'a Summary)>> {
        (0..summaries.len())
            .map(|out| {
                let mut shares = shares.to_vec();
                shares[out] = 0.0;
                Ok((self.pool_of(summaries, &shares)?.summary, &summaries[out]))
            })
            .collect()
    }

    pub(super) fn shares(&self) -> Result<Vec<f64>> {
        self.settings.prefer.shares(&self.weighed())
    }

    pub(super) fn weighed(&self) -> Vec<Weighed<'_>> {
        self.register
            .iter()
            .map(|e| Weighed { name: &e.name, samples: e.samples, weight: e.weight })
            .collect()
    }
}
