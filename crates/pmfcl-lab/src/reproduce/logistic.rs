//! The main run with two classes: log-loss of quadratic bounds, joint training and the baselines, and whether the bound on
//! forgetting ever fails.

use pmfcl::problem::{Curvature, Logistic, Scheme};
use pmfcl::{ClassList, Error, Labels, Learner, Problem, Ridge, Rows, Settings, TaskRows};
use pmfcl_baselines::Method;
use pmfcl_plot::{Dash, Marker, Paint};

use super::classes::{ClassSetting, ClassStream, Labelled, RIDGE, joint};
use super::drift::seed;
use super::roster::{Arguments, Look, RATES, Shape, Who};
use super::spread::Spread;
use super::{Effort, workers};

/// A method of the two-class run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learns {
    /// Each task alone, Böhning's curvature: the paper's Algorithm 2.
    OneShotBohning,
    /// Each task alone, the sharp curvature.
    OneShotSharp,
    /// The task's loss with the past, the curvature at the solution.
    SequentialHessian,
    /// The task's loss with the past, half of it sharp.
    SequentialBlend,
    /// All rows so far.
    Joint,
    /// The last task alone.
    Last,
    /// One of the baselines.
    Baseline(Who),
}

impl Learns {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let ours = [
            Self::OneShotBohning,
            Self::OneShotSharp,
            Self::SequentialHessian,
            Self::SequentialBlend,
            Self::Joint,
            Self::Last,
        ];
        ours.into_iter().chain(Who::IN_PAPER.map(Self::Baseline)).collect()
    }

    /// What to call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneShotBohning => "one-shot Böhning (paper)",
            Self::OneShotSharp => "one-shot sharp",
            Self::SequentialHessian => "sequential Hessian",
            Self::SequentialBlend => "sequential blend",
            Self::Joint => "joint",
            Self::Last => "last task only",
            Self::Baseline(who) => who.name(),
        }
    }

    /// How it is drawn.
    pub fn look(self) -> Look {
        let (paint, dash, marker) = match self {
            Self::OneShotBohning => (Paint::Series(1), Dash::Solid, Marker::Circle),
            Self::OneShotSharp => (Paint::Series(1), Dash::Long, Marker::Diamond),
            Self::SequentialHessian => (Paint::Series(6), Dash::DashDot, Marker::Star),
            Self::SequentialBlend => (Paint::Series(6), Dash::Dots, Marker::Plus),
            Self::Joint => return Who::Joint.look(),
            Self::Last => return Who::Last.look(),
            Self::Baseline(who) => return who.look(),
        };
        Look { paint, dash, marker }
    }

    fn scheme(self) -> Option<(Scheme, Curvature)> {
        match self {
            Self::OneShotBohning => Some((Scheme::OneShot, Curvature::Bohning)),
            Self::OneShotSharp => Some((Scheme::OneShot, Curvature::Sharp)),
            Self::SequentialHessian => Some((Scheme::Sequential, Curvature::Hessian)),
            Self::SequentialBlend => Some((Scheme::Sequential, Curvature::Blend)),
            Self::Joint | Self::Last | Self::Baseline(_) => None,
        }
    }

    /// Whether its bound on forgetting is proved.
    pub fn guaranteed(self) -> bool {
        self.scheme().is_some_and(|(_, curvature)| curvature.guaranteed())
    }
}

/// What a method did on a stream of two-class tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassTrack {
    /// `[k][t]`: test log-loss on task `t` after task `k`, for `t ≤ k`.
    pub test: Vec<Vec<f64>>,
    /// `[k][t]`: forgetting, the training log-loss above the least found for the task alone.
    pub forgetting: Vec<Vec<f64>>,
    /// `[k][t]`: the bound on it, for methods that have one.
    pub bounds: Vec<Vec<f64>>,
}

/// The result of the two-class run.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassStudy {
    /// The setting.
    pub setting: ClassSetting,
    /// The learning rates chosen.
    pub tuned: Vec<(Who, Arguments)>,
    /// `[trial]`: the track of every method of [`Learns::all`].
    pub trials: Vec<Vec<ClassTrack>>,
}

