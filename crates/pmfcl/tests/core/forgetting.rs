//! Forgetting, conflict, errors and intervals against their definitions on raw rows, and by simulation.

use crate::support::{Table, apart, inner, learned, plain, settings};
use pmfcl::report::{conflict, continual, inference};
use pmfcl::{Accumulator, Learner, MemoryKind, Preference, Ridge, Settings, TaskRows, Theta};
use pmfcl_oracle::{Draw, least_squares};
use proptest::prelude::*;

/// `‖Xθ* − y‖²` at the rows' own best `θ*`, by double-double least squares.
fn own_squares(t: &Table) -> f64 {
    let best = least_squares(&t.x, t.d, &t.y, None, &[]);
    t.squares(&Theta::from_slice(&best)).0
}

fn tasks(count: usize, d: usize, conflict: f64, noise: f64, draw: &mut Draw) -> Vec<Table> {
    let common = draw.normals(d);
    (0..count)
        .map(|_| {
            let truth: Vec<f64> = common.iter().map(|c| c + conflict * draw.normal()).collect();
            let n = 3 * d + 3 + draw.below(30);
            Table::linear(n, &truth, noise, draw)
        })
        .collect()
}

fn preferences() -> impl Strategy<Value = Preference> {
    prop_oneof![Just(Preference::Samples), Just(Preference::Equal), Just(Preference::Decay(0.6))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Definition 3.7 on the rows: `L_t(θ) − min L_t`.
    #[test]
    fn def_3_7_the_ledger_reports_forgetting_as_the_rows_define_it(
        seed in any::<u64>(), count in 1usize..5, d in 1usize..6, prefer in preferences(),
        ridge in prop_oneof![Just(0.0), Just(0.1)],
    ) {
        let mut draw = Draw::new(seed);
        let tables = tasks(count, d, 1.0, 0.5, &mut draw);
        let learner = learned(
            Settings { ridge: Ridge::Fixed(ridge), ..settings(MemoryKind::Ledger, prefer) }, &tables,
        );
        let theta = &learner.solution().unwrap().theta;
        let mut mean = 0.0;
        for (t, report) in tables.iter().zip(learner.tasks().unwrap()) {
            let n = t.n() as f64;
            let (squares, least) = (t.squares(theta).0, own_squares(t));
            // Rounding of two sums of squares of this size.
            let allowed = 1e-12 * squares / n;
            prop_assert!((report.loss.unwrap() - squares / (2.0 * n)).abs() <= allowed);
            prop_assert!((report.min_loss.unwrap() - least / (2.0 * n)).abs() <= allowed);
            let forgetting = (squares - least) / (2.0 * n);
            prop_assert!((report.forgetting.unwrap() - forgetting).abs() <= allowed);
            prop_assert!((report.mse.unwrap()[0] - squares / n).abs() <= allowed);
            let mean_y = t.y.iter().sum::<f64>() / n;
            let total: f64 = t.y.iter().map(|y| (y - mean_y).powi(2)).sum();
            prop_assert!((report.r2.unwrap()[0] - (1.0 - squares / total)).abs() <= 1e-11);
            mean += report.weight * forgetting;
        }
        prop_assert!((learner.mean_forgetting().unwrap() - mean).abs() <= 1e-11 * (1.0 + mean));
    }

    #[test]
    fn history_is_what_fresh_learners_stopped_on_the_way_would_report(
        seed in any::<u64>(), count in 1usize..6, d in 1usize..5, prefer in preferences(),
        auto in any::<bool>(),
    ) {
        let mut draw = Draw::new(seed);
        let tables = tasks(count, d, 1.0, 0.5, &mut draw);
        let mut settings = settings(MemoryKind::Ledger, prefer);
        if auto {
            settings = Settings { ridge: Ridge::Auto, intercept: true, ..settings };
        }
        let history = continual::history(&learned(settings.clone(), &tables)).unwrap();
        for k in 0..count {
            let stopped = learned(settings.clone(), &tables[..=k]);
            let reports = stopped.tasks().unwrap();
            for t in 0..count {
                match history.forgetting[k][t] {
                    Some(f) => {
                        let fresh = reports[t].forgetting.unwrap();
                        prop_assert!((f - fresh).abs() <= 1e-9 * (fresh + 1.0), "{f} and {fresh}");
                    }
                    None => prop_assert!(t > k),
                }
            }
            let mean = stopped.mean_forgetting().unwrap();
            prop_assert!((history.mean[k] - mean).abs() <= 1e-9 * (mean + 1.0));
            let plain: f64 =
                reports.iter().map(|r| r.forgetting.unwrap()).sum::<f64>() / (k + 1) as f64;
            prop_assert!((history.average[k] - plain).abs() <= 1e-9 * (plain + 1.0));
        }
    }

    /// One running scalar is enough: `Σα_tF_t = L_pooled(θ) − Σα_t min L_t`.
    #[test]
    fn compact_memory_knows_the_weighted_mean_forgetting(
        seed in any::<u64>(), count in 1usize..8, d in 1usize..6, prefer in preferences(),
        few in any::<bool>(),
    ) {
        let mut draw = Draw::new(seed);
        let tables: Vec<Table> = tasks(count, d, 1.0, 0.5, &mut draw)
            .into_iter()
            .map(|t| if few { t.part(0, 1 + d / 2) } else { t })
            .collect();
        let ledger = learned(settings(MemoryKind::Ledger, prefer.clone()), &tables);
        let compact = learned(settings(MemoryKind::Compact, prefer), &tables);
        let truth: f64 =
            ledger.tasks().unwrap().iter().map(|t| t.weight * t.forgetting.unwrap()).sum();
        for learner in [&ledger, &compact] {
            let mean = learner.mean_forgetting().unwrap();
            let size = learner.pool().unwrap().quadratic.loss(&Theta::zeros(d, 1)).unwrap();
            prop_assert!((mean - truth).abs() <= 1e-12 * size, "{mean} against {truth}");
        }
    }

    /// The joint model's forgetting is the numerator of Chow's test.
    #[test]
    fn weighted_forgetting_is_half_the_extra_residual_of_pooling(
        seed in any::<u64>(), count in 2usize..5, d in 1usize..6,
    ) {
        let mut draw = Draw::new(seed);
        let tables = tasks(count, d, 0.3, 0.5, &mut draw);
        let learner = learned(plain(), &tables);
        let total: f64 = learner.tasks().unwrap().iter()
            .map(|t| t.samples * t.forgetting.unwrap()).sum();
        let all = Table::stack(tables.iter());
        let (pooled, own) = (own_squares(&all), tables.iter().map(own_squares).sum::<f64>());
        prop_assert!((total - (pooled - own) / 2.0).abs() <= 1e-11 * pooled);
        let parts = learner.summaries().unwrap();
        let test = &conflict::chow(parts.iter().map(|s| &**s), Accumulator::Qr).unwrap()[0];
        let (n, m, t) = (all.n() as f64, d as f64, count as f64);
        prop_assert!((test.forgetting * n - total).abs() <= 1e-11 * pooled);
        let f = ((pooled - own) / (m * (t - 1.0))) / (own / (n - t * m));
        prop_assert!((test.f.unwrap() / f - 1.0).abs() <= 1e-8, "{:?} against {f}", test.f);
        prop_assert_eq!(test.degrees, (m * (t - 1.0), n - t * m));
        let floor = own / (n - t * m) * (t - 1.0) * m / (2.0 * n);
        prop_assert!((test.noise_floor.unwrap() / floor - 1.0).abs() <= 1e-9);
    }

    #[test]
    fn without_a_ridge_the_pulls_of_all_tasks_cancel(
        seed in any::<u64>(), count in 2usize..6, d in 1usize..6, prefer in preferences(),
    ) {
        let mut draw = Draw::new(seed);
        let tables = tasks(count, d, 1.0, 0.5, &mut draw);
        let learner = learned(settings(MemoryKind::Ledger, prefer), &tables);
        let pulls = conflict::pulls(&learner).unwrap();
        for j in 0..d {
            let steps: Vec<f64> = pulls.step.iter().map(|t| t[0][j]).collect();
            let size: f64 = steps.iter().map(|s| s.abs()).sum();
            prop_assert!(steps.iter().sum::<f64>().abs() <= 1e-10 * (size + 1.0), "{steps:?}");
        }
    }

    /// The trace of the hat matrix: leverages of the learned rows sum to the degrees of freedom.
    #[test]
    fn the_mean_leverage_of_learned_rows_is_df_over_n(
        seed in any::<u64>(), d in 1usize..6, ridge in prop_oneof![Just(0.0), Just(0.3)],
        intercept in any::<bool>(), few in any::<bool>(),
    ) {
        let mut draw = Draw::new(seed);
        let n = if few { 1 + d / 2 } else { 5 * d };
        let table = Table::noise(n, d, 1, &mut draw);
        let learner = learned(
            Settings { ridge: Ridge::Fixed(ridge), intercept, ..plain() }, std::slice::from_ref(&table),
        );
        let covariance = inference::Covariance::of(&learner).unwrap();
        let rows = learner.design_rows(table.rows()).unwrap();
        let m = d + usize::from(intercept);
        let sum: f64 = rows.chunks_exact(m).map(|r| covariance.leverage(r)).sum();
        let df = n as f64 - covariance.freedom();
        prop_assert!((sum - df).abs() <= 1e-8 * (1.0 + df), "{sum} against {df}");
    }
}

/// The same for designs whose rows are solved for many at a time, more rows than columns and fewer, and on any number of threads.
#[test]
fn degrees_of_freedom_of_wide_designs_are_the_sum_of_leverages() {
    let mut draw = Draw::new(23);
    for (n, d, ridge, intercept) in [
        (200, 70, 0.3, true),
        (50, 150, 0.01, true),
        (400, 130, 0.0, false),
        (90, 300, 1e-4, false),
        (700, 300, 0.0, true),
    ] {
        let table = Table::noise(n, d, 1, &mut draw);
        let freedom = |threads: usize| {
            let settings = Settings { ridge: Ridge::Fixed(ridge), intercept, threads, ..plain() };
            let learner = learned(settings, std::slice::from_ref(&table));
            let covariance = inference::Covariance::of(&learner).unwrap();
            let rows = learner.design_rows(table.rows()).unwrap();
            let m = d + usize::from(intercept);
            let sum: f64 = rows.chunks_exact(m).map(|r| covariance.leverage(r)).sum();
            let df = n as f64 - covariance.freedom();
            assert!((sum - df).abs() <= 1e-8 * (1.0 + df), "{n} × {d}: {sum} against {df}");
            covariance.freedom().to_bits()
        };
        assert_eq!(freedom(1), freedom(3), "{n} × {d}");
    }
}

#[test]
fn conflict_that_is_only_noise_is_rejected_as_often_as_it_should_be() {
    // 400 data sets without conflict: rejections at 5 % are binomial, 20 ± 4·4.36 (four deviations).
    let (mut draw, mut rejected, mut below_half) = (Draw::new(17), 0, 0);
    let mut floor_ratio = 0.0;
    for _ in 0..400 {
        let tables = tasks(3, 3, 0.0, 1.0, &mut draw);
        let summaries: Vec<_> = tables.iter().map(Table::summary).collect();
        let test = &conflict::chow(summaries.iter(), Accumulator::Qr).unwrap()[0];
        let p = test.p_value.unwrap();
        rejected += usize::from(p < 0.05);
        below_half += usize::from(p < 0.5);
        floor_ratio += test.forgetting / test.noise_floor.unwrap() / 400.0;
    }
    assert!((3..=37).contains(&rejected), "{rejected} of 400 below 5 %");
    // 200 ± 4·10.
    assert!((160..=240).contains(&below_half), "{below_half} of 400 below one half");
    // The F statistic itself: mean d2/(d2−2), deviation below .6 a data set with 6 and more degrees.
    assert!((floor_ratio - 1.0).abs() < 4.0 * 0.7 / 20.0, "{floor_ratio}");
}

#[test]
fn real_conflict_has_a_tiny_p_value_and_stands_far_above_the_floor() {
    let mut draw = Draw::new(18);
    let tables = tasks(3, 3, 2.0, 0.3, &mut draw);
    let learner = learned(plain(), &tables);
    let parts = learner.summaries().unwrap();
    let test = &conflict::chow(parts.iter().map(|s| &**s), Accumulator::Qr).unwrap()[0];
    assert!(test.p_value.unwrap() < 1e-12, "{test:?}");
    assert!(test.forgetting > 20.0 * test.noise_floor.unwrap());
    let matrix = conflict::matrix(&learner).unwrap();
    for i in 0..3 {
        for j in 0..3 {
            let p = matrix.p_value[i][j];
            assert_eq!(p.is_none(), i == j);
            assert!(i == j || p.unwrap() < 1e-3, "{i} {j} {p:?}");
        }
    }
    assert!(conflict::chow(parts[..1].iter().map(|s| &**s), Accumulator::Qr).is_err());
}

#[test]
fn the_drift_test_tells_a_newcomer_from_more_of_the_same() {
    let mut draw = Draw::new(19);
    let truth = [1.0, -2.0, 0.5];
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let (mut false_alarms, mut found) = (0, 0);
        for _ in 0..200 {
            let seen: Vec<Table> =
                (0..3).map(|_| Table::linear(30, &truth, 1.0, &mut draw)).collect();
            let learner = learned(settings(memory, Preference::Samples), &seen);
            learner.solution().unwrap();
            let before = format!("{learner:?}");
            let same = Table::linear(25, &truth, 1.0, &mut draw);
            let other = Table::linear(25, &[1.0, 1.0, 0.5], 1.0, &mut draw);
            let p =
                |t: &Table| conflict::drift(&learner, &t.summary()).unwrap()[0].p_value.unwrap();
            false_alarms += usize::from(p(&same) < 0.05);
            found += usize::from(p(&other) < 1e-3);
            assert_eq!(format!("{learner:?}"), before, "the test learns nothing");
        }
        // Binomial: 10 ± 4·3.1; three units of drift against an error of .25 are never missed.
        assert!(false_alarms <= 23, "{memory:?}: {false_alarms} of 200");
        assert_eq!(found, 200, "{memory:?}");
    }
    let equal = learned(
        settings(MemoryKind::Compact, Preference::Equal),
        &[20, 30].map(|n| Table::linear(n, &truth, 1.0, &mut draw)),
    );
    assert!(conflict::drift(&equal, &Table::linear(9, &truth, 1.0, &mut draw).summary()).is_err());
    let narrow = Table::linear(30, &truth[..2], 1.0, &mut draw);
    let learner = learned(plain(), &[Table::linear(30, &truth, 1.0, &mut draw)]);
    assert!(conflict::drift(&learner, &narrow.summary()).is_err());
}

