//! Gaps filled with means: whatever the split, order, merger or removal, the model is that of filling all rows at once.

use pmfcl::basis::Fill;
use pmfcl::{Labels, Learner, MemoryKind, Preference, Problem, Ridge, Rows, Settings, TaskRows};

/// Columns of the tables below, without indicators.
const COLUMNS: usize = 4;
/// Which columns have gaps, and which input says so.
const FILLS: [Fill; 2] = [Fill { value: 1, indicator: 4 }, Fill { value: 3, indicator: 5 }];

/// Numbers between −1 and 1.
fn noise(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Rows in which columns 1 and 3 have gaps, and their targets. Column 1 is far from zero and has more gaps later on.
fn table(rows: usize) -> (Vec<[Option<f64>; COLUMNS]>, Vec<f64>) {
    let mut seed = 7;
    let mut x = Vec::new();
    let mut y = Vec::new();
    for i in 0..rows {
        let cells: Vec<f64> = (0..COLUMNS).map(|_| noise(&mut seed)).collect();
        let (a, b, c, d) = (cells[0], 50.0 + 4.0 * cells[1], cells[2] + cells[0], cells[3] * 0.1);
        y.push(2.0 * a - 0.5 * b + c + 3.0 * d + 0.3 * noise(&mut seed));
        let late = if i > rows / 2 { 0.2 } else { -0.6 };
        let b = (noise(&mut seed) > late).then_some(b);
        let d = (noise(&mut seed) > -0.5).then_some(d);
        x.push([Some(a), b, Some(c), d]);
    }
    (x, y)
}

/// Rows with gaps apart: zeros, and an indicator for each column that has any.
fn apart(x: &[[Option<f64>; COLUMNS]]) -> Vec<f64> {
    let one = |row: &[Option<f64>; COLUMNS]| {
        let mut cells: Vec<f64> = row.iter().map(|v| v.unwrap_or(0.0)).collect();
        cells.extend(FILLS.map(|fill| f64::from(u8::from(row[fill.value].is_none()))));
        cells
    };
    x.iter().flat_map(one).collect()
}

/// Rows filled with the means of `of`.
fn filled(x: &[[Option<f64>; COLUMNS]], of: &[[Option<f64>; COLUMNS]]) -> Vec<f64> {
    let mean = |j: usize| {
        let there: Vec<f64> = of.iter().filter_map(|row| row[j]).collect();
        there.iter().sum::<f64>() / there.len() as f64
    };
    let means: Vec<f64> = (0..COLUMNS).map(mean).collect();
    x.iter().flat_map(|row| (0..COLUMNS).map(|j| row[j].unwrap_or(means[j]))).collect()
}

fn class_names(y: &[f64]) -> Vec<&'static str> {
    y.iter()
        .map(|y| {
            if *y > -23.5 {
                "high"
            } else if *y > -26.0 {
                "middle"
            } else {
                "low"
            }
        })
        .collect()
}

fn learn(learner: &mut Learner, name: &str, x: &[f64], y: &[f64]) {
    let x = Rows::new(x, x.len() / y.len()).unwrap();
    if learner.problem().predicts_classes() {
        learner.learn(name, TaskRows::new(x, &Labels::new(&class_names(y))), 1.0).unwrap();
    } else {
        learner.learn(name, TaskRows::new(x, Rows::new(y, 1).unwrap()), 1.0).unwrap();
    }
}

fn answers(learner: &Learner, x: &[f64], width: usize) -> Vec<f64> {
    let x = Rows::new(x, width).unwrap();
    if learner.problem().predicts_classes() {
        learner.probabilities(x).unwrap()
    } else {
        learner.predict(x).unwrap()
    }
}

fn near(a: &[f64], b: &[f64], within: f64, what: &str) {
    let gap = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let size = b.iter().map(|b| b.abs()).fold(1.0, f64::max);
    assert!(a.len() == b.len() && gap <= within * size, "{what}: {gap:e} of {size}");
}

fn problems() -> Vec<(Problem, Settings)> {
    let with = |ridge, memory| Settings { ridge, memory, ..Settings::default() };
    let plain = Problem::gaussian().with_option("calibrate", "off").unwrap();
    let class = plain.with_option("covariance", "class").unwrap();
    vec![
        (Problem::squared(), with(Ridge::Auto, MemoryKind::Ledger)),
        (Problem::squared(), with(Ridge::Fixed(0.0), MemoryKind::Ledger)),
        (Problem::squared(), with(Ridge::Fixed(0.1), MemoryKind::Compact)),
        (plain, with(Ridge::Auto, MemoryKind::Ledger)),
        (class, with(Ridge::Auto, MemoryKind::Compact)),
    ]
}

/// A model of these pieces, one task each.
fn in_pieces(
    problem: &Problem,
    settings: &Settings,
    pieces: &[(usize, usize)],
    x: &[[Option<f64>; COLUMNS]],
    y: &[f64],
) -> Learner {
    let mut learner = Learner::new(problem.clone(), settings.clone()).unwrap();
    for &(from, to) in pieces {
        learn(&mut learner, &format!("{from}"), &apart(&x[from..to]), &y[from..to]);
        learner.set_fills(FILLS.to_vec()).unwrap();
    }
    learner
}

