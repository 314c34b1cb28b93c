//! Losses of one row: a function of the linear predictor and the target.
//!
//! A loss states its value, its gradient and a curvature `c` such that
//!
//! ```text
//! ℓ(η + δ) ≤ ℓ(η) + gᵀδ + (c/2)‖δ‖²      for all δ,    η = φ(x)ᵀθ
//! ```
//!
//! The right side is, row by row, a weighted square: weight `c`, working target `η − g/c`. So a bound is a summary like any
//! other, and memory, preferences, fronts and merging work unchanged.
//!
//! Paper: Assumption 5.1 (`asm:qub`), widened to any anchor; Algorithm 1 (`alg:general_mfcl`).

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::Result;

/// Value and curvature of a loss at one row; the gradient is written separately.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// `ℓ(η, y)`
    pub value: f64,
    /// `c > 0` of the quadratic bound.
    pub curvature: f64,
}

/// From the linear predictor to what is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link {
    /// The predictor itself.
    Identity,
    /// Its exponential.
    Exp,
}

impl Link {
    /// What is predicted.
    pub fn apply(self, eta: f64) -> f64 {
        match self {
            Self::Identity => eta,
            Self::Exp => eta.exp(),
        }
    }
}

/// A loss of the linear predictor that has a quadratic upper bound.
///
/// Bring your own: state value, gradient and curvature, and the learner does the rest. Huber's loss, for instance, is
/// bounded everywhere by a square of curvature 1:
///
/// ```
/// use pmfcl::loss::{Loss, Point};
/// use pmfcl::{Learner, Problem, Rows, Settings, TaskRows};
///
/// #[derive(Debug)]
/// struct Huber;
///
/// impl Loss for Huber {
///     fn spec(&self) -> String {
///         "my-huber".to_owned()
///     }
///     fn at(&self, eta: &[f64], y: &[f64], gradient: &mut [f64]) -> Point {
///         let e = eta[0] - y[0];
///         gradient[0] = e.clamp(-1.0, 1.0);
///         let value = if e.abs() <= 1.0 { e * e / 2.0 } else { e.abs() - 0.5 };
///         Point { value, curvature: 1.0 }
///     }
///     fn guaranteed(&self) -> bool {
///         true
///     }
/// }
///
/// let mut learner = Learner::new(Problem::row_wise(Huber), Settings::default())?;
/// let x = [0.0, 1.0, 2.0, 3.0, 4.0];
/// let clean = TaskRows::new(Rows::new(&x, 1)?, Rows::new(&[0.0, 1.0, 2.0, 3.0, 4.0], 1)?);
/// let outlier = TaskRows::new(Rows::new(&x, 1)?, Rows::new(&[0.0, 1.0, 2.0, 3.0, 99.0], 1)?);
/// learner.learn("clean", clean, 1.0)?;
/// learner.learn("outlier", outlier, 1.0)?;
/// let slope = learner.solution()?.theta.column(0)[1];
/// assert!((slope - 1.0).abs() < 0.3, "the outlier does not pull the slope to {slope}");
/// # Ok::<(), pmfcl::Error>(())
/// ```
pub trait Loss: Debug + Send + Sync {
    /// Name and parameters, such as `huber:1.35`: stored with the model, compared when models are merged.
    fn spec(&self) -> String;

    /// Value, gradient `dℓ/dη` (written to `gradient`) and curvature at one row.
    fn at(&self, eta: &[f64], y: &[f64], gradient: &mut [f64]) -> Point;

    /// Whether the bound holds for all `δ`; where not, the quadratic is only a local model and nothing derived from it is
    /// called a guarantee.
    fn guaranteed(&self) -> bool;

    /// The second derivative at one row, the largest over targets. Newton's steps with it find the minimum of a task in fewer passes
    /// than steps with the curvature of the bound, which are taken where it is `None`.
    fn second_derivative(&self, _eta: &[f64], _y: &[f64]) -> Option<f64> {
        None
    }

    /// From the linear predictor to what is predicted.
    fn link(&self) -> Link {
        Link::Identity
    }

    /// Why a target is invalid; `None` where it is valid.
    fn refuses(&self, _y: f64) -> Option<&'static str> {
        None
    }

    /// The convex conjugate `ℓ*(slope) = sup_η slope·η − ℓ(η, y)` of one target, infinite outside its domain. The least loss of a
    /// task is certified from it; `None` leaves it unknown.
    fn conjugate(&self, _slope: f64, _y: f64) -> Option<f64> {
        None
    }

    /// The loss with what it leaves open settled by the first task; `None` where nothing is open.
    ///
    /// # Errors
    /// When the task does not settle it.
    fn settle(&self, _first: &FirstTask) -> Result<Option<Arc<dyn Loss>>> {
        Ok(None)
    }

    /// Whether [`Loss::settle`] needs the scale of residuals.
    fn needs_scale(&self) -> bool {
        false
    }
}

/// What a loss may learn from the first task about what it leaves open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FirstTask {
    /// Smallest and largest target.
    pub range: [f64; 2],
    /// A robust scale of the residuals about a fit, where [`Loss::needs_scale`] asked for it.
    pub scale: Option<f64>,
}
