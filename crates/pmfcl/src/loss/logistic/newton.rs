//! Newton's method on a convex objective: from any start, to the last digits.

use faer::Mat;

use super::conjugate::{Conjugate, add};
use super::evaluate::{centre, to_mat, to_theta};
use super::factor::Factor;
use super::objective::{Objective, Point, Problem, inner, stacked, unstacked};
use crate::error::{Error, Result};
use crate::theta::Theta;

/// The whole curvature is formed up to this many parameters; beyond, conjugate gradients are cheaper.
const LARGEST_WHOLE: usize = 320;
/// Steps before giving up.
const LIMIT: usize = 200;
/// What [`fit`] aims at, and what counts as converged.
const AIM: f64 = 1e-11;
const CONVERGED: f64 = 1e-10;
/// Relative change of the objective below which its rounding decides nothing.
const NOISE: f64 = 1e-12;

/// A minimizer with what there is to know about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The parameters, centred for more than two classes.
    pub theta: Theta,
    /// Mean loss of the task there, `Σ w ℓ / Σ w`.
    pub loss: f64,
    /// Largest entry of `∇J` relative to the sum of magnitudes it is made of.
    pub gradient: f64,
    /// Newton steps.
    pub iterations: usize,
    /// Whether `gradient` fell to the tolerance.
    pub converged: bool,
    /// Whether the parameters classify every row rightly: the classes can be separated, so the task's loss alone
    /// has no minimizer and only the penalty or the past keeps the parameters finite. A strong penalty can hide it;
    /// [`super::least_loss`] looks without one.
    pub separable: bool,
}

/// Minimises an [`Objective`].
///
/// Newton's method with a line search, from `start` or from zero, whichever is lower; the system is solved whole
/// where `m · p` is small, by preconditioned conjugate gradients where it is not. The result has the same bits
/// for any number of threads. Separable data without a penalty end where the gradient has vanished, at finite
/// parameters. Paper: Algorithm 2, line 4 (`alg:mfcl_qub`).
/// Cost: about ten steps of `n m² p(p+1)/2` (whole) or some ten times `4 n m p` flops; memory `n(m + p)`.
///
/// # Errors
/// On shapes that do not agree, labels out of range, values that are not finite or overflow when squared.
pub fn fit(objective: &Objective<'_>, start: Option<&Theta>, threads: usize) -> Result<Fit> {
    fit_to(objective, start, AIM, threads)
}

/// [`fit`] to a relative gradient of `tolerance`.
///
/// # Errors
/// As [`fit`].
pub fn fit_to(
    objective: &Objective<'_>,
    start: Option<&Theta>,
    tolerance: f64,
    threads: usize,
) -> Result<Fit> {
    let problem = Problem::new(objective, threads)?;
    let (m, p) = (problem.data.m, problem.data.p);
    let mut point = problem.at(Mat::zeros(m, p));
    if let Some(start) = start {
        let mut theta = to_mat(start, m, p)?;
        centre(&mut theta);
        let given = problem.at(theta);
        if given.value <= point.value {
            point = given;
        }
    }
    let mut system = System::new(&problem);
    let mut iterations = 0;
    let mut gradient = problem.relative(&point.gradient);
    while gradient > tolerance && iterations < LIMIT {
        let forcing = gradient.sqrt().min(0.1).max(0.03 * tolerance / gradient);
        let Some(d) = system.direction(&problem, &point, forcing) else { return Err(overflow()) };
        let Some(next) = step(&problem, &point, &d, 1.0) else { break };
        iterations += 1;
        point = next;
        gradient = problem.relative(&point.gradient);
    }
    let theta = to_theta(&point.theta);
    if !(theta.is_finite() && point.value.is_finite()) {
        return Err(overflow());
    }
    Ok(Fit {
        theta,
        loss: point.state.value / problem.data.total,
        gradient,
        iterations,
        converged: gradient <= tolerance.max(CONVERGED),
        separable: point.state.separated,
    })
}

/// How the Newton system is solved.
#[derive(Debug)]
pub(super) enum System {
    Whole,
    Conjugate(Conjugate),
}

impl System {
    pub(super) fn new(problem: &Problem<'_>) -> Self {
        if problem.data.m * problem.data.p <= LARGEST_WHOLE {
            Self::Whole
        } else {
            Self::Conjugate(Conjugate::new())
        }
    }

    /// Whether a direction is exact whatever precision was asked for.
    pub(super) fn exact(&self) -> bool {
        matches!(self, Self::Whole)
    }

    /// The Newton direction; `None` when the curvature is not finite.
    pub(super) fn direction(
        &mut self,
        problem: &Problem<'_>,
        point: &Point,
        forcing: f64,
    ) -> Option<Mat<f64>> {
        match self {
            Self::Whole => {
                let factor = Factor::new(problem.hessian(point))?;
                let mut d = stacked(&point.gradient);
                factor.solve(d.as_mut());
                let mut d = unstacked(d.as_ref(), problem.data.m, problem.data.p);
                d *= faer::Scale(-1.0);
                centre(&mut d);
                Some(d)
            }
            Self::Conjugate(conjugate) => conjugate.direction(problem, point, forcing),
        }
    }
}

/// A point down along `d`, by backtracking from `first`; `None` when rounding leaves nothing to gain.
///
/// Armijo's rule; once the predicted gain is below the rounding of `J`, a smaller gradient counts instead.
pub(super) fn step(
    problem: &Problem<'_>,
    point: &Point,
    d: &Mat<f64>,
    first: f64,
) -> Option<Point> {
    let slope = inner(&point.gradient, d);
    let mut t = first;
    for _ in 0..60 {
        let mut theta = point.theta.clone();
        add(&mut theta, t, d);
        let next = problem.at(theta);
        if slope.abs() <= NOISE * point.value.abs() {
            let better = problem.relative(&next.gradient) < problem.relative(&point.gradient);
            return better.then_some(next);
        }
        if slope >= 0.0 {
            return None;
        }
        if next.value <= point.value + 1e-4 * t * slope {
            return Some(next);
        }
        // The parabola through value, slope and the value found.
        let bend = next.value - point.value - t * slope;
        let least = if bend.is_finite() { -slope * t * t / (2.0 * bend) } else { 0.0 };
        t = least.clamp(0.1 * t, 0.5 * t);
    }
    None
}

pub(super) fn overflow() -> Error {
    Error::Range {
        what: "the curvature of the loss",
        value: f64::INFINITY,
        must: "finite: rescale the features",
    }
}
