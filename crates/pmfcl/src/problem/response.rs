//! From parameters to predictions.

use std::sync::Arc;

use faer::{Mat, MatRef};

use super::tails::Tails;
use crate::kernel;
use crate::labels::Classes;
use crate::loss::Link;
use crate::summary::{Summary, dot};
use crate::theta::Theta;

/// How parameters answer for a design row.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export, lab, python, report
pub enum Response {
    /// With values: the linear predictor of each target through a link.
    Values {
        /// The link.
        link: Link,
        /// Between which the predictor of each target stays; empty where nothing limits it.
        limits: Vec<Limits>,
    },
    /// With classes: a score for each, the class of the largest, and probabilities by a rule.
    Classes {
        /// How scores become probabilities.
        rule: ClassRule,
        /// For each column of parameters, whether its class has rows; one that has none scores `−∞`.
        present: Vec<bool>,
        /// Whether the first of two classes scores 0 and has no column of its own.
        first_is_zero: bool,
    },
}

/// Between which values a prediction stays, whatever the row.
///
/// Features of a row unlike all that were learned say nothing of its target, so their predictions end a little beyond the least and the
/// largest target learned. A line goes on, and no part of the inputs bounds it: a row far from all others would take its prediction as
/// far from all targets. There, and where the ends of the targets are not known, deviations from their mean are the limit. Deviations
/// are those of the targets learned, so the limits follow from the pool alone, continuously. Targets differ by two deviations at least
/// between the smallest and the largest, so 50 deviations are within 25 times their range of the mean. Of lines of inputs with heavy
/// tails (Student's t with 2 or 3 degrees of freedom) 20 deviations would cost what the line explains of their farthest rows.
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(hidden)] // for export
pub struct Limits {
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Limits {
    /// How many deviations of the targets a prediction may be from their mean.
    pub const DEVIATIONS: f64 = 50.0;

    /// The limits for each target of a pool; none where they leave the range of double precision.
    pub(crate) fn of(pooled: &Summary, intercept: bool) -> Vec<Self> {
        let one = |k: usize| {
            let (mean, deviation) = pooled.target_spread(k, intercept);
            let far = Self::DEVIATIONS * deviation;
            Self { least: mean - far, most: mean + far }
        };
        let all: Vec<Self> = (0..pooled.targets()).map(one).collect();
        if all.iter().all(Self::is_sound) { all } else { Vec::new() }
    }

    /// How far beyond the targets learned a prediction of features may be, as a share of their range: what is learned with noise ends
    /// a little before or beyond its ends.
    const BEYOND: f64 = 1.0 / 20.0;

    /// The limits about the targets learned; `None` where their ends are not known.
    pub(crate) fn near(tails: &Tails) -> Option<Vec<Self>> {
        let one = |&[least, most]: &[f64; 2]| {
            let far = Self::BEYOND * (most - least);
            Self { least: least - far, most: most + far }
        };
        let all: Vec<Self> = tails.ends().iter().map(one).collect();
        (!all.is_empty() && all.iter().all(Self::is_sound)).then_some(all)
    }

    /// Whether these are two numbers in order.
    pub(crate) fn is_sound(&self) -> bool {
        self.least.is_finite() && self.most.is_finite() && self.least <= self.most
    }
}

impl Response {
    /// The same for a design that has some of the columns alone, the intercept among them where distances are measured.
    pub(crate) fn choose_columns(&mut self, columns: &[usize]) {
        let Self::Classes { rule, .. } = self else { return };
        let features: Vec<usize> = columns.iter().filter(|j| **j > 0).map(|j| j - 1).collect();
        let few = |mean: &mut Vec<f64>, whitening: &mut Vec<f64>| {
            let all = mean.len().max(1);
            let rows = whitening.chunks_exact(all);
            *whitening = rows.flat_map(|row| features.iter().map(|&j| row[j])).collect();
            *mean = features.iter().map(|&j| mean[j]).collect();
        };
        match rule {
            ClassRule::RowTemperature(of_rows) => {
                let mut moved = (**of_rows).clone();
                if let Some(nearest) = &mut moved.nearest {
                    few(&mut nearest.centre, &mut nearest.whitening);
                }
                *of_rows = Arc::new(moved);
            }
            ClassRule::ClassCovariance(densities) => {
                let mut moved = (**densities).clone();
                for class in moved.classes.iter_mut().flatten() {
                    few(&mut class.mean, &mut class.whitening);
                }
                *densities = Arc::new(moved);
            }
            ClassRule::Clip | ClassRule::Softmax { .. } => {}
        }
    }
}

/// How the scores of the classes become probabilities.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[doc(hidden)] // for export
pub enum ClassRule {
    /// Clipped to `[0, 1]` and divided by their sum; equal shares of the classes that have rows where that is 0. These
    /// probabilities rank classes; they are **not calibrated**.
    Clip,
    /// Softmax of the scores over a temperature.
    Softmax {
        /// The temperature.
        temperature: f64,
    },
    /// Softmax of the scores over a temperature that is higher for rows far from every class.
    RowTemperature(Arc<RowTemperature>),
    /// Scores are not those of the parameters but those of a density for each class; their softmax over a temperature.
    ClassCovariance(Arc<Densities>),
}

/// A density of rows for each class; see [`crate::problem::gaussian::class_covariance`].
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export
pub struct Densities {
    /// `T`
    pub temperature: f64,
    /// `c`; infinite for normal densities.
    pub shape: f64,
    /// The share of probability that is divided equally among the classes that have rows.
    pub floor: f64,
    /// `m_eff`: the usual squared distance of a row to the mean of its class.
    pub usual: f64,
    /// One for each column of parameters; `None` without rows.
    pub classes: Vec<Option<ClassDensity>>,
}

/// The density of one class.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export
pub struct ClassDensity {
    /// `ln π_k`
    pub log_share: f64,
    /// `ln|Σ_k|`
    pub log_det: f64,
    /// `μ_k` of the design columns behind the intercept.
    pub mean: Vec<f64>,
    /// `Σ_k^{−1/2}`, row after row.
    pub whitening: Vec<f64>,
}

impl Densities {
    /// The score of a class at a squared distance, without its share.
    pub(super) fn score(d2: f64, log_det: f64, shape: f64, usual: f64) -> f64 {
        let tail = if shape.is_finite() {
            (1.0 + shape) * usual * (d2 / (shape * usual)).ln_1p()
        } else {
            d2
        };
        -(log_det + tail) / 2.0
    }

