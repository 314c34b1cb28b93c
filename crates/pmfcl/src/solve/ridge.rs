//! Choosing the ridge from summaries alone: generalised cross-validation and leave-one-task-out.
//!
//! With `R₁` the part of `R` below the intercept and `R₁ D^{−1/2} = U S Vᵀ`, every ridge fit is a filter on
//! `UᵀZ₁`, so a whole path of `λ` costs one SVD.

use faer::Mat;

use crate::error::{Error, Result};
use crate::solve::weights;
use crate::summary::Summary;
use crate::theta::Theta;

/// Below this share of the largest squared singular value no `λ` is tried: a ridge that small is
/// rounding. With at most as many samples as columns GCV degenerates further up.
const LEAST: f64 = 1e-10;
const LEAST_INTERPOLATING: f64 = 1e-6;
const MOST: f64 = 1e3;

/// A summary seen through the singular vectors of its penalised part.
///
/// `λ` is on the *mean* scale throughout, as in [`crate::Penalty`]; multiply by the sample count for
/// the textbook's `XᵀX + λI`.
#[derive(Debug, Clone)]
pub struct Spectrum {
    /// Samples `N` behind the summary.
    samples: f64,
    /// `s²/N`, descending.
    values: Vec<f64>,
    /// `UᵀZ₁`, one row for each value, one column for each target.
    loadings: Mat<f64>,
    /// Right vectors scaled back by `D^{−1/2}`.
    vectors: Mat<f64>,
    /// `c` and `Σ(y−ȳ)²` of each target, on the scale of `samples`.
    residual: Vec<f64>,
    total: Vec<f64>,
    intercept: bool,
}

impl Spectrum {
    /// Decomposes a pooled summary that stands for `samples` rows.
    ///
    /// Cost: one SVD, `O(m³)`.
    ///
    /// # Errors
    /// When the SVD does not converge.
    pub fn new(pooled: &Summary, intercept: bool, standardize: bool, samples: f64) -> Result<Self> {
        Self::scaled_by(pooled, intercept, &weights(pooled, intercept, standardize), samples)
    }

    fn scaled_by(pooled: &Summary, intercept: bool, d: &[f64], samples: f64) -> Result<Self> {
        let first = usize::from(intercept);
        let top = usize::from(intercept && pooled.pivots().next() == Some(0));
        let (rows, columns) = (pooled.rank() - top, pooled.width() - first);
        let factor = samples / pooled.n();
        let root = factor.sqrt();
        let inverse: Vec<f64> =
            d[first..].iter().map(|&d| if d > 0.0 { 1.0 / d.sqrt() } else { 0.0 }).collect();
        let r = Mat::from_fn(rows, columns, |i, j| {
            let (pivot, cells, _) = pooled.row(top + i);
            if j + first >= pivot { root * cells[j + first - pivot] * inverse[j] } else { 0.0 }
        });
        let z = Mat::from_fn(rows, pooled.targets(), |i, k| root * pooled.row(top + i).2[k]);
        let svd = r.thin_svd().map_err(|_| Error::Unsupported {
            operation: "choosing the ridge",
            reason: "the singular values of the pooled summary do not converge".to_owned(),
        })?;
        let size = rows.min(columns);
        let mut total: Vec<f64> = pooled.residual().iter().map(|c| c * factor).collect();
        for i in 0..rows {
            for (k, t) in total.iter_mut().enumerate() {
                *t += z[(i, k)] * z[(i, k)];
            }
        }
        let vectors =
            Mat::from_fn(
                columns,
                size,
                |j, i| if size > 0 { svd.V()[(j, i)] * inverse[j] } else { 0.0 },
            );
        Ok(Self {
            samples,
            values: (0..size).map(|i| svd.S()[i] * svd.S()[i] / samples).collect(),
            loadings: svd.U().transpose() * z,
            vectors,
            residual: pooled.residual().iter().map(|c| c * factor).collect(),
            total,
            intercept,
        })
    }

    /// Effective number of parameters, `Σ s²/(s²+λ)` and one for the intercept.
    pub fn degrees(&self, ridge: f64) -> f64 {
        let fitted: f64 =
            self.values.iter().map(|s| if *s > 0.0 { s / (s + ridge) } else { 0.0 }).sum();
        fitted + f64::from(u8::from(self.intercept))
    }

