//! Log-loss, binary and softmax, by quadratic bounds.
//!
//! With `η = φ(x)ᵀΘ` the loss of a row is `log Σ_k e^{η_k} − η_y`; a task's loss is its weighted mean. It is no quadratic, so nothing
//! smaller than the rows carries it exactly. What is kept instead is a quadratic at an anchor `θ̂`, and where the [`Curvature`] is
//! a guaranteed one it lies above the loss everywhere:
//!
//! ```text
//! L_t(θ) ≤ L_t(θ̂) + ⟨g, θ − θ̂⟩ + ½ Σ_i (w_i c_i / n) ‖(θ − θ̂)ᵀ x_i‖²
//! ```
//!
//! * `one-shot` (the paper's Algorithm 2): every task is fitted alone and expanded there. The order of tasks does not matter; a
//!   task can be removed again.
//! * `sequential` (Algorithm 1): the task's true loss is minimised together with the quadratics of the past, and expanded at that
//!   solution. Nearest to joint training where tasks share their classes; what is kept of a task depends on those before it, so none
//!   can be removed.
//!
//! **New classes.** The quadratic of a task says how its log-loss changes with the classes it was made for. With one class more, the
//! loss of the old rows depends on `Σ_i p_i,new x_i`, which no summary holds. So all classes must be named, or occur in the first
//! task.
//!
//! # Columns of θ, and why softmax is kept centred
//! Two classes take one column, the second against the first. More take one column each, and these sum to zero over the classes:
//! adding one vector to all columns changes no probability, so every `Θ` has a centred twin with the same loss, and the gradient is
//! centred by itself. The curvature of softmax has the form `Σ c_i x_i x_iᵀ ⊗ (I − 11ᵀ/K)`; on centred differences the projector is the
//! identity, so one `R` serves all columns and the summary needs no second matrix. Off the centred plane the summary only
//! gains, so it stays a bound.
//!
//! Paper: Section 5 (`sec:mfcl_qub`), Corollary 5.4 (`cor:mfcl_multi_class`), Theorem 5.3 (`thm:qub_forgetting`), Appendix E.1
//! (`app:binaryclass-qub`), Appendix E.2 (`app:multiclass-logistic-regression`), with the gradient's sign, the rank of `V̄` and the
//! anchor corrected.

mod conjugate;
mod curvature;
mod data;
mod evaluate;
mod expand;
mod factor;
mod least;
mod newton;
mod one_task;
pub(super) mod passes;
mod task;

pub use curvature::Curvature;
pub use evaluate::probabilities;
pub use least::Least;
pub use newton::Minimum;
pub use one_task::OneTask;
pub use passes::LogisticPass;
pub use task::Objective;

use std::sync::Arc;

use super::pass::{Partial, Pass, Passes, RowWork};
use super::prior::{self, Prior};
use super::response::{ClassRule, Response};
use super::row_wise::Look;
use super::squared::bound_of;
use super::task::{Exactness, FitOutcome, LeastLoss, TaskHead, TaskSummary};
use super::{
    AssessInput, Assessment, ClassList, Description, Draft, Method, Outputs, Past, Problem,
    SolveInput, Solved, TaskContext, classes_with, no_such_option, wrong_pass,
};
use crate::error::{Error, Result};
use crate::labels::Classes;
use crate::settings::{Settings, setting_names};
use crate::solve::Solution;
use crate::solve::candidates::Judged;
use crate::summary::Summary;
use least::{Present, least_loss};
use newton::{AIM, minimize};
use passes::{LogisticWork, RunLogistic};
use task::PenalizedTask;

/// Log-loss of classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Logistic {
    /// The classes; where they are open, the first task settles them.
    pub classes: ClassList,
    /// Curvature of the bounds.
    pub curvature: Curvature,
    /// Where the bounds are expanded.
    pub scheme: Scheme,
    /// Whether the least log-loss of every task is certified while its rows are available. That is a second fit, without the
    /// prior, and expensive where features are many. Without it 0 stands for the least: bounds stay guaranteed, but count the
    /// task's own unavoidable loss as forgetting.
    pub certify: bool,
}

