//! `Model`: a learner or classifier with the names of its columns, as a model file holds it.

use numpy::{PyArray1, PyArray2, PyReadonlyArray1};
use pmfcl::classify::Temperature;
use pmfcl::{
    ClassLoss, Classifier, ClassifierSettings, Design, Error, Labels, Learner, Rows, Settings,
};
use pmfcl_file::{Learned, Model, Schema, Word};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::{Feed, Targets, outside, raised, raised_in};
use crate::file::KnownFiles;
use crate::summary::{PySummary, all_threads};
use crate::table::{Table, numbers, table};

/// Rows predicted between two looks at Ctrl-C.
const BLOCK: usize = 1 << 14;

/// A model and the names of its inputs, for messages.
#[pyclass(name = "Model", module = "pmfcl._core")]
pub(crate) struct PyModel {
    pub(crate) model: Model,
    pub(crate) features: Vec<String>,
    pub(crate) files: KnownFiles,
}

impl PyModel {
    pub(crate) fn new(model: Model) -> Self {
        Self { features: model.schema.features(), model, files: KnownFiles::default() }
    }

    /// What the core says, with names in place of numbers.
    fn raised(&self) -> impl Fn(Error) -> PyErr + '_ {
        |error| raised_in(error, &self.features)
    }

    /// Learns a task whose rows are looked at once.
    fn learn_summary_of(
        &mut self,
        py: Python<'_>,
        name: &str,
        feed: &Feed<'_>,
        classes: &[String],
        weight: f64,
    ) -> PyResult<()> {
        self.free(name)?;
        let learner = self.model.learner();
        let design = learner.design_for(&feed.x).map_err(self.raised())?;
        let s = learner.settings();
        let summary =
            feed.summarize(py, &design, s.accumulator, s.threads)?.map_err(self.raised())?;
        self.absorb(py, name, design, summary, classes, weight)
    }

    fn absorb(
        &mut self,
        py: Python<'_>,
        name: &str,
        design: Design,
        summary: pmfcl::Summary,
        classes: &[String],
        weight: f64,
    ) -> PyResult<()> {
        let learned = &mut self.model.learned;
        outside(py, || {
            match learned {
                Learned::Regression(learner) => {
                    learner.learn_summarized(name, design, summary, weight)
                }
                Learned::Classification(classifier) => {
                    classifier.learn_summarized(name, design, &summary, classes, weight)
                }
            }
            .map(|_| ())
            .map_err(raised)
        })
    }

    /// A name that is taken is told before any row is looked at.
    fn free(&self, name: &str) -> PyResult<()> {
        if self.model.learner().names().any(|known| known == name) {
            return Err(raised(Error::DuplicateTask { name: name.to_owned() }));
        }
        Ok(())
    }

    pub(crate) fn classifier(&self) -> PyResult<&Classifier> {
        self.model.classifier().ok_or_else(|| PyTypeError::new_err("this model predicts numbers"))
    }

    /// Answers for blocks of rows, end to end.
    fn in_blocks<T: Send>(
        &self,
        py: Python<'_>,
        x: Rows<'_>,
        answer: impl Fn(Rows<'_>) -> Result<Vec<T>, Error> + Sync,
    ) -> PyResult<Vec<T>> {
        let mut all = Vec::new();
        let mut from = 0;
        loop {
            let to = (from + BLOCK).min(x.len());
            let block = outside(py, || Ok(answer(x.slice(from, to))))?.map_err(self.raised())?;
            if from == 0 && to == x.len() {
                return Ok(block);
            }
            all.extend(block);
            if to == x.len() {
                return Ok(all);
            }
            py.check_signals()?;
            from = to;
        }
    }
}

/// A word among the settings.
pub(crate) fn word<W: Word>(settings: &Bound<'_, PyDict>, name: &str) -> PyResult<W> {
    let text: String = required(settings, name)?.extract()?;
    W::parse(&text).map_err(|e| PyValueError::new_err(format!("{name}: {e}")))
}

fn required<'py>(settings: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = settings.get_item(name)?;
    found.ok_or_else(|| PyTypeError::new_err(format!("the setting `{name}` is missing")))
}

fn truth(settings: &Bound<'_, PyDict>, name: &str) -> PyResult<bool> {
    required(settings, name)?.is_truthy()
}

fn plain(settings: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let threads: Option<usize> = required(settings, "threads")?.extract()?;
    Ok(Settings {
        basis: word(settings, "basis")?,
        intercept: truth(settings, "fit_intercept")?,
        ridge: word(settings, "ridge")?,
        standardize: truth(settings, "standardize")?,
        memory: word(settings, "memory")?,
        accumulator: word(settings, "accumulator")?,
        prefer: word(settings, "prefer")?,
        threads: threads.unwrap_or_else(all_threads).max(1),
    })
}

#[pymethods]
impl PyModel {
    /// A regression that has learned nothing.
    #[staticmethod]
    fn regression(
        features: Vec<String>,
        targets: Vec<String>,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let learner = Learner::new(plain(settings)?).map_err(raised)?;
        let learned = Learned::Regression(Box::new(learner));
        Ok(Self::new(Model { schema: Schema::numbers(&features, &targets), learned }))
    }

