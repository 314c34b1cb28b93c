//! The front of two tasks, or of two groups of tasks.
//!
//! With `R` the QR factor of both stacked, `R_a = Q_a R`, `R_b = Q_b R` and `Q_aᵀQ_a + Q_bᵀQ_b = I`. The SVD
//! `Q_a = U C Vᵀ` turns both losses diagonal at once (the generalised eigenproblem of the pair, in
//! square-root form), so that along the whole front
//!
//! ```text
//! v_i(w) = (w c_i a_i/n_a + (1−w) s_i b_i/n_b) / (w c_i²/n_a + (1−w) s_i²/n_b)
//! ```
//!
//! and both losses are sums of `r` squares.

use faer::Mat;

use crate::error::{Error, Result};
use crate::solve::{Penalty, solve, weights};
use crate::summary::Summary;
use crate::theta::Theta;

/// A point of the front.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrontPoint {
    /// Preference for `a`; `b` has the rest.
    pub weight: f64,
    /// Loss on `a`.
    pub loss_a: f64,
    /// Loss on `b`.
    pub loss_b: f64,
}

/// The front of two losses, ready to be asked for points.
#[derive(Debug, Clone)]
pub struct PairFront {
    a: Side,
    b: Side,
    /// Both stacked; turns the diagonal coordinates into parameters on demand.
    stacked: Summary,
    v: Mat<f64>,
    /// The parameters of each direction, where finding the shortest ones takes a decomposition: parameters are linear in the
    /// coordinates.
    shortest: Option<Mat<f64>>,
    targets: usize,
    intercept: bool,
    /// The two losses without the penalty, where there is one.
    unpenalized: Option<(Summary, Summary)>,
}

/// One loss in diagonal coordinates.
#[derive(Debug, Clone)]
struct Side {
    n: f64,
    min_loss: f64,
    /// Singular values `c_i` (or `s_i`): how strongly this side sees each direction.
    lengths: Vec<f64>,
    /// `UᵀZ`: where `c_i v_i` would be best, targets side by side for each direction.
    best: Vec<f64>,
}

impl PairFront {
    /// Decomposes two losses of the same shape.
    ///
    /// Cost: one QR and one SVD, `O(m³)`.
    ///
    /// # Errors
    /// When shapes differ, one is empty, or the SVD does not converge.
    pub fn new(a: &Summary, b: &Summary, intercept: bool) -> Result<Self> {
        if a.n() <= 0.0 || b.n() <= 0.0 {
            return Err(Error::Empty { what: "one side of the front" });
        }
        let stacked = a.merge(b)?;
        let (qa, qb) = (coordinates(&stacked, a), coordinates(&stacked, b));
        let v = common_directions(&qa, &qb)?;
        let r = stacked.rank();
        // Each side has full row rank, so it sees exactly as many directions as it has rows: a the first,
        // b the last. What is left in the others is rounding, however ill-conditioned the pair.
        let side = |q: &Mat<f64>, s: &Summary, sees: std::ops::Range<usize>| {
            let turned = q * &v;
            let z = Mat::from_fn(s.rank(), s.targets(), |i, k| s.row(i).2[k]);
            let along = turned.transpose() * z;
            let length =
                |i: usize| (0..q.nrows()).map(|k| turned[(k, i)].powi(2)).sum::<f64>().sqrt();
            let lengths: Vec<f64> =
                (0..r).map(|i| if sees.contains(&i) { length(i) } else { 0.0 }).collect();
            let best = |i: usize, k: usize| {
                if lengths[i] > 0.0 { along[(i, k)] / lengths[i] } else { 0.0 }
            };
            Side {
                n: s.n(),
                min_loss: s.min_loss(),
                best: (0..r * s.targets())
                    .map(|at| best(at / s.targets(), at % s.targets()))
                    .collect(),
                lengths,
            }
        };
        let targets = a.targets();
        let (first, last) = (0..a.rank().min(r), r.saturating_sub(b.rank())..r);
        let (a, b) = (side(&qa, a, first), side(&qb, b, last));
        let shortest = if r < stacked.width() {
            let theta = solve(&stacked.with_targets(&v), intercept, Penalty::NONE, None)?.theta;
            Some(Mat::from_fn(stacked.width(), r, |j, i| theta.column(i)[j]))
        } else {
            None
        };
        Ok(Self { a, b, stacked, v, shortest, targets, intercept, unpenalized: None })
    }

