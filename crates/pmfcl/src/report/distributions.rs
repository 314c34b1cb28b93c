//! Distributions behind the tests and intervals of a report: normal, Student's t, Fisher's F.
//!
//! Degrees of freedom are real numbers (ridge and cluster corrections make them so). Upper tails
//! are computed as such, never as 1 − p, so that a p-value of 10⁻²⁰⁰ has as many digits as one of
//! 0.2. What is outside a function's domain gives NaN.
//!
//! | function | |
//! | --- | --- |
//! | [`fisher_survival`] | P(F > f) |
//! | [`student_survival`], [`student_quantile`] | P(T > t) and t with P(T ≤ t) = p |
//! | [`normal_cdf`], [`normal_quantile`] | Φ(z) and z with Φ(z) = p |
//! | [`incomplete_beta`], [`incomplete_beta_upper`] | Iₓ(a, b) and 1 − Iₓ(a, b) |
//! | [`ln_gamma`] | ln Γ(x) |

mod beta;
mod double;

use beta::Beta;
use double::Double;

/// ln |Γ(x)|.
pub fn ln_gamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// The regularised incomplete beta function
///
/// Iₓ(a, b) = 1/B(a, b) ∫₀ˣ uᵃ⁻¹ (1 − u)ᵇ⁻¹ du
///
/// for a, b > 0 and 0 ≤ x ≤ 1.
///
/// Cost: some microseconds, growing slowly with a and b.
pub fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    beta_at(x, a, b).map_or(f64::NAN, |beta| beta.lower)
}

/// 1 − Iₓ(a, b), without the subtraction.
///
/// Cost: that of [`incomplete_beta`].
pub fn incomplete_beta_upper(x: f64, a: f64, b: f64) -> f64 {
    beta_at(x, a, b).map_or(f64::NAN, |beta| beta.upper)
}

fn beta_at(x: f64, a: f64, b: f64) -> Option<Beta> {
    let valid = (0.0..=1.0).contains(&x) && is_freedom(a) && is_freedom(b);
    valid.then(|| Beta::new(a, b, x.into(), Double::from(1.0) - x.into()))
}

/// P(F > f) for Fisher's F with `d1` and `d2` degrees of freedom,
///
/// 1 − Iₓ(d1/2, d2/2),  x = d1·f/(d1·f + d2).
///
/// Cost: that of [`incomplete_beta`].
pub fn fisher_survival(f: f64, d1: f64, d2: f64) -> f64 {
    if f.is_nan() || !is_freedom(d1) || !is_freedom(d2) {
        f64::NAN
    } else if f <= 0.0 {
        1.0
    } else if f.is_infinite() {
        0.0
    } else {
        Beta::of_ratio(f.into(), d1, d2).upper
    }
}

/// P(T > t) for Student's t with `nu` degrees of freedom; infinitely many make it normal.
///
/// For t > 0: ½·Iₓ(ν/2, ½),  x = ν/(ν + t²).
///
/// Cost: that of [`incomplete_beta`].
pub fn student_survival(t: f64, nu: f64) -> f64 {
    if t.is_nan() || nu.is_nan() || nu <= 0.0 {
        f64::NAN
    } else if nu.is_infinite() {
        normal_cdf(-t)
    } else {
        let half = student(t.abs(), nu);
        if t > 0.0 { half.beyond } else { 0.5 + half.within }
    }
}

/// t with P(T ≤ t) = p for Student's t with `nu` degrees of freedom.
///
/// Newton's method on ln P against ln t, where the curve bends one way only, so that every step
/// after the first comes nearer from the same side.
///
/// Cost: some ten times that of [`incomplete_beta`].
pub fn student_quantile(p: f64, nu: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) || nu.is_nan() || nu <= 0.0 {
        return f64::NAN;
    }
    if nu.is_infinite() {
        return normal_quantile(p);
    }
    let (tail, sign) = if p < 0.5 { (p, -1.0) } else { (1.0 - p, 1.0) };
    if tail <= 0.0 {
        return sign * f64::INFINITY;
    }
    // Between ¼ and ¾ the probability from 0 to t has the digits, outside the tail has them.
    let middle = 0.5 - tail;
    if middle <= 0.0 {
        return 0.0;
    }
    let near = middle < 0.25;
    let mut t = if near {
        // P(0 < T < t) ≤ t·f(0): not beyond the solution.
        middle * student_peak(nu)
    } else {
        // Tails are heavier than the normal's: again not beyond it.
        -normal_quantile(tail)
    };
    let start = t;
    for _ in 0..100 {
        let at = student(t, nu);
        if at.beyond < f64::MIN_POSITIVE {
            // A first step far beyond the solution, to where the tail has no digits: come back.
            t = start * (t / start).sqrt();
            continue;
        }
        // d ln P/d ln t = ± t·f(t)/P.
        let step = if near {
            libm::log(middle / at.within) * at.within / at.density
        } else {
            // The quotient by a subnormal tail may overflow; any large step will do then.
            libm::log((at.beyond / tail).min(f64::MAX)) * at.beyond / at.density
        };
        if !step.is_finite() {
            break;
        }
        t *= libm::exp(step);
        if step.abs() <= 2.0 * f64::EPSILON || t.is_infinite() {
            break;
        }
    }
    sign * t
}

