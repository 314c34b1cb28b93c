//! Tails and quantiles against 20 digits from mpmath (`golden/distributions.py` made the numbers).

use pmfcl::report::distributions::{
    fisher_survival, incomplete_beta, incomplete_beta_upper, ln_gamma, normal_cdf, normal_quantile,
    student_quantile, student_survival,
};
use proptest::prelude::*;

/// Compares a function with all its stored values, to a relative error of `limit` times ε.
fn compare(name: &str, limit: f64, function: impl Fn(&[f64]) -> f64) {
    let mut count = 0;
    for line in include_str!("../golden/distributions.txt").lines() {
        let mut words = line.split(' ');
        if words.next() != Some(name) {
            continue;
        }
        let mut numbers: Vec<f64> = words.map(|word| word.parse().unwrap()).collect();
        let expected = numbers.pop().unwrap();
        let found = function(&numbers);
        let error = ((found - expected) / expected).abs() / f64::EPSILON;
        assert!(error <= limit, "{line}: {found:e} is off by {error:.1} ε");
        count += 1;
    }
    assert!(count > 5, "no values for {name}");
}

/// 10⁻¹⁴: what the hundred steps of a continued fraction may lose near the mean.
const FOURTEEN_DIGITS: f64 = 45.0;

#[test]
fn fisher_tails_have_fourteen_digits_down_to_1e_300() {
    compare("fisher_survival", FOURTEEN_DIGITS, |x| fisher_survival(x[0], x[1], x[2]));
}

#[test]
fn student_tails_have_fourteen_digits_down_to_1e_300() {
    compare("student_survival", FOURTEEN_DIGITS, |x| student_survival(x[0], x[1]));
}

#[test]
fn incomplete_beta_has_fourteen_digits_and_its_symmetry() {
    compare("incomplete_beta", FOURTEEN_DIGITS, |x| incomplete_beta(x[0], x[1], x[2]));
    for (x, a, b) in [(0.25, 3.0, 8.5), (0.75, 3.0, 8.5), (0.5, 40.0, 0.5)] {
        let (lower, mirror) = (incomplete_beta(x, a, b), incomplete_beta_upper(1.0 - x, b, a));
        assert_eq!(lower.to_bits(), mirror.to_bits());
    }
}

#[test]
fn normal_tails_and_quantiles_have_fifteen_digits() {
    compare("normal_cdf", 4.0, |x| normal_cdf(x[0]));
    compare("normal_quantile", 4.0, |x| normal_quantile(x[0]));
}

#[test]
fn student_quantiles_have_fourteen_digits_down_to_p_of_1e_300() {
    compare("student_quantile", FOURTEEN_DIGITS, |x| student_quantile(x[0], x[1]));
}

#[test]
fn what_has_no_answer_is_nan_and_the_ends_are_themselves() {
    assert!(fisher_survival(1.0, 0.0, 3.0).is_nan());
    assert!(fisher_survival(f64::NAN, 2.0, 3.0).is_nan());
    assert!(student_survival(1.0, -1.0).is_nan());
    assert!(student_quantile(1.5, 3.0).is_nan());
    assert!(normal_quantile(-0.1).is_nan());
    assert!(incomplete_beta(1.1, 1.0, 1.0).is_nan());
    let same = |a: f64, b: f64| assert_eq!(a.to_bits(), b.to_bits());
    same(fisher_survival(0.0, 2.0, 3.0), 1.0);
    same(fisher_survival(-1.0, 2.0, 3.0), 1.0);
    same(fisher_survival(f64::INFINITY, 2.0, 3.0), 0.0);
    same(student_survival(0.0, 7.0), 0.5);
    same(student_survival(f64::INFINITY, 7.0), 0.0);
    same(student_survival(f64::NEG_INFINITY, 7.0), 1.0);
    same(student_quantile(0.5, 7.0), 0.0);
    same(student_quantile(1.0, 7.0), f64::INFINITY);
    same(student_quantile(0.0, 7.0), f64::NEG_INFINITY);
    same(normal_quantile(0.5), 0.0);
    same(normal_quantile(0.0), f64::NEG_INFINITY);
    same(normal_quantile(1.0), f64::INFINITY);
    same(incomplete_beta(0.0, 2.0, 3.0), 0.0);
    same(incomplete_beta(1.0, 2.0, 3.0), 1.0);
    same(ln_gamma(2.0), 0.0);
}

