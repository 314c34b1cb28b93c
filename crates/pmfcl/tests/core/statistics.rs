//! P-values, standard errors and intervals against textbook formulas on the raw rows and against simulation.

use crate::support::{Table, apart, gauss, inner, learned, plain, settings};
use pmfcl::report::conflict::{chow, drift, matrix};
use pmfcl::report::distributions::student_quantile;
use pmfcl::report::inference::{Covariance, cluster_errors, predict_intervals};
use pmfcl::report::{MissingReason, continual};
use pmfcl::{Accumulator, Learner, MemoryKind, Preference, Ridge, Rows, Settings, TaskRows};
use pmfcl_oracle::Draw;

/// Normal features of one spread, `x·truth + noise`.
fn spread(n: usize, truth: &[f64], scale: f64, noise: f64, draw: &mut Draw) -> Table {
    let d = truth.len();
    let x: Vec<f64> = draw.normals(n * d).iter().map(|v| v * scale).collect();
    let y = x.chunks_exact(d).map(|r| inner(r, truth) + noise * draw.normal()).collect();
    Table { x, y, d, p: 1 }
}

/// `Σ w_t X_tᵀX_t` of the raw rows.
fn products(tables: &[Table], weights: &[f64]) -> Vec<Vec<f64>> {
    let d = tables[0].d;
    let mut sum = vec![vec![0.0; d]; d];
    for (table, w) in tables.iter().zip(weights) {
        for row in table.x.chunks_exact(d) {
            for i in 0..d {
                for j in 0..d {
                    sum[i][j] += w * row[i] * row[j];
                }
            }
        }
    }
    sum
}

fn unit(d: usize, j: usize) -> Vec<f64> {
    (0..d).map(|i| f64::from(u8::from(i == j))).collect()
}

#[test]
fn tasks_that_are_fitted_to_rounding_have_no_p_value() {
    let mut draw = Draw::new(31);
    for accumulator in [Accumulator::Qr, Accumulator::Gram] {
        for (n, d, offset) in [(50, 4, 0.0), (12, 8, 0.0), (3000, 20, 0.0), (200, 3, 1e6)] {
            for _ in 0..20 {
                let truth = draw.normals(d);
                let mut tables = [0; 2].map(|_| Table::linear(n, &truth, 0.0, &mut draw));
                tables.iter_mut().flat_map(|t| &mut t.y).for_each(|y| *y += offset);
                let parts = tables.map(|t| t.summarize(true, accumulator));
                let test = &chow(parts.iter(), accumulator).unwrap()[0];
                let seen = (test.f, test.p_value, test.noise_floor, test.missing);
                let shape = format!("{accumulator:?}, {n} rows, {d} columns, offset {offset}");
                assert_eq!(seen, (None, None, None, Some(MissingReason::Rounding)), "{shape}");
            }
        }
    }
    let words = MissingReason::Rounding.to_string();
    assert!(words.contains("rounding") && words.contains("no noise"), "{words}");
}

#[test]
fn noise_a_little_above_rounding_is_still_tested() {
    // 400 pairs without conflict: rejections at 5 % are binomial, 20 ± 4·4.36.
    let mut draw = Draw::new(32);
    let mut rejected = 0;
    for _ in 0..400 {
        let truth = draw.normals(3);
        let parts = [0; 2].map(|_| Table::linear(25, &truth, 1e-11, &mut draw).summary());
        let p = chow(parts.iter(), Accumulator::Qr).unwrap()[0].p_value.unwrap();
        rejected += usize::from(p < 0.05);
    }
    assert!((3..=37).contains(&rejected), "{rejected} of 400 below 5 %");
}

