//! One protocol for everything that looks at rows.
//!
//! A fit asks for passes; an executor runs each over the rows of the task and answers with one partial:
//!
//! ```text
//! fit ── Pass ──▶ executor ── Worker::add, per block ──▶ Partial ── merge, in the order of blocks ──▶ fit
//! ```
//!
//! | problem | passes |
//! | --- | --- |
//! | squared | 1 `Summarize` |
//! | gaussian | 1 `Summarize`, with a sample of the rows |
//! | huber, poisson, a loss of your own | 1 `Look`, `Majorize(θ)` until the step is below 1e-10, 1 `Certify` |
//! | logistic | 1 `Look`; per Newton step `Evaluate(θ)` and `Curvature(θ)` or `Multiply(θ, d)`; 1 `Expand(θ)`; `Certify` |
//!
//! | executor | how it runs a pass |
//! | --- | --- |
//! | [`InMemory`](super::in_memory::InMemory) | design rows are mapped once; threads inside the worker |
//! | files (`pmfcl-ingest`) | the first pass on pieces of the files, on threads; later ones on rows kept aside |
//! | a cluster (`pmfcl.distributed`) | the pass goes to the workers as bytes, their answers come back as bytes |
//!
//! The first pass of every problem has no parameters, so the rows of many tasks can be read once before any of them is
//! fitted. Partials merge in the order of blocks: the same blocks give the same bits.

use std::sync::Arc;

use super::TaskContext;
use super::sample::RowSample;
use super::task::TaskSummary;
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::rows::{Rows, TaskRows};
use crate::theta::Theta;

/// One look at all rows of a task.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[doc(hidden)] // for baselines, ingest, python, read
pub enum Pass {
    /// The task summary of rows whose loss is quadratic.
    Summarize {
        /// Whether a sample of the rows is kept.
        sample: bool,
    },
    /// Moments of the design columns, class counts, the range of the targets.
    Look,
    /// The quadratic bound of a row-wise loss at an anchor.
    Majorize {
        /// The loss.
        loss: Arc<dyn Loss>,
        /// The anchor.
        theta: Theta,
        /// Whether the second derivative, where the loss has one, takes the place of the curvature of the bound.
        newton: bool,
    },
    /// How many residuals at these parameters are of which size.
    Residuals(Theta),
    /// A lower bound of the least row-wise loss, by the slopes at `theta` moved along `step`.
    CertifyRows {
        /// The loss.
        loss: Arc<dyn Loss>,
        /// Where the slopes are taken.
        theta: Theta,
        /// How they are moved.
        step: Theta,
    },
    /// A pass of log-loss.
    Logistic(super::logistic::passes::LogisticPass),
}

/// The answer to a pass, over some or all rows.
#[derive(Debug, Clone, Default)]
#[doc(hidden)] // for ingest, python
pub struct Partial {
    /// One task summary, or none.
    pub tasks: Vec<TaskSummary>,
    /// Numbers that add.
    pub sums: Vec<f64>,
    /// Smallest and largest target.
    pub range: Option<[f64; 2]>,
    /// A sample of the rows.
    pub sample: Option<RowSample>,
}

impl Partial {
    /// The answer over the rows of both, `next` being those that come after.
    ///
    /// # Errors
    /// When the two are answers to different passes, or sums overflow.
    pub fn merge(self, next: Self) -> Result<Self> {
        if self.tasks.is_empty() && self.sums.is_empty() {
            return Ok(next);
        }
        if self.tasks.len() != next.tasks.len() || self.sums.len() != next.sums.len() {
            return Err(Error::Mismatch {
                what: "the pass two partial results answer",
                left: format!("{} summaries and {} sums", self.tasks.len(), self.sums.len()),
                right: format!("{} summaries and {} sums", next.tasks.len(), next.sums.len()),
            });
        }
        let pairs = self.tasks.into_iter().zip(&next.tasks);
        let tasks = pairs.map(|(a, b)| a.merged(b)).collect::<Result<_>>()?;
        let mut sums = self.sums;
        sums.iter_mut().zip(&next.sums).for_each(|(a, b)| *a += b);
        let range = match (self.range, next.range) {
            (Some(a), Some(b)) => Some([a[0].min(b[0]), a[1].max(b[1])]),
            (a, b) => a.or(b),
        };
        let sample = match (self.sample, next.sample) {
            (Some(a), Some(b)) => Some(a.merge(b)?),
            (a, b) => a.or(b),
        };
        Ok(Self { tasks, sums, range, sample })
    }

    /// The one task summary of a pass that gives one.
    pub(crate) fn into_task(mut self) -> Result<TaskSummary> {
        self.tasks.pop().ok_or(Error::Empty { what: "the task" })
    }
}

/// What runs passes over the rows of one task.
#[doc(hidden)] // for ingest, lab, python
pub trait Passes {
    /// Runs a pass over all rows.
    ///
    /// # Errors
    /// When a row is invalid.
    fn run(&mut self, pass: &Pass) -> Result<Partial>;
}

/// Numbers a worker keeps for the next pass over the same rows, where the executor has them in one block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Parameters the numbers belong to.
    pub(crate) theta: Option<Theta>,
    /// Numbers of each row.
    pub(crate) rows: Vec<f64>,
    /// How often rows were left out, and the weights that remain.
    pub(crate) left_out: usize,
    pub(crate) weights: Vec<f64>,
}

