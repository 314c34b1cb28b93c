//! Default settings: the model does not depend on how rows were split, ordered, merged, removed, weighed or accumulated.
//!
//! Tables have the columns that real ones have: constant, zero, repeated, nearly constant, wildly scaled, categories. Rows may be
//! fewer than columns. Every way of learning the same rows is held against one fit on all of them.

use crate::support::Table;
use pmfcl::federated::{Rules, Server, Update};
use pmfcl::problem::Agreement;
use pmfcl::{
    Accumulator, Basis, Design, Labels, Learner, MemoryKind, Preference, Problem, Ridge, Rows,
    Settings, TaskRows,
};
use pmfcl_oracle::Draw;
use proptest::prelude::*;

/// What any two ways may differ by, in standard deviations of the target.
const SAME: f64 = 1e-7;

/// A table of `n + extra` rows with the columns and targets of real data.
fn messy(n: usize, d: usize, noise: f64, draw: &mut Draw) -> Table {
    let mut table = Table::noise(n, d, 1, draw);
    let truth = draw.normals(d);
    for (row, y) in table.x.chunks_exact(d).zip(&mut table.y) {
        *y = crate::support::inner(row, &truth) + noise * *y;
    }
    for j in 0..d {
        let (kind, from) = (draw.below(10), draw.below(d));
        let size = 10f64.powf(draw.below(13) as f64 - 6.0);
        let spread = 10f64.powf(-3.0 - draw.below(12) as f64);
        for row in table.x.chunks_exact_mut(d) {
            row[j] = match kind {
                0 => 0.0,
                1 => 0.1,
                2 => -size,
                3 => row[from],
                4 => size * (1.0 + spread * row[j]),
                5 => row[j] * size * size,
                6 => f64::from(u8::from(row[j] > 1.0)),
                7 => 2011.0 + row[j].round(),
                _ => row[j],
            };
        }
    }
    table
}

fn rows(table: &Table) -> (Rows<'_>, Rows<'_>) {
    (table.rows(), table.targets())
}

/// Cuts the rows, in another order, into `count` tasks of at least one row; weights go along.
fn split(table: &Table, w: &[f64], count: usize, draw: &mut Draw) -> Vec<(Table, Vec<f64>)> {
    let n = table.n();
    let order = draw.order(n);
    let mut cuts: Vec<usize> = (0..count - 1).map(|_| 1 + draw.below(n)).collect();
    cuts.extend([0, n]);
    cuts.sort_unstable();
    cuts.dedup();
    let parts = cuts.windows(2).filter(|c| c[0] < c[1]);
    parts
        .map(|c| {
            let picked = &order[c[0]..c[1]];
            (table.pick(picked), picked.iter().map(|&i| w[i]).collect())
        })
        .collect()
}

fn learn(settings: &Settings, parts: &[(Table, Vec<f64>)], prefix: &str) -> Learner {
    let mut learner = crate::support::learner(settings.clone());
    for (t, (part, w)) in parts.iter().enumerate() {
        let (x, y) = rows(part);
        learner.learn(&format!("{prefix}{t}"), TaskRows::new(x, y).weighted(&w[..]), 1.0).unwrap();
    }
    learner
}

fn deviation(y: &[f64]) -> f64 {
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    let size = y.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    let sd = (y.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / y.len() as f64).sqrt();
    // A constant target has no deviation; rounding is judged by its size.
    if sd > 1e-8 * size { sd } else { size.max(1.0) }
}

fn gap(a: &[f64], b: &[f64], sd: f64) -> f64 {
    a.iter().zip(b).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs())) / sd
}

/// Every way to learn the rows, by name.
fn ways(
    settings: &Settings,
    table: &Table,
    w: &[f64],
    tasks: usize,
    draw: &mut Draw,
) -> Vec<(&'static str, Learner)> {
    let parts = split(table, w, tasks, draw);
    let other = split(table, w, tasks, draw);
    let mut all =
        vec![("split", learn(settings, &parts, "")), ("shuffled", learn(settings, &other, ""))];
    let compact = Settings { memory: MemoryKind::Compact, ..settings.clone() };
    all.push(("compact", learn(&compact, &parts, "")));
    let half = parts.len() / 2;
    let mut merged = learn(settings, &parts[..half], "a");
    merged.merge(&learn(settings, &parts[half..], "b")).unwrap();
    all.push(("merged", merged));
    let mut removed = learn(settings, &parts, "");
    let stranger = messy(3, table.d, 1.0, draw);
    let (x, y) = rows(&stranger);
    removed.learn("stranger", TaskRows::new(x, y), 1.0).unwrap();
    let (first, w0) = &parts[0];
    removed.unlearn("0").unwrap();
    let (x, y) = rows(first);
    removed.learn("0", TaskRows::new(x, y).weighted(&w0[..]), 1.0).unwrap();
    removed.unlearn("stranger").unwrap();
    all.push(("removed", removed));
    let mut preferred = learn(settings, &parts, "");
    preferred.prefer(Preference::Samples).unwrap();
    all.push(("preferred", preferred));
    all
}

