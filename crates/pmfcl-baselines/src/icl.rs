//! The Ideal Continual Learner for linear models: the new task within the minimisers of the old.

use faer::Mat;

use crate::method::{Kept, Method};
use crate::network::Network;
use crate::span::{Split, design, goals, width};
use crate::task::Task;

/// Solves each task by least squares among the minimisers of all before, moving no further than needed:
/// `θ ← θ + N (XN)⁺ (Y − Xθ)`, where the columns of `N` span the directions no earlier task has rows in.
///
/// Exact while the tasks share a minimiser. When they do not, the first task is kept and the later ones pay. Classes
/// are values here, one in the column of the class.
#[derive(Debug, Clone)]
pub struct Icl {
    network: Network,
    /// `N`, orthonormal.
    free: Mat<f64>,
}

impl Icl {
    /// Starts from the parameters of this linear network.
    ///
    /// # Panics
    /// When the network has hidden layers.
    pub fn new(network: Network) -> Self {
        let width = width(&network);
        Self { network, free: Mat::identity(width, width) }
    }
}

impl Method for Icl {
    fn name(&self) -> String {
        "ICL".into()
    }

    fn learn(&mut self, task: &Task) {
        let free = self.free.ncols();
        if free == 0 || task.x.rows() == 0 {
            return;
        }
        let (x, outputs) = (design(task, &self.network), self.network.outputs());
        let parameters = self.network.parameters();
        let theta = Mat::from_fn(x.ncols(), outputs, |j, k| parameters[j * outputs + k]);
        // Rounding of rows is measured against rows, not against what is left of them.
        let scale = x.norm_l2();
        let split = Split::new(&x * &self.free, goals(task) - &x * theta);
        let rank = split.rank(scale);
        let step = Mat::from_fn(rank, outputs, |i, k| split.right[(i, k)] / split.values[i]);
        let step = &self.free * (split.v.subcols(0, rank) * step);
        for (j, row) in self.network.parameters_mut().chunks_exact_mut(outputs).enumerate() {
            row.iter_mut().enumerate().for_each(|(k, p)| *p += step[(j, k)]);
        }
        self.free = &self.free * split.v.subcols(rank, free - rank);
    }

    fn outputs(&self, x: &[f64], rows: usize) -> Vec<f64> {
        self.network.predict(x, rows)
    }

    /// `N`, in double precision.
    fn kept(&self) -> Kept {
        Kept::doubles(self.free.nrows() * self.free.ncols())
    }

    fn linear(&self) -> Option<Vec<f64>> {
        self.network.linear()
    }
}
