//! Growing: merging with a memory made elsewhere, new inputs and new targets.

use super::memory::{Memory, Pool};
use super::{Learner, Preference};
use crate::basis::Basis;
use crate::error::{Error, Result};
use crate::summary::{Design, Summary};

impl Learner {
    /// Merges with a memory made elsewhere: afterwards this learner has learned both.
    ///
    /// # Errors
    /// When settings, designs or targets differ, or a task name occurs in both.
    pub fn merge(&mut self, other: &Learner) -> Result<()> {
        self.check_mergeable(other)?;
        for side in [&*self, other] {
            if side.away() > 0 {
                return Err(Error::Away { operation: "a merger", missing: side.away() });
            }
        }
        let Some(theirs) = &other.memory else { return Ok(()) };
        let mut both = self.clone();
        both.design.clone_from(&other.design);
        both.targets = other.targets;
        for entry in &other.register {
            if both.index.contains_key(&entry.name) {
                return Err(Error::DuplicateTask { name: entry.name.clone() });
            }
            both.index.insert(entry.name.clone(), both.register.len());
            both.register.push(entry.clone());
        }
        both.count_again()?;
        let shares = both.shares()?;
        let Some(ours) = &self.memory else {
            both.memory = Some(theirs.clone());
            both.model = Some(both.solve_pool(&both.pool()?)?);
            *self = both;
            return Ok(());
        };
        both.memory = Some(if let Some((a, b)) = ours.summaries().zip(theirs.summaries()) {
            let all: Vec<Summary> = a.iter().chain(b).cloned().collect();
            both.remember(all, &shares)?
        } else {
            if !matches!(self.settings.prefer, Preference::Samples | Preference::Equal) {
                return Err(Error::Unsupported {
                    operation: "merging compact memories under decay",
                    reason: "the order of the tasks is gone; use the ledger".to_owned(),
                });
            }
            let (a, b) = (self.pool()?, other.pool()?);
            Memory::Folded(Pool { summary: a.summary.merge(&b.summary)?, floor: a.floor + b.floor })
        });
        both.model = Some(both.solve_pool(&both.pool()?)?);
        *self = both;
        Ok(())
    }

    /// Adds `count` inputs at position `at` whose past values are zero: categories unseen before.
    ///
    /// # Errors
    /// When the basis mixes inputs, so that a new one would change columns already summarized.
    pub fn extend_inputs(&mut self, at: usize, count: usize) -> Result<()> {
        let wider = self.wider_design(count)?;
        let column = at + usize::from(wider.intercept());
        let extended = self.transformed(|s| s.extend_features(column, count))?;
        *self = Self { design: Some(wider), ..extended };
        self.resolve()
    }

    /// Puts inputs elsewhere: input `j` becomes input `places[j]` of `count`, the others have been zero so far.
    /// For memories that met the same columns or categories in another order.
    ///
    /// # Errors
    /// When the basis mixes inputs, or `places` is no such list.
    pub fn rearrange_inputs(&mut self, places: &[usize], count: usize) -> Result<()> {
        let inputs = self.design.as_ref().map_or(0, Design::inputs);
        let wider = self.wider_design(count.saturating_sub(inputs))?;
        let offset = usize::from(wider.intercept());
        let columns: Vec<usize> =
            (0..offset).chain(places.iter().map(|place| place + offset)).collect();
        let moved = self.transformed(|s| s.rearrange(&columns, count + offset))?;
        *self = Self { design: Some(wider), ..moved };
        self.resolve()
    }

