//! Bad input is refused with the place and the remedy, and leaves the learner as it was.

use crate::support::{Table, learned, plain, settings};
use pmfcl::pareto;
use pmfcl::problem::Worker;
use pmfcl::report::{conflict, continual, inference};
use pmfcl::{
    Accumulator, Design, Error, Learner, MemoryKind, Penalty, Preference, Problem, Ridge, Rows,
    Settings, Summarizer, TaskRows, TaskSummary, Theta,
};
use pmfcl_oracle::Draw;

const BAD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// Everything there is to see of a learner: names, summaries bit by bit, model bit by bit, settings.
fn state(learner: &Learner) -> String {
    let summaries = learner.summaries().unwrap_or_default();
    let bytes: Vec<Vec<u8>> = summaries.iter().map(|summary| summary.to_bytes()).collect();
    let bits: Vec<u64> = learner
        .solution()
        .map_or(Vec::new(), |m| m.theta.cells().iter().map(|v| v.to_bits()).collect());
    format!("{:?} {bytes:?} {bits:?} {learner:?}", learner.names().collect::<Vec<_>>())
}

/// Learners of every memory, empty and not: "fresh", "ledger", "held", "folded".
fn learners(d: usize) -> Vec<(&'static str, Learner)> {
    let mut draw = Draw::new(1);
    let many = Table::noise(3 * d + 3, d, 1, &mut draw);
    let few = Table::noise(1, d, 1, &mut draw);
    let compact = settings(MemoryKind::Compact, Preference::Samples);
    vec![
        ("fresh", crate::support::learner(plain())),
        ("ledger", learned(plain(), &[many.clone(), few.clone()])),
        ("held", learned(compact.clone(), &[few])),
        ("folded", learned(compact, &[many])),
    ]
}

/// The operation fails on every learner, with these words in its text, and changes nothing.
fn refused(
    learner: &mut Learner,
    what: &str,
    words: &[&str],
    operation: impl FnOnce(&mut Learner) -> Result<(), Error>,
) -> Error {
    let before = state(learner);
    let Err(error) = operation(learner) else { panic!("{what} was accepted") };
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{what}: `{word}` is not in: {text}");
    }
    assert_eq!(state(learner), before, "{what} changed the learner: {text}");
    error
}

fn learn(l: &mut Learner, t: &Table, w: Option<&[f64]>) -> Result<(), Error> {
    l.learn("new", t.task().weighted(w), 1.0)
}

#[test]
fn a_cell_that_is_not_finite_is_named_by_row_and_column() {
    let d = 4;
    let mut draw = Draw::new(2);
    let good = Table { p: 1, ..Table::noise(12, d, 1, &mut draw) };
    for accumulator in [Accumulator::Qr, Accumulator::Gram] {
        for (who, learner) in learners(d) {
            if accumulator == Accumulator::Gram && who != "fresh" {
                continue;
            }
            let mut learner = match who {
                "fresh" => crate::support::learner(Settings { accumulator, ..plain() }),
                _ => learner,
            };
            for bad in BAD {
                for (row, column) in [(0, 0), (7, 2), (11, 3)] {
                    let mut t = good.clone();
                    t.x[row * d + column] = bad;
                    let error = refused(&mut learner, who, &["feature", "drop the row"], |l| {
                        learn(l, &t, None)
                    });
                    let place =
                        Error::NotFinite { what: "feature", row: row as u64, column, value: bad };
                    assert_eq!(format!("{error:?}"), format!("{place:?}"), "{who}");
                }
                let mut t = good.clone();
                t.y[9] = bad;
                let error = refused(&mut learner, who, &["target", "row 9, column 0"], |l| {
                    learn(l, &t, None)
                });
                assert!(matches!(error, Error::NotFinite { what: "target", .. }));
                let mut w = vec![1.0; 12];
                w[5] = bad;
                let words = ["row 5", "positive and finite", "leave the row"];
                refused(&mut learner, who, &words, |l| learn(l, &good, Some(&w)));
            }
        }
    }
}

