//! Squared and gaussian classification: right answers, and the same ones whatever the order, the split,
//! the merge or the removal.

use pmfcl::problem::{Calibrate, Gaussian, Shrinkage};
use pmfcl::{
    ClassList, Error, Labels, Learner, MemoryKind, Preference, Problem, Ridge, Rows, Settings,
    TaskRows, Theta,
};
use serde_json::Value;

const D: usize = 4;

/// Rows of four features, one of them constant and one a sum of two others, in three classes.
struct Data {
    x: Vec<f64>,
    y: Vec<&'static str>,
}

fn data(rows: usize, classes: &[&'static str], seed: u64) -> Data {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..rows {
        let k = i % classes.len();
        let shift = f64::from(classes[k].as_bytes()[0]) - 97.0;
        let mut normal = || (0..6).map(|_| uniform()).sum::<f64>() - 3.0;
        let (a, b) = (normal() + shift, 10.0 * normal() - 3.0 * shift * shift);
        x.extend([a, b, 7.0, normal() + 0.3 * a]);
        y.push(classes[k]);
    }
    Data { x, y }
}

fn squared() -> Problem {
    Problem::parse("squared", Some(ClassList::Open)).unwrap()
}

fn settings() -> Settings {
    Settings { ridge: Ridge::Fixed(1e-3), threads: 1, ..Settings::default() }
}

fn learned(problem: &Problem, settings: &Settings, tasks: &[(&str, &Data)]) -> Learner {
    let mut model = Learner::new(problem.clone(), settings.clone()).unwrap();
    for (name, task) in tasks {
        let labels = Labels::new(&task.y);
        model.learn(name, TaskRows::new(Rows::new(&task.x, D).unwrap(), &labels), 1.0).unwrap();
    }
    model
}

/// The parameters, columns in the order of the classes.
fn theta(model: &Learner) -> Theta {
    model.parameters().unwrap().theta
}

fn fact(model: &Learner, name: &str) -> f64 {
    model.facts().unwrap().into_iter().find(|(fact, _)| *fact == name).unwrap().1
}

fn joined(parts: &[&Data]) -> Data {
    Data {
        x: parts.iter().flat_map(|d| d.x.clone()).collect(),
        y: parts.iter().flat_map(|d| d.y.clone()).collect(),
    }
}

/// Same classes, and parameters and scores the same to 1e-9: QR passes over at most five merges
/// on data of condition 1e3. The temperature of gaussian probabilities depends on the order of tasks, scores do not.
fn assert_same(a: &Learner, b: &Learner, what: &str) {
    assert_eq!(a.classes(), b.classes(), "{what}");
    let (ta, tb) = (theta(a), theta(b));
    assert!(ta.distance(&tb) <= 1e-9 * ta.norm(), "{what}: {ta:?} against {tb:?}");
    let probe = data(30, &["a", "b", "c"], 99);
    let probe = Rows::new(&probe.x, D).unwrap();
    let (pa, pb) = (a.scores(probe).unwrap(), b.scores(probe).unwrap());
    for (i, (u, v)) in pa.iter().zip(&pb).enumerate() {
        assert!((u - v).abs() <= 1e-9 * (1.0 + u.abs()), "{what}, cell {i}: {u} against {v}");
    }
    assert_eq!(a.predict_classes(probe).unwrap(), b.predict_classes(probe).unwrap(), "{what}");
}

