//! Probabilities of the gaussian classifier: measured by leave-one-out, harmless on normal data, finite everywhere.

use pmfcl::federated::{CalibrationAnswer, CalibrationRequest, Rules, Server, Update};
use pmfcl::learner::LearnerState;
use pmfcl::problem::{
    Agreement, CalibrationTable, ClassRule, Encoding, InMemory, Passes, Response, TaskSummary,
};
use pmfcl::{Basis, Design, Labels, Learner, MemoryKind, Problem, Rows, Settings, TaskRows};
use pmfcl_oracle::Draw;

const D: usize = 5;

struct Data {
    x: Vec<f64>,
    y: Vec<String>,
}

impl Data {
    fn learn(&self, learner: &mut Learner, name: &str) {
        let labels = Labels::new(&self.y);
        let rows = TaskRows::new(Rows::new(&self.x, D).unwrap(), &labels);
        learner.learn(name, rows, 1.0).unwrap();
    }

    fn rows(&self) -> Rows<'_> {
        Rows::new(&self.x, D).unwrap()
    }

    fn log_loss(&self, learner: &Learner) -> f64 {
        let labels = Labels::new(&self.y);
        learner.evaluate(TaskRows::new(self.rows(), &labels)).unwrap().log_loss()
    }
}

/// Rows of normal classes, one step apart; with `tail > 0` that share of them is thrown four times as far from its mean.
fn data(n: usize, classes: &[&str], tail: f64, seed: u64) -> Data {
    let mut draw = Draw::new(seed);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..n {
        let class = classes[i % classes.len()];
        let shift = f64::from(class.as_bytes()[0] - b'a');
        let far = if draw.uniform() < tail { 4.0 } else { 1.0 };
        for j in 0..D {
            x.push(shift * f64::from(u8::from(j == 0)) * 1.5 + far * draw.normal());
        }
        y.push(class.to_owned());
    }
    Data { x, y }
}

fn learner(calibrate: &str) -> Learner {
    let problem = Problem::gaussian().with_option("calibrate", calibrate).unwrap();
    Learner::new(problem, Settings { threads: 1, ..Settings::default() }).unwrap()
}

fn learned(calibrate: &str, tasks: &[&Data]) -> Learner {
    let mut model = learner(calibrate);
    for (t, task) in tasks.iter().enumerate() {
        task.learn(&mut model, &t.to_string());
        model.solution().unwrap();
    }
    model
}

#[test]
fn truly_normal_data_come_to_no_harm() {
    let classes = ["a", "b", "c"];
    let test = data(20_000, &classes, 0.0, 77);
    for (n, seed) in [(60, 1), (200, 2), (1000, 3)] {
        let tasks: Vec<Data> = (0..3).map(|t| data(n, &classes, 0.0, seed * 10 + t)).collect();
        let tasks: Vec<&Data> = tasks.iter().collect();
        let (on, off) =
            (test.log_loss(&learned("on", &tasks)), test.log_loss(&learned("off", &tasks)));
        assert!(on <= 1.01 * off, "{n} rows: {on} against {off}");
    }
}

/// Where classes are far apart there is little log-loss, so little harm is much of it: a floor of `1/(N + 1)`, or a temperature
/// below 1 that few rows seem to ask for.
#[test]
fn classes_far_apart_come_to_no_harm() {
    for classes in [&["a", "c", "e"][..], &["a", "d"]] {
        let test = data(8_000, classes, 0.0, 78);
        let (mut on, mut off) = (0.0, 0.0);
        for seed in 0..12 {
            let task = data(180, classes, 0.0, 100 + seed);
            on += test.log_loss(&learned("on", &[&task]));
            off += test.log_loss(&learned("off", &[&task]));
        }
        assert!(on <= 1.01 * off, "{classes:?}: {on} against {off}");
    }
}

#[test]
fn heavy_tails_gain_in_any_order_and_the_orders_agree() {
    let classes = ["a", "b", "c"];
    let test = data(5000, &classes, 0.2, 78);
    let tasks: Vec<Data> = (0..3).map(|t| data(300, &classes, 0.2, 50 + t)).collect();
    let mut losses = Vec::new();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let tasks: Vec<&Data> = order.iter().map(|&t| &tasks[t]).collect();
        losses.push(test.log_loss(&learned("on", &tasks)));
    }
    let tasks: Vec<&Data> = tasks.iter().collect();
    let plain = test.log_loss(&learned("off", &tasks));
    let most = losses.iter().copied().fold(0.0, f64::max);
    let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(most < plain, "{losses:?} against {plain}");
    assert!(most <= 1.1 * least, "{losses:?}");
}

