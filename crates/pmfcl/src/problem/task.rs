//! What is kept of a task: the one thing that goes into memory, files and messages.

use std::borrow::Cow;
use std::fmt;

use super::content::Content;
use super::evaluate::Evaluation;
use super::moments::Moments;
use super::pool::widened;
use super::tails::Tails;
use crate::error::{Error, Result};
use crate::labels::Classes;
use crate::summary::Summary;

/// What is known of the least loss any model has on a task.
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(hidden)] // for file
pub enum LeastLoss {
    /// The least loss itself.
    Exact(f64),
    /// A number that is proved not to be above it.
    Certified(f64),
    /// Nothing.
    Unknown,
}

impl LeastLoss {
    /// That of a task whose quadratic is its loss. Sums do not show it before they are decomposed; squares are never negative.
    fn of(quadratic: &Summary) -> Self {
        if quadratic.is_summed() { Self::Certified(0.0) } else { Self::Exact(quadratic.min_loss()) }
    }

    /// The number, where one is known.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Exact(value) | Self::Certified(value) => Some(value),
            Self::Unknown => None,
        }
    }
}

/// Whether a quadratic is the loss of a task or only a bound of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)] // for file, lab, python, report
pub enum Exactness {
    /// It is the loss itself.
    Exact,
    /// It stands in for the loss; where `guaranteed` it is above the loss for every parameter.
    Bound {
        /// Whether it is above the loss for every parameter.
        guaranteed: bool,
    },
}

impl Exactness {
    /// Whether what is derived from the quadratic is proved.
    pub fn guaranteed(self) -> bool {
        !matches!(self, Self::Bound { guaranteed: false })
    }
}

/// How the fit of a task ended.
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(hidden)] // for file
pub enum FitOutcome {
    /// At the minimum, to rounding.
    Converged,
    /// At the minimum of loss and penalty; without the penalty there is none, because a linear model tells the classes apart
    /// without error.
    Separable,
    /// Before the minimum.
    Stopped {
        /// The largest entry of the gradient, relative to the sum of magnitudes it is made of (log-loss), or the last step
        /// relative to the parameters.
        gap: f64,
    },
}

impl fmt::Display for FitOutcome {
    /// `converged`, `separable`, `stopped:GAP`: as in model files, `show --json` and Python.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Converged => f.write_str("converged"),
            Self::Separable => f.write_str("separable"),
            Self::Stopped { gap } => write!(f, "stopped:{gap}"),
        }
    }
}

/// What was measured with rows of a task, each left out of the model, scaled to all samples of the task; see
/// [`crate::problem::gaussian::calibrate`]. A model file of layout 1 may have one of mean log-losses at temperatures alone.
#[derive(Debug, Clone, PartialEq, Default)]
#[doc(hidden)] // for file
pub struct CalibrationTable {
    /// Samples of the pool it was measured with; those of the task in a table of layout 1.
    pub samples: f64,
    /// Log-losses, temperatures of the first shape first.
    pub losses: Vec<f64>,
    /// Samples by their distance to the nearest class; empty in a table of layout 1.
    pub distances: Vec<f64>,
    /// How well the rows were predicted, at the temperature chosen then.
    pub left_out: Option<Evaluation>,
    /// What normal rows would have lost; where it is known, the table can follow classes that come later.
    pub normal: Option<NormalLosses>,
}

/// Log-losses of normal rows with the class means and the scatter of a task, in the order of its table; see
/// [`crate::problem::gaussian::normal`].
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // a part of `CalibrationTable`
pub struct NormalLosses {
    /// Classes that had rows.
    pub classes: f64,
    /// Log-losses.
    pub losses: Vec<f64>,
}

