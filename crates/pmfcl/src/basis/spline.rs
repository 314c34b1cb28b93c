//! `spline:k`: cubic B-splines of each input, linear beyond the range.
//!
//! Knots are uniform: with k functions kept of k + 1, the range [lo, hi] is cut into k − 2
//! intervals of length h, and the knots go on at the same distance on either side. On such knots
//! the Cox–de Boor recursion has a closed form. At t = (x − lo)/h, u = t − ⌊t⌋, four functions are
//! not zero:
//!
//! (1 − u)³/6,  (3u³ − 6u² + 4)/6,  (−3u³ + 3u² + 3u + 1)/6,  u³/6
//!
//! Beyond the range each function goes on with the value and slope it has at the end, so a row
//! from a later task, outside everything seen at first, still has a sensible image. The functions
//! sum to 1 everywhere. That sum is the intercept's column, so the last function of each input is
//! dropped: k columns from k + 1 functions, nothing lost.
//!
//! Behind a frozen map each function keeps the value it has at the end: near the ends are few rows, so a
//! slope there says little, and the inputs next to the splines say what goes on. A function that hardly any row has
//! entered is nearly constant in all that was learned; the next row that enters it would be thousands of its deviations away,
//! and the prediction with it. So each has a share of 1/20 of its input there, which bounds that distance by a few dozen.

use super::range::ranges;
use super::{BasisError, Parts};

/// What each function behind a frozen map has of its input: enough to vary as soon as the input does.
pub(super) const SHARE: f64 = 0.05;

/// Cubic B-splines on a range for each input.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spline {
    /// Functions kept for each input, k.
    count: usize,
    /// (lo, hi) of each input.
    ranges: Vec<(f64, f64)>,
    /// Whether functions are constant beyond the range, except for the share they have of the input.
    held: bool,
}

/// lo of each input, then hi of each.
pub(super) fn learn(rows: &[f64], d: usize) -> Result<Vec<f64>, BasisError> {
    let mut ranges = ranges(rows, d)?;
    for (lo, hi) in &mut ranges {
        if lo >= hi {
            // One on either side, or as much more as a large number needs to change at all.
            let reach = (lo.abs() * 1e-6).max(1.0);
            (*lo, *hi) = (*lo - reach, *hi + reach);
        }
    }
    let (lo, hi): (Vec<f64>, Vec<f64>) = ranges.into_iter().unzip();
    Ok([lo, hi].concat())
}

impl Spline {
    pub(super) fn build(count: usize, d: usize, frozen: &[f64]) -> Result<Self, &'static str> {
        if frozen.len() != 2 * d {
            return Err("there should be two for each input");
        }
        let (lo, hi) = frozen.split_at(d);
        let ranges: Vec<(f64, f64)> = lo.iter().copied().zip(hi.iter().copied()).collect();
        if ranges.iter().any(|(lo, hi)| lo >= hi || !(hi - lo).is_finite()) {
            return Err("a range is empty");
        }
        Ok(Self { count, ranges, held: false })
    }

    /// Keeps every function at the value it has at the end of the range, and gives it its share of the input.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// φ of one row.
    pub(super) fn row(&self, x: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (j, out) in out.chunks_exact_mut(self.count).enumerate() {
            let (first, values) = self.four(j, x[j]);
            // The last function is the one dropped: zip stops before it.
            for (out, value) in out[first..].iter_mut().zip(values) {
                *out = value;
            }
            if self.held {
                out.iter_mut().for_each(|out| *out += SHARE * x[j]);
            }
        }
    }

    /// The four functions of input j that are not zero at x, and the number of the first.
    ///
    /// Formula: the module's; beyond the range, value plus slope times distance.
    fn four(&self, j: usize, x: f64) -> (usize, [f64; 4]) {
        let (lo, hi) = self.ranges[j];
        let intervals = self.count - 2;
        let x = if self.held { x.clamp(lo, hi) } else { x };
        if x < lo {
            return (0, line(0.0, (x - lo) / (hi - lo) * intervals as f64));
        }
        if x > hi {
            return (intervals - 1, line(1.0, (x - hi) / (hi - lo) * intervals as f64));
        }
        let t = (x - lo) / (hi - lo) * intervals as f64;
        let interval = (t as usize).min(intervals - 1);
        (interval, values(t - interval as f64))
    }

    pub(super) fn parts(&self) -> Parts<'_> {
        Parts::Splines { count: self.count, ranges: &self.ranges, held: self.held }
    }

    pub(super) fn responsible_input(&self, feature: usize) -> usize {
        feature / self.count
    }

    /// `spline3(x1)`.
    pub(super) fn names(&self, x: &[String]) -> Vec<String> {
        let of =
            |x: &String| (1..=self.count).map(|i| format!("spline{i}({x})")).collect::<Vec<_>>();
        x.iter().flat_map(of).collect()
    }
}

