//! The parameters: one column of `m` numbers for each of `p` targets.

use crate::error::{Error, Result};

/// Parameters `θ`, `m × p`, stored target by target.
///
/// With an intercept, row 0 is the intercept and rows `1..m` are the coefficients.
#[derive(Debug, Clone, PartialEq)]
pub struct Theta {
    m: usize,
    p: usize,
    cells: Vec<f64>,
}

impl Theta {
    /// All zeros.
    pub fn zeros(m: usize, p: usize) -> Self {
        Self { m, p, cells: vec![0.0; m * p] }
    }

    /// From the columns laid end to end.
    ///
    /// # Errors
    /// When there are not `m · p` numbers.
    pub fn from_columns(m: usize, p: usize, cells: Vec<f64>) -> Result<Self> {
        if m.checked_mul(p) != Some(cells.len()) {
            return Err(Error::Shape {
                what: "theta",
                unit: "numbers",
                expected: m.saturating_mul(p),
                found: cells.len(),
            });
        }
        Ok(Self { m, p, cells })
    }

    /// The error for parameters of another shape than `m` rows × `p` columns.
    pub(crate) fn wrong_shape(&self, m: usize, p: usize) -> Error {
        Error::TableShape { what: "theta", expected: [m, p], found: [self.m, self.p] }
    }

    /// A single target's parameters.
    pub fn from_slice(theta: &[f64]) -> Self {
        Self { m: theta.len(), p: 1, cells: theta.to_vec() }
    }

    /// Rows `m`, the intercept included.
    pub fn width(&self) -> usize {
        self.m
    }

    /// Columns `p`.
    pub fn targets(&self) -> usize {
        self.p
    }

    /// Parameters of target `k`.
    pub fn column(&self, k: usize) -> &[f64] {
        &self.cells[k * self.m..(k + 1) * self.m]
    }

    /// Parameters of target `k`, to write.
    pub fn column_mut(&mut self, k: usize) -> &mut [f64] {
        &mut self.cells[k * self.m..(k + 1) * self.m]
    }

    /// Parameters of every target, to write.
    pub(crate) fn columns_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        self.cells.chunks_exact_mut(self.m.max(1))
    }

    /// All numbers, target by target.
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }

    /// All numbers, to write.
    pub fn cells_mut(&mut self) -> &mut [f64] {
        &mut self.cells
    }

    /// Euclidean distance to another of the same shape.
    pub fn distance(&self, other: &Theta) -> f64 {
        self.cells.iter().zip(&other.cells).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    /// Euclidean norm.
    pub fn norm(&self) -> f64 {
        self.cells.iter().map(|a| a * a).sum::<f64>().sqrt()
    }

    /// Every number finite?
    pub fn is_finite(&self) -> bool {
        self.cells.iter().all(|v| v.is_finite())
    }
}
