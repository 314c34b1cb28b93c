//! What one task's loss surface looks like, and the quadratic that stands for it.
//!
//! Every loss here is a function of the linear predictor `η = φ(x)ᵀθ`, row by row. A loss states its
//! value, its gradient and a curvature `c` such that
//!
//! ```text
//! ℓ(η + δ) ≤ ℓ(η) + gᵀδ + (c/2)‖δ‖²      for all δ
//! ```
//!
//! The right side is, row by row, a weighted square: weight `c`, working target `η − g/c`. So a bound
//! is a least-squares summary like any other, and learner, preferences, fronts and merging carry over
//! unchanged. For squared loss the bound is the loss itself, whatever the anchor.
//!
//! Paper: Assumption 5.1 (`asm:qub`), widened to any anchor; Algorithm 1 (`alg:general_mfcl`).

mod huber;
pub mod logistic;
mod poisson;

pub use huber::Huber;
pub use poisson::Poisson;

use crate::error::{Error, Result};
use crate::rows::Rows;
use crate::solve::{Model, Penalty, solve};
use crate::summary::{Accumulator, Design, Summarizer, Summary};
use crate::theta::Theta;

/// Value and curvature of a loss at one row; the gradient is written beside it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// `ℓ(η, y)`
    pub value: f64,
    /// `c > 0` of the quadratic bound.
    pub curvature: f64,
}

/// A loss of the linear predictor that has a quadratic upper bound.
///
/// Bring your own: state value, gradient and curvature, and the learner does the rest. Huber's loss, for
/// instance, is bounded everywhere by a square of curvature 1:
///
/// ```
/// use pmfcl::{Learner, Loss, Point, Ridge, Rows, Settings};
///
/// #[derive(Debug)]
/// struct Huber;
///
/// impl Loss for Huber {
///     fn name(&self) -> &str {
///         "huber"
///     }
///     fn at(&self, eta: &[f64], y: &[f64], gradient: &mut [f64]) -> Point {
///         let e = eta[0] - y[0];
///         gradient[0] = e.clamp(-1.0, 1.0);
///         let value = if e.abs() <= 1.0 { e * e / 2.0 } else { e.abs() - 0.5 };
///         Point { value, curvature: 1.0 }
///     }
///     fn guaranteed(&self) -> bool {
///         true
///     }
/// }
///
/// let settings = Settings { ridge: Ridge::Fixed(1e-6), ..Settings::default() };
/// let mut learner = Learner::with_loss(settings, Huber)?;
/// let x = [0.0, 1.0, 2.0, 3.0, 4.0];
/// learner.learn("clean", Rows::new(&x, 1)?, Rows::new(&[0.0, 1.0, 2.0, 3.0, 4.0], 1)?)?;
/// learner.learn("outlier", Rows::new(&x, 1)?, Rows::new(&[0.0, 1.0, 2.0, 3.0, 99.0], 1)?)?;
/// let slope = learner.model()?.theta.column(0)[1];
/// assert!((slope - 1.0).abs() < 0.3, "the outlier does not pull the slope to {slope}");
/// assert!(learner.tasks()?.iter().all(|t| t.guaranteed && t.bound >= Some(0.0)));
/// # Ok::<(), pmfcl::Error>(())
/// ```
pub trait Loss: std::fmt::Debug + Send + Sync {
    /// Its name, stored with the model.
    fn name(&self) -> &str;

    /// Value, gradient `dℓ/dη` (written to `gradient`) and curvature at one row.
    fn at(&self, eta: &[f64], y: &[f64], gradient: &mut [f64]) -> Point;

    /// Whether the bound holds for all `δ`; where not, the quadratic is only a local model and nothing
    /// derived from it is called a guarantee.
    fn guaranteed(&self) -> bool;

    /// Whether the bound *is* the loss, whatever the anchor. Only squared loss.
    fn exact(&self) -> bool {
        false
    }

    /// Columns of `θ` for `targets` columns of targets.
    fn columns(&self, targets: usize) -> usize {
        targets
    }
}

/// Half the squared error, `½‖η − y‖²`: the quadratic bound is exact.
///
/// Paper: eq. 4 (`eq:linreg-task-loss`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Squared;

impl Loss for Squared {
    fn name(&self) -> &'static str {
        "squared"
    }

    fn at(&self, eta: &[f64], y: &[f64], gradient: &mut [f64]) -> Point {
        let mut value = 0.0;
        for ((g, eta), y) in gradient.iter_mut().zip(eta).zip(y) {
            *g = eta - y;
            value += *g * *g / 2.0;
        }
        Point { value, curvature: 1.0 }
    }

    fn guaranteed(&self) -> bool {
        true
    }

    fn exact(&self) -> bool {
        true
    }
}

/// The rows of one task, all in memory: what an iterative loss has to look at more than once.
#[derive(Debug, Clone, Copy)]
pub struct TaskRows<'a> {
    /// Inputs.
    pub x: Rows<'a>,
    /// Targets.
    pub y: Rows<'a>,
    /// Sample weights, 1 where there are none.
    pub weights: Option<&'a [f64]>,
}

