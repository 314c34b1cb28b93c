//! Losses of one row against raw rows: bounds lie above them, certified least losses below, and what does not belong together is
//! refused.

use crate::support::{Table, apart, gauss, inner};
use pmfcl::federated::{Receipt, Rules, Server, Update};
use pmfcl::learner::LearnerState;
use pmfcl::loss::{Loss, Point};
use pmfcl::problem::{Agreement, Encoding, FitOutcome, LeastLoss, TaskSummary, Worker};
use pmfcl::{Design, Error, Learner, Problem, Ridge, Rows, Settings, TaskRows, Theta};
use pmfcl_oracle::Draw;

const D: usize = 3;

/// A loss written down once more: of `huber:0.5`, `huber:5` or `poisson:4`.
#[derive(Debug, Clone, Copy)]
enum Truth {
    Huber(f64),
    Poisson(f64),
}

impl Truth {
    fn spec(self) -> String {
        match self {
            Self::Huber(delta) => format!("huber:{delta}"),
            Self::Poisson(cap) => format!("poisson:{cap}"),
        }
    }

    fn loss(self, eta: f64, y: f64) -> f64 {
        match self {
            Self::Huber(delta) => {
                let e = (eta - y).abs();
                if e <= delta { e * e / 2.0 } else { delta * (e - delta / 2.0) }
            }
            Self::Poisson(cap) if eta <= cap => eta.exp() - y * eta,
            Self::Poisson(cap) => cap.exp() * (1.0 + eta - cap) - y * eta,
        }
    }

    /// Weight and working target of a step toward the minimum.
    fn step(self, eta: f64, y: f64) -> (f64, f64) {
        match self {
            Self::Huber(delta) => ((delta / (eta - y).abs()).min(1.0), y),
            Self::Poisson(cap) => {
                let rate = eta.min(cap).exp();
                (rate, eta - (rate - y) / rate)
            }
        }
    }

    /// A table with weights whose targets the loss accepts.
    fn rows(self, n: usize, draw: &mut Draw) -> (Table, Vec<f64>) {
        let mut table = Table::linear(n, &[0.6, -0.4, 0.2], 0.5, draw);
        for y in &mut table.y {
            match self {
                Self::Huber(_) if draw.below(6) == 0 => *y *= 20.0,
                Self::Huber(_) => {}
                Self::Poisson(_) => *y = (y.exp() + draw.uniform()).floor(),
            }
        }
        let weights = (0..n).map(|_| 0.5 + draw.uniform()).collect();
        (table, weights)
    }

    /// The mean loss of parameters of a design with an intercept.
    fn mean(self, (table, weights): &(Table, Vec<f64>), theta: &[f64]) -> f64 {
        let rows = table.with_ones();
        let cells = rows.x.chunks_exact(D + 1).zip(&rows.y).zip(weights);
        let sum: f64 = cells.map(|((x, y), w)| w * self.loss(inner(x, theta), *y)).sum();
        sum / weights.iter().sum::<f64>()
    }

    /// The least mean loss, by weighted least squares again and again, halving steps that go uphill.
    fn least(self, data: &(Table, Vec<f64>)) -> f64 {
        let rows = data.0.with_ones();
        let m = D + 1;
        let mut theta = vec![0.0; m];
        let mut value = self.mean(data, &theta);
        for _ in 0..3000 {
            let (mut a, mut b) = (vec![vec![0.0; m]; m], vec![0.0; m]);
            for ((x, y), w) in rows.x.chunks_exact(m).zip(&rows.y).zip(&data.1) {
                let (c, target) = self.step(inner(x, &theta), *y);
                for i in 0..m {
                    (0..m).for_each(|j| a[i][j] += w * c * x[i] * x[j]);
                    b[i] += w * c * x[i] * target;
                }
            }
            let full = gauss(a, b);
            let mut share = 1.0;
            let next = loop {
                let next: Vec<f64> =
                    theta.iter().zip(&full).map(|(t, f)| t + share * (f - t)).collect();
                if self.mean(data, &next) <= value || share < 1e-9 {
                    break next;
                }
                share /= 2.0;
            };
            theta = next;
            value = value.min(self.mean(data, &theta));
        }
        value
    }
}

const TRUTHS: [Truth; 3] = [Truth::Huber(0.5), Truth::Huber(5.0), Truth::Poisson(4.0)];

fn task_rows((table, weights): &(Table, Vec<f64>)) -> TaskRows<'_> {
    table.task().weighted(&weights[..])
}

