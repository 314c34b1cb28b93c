//! Do the targets still follow what memory predicts?
//!
//! Chow's test asks whether *any* coefficient has changed, which takes many rows for each column. A target that was shuffled, or is
//! another one, does something simpler: it no longer goes with what memory predicts. That is one number, tested in one direction.
//!
//! **Values.** With `f` the predictions of the model, memory expects a correlation of `ρ₀` between `f` and the targets of rows like its
//! own; `f` is fitted to the noise of its rows too, by `df σ²` of `Σ f y`:
//!
//! ```text
//! ρ₀ = (Σ f y − df σ²)/√(Σ f² Σ y²)        z = (artanh ρ₀ − artanh r)/√( 1/(n − 3) + 1/(N − df − 3) )
//! ```
//!
//! `r` is the correlation over the `n` new rows, in which values beyond two standard deviations count as two: single far rows decide
//! nothing.
//!
//! **Classes.** The same with the slope `b` of the class indicators on their least squares fit, its ridge by generalised
//! cross-validation, from summaries alone:
//!
//! ```text
//! b₀ = (Σ f y − df σ²)/Σ f²        z = (b₀ − b)/√( s²/Σ' f² + σ²/Σ f² )
//! ```
//!
//! with `Σ'` over the new rows, both sums about their means, and `s²` the residual variance of the new rows.
//!
//! Where memory expects little, no test can tell. A warning takes `p < 0.005`, and less than half of what is expected.

use crate::error::Result;
use crate::learner::Learner;
use crate::report::distributions::normal_cdf;
use crate::report::inference::Covariance;
use crate::solve::ridge::fit_by_gcv;
use crate::summary::Summary;
use crate::theta::Theta;

/// The probability below which targets no longer follow what memory predicts.
const LOST: f64 = 0.005;
/// The share of what is expected below which they do not.
const HALF: f64 = 0.5;
/// Standard deviations beyond which a value counts as that far.
const FAR: f64 = 2.0;
/// Fewest new rows, and freedom of memory, of a test.
const FEWEST: f64 = 8.0;

/// How closely new targets follow what memory predicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relation {
    /// The correlation of targets and predictions; of classes the slope of their indicators.
    pub found: f64,
    /// That of rows like those of memory.
    pub expected: f64,
    /// The probability of so little by chance; of several targets that where it is least, times their number.
    pub p_value: f64,
}

impl Relation {
    /// Whether the targets do not follow what memory predicts.
    pub fn is_lost(&self) -> bool {
        self.p_value < LOST && self.found < HALF * self.expected
    }

    /// What rows that were looked at say; `None` where memory predicts nothing, or there are too few.
    pub(super) fn of_values(follow: &[Follow]) -> Option<Self> {
        let tests = follow.len() as f64;
        let found = follow.iter().filter_map(|follow| {
            let Sums { n, a, b, aa, bb, ab } = follow.sums;
            if n < FEWEST {
                return None;
            }
            let (va, vb) = (aa - a * a / n, bb - b * b / n);
            // Targets or predictions that are all the same are no contradiction.
            if va <= 1e-9 * n || vb <= 1e-9 * n {
                return None;
            }
            let found = ((ab - a * b / n) / (va * vb).sqrt()).clamp(-MOST, MOST);
            let error = (1.0 / (n - 3.0) + 1.0 / (follow.freedom - 3.0)).sqrt();
            let p = normal_cdf((found.atanh() - follow.expected.atanh()) / error);
            Some(Self { found, expected: follow.expected, p_value: (p * tests).min(1.0) })
        });
        found.min_by(|a, b| a.p_value.total_cmp(&b.p_value))
    }

    /// What summaries of class indicators over the same columns say.
    ///
    /// # Errors
    /// When the decomposition of memory does not converge.
    pub(super) fn of_classes(
        memory: &Summary,
        rows: &Summary,
        intercept: bool,
    ) -> Result<Option<Self>> {
        let fit = fit_by_gcv(memory, intercept, memory.n(), true)?;
        // Classes without new rows say nothing. Indicators sum to one: of K there are K − 1.
        let there: Vec<usize> =
            (0..rows.targets()).filter(|&k| rows.target_sums()[k] > 0.0).collect();
        let together = |s: &Summary| {
            there.iter().map(|&k| Products::of(s, &fit.theta, k, intercept)).fold(
                Products::default(),
                |a, b| Products { ff: a.ff + b.ff, fy: a.fy + b.fy, yy: a.yy + b.yy },
            )
        };
        let (old, new) = (together(memory), together(rows));
        let (freedom, left) = (memory.n() - fit.degrees, rows.n() - 2.0);
        let varies = there.len() > 1 && new.yy > 1e-12 * old.yy && new.ff > 1e-12 * old.ff;
        if freedom < FEWEST || left < FEWEST || old.ff <= 0.0 || !varies {
            return Ok(None);
        }
        let noise = (old.yy - 2.0 * old.fy + old.ff).max(0.0) / freedom;
        let df = fit.degrees - f64::from(u8::from(intercept));
        let expected = ((old.fy - noise * df) / old.ff).min(1.0);
        let found = new.fy / new.ff;
        let spread = ((new.yy - found * new.fy).max(0.0) / left).max(noise);
        let variance = (spread / new.ff + noise / old.ff) / (there.len() as f64 - 1.0);
        if expected <= 0.0 || variance <= 0.0 {
            return Ok(None);
        }
        let p_value = normal_cdf((found - expected) / variance.sqrt());
        Ok(Some(Self { found, expected, p_value }))
    }
}

