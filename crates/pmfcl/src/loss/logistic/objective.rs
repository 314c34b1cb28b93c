//! What is minimised: the past as a quadratic, the present as it is, and a penalty.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};

use super::LabelledRows;
use super::data::{Data, add_gram, add_outer, predictors, sum};
use super::evaluate::{State, centre};
use crate::error::{Error, Result};
use crate::summary::{Design, Summary};

/// `J(θ) = ½‖R_p θ − Z_p‖² + scale · Σ_i w_i ℓ_i(θ) + ½ Σ_j penalty_j ‖θ_j‖²`, on the scale of sums.
///
/// Paper: Algorithm 1 (`alg:general_mfcl`), line 4, with the past replaced by its quadratics.
#[derive(Debug, Clone, Copy)]
pub struct Objective<'a> {
    /// From input row to design row.
    pub design: &'a Design,
    /// The task at hand.
    pub task: LabelledRows<'a>,
    /// Number of classes, at least 2.
    pub classes: usize,
    /// Weight of the task's loss.
    pub scale: f64,
    /// Pooled quadratics of earlier tasks.
    pub past: Option<&'a Summary>,
    /// One number for each design column, 0 or more; 0 for a free intercept.
    pub penalty: &'a [f64],
}

/// The objective with its rows laid out.
#[derive(Debug)]
pub(super) struct Problem<'a> {
    pub(super) data: Data<'a>,
    scale: f64,
    past: Option<Past>,
    penalty: Vec<f64>,
    /// Sum of magnitudes a gradient entry of each design column is made of.
    sizes: Vec<f64>,
}

/// `R`, `Z` and `RᵀR` of the past.
#[derive(Debug)]
struct Past {
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
    /// The task's part.
    pub(super) state: State,
}

impl<'a> Problem<'a> {
    /// Checks the objective at the door.
    pub(super) fn new(objective: &Objective<'a>, threads: usize) -> Result<Self> {
        let Objective { design, task, classes, scale, past, penalty } = *objective;
        let data = Data::new(design, task, classes, threads)?;
        let (m, p) = (data.m, data.p);
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
        Ok(Self::assemble(
            data,
            scale,
            past.filter(|s| s.rank() > 0).map(Past::new),
            penalty.to_vec(),
        ))
    }

    /// A task's loss alone.
    pub(super) fn alone(data: Data<'a>) -> Self {
        let penalty = vec![0.0; data.m];
        Self::assemble(data, 1.0, None, penalty)
    }

    fn assemble(data: Data<'a>, scale: f64, past: Option<Past>, penalty: Vec<f64>) -> Self {
        let mut sizes = vec![0.0; data.m];
        let parts = data.each_chunk(|chunk| {
            let mut part = vec![0.0; data.m];
            for (i, row) in chunk.clone().zip(data.cells(&chunk).chunks_exact(data.m)) {
                let w = scale * data.weight(i);
                part.iter_mut().zip(row).for_each(|(s, x)| *s += w * x.abs());
            }
            part
        });
        for part in parts {
            sizes.iter_mut().zip(part).for_each(|(s, v)| *s += v);
        }
        if let Some(Past { r, z, .. }) = &past {
            for (j, size) in sizes.iter_mut().enumerate() {
                let of = |k: usize| (0..r.nrows()).map(|i| (r[(i, j)] * z[(i, k)]).abs()).sum();
                *size += (0..z.ncols()).map(of).fold(0.0_f64, f64::max);
            }
        }
        Self { data, scale, past, penalty, sizes }
    }

    /// Value and gradient at `theta`. Cost: `4 n m p` flops.
    pub(super) fn at(&self, theta: Mat<f64>) -> Point {
        let state = self.data.at(&theta);
        let mut value = self.scale * state.value;
        let mut gradient = faer::Scale(self.scale) * &state.gradient;
        if let Some(Past { r, z, .. }) = &self.past {
            let mut e = z.clone();
            matmul(e.as_mut(), Accum::Add, r, &theta, -1.0, Par::Seq);
            value += e.squared_norm_l2() / 2.0;
            matmul(gradient.as_mut(), Accum::Add, r.transpose(), &e, -1.0, Par::Seq);
        }
        for k in 0..self.data.p {
            for (j, penalty) in self.penalty.iter().enumerate() {
                value += penalty * theta[(j, k)] * theta[(j, k)] / 2.0;
                gradient[(j, k)] += penalty * theta[(j, k)];
            }
        }
        centre(&mut gradient);
        Point { theta, value, gradient, state }
    }

