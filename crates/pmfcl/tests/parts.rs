//! Learners and classifiers taken apart and put together again go on as if nothing had happened, and parts
//! that contradict each other are refused.

mod support;

use pmfcl::classify::{ClassifierParts, TaskNote};
use pmfcl::learner::{LearnerParts, MemoryParts};
use pmfcl::{
    ClassLoss, Classifier, ClassifierSettings, Error, Labels, Learner, MemoryKind, Preference,
    Ridge, Rows, Settings,
};
use pmfcl_oracle::Draw;
use support::{Table, apart, learned, settings};

fn tables(count: usize, n: usize, d: usize) -> Vec<Table> {
    let mut draw = Draw::new(11);
    (0..count).map(|_| Table::awkward(n, d, 2, &mut draw)).collect()
}

/// The parts as a file would keep them; `lazy` leaves the summaries where they are.
fn parts(learner: &Learner, lazy: bool) -> LearnerParts {
    let at_hand = learner.at_hand().to_vec();
    let memory = match (learner.kept_pool(), learner.is_folded()) {
        (Some((pool, floor)), true) => MemoryParts::Folded { pool: pool.clone(), floor },
        (Some((pool, floor)), false) => MemoryParts::Ledger {
            pool: pool.clone(),
            floor,
            summaries: if lazy { Vec::new() } else { at_hand },
        },
        (None, _) if learner.records().is_empty() => MemoryParts::Empty,
        (None, _) => MemoryParts::Held(at_hand),
    };
    let model = learner.model().ok().cloned();
    LearnerParts {
        settings: learner.settings().clone(),
        design: learner.design().cloned(),
        targets: model.as_ref().map_or(0, |m| m.theta.targets()),
        tasks: learner.records().to_vec(),
        memory,
        model,
    }
}

fn bits(learner: &Learner) -> Vec<u64> {
    learner.model().unwrap().theta.cells().iter().map(|v| v.to_bits()).collect()
}

/// Put together again after any task, and after every one, with weights of no round numbers: the ridge chosen and the model have the
/// bits of a learner that never left memory.
#[test]
fn a_learner_put_together_after_any_task_goes_on_to_the_bit() {
    let mut draw = Draw::new(12);
    let all: Vec<Table> = (0..12).map(|t| Table::noise(4 + t, 3, 1, &mut draw)).collect();
    let weights: Vec<Vec<f64>> =
        all.iter().map(|t| (0..t.n()).map(|_| 0.1 + draw.uniform()).collect()).collect();
    let learn = |learner: &mut Learner, t: usize| {
        let (table, weight) = (&all[t], 0.3 + 0.1 * t as f64);
        let (x, y) = (table.rows(), table.targets());
        learner.learn_weighted(&t.to_string(), x, y, Some(&weights[t]), weight).unwrap();
    };
    let state = |learner: &Learner| {
        let model = learner.model().unwrap();
        let numbers =
            [learner.samples(), learner.effective_samples().unwrap(), model.penalty.ridge()];
        (bits(learner), numbers.map(f64::to_bits))
    };
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        for prefer in [Preference::Samples, Preference::Equal, Preference::Decay(0.9)] {
            let settings = Settings {
                intercept: true,
                ridge: Ridge::Auto,
                ..settings(memory, prefer.clone())
            };
            let mut straight = Learner::new(settings.clone()).unwrap();
            let mut always = Learner::new(settings).unwrap();
            let mut states = Vec::new();
            let mut once: Vec<Learner> = Vec::new();
            for t in 0..all.len() {
                learn(&mut straight, t);
                learn(&mut always, t);
                once.iter_mut().for_each(|learner| learn(learner, t));
                always = Learner::from_parts(parts(&always, true)).unwrap();
                once.push(Learner::from_parts(parts(&straight, false)).unwrap());
                states.push(state(&straight));
                assert_eq!(state(&always), states[t], "{memory:?} {prefer:?}, task {t}");
                for learner in &once {
                    assert_eq!(state(learner), states[t], "{memory:?} {prefer:?}, task {t}");
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
                    let mut again = Learner::from_parts(parts(&straight, lazy)).unwrap();
                    let mut on = straight.clone();
                    assert_eq!(again.state_bytes(), on.state_bytes());
                    for t in &all[before..] {
                        let name = format!("more{}", on.records().len());
                        on.learn(&name, t.rows(), t.targets()).unwrap();
                        again.learn(&name, t.rows(), t.targets()).unwrap();
                    }
                    assert_eq!(bits(&again), bits(&on));
                    if again.away() > 0 {
                        assert!(
                            matches!(again.tasks(), Err(Error::Away { missing, .. }) if missing == before)
                        );
                        assert!(matches!(again.unlearn("more5"), Err(Error::Away { .. })));
                        let name = straight.names().next().unwrap().to_owned();
                        assert!(matches!(again.summary(&name), Err(Error::Away { .. })));
                        assert!(matches!(again.prefer(Preference::Equal), Err(Error::Away { .. })));
                        assert!(matches!(again.extend_inputs(0, 1), Err(Error::Away { .. })));
                        assert!(matches!(
                            again.merge(&on),
                            Err(Error::Away { .. } | Error::DuplicateTask { .. })
                        ));
                        again.supply(straight.at_hand().to_vec()).unwrap();
                    }
                    assert_eq!(again.tasks().unwrap(), on.tasks().unwrap());
                    assert_eq!(again.summaries(), on.summaries());
                }
            }
        }
    }
}

