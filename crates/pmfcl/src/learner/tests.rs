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

/// Rows added to the last task in pieces are the task, in every memory and under every preference, solved in between or not.
#[test]
fn rows_that_are_appended_are_the_same_task() {
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        for prefer in [Preference::Samples, Preference::Equal, Preference::Decay(0.5)] {
            'case: for (tasks, solve_between) in [(1, false), (1, true), (3, false), (3, true)] {
                let settings = Settings {
                    memory,
                    prefer: prefer.clone(),
                    ridge: Ridge::Fixed(0.1),
                    threads: 1,
                    ..Settings::default()
                };
                let whole = learned(settings.clone(), tasks);
                let mut learner = learned(settings, tasks - 1);
                let (x, y) = numbers(tasks - 1, 12);
                let piece = |from: usize, to: usize| {
                    let (x, y) = (&x[2 * from..2 * to], &y[from..to]);
                    TaskRows::new(Rows::new(x, 2).unwrap(), Rows::new(y, 1).unwrap())
                };
                learner.learn(&(tasks - 1).to_string(), piece(0, 4), 1.0).unwrap();
                let design = learner.design().unwrap().clone();
                for (from, to) in [(4, 5), (5, 12)] {
                    if solve_between {
                        learner.solution().unwrap();
                    }
                    let part = learner.summarize(piece(from, to)).unwrap();
                    let appended = learner.append(&design, part);
                    if learner.is_folded() && prefer != Preference::Samples && tasks > 1 {
                        assert!(appended.unwrap_err().to_string().contains("compact memory"));
                        continue 'case;
                    }
                    appended.unwrap();
                }
                let what = format!("{memory} {prefer} {tasks} {solve_between}");
                assert_eq!(learner.records().len(), tasks, "{what}");
                let (a, b) = (learner.solution().unwrap(), whole.solution().unwrap());
                for (a, b) in a.theta.cells().iter().zip(b.theta.cells()) {
                    assert!((a - b).abs() <= 1e-10 * (1.0 + b.abs()), "{what}: {a} and {b}");
                }
                let (a, b) = (learner.pool().unwrap(), whole.pool().unwrap());
                assert_eq!((a.tasks, a.samples, a.rows), (b.tasks, b.samples, b.rows), "{what}");
                assert!((a.spread - b.spread).abs() <= 1e-12 * b.spread, "{what}");
                let known = a.least.zip(b.least).is_none_or(|(a, b)| (a - b).abs() < 1e-10);
                assert!(known, "{what}: {:?} and {:?}", a.least, b.least);
            }
        }
    }
}
