//! What is minimised: the past as a quadratic, the present as it is, and a penalty.

use std::sync::Arc;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};

use super::columns;
use super::evaluate::{centre, to_theta};
use super::passes::{LogisticPass, Question, RunLogistic, from_numbers};
use crate::error::{Error, Result};
use crate::problem::pass::Partial;
use crate::summary::Summary;
use crate::theta::Theta;

/// `J(θ) = ½‖R_p θ − Z_p‖² + scale · Σ_i w_i ℓ_i(θ) + ½ Σ_j penalty_j ‖θ_j‖²`, on the scale of sums.
///
/// Paper: Algorithm 1 (`alg:general_mfcl`), line 4, with the past replaced by its quadratics.
pub(super) struct PenalizedTask<'a> {
    rows: &'a mut dyn RunLogistic,
    classes: Arc<[String]>,
    left_out: Arc<[(Theta, Theta)]>,
    /// Design columns.
    pub(super) m: usize,
    /// Columns of `θ`.
    pub(super) p: usize,
    scale: f64,
    past: Option<PastQuadratic>,
    penalty: Vec<f64>,
    /// Sum of magnitudes a gradient entry of each design column is made of.
    sizes: Vec<f64>,
}

/// What a task is fitted with in addition to its rows.
#[derive(Debug, Clone, Copy)]
#[doc(hidden)] // for lab
pub struct Objective<'a> {
    /// Weight of the task's loss.
    pub scale: f64,
    /// Pooled quadratics of earlier tasks.
    pub past: Option<&'a Summary>,
    /// One number for each design column, 0 or more; 0 for a free intercept.
    pub penalty: &'a [f64],
}

/// `R`, `Z` and `RᵀR` of the past.
#[derive(Debug)]
struct PastQuadratic {
    r: Mat<f64>,
    z: Mat<f64>,
    gram: Mat<f64>,
}

/// The objective at one parameter.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) theta: Mat<f64>,
    /// `J`
    pub(super) value: f64,
    /// `∇J`, centred.
    pub(super) gradient: Mat<f64>,
    /// `Σ w ℓ` of the task.
    pub(super) loss: f64,
    /// Whether every row with weight is strictly on its own side.
    pub(super) separated: bool,
}

