//! Integer noise of a discrete Gaussian, from a cryptographic generator.
//!
//! The sampler is that of Canonne, Kamath and Steinke (2020): a discrete Laplace, accepted with the
//! probability that makes it a Gaussian. Every probability is a fraction or `e` to a fraction, and all of it is integer arithmetic, so the
//! distribution is the one of the proof and not one nearby.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::error::{Error, Result};

/// The largest parameter for which all products below fit 128 bits.
pub(super) const WIDEST: u64 = 1 << 29;

/// A source of noise: `ChaCha20`, seeded by the operating system.
#[derive(Debug)]
#[doc(hidden)] // for lab, python, secagg
pub struct Noise {
    bits: ChaCha20Rng,
}

impl Noise {
    /// With a seed from the operating system.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn from_system() -> Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| Error::Unsupported {
            operation: "private noise",
            reason: format!("the operating system gives no randomness ({error})"),
        })?;
        Ok(Self { bits: ChaCha20Rng::from_seed(seed) })
    }

    /// With a seed that others can know. For tests alone: such noise can be taken off again.
    #[cfg(feature = "seeded-noise")]
    pub fn seeded(seed: u64) -> Self {
        Self { bits: ChaCha20Rng::seed_from_u64(seed) }
    }

    /// An integer `k` with probability proportional to `e^{−k²/2σ²}`.
    ///
    /// # Panics
    /// When `sigma` is 0 or above 2²⁹.
    pub fn gaussian(&mut self, sigma: u64) -> i64 {
        assert!((1..=WIDEST).contains(&sigma), "the parameter is between 1 and 2^29");
        let t = sigma + 1;
        let (square, t_wide) = (u128::from(sigma).pow(2), u128::from(t));
        loop {
            let k = self.laplace(t);
            // Accepted with e^{−(|k| − σ²/t)² / 2σ²}. A square past 2¹²⁸ is 60σ
            // out: turning it down changes probabilities by less than e^{−1000}.
            let gap = (u128::from(k.unsigned_abs()) * t_wide).abs_diff(square);
            let Some(over) = gap.checked_mul(gap) else { continue };
            if self.falls(over, 2 * square * t_wide * t_wide) {
                return k;
            }
        }
    }

    /// An integer `k` with probability proportional to `e^{−|k|/t}`.
    fn laplace(&mut self, t: u64) -> i64 {
        loop {
            let rest = self.below(u128::from(t));
            if !self.falls(rest, u128::from(t)) {
                continue;
            }
            let mut wholes = 0_u64;
            while self.falls(1, 1) {
                wholes += 1;
            }
            let size = (rest as u64).saturating_add(t.saturating_mul(wholes));
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            let negative = self.below(2) == 1;
            if !(negative && size == 0) {
                return if negative { -size } else { size };
            }
        }
    }

    /// True with probability `e^{−over/under}`.
    fn falls(&mut self, over: u128, under: u128) -> bool {
        (0..over / under).all(|_| self.falls_short(1, 1)) && self.falls_short(over % under, under)
    }

    /// The same for a fraction of at most one: the first `k` at which a coin of `fraction/k` shows tails is odd.
    fn falls_short(&mut self, over: u128, under: u128) -> bool {
        let mut k = 1;
        // Past 2¹²⁸ so many heads have a chance below one in 2000!: tails.
        while let Some(range) = under.checked_mul(k) {
            if self.below(range) >= over {
                break;
            }
            k += 1;
        }
        k % 2 == 1
    }

    /// Uniform in `0..range`.
    fn below(&mut self, range: u128) -> u128 {
        let mask = u128::MAX.checked_shr((range - 1).leading_zeros()).unwrap_or(0);
        loop {
            let low = u128::from(self.bits.next_u64());
            let high = if mask >> 64 == 0 { 0 } else { u128::from(self.bits.next_u64()) << 64 };
            let value = (low | high) & mask;
            if value < range {
                return value;
            }
        }
    }
}

#[cfg(all(test, feature = "seeded-noise"))]
mod tests {
    use super::*;

    /// Counts against the probabilities themselves, χ² over the middle and both tails.
    #[test]
    fn integers_fall_as_the_discrete_gaussian_says() {
        for (sigma, seed) in [(1, 1), (3, 2), (20, 3)] {
            let mut noise = Noise::seeded(seed);
            let weight = |k: i64| (-((k * k) as f64) / (2 * sigma * sigma) as f64).exp();
            let total: f64 = (-40 * sigma..=40 * sigma).map(weight).sum();
            let (draws, reach) = (40_000, 2 * sigma);
            let mut counts = vec![0_u32; (2 * reach + 3) as usize];
            for _ in 0..draws {
                let k = noise.gaussian(sigma as u64).clamp(-reach - 1, reach + 1);
                counts[(k + reach + 1) as usize] += 1;
            }
            let tail: f64 = (reach + 1..=40 * sigma).map(weight).sum();
            let chi: f64 = (-reach - 1..=reach + 1)
                .map(|k| {
                    let share = if k.abs() > reach { tail } else { weight(k) } / total;
                    let expected = share * f64::from(draws);
                    (f64::from(counts[(k + reach + 1) as usize]) - expected).powi(2) / expected
                })
                .sum();
            let cells = (2 * reach + 2) as f64;
            assert!(chi < cells + 4.0 * (2.0 * cells).sqrt(), "sigma {sigma}: {chi} of {cells}");
        }
    }

    #[test]
    fn the_widest_has_its_variance_and_no_overflow() {
        let mut noise = Noise::seeded(4);
        let sum: f64 =
            (0..4000).map(|_| (noise.gaussian(WIDEST) as f64 / WIDEST as f64).powi(2)).sum();
        assert!((sum / 4000.0 - 1.0).abs() < 0.1, "{sum}");
    }

    #[test]
    fn the_system_gives_other_noise_every_time() {
        let mut a = Noise::from_system().expect("randomness");
        let mut b = Noise::from_system().expect("randomness");
        let list = |n: &mut Noise| (0..4).map(|_| n.gaussian(1 << 20)).collect::<Vec<_>>();
        assert_ne!(list(&mut a), list(&mut b));
    }
}
