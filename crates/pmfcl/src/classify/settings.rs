//! What a classifier is set up with.

use super::labels::order;
use crate::basis::Basis;
use crate::error::{Error, Result};
use crate::learner::{MemoryKind, Preference, Ridge, Settings};
use crate::loss::logistic::Curvature;
use crate::solve::Penalty;
use crate::summary::Accumulator;

/// Which loss a classifier minimises. `docs/choosing.md` compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClassLoss {
    /// Least squares on 0/1 targets, one for each class.
    Squared,
    /// Linear discriminant analysis: class counts, class means, one covariance. The default.
    #[default]
    Gaussian,
    /// Log-loss of a binary or softmax model, by quadratic bounds.
    Logistic,
}

impl ClassLoss {
    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Squared => "squared",
            Self::Gaussian => "gaussian",
            Self::Logistic => "logistic",
        }
    }
}

/// How far the pooled covariance is drawn toward its target; see [`crate::classify::Gaussian`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Shrinkage {
    /// Toward the diagonal, by as much as the correlations are expected to be noise.
    #[default]
    Auto,
    /// `(1 − s) S + s diag(S)`: does not depend on the features' units.
    Diagonal(f64),
    /// `(1 − s) S + s (tr S / d) I`, `S` over `N`: scikit-learn's `LinearDiscriminantAnalysis(shrinkage=s)`.
    Identity(f64),
    /// `S + s (tr S / d) I`.
    Ridge(f64),
}

impl Shrinkage {
    fn check(self) -> Result<()> {
        let (value, most) = match self {
            Self::Auto => return Ok(()),
            Self::Diagonal(s) | Self::Identity(s) => (s, 1.0),
            Self::Ridge(s) => (s, f64::MAX),
        };
        if (0.0..=most).contains(&value) {
            return Ok(());
        }
        let must = if most > 1.0 { "0 or more, and finite" } else { "between 0 and 1" };
        Err(Error::Range { what: "shrinkage", value, must })
    }
}

/// Where the quadratic of a task's log-loss is expanded; see [`crate::classify::logistic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    /// At the task's own minimum: order-free, removable.
    #[default]
    OneShot,
    /// At the minimum of the task together with the past: nearer to joint training, but what is kept
    /// depends on the order, and no task can be taken out.
    Sequential,
}

impl Scheme {
    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneShot => "one-shot",
            Self::Sequential => "sequential",
        }
    }
}

/// What gaussian discriminants are divided by before they become probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Temperature {
    /// A given one. 1, the default, is the textbook's; probabilities are then exact under any order.
    Fixed(f64),
    /// Measured on every task's rows before they are learned; depends on the order of tasks. See
    /// [`crate::classify::calibrate`].
    Auto,
}

impl Default for Temperature {
    fn default() -> Self {
        Self::Fixed(1.0)
    }
}

/// What a classifier is set up with.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifierSettings {
    /// The loss.
    pub loss: ClassLoss,
    /// The basis inputs are mapped through.
    pub basis: Basis,
    /// Whether there is a free intercept. `gaussian` always has one.
    pub intercept: bool,
    /// The ridge of `squared` and `logistic`.
    pub ridge: Ridge,
    /// Whether the ridge is multiplied by feature variances. `Ridge::Auto` always does.
    pub standardize: bool,
    /// Shrinkage of the covariance of `gaussian`.
    pub shrinkage: Shrinkage,
    /// Curvature of the bounds of `logistic`.
    pub curvature: Curvature,
    /// Where the bounds of `logistic` are expanded.
    pub scheme: Scheme,
    /// Whether `logistic` certifies the least log-loss of every task while its rows are at hand. That is a second
    /// fit, without the prior, and dear where features are many. Without it 0 stands for the least: bounds stay
    /// guaranteed, but count the task's own unavoidable loss as forgetting.
    pub certify: bool,
    /// Temperature of the probabilities of `gaussian`.
    pub temperature: Temperature,
    /// What is remembered.
    pub memory: MemoryKind,
    /// How rows are accumulated.
    pub accumulator: Accumulator,
    /// How tasks are weighed.
    pub prefer: Preference,
    /// All classes there will ever be, where they are known; a label outside the list is then an error.
    pub classes: Option<Vec<String>>,
    /// Threads to use; the result does not depend on it.
    pub threads: usize,
}

impl Default for ClassifierSettings {
    fn default() -> Self {
        let plain = Settings::default();
        Self {
            loss: ClassLoss::default(),
            basis: plain.basis,
            intercept: plain.intercept,
            ridge: plain.ridge,
            standardize: plain.standardize,
            shrinkage: Shrinkage::default(),
            curvature: Curvature::default(),
            scheme: Scheme::default(),
            certify: true,
            temperature: Temperature::default(),
            memory: plain.memory,
            accumulator: plain.accumulator,
            prefer: plain.prefer,
            classes: None,
            threads: plain.threads,
        }
    }
}

impl ClassifierSettings {
    /// Checks every setting and puts the fixed classes, if any, in order.
    pub(super) fn checked(mut self) -> Result<Self> {
        let refuse = |operation, reason: String| Err(Error::Unsupported { operation, reason });
        self.prefer.check()?;
        self.shrinkage.check()?;
        if let Ridge::Fixed(x) = self.ridge {
            Penalty::new(x, self.standardize)?;
        }
        if let Temperature::Fixed(t) = self.temperature
            && !(t > 0.0 && t.is_finite())
        {
            return Err(Error::Range {
                what: "temperature",
                value: t,
                must: "positive and finite",
            });
        }
        if self.loss == ClassLoss::Gaussian && !self.intercept {
            return refuse(
                "gaussian without an intercept",
                "class means and class shares are its intercept; leave it on".to_owned(),
            );
        }
        if self.loss == ClassLoss::Logistic && self.ridge == Ridge::LeaveOneTaskOut {
            return refuse(
                "leaving tasks out",
                "log-loss on a left-out task is only bounded; give a ridge, or auto".to_owned(),
            );
        }
        if let Some(classes) = &mut self.classes {
            classes.sort_by(|a, b| order(a, b));
            if let Some([twice, _]) = classes.array_windows().find(|[a, b]| a == b) {
                return refuse("this list of classes", format!("`{twice}` is named twice"));
            }
            if classes.len() < 2 {
                return refuse(
                    "this list of classes",
                    "a classifier needs two classes to choose between".to_owned(),
                );
            }
        }
        Ok(self)
    }

    /// The settings of the learner that holds the summaries.
    pub(super) fn learner(&self) -> Settings {
        Settings {
            basis: self.basis.clone(),
            intercept: self.intercept,
            ridge: self.ridge,
            standardize: self.standardize,
            memory: self.memory,
            accumulator: self.accumulator,
            prefer: self.prefer.clone(),
            threads: self.threads,
        }
    }
}
