//! Going back: models along the way, another preference or ridge, and unlearning. No rows needed.

use super::memory::{Memory, Pool};
use super::settings::check_ridge;
use super::{Learner, Preference, Ridge, Settings};
use crate::error::{Error, Result};
use crate::solve::Model;
use crate::summary::Summary;
use crate::theta::Theta;

/// A model on the way, and the preference it was solved under.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The model after the task.
    pub model: Model,
    /// `α` over the tasks so far.
    pub weights: Vec<f64>,
}

impl Learner {
    /// The models after each task, solved again from the summaries under the present settings.
    ///
    /// # Errors
    /// When nothing has been learned, or compact memory has folded the tasks.
    pub fn replay(&self) -> Result<Vec<Step>> {
        let summaries = self.every_summary("a replay")?;
        if summaries.is_empty() {
            return Err(Error::NotLearned);
        }
        let mut past = Self { memory: None, model: None, ..self.clone() };
        past.register.clear();
        let mut running: Option<Pool> = None;
        let mut steps = Vec::with_capacity(summaries.len());
        for (t, (summary, entry)) in summaries.iter().zip(&self.register).enumerate() {
            past.register.push(entry.clone());
            past.settings.prefer = self.settings.prefer.restricted(past.names());
            let shares = past.shares()?;
            let arrival = self.settings.prefer.arrival(summary.n(), entry.weight);
            let pool = match (&running, arrival) {
                (Some(pool), Some((share, fade))) => {
                    pool.add(summary, share, entry.min_loss, fade)?
                }
                _ => past.pool_of(&summaries[..=t], &shares)?,
            };
            let model =
                past.solve_design(&pool, Some(&summaries[..=t]), self.settings.intercept)?;
            let sum: f64 = shares.iter().sum();
            let weights = shares.iter().map(|s| s / sum).collect();
            steps.push(Step { model, weights });
            running = Some(pool);
        }
        Ok(steps)
    }

    /// Another preference in hindsight.
    ///
    /// # Errors
    /// When nothing has been learned, it is no preference over these tasks, or compact memory has
    /// folded them.
    pub fn prefer(&mut self, preference: Preference) -> Result<&Model> {
        preference.check()?;
        if self.memory.is_none() {
            return Err(Error::NotLearned);
        }
        let summaries = self.every_summary("another preference in hindsight")?;
        let shares = preference.shares(&self.weighed())?;
        let pool = self.pool_of(summaries, &shares)?;
        let before = std::mem::replace(&mut self.settings.prefer, preference);
        match self.solve_pool(&pool) {
            Ok(model) => {
                if let Some(Memory::Ledger { pool: old, .. }) = &mut self.memory {
                    *old = pool;
                }
                Ok(self.model.insert(model))
            }
            Err(error) => {
                self.settings.prefer = before;
                Err(error)
            }
        }
    }

    /// Another ridge in hindsight: solved anew from the memory.
    ///
    /// # Errors
    /// When it is out of range, or does not go with the loss or the memory.
    pub fn set_ridge(&mut self, ridge: Ridge, standardize: bool) -> Result<&Model> {
        let changed = Self {
            settings: Settings { ridge, standardize, ..self.settings.clone() },
            ..self.clone()
        };
        check_ridge(&changed.settings, &*self.loss)?;
        let model = changed.solve_pool(&changed.pool()?)?;
        self.settings = changed.settings;
        Ok(self.model.insert(model))
    }

