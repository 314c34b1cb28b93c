//! Rows of a single entry, which is what orthogonal columns leave: everything made from such a summary is the same as when its
//! zeros were stored.

use crate::support::{Table, learned, plain};
use pmfcl::federated::{Rules, Server, Update};
use pmfcl::learner::{LearnerState, TaskRecord};
use pmfcl::pareto::PairFront;
use pmfcl::problem::Agreement;
use pmfcl::report::inference;
use pmfcl::{
    Accumulator, ClassList, Design, Labels, Learner, MemoryKind, Problem, Ridge, Rows, Settings,
    Summary, TaskRows, Theta, solve,
};

/// All signs of three columns, four times, and a column of zeros last: columns are orthogonal to each other and to the intercept.
fn factorial(truth: &[f64; 4], noise: f64) -> Table {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..32_u32 {
        let sign = |bit: u32| if i >> bit & 1 == 1 { 1.0 } else { -1.0 };
        let row = [sign(0), 2.0 * sign(1), sign(2) / 2.0];
        let fitted: f64 = truth[1..].iter().zip(row).map(|(t, x)| t * x).sum();
        // The product of two signs is orthogonal to all columns.
        y.push(truth[0] + fitted + noise * sign(0) * sign(1));
        x.extend(row.into_iter().chain([0.0]));
    }
    Table { x, y, d: 4, p: 1 }
}

const TRUTH: [f64; 4] = [3.0, 1.0, -2.0, 0.5];

fn assert_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{found:?} {expected:?}");
    }
}

#[test]
fn orthogonal_columns_keep_one_entry_each() {
    let table = factorial(&TRUTH, 1.0);
    let s = table.summarize(true, Accumulator::Qr);
    assert_eq!((s.rank(), s.width(), s.numbers()), (4, 5, 8));
    let back = Summary::from_bytes(&s.to_bytes()).unwrap();
    assert_eq!((&back, back.nbytes()), (&s, s.nbytes()));
    // Every row from its pivot on is written, as before: 5 + 4 + 3 + 2 entries.
    assert_eq!(s.to_bytes().len(), 28 + 4 * 4 + 8 * (14 + 4 + 2) + 4);
    let both = s.merge(&s).unwrap();
    assert_eq!(both.numbers(), 8);
    assert_near(&both.column_squares(), &[64.0, 64.0, 256.0, 16.0, 0.0]);
    let again = both.remove(&s).unwrap();
    assert_near(&again.column_squares(), &s.column_squares());
    let from_sums = Summary::from_products(&s.products()).unwrap();
    assert_eq!(from_sums.numbers(), 8);
}

#[test]
fn models_of_orthogonal_columns_have_their_textbook_answers() {
    let tables = [factorial(&TRUTH, 1.0), factorial(&TRUTH, -2.0)];
    let settings = Settings { intercept: true, ..plain() };
    let learner = learned(settings.clone(), &tables);
    let expected = [TRUTH[0], TRUTH[1], TRUTH[2], TRUTH[3], 0.0];
    assert_near(learner.solution().unwrap().theta.column(0), &expected);
    // σ² = Σe²/(N − 4); the error of a coefficient is σ/√Σx².
    let sigma = (32.0 * (1.0 + 4.0) / 60.0_f64).sqrt();
    let errors = inference::Covariance::of(&learner).unwrap().standard_errors();
    for (error, squares) in errors[0].iter().zip([64.0, 64.0, 256.0, 16.0]) {
        assert_near(&[error.unwrap()], &[sigma / f64::sqrt(squares)]);
    }
    assert_eq!(errors[0][4], None);
    // A ridge on orthogonal columns: θ n v / (n v + n λ), v = Σx²/n.
    let ridge = 0.25;
    let held = learned(Settings { ridge: Ridge::Fixed(ridge), ..settings.clone() }, &tables);
    let shrunk = [
        TRUTH[0],
        TRUTH[1] / (1.0 + ridge),
        TRUTH[2] * 4.0 / (4.0 + ridge),
        TRUTH[3] * 0.25 / (0.25 + ridge),
        0.0,
    ];
    assert_near(held.solution().unwrap().theta.column(0), &shrunk);
    let chosen = learned(Settings { ridge: Ridge::Auto, ..settings }, &tables);
    let theta = &chosen.solution().unwrap().theta;
    assert!(theta.column(0).iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.2), "{theta:?}");
}

