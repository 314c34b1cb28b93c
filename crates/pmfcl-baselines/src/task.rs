//! What a method is given to learn.

use std::sync::Arc;

/// Rows of inputs, produced on demand, so that a stream of permuted images need not be held twenty times.
pub trait Inputs: Send + Sync {
    /// How many rows there are.
    fn rows(&self) -> usize;

    /// Numbers in a row.
    fn width(&self) -> usize;

    /// Writes row `i`.
    fn write(&self, i: usize, out: &mut [f64]);

    /// Bytes a number takes as it is stored: one for 8-bit pixels.
    fn cell_bytes(&self) -> usize {
        size_of::<f64>()
    }
}

/// Inputs in memory, row after row.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    width: usize,
    cells: Vec<f64>,
}

impl Matrix {
    /// A matrix of rows of `width` numbers.
    ///
    /// # Panics
    /// When the rows are not whole.
    pub fn new(cells: Vec<f64>, width: usize) -> Self {
        assert!(width > 0 && cells.len().is_multiple_of(width), "rows are not whole");
        Self { width, cells }
    }
}

impl Inputs for Matrix {
    fn rows(&self) -> usize {
        self.cells.len() / self.width
    }

    fn width(&self) -> usize {
        self.width
    }

    fn write(&self, i: usize, out: &mut [f64]) {
        out.copy_from_slice(&self.cells[i * self.width..(i + 1) * self.width]);
    }
}

/// What is to be predicted.
#[derive(Debug, Clone, PartialEq)]
pub enum Targets {
    /// A class a row, of this many.
    Classes {
        /// Class of every row.
        codes: Vec<u32>,
        /// How many classes the model tells apart.
        count: usize,
    },
    /// Numbers, row after row.
    Values {
        /// All numbers.
        cells: Vec<f64>,
        /// Numbers in a row.
        width: usize,
    },
}

impl Targets {
    /// Outputs a model needs.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Classes { count, .. } => *count,
            Self::Values { width, .. } => *width,
        }
    }
}

/// One task: inputs and targets.
#[derive(Clone)]
pub struct Task {
    /// Inputs.
    pub x: Arc<dyn Inputs>,
    /// Targets.
    pub y: Arc<Targets>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Task({} rows of {})", self.x.rows(), self.x.width())
    }
}
