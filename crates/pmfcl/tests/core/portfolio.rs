//! Bases behind a frozen map, and the portfolio of `auto`: what is chosen depends on the rows alone, far rows do no harm, and
//! what an earlier version wrote means what it meant.

use crate::support::Table;
use pmfcl::basis::Map;
use pmfcl::federated::{Broadcast, Rules, Server, Update};
use pmfcl::problem::Agreement;
use pmfcl::{
    Accumulator, Basis, Design, Labels, Learner, MemoryKind, Problem, Ridge, Rows, Settings,
    TaskRows,
};
use pmfcl_oracle::Draw;

/// What any two ways may differ by, in standard deviations of the target.
const SAME: f64 = 1e-7;
const D: usize = 4;

fn basis(spec: &str) -> Basis {
    spec.parse().unwrap()
}

/// y = sin(2x₀) + x₁x₂ + 0.1·noise; the last input is constant, or a copy.
fn curved(n: usize, seed: u64) -> Table {
    let mut draw = Draw::new(seed);
    let mut table = Table::noise(n, D, 1, &mut draw);
    for (row, y) in table.x.chunks_exact_mut(D).zip(&mut table.y) {
        row[3] = if seed.is_multiple_of(2) { 7.0 } else { row[0] };
        *y = (2.0 * row[0]).sin() + row[1] * row[2] + 0.1 * *y;
    }
    table
}

/// The same curve of the first of several inputs.
fn several(n: usize, seed: u64, d: usize) -> Table {
    let mut table = Table::noise(n, d, 1, &mut Draw::new(seed));
    for (row, y) in table.x.chunks_exact(d).zip(&mut table.y) {
        *y = (2.0 * row[0]).sin() + row[1] * row[2] + 0.1 * *y;
    }
    table
}

fn settings(spec: &str) -> Settings {
    Settings { basis: basis(spec), threads: 1, ..Settings::default() }
}

/// A learner whose design was fixed by the first rows of a table, as all ways of learning it have to share one.
fn fixed(problem: Problem, settings: &Settings, table: &Table) -> Learner {
    fixed_by(300, problem, settings, table)
}

fn fixed_by(first: usize, problem: Problem, settings: &Settings, table: &Table) -> Learner {
    let mut learner = Learner::new(problem, settings.clone()).unwrap();
    let first = table.part(0, table.n().min(first));
    let design = learner.design_for(&first.rows()).unwrap();
    learner.fix_design(design).unwrap();
    learner
}

fn learned(settings: &Settings, table: &Table, cuts: &[Vec<usize>]) -> Learner {
    learned_by(300, settings, table, cuts)
}

fn learned_by(first: usize, settings: &Settings, table: &Table, cuts: &[Vec<usize>]) -> Learner {
    let mut learner = fixed_by(first, Problem::squared(), settings, table);
    for (t, rows) in cuts.iter().enumerate() {
        learner.learn(&t.to_string(), table.pick(rows).task(), 1.0).unwrap();
    }
    learner
}

/// All rows in another order, cut into `count` tasks of uneven sizes.
fn cuts(n: usize, count: usize, seed: u64) -> Vec<Vec<usize>> {
    let order = Draw::new(seed).order(n);
    let mut ends: Vec<usize> = (1..count).map(|t| n * t * t / (count * count) + t).collect();
    ends.push(n);
    let mut from = 0;
    ends.into_iter().map(|to| order[std::mem::replace(&mut from, to)..to].to_vec()).collect()
}

fn deviation(y: &[f64]) -> f64 {
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    (y.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / y.len() as f64).sqrt()
}

fn gap(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()))
}

fn chosen(learner: &Learner) -> String {
    let found = learner.candidates().unwrap();
    let mut chosen = found.iter().filter(|c| c.chosen).map(|c| c.name.clone());
    let name = chosen.next().expect("one is chosen");
    assert_eq!(chosen.next(), None);
    name
}

#[test]
fn choice_and_predictions_do_not_depend_on_split_order_memory_or_accumulator() {
    // Rows, seed, and how many of them fix the design.
    for (n, seed, first) in
        [(900, 1, 300), (900, 2, 300), (60, 3, 300), (25, 4, 300), (900, 5, 40), (900, 6, 3)]
    {
        let table = curved(n, seed);
        let plain = settings("auto:60");
        let whole = learned_by(first, &plain, &table, &[(0..n).collect()]);
        let expected = whole.predict(table.rows()).unwrap();
        let sd = deviation(&table.y);
        let compact = Settings { memory: MemoryKind::Compact, ..plain.clone() };
        let gram = Settings { accumulator: Accumulator::Gram, ..plain.clone() };
        let threads = Settings { threads: 3, ..plain.clone() };
        for (what, settings) in
            [("ledger", &plain), ("compact", &compact), ("gram", &gram), ("threads", &threads)]
        {
            for count in [1, 2, 7] {
                let other = learned_by(first, settings, &table, &cuts(n, count, seed + 10));
                let way = format!("{what}, {count} tasks, {n} rows, {first} first");
                assert_eq!(chosen(&other), chosen(&whole), "{way}");
                let found = gap(&other.predict(table.rows()).unwrap(), &expected) / sd;
                assert!(found <= SAME, "{way}: {found:e} sd");
            }
        }
    }
}

