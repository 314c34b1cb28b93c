//! The incomplete beta function, from which F and t have their tails.

use super::double::Double;

/// I and 1 − I at a point, each with full relative accuracy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beta {
    /// Iₓ(a, b).
    pub(super) lower: f64,
    /// 1 − Iₓ(a, b).
    pub(super) upper: f64,
    /// xᵃ yᵇ/B(a, b), which is x·y times the density at x.
    pub(super) density: f64,
}

impl Beta {
    /// Both tails at x, where y = 1 − x.
    ///
    /// Iₓ(a, b) = xᵃ yᵇ/B(a, b) · r, with r by the continued fraction of Didonato and Morris
    /// (TOMS 708), which converges fast on the side of the mean where the probability is the
    /// smaller one. The other tail is its complement, which then cancels nothing.
    ///
    /// Cost: three logarithms of double length and up to some hundred steps.
    pub(super) fn new(a: f64, b: f64, x: Double, y: Double) -> Self {
        if x.hi <= 0.0 {
            return Self { lower: 0.0, upper: 1.0, density: 0.0 };
        }
        if y.hi <= 0.0 {
            return Self { lower: 1.0, upper: 0.0, density: 0.0 };
        }
        let density = density(a, b, x, y);
        // λ = a − (a + b)x, positive below the mean; in double length, as it cancels near it.
        let lambda = (Double::from(a) * y - Double::from(b) * x).hi;
        if lambda >= 0.0 {
            let (lower, upper) = tails(density, a, b, x.hi, y.hi, lambda);
            Self { lower, upper, density }
        } else {
            let (upper, lower) = tails(density, b, a, y.hi, x.hi, -lambda);
            Self { lower, upper, density }
        }
    }

    /// Both tails of F(d1, d2) at f ≥ 0: x = d1·f/(d1·f + d2).
    pub(super) fn of_ratio(f: Double, d1: f64, d2: f64) -> Self {
        let one = Double::from(1.0);
        // The smaller of d1·f/d2 and its inverse, so that neither overflows.
        let odds = f * (Double::from(d1) / d2.into());
        let (x, y) = if odds.hi <= 1.0 {
            (odds / (one + odds), one / (one + odds))
        } else {
            let inverse = (Double::from(d2) / d1.into()) / f;
            (one / (one + inverse), inverse / (one + inverse))
        };
        Self::new(d1 / 2.0, d2 / 2.0, x, y)
    }
}

/// xᵃ yᵇ/B(a, b).
///
/// With n = a + b and Γ(z) = √(2π/z)·(z/e)ᶻ·e^σ(z),
///
/// √(ab/(2πn)) · exp(a·ln(xn/a) + b·ln(yn/b) + σ(n) − σ(a) − σ(b)),
///
/// where no large terms cancel: the logarithms are of numbers near 1 when x is near the mean
/// (Loader's saddle-point form).
fn density(a: f64, b: f64, x: Double, y: Double) -> f64 {
    let n = Double::from(a) + b.into();
    let term = |a: f64, x: Double| Double::from(a) * (x * n / a.into()).ln();
    let stirling = stirling(n) - stirling(a.into()) - stirling(b.into());
    let exponent = term(a, x) + term(b, y) + stirling;
    (a / n.hi * b / std::f64::consts::TAU).sqrt() * exponent.exp()
}

/// σ(z) = ln Γ(z) − (z − ½)·ln z + z − ½·ln 2π, the error of Stirling's formula.
fn stirling(z: Double) -> Double {
    const SERIES: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
        -3617.0 / 122_400.0,
    ];
    // From here on the series is exact to 10⁻¹⁹.
    const FROM: f64 = 16.0;
    let steps = (FROM - z.hi).ceil().max(0.0) as u32;
    let far = z + f64::from(steps).into();
    let inverse_square = 1.0 / far.hi / far.hi;
    let series = SERIES.iter().rev().fold(0.0, |sum, c| sum * inverse_square + c) / far.hi;
    if steps == 0 {
        return series.into();
    }
    // Γ(z + k) = z(z + 1)…(z + k − 1)·Γ(z).
    let rising = (0..steps).fold(Double::from(1.0), |all, i| all * (z + f64::from(i).into()));
    let main = |z: Double| (z - 0.5.into()) * z.ln() - z;
    Double::from(series) + main(far) - main(z) - rising.ln()
}

/// The tail at x below the mean, λ ≥ 0, and its complement.
fn tails(density: f64, a: f64, b: f64, x: f64, y: f64, lambda: f64) -> (f64, f64) {
    if b < 2.0 && lambda < 1.0 && y <= 0.5 {
        // Here the terms of the fraction change sign while it is slow, at a cost of up to 100 ε.
        // The complement's series has positive terms, and what is left of 1 is at least 0.09.
        let far = (density * series(b, a, y)).min(1.0);
        (1.0 - far, far)
    } else {
        let near = (density * fraction(a, b, x, y, lambda)).min(1.0);
        (near, 1.0 - near)
    }
}

/// r with Iₓ(a, b) = r · xᵃ yᵇ/B(a, b), for x(a + b) < a + 1:
///
/// r = 1/a · Σ x(a + b)/(a + 1) · x(a + b + 1)/(a + 2) ⋯
fn series(a: f64, b: f64, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 0..10_000 {
        let n = f64::from(n);
        term *= x * (a + b + n) / (a + 1.0 + n);
        sum += term;
        if term <= 1e-17 * sum {
            break;
        }
    }
    sum / a
}

/// r with Iₓ(a, b) = r · xᵃ yᵇ/B(a, b), for λ = a − (a + b)x ≥ 0.
fn fraction(a: f64, b: f64, x: f64, y: f64, lambda: f64) -> f64 {
    let c = 1.0 + lambda;
    let c0 = b / a;
    let c1 = 1.0 + 1.0 / a;
    let mut p = 1.0;
    let mut s = a + 1.0;
    let (mut numerator, mut denominator) = ((0.0, 1.0), (1.0, c / c1));
    let mut r = c1 / c;
    for step in 1..100_000 {
        let n = f64::from(step);
        let t = n / a;
        let w = n * (b - n) * x;
        let e = a / s;
        let alpha = p * (p + c0) * e * e * w * x;
        let e = (1.0 + t) / (c1 + t + t);
        let beta = n + w / s + e * (c + n * (1.0 + y));
        p = 1.0 + t;
        s += 2.0;
        numerator = (numerator.1, alpha * numerator.0 + beta * numerator.1);
        denominator = (denominator.1, alpha * denominator.0 + beta * denominator.1);
        let before = r;
        r = numerator.1 / denominator.1;
        // Until the last bit stands still: a looser rule would stop early where steps are small.
        if (r - before).abs() <= 1e-17 * r {
            break;
        }
        // Only ratios count; keep the numbers in range.
        let scale = 1.0 / denominator.1;
        numerator = (numerator.0 * scale, r);
        denominator = (denominator.0 * scale, 1.0);
    }
    r
}
