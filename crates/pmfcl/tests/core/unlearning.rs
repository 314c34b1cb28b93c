//! Unlearning equals never having learned; merging learners equals one that learned everything.

use crate::support::{Table, apart, learned, settings};
use pmfcl::problem::{ClassList, Partial, Pass, Passes, Worker};
use pmfcl::{
    Accumulator, Error, Learner, MemoryKind, Penalty, Preference, Problem, Ridge, Rows, Settings,
    Summary, TaskRows, TaskSummary, solve,
};
use pmfcl_oracle::Draw;
use proptest::prelude::*;

fn tables(count: usize, d: usize, p: usize, draw: &mut Draw) -> Vec<Table> {
    (0..count)
        .map(|_| {
            let n = 2 * d + 2 + draw.below(20);
            Table::noise(n, d, p, draw)
        })
        .collect()
}

/// The learner that has learned all but one, under the names the others had.
fn without(settings: Settings, tables: &[Table], gone: usize) -> Learner {
    let mut learner = crate::support::learner(settings);
    for (t, table) in tables.iter().enumerate().filter(|(t, _)| *t != gone) {
        learner.learn(&t.to_string(), table.task(), 1.0).unwrap();
    }
    learner
}

fn same(a: &Learner, b: &Learner, tolerance: f64) {
    assert_eq!(a.names().collect::<Vec<_>>(), b.names().collect::<Vec<_>>());
    let (ta, tb) = (&a.solution().unwrap().theta, &b.solution().unwrap().theta);
    let off = apart(ta.cells(), tb.cells());
    assert!(off <= tolerance, "{off:e}");
    let (fa, fb) = (a.mean_forgetting().unwrap(), b.mean_forgetting().unwrap());
    assert!((fa - fb).abs() <= tolerance * (1.0 + fb), "{fa} against {fb}");
    let (wa, wb) = (a.tasks().unwrap(), b.tasks().unwrap());
    for (x, y) in wa.iter().zip(&wb) {
        assert!((x.weight - y.weight).abs() <= 1e-12, "{} against {}", x.weight, y.weight);
    }
}

