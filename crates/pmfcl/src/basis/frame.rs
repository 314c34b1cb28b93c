//! The frozen map in front of nonlinear features: what limits how far a row can go.
//!
//! Features of a basis were fixed by the first rows; a row far from these would otherwise have features no row had
//! before, and a model whose parameters say nothing there. Three ways of seeing an input x, with mean μ and deviation σ
//! of the first rows and z = (x − μ)/σ:
//!
//! | | value | bound |
//! | --- | --- | --- |
//! | `clip` | z/√(1 + (z/4)²) | ±4 |
//! | `quantile` | √12·(share of first rows below x − ½), linear between knots | ±√3 |
//! | the same, fewer than 8 values in the first rows | `clip` at the knots, linear between them | ±3.96 |
//! | linear columns | x itself up to 4σ, from there on μ ± σ(8 − 16/\|z\|) | μ ± 8σ |
//!
//! A hard clip would give all rows beyond it one place; measured, the smooth one is better where later tasks lie
//! beyond the first. Linear columns are bounded because features balance them where rows were: beyond, features stay where
//! they are, and a line that went on would take predictions with it. An input that is constant in the first rows has no
//! deviation: 1/32 of its size is taken, or 1 where it is 0. A code of a category has no ranks worth the name: ranks would put
//! rare and frequent ones at the same distance, so that `quantile` sees it as `clip` does.

use super::BasisError;
use super::spec::Scale;

/// Where `clip` saturates, in deviations.
const REACH: f64 = 4.0;
/// How far the inputs themselves are linear, in deviations.
const LINEAR: f64 = 4.0;
/// z beyond this is as far as anything: its square is still a number.
const FARTHEST: f64 = 1e100;
/// Knots of `quantile`, for each input.
pub(super) const KNOTS: usize = 64;
/// The share of its size that an input which is constant in the first rows is taken to vary by.
const CONSTANT: f64 = 1.0 / 32.0;
/// Inputs of fewer different values in the first rows have no ranks.
const RANKED: usize = 8;
/// Where the last knots of an input without ranks lie, as a share of where `clip` saturates.
const LAST_KNOT: f64 = 0.99;
/// Deviations below this share of the size are rounding.
const LEAST: f64 = 1e-7;

/// Mean and deviation of each input in the first rows, and the knots of `quantile` where they are used.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export
pub struct Frame {
    /// μ of each input.
    pub shift: Vec<f64>,
    /// σ of each input.
    pub spread: Vec<f64>,
    /// For each input 64 knots in ascending order, the last one repeated where there are fewer, then their values.
    pub knots: Vec<f64>,
}

impl Frame {
    /// Where `clip` saturates.
    pub const REACH: f64 = REACH;
    /// How far the inputs themselves are linear.
    pub const LINEAR: f64 = LINEAR;

    /// How many numbers a frame has.
    pub(super) fn numbers(d: usize, quantile: bool) -> usize {
        2 * d + if quantile { 2 * KNOTS * d } else { 0 }
    }

