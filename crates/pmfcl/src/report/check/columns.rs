//! Which inputs have moved, and whether one of them is in other units.

use super::NewTask;
use crate::basis::Fill;
use crate::error::Result;
use crate::learner::Learner;
use crate::problem::{Exactness, Moments, Pool};
use crate::report::distributions::normal_cdf;
use crate::summary::Summary;

/// The fewest rows from which units are judged.
const FEW: f64 = 30.0;

/// What an input has done.
#[derive(Debug, Clone, PartialEq)]
pub struct InputShift {
    /// The input.
    pub input: usize,
    /// Its mean and standard deviation in memory.
    pub mean_before: f64,
    /// See `mean_before`.
    pub sd_before: f64,
    /// Its mean and standard deviation in the new rows.
    pub mean: f64,
    /// See `mean`.
    pub sd: f64,
    /// By how many standard deviations of memory the mean has moved.
    pub shift: f64,
    /// The probability of so large a shift by chance, for this input alone (Welch's test).
    pub p_value: f64,
    /// The change of units that explains it.
    pub unit: Option<UnitChange>,
}

/// A change of units: `x` has become `factor·x + offset`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitChange {
    /// The factor.
    pub factor: f64,
    /// The offset.
    pub offset: f64,
    /// Units that differ so.
    pub example: &'static str,
}

impl UnitChange {
    /// In words.
    pub(super) fn words(&self) -> String {
        let what = match (self.factor, self.offset) {
            (1.0, offset) => format!("{offset:+} added"),
            (factor, 0.0) if factor >= 1.0 => format!("multiplied by {}", super::short(factor)),
            (factor, 0.0) => format!("divided by {}", super::short(1.0 / factor)),
            (factor, offset) => format!("{}·x {:+}", super::short(factor), offset),
        };
        if self.example.is_empty() { what } else { format!("{what}, as {}", self.example) }
    }
}

/// Changes of units that are tried, next to powers of ten.
const UNITS: [UnitChange; 15] = [
    UnitChange { factor: 1.8, offset: 32.0, example: "°C to °F" },
    UnitChange { factor: 1.0 / 1.8, offset: -32.0 / 1.8, example: "°F to °C" },
    UnitChange { factor: 1.0, offset: 273.15, example: "°C to K" },
    UnitChange { factor: 1.0, offset: -273.15, example: "K to °C" },
    UnitChange { factor: 2.54, offset: 0.0, example: "inch to cm" },
    UnitChange { factor: 1.0 / 2.54, offset: 0.0, example: "cm to inch" },
    UnitChange { factor: 0.3048, offset: 0.0, example: "feet to m" },
    UnitChange { factor: 1.0 / 0.3048, offset: 0.0, example: "m to feet" },
    UnitChange { factor: 25.4, offset: 0.0, example: "inch to mm" },
    UnitChange { factor: 3.6, offset: 0.0, example: "m/s to km/h" },
    UnitChange { factor: 1.0 / 3.6, offset: 0.0, example: "km/h to m/s" },
    UnitChange { factor: 60.0, offset: 0.0, example: "minutes to seconds" },
    UnitChange { factor: 1.0 / 60.0, offset: 0.0, example: "seconds to minutes" },
    UnitChange { factor: 3600.0, offset: 0.0, example: "hours to seconds" },
    UnitChange { factor: 1.0 / 3600.0, offset: 0.0, example: "seconds to hours" },
];

/// Deviations beyond which rows lie where the features of a frozen map hardly tell them apart.
const OUTSIDE: f64 = 4.0;

/// Mean and standard deviation of one input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) sd: f64,
}

/// Mean and spread of every input, where a summary holds them: the basis is linear, there is an intercept, and the weights are
/// those of rows.
pub(super) fn spreads(
    quadratic: &Summary,
    moments: Option<&Moments>,
    exact: bool,
    intercept: bool,
) -> Option<Vec<Spread>> {
    if let Some(moments) = moments {
        let numbers = moments.to_numbers();
        let columns = (numbers.len() - 1) / 2;
        let one = |j: usize| Spread {
            mean: numbers[1 + j],
            sd: (numbers[1 + columns + j] / numbers[0]).max(0.0).sqrt(),
        };
        return Some((0..columns).map(one).collect());
    }
    if !exact || !intercept {
        return None;
    }
    let row = quadratic.first_row()?;
    let variances = quadratic.variances(1);
    let inputs = row[1..].iter().zip(&variances[1..]);
    Some(inputs.map(|(sum, v)| Spread { mean: sum / row[0], sd: v.sqrt() }).collect())
}

/// Mean and spread of every input in the memory of a learner.
pub(super) fn spreads_of(learner: &Learner) -> Option<Vec<Spread>> {
    spreads_in(learner, learner.pool().ok()?)
}

/// Mean and spread of every input in a pool of a learner.
fn spreads_in(learner: &Learner, pool: &Pool) -> Option<Vec<Spread>> {
    let design = learner.design()?;
    if !design.map().begins_with_inputs() {
        return None;
    }
    let exact = learner.problem().exactness() == Exactness::Exact;
    let mut found = spreads(&pool.quadratic, pool.moments.as_ref(), exact, design.intercept())?;
    // Features follow the inputs.
    found.truncate(design.inputs());
    Some(found)
}

