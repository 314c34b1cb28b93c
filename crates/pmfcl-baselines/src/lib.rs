//! The methods others use, by their published rules, for fair comparison. Knows nothing of pmfcl.
//!
//! Tasks come one after the other; a [`Method`] learns each and lets it go, keeping what its rules allow. Everything
//! random comes from a seed: the same seed gives the same bits.
//!
//! | method | keeps between tasks | module |
//! | --- | --- | --- |
//! | [`Sgd`], [`Last`] | nothing | `sgd`, `last` |
//! | [`Er`], [`Der`] (with DER++), [`Agem`] | a buffer of examples | `er`, `der`, `agem` |
//! | [`Si`], [`Ewc`] | importance of parameters | `si`, `ewc` |
//! | [`Icl`], [`Projection`] | directions of past rows; linear models alone | `icl`, `projection` |
//! | [`Joint`] | everything | `joint` |
//!
//! [`FedAvg`] averages clients instead of following tasks. A rate too large makes parameters run away: outputs are then
//! not finite, and whoever asks for them has to look.

#![warn(clippy::unwrap_used)]

mod agem;
mod batch;
mod buffer;
mod der;
mod er;
mod ewc;
mod fedavg;
mod icl;
mod joint;
mod last;
mod loss;
mod method;
mod network;
mod projection;
mod random;
mod reservoir;
mod sgd;
mod si;
mod span;
mod steps;
mod task;

pub use agem::{Agem, AgemArguments};
pub use der::{Der, DerArguments};
pub use er::{Er, ErArguments};
pub use ewc::{Ewc, EwcArguments};
pub use fedavg::{FedAvg, FedAvgArguments};
pub use icl::Icl;
pub use joint::Joint;
pub use last::Last;
pub use loss::Goal;
pub use method::{Kept, Method};
pub use network::{Network, Pass};
pub use projection::{Projection, ProjectionArguments};
pub use random::Random;
pub use reservoir::Reservoir;
pub use sgd::Sgd;
pub use si::{Si, SiArguments};
pub use steps::Steps;
pub use task::{Inputs, Matrix, Targets, Task};