#[test]
fn a_bad_cell_beyond_the_first_leaf_or_chunk_is_named_by_its_row_in_the_task() {
    let (n, d, p) = (10_000, 3, 2);
    let mut draw = Draw::new(3);
    for accumulator in [Accumulator::Qr, Accumulator::Gram] {
        for threads in [1, 3] {
            for row in [0, 2047, 2048, 5000, 9_999] {
                for (target, column) in [(false, 2), (true, 1)] {
                    let mut t = Table::noise(n, d, p, &mut draw);
                    let cell = if target {
                        &mut t.y[row * p + column]
                    } else {
                        &mut t.x[row * d + column]
                    };
                    *cell = f64::NAN;
                    let settings = Settings { accumulator, threads, ..plain() };
                    let mut whole = crate::support::learner(settings.clone());
                    let place = format!("row {row}, column {column}");
                    refused(&mut whole, "whole", &[&place], |l| learn(l, &t, None));
                    // The same in a stream of uneven chunks; the third holds rows 3100..5600.
                    let stream = crate::support::learner(settings);
                    let design = stream.design_for(&t.part(0, 100).rows()).unwrap();
                    let (context, pass) =
                        (stream.context_with(&design), stream.problem().first_pass());
                    let mut s = Worker::new(context, &pass).unwrap();
                    let cuts = [0, 100, 3100, 5600, n];
                    let done = cuts.windows(2).try_for_each(|c| s.add(t.part(c[0], c[1]).task()));
                    let again = s.add(t.part(0, 1).task());
                    let error = done.and_then(|()| s.finish().map(|_| ())).unwrap_err();
                    assert!(error.to_string().contains(&place), "{error}, not {place}");
                    if row < 9000 {
                        assert_eq!(again.unwrap_err().to_string(), error.to_string());
                    }
                    assert!(stream.names().len() == 0 && stream.solution().is_err());
                    assert!(stream.design().is_none(), "a failed stream fixes nothing");
                }
            }
        }
    }
}

#[test]
fn weights_that_are_not_positive_are_refused() {
    let d = 3;
    let mut draw = Draw::new(4);
    let t = Table::noise(8, d, 1, &mut draw);
    for (who, mut learner) in learners(d) {
        for bad in [0.0, -1.0, -0.0] {
            let mut w = vec![2.0; 8];
            w[6] = bad;
            refused(&mut learner, who, &["row 6", "positive"], |l| learn(l, &t, Some(&w)));
        }
        for bad in [0.0, -3.0, f64::NAN, f64::INFINITY] {
            refused(&mut learner, who, &["weight of task new", "positive"], |l| {
                l.learn("new", t.task(), bad)
            });
            let s = t.summary();
            refused(&mut learner, who, &["weight of task new"], |l| {
                l.insert_summary("new", TaskSummary::exact(s, None), bad)
            });
        }
    }
    // In the second chunk of a stream the row is counted from the start of the task.
    let design = Design::linear(d, false).unwrap();
    let mut s = Summarizer::new(design, 1, Accumulator::Qr).unwrap();
    s.add(t.rows(), t.targets(), None).unwrap();
    let mut w = vec![1.0; 8];
    w[1] = 0.0;
    let error = s.add(t.rows(), t.targets(), Some(&w)).unwrap_err();
    assert!(error.to_string().contains("row 9"), "{error}");
    for loss in ["squared", "huber:1"] {
        let learner =
            Learner::new(Problem::parse(loss, None).unwrap(), Settings::default()).unwrap();
        let design = learner.design_for(&t.rows()).unwrap();
        let pass = learner.problem().first_pass();
        let mut s = Worker::new(learner.context_with(&design), &pass).unwrap();
        s.add(t.task()).unwrap();
        let error = s.add(t.task().weighted(&w[..])).unwrap_err();
        assert!(error.to_string().contains("row 9"), "{loss}: {error}");
    }
}

