//! Classification on the same summaries: class labels in, classes and probabilities out.
//!
//! | loss        | what is summarized          | exact                                   | a new class later |
//! |-------------|-----------------------------|-----------------------------------------|-------------------|
//! | `squared`   | one-hot targets             | order, split, merge, removal            | a zero column     |
//! | `gaussian`  | the same                    | the same                                | a zero column     |
//! | `logistic`  | a quadratic bound of log-loss | `one-shot`: order, merge, removal of the bounds | name all classes first |
//!
//! A column of indicators of a class nobody has seen is zero on all rows of the past, so `squared` and
//! `gaussian` take a new class at any task and give the model of having known it from the start.

mod evaluate;
pub mod gaussian;
mod labels;
mod probability;
mod report;
mod scatter;
mod settings;

pub use evaluate::Evaluation;
pub use gaussian::Gaussian;
pub use labels::{Label, Labels};
pub use report::ClassTask;
pub use settings::{ClassLoss, ClassifierSettings, Shrinkage, Temperature};

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::learner::{Head, Learner, Preference, Ridge};
use crate::rows::Rows;
use crate::solve::Model;
use crate::summary::{Design, Summarizer, Summary, dot};
use gaussian::GaussianHead;

/// Rows scored at a time: a block of design rows stays in cache.
const BLOCK: usize = 512;

/// What is known of a task beside its summary.
#[derive(Debug, Clone, PartialEq)]
struct Note {
    /// Samples of each class that occurs.
    counts: Vec<(String, f64)>,
    /// Whether some linear model tells its classes apart without error; known for `logistic`.
    separable: Option<bool>,
}

/// A continual classifier.
///
/// ```
/// use pmfcl::{Classifier, ClassifierSettings, Labels, Rows};
/// let mut model = Classifier::new(ClassifierSettings::default())?;
/// model.learn("monday", Rows::new(&[0.0, 1.0, 4.0, 5.0], 1)?, &Labels::new(&["low", "low", "mid", "mid"]))?;
/// model.learn("tuesday", Rows::new(&[9.0, 8.0], 1)?, &Labels::new(&["high", "high"]))?;
/// assert_eq!(model.classes(), ["high", "low", "mid"]);
/// assert_eq!(model.predict(Rows::new(&[0.4, 8.6], 1)?)?, ["low", "high"]);
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Classifier {
    settings: ClassifierSettings,
    classes: Vec<String>,
    learner: Learner,
    notes: HashMap<String, Note>,
    /// The gaussian model in full, for reports; made when first asked for.
    gaussian: OnceLock<Gaussian>,
}

impl Classifier {
    /// A classifier that has learned nothing.
    ///
    /// # Errors
    /// When a setting is out of range or does not go with the loss.
    pub fn new(settings: ClassifierSettings) -> Result<Self> {
        let settings = settings.checked()?;
        let learner = Learner::new(settings.learner())?.with_head(head(&settings))?;
        Ok(Self {
            classes: settings.classes.clone().unwrap_or_default(),
            settings,
            learner,
            notes: HashMap::new(),
            gaussian: OnceLock::new(),
        })
    }

    /// The settings.
    pub fn settings(&self) -> &ClassifierSettings {
        &self.settings
    }

    /// The classes: numbers by value, then text. Columns of [`Classifier::decision`] and
    /// [`Classifier::predict_proba`] stand in this order.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The learner that holds the summaries, for fronts and reports.
    pub fn learner(&self) -> &Learner {
        &self.learner
    }

    /// The summaries of the tasks, in order; `None` once compact memory has folded them.
    pub fn summaries(&self) -> Option<&[Summary]> {
        self.learner.summaries()
    }

    /// The parameters: one column a class (one in all for binary `logistic`).
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn model(&self) -> Result<&Model> {
        self.learner.model()
    }

    /// Bytes of the memory: what would have to be kept to go on learning.
    pub fn state_bytes(&self) -> usize {
        self.learner.state_bytes()
    }

