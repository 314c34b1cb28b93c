//! Exponentials of many numbers at once, none of them positive: all that softmax needs.
//!
//! A pass over a task of logistic loss is half matrix product, half exponentials, and the system's `exp` takes them one at a time. This one
//! has no branch, so the compiler takes as many as the processor is wide; it uses no fused multiply-add, so the bits
//! are the same on every machine.

/// Below this the result is 0: the true one is no normal number.
const LEAST: f64 = -708.0;
/// Adding and subtracting it rounds to an integer, left in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 · 2⁵²
/// ln 2 in two parts; the first has enough zeros at its end to be multiplied exactly.
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// `1/k!` from `k = 13` down to 2. On `|r| ≤ ½ ln 2` the term left out is below 5e-18.
const SERIES: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
];

/// `values ← e^values`, for values of 0 or less; within two units of the last place.
pub(crate) fn exponentials(values: &mut [f64]) {
    pulp::Arch::new().dispatch(|| {
        for v in values.iter_mut() {
            *v = one(*v);
        }
    });
}

/// Numbers added up side by side.
const SUMS: usize = 16;

/// Squares all numbers; their sum. No fused multiply-add here either.
pub(crate) fn square(values: &mut [f64]) -> f64 {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut sums = [0.0; SUMS];
            let (whole, rest) = values.as_chunks_mut::<SUMS>();
            for values in whole {
                for i in 0..SUMS {
                    values[i] *= values[i];
                    sums[i] += values[i];
                }
            }
            for (value, sum) in rest.iter_mut().zip(&mut sums) {
                *value *= *value;
                *sum += *value;
            }
            sums.iter().sum()
        },
    )
}

/// `e^x = 2^k e^r` with `k` the integer nearest to `x / ln 2`.
#[inline(always)]
fn one(x: f64) -> f64 {
    let bounded = if x < LEAST { LEAST } else { x };
    let shifted = bounded * std::f64::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (bounded - k * LN2_HIGH) - k * LN2_LOW;
    let mut sum = SERIES[0];
    for c in &SERIES[1..] {
        sum = sum * r + c;
    }
    let power = f64::from_bits((shifted.to_bits().wrapping_add(1023)) << 52);
    let value = (sum * r * r + r + 1.0) * power;
    if x < LEAST { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_add_up() {
        for n in [0, 1, 15, 16, 33] {
            let mut values: Vec<f64> = (0..n).map(|i| f64::from(i) / 8.0).collect();
            // Multiples of 1/64 are exact in any order.
            let expected: f64 = values.iter().map(|v| v * v).sum();
            assert_eq!(square(&mut values).to_bits(), (expected + 0.0).to_bits());
            assert!((0..n).zip(&values).all(|(i, v)| (v * 64.0 - f64::from(i * i)).abs() < 1e-12));
        }
    }

    #[test]
    fn they_are_the_systems_within_two_units_of_the_last_place() {
        let mut values: Vec<f64> = (0..200_001).map(|i| -f64::from(i) * 0.0035).collect();
        values.extend((1..300).map(|i| -(0.9f64).powi(i)));
        let expected: Vec<f64> = values.iter().map(|v| v.exp()).collect();
        exponentials(&mut values);
        for (ours, theirs) in values.iter().zip(&expected) {
            assert!((ours - theirs).abs() <= 2.0 * f64::EPSILON * theirs, "{ours} {theirs}");
        }
        let mut ends = [0.0, -0.0, -707.9, -709.0, -1e300, f64::NEG_INFINITY];
        exponentials(&mut ends);
        assert!(ends[0].to_bits() == 1f64.to_bits() && ends[1].to_bits() == 1f64.to_bits());
        assert!(ends[2] > 0.0 && ends[3..].iter().all(|v| v.to_bits() == 0));
    }
}
