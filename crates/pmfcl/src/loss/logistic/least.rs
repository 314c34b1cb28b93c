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

use faer::Mat;

use super::LabelledRows;
use super::conjugate::add;
use super::curvature::logistic;
use super::data::{Data, predictors};
use super::evaluate::{centre, to_mat};
use super::newton::{System, overflow, step};
use super::objective::{Point, Problem, inner};
use crate::error::Result;
use crate::summary::Design;
use crate::theta::Theta;

/// The bound is good enough when this share of the loss is not accounted for.
const GAP: f64 = 1e-7;
/// Newton steps in all.
const LIMIT: usize = 60;
/// Conjugate-gradient steps in all, begun solves excepted: without a penalty many classes with few rows are as hard
/// a problem as there is, and any bound found so far is sound.
const BUDGET: usize = 600;
/// Precision of the step a certificate is made from.
const TIGHT: f64 = 1e-8;
/// A row this sure that still moves on is one the parameters run away from.
const SURE: f64 = 1e-5;

/// A lower bound of a task's loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Least {
    /// At most `inf_θ L_t(θ)`, up to rounding; 0 where the classes can be separated.
    pub value: f64,
    /// The lowest loss found: `inf L_t` lies between the two.
    pub reached: f64,
    /// Whether parameters were found that classify every row rightly, so that `inf L_t = 0` is not attained.
    pub separable: bool,
}