#[test]
fn tasks_that_wait_together_are_measured_together_in_any_order() {
    let tasks: Vec<Data> = (0..4).map(|t| data(150, &["a", "b", "c"], 0.2, 90 + t)).collect();
    let of = |order: &[usize]| {
        let mut model = learner("on");
        order.iter().for_each(|&t| tasks[t].learn(&mut model, &t.to_string()));
        model
    };
    let (a, b) = (of(&[0, 1, 2, 3]), of(&[3, 1, 0, 2]));
    let mut merged = of(&[2, 0]);
    merged.merge(&of(&[1, 3])).unwrap();
    let probe = tasks[0].rows();
    let pa = a.probabilities(probe).unwrap();
    for other in [b, merged] {
        for (u, v) in pa.iter().zip(&other.probabilities(probe).unwrap()) {
            // All log-losses are sums over the same rows under the same model, to rounding.
            assert!((u - v).abs() < 1e-9, "{u} against {v}");
        }
    }
}

#[test]
fn what_was_measured_is_kept_and_goes_with_its_task() {
    let tasks: Vec<Data> = (0..3).map(|t| data(150, &["a", "b", "c"], 0.2, 30 + t)).collect();
    let mut model = learner("on");
    for (t, task) in tasks.iter().enumerate() {
        task.learn(&mut model, &t.to_string());
    }
    assert!(
        (0..3).all(|t| model.calibration(t).is_none()),
        "nothing is measured before a solution"
    );
    model.measure().unwrap();
    let tables: Vec<_> = (0..3).map(|t| model.calibration(t).cloned().unwrap()).collect();
    for table in &tables {
        assert_eq!((table.losses.len(), table.distances.len()), (203, 130));
        assert_eq!(CalibrationTable::from_numbers(&table.to_numbers()).as_ref(), Some(table));
        // Everything is scaled to the samples of the task.
        let counted: f64 = table.distances.iter().sum();
        let found = table.left_out.as_ref().unwrap();
        assert!((counted - 150.0).abs() < 1e-9 && (found.samples() - 150.0).abs() < 1e-9);
    }
    model.unlearn("1").unwrap();
    assert_eq!(model.calibration(0), Some(&tables[0]));
    assert_eq!(model.calibration(1), Some(&tables[2]));
    // In memory alone the rows of a task that is unlearned before it is measured leave nothing behind.
    let mut waiting = learner("on");
    tasks[0].learn(&mut waiting, "x");
    tasks[1].learn(&mut waiting, "y");
    waiting.unlearn("x").unwrap();
    let mut alone = learner("on");
    tasks[1].learn(&mut alone, "y");
    let probe = tasks[2].rows();
    assert_eq!(waiting.probabilities(probe).unwrap(), alone.probabilities(probe).unwrap());
}

#[test]
fn predicted_classes_are_those_without_calibration_and_rows_sum_to_one() {
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let tasks: Vec<Data> =
            [["a", "b"], ["c", "d"]].iter().zip(1..).map(|(c, s)| data(200, c, 0.3, s)).collect();
        let of = |calibrate: &str| {
            let problem = Problem::gaussian().with_option("calibrate", calibrate).unwrap();
            let settings = Settings { threads: 1, memory, ..Settings::default() };
            let mut model = Learner::new(problem, settings).unwrap();
            for (t, task) in tasks.iter().enumerate() {
                task.learn(&mut model, &t.to_string());
                model.solution().unwrap();
            }
            model
        };
        let (on, off) = (of("on"), of("off"));
        let probe = data(500, &["a", "b", "c", "d"], 0.3, 9);
        assert_eq!(on.scores(probe.rows()).unwrap(), off.scores(probe.rows()).unwrap());
        let p = on.probabilities(probe.rows()).unwrap();
        let codes = on.predict_codes(probe.rows()).unwrap();
        for (row, code) in p.chunks_exact(4).zip(codes) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(row.iter().all(|v| *v > 0.0), "{row:?}");
            assert!(row.iter().all(|v| *v <= row[code as usize]));
        }
    }
}

