//! The federated version: clients whose tasks drift, some absent, some late.
//!
//! A client that was absent sends the sum of what it missed when it is back. Summaries add, so the server's model is at
//! every step the least-squares solution of all rows whose summaries have arrived.

use pmfcl::solve::{Penalty, solve};
use pmfcl::{Accumulator, Error, Rows, Summarizer, Summary};
use pmfcl_baselines::{FedAvg, FedAvgArguments, Network, Steps, Task};
use pmfcl_oracle::Draw;

use super::classes::plain;
use super::drift::{Part, Setting, Stream, dot, seed};
use super::exact::least_squares;
use super::ours::linear_outputs;
use super::roster::RATES;
use super::spread::Spread;
use super::trial::task_of;
use super::{Effort, workers};

/// Clients, and how many of them join late.
pub const CLIENTS: usize = 8;
/// Clients that are not there at first.
pub const LATE: usize = 2;
/// The step they join at, counted from 0.
pub const JOIN: usize = 3;
/// Share of clients absent from a step.
pub const ABSENT: f64 = 0.2;
/// Rounds of `FedAvg` in every step.
pub const ROUNDS: usize = 10;
/// Passes of a client over its rows in a round.
const EPOCHS: usize = 2;
/// How far a client's parameters lie from the common ones, for each of them.
pub const APART: f64 = 0.2;

/// What is drawn for the clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Federation {
    /// One client's stream; rows are those of a step.
    pub setting: Setting,
}

impl Federation {
    /// The setting of the page.
    pub fn standard(steps: usize) -> Self {
        let setting = Setting {
            name: "federated",
            why: "clients and steps",
            d: 20,
            rows: vec![50; steps],
            drift: 0.1,
            noise: 0.1,
        };
        Self { setting }
    }
}

/// What happened in one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FederatedStep {
    /// Clients that took part.
    pub clients: f64,
    /// Largest difference of a prediction to pooled training on all rows that have arrived, in standard deviations of the
    /// target.
    pub gap: f64,
    /// Test error of the merged model on all clients' tasks so far.
    pub merged: f64,
    /// Test error of `FedAvg` on the step's rows.
    pub fedavg: f64,
    /// Test error of `FedAvg` where every client keeps all its rows and trains on them again.
    pub fedavg_all: f64,
    /// Mean test error of the clients' own models on all clients' tasks.
    pub local: f64,
    /// The same on the client's own tasks.
    pub local_own: f64,
    /// Bytes sent to the server, merged and by `FedAvg`.
    pub bytes_up: (f64, f64),
    /// Bytes sent back.
    pub bytes_down: (f64, f64),
}

/// The result of the federated run.
#[derive(Debug, Clone, PartialEq)]
pub struct FederatedStudy {
    /// What was drawn.
    pub federation: Federation,
    /// The learning rate of `FedAvg` on the step's rows, and on all rows.
    pub rates: (f64, f64),
    /// `[trial][step]`
    pub trials: Vec<Vec<FederatedStep>>,
}

/// One drawn federation.
struct Drawn {
    streams: Vec<Stream>,
    /// `[step][client]`
    present: Vec<Vec<bool>>,
}

impl Federation {
    fn draw(&self, one: u64) -> Drawn {
        let mut draw = Draw::new(one);
        // The common drift is that of one stream; every client lies apart from it by an offset of its own.
        let common = self.setting.stream(one).truth;
        let streams = (0..CLIENTS)
            .map(|_| {
                let offset: Vec<f64> =
                    draw.normals(self.setting.d).iter().map(|v| APART * v).collect();
                self.client(&common, &offset, &mut draw)
            })
            .collect();
        let steps = self.setting.rows.len();
        let present = (0..steps)
            .map(|k| {
                let joined = |c: usize| c < CLIENTS - LATE || k >= JOIN;
                // In the last step all are there, and the first client always is.
                let there =
                    |c: usize, u: f64| joined(c) && (c == 0 || k + 1 == steps || u >= ABSENT);
                (0..CLIENTS).map(|c| there(c, draw.uniform())).collect()
            })
            .collect();
        Drawn { streams, present }
    }

