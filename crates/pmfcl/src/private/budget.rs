//! What may be given away, and the same in the currency that adds up.

use crate::error::{Error, Result};

/// Halvings of a search: enough for all digits.
const ROUNDS: usize = 64;

/// An (ε, δ) of differential privacy: `P[M(D) ∈ S] ≤ e^ε P[M(D′) ∈ S] + δ` for all neighbours `D`, `D′` and all sets `S`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// ε: the logarithm of how much likelier an outcome may become by one row.
    pub epsilon: f64,
    /// δ: the chance of more than that. Far below one over the number of rows.
    pub delta: f64,
}

impl Budget {
    /// Checked.
    ///
    /// # Errors
    /// When ε is not above 0 and at most 100, or δ is not between 0 and 1/2.
    pub fn new(epsilon: f64, delta: f64) -> Result<Self> {
        let budget = Self { epsilon, delta };
        budget.check().map(|()| budget)
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(self.epsilon > 0.0 && self.epsilon <= 100.0) {
            let must = "above 0 and at most 100";
            return Err(Error::Range { what: "epsilon", value: self.epsilon, must });
        }
        if !(self.delta >= 1e-100 && self.delta < 0.5) {
            let must = "at least 1e-100 and below 1/2";
            return Err(Error::Range { what: "delta", value: self.delta, must });
        }
        Ok(())
    }

    /// The largest `ρ` for which `ρ`-zCDP implies this (ε, δ).
    ///
    /// For every `α > 1`, `ρ`-zCDP gives `δ = e^{(α−1)(αρ−ε)} (1 − 1/α)^α / (α − 1)` (Canonne, Kamath and Steinke 2020, Section 2.3). The
    /// logarithm has the derivative `(2α−1)ρ − ε + ln(1 − 1/α)`, which grows with `α`: its root is the best `α`. Wherever the search ends,
    /// the bound holds.
    ///
    /// # Errors
    /// As [`Budget::new`].
    pub fn rho(&self) -> Result<f64> {
        self.check()?;
        // ρ = ε gives more than any δ below 1/2.
        let (mut enough, mut too_much) = (0.0, self.epsilon);
        for _ in 0..ROUNDS {
            let rho = (enough + too_much) / 2.0;
            if delta_of(rho, self.epsilon) <= self.delta {
                enough = rho;
            } else {
                too_much = rho;
            }
        }
        Ok(enough)
    }
}

/// A δ with which `ρ`-zCDP implies (ε, δ).
pub(super) fn delta_of(rho: f64, epsilon: f64) -> f64 {
    if rho <= 0.0 {
        return 0.0;
    }
    let slope = |alpha: f64| (2.0 * alpha - 1.0) * rho - epsilon + libm::log1p(-1.0 / alpha);
    let (mut low, mut high) = (1.0 + 1e-9, 2.0 + (epsilon + 1.0) / rho);
    for _ in 0..ROUNDS {
        let alpha = (low + high) / 2.0;
        if slope(alpha) < 0.0 { low = alpha } else { high = alpha }
    }
    let alpha = high;
    let log = (alpha - 1.0) * (alpha * rho - epsilon) - libm::log(alpha - 1.0)
        + alpha * libm::log1p(-1.0 / alpha);
    libm::exp(log).min(1.0)
}

/// The smallest ε with which `ρ`-zCDP implies (ε, δ).
pub(super) fn epsilon_of(rho: f64, delta: f64) -> f64 {
    if rho <= 0.0 {
        return 0.0;
    }
    // The first conversion that was known: ε = ρ + 2√(ρ ln 1/δ).
    let (mut low, mut high) = (0.0, rho + 2.0 * (rho * libm::log(1.0 / delta)).sqrt());
    for _ in 0..ROUNDS {
        let epsilon = (low + high) / 2.0;
        if delta_of(rho, epsilon) <= delta { high = epsilon } else { low = epsilon }
    }
    high
}