/// One class so far, a class of one row, constant features, fewer rows than classes, classes a constant feature tells apart.
#[test]
fn degenerate_tasks_have_finite_probabilities() {
    let far = [1e6, -1e6, 1e6, -1e6, 1e6];
    let mut cases: Vec<(&str, Data)> = vec![
        ("one class", data(20, &["a"], 0.0, 1)),
        ("one row", data(1, &["a"], 0.0, 2)),
        ("fewer rows than classes", data(3, &["a", "b", "c"], 0.0, 3)),
        ("one row of a class", data(21, &["a", "b"], 0.0, 4)),
    ];
    cases[3].1.y[20] = "z".to_owned();
    let mut constant = data(40, &["a", "b"], 0.0, 5);
    constant.x.chunks_exact_mut(D).for_each(|row| row[1] = 7.0);
    cases.push(("a constant feature", constant));
    let mut apart = data(40, &["a", "b"], 0.0, 6);
    for (row, y) in apart.x.chunks_exact_mut(D).zip(&apart.y) {
        row[2] = f64::from(u8::from(y == "a"));
    }
    cases.push(("a feature that is the class", apart));
    let mut still = data(30, &["a", "b"], 0.0, 7);
    still.x.fill(2.5);
    cases.push(("nothing varies", still));
    for (name, task) in &cases {
        let model = learned("on", &[task]);
        let classes = model.classes().len();
        let mut probe = task.x.clone();
        probe.extend(far);
        let p = model.probabilities(Rows::new(&probe, D).unwrap()).unwrap();
        for row in p.chunks_exact(classes) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{name}: {row:?}");
            assert!(row.iter().all(|v| *v > 0.0 && v.is_finite()), "{name}: {row:?}");
        }
    }
}

#[test]
fn rows_far_from_every_class_are_less_certain() {
    let task = data(900, &["a", "b", "c"], 0.2, 12);
    let model = learned("on", &[&task]);
    let Response::Classes { rule: ClassRule::RowTemperature(rule), .. } = model.response().unwrap()
    else {
        panic!("{:?}", model.response())
    };
    assert!(rule.shape.is_finite(), "{}", rule.shape);
    let at = |far: f64| {
        let x = [-1.0, far, far, far, far];
        model.probabilities(Rows::new(&x, D).unwrap()).unwrap()[0]
    };
    assert!(at(0.0) > at(3.0) && at(3.0) > at(10.0), "{} {} {}", at(0.0), at(3.0), at(10.0));
    assert!(at(1e3) < 0.4, "{}: beyond everything seen the classes are nearly equal", at(1e3));
}

/// A federation's second round, and `pmfcl calibrate`: measured at the final model, whatever the order of tasks was.
#[test]
fn measuring_at_the_final_model_does_not_depend_on_the_order() {
    let classes = [["a", "b"], ["c", "d"]];
    let tasks: Vec<Data> = classes.iter().zip(1..).map(|(c, s)| data(200, c, 0.3, s)).collect();
    let test = data(3000, &["a", "b", "c", "d"], 0.3, 9);
    let given = data(1500, &["a", "b", "c", "d"], 0.3, 10);
    let labels = Labels::new(&given.y);
    let rows = TaskRows::new(given.rows(), &labels);
    let mut found = Vec::new();
    for order in [[0, 1], [1, 0]] {
        let mut model = learner("on");
        for t in order {
            tasks[t].learn(&mut model, &t.to_string());
            model.solution().unwrap();
        }
        let before = test.log_loss(&model);
        model.calibrate(rows, false).unwrap();
        let after = test.log_loss(&model);
        assert!(after <= 1.01 * before, "{after} against {before}");
        found.push(model.probabilities(test.rows()).unwrap());
    }
    for (u, v) in found[0].iter().zip(&found[1]) {
        assert!((u - v).abs() < 1e-9, "{u} against {v}");
    }
    // The rows learned, each left out of the model, say what other rows say.
    let mut model = learned("on", &[&tasks[0], &tasks[1]]);
    let (x, y) = ([&tasks[0].x[..], &tasks[1].x].concat(), [&tasks[0].y[..], &tasks[1].y].concat());
    let labels = Labels::new(&y);
    let own = TaskRows::new(Rows::new(&x, D).unwrap(), &labels);
    model.calibrate(own, true).unwrap();
    let (by_own, mut by_given) = (test.log_loss(&model), learned("on", &[&tasks[0], &tasks[1]]));
    by_given.calibrate(rows, false).unwrap();
    let by_given = test.log_loss(&by_given);
    assert!(by_own < 1.05 * by_given, "{by_own} against {by_given}");
    let strange = Labels::new(&vec!["nobody"; given.y.len()]);
    assert!(model.calibrate(TaskRows::new(given.rows(), &strange), false).is_err());
    // Calibration is switched on where it was off; one class has nothing to measure.
    let mut off = learned("off", &[&tasks[0], &tasks[1]]);
    off.calibrate(rows, false).unwrap();
    assert!((test.log_loss(&off) - by_given).abs() < 1e-9);
    assert!(learned("on", &[&data(20, &["a"], 0.0, 1)]).calibrate(rows, false).is_err());
}