fn sums(settings: &Settings) -> Settings {
    Settings { accumulator: Accumulator::Gram, ..settings.clone() }
}

/// The tangent kernel's penalty is measured from its initial weights, from the first solution on.
#[test]
fn a_basis_with_an_origin_is_solved_from_it_at_the_first_task_too() {
    let table = Table::linear(40, &[1.0, -2.0], 0.1, &mut Draw::new(3));
    for ridge in [Ridge::Auto, Ridge::Fixed(0.0), Ridge::Fixed(0.3)] {
        let basis: Basis = "ntk:30,seed=1".parse().unwrap();
        let settings = Settings { basis, ridge: ridge.clone(), threads: 1, ..Settings::default() };
        let mut learner = learn(&settings, &[(table.clone(), vec![1.0; 40])], "");
        let first = learner.predict(table.rows()).unwrap();
        learner.set_ridge(ridge.clone(), false).unwrap();
        let again = learner.predict(table.rows()).unwrap();
        assert_eq!(first, again, "{ridge:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_automatic_ridge_does_not_depend_on_the_way(
        seed in any::<u64>(), d in 1usize..14, share in 0.0f64..3.0, tasks in 1usize..50,
        noise in prop_oneof![Just(0.0), Just(0.1), Just(3.0)], weighted in any::<bool>(),
    ) {
        let mut draw = Draw::new(seed);
        let n = 1 + (share * d as f64) as usize;
        let both = messy(n + 5, d, noise, &mut draw);
        let (table, unseen) = (both.part(0, n), both.part(n, n + 5));
        let w: Vec<f64> = (0..n).map(|_| if weighted { 0.2 + draw.uniform() } else { 1.0 }).collect();
        let settings = Settings { threads: 1, ..Settings::default() };
        let whole = learn(&settings, &[(table.clone(), w.clone())], "");
        let sd = deviation(&table.y);
        let seen = whole.predict(table.rows()).unwrap();
        let new = whole.predict(unseen.rows()).unwrap();
        let mut all = ways(&settings, &table, &w, tasks, &mut draw);
        let sums = sums(&settings);
        all.push(("sums of products", learn(&sums, &[(table.clone(), w.clone())], "")));
        all.extend(ways(&sums, &table, &w, tasks, &mut draw));
        for (way, learner) in all {
            let ridges = (whole.solution().unwrap().penalty.ridge(), learner.solution().unwrap().penalty.ridge());
            let found = gap(&learner.predict(table.rows()).unwrap(), &seen, sd);
            prop_assert!(found <= SAME, "{way}: {found:e} sd on rows seen; ridges {ridges:?}");
            let found = gap(&learner.predict(unseen.rows()).unwrap(), &new, sd);
            prop_assert!(found <= SAME, "{way}: {found:e} sd on new rows; ridges {ridges:?}");
        }
    }

    #[test]
    fn a_federation_chooses_the_ridge_of_pooled_rows(
        seed in any::<u64>(), d in 1usize..10, share in 0.1f64..3.0, clients in 1usize..9,
        noise in prop_oneof![Just(0.0), Just(0.1), Just(3.0)],
    ) {
        let mut draw = Draw::new(seed);
        let n = 2 + (share * d as f64) as usize;
        let table = messy(n, d, noise, &mut draw);
        let settings = Settings { threads: 1, ..Settings::default() };
        let w = vec![1.0; n];
        let whole = learn(&settings, &[(table.clone(), w.clone())], "");
        let design = Design::linear(d, true).unwrap();
        let agreement = Agreement::new(Problem::squared(), settings, design, 1).unwrap();
        let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
        for (t, (part, _)) in split(&table, &w, clients, &mut draw).iter().enumerate() {
            let (x, y) = rows(part);
            let update = Update::of_rows(&agreement, &format!("c{t}"), 0, TaskRows::new(x, y)).unwrap();
            server.accept(update).unwrap();
        }
        let joint = server.joint().unwrap().predict(table.rows()).unwrap();
        let found = gap(&joint, &whole.predict(table.rows()).unwrap(), deviation(&table.y));
        prop_assert!(found <= SAME, "{found:e} sd");
    }

    #[test]
    fn left_out_tasks_choose_the_same_ridge_in_any_order(
        seed in any::<u64>(), d in 1usize..10, tasks in 2usize..12, standardize in any::<bool>(),
        noise in prop_oneof![Just(0.0), Just(0.1), Just(3.0)],
    ) {
        let mut draw = Draw::new(seed);
        let table = messy(3 * tasks + draw.below(3 * d), d, noise, &mut draw);
        let parts = split(&table, &vec![1.0; table.n()], tasks, &mut draw);
        let settings = Settings { ridge: Ridge::LeaveOneTaskOut, standardize, threads: 1, ..Settings::default() };
        let turned: Vec<_> = draw.order(parts.len()).into_iter().map(|t| parts[t].clone()).collect();
        let (a, b) = (learn(&settings, &parts, ""), learn(&settings, &turned, ""));
        let ridges = (a.solution().unwrap().penalty.ridge(), b.solution().unwrap().penalty.ridge());
        let (a, b) = (a.predict(table.rows()).unwrap(), b.predict(table.rows()).unwrap());
        let found = gap(&a, &b, deviation(&table.y));
        prop_assert!(found <= SAME, "{found:e} sd, {ridges:?}");
    }

    #[test]
    fn automatic_shrinkage_does_not_depend_on_the_way(
        seed in any::<u64>(), d in 1usize..12, share in 0.2f64..4.0, tasks in 1usize..30, classes in 1usize..5,
    ) {
        let mut draw = Draw::new(seed);
        let n = 2 + (share * d as f64) as usize;
        let table = messy(n, d, 1.0, &mut draw);
        let names: Vec<String> = table.y.iter().map(|y| format!("{}", (y.abs() as usize) % classes)).collect();
        let problem = |calibrate: &str| Problem::gaussian().with_option("calibrate", calibrate).unwrap();
        let learned = |calibrate: &str, order: &[usize], tasks: usize, settings: &Settings| {
            let mut classifier = Learner::new(problem(calibrate), settings.clone()).unwrap();
            for (t, part) in order.chunks(order.len().div_ceil(tasks)).enumerate() {
                let labels: Vec<&str> = part.iter().map(|&i| names[i].as_str()).collect();
                let rows = table.pick(part);
                classifier.learn(&t.to_string(), TaskRows::new(rows.rows(), &Labels::new(&labels)), 1.0).unwrap();
            }
            classifier
        };
        let settings = Settings { threads: 1, ..Settings::default() };
        let plain: Vec<usize> = (0..n).collect();
        let model = learned("off", &plain, 1, &settings);
        let whole = model.probabilities(table.rows()).unwrap();
        // A score is a sum of terms θ·x, each stored to 16 digits: no probability is known better than that.
        let theta = &model.solution().unwrap().theta;
        let term = (0..theta.targets()).flat_map(|k| {
            let column = &theta.column(k)[1..];
            table.x.chunks_exact(d).flat_map(move |x| x.iter().zip(column).map(|(x, t)| (x * t).abs()))
        });
        let allowed = SAME.max(16.0 * f64::EPSILON * term.fold(0.0, f64::max));
        let compact = Settings { memory: MemoryKind::Compact, ..settings.clone() };
        let gram = Settings { accumulator: Accumulator::Gram, ..settings.clone() };
        for settings in [&settings, &compact, &gram] {
            for tasks in [1, tasks] {
                let other = learned("off", &draw.order(n), tasks, settings);
                let found = other.probabilities(table.rows()).unwrap();
                let found = gap(&found, &whole, 1.0);
                prop_assert!(found <= allowed, "{found:e} with {tasks} tasks, {:?} {:?}", settings.memory, settings.accumulator);
            }
        }
    }

    /// One-shot quadratics of log-loss add up, so the order of tasks does not matter; how rows are split does.
    #[test]
    fn the_prior_of_log_loss_does_not_depend_on_the_order_of_tasks(
        seed in any::<u64>(), d in 1usize..6, tasks in 2usize..7,
    ) {
        let mut draw = Draw::new(seed);
        let table = messy(12 * tasks, d, 1.0, &mut draw);
        let names: Vec<&str> = table.y.iter().map(|y| if *y > 0.0 { "up" } else { "down" }).collect();
        let learned = |order: &[usize]| {
            let problem = Problem::logistic().with_classes(vec!["down".to_owned(), "up".to_owned()]).unwrap();
            let settings = Settings { threads: 1, ..Settings::default() };
            let mut classifier = Learner::new(problem, settings).unwrap();
            for t in order {
                let (from, to) = (12 * t, 12 * (t + 1));
                let labels = Labels::new(&names[from..to]);
                classifier.learn(&t.to_string(), TaskRows::new(table.part(from, to).rows(), &labels), 1.0).unwrap();
            }
            classifier.probabilities(table.rows()).unwrap()
        };
        let plain: Vec<usize> = (0..tasks).collect();
        let found = gap(&learned(&draw.order(tasks)), &learned(&plain), 1.0);
        prop_assert!(found <= SAME, "{found:e}");
    }
}
