//! What is kept, and what a task costs when many came before it.

use std::sync::Arc;

use crate::support::{Table, apart, learned, settings};
use pmfcl::{Learner, MemoryKind, Preference, Ridge, Settings, TaskRows, TaskSummary};
use pmfcl_oracle::Draw;

/// A packed triangle of `m` columns and `p` targets with its scalars (n, c, Σy) and the floor.
fn fold_size(m: usize, p: usize) -> usize {
    8 * (m * (m + 1) / 2 + m * p + 1 + 2 * p) + 4 * m + 8
}

#[test]
fn compact_state_does_not_grow_from_task_ten_to_task_ten_thousand() {
    let mut draw = Draw::new(1);
    let (d, p) = (3, 2);
    let mut learner = crate::support::learner(Settings {
        intercept: true,
        ridge: Ridge::Fixed(1e-3),
        ..settings(MemoryKind::Compact, Preference::Samples)
    });
    let mut at_ten = 0;
    for t in 1..=10_000 {
        let table = Table::noise(2, d, p, &mut draw);
        learner.learn(&t.to_string(), table.task(), 1.0).unwrap();
        // What waits to be merged is smaller than the triangle it will be merged with.
        assert!(learner.state_bytes() < 2 * fold_size(d + 1, p), "task {t}");
        if t % 1000 == 10 {
            learner.solution().unwrap();
            assert_eq!(learner.state_bytes(), fold_size(d + 1, p), "task {t}, merged");
        }
        if t == 10 {
            at_ten = learner.state_bytes();
        }
    }
    learner.solution().unwrap();
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
                let mut learner = crate::support::learner(settings(memory, prefer.clone()));
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
    let mut other = crate::support::learner(settings(MemoryKind::Ledger, Preference::Equal));
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
        let mut compact = crate::support::learner(settings(MemoryKind::Compact, prefer.clone()));
        let mut ledger = crate::support::learner(settings(MemoryKind::Ledger, prefer));
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
            assert_eq!((a.rank(), a.outcome), (b.rank(), b.outcome));
        }
        // Twenty-nine numbers less one for each second row: 119 are reached with the fifth task.
        assert_eq!(switched, Some(4));
        // A triangle without all pivots is smaller still: 10 of 14 rows had been seen.
        assert_eq!(compact.state_bytes(), fold_size(d, 1));
    }
}

/// Two memories that hold their summaries become one that folds at any of the tasks that are merged in, or at none.
#[test]
fn memories_that_fold_while_they_are_merged_keep_every_task() {
    let mut draw = Draw::new(12);
    let tables: Vec<Table> = (0..8).map(|_| Table::noise(1, 5, 1, &mut draw)).collect();
    let part = |from: usize, to: usize| {
        let mut learner =
            crate::support::learner(settings(MemoryKind::Compact, Preference::Samples));
        for (t, table) in tables.iter().enumerate().take(to).skip(from) {
            learner.learn(&t.to_string(), table.task(), 1.0).unwrap();
        }
        learner
    };
    for count in 2..=tables.len() {
        let all = part(0, count);
        for at in 1..count {
            let mut merged = part(0, at);
            merged.merge(&part(at, count)).unwrap();
            assert_eq!(merged.pool().unwrap().samples.round() as usize, count, "{at} of {count}");
            let (a, b) = (merged.solution().unwrap(), all.solution().unwrap());
            assert!(apart(a.theta.cells(), b.theta.cells()) < 1e-9, "{at} of {count}");
        }
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

/// Nothing that was there before is copied, pooled again or kept twice; `every_task_is_pooled_once` counts the work.
#[test]
fn a_task_costs_the_same_however_many_came_before() {
    let mut draw = Draw::new(4);
    let d = 8;
    let table = Table::noise(2 * d, d, 1, &mut draw);
    let task = TaskSummary::exact(table.summary(), None);
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let mut learner =
            learned(settings(memory, Preference::Samples), std::slice::from_ref(&table));
        let first = learner.task_summary_at(0).cloned();
        let pooled = |learner: &Learner| learner.kept_pool().map(|pool| pool.tasks);
        for t in 1..800 {
            learner.solution().unwrap();
            assert_eq!(pooled(&learner), Some(t));
            learner.insert_summary(&format!("t{t}"), task.clone(), 1.0).unwrap();
            // The pool stays, and the new task waits next to it or is merged with it.
            let all = if memory == MemoryKind::Ledger { t } else { t + 1 };
            assert_eq!(pooled(&learner), Some(all));
            if let Some(first) = &first {
                assert!(Arc::ptr_eq(first, learner.task_summary_at(0).unwrap()), "task {t}");
            }
        }
        assert_eq!(first.is_some(), memory == MemoryKind::Ledger);
        assert_eq!(learner.clone().task_summary_at(799).is_some(), first.is_some());
    }
    // Copies of a learner share its summaries.
    let ledger = learned(settings(MemoryKind::Ledger, Preference::Samples), &[table]);
    let copy = ledger.clone();
    assert!(Arc::ptr_eq(ledger.task_summary_at(0).unwrap(), copy.task_summary_at(0).unwrap()));
}