#[test]
fn golden_discriminants_are_the_oracles_up_to_a_common_shift() {
    let path = format!("{}/tests/golden/lda.json", env!("CARGO_MANIFEST_DIR"));
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let table = |v: &Value| -> Vec<Vec<f64>> {
        let row = |r: &Value| r.as_array().unwrap().iter().map(|c| c.as_f64().unwrap()).collect();
        v.as_array().unwrap().iter().map(row).collect()
    };
    let (x, oracle) = (table(&golden["X"]), table(&golden["theta"]));
    let y: Vec<u64> = golden["y"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
    let shrink = golden["shrink"].as_f64().unwrap();
    let shrinkage = Shrinkage::Ridge(shrink);
    let problem = Problem::Gaussian(Gaussian { shrinkage, ..Gaussian::default() });
    let mut model = Learner::new(problem, settings()).unwrap();
    let d = x[0].len();
    for (t, (x, y)) in x.chunks(20).zip(y.chunks(20)).enumerate() {
        let cells = x.concat();
        let labels = Labels::new(y);
        let rows = TaskRows::new(Rows::new(&cells, d).unwrap(), &labels);
        model.learn(&t.to_string(), rows, 1.0).unwrap();
    }
    let ours = theta(&model);
    // The oracle's last row is the intercept, ours the first; class 0 fixes the common shift.
    for (theirs, row) in (0..d).map(|j| (j, j + 1)).chain([(d, 0)]) {
        for k in 1..3 {
            let expected = oracle[theirs][k] - oracle[theirs][0];
            let found = ours.column(k)[row] - ours.column(0)[row];
            assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{row}, {k}");
        }
    }
}

/// LDA the slow way: means and scatter over raw rows, then Gauss elimination. Shares no code. For each probe the scores
/// `log π_k − ½ ‖x − μ_k‖²` of all classes, in alphabetical order.
fn brute_force_scores(rows: &Data, probe: &[f64], s: f64) -> Vec<Vec<f64>> {
    let mut classes = rows.y.clone();
    classes.sort_unstable();
    classes.dedup();
    let keep = [0, 1, 3]; // feature 2 is constant
    let x: Vec<Vec<f64>> = rows.x.chunks(D).map(|r| keep.iter().map(|&j| r[j]).collect()).collect();
    let of =
        |k: usize| -> Vec<usize> { (0..x.len()).filter(|&i| rows.y[i] == classes[k]).collect() };
    let means: Vec<Vec<f64>> = (0..classes.len())
        .map(|k| {
            let n = of(k).len() as f64;
            (0..3).map(|j| of(k).iter().map(|&i| x[i][j]).sum::<f64>() / n).collect()
        })
        .collect();
    let mut cov = vec![vec![0.0; 3]; 3];
    for k in 0..classes.len() {
        for i in of(k) {
            for a in 0..3 {
                for b in 0..3 {
                    cov[a][b] += (x[i][a] - means[k][a]) * (x[i][b] - means[k][b])
                        / (x.len() - classes.len()) as f64;
                }
            }
        }
    }
    for a in 0..3 {
        for b in 0..3 {
            if a != b {
                cov[a][b] *= 1.0 - s;
            }
        }
    }
    let score = |row: &[f64], k: usize| {
        let e: Vec<f64> = keep.iter().zip(&means[k]).map(|(&j, m)| row[j] - m).collect();
        let solved = gauss(cov.clone(), e.clone());
        let square: f64 = e.iter().zip(&solved).map(|(a, b)| a * b).sum();
        (of(k).len() as f64 / x.len() as f64).ln() - square / 2.0
    };
    probe.chunks(D).map(|row| (0..classes.len()).map(|k| score(row, k)).collect()).collect()
}

fn brute_force_proba(rows: &Data, probe: &[f64], s: f64) -> Vec<f64> {
    let mut out = Vec::new();
    for scores in brute_force_scores(rows, probe, s) {
        let top = scores.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = scores.iter().map(|v| (v - top).exp()).sum();
        out.extend(scores.iter().map(|v| (v - top).exp() / sum));
    }
    out
}

fn gauss(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for c in 0..n {
        for r in c + 1..n {
            let f = a[r][c] / a[c][c];
            for j in c..n {
                a[r][j] -= f * a[c][j];
            }
            b[r] -= f * b[c];
        }
    }
    for c in (0..n).rev() {
        for j in c + 1..n {
            b[c] -= a[c][j] * b[j];
        }
        b[c] /= a[c][c];
    }
    b
}

#[test]
fn gaussian_probabilities_are_those_of_brute_force() {
    let (one, two) = (data(40, &["a", "b"], 1), data(25, &["b", "c"], 2));
    let probe = data(50, &["a", "b", "c"], 3);
    for s in [0.0, 0.1, 1.0] {
        let (shrinkage, calibrate) = (Shrinkage::Diagonal(s), Calibrate::Off);
        let with = Gaussian { shrinkage, calibrate, ..Gaussian::default() };
        let model = learned(&Problem::Gaussian(with), &settings(), &[("1", &one), ("2", &two)]);
        let ours = model.probabilities(Rows::new(&probe.x, D).unwrap()).unwrap();
        let theirs = brute_force_proba(&joined(&[&one, &two]), &probe.x, s);
        for (a, b) in ours.iter().zip(&theirs) {
            assert!((a - b).abs() <= 1e-9, "s = {s}: {a} against {b}");
        }
        let sums = ours.chunks(3).map(|p| p.iter().sum::<f64>());
        assert!(sums.into_iter().all(|s| (s - 1.0).abs() < 1e-12));
    }
}

#[test]
fn order_split_merge_removal_and_late_classes_change_nothing() {
    let (a, b, c) = (data(40, &["a", "b"], 1), data(30, &["c"], 2), data(50, &["b", "c", "a"], 3));
    for problem in [squared(), Problem::gaussian()] {
        for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
            let with = Settings { memory, ..settings() };
            let learned = |tasks: &[(&str, &Data)]| learned(&problem, &with, tasks);
            let whole = learned(&[("all", &joined(&[&a, &b, &c]))]);
            let split = learned(&[("a", &a), ("b", &b), ("c", &c)]);
            assert_same(&whole, &split, "split into tasks");
            let turned = learned(&[("c", &c), ("b", &b), ("a", &a)]);
            assert_same(&split, &turned, "another order");
            let mut merged = learned(&[("b", &b)]);
            merged.merge(&learned(&[("a", &a), ("c", &c)])).unwrap();
            assert_same(&whole, &merged, "merged");
            let known = ["c", "b", "a"].map(String::from).to_vec();
            let fixed = problem.clone().with_classes(known).unwrap();
            let mut named = Learner::new(fixed, with.clone()).unwrap();
            for (name, task) in [("a", &a), ("b", &b), ("c", &c)] {
                let labels = Labels::new(&task.y);
                let rows = TaskRows::new(Rows::new(&task.x, D).unwrap(), &labels);
                named.learn(name, rows, 1.0).unwrap();
            }
            assert_same(&whole, &named, "classes known from the start");
            let mut less = split.clone();
            let labels = Labels::new(&c.y);
            let again = less.summarize(TaskRows::new(Rows::new(&c.x, D).unwrap(), &labels));
            less.unlearn_summary("c", &again.unwrap()).unwrap();
            assert_same(&learned(&[("a", &a), ("b", &b)]), &less, "removed");
            if memory == MemoryKind::Ledger {
                less.unlearn("b").unwrap();
                assert_same(&learned(&[("a", &a)]), &less, "the only task of a class removed");
                less.unlearn("a").unwrap();
                assert!(matches!(less.solution(), Err(Error::NotLearned)));
                assert!(less.classes().is_empty());
            }
        }
    }
}

