//! Log-loss of one task whose rows are in memory: the pieces of a fit, one by one.

use std::sync::Arc;

use super::curvature::Curvature;
use super::data::Data;
use super::evaluate::to_mat;
use super::expand::expand;
use super::least::{Least, Present, least_loss};
use super::newton::{AIM, Minimum, minimize};
use super::passes::{LogisticPass, Question, RunLogistic};
use super::task::{Objective, PenalizedTask};
use crate::basis::Design;
use crate::error::{Error, Result};
use crate::problem::pass::{Partial, Scratch};
use crate::rows::Rows;
use crate::summary::Summary;
use crate::theta::Theta;

/// The rows of one task with their classes, and what can be asked of their log-loss.
///
/// Learners do all of this by themselves; it is public for those who study the bounds.
#[derive(Debug)]
#[doc(hidden)] // for lab
pub struct OneTask<'a> {
    cells: Vec<f64>,
    codes: &'a [u32],
    weights: Option<&'a [f64]>,
    classes: Arc<[String]>,
    counts: Vec<f64>,
    m: usize,
    n: f64,
    intercept: bool,
    threads: usize,
    scratch: Scratch,
}

/// Runs passes over the rows of a task.
struct InOneBlock<'t, 'a>(&'t mut OneTask<'a>);

impl RunLogistic for InOneBlock<'_, '_> {
    fn run(&mut self, pass: &LogisticPass) -> Result<Partial> {
        let task = &mut *self.0;
        let place = |name: &String| pass.classes.iter().position(|c| c == name).unwrap_or(0);
        let class_of = task.classes.iter().map(|name| place(name) as u32).collect();
        let data = Data::new(
            &task.cells,
            task.m,
            (task.codes, class_of),
            task.weights,
            pass.classes.len(),
            (0, task.threads),
        );
        data.answer(pass, Some(&mut task.scratch))
    }
}

impl<'a> OneTask<'a> {
    /// Maps the rows through the design.
    ///
    /// # Errors
    /// On shapes that do not agree, codes beyond `classes`, weights that are not positive, values that are not finite.
    pub fn new(
        design: &Design,
        x: Rows<'a>,
        (codes, classes): (&'a [u32], usize),
        weights: Option<&'a [f64]>,
        threads: usize,
    ) -> Result<Self> {
        let names: Vec<String> = (0..classes).map(|k| k.to_string()).collect();
        if classes < 2 || u32::try_from(classes).is_err() {
            return Err(Error::Range {
                what: "the number of classes",
                value: classes as f64,
                must: "at least 2, and below 2^32",
            });
        }
        if x.is_empty() || design.width() == 0 {
            return Err(Error::Empty { what: "the task" });
        }
        let (settings, problem, outputs) = (
            crate::settings::Settings::default(),
            crate::problem::Problem::logistic(),
            crate::problem::Outputs::Values(0),
        );
        let context = crate::problem::TaskContext {
            problem: &problem,
            settings: &settings,
            design,
            outputs: &outputs,
        };
        let y = crate::rows::Targets::Classes { codes, names: &names };
        crate::problem::pass::check(&context, &crate::rows::TaskRows { x, y, weights })?;
        let mut cells = Vec::new();
        crate::problem::pass::map_rows(&context, &x, &mut cells)?;
        let mut counts = vec![0.0; classes];
        for (i, &code) in codes.iter().enumerate() {
            counts[code as usize] += weights.map_or(1.0, |w| w[i]);
        }
        Ok(Self {
            cells,
            codes,
            weights,
            classes: names.into(),
            n: weights.map_or(x.len() as f64, |w| w.iter().sum()),
            counts,
            m: design.width(),
            intercept: design.intercept(),
            threads,
            scratch: Scratch::default(),
        })
    }

    /// Mean loss at `theta`, and its gradient: `∇L = Σ_i w_i x_i (p_i − e_{y_i})ᵀ / Σ w`.
    ///
    /// Paper: eq. 13 (`eq:task-loss-multiclass`), gradient with the sign corrected. Cost: `4 n m p` flops.
    ///
    /// # Errors
    /// When `theta` has another shape, or numbers that are not finite.
    pub fn evaluate(&mut self, theta: &Theta) -> Result<(f64, Theta)> {
        let p = super::columns(self.classes.len());
        to_mat(theta, self.m, p)?;
        let (classes, n, m) = (self.classes.clone(), self.n, self.m);
        let question = Question::Evaluate(theta.clone());
        let pass = LogisticPass { classes, left_out: Arc::new([]), question };
        let sums = InOneBlock(self).run(&pass)?.sums;
        let gradient = sums[2..].iter().map(|g| g / n).collect();
        Ok((sums[0] / n, Theta::from_columns(m, p, gradient)?))
    }

    /// The minimizer of an objective, to the last digits.
    ///
    /// # Errors
    /// On shapes that do not agree, or numbers that overflow when squared.
    pub fn minimize(
        &mut self,
        objective: &Objective<'_>,
        start: Option<&Theta>,
    ) -> Result<Minimum> {
        self.minimize_to(objective, start, AIM)
    }

    /// [`OneTask::minimize`] to a relative gradient of `tolerance`.
    ///
    /// # Errors
    /// As [`OneTask::minimize`].
    pub fn minimize_to(
        &mut self,
        objective: &Objective<'_>,
        start: Option<&Theta>,
        tolerance: f64,
    ) -> Result<Minimum> {
        let (classes, m, n) = (self.classes.clone(), self.m, self.n);
        let mut rows = InOneBlock(self);
        let mut task = PenalizedTask::new(&mut rows, classes, m, objective)?;
        let found = minimize(&mut task, start, tolerance)?;
        Ok(Minimum { loss: found.loss / n, ..found })
    }

    /// The quadratic of the mean loss at an anchor; where `curvature` is guaranteed it is above the loss everywhere.
    ///
    /// # Errors
    /// When the anchor has another shape, or numbers overflow when squared.
    pub fn expand(&mut self, anchor: &Theta, curvature: Curvature) -> Result<Summary> {
        let (classes, m, n) = (self.classes.clone(), self.m, self.n);
        expand(&mut InOneBlock(self), classes, (m, n), anchor, curvature)
    }

    /// A certified lower bound of the least mean loss.
    ///
    /// # Errors
    /// As [`OneTask::minimize`].
    pub fn least_loss(&mut self, start: Option<&Theta>) -> Result<Least> {
        let (classes, counts) = (self.classes.clone(), self.counts.clone());
        let (m, n, intercept) = (self.m, self.n, self.intercept);
        let rows = Some(self.codes.len() as u64);
        let present = Present { classes: &classes, counts: &counts, rows, intercept };
        least_loss(&mut InOneBlock(self), &present, (m, n), start)
    }
}
