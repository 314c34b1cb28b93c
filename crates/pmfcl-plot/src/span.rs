//! The stretch of numbers an axis shows, and its ticks.

use crate::axis::{Axis, Scale};
use crate::number;

/// Numbers beyond this are drawn at it, so that sums and differences stay finite.
const HUGE: f64 = 1e300;
/// Smaller numbers are zero to a linear axis.
const TINY: f64 = 1e-280;
/// A logarithmic axis shows numbers from `1 / LOG_HUGE` to `LOG_HUGE`: with some decades added at
/// either end to reach a tick, all stay finite and above zero.
const LOG_HUGE: f64 = 1e200;

/// Below this ratio of its ends, even ticks serve a logarithmic axis better.
const NARROW: f64 = 2.0;

/// From `lo` to `hi`, with the ticks between; `lo < hi`, both finite.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    pub(crate) log: bool,
    pub(crate) ticks: Vec<f64>,
    pub(crate) labels: Vec<String>,
    /// Ticks without a label: 2 to 9 of each decade.
    pub(crate) minor: Vec<f64>,
}

/// What happens at the ends of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The axis goes on to the next tick.
    Ticks,
    /// The axis ends shortly after the data.
    Data,
    /// No value lies on the edge: as `Data` on a logarithmic axis, else the tick after that.
    Beyond,
}

impl Span {
    /// The span of some values with about `wanted` ticks; `None` if none of them can be drawn.
    pub(crate) fn fit(
        axis: &Axis,
        values: impl IntoIterator<Item = f64>,
        ends: Ends,
        wanted: i32,
    ) -> Option<Self> {
        let log = axis.scale == Scale::Log;
        if let Scale::Names(names) = &axis.scale {
            return Some(Self::names(names));
        }
        let fixed = axis.range.and_then(|(lo, hi)| {
            let (lo, hi) = (drawable(lo, log)?, drawable(hi, log)?);
            (lo < hi).then_some((lo, hi))
        });
        let from_zero = axis.from_zero && !log;
        let data = extent(values.into_iter().filter_map(|v| drawable(v, log)), from_zero)?;
        let (lo, hi) = fixed.unwrap_or(data);
        let (lo, hi) = apart(lo, hi, log);
        let (lo, hi) = match (fixed, ends) {
            (None, Ends::Data | Ends::Beyond) => pad(lo, hi, log),
            _ => (lo, hi),
        };
        let (ticks, labels) = if log && hi / lo >= NARROW {
            log_ticks(lo, hi, wanted)
        } else {
            // Of a narrow logarithmic range, four steps or more are each shorter than `lo`, so that
            // none reaches down to zero.
            let wanted = if log { wanted.max(4) } else { wanted };
            let ticks = even_ticks(lo, hi, wanted, axis.scale == Scale::Whole);
            let labels = number::labels(&ticks);
            (ticks, labels)
        };
        let whole = (ticks[0], ticks[ticks.len() - 1]);
        let (lo, hi) = match (fixed, ends) {
            (None, Ends::Ticks) => (lo.min(whole.0), hi.max(whole.1)),
            (None, Ends::Beyond) if !log => (lo.min(whole.0), hi.max(whole.1)),
            _ => (lo, hi),
        };
        let minor = if log { minor_ticks(lo, hi) } else { vec![] };
        let mut span = Self { lo, hi, log, ticks: vec![], labels: vec![], minor };
        // A hair of slack: an end that is a tick up to rounding keeps it.
        let inside = |t: f64| (-1e-9..=1.0 + 1e-9).contains(&span.unit(t));
        let kept: Vec<bool> = ticks.iter().map(|&t| inside(t)).collect();
        span.ticks = keep(ticks, &kept);
        span.labels = keep(labels, &kept);
        Some(span)
    }

    /// One place per name: 0, 1, 2, …
    fn names(names: &[String]) -> Self {
        let n = names.len().max(1);
        Self {
            lo: -0.5,
            hi: n as f64 - 0.5,
            log: false,
            ticks: (0..names.len()).map(|i| i as f64).collect(),
            labels: names.to_vec(),
            minor: vec![],
        }
    }

    /// Where a value lies: 0 at `lo`, 1 at `hi`; `None` if it cannot be drawn.
    pub(crate) fn at(&self, v: f64) -> Option<f64> {
        // A point far outside a fixed range is cut off by the frame wherever it is.
        drawable(v, self.log).map(|v| self.unit(v).clamp(-50.0, 51.0))
    }

    fn unit(&self, v: f64) -> f64 {
        if self.log {
            (v.log10() - self.lo.log10()) / (self.hi.log10() - self.lo.log10())
        } else {
            (v - self.lo) / (self.hi - self.lo)
        }
    }

