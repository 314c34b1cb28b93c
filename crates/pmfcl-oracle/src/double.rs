//! Double-double arithmetic: a number as the unevaluated sum of two, 106 bits in all.

use std::ops::{Add, Div, Mul, Sub};

/// `high + low`, `|low| ≤ ulp(high)/2`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Double {
    high: f64,
    low: f64,
}

impl From<f64> for Double {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

impl Double {
    /// Rounded to one double.
    pub fn value(self) -> f64 {
        self.high + self.low
    }

    /// Square root: one Newton step from the double one.
    #[must_use]
    pub fn sqrt(self) -> Self {
        if self.high <= 0.0 {
            return Self::from(0.0);
        }
        let root = Self::from(self.high.sqrt());
        root + (self - root * root) / Self::from(2.0 * root.high)
    }
}

/// `a + b` without rounding.
fn two_sum(a: f64, b: f64) -> Double {
    let high = a + b;
    let back = high - a;
    Double { high, low: (a - (high - back)) + (b - back) }
}

/// `a · b` without rounding.
fn two_product(a: f64, b: f64) -> Double {
    let high = a * b;
    Double { high, low: a.mul_add(b, -high) }
}

impl Add for Double {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        let (s, t) = (two_sum(self.high, o.high), two_sum(self.low, o.low));
        let first = two_sum(s.high, s.low + t.high);
        two_sum(first.high, first.low + t.low)
    }
}

impl Sub for Double {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        self + Self { high: -o.high, low: -o.low }
    }
}

impl Mul for Double {
    type Output = Self;
    fn mul(self, o: Self) -> Self {
        let p = two_product(self.high, o.high);
        two_sum(p.high, p.low + self.high * o.low + self.low * o.high)
    }
}

impl Div for Double {
    type Output = Self;
    fn div(self, o: Self) -> Self {
        let first = self.high / o.high;
        let rest = self - o * Self::from(first);
        let second = rest.high / o.high;
        let rest = rest - o * Self::from(second);
        two_sum(first, second) + Self::from(rest.high / o.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_has_thirty_digits() {
        let third = Double::from(1.0) / Double::from(3.0);
        let back = third * Double::from(3.0) - Double::from(1.0);
        assert!(back.value().abs() < 1e-31);
    }

    #[test]
    fn the_root_of_two_squares_back() {
        let two = Double::from(2.0);
        let root = two.sqrt();
        assert!((root * root - two).value().abs() < 1e-30);
    }
}
