//! Passes over rows in memory that Ctrl-C can interrupt.

use pmfcl::problem::{Draft, InMemory, Partial, Pass, Passes, TaskContext, Worker};
use pmfcl::{Design, Error, Learner, TaskRows};
use pmfcl_file::Schema;
use pyo3::prelude::*;

use crate::call::{raised, raised_in};

/// Blocks of rows each thread takes between two checks for Ctrl-C: less than a second of work up to some hundred columns.
const BLOCKS: usize = 4;

/// Why a pass ended early.
pub(crate) enum Failure {
    /// The rows are at fault.
    Rows(Error),
    /// The handler of a signal raised an exception.
    Signal(PyErr),
}

impl Failure {
    /// The exception, with columns by name.
    pub(crate) fn raised(self, schema: &Schema, learner: &Learner) -> PyErr {
        match self {
            Self::Rows(error) => raised_in(&error, schema, learner),
            Self::Signal(raised) => raised,
        }
    }

    /// The exception where columns have no names.
    pub(crate) fn raised_unnamed(self) -> PyErr {
        match self {
            Self::Rows(error) => raised(error),
            Self::Signal(raised) => raised,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Rows(error)
    }
}

/// Runs passes over rows in memory, and checks for Ctrl-C between them. Where a problem looks at rows once, it checks between
/// blocks of rows as well. To be used with the interpreter's lock released.
pub(crate) struct InterruptiblePasses<'a> {
    context: TaskContext<'a>,
    rows: TaskRows<'a>,
    /// All rows at once, for problems that look at them again.
    whole: InMemory<'a>,
    /// What the handler of a signal raised.
    raised: Option<PyErr>,
}

impl<'a> InterruptiblePasses<'a> {
    /// Passes over these rows.
    ///
    /// # Errors
    /// When their shapes do not agree with each other or with the design, or there are none.
    pub(crate) fn new(context: TaskContext<'a>, rows: TaskRows<'a>) -> Result<Self, Error> {
        if rows.is_empty() {
            return Err(Error::Empty { what: "the task" });
        }
        Ok(Self { context, rows, whole: InMemory::new(context, rows)?, raised: None })
    }

    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method alone does not hold for every lifetime of the lock"
    )]
    fn check_signals(&mut self) -> Result<(), Error> {
        Python::attach(|py| py.check_signals()).map_err(|raised| {
            self.raised = Some(raised);
            Error::Interrupted
        })
    }

    fn in_blocks(&mut self, pass: &Pass) -> Result<Partial, Error> {
        let rows = self.rows;
        let mut worker = Worker::new(self.context, pass)?;
        let block = worker.block_rows() * self.context.settings.threads.max(1) * BLOCKS;
        let mut from = 0;
        while from < rows.len() {
            let to = (from + block).min(rows.len());
            worker.add(rows.slice(from, to))?;
            self.check_signals()?;
            from = to;
        }
        worker.finish()
    }

    /// What came of the passes; an exception of a signal's handler before the error it led to.
    pub(crate) fn outcome<T>(self, found: Result<T, Error>) -> Result<T, Failure> {
        match self.raised {
            Some(raised) => Err(Failure::Signal(raised)),
            None => found.map_err(Failure::Rows),
        }
    }
}

impl Passes for InterruptiblePasses<'_> {
    fn run(&mut self, pass: &Pass) -> Result<Partial, Error> {
        if !self.context.problem.looks_again() {
            return self.in_blocks(pass);
        }
        self.check_signals()?;
        self.whole.run(pass)
    }
}

/// Fits a task of a learner on rows; nothing is learned yet.
///
/// # Errors
/// When a row is invalid, the task does not go with those before it, or Ctrl-C was pressed.
pub(crate) fn fit(
    learner: &Learner,
    rows: TaskRows<'_>,
    weight: f64,
) -> Result<(Design, Draft), Failure> {
    fit_with(learner, rows, weight, 0)
}

/// The same where the last `new` inputs of the rows are unknown to the learner.
///
/// # Errors
/// As [`fit`], and when the basis does not take new inputs.
pub(crate) fn fit_with(
    learner: &Learner,
    rows: TaskRows<'_>,
    weight: f64,
    new: usize,
) -> Result<(Design, Draft), Failure> {
    let design = match learner.design() {
        Some(design) if new > 0 => design.with_inputs(new)?,
        _ => learner.design_for(&rows.x)?,
    };
    let draft = {
        let mut passes = InterruptiblePasses::new(learner.context_with(&design), rows)?;
        let first = passes.run(&learner.problem().first_pass());
        let draft = first.and_then(|first| learner.fit(&design, first, &mut passes, weight));
        passes.outcome(draft)?
    };
    Ok((design, draft))
}
