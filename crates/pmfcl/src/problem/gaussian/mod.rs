//! Linear discriminant analysis: class counts, class means, one covariance.
//!
//! Counts, means and scatter are sums over rows, so the model does not depend on the order or the split of tasks, merges, and
//! is exact after a removal; a class that appears later is a column of zeros before.

pub mod calibrate;
pub mod class_covariance;
mod discriminants;
pub mod normal;
mod scatter;

pub use discriminants::Discriminants;

use calibrate::{Choice, Measured};
use class_covariance::ClassModel;
use normal::LastScatter;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use super::pass::{Block, Partial, Pass, Passes, RowWork};
use super::prior::apart;
use super::response::{
    ClassRule, Densities, NearestClass, Novelty, Response, RowDistance, RowTemperature,
};
use super::sample::RowSample;
use super::squared::{Indicators, as_kept, expected};
use super::task::{Exactness, LeastLoss, TaskSummary};
use super::{
    AssessInput, Assessment, CalibrationTable, ClassList, Description, Draft, Method, Outputs,
    Past, Pool, Problem, Scored, SolveInput, Solved, TaskContext, classes_with, no_such_option,
    wrong_pass,
};
use crate::basis::Design;
use crate::error::{Error, Result};
use crate::kernel::with_threads;
use crate::labels::{Classes, order};
use crate::rows::{Rows, Targets};
use crate::settings::{Settings, finite, unknown};
use crate::solve::candidates::Judged;
use crate::solve::{Outcome, Penalty, Rank, Solution};
use crate::summary::{Accumulator, Summarizer, Summary, pool};

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
    /// Whether classes share one covariance.
    pub covariance: Covariance,
    /// How discriminants become probabilities.
    pub calibrate: Calibrate,
}

/// How far the pooled covariance is drawn toward its target; see [`Discriminants`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Shrinkage {
    /// Toward the diagonal, by as much as cross-validation of the class indicators chooses.
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

/// Whether classes share one covariance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Covariance {
    /// One for all classes: linear discriminants.
    #[default]
    Tied,
    /// One for each class, drawn toward the shared one: quadratic discriminants. See [`class_covariance`].
    Class,
}

impl fmt::Display for Covariance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Class { "class" } else { "tied" })
    }
}

impl FromStr for Covariance {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "tied" => Ok(Self::Tied),
            "class" => Ok(Self::Class),
            _ => unknown(text, "tied, class"),
        }
    }
}

/// How gaussian discriminants become probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Calibrate {
    /// At a temperature for each row, measured on a sample of the rows of every task by leave-one-out; depends on the order of
    /// tasks. See [`calibrate`].
    #[default]
    On,
    /// At temperature 1, the textbook's: probabilities are then exact under any order.
    Off,
    /// At this temperature.
    Fixed(f64),
}

impl fmt::Display for Calibrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On => f.write_str("on"),
            Self::Off => f.write_str("off"),
            Self::Fixed(t) => t.fmt(f),
        }
    }
}

impl FromStr for Calibrate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, finite(text)) {
            ("on", _) => Ok(Self::On),
            ("off", _) => Ok(Self::Off),
            (_, Some(t)) if t > 0.0 => Ok(Self::Fixed(t)),
            _ => unknown(text, "on, off, a temperature above 0"),
        }
    }
}

