//! PMF-CL on thousands of random features, in single precision where that is enough.
//!
//! ```text
//! images ──map──▶ features (f32) ──products of a block (f32)──▶ sums (f64) ──▶ Summary ──▶ Learner
//! ```
//!
//! A width of 10,000 makes 10⁸ products a row, and nearly all of the time is theirs. A block's products are formed in single
//! precision and added up in double, so the rounding of a sum does not grow with the number of rows. The sums of all tasks end
//! in one [`pmfcl::Summary`], which the library's own learner solves: what `--accumulator gram` does, but faster.
//!
//! Maps are drawn from a seed and never see data: [`Relu`] looks at whole images, [`Patches`] at small windows of them.

mod map;
mod patches;
mod relu;
mod sums;

use std::sync::{Arc, OnceLock};

use pmfcl::problem::Response;
use pmfcl::{Basis, Design, Learner, MemoryKind, Problem, Ridge, Settings, TaskSummary};
use pmfcl_baselines::{Kept, Targets, Task};

use crate::images::{Error, Student};

pub use map::FeatureMap;
pub use patches::{Patches, Window};
pub use relu::Relu;

use sums::Sums;

/// Rows that are mapped and multiplied at once.
const BLOCK: usize = 1024;
/// Cross-validation of the ridge would cost more than the sums; at this many rows it hardly matters. `gaussian` has none: it
/// shrinks its covariance.
const RIDGE: Ridge = Ridge::Fixed(1e-5);
/// Intercept of a class without rows: below every score, and finite in single precision.
const NO_ROWS: f32 = -1e30;

/// A classifier on a wide random map.
pub struct Wide {
    map: Arc<dyn FeatureMap>,
    problem: Problem,
    classes: usize,
    threads: usize,
    sums: Sums,
    learned: bool,
    /// Weights of the features (one row a feature, the intercept first); solved when first asked for.
    solved: OnceLock<Vec<f32>>,
}

impl Wide {
    /// A classifier of `classes` classes that has learned nothing.
    pub fn new(map: Arc<dyn FeatureMap>, problem: Problem, classes: usize, threads: usize) -> Self {
        let sums = Sums::new(map.width() + 1, classes);
        Self { map, problem, classes, threads, sums, learned: false, solved: OnceLock::new() }
    }

    /// The summary of everything learned.
    ///
    /// # Errors
    /// As [`pmfcl::Summary::from_products`].
    pub fn summary(&self) -> pmfcl::Result<pmfcl::Summary> {
        pmfcl::Summary::from_products(&self.sums.products(sums::FLOOR))
    }

    /// Weights of the features from the summary.
    fn solve(&self, summary: pmfcl::Summary) -> Result<Vec<f32>, Error> {
        let design = Design::new(
            Basis::default().fix(&[], self.map.width()).map_err(pmfcl::Error::from)?,
            true,
        );
        let names: Vec<String> = (0..self.classes).map(|k| k.to_string()).collect();
        let settings = Settings {
            memory: MemoryKind::Compact,
            ridge: RIDGE,
            standardize: true,
            ..Settings::default()
        };
        let mut model = Learner::new(self.problem.clone().with_classes(names.clone())?, settings)?;
        model.insert("all", &design, TaskSummary::exact_classes(summary, names, None), 1.0)?;
        let parameters = model.parameters()?;
        let features = self.map.width() + 1;
        let mut weights = vec![0.0; features * self.classes];
        for k in 0..self.classes {
            for (i, v) in parameters.theta.column(k).iter().enumerate() {
                weights[i * self.classes + k] = v.clamp(-1e30, 1e30) as f32;
            }
        }
        if let Response::Classes { present, .. } = &parameters.response {
            for (intercept, there) in weights.iter_mut().zip(present) {
                if !there {
                    *intercept = NO_ROWS;
                }
            }
        }
        Ok(weights)
    }
}

impl Student for Wide {
    fn name(&self) -> String {
        format!("PMF-CL {}, {}", self.map.name(), self.problem.name())
    }

    fn learn(&mut self, task: &Task) -> Result<(), Error> {
        let Targets::Classes { codes, .. } = &*task.y else {
            return Err(Error::Shape { what: "a classifier needs classes".to_owned() });
        };
        let width = task.x.width();
        let mut row = vec![0.0; width];
        let mut x = Vec::with_capacity(BLOCK * width);
        for from in (0..task.x.rows()).step_by(BLOCK) {
            let to = task.x.rows().min(from + BLOCK);
            x.clear();
            for i in from..to {
                task.x.write(i, &mut row);
                x.extend(row.iter().map(|v| *v as f32));
            }
            let features = map::with_intercept(&*self.map, &x, to - from, self.threads);
            self.sums.add(&features, &codes[from..to], self.threads);
        }
        self.learned = true;
        self.solved = OnceLock::new();
        Ok(())
    }