/// Forgetting against its bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guarantee {
    /// Pairs of a model and a task that were looked at.
    pub checked: usize,
    /// Among them those whose forgetting exceeds the bound.
    pub violated: usize,
    /// The mean of the bounds after the last task over the mean forgetting.
    pub looseness: f64,
}

fn after_each(
    stream: &ClassStream,
    mut learn: impl FnMut(usize) -> Result<(), Error>,
    mut look: impl FnMut(usize) -> Result<Step, Error>,
) -> Result<ClassTrack, Error> {
    let mut track = ClassTrack { test: Vec::new(), forgetting: Vec::new(), bounds: Vec::new() };
    for k in 0..stream.train.len() {
        learn(k)?;
        let step = look(k)?;
        let excess = |t: usize| step.train[t] - stream.least[t];
        track.test.push(step.test);
        track.forgetting.push((0..=k).map(excess).collect());
        track.bounds.push(step.bounds);
    }
    Ok(track)
}

/// Losses after one task, of the tasks so far.
struct Step {
    test: Vec<f64>,
    train: Vec<f64>,
    bounds: Vec<f64>,
}

fn losses(stream: &ClassStream, k: usize, of: impl Fn(&Labelled) -> f64) -> Step {
    let finite = |v: f64| if v.is_nan() { f64::INFINITY } else { v };
    let each = |parts: &[Labelled]| parts[..=k].iter().map(|p| finite(of(p))).collect();
    Step { test: each(&stream.test), train: each(&stream.train), bounds: Vec::new() }
}

fn bounded(stream: &ClassStream, how: (Scheme, Curvature)) -> Result<ClassTrack, Error> {
    let problem = Problem::Logistic(Logistic {
        scheme: how.0,
        curvature: how.1,
        classes: ClassList::Fixed(vec!["0".to_owned(), "1".to_owned()]),
        ..Logistic::default()
    });
    let settings = Settings {
        intercept: false,
        ridge: Ridge::Fixed(RIDGE),
        threads: 1,
        ..Settings::default()
    };
    let learner = std::cell::RefCell::new(Learner::new(problem, settings)?);
    after_each(
        stream,
        |k| {
            let part = &stream.train[k];
            let labels = Labels::new(&part.labels);
            let x = Rows::new(&part.x, stream.d)?;
            learner.borrow_mut().learn(&k.to_string(), TaskRows::new(x, &labels), 1.0)
        },
        |k| {
            let learner = learner.borrow();
            let theta = &learner.solution()?.theta;
            let mut step = losses(stream, k, |part| part.log_loss(theta.column(0)));
            let tasks = learner.tasks()?;
            step.bounds = tasks.iter().map(|t| t.bound.unwrap_or(f64::INFINITY)).collect();
            Ok(step)
        },
    )
}

fn solved(stream: &ClassStream, all: bool) -> Result<ClassTrack, Error> {
    let rows = std::cell::RefCell::new(Labelled::default());
    after_each(
        stream,
        |k| {
            let mut rows = rows.borrow_mut();
            if !all {
                *rows = Labelled::default();
            }
            rows.x.extend_from_slice(&stream.train[k].x);
            rows.labels.extend_from_slice(&stream.train[k].labels);
            Ok(())
        },
        |k| {
            let theta = joint(&rows.borrow(), stream.d)?;
            Ok(losses(stream, k, |part| part.log_loss(theta.column(0))))
        },
    )
}

fn stepped(stream: &ClassStream, method: Box<dyn Method>) -> Result<ClassTrack, Error> {
    let method = std::cell::RefCell::new(method);
    after_each(
        stream,
        |k| {
            method.borrow_mut().learn(&stream.train[k].task(stream.d));
            Ok(())
        },
        |k| {
            let method = method.borrow();
            Ok(losses(stream, k, |part| {
                part.log_loss_of_scores(&method.outputs(&part.x, part.labels.len()))
            }))
        },
    )
}