#[test]
fn infinitely_many_degrees_of_freedom_are_normal() {
    for t in [-3.0, 0.2, 8.0] {
        let normal = normal_cdf(-t);
        assert_eq!(student_survival(t, f64::INFINITY).to_bits(), normal.to_bits());
        // The first correction of the expansion in 1/ν is below t⁴/ν of the tail.
        let near = student_survival(t, 1e15);
        assert!((near - normal).abs() <= (t.powi(4) * 1e-15 + 1e-14) * normal, "{t}: {near:e}");
    }
}

#[test]
fn cauchy_has_a_closed_form() {
    // ν = 1: P(T > t) = arctan(1/t)/π, over the whole range of numbers.
    for t in [1e-9, 0.3, 1.0, 7.0, 1e50, 1e101, 1e250, 1e307] {
        let expected = libm::atan(1.0 / t) / std::f64::consts::PI;
        let found = student_survival(t, 1.0);
        assert!((found - expected).abs() <= 16.0 * f64::EPSILON * expected, "{t}: {found:e}");
    }
}

proptest! {
    #[test]
    fn a_quantile_undoes_its_survival(
        tail in (1e-300_f64.ln()..0.499_f64.ln()).prop_map(f64::exp),
        nu in (0.5_f64.ln()..1e9_f64.ln()).prop_map(f64::exp),
    ) {
        let t = -student_quantile(tail, nu);
        prop_assume!(t.is_finite());
        let back = student_survival(t, nu);
        // t is rounded: half an ε of t moves the tail by its slope, at most min(ν, t² + t + 1).
        let slope = nu.min(t * t + t + 1.0);
        prop_assert!((back / tail - 1.0).abs() <= (64.0 + 2.0 * slope) * f64::EPSILON, "{back:e}");
    }

    #[test]
    fn a_normal_quantile_undoes_its_tail(p in (1e-300_f64.ln()..0.5_f64.ln()).prop_map(f64::exp)) {
        let z = normal_quantile(p);
        let slope = z * z + z.abs() + 1.0;
        prop_assert!((normal_cdf(z) / p - 1.0).abs() <= (16.0 + 4.0 * slope) * f64::EPSILON);
    }

    #[test]
    fn the_two_tails_sum_to_one_and_are_monotone(
        f in 1e-6..1e3_f64, d1 in 0.1..500.0_f64, d2 in 0.1..1e6_f64, more in 1.0..2.0_f64,
    ) {
        let upper = fisher_survival(f, d1, d2);
        let lower = fisher_survival(1.0 / f, d2, d1);
        // 1/f is rounded; the density of ln F is at most √(d1·d2/(d1 + d2)).
        let tolerance = (32.0 + (d1 * d2 / (d1 + d2)).sqrt()) * f64::EPSILON;
        prop_assert!((upper + lower - 1.0).abs() <= tolerance, "{} + {}", upper, lower);
        prop_assert!(fisher_survival(f * more, d1, d2) <= upper * (1.0 + 64.0 * f64::EPSILON));
        prop_assert!((0.0..=1.0).contains(&upper));
    }

    #[test]
    fn no_numbers_make_the_functions_panic_or_leave_the_unit_interval(
        x in any::<f64>(), a in any::<f64>(), b in any::<f64>(),
    ) {
        for p in [fisher_survival(x, a, b), student_survival(x, a), incomplete_beta(x, a, b)] {
            prop_assert!(p.is_nan() || (0.0..=1.0).contains(&p), "{}", p);
        }
        let _ = (student_quantile(x, a), normal_quantile(x));
    }
}
