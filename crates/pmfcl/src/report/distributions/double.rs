//! Numbers of twice the length, as an unevaluated sum of two.
//!
//! A tail probability is the exponential of a large number: at 10⁻³⁰⁰ the exponent is −690, whose
//! last bit alone is worth 10⁻¹³ of the result. The exponent is therefore built with 30 digits and
//! rounded once. Sums and products by Dekker and Knuth; the logarithm by its series.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// hi + lo, where lo is below half the last bit of hi.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Double {
    pub(super) hi: f64,
    pub(super) lo: f64,
}

const LN_2: Double = Double { hi: std::f64::consts::LN_2, lo: 2.319_046_813_846_299_6e-17 };

impl Double {
    /// hi + lo for |hi| ≥ |lo|.
    fn quick(hi: f64, lo: f64) -> Self {
        let sum = hi + lo;
        Self { hi: sum, lo: lo - (sum - hi) }
    }

    /// a · b without error.
    pub(super) fn product(a: f64, b: f64) -> Self {
        let hi = a * b;
        Self { hi, lo: a.mul_add(b, -hi) }
    }

    /// ln, to about 30 digits of a number that is positive.
    ///
    /// With v = 2ᵉ·m and m in [√½, √2), ln v = e·ln 2 + 2·artanh((m − 1)/(m + 1)).
    pub(super) fn ln(self) -> Self {
        let (mut fraction, mut exponent) = libm::frexp(self.hi);
        if fraction < std::f64::consts::FRAC_1_SQRT_2 {
            (fraction, exponent) = (2.0 * fraction, exponent - 1);
        }
        let m = Self { hi: fraction, lo: libm::ldexp(self.lo, -exponent) };
        let s = (m - 1.0.into()) / (m + 1.0.into());
        let square = s * s;
        let mut sum = Self::from(0.0);
        // |s| ≤ 0.172: what follows the 22nd term is below 10⁻³³ of the sum.
        for i in (0..22).rev() {
            sum = Self::from(1.0) / f64::from(2 * i + 1).into() + square * sum;
        }
        LN_2 * f64::from(exponent).into() + s * sum * 2.0.into()
    }

    /// e to this power, rounded to one number.
    pub(super) fn exp(self) -> f64 {
        let power = libm::exp(self.hi);
        // Where the power is 0 or infinite, its product with lo must not make a NaN of it.
        if power > 0.0 && power.is_finite() { power + power * self.lo } else { power }
    }
}

impl From<f64> for Double {
    fn from(hi: f64) -> Self {
        Self { hi, lo: 0.0 }
    }
}

impl Add for Double {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let two_sum = |a: f64, b: f64| {
            let sum = a + b;
            let shadow = sum - a;
            (sum, (a - (sum - shadow)) + (b - shadow))
        };
        let (hi, error) = two_sum(self.hi, other.hi);
        let (lo, small) = two_sum(self.lo, other.lo);
        let sum = Self::quick(hi, error + lo);
        Self::quick(sum.hi, sum.lo + small)
    }
}

impl Neg for Double {
    type Output = Self;
    fn neg(self) -> Self {
        Self { hi: -self.hi, lo: -self.lo }
    }
}

impl Sub for Double {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Double {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let main = Self::product(self.hi, other.hi);
        Self::quick(main.hi, main.lo + (self.hi * other.lo + self.lo * other.hi))
    }
}

impl Div for Double {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        // Two digits of a long division in base 2⁵³, and a correction.
        let first = self.hi / other.hi;
        let rest = self - other * first.into();
        let second = rest.hi / other.hi;
        let rest = rest - other * second.into();
        Self::quick(first, second) + (rest.hi / other.hi).into()
    }
}

#[cfg(test)]
#[expect(clippy::unreadable_literal, reason = "digit for digit as the oracle gave them")]
mod tests {
    use super::*;

    fn close(found: Double, hi: f64, lo: f64) {
        let difference = (found - Double { hi, lo }).hi;
        assert!(difference.abs() <= 1e-30 * hi.abs(), "{found:?}: off by {difference:e}");
    }

    #[test]
    fn a_quotient_times_its_divisor_is_the_dividend() {
        for (a, b) in [(1.0, 3.0), (355.0, 113.0), (1e-200, 7e90), (-5.0, 1.0 + f64::EPSILON)] {
            let quotient = Double::from(a) / b.into();
            close(quotient * b.into(), a, 0.0);
        }
    }

    const LOGARITHMS: [(f64, f64, f64); 6] = [
        (3.0, 1.0986122886681098, -9.07129723500153e-17),
        (0.1, -2.3025850929940455, -1.7150243628057985e-16),
        (1e-300, -690.7755278982137, -2.3670096176709832e-14),
        (123456.789, 11.723646487185881, -4.1025541885795297e-16),
        (0.9999, -0.00010000500033334732, 4.110491732511812e-21),
        (1.0000001, 9.999999505838704e-08, 1.5249709528441489e-24),
    ];

    #[test]
    fn logarithms_have_thirty_digits() {
        // mpmath, 50 digits: log(x) as the nearest double and the double nearest to the rest.
        for (x, hi, lo) in LOGARITHMS {
            close(Double::from(x).ln(), hi, lo);
        }
    }

    #[test]
    fn a_logarithm_near_one_keeps_its_relative_accuracy() {
        // ln(1 + h) = h − h²/2 + …, the next term being h³/3.
        let h = 2.0_f64.powi(-60);
        let log = (Double::from(1.0) + h.into()).ln();
        close(log, h, -h * h / 2.0);
    }
}
