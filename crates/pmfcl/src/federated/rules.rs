//! What a server asks of an upload before it believes it.

use std::collections::BTreeSet;

use super::refused::Refused;
use super::update::Update;
use crate::problem::{Agreement, Exactness, LeastLoss};

/// Numbers above this would overflow when squared and summed, for everybody.
const LARGEST_NUMBER: f64 = 1e100;
/// How far sums that rows fix may be off: what single precision leaves.
const SLACK: f64 = 1e-6;
/// The smallest share of the samples a class can have that has any.
const LEAST_SHARE: f64 = 1e-12;

/// What a server asks of an upload.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Most bytes of an upload, and of what it unpacks to. 256 MiB.
    pub most_bytes: usize,
    /// Fewest samples of a step. 1; more than the design has columns keeps single rows from showing.
    pub least_samples: f64,
    /// Most samples of a step. 10¹².
    pub most_samples: f64,
    /// Whether samples may carry weights, so that fewer than the rank can be right. No.
    pub weighted: bool,
    /// Who may send; anyone where there is no roster.
    pub roster: Option<BTreeSet<String>>,
    /// Most updates that are held in all. A million.
    pub most_updates: usize,
    /// Most bytes of all updates that are held. 64 GiB.
    pub most_total_bytes: u64,
    /// The largest size of a feature after the basis, where one was agreed: then no column's sum of squares is above `n B²`, so a client
    /// cannot make its rows count for more than they are by scaling them. Off by default.
    pub largest_feature: Option<f64>,
    /// The largest size of a target, where one was agreed. Off by default; not for classes.
    pub largest_target: Option<f64>,
    /// Most of all weight a client may have, off by default. One that has more samples counts as if it had as many as give it
    /// this share; with too few clients for it all count the same.
    pub most_share: Option<f64>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            most_bytes: 256 << 20,
            least_samples: 1.0,
            most_samples: 1e12,
            weighted: false,
            roster: None,
            most_updates: 1 << 20,
            most_total_bytes: 64 << 30,
            largest_feature: None,
            largest_target: None,
            most_share: None,
        }
    }
}

impl Rules {
    /// Everything that can be checked of an update by itself.
    pub(super) fn check(&self, agreement: &Agreement, update: &Update) -> Result<(), Refused> {
        let client = || update.client().to_owned();
        if self.roster.as_ref().is_some_and(|all| !all.contains(update.client())) {
            return Err(Refused::Stranger { client: client() });
        }
        let (theirs, ours) = (update.agreement(), agreement.digest());
        let Some(width) = agreement.width_under(theirs) else {
            return Err(Refused::WrongModel { client: client(), theirs, ours });
        };
        let implausible = |reason: &str| {
            let reason = reason.to_owned();
            Err(Refused::Implausible { client: client(), step: update.step(), reason })
        };
        let (task, head) = (update.task(), &update.task().head);
        let s = &task.quadratic;
        if (s.width(), s.targets()) != (width, agreement.columns()) {
            return implausible("they have another shape than the model");
        }
        self.check_samples(update)?;
        let cells = s.iter().flat_map(|(_, r, z)| r.iter().chain(z));
        let all = cells.chain(s.residual()).chain(s.target_sums());
        if all.into_iter().any(|v| v.abs() > LARGEST_NUMBER) {
            return implausible("one is above 1e100; rescale the features");
        }
        let n = s.n();
        let near = |a: f64, b: f64| (a - b).abs() <= SLACK * n.max(1.0);
        if !near(head.samples, n) {
            return implausible("the samples of the summary are not those of its head");
        }
        if agreement.problem().exactness() == Exactness::Exact {
            let bounded = head.exactness != Exactness::Exact;
            if bounded && agreement.problem().method().check_boundable().is_err() {
                return implausible("they are those of a bound");
            }
            if task.moments.is_some() {
                return implausible("they are those of a bounded loss");
            }
            if !task.tails.as_ref().is_none_or(|tails| tails.fit(s, SLACK)) {
                return implausible("the tails of its targets are not those of the summary");
            }
            if s.residual().iter().any(|c| *c < 0.0) {
                return implausible("a sum of squares is negative");
            }
            if head
                .least
                .value()
                .is_none_or(|least| (least - s.min_loss()).abs() > SLACK * least.abs().max(1e-300))
            {
                return implausible("the least loss is not that of the summary");
            }
            // The column of ones sums to the samples, whatever the rows are.
            let ones = s.iter().next().filter(|(pivot, ..)| *pivot == 0);
            let ones = ones.map(|(_, r, _)| r[0] * r[0]);
            if agreement.design().intercept() && !bounded && !ones.is_some_and(|sum| near(sum, n)) {
                return implausible("the intercept does not sum to the samples");
            }
        } else {
            if head.exactness != agreement.problem().exactness() {
                return implausible("they are those of another curvature");
            }
            let columns = s.width() - usize::from(agreement.design().intercept());
            let numbers = task.moments.as_ref().map(crate::problem::Moments::to_numbers);
            let sums = numbers.is_some_and(|moments| {
                moments.len() == 1 + 2 * columns
                    && near(moments[0], n)
                    && moments.iter().all(|v| v.abs() <= LARGEST_NUMBER)
            });
            if !sums {
                return implausible("the moments of the features are invalid");
            }
            let classes = agreement.problem().predicts_classes();
            if classes && !matches!(head.least, LeastLoss::Certified(least) if least >= 0.0) {
                return implausible("the least log-loss is negative");
            }
        }
        if let Some(reason) = self.out_of_range(agreement, update) {
            return implausible(&reason);
        }
        if agreement.problem().predicts_classes() {
            check_counts(agreement, update)
        } else {
            Ok(())
        }
    }