#[test]
fn sums_of_products_do_for_some_hundred_columns_of_enough_inputs() {
    let table = several(900, 15, 8);
    let plain = settings("auto:150");
    let whole = learned(&plain, &table, &[(0..900).collect()]);
    assert_eq!(whole.accumulator(), Accumulator::Gram);
    assert_eq!(learned(&settings("auto:60"), &table, &[]).accumulator(), Accumulator::Qr);
    let expected = whole.predict(table.rows()).unwrap();
    let factors = Settings { accumulator: Accumulator::Qr, ..plain.clone() };
    for (settings, count) in [(&plain, 7), (&factors, 1), (&factors, 7)] {
        let other = learned(settings, &table, &cuts(900, count, 4));
        assert_eq!(chosen(&other), chosen(&whole));
        let found = gap(&other.predict(table.rows()).unwrap(), &expected) / deviation(&table.y);
        assert!(found <= SAME, "{count} tasks: {found:e} sd");
    }
    // 490 columns and the inputs are more than 8 inputs tell apart, and 150 more than 4 do, of which one is a copy or a constant.
    assert_eq!(learned(&settings("auto:490"), &table, &[]).accumulator(), Accumulator::Qr);
    for seed in [15, 16] {
        let few = curved(900, seed);
        let whole = learned(&plain, &few, &[(0..900).collect()]);
        assert_eq!(whole.accumulator(), Accumulator::Qr);
        let parts = learned(&plain, &few, &cuts(900, 7, 4));
        let expected = whole.predict(few.rows()).unwrap();
        let found = gap(&parts.predict(few.rows()).unwrap(), &expected) / deviation(&few.y);
        assert!(found <= SAME, "{found:e} sd");
    }
    // Who names a ridge may name one that is too small for products.
    let ridge = Settings { ridge: Ridge::Fixed(0.0), ..plain };
    assert_eq!(learned(&ridge, &table, &[]).accumulator(), Accumulator::Qr);
}

#[test]
fn inputs_that_are_nearly_copies_of_others_cost_no_digits() {
    // The last four inputs are the first in another unit, printed with three places: columns differ by 1e-4 of their size and less.
    const INPUTS: usize = 12;
    let mut table = several(3_000, 21, INPUTS);
    for row in table.x.chunks_exact_mut(INPUTS) {
        row.iter_mut().for_each(|x| *x = (0.6 * *x).exp());
        for j in 0..4 {
            row[8 + j] = (3e3 * row[j]).round() / 1e3;
        }
    }
    // Rows of a kind come together.
    let mut sorted: Vec<usize> = (0..3_000).collect();
    sorted.sort_by(|a, b| table.x[a * INPUTS].total_cmp(&table.x[b * INPUTS]));
    let plain = settings("auto:320");
    let compact = Settings { memory: MemoryKind::Compact, ..plain.clone() };
    let factors = Settings { accumulator: Accumulator::Qr, ..plain.clone() };
    let whole = learned(&plain, &table, &[(0..3_000).collect()]);
    assert_eq!(whole.accumulator(), Accumulator::Gram);
    let expected = whole.predict(table.rows()).unwrap();
    for (settings, cuts) in [
        (&plain, cuts(3_000, 2, 1)),
        (&plain, cuts(3_000, 7, 2)),
        (&plain, vec![sorted]),
        (&compact, cuts(3_000, 2, 1)),
        (&factors, cuts(3_000, 1, 3)),
    ] {
        let other = learned(settings, &table, &cuts);
        assert_eq!(chosen(&other), chosen(&whole));
        let found = gap(&other.predict(table.rows()).unwrap(), &expected) / deviation(&table.y);
        assert!(found <= SAME, "{} tasks, {:?}: {found:e} sd", cuts.len(), settings.accumulator);
    }
    // So wide that compact memory keeps sums, with a fifth of a column for each row: products lose a digit more than promised.
    let wide = settings("auto:600");
    let compact = Settings { memory: MemoryKind::Compact, ..wide.clone() };
    let factors = Settings { accumulator: Accumulator::Qr, ..wide };
    let [sums, factors] = [&compact, &factors].map(|settings| {
        learned(settings, &table, &cuts(3_000, 2, 1)).predict(table.rows()).unwrap()
    });
    let found = gap(&sums, &factors) / deviation(&table.y);
    assert!(found <= 10.0 * SAME, "{found:e} sd");
}