impl Default for Logistic {
    fn default() -> Self {
        Self {
            classes: ClassList::Open,
            curvature: Curvature::default(),
            scheme: Scheme::default(),
            certify: true,
        }
    }
}

/// Where the quadratic of a task's log-loss is expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    /// At the task's own minimum: independent of the order of tasks, removable.
    #[default]
    OneShot,
    /// At the minimum of the task together with the past: nearer to joint training, but what is kept depends on the order, and
    /// no task can be removed.
    Sequential,
}

setting_names!(
    Scheme,
    "one-shot, sequential",
    "one-shot" => Scheme::OneShot,
    "sequential" => Scheme::Sequential,
);

/// Columns of `θ`: 1 for two classes, `classes` for more.
#[doc(hidden)] // for cli, export, lab, plot, python, read
pub fn columns(classes: usize) -> usize {
    if classes <= 2 { 1 } else { classes }
}

const DESCRIPTION: Description = Description {
    title: "log-loss by quadratic bounds",
    meaning: "The summaries bound the log-loss from above; what is shown are these bounds, never the log-loss itself.",
    axis: "bound on the log-loss",
    least: "least (certified)",
    stand_in: Some(
        "These are losses of the quadratic upper bounds of the log-loss, not log-losses.",
    ),
    coefficients: Some("A coefficient says how the log-odds of its class rise with the feature."),
    timeline_gap: "The gap between the two lines bounds the mean forgetting from above.",
    test_of: None,
    test_note: None,
    shrunk: None,
    table_note: Some(
        "– : log-loss is known from its bounds alone; `pmfcl score` measures it on rows",
    ),
    no_errors: Some("Bounds say nothing about noise, so there are no standard errors."),
    exact: false,
    has_zero: true,
    testable: false,
    least_squares_stand_in: false,
};

/// Runs the passes of log-loss by the executor of a task.
struct Adapter<'a>(&'a mut dyn Passes);

impl RunLogistic for Adapter<'_> {
    fn run(&mut self, pass: &LogisticPass) -> Result<Partial> {
        self.0.run(&Pass::Logistic(pass.clone()))
    }
}

impl Logistic {
    /// The classes of the model with this task: those named, or those of the first task.
    fn classes_of(known: &Outputs, task: &TaskSummary) -> Result<Classes> {
        let known = known.classes().cloned().unwrap_or_default();
        if known.is_empty() {
            if task.classes.len() < 2 {
                return Err(Error::Unsupported {
                    operation: "log-loss with one class",
                    reason: "its first task must have two classes, or all classes must be named beforehand"
                        .to_owned(),
                });
            }
            let mut names = task.classes.clone();
            names.sort_by(|a, b| crate::labels::order(a, b));
            return Classes::new(names);
        }
        match task.classes.iter().find(|name| known.place(name).is_none()) {
            None => Ok(known),
            Some(label) => Err(Error::Unsupported {
                operation: "a new class under log-loss",
                reason: format!(
                    "the task has class `{label}`, and the bounds of earlier tasks do not know it; name all classes \
                     beforehand, or use the gaussian or squared loss"
                ),
            }),
        }
    }

