//! The regression runs: first the arguments of every method, then all trials.

use super::drift::{Setting, seed};
use super::roster::{Arguments, Shape, Who};
use super::study::{Study, Tuned};
use super::trial::{Ground, Measure, Track};
use super::{Effort, workers};

/// Where the seeds of the tuning streams begin, away from those of the trials.
const TUNING: u64 = 1 << 32;

pub(super) fn shape(setting: &Setting, steps: usize, seed: u64) -> Shape {
    let rows = setting.rows.iter().sum::<usize>() as f64 / setting.rows.len() as f64;
    Shape { d: setting.d, outputs: 1, rows, steps, seed }
}

/// What a candidate is judged by: the error over all tasks at the end, for a decay the error on the present.
fn judged(who: Who, track: &Track, rows: &[usize]) -> f64 {
    if who == Who::PmfDecay {
        let current = track.curve(Measure::Current, rows);
        return current.iter().sum::<f64>() / current.len() as f64;
    }
    track.curve(Measure::Cumulative, rows).last().copied().unwrap_or(f64::INFINITY)
}

/// Tries all candidates of all methods in all settings.
fn tune(effort: &Effort) -> Vec<Vec<Tuned>> {
    let Effort { settings, streams, seed: base, threads, .. } = effort;
    let jobs: Vec<(usize, Who, Arguments)> = (0..settings.len())
        .flat_map(|s| {
            let of = move |who: Who| who.candidates().into_iter().map(move |a| (s, who, a));
            Who::ALL.into_iter().flat_map(of)
        })
        .collect();
    let grounds = workers::map(settings.len() * streams, *threads, |i| {
        let (s, stream) = (i / streams, (i % streams) as u64);
        let one = seed(&[*base, s as u64, TUNING + stream]);
        (Ground::new(&settings[s], one), one)
    });
    let errors = workers::map(jobs.len(), *threads, |i| {
        let (s, who, arguments) = jobs[i];
        let sum: f64 = grounds[s * streams..(s + 1) * streams]
            .iter()
            .map(|(ground, seed)| {
                let method = who.build(shape(&settings[s], effort.steps, *seed), arguments);
                judged(who, &ground.run(method), &settings[s].rows)
            })
            .sum();
        sum / *streams as f64
    });
    (0..settings.len())
        .map(|s| {
            let of = |who: Who| {
                let tried: Vec<(Arguments, f64)> = jobs
                    .iter()
                    .zip(&errors)
                    .filter(|(job, _)| (job.0, job.1) == (s, who))
                    .map(|(job, error)| (job.2, *error))
                    .collect();
                let best = tried.iter().min_by(|a, b| a.1.total_cmp(&b.1))?.0;
                Some(Tuned { who, arguments: best, tried })
            };
            Who::ALL.into_iter().filter_map(of).collect()
        })
        .collect()
}

/// The arguments a method runs with.
pub(super) fn arguments_of(tuned: &[Tuned], who: Who) -> Arguments {
    let found = tuned.iter().find(|t| t.who == who);
    found.map_or(Arguments { rate: 0.0, strength: 0.0 }, |t| t.arguments)
}

/// All methods in all settings, as often as there are trials.
pub fn run(effort: &Effort, progress: &(dyn Fn(&str) + Sync)) -> Vec<Study> {
    let Effort { settings, trials, seed: base, .. } = effort;
    progress("regression: choosing learning rates");
    let tuned = tune(effort);
    progress("regression: all methods in all settings");
    let results = workers::map(settings.len() * trials, effort.threads, |i| {
        let (s, trial) = (i / trials, i % trials);
        let one = seed(&[*base, s as u64, trial as u64]);
        let ground = Ground::new(&settings[s], one);
        let tracks: Vec<Track> = Who::ALL
            .into_iter()
            .map(|who| {
                ground.run(
                    who.build(shape(&settings[s], effort.steps, one), arguments_of(&tuned[s], who)),
                )
            })
            .collect();
        (tracks, ground.untrained())
    });
    let mut results = results.into_iter();
    settings
        .iter()
        .zip(tuned)
        .map(|(setting, tuned)| {
            let (trials, untrained) = results.by_ref().take(*trials).unzip();
            Study { setting: setting.clone(), tuned, trials, untrained }
        })
        .collect()
}