#[test]
fn the_default_width_is_fixed_by_the_number_of_first_rows_and_kept() {
    let rows = Draw::new(9).normals(12_000 * D);
    for (first, width) in [(1, 1200), (3_000, 1200), (5_000, 800), (10_000, 400), (12_000, 336)] {
        let map = basis("auto").fix(&rows[..first * D], D).unwrap();
        assert_eq!(map.width(), 2 * D + width, "{first} rows");
        assert_eq!(map.basis().to_string(), "auto");
        assert_eq!(Map::thaw(map.basis(), D, &map.frozen()).unwrap(), map);
    }
    assert_eq!(basis("auto:90").fix(&rows[..400], D).unwrap().width(), 2 * D + 90);
    // Wide tables have wide models, within bounds.
    let wide = |d: usize| basis("auto").fix(&rows[..40 * d], d).unwrap().width() - 2 * d;
    assert_eq!((wide(100), wide(300), wide(1000)), (1200, 1520, 2000));
    let map = basis("auto:90").fix(&rows[..400], D).unwrap();
    let (mut other, last) = (map.frozen(), map.frozen().len());
    other[last - 2] = 91.0;
    assert!(Map::thaw(map.basis(), D, &other).is_err(), "another width than the one given");
    assert!(Map::thaw(map.basis(), D, &map.frozen()[..last - 1]).is_err());
    for wrong in [0.0, 90.5, -3.0, 1e9] {
        other[last - 2] = wrong;
        assert!(Map::thaw(&basis("auto"), D, &other).is_err(), "{wrong}");
    }
}

#[test]
fn codes_of_categories_have_no_splines() {
    let names = |codes: bool| {
        let mut rows = Draw::new(2).normals(200 * D);
        for row in rows.chunks_exact_mut(D).filter(|_| codes) {
            row[1..].iter_mut().for_each(|x| *x = f64::from(u8::from(*x > 0.0)));
        }
        let map = basis("auto").fix(&rows, D).unwrap();
        map.candidates().iter().map(|c| c.name.clone()).collect::<Vec<_>>()
    };
    assert!(names(false).contains(&"bounded+spline".to_owned()));
    assert!(names(true).iter().all(|name| !name.contains("spline")), "{:?}", names(true));
}

#[test]
fn a_line_is_left_for_more_than_chance_alone() {
    // Noise around a line: whatever scores a little better by chance does not predict.
    for seed in 0..20 {
        let line = Table::linear(150, &[1.0, -1.0, 0.5, 0.0], 3.0, &mut Draw::new(seed));
        let learner = learned(&settings("auto:60"), &line, &[(0..150).collect()]);
        let found = learner.candidates().unwrap();
        let linear = found.iter().find(|c| c.name == "linear").unwrap();
        let best = found.iter().map(|c| c.score).fold(f64::INFINITY, f64::min);
        let enough = best <= linear.score * (1.0 - 1.0 / 150.0_f64.sqrt());
        assert!(linear.chosen || enough, "{seed}: {found:?}");
    }
}

/// Rows of a line, as heavy in the tails as Student's t with three degrees of freedom, in the order of the first input.
fn heavy(n: usize, seed: u64) -> Table {
    let mut draw = Draw::new(seed);
    let mut rows: Vec<[f64; D]> = (0..n)
        .map(|_| {
            [(); D].map(|()| {
                let squares: f64 = (0..3).map(|_| draw.normal().powi(2)).sum();
                draw.normal() / (squares / 3.0).sqrt()
            })
        })
        .collect();
    rows.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let y = rows.iter().map(|x| x[0] - 2.0 * x[1] + 0.5 * x[2] + 1.5 * draw.normal()).collect();
    Table { x: rows.concat(), y, d: D, p: 1 }
}

#[test]
fn the_candidate_of_the_inputs_is_the_line_wherever_rows_are() {
    // The first quarter of a sorted table fixes the basis, and has seen a quarter of the range; tails are heavy as well.
    for seed in 0..3 {
        let table = heavy(1200, seed);
        let tasks: Vec<Vec<usize>> = (0..4).map(|t| (300 * t..300 * t + 300).collect()).collect();
        let auto = learned(&settings("auto:60"), &table, &tasks);
        let line = learned(&settings("linear"), &table, &tasks);
        assert_eq!(chosen(&auto), "linear");
        let held = heavy(1200, 100 + seed);
        let (a, b) = (auto.predict(held.rows()).unwrap(), line.predict(held.rows()).unwrap());
        let found = gap(&a, &b) / deviation(&table.y);
        assert!(found <= SAME, "{seed}: {found:e} sd");
        let mut kept = auto.clone();
        kept.keep_chosen().unwrap();
        let found = gap(&kept.predict(held.rows()).unwrap(), &b) / deviation(&table.y);
        assert!(found <= SAME, "{seed}: {found:e} sd");
    }
}

/// Visits: most rows have few, some have very many, and the inputs say a little of which.
fn visits(n: usize, seed: u64) -> Table {
    let mut draw = Draw::new(seed);
    let mut table = Table::noise(n, D, 1, &mut draw);
    for (row, y) in table.x.chunks_exact(D).zip(&mut table.y) {
        *y = (0.7 * (row[0] + row[1]) + 1.2 * draw.normal()).exp();
    }
    table
}

/// The same rows learned from summaries that do not say how heavy the tails of the targets are, as those of earlier versions.
fn learned_without_tails(settings: &Settings, table: &Table) -> Learner {
    let mut learner = fixed(Problem::squared(), settings, table);
    let mut summary = learner.summarize(table.task()).unwrap();
    assert!(summary.tails.take().is_some());
    learner.insert_summary("0", summary, 1.0).unwrap();
    learner
}

