//! A classifier taken apart and put together again: what a model file keeps beside the learner's parts.

use super::calibrate::Losses;
use super::moments::Moments;
use super::{ClassLoss, Classifier, ClassifierSettings, Note};
use crate::error::{Error, Result};
use crate::learner::{Learner, LearnerParts};
use crate::loss::logistic::columns;

/// What is kept of a task beside its summary and its line in the register.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskNote {
    /// Samples of each class that occurs.
    pub counts: Vec<(String, f64)>,
    /// Whether its classes can be told apart without error (`logistic`).
    pub separable: Option<bool>,
    /// Moments of its design columns (`logistic`), as numbers.
    pub moments: Option<Vec<f64>>,
    /// Its log-losses at several temperatures (`gaussian` with an automatic one), as numbers.
    pub losses: Option<Vec<f64>>,
}

/// A classifier's parts.
#[derive(Debug, Clone)]
pub struct ClassifierParts {
    /// The settings. Those of `learner` that it shares are taken from here.
    pub settings: ClassifierSettings,
    /// The classes, in order.
    pub classes: Vec<String>,
    /// The learner that holds the summaries.
    pub learner: LearnerParts,
    /// One note for each task of the register, in its order.
    pub notes: Vec<TaskNote>,
    /// Moments over all tasks (`logistic`), as numbers.
    pub moments: Option<Vec<f64>>,
}

impl Classifier {
    /// Puts a classifier together.
    ///
    /// # Errors
    /// [`Error::Parts`] where the parts contradict each other.
    pub fn from_parts(parts: ClassifierParts) -> Result<Self> {
        let mut classifier = Self::new(ClassifierSettings {
            prefer: crate::learner::Preference::Samples,
            ..parts.settings.clone()
        })?;
        classifier.settings.prefer = parts.settings.prefer;
        let settings = classifier.settings.learner();
        let learner = Learner::from_parts(LearnerParts { settings, ..parts.learner })?;
        if parts.classes.windows(2).any(|w| super::labels::order(&w[0], &w[1]).is_ge()) {
            return refuse("the classes are not in order");
        }
        let targets = match classifier.settings.loss {
            ClassLoss::Logistic => columns(parts.classes.len()),
            ClassLoss::Squared | ClassLoss::Gaussian => parts.classes.len(),
        };
        if learner.model().is_ok_and(|model| model.theta.targets() != targets) {
            return refuse("there are not as many classes as the solution has columns");
        }
        if parts.notes.len() != learner.records().len() {
            return refuse("there is not one note for each task");
        }
        let width = learner.design().map_or(0, |d| d.width() - usize::from(d.intercept()));
        let thaw = |numbers: Option<Vec<f64>>| match numbers {
            None => Ok(None),
            Some(list) => match Moments::from_numbers(&list, width) {
                None => refuse("moments do not have the shape of the design"),
                known => Ok(known),
            },
        };
        for (note, record) in parts.notes.into_iter().zip(learner.records()) {
            let sound = |(class, n): &(String, f64)| n.is_finite() && parts.classes.contains(class);
            if !note.counts.iter().all(sound) {
                return refuse("a task has samples of a class the model does not know");
            }
            let losses = match note.losses {
                None => None,
                Some(list) => match Losses::from_numbers(&list) {
                    None => return refuse("log-losses at temperatures make no sense"),
                    known => known,
                },
            };
            let note = Note {
                counts: note.counts,
                separable: note.separable,
                moments: thaw(note.moments)?,
                losses,
            };
            classifier.notes.insert(record.name.clone(), note);
        }
        classifier.moments = thaw(parts.moments)?;
        if classifier.settings.loss == ClassLoss::Logistic
            && learner.model().is_ok()
            && classifier.moments.is_none()
        {
            return refuse("a logistic model lacks the moments of its features");
        }
        classifier.classes = parts.classes;
        classifier.learner = learner;
        let head = classifier.head();
        classifier.learner.set_head(head);
        Ok(classifier)
    }

    /// What is kept of a task beside its summary.
    ///
    /// # Errors
    /// When there is no such task.
    pub fn note(&self, name: &str) -> Result<TaskNote> {
        let note = self.notes.get(name).ok_or_else(|| Error::UnknownTask {
            name: name.to_owned(),
            known: crate::error::listing(self.learner.names()),
        })?;
        Ok(TaskNote {
            counts: note.counts.clone(),
            separable: note.separable,
            moments: note.moments.as_ref().map(Moments::to_numbers),
            losses: note.losses.as_ref().map(Losses::to_numbers),
        })
    }

    /// Moments over all tasks (`logistic`), as numbers.
    pub fn kept_moments(&self) -> Option<Vec<f64>> {
        self.moments.as_ref().map(Moments::to_numbers)
    }

    /// Brings the summaries of the tasks that lie elsewhere; see [`Learner::supply`].
    ///
    /// # Errors
    /// When they are not those of the register.
    pub fn supply(&mut self, summaries: Vec<crate::summary::Summary>) -> Result<()> {
        self.learner.supply(summaries)
    }
}

fn refuse<T>(reason: &str) -> Result<T> {
    Err(Error::Parts { reason: reason.to_owned() })
}
