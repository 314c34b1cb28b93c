//! `pmfcl verify`: every byte and invariant of a model file.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pmfcl_terminal::{answer, bytes};

use crate::receipt::Receipt;
use serde_json::json;

/// Check every byte and invariant of a model file. Exit code 0 means that no error was found.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  pmfcl verify sales.pmf")]
pub(crate) struct Verify {
    /// The model file.
    model: PathBuf,
    /// Check a receipt of `pmfcl unlearn --receipt` against the file as well.
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Refuse a receipt that another key signed than the one with this fingerprint, as `unlearn --receipt` prints it.
    #[arg(long, value_name = "FINGERPRINT", requires = "receipt")]
    signed_by: Option<String>,
}

impl Verify {
    pub(crate) fn check(&self) -> Result<pmfcl_file::Verified> {
        Ok(pmfcl_file::verify(&self.model)?)
    }

    pub(crate) fn run(&self) -> Result<()> {
        let mut found = self.check()?;
        if let Some(path) = &self.receipt {
            found.checks.extend(Receipt::read(path)?.check(
                path,
                &self.model,
                self.signed_by.as_deref(),
            )?);
        }
        let document = json!({
            "ok": true,
            "tasks": found.tasks,
            "bytes": found.bytes,
            "checks": found.checks,
        });
        let mut words = format!(
            "{}: sound ({} tasks, {})\n",
            self.model.display(),
            found.tasks,
            bytes(found.bytes as usize)
        );
        for check in &found.checks {
            words.push_str(&format!("  ✓ {check}\n"));
        }
        answer(&document, &words)
    }
}
