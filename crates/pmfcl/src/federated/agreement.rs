//! What clients and server hold in common before the first step.

use crate::classify::{
    ClassLoss, Classifier, ClassifierParts, ClassifierSettings, Labels, Scheme, TaskNote,
    Temperature,
};
use crate::error::{Error, Result};
use crate::learner::{
    Learner, LearnerParts, MemoryKind, MemoryParts, Preference, Settings, TaskRecord,
};
use crate::loss::logistic::columns;
use crate::rows::Rows;
use crate::solve::{Model, Outcome, Penalty};
use crate::summary::{Design, Summarizer, Summary};
use crate::theta::Theta;

use super::update::{Bound, Numbers, Update, UpdateForm};

/// What is learned.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// Values under squared loss.
    Values {
        /// Settings of the joint learner.
        settings: Settings,
        /// How many values are predicted.
        targets: usize,
    },
    /// Classes, all of them named beforehand.
    Classes(ClassifierSettings),
}

/// What clients and server hold in common: what is learned, and the design inputs are mapped through.
///
/// The design is fixed once, by the server or from rows all may see: a basis that takes its ranges from rows
/// ([`crate::Basis::needs_rows`]) must not take them at every client anew.
#[derive(Debug, Clone)]
pub struct Agreement {
    goal: Goal,
    design: Design,
    fingerprint: u64,
}

impl Agreement {
    /// Values under squared loss.
    ///
    /// # Errors
    /// When a setting is out of range, depends on the order of tasks, or does not go with the design.
    pub fn values(settings: Settings, targets: usize, design: Design) -> Result<Self> {
        if targets == 0 {
            return Err(Error::Empty { what: "the list of targets" });
        }
        let settings = Settings { memory: MemoryKind::Ledger, ..settings };
        Learner::new(settings.clone())?;
        Self::sealed(Goal::Values { settings, targets }, design)
    }

    /// Classes, by any of the classifier's losses (`logistic` one-shot).
    ///
    /// # Errors
    /// When a setting is out of range, depends on the order of tasks or does not go with the design, or the classes are
    /// not named.
    pub fn classes(settings: ClassifierSettings, design: Design) -> Result<Self> {
        let refuse = |operation, reason: &str| {
            Err(Error::Unsupported { operation, reason: reason.to_owned() })
        };
        let settings = ClassifierSettings { memory: MemoryKind::Ledger, ..settings };
        // The classifier puts the classes in order and checks the rest.
        let settings = Classifier::new(settings)?.settings().clone();
        if settings.classes.is_none() {
            return refuse(
                "a federation without a list of classes",
                "clients see some of the classes each; name all of them",
            );
        }
        if settings.scheme == Scheme::Sequential {
            return refuse(
                "the sequential scheme between clients",
                "what is kept depends on the order of tasks; use one-shot",
            );
        }
        if settings.temperature == Temperature::Auto {
            return refuse(
                "an automatic temperature between clients",
                "it is measured on rows in their order; fix it",
            );
        }
        Self::sealed(Goal::Classes(settings), design)
    }

    fn sealed(goal: Goal, design: Design) -> Result<Self> {
        let (basis, intercept, prefer) = match &goal {
            Goal::Values { settings, .. } => {
                (&settings.basis, settings.intercept, &settings.prefer)
            }
            Goal::Classes(settings) => (&settings.basis, settings.intercept, &settings.prefer),
        };
        if !matches!(prefer, Preference::Samples | Preference::Equal) {
            return Err(Error::Preference {
                reason: "clients have no order: weigh them by samples, or all the same".to_owned(),
            });
        }
        if design.map().basis() != basis || design.intercept() != intercept {
            return Err(Error::Mismatch {
                what: "the design",
                left: format!("{basis} in the settings"),
                right: format!("{} in the design", design.map().basis()),
            });
        }
        let fingerprint = fingerprint(&goal, &design);
        Ok(Self { goal, design, fingerprint })
    }

    /// What is learned.
    pub fn goal(&self) -> &Goal {
        &self.goal
    }

    /// The design.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// A number that differs where loss, basis, what the basis was fixed to, intercept, targets or classes differ. It finds
    /// mistakes, not forgeries: whoever can send an update can also send this number.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether summaries only bound the loss.
    pub fn is_bounded(&self) -> bool {
        matches!(&self.goal, Goal::Classes(s) if s.loss == ClassLoss::Logistic)
    }

    /// Whether a covariance is read off the summaries.
    pub(super) fn is_gaussian(&self) -> bool {
        matches!(&self.goal, Goal::Classes(s) if s.loss == ClassLoss::Gaussian)
    }

    /// Columns of the targets of a summary.
    pub fn targets(&self) -> usize {
        match &self.goal {
            Goal::Values { targets, .. } => *targets,
            Goal::Classes(s) => {
                let count = s.classes.as_ref().map_or(0, Vec::len);
                if s.loss == ClassLoss::Logistic { columns(count) } else { count }
            }
        }
    }

    /// The classes, in order; none for values.
    pub fn class_names(&self) -> &[String] {
        match &self.goal {
            Goal::Values { .. } => &[],
            Goal::Classes(settings) => settings.classes.as_deref().unwrap_or_default(),
        }
    }

    /// Most bytes an update can take; known before any row is looked at.
    pub fn most_bytes(&self, form: UpdateForm, single: bool) -> usize {
        let (m, p) = (self.design.width(), self.targets());
        let numbers = if single { Numbers::Single } else { Numbers::Double };
        let moments = 1 + 2 * (m - usize::from(self.design.intercept()));
        let counts = self.class_names().len();
        let bound = if self.is_bounded() { 16 + 8 * (counts + moments) } else { 0 };
        Update::most_bytes((m, p), bound, form, numbers)
    }