/// What rows that were left out say of a task is what new rows of the same kind say.
#[test]
fn left_out_scores_are_those_of_new_rows() {
    let classes = ["a", "b", "c"];
    let tasks: Vec<Data> = (0..3).map(|t| data(1000, &classes, 0.2, 300 + t)).collect();
    let model = learned("on", &tasks.iter().collect::<Vec<_>>());
    let (mut draws, mut found) = (Vec::new(), model.left_out().unwrap());
    for seed in 0..5 {
        let test = data(4000, &classes, 0.2, 700 + seed);
        let labels = Labels::new(&test.y);
        draws.push(model.evaluate(TaskRows::new(test.rows(), &labels)).unwrap());
    }
    let mut truth = draws.remove(0);
    draws.iter().for_each(|draw| truth.merge(draw));
    // 3000 rows: a standard error of an accuracy of 0.7 is 0.008.
    assert!((found.accuracy() - truth.accuracy()).abs() < 0.025);
    assert!((found.log_loss() - truth.log_loss()).abs() < 0.05);
    assert!((found.brier() - truth.brier()).abs() < 0.03);
    assert!(truth.calibration_error() < 0.03, "{}", truth.calibration_error());
    found.merge(&truth);
    assert!((found.samples() - 23_000.0).abs() < 1e-6);
}

#[test]
fn novelty_thresholds_mean_what_they_say_and_unknown_classes_are_beyond_them() {
    let known = ["a", "b", "c"];
    let tasks: Vec<Data> = (0..2).map(|t| data(900, &known, 0.1, 400 + t)).collect();
    let mut model = learned("on", &tasks.iter().collect::<Vec<_>>());
    let test = data(6000, &known, 0.1, 500);
    let novelty = model.novelty(test.rows()).unwrap();
    for threshold in [0.5, 0.9, 0.99] {
        let above = novelty.iter().filter(|v| **v > threshold).count() as f64 / 6000.0;
        let expected = 1.0 - threshold;
        assert!((above - expected).abs() < 0.01 + 0.1 * expected, "{threshold}: {above}");
    }
    // Farther from every class than rows that were thrown four times as far as usual.
    let mut strange = data(300, &["c"], 0.0, 501);
    strange.x.chunks_exact_mut(D).for_each(|row| row[1] += 25.0);
    strange.y.fill("z".to_owned());
    assert!(model.novelty(strange.rows()).unwrap().iter().all(|v| *v > 0.95));
    let both = Data { x: [&test.x[..], &strange.x].concat(), y: [test.y, strange.y].concat() };
    let labels = Labels::new(&both.y);
    let found = model.evaluate(TaskRows::new(both.rows(), &labels)).unwrap();
    assert!((found.unknown_samples() - 300.0).abs() < 1e-9);
    assert!(found.unknown_auroc().unwrap() > 0.97, "{:?}", found.unknown_auroc());
    // Without measurements the textbook's tail is used: it knows nothing of the tail of these rows, but of their order.
    model.set_option("calibrate", "off").unwrap();
    let plain = model.novelty(both.rows()).unwrap();
    assert!(plain.iter().all(|v| (0.0..=1.0).contains(v)));
    let squared = Problem::parse("squared", Some(pmfcl::ClassList::Open)).unwrap();
    let mut other = Learner::new(squared, Settings::default()).unwrap();
    tasks[0].learn(&mut other, "t");
    assert!(other.novelty(both.rows()).unwrap_err().to_string().contains("gaussian"));
}

fn agreement() -> Agreement {
    let classes = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    let problem = Problem::gaussian().with_classes(classes).unwrap();
    let design = Design::new(Basis::default().fix(&[], D).unwrap(), true);
    Agreement::new(problem, Settings { threads: 1, ..Settings::default() }, design, 0).unwrap()
}

