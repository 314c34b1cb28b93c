//! Learners made from their state go on as if nothing had happened, and states that contradict themselves are refused.

use crate::support::{Table, apart, learned, settings};
use pmfcl::learner::{LearnerState, TaskReport};
use pmfcl::problem::{LeastLoss, Outputs};
use pmfcl::{
    Accumulator, ClassList, Error, Labels, Learner, MemoryKind, Preference, Problem, Ridge, Rows,
    Settings, Summarizer, TaskRows, TaskSummary, Theta,
};
use pmfcl_oracle::Draw;

fn tables(count: usize, n: usize, d: usize) -> Vec<Table> {
    let mut draw = Draw::new(11);
    (0..count).map(|_| Table::awkward(n, d, 2, &mut draw)).collect()
}

/// The state as a file would keep it; `lazy` leaves the summaries of pooled tasks in the file.
fn state(learner: &Learner, lazy: bool) -> LearnerState {
    let pool = learner.kept_pool().cloned();
    let pooled = pool.as_ref().map_or(0, |pool| pool.tasks as usize);
    let summary = |t: usize| learner.task_summary_at(t).filter(|_| !lazy || t >= pooled).cloned();
    let records = learner.records().iter().enumerate();
    LearnerState {
        problem: learner.problem().clone(),
        settings: learner.settings().clone(),
        design: learner.design().cloned(),
        outputs: learner.outputs().clone(),
        tasks: records
            .map(|(t, record)| {
                let mut record = record.clone();
                record.head.calibration = learner.calibration(t).cloned();
                (record, summary(t))
            })
            .collect(),
        pool,
        solution: learner
            .is_solved()
            .then(|| (learner.solution().unwrap().clone(), learner.present_columns().unwrap())),
    }
}

/// Every summary with its position, as a file would bring them.
fn summaries(learner: &Learner) -> Vec<(usize, TaskSummary)> {
    let one = |t: usize| (t, (**learner.task_summary_at(t).unwrap()).clone());
    (0..learner.records().len()).map(one).collect()
}

fn bits(learner: &Learner) -> Vec<u64> {
    learner.solution().unwrap().theta.cells().iter().map(|v| v.to_bits()).collect()
}

/// Kept after any task, and after every one, solved or not, with weights of no round numbers: the ridge chosen and the model
/// have the bits of a learner that never left memory.
#[test]
fn a_learner_kept_after_any_task_goes_on_to_the_bit() {
    let mut draw = Draw::new(12);
    let all: Vec<Table> = (0..12).map(|t| Table::noise(4 + t, 3, 1, &mut draw)).collect();
    let weights: Vec<Vec<f64>> =
        all.iter().map(|t| (0..t.n()).map(|_| 0.1 + draw.uniform()).collect()).collect();
    let learn = |learner: &mut Learner, t: usize| {
        let (table, weight) = (&all[t], 0.3 + 0.1 * t as f64);
        learner.learn(&t.to_string(), table.task().weighted(&weights[t][..]), weight).unwrap();
    };
    let numbers = |learner: &Learner| {
        let ridge = learner.solution().unwrap().penalty.ridge();
        let numbers = [learner.samples(), learner.effective_samples().unwrap(), ridge];
        (bits(learner), numbers.map(f64::to_bits))
    };
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        for prefer in [Preference::Samples, Preference::Equal, Preference::Decay(0.9)] {
            let settings = Settings {
                intercept: true,
                ridge: Ridge::Auto,
                ..settings(memory, prefer.clone())
            };
            let mut straight = crate::support::learner(settings.clone());
            let mut always = crate::support::learner(settings);
            let mut once: Vec<Learner> = Vec::new();
            for t in 0..all.len() {
                learn(&mut straight, t);
                learn(&mut always, t);
                once.iter_mut().for_each(|learner| learn(learner, t));
                if t % 2 == 0 {
                    always.solution().unwrap();
                }
                let solved = always.is_solved();
                always = Learner::from_state(state(&always, true)).unwrap();
                assert_eq!(always.is_solved(), solved);
                let expected = numbers(&straight);
                once.push(Learner::from_state(state(&straight, false)).unwrap());
                assert_eq!(numbers(&always), expected, "{memory:?} {prefer:?}, task {t}");
                for learner in &once {
                    assert_eq!(numbers(learner), expected, "{memory:?} {prefer:?}, task {t}");
                }
            }
        }
    }
}

