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

pub mod calibrate;
mod evaluate;
pub mod gaussian;
mod hindsight;
mod labels;
pub mod logistic;
mod moments;
mod parts;
mod probability;
mod report;
mod scatter;
mod settings;

pub use evaluate::Evaluation;
pub use gaussian::Gaussian;
pub use labels::{Label, Labels};
pub use parts::{ClassifierParts, TaskNote};
pub(crate) use probability::score;
pub use report::ClassTask;
pub use settings::{ClassLoss, ClassifierSettings, Scheme, Shrinkage, Temperature};

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::loss::logistic::columns;
use crate::rows::Rows;
use crate::solve::Model;
use crate::summary::{Design, Summarizer, Summary};
use calibrate::Losses;
use gaussian::GaussianHead;
use logistic::Kept;
use moments::Moments;

/// What is known of a task beside its summary.
#[derive(Debug, Clone, PartialEq)]
struct Note {
    /// Samples of each class that occurs.
    counts: Vec<(String, f64)>,
    /// Whether some linear model tells its classes apart without error; known for `logistic`.
    separable: Option<bool>,
    /// Moments of its features, for the prior of `logistic`; gone once compact memory has folded them.
    moments: Option<Moments>,
    /// Log-losses at several temperatures (`gaussian` with an automatic one).
    losses: Option<Losses>,
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
    /// Moments of the features over all tasks (`logistic`).
    moments: Option<Moments>,
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
        let mut learner = Learner::new(settings.learner())?;
        if settings.loss == ClassLoss::Gaussian {
            learner.set_head(Some(Arc::new(GaussianHead(settings.shrinkage))));
        }
        Ok(Self {
            classes: settings.classes.clone().unwrap_or_default(),
            settings,
            learner,
            notes: HashMap::new(),
            moments: None,
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
        self.learner.state_bytes() + self.moments.as_ref().map_or(0, Moments::nbytes)
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
        let design = self.learner.design_for(&x)?;
        let (classes, new) = match self.settings.loss {
            ClassLoss::Logistic => (self.logistic_classes(labels)?, Vec::new()),
            _ => self.classes_with(labels)?,
        };
        let codes = labels.within(&classes)?;
        let kept = self.boil_down(&design, x, &codes, sample_weights, (&classes, &new, weight))?;
        self.keep(name, design, kept, classes, &new, weight)
    }

    /// Puts what is kept of a task into memory and solves; `new` are the places of new classes in `classes`.
    fn keep(
        &mut self,
        name: &str,
        design: Design,
        kept: Kept,
        classes: Vec<String>,
        new: &[usize],
        weight: f64,
    ) -> Result<&Model> {
        let seen = match (&self.moments, &kept.note.moments) {
            (Some(a), Some(b)) => Some(a.plus(b, 1.0)),
            (a, b) => a.as_ref().or(b.as_ref()).cloned(),
        };
        // A new class changes every summary, so it is tried on a copy; else the learner itself takes the
        // task or stays as it was, at a cost that does not grow with the number of tasks.
        let mut wider = if new.is_empty() { None } else { Some(self.wider(classes.len(), new)?) };
        let learner = wider.as_mut().unwrap_or(&mut self.learner);
        let before = learner.head();
        let was_folded = learner.is_folded();
        if self.settings.loss == ClassLoss::Logistic {
            learner.set_head(logistic::head(&self.settings, Some(&design), seen.as_ref()));
        }
        if let Err(error) = learner.absorb(name, design, kept.summary, kept.least, weight) {
            learner.set_head(before);
            return Err(error);
        }
        if let Some(wider) = wider {
            self.learner = wider;
        }
        self.classes = classes;
        self.moments = seen;
        let mut note = kept.note;
        if self.learner.is_folded() {
            note.moments = None;
            if !was_folded {
                self.notes.values_mut().for_each(|note| note.moments = None);
            }
        }
        self.notes.insert(name.to_owned(), note);
        self.gaussian = OnceLock::new();
        self.learner.model()
    }

    /// Learns a task of class indicators summarized elsewhere under `design`, which fixes the classifier's own if
    /// nothing has yet. `classes` name the summary's targets.
    ///
    /// # Errors
    /// As [`Classifier::learn`]; for `logistic`, and for an automatic temperature, which need the rows.
    pub fn learn_summarized(
        &mut self,
        name: &str,
        design: Design,
        summary: &Summary,
        classes: &[String],
        weight: f64,
    ) -> Result<&Model> {
        let needs = |reason: &str| {
            let reason = reason.to_owned();
            Err(Error::Unsupported { operation: "learning classes from a summary", reason })
        };
        if self.settings.loss == ClassLoss::Logistic {
            return needs("log-loss looks at a task's rows several times; give the rows");
        }
        if self.settings.temperature == Temperature::Auto {
            return needs("the temperature is measured on the rows; give the rows, or fix it");
        }
        self.learner.admit(name, weight)?;
        self.learner.check_design(&design)?;
        if summary.targets() != classes.len() {
            return Err(Error::Shape {
                what: "the summary",
                unit: "targets",
                expected: classes.len(),
                found: summary.targets(),
            });
        }
        let codes: Vec<u32> = (0..classes.len() as u32).collect();
        let labels = Labels::from_codes(&codes, classes)?;
        let (all, new) = self.classes_with(&labels)?;
        let order = Labels::from_codes(&codes, classes)?.within(&all)?;
        let places: Vec<usize> = order.iter().map(|&k| k as usize).collect();
        let summary = summary.rearrange_targets(&places, all.len())?;
        let counts = all.iter().cloned().zip(summary.target_sums().iter().copied());
        let note = Note {
            counts: counts.filter(|(_, n)| *n > 0.0).collect(),
            separable: None,
            moments: None,
            losses: None,
        };
        self.keep(
            name,
            design,
            Kept { least: summary.min_loss(), summary, note },
            all,
            &new,
            weight,
        )
    }

    /// The design, or the one that these first rows of the first task would fix.
    ///
    /// # Errors
    /// As [`Learner::design_for`].
    pub fn design_for(&self, x: &Rows<'_>) -> Result<Design> {
        self.learner.design_for(x)
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
        let kept = self.boil_down(design, x, &codes, sample_weights, (&self.classes, &[], 1.0))?;
        Ok(kept.summary)
    }

    /// The class list a task with these labels leads to, and the places of the new ones in it.
    fn classes_with(&self, labels: &Labels) -> Result<(Vec<String>, Vec<usize>)> {
        if self.settings.classes.is_some() {
            labels.within(&self.classes)?;
            return Ok((self.classes.clone(), Vec::new()));
        }
        Ok(labels::union(&self.classes, labels.names()))
    }

    /// A copy of the learner with `count` classes; those at `new` have zero columns. Not yet solved.
    fn wider(&self, count: usize, new: &[usize]) -> Result<Learner> {
        self.learner.retargeted(if new.is_empty() { self.learner_targets() } else { count }, |s| {
            new.iter().try_fold(s.clone(), |s, &at| s.extend_targets(at, 1))
        })
    }

    /// Columns of the summaries.
    fn learner_targets(&self) -> usize {
        match self.settings.loss {
            ClassLoss::Logistic => columns(self.classes.len()),
            _ => self.classes.len(),
        }
    }

    /// All that is kept of a task.
    fn boil_down(
        &self,
        design: &Design,
        x: Rows<'_>,
        codes: &[u32],
        weights: Option<&[f64]>,
        (classes, new, weight): (&[String], &[usize], f64),
    ) -> Result<Kept> {
        if codes.len() != x.len() {
            return Err(Error::Shape {
                what: "the list of labels",
                unit: "rows",
                expected: x.len(),
                found: codes.len(),
            });
        }
        if let Some(weights) = weights
            && weights.len() != x.len()
        {
            return Err(Error::Shape {
                what: "the list of sample weights",
                unit: "numbers",
                expected: x.len(),
                found: weights.len(),
            });
        }
        if self.settings.loss == ClassLoss::Logistic {
            return self.make_quadratic(design, x, codes, weights, (classes, weight));
        }
        let automatic = self.settings.temperature == Temperature::Auto;
        if self.settings.loss == ClassLoss::Gaussian && automatic && x.len() > 1 {
            return self.boil_down_in_halves(design, x, codes, weights, (classes, new, weight));
        }
        let summary = self.one_hot(design, x, codes, weights, classes.len())?;
        let note = Note {
            counts: count(classes, codes, weights),
            separable: None,
            moments: None,
            losses: None,
        };
        Ok(Kept { least: summary.min_loss(), summary, note })
    }

    /// The summary of class indicators, block by block.
    fn one_hot(
        &self,
        design: &Design,
        x: Rows<'_>,
        codes: &[u32],
        weights: Option<&[f64]>,
        classes: usize,
    ) -> Result<Summary> {
        let threads = self.settings.threads.max(1);
        let summarizer = Summarizer::new(design.clone(), classes, self.settings.accumulator)?;
        let mut summarizer = summarizer.threads(threads);
        let block = summarizer.leaf_rows() * threads;
        let mut from = 0;
        while from < x.len() {
            let to = (from + block).min(x.len());
            let mut targets = vec![0.0; (to - from) * classes];
            for (row, &code) in targets.chunks_exact_mut(classes).zip(&codes[from..to]) {
                row[code as usize] = 1.0;
            }
            let y = Rows::new(&targets, classes)?;
            summarizer.add(x.slice(from, to), y, weights.map(|w| &w[from..to]))?;
            from = to;
        }
        summarizer.finish()
    }
}

/// Samples of each class that occurs.
fn count(classes: &[String], codes: &[u32], weights: Option<&[f64]>) -> Vec<(String, f64)> {
    let mut counts = vec![0.0; classes.len()];
    for (i, &code) in codes.iter().enumerate() {
        counts[code as usize] += weights.map_or(1.0, |w| w[i]);
    }
    classes.iter().zip(counts).filter(|(_, n)| *n > 0.0).map(|(c, n)| (c.clone(), n)).collect()
}