#[test]
fn every_missing_p_value_has_a_reason() {
    let mut draw = Draw::new(33);
    let truth = [1.0, -2.0];
    let exact = [0; 2].map(|_| Table::linear(20, &truth, 0.0, &mut draw));
    let learner = learned(plain(), &exact);
    let found = matrix(&learner).unwrap();
    assert_eq!(found.missing[0][1], Some(MissingReason::Rounding));
    assert_eq!((found.p_value[1][0], found.missing[0][0]), (None, None));
    let same = Table::linear(20, &truth, 0.0, &mut draw).summary();
    assert_eq!(drift(&learner, &same).unwrap()[0].missing, Some(MissingReason::Rounding));

    let few = [0; 2].map(|_| Table::noise(2, 2, 1, &mut draw).summary());
    assert_eq!(
        chow(few.iter(), Accumulator::Qr).unwrap()[0].missing,
        Some(MissingReason::NoFreedom)
    );
    // One sees the first column only, the other the second only.
    let apart = [[1.0, 0.0], [0.0, 1.0]].map(|s| Table::noise(9, 2, 1, &mut draw).scaled(&s));
    let parts = apart.map(|t| t.summary());
    let test = &chow(parts.iter(), Accumulator::Qr).unwrap()[0];
    assert_eq!((test.p_value, test.missing), (None, Some(MissingReason::NothingShared)));
}

#[test]
fn errors_under_any_preference_are_those_of_the_weighted_estimate() {
    // σ² A⁻¹ (Σ α²/n² XᵀX) A⁻¹ with σ² = Σ (α/n)·RSS / (1 − tr A⁻¹ Σ α²/n² XᵀX), all from the rows.
    let mut draw = Draw::new(34);
    let truth = [1.0, -2.0, 0.5];
    let tables = [(15, 1.0), (100, 0.3), (40, 2.0)]
        .map(|(n, scale)| spread(n, &truth, scale, 0.7, &mut draw));
    let chosen = [("0", 0.7), ("1", 0.0), ("2", 0.3)].map(|(n, a)| (n.to_owned(), a)).to_vec();
    for (prefer, alpha) in [
        (Preference::Equal, [1.0 / 3.0; 3]),
        (Preference::Decay(0.5), [1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0]),
        (Preference::Samples, [15.0 / 155.0, 100.0 / 155.0, 40.0 / 155.0]),
        (Preference::Chosen(chosen), [0.7, 0.0, 0.3]),
    ] {
        let name = format!("{prefer:?}");
        let mut learner = learned(settings(MemoryKind::Ledger, Preference::Samples), &tables);
        learner.prefer(prefer).unwrap();
        let w: Vec<f64> = alpha.iter().zip(&tables).map(|(a, t)| a / t.n() as f64).collect();
        let w2: Vec<f64> = w.iter().map(|w| w * w).collect();
        let (a, middle) = (products(&tables, &w), products(&tables, &w2));
        let theta = &learner.solution().unwrap().theta;
        let rss: f64 = tables.iter().zip(&w).map(|(t, w)| w * t.squares(theta).0).sum();
        let inverse: Vec<Vec<f64>> = (0..3).map(|j| gauss(a.clone(), unit(3, j))).collect();
        let trace: f64 = (0..3).map(|j| inner(&inverse[j], &middle[j])).sum();
        let sigma2 = rss / (1.0 - trace);
        let expected: Vec<f64> = inverse
            .iter()
            .map(|u| {
                let through: Vec<f64> = middle.iter().map(|row| inner(row, u)).collect();
                (sigma2 * inner(u, &through)).sqrt()
            })
            .collect();
        let covariance = Covariance::of(&learner).unwrap();
        let ours: Vec<f64> = covariance.standard_errors()[0].iter().map(|e| e.unwrap()).collect();
        assert!(apart(&ours, &expected) < 1e-10, "{name}: {ours:?} against {expected:?}");
        let sigma = covariance.sigma().unwrap()[0];
        assert!((sigma * sigma / sigma2 - 1.0).abs() < 1e-10, "{name}: {sigma}");
        assert!(!covariance.approximate(), "{name}");
    }
}

