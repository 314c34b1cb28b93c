//! What the DER paper printed (2020, Table 2, as in the first README of its code, Mammoth), and the arguments it
//! was printed for. Average accuracy after the last task in percent, mean of ten runs.

use super::Benchmark;

/// A line of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// The short name of the method, with its buffer: `er-200`.
    pub key: &'static str,
    /// P-MNIST.
    pub permuted: Option<f64>,
    /// R-MNIST.
    pub rotated: Option<f64>,
    /// S-MNIST, class-incremental.
    pub split: f64,
    /// S-MNIST, task-incremental.
    pub within: f64,
}

const fn line(key: &'static str, permuted: f64, rotated: f64, split: f64, within: f64) -> Line {
    Line { key, permuted: Some(permuted), rotated: Some(rotated), split, within }
}

/// The table.
pub const TABLE: [Line; 20] = [
    line("joint", 94.33, 95.76, 95.57, 99.51),
    line("sgd", 40.70, 67.66, 19.60, 94.94),
    line("oewc", 75.79, 77.35, 20.46, 98.39),
    line("si", 65.86, 71.91, 19.27, 96.00),
    Line { key: "lwf", permuted: None, rotated: None, split: 19.62, within: 94.11 },
    line("er-200", 72.37, 85.01, 80.43, 97.86),
    line("gem-200", 66.93, 80.80, 80.11, 97.78),
    line("agem-200", 66.42, 81.91, 45.72, 98.61),
    line("der-200", 81.74, 90.04, 84.55, 98.80),
    line("der++-200", 83.58, 90.43, 85.61, 98.76),
    line("er-500", 80.60, 88.91, 86.12, 99.04),
    line("gem-500", 76.88, 81.15, 85.99, 98.71),
    line("agem-500", 67.56, 80.31, 46.66, 98.93),
    line("der-500", 87.29, 92.24, 90.54, 98.84),
    line("der++-500", 88.21, 92.77, 91.00, 98.94),
    line("er-5120", 89.90, 93.45, 93.40, 99.33),
    line("gem-5120", 87.42, 88.57, 95.11, 99.44),
    line("agem-5120", 73.32, 80.18, 54.24, 98.93),
    line("der-5120", 91.66, 94.14, 94.90, 99.29),
    line("der++-5120", 92.26, 94.65, 95.30, 99.47),
];

/// The printed accuracy of a method, and the task-incremental one where there is one.
pub fn accuracy(benchmark: Benchmark, key: &str) -> Option<(f64, Option<f64>)> {
    let line = TABLE.iter().find(|line| line.key == key)?;
    match benchmark {
        Benchmark::Permuted => Some((line.permuted?, None)),
        Benchmark::Rotated => Some((line.rotated?, None)),
        Benchmark::Split => Some((line.split, Some(line.within))),
        Benchmark::Fashion => None,
    }
}

/// The buffers of the table.
pub const BUFFERS: [usize; 3] = [200, 500, 5120];

/// A learning rate with what else a method is tuned by, one for each buffer where it has one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arguments {
    /// Rows a step.
    pub batch: usize,
    /// SGD, and joint training, for which none are printed.
    pub sgd: f64,
    /// Online EWC: rate, λ as listed, γ.
    pub ewc: [f64; 3],
    /// The λ that reproduces the table where the listed one does not.
    pub ewc_lambda: f64,
    /// SI: rate, c, ξ.
    pub si: [f64; 3],
    /// ER: rates.
    pub er: [f64; 3],
    /// Rows replayed a step by ER.
    pub er_minibatch: usize,
    /// DER: rate, α, rows a draw.
    pub der: [(f64, f64, usize); 3],
    /// DER++: rate, α, β, rows a draw.
    pub derpp: [(f64, f64, f64, usize); 3],
    /// A-GEM: rates.
    pub agem: [f64; 3],
}

const PERMUTED: Arguments = Arguments {
    batch: 128,
    sgd: 0.2,
    ewc: [0.1, 0.7, 1.0],
    ewc_lambda: 7.0,
    si: [0.1, 0.5, 1.0],
    er: [0.2; 3],
    er_minibatch: 128,
    der: [(0.2, 1.0, 128), (0.2, 1.0, 128), (0.2, 0.5, 128)],
    derpp: [(0.1, 1.0, 1.0, 128), (0.2, 1.0, 0.5, 128), (0.2, 0.5, 1.0, 128)],
    agem: [0.1; 3],
};

const ROTATED: Arguments = Arguments {
    si: [0.1, 1.0, 1.0],
    der: [(0.2, 1.0, 128), (0.2, 0.5, 128), (0.2, 0.5, 128)],
    derpp: [(0.1, 1.0, 0.5, 128), (0.2, 0.5, 1.0, 128), (0.2, 0.5, 0.5, 128)],
    agem: [0.1, 0.3, 0.3],
    ..PERMUTED
};

const SPLIT: Arguments = Arguments {
    batch: 10,
    sgd: 0.03,
    ewc: [0.03, 90.0, 1.0],
    ewc_lambda: 90.0,
    si: [0.1, 1.0, 0.9],
    er: [0.01, 0.1, 0.1],
    er_minibatch: 10,
    der: [(0.03, 0.2, 10), (0.03, 1.0, 128), (0.1, 0.5, 128)],
    derpp: [(0.03, 0.2, 1.0, 128), (0.03, 1.0, 0.5, 10), (0.1, 0.2, 0.5, 64)],
    agem: [0.1; 3],
};

/// The tuned arguments of a protocol; Fashion-MNIST, which was not printed, takes those of S-MNIST.
pub fn arguments(benchmark: Benchmark) -> Arguments {
    match benchmark {
        Benchmark::Permuted => PERMUTED,
        Benchmark::Rotated => ROTATED,
        Benchmark::Split | Benchmark::Fashion => SPLIT,
    }
}

/// Rows a draw of A-GEM, in all protocols.
pub const AGEM_MINIBATCH: usize = 128;

/// Widths of the network of all protocols between inputs and outputs.
pub const HIDDEN: [usize; 2] = [100, 100];
