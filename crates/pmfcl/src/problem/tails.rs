//! How heavy the tails of the targets are: what a sum of squares says about rows to come depends on it.
//!
//! The mean of `N` squared errors has a standard error of `√((κ − 1)/N)` times itself, `κ` being their kurtosis: 3 for normal errors,
//! 70 where a few rows have most of the variance. Third and fourth moments add as means and variances do (Pébay, 2008), so they belong
//! to the summary of a task. They are kept in deviations, so that neither units nor the mean of the targets cost digits.
//!
//! The least and the largest target unite. They cannot be taken apart again: where rows that had one of them were removed, they are
//! unknown.

use crate::summary::Summary;

/// The kurtosis of normal targets.
const NORMAL: f64 = 3.0;

/// By how much a margin grows with what heavy tails add to chance.
const CAUTION: f64 = 1.5;

/// Count, mean, deviation, skewness and kurtosis of each target, and its ends. Those of disjoint rows add.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for file
pub struct Tails {
    n: f64,
    targets: Vec<Tail>,
    /// Least and largest value of each target; empty where they are unknown.
    ends: Vec<[f64; 2]>,
}

/// Those of one target. A constant target has a kurtosis of 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Tail {
    mean: f64,
    deviation: f64,
    skewness: f64,
    kurtosis: f64,
}

impl Tails {
    /// Those of no rows.
    pub(crate) fn none(targets: usize) -> Self {
        Self { n: 0.0, targets: vec![Tail::default(); targets], ends: Vec::new() }
    }

    /// Those of a block of rows of `p` targets, where their weights are positive.
    pub(crate) fn of(y: &[f64], p: usize, weights: Option<&[f64]>) -> Self {
        let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
        let n: f64 = (0..y.len() / p).map(weight).sum();
        if n <= 0.0 {
            return Self::none(p);
        }
        let target = |k: usize| {
            let values = || y.iter().skip(k).step_by(p).enumerate();
            let first = y[k];
            let mean = first + values().map(|(i, v)| weight(i) / n * (v - first)).sum::<f64>();
            let unit = values().fold(0.0_f64, |most, (_, v)| most.max((v - mean).abs()));
            let mut moments = [0.0; 3];
            if unit > 0.0 {
                for (i, v) in values() {
                    let (share, z) = (weight(i) / n, (v - mean) / unit);
                    let powers = [z * z, z * z * z, z * z * z * z];
                    moments.iter_mut().zip(powers).for_each(|(m, power)| *m += share * power);
                }
            }
            Tail::new(mean, unit, moments)
        };
        let ends = |k: usize| {
            let counted = y.iter().skip(k).step_by(p).enumerate().filter(|(i, _)| weight(*i) > 0.0);
            counted.fold([f64::INFINITY, f64::NEG_INFINITY], |[lo, hi], (_, v)| {
                [lo.min(*v), hi.max(*v)]
            })
        };
        Self { n, targets: (0..p).map(target).collect(), ends: (0..p).map(ends).collect() }
    }

    /// Number of targets.
    pub(crate) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Whether count, means and squares are those of a summary, to this share, and the ends possible with them.
    pub(crate) fn fit(&self, summary: &Summary, slack: f64) -> bool {
        let n = summary.n();
        let near = |a: f64, b: f64, size: f64| (a - b).abs() <= slack * size;
        let one = |(k, tail): (usize, &Tail)| {
            let square = summary.squares(k) / n;
            near(tail.mean, summary.target_sums()[k] / n, square.sqrt())
                && near(tail.mean * tail.mean + tail.deviation * tail.deviation, square, square)
        };
        // Bhatia and Davis: what lies between two ends has a variance of at most (most − mean)(mean − least).
        let possible = |(tail, [least, most]): (&Tail, &[f64; 2])| {
            let (above, below) = (most - tail.mean, tail.mean - least);
            let size = tail.mean.abs().max(tail.deviation);
            let enough = tail.deviation.powi(2) <= above * below + slack * size * size;
            enough && above >= -slack * size && below >= -slack * size
        };
        self.targets.len() == summary.targets()
            && self.targets.iter().zip(&self.ends).all(possible)
            && near(self.n, n, n)
            && self.targets.iter().enumerate().all(one)
    }

