//! What can go wrong on the way to a page.

/// Why there is no page, or no front.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The model could not answer.
    #[error(transparent)]
    Model(#[from] pmfcl::Error),
    /// A list of names does not go with the model.
    #[error("{found} names of {what} were given, but the model has {expected}; give one for each")]
    Names {
        /// `"features"` or `"targets"`.
        what: &'static str,
        /// How many the model has.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// A side of a front has no task, or shares one with the other.
    #[error("a front needs two groups of tasks: {reason}")]
    Group {
        /// What is wrong with the groups, and what to do.
        reason: String,
    },
    /// The numbers of the page could not be written.
    #[error("the numbers of the page could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}
