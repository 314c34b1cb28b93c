//! Probabilities one can act on: calibrated, measured again, and a score for rows of none of the classes.

use crate::program::{Draw, Place, Table};

/// Rows of normal classes; `far` steps away in the second feature.
fn flowers(classes: &[&str], rows: usize, far: f64, seed: u64) -> Table {
    let mut draw = Draw(seed);
    let mut normal = || (0..12).map(|_| draw.unit()).sum::<f64>() - 6.0;
    let mut table = Table::new(&["x", "z", "kind"]);
    for i in 0..rows {
        let kind = classes[i % classes.len()];
        let step = 2.0 * f64::from(kind.as_bytes()[0] - b'a');
        let row = [(step + normal()).to_string(), (far + normal()).to_string(), kind.to_owned()];
        table.rows.push(row.to_vec());
    }
    table
}

fn place() -> Place {
    let place = Place::new();
    for (name, seed) in [("one.csv", 1), ("two.csv", 2), ("new.csv", 3)] {
        place.put(name, flowers(&["a", "b", "c"], 300, 0.0, seed).csv());
    }
    place.put("strange.csv", flowers(&["z"], 60, 12.0, 4).csv());
    place
}

#[test]
fn tasks_are_measured_when_learned_and_again_on_request() {
    let place = place();
    place.ok("learn m.pmf one.csv --target kind");
    place.ok("learn m.pmf two.csv");
    let shown = place.json("show m.pmf");
    assert_eq!(shown["calibrate"], "on");
    assert!(shown["left_out"]["accuracy"].as_f64().unwrap() > 0.6, "{}", shown["left_out"]);
    assert!(shown["left_out"]["calibration_error"].as_f64().unwrap() < 0.1);
    assert_eq!(shown["tasks"][1]["left_out"]["samples"], 300.0);
    let text = place.ok("show m.pmf");
    assert!(text.contains("accuracy") && text.contains("temperature"), "{text}");
    let before = place.ok("predict m.pmf new.csv");
    let measured = place.json("calibrate m.pmf new.csv");
    assert_eq!(measured["rows"], 300);
    assert!(measured["temperature"].as_f64().unwrap() > 0.0);
    assert_eq!(place.ok("predict m.pmf new.csv"), before, "classes do not change");
    place.ok("calibrate m.pmf one.csv two.csv --learned");
    place.ok("verify m.pmf");
    // Off, and on again by measuring.
    place.ok("learn off.pmf one.csv --target kind --calibrate off");
    assert!(place.ok("show off.pmf").contains("off"));
    assert_eq!(place.json("show off.pmf")["left_out"], serde_json::Value::Null);
    place.ok("calibrate off.pmf new.csv");
    assert_eq!(place.json("show off.pmf")["calibrate"], "on");
}

/// One command per class: no command has the rows of another, and probabilities are still nearly those of one command for all.
#[test]
fn classes_learned_by_one_command_each_have_the_probabilities_of_one_command() {
    let place = Place::new();
    for (class, spread) in [("a", 1_u32), ("b", 3), ("c", 1)] {
        let mut table = flowers(&[class], 200, 0.0, u64::from(20 + spread));
        for row in &mut table.rows {
            let x: f64 = row[0].parse().unwrap();
            row[0] = (x * f64::from(spread)).to_string();
        }
        place.put(&format!("{class}.csv"), table.csv());
    }
    let all = ["a.csv", "b.csv", "c.csv"];
    let loss = |model: &str| {
        place.ok(&format!("verify {model}"));
        let scores = all.map(|file| place.json(&format!("score {model} {file} --target kind")));
        scores.iter().map(|score| score["overall"]["log_loss"].as_f64().unwrap()).sum::<f64>()
    };
    place.ok("learn once.pmf a.csv b.csv c.csv --target kind");
    for (model, order) in [("x.pmf", [0, 1, 2]), ("y.pmf", [1, 2, 0]), ("z.pmf", [2, 0, 1])] {
        for task in order {
            place.ok(&format!("learn {model} {} --target kind", all[task]));
        }
        let (found, best) = (loss(model), loss("once.pmf"));
        assert!((found / best - 1.0).abs() < 0.1, "{order:?}: {found} against {best}");
    }
}

#[test]
fn rows_of_none_of_the_classes_have_high_scores() {
    let place = place();
    place.ok("learn m.pmf one.csv two.csv --target kind");
    let unknown = |file: &str| -> Vec<f64> {
        let text = place.ok(&format!("predict m.pmf {file} --unknown-score"));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("kind,unknown"));
        lines.map(|line| line.split(',').next_back().unwrap().parse().unwrap()).collect()
    };
    let known = unknown("new.csv");
    let above = known.iter().filter(|v| **v > 0.9).count();
    assert!((10..60).contains(&above), "{above} of 300 are expected to be about 30");
    assert!(unknown("strange.csv").iter().all(|v| *v > 0.99));
    let header = place.ok("predict m.pmf new.csv --proba --unknown-score");
    assert!(header.starts_with("kind,proba_a,proba_b,proba_c,unknown\n"), "{header}");
    let scored = place.json("score m.pmf new.csv strange.csv")["overall"].clone();
    assert_eq!(scored["unknown_samples"], 60.0);
    assert!(scored["unknown_auroc"].as_f64().unwrap() > 0.99, "{scored}");
    assert!(scored["brier"].is_number() && scored["reliability"].is_array());
    assert!(place.ok("score m.pmf new.csv strange.csv").contains("AUROC"));
}

#[test]
fn class_covariances_learn_merge_and_are_removed() {
    let place = place();
    let note = place.run("learn m.pmf one.csv two.csv --target kind --covariance class");
    assert_eq!(note.code, Some(0), "{}", note.stderr);
    assert!(note.stderr.contains("covariance for each class"), "{}", note.stderr);
    assert_eq!(place.json("show m.pmf")["covariance"], "class");
    let both = place.ok("predict m.pmf new.csv --proba");
    place.ok("verify m.pmf");
    // Learned apart and merged, classes and scores are the same to rounding; a task is removed exactly.
    place.ok("learn a.pmf one.csv --target kind --covariance class");
    place.ok("learn b.pmf two.csv --target kind --covariance class");
    place.ok("merge merged.pmf a.pmf b.pmf");
    let first = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(',').next().unwrap().to_owned()).collect()
    };
    assert_eq!(first(&place.ok("predict merged.pmf new.csv --proba")), first(&both));
    place.ok("unlearn m.pmf two");
    let left = place.json("show m.pmf")["tasks"].as_array().unwrap().len();
    assert_eq!(left, 1);
    place.ok("verify m.pmf");
}

#[test]
fn what_cannot_be_measured_is_refused_with_the_reason() {
    let place = place();
    place.ok("learn l.pmf one.csv --target kind --loss logistic");
    for (words, part) in [
        ("calibrate l.pmf new.csv", "gaussian"),
        ("predict l.pmf new.csv --unknown-score", "gaussian"),
    ] {
        let run = place.run(words);
        assert_eq!(run.code, Some(1), "{words}");
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    place.ok("learn m.pmf one.csv --target kind");
    let before = place.bytes("m.pmf");
    let run = place.run("calibrate m.pmf strange.csv");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(place.bytes("m.pmf"), before, "the model is unchanged");
}