/// Φ(z), accurate in the lower tail; the upper tail is `normal_cdf(-z)`.
///
/// Φ(z) = ½·erfc(−z/√2)
pub fn normal_cdf(z: f64) -> f64 {
    let x = -z * std::f64::consts::FRAC_1_SQRT_2;
    let value = libm::erfc(x);
    if !(0.0..30.0).contains(&x) {
        return 0.5 * value;
    }
    // x is rounded, and erfc falls by 2x·δ of itself when x grows by δ: put the remainder back.
    let root = Double { hi: std::f64::consts::SQRT_2, lo: -9.667_293_313_452_913e-17 };
    let remainder = (Double::from(-z) - root * x.into()).hi * std::f64::consts::FRAC_1_SQRT_2;
    0.5 * (value - remainder * std::f64::consts::FRAC_2_SQRT_PI * libm::exp(-x * x))
}

/// z with Φ(z) = p.
///
/// Wichura's rational approximations (Applied Statistics algorithm 241), good to 16 digits.
pub fn normal_quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        return q * ratio(0.180_625 - q * q, &CENTRE.0, &CENTRE.1);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    if tail <= 0.0 {
        return f64::INFINITY.copysign(q);
    }
    let r = (-libm::log(tail)).sqrt();
    let z = if r <= 5.0 {
        ratio(r - 1.6, &MIDDLE.0, &MIDDLE.1)
    } else {
        ratio(r - 5.0, &FAR.0, &FAR.1)
    };
    z.copysign(q)
}

/// Half of Student's t, at t ≥ 0.
struct Half {
    /// P(0 < T ≤ t).
    within: f64,
    /// P(T > t).
    beyond: f64,
    /// t·f(t).
    density: f64,
}

fn student(t: f64, nu: f64) -> Half {
    // From here on the tail is a power of t to all digits, and t² would soon overflow.
    const FAR_OUT: f64 = 1e100;
    if t > FAR_OUT {
        let edge = student(FAR_OUT, nu);
        let beyond = edge.beyond * libm::pow(FAR_OUT / t, nu);
        return Half { within: 0.5 - beyond, beyond, density: nu * beyond };
    }
    // T² has the F distribution with 1 and ν degrees of freedom; d(t²)/t² = 2·dt/t makes up for the two halves.
    let beta = Beta::of_ratio(Double::product(t, t), 1.0, nu);
    Half { within: 0.5 * beta.lower, beyond: 0.5 * beta.upper, density: beta.density }
}

/// 1/f(0) = √(νπ)·Γ(ν/2)/Γ((ν + 1)/2), to the few digits that a starting point needs.
fn student_peak(nu: f64) -> f64 {
    let ratio = ln_gamma(nu / 2.0) - ln_gamma(f64::midpoint(nu, 1.0));
    (nu * std::f64::consts::PI).sqrt() * libm::exp(ratio)
}

fn is_freedom(d: f64) -> bool {
    d > 0.0 && d.is_finite()
}

/// (c₀ + c₁r + …)/(1 + d₁r + …).
fn ratio(r: f64, top: &[f64; 8], bottom: &[f64; 7]) -> f64 {
    let horner = |c: &[f64]| c.iter().rev().fold(0.0, |sum, c| sum * r + c);
    horner(top) / (1.0 + r * horner(bottom))
}

type Coefficients = ([f64; 8], [f64; 7]);

/// |p − ½| ≤ 0.425, in 0.425² − (p − ½)².
#[expect(clippy::excessive_precision, reason = "digit for digit as published")]
const CENTRE: Coefficients = (
    [
        3.387_132_872_796_366_608,
        133.141_667_891_784_377_45,
        1_971.590_950_306_551_442_7,
        13_731.693_765_509_461_125,
        45_921.953_931_549_871_457,
        67_265.770_927_008_700_853,
        33_430.575_583_588_128_105,
        2_509.080_928_730_122_672_7,
    ],
    [
        42.313_330_701_600_911_252,
        687.187_007_492_057_908_3,
        5_394.196_021_424_751_107_7,
        21_213.794_301_586_595_867,
        39_307.895_800_092_710_61,
        28_729.085_735_721_942_674,
        5_226.495_278_852_545_925,
    ],
);

/// Tails down to e⁻²⁵, in √(−ln p) − 1.6.
#[expect(clippy::excessive_precision, reason = "digit for digit as published")]
const MIDDLE: Coefficients = (
    [
        1.423_437_110_749_683_577_34,
        4.630_337_846_156_545_295_9,
        5.769_497_221_460_691_405_5,
        3.647_848_324_763_204_605_04,
        1.270_458_252_452_368_382_58,
        0.241_780_725_177_450_611_77,
        0.022_723_844_989_269_184_583_3,
        7.745_450_142_783_414_076_4e-4,
    ],
    [
        2.053_191_626_637_758_821_87,
        1.676_384_830_183_803_849_4,
        0.689_767_334_985_100_004_55,
        0.148_103_976_427_480_074_59,
        0.015_198_666_563_616_457_196_6,
        5.475_938_084_995_344_946e-4,
        1.050_750_071_644_416_843_24e-9,
    ],
);

/// Tails beyond, in √(−ln p) − 5.
#[expect(clippy::excessive_precision, reason = "digit for digit as published")]
const FAR: Coefficients = (
    [
        6.657_904_643_501_103_777_2,
        5.463_784_911_164_114_369_9,
        1.784_826_539_917_291_335_8,
        0.296_560_571_828_504_891_23,
        0.026_532_189_526_576_123_093,
        0.001_242_660_947_388_078_438_6,
        2.711_555_568_743_487_578_15e-5,
        2.010_334_399_292_288_132_65e-7,
    ],
    [
        0.599_832_206_555_887_937_69,
        0.136_929_880_922_735_805_31,
        0.014_875_361_290_850_614_852_5,
        7.868_691_311_456_132_591e-4,
        1.846_318_317_510_054_681_8e-5,
        1.421_511_758_316_445_887e-7,
        2.044_263_103_389_939_785_64e-15,
    ],
);
