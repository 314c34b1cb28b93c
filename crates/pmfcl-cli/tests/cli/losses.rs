//! What is printed under the word *loss* is a loss, and a bound is never printed as a value.

use crate::program::Place;
use serde_json::Value;

/// Three classes in the plane, `rows` of each per task; `present` says which classes a task has. Lengths are in metres times `unit`.
fn table(tasks: &[&[usize]], unit: f64) -> String {
    let mut text = String::from("week,length,width,kind\n");
    let mut state = 7_u64;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1_u32 << 31)
    };
    for (week, present) in tasks.iter().enumerate() {
        for row in 0..20 * present.len() {
            let kind = present[row % present.len()];
            let (length, width) = (kind as f64 + draw(), 2.0 * draw() - kind as f64 + draw());
            let name = ["ash", "birch", "cedar"][kind];
            text.push_str(&format!("w{week},{},{},{name}\n", length * unit, width * unit));
        }
    }
    text
}

fn shown(place: &Place, more: &str) -> Value {
    let _ = std::fs::remove_file(place.path("m.pmf"));
    place.ok(&format!("learn m.pmf trees.csv --target kind --task-column week {more}"));
    place.json("show m.pmf")
}

fn losses(shown: &Value, key: &str) -> Vec<Option<f64>> {
    shown["tasks"].as_array().unwrap().iter().map(|task| task[key].as_f64()).collect()
}

#[test]
fn no_loss_is_negative_and_the_gaussian_one_does_not_depend_on_units() {
    let place = Place::new();
    let tasks: [&[usize]; 3] = [&[0, 1, 2], &[0, 1, 2], &[0, 1, 2]];
    let mut gaussian = Vec::new();
    for unit in [1.0, 1e-6, 1e6] {
        place.put("trees.csv", table(&tasks, unit));
        for loss in ["gaussian", "squared", "logistic"] {
            for memory in ["ledger", "compact"] {
                let shown = shown(&place, &format!("--loss {loss} --memory {memory}"));
                for key in ["loss", "min_loss", "forgetting", "bound"] {
                    for value in losses(&shown, key).into_iter().flatten() {
                        assert!(value >= 0.0, "{loss}, {memory}, unit {unit}: {key} {value}");
                    }
                }
                if (loss, memory) == ("gaussian", "ledger") {
                    gaussian.push((losses(&shown, "loss"), losses(&shown, "min_loss")));
                }
                // Nothing that is no number reaches a person either.
                let words = place.ok("show m.pmf");
                assert!(!words.contains("NaN") && !words.contains("inf"), "{words}");
            }
        }
    }
    for (loss, least) in &gaussian[1..] {
        let same = |a: &Option<f64>, b: &Option<f64>| {
            let (a, b) = (a.unwrap(), b.unwrap());
            assert!((a - b).abs() < 1e-6 * b, "{a} is not {b}");
        };
        loss.iter().zip(&gaussian[0].0).for_each(|(a, b)| same(a, b));
        least.iter().zip(&gaussian[0].1).for_each(|(a, b)| same(a, b));
    }
}

#[test]
fn bounds_of_log_loss_are_not_printed_as_values() {
    let place = Place::new();
    place.put("trees.csv", table(&[&[0, 1, 2], &[0, 1, 2]], 1.0));
    let words = "learn m.pmf trees.csv --target kind --task-column week --loss logistic";
    let run = place.run(words);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("mean forgetting at most"), "{}", run.stdout);
    assert!(!run.stderr.contains("lack"), "every task has all classes: {}", run.stderr);
    let shown = place.json("show m.pmf");
    assert!(shown["mean_forgetting"].is_null());
    let bound = shown["mean_forgetting_bound"].as_f64().unwrap();
    let mean: f64 = shown["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| {
            assert!(task["loss"].is_null() && task["forgetting"].is_null(), "{task}");
            task["weight"].as_f64().unwrap() * task["bound"].as_f64().unwrap()
        })
        .sum();
    assert!((bound - mean).abs() < 1e-9 * mean.max(1.0), "{bound} is not {mean}");
    assert!(place.ok("show m.pmf").contains("best ≥"));
    std::fs::remove_file(place.path("m.pmf")).unwrap();
    let words = place.ok(&format!("{words} --curvature hessian"));
    assert!(words.contains("estimated"), "{words}");
}

#[test]
fn log_loss_says_so_where_tasks_lack_classes() {
    let place = Place::new();
    // 40, 60 and 20 rows; 40 of ash, 40 of birch, 40 of cedar. The first task lacks cedar, the last ash and birch:
    // (40 · 40 + 20 · 80) / 120² = 22.2 %.
    place.put("trees.csv", table(&[&[0, 1], &[0, 1, 2], &[2]], 1.0));
    let words = "learn m.pmf trees.csv --target kind --task-column week";
    let run = place.run(&format!("{words} --loss logistic"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for part in ["lacks the classes of 22 % of all rows", "gaussian"] {
        assert!(run.stderr.contains(part), "{part} in\n{}", run.stderr);
        let shown = place.ok("show m.pmf").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    place.ok("report m.pmf -o m.html");
    assert!(place.text("m.html").contains("lacks the classes of 22 % of all rows"));
    std::fs::remove_file(place.path("m.pmf")).unwrap();
    let run = place.run(&format!("{words} --loss gaussian"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("lack"), "{}", run.stderr);
    // One task of three without one class in three: 40 · 40 / 160² is 6 %, and nothing is said.
    place.put("trees.csv", table(&[&[0, 1, 2], &[0, 1, 2], &[0, 1]], 1.0));
    std::fs::remove_file(place.path("m.pmf")).unwrap();
    let run = place.run(&format!("{words} --loss logistic"));
    assert!(!run.stderr.contains("lack"), "{}", run.stderr);
}

#[test]
fn log_loss_takes_its_classes_from_all_files_of_the_first_command() {
    let place = Place::new();
    let rows = |tasks: &[&[usize]]| table(tasks, 1.0);
    place.put("trees.csv", rows(&[&[0, 1], &[1, 2]]));
    let made = "--target kind --task-column week --loss logistic";
    place.ok(&format!("learn m.pmf trees.csv {made}"));
    place.ok(&format!("learn n.pmf trees.csv {made} --classes ash,birch,cedar"));
    let (found, named) = (place.json("show m.pmf"), place.json("show n.pmf"));
    assert_eq!(found["classes"], serde_json::json!(["ash", "birch", "cedar"]));
    assert_eq!(found["coef"], named["coef"]);
    // Two files, a task each.
    place.put("a.csv", rows(&[&[0, 1]]));
    place.put("b.csv", rows(&[&[1, 2]]));
    place.ok("learn two.pmf a.csv b.csv --target kind --exclude week --loss logistic");
    assert_eq!(place.json("show two.pmf")["classes"].as_array().unwrap().len(), 3);
    // Later it is too late: told before the first of the new tasks is learned, with all classes there are.
    place.put("c.csv", rows(&[&[0, 1]]));
    place.ok(&format!("learn late.pmf c.csv {made}"));
    let before = place.bytes("late.pmf");
    let more = rows(&[&[0, 1], &[0, 1], &[1, 2]]).replace("w0,", "v0,");
    place.put("d.csv", more.replace("w1,", "v1,").replace("w2,", "v2,"));
    let run = place.run("learn late.pmf d.csv --task-column week");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("--classes ash,birch,cedar"), "{}", run.stderr);
    assert!(!run.stdout.contains("learned"), "{}", run.stdout);
    assert_eq!(place.bytes("late.pmf"), before);
}