#[test]
fn shapes_that_do_not_agree_are_refused() {
    let d = 3;
    let mut draw = Draw::new(5);
    let t = Table::noise(8, d, 1, &mut draw);
    for (who, mut learner) in learners(d) {
        refused(&mut learner, who, &["rows", "8", "7"], |l| {
            l.learn("new", TaskRows::new(t.rows(), t.part(0, 7).targets()), 1.0)
        });
        refused(&mut learner, who, &["sample weights", "8", "5"], |l| {
            learn(l, &t, Some(&[1.0; 5]))
        });
        if who == "fresh" {
            continue;
        }
        let wide = Table::noise(8, d + 1, 1, &mut draw);
        refused(&mut learner, who, &["columns", "3", "4"], |l| learn(l, &wide, None));
        refused(&mut learner, who, &["columns", "3", "4"], |l| {
            l.design_for(&wide.rows()).map(|_| ())
        });
        refused(&mut learner, who, &["columns"], |l| l.predict(wide.rows()).map(|_| ()));
        refused(&mut learner, who, &["columns", "3", "4"], |l| {
            l.insert_summary("new", TaskSummary::exact(wide.summary(), None), 1.0)
        });
        let two = Table::noise(8, d, 2, &mut draw);
        refused(&mut learner, who, &["targets", "1 was", "2"], |l| learn(l, &two, None));
        refused(&mut learner, who, &["targets", "1", "2"], |l| {
            l.insert_summary("new", TaskSummary::exact(two.summary(), None), 1.0)
        });
        // Chunks of a task have as many targets as the first.
        refused(&mut learner, who, &["columns", "1 was", "2"], |l| {
            let design = l.design_for(&t.rows())?;
            let mut worker = Worker::new(l.context_with(&design), &l.problem().first_pass())?;
            worker.add(t.task())?;
            worker.add(two.task())
        });
    }
    assert!(matches!(Theta::from_columns(2, 2, vec![0.0; 3]), Err(Error::Shape { .. })));
}

/// Both shapes are named, also where their products agree.
#[test]
fn a_transposed_theta_is_told_by_its_rows_and_columns() {
    let (d, p) = (5, 3);
    let summary = Table::noise(20, d, p, &mut Draw::new(8)).summary();
    let turned = Theta::zeros(p, d);
    for error in [summary.loss(&turned).unwrap_err(), summary.forgetting(&turned).unwrap_err()] {
        assert_eq!(
            error.to_string(),
            "theta has 3 rows × 5 columns, but 5 rows × 3 columns were expected: transpose it"
        );
    }
    assert_eq!(
        summary.loss(&Theta::zeros(1, 15)).unwrap_err().to_string(),
        "theta has 1 row × 15 columns, but 5 rows × 3 columns were expected"
    );
    // An incoming task whose columns and targets add up to the same number.
    let mut learner = crate::support::learner(Settings { intercept: false, ..Settings::default() });
    let task = Table::noise(20, d, p, &mut Draw::new(9));
    learner.learn("a", task.task(), 1.0).unwrap();
    let other = Table::noise(20, d + 1, p - 1, &mut Draw::new(10)).summary();
    assert_eq!(
        conflict::drift(&learner, &other).unwrap_err().to_string(),
        "the incoming task has 6 design columns, but 5 were expected"
    );
}