impl<'a> PenalizedTask<'a> {
    /// Checks the objective.
    pub(super) fn new(
        rows: &'a mut dyn RunLogistic,
        classes: Arc<[String]>,
        m: usize,
        objective: &Objective<'_>,
    ) -> Result<Self> {
        let Objective { scale, past, penalty } = *objective;
        let p = columns(classes.len());
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(Error::Range {
                what: "the weight of the task",
                value: scale,
                must: "positive and finite",
            });
        }
        if penalty.len() != m {
            return Err(Error::Shape {
                what: "the penalty",
                unit: "numbers",
                expected: m,
                found: penalty.len(),
            });
        }
        if let Some(value) = penalty.iter().find(|v| !(**v >= 0.0 && v.is_finite())) {
            return Err(Error::Range {
                what: "the penalty",
                value: *value,
                must: "0 or more, and finite",
            });
        }
        if let Some(past) = past {
            past.check_sizes("the past", m, p)?;
        }
        let past = past.filter(|s| s.rank() > 0).map(PastQuadratic::new);
        let left_out: Arc<[(Theta, Theta)]> = Arc::new([]);
        let penalty = penalty.to_vec();
        let sizes = Vec::new();
        let mut task = Self { rows, classes, left_out, m, p, scale, past, penalty, sizes };
        task.measure()?;
        Ok(task)
    }

    /// The loss alone, of some of the classes.
    pub(super) fn alone(
        rows: &'a mut dyn RunLogistic,
        classes: Arc<[String]>,
        m: usize,
    ) -> Result<Self> {
        let penalty = vec![0.0; m];
        Self::new(rows, classes, m, &Objective { scale: 1.0, past: None, penalty: &penalty })
    }

    fn measure(&mut self) -> Result<()> {
        let mut sizes = self.ask(Question::Sizes)?.sums;
        sizes.iter_mut().for_each(|s| *s *= self.scale);
        if let Some(PastQuadratic { r, z, .. }) = &self.past {
            for (j, size) in sizes.iter_mut().enumerate() {
                let of = |k: usize| (0..r.nrows()).map(|i| (r[(i, j)] * z[(i, k)]).abs()).sum();
                *size += (0..z.ncols()).map(of).fold(0.0_f64, f64::max);
            }
        }
        self.sizes = sizes;
        Ok(())
    }

    pub(super) fn ask(&mut self, question: Question) -> Result<Partial> {
        let (classes, left_out) = (self.classes.clone(), self.left_out.clone());
        self.rows.run(&LogisticPass { classes, left_out, question })
    }

    /// Leaves rows out of the sums that the parameters run away from, as seen from here.
    pub(super) fn leave_out(&mut self, theta: &Mat<f64>, step: &Mat<f64>) {
        let more = std::iter::once((to_theta(theta), to_theta(step)));
        self.left_out = self.left_out.iter().cloned().chain(more).collect();
    }

    /// Counts all rows again.
    pub(super) fn take_all(&mut self) {
        self.left_out = Arc::new([]);
    }

    /// Value and gradient at `theta`. Cost: `4 n m p` flops.
    pub(super) fn at(&mut self, theta: Mat<f64>) -> Result<Point> {
        let sums = self.ask(Question::Evaluate(to_theta(&theta)))?.sums;
        let loss = sums[0];
        let mut value = self.scale * loss;
        let mut gradient = from_numbers(&sums[2..], self.m, self.p);
        gradient *= faer::Scale(self.scale);
        if let Some(PastQuadratic { r, z, .. }) = &self.past {
            let mut e = z.clone();
            matmul(e.as_mut(), Accum::Add, r, &theta, -1.0, Par::Seq);
            value += e.squared_norm_l2() / 2.0;
            matmul(gradient.as_mut(), Accum::Add, r.transpose(), &e, -1.0, Par::Seq);
        }
        for k in 0..self.p {
            for (j, penalty) in self.penalty.iter().enumerate() {
                value += penalty * theta[(j, k)] * theta[(j, k)] / 2.0;
                gradient[(j, k)] += penalty * theta[(j, k)];
            }
        }
        centre(&mut gradient);
        Ok(Point { theta, value, gradient, loss, separated: sums[1] == 0.0 })
    }

    /// Largest gradient entry relative to the sum of magnitudes it is made of: independent of units.
    pub(super) fn relative(&self, gradient: &Mat<f64>) -> f64 {
        let mut worst = 0.0_f64;
        for k in 0..gradient.ncols() {
            for (j, size) in self.sizes.iter().enumerate() {
                let g = gradient[(j, k)].abs();
                if g > 0.0 {
                    worst = worst.max(g / size);
                }
            }
        }
        worst
    }

    /// The part of the curvature all classes share, `RᵀR + diag(penalty)`, lower triangle.
    fn shared(&self) -> Mat<f64> {
        let mut h = match &self.past {
            Some(past) => past.gram.clone(),
            None => Mat::zeros(self.m, self.m),
        };
        for (j, penalty) in self.penalty.iter().enumerate() {
            h[(j, j)] += penalty;
        }
        h
    }

    /// One `m × m` matrix that stands for the curvature of all classes, lower triangle.
    pub(super) fn shared_curvature(&mut self, point: &Point) -> Result<Mat<f64>> {
        let sums = self.ask(Question::SharedCurvature(to_theta(&point.theta)))?.sums;
        let mut h = from_numbers(&sums, self.m, self.m);
        h *= faer::Scale(self.scale);
        h += self.shared();
        Ok(h)
    }

    /// The diagonal blocks of the curvature, one for each class. Cost: `n m² p` flops.
    pub(super) fn class_curvatures(&mut self, point: &Point) -> Result<Vec<Mat<f64>>> {
        let sums = self.ask(Question::ClassCurvatures(to_theta(&point.theta)))?.sums;
        let shared = self.shared();
        let block = |cells: &[f64]| {
            let mut h = from_numbers(cells, self.m, self.m);
            h *= faer::Scale(self.scale);
            h += &shared;
            h
        };
        Ok(sums.chunks_exact(self.m * self.m).map(block).collect())
    }

    /// The whole curvature at a point, `pm × pm`, lower triangle.
    ///
    /// For softmax the curvature along the constant vector of classes, which the loss does not see, is filled with the mean of
    /// the diagonal blocks: a centred gradient gives the same centred step. Cost: `n m² p(p+1)/2` flops.
    pub(super) fn hessian(&mut self, point: &Point) -> Result<Mat<f64>> {
        let (m, p) = (self.m, self.p);
        let sums = self.ask(Question::Curvature(to_theta(&point.theta)))?.sums;
        let mut h = from_numbers(&sums, p * m, p * m);
        h *= faer::Scale(self.scale);
        let shared = self.shared();
        if p == 1 {
            h += shared;
            return Ok(h);
        }
        let mut mean = Mat::<f64>::zeros(m, m);
        for k in 0..p {
            mean += h.as_ref().submatrix(k * m, k * m, m, m);
        }
        let share = 1.0 / (p * p) as f64;
        for k in 0..p {
            for l in 0..=k {
                for j in 0..m {
                    for i in j..m {
                        let mut v = h[(k * m + i, l * m + j)] + share * mean[(i, j)];
                        if k == l {
                            v += shared[(i, j)];
                        }
                        h[(k * m + i, l * m + j)] = v;
                        h[(k * m + j, l * m + i)] = v;
                    }
                }
            }
        }
        Ok(h)
    }

    /// The curvature at a point times `d`, without forming it. Cost: `4 n m p` flops.
    pub(super) fn multiply(&mut self, point: &Point, d: &Mat<f64>) -> Result<Mat<f64>> {
        let question = Question::Multiply(to_theta(&point.theta), to_theta(d));
        let sums = self.ask(question)?.sums;
        let mut out = from_numbers(&sums, self.m, self.p);
        out *= faer::Scale(self.scale);
        if let Some(PastQuadratic { r, .. }) = &self.past {
            let rd = r * d;
            matmul(out.as_mut(), Accum::Add, r.transpose(), &rd, 1.0, Par::Seq);
        }
        for k in 0..self.p {
            for (j, penalty) in self.penalty.iter().enumerate() {
                out[(j, k)] += penalty * d[(j, k)];
            }
        }
        centre(&mut out);
        Ok(out)
    }
}