#[test]
fn automatic_shrinkage_does_not_depend_on_units() {
    let rows = data(60, &["a", "b", "c"], 5);
    let scaled = Data {
        x: rows.x.iter().enumerate().map(|(i, v)| v * [1e6, 1e-4, 3.0, 1e2][i % D]).collect(),
        y: rows.y.clone(),
    };
    let of = |rows: &Data| learned(&Problem::gaussian(), &settings(), &[("t", rows)]);
    let (a, b) = (of(&rows), of(&scaled));
    let pa = a.probabilities(Rows::new(&rows.x, D).unwrap()).unwrap();
    let pb = b.probabilities(Rows::new(&scaled.x, D).unwrap()).unwrap();
    assert!(pa.iter().zip(&pb).all(|(a, b)| (a - b).abs() < 1e-9));
    let s = fact(&a, "shrinkage");
    assert!(s > 0.0 && s < 1.0, "{s}");
}

#[test]
fn gaussian_forgetting_is_the_excess_of_the_joint_likelihood() {
    let (one, two) = (data(40, &["a", "b"], 1), data(25, &["b", "c"], 2));
    let model = learned(&Problem::gaussian(), &settings(), &[("1", &one), ("2", &two)]);
    let tasks = model.tasks().unwrap();
    let mut mean = 0.0;
    for task in &tasks {
        let forgetting = task.forgetting.unwrap();
        assert!(forgetting > 0.0 && task.guaranteed && task.bound == task.forgetting);
        assert!((task.loss.unwrap() - task.min_loss.unwrap() - forgetting).abs() < 1e-12);
        mean += task.weight * forgetting;
    }
    assert!((model.mean_forgetting().unwrap() - mean).abs() < 1e-12);
    // A single task has forgotten nothing.
    let alone = learned(&Problem::gaussian(), &settings(), &[("1", &one)]);
    assert!(alone.mean_forgetting().unwrap() < 1e-12);
    assert_eq!(tasks[0].counts, [("a".to_owned(), 20.0), ("b".to_owned(), 20.0)]);
}