#[test]
fn heavy_tails_ask_for_a_larger_margin() {
    let (mut left, mut kept) = (0, 0);
    for seed in 0..20 {
        let table = visits(300, seed);
        let all = [(0..300).collect()];
        let known = learned(&settings("auto:60"), &table, &all);
        let unknown = learned_without_tails(&settings("auto:60"), &table);
        left += usize::from(chosen(&unknown) != "linear");
        kept += usize::from(chosen(&known) != "linear");
        // By hand: the margin grows with the kurtosis, and only it.
        let mean = table.y.iter().sum::<f64>() / 300.0;
        let moment = |power| table.y.iter().map(|v| (v - mean).powi(power)).sum::<f64>() / 300.0;
        let error = ((moment(4) / moment(2).powi(2) - 1.0) / 2.0).sqrt();
        assert!(error > 2.0, "these tails are heavy");
        if chosen(&known) != chosen(&unknown) {
            assert_eq!(chosen(&known), "linear");
        }
    }
    assert!(left >= 5 && 2 * kept < left, "{left} left the line without tails, {kept} with them");
    // Targets without heavy tails: nothing changes.
    let table = curved(700, 7);
    let known = learned(&settings("auto:60"), &table, &[(0..700).collect()]);
    assert_eq!(chosen(&known), chosen(&learned_without_tails(&settings("auto:60"), &table)));
}

#[test]
fn features_predict_little_beyond_the_targets_learned_and_lines_go_on() {
    let table = curved(700, 7);
    let whole = learned(&settings("auto:60"), &table, &[(0..400).collect(), (400..700).collect()]);
    assert_ne!(chosen(&whole), "linear");
    let ends = |y: &[f64]| {
        let most = y.iter().copied().fold(f64::MIN, f64::max);
        (y.iter().copied().fold(f64::MAX, f64::min), most)
    };
    let (least, most) = ends(&table.y);
    let beyond = (most - least) / 20.0;
    let far: Vec<f64> = Draw::new(5).normals(400 * D).iter().map(|x| 4.0 * x).collect();
    let far = Rows::new(&far, D).unwrap();
    let found = ends(&whole.predict(far).unwrap());
    assert!(found.0 >= least - beyond * 1.000_001 && found.1 <= most + beyond * 1.000_001);
    assert!(found.0 < least || found.1 > most, "the limits do not cut what was learned");
    // Without the task that has the largest target the limits are those of the other.
    let at = table.y.iter().position(|y| y.total_cmp(&most).is_eq()).unwrap();
    let (gone, rest) = if at < 400 { ("0", 400..700) } else { ("1", 0..400) };
    let mut removed = whole.clone();
    removed.unlearn(gone).unwrap();
    let (least, most) = ends(&table.y[rest]);
    let beyond = (most - least) / 20.0;
    let found = ends(&removed.predict(far).unwrap());
    assert!(found.0 >= least - beyond * 1.000_001 && found.1 <= most + beyond * 1.000_001);
    // A line goes on.
    let line = Table::linear(150, &[1.0, -1.0, 0.5, 0.0], 0.1, &mut Draw::new(1));
    let learner = learned(&settings("auto:60"), &line, &[(0..150).collect()]);
    assert_eq!(chosen(&learner), "linear");
    let found = learner.predict(Rows::new(&[9.0, -9.0, 9.0, 0.0], D).unwrap()).unwrap();
    assert!(found[0] > 1.5 * ends(&line.y).1, "{found:?}");
}

#[test]
fn tails_come_back_from_bytes_and_wrong_ones_are_refused() {
    let table = curved(300, 5);
    let agreed = fixed(Problem::squared(), &settings("auto:60"), &table);
    let design = agreed.design().unwrap().clone();
    let agreement = Agreement::new(Problem::squared(), settings("auto:60"), design, 1).unwrap();
    let update = Update::of_rows(&agreement, "a", 1, table.task()).unwrap();
    let bytes = update.to_bytes();
    assert!(bytes.len() <= Update::most_bytes(&agreement, false, false));
    let back = Update::from_bytes(&bytes, bytes.len()).unwrap();
    assert!(back.task().tails.is_some());
    assert_eq!(back.to_bytes(), bytes);
    let mut task = back.task().clone();
    task.tails = fixed(Problem::squared(), &settings("auto:60"), &table)
        .summarize(curved(300, 8).task())
        .unwrap()
        .tails;
    let lie = Update::of_task(&agreement, "a", 1, task).unwrap();
    let mut server = Server::new(agreement, Rules::default()).unwrap();
    let refused = server.accept(lie).unwrap_err().to_string();
    assert!(refused.contains("tails"), "{refused}");
    server.accept(update).unwrap();
}