    /// With every row counted `factor` times.
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        Self { n: factor * self.n, ..self.clone() }
    }

    /// With other rows of the same targets added (`sign` 1) or removed (`sign` −1).
    pub(crate) fn plus(&self, other: &Self, sign: f64) -> Self {
        let n = self.n + sign * other.n;
        if n <= 0.0 {
            return Self::none(self.targets.len());
        }
        if other.n <= 0.0 {
            return self.clone();
        }
        if self.n <= 0.0 {
            return other.clone();
        }
        let shares = [self.n / n, sign * other.n / n];
        let pairs = self.targets.iter().zip(&other.targets);
        let targets = pairs.map(|(a, b)| a.joined(b, shares)).collect();
        let united = |(a, b): (&[f64; 2], &[f64; 2])| [a[0].min(b[0]), a[1].max(b[1])];
        let inside = |(a, b): (&[f64; 2], &[f64; 2])| a[0] < b[0] && b[1] < a[1];
        let mut pairs = self.ends.iter().zip(&other.ends);
        let ends = if sign > 0.0 {
            pairs.map(united).collect()
        } else if pairs.len() == self.targets.len() && pairs.all(inside) {
            self.ends.clone()
        } else {
            Vec::new()
        };
        Self { n, targets, ends }
    }

    /// Both together, where both are known and no number leaves the range of double precision.
    pub(crate) fn united(a: Option<&Self>, b: Option<&Self>) -> Option<Self> {
        a.zip(b).map(|(a, b)| a.plus(b, 1.0)).filter(Self::is_finite)
    }

    /// The first without the second, which is a part of it, where both are known and no number leaves the range of double precision.
    pub(crate) fn apart(a: Option<&Self>, b: Option<&Self>) -> Option<Self> {
        a.zip(b).map(|(a, b)| a.plus(b, -1.0)).filter(Self::is_finite)
    }

    /// How many times as much as for normal targets chance counts: 1 for these, and 1.5 times what tails add to `√((κ − 1)/2)`; the mean
    /// over targets that vary.
    pub(crate) fn chance(&self) -> f64 {
        let varying = self.targets.iter().filter(|tail| tail.deviation > 0.0);
        let (count, sum) = varying.fold((0.0, 0.0), |(count, sum), tail| {
            let error = ((tail.kurtosis.max(NORMAL) - 1.0) / (NORMAL - 1.0)).sqrt();
            (count + 1.0, sum + 1.0 + CAUTION * (error - 1.0))
        });
        if count > 0.0 { sum / count } else { 1.0 }
    }

    /// Least and largest value of each target; empty where they are unknown.
    pub(crate) fn ends(&self) -> &[[f64; 2]] {
        &self.ends
    }

    /// Count, then mean, deviation, skewness, kurtosis, least and largest value of one target after the other. Where ends are unknown,
    /// the least is 1 and the largest 0.
    pub fn to_numbers(&self) -> Vec<f64> {
        let of = |(k, t): (usize, &Tail)| {
            let [least, most] = self.ends.get(k).copied().unwrap_or([1.0, 0.0]);
            [t.mean, t.deviation, t.skewness, t.kurtosis, least, most]
        };
        std::iter::once(self.n).chain(self.targets.iter().enumerate().flat_map(of)).collect()
    }

    /// What [`Tails::to_numbers`] gave; `None` where the numbers cannot be that.
    pub fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (&n, rest) = numbers.split_first()?;
        let (targets, []) = rest.as_chunks::<6>() else { return None };
        let tail = |&[mean, deviation, skewness, kurtosis, ..]: &[f64; 6]| Tail {
            mean,
            deviation,
            skewness,
            kurtosis,
        };
        let known = targets.iter().filter(|t| t[4] <= t[5]).count();
        let ends = targets[..known].iter().map(|t| [t[4], t[5]]).collect();
        let all = Self { n, targets: targets.iter().map(tail).collect(), ends };
        let sound = n > 0.0
            && (known == 0 || known == targets.len())
            && numbers.iter().all(|v| v.is_finite())
            && all.targets.iter().all(|t| t.deviation >= 0.0 && t.kurtosis >= 0.0);
        sound.then_some(all)
    }

    /// Bytes of the numbers.
    pub(crate) fn nbytes(&self) -> usize {
        8 * (1 + 6 * self.targets.len())
    }

    /// Whether all numbers are in the range of double precision.
    pub(crate) fn is_finite(&self) -> bool {
        self.to_numbers().iter().all(|v| v.is_finite())
    }
}