    fn client(&self, common: &[Vec<f64>], offset: &[f64], draw: &mut Draw) -> Stream {
        let d = self.setting.d;
        let mut stream = Stream { d, train: Vec::new(), test: Vec::new(), truth: Vec::new() };
        for (k, centre) in common.iter().enumerate() {
            let theta: Vec<f64> = centre.iter().zip(offset).map(|(a, b)| a + b).collect();
            let mut part = |rows: usize| {
                let x = draw.normals(rows * d);
                let noise = self.setting.noise;
                let y = x.chunks_exact(d).map(|r| dot(r, &theta) + noise * draw.normal()).collect();
                Part { x, y }
            };
            stream.train.push(part(self.setting.rows[k]));
            stream.test.push(part(100));
            stream.truth.push(theta);
        }
        stream
    }
}

impl Drawn {
    /// Clients that have sent something by step `k`.
    fn known(&self, k: usize) -> Vec<usize> {
        (0..CLIENTS).filter(|&c| self.present[..=k].iter().any(|p| p[c])).collect()
    }

    /// Mean test error over the tasks so far of some clients.
    fn error(&self, theta: &[f64], clients: &[usize], k: usize) -> f64 {
        let errors = clients.iter().flat_map(|&c| {
            self.streams[c].test[..=k].iter().map(|part| part.mse(&linear_outputs(theta, &part.x)))
        });
        errors.sum::<f64>() / (clients.len() * (k + 1)) as f64
    }

    /// `FedAvg` over the whole stream: parameters after each step.
    fn averaged(&self, rate: f64, all: bool, one: u64) -> Vec<Vec<f64>> {
        let d = self.streams[0].d;
        let network = Network::new(&[d, 1], one).without_intercepts();
        let steps = Steps { rate, batch: 10, epochs: EPOCHS, seed: one };
        let mut server = FedAvg::new(network, steps, FedAvgArguments { rounds: ROUNDS });
        (0..self.present.len())
            .map(|k| {
                let there = (0..CLIENTS).filter(|&c| self.present[k][c]);
                let tasks: Vec<Task> = there
                    .map(|c| {
                        let from = if all { 0 } else { k };
                        let rows = gathered(&self.streams[c].train[from..=k]);
                        task_of(&rows, d)
                    })
                    .collect();
                let network = server.train(&tasks, |_, _| {});
                network.linear().map_or_else(Vec::new, |theta| theta[..d].to_vec())
            })
            .collect()
    }
}

fn gathered(parts: &[Part]) -> Part {
    let mut all = Part::default();
    for part in parts {
        all.x.extend_from_slice(&part.x);
        all.y.extend_from_slice(&part.y);
    }
    all
}

fn summary(part: &Part, d: usize) -> Result<Summary, Error> {
    let mut summarizer = Summarizer::new(plain(d)?, 1, Accumulator::default())?.threads(1);
    summarizer.add(Rows::new(&part.x, d)?, Rows::new(&part.y, 1)?, None)?;
    summarizer.finish()
}

/// One trial with given rates.
fn trial(
    federation: &Federation,
    one: u64,
    rates: (f64, f64),
) -> Result<Vec<FederatedStep>, Error> {
    let d = federation.setting.d;
    let drawn = federation.draw(one);
    let averaged = drawn.averaged(rates.0, false, one);
    let averaged_all = drawn.averaged(rates.1, true, one);
    let mut server = Summary::empty(d, 1);
    let mut arrived = Part::default();
    let mut sent = [0; CLIENTS];
    let mut steps = Vec::new();
    for k in 0..drawn.present.len() {
        let there: Vec<usize> = (0..CLIENTS).filter(|&c| drawn.present[k][c]).collect();
        let mut bytes = 0;
        for &c in &there {
            let unsent = gathered(&drawn.streams[c].train[sent[c]..=k]);
            let bundle = summary(&unsent, d)?.to_bytes();
            bytes += bundle.len();
            server = server.merge(&Summary::from_bytes(&bundle)?)?;
            sent[c] = k + 1;
            arrived.x.extend(unsent.x);
            arrived.y.extend(unsent.y);
        }
        let model = solve(&server, false, Penalty::NONE, None)?;
        let theta = model.theta.column(0);
        let pooled = least_squares(&arrived.x, &arrived.y, d);
        let known = drawn.known(k);
        let spread = Spread::of(&arrived.y).std;
        let gap = known
            .iter()
            .flat_map(|&c| drawn.streams[c].test[..=k].iter())
            .flat_map(|part| {
                let ours = linear_outputs(theta, &part.x);
                let theirs = linear_outputs(&pooled, &part.x);
                ours.into_iter().zip(theirs).map(|(a, b)| (a - b).abs()).collect::<Vec<_>>()
            })
            .fold(0.0, f64::max);
        // A client's own model is made of all rows it has itself, sent or not.
        let own = |c: usize| {
            let rows = gathered(&drawn.streams[c].train[..=k]);
            least_squares(&rows.x, &rows.y, d)
        };
        let mean = |f: &dyn Fn(usize) -> f64| {
            known.iter().map(|&c| f(c)).sum::<f64>() / known.len() as f64
        };
        let model_bytes = (8 * d * there.len()) as f64;
        let rounds = ROUNDS as f64;
        steps.push(FederatedStep {
            clients: there.len() as f64,
            gap: gap / spread,
            merged: drawn.error(theta, &known, k),
            fedavg: drawn.error(&averaged[k], &known, k),
            fedavg_all: drawn.error(&averaged_all[k], &known, k),
            local: mean(&|c| drawn.error(&own(c), &known, k)),
            local_own: mean(&|c| drawn.error(&own(c), &[c], k)),
            bytes_up: (bytes as f64, rounds * model_bytes),
            bytes_down: (model_bytes, rounds * model_bytes),
        });
    }
    Ok(steps)
}

