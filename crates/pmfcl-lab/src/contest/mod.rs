//! Every method over a stream of one's own: any table with a column that names the task.
//!
//! ```text
//! table ──tasks, train and test──▶ basis ──▶ units of the first task ──▶ each method, tuned ──▶ scores ──▶ tables, lines
//! ```
//!
//! Inputs (after the basis) and numeric targets are measured in means and deviations of the first task's training rows: all
//! that a learner can know when it starts. Scores are told in the table's own units. Methods that take steps get the best of
//! the arguments in [`Arguments::grid`] by their final mean score on training rows held out for that, and are then run anew on
//! all training rows.

mod arena;
mod entrants;
mod ours;
mod report;
mod tune;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pmfcl::Basis;
use pmfcl::report::continual::Scores;
use pmfcl_baselines::Kept;

pub use arena::{Arena, Goal, Table as Rows};
pub use entrants::{Entrant, known};
pub use report::{lines, tables};
pub use tune::Arguments;

/// How a contest is held.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// The basis all methods see the inputs through.
    pub basis: Basis,
    /// Hidden layers of the networks; none for linear models.
    pub hidden: Vec<usize>,
    /// Times a method that takes steps sees a task.
    pub epochs: usize,
    /// Rows a step.
    pub batch: usize,
    /// Examples a buffer holds.
    pub buffer: usize,
    /// Share of a task's rows to test on, where the table does not say which.
    pub test: f64,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Threads; the result does not depend on it.
    pub threads: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            basis: Basis::default(),
            hidden: Vec::new(),
            epochs: 10,
            batch: 32,
            buffer: 200,
            test: 0.25,
            seed: 0,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The table is no stream.
    #[error("{0}")]
    Table(String),
    /// A method nobody knows, or that does not go with the goal.
    #[error("no method `{name}` for this; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The library refused.
    #[error(transparent)]
    Learn(#[from] pmfcl::Error),
    /// A method's outputs are no numbers whatever its arguments.
    #[error("{0} diverged with all of its arguments")]
    Diverged(String),
}

/// How a method did.
#[derive(Debug, Clone)]
pub struct Result {
    /// Who.
    pub entrant: Entrant,
    /// Its name.
    pub name: String,
    /// Arguments that were chosen, in words.
    pub arguments: String,
    /// On the test rows of every task after every task: mean squared error, or accuracy.
    pub scores: Scores,
    /// The same of the untrained model.
    pub untrained: Vec<f64>,
    /// What is held between tasks, after the last.
    pub kept: Kept,
    /// Seconds of learning all tasks once, with the arguments chosen.
    pub seconds: f64,
}

/// Lets entrants run, several at a time; the results are in the order of the entrants.
pub fn hold(
    arena: &Arena,
    rules: &Rules,
    entrants: &[Entrant],
    note: &(dyn Fn(&str) + Sync),
) -> Vec<std::result::Result<Result, Error>> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<std::result::Result<Result, Error>>>> =
        entrants.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(entrant) = entrants.get(at) else { break };
            let result = tune::best(arena, rules, *entrant);
            note(&match &result {
                Ok(r) => format!(
                    "{}: {} ({:.2} s)",
                    r.name,
                    arena.goal.words(r.scores.average()),
                    r.seconds
                ),
                Err(error) => format!("{}: {error}", entrant.name()),
            });
            if let Ok(mut place) = done[at].lock() {
                *place = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..rules.threads.clamp(1, entrants.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    done.into_iter().filter_map(|d| d.into_inner().ok().flatten()).collect()
}
