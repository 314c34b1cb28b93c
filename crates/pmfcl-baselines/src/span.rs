//! What linear methods ask of the rows of a task: their span and what is orthogonal to it.

use faer::Mat;

use crate::network::Network;
use crate::task::{Targets, Task};

/// Singular values below this share of the norm of a task's rows count as zero.
const CUTOFF: f64 = 1e-10;

/// The rows of a task as a linear network meets them: inputs, then a one where it has intercepts.
pub(crate) fn design(task: &Task, network: &Network) -> Mat<f64> {
    let (rows, inputs, width) = (task.x.rows(), network.inputs(), width(network));
    let mut x = Mat::zeros(rows, width);
    let mut row = vec![0.0; inputs];
    for i in 0..rows {
        task.x.write(i, &mut row);
        row.iter().enumerate().for_each(|(j, &v)| x[(i, j)] = v);
        (inputs..width).for_each(|j| x[(i, j)] = 1.0);
    }
    x
}

/// Parameters an output of a linear network has.
///
/// # Panics
/// When the network has hidden layers.
pub(crate) fn width(network: &Network) -> usize {
    assert!(network.linear().is_some(), "this method is for linear models");
    network.parameters().len() / network.outputs()
}

/// The targets of a task as values: a class is one in its column, zero in the others.
pub(crate) fn goals(task: &Task) -> Mat<f64> {
    let outputs = task.y.outputs();
    match &*task.y {
        Targets::Classes { codes, .. } => {
            Mat::from_fn(codes.len(), outputs, |i, k| f64::from(u8::from(codes[i] as usize == k)))
        }
        Targets::Values { cells, width } => {
            Mat::from_fn(task.x.rows(), outputs, |i, k| cells[i * width + k])
        }
    }
}

/// `A = U S Vᵀ`, with all of `V`.
pub(crate) struct Split {
    /// Singular values, the largest first.
    pub(crate) values: Vec<f64>,
    /// Directions of the rows; the first as many as there are values belong to those.
    pub(crate) v: Mat<f64>,
    /// `Uᵀ B`, for the values.
    pub(crate) right: Mat<f64>,
}

impl Split {
    /// The split of `a`, and `b` seen in it. Tall matrices are reduced to their triangle first.
    pub(crate) fn new(a: Mat<f64>, b: Mat<f64>) -> Self {
        let (a, b) = if a.nrows() > a.ncols() {
            let width = a.ncols();
            let qr = a.qr();
            let seen = qr.compute_thin_Q().transpose() * b;
            (Mat::from_fn(width, width, |i, j| if i <= j { qr.R()[(i, j)] } else { 0.0 }), seen)
        } else {
            (a, b)
        };
        let count = a.nrows().min(a.ncols());
        let svd = a.svd().expect("finite rows have singular values");
        let values = (0..count).map(|i| svd.S().column_vector()[i]).collect();
        let right = svd.U().transpose() * b;
        Self { values, v: svd.V().to_owned(), right }
    }

    /// Values that are not zero for all we can tell, given the norm of the rows they came from.
    pub(crate) fn rank(&self, norm: f64) -> usize {
        self.values.iter().take_while(|&&s| s > norm * CUTOFF).count()
    }
}