#[test]
fn intervals_under_a_preference_cover_as_often_as_they_say() {
    // The few wide rows of one task decide the slope, the many narrow ones of the other hardly: as if all were spread alike, 89 %
    // are covered. With a ridge the truth is drawn from the prior that it stands for.
    let rounds = 1000;
    for ridge in [0.0, 0.1] {
        let mut draw = Draw::new(35);
        let samples = 1.0 / (0.25 / 15.0 + 0.25 / 100.0);
        let size = if ridge > 0.0 { (1.0f64 / (samples * ridge)).sqrt() } else { 1.0 };
        let (mut parameters, mut predictions) = (0, 0);
        for _ in 0..rounds {
            let truth: Vec<f64> = draw.normals(3).iter().map(|t| t * size).collect();
            let tables =
                [(15, 1.0), (100, 0.3)].map(|(n, scale)| spread(n, &truth, scale, 1.0, &mut draw));
            let settings = settings(MemoryKind::Ledger, Preference::Equal);
            let learner = learned(Settings { ridge: Ridge::Fixed(ridge), ..settings }, &tables);
            let covariance = Covariance::of(&learner).unwrap();
            let t = student_quantile(0.975, covariance.freedom());
            let error = covariance.standard_errors()[0][1].unwrap();
            let found = learner.solution().unwrap().theta.column(0)[1];
            parameters += usize::from((found - truth[1]).abs() <= t * error);
            let x = draw.normals(3);
            let y = inner(&x, &truth) + draw.normal();
            let i = covariance.intervals(&learner, Rows::new(&x, 3).unwrap(), 0.95).unwrap()[0][0];
            predictions += usize::from((i.low.unwrap()..=i.high.unwrap()).contains(&y));
        }
        // Binomial: 950 ± 4·6.9.
        for (what, covered) in [("parameters", parameters), ("predictions", predictions)] {
            assert!((922..=978).contains(&covered), "ridge {ridge}, {what}: {covered}");
        }
    }
}

#[test]
fn compact_memory_says_where_its_errors_are_approximate() {
    let mut draw = Draw::new(36);
    let tables = [20, 60].map(|n| Table::linear(n, &[1.0, 2.0], 0.5, &mut draw));
    let of = |memory, prefer| Covariance::of(&learned(settings(memory, prefer), &tables)).unwrap();
    assert!(of(MemoryKind::Compact, Preference::Equal).approximate());
    assert!(!of(MemoryKind::Compact, Preference::Samples).approximate());
    assert!(!of(MemoryKind::Ledger, Preference::Equal).approximate());
}

#[test]
fn intervals_of_the_automatic_ridge_are_finite_and_cover() {
    let rounds = 250;
    for (n, d) in [(20, 40), (30, 25), (60, 60), (200, 10)] {
        let mut draw = Draw::new(37);
        let (mut covered, mut widest) = (0, 0.0_f64);
        for _ in 0..rounds {
            let truth: Vec<f64> =
                draw.normals(d).iter().map(|t| 2.0 * t / (d as f64).sqrt()).collect();
            let table = Table::linear(n, &truth, 1.0, &mut draw);
            let ridge = Settings { ridge: Ridge::Auto, intercept: true, ..plain() };
            let learner = learned(ridge, &[table]);
            let x = draw.normals(4 * d);
            let rows = Rows::new(&x, d).unwrap();
            for (row, i) in x.chunks_exact(d).zip(predict_intervals(&learner, rows, 0.95).unwrap())
            {
                let y = inner(row, &truth) + draw.normal();
                let (low, high) = (i[0].low.unwrap(), i[0].high.unwrap());
                widest = widest.max(high - low);
                covered += usize::from((low..=high).contains(&y));
            }
        }
        // Of 1000; rows of one model share its errors, so the deviation is up to twice the binomial 6.9.
        assert!((908..=990).contains(&covered), "{n} × {d}: {covered} of 1000");
        // The targets have a deviation of √5: an interval for anything at all is some 9 wide.
        assert!(widest < 100.0, "{n} × {d}: {widest}");
    }
}

#[test]
fn a_ridge_that_leaves_no_freedom_gives_words_instead_of_infinite_intervals() {
    let mut draw = Draw::new(38);
    let table = Table::noise(20, 40, 1, &mut draw);
    for ridge in [1e-14, 1e-9, 1e-5] {
        let learner = learned(
            Settings { ridge: Ridge::Fixed(ridge), ..plain() },
            std::slice::from_ref(&table),
        );
        let covariance = Covariance::of(&learner).unwrap();
        assert_eq!(covariance.missing(), Some(MissingReason::NoFreedom), "ridge {ridge}");
        assert_eq!(covariance.sigma(), None);
        assert!(covariance.standard_errors()[0].iter().all(Option::is_none));
        let error = predict_intervals(&learner, table.rows(), 0.95).unwrap_err().to_string();
        assert!(error.contains("as many parameters") && error.contains("ridge"), "{error}");
    }
}

