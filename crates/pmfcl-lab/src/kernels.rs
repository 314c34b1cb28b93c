//! Our accumulators against OpenBLAS and LAPACK, measured in turns in one run, on one thread.
//!
//! What is timed is the public [`Summarizer`], from the caller's rows to the finished summary. Flops are
//! counted as `n m²` for sums and `2 n m²` for a triangle, whatever a method really does, and set against the best
//! matrix product of this machine. Seconds are those on a processor, so that other programs disturb little.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use pmfcl::{Accumulator, Design, Error, Rows, Summarizer, Summary, Theta};
use pmfcl_oracle::Draw;

use pmfcl_terminal::Table;

const PEER: &str = include_str!("../../../bench/openblas.py");
const SHAPES: [(usize, usize); 5] =
    [(200_000, 32), (200_000, 128), (50_000, 256), (50_000, 512), (20_000, 1024)];

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

/// Sums, then triangles of well-conditioned, correlated and stiff rows.
///
/// # Errors
/// When Python with NumPy and SciPy is not there, or the library refuses the rows.
pub fn run(turns: usize) -> Result<Vec<Table>, Trouble> {
    let mut peer = Peer::start()?;
    let mut product = [f64::INFINITY; 2];
    for _ in 0..turns {
        product[0] = product[0].min(peer.ask("dgemm 2048 2")?);
        product[1] = product[1].min(product_by_faer());
    }
    let [blas, faer] = product.map(|s| 2.0 * 2048f64.powi(3) / s / 1e9);
    let top = blas.max(faer);
    let mut tables = vec![sums(&mut peer, turns, top)?];
    tables[0].note(format!(
        "Best matrix product of size 2048: OpenBLAS {blas:.1}, faer {faer:.1} GF/s. One thread."
    ));
    for (what, common) in
        [("independent columns", 0.0), ("correlated columns, condition about 1e3", 100.0)]
    {
        tables.push(triangles(&mut peer, turns, top, what, common)?);
    }
    Ok(tables)
}

fn sums(peer: &mut Peer, turns: usize, top: f64) -> Result<Table, Trouble> {
    let mut table = Table::new(
        "Gram accumulator, GF/s (n·m² counted)",
        &["n × m", "pmfcl", "OpenBLAS dsyrk", "ratio", "of best product"],
    );
    for (n, m) in SHAPES {
        let rows = Sample::new(n, m, 0.0);
        rows.check(&rows.summarize(Accumulator::Gram)?)?;
        let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..turns {
            ours = ours.min(best(2, || drop(rows.summarize(Accumulator::Gram))));
            theirs = theirs.min(peer.ask(&format!("dsyrk {n} {m} 3"))?);
        }
        let [ours, theirs] = [ours, theirs].map(|s| (n * m * m) as f64 / s / 1e9);
        table.row([
            format!("{n} × {m}"),
            format!("{ours:.1}"),
            format!("{theirs:.1}"),
            format!("{:.2}", ours / theirs),
            format!("{:.0} %", 100.0 * ours / top),
        ]);
    }
    Ok(table)
}

fn triangles(
    peer: &mut Peer,
    turns: usize,
    top: f64,
    what: &str,
    common: f64,
) -> Result<Table, Trouble> {
    let mut table = Table::new(
        &format!("QR accumulator, GF/s (2·n·m² counted), {what}"),
        &["n × m", "pmfcl", "LAPACK dgeqrf", "dtpqrt", "ratio", "of best product"],
    );
    for (n, m) in SHAPES {
        let rows = Sample::new(n, m, common);
        rows.check(&rows.summarize(Accumulator::Qr)?)?;
        let mut times = [f64::INFINITY; 3];
        for _ in 0..turns {
            times[0] = times[0].min(best(2, || drop(rows.summarize(Accumulator::Qr))));
            times[1] = times[1].min(peer.ask(&format!("dgeqrf {n} {m} 1"))?);
            times[2] = times[2].min(peer.ask(&format!("dtpqrt {n} {m} 1"))?);
        }
        let [ours, qr, tp] = times.map(|s| (2 * n * m * m) as f64 / s / 1e9);
        table.row([
            format!("{n} × {m}"),
            format!("{ours:.1}"),
            format!("{qr:.1}"),
            format!("{tp:.1}"),
            format!("{:.2}", ours / qr.max(tp)),
            format!("{:.0} %", 100.0 * ours / top),
        ]);
    }
    Ok(table)
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

    fn summarize(&self, accumulator: Accumulator) -> Result<Summary, Error> {
        let design = Design::linear(self.m, false)?;
        let mut summarizer = Summarizer::new(design, 1, accumulator)?;
        summarizer.add(Rows::new(&self.x, self.m)?, Rows::new(&self.y, 1)?, None)?;
        summarizer.finish()
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
    best(2, || matmul(c.as_mut(), Accum::Replace, a.as_ref(), a.as_ref(), 1.0, Par::Seq))
}

/// Best seconds of `reps` measurements, each repeated to last a quarter of a second: the clock of
/// [`on_processor`] advances a few hundred times a second.
fn best(reps: usize, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut measure = |times: usize| {
        let begin = on_processor(start);
        (0..times).for_each(|_| run());
        (on_processor(start) - begin) / times as f64
    };
    let once = measure(1).max(1e-4);
    let times = (0.25 / once).ceil() as usize;
    (0..reps).map(|_| measure(times)).fold(f64::INFINITY, f64::min)
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
            .env("OPENBLAS_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(trouble)?;
        let out = child.stdout.take().ok_or_else(|| Trouble::Peer("no output".to_owned()))?;
        Ok(Self { child, out: BufReader::new(out) })
    }

    fn ask(&mut self, request: &str) -> Result<f64, Trouble> {
        let trouble = |e: std::io::Error| Trouble::Peer(e.to_string());
        let input = self.child.stdin.as_mut();
        let input = input.ok_or_else(|| Trouble::Peer("no input".to_owned()))?;
        writeln!(input, "{request}").map_err(trouble)?;
        let mut line = String::new();
        self.out.read_line(&mut line).map_err(trouble)?;
        line.trim()
            .parse()
            .map_err(|_| Trouble::Peer(format!("`{request}` was answered by `{line}`")))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
