//! The two ends by least squares: all rows so far, and the last task's rows alone.
//!
//! Solved here from the rows, by a decomposition of faer's: what PMF-CL is held against must not be PMF-CL.

use faer::Mat;
use faer::linalg::solvers::SolveLstsq as _;
use pmfcl_baselines::{Kept, Method, Task};

use super::drift::Part;
use super::ours::{linear_outputs, rows_of, with_intercept};

/// The least-squares solution of row-major `x` against `y`; the shortest one where there are many.
pub fn least_squares(x: &[f64], y: &[f64], d: usize) -> Vec<f64> {
    let n = y.len();
    let matrix = Mat::from_fn(n, d, |i, j| x[i * d + j]);
    let rhs = Mat::from_fn(n, 1, |i, _| y[i]);
    if n >= d {
        let solved = matrix.qr().solve_lstsq(&rhs);
        return (0..d).map(|j| solved[(j, 0)]).collect();
    }
    // Full row rank, as Gaussian rows have: the shortest solution is Q R⁻ᵀ y with Xᵀ = Q R.
    let qr = matrix.transpose().qr();
    let mut rhs = rhs;
    qr.thin_R().transpose().solve_lower_triangular_in_place(rhs.as_mut());
    let solved = qr.compute_thin_Q() * rhs;
    (0..d).map(|j| solved[(j, 0)]).collect()
}

/// Which rows are kept to be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All of them: joint training.
    All,
    /// Those of the last task.
    Last,
}

/// Least squares on the rows that are kept.
#[derive(Debug)]
pub struct Exact {
    d: usize,
    keep: Keep,
    rows: Part,
    theta: Vec<f64>,
}

impl Exact {
    /// Over `d` features.
    pub fn new(d: usize, keep: Keep) -> Self {
        Self { d, keep, rows: Part::default(), theta: vec![0.0; d] }
    }
}

impl Method for Exact {
    fn name(&self) -> String {
        match self.keep {
            Keep::All => "joint",
            Keep::Last => "last task only",
        }
        .to_owned()
    }

    fn learn(&mut self, task: &Task) {
        if self.keep == Keep::Last {
            self.rows = Part::default();
        }
        let part = rows_of(task);
        self.rows.x.extend(part.x);
        self.rows.y.extend(part.y);
        self.theta = least_squares(&self.rows.x, &self.rows.y, self.d);
    }

    fn outputs(&self, x: &[f64], _rows: usize) -> Vec<f64> {
        linear_outputs(&self.theta, x)
    }

    /// Joint training keeps every row; the last task's rows are discarded with the next.
    fn kept(&self) -> Kept {
        match self.keep {
            Keep::Last => Kept::default(),
            Keep::All => {
                let numbers = self.rows.x.len() + self.rows.y.len();
                Kept { numbers, bytes: 8 * numbers, examples: self.rows.y.len() }
            }
        }
    }

    fn linear(&self) -> Option<Vec<f64>> {
        Some(with_intercept(&self.theta))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmfcl_oracle::{Draw, least_squares as truth};

    #[test]
    fn tall_rows_agree_with_double_double() {
        let mut draw = Draw::new(3);
        let (x, y) = (draw.normals(40 * 6), draw.normals(40));
        for (a, b) in least_squares(&x, &y, 6).iter().zip(truth(&x, 6, &y, None, &[])) {
            assert!((a - b).abs() < 1e-13);
        }
    }

    #[test]
    fn wide_rows_are_met_by_the_shortest() {
        let theta = least_squares(&[3.0, 4.0], &[5.0], 2);
        assert!((theta[0] - 0.6).abs() < 1e-15 && (theta[1] - 0.8).abs() < 1e-15);
    }
}
