//! The one trait.

use crate::task::Task;

/// What a method holds between tasks, in addition to the parameters it predicts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Numbers, of whatever type.
    pub numbers: usize,
    /// Bytes in the smallest type that holds them without loss (pixels are one byte).
    pub bytes: usize,
    /// Examples of past tasks among them: rows that were seen and could be shown again.
    pub examples: usize,
}

impl Kept {
    /// Numbers that published implementations hold in single precision: they count four bytes, in their favour.
    pub(crate) fn singles(numbers: usize) -> Self {
        Self { numbers, bytes: 4 * numbers, examples: 0 }
    }

    /// Numbers that are worth nothing in single precision.
    pub(crate) fn doubles(numbers: usize) -> Self {
        Self { numbers, bytes: 8 * numbers, examples: 0 }
    }
}

/// A way to learn tasks one after the other.
pub trait Method: Send {
    /// What to call it in a table, with what tells it from its siblings: `ER 200`.
    fn name(&self) -> String;

    /// Learns one more task.
    fn learn(&mut self, task: &Task);

    /// Outputs for `rows` rows of inputs: scores of classes or predicted values, row after row.
    fn outputs(&self, x: &[f64], rows: usize) -> Vec<f64>;

    /// What is held between tasks.
    fn kept(&self) -> Kept;

    /// The parameters where they can be compared with another linear model's: inputs × outputs, row after row, and
    /// the intercepts last.
    fn linear(&self) -> Option<Vec<f64>> {
        None
    }
}
