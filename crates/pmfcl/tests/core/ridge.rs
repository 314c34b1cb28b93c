//! The ridge: chosen from summaries, free of units, never on the intercept.

use crate::support::{Table, apart, gauss, inner, learned, plain, settings};
use pmfcl::{Error, Learner, MemoryKind, Preference, Problem, Ridge, Rows, Settings};
use pmfcl_oracle::{Draw, least_squares};
use proptest::prelude::*;

fn auto() -> Settings {
    Settings { ridge: Ridge::Auto, intercept: true, ..plain() }
}

fn related(count: usize, n: usize, d: usize, noise: f64, draw: &mut Draw) -> Vec<Table> {
    let truth = draw.normals(d);
    (0..count)
        .map(|_| {
            let own: Vec<f64> = truth.iter().map(|t| t + 0.2 * draw.normal()).collect();
            Table::linear(n, &own, noise, draw)
        })
        .collect()
}

fn mse(learner: &Learner, test: &Table) -> f64 {
    let found = learner.predict(test.rows()).unwrap();
    found.iter().zip(&test.y).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / test.n() as f64
}

/// Mean and standard deviation of every column, as the rows define them.
fn moments(t: &Table) -> Vec<(f64, f64)> {
    let n = t.n() as f64;
    (0..t.d)
        .map(|j| {
            let column = || t.x.iter().skip(j).step_by(t.d);
            let mean = column().sum::<f64>() / n;
            (mean, (column().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt())
        })
        .collect()
}

/// GCV of ridge on standardized columns, from the rows alone, degrees of freedom counted 1.2 times: `N·RSS/(N − 1.2 df)²`.
fn gcv(t: &Table, lambda: f64) -> f64 {
    let (n, d) = (t.n(), t.d);
    let moments = moments(t);
    let mean_y = t.y.iter().sum::<f64>() / n as f64;
    let z: Vec<Vec<f64>> =
        t.x.chunks_exact(d)
            .map(|r| r.iter().zip(&moments).map(|(v, (m, s))| (v - m) / s).collect())
            .collect();
    let mut a = vec![vec![0.0; d]; d];
    let mut b = vec![0.0; d];
    for (r, y) in z.iter().zip(&t.y) {
        for i in 0..d {
            for j in 0..d {
                a[i][j] += r[i] * r[j];
            }
            b[i] += r[i] * (y - mean_y);
        }
    }
    for (j, row) in a.iter_mut().enumerate() {
        row[j] += n as f64 * lambda;
    }
    let w = gauss(a.clone(), b);
    let rss: f64 = z.iter().zip(&t.y).map(|(r, y)| (inner(r, &w) - (y - mean_y)).powi(2)).sum();
    let df: f64 = 1.0 + z.iter().map(|r| inner(r, &gauss(a.clone(), r.clone()))).sum::<f64>();
    let freedom = n as f64 - 1.2 * df;
    if freedom > 0.0 { n as f64 * rss / freedom.powi(2) } else { f64::INFINITY }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn automatic_ridge_does_not_know_units(
        seed in any::<u64>(), n in 4usize..40, d in 1usize..8, unit in -6i32..7,
    ) {
        let mut draw = Draw::new(seed);
        let tables = related(2, n, d, 1.0, &mut draw);
        let test = Table::noise(5, d, 1, &mut draw);
        let scales: Vec<f64> = (0..d).map(|_| 10f64.powf(draw.below(13) as f64 - 6.0)).collect();
        let y_scale = 10f64.powi(unit);
        let other: Vec<Table> = tables.iter().cloned().map(|t| {
            let mut t = t.scaled(&scales);
            t.y.iter_mut().for_each(|y| *y *= y_scale);
            t
        }).collect();
        let (a, b) = (learned(auto(), &tables), learned(auto(), &other));
        let plain = a.predict(test.rows()).unwrap();
        let scaled: Vec<f64> =
            b.predict(test.clone().scaled(&scales).rows()).unwrap().iter().map(|v| v / y_scale).collect();
        prop_assert!(apart(&scaled, &plain) <= 1e-6, "{:e}", apart(&scaled, &plain));
    }

    #[test]
    fn the_ridge_chosen_minimises_gcv_on_the_rows(
        seed in any::<u64>(), n in 12usize..40, d in 1usize..6, noise in 0.1f64..4.0,
    ) {
        let mut draw = Draw::new(seed);
        let table = related(1, n, d, noise, &mut draw).remove(0);
        let learner = learned(auto(), &[table.part(0, n / 2), table.part(n / 2, n)]);
        let chosen = learner.solution().unwrap().penalty.ridge();
        let ours = gcv(&table, chosen);
        for power in -80..=24 {
            let lambda = 10f64.powf(f64::from(power) / 8.0);
            prop_assert!(ours <= gcv(&table, lambda) * (1.0 + 1e-6), "{lambda} beats {chosen}");
        }
    }

    #[test]
    fn shifting_the_targets_shifts_the_intercept_alone(
        seed in any::<u64>(), n in 3usize..40, d in 1usize..8, shift in -1e3f64..1e3,
        ridge in prop_oneof![
            Just(Ridge::Auto), Just(Ridge::Fixed(0.0)), Just(Ridge::Fixed(0.5)), Just(Ridge::Fixed(1e6)),
            Just(Ridge::LeaveOneTaskOut)
        ],
        standardize in any::<bool>(),
    ) {
        let mut draw = Draw::new(seed);
        let tables = related(2, n, d, 1.0, &mut draw);
        let settings = Settings { ridge, standardize, ..auto() };
        let mut shifted = tables.clone();
        shifted.iter_mut().flat_map(|t| &mut t.y).for_each(|y| *y += shift);
        let (a, b) = (learned(settings.clone(), &tables), learned(settings, &shifted));
        let (a, b) = (&a.solution().unwrap().theta, &b.solution().unwrap().theta);
        // The choice of λ is a search: repeatable to 1e-6 and no better.
        let allowed = 1e-6 * (1.0 + a.norm());
        prop_assert!((b.column(0)[0] - a.column(0)[0] - shift).abs() <= allowed);
        for (x, y) in a.column(0)[1..].iter().zip(&b.column(0)[1..]) {
            prop_assert!((x - y).abs() <= allowed, "{x} against {y}");
        }
    }

    /// `standardize` against ridge on columns standardized by hand, intercept free by centring.
    #[test]
    fn standardizing_is_ridge_on_standardized_columns(
        seed in any::<u64>(), n in 2usize..40, d in 1usize..6, lambda in 1e-3f64..10.0,
    ) {
        let mut draw = Draw::new(seed);
        let scales: Vec<f64> = (0..d).map(|_| 10f64.powf(draw.below(7) as f64 - 3.0)).collect();
        let mut table = Table::noise(2 * n, d, 1, &mut draw).scaled(&scales);
        for r in table.x.chunks_exact_mut(d) {
            r.iter_mut().zip(&scales).for_each(|(v, s)| *v += 3.0 * s);
        }
        let learner = learned(
            Settings { ridge: Ridge::Fixed(lambda), standardize: true, intercept: true, ..plain() },
            &[table.part(0, n), table.part(n, 2 * n)],
        );
        let moments = moments(&table);
        let mean_y = table.y.iter().sum::<f64>() / table.n() as f64;
        let z: Vec<f64> = table.x.chunks_exact(d)
            .flat_map(|r| r.iter().zip(&moments).map(|(v, (m, s))| (v - m) / s).collect::<Vec<_>>())
            .collect();
        let y: Vec<f64> = table.y.iter().map(|y| y - mean_y).collect();
        let w = least_squares(&z, d, &y, None, &vec![lambda * table.n() as f64; d]);
        let theta = learner.solution().unwrap().theta.column(0);
        let back: Vec<f64> = theta[1..].iter().zip(&moments).map(|(t, (_, s))| t * s).collect();
        prop_assert!(apart(&back, &w) <= 1e-9, "{back:?} against {w:?}");
        let offset = mean_y - w.iter().zip(&moments).map(|(w, (m, s))| w * m / s).sum::<f64>();
        prop_assert!((theta[0] - offset).abs() <= 1e-9 * (1.0 + offset.abs()));
    }
}

#[test]
fn with_as_many_samples_as_columns_the_ridge_saves_the_fit() {
    // d = 50, n = 25: after the second task N = d, where the shortest solution is at its worst.
    let (mut saved, mut shortest) = (0.0, 0.0);
    for seed in 0..6 {
        let mut draw = Draw::new(seed);
        let truth = draw.normals(50);
        let tables: Vec<Table> =
            (0..2).map(|_| Table::linear(25, &truth, 1.0, &mut draw)).collect();
        let test = Table::linear(200, &truth, 1.0, &mut draw);
        let ridge = learned(Settings { intercept: false, ..auto() }, &tables);
        assert!(ridge.solution().unwrap().penalty.ridge() > 0.0);
        saved += mse(&ridge, &test);
        shortest += mse(&learned(plain(), &tables), &test);
    }
    assert!(saved < 0.2 * shortest, "{saved} against {shortest}");
}

#[test]
fn the_automatic_ridge_is_never_zero_while_samples_do_not_outnumber_columns() {
    for seed in 0..10 {
        let mut draw = Draw::new(seed);
        for n in 2..=9 {
            for intercept in [false, true] {
                let table = Table::noise(n, 8, 1, &mut draw);
                let learner = learned(Settings { intercept, ..auto() }, &[table]);
                let ridge = learner.solution().unwrap().penalty.ridge();
                assert!(ridge > 0.0, "{n} samples of 8: {ridge}");
            }
        }
    }
}

#[test]
fn pure_noise_is_shrunk_hard() {
    let (mut kept, mut free) = (0.0, 0.0);
    for seed in 0..20 {
        let mut draw = Draw::new(seed);
        let table = Table::noise(60, 20, 1, &mut draw);
        let norm = |l: &Learner| {
            l.solution().unwrap().theta.column(0)[1..].iter().map(|v| v * v).sum::<f64>()
        };
        kept += norm(&learned(auto(), std::slice::from_ref(&table)));
        free += norm(&learned(Settings { ridge: Ridge::Fixed(0.0), ..auto() }, &[table]));
    }
    assert!(kept < 0.25 * free, "{kept} of {free} is left");
}

#[test]
fn weights_that_count_for_less_than_the_columns_do_not_fool_the_choice() {
    // 60 rows that count as 6 samples, 20 columns: beyond N degrees of freedom GCV has no meaning, and
    // the least ridge must not win there.
    let mut draw = Draw::new(5);
    let table = Table::noise(60, 20, 1, &mut draw);
    let mut learner = crate::support::learner(auto());
    learner.learn("t", table.task().weighted(&[0.1; 60][..]), 1.0).unwrap();
    let ridge = learner.solution().unwrap().penalty.ridge();
    // Fewer than 6 degrees of freedom of 20 of nearly equal strength need λ above twice theirs.
    assert!(ridge > 0.5, "{ridge}");
}

#[test]
fn leaving_tasks_out_helps_where_tasks_differ_and_needs_the_ledger() {
    let mut draw = Draw::new(6);
    let tables = related(6, 12, 8, 1.0, &mut draw);
    let settings_out = Settings { ridge: Ridge::LeaveOneTaskOut, ..auto() };
    let learner = learned(settings_out.clone(), &tables);
    let chosen = learner.solution().unwrap().penalty.ridge();
    // From the rows: each task predicted by ridge on all the others, λ on the mean scale.
    let score = |lambda: f64| -> f64 {
        (0..tables.len())
            .map(|out| {
                let rest = Table::stack(
                    tables.iter().enumerate().filter(|(t, _)| *t != out).map(|(_, t)| t),
                )
                .with_ones();
                let mut penalty = vec![lambda * rest.n() as f64; rest.d];
                penalty[0] = 0.0;
                let w = least_squares(&rest.x, rest.d, &rest.y, None, &penalty);
                tables[out].with_ones().squares(&pmfcl::Theta::from_slice(&w)).0
            })
            .sum()
    };
    let ours = score(chosen);
    for power in -40..=16 {
        let lambda = 10f64.powf(f64::from(power) / 8.0);
        assert!(ours <= score(lambda) * (1.0 + 1e-6), "{lambda} beats {chosen}");
    }
    let compact = Settings { memory: MemoryKind::Compact, ..settings_out };
    let error = Learner::new(Problem::squared(), compact).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("ledger"), "{error}");
}

