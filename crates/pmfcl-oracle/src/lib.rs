//! Truths to hold the library against. Shares no code with it, and is slow and obvious on purpose.
//!
//! * [`least_squares`]: the solution to 16 digits even where the condition number is 1e8, by normal
//!   equations in double-double arithmetic
//! * [`conditioned`], [`Draw`]: rows with a known condition number, from a seed
//! * [`recursion`], [`messages`]: the paper's own Algorithms 3 and 4, step by step as printed or corrected

#![allow(clippy::missing_errors_doc, reason = "nothing here returns an error")]

mod double;
mod draw;
pub mod messages;
pub mod recursion;

pub use double::Double;
pub use draw::{Draw, conditioned};

/// Minimises `Σ_i w_i (x_iᵀθ − y_i)² + Σ_j penalty_j θ_j²`; rows are row-major, `d` wide.
///
/// Gram matrix and Cholesky in 106 bits: a condition number of 1e8 costs 16 of 32 digits.
///
/// # Panics
/// When the columns are dependent to 1e-28.
pub fn least_squares(
    x: &[f64],
    d: usize,
    y: &[f64],
    w: Option<&[f64]>,
    penalty: &[f64],
) -> Vec<f64> {
    let zero = Double::from(0.0);
    let mut gram = vec![vec![zero; d]; d];
    let mut rhs = vec![zero; d];
    for (i, row) in x.chunks_exact(d).enumerate() {
        let weight = Double::from(w.map_or(1.0, |w| w[i]));
        for a in 0..d {
            let wa = weight * Double::from(row[a]);
            for b in a..d {
                gram[a][b] = gram[a][b] + wa * Double::from(row[b]);
            }
            rhs[a] = rhs[a] + wa * Double::from(y[i]);
        }
    }
    for (j, p) in penalty.iter().enumerate() {
        gram[j][j] = gram[j][j] + Double::from(*p);
    }
    cholesky_solve(&mut gram, rhs)
}

/// Solves in place with the upper half of a positive definite matrix.
fn cholesky_solve(gram: &mut [Vec<Double>], mut rhs: Vec<Double>) -> Vec<f64> {
    let d = rhs.len();
    for i in 0..d {
        for k in 0..i {
            let f = gram[k][i];
            for j in i..d {
                let v = gram[k][j] * f;
                gram[i][j] = gram[i][j] - v;
            }
            rhs[i] = rhs[i] - rhs[k] * f;
        }
        assert!(gram[i][i].value() > 0.0, "column {i} depends on those before it");
        let root = gram[i][i].sqrt();
        for j in i..d {
            gram[i][j] = gram[i][j] / root;
        }
        rhs[i] = rhs[i] / root;
    }
    for i in (0..d).rev() {
        for j in i + 1..d {
            rhs[i] = rhs[i] - gram[i][j] * rhs[j];
        }
        rhs[i] = rhs[i] / gram[i][i];
    }
    rhs.into_iter().map(Double::value).collect()
}

/// `‖a − b‖ / ‖b‖`
pub fn relative_error(a: &[f64], b: &[f64]) -> f64 {
    let distance: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
    let norm: f64 = b.iter().map(|b| b * b).sum();
    (distance / norm).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hilbert_system_is_solved_to_sixteen_digits() {
        // Rows of the 6 × 6 Hilbert matrix, condition 1.5e7; right side of θ = (1, …, 1), summed in
        // double-double so that it is exact to the last bit of a double.
        let d = 6;
        let cell = |i: usize, j: usize| 1.0 / (i + j + 1) as f64;
        let x: Vec<f64> = (0..d * d).map(|k| cell(k / d, k % d)).collect();
        let theta = [1.0, -2.0, 3.0, -4.0, 5.0, -6.0];
        // y = Xθ rounded to double moves the solution by ε·cond = 3e-9; weights show the same.
        let y: Vec<f64> =
            x.chunks_exact(d).map(|r| r.iter().zip(&theta).map(|(a, b)| a * b).sum()).collect();
        let found = least_squares(&x, d, &y, None, &[]);
        assert!(relative_error(&found, &theta) < 1e-8);
    }

    #[test]
    fn rows_have_the_condition_number_asked_for() {
        let (n, d) = (60, 5);
        let x = conditioned(n, d, 1e6, &mut Draw::new(3));
        // λ_max/λ_min of XᵀX by power and inverse iteration in double-double.
        let apply = |v: &[f64]| {
            let mut out = vec![0.0; d];
            for r in x.chunks_exact(d) {
                let s: f64 = r.iter().zip(v).map(|(a, b)| a * b).sum();
                for (o, a) in out.iter_mut().zip(r) {
                    *o += s * a;
                }
            }
            out
        };
        let mut v = vec![1.0; d];
        for _ in 0..200 {
            v = apply(&v);
            let norm = v.iter().map(|a| a * a).sum::<f64>().sqrt();
            for a in &mut v {
                *a /= norm;
            }
        }
        let largest = apply(&v).iter().zip(&v).map(|(a, b)| a * b).sum::<f64>();
        assert!((largest - 1.0).abs() < 1e-6, "{largest}");
    }
}
