//! The methods others use, by their published rules, for fair comparison. Knows nothing of pmfcl.
//!
//! Tasks come one after the other; a [`Method`] learns each and lets it go, keeping what its rules allow. Everything
//! random comes from a seed: the same seed gives the same bits.

#![warn(clippy::unwrap_used)]

mod batch;
mod buffer;
mod er;
mod loss;
mod method;
mod network;
mod random;
mod reservoir;
mod sgd;
mod steps;
mod task;

pub use er::{Er, ErArguments};
pub use loss::Goal;
pub use method::{Kept, Method};
pub use network::{Network, Pass};
pub use random::Random;
pub use reservoir::Reservoir;
pub use sgd::Sgd;
pub use steps::Steps;
pub use task::{Inputs, Matrix, Targets, Task};