#[test]
fn a_learner_goes_on_to_the_bit() {
    let all = tables(6, 40, 5);
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        for prefer in [Preference::Samples, Preference::Equal, Preference::Decay(0.7)] {
            // One task leaves compact memory holding its factors; five fold it.
            for before in [1, 5] {
                for lazy in [false, true] {
                    let straight = learned(settings(memory, prefer.clone()), &all[..before]);
                    straight.solution().unwrap();
                    let mut again = Learner::from_state(state(&straight, lazy)).unwrap();
                    let mut on = straight.clone();
                    assert_eq!(again.state_bytes(), on.state_bytes());
                    assert_eq!(again.is_folded(), on.is_folded());
                    for t in &all[before..] {
                        let name = format!("more{}", on.records().len());
                        on.learn(&name, t.task(), 1.0).unwrap();
                        again.learn(&name, t.task(), 1.0).unwrap();
                    }
                    assert_eq!(bits(&again), bits(&on));
                    if again.unloaded() > 0 {
                        refuses_what_needs_summaries(&mut again, &on, before);
                        let name = straight.names().next().unwrap();
                        assert!(matches!(again.task_summary(name), Err(Error::Unloaded { .. })));
                        again.load_summaries(summaries(&straight)).unwrap();
                    }
                    assert_eq!(again.tasks().unwrap(), on.tasks().unwrap());
                    assert_eq!(again.summaries(), on.summaries());
                }
            }
        }
    }
}

/// What needs the summaries says so and changes nothing; new inputs need none of them.
fn refuses_what_needs_summaries(again: &mut Learner, on: &Learner, missing: usize) {
    let expected = missing;
    let before = format!("{again:?}");
    assert!(matches!(again.tasks(), Err(Error::Unloaded { missing, .. }) if missing == expected));
    assert!(matches!(again.unlearn("more5"), Err(Error::Unloaded { .. })));
    assert!(matches!(again.prefer(Preference::Equal), Err(Error::Unloaded { .. })));
    let places: Vec<usize> = (0..5).rev().collect();
    assert!(matches!(again.rearrange_inputs(&places, 5), Err(Error::Unloaded { .. })));
    assert!(matches!(again.merge(on), Err(Error::Unloaded { .. } | Error::DuplicateTask { .. })));
    assert_eq!(format!("{again:?}"), before);
    let (mut wide, mut other) = (again.clone(), on.clone());
    wide.extend_inputs(2).unwrap();
    other.extend_inputs(2).unwrap();
    assert_eq!(bits(&wide), bits(&other));
    assert_eq!(wide.unloaded(), expected);
}

#[test]
fn weights_chosen_in_hindsight_come_back() {
    let all = tables(3, 30, 3);
    let mut learner = learned(settings(MemoryKind::Ledger, Preference::Samples), &all);
    let names: Vec<String> = learner.names().map(str::to_owned).collect();
    learner
        .prefer(Preference::Chosen(vec![(names[0].clone(), 0.25), (names[2].clone(), 0.75)]))
        .unwrap();
    learner.solution().unwrap();
    let again = Learner::from_state(state(&learner, true)).unwrap();
    assert_eq!((bits(&again), again.settings()), (bits(&learner), learner.settings()));
}

/// A state without a solution, or without a pool, is solved when asked, with the same bits.
#[test]
fn what_is_not_kept_is_made_again() {
    let all = tables(4, 30, 3);
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let learner = learned(settings(memory, Preference::Samples), &all);
        learner.solution().unwrap();
        let without = LearnerState { solution: None, ..state(&learner, true) };
        let again = Learner::from_state(without).unwrap();
        assert!(!again.is_solved());
        assert_eq!(bits(&again), bits(&learner));
    }
    let learner = learned(settings(MemoryKind::Ledger, Preference::Samples), &all);
    let bare = LearnerState { pool: None, solution: None, ..state(&learner, false) };
    assert_eq!(bits(&Learner::from_state(bare).unwrap()), bits(&learner));
    let empty = crate::support::learner(settings(MemoryKind::Ledger, Preference::Samples));
    let again = Learner::from_state(state(&empty, false)).unwrap();
    assert!(matches!(again.solution(), Err(Error::NotLearned)));
}

fn refused(state: LearnerState, part: &str) {
    match Learner::from_state(state) {
        Err(Error::State { reason }) => assert!(reason.contains(part), "{reason}"),
        other => panic!("{part}: {other:?}"),
    }
}

