//! The loss itself: value, gradient and probabilities, without overflow and without cancellation.

use std::ops::Range;

use faer::Mat;

use super::curvature::logistic;
use super::data::{Data, add_outer, predictors, sum};
use crate::error::{Error, Result};
use crate::kernel::exponentials;
use crate::theta::Theta;

/// Class probabilities from linear predictors, row after row; every row sums to 1.
///
/// `eta` has one column for two classes and `classes` columns for more; `out` always has `classes`.
///
/// ```
/// let mut p = [0.0; 4];
/// pmfcl::problem::logistic::probabilities(&[0.0, 800.0], 2, &mut p);
/// assert_eq!(p.map(|v| v.to_string()), ["0.5", "0.5", "0", "1"]);
/// ```
///
/// # Panics
/// When `out` is not `classes` numbers for every row of `eta`.
#[doc(hidden)] // for baselines, cli, export
pub fn probabilities(eta: &[f64], classes: usize, out: &mut [f64]) {
    let p = super::columns(classes);
    assert_eq!(eta.len() / p * classes, out.len(), "one number for each row and class");
    if p == 1 {
        for (out, eta) in out.chunks_exact_mut(classes).zip(eta) {
            let q = logistic(-eta.abs());
            let (first, last) = if *eta >= 0.0 { (q, 1.0 - q) } else { (1.0 - q, q) };
            out[0] = first;
            out[classes - 1] = last;
        }
        return;
    }
    softmax(eta, p, out, |_, _, _| ());
}

/// What one pass over the rows says at a parameter, on the sum scale.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// `Σ w ℓ`
    pub(super) value: f64,
    /// `Σ w x (p − e_y)ᵀ`
    pub(super) gradient: Mat<f64>,
    /// Two classes: `p(1 − p)` of every row. More: all probabilities, row after row.
    pub(super) spread: Vec<f64>,
    /// Rows with weight that are not strictly on their own side.
    pub(super) misses: f64,
}

impl Data<'_> {
    /// Loss, gradient and spreads at `theta`. Cost: `4 n m p` flops.
    pub(super) fn at(&self, theta: &Mat<f64>) -> State {
        let mut spread = vec![0.0; self.len() * self.p];
        let parts = self.each_chunk_with(&mut spread, self.p, |chunk, spread| {
            let mut part = Part { value: 0.0, misses: 0.0, gradient: Mat::zeros(self.m, self.p) };
            let start = chunk.start;
            let mut buffer = Vec::new();
            for span in self.blocks(chunk) {
                let (x, at) = (self.rows(&span), (span.start - start) * self.p);
                let spread = &mut spread[at..at + span.len() * self.p];
                buffer.resize(span.len() * self.p, 0.0);
                predictors(x, theta, &mut buffer);
                let (value, misses) = if self.p == 1 {
                    self.binary(&span, &mut buffer, spread)
                } else {
                    self.softmax(&span, &mut buffer, spread)
                };
                part.value += value;
                part.misses += misses;
                add_outer(&mut part.gradient, x, &buffer);
            }
            part
        });
        let value = parts.iter().map(|p| p.value).sum();
        let misses = parts.iter().map(|p| p.misses).sum();
        let gradients = parts.into_iter().map(|p| p.gradient).collect();
        State { value, gradient: sum(gradients, (self.m, self.p)), spread, misses }
    }

    /// Turns predictors into weighted residuals `w(p − y)`; returns the loss of the block.
    fn binary(&self, span: &Range<usize>, eta: &mut [f64], spread: &mut [f64]) -> (f64, f64) {
        let (mut value, mut misses) = (0.0, 0.0);
        // One exponential, e^{−|η|}, gives loss, residual and spread.
        for (s, eta) in spread.iter_mut().zip(&*eta) {
            *s = -eta.abs();
        }
        exponentials(spread);
        for ((i, eta), spread) in span.clone().zip(eta).zip(spread) {
            let (w, e) = (self.weight(i), *spread);
            // The margin: positive where the row is on its own side.
            let side = if self.label(i) == 1 { 1.0 } else { -1.0 };
            let margin = side * *eta;
            let large = 1.0 / (1.0 + e);
            let small = e * large;
            let miss = if margin >= 0.0 { small } else { large };
            value += w * (e.ln_1p() + (-margin).max(0.0));
            misses += f64::from(u8::from(margin <= 0.0 && w > 0.0));
            *spread = small * large;
            *eta = -w * side * miss;
        }
        (value, misses)
    }

    /// The same for softmax; `spread` gets the probabilities.
    fn softmax(&self, span: &Range<usize>, eta: &mut [f64], spread: &mut [f64]) -> (f64, f64) {
        let (p, start) = (self.p, span.start);
        let (mut value, mut misses) = (0.0, 0.0);
        softmax(eta, p, spread, |b, top, others| {
            let (w, y) = (self.weight(start + b), self.label(start + b));
            let row = &eta[b * p..(b + 1) * p];
            value += w * (others.ln_1p() + (row[top] - row[y]));
            let alone = || row.iter().enumerate().all(|(k, e)| k == y || *e < row[y]);
            misses += f64::from(u8::from(w > 0.0 && !(y == top && alone())));
        });
        let rows = eta.chunks_exact_mut(p).zip(spread.chunks_exact(p));
        for (i, (residual, shares)) in span.clone().zip(rows) {
            let (w, y) = (self.weight(i), self.label(i));
            // 1 − p_y as the sum of the others: full precision for a row that is sure and right.
            let mut miss = 0.0;
            for (k, (r, share)) in residual.iter_mut().zip(shares).enumerate() {
                *r = w * share;
                if k != y {
                    miss += share;
                }
            }
            residual[y] = -w * miss;
        }
        (value, misses)
    }
}

