//! A learner or classifier with the names of its columns.

use pmfcl::{Classifier, Learner};

use crate::schema::Schema;

/// What was learned.
#[derive(Debug, Clone)]
pub enum Learned {
    /// Regression by squared loss.
    Regression(Box<Learner>),
    /// Classification.
    Classification(Box<Classifier>),
}

/// A model: what was learned, and what its columns are called.
#[derive(Debug, Clone)]
pub struct Model {
    /// Columns, inputs, targets.
    pub schema: Schema,
    /// The learner or classifier.
    pub learned: Learned,
}

impl Model {
    /// The learner that holds the summaries.
    pub fn learner(&self) -> &Learner {
        match &self.learned {
            Learned::Regression(learner) => learner,
            Learned::Classification(classifier) => classifier.learner(),
        }
    }

    /// The classifier, where it is one.
    pub fn classifier(&self) -> Option<&Classifier> {
        match &self.learned {
            Learned::Regression(_) => None,
            Learned::Classification(classifier) => Some(classifier),
        }
    }

    /// `squared`, `gaussian` or `logistic`.
    pub fn loss(&self) -> &'static str {
        self.classifier().map_or("squared", |c| c.settings().loss.name())
    }

    /// What the columns of the parameters stand for: targets, or classes.
    pub fn outputs(&self) -> &[String] {
        self.classifier().map_or(&self.schema.targets, |c| c.classes())
    }

    /// Names of the design columns, the intercept left out.
    pub fn features(&self) -> Vec<String> {
        let inputs = self.schema.features();
        match self.learner().design() {
            Some(design) => design.map().names(&inputs),
            None => inputs,
        }
    }

    /// Bytes of the memory.
    pub fn state_bytes(&self) -> usize {
        self.classifier()
            .map_or_else(|| self.learner().state_bytes(), pmfcl::Classifier::state_bytes)
    }
}
