//! `pmfcl-lab bench pmnist|rmnist|smnist|fashion`: the field's methods on streams of images.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pmfcl_lab::images::{Benchmark, Images, Stream, entries, run_all, tables, wanted};
use pmfcl_terminal::{Table, note};

/// One image in this many for a quick look.
const QUICK: usize = 10;

/// What a run over images can be told.
#[derive(Debug, Args)]
pub(crate) struct Digits {
    /// Where the images are: `mnist.parquet` or `fashion_mnist.parquet`, or the four IDX files.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Run these methods alone, by family (`er`) or with their size (`er-500`, `relu-5000`).
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    methods: Vec<String>,
    /// Seed of tasks, networks and the order of rows.
    #[arg(long, default_value_t = 0, value_name = "S")]
    seed: u64,
    /// Runs, each with the next seed; accuracy is their mean. PMF-CL does not depend on the order of rows.
    #[arg(long, default_value_t = 1, value_name = "N")]
    runs: u64,
    /// One image in ten, for a look.
    #[arg(long)]
    quick: bool,
}

impl Digits {
    pub(crate) fn run(&self, benchmark: Benchmark, threads: usize) -> Result<Vec<Table>> {
        let mut entrants = wanted(entries(benchmark), &self.methods)?;
        let images = Images::read(&self.data, benchmark.set())?;
        let thin = if self.quick { QUICK } else { 1 };
        let stream = |seed| Stream::new(&images, benchmark, seed, thin);
        note(&format!("{}: {} methods on {threads} threads", benchmark.title(), entrants.len()));
        let first = stream(self.seed);
        let finishes = run_all(&first, entrants, threads, &note);
        let mut others = Vec::new();
        for seed in self.seed + 1..self.seed + self.runs.max(1) {
            entrants = wanted(entries(benchmark), &self.methods)?;
            note(&format!("seed {seed}"));
            others.push(run_all(&stream(seed), entrants, threads, &note));
        }
        Ok(tables(&first, &finishes, &others)?)
    }
}