/// Mean and spread of the inputs over the rows that have them: a gap counts as 0 in the sums.
fn present(spreads: &[Spread], gaps: &[Fill]) -> Vec<Spread> {
    let mut present = spreads.to_vec();
    for gap in gaps.iter().filter(|gap| gap.value < spreads.len()) {
        let there = 1.0 - spreads.get(gap.indicator).map_or(0.0, |share| share.mean);
        let Spread { mean, sd } = spreads[gap.value];
        if there > 1e-9 {
            let own = mean / there;
            let variance = (sd * sd + mean * mean) / there - own * own;
            present[gap.value] = Spread { mean: own, sd: variance.max(0.0).sqrt() };
        }
    }
    present
}

/// Inputs whose mean lies beyond where the features of a frozen map saturate, with the distance in deviations of the rows that
/// fixed it.
pub(super) fn outside_frame(learner: &Learner, shifts: &[InputShift]) -> Vec<(usize, f64)> {
    let Some(frame) = learner.design().and_then(|design| design.map().frame()) else {
        return Vec::new();
    };
    let distance = |shift: &InputShift| {
        let j = shift.input;
        (j, (shift.mean - frame.shift[j]) / frame.spread[j])
    };
    shifts.iter().map(distance).filter(|(_, far)| far.abs() > OUTSIDE).collect()
}

/// What every input known to memory has done.
pub(super) fn shifts(
    learner: &Learner,
    task: &NewTask<'_>,
    known: usize,
) -> Result<Vec<InputShift>> {
    let summary = &task.draft.summary;
    let exact = learner.problem().exactness() == Exactness::Exact;
    let now = spreads(&summary.quadratic, summary.moments.as_ref(), exact, task.design.intercept());
    let before = spreads_in(learner, learner.pool_with_gaps()?);
    let (Some(before), Some(now)) = (before, now) else { return Ok(Vec::new()) };
    // Of rows that have a value: a column with more gaps has not moved for that.
    let (before, now) = (present(&before, task.gaps), present(&now, task.gaps));
    let (n0, n1) = (learner.effective_samples()?, summary.head.samples);
    let pairs = before.iter().zip(&now).take(known).enumerate();
    Ok(pairs
        .map(|(input, (a, b))| {
            let error = (a.sd * a.sd / n0 + b.sd * b.sd / n1).sqrt();
            let gap = b.mean - a.mean;
            // A column that did not vary and still does not has not moved, up to rounding.
            let still = error <= 1e-12 * (a.mean.abs() + b.mean.abs());
            let p_value = match (still, gap.abs() <= 1e-9 * (a.mean.abs() + b.mean.abs())) {
                (true, true) => 1.0,
                (true, false) => 0.0,
                (false, _) => 2.0 * normal_cdf(-(gap / error).abs()),
            };
            let scale = if a.sd > 0.0 { a.sd } else { b.sd };
            let shift = if scale > 0.0 { gap / scale } else { 0.0 };
            let named = task
                .inputs
                .get(input)
                .is_some_and(|name| name.contains('=') || name.ends_with(" is missing"));
            // Spreads of rare values differ by chance; a mean that moved, or a spread five times as large, does not.
            let certain = p_value < 1e-4 || (b.sd / a.sd).ln().abs() > 5_f64.ln();
            let unit = if named || n0 < FEW || n1 < FEW || !certain { None } else { unit(*a, *b) };
            InputShift {
                input,
                mean_before: a.mean,
                sd_before: a.sd,
                mean: b.mean,
                sd: b.sd,
                shift,
                p_value,
                unit,
            }
        })
        .collect())
}

/// The change of units that explains the change of a column, where nothing else does.
fn unit(a: Spread, b: Spread) -> Option<UnitChange> {
    if !(a.sd > 0.0 && b.sd > 0.0) {
        return None;
    }
    // How badly a change of units explains what is seen: the spread in logarithms, the mean in standard deviations.
    let badness = |u: &UnitChange| {
        let spread = (b.sd / (u.factor * a.sd)).ln().abs();
        let mean = (b.mean - u.factor * a.mean - u.offset).abs() / b.sd.max(u.factor * a.sd);
        (spread, mean)
    };
    let same = badness(&UnitChange { factor: 1.0, offset: 0.0, example: "" });
    if same.0 < 0.4 && same.1 < 3.0 {
        return None;
    }
    let powers = (-9..=9).filter(|k| *k != 0).map(|k| UnitChange {
        factor: 10_f64.powi(k),
        offset: 0.0,
        example: "",
    });
    let near = |u: &UnitChange| {
        let (spread, mean) = badness(u);
        // Powers of ten are far apart, so one is recognized from farther away.
        let (spreads, means) = if u.example.is_empty() { (0.5, 1.0) } else { (0.2, 0.5) };
        spread < spreads && mean < means
    };
    let total = |u: &UnitChange| {
        let (spread, mean) = badness(u);
        spread + mean
    };
    UNITS.into_iter().chain(powers).filter(near).min_by(|x, y| total(x).total_cmp(&total(y)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_told_apart() {
        let a = Spread { mean: 15.0, sd: 8.0 };
        let seen = |mean, sd| unit(a, Spread { mean, sd }).map(|u| (u.factor, u.offset));
        assert_eq!(seen(148.0, 82.0), Some((10.0, 0.0)));
        assert_eq!(seen(15_100.0, 7_900.0), Some((1000.0, 0.0)));
        assert_eq!(seen(59.5, 14.2), Some((1.8, 32.0)));
        assert_eq!(seen(288.0, 8.1), Some((1.0, 273.15)));
        assert_eq!(seen(1.52, 0.79), Some((0.1, 0.0)));
        // Other weather is not another unit.
        assert_eq!(seen(25.0, 5.0), None);
        assert_eq!(seen(2.0, 6.0), None);
    }
}
