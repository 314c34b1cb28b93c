//! Several processes that change one model at once: nothing is lost, and nobody is told less or more than was done.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use crate::program::{Draw, Place, Run, Table, assert_same};

const WRITERS: usize = 4;
const TASKS: usize = 6;
const MADE: &str = "--target y --ridge 0.1";

/// So many rows, one of them with the category `own`.
fn table(draw: &mut Draw, rows: usize, own: &str) -> String {
    let mut table = Table::new(&["x", "k", "y"]);
    for row in 0..rows {
        let k = if row == 5 { own } else { "all" };
        table.rows.push(vec![draw.unit().to_string(), k.to_owned(), draw.unit().to_string()]);
    }
    table.csv()
}

fn start(place: &Place, words: &str) -> Child {
    let mut command = place.command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn what_is_told_is_what_is_in_the_model() {
    let (mut whole, mut turned_away) = (0, 0);
    for round in 0..6 {
        let place = Place::new();
        let mut draw = Draw(round);
        place.put("first.csv", table(&mut draw, 9, "all"));
        for w in 0..WRITERS {
            for t in 0..TASKS {
                // As many rows as its number, so that nobody is told of another's task.
                // A category that is new changes the whole file, one that is known does not.
                let own = if t % 2 == 1 { format!("w{w}t{t}") } else { "all".to_owned() };
                place.put(&format!("w{w}t{t}.csv"), table(&mut draw, 10 * (w + 1) + t, &own));
            }
        }
        // Half of the rounds race for the creation too.
        let mut acknowledged: BTreeSet<String> = BTreeSet::new();
        if round % 2 == 0 {
            place.ok(&format!("learn m.pmf first.csv {MADE}"));
            acknowledged.insert("first".to_owned());
        }
        let files =
            |w: usize| (0..TASKS).map(|t| format!("w{w}t{t}.csv")).collect::<Vec<_>>().join(" ");
        let writers: Vec<Child> = (0..WRITERS)
            .map(|w| start(&place, &format!("learn m.pmf {} {MADE}", files(w))))
            .collect();
        for (w, writer) in writers.into_iter().enumerate() {
            let run = Run::from(writer.wait_with_output().unwrap());
            let mut own = 0;
            for line in run.stdout.lines().filter_map(|l| l.strip_prefix("learned ")) {
                let (name, rest) = line.split_once(": ").unwrap();
                let rows = 10 * (w + 1) + own;
                assert_eq!(name, format!("w{w}t{own}"), "one after the other");
                assert!(rest.starts_with(&format!("{rows} samples")), "{name} has {rows}: {line}");
                acknowledged.insert(name.to_owned());
                own += 1;
            }
            if run.code == Some(0) {
                whole += 1;
                assert_eq!(own, TASKS);
            } else {
                turned_away += 1;
                assert_eq!(run.code, Some(1), "{}", run.stderr);
                let told = run.stderr.contains("another process") || run.stderr.contains("already");
                let errors = run.stderr.lines().filter(|line| line.starts_with("error: ")).count();
                assert!(told && errors == 1, "{}", run.stderr);
                assert!(own < TASKS);
            }
        }
        let shown = place.show("m.pmf");
        let names: BTreeSet<String> = shown.names().into_iter().collect();
        assert_eq!(names, acknowledged, "round {round}");
        place.ok("verify m.pmf");
        // And the model is that of its tasks.
        let files: Vec<String> = shown.names().iter().map(|n| format!("{n}.csv")).collect();
        place.ok(&format!("learn again.pmf {} {MADE}", files.join(" ")));
        assert_same(&place.show("again.pmf"), &shown);
    }
    println!("{whole} writers learned all their tasks, {turned_away} were turned away");
    assert!(whole > 0, "somebody gets through");
}