fn preferences() -> impl Strategy<Value = Preference> {
    prop_oneof![
        Just(Preference::Samples),
        Just(Preference::Equal),
        Just(Preference::Decay(0.7)),
        Just(Preference::Decay(1.0)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_ledger_unlearns_as_if_it_had_never_learned(
        seed in any::<u64>(), count in 2usize..6, d in 1usize..6, p in 1usize..3,
        prefer in preferences(), pick in any::<prop::sample::Index>(), auto in any::<bool>(),
    ) {
        let mut draw = Draw::new(seed);
        let tables = tables(count, d, p, &mut draw);
        let gone = pick.index(count);
        let mut settings = settings(MemoryKind::Ledger, prefer);
        if auto {
            settings = Settings { ridge: Ridge::Fixed(0.1), intercept: true, ..settings };
        }
        let mut learner = learned(settings.clone(), &tables);
        learner.unlearn(&gone.to_string()).unwrap();
        same(&learner, &without(settings, &tables, gone), 1e-12 * 100.0);
        // And goes on from there.
        let next = Table::noise(3 * d, d, p, &mut draw);
        learner.learn("next", next.task(), 1.0).unwrap();
    }

    #[test]
    fn a_ledger_unlearns_under_chosen_weights(
        seed in any::<u64>(), count in 3usize..6, d in 1usize..6, pick in any::<prop::sample::Index>(),
    ) {
        let mut draw = Draw::new(seed);
        let tables = tables(count, d, 1, &mut draw);
        let gone = pick.index(count);
        let raw: Vec<f64> = (0..count).map(|_| 0.1 + draw.uniform()).collect();
        let normalised = |keep: &dyn Fn(usize) -> bool| {
            let sum: f64 = (0..count).filter(|t| keep(*t)).map(|t| raw[t]).sum();
            Preference::Chosen(
                (0..count).filter(|t| keep(*t)).map(|t| (t.to_string(), raw[t] / sum)).collect(),
            )
        };
        let settings = settings(MemoryKind::Ledger, Preference::Samples);
        let mut learner = learned(settings.clone(), &tables);
        learner.prefer(normalised(&|_| true)).unwrap();
        learner.unlearn(&gone.to_string()).unwrap();
        let mut never = without(settings, &tables, gone);
        never.prefer(normalised(&|t| t != gone)).unwrap();
        same(&learner, &never, 1e-12 * 100.0);
    }

    #[test]
    fn folded_memory_unlearns_given_the_rows_once_more(
        seed in any::<u64>(), count in 2usize..6, d in 1usize..6, p in 1usize..3,
        equal in any::<bool>(), pick in any::<prop::sample::Index>(),
    ) {
        let mut draw = Draw::new(seed);
        let tables = tables(count, d, p, &mut draw);
        let gone = pick.index(count);
        let prefer = if equal { Preference::Equal } else { Preference::Samples };
        let settings = settings(MemoryKind::Compact, prefer);
        let mut learner = learned(settings.clone(), &tables);
        prop_assert!(learner.summaries().is_none(), "full-rank tasks fold at once");
        let refused = learner.unlearn(&gone.to_string()).unwrap_err();
        prop_assert!(refused.to_string().contains("unlearn_summary"), "{}", refused);
        learner.unlearn_summary(&gone.to_string(), &tables[gone].kept()).unwrap();
        same(&learner, &without(settings, &tables, gone), 1e-9);
    }

    #[test]
    fn held_memory_unlearns_by_name(
        seed in any::<u64>(), d in 12usize..20, prefer in preferences(),
        pick in any::<prop::sample::Index>(),
    ) {
        let mut draw = Draw::new(seed);
        let tables: Vec<Table> = (0..3).map(|_| Table::noise(2, d, 1, &mut draw)).collect();
        let gone = pick.index(3);
        let settings = settings(MemoryKind::Compact, prefer);
        let mut learner = learned(settings.clone(), &tables);
        prop_assert_eq!(learner.summaries().map(|s| s.len()), Some(3));
        learner.unlearn_summary(&gone.to_string(), &tables[gone].kept()).unwrap();
        same(&learner, &without(settings, &tables, gone), 1e-10);
    }

    #[test]
    fn merged_learners_equal_one_that_learned_everything(
        seed in any::<u64>(), counts in (0usize..4, 1usize..4), d in 1usize..6, p in 1usize..3,
        compact in any::<bool>(), prefer in preferences(), few in any::<bool>(),
    ) {
        let memory = if compact { MemoryKind::Compact } else { MemoryKind::Ledger };
        let decays = matches!(prefer, Preference::Decay(_));
        let mut draw = Draw::new(seed);
        let count = counts.0 + counts.1;
        let tables: Vec<Table> = (0..count)
            .map(|_| Table::noise(if few { 1 + draw.below(2) } else { 3 * d }, d, p, &mut draw))
            .collect();
        let settings = Settings {
            ridge: Ridge::Fixed(1e-3), ..settings(memory, prefer)
        };
        let mut ours = learned(settings.clone(), &tables[..counts.0]);
        let mut theirs = crate::support::learner(settings.clone());
        for (t, table) in tables.iter().enumerate().skip(counts.0) {
            theirs.learn(&t.to_string(), table.task(), 1.0).unwrap();
        }
        let folded = ours.summaries().is_none() || theirs.summaries().is_none();
        match ours.merge(&theirs) {
            Ok(()) => same(&ours, &learned(settings, &tables), 1e-10),
            Err(error) => {
                prop_assert!(decays && folded && counts.0 > 0, "{}", error);
            }
        }
    }
}

#[test]
fn folded_memory_refuses_what_it_cannot_take_out() {
    let mut draw = Draw::new(3);
    let d = 4;
    let tables = tables(3, d, 1, &mut draw);
    let compact = settings(MemoryKind::Compact, Preference::Samples);
    let learner = learned(compact.clone(), &tables);
    let unchanged = |mut l: Learner, name: &str, s: &TaskSummary| {
        let before = format!("{l:?}");
        let error = l.unlearn_summary(name, s).expect_err("refused");
        assert_eq!(format!("{l:?}"), before, "after: {error}");
        error
    };
    let good = tables[1].kept();
    let error = unchanged(learner.clone(), "nobody", &good);
    assert!(matches!(error, Error::UnknownTask { .. }));
    assert!(error.to_string().contains("`0`, `1`, `2`"), "{error}");
    // Fewer rows than were learned.
    let error = unchanged(learner.clone(), "1", &tables[1].part(0, 3).kept());
    assert!(matches!(error, Error::Removal { .. }) && error.to_string().contains('3'), "{error}");
    // As many rows, but others: small enough to fit into the whole, and still not what was learned.
    let n = tables[1].n();
    let mut other = Table::noise(n, d, 1, &mut draw).scaled(&vec![1e-3; d]);
    other.y.iter_mut().for_each(|y| *y *= 1e-3);
    let error = unchanged(learner.clone(), "1", &other.kept());
    assert!(matches!(error, Error::Removal { .. }), "{error}");
    // The last task left, with other rows.
    let single = learned(compact.clone(), &tables[..1]);
    let other = Table::noise(tables[0].n(), d, 1, &mut draw);
    let error = unchanged(single, "0", &other.kept());
    assert!(matches!(error, Error::Removal { .. }), "{error}");
    // A task so heavy that nothing of the others is left next to it.
    let mut heavy =
        crate::support::learner(Settings { prefer: Preference::Equal, ..compact.clone() });
    heavy.learn("light", tables[0].task(), 1.0).unwrap();
    heavy.learn("heavy", tables[1].task(), 1e12).unwrap();
    let error = unchanged(heavy, "heavy", &good);
    assert!(error.to_string().contains("digits") || error.to_string().contains("same"), "{error}");
    // Under decay the weights of the others would change.
    let decay = learned(Settings { prefer: Preference::Decay(0.5), ..compact }, &tables);
    let error = unchanged(decay, "1", &good);
    assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains("ledger"));
}

/// The squares of targets far from zero are 1e12 times those of their errors: they must not be subtracted from each other.
#[test]
fn a_task_is_taken_out_of_targets_far_from_zero() {
    let mut draw = Draw::new(5);
    let tables = tables(2, 4, 2, &mut draw);
    // With an intercept, a shift of all targets leaves every error as it is.
    let truth = tables[0].summarize(true, Accumulator::Qr);
    let far = tables.iter().cloned().map(|mut table| {
        table.y.iter_mut().for_each(|y| *y += 1e6);
        table.summarize(true, Accumulator::Qr)
    });
    let far: Vec<Summary> = far.collect();
    let rest = far[0].merge(&far[1]).unwrap().remove(&far[1]).unwrap();
    for (left, expected) in rest.residual().iter().zip(truth.residual()) {
        // One rounding of a target is 1e-10 of its error.
        assert!((left - expected).abs() <= 1e-8 * expected, "{left} against {expected}");
    }
    // Where the other rows are predicted best, nothing of them is lost: 1e-10 of the errors, squared.
    let best = solve(&far[0], true, Penalty::NONE, None).unwrap().theta;
    let lost = rest.forgetting(&best).unwrap();
    assert!(lost <= 1e-16 * truth.min_loss(), "{lost} of {}", truth.min_loss());
}

#[test]
fn unlearning_every_task_leaves_an_empty_learner_that_learns_again() {
    let mut draw = Draw::new(9);
    let tables = tables(3, 3, 1, &mut draw);
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        for prefer in [Preference::Samples, Preference::Equal, Preference::Decay(1.0)] {
            let decays = matches!(prefer, Preference::Decay(_));
            if decays && memory == MemoryKind::Compact {
                continue;
            }
            let settings = settings(memory, prefer);
            let mut learner = learned(settings.clone(), &tables);
            for t in [1, 0, 2] {
                learner.unlearn_summary(&t.to_string(), &tables[t].kept()).unwrap();
            }
            assert_eq!((learner.names().len(), learner.state_bytes()), (0, 0));
            assert!(learner.samples().abs() < 1e-12);
            assert!(matches!(learner.solution(), Err(Error::NotLearned)));
            assert!(matches!(learner.predict(tables[0].rows()), Err(Error::NotLearned)));
            learner.learn("1", tables[1].task(), 1.0).unwrap();
            same(&learner, &without(settings, &[tables[0].clone(), tables[1].clone()], 0), 1e-12);
        }
    }
}

