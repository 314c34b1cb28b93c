//! Our kernels against OpenBLAS, measured in turns in one run, on one thread.
//!
//! ```text
//! PYTHON=/path/to/python cargo run --release --example kernel_bench [-- gram|factor|…]
//! ```
//!
//! The Python needs NumPy and SciPy. Flops are counted as `n m²` for sums and `2 n m²` for a factor,
//! whatever a method really does. Every result is checked once before it is timed.

#![allow(clippy::print_stdout, reason = "the table is the point")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use pmfcl::kernel_hooks as kernels;

const TURNS: usize = 4;

struct Peer {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Peer {
    fn start() -> Self {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/openblas.py");
        let mut child = Command::new(python)
            .arg(script)
            .env("OPENBLAS_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python with NumPy and SciPy; set PYTHON");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, out }
    }

    fn ask(&mut self, request: &str) -> f64 {
        let mut to = self.child.stdin.as_ref().expect("piped");
        writeln!(to, "{request}").expect("the peer listens");
        let mut line = String::new();
        self.out.read_line(&mut line).expect("the peer answers");
        line.trim().parse().unwrap_or_else(|_| panic!("`{request}` failed"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Seconds this thread has spent on a processor; waiting for other programs does not count.
fn on_processor(start: Instant) -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = statistics.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    spent.map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// Best seconds of `reps` measurements, each repeated to last a quarter of a second: the clock of
/// [`on_processor`] is advanced a few hundred times per second.
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

/// Uniform numbers in −1..1 (splitmix64).
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / f64::from(1u32 << 31) / f64::from(1 << 21) - 1.0
    }
}

/// `n` rows of `m` features and one target. `common` is the weight of a part all features share, and
/// the condition number is about `common · √m`.
fn rows(n: usize, m: usize, common: f64) -> Vec<f64> {
    let mut next = noise((n * m) as u64);
    let mut cells = Vec::with_capacity(n * (m + 1));
    for _ in 0..n {
        let shared = common * next();
        for _ in 0..m {
            cells.push(shared + next());
        }
        cells.push(next());
    }
    cells
}

fn faer_gemm() -> f64 {
    let mut next = noise(7);
    let a = Mat::from_fn(2048, 2048, |_, _| next());
    let mut c = Mat::zeros(2048, 2048);
    best(2, || matmul(c.as_mut(), Accum::Replace, a.as_ref(), a.as_ref(), 1.0, Par::Seq))
}

fn check(cells: &[f64], m: usize, upper: impl Fn(usize, usize) -> f64) {
    for (i, j) in [(0, 0), (0, m - 1), (m / 2, m - 1), (m - 1, m - 1)] {
        let products = cells.chunks_exact(m + 1).map(|row| row[i] * row[j]);
        let (sum, size) = products.fold((0.0, 0.0), |(s, a), x: f64| (s + x, a + x.abs()));
        let got = upper(i, j);
        assert!((got - sum).abs() <= 1e-11 * size, "({i}, {j}): {got} instead of {sum}");
    }
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only == name;
    let mut peer = Peer::start();
    let gemm_flops = 2.0 * 2048f64.powi(3);
    let mut gemm = [f64::INFINITY; 2];
    for _ in 0..TURNS {
        gemm[0] = gemm[0].min(peer.ask("dgemm 2048 2"));
        gemm[1] = gemm[1].min(faer_gemm());
    }
    let [blas, faer] = gemm.map(|seconds| gemm_flops / seconds / 1e9);
    let top = blas.max(faer);
    println!("matrix product 2048: OpenBLAS {blas:.1} GF/s, faer {faer:.1} GF/s\n");

    let shapes = [(200_000, 32), (200_000, 128), (50_000, 256), (50_000, 512), (20_000, 1024)];
    if wanted("gram") {
        println!("sums        m     ours    dsyrk   ratio   of best product");
        for (n, m) in shapes {
            let cells = rows(n, m, 0.0);
            let g = kernels::gram(&cells, m, 1);
            check(&cells, m, |i, j| g[i * m + j]);
            let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..TURNS {
                ours = ours.min(best(3, || drop(kernels::gram(&cells, m, 1))));
                theirs = theirs.min(peer.ask(&format!("dsyrk {n} {m} 3")));
            }
            let [ours, theirs] = [ours, theirs].map(|s| (n * m * m) as f64 / s / 1e9);
            let (ratio, part) = (ours / theirs, 100.0 * ours / top);
            println!("{m:13} {ours:8.1} {theirs:8.1} {ratio:7.2} {part:8.0} %");
        }
    }
    for (name, common) in [("factor", 0.0), ("correlated", 100.0), ("stiff", 1e8)] {
        if !wanted(name) {
            continue;
        }
        println!("{name:<11} m     ours   dgeqrf   dtpqrt   ratio   of best product");
        for (n, m) in shapes {
            let cells = rows(n, m, common);
            let r = kernels::triangle(&cells, m, 1);
            check(&cells, m, |i, j| (0..=i).map(|k| r[k * (m + 1) + i] * r[k * (m + 1) + j]).sum());
            let mut times = [f64::INFINITY; 3];
            for _ in 0..TURNS {
                times[0] = times[0].min(best(2, || drop(kernels::triangle(&cells, m, 1))));
                if common <= 0.0 {
                    times[1] = times[1].min(peer.ask(&format!("dgeqrf {n} {m} 1")));
                    times[2] = times[2].min(peer.ask(&format!("dtpqrt {n} {m} 1")));
                }
            }
            let [ours, qr, tp] = times.map(|s| (2 * n * m * m) as f64 / s / 1e9);
            let (ratio, part) = (ours / qr.max(tp), 100.0 * ours / top);
            println!("{m:13} {ours:8.1} {qr:8.1} {tp:8.1} {ratio:7.2} {part:8.0} %");
        }
    }
}