/// What is known of a task without its quadratic: a few dozen bytes.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for file
pub struct TaskHead {
    /// Sum of sample weights.
    pub samples: f64,
    /// Rows, where they were counted.
    pub rows: Option<u64>,
    /// Samples of each class, by place; empty for values. Classes that came later have none.
    pub counts: Vec<f64>,
    /// The least loss.
    pub least: LeastLoss,
    /// Whether the quadratic is the loss.
    pub exactness: Exactness,
    /// How the fit ended.
    pub outcome: FitOutcome,
    /// Log-losses at several temperatures (`gaussian`, once measured).
    pub calibration: Option<CalibrationTable>,
    /// A hash of the rows, where one was made.
    pub content: Option<[u8; 32]>,
}

impl TaskHead {
    /// The head of a task whose quadratic is its loss.
    pub(crate) fn exact(quadratic: &Summary, rows: Option<u64>) -> Self {
        Self {
            samples: quadratic.n(),
            rows,
            counts: Vec::new(),
            least: LeastLoss::of(quadratic),
            exactness: Exactness::Exact,
            outcome: FitOutcome::Converged,
            calibration: None,
            content: None,
        }
    }
}

impl TaskHead {
    /// The head of a task with more rows. The least loss is at least the mean of both, which are minima of their own; where the
    /// quadratic is the loss, the caller knows it exactly.
    pub(crate) fn joined(&self, part: &Self) -> Self {
        let samples = self.samples + part.samples;
        let mean = |a: f64, b: f64| (self.samples * a + part.samples * b) / samples;
        let mut counts = self.counts.clone();
        counts.resize(counts.len().max(part.counts.len()), 0.0);
        counts.iter_mut().zip(&part.counts).for_each(|(count, more)| *count += more);
        let least = match (self.least, part.least) {
            (LeastLoss::Unknown, _) | (_, LeastLoss::Unknown) => LeastLoss::Unknown,
            (LeastLoss::Exact(a), LeastLoss::Exact(b)) => LeastLoss::Exact(mean(a, b)),
            (
                LeastLoss::Exact(a) | LeastLoss::Certified(a),
                LeastLoss::Exact(b) | LeastLoss::Certified(b),
            ) => LeastLoss::Certified(mean(a, b)),
        };
        let outcome = match (self.outcome, part.outcome) {
            (FitOutcome::Stopped { gap: a }, FitOutcome::Stopped { gap: b }) => {
                FitOutcome::Stopped { gap: a.max(b) }
            }
            (stopped @ FitOutcome::Stopped { .. }, _)
            | (_, stopped @ FitOutcome::Stopped { .. }) => stopped,
            (FitOutcome::Separable, FitOutcome::Separable) => FitOutcome::Separable,
            _ => FitOutcome::Converged,
        };
        let exactness = match (self.exactness, part.exactness) {
            (Exactness::Exact, Exactness::Exact) => Exactness::Exact,
            (a, b) => Exactness::Bound { guaranteed: a.guaranteed() && b.guaranteed() },
        };
        let rows = self.rows.zip(part.rows).map(|(a, b)| a + b);
        // The table of the task is on its record, and samples of its rows are measured later.
        let calibration = None;
        let content = self
            .content
            .zip(part.content)
            .map(|(x, y)| Content::from_bytes(&x).plus(&Content::from_bytes(&y)).to_bytes());
        Self { samples, rows, counts, least, exactness, outcome, calibration, content }
    }
}

/// What is kept of a task: its loss as a quadratic, and what its problem needs to know of the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSummary {
    /// What is known without the quadratic.
    pub head: TaskHead,
    /// The loss, or a bound of it.
    pub quadratic: Summary,
    /// Moments of the design columns, where the prior needs them.
    pub moments: Option<Moments>,
    /// The rows of each class on their own, all with the target 1, where classes have covariances of their own; else empty. Classes
    /// that came later have none.
    pub scatters: Vec<Summary>,
    /// Tails of the targets, where a portfolio is chosen from by squares of values.
    pub tails: Option<Tails>,
    /// Names of the classes that `head.counts` and the targets stand for; empty for values, and once they are those of the
    /// learner, by place.
    pub classes: Vec<String>,
    /// Names of inputs beyond the agreed ones: the last columns of the quadratic.
    pub new_inputs: Vec<String>,
}