#[test]
fn unlearning_every_task_under_chosen_weights_leaves_a_learner_that_learns_again() {
    let mut draw = Draw::new(10);
    let tables = tables(2, 3, 1, &mut draw);
    let mut learner = learned(settings(MemoryKind::Ledger, Preference::Samples), &tables);
    learner.prefer(Preference::Chosen(vec![("0".into(), 0.25), ("1".into(), 0.75)])).unwrap();
    learner.unlearn("0").unwrap();
    learner.unlearn("1").unwrap();
    learner.learn("again", tables[0].task(), 1.0).unwrap();
}

#[test]
fn learners_that_differ_do_not_merge_and_say_in_what() {
    let mut draw = Draw::new(12);
    let (a, b) = (Table::noise(20, 3, 1, &mut draw), Table::noise(20, 3, 1, &mut draw));
    let base = settings(MemoryKind::Ledger, Preference::Samples);
    let mut ours = learned(base.clone(), std::slice::from_ref(&a));
    let other = |settings: Settings, table: &Table, name: &str| {
        let mut l = crate::support::learner(settings);
        l.learn(name, table.task(), 1.0).unwrap();
        l
    };
    let spline = |seed: u64| {
        let mut draw = Draw::new(seed);
        let t = Table::noise(30, 3, 1, &mut draw);
        other(Settings { basis: "spline:4".parse().unwrap(), ..base.clone() }, &t, "x")
    };
    let cases = [
        (other(base.clone(), &b, "0"), "`0`"),
        (other(Settings { intercept: true, ..base.clone() }, &b, "x"), "intercept"),
        (other(Settings { memory: MemoryKind::Compact, ..base.clone() }, &b, "x"), "memory"),
        (other(Settings { prefer: Preference::Equal, ..base.clone() }, &b, "x"), "preference"),
        (other(Settings { basis: "poly:2".parse().unwrap(), ..base.clone() }, &b, "x"), "basis"),
        (other(base.clone(), &Table::noise(20, 2, 1, &mut draw), "x"), "inputs"),
        (other(base.clone(), &Table::noise(20, 3, 2, &mut draw), "x"), "targets"),
    ];
    let before = format!("{ours:?}");
    for (theirs, word) in &cases {
        let error = ours.merge(theirs).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(format!("{ours:?}"), before);
    }
    // The same spec, but knots taken from other rows.
    let error = spline(1).merge(&spline(2)).unwrap_err();
    assert!(error.to_string().contains("first rows"), "{error}");
}