#[test]
fn a_spline_that_hardly_any_row_has_entered_moves_no_prediction_far() {
    // Inputs in two lumps. The first spline of each begins where the lower one ends: some rows have millionths of it.
    let mut table = Table::noise(300, 2, 1, &mut Draw::new(4));
    for (i, row) in table.x.chunks_exact_mut(2).enumerate() {
        for (j, x) in row.iter_mut().enumerate() {
            let share = (i * (7 + 4 * j) % 300) as f64 / 300.0;
            *x = if (i + j) % 2 == 0 { -1.26 + 0.5 * share } else { 0.7 + share };
        }
        table.y[i] += 2.0 * row[0];
    }
    let far: Vec<f64> = (0..40).flat_map(|i| [-1.3 - 0.02 * f64::from(i), -1.3]).collect();
    for spec in ["auto:60", "auto:60,only=bounded+spline", "spline:6"] {
        let learner = learned(&settings(spec), &table, &[(0..300).collect()]);
        let found = learner.predict(Rows::new(&far, 2).unwrap()).unwrap();
        let range = table.y.iter().fold(0.0_f64, |m, y| m.max(y.abs()));
        assert!(found.iter().all(|y| y.abs() < 2.0 * range), "{spec}: {range} {found:?}");
    }
}

#[test]
fn merging_and_removing_end_at_the_choice_of_one_fit() {
    let table = curved(800, 5);
    let plain = settings("auto:60");
    let parts = cuts(800, 5, 3);
    let whole = learned(&plain, &table, &[(0..800).collect()]);
    let expected = whole.predict(table.rows()).unwrap();
    let mut merged = fixed(Problem::squared(), &plain, &table);
    let mut other = merged.clone();
    for (t, rows) in parts.iter().enumerate() {
        let half = if t < 2 { &mut merged } else { &mut other };
        half.learn(&format!("part {t}"), table.pick(rows).task(), 1.0).unwrap();
    }
    merged.merge(&other).unwrap();
    // A task of straight lines, which would choose otherwise, comes and goes.
    let line = Table::linear(5000, &[1.0, 2.0, 3.0, 4.0], 0.1, &mut Draw::new(8));
    merged.learn("line", line.task(), 1.0).unwrap();
    merged.solution().unwrap();
    merged.unlearn("line").unwrap();
    assert_eq!(chosen(&merged), chosen(&whole));
    let found = gap(&merged.predict(table.rows()).unwrap(), &expected) / deviation(&table.y);
    assert!(found <= SAME, "{found:e} sd");
}

#[test]
fn probabilities_of_a_portfolio_do_not_depend_on_the_split() {
    let table = curved(600, 6);
    let names: Vec<&str> = table.y.iter().map(|y| if *y > 0.0 { "up" } else { "down" }).collect();
    let problem = Problem::gaussian().with_option("calibrate", "off").unwrap();
    let run = |parts: &[Vec<usize>]| {
        let mut learner = fixed(problem.clone(), &settings("auto:60"), &table);
        for (t, rows) in parts.iter().enumerate() {
            let labels: Vec<&str> = rows.iter().map(|&i| names[i]).collect();
            let part = table.pick(rows);
            let labels = Labels::new(&labels);
            learner.learn(&t.to_string(), TaskRows::new(part.rows(), &labels), 1.0).unwrap();
        }
        learner
    };
    let whole = run(&[(0..600).collect()]);
    let split = run(&cuts(600, 6, 2));
    assert_eq!(chosen(&whole), chosen(&split));
    assert_ne!(chosen(&whole), "linear", "the classes are not separated by a line");
    let (a, b) =
        (whole.probabilities(table.rows()).unwrap(), split.probabilities(table.rows()).unwrap());
    assert!(gap(&a, &b) <= SAME, "{:e}", gap(&a, &b));
    let hits = whole.predict_classes(table.rows()).unwrap();
    let hits = hits.iter().zip(&names).filter(|(a, b)| a == *b).count();
    assert!(hits > 540, "{hits} of 600");
    // Reports, novelty and calibration see the chosen columns alone.
    assert!(whole.tasks().unwrap()[0].loss.is_some());
    let mut measured = whole.clone();
    measured.calibrate(TaskRows::new(table.rows(), &Labels::new(&names)), true).unwrap();
    let novelty = measured.novelty(table.rows()).unwrap();
    let middle = novelty.iter().filter(|v| **v < 0.5).count();
    assert!((200..400).contains(&middle), "half of the rows are nearer than the median: {middle}");
}

#[test]
fn straight_lines_stay_straight_and_curves_are_followed() {
    let line = Table::linear(500, &[1.0, -2.0, 0.5, 0.0], 0.5, &mut Draw::new(1));
    let learner = learned(&settings("auto"), &line, &[(0..500).collect()]);
    let plain = learned(&settings("linear"), &line, &[(0..500).collect()]);
    let held = Table::linear(500, &[1.0, -2.0, 0.5, 0.0], 0.5, &mut Draw::new(2));
    let error = |l: &Learner, t: &Table| l.evaluate(t.task()).unwrap().r2();
    let (a, b) = (error(&learner, &held), error(&plain, &held));
    assert!(a > b - 0.005, "{a} against {b} of the linear basis");
    let learner = learned(&settings("auto"), &curved(2000, 3), &[(0..2000).collect()]);
    let held = curved(1000, 5);
    assert_ne!(chosen(&learner), "linear");
    assert!(error(&learner, &held) > 0.95, "{}", error(&learner, &held));
}

