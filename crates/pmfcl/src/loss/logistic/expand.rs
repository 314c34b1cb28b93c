//! The quadratic that stands for a task, as a summary like any other.
//!
//! With `H = RᵀR/n` and gradient `g` at the anchor, `Z = Rθ̂ − n R⁻ᵀ g` and `c = 2nL(θ̂) − ‖n R⁻ᵀ g‖²` give
//!
//! ```text
//! (‖Rθ − Z‖² + c) / 2n = L(θ̂) + ⟨g, θ − θ̂⟩ + ½ (θ − θ̂)ᵀ H (θ − θ̂)
//! ```
//!
//! `g` is a sum of rows of the design and no row has curvature 0, so `g` lies in the row space of `R` and the
//! triangular solve is exact even where columns depend on each other. Working targets `η − g/c`, row by row, would give
//! the same but cost a QR of `m + K` instead of `m` columns, and overflow for a row that is sure and wrong.

use faer::Mat;

use super::data::{Data, predictors};
use super::evaluate::{centre, softmax, to_mat};
use super::{Curvature, LabelledRows};
use crate::error::Result;
use crate::loss::Majorized;
use crate::rows::Rows;
use crate::summary::{Accumulator, Design, Summarizer, Summary};
use crate::theta::Theta;

/// The quadratic of a task's mean loss at `anchor`, with `n = Σ w`.
///
/// Where `curvature` is guaranteed, [`Summary::loss`] of the result is at least the task's loss for every `θ`; it is
/// equal to it at the anchor in any case. For more than two classes the anchor is centred first.
///
/// Paper: eq. 9 (`eq:qub_loss_ub`), widened to any anchor; Corollary 5.4. Cost: `2 n m²` flops for the factor, `n m` for
/// the Fisher diagonal.
///
/// # Errors
/// On shapes that do not agree, labels out of range, values that are not finite or overflow when squared.
pub fn expand(
    design: &Design,
    task: LabelledRows<'_>,
    classes: usize,
    anchor: &Theta,
    curvature: Curvature,
    threads: usize,
) -> Result<Majorized> {
    let data = Data::new(design, task, classes, threads)?;
    let mut theta = to_mat(anchor, data.m, data.p)?;
    centre(&mut theta);
    let weights = row_weights(&data, &theta, curvature);
    let state = data.at(&theta);
    let root = match curvature {
        Curvature::Diagonal => row_sums(&data, &weights),
        Curvature::Fisher { .. } => column_squares(&data, &weights),
        _ => factor(design, &task, &weights, threads)?,
    };
    let value = state.value / data.total;
    let summary = touch(&root, &theta, &state.gradient, data.total, state.value);
    if !(summary.is_finite() && value.is_finite()) {
        return Err(super::newton::overflow());
    }
    Ok(Majorized { summary, value })
}

/// `w_i c_i` of every row.
fn row_weights(data: &Data<'_>, theta: &Mat<f64>, curvature: Curvature) -> Vec<f64> {
    let p = data.p;
    let mut weights = vec![0.0; data.len()];
    data.each_chunk_with(&mut weights, 1, |chunk, weights| {
        let start = chunk.start;
        let (mut eta, mut shares) = (Vec::new(), Vec::new());
        for span in data.blocks(chunk) {
            eta.resize(span.len() * p, 0.0);
            shares.resize(span.len() * p, 0.0);
            predictors(data.rows(&span), theta, &mut eta);
            let weights = &mut weights[span.start - start..span.end - start];
            if p == 1 {
                for ((i, eta), weight) in span.zip(&eta).zip(weights) {
                    *weight = data.weight(i) * curvature.binary(*eta, i);
                }
                continue;
            }
            // logit of the largest probability: −log of the sum of the others over it.
            softmax(&eta, p, &mut shares, |b, _, others| weights[b] = -others.ln());
            let rows = eta.chunks_exact(p).zip(shares.chunks_exact(p));
            for ((i, (eta, shares)), weight) in span.zip(rows).zip(weights) {
                let xi = if weight.is_finite() { *weight } else { gap(eta) };
                *weight = data.weight(i) * curvature.softmax(shares, xi, i);
            }
        }
    });
    weights
}

/// Distance of the two largest predictors: the logit where all other probabilities underflow.
fn gap(eta: &[f64]) -> f64 {
    let (mut first, mut second) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for &e in eta {
        if e > first {
            (first, second) = (e, first);
        } else if e > second {
            second = e;
        }
    }
    first - second
}

/// `R` with `RᵀR = Σ w c x xᵀ`, by QR.
fn factor(
    design: &Design,
    task: &LabelledRows<'_>,
    weights: &[f64],
    threads: usize,
) -> Result<Summary> {
    let mut summarizer = Summarizer::new(design.clone(), 1, Accumulator::Qr)?.threads(threads);
    let zeros = vec![0.0; weights.len()];
    summarizer.add(task.x, Rows::new(&zeros, 1)?, Some(weights))?;
    summarizer.finish()
}

/// `Diag(Σ_l |H_jl|)` as a root: above `H`, because the difference is diagonally dominant.
fn row_sums(data: &Data<'_>, weights: &[f64]) -> Summary {
    let h = data.gram(|i| weights[i]);
    let m = data.m;
    let of = |j: usize| (0..m).map(|l| h[(j.max(l), j.min(l))].abs()).sum::<f64>();
    diagonal(m, of)
}

/// `Diag(Σ_i w_i c_i x_ij²)` as a root.
fn column_squares(data: &Data<'_>, weights: &[f64]) -> Summary {
    let m = data.m;
    let parts = data.each_chunk(|chunk| {
        let mut part = vec![0.0; m];
        for (i, row) in chunk.clone().zip(data.cells(&chunk).chunks_exact(m)) {
            part.iter_mut().zip(row).for_each(|(s, x)| *s += weights[i] * x * x);
        }
        part
    });
    diagonal(m, |j| parts.iter().map(|part| part[j]).sum())
}

fn diagonal(m: usize, square: impl Fn(usize) -> f64) -> Summary {
    let roots = (0..m).map(|j| (j, square(j).sqrt(), 0.0)).filter(|(_, root, _)| *root > 0.0);
    Summary::diagonal(m, 1, roots)
}

/// Gives the root the value and slope of the loss at the anchor; `gradient` and `value` are sums over rows.
fn touch(root: &Summary, theta: &Mat<f64>, gradient: &Mat<f64>, n: f64, value: f64) -> Summary {
    let (p, r) = (theta.ncols(), root.rank());
    // Rᵀu = n g, pivot by pivot from the top.
    let mut left = gradient.clone();
    let mut z = vec![0.0; r * p];
    let mut squares = 0.0;
    for (i, (pivot, row, _)) in root.iter().enumerate() {
        for k in 0..p {
            let u = left[(pivot, k)] / row[0];
            let mut fitted = 0.0;
            for (j, v) in row.iter().enumerate() {
                left[(pivot + j, k)] -= u * v;
                fitted += v * theta[(pivot + j, k)];
            }
            z[i * p + k] = fitted - u;
            squares += u * u;
        }
    }
    root.retarget(p, n, &z, 2.0 * value - squares)
}
