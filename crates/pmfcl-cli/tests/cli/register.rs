//! A federation's server and `pmfcl learn` change one file: no acknowledged task is lost, and the one that comes too late is told.

use std::collections::BTreeSet;

use crate::program::{Draw, Place, Run};
use pmfcl::federated::{Rules, Update};
use pmfcl::problem::Agreement;
use pmfcl::{Learner, Problem, Rows, Settings, TaskRows};
use pmfcl_file::{Access, FileError, Model, Register, Schema, Store};

fn agreed() -> Model {
    let settings = Settings { threads: 1, ..Settings::default() };
    let learner = Learner::new(Problem::squared(), settings).unwrap();
    let schema = Schema::numbers(&["a", "b"].map(String::from), &["y".to_owned()]);
    Model { schema, learner }.founded(None).unwrap()
}

fn update(agreement: &Agreement, client: &str, step: u64) -> Update {
    let mut draw = Draw(step * 1000 + client.len() as u64);
    let x: Vec<f64> = (0..20).map(|_| draw.unit()).collect();
    let y: Vec<f64> = (0..10).map(|_| draw.unit()).collect();
    let rows = TaskRows::new(Rows::new(&x, 2).unwrap(), Rows::new(&y, 1).unwrap());
    Update::of_rows(agreement, client, step, rows).unwrap()
}

fn table(seed: u64) -> String {
    let mut draw = Draw(seed);
    let row = |_| format!("{},{},{}\n", draw.unit(), draw.unit(), draw.unit());
    "a,b,y\n".to_owned() + &(0..8).map(row).collect::<String>()
}

/// Learns a file as a client's step.
fn learn(place: &Place, step: u64) -> Run {
    place.run(&format!("learn joint.pmf rows.csv --target y --name east/{step}"))
}

fn names(place: &Place) -> BTreeSet<String> {
    let (_, model) = Store::open(&place.path("joint.pmf"), Access::Read).unwrap();
    model.learner.names().map(str::to_owned).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn tasks_learned_after_a_failed_commit_stay() {
    let place = Place::new();
    place.put("rows.csv", table(1));
    let path = place.path("joint.pmf");
    let agreed = agreed();
    let agreement = agreed.agreement().unwrap();
    let mut register = Register::open(&path, &agreed, Rules::default()).unwrap();
    register.server_mut().accept(update(&agreement, "north", 0)).unwrap();
    register.commit().unwrap();
    register.server_mut().accept(update(&agreement, "north", 1)).unwrap();

    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM task").unwrap();
    register.commit().unwrap_err();
    drop(reader);
    for step in 0..3 {
        let run = learn(&place, step);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    let kept = set(&["north/0", "east/0", "east/1", "east/2"]);
    assert_eq!(names(&place), kept);
    for _ in 0..2 {
        let told = register.commit().unwrap_err().to_string();
        assert!(told.contains("learned `east/0`, `east/1`, `east/2`"), "{told}");
        assert!(told.contains("open"), "{told}");
        assert_eq!(names(&place), kept);
    }
    // As the message says.
    let mut register = Register::open(&path, &agreed, Rules::default()).unwrap();
    register.server_mut().accept(update(&agreement, "north", 1)).unwrap();
    register.commit().unwrap();
    drop(register);
    assert_eq!(names(&place), set(&["north/0", "north/1", "east/0", "east/1", "east/2"]));
    place.ok("verify joint.pmf");
}

#[test]
fn a_file_created_meanwhile_is_left_alone() {
    let place = Place::new();
    place.put("rows.csv", table(1));
    let path = place.path("joint.pmf");
    let agreed = agreed();
    let agreement = agreed.agreement().unwrap();
    let mut register = Register::open(&path, &agreed, Rules::default()).unwrap();
    register.server_mut().accept(update(&agreement, "north", 0)).unwrap();
    assert_eq!(learn(&place, 0).code, Some(0));
    let told = register.commit().unwrap_err().to_string();
    assert!(told.contains("learned `east/0`") && !told.contains("remove"), "{told}");
    let mut register = Register::open(&path, &agreed, Rules::default()).unwrap();
    register.server_mut().accept(update(&agreement, "north", 0)).unwrap();
    register.commit().unwrap();
    drop(register);
    assert_eq!(names(&place), set(&["north/0", "east/0"]));
    // A task that is no client's step: the server says which, and what to do.
    place.ok("learn joint.pmf rows.csv --name stray");
    let told = Register::open(&path, &agreed, Rules::default()).unwrap_err().to_string();
    assert!(told.contains("joint.pmf") && told.contains("`stray`"), "{told}");
    assert!(told.contains("pmfcl unlearn") && told.contains("--name CLIENT/STEP"), "{told}");
    place.ok("unlearn joint.pmf stray");
    Register::open(&path, &agreed, Rules::default()).unwrap();
}

/// Other processes come in when the server has committed and not yet locked the file again: for microseconds, so that many
/// commits are needed until one does.
#[test]
fn tasks_learned_between_two_commits_stay() {
    let place = Place::new();
    place.put("rows.csv", table(1));
    let path = place.path("joint.pmf");
    let agreed = agreed();
    let agreement = agreed.agreement().unwrap();
    let mut acknowledged = BTreeSet::new();
    let mut register = Register::open(&path, &agreed, Rules::default()).unwrap();
    for step in 0..20 {
        register.server_mut().accept(update(&agreement, "north", step)).unwrap();
        acknowledged.insert(format!("north/{step}"));
    }
    register.commit().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let (mut learned, mut too_late) = (0, 0);
    std::thread::scope(|scope| {
        let learners: Vec<_> = (0..2_u64)
            .map(|w| {
                let (place, done) = (&place, &done);
                scope.spawn(move || {
                    let mut told = Vec::new();
                    for step in (w * 1000).. {
                        if done.load(std::sync::atomic::Ordering::Relaxed) {
                            break;
                        }
                        if learn(place, step).code == Some(0) {
                            told.push(format!("east/{step}"));
                        }
                    }
                    told
                })
            })
            .collect();
        let mut step = 20;
        while too_late < 2 && step < 400 {
            if let Err(refused) = register.server_mut().accept(update(&agreement, "north", step)) {
                panic!("{refused}");
            }
            match register.commit() {
                Ok(_) => {
                    acknowledged.insert(format!("north/{step}"));
                    step += 1;
                }
                Err(error) => {
                    let told = error.to_string();
                    assert!(told.contains("another process"), "{told}");
                    too_late += usize::from(told.contains("learned `east/"));
                    register = loop {
                        match Register::open(&path, &agreed, Rules::default()) {
                            Ok(register) => break register,
                            Err(FileError::Locked(_)) => {}
                            Err(other) => panic!("{other}"),
                        }
                    };
                }
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        for learner in learners {
            let told = learner.join().unwrap();
            learned += told.len();
            acknowledged.extend(told);
        }
    });
    drop(register);
    println!("{learned} tasks were learned while the server ran, {too_late} commits came too late");
    assert_eq!(names(&place), acknowledged);
    place.ok("verify joint.pmf");
}
