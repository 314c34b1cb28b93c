//! What a page is about.

use pmfcl::Learner;
use pmfcl::report::inference::Contrast;

use crate::error::ReportError;

/// A model and the names it needs to be shown to people.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What the page is called, such as the model's file name.
    pub title: &'a str,
    /// The learner.
    pub learner: &'a Learner,
    /// Names of the design columns, without the intercept.
    pub features: &'a [String],
    /// Names of the values that are predicted; for classes these, in sorted order ([`Learner::classes`]).
    pub targets: &'a [String],
    /// What coefficients of categories are relative to, where there are any.
    pub coding: Option<Coded<'a>>,
}

/// What coefficients say of categories.
#[derive(Debug, Clone, Copy)]
pub struct Coded<'a> {
    /// Each coefficient as a sum of parameters, the intercept first; `None` where parameters speak for themselves.
    pub contrasts: Option<&'a [Contrast]>,
    /// In words.
    pub words: &'a str,
}

impl Subject<'_> {
    /// Refuses names that are not one for each column and target of the model.
    pub(crate) fn check(&self) -> Result<(), ReportError> {
        let theta = &self.learner.solution()?.theta;
        let columns = theta.width() - usize::from(self.learner.settings().intercept);
        let targets = match self.learner.outputs().classes() {
            Some(classes) => classes.len(),
            None => theta.targets(),
        };
        for (what, expected, found) in
            [("features", columns, self.features.len()), ("targets", targets, self.targets.len())]
        {
            if expected != found {
                return Err(ReportError::Names { what, expected, found });
            }
        }
        Ok(())
    }
}
