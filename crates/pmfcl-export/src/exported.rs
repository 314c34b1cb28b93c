//! What goes out: a model, the names of its inputs, and what its outputs mean.

use pmfcl::{ClassLoss, Classifier, Design, Theta};

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
}

impl Input {
    /// Its name among the features: `hours`, `season=spring`.
    pub fn name(&self) -> String {
        match self {
            Self::Number(name) => name.clone(),
            Self::Category { column, value } => format!("{column}={value}"),
        }
    }
}

/// What the outputs of a model are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Output<'a> {
    /// Numbers; one name for each column of θ.
    Targets(&'a [String]),
    /// Classes.
    Classes {
        /// Their names, in order.
        classes: &'a [String],
        /// How scores become probabilities.
        rule: Rule,
    },
}

/// How scores φ(x)ᵀθ become classes and probabilities.
///
/// The class is that of the largest score, the first where several are equal. A class without rows scores −∞.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// Fitted indicators, clipped to [0, 1] and divided by their sum; equal shares where that is 0. A class without
    /// rows has a column of zeros.
    Squared,
    /// Softmax of the discriminants over a temperature. A class without rows has an intercept of −10³⁰⁰.
    Gaussian {
        /// The temperature.
        temperature: f64,
    },
    /// Softmax of log-odds. Two classes share one column: the second against the first, which scores 0.
    Logistic,
}

/// Intercepts at or below this belong to classes without rows.
const NEVER: f64 = -1e300;

impl Rule {
    /// The rule of a classifier.
    pub fn of(classifier: &Classifier) -> Self {
        match classifier.settings().loss {
            ClassLoss::Squared => Self::Squared,
            ClassLoss::Gaussian => Self::Gaussian { temperature: classifier.temperature() },
            ClassLoss::Logistic => Self::Logistic,
        }
    }

    /// Name of the loss.
    pub fn loss(self) -> &'static str {
        match self {
            Self::Squared => ClassLoss::Squared.name(),
            Self::Gaussian { .. } => ClassLoss::Gaussian.name(),
            Self::Logistic => ClassLoss::Logistic.name(),
        }
    }

    /// Columns of θ for so many classes.
    fn columns(self, classes: usize) -> usize {
        if self == Self::Logistic && classes == 2 { 1 } else { classes }
    }

    /// Whether a column is that of a class without rows.
    fn is_absent(self, column: &[f64]) -> bool {
        match self {
            Self::Squared => column.iter().all(|v| v.abs() <= 0.0),
            Self::Gaussian { .. } => column[0] <= NEVER,
            Self::Logistic => false,
        }
    }
}

/// A model on its way out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exported<'a> {
    /// Its name.
    pub name: &'a str,
    /// Name of the loss it was learned with.
    pub loss: &'a str,
    /// Its inputs, in order.
    pub inputs: &'a [Input],
    /// From inputs to columns.
    pub design: &'a Design,
    /// The parameters.
    pub theta: &'a Theta,
    /// What the outputs are.
    pub output: Output<'a>,
}

impl<'a> Exported<'a> {
    /// A regression, learned with squared loss; set [`Exported::loss`] where it was another. Its outputs are those of
    /// [`Learner::predict`](pmfcl::Learner::predict): the linear predictor.
    ///
    /// # Errors
    /// When names and model differ in number, or a parameter is not finite.
    pub fn regression(
        name: &'a str,
        inputs: &'a [Input],
        design: &'a Design,
        theta: &'a Theta,
        targets: &'a [String],
    ) -> Result<Self, ExportError> {
        let output = Output::Targets(targets);
        let exported = Self { name, loss: "squared", inputs, design, theta, output };
        exported.check()?;
        Ok(exported)
    }

    /// A classifier.
    ///
    /// # Errors
    /// When it has learned nothing, when names and model differ in number, or a parameter is not finite.
    pub fn classification(
        name: &'a str,
        inputs: &'a [Input],
        classifier: &'a Classifier,
    ) -> Result<Self, ExportError> {
        let theta = &classifier.model()?.theta;
        let design = classifier.learner().design().ok_or(pmfcl::Error::NotLearned)?;
        let rule = Rule::of(classifier);
        let output = Output::Classes { classes: classifier.classes(), rule };
        let exported = Self { name, loss: rule.loss(), inputs, design, theta, output };
        exported.check()?;
        Ok(exported)
    }

    /// Whether all parts fit together. The fields are open, so every format asks again.
    pub(crate) fn check(&self) -> Result<(), ExportError> {
        let count = |what, expected, found| {
            if expected == found {
                return Ok(());
            }
            Err(ExportError::Count { model: self.name.to_owned(), what, expected, found })
        };
        count("inputs", self.design.inputs(), self.inputs.len())?;
        count("columns, the intercept included,", self.design.width(), self.theta.width())?;
        match self.output {
            Output::Targets(targets) => count("targets", self.theta.targets(), targets.len())?,
            Output::Classes { classes, rule } => {
                count("columns of scores", self.theta.targets(), rule.columns(classes.len()))?;
            }
        }
        let cells = self.theta.cells();
        if let Some(at) = cells.iter().position(|v| !v.is_finite()) {
            let (row, column) = (at % self.theta.width(), at / self.theta.width());
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

    /// Coefficients of column `k` of θ, the intercept left out.
    pub(crate) fn coefficients(&self, k: usize) -> &'a [f64] {
        &self.theta.column(k)[usize::from(self.design.intercept())..]
    }

    /// The intercept of each column of θ, where there is one.
    pub(crate) fn intercepts(&self) -> Option<Vec<f64>> {
        let theta = self.theta;
        self.design.intercept().then(|| (0..theta.targets()).map(|k| theta.column(k)[0]).collect())
    }

    /// For each column of θ, whether it is that of a class without rows.
    pub(crate) fn absent(&self) -> Vec<bool> {
        (0..self.theta.targets())
            .map(|k| match self.output {
                Output::Targets(_) => false,
                Output::Classes { rule, .. } => rule.is_absent(self.theta.column(k)),
            })
            .collect()
    }
}