    /// Squared distances of design rows to the means of the classes in `order`, row after row; `∞` without rows.
    fn distances(&self, rows: &[f64], width: usize, order: &[u32]) -> Vec<f64> {
        let n = rows.len() / width;
        let mut out = vec![f64::INFINITY; n * order.len()];
        for (at, &place) in order.iter().enumerate() {
            let Some(class) = &self.classes[place as usize] else { continue };
            let squares = white_squares(rows, width, &class.mean, &class.whitening);
            for (i, square) in squares.into_iter().enumerate() {
                out[i * order.len() + at] = square;
            }
        }
        out
    }

    /// Scores of design rows, row after row; `−∞` for a class without rows.
    fn scores(&self, rows: &[f64], width: usize, order: &[u32], out: &mut Vec<f64>) {
        let distances = self.distances(rows, width, order);
        for row in distances.chunks_exact(order.len()) {
            out.extend(row.iter().zip(order).map(|(d2, &place)| {
                self.classes[place as usize].as_ref().map_or(f64::NEG_INFINITY, |class| {
                    class.log_share + Self::score(*d2, class.log_det, self.shape, self.usual)
                })
            }));
        }
    }
}

/// Rows of a whitening that are multiplied at a time.
const STRIP: usize = 64;

/// `‖W (x − centre)‖²` of design rows, `W` row after row. It is a triangle except for singular covariances, so a strip of its rows is
/// multiplied where it is not zero.
fn white_squares(rows: &[f64], width: usize, centre: &[f64], whitening: &[f64]) -> Vec<f64> {
    let (d, n) = (centre.len(), rows.len() / width);
    let mut squares = vec![0.0; n];
    let centred = Mat::from_fn(d, n, |j, i| rows[i * width + j + 1] - centre[j]);
    for strip in whitening.chunks(STRIP * d.max(1)) {
        let used = |j: &usize| strip[*j..].iter().step_by(d).any(|v| *v != 0.0);
        let (Some(first), Some(last)) = ((0..d).find(used), (0..d).rfind(used)) else { continue };
        let cells = MatRef::from_column_major_slice(strip, d, strip.len() / d);
        let (cells, count) = (cells.subrows(first, last + 1 - first), last + 1 - first);
        let white = cells.transpose() * centred.subrows(first, count);
        for (i, square) in squares.iter_mut().enumerate() {
            *square += white.col(i).squared_norm_l2();
        }
    }
    squares
}

/// How far rows are from the nearest class.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export
pub enum RowDistance {
    /// By the covariance all classes share.
    Shared(NearestClass),
    /// By that of each class.
    Classes(Arc<Densities>),
}

impl RowDistance {
    fn of(&self, rows: &[f64], width: usize, scores: &[f64], order: &[u32]) -> Vec<f64> {
        match self {
            Self::Shared(nearest) => nearest.distances(rows, width, scores, order),
            Self::Classes(densities) => densities
                .distances(rows, width, order)
                .chunks_exact(order.len())
                .map(|row| row.iter().copied().fold(f64::INFINITY, f64::min) / densities.usual)
                .collect(),
        }
    }