#[test]
fn contradictions_are_refused() {
    let all = tables(3, 30, 3);
    let learner = learned(settings(MemoryKind::Ledger, Preference::Samples), &all);
    learner.solution().unwrap();
    let good = || state(&learner, false);
    let kept = || state(&learner, true);
    Learner::from_state(good()).unwrap();
    let mut s = good();
    s.tasks[1].0.name = s.tasks[0].0.name.clone();
    refused(s, "two tasks");
    let mut s = good();
    s.tasks[1].0.head.samples += 1.0;
    refused(s, "not the one on record");
    let mut s = good();
    s.tasks[1].0.rank -= 1;
    refused(s, "not the one on record");
    let mut s = good();
    s.tasks[2].0.head.least = LeastLoss::Exact(f64::NAN);
    refused(s, "invalid number");
    let mut s = good();
    s.tasks[2].0.weight = 0.0;
    refused(s, "invalid number");
    let mut s = good();
    s.tasks[2].0.head.counts = vec![3.0];
    refused(s, "classes that the model does not have");
    // The pool is one of more tasks than there are.
    let mut s = kept();
    s.tasks.pop();
    refused(s, "the pool");
    let mut s = kept();
    s.tasks.clear();
    refused(s, "the pool");
    refused(LearnerState { design: None, ..good() }, "no basis");
    refused(LearnerState { outputs: Outputs::Values(1), ..kept() }, "the shape");
    refused(LearnerState { outputs: Outputs::Values(0), ..kept() }, "no targets");
    let intercept = Settings { intercept: true, ..learner.settings().clone() };
    refused(LearnerState { settings: intercept, ..good() }, "the design");
    let classes = Problem::parse("squared", Some(ClassList::Open)).unwrap();
    refused(LearnerState { problem: classes, ..good() }, "the outputs");
    let chosen = Preference::Chosen(vec![("nobody".to_owned(), 1.0)]);
    let prefer = Settings { prefer: chosen, ..learner.settings().clone() };
    refused(LearnerState { settings: prefer, ..good() }, "nobody");
    let mut s = good();
    s.pool.as_mut().unwrap().samples = f64::NAN;
    refused(s, "the pool");
    let solved = |change: &dyn Fn(&mut Theta, &mut Vec<bool>)| {
        let mut s = kept();
        let (solution, present) = s.solution.as_mut().unwrap();
        change(&mut solution.theta, present);
        s
    };
    refused(solved(&|theta, _| *theta = Theta::zeros(3, 1)), "the solution");
    refused(solved(&|theta, _| theta.column_mut(0)[0] = f64::NAN), "the solution");
    refused(solved(&|_, present| present.clear()), "which classes have rows");
    let mut lazy = Learner::from_state(kept()).unwrap();
    let refuse = |lazy: &mut Learner, found| {
        assert!(matches!(lazy.load_summaries(found), Err(Error::State { .. })));
        assert_eq!(lazy.unloaded(), 3);
    };
    let mut wrong = summaries(&learner);
    wrong[0].1.quadratic = wrong[0].1.quadratic.scale(2.0).unwrap();
    wrong[0].1.head.samples *= 2.0;
    refuse(&mut lazy, wrong);
    let mut swapped = summaries(&learner);
    swapped[2].1 = TaskSummary::exact(Table::noise(31, 3, 2, &mut Draw::new(1)).summary(), None);
    refuse(&mut lazy, swapped);
    refuse(&mut lazy, vec![(3, (**learner.task_summary_at(0).unwrap()).clone())]);
    lazy.load_summaries(summaries(&learner)).unwrap();
    assert_eq!(lazy.unloaded(), 0);
}

/// Compact memory has its summaries or a pool of them.
#[test]
fn compact_memory_that_lacks_a_task_is_refused() {
    let mut draw = Draw::new(2);
    let few: Vec<Table> = (0..2).map(|_| Table::noise(2, 8, 1, &mut draw)).collect();
    let held = learned(settings(MemoryKind::Compact, Preference::Samples), &few);
    held.solution().unwrap();
    assert!(!held.is_folded() && held.kept_pool().is_none());
    let mut s = state(&held, false);
    s.tasks[1].1 = None;
    refused(s, "lacks a summary");
    let many: Vec<Table> = (0..2).map(|_| Table::noise(30, 8, 1, &mut draw)).collect();
    let mut folded = learned(settings(MemoryKind::Compact, Preference::Samples), &many);
    assert!(folded.is_folded());
    folded.learn("few", few[0].task(), 1.0).unwrap();
    let mut s = state(&folded, true);
    assert_eq!((s.pool.as_ref().unwrap().tasks, s.tasks[2].1.is_some()), (2, true));
    s.tasks[2].1 = None;
    refused(s, "lacks the summary of a task");
}