fn learner(spec: &str, settings: Settings) -> Learner {
    Learner::new(Problem::parse(spec, None).unwrap(), settings).unwrap()
}

fn settings() -> Settings {
    Settings { threads: 1, ..Settings::default() }
}

fn learn(learner: &mut Learner, name: &str, data: &(Table, Vec<f64>)) {
    learner.learn(name, task_rows(data), 1.0).unwrap();
}

#[test]
fn certified_least_losses_are_below_the_least_loss_and_near_it() {
    let mut draw = Draw::new(1);
    let (mut negative, mut near) = (0, 0);
    for truth in TRUTHS {
        for (scales, even) in [([1.0; D], true), ([100.0, 0.01, 1.0], false)] {
            let (table, weights) = truth.rows(80, &mut draw);
            let data = (table.scaled(&scales), weights);
            let least = truth.least(&data);
            let worst = truth.mean(&data, &[0.0; D + 1]);
            for ridge in [
                Ridge::Auto,
                Ridge::Fixed(1e-8),
                Ridge::Fixed(0.3),
                Ridge::Fixed(7.0),
                Ridge::Fixed(1e3),
            ] {
                for standardize in [false, true] {
                    let settings = Settings { ridge: ridge.clone(), standardize, ..settings() };
                    let mut model = learner(&truth.spec(), settings);
                    learn(&mut model, "task", &data);
                    let head = &model.records()[0].head;
                    let told = format!("{truth:?} {ridge:?} {standardize} {scales:?}");
                    let LeastLoss::Certified(bound) = head.least else { panic!("{told}") };
                    assert!(bound <= least + 1e-9 * worst.abs(), "{told}: {bound} above {least}");
                    assert_eq!(model.tasks().unwrap()[0].min_loss, Some(bound), "{told}");
                    // With next to no ridge the fit is the minimum, and the certificate says so.
                    if ridge == Ridge::Fixed(1e-8) && even {
                        assert_eq!(head.outcome, FitOutcome::Converged, "{told}");
                        let gap = least - bound;
                        assert!(gap <= 1e-5 * (worst - least), "{told}: {gap:e} apart");
                        near += 1;
                    }
                    negative += usize::from(bound < 0.0);
                    // What is reported as bound on the forgetting is one.
                    let theta = model.solution().unwrap().theta.column(0).to_vec();
                    let forgotten = truth.mean(&data, &theta) - least;
                    let reported = model.tasks().unwrap()[0].bound.unwrap();
                    assert!(reported >= forgotten - 1e-9 * worst.abs(), "{told}");
                }
            }
        }
    }
    assert_eq!(near, 6);
    assert!(negative > 0, "the least loss of Poisson may be negative");
}

#[test]
fn counts_that_are_all_zero_have_a_least_loss_of_zero() {
    let (mut table, weights) = Truth::Poisson(2.0).rows(40, &mut Draw::new(2));
    table.y.fill(0.0);
    let mut model = learner("poisson:2", settings());
    learn(&mut model, "none", &(table, weights));
    let least = model.records()[0].head.least.value().unwrap();
    assert!((-1e-9..=0.0).contains(&least), "{least}");
    assert!(model.solution().unwrap().theta.is_finite());
}

#[test]
fn bounds_lie_above_the_loss_for_any_parameters() {
    let mut draw = Draw::new(3);
    for truth in TRUTHS {
        let data = truth.rows(50, &mut draw);
        let mut model = learner(&truth.spec(), settings());
        learn(&mut model, "task", &data);
        let quadratic = &model.task_summary("task").unwrap().quadratic;
        for size in [0.01, 0.3, 1.0, 5.0] {
            for _ in 0..50 {
                let theta: Vec<f64> = draw.normals(D + 1).iter().map(|v| size * v).collect();
                let (bound, loss) = (
                    quadratic.loss(&Theta::from_slice(&theta)).unwrap(),
                    truth.mean(&data, &theta),
                );
                assert!(bound >= loss - 1e-10 * bound.abs(), "{truth:?}: {bound} below {loss}");
            }
        }
    }
}

