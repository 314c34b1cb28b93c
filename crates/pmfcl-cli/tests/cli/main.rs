//! The program, run as users run it.

mod basis;
mod commands;
mod crash;
mod equality;
mod gaps;
mod ledger;
mod losses;
mod memory;
mod messy;
mod probabilities;
mod program;
mod real_tables;
mod refusals;
mod register;
mod remote;
#[cfg(feature = "remote")]
#[path = "../../../pmfcl-remote/tests/remote/server.rs"]
mod server;
mod shards;
mod snapshots;
mod tables;
mod writers;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pmfcl");
