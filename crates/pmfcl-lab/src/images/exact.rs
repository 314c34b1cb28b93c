//! PMF-CL among the others: the library's classifiers on pixels, one pass, no example kept.

use pmfcl::classify::Scheme;
use pmfcl::loss::logistic::Curvature;
use pmfcl::{
    Accumulator, ClassLoss, Classifier, ClassifierSettings, Labels, MemoryKind, Ridge, Rows,
};
use pmfcl_baselines::{Kept, Targets, Task};

use super::{Error, Student};

/// A classifier as one who follows a stream.
#[derive(Debug, Clone)]
pub struct Exact {
    name: String,
    classes: Vec<String>,
    model: Classifier,
    tasks: usize,
}

impl Exact {
    /// A classifier of these settings; classes are the numbers from 0.
    ///
    /// # Errors
    /// When the settings are refused.
    pub fn new(name: &str, outputs: usize, settings: ClassifierSettings) -> Result<Self, Error> {
        let classes: Vec<String> = (0..outputs).map(|c| c.to_string()).collect();
        let settings =
            ClassifierSettings { classes: Some(classes.clone()), threads: 1, ..settings };
        Ok(Self { name: name.to_owned(), classes, model: Classifier::new(settings)?, tasks: 0 })
    }

    /// Linear, squared loss, a small fixed ridge, constant memory.
    pub(super) fn squared() -> ClassifierSettings {
        ClassifierSettings {
            loss: ClassLoss::Squared,
            ridge: Ridge::Fixed(1e-4),
            memory: MemoryKind::Compact,
            accumulator: Accumulator::Gram,
            ..ClassifierSettings::default()
        }
    }

    /// Linear discriminants from the same memory.
    pub(super) fn gaussian() -> ClassifierSettings {
        ClassifierSettings { loss: ClassLoss::Gaussian, ..Self::squared() }
    }

    /// Linear, log-loss by its sharp bound at every task's own minimum.
    pub(super) fn logistic() -> ClassifierSettings {
        ClassifierSettings {
            loss: ClassLoss::Logistic,
            scheme: Scheme::OneShot,
            curvature: Curvature::Sharp,
            certify: false,
            memory: MemoryKind::Compact,
            ridge: Ridge::Auto,
            ..ClassifierSettings::default()
        }
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
            x.extend(row.iter().map(|&v| v as f32));
        }
        let labels = Labels::from_codes(codes, &self.classes)?;
        self.model.learn(&self.tasks.to_string(), Rows::from_f32(&x, width)?, &labels)?;
        self.tasks += 1;
        Ok(())
    }

    fn scores(&self, x: &[f64], rows: usize) -> Result<Vec<f64>, Error> {
        if self.tasks == 0 {
            return Ok(vec![0.0; rows * self.classes.len()]);
        }
        Ok(self.model.decision(Rows::new(x, x.len() / rows.max(1))?)?)
    }

    /// The memory: numbers in double precision.
    fn kept(&self) -> Kept {
        let bytes = self.model.state_bytes();
        Kept { numbers: bytes.div_ceil(8), bytes, examples: 0 }
    }
}