impl PastQuadratic {
    fn new(past: &Summary) -> Self {
        let mut r = Mat::zeros(past.rank(), past.width());
        let mut z = Mat::zeros(past.rank(), past.targets());
        for (i, (pivot, row, targets)) in past.iter().enumerate() {
            row.iter().enumerate().for_each(|(j, v)| r[(i, pivot + j)] = *v);
            targets.iter().enumerate().for_each(|(k, v)| z[(i, k)] = *v);
        }
        let gram = r.transpose() * &r;
        Self { r, z, gram }
    }
}

/// `Σ a ∘ b`
pub(super) fn inner(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let column =
        |m: &Mat<f64>, k: usize| -> Vec<f64> { (0..m.nrows()).map(|j| m[(j, k)]).collect() };
    (0..a.ncols()).map(|k| crate::summary::dot(&column(a, k), &column(b, k))).sum()
}

/// A matrix seen as one long column, column after column.
pub(super) fn stacked(a: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(a.nrows() * a.ncols(), 1, |i, _| a[(i % a.nrows(), i / a.nrows())])
}

/// The way back.
pub(super) fn unstacked(a: MatRef<'_, f64>, m: usize, p: usize) -> Mat<f64> {
    Mat::from_fn(m, p, |j, k| a[(k * m + j, 0)])
}
