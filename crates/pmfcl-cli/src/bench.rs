//! `pmfcl bench`: speed, memory and accuracy, one run, ratios.

use anyhow::Result;
use clap::{Args, ValueEnum};
use pmfcl_lab::{Table, conditioning, footprint, kernels, scaling};

use crate::throughput;

/// Measure speed, memory and accuracy against peers and the machine's own limit.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  pmfcl bench conditioning")]
pub(crate) struct Bench {
    /// What to measure.
    name: Name,
    /// How often each side is measured, in turns; the best counts.
    #[arg(long, default_value_t = 3, value_name = "N")]
    turns: usize,
    /// Where large files are, or are to be put to be used again.
    #[arg(long, value_name = "DIR")]
    data: Option<std::path::PathBuf>,
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
        };
        crate::print(&if json { as_json(&tables) } else { as_text(&tables) })
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