    /// Whether a ± interval that ends at `v` goes on below a logarithmic axis, where it is cut off.
    pub(crate) fn cuts(&self, v: f64) -> bool {
        // A hair of slack: an end that is the floor up to rounding is not cut.
        self.log && self.at(v).is_none_or(|u| u < -1e-9)
    }

    /// Where the lower end of a band or a bar lies: at the floor if it has no place of its own.
    pub(crate) fn at_or_floor(&self, v: f64) -> f64 {
        self.at(v).unwrap_or(0.0)
    }
}

/// Ticks at 1, 2 or 5 times a power of ten that reach from at or below `lo` to at or above `hi`.
///
/// At most `wanted + 2` of them. `whole` keeps the step at 1 or more.
pub(crate) fn even_ticks(lo: f64, hi: f64, wanted: i32, whole: bool) -> Vec<f64> {
    let rough = (hi - lo) / f64::from(wanted.max(1));
    let mut exponent = rough.log10().floor() as i32;
    let mut factor = 1;
    for candidate in [1, 2, 5, 10] {
        factor = candidate;
        if decimal(f64::from(candidate), exponent) >= rough * (1.0 - 1e-9) {
            break;
        }
    }
    if factor == 10 {
        (factor, exponent) = (1, exponent + 1);
    }
    if whole && exponent < 0 {
        (factor, exponent) = (1, 0);
    }
    let step = decimal(f64::from(factor), exponent);
    // A hair of slack: 0.3 / 0.1 is not 3.
    let first = (lo / step + 1e-6).floor();
    let last = (hi / step - 1e-6).ceil().max(first + 1.0);
    let count = (last - first) as usize;
    (0..=count).map(|k| decimal((first + k as f64) * f64::from(factor), exponent)).collect()
}