    /// Gives a task another name.
    ///
    /// # Errors
    /// When there is no such task, or one of the new name.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<()> {
        let at = self.position(name)?;
        self.admit(new, 1.0)?;
        self.index.remove(name);
        self.index.insert(new.to_owned(), at);
        new.clone_into(&mut self.register[at].name);
        if let Preference::Chosen(list) = &mut self.settings.prefer {
            list.iter_mut().filter(|(n, _)| n == name).for_each(|(n, _)| new.clone_into(n));
        }
        Ok(())
    }

    /// The design with `count` inputs more.
    pub(crate) fn wider_design(&self, count: usize) -> Result<Design> {
        let Some(design) = &self.design else { return Err(Error::NotLearned) };
        if !design.map().is_identity() {
            return Err(Error::Unsupported {
                operation: "a new input",
                reason: format!(
                    "the basis {} was fixed for {} inputs; only the linear basis can grow",
                    design.map().basis(),
                    design.inputs()
                ),
            });
        }
        let map = Basis::default().fix(&[], design.inputs() + count)?;
        Ok(Design::new(map, design.intercept()))
    }

    /// Adds `count` targets at position `at` whose past values are zero: classes unseen before.
    ///
    /// # Errors
    /// When nothing has been learned or `at` is beyond the last target.
    pub fn extend_targets(&mut self, at: usize, count: usize) -> Result<()> {
        if self.memory.is_none() {
            return Err(Error::NotLearned);
        }
        let extended = self.transformed(|s| s.extend_targets(at, count))?;
        *self = Self { targets: self.targets + count, ..extended };
        self.resolve()
    }

    /// A copy with every summary in memory replaced by one of `targets` targets, not yet solved.
    pub(crate) fn retargeted(
        &self,
        targets: usize,
        f: impl Fn(&Summary) -> Result<Summary>,
    ) -> Result<Self> {
        let changed = self.transformed(f)?;
        Ok(Self { targets: if self.memory.is_some() { targets } else { 0 }, ..changed })
    }

    /// A copy with every summary in memory replaced.
    pub(super) fn transformed(&self, f: impl Fn(&Summary) -> Result<Summary>) -> Result<Self> {
        let all = |list: &[Summary]| list.iter().map(&f).collect::<Result<Vec<_>>>();
        let pooled =
            |pool: &Pool| Ok::<_, Error>(Pool { summary: f(&pool.summary)?, floor: pool.floor });
        let memory = match &self.memory {
            None => None,
            Some(Memory::Held(s)) => Some(Memory::Held(all(s)?)),
            Some(Memory::Folded(pool)) => Some(Memory::Folded(pooled(pool)?)),
            Some(Memory::Ledger { away: 0, summaries, pool }) => {
                Some(Memory::Ledger { away: 0, summaries: all(summaries)?, pool: pooled(pool)? })
            }
            Some(Memory::Ledger { away, .. }) => {
                return Err(Error::Away { operation: "a new input or target", missing: *away });
            }
        };
        let mut changed = Self { memory, ..self.clone() };
        if let Some(summaries) = changed.memory.as_ref().and_then(Memory::summaries) {
            for (entry, summary) in changed.register.iter_mut().zip(summaries) {
                entry.bytes = summary.nbytes();
            }
        }
        Ok(changed)
    }

    pub(super) fn check_mergeable(&self, other: &Learner) -> Result<()> {
        let differ = |what, left: String, right: String| {
            if left == right { Ok(()) } else { Err(Error::Mismatch { what, left, right }) }
        };
        let (a, b) = (&self.settings, &other.settings);
        differ("loss", self.loss.name().to_owned(), other.loss.name().to_owned())?;
        differ("basis", a.basis.to_string(), b.basis.to_string())?;
        differ("intercept", a.intercept.to_string(), b.intercept.to_string())?;
        differ("memory", format!("{:?}", a.memory), format!("{:?}", b.memory))?;
        differ("preference", format!("{:?}", a.prefer), format!("{:?}", b.prefer))?;
        differ("ridge", format!("{:?}", a.ridge), format!("{:?}", b.ridge))?;
        differ("standardize", a.standardize.to_string(), b.standardize.to_string())?;
        if let (Some(a), Some(b)) = (&self.design, &other.design) {
            differ("number of inputs", a.inputs().to_string(), b.inputs().to_string())?;
            differ("number of targets", self.targets.to_string(), other.targets.to_string())?;
            if a != b {
                return Err(Error::Mismatch {
                    what: "what the basis was fixed to by its first rows",
                    left: "here".to_owned(),
                    right: "there; fix it once, and start both learners from it".to_owned(),
                });
            }
        }
        Ok(())
    }
}
