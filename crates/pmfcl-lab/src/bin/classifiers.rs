//! Runs every classifier over the classification sets in a directory and prints one Markdown table a stream.
//!
//! `classifiers DIR [OUT.md [SET…]]`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command prints")]

use std::path::Path;
use std::process::ExitCode;

use pmfcl_lab::classifiers::all;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, rest @ ..] = &arguments[..] else {
        eprintln!("usage: classifiers DIR [OUT.md [SET…]]");
        return ExitCode::from(2);
    };
    let only: Vec<&str> = rest.iter().skip(1).map(String::as_str).collect();
    let done = all(Path::new(dir), &only, |line| eprintln!("{line}")).and_then(|sections| {
        let text: Vec<String> = sections.iter().map(ToString::to_string).collect();
        let text = text.join("\n");
        println!("{text}");
        match rest.first() {
            Some(out) => Ok(std::fs::write(out, text)?),
            None => Ok(()),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