/// The setting that earlier versions called `temperature`: `auto` or a number, 1 by default.
fn of_temperature(text: &str) -> Result<Calibrate> {
    match (text, finite(text)) {
        ("auto", _) => Ok(Calibrate::On),
        ("1", _) => Ok(Calibrate::Off),
        (_, Some(t)) if t > 0.0 => Ok(Calibrate::Fixed(t)),
        _ => unknown(text, "auto, a number above 0"),
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
    /// The ridge on standardized features that the shrinkage stands for, where it is fixed; else 0.
    pub(super) fn least_shrinkage(&self) -> f64 {
        match self.shrinkage {
            Shrinkage::Diagonal(s) => s,
            Shrinkage::Auto | Shrinkage::Identity(_) | Shrinkage::Ridge(_) => 0.0,
        }
    }

    /// The model of a pool.
    fn fitted(&self, design: &Design, pool: &Summary, effective: f64) -> Result<Discriminants> {
        Discriminants::new(pool, effective, self.shrinkage, design.map().is_bounded())
    }

    /// The model of the current solution, made once.
    fn of<'a>(&self, input: &AssessInput<'a>) -> Result<&'a Arc<Discriminants>> {
        let solved = input.solved;
        if let Some(known) = solved.discriminants.get() {
            return Ok(known);
        }
        let fitted =
            Arc::new(self.fitted(input.context.design, &input.pool.quadratic, input.effective)?);
        Ok(solved.discriminants.get_or_init(|| fitted))
    }

    /// How the model makes probabilities, given the calibration tables of the tasks.
    fn rule(
        &self,
        model: &Discriminants,
        pool: &Pool,
        effective: f64,
        tables: &[&CalibrationTable],
    ) -> Result<ClassRule> {
        let of_classes = self.covariance == Covariance::Class;
        let measured = calibrate::choose(tables, pool.samples, of_classes)
            .filter(|_| self.calibrate == Calibrate::On);
        let temperature = self.plain_temperature(tables);
        Ok(match (of_classes, measured) {
            (false, Some(choice)) => row_temperature(model, choice),
            (false, None) => ClassRule::Softmax { temperature },
            (true, measured) => {
                let (shape, pull) = (f64::INFINITY, class_covariance::PLAIN);
                let floor = calibrate::floor(pool.samples);
                let choice = measured.unwrap_or(Choice { temperature, shape, pull, floor });
                let classes = ClassModel::new(model, &pool.scatters, effective, choice.pull)?;
                ClassRule::ClassCovariance(Arc::new(Densities {
                    temperature: choice.temperature,
                    shape: choice.shape,
                    floor: choice.floor,
                    usual: model.effective_features(),
                    classes: classes.densities(),
                }))
            }
        })
    }

    /// The scatters of a pool and the samples they stand for, where classes have covariances of their own.
    fn scatters<'a>(&self, pool: &'a Pool, effective: f64) -> Option<(&'a [Summary], f64)> {
        (self.covariance == Covariance::Class).then_some((&pool.scatters[..], effective))
    }

    /// The temperature of all rows where none was measured by leave-one-out.
    fn plain_temperature(&self, tables: &[&CalibrationTable]) -> f64 {
        match self.calibrate {
            Calibrate::Off => 1.0,
            Calibrate::Fixed(t) => t,
            Calibrate::On => calibrate::choose_old(tables),
        }
    }
}

/// The tables of all tasks: those measured now, and those before that stand as they are.
fn tables_now<'a>(
    input: &SolveInput<'a>,
    measured: &'a [(usize, CalibrationTable)],
) -> Vec<&'a CalibrationTable> {
    let again = |task: usize| measured.iter().any(|(measured, _)| *measured == task);
    let known = input.tables.iter().filter(|known| !again(known.task)).map(|known| known.table);
    known.chain(measured.iter().map(|(_, table)| table)).collect()
}

fn row_temperature(model: &Discriminants, choice: Choice) -> ClassRule {
    ClassRule::RowTemperature(Arc::new(RowTemperature {
        temperature: choice.temperature,
        shape: choice.shape,
        floor: choice.floor,
        present: model.priors().iter().map(|share| *share > 0.0).collect(),
        nearest: choice.shape.is_finite().then(|| nearest_class(model)),
    }))
}

fn nearest_class(model: &Discriminants) -> NearestClass {
    NearestClass {
        usual: model.effective_features(),
        log_shares: model.priors().iter().map(|share| share.ln()).collect(),
        centre: model.centre().to_vec(),
        whitening: model.whitening(),
    }
}

