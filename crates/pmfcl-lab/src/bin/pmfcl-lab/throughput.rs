//! `pmfcl-lab bench reading`: learning a wide file against merely reading it with pyarrow and Polars; and of `pmfcl-lab bench scaling` the
//! part that runs the program on a file of many tasks.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use pmfcl_terminal::Table;

const PEER: &str = include_str!("../../../../../bench/reading.py");
const ROWS: usize = 1_000_000;
const COLUMNS: usize = 64;

/// The program `pmfcl`, which is built next to this one.
fn product() -> Result<PathBuf> {
    let name = format!("pmfcl{}", std::env::consts::EXE_SUFFIX);
    let path = std::env::current_exe()?.with_file_name(name);
    if !path.exists() {
        bail!(
            "{}: no such program; build it first: cargo build --release -p pmfcl-cli",
            path.display()
        );
    }
    Ok(path)
}

/// Measures in turns, so that a slow spell of the machine hits both sides.
pub(crate) fn run(turns: usize, data: Option<&Path>) -> Result<Vec<Table>> {
    let own = tempfile::tempdir()?;
    let directory = data.unwrap_or(own.path());
    let mut peer = Peer::start()?;
    let sizes = peer.ask(&format!("make {} {ROWS} {COLUMNS}", directory.display()))?;
    let (parquet, csv) = (directory.join("wide.parquet"), directory.join("wide.csv"));
    let mut best = [f64::INFINITY; 9];
    for _ in 0..turns.max(1) {
        let asked = |peer: &mut Peer, verb: &str, file: &Path| -> Result<f64> {
            Ok(peer.ask(&format!("{verb} {} 1", file.display()))?.parse()?)
        };
        let seconds = [
            asked(&mut peer, "columns", &parquet)?,
            asked(&mut peer, "rows", &parquet)?,
            learn(own.path(), &parquet, "qr")?,
            learn(own.path(), &parquet, "gram")?,
            predict(own.path(), &parquet)?,
            asked(&mut peer, "polars", &csv)?,
            asked(&mut peer, "arrow", &csv)?,
            learn(own.path(), &csv, "qr")?,
            learn(own.path(), &csv, "gram")?,
        ];
        for (b, s) in best.iter_mut().zip(seconds) {
            *b = b.min(s);
        }
    }
    let [columns, rows, parquet_qr, parquet_gram, predicted, polars, arrow, csv_qr, csv_gram] =
        best;
    let mut table = Table::new(
        &format!("Learning {ROWS} rows of {COLUMNS} columns, best of {turns} turns, seconds"),
        &["file", "what", "seconds", "of the peer", "aim"],
    );
    let mut row = |file: &str, what: &str, seconds: f64, ratio: Option<f64>, aim: &str| {
        let ratio = ratio.map_or_else(String::new, |r| format!("{r:.2}"));
        table.row([
            file.to_owned(),
            what.to_owned(),
            format!("{seconds:.3}"),
            ratio,
            aim.to_owned(),
        ]);
    };
    row("parquet", "pyarrow: read columns", columns, None, "");
    row("parquet", "pyarrow: read, hand over row-major", rows, None, "");
    row("parquet", "pmfcl learn, qr", parquet_qr, Some(parquet_qr / rows), "≤ 1");
    row("parquet", "pmfcl learn, gram", parquet_gram, Some(parquet_gram / rows), "≤ 0.5");
    let of_learning = Some(predicted / parquet_gram);
    row(
        "parquet",
        "pmfcl predict, to Parquet, against learn, gram",
        predicted,
        of_learning,
        "≤ 1.3",
    );
    row("csv", "pyarrow: read_csv", arrow, None, "");
    row("csv", "Polars: read_csv", polars, None, "");
    row("csv", "pmfcl learn, qr", csv_qr, Some(csv_qr / polars), "≤ 1.25");
    row("csv", "pmfcl learn, gram", csv_gram, Some(csv_gram / polars), "≤ 1.25");
    table.note(format!("bytes of the files (parquet, csv): {sizes}"));
    table.note("pmfcl: the whole command, from start to a model file that is safe on disk");
    Ok(vec![table])
}

