//! How probabilities are measured: samples of rows wait for the next solution and are scored under it, each left out of the model;
//! the tables stay on the records of their tasks. A solution with more classes scores all samples again that are still in memory,
//! and corrects the tables of other tasks.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Learner, check_width};
use crate::error::{Error, Result};
use crate::labels::Classes;
use crate::problem::{CalibrationTable, KnownTable, Pool, RowSample, Scored, TaskShape, Waiting};
use crate::rows::TaskRows;

/// Most bytes of samples in memory, 64 MiB.
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

    /// The tables of tasks that `waiting` does not measure as a whole, with what follows of their rows where classes were added.
    pub(super) fn known_tables<'a>(
        &'a self,
        pool: &'a Pool,
        waiting: &[Waiting<'_>],
    ) -> Result<Vec<KnownTable<'a>>> {
        let classes = self.classes_with_rows();
        let mut known = Vec::new();
        for (task, record) in self.records.iter().enumerate() {
            let Some(table) = &record.head.calibration else { continue };
            if waiting.iter().any(|waiting| waiting.task == task) {
                continue;
            }
            let shape = if precedes(table, classes) { self.task_shape(task, pool)? } else { None };
            known.push(KnownTable { task, table, shape });
        }
        Ok(known)
    }

    /// The samples that wait to be measured: those of rows learned since the last solution, and all where classes were added since.
    pub(super) fn waiting<'a>(&'a self, pool: &'a Pool) -> Result<Vec<Waiting<'a>>> {
        if self.samples.is_empty() {
            return Ok(Vec::new());
        }
        let (shares, classes) = (self.shares()?, self.classes_with_rows());
        let mut waiting = Vec::new();
        for (&task, held) in &self.samples {
            let head = &self.records[task].head;
            let again = head.calibration.is_none() || held.classes < classes;
            let (sample, before) = match (&held.whole, &held.fresh) {
                (Some(whole), _) if again => (whole, None),
                (_, Some(fresh)) => (fresh, head.calibration.as_ref()),
                (_, None) => continue,
            };
            // The sample stands for the rows that have not been measured before.
            let measured = before.map_or(0.0, CalibrationTable::measured);
            let samples = (head.samples - measured).max(0.0);
            let rows = Scored { sample, samples, factor: shares[task] / head.samples };
            waiting.push(Waiting { task, rows, before, shape: self.task_shape(task, pool)? });
        }
        Ok(waiting)
    }

    /// Class means and scatter of the rows of a task; of compact memory that has merged it, those of all rows. `None` while its
    /// summary is in a file.
    fn task_shape<'a>(&'a self, at: usize, pool: &'a Pool) -> Result<Option<TaskShape<'a>>> {
        let head = &self.records[at].head;
        let (summary, samples) = match self.task_summary_at(at) {
            Some(task) => {
                let (m, p) = self.shape()?;
                (self.filled(task.widened(m, p)?)?, head.samples)
            }
            None if self.is_folded() => (Cow::Borrowed(&pool.quadratic), pool.samples),
            None => return Ok(None),
        };
        Ok(Some(TaskShape { summary, counts: &head.counts, samples }))
    }

    /// How many classes have rows.
    fn classes_with_rows(&self) -> usize {
        let has_rows = |k: &usize| {
            self.records.iter().any(|record| record.head.counts.get(*k).is_some_and(|n| *n > 0.0))
        };
        (0..self.outputs.classes().map_or(0, Classes::len)).filter(has_rows).count()
    }

    /// Whether a table was measured before classes were added, and its correction needs the summary of a task that is still in a
    /// file ([`Learner::load_summaries`]): without it the next solution takes the table as it is.
    pub fn tables_need_summaries(&self) -> bool {
        if self.unloaded() == 0 {
            return false;
        }
        let classes = self.classes_with_rows();
        let mut records = self.records.iter().enumerate();
        records.any(|(at, record)| {
            let earlier = record.head.calibration.as_ref().is_some_and(|t| precedes(t, classes));
            earlier && self.task_summary_at(at).is_none()
        })
    }

    /// Measures probabilities with the samples that wait: what a file or a message holds of a task includes what was measured with
    /// its rows, and never the rows.
    ///
    /// # Errors
    /// As [`Learner::solution`].
    pub fn measure(&mut self) -> Result<()> {
        let waits = self.samples.values().any(|held| held.fresh.is_some());
        let solved = if waits { self.solved().map(|_| ()) } else { Ok(()) };
        self.keep_tables();
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
        let classes = self.classes_with_rows();
        self.samples.values_mut().for_each(|held| held.measured_among(classes));
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
        let classes = self.classes_with_rows();
        if let Some(held) = self.samples.get_mut(&at) {
            held.measured_among(classes);
        }
        self.records[at].head.calibration = Some(table);
        self.calibrations += 1;
        self.generation += 1;
        Ok(())
    }

    /// How often tables of tasks on record were replaced, for who keeps a copy of them.
    pub fn calibrations(&self) -> u64 {
        self.calibrations + self.replaced()
    }

    /// Tables of the current solution that take the place of others.
    fn replaced(&self) -> u64 {
        let measured = self.solved.get().map_or(&[][..], |solved| &solved.tables[..]);
        let known = |task: usize| self.records[task].head.calibration.is_some();
        measured.iter().filter(|(task, _)| known(*task)).count() as u64
    }

    /// Puts the tables of the current solution on record.
    pub(super) fn keep_tables(&mut self) {
        let (replaced, classes) = (self.replaced(), self.classes_with_rows());
        let Some(solved) = self.solved.get_mut() else { return };
        for (task, table) in std::mem::take(&mut solved.tables) {
            if let Some(held) = self.samples.get_mut(&task) {
                held.measured_among(classes);
            }
            self.records[task].head.calibration = Some(table);
        }
        self.calibrations += replaced;
    }

    /// The sample of a task as it is once the current solution, where there is one, has measured it.
    pub(super) fn held_sample(&self, at: usize) -> Option<HeldSample> {
        let mut held = self.samples.get(&at)?.clone();
        let measured = self.solved.get().map_or(&[][..], |solved| &solved.tables[..]);
        if measured.iter().any(|(task, _)| *task == at) {
            held.measured_among(self.classes_with_rows());
        }
        Some(held)
    }

    /// Lets a sample of a task wait for the next solution. Where samples take too much memory, those that wait are measured at
    /// once, and all are cut to half.
    pub(super) fn hold_sample(&mut self, at: usize, sample: Option<HeldSample>) {
        let Some(sample) = sample else { return };
        self.samples.insert(at, sample);
        if self.sample_bytes() <= MOST_SAMPLES {
            return;
        }
        // Where the solution fails, whoever asks for it is told.
        let _ = self.measure();
        while self.sample_bytes() > MOST_SAMPLES / 2 {
            self.samples.values_mut().for_each(HeldSample::halve);
            self.samples.retain(|_, held| held.nbytes() > 0);
        }
    }

    fn sample_bytes(&self) -> usize {
        self.samples.values().map(HeldSample::nbytes).sum()
    }
}