impl Method for Gaussian {
    fn check(&self, settings: &Settings) -> Result<()> {
        self.shrinkage.check()?;
        if let Calibrate::Fixed(t) = self.calibrate
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

    fn is_shrunk(&self, _: &Settings) -> bool {
        match self.shrinkage {
            Shrinkage::Auto => true,
            Shrinkage::Diagonal(s) | Shrinkage::Identity(s) | Shrinkage::Ridge(s) => s > 0.0,
        }
    }

    fn outputs(&self) -> Outputs {
        Outputs::Classes(self.classes.classes())
    }

    fn outputs_with(&self, known: &Outputs, task: &TaskSummary) -> Result<Outputs> {
        if self.covariance == Covariance::Class && task.scatters.is_empty() {
            return Err(Error::Unsupported {
                operation: "learning this summary",
                reason:
                    "it has no covariances of single classes; give the rows, or use covariance tied"
                        .to_owned(),
            });
        }
        classes_with(&self.classes, known, task)
    }

    fn check_order_free(&self) -> Result<()> {
        if self.covariance == Covariance::Class {
            return Err(Error::Unsupported {
                operation: "class covariances between clients",
                reason: "updates hold the shared covariance alone; use covariance tied".to_owned(),
            });
        }
        Ok(())
    }

    fn scores_are_measured(&self) -> bool {
        self.covariance == Covariance::Class
    }

    fn columns(&self, outputs: &Outputs) -> usize {
        outputs.classes().map_or(0, Classes::len)
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
            ("covariance", self.covariance.to_string()),
            ("calibrate", self.calibrate.to_string()),
        ]
    }

    fn with_option(&self, name: &str, value: &str) -> Result<Problem> {
        let mut changed = self.clone();
        match name {
            "shrinkage" => changed.shrinkage = value.parse()?,
            "covariance" => changed.covariance = value.parse()?,
            "calibrate" => changed.calibrate = value.parse()?,
            "temperature" => changed.calibrate = of_temperature(value)?,
            _ => return Err(no_such_option("gaussian", name, "shrinkage, covariance, calibrate")),
        }
        Ok(Problem::Gaussian(changed))
    }

    fn first_pass(&self) -> Pass {
        Pass::Summarize { sample: self.calibrate == Calibrate::On }
    }

    fn fit(
        &self,
        context: &TaskContext<'_>,
        _: &Past,
        mut first: Partial,
        _: &mut dyn Passes,
    ) -> Result<Draft> {
        let sample = first.sample.take();
        let mut whole = as_kept(context, first.into_task()?);
        // The least loss depends on the covariance of the model; what is kept is that of least squares on the indicators.
        if !whole.quadratic.is_summed() {
            whole.head.least = LeastLoss::Exact(whole.quadratic.min_loss());
        }
        Ok(Draft { sample, ..Draft::from(whole) })
    }

    fn worker(&self, context: &TaskContext<'_>, pass: &Pass) -> Result<Box<dyn RowWork>> {
        match pass {
            Pass::Summarize { sample } if self.covariance == Covariance::Class => {
                Ok(Box::new(ClassRows::new(context, *sample)))
            }
            Pass::Summarize { sample: false } => Ok(Box::new(Indicators::new(context))),
            Pass::Summarize { sample: true } => Ok(Box::new(Sampled {
                indicators: Indicators::new(context),
                sample: RowSample::new(context.design.inputs(), Vec::new()),
            })),
            _ => wrong_pass("gaussian"),
        }
    }

