//! Names of tasks, columns, targets and models in what is written for others: pages and JSON.
//!
//! Bytes are names, one after the other, divided by 0xFF. JSON gives the same names back. In a page no name opens an element: whoever sends a
//! model must not run code in the browser of whoever reads its report.

use pmfcl::{Learner, Problem, Rows, Settings, TaskRows};
use pmfcl_export::{Exported, Input, json};
use pmfcl_report::{Pair, Subject, page};

/// Puts names into a model and writes it.
pub fn run(bytes: &[u8]) {
    let mut names = bytes.split(|b| *b == 0xFF);
    let mut count = 0;
    let mut next = || {
        // A beginning that neither a page nor another name has, so that a name is found again.
        count += 1;
        format!("q{count}~{}", String::from_utf8_lossy(names.next().unwrap_or_default()))
    };
    let [title, one, other, column, target] = [next(), next(), next(), next(), next()];
    let mut learner =
        Learner::new(Problem::squared(), Settings { threads: 1, ..Settings::default() })
            .expect("settings");
    let x = [1.0, 2.0, 4.0];
    for (name, y) in [(&one, [1.0, 2.0, 3.0]), (&other, [2.0, 1.0, 0.5])] {
        let rows = TaskRows::new(Rows::new(&x, 1).expect("rows"), Rows::new(&y, 1).expect("rows"));
        // A name that is taken, or none.
        if learner.learn(name, rows, 1.0).is_err() {
            return;
        }
    }
    let inputs = [Input::Number(column.clone())];
    let targets = [target.clone()];
    let exported = Exported::of(&title, &inputs, &learner, &targets).expect("a model");
    let text = json(&exported).expect("JSON");
    let read: serde_json::Value = serde_json::from_str(&text).expect("JSON that is read");
    assert_eq!(read["name"], *title);
    assert_eq!(read["targets"][0], *target);
    assert_eq!(read["inputs"][0]["number"], *column);

    let features = [column.clone()];
    let subject = Subject {
        title: &title,
        learner: &learner,
        features: &features,
        targets: &targets,
        coding: None,
    };
    let html = page(&subject).expect("a page");
    // Every element of a page is one of its own: what follows a name's beginning is no `<` of the name.
    for name in [&title, &one, &other, &column, &target] {
        if let Some(at) = name.find('<') {
            assert!(!html.contains(&name[..=at]), "{name:?} opens an element");
        }
    }
    let pair = Pair::of(&learner, &[one.as_str()], &[other.as_str()], 3).expect("a front");
    // A name may hold line breaks; then it is in quotes.
    let mut quoted = false;
    let ends = |c: char| {
        quoted ^= c == '"';
        c == '\n' && !quoted
    };
    assert_eq!(pair.csv().matches(ends).count(), 4);
}
