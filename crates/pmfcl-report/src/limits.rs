//! How much work and how many bytes a page may cost, and how long lists are thinned out.
//!
//! A page is made in seconds, whatever the model. What would take longer is left out, with a note on the page.

use crate::number;

/// Multiplications (roughly) one section may cost.
const WORK: f64 = 2e9;

/// Tasks and times a heat map over time shows.
pub(crate) const TIMES: usize = 40;
/// Tasks a matrix of conflicts shows.
pub(crate) const CONFLICTS: usize = 24;
/// Tasks with a curve of their own.
pub(crate) const CURVES: usize = 8;
/// Tasks with a bar next to the front.
pub(crate) const BARS: usize = 24;
/// Points along a front.
pub(crate) const POINTS: usize = 49;
/// Numbers all fronts together may carry: about 9 bytes each.
pub(crate) const FRONT_NUMBERS: usize = 110_000;
/// Design columns up to which standard errors are worked out.
pub(crate) const COLUMNS_WITH_ERRORS: usize = 1000;
/// Coefficients that stand open in a table, and those that can be unfolded.
pub(crate) const COEFFICIENTS: usize = 50;
/// Coefficients in all, over all targets.
pub(crate) const ALL_COEFFICIENTS: usize = 3000;
/// Rows of a table of tasks that stand open.
pub(crate) const TASKS_OPEN: usize = 100;
/// Rows of a table of tasks in all.
pub(crate) const TASKS: usize = 5000;

/// Something the page cannot show, and why, in a sentence for its reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unknown(pub(crate) String);

/// Something the page shows, or why it does not.
pub(crate) type Known<T> = Result<T, Unknown>;

impl Unknown {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// The note about single tasks in compact memory.
    pub(crate) fn folded() -> Self {
        Self::new(
            "Compact memory has merged the tasks into one summary, so single tasks cannot be \
             looked at any more. The ledger memory keeps them apart.",
        )
    }

    /// The short form for later sections of the page.
    pub(crate) fn folded_too() -> Self {
        Self::new("Not known either: it takes the summaries of single tasks.")
    }

    /// The note where it would take too long.
    pub(crate) fn expensive(what: &str, tasks: usize, columns: usize) -> Self {
        Self::new(format!(
            "Left out: {what} of {} with {} would take too long for a page.",
            number::count(tasks, "task", "tasks"),
            number::count(columns, "column", "columns"),
        ))
    }
}

/// Whether `times` decompositions of `m` columns are within the limit.
pub(crate) fn affords(times: usize, m: usize) -> bool {
    // Small decompositions cost their overhead, as if they had some twenty columns.
    times as f64 * (m.max(20) as f64).powi(3) <= WORK
}

/// How many fronts of two tasks with `m` columns and `p` targets are within the limit.
pub(crate) fn fronts(m: usize, p: usize) -> usize {
    // A front takes one decomposition and some 1500 solutions by substitution.
    let one = 30.0 * (m as f64).powi(3) + 1500.0 * (m as f64).powi(2) * (2 + p) as f64;
    let many = 4.0 * WORK / one;
    if many < 0.5 { 0 } else { (many as usize).max(1) }
}

/// At most `most` of `count` places, spread evenly, the first and the last among them.
pub(crate) fn spread(count: usize, most: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|i| (i * (count - 1) + (most - 1) / 2) / (most - 1)).collect()
}

/// The places of the `most` largest values, in the order of the list; those without a value come last.
pub(crate) fn largest(values: &[Option<f64>], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    let key = |i: usize| values[i].filter(|v| !v.is_nan()).unwrap_or(f64::NEG_INFINITY);
    order.sort_by(|&i, &j| key(j).total_cmp(&key(i)).then(i.cmp(&j)));
    order.truncate(most);
    order.sort_unstable();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_both_ends_and_repeats_nothing() {
        assert_eq!(spread(3, 40), [0, 1, 2]);
        for count in [41, 100, 9999] {
            let places = spread(count, 40);
            assert_eq!((places[0], places[39]), (0, count - 1));
            assert!(places.windows(2).all(|w| w[0] < w[1]), "{count}: {places:?}");
        }
    }

    #[test]
    fn the_largest_stay_in_order() {
        assert_eq!(largest(&[Some(1.0), None, Some(3.0), Some(2.0)], 2), [2, 3]);
        assert_eq!(largest(&[Some(1.0), None, Some(f64::NAN)], 2), [0, 1]);
    }

    #[test]
    fn wide_models_have_few_fronts_or_none() {
        assert!(fronts(60, 1) > 100);
        assert!((1..20).contains(&fronts(500, 1)));
        assert_eq!(fronts(2000, 1), 0);
        assert!(affords(8, 60) && !affords(2, 2000));
    }
}
