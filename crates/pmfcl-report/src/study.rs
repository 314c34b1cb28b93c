//! The model as all sections look at it: every task as it stands, and the model its quadratics have.

use pmfcl::pareto::PairFront;
use pmfcl::report::MissingReason;
use pmfcl::report::conflict::{ChowTest, chow, smallest_p};
use pmfcl::solve::ridge::by_gcv;
use pmfcl::{Learner, Model, Penalty, Ridge, Summary, TaskReport, Theta, solve};

use crate::error::ReportError;
use crate::html::label;
use crate::limits;
use crate::subject::{Kind, Subject};

/// What all sections need.
#[derive(Debug)]
pub(crate) struct Study<'a> {
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) kind: Kind,
    pub(crate) tasks: Vec<TaskReport>,
    pub(crate) summaries: Option<&'a [Summary]>,
    pub(crate) model: &'a Model,
    pub(crate) pooled: Summary,
    /// Mean forgetting under the preference, where it is known.
    pub(crate) mean_forgetting: Option<f64>,
    /// Chow's test over all tasks, one result for each target.
    pub(crate) chow: Option<Vec<ChowTest>>,
}

impl<'a> Study<'a> {
    pub(crate) fn new(subject: &'a Subject<'a>) -> Result<Self, ReportError> {
        subject.check()?;
        let kind = subject.kind();
        let (tasks, mean_forgetting) = match subject.classifier {
            Some(classifier) => (
                classifier.tasks()?.into_iter().map(|task| task.report).collect(),
                classifier.mean_forgetting().ok(),
            ),
            None => (subject.learner.tasks()?, subject.learner.mean_forgetting().ok()),
        };
        let summaries = subject.learner.summaries();
        let model = subject.learner.model()?;
        let chow = match summaries {
            Some(all)
                if kind.testable()
                    && all.len() > 1
                    && limits::affords(all.len(), model.theta.width()) =>
            {
                Some(chow(all.iter(), subject.learner.settings().accumulator)?)
            }
            _ => None,
        };
        let pooled = subject.learner.pooled()?;
        Ok(Self { subject, kind, tasks, summaries, model, pooled, mean_forgetting, chow })
    }

    /// The name of a task as charts write it.
    pub(crate) fn label(&self, task: usize) -> &str {
        label(&self.tasks[task].name)
    }

    pub(crate) fn width(&self) -> usize {
        self.model.theta.width()
    }

    pub(crate) fn intercept(&self) -> bool {
        self.subject.learner.settings().intercept
    }

    /// What is forgotten of each task, or the bound on it.
    pub(crate) fn forgetting(&self) -> Vec<Option<f64>> {
        self.tasks.iter().map(|task| task.forgetting.or(task.bound)).collect()
    }

    /// Chow's p-value over all tasks, or why there is none; `None` where no test was made.
    pub(crate) fn p_value(&self) -> Option<Result<f64, MissingReason>> {
        self.chow.as_deref().map(smallest_p)
    }

    /// The quadratics of the tasks, and the model they have under the current preference.
    pub(crate) fn quadratics(&self) -> Result<Quadratics, ReportError> {
        match self.kind {
            Kind::Gaussian => Quadratics::least_squares(self.subject.learner, &self.pooled),
            _ => Ok(Quadratics { theta: self.model.theta.clone(), penalty: self.model.penalty }),
        }
    }
}

/// The model fronts start from, and the penalty along them.
#[derive(Debug, Clone)]
pub(crate) struct Quadratics {
    pub(crate) theta: Theta,
    pub(crate) penalty: Penalty,
}

impl Quadratics {
    /// The model the pooled quadratics have: for squared loss the learner's own, for linear discriminants the
    /// least-squares one of the same summaries.
    pub(crate) fn of(learner: &Learner) -> Result<Self, ReportError> {
        let pooled = learner.pooled()?;
        let penalty = learner.model()?.penalty;
        match learner.settings().ridge {
            // No ridge although one was to be chosen: it was chosen to be none, which it will be again, or the model
            // is one of discriminants, which have none.
            Ridge::Auto if penalty.ridge() <= 0.0 => Self::least_squares(learner, &pooled),
            _ => Self::solved(learner, &pooled, penalty),
        }
    }

    /// The least-squares model with a ridge chosen for it: without one, tasks that leave directions open have
    /// fronts that reach absurdly far.
    fn least_squares(learner: &Learner, pooled: &Summary) -> Result<Self, ReportError> {
        let samples = learner.effective_samples()?;
        let ridge = by_gcv(pooled, learner.settings().intercept, true, samples)?;
        Self::solved(learner, pooled, Penalty::new(ridge, true)?)
    }

    fn solved(learner: &Learner, pooled: &Summary, penalty: Penalty) -> Result<Self, ReportError> {
        let origin = learner.design().and_then(|design| design.map().origin());
        let model = solve(pooled, learner.settings().intercept, penalty, origin)?;
        Ok(Self { theta: model.theta, penalty })
    }

    /// The front of two losses under this penalty.
    pub(crate) fn front(
        &self,
        a: &Summary,
        b: &Summary,
        intercept: bool,
    ) -> Result<PairFront, ReportError> {
        Ok(PairFront::penalized(a, b, intercept, self.penalty)?)
    }
}