    /// Residual sum of squares of every target at `λ`.
    pub fn residuals(&self, ridge: f64) -> Vec<f64> {
        let mut rss = self.residual.clone();
        for (i, s) in self.values.iter().enumerate() {
            let left = if *s > 0.0 { ridge / (s + ridge) } else { 1.0 };
            for (k, r) in rss.iter_mut().enumerate() {
                *r += (left * self.loadings[(i, k)]).powi(2);
            }
        }
        rss
    }

    /// Generalised cross-validation: `N·RSS/(N − df)²`, summed over targets.
    pub fn gcv(&self, ridge: f64) -> f64 {
        let freedom = self.samples - self.degrees(ridge);
        self.samples * self.residuals(ridge).iter().sum::<f64>() / (freedom * freedom)
    }

    /// GCV with every target measured in its own variance, so that units do not choose the ridge.
    ///
    /// Infinite where no degrees of freedom are left: sample weights may sum to less than the rank, and
    /// beyond the pole the score would fall again.
    fn relative_gcv(&self, ridge: f64) -> f64 {
        let freedom = self.samples - self.degrees(ridge);
        if freedom <= 0.0 {
            return f64::INFINITY;
        }
        let rss = self.residuals(ridge);
        let shares = rss.iter().zip(&self.total).map(|(r, t)| if *t > 0.0 { r / t } else { 0.0 });
        shares.sum::<f64>() * (self.samples / freedom).powi(2)
    }

    /// The derivative of `ln` [`Self::relative_gcv`] by `λ`: `S′/S − 2f′/f` with `S = Σ RSS/total` and `f = N − df`.
    fn slope(&self, ridge: f64) -> f64 {
        let freedom = self.samples - self.degrees(ridge);
        if freedom <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let rss = self.residuals(ridge);
        let share = |k: usize, v: f64| if self.total[k] > 0.0 { v / self.total[k] } else { 0.0 };
        let sum: f64 = rss.iter().enumerate().map(|(k, r)| share(k, *r)).sum();
        let (mut rise, mut gain) = (0.0, 0.0);
        for (i, s) in self.values.iter().enumerate().filter(|(_, s)| **s > 0.0) {
            let shrinks = s / ((s + ridge) * (s + ridge));
            let left = ridge / (s + ridge);
            gain += shrinks;
            for k in 0..rss.len() {
                rise += 2.0 * left * shrinks * share(k, self.loadings[(i, k)].powi(2));
            }
        }
        rise / sum - 2.0 * gain / freedom
    }

    /// Coefficients at `λ`, without the intercept: one column for each target.
    fn coefficients(&self, ridge: f64) -> Mat<f64> {
        let root = self.samples.sqrt();
        let shrunk = Mat::from_fn(self.values.len(), self.loadings.ncols(), |i, k| {
            let s = self.values[i];
            if s > 0.0 { s.sqrt() / (s + ridge) * self.loadings[(i, k)] / root } else { 0.0 }
        });
        &self.vectors * shrunk
    }

    /// The range of `λ` worth looking at.
    fn range(&self) -> Option<(f64, f64)> {
        let largest = self.values.first().copied().filter(|s| *s > 0.0)?;
        let interpolating =
            self.values.len() as f64 + f64::from(u8::from(self.intercept)) >= self.samples;
        Some((largest * if interpolating { LEAST_INTERPOLATING } else { LEAST }, largest * MOST))
    }
}

/// The `λ` that minimises generalised cross-validation.
///
/// # Errors
/// When the SVD does not converge.
pub fn by_gcv(pooled: &Summary, intercept: bool, standardize: bool, samples: f64) -> Result<f64> {
    let spectrum = Spectrum::new(pooled, intercept, standardize, samples)?;
    let slope = |ridge| spectrum.slope(ridge);
    Ok(minimise(spectrum.range(), |ridge| spectrum.relative_gcv(ridge), Some(&slope)))
}

/// The `λ` with the least mean squared error on tasks left out, one after the other.
///
/// Each left-out task is predicted from the pool of the others: what a new task like the old ones
/// would see. Cost: one pool and one SVD for each task.
///
/// # Errors
/// With fewer than two tasks, or when an SVD does not converge.
pub fn by_leaving_tasks_out(
    folds: &[(Summary, &Summary)],
    d: &[f64],
    intercept: bool,
) -> Result<f64> {
    let errors = LeftOut::new(folds, d, intercept)?;
    Ok(minimise(errors.range(), |ridge| errors.at(ridge), None))
}