    /// The front of models that pay a penalty, as a learner with a ridge does.
    ///
    /// Every point minimises `w L_a + (1−w) L_b + (λ/2)θᵀDθ`; the losses shown are without the penalty. Tasks
    /// that hardly determine some direction have fronts that reach absurdly far without it. A point then
    /// costs `O(m²p)`.
    ///
    /// # Errors
    /// As [`PairFront::new`]; and when targets have ridges of their own.
    pub fn penalized(a: &Summary, b: &Summary, intercept: bool, penalty: &Penalty) -> Result<Self> {
        let ridge = penalty.one_ridge("a front")?;
        if ridge <= 0.0 {
            return Self::new(a, b, intercept);
        }
        // The penalty is the same for both and the weights sum to one, so each side carries all of it.
        let d = weights(&a.merge(b)?, intercept, penalty.standardize());
        let with = |s: &Summary| {
            let root = |d: f64| (s.n() * ridge * d).sqrt();
            let rows = d.iter().enumerate().filter(|(_, d)| **d > 0.0);
            s.merge(&Summary::diagonal(
                s.width(),
                s.targets(),
                rows.map(|(j, d)| (j, root(*d), 0.0)),
            ))
        };
        let front = Self::new(&with(a)?, &with(b)?, intercept)?;
        Ok(Self { unpenalized: Some((a.clone(), b.clone())), ..front })
    }

    /// The point where `a` has preference `weight`. Cost: `O(r p)`.
    ///
    /// # Errors
    /// When `weight` is outside `[0, 1]`.
    pub fn at(&self, weight: f64) -> Result<FrontPoint> {
        check(weight)?;
        Ok(self.point(weight))
    }

    fn point(&self, weight: f64) -> FrontPoint {
        let losses = |(a, b): &(Summary, Summary)| {
            let theta = self.theta(weight).ok()?;
            Some((a.loss(&theta).ok()?, b.loss(&theta).ok()?))
        };
        let (loss_a, loss_b) =
            self.unpenalized.as_ref().and_then(losses).unwrap_or_else(|| self.losses(weight));
        FrontPoint { weight, loss_a, loss_b }
    }

    /// Both losses at a preference, as sums of squares over the directions.
    fn losses(&self, weight: f64) -> (f64, f64) {
        let (mut a, mut b) = (0.0, 0.0);
        for i in 0..self.a.lengths.len() {
            let (c, s) = (self.a.lengths[i], self.b.lengths[i]);
            for k in 0..self.targets {
                let v = self.coordinate(weight, i, k);
                let at = i * self.targets + k;
                a += (c * v - self.a.best[at]).powi(2);
                b += (s * v - self.b.best[at]).powi(2);
            }
        }
        (self.a.min_loss + a / (2.0 * self.a.n), self.b.min_loss + b / (2.0 * self.b.n))
    }

    /// `v_i` of target `k` at a preference.
    fn coordinate(&self, weight: f64, i: usize, k: usize) -> f64 {
        let (wa, wb) = (weight / self.a.n, (1.0 - weight) / self.b.n);
        let (c, s) = (self.a.lengths[i], self.b.lengths[i]);
        let (a, b) = (self.a.best[i * self.targets + k], self.b.best[i * self.targets + k]);
        let below = wa * c * c + wb * s * s;
        if below > 0.0 {
            (wa * c * a + wb * s * b) / below
        } else if c > 0.0 {
            // Only the side without weight sees this direction: leave it at its best.
            a / c
        } else if s > 0.0 {
            b / s
        } else {
            0.0
        }
    }

    /// The parameters at a preference. Cost: `O(m²p)`.
    ///
    /// # Errors
    /// When `weight` is outside `[0, 1]`.
    pub fn theta(&self, weight: f64) -> Result<Theta> {
        check(weight)?;
        let v = Mat::from_fn(self.v.ncols(), self.targets, |i, k| self.coordinate(weight, i, k));
        if let Some(shortest) = &self.shortest {
            let product = shortest * v;
            let mut theta = Theta::zeros(product.nrows(), self.targets);
            for k in 0..self.targets {
                theta.column_mut(k).iter_mut().enumerate().for_each(|(j, t)| *t = product[(j, k)]);
            }
            return Ok(theta);
        }
        let u = &self.v * v;
        let rows = self.stacked.with_targets(&u);
        Ok(solve(&rows, self.intercept, Penalty::NONE, None)?.theta)
    }

