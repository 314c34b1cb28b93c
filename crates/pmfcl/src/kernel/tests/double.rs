//! Arithmetic with 32 digits: a number is the unevaluated sum of two.

use std::ops::{Add, Div, Mul, Sub};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Double(f64, f64);

impl Double {
    pub(super) const ZERO: Self = Self(0.0, 0.0);

    pub(super) fn high(self) -> f64 {
        self.0 + self.1
    }

    /// The exact product of two numbers.
    pub(super) fn product(a: f64, b: f64) -> Self {
        let high = a * b;
        Self(high, a.mul_add(b, -high))
    }

    fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let part = high - a;
        Self(high, (a - (high - part)) + (b - part))
    }

    fn sqrt(self) -> Self {
        let root = Self(self.0.sqrt(), 0.0);
        // One step of Newton's method doubles the digits.
        (root + self / root) * Self(0.5, 0.0)
    }
}

impl From<f64> for Double {
    fn from(a: f64) -> Self {
        Self(a, 0.0)
    }
}

impl Add for Double {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (high, low) = (Self::sum(self.0, other.0), Self::sum(self.1, other.1));
        let near = Self::sum(high.0, high.1 + low.0);
        Self::sum(near.0, near.1 + low.1)
    }
}

impl Sub for Double {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + Self(-other.0, -other.1)
    }
}

impl Mul for Double {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let high = Self::product(self.0, other.0);
        Self::sum(high.0, high.1 + (self.0 * other.1 + self.1 * other.0))
    }
}

impl Div for Double {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let first = self.0 / other.0;
        let rest = self - other * Self::from(first);
        let second = rest.0 / other.0;
        let rest = rest - other * Self::from(second);
        Self::sum(first, second) + Self::from(rest.0 / other.0)
    }
}

/// `argmin ‖X θ − y‖` for rows `[X | y]`, by modified Gram–Schmidt with 32 digits.
pub(super) fn least_squares(cells: &[f64], m: usize) -> Vec<f64> {
    let width = m + 1;
    let mut columns: Vec<Vec<Double>> =
        (0..width).map(|j| cells.chunks_exact(width).map(|row| row[j].into()).collect()).collect();
    let dot =
        |a: &[Double], b: &[Double]| a.iter().zip(b).fold(Double::ZERO, |s, (a, b)| s + *a * *b);
    let mut r = vec![vec![Double::ZERO; width]; m];
    for j in 0..m {
        r[j][j] = dot(&columns[j], &columns[j]).sqrt();
        let q: Vec<Double> = columns[j].iter().map(|x| *x / r[j][j]).collect();
        for k in j + 1..width {
            r[j][k] = dot(&q, &columns[k]);
            for (x, q) in columns[k].iter_mut().zip(&q) {
                *x = *x - *q * r[j][k];
            }
        }
    }
    let mut theta = vec![Double::ZERO; m];
    for i in (0..m).rev() {
        let known = (i + 1..m).fold(Double::ZERO, |s, j| s + r[i][j] * theta[j]);
        theta[i] = (r[i][m] - known) / r[i][i];
    }
    theta.into_iter().map(Double::high).collect()
}
