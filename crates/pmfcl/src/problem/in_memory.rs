//! Passes over rows that are in memory.

use super::TaskContext;
use super::pass::{Block, Partial, Pass, Passes, Scratch, check, map_rows};
use crate::error::Result;
use crate::rows::TaskRows;

/// Most numbers of design rows that are kept between passes: 1 GiB. Beyond, each pass maps them again, block by block.
const MOST_NUMBERS: usize = 1 << 27;
/// Rows of such a block.
const BLOCK: usize = 1 << 14;

/// Runs passes over rows in memory. The basis is applied to each row once, in the first pass that wants design rows.
#[derive(Debug)]
#[doc(hidden)] // for ingest, python
pub struct InMemory<'a> {
    context: TaskContext<'a>,
    rows: TaskRows<'a>,
    cells: Option<Vec<f64>>,
    scratch: Scratch,
}

impl<'a> InMemory<'a> {
    /// Passes over these rows.
    ///
    /// # Errors
    /// When their shapes do not agree with each other or with the design.
    pub fn new(context: TaskContext<'a>, rows: TaskRows<'a>) -> Result<Self> {
        check(&context, &rows)?;
        Ok(Self { context, rows, cells: None, scratch: Scratch::default() })
    }
}

impl Passes for InMemory<'_> {
    fn run(&mut self, pass: &Pass) -> Result<Partial> {
        let mut work = self.context.problem.method().worker(&self.context, pass)?;
        let threads = self.context.settings.threads;
        let (rows, context) = (self.rows, &self.context);
        if !work.wants_design_rows() {
            let scratch = Some(&mut self.scratch);
            return work.finish_with(Block { rows, cells: &[], first: 0, scratch, threads });
        }
        let m = context.design.width();
        if self.cells.is_none() && rows.len().saturating_mul(m) <= MOST_NUMBERS {
            let mut cells = Vec::new();
            map_rows(context, &rows.x, &mut cells)?;
            self.cells = Some(cells);
        }
        if let Some(cells) = &self.cells {
            let scratch = Some(&mut self.scratch);
            return work.finish_with(Block { rows, cells, first: 0, scratch, threads });
        }
        let mut cells = Vec::new();
        let mut from = 0;
        while from < rows.len() {
            let to = (from + BLOCK).min(rows.len());
            let block = rows.slice(from, to);
            map_rows(context, &block.x, &mut cells).map_err(|e| e.shifted(from as u64))?;
            let first = from as u64;
            work.add(Block { rows: block, cells: &cells, first, scratch: None, threads })?;
            from = to;
        }
        work.finish()
    }
}