    fn solve(&self, input: &SolveInput<'_>) -> Result<Solved> {
        let fitted = self.fitted(input.context.design, &input.pool.quadratic, input.effective)?;
        let solution = Solution {
            theta: fitted.theta().clone(),
            rank: Rank::of(&input.pool.quadratic),
            outcome: Outcome::Unique,
            penalty: Penalty::NONE,
        };
        let mut measured = Vec::with_capacity(input.waiting.len());
        let (design, samples) = (input.context.design, input.pool.samples);
        if let Some(classes) = input.context.outputs.classes() {
            let scatters = self.scatters(input.pool, input.effective);
            let under = Measured { model: &fitted, design, classes, pooled: samples, scatters };
            let mut last = LastScatter::default();
            // Where all classes that can be have rows, none comes later.
            let complete =
                self.classes.names().is_some() && fitted.priors().iter().all(|p| *p > 0.0);
            let mut fresh = Vec::with_capacity(input.waiting.len());
            let mut before = Vec::with_capacity(input.waiting.len());
            let mut left_out = Vec::with_capacity(input.waiting.len());
            for waiting in &input.waiting {
                let (mut table, rows) = under.table(&waiting.rows)?;
                left_out.push(rows);
                if let (Some(shape), None, false) = (&waiting.shape, scatters, complete) {
                    table.normal = under.normal_losses(shape, &mut last)?;
                }
                fresh.push(table);
                before.push(match (waiting.before, &waiting.shape) {
                    (Some(table), Some(shape)) => {
                        let followed = under.with_later_classes(table, shape, &mut last)?;
                        Some(followed.unwrap_or_else(|| table.clone()))
                    }
                    (table, _) => table.cloned(),
                });
            }
            for known in &input.tables {
                if let Some(shape) = &known.shape
                    && let Some(table) = under.with_later_classes(known.table, shape, &mut last)?
                {
                    measured.push((known.task, table));
                }
            }
            let tables = tables_now(input, &measured);
            let tables: Vec<_> =
                tables.into_iter().chain(before.iter().flatten()).chain(&fresh).collect();
            if let Some(choice) = calibrate::choose(&tables, samples, scatters.is_some()) {
                let rows = left_out.iter().zip(&input.waiting);
                for (table, (rows, waiting)) in fresh.iter_mut().zip(rows) {
                    under.evaluate(&waiting.rows, rows.as_ref(), choice, table)?;
                }
            }
            // Rows that were added to a task later are measured later; the table of the task is the sum.
            for ((table, before), waiting) in fresh.into_iter().zip(before).zip(&input.waiting) {
                let whole = before.map_or_else(|| table.clone(), |before| before.plus(&table));
                measured.push((waiting.task, whole));
            }
        }
        let present: Vec<bool> = fitted.priors().iter().map(|prior| *prior > 0.0).collect();
        let tables = tables_now(input, &measured);
        let rule = self.rule(&fitted, input.pool, input.effective, &tables)?;
        let calibrated = Response::Classes { rule, present: present.clone(), first_is_zero: false };
        let mut solved = Solved::new(solution, self.response(present));
        solved.calibrated = OnceLock::from(calibrated);
        solved.tables = measured;
        solved.discriminants = OnceLock::from(Arc::new(fitted));
        Ok(solved)
    }

    fn judged(&self) -> Judged {
        Judged::Indicators
    }

    fn response(&self, present: Vec<bool>) -> Response {
        let rule = ClassRule::Softmax { temperature: 1.0 };
        Response::Classes { rule, present, first_is_zero: false }
    }

    fn calibrated(
        &self,
        input: &AssessInput<'_>,
        tables: &[&CalibrationTable],
    ) -> Result<Response> {
        let mut response = input.solved.response.clone();
        let measured = self.calibrate == Calibrate::On && calibrate::any(tables)
            || self.covariance == Covariance::Class;
        if let Response::Classes { rule, .. } = &mut response {
            *rule = if measured {
                self.rule(self.of(input)?, input.pool, input.effective, tables)?
            } else {
                ClassRule::Softmax { temperature: self.plain_temperature(tables) }
            };
        }
        Ok(response)
    }

    fn measure(&self, input: &AssessInput<'_>, rows: &Scored<'_>) -> Result<CalibrationTable> {
        let classes = input.context.outputs.classes().ok_or(Error::NotLearned)?;
        let (design, pooled) = (input.context.design, input.pool.samples);
        let scatters = self.scatters(input.pool, input.effective);
        let under = Measured { model: self.of(input)?, design, classes, pooled, scatters };
        let (mut table, left_out) = under.table(rows)?;
        if let Some(choice) = calibrate::choose(&[&table], pooled, scatters.is_some()) {
            under.evaluate(rows, left_out.as_ref(), choice, &mut table)?;
        }
        Ok(table)
    }

