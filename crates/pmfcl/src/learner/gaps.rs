//! Gaps in rows, filled with the mean of everything learned.
//!
//! A row that misses a value has 0 in its place and 1 in an indicator ([`crate::basis::Fill`]). Summaries hold both columns, so they merge and
//! are removed like any others. With `s` the pooled sum of a column, `g` that of its indicator and `n` that of the intercept, the
//! mean of what is there is `μ = s/(n − g)`, and rows filled with it have `x + μ·gap` in the column: a linear map of the columns
//! that are there. So the pool is mapped when it is solved, by one QR, and what comes out is the summary of all rows filled at once,
//! however they were split. Rows to be predicted are filled with the same means. Where the preference weighs tasks, means weigh them too.

use std::borrow::Cow;
use std::sync::Arc;

use super::Learner;
use crate::basis::{Design, Fill};
use crate::error::{Error, Result};
use crate::problem::{LeastLoss, Pool, TaskSummary};
use crate::summary::Summary;
use crate::theta::Theta;

/// The pool with its gaps filled, and the design that fills those of rows in the same way.
#[derive(Debug, Clone)]
pub(crate) struct FilledPool {
    pub(crate) design: Design,
    pub(crate) pool: Arc<Pool>,
}

impl FilledPool {
    /// A pool, filled with its own means.
    pub(crate) fn of(design: &Design, pool: &Pool) -> Result<Self> {
        let all = means(&pool.quadratic, design)?;
        let design = design.with_means(design.fills().iter().map(|fill| all[fill.value]).collect());
        let columns: Vec<(usize, usize, f64)> = design.filled_columns().collect();
        let mut filled = pool.with_quadratic(pool.quadratic.filled(&columns)?);
        let scatters = filled.scatters.iter().map(|scatter| scatter.filled(&columns));
        filled.scatters = scatters.collect::<Result<_>>()?;
        // The least losses on record are those of gaps kept apart.
        filled.least = None;
        Ok(Self { design, pool: Arc::new(filled) })
    }
}

impl Learner {
    /// The mean of every input over the rows that have it, as the preference weighs them: what stands for a value that a row to
    /// be predicted misses. 0 for an input that no row has had.
    ///
    /// # Errors
    /// When nothing has been learned, or memory does not hold the sums of inputs: for a basis that is not linear, without an
    /// intercept, and for losses that are bounded.
    pub fn input_means(&self) -> Result<Vec<f64>> {
        let design = self.design.as_ref().ok_or(Error::NotLearned)?;
        self.check_fillable(design)?;
        means(&self.shared_pool()?.quadratic, design)
    }

    /// Refuses to fill gaps where sums of inputs are not in memory.
    pub(super) fn check_fillable(&self, design: &Design) -> Result<()> {
        design.check_fillable()?;
        if self.problem.description().exact {
            return Ok(());
        }
        Err(Error::Unsupported {
            operation: "filling gaps with means",
            reason: format!(
                "{} keeps bounds, in which rows have other weights than their own; take squared or gaussian, or indicators of \
                 missing values",
                self.problem.name()
            ),
        })
    }

    /// Says which inputs have gaps that are filled with their means; a learner whose inputs were put elsewhere is told again.
    ///
    /// # Errors
    /// When nothing has been learned, or gaps cannot be filled.
    pub fn set_fills(&mut self, fills: Vec<Fill>) -> Result<()> {
        let Some(design) = &self.design else { return Err(Error::NotLearned) };
        if design.fills() == fills {
            return Ok(());
        }
        if !fills.is_empty() {
            self.check_fillable(design)?;
        }
        let design = design.clone().with_fills(fills)?;
        self.settle();
        self.design = Some(design);
        self.generation += 1;
        Ok(())
    }

    /// The pool with its gaps filled; `None` where no input has any.
    pub(super) fn filled_pool(&self) -> Result<Option<&FilledPool>> {
        match &self.design {
            Some(design) if !design.fills().is_empty() => {
                self.filled.get_or_try(|| FilledPool::of(design, self.shared_pool()?)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The pool of all tasks with its gaps apart, as memory holds it.
    pub(crate) fn pool_with_gaps(&self) -> Result<&Pool> {
        Ok(self.shared_pool()?)
    }

    /// The design that fills the gaps of rows.
    pub(super) fn filling_design(&self) -> Result<&Design> {
        match self.filled_pool()? {
            Some(filled) => Ok(&filled.design),
            None => self.design.as_ref().ok_or(Error::NotLearned),
        }
    }

    /// The parameters for rows whose gaps are 0 with an indicator, as they are summarized.
    ///
    /// # Errors
    /// As [`Learner::solution`].
    pub(crate) fn theta_of_gaps(&self) -> Result<Theta> {
        let theta = &self.solution()?.theta;
        Ok(match self.filled_pool()? {
            Some(filled) => apart(&filled.design, theta),
            None => theta.clone(),
        })
    }

    /// A summary over all columns with its gaps filled as those of the pool.
    pub(crate) fn filled<'a>(&self, summary: Cow<'a, Summary>) -> Result<Cow<'a, Summary>> {
        match self.filled_pool()? {
            Some(filled) => filled_by(&filled.design, summary),
            None => Ok(summary),
        }
    }
}

/// A summary over all columns, filled by a design.
pub(super) fn filled_by<'a>(
    design: &Design,
    summary: Cow<'a, Summary>,
) -> Result<Cow<'a, Summary>> {
    let columns: Vec<(usize, usize, f64)> = design.filled_columns().collect();
    if columns.is_empty() { Ok(summary) } else { Ok(Cow::Owned(summary.filled(&columns)?)) }
}

/// Parameters that answer rows with gaps apart as `theta` answers rows with gaps filled: an indicator has what the means of
/// its inputs would add.
pub(super) fn apart(design: &Design, theta: &Theta) -> Theta {
    let mut apart = theta.clone();
    for k in 0..theta.targets() {
        let column = apart.column_mut(k);
        for (_, indicator, _) in design.filled_columns() {
            column[indicator] = 0.0;
        }
        for (value, indicator, mean) in design.filled_columns() {
            column[indicator] += mean * theta.column(k)[value];
        }
    }
    apart
}

/// A task with the least loss that its rows have once their gaps are filled.
pub(super) fn with_least(task: &TaskSummary, filled: &Summary) -> TaskSummary {
    let mut task = task.clone();
    task.head.least = LeastLoss::Exact(filled.min_loss());
    task
}

/// The mean of every input over the rows that have it, from the first row of the triangle: its entries are sums over rows, divided
/// by the root of their number.
fn means(pooled: &Summary, design: &Design) -> Result<Vec<f64>> {
    if pooled.rank() == 0 || pooled.row(0).0 != 0 {
        return Err(Error::NotLearned);
    }
    let mut means: Vec<f64> =
        (1..pooled.width()).map(|j| pooled.entry(0, j) / pooled.entry(0, 0)).collect();
    means.resize(design.inputs(), 0.0);
    let shares = means.clone();
    for fill in design.fills() {
        let there = 1.0 - shares[fill.indicator];
        // Where rounding is all that is left, no row has the value.
        means[fill.value] = if there > 1e-12 { shares[fill.value] / there } else { 0.0 };
    }
    Ok(means)
}