impl Tail {
    /// From the mean, and the second, third and fourth moments about it in this unit.
    fn new(mean: f64, unit: f64, [second, third, fourth]: [f64; 3]) -> Self {
        if second <= 0.0 {
            return Self { mean, ..Self::default() };
        }
        let root = second.sqrt();
        Self {
            mean,
            deviation: unit * root,
            skewness: third / (second * root),
            // No distribution has less; what was removed leaves rounding.
            kurtosis: (fourth / (second * second)).max(1.0),
        }
    }

    /// That of two sets of rows with these shares, one of which may be negative.
    fn joined(&self, other: &Self, [a, b]: [f64; 2]) -> Self {
        let mean = self.mean + b * (other.mean - self.mean);
        let unit = (other.mean - self.mean).abs().max(self.deviation).max(other.deviation);
        if unit <= 0.0 {
            return Self { mean, ..Self::default() };
        }
        let (gap, s, t) =
            ((other.mean - self.mean) / unit, self.deviation / unit, other.deviation / unit);
        let (s2, t2) = (s * s, t * t);
        let (s3, t3) = (self.skewness * s2 * s, other.skewness * t2 * t);
        let (s4, t4) = (self.kurtosis * s2 * s2, other.kurtosis * t2 * t2);
        let (ab, gap2) = (a * b, gap * gap);
        let moments = [
            a * s2 + b * t2 + ab * gap2,
            a * s3 + b * t3 + ab * (a - b) * gap2 * gap + 3.0 * ab * gap * (t2 - s2),
            a * s4
                + b * t4
                + ab * (a * a - ab + b * b) * gap2 * gap2
                + 6.0 * ab * gap2 * (a * t2 + b * s2)
                + 4.0 * ab * gap * (t3 - s3),
        ];
        Self::new(mean, unit, moments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::Design;
    use crate::rows::Rows;
    use crate::summary::{Accumulator, Summarizer};

    /// Two targets: a few large values among many small ones, far from 0; and a wave in a small unit.
    fn rows(count: usize) -> Vec<f64> {
        (0..count)
            .flat_map(|i| {
                let x = i as f64;
                let rare = if i % 97 == 5 { 40.0 + x % 7.0 } else { (x * 0.37).sin() };
                [1e6 + rare, 1e-9 * (x * 0.11).cos()]
            })
            .collect()
    }

    /// Written down as the textbook has it.
    fn moments(y: &[f64], k: usize) -> [f64; 4] {
        let values: Vec<f64> = y.iter().skip(k).step_by(2).copied().collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let central = |power: i32| values.iter().map(|v| (v - mean).powi(power)).sum::<f64>() / n;
        let deviation = central(2).sqrt();
        [mean, deviation, central(3) / deviation.powi(3), central(4) / deviation.powi(4)]
    }

    fn assert_close(found: &Tails, y: &[f64], tolerance: f64) {
        let numbers = found.to_numbers();
        for k in 0..2 {
            let own = &numbers[1 + 6 * k..][..6];
            for (a, b) in own.iter().zip(moments(y, k)) {
                assert!((a - b).abs() <= tolerance * b.abs().max(1e-300), "{a} for {b}");
            }
            let values = || y.iter().skip(k).step_by(2).copied();
            let ends = [values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max)];
            let same = |own: &[f64; 2]| own.map(f64::to_bits) == ends.map(f64::to_bits);
            assert!(found.ends().get(k).is_none_or(same), "{own:?} for {ends:?}");
        }
    }

    #[test]
    fn parts_add_up_and_are_removed_again() {
        let y = rows(1300);
        let of = |a: usize, b: usize| Tails::of(&y[2 * a..2 * b], 2, None);
        let (whole, parts) = (of(0, 1300), [of(0, 11), of(11, 600), of(600, 1300)]);
        // Deviations of targets at 1e6 have 1e-16 · 1e6/6 of rounding; the fourth moment has four of them.
        assert_close(&whole, &y, 1e-8);
        let added = parts.iter().fold(Tails::none(2), |sum, part| sum.plus(part, 1.0));
        assert_close(&added, &y, 1e-8);
        assert_eq!(added.ends().len(), 2);
        let removed = added.plus(&parts[1], -1.0);
        assert_close(&removed, &[&y[..22], &y[1200..]].concat(), 1e-7);
        assert!(removed.ends().is_empty(), "the largest may have been among them");
        let middle = (30..37).find(|i| whole.plus(&of(*i, i + 1), -1.0).ends() == whole.ends());
        assert!(middle.is_some(), "rows between the ends leave them");
        assert!(removed.plus(&parts[1], 1.0).ends().is_empty());
        assert!(added.plus(&whole, -1.0).n <= 0.0);
    }

    #[test]
    fn a_weight_of_three_is_three_copies() {
        let y = rows(200);
        let weights: Vec<f64> = (0..200).map(|i| f64::from(i % 3)).collect();
        let mut copies = Vec::new();
        for (i, row) in y.chunks_exact(2).enumerate() {
            (0..i % 3).for_each(|_| copies.extend_from_slice(row));
        }
        assert_close(&Tails::of(&y, 2, Some(&weights)), &copies, 1e-8);
        assert_close(&Tails::of(&y, 2, None).scaled(5.0), &y, 1e-8);
    }

    #[test]
    fn chance_is_that_of_normal_targets_or_more() {
        let y = rows(2000);
        let kurtosis = moments(&y, 0)[3];
        assert!(kurtosis > 50.0 && moments(&y, 1)[3] < 2.0);
        let expected = (1.5 * ((kurtosis - 1.0) / 2.0).sqrt() - 0.5 + 1.0) / 2.0;
        let found = Tails::of(&y, 2, None).chance();
        assert!((found - expected).abs() < 1e-6 * expected, "{found} for {expected}");
        let constant = Tails::of(&[7.0; 30], 1, None);
        assert!((constant.chance() - 1.0).abs() < 1e-15);
        assert!((Tails::none(3).chance() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn units_and_the_ends_of_the_range_do_not_matter() {
        let y = rows(300);
        let plain = Tails::of(&y, 2, None).chance();
        for unit in [1e-280, 1e-150, 1e150, 1e290] {
            let scaled: Vec<f64> = y.iter().map(|v| v * unit).collect();
            let (a, b) = scaled.split_at(200);
            let sum = Tails::of(a, 2, None).plus(&Tails::of(b, 2, None), 1.0);
            assert!(sum.is_finite());
            let found = sum.chance();
            assert!((found - plain).abs() < 1e-6 * plain, "{unit:e}: {found} for {plain}");
        }
    }

    #[test]
    fn they_fit_the_summary_of_the_same_rows_alone() {
        let y = rows(60);
        let x: Vec<f64> = (0..60).map(f64::from).collect();
        let design = Design::linear(1, true).unwrap();
        let mut summarizer = Summarizer::new(design, 2, Accumulator::Qr).unwrap();
        summarizer.add(Rows::new(&x, 1).unwrap(), Rows::new(&y, 2).unwrap(), None).unwrap();
        let summary = summarizer.finish().unwrap();
        let tails = Tails::of(&y, 2, None);
        assert!(tails.fit(&summary, 1e-6));
        let mut numbers = tails.to_numbers();
        for (at, share) in [(0, 1e-3), (1, 1e-3), (8, 0.1), (12, -0.99)] {
            numbers.clone_from(&tails.to_numbers());
            numbers[at] *= 1.0 + share;
            assert!(!Tails::from_numbers(&numbers).unwrap().fit(&summary, 1e-6), "{at}");
        }
        assert!(!Tails::of(&y, 1, None).fit(&summary, 1e-6));
    }

    #[test]
    fn numbers_come_back_and_wrong_ones_do_not() {
        let tails = Tails::of(&rows(50), 2, None);
        let numbers = tails.to_numbers();
        assert_eq!(Tails::from_numbers(&numbers).as_ref(), Some(&tails));
        let wrong = [(0, 0.0), (0, f64::NAN), (1, f64::INFINITY), (2, -1.0), (4, -1.0), (5, 1e9)];
        for (at, wrong) in wrong {
            let mut changed = numbers.clone();
            changed[at] = wrong;
            assert_eq!(Tails::from_numbers(&changed), None, "{at}: {wrong}");
        }
        assert_eq!(Tails::from_numbers(&numbers[..8]), None);
        let removed = tails.plus(&Tails::of(&rows(20), 2, None), -1.0);
        assert_eq!(Tails::from_numbers(&removed.to_numbers()), Some(removed));
        assert_eq!(Tails::from_numbers(&[]), None);
    }
}
