//! What is kept, and what a task costs when many came before it.

mod support;

use std::time::{Duration, Instant};

use pmfcl::{Learner, MemoryKind, Preference, Ridge, Settings, Summary, TaskRows, TaskSummary};
use pmfcl_oracle::Draw;
use support::{Table, apart, learned, settings};

/// A packed triangle of `m` columns and `p` targets with its scalars (n, c, Σy) and the floor.
fn fold_size(m: usize, p: usize) -> usize {
    8 * (m * (m + 1) / 2 + m * p + 1 + 2 * p) + 4 * m + 8
}

#[test]
fn compact_state_does_not_grow_from_task_ten_to_task_ten_thousand() {
    let mut draw = Draw::new(1);
    let (d, p) = (3, 2);
    let mut learner = support::learner(Settings {
        intercept: true,
        ridge: Ridge::Fixed(1e-3),
        ..settings(MemoryKind::Compact, Preference::Samples)
    });
    let mut at_ten = 0;
    for t in 1..=10_000 {
        let table = Table::noise(2, d, p, &mut draw);
        learner.learn(&t.to_string(), table.task(), 1.0).unwrap();
        if t == 10 {
            at_ten = learner.state_bytes();
        }
        assert!(learner.state_bytes() <= fold_size(d + 1, p), "task {t}");
    }
    assert_eq!((at_ten, learner.state_bytes()), (fold_size(d + 1, p), fold_size(d + 1, p)));
    assert!((learner.samples() - 20_000.0).abs() < 1e-9);
}

/// `1 / Σ α_t²/n_t` by hand, whatever has been learned, preferred and unlearned before.
#[test]
fn effective_samples_are_those_of_kish() {
    let mut draw = Draw::new(8);
    let tables = [Table::noise(10, 2, 1, &mut draw), Table::noise(40, 2, 1, &mut draw)];
    let near = |learner: &Learner, expected: f64| {
        let found = learner.effective_samples().unwrap();
        assert!((found / expected - 1.0).abs() < 1e-14, "{found}, not {expected}");
    };
    // α = (1/5, 4/5), (1/2, 1/2) and (1/3, 2/3).
    let cases =
        [(Preference::Samples, 50.0), (Preference::Equal, 32.0), (Preference::Decay(0.5), 45.0)];
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        for (prefer, expected) in &cases {
            // Weights that cannot be squared in double precision.
            for weight in [1.0, 1e-200, 1e200] {
                let mut learner = support::learner(settings(memory, prefer.clone()));
                for (name, t) in ["a", "b"].iter().zip(&tables) {
                    let (x, y) = (t.rows(), t.targets());
                    learner.learn(name, TaskRows::new(x, y), weight).unwrap();
                }
                near(&learner, *expected);
                assert!((learner.samples() - 50.0).abs() < 1e-12);
                // A task that is refused leaves no trace.
                let wide = Table::noise(3, 5, 1, &mut draw);
                learner.learn("c", wide.task(), 1.0).unwrap_err();
                near(&learner, *expected);
                if memory == MemoryKind::Ledger {
                    for (prefer, expected) in &cases {
                        learner.prefer(prefer.clone()).unwrap();
                        near(&learner, *expected);
                    }
                    let chosen = vec![("a".to_owned(), 0.25), ("b".to_owned(), 0.75)];
                    learner.prefer(Preference::Chosen(chosen)).unwrap();
                    near(&learner, 1.0 / (0.25 * 0.25 / 10.0 + 0.75 * 0.75 / 40.0));
                    learner.unlearn("b").unwrap();
                    near(&learner, 10.0);
                    assert!((learner.samples() - 10.0).abs() < 1e-12);
                }
            }
        }
    }
    // Two memories make one.
    let mut both = learned(settings(MemoryKind::Ledger, Preference::Equal), &tables[..1]);
    let mut other = support::learner(settings(MemoryKind::Ledger, Preference::Equal));
    other.learn("b", tables[1].task(), 1.0).unwrap();
    both.merge(&other).unwrap();
    near(&both, 32.0);
}

