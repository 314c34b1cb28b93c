//! Predictions of the current solution.

use std::sync::Arc;

use super::gaps::apart;
use super::{Learner, check_width};
use crate::basis::Design;
use crate::error::{Error, Result, listing};
use crate::loss::Link;
use crate::problem::{ClassRule, Evaluation, Limits, Novelty, Outputs, Response, response_largest};
use crate::rows::{Rows, Targets, TaskRows};
use crate::theta::Theta;

/// Rows scored at a time: a block of design rows stays in cache.
const BLOCK: usize = 512;

/// Design rows of fewer numbers are scored before a thread has started.
const WORTH_THREADS: usize = 1 << 18;

/// Parameters with what their columns stand for, as people and other programs want them: classes in sorted order.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for baselines, cli, export, lab, python, report, secagg
pub struct Parameters {
    /// The parameters.
    pub theta: Theta,
    /// The classes of a classifier in sorted order, empty for values. Where the response says that the first is zero, it has
    /// no column.
    pub classes: Vec<String>,
    /// How they answer.
    pub response: Response,
}

impl Learner {
    /// Predicted values, one row of targets for each row of inputs, end to end.
    ///
    /// # Errors
    /// When nothing has been learned, the inputs have other columns or values that are not finite, or classes are predicted.
    pub fn predict(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        if self.problem.predicts_classes() {
            return Err(self.predicts_other("values"));
        }
        let (theta, response) = (&self.solved()?.solution.theta, self.response()?);
        self.each_block(x, |rows, out| response.values(theta, rows, out))
    }

    /// Scores of every row, [`Learner::classes`] end to end: fitted indicators for `squared`, discriminants for `gaussian`,
    /// log-odds against the first class (two classes) or centred log-odds for `logistic`. A class without rows has none: `−∞`.
    ///
    /// # Errors
    /// As [`Learner::predict`], when values are predicted.
    pub fn scores(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        let Outputs::Classes(classes) = &self.outputs else {
            return Err(self.predicts_other("classes"));
        };
        let solved = self.solved()?;
        let measured = self.problem.method().scores_are_measured();
        let response = if measured { self.response()? } else { &solved.response };
        self.each_block(x, |rows, out| {
            response.scores(&solved.solution.theta, classes, rows, out);
        })
    }

    /// The class of every row, as a position in [`Learner::classes`].
    ///
    /// # Errors
    /// As [`Learner::scores`].
    pub fn predict_codes(&self, x: Rows<'_>) -> Result<Vec<u32>> {
        let scores = self.scores(x)?;
        Ok(scores.chunks_exact(self.classes().len()).map(response_largest).collect())
    }

    /// The class of every row, by name.
    ///
    /// # Errors
    /// As [`Learner::scores`].
    pub fn predict_classes(&self, x: Rows<'_>) -> Result<Vec<String>> {
        let codes = self.predict_codes(x)?;
        Ok(codes.iter().map(|&code| self.classes()[code as usize].clone()).collect())
    }

    /// Probabilities of every row, [`Learner::classes`] end to end; each row sums to 1.
    ///
    /// # Errors
    /// As [`Learner::scores`].
    pub fn probabilities(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        let Outputs::Classes(classes) = &self.outputs else {
            return Err(self.predicts_other("classes"));
        };
        let (theta, response) = (&self.solved()?.solution.theta, self.response()?);
        self.each_block(x, |rows, out| response.probabilities(theta, classes, rows, out))
    }

    /// How novel every row looks, between 0 and 1: the share of learned rows that were nearer to the mean of a class, each measured
    /// without itself. So a threshold has a meaning: of rows like those learned, one in a hundred is above 0.99. For `gaussian`.
    ///
    /// # Errors
    /// As [`Learner::scores`], and for other losses.
    pub fn novelty(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        let novelty = self.novelty_rule()?.ok_or_else(|| Error::Unsupported {
            operation: "the novelty of rows",
            reason: format!("{} does not say how far rows are; use gaussian", self.problem),
        })?;
        let Outputs::Classes(classes) = &self.outputs else {
            return Err(self.predicts_other("classes"));
        };
        let solved = self.solved()?;
        let theta = &solved.solution.theta;
        self.each_block(x, |rows, out| {
            let mut scores = Vec::new();
            solved.response.scores(theta, classes, rows, &mut scores);
            out.extend(novelty.of(rows, theta.width(), &scores, classes.places()));
        })
    }

    fn novelty_rule(&self) -> Result<Option<&Novelty>> {
        let solved = self.solved()?;
        if let Some(known) = solved.novelty.get() {
            return Ok(known.as_ref());
        }
        let made = self.problem.method().novelty(&self.assess_input()?, &self.tables())?;
        Ok(solved.novelty.get_or_init(|| made).as_ref())
    }