#[test]
fn places_that_do_not_exist_are_told() {
    let a = Table::noise(9, 3, 2, &mut Draw::new(11)).summary();
    for (found, told) in [
        (a.rearrange(&[0, 1, 7], 5), "the place of a column is 7: places are 0 to 4"),
        (
            a.rearrange(&[0, 1, 1], 5),
            "the place of a column is 1: another column goes there already",
        ),
        (a.rearrange(&[0, 1, 2], 1), "the place of a column is 1: the only place is 0"),
        (a.rearrange(&[0, 1, 2], 0), "the place of a column is 0: there are no places"),
        (a.rearrange_targets(&[0, 4], 3), "the place of a target is 4: places are 0 to 2"),
        (a.rearrange_targets(&[0, 1], 1), "the place of a target is 1: the only place is 0"),
        (
            a.rearrange_targets(&[2, 2], 3),
            "the place of a target is 2: another target goes there already",
        ),
        (a.rearrange_targets(&[0], 3), "the list of places has 1 place, but 2 were expected"),
        (a.choose_targets(&[1, 2]), "a target to keep is 2: targets are 0 to 1"),
        (
            a.choose_targets(&[0]).unwrap().choose_targets(&[1]),
            "a target to keep is 1: the only target is 0",
        ),
        (a.choose_targets(&[]), "the number of targets to keep is 0: it must be 1 or more"),
        (a.extend_features(4, 1), "the place of new columns is 4: places are 0 to 3"),
        (a.extend_targets(3, 1), "the place of new targets is 3: places are 0 to 2"),
    ] {
        assert_eq!(found.unwrap_err().to_string(), told);
    }
}

/// Every `what` and `unit` that occurs in the sources, here and in the crates that use this error: each a sentence for any counts.
#[test]
fn wrong_shapes_are_told_in_sentences() {
    let mut sentences = 0;
    for (what, units) in [
        ("the feature table", &["columns"][..]),
        ("the target table", &["columns", "rows"]),
        ("the table of scores", &["columns"]),
        ("the last row", &["columns"]),
        ("the list of labels", &["rows"]),
        ("the list of places", &["places"]),
        ("the list of sample weights", &["numbers"]),
        ("the list of untrained scores", &["numbers"]),
        ("the triangle of products", &["numbers"]),
        ("the table of products with targets", &["numbers"]),
        ("the list of squares of targets", &["numbers"]),
        ("the list of sums of targets", &["numbers"]),
        ("the penalty", &["numbers"]),
        ("the curvature", &["numbers"]),
        ("the pull", &["numbers"]),
        ("theta", &["numbers"]),
        ("the summary", &["columns", "targets"]),
        ("the step", &["columns", "targets"]),
        ("the model", &["columns", "tasks"]),
        ("the task", &["targets"]),
        ("the incoming task", &["design columns", "targets"]),
        ("the past", &["design columns", "targets"]),
    ] {
        for unit in units {
            let one = unit.strip_suffix('s').expect("a plural");
            for (expected, found, told) in [
                (2, 0, format!("{what} has 0 {unit}, but 2 were expected")),
                (2, 1, format!("{what} has 1 {one}, but 2 were expected")),
                (1, 3, format!("{what} has 3 {unit}, but 1 was expected")),
                (0, 1, format!("{what} has 1 {one}, but 0 were expected")),
                (11, 10, format!("{what} has 10 {unit}, but 11 were expected")),
            ] {
                assert_eq!(Error::Shape { what, unit, expected, found }.to_string(), told);
                sentences += 1;
            }
        }
    }
    assert_eq!(sentences, 5 * 28);
    let table = |expected, found| Error::TableShape { what: "theta", expected, found }.to_string();
    assert_eq!(
        table([1, 1], [2, 1]),
        "theta has 2 rows × 1 column, but 1 row × 1 column were expected"
    );
    let list = Rows::new(&[1.0, 2.0, 3.0], 2).unwrap_err().to_string();
    assert_eq!(list, "the last row has 1 column, but 2 were expected");
}

#[test]
fn an_empty_task_is_refused() {
    let d = 3;
    let none = Table { x: Vec::new(), y: Vec::new(), d, p: 1 };
    for (who, mut learner) in learners(d) {
        refused(&mut learner, who, &["empty", "at least one row"], |l| learn(l, &none, None));
        if who != "fresh" {
            refused(&mut learner, who, &["empty"], |l| {
                l.insert_summary("new", TaskSummary::exact(pmfcl::Summary::empty(d, 1), None), 1.0)
            });
        }
    }
    assert!(matches!(Rows::new(&[], 0), Err(Error::Empty { .. })));
    let design = Design::linear(d, false).unwrap();
    assert!(matches!(Summarizer::new(design, 0, Accumulator::Qr), Err(Error::Empty { .. })));
}