/// Squared error on left-out tasks as a function of `λ`.
#[derive(Debug)]
pub(crate) struct LeftOut<'a> {
    folds: Vec<(Spectrum, &'a Summary, &'a Summary)>,
}

impl<'a> LeftOut<'a> {
    pub(crate) fn new(
        folds: &'a [(Summary, &'a Summary)],
        d: &[f64],
        intercept: bool,
    ) -> Result<Self> {
        if folds.len() < 2 {
            return Err(Error::Unsupported {
                operation: "leave-one-task-out",
                reason: "it needs at least two tasks; use gcv".to_owned(),
            });
        }
        let folds = folds
            .iter()
            .map(|(rest, left)| {
                Ok((Spectrum::scaled_by(rest, intercept, d, rest.n())?, rest, *left))
            })
            .collect::<Result<_>>()?;
        Ok(Self { folds })
    }

    /// Mean squared error over all left-out samples.
    pub(crate) fn at(&self, ridge: f64) -> f64 {
        let (mut squares, mut samples) = (0.0, 0.0);
        for (spectrum, rest, left) in &self.folds {
            let theta = with_intercept(&spectrum.coefficients(ridge), rest, spectrum.intercept);
            let excess = left.excess(&theta).expect("folds share one shape");
            squares += excess.iter().chain(left.residual()).sum::<f64>();
            samples += left.n();
        }
        squares / samples
    }

    fn range(&self) -> Option<(f64, f64)> {
        let ranges: Vec<_> = self.folds.iter().filter_map(|(s, ..)| s.range()).collect();
        ranges.into_iter().reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
    }
}

/// Puts the free intercept, which the first row of `R` determines, in front of the coefficients.
fn with_intercept(w: &Mat<f64>, pooled: &Summary, intercept: bool) -> Theta {
    let first = usize::from(intercept);
    let mut theta = Theta::zeros(pooled.width(), w.ncols());
    for k in 0..w.ncols() {
        let column = theta.column_mut(k);
        for j in 0..w.nrows() {
            column[first + j] = w[(j, k)];
        }
        if intercept && pooled.rank() > 0 {
            let (_, r, z) = pooled.row(0);
            column[0] = (z[k] - crate::summary::dot(&r[1..], &column[1..])) / r[0];
        }
    }
    theta
}