/// Whether a table was measured among fewer classes, and can follow those that were added.
fn precedes(table: &CalibrationTable, classes: usize) -> bool {
    table.normal.as_ref().is_some_and(|then| then.classes < classes as f64)
}

/// A sample of the rows of a task. It stays in memory while the learner does, since classes that come later have to be measured
/// with the rows of all tasks; it reaches no file.
#[derive(Debug, Clone, Default)]
pub(super) struct HeldSample {
    /// Of all rows of the task; `None` where some were learned by another process.
    whole: Option<Arc<RowSample>>,
    /// Of the rows that have not been measured.
    fresh: Option<Arc<RowSample>>,
    /// Classes that had rows when the task was last measured.
    classes: usize,
}

impl HeldSample {
    /// The sample of a new task.
    pub(super) fn of(sample: RowSample) -> Self {
        let sample = Arc::new(sample);
        Self { whole: Some(sample.clone()), fresh: Some(sample), classes: 0 }
    }

    /// With more rows of the task.
    pub(super) fn with(mut self, more: &RowSample) -> Result<Self> {
        let joined = |sample: &Option<Arc<RowSample>>| match sample {
            Some(sample) => Ok::<_, Error>(Some(Arc::new((**sample).clone().merge(more.clone())?))),
            None => Ok(None),
        };
        self.whole = joined(&self.whole)?;
        self.fresh = Some(joined(&self.fresh)?.unwrap_or_else(|| Arc::new(more.clone())));
        Ok(self)
    }

    fn measured_among(&mut self, classes: usize) {
        (self.fresh, self.classes) = (None, classes);
    }

    fn samples(&mut self) -> impl Iterator<Item = &mut Arc<RowSample>> {
        self.whole.iter_mut().chain(&mut self.fresh)
    }

    /// Puts input `j` at `places[j]` of `width`.
    pub(super) fn move_inputs(&mut self, places: &[usize], width: usize) {
        for sample in self.samples() {
            let sample = Arc::make_mut(sample);
            sample.move_inputs(&places[..sample.width()], width);
        }
    }

    /// Adds inputs that have had one value each, behind `width` others.
    pub(super) fn extend_constants(&mut self, width: usize, values: &[f64]) {
        let shared = self.is_shared();
        self.samples().for_each(|sample| Arc::make_mut(sample).extend_constants(width, values));
        if shared {
            self.fresh = self.whole.clone();
        }
    }

    /// Keeps half of the rows.
    fn halve(&mut self) {
        let shared = self.is_shared();
        self.samples().for_each(|sample| *sample = Arc::new(sample.halved()));
        if shared {
            self.fresh = self.whole.clone();
        }
    }

    /// Whether no row has been measured.
    fn is_shared(&self) -> bool {
        let mut both = self.fresh.iter().zip(&self.whole);
        both.any(|(fresh, whole)| Arc::ptr_eq(fresh, whole))
    }

    /// Bytes of the cells.
    fn nbytes(&self) -> usize {
        let bytes = |sample: &Option<Arc<RowSample>>| sample.as_ref().map_or(0, |s| s.nbytes());
        bytes(&self.whole) + if self.is_shared() { 0 } else { bytes(&self.fresh) }
    }
}