struct Part {
    value: f64,
    gradient: Mat<f64>,
    misses: f64,
}

/// Writes the softmax of rows of `p` predictors, and tells `each` row's number, the place of its largest
/// entry and `Σ_{others} e^{η − η_top}`.
pub(super) fn softmax(
    eta: &[f64],
    p: usize,
    out: &mut [f64],
    mut each: impl FnMut(usize, usize, f64),
) {
    let top = |eta: &[f64]| (0..p).fold(0, |best, k| if eta[k] > eta[best] { k } else { best });
    for (out, eta) in out.chunks_exact_mut(p).zip(eta.chunks_exact(p)) {
        let largest = eta[top(eta)];
        for (out, e) in out.iter_mut().zip(eta) {
            *out = e - largest;
        }
    }
    exponentials(out);
    for (i, (out, eta)) in out.chunks_exact_mut(p).zip(eta.chunks_exact(p)).enumerate() {
        let top = top(eta);
        let others: f64 = out[..top].iter().sum::<f64>() + out[top + 1..].iter().sum::<f64>();
        let scale = 1.0 / (1.0 + others);
        for v in out.iter_mut() {
            *v *= scale;
        }
        each(i, top, others);
    }
}

/// Parameters as a matrix, of the shape asked for.
pub(super) fn to_mat(theta: &Theta, m: usize, p: usize) -> Result<Mat<f64>> {
    if (theta.width(), theta.targets()) != (m, p) {
        return Err(theta.wrong_shape(m, p));
    }
    if let Some(value) = theta.cells().iter().find(|v| !v.is_finite()) {
        return Err(Error::Range { what: "a coefficient", value: *value, must: "finite" });
    }
    Ok(Mat::from_fn(m, p, |j, k| theta.column(k)[j]))
}

pub(super) fn to_theta(theta: &Mat<f64>) -> Theta {
    let mut out = Theta::zeros(theta.nrows(), theta.ncols());
    for k in 0..theta.ncols() {
        for (o, j) in out.column_mut(k).iter_mut().zip(0..theta.nrows()) {
            *o = theta[(j, k)];
        }
    }
    out
}

/// Takes the mean over the columns off every row; one column is left alone.
pub(super) fn centre(theta: &mut Mat<f64>) {
    let p = theta.ncols();
    if p == 1 {
        return;
    }
    for j in 0..theta.nrows() {
        let mean = (0..p).map(|k| theta[(j, k)]).sum::<f64>() / p as f64;
        for k in 0..p {
            theta[(j, k)] -= mean;
        }
    }
}
