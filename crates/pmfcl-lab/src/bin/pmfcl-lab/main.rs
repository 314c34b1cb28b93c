//! `pmfcl-lab`: experiments and benchmarks of pmfcl. Glue only: arguments in, library calls, tables and pictures out.

mod bench;
mod contest;
mod digits;
mod federated;
mod reproduce;
mod throughput;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pmfcl_terminal::{Verbosity, exit, set_verbosity};

/// Experiments and benchmarks of pmfcl: the paper's experiments, speed and accuracy against peers, federations.
#[derive(Debug, Parser)]
#[command(
    name = "pmfcl-lab",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 the data is at fault, 2 wrong usage."
)]
struct Cli {
    /// Print one JSON document on stdout instead of tables.
    #[arg(long, global = true)]
    json: bool,
    /// Print nothing but errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print more about what is done.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Federated(Box<federated::Federated>),
    Reproduce(reproduce::Reproduce),
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    // clap answers wrong usage with exit code 2.
    let cli = Cli::parse();
    set_verbosity(Verbosity { json: cli.json, quiet: cli.quiet, verbose: cli.verbose });
    exit(match cli.command {
        Command::Federated(c) => c.run(),
        Command::Reproduce(c) => c.run(),
        Command::Bench(c) => c.run(cli.json),
    })
}