#[test]
fn a_learner_with_a_design_and_no_task_merges_with_one_that_has_learned() {
    let mut draw = Draw::new(13);
    let table = Table::noise(20, 3, 2, &mut draw);
    let base = settings(MemoryKind::Ledger, Preference::Samples);
    let theirs = learned(base.clone(), std::slice::from_ref(&table));
    let mut ours = crate::support::learner(base);
    ours.fix_design(ours.design_for(&table.rows()).unwrap()).unwrap();
    ours.merge(&theirs).unwrap();
    same(&ours, &theirs, 0.0);
}

/// Squared loss looks at rows once.
struct NoMore;

impl Passes for NoMore {
    fn run(&mut self, pass: &Pass) -> Result<Partial, Error> {
        panic!("{pass:?} is one pass too many")
    }
}

/// Learns a task from chunks of its rows; the first `head` rows fix the design.
fn learn_in_chunks(
    learner: &mut Learner,
    name: &str,
    table: &Table,
    head: usize,
    cuts: &[usize],
) -> Result<(), Error> {
    let design = learner.design_for(&table.part(0, head).rows())?;
    let first = {
        let mut worker =
            Worker::new(learner.context_with(&design), &learner.problem().first_pass())?;
        for cut in cuts.windows(2) {
            worker.add(table.part(cut[0], cut[1]).task())?;
        }
        worker.finish()?
    };
    let draft = learner.fit(&design, first, &mut NoMore, 1.0)?;
    learner.insert(name, &design, draft, 1.0)
}

