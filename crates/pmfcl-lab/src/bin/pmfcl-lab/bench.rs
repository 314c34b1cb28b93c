//! `pmfcl-lab bench`: speed, memory and accuracy, one run, ratios.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use pmfcl::Accumulator;
use pmfcl_lab::images::Benchmark;
use pmfcl_lab::random_features::{Asked, Case};
use pmfcl_lab::{conditioning, footprint, kernels, many_classes, random_features, scaling, tables};

use crate::contest::Contest;
use crate::digits::Digits;
use crate::throughput;
use pmfcl_terminal::{Table, print};

/// Measure speed, memory and accuracy against peers and the machine's own limit.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl-lab bench conditioning
  pmfcl-lab bench pmnist --data mnist --methods sgd,er,der-500
  pmfcl-lab bench stream bike.csv --task-column quarter --target rentals")]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Accumulators against OpenBLAS and LAPACK on one thread and two; needs Python with NumPy, SciPy and threadpoolctl.
    ///
    /// `PMFCL_INSTRUCTIONS=avx2` and `OPENBLAS_CORETYPE=Haswell` hold both sides to AVX2.
    Kernels {
        #[command(flatten)]
        turns: Turns,
        /// Numbers of columns.
        #[arg(long, value_delimiter = ',', default_values_t = kernels::WIDTHS, value_name = "N,…")]
        widths: Vec<usize>,
    },
    /// Thousands of random features against NumPy on the same rows; needs Python with NumPy and SciPy.
    Wide(Wide),
    /// Digits kept as conditioning worsens, against the paper's way and joint QR.
    Conditioning,
    /// Numbers kept, growth over tasks, peak while summarizing a million rows.
    Memory,
    /// The cost of one more task, in memory and in a file, and of a point of the front.
    Scaling {
        /// How many tasks are learned one after the other.
        #[arg(long, default_value_t = 100_000, value_name = "N")]
        tasks: usize,
        /// How many tasks are committed to a file, each synced to the disk.
        #[arg(long, default_value_t = 10_000, value_name = "N")]
        committed: usize,
    },
    /// 139 tasks on rff:1000 and one prediction, against a prediction after each task.
    Solving,
    /// A thousand classes: logistic loss, and linear discriminants against the sums of products they are made of.
    Classes {
        /// Classes.
        #[arg(long, default_value_t = many_classes::Sizes::default().classes, value_name = "N")]
        classes: usize,
    },
    /// Learning a wide Parquet and CSV file against reading it; needs Python with pyarrow and Polars.
    Reading {
        #[command(flatten)]
        turns: Turns,
        /// Where the large files are to be put, to be used again.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Every basis and `auto` against gradient boosting, tasks in order; needs `pmfcl` next to this program, and Python with
    /// pyarrow, pandas, scikit-learn and, where it is to be compared, LightGBM.
    Tables {
        /// The folder of the data sets.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Data sets, or `made:ROWS:INPUTS` for made-up rows of any size.
        #[arg(long, value_delimiter = ',', default_values_t = tables::SETS.map(str::to_owned), value_name = "NAME,…")]
        sets: Vec<String>,
        /// A basis or peer; may be given several times.
        #[arg(long = "method", value_name = "NAME")]
        methods: Vec<String>,
    },
    /// 20 permutations of MNIST against the field's methods and their published numbers.
    Pmnist(Digits),
    /// The same with 20 rotations.
    Rmnist(Digits),
    /// The same with two digits a task.
    Smnist(Digits),
    /// The same with two classes of Fashion-MNIST a task.
    Fashion(Digits),
    Stream(Box<Contest>),
}

#[derive(Debug, Args)]
struct Wide {
    #[command(flatten)]
    turns: Turns,
    /// Numbers of random features.
    #[arg(long, value_delimiter = ',', default_values_t = [2000, 5000], value_name = "N,…")]
    widths: Vec<usize>,
    /// Run one case in this process and print seconds, bytes and mean squared error.
    #[arg(long, hide = true)]
    one: bool,
    #[arg(long, hide = true, default_value = "qr")]
    accumulator: Accumulator,
    #[arg(long, hide = true, default_value = "every")]
    asked: String,
    #[arg(long, hide = true)]
    defaults: bool,
}

impl Wide {
    fn run(&self) -> Result<Option<Vec<Table>>> {
        if !self.one {
            let program = std::env::current_exe()?;
            return Ok(Some(random_features::run(&self.widths, self.turns.turns, &program)?));
        }
        let asked = if self.asked == "last" { Asked::Last } else { Asked::Every };
        for &width in &self.widths {
            let defaults = self.defaults;
            let case = Case { width, accumulator: self.accumulator, asked, defaults };
            print(&random_features::one(case)?)?;
        }
        Ok(None)
    }
}

#[derive(Debug, Args)]
struct Turns {
    /// How often each side is measured, in turns; the best counts.
    #[arg(long, default_value_t = 3, value_name = "N")]
    turns: usize,
}

impl Bench {
    pub(crate) fn run(&self, json: bool) -> Result<()> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let tables = match &self.what {
            What::Kernels { turns, widths } => kernels::run(widths, turns.turns)?,
            What::Wide(wide) => match wide.run()? {
                Some(tables) => tables,
                None => return Ok(()),
            },
            What::Conditioning => vec![conditioning::run(conditioning::Sizes::default())?],
            // The peak first: it is that of the whole process.
            What::Memory => vec![
                footprint::peak(1_000_000, 128, threads)?,
                footprint::entries()?,
                footprint::growth()?,
            ],
            What::Scaling { tasks, committed } => vec![
                scaling::next_task(100)?,
                scaling::many_tasks(*tasks)?,
                throughput::many_tasks(*committed)?,
                scaling::front_point(100)?,
            ],
            What::Solving => vec![scaling::wide_tasks(139, 1000)?],
            What::Classes { classes } => {
                many_classes::run(many_classes::Sizes { classes: *classes, ..Default::default() })?
            }
            What::Reading { turns, data } => throughput::run(turns.turns, data.as_deref())?,
            What::Tables { data, sets, methods } => {
                let all = tables::METHODS.map(str::to_owned);
                let program = std::env::current_exe()?.with_file_name("pmfcl");
                tables::run(&program, data, sets, if methods.is_empty() { &all } else { methods })?
            }
            What::Pmnist(digits) => digits.run(Benchmark::Permuted, threads)?,
            What::Rmnist(digits) => digits.run(Benchmark::Rotated, threads)?,
            What::Smnist(digits) => digits.run(Benchmark::Split, threads)?,
            What::Fashion(digits) => digits.run(Benchmark::Fashion, threads)?,
            What::Stream(contest) => contest.run()?,
        };
        print(&if json { as_json(&tables) } else { as_text(&tables) })
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
