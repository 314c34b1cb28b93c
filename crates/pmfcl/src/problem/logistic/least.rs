//! How low a task's loss can go: a lower bound with a certificate.
//!
//! Forgetting is measured from `inf L_t`, which no solver reaches exactly and which separable data approach only at
//! infinity. Convex duality gives a number that is surely not above it. For labels `y` and weights `w`,
//!
//! ```text
//! inf_θ Σ w_i ℓ_i(θ)  =  max { Σ w_i H(q_i) :  q_i a distribution over classes,  Σ w_i x_i (q_i − e_{y_i})ᵀ = 0 }
//! ```
//!
//! with the entropy `H`: any `q` that meets the conditions is a certificate, however it was found. Here `q` is
//! `p_i + V_i a_i`, `p` the probabilities at the current parameters, `V = diag(p) − ppᵀ`, `a_i = dᵀx_i` along the Newton step `d`:
//! the step is made so that the sums vanish, and `q ≥ 0` is one comparison a class. The gap to the loss shrinks with
//! the square of the step.
//!
//! Two more steps keep it sharp where no minimizer exists, both sound since a loss is never negative: classes
//! without a row get `q = 0`, and rows the parameters run away from are left out of the sum.

use std::sync::Arc;

use faer::Mat;

use super::conjugate::add;
use super::evaluate::{centre, to_mat, to_theta};
use super::newton::{System, overflow, step};
use super::passes::{Question, RunLogistic};
use super::task::{PenalizedTask, Point, inner};
use crate::error::Result;
use crate::theta::Theta;

/// The bound is good enough when this share of the loss is not accounted for.
const GAP: f64 = 1e-7;
/// Newton steps in all.
const LIMIT: usize = 60;
/// Conjugate-gradient steps in all, begun solves excepted: without a penalty many classes with few rows are as hard a problem as
/// there is, and any bound found so far is sound.
const BUDGET: usize = 600;
/// Multiplications of rows and parameters in all these steps.
const WORK: f64 = 2.5e12;
/// Relative precision of a step at its loosest.
const LOOSE: f64 = 0.3;
/// Precision of the step a certificate is made from.
const TIGHT: f64 = 1e-8;

/// A lower bound of a task's loss.
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(hidden)] // for lab, report
pub struct Least {
    /// At most `inf_θ L_t(θ)`, up to rounding; 0 where the classes can be separated.
    pub value: f64,
    /// The lowest loss found: `inf L_t` lies between the two.
    pub reached: f64,
    /// Whether parameters were found that classify every row rightly, so that `inf L_t = 0` is not attained.
    pub separable: bool,
}

/// Which classes occur in a task.
pub(super) struct Present<'a> {
    /// All classes.
    pub(super) classes: &'a [String],
    /// Samples of each.
    pub(super) counts: &'a [f64],
    /// Rows of all, where they are counted.
    pub(super) rows: Option<u64>,
    /// Whether one without rows can be left out: with an intercept it can be pushed out of sight, so nothing is lost.
    pub(super) intercept: bool,
}

