//! Our accumulators against OpenBLAS and LAPACK, measured in turns in one run, on one thread and on two.
//!
//! What is timed is the public [`Summarizer`]. "Summary" is all of it, from the caller's rows to the finished summary, with one or two
//! Cholesky decompositions; "sums" is adding whole leaves of rows to a summarizer that has seen some, which is what `dsyrk` does too. Flops
//! are counted as `n m²` for sums and `2 n m²` for a triangle, whatever a method really does, and set against the best
//! matrix product of this machine on one thread. With one thread, seconds are those on a processor, so that other programs disturb
//! little; with two, those that went by.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use pmfcl::{Accumulator, Design, Error, Rows, Summarizer, Summary, Theta, instruction_set};
use pmfcl_oracle::Draw;

use pmfcl_terminal::Table;

const PEER: &str = include_str!("../../../bench/openblas.py");

/// Widths measured unless others are asked for.
pub const WIDTHS: [usize; 9] = [16, 32, 64, 128, 256, 512, 1024, 2048, 5000];

/// Columns from which on a case takes many seconds: it is measured in one turn, and no triangles are made.
const WIDE: usize = 2048;

/// Numbers of rows such that a case lasts some tenths of a second and sums are not those of few rows, which would be factored.
fn rows_for(m: usize) -> usize {
    (10_000_000_000 / (m * m)).clamp(9 * m / 4, 200_000)
}

/// Rows at most that LAPACK factors as one matrix, far slower than block by block when they are many.
const WHOLE: usize = 20_000;

/// More processors than threads by this much are worth a warning.
const MORE: f64 = 0.3;

/// What went wrong with a benchmark.
#[derive(Debug)]
pub enum Trouble {
    /// The peer is missing or does not answer.
    Peer(String),
    /// The library refused.
    Library(Error),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Peer(what) => {
                write!(
                    f,
                    "the peer cannot be measured: {what}; `make bench` installs NumPy and SciPy for it"
                )
            }
            Self::Library(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Trouble {}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

/// Sums, then triangles.
///
/// # Errors
/// When Python with NumPy and SciPy is not there, or the library refuses the rows.
pub fn run(widths: &[usize], turns: usize) -> Result<Vec<Table>, Trouble> {
    let mut peer = Peer::start()?;
    let sets = format!(
        "Instructions: pmfcl {}, OpenBLAS {}, faer (for one product) the best of the processor.",
        instruction_set(),
        peer.ask("info")?
    );
    let mut tables = Vec::new();
    let mut one = Vec::new();
    let mut top = 0.0;
    for threads in [1, 2] {
        let granted = peer.ask(&format!("threads {threads}"))?;
        let mut bench = Measurement { peer: &mut peer, threads, turns, busiest: 0.0 };
        if threads == 1 {
            let [blas, faer] = bench.products()?;
            top = blas.max(faer);
            one.push(sets.clone());
            one.push(format!(
                "Best matrix product of size 2048 on one thread: OpenBLAS {blas:.1}, faer {faer:.1} GF/s."
            ));
        }
        let mut some = vec![bench.sums(widths, top)?, bench.triangles(widths, top)?];
        if bench.busiest > threads as f64 + MORE {
            some[0].note(format!(
                "WARNING: OpenBLAS kept {:.1} processors busy where {threads} were asked for ({granted} threads): these ratios are too low.",
                bench.busiest
            ));
        }
        tables.extend(some);
    }
    one.into_iter().for_each(|note| tables[0].note(note));
    Ok(tables)
}

/// Both sides on so many threads.
struct Measurement<'a> {
    peer: &'a mut Peer,
    threads: usize,
    turns: usize,
    /// Most processors that the peer kept busy.
    busiest: f64,
}

impl Measurement<'_> {
    fn ask(&mut self, request: &str) -> Result<f64, Trouble> {
        let (seconds, processors) = self.peer.time(request)?;
        self.busiest = self.busiest.max(processors);
        Ok(seconds)
    }

    /// Best matrix products of OpenBLAS and of faer.
    fn products(&mut self) -> Result<[f64; 2], Trouble> {
        let mut product = [f64::INFINITY; 2];
        for _ in 0..self.turns {
            product[0] = product[0].min(self.ask("dgemm 2048 2")?);
            product[1] = product[1].min(product_by_faer());
        }
        Ok(product.map(|s| 2.0 * 2048f64.powi(3) / s / 1e9))
    }