#[test]
fn a_task_in_chunks_is_the_task_in_one_piece() {
    let mut draw = Draw::new(14);
    let table = Table::noise(5000, 3, 2, &mut draw);
    let base = settings(MemoryKind::Ledger, Preference::Samples);
    let whole = learned(base.clone(), std::slice::from_ref(&table));
    let mut ours = crate::support::learner(base);
    let name = whole.names().next().unwrap().to_owned();
    learn_in_chunks(&mut ours, &name, &table, 10, &[0, 10, 4500, 5000]).unwrap();
    same(&ours, &whole, 0.0);
    // A task summarized under another design is refused: other inputs, an intercept, another basis.
    let (wide, narrow) = (Table::noise(8, 4, 2, &mut draw), Table::noise(8, 2, 2, &mut draw));
    assert!(ours.learn("wide", wide.task(), 1.0).is_err());
    assert!(ours.insert_summary("wide", wide.kept(), 1.0).is_err());
    let with_ones =
        Settings { intercept: true, ..settings(MemoryKind::Ledger, Preference::Samples) };
    let curved = Settings { basis: "spline:4".parse().unwrap(), ..with_ones.clone() };
    let before = format!("{ours:?}");
    for (others, table) in [
        (settings(MemoryKind::Ledger, Preference::Samples), &narrow),
        (with_ones, &table.part(0, 8)),
        (curved, &table.part(0, 8)),
    ] {
        let other = learned(others, std::slice::from_ref(table));
        let task = (**other.task_summary("0").unwrap()).clone();
        ours.insert("other", other.design().unwrap(), task, 1.0).unwrap_err();
        assert_eq!(format!("{ours:?}"), before);
    }
}

/// Narrow, wide and in few rows; where all rows are there at once, their classes are told by their places and none is copied.
#[test]
fn a_task_of_classes_in_chunks_is_the_task_in_one_piece() {
    let mut draw = Draw::new(16);
    for (n, d, memory) in [
        (5000, 3, MemoryKind::Ledger),
        (2000, 420, MemoryKind::Ledger),
        (700, 560, MemoryKind::Compact),
        (300, 560, MemoryKind::Compact),
    ] {
        let x = draw.normals(n * d);
        let names: Vec<String> = (0..11).map(|k| format!("c{k}")).collect();
        let codes: Vec<u32> = (0..n).map(|_| draw.below(11) as u32).collect();
        let labels = pmfcl::Labels::from_codes(&codes, &names).unwrap();
        let rows = TaskRows::new(Rows::new(&x, d).unwrap(), &labels);
        let w: Vec<f64> = (0..n).map(|_| 0.5 + draw.uniform()).collect();
        for (problem, weighted) in [
            (Problem::gaussian(), false),
            (Problem::gaussian(), true),
            (Problem::parse("squared", Some(ClassList::Open)).unwrap(), false),
        ] {
            let rows = rows.weighted(weighted.then_some(&w[..]));
            let settings =
                Settings { ridge: Ridge::Fixed(0.1), threads: 2, memory, ..Settings::default() };
            let learner = || Learner::new(problem.clone(), settings.clone()).unwrap();
            let (mut whole, mut parts) = (learner(), learner());
            whole.learn("all", rows, 1.0).unwrap();
            let design = parts.design_for(&rows.slice(0, 10).x).unwrap();
            let first = {
                let pass = parts.problem().first_pass();
                let mut worker = Worker::new(parts.context_with(&design), &pass).unwrap();
                for cut in [0, 10, n / 2, n - 1, n].windows(2) {
                    worker.add(rows.slice(cut[0], cut[1])).unwrap();
                }
                worker.finish().unwrap()
            };
            let draft = parts.fit(&design, first, &mut NoMore, 1.0).unwrap();
            parts.insert("all", &design, draft, 1.0).unwrap();
            let theta = |learner: &Learner| learner.solution().unwrap().theta.clone();
            assert!(theta(&whole) == theta(&parts), "{n} × {d}, weights: {weighted}");
        }
    }
}

#[test]
fn a_learner_that_has_unlearned_everything_takes_tasks_of_another_shape() {
    let mut draw = Draw::new(15);
    let base = settings(MemoryKind::Ledger, Preference::Samples);
    let mut learner = learned(base.clone(), &[Table::noise(20, 3, 2, &mut draw)]);
    let name = learner.names().next().unwrap().to_owned();
    learner.unlearn(&name).unwrap();
    assert!(learner.design().is_none());
    let wide = Table::noise(20, 5, 1, &mut draw);
    learner.learn(&name, wide.task(), 1.0).unwrap();
    same(&learner, &learned(base, std::slice::from_ref(&wide)), 0.0);
}
