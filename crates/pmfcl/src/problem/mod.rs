//! What is predicted, and by which loss: the one home of everything that depends on it.
//!
//! A [`Problem`] turns rows into a [`TaskSummary`], a [`Pool`] of task summaries into a solution, and a solution into
//! predictions. No other module asks which loss it has.
//!
//! | problem | predicts | a task summary holds | exact | a new class later |
//! |---|---|---|---|---|
//! | `squared` | values or classes | the quadratic of its loss | order, split, merge, removal | a zero column |
//! | `gaussian` | classes | the same, of class indicators | the same | a zero column |
//! | `huber`, `poisson` | values | a quadratic bound of its loss | order, merge and removal of the bounds | |
//! | `logistic` | classes | a quadratic bound of its log-loss | the same (`one-shot`) | name all classes first |
//!
//! To add a loss of one row's prediction and target, implement [`Loss`] in a file of its own and
//! register it in `ROW_LOSSES`; `CONTRIBUTING.md` has the recipe.

mod agreement;
mod bytes;
pub(crate) mod choice;
mod content;
mod description;
pub mod evaluate;
pub mod gaussian;
mod huber;
#[doc(hidden)] // for other crates of the workspace
pub mod in_memory;
pub mod logistic;
mod message;
mod moments;
#[doc(hidden)] // for other crates of the workspace
pub mod pass;
mod poisson;
mod pool;
mod prior;
mod response;
mod row_wise;
mod sample;
mod squared;
mod tails;
mod task;

pub use agreement::{Agreement, Digest};
pub use bytes::{BytesError, Encoding};
pub use choice::CandidateScore;
pub use content::{Content, ContentKeys};
pub use description::Description;
pub use evaluate::{Evaluation, ReliabilityBin};
pub use gaussian::{Calibrate, Covariance, Gaussian, Shrinkage};
pub use huber::Huber;
pub use in_memory::InMemory;
pub use logistic::{Curvature, Logistic, Scheme};
pub use moments::Moments;
pub use pass::{Partial, Pass, Passes, Worker};
pub use poisson::Poisson;
pub use pool::Pool;
pub use response::{
    ClassDensity, ClassRule, Densities, Limits, NearestClass, Novelty, Response, RowDistance,
    RowTemperature,
};
pub use row_wise::RowWise;
pub use sample::RowSample;
pub use squared::Squared;
pub use tails::Tails;
pub use task::{
    CalibrationTable, Exactness, FitOutcome, LeastLoss, NormalLosses, TaskHead, TaskSummary,
};

pub(crate) use bytes::{Reader, invalid};
pub(crate) use gaussian::calibrate::{ADDITIVE, Scored};
pub(crate) use gaussian::normal::TaskShape;
#[cfg(test)]
pub(crate) use pool::tests::POOLED;
pub(crate) use pool::{Part, Pooling, widened};
pub(crate) use response::largest as response_largest;
pub(crate) use task::moved_scatters;

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use crate::basis::Design;
use crate::error::{Error, Result};
use crate::labels::Classes;
use crate::loss::Loss;
use crate::settings::{Settings, StoredPrecision, unknown};
use crate::solve::Solution;
use crate::solve::candidates::Judged;
use crate::summary::{Accumulator, Summary};
use crate::theta::Theta;
use pass::RowWork;

/// What is predicted, and by which loss.
///
/// ```
/// use pmfcl::problem::Problem;
/// let huber = Problem::parse("huber:1.5", None)?;
/// assert_eq!((huber.name(), huber.to_string().as_str()), ("huber", "huber:1.5"));
/// let gaussian = Problem::parse("gaussian", None)?.with_option("shrinkage", "diagonal:0.1")?;
/// assert!(gaussian.options().contains(&("shrinkage", "diagonal:0.1".to_owned())));
/// assert!(huber.with_option("shrinkage", "auto").is_err());
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// Least squares, of values or of class indicators.
    Squared(Squared),
    /// A loss of one row's prediction and target: `huber`, `poisson`, or a user's own.
    RowWise(RowWise),
    /// Linear discriminant analysis.
    Gaussian(Gaussian),
    /// Log-loss, binary or softmax.
    Logistic(Logistic),
}

