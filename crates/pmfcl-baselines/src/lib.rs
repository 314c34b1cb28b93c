//! The methods others use, by their published rules, for fair comparison. Knows nothing of pmfcl.
//!
//! Tasks come one after the other; a [`Method`] learns each and lets it go, keeping what its rules allow. Everything
//! random comes from a seed: the same seed gives the same bits.

#![warn(clippy::unwrap_used)]

mod method;
mod task;

pub use method::{Kept, Method};
pub use task::{Inputs, Matrix, Targets, Task};
