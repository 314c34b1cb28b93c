//! Judging many choices of columns by one pooled summary.
//!
//! The products of all columns, centred and in units of their deviations, are made once. Those of a candidate are some of their
//! rows and columns, from which any ridge is judged (`solve/reduced.rs`).
//!
//! Products lose the digits that a triangle keeps. A ridge is never below 1e-10 of the trace here, so what is lost is below 1e-9
//! of the targets' variance, which is less than two candidates are told apart by; the model itself is solved from the triangle.

use faer::Mat;

use super::reduced::{Correlations, Reduced};
use super::ridge::{CAUTION, CLASS_CAUTION, NO_ERROR, ROUNDING, least_share};
use super::weights;
use crate::summary::{Summary, is_constant};

/// Decades searched above the trace, and points per decade. Below it ends where the ridge of the model does ([`least_share`]).
const ABOVE: i32 = 3;
const PER_DECADE: i32 = 4;
/// Steps of the search between points, each of which leaves 0.62 of the bracket.
const STEPS: u32 = 24;
/// The least ridge as a share of the trace that products have digits for.
const LEAST: f64 = 1e-10;
/// Where the inputs alone are the other choice, degrees of freedom count so many times more. Errors with heavy tails, which
/// sums of squares do not show, let wide candidates look better than they are.
const WARY: f64 = 4.0 / 3.0;

/// How a summary is judged against summaries of the same rows with other columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    /// Generalised cross-validation, every target in its own variance.
    Values,
    /// Generalised cross-validation, targets in one unit: class indicators, degrees of freedom counted 1.4 times.
    Indicators,
    /// Generalised cross-validation of a bound in the place of the squares: a loss in units of its own.
    Bound,
    /// Akaike's criterion of a bound in the place of the likelihood: a loss whose constant says nothing about the fit.
    Likelihood,
}

/// The least scores of some columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scores {
    /// By which candidates are compared with each other.
    pub(crate) least: f64,
    /// By which they are compared with the inputs alone: at the same ridge, degrees of freedom counted 4/3 times as much.
    pub(crate) wary: f64,
}

/// Products of the columns of a pooled summary, from which some of them are judged.
#[derive(Debug)]
pub(crate) struct Judge {
    judged: Judged,
    /// Samples behind the summary.
    samples: f64,
    intercept: bool,
    /// For each column of the design its place among those that vary.
    places: Vec<Option<usize>>,
    /// Correlations of the columns that vary, the lower triangle.
    products: Mat<f64>,
    /// Their products with the targets, for each sample.
    pulls: Mat<f64>,
    /// Squares of each target for each sample.
    squares: Vec<f64>,
    /// What the squares of each target count.
    shares: Vec<f64>,
    /// No ridge is looked at below a fixed share of this.
    noise: f64,
}

impl Judge {
    /// Cost: one product, `O(m³)`.
    pub(crate) fn new(pooled: &Summary, intercept: bool, samples: f64, judged: Judged) -> Self {
        let (n, p) = (pooled.n(), pooled.targets());
        let found = Correlations::new(pooled, intercept, &weights(pooled, intercept, true));
        let Correlations { kept, products, pulls, squares, largest_square } = found;
        let mut places = vec![None; pooled.width()];
        kept.iter().enumerate().for_each(|(i, &j)| places[j] = Some(i));
        let varying = |k: &usize| !is_constant(squares[*k], pooled.squares(*k) / n);
        let shares = match judged {
            Judged::Likelihood => vec![1.0; p],
            Judged::Indicators | Judged::Bound => {
                // A loss that is not above 0 at its best is in no unit of its own: the scores of all columns are then equal.
                let (total, left) =
                    (squares.iter().sum::<f64>(), pooled.residual().iter().sum::<f64>());
                let known = total > 0.0 && (judged == Judged::Indicators || 0.0 < left);
                vec![if known { 1.0 / total } else { 0.0 }; p]
            }
            Judged::Values => {
                let count = (0..p).filter(varying).count() as f64;
                let share = |k: usize| if varying(&k) { 1.0 / squares[k] / count } else { 0.0 };
                (0..p).map(share).collect()
            }
        };
        let noise = ROUNDING * largest_square;
        Self { judged, samples, intercept, places, products, pulls, squares, shares, noise }
    }