    fn sums(&mut self, widths: &[usize], top: f64) -> Result<Table, Trouble> {
        let mut table = Table::new(
            &format!("Gram accumulator, {} thread(s), GF/s (n·m² counted)", self.threads),
            &[
                "n × m",
                "sums",
                "OpenBLAS dsyrk",
                "ratio",
                "of best product",
                "summary",
                "ratio",
                "mixed",
            ],
        );
        for &m in widths {
            let n = rows_for(m);
            let rows = Sample::new(n, m, 0.0);
            let wide = m >= WIDE;
            let mut times = [f64::INFINITY; 4];
            let mut summary = None;
            for _ in 0..if wide { 1 } else { self.turns } {
                let [sums, mixed] = [Accumulator::Gram, Accumulator::Mixed]
                    .map(|accumulator| rows.add(accumulator, self.threads));
                let dsyrk = self.ask(&format!("dsyrk {n} {m} {}", if wide { 1 } else { 3 }))?;
                let run = || summary = Some(rows.summarize(Accumulator::Gram, self.threads));
                let whole = best(if wide { 1 } else { 2 }, self.threads, run);
                for (least, seconds) in times.iter_mut().zip([sums?, dsyrk, whole, mixed?]) {
                    *least = least.min(seconds);
                }
            }
            summary.map_or(Ok(()), |made| rows.check(&made?))?;
            let [sums, dsyrk, whole, mixed] = times.map(|s| (n * m * m) as f64 / s / 1e9);
            table.row([
                format!("{n} × {m}"),
                format!("{sums:.1}"),
                format!("{dsyrk:.1}"),
                format!("{:.2}", sums / dsyrk),
                format!("{:.0} %", 100.0 * sums / top),
                format!("{whole:.1}"),
                format!("{:.2}", whole / dsyrk),
                format!("{mixed:.1}"),
            ]);
        }
        Ok(table)
    }

    /// Triangles of independent and of correlated columns; to LAPACK they are the same work.
    fn triangles(&mut self, widths: &[usize], top: f64) -> Result<Table, Trouble> {
        let mut table = Table::new(
            &format!(
                "QR accumulator, {} thread(s), GF/s (2·n·m² counted), columns of condition about 1e3",
                self.threads
            ),
            &[
                "n × m",
                "pmfcl",
                "dgeqrf",
                "dtpqrt",
                "ratio",
                "of best product",
                "independent columns",
            ],
        );
        for &m in widths.iter().filter(|m| **m < WIDE) {
            let n = rows_for(m);
            let samples = [100.0, 0.0].map(|common| Sample::new(n, m, common));
            let mut times = [f64::INFINITY; 4];
            for _ in 0..self.turns {
                for (rows, least) in samples.iter().zip(&mut times) {
                    let mut summary = None;
                    let run = || summary = Some(rows.summarize(Accumulator::Qr, self.threads));
                    *least = least.min(best(2, self.threads, run));
                    summary.map_or(Ok(()), |made| rows.check(&made?))?;
                }
                times[3] = times[3].min(self.ask(&format!("dtpqrt {n} {m} 1"))?);
                let whole = n.min(WHOLE);
                let seconds = self.ask(&format!("dgeqrf {whole} {m} 1"))?;
                times[2] = times[2].min(seconds * (n as f64 / whole as f64));
            }
            let [ours, independent, qr, tp] = times.map(|s| (2 * n * m * m) as f64 / s / 1e9);
            table.row([
                format!("{n} × {m}"),
                format!("{ours:.1}"),
                format!("{qr:.1}"),
                format!("{tp:.1}"),
                format!("{:.2}", ours / qr.max(tp)),
                format!("{:.0} %", 100.0 * ours / top),
                format!("{independent:.1}"),
            ]);
        }
        Ok(table)
    }
}

/// Rows to time with.
struct Sample {
    x: Vec<f64>,
    y: Vec<f64>,
    m: usize,
}

impl Sample {
    /// `common` is the weight of a part all columns share; the condition number is about `common · √m`.
    fn new(n: usize, m: usize, common: f64) -> Self {
        let mut draw = Draw::new(n as u64);
        let mut x = Vec::with_capacity(n * m);
        for _ in 0..n {
            let shared = common * draw.uniform();
            x.extend((0..m).map(|_| shared + draw.uniform() - 0.5));
        }
        let y = (0..n).map(|_| draw.uniform()).collect();
        Self { x, y, m }
    }

    fn summarize(&self, accumulator: Accumulator, threads: usize) -> Result<Summary, Error> {
        let design = Design::linear(self.m, false)?;
        let summarizer = Summarizer::new(design, 1, accumulator)?.threads(threads);
        summarizer.finish_with(Rows::new(&self.x, self.m)?, Rows::new(&self.y, 1)?, None)
    }

