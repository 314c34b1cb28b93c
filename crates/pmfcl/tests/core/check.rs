//! Rows before they are learned: what is wrong is noticed, and what is right is let pass; rows leave a task exactly.

use std::collections::BTreeSet;

use crate::support::{Table, settings};
use pmfcl::problem::{Content, ContentKeys, InMemory, Passes as _};
use pmfcl::report::check::{Check, Condition, Effort, FindingKind, NewTask, Reference};
use pmfcl::{Learner, MemoryKind, Preference, Settings, TaskSummary};
use pmfcl_oracle::Draw;

const TRUTH: [f64; 4] = [1.0, -2.0, 0.5, 0.0];

fn names() -> Vec<String> {
    ["a", "b", "c", "d"].map(str::to_owned).into()
}

fn content(table: &Table) -> [u8; 32] {
    let mut content = Content::default();
    content.add(&ContentKeys::new(names(), &["y".to_owned()]), &table.task());
    content.to_bytes()
}

/// A learner of one task, with the hash of its rows.
fn learned(table: &Table) -> Learner {
    let mut learner = crate::support::learner(Settings::default());
    learn(&mut learner, "first", table);
    learner
}

fn draft(learner: &Learner, table: &Table) -> (pmfcl::Design, pmfcl::problem::Draft) {
    let design = learner.design_for(&table.rows()).unwrap();
    let mut passes = InMemory::new(learner.context_with(&design), table.task()).unwrap();
    let first = passes.run(&learner.problem().first_pass()).unwrap();
    let mut draft = learner.fit(&design, first, &mut passes, 1.0).unwrap();
    draft.summary.head.content = Some(content(table));
    (design, draft)
}

fn learn(learner: &mut Learner, name: &str, table: &Table) {
    let (design, draft) = draft(learner, table);
    learner.insert(name, &design, draft, 1.0).unwrap();
}

fn check(learner: &Learner, table: &Table) -> Check {
    let (design, draft) = draft(learner, table);
    let reference = Reference::of(learner, &names()).unwrap();
    let rows = reference.look(learner, &table.task(), &[], |i| i as u64);
    let task = NewTask {
        design: &design,
        draft: &draft,
        rows: &rows,
        dropped: 0,
        inputs: &names(),
        targets: &["y".to_owned()],
        gaps: &[],
    };
    Check::of(learner, &task, Effort::Full).unwrap()
}

fn warned(learner: &Learner, table: &Table) -> BTreeSet<String> {
    check(learner, table).warnings().map(|finding| finding.kind.to_string()).collect()
}

/// Columns of unlike size and shape: a shift, a skew, a few heavy tails.
fn table(n: usize, draw: &mut Draw) -> Table {
    let mut table = Table::linear(n, &TRUTH, 1.0, draw);
    for row in table.x.chunks_exact_mut(4) {
        row[1] = 20.0 + 8.0 * row[1];
        row[2] = (0.8 * row[2]).exp();
    }
    for (y, row) in table.y.iter_mut().zip(table.x.chunks_exact(4)) {
        *y = crate::support::inner(row, &TRUTH) + draw.normal();
    }
    table
}

/// A thousand random splits of rows of one kind: a warning about the second half is a false alarm.
#[test]
fn random_splits_of_one_task_rarely_warn() {
    let mut draw = Draw::new(5);
    let (trials, mut alarms) = (1000, 0);
    for _ in 0..trials {
        let all = table(240, &mut draw);
        let learner = learned(&all.part(0, 120));
        alarms += usize::from(!warned(&learner, &all.part(120, 240)).is_empty());
    }
    // The next test shows that it does warn.
    assert!(alarms <= 50, "{alarms} of {trials}");
}