#[test]
fn weights_chosen_in_hindsight_come_back() {
    let all = tables(3, 30, 3);
    let mut learner = learned(settings(MemoryKind::Ledger, Preference::Samples), &all);
    let names: Vec<String> = learner.names().map(str::to_owned).collect();
    learner
        .prefer(Preference::Chosen(vec![(names[0].clone(), 0.25), (names[2].clone(), 0.75)]))
        .unwrap();
    let again = Learner::from_parts(parts(&learner, true)).unwrap();
    assert_eq!((bits(&again), again.settings()), (bits(&learner), learner.settings()));
}

#[test]
fn contradictions_are_refused() {
    let all = tables(3, 30, 3);
    let learner = learned(settings(MemoryKind::Ledger, Preference::Samples), &all);
    let good = || parts(&learner, false);
    let refused = |p: LearnerParts, part: &str| match Learner::from_parts(p) {
        Err(Error::Parts { reason }) => assert!(reason.contains(part), "{reason}"),
        other => panic!("{part}: {other:?}"),
    };
    let mut p = good();
    p.tasks[1].name = p.tasks[0].name.clone();
    refused(p, "two tasks");
    let mut p = good();
    p.tasks[1].samples += 1.0;
    refused(p, "not the one on record");
    let mut p = good();
    p.tasks[2].min_loss = f64::NAN;
    refused(p, "makes no sense");
    let mut p = good();
    p.tasks.pop();
    refused(p, "3 summaries for 2 tasks");
    refused(LearnerParts { model: None, ..good() }, "all together");
    refused(LearnerParts { design: None, ..good() }, "no basis");
    refused(LearnerParts { targets: 1, ..good() }, "the shape");
    let p = LearnerParts { memory: MemoryParts::Held(learner.at_hand().to_vec()), ..good() };
    refused(p, "kind");
    let mut lazy = Learner::from_parts(parts(&learner, true)).unwrap();
    assert!(matches!(lazy.supply(learner.at_hand()[..2].to_vec()), Err(Error::Parts { .. })));
    let mut wrong = learner.at_hand().to_vec();
    wrong[0] = wrong[0].scale(2.0).unwrap();
    assert!(matches!(lazy.supply(wrong), Err(Error::Parts { .. })));
    assert_eq!(lazy.away(), 3);
}

