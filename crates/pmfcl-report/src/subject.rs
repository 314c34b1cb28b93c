//! What a page is about.

use pmfcl::{ClassLoss, Classifier, Learner};

use crate::error::ReportError;

/// A model and the names it needs to be shown to people.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What the page is called, such as the model's file name.
    pub title: &'a str,
    /// The learner; for a classifier the one inside it ([`Classifier::learner`]).
    pub learner: &'a Learner,
    /// The classifier, where the model is one.
    pub classifier: Option<&'a Classifier>,
    /// Names of the design columns, without the intercept.
    pub features: &'a [String],
    /// Names of the targets; for a classifier its classes.
    pub targets: &'a [String],
}

impl Subject<'_> {
    /// One name for each column and target of the model?
    pub(crate) fn check(&self) -> Result<(), ReportError> {
        let theta = &self.learner.model()?.theta;
        let columns = theta.width() - usize::from(self.learner.settings().intercept);
        let targets = match self.classifier {
            Some(classifier) => classifier.classes().len(),
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

    /// What the losses of this model mean.
    pub(crate) fn kind(&self) -> Kind {
        match self.classifier.map(|c| c.settings().loss) {
            Some(ClassLoss::Squared) => Kind::Indicators,
            Some(ClassLoss::Gaussian) => Kind::Gaussian,
            Some(ClassLoss::Logistic) => Kind::Logistic,
            None if learns_in_chunks(self.learner) => Kind::Squared,
            None => Kind::Bounded,
        }
    }
}

/// Squared loss can be learned in chunks; a loss that is only bounded cannot.
fn learns_in_chunks(learner: &Learner) -> bool {
    let (Some(design), Ok(model)) = (learner.design(), learner.model()) else { return true };
    let row = vec![0.0; design.inputs()];
    pmfcl::Rows::new(&row, design.inputs())
        .is_ok_and(|rows| learner.begin(&rows, model.theta.targets()).is_ok())
}

/// What is minimised, and so what the numbers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Regression with squared loss: everything is exact.
    Squared,
    /// Regression with another loss: the summaries are quadratic bounds of it.
    Bounded,
    /// Least squares on 0/1 targets, one for each class.
    Indicators,
    /// Linear discriminants; fronts and conflicts are those of least squares on the same summaries.
    Gaussian,
    /// Log-loss by quadratic bounds.
    Logistic,
}

impl Kind {
    /// The loss in a few words, for the head of the page.
    pub(crate) fn loss(self) -> &'static str {
        match self {
            Self::Squared => "squared loss",
            Self::Bounded => "loss bounded by quadratics",
            Self::Indicators => "squared loss on 0/1 classes",
            Self::Gaussian => "gaussian: linear discriminants",
            Self::Logistic => "log-loss by quadratic bounds",
        }
    }

    /// What one number of loss is.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Squared => "Loss is half the mean squared error, summed over targets.",
            Self::Bounded => {
                "The summaries bound the loss from above; what is shown are these bounds."
            }
            Self::Indicators => "Loss is half the mean squared error of the 0/1 class indicators.",
            Self::Gaussian => {
                "Loss is half the squared Mahalanobis distance of a row to the mean of its class, plus \
                 the log-loss of the class shares, averaged over rows: the negative log-likelihood of \
                 row and class without the part that depends on units. It is near half the number of \
                 features however well the classes are told apart, so look at the forgetting."
            }
            Self::Logistic => {
                "The summaries bound the log-loss from above; what is shown are these bounds, \
                 never the log-loss itself."
            }
        }
    }

    /// What a loss is called on an axis.
    pub(crate) fn axis(self) -> &'static str {
        match self {
            Self::Squared | Self::Indicators | Self::Gaussian => "loss",
            Self::Bounded => "bound on the loss",
            Self::Logistic => "bound on the log-loss",
        }
    }

    /// What forgetting is called: itself, or a bound on it.
    pub(crate) fn forgetting(self) -> &'static str {
        if self.exact() { "forgetting" } else { "bound on forgetting" }
    }

    /// What a loss on fronts and in conflicts is called.
    pub(crate) fn front_loss(self) -> &'static str {
        if self.exact() { "loss" } else { "bound on the loss" }
    }

    /// Where fronts and conflicts are not those of the model's own loss: what they are.
    pub(crate) fn stands_in(self) -> Option<&'static str> {
        match self {
            Self::Squared | Self::Indicators => None,
            Self::Bounded => {
                Some("These are losses of the quadratic upper bounds, not of the loss itself.")
            }
            Self::Gaussian => Some(
                "The discriminants have no such losses, so these are those of least squares on \
                 0/1 class indicators, solved from the same summaries: a stand-in.",
            ),
            Self::Logistic => Some(
                "These are losses of the quadratic upper bounds of the log-loss, not log-losses.",
            ),
        }
    }

    /// Whether losses are values and not bounds.
    pub(crate) fn exact(self) -> bool {
        matches!(self, Self::Squared | Self::Indicators | Self::Gaussian)
    }

    /// Whether a loss of zero is the best there could be, so that shares of a loss mean something. A gaussian loss
    /// measures rows by their own covariance: its level is the number of features, not the fit.
    pub(crate) fn has_zero(self) -> bool {
        self != Self::Gaussian
    }

    /// Whether rows are noise around one line, so that tests and intervals mean something.
    pub(crate) fn testable(self) -> bool {
        matches!(self, Self::Squared | Self::Indicators | Self::Gaussian)
    }
}