    /// What is larger than rows within the agreed ranges can make it.
    fn out_of_range(&self, agreement: &Agreement, update: &Update) -> Option<String> {
        let (s, m) = (&update.task().quadratic, update.task().quadratic.width());
        let (n, own) = (s.n() * (1.0 + SLACK), usize::from(agreement.design().intercept()));
        let classes = agreement.problem().predicts_classes();
        let exact = agreement.problem().exactness() == Exactness::Exact;
        if let Some(largest) = self.largest_feature {
            // A diagonal bound holds sums of |products| with every column. Of losses that are bounded, only those of classes have
            // curvatures of at most one; their moments are sums of squares of the features themselves.
            let others = own as f64 + (m - own) as f64 * largest;
            let most = largest * if update.is_diagonal() { others } else { largest };
            let mut squares = vec![0.0; m];
            for (pivot, r, _) in s.iter() {
                r.iter().zip(&mut squares[pivot..]).for_each(|(v, sum)| *sum += v * v);
            }
            let bounded = if exact || classes { &squares[own..] } else { &[] };
            let moments = update.task().moments.as_ref().map(crate::problem::Moments::to_numbers);
            let columns = m - own;
            let features = moments.filter(|numbers| numbers.len() == 1 + 2 * columns).map(|of| {
                let square = |j: usize| of[1 + columns + j] + of[0] * of[1 + j] * of[1 + j];
                (0..columns).map(square).collect::<Vec<f64>>()
            });
            let all = [(bounded, most), (&features.unwrap_or_default(), largest * largest)];
            for (sums, most) in all {
                if let Some(column) = sums.iter().position(|sum| *sum > n * most) {
                    return Some(format!(
                        "the squares of column {column} sum to {:e}, and rows within the agreed {largest} to at most {:e}",
                        sums[column],
                        n * most
                    ));
                }
            }
        }
        let largest = self.largest_target.filter(|_| exact && !classes)?;
        // Of a diagonal bound, what its columns explain is counted once for each of them.
        let most = n * largest * largest * if update.is_diagonal() { m as f64 } else { 1.0 };
        (0..s.targets()).find_map(|k| {
            let explained: f64 = s.iter().map(|(_, _, z)| z[k] * z[k]).sum();
            let (sum, total) = (explained + s.residual()[k], s.target_sums()[k].abs());
            (sum > most || total > n * largest).then(|| {
                format!("target {k} is larger than the agreed {largest}: its squares sum to {sum:e}, its values to {total:e}")
            })
        })
    }

