//! The library among the others, on the same inputs.

use pmfcl::problem::{Logistic, Scheme, Squared};
use pmfcl::{
    ClassList, Labels, Learner, MemoryKind, Preference, Problem, Rows, Settings, TaskRows,
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

/// Which loss tells classes apart; values are always least squares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClassLoss {
    /// Least squares on class indicators.
    Squared,
    /// Linear discriminants.
    Gaussian,
    /// Log-loss by bounds, each at the minimum of its task and the past, least losses not certified.
    Logistic,
}

impl ClassLoss {
    fn problem(self) -> Problem {
        match self {
            Self::Squared => Problem::Squared(Squared { classes: Some(ClassList::Open) }),
            Self::Gaussian => Problem::gaussian(),
            Self::Logistic => Problem::Logistic(Logistic {
                scheme: Scheme::Sequential,
                certify: false,
                ..Logistic::default()
            }),
        }
    }
}

/// A learner as a method.
#[derive(Debug, Clone)]
pub(super) struct Ours {
    keep: Keep,
    fresh: Learner,
    model: Learner,
    /// Names of the classes; none for values.
    classes: Vec<String>,
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
        let settings = Settings { prefer, memory, threads: 1, ..Settings::default() };
        let (problem, classes, outputs) = match &arena.goal {
            Goal::Values(units) => (Problem::squared(), Vec::new(), units.len()),
            Goal::Classes(count) => {
                let classes: Vec<String> = (0..*count).map(|k| k.to_string()).collect();
                (loss.problem().with_classes(classes.clone())?, classes, *count)
            }
        };
        let fresh = Learner::new(problem, settings)?;
        Ok(Self {
            keep,
            model: fresh.clone(),
            fresh,
            classes,
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
        if self.classes.is_empty() {
            let rows = TaskRows::new(x, Rows::new(&self.y, self.outputs)?);
            self.model.learn(&name, rows, 1.0)?;
        } else {
            let labels = Labels::from_codes(&self.codes, &self.classes)?;
            self.model.learn(&name, TaskRows::new(x, &labels), 1.0)?;
        }
        // The time to learn a task is measured with the solution.
        self.model.solution()?;
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
            if self.classes.is_empty() { self.model.predict(x) } else { self.model.scores(x) }
        };
        match scores() {
            Ok(scores) if !self.failed => scores,
            _ => vec![f64::NAN; rows * self.outputs],
        }
    }

    fn kept(&self) -> Kept {
        let bytes = match self.keep {
            Keep::Nothing => 0,
            Keep::Everything => 8 * (self.x.len() + self.y.len()) + self.codes.len(),
            Keep::Summaries => self.model.state_bytes(),
        };
        let examples =
            if self.keep == Keep::Everything { self.y.len().max(self.codes.len()) } else { 0 };
        Kept { numbers: bytes.div_ceil(8), bytes, examples }
    }
}
