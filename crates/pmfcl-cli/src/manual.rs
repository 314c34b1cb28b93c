//! `pmfcl completions` and `pmfcl man`: what a package installs with the program.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Cli;
use pmfcl_terminal::{note, print};

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  pmfcl completions bash > /etc/bash_completion.d/pmfcl")]
pub(crate) struct Completions {
    /// bash, elvish, fish, powershell or zsh.
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "pmfcl", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}

/// Print the manual page, or write one for every command.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  pmfcl man | man -l -\n  pmfcl man --dir /usr/share/man/man1")]
pub(crate) struct Man {
    /// Write all pages into this directory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self) -> Result<()> {
        let command = Cli::command();
        let Some(dir) = &self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            return print(&String::from_utf8_lossy(&page));
        };
        std::fs::create_dir_all(dir)
            .with_context(|| format!("{}: cannot be made", dir.display()))?;
        clap_mangen::generate_to(command, dir)?;
        note(&format!("manual pages in {}", dir.display()));
        Ok(())
    }
}
