//! Orthogonal gradient projection (OGD, GPM) for linear models.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};

use crate::batch::Batch;
use crate::method::{Kept, Method};
use crate::network::Network;
use crate::span::{Split, design, width};
use crate::steps::{Steps, Trainer};
use crate::task::Task;

/// What projection needs in addition to the steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProjectionArguments {
    /// Share of the squared norm of a task's rows that the stored directions must hold, as in GPM; 1 stores all.
    pub energy: f64,
}

/// Takes every step orthogonal to the rows of past tasks, so that outputs on them stay as they are.
#[derive(Debug, Clone)]
pub struct Projection {
    trainer: Trainer,
    arguments: ProjectionArguments,
    /// Orthonormal directions of past rows, as columns.
    past: Mat<f64>,
}

impl Projection {
    /// Starts from this linear network, free to go anywhere.
    ///
    /// # Panics
    /// When the network has hidden layers.
    pub fn new(network: Network, steps: Steps, arguments: ProjectionArguments) -> Self {
        let past = Mat::zeros(width(&network), 0);
        Self { trainer: Trainer::new(network, steps), arguments, past }
    }

    /// Takes from the gradient what lies along past rows.
    fn project(&mut self, along: &mut Mat<f64>) {
        let outputs = self.trainer.network.outputs();
        let gradient = &mut self.trainer.gradient;
        let width = gradient.len() / outputs;
        let shown = MatRef::from_row_major_slice(gradient, width, outputs);
        matmul(along.as_mut(), Accum::Replace, self.past.transpose(), shown, 1.0, Par::Seq);
        let out = MatMut::from_row_major_slice_mut(gradient, width, outputs);
        matmul(out, Accum::Add, &self.past, &*along, -1.0, Par::Seq);
    }

    /// The end of a task: its directions join those of the past.
    fn settle(&mut self, task: &Task) {
        let x = design(task, &self.trainer.network);
        let (whole, scale) = (x.squared_norm_l2(), x.norm_l2());
        let rest = &x - (&x * &self.past) * self.past.transpose();
        let mut held = whole - rest.squared_norm_l2();
        let none = Mat::zeros(rest.nrows(), 0);
        let split = Split::new(rest, none);
        let mut count = 0;
        for value in &split.values[..split.rank(scale)] {
            if self.arguments.energy < 1.0 && held >= self.arguments.energy * whole {
                break;
            }
            held += value * value;
            count += 1;
        }
        let (before, width) = (self.past.ncols(), self.past.nrows());
        self.past.resize_with(width, before + count, |i, j| split.v[(i, j - before)]);
    }
}

impl Method for Projection {
    fn name(&self) -> String {
        if self.arguments.energy < 1.0 { "GPM".into() } else { "OGD".into() }
    }

    fn learn(&mut self, task: &Task) {
        let mut along = Mat::zeros(self.past.ncols(), self.trainer.network.outputs());
        let mut batch = Batch::default();
        for _ in 0..self.trainer.steps.epochs {
            for rows in self.trainer.order(task).chunks(self.trainer.steps.batch) {
                batch.fill(task, rows);
                self.trainer.descend(&batch);
                self.project(&mut along);
                self.trainer.step();
            }
        }
        self.settle(task);
    }

    fn outputs(&self, x: &[f64], rows: usize) -> Vec<f64> {
        self.trainer.network.predict(x, rows)
    }

    /// The directions, in double precision.
    fn kept(&self) -> Kept {
        Kept::doubles(self.past.nrows() * self.past.ncols())
    }

    fn linear(&self) -> Option<Vec<f64>> {
        self.trainer.network.linear()
    }
}