/// Clients with some of the classes each: the second round gives the probabilities of one place that had all rows.
#[test]
fn a_second_round_is_as_good_as_pooled_rows_in_any_order() {
    let agreement = agreement();
    let classes = [["a", "b"], ["c", "d"], ["a", "d"]];
    let steps: Vec<Data> = classes.iter().zip(1..).map(|(c, s)| data(200, c, 0.3, s)).collect();
    let test = data(4000, &["a", "b", "c", "d"], 0.3, 99);
    let rows = |step: &Data| Labels::new(&step.y);
    let names = ["north", "south", "west"];
    let mut results = Vec::new();
    for order in [[0, 1, 2], [2, 0, 1]] {
        let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
        for c in order {
            let labels = rows(&steps[c]);
            let given = TaskRows::new(steps[c].rows(), &labels);
            let update = Update::of_rows(&agreement, names[c], 0, given).unwrap();
            server.accept(update).unwrap();
        }
        assert!(server.joint().unwrap().left_out().is_none(), "nothing is measured yet");
        let sent = server.calibration_request().unwrap().to_bytes();
        let request = CalibrationRequest::from_bytes(&sent).unwrap();
        for c in order {
            let labels = rows(&steps[c]);
            let given = TaskRows::new(steps[c].rows(), &labels);
            let answer = request.answer(&agreement, names[c], 0, given).unwrap().to_bytes();
            let answer = CalibrationAnswer::from_bytes(&answer).unwrap();
            server.accept_calibration(answer.clone()).unwrap();
            // One that is repeated changes nothing.
            server.accept_calibration(answer).unwrap();
        }
        let joint = server.joint().unwrap();
        let again = Server::resume(agreement.clone(), Rules::default(), &joint).unwrap();
        let again = again.joint().unwrap();
        let p = joint.probabilities(test.rows()).unwrap();
        assert_eq!(again.probabilities(test.rows()).unwrap(), p);
        results.push((test.log_loss(&joint), p));
    }
    for (u, v) in results[0].1.iter().zip(&results[1].1) {
        assert!((u - v).abs() < 1e-12, "{u} against {v}");
    }
    // All rows in one place, measured at the final model.
    let mut pooled = learned("on", &steps.iter().collect::<Vec<_>>());
    let x: Vec<f64> = steps.iter().flat_map(|step| step.x.clone()).collect();
    let y: Vec<String> = steps.iter().flat_map(|step| step.y.clone()).collect();
    let labels = Labels::new(&y);
    pooled.calibrate(TaskRows::new(Rows::new(&x, D).unwrap(), &labels), true).unwrap();
    let (federated, pooled) = (results[0].0, test.log_loss(&pooled));
    assert!((federated / pooled - 1.0).abs() < 0.01, "{federated} against {pooled}");
}

#[test]
fn calibrations_of_another_model_or_step_are_refused() {
    let agreement = agreement();
    let steps: Vec<Data> = (1..4).map(|s| data(100, &["a", "b", "c"], 0.1, s)).collect();
    let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
    let labels: Vec<Labels> = steps.iter().map(|step| Labels::new(&step.y)).collect();
    let rows = |i: usize| TaskRows::new(steps[i].rows(), &labels[i]);
    server.accept(Update::of_rows(&agreement, "north", 0, rows(0)).unwrap()).unwrap();
    let request = server.calibration_request().unwrap();
    let answer = request.answer(&agreement, "north", 0, rows(0)).unwrap();
    let reason = |server: &mut Server, answer: &CalibrationAnswer| {
        server.accept_calibration(answer.clone()).unwrap_err().to_string()
    };
    let other = request.answer(&agreement, "north", 7, rows(0)).unwrap();
    assert!(reason(&mut server, &other).contains("not in the register"));
    let few = request.answer(&agreement, "north", 0, rows(0).slice(0, 50)).unwrap();
    assert!(reason(&mut server, &few).contains("scaled"));
    server.accept(Update::of_rows(&agreement, "south", 0, rows(1)).unwrap()).unwrap();
    assert!(reason(&mut server, &answer).contains("ask again"));
    let bytes = answer.to_bytes();
    for at in [0, 5, 60, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(CalibrationAnswer::from_bytes(&changed).is_err(), "{at}");
        assert!(CalibrationAnswer::from_bytes(&bytes[..at]).is_err());
    }
    let sent = request.to_bytes();
    for at in [3, 50, sent.len() - 2] {
        let mut changed = sent.clone();
        changed[at] ^= 1;
        assert!(CalibrationRequest::from_bytes(&changed).is_err(), "{at}");
    }
}

/// Rows of two classes with one mean and other spreads, which no linear rule tells apart.
fn spreads(n: usize, seed: u64) -> Data {
    let mut draw = Draw::new(seed);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..n {
        let (class, spread) = if i % 2 == 0 { ("narrow", 0.5) } else { ("wide", 2.0) };
        x.extend((0..D).map(|_| spread * draw.normal()));
        y.push(class.to_owned());
    }
    Data { x, y }
}

