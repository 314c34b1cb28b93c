//! A learner with the names of its columns.

use pmfcl::Learner;

use crate::schema::Schema;

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

    /// Bytes of the memory.
    pub fn state_bytes(&self) -> usize {
        self.learner.state_bytes()
    }
}
