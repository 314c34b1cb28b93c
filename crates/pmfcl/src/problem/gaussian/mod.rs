//! Linear discriminant analysis: class counts, class means, one covariance.
//!
//! Counts, means and scatter are sums over rows, so the model does not depend on the order or the split of tasks, merges, and
//! is exact after a removal; a class that appears later is a column of zeros before.

pub mod calibrate;
mod discriminants;
mod scatter;

pub use discriminants::Discriminants;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use super::pass::{Block, Partial, Pass, Passes, RowWork};
use super::prior::apart;
use super::response::{ClassRule, Response};
use super::squared::Indicators;
use super::task::{Exactness, LeastLoss, TaskSummary};
use super::{
    AssessInput, Assessment, CalibrationTable, ClassList, Description, Draft, Method, Outputs,
    Past, Problem, SolveInput, Solved, TaskContext, classes_with, no_such_option, wrong_pass,
};
use crate::error::{Error, Result};
use crate::labels::Classes;
use crate::rows::{Targets, TaskRows};
use crate::settings::{Settings, finite, unknown};
use crate::solve::{Outcome, Penalty, Solution};
use crate::summary::Summary;
use calibrate::{GRID, Score, Scoring};

/// Discriminants that agree to this share are the same, computed in another order.
const SAME: f64 = 1e-7;

/// Linear discriminant analysis.
///
/// The loss of a task is the mean of `½ ‖x − μ_y‖²_{Σ⁻¹} − log π_y`, half the squared Mahalanobis distance of a row to the mean of
/// its class plus the log-loss of the class shares. That is `−log p(x, y)` less `½ log det 2πΣ`, which is common to all rows and
/// tasks and is all that the features' units enter: a density has no least value, this loss is never negative. The least loss is
/// the least any class means and class shares reach *under the covariance of the current model* (with the covariance free too there
/// is no least). So `forgetting = ½ Σ_k π_tk ‖μ_tk − μ_k‖²_{Σ⁻¹} + KL(π_t ‖ π)`: how far means and shares have moved from the task's
/// own. All three are exact. They are unknown where the preference leaves a class of the task without weight, and in folded memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gaussian {
    /// The classes.
    pub classes: ClassList,
    /// How the covariance is shrunk.
    pub shrinkage: Shrinkage,
    /// What discriminants are divided by before they become probabilities.
    pub temperature: Temperature,
}

/// How far the pooled covariance is drawn toward its target; see [`Discriminants`].
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

impl fmt::Display for Shrinkage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Diagonal(s) => write!(f, "diagonal:{s}"),
            Self::Identity(s) => write!(f, "identity:{s}"),
            Self::Ridge(s) => write!(f, "ridge:{s}"),
        }
    }
}

impl FromStr for Shrinkage {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const NAMES: &str = "auto, diagonal:S, identity:S, ridge:S";
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let Some((name, Some(value))) = text.split_once(':').map(|(n, v)| (n, finite(v))) else {
            return unknown(text, NAMES);
        };
        match name {
            "diagonal" => Ok(Self::Diagonal(value)),
            "identity" => Ok(Self::Identity(value)),
            "ridge" => Ok(Self::Ridge(value)),
            _ => unknown(text, NAMES),
        }
    }
}

/// What gaussian discriminants are divided by before they become probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Temperature {
    /// A given one. 1, the default, is the textbook's; probabilities are then exact under any order.
    Fixed(f64),
    /// Measured on the rows of every task before they are learned; depends on the order of tasks. See [`calibrate`].
    Auto,
}

impl Default for Temperature {
    fn default() -> Self {
        Self::Fixed(1.0)
    }
}

impl fmt::Display for Temperature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(t) => t.fmt(f),
        }
    }
}

impl FromStr for Temperature {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, finite(text)) {
            ("auto", _) => Ok(Self::Auto),
            (_, Some(t)) => Ok(Self::Fixed(t)),
            _ => unknown(text, "auto, a number above 0"),
        }
    }
}