#[test]
fn names_must_be_new_to_learn_and_known_to_ask_for() {
    let d = 3;
    let mut draw = Draw::new(6);
    let t = Table::noise(8, d, 1, &mut draw);
    for (who, mut learner) in learners(d) {
        if who != "fresh" {
            refused(&mut learner, who, &["`0`", "another name", "unlearn"], |l| {
                l.learn("0", t.task(), 1.0)
            });
            refused(&mut learner, who, &["`0`"], |l| {
                l.insert_summary("0", TaskSummary::exact(t.summary(), None), 1.0)
            });
        }
        let known = if who == "fresh" { "no tasks" } else { "`0`" };
        refused(&mut learner, who, &["`ghost`", known], |l| l.unlearn("ghost"));
        refused(&mut learner, who, &["`ghost`", known], |l| l.unlearn_summary("ghost", &t.kept()));
        refused(&mut learner, who, &["`ghost`", known], |l| l.task_summary("ghost").map(|_| ()));
    }
}

#[test]
fn a_preference_that_is_no_point_of_the_simplex_is_refused() {
    let list = |pairs: &[(&str, f64)]| {
        Preference::Chosen(pairs.iter().map(|(n, a)| ((*n).to_owned(), *a)).collect())
    };
    let mut draw = Draw::new(7);
    let tables = [Table::noise(9, 3, 1, &mut draw), Table::noise(9, 3, 1, &mut draw)];
    let mut ledger = learned(plain(), &tables);
    let cases = [
        (list(&[("0", 0.5), ("1", 0.4)]), "sum to 0.9"),
        (list(&[("0", 1.5), ("1", -0.5)]), "`1` weighs -0.5"),
        (list(&[("0", f64::NAN), ("1", 1.0)]), "`0` weighs NaN"),
        (list(&[("0", 0.5), ("ghost", 0.5)]), "`ghost`"),
        (list(&[("0", 0.5), ("0", 0.5)]), "`0` is named twice"),
        (list(&[]), "no task is named"),
        (Preference::Decay(0.0), "above 0 and at most 1"),
        (Preference::Decay(-0.5), "above 0"),
        (Preference::Decay(1.0001), "at most 1"),
        (Preference::Decay(f64::NAN), "above 0"),
    ];
    for (preference, word) in &cases {
        refused(&mut ledger, word, &[word], |l| l.prefer(preference.clone()));
    }
    for bad in [Preference::Decay(0.0), Preference::Decay(2.0), list(&[("a", 0.3)])] {
        assert!(Learner::new(Problem::squared(), Settings { prefer: bad, ..plain() }).is_err());
    }
    let mut folded = learned(settings(MemoryKind::Compact, Preference::Samples), &tables);
    refused(&mut folded, "folded", &["ledger"], |l| l.prefer(Preference::Equal));
}

#[test]
fn an_empty_learner_refuses_another_preference_and_keeps_its_own() {
    let mut empty = crate::support::learner(plain());
    refused(&mut empty, "prefer", &["learn a task first"], |l| l.prefer(Preference::Equal));
}

#[test]
fn chosen_weights_are_for_hindsight_not_for_a_learner_without_tasks() {
    let chosen = Preference::Chosen(vec![("a".to_owned(), 1.0)]);
    let error =
        Learner::new(Problem::squared(), Settings { prefer: chosen, ..plain() }).unwrap_err();
    assert!(error.to_string().contains("hindsight"), "{error}");
}

