//! `pmfcl-lab reproduce`: the paper's experiments, both sides shown.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use pmfcl_lab::reproduce::claims::Finding;
use pmfcl_lab::reproduce::{Options, run};
use pmfcl_terminal::{Table, answer, note, write};
use serde_json::json;

/// Run the paper's experiments: every figure, every number, and which of its claims hold.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  pmfcl-lab reproduce --out results --quick")]
pub(crate) struct Reproduce {
    /// Where to put pictures, tables, findings and the page.
    #[arg(long, default_value = "pmfcl-reproduce", value_name = "DIR")]
    out: PathBuf,
    /// Trials of every setting.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    trials: u64,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 0, value_name = "S")]
    seed: u64,
    /// Threads [default: all cores]. Numbers do not depend on it, times do.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,
    /// Four settings of eight and three trials at most, for a look.
    #[arg(long)]
    quick: bool,
}

impl Reproduce {
    pub(crate) fn run(&self) -> Result<()> {
        let plain = Options::default();
        let options = Options {
            trials: self.trials as usize,
            seed: self.seed,
            threads: self.threads.map_or(plain.threads, |n| n as usize),
            quick: self.quick,
        };
        // Before the work, so that a wrong directory costs no minute.
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot make the directory `{}`", self.out.display()))?;
        let start = Instant::now();
        let outcome = run(options, &|step| {
            note(&format!("{:5.1} s  {step}", start.elapsed().as_secs_f64()));
        })?;
        note(&format!("{:5.1} s  drawing", start.elapsed().as_secs_f64()));
        let mut names = Vec::new();
        for file in outcome.files()? {
            let path = self.out.join(&file.name);
            write(&path, &file.bytes)?;
            names.push(path.display().to_string());
        }
        note(&format!("{:5.1} s  done", start.elapsed().as_secs_f64()));
        let findings = outcome.findings();
        let document = json!({
            "findings": findings.iter().map(as_json).collect::<Vec<_>>(),
            "trials": outcome.effort.trials,
            "seed": outcome.effort.seed,
            "settings": outcome.studies.iter().map(|s| s.setting.name).collect::<Vec<_>>(),
            "files": names,
        });
        let page = self.out.join("index.html");
        answer(&document, &format!("{}\n  Open {}\n", as_table(&findings).text(), page.display()))
    }
}

fn as_json(finding: &Finding) -> serde_json::Value {
    let numbers: serde_json::Map<String, serde_json::Value> =
        finding.numbers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({
        "id": finding.id, "source": finding.source, "claim": finding.claim, "verdict": finding.verdict.key(),
        "words": finding.verdict.words(), "text": finding.text, "numbers": numbers,
    })
}

fn as_table(findings: &[Finding]) -> Table {
    let mut table =
        Table::new("The paper's claims, and what the numbers say", &["finding", "verdict"]);
    for finding in findings {
        table.row([finding.id.to_owned(), finding.verdict.words()]);
    }
    table.note("The claims in words, with their numbers: findings.md.");
    table
}