    fn usual(&self) -> f64 {
        match self {
            Self::Shared(nearest) => nearest.usual,
            Self::Classes(densities) => densities.usual,
        }
    }
}

/// The temperature of each row, `T (c + r)/(c + 1)`, with `r` the squared distance to the nearest class mean in units of what is
/// usual; see [`crate::problem::gaussian::calibrate`].
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export
pub struct RowTemperature {
    /// `T`
    pub temperature: f64,
    /// `c`; infinite for one temperature for all rows.
    pub shape: f64,
    /// The share of probability that is divided equally among the classes that have rows: no probability is 0 where the model
    /// cannot know.
    pub floor: f64,
    /// For each column of parameters, whether its class has rows.
    pub present: Vec<bool>,
    /// How far rows are; `None` where `c` is infinite.
    pub nearest: Option<NearestClass>,
}

/// The squared distance of rows to the mean of the nearest class, `d² = min_k (x−μ_k)ᵀ Σ⁻¹ (x−μ_k)`.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export
pub struct NearestClass {
    /// The usual squared distance of a row to the mean of its class.
    pub usual: f64,
    /// `ln π_k` of each column of parameters; `−∞` without rows.
    pub log_shares: Vec<f64>,
    /// `x̄` of the design columns behind the intercept.
    pub centre: Vec<f64>,
    /// `Σ^{−1/2}`, row after row.
    pub whitening: Vec<f64>,
}

impl NearestClass {
    /// `r = d²/usual` of design rows; `scores` are those of the classes, `order` their columns.
    fn distances(&self, rows: &[f64], width: usize, scores: &[f64], order: &[u32]) -> Vec<f64> {
        let squares = white_squares(rows, width, &self.centre, &self.whitening);
        let nearest = |(i, square): (usize, f64)| {
            let own = scores[i * order.len()..][..order.len()].iter().zip(order);
            let best = own
                .map(|(score, &place)| (score, self.log_shares[place as usize]))
                .filter(|(_, share)| share.is_finite())
                .map(|(score, share)| score - share)
                .fold(f64::NEG_INFINITY, f64::max);
            // −½ d_k² = score − ln π_k − ½ ‖Σ^{−1/2}(x − x̄)‖²
            (square - 2.0 * best).max(0.0) / self.usual
        };
        squares.into_iter().enumerate().map(nearest).collect()
    }