    /// How parameters answer: by a link, or by a rule for classes.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn response(&self) -> Result<&Response> {
        let solved = self.solved()?;
        if let Some(known) = solved.calibrated.get() {
            return Ok(known);
        }
        let made = match &solved.response {
            // The choice of a portfolio is not asked for: a solution from a file has none with it.
            Response::Values { link, .. } => match self.limits(*link)? {
                limits if limits.is_empty() => return Ok(&solved.response),
                limits => Response::Values { link: *link, limits },
            },
            Response::Classes { .. } => {
                self.problem.method().calibrated(&self.assess_input()?, &self.tables())?
            }
        };
        Ok(solved.calibrated.get_or_init(|| made))
    }

    /// What limits predicted values: those of a portfolio. A line goes on beyond the targets learned, as a trend has to; features
    /// know of no rows there.
    fn limits(&self, link: Link) -> Result<Vec<Limits>> {
        let design = self.design.as_ref().ok_or(Error::NotLearned)?;
        if link != Link::Identity || !design.map().basis().is_portfolio() {
            return Ok(Vec::new());
        }
        let pool = self.pool()?;
        let line = self.filling_design()?.is_line(&self.solved()?.solution.theta);
        let near = pool.tails.as_ref().filter(|_| !line).and_then(Limits::near);
        Ok(near.unwrap_or_else(|| Limits::of(&pool.quadratic, design.intercept())))
    }

    /// Parameters with what their columns stand for, classes in sorted order. Where gaps are filled with means, the indicator of
    /// a gap has what the mean adds: the parameters answer rows with gaps filled and rows with gaps apart.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn parameters(&self) -> Result<Parameters> {
        let solved = self.solved()?;
        let theta = &apart(self.filling_design()?, &solved.solution.theta);
        let mut response = self.response()?.clone();
        let Outputs::Classes(classes) = &self.outputs else {
            return Ok(Parameters { theta: theta.clone(), classes: Vec::new(), response });
        };
        let names = classes.names().to_vec();
        let Response::Classes { present, first_is_zero: false, rule } = &mut response else {
            return Ok(Parameters { theta: theta.clone(), classes: names, response });
        };
        let mut sorted = Theta::zeros(theta.width(), theta.targets());
        let known = std::mem::take(present);
        for (to, &from) in classes.places().iter().enumerate() {
            sorted.column_mut(to).copy_from_slice(theta.column(from as usize));
        }
        if !known.is_empty() {
            *present = classes.places().iter().map(|&from| known[from as usize]).collect();
        }
        if let ClassRule::RowTemperature(of_rows) = rule {
            let mut moved = (**of_rows).clone();
            moved.present.clone_from(present);
            if let Some(nearest) = &mut moved.nearest {
                nearest.reordered(classes.places());
            }
            *of_rows = Arc::new(moved);
        }
        if let ClassRule::ClassCovariance(densities) = rule {
            let mut moved = (**densities).clone();
            let own = |&from: &u32| densities.classes[from as usize].clone();
            moved.classes = classes.places().iter().map(own).collect();
            *densities = Arc::new(moved);
        }
        Ok(Parameters { theta: sorted, classes: names, response })
    }

    /// How well the model does on rows: mean squared error and R², or accuracy, log-loss and calibration.
    ///
    /// # Errors
    /// As [`Learner::predict`], and when there are no rows or not one target for each.
    pub fn evaluate(&self, rows: TaskRows<'_>) -> Result<Evaluation> {
        let mut groups = self.evaluate_groups(rows, |_| 0, 1)?;
        groups.pop().ok_or(Error::Empty { what: "the table to evaluate on" })
    }

    /// The same for groups of rows: `group(i)` is that of row `i`, of `count` in all.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    pub fn evaluate_groups(
        &self,
        rows: TaskRows<'_>,
        group: impl Fn(usize) -> usize,
        count: usize,
    ) -> Result<Vec<Evaluation>> {
        rows.check()?;
        if rows.is_empty() {
            return Err(Error::Empty { what: "the table to evaluate on" });
        }
        match rows.y {
            Targets::Values(values) => {
                let predicted = self.predict(rows.x)?;
                let targets = predicted.len() / rows.len();
                if values.width() != targets {
                    return Err(super::shape(
                        "the target table",
                        "columns",
                        targets,
                        values.width(),
                    ));
                }
                let mut groups = vec![Evaluation::new(targets); count];
                for (i, row) in predicted.chunks_exact(targets).enumerate() {
                    groups[group(i)].add_values(row, |k| values.get(i, k));
                }
                Ok(groups)
            }
            Targets::Classes { codes, names } => {
                let probabilities = self.probabilities(rows.x)?;
                let known = self.classes();
                let place = |name: &String| known.iter().position(|class| class == name);
                let places: Vec<Option<usize>> = names.iter().map(place).collect();
                let mut groups = vec![Evaluation::new(0); count];
                for (i, row) in probabilities.chunks_exact(known.len()).enumerate() {
                    groups[group(i)].add_classes(row, places[codes[i] as usize], 1.0);
                }
                if self.novelty_rule()?.is_some() {
                    for (i, novelty) in self.novelty(rows.x)?.into_iter().enumerate() {
                        groups[group(i)].add_novelty(novelty, places[codes[i] as usize].is_some());
                    }
                }
                Ok(groups)
            }
        }
    }

    /// The inputs as rows of the design: basis and intercept applied.
    ///
    /// # Errors
    /// When nothing has been learned, or the inputs have other columns or values the basis refuses.
    pub fn design_rows(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        self.each_block(x, |rows, out| out.extend_from_slice(rows))
    }

    /// What `answer` appends for the design rows of every block of `x`, end to end. Large tables are shared between threads, and a
    /// block's answer does not depend on which thread gives it.
    fn each_block(
        &self,
        x: Rows<'_>,
        answer: impl Fn(&[f64], &mut Vec<f64>) + Sync,
    ) -> Result<Vec<f64>> {
        let design = self.filling_design()?;
        check_width(design, &x)?;
        let unused = self.without_unused();
        let design = unused.as_ref().unwrap_or(design);
        if let Some((row, column, value)) = x.first_not_finite() {
            return Err(Error::NotFinite { what: "feature", row: row as u64, column, value });
        }
        let m = design.width();
        let one = |from: usize, rows: &mut Vec<f64>, out: &mut Vec<f64>| -> Result<()> {
            let to = (from + BLOCK).min(x.len());
            rows.resize((to - from) * m, 0.0);
            design
                .write(&x, from, rows, m, None)
                .map_err(|e| Error::from(e).shifted(from as u64))?;
            answer(rows, out);
            Ok(())
        };
        let blocks: Vec<usize> = (0..x.len()).step_by(BLOCK).collect();
        let threads = self.settings.threads.min(blocks.len());
        if threads < 2 || x.len() * m < WORTH_THREADS {
            let (mut rows, mut out) = (Vec::new(), Vec::new());
            blocks.into_iter().try_for_each(|from| one(from, &mut rows, &mut out))?;
            return Ok(out);
        }
        // Every thread has a run of neighbouring blocks.
        let runs = blocks.chunks(blocks.len().div_ceil(threads));
        let run = &|blocks: &[usize]| -> Result<Vec<f64>> {
            let (mut rows, mut out) = (Vec::new(), Vec::new());
            blocks.iter().try_for_each(|&from| one(from, &mut rows, &mut out))?;
            Ok(out)
        };
        let parts: Vec<Result<Vec<f64>>> = std::thread::scope(|scope| {
            let workers: Vec<_> = runs.map(|blocks| scope.spawn(move || run(blocks))).collect();
            workers.into_iter().map(|w| w.join().expect("a block panicked")).collect()
        });
        let mut out = Vec::new();
        for part in parts {
            out.extend(part?);
        }
        Ok(out)
    }

    /// The design without the columns of a portfolio that the solution does not use: 0, and not computed. A solution that
    /// came from a file has no choice with it, but its coefficients tell.
    fn without_unused(&self) -> Option<Design> {
        let design = self.design.as_ref().filter(|design| design.map().basis().is_portfolio())?;
        match (self.chosen.get(), self.solved.get()) {
            (Some(chosen), _) => chosen.as_ref().map(|chosen| chosen.design.clone()),
            (None, Some(solved)) => design.without_unused(&solved.solution.theta),
            (None, None) => None,
        }
    }

    /// The design and the parameters that predict, for who computes predictions elsewhere: of a portfolio the columns of the
    /// chosen candidate alone.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn deployed(&self) -> Result<(Design, Parameters)> {
        let design = self.design.as_ref().ok_or(Error::NotLearned)?;
        let mut parameters = self.parameters()?;
        let Some(chosen) = self.chosen()? else { return Ok((design.clone(), parameters)) };
        let columns = design.columns_of(&chosen.candidate);
        let whole = parameters.theta;
        let mut theta = Theta::zeros(columns.len(), whole.targets());
        for k in 0..whole.targets() {
            let from = whole.column(k);
            theta.column_mut(k).iter_mut().zip(&columns).for_each(|(to, &j)| *to = from[j]);
        }
        parameters.theta = theta;
        parameters.response.choose_columns(&columns);
        Ok((design.restricted(&chosen.candidate)?, parameters))
    }

    fn predicts_other(&self, wanted: &str) -> Error {
        let (reason, operation) = if self.problem.predicts_classes() {
            let known = listing(self.classes().iter().map(String::as_str));
            (format!("this model predicts classes ({known}), not {wanted}"), "predicting values")
        } else {
            (format!("this model predicts values, not {wanted}"), "predicting classes")
        };
        Error::Unsupported { operation, reason }
    }
}
