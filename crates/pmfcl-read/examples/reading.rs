//! How long a file takes: `cargo run --release -p pmfcl-read --example reading -- FILE --threads 2`.
//!
//! Reads every number and block column, once into columns and once into row-major tables, and prints
//! the best of several runs, the sum of all cells (the same whatever the number of threads) and the
//! peak memory.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use pmfcl_read::{Column, Form, Kind, Options, ReadError, Source, Wanted};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut path = None;
    let mut options = Options::default();
    let (mut threads, mut runs) = (2, 5);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .ok_or("a number is missing")?
                .parse::<usize>()
                .map_err(|e| e.to_string())
        };
        match argument.as_str() {
            "--threads" => threads = number()?,
            "--runs" => runs = number()?,
            "--rows" => options.piece_rows = Some(number()?),
            _ => path = Some(PathBuf::from(argument)),
        }
    }
    let path =
        path.ok_or("usage: reading FILE [--threads 2] [--runs 5] [--rows ROWS_PER_PIECE]")?;
    for (what, gather) in [("into columns", false), ("into rows", true)] {
        let mut best = f64::INFINITY;
        let mut result = (0, 0.0);
        for _ in 0..runs {
            let start = Instant::now();
            result = read(&path, &options, threads, gather)?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        let (rows, sum) = result;
        println!("{what}: {best:.3} s, {rows} rows, sum {sum:e}");
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        status.lines().filter(|l| l.starts_with("VmHWM")).for_each(|l| println!("{l}"));
    }
    Ok(())
}

/// The number of rows and the sum of a cell of each row and column.
fn read(
    path: &std::path::Path,
    options: &Options,
    threads: usize,
    gather: bool,
) -> Result<(usize, f64), ReadError> {
    let source = Source::open(path, options)?;
    let wanted: Vec<Wanted> = source
        .fields()
        .iter()
        .filter(|f| matches!(f.kind, Kind::Number | Kind::Boolean | Kind::Block { .. }))
        .map(|f| Wanted::new(&f.name, Form::Number))
        .collect();
    let scan = source.scan(&wanted)?;
    let sums = Mutex::new(BTreeMap::new());
    let work = || -> Result<(), ReadError> {
        let mut table = Vec::new();
        while let Some(piece) = scan.next()? {
            let batch = scan.decode(piece)?;
            let mut to = 0;
            let mut places = Vec::new();
            for (c, column) in batch.columns.iter().enumerate() {
                places.push((c, to));
                to += column.width();
            }
            let sum = if gather {
                // As the kernels will use it: a block of rows at a time.
                let block = 512;
                table.resize(block * to, 0.0);
                let mut sum = 0.0;
                for start in (0..batch.rows).step_by(block) {
                    let end = batch.rows.min(start + block);
                    batch.gather(start..end, &places, &mut table, to);
                    sum += table[0] + table[(end - start) * to - 1];
                }
                sum
            } else {
                let ends = |v: &[f64]| v.first().unwrap_or(&0.0) + v.last().unwrap_or(&0.0);
                batch
                    .columns
                    .iter()
                    .map(|column| match column {
                        Column::Numbers(values) => ends(values),
                        Column::Block { cells, .. } => ends(cells),
                        Column::Texts(_) => 0.0,
                    })
                    .sum()
            };
            sums.lock().expect("no thread panicked").insert(batch.index, (batch.rows, sum));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|w| w.join().expect("no thread panicked"))
    })?;
    let sums = sums.into_inner().expect("no thread panicked");
    Ok(sums.values().fold((0, 0.0), |(n, s), (rows, sum)| (n + rows, s + sum)))
}