impl TaskSummary {
    /// The summary of a task whose quadratic is its loss.
    pub fn exact(quadratic: Summary, rows: Option<u64>) -> Self {
        let head = TaskHead::exact(&quadratic, rows);
        let (moments, scatters, tails) = (None, Vec::new(), None);
        let (classes, new_inputs) = (Vec::new(), Vec::new());
        Self { head, quadratic, moments, scatters, tails, classes, new_inputs }
    }

    /// The summary of a task of class indicators; `classes` name the targets.
    pub fn exact_classes(quadratic: Summary, classes: Vec<String>, rows: Option<u64>) -> Self {
        let mut task = Self { classes, ..Self::exact(quadratic, rows) };
        task.head.counts = task.quadratic.target_sums().to_vec();
        task
    }

    /// The same of some of the design columns, the quadratic of which is given.
    ///
    /// # Errors
    /// As [`Summary::choose_columns`].
    pub(crate) fn with_columns(
        &self,
        quadratic: Summary,
        columns: &[usize],
        intercept: bool,
    ) -> Result<Self> {
        let first = usize::from(intercept);
        let features: Vec<usize> =
            columns.iter().filter(|j| **j >= first).map(|j| j - first).collect();
        let mut task = self.clone();
        task.scatters =
            self.scatters.iter().map(|s| s.choose_columns(columns)).collect::<Result<_>>()?;
        task.moments = self.moments.as_ref().map(|moments| moments.choose(&features));
        if let LeastLoss::Exact(_) = task.head.least {
            task.head.least = LeastLoss::Exact(quadratic.min_loss());
        }
        task.quadratic = quadratic;
        Ok(task)
    }

    /// The same in single precision, except for the first row of the quadratic, which holds the means, and the sums: every other
    /// number is off by a share of at most 2⁻²⁴, so the summary is that of rows nearby, and a bound holds except for that rounding.
    ///
    /// # Errors
    /// When a number is outside the range of single precision.
    pub fn in_single(mut self) -> Result<Self> {
        let s = &self.quadratic;
        let mut packed = Vec::with_capacity(s.numbers());
        for (i, (pivot, r, z)) in s.iter().enumerate() {
            let zeros = std::iter::repeat_n(0.0, s.width() - pivot - r.len());
            for v in r.iter().copied().chain(zeros).chain(z.iter().copied()) {
                let short = f64::from(v as f32);
                let lost = !short.is_finite() || v != 0.0 && v.abs() < f64::from(f32::MIN_POSITIVE);
                if i > 0 && lost {
                    return Err(Error::Range {
                        what: "a number of the summary",
                        value: v,
                        must: "within single precision; rescale the features, or keep doubles",
                    });
                }
                packed.push(if i > 0 { short } else { v });
            }
        }
        let pivots = s.pivots().map(|j| j as u32).collect();
        let (c, totals) = (s.residual().to_vec(), s.target_sums().to_vec());
        let shape = (s.n(), s.width(), s.targets());
        self.quadratic = Summary::from_numbers(shape, pivots, packed, c, totals)?;
        Ok(self)
    }

    /// Whether [`TaskSummary::in_single`] would change nothing.
    pub fn is_single(&self) -> bool {
        let kept = |v: &f64| f64::from(*v as f32).to_bits() == v.to_bits();
        self.quadratic.iter().skip(1).all(|(_, r, z)| r.iter().chain(z).all(kept))
    }

    /// Bytes of all numbers.
    pub fn nbytes(&self) -> usize {
        self.quadratic.nbytes()
            + self.moments.as_ref().map_or(0, Moments::nbytes)
            + self.scatters.iter().map(Summary::nbytes).sum::<usize>()
            + self.tails.as_ref().map_or(0, Tails::nbytes)
    }

