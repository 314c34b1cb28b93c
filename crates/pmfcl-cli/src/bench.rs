//! `pmfcl bench`: speed, memory and accuracy, one run, ratios.

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use pmfcl_lab::images::Benchmark;
use pmfcl_lab::{Table, conditioning, footprint, kernels, scaling};

use crate::digits::Digits;
use crate::throughput;

/// Measure speed, memory and accuracy against peers and the machine's own limit.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  pmfcl bench conditioning\n  \
pmfcl bench pmnist --data mnist --methods sgd,er,der-500")]
pub(crate) struct Bench {
    /// What to measure.
    name: Name,
    /// How often each side is measured, in turns; the best counts.
    #[arg(long, default_value_t = 3, value_name = "N")]
    turns: usize,
    /// Where large files are, or are to be put to be used again; for images, where they are.
    #[arg(long, value_name = "DIR")]
    data: Option<std::path::PathBuf>,
    #[command(flatten)]
    digits: Digits,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Name {
    /// Accumulators against OpenBLAS and LAPACK; needs Python with NumPy and SciPy.
    Kernels,
    /// Digits kept as conditioning worsens, against the paper's way and joint QR.
    Conditioning,
    /// Numbers kept, growth over tasks, peak while summarizing a million rows.
    Memory,
    /// The cost of one more task, and of a point of the front.
    Scaling,
    /// Learning a wide Parquet and CSV file against reading it; needs Python with pyarrow and Polars.
    Reading,
    /// 20 permutations of MNIST against the field's methods and their published numbers; needs --data.
    Pmnist,
    /// The same with 20 rotations.
    Rmnist,
    /// The same with two digits a task.
    Smnist,
    /// The same with two classes of Fashion-MNIST a task.
    Fashion,
}

impl Bench {
    pub(crate) fn run(&self, json: bool) -> Result<()> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let tables = match self.name {
            Name::Kernels => kernels::run(self.turns)?,
            Name::Conditioning => vec![conditioning::run(conditioning::Sizes::default())?],
            // The peak first: it is that of the whole process.
            Name::Memory => vec![
                footprint::peak(1_000_000, 128, threads)?,
                footprint::entries()?,
                footprint::growth()?,
            ],
            Name::Scaling => vec![scaling::next_task(100)?, scaling::front_point(100)?],
            Name::Reading => throughput::run(self.turns, self.data.as_deref())?,
            Name::Pmnist => self.images(Benchmark::Permuted, threads)?,
            Name::Rmnist => self.images(Benchmark::Rotated, threads)?,
            Name::Smnist => self.images(Benchmark::Split, threads)?,
            Name::Fashion => self.images(Benchmark::Fashion, threads)?,
        };
        crate::print(&if json { as_json(&tables) } else { as_text(&tables) })
    }

    fn images(&self, benchmark: Benchmark, threads: usize) -> Result<Vec<Table>> {
        let dir = self.data.as_deref().context("say where the images are: --data DIR")?;
        self.digits.run(benchmark, dir, threads)
    }
}

fn as_text(tables: &[Table]) -> String {
    tables.iter().map(Table::text).collect::<Vec<_>>().join("\n")
}

fn as_json(tables: &[Table]) -> String {
    let tables: Vec<_> = tables
        .iter()
        .map(|t| {
            serde_json::json!({
                "title": t.title, "columns": t.columns, "rows": t.rows, "notes": t.notes,
            })
        })
        .collect();
    format!("{:#}\n", serde_json::json!({ "tables": tables }))
}