/// Which classes there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClassList {
    /// Those that appear in the tasks.
    #[default]
    Open,
    /// These; another label is an error.
    Fixed(Vec<String>),
}

impl ClassList {
    /// Fixed classes in order, at least two, none twice.
    fn checked(self) -> Result<Self> {
        let Self::Fixed(names) = self else { return Ok(self) };
        let classes = Classes::new(names)?;
        if classes.len() < 2 {
            return Err(Error::Unsupported {
                operation: "this list of classes",
                reason: "a classifier needs two classes to choose between".to_owned(),
            });
        }
        Ok(Self::Fixed(classes.names().to_vec()))
    }

    /// The classes before the first task.
    fn classes(&self) -> Classes {
        match self {
            Self::Open => Classes::default(),
            Self::Fixed(names) => Classes::new(names.clone()).unwrap_or_default(),
        }
    }

    /// The fixed names, where they are fixed.
    pub fn names(&self) -> Option<&[String]> {
        match self {
            Self::Open => None,
            Self::Fixed(names) => Some(names),
        }
    }
}

/// Makes a loss of one row from what is written after its name.
type MakeLoss = fn(Option<&str>) -> Result<Arc<dyn Loss>>;

/// The losses of one row that go by a name.
const ROW_LOSSES: [(&str, MakeLoss); 2] =
    [(huber::NAME, huber::parse), (poisson::NAME, poisson::parse)];

/// Names of all losses, for messages.
pub(crate) const LOSS_NAMES: &str =
    "squared, huber, huber:DELTA, poisson, poisson:CAP, gaussian, logistic";

/// What the columns of parameters stand for.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for baselines, file, lab, python
pub enum Outputs {
    /// So many values; 0 before the first task.
    Values(usize),
    /// Classes.
    Classes(Classes),
}

impl Outputs {
    /// The classes, where the outputs are classes.
    pub fn classes(&self) -> Option<&Classes> {
        match self {
            Self::Values(_) => None,
            Self::Classes(classes) => Some(classes),
        }
    }
}

/// What a task is summarized under.
#[derive(Debug, Clone, Copy)]
#[doc(hidden)] // for ingest, python
pub struct TaskContext<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// The settings.
    pub settings: &'a Settings,
    /// From input row to design row.
    pub design: &'a Design,
    /// The outputs known so far.
    pub outputs: &'a Outputs,
}

/// What a fit may know of the tasks before it.
#[derive(Debug, Clone)]
#[doc(hidden)] // a part of `TaskContext`
pub struct Past {
    /// Their pool; `None` before the first.
    pub(crate) pool: Option<Arc<Pool>>,
    /// The parameters last solved, to start from.
    pub(crate) start: Option<Theta>,
    /// The weight of the task as a whole.
    pub(crate) weight: f64,
    /// The state of memory this was taken from.
    pub(crate) generation: u64,
}

/// A fitted task that is not yet in memory.
#[derive(Debug, Clone)]
#[doc(hidden)] // for cli, file, ingest, python, terminal
pub struct Draft {
    /// What will be kept of it.
    pub summary: TaskSummary,
    /// What the first task has settled of the problem: classes, a cap, a scale.
    pub settled: Option<Problem>,
    /// The state of memory it depends on, where it does.
    pub built_on: Option<u64>,
    /// Rows to measure probabilities with at the next solution.
    pub sample: Option<RowSample>,
}

impl From<TaskSummary> for Draft {
    fn from(summary: TaskSummary) -> Self {
        Self { summary, settled: None, built_on: None, sample: None }
    }
}

/// What a pool is solved from.
pub(crate) struct SolveInput<'a> {
    pub(crate) context: TaskContext<'a>,
    pub(crate) pool: &'a Pool,
    /// Effective samples.
    pub(crate) effective: f64,
    /// The tasks with their weights, for a choice that leaves tasks out.
    pub(crate) tasks: Option<Vec<(std::borrow::Cow<'a, Summary>, f64)>>,
    /// Calibration tables of the tasks that have one and no sample that waits.
    pub(crate) tables: Vec<KnownTable<'a>>,
    /// Samples of tasks that wait to be measured.
    pub(crate) waiting: Vec<Waiting<'a>>,
}

