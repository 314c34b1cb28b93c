//! Random numbers and rows from a seed, the same on every machine.

/// `SplitMix64` with normals by the polar method.
#[derive(Debug, Clone)]
pub struct Draw {
    state: u64,
    spare: Option<f64>,
}

impl Draw {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed, spare: None }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..n.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n - 1)
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        if let Some(v) = self.spare.take() {
            return v;
        }
        loop {
            let (a, b) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let s = a * a + b * b;
            if s > 0.0 && s < 1.0 {
                let f = (-2.0 * s.ln() / s).sqrt();
                self.spare = Some(b * f);
                return a * f;
            }
        }
    }

    /// `n` standard normals.
    pub fn normals(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.normal()).collect()
    }

    /// A random order of 0..n.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

/// `n × d` rows, row-major, with singular values spread evenly in the logarithm from 1 down to `1/cond`.
///
/// `X = U S Vᵀ` with random orthonormal `U` and `V`, so that no column is special.
pub fn conditioned(n: usize, d: usize, cond: f64, draw: &mut Draw) -> Vec<f64> {
    let u = orthonormal(n, d, draw);
    let v = orthonormal(d, d, draw);
    let s = |k: usize| if d > 1 { cond.powf(-(k as f64) / (d - 1) as f64) } else { 1.0 };
    let mut x = vec![0.0; n * d];
    for i in 0..n {
        for k in 0..d {
            let f = u[k][i] * s(k);
            for j in 0..d {
                x[i * d + j] += f * v[k][j];
            }
        }
    }
    x
}

/// `d` orthonormal vectors of length `n`, by Gram–Schmidt done twice.
fn orthonormal(n: usize, d: usize, draw: &mut Draw) -> Vec<Vec<f64>> {
    assert!(n >= d, "there are not {d} orthonormal vectors of length {n}");
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(d);
    for _ in 0..d {
        let mut v = draw.normals(n);
        for _ in 0..2 {
            for b in &basis {
                let along: f64 = v.iter().zip(b).map(|(a, b)| a * b).sum();
                for (v, b) in v.iter_mut().zip(b) {
                    *v -= along * b;
                }
            }
        }
        let norm = v.iter().map(|a| a * a).sum::<f64>().sqrt();
        for a in &mut v {
            *a /= norm;
        }
        basis.push(v);
    }
    basis
}