#[test]
fn what_is_wrong_is_noticed() {
    let mut draw = Draw::new(6);
    let (old, new) = (table(400, &mut draw), table(400, &mut draw));
    let learner = learned(&old);
    assert_eq!(warned(&learner, &new), BTreeSet::new());
    let changed = |change: &dyn Fn(usize, &mut [f64], &mut f64)| {
        let mut table = new.clone();
        let rows = table.x.chunks_exact_mut(4).zip(&mut table.y).enumerate();
        rows.for_each(|(i, (x, y))| change(i, x, y));
        table
    };
    let has = |table: &Table, kind: &str| warned(&learner, table).contains(kind);
    for (factor, offset) in [(10.0, 0.0), (1000.0, 0.0), (0.1, 0.0), (1.8, 32.0)] {
        let other = changed(&|_, x, _| x[1] = factor * x[1] + offset);
        assert!(has(&other, "units") && has(&other, "drift"), "{factor} {offset}");
        let found = check(&learner, &other);
        let unit = found.inputs[1].unit.unwrap();
        assert!((unit.factor / factor - 1.0).abs() < 1e-12 && (unit.offset - offset).abs() < 1e-12);
    }
    let ys = new.y.clone();
    assert!(has(&changed(&|i, _, y| *y = ys[(i * 171 + 5) % 400]), "drift"));
    assert!(has(&changed(&|i, _, y| *y += if i % 100 == 7 { 10.0 } else { 0.0 }), "outliers"));
    let cell = changed(&|i, x, _| x[3] = if i == 11 { 9.9e9 } else { x[3] });
    let found = check(&learner, &cell);
    assert_eq!((found.found.worst[0].row, found.found.beyond), (11, 1));
    assert!(has(&cell, "outliers"));
    assert!(has(&changed(&|_, x, _| x[0] += 1.0), "shift"));
    // The same rows from back to front.
    let mut turned = old.clone();
    turned.x = old.x.chunks_exact(4).rev().flatten().copied().collect();
    turned.y.reverse();
    assert!(has(&turned, "repeat"));
    let found = check(&learner, &turned);
    assert_eq!(found.repeats.as_deref(), Some("first"));
    for (condition, holds) in
        [("repeat", true), ("any", true), ("units", false), ("shift>0.2", false)]
    {
        assert_eq!(condition.parse::<Condition>().unwrap().holds(&found), holds, "{condition}");
    }
    assert_eq!(found.findings[0].kind, FindingKind::Repeat);
}

/// Too few rows for each column for Chow's test of all coefficients: the slope on what memory predicts is one number.
#[test]
fn a_shuffled_target_is_noticed_among_few_rows() {
    let mut draw = Draw::new(8);
    let (mut seen, mut alarms) = (0, 0);
    for _ in 0..100 {
        let truth: Vec<f64> = (0..19).map(|j| if j < 6 { 0.4 } else { 0.0 }).collect();
        let all = Table::linear(164, &truth, 1.0, &mut draw);
        let (old, new) = (all.part(0, 82), all.part(82, 164));
        let mut learner = crate::support::learner(Settings::default());
        learner.learn("first", old.task(), 1.0).unwrap();
        let found = |table: &Table| {
            let design = learner.design_for(&table.rows()).unwrap();
            let mut passes = InMemory::new(learner.context_with(&design), table.task()).unwrap();
            let first = passes.run(&learner.problem().first_pass()).unwrap();
            let draft = learner.fit(&design, first, &mut passes, 1.0).unwrap();
            let inputs: Vec<String> = (0..19).map(|j| format!("x{j}")).collect();
            let rows =
                Reference::of(&learner, &inputs)
                    .unwrap()
                    .look(&learner, &table.task(), &[], |i| i as u64);
            let (design, draft, rows) = (&design, &draft, &rows);
            let (targets, gaps) = (&["y".to_owned()], &[]);
            let task = NewTask { design, draft, rows, dropped: 0, inputs: &inputs, targets, gaps };
            Check::of(&learner, &task, Effort::Full).unwrap()
        };
        let drifts = |check: &Check| check.warnings().any(|f| f.kind == FindingKind::Drift);
        let mut shuffled = new.clone();
        shuffled.y.rotate_left(31);
        seen += usize::from(drifts(&found(&shuffled)));
        alarms += usize::from(drifts(&found(&new)));
    }
    assert!(seen >= 80 && alarms <= 2, "noticed {seen}, false {alarms} of 100");
}

/// The price of one model for both, against both fitted by hand.
#[test]
fn the_costs_of_drift_are_those_of_the_joint_model() {
    let mut draw = Draw::new(7);
    let (old, mut new) = (table(300, &mut draw), table(200, &mut draw));
    new.y.iter_mut().zip(new.x.chunks_exact(4)).for_each(|(y, x)| *y += x[0]);
    let plain = Settings { ridge: pmfcl::Ridge::Fixed(0.0), ..Settings::default() };
    let mut learner = crate::support::learner(plain.clone());
    learn(&mut learner, "old", &old);
    let drift = check(&learner, &new).drift.unwrap();
    let fit = |tables: &[&Table]| {
        let mut learner = crate::support::learner(plain.clone());
        for (t, table) in tables.iter().enumerate() {
            learner.learn(&t.to_string(), table.task(), 1.0).unwrap();
        }
        learner.solution().unwrap().theta.clone()
    };
    let (joint, alone, own) = (fit(&[&old, &new]), fit(&[&old]), fit(&[&new]));
    let cost = |table: &Table, by: &pmfcl::Theta, least: &pmfcl::Theta| {
        let ones = table.with_ones();
        ones.loss(by) / ones.loss(least) - 1.0
    };
    assert!((drift.cost_to_memory - cost(&old, &joint, &alone)).abs() < 1e-9);
    assert!((drift.cost_to_rows - cost(&new, &joint, &own)).abs() < 1e-9);
    assert!(drift.p_value.unwrap() < 1e-3);
}