    /// Learns the frame from the first rows, at least one.
    pub(super) fn learn(rows: &[f64], d: usize, quantile: bool) -> Result<Self, BasisError> {
        let n = (rows.len() / d) as f64;
        let (mut shift, mut spread) = (Vec::with_capacity(d), Vec::with_capacity(d));
        let mut knots = Vec::new();
        for column in 0..d {
            let values = || rows.iter().skip(column).step_by(d);
            // Divided first: a sum of large values could overflow.
            let mean: f64 = values().map(|x| x / n).sum();
            let size = values().fold(0.0_f64, |most, x| most.max(x.abs()));
            let scale = if size > 0.0 { size } else { 1.0 };
            let square = |x: &f64| ((x - mean) / scale).powi(2) / n;
            let deviation = scale * values().map(square).sum::<f64>().sqrt();
            let constant = deviation <= LEAST * size;
            let first = rows[column];
            let (middle, unit) = match (constant, first.abs() > 0.0) {
                (false, _) => (mean, deviation),
                (true, true) => (first, first.abs() * CONSTANT),
                (true, false) => (0.0, 1.0),
            };
            if !(middle.is_finite() && unit.is_finite() && unit > 0.0) {
                let (lo, hi) =
                    values().fold((first, first), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
                return Err(BasisError::Range { column, lo, hi });
            }
            shift.push(middle);
            spread.push(unit);
            if quantile {
                let mut sorted: Vec<f64> = values().copied().collect();
                sorted.sort_by(f64::total_cmp);
                let own = knots_of(&sorted, middle, unit);
                if let Some(x) = own.iter().find(|x| !x.is_finite()) {
                    return Err(BasisError::Range { column, lo: middle, hi: *x });
                }
                knots.extend(own);
            }
        }
        Ok(Self { shift, spread, knots })
    }

    /// How many inputs have ranks and are no copy of another in another unit, or nearly one: what two inputs have in common to a
    /// thousandth of a deviation products of features tell apart by too few digits. One with its sign turned counts.
    pub(super) fn different_inputs(&self) -> usize {
        let units = |j: usize| {
            let unit = |x: &f64| (x - self.shift[j]) / self.spread[j];
            let (knots, values) = self.knots[2 * KNOTS * j..][..2 * KNOTS].split_at(KNOTS);
            // Ranks end at √3; the values of an input that has none go on.
            (values[KNOTS - 1] < 2.0).then(|| knots.iter().map(unit).collect::<Vec<f64>>())
        };
        let mut seen: Vec<Vec<f64>> = Vec::new();
        for own in (0..self.knots.len() / (2 * KNOTS)).filter_map(units) {
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-3;
            let same = |other: &Vec<f64>| other.iter().zip(&own).all(near);
            if !seen.iter().any(same) {
                seen.push(own);
            }
        }
        seen.len()
    }

    /// Whether at least half of the inputs have ranks: as many values in these rows as tell a curve.
    pub(super) fn is_mostly_ranked(rows: &[f64], d: usize) -> bool {
        let ranked = |column: usize| {
            let mut seen: Vec<f64> = Vec::with_capacity(RANKED);
            for x in rows.iter().skip(column).step_by(d) {
                if seen.iter().all(|y| y.total_cmp(x).is_ne()) {
                    seen.push(*x);
                }
                if seen.len() == RANKED {
                    return true;
                }
            }
            false
        };
        2 * (0..d).filter(|&column| ranked(column)).count() >= d
    }

    /// The frame at the beginning of a list of numbers, and the rest of the list.
    pub(super) fn read(
        frozen: &[f64],
        d: usize,
        quantile: bool,
    ) -> Result<(Self, &[f64]), &'static str> {
        if frozen.len() < Self::numbers(d, quantile) {
            return Err("there are too few");
        }
        let (shift, rest) = frozen.split_at(d);
        let (spread, rest) = rest.split_at(d);
        let (knots, rest) = rest.split_at(if quantile { 2 * KNOTS * d } else { 0 });
        if spread.iter().any(|spread| *spread <= 0.0) {
            return Err("a deviation is not positive");
        }
        if knots.chunks(KNOTS).any(|list| !list.is_sorted()) {
            return Err("knots are not in order");
        }
        Ok((Self { shift: shift.to_vec(), spread: spread.to_vec(), knots: knots.to_vec() }, rest))
    }

    pub(super) fn write(&self) -> Vec<f64> {
        [&self.shift[..], &self.spread, &self.knots].concat()
    }

    /// Rows in the units of a scale.
    pub(super) fn apply(&self, scale: Scale, rows: &[f64], out: &mut [f64]) {
        if scale == Scale::Quantile {
            return pulp::Arch::new().dispatch(Ranks { frame: self, rows, out });
        }
        let d = self.shift.len();
        for (row, out) in rows.chunks_exact(d).zip(out.chunks_exact_mut(d)) {
            for j in 0..d {
                let z = ((row[j] - self.shift[j]) / self.spread[j]).clamp(-FARTHEST, FARTHEST);
                out[j] = soft(z);
            }
        }
    }

