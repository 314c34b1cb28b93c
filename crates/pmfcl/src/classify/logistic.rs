//! Log-loss over tasks: each becomes a quadratic, and the quadratics are learned like any summaries.
//!
//! * `one-shot`: every task is fitted alone and expanded there. The order of tasks does not matter; a task can be
//!   taken out again.
//! * `sequential`: the task's true loss is minimised together with the quadratics of the past, and expanded at
//!   that solution. Nearest to joint training where tasks share their classes; what is kept of a task
//!   depends on those before it, so none can be taken out.
//!
//! **The prior.** Separable tasks, and tasks that lack a class, have no minimizer of their own. So the objective
//! carries `(λ/2) Σ_j D_j θ_j²` on the *sum* of losses, `λ = 1` and `D` the feature variances over all rows seen
//! (`Ridge::Auto`): the prior of a standardized coefficient has variance 1, whatever the number of tasks. With
//! `Ridge::Fixed(x)` it is `x` on the mean loss. A task fitted alone carries the same prior with its own variances
//! (so it also stays finite where a class is missing; the intercept is held too); this moves only the anchor,
//! never the bound, which holds at any anchor.
//!
//! **New classes.** The quadratic of a task says how its log-loss changes with the classes it was made for. With one
//! class more, the loss of the old rows depends on `Σ_i p_i,new x_i`, which no summary holds. So all classes must be
//! named, or occur in the first task.
//!
//! Paper: Algorithms 1 and 2 (`alg:general_mfcl`, `alg:mfcl_qub`), Theorem 5.3 (`thm:qub_forgetting`).

use std::sync::Arc;

use super::moments::Moments;
use super::{Classifier, ClassifierSettings, Labels, Note, Scheme, count};
use crate::error::{Error, Result};
use crate::learner::{Head, Ridge};
use crate::loss::logistic::{Fit, LabelledRows, Objective, expand, fit, least_loss};
use crate::rows::Rows;
use crate::solve::{Model, Penalty, solve};
use crate::summary::{Design, Summary, pool};

/// The automatic prior's hold on the intercept relative to that on a standardized coefficient: enough for a
/// class nobody has seen yet, too little to matter otherwise.
const INTERCEPT: f64 = 1e-2;

/// Solves pooled quadratics under the prior.
#[derive(Debug, Clone)]
struct LogisticHead {
    ridge: Ridge,
    intercept: bool,
    /// `D`, one number for each design column.
    metric: Vec<f64>,
}

impl LogisticHead {
    fn new(settings: &ClassifierSettings, design: &Design, moments: &Moments) -> Self {
        let automatic = settings.ridge == Ridge::Auto;
        let mut metric = Vec::with_capacity(design.width());
        if design.intercept() {
            metric.push(if automatic { INTERCEPT } else { 0.0 });
        }
        if automatic || settings.standardize {
            metric.extend(moments.variances());
        } else {
            metric.resize(design.width(), 1.0);
        }
        Self { ridge: settings.ridge, intercept: design.intercept(), metric }
    }

    /// `λ` on the mean loss of `samples` rows.
    fn strength(&self, samples: f64) -> f64 {
        match self.ridge {
            Ridge::Fixed(x) => x,
            _ => 1.0 / samples,
        }
    }

    /// The prior on the sum of losses that weigh `total` in all.
    fn penalty(&self, total: f64, samples: f64) -> Vec<f64> {
        self.metric.iter().map(|d| total * self.strength(samples) * d).collect()
    }
}

impl Head for LogisticHead {
    fn exact(&self) -> bool {
        false
    }

    fn solve(&self, pooled: &Summary, samples: f64, _: f64) -> Result<Model> {
        let (m, p) = (pooled.width(), pooled.targets());
        let penalty = self.penalty(pooled.n(), samples);
        let roots = penalty.iter().enumerate().filter(|(_, v)| **v > 0.0);
        let prior = Summary::diagonal(m, p, roots.map(|(j, v)| (j, v.sqrt(), 0.0)));
        let both = pool(m, p, [(pooled, 1.0), (&prior, 1.0)].into_iter())?;
        let model = solve(&both, self.intercept, Penalty::NONE, None)?;
        Ok(Model {
            rank: pooled.rank(),
            penalty: Penalty::new(self.strength(samples), self.ridge == Ridge::Auto)?,
            ..model
        })
    }
}