const DESCRIPTION: Description = Description {
    title: "gaussian: linear discriminants",
    meaning: "Loss is half the squared Mahalanobis distance of a row to the mean of its class, plus the log-loss of the class \
              shares, averaged over rows: the negative log-likelihood of row and class without the part that depends on units. \
              It is near half the number of features however well the classes are told apart, so look at the forgetting.",
    axis: "loss",
    least: "least loss",
    stand_in: Some(
        "The discriminants have no such losses, so these are those of least squares on 0/1 class indicators, solved from the \
         same summaries: a stand-in.",
    ),
    coefficients: Some(
        "A coefficient says how the discriminant of its class rises with the feature.",
    ),
    timeline_gap: "The gap between the two lines is the mean forgetting; both are exact. Distances are measured by the \
                   covariance the model had then, so compare the lines with each other and not a line with its own past.",
    test_of: Some("least squares on 0/1 classes"),
    test_note: Some("Errors of 0/1 targets are not normal: take the p-values as approximate."),
    shrunk: Some("the covariance"),
    table_note: Some(
        "loss: half the squared Mahalanobis distance of a row to the mean of its class, plus the log-loss of the class shares",
    ),
    no_errors: Some("Discriminants are no least-squares fit: they have no standard errors."),
    exact: true,
    has_zero: false,
    testable: true,
    least_squares_stand_in: true,
};

impl Gaussian {
    /// The model of a pool.
    fn fitted(&self, pool: &Summary, effective: f64) -> Result<Discriminants> {
        Discriminants::new(pool, effective, self.shrinkage)
    }

    /// The model of the current solution, made once.
    fn of<'a>(&self, input: &AssessInput<'a>) -> Result<&'a Arc<Discriminants>> {
        let solved = input.solved;
        if let Some(known) = solved.discriminants.get() {
            return Ok(known);
        }
        let fitted = Arc::new(self.fitted(&input.pool.quadratic, input.effective)?);
        Ok(solved.discriminants.get_or_init(|| fitted))
    }

    /// Log-losses of the rows of a task at several temperatures, each half under the model of the past and the other half.
    fn calibrated(
        &self,
        context: &TaskContext<'_>,
        past: &Past,
        halves: &[TaskSummary],
        whole: &TaskSummary,
        passes: &mut dyn Passes,
    ) -> Result<Option<CalibrationTable>> {
        let [first, second] = halves else { return Ok(None) };
        if first.head.samples <= 0.0 || second.head.samples <= 0.0 {
            return Ok(None);
        }
        let classes = context.outputs.classes().cloned().unwrap_or_default().with(&whole.classes);
        let (m, p) = (context.design.width(), classes.len());
        let arrival = context.settings.prefer.arrival(whole.head.samples, past.weight);
        let known = |half: &TaskSummary| {
            let half = half.clone().aligned(&classes)?;
            let own = half.widened(m, p)?.into_owned();
            let (Some(pool), Some((share, fade))) = (&past.pool, arrival) else {
                return self.fitted(&own, own.n());
            };
            let before = super::widened(&pool.quadratic, m, p)?.scale(fade)?;
            let samples = pool.samples + own.n();
            self.fitted(&before.merge(&own.scale(share / whole.head.samples)?)?, samples)
        };
        let shares = whole.clone().aligned(&classes)?.quadratic.target_mean();
        let names = classes.by_place().to_vec();
        let scoring = Scoring::new([&known(first)?, &known(second)?], names, shares);
        let sums = passes.run(&Pass::Score(Box::new(scoring)))?.sums;
        let scored = sums[GRID];
        let mean = |sum: &f64| if scored > 0.0 { sum / scored } else { 0.0 };
        let losses = sums[..GRID].iter().map(mean).collect();
        Ok(Some(CalibrationTable { samples: whole.head.samples, losses }))
    }
}

impl Method for Gaussian {
    fn check(&self, settings: &Settings) -> Result<()> {
        self.shrinkage.check()?;
        if let Temperature::Fixed(t) = self.temperature
            && !(t > 0.0 && t.is_finite())
        {
            return Err(Error::Range {
                what: "temperature",
                value: t,
                must: "positive and finite",
            });
        }
        if !settings.intercept {
            return Err(Error::Unsupported {
                operation: "gaussian without an intercept",
                reason: "class means and class shares are its intercept; leave it on".to_owned(),
            });
        }
        Ok(())
    }

