//! Rows made for the purpose.

use super::Source;

/// Row-major rows `[X | Y]`.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) cells: Vec<f64>,
    pub(super) m: usize,
    pub(super) p: usize,
}

impl Made {
    pub(super) fn n(&self) -> usize {
        self.cells.len() / (self.m + self.p)
    }
}

impl Source for Made {
    fn rows(&self) -> usize {
        self.n()
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        out.copy_from_slice(&self.cells[from * (self.m + self.p)..][..out.len()]);
    }
}

/// Uniform numbers in −1..1 (splitmix64).
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Independent uniform numbers.
pub(super) fn well_conditioned(n: usize, m: usize, p: usize) -> Made {
    correlated(n, m, p, 0.0)
}

/// Features that share a part of weight `common`; the targets are independent of them.
pub(super) fn correlated(n: usize, m: usize, p: usize, common: f64) -> Made {
    let mut next = noise((n + 1000 * m + 100_000 * p) as u64);
    let mut cells = Vec::new();
    for _ in 0..n {
        let shared = common * next();
        cells.extend((0..m).map(|_| shared + next()));
        cells.extend((0..p).map(|_| next()));
    }
    Made { cells, m, p }
}

/// Rows whose singular values fall evenly from 1 to `1 / condition`, and a target that is a sum of
/// the features with weights around one, plus noise.
pub(super) fn with_condition(n: usize, m: usize, condition: f64, size: f64, seed: u64) -> Made {
    let mut next = noise(seed);
    let mirrors: Vec<Vec<f64>> = (0..3).map(|_| (0..m).map(|_| next()).collect()).collect();
    let theta: Vec<f64> = (0..m).map(|_| 1.0 + next()).collect();
    let mut cells = Vec::new();
    for _ in 0..n {
        let fall = |j: usize| condition.powf(-(j as f64) / (m as f64 - 1.0));
        let mut row: Vec<f64> = (0..m).map(|j| next() * fall(j)).collect();
        for v in &mirrors {
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let factor = 2.0 * dot(&row, v) / dot(v, v);
            row.iter_mut().zip(v).for_each(|(x, v)| *x -= factor * v);
        }
        let y = row.iter().zip(&theta).map(|(x, t)| x * t).sum::<f64>() + size * next();
        cells.extend(row);
        cells.push(y);
    }
    Made { cells, m, p: 1 }
}