/// The head that goes with these settings and rows seen, once there are any.
pub(super) fn head(
    settings: &ClassifierSettings,
    design: Option<&Design>,
    moments: Option<&Moments>,
) -> Option<Arc<dyn Head>> {
    Some(Arc::new(LogisticHead::new(settings, design?, moments?)))
}

/// What is kept of a task.
pub(super) struct Kept {
    pub(super) summary: Summary,
    pub(super) least: f64,
    pub(super) note: Note,
}

impl Classifier {
    /// The classes of a log-loss model with these labels: those named, or those of the first task.
    pub(super) fn logistic_classes(&self, labels: &Labels) -> Result<Vec<String>> {
        if self.settings.classes.is_some() {
            labels.within(&self.classes)?;
            return Ok(self.classes.clone());
        }
        let refuse = |operation, reason| Err(Error::Unsupported { operation, reason });
        if self.classes.is_empty() {
            if labels.names().len() < 2 {
                return refuse(
                    "log-loss with a single class",
                    "its first task must have two classes, or all classes must be named beforehand"
                        .to_owned(),
                );
            }
            return Ok(labels.names().to_vec());
        }
        match labels.within(&self.classes) {
            Err(Error::UnknownClass { label, row, .. }) => refuse(
                "a new class under log-loss",
                format!(
                    "row {row} has class `{label}`, and the bounds of earlier tasks do not know it; name \
                     all classes beforehand, or use the gaussian or squared loss"
                ),
            ),
            Err(other) => Err(other),
            Ok(_) => Ok(self.classes.clone()),
        }
    }

    /// Fits a task, alone or with the past, and makes it quadratic there.
    pub(super) fn make_quadratic(
        &self,
        design: &Design,
        x: Rows<'_>,
        codes: &[u32],
        weights: Option<&[f64]>,
        (classes, weight): (&[String], f64),
    ) -> Result<Kept> {
        if x.is_empty() {
            return Err(Error::Empty { what: "the task" });
        }
        let task = LabelledRows { x, labels: codes, weights };
        let n = weights.map_or(x.len() as f64, |w| w.iter().sum());
        // The values themselves are checked by the fit; moments of bad ones are not used.
        let moments = Moments::of(design, &x, weights.filter(|w| w.len() == x.len()))?;
        let threads = self.settings.threads;
        let k = classes.len();
        let fitted = match self.settings.scheme {
            Scheme::OneShot => {
                let own = LogisticHead::new(&self.settings, design, &moments);
                let mut penalty = own.penalty(n, n);
                if design.intercept() {
                    penalty[0] = n * own.strength(n);
                }
                let past = None;
                let objective =
                    Objective { design, task, classes: k, scale: 1.0, past, penalty: &penalty };
                fit(&objective, None, threads)?
            }
            Scheme::Sequential => self.fit_with_past(design, task, k, &moments, (n, weight))?,
        };
        let bound = expand(design, task, k, &fitted.theta, self.settings.curvature, threads)?;
        let (least, separable) = if self.settings.certify {
            let found = least_loss(design, task, k, Some(&fitted.theta), threads)?;
            (found.value, found.separable)
        } else {
            (0.0, fitted.separable)
        };
        Ok(Kept {
            summary: bound.summary,
            least,
            note: Note {
                counts: count(classes, codes, weights),
                separable: Some(separable),
                moments: Some(moments),
                losses: None,
            },
        })
    }

    fn fit_with_past(
        &self,
        design: &Design,
        task: LabelledRows<'_>,
        classes: usize,
        moments: &Moments,
        (n, weight): (f64, f64),
    ) -> Result<Fit> {
        let Some((share, fade)) = self.settings.prefer.arrival(n, weight) else {
            return Err(Error::Preference {
                reason: "the weights were chosen task by task, so a new task has none".to_owned(),
            });
        };
        let seen = self.moments.as_ref().map_or_else(|| moments.clone(), |m| m.plus(moments, 1.0));
        let prior = LogisticHead::new(&self.settings, design, &seen);
        let past = match self.learner.pooled() {
            Ok(pooled) => Some(pooled.scale(fade)?),
            Err(Error::NotLearned) => None,
            Err(other) => return Err(other),
        };
        let total = past.as_ref().map_or(0.0, Summary::n) + share;
        let penalty = prior.penalty(total, self.learner.samples() + n);
        let objective = Objective {
            design,
            task,
            classes,
            scale: share / n,
            past: past.as_ref(),
            penalty: &penalty,
        };
        let start = self.learner.model().ok().map(|m| &m.theta);
        fit(&objective, start, self.settings.threads)
    }
}