/// A certified lower bound of `inf_θ L_t(θ)`; see the module page for the argument.
///
/// `start` saves steps where it is near the task's own minimum. Used for the slack of Theorem 5.3
/// (`thm:qub_forgetting`), which the paper leaves out: `F_t ≤ L_t^qub(θ) − least_loss`.
/// Where that takes too long (thousands of classes with a few rows each) it ends with what it has, 0 at worst.
/// Cost: as an unpenalised [`super::fit`] to seven digits of the loss.
///
/// # Errors
/// As [`super::fit`].
pub fn least_loss(
    design: &Design,
    task: LabelledRows<'_>,
    classes: usize,
    start: Option<&Theta>,
    threads: usize,
) -> Result<Least> {
    let data = Data::new(design, task, classes, threads)?;
    let (m, n) = (data.m, data.total);
    let start = start.map(|s| to_mat(s, m, data.p)).transpose()?;
    let all = data.p;
    let codes = data.labels.clone();
    // With an intercept a class without a row can be pushed out of sight, so nothing is lost by leaving it out.
    // Without one it may have to keep some share, and stays.
    let (data, present) =
        if design.intercept() { data.only_present_classes() } else { (data, classes) };
    if present == 1 {
        return Ok(Least { value: 0.0, reached: 0.0, separable: true });
    }
    let p = data.p;
    let mut problem = Problem::alone(data);
    let mut point = problem.at(Mat::zeros(m, p));
    if let Some(start) = start {
        let given = problem.at(only(&start, all, &codes, &problem.data.labels, p));
        if given.value <= point.value {
            point = given;
        }
    }
    let weights: Vec<f64> = (0..problem.data.len()).map(|i| problem.data.weight(i)).collect();
    let (mut best, mut reached) = (0.0_f64, point.value);
    let (mut whole, mut may_leave) = (true, true);
    let mut system = System::new(&problem);
    let mut stuck = false;
    for _ in 0..LIMIT {
        if point.state.separated && whole {
            return Ok(Least {
                value: 0.0,
                reached: reached.min(point.value) / n,
                separable: true,
            });
        }
        if point.state.separated {
            // The rest is, and the others were on the way: look at all of them again, to the end.
            problem.data.reweigh(weights.clone());
            point = problem.at(point.theta);
            (whole, may_leave) = (true, false);
            continue;
        }
        if system.steps() > BUDGET {
            break;
        }
        let forcing = problem.relative(&point.gradient).sqrt().min(0.1);
        let mut d = system.direction(&problem, &point, forcing).ok_or_else(overflow)?;
        // The gap a certificate would leave is about the gain of the step.
        if stuck || -inner(&point.gradient, &d) <= GAP / 2.0 * point.value {
            if !system.exact() {
                // The gradient is small already; what is left of it now is rounding.
                d = system.direction(&problem, &point, TIGHT).ok_or_else(overflow)?;
            }
            let certificate = certify(&problem, &point, &d);
            if certificate.feasible {
                best = best.max(certificate.entropy - certificate.rounding);
                if stuck || point.value - best <= GAP * point.value {
                    break;
                }
            }
            if may_leave && certificate.runaway.iter().any(|r| *r) {
                let left = |i| if certificate.runaway[i] { 0.0 } else { problem.data.weight(i) };
                let left = (0..problem.data.len()).map(left).collect();
                problem.data.reweigh(left);
                point = problem.at(point.theta);
                (whole, stuck) = (false, false);
                continue;
            }
            if stuck {
                break;
            }
        }
        match step(&problem, &point, &d, 1.0) {
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
    runaway: Vec<bool>,
}

fn certify(problem: &Problem<'_>, point: &Point, d: &Mat<f64>) -> Certificate {
    let (data, p) = (&problem.data, problem.data.p);
    let mut runaway = vec![0.0; data.len()];
    let parts = data.each_chunk_with(&mut runaway, 1, |chunk, runaway| {
        let (mut feasible, mut entropy) = (true, 0.0);
        let (mut eta, mut a) = (Vec::new(), Vec::new());
        let start = chunk.start;
        for span in data.blocks(chunk) {
            eta.resize(span.len() * p, 0.0);
            a.resize(span.len() * p, 0.0);
            predictors(data.rows(&span), &point.theta, &mut eta);
            predictors(data.rows(&span), d, &mut a);
            for (i, (eta, a)) in span.zip(eta.chunks_exact(p).zip(a.chunks_exact(p))) {
                let w = data.weight(i);
                if w == 0.0 {
                    continue;
                }
                let y = data.labels[i] as usize;
                let row = if p == 1 {
                    let shares = [logistic(-eta[0]), logistic(eta[0])];
                    moved(&[0.0, eta[0]], &shares, &[0.0, a[0]], y)
                } else {
                    moved(eta, &point.state.spread[i * p..(i + 1) * p], a, y)
                };
                feasible &= row.feasible;
                entropy += w * row.entropy;
                runaway[i - start] = f64::from(u8::from(row.runaway));
            }
        }
        (feasible, entropy)
    });
    let mut off = problem.multiply(point, d);
    add(&mut off, 1.0, &point.gradient);
    let mut rounding = 0.0;
    for k in 0..p {
        for j in 0..data.m {
            rounding += 2.0 * (off[(j, k)] * point.theta[(j, k)]).abs();
        }
    }
    Certificate {
        feasible: parts.iter().all(|p| p.0),
        entropy: parts.iter().map(|p| p.1).sum(),
        rounding,
        runaway: runaway.iter().map(|r| *r > 0.0).collect(),
    }
}

struct Moved {
    feasible: bool,
    entropy: f64,
    runaway: bool,
}

/// `q_k = p_k (1 + a_k − ā)` of one row, its entropy, and whether the row is being run away from.
fn moved(eta: &[f64], shares: &[f64], a: &[f64], y: usize) -> Moved {
    let top = (0..eta.len()).fold(0, |best, k| if eta[k] > eta[best] { k } else { best });
    let log = eta[top] - shares[top].ln();
    let mean: f64 = shares.iter().zip(a).map(|(p, a)| p * a).sum();
    let (mut feasible, mut entropy, mut miss, mut change) = (true, 0.0, 0.0, 0.0);
    for (k, ((e, p), a)) in eta.iter().zip(shares).zip(a).enumerate() {
        let move_of = a - mean;
        if k != y {
            miss += p;
            change += p * move_of;
        }
        if move_of > -1.0 {
            entropy -= p * (1.0 + move_of) * ((e - log) + move_of.ln_1p());
        } else {
            feasible &= *p == 0.0;
        }
    }
    Moved { feasible, entropy, runaway: miss < SURE && change < -0.5 * miss }
}

/// The columns of classes that occur, in the gauge of the smaller problem.
fn only(theta: &Mat<f64>, all: usize, old: &[u32], new: &[u32], p: usize) -> Mat<f64> {
    if all == p {
        return theta.clone();
    }
    let mut column = vec![0; new.iter().max().map_or(0, |y| *y as usize + 1)];
    for (o, n) in old.iter().zip(new) {
        column[*n as usize] = *o as usize;
    }
    let mut out = if p == 1 {
        Mat::from_fn(theta.nrows(), 1, |j, _| theta[(j, column[1])] - theta[(j, column[0])])
    } else {
        Mat::from_fn(theta.nrows(), p, |j, k| theta[(j, column[k])])
    };
    centre(&mut out);
    out
}