    /// With the columns of parameters in another order.
    pub(crate) fn reordered(&mut self, order: &[u32]) {
        self.log_shares = order.iter().map(|&from| self.log_shares[from as usize]).collect();
    }
}

impl RowTemperature {
    /// Turns the scores of design rows into probabilities.
    fn apply(&self, rows: &[f64], width: usize, scores: &mut [f64], order: &[u32]) {
        let far = self.nearest.as_ref().map(|near| near.distances(rows, width, scores, order));
        let possible = self.present.iter().filter(|present| **present).count();
        let least = self.floor / possible.max(1) as f64;
        for (i, row) in scores.chunks_exact_mut(order.len()).enumerate() {
            let stretch =
                far.as_ref().map_or(1.0, |far| (self.shape + far[i]) / (self.shape + 1.0));
            softmax(row, self.temperature * stretch);
            for (p, &place) in row.iter_mut().zip(order) {
                if self.present[place as usize] {
                    *p = (1.0 - self.floor) * *p + least;
                }
            }
        }
    }
}

/// Steps of distances: below, sixteen for each doubling of `r` from 1/16 to 16, above.
pub(crate) const DISTANCES: usize = 130;
/// Steps for each doubling.
const PER_DOUBLING: f64 = 16.0;
/// `log₂ r` where the steps begin.
const FIRST: f64 = -4.0;

/// How novel rows look: the share of learned rows that were nearer to a class than a row is.
///
/// Each row learned was measured without itself, so of rows like those learned a share of `1 − v` has a novelty above `v`, and a
/// threshold has a meaning: 0.99 takes one in a hundred of them for something else. Where nothing was measured, the share is that
/// of normal classes (χ², by Wilson and Hilferty).
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for cli
pub struct Novelty {
    /// How far rows are.
    pub distance: RowDistance,
    /// Samples by distance, each row left out; `None` where nothing was measured.
    pub learned: Option<Vec<f64>>,
}

impl Novelty {
    /// The step of a distance.
    pub(crate) fn step(r: f64) -> usize {
        let at = (r.log2() - FIRST) * PER_DOUBLING;
        // −∞ for r = 0
        if at < 0.0 { 0 } else { (1.0 + at).min((DISTANCES - 1) as f64) as usize }
    }

