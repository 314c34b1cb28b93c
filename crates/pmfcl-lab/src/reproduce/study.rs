//! All methods on one setting, over all trials.

use super::drift::Setting;
use super::roster::{Arguments, Who};
use super::spread::Spread;
use super::trial::{Measure, Track};
use pmfcl::report::continual::{Direction, Scores};

/// How a method came to its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuned {
    /// The method.
    pub who: Who,
    /// What it runs with.
    pub arguments: Arguments,
    /// Everything that was tried, with the error it was judged by.
    pub tried: Vec<(Arguments, f64)>,
}

/// The result of one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// The setting.
    pub setting: Setting,
    /// The arguments of those that have some.
    pub tuned: Vec<Tuned>,
    /// `[trial]`: the track of every method of [`Who::ALL`], in that order.
    pub trials: Vec<Vec<Track>>,
    /// `[trial][task]`: test errors of a model that has learned nothing.
    pub untrained: Vec<Vec<f64>>,
}

/// The field's measures of a method, each by its own name, from test errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forgetting {
    /// Mean test error over all tasks at the end.
    pub average: f64,
    /// The paper's: excess of training loss over the task's own least, mean over tasks, at the end.
    pub paper: f64,
    /// Chaudhry et al.
    pub chaudhry: f64,
    /// Backward transfer.
    pub backward: f64,
    /// Forward transfer against the zero model.
    pub forward: f64,
    /// Avalanche.
    pub avalanche: f64,
    /// Mammoth.
    pub mammoth: f64,
}

impl Study {
    /// The tracks of a method, one a trial.
    pub fn tracks(&self, who: Who) -> impl Iterator<Item = &Track> {
        let at = Who::ALL.iter().position(|w| *w == who).expect("every method is listed");
        self.trials.iter().map(move |tracks| &tracks[at])
    }

    /// `[trial][task]`
    pub fn curves(&self, who: Who, measure: Measure) -> Vec<Vec<f64>> {
        self.tracks(who).map(|track| track.curve(measure, &self.setting.rows)).collect()
    }

    /// What the trials gave after each task.
    pub fn spread(&self, who: Who, measure: Measure) -> Vec<Spread> {
        let curves = self.curves(who, measure);
        (0..self.tasks())
            .map(|k| Spread::of(&curves.iter().map(|c| c[k]).collect::<Vec<_>>()))
            .collect()
    }

    /// The mean after the last task.
    pub fn last(&self, who: Who, measure: Measure) -> f64 {
        self.spread(who, measure)[self.tasks() - 1].mean
    }

    /// The mean over trials and over the tasks from the second on.
    pub fn mean_from_second(&self, who: Who, measure: Measure) -> f64 {
        let spread = self.spread(who, measure);
        let later = &spread[1.min(spread.len() - 1)..];
        later.iter().map(|s| s.mean).sum::<f64>() / later.len() as f64
    }

    /// How many tasks.
    pub fn tasks(&self) -> usize {
        self.setting.rows.len()
    }

    /// The method with the lowest mean after the last task among some.
    pub fn best(&self, among: &[Who], measure: Measure) -> (Who, f64) {
        let of = |w: &Who| (*w, self.last(*w, measure));
        among.iter().map(of).min_by(|a, b| a.1.total_cmp(&b.1)).expect("some method is asked for")
    }

    /// All measures of forgetting, as means over trials.
    ///
    /// # Errors
    /// When a score is not finite: the method ran away.
    pub fn forgetting(&self, who: Who) -> Result<Forgetting, pmfcl::Error> {
        let mut rows: Vec<[f64; 7]> = Vec::new();
        // The least training error of a task alone.
        let least: Vec<Vec<f64>> = self
            .tracks(Who::Last)
            .map(|track| (0..self.tasks()).map(|t| track.train[t][t]).collect())
            .collect();
        for (trial, track) in self.tracks(who).enumerate() {
            let scores = Scores::new(track.test.clone(), Direction::LowerIsBetter)?;
            let end = track.train.len() - 1;
            let excess = |t: usize| (track.train[end][t] - least[trial][t]) / 2.0;
            rows.push([
                scores.average(),
                (0..=end).map(excess).sum::<f64>() / (end + 1) as f64,
                scores.chaudhry_forgetting(),
                scores.backward_transfer(),
                scores.forward_transfer(&self.untrained[trial])?,
                scores.avalanche_forgetting(),
                scores.mammoth_forgetting(),
            ]);
        }
        let mean = |c: usize| rows.iter().map(|r| r[c]).sum::<f64>() / rows.len() as f64;
        Ok(Forgetting {
            average: mean(0),
            paper: mean(1),
            chaudhry: mean(2),
            backward: mean(3),
            forward: mean(4),
            avalanche: mean(5),
            mammoth: mean(6),
        })
    }
}