#[test]
fn any_split_order_merger_and_removal_equals_filling_all_rows_at_once() {
    let (x, y) = table(400);
    for (problem, settings) in problems() {
        let what = format!("{problem} {} {:?}", settings.ridge, problem.options());
        let mut whole = Learner::new(problem.clone(), settings.clone()).unwrap();
        learn(&mut whole, "all", &filled(&x, &x), &y);
        let expected = answers(&whole, &filled(&x, &x), COLUMNS);
        let found = |learner: &Learner| answers(learner, &apart(&x), COLUMNS + FILLS.len());
        let pieces = [(0, 37), (37, 250), (250, 251), (251, 400)];
        let forward = in_pieces(&problem, &settings, &pieces, &x, &y);
        near(&found(&forward), &expected, 1e-10, &what);
        let back: Vec<(usize, usize)> = pieces.iter().rev().copied().collect();
        near(&found(&in_pieces(&problem, &settings, &back, &x, &y)), &expected, 1e-10, &what);
        // Two memories, merged.
        let mut left = in_pieces(&problem, &settings, &pieces[..2], &x, &y);
        left.merge(&in_pieces(&problem, &settings, &pieces[2..], &x, &y)).unwrap();
        near(&found(&left), &expected, 1e-10, &what);
        // One task too many, removed; compact memory is given its rows once more.
        let mut less = forward.clone();
        let (more, targets) = table(500);
        let (more, targets) = (apart(&more[400..]), &targets[400..]);
        learn(&mut less, "extra", &more, targets);
        assert!(found(&less) != found(&forward), "{what}");
        let again = {
            let rows = Rows::new(&more, COLUMNS + FILLS.len()).unwrap();
            let labels = Labels::new(&class_names(targets));
            let values = Rows::new(targets, 1).unwrap();
            let rows = if problem.predicts_classes() {
                TaskRows::new(rows, &labels)
            } else {
                TaskRows::new(rows, values)
            };
            less.summarize(rows).unwrap()
        };
        less.unlearn_summary("extra", &again).unwrap();
        near(&found(&less), &expected, 1e-10, &what);
    }
}

#[test]
fn losses_of_tasks_are_those_of_filled_rows() {
    let (x, y) = table(300);
    let settings = Settings::default();
    let pieces = [(0, 120), (120, 300)];
    let learner = in_pieces(&Problem::squared(), &settings, &pieces, &x, &y);
    let mut oracle = Learner::new(Problem::squared(), settings).unwrap();
    for (from, to) in pieces {
        learn(&mut oracle, &format!("{from}"), &filled(&x[from..to], &x), &y[from..to]);
    }
    for (found, expected) in learner.tasks().unwrap().iter().zip(oracle.tasks().unwrap()) {
        let numbers = |task: &pmfcl::TaskReport| {
            vec![task.loss.unwrap(), task.min_loss.unwrap(), task.forgetting.unwrap()]
        };
        near(&numbers(found), &numbers(&expected), 1e-10, &expected.name);
    }
    near(
        &[learner.mean_forgetting().unwrap()],
        &[oracle.mean_forgetting().unwrap()],
        1e-10,
        "mean forgetting",
    );
    // Parameters answer rows with gaps apart, without being told of means.
    let theta = learner.parameters().unwrap().theta;
    let rows = apart(&x);
    let by_hand: Vec<f64> = rows
        .chunks(6)
        .map(|row| {
            let column = theta.column(0);
            column[0] + row.iter().zip(&column[1..]).map(|(a, b)| a * b).sum::<f64>()
        })
        .collect();
    near(&by_hand, &answers(&learner, &rows, 6), 1e-10, "parameters");
    let means = learner.input_means().unwrap();
    let there: Vec<f64> = x.iter().filter_map(|row| row[1]).collect();
    near(&[means[1]], &[there.iter().sum::<f64>() / there.len() as f64], 1e-12, "mean");
}

#[test]
fn tasks_that_count_equally_have_means_that_do() {
    let (x, y) = table(300);
    let settings =
        Settings { prefer: Preference::Equal, ridge: Ridge::Fixed(0.0), ..Settings::default() };
    let pieces = [(0, 60), (60, 300)];
    let learner = in_pieces(&Problem::squared(), &settings, &pieces, &x, &y);
    let sums = |part: &[[Option<f64>; COLUMNS]]| {
        let there: Vec<f64> = part.iter().filter_map(|row| row[1]).collect();
        let n = part.len() as f64;
        (there.iter().sum::<f64>() / n, there.len() as f64 / n)
    };
    let (a, b) = (sums(&x[..60]), sums(&x[60..]));
    near(&[learner.input_means().unwrap()[1]], &[(a.0 + b.0) / (a.1 + b.1)], 1e-12, "mean");
}

