//! Every test of the crate through its public interface, in one program: linking forty takes longer than running them.

mod basis;
mod budget;
mod bytes;
mod calibration;
mod check;
mod classify;
mod classify_input;
mod classify_logistic;
mod corpora;
mod defaults;
mod diagonal;
mod distributions;
mod errata;
mod exactness;
mod federated;
mod federated_classes;
mod federated_refusals;
mod forgetting;
mod gaps;
mod golden;
mod laws;
mod layers;
mod logistic_bounds;
mod logistic_edges;
mod logistic_golden;
mod logistic_streams;
mod memory;
mod mixed;
mod paper;
mod pareto;
mod portfolio;
#[cfg(feature = "seeded-noise")]
mod private;
#[cfg(feature = "seeded-noise")]
mod private_classes;
mod rank;
mod refusals;
mod ridge;
mod row_wise;
mod state;
mod statistics;
mod support;
mod unlearning;
mod wide;