fn of_classes(calibrate: &str, memory: MemoryKind, tasks: &[&Data]) -> Learner {
    let problem = Problem::gaussian().with_option("covariance", "class").unwrap();
    let problem = problem.with_option("calibrate", calibrate).unwrap();
    let mut model =
        Learner::new(problem, Settings { threads: 1, memory, ..Settings::default() }).unwrap();
    for (t, task) in tasks.iter().enumerate() {
        task.learn(&mut model, &t.to_string());
        model.solution().unwrap();
    }
    model
}

#[test]
fn class_covariances_tell_spreads_apart() {
    let tasks: Vec<Data> = (0..3).map(|t| spreads(200, 20 + t)).collect();
    let tasks: Vec<&Data> = tasks.iter().collect();
    let test = spreads(4000, 99);
    let labels = Labels::new(&test.y);
    let rows = TaskRows::new(test.rows(), &labels);
    let tied = learned("on", &tasks).evaluate(rows).unwrap();
    for calibrate in ["on", "off"] {
        let model = of_classes(calibrate, MemoryKind::Ledger, &tasks);
        let found = model.evaluate(rows).unwrap();
        assert!(tied.accuracy() < 0.6 && found.accuracy() > 0.9, "{}", found.accuracy());
        assert!(found.log_loss() < 0.3 && tied.log_loss() > 0.6, "{}", found.log_loss());
        assert!(found.calibration_error() < 0.05, "{}", found.calibration_error());
        // The largest probability is that of the predicted class.
        let p = model.probabilities(test.rows()).unwrap();
        let codes = model.predict_codes(test.rows()).unwrap();
        for (row, code) in p.chunks_exact(2).zip(codes) {
            assert!((row[0] + row[1] - 1.0).abs() < 1e-12 && row[code as usize] >= 0.5);
        }
    }
}

#[test]
fn class_covariances_merge_and_are_removed_exactly() {
    let tasks: Vec<Data> = (0..3).map(|t| spreads(120, 30 + t)).collect();
    let test = spreads(300, 98);
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let of = |tasks: &[&Data]| of_classes("off", memory, tasks);
        let whole = of(&[&tasks[0], &tasks[1]]).scores(test.rows()).unwrap();
        let same = |other: &Learner, what: &str| {
            let found = other.scores(test.rows()).unwrap();
            for (u, v) in whole.iter().zip(&found) {
                assert!((u - v).abs() < 1e-8 * (1.0 + u.abs()), "{what}: {u} against {v}");
            }
        };
        same(&of(&[&tasks[1], &tasks[0]]), "another order");
        let mut merged = of(&[&tasks[0]]);
        let mut other = of(&[&tasks[1]]);
        other.rename("0", "other").unwrap();
        merged.merge(&other).unwrap();
        same(&merged, "merged");
        let mut removed = of(&[&tasks[0], &tasks[1], &tasks[2]]);
        if removed.is_folded() {
            let labels = Labels::new(&tasks[2].y);
            let again = removed.summarize(TaskRows::new(tasks[2].rows(), &labels)).unwrap();
            removed.unlearn_summary("2", &again).unwrap();
        } else {
            removed.unlearn("2").unwrap();
        }
        same(&removed, "removed");
    }
    // Rows of a task, and the model is that of the others.
    let part = |from: usize, to: usize| Data {
        x: tasks[1].x[from * D..to * D].to_vec(),
        y: tasks[1].y[from..to].to_vec(),
    };
    let of = |tasks: &[&Data]| of_classes("off", MemoryKind::Ledger, tasks);
    let expected = of(&[&tasks[0], &part(40, 120)]).scores(test.rows()).unwrap();
    let mut model = of(&[&tasks[0], &tasks[1]]);
    let rows = part(0, 40);
    let labels = Labels::new(&rows.y);
    let summary = model.summarize(TaskRows::new(rows.rows(), &labels)).unwrap();
    model.unlearn_rows("1", &summary).unwrap();
    for (u, v) in expected.iter().zip(&model.scores(test.rows()).unwrap()) {
        assert!((u - v).abs() < 1e-8 * (1.0 + u.abs()), "rows removed: {u} against {v}");
    }
    // A class that only one task has goes with it.
    let mut wide = of_classes("on", MemoryKind::Ledger, &[&tasks[0], &data(90, &["c"], 0.0, 5)]);
    assert_eq!(wide.classes().len(), 3);
    wide.unlearn("1").unwrap();
    let alone = of_classes("on", MemoryKind::Ledger, &[&tasks[0]]);
    assert_eq!(wide.scores(test.rows()).unwrap().len(), alone.scores(test.rows()).unwrap().len());
}