    /// The same where the zeros of a diagonal quadratic are counted, as earlier versions did.
    pub(crate) fn padded_nbytes(&self) -> usize {
        self.nbytes() + self.quadratic.padded_nbytes() - self.quadratic.nbytes()
    }

    /// Both sets of rows together; inputs and classes are matched by name. For parts of one task whose loss is exact, and for
    /// sums that are made before a bound is.
    ///
    /// # Errors
    /// When the two have different columns or targets, or sums of squares overflow.
    pub fn merge(&self, other: &Self) -> Result<Self> {
        self.clone().merged(other)
    }

    /// As [`TaskSummary::merge`]; sums of products that nobody else has are changed where they are.
    ///
    /// # Errors
    /// As [`TaskSummary::merge`].
    pub(crate) fn merged(self, other: &Self) -> Result<Self> {
        let base = self.quadratic.width() - self.new_inputs.len();
        if base != other.quadratic.width() - other.new_inputs.len() {
            return Err(Error::Mismatch {
                what: "number of feature columns",
                left: base.to_string(),
                right: (other.quadratic.width() - other.new_inputs.len()).to_string(),
            });
        }
        let new_inputs = united(&self.new_inputs, &other.new_inputs);
        let classes = united(&self.classes, &other.classes);
        let b = other.placed(&new_inputs, &classes)?;
        let is_exact = matches!(self.head.least, LeastLoss::Exact(_));
        let mut a = match self.placed(&new_inputs, &classes)? {
            Cow::Owned(placed) => placed,
            Cow::Borrowed(_) => self,
        };
        let none = Summary::empty(1, 1);
        let quadratic = std::mem::replace(&mut a.quadratic, none).merged(&b.quadratic)?;
        let moments = match (&a.moments, &b.moments) {
            (Some(x), Some(y)) => Some(x.plus(y, 1.0)),
            (x, y) => x.as_ref().or(y.as_ref()).cloned(),
        };
        let (samples, rows) =
            (a.head.samples + b.head.samples, a.head.rows.zip(b.head.rows).map(|(x, y)| x + y));
        let counts = a.head.counts.iter().zip(&b.head.counts).map(|(x, y)| x + y).collect();
        let least = if is_exact { LeastLoss::of(&quadratic) } else { a.head.least };
        let content = a
            .head
            .content
            .zip(b.head.content)
            .map(|(x, y)| Content::from_bytes(&x).plus(&Content::from_bytes(&y)).to_bytes());
        let head = TaskHead { samples, rows, counts, least, content, ..a.head.clone() };
        let none = Summary::empty(quadratic.width(), 1);
        let of = |all: &[Summary], k: usize| all.get(k).unwrap_or(&none).clone();
        let count = a.scatters.len().max(b.scatters.len());
        let scatters = (0..count)
            .map(|k| of(&a.scatters, k).merge(&of(&b.scatters, k)))
            .collect::<Result<Vec<_>>>()?;
        let tails = Tails::united(a.tails.as_ref(), b.tails.as_ref());
        Ok(Self { head, quadratic, moments, scatters, tails, classes, new_inputs })
    }

    /// With more rows of the same task, over `m` columns and `p` targets; both have their classes in the places of the learner.
    pub(crate) fn joined(&self, part: &Self, (m, p): (usize, usize)) -> Result<Self> {
        let quadratic = self.widened(m, p)?.merge(&*part.widened(m, p)?)?;
        let mut head = self.head.joined(&part.head);
        if let LeastLoss::Exact(_) = head.least {
            head.least = LeastLoss::of(&quadratic);
        }
        let moments = match (&self.moments, &part.moments) {
            (Some(x), Some(y)) => Some(x.plus(y, 1.0)),
            (x, y) => x.as_ref().or(y.as_ref()).cloned(),
        };
        let scatters = (0..self.scatters.len().max(part.scatters.len()))
            .map(|k| {
                wide_scatter(&self.scatters, k, m)?.merge(&wide_scatter(&part.scatters, k, m)?)
            })
            .collect::<Result<Vec<_>>>()?;
        let tails = Tails::united(self.tails.as_ref(), part.tails.as_ref());
        let (classes, new_inputs) = (Vec::new(), Vec::new());
        Ok(Self { head, quadratic, moments, scatters, tails, classes, new_inputs })
    }