struct Labelled {
    x: Vec<f64>,
    y: Vec<String>,
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

fn classifier(loss: ClassLoss, memory: MemoryKind) -> Classifier {
    let fixed = ["a", "b", "c"].map(str::to_owned).to_vec();
    Classifier::new(ClassifierSettings {
        loss,
        memory,
        classes: (loss == ClassLoss::Logistic).then_some(fixed),
        ridge: if loss == ClassLoss::Squared { Ridge::Fixed(1e-4) } else { Ridge::Auto },
        threads: 1,
        ..ClassifierSettings::default()
    })
    .unwrap()
}

fn class_parts(model: &Classifier, lazy: bool) -> ClassifierParts {
    ClassifierParts {
        settings: model.settings().clone(),
        classes: model.classes().to_vec(),
        learner: parts(model.learner(), lazy),
        notes: model.learner().names().map(|n| model.note(n).unwrap()).collect(),
        moments: model.kept_moments(),
    }
}

#[test]
fn a_classifier_goes_on_to_the_bit() {
    let tasks = [
        labelled(60, &["a", "b"], 1),
        labelled(60, &["b", "a"], 2),
        labelled(60, &["a", "b", "c"], 3),
    ];
    for loss in [ClassLoss::Squared, ClassLoss::Gaussian, ClassLoss::Logistic] {
        for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
            let mut model = classifier(loss, memory);
            for (i, task) in tasks[..2].iter().enumerate() {
                model
                    .learn(&format!("t{i}"), Rows::new(&task.x, 3).unwrap(), &Labels::new(&task.y))
                    .unwrap();
            }
            let mut again = Classifier::from_parts(class_parts(&model, true)).unwrap();
            if again.learner().away() > 0 {
                again.supply(model.learner().at_hand().to_vec()).unwrap();
            }
            for m in [&mut model, &mut again] {
                m.learn("last", Rows::new(&tasks[2].x, 3).unwrap(), &Labels::new(&tasks[2].y))
                    .unwrap();
                m.extend_inputs(3, 2).unwrap();
            }
            assert_eq!(bits(again.learner()), bits(model.learner()), "{loss:?} {memory:?}");
            assert_eq!(again.tasks().unwrap().len(), 3);
            if memory == MemoryKind::Ledger {
                again.unlearn("t0").unwrap();
                model.unlearn("t0").unwrap();
                assert_eq!(bits(again.learner()), bits(model.learner()));
            }
            let mut broken = class_parts(&model, false);
            broken.notes[0] =
                TaskNote { counts: vec![("zebra".to_owned(), 3.0)], ..TaskNote::default() };
            assert!(matches!(Classifier::from_parts(broken), Err(Error::Parts { .. })));
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
    for loss in [ClassLoss::Squared, ClassLoss::Gaussian, ClassLoss::Logistic] {
        let (mut grown, mut wide) =
            (classifier(loss, MemoryKind::Ledger), classifier(loss, MemoryKind::Ledger));
        grown.learn("one", Rows::new(&first.x, 3).unwrap(), &Labels::new(&first.y)).unwrap();
        grown.extend_inputs(3, 1).unwrap();
        let x = widen(&first.x, 0.0);
        wide.learn("one", Rows::new(&x, 4).unwrap(), &Labels::new(&first.y)).unwrap();
        let x = widen(&second.x, 1.0);
        for model in [&mut grown, &mut wide] {
            model.learn("two", Rows::new(&x, 4).unwrap(), &Labels::new(&second.y)).unwrap();
        }
        let gap = apart(grown.model().unwrap().theta.cells(), wide.model().unwrap().theta.cells());
        assert!(gap < 1e-9, "{loss:?}: {gap:e}");
    }
}

#[test]
fn class_summaries_made_elsewhere_are_learned_like_rows() {
    let tasks = [labelled(50, &["b", "a"], 6), labelled(50, &["c", "a"], 7)];
    for loss in [ClassLoss::Squared, ClassLoss::Gaussian] {
        let (mut rows, mut summed) =
            (classifier(loss, MemoryKind::Ledger), classifier(loss, MemoryKind::Ledger));
        for (t, task) in tasks.iter().enumerate() {
            let name = format!("t{t}");
            let x = Rows::new(&task.x, 3).unwrap();
            rows.learn(&name, x, &Labels::new(&task.y)).unwrap();
            // Targets in the order of appearance, which is not that of the classes.
            let seen = [task.y[0].clone(), task.y[1].clone()];
            let hot: Vec<f64> = task
                .y
                .iter()
                .flat_map(|y| seen.iter().map(move |s| f64::from(u8::from(s == y))))
                .collect();
            let design = summed.design_for(&x).unwrap();
            let mut summarizer =
                pmfcl::Summarizer::new(design.clone(), 2, pmfcl::Accumulator::Qr).unwrap();
            summarizer.add(x, Rows::new(&hot, 2).unwrap(), None).unwrap();
            let summary = summarizer.finish().unwrap();
            summed.learn_summarized(&name, design, &summary, &seen, 1.0).unwrap();
            assert_eq!(summed.note(&name).unwrap(), rows.note(&name).unwrap());
        }
        assert_eq!(summed.classes(), rows.classes());
        assert!(
            apart(summed.model().unwrap().theta.cells(), rows.model().unwrap().theta.cells())
                < 1e-12
        );
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
        let theta = support::theta(wide, 2, &mut draw);
        let mut small = support::theta(d, 2, &mut draw);
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
