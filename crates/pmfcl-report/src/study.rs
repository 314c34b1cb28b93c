//! The model as all sections look at it: every task as it stands, and the model its quadratics have.

use std::borrow::Cow;

use pmfcl::pareto::PairFront;
use pmfcl::problem::Description;
use pmfcl::report::MissingReason;
use pmfcl::report::conflict::{ChowTest, chow, smallest_p};
use pmfcl::solve::ridge::by_gcv;
use pmfcl::{Learner, Penalty, Solution, Summary, TaskReport, Theta, solve};

use crate::error::ReportError;
use crate::html::label;
use crate::limits;
use crate::subject::Subject;

/// What all sections need.
#[derive(Debug)]
pub(crate) struct Study<'a> {
    pub(crate) subject: &'a Subject<'a>,
    /// What the losses of this model mean.
    pub(crate) about: Description,
    pub(crate) tasks: Vec<TaskReport>,
    /// The summaries over all columns; `None` once compact memory has folded them.
    pub(crate) summaries: Option<Vec<Cow<'a, Summary>>>,
    pub(crate) solution: &'a Solution,
    pub(crate) pooled: &'a Summary,
    /// Mean forgetting under the preference, where it is known.
    pub(crate) mean_forgetting: Option<f64>,
    /// Chow's test over all tasks, one result for each target.
    pub(crate) chow: Option<Vec<ChowTest>>,
}

impl<'a> Study<'a> {
    pub(crate) fn new(subject: &'a Subject<'a>) -> Result<Self, ReportError> {
        subject.check()?;
        let learner = subject.learner;
        let about = *learner.problem().description();
        let about = if learner.is_exact() { about } else { about.with_bounds() };
        let (tasks, mean_forgetting) = (learner.tasks()?, learner.mean_forgetting().ok());
        let summaries = learner.summaries();
        let solution = learner.solution()?;
        let chow = match &summaries {
            Some(all)
                if about.testable
                    && all.len() > 1
                    && limits::affords(all.len(), solution.theta.width()) =>
            {
                Some(chow(all.iter().map(|s| &**s), learner.settings().accumulator)?)
            }
            _ => None,
        };
        let pooled = &learner.pool()?.quadratic;
        Ok(Self { subject, about, tasks, summaries, solution, pooled, mean_forgetting, chow })
    }

    /// The name of a task as charts write it.
    pub(crate) fn label(&self, task: usize) -> &str {
        label(&self.tasks[task].name)
    }

    pub(crate) fn width(&self) -> usize {
        self.solution.theta.width()
    }

    pub(crate) fn intercept(&self) -> bool {
        self.subject.learner.settings().intercept
    }

    /// What is forgotten of each task, or the bound on it.
    pub(crate) fn forgetting(&self) -> Vec<Option<f64>> {
        self.tasks.iter().map(|task| task.forgetting.or(task.bound)).collect()
    }

    /// What forgetting is called: itself, or a bound on it.
    pub(crate) fn forgetting_name(&self) -> &'static str {
        if self.about.exact { "forgetting" } else { "bound on forgetting" }
    }

    /// What a loss on fronts and in conflicts is called.
    pub(crate) fn front_loss_name(&self) -> &'static str {
        if self.about.exact { "loss" } else { "bound on the loss" }
    }

    /// Chow's p-value over all tasks, or why there is none; `None` where no test was made.
    pub(crate) fn p_value(&self) -> Option<Result<f64, MissingReason>> {
        self.chow.as_deref().map(smallest_p)
    }
}

/// The model fronts start from, and the penalty along them.
#[derive(Debug, Clone)]
pub(crate) struct Quadratics {
    pub(crate) theta: Theta,
    pub(crate) penalty: Penalty,
}

impl Quadratics {
    /// The model the pooled quadratics have: the learner's own, or the least-squares one of the same summaries where the
    /// quadratics only stand in for the learner's loss.
    pub(crate) fn of(learner: &Learner) -> Result<Self, ReportError> {
        if learner.problem().description().least_squares_stand_in {
            return Self::least_squares(learner);
        }
        let solution = learner.solution()?;
        Ok(Self { theta: solution.theta.clone(), penalty: solution.penalty.clone() })
    }

    /// The least-squares model with a ridge chosen for it: without one, tasks that leave directions open have
    /// fronts that extend absurdly far.
    fn least_squares(learner: &Learner) -> Result<Self, ReportError> {
        let pooled = &learner.pool()?.quadratic;
        let intercept = learner.settings().intercept;
        let ridge = by_gcv(pooled, intercept, true, learner.effective_samples()?)?;
        let penalty = Penalty::new(ridge, true)?;
        let origin = learner.design().and_then(|design| design.map().origin());
        let theta = solve(pooled, intercept, penalty.clone(), origin)?.theta;
        Ok(Self { theta, penalty })
    }

    /// The front of two losses under this penalty.
    pub(crate) fn front(
        &self,
        a: &Summary,
        b: &Summary,
        intercept: bool,
    ) -> Result<PairFront, ReportError> {
        Ok(PairFront::penalized(a, b, intercept, &self.penalty)?)
    }
}