    fn outputs(&self) -> Outputs {
        Outputs::Classes(self.classes.classes())
    }

    fn outputs_with(&self, known: &Outputs, task: &TaskSummary) -> Result<Outputs> {
        classes_with(&self.classes, known, task)
    }

    fn columns(&self, outputs: &Outputs) -> usize {
        outputs.classes().map_or(0, Classes::len)
    }

    fn check_order_free(&self) -> Result<()> {
        if self.temperature == Temperature::Auto {
            return Err(Error::Unsupported {
                operation: "an automatic temperature between clients",
                reason: "it depends on the order of tasks; fix it".to_owned(),
            });
        }
        Ok(())
    }

    fn check_boundable(&self) -> Result<()> {
        Err(Error::Unsupported {
            operation: "a diagonal update",
            reason: "discriminants need the covariance itself; send it whole, or use squared"
                .to_owned(),
        })
    }

    fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        vec![
            ("shrinkage", self.shrinkage.to_string()),
            ("temperature", self.temperature.to_string()),
        ]
    }

    fn with_option(&self, name: &str, value: &str) -> Result<Problem> {
        let mut changed = self.clone();
        match name {
            "shrinkage" => changed.shrinkage = value.parse()?,
            "temperature" => changed.temperature = value.parse()?,
            _ => return Err(no_such_option("gaussian", name, "shrinkage, temperature")),
        }
        Ok(Problem::Gaussian(changed))
    }

    fn first_pass(&self) -> Pass {
        Pass::Summarize { halves: self.temperature == Temperature::Auto }
    }

    fn looks_again(&self) -> bool {
        self.temperature == Temperature::Auto
    }

    fn needs_past(&self) -> bool {
        self.temperature == Temperature::Auto
    }

    fn fit(
        &self,
        context: &TaskContext<'_>,
        past: &Past,
        first: Partial,
        passes: &mut dyn Passes,
    ) -> Result<Draft> {
        let halves = first.tasks;
        let mut whole = match &halves[..] {
            [a, b] => a.merge(b)?,
            [one] => one.clone(),
            _ => return Err(Error::Empty { what: "the task" }),
        };
        if self.temperature == Temperature::Auto {
            let table = self.calibrated(context, past, &halves, &whole, passes)?;
            whole.head.calibration = table;
        }
        // The least loss depends on the covariance of the model; what is kept is that of least squares on the indicators.
        whole.head.least = LeastLoss::Exact(whole.quadratic.min_loss());
        Ok(whole.into())
    }

    fn worker(&self, context: &TaskContext<'_>, pass: &Pass) -> Result<Box<dyn RowWork>> {
        match pass {
            Pass::Summarize { halves: false } => Ok(Box::new(Indicators::new(context))),
            Pass::Summarize { halves: true } => Ok(Box::new(Halves {
                width: context.design.width(),
                parts: [Indicators::new(context), Indicators::new(context)],
            })),
            Pass::Score(scoring) => {
                let sums = vec![0.0; GRID + 1];
                Ok(Box::new(Score { scoring: (**scoring).clone(), sums }))
            }
            _ => wrong_pass("gaussian"),
        }
    }

    fn solve(&self, input: &SolveInput<'_>) -> Result<Solved> {
        let fitted = self.fitted(&input.pool.quadratic, input.effective)?;
        let solution = Solution {
            theta: fitted.theta().clone(),
            rank: fitted.rank(),
            outcome: Outcome::Unique,
            penalty: Penalty::NONE,
        };
        let present = fitted.priors().iter().map(|prior| *prior > 0.0).collect();
        let response = self.response(present, &input.tables);
        Ok(Solved { solution, response, discriminants: OnceLock::from(Arc::new(fitted)) })
    }

    fn response(&self, present: Vec<bool>, tables: &[&CalibrationTable]) -> Response {
        let temperature = match self.temperature {
            Temperature::Fixed(t) => t,
            Temperature::Auto => calibrate::best(tables.iter().copied()),
        };
        Response::Classes {
            rule: ClassRule::Softmax { temperature },
            present,
            first_is_zero: false,
        }
    }

    fn assess(
        &self,
        input: &AssessInput<'_>,
        _: &TaskSummary,
        quadratic: &Summary,
    ) -> Result<Assessment> {
        let known = self.of(input)?.on_task(quadratic)?;
        let forgetting = known.map(|(_, forgetting)| forgetting);
        Ok(Assessment {
            loss: known.map(|(loss, _)| loss),
            least: known.map(|(loss, forgetting)| (loss - forgetting).max(0.0)),
            forgetting,
            bound: forgetting,
            ..Assessment::default()
        })
    }

    fn facts(&self, input: &AssessInput<'_>) -> Result<Vec<(&'static str, f64)>> {
        let mut facts = vec![("shrinkage", self.of(input)?.shrinkage())];
        if let Response::Classes { rule: ClassRule::Softmax { temperature }, .. } =
            &input.solved.response
        {
            facts.push(("temperature", *temperature));
        }
        Ok(facts)
    }

    /// Whether these are the discriminants of the memory under the shrinkage the settings ask for or, where it was chosen by
    /// another rule, under any.
    fn follows(&self, input: &SolveInput<'_>, solution: &Solution) -> Result<bool> {
        let pooled = &input.pool.quadratic;
        let gap = |shrinkage: Shrinkage| -> Result<f64> {
            let again = Discriminants::new(pooled, input.effective, shrinkage)?;
            Ok(apart(pooled, &solution.theta, again.theta()))
        };
        let asked = gap(self.shrinkage)?;
        if asked <= SAME || self.shrinkage != Shrinkage::Auto {
            return Ok(asked <= SAME);
        }
        let at = |x: f64| gap(Shrinkage::Diagonal(10f64.powf(x).min(1.0)));
        let mut best = (f64::INFINITY, 0.0);
        for step in 0..=64 {
            let x = -8.0 + f64::from(step) / 8.0;
            let found = at(x)?;
            if found < best.0 {
                best = (found, x);
            }
        }
        let (mut low, mut high) = (best.1 - 0.125, best.1 + 0.125);
        for _ in 0..60 {
            let third = (high - low) / 3.0;
            if at(low + third)? < at(high - third)? { high -= third } else { low += third }
        }
        Ok(at(f64::midpoint(low, high))? <= SAME)
    }
}