    /// The value of `quantile` for input j.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "only inlined does it take the processor's width")]
    fn rank(&self, j: usize, x: f64) -> f64 {
        let (knots, values) = self.knots[2 * KNOTS * j..][..2 * KNOTS].split_at(KNOTS);
        // All are compared, many at a time: halving would wait for each comparison before the next.
        let above: usize = knots.iter().map(|knot| usize::from(*knot <= x)).sum();
        if above == 0 {
            return values[0];
        }
        if above == KNOTS {
            return values[KNOTS - 1];
        }
        let (from, to) = (knots[above - 1], knots[above]);
        let share = (x - from) / (to - from);
        values[above - 1] + share * (values[above] - values[above - 1])
    }

    /// Input j as a linear column.
    pub(super) fn bounded(&self, j: usize, x: f64) -> f64 {
        let z = (x - self.shift[j]) / self.spread[j];
        if z.abs() <= LINEAR {
            return x;
        }
        // Value and slope go on at the edge.
        let far = 2.0 * LINEAR - LINEAR * LINEAR / z.abs();
        self.shift[j] + (self.spread[j] * far).copysign(z)
    }
}

/// Rows in the units of `quantile`.
struct Ranks<'a> {
    frame: &'a Frame,
    rows: &'a [f64],
    out: &'a mut [f64],
}

impl pulp::WithSimd for Ranks<'_> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as above")]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let d = self.frame.shift.len();
        for (row, out) in self.rows.chunks_exact(d).zip(self.out.chunks_exact_mut(d)) {
            for j in 0..d {
                out[j] = self.frame.rank(j, row[j]);
            }
        }
    }
}

/// z in the units of `clip`.
fn soft(z: f64) -> f64 {
    let far = z / REACH;
    z / (1.0 + far * far).sqrt()
}