    /// Without some of its rows, over `m` columns and `p` targets; both have their classes in the places of the learner. For losses that
    /// are exact.
    ///
    /// # Errors
    /// When these are no rows of the task, or too few digits would remain.
    pub(crate) fn without(&self, rows: &Self, (m, p): (usize, usize)) -> Result<Self> {
        let quadratic = self.widened(m, p)?.remove(&*rows.widened(m, p)?)?;
        let scatters = (0..self.scatters.len())
            .map(|k| {
                let whole = wide_scatter(&self.scatters, k, m)?;
                without_scatter(whole, &wide_scatter(&rows.scatters, k, m)?)
            })
            .collect::<Result<_>>()?;
        let content = self
            .head
            .content
            .zip(rows.head.content)
            .map(|(a, b)| Content::from_bytes(&a).minus(&Content::from_bytes(&b)).to_bytes());
        let head = TaskHead {
            samples: quadratic.n(),
            rows: self.head.rows.zip(rows.head.rows).map(|(a, b)| a.saturating_sub(b)),
            least: LeastLoss::Exact(quadratic.min_loss()),
            calibration: None,
            content,
            ..self.head.clone()
        };
        let tails = Tails::apart(self.tails.as_ref(), rows.tails.as_ref());
        Ok(Self { head, quadratic, scatters, tails, ..self.clone() })
    }

    /// With inputs and classes put where these lists have them.
    fn placed(&self, new_inputs: &[String], classes: &[String]) -> Result<Cow<'_, Self>> {
        if self.new_inputs == new_inputs && self.classes == classes {
            return Ok(Cow::Borrowed(self));
        }
        let known = self.quadratic.width() - self.new_inputs.len();
        let mut places: Vec<usize> = (0..known).collect();
        places.extend(self.new_inputs.iter().map(|name| known + position(new_inputs, name)));
        let mut task = self.rearranged(&places, known + new_inputs.len())?;
        new_inputs.clone_into(&mut task.new_inputs);
        if self.classes != classes {
            let places: Vec<usize> =
                self.classes.iter().map(|name| position(classes, name)).collect();
            task = task.with_targets_at(&places, classes.len())?;
            classes.clone_into(&mut task.classes);
        }
        Ok(Cow::Owned(task))
    }

    /// With design column `j` at `places[j]` of `width`; the others are zero for all rows.
    ///
    /// # Errors
    /// When there is not one place for each column, or two go to the same one, or beyond `width`.
    pub fn rearranged(&self, places: &[usize], width: usize) -> Result<Self> {
        let quadratic = self.quadratic.rearrange(places, width)?;
        let moments = self.moments.as_ref().map(|m| {
            let skip = places.len() - m.columns();
            let places: Vec<usize> = places[skip..].iter().map(|place| place - skip).collect();
            m.rearranged(&places, width - skip)
        });
        let scatters = self.scatters.iter().map(|s| s.rearrange(places, width));
        let scatters = scatters.collect::<Result<Vec<_>>>()?;
        Ok(Self { quadratic, moments, scatters, ..self.clone() })
    }

    /// Over `m` columns, those it lacks zero for all rows, and behind them columns that have had one value each.
    ///
    /// # Errors
    /// As [`Summary::extend_constants`].
    pub(crate) fn with_constants(&self, m: usize, values: &[f64]) -> Result<Self> {
        let wider =
            |s: &Summary| s.extend_features(s.width(), m - s.width())?.extend_constants(values);
        let (quadratic, own) = (wider(&self.quadratic)?, self.quadratic.width());
        let scatters = self.scatters.iter().map(wider).collect::<Result<Vec<_>>>()?;
        let moments = self
            .moments
            .as_ref()
            .map(|moments| moments.with_constants(moments.columns() + m - own, values));
        Ok(Self { quadratic, moments, scatters, ..self.clone() })
    }

    /// With target `k` and its count at `places[k]` of `count`.
    fn with_targets_at(&self, places: &[usize], count: usize) -> Result<Self> {
        let mut task = self.clone();
        // The columns of log-loss are not those of the classes: they never move.
        if self.quadratic.targets() == places.len() {
            task.quadratic = self.quadratic.rearrange_targets(places, count)?;
        }
        task.head.counts = vec![0.0; count];
        for (place, samples) in places.iter().zip(&self.head.counts) {
            task.head.counts[*place] = *samples;
        }
        task.scatters = moved_scatters(&self.scatters, places, count);
        Ok(task)
    }

    /// With targets and counts in the places a learner has for its classes.
    pub(crate) fn aligned(self, classes: &Classes) -> Result<Self> {
        if self.classes.is_empty() {
            return Ok(self);
        }
        if self.classes == classes.by_place() {
            return Ok(Self { classes: Vec::new(), ..self });
        }
        let place = |name: &String| {
            classes.place(name).map(|at| at as usize).ok_or_else(|| Error::UnknownClass {
                label: name.clone(),
                row: 0,
                known: crate::error::listing(classes.names().iter().map(String::as_str)),
            })
        };
        let places = self.classes.iter().map(place).collect::<Result<Vec<_>>>()?;
        let mut task = self.with_targets_at(&places, classes.len())?;
        task.classes = Vec::new();
        Ok(task)
    }

    /// The quadratic over `m` columns and `p` targets; those it lacks have been zero.
    pub(crate) fn widened(&self, m: usize, p: usize) -> Result<Cow<'_, Summary>> {
        let (own_m, own_p) = (self.quadratic.width(), self.quadratic.targets());
        if (own_m, own_p) == (m, p) {
            return Ok(Cow::Borrowed(&self.quadratic));
        }
        if own_m > m || own_p > p {
            return Err(Error::Shape {
                what: "the summary",
                unit: if own_m > m { "columns" } else { "targets" },
                expected: if own_m > m { m } else { p },
                found: if own_m > m { own_m } else { own_p },
            });
        }
        let wider = self.quadratic.extend_features(own_m, m - own_m)?;
        Ok(Cow::Owned(wider.extend_targets(own_p, p - own_p)?))
    }
}