#[test]
fn a_column_that_is_always_missing_and_fewer_rows_than_columns() {
    let (mut x, y) = table(5);
    x.iter_mut().for_each(|row| row[3] = None);
    let settings = Settings { ridge: Ridge::Fixed(0.01), ..Settings::default() };
    let learner = in_pieces(&Problem::squared(), &settings, &[(0, 2), (2, 5)], &x, &y);
    let full: Vec<[Option<f64>; COLUMNS]> =
        x.iter().map(|row| [row[0], row[1], row[2], Some(0.0)]).collect();
    let mut oracle = Learner::new(Problem::squared(), settings).unwrap();
    learn(&mut oracle, "all", &filled(&full, &full), &y);
    near(
        &answers(&learner, &apart(&x), 6),
        &answers(&oracle, &filled(&full, &full), COLUMNS),
        1e-10,
        "always missing",
    );
    assert!(learner.input_means().unwrap()[3].abs() < 1e-12);
}

#[test]
fn means_are_refused_where_sums_of_inputs_are_not_in_memory() {
    let (x, y) = table(60);
    let rows = apart(&x);
    let cases = [
        ("squared", "poly:2", true, "linear basis"),
        ("squared", "linear", false, "intercept"),
        ("huber", "linear", true, "bounds"),
    ];
    for (loss, basis, intercept, reason) in cases {
        let settings = Settings { basis: basis.parse().unwrap(), intercept, ..Settings::default() };
        let mut learner = Learner::new(Problem::parse(loss, None).unwrap(), settings).unwrap();
        learn(&mut learner, "a", &rows, &y);
        let before = answers(&learner, &rows, 6);
        let error = learner.set_fills(FILLS.to_vec()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        let error = learner.input_means().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert_eq!(answers(&learner, &rows, 6), before);
    }
}

/// A column that came later and whose past is stated: the model is that of rows which had it all along.
#[test]
fn a_column_with_a_stated_past_equals_rows_that_had_it() {
    let (x, y) = table(300);
    let x = filled(&x, &x);
    let settings = |memory| Settings { memory, ..Settings::default() };
    let wide = |rows: &[f64], before: Option<[f64; 2]>| -> Vec<f64> {
        let mut seed = 11;
        let one = |row: &[f64]| {
            let more = before.unwrap_or_else(|| [3.0 + noise(&mut seed), noise(&mut seed)]);
            [row, &more].concat()
        };
        rows.chunks_exact(COLUMNS).flat_map(one).collect()
    };
    let (old, new) = x.split_at(120 * COLUMNS);
    let stated = [2.5, -4.0];
    let later = wide(new, None);
    let plain = Problem::gaussian().with_option("calibrate", "off").unwrap();
    let class = Problem::gaussian().with_option("covariance", "class").unwrap();
    for problem in [Problem::squared(), plain, Problem::gaussian(), class] {
        for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
            let what = format!("{problem} {:?} {memory}", problem.options());
            let mut model = Learner::new(problem.clone(), settings(memory)).unwrap();
            let mut whole = model.clone();
            learn(&mut model, "old", old, &y[..120]);
            let before = answers(&model, old, COLUMNS);
            model.extend_inputs_with(&stated).unwrap();
            assert!(model.extend_inputs_with(&[f64::NAN]).is_err());
            let had = wide(old, Some(stated));
            let extended = answers(&model, &had, COLUMNS + 2);
            near(&extended, &before, 1e-9, &what);
            learn(&mut whole, "old", &had, &y[..120]);
            // Temperatures depend on when solutions were asked for.
            near(&answers(&whole, &had, COLUMNS + 2), &extended, 1e-9, &what);
            learn(&mut model, "new", &later, &y[120..]);
            learn(&mut whole, "new", &later, &y[120..]);
            let all = [had.clone(), later.clone()].concat();
            let (found, expected) =
                (answers(&model, &all, COLUMNS + 2), answers(&whole, &all, COLUMNS + 2));
            near(&found, &expected, 1e-9, &what);
            // What was measured depends on the tasks there were.
            if memory == MemoryKind::Ledger
                && !problem.options().contains(&("calibrate", "on".to_owned()))
            {
                model.unlearn("new").unwrap();
                near(&answers(&model, &had, COLUMNS + 2), &extended, 1e-7, &what);
            }
        }
    }
    let none = Settings { intercept: false, ..Settings::default() };
    let mut model = Learner::new(Problem::squared(), none).unwrap();
    learn(&mut model, "old", old, &y[..120]);
    let refused = model.extend_inputs_with(&stated).unwrap_err().to_string();
    assert!(refused.contains("without an intercept"), "{refused}");
    model.extend_inputs_with(&[0.0, 0.0]).unwrap();
    // A bound holds at the point where the task was expanded, and rows with the column have another.
    let mut model = Learner::new(Problem::logistic(), Settings::default()).unwrap();
    learn(&mut model, "old", old, &y[..120]);
    let refused = model.extend_inputs_with(&stated).unwrap_err().to_string();
    assert!(refused.contains("near one point"), "{refused}");
    model.extend_inputs_with(&[0.0, 0.0]).unwrap();
}
