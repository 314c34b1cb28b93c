//! Newton's method on a convex objective: from any start, to the last digits.

use faer::Mat;

use super::conjugate::{Conjugate, add};
use super::evaluate::{centre, to_mat, to_theta};
use super::factor::Factor;
use super::task::{PenalizedTask, Point, inner, stacked, unstacked};
use crate::error::{Error, Result};
use crate::theta::Theta;

/// The whole curvature is formed up to this many parameters; beyond, conjugate gradients are cheaper.
const LARGEST_WHOLE: usize = 320;
/// Steps before giving up.
const LIMIT: usize = 200;
/// What [`minimize`] aims at, and what counts as converged.
pub(super) const AIM: f64 = 1e-11;
const CONVERGED: f64 = 1e-10;
/// Relative change of the objective below which its rounding decides nothing.
const NOISE: f64 = 1e-12;

/// Points that are tried to make a step longer that had to be shortened.
const MOST_TRIALS: usize = 3;

/// A minimizer with what there is to know about it.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for tests
pub struct Minimum {
    /// The parameters, centred for more than two classes.
    pub theta: Theta,
    /// `Σ w ℓ` of the task there.
    pub loss: f64,
    /// Largest entry of `∇J` relative to the sum of magnitudes it is made of.
    pub gradient: f64,
    /// Newton steps.
    pub iterations: usize,
    /// Whether `gradient` fell to the tolerance.
    pub converged: bool,
    /// Whether the parameters classify every row rightly: the classes can be separated, so the task's loss alone has no minimizer
    /// and only the penalty or the past keeps the parameters finite. A strong penalty can hide it; the certified least loss
    /// looks without one.
    pub separable: bool,
}

/// Minimises an objective to a relative gradient of `tolerance`.
///
/// Newton's method with a line search, from `start` or from zero, whichever is lower; the system is solved whole where `m · p` is
/// small, by preconditioned conjugate gradients where it is not. The result has the same bits for any number of threads. Separable
/// data without a penalty end where the gradient has vanished, at finite parameters. Paper: Algorithm 2, line 4 (`alg:mfcl_qub`).
/// Cost: about ten steps of `n m² p(p+1)/2` (whole) or some ten times `4 n m p` flops; memory `n(m + p)`.
pub(super) fn minimize(
    task: &mut PenalizedTask<'_>,
    start: Option<&Theta>,
    tolerance: f64,
) -> Result<Minimum> {
    let (m, p) = (task.m, task.p);
    let mut point = task.at(Mat::zeros(m, p))?;
    if let Some(start) = start {
        let mut theta = to_mat(start, m, p)?;
        centre(&mut theta);
        let given = task.at(theta)?;
        if given.value <= point.value {
            point = given;
        }
    }
    let mut system = System::new(m, p);
    let mut iterations = 0;
    let mut gradient = task.relative(&point.gradient);
    while gradient > tolerance && iterations < LIMIT {
        let forcing = gradient.sqrt().min(0.1).max(0.03 * tolerance / gradient);
        let Some(d) = system.direction(task, &point, forcing)? else { return Err(overflow()) };
        let Some(next) = step(task, &point, &d, 1.0)? else { break };
        iterations += 1;
        point = next;
        gradient = task.relative(&point.gradient);
    }
    let theta = to_theta(&point.theta);
    if !(theta.is_finite() && point.value.is_finite()) {
        return Err(overflow());
    }
    Ok(Minimum {
        theta,
        loss: point.loss,
        gradient,
        iterations,
        converged: gradient <= tolerance.max(CONVERGED),
        separable: point.separated,
    })
}

/// How the Newton system is solved.
#[derive(Debug)]
pub(super) enum System {
    Whole,
    Conjugate(Conjugate),
}

impl System {
    pub(super) fn new(m: usize, p: usize) -> Self {
        if m * p <= LARGEST_WHOLE { Self::Whole } else { Self::Conjugate(Conjugate::new()) }
    }

    /// Whether a direction is exact whatever precision was asked for.
    pub(super) fn exact(&self) -> bool {
        matches!(self, Self::Whole)
    }

    /// Conjugate-gradient steps taken so far.
    pub(super) fn steps(&self) -> usize {
        match self {
            Self::Whole => 0,
            Self::Conjugate(conjugate) => conjugate.total,
        }
    }

    /// The Newton direction; `None` where the curvature is not finite.
    pub(super) fn direction(
        &mut self,
        task: &mut PenalizedTask<'_>,
        point: &Point,
        forcing: f64,
    ) -> Result<Option<Mat<f64>>> {
        match self {
            Self::Whole => {
                let Some(factor) = Factor::new(task.hessian(point)?) else { return Ok(None) };
                let mut d = stacked(&point.gradient);
                factor.solve(d.as_mut());
                let mut d = unstacked(d.as_ref(), task.m, task.p);
                d *= faer::Scale(-1.0);
                centre(&mut d);
                Ok(Some(d))
            }
            Self::Conjugate(conjugate) => conjugate.direction(task, point, forcing),
        }
    }
}

/// A point down along `d`, by backtracking from `first`; `None` where rounding leaves nothing to gain.
///
/// Armijo's rule; once the predicted gain is below the rounding of `J`, a smaller gradient counts instead.
pub(super) fn step(
    task: &mut PenalizedTask<'_>,
    point: &Point,
    d: &Mat<f64>,
    first: f64,
) -> Result<Option<Point>> {
    let slope = inner(&point.gradient, d);
    let mut t = first;
    let mut too_far = None;
    for _ in 0..60 {
        let next = moved(task, point, t, d)?;
        if slope.abs() <= NOISE * point.value.abs() {
            let better = task.relative(&next.gradient) < task.relative(&point.gradient);
            return Ok(better.then_some(next));
        }
        if slope >= 0.0 {
            return Ok(None);
        }
        if next.value <= point.value + 1e-4 * t * slope {
            return match too_far {
                Some(far) => longer_step(task, point, d, (t, far), next).map(Some),
                None => Ok(Some(next)),
            };
        }
        // The parabola through value, slope and the value found.
        let bend = next.value - point.value - t * slope;
        let least = if bend.is_finite() { -slope * t * t / (2.0 * bend) } else { 0.0 };
        too_far = Some(t);
        t = least.clamp(0.1 * t, 0.5 * t);
    }
    Ok(None)
}

/// A lower point between `found`, at `t`, and `far`, which was too far, where the loss still falls at `t` as it did at first: it rises
/// like an exponential at the end of a step, which a parabola takes for a much shorter one.
fn longer_step(
    task: &mut PenalizedTask<'_>,
    point: &Point,
    d: &Mat<f64>,
    (mut t, mut far): (f64, f64),
    mut found: Point,
) -> Result<Point> {
    let slope = inner(&point.gradient, d);
    for _ in 0..MOST_TRIALS {
        if inner(&found.gradient, d) > 0.5 * slope || far < 1.5 * t {
            break;
        }
        let between = (t * far).sqrt();
        let next = moved(task, point, between, d)?;
        if next.value < found.value {
            (t, found) = (between, next);
        } else {
            far = between;
        }
    }
    Ok(found)
}

fn moved(task: &mut PenalizedTask<'_>, point: &Point, t: f64, d: &Mat<f64>) -> Result<Point> {
    let mut theta = point.theta.clone();
    add(&mut theta, t, d);
    task.at(theta)
}

pub(super) fn overflow() -> Error {
    Error::Range {
        what: "the curvature of the loss",
        value: f64::INFINITY,
        must: "finite: rescale the features",
    }
}
