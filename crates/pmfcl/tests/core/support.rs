//! Rows, summaries and learners the tests share. Truths come from raw rows, never from the library.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use pmfcl::{
    Accumulator, Design, Learner, MemoryKind, Preference, Problem, Ridge, Rows, Settings,
    Summarizer, Summary, TaskRows, TaskSummary, Theta,
};
use pmfcl_oracle::Draw;

/// Raw rows of a task: `n × d` features and `n × p` targets, row-major.
#[derive(Debug, Clone)]
pub struct Table {
    pub x: Vec<f64>,
    pub y: Vec<f64>,
    pub d: usize,
    pub p: usize,
}

impl Table {
    /// Standard normal features and targets `x·truth + noise`.
    pub fn linear(n: usize, truth: &[f64], noise: f64, draw: &mut Draw) -> Self {
        let d = truth.len();
        let x = draw.normals(n * d);
        let y = x.chunks_exact(d).map(|r| inner(r, truth) + noise * draw.normal()).collect();
        Self { x, y, d, p: 1 }
    }

    /// Unrelated normals.
    pub fn noise(n: usize, d: usize, p: usize, draw: &mut Draw) -> Self {
        Self { x: draw.normals(n * d), y: draw.normals(n * p), d, p }
    }

    /// Normals in which a column may be zero, or a copy or a sum of others: every rank there is.
    pub fn awkward(n: usize, d: usize, p: usize, draw: &mut Draw) -> Self {
        let mut table = Self::noise(n, d, p, draw);
        for j in 1..d {
            let (kind, a, b) = (draw.below(6), draw.below(j), draw.below(j));
            for row in table.x.chunks_exact_mut(d) {
                match kind {
                    0 => row[j] = 0.0,
                    1 => row[j] = row[a],
                    2 => row[j] = row[a] - row[b],
                    _ => {}
                }
            }
        }
        table
    }

    pub fn n(&self) -> usize {
        self.y.len() / self.p
    }

    pub fn rows(&self) -> Rows<'_> {
        Rows::new(&self.x, self.d).unwrap()
    }

    pub fn targets(&self) -> Rows<'_> {
        Rows::new(&self.y, self.p).unwrap()
    }

    /// The rows as a learner takes them.
    pub fn task(&self) -> TaskRows<'_> {
        TaskRows::new(self.rows(), self.targets())
    }

    pub fn part(&self, from: usize, to: usize) -> Self {
        Self {
            x: self.x[from * self.d..to * self.d].to_vec(),
            y: self.y[from * self.p..to * self.p].to_vec(),
            ..*self
        }
    }

    pub fn pick(&self, rows: &[usize]) -> Self {
        let parts: Vec<Table> = rows.iter().map(|&i| self.part(i, i + 1)).collect();
        Self::stack(parts.iter())
    }

    pub fn stack<'a>(parts: impl Iterator<Item = &'a Table>) -> Self {
        let mut parts = parts.cloned();
        let mut all = parts.next().expect("at least one part");
        for part in parts {
            all.x.extend(part.x);
            all.y.extend(part.y);
        }
        all
    }

    /// The features times a number for each column.
    pub fn scaled(mut self, scales: &[f64]) -> Self {
        for row in self.x.chunks_exact_mut(self.d) {
            for (v, s) in row.iter_mut().zip(scales) {
                *v *= s;
            }
        }
        self
    }

    /// The same rows with a leading column of ones.
    pub fn with_ones(&self) -> Self {
        let x = self
            .x
            .chunks_exact(self.d)
            .flat_map(|r| std::iter::once(1.0).chain(r.iter().copied()))
            .collect();
        Self { x, d: self.d + 1, ..self.clone() }
    }

    pub fn summary(&self) -> Summary {
        self.summarize(false, Accumulator::Qr)
    }

    /// What a learner without an intercept keeps of these rows.
    pub fn kept(&self) -> TaskSummary {
        TaskSummary::exact(self.summary(), None)
    }

    pub fn summarize(&self, intercept: bool, accumulator: Accumulator) -> Summary {
        let design = Design::linear(self.d, intercept).unwrap();
        let mut s = Summarizer::new(design, self.p, accumulator).unwrap();
        s.add(self.rows(), self.targets(), None).unwrap();
        s.finish().unwrap()
    }

    /// `‖Xθ − Y‖²` from the rows, and the size of what cancelled in it: `Σ (Σ|x||θ| + |y|)²`.
    pub fn squares(&self, theta: &Theta) -> (f64, f64) {
        let (mut squares, mut size) = (0.0, 0.0);
        for (x, y) in self.x.chunks_exact(self.d).zip(self.y.chunks_exact(self.p)) {
            for (k, y) in y.iter().enumerate() {
                let t = theta.column(k);
                squares += (inner(x, t) - y).powi(2);
                let absolute: f64 = x.iter().zip(t).map(|(a, b)| (a * b).abs()).sum();
                size += (absolute + y.abs()).powi(2);
            }
        }
        (squares, size)
    }

    /// `L(θ)` from the rows.
    pub fn loss(&self, theta: &Theta) -> f64 {
        self.squares(theta).0 / (2.0 * self.n() as f64)
    }
}

