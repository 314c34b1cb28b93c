//! Rows before they are learned, columns of frames, and what is known of coefficients.

use pmfcl::Learner;
use pmfcl::problem::{Content, ContentKeys};
use pmfcl::report::check::{
    Check, Condition, Effort, NewTask, OutlyingRow, Reference, RowFindings, RowReason,
};
use pmfcl::report::inference::Covariance;
use pmfcl_file::{Column, ColumnKind, FittedPart, Input, MissingValues, Model, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::call::{outside, raised};
use crate::model::{PyModel, parsed};
use crate::parts::PyFittedTask;
use crate::passes::fit_with;
use crate::table::{Table, Target, TaskTable, Weights};

/// Where an input comes from: its column, what it is (`number`, `date`, `category`, `missing`), and the category.
pub(crate) type Origin = (String, String, Option<String>);

/// A row that is far off: its number, how many standard deviations, whether its target is, which input or target, its value, and
/// the mean or prediction.
type FarRow = (u64, f64, bool, usize, f64, f64);

/// An input that is new: a category, the gaps of a column that had none, or a column that has been zero so far.
pub(crate) type NewInput = Origin;

/// Adds inputs at the end of a schema.
pub(crate) fn grown(schema: &Schema, new: &[NewInput]) -> PyResult<Schema> {
    let mut grown = schema.clone();
    new.iter().try_for_each(|origin| add_input(&mut grown, origin))?;
    Ok(grown)
}

/// Adds an input, and its column where that is new.
fn add_input(schema: &mut Schema, (name, kind, part): &Origin) -> PyResult<()> {
    let holds = match kind.as_str() {
        "number" | "missing" => ColumnKind::Number,
        "date" => ColumnKind::Date,
        "category" => ColumnKind::Text,
        other => return Err(PyValueError::new_err(format!("there is no kind '{other}'"))),
    };
    let column = schema.column(name).unwrap_or_else(|| {
        schema.columns.push(Column { name: name.clone(), kind: holds, format: None });
        schema.columns.len() - 1
    });
    schema.inputs.push(match (kind.as_str(), part) {
        ("missing", _) => Input::Missing { column },
        (_, Some(value)) => Input::Category { column, value: value.clone() },
        (_, None) => Input::Value { column },
    });
    Ok(())
}

/// Rows hashed at a time.
const BLOCK: usize = 1 << 16;

/// The hash of rows under the names of a schema.
pub(crate) fn content(schema: &Schema, table: &TaskTable) -> PyResult<[u8; 32]> {
    let keys = ContentKeys::new(schema.features(), &schema.targets);
    let (mut content, mut from) = (Content::default(), 0);
    loop {
        let to = Python::attach(|py| {
            let to = (from + BLOCK).min(table.len(py));
            let own = table.block(py, (from, to))?;
            let rows = own.rows()?;
            py.detach(|| content.add(&keys, &rows));
            PyResult::Ok(to)
        })?;
        if to < from + BLOCK {
            return Ok(content.to_bytes());
        }
        from = to;
    }
}

#[pymethods]
impl PyModel {
    /// What the inputs of a model that has learned nothing come from.
    fn set_origins(&mut self, origins: Vec<Origin>) -> PyResult<()> {
        if !self.learner().records().is_empty() {
            return Err(PyValueError::new_err("the model has learned something already"));
        }
        let Schema { targets, missing, coding, .. } = &self.model.schema;
        let mut schema = Schema::new(Vec::new(), targets.clone());
        (schema.missing, schema.coding) = (*missing, *coding);
        origins.iter().try_for_each(|origin| add_input(&mut schema, origin))?;
        self.model.schema = schema;
        self.features = self.model.schema.features();
        Ok(())
    }

    /// What becomes of values that rows miss (`error`, `mean`, `indicator`), and what coefficients of categories are relative to
    /// (`onehot`, `reference`, `sum`).
    fn set_table_options(&mut self, missing: &str, coding: &str) -> PyResult<()> {
        let missing: MissingValues = parsed("missing", missing)?;
        let before = self.model.schema.coding;
        self.model.set_missing(missing).map_err(raised)?;
        self.model.schema.coding = parsed("coding", coding)?;
        self.model.check_coding().map_err(|error| {
            self.model.schema.coding = before;
            raised(error)
        })
    }

    /// The mean of every input over the rows that have it.
    fn input_means(&self, py: Python<'_>) -> PyResult<Vec<f64>> {
        outside(py, || self.learner().input_means().map_err(raised))
    }

    /// Each coefficient as a sum of parameters, the intercept first, under the coding of the model; `None` for `onehot`.
    fn contrasts(&self) -> Option<Vec<Vec<(usize, f64)>>> {
        self.model.contrasts()
    }

    /// What memory says of rows that are not yet learned, as nested dicts; `conditions` are those of `--refuse-if`.
    #[pyo3(signature = (x, y, sample_weight, new_inputs=Vec::new(), conditions=Vec::new()))]
    fn check<'py>(
        &self,
        py: Python<'py>,
        x: Table,
        y: Target,
        sample_weight: Weights,
        new_inputs: Vec<NewInput>,
        conditions: Vec<String>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let table = TaskTable::new(py, x, y, sample_weight)?;
        let own = table.whole(py)?;
        let rows = own.rows()?;
        let Model { schema, learner } = &self.model;
        let schema = grown(schema, &new_inputs)?;
        let conditions = conditions
            .iter()
            .map(|text| text.parse::<Condition>().map_err(raised))
            .collect::<PyResult<Vec<_>>>()?;
        let (check, names) = outside(py, || {
            let (design, mut draft) = fit_with(learner, &table, 1.0, new_inputs.len())
                .map_err(|failure| failure.raised(&schema, learner))?;
            let design = design.with_fills(schema.fills()).map_err(raised)?;
            draft.summary.head.content = Some(content(&schema, &table)?);
            let names = schema.features();
            let reference = Reference::of(learner, &names).map_err(raised)?;
            let found = reference.look(learner, &rows, &schema.gaps(), |i| i as u64);
            let task = NewTask {
                design: &design,
                draft: &draft,
                rows: &found,
                dropped: 0,
                inputs: &names,
                targets: &schema.targets,
                gaps: &schema.gaps(),
            };
            let check = Check::of(learner, &task, Effort::Full).map_err(raised)?;
            Ok((check, names))
        })?;
        let held: Vec<String> =
            conditions.iter().filter(|c| c.holds(&check)).map(ToString::to_string).collect();
        let dict = as_dict(py, &check, &names, &schema.targets)?;
        dict.set_item("refused", held)?;
        Ok(dict)
    }

    /// What is far off in some rows of a table, counted from `first`: rows looked at, rows beyond, and the worst of them.
    #[pyo3(signature = (x, y, first=0))]
    fn look_at_rows(
        &self,
        py: Python<'_>,
        x: Table,
        y: Target,
        first: u64,
    ) -> PyResult<(u64, u64, Vec<FarRow>)> {
        let table = TaskTable::new(py, x, y, None)?;
        let own = table.whole(py)?;
        let rows = own.rows()?;
        let Model { schema, learner } = &self.model;
        outside(py, || {
            let reference = Reference::of(learner, &schema.features()).map_err(raised)?;
            let found = reference.look(learner, &rows, &schema.gaps(), |i| first + i as u64);
            let worst = found.worst.iter().map(|row| match row.reason {
                RowReason::Cell { input, value, mean } => {
                    (row.row, row.size, false, input, value, mean)
                }
                RowReason::Target { target, value, predicted } => {
                    (row.row, row.size, true, target, value, predicted)
                }
            });
            Ok((found.rows, found.beyond, worst.collect()))
        })
    }

    /// What memory says of a fitted task that is not in it, given what was far off in its rows.
    fn check_fitted<'py>(
        &self,
        py: Python<'py>,
        fitted: &PyFittedTask,
        found: (u64, u64, Vec<FarRow>),
        dropped: u64,
        conditions: Vec<String>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let conditions = conditions
            .iter()
            .map(|text| text.parse::<Condition>().map_err(raised))
            .collect::<PyResult<Vec<_>>>()?;
        let mut rows = RowFindings::default();
        let worst = found.2.into_iter().map(|(row, size, of_target, at, value, other)| {
            let reason = if of_target {
                RowReason::Target { target: at, value, predicted: other }
            } else {
                RowReason::Cell { input: at, value, mean: other }
            };
            OutlyingRow { row, size, reason }
        });
        // Merging keeps the worst in order.
        rows.merge(RowFindings {
            rows: found.0,
            beyond: found.1,
            worst: worst.collect(),
            ..RowFindings::default()
        });
        let FittedPart { schema, design, draft } = &fitted.0;
        let (check, names) = outside(py, || {
            let names = schema.features();
            let task = NewTask {
                design,
                draft,
                rows: &rows,
                dropped,
                inputs: &names,
                gaps: &schema.gaps(),
                targets: &schema.targets,
            };
            let check = Check::of(self.learner(), &task, Effort::Full).map_err(raised)?;
            Ok((check, names))
        })?;
        let held: Vec<String> =
            conditions.iter().filter(|c| c.holds(&check)).map(ToString::to_string).collect();
        let dict = as_dict(py, &check, &names, &schema.targets)?;
        dict.set_item("refused", held)?;
        Ok(dict)
    }

    /// Standard errors of all coefficients under the coding of the model, one list for each target, and the degrees of freedom; or why there are none.
    #[expect(clippy::type_complexity, reason = "two answers in one call")]
    fn standard_errors(
        &self,
        py: Python<'_>,
    ) -> PyResult<(Option<(Vec<Vec<Option<f64>>>, f64)>, Option<String>)> {
        let learner: &Learner = self.learner();
        outside(py, || {
            if learner.problem().predicts_classes() {
                let reason = "classes have no standard errors here";
                return Ok((None, Some(reason.to_owned())));
            }
            let covariance = Covariance::of(learner).map_err(raised)?;
            Ok(match covariance.missing() {
                Some(reason) => (None, Some(reason.to_string())),
                None => {
                    let errors = match self.model.contrasts() {
                        Some(contrasts) => covariance.contrast_errors(&contrasts),
                        None => covariance.standard_errors(),
                    };
                    (Some((errors, covariance.freedom())), None)
                }
            })
        })
    }
}

