//! Hard inputs of logistic loss: nothing hangs, nothing overflows, and threads change no bit.

use pmfcl::problem::logistic::{Curvature, Least, Minimum, Objective, OneTask};
use pmfcl::{Design, Error, Rows, Theta};

const ALL: [Curvature; 6] = [
    Curvature::Bohning,
    Curvature::Sharp,
    Curvature::Hessian,
    Curvature::Blend,
    Curvature::Diagonal,
    Curvature::Fisher { draws: 2, seed: 1 },
];

fn design(d: usize, intercept: bool) -> Design {
    Design::linear(d, intercept).unwrap()
}

fn task<'a>(
    design: &Design,
    x: &'a [f64],
    y: &'a [u32],
    classes: usize,
    threads: usize,
) -> OneTask<'a> {
    let x = Rows::new(x, design.inputs()).unwrap();
    OneTask::new(design, x, (y, classes), None, threads).unwrap()
}

fn least_loss(x: &[f64], d: usize, y: &[u32], classes: usize) -> Least {
    task(&design(d, true), x, y, classes, 1).least_loss(None).unwrap()
}

/// Fits with ridge `lambda` on everything but the intercept.
fn fitted(x: &[f64], d: usize, y: &[u32], classes: usize, lambda: f64, intercept: bool) -> Minimum {
    let design = design(d, intercept);
    let mut penalty = vec![lambda; design.width()];
    if intercept {
        penalty[0] = 0.0;
    }
    let objective = Objective { scale: 1.0, past: None, penalty: &penalty };
    let mut task = task(&design, x, y, classes, 2);
    let fit = task.minimize(&objective, None).unwrap();
    assert!(fit.theta.is_finite() && fit.loss.is_finite() && fit.iterations < 150, "{fit:?}");
    for curvature in ALL {
        let part = task.expand(&fit.theta, curvature).unwrap();
        assert!(part.loss(&fit.theta).unwrap().is_finite());
    }
    fit
}

/// Deterministic rows that look like noise.
fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..count).map(|_| (0..12).map(|_| next()).sum::<f64>() - 6.0).collect()
}

fn classes_of(x: &[f64], d: usize, classes: usize) -> Vec<u32> {
    let wobble = noise(x.len() / d * classes, 99);
    let theta = noise(d * classes, 7);
    x.chunks(d)
        .zip(wobble.chunks(classes))
        .map(|(row, wobble)| {
            let score = |k: usize| {
                row.iter().zip(&theta[k * d..]).map(|(a, b)| a * b).sum::<f64>() + 2.0 * wobble[k]
            };
            (0..classes).max_by(|a, b| score(*a).total_cmp(&score(*b))).unwrap() as u32
        })
        .collect()
}

#[test]
fn logistic_bits_do_not_depend_on_threads() {
    // Enough work that threads are really used: the whole system and conjugate gradients.
    for (n, d, classes) in [(9_000, 12, 4), (40_000, 12, 2), (3_000, 12, 40)] {
        let x = noise(n * d, 3);
        let y = classes_of(&x, d, classes);
        let design = design(d, true);
        let penalty = vec![0.1; d + 1];
        let run = |threads: usize| {
            let objective = Objective { scale: 1.0, past: None, penalty: &penalty };
            let mut task = task(&design, &x, &y, classes, threads);
            let fit = task.minimize(&objective, None).unwrap();
            assert!(fit.converged && fit.gradient <= 1e-10, "{}", fit.gradient);
            let mut bits: Vec<u64> = fit.theta.cells().iter().map(|v| v.to_bits()).collect();
            let (loss, gradient) = task.evaluate(&fit.theta).unwrap();
            bits.extend(gradient.cells().iter().chain([&loss]).map(|v| v.to_bits()));
            for curvature in [Curvature::Sharp, Curvature::Diagonal, ALL[5]] {
                let part = task.expand(&fit.theta, curvature).unwrap();
                bits.extend(part.to_bytes().iter().map(|b| u64::from(*b)));
            }
            let least = task.least_loss(Some(&fit.theta)).unwrap();
            assert!(least.value > 0.0 && least.value <= fit.loss, "{least:?} {}", fit.loss);
            bits.push(least.value.to_bits());
            bits
        };
        let one = run(1);
        assert!(one == run(2) && one == run(4), "{n} rows, {classes} classes");
    }
}