    fn scores(&self, x: &[f64], rows: usize) -> Result<Vec<f64>, Error> {
        if !self.learned {
            return Ok(vec![0.0; rows * self.classes]);
        }
        let weights = match self.solved.get() {
            Some(weights) => weights,
            None => {
                let weights = self.solve(self.summary()?)?;
                self.solved.get_or_init(|| weights)
            }
        };
        let x: Vec<f32> = x.iter().map(|v| *v as f32).collect();
        let width = self.map.inputs();
        let mut out = Vec::with_capacity(rows * self.classes);
        for part in x.chunks(BLOCK * width) {
            let count = part.len() / width;
            let features = map::with_intercept(&*self.map, part, count, self.threads);
            let mut scores = vec![0.0; count * self.classes];
            map::product(&features, weights, count, &mut scores);
            out.extend(scores.iter().map(|v| f64::from(*v)));
        }
        Ok(out)
    }

    fn kept(&self) -> Kept {
        let (m, k) = (self.map.width() + 1, self.classes);
        let numbers = m * (m + 1) / 2 + m * k + 2 * k + 1;
        Kept { numbers, bytes: 8 * numbers, examples: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmfcl::problem::Squared;
    use pmfcl::{ClassList, Labels, Rows, TaskRows};
    use pmfcl_baselines::Matrix;
    use pmfcl_oracle::Draw;

    fn tasks() -> Vec<(Vec<f64>, Vec<u32>)> {
        let mut draw = Draw::new(4);
        (0..3)
            .map(|t| {
                let codes: Vec<u32> = (0..1500).map(|_| draw.below(3) as u32).collect();
                let row = |k: u32, draw: &mut Draw| -> Vec<f64> {
                    (0..6).map(|j| draw.normal() + f64::from(k) * f64::from(j + t) * 0.2).collect()
                };
                (codes.iter().flat_map(|k| row(*k, &mut draw)).collect(), codes)
            })
            .collect()
    }

    fn learned(problem: Problem, threads: usize) -> Wide {
        let mut wide = Wide::new(Arc::new(Relu::new(6, 40, 7)), problem, 3, threads);
        for (x, codes) in tasks() {
            let y = Targets::Classes { codes, count: 3 };
            let task = Task { x: Arc::new(Matrix::new(x, 6)), y: Arc::new(y) };
            wide.learn(&task).expect("classes");
        }
        wide
    }

    #[test]
    fn agrees_with_the_classifier_on_the_same_features() {
        let squared = Problem::Squared(Squared { classes: Some(ClassList::Open) });
        for problem in [Problem::gaussian(), squared] {
            let wide = learned(problem.clone(), 2);
            let settings = Settings { ridge: RIDGE, standardize: true, ..Settings::default() };
            let mut model = Learner::new(problem.clone(), settings).expect("settings");
            let map = Relu::new(6, 40, 7);
            for (t, (x, codes)) in tasks().into_iter().enumerate() {
                let x: Vec<f32> = x.iter().map(|v| *v as f32).collect();
                let mut features = vec![0.0; codes.len() * 40];
                map.write(&x, codes.len(), &mut features);
                let rows = Rows::from_f32(&features, 40).expect("rows");
                let labels = Labels::new(&codes);
                let rows = TaskRows::new(rows, &labels);
                model.learn(&t.to_string(), rows, 1.0).expect("finite");
            }
            let theta = model.parameters().expect("learned").theta;
            // Without the floor, which the other does not have.
            let exact = pmfcl::Summary::from_products(&wide.sums.products(0.0)).expect("sums");
            let weights = wide.solve(exact).expect("solved");
            let largest = weights.iter().fold(0.0_f32, |a, v| a.max(v.abs()));
            for k in 0..3 {
                for (i, v) in theta.column(k).iter().enumerate() {
                    let other = f64::from(weights[i * 3 + k]);
                    assert!((v - other).abs() < 2e-4 * f64::from(largest), "{problem} {v} {other}");
                }
            }
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let (one, three) = (learned(Problem::gaussian(), 1), learned(Problem::gaussian(), 3));
        assert_eq!(one.sums.products(0.0), three.sums.products(0.0));
    }
}