/// Scatters of classes, that of class `k` at `places[k]` of `count`; none where there were none.
pub(crate) fn moved_scatters(scatters: &[Summary], places: &[usize], count: usize) -> Vec<Summary> {
    let Some(first) = scatters.first() else { return Vec::new() };
    let mut moved = vec![Summary::empty(first.width(), 1); count];
    for (scatter, place) in scatters.iter().zip(places) {
        moved[*place].clone_from(scatter);
    }
    moved
}

/// The scatter of a class over `m` columns; an empty one where there is none.
pub(super) fn wide_scatter(scatters: &[Summary], k: usize, m: usize) -> Result<Summary> {
    scatters.get(k).map_or_else(|| Ok(Summary::empty(m, 1)), |s| Ok(widened(s, m, 1)?.into_owned()))
}

/// The scatter of a class without some of its rows. A class of which none is left has nothing but rounding.
pub(super) fn without_scatter(whole: Summary, out: &Summary) -> Result<Summary> {
    if out.n() <= 0.0 {
        return Ok(whole);
    }
    if whole.n() - out.n() <= 1e-9 * whole.n() {
        return Ok(Summary::empty(whole.width(), 1));
    }
    whole.remove(out)
}

/// All names of both lists, those of the first in front.
fn united(a: &[String], b: &[String]) -> Vec<String> {
    let mut all = a.to_vec();
    all.extend(b.iter().filter(|name| !a.contains(name)).cloned());
    all
}

fn position(list: &[String], name: &String) -> usize {
    list.iter().position(|n| n == name).expect("the list holds every name")
}
