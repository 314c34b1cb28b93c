//! How probabilities are measured: samples of rows wait for the next solution, are scored under it, each left out of the model, and
//! are discarded; the tables stay on the records of their tasks.

use std::sync::Arc;

use super::{Learner, check_width};
use crate::error::{Error, Result};
use crate::problem::{CalibrationTable, RowSample, Scored};
use crate::rows::TaskRows;

/// Most bytes of samples that wait for the next solution, 64 MiB; beyond, they are measured at once.
const MOST_SAMPLES: usize = 1 << 26;

impl Learner {
    /// The calibration tables of the tasks that have one.
    pub(super) fn tables(&self) -> Vec<&CalibrationTable> {
        (0..self.records.len()).filter_map(|at| self.calibration(at)).collect()
    }

    /// The calibration table of a task, by position: of the last solution that measured it.
    pub fn calibration(&self, at: usize) -> Option<&CalibrationTable> {
        let measured = self.solved.get().map_or(&[][..], |solved| &solved.tables[..]);
        let fresh = measured.iter().find(|(task, _)| *task == at).map(|(_, table)| table);
        fresh.or_else(|| self.records.get(at)?.head.calibration.as_ref())
    }

    /// The samples that wait to be measured, with what a unit of weight of each task counts in the pool.
    pub(super) fn waiting(&self) -> Result<Vec<(usize, Scored<'_>)>> {
        if self.samples.is_empty() {
            return Ok(Vec::new());
        }
        let shares = self.shares()?;
        let scored = self.samples.iter().map(|(&task, sample)| {
            let head = &self.records[task].head;
            // The sample stands for the rows that have not been measured before.
            let measured = head.calibration.as_ref().map_or(0.0, CalibrationTable::measured);
            let samples = (head.samples - measured).max(0.0);
            (task, Scored { sample, samples, factor: shares[task] / head.samples })
        });
        Ok(scored.collect())
    }

    /// Measures probabilities with the samples that wait, and discards them: what a file or a message holds of a task includes
    /// what was measured with its rows, and never the rows.
    ///
    /// # Errors
    /// As [`Learner::solution`]; the samples are discarded all the same.
    pub fn measure(&mut self) -> Result<()> {
        let solved = if self.samples.is_empty() { Ok(()) } else { self.solved().map(|_| ()) };
        self.keep_tables();
        self.samples.clear();
        solved
    }

    /// Measures probabilities at the present model with these rows; see [`Learner::calibrate_with`].
    ///
    /// # Errors
    /// As [`Learner::row_sample`] and [`Learner::calibrate_with`].
    pub fn calibrate(&mut self, rows: TaskRows<'_>, learned: bool) -> Result<()> {
        self.calibrate_with(&self.row_sample(rows)?, learned)
    }

    /// A sample of rows to calibrate with; those of parts of a table merge, in any order.
    ///
    /// # Errors
    /// When nothing has been learned, or rows have other columns or values that are not finite.
    pub fn row_sample(&self, rows: TaskRows<'_>) -> Result<RowSample> {
        let design = self.design.as_ref().ok_or(Error::NotLearned)?;
        check_width(design, &rows.x)?;
        rows.check()?;
        if let Some((row, column, value)) = rows.x.first_not_finite() {
            return Err(Error::NotFinite { what: "feature", row: row as u64, column, value });
        }
        let mut sample = RowSample::new(rows.x.width(), Vec::new());
        sample.add(&rows);
        Ok(sample)
    }

    /// Measures probabilities at the present model with a sample of rows, in the place of what was measured while tasks were
    /// learned: the result does not depend on their order. Switches calibration on where it was off.
    ///
    /// `learned` says that the rows are among those learned, so that each is left out of the model before it is scored. Every
    /// task gets its share of the table, by samples, so that removal and merging go on as before.
    ///
    /// # Errors
    /// When nothing has been learned, the problem measures no probabilities, or no row is of a class that has been learned. The
    /// learner is then unchanged.
    pub fn calibrate_with(&mut self, sample: &RowSample, learned: bool) -> Result<()> {
        let pool = self.pool()?;
        let factor = if learned { pool.quadratic.n() / pool.samples } else { 0.0 };
        let rows = Scored { sample, samples: pool.samples, factor };
        let table = self.problem.method().measure(&self.assess_input()?, &rows)?;
        if table.losses.iter().all(|loss| *loss <= 0.0) {
            return Err(Error::Unsupported {
                operation: "measuring probabilities",
                reason: "two classes must have been learned, and rows must be of classes that were learned from other rows"
                    .to_owned(),
            });
        }
        let problem = self.problem.with_option("calibrate", "on")?;
        self.settle();
        self.problem = problem;
        self.samples.clear();
        let all: f64 = self.records.iter().map(|record| record.head.samples).sum();
        for record in &mut self.records {
            record.head.calibration = Some(table.share(record.head.samples / all));
        }
        self.calibrations += 1;
        self.generation += 1;
        Ok(())
    }

    /// Puts a table that was measured elsewhere at this model on the record of a task.
    ///
    /// # Errors
    /// When there is no such task.
    pub fn set_calibration(&mut self, task: &str, table: CalibrationTable) -> Result<()> {
        let at = self.position(task)?;
        self.settle();
        self.samples.remove(&at);
        self.records[at].head.calibration = Some(table);
        self.calibrations += 1;
        self.generation += 1;
        Ok(())
    }

    /// How often tables of tasks on record were replaced, for who keeps a copy of them.
    pub fn calibrations(&self) -> u64 {
        self.calibrations
    }

    /// Puts the tables of the current solution on record, and discards the samples they were measured with.
    pub(super) fn keep_tables(&mut self) {
        let Some(solved) = self.solved.get() else { return };
        for (task, table) in &solved.tables {
            self.samples.remove(task);
            self.records[*task].head.calibration = Some(table.clone());
        }
    }

    /// Lets a sample of a task wait for the next solution; where too many wait, they are measured at once.
    pub(super) fn hold_sample(&mut self, at: usize, sample: Option<RowSample>) {
        let Some(sample) = sample else { return };
        self.samples.insert(at, Arc::new(sample));
        if self.samples.values().map(|sample| sample.nbytes()).sum::<usize>() > MOST_SAMPLES {
            // Where the solution fails, whoever asks for it is told.
            let _ = self.measure();
        }
    }
}