#[test]
fn the_gaussian_loss_is_not_negative_and_does_not_depend_on_units() {
    let parts = [data(40, &["a", "b"], 1), data(25, &["b", "c"], 2)];
    let names = ["1", "2"];
    // Small units made the density of a row, and with it its logarithm, as large as one liked.
    for units in [[1.0; D], [1e-9; D], [1e6, 1e-4, 3.0, 1e-12]] {
        let scale = |part: &Data| Data {
            x: part.x.iter().enumerate().map(|(i, v)| v * units[i % D]).collect(),
            y: part.y.clone(),
        };
        let scaled = [scale(&parts[0]), scale(&parts[1])];
        let model = learned(
            &Problem::gaussian(),
            &settings(),
            &[(names[0], &scaled[0]), (names[1], &scaled[1])],
        );
        let s = fact(&model, "shrinkage");
        let all = joined(&[&parts[0], &parts[1]]);
        for (task, part) in model.tasks().unwrap().iter().zip(&parts) {
            let scores = brute_force_scores(&all, &part.x, s);
            let own = |label: &str| usize::from(label.as_bytes()[0] - b'a');
            let sum: f64 = scores.iter().zip(&part.y).map(|(all, label)| -all[own(label)]).sum();
            let truth = sum / part.y.len() as f64;
            let loss = task.loss.unwrap();
            assert!((loss - truth).abs() < 1e-9 * truth, "{units:?}: {loss} is not {truth}");
            assert!(truth > 0.0 && task.min_loss.unwrap() > 0.0);
        }
    }
}

#[test]
fn another_preference_in_hindsight_is_the_same_as_from_the_start() {
    let (one, two) = (data(40, &["a", "b"], 1), data(25, &["b", "c"], 2));
    for problem in [squared(), Problem::gaussian()] {
        let mut model = learned(&problem, &settings(), &[("1", &one), ("2", &two)]);
        model.prefer(Preference::Equal).unwrap();
        let equal = Settings { prefer: Preference::Equal, ..settings() };
        assert_same(&model, &learned(&problem, &equal, &[("1", &one), ("2", &two)]), "equal");
        // A class without weight is never predicted, and its task's loss is not known for gaussian.
        model.prefer(Preference::Chosen(vec![("1".into(), 1.0)])).unwrap();
        let probe = Rows::new(&two.x, D).unwrap();
        assert!(model.predict_classes(probe).unwrap().iter().all(|c| c != "c"));
        let proba = model.probabilities(probe).unwrap();
        assert!(proba.chunks(3).all(|p| p[2] == 0.0 && (p[0] + p[1] - 1.0).abs() < 1e-12));
        assert!(model.tasks().unwrap()[1].loss.is_none() || problem == squared());
    }
}