    /// The minimum of a task, alone or with the past.
    fn minimum(
        &self,
        context: &TaskContext<'_>,
        past: &Past,
        look: &TaskSummary,
        classes: &Arc<[String]>,
        passes: &mut dyn Passes,
    ) -> Result<Minimum> {
        let (design, n) = (context.design, look.head.samples);
        let moments = look.moments.as_ref().ok_or(Error::Empty { what: "the task" })?;
        let mut rows = Adapter(passes);
        if self.scheme == Scheme::OneShot {
            let prior = Prior::new(context.settings, design, moments);
            // With rows of every class the intercept is finite by itself, and a single task is the joint fit.
            let complete = look.head.counts.iter().filter(|n| **n > 0.0).count() == classes.len();
            let penalty = if complete { prior.penalty(n, n) } else { prior.alone(n) };
            let objective = Objective { scale: 1.0, past: None, penalty: &penalty };
            let mut task =
                PenalizedTask::new(&mut rows, classes.clone(), design.width(), &objective)?;
            return minimize(&mut task, None, AIM);
        }
        let Some((share, fade)) = context.settings.prefer.arrival(n, past.weight) else {
            return Err(Error::Preference {
                reason: "the weights were chosen task by task, so a new task has none".to_owned(),
            });
        };
        let pool = past.pool.as_deref();
        let seen = pool
            .and_then(|pool| pool.moments.as_ref())
            .map_or_else(|| moments.clone(), |before| before.plus(moments, 1.0));
        let prior = Prior::new(context.settings, design, &seen);
        let before = pool
            .map(|pool| {
                super::widened(&pool.quadratic, design.width(), columns(classes.len()))?.scale(fade)
            })
            .transpose()?;
        let total = before.as_ref().map_or(0.0, Summary::n) + share;
        let penalty = prior.penalty(total, pool.map_or(0.0, |pool| pool.samples) + n);
        let objective = Objective { scale: share / n, past: before.as_ref(), penalty: &penalty };
        let mut task = PenalizedTask::new(&mut rows, classes.clone(), design.width(), &objective)?;
        let start = past.start.as_ref().filter(|theta| theta.width() == design.width());
        minimize(&mut task, start, AIM)
    }
}

impl Method for Logistic {
    fn check(&self, settings: &Settings) -> Result<()> {
        prior::check(settings, "logistic")
    }

    fn outputs(&self) -> Outputs {
        Outputs::Classes(self.classes.classes())
    }

    fn outputs_with(&self, known: &Outputs, task: &TaskSummary) -> Result<Outputs> {
        if known.classes().is_some_and(|classes| !classes.is_empty()) {
            return classes_with(&ClassList::Fixed(Vec::new()), known, task);
        }
        Ok(Outputs::Classes(Self::classes_of(known, task)?))
    }

    fn columns(&self, outputs: &Outputs) -> usize {
        columns(outputs.classes().map_or(0, Classes::len))
    }

    fn check_removable(&self) -> Result<()> {
        if self.scheme == Scheme::Sequential {
            return Err(Error::Unsupported {
                operation: "unlearning under the sequential scheme",
                reason: "what was kept of later tasks depends on this one; use one-shot".to_owned(),
            });
        }
        Ok(())
    }

    fn check_order_free(&self) -> Result<()> {
        if self.scheme == Scheme::Sequential {
            return Err(Error::Unsupported {
                operation: "the sequential scheme between clients",
                reason: "what is kept depends on the order of tasks; use one-shot".to_owned(),
            });
        }
        Ok(())
    }