/// Minimises over a logarithmic grid, then around the best grid point, by the root of the slope where there is one and by golden
/// section else; where no score is finite, the upper end.
///
/// A score is flat at its minimum: half its digits are all that comparing scores can find, and sums made in another order would end
/// up elsewhere. The root of its slope is found to nearly all digits.
fn minimise(
    range: Option<(f64, f64)>,
    score: impl Fn(f64) -> f64,
    slope: Option<&dyn Fn(f64) -> f64>,
) -> f64 {
    const PER_DECADE: f64 = 4.0;
    let Some((low, high)) = range else { return 0.0 };
    let steps = ((high / low).log10() * PER_DECADE).ceil() as usize;
    let at = |x: f64| low * 10f64.powf(x / PER_DECADE);
    let best = (0..=steps)
        .map(|i| (i, score(at(i as f64))))
        .filter(|(_, s)| s.is_finite())
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(steps, |(i, _)| i) as f64;
    let (mut a, mut b) = ((best - 1.0).max(0.0), (best + 1.0).min(steps as f64));
    if let Some(slope) = slope
        && slope(at(a)) < 0.0
        && slope(at(b)) > 0.0
    {
        let (mut low, mut high) = (a, b);
        for _ in 0..56 {
            let middle = f64::midpoint(low, high);
            if slope(at(middle)) < 0.0 { low = middle } else { high = middle }
        }
        let root = at(f64::midpoint(low, high));
        if score(root) <= score(at(best)) * (1.0 + 1e-9) {
            return root;
        }
    }
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..24 {
        let (c, d) = (b - golden * (b - a), a + golden * (b - a));
        if score(at(c)) <= score(at(d)) {
            b = d;
        } else {
            a = c;
        }
    }
    let refined = at(f64::midpoint(a, b));
    if score(refined) <= score(at(best)) { refined } else { at(best) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accumulator, Basis, Design, Rows, Summarizer};

    #[test]
    fn a_parabola_in_log_lambda_is_minimised() {
        let score = |l: f64| 1.0 + (l.log10() + 2.345).powi(2);
        let found = minimise(Some((1e-10, 1e3)), score, None);
        assert!((found.log10() + 2.345).abs() < 1e-4, "{found}");
        let slope = |l: f64| l.log10() + 2.345;
        let found = minimise(Some((1e-10, 1e3)), score, Some(&slope));
        assert!((found.log10() + 2.345).abs() < 1e-12, "{found}");
    }

    #[test]
    fn the_slope_of_gcv_is_that_of_central_differences() {
        let draw = |i: usize| ((i as f64 * 12.9898).sin() * 43_758.547).fract();
        let x: Vec<f64> = (0..120).map(draw).collect();
        let y: Vec<f64> = (0..60).map(|i| draw(1000 + i) + x[2 * i]).collect();
        let design = Design::new(Basis::default().fix(&[], 4).unwrap(), true);
        let mut s = Summarizer::new(design, 2, Accumulator::Qr).unwrap();
        s.add(Rows::new(&x, 4).unwrap(), Rows::new(&y, 2).unwrap(), None).unwrap();
        let spectrum = Spectrum::new(&s.finish().unwrap(), true, true, 30.0).unwrap();
        for ridge in [1e-4, 1e-2, 0.3, 2.0] {
            let step = 1e-5 * ridge;
            let log = |l: f64| spectrum.relative_gcv(l).ln();
            let slope = (log(ridge + step) - log(ridge - step)) / (2.0 * step);
            let own = spectrum.slope(ridge);
            assert!((own - slope).abs() < 1e-6 * (slope.abs() + 1e-3), "{own} against {slope}");
        }
    }

    /// `leave_one_task_out_cv` of the oracle: one λ on the sum scale for all folds.
    #[test]
    fn leaving_tasks_out_scores_as_the_oracle_does() {
        let read = |name: &str| -> serde_json::Value {
            let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
        };
        let numbers = |v: &serde_json::Value| -> Vec<f64> {
            v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
        };
        let (data, stats) = (read("linear_full"), read("stats_tools"));
        let tasks: Vec<Summary> = data["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| {
                let x: Vec<f64> = t["X"].as_array().unwrap().iter().flat_map(&numbers).collect();
                let y = numbers(&t["y"]);
                let design = Design::new(Basis::default().fix(&[], 6).unwrap(), false);
                let mut s = Summarizer::new(design, 1, Accumulator::Qr).unwrap();
                s.add(Rows::new(&x, 6).unwrap(), Rows::new(&y, 1).unwrap(), None).unwrap();
                s.finish().unwrap()
            })
            .collect();
        for (l, expected) in
            numbers(&stats["lams"]).iter().zip(numbers(&stats["leave_one_task_out_cv"]))
        {
            let (mut squares, mut samples) = (0.0, 0.0);
            for t in 0..tasks.len() {
                let rest = (0..tasks.len())
                    .filter(|i| *i != t)
                    .fold(Summary::empty(6, 1), |sum, i| sum.merge(&tasks[i]).unwrap());
                let spectrum = Spectrum::new(&rest, false, false, rest.n()).unwrap();
                let theta = with_intercept(&spectrum.coefficients(l / rest.n()), &rest, false);
                squares += 2.0 * tasks[t].n() * tasks[t].loss(&theta).unwrap();
                samples += tasks[t].n();
            }
            assert!((squares / samples - expected).abs() < 1e-9 * expected, "{l}");
        }
        let folds: Vec<(Summary, &Summary)> = (0..tasks.len())
            .map(|t| {
                let rest = (0..tasks.len())
                    .filter(|i| *i != t)
                    .fold(Summary::empty(6, 1), |sum, i| sum.merge(&tasks[i]).unwrap());
                (rest, &tasks[t])
            })
            .collect();
        let best = by_leaving_tasks_out(&folds, &[1.0; 6], false).unwrap();
        let score = LeftOut::new(&folds, &[1.0; 6], false).unwrap();
        for l in [1e-4, 1e-3, 1e-2, 1e-1, 1.0] {
            assert!(score.at(best) <= score.at(l) + 1e-12, "{l} is better than {best}");
        }
    }
}
