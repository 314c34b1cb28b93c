//! `bench stream` and `bench smnist`: methods against each other, on tables and images of one's own.

use crate::program::Place;
use serde_json::Value;

/// Three tasks whose slopes and levels differ; the last column says which rows to test on.
fn drifting(classes: bool) -> String {
    let mut text = "when,colour,a,b,y,split\n".to_owned();
    for i in 0..360 {
        let t = i / 120;
        let (a, b) = ((i * 37 % 101) as f64 / 50.0 - 1.0, (i * 53 % 97) as f64 / 48.0 - 1.0);
        let noise = (i * 7919 % 13) as f64 / 100.0;
        let value = (1.0 + t as f64) * a - b + 3.0 * t as f64 + noise;
        let y = if classes { (value > 3.0).to_string() } else { value.to_string() };
        let colour = ["red", "blue"][i % 2];
        text.push_str(&format!("t{t},{colour},{a},{b},{y},{}\n", u8::from(i % 4 == 0)));
    }
    text
}

fn cell(table: &Value, method: &str, column: &str) -> String {
    let columns = table["columns"].as_array().unwrap();
    let at = columns.iter().position(|c| c == column).unwrap_or_else(|| panic!("{columns:?}"));
    let rows = table["rows"].as_array().unwrap();
    let row = rows.iter().find(|r| r[0] == method).unwrap_or_else(|| panic!("{rows:?}"));
    row[at].as_str().unwrap().to_owned()
}

fn number(table: &Value, method: &str, column: &str) -> f64 {
    cell(table, method, column).parse().unwrap()
}

#[test]
fn a_table_of_numbers_becomes_a_contest() {
    let place = Place::new();
    place.put("d.csv", drifting(false));
    let run =
        "bench stream d.csv --task-column when --target y --split-column split --epochs 3 --json";
    let answer: Value = serde_json::from_str(&place.ok(&format!("{run} --out out"))).unwrap();
    let scores = &answer["tables"][0];
    // PMF-CL is joint training; the last task alone knows nothing of the others.
    assert_eq!(cell(scores, "pmfcl", "mean mse"), cell(scores, "joint", "mean mse"));
    assert!(number(scores, "last", "mean mse") > 1.5 * number(scores, "pmfcl", "mean mse"));
    assert!(number(scores, "last", "newest task mse") < number(scores, "pmfcl", "newest task mse"));
    assert!(number(scores, "sgd", "mean mse") >= number(scores, "pmfcl", "mean mse"));
    assert_eq!(cell(scores, "pmfcl", "rows kept"), "0");
    assert_eq!(cell(scores, "joint", "rows kept"), "270");
    assert!(number(&answer["tables"][1], "last", "Chaudhry forgetting") > 0.5);
    for name in ["stream.svg", "stream.png", "stream.csv", "scores.csv", "forgetting.csv"] {
        assert!(place.path(&format!("out/{name}")).is_file(), "{name}");
    }
    assert_eq!(place.text("out/stream.csv").lines().count(), 4);
    // The same bits whatever the threads, except for the times.
    let again: Value = serde_json::from_str(&place.ok(&format!("{run} --threads 1"))).unwrap();
    assert_eq!(answer["tables"][1], again["tables"][1]);
}

#[test]
fn a_table_of_classes_too_with_hidden_layers() {
    let place = Place::new();
    place.put("d.csv", drifting(true));
    let run = "bench stream d.csv --task-column when --target y --classes --exclude split --epochs 2 --hidden 8 \
               --methods pmfcl,pmfcl-logistic,last,sgd,er,der++ --json";
    let answer: Value = serde_json::from_str(&place.ok(run)).unwrap();
    let scores = &answer["tables"][0];
    assert_eq!(scores["rows"].as_array().unwrap().len(), 6);
    // The line between the classes moves: one model for all tasks keeps the old, the last task alone is best on the newest.
    for method in ["pmfcl", "pmfcl-logistic"] {
        let of = |method, column| number(scores, method, column);
        assert!(of(method, "mean accuracy") > of("last", "mean accuracy") + 0.1);
        assert!(of("last", "newest task accuracy") > of(method, "newest task accuracy"));
    }
}

#[test]
fn what_cannot_be_held_is_told() {
    let place = Place::new();
    place.put("d.csv", drifting(false));
    for (command, words) in [
        ("bench stream d.csv --task-column when --target y --methods magic", "no method `magic`"),
        (
            "bench stream d.csv --task-column when --target y --methods icl --hidden 5",
            "no method `icl`",
        ),
        ("bench stream d.csv --task-column nothing --target y", "nothing"),
        ("bench stream d.csv --task-column when --target y --batch 0", "--batch"),
        ("bench smnist --data .", "mnist.parquet"),
    ] {
        let run = place.run(command);
        assert_eq!(run.code, Some(1), "{command}");
        assert!(run.stderr.contains(words), "{command}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{command}");
    }
    assert_eq!(place.run("bench pmnist").code, Some(2));
}
