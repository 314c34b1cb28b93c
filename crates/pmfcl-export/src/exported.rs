//! What goes out: a model, and the names of its inputs and outputs.

use std::borrow::Cow;

use pmfcl::loss::Link;
use pmfcl::problem::{ClassRule, Response};
use pmfcl::{Design, Learner, learner::Parameters};

use crate::ExportError;

/// One input of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A column of numbers.
    Number(String),
    /// 1 where a column of text holds this value, else 0.
    Category {
        /// The column.
        column: String,
        /// The value.
        value: String,
    },
    /// 1 where a column holds nothing (NaN, an empty text); its other inputs are then 0.
    Missing {
        /// The column.
        column: String,
    },
}

impl Input {
    /// Its name among the features: `hours`, `season=spring`.
    pub fn name(&self) -> String {
        match self {
            Self::Number(name) => name.clone(),
            Self::Category { column, value } => format!("{column}={value}"),
            Self::Missing { column } => format!("{column} is missing"),
        }
    }
}

/// A model to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Exported<'a> {
    /// Its name.
    pub name: &'a str,
    /// The loss it was learned with, and its parameters: `huber:1.5`.
    pub loss: String,
    /// Its inputs, in order.
    pub inputs: &'a [Input],
    /// From inputs to columns.
    pub design: Cow<'a, Design>,
    /// The parameters, the classes, and how both become predictions.
    pub parameters: Parameters,
    /// Names of the values that are predicted; a model of classes has none.
    pub targets: &'a [String],
    /// The mean of every input over the rows learned, where gaps are filled with it; else empty.
    pub means: Vec<f64>,
}

impl<'a> Exported<'a> {
    /// The current model of a learner. `targets` names the values it predicts; for classes it is not used.
    ///
    /// # Errors
    /// When nothing has been learned, names and model differ in number, a parameter is not finite, or the formats have no way to
    /// write how the model predicts.
    pub fn of(
        name: &'a str,
        inputs: &'a [Input],
        learner: &'a Learner,
        targets: &'a [String],
    ) -> Result<Self, ExportError> {
        let (design, parameters) = learner.deployed()?;
        let design: Cow<'_, Design> = Cow::Owned(design);
        let targets = if parameters.classes.is_empty() { targets } else { &[] };
        let loss = learner.problem().to_string();
        let means = if design.fills().is_empty() { Vec::new() } else { learner.input_means()? };
        let exported = Self { name, loss, inputs, design, parameters, targets, means };
        exported.check()?;
        Ok(exported)
    }

    /// Whether all parts fit together. The fields are public, so every format checks again.
    pub(crate) fn check(&self) -> Result<(), ExportError> {
        let Parameters { theta, classes, response } = &self.parameters;
        let count = |what, expected, found| {
            if expected == found {
                return Ok(());
            }
            Err(ExportError::Count { model: self.name.to_owned(), what, expected, found })
        };
        if self.design.clip().is_some() {
            return Err(ExportError::Clipped { model: self.name.to_owned() });
        }
        count("inputs", self.design.inputs(), self.inputs.len())?;
        if !self.design.fills().is_empty() {
            count("means", self.design.inputs(), self.means.len())?;
        }
        count("columns, the intercept included,", self.design.width(), theta.width())?;
        match response {
            Response::Values { link: Link::Identity | Link::Exp, limits } => {
                count("targets", theta.targets(), self.targets.len())?;
                if !limits.is_empty() {
                    count("limits", theta.targets(), limits.len())?;
                }
            }
            Response::Classes {
                rule:
                    ClassRule::Clip
                    | ClassRule::Softmax { .. }
                    | ClassRule::RowTemperature(_)
                    | ClassRule::ClassCovariance(_),
                present,
                first_is_zero,
            } => {
                let columns = classes.len().saturating_sub(usize::from(*first_is_zero));
                count("columns of scores", theta.targets(), columns)?;
                if !present.is_empty() {
                    count("classes with or without rows", theta.targets(), present.len())?;
                }
            }
            other => {
                let (model, response) = (self.name.to_owned(), format!("{other:?}"));
                return Err(ExportError::Response { model, response });
            }
        }
        let cells = theta.cells();
        if let Some(at) = cells.iter().position(|v| !v.is_finite()) {
            let (row, column) = (at % theta.width(), at / theta.width());
            let model = self.name.to_owned();
            return Err(ExportError::NotFinite { model, row, column, value: cells[at] });
        }
        Ok(())
    }

    /// Names of the columns of the basis, the intercept left out.
    pub(crate) fn features(&self) -> Vec<String> {
        let inputs: Vec<String> = self.inputs.iter().map(Input::name).collect();
        self.design.map().names(&inputs)
    }

    /// Columns of parameters.
    pub(crate) fn columns(&self) -> usize {
        self.parameters.theta.targets()
    }

    /// Coefficients of a column of parameters, the intercept left out.
    pub(crate) fn coefficients(&self, k: usize) -> &[f64] {
        &self.parameters.theta.column(k)[usize::from(self.design.intercept())..]
    }

    /// The intercept of each column of parameters, where there is one.
    pub(crate) fn intercepts(&self) -> Option<Vec<f64>> {
        let theta = &self.parameters.theta;
        self.design.intercept().then(|| (0..theta.targets()).map(|k| theta.column(k)[0]).collect())
    }
}