/// A loss made quadratic at an anchor.
#[derive(Debug, Clone)]
pub struct Majorized {
    /// The quadratic; its loss at the anchor is the true loss there.
    pub summary: Summary,
    /// The true loss at the anchor.
    pub value: f64,
}

/// The quadratic bound of a task's loss at `anchor`.
///
/// Paper: eq. 9 (`eq:qub_loss_ub`). Cost: one pass over the rows.
///
/// # Errors
/// As [`Summarizer::add`], and when the loss is not finite at the anchor.
pub fn majorize(
    loss: &dyn Loss,
    design: &Design,
    task: TaskRows<'_>,
    anchor: &Theta,
    threads: usize,
) -> Result<Majorized> {
    let (m, k) = (design.width(), anchor.targets());
    let mut summarizer = Summarizer::new(design.clone(), k, Accumulator::Qr)?.threads(threads);
    let block = summarizer.leaf_rows() * threads.max(1);
    let mut rows = vec![0.0; block.min(task.x.len()) * m];
    let (mut n, mut value, mut offset) = (0.0, 0.0, 0.0);
    let mut eta = vec![0.0; k];
    let mut gradient = vec![0.0; k];
    let mut y = vec![0.0; task.y.width()];
    let mut from = 0;
    while from < task.x.len() {
        let to = (from + block).min(task.x.len());
        let rows = &mut rows[..(to - from) * m];
        design
            .write(&task.x, from, rows, m, None)
            .map_err(|e| Error::Basis(e).shifted(from as u64))?;
        let mut working = Vec::with_capacity((to - from) * k);
        let mut weights = Vec::with_capacity(to - from);
        for (i, row) in (from..to).zip(rows.chunks_exact(m)) {
            for (c, eta) in eta.iter_mut().enumerate() {
                *eta = crate::summary::dot(row, anchor.column(c));
            }
            for (c, y) in y.iter_mut().enumerate() {
                *y = task.y.get(i, c);
            }
            let w = task.weights.map_or(1.0, |w| w[i]);
            let point = loss.at(&eta, &y, &mut gradient);
            if !(point.curvature > 0.0 && point.value.is_finite()) {
                return Err(task.x.slice(i, i + 1).first_not_finite().map_or(
                    Error::Range {
                        what: "the loss or its curvature",
                        value: if point.curvature > 0.0 { point.value } else { point.curvature },
                        must: "finite and positive at every row",
                    },
                    |(_, column, value)| Error::NotFinite {
                        what: "feature",
                        row: i as u64,
                        column,
                        value,
                    },
                ));
            }
            n += w;
            value += w * point.value;
            let squares: f64 = gradient.iter().map(|g| g * g).sum();
            offset += w * (point.value - squares / (2.0 * point.curvature));
            working.extend(eta.iter().zip(&gradient).map(|(e, g)| e - g / point.curvature));
            weights.push(w * point.curvature);
        }
        summarizer.add(task.x.slice(from, to), Rows::new(&working, k)?, Some(&weights))?;
        from = to;
    }
    let mut summary = summarizer.finish()?;
    summary.recount(n, 2.0 * offset);
    Ok(Majorized { summary, value: value / n })
}

/// A task's own minimizer and the bound expanded there.
#[derive(Debug, Clone)]
pub struct OwnMinimum {
    /// The minimizer of the task's loss plus the penalty.
    pub model: Model,
    /// The quadratic bound at the minimizer.
    pub bound: Majorized,
    /// Passes over the rows.
    pub iterations: usize,
    /// Whether the step fell below the tolerance before the limit.
    pub converged: bool,
}

/// Minimises a task's loss plus a penalty by majorizing and minimizing in turn.
///
/// Every step goes downhill, whatever the start, because the quadratic lies above the loss and touches it.
/// Paper: Algorithm 2, line 4 (`alg:mfcl_qub`).
///
/// # Errors
/// As [`majorize`] and [`solve`].
pub fn minimize(
    loss: &dyn Loss,
    design: &Design,
    task: TaskRows<'_>,
    penalty: Penalty,
    threads: usize,
) -> Result<OwnMinimum> {
    const LIMIT: usize = 500;
    const TOLERANCE: f64 = 1e-10;
    let columns = loss.columns(task.y.width());
    let mut theta = Theta::zeros(design.width(), columns);
    let mut iterations = 0;
    loop {
        iterations += 1;
        let bound = majorize(loss, design, task, &theta, threads)?;
        let model = solve(&bound.summary, design.intercept(), penalty, design.map().origin())?;
        let step = model.theta.distance(&theta) / model.theta.norm().max(1.0);
        theta = model.theta.clone();
        if step <= TOLERANCE || iterations == LIMIT {
            let bound = majorize(loss, design, task, &theta, threads)?;
            return Ok(OwnMinimum { model, bound, iterations, converged: step <= TOLERANCE });
        }
    }
}