    fn exactness(&self) -> Exactness {
        Exactness::Bound { guaranteed: self.curvature.guaranteed() }
    }

    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        vec![
            ("curvature", self.curvature.to_string()),
            ("scheme", self.scheme.to_string()),
            ("certify", self.certify.to_string()),
        ]
    }

    fn with_option(&self, name: &str, value: &str) -> Result<Problem> {
        let mut changed = self.clone();
        match name {
            "curvature" => changed.curvature = value.parse()?,
            "scheme" => changed.scheme = value.parse()?,
            "certify" => {
                changed.certify = match value {
                    "true" => true,
                    "false" => false,
                    _ => return crate::settings::unknown(value, "true, false"),
                }
            }
            _ => return Err(no_such_option("logistic", name, "curvature, scheme, certify")),
        }
        Ok(Problem::Logistic(changed))
    }

    fn first_pass(&self) -> Pass {
        Pass::Look
    }

    fn looks_again(&self) -> bool {
        true
    }

    fn needs_past(&self) -> bool {
        self.scheme == Scheme::Sequential
    }

    fn fit(
        &self,
        context: &TaskContext<'_>,
        past: &Past,
        first: Partial,
        passes: &mut dyn Passes,
    ) -> Result<Draft> {
        let look = first.into_task()?;
        let known = Self::classes_of(context.outputs, &look)?;
        // Counts by place; rows of the past task know the classes by these names.
        let look = look.aligned(&known)?;
        let classes: Arc<[String]> = known.by_place().into();
        let (m, n) = (context.design.width(), look.head.samples);
        let found = self.minimum(context, past, &look, &classes, passes)?;
        let mut rows = Adapter(passes);
        let quadratic =
            expand::expand(&mut rows, classes.clone(), (m, n), &found.theta, self.curvature)?;
        let (least, separable) = if self.certify {
            let intercept = context.design.intercept();
            let (counts, count) = (&look.head.counts[..], look.head.rows);
            let present = Present { classes: &classes, counts, rows: count, intercept };
            let least = least_loss(&mut rows, &present, (m, n), Some(&found.theta))?;
            (least.value, least.separable)
        } else {
            (0.0, found.separable)
        };
        let outcome = match (separable, found.converged) {
            (true, _) => FitOutcome::Separable,
            (false, true) => FitOutcome::Converged,
            (false, false) => FitOutcome::Stopped { gap: found.gradient },
        };
        let head = TaskHead {
            least: LeastLoss::Certified(least),
            exactness: self.exactness(),
            outcome,
            ..look.head
        };
        let moments = look.moments;
        let summary = TaskSummary {
            head,
            quadratic,
            moments,
            scatters: Vec::new(),
            tails: None,
            classes: classes.to_vec(),
            new_inputs: Vec::new(),
        };
        let built_on = (self.scheme == Scheme::Sequential).then_some(past.generation);
        Ok(Draft { built_on, ..Draft::from(summary) })
    }

    fn worker(&self, context: &TaskContext<'_>, pass: &Pass) -> Result<Box<dyn RowWork>> {
        match pass {
            Pass::Look => Ok(Box::new(Look::new(context, None))),
            Pass::Logistic(pass) => {
                Ok(Box::new(LogisticWork::new(pass.clone(), context.design.width())))
            }
            _ => wrong_pass("logistic"),
        }
    }

    fn solve(&self, input: &SolveInput<'_>) -> Result<Solved> {
        let pool = input.pool;
        let prior = prior::of_pool(&input.context, pool)?;
        let solution = prior.solve(&pool.quadratic, pool.samples)?;
        let binary = pool.quadratic.targets() == 1;
        let mut response = self.response(Vec::new());
        if let Response::Classes { first_is_zero, .. } = &mut response {
            *first_is_zero = binary;
        }
        Ok(Solved::new(solution, response))
    }

    fn judged(&self) -> Judged {
        Judged::Likelihood
    }

    fn response(&self, present: Vec<bool>) -> Response {
        // Two classes share one column.
        let first_is_zero = present.len() == 1;
        Response::Classes {
            rule: ClassRule::Softmax { temperature: 1.0 },
            present: Vec::new(),
            first_is_zero,
        }
    }

    fn assess(
        &self,
        input: &AssessInput<'_>,
        task: &TaskSummary,
        quadratic: &Summary,
    ) -> Result<Assessment> {
        let bound = bound_of(task, quadratic, &input.solved.solution.theta)?;
        Ok(Assessment { least: task.head.least.value(), bound, ..Assessment::default() })
    }

    fn follows(&self, input: &SolveInput<'_>, solution: &Solution) -> Result<bool> {
        prior::follows(&prior::of_pool(&input.context, input.pool)?, input.pool, solution)
    }
}
