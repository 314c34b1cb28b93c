//! The quadratic that stands for a task, as a summary like any other.
//!
//! With `H = RᵀR/n` and gradient `g` at the anchor, `Z = Rθ̂ − n R⁻ᵀ g` and `c = 2nL(θ̂) − ‖n R⁻ᵀ g‖²` give
//!
//! ```text
//! (‖Rθ − Z‖² + c) / 2n = L(θ̂) + ⟨g, θ − θ̂⟩ + ½ (θ − θ̂)ᵀ H (θ − θ̂)
//! ```
//!
//! `g` is a sum of rows of the design and no row has curvature 0, so `g` lies in the row space of `R` and the triangular solve is
//! exact even where columns depend on each other. Working targets `η − g/c`, row by row, would give the same but cost a QR of
//! `m + K` instead of `m` columns, and overflow for a row that is sure and wrong.

use std::sync::Arc;

use faer::Mat;

use super::evaluate::{centre, to_mat, to_theta};
use super::passes::{LogisticPass, Question, RunLogistic, from_numbers};
use super::{Curvature, columns};
use crate::error::Result;
use crate::summary::Summary;
use crate::theta::Theta;

/// The quadratic of the loss of a task of `n` samples at `anchor`.
///
/// Where `curvature` is guaranteed, [`Summary::loss`] of the result is at least the task's loss for every `θ`; it is equal to it at
/// the anchor in any case. For more than two classes the anchor is centred first.
///
/// Paper: eq. 9 (`eq:qub_loss_ub`), widened to any anchor; Corollary 5.4. Cost: `2 n m²` flops for the factor, `n m` for the Fisher
/// diagonal.
pub(super) fn expand(
    rows: &mut dyn RunLogistic,
    classes: Arc<[String]>,
    (m, n): (usize, f64),
    anchor: &Theta,
    curvature: Curvature,
) -> Result<Summary> {
    let p = columns(classes.len());
    let mut theta = to_mat(anchor, m, p)?;
    centre(&mut theta);
    let question = Question::Expand(to_theta(&theta), curvature);
    let mut answer = rows.run(&LogisticPass { classes, left_out: Arc::new([]), question })?;
    let value = answer.sums[0];
    let gradient = from_numbers(&answer.sums[1..], m, p);
    let extra = &answer.sums[1 + m * p..];
    let root = match curvature {
        // Above `H`, because the difference is diagonally dominant.
        Curvature::Diagonal => {
            let h = from_numbers(extra, m, m);
            let row = |j: usize| (0..m).map(|l| h[(j.max(l), j.min(l))].abs()).sum::<f64>();
            diagonal(m, row)
        }
        Curvature::Fisher { .. } => diagonal(m, |j| extra[j]),
        _ => match answer.tasks.pop() {
            Some(task) => task.quadratic,
            None => return Err(super::newton::overflow()),
        },
    };
    let summary = attached(&root, &theta, &gradient, n, value);
    if summary.is_finite() && value.is_finite() {
        Ok(summary)
    } else {
        Err(super::newton::overflow())
    }
}

fn diagonal(m: usize, square: impl Fn(usize) -> f64) -> Summary {
    let roots = (0..m).map(|j| (j, square(j).sqrt(), 0.0)).filter(|(_, root, _)| *root > 0.0);
    Summary::diagonal(m, 1, roots)
}

/// Gives the root the value and slope of the loss at the anchor; `gradient` and `value` are sums over rows.
fn attached(root: &Summary, theta: &Mat<f64>, gradient: &Mat<f64>, n: f64, value: f64) -> Summary {
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