/// The check of a memory of many tasks is that of one task of all their rows, for tasks of one row too.
#[test]
fn how_memory_was_divided_does_not_matter() {
    let mut draw = Draw::new(11);
    let (old, new) = (table(240, &mut draw), table(50, &mut draw));
    let expected = check(&learned(&old), &new);
    let drift = expected.drift.unwrap();
    for (tasks, memory) in [
        (2, MemoryKind::Ledger),
        (40, MemoryKind::Ledger),
        (240, MemoryKind::Ledger),
        (40, MemoryKind::Compact),
    ] {
        let mut learner = crate::support::learner(Settings { memory, ..Settings::default() });
        let size = 240 / tasks;
        for t in 0..tasks {
            learn(&mut learner, &t.to_string(), &old.part(t * size, (t + 1) * size));
        }
        let found = check(&learner, &new);
        let other = found.drift.unwrap();
        let gap = |a: f64, b: f64| (a - b).abs() / a.abs().max(1e-3);
        assert!(gap(drift.p_value.unwrap(), other.p_value.unwrap()) < 1e-7, "{tasks}");
        assert!(gap(drift.cautious_p.unwrap(), other.cautious_p.unwrap()) < 1e-7, "{tasks}");
        assert!(gap(drift.cost_to_memory, other.cost_to_memory) < 1e-7, "{tasks}");
        assert!(gap(drift.cost_to_rows, other.cost_to_rows) < 1e-7, "{tasks}");
        assert_eq!(expected.inputs.len(), found.inputs.len());
    }
    // Of other preferences the costs are those of the model that would be made.
    let decay = Settings { prefer: "decay:0.8".parse().unwrap(), ..Settings::default() };
    let mut learner = crate::support::learner(decay);
    (0..4).for_each(|t| learn(&mut learner, &t.to_string(), &old.part(60 * t, 60 * (t + 1))));
    let before = learner.pool().unwrap().quadratic.clone();
    let least = before.loss(&learner.solution().unwrap().theta).unwrap();
    let found = check(&learner, &new).drift.unwrap();
    learn(&mut learner, "new", &new);
    let cost = before.loss(&learner.solution().unwrap().theta).unwrap() / least - 1.0;
    assert!((found.cost_to_memory - cost).abs() < 1e-9 * cost.max(1e-3), "{cost}");
    assert!(found.p_value.is_some());
}

/// Where a hundred rows are a task, one per cent of them is one row.
#[test]
fn one_row_far_off_among_few_is_a_warning() {
    let mut draw = Draw::new(12);
    let (old, new) = (table(100, &mut draw), table(100, &mut draw));
    let learner = learned(&old);
    assert_eq!(warned(&learner, &new), BTreeSet::new());
    let mut spoilt = new.clone();
    spoilt.y[17] += 12.0;
    assert!(warned(&learner, &spoilt).contains("outliers"));
}

#[test]
fn rows_leave_a_task_as_if_they_had_never_been_in_it() {
    let mut draw = Draw::new(8);
    for _ in 0..5 {
        let (all, other) = (table(90, &mut draw), table(30, &mut draw));
        let removed: Vec<usize> = (0..90).filter(|i| i % 9 == 4).collect();
        let stay: Vec<usize> = (0..90).filter(|i| i % 9 != 4).collect();
        let make = |first: &Table| {
            let mut learner =
                crate::support::learner(settings(MemoryKind::Ledger, Preference::Samples));
            learn(&mut learner, "a", first);
            learn(&mut learner, "b", &other);
            learner
        };
        let mut learner = make(&all);
        let part: TaskSummary = draft(&learner, &all.pick(&removed)).1.summary;
        learner.unlearn_rows("a", &part).unwrap();
        let rest = make(&all.pick(&stay));
        let (a, b) = (&learner.solution().unwrap().theta, &rest.solution().unwrap().theta);
        for (x, y) in a.cells().iter().zip(b.cells()) {
            assert!((x - y).abs() < 1e-10, "{x} {y}");
        }
        let (a, b) = (&learner.records()[0].head, &rest.records()[0].head);
        assert_eq!((a.rows, a.content), (b.rows, b.content));
        assert!((a.least.value().unwrap() - b.least.value().unwrap()).abs() < 1e-10);
        // The rest of the rows is the rest of the task; other rows are refused, and nothing has changed then.
        let before = learner.records().to_vec();
        let strange: Vec<f64> = all.x.iter().map(|v| 1e3 * v).collect();
        let strange = Table { x: strange, ..all.clone() }.part(0, 5);
        let part = draft(&learner, &strange).1.summary;
        assert!(learner.unlearn_rows("a", &part).is_err());
        assert_eq!(before, learner.records());
        let part = draft(&learner, &all.pick(&stay)).1.summary;
        learner.unlearn_rows("a", &part).unwrap();
        assert!(!learner.contains("a"));
    }
}