#[test]
fn the_chosen_candidate_is_the_basis_that_has_its_columns_alone() {
    let table = curved(700, 7);
    let whole = learned(&settings("auto:60"), &table, &[(0..700).collect()]);
    let only = settings(&format!("auto:60,only={}", chosen(&whole)));
    let alone = learned(&only, &table, &[(0..700).collect()]);
    let sd = deviation(&table.y);
    let expected = whole.predict(table.rows()).unwrap();
    let found = gap(&alone.predict(table.rows()).unwrap(), &expected) / sd;
    assert!(found <= SAME, "{found:e} sd");

    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let settings = Settings { memory, ..settings("auto:60") };
        let mut kept = learned(&settings, &table, &cuts(700, 4, 1));
        let before = (kept.state_bytes(), chosen(&kept));
        kept.keep_chosen().unwrap();
        assert_eq!(kept.settings().basis, only.basis);
        assert!(kept.candidates().unwrap().is_empty(), "what was kept is not chosen from again");
        let found = gap(&kept.predict(table.rows()).unwrap(), &expected) / sd;
        assert!(found <= SAME, "{memory:?}: {found:e} sd");
        assert!(kept.state_bytes() <= before.0);
        // Goes on learning, and its tasks can be removed.
        kept.learn("more", curved(50, 1).task(), 1.0).unwrap();
        if memory == MemoryKind::Ledger {
            kept.unlearn("more").unwrap();
            let found = gap(&kept.predict(table.rows()).unwrap(), &expected) / sd;
            assert!(found <= SAME, "{found:e} sd");
        }
    }
    let mut linear = learned(&settings("linear"), &table, &[(0..700).collect()]);
    let refused = linear.keep_chosen().unwrap_err().to_string();
    assert!(refused.contains("only `auto` has"), "{refused}");
}

#[test]
fn what_is_exported_predicts_the_same() {
    let table = curved(500, 9);
    let learner = learned(&settings("auto:60"), &table, &[(0..500).collect()]);
    let (design, parameters) = learner.deployed().unwrap();
    assert_eq!(design.width(), parameters.theta.width());
    let expected = learner.predict(table.rows()).unwrap();
    let (m, theta) = (design.width(), parameters.theta.column(0));
    let mut columns = vec![0.0; table.n() * (m - 1)];
    design.map().apply(&table.x, &mut columns, m - 1, 0).unwrap();
    let found: Vec<f64> = columns
        .chunks_exact(m - 1)
        .map(|row| theta[0] + row.iter().zip(&theta[1..]).map(|(x, t)| x * t).sum::<f64>())
        .collect();
    assert!(gap(&found, &expected) < 1e-9);
}

#[test]
fn far_rows_do_not_explode() {
    let table = curved(1500, 3);
    let range = table.y.iter().fold(0.0_f64, |m, y| m.max(y.abs())) * 2.0;
    let far = |learner: &Learner| {
        let mut largest = 0.0_f64;
        for factor in [1.0, 10.0, 1e3, 1e6, 1e12] {
            let x: Vec<f64> = table.x.iter().map(|x| x * factor).collect();
            let found = learner.predict(Rows::new(&x, D).unwrap()).unwrap();
            largest = found.iter().fold(largest, |m, v| m.max(v.abs()));
        }
        largest / range
    };
    // A line goes on with its inputs, but no farther than 50 deviations of the targets, which is within 25 times their range.
    let line = Table::linear(1500, &[1.0, -2.0, 0.5, 3.0], 0.5, &mut Draw::new(5));
    let learner = learned(&settings("auto"), &line, &[(0..1500).collect()]);
    assert_eq!(chosen(&learner), "linear");
    let most = 50.0 * deviation(&line.y);
    let mean = line.y.iter().sum::<f64>() / 1500.0;
    for factor in [10.0, 1e3, 1e6, 1e12] {
        let x: Vec<f64> = line.x.iter().map(|x| x * factor).collect();
        let found = learner.predict(Rows::new(&x, D).unwrap()).unwrap();
        let largest = found.iter().fold(0.0_f64, |m, v| m.max((v - mean).abs()));
        assert!(largest <= most * (1.0 + 1e-9), "{factor}: {largest} beyond {most}");
        assert!(factor < 1e3 || largest >= most * (1.0 - 1e-9));
    }
    for spec in [
        "auto",
        "relu:200",
        "spline:8",
        "rff:200",
        "rbf:100",
        "ntk:20",
        "poly:3,scale=clip",
        "spline:8,scale=quantile",
        "relu:200,scale=quantile",
    ] {
        let learner = learned(&settings(spec), &table, &[(0..1500).collect()]);
        let found = far(&learner);
        assert!(found < 10.0, "{spec}: {found} times the range of the target");
    }
    // What it was before, and still is for who asks for it.
    let old = learned(&settings("relu:200,scale=range"), &table, &[(0..1500).collect()]);
    assert!(far(&old) > 1e3);
}