    /// Novelties of design rows; `scores` are those of the classes, `order` their columns.
    pub(crate) fn of(&self, rows: &[f64], width: usize, scores: &[f64], order: &[u32]) -> Vec<f64> {
        let distances = self.distance.of(rows, width, scores, order);
        let novelty = |r: f64| match &self.learned {
            Some(learned) => 1.0 - farther(learned, r),
            None => 1.0 - farther_if_normal(self.distance.usual(), r),
        };
        distances.into_iter().map(novelty).collect()
    }
}

/// The share of learned rows that are farther than `r`: linear in `log r` within a step. Beyond all rows it falls as `1/r`, so that
/// what is farther always is more novel.
fn farther(learned: &[f64], r: f64) -> f64 {
    let all: f64 = learned.iter().sum();
    // One row more than there are, farther than all of them: the next may be.
    let share = |count: f64| (count + 1.0) / (all + 1.0);
    let at = Novelty::step(r);
    let beyond: f64 = learned[at + 1..].iter().sum();
    if at == 0 {
        let edge = 2f64.powf(FIRST);
        return share(beyond + learned[0] * (1.0 - r / edge));
    }
    let last = learned.iter().rposition(|count| *count > 0.0).unwrap_or(0);
    if at > last || at + 1 == DISTANCES {
        let edge = 2f64.powf(FIRST + (last.min(DISTANCES - 2)) as f64 / PER_DOUBLING);
        return share(if at + 1 == DISTANCES { learned[at] } else { 0.0 }) * (edge / r).min(1.0);
    }
    let within = (r.log2() - FIRST) * PER_DOUBLING - (at - 1) as f64;
    share(beyond + learned[at] * (1.0 - within.clamp(0.0, 1.0)))
}

/// The share of a normal class that is farther: χ² with `m` degrees of freedom, by the cube root of Wilson and Hilferty.
fn farther_if_normal(m: f64, r: f64) -> f64 {
    let v = 2.0 / (9.0 * m);
    let z = (r.cbrt() - (1.0 - v)) / v.sqrt();
    // The last digits of a normal tail end at z = 38; what is farther than that goes on to fall.
    (libm::erfc(z / std::f64::consts::SQRT_2) / 2.0).max(f64::EPSILON / (1.0 + r))
}

impl Response {
    /// Values of design rows, row after row.
    pub(crate) fn values(&self, theta: &Theta, rows: &[f64], out: &mut Vec<f64>) {
        let (link, limits) = match self {
            Self::Values { link, limits } => (*link, &limits[..]),
            Self::Classes { .. } => (Link::Identity, &[][..]),
        };
        for row in rows.chunks_exact(theta.width()) {
            out.extend((0..theta.targets()).map(|k| {
                let value = dot(row, theta.column(k));
                let within = limits.get(k).map_or(value, |l| value.clamp(l.least, l.most));
                link.apply(within)
            }));
        }
    }

    /// Scores of design rows, row after row, in the sorted order of the classes.
    pub(crate) fn scores(
        &self,
        theta: &Theta,
        classes: &Classes,
        rows: &[f64],
        out: &mut Vec<f64>,
    ) {
        let Self::Classes { present, first_is_zero, rule } = self else { return };
        if let ClassRule::ClassCovariance(densities) = rule {
            return densities.scores(rows, theta.width(), classes.places(), out);
        }
        let present = |k: &usize| present.get(*k).copied().unwrap_or(true);
        let zero = usize::from(*first_is_zero);
        let column = |place: u32| (place as usize).checked_sub(zero).filter(present);
        let known: Vec<usize> = classes.places().iter().filter_map(|&p| column(p)).collect();
        let columns: Vec<&[f64]> = known.iter().map(|&k| theta.column(k)).collect();
        let all: Vec<&[f64]> = rows.chunks_exact(theta.width()).collect();
        let products = kernel::products(&all, &columns);
        for i in 0..all.len() {
            let mut scores = products[i * columns.len()..(i + 1) * columns.len()].iter();
            out.extend(classes.places().iter().map(|&place| match place {
                0 if *first_is_zero => 0.0,
                _ if column(place).is_none() => f64::NEG_INFINITY,
                _ => scores.next().copied().unwrap_or(f64::NEG_INFINITY),
            }));
        }
    }