/// The four cubics at u in [0, 1].
fn values(u: f64) -> [f64; 4] {
    let v = 1.0 - u;
    // 4 − 6u² + 3u³ with u for one inner function, with 1 − u for the other: mirror images.
    let inner = |u: f64| (4.0 + u * u * (3.0 * u - 6.0)) / 6.0;
    [v * v * v / 6.0, inner(u), inner(v), u * u * u / 6.0]
}

/// The tangents at u = 0 or 1, followed over a distance in units of h.
fn line(u: f64, distance: f64) -> [f64; 4] {
    let slopes = if u < 0.5 { [-0.5, 0.0, 0.5, 0.0] } else { [0.0, -0.5, 0.0, 0.5] };
    let values = values(u);
    std::array::from_fn(|i| values[i] + slopes[i] * distance)
}

#[cfg(test)]
#[expect(clippy::unreadable_literal, reason = "digit for digit as the oracle gave them")]
mod tests {
    use super::*;
    use crate::basis::Basis;

    const EPS: f64 = f64::EPSILON;

    /// Cox–de Boor as in the textbook: slow, obvious, half-open at the last knot.
    fn cox_de_boor(knots: &[f64], i: usize, degree: usize, x: f64) -> f64 {
        if degree == 0 {
            return f64::from(u8::from(knots[i] <= x && x < knots[i + 1]));
        }
        let left = (x - knots[i]) / (knots[i + degree] - knots[i]);
        let right = (knots[i + degree + 1] - x) / (knots[i + degree + 1] - knots[i + 1]);
        left * cox_de_boor(knots, i, degree - 1, x)
            + right * cox_de_boor(knots, i + 1, degree - 1, x)
    }

    fn spline(count: usize, lo: f64, hi: f64) -> Spline {
        Spline::build(count, 1, &[lo, hi]).unwrap()
    }

    /// All k + 1 functions.
    fn all(spline: &Spline, x: f64) -> Vec<f64> {
        let (first, four) = spline.four(0, x);
        let mut all = vec![0.0; spline.count + 1];
        all[first..first + 4].copy_from_slice(&four);
        all
    }

    #[test]
    fn the_closed_form_equals_the_recursion() {
        for count in [3, 4, 8, 21] {
            let (lo, hi) = (-1.5, 4.5);
            let spline = spline(count, lo, hi);
            let h = (hi - lo) / (count - 2) as f64;
            let knots: Vec<f64> = (0..count + 5).map(|i| lo + (i as f64 - 3.0) * h).collect();
            for step in 0..600 {
                let x = lo + (hi - lo) * f64::from(step) / 600.0;
                let found = all(&spline, x);
                for (i, found) in found.iter().enumerate() {
                    // Both are O(1) with a dozen operations on knots rounded at |x| ≤ 8/h ulps.
                    let expected = cox_de_boor(&knots, i, 3, x);
                    let tolerance = 64.0 * EPS * count as f64;
                    assert!((found - expected).abs() <= tolerance, "{count} {i} {x}");
                }
            }
        }
    }