/// Another parameter is another loss, and another loss another model.
#[test]
fn learners_of_different_losses_do_not_merge() {
    let mut draw = Draw::new(4);
    let data = Truth::Huber(1.0).rows(30, &mut draw);
    let made = |spec: &str, name: &str| {
        let mut model = learner(spec, settings());
        let (mut table, weights) = data.clone();
        table.y.iter_mut().for_each(|y| *y = y.abs().min(3.0));
        learn(&mut model, name, &(table, weights));
        model
    };
    for (ours, theirs) in [
        ("huber:1", "huber:5"),
        ("huber:1", "huber"),
        ("huber:1", "squared"),
        ("squared", "huber:1"),
        ("poisson:3", "poisson:4"),
        ("huber:1", "poisson:3"),
    ] {
        let (mut a, b) = (made(ours, "a"), made(theirs, "b"));
        a.solution().unwrap();
        let before = format!("{a:?}");
        let error = a.merge(&b).unwrap_err();
        assert!(matches!(error, Error::Mismatch { what: "loss", .. }), "{ours} {theirs}: {error}");
        assert!(error.to_string().contains(ours), "{error}");
        assert_eq!(format!("{a:?}"), before, "unchanged");
    }
    let (mut a, b) = (made("huber:1", "a"), made("huber:1", "b"));
    a.merge(&b).unwrap();
    assert_eq!(a.names().collect::<Vec<_>>(), ["a", "b"]);
    // What the first task settles is part of the loss.
    assert!(made("huber", "a").problem().to_string().starts_with("huber:"));
    assert_eq!(made("poisson", "a").problem().to_string().split(':').next(), Some("poisson"));
}

#[test]
fn a_count_below_zero_is_refused_with_its_row() {
    let mut draw = Draw::new(5);
    let (good, weights) = Truth::Poisson(4.0).rows(40, &mut draw);
    for spec in ["poisson", "poisson:4"] {
        let mut model = learner(spec, settings());
        learn(&mut model, "good", &(good.clone(), weights.clone()));
        model.solution().unwrap();
        for (row, value, word) in
            [(17, -1.0, "0 or more"), (0, -1e-9, "0 or more"), (39, 1e30, "largest rate")]
        {
            let mut bad = good.clone();
            bad.y[row] = value;
            let before = format!("{model:?}");
            let error = model.learn("bad", bad.task(), 1.0).unwrap_err();
            let text = error.to_string();
            assert!(
                matches!(error, Error::Target { row: r, column: 0, .. } if r == row as u64),
                "{text}"
            );
            assert!(text.contains(&format!("row {row}")) && text.contains(word), "{text}");
            assert_eq!(format!("{model:?}"), before, "unchanged");
        }
        // In the second chunk of a task the row is counted from the start of the task.
        let mut bad = good.clone();
        bad.y[7] = -3.0;
        let design = model.design().unwrap();
        let pass = model.problem().first_pass();
        let mut worker = Worker::new(model.context_with(design), &pass).unwrap();
        worker.add(good.task()).unwrap();
        let error = worker.add(bad.task()).unwrap_err();
        assert!(matches!(error, Error::Target { row: 47, .. }), "{error}");
    }
    assert!(Problem::parse("poisson:4", None).unwrap().refuses_target(-1.0).is_some());
    assert!(Problem::parse("huber:1", None).unwrap().refuses_target(-1.0).is_none());
}

/// Half the square, with a curvature a thousand times too large: the bound holds, and a step does a thousandth of the way.
#[derive(Debug)]
struct Slow;

impl Loss for Slow {
    fn spec(&self) -> String {
        "slow".to_owned()
    }

    fn at(&self, eta: &[f64], y: &[f64], gradient: &mut [f64]) -> Point {
        let e = eta[0] - y[0];
        gradient[0] = e;
        Point { value: e * e / 2.0, curvature: 1000.0 }
    }

    fn guaranteed(&self) -> bool {
        true
    }
}

#[test]
fn a_fit_that_stops_before_its_minimum_says_so_with_the_gap() {
    let table = Table::linear(60, &[1.0, -2.0, 3.0], 0.1, &mut Draw::new(6));
    let mut model = Learner::new(Problem::row_wise(Slow), settings()).unwrap();
    model.learn("slow", table.task(), 1.0).unwrap();
    let outcome = model.tasks().unwrap()[0].outcome;
    let FitOutcome::Stopped { gap } = outcome else { panic!("{outcome:?}") };
    assert!(gap > 1e-10 && gap < 1.0, "{gap}");
    assert_eq!(outcome.to_string(), format!("stopped:{gap}"));
    let warnings = model.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("`slow`") && warnings[0].contains(&format!("{gap:.1e}")));
    // It is kept with the task, in messages and in files.
    let task = model.task_summary("slow").unwrap();
    for encoding in [Encoding::Plain, Encoding::Packed] {
        let back = TaskSummary::from_bytes(&task.to_bytes(encoding), 1 << 20).unwrap();
        assert_eq!(back.head.outcome, outcome);
    }
    let again = Learner::from_state(LearnerState {
        problem: model.problem().clone(),
        settings: model.settings().clone(),
        design: model.design().cloned(),
        outputs: model.outputs().clone(),
        tasks: vec![(model.records()[0].clone(), Some(task.clone()))],
        pool: None,
        solution: None,
    });
    assert_eq!(again.unwrap().warnings(), warnings);
    let mut quick = learner("huber:1", settings());
    quick.learn("quick", table.task(), 1.0).unwrap();
    assert_eq!(quick.tasks().unwrap()[0].outcome, FitOutcome::Converged);
    assert!(quick.warnings().is_empty());
}