    /// Learns a task.
    ///
    /// # Errors
    /// On bad input (see [`Error`]); the classifier is then what it was.
    pub fn learn(&mut self, name: &str, x: Rows<'_>, labels: &Labels) -> Result<&Model> {
        self.learn_weighted(name, x, labels, None, 1.0)
    }

    /// Learns a task with sample weights and a weight for the task as a whole.
    ///
    /// # Errors
    /// As [`Classifier::learn`].
    pub fn learn_weighted(
        &mut self,
        name: &str,
        x: Rows<'_>,
        labels: &Labels,
        sample_weights: Option<&[f64]>,
        weight: f64,
    ) -> Result<&Model> {
        self.learner.admit(name, weight)?;
        if labels.len() != x.len() {
            return Err(Error::Shape {
                what: "the list of labels",
                unit: "rows",
                expected: x.len(),
                found: labels.len(),
            });
        }
        let design = self.learner.design_for(&x)?;
        let (classes, new) = self.classes_with(labels)?;
        let codes = labels.within(&classes)?;
        let task = Coded { x, codes: &codes, weights: sample_weights, classes: classes.len() };
        let summary = self.summarize(&design, &task)?;
        let least = summary.min_loss();
        let note = Note { counts: count(&classes, &task), separable: None };
        let mut next = self.with_classes(classes, &new)?;
        next.learner.absorb(name, design, summary, least, weight)?;
        next.notes.insert(name.to_owned(), note);
        *self = next;
        self.learner.model()
    }

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
        let mut learner = self.learner.clone().with_head(head(&settings))?;
        if self.learner.model().is_ok() {
            learner.set_ridge(settings.ridge, settings.standardize)?;
            self.learner = learner;
        } else {
            self.learner = Learner::new(settings.learner())?.with_head(head(&settings))?;
        }
        self.settings = settings;
        self.gaussian = OnceLock::new();
        Ok(())
    }

    /// Removes a task exactly: afterwards the model is the one of never having learned it. A class only
    /// this task had is gone with it, unless the classes were fixed.
    ///
    /// # Errors
    /// When there is no such task, or compact memory has folded it.
    pub fn unlearn(&mut self, name: &str) -> Result<()> {
        self.without(name, |learner| learner.unlearn(name))
    }

    /// Removes a task from folded memory, given its summary made once more from its rows
    /// ([`Classifier::summary_of`]).
    ///
    /// # Errors
    /// As [`Learner::unlearn_summary`].
    pub fn unlearn_summary(&mut self, name: &str, summary: &Summary) -> Result<()> {
        self.without(name, |learner| learner.unlearn_summary(name, summary))
    }

    fn without(&mut self, name: &str, f: impl Fn(&mut Learner) -> Result<()>) -> Result<()> {
        let mut next = self.clone();
        f(&mut next.learner)?;
        next.notes.remove(name);
        next.gaussian = OnceLock::new();
        if self.settings.classes.is_none() {
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
        let (all, ours) = labels::union(&self.classes, &other.classes);
        let (_, theirs) = labels::union(&other.classes, &self.classes);
        let mut next = self.with_classes(all.clone(), &ours)?;
        let other = other.with_classes(all, &theirs)?;
        next.learner.merge(&other.learner)?;
        next.notes.extend(other.notes);
        next.gaussian = OnceLock::new();
        *self = next;
        Ok(())
    }

    /// The summary the classifier would keep of these rows: to send elsewhere, or to unlearn with.
    ///
    /// # Errors
    /// As [`Classifier::learn`]; also before the first task, and for labels no task had.
    pub fn summary_of(
        &self,
        x: Rows<'_>,
        labels: &Labels,
        sample_weights: Option<&[f64]>,
    ) -> Result<Summary> {
        let design = self.learner.design().ok_or(Error::NotLearned)?;
        let codes = labels.within(&self.classes)?;
        let classes = self.classes.len();
        self.summarize(design, &Coded { x, codes: &codes, weights: sample_weights, classes })
    }

    /// The class list a task with these labels leads to, and the places of the new ones in it.
    fn classes_with(&self, labels: &Labels) -> Result<(Vec<String>, Vec<usize>)> {
        if self.settings.classes.is_some() {
            labels.within(&self.classes)?;
            return Ok((self.classes.clone(), Vec::new()));
        }
        Ok(labels::union(&self.classes, labels.names()))
    }

    /// A copy that knows `classes`; those at `new` have zero columns. Not yet solved.
    fn with_classes(&self, classes: Vec<String>, new: &[usize]) -> Result<Self> {
        let mut wider = self.clone();
        if !new.is_empty() {
            wider.learner = self.learner.retargeted(classes.len(), |s| {
                new.iter().try_fold(s.clone(), |s, &at| s.extend_targets(at, 1))
            })?;
        }
        wider.gaussian = OnceLock::new();
        Ok(Self { classes, ..wider })
    }

    fn summarize(&self, design: &Design, task: &Coded<'_>) -> Result<Summary> {
        let threads = self.settings.threads.max(1);
        let summarizer = Summarizer::new(design.clone(), task.classes, self.settings.accumulator)?;
        let mut summarizer = summarizer.threads(threads);
        let block = summarizer.leaf_rows() * threads;
        let mut from = 0;
        while from < task.x.len() {
            let to = (from + block).min(task.x.len());
            let mut targets = vec![0.0; (to - from) * task.classes];
            for (row, &code) in targets.chunks_exact_mut(task.classes).zip(&task.codes[from..to]) {
                row[code as usize] = 1.0;
            }
            let y = Rows::new(&targets, task.classes)?;
            let weights = match task.weights {
                Some(w) if w.len() != task.x.len() => Some(w),
                weights => weights.map(|w| &w[from..to]),
            };
            summarizer.add(task.x.slice(from, to), y, weights)?;
            from = to;
        }
        summarizer.finish()
    }

    /// Scores of every row, [`Classifier::classes`] end to end: fitted indicators for `squared`,
    /// discriminants for `gaussian`. A class without rows has none: `−∞`.
    ///
    /// # Errors
    /// When nothing has been learned, or the inputs have other columns or values that are not finite.
    pub fn decision(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        let theta = &self.learner.model()?.theta;
        let (m, columns) = (theta.width(), theta.targets());
        let absent: Vec<bool> = (0..columns).map(|k| self.is_absent(theta.column(k))).collect();
        let mut scores = Vec::with_capacity(x.len() * columns);
        let mut from = 0;
        while from < x.len() {
            let to = (from + BLOCK).min(x.len());
            let rows =
                self.learner.design_rows(x.slice(from, to)).map_err(|e| e.shifted(from as u64))?;
            for row in rows.chunks_exact(m) {
                scores.extend((0..columns).map(|k| {
                    if absent[k] { f64::NEG_INFINITY } else { dot(row, theta.column(k)) }
                }));
            }
            from = to;
        }
        Ok(scores)
    }

    /// Whether this column is of a class without rows: its indicator is 0 everywhere, and so is its fit.
    fn is_absent(&self, column: &[f64]) -> bool {
        match self.settings.loss {
            ClassLoss::Squared => column.iter().all(|v| *v == 0.0),
            ClassLoss::Gaussian => column[0] <= gaussian::NEVER,
            ClassLoss::Logistic => false,
        }
    }
}

/// A task with its labels as codes.
struct Coded<'a> {
    x: Rows<'a>,
    codes: &'a [u32],
    weights: Option<&'a [f64]>,
    classes: usize,
}

/// Samples of each class that occurs.
fn count(classes: &[String], task: &Coded<'_>) -> Vec<(String, f64)> {
    let mut counts = vec![0.0; task.classes];
    for (i, &code) in task.codes.iter().enumerate() {
        counts[code as usize] += task.weights.map_or(1.0, |w| w[i]);
    }
    classes.iter().zip(counts).filter(|(_, n)| *n > 0.0).map(|(c, n)| (c.clone(), n)).collect()
}

/// The way from pool to model that goes with the loss.
fn head(settings: &ClassifierSettings) -> Option<Arc<dyn Head>> {
    match settings.loss {
        ClassLoss::Gaussian => Some(Arc::new(GaussianHead(settings.shrinkage))),
        ClassLoss::Squared | ClassLoss::Logistic => None,
    }
}
