//! The learning rate of a rival: searched until the best lies inside the grid.

use std::collections::BTreeMap;

/// Rates the search begins with: places `-5..=0` of [`rate`], 0.003 to 1.
const FIRST: std::ops::RangeInclusive<i32> = -5..=0;
/// Most rates tried beyond those.
const MORE: usize = 12;

/// What a search came to.
pub(super) struct Search<T> {
    /// The best rate and what it gave; none where every rate diverged.
    pub(super) best: Option<(f64, T)>,
    /// Rates tried.
    pub(super) tried: usize,
    /// The least and the largest of them.
    pub(super) range: (f64, f64),
    /// Whether the rates on either side of the best were tried and are no better.
    pub(super) inside: bool,
}

/// The rates 1, 3, 10, 30, … and 0.3, 0.1, 0.03, … by their place; 1 is at 0.
fn rate(place: i32) -> f64 {
    let digit = if place.rem_euclid(2) == 0 { 1.0 } else { 3.0 };
    let power = place.div_euclid(2);
    // Dividing by a power of ten rounds once, multiplying by its inverse twice.
    if power < 0 { digit / 10_f64.powi(-power) } else { digit * 10_f64.powi(power) }
}

/// Runs with one rate after another; `run` gives the error and what else there is to keep, or nothing where it diverged. While an end
/// of the grid is better than all within, the grid grows there.
pub(super) fn search<T>(run: impl Fn(f64) -> Option<(f64, T)>) -> Search<T> {
    let (mut first, mut last) = (*FIRST.start(), *FIRST.end());
    let mut grid: BTreeMap<i32, Option<(f64, T)>> =
        FIRST.map(|place| (place, run(rate(place)))).collect();
    let most = grid.len() + MORE;
    loop {
        let error = |place: i32| match &grid[&place] {
            Some((error, _)) => *error,
            None => f64::INFINITY,
        };
        // Among equals one that is not at an end; where all diverge, a smaller rate may not.
        let by_error = |a: &i32, b: &i32| error(*a).total_cmp(&error(*b));
        let best = (first + 1..last).chain([first, last]).min_by(by_error).unwrap_or(first);
        let best = if error(best).is_finite() { best } else { first };
        let inside = first < best && best < last;
        if inside || grid.len() == most {
            let tried = grid.len();
            let kept = grid.remove(&best).flatten().map(|(_, kept)| (rate(best), kept));
            return Search { best: kept, tried, range: (rate(first), rate(last)), inside };
        }
        let next = if best == first { first - 1 } else { last + 1 };
        (first, last) = (first.min(next), last.max(next));
        grid.insert(next, run(rate(next)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate found when the error is least at `least` and grows by a factor away from it.
    fn found(least: f64) -> Search<()> {
        search(|rate| Some(((rate / least).ln().abs(), ())))
    }

    #[test]
    fn the_best_rate_is_inside_the_grid() {
        for least in [10.0, 3.0, 1.0, 0.3, 0.1, 0.003, 0.001, 1e-5] {
            let search = found(least);
            let (best, ()) = search.best.unwrap();
            assert!((best - least).abs() < 1e-12 * least, "{best} is not {least}");
            assert!(search.inside && search.range.0 < best && best < search.range.1);
        }
        // The rates to begin with hold this one.
        assert_eq!(found(0.1).tried, 6);
        assert_eq!(found(3.0).tried, 8);
    }

    #[test]
    fn a_search_without_end_ends_and_admits_it() {
        let search = search(|rate| Some((rate, ())));
        assert!(!search.inside);
        assert_eq!(search.tried, 6 + MORE);
        let (best, ()) = search.best.unwrap();
        assert!((best - search.range.0).abs() < 1e-20 && (best - 3e-9).abs() < 1e-20, "{best}");
    }

    #[test]
    fn rates_that_diverge_are_above_the_best() {
        let search = search(|rate| (rate < 2e-4).then_some(((rate / 1e-4).ln().abs(), rate)));
        let (best, kept) = search.best.unwrap();
        assert!((best - 1e-4).abs() < 1e-15 && (kept - best).abs() < 1e-15);
        assert!(search.inside);
        let none = super::search(|_| None::<(f64, ())>);
        assert!(none.best.is_none() && !none.inside);
    }
}