    /// Whether one model is best for both, up to rounding, so that the front is a single point. Every preference gives that
    /// model; the point is reported with weight ½.
    pub fn is_point(&self) -> bool {
        /// Excess over the least loss that is rounding: as a share of it, and of the squares of the targets.
        const OF_LEAST: f64 = 1e-12;
        const OF_SQUARES: f64 = 1e-20;
        let same = |side: &Side, loss: f64| {
            let squares = side.best.iter().map(|b| b * b).sum::<f64>() / (2.0 * side.n);
            loss - side.min_loss <= OF_LEAST * side.min_loss + OF_SQUARES * squares
        };
        same(&self.a, self.losses(0.0).0) && same(&self.b, self.losses(1.0).1)
    }

    /// The only point there is, where there is only one.
    fn only(&self) -> Option<FrontPoint> {
        self.is_point().then(|| self.point(0.5))
    }

    /// `count` points spread evenly along the curve, from all weight on `b` to all weight on `a`; one where there is
    /// only one ([`PairFront::is_point`]).
    ///
    /// Weights are chosen so that neighbouring points are about equally far apart in the plane of the two
    /// losses, each measured in its own range.
    pub fn points(&self, count: usize) -> Vec<FrontPoint> {
        // A fine sweep in the logit of the weight covers both ends, then equal arc lengths.
        const FINE: usize = 400;
        if count == 0 {
            return Vec::new();
        }
        if let Some(only) = self.only() {
            return vec![only];
        }
        let mut sweep: Vec<FrontPoint> = vec![self.point(0.0)];
        sweep.extend((0..=FINE).map(|i| {
            let t = -14.0 + 28.0 * i as f64 / FINE as f64;
            self.point(1.0 / (1.0 + (-t).exp()))
        }));
        sweep.push(self.point(1.0));
        let (range_a, range_b) = ranges(&sweep);
        let mut length = vec![0.0];
        for pair in sweep.windows(2) {
            let (da, db) = (pair[1].loss_a - pair[0].loss_a, pair[1].loss_b - pair[0].loss_b);
            let step = (da / range_a).hypot(db / range_b);
            length.push(length[length.len() - 1] + step);
        }
        let total = length[length.len() - 1];
        (0..count)
            .map(|i| {
                let share = if count == 1 { 0.5 } else { i as f64 / (count - 1) as f64 };
                let at = length.partition_point(|l| *l < share * total).min(sweep.len() - 1);
                if at == 0 || total <= 0.0 {
                    return if total <= 0.0 { self.point(share) } else { sweep[0] };
                }
                let (from, to) = (&sweep[at - 1], &sweep[at]);
                let within =
                    (share * total - length[at - 1]) / (length[at] - length[at - 1]).max(1e-300);
                self.point(from.weight + within.clamp(0.0, 1.0) * (to.weight - from.weight))
            })
            .collect()
    }

    /// The knee: the point farthest below the chord between the two ends, each loss in its own range.
    /// Past it, the same gain for one task costs the other ever more.
    pub fn knee(&self) -> FrontPoint {
        if let Some(only) = self.only() {
            return only;
        }
        let sweep = self.points(200);
        let (range_a, range_b) = ranges(&sweep);
        let ends = (sweep[0], sweep[sweep.len() - 1]);
        let below = |p: &FrontPoint| {
            // Ends are at (1, 0) and (0, 1) in ranges; the chord is x + y = 1.
            let x = (p.loss_a - ends.1.loss_a) / range_a;
            let y = (p.loss_b - ends.0.loss_b) / range_b;
            1.0 - x - y
        };
        let best = (0..sweep.len())
            .max_by(|i, j| below(&sweep[*i]).total_cmp(&below(&sweep[*j])))
            .unwrap_or(0);
        let low = sweep[best.saturating_sub(1)].weight;
        let high = sweep[(best + 1).min(sweep.len() - 1)].weight;
        self.point(golden(low, high, |w| -below(&self.point(w))))
    }

    /// The point where the larger of the two losses is as small as it can be.
    pub fn minmax(&self) -> FrontPoint {
        self.balance(|p| p.loss_a - p.loss_b)
    }