/// A certified lower bound of `inf_θ L_t(θ)` of a task of `n` samples and `m` design columns; see the module page for the argument.
///
/// `start` saves steps where it is near the task's own minimum. Used for the slack of Theorem 5.3 (`thm:qub_forgetting`), which
/// the paper leaves out: `F_t ≤ L_t^qub(θ) − least_loss`. Where that takes too long (thousands of classes with a few rows each) it ends
/// with what it has, 0 at worst. Cost: as an unpenalised fit to seven digits of the loss.
pub(super) fn least_loss(
    rows: &mut dyn RunLogistic,
    present: &Present<'_>,
    (m, n): (usize, f64),
    start: Option<&Theta>,
) -> Result<Least> {
    let all = super::columns(present.classes.len());
    let start = start.map(|s| to_mat(s, m, all)).transpose()?;
    let kept: Vec<usize> = (0..present.classes.len())
        .filter(|&k| !present.intercept || present.counts[k] > 0.0)
        .collect();
    if kept.len() == 1 {
        return Ok(Least { value: 0.0, reached: 0.0, separable: true });
    }
    let names: Arc<[String]> = kept.iter().map(|&k| present.classes[k].clone()).collect();
    let p = super::columns(names.len());
    let mut task = PenalizedTask::alone(rows, names, m)?;
    let mut point = task.at(Mat::zeros(m, p))?;
    if let Some(start) = start {
        let given = task.at(only(&start, all, &kept, p))?;
        if given.value <= point.value {
            point = given;
        }
    }
    let (mut best, mut reached) = (0.0_f64, point.value);
    // A step multiplies every number of every row by every column of θ, twice.
    let work = |rows| (WORK / (2.0 * rows as f64 * (m * p) as f64)) as usize;
    let budget = BUDGET.min(present.rows.map_or(BUDGET, work));
    let (mut whole, mut may_leave) = (true, true);
    let mut system = System::new(m, p);
    let mut stuck = false;
    let mut before = f64::INFINITY;
    for _ in 0..LIMIT {
        if point.separated && whole {
            let reached = reached.min(point.value) / n;
            return Ok(Least { value: 0.0, reached, separable: true });
        }
        if point.separated {
            // The rest is, and the others were on the way: look at all of them again, to the end.
            task.take_all();
            point = task.at(point.theta)?;
            (whole, may_leave) = (true, false);
            continue;
        }
        if system.steps() > budget {
            break;
        }
        // While the parameters run away from rows, steps gain a constant share each, however precise they are.
        let gradient = task.relative(&point.gradient);
        let forcing = gradient.sqrt().max((gradient / before).powi(2)).min(LOOSE);
        before = gradient;
        let mut d = system.direction(&mut task, &point, forcing)?.ok_or_else(overflow)?;
        // The gap a certificate would leave is about the gain of the step.
        if stuck || -inner(&point.gradient, &d) <= GAP / 2.0 * point.value {
            if !system.exact() {
                // The gradient is small already; what is left of it now is rounding.
                d = system.direction(&mut task, &point, TIGHT)?.ok_or_else(overflow)?;
            }
            let certificate = certify(&mut task, &point, &d)?;
            if certificate.feasible {
                best = best.max(certificate.entropy - certificate.rounding);
                if stuck || point.value - best <= GAP * point.value {
                    break;
                }
            }
            if may_leave && certificate.runaway {
                task.leave_out(&point.theta, &d);
                point = task.at(point.theta)?;
                (whole, stuck) = (false, false);
                continue;
            }
            if stuck {
                break;
            }
        }
        match step(&mut task, &point, &d, 1.0)? {
            Some(next) => point = next,
            None => stuck = true,
        }
        if whole {
            reached = reached.min(point.value);
        }
    }
    Ok(Least { value: best / n, reached: reached / n, separable: false })
}

struct Certificate {
    feasible: bool,
    /// `Σ w H(q)`
    entropy: f64,
    /// What the conditions are off by, times where the parameters are.
    rounding: f64,
    /// Whether the parameters run away from some rows.
    runaway: bool,
}

fn certify(task: &mut PenalizedTask<'_>, point: &Point, d: &Mat<f64>) -> Result<Certificate> {
    let sums = task.ask(Question::Certify(to_theta(&point.theta), to_theta(d)))?.sums;
    let mut off = task.multiply(point, d)?;
    add(&mut off, 1.0, &point.gradient);
    let mut rounding = 0.0;
    for k in 0..task.p {
        for j in 0..task.m {
            rounding += 2.0 * (off[(j, k)] * point.theta[(j, k)]).abs();
        }
    }
    Ok(Certificate { feasible: sums[0] == 0.0, entropy: sums[1], rounding, runaway: sums[2] > 0.0 })
}

/// The columns of the classes that are kept, in the gauge of the smaller problem.
fn only(theta: &Mat<f64>, all: usize, kept: &[usize], p: usize) -> Mat<f64> {
    if all == p {
        return theta.clone();
    }
    let mut out = if p == 1 {
        Mat::from_fn(theta.nrows(), 1, |j, _| theta[(j, kept[1])] - theta[(j, kept[0])])
    } else {
        Mat::from_fn(theta.nrows(), p, |j, k| theta[(j, kept[k])])
    };
    centre(&mut out);
    out
}