    /// Seconds that it takes to add all rows to sums that have some already. They are added in whole leaves, so that none is only put
    /// aside, and the time is that of as many rows as there are.
    fn add(&self, accumulator: Accumulator, threads: usize) -> Result<f64, Error> {
        let design = Design::linear(self.m, false)?;
        let mut summarizer = Summarizer::new(design, 1, accumulator)?.threads(threads);
        let (n, leaf) = (self.y.len(), summarizer.leaf_rows());
        let (x, y) = (Rows::new(&self.x, self.m)?, Rows::new(&self.y, 1)?);
        let whole = n / leaf * leaf;
        let mut add = |rows: usize| summarizer.add(x.slice(0, rows), y.slice(0, rows), None);
        // The first leaf is looked at, to see whether sums keep enough digits.
        add(leaf)?;
        let mut done = Ok(());
        let seconds = best(if self.m >= WIDE { 1 } else { 2 }, threads, || done = add(whole));
        done.map(|()| seconds * n as f64 / whole as f64)
    }

    /// The summary's loss is that of the rows, at a parameter that mixes all columns.
    fn check(&self, summary: &Summary) -> Result<(), Error> {
        let theta: Vec<f64> = (0..self.m).map(|j| if j % 2 == 0 { 0.1 } else { -0.1 }).collect();
        let squares: f64 = self
            .x
            .chunks_exact(self.m)
            .zip(&self.y)
            .map(|(r, y)| (r.iter().zip(&theta).map(|(a, b)| a * b).sum::<f64>() - y).powi(2))
            .sum();
        let loss = squares / (2.0 * self.y.len() as f64);
        let found = summary.loss(&Theta::from_slice(&theta))?;
        assert!((found / loss - 1.0).abs() < 1e-9, "{found} instead of {loss}");
        Ok(())
    }
}

fn product_by_faer() -> f64 {
    let mut draw = Draw::new(7);
    let a = Mat::from_fn(2048, 2048, |_, _| draw.uniform());
    let mut c = Mat::zeros(2048, 2048);
    best(2, 1, || matmul(c.as_mut(), Accum::Replace, a.as_ref(), a.as_ref(), 1.0, Par::Seq))
}

/// Best seconds of `reps` measurements, each repeated to last a quarter of a second: the clock of
/// [`on_processor`] advances a few hundred times a second. With several threads, seconds that went by.
fn best(reps: usize, threads: usize, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    let clock = || if threads == 1 { on_processor(start) } else { start.elapsed().as_secs_f64() };
    let mut measure = |times: usize| {
        let begin = clock();
        (0..times).for_each(|_| run());
        (clock() - begin) / times as f64
    };
    let once = measure(1).max(1e-4);
    let times = (0.25 / once).ceil() as usize;
    // What lasts long enough has been measured.
    let (reps, first) = if times == 1 { (reps - 1, once) } else { (reps, f64::INFINITY) };
    (0..reps).map(|_| measure(times)).fold(first, f64::min)
}

/// Seconds this thread has spent on a processor; where the system does not say, seconds gone by.
fn on_processor(start: Instant) -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = statistics.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    spent.map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// OpenBLAS and LAPACK behind a line protocol.
struct Peer {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Peer {
    fn start() -> Result<Self, Trouble> {
        let trouble = |e: std::io::Error| Trouble::Peer(e.to_string());
        let mut child = Command::new("python3")
            .args(["-c", PEER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(trouble)?;
        let out = child.stdout.take().ok_or_else(|| Trouble::Peer("no output".to_owned()))?;
        Ok(Self { child, out: BufReader::new(out) })
    }

    /// The answer to a request.
    fn ask(&mut self, request: &str) -> Result<String, Trouble> {
        let trouble = |e: std::io::Error| Trouble::Peer(e.to_string());
        let input = self.child.stdin.as_mut();
        let input = input.ok_or_else(|| Trouble::Peer("no input".to_owned()))?;
        writeln!(input, "{request}").map_err(trouble)?;
        let mut line = String::new();
        self.out.read_line(&mut line).map_err(trouble)?;
        Ok(line.trim().to_owned())
    }

    /// The seconds of a kernel and the processors it kept busy.
    fn time(&mut self, request: &str) -> Result<(f64, f64), Trouble> {
        let line = self.ask(request)?;
        let parsed = line.split_once(' ').map(|(a, b)| (a.parse(), b.parse()));
        match parsed {
            Some((Ok(seconds), Ok(processors))) => Ok((seconds, processors)),
            _ => Err(Trouble::Peer(format!("`{request}` was answered by `{line}`"))),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