/// Seconds of a whole `pmfcl predict` with the model that was learned last, to a Parquet file.
fn predict(directory: &Path, file: &Path) -> Result<f64> {
    let mut command = Command::new(product()?);
    command.arg("predict").arg(directory.join("bench.pmf")).arg(file);
    command.arg("-o").arg(directory.join("predicted.parquet")).arg("--quiet");
    timed(command)
}

/// Seconds of a command from start to end.
fn timed(mut command: Command) -> Result<f64> {
    let start = Instant::now();
    if !command.stdout(Stdio::null()).status()?.success() {
        bail!("{command:?} failed");
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds of a whole `pmfcl learn`.
fn learn(directory: &Path, file: &Path, accumulator: &str) -> Result<f64> {
    let model: PathBuf = directory.join("bench.pmf");
    if model.exists() {
        std::fs::remove_file(&model)?;
    }
    let mut command = Command::new(product()?);
    command.arg("learn").arg(&model).arg(file);
    command.args(["--target", "y", "--accumulator", accumulator, "--quiet"]);
    timed(command)
}

/// `pmfcl learn --task-column` of `count` tasks in one file: the last tenth of them against the first. Every task is committed to
/// the model file before it is reported, so the times are those between the lines of the report.
pub(crate) fn many_tasks(count: usize) -> Result<Table> {
    const ROWS: usize = 30;
    const COLUMNS: usize = 20;
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("tasks.csv");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&data)?);
    let names: Vec<String> = (0..COLUMNS).map(|j| format!("x{j}")).collect();
    writeln!(file, "task,{},y", names.join(","))?;
    let count = count.max(20);
    for row in 0..count * ROWS {
        // Numbers of no pattern that a row of 20 columns could follow.
        let cell =
            |j: usize| (((row * (COLUMNS + 1) + j) as f64 * 12.9898).sin() * 43_758.5).fract();
        let cells: Vec<String> = (0..=COLUMNS).map(|j| format!("{:.6}", cell(j))).collect();
        writeln!(file, "t{},{}", row / ROWS, cells.join(","))?;
    }
    file.flush()?;
    drop(file);
    let mut table = Table::new(
        &format!("pmfcl learn --task-column: {count} tasks of {ROWS} rows and {COLUMNS} columns"),
        &["memory", "seconds", "read and summarize", "µs, first tenth", "µs, last tenth", "ratio"],
    );
    for memory in ["compact", "ledger"] {
        let start = Instant::now();
        let mut child = Command::new(product()?)
            .arg("learn")
            .arg(directory.path().join(format!("{memory}.pmf")))
            .arg(&data)
            .args(["--target", "y", "--task-column", "task", "--memory", memory])
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("pmfcl learn has no output")?;
        let mut told = Vec::with_capacity(count);
        for line in BufReader::new(out).lines() {
            if line?.starts_with("learned ") {
                told.push(start.elapsed().as_secs_f64());
            }
        }
        if !child.wait()?.success() || told.len() != count {
            bail!("pmfcl learn {} failed", data.display());
        }
        let tenth = count / 10;
        let cost = |from: usize| (told[from + tenth] - told[from]) / tenth as f64 * 1e6;
        let (first, last) = (cost(0), cost(count - 1 - tenth));
        table.row([
            memory.to_owned(),
            format!("{:.1}", told[count - 1]),
            format!("{:.1}", told[0]),
            format!("{first:.0}"),
            format!("{last:.0}"),
            format!("{:.2}", last / first),
        ]);
    }
    table.note("Aim: a ratio of at most 1.5. Each task is synced to the disk, which takes most of the time");
    Ok(table)
}

struct Peer {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Peer {
    fn start() -> Result<Self> {
        let mut child = Command::new("python3")
            .args(["-c", PEER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("python3 does not start")?;
        let out = child.stdout.take().context("python3 has no output")?;
        Ok(Self { child, out: BufReader::new(out) })
    }

    fn ask(&mut self, request: &str) -> Result<String> {
        let input = self.child.stdin.as_mut().context("python3 has no input")?;
        writeln!(input, "{request}")?;
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        if line.trim().is_empty() {
            bail!(
                "the peer did not answer `{request}`; it needs Python with numpy, pyarrow and polars"
            );
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