#[test]
fn sample_weights_count_as_copies() {
    let rows = data(30, &["a", "b", "c"], 7);
    let weights: Vec<f64> = (0..30).map(|i| f64::from(1 + i % 3)).collect();
    let mut copies = Data { x: Vec::new(), y: Vec::new() };
    for i in 0..30 {
        for _ in 0..=i % 3 {
            copies.x.extend(&rows.x[i * D..(i + 1) * D]);
            copies.y.push(rows.y[i]);
        }
    }
    let labels = Labels::new(&rows.y);
    for problem in [squared(), Problem::gaussian()] {
        let mut weighted = Learner::new(problem.clone(), settings()).unwrap();
        let x = Rows::new(&rows.x, D).unwrap();
        weighted.learn("t", TaskRows::new(x, &labels).weighted(&weights[..]), 1.0).unwrap();
        assert_same(&weighted, &learned(&problem, &settings(), &[("t", &copies)]), "copies");
    }
}

#[test]
fn temperature_flattens_and_keeps_the_order() {
    let rows = data(30, &["a", "b", "c"], 7);
    let x = Rows::new(&rows.x, D).unwrap();
    let hot = Gaussian { calibrate: Calibrate::Fixed(3.0), ..Gaussian::default() };
    let of = |problem: Problem| learned(&problem, &settings(), &[("t", &rows)]);
    let off = Gaussian { calibrate: Calibrate::Off, ..Gaussian::default() };
    let (cool, hot) = (of(Problem::Gaussian(off)), of(Problem::Gaussian(hot)));
    assert_eq!(cool.predict_classes(x).unwrap(), hot.predict_classes(x).unwrap());
    let top = |p: Vec<f64>| p.chunks(3).map(|p| p.iter().copied().fold(0.0, f64::max)).sum::<f64>();
    assert!(top(hot.probabilities(x).unwrap()) < top(cool.probabilities(x).unwrap()));
}

#[test]
fn automatic_temperature_changes_probabilities_and_nothing_else() {
    // Three features are the same, and the model takes them for independent: it counts what they say three times.
    let copied = |mut d: Data| {
        d.x.chunks_exact_mut(D).for_each(|row| (row[2], row[3]) = (row[0], row[0]));
        d
    };
    let tasks = [
        copied(data(150, &["a", "b", "c"], 1)),
        copied(data(150, &["c", "b", "a"], 2)),
        copied(data(150, &["b", "c", "a"], 3)),
    ];
    let named: Vec<(&str, &Data)> = ["1", "2", "3"].into_iter().zip(&tasks).collect();
    let naive = Gaussian { shrinkage: Shrinkage::Diagonal(1.0), ..Gaussian::default() };
    let off = Gaussian { calibrate: Calibrate::Off, ..naive.clone() };
    let plain = learned(&Problem::Gaussian(off), &settings(), &named);
    let tempered = learned(&Problem::Gaussian(naive), &settings(), &named);
    let (a, b) = (theta(&plain), theta(&tempered));
    assert!(a.distance(&b) <= 1e-9 * a.norm());
    let t = fact(&tempered, "temperature");
    println!("T {t}");
    assert!((2.0..4.0).contains(&t), "{t}");
    let test = copied(data(900, &["a", "b", "c"], 4));
    let labels = Labels::new(&test.y);
    let test = TaskRows::new(Rows::new(&test.x, D).unwrap(), &labels);
    let score = |m: &Learner| m.evaluate(test).unwrap();
    let (before, after) = (score(&plain), score(&tempered));
    assert!((before.accuracy() - after.accuracy()).abs() < 1e-12);
    assert!(after.log_loss() < before.log_loss(), "{after:?} against {before:?}");
    let mut bad = tasks[0].x.clone();
    bad[5 * D + 1] = f64::NAN;
    let mut again = tempered.clone();
    let labels = Labels::new(&tasks[0].y);
    let error = again.learn("4", TaskRows::new(Rows::new(&bad, D).unwrap(), &labels), 1.0);
    assert!(matches!(error, Err(Error::NotFinite { row: 5, column: 1, .. })), "{error:?}");
}