#[test]
fn logistic_a_single_class_is_reported_as_separable() {
    let x = noise(60, 1);
    for lambda in [1.0, 1e-6, 0.0] {
        for class in [0, 1] {
            let fit = fitted(&x, 3, &[class; 20], 2, lambda, true);
            assert!(fit.separable && fit.theta.norm() < 100.0, "{fit:?}");
        }
        let fit = fitted(&x, 3, &[2; 20], 4, lambda, true);
        assert!(fit.separable && fit.theta.norm() < 100.0, "{fit:?}");
    }
    let least = least_loss(&x, 3, &[1; 20], 2);
    assert!(least.separable && least.value.abs() < f64::MIN_POSITIVE);
}

#[test]
fn logistic_separable_classes_are_reported_and_stay_finite() {
    let x = noise(80, 2);
    let two: Vec<u32> = x.chunks(2).map(|r| u32::from(r[0] + r[1] > 0.1)).collect();
    let three: Vec<u32> =
        x.chunks(2).map(|r| u32::from(r[0] > 0.5) + u32::from(r[0] > -0.5)).collect();
    for (y, classes) in [(two, 2), (three, 3)] {
        for lambda in [1e-3, 1e-6, 1e-9, 0.0] {
            let fit = fitted(&x, 2, &y, classes, lambda, true);
            assert!(fit.separable, "{lambda}: {fit:?}");
        }
        let least = least_loss(&x, 2, &y, classes);
        assert!(least.separable && least.value.abs() < f64::MIN_POSITIVE, "{least:?}");
    }
}

#[test]
fn logistic_a_missing_class_leaves_the_others_their_loss() {
    let x = noise(400, 4);
    let y: Vec<u32> = noise(200, 5).iter().map(|v| 2 * u32::from(*v > 0.3)).collect();
    // Classes 1 and 3 never occur, so softmax can only come as low as two classes do.
    let four = least_loss(&x, 2, &y, 4);
    let two: Vec<u32> = y.iter().map(|y| y / 2).collect();
    let two = least_loss(&x, 2, &two, 2);
    assert!((four.value - two.value).abs() < 1e-12, "{four:?} {two:?}");
    let fit = fitted(&x, 2, &y, 4, 1e-9, true);
    assert!(fit.loss >= four.value && fit.loss - four.value < 1e-6, "{fit:?}");
}

#[test]
fn logistic_partly_separated_rows_do_not_spoil_the_certificate() {
    // Where x₁ = 1 all labels are 1; the other rows are mixed.
    let mut x = Vec::new();
    let mut y = Vec::new();
    for (i, v) in noise(120, 6).into_iter().enumerate() {
        x.extend([f64::from(u8::from(i % 3 == 0)), v]);
        y.push(u32::from(i % 3 == 0 || i % 2 == 0));
    }
    let least = least_loss(&x, 2, &y, 2);
    let fit = fitted(&x, 2, &y, 2, 1e-10, true);
    assert!(!least.separable && least.value > 0.0, "{least:?}");
    assert!(least.value <= fit.loss && fit.loss - least.value < 2e-5, "{least:?} {}", fit.loss);
}