struct Labelled {
    x: Vec<f64>,
    y: Vec<String>,
}

impl Labelled {
    fn learn(&self, model: &mut Learner, name: &str) {
        let labels = Labels::new(&self.y);
        let rows = TaskRows::new(Rows::new(&self.x, 3).unwrap(), &labels);
        model.learn(name, rows, 1.0).unwrap();
    }
}

fn labelled(rows: usize, classes: &[&str], seed: u64) -> Labelled {
    let mut draw = Draw::new(seed);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..rows {
        let class = classes[i % classes.len()];
        let shift = f64::from(class.as_bytes()[0] - b'a');
        x.extend([draw.normal() + shift, draw.normal() * 3.0 - shift, draw.normal()]);
        y.push(class.to_owned());
    }
    Labelled { x, y }
}

const LOSSES: [&str; 3] = ["squared", "gaussian", "logistic"];

fn classifier(loss: &str, memory: MemoryKind) -> Learner {
    let named = ClassList::Fixed(["a", "b", "c"].map(str::to_owned).to_vec());
    let classes = if loss == "logistic" { named } else { ClassList::Open };
    let ridge = if loss == "squared" { Ridge::Fixed(1e-4) } else { Ridge::Auto };
    let settings = Settings { memory, ridge, threads: 1, ..Settings::default() };
    Learner::new(Problem::parse(loss, Some(classes)).unwrap(), settings).unwrap()
}

#[test]
fn a_classifier_goes_on_to_the_bit() {
    let last = labelled(60, &["a", "b", "c"], 3);
    for late in [true, false] {
        let first = if late { &["a", "b"][..] } else { &["c", "a", "b"] };
        go_on_to_the_bit(&[labelled(60, first, 1), labelled(60, first, 2)], &last, late);
    }
}

/// Learns the first tasks, and the last both here and from a state; `late` says that it brings a class.
fn go_on_to_the_bit(tasks: &[Labelled; 2], last: &Labelled, late: bool) {
    for loss in LOSSES {
        for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
            let mut model = classifier(loss, memory);
            for (i, task) in tasks.iter().enumerate() {
                task.learn(&mut model, &format!("t{i}"));
            }
            model.solution().unwrap();
            let mut again = Learner::from_state(state(&model, true)).unwrap();
            let x = Rows::new(&last.x, 3).unwrap();
            assert_eq!(again.probabilities(x).unwrap(), model.probabilities(x).unwrap());
            if again.unloaded() > 0 {
                again.load_summaries(summaries(&model)).unwrap();
            }
            for m in [&mut model, &mut again] {
                last.learn(m, "last");
                m.extend_inputs(2).unwrap();
            }
            assert_eq!(bits(&again), bits(&model), "{loss} {memory:?}");
            // A state has no rows: tables measured before a class came are corrected in one and measured again in the other.
            let plain = |m: &Learner| -> Vec<TaskReport> {
                let tasks = m.tasks().unwrap().into_iter();
                tasks.map(|task| TaskReport { left_out: None, ..task }).collect()
            };
            assert_eq!(plain(&again), plain(&model));
            if !late {
                assert_eq!(again.tasks().unwrap(), model.tasks().unwrap());
                let tables = |m: &Learner| -> Vec<_> {
                    (0..3).map(|at| m.calibration(at).cloned()).collect()
                };
                assert_eq!(tables(&again), tables(&model));
                let x: Vec<f64> =
                    last.x.chunks(3).flat_map(|r| [r, &[0.0, 0.0]].concat()).collect();
                let x = Rows::new(&x, 5).unwrap();
                assert_eq!(again.probabilities(x).unwrap(), model.probabilities(x).unwrap());
            }
            if memory == MemoryKind::Ledger {
                again.unlearn("t0").unwrap();
                model.unlearn("t0").unwrap();
                assert_eq!(bits(&again), bits(&model));
            }
            let mut broken = state(&model, false);
            broken.tasks[0].0.head.counts = vec![1.0; 4];
            refused(broken, "classes that the model does not have");
        }
    }
}

