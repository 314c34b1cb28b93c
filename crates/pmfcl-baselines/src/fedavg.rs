//! Federated averaging: clients train, a server averages, many times over.

use crate::network::Network;
use crate::steps::{Steps, Trainer};
use crate::task::Task;

/// What the server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FedAvgArguments {
    /// How often clients train and the server averages. `Steps::epochs` are those of a client in one round.
    pub rounds: usize,
}

/// `FedAvg`: in every round each client trains on its own rows from the server's network, and the server takes the mean
/// of their parameters, weighted by rows.
///
/// Not a [`Method`](crate::Method): clients are there all at once. A network goes down and up once a client and round.
#[derive(Debug, Clone)]
pub struct FedAvg {
    network: Network,
    steps: Steps,
    arguments: FedAvgArguments,
}

impl FedAvg {
    /// The server starts from this network.
    pub fn new(network: Network, steps: Steps, arguments: FedAvgArguments) -> Self {
        Self { network, steps, arguments }
    }

    /// All rounds; `after` sees the server's network at the end of each. Clients without rows take no part.
    pub fn train(&mut self, clients: &[Task], mut after: impl FnMut(usize, &Network)) -> &Network {
        // The first client draws its order from the seed itself, the others from seeds of their own.
        let start = |(i, task): (usize, _)| {
            let own = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let steps = Steps { seed: self.steps.seed.wrapping_add(own), ..self.steps };
            (Trainer::new(self.network.clone(), steps), task)
        };
        let present = clients.iter().filter(|task| task.x.rows() > 0);
        let mut trainers: Vec<(Trainer, &Task)> = present.enumerate().map(start).collect();
        let total: usize = trainers.iter().map(|(_, task)| task.x.rows()).sum();
        for round in 0..self.arguments.rounds {
            let mut mean = vec![0.0; self.network.parameters().len()];
            for (trainer, task) in &mut trainers {
                trainer.network.parameters_mut().copy_from_slice(self.network.parameters());
                trainer.train(task);
                let share = task.x.rows() as f64 / total as f64;
                let parameters = trainer.network.parameters();
                mean.iter_mut().zip(parameters).for_each(|(m, p)| *m += share * p);
            }
            if !trainers.is_empty() {
                self.network.parameters_mut().copy_from_slice(&mean);
            }
            after(round, &self.network);
        }
        &self.network
    }
}