/// Algorithm 3, with packed sizes on both sides (erratum E11).
#[test]
fn held_factors_fold_when_the_triangle_is_smaller_and_the_model_stays() {
    for (seed, prefer) in
        [Preference::Samples, Preference::Equal, Preference::Decay(0.8)].into_iter().enumerate()
    {
        let mut draw = Draw::new(seed as u64);
        let d = 14;
        let tables: Vec<Table> = (0..14).map(|_| Table::noise(2, d, 1, &mut draw)).collect();
        let mut compact = support::learner(settings(MemoryKind::Compact, prefer.clone()));
        let mut ledger = support::learner(settings(MemoryKind::Ledger, prefer));
        let mut switched = None;
        let mut held = 0;
        for (t, table) in tables.iter().enumerate() {
            for learner in [&mut compact, &mut ledger] {
                learner.learn(&t.to_string(), table.task(), 1.0).unwrap();
            }
            held += table.summary().numbers();
            let folds = held >= d * (d + 1) / 2 + d;
            if folds && switched.is_none() {
                switched = Some(t);
            }
            assert_eq!(compact.summaries().is_none(), folds, "task {t}");
            let (a, b) = (compact.solution().unwrap(), ledger.solution().unwrap());
            // Two rows a task, one direction in 14 may be ten times weaker than the others.
            let off = apart(a.theta.cells(), b.theta.cells());
            assert!(off < 1e-10, "task {t}: {off:e}");
            assert_eq!((a.rank, a.outcome), (b.rank, b.outcome));
        }
        // Twenty-nine numbers less one for each second row: 119 are reached with the fifth task.
        assert_eq!(switched, Some(4));
        // A triangle without all pivots is smaller still: 10 of 14 rows had been seen.
        assert_eq!(compact.state_bytes(), fold_size(d, 1));
    }
}

#[test]
fn a_ledger_keeps_the_bytes_of_its_summaries() {
    let mut draw = Draw::new(3);
    let tables: Vec<Table> = (0..5).map(|n| Table::noise(1 + 4 * n, 6, 1, &mut draw)).collect();
    let ledger = learned(settings(MemoryKind::Ledger, Preference::Samples), &tables);
    let own: Vec<usize> = tables.iter().map(|t| t.summary().nbytes()).collect();
    assert_eq!(ledger.state_bytes(), own.iter().sum::<usize>());
    let reported: Vec<usize> = ledger.tasks().unwrap().iter().map(|t| t.bytes).collect();
    assert_eq!(reported, own);
    for (s, t) in ledger.summaries().unwrap().iter().zip(&tables) {
        assert_eq!(**s, t.summary());
    }
}

/// The quickest of several learnings, after which the task is unlearned in the caller's own time.
fn quickest(learner: &mut Learner, summary: &Summary, from: usize) -> Duration {
    (0..8)
        .map(|i| {
            let (name, summary) = (format!("t{}", from + i), summary.clone());
            let start = Instant::now();
            learner.insert_summary(&name, TaskSummary::exact(summary, None), 1.0).unwrap();
            start.elapsed()
        })
        .min()
        .unwrap()
}

#[test]
fn a_task_costs_the_same_however_many_came_before() {
    let mut draw = Draw::new(4);
    let d = 64;
    let table = Table::noise(2 * d, d, 1, &mut draw);
    let summary = table.summary();
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let mut learner =
            learned(settings(memory, Preference::Samples), std::slice::from_ref(&table));
        let early = quickest(&mut learner, &summary, 0);
        for t in 100..800 {
            learner
                .insert_summary(&t.to_string(), TaskSummary::exact(summary.clone(), None), 1.0)
                .unwrap();
        }
        let late = quickest(&mut learner, &summary, 1000);
        // Copying 800 summaries of 17 kB would take ten times as long as the merge itself.
        assert!(late < 3 * early, "{memory:?}: {early:?} for task 10, {late:?} for task 800");
    }
}