#[test]
fn standard_errors_and_intervals_cover_as_often_as_they_say() {
    let mut draw = Draw::new(20);
    let (truth, level, rounds) = ([2.0, -1.0, 0.5], 0.9, 600);
    let (mut parameters, mut predictions) = (0, 0);
    for _ in 0..rounds {
        let tables: Vec<Table> = (0..3).map(|_| Table::linear(8, &truth, 0.7, &mut draw)).collect();
        let learner = learned(plain(), &tables);
        let covariance = inference::Covariance::of(&learner).unwrap();
        let t = pmfcl::report::distributions::student_quantile(0.95, covariance.freedom());
        let error = covariance.standard_errors()[0][1].unwrap();
        let found = learner.solution().unwrap().theta.column(0)[1];
        parameters += usize::from((found - truth[1]).abs() <= t * error);
        let x = draw.normals(3);
        let y = inner(&x, &truth) + 0.7 * draw.normal();
        let rows = pmfcl::Rows::new(&x, 3).unwrap();
        let interval = inference::predict_intervals(&learner, rows, level).unwrap()[0][0];
        let (low, high) = (interval.low.unwrap(), interval.high.unwrap());
        predictions += usize::from((low..=high).contains(&y));
        assert!((interval.value - f64::midpoint(low, high)).abs() < 1e-9);
    }
    // Binomial: 540 ± 4·7.3.
    for (what, covered) in [("parameters", parameters), ("predictions", predictions)] {
        assert!((511..=569).contains(&covered), "{what}: {covered} of {rounds}");
    }
}

