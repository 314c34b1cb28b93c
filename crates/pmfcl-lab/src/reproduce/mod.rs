//! The paper's experiments, both sides shown.

mod bounds;
mod classes;
mod drift;
mod exact;
mod ours;
mod regression;
mod roster;
mod spread;
mod study;
mod trial;
mod workers;
