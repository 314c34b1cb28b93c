//! Sums over the register that every solution needs, kept so that a task costs the same however many came before it.
//!
//! They are always the sums over the register in its order, so a learner put together from its parts has the same bits
//! as one that never left memory.

use super::{Preference, TaskRecord};
use crate::error::Result;

/// A sum that carries the rounding errors of its additions along (Neumaier).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    value: f64,
    error: f64,
}

impl Sum {
    fn plus(self, term: f64) -> Self {
        let value = self.value + term;
        let lost = if self.value.abs() >= term.abs() {
            (self.value - value) + term
        } else {
            (term - value) + self.value
        };
        // Beyond the range of double precision there is nothing to carry.
        Self { value, error: if value.is_finite() { self.error + lost } else { 0.0 } }
    }

    fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, error: self.error * factor }
    }

    fn total(self) -> f64 {
        self.value + self.error
    }
}

/// `Σ n_t`, `Σ u_t` and `Σ u_t²/n_t`, with `u_t` the unnormalised weight of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Totals {
    samples: Sum,
    shares: Sum,
    spread: Sum,
}

impl Totals {
    /// The sums over a register.
    pub(super) fn of(register: &[TaskRecord], prefer: &Preference) -> Result<Self> {
        let mut totals = Self::default();
        if let Preference::Chosen(_) = prefer {
            for (task, share) in register.iter().zip(prefer.shares(register)?) {
                totals = totals.with(task.samples, share, 1.0);
            }
            return Ok(totals);
        }
        for task in register {
            if let Some((share, fade)) = prefer.arrival(task.samples, task.weight) {
                totals = totals.with(task.samples, share, fade);
            }
        }
        Ok(totals)
    }

    /// With one more task of weight `share`, the weights of all before it multiplied by `fade`.
    pub(super) fn with(self, samples: f64, share: f64, fade: f64) -> Self {
        Self {
            samples: self.samples.plus(samples),
            shares: self.shares.times(fade).plus(share),
            spread: self.spread.times(fade * fade).plus(share * share / samples),
        }
    }

    /// `Σ n_t`.
    pub(super) fn samples(self) -> f64 {
        self.samples.total()
    }

    /// `(Σ u_t)² / Σ u_t²/n_t`, which is `1 / Σ α_t²/n_t`; `None` where squares of the weights are beyond the range of
    /// double precision.
    pub(super) fn effective(self) -> Option<f64> {
        let (shares, spread) = (self.shares.total(), self.spread.total());
        let squares = 1e-280..1e280;
        (squares.contains(&spread) && squares.contains(&(shares * shares)))
            .then(|| shares * shares / spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million tenths: plain addition is off in the eleventh digit.
    #[test]
    fn sums_keep_their_digits() {
        let mut sum = Sum::default();
        for _ in 0..1_000_000 {
            sum = sum.plus(0.1);
        }
        assert!((sum.total() / 100_000.0 - 1.0).abs() < 1e-15, "{}", sum.total());
    }

    #[test]
    fn weights_too_large_or_small_to_be_squared_are_reported() {
        for weight in [1e200, 1e-200] {
            assert_eq!(Totals::default().with(30.0, weight, 1.0).effective(), None);
        }
    }
}
