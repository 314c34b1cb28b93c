//! `pmfcl bench pmnist|rmnist|smnist|fashion`: the field's methods on streams of images.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use pmfcl_lab::Table;
use pmfcl_lab::images::{Benchmark, Images, Stream, entries, race, tables, wanted};

use crate::terminal::note;

/// One image in this many for a quick look.
const QUICK: usize = 10;

/// What a run over images can be told.
#[derive(Debug, Args)]
pub(crate) struct Digits {
    /// For images: run these methods alone, by family or with their buffer.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    methods: Vec<String>,
    /// For images: seed of tasks, networks and the order of rows.
    #[arg(long, default_value_t = 0, value_name = "S")]
    seed: u64,
    /// For images: one image in ten, for a look.
    #[arg(long)]
    quick: bool,
}

impl Digits {
    pub(crate) fn run(
        &self,
        benchmark: Benchmark,
        dir: &Path,
        threads: usize,
    ) -> Result<Vec<Table>> {
        let entries = wanted(entries(benchmark), &self.methods)?;
        let images = Images::read(dir, benchmark.set())?;
        let thin = if self.quick { QUICK } else { 1 };
        let stream = Stream::new(&images, benchmark, self.seed, thin);
        note(&format!("{}: {} methods on {threads} threads", benchmark.title(), entries.len()));
        Ok(tables(&stream, &race(&stream, entries, threads, &note))?)
    }
}