#[test]
fn inputs_next_to_features_make_no_basis_worse_than_linear_where_linear_is_right() {
    let line = Table::linear(400, &[3.0, -2.0, 1.0, 0.5], 0.3, &mut Draw::new(3));
    let held = Table::linear(400, &[3.0, -2.0, 1.0, 0.5], 0.3, &mut Draw::new(4));
    let error = |spec: &str| {
        let learner = learned(&settings(spec), &line, &[(0..400).collect()]);
        learner.evaluate(held.task()).unwrap().r2()
    };
    let linear = error("linear");
    for spec in ["rff:100", "relu:100", "rbf:50", "spline:6"] {
        assert!(error(spec) > linear - 0.01, "{spec}: {} against {linear}", error(spec));
    }
}

#[test]
fn a_spec_in_a_file_means_what_it_meant() {
    let rows: Vec<f64> = Draw::new(5).normals(60);
    let later: Vec<f64> = Draw::new(6).normals(30).iter().map(|x| 10.0 * x).collect();
    let columns = |map: &Map| {
        let mut out = vec![0.0; 15 * map.width()];
        map.apply(&later, &mut out, map.width(), 0).unwrap();
        out.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
    };
    for (old, now) in [
        ("rff:20", "rff:20,scale=range"),
        ("rff:20,seed=3", "rff:20,scale=range,seed=3"),
        ("rff:20,gamma=0.5", "rff:20,gamma=0.5"),
        ("relu:20", "relu:20,scale=range"),
        ("rbf:20", "rbf:20,scale=range"),
        ("ntk:5", "ntk:5,scale=range"),
        ("spline:7", "spline:7,scale=range"),
        ("spline:7,lo=0.0,hi=1.0", "spline:7,lo=0.0,hi=1.0"),
        ("poly:2", "poly:2"),
    ] {
        let stored = Basis::from_stored(old).unwrap();
        assert_eq!(stored, basis(now), "{old}");
        assert_eq!(stored.stored(), old, "files and agreements of before are unchanged");
        assert_eq!(stored.to_string(), now);
        let (a, b) = (stored.fix(&rows, 2).unwrap(), basis(now).fix(&rows, 2).unwrap());
        assert_eq!(columns(&a), columns(&b));
        assert_eq!(a.frozen(), b.frozen());
    }
    for spec in [
        "rff:20",
        "spline:7,linear=off",
        "relu:9,scale=quantile",
        "auto:90,seed=4",
        "poly:2,scale=clip",
    ] {
        let now = basis(spec);
        assert_eq!(Basis::from_stored(&now.stored()).unwrap(), now, "{spec}");
        assert_eq!(basis(&now.to_string()), now, "{spec}");
    }
    assert_eq!(basis("rff:20").stored(), "rff:20,scale=clip");
}

#[test]
fn a_federation_agrees_on_the_portfolio_and_on_what_it_chooses() {
    let table = curved(400, 11);
    let settings = settings("auto:50");
    let map = settings.basis.fix(&table.x[..200 * D], D).unwrap();
    let design = Design::new(map, true);
    let agreement = Agreement::new(Problem::squared(), settings.clone(), design, 1).unwrap();
    let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
    for (step, rows) in cuts(400, 4, 1).iter().enumerate() {
        let part = table.pick(rows);
        let update = Update::of_rows(&agreement, "client", step as u64 + 1, part.task()).unwrap();
        server.accept_bytes(&update.to_bytes()).unwrap();
    }
    let joint = &server.joint().unwrap();
    let mut whole = Learner::new(Problem::squared(), settings).unwrap();
    whole.fix_design(agreement.design().clone()).unwrap();
    whole.learn("all", table.task(), 1.0).unwrap();
    assert_eq!(chosen(joint), chosen(&whole));
    let (a, b) = (joint.predict(table.rows()).unwrap(), whole.predict(table.rows()).unwrap());
    assert!(gap(&a, &b) / deviation(&table.y) <= SAME);
}

#[test]
fn what_a_federation_sends_ends_at_the_same_limits() {
    let table = Table::linear(200, &[1.0, -2.0, 0.5, 3.0], 0.5, &mut Draw::new(5));
    let settings = settings("auto:50");
    let design = Design::new(settings.basis.fix(&table.x, D).unwrap(), true);
    let agreement = Agreement::new(Problem::squared(), settings, design, 1).unwrap();
    let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
    let update = Update::of_rows(&agreement, "client", 1, table.task()).unwrap();
    server.accept_bytes(&update.to_bytes()).unwrap();
    let sent = server.broadcast().unwrap();
    let bytes = sent.to_bytes();
    assert_eq!((bytes.len(), bytes[4]), (sent.nbytes(), 3));
    let read = Broadcast::from_bytes(&bytes, bytes.len()).unwrap();
    assert_eq!(read, sent);
    let x: Vec<f64> = table.x.iter().map(|x| 1e6 * x).collect();
    let (near, far) = (table.rows(), Rows::new(&x, D).unwrap());
    let joint = server.joint().unwrap();
    for rows in [near, far] {
        assert_eq!(read.answer(&agreement, rows).unwrap(), joint.predict(rows).unwrap());
    }
    let mut wrong = sent;
    wrong.limits[0].least = f64::NAN;
    let bytes = wrong.to_bytes();
    assert!(Broadcast::from_bytes(&bytes, bytes.len()).is_err(), "limits that are no numbers");
}