/// A calibration table that was measured before.
pub(crate) struct KnownTable<'a> {
    /// The position of its task.
    pub(crate) task: usize,
    pub(crate) table: &'a CalibrationTable,
    /// What the rows of the task are like, where classes were added since and it is known.
    pub(crate) shape: Option<TaskShape<'a>>,
}

/// A sample of a task that waits to be measured.
pub(crate) struct Waiting<'a> {
    /// The position of the task.
    pub(crate) task: usize,
    pub(crate) rows: Scored<'a>,
    /// What was measured with other rows of the task, which stays.
    pub(crate) before: Option<&'a CalibrationTable>,
    /// What the rows of the task are like, where it is known.
    pub(crate) shape: Option<TaskShape<'a>>,
}

/// A solution, and how it answers.
#[derive(Debug, Clone)]
pub(crate) struct Solved {
    pub(crate) solution: Solution,
    /// How scores are made; probabilities are those of `calibrated`.
    pub(crate) response: Response,
    /// How probabilities are made, worked out when first asked for.
    pub(crate) calibrated: OnceLock<Response>,
    /// Tables that were measured with this solution, with the positions of their tasks.
    pub(crate) tables: Vec<(usize, CalibrationTable)>,
    /// What a problem derives from the pool for reports, made when first asked for.
    pub(crate) discriminants: OnceLock<Arc<gaussian::Discriminants>>,
    /// How the novelty of rows is found, where it is; worked out when first asked for.
    pub(crate) novelty: OnceLock<Option<Novelty>>,
}

impl Solved {
    /// A solution whose probabilities need nothing but its scores.
    pub(crate) fn new(solution: Solution, response: Response) -> Self {
        let (calibrated, discriminants, novelty) =
            (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { solution, response, calibrated, tables: Vec::new(), discriminants, novelty }
    }
}

/// A task under a solution.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Assessment {
    pub(crate) loss: Option<f64>,
    pub(crate) least: Option<f64>,
    pub(crate) forgetting: Option<f64>,
    pub(crate) bound: Option<f64>,
    pub(crate) mse: Option<Vec<f64>>,
    pub(crate) r2: Option<Vec<f64>>,
}

/// What a solution is judged with.
pub(crate) struct AssessInput<'a> {
    pub(crate) context: TaskContext<'a>,
    pub(crate) pool: &'a Pool,
    pub(crate) effective: f64,
    pub(crate) solved: &'a Solved,
}

