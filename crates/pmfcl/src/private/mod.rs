//! Summaries with differential privacy: sums of clipped rows, with noise, as a [`Summary`](crate::summary::Summary) again.
//!
//! ```text
//! rows ──clip──▶ Clipped ──release──▶ Released ──summary──▶ Summary, for a learner or a federated update
//!                exact integers, stays   noisy sums, may leave    post-processing
//! ```
//!
//! The method is `AdaSSP` (Wang, UAI 2018, arXiv 1803.02596, Algorithm 2): noise on `XᵀX` and `XᵀY`, and a ridge that is the smaller
//! the better conditioned the rows are, for which `λ_min(XᵀX)` is released too.
//!
//! **Neighbours.** Two tables are neighbours when one is the other with one row added or removed ([`NEIGHBOURS`]). So the number of
//! rows is private too; what is released of it has noise. Replacing one row is removing and adding: such tables are two steps
//! apart, and the guarantee for them is that of 4ρ.
//!
//! **Sensitivity.** [`Bounds`] are the caller's, never the data's. A design row is `x = (1, φ)`, the intercept's one as it is and the
//! features scaled down to `‖φ‖ ≤ B_x`, so `‖x‖² ≤ B² = 1 + B_x²` (`B = B_x` without an intercept); targets to `‖y‖ ≤ B_y`. The one is
//! not scaled with the features: then `XᵀX[0, 0]` is the number of rows, and `XᵀY[0]` the sum of targets, which need no budget of
//! their own. One row more or less changes
//!
//! | released | by at most | because |
//! | --- | --- | --- |
//! | `XᵀX` | `B²` | `‖xxᵀ‖_F = ‖x‖²` |
//! | `XᵀY` | `B·B_y` | `‖xyᵀ‖_F = ‖x‖‖y‖` |
//! | `Σ y²` of each target | `B_y²` | `Σ_k y_k⁴ ≤ (Σ_k y_k²)²` |
//! | `λ_min(XᵀX)` | `B²` | Weyl: an eigenvalue moves by at most `‖xxᵀ‖₂` |
//! | `n`, only without intercept | `1` | |
//! | `Σ y`, only without intercept | `B_y` | |
//! | rows longer than a bound | `1` | |
//!
//! all in the Euclidean norm, and all reached at once by a row at the bounds. Of [classes](ClippedClasses)
//! a row `(1, φ)` changes
//!
//! | released | by at most | because |
//! | --- | --- | --- |
//! | `ΦᵀΦ` of the features | `B_x²` | `‖φφᵀ‖_F = ‖φ‖²` |
//! | counts and sums of the classes | `√(1 + B_x²)` | the row adds `(1, φ)` to its own class and nothing to any other: `‖(1, φ)‖` |
//! | rows longer than the bound | `1` | |
//!
//! however many classes there are; the number of rows and their sum are those of the classes added up, and cost nothing.
//!
//! The coordinates of `XᵀX` are its diagonal and `√2` times what is above it, an orthonormal basis of symmetric matrices; so numbers off
//! the diagonal have noise of `σ/√2` at the same guarantee.
//!
//! **Composition.** Every piece is a discrete Gaussian of parameter `σ_b` on a grid, which is `Δ_b²/2σ_b²`-zCDP (Canonne, Kamath and Steinke
//! 2020, for vectors of integers); zCDP adds up (Bun and Steinke 2016), and becomes (ε, δ) by [`Budget::rho`]. That needs less noise
//! than ε/3 and δ/3 each: at ε = 1, δ = 10⁻⁶ the noise on `XᵀX` is 0.70 of the paper's, off the diagonal half of it.
//!
//! **Exact integers.** Contributions of a row are cut off towards zero on a grid, which only shrinks them, and added up as integers; sums are
//! rounded to a coarser grid, which adds to the sensitivity (it is counted), and the noise is an integer made of
//! coin tosses by integer arithmetic. So neither the noise's floating-point pattern (Mironov 2012) nor the rounding of sums gives
//! anything away. Time is not hidden: sampling takes as long as its coins say.
//!
//! **Noise of many.** Inside a masked sum each client adds a share of the noise ([`SharedNoise`]), made for the fewest honest clients a sum can
//! be over; dropouts and colluders are then within the guarantee.
//!
//! **Everything after is post-processing.** [`Released::summary`] adds the ridge, lifts what is still indefinite, and takes the root.

mod account;
mod bounds;
mod budget;
mod classes;
mod clipped;
mod noise;
mod release;
mod shared;

pub use account::Account;
pub use bounds::Bounds;
pub use budget::Budget;
pub use classes::{ClippedClasses, ReleasedClasses};
pub use clipped::{Clipped, Scaled};
pub use noise::Noise;
#[cfg(feature = "seeded-noise")]
pub use release::rehearse;
pub use release::{Released, release};
pub use shared::{Cohort, SharedNoise};

/// Which tables the guarantee cannot tell apart.
#[doc(hidden)] // for tests
pub const NEIGHBOURS: &str = "tables that differ by one row added or removed";