#[test]
fn bounded_losses_choose_too() {
    let mut table = curved(400, 13);
    for y in &mut table.y {
        *y = y.exp().round();
    }
    for loss in ["huber:1", "poisson"] {
        let problem = Problem::parse(loss, None).unwrap();
        let mut learner = fixed(problem, &settings("auto:40"), &table);
        learner.learn("a", table.part(0, 200).task(), 1.0).unwrap();
        learner.learn("b", table.part(200, 400).task(), 1.0).unwrap();
        let found = learner.candidates().unwrap();
        assert!(
            !found.is_empty() && found.iter().all(|c| c.score.is_finite()),
            "{loss}: {found:?}"
        );
        assert_ne!(chosen(&learner), "linear", "{loss}: {found:?}");
        // The exponential of a line leaves every range: there the inputs are bounded.
        assert_eq!(found.iter().any(|c| c.name == "linear"), loss != "poisson", "{found:?}");
        assert!(learner.predict(table.rows()).unwrap().iter().all(|v| v.is_finite()));
        assert!(learner.solution_follows().unwrap(), "{loss}");
    }
    let names: Vec<&str> = table.y.iter().map(|y| if *y > 1.0 { "up" } else { "down" }).collect();
    let mut learner = fixed(Problem::logistic(), &settings("auto:40"), &table);
    learner.learn("a", TaskRows::new(table.rows(), &Labels::new(&names)), 1.0).unwrap();
    let found = learner.candidates().unwrap();
    assert!(!found.is_empty() && found.iter().all(|c| c.score.is_finite()), "{found:?}");
    assert_ne!(chosen(&learner), "linear", "the classes are not separated by a line: {found:?}");
    let found = learner.probabilities(table.rows()).unwrap();
    assert!(found.iter().all(|p| (0.0..=1.0).contains(p)));
    let hits = learner.predict_classes(table.rows()).unwrap();
    let hits = hits.iter().zip(&names).filter(|(a, b)| a == *b).count();
    assert!(hits > 340, "{hits} of 400");
}

#[test]
fn columns_taken_out_of_a_summary_are_those_of_the_rows_without_the_others() {
    let mut draw = Draw::new(3);
    for (n, d) in [(50, 9), (6, 9), (1, 4), (40, 30)] {
        let table = Table::awkward(n, d, 2, &mut draw);
        let keep: Vec<usize> = (0..d).filter(|j| j % 3 != 1).collect();
        let few = Table {
            x: table.x.chunks_exact(d).flat_map(|row| keep.iter().map(|&j| row[j])).collect(),
            d: keep.len(),
            ..table.clone()
        };
        let (found, expected) = (table.summary().choose_columns(&keep).unwrap(), few.summary());
        assert_eq!((found.width(), found.rank()), (expected.width(), expected.rank()));
        let theta = pmfcl::Theta::zeros(keep.len(), 2);
        let (a, b) = (found.loss(&theta).unwrap(), expected.loss(&theta).unwrap());
        assert!((a - b).abs() <= 1e-12 * b);
        assert!((found.min_loss() - expected.min_loss()).abs() <= 1e-12 * b);
    }
    let summary = Table::noise(5, 3, 1, &mut draw).summary();
    for wrong in [&[][..], &[1, 0], &[0, 0], &[3]] {
        assert!(summary.choose_columns(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn wide_portfolios_of_small_tasks_do_not_depend_on_when_they_were_pooled() {
    // Tasks of fewer rows than columns, and a target that is nearly a line of the inputs.
    let (n, d) = (227, 19);
    let mut table = Table::noise(n, d, 1, &mut Draw::new(31));
    for (row, y) in table.x.chunks_exact(d).zip(&mut table.y) {
        *y = row.iter().sum::<f64>() + 0.01 * *y;
    }
    let plain = settings("auto:1200");
    let whole = learned_by(57, &plain, &table, &[(0..n).collect()]);
    let expected = whole.predict(table.rows()).unwrap();
    let scores = |learner: &Learner| -> Vec<f64> {
        learner.candidates().unwrap().iter().map(|c| c.score).collect()
    };
    for count in [2, 3, 4, 7] {
        for asked in [false, true] {
            let mut learner = fixed_by(57, Problem::squared(), &plain, &table);
            for (t, rows) in cuts(n, count, 5).iter().enumerate() {
                learner.learn(&t.to_string(), table.pick(rows).task(), 1.0).unwrap();
                if asked {
                    learner.solution().unwrap();
                }
            }
            let way = format!("{count} tasks, solved {}", if asked { "each time" } else { "once" });
            for (found, expected) in scores(&learner).iter().zip(scores(&whole)) {
                assert!((found - expected).abs() <= 1e-6, "{way}: {found} against {expected}");
            }
            let found = gap(&learner.predict(table.rows()).unwrap(), &expected);
            assert!(found <= SAME * deviation(&table.y), "{way}: {found:e}");
        }
    }
}
