//! The program of experiments, run as users run it.

mod contests;
mod federated;
#[path = "../../../pmfcl-cli/tests/cli/program.rs"]
mod program;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pmfcl-lab");