    /// What is expected of new rows under the best ridge for some columns of the design: lower is better. The share of the targets'
    /// variance that stays unexplained, or the loss itself for [`Judged::Likelihood`]. Infinite where there are too few rows.
    /// The ridge of columns that are not `bounded` has no lower end but that of rounding.
    ///
    /// Cost: `O(k³)` for `k` columns.
    pub(crate) fn least_scores(&self, columns: &[usize], bounded: bool) -> Scores {
        let kept: Vec<usize> = columns.iter().filter_map(|&j| self.places[j]).collect();
        // Places ascend with columns, so the lower triangle of the whole has that of the part.
        let products = Mat::from_fn(kept.len(), kept.len(), |i, j| {
            if i < j { 0.0 } else { self.products[(kept[i], kept[j])] }
        });
        let pulls = Mat::from_fn(kept.len(), self.pulls.ncols(), |i, k| self.pulls[(kept[i], k)]);
        let reduced = Reduced::new(products, pulls);
        let scale = (kept.len() as f64).max(self.noise);
        let share = if bounded { least_share(self.samples) } else { LEAST };
        let at =
            |exponent: f64, wary: f64| self.score(&reduced, scale * libm::exp10(exponent), wary);
        let (least, place) = least_of(|exponent| at(exponent, 1.0), libm::log10(share));
        Scores { least, wary: at(place, WARY) }
    }

    /// The score of a ridge, degrees of freedom counted `wary` times as much as for the automatic ridge.
    fn score(&self, reduced: &Reduced, ridge: f64, wary: f64) -> f64 {
        let fit = reduced.fit(ridge, &self.squares, &self.shares);
        let (unexplained, degrees) = (fit.unexplained, fit.degrees);
        let degrees = degrees + f64::from(u8::from(self.intercept));
        let caution = if self.judged == Judged::Indicators { CLASS_CAUTION } else { CAUTION };
        let used = wary * caution * degrees / self.samples;
        match self.judged {
            // Half the squares are the mean loss; every target has parameters of its own.
            Judged::Likelihood => unexplained / 2.0 + used * self.squares.len() as f64,
            _ if used >= 1.0 => f64::INFINITY,
            _ => (unexplained.max(0.0) + NO_ERROR) / ((1.0 - used) * (1.0 - used)),
        }
    }
}