/// Columns of a category nobody has seen are zero: growing later is knowing them from the start.
#[test]
fn inputs_that_come_later_were_zero_before() {
    let (first, second) = (labelled(80, &["a", "b", "c"], 4), labelled(80, &["a", "b", "c"], 5));
    let widen = |x: &[f64], one: f64| -> Vec<f64> {
        x.chunks(3)
            .enumerate()
            .flat_map(|(i, r)| [r[0], r[1], r[2], one * f64::from(i as u32 % 2)])
            .collect()
    };
    for loss in LOSSES {
        let (mut grown, mut wide) =
            (classifier(loss, MemoryKind::Ledger), classifier(loss, MemoryKind::Ledger));
        first.learn(&mut grown, "one");
        grown.extend_inputs(1).unwrap();
        let (x, labels) = (widen(&first.x, 0.0), Labels::new(&first.y));
        wide.learn("one", TaskRows::new(Rows::new(&x, 4).unwrap(), &labels), 1.0).unwrap();
        let (x, labels) = (widen(&second.x, 1.0), Labels::new(&second.y));
        for model in [&mut grown, &mut wide] {
            let rows = TaskRows::new(Rows::new(&x, 4).unwrap(), &labels);
            model.learn("two", rows, 1.0).unwrap();
        }
        let [grown, wide] = [grown, wide].map(|m| m.solution().unwrap().theta.clone());
        let gap = apart(grown.cells(), wide.cells());
        assert!(gap < 1e-9, "{loss}: {gap:e}");
    }
}

#[test]
fn class_summaries_made_elsewhere_are_learned_like_rows() {
    let tasks = [labelled(50, &["b", "a"], 6), labelled(50, &["c", "a"], 7)];
    for loss in ["squared", "gaussian"] {
        let (mut rows, mut summed) =
            (classifier(loss, MemoryKind::Ledger), classifier(loss, MemoryKind::Ledger));
        for (t, task) in tasks.iter().enumerate() {
            let name = format!("t{t}");
            let x = Rows::new(&task.x, 3).unwrap();
            task.learn(&mut rows, &name);
            // Targets in the order of appearance, which is not that of the classes.
            let seen = vec![task.y[0].clone(), task.y[1].clone()];
            let hot: Vec<f64> = task
                .y
                .iter()
                .flat_map(|y| seen.iter().map(move |s| f64::from(u8::from(s == y))))
                .collect();
            let design = summed.design_for(&x).unwrap();
            let mut summarizer = Summarizer::new(design.clone(), 2, Accumulator::Qr).unwrap();
            summarizer.add(x, Rows::new(&hot, 2).unwrap(), None).unwrap();
            let summary = TaskSummary::exact_classes(summarizer.finish().unwrap(), seen, None);
            summed.insert(&name, &design, summary, 1.0).unwrap();
            let counts = |model: &Learner| model.tasks().unwrap()[t].counts.clone();
            assert_eq!(counts(&summed), counts(&rows));
        }
        assert_eq!(summed.classes(), rows.classes());
        let [summed, rows] = [summed, rows].map(|m| m.parameters().unwrap().theta);
        assert!(apart(summed.cells(), rows.cells()) < 1e-12);
    }
}

#[test]
fn rearranged_summaries_have_the_same_loss() {
    let mut draw = Draw::new(3);
    for case in 0..40 {
        let (d, wide) = (1 + case % 7, 1 + case % 7 + case % 4);
        let table = Table::awkward(1 + draw.below(30), d, 2, &mut draw);
        let summary = table.summary();
        let places = draw.order(wide)[..d].to_vec();
        let moved = summary.rearrange(&places, wide).unwrap();
        let theta = crate::support::theta(wide, 2, &mut draw);
        let mut small = crate::support::theta(d, 2, &mut draw);
        for k in 0..2 {
            for j in 0..d {
                small.column_mut(k)[j] = theta.column(k)[places[j]];
            }
        }
        let (a, b) = (moved.loss(&theta).unwrap(), summary.loss(&small).unwrap());
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1e-300), "{a} {b}");
        assert_eq!((moved.n().to_bits(), moved.rank()), (summary.n().to_bits(), summary.rank()));
        let swapped = summary.rearrange_targets(&[2, 0], 3).unwrap();
        assert_eq!(swapped.target_sums()[0].to_bits(), summary.target_sums()[1].to_bits());
        assert_eq!(swapped.target_sums()[1].to_bits(), 0);
    }
    let summary = Table::awkward(9, 3, 1, &mut draw).summary();
    assert!(summary.rearrange(&[0, 1], 3).is_err());
    assert!(summary.rearrange(&[0, 1, 1], 3).is_err());
    assert!(summary.rearrange(&[0, 1, 3], 3).is_err());
    assert!(summary.rearrange_targets(&[1], 1).is_err());
}
