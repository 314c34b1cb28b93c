//! PMF-CL among the others: the library's classifiers on pixels, one pass, no example kept.

use pmfcl::problem::{Curvature, Logistic, Scheme, Squared};
use pmfcl::{
    Accumulator, ClassList, Labels, Learner, MemoryKind, Problem, Ridge, Rows, Settings, TaskRows,
};
use pmfcl_baselines::{Kept, Targets, Task};

use super::{Error, Student};

/// A classifier as one who follows a stream.
#[derive(Debug, Clone)]
pub struct Exact {
    name: String,
    classes: Vec<String>,
    model: Learner,
    tasks: usize,
    /// What every pixel becomes before the model sees it.
    pixel: fn(f32) -> f32,
    /// Whether the time to learn a task includes that of a solution.
    solves: bool,
}

impl Exact {
    /// A classifier of this problem; classes are the numbers from 0.
    ///
    /// # Errors
    /// When the problem and the settings are refused.
    pub fn new(
        name: &str,
        outputs: usize,
        (problem, settings): (Problem, Settings),
    ) -> Result<Self, Error> {
        let classes: Vec<String> = (0..outputs).map(|c| c.to_string()).collect();
        let problem = problem.with_classes(classes.clone())?;
        let model = Learner::new(problem, settings)?;
        let name = name.to_owned();
        Ok(Self { name, classes, model, tasks: 0, pixel: |v| v, solves: true })
    }

    /// The same with a function applied to every pixel first.
    #[must_use]
    pub fn on(self, pixel: fn(f32) -> f32) -> Self {
        Self { pixel, ..self }
    }

    /// The same, solved when scores are asked for and not after every task.
    #[must_use]
    pub fn solved_at_the_end(self) -> Self {
        Self { solves: false, ..self }
    }

    /// Linear, squared loss, a small fixed ridge, constant memory.
    pub(super) fn squared() -> (Problem, Settings) {
        let settings = Settings {
            ridge: Ridge::Fixed(1e-4),
            memory: MemoryKind::Compact,
            accumulator: Accumulator::Gram,
            threads: 1,
            ..Settings::default()
        };
        (Problem::Squared(Squared { classes: Some(ClassList::Open) }), settings)
    }

    /// Linear discriminants from the same memory.
    pub(super) fn gaussian() -> (Problem, Settings) {
        (Problem::gaussian(), Self::squared().1)
    }

    /// Linear, log-loss by its sharp bound at every task's own minimum.
    pub(super) fn logistic() -> (Problem, Settings) {
        let logistic = Logistic {
            scheme: Scheme::OneShot,
            curvature: Curvature::Sharp,
            certify: false,
            ..Logistic::default()
        };
        let settings = Settings {
            memory: MemoryKind::Compact,
            ridge: Ridge::Auto,
            threads: 1,
            ..Settings::default()
        };
        (Problem::Logistic(logistic), settings)
    }

    /// Linear discriminants on a wide basis: constant memory, products in single precision, all threads.
    ///
    /// # Errors
    /// When the basis cannot be read.
    pub(super) fn wide(basis: &str) -> Result<(Problem, Settings), Error> {
        let settings = Settings {
            basis: basis.parse().map_err(pmfcl::Error::from)?,
            memory: MemoryKind::Compact,
            accumulator: Accumulator::Mixed,
            ..Settings::default()
        };
        // Accuracy is all that is looked at, and probabilities would be measured with rows of the wide design.
        Ok((Problem::gaussian().with_option("calibrate", "off")?, settings))
    }
}

impl Student for Exact {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn learn(&mut self, task: &Task) -> Result<(), Error> {
        let Targets::Classes { codes, .. } = &*task.y else {
            return Err(Error::Shape { what: "a stream of images has classes".to_owned() });
        };
        let width = task.x.width();
        let mut row = vec![0.0; width];
        // Single precision: pixels are bytes, and half the memory will do.
        let mut x = Vec::with_capacity(codes.len() * width);
        for i in 0..codes.len() {
            task.x.write(i, &mut row);
            x.extend(row.iter().map(|&v| (self.pixel)(v as f32)));
        }
        let labels = Labels::from_codes(codes, &self.classes)?;
        let rows = TaskRows::new(Rows::from_f32(&x, width)?, &labels);
        self.model.learn(&self.tasks.to_string(), rows, 1.0)?;
        if self.solves {
            self.model.solution()?;
        }
        self.tasks += 1;
        Ok(())
    }

    fn scores(&self, x: &[f64], rows: usize) -> Result<Vec<f64>, Error> {
        if self.tasks == 0 {
            return Ok(vec![0.0; rows * self.classes.len()]);
        }
        let x: Vec<f32> = x.iter().map(|&v| (self.pixel)(v as f32)).collect();
        Ok(self.model.scores(Rows::from_f32(&x, x.len() / rows.max(1))?)?)
    }

    /// The memory: numbers in double precision.
    fn kept(&self) -> Kept {
        let bytes = self.model.state_bytes();
        Kept { numbers: bytes.div_ceil(8), bytes, examples: 0 }
    }
}