#[test]
fn nothing_is_learned_after_weights_were_chosen_task_by_task() {
    let mut draw = Draw::new(8);
    let tables = [Table::noise(9, 3, 1, &mut draw), Table::noise(9, 3, 1, &mut draw)];
    let mut learner = learned(plain(), &tables);
    learner.prefer(Preference::Chosen(vec![("1".into(), 1.0)])).unwrap();
    let t = Table::noise(9, 3, 1, &mut draw);
    refused(&mut learner, "chosen", &["prefer samples, equal or decay"], |l| learn(l, &t, None));
    learner.prefer(Preference::Samples).unwrap();
    learner.learn("new", t.task(), 1.0).unwrap();
    // The last weighted task cannot go while all the weight is on it.
    learner.prefer(Preference::Chosen(vec![("new".into(), 1.0), ("0".into(), 0.0)])).unwrap();
    refused(&mut learner, "unlearn", &["`new`", "prefer others"], |l| l.unlearn("new"));
}

#[test]
fn what_was_never_added_is_not_taken_out() {
    let mut draw = Draw::new(9);
    let table = Table::noise(20, 3, 1, &mut draw);
    let stranger = Table::noise(20, 3, 1, &mut draw).scaled(&[10.0; 3]);
    let mut folded = learned(
        settings(MemoryKind::Compact, Preference::Samples),
        &[table.clone(), Table::noise(20, 3, 1, &mut draw)],
    );
    refused(&mut folded, "stranger", &["cannot remove"], |l| {
        l.unlearn_summary("0", &stranger.kept())
    });
    refused(&mut folded, "another count", &["20", "7"], |l| {
        l.unlearn_summary("0", &table.part(0, 7).kept())
    });
}

#[test]
fn a_basis_that_overflows_names_row_column_and_a_gentler_one() {
    let mut draw = Draw::new(10);
    let exp = Settings { basis: "exp".parse().unwrap(), ..plain() };
    let (n, d) = (4000, 2);
    let good = Table::noise(n, d, 1, &mut draw);
    for row in [0, 17, 3999] {
        for mut learner in [
            crate::support::learner(exp.clone()),
            learned(exp.clone(), std::slice::from_ref(&good)),
        ] {
            let mut t = good.clone();
            t.x[row * d + 1] = 800.0;
            let place = format!("row {row}, column 1");
            refused(&mut learner, "exp", &[&place, "800", "rescale", "log"], |l| {
                learn(l, &t, None)
            });
        }
    }
    let learner = learned(exp, &[good]);
    assert!(learner.predict(Rows::new(&[0.0, 800.0], 2).unwrap()).is_err());
}

#[test]
fn a_ridge_that_is_negative_or_no_number_is_refused() {
    let d = 3;
    for bad in [-1e-300, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(Penalty::new(bad, false), Err(Error::Range { what: "ridge", .. })));
        assert!(
            Learner::new(Problem::squared(), Settings { ridge: Ridge::Fixed(bad), ..plain() })
                .is_err()
        );
        for (who, mut learner) in learners(d) {
            refused(&mut learner, who, &["ridge", "0 or more"], |l| {
                l.set_ridge(Ridge::Fixed(bad), false)
            });
        }
    }
}

#[test]
fn an_interval_level_outside_zero_and_one_is_refused() {
    let mut draw = Draw::new(11);
    let table = Table::noise(20, 3, 1, &mut draw);
    let learner = learned(plain(), std::slice::from_ref(&table));
    for level in [0.0, 1.0, -0.1, 1.1, f64::NAN] {
        let error = inference::predict_intervals(&learner, table.rows(), level).unwrap_err();
        assert!(error.to_string().contains("between 0 and 1"), "{error}");
    }
    let exact = learned(plain(), &[table.part(0, 3)]);
    let error = inference::predict_intervals(&exact, table.rows(), 0.9).unwrap_err();
    assert!(error.to_string().contains("ridge"), "{error}");
}