fn shape(setting: &ClassSetting, steps: usize, seed: u64) -> Shape {
    Shape { d: setting.d, outputs: 2, rows: setting.rows as f64, steps, seed }
}

/// Learning rates tried: ten times those of squared loss, as the curvature of log-loss is at most a quarter.
pub const CLASS_RATES: [f64; RATES.len()] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0];

fn candidates(who: Who) -> Vec<Arguments> {
    let scaled = |a: Arguments| {
        let at = RATES.iter().position(|r| r.to_bits() == a.rate.to_bits());
        Arguments { rate: at.map_or(a.rate, |i| CLASS_RATES[i]), ..a }
    };
    who.candidates().into_iter().map(scaled).collect()
}

/// All methods, `trials` times.
///
/// # Errors
/// When a solver refuses the rows.
pub fn run(setting: &ClassSetting, effort: &Effort) -> Result<ClassStudy, Error> {
    let Effort { trials, seed: base, threads, .. } = *effort;
    let tuning = [seed(&[base, 100, 1 << 32]), seed(&[base, 100, (1 << 32) + 1])];
    let streams = tuning.map(|seed| setting.stream(seed));
    let streams: Vec<ClassStream> = streams.into_iter().collect::<Result<_, _>>()?;
    let jobs: Vec<(Who, Arguments)> = Who::IN_PAPER
        .into_iter()
        .flat_map(|who| candidates(who).into_iter().map(move |a| (who, a)))
        .collect();
    let errors = workers::map(jobs.len(), threads, |i| {
        let (who, arguments) = jobs[i];
        let mut sum = 0.0;
        for (stream, seed) in streams.iter().zip(tuning) {
            let track = stepped(stream, who.build(shape(setting, effort.steps, seed), arguments))?;
            sum += cumulative(&track)[setting.tasks - 1];
        }
        Ok::<f64, Error>(sum)
    });
    let errors: Vec<f64> = errors.into_iter().collect::<Result<_, _>>()?;
    let best = |who: Who| {
        let mine = jobs.iter().zip(&errors).filter(|(job, _)| job.0 == who);
        mine.min_by(|a, b| a.1.total_cmp(b.1)).map(|(job, _)| *job)
    };
    let tuned: Vec<(Who, Arguments)> = Who::IN_PAPER.into_iter().filter_map(best).collect();
    let trials = workers::map(trials, threads, |trial| {
        let one = seed(&[base, 100, trial as u64]);
        let stream = setting.stream(one)?;
        Learns::all()
            .into_iter()
            .map(|method| match method {
                Learns::Joint => solved(&stream, true),
                Learns::Last => solved(&stream, false),
                Learns::Baseline(who) => {
                    let arguments = tuned
                        .iter()
                        .find(|t| t.0 == who)
                        .map_or(Arguments { rate: CLASS_RATES[2], strength: 0.0 }, |t| t.1);
                    stepped(&stream, who.build(shape(setting, effort.steps, one), arguments))
                }
                bound => bounded(&stream, bound.scheme().expect("the others have one")),
            })
            .collect::<Result<Vec<_>, _>>()
    });
    let trials = trials.into_iter().collect::<Result<_, _>>()?;
    Ok(ClassStudy { setting: setting.clone(), tuned, trials })
}

/// Test log-loss over all tasks so far, after each task.
fn cumulative(track: &ClassTrack) -> Vec<f64> {
    track.test.iter().map(|row| row.iter().sum::<f64>() / row.len() as f64).collect()
}

/// Test log-loss on the task just learned, after each task.
fn current(track: &ClassTrack) -> Vec<f64> {
    (0..track.test.len()).map(|k| track.test[k][k]).collect()
}

impl ClassStudy {
    fn tracks(&self, method: Learns) -> impl Iterator<Item = &ClassTrack> {
        let at = Learns::all().iter().position(|m| *m == method).expect("every method is listed");
        self.trials.iter().map(move |tracks| &tracks[at])
    }