    /// A classifier that has learned nothing.
    #[staticmethod]
    fn classification(
        features: Vec<String>,
        target: String,
        settings: &Bound<'_, PyDict>,
        classes: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let plain = plain(settings)?;
        let settings = ClassifierSettings {
            loss: word(settings, "loss")?,
            basis: plain.basis,
            intercept: plain.intercept,
            ridge: plain.ridge,
            standardize: plain.standardize,
            shrinkage: word(settings, "shrinkage")?,
            curvature: word(settings, "curvature")?,
            scheme: word(settings, "scheme")?,
            certify: truth(settings, "certify")?,
            temperature: word(settings, "temperature")?,
            memory: plain.memory,
            accumulator: plain.accumulator,
            prefer: plain.prefer,
            classes,
            threads: plain.threads,
        };
        let classifier = Classifier::new(settings).map_err(raised)?;
        let learned = Learned::Classification(Box::new(classifier));
        Ok(Self::new(Model { schema: Schema::numbers(&features, &[target]), learned }))
    }

    /// Learns a task of numbers.
    fn learn(
        &mut self,
        py: Python<'_>,
        name: &str,
        x: Table<'_>,
        y: Table<'_>,
        sample_weight: Option<PyReadonlyArray1<'_, f64>>,
        weight: f64,
    ) -> PyResult<()> {
        if self.model.classifier().is_some() {
            return Err(PyTypeError::new_err("this model predicts classes"));
        }
        let weights = numbers(sample_weight.as_ref())?;
        let feed = Feed { x: x.rows()?, targets: Targets::Numbers(y.rows()?), weights };
        self.learn_summary_of(py, name, &feed, &[], weight)
    }

    /// Learns a task of classes: a code for each row, a name for each code.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call a task keeps the way from Python short"
    )]
    fn learn_classes(
        &mut self,
        py: Python<'_>,
        name: &str,
        x: Table<'_>,
        codes: PyReadonlyArray1<'_, u32>,
        names: Vec<String>,
        sample_weight: Option<PyReadonlyArray1<'_, f64>>,
        weight: f64,
    ) -> PyResult<()> {
        let settings = self.classifier()?.settings();
        let (loss, temperature) = (settings.loss, settings.temperature);
        let labels = Labels::from_codes(codes.as_slice()?, &names).map_err(raised)?;
        let (x, weights) = (x.rows()?, numbers(sample_weight.as_ref())?);
        if loss != ClassLoss::Logistic && temperature != Temperature::Auto {
            let targets = Targets::Classes(labels.codes(), labels.names().len());
            return self.learn_summary_of(
                py,
                name,
                &Feed { x, targets, weights },
                labels.names(),
                weight,
            );
        }
        // Log-loss and the temperature look at rows several times.
        self.free(name)?;
        let Learned::Classification(classifier) = &mut self.model.learned else {
            return Err(PyTypeError::new_err("this model predicts numbers"));
        };
        let done = outside(py, || {
            Ok(classifier.learn_weighted(name, x, &labels, weights, weight).map(|_| ()))
        })?;
        py.check_signals()?;
        done.map_err(self.raised())
    }

    /// Learns a task summarized elsewhere; the first one says how many inputs there are.
    fn learn_summary(
        &mut self,
        py: Python<'_>,
        name: &str,
        summary: PySummary,
        classes: Vec<String>,
        weight: f64,
    ) -> PyResult<()> {
        self.free(name)?;
        let learner = self.model.learner();
        let design = match learner.design() {
            Some(design) => design.clone(),
            None => {
                let s = learner.settings();
                let inputs = self.features.len();
                if s.basis != pmfcl::Basis::default() {
                    return Err(PyValueError::new_err(
                        "the basis is not fixed yet; learn a task with rows first",
                    ));
                }
                let map = s.basis.fix(&[], inputs).map_err(|e| raised(e.into()))?;
                Design::new(map, s.intercept)
            }
        };
        if design.width() != summary.summary.width() {
            return Err(raised(Error::Shape {
                what: "the summary",
                unit: "columns",
                expected: design.width(),
                found: summary.summary.width(),
            }));
        }
        self.absorb(py, name, design, summary.summary, &classes, weight)
    }

    /// Predicted numbers, `(rows, targets)`.
    fn predict<'py>(&self, py: Python<'py>, x: Table<'_>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let learner = self.model.learner();
        let cells = self.in_blocks(py, x.rows()?, |x| learner.predict(x))?;
        table(py, cells, learner.model().map_err(raised)?.theta.targets())
    }

    /// Scores of every class, `(rows, classes)`.
    fn decision<'py>(&self, py: Python<'py>, x: Table<'_>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let classifier = self.classifier()?;
        let cells = self.in_blocks(py, x.rows()?, |x| classifier.decision(x))?;
        table(py, cells, classifier.classes().len())
    }

    /// Probabilities of every class, `(rows, classes)`.
    fn predict_proba<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let classifier = self.classifier()?;
        let cells = self.in_blocks(py, x.rows()?, |x| classifier.predict_proba(x))?;
        table(py, cells, classifier.classes().len())
    }

    /// The class of every row, as its place in `classes()`.
    fn predict_codes<'py>(
        &self,
        py: Python<'py>,
        x: Table<'_>,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let classifier = self.classifier()?;
        let codes = self.in_blocks(py, x.rows()?, |x| classifier.predict_codes(x))?;
        Ok(PyArray1::from_vec(py, codes))
    }

    /// Classes by name, in the order of columns.
    fn classes(&self) -> PyResult<Vec<String>> {
        Ok(self.classifier()?.classes().to_vec())
    }
}
