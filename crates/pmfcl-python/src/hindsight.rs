//! Changes in hindsight: another preference, ridge or option; a task removed; a memory merged.

use pmfcl::{Error, Learner, Preference};
use pyo3::prelude::*;

use crate::call::{outside, raised};
use crate::check::content;
use crate::model::{PyModel, parsed};
use crate::passes::fit;
use crate::table::{Table, Target, TaskTable, Weights};

impl PyModel {
    /// Changes what was learned, with the lock released.
    fn change(
        &mut self,
        py: Python<'_>,
        change: impl FnOnce(&mut Learner) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        let learner = &mut self.model.learner;
        outside(py, || change(learner).map_err(raised))
    }

    /// Drops the names of categories that no row in memory has any more.
    fn purge(&mut self, py: Python<'_>) -> PyResult<()> {
        let model = &mut self.model;
        outside(py, || {
            // Rows that wait to be measured are measured before their inputs are renumbered.
            model.learner.measure().map_err(raised)?;
            model.purge_categories().map_err(raised)
        })?;
        self.features = self.model.schema.features();
        Ok(())
    }
}

#[pymethods]
impl PyModel {
    /// A preference by its name.
    fn prefer(&mut self, py: Python<'_>, name: &str) -> PyResult<()> {
        let preference: Preference = parsed("preference", name)?;
        self.change(py, |learner| learner.prefer(preference))
    }

    /// Weights task by task.
    fn prefer_weights(&mut self, py: Python<'_>, weights: Vec<(String, f64)>) -> PyResult<()> {
        self.change(py, |learner| learner.prefer(Preference::Chosen(weights)))
    }

    /// The most some tasks may lose; the others keep their proportions.
    fn prefer_budget(&mut self, py: Python<'_>, budgets: Vec<(String, f64)>) -> PyResult<()> {
        self.change(py, |learner| learner.prefer_budgets(&budgets))
    }

    fn keep_chosen(&mut self, py: Python<'_>) -> PyResult<()> {
        self.change(py, Learner::keep_chosen)
    }

    /// Another ridge in hindsight.
    fn set_ridge(&mut self, py: Python<'_>, ridge: &str, standardize: bool) -> PyResult<()> {
        let ridge = parsed("ridge", ridge)?;
        self.change(py, |learner| learner.set_ridge(ridge, standardize))
    }

    /// Another option of the problem.
    fn set_option(&mut self, py: Python<'_>, name: &str, value: &str) -> PyResult<()> {
        self.change(py, |learner| learner.set_option(name, value))
    }

    fn unlearn(&mut self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.change(py, |learner| learner.unlearn(name))?;
        self.purge(py)
    }

    /// Removes rows from a task; all of them remove the task, which folded memory can do in no other way.
    fn unlearn_rows(
        &mut self,
        py: Python<'_>,
        name: &str,
        x: Table,
        y: Target,
        sample_weight: Weights,
    ) -> PyResult<()> {
        let table = TaskTable::new(py, x, y, sample_weight)?;
        let (learner, schema) = (&mut self.model.learner, &self.model.schema);
        outside(py, || {
            let (_, mut draft) =
                fit(learner, &table, 1.0).map_err(|failure| failure.raised(schema, learner))?;
            draft.summary.head.content = Some(content(schema, &table)?);
            learner.unlearn_rows(name, &draft.summary).map_err(raised)
        })?;
        self.purge(py)
    }

    fn rename(&mut self, name: &str, new: &str) -> PyResult<()> {
        self.model.learner.rename(name, new).map_err(raised)
    }

    /// Moves inputs: input `i` becomes input `places[i]`.
    fn rearrange(&mut self, py: Python<'_>, places: Vec<usize>) -> PyResult<()> {
        self.change(py, |learner| learner.rearrange_inputs(&places, places.len()))
    }

    fn merge(&mut self, py: Python<'_>, other: &Self) -> PyResult<()> {
        let (fills, other) = (self.model.schema.fills(), other.learner());
        self.change(py, |learner| {
            learner.merge(other)?;
            learner.set_fills(fills)
        })
    }
}