    fn novelty(
        &self,
        input: &AssessInput<'_>,
        tables: &[&CalibrationTable],
    ) -> Result<Option<Novelty>> {
        let model = self.of(input)?;
        let distance = match self.rule(model, input.pool, input.effective, tables)? {
            ClassRule::ClassCovariance(densities) => RowDistance::Classes(densities),
            _ => RowDistance::Shared(nearest_class(model)),
        };
        Ok(Some(Novelty { distance, learned: calibrate::distances(tables) }))
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
        match input.solved.calibrated.get() {
            Some(Response::Classes { rule: ClassRule::Softmax { temperature }, .. }) => {
                facts.push(("temperature", *temperature));
            }
            Some(Response::Classes { rule: ClassRule::RowTemperature(rule), .. }) => {
                facts.push(("temperature", rule.temperature));
                facts.extend(rule.shape.is_finite().then_some(("temperature_shape", rule.shape)));
            }
            Some(Response::Classes { rule: ClassRule::ClassCovariance(rule), .. }) => {
                facts.push(("temperature", rule.temperature));
                facts.extend(rule.shape.is_finite().then_some(("temperature_shape", rule.shape)));
            }
            _ => {}
        }
        Ok(facts)
    }

    /// Whether these are the discriminants of the memory under the shrinkage the settings ask for or, where it was chosen by
    /// another rule, under any.
    fn follows(&self, input: &SolveInput<'_>, solution: &Solution) -> Result<bool> {
        let pooled = &input.pool.quadratic;
        let gap = |shrinkage: Shrinkage| -> Result<f64> {
            let bounded = input.context.design.map().is_bounded();
            let again = Discriminants::new(pooled, input.effective, shrinkage, bounded)?;
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

/// Most bytes of the covariances of single classes of one task: 2 GB.
const MOST_SCATTERS: usize = 2_000_000_000;

/// Refuses covariances of so many classes that take more memory than allowed.
fn check_scatters(m: usize, classes: usize) -> Result<()> {
    let bytes = classes.saturating_mul(8 * m * (m + 1) / 2);
    if bytes <= MOST_SCATTERS {
        return Ok(());
    }
    Err(Error::Unsupported {
        operation: "a covariance for each class",
        reason: format!(
            "{classes} classes of {m} columns take {:.1} GB for each task, and at most {:.1} GB are used; use covariance tied, \
             or a smaller basis",
            bytes as f64 / 1e9,
            MOST_SCATTERS as f64 / 1e9
        ),
    })
}

/// Summarizes the rows of each class on their own.
struct ClassRows {
    context: Indicators,
    design: Design,
    accumulator: Accumulator,
    threads: usize,
    classes: BTreeMap<String, Summarizer>,
    taken: u64,
    sample: Option<RowSample>,
}

impl ClassRows {
    fn new(context: &TaskContext<'_>, sample: bool) -> Self {
        Self {
            context: Indicators::new(context),
            design: context.design.clone(),
            accumulator: context.settings.accumulator,
            threads: context.settings.threads,
            classes: BTreeMap::new(),
            taken: 0,
            sample: sample.then(|| RowSample::new(context.design.inputs(), Vec::new())),
        }
    }

    /// The summarizer of a class; refused where all classes together take more memory than allowed.
    fn of_class(&mut self, name: &str) -> Result<&mut Summarizer> {
        if !self.classes.contains_key(name) {
            check_scatters(self.design.width(), self.classes.len() + 1)?;
            let summarizer = Summarizer::new(self.design.clone(), 1, self.accumulator)?;
            self.classes.insert(name.to_owned(), summarizer.threads(self.threads));
        }
        Ok(self.classes.get_mut(name).expect("inserted above"))
    }
}

impl RowWork for ClassRows {
    fn wants_design_rows(&self) -> bool {
        false
    }

    fn name_new_inputs(&mut self, names: &[String]) {
        if let Some(sample) = &mut self.sample {
            *sample = RowSample::new(sample.width(), names.to_vec());
        }
    }

    fn add(&mut self, block: Block<'_>) -> Result<()> {
        let rows = block.rows;
        let Targets::Classes { codes, names } = rows.y else {
            return Err(expected("labels", "classes"));
        };
        self.context.check_classes(codes, names).map_err(|e| e.shifted(self.taken))?;
        if let Some((row, column, value)) = rows.x.first_not_finite() {
            let row = self.taken + row as u64;
            return Err(Error::NotFinite { what: "feature", row, column, value });
        }
        if let Some(sample) = &mut self.sample {
            with_threads(block.threads, || sample.add(&rows));
        }
        let width = rows.x.width();
        for (code, name) in names.iter().enumerate() {
            let own: Vec<usize> = (0..codes.len()).filter(|&i| codes[i] as usize == code).collect();
            if own.is_empty() {
                continue;
            }
            let mut cells = Vec::with_capacity(own.len() * width);
            for &i in &own {
                match rows.x.as_f64(i, i + 1) {
                    Some(row) => cells.extend_from_slice(row),
                    None => cells.extend((0..width).map(|j| rows.x.get(i, j))),
                }
            }
            let weights = rows.weights.map(|w| own.iter().map(|&i| w[i]).collect::<Vec<_>>());
            let (ones, taken) = (vec![1.0; own.len()], self.taken);
            let (x, y) = (Rows::new(&cells, width)?, Rows::new(&ones, 1)?);
            let added = self.of_class(name)?.add(x, y, weights.as_deref());
            added.map_err(|e| e.shifted(taken))?;
        }
        self.taken += rows.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let mut all = Vec::new();
        for (name, summarizer) in self.classes {
            let scatter = summarizer.finish()?;
            if scatter.n() > 0.0 {
                all.push((name, scatter));
            }
        }
        if all.is_empty() {
            return Err(Error::Empty { what: "the task" });
        }
        all.sort_by(|(a, _), (b, _)| order(a, b));
        let (classes, scatters): (Vec<String>, Vec<Summary>) = all.into_iter().unzip();
        // The target of a class is 1 in its rows and 0 in all others.
        let wide = scatters.iter().enumerate();
        let wide = wide.map(|(k, s)| s.rearrange_targets(&[k], classes.len()));
        let wide = wide.collect::<Result<Vec<_>>>()?;
        let quadratic =
            pool(self.design.width(), classes.len(), wide.iter().map(|summary| (summary, 1.0)))?;
        let mut task = TaskSummary::exact_classes(quadratic, classes, Some(self.taken));
        task.scatters = scatters;
        Ok(Partial { tasks: vec![task], sample: self.sample, ..Partial::default() })
    }
}

/// Summarizes rows and keeps a sample of them.
struct Sampled {
    indicators: Indicators,
    sample: RowSample,
}

impl RowWork for Sampled {
    fn wants_design_rows(&self) -> bool {
        false
    }

    fn name_new_inputs(&mut self, names: &[String]) {
        self.sample = RowSample::new(self.sample.width(), names.to_vec());
    }

    fn add(&mut self, block: Block<'_>) -> Result<()> {
        self.indicators.add(block.rows)?;
        with_threads(block.threads, || self.sample.add(&block.rows));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let partial = RowWork::finish(Box::new(self.indicators))?;
        Ok(Partial { sample: Some(self.sample), ..partial })
    }

    fn finish_with(mut self: Box<Self>, block: Block<'_>) -> Result<Partial> {
        with_threads(block.threads, || self.sample.add(&block.rows));
        let partial = RowWork::finish_with(Box::new(self.indicators), block)?;
        Ok(Partial { sample: Some(self.sample), ..partial })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covariances_that_do_not_fit_are_refused_with_their_size() {
        check_scatters(785, 10).unwrap();
        let refused = check_scatters(5001, 100).unwrap_err().to_string();
        assert!(refused.contains("100 classes of 5001 columns take 10.0 GB"), "{refused}");
    }
}