    /// Removes a task exactly: afterwards the model is the one of never having learned it.
    ///
    /// # Errors
    /// When there is no such task, or compact memory has folded it; then
    /// [`Learner::unlearn_summary`] takes it out given its rows once more.
    pub fn unlearn(&mut self, name: &str) -> Result<()> {
        let at = self.position(name)?;
        if matches!(self.memory, Some(Memory::Folded(_))) {
            return Err(Error::Unsupported {
                operation: "unlearning by name alone",
                reason:
                    "compact memory has merged the task with the others; give its rows once more \
                         (unlearn_summary), or use the ledger"
                        .to_owned(),
            });
        }
        let mut kept = self.every_summary("unlearning")?.to_vec();
        let mut rest = self.clone();
        kept.remove(at);
        rest.forget_entry(at);
        rest.memory = None;
        rest.model = None;
        if kept.is_empty() {
            // Weights chosen by name have no names left: the next task starts afresh.
            rest.settings.prefer = rest.settings.prefer.restricted(std::iter::empty());
        } else {
            if let Preference::Chosen(list) = &mut rest.settings.prefer {
                list.retain(|(n, _)| n != name);
                let sum: f64 = list.iter().map(|(_, a)| a).sum();
                if sum <= 0.0 {
                    return Err(Error::Preference {
                        reason: format!(
                            "without `{name}` no task has any weight; prefer others first"
                        ),
                    });
                }
                for (_, a) in list {
                    *a /= sum;
                }
            }
            let shares = rest.shares()?;
            let pool = rest.pool_of(&kept, &shares)?;
            rest.memory = Some(match &self.memory {
                Some(Memory::Ledger { .. }) => {
                    Memory::Ledger { away: 0, summaries: kept, pool: pool.clone() }
                }
                _ => Memory::Held(kept),
            });
            rest.model = Some(rest.solve_pool(&pool)?);
        }
        *self = rest;
        Ok(())
    }

    /// Removes a task, given its summary made once more from its rows; folded memory needs that.
    ///
    /// # Errors
    /// When there is no such task, the summary is not the one that was added, too few digits would
    /// remain, or the preference depends on the order of tasks.
    pub fn unlearn_summary(&mut self, name: &str, summary: &Summary) -> Result<()> {
        let at = self.position(name)?;
        let entry = &self.register[at];
        if (summary.n() - entry.samples).abs() > 1e-9 * entry.samples {
            return Err(Error::Removal {
                reason: format!(
                    "`{name}` was learned with {} samples, but {} were given",
                    entry.samples,
                    summary.n()
                ),
            });
        }
        // Its least loss is on record: other rows of the same number are not what was learned.
        let least = summary.min_loss();
        let size = least + summary.forgetting(&Theta::zeros(summary.width(), summary.targets()))?;
        if self.is_exact() && (least - entry.min_loss).abs() > 1e-8 * size.max(entry.min_loss) {
            return Err(Error::Removal {
                reason: format!(
                    "the least loss on `{name}` was {}, but is {least} on what was given: these are \
                     other rows",
                    entry.min_loss
                ),
            });
        }
        let Some(Memory::Folded(pool)) = &self.memory else {
            return self.unlearn(name);
        };
        if matches!(self.settings.prefer, Preference::Decay(_)) {
            return Err(Error::Unsupported {
                operation: "unlearning from compact memory under decay",
                reason: "the weights of the tasks before it would change; use the ledger"
                    .to_owned(),
            });
        }
        let share = self.shares()?[at];
        let mut rest = self.clone();
        rest.forget_entry(at);
        if rest.register.is_empty() {
            rest.memory = None;
            rest.model = None;
        } else {
            let part = summary.scale(share / summary.n())?;
            let pool = Pool {
                summary: pool.summary.remove(&part)?,
                floor: pool.floor - share * entry.min_loss,
            };
            rest.model = Some(rest.solve_pool(&pool)?);
            rest.memory = Some(Memory::Folded(pool));
        }
        *self = rest;
        Ok(())
    }

    pub(super) fn forget_entry(&mut self, at: usize) {
        self.register.remove(at);
        self.index = self.register.iter().enumerate().map(|(i, e)| (e.name.clone(), i)).collect();
        if self.register.is_empty() {
            // What the forgotten rows had fixed is forgotten too.
            self.design = None;
            self.targets = 0;
        }
    }
}