#[test]
fn intervals_cover_also_where_old_tasks_fade() {
    // Under decay by half only some three of ten tasks count; errors for all ten would be half as wide.
    let mut draw = Draw::new(24);
    let (truth, rounds) = ([2.0, -1.0], 400);
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let mut covered = 0;
        for _ in 0..rounds {
            let tables: Vec<Table> =
                (0..10).map(|_| Table::linear(15, &truth, 0.7, &mut draw)).collect();
            let learner = learned(settings(memory, Preference::Decay(0.5)), &tables);
            let covariance = inference::Covariance::of(&learner).unwrap();
            let t = pmfcl::report::distributions::student_quantile(0.95, covariance.freedom());
            let error = covariance.standard_errors()[0][1].unwrap();
            let found = learner.solution().unwrap().theta.column(0)[1];
            covered += usize::from((found - truth[1]).abs() <= t * error);
        }
        // Binomial: 360 ± 4·6, and a few per cent because designs differ from task to task.
        assert!((324..=384).contains(&covered), "{memory:?}: {covered} of {rounds}");
    }
}

#[test]
fn effective_samples_are_all_where_every_sample_counts_the_same() {
    let mut draw = Draw::new(25);
    let tables: Vec<Table> = [10, 30].map(|n| Table::noise(n, 2, 1, &mut draw)).to_vec();
    let effective = |prefer| {
        learned(settings(MemoryKind::Ledger, prefer), &tables).effective_samples().unwrap()
    };
    assert!((effective(Preference::Samples) - 40.0).abs() < 1e-12);
    // 1 / (¼/10 + ¼/30)
    assert!((effective(Preference::Equal) - 30.0).abs() < 1e-12);
}

