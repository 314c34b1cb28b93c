//! Is a model Pareto-optimal? A certificate instead of a plot.
//!
//! `θ` is Pareto-optimal for convex losses if and only if some `α` on the simplex has `Σ α_t ∇L_t(θ) = 0`.
//! The best such `α` is the point of the gradients' convex hull nearest to the origin.

use crate::error::{Error, Result};
use crate::summary::Summary;
use crate::theta::Theta;

/// How near a model is to the Pareto front.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // what `certificate` gives
pub struct Certificate {
    /// The preference the model comes nearest to being optimal for.
    pub alpha: Vec<f64>,
    /// `‖Σ α_t ∇L_t‖`; 0 on the front. A step against this direction helps every task.
    pub residual: f64,
    /// The residual relative to the longest of the gradients; where all of them are small compared with the
    /// terms that cancel in them (tasks that agree without noise), relative to `√ε` of those.
    pub relative: f64,
}

/// The certificate of a model over tasks.
///
/// Cost: `O(T m²)` for the gradients and `O(T³)` for the nearest point.
///
/// # Errors
/// When shapes differ or there is no task.
#[doc(hidden)] // for tests
pub fn certificate(tasks: &[&Summary], theta: &Theta) -> Result<Certificate> {
    if tasks.is_empty() {
        return Err(Error::NotLearned);
    }
    let gradients: Vec<Theta> = tasks.iter().map(|s| s.gradient(theta)).collect::<Result<_>>()?;
    let alpha = nearest_to_origin(&gradients);
    let mut sum = vec![0.0; gradients[0].cells().len()];
    for (a, g) in alpha.iter().zip(&gradients) {
        for (s, g) in sum.iter_mut().zip(g.cells()) {
            *s += a * g;
        }
    }
    let residual = sum.iter().map(|v| v * v).sum::<f64>().sqrt();
    let terms = tasks.iter().map(|s| s.gradient_size(theta)).fold(0.0, f64::max);
    let longest = gradients.iter().map(Theta::norm).fold(f64::EPSILON.sqrt() * terms, f64::max);
    Ok(Certificate {
        alpha,
        residual,
        relative: if longest > 0.0 { residual / longest } else { 0.0 },
    })
}

/// Wolfe's algorithm: the point of a polytope nearest to the origin, as weights on its corners.
fn nearest_to_origin(points: &[Theta]) -> Vec<f64> {
    let count = points.len();
    let inner = |i: usize, j: usize| -> f64 {
        points[i].cells().iter().zip(points[j].cells()).map(|(a, b)| a * b).sum()
    };
    // In units of the longest, so that inner products have the size of the ones of the affine condition.
    let scale = (0..count).map(|i| inner(i, i)).fold(f64::MIN_POSITIVE, f64::max);
    let gram: Vec<Vec<f64>> =
        (0..count).map(|i| (0..count).map(|j| inner(i, j) / scale).collect()).collect();
    let tolerance = 1e-14;
    let start = (0..count).min_by(|i, j| gram[*i][*i].total_cmp(&gram[*j][*j])).unwrap_or(0);
    let mut alpha = vec![0.0; count];
    alpha[start] = 1.0;
    let mut active = vec![start];
    // Each round adds a corner; corners leave when their weight reaches zero.
    for _ in 0..20 * count + 100 {
        let along = |j: usize| active.iter().map(|&i| alpha[i] * gram[i][j]).sum::<f64>();
        let square: f64 = active.iter().map(|&i| alpha[i] * along(i)).sum();
        let best = (0..count).min_by(|i, j| along(*i).total_cmp(&along(*j))).unwrap_or(0);
        if along(best) >= square - tolerance || active.contains(&best) {
            break;
        }
        active.push(best);
        loop {
            let Some(target) = affine_minimum(&gram, &active) else {
                active.pop();
                break;
            };
            if target.iter().all(|w| *w > 1e-14) {
                for (&i, w) in active.iter().zip(&target) {
                    alpha[i] = *w;
                }
                break;
            }
            // Walk towards the affine minimum until a weight vanishes, and drop that corner.
            let step = active
                .iter()
                .zip(&target)
                .filter(|(_, w)| **w <= 1e-14)
                .map(|(&i, w)| alpha[i] / (alpha[i] - w))
                .fold(1.0, f64::min);
            for (&i, w) in active.iter().zip(&target) {
                alpha[i] += step * (w - alpha[i]);
            }
            active.retain(|&i| {
                let stays = alpha[i] > 1e-14;
                if !stays {
                    alpha[i] = 0.0;
                }
                stays
            });
            if active.is_empty() {
                active.push(start);
                alpha[start] = 1.0;
                break;
            }
        }
    }
    let sum: f64 = alpha.iter().sum();
    alpha.iter().map(|a| a / sum).collect()
}

/// Weights of the point of the affine hull of the active corners nearest to the origin; `None` where the
/// corners are affinely dependent.
fn affine_minimum(gram: &[Vec<f64>], active: &[usize]) -> Option<Vec<f64>> {
    let size = active.len() + 1;
    // [0 1ᵀ; 1 G] [μ; w] = [1; 0], by elimination with pivoting.
    let mut a = vec![vec![0.0; size + 1]; size];
    for (i, &p) in active.iter().enumerate() {
        a[0][i + 1] = 1.0;
        a[i + 1][0] = 1.0;
        for (j, &q) in active.iter().enumerate() {
            a[i + 1][j + 1] = gram[p][q];
        }
    }
    a[0][size] = 1.0;
    let largest = a.iter().flatten().fold(0.0_f64, |m, v| m.max(v.abs()));
    for c in 0..size {
        let pivot = (c..size).max_by(|i, j| a[*i][c].abs().total_cmp(&a[*j][c].abs()))?;
        if a[pivot][c].abs() <= 1e-15 * largest {
            return None;
        }
        a.swap(c, pivot);
        let head = a[c].clone();
        for row in a.iter_mut().skip(c + 1) {
            let f = row[c] / head[c];
            for (v, h) in row.iter_mut().zip(&head).skip(c) {
                *v -= f * h;
            }
        }
    }
    let mut x = vec![0.0; size];
    for i in (0..size).rev() {
        let known: f64 = (i + 1..size).map(|j| a[i][j] * x[j]).sum();
        x[i] = (a[i][size] - known) / a[i][i];
    }
    Some(x[1..].to_vec())
}

/// Whether losses `a` are nowhere worse and somewhere better than losses `b`.
///
/// Paper: Definition 3.2 (Pareto dominance).
#[doc(hidden)] // for tests
pub fn dominates(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a <= b) && a.iter().zip(b).any(|(a, b)| a < b)
}

/// Indices of the points no other point dominates.
#[doc(hidden)] // for tests
pub fn non_dominated(points: &[Vec<f64>]) -> Vec<usize> {
    (0..points.len())
        .filter(|&i| !points.iter().any(|other| dominates(other, &points[i])))
        .collect()
}
