//! Logistic loss, binary and softmax: one task's fit, and the quadratic that stands for it afterwards.
//!
//! With `η = φ(x)ᵀΘ` the loss of a row is `log Σ_k e^{η_k} − η_y`; a task's loss is its weighted mean.
//! It is no quadratic, so nothing smaller than the rows carries it exactly. What is kept instead is a quadratic
//! at an anchor `θ̂`, and where the [`Curvature`] is a guaranteed one it lies above the loss everywhere:
//!
//! ```text
//! L_t(θ) ≤ L_t(θ̂) + ⟨g, θ − θ̂⟩ + ½ Σ_i (w_i c_i / n) ‖(θ − θ̂)ᵀ x_i‖²
//! ```
//!
//! | step                                            | function        |
//! |-------------------------------------------------|-----------------|
//! | minimise past quadratics + this task's true loss | [`fit`]         |
//! | the quadratic at the solution, as a [`Summary`]  | [`expand`]      |
//! | how low the task's loss can go at all            | [`least_loss`]  |
//! | loss and gradient at any parameter               | [`evaluate`]    |
//!
//! **One-shot** (the paper's Algorithm 2): fit every task alone, expand there, pool the summaries.
//! **Sequential** (Algorithm 1 taken seriously): give the pooled past to [`fit`], expand at its solution.
//!
//! # Columns of θ, and why softmax is kept centred
//! Two classes take one column, class 1 against class 0. More take one column each, and these sum to zero over
//! the classes: adding one vector to all columns changes no probability, so every `Θ` has a centred twin with
//! the same loss, and the gradient is centred by itself. The curvature of softmax has the form
//! `Σ c_i x_i x_iᵀ ⊗ (I − 11ᵀ/K)`; on centred differences the projector is the identity, so one `R` serves all
//! columns and the summary needs no second matrix. Off the centred plane the summary only gains, so it stays a bound.
//!
//! Paper: Section 5 (`sec:mfcl_qub`), Corollary 5.4 (`cor:mfcl_multi_class`), Appendix E.1 (`app:binaryclass-qub`),
//! Appendix E.2 (`app:multiclass-logistic-regression`), with the gradient's sign, the rank of `V̄` and the anchor corrected.

mod conjugate;
mod curvature;
mod data;
mod evaluate;
mod expand;
mod exponential;
mod factor;
mod least;
mod newton;
mod objective;

pub use curvature::Curvature;
pub use evaluate::{evaluate, probabilities};
pub use expand::expand;
pub use least::{Least, least_loss};
pub use newton::{Fit, fit, fit_to};
pub use objective::Objective;

use crate::rows::Rows;

#[cfg(doc)]
use crate::summary::Summary;

/// Rows with their classes.
#[derive(Debug, Clone, Copy)]
pub struct LabelledRows<'a> {
    /// Inputs.
    pub x: Rows<'a>,
    /// Class of every row, counted from 0.
    pub labels: &'a [u32],
    /// Sample weights, 1 where there are none; 3 counts as three copies of the row.
    pub weights: Option<&'a [f64]>,
}

/// Columns of `θ`: 1 for two classes, `classes` for more.
pub fn columns(classes: usize) -> usize {
    if classes <= 2 { 1 } else { classes }
}
