//! `pmfcl`: models that are updated as data arrives, without forgetting.
//!
//! Glue only: arguments in, library calls, tables and pictures out. Data goes to stdout, words to stderr.

mod bench;
mod bike;
mod demo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Continual learning that equals joint training.
#[derive(Debug, Parser)]
#[command(name = "pmfcl", version, about, max_term_width = 100)]
struct Cli {
    /// Print one JSON document on stdout instead of tables.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    // clap answers wrong usage with exit code 2.
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Demo(demo) => demo.run(cli.json),
        Command::Bench(bench) => bench.run(cli.json),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::from(1)
        }
    }
}

/// A reader that has seen enough is not an error.
fn closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// A line for the person, on stderr.
#[allow(clippy::print_stderr, reason = "the one place that talks")]
fn say(line: &str) {
    eprintln!("{line}");
}

/// Data, on stdout.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
