//! The library among the others, on the same inputs.

use pmfcl::classify::Scheme;
use pmfcl::{
    ClassLoss, Classifier, ClassifierSettings, Labels, Learner, MemoryKind, Preference, Rows,
    Settings,
};
use pmfcl_baselines::{Kept, Method, Targets, Task};

use super::arena::Goal;
use super::{Arena, Error};

/// What is held between tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Summaries: PMF-CL.
    Summaries,
    /// All rows; learned at once: joint training.
    Everything,
    /// Nothing: the newest task alone.
    Nothing,
}

#[derive(Debug, Clone)]
enum Model {
    Values(Box<Learner>),
    Classes(Box<Classifier>, Vec<String>),
}

/// A learner or a classifier as a method.
#[derive(Debug, Clone)]
pub(super) struct Ours {
    keep: Keep,
    fresh: Model,
    model: Model,
    tasks: usize,
    x: Vec<f64>,
    y: Vec<f64>,
    codes: Vec<u32>,
    outputs: usize,
    /// The first refusal; outputs are no numbers from then on, and whoever asks has to look.
    failed: bool,
}

impl Ours {
    pub(super) fn new(
        arena: &Arena,
        keep: Keep,
        loss: ClassLoss,
        prefer: Preference,
    ) -> Result<Self, Error> {
        let memory = MemoryKind::Compact;
        let (fresh, outputs) = match &arena.goal {
            Goal::Values(units) => {
                let settings = Settings { prefer, memory, threads: 1, ..Settings::default() };
                (Model::Values(Box::new(Learner::new(settings)?)), units.len())
            }
            Goal::Classes(count) => {
                let classes: Vec<String> = (0..*count).map(|k| k.to_string()).collect();
                let settings = ClassifierSettings {
                    loss,
                    scheme: Scheme::Sequential,
                    prefer,
                    memory,
                    certify: false,
                    classes: Some(classes.clone()),
                    threads: 1,
                    ..ClassifierSettings::default()
                };
                (Model::Classes(Box::new(Classifier::new(settings)?), classes), *count)
            }
        };
        Ok(Self {
            keep,
            model: fresh.clone(),
            fresh,
            tasks: 0,
            x: Vec::new(),
            y: Vec::new(),
            codes: Vec::new(),
            outputs,
            failed: false,
        })
    }

    fn take(&mut self, task: &Task) -> pmfcl::Result<()> {
        if self.keep != Keep::Everything {
            self.x.clear();
            self.y.clear();
            self.codes.clear();
        }
        let width = task.x.width();
        let mut row = vec![0.0; width];
        for i in 0..task.x.rows() {
            task.x.write(i, &mut row);
            self.x.extend_from_slice(&row);
        }
        match &*task.y {
            Targets::Classes { codes, .. } => self.codes.extend(codes),
            Targets::Values { cells, .. } => self.y.extend(cells),
        }
        if self.keep != Keep::Summaries {
            self.model = self.fresh.clone();
        }
        let (x, name) = (Rows::new(&self.x, width)?, self.tasks.to_string());
        match &mut self.model {
            Model::Values(learner) => {
                learner.learn(&name, x, Rows::new(&self.y, self.outputs)?)?;
            }
            Model::Classes(classifier, classes) => {
                classifier.learn(&name, x, &Labels::from_codes(&self.codes, classes)?)?;
            }
        }
        self.tasks += 1;
        Ok(())
    }
}

impl Method for Ours {
    fn name(&self) -> String {
        "pmfcl".to_owned()
    }

    fn learn(&mut self, task: &Task) {
        self.failed |= self.take(task).is_err();
    }

    fn outputs(&self, x: &[f64], rows: usize) -> Vec<f64> {
        if self.tasks == 0 {
            return vec![0.0; rows * self.outputs];
        }
        let scores = || -> pmfcl::Result<Vec<f64>> {
            let x = Rows::new(x, x.len() / rows.max(1))?;
            match &self.model {
                Model::Values(learner) => learner.predict(x),
                Model::Classes(classifier, _) => {
                    // Binary log-loss has one score, for the second class.
                    let scores = classifier.decision(x)?;
                    if scores.len() == rows && self.outputs == 2 {
                        return Ok(scores.iter().flat_map(|s| [0.0, *s]).collect());
                    }
                    Ok(scores)
                }
            }
        };
        match scores() {
            Ok(scores) if !self.failed => scores,
            _ => vec![f64::NAN; rows * self.outputs],
        }
    }

    fn kept(&self) -> Kept {
        let bytes = match (self.keep, &self.model) {
            (Keep::Nothing, _) => 0,
            (Keep::Everything, _) => 8 * (self.x.len() + self.y.len()) + self.codes.len(),
            (Keep::Summaries, Model::Values(learner)) => learner.state_bytes(),
            (Keep::Summaries, Model::Classes(classifier, _)) => classifier.state_bytes(),
        };
        let examples =
            if self.keep == Keep::Everything { self.y.len().max(self.codes.len()) } else { 0 };
        Kept { numbers: bytes.div_ceil(8), bytes, examples }
    }
}
