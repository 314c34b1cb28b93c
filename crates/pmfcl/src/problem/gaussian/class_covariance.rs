//! A covariance for each class, drawn toward the one all classes share.
//!
//! ```text
//! Σ_k = b_k Σ + (1 − b_k) S_k        b_k = v/(v + n_k − 1),   v = v₀ m
//! score_k = −½ ln|Σ_k| − ½ (1 + c) m_eff ln(1 + d_k²/(c m_eff)) + ln π_k        d_k² = (x−μ_k)ᵀ Σ_k⁻¹ (x−μ_k)
//! ```
//!
//! with `S_k` the scatter of class `k` over `n_k − 1`, so a class of few rows falls back to the shared covariance. The score is that of
//! a heavy-tailed density; `c = ∞` is the normal one, `−½ d_k²`. `v₀`, `c` and `T` are chosen together from the calibration tables
//! ([`super::calibrate`]): 7 × 7 × 29 log-losses. Where nothing was measured, `v₀ = 1`, `c = ∞`, `T = 1`.
//!
//! Scatters are sums over rows as everything else here: they merge, are removed with their task, and a class that appears later is
//! new. They take `K m²/2` numbers for each task in place of `m²/2`.
//!
//! Leaving out a row of class `y` and weight `w` is again of rank one, with the coefficient `b_k a` for `k ≠ y` and
//! `b_y a + (1 − b_y) w f/(n_y − 1)` for `y` (`a` and `f` as in [`super::calibrate`], `b_k` held):
//!
//! ```text
//! h_k = ‖x−μ_y‖²_{Σ_k⁻¹}    g_k = 1/(1 − a_k h_k)    q_k = ½(h_k + d_k² − ‖μ_y−μ_k‖²_{Σ_k⁻¹})
//! d_y² ← f² h_y g_y         d_k² ← d_k² + a_k g_k q_k²         ln|Σ_k| ← ln|Σ_k| + ln(1 − a_k h_k)
//! ```

use faer::Mat;

use super::calibrate::LEAST_LEFT;
use super::discriminants::Discriminants;
use crate::error::Result;
use crate::problem::response::ClassDensity;
use crate::summary::Summary;

/// Values of `v₀`.
pub(super) const PULLS: [f64; 7] = [f64::INFINITY, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1];
/// What is taken where nothing was measured.
pub(super) const PLAIN: f64 = 1.0;

/// The densities of all classes at one `v₀`.
pub(super) struct ClassModel<'a> {
    tied: &'a Discriminants,
    classes: Vec<OneClass>,
}

/// One class: `Σ_k` factored.
struct OneClass {
    /// Its column of parameters.
    column: usize,
    /// Upper triangle, `Σ_k = LᵀL`, on the scaled features.
    root: Mat<f64>,
    log_det: f64,
    /// `b_k`
    pull: f64,
    /// What a row of the class adds to `S_k` is this times its weight times the square of its distance from the mean.
    unit: f64,
    /// `L⁻ᵀ(μ_j − x̄)` of all classes that have rows, in columns.
    means: Mat<f64>,
}

impl<'a> ClassModel<'a> {
    /// The model of pooled scatters, one for each column of parameters; `samples` are the effective ones.
    pub(super) fn new(
        tied: &'a Discriminants,
        scatters: &[Summary],
        samples: f64,
        pull: f64,
    ) -> Result<Self> {
        let known: Vec<usize> =
            (0..tied.priors().len()).filter(|&k| tied.priors()[k] > 0.0).collect();
        let shared = tied.shared_triangle()?;
        let q = shared.ncols();
        let classes = known.iter().map(|&column| {
            let rows = samples * tied.priors()[column];
            // The weights of the pool may be on any scale; what a unit of them adds to a covariance of `rows` samples.
            let unit = scatters
                .get(column)
                .filter(|s| s.n() > 0.0 && rows > 1.0)
                .map_or(0.0, |s| rows / (rows - 1.0) / s.n());
            let b = if unit > 0.0 && pull.is_finite() {
                let v = pull * q as f64;
                v / (v + rows - 1.0)
            } else {
                1.0
            };
            let own = match scatters.get(column) {
                Some(scatter) if b < 1.0 => tied.scaled_root(scatter, ((1.0 - b) * unit).sqrt()),
                _ => Mat::zeros(0, q),
            };
            let root = b.sqrt();
            let stacked = Mat::from_fn(q + own.nrows(), q, |i, j| {
                if i < q { root * shared[(i, j)] } else { own[(i - q, j)] }
            });
            let root = stacked.qr().thin_R().to_owned();
            let log_det = (0..q).map(|i| 2.0 * root[(i, i)].abs().ln()).sum();
            let mut means = tied.scaled_shifts(&known);
            solve(&root, &mut means);
            OneClass { column, root, log_det, pull: b, unit: (1.0 - b) * unit, means }
        });
        Ok(Self { tied, classes: classes.collect() })
    }

    /// How rows are scored: one density for each class that has rows, by column of parameters.
    pub(super) fn densities(&self) -> Vec<Option<ClassDensity>> {
        let mut all = vec![None; self.tied.priors().len()];
        for class in &self.classes {
            all[class.column] = Some(ClassDensity {
                log_share: self.tied.priors()[class.column].ln(),
                log_det: class.log_det,
                mean: self.tied.mean(class.column),
                whitening: self.tied.whitening_of(&|scaled| {
                    let mut scaled = scaled;
                    solve(&class.root, &mut scaled);
                    scaled
                }),
            });
        }
        all
    }

    /// Squared distances and `ln|Σ_k|` of design rows, one column each, under the model without them. `own` and `out` give for each
    /// row the position of its class among those that have rows and the weight that is left out.
    pub(super) fn left_out(&self, rows: &[f64], own: &[usize], out: &[f64]) -> [Mat<f64>; 2] {
        let scaled = self.tied.scaled_rows(rows);
        let n = scaled.ncols();
        let mut distances = Mat::zeros(self.classes.len(), n);
        let mut log_dets = Mat::zeros(self.classes.len(), n);
        for (k, class) in self.classes.iter().enumerate() {
            let mut white = scaled.clone();
            solve(&class.root, &mut white);
            let square = |i: usize, j: usize| -> f64 {
                (0..white.nrows()).map(|r| (white[(r, i)] - class.means[(r, j)]).powi(2)).sum()
            };
            for i in 0..n {
                let (y, w) = (own[i], out[i]);
                let d = square(i, k);
                let (mut found, mut log_det) = (d, class.log_det);
                let weight = self.tied.class_weight(self.classes[y].column);
                if w > 0.0 && weight > w {
                    let f = weight / (weight - w);
                    let shared = class.pull * self.tied.unit() * w * f;
                    let a = if k == y { shared + class.unit * w * f } else { shared };
                    let h = if k == y { d } else { square(i, y) };
                    let left = (1.0 - a * h).max(LEAST_LEFT);
                    found = if k == y {
                        f * f * h / left
                    } else {
                        let apart: f64 = (0..white.nrows())
                            .map(|r| (class.means[(r, y)] - class.means[(r, k)]).powi(2))
                            .sum();
                        let q = (h + d - apart) / 2.0;
                        d + a * q * q / left
                    };
                    log_det += left.ln();
                }
                distances[(k, i)] = found;
                log_dets[(k, i)] = log_det;
            }
        }
        [distances, log_dets]
    }
}

/// `L⁻ᵀ v`
fn solve(root: &Mat<f64>, v: &mut Mat<f64>) {
    if root.ncols() > 0 {
        root.transpose().solve_lower_triangular_in_place(v.as_mut());
    }
}
