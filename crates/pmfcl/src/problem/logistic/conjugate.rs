//! The Newton system by conjugate gradients: nothing of size `Km × Km` is formed.
//!
//! Preconditioned by the structure of the bound, `(I − 11ᵀ/K) ⊗ (Σ c_i x_i x_iᵀ + past + penalty)`: one `m × m` Cholesky
//! for all classes. At `θ = 0` it is the curvature itself, for two classes it always is when fresh. Where many
//! classes make that too coarse, each gets its own block `Σ p_k(1 − p_k) x xᵀ + past + penalty`.

use faer::Mat;

use super::evaluate::centre;
use super::factor::Factor;
use super::passes::cost_of_blocks;
use super::task::{PenalizedTask, Point, inner};
use crate::error::Result;

/// Most numbers the blocks of all classes may take: 256 MiB.
const BLOCK_NUMBERS: usize = 1 << 25;

/// A preconditioner, kept while it serves.
#[derive(Debug)]
pub(super) struct Conjugate {
    /// None yet, one for all classes, or one for each.
    factors: Vec<Factor>,
    /// Steps the last solve took.
    steps: usize,
    /// Steps in all.
    pub(super) total: usize,
}

impl Conjugate {
    pub(super) fn new() -> Self {
        Self { factors: Vec::new(), steps: 0, total: 0 }
    }

    /// Renews the preconditioner when the last solve took longer than that does, and changes to one block for
    /// each class when it took longer than that.
    fn renew(&mut self, task: &mut PenalizedTask<'_>, point: &Point) -> Result<Option<()>> {
        let (m, p) = (task.m, task.p);
        // A step costs 4nmp, one block for all classes nm², and blocks of all classes so many times that:
        let times = cost_of_blocks(p);
        let blocks = self.factors.len() == p && p > 1;
        if p > 1
            && !self.factors.is_empty()
            && p * m * m <= BLOCK_NUMBERS
            && 4 * p * self.steps > m * times
        {
            let blocks = task.class_curvatures(point)?;
            match blocks.into_iter().map(Factor::new).collect::<Option<Vec<_>>>() {
                Some(factors) => self.factors = factors,
                None => return Ok(None),
            }
        } else if self.factors.is_empty() || (!blocks && 4 * p * self.steps > m) {
            match Factor::new(task.shared_curvature(point)?) {
                Some(factor) => self.factors = vec![factor],
                None => return Ok(None),
            }
        }
        Ok(Some(()))
    }

    /// `z = M⁻¹ r`, centred.
    fn apply(&self, r: &Mat<f64>) -> Mat<f64> {
        let mut z = r.clone();
        match &self.factors[..] {
            [one] => one.solve(z.as_mut()),
            each => {
                for (k, factor) in each.iter().enumerate() {
                    factor.solve(z.as_mut().subcols_mut(k, 1));
                }
            }
        }
        centre(&mut z);
        z
    }

    /// Solves `H d = −g` to the relative precision `forcing` in the preconditioner's norm.
    ///
    /// `None` where the curvature is not finite. Cost: `4 n m p` flops a step, and as much as the last solve at most
    /// to renew the preconditioner.
    pub(super) fn direction(
        &mut self,
        task: &mut PenalizedTask<'_>,
        point: &Point,
        forcing: f64,
    ) -> Result<Option<Mat<f64>>> {
        let (m, p) = (task.m, task.p);
        if self.renew(task, point)?.is_none() {
            return Ok(None);
        }
        let mut d = Mat::<f64>::zeros(m, p);
        let mut r = faer::Scale(-1.0) * &point.gradient;
        let mut z = self.apply(&r);
        let mut q = z.clone();
        let mut rz = inner(&r, &z);
        let goal = forcing * forcing * rz;
        self.steps = 0;
        // More steps than unknowns are never needed except for rounding.
        let limit = (2 * m * p).clamp(20, 500);
        while rz > goal && self.steps < limit {
            let hq = task.multiply(point, &q)?;
            let curvature = inner(&q, &hq);
            if !(curvature.is_finite() && rz.is_finite()) {
                return Ok(None);
            }
            if curvature <= 0.0 {
                break;
            }
            let alpha = rz / curvature;
            add(&mut d, alpha, &q);
            add(&mut r, -alpha, &hq);
            z = self.apply(&r);
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
        self.total += self.steps;
        Ok(Some(if self.steps == 0 { z } else { d }))
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