#[test]
fn the_drift_test_of_folded_memory_is_the_ledgers_or_refused() {
    let mut draw = Draw::new(26);
    let truth = [1.0, -2.0];
    let tables: Vec<Table> = (0..2).map(|_| Table::linear(20, &truth, 1.0, &mut draw)).collect();
    let next = Table::linear(20, &truth, 1.0, &mut draw).summary();
    let of = |memory, weights: [f64; 2]| {
        let mut learner = crate::support::learner(settings(memory, Preference::Samples));
        for (t, w) in weights.into_iter().enumerate() {
            let (x, y) = (tables[t].rows(), tables[t].targets());
            learner.learn(&t.to_string(), TaskRows::new(x, y), w).unwrap();
        }
        conflict::drift(&learner, &next)
    };
    let truth = of(MemoryKind::Ledger, [1.0, 1.0]).unwrap()[0].p_value.unwrap();
    for w in [1.0, 100.0] {
        let p = of(MemoryKind::Compact, [w, w]).unwrap()[0].p_value.unwrap();
        assert!((p / truth - 1.0).abs() < 1e-9, "weights {w}: {p} against {truth}");
    }
    assert!(of(MemoryKind::Compact, [0.5, 1.5]).is_err(), "weights that differ cannot be undone");
}

#[test]
fn standard_errors_are_the_textbooks() {
    let mut draw = Draw::new(21);
    let table = Table::linear(40, &[1.0, 2.0, 3.0], 0.5, &mut draw);
    let learner = learned(plain(), &[table.part(0, 15), table.part(15, 40)]);
    let covariance = inference::Covariance::of(&learner).unwrap();
    let (a, _) = crate::support::normal_equations(&table);
    let sigma2 = own_squares(&table) / 37.0;
    assert!((covariance.sigma().unwrap()[0].powi(2) / sigma2 - 1.0).abs() < 1e-12);
    let truth: Vec<f64> = (0..3)
        .map(|j| {
            let unit = (0..3).map(|i| f64::from(u8::from(i == j))).collect();
            (sigma2 * crate::support::gauss(a.clone(), unit)[j]).sqrt()
        })
        .collect();
    let ours: Vec<f64> = covariance.standard_errors()[0].iter().map(|e| e.unwrap()).collect();
    assert!(apart(&ours, &truth) < 1e-12, "{ours:?} against {truth:?}");
}