/// Bounds of clients add up to the model that learns the same steps in one place; a negative least loss is none the worse.
#[test]
fn bounds_between_clients_are_those_in_one_place() {
    let mut draw = Draw::new(7);
    for truth in TRUTHS {
        let problem = Problem::parse(&truth.spec(), None).unwrap();
        let design = Design::linear(D, true).unwrap();
        let agreement = Agreement::new(problem.clone(), settings(), design, 1).unwrap();
        let mut whole = Learner::new(problem, settings()).unwrap();
        let mut server = Server::new(agreement.clone(), weighted()).unwrap();
        let mut diagonal = Server::new(agreement.clone(), weighted()).unwrap();
        for client in ["anna", "ben", "chloe"] {
            let data = truth.rows(40, &mut draw);
            learn(&mut whole, &format!("{client}/0"), &data);
            let update = Update::of_rows(&agreement, client, 0, task_rows(&data)).unwrap();
            assert!(update.nbytes() <= Update::most_bytes(&agreement, false, false));
            assert_eq!(server.accept_bytes(&update.to_bytes()), Ok(Receipt::Accepted));
            let update = update.in_diagonal(&agreement).unwrap();
            assert!(update.is_diagonal());
            assert_eq!(diagonal.accept_bytes(&update.to_bytes()), Ok(Receipt::Accepted));
        }
        let joint = server.joint().unwrap();
        let theta = |model: &Learner| model.solution().unwrap().theta.clone();
        assert!(apart(theta(&joint).cells(), theta(&whole).cells()) < 1e-9, "{truth:?}");
        for (ours, theirs) in server.report().unwrap().iter().zip(whole.tasks().unwrap()) {
            assert_eq!(ours.report.min_loss, theirs.min_loss);
            let (a, b) = (ours.report.bound.unwrap(), theirs.bound.unwrap());
            assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{truth:?}: {a} {b}");
        }
        assert!(server.is_exact() && !diagonal.is_exact());
        assert!(diagonal.joint().unwrap().solution().unwrap().theta.is_finite());
    }
    // What the first task would settle must be named.
    let design = Design::linear(D, true).unwrap();
    let open = Problem::parse("huber", None).unwrap();
    let data = Truth::Huber(1.0).rows(40, &mut draw);
    let update = Agreement::new(open, settings(), design, 1)
        .and_then(|agreement| Update::of_rows(&agreement, "anna", 0, task_rows(&data)));
    assert!(update.unwrap_err().to_string().contains("huber:"));
}

fn weighted() -> Rules {
    Rules { weighted: true, ..Rules::default() }
}

#[test]
fn outliers_do_not_pull_and_rates_are_rates() {
    let mut draw = Draw::new(8);
    let mut table = Table::linear(200, &[1.0, -2.0, 0.5], 0.1, &mut draw);
    (0..200).step_by(10).for_each(|i| table.y[i] += 1000.0);
    let mut model = learner("huber:0.2", settings());
    model.learn("task", table.task(), 1.0).unwrap();
    let slopes = model.solution().unwrap().theta.column(0)[1..].to_vec();
    assert!(apart(&slopes, &[1.0, -2.0, 0.5]) < 0.1, "{slopes:?}");
    let data = Truth::Poisson(4.0).rows(400, &mut draw);
    let mut model = learner("poisson:4", settings());
    learn(&mut model, "counts", &data);
    let predicted = model.predict(Rows::new(&data.0.x, D).unwrap()).unwrap();
    assert!(predicted.iter().all(|rate| *rate > 0.0));
    // With a free intercept predicted rates have the mean of the counts.
    let sum = |values: &[f64]| values.iter().zip(&data.1).map(|(v, w)| v * w).sum::<f64>();
    assert!((sum(&predicted) / sum(&data.0.y) - 1.0).abs() < 1e-3);
}