/// Ticks of a logarithmic axis and their labels.
fn log_ticks(lo: f64, hi: f64, wanted: i32) -> (Vec<f64>, Vec<String>) {
    let wanted = wanted.max(3);
    let decades = hi.log10() - lo.log10();
    let bottom = (lo.log10() + 1e-9).floor() as i32;
    let top = (hi.log10() - 1e-9).ceil() as i32;
    if decades * 3.0 <= f64::from(wanted) + 1.0 {
        // 1, 2 and 5 of each decade, from the last at or below `lo` to the first at or above `hi`.
        let all: Vec<(f64, i32)> =
            (bottom..=top).flat_map(|e| [(1.0, e), (2.0, e), (5.0, e)]).collect();
        let value = |&(m, e): &(f64, i32)| decimal(m, e);
        let from = all.iter().rposition(|t| value(t) <= lo * (1.0 + 1e-9)).unwrap_or(0);
        let to = all.iter().position(|t| value(t) >= hi * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
        let ticks: Vec<f64> = all[from..=to].iter().map(value).collect();
        let labels = ticks.iter().map(|&t| number::short(t)).collect();
        return (ticks, labels);
    }
    // Every `stride`-th power of ten; of two strides the one that adds less to the range.
    let least = (top - bottom + wanted - 1).div_euclid(wanted).max(1);
    let ends = |stride: i32| {
        (bottom.div_euclid(stride) * stride, (top + stride - 1).div_euclid(stride) * stride)
    };
    let added = |stride: i32| {
        let (from, to) = ends(stride);
        to - from
    };
    let strides = if least == 1 { least..=least } else { least..=least + 1 };
    let stride = strides.min_by_key(|&stride| added(stride)).unwrap_or(least);
    let (from, to) = ends(stride);
    let powers: Vec<i32> = (from..=to).step_by(stride as usize).collect();
    (
        powers.iter().map(|&e| decimal(1.0, e)).collect(),
        powers.iter().map(|&e| number::power_of_ten(e)).collect(),
    )
}

/// The 2 to 9 of each decade, where there is room for them.
fn minor_ticks(lo: f64, hi: f64) -> Vec<f64> {
    let (bottom, top) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
    if top - bottom > 6 || hi / lo < 3.0 {
        return vec![];
    }
    (bottom..top)
        .flat_map(|e| (2..10).map(move |m| decimal(f64::from(m), e)))
        .filter(|&v| lo <= v && v <= hi)
        .collect()
}

/// `m · 10^e`, rounded once where a table of exact powers reaches.
fn decimal(m: f64, e: i32) -> f64 {
    if e < 0 { m / 10_f64.powi(-e) } else { m * 10_f64.powi(e) }
}

/// The value an axis can show: finite, not beyond [`HUGE`], above zero if logarithmic.
fn drawable(v: f64, log: bool) -> Option<f64> {
    if !v.is_finite() || (log && v < 1.0 / LOG_HUGE) {
        None
    } else if log {
        Some(v.min(LOG_HUGE))
    } else if v.abs() < TINY {
        Some(0.0)
    } else {
        Some(v.clamp(-HUGE, HUGE))
    }
}

/// The smallest and the largest value.
fn extent(values: impl Iterator<Item = f64>, from_zero: bool) -> Option<(f64, f64)> {
    let (lo, hi) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
    if lo > hi {
        return None;
    }
    Some(if from_zero { (lo.min(0.0), hi.max(0.0)) } else { (lo, hi) })
}

/// Moves two ends apart that are too close for ticks between them.
fn apart(lo: f64, hi: f64, log: bool) -> (f64, f64) {
    let size = lo.abs().max(hi.abs());
    if !log && size < TINY {
        (-1.0, 1.0)
    } else if hi - lo >= size * 1e-9 {
        (lo, hi)
    } else if log {
        (lo / 2.0, hi * 2.0)
    } else {
        (lo - size / 10.0, hi + size / 10.0)
    }
}

/// A little air after the data: 3 % of the range on either side, but not across zero.
fn pad(lo: f64, hi: f64, log: bool) -> (f64, f64) {
    if log {
        let air = 10_f64.powf(0.03 * (hi.log10() - lo.log10()));
        (lo / air, hi * air)
    } else {
        let air = 0.03 * (hi - lo);
        let lower = if lo >= 0.0 { (lo - air).max(0.0) } else { lo - air };
        (lower, hi + air)
    }
}

fn keep<T>(all: Vec<T>, kept: &[bool]) -> Vec<T> {
    all.into_iter().zip(kept).filter_map(|(one, &kept)| kept.then_some(one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(even_ticks(0.0, 1.0, 5, false), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(even_ticks(0.013, 0.094, 5, false), [0.0, 0.02, 0.04, 0.06, 0.08, 0.1]);
        assert_eq!(even_ticks(-3.0, 7.0, 5, false), [-4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(even_ticks(1.0, 3.0, 8, true), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn twelve_decades_are_told_in_steps_of_three() {
        let (_, labels) = log_ticks(1e-9, 1e3, 6);
        assert_eq!(labels, ["10⁻⁹", "10⁻⁶", "10⁻³", "10⁰", "10³"]);
    }

    #[test]
    fn a_short_log_range_has_ticks_at_one_two_five() {
        let (ticks, labels) = log_ticks(0.9, 11.0, 6);
        assert_eq!(ticks, [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(labels, ["0.5", "1", "2", "5", "10", "20"]);
    }

    fn value() -> impl Strategy<Value = f64> {
        (-1.0..1.0_f64, -300..300_i32).prop_map(|(m, e)| m * 10_f64.powi(e))
    }

    fn rising(ticks: &[f64]) -> bool {
        ticks.windows(2).all(|pair| pair[0] < pair[1])
    }

    proptest! {
        #[test]
        fn even_ticks_rise_cover_the_data_and_are_at_most_twelve(
            a in value(), b in value(), wanted in 2..10_i32, whole: bool,
        ) {
            let axis = Axis { scale: if whole { Scale::Whole } else { Scale::Linear }, ..Axis::default() };
            let span = Span::fit(&axis, [a, b], Ends::Ticks, wanted).expect("finite values");
            let slack = 1e-6 * (span.hi - span.lo);
            prop_assert!(rising(&span.ticks), "{:?}", span.ticks);
            prop_assert!((2..=12).contains(&span.ticks.len()), "{:?}", span.ticks);
            prop_assert!(span.ticks[0] <= a.min(b) + slack);
            prop_assert!(span.ticks[span.ticks.len() - 1] >= a.max(b) - slack);
            let mut labels = span.labels.clone();
            labels.dedup();
            prop_assert_eq!(labels.len(), span.ticks.len(), "{:?}", span.labels);
        }

        #[test]
        fn log_ticks_rise_cover_the_data_and_are_at_most_twelve(
            a in value(), b in value(), wanted in 2..10_i32,
        ) {
            let (a, b) = (a.abs().clamp(1e-200, 1e200), b.abs().clamp(1e-200, 1e200));
            let span = Span::fit(&Axis::log(""), [a, b], Ends::Ticks, wanted).expect("positive");
            prop_assert!(rising(&span.ticks), "{:?}", span.ticks);
            prop_assert!((2..=12).contains(&span.ticks.len()), "{:?}", span.ticks);
            prop_assert!(span.ticks[0] <= a.min(b) * (1.0 + 1e-6));
            prop_assert!(span.ticks[span.ticks.len() - 1] >= a.max(b) * (1.0 - 1e-6));
        }

        #[test]
        fn a_value_inside_the_span_lies_between_zero_and_one(a in value(), b in value(), t in 0.0..1.0) {
            let span = Span::fit(&Axis::default(), [a, b], Ends::Data, 5).expect("finite values");
            let u = span.at(a + t * (b - a)).expect("finite");
            prop_assert!((0.0..=1.0).contains(&u));
        }
    }
}
