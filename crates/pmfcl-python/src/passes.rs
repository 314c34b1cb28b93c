//! Passes over rows in memory that Ctrl-C can interrupt.

use pmfcl::problem::{Draft, InMemory, Partial, Pass, Passes, TaskContext, Worker};
use pmfcl::{Design, Error, Learner};
use pmfcl_file::{FileError, Schema};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::{raised, raised_by_file, raised_in};
use crate::parts::read_answer;
use crate::table::TaskTable;

/// Blocks of rows each thread takes between two checks for Ctrl-C: less than a second of work up to some hundred columns.
const BLOCKS: usize = 4;

/// Rows at the beginning of a table from which a basis may take its ranges.
const FIRST_ROWS: usize = 10_000;

/// Why a pass ended early.
pub(crate) enum Failure {
    /// The rows are at fault.
    Rows(Error),
    /// The handler of a signal raised an exception, or rows could not be copied.
    Python(PyErr),
}

impl Failure {
    /// The exception, with columns by name.
    pub(crate) fn raised(self, schema: &Schema, learner: &Learner) -> PyErr {
        match self {
            Self::Rows(error) => raised_in(&error, schema, learner),
            Self::Python(raised) => raised,
        }
    }

    /// The exception where columns have no names.
    pub(crate) fn raised_unnamed(self) -> PyErr {
        match self {
            Self::Rows(error) => raised(error),
            Self::Python(raised) => raised,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Rows(error)
    }
}

impl From<PyErr> for Failure {
    fn from(raised: PyErr) -> Self {
        Self::Python(raised)
    }
}

/// What came of passes; an exception that ended them before the error it led to.
fn outcome<T>(exception: Option<PyErr>, found: Result<T, Error>) -> Result<T, Failure> {
    match exception {
        Some(raised) => Err(Failure::Python(raised)),
        None => found.map_err(Failure::Rows),
    }
}

/// Keeps an exception for later, and stops the passes.
fn stopped<T>(kept: &mut Option<PyErr>, found: PyResult<T>) -> Result<T, Error> {
    found.map_err(|raised| {
        *kept = Some(raised);
        Error::Interrupted
    })
}

/// Passes of a problem that looks at rows once: block by block, each copied and checked for Ctrl-C in between. To be used with
/// the interpreter's lock released.
struct BlockPasses<'a> {
    context: TaskContext<'a>,
    table: &'a TaskTable,
    exception: Option<PyErr>,
}

/// What a block leads to.
enum Step<'a> {
    More(Worker<'a>),
    Answer(Partial),
}

impl Passes for BlockPasses<'_> {
    fn run(&mut self, pass: &Pass) -> Result<Partial, Error> {
        let mut worker = Worker::new(self.context, pass)?;
        let block = worker.block_rows() * self.context.settings.threads.max(1) * BLOCKS;
        let (table, mut from) = (self.table, 0);
        loop {
            let step = Python::attach(|py| {
                let count = table.len(py);
                let to = (from + block).min(count);
                let own = table.block(py, (from, to))?;
                let rows = own.rows()?;
                let taken = if to == count {
                    py.detach(|| worker.finish_with(rows).map(Step::Answer))
                } else {
                    py.detach(|| worker.add(rows).map(|()| Step::More(worker)))
                };
                py.check_signals()?;
                Ok((taken, to))
            });
            let (taken, to) = stopped(&mut self.exception, step)?;
            match taken? {
                Step::Answer(partial) => return Ok(partial),
                Step::More(rest) => (worker, from) = (rest, to),
            }
        }
    }
}

/// Passes of a problem that looks at rows again, over a copy of all of them; Ctrl-C is checked between passes. To be used with
/// the interpreter's lock released.
struct WholePasses<'a> {
    rows: InMemory<'a>,
    exception: Option<PyErr>,
}

impl Passes for WholePasses<'_> {
    fn run(&mut self, pass: &Pass) -> Result<Partial, Error> {
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method alone does not hold for every lifetime of the lock"
        )]
        stopped(&mut self.exception, Python::attach(|py| py.check_signals()))?;
        self.rows.run(pass)
    }
}

/// Passes that a Python function runs: bytes of the pass in, bytes of the merged answer out. The rows may be anywhere.
struct AskedPasses<'a> {
    run: &'a Py<PyAny>,
    exception: Option<PyErr>,
}

impl Passes for AskedPasses<'_> {
    fn run(&mut self, pass: &Pass) -> Result<Partial, Error> {
        let bytes = pass.to_bytes()?;
        let answer = Python::attach(|py| {
            let found = self.run.bind(py).call1((PyBytes::new(py, &bytes),))?;
            read_answer(found.cast::<PyBytes>()?.as_bytes())
        });
        stopped(&mut self.exception, answer)
    }
}

/// Runs a fit whose passes a Python function runs. To be used with the interpreter's lock released.
pub(crate) fn by_asking<T>(
    run: &Py<PyAny>,
    work: impl FnOnce(&mut dyn Passes) -> Result<T, FileError>,
) -> PyResult<T> {
    let mut passes = AskedPasses { run, exception: None };
    let found = work(&mut passes);
    match passes.exception {
        Some(raised) => Err(raised),
        None => found.map_err(raised_by_file),
    }
}

/// Fits a task of a learner on rows; nothing is learned yet. To be used with the interpreter's lock released.
///
/// # Errors
/// When a row is invalid, the task does not go with those before it, or Ctrl-C was pressed.
pub(crate) fn fit(
    learner: &Learner,
    table: &TaskTable,
    weight: f64,
) -> Result<(Design, Draft), Failure> {
    fit_with(learner, table, weight, 0)
}

/// The same where the last `new` inputs of the rows are unknown to the learner.
///
/// # Errors
/// As [`fit`], and when the basis does not take new inputs.
pub(crate) fn fit_with(
    learner: &Learner,
    table: &TaskTable,
    weight: f64,
    new: usize,
) -> Result<(Design, Draft), Failure> {
    let design = match learner.design() {
        Some(design) if new > 0 => design.with_inputs(new)?,
        _ => Python::attach(|py| {
            let head = table.block(py, (0, table.len(py).min(FIRST_ROWS)))?;
            Ok::<_, PyErr>(learner.design_for(&head.rows()?.x))
        })??,
    };
    let draft = run(learner, &design, table, |passes| {
        let first = passes.run(&learner.problem().first_pass())?;
        learner.fit(&design, first, passes, weight)
    })?;
    Ok((design, draft))
}

fn run<T: Send>(
    learner: &Learner,
    design: &Design,
    table: &TaskTable,
    work: impl FnOnce(&mut dyn Passes) -> Result<T, Error> + Send,
) -> Result<T, Failure> {
    let context = learner.context_with(design);
    if learner.problem().looks_again() {
        return Python::attach(|py| {
            let own = table.whole(py)?;
            let rows = own.rows()?;
            py.detach(|| {
                let rows = InMemory::new(context, rows)?;
                let mut passes = WholePasses { rows, exception: None };
                let found = work(&mut passes);
                outcome(passes.exception, found)
            })
        });
    }
    in_blocks(context, table, work)
}

/// Runs passes of a problem that looks at rows once.
pub(crate) fn in_blocks<T>(
    context: TaskContext<'_>,
    table: &TaskTable,
    work: impl FnOnce(&mut dyn Passes) -> Result<T, Error>,
) -> Result<T, Failure> {
    let mut passes = BlockPasses { context, table, exception: None };
    let found = work(&mut passes);
    outcome(passes.exception, found)
}