#[test]
fn leverage_is_infinite_where_nothing_was_ever_seen() {
    let mut draw = Draw::new(22);
    for scale in [1.0, 1e-8, 1e8] {
        // Column 2 has only ever been zero, column 1 twice column 0.
        let mut t = Table::noise(30, 3, 1, &mut draw);
        t.x.chunks_exact_mut(3).for_each(|r| (r[1], r[2]) = (2.0 * r[0], 0.0));
        let t = t.scaled(&[scale, 1.0, 1.0]);
        let learner = learned(plain(), &[t]);
        let covariance = inference::Covariance::of(&learner).unwrap();
        let leverage = |x: [f64; 3]| covariance.leverage(&[x[0] * scale, x[1], x[2]]);
        assert!(leverage([1.0, 2.0, 0.0]).is_finite(), "scale {scale:e}");
        assert!(leverage([1.0, 2.0, 1e-3]).is_infinite(), "a new column, scale {scale:e}");
        assert!(leverage([1.0, 2.1, 0.0]).is_infinite(), "off the line, scale {scale:e}");
        let errors = covariance.standard_errors();
        assert_eq!(errors[0][2], None, "a column never seen has no error");
    }
}

#[test]
fn r_squared_keeps_its_digits_far_from_zero() {
    // The squares about the mean are 1e-16 of the squares about zero.
    let mut draw = Draw::new(23);
    let mut t = Table::linear(200, &[1.0, 2.0], 0.5, &mut draw);
    let near = learned(Settings { intercept: true, ..plain() }, &[t.clone()]);
    t.y.iter_mut().for_each(|y| *y += 1e8);
    let far = learned(Settings { intercept: true, ..plain() }, &[t]);
    let r2 = |l: &Learner| l.tasks().unwrap()[0].r2.as_ref().unwrap()[0];
    // y itself is only kept to 1e-8 there.
    assert!((r2(&near) - r2(&far)).abs() < 1e-6, "{} against {}", r2(&near), r2(&far));
}
