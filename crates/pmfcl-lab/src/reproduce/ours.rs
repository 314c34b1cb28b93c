//! PMF-CL as one of the methods: the learner of this library, and the paper's own recursion.

use pmfcl::{Learner, MemoryKind, Preference, Problem, Ridge, Rows, Settings, TaskRows};
use pmfcl_baselines::{Kept, Method, Targets, Task};
use pmfcl_oracle::recursion::{Form, Recursion};

use super::drift::{Part, dot};

/// The rows of a task, laid out.
pub(super) fn rows_of(task: &Task) -> Part {
    let (n, d) = (task.x.rows(), task.x.width());
    let mut x = vec![0.0; n * d];
    for (i, row) in x.chunks_exact_mut(d).enumerate() {
        task.x.write(i, row);
    }
    let y = match &*task.y {
        Targets::Values { cells, .. } => cells.clone(),
        Targets::Classes { codes, .. } => codes.iter().map(|c| f64::from(*c)).collect(),
    };
    Part { x, y }
}

/// Predictions of a linear model without an intercept.
pub(super) fn linear_outputs(theta: &[f64], x: &[f64]) -> Vec<f64> {
    x.chunks_exact(theta.len()).map(|row| dot(row, theta)).collect()
}

/// Parameters with the intercept there is not, as [`Method::linear`] wants them.
pub(super) fn with_intercept(theta: &[f64]) -> Vec<f64> {
    theta.iter().copied().chain([0.0]).collect()
}

/// The learner of this library, in constant memory and without an intercept.
#[derive(Debug)]
pub struct Pmf {
    name: &'static str,
    learner: Learner,
}

impl Pmf {
    /// With a ridge and a preference.
    ///
    /// # Panics
    /// When one of them is out of range.
    pub fn new(name: &'static str, ridge: Ridge, prefer: Preference) -> Self {
        let settings = Settings {
            intercept: false,
            ridge,
            prefer,
            memory: MemoryKind::Compact,
            threads: 1,
            ..Settings::default()
        };
        let learner = Learner::new(Problem::squared(), settings).expect("settings in range");
        Self { name, learner }
    }
}

impl Method for Pmf {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn learn(&mut self, task: &Task) {
        let part = rows_of(task);
        let name = self.learner.names().len().to_string();
        let x = Rows::new(&part.x, task.x.width()).expect("whole rows");
        let y = Rows::new(&part.y, 1).expect("whole rows");
        self.learner.learn(&name, TaskRows::new(x, y), 1.0).expect("finite rows of one width");
        // The time to learn a stream is that of all updates and solutions.
        self.learner.solution().expect("numbers within double precision");
    }

    fn outputs(&self, x: &[f64], _rows: usize) -> Vec<f64> {
        linear_outputs(self.learner.solution().expect("a task was learned").theta.column(0), x)
    }

    /// The packed trapezoids with their targets, and two numbers each: rows and residual.
    fn kept(&self) -> Kept {
        let numbers = match self.learner.kept_pool() {
            Some(pool) if self.learner.is_folded() => pool.quadratic.numbers() + 2,
            _ => self.learner.summaries().iter().flatten().map(|s| s.numbers() + 2).sum(),
        };
        Kept { numbers, bytes: self.learner.state_bytes(), examples: 0 }
    }

    fn linear(&self) -> Option<Vec<f64>> {
        Some(with_intercept(self.learner.solution().ok()?.theta.column(0)))
    }
}

/// The recursion of the paper.
#[derive(Debug)]
pub struct Paper {
    d: usize,
    form: Form,
    recursion: Recursion,
}

impl Paper {
    /// As the paper's experiments run it: `λ = 1e-6` added to the curvature.
    pub fn new(d: usize, form: Form) -> Self {
        Self { d, form, recursion: Recursion::new(d, form, 1e-6) }
    }
}

impl Method for Paper {
    fn name(&self) -> String {
        match self.form {
            Form::Corrected => "paper's recursion".to_owned(),
            Form::Printed => "paper's recursion as printed".to_owned(),
        }
    }

    fn learn(&mut self, task: &Task) {
        let part = rows_of(task);
        self.recursion.learn(&part.x, &part.y);
    }

    fn outputs(&self, x: &[f64], _rows: usize) -> Vec<f64> {
        linear_outputs(self.recursion.theta(), x)
    }

    /// The paper's own count, `d(d + 2)`.
    fn kept(&self) -> Kept {
        let numbers = self.d * (self.d + 2);
        Kept { numbers, bytes: 8 * numbers, examples: 0 }
    }

    fn linear(&self) -> Option<Vec<f64>> {
        Some(with_intercept(self.recursion.theta()))
    }
}
