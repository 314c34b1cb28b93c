//! Every setting that is written into a file is read back from it, for all losses and all options.

use std::collections::{BTreeMap, BTreeSet};

use pmfcl::{ClassList, Learner, MemoryKind, Preference, Problem, Rows, Settings, TaskRows};
use pmfcl_file::{Model, Schema};

/// Values of an option; one that is missing here fails the test.
fn values_of(option: &str) -> &'static [&'static str] {
    match option {
        "shrinkage" => &["auto", "diagonal:0.1", "identity:0.25", "ridge:0.0000001"],
        "covariance" => &["tied", "class"],
        "calibrate" => &["on", "off", "1.5", "0.3333333333333333"],
        "curvature" => &["bohning", "sharp", "hessian", "blend", "diagonal", "fisher"],
        "scheme" => &["one-shot", "sequential"],
        "certify" => &["true", "false"],
        other => panic!("the option {other} is not in the table"),
    }
}

/// All problems, with all values of all options.
fn problems() -> Vec<Problem> {
    let mut all: Vec<Problem> =
        ["squared", "huber", "huber:0.1", "huber:1.345", "poisson", "poisson:7.25"]
            .map(|spec| Problem::parse(spec, None).unwrap())
            .to_vec();
    let named = ["b", "10", "9"].map(str::to_owned).to_vec();
    for loss in ["squared", "gaussian", "logistic"] {
        for classes in [ClassList::Open, ClassList::Fixed(named.clone())] {
            let mut with = vec![Problem::parse(loss, Some(classes)).unwrap()];
            for (name, _) in with[0].options() {
                let set = |p: &Problem| {
                    values_of(name).iter().map(|v| p.with_option(name, v).unwrap()).collect()
                };
                with = with.iter().flat_map(|problem| -> Vec<Problem> { set(problem) }).collect();
            }
            all.extend(with);
        }
    }
    all
}

/// Settings that differ from the default in one thing each, and in all of them.
fn settings() -> Vec<Settings> {
    let plain = Settings::default();
    let mut all = vec![plain.clone(), Settings { intercept: false, ..plain.clone() }];
    for basis in [
        "poly:3,interactions=false",
        "spline:4",
        "spline:4,scale=range",
        "rff:9,scale=quantile,linear=off",
        "auto:90,only=bounded+fine,seed=5",
        "rff:16,gamma=0.1,seed=3",
        "rbf:5",
        "relu:6,scale=none",
        "patches:2,size=1,grid=1,shape=1x2",
        "ntk:4,seed=18446744073709551615",
    ] {
        all.push(Settings { basis: basis.parse().unwrap(), ..plain.clone() });
    }
    for ridge in ["0", "0.1", "1e-300", "leave-one-task-out"] {
        all.push(Settings { ridge: ridge.parse().unwrap(), ..plain.clone() });
    }
    all.push(Settings { standardize: true, ..plain.clone() });
    all.push(Settings { memory: MemoryKind::Compact, ..plain.clone() });
    for accumulator in ["qr", "gram", "mixed"] {
        all.push(Settings { accumulator: accumulator.parse().unwrap(), ..plain.clone() });
    }
    for prefer in ["equal", "decay:0.5", "decay:0.1"] {
        all.push(Settings { prefer: prefer.parse().unwrap(), ..plain.clone() });
    }
    all.push(Settings {
        basis: "log".parse().unwrap(),
        intercept: false,
        ridge: "3".parse().unwrap(),
        standardize: true,
        memory: MemoryKind::Compact,
        accumulator: "gram".parse().unwrap(),
        prefer: Preference::Decay(0.9),
        ..plain
    });
    all
}

/// The settings as they lie in the file.
fn written(bytes: &[u8]) -> serde_json::Map<String, serde_json::Value> {
    let mut connection = rusqlite::Connection::open_in_memory().unwrap();
    connection.deserialize_read_exact("main", bytes, bytes.len(), true).unwrap();
    let sql = "SELECT value FROM model WHERE key = 'settings'";
    let text: Vec<u8> = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Writes a model and reads it back; `seen` gathers the values of every name.
fn back(learner: Learner, seen: &mut BTreeMap<String, BTreeSet<String>>) {
    let target = if learner.problem().predicts_classes() { "class" } else { "y" };
    let schema = Schema::numbers(&["a".to_owned()], &[target.to_owned()]);
    let model = Model { schema, learner };
    let bytes = model.to_bytes().unwrap();
    for (name, value) in written(&bytes) {
        seen.entry(name).or_default().insert(value.to_string());
    }
    let read = Model::from_bytes(&bytes).unwrap();
    assert_eq!(read.schema, model.schema);
    assert_eq!(read.learner.problem(), model.learner.problem());
    assert_eq!(read.learner.problem().options(), model.learner.problem().options());
    assert_eq!(read.learner.settings(), model.learner.settings());
    assert_eq!(read.learner.outputs(), model.learner.outputs());
    assert!(read.to_bytes().unwrap() == bytes, "{:?}", model.learner);
}

#[test]
fn every_setting_is_read_back() {
    let mut seen = BTreeMap::new();
    let (mut kept, mut refused) = (0, 0);
    for problem in problems() {
        for settings in settings() {
            match Learner::new(problem.clone(), settings) {
                Ok(learner) => {
                    back(learner, &mut seen);
                    kept += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(kept > 500 && refused < kept, "{kept} kept, {refused} refused");
    // Weights are chosen by name, which takes tasks; a task also settles what a loss leaves open.
    for loss in ["squared", "huber", "poisson"] {
        for weights in [[0.25, 0.75], [1.0 / 3.0, 2.0 / 3.0]] {
            let problem = Problem::parse(loss, None).unwrap();
            let mut learner = Learner::new(problem, Settings::default()).unwrap();
            for (t, name) in ["one", "two; \"quoted\""].iter().enumerate() {
                let x: Vec<f64> = (0..12).map(|i| f64::from(i % 5)).collect();
                let y: Vec<f64> = x.iter().map(|v| v + t as f64).collect();
                let rows = TaskRows::new(Rows::new(&x, 1).unwrap(), Rows::new(&y, 1).unwrap());
                learner.learn(name, rows, 1.0).unwrap();
            }
            let chosen = learner.names().zip(weights).map(|(name, a)| (name.to_owned(), a));
            let chosen = Preference::Chosen(chosen.collect());
            learner.prefer(chosen).unwrap();
            back(learner, &mut seen);
        }
    }
    for (name, values) in &seen {
        assert!(values.len() > 1, "the setting {name} is {values:?} in every model of this test");
    }
    assert!(seen.len() >= 16, "{:?}", seen.keys());
}