    fn check_samples(&self, update: &Update) -> Result<(), Refused> {
        let samples = update.samples();
        let refuse = |must: String| {
            let client = update.client().to_owned();
            Err(Refused::Samples { client, step: update.step(), samples, must })
        };
        if samples < self.least_samples {
            return refuse(format!("at least {} are asked for", self.least_samples));
        }
        if samples > self.most_samples {
            return refuse(format!("at most {} are believed", self.most_samples));
        }
        let rank = update.task().quadratic.rank();
        let exact = !update.is_diagonal();
        if exact && !self.weighted && samples < rank as f64 {
            return refuse(format!("so few rows do not have rank {rank}"));
        }
        Ok(())
    }

    /// The factor on each client's weight that keeps it below the largest share: `c` with `c = s Σ min(N_i, c)`.
    pub(super) fn factors(&self, samples: &[f64]) -> Vec<f64> {
        let Some(share) = self.most_share else { return vec![1.0; samples.len()] };
        let mut sorted = samples.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let mut rest: f64 = sorted.iter().sum();
        // With the k largest held at c: c = s (k c + rest).
        for (k, largest) in sorted.iter().enumerate() {
            let left = 1.0 - share * k as f64;
            if left <= 0.0 {
                break;
            }
            let cap = share * rest / left;
            if *largest <= cap {
                let held = if k == 0 { f64::INFINITY } else { cap };
                return samples.iter().map(|n| (held / n).min(1.0)).collect();
            }
            rest -= largest;
        }
        let least = sorted.last().copied().unwrap_or(1.0);
        samples.iter().map(|n| least / n).collect()
    }
}

/// Samples of the classes: as many as the samples there are, and those of the indicators where there are indicators. An indicator is its
/// own square, and a class has rows or none: sums that are of no rows could make a model that nobody can solve.
fn check_counts(agreement: &Agreement, update: &Update) -> Result<(), Refused> {
    let (n, head) = (update.samples(), &update.task().head);
    let sum: f64 = head.counts.iter().sum();
    let near = |a: f64, b: f64| (a - b).abs() <= SLACK * n.max(1.0);
    let indicators = update.task().quadratic.target_sums();
    let exact = agreement.problem().exactness() == Exactness::Exact;
    let sums = &update.task().quadratic;
    let squares =
        |k: usize| sums.iter().map(|(_, _, z)| z[k] * z[k]).sum::<f64>() + sums.residual()[k];
    let is_indicator = |k: usize, count: f64| {
        let rows = indicators[k] <= 0.0 || indicators[k] > LEAST_SHARE * n;
        near(indicators[k], count)
            && (head.exactness != Exactness::Exact || rows && near(squares(k), count))
    };
    let sound = head.counts.len() == agreement.class_names().len()
        && head.counts.iter().all(|c| *c >= -SLACK * n)
        && near(sum, n)
        && (!exact || head.counts.iter().enumerate().all(|(k, count)| is_indicator(k, *count)));
    if sound {
        return Ok(());
    }
    Err(Refused::Implausible {
        client: update.client().to_owned(),
        step: update.step(),
        reason: "the classes do not sum to the samples".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_has_more_than_its_share() {
        let rules = |share| Rules { most_share: Some(share), ..Rules::default() };
        for (samples, share) in [
            (vec![1000.0, 10.0, 20.0, 30.0], 0.4),
            (vec![1000.0, 900.0, 20.0, 30.0], 0.3),
            (vec![5.0, 5.0, 5.0], 0.5),
        ] {
            let factors = rules(share).factors(&samples);
            let weights: Vec<f64> = samples.iter().zip(&factors).map(|(n, f)| n * f).collect();
            let sum: f64 = weights.iter().sum();
            let largest = weights.iter().fold(0.0, |a: f64, b| a.max(*b));
            assert!(largest <= share * sum * (1.0 + 1e-12), "{weights:?}");
            // Nobody is held who need not be.
            for (w, n) in weights.iter().zip(&samples) {
                assert!((w - n).abs() < 1e-9 || *w >= share * sum * (1.0 - 1e-12), "{weights:?}");
            }
        }
        let equal = rules(0.1).factors(&[4.0, 2.0]);
        assert!((equal[0] - 0.5).abs() < 1e-15 && (equal[1] - 1.0).abs() < 1e-15, "{equal:?}");
        assert_eq!(Rules::default().factors(&[3.0, 1.0]), [1.0, 1.0]);
    }
}