#[test]
fn a_row_unlike_any_seen_has_no_interval() {
    let mut draw = Draw::new(39);
    let table = Table::noise(30, 2, 1, &mut draw).scaled(&[1.0, 0.0]);
    let learner = learned(plain(), &[table]);
    let rows = [1.0, 0.0, 1.0, 1.0];
    let found = predict_intervals(&learner, Rows::new(&rows, 2).unwrap(), 0.9).unwrap();
    assert!(found[0][0].low < found[0][0].high);
    assert_eq!((found[1][0].low, found[1][0].high), (None, None));
    assert!(found[1][0].value.is_finite());
}

/// Two tasks of 20 rows without conflict, weighted by `weight(deviation of the row's noise)`.
fn weighted(weight: impl Fn(f64) -> f64, draw: &mut Draw) -> Learner {
    let truth = draw.normals(2);
    let mut learner = crate::support::learner(plain());
    for t in 0..2 {
        let x = draw.normals(40);
        let deviation: Vec<f64> = (0..20).map(|_| 0.2 + 2.0 * draw.uniform()).collect();
        let y: Vec<f64> = x
            .chunks_exact(2)
            .zip(&deviation)
            .map(|(r, s)| inner(r, &truth) + s * draw.normal())
            .collect();
        let w: Vec<f64> = deviation.iter().map(|s| weight(*s)).collect();
        let (x, y) = (Rows::new(&x, 2).unwrap(), Rows::new(&y, 1).unwrap());
        learner.learn(&t.to_string(), TaskRows::new(x, y).weighted(&w[..]), 1.0).unwrap();
    }
    learner
}

#[test]
fn weights_that_are_no_copies_give_no_p_value_and_no_interval() {
    // Inverse variances: counted as copies, 32 % of 500 pairs without conflict had p < .05.
    let mut draw = Draw::new(40);
    let learner = weighted(|s| 1.0 / (s * s), &mut draw);
    let parts = learner.summaries().unwrap();
    let test = &chow(parts.iter().map(|s| &**s), Accumulator::Qr).unwrap()[0];
    assert_eq!((test.p_value, test.missing), (None, Some(MissingReason::Weights)));
    assert_eq!(test.noise_floor, None);
    assert_eq!(matrix(&learner).unwrap().missing[0][1], Some(MissingReason::Weights));
    let covariance = Covariance::of(&learner).unwrap();
    assert_eq!(covariance.missing(), Some(MissingReason::Weights));
    assert!(covariance.standard_errors()[0].iter().all(Option::is_none));
    let rows = Rows::new(&[1.0, 1.0], 2).unwrap();
    let error = predict_intervals(&learner, rows, 0.9).unwrap_err().to_string();
    assert!(error.contains("whole number") && error.contains("copies"), "{error}");
    // Errors with tasks as clusters hold for any weights.
    assert!(cluster_errors(&learner).unwrap()[0].iter().all(|e| e.is_finite()));
    let even = weighted(|_| 1.0, &mut draw);
    assert_eq!(drift(&even, &parts[0]).unwrap()[0].missing, Some(MissingReason::Weights));
    let same = even.summaries().unwrap()[0].clone().into_owned();
    assert_eq!(drift(&learner, &same).unwrap()[0].missing, Some(MissingReason::Weights));
}

