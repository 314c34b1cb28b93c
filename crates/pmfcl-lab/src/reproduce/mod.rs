//! The paper's experiments, both sides shown: what holds, what does not, and by how much.
//!
//! The paper (Appendix G, `app:experiments`) prints neither settings nor code. Here are both: [`drift`] draws the streams,
//! [`roster`] sets the methods up and lists every value that is tried for them, [`regression`] runs them. [`logistic`] and
//! [`federated`] are the versions the paper leaves out, [`fronts`] and [`bounds`] its two illustrations, computed.
//! [`claims`] turns the numbers into sentences; nothing on the page is written by hand that the numbers could contradict.
//!
//! [`run`] computes, [`Outcome::files`] draws and writes: no file is touched here, and all files but those with times in them
//! have the same bytes for the same seed, whatever the number of threads.

pub mod bounds;
mod captions;
pub mod claims;
pub mod classes;
pub mod drift;
pub mod exact;
pub mod federated;
pub mod fronts;
pub mod logistic;
mod number;
pub mod ours;
mod page;
mod pictures;
pub mod regression;
pub mod roster;
pub mod speed;
pub mod spread;
pub mod study;
mod tables;
#[cfg(test)]
mod tests;
pub mod trial;
mod workers;

use bounds::BoundFronts;
use claims::Finding;
use classes::ClassSetting;
use drift::Setting;
use federated::{FederatedStudy, Federation};
use fronts::Corner;
use logistic::ClassStudy;
use speed::Seconds;
use study::Study;

/// What a run is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Trials of every setting.
    pub trials: usize,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Threads; the result does not depend on it.
    pub threads: usize,
    /// Four settings instead of eight and three trials at most, for a look.
    pub quick: bool,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { trials: 10, seed: 0, threads, quick: false }
    }
}

/// How much is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Effort {
    /// Settings of the regression runs, the main one first.
    pub settings: Vec<Setting>,
    /// Tasks of every stream.
    pub tasks: usize,
    /// Trials.
    pub trials: usize,
    /// Gradient steps a task.
    pub steps: usize,
    /// Streams on which arguments are chosen; they are not those of the trials.
    pub streams: usize,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
}

impl Effort {
    fn new(options: Options) -> Self {
        const TASKS: usize = 10;
        let mut settings = drift::grid(TASKS);
        let mut trials = options.trials.max(1);
        if options.quick {
            settings.retain(|s| ["main", "few-rows", "uneven", "narrow"].contains(&s.name));
            trials = trials.min(3);
        }
        Self {
            settings,
            tasks: TASKS,
            trials,
            steps: roster::STEPS,
            streams: 2,
            seed: options.seed,
            threads: options.threads.max(1),
        }
    }

    /// As little as shows all of it.
    #[cfg(test)]
    pub(crate) fn small(threads: usize) -> Self {
        let tasks = 3;
        let mut settings = drift::grid(tasks);
        settings.retain(|s| ["main", "few-rows", "uneven"].contains(&s.name));
        for setting in &mut settings {
            setting.d = 8;
            setting.rows.iter_mut().for_each(|n| *n = (*n / 6).max(4));
        }
        Self { settings, tasks, trials: 2, steps: 10, streams: 1, seed: 0, threads }
    }
}

/// Everything that was computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How much was computed.
    pub effort: Effort,
    /// The regression runs, one a setting.
    pub studies: Vec<Study>,
    /// Times of the main setting.
    pub seconds: Vec<Seconds>,
    /// The two-class run.
    pub classes: ClassStudy,
    /// The federated run.
    pub federated: FederatedStudy,
    /// Figure 1, tasks in conflict.
    pub conflict: Corner,
    /// Figure 1, tasks that share a minimizer.
    pub shared: Corner,
    /// Figure 2.
    pub bounds: BoundFronts,
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether times are in it, which differ from run to run.
    pub timed: bool,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// A learner refused the rows.
    #[error(transparent)]
    Pmfcl(#[from] pmfcl::Error),
    /// A picture could not be drawn.
    #[error(transparent)]
    Png(#[from] pmfcl_plot::PngError),
}

/// Runs all experiments. `progress` hears what is being done.
///
/// # Errors
/// When a solver refuses the rows that were drawn.
pub fn run(options: Options, progress: &(dyn Fn(&str) + Sync)) -> Result<Outcome, ReproduceError> {
    compute(&Effort::new(options), progress)
}

fn compute(effort: &Effort, progress: &(dyn Fn(&str) + Sync)) -> Result<Outcome, ReproduceError> {
    let studies = regression::run(effort, progress);
    progress("two classes: all methods");
    let classes = logistic::run(&ClassSetting::standard(effort.tasks), effort)?;
    progress("federated: merged summaries, FedAvg, local models");
    let federated = federated::run(&Federation::standard(effort.tasks), effort)?;
    progress("fronts of two tasks");
    let (conflict, shared) = (fronts::conflicting(effort.seed)?, fronts::shared(effort.seed)?);
    let bounds = bounds::compute(effort.seed)?;
    progress("times, one method after the other");
    let main = &studies[0];
    let seconds = speed::run(&main.setting, &main.tuned, effort.steps, effort.seed);
    let effort = effort.clone();
    Ok(Outcome { effort, studies, seconds, classes, federated, conflict, shared, bounds })
}

impl Outcome {
    /// The claims, each with what the numbers say.
    pub fn findings(&self) -> Vec<Finding> {
        claims::all(self)
    }

    /// Every file of the run: pictures, tables, findings and the page.
    ///
    /// # Errors
    /// When a picture cannot be drawn.
    pub fn files(&self) -> Result<Vec<File>, ReproduceError> {
        let findings = self.findings();
        let figures = pictures::all(self);
        let mut files = Vec::new();
        let mut add = |name: String, bytes: Vec<u8>, timed| files.push(File { name, bytes, timed });
        for figure in &figures {
            let svg = figure.wide.svg(pmfcl_plot::Theme::Light);
            add(format!("{}.png", figure.name), pmfcl_plot::png(&svg, 2.0)?, figure.timed);
            let svg = figure.wide.svg(pmfcl_plot::Theme::Auto);
            add(format!("{}.svg", figure.name), svg.into_bytes(), figure.timed);
        }
        for sheet in tables::csv(self) {
            add(format!("{}.csv", sheet.name), sheet.text.into_bytes(), sheet.timed);
        }
        add("findings.md".to_owned(), claims::markdown(self, &findings).into_bytes(), true);
        let html = page::html(self, &findings, &figures);
        add("index.html".to_owned(), html.into_bytes(), true);
        Ok(files)
    }
}
