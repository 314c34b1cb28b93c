//! The Newton system by conjugate gradients: nothing of size `Km × Km` is formed.
//!
//! Preconditioned by the structure of the bound, `(I − 11ᵀ/K) ⊗ (Σ c_i x_i x_iᵀ + past + penalty)`: one `m × m` Cholesky
//! for all classes. At `θ = 0` with even odds it is the curvature itself, for two classes it always is when fresh.

use faer::Mat;

use super::Curvature;
use super::evaluate::centre;
use super::factor::Factor;
use super::objective::{Point, Problem, inner};

/// A preconditioner, kept while it serves.
#[derive(Debug)]
pub(super) struct Conjugate {
    factor: Option<Factor>,
    /// Steps the last solve took.
    steps: usize,
}

impl Conjugate {
    pub(super) fn new() -> Self {
        Self { factor: None, steps: usize::MAX }
    }

    /// Solves `H d = −g` to the relative precision `forcing` in the preconditioner's norm.
    ///
    /// `None` when the curvature is not finite. Cost: `4 n m p` flops a step; `n m²` to renew the preconditioner,
    /// which is done when the last solve took longer than that.
    pub(super) fn direction(
        &mut self,
        problem: &Problem<'_>,
        point: &Point,
        forcing: f64,
    ) -> Option<Mat<f64>> {
        let (m, p) = (problem.data.m, problem.data.p);
        if self.factor.is_none() || 4 * p * self.steps.min(1 << 20) > m {
            let spread = &point.state.spread;
            let h = problem.weighted(|i| {
                if p == 1 {
                    spread[i]
                } else {
                    Curvature::Hessian.softmax(&spread[i * p..(i + 1) * p], 0.0, i)
                }
            });
            self.factor = Some(Factor::new(h)?);
        }
        let factor = self.factor.as_ref()?;
        let apply = |r: &Mat<f64>| {
            let mut z = r.clone();
            factor.solve(z.as_mut());
            centre(&mut z);
            z
        };
        let mut d = Mat::<f64>::zeros(m, p);
        let mut r = faer::Scale(-1.0) * &point.gradient;
        let mut z = apply(&r);
        let mut q = z.clone();
        let mut rz = inner(&r, &z);
        let goal = forcing * forcing * rz;
        self.steps = 0;
        // More steps than unknowns are never needed but for rounding.
        let limit = (2 * m * p).clamp(20, 500);
        while rz > goal && self.steps < limit {
            let hq = problem.multiply(point, &q);
            let curvature = inner(&q, &hq);
            if !(curvature.is_finite() && rz.is_finite()) {
                return None;
            }
            if curvature <= 0.0 {
                break;
            }
            let alpha = rz / curvature;
            add(&mut d, alpha, &q);
            add(&mut r, -alpha, &hq);
            z = apply(&r);
            let next = inner(&r, &z);
            let beta = next / rz;
            for k in 0..p {
                for j in 0..m {
                    q[(j, k)] = z[(j, k)] + beta * q[(j, k)];
                }
            }
            rz = next;
            self.steps += 1;
        }
        if self.steps == 0 { Some(z) } else { Some(d) }
    }
}

/// `a += f b`
pub(super) fn add(a: &mut Mat<f64>, f: f64, b: &Mat<f64>) {
    for k in 0..a.ncols() {
        for j in 0..a.nrows() {
            a[(j, k)] += f * b[(j, k)];
        }
    }
}