#[test]
fn gram_sums_of_huge_values_name_the_column_and_the_way_out() {
    let mut draw = Draw::new(12);
    for (n, column) in [(30, 1), (5000, 0)] {
        let mut scales = [1.0; 3];
        scales[column] = 1e200;
        let huge = Table::noise(n, 3, 1, &mut draw).scaled(&scales);
        let mut gram =
            crate::support::learner(Settings { accumulator: Accumulator::Gram, ..plain() });
        let word = format!("column {column}");
        refused(&mut gram, "gram", &[&word, "rescale", "qr"], |l| learn(l, &huge, None));
        // The way out works.
        let mut qr = crate::support::learner(plain());
        learn(&mut qr, &huge, None).unwrap();
        assert!(qr.solution().unwrap().theta.is_finite());
    }
}

#[test]
fn values_whose_squares_overflow_are_refused_or_learned_but_never_half_learned() {
    let mut draw = Draw::new(13);
    for settings in [plain(), Settings { ridge: Ridge::Auto, intercept: true, ..plain() }] {
        for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
            let settings = Settings { memory, ..settings.clone() };
            let good = Table::noise(30, 3, 1, &mut draw);
            for (x, y) in [(1e200, 1.0), (1.0, 1e200), (1e300, 1e300), (1e-200, 1.0), (1.0, 1e-200)]
            {
                let mut t = Table::noise(30, 3, 1, &mut draw).scaled(&[x, 1.0, 1.0]);
                t.y.iter_mut().for_each(|v| *v *= y);
                for mut learner in [
                    crate::support::learner(settings.clone()),
                    learned(settings.clone(), std::slice::from_ref(&good)),
                ] {
                    let before = state(&learner);
                    match learn(&mut learner, &t, None) {
                        Ok(()) => assert!(learner.solution().unwrap().theta.is_finite()),
                        Err(error) => {
                            assert_eq!(state(&learner), before, "{error}");
                            assert!(error.to_string().contains("rescale"), "{error}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn an_empty_learner_refuses_every_question() {
    let mut draw = Draw::new(14);
    let t = Table::noise(9, 3, 1, &mut draw);
    let mut empty = crate::support::learner(plain());
    refused(&mut empty, "model", &["learn a task first"], |l| l.solution().map(|_| ()));
    refused(&mut empty, "predict", &["learn"], |l| l.predict(t.rows()).map(|_| ()));
    refused(&mut empty, "design_rows", &["learn"], |l| l.design_rows(t.rows()).map(|_| ()));
    refused(&mut empty, "tasks", &["learn"], |l| l.tasks().map(|_| ()));
    refused(&mut empty, "mean", &["learn"], |l| l.mean_forgetting().map(|_| ()));
    refused(&mut empty, "pool", &["learn"], |l| l.pool().map(|_| ()));
    refused(&mut empty, "replay", &["learn"], |l| l.replay().map(|_| ()));
    refused(&mut empty, "ridge", &["learn"], |l| l.set_ridge(Ridge::Auto, false));
    refused(&mut empty, "inputs", &["learn"], |l| l.extend_inputs(1));
    refused(&mut empty, "places", &["learn"], |l| l.rearrange_inputs(&[0, 1, 2], 3));
    refused(&mut empty, "response", &["learn"], |l| l.response().map(|_| ()));
    refused(&mut empty, "parameters", &["learn"], |l| l.parameters().map(|_| ()));
    refused(&mut empty, "evaluate", &["learn"], |l| l.evaluate(t.task()).map(|_| ()));
    refused(&mut empty, "summarize", &["learn"], |l| l.summarize(t.task()).map(|_| ()));
    // A summary brings the design of the linear basis; another basis is fixed by rows.
    let mut spline =
        crate::support::learner(Settings { basis: "spline:4".parse().unwrap(), ..plain() });
    refused(&mut spline, "summary", &["rows first"], |l| {
        l.insert_summary("a", TaskSummary::exact(t.summary(), None), 1.0)
    });
    assert!(matches!(continual::history(&empty), Err(Error::NotLearned)));
    assert!(matches!(continual::training_scores(&empty), Err(Error::NotLearned)));
    assert!(matches!(conflict::matrix(&empty), Err(Error::NotLearned)));
    assert!(matches!(conflict::pulls(&empty), Err(Error::NotLearned)));
    assert!(matches!(conflict::influence(&empty), Err(Error::NotLearned)));
    assert!(matches!(conflict::drift(&empty, &t.summary()), Err(Error::NotLearned)));
    assert!(matches!(inference::Covariance::of(&empty), Err(Error::NotLearned)));
    assert!(matches!(inference::cluster_errors(&empty), Err(Error::NotLearned)));
    assert!(pareto::front(&[], &[vec![]], false).is_err());
    assert!(pareto::minmax(&[], false, 10).is_err());
    assert!(pareto::certificate(&[], &Theta::zeros(1, 1)).is_err());
    // An empty learner merges with an empty one, and with one that has learned.
    let mut other = crate::support::learner(plain());
    other.merge(&empty).unwrap();
    other.merge(&learned(plain(), &[t])).unwrap();
    assert_eq!(other.names().len(), 1);
}

#[test]
fn folded_memory_says_that_the_ledger_would_know() {
    let mut draw = Draw::new(15);
    let t = Table::noise(20, 3, 1, &mut draw);
    let mut folded =
        learned(settings(MemoryKind::Compact, Preference::Samples), std::slice::from_ref(&t));
    refused(&mut folded, "unlearn", &["ledger"], |l| l.unlearn("0"));
    refused(&mut folded, "summary", &["ledger"], |l| l.task_summary("0").map(|_| ()));
    refused(&mut folded, "replay", &["ledger"], |l| l.replay().map(|_| ()));
    refused(&mut folded, "history", &["ledger"], |l| continual::history(l).map(|_| ()));
    refused(&mut folded, "matrix", &["ledger"], |l| conflict::matrix(l).map(|_| ()));
    refused(&mut folded, "leave out", &["ledger"], |l| l.set_ridge(Ridge::LeaveOneTaskOut, false));
}

#[test]
fn inputs_are_only_added_where_they_can_be() {
    let mut draw = Draw::new(16);
    let t = Table::noise(20, 3, 1, &mut draw);
    let mut learner = learned(plain(), std::slice::from_ref(&t));
    refused(&mut learner, "beyond", &["place of a column", "is 4", "0 to 3"], |l| {
        l.rearrange_inputs(&[0, 1, 4], 4)
    });
    refused(&mut learner, "twice", &["place of a column", "is 1", "already"], |l| {
        l.rearrange_inputs(&[0, 1, 1], 4)
    });
    refused(&mut learner, "too few", &["list of places", "2", "3 were"], |l| {
        l.rearrange_inputs(&[0, 1], 4)
    });
    refused(&mut learner, "fewer", &["place of a column", "is 2", "0 to 1"], |l| {
        l.rearrange_inputs(&[0, 1, 2], 2)
    });
    let mut poly = learned(Settings { basis: "poly:2".parse().unwrap(), ..plain() }, &[t]);
    refused(&mut poly, "basis", &["poly:2", "linear"], |l| l.extend_inputs(1));
    refused(&mut poly, "basis", &["poly:2", "linear"], |l| l.rearrange_inputs(&[0, 2, 1], 4));
}

#[test]
fn a_design_that_does_not_fit_into_memory_is_refused_before_rows_are_read() {
    // Three arrays of a million columns squared: 24 TB.
    let design = Design::linear(1_000_000, false).unwrap();
    let refused = Summarizer::new(design, 1, Accumulator::Gram).unwrap_err().to_string();
    assert!(refused.contains("24000.0 GB"), "{refused}");
    assert!(refused.contains("columns would fit"), "{refused}");
    // What fits according to the message is accepted.
    let words: Vec<&str> = refused.split_whitespace().collect();
    let about = words.iter().position(|w| *w == "about").unwrap();
    let width: usize = words[about + 1].parse().unwrap();
    assert!(width > 0, "{refused}");
    let design = Design::linear(width, false).unwrap();
    assert!(Summarizer::new(design, 1, Accumulator::Qr).is_ok(), "{width} columns");
}