    #[test]
    fn the_functions_sum_to_one_everywhere() {
        let spline = spline(7, 2.0, 3.0);
        for step in -200..400 {
            let x = 2.0 + f64::from(step) / 100.0;
            let all = all(&spline, x);
            let size: f64 = all.iter().map(|v| v.abs()).sum();
            assert!((all.iter().sum::<f64>() - 1.0).abs() <= 8.0 * EPS * size, "at {x}");
        }
    }

    #[test]
    fn value_and_slope_are_continuous_at_the_ends_and_at_the_knots() {
        let spline = spline(6, 0.0, 1.0);
        for knot in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let h = 1e-6;
            let (left, at, right) =
                (all(&spline, knot - h), all(&spline, knot), all(&spline, knot + h));
            for i in 0..7 {
                // One-sided differences: truncation h/2·|f''| with |f''| ≤ 2·4², rounding 4ε/h.
                let tolerance = h * 32.0 + 4.0 * EPS / h;
                let slopes = ((at[i] - left[i]) / h, (right[i] - at[i]) / h);
                assert!((slopes.0 - slopes.1).abs() <= tolerance, "function {i} at {knot}");
            }
        }
    }

    #[test]
    fn beyond_the_range_every_function_is_a_line() {
        let spline = spline(5, -1.0, 1.0);
        for (a, b, c) in [(-3.0, -2.0, -1.0), (1.0, 2.0, 3.0)] {
            let (a, b, c) = (all(&spline, a), all(&spline, b), all(&spline, c));
            for i in 0..6 {
                assert!((a[i] - 2.0 * b[i] + c[i]).abs() <= 16.0 * EPS, "function {i}");
            }
        }
    }

    const SCIKIT: [(f64, [f64; 6]); 5] = [
        (-3.0, [3.1666666666666665, 0.6666666666666666, -2.8333333333333335, 0.0, 0.0, 0.0]),
        (0.3, [0.01066666666666667, 0.4146666666666667, 0.5386666666666667, 0.036, 0.0, 0.0]),
        (1.0, [0.0, 0.0, 0.16666666666666666, 0.6666666666666666, 0.16666666666666666, 0.0]),
        (1.7, [0.0, 0.0, 0.0, 0.03600000000000002, 0.5386666666666667, 0.41466666666666663]),
        (2.5, [0.0, 0.0, 0.0, 0.0, -0.33333333333333337, 0.6666666666666666]),
    ];

    #[test]
    fn agrees_with_scikit_learn() {
        // SplineTransformer(n_knots=5, degree=3, knots='uniform', extrapolation='linear',
        // include_bias=False), scikit-learn 1.9.1, fitted on 0 and 2.
        let map = "spline:6,scale=range".parse::<Basis>().unwrap().fix(&[0.0, 2.0], 1).unwrap();
        for (x, expected) in SCIKIT {
            let mut out = [0.0; 6];
            map.apply(&[x], &mut out, 6, 0).unwrap();
            for i in 0..6 {
                assert!(
                    (out[i] - expected[i]).abs() <= 16.0 * EPS * x.abs().max(1.0),
                    "{x}: {out:?}"
                );
            }
        }
    }

    #[test]
    fn a_constant_input_gets_one_unit_on_either_side() {
        let map = "spline:4,scale=range"
            .parse::<Basis>()
            .unwrap()
            .fix(&[5.0, 1e30, 5.0, 1e30], 2)
            .unwrap();
        assert_eq!(map.frozen()[0].to_bits(), 4.0_f64.to_bits());
        assert_eq!(map.frozen()[2].to_bits(), 6.0_f64.to_bits());
        assert!(map.frozen()[1] < 1e30 && 1e30 < map.frozen()[3]);
        assert_eq!(map.names(&["a".into(), "b".into()])[5], "spline2(b)");
    }
}