    /// The point where the larger of the two *forgettings* is as small as it can be: both lose the same.
    pub fn equal_forgetting(&self) -> FrontPoint {
        self.balance(|p| (p.loss_a - self.a.min_loss) - (p.loss_b - self.b.min_loss))
    }

    /// The point nearest to `b`'s best where `a` loses at most `budget` beyond its least loss.
    ///
    /// # Errors
    /// When the budget is negative or not finite.
    pub fn budget_a(&self, budget: f64) -> Result<FrontPoint> {
        if !(budget >= 0.0 && budget.is_finite()) {
            return Err(Error::Range {
                what: "budget",
                value: budget,
                must: "0 or more, and finite",
            });
        }
        Ok(self.balance(|p| p.loss_a - self.a.min_loss - budget))
    }

    /// `f` falls as the weight of `a` rises: its root, or the end where it is nearest to one.
    fn balance(&self, f: impl Fn(&FrontPoint) -> f64) -> FrontPoint {
        if let Some(only) = self.only() {
            return only;
        }
        let (mut low, mut high) = (0.0_f64, 1.0_f64);
        if f(&self.point(0.0)) <= 0.0 {
            return self.point(0.0);
        }
        if f(&self.point(1.0)) >= 0.0 {
            return self.point(1.0);
        }
        for _ in 0..200 {
            let middle = f64::midpoint(low, high);
            if f(&self.point(middle)) > 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.point(high)
    }
}

fn check(weight: f64) -> Result<()> {
    if (0.0..=1.0).contains(&weight) {
        Ok(())
    } else {
        Err(Error::Range { what: "weight", value: weight, must: "between 0 and 1" })
    }
}

/// `V` that makes both `Q_aV` and `Q_bV` orthogonal, the directions `a` sees best first.
///
/// The SVD of `Q_a` alone cannot tell apart directions `b` hardly sees: there `c = √(1 − s²)` is 1 to the last
/// bit. So the half of the directions `a` dominates is turned once more, by the SVD of what `b` sees of them.
fn common_directions(qa: &Mat<f64>, qb: &Mat<f64>) -> Result<Mat<f64>> {
    let stuck = |_| Error::Unsupported {
        operation: "the front",
        reason: "the singular values of the pair do not converge".to_owned(),
    };
    let r = qa.ncols();
    let svd = qa.svd().map_err(stuck)?;
    let mut v = svd.V().to_owned();
    let size = qa.nrows().min(r);
    let dominated = (0..size).take_while(|&i| svd.S()[i] * svd.S()[i] > 0.5).count();
    if dominated > 1 {
        let seen = qb * v.get(.., ..dominated);
        let turn = seen.svd().map_err(stuck)?;
        // What b sees best goes last, so that the order stays the one of a.
        let w = turn.V();
        let turned = v.get(.., ..dominated)
            * Mat::from_fn(dominated, dominated, |i, j| w[(i, dominated - 1 - j)]);
        v.get_mut(.., ..dominated).copy_from(&turned);
    }
    Ok(v)
}

/// `Q_t` with `R_t = Q_t R`, row space of `R_t` within that of `R`.
fn coordinates(whole: &Summary, part: &Summary) -> Mat<f64> {
    let pivots: Vec<usize> = whole.pivots().collect();
    let r = pivots.len();
    let lower = Mat::from_fn(r, r, |i, q| whole.entry(q, pivots[i]));
    let mut rows = Mat::from_fn(r, part.rank(), |q, i| part.entry(i, pivots[q]));
    lower.solve_lower_triangular_in_place(rows.as_mut());
    rows.transpose().to_owned()
}

fn ranges(points: &[FrontPoint]) -> (f64, f64) {
    let range = |f: fn(&FrontPoint) -> f64| {
        let low = points.iter().map(f).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(f).fold(f64::NEG_INFINITY, f64::max);
        if high > low { high - low } else { 1.0 }
    };
    (range(|p| p.loss_a), range(|p| p.loss_b))
}

fn golden(mut a: f64, mut b: f64, f: impl Fn(f64) -> f64) -> f64 {
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..60 {
        let (c, d) = (b - ratio * (b - a), a + ratio * (b - a));
        if f(c) <= f(d) {
            b = d;
        } else {
            a = c;
        }
    }
    f64::midpoint(a, b)
}