    /// Probabilities of design rows, row after row, in the sorted order of the classes.
    pub(crate) fn probabilities(
        &self,
        theta: &Theta,
        classes: &Classes,
        rows: &[f64],
        out: &mut Vec<f64>,
    ) {
        let Self::Classes { rule, .. } = self else { return };
        let from = out.len();
        self.scores(theta, classes, rows, out);
        let scores = &mut out[from..];
        match rule {
            ClassRule::RowTemperature(rule) => {
                rule.apply(rows, theta.width(), scores, classes.places());
            }
            ClassRule::ClassCovariance(densities) => {
                let possible = densities.classes.iter().flatten().count();
                let least = densities.floor / possible.max(1) as f64;
                for row in scores.chunks_exact_mut(classes.len()) {
                    softmax(row, densities.temperature);
                    for (p, &place) in row.iter_mut().zip(classes.places()) {
                        if densities.classes[place as usize].is_some() {
                            *p = (1.0 - densities.floor) * *p + least;
                        }
                    }
                }
            }
            ClassRule::Clip => scores.chunks_exact_mut(classes.len()).for_each(clip),
            ClassRule::Softmax { temperature } => {
                scores.chunks_exact_mut(classes.len()).for_each(|row| softmax(row, *temperature));
            }
        }
    }
}

/// Position of the largest score, the first where several are equal.
pub(crate) fn largest(scores: &[f64]) -> u32 {
    let mut best = 0;
    for (k, s) in scores.iter().enumerate() {
        if *s > scores[best] {
            best = k;
        }
    }
    best as u32
}

/// `exp(s_k/T) / Σ exp(s_l/T)`, with the largest subtracted first.
pub(super) fn softmax(scores: &mut [f64], temperature: f64) {
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for s in scores.iter_mut() {
        *s = ((*s - top) / temperature).exp();
        sum += *s;
    }
    for s in scores {
        *s /= sum;
    }
}

/// Clips to `[0, 1]` and divides by the sum.
fn clip(scores: &mut [f64]) {
    let possible = scores.iter().filter(|s| **s > f64::NEG_INFINITY).count();
    let mut sum = 0.0;
    for s in scores.iter_mut() {
        if *s > f64::NEG_INFINITY {
            *s = s.clamp(0.0, 1.0);
            sum += *s;
        }
    }
    for s in scores {
        *s = match (*s > f64::NEG_INFINITY, sum > 0.0) {
            (false, _) => 0.0,
            (true, true) => *s / sum,
            (true, false) => 1.0 / possible as f64,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn novelty_is_the_share_of_learned_rows_that_are_nearer() {
        // 1000 rows whose log₂ r is spread evenly over (−2, 2).
        let mut learned = vec![0.0; DISTANCES];
        let log = |i: usize| -2.0 + 4.0 * (i as f64 + 0.5) / 1000.0;
        (0..1000).for_each(|i| learned[Novelty::step(2f64.powf(log(i)))] += 1.0);
        let mut before = 0.0;
        for i in 0..400 {
            let r = 2f64.powf(-8.0 + 16.0 * f64::from(i) / 400.0);
            let novelty = 1.0 - farther(&learned, r);
            assert!(novelty > before || i == 0 || r <= 0.25, "{r}: {novelty} after {before}");
            let truth = ((r.log2() + 2.0) / 4.0).clamp(0.0, 1.0);
            assert!((novelty - truth).abs() < 3e-3, "{r}: {novelty} against {truth}");
            before = novelty;
        }
        assert!(1.0 - farther(&learned, 1e9) > 1.0 - farther(&learned, 1e6));
    }

    #[test]
    fn without_measurements_novelty_is_that_of_chi_square() {
        // Quantiles of χ² from tables: 95 % and 99 % of 10 degrees of freedom, 50 % of 3.
        for (m, q, tail) in [(10.0, 18.307, 0.05), (10.0, 23.209, 0.01), (3.0, 2.366, 0.5)] {
            let found = farther_if_normal(m, q / m);
            assert!((found - tail).abs() < 0.005, "{m} {q}: {found}");
        }
        assert!(farther_if_normal(3.0, 1e9) < farther_if_normal(3.0, 1e8));
    }

    #[test]
    fn rows_sum_to_one_whatever_the_scores() {
        for row in [[0.2, -3.0, 5.0], [-1.0, -2.0, f64::NEG_INFINITY], [900.0, 899.0, -1e300]] {
            let (mut a, mut b) = (row, row);
            clip(&mut a);
            softmax(&mut b, 1.0);
            for p in [a, b] {
                assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-15, "{row:?} gives {p:?}");
                assert!(p.iter().all(|v| (0.0..=1.0).contains(v)));
            }
        }
    }
}
