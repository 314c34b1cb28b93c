//! Synaptic intelligence.

use crate::batch::Batch;
use crate::method::{Kept, Method};
use crate::network::Network;
use crate::steps::{Steps, Trainer};
use crate::task::Task;

/// What synaptic intelligence needs in addition to the steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SiArguments {
    /// Weight of the pull towards the parameters at the end of the last task.
    pub c: f64,
    /// Added to the squared way a parameter has gone, so that one that stayed does not weigh without bound.
    pub xi: f64,
}

/// Holds back parameters by how much they lowered the loss on their way: penalty `c·Σ Ω (θ − θ̄)²`, no half.
#[derive(Debug, Clone)]
pub struct Si {
    trainer: Trainer,
    arguments: SiArguments,
    /// `Ω`; nothing during the first task.
    importance: Option<Vec<f64>>,
    /// `ω`, what each parameter has lowered the loss by in the current task.
    path: Vec<f64>,
    /// `θ̄`
    anchor: Vec<f64>,
}

impl Si {
    /// Starts from this network, which is also the first anchor.
    pub fn new(network: Network, steps: Steps, arguments: SiArguments) -> Self {
        let anchor = network.parameters().to_vec();
        let path = vec![0.0; anchor.len()];
        Self { trainer: Trainer::new(network, steps), arguments, importance: None, path, anchor }
    }

    /// One step down the gradient in place. The step is clipped, component by component; the path counts the gradient
    /// of the task alone, unclipped.
    fn step(&mut self) {
        let (rate, c) = (self.trainer.steps.rate, self.arguments.c);
        let Trainer { network, gradient, .. } = &mut self.trainer;
        for (i, parameter) in network.parameters_mut().iter_mut().enumerate() {
            let own = gradient[i];
            let pull = |omega: &Vec<f64>| 2.0 * c * omega[i] * (*parameter - self.anchor[i]);
            let step = rate * (own + self.importance.as_ref().map_or(0.0, pull)).clamp(-1.0, 1.0);
            *parameter -= step;
            self.path[i] += own * step;
        }
    }

    /// The end of a task: paths become importance, and the anchor moves up.
    fn settle(&mut self) {
        let parameters = self.trainer.network.parameters();
        let importance = self.importance.get_or_insert_with(|| vec![0.0; parameters.len()]);
        for (i, &parameter) in parameters.iter().enumerate() {
            let way = parameter - self.anchor[i];
            importance[i] += self.path[i] / (way * way + self.arguments.xi);
        }
        self.anchor.copy_from_slice(parameters);
        self.path.fill(0.0);
    }
}

impl Method for Si {
    fn name(&self) -> String {
        "SI".into()
    }

    fn learn(&mut self, task: &Task) {
        let mut batch = Batch::default();
        for _ in 0..self.trainer.steps.epochs {
            for rows in self.trainer.order(task).chunks(self.trainer.steps.batch) {
                batch.fill(task, rows);
                self.trainer.descend(&batch);
                self.step();
            }
        }
        self.settle();
    }

    fn outputs(&self, x: &[f64], rows: usize) -> Vec<f64> {
        self.trainer.network.predict(x, rows)
    }

    /// `Ω`, `ω` and `θ̄`.
    fn kept(&self) -> Kept {
        Kept::singles(3 * self.anchor.len())
    }

    fn linear(&self) -> Option<Vec<f64>> {
        self.trainer.network.linear()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::tests::{line, one_row};

    #[test]
    fn two_parameters_by_hand() {
        // y = w·x + b from w = b = 0, one row x = 2, y = 0.2, squared loss: the gradient is 2(o − y)·(x, 1).
        let steps = Steps { rate: 0.1, batch: 1, epochs: 1, seed: 0 };
        let mut si = Si::new(line(0.0, 0.0), steps, SiArguments { c: 0.5, xi: 0.25 });
        si.learn(&one_row(2.0, 0.2));
        // Gradient (−0.8, −0.4), within the clip: steps of (0.08, 0.04), paths of (0.064, 0.016).
        near(si.trainer.network.parameters(), &[0.08, 0.04]);
        let omega = [0.064 / (0.0064 + 0.25), 0.016 / (0.0016 + 0.25)];
        near(si.importance.as_ref().unwrap(), &omega);
        near(&si.anchor, &[0.08, 0.04]);
        // Second task x = 1, y = 1.12: two steps. The first has no pull; its gradient (−2, −2) is clipped to −1.
        si.trainer.steps.epochs = 2;
        si.learn(&one_row(1.0, 1.12));
        // Now w = 0.18, b = 0.14, o = 0.32, gradient −1.6 each, the pull 2·0.5·Ω·0.1 too small to undo the clip.
        near(si.trainer.network.parameters(), &[0.28, 0.24]);
        // Paths count the unclipped gradient: (2 + 1.6)·0.1.
        let more = 0.36 / (0.04 + 0.25);
        near(si.importance.as_ref().unwrap(), &[omega[0] + more, omega[1] + more]);
        // Third task at rest: without the pull nothing would move; one step away, then one with the pull.
        si.learn(&one_row(0.0, 0.14));
        let b = 0.24 - 0.1 * 0.2;
        let pull = 2.0 * 0.5 * (omega[1] + more) * (b - 0.24);
        near(si.trainer.network.parameters(), &[0.28, b - 0.1 * (2.0 * (b - 0.14) + pull)]);
    }

    fn near(a: &[f64], b: &[f64]) {
        let worst = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-14, "{a:?} against {b:?}");
    }
}