/// The least value of a function of the exponent, from `end` on, and its place: the best of evenly spaced points, and then between
/// its neighbours.
fn least_of(at: impl Fn(f64) -> f64, end: f64) -> (f64, f64) {
    let step = 1.0 / f64::from(PER_DECADE);
    let points = (0..).map(|i| end + f64::from(i) * step);
    let (mut least, mut place) = (f64::INFINITY, 0.0);
    for exponent in points.take_while(|exponent| *exponent <= f64::from(ABOVE)) {
        let score = at(exponent);
        if score < least {
            (least, place) = (score, exponent);
        }
    }
    let (mut low, mut high) = ((place - step).max(end), place + step);
    for _ in 0..STEPS {
        let part = (high - low) * 0.381_966;
        let (a, b) = (low + part, high - part);
        let (of_a, of_b) = (at(a), at(b));
        for (score, exponent) in [(of_a, a), (of_b, b)] {
            if score < least {
                (least, place) = (score, exponent);
            }
        }
        if of_a < of_b { high = b } else { low = a }
    }
    (least, place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::ridge::Spectrum;
    use crate::summary::{Accumulator, Summarizer};
    use crate::{Design, Rows};
    use pmfcl_oracle::Draw;

    fn summary(n: usize, d: usize, draw: &mut Draw) -> Summary {
        let mut x = draw.normals(n * d);
        // Units differ, a column is nearly a copy, another constant.
        for row in x.chunks_exact_mut(d) {
            row[1] = 1e3 * row[1] + 5e3;
            row[2] = row[0] + 1e-3 * row[2];
            row[3] = 4.0;
        }
        let noise = draw.normals(2 * n);
        let y: Vec<f64> = x
            .chunks_exact(d)
            .zip(noise.chunks_exact(2))
            .flat_map(|(x, e)| [x[0] + 1e-3 * x[1] + e[0], 100.0 * (x[2] * x[4] + e[1])])
            .collect();
        let design = Design::linear(d, true).unwrap();
        let mut summarizer = Summarizer::new(design, 2, Accumulator::Qr).unwrap();
        summarizer.add(Rows::new(&x, d).unwrap(), Rows::new(&y, 2).unwrap(), None).unwrap();
        summarizer.finish().unwrap()
    }

    #[test]
    fn the_least_score_is_that_of_the_columns_alone_under_the_automatic_ridge() {
        let mut draw = Draw::new(7);
        for (n, d) in [(200, 9), (40, 30), (12, 30)] {
            let pooled = summary(n, d, &mut draw);
            let samples = n as f64;
            let judge = Judge::new(&pooled, true, samples, Judged::Values);
            for keep in [vec![0, 1, 2, 3], (0..=d).collect(), vec![0, 4], vec![0, 2, 3, 5, 6, 7]] {
                let own = pooled.choose_columns(&keep).unwrap();
                let spectrum = Spectrum::new(&own, true, true, samples).unwrap();
                let centred = own.total_squares();
                let score = |ridge: f64, caution: f64| {
                    let left = spectrum.residuals(ridge);
                    let share: f64 = left.iter().zip(&centred).map(|(r, t)| r / t).sum();
                    let used = caution * spectrum.degrees(ridge) / samples;
                    if used < 1.0 { share / 2.0 / (1.0 - used).powi(2) } else { f64::INFINITY }
                };
                // Neither the intercept nor the constant, input 3, counts in the trace.
                let varying = keep.iter().filter(|j| ![0, 4].contains(*j)).count() as f64;
                for (bounded, share) in [(true, least_share(samples)), (false, LEAST)] {
                    let ridge = |i: i32| share * varying * 10_f64.powf(f64::from(i) / 2000.0);
                    let points = (0..26_000).map(|i| (score(ridge(i), CAUTION), ridge(i)));
                    let least =
                        points.fold((f64::INFINITY, 0.0), |a, b| if b.0 < a.0 { b } else { a });
                    let found = judge.least_scores(&keep, bounded);
                    // The grid of this test is a two-thousandth of a decade: its least is above the least by some 1e-7, and where it is,
                    // a score that is not least there differs by a few hundredths of the step.
                    let near = |a: f64, b: f64, digits: f64| {
                        (a - b).abs() < digits * b || a.min(b).is_infinite()
                    };
                    let what = format!("{n} × {d}, {keep:?}, {bounded}: {found:?}, {least:?}");
                    assert!(near(found.least, least.0, 1e-6), "{what}");
                    let wary =
                        if least.0.is_finite() { score(least.1, 1.6) } else { f64::INFINITY };
                    assert!(near(found.wary, wary, 1e-3), "{what}, {wary}");
                }
            }
        }
    }

    #[test]
    fn without_columns_that_vary_the_mean_is_all_there_is() {
        let pooled = summary(50, 9, &mut Draw::new(1));
        let judge = Judge::new(&pooled, true, 50.0, Judged::Values);
        let alone = judge.least_scores(&[0, 4], true).least;
        let expected = 1.0 / (1.0 - CAUTION / 50.0_f64).powi(2);
        assert!((alone - expected).abs() < 1e-9, "{alone} against {expected}");
    }

    #[test]
    fn a_constant_of_the_loss_does_not_change_which_columns_are_better() {
        let pooled = summary(300, 9, &mut Draw::new(2));
        let mut moved = pooled.clone();
        moved.recount(300.0, -1e6);
        let score = |summary: &Summary, keep: &[usize]| {
            Judge::new(summary, true, 300.0, Judged::Likelihood).least_scores(keep, true).least
        };
        for keep in [&[0, 1, 2][..], &[0, 1, 2, 5]] {
            let gap = score(&pooled, keep) - score(&moved, keep);
            assert!((gap - 1e6 / 600.0).abs() < 1e-6, "{gap}");
        }
    }
}