fn as_dict<'py>(
    py: Python<'py>,
    check: &Check,
    names: &[String],
    targets: &[String],
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("rows", check.rows)?;
    let findings = PyList::empty(py);
    for finding in &check.findings {
        let one = PyDict::new(py);
        one.set_item("kind", finding.kind.to_string())?;
        one.set_item("warning", finding.warning)?;
        one.set_item("text", &finding.text)?;
        findings.append(one)?;
    }
    dict.set_item("findings", findings)?;
    let drift = check.drift.map(|drift| {
        let one = PyDict::new(py);
        one.set_item("p_value", drift.p_value)?;
        one.set_item("cautious_p", drift.cautious_p)?;
        one.set_item("cost_to_memory", drift.cost_to_memory)?;
        one.set_item("cost_to_rows", drift.cost_to_rows)?;
        Ok::<_, PyErr>(one)
    });
    dict.set_item("drift", drift.transpose()?)?;
    let relation = check.relation.map(|relation| {
        let one = PyDict::new(py);
        one.set_item("found", relation.found)?;
        one.set_item("expected", relation.expected)?;
        one.set_item("p_value", relation.p_value)?;
        Ok::<_, PyErr>(one)
    });
    dict.set_item("relation", relation.transpose()?)?;
    let columns = PyList::empty(py);
    for input in &check.inputs {
        let one = PyDict::new(py);
        one.set_item("name", &names[input.input])?;
        one.set_item("mean_before", input.mean_before)?;
        one.set_item("mean", input.mean)?;
        one.set_item("sd_before", input.sd_before)?;
        one.set_item("sd", input.sd)?;
        one.set_item("shift", input.shift)?;
        one.set_item("p_value", input.p_value)?;
        one.set_item("unit", input.unit.map(|unit| (unit.factor, unit.offset)))?;
        columns.append(one)?;
    }
    dict.set_item("columns", columns)?;
    let outliers = PyList::empty(py);
    for row in &check.found.worst {
        let one = PyDict::new(py);
        one.set_item("row", row.row)?;
        one.set_item("size", row.size)?;
        one.set_item("reason", row.reason.words(row.size, names, targets))?;
        outliers.append(one)?;
    }
    dict.set_item("outliers", outliers)?;
    dict.set_item("beyond", check.found.beyond)?;
    dict.set_item("new_categories", check.new_categories.clone())?;
    dict.set_item("new_classes", check.new_classes.clone())?;
    dict.set_item("repeats", &check.repeats)?;
    if let Some(e) = &check.found.evaluation {
        let score = PyDict::new(py);
        if e.is_of_classes() {
            score.set_item("accuracy", e.accuracy())?;
            score.set_item("log_loss", e.log_loss())?;
        } else {
            score.set_item("rmse", e.mse().sqrt())?;
            score.set_item("r2", e.r2())?;
        }
        dict.set_item("score", score)?;
    }
    Ok(dict)
}