#[test]
fn leaving_tasks_out_survives_weights_that_are_zero() {
    let mut draw = Draw::new(7);
    let tables = related(3, 12, 4, 1.0, &mut draw);
    let mut learner = learned(Settings { ridge: Ridge::LeaveOneTaskOut, ..auto() }, &tables);
    learner.prefer(Preference::Chosen(vec![("1".into(), 1.0)])).unwrap();
    assert!(learner.solution().unwrap().theta.is_finite());
}

#[test]
fn a_constant_column_and_a_constant_target_do_no_harm() {
    let mut draw = Draw::new(8);
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let mut table = Table::noise(30, 3, 1, &mut draw);
        table.x.chunks_exact_mut(3).for_each(|r| r[1] = 5.0);
        let mut flat = table.clone();
        flat.y.fill(7.0);
        for t in [table, flat.clone()] {
            let learner = learned(Settings { memory, ..auto() }, &[t.part(0, 10), t.part(10, 30)]);
            assert!(learner.solution().unwrap().theta.is_finite());
        }
        let learner = learned(Settings { memory, ..auto() }, &[flat]);
        let at = learner.predict(Rows::new(&[1.0, 5.0, -2.0], 3).unwrap()).unwrap()[0];
        assert!((at - 7.0).abs() < 1e-9, "{at}");
    }
    let _ = settings(MemoryKind::Ledger, Preference::Samples);
}