    fn spread(&self, method: Learns, curve: impl Fn(&ClassTrack) -> Vec<f64>) -> Vec<Spread> {
        let curves: Vec<Vec<f64>> = self.tracks(method).map(curve).collect();
        (0..self.setting.tasks)
            .map(|k| Spread::of(&curves.iter().map(|c| c[k]).collect::<Vec<_>>()))
            .collect()
    }

    /// How far a curve lies above joint training's on the same stream.
    fn above(&self, method: Learns, curve: fn(&ClassTrack) -> Vec<f64>) -> Vec<Spread> {
        let joint: Vec<Vec<f64>> = self.tracks(Learns::Joint).map(curve).collect();
        let differences: Vec<Vec<f64>> = self
            .tracks(method)
            .zip(&joint)
            .map(|(track, joint)| curve(track).iter().zip(joint).map(|(a, b)| a - b).collect())
            .collect();
        (0..self.setting.tasks)
            .map(|k| Spread::of(&differences.iter().map(|d| d[k]).collect::<Vec<_>>()))
            .collect()
    }

    /// Test log-loss over all tasks so far, above joint training's.
    pub fn cumulative_above(&self, method: Learns) -> Vec<Spread> {
        self.above(method, cumulative)
    }

    /// Test log-loss on the task just learned, above joint training's.
    pub fn current_above(&self, method: Learns) -> Vec<Spread> {
        self.above(method, current)
    }

    /// Test log-loss over all tasks so far.
    pub fn cumulative(&self, method: Learns) -> Vec<Spread> {
        self.spread(method, cumulative)
    }

    /// Test log-loss on the task just learned.
    pub fn current(&self, method: Learns) -> Vec<Spread> {
        self.spread(method, current)
    }

    /// Mean forgetting over the tasks so far.
    pub fn forgetting(&self, method: Learns) -> Vec<Spread> {
        self.spread(method, |track| means(&track.forgetting))
    }

    /// Mean of the bounds on it; nothing for methods without.
    pub fn bound(&self, method: Learns) -> Option<Vec<Spread>> {
        method.scheme()?;
        Some(self.spread(method, |track| means(&track.bounds)))
    }

    /// Forgetting held against its bound, for every model and every task it has seen.
    pub fn guarantee(&self, method: Learns) -> Option<Guarantee> {
        let last = self.setting.tasks - 1;
        let (bound, real) = (self.bound(method)?[last].mean, self.forgetting(method)[last].mean);
        let mut guarantee = Guarantee { checked: 0, violated: 0, looseness: bound / real };
        for track in self.tracks(method) {
            let pairs = track.forgetting.iter().flatten().zip(track.bounds.iter().flatten());
            for (forgotten, bound) in pairs {
                guarantee.checked += 1;
                guarantee.violated += usize::from(*forgotten > bound + 1e-9);
            }
        }
        Some(guarantee)
    }
}

fn means(table: &[Vec<f64>]) -> Vec<f64> {
    table.iter().map(|row| row.iter().sum::<f64>() / row.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guarantee_holds_and_joint_training_forgets_least() {
        let setting = ClassSetting { rows: 60, d: 4, ..ClassSetting::standard(3) };
        let study = run(&setting, &Effort::small(2)).unwrap();
        assert_eq!(study, run(&setting, &Effort::small(1)).unwrap());
        for method in Learns::all().into_iter().filter(|m| m.guaranteed()) {
            let guarantee = study.guarantee(method).unwrap();
            assert_eq!((guarantee.checked, guarantee.violated), (12, 0), "{}", method.name());
            assert!(guarantee.looseness >= 1.0);
        }
        let joint = study.forgetting(Learns::Joint)[2].mean;
        for method in Learns::all() {
            // The ridge costs joint training next to nothing.
            assert!(study.forgetting(method)[2].mean > joint - 2e-3, "{}", method.name());
        }
    }
}