pub fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub fn theta(m: usize, p: usize, draw: &mut Draw) -> Theta {
    Theta::from_columns(m, p, draw.normals(m * p)).unwrap()
}

/// Least squares without intercept or ridge; everything else by default.
pub fn plain() -> Settings {
    Settings { intercept: false, ridge: Ridge::Fixed(0.0), threads: 1, ..Settings::default() }
}

pub fn settings(memory: MemoryKind, prefer: Preference) -> Settings {
    Settings { memory, prefer, ..plain() }
}

/// Least squares of values under these settings, before the first task.
pub fn learner(settings: Settings) -> Learner {
    Learner::new(Problem::squared(), settings).unwrap()
}

/// A learner of these tables, named "0", "1", ….
pub fn learned(settings: Settings, tables: &[Table]) -> Learner {
    let mut learner = learner(settings);
    for (t, table) in tables.iter().enumerate() {
        learner.learn(&t.to_string(), table.task(), 1.0).unwrap();
    }
    learner
}

/// What the bytes of a summary say, read by the format's own page and nothing else.
#[derive(Debug)]
pub struct Decoded {
    pub m: usize,
    pub p: usize,
    pub n: f64,
    pub pivots: Vec<usize>,
    /// Dense `r × (m + p)`: R, then Z.
    pub rows: Vec<Vec<f64>>,
    pub c: Vec<f64>,
    pub sums: Vec<f64>,
}

pub fn decode(summary: &Summary) -> Decoded {
    let bytes = summary.to_bytes();
    let int = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let float = |at: usize| f64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (m, p, r) = (int(8), int(12), int(16));
    let pivots: Vec<usize> = (0..r).map(|i| int(28 + 4 * i)).collect();
    let mut at = 28 + 4 * r;
    let mut take = |count: usize| -> Vec<f64> {
        let numbers = (0..count).map(|i| float(at + 8 * i)).collect();
        at += 8 * count;
        numbers
    };
    let rows = pivots
        .iter()
        .map(|&j| {
            let mut row = vec![0.0; j];
            row.extend(take(m - j + p));
            row
        })
        .collect();
    let (c, sums) = (take(p), take(p));
    assert_eq!(at + 4, bytes.len(), "nothing but the checksum is left");
    Decoded { m, p, n: float(20), pivots, rows, c, sums }
}

/// Dense Gauss elimination with pivoting, slow and obvious.
pub fn gauss(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for c in 0..n {
        let pivot = (c..n).max_by(|i, j| a[*i][c].abs().total_cmp(&a[*j][c].abs())).unwrap();
        a.swap(c, pivot);
        b.swap(c, pivot);
        for i in c + 1..n {
            let f = a[i][c] / a[c][c];
            for j in c..n {
                a[i][j] -= f * a[c][j];
            }
            b[i] -= f * b[c];
        }
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| a[i][j] * b[j]).sum();
        b[i] = (b[i] - known) / a[i][i];
    }
    b
}

/// `XᵀX` and `Xᵀy` of the first target.
pub fn normal_equations(t: &Table) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut a = vec![vec![0.0; t.d]; t.d];
    let mut b = vec![0.0; t.d];
    for (x, y) in t.x.chunks_exact(t.d).zip(t.y.chunks_exact(t.p)) {
        for i in 0..t.d {
            for j in 0..t.d {
                a[i][j] += x[i] * x[j];
            }
            b[i] += x[i] * y[0];
        }
    }
    (a, b)
}

/// Largest difference relative to the largest entry of `b`.
pub fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let scale = b.iter().fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
    a.iter().zip(b).fold(0.0, |m, (a, b)| f64::max(m, (a - b).abs())) / scale
}
