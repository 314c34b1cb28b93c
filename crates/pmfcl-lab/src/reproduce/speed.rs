//! How long learning ten tasks takes.

use std::time::Instant;

use super::drift::{Setting, seed};
use super::regression::{arguments_of, shape};
use super::roster::Who;
use super::study::Tuned;
use super::trial::Ground;

/// Seconds for all updates and solves of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds {
    /// The method.
    pub who: Who,
    /// Median over repeats.
    pub median: f64,
    /// Best of them.
    pub best: f64,
    /// How many there were.
    pub repeats: usize,
}

/// Times every method on one stream of a setting, one after the other on one thread.
///
/// Quick methods are repeated more often: up to about a quarter of a second each, three times at least.
pub fn run(setting: &Setting, tuned: &[Tuned], steps: usize, base: u64) -> Vec<Seconds> {
    let one = seed(&[base, 0, 0]);
    let ground = Ground::new(setting, one);
    Who::ALL
        .into_iter()
        .map(|who| {
            let build = || who.build(shape(setting, steps, one), arguments_of(tuned, who));
            let mut taken = Vec::new();
            let mut total = 0.0;
            // The first is not counted: it finds cold caches.
            ground.only_learn(build());
            while taken.len() < 3 || (total < 0.25 && taken.len() < 101) {
                let method = build();
                let start = Instant::now();
                let learned = ground.only_learn(method);
                let seconds = start.elapsed().as_secs_f64();
                drop(learned);
                total += seconds;
                taken.push(seconds);
            }
            taken.sort_by(f64::total_cmp);
            Seconds { who, median: taken[taken.len() / 2], best: taken[0], repeats: taken.len() }
        })
        .collect()
}