/// Knots at different values, ties at the middle of their ranks, then the value at each knot; for few values `clip` at even steps.
fn knots_of(sorted: &[f64], middle: f64, unit: f64) -> Vec<f64> {
    let n = sorted.len();
    let mut knots: Vec<f64> = (0..KNOTS).map(|i| sorted[i * (n - 1) / (KNOTS - 1)]).collect();
    knots.dedup();
    let mut values: Vec<f64> = if knots.len() < RANKED {
        let last = (KNOTS - 1) as f64;
        let place = |i: usize| LAST_KNOT * (2.0 * i as f64 - last) / last;
        let z = |i: usize| REACH * place(i) / (1.0 - place(i) * place(i)).sqrt();
        knots = (0..KNOTS).map(|i| middle + unit * z(i)).collect();
        (0..KNOTS).map(|i| REACH * place(i)).collect()
    } else {
        let rank = |x: &f64| {
            let below = sorted.partition_point(|y| y < x);
            let not_above = sorted.partition_point(|y| y <= x);
            let share = (below + not_above) as f64 / (2 * n) as f64;
            12.0_f64.sqrt() * (share - 0.5)
        };
        knots.iter().map(rank).collect()
    };
    for list in [&mut knots, &mut values] {
        let last = list[list.len() - 1];
        list.resize(KNOTS, last);
    }
    [knots, values].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(rows: &[f64], scale: Scale, x: f64) -> f64 {
        let frame = Frame::learn(rows, 1, true).unwrap();
        let mut out = [0.0];
        frame.apply(scale, &[x], &mut out);
        out[0]
    }

    #[test]
    fn near_the_mean_units_are_deviations_and_far_rows_saturate() {
        let rows = [1.0, 3.0];
        assert!((one(&rows, Scale::Clip, 2.01) - 0.01).abs() < 1e-6);
        assert!((one(&rows, Scale::Clip, 2e6) - REACH).abs() < 1e-9);
        for x in [f64::MAX, 1e200] {
            assert!((one(&rows, Scale::Clip, x) - REACH).abs() < 1e-12);
            assert!((one(&rows, Scale::Clip, -x) + REACH).abs() < 1e-12);
        }
    }

    #[test]
    fn ranks_put_ties_in_the_middle_and_end_at_the_range() {
        let rows: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!(one(&rows, Scale::Quantile, 499.5).abs() < 1e-12);
        assert!((one(&rows, Scale::Quantile, 749.5) - 3.0_f64.sqrt() / 2.0).abs() < 0.01);
        let end = one(&rows, Scale::Quantile, 999.0);
        assert_eq!(one(&rows, Scale::Quantile, f64::MAX).to_bits(), end.to_bits());
    }

    #[test]
    fn a_code_of_few_values_has_no_ranks() {
        // Seldom 1: far from 0, as `clip` has it; ranks would put it where they put a frequent one.
        let seldom: Vec<f64> = (0..40).map(|i| f64::from(u8::from(i == 7))).collect();
        for x in [-1.0, 0.0, 0.3, 1.0, 5.0, 1e300] {
            let (ranked, clipped) =
                (one(&seldom, Scale::Quantile, x), one(&seldom, Scale::Clip, x));
            assert!((ranked - clipped).abs() < 0.05, "{x}: {ranked} against {clipped}");
        }
        assert!(one(&seldom, Scale::Quantile, 1.0) > 3.0);
        let eight: Vec<f64> = (0..40).map(|i| f64::from(i % 8)).collect();
        assert!(one(&eight, Scale::Quantile, 7.0) < 1.7);
        assert!(Frame::is_mostly_ranked(&eight, 1) && !Frame::is_mostly_ranked(&seldom, 1));
        let both: Vec<f64> = eight.iter().zip(&seldom).flat_map(|(a, b)| [*a, *b]).collect();
        assert!(Frame::is_mostly_ranked(&both, 2));
    }

    #[test]
    fn a_constant_input_still_has_a_unit() {
        for scale in [Scale::Clip, Scale::Quantile] {
            let (a, b) = (one(&[72.0; 5], scale, 72.0), one(&[72.0; 5], scale, 60.0));
            assert!(a.abs() < 1e-12 && b < -0.5, "{a} {b}");
            assert!(one(&[0.0; 5], scale, 1.0) > 0.4);
        }
    }

    #[test]
    fn linear_columns_are_the_inputs_until_they_are_far() {
        let frame = Frame::learn(&[1.0, 3.0], 1, false).unwrap();
        assert_eq!(frame.bounded(0, 5.9).to_bits(), 5.9_f64.to_bits());
        assert!((frame.bounded(0, 6.0 + 1e-9) - 6.0).abs() < 1e-8);
        // The slope goes on too: a step of 0.01 beyond the edge is 0.01 less 0.01²/4.
        assert!((frame.bounded(0, 6.01) - 6.01).abs() < 3e-5);
        assert!(frame.bounded(0, 7.0) > frame.bounded(0, 6.5));
        assert!(frame.bounded(0, 1e6) < 10.0 && frame.bounded(0, f64::MAX) <= 10.0);
        assert!(frame.bounded(0, -1e6) > -6.0 && frame.bounded(0, -f64::MAX) >= -6.0);
    }

    #[test]
    fn copies_in_other_units_and_codes_are_no_inputs_of_their_own() {
        let wave = |i: i32| f64::from(i * i % 101);
        let row =
            |i: i32| [wave(i), 3.0 + 2.0 * wave(i), f64::from(i), f64::from(i % 2), 1e3 * wave(i)];
        let rows: Vec<f64> = (0..101).flat_map(row).collect();
        assert_eq!(Frame::learn(&rows, 5, true).unwrap().different_inputs(), 2);
        for (near, different) in [(1e-4, 1), (0.1, 2)] {
            let rows: Vec<f64> =
                (0..101).flat_map(|i| [wave(i), wave(i) + near * wave(7 * i)]).collect();
            let found = Frame::learn(&rows, 2, true).unwrap().different_inputs();
            assert_eq!(found, different, "{near}");
        }
    }

    #[test]
    fn what_was_written_is_read_and_nonsense_is_refused() {
        let frame = Frame::learn(&[1.0, 5.0, 3.0, 5.0], 2, true).unwrap();
        let numbers = frame.write();
        let (again, rest) = Frame::read(&numbers, 2, true).unwrap();
        assert!(again == frame && rest.is_empty());
        assert!(Frame::read(&numbers[1..], 2, true).is_err());
        let mut wrong = numbers.clone();
        wrong[2] = 0.0;
        assert!(Frame::read(&wrong, 2, true).is_err());
    }
}
