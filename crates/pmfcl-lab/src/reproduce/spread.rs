//! Numbers of several trials as one: mean, standard deviation, median.

/// What several trials gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation of a trial (`n − 1`); 0 for one.
    pub std: f64,
    /// Median.
    pub median: f64,
}

impl Spread {
    /// Of these values, of which there is at least one. Infinite values make mean and spread infinite.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 || at == 0 {
            sorted[at.min(sorted.len().saturating_sub(1))]
        } else {
            (sorted[at - 1] + sorted[at]) / 2.0
        };
        if !mean.is_finite() {
            return Self { mean: f64::INFINITY, std: f64::INFINITY, median };
        }
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let std = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        Self { mean, std, median }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_deviation_and_median_are_the_textbook_ones() {
        let s = Spread::of(&[2.0, 4.0, 9.0]);
        assert!((s.mean - 5.0).abs() < 1e-15);
        assert!((s.std - 13.0_f64.sqrt()).abs() < 1e-15);
        assert!((s.median - 4.0).abs() < 1e-15);
        assert!((Spread::of(&[1.0, 2.0]).median - 1.5).abs() < 1e-15);
        let one = Spread::of(&[3.0]);
        assert!(one.std.abs() < 1e-15 && (one.median - 3.0).abs() < 1e-15);
    }

    #[test]
    fn a_trial_that_ran_away_is_seen() {
        let s = Spread::of(&[1.0, f64::INFINITY, 2.0]);
        assert!(s.mean.is_infinite() && s.std.is_infinite());
        assert!((s.median - 2.0).abs() < 1e-15);
    }
}
