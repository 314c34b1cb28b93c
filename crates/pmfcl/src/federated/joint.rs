//! The model of a register, and what each client's steps have lost under it.

use super::update::{Update, UpdateForm};
use super::{Goal, Server};
use crate::classify::{Classifier, TaskNote};
use crate::error::{Error, Result};
use crate::learner::{Learner, LearnerParts, MemoryParts, Preference, TaskRecord, TaskReport};
use crate::rows::Rows;
use crate::solve::Model;
use crate::summary::{Summary, pool};

/// The joint model: an ordinary learner or classifier, one task for each client and step, named `client/step`, and
/// `client/step (diagonal)` where only a diagonal bound of it was sent.
#[derive(Debug, Clone)]
pub enum Joint {
    /// Of values.
    Values(Box<Learner>),
    /// Of classes.
    Classes(Box<Classifier>),
}

/// One step of one client under the joint model.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientStep {
    /// The client.
    pub client: String,
    /// The step.
    pub step: u64,
    /// Samples, loss, forgetting or its bound. Of a diagonal update only the bound is known.
    pub report: TaskReport,
}

impl Joint {
    pub(super) fn of(server: &Server) -> Result<Self> {
        if server.register.is_empty() {
            return Err(Error::NotLearned);
        }
        let agreement = &server.agreement;
        let tasks = records(server);
        let (m, p) = (agreement.design().width(), agreement.targets());
        let by_samples = match agreement.goal() {
            Goal::Values { settings, .. } => settings.prefer == Preference::Samples,
            Goal::Classes(settings) => settings.prefer == Preference::Samples,
        };
        // The register's own order, whatever the order of arrival.
        let weigh =
            |task: &TaskRecord| if by_samples { task.weight * task.samples } else { task.weight };
        let weighed = || server.register.values().zip(&tasks);
        let parts = weighed().map(|(u, task)| (&u.summary, weigh(task) / task.samples));
        let memory = MemoryParts::Ledger {
            pool: pool(m, p, parts)?,
            floor: weighed().map(|(_, task)| weigh(task) * task.min_loss).sum(),
            summaries: server
                .register
                .values()
                .map(|u| u.summary.clone())
                .collect::<Vec<Summary>>(),
        };
        match agreement.goal() {
            Goal::Values { settings, targets } => {
                let mut learner = Learner::from_parts(LearnerParts {
                    settings: settings.clone(),
                    design: Some(agreement.design().clone()),
                    targets: *targets,
                    model: agreement.unsolved(&memory),
                    tasks,
                    memory,
                })?;
                learner.set_ridge(settings.ridge, settings.standardize)?;
                Ok(Self::Values(Box::new(learner)))
            }
            Goal::Classes(settings) => {
                let notes = server.register.values().map(|u| note(agreement.class_names(), u));
                let mut joint = agreement.classifier(settings, tasks, notes.collect(), memory)?;
                if agreement.is_gaussian() {
                    joint.set_shrinkage(settings.shrinkage)?;
                } else {
                    joint.set_ridge(settings.ridge, settings.standardize)?;
                }
                Ok(Self::Classes(Box::new(joint)))
            }
        }
    }

    /// The parameters and how they came about.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn model(&self) -> Result<&Model> {
        match self {
            Self::Values(learner) => learner.model(),
            Self::Classes(classifier) => classifier.model(),
        }
    }

    /// Predicted values, or scores of the classes, row after row.
    ///
    /// # Errors
    /// When the inputs have other columns.
    pub fn decision(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        match self {
            Self::Values(learner) => learner.predict(x),
            Self::Classes(classifier) => classifier.decision(x),
        }
    }

    fn reports(&self) -> Result<Vec<TaskReport>> {
        match self {
            Self::Values(learner) => learner.tasks(),
            Self::Classes(classifier) => {
                Ok(classifier.tasks()?.into_iter().map(|task| task.report).collect())
            }
        }
    }
}

impl Server {
    /// Every step of every client under the joint model: what it has forgotten, or a bound on that.
    ///
    /// # Errors
    /// As [`Server::joint`].
    pub fn report(&self) -> Result<Vec<ClientStep>> {
        self.report_of(&self.joint()?)
    }

    /// The same for a model made by [`Server::joint`] before, with nothing accepted or removed since.
    ///
    /// # Errors
    /// When the model is of another register.
    pub fn report_of(&self, joint: &Joint) -> Result<Vec<ClientStep>> {
        let reports = joint.reports()?;
        if reports.len() != self.register.len() {
            return Err(Error::Shape {
                what: "the model",
                unit: "tasks",
                expected: self.register.len(),
                found: reports.len(),
            });
        }
        let step = |(update, mut report): (&Update, TaskReport)| {
            if update.form == UpdateForm::Diagonal {
                (report.loss, report.forgetting, report.mse, report.r2) = (None, None, None, None);
            }
            ClientStep { client: update.client.clone(), step: update.step, report }
        };
        Ok(self.register.values().zip(reports).map(step).collect())
    }
}

/// The register as that of a learner.
fn records(server: &Server) -> Vec<TaskRecord> {
    let clients = server.clients();
    let mut samples = vec![0.0; clients.len()];
    let place = |update: &Update| {
        clients.binary_search(&&*update.client).expect("every update has its client")
    };
    for update in server.register.values() {
        samples[place(update)] += update.samples();
    }
    let factors = server.rules.factors(&samples);
    let record = |update: &Update| TaskRecord {
        name: update.task(),
        samples: update.samples(),
        rank: update.summary.rank(),
        weight: factors[place(update)],
        min_loss: update.bound.as_ref().map_or_else(|| update.summary.min_loss(), |b| b.least),
        bytes: update.summary.nbytes(),
    };
    server.register.values().map(record).collect()
}

fn note(classes: &[String], update: &Update) -> TaskNote {
    let counts = update.bound.as_ref().map_or(update.summary.target_sums(), |b| &b.counts);
    TaskNote {
        counts: classes.iter().cloned().zip(counts.iter().copied()).filter(|c| c.1 > 0.0).collect(),
        separable: update.bound.as_ref().map(|b| b.separable),
        moments: update.bound.as_ref().map(|b| b.moments.clone()),
        losses: None,
    }
}