/// The largest correlation that is told from 1.
const MOST: f64 = 0.999;

/// What memory expects of the predictions and the values of one target, and what was seen in new rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Follow {
    expected: f64,
    /// `N − df`
    freedom: f64,
    predicted: Scale,
    value: Scale,
    sums: Sums,
}

/// Mean and standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    mean: f64,
    sd: f64,
}

impl Scale {
    /// A value in standard deviations, those that are far cut off.
    fn of(self, value: f64) -> f64 {
        ((value - self.mean) / self.sd).clamp(-FAR, FAR)
    }
}

/// Sums over new rows of predictions `a` and values `b`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Sums {
    n: f64,
    a: f64,
    b: f64,
    aa: f64,
    bb: f64,
    ab: f64,
}

impl Follow {
    /// For each target of values; none where memory has no noise to compare with, or predicts nothing.
    pub(super) fn of(learner: &Learner, covariance: &Covariance) -> Option<Vec<Self>> {
        let (sigma, freedom) = (covariance.sigma()?, covariance.freedom());
        let (pool, theta) = (&learner.pool().ok()?.quadratic, &learner.solution().ok()?.theta);
        let (n, intercept) = (pool.n(), learner.settings().intercept);
        let samples = covariance.samples();
        let df = samples - freedom - f64::from(u8::from(intercept));
        let top = intercept && pool.rank() > 0 && pool.row(0).0 == 0;
        let one = |(k, sigma): (usize, &f64)| {
            let sums = Products::of(pool, theta, k, intercept);
            let noise = sigma * sigma * df.max(0.0) / samples;
            let size = (sums.ff * sums.yy).sqrt() / n;
            let expected = (sums.fy / n - noise) / size;
            if size <= 0.0 || expected.is_nan() || expected <= 0.0 || freedom < FEWEST {
                return None;
            }
            let mean = |v: f64| if top { v / pool.entry(0, 0) } else { 0.0 };
            let (first, z) = (pool.row(0).1, pool.row(0).2[k]);
            let f: f64 = first.iter().zip(theta.column(k)).map(|(r, t)| r * t).sum();
            Some(Self {
                expected: expected.min(MOST),
                freedom,
                predicted: Scale { mean: mean(f), sd: (sums.ff / n).sqrt() },
                value: Scale { mean: mean(z), sd: (sums.yy / n).sqrt() },
                sums: Sums::default(),
            })
        };
        sigma.iter().enumerate().map(one).collect()
    }

    /// Adds a row.
    pub(super) fn add(&mut self, predicted: f64, value: f64) {
        let (a, b) = (self.predicted.of(predicted), self.value.of(value));
        if a.is_nan() || b.is_nan() {
            return;
        }
        let s = &mut self.sums;
        s.n += 1.0;
        s.a += a;
        s.b += b;
        s.aa += a * a;
        s.bb += b * b;
        s.ab += a * b;
    }

    /// Adds what was seen in other rows.
    pub(super) fn merge(&mut self, other: &Self) {
        let (s, o) = (&mut self.sums, &other.sums);
        s.n += o.n;
        s.a += o.a;
        s.b += o.b;
        s.aa += o.aa;
        s.bb += o.bb;
        s.ab += o.ab;
    }
}

/// Sums of products about the means, of fitted values and targets.
#[derive(Debug, Clone, Copy, Default)]
struct Products {
    ff: f64,
    fy: f64,
    yy: f64,
}

impl Products {
    /// Of target `k` of a summary under parameters.
    fn of(s: &Summary, theta: &Theta, k: usize, intercept: bool) -> Self {
        let top = usize::from(intercept && s.rank() > 0 && s.row(0).0 == 0);
        let mut sums = Self { yy: s.residual()[k], ..Self::default() };
        for (pivot, r, z) in s.iter().skip(top) {
            let f: f64 = r.iter().zip(&theta.column(k)[pivot..]).map(|(r, t)| r * t).sum();
            sums.ff += f * f;
            sums.fy += f * z[k];
            sums.yy += z[k] * z[k];
        }
        sums
    }
}