#[test]
fn whole_weights_are_copies() {
    let mut draw = Draw::new(41);
    let learner = weighted(|s| if s > 1.0 { 3.0 } else { 1.0 }, &mut draw);
    let parts = learner.summaries().unwrap();
    let test = &chow(parts.iter().map(|s| &**s), Accumulator::Qr).unwrap()[0];
    assert!(test.p_value.is_some() && test.missing.is_none());
    // The same through compact memory, whose pool is scaled back to its samples.
    let tables = [7, 13, 17].map(|n| Table::linear(n, &[1.0], 1.0, &mut draw));
    let compact = learned(settings(MemoryKind::Compact, Preference::Samples), &tables);
    let next = Table::linear(9, &[1.0], 1.0, &mut draw).summary();
    assert!(drift(&compact, &next).unwrap()[0].p_value.is_some());
}

#[test]
fn degrees_of_freedom_do_not_depend_on_the_units_of_columns() {
    let mut draw = Draw::new(42);
    let table = Table::linear(50, &[1.0, 2.0, 3.0], 0.5, &mut draw);
    let freedom = |settings: Settings, scales: [f64; 3]| {
        Covariance::of(&learned(settings, &[table.clone().scaled(&scales)])).unwrap().freedom()
    };
    let x = |j: usize| -> Vec<f64> { table.x.iter().skip(j).step_by(3).copied().collect() };
    let ridge = Settings { ridge: Ridge::Fixed(0.1), ..plain() };
    let standardized = Settings { standardize: true, ..ridge.clone() };
    let in_own_units = freedom(standardized.clone(), [1.0; 3]);
    for power in [0, 20, 40, 60, 100, 140] {
        // Places of the large, the middle and the small column.
        for [large, middle, small] in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
            let mut scales = [1.0; 3];
            (scales[large], scales[small]) = (10f64.powi(power), 10f64.powi(-power));
            let close = |found: f64, expected: f64, what: &str| {
                let off = (found - expected).abs();
                assert!(off < 1e-9, "{what}, {scales:?}: {found} against {expected}");
            };
            close(freedom(plain(), scales), 47.0, "no ridge");
            close(freedom(standardized.clone(), scales), in_own_units, "standardized");
            if power > 0 {
                // The penalty leaves the large column free and takes the small one out; of the middle one counts what is
                // orthogonal to the large one.
                let (large, middle) = (x(large), x(middle));
                let along = inner(&large, &middle).powi(2) / inner(&large, &large);
                let left = inner(&middle, &middle) - along;
                close(freedom(ridge.clone(), scales), 49.0 - left / (left + 5.0), "ridge");
            }
        }
    }
}

#[test]
fn r_squared_of_a_constant_target_is_one_or_zero() {
    let mut draw = Draw::new(43);
    let x = draw.normals(300);
    for value in [0.1, 1e8 + 0.1, -3.3e-7] {
        for accumulator in [Accumulator::Qr, Accumulator::Gram] {
            let table = Table { x: x.clone(), y: vec![value; 100], d: 3, p: 1 };
            let settings = |intercept| Settings { intercept, accumulator, ..plain() };
            let r2 = |intercept| {
                let learner = learned(settings(intercept), std::slice::from_ref(&table));
                let scores = continual::training_scores(&learner).unwrap();
                let own = learner.tasks().unwrap()[0].r2.as_ref().unwrap()[0];
                assert!((scores.r2.average() - own).abs() < 1e-15);
                own
            };
            let (hit, missed) = (r2(true), r2(false));
            assert!((hit - 1.0).abs() < 1e-15, "{value} by {accumulator:?}: {hit}");
            assert!(missed.abs() < 1e-15, "{value} by {accumulator:?}: {missed}");
        }
    }
}

#[test]
fn a_coefficient_of_an_exact_fit_is_not_sure_because_of_rounding() {
    // The third column has no effect: what is found of it is rounding, and so is its error.
    let mut draw = Draw::new(44);
    for _ in 0..100 {
        let table = Table::linear(40, &[1.0, -2.0, 0.0], 0.0, &mut draw);
        let learner = learned(plain(), &[table]);
        let errors = Covariance::of(&learner).unwrap().standard_errors();
        let theta = learner.solution().unwrap().theta.column(0);
        assert!(theta[2].abs() < 2.0 * errors[0][2].unwrap(), "{theta:?}, {errors:?}");
        assert!(theta[1].abs() > 1e6 * errors[0][1].unwrap());
    }
}
