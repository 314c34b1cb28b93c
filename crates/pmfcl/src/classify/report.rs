//! What each task lost, and what it has.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{ClassLoss, Classifier, Gaussian, Note};
use crate::error::{Error, Result};
use crate::learner::TaskReport;

/// The [`Classifier::missing_class_share`] from which log-loss is worth a warning: 7 % cost four points of accuracy where it was
/// measured, 48 % cost fifteen (`docs/choosing.md`, WISDM by users and by classes).
const MUCH_MISSING: f64 = 0.2;

/// A task of a classifier as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassTask {
    /// Loss, forgetting and bound; see [`Classifier::tasks`].
    pub report: TaskReport,
    /// Samples of each class that occurs in it.
    pub counts: Vec<(String, f64)>,
    /// Whether a linear model tells its classes apart without error (`logistic`; else `None`).
    pub separable: Option<bool>,
}

impl Classifier {
    /// Every task as it stands under the current model.
    ///
    /// The loss is the one the classifier minimises, so forgetting means something different for each:
    ///
    /// * `squared`: half the squared error of the 0/1 targets; exact, as for regression.
    /// * `gaussian`: the mean of `½ ‖x − μ_y‖²_{Σ⁻¹} − log π_y`, half the squared Mahalanobis distance of a row
    ///   to the mean of its class plus the log-loss of the class shares. That is `−log p(x, y)` less
    ///   `½ log det 2πΣ`, which is common to all rows and tasks and is all that the features' units enter: a
    ///   density has no least value, this loss is never negative. `min_loss` is the least any class means
    ///   and class shares reach *under the covariance of the current model* (with the covariance free too
    ///   there is no least). So `forgetting = ½ Σ_k π_tk ‖μ_tk − μ_k‖²_{Σ⁻¹} + KL(π_t ‖ π)`: how far means
    ///   and shares have moved from the task's own. All three are exact. `None` where the preference leaves
    ///   a class of the task without weight, and in folded memory.
    ///
    /// * `logistic`: mean log-loss, which the summaries only bound. `loss` and `forgetting` are not known;
    ///   `bound` is an upper bound on the forgetting, proved where `guaranteed` says so: the quadratic at
    ///   the current model less `min_loss`, a certified lower bound of the task's least log-loss (0 where
    ///   the classes can be separated).
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn tasks(&self) -> Result<Vec<ClassTask>> {
        // Discriminants are no least-squares model: what they would make of 0/1 targets is not asked.
        let mut reports = match self.settings.loss {
            ClassLoss::Gaussian => self.learner.recorded()?,
            ClassLoss::Squared | ClassLoss::Logistic => self.learner.tasks()?,
        };
        if self.settings.loss == ClassLoss::Gaussian {
            let model = self.gaussian()?;
            for (t, report) in reports.iter_mut().enumerate() {
                let known = match self.summaries() {
                    Some(summaries) => model.on_task(&summaries[t])?,
                    None => None,
                };
                report.loss = known.map(|(loss, _)| loss);
                report.forgetting = known.map(|(_, forgetting)| forgetting);
                report.bound = report.forgetting;
                report.min_loss = known.map(|(loss, forgetting)| (loss - forgetting).max(0.0));
                report.guaranteed = true;
                (report.mse, report.r2) = (None, None);
            }
        }
        if self.settings.loss == ClassLoss::Logistic {
            let theta = &self.model()?.theta;
            for (t, report) in reports.iter_mut().enumerate() {
                (report.loss, report.forgetting) = (None, None);
                (report.mse, report.r2) = (None, None);
                report.guaranteed = self.settings.curvature.guaranteed();
                report.bound = match (self.summaries(), report.min_loss) {
                    (Some(summaries), Some(least)) => {
                        Some((summaries[t].loss(theta)? - least).max(0.0))
                    }
                    _ => None,
                };
            }
        }
        let with_note = |report: TaskReport| {
            let note = self.notes.get(&report.name);
            ClassTask {
                counts: note.map_or_else(Vec::new, |n| n.counts.clone()),
                separable: note.and_then(|n| n.separable),
                report,
            }
        };
        Ok(reports.into_iter().map(with_note).collect())
    }

    /// What `logistic` makes of tasks that lack many classes, for people; `None` where they do not, and for other losses.
    pub fn missing_classes_note(&self) -> Option<String> {
        let share = self.missing_class_share();
        (self.settings.loss == ClassLoss::Logistic && share > MUCH_MISSING).then(|| {
            format!(
                "On average a task lacks the classes of {:.0} % of all rows: bounds of log-loss cannot take back what a \
                 task says of classes it has not seen, and the model may be far from joint training. The gaussian \
                 loss equals joint training whatever classes a task has.",
                100.0 * share
            )
        })
    }

    /// How much of the data is of classes that a task lacks: the share of all samples that is of other classes than the
    /// task's, averaged over tasks by their samples. 0 where every task has all classes.
    ///
    /// Under `logistic` a task says "never" of a class it lacks, and no other task's bound takes that back: where this
    /// share is large the model is far from joint training. `gaussian` and `squared` are exact whatever it is.
    pub fn missing_class_share(&self) -> f64 {
        let mut totals: HashMap<&str, f64> = HashMap::new();
        // In the order of the tasks, so that the sum has the same bits every time.
        let notes = || self.learner.names().filter_map(|name| self.notes.get(name));
        for (class, samples) in notes().flat_map(|note| &note.counts) {
            *totals.entry(class).or_default() += samples;
        }
        let all: f64 = self.classes.iter().filter_map(|class| totals.get(class.as_str())).sum();
        let missing = |note: &Note| -> f64 {
            let own: f64 = note.counts.iter().map(|(_, samples)| samples).sum();
            let has = note.counts.iter().filter(|(_, samples)| *samples > 0.0);
            let covered: f64 = has.filter_map(|(class, _)| totals.get(class.as_str())).sum();
            own * (all - covered).max(0.0)
        };
        if all > 0.0 { notes().map(missing).sum::<f64>() / (all * all) } else { 0.0 }
    }

    /// `Σ α_t F_t`: the weighted mean forgetting; for `logistic` the mean of the bounds on it.
    ///
    /// # Errors
    /// When nothing has been learned; for `gaussian` also in folded memory, where the class means of the
    /// single tasks are gone.
    pub fn mean_forgetting(&self) -> Result<f64> {
        if self.settings.loss != ClassLoss::Gaussian {
            return self.learner.mean_forgetting();
        }
        let mut mean = 0.0;
        for task in self.tasks()? {
            let report = task.report;
            mean += report.weight
                * report.forgetting.ok_or_else(|| Error::Unsupported {
                    operation: "mean forgetting",
                    reason: format!(
                        "the class means of `{}` are gone or have no weight; use the ledger",
                        report.name
                    ),
                })?;
        }
        Ok(mean)
    }

    /// The gaussian model in full: means, shares, shrinkage.
    ///
    /// # Errors
    /// For another loss, or when nothing has been learned.
    pub fn gaussian(&self) -> Result<&Gaussian> {
        if self.settings.loss != ClassLoss::Gaussian {
            return Err(Error::Unsupported {
                operation: "a gaussian model",
                reason: format!("the loss is {}", self.settings.loss.name()),
            });
        }
        if let Some(model) = self.gaussian.get() {
            return Ok(model);
        }
        let (pooled, samples) = (self.learner.pooled()?, self.learner.effective_samples()?);
        let model = Gaussian::new(&pooled, samples, self.settings.shrinkage)?;
        Ok(OnceLock::get_or_init(&self.gaussian, || model))
    }
}