/// Files written when zeros were stored have the size of such summaries on record.
#[test]
fn records_of_summaries_with_stored_zeros_are_accepted() {
    let settings = Settings { memory: MemoryKind::Ledger, intercept: true, ..plain() };
    let learner = learned(settings.clone(), &[factorial(&TRUTH, 1.0)]);
    let task = learner.task_summary_at(0).unwrap();
    let state = |bytes: usize| LearnerState {
        problem: learner.problem().clone(),
        settings: settings.clone(),
        design: learner.design().cloned(),
        outputs: learner.outputs().clone(),
        tasks: vec![(TaskRecord { bytes, ..learner.records()[0].clone() }, Some(task.clone()))],
        pool: Some(learner.pool().unwrap().clone()),
        solution: Some((learner.solution().unwrap().clone(), vec![true])),
    };
    let stored = task.nbytes();
    // Of rows from pivots 0 to 3 on, 4 + 3 + 2 + 1 entries are zero.
    for bytes in [stored, stored + 8 * 10] {
        Learner::from_state(state(bytes)).unwrap();
    }
    Learner::from_state(state(stored + 8)).unwrap_err();
}

#[test]
fn the_front_of_orthogonal_tasks_is_that_of_weighted_solutions() {
    let other = [1.0, -1.0, 1.0, 2.0];
    let tables = [factorial(&TRUTH, 1.0), factorial(&other, 2.0)];
    let [a, b] = tables.each_ref().map(|t| t.summarize(true, Accumulator::Qr));
    let front = PairFront::new(&a, &b, true).unwrap();
    let theta = front.theta(0.25).unwrap();
    let mean = |j: usize| 0.25 * TRUTH[j] + 0.75 * other[j];
    assert_near(theta.column(0), &[mean(0), mean(1), mean(2), mean(3), 0.0]);
    let origin = Theta::zeros(5, 1);
    assert_near(&[a.loss(&origin).unwrap()], &[tables[0].loss(&Theta::zeros(4, 1))]);
    let solved = solve(&a, true, pmfcl::Penalty::NONE, None).unwrap();
    assert_near(solved.theta.column(0), &[TRUTH[0], TRUTH[1], TRUTH[2], TRUTH[3], 0.0]);
}

#[test]
fn updates_with_orthogonal_columns_come_back() {
    let settings = Settings { intercept: true, ..plain() };
    let design = Design::linear(4, true).unwrap();
    let agreement = Agreement::new(Problem::squared(), settings, design, 1).unwrap();
    let table = factorial(&TRUTH, 1.0);
    let exact = Update::of_rows(&agreement, "c", 0, table.task()).unwrap();
    for update in [
        exact.clone(),
        exact.clone().in_single().unwrap(),
        exact.clone().in_diagonal(&agreement).unwrap(),
        exact.in_diagonal(&agreement).unwrap().in_single().unwrap(),
    ] {
        let bytes = update.to_bytes();
        assert_eq!(bytes.len(), update.nbytes());
        assert_eq!(Update::from_bytes(&bytes, 1 << 20), Ok(update));
    }
}

/// A quadratic that is diagonal because its columns are orthogonal is the loss itself, not a bound of it.
#[test]
fn orthogonal_columns_are_no_diagonal_bound() {
    let settings = Settings { intercept: true, ..plain() };
    let design = Design::linear(4, true).unwrap();
    let agreement = Agreement::new(Problem::squared(), settings, design, 1).unwrap();
    let exact = Update::of_rows(&agreement, "c", 0, factorial(&TRUTH, 1.0).task()).unwrap();
    let bound = exact.clone().in_diagonal(&agreement).unwrap();
    for (sent, is_exact) in [(exact, true), (bound, false)] {
        let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
        server.accept_bytes(&sent.to_bytes()).unwrap();
        assert_eq!((sent.is_diagonal(), server.is_exact()), (!is_exact, is_exact));
        assert_eq!(server.report().unwrap()[0].report.forgetting.is_some(), is_exact);
    }
    // Ranks of exact updates are checked against their samples, whatever their form.
    let few = factorial(&TRUTH, 1.0).part(0, 8).summarize(true, Accumulator::Qr).scale(0.25);
    let few = Update::of_quadratic(&agreement, "c", 1, few.unwrap()).unwrap();
    let mut server = Server::new(agreement, Rules::default()).unwrap();
    let error = server.accept(few).unwrap_err().to_string();
    assert!(error.contains("rank 4"), "{error}");
}

#[test]
fn classes_that_no_column_tells_apart_are_as_likely() {
    let table = factorial(&[0.0; 4], 1.0);
    let labels: Vec<&str> =
        table.y.iter().map(|y| if *y > 0.0 { "same" } else { "different" }).collect();
    let labels = Labels::new(&labels);
    for loss in ["gaussian", "squared"] {
        let problem = Problem::parse(loss, Some(ClassList::Open)).unwrap();
        let settings = Settings { threads: 1, ..Settings::default() };
        let mut model = Learner::new(problem, settings).unwrap();
        model.learn("all", TaskRows::new(table.rows(), &labels), 1.0).unwrap();
        let shares = model.probabilities(Rows::new(&[1.0, 2.0, 0.5, 0.0], 4).unwrap()).unwrap();
        assert!(shares.iter().all(|s| (s - 0.5).abs() < 1e-9), "{shares:?}");
    }
}
