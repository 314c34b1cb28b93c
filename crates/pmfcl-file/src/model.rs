//! A learner with the names of its columns.

use pmfcl::report::inference::Contrast;
use pmfcl::{Learner, Theta};

use crate::schema::{Coding, ColumnKind, Input, MissingValues, Schema};

/// A model: a learner, and what its columns are called.
#[derive(Debug, Clone)]
pub struct Model {
    /// Columns, inputs, targets.
    pub schema: Schema,
    /// What was learned.
    pub learner: Learner,
}

impl Model {
    /// The loss with its parameters, such as `huber:1.5`.
    pub fn loss(&self) -> String {
        self.learner.problem().to_string()
    }

    /// Names of what is predicted: the targets, or the classes in sorted order.
    pub fn outputs(&self) -> &[String] {
        if self.learner.problem().predicts_classes() {
            self.learner.classes()
        } else {
            &self.schema.targets
        }
    }

    /// Names of the design columns, without the intercept.
    pub fn features(&self) -> Vec<String> {
        let inputs = self.schema.features();
        match self.learner.design() {
            Some(design) => design.map().names(&inputs),
            None => inputs,
        }
    }

    /// Lets the model learn rows that miss values of features: from the start, or later, since the rows before missed none.
    ///
    /// # Errors
    /// When it learns them in another way already, the basis is not linear, or the mean cannot be known: without an intercept, and
    /// for losses that are bounded.
    pub fn set_missing(&mut self, wanted: MissingValues) -> Result<(), pmfcl::Error> {
        let (known, settings) = (self.schema.missing, self.learner.settings());
        let mean = wanted == MissingValues::Mean;
        let reason = if known == wanted || !wanted.are_learned() {
            return Ok(());
        } else if known.are_learned() {
            format!("the model was made with `{known}`; leave it out, or make another model")
        } else if settings.basis != pmfcl::Basis::default() {
            format!(
                "gaps are columns that appear with the first of them, and the basis {} is fixed by its first rows; take the linear \
                 basis, fill the gaps before, or drop the rows",
                settings.basis
            )
        } else if mean && !settings.intercept {
            "a model without an intercept keeps no sums of its columns; give it one, or take `indicator`".to_owned()
        } else if mean && !self.learner.problem().description().exact {
            format!(
                "{} keeps bounds, in which rows have other weights than their own; take squared or gaussian loss, or `indicator`",
                self.loss()
            )
        } else {
            self.schema.missing = wanted;
            return Ok(());
        };
        let operation =
            if mean { "missing values by their mean" } else { "an indicator of missing values" };
        Err(pmfcl::Error::Unsupported { operation, reason })
    }

    /// Drops the names of categories that no row in memory has, after rows were removed; how many there were.
    ///
    /// # Errors
    /// When numbers leave the range of double precision.
    pub fn purge_categories(&mut self) -> Result<usize, pmfcl::Error> {
        let mut unused = self.learner.unused_inputs();
        let named = |j: &usize| {
            matches!(self.schema.inputs[*j], Input::Category { .. } | Input::Missing { .. })
        };
        unused.retain(named);
        if unused.is_empty() || unused.len() == self.schema.inputs.len() {
            return Ok(0);
        }
        self.learner.drop_inputs(&unused)?;
        let mut at = 0..;
        self.schema.inputs.retain(|_| at.next().is_some_and(|j| !unused.contains(&j)));
        Ok(unused.len())
    }

    /// What each coefficient says under the coding of the model, the intercept first: a sum of parameters. `None` where parameters
    /// speak for themselves.
    ///
    /// A row has one category of each column, so a constant may move from all categories of a column to the intercept: coefficients
    /// change, and predictions and the penalty do not.
    pub fn contrasts(&self) -> Option<Vec<Contrast>> {
        if self.schema.coding == Coding::Onehot || self.check_coding().is_err() {
            return None;
        }
        let single = |j: usize| vec![(j, 1.0)];
        let mut contrasts: Vec<Contrast> = (0..=self.schema.inputs.len()).map(single).collect();
        for column in 0..self.schema.columns.len() {
            // Gaps that have a coefficient of their own are one category more.
            let own = self.schema.missing == MissingValues::Indicator;
            let levels: Vec<usize> = self
                .schema
                .inputs
                .iter()
                .enumerate()
                .filter(|(_, input)| match input {
                    Input::Category { column: at, .. } => *at == column,
                    Input::Missing { column: at } => own && *at == column,
                    Input::Value { .. } | Input::Part { .. } => false,
                })
                .map(|(at, _)| at + 1)
                .collect();
            let text = self.schema.columns[column].kind == ColumnKind::Text;
            let (true, Some(&first)) = (text, levels.first()) else { continue };
            let base: Contrast = match self.schema.coding {
                Coding::Reference => single(first),
                Coding::Onehot | Coding::Sum => {
                    levels.iter().map(|&j| (j, 1.0 / levels.len() as f64)).collect()
                }
            };
            contrasts[0].extend(&base);
            for &level in &levels {
                contrasts[level].extend(base.iter().map(|(j, factor)| (*j, -factor)));
            }
        }
        Some(contrasts)
    }

    /// Refuses a coding where parameters are not those of inputs, or there is no intercept to move a constant to.
    ///
    /// # Errors
    /// As said.
    pub fn check_coding(&self) -> Result<(), pmfcl::Error> {
        let (coding, settings) = (self.schema.coding, self.learner.settings());
        let reason = if coding == Coding::Onehot {
            return Ok(());
        } else if settings.basis != pmfcl::Basis::default() {
            format!("the basis {} mixes columns; use the linear basis, or onehot", settings.basis)
        } else if !settings.intercept {
            "there is no intercept to hold what all categories share; use onehot".to_owned()
        } else {
            return Ok(());
        };
        Err(pmfcl::Error::Unsupported { operation: "this coding of categories", reason })
    }

    /// What coefficients of categories are relative to, in words; `None` where there are no categories.
    pub fn coding_words(&self) -> Option<String> {
        let schema = &self.schema;
        if !schema.has_text() {
            return None;
        }
        Some(match schema.coding {
            Coding::Onehot => "coding onehot: a category has the coefficient of its 0/1 column; differences between categories \
                 mean something, their level does not (pmfcl set --coding reference or sum)"
                .to_owned(),
            Coding::Reference => {
                let columns = schema.columns.iter().enumerate();
                let first = columns.filter_map(|(at, column)| {
                    let (value, _) = schema.categories(at).next()?;
                    Some(format!("{}={value}", column.name))
                });
                format!(
                    "coding reference: coefficients of categories are differences to {}, part of the intercept",
                    first.collect::<Vec<_>>().join(", ")
                )
            }
            Coding::Sum => "coding sum: coefficients of categories are differences to the mean of the categories of their \
                 column, part of the intercept"
                .to_owned(),
        })
    }

    /// Parameters as the coding of the model has them.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn coded_parameters(&self) -> Result<Theta, pmfcl::Error> {
        let theta = self.learner.parameters()?.theta;
        let Some(contrasts) = self.contrasts() else { return Ok(theta) };
        let mut coded = Theta::zeros(theta.width(), theta.targets());
        for k in 0..theta.targets() {
            let (from, to) = (theta.column(k), coded.column_mut(k));
            for (to, contrast) in to.iter_mut().zip(&contrasts) {
                *to = contrast.iter().map(|(j, factor)| factor * from[*j]).sum();
            }
        }
        Ok(coded)
    }

    /// Bytes of the memory.
    pub fn state_bytes(&self) -> usize {
        self.learner.state_bytes()
    }
}
