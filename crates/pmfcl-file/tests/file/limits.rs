//! Files that ask for far more memory than they have bytes.

use std::collections::BTreeMap;

use pmfcl::{Learner, Problem, Rows, Settings, TaskRows};
use pmfcl_file::{Model, Schema, Store, assemble};
use rusqlite::Connection;

/// The largest memory this process has had so far, in MiB.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|j| format!("x{j}")).collect()
}

/// The values of an agreement, or of a model with one task, on few inputs.
fn values(learned: bool) -> BTreeMap<String, Vec<u8>> {
    let settings =
        Settings { basis: "rff:4,gamma=1".parse().unwrap(), threads: 1, ..Settings::default() };
    let learner = Learner::new(Problem::squared(), settings).unwrap();
    let schema = Schema::numbers(&names(2), &["y".to_owned()]);
    let mut model = Model { schema, learner }.founded(None).unwrap();
    if learned {
        let (x, y) = ([0.1, 0.2, 0.3, 0.4, 0.9, 0.7], [1.0, 2.0, 3.0]);
        let rows = TaskRows::new(Rows::new(&x, 2).unwrap(), Rows::new(&y, 1).unwrap());
        model.learner.learn("a", rows, 1.0).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pmf");
    drop(Store::create(&path, &model).unwrap());
    let connection = Connection::open(&path).unwrap();
    let mut statement = connection.prepare("SELECT key, value FROM model").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

/// The same with many inputs and features: 86 kB that would draw two gigabytes.
fn blown_up(mut values: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    let inputs = 5000;
    let schema = Schema::numbers(&names(inputs), &["y".to_owned()]);
    values.insert("schema".to_owned(), serde_json::to_vec(&schema).unwrap());
    let text = String::from_utf8(values["settings"].clone()).unwrap();
    assert!(text.contains("rff:4"), "{text}");
    values.insert("settings".to_owned(), text.replace("rff:4", "rff:53000").into_bytes());
    let frozen = [vec![0.0; inputs], vec![1.0; inputs], vec![1.0]].concat();
    let frozen: Vec<u8> = frozen.iter().flat_map(|v: &f64| v.to_le_bytes()).collect();
    values.insert("basis".to_owned(), frozen);
    values
}

#[cfg(target_os = "linux")]
#[test]
fn a_basis_of_more_weights_than_a_file_gives_reason_for_is_not_drawn() {
    let sound = values(false);
    assemble(sound.clone(), Vec::new(), Vec::new()).unwrap();
    for learned in [false, true] {
        let before = peak();
        let error = assemble(blown_up(values(learned)), Vec::new(), Vec::new()).unwrap_err();
        assert!(error.contains("draws 265000000 numbers"), "{error}");
        assert!(peak() - before < 64, "{} MiB", peak() - before);
    }
}

#[test]
fn a_basis_of_other_columns_than_the_sums_is_refused() {
    let mut values = values(true);
    let text = String::from_utf8(values["settings"].clone()).unwrap();
    values.insert("settings".to_owned(), text.replace("rff:4", "rff:3").into_bytes());
    let error = assemble(values, Vec::new(), Vec::new()).unwrap_err();
    assert!(error.contains("its sums are of 5 columns"), "{error}");
}
