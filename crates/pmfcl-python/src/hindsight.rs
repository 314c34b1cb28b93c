//! Another mind: preference, ridge, shrinkage; a task taken out; a memory merged in.

use numpy::PyReadonlyArray1;
use pmfcl::classify::Shrinkage;
use pmfcl::{Error, Labels, Preference, Ridge, Rows};
use pmfcl_file::{Learned, Word};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::call::{Feed, Targets, outside, raised};
use crate::model::PyModel;
use crate::table::{Table, numbers};

impl PyModel {
    /// Changes what was learned, outside the lock.
    fn change(
        &mut self,
        py: Python<'_>,
        change: impl FnOnce(&mut Learned) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        let learned = &mut self.model.learned;
        outside(py, || change(learned).map_err(raised))
    }

    fn prefer_this(&mut self, py: Python<'_>, preference: Preference) -> PyResult<()> {
        self.change(py, |learned| match learned {
            Learned::Regression(learner) => learner.prefer(preference).map(|_| ()),
            Learned::Classification(classifier) => classifier.prefer(preference),
        })
    }
}

#[pymethods]
impl PyModel {
    /// A preference that goes by a word.
    fn prefer(&mut self, py: Python<'_>, word: &str) -> PyResult<()> {
        let preference = Preference::parse(word).map_err(PyValueError::new_err)?;
        self.prefer_this(py, preference)
    }

    /// Weights task by task.
    fn prefer_weights(&mut self, py: Python<'_>, weights: Vec<(String, f64)>) -> PyResult<()> {
        self.prefer_this(py, Preference::Chosen(weights))
    }

    /// The most some tasks may lose; the others keep their proportions.
    fn prefer_budget(&mut self, py: Python<'_>, budgets: Vec<(String, f64)>) -> PyResult<()> {
        self.change(py, |learned| match learned {
            Learned::Regression(learner) => learner.prefer_budgets(&budgets).map(|_| ()),
            Learned::Classification(classifier) => classifier.prefer_budgets(&budgets),
        })
    }

    fn set_ridge(&mut self, py: Python<'_>, ridge: &str, standardize: bool) -> PyResult<()> {
        let ridge = Ridge::parse(ridge).map_err(PyValueError::new_err)?;
        self.change(py, |learned| match learned {
            Learned::Regression(learner) => learner.set_ridge(ridge, standardize).map(|_| ()),
            Learned::Classification(classifier) => classifier.set_ridge(ridge, standardize),
        })
    }

    fn set_shrinkage(&mut self, py: Python<'_>, shrinkage: &str) -> PyResult<()> {
        let shrinkage = Shrinkage::parse(shrinkage).map_err(PyValueError::new_err)?;
        self.change(py, |learned| match learned {
            Learned::Regression(_) => Err(Error::Unsupported {
                operation: "shrinkage",
                reason: "a regression has no covariance; set the ridge".to_owned(),
            }),
            Learned::Classification(classifier) => classifier.set_shrinkage(shrinkage),
        })
    }

    fn unlearn(&mut self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.change(py, |learned| match learned {
            Learned::Regression(learner) => learner.unlearn(name),
            Learned::Classification(classifier) => classifier.unlearn(name),
        })
    }

    /// Takes a task out of folded memory, given its rows once more.
    fn unlearn_rows(
        &mut self,
        py: Python<'_>,
        name: &str,
        x: Table<'_>,
        y: Table<'_>,
        sample_weight: Option<PyReadonlyArray1<'_, f64>>,
    ) -> PyResult<()> {
        let learner = self.model.learner();
        let s = learner.settings();
        let design = learner.design().ok_or_else(|| raised(Error::NotLearned))?;
        let weights = numbers(sample_weight.as_ref())?;
        let feed = Feed { x: x.rows()?, targets: Targets::Numbers(y.rows()?), weights };
        let summary = feed.summarize(py, design, s.accumulator, s.threads)?.map_err(raised)?;
        self.change(py, |learned| match learned {
            Learned::Regression(learner) => learner.unlearn_summary(name, &summary),
            Learned::Classification(classifier) => classifier.unlearn_summary(name, &summary),
        })
    }

    /// The same for classes.
    fn unlearn_classes(
        &mut self,
        py: Python<'_>,
        name: &str,
        x: Table<'_>,
        codes: PyReadonlyArray1<'_, u32>,
        names: Vec<String>,
        sample_weight: Option<PyReadonlyArray1<'_, f64>>,
    ) -> PyResult<()> {
        let labels = Labels::from_codes(codes.as_slice()?, &names).map_err(raised)?;
        let (x, weights): (Rows<'_>, _) = (x.rows()?, numbers(sample_weight.as_ref())?);
        let Learned::Classification(classifier) = &mut self.model.learned else {
            return Err(PyTypeError::new_err("this model predicts numbers"));
        };
        outside(py, || classifier.unlearn_rows(name, x, &labels, weights).map_err(raised))
    }

    fn rename(&mut self, name: &str, new: &str) -> PyResult<()> {
        match &mut self.model.learned {
            Learned::Regression(learner) => learner.rename(name, new),
            Learned::Classification(classifier) => classifier.rename(name, new),
        }
        .map_err(raised)
    }

    /// Puts inputs elsewhere: input `i` becomes input `places[i]`.
    fn rearrange(&mut self, places: Vec<usize>) -> PyResult<()> {
        match &mut self.model.learned {
            Learned::Regression(learner) => learner.rearrange_inputs(&places, places.len()),
            Learned::Classification(classifier) => {
                classifier.rearrange_inputs(&places, places.len())
            }
        }
        .map_err(raised)
    }

    fn merge(&mut self, py: Python<'_>, other: &Self) -> PyResult<()> {
        let other = &other.model.learned;
        self.change(py, |learned| match (learned, other) {
            (Learned::Regression(a), Learned::Regression(b)) => a.merge(b),
            (Learned::Classification(a), Learned::Classification(b)) => a.merge(b),
            _ => Err(Error::Mismatch {
                what: "what is predicted",
                left: "numbers or classes here".to_owned(),
                right: "the other there".to_owned(),
            }),
        })
    }
}