    /// Largest gradient entry relative to the sum of magnitudes it is made of: free of units.
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
    pub(super) fn shared(&self) -> Mat<f64> {
        let m = self.data.m;
        let mut h = match &self.past {
            Some(past) => past.gram.clone(),
            None => Mat::zeros(m, m),
        };
        for (j, penalty) in self.penalty.iter().enumerate() {
            h[(j, j)] += penalty;
        }
        h
    }

    /// `shared + Σ_i w_i v(i) x_i x_iᵀ`, lower triangle.
    pub(super) fn weighted(&self, v: impl Fn(usize) -> f64 + Sync) -> Mat<f64> {
        let mut h = self.data.gram(|i| self.scale * self.data.weight(i) * v(i));
        h += self.shared();
        h
    }

    /// The diagonal blocks of the curvature, one for each class, each turned into `T` as soon as it is there.
    ///
    /// Cost: `n m² p` flops.
    pub(super) fn class_blocks<T: Send>(
        &self,
        point: &Point,
        make: impl Fn(Mat<f64>) -> T + Sync,
    ) -> Vec<T> {
        let (data, p) = (&self.data, self.data.p);
        data.parallel((0..p).collect(), true, |k| {
            let mut h = self.shared();
            let mut scratch = Vec::new();
            for span in data.blocks(0..data.len()) {
                let v = |b: usize| {
                    let share = point.state.spread[(span.start + b) * p + k];
                    self.scale * data.weight(span.start + b) * share * (1.0 - share)
                };
                add_gram(h.as_mut(), data.cells(&span), &mut scratch, v);
            }
            make(h)
        })
    }

    /// The whole curvature at a point, `pm × pm`, lower triangle.
    ///
    /// For softmax the curvature along the constant vector of classes, which the loss does not see, is filled
    /// with the mean of the diagonal blocks: a centred gradient gives the same centred step.
    /// Cost: `n m² p(p+1)/2` flops.
    pub(super) fn hessian(&self, point: &Point) -> Mat<f64> {
        let (data, spread) = (&self.data, &point.state.spread);
        let (m, p) = (data.m, data.p);
        if p == 1 {
            return self.weighted(|i| spread[i]);
        }
        let mut h = sum(data.each_chunk(|chunk| {
            let mut part = Mat::<f64>::zeros(p * m, p * m);
            let mut scratch = Vec::new();
            for span in data.blocks(chunk) {
                let x = data.cells(&span);
                for k in 0..p {
                    for l in 0..=k {
                        let v = |b: usize| {
                            let row = &spread[(span.start + b) * p..(span.start + b + 1) * p];
                            let same = if k == l { 1.0 } else { 0.0 };
                            self.scale * data.weight(span.start + b) * row[k] * (same - row[l])
                        };
                        let block = part.as_mut().submatrix_mut(k * m, l * m, m, m);
                        add_gram(block, x, &mut scratch, v);
                    }
                }
            }
            part
        }));
        let shared = self.shared();
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
        h
    }

    /// The curvature at a point times `d`, without forming it. Cost: `4 n m p` flops.
    pub(super) fn multiply(&self, point: &Point, d: &Mat<f64>) -> Mat<f64> {
        let (data, p) = (&self.data, self.data.p);
        let mut out = sum(data.each_chunk(|chunk| {
            let mut part = Mat::<f64>::zeros(data.m, p);
            let mut a = Vec::new();
            for span in data.blocks(chunk) {
                let x = data.rows(&span);
                a.resize(span.len() * p, 0.0);
                predictors(x, d, &mut a);
                let spread = &point.state.spread[span.start * p..span.end * p];
                let rows = a.chunks_exact_mut(p).zip(spread.chunks_exact(p));
                for (i, (a, s)) in span.clone().zip(rows) {
                    let w = self.scale * data.weight(i);
                    if p == 1 {
                        a[0] *= w * s[0];
                    } else {
                        let mean: f64 = a.iter().zip(s).map(|(a, s)| a * s).sum();
                        a.iter_mut().zip(s).for_each(|(a, s)| *a = w * s * (*a - mean));
                    }
                }
                add_outer(&mut part, x, &a);
            }
            part
        }));
        if let Some(Past { r, .. }) = &self.past {
            let rd = r * d;
            matmul(out.as_mut(), Accum::Add, r.transpose(), &rd, 1.0, Par::Seq);
        }
        for k in 0..p {
            for (j, penalty) in self.penalty.iter().enumerate() {
                out[(j, k)] += penalty * d[(j, k)];
            }
        }
        centre(&mut out);
        out
    }
}

impl Past {
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
