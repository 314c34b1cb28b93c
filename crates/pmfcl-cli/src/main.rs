//! `pmfcl`: models that are updated as data arrives, without forgetting.
//!
//! This crate parses arguments, calls the libraries and prints. Results go to stdout, notes and errors to stderr.

mod bike;
mod calibrate;
mod check;
mod creation;
mod demo;
mod export;
mod hindsight;
mod learn;
mod manual;
mod merge;
mod missing;
mod outcome;
mod picture;
mod predict;
mod predictions;
mod receipt;
mod schema;
mod score;
mod show;
mod sign_key;
mod stream;
mod summarize;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use pmfcl_terminal::{Verbosity, exit, set_verbosity};

/// Continual learning that equals joint training: learn files one after the other, keep summaries instead of rows.
#[derive(Debug, Parser)]
#[command(
    name = "pmfcl",
    version,
    max_term_width = 100,
    after_help = "Start with:
  pmfcl learn sales.pmf 2024-*.csv --target revenue
  pmfcl show sales.pmf
  pmfcl report sales.pmf -o report.html

Exit codes: 0 success, 1 an error in the data or the model, 2 wrong usage."
)]
struct Cli {
    /// Print one JSON document on stdout instead of tables.
    #[arg(long, global = true)]
    json: bool,
    /// Print errors only.
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
    Learn(Box<learn::Learn>),
    Schema(schema::Schema),
    Check(check::Check),
    Predict(predict::Predict),
    Score(score::Score),
    Calibrate(calibrate::Calibrate),
    Summarize(Box<summarize::Summarize>),
    Show(show::Show),
    Report(picture::Report),
    Front(picture::FrontOf),
    Prefer(hindsight::Prefer),
    Set(hindsight::Set),
    Unlearn(hindsight::Unlearn),
    Merge(merge::Merge),
    Export(export::Export),
    Verify(verify::Verify),
    Demo(demo::Demo),
    Completions(manual::Completions),
    Man(manual::Man),
}

fn main() -> ExitCode {
    // clap answers wrong usage with exit code 2.
    let cli = Cli::parse();
    set_verbosity(Verbosity { json: cli.json, quiet: cli.quiet, verbose: cli.verbose });
    exit(match cli.command {
        Command::Learn(c) => c.run(),
        Command::Schema(c) => c.run(),
        Command::Check(c) => c.run(),
        Command::Predict(c) => c.run(),
        Command::Score(c) => c.run(),
        Command::Calibrate(c) => c.run(),
        Command::Summarize(c) => c.run(),
        Command::Show(c) => c.run(),
        Command::Report(c) => c.run(),
        Command::Front(c) => c.run(),
        Command::Prefer(c) => c.run(),
        Command::Set(c) => c.run(),
        Command::Unlearn(c) => c.run(),
        Command::Merge(c) => c.run(),
        Command::Export(c) => c.run(),
        Command::Verify(c) => c.run(),
        Command::Demo(c) => c.run(),
        Command::Completions(c) => c.run(),
        Command::Man(c) => c.run(),
    })
}