#[test]
fn summaries_with_class_covariances_come_back_from_bytes_and_others_are_refused() {
    let task = spreads(60, 1);
    let mut model = of_classes("on", MemoryKind::Ledger, &[&task]);
    let labels = Labels::new(&task.y);
    let summary = model.summarize(TaskRows::new(task.rows(), &labels)).unwrap();
    assert_eq!(summary.scatters.len(), 2);
    let bytes = summary.to_bytes(Encoding::Plain);
    assert_eq!(TaskSummary::from_bytes(&bytes, bytes.len()).unwrap(), summary);
    let mut without = summary.clone();
    without.scatters.clear();
    without.classes = vec!["narrow".to_owned(), "wide".to_owned()];
    let refused = model.insert_summary("x", without, 1.0).unwrap_err().to_string();
    assert!(refused.contains("give the rows"), "{refused}");
    let problem = model.problem().clone().with_classes(model.classes().to_vec()).unwrap();
    let design = model.design().unwrap().clone();
    let refused = Agreement::new(problem, Settings::default(), design, 0).unwrap_err();
    assert!(refused.to_string().contains("tied"), "{refused}");
}

/// Adds rows to the last task, as a stream in small pieces does.
fn append(model: &mut Learner, part: &Data) {
    let labels = Labels::new(&part.y);
    let rows = TaskRows::new(part.rows(), &labels);
    let design = model.design().unwrap().clone();
    let mut passes = InMemory::new(model.context_with(&design), rows).unwrap();
    let first = passes.run(&model.problem().first_pass()).unwrap();
    let draft = model.fit(&design, first, &mut passes, 1.0).unwrap();
    model.append(&design, draft).unwrap();
}

#[test]
fn a_stream_in_pieces_is_measured_like_one_task() {
    let classes = ["a", "b", "c"];
    for covariance in ["tied", "class"] {
        let parts: Vec<Data> = (0..6).map(|t| data(120, &classes, 0.2, 90 + t)).collect();
        let whole = Data {
            x: parts.iter().flat_map(|part| part.x.clone()).collect(),
            y: parts.iter().flat_map(|part| part.y.clone()).collect(),
        };
        let start = || {
            let problem = Problem::gaussian().with_option("covariance", covariance).unwrap();
            Learner::new(problem, Settings { threads: 1, ..Settings::default() }).unwrap()
        };
        let mut one = start();
        whole.learn(&mut one, "stream");
        let test = data(2000, &classes, 0.2, 79);
        for solve_between in [false, true] {
            let mut pieces = start();
            for (i, part) in parts.iter().enumerate() {
                match i {
                    0 => part.learn(&mut pieces, "stream"),
                    _ => append(&mut pieces, part),
                }
                if solve_between {
                    pieces.solution().unwrap();
                }
            }
            let (a, b) = (one.scores(test.rows()).unwrap(), pieces.scores(test.rows()).unwrap());
            // Scores of classes with covariances of their own depend on what was measured.
            if covariance == "tied" || !solve_between {
                assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-8 * (1.0 + a.abs())));
            }
            let (a, b) = (test.log_loss(&one), test.log_loss(&pieces));
            let most = if solve_between { 0.05 } else { 1e-9 };
            assert!((a - b).abs() <= most * a, "{covariance}, {solve_between}: {a} against {b}");
            pieces.solution().unwrap();
            let table = pieces.calibration(0).unwrap();
            let stands_for: f64 = table.distances.iter().sum();
            assert!((stands_for - 720.0).abs() < 1e-6, "all rows of the task: {stands_for}");
        }
    }
}

/// The learner as another process reads it: what was measured is in its records, rows are not.
fn reopened(model: &Learner, with_summaries: bool) -> Learner {
    let tasks = model.records().iter().enumerate().map(|(t, record)| {
        let mut record = record.clone();
        record.head.calibration = model
            .calibration(t)
            .map(|table| CalibrationTable::from_numbers(&table.to_numbers()).unwrap());
        let summary = model.task_summary_at(t).filter(|_| with_summaries).cloned();
        (record, summary)
    });
    Learner::from_state(LearnerState {
        problem: model.problem().clone(),
        settings: model.settings().clone(),
        design: model.design().cloned(),
        outputs: model.outputs().clone(),
        tasks: tasks.collect(),
        pool: model.kept_pool().cloned(),
        solution: None,
    })
    .unwrap()
}

