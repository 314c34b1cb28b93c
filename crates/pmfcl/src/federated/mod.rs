//! Many clients, one model: clients send summaries of their steps, a server adds them up and sends `θ` back.
//!
//! ```text
//! client a: rows of step k ──▶ Update ┐                     ┌──▶ Broadcast ──▶ client a
//! client b: rows of step k ──▶ Update ┼──▶ Server ──solve──▶┤
//! client c: absent                    ┘   (register)        └──▶ Broadcast ──▶ client c
//! ```
//!
//! Before the first step all sides hold the same [`Agreement`](crate::problem::Agreement): problem, design, classes. Rows never leave a client.
//!
//! **Increments, not running sums.** The paper's clients send what they have accumulated so far and a difference to the last
//! model; that divides by zero for a newcomer and stays wrong after one lost message (erratum E15; `pmfcl-oracle` has those messages as a reference). Here an
//! [`Update`] stands for the rows of one step alone and is filed under client and step. So a client may be absent, join late,
//! send twice or out of order, or be taken out again, and the model is that of pooling the rows the register stands for. The
//! register is summed along a tree that its names alone decide, so the order of arrival does not change a bit of the model.
//!
//! **A second round** measures the probabilities of `gaussian` at the joint model: [`CalibrationRequest`].
//!
//! **What is not promised.** A summary is no secret: that of one row is the row, and with fewer rows than columns it shows
//! the space they span. [`Rules::least_samples`] keeps such updates out; the module `private` makes updates that give no row away. A client that lies within what rows could be is
//! believed; [`Rules::most_share`] bounds what it can do. Where columns depend on each other up to rounding, the rank is decided by
//! the last digits, and without a fixed ridge the model with it: the same for every order of arrival, not always that of the rows in
//! one place.
//!
//! Paper: Algorithm 4 (`alg:fed-pmf-cl`), Appendix F (`app:fed-pmfcl`).

mod broadcast;
mod calibration;
mod refused;
mod rules;
mod server;
mod tree;
mod update;

pub use broadcast::Broadcast;
pub use calibration::{CalibrationAnswer, CalibrationRequest};
pub use refused::Refused;
pub use rules::Rules;
pub use server::{ClientStep, Receipt, Sender, Server};
pub use update::Update;
