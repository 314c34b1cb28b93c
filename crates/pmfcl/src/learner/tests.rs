//! What is counted inside the learner: solutions, mapped rows, tasks that are pooled.

use super::*;
use crate::basis::MAPPED;
use crate::labels::Labels;
use crate::problem::POOLED;
use std::cell::Cell;

thread_local! {
    /// Solutions that this thread has made.
    pub(super) static SOLVED: Cell<usize> = const { Cell::new(0) };
}

fn solved() -> usize {
    SOLVED.with(Cell::get)
}

/// Rows of two inputs and one target, different for every task.
fn numbers(task: usize, rows: usize) -> (Vec<f64>, Vec<f64>) {
    let x: Vec<f64> =
        (0..2 * rows).map(|i| ((i * i + 7 * i + 13 * task) % 23) as f64 / 23.0).collect();
    let y = x.chunks_exact(2).map(|r| r[0] - 2.0 * r[1] * r[1]).collect();
    (x, y)
}

fn learned(settings: Settings, tasks: usize) -> Learner {
    let mut learner = Learner::new(Problem::squared(), settings).unwrap();
    for t in 0..tasks {
        let (x, y) = numbers(t, 12);
        let rows = TaskRows::new(Rows::new(&x, 2).unwrap(), Rows::new(&y, 1).unwrap());
        learner.learn(&t.to_string(), rows, 1.0).unwrap();
    }
    learner
}

fn on_a_basis(memory: MemoryKind) -> Settings {
    let basis = "rff:40".parse().unwrap();
    Settings { basis, memory, threads: 1, ..Settings::default() }
}

#[test]
fn many_tasks_and_one_prediction_make_one_solution() {
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let before = solved();
        let learner = learned(on_a_basis(memory), 139);
        assert_eq!(solved() - before, 0, "{memory}: learning solves nothing");
        let (x, _) = numbers(5, 12);
        learner.predict(Rows::new(&x, 2).unwrap()).unwrap();
        assert_eq!(solved() - before, 1, "{memory}");
        learner.predict(Rows::new(&x, 2).unwrap()).unwrap();
        learner.tasks().unwrap();
        assert_eq!(solved() - before, 1, "{memory}: the solution is kept");
    }
}

#[test]
fn threads_that_predict_on_an_unsolved_learner_share_one_solution() {
    let learner = learned(on_a_basis(MemoryKind::Ledger), 20);
    let (x, _) = numbers(5, 12);
    let start = std::sync::Barrier::new(8);
    let answers: Vec<(Vec<f64>, usize)> = std::thread::scope(|scope| {
        let ask = || {
            start.wait();
            (learner.predict(Rows::new(&x, 2).unwrap()).unwrap(), solved())
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().map(|(_, solved)| solved).sum::<usize>(), 1);
    assert!(answers.iter().all(|(answer, _)| *answer == answers[0].0));
}

/// However many tasks came before, one more is pooled alone.
#[test]
fn every_task_is_pooled_once() {
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let before = POOLED.with(Cell::get);
        let settings = Settings { memory, threads: 1, ..Settings::default() };
        let mut learner = learned(settings, 1);
        for t in 1..200 {
            learner.solution().unwrap();
            let (x, y) = numbers(t, 12);
            let rows = TaskRows::new(Rows::new(&x, 2).unwrap(), Rows::new(&y, 1).unwrap());
            learner.learn(&t.to_string(), rows, 1.0).unwrap();
        }
        learner.solution().unwrap();
        assert_eq!(POOLED.with(Cell::get) - before, 200, "{memory}");
    }
}

#[test]
fn a_fit_that_looks_again_maps_each_row_once() {
    const ROWS: usize = 300;
    for loss in ["logistic", "huber:0.1", "poisson:3"] {
        for basis in ["rff:20", "spline:5", "poly:2"] {
            let settings =
                Settings { basis: basis.parse().unwrap(), threads: 1, ..Settings::default() };
            let problem = Problem::parse(loss, None).unwrap();
            let mut learner = Learner::new(problem, settings).unwrap();
            let (x, y) = numbers(1, ROWS);
            let names: Vec<&str> =
                y.iter().map(|y| if *y > -0.2 { "up" } else { "down" }).collect();
            let labels = Labels::new(&names);
            let counts: Vec<f64> = y.iter().map(|y| (3.0 + y).floor()).collect();
            let x = Rows::new(&x, 2).unwrap();
            let rows = match loss {
                "logistic" => TaskRows::new(x, &labels),
                _ => TaskRows::new(x, Rows::new(&counts, 1).unwrap()),
            };
            let before = MAPPED.with(Cell::get);
            learner.learn("task", rows, 1.0).unwrap();
            assert_eq!(MAPPED.with(Cell::get) - before, ROWS, "{loss} on {basis}");
        }
    }
}
