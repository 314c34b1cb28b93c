//! The range of each input in the first rows.

use super::BasisError;

/// Smallest and largest value of each input, in rows that are finite and at least one.
pub(super) fn ranges(rows: &[f64], d: usize) -> Result<Vec<(f64, f64)>, BasisError> {
    let mut ranges: Vec<(f64, f64)> = rows[..d].iter().map(|&x| (x, x)).collect();
    for row in rows.chunks_exact(d) {
        for ((lo, hi), &x) in ranges.iter_mut().zip(row) {
            *lo = lo.min(x);
            *hi = hi.max(x);
        }
    }
    let too_far = ranges.iter().position(|(lo, hi)| !(hi - lo).is_finite());
    match too_far {
        Some(column) => {
            Err(BasisError::Range { column, lo: ranges[column].0, hi: ranges[column].1 })
        }
        None => Ok(ranges),
    }
}

/// hi − lo for each input; a constant one takes the median of the others, or 1 if there is none.
///
/// A column that first appears later, such as a pixel that is black in the first task, is then
/// measured like its neighbours.
pub(super) fn spreads(ranges: &[(f64, f64)]) -> Vec<f64> {
    let mut varying: Vec<f64> =
        ranges.iter().filter(|(lo, hi)| lo < hi).map(|(lo, hi)| hi - lo).collect();
    let typical = median(&mut varying).unwrap_or(1.0);
    ranges.iter().map(|(lo, hi)| if lo < hi { hi - lo } else { typical }).collect()
}

/// The middle value, or the mean of the two middle ones.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let half = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp);
    // Halves first: the sum of two large ranges could overflow.
    Some(lower.filter(|_| even).map_or(upper, |lower| lower / 2.0 + upper / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_input_takes_the_median_range_of_the_others() {
        let rows = [0.0, 7.0, 1.0, 5.0, 2.0, 7.0, 11.0, 9.0];
        let ranges = ranges(&rows, 4).unwrap();
        assert_eq!(ranges, [(0.0, 2.0), (7.0, 7.0), (1.0, 11.0), (5.0, 9.0)]);
        assert_eq!(spreads(&ranges), [2.0, 4.0, 10.0, 4.0]);
        assert_eq!(spreads(&[(3.0, 3.0), (4.0, 4.0)]), [1.0, 1.0]);
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [4.0]), Some(4.0));
        assert_eq!(median(&mut [9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&mut [9.0, 1.0, 5.0, 2.0]), Some(3.5));
    }

    #[test]
    fn a_range_too_wide_for_a_number_is_refused() {
        let refused = ranges(&[0.0, -1e308, 0.0, 1e308], 2);
        assert_eq!(refused, Err(BasisError::Range { column: 1, lo: -1e308, hi: 1e308 }));
    }
}