/// What a problem does. One implementation for each kind of problem, in its own file.
pub(crate) trait Method: Debug + Send + Sync {
    /// Refuses settings that do not go with the problem.
    fn check(&self, settings: &Settings) -> Result<()>;
    /// Whether every target can have a ridge of its own.
    fn takes_ridges(&self) -> bool {
        false
    }
    /// Whether a ridge or shrinkage keeps columns apart that depend on each other.
    fn is_shrunk(&self, _: &Settings) -> bool {
        false
    }
    /// The outputs before the first task.
    fn outputs(&self) -> Outputs;
    /// The outputs with those of a task; `found` names its classes.
    fn outputs_with(&self, known: &Outputs, task: &TaskSummary) -> Result<Outputs>;
    /// Columns of parameters for these outputs.
    fn columns(&self, outputs: &Outputs) -> usize;
    /// Refuses unlearning, with the reason.
    fn check_removable(&self) -> Result<()> {
        Ok(())
    }
    /// Refuses a federation, whose tasks have no order, with the reason.
    fn check_order_free(&self) -> Result<()> {
        Ok(())
    }
    /// Refuses a bound in the place of the quadratic of an exact loss, with the reason.
    fn check_boundable(&self) -> Result<()> {
        Ok(())
    }
    /// Why a target is invalid; `None` where it is valid.
    fn refuses_target(&self, _y: f64) -> Option<&'static str> {
        None
    }
    /// Whether quadratics are the loss or bounds of it.
    fn exactness(&self) -> Exactness;
    /// Texts and facts for people.
    fn description(&self) -> &'static Description;
    /// The options that can be set by name.
    fn options(&self) -> Vec<(&'static str, String)>;
    /// The problem with one option set.
    fn with_option(&self, name: &str, value: &str) -> Result<Problem>;
    /// The first pass over the rows of every task.
    fn first_pass(&self) -> Pass;
    /// Fits a task, given the answer to the first pass and an executor for more.
    fn fit(
        &self,
        context: &TaskContext<'_>,
        past: &Past,
        first: Partial,
        passes: &mut dyn Passes,
    ) -> Result<Draft>;
    /// Whether scores, and with them the predicted classes, depend on what was measured.
    fn scores_are_measured(&self) -> bool {
        false
    }
    /// Whether [`Method::fit`] asks for passes after the first.
    fn looks_again(&self) -> bool {
        false
    }
    /// Whether [`Method::fit`] looks at the pool of the tasks before.
    fn needs_past(&self) -> bool {
        false
    }
    /// What a pass does with rows.
    fn worker(&self, context: &TaskContext<'_>, pass: &Pass) -> Result<Box<dyn RowWork>>;
    /// The solution of a pool.
    fn solve(&self, input: &SolveInput<'_>) -> Result<Solved>;
    /// How candidates of a portfolio are compared.
    fn judged(&self) -> Judged {
        Judged::Values
    }
    /// How a solution that was kept answers; `present` says which classes have rows.
    fn response(&self, present: Vec<bool>) -> Response;
    /// How a solution makes probabilities, given the calibration tables of the tasks.
    fn calibrated(
        &self,
        input: &AssessInput<'_>,
        _tables: &[&CalibrationTable],
    ) -> Result<Response> {
        Ok(input.solved.response.clone())
    }
    /// The calibration table of a sample of rows at a solution.
    fn measure(&self, _input: &AssessInput<'_>, _rows: &Scored<'_>) -> Result<CalibrationTable> {
        Err(Error::Unsupported {
            operation: "measuring probabilities",
            reason: "only those of gaussian are measured".to_owned(),
        })
    }
    /// How the novelty of rows is found; `None` where the problem has none.
    fn novelty(
        &self,
        _input: &AssessInput<'_>,
        _tables: &[&CalibrationTable],
    ) -> Result<Option<Novelty>> {
        Ok(None)
    }
    /// A task under a solution.
    fn assess(
        &self,
        input: &AssessInput<'_>,
        task: &TaskSummary,
        quadratic: &Summary,
    ) -> Result<Assessment>;
    /// Numbers a solution chose, by name, for people.
    fn facts(&self, _input: &AssessInput<'_>) -> Result<Vec<(&'static str, f64)>> {
        Ok(Vec::new())
    }
    /// Whether a kept solution is the one of its pool.
    fn follows(&self, input: &SolveInput<'_>, solution: &Solution) -> Result<bool>;
}

impl Problem {
    /// Least squares of values.
    pub fn squared() -> Self {
        Self::Squared(Squared { classes: None })
    }

    /// A loss of one row's prediction and target.
    pub fn row_wise(loss: impl Loss + 'static) -> Self {
        Self::RowWise(RowWise::new(Arc::new(loss)))
    }

    /// Linear discriminant analysis with default options.
    pub fn gaussian() -> Self {
        Self::Gaussian(Gaussian::default())
    }

    /// Log-loss with default options.
    pub fn logistic() -> Self {
        Self::Logistic(Logistic::default())
    }

    /// The problem that a name stands for: `squared`, `huber:1.5`, `poisson`, `gaussian`, `logistic`. `classes` makes it one
    /// of classes; `gaussian` and `logistic` always are.
    ///
    /// # Errors
    /// When the name stands for nothing, a number in it is out of range, or the loss does not predict classes.
    pub fn parse(spec: &str, classes: Option<ClassList>) -> Result<Self> {
        let classes = classes.map(ClassList::checked).transpose()?;
        let (name, parameter) = match spec.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (spec, None),
        };
        let plain = |problem: Self| {
            if parameter.is_none() { Ok(problem) } else { unknown(spec, LOSS_NAMES) }
        };
        match name {
            "squared" => plain(Self::Squared(Squared { classes })),
            "gaussian" => plain(Self::Gaussian(Gaussian {
                classes: classes.unwrap_or_default(),
                ..Gaussian::default()
            })),
            "logistic" => plain(Self::Logistic(Logistic {
                classes: classes.unwrap_or_default(),
                ..Logistic::default()
            })),
            _ => {
                let Some((_, make)) = ROW_LOSSES.iter().find(|(known, _)| *known == name) else {
                    return unknown(spec, LOSS_NAMES);
                };
                if classes.is_some() {
                    return Err(Error::Unsupported {
                        operation: "classes by this loss",
                        reason: format!(
                            "{name} predicts values; use gaussian, logistic or squared"
                        ),
                    });
                }
                Ok(Self::RowWise(RowWise::new(make(parameter)?)))
            }
        }
    }

    /// The problem with a loss of the user's own in the place of one that is known by its name only.
    pub(crate) fn method(&self) -> &dyn Method {
        match self {
            Self::Squared(squared) => squared,
            Self::RowWise(row_wise) => row_wise,
            Self::Gaussian(gaussian) => gaussian,
            Self::Logistic(logistic) => logistic,
        }
    }

    /// The name of the loss, without parameters.
    pub fn name(&self) -> &str {
        match self {
            Self::Squared(_) => "squared",
            Self::RowWise(row_wise) => row_wise.name(),
            Self::Gaussian(_) => "gaussian",
            Self::Logistic(_) => "logistic",
        }
    }

    /// Whether classes are predicted, and which; `None` for values.
    pub fn class_list(&self) -> Option<&ClassList> {
        match self {
            Self::Squared(squared) => squared.classes.as_ref(),
            Self::RowWise(_) => None,
            Self::Gaussian(gaussian) => Some(&gaussian.classes),
            Self::Logistic(logistic) => Some(&logistic.classes),
        }
    }

    /// Whether classes are predicted.
    pub fn predicts_classes(&self) -> bool {
        self.class_list().is_some()
    }

    /// The problem with these classes and no others.
    ///
    /// # Errors
    /// When it predicts values, or the list is not one of at least two different classes.
    pub fn with_classes(mut self, names: Vec<String>) -> Result<Self> {
        let fixed = ClassList::Fixed(names).checked()?;
        match &mut self {
            Self::Squared(Squared { classes: Some(list) }) => *list = fixed,
            Self::Gaussian(gaussian) => gaussian.classes = fixed,
            Self::Logistic(logistic) => logistic.classes = fixed,
            Self::Squared(_) | Self::RowWise(_) => {
                return Err(Error::Unsupported {
                    operation: "a list of classes",
                    reason: "this model predicts values".to_owned(),
                });
            }
        }
        Ok(self)
    }

    /// The options of the problem by name: `shrinkage`, `covariance`, `calibrate`, `curvature`, `scheme`, `certify`.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        self.method().options()
    }

    /// The problem with one option set.
    ///
    /// # Errors
    /// When the problem has no such option, or the value is invalid.
    pub fn with_option(&self, name: &str, value: &str) -> Result<Self> {
        self.method().with_option(name, value)
    }

    /// Whether quadratics of tasks are their losses, or bounds of them.
    pub fn exactness(&self) -> Exactness {
        self.method().exactness()
    }

    /// Texts and facts for people.
    pub fn description(&self) -> &'static Description {
        self.method().description()
    }

    /// Why a target is invalid for this problem; `None` where it is valid.
    pub fn refuses_target(&self, y: f64) -> Option<&'static str> {
        self.method().refuses_target(y)
    }

    /// Whether all classes must be known before the first task is fitted.
    pub fn needs_all_classes(&self) -> bool {
        self.predicts_classes() && self.exactness() != Exactness::Exact
    }

    /// Whether a fit looks at the rows of a task more than once.
    pub fn looks_again(&self) -> bool {
        self.method().looks_again()
    }

    /// Whether the fit of a task depends on the tasks before it.
    #[doc(hidden)] // for python
    pub fn needs_past(&self) -> bool {
        self.method().needs_past()
    }

    /// The first pass over the rows of every task.
    pub fn first_pass(&self) -> Pass {
        self.method().first_pass()
    }

    /// Refuses settings that do not go with the problem.
    pub(crate) fn check(&self, settings: &Settings) -> Result<()> {
        settings.check()?;
        if settings.store == StoredPrecision::F32 && self.exactness() != Exactness::Exact {
            return Err(Error::Unsupported {
                operation: "keeping summaries in single precision",
                reason: format!("{self} keeps bounds, and one that was rounded would not be one"),
            });
        }
        if let Some(list) = self.class_list() {
            list.clone().checked()?;
        }
        if matches!(settings.ridge, crate::settings::Ridge::PerTarget(_))
            && !self.method().takes_ridges()
        {
            return Err(Error::Unsupported {
                operation: "a ridge for each target",
                reason: "only targets of squared loss on values are solved apart; give one number"
                    .to_owned(),
            });
        }
        self.method().check(settings)
    }
}

