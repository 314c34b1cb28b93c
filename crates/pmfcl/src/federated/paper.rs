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
//! missing for good, though `B` says its rows were counted. Increments ([`super::Update`]) have no such memory, so they are what
//! the crate uses; tests hold the two against each other.
//!
//! Paper: Algorithm 4 (`alg:fed-pmf-cl`).

use faer::{Mat, Side};

use crate::error::{Error, Result};
use crate::summary::Summary;

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

    /// Takes the summary of a step and the model last sent, and says what to send back.
    ///
    /// # Errors
    /// When the summary is empty, has several targets, or another number of columns.
    pub fn step(&mut self, task: &Summary, theta: &[f64]) -> Result<Message> {
        let sizes = [("the step", task.width()), ("the model", theta.len())];
        if let Some((what, found)) = sizes.into_iter().find(|(_, found)| *found != self.m) {
            return Err(Error::Shape { what, unit: "columns", expected: self.m, found });
        }
        if task.targets() != 1 {
            let found = task.targets();
            return Err(Error::Shape { what: "the step", unit: "targets", expected: 1, found });
        }
        if task.n() <= 0.0 {
            return Err(Error::Empty { what: "the step" });
        }
        let products = task.products();
        let n = self.n + task.n();
        // H is XᵀX / n of the step, so that n H is XᵀX: nothing is divided by what may be zero.
        for (b, xx) in self.b.iter_mut().zip(&products.xx) {
            *b = (self.n * *b + xx) / n;
        }
        self.n = n;
        // H (θ_min − θ) = (Xᵀy − XᵀX θ) / n of the step, also where θ_min is not unique.
        let pull = times(&products.xx, theta);
        let gamma = products.xy.iter().zip(pull).map(|(xy, p)| (xy - p) / n).collect();
        Ok(Message { n, b: self.b.clone(), gamma })
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
    /// # Errors
    /// When there is none, or shapes differ.
    pub fn round(&mut self, messages: &[Message]) -> Result<&[f64]> {
        if messages.is_empty() {
            return Err(Error::NotLearned);
        }
        let m = self.theta.len();
        let total: f64 = messages.iter().map(|message| message.n).sum();
        let (mut b, mut gamma) = (vec![0.0; m * (m + 1) / 2], vec![0.0; m]);
        for message in messages {
            for (what, found, expected) in
                [("the curvature", message.b.len(), b.len()), ("the pull", message.gamma.len(), m)]
            {
                if found != expected {
                    return Err(Error::Shape { what, unit: "numbers", expected, found });
                }
            }
            let beta = message.n / total;
            b.iter_mut().zip(&message.b).for_each(|(s, b)| *s += beta * b);
            gamma.iter_mut().zip(&message.gamma).for_each(|(s, g)| *s += beta * g);
        }
        if let Some(value) = b.iter().chain(&gamma).find(|v| !v.is_finite()) {
            return Err(Error::Range { what: "a sum of messages", value: *value, must: "finite" });
        }
        let delta = shortest(&b, &gamma)?;
        self.theta.iter_mut().zip(delta).for_each(|(t, d)| *t += d);
        Ok(&self.theta)
    }
}

/// `B⁺ γ`, `B` given by its upper triangle.
fn shortest(upper: &[f64], gamma: &[f64]) -> Result<Vec<f64>> {
    let m = gamma.len();
    let at = |i: usize, j: usize| i * m - i * i.saturating_sub(1) / 2 + j - i;
    let b = Mat::from_fn(m, m, |i, j| upper[at(i.min(j), i.max(j))]);
    let Ok(eigen) = b.self_adjoint_eigen(Side::Lower) else {
        return Err(Error::Unsupported {
            operation: "a round",
            reason: "the eigenvalues of the curvature do not converge".to_owned(),
        });
    };
    let (u, s) = (eigen.U(), eigen.S());
    let cut = m as f64 * f64::EPSILON * s[m - 1];
    let mut x = vec![0.0; m];
    for i in (0..m).filter(|&i| s[i] > cut) {
        let along: f64 = (0..m).map(|j| u[(j, i)] * gamma[j]).sum::<f64>() / s[i];
        (0..m).for_each(|j| x[j] += along * u[(j, i)]);
    }
    Ok(x)
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
