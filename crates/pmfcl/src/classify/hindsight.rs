//! Changing one's mind: another preference, ridge or shrinkage, a task taken out, a memory merged in.

use std::sync::{Arc, OnceLock};

use super::gaussian::GaussianHead;
use super::moments::Moments;
use super::{ClassLoss, Classifier, ClassifierSettings, Labels, Note, Scheme, Shrinkage};
use super::{labels, logistic};
use crate::error::{Error, Result};
use crate::learner::{Head, Learner, Preference, Ridge};
use crate::rows::Rows;
use crate::summary::{Design, Summary};

impl Classifier {
    /// Another preference in hindsight.
    ///
    /// # Errors
    /// When it is no preference over these tasks, or compact memory has folded them.
    pub fn prefer(&mut self, preference: Preference) -> Result<()> {
        match self.learner.prefer(preference.clone()) {
            // Before the first task the preference is set all the same.
            Ok(_) | Err(Error::NotLearned) => {
                self.settings.prefer = preference;
                self.gaussian = OnceLock::new();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Another ridge in hindsight, for `squared` and `logistic`.
    ///
    /// # Errors
    /// When it is out of range; for `gaussian`, which has a shrinkage instead.
    pub fn set_ridge(&mut self, ridge: Ridge, standardize: bool) -> Result<()> {
        if self.settings.loss == ClassLoss::Gaussian {
            return Err(Error::Unsupported {
                operation: "a ridge",
                reason: "gaussian shrinks its covariance instead; set the shrinkage".to_owned(),
            });
        }
        self.reset(ClassifierSettings { ridge, standardize, ..self.settings.clone() })
    }

    /// Another shrinkage in hindsight, for `gaussian`.
    ///
    /// # Errors
    /// When it is out of range; for the other losses, which have a ridge instead.
    pub fn set_shrinkage(&mut self, shrinkage: Shrinkage) -> Result<()> {
        if self.settings.loss != ClassLoss::Gaussian {
            return Err(Error::Unsupported {
                operation: "shrinkage",
                reason: format!("{} has no covariance; set the ridge", self.settings.loss.name()),
            });
        }
        self.reset(ClassifierSettings { shrinkage, ..self.settings.clone() })
    }

    fn reset(&mut self, settings: ClassifierSettings) -> Result<()> {
        let settings = settings.checked()?;
        let mut changed = Self { settings, gaussian: OnceLock::new(), ..self.clone() };
        changed.learner.set_head(changed.head());
        let (ridge, standardize) = (changed.settings.ridge, changed.settings.standardize);
        match changed.learner.set_ridge(ridge, standardize) {
            Ok(_) | Err(Error::NotLearned) => {}
            Err(error) => return Err(error),
        }
        *self = changed;
        Ok(())
    }

    /// The way from pool to model that goes with the loss.
    pub(super) fn head(&self) -> Option<Arc<dyn Head>> {
        match self.settings.loss {
            ClassLoss::Squared => None,
            ClassLoss::Gaussian => Some(Arc::new(GaussianHead(self.settings.shrinkage))),
            ClassLoss::Logistic => {
                logistic::head(&self.settings, self.learner.design(), self.moments.as_ref())
            }
        }
    }

    /// Removes a task exactly: afterwards the model is the one of never having learned it. A class only
    /// this task had is gone with it, unless the classes were fixed.
    ///
    /// # Errors
    /// When there is no such task, compact memory has folded it ([`Classifier::unlearn_rows`] takes it out
    /// given its rows), or the scheme is `sequential`.
    pub fn unlearn(&mut self, name: &str) -> Result<()> {
        self.without(name, None, |learner| learner.unlearn(name))
    }

    /// Removes a task from folded memory, given its rows once more.
    ///
    /// # Errors
    /// When these are not the rows it was learned from, or too few digits would remain; as
    /// [`Classifier::unlearn`] otherwise.
    pub fn unlearn_rows(
        &mut self,
        name: &str,
        x: Rows<'_>,
        labels: &Labels,
        sample_weights: Option<&[f64]>,
    ) -> Result<()> {
        let design = self.learner.design().ok_or(Error::NotLearned)?;
        let codes = labels.within(&self.classes)?;
        let kept = self.boil_down(design, x, &codes, sample_weights, (&self.classes, &[], 1.0))?;
        self.without(name, kept.note.moments.as_ref(), |learner| {
            learner.unlearn_summary(name, &kept.summary)
        })
    }

    /// Removes a task from folded memory, given its summary ([`Classifier::summary_of`]); `squared` and
    /// `gaussian` only.
    ///
    /// # Errors
    /// As [`Learner::unlearn_summary`]; for `logistic`, whose prior needs the rows.
    pub fn unlearn_summary(&mut self, name: &str, summary: &Summary) -> Result<()> {
        if self.settings.loss == ClassLoss::Logistic {
            return Err(Error::Unsupported {
                operation: "unlearning a bound by its summary",
                reason: "the prior follows the features' variances; give the rows (unlearn_rows)"
                    .to_owned(),
            });
        }
        self.without(name, None, |learner| learner.unlearn_summary(name, summary))
    }

    /// Takes a task out of a copy, and with it the classes nobody else has.
    fn without(
        &mut self,
        name: &str,
        moments: Option<&Moments>,
        f: impl Fn(&mut Learner) -> Result<()>,
    ) -> Result<()> {
        if self.settings.loss == ClassLoss::Logistic && self.settings.scheme == Scheme::Sequential {
            return Err(Error::Unsupported {
                operation: "unlearning under the sequential scheme",
                reason: "what was kept of later tasks depends on this one; use one-shot".to_owned(),
            });
        }
        let mut next = self.clone();
        next.notes.remove(name);
        next.gaussian = OnceLock::new();
        next.moments = match moments {
            Some(part) if self.learner.is_folded() => {
                self.moments.as_ref().map(|all| all.plus(part, -1.0))
            }
            _ => next.summed_moments(),
        };
        next.learner.set_head(next.head());
        f(&mut next.learner)?;
        if self.settings.classes.is_none() && self.settings.loss != ClassLoss::Logistic {
            let left: Vec<usize> = (0..self.classes.len())
                .filter(|&k| {
                    let has = |n: &Note| n.counts.iter().any(|(c, _)| *c == self.classes[k]);
                    next.notes.values().any(has)
                })
                .collect();
            if left.len() < self.classes.len() {
                next.classes = left.iter().map(|&k| self.classes[k].clone()).collect();
                next.learner =
                    next.learner.retargeted(left.len(), |s| Ok(s.keep_targets(&left)))?;
                next.learner.resolve()?;
            }
        }
        *self = next;
        Ok(())
    }

    /// Moments of all tasks, in the order they were learned.
    fn summed_moments(&self) -> Option<Moments> {
        let notes = self.learner.names().filter_map(|name| self.notes.get(name));
        Moments::total(notes.filter_map(|note| note.moments.as_ref()))
    }

    /// Adds `count` inputs at position `at` whose past values are zero: categories unseen before.
    ///
    /// # Errors
    /// As [`Learner::extend_inputs`].
    pub fn extend_inputs(&mut self, at: usize, count: usize) -> Result<()> {
        let mut next = self.with_moments(count, |m| m.extended(at, count));
        next.learner.extend_inputs(at, count)?;
        *self = next;
        Ok(())
    }

    /// Puts inputs elsewhere; see [`Learner::rearrange_inputs`].
    ///
    /// # Errors
    /// As [`Learner::rearrange_inputs`].
    pub fn rearrange_inputs(&mut self, places: &[usize], count: usize) -> Result<()> {
        let inputs = self.learner.design().map_or(0, Design::inputs);
        if places.len() != inputs || places.iter().any(|&place| place >= count) {
            return self.learner.rearrange_inputs(places, count);
        }
        let added = count.saturating_sub(inputs);
        let mut next = self.with_moments(added, |m| m.rearranged(places, count));
        next.learner.rearrange_inputs(places, count)?;
        *self = next;
        Ok(())
    }

    /// A copy whose moments have `added` columns more, and whose prior knows them before anything is solved.
    fn with_moments(&self, added: usize, f: impl Fn(&Moments) -> Moments) -> Self {
        let mut next = self.clone();
        next.notes.values_mut().for_each(|note| note.moments = note.moments.as_ref().map(&f));
        next.moments = next.moments.as_ref().map(&f);
        next.gaussian = OnceLock::new();
        next.learner.set_head(match (&self.settings.loss, self.learner.wider_design(added)) {
            (ClassLoss::Logistic, Ok(design)) => {
                logistic::head(&self.settings, Some(&design), next.moments.as_ref())
            }
            _ => next.head(),
        });
        next
    }

    /// Gives a task another name.
    ///
    /// # Errors
    /// When there is no such task, or one of the new name.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<()> {
        self.learner.rename(name, new)?;
        if let Some(note) = self.notes.remove(name) {
            self.notes.insert(new.to_owned(), note);
        }
        self.settings.prefer = self.learner.settings().prefer.clone();
        Ok(())
    }

    /// Merges with a memory made elsewhere: afterwards this classifier has learned both. The classes are
    /// those of both.
    ///
    /// # Errors
    /// When settings or designs differ, or a task name occurs in both.
    pub fn merge(&mut self, other: &Classifier) -> Result<()> {
        let differ = |what, left: String, right: String| {
            if left == right { Ok(()) } else { Err(Error::Mismatch { what, left, right }) }
        };
        let (a, b) = (&self.settings, &other.settings);
        differ("loss", a.loss.name().to_owned(), b.loss.name().to_owned())?;
        differ("fixed classes", format!("{:?}", a.classes), format!("{:?}", b.classes))?;
        if a.loss == ClassLoss::Logistic {
            differ("scheme", a.scheme.name().to_owned(), b.scheme.name().to_owned())?;
            if !self.classes.is_empty() && !other.classes.is_empty() {
                differ("classes", self.classes.join(", "), other.classes.join(", "))?;
            }
        }
        let (all, ours) = labels::union(&self.classes, &other.classes);
        let (_, theirs) = labels::union(&other.classes, &self.classes);
        let mut next = self.clone();
        next.learner = self.wider(all.len(), &ours)?;
        next.classes.clone_from(&all);
        next.notes.extend(other.notes.clone());
        next.gaussian = OnceLock::new();
        next.moments = Moments::total(self.moments.iter().chain(&other.moments));
        let design = self.learner.design().or(other.learner.design());
        if self.settings.loss == ClassLoss::Logistic {
            let head = logistic::head(&self.settings, design, next.moments.as_ref());
            next.learner.set_head(head);
        }
        next.learner.merge(&other.wider(all.len(), &theirs)?)?;
        *self = next;
        Ok(())
    }
}