impl std::fmt::Display for Problem {
    /// The name of the loss with its parameters: `huber:1.5`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RowWise(row_wise) => f.write_str(&row_wise.spec()),
            _ => f.write_str(self.name()),
        }
    }
}

/// The error for an option a problem does not have.
pub(crate) fn no_such_option(problem: &str, name: &str, has: &'static str) -> Error {
    Error::Unsupported {
        operation: "this option",
        reason: format!("{problem} has no {name}; it has {has}"),
    }
}

/// The error for a pass that is not one of the problem's.
pub(crate) fn wrong_pass<T>(problem: &str) -> Result<T> {
    Err(Error::Unsupported {
        operation: "this pass",
        reason: format!("{problem} does not ask for it"),
    })
}

/// What a row-wise or squared task says of the number of values.
pub(crate) fn values_with(known: &Outputs, task: &TaskSummary) -> Result<Outputs> {
    let found = task.quadratic.targets();
    match known {
        Outputs::Values(0) => Ok(Outputs::Values(found)),
        Outputs::Values(expected) if *expected != found => {
            Err(Error::Shape { what: "the task", unit: "targets", expected: *expected, found })
        }
        same => Ok(same.clone()),
    }
}

/// What a task of class indicators says of the classes.
pub(crate) fn classes_with(
    list: &ClassList,
    known: &Outputs,
    task: &TaskSummary,
) -> Result<Outputs> {
    let classes = known.classes().cloned().unwrap_or_default();
    if *list == ClassList::Open {
        return Ok(Outputs::Classes(classes.with(&task.classes)));
    }
    match task.classes.iter().find(|name| classes.place(name).is_none()) {
        None => Ok(Outputs::Classes(classes)),
        Some(label) => Err(Error::UnknownClass {
            label: label.clone(),
            row: 0,
            known: crate::error::listing(classes.names().iter().map(String::as_str)),
        }),
    }
}

/// `1 − Σe²/Σ(y−ȳ)²` of each target; for a target that is constant up to rounding 1 if it is hit up to rounding, else 0.
pub(crate) fn r_squared(
    task: &Summary,
    theta: &Theta,
    errors: &[f64],
    accumulator: Accumulator,
) -> Vec<f64> {
    let still = task.rounding(&Theta::zeros(task.width(), task.targets()), accumulator);
    let hit = task.rounding(theta, accumulator);
    let totals = task.total_squares();
    (0..errors.len())
        .map(|k| match (totals[k] > still[k], errors[k] > hit[k]) {
            (true, _) => 1.0 - errors[k] / totals[k],
            (false, true) => 0.0,
            (false, false) => 1.0,
        })
        .collect()
}