/// Six classes in three pairs of different spread, some nearly on top of each other: what a pair loses says little of the others.
fn pairs(n: usize, seed: u64) -> Vec<Data> {
    let mut draw = Draw::new(seed);
    (0..3)
        .map(|pair| {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            for i in 0..n {
                let class = 2 * pair + i % 2;
                let spread = [0.6, 1.5, 2.5][pair];
                let far = if draw.uniform() < 0.2 { 3.0 } else { 1.0 };
                for j in 0..D {
                    let mean = if j < 3 { ((class * (j + 2)) % 5) as f64 } else { 0.0 };
                    x.push(mean + far * spread * draw.normal());
                }
                y.push(["a", "b", "c", "d", "e", "f"][class].to_owned());
            }
            Data { x, y }
        })
        .collect()
}

fn joined(tasks: &[Data]) -> Data {
    let x = tasks.iter().flat_map(|task| task.x.clone()).collect();
    Data { x, y: tasks.iter().flat_map(|task| task.y.clone()).collect() }
}

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Classes that come later change what earlier rows are worth: in one process the rows are measured again, so that solutions
/// in between change nothing.
#[test]
fn classes_that_come_later_are_measured_with_the_rows_of_all_tasks() {
    let tasks = pairs(400, 5);
    let probe = pairs(20, 6);
    for order in ORDERS {
        let mut at_the_end = learner("on");
        order.iter().for_each(|&t| tasks[t].learn(&mut at_the_end, &t.to_string()));
        let between: Vec<&Data> = order.iter().map(|&t| &tasks[t]).collect();
        let between = learned("on", &between);
        for part in &probe {
            let expected = at_the_end.probabilities(part.rows()).unwrap();
            for (u, v) in expected.iter().zip(&between.probabilities(part.rows()).unwrap()) {
                assert!((u - v).abs() < 1e-9, "{order:?}: {u} against {v}");
            }
        }
    }
}

/// From process to process there are no rows; tables follow later classes by what normal rows of their tasks would lose. So do
/// those of two sites with other classes that are merged, and what is left after a removal.
#[test]
fn tables_follow_classes_that_come_later_without_rows() {
    let (tasks, test) = (pairs(400, 15), joined(&pairs(2000, 16)));
    let mut at_once = learner("on");
    tasks.iter().zip(["0", "1", "2"]).for_each(|(task, name)| task.learn(&mut at_once, name));
    let (best, mut found) = (test.log_loss(&at_once), Vec::new());
    for order in ORDERS {
        for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
            let settings = Settings { memory, threads: 1, ..Settings::default() };
            let mut model = Learner::new(Problem::gaussian(), settings).unwrap();
            for t in order {
                tasks[t].learn(&mut model, &t.to_string());
                model.solution().unwrap();
                model = reopened(&model, true);
            }
            assert!(!model.tables_need_summaries());
            found.push(test.log_loss(&model));
        }
    }
    let sites: Vec<Learner> = tasks
        .iter()
        .enumerate()
        .map(|(t, task)| {
            let mut site = learner("on");
            task.learn(&mut site, &t.to_string());
            site.solution().unwrap();
            reopened(&site, true)
        })
        .collect();
    let mut merged = sites[1].clone();
    merged.merge(&sites[2]).unwrap();
    merged.merge(&sites[0]).unwrap();
    found.push(test.log_loss(&merged));
    for loss in &found {
        assert!(*loss <= 1.1 * best && *loss >= 0.95 * best, "{found:?} against {best}");
    }
    // Without the summaries of earlier tasks a table stays, and whoever has a file is told that they are needed.
    let mut blind = reopened(&sites[0], false);
    assert!(!blind.tables_need_summaries());
    tasks[1].learn(&mut blind, "1");
    assert!(blind.tables_need_summaries());
    let table = sites[0].calibration(0).cloned();
    blind.solution().unwrap();
    assert_eq!(blind.calibration(0), table.as_ref());
    // With the first task gone, the tables of the others are those of a model that never had it, to what order leaves open.
    merged.unlearn("0").unwrap();
    let mut never = sites[1].clone();
    never.merge(&sites[2]).unwrap();
    let rest = joined(&pairs(2000, 16)[1..]);
    let (removed, never) = (rest.log_loss(&merged), rest.log_loss(&never));
    assert!((removed / never - 1.0).abs() < 0.1, "{removed} against {never}");
}