/// A block of rows as a worker sees it.
pub(crate) struct Block<'a> {
    /// The rows as they came.
    pub(crate) rows: TaskRows<'a>,
    /// The design rows, end to end; empty unless the work wants them.
    pub(crate) cells: &'a [f64],
    /// The number of the first row within the task.
    pub(crate) first: u64,
    /// Kept between passes where the block is the whole task.
    pub(crate) scratch: Option<&'a mut Scratch>,
    /// Threads to use.
    pub(crate) threads: usize,
}

/// What a pass does with rows.
pub(crate) trait RowWork: Send {
    /// Whether it works on design rows; else it maps them itself.
    fn wants_design_rows(&self) -> bool {
        true
    }

    /// Names the last inputs of the rows, which are not among the agreed ones; before the first block.
    fn name_new_inputs(&mut self, _names: &[String]) {}

    /// Takes a block of rows.
    fn add(&mut self, block: Block<'_>) -> Result<()>;

    /// The answer over all rows taken.
    fn finish(self: Box<Self>) -> Result<Partial>;

    /// The answer over all rows taken and a last block.
    fn finish_with(mut self: Box<Self>, block: Block<'_>) -> Result<Partial> {
        self.add(block)?;
        self.finish()
    }
}

/// Runs a pass over some rows of a task: on one machine, or on one of many.
#[doc(hidden)] // for ingest, python
pub struct Worker<'a> {
    context: TaskContext<'a>,
    work: Box<dyn RowWork>,
    cells: Vec<f64>,
    rows: u64,
}

impl std::fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<'a> Worker<'a> {
    /// A worker that has taken no rows.
    ///
    /// # Errors
    /// When the pass is not one of this problem's.
    pub fn new(context: TaskContext<'a>, pass: &Pass) -> Result<Self> {
        let work = context.problem.method().worker(&context, pass)?;
        Ok(Self { context, work, cells: Vec::new(), rows: 0 })
    }

    /// Names the last inputs of the rows, where they are beyond those the model has; before the first rows.
    pub fn name_new_inputs(&mut self, names: &[String]) {
        self.work.name_new_inputs(names);
    }

    /// Whether the pass works on design rows, so that rows that will be looked at again are worth mapping once.
    pub fn wants_design_rows(&self) -> bool {
        self.work.wants_design_rows()
    }

    /// How many rows to give at a time so that they are still in the cache when they are used.
    pub fn block_rows(&self) -> usize {
        crate::kernel::leaf_rows(self.context.design.width())
    }

    /// Takes rows.
    ///
    /// # Errors
    /// When a row is invalid; rows are counted from the first one taken.
    pub fn add(&mut self, rows: TaskRows<'_>) -> Result<()> {
        self.map(&rows)?;
        let (first, threads) = (self.rows, self.context.settings.threads);
        let block = Block { rows, cells: &self.cells, first, scratch: None, threads };
        self.work.add(block)?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Takes the last rows, which may then not have to be copied, and gives the answer over all.
    ///
    /// # Errors
    /// As [`Worker::add`] and [`Worker::finish`].
    pub fn finish_with(mut self, rows: TaskRows<'_>) -> Result<Partial> {
        self.map(&rows)?;
        let (first, threads) = (self.rows, self.context.settings.threads);
        let block = Block { rows, cells: &self.cells, first, scratch: None, threads };
        self.work.finish_with(block)
    }

    /// The design rows of these, where the work wants them.
    fn map(&mut self, rows: &TaskRows<'_>) -> Result<()> {
        let mapped = check(&self.context, rows).and_then(|()| {
            self.cells.clear();
            if !self.work.wants_design_rows() {
                return Ok(());
            }
            map_rows(&self.context, &rows.x, &mut self.cells)
        });
        mapped.map_err(|e| e.shifted(self.rows))
    }

    /// Takes rows that have been mapped through the design already.
    ///
    /// # Errors
    /// As [`Worker::add`].
    pub fn add_design_rows(&mut self, cells: &[f64], rows: TaskRows<'_>) -> Result<()> {
        let (first, threads) = (self.rows, self.context.settings.threads);
        self.work.add(Block { rows, cells, first, scratch: None, threads })?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// The answer over all rows taken.
    ///
    /// # Errors
    /// When there were none, or numbers left the range of double precision.
    pub fn finish(self) -> Result<Partial> {
        self.work.finish()
    }
}

/// Shapes that agree with each other and with the design.
pub(crate) fn check(context: &TaskContext<'_>, rows: &TaskRows<'_>) -> Result<()> {
    if rows.x.width() != context.design.inputs() {
        return Err(Error::Shape {
            what: "the feature table",
            unit: "columns",
            expected: context.design.inputs(),
            found: rows.x.width(),
        });
    }
    rows.check()
}

/// Writes the design rows of `x` to `cells`, end to end.
///
/// # Errors
/// The first value that is not finite, or that the basis refuses.
#[doc(hidden)] // for ingest
pub fn map_rows(context: &TaskContext<'_>, x: &Rows<'_>, cells: &mut Vec<f64>) -> Result<()> {
    let m = context.design.width();
    cells.clear();
    cells.resize(x.len() * m, 0.0);
    let not_finite = || {
        x.first_not_finite().map(|(row, column, value)| Error::NotFinite {
            what: "feature",
            row: row as u64,
            column,
            value,
        })
    };
    if let Err(error) = context.design.write(x, 0, cells, m, None) {
        // A value that is not finite is the more helpful thing to report.
        return Err(not_finite().unwrap_or(Error::Basis(error)));
    }
    match cells.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(not_finite().unwrap_or(Error::Overflow { column: at % m })),
        None => Ok(()),
    }
}
