//! What people are told about a problem.

/// Texts and facts about a problem, for reports, tables and plots.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)] // for report
pub struct Description {
    /// The loss in a few words.
    pub title: &'static str,
    /// What one number of loss is.
    pub meaning: &'static str,
    /// What a loss is called on an axis.
    pub axis: &'static str,
    /// What the least loss of a task is called.
    pub least: &'static str,
    /// Where fronts and conflicts are not those of the problem's own loss: what they are.
    pub stand_in: Option<&'static str>,
    /// What the coefficients are, where that needs a word.
    pub coefficients: Option<&'static str>,
    /// What the gap between mean loss and mean least loss over time is.
    pub timeline_gap: &'static str,
    /// What tests between tasks are made on, where that is not the problem's own loss.
    pub test_of: Option<&'static str>,
    /// What to keep in mind about these tests, where that needs a word.
    pub test_note: Option<&'static str>,
    /// What is shrunk instead of a ridge on coefficients; by how much is the fact `shrinkage`.
    pub shrunk: Option<&'static str>,
    /// What the numbers of a table of tasks mean, where that needs a word.
    pub table_note: Option<&'static str>,
    /// Why there are no standard errors, where there are none.
    pub no_errors: Option<&'static str>,
    /// Whether the loss of a model on a task is known, and not only a bound of it.
    pub exact: bool,
    /// Whether a loss of zero is the best there could be, so that shares of a loss mean something.
    pub has_zero: bool,
    /// Whether rows are noise around one line, so that tests and intervals mean something.
    pub testable: bool,
    /// Whether fronts, conflicts and models over time are those of least squares on the same summaries instead of the
    /// problem's own.
    pub least_squares_stand_in: bool,
}

impl Description {
    /// The same where some tasks are known by an upper bound of their loss alone, such as a client's diagonal update.
    #[must_use]
    pub fn with_bounds(self) -> Self {
        if !self.exact {
            return self;
        }
        Self {
            meaning: "Some tasks are known by an upper bound of their loss alone; for these the bounds are shown.",
            axis: "bound on the loss",
            stand_in: Some(
                "For some tasks these are losses of an upper bound, not of the loss itself.",
            ),
            timeline_gap: "The gap between the two lines bounds the mean forgetting from above.",
            no_errors: Some("Bounds say nothing about noise, so there are no standard errors."),
            exact: false,
            testable: false,
            ..self
        }
    }
}