#[test]
fn logistic_large_values_and_confident_rows_stay_finite() {
    let x: Vec<f64> = noise(300, 8).iter().map(|v| 1e3 * v).collect();
    for classes in [2, 5] {
        let y = classes_of(&x, 3, classes);
        for lambda in [1.0, 1e-6] {
            fitted(&x, 3, &y, classes, lambda, true);
        }
        // An anchor with |η| in the hundreds of thousands, right and wrong.
        let p = if classes == 2 { 1 } else { classes };
        let anchor =
            Theta::from_columns(4, p, noise(4 * p, 9).iter().map(|v| 100.0 * v).collect()).unwrap();
        for curvature in ALL {
            let mut task = task(&design(3, true), &x, &y, classes, 1);
            let part = task.expand(&anchor, curvature).unwrap();
            let value = task.evaluate(&anchor).unwrap().0;
            assert!(value.is_finite() && part.min_loss().is_finite(), "{curvature}");
        }
    }
    for eta in [-700.0, 700.0] {
        let anchor = Theta::from_slice(&[eta]);
        for curvature in ALL {
            let part =
                task(&design(1, false), &[1.0], &[1], 2, 1).expand(&anchor, curvature).unwrap();
            let there = part.loss(&anchor).unwrap();
            // The constant of a row that is sure and wrong is 1/2c ≤ 5e9 for the floor on c, so ε·5e9.
            assert!((there - (-eta).max(0.0)).abs() <= 2e-6, "{curvature}: {there}");
        }
    }
}

#[test]
fn logistic_dependent_columns_and_few_rows_are_fitted() {
    // Equal columns, a zero column, more classes than rows, one row.
    let base = noise(40, 10);
    let x: Vec<f64> = base.iter().flat_map(|v| [*v, *v, 0.0]).collect();
    let y: Vec<u32> = noise(40, 11).iter().map(|v| u32::from(*v > 0.0)).collect();
    let fit = fitted(&x, 3, &y, 2, 0.0, true);
    assert!(fit.converged && !fit.separable, "{fit:?}");
    let c = fit.theta.column(0);
    assert!((c[1] - c[2]).abs() < 1e-3 && c[3].abs() < 1e-12, "{c:?}");
    fitted(&noise(6, 12), 2, &[0, 7, 3], 9, 0.1, true);
    fitted(&[1.0, 2.0], 2, &[1], 2, 0.1, false);
}

#[test]
fn logistic_any_start_leads_to_the_same_minimum() {
    let x = noise(600, 13);
    for classes in [2, 3] {
        let y = classes_of(&x, 3, classes);
        let design = design(3, true);
        let penalty = [0.0, 0.5, 0.5, 0.5];
        let objective = Objective { scale: 1.0, past: None, penalty: &penalty };
        let mut task = task(&design, &x, &y, classes, 1);
        let p = if classes == 2 { 1 } else { classes };
        let base = task.minimize(&objective, None).unwrap();
        for size in [0.1, 3.0, 100.0, 1e6] {
            let start =
                Theta::from_columns(4, p, noise(4 * p, 14).iter().map(|v| size * v).collect())
                    .unwrap();
            let other = task.minimize(&objective, Some(&start)).unwrap();
            assert!(
                other.converged && other.theta.distance(&base.theta) < 1e-8,
                "{size}: {other:?}"
            );
        }
    }
}

#[test]
fn logistic_bad_input_is_refused_with_its_place() {
    let design = design(1, true);
    let y = [0u32, 1, 1];
    let go = |x: &[f64], y: &[u32], classes: usize, weights: Option<&[f64]>| {
        OneTask::new(&design, Rows::new(x, 1).unwrap(), (y, classes), weights, 1).unwrap_err()
    };
    assert!(matches!(go(&[0.0, f64::NAN, 1.0], &y, 2, None), Error::NotFinite { row: 1, .. }));
    assert!(matches!(go(&[0.0, 1.0, 2.0], &[0, 1, 2], 2, None), Error::Range { .. }));
    assert!(matches!(go(&[0.0, 1.0, 2.0], &[0, 0, 0], 1, None), Error::Range { .. }));
    assert!(matches!(go(&[0.0, 1.0], &y, 2, None), Error::Shape { .. }));
    assert!(matches!(go(&[], &[], 2, None), Error::Empty { .. }));
    let weights = [1.0, 0.0, 1.0];
    assert!(matches!(go(&[0.0, 1.0, 2.0], &y, 2, Some(&weights)), Error::Weight { .. }));
}