#[test]
fn every_target_can_have_its_own_ridge() {
    let mut draw = Draw::new(17);
    let (n, d, ridges) = (40, 5, [0.1, 0.0, 3.0, 0.1]);
    let (x, y) = (draw.normals(n * d), draw.normals(n * ridges.len()));
    let rows = Rows::new(&x, d).unwrap();
    let settings = |ridge| Settings { ridge, intercept: true, ..plain() };
    let all = settings(Ridge::PerTarget(ridges.to_vec()));
    let mut learner = Learner::new(Problem::squared(), all).unwrap();
    let targets = Rows::new(&y, ridges.len()).unwrap();
    learner.learn("t", pmfcl::TaskRows::new(rows, targets), 1.0).unwrap();
    let solution = learner.solution().unwrap();
    assert_eq!(solution.penalty.own_ridges(), Some(&ridges[..]));
    for (k, ridge) in ridges.into_iter().enumerate() {
        let own: Vec<f64> = y.iter().skip(k).step_by(ridges.len()).copied().collect();
        let mut alone = Learner::new(Problem::squared(), settings(Ridge::Fixed(ridge))).unwrap();
        alone.learn("t", pmfcl::TaskRows::new(rows, Rows::new(&own, 1).unwrap()), 1.0).unwrap();
        let theta = &alone.solution().unwrap().theta;
        assert!(apart(solution.theta.column(k), theta.column(0)) < 1e-12, "target {k}");
    }
    // A list of another length is refused, and nothing changes.
    let before = solution.clone();
    let refused = learner.set_ridge(Ridge::PerTarget(vec![1.0, 2.0]), false).unwrap_err();
    assert!(refused.to_string().contains("list of ridges"), "{refused}");
    assert_eq!(*learner.solution().unwrap(), before);
    let settings = settings(Ridge::PerTarget(vec![1.0, 2.0]));
    for loss in ["huber:1", "poisson:3"] {
        let refused = Learner::new(Problem::parse(loss, None).unwrap(), settings.clone());
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{loss}");
    }
}