/// All trials; `FedAvg` gets the rate that is best at the end on a federation of its own.
///
/// # Errors
/// When the solver refuses the rows.
pub fn run(federation: &Federation, effort: &Effort) -> Result<FederatedStudy, Error> {
    let Effort { trials, seed: base, threads, .. } = *effort;
    let tuning = seed(&[base, 200, 1 << 32]);
    let drawn = federation.draw(tuning);
    let last = federation.setting.rows.len() - 1;
    let known = drawn.known(last);
    let errors = workers::map(2 * RATES.len(), threads, |i| {
        let (all, rate) = (i >= RATES.len(), RATES[i % RATES.len()]);
        let error = drawn.error(&drawn.averaged(rate, all, tuning)[last], &known, last);
        (rate, if error.is_nan() { f64::INFINITY } else { error })
    });
    let best = |tried: &[(f64, f64)]| {
        tried.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(RATES[0], |t| t.0)
    };
    let rates = (best(&errors[..RATES.len()]), best(&errors[RATES.len()..]));
    let trials =
        workers::map(trials, threads, |i| trial(federation, seed(&[base, 200, i as u64]), rates));
    let trials = trials.into_iter().collect::<Result<_, _>>()?;
    Ok(FederatedStudy { federation: federation.clone(), rates, trials })
}

impl FederatedStudy {
    /// What the trials gave after each step.
    pub fn spread(&self, of: impl Fn(&FederatedStep) -> f64) -> Vec<Spread> {
        (0..self.federation.setting.rows.len())
            .map(|k| Spread::of(&self.trials.iter().map(|t| of(&t[k])).collect::<Vec<_>>()))
            .collect()
    }

    /// The largest gap to pooled training in any step of any trial.
    pub fn gap(&self) -> f64 {
        self.trials.iter().flatten().map(|step| step.gap).fold(0.0, f64::max)
    }

    /// Bytes a trial sends to the server on average, merged and by `FedAvg`.
    pub fn bytes_up(&self) -> (f64, f64) {
        let steps = || self.trials.iter().flatten();
        let count = self.trials.len() as f64;
        let sum = |f: fn(&FederatedStep) -> f64| steps().map(f).sum::<f64>() / count;
        (sum(|s| s.bytes_up.0), sum(|s| s.bytes_up.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_summaries_are_pooled_training_in_spite_of_absence() {
        let federation = Federation::standard(5);
        let drawn = federation.draw(4);
        let absent = drawn.present.iter().flatten().filter(|p| !**p).count();
        assert!(absent > LATE * JOIN, "somebody is absent who has joined");
        let study = run(&federation, &Effort::small(2)).unwrap();
        assert_eq!(study, run(&federation, &Effort::small(1)).unwrap());
        assert!(study.gap() < 1e-12, "{}", study.gap());
        assert!(study.trials[0][4].merged < study.trials[0][4].fedavg);
    }
}
