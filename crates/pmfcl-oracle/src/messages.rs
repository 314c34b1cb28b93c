//! The paper's own messages `(N, B, γ)`, as an executable reference.
//!
//! ```text
//! client   N_i ← N_i + n,   B_i ← (N_before B_i + n H)/N_i,   γ_i = (n/N_i) H (θ_min − θ)
//! server   β_i = N_i/ΣN,    (Σ β_i B_i) Δθ = Σ β_i γ_i,       θ ← θ + Δθ
//! ```
//!
//! In print `β` is carried on by a factor `N_{k,i}/N_{k−1,i}`, which divides by zero for a newcomer; here it is made anew from
//! the `N_i` (erratum E15). What no reordering of the formulas repairs is `γ`: it is the change since the model the client
//! last saw. It is right only while every client sees every model and no message is lost: one `γ` that does not arrive is
//! missing for good, though `B` says its rows were counted. Increments, which pmfcl sends, have no
//! such memory; tests hold the two against each other.
//!
//! Paper: Algorithm 4 (`alg:fed-pmf-cl`).

use faer::{Mat, Side};

/// What a client sends: `N`, `B` as the upper triangle, `γ`.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Samples of the client so far.
    pub n: f64,
    /// Mean curvature so far: row after row, from the diagonal on.
    pub b: Vec<f64>,
    /// The pull of the newest step, from the model the client last saw.
    pub gamma: Vec<f64>,
}

impl Message {
    /// The same client in a step without rows: nothing pulls.
    #[must_use]
    pub fn idle(&self) -> Self {
        Self { gamma: vec![0.0; self.gamma.len()], ..self.clone() }
    }
}

/// A client of the paper: one target.
#[derive(Debug, Clone)]
pub struct Client {
    m: usize,
    n: f64,
    b: Vec<f64>,
}

impl Client {
    /// A client that has seen nothing, of a model with `m` columns.
    pub fn new(m: usize) -> Self {
        Self { m, n: 0.0, b: vec![0.0; m * (m + 1) / 2] }
    }

    /// Takes the rows of a step and the model last sent, and says what to send back.
    ///
    /// # Panics
    /// When there is no row, or the shapes differ; this is a reference for tests.
    pub fn step(&mut self, x: &[f64], y: &[f64], theta: &[f64]) -> Message {
        assert!(!y.is_empty() && x.len() == y.len() * self.m && theta.len() == self.m);
        let n = self.n + y.len() as f64;
        let (mut xx, mut xy) = (vec![0.0; self.b.len()], vec![0.0; self.m]);
        for (row, y) in x.chunks_exact(self.m).zip(y) {
            let mut at = 0;
            for i in 0..self.m {
                xy[i] += row[i] * y;
                for j in i..self.m {
                    xx[at] += row[i] * row[j];
                    at += 1;
                }
            }
        }
        // H is XᵀX / n of the step, so that n H is XᵀX: nothing is divided by what may be zero.
        for (b, xx) in self.b.iter_mut().zip(&xx) {
            *b = (self.n * *b + xx) / n;
        }
        self.n = n;
        // H (θ_min − θ) = (Xᵀy − XᵀX θ) / n of the step, also where θ_min is not unique.
        let gamma = xy.iter().zip(times(&xx, theta)).map(|(xy, p)| (xy - p) / n).collect();
        Message { n, b: self.b.clone(), gamma }
    }
}

/// The server of the paper.
#[derive(Debug, Clone)]
pub struct Server {
    theta: Vec<f64>,
}

impl Server {
    /// A server that starts from zero.
    pub fn new(m: usize) -> Self {
        Self { theta: vec![0.0; m] }
    }

    /// The parameters, as sent to all clients.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// One round: a message of every client that has ever had rows, [`Message::idle`] for those without new ones.
    ///
    /// # Panics
    /// When the eigenvalues of the curvature do not converge; this is a reference for tests.
    pub fn round(&mut self, messages: &[Message]) -> &[f64] {
        let m = self.theta.len();
        let total: f64 = messages.iter().map(|message| message.n).sum();
        let (mut b, mut gamma) = (vec![0.0; m * (m + 1) / 2], vec![0.0; m]);
        for message in messages {
            let beta = message.n / total;
            b.iter_mut().zip(&message.b).for_each(|(s, b)| *s += beta * b);
            gamma.iter_mut().zip(&message.gamma).for_each(|(s, g)| *s += beta * g);
        }
        self.theta.iter_mut().zip(shortest(&b, &gamma)).for_each(|(t, d)| *t += d);
        &self.theta
    }
}

/// `B⁺ γ`, `B` given by its upper triangle.
fn shortest(upper: &[f64], gamma: &[f64]) -> Vec<f64> {
    let m = gamma.len();
    let at = |i: usize, j: usize| i * m - i * i.saturating_sub(1) / 2 + j - i;
    let b = Mat::from_fn(m, m, |i, j| upper[at(i.min(j), i.max(j))]);
    let eigen = b.self_adjoint_eigen(Side::Lower).expect("eigenvalues converge");
    let (u, s) = (eigen.U(), eigen.S());
    let cut = m as f64 * f64::EPSILON * s[m - 1];
    let mut x = vec![0.0; m];
    for i in (0..m).filter(|&i| s[i] > cut) {
        let along: f64 = (0..m).map(|j| u[(j, i)] * gamma[j]).sum::<f64>() / s[i];
        (0..m).for_each(|j| x[j] += along * u[(j, i)]);
    }
    x
}

/// A symmetric matrix, given by its upper triangle, times a vector.
fn times(upper: &[f64], v: &[f64]) -> Vec<f64> {
    let m = v.len();
    let mut out = vec![0.0; m];
    let mut at = 0;
    for i in 0..m {
        for j in i..m {
            out[i] += upper[at] * v[j];
            if j > i {
                out[j] += upper[at] * v[i];
            }
            at += 1;
        }
    }
    out
}