    /// What a client sends for one step of values.
    ///
    /// # Errors
    /// On bad input (see [`Error`]), and when classes are learned.
    pub fn summarize(&self, client: &str, step: u64, x: Rows<'_>, y: Rows<'_>) -> Result<Update> {
        let Goal::Values { settings, targets } = &self.goal else {
            return Err(Error::Unsupported {
                operation: "summarizing values",
                reason: "this federation learns classes; give labels".to_owned(),
            });
        };
        let summarizer = Summarizer::new(self.design.clone(), *targets, settings.accumulator)?;
        let mut summarizer = summarizer.threads(settings.threads);
        summarizer.add(x, y, None)?;
        self.update(client, step, summarizer.finish()?, None)
    }

    /// What a client sends for one step of labels.
    ///
    /// # Errors
    /// On bad input (see [`Error`]), on a label outside the classes, and when values are learned.
    pub fn summarize_labels(
        &self,
        client: &str,
        step: u64,
        x: Rows<'_>,
        labels: &Labels,
    ) -> Result<Update> {
        let Goal::Classes(settings) = &self.goal else {
            return Err(Error::Unsupported {
                operation: "summarizing labels",
                reason: "this federation learns values; give numbers".to_owned(),
            });
        };
        let mut own = self.classifier(settings, Vec::new(), Vec::new(), MemoryParts::Empty)?;
        if settings.loss != ClassLoss::Logistic {
            return self.update(client, step, own.summary_of(x, labels, None)?, None);
        }
        // The quadratic of log-loss is made where the rows are, and with it what the prior and the report need.
        own.learn(client, x, labels)?;
        let note = own.note(client)?;
        let mut counts = vec![0.0; self.class_names().len()];
        for (count, class) in counts.iter_mut().zip(self.class_names()) {
            *count = note.counts.iter().find(|(c, _)| c == class).map_or(0.0, |(_, n)| *n);
        }
        let bound = Bound {
            least: own.learner().records()[0].min_loss,
            separable: note.separable == Some(true),
            counts,
            moments: note.moments.unwrap_or_default(),
        };
        self.update(client, step, own.learner().summary(client)?.clone(), Some(bound))
    }

    fn update(
        &self,
        client: &str,
        step: u64,
        summary: Summary,
        bound: Option<Bound>,
    ) -> Result<Update> {
        if summary.n() <= 0.0 {
            return Err(Error::Empty { what: "the step" });
        }
        Update::new(client, step, self.fingerprint, summary, bound)
    }

    /// A classifier of these tasks under the agreed design; not solved yet.
    pub(super) fn classifier(
        &self,
        settings: &ClassifierSettings,
        tasks: Vec<TaskRecord>,
        notes: Vec<TaskNote>,
        memory: MemoryParts,
    ) -> Result<Classifier> {
        let model = self.unsolved(&memory);
        Classifier::from_parts(ClassifierParts {
            settings: settings.clone(),
            classes: self.class_names().to_vec(),
            moments: total_moments(&notes),
            learner: LearnerParts {
                settings: Settings::default(),
                design: Some(self.design.clone()),
                targets: if tasks.is_empty() { 0 } else { self.targets() },
                tasks,
                memory,
                model,
            },
            notes,
        })
    }

    /// What stands in for the solution until the memory is solved.
    pub(super) fn unsolved(&self, memory: &MemoryParts) -> Option<Model> {
        (*memory != MemoryParts::Empty).then(|| Model {
            theta: Theta::zeros(self.design.width(), self.targets()),
            rank: 0,
            outcome: Outcome::MinimumNorm,
            penalty: Penalty::NONE,
        })
    }
}

/// Moments over all tasks, as numbers: counts add, means and squares about them are moved together.
fn total_moments(notes: &[TaskNote]) -> Option<Vec<f64>> {
    let mut parts = notes.iter().filter_map(|note| note.moments.as_ref());
    let mut total = parts.next()?.clone();
    let columns = total.len() / 2;
    for part in parts {
        let (n, more) = (total[0], part[0]);
        let share = more / (n + more);
        total[0] = n + more;
        for j in 1..=columns {
            let gap = part[j] - total[j];
            total[j] += share * gap;
            total[columns + j] += part[columns + j] + share * n * gap * gap;
        }
    }
    Some(total)
}

/// FNV-1a, 64 bits, over everything a summary depends on, each item with its length.
fn fingerprint(goal: &Goal, design: &Design) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |bytes: &[u8]| {
        for b in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    take(b"pmfcl federation 1");
    match goal {
        Goal::Values { targets, .. } => {
            take(b"squared");
            take(&(*targets as u64).to_le_bytes());
        }
        Goal::Classes(settings) => {
            take(b"classes");
            take(settings.loss.name().as_bytes());
            if settings.loss == ClassLoss::Logistic {
                take(format!("{:?}", settings.curvature).as_bytes());
            }
            for class in settings.classes.iter().flatten() {
                take(class.as_bytes());
            }
        }
    }
    take(design.map().basis().to_string().as_bytes());
    take(&[u8::from(design.intercept())]);
    take(&(design.inputs() as u64).to_le_bytes());
    let frozen: Vec<u8> = design.map().frozen().iter().flat_map(|v| v.to_le_bytes()).collect();
    take(&frozen);
    hash
}