/// Summarizes the two halves of a task apart.
struct Halves {
    width: usize,
    parts: [Indicators; 2],
}

impl RowWork for Halves {
    fn add(&mut self, block: Block<'_>) -> Result<()> {
        let (rows, d) = (block.rows, block.rows.x.width());
        let Targets::Classes { codes, names } = rows.y else {
            return Err(super::squared::expected("labels", "classes"));
        };
        self.parts[0].check_classes(codes, names).map_err(|e| e.shifted(block.first))?;
        let mut x = [Vec::new(), Vec::new()];
        let mut own = [Vec::new(), Vec::new()];
        let mut weights = [Vec::new(), Vec::new()];
        for (i, row) in block.cells.chunks_exact(self.width).enumerate() {
            let half = calibrate::half(row);
            x[half].extend((0..d).map(|j| rows.x.get(i, j)));
            own[half].push(codes[i]);
            weights[half].extend(rows.weights.map(|w| w[i]));
        }
        for half in 0..2 {
            if own[half].is_empty() {
                continue;
            }
            let weights = rows.weights.is_some().then_some(&weights[half][..]);
            let y = Targets::Classes { codes: &own[half], names };
            let x = crate::rows::Rows::new(&x[half], d)?;
            self.parts[half].add(TaskRows { x, y, weights })?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let width = self.width;
        let [a, b] = self.parts;
        // A half without rows has the classes of the other, so that parts of a task merge half by half.
        let none = |other: &TaskSummary| {
            let empty = Summary::empty(width, other.classes.len());
            TaskSummary::exact_classes(empty, other.classes.clone(), Some(0))
        };
        let tasks = match (a.finish()?, b.finish()?) {
            (Some(a), Some(b)) => vec![a, b],
            (Some(a), None) => vec![a.clone(), none(&a)],
            (None, Some(b)) => vec![none(&b), b],
            (None, None) => return Err(Error::Empty { what: "the task" }),
        };
        Ok(Partial { tasks, ..Partial::default() })
    }
}
