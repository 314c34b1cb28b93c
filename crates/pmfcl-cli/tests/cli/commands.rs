//! Every command: what it prints, writes and answers in JSON.

use std::collections::BTreeSet;
use std::process::Stdio;

use crate::program::{Place, Run, Shown, Table, assert_same};
use serde_json::Value;

const COMMANDS: [&str; 13] = [
    "learn",
    "predict",
    "score",
    "calibrate",
    "show",
    "report",
    "front",
    "prefer",
    "set",
    "unlearn",
    "merge",
    "export",
    "verify",
];

/// Four quarters of the bundled data in `q.pmf`, and their rows in `q.csv`.
fn bike(place: &Place) -> Table {
    let table = Table::bike(5).filter("quarter", |q| q.starts_with("2011"));
    place.put("q.csv", table.csv());
    place.ok(
        "learn q.pmf q.csv --target rentals --task-column quarter --exclude split --ridge 0.01",
    );
    table
}

/// A classifier in `c.pmf`, two classes in `l.pmf`; their rows in `c.csv`.
fn classes(place: &Place) -> Table {
    let mut table = Table::bike(9).without(&["quarter", "split", "hour"]);
    let at = table.at("weather");
    for row in &mut table.rows {
        if row[at] == "storm" {
            "rain".clone_into(&mut row[at]);
        }
    }
    place.put("c.csv", table.csv());
    place.ok("learn c.pmf c.csv --target weather");
    place.ok("learn l.pmf c.csv --target workingday --loss logistic --ridge 0.01");
    table
}

#[track_caller]
fn assert_keys(value: &Value, keys: &[&str]) {
    let found: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted: BTreeSet<&str> = keys.iter().copied().collect();
    assert!(wanted.is_subset(&found), "{:?} are missing", wanted.difference(&found));
}

#[track_caller]
fn assert_only(value: &Value, keys: &[&str]) {
    assert_keys(value, keys);
    assert_eq!(value.as_object().unwrap().len(), keys.len(), "{value}");
}

const SHOWN: [&str; 12] = [
    "loss",
    "features",
    "basis",
    "ridge",
    "memory",
    "preference",
    "samples",
    "state_bytes",
    "coef",
    "intercept",
    "tasks",
    "mean_forgetting",
];
const TASK: [&str; 13] = [
    "rmse",
    "r2",
    "name",
    "samples",
    "rank",
    "weight",
    "bytes",
    "loss",
    "min_loss",
    "forgetting",
    "bound",
    "guaranteed",
    "outcome",
];

#[test]
fn show_tells_settings_and_tasks() {
    let place = Place::new();
    let table = bike(&place);
    let shown = place.json("show q.pmf");
    assert_keys(&shown, &SHOWN);
    assert_keys(&shown, &["targets"]);
    assert!(shown.get("classes").is_none());
    assert_eq!(shown["loss"], "squared");
    assert_eq!(shown["basis"], "linear");
    assert_eq!(shown["memory"], "ledger");
    assert_eq!(shown["preference"], "samples");
    assert_eq!(shown["targets"], serde_json::json!(["rentals"]));
    assert!((shown["ridge"].as_f64().unwrap() - 0.01).abs() < 1e-15);
    assert_eq!(shown["samples"].as_f64().unwrap() as usize, table.rows.len());
    assert_eq!(
        shown["coef"].as_array().unwrap().len(),
        shown["features"].as_array().unwrap().len()
    );
    let parts = table.split("quarter");
    let tasks = shown["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), parts.len());
    let mut weights = 0.0;
    for (task, (name, part)) in tasks.iter().zip(&parts) {
        assert_only(task, &TASK);
        assert_eq!(task["name"], name.as_str());
        assert_eq!(task["samples"].as_f64().unwrap() as usize, part.rows.len());
        weights += task["weight"].as_f64().unwrap();
        let number = |key: &str| task[key].as_f64().unwrap();
        assert!(number("loss") >= number("min_loss"));
        assert!(number("bound") >= number("forgetting") * (1.0 - 1e-9));
        assert!(number("forgetting") >= 0.0);
        assert_eq!(task["guaranteed"], true);
    }
    assert!((weights - 1.0).abs() < 1e-12);
    // The loss of a task is half its mean squared error, or the mean itself: the same factor for all.
    let scores = place.json("score q.pmf q.csv --task-column quarter");
    let ratios: Vec<f64> = scores["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .zip(tasks)
        .map(|(s, t)| t["loss"].as_f64().unwrap() / s["mse"].as_f64().unwrap())
        .collect();
    for ratio in &ratios {
        assert!((ratio - 0.5).abs() < 1e-9 || (ratio - 1.0).abs() < 1e-9, "{ratios:?}");
    }
    classes(&place);
    let shown = place.json("show c.pmf");
    assert_keys(&shown, &SHOWN);
    assert_eq!(shown["classes"].as_array().unwrap().len(), 3);
    assert_eq!(shown["coef"].as_array().unwrap().len(), 3);
}

#[test]
fn every_command_answers_in_json() {
    let place = Place::new();
    let table = bike(&place);
    let (name, part) = table.split("quarter").remove(0);
    place.put("more.csv", part.without(&["quarter"]).csv());
    let learned = place.json("learn q.pmf more.csv");
    assert_only(
        &learned,
        &["model", "learned", "tasks", "samples", "state_bytes", "mean_forgetting", "checks"],
    );
    assert_eq!(learned["learned"][0]["name"], "more");
    assert_eq!(learned["tasks"], 5);
    let predicted = place.json("predict q.pmf more.csv");
    assert_only(&predicted, &["columns", "predictions"]);
    assert_eq!(predicted["predictions"].as_array().unwrap().len(), part.rows.len());
    let scored = place.json("score q.pmf more.csv --target rentals");
    assert_only(&scored, &["tasks", "overall"]);
    assert_only(&scored["tasks"][0], &["name", "samples", "mse", "r2"]);
    assert_only(&scored["overall"], &["samples", "mse", "r2"]);
    // The first quarter and its copy would have a front of one point.
    let other = table.split("quarter").remove(1).0;
    let front = place.json(&format!("front q.pmf {other} more --points 7"));
    assert_only(&front, &["a", "b", "points", "current", "knee", "minmax"]);
    assert_eq!(front["points"].as_array().unwrap().len(), 7);
    assert_only(&front["points"][0], &["weight", "loss_a", "loss_b"]);
    for words in [format!("prefer q.pmf {name}=0.5 more=0.5"), "unlearn q.pmf more".to_owned()] {
        assert_keys(&place.json(&words), &SHOWN);
    }
    place.ok("learn other.pmf more.csv --target rentals --exclude split --ridge 0.01");
    place.ok("prefer q.pmf --samples");
    assert_keys(&place.json("merge sum.pmf q.pmf other.pmf"), &SHOWN);
    assert_only(&place.json("report q.pmf -o r.html"), &["report", "bytes"]);
    assert_only(&place.json("export q.pmf -o m.json"), &["file", "bytes"]);
    let verified = place.json("verify q.pmf");
    assert_only(&verified, &["ok", "tasks", "bytes", "checks"]);
    assert_eq!(verified["ok"], true);
    assert_eq!(verified["bytes"].as_u64().unwrap() as usize, place.bytes("q.pmf").len());
}

#[test]
fn scores_are_those_of_the_predictions() {
    let place = Place::new();
    let table = bike(&place);
    let predicted: Vec<f64> =
        place.ok("predict q.pmf q.csv").lines().skip(1).map(|l| l.parse().unwrap()).collect();
    let truth = table.numbers("rentals");
    assert_eq!(predicted.len(), truth.len());
    let n = truth.len() as f64;
    let mean = truth.iter().sum::<f64>() / n;
    let rss: f64 = truth.iter().zip(&predicted).map(|(y, p)| (y - p).powi(2)).sum();
    let tss: f64 = truth.iter().map(|y| (y - mean).powi(2)).sum();
    let scores = place.json("score q.pmf q.csv --task-column quarter");
    let overall = &scores["overall"];
    let near = |a: &Value, b: f64| (a.as_f64().unwrap() - b).abs() <= 1e-10 * b.abs();
    assert!(near(&overall["mse"], rss / n), "{overall}");
    assert!(near(&overall["r2"], 1.0 - rss / tss), "{overall}");
    assert!(near(&overall["samples"], n));
    assert_eq!(scores["tasks"].as_array().unwrap().len(), 4);
    // Every task from its own rows, by file as by column.
    for (i, (name, part)) in table.split("quarter").iter().enumerate() {
        let file = format!("{name}.csv");
        place.put(&file, part.csv());
        let alone = place.json(&format!("score q.pmf {file}"));
        assert_eq!(alone["tasks"][0]["name"], name.as_str());
        assert!(near(&alone["tasks"][0]["mse"], scores["tasks"][i]["mse"].as_f64().unwrap()));
    }
    // Coefficients tell the predictions: intercept + coefficients · inputs.
    let shown = place.json("show q.pmf");
    let coef = Shown::of(&shown).coef;
    for (row, predicted) in table.rows.iter().zip(&predicted).step_by(97) {
        let mut sum = coef[&(String::new(), "rentals".to_owned())];
        for (column, cell) in table.columns.iter().zip(row) {
            let own = coef.get(&(column.clone(), "rentals".to_owned()));
            let category = coef.get(&(format!("{column}={cell}"), "rentals".to_owned()));
            match (own, category) {
                (Some(c), _) => sum += c * cell.parse::<f64>().unwrap(),
                (None, Some(c)) => sum += c,
                (None, None) => {}
            }
        }
        assert!((sum - predicted).abs() < 1e-8 * (1.0 + sum.abs()), "{sum} and {predicted}");
    }
    // Classes: accuracy and log-loss.
    let table = classes(&place);
    for (model, target) in [("c.pmf", "weather"), ("l.pmf", "workingday")] {
        let text = place.ok(&format!("predict {model} c.csv --proba"));
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap().split(',').collect();
        assert_eq!(header[0], target);
        let (mut hits, mut log_loss) = (0.0, 0.0);
        let truth = table.texts(target);
        for (line, truth) in lines.zip(&truth) {
            let cells: Vec<&str> = line.split(',').collect();
            let proba: Vec<f64> = cells[1..].iter().map(|c| c.parse().unwrap()).collect();
            assert!((proba.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{line}");
            assert!(proba.iter().all(|p| (0.0..=1.0).contains(p)), "{line}");
            let own = header.iter().position(|h| *h == format!("proba_{truth}")).unwrap();
            log_loss -= proba[own - 1].ln();
            hits += f64::from(u8::from(cells[0] == *truth));
            let best = proba.iter().copied().fold(0.0, f64::max);
            let chosen = header.iter().position(|h| *h == format!("proba_{}", cells[0])).unwrap();
            assert!(proba[chosen - 1] >= best - 1e-12, "{line}");
        }
        let n = truth.len() as f64;
        let overall = place.json(&format!("score {model} c.csv"))["overall"].clone();
        assert!(near(&overall["accuracy"], hits / n), "{model}: {overall}");
        assert!(near(&overall["log_loss"], log_loss / n), "{model}: {overall}");
    }
}

#[test]
fn predictions_keep_the_order_of_rows() {
    let place = Place::new();
    // The prediction of a row tells its number: y = 2·row.
    let rows = 90_000;
    let mut table = Table::new(&["k", "x", "y"]);
    for i in 0..rows {
        table.rows.push(vec!["a".to_owned(), i.to_string(), (2 * i).to_string()]);
    }
    place.put("big.csv", table.csv());
    place.put("big.parquet", table.parquet());
    place.ok("learn m.pmf big.csv --target y --ridge 0");
    for words in
        ["predict m.pmf big.csv", "predict m.pmf big.csv --threads 5", "predict m.pmf big.parquet"]
    {
        let text = place.ok(words);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("y"));
        let mut count = 0;
        for (i, line) in lines.enumerate() {
            let value: f64 = line.parse().unwrap();
            assert!((value - 2.0 * i as f64).abs() < 1e-3, "row {i}: {value}");
            count += 1;
        }
        assert_eq!(count, rows);
    }
    // Into a file, the same bytes.
    let text = place.ok("predict m.pmf big.csv");
    assert_eq!(place.ok("predict m.pmf big.csv -o out.csv"), "");
    assert_eq!(place.text("out.csv"), text);
    // A reader that has seen enough is no error.
    let run = place.shell("{ pmfcl predict m.pmf big.csv; echo \"code $?\" >&2; } | head -n 1");
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("y\n", "code 0\n"));
    let run =
        place.shell("{ pmfcl learn -q n.pmf big.csv --target y; echo \"code $?\" >&2; } | true");
    assert_eq!(run.stderr, "code 0\n");
    place.ok("verify n.pmf");
}

#[test]
fn intervals_cover() {
    let place = Place::new();
    let mut draw = crate::program::Draw(7);
    let mut make = |rows: usize| {
        let mut table = Table::new(&["x", "y"]);
        for _ in 0..rows {
            let x = draw.unit();
            // Nearly normal noise.
            let noise = (0..12).map(|_| draw.unit()).sum::<f64>() - 6.0;
            table.rows.push(vec![x.to_string(), (1.0 + 3.0 * x + noise).to_string()]);
        }
        table
    };
    let (train, test) = (make(2000), make(2000));
    place.put("train.csv", train.csv());
    place.put("test.csv", test.csv());
    place.ok("learn m.pmf train.csv --target y");
    let text = place.ok("predict m.pmf test.csv --interval 0.9");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("y,y_low,y_high"));
    let mut covered = 0.0;
    for (line, y) in lines.zip(test.numbers("y")) {
        let cells: Vec<f64> = line.split(',').map(|c| c.parse().unwrap()).collect();
        assert!(cells[1] < cells[0] && cells[0] < cells[2]);
        covered += f64::from(u8::from((cells[1]..=cells[2]).contains(&y)));
    }
    let share = covered / 2000.0;
    // Four standard errors of a share of 0.9 in 2,000 are 0.027.
    assert!((share - 0.9).abs() < 0.03, "{share}");
}

#[test]
fn a_row_without_an_interval_has_empty_cells_and_a_reason() {
    let place = Place::new();
    place.put("train.csv", "x,z,y\n0,0,1\n1,0,3.1\n2,0,4.9\n3,0,7\n");
    place.put("test.csv", "x,z\n1,0\n1,5\n");
    place.ok("learn m.pmf train.csv --target y --ridge 0");
    let run = place.run("predict m.pmf test.csv --interval 0.9");
    assert_eq!(run.code, Some(0));
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[1].split(',').all(|c| c.parse::<f64>().is_ok_and(f64::is_finite)), "{lines:?}");
    assert!(lines[2].ends_with(",,"), "{lines:?}");
    assert!(
        run.stderr.contains("1 of 2 rows have no interval (the first is row 2)"),
        "{}",
        run.stderr
    );
    let json = place.json("predict m.pmf test.csv --interval 0.9");
    assert!(json["predictions"][1][1].is_null() && json["predictions"][1][2].is_null());
    assert_eq!(json["missing"][0]["row"], 1);
    assert!(json["missing"][0]["reason"].as_str().unwrap().contains("same in all rows"));
}

#[test]
fn intervals_use_the_ledger_under_a_preference_and_say_when_they_are_approximate() {
    let place = Place::new();
    let mut draw = crate::program::Draw(11);
    for (name, rows, scale) in [("a", 15, 1.0), ("b", 100, 0.3)] {
        let mut table = Table::new(&["x", "y"]);
        for _ in 0..rows {
            let x = scale * (2.0 * draw.unit() - 1.0);
            let y = 3.0 * x + draw.unit() - draw.unit();
            table.rows.push(vec![x.to_string(), y.to_string()]);
        }
        place.put(&format!("{name}.csv"), table.csv());
    }
    place.put("new.csv", "x\n3\n");
    let width = |model: &str, memory: &str, prefer: &str| {
        place.ok(&format!(
            "learn {model} a.csv b.csv --target y --ridge 0 --memory {memory} --prefer {prefer}"
        ));
        let run = place.run(&format!("predict {model} new.csv --interval 0.9"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let line = run.stdout.lines().nth(1).unwrap().to_owned();
        let cells: Vec<f64> = line.split(',').map(|c| c.parse().unwrap()).collect();
        (cells[2] - cells[1], run.stderr.contains("approximate"))
    };
    let (ledger, stated) = width("l.pmf", "ledger", "equal");
    let (compact, approximate) = width("c.pmf", "compact", "equal");
    assert!(!stated && approximate);
    // The slope hangs on few rows; taken as spread alike, it seems surer than it is.
    assert!(ledger > 1.02 * compact, "{ledger} against {compact}");
    assert!(!width("s.pmf", "compact", "samples").1);
}

#[test]
fn show_says_what_tests_and_intervals_assume() {
    let place = Place::new();
    place.put("a.csv", "x,y\n0,1\n1,3\n2,5.5\n");
    place.ok("learn m.pmf a.csv --target y");
    let shown = place.ok("show m.pmf").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("copies of its row"), "{shown}");
    let json = place.json("show m.pmf");
    assert!(json["inference"]["assumes"].as_str().unwrap().contains("copies"));
    assert!(json["inference"]["missing"].is_null());
}

#[test]
fn the_front_of_a_task_and_its_copy_is_one_point() {
    let place = Place::new();
    let rows = "x,y\n0,1\n1,3.5\n2,4.5\n3,7\n4,9.5\n";
    place.put("a.csv", rows);
    place.put("b.csv", rows);
    place.ok("learn m.pmf a.csv b.csv --target y");
    let front = place.json("front m.pmf a b");
    assert_eq!(front["points"].as_array().unwrap().len(), 1);
    for point in [&front["points"][0], &front["knee"], &front["minmax"]] {
        assert!((point["weight"].as_f64().unwrap() - 0.5).abs() < 1e-12, "{point}");
    }
    let words = place.ok("front m.pmf a b -o f.svg");
    assert!(words.contains("single point") && !words.contains("all for"), "{words}");
    place.ok("front m.pmf a b -o f.csv");
    assert_eq!(place.text("f.csv").lines().count(), 2);
    place.ok("report m.pmf -o r.html");
    let page = place.text("r.html");
    assert!(page.contains("single point") && !page.contains("NaN"));
}

#[test]
fn fronts_and_pages_are_written() {
    let place = Place::new();
    bike(&place);
    let (a, b, c, d) = ("2011Q1", "2011Q2", "2011Q3", "2011Q4");
    // Without a ridge, what is paid along the front is what is shown.
    place.ok("set q.pmf --ridge 0");
    let front = place.json(&format!("front q.pmf {a} {c}"));
    let points = front["points"].as_array().unwrap();
    assert_eq!(points.len(), 50);
    let number = |p: &Value, key: &str| p[key].as_f64().unwrap();
    for pair in points.windows(2) {
        assert!(number(&pair[0], "weight") <= number(&pair[1], "weight"));
        assert!(number(&pair[0], "loss_a") >= number(&pair[1], "loss_a") - 1e-9);
        assert!(number(&pair[0], "loss_b") <= number(&pair[1], "loss_b") + 1e-9);
    }
    for mark in ["knee", "minmax"] {
        assert_only(&front[mark], &["weight", "loss_a", "loss_b"]);
    }
    assert_keys(&front["current"], &["loss_a", "loss_b"]);
    let csv = {
        place.ok(&format!("front q.pmf {a} {c} -o f.csv"));
        place.text("f.csv")
    };
    assert_eq!(csv.lines().count(), 51);
    place.ok(&format!("front q.pmf {a} {c} -o f.svg"));
    assert!(place.text("f.svg").starts_with("<svg"));
    place.ok(&format!("front q.pmf {a} {c} -o f.png"));
    assert!(place.bytes("f.png").starts_with(b"\x89PNG\r\n\x1a\n"));
    // Groups, both ways to write them.
    let groups = place.json(&format!("front q.pmf {a},{b}:{c},{d}"));
    assert_eq!(groups, place.json(&format!("front q.pmf {a},{b} {c},{d}")));
    assert_ne!(groups["points"], front["points"]);
    // The page needs nobody else.
    place.ok("report q.pmf -o page.html");
    let page = place.text("page.html");
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
    for task in [a, b, c, d] {
        assert!(page.contains(task));
    }
    for reference in [
        "src=\"http",
        "href=\"http",
        "url(http",
        "src=\"//",
        "href=\"//",
        "@import",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!page.contains(reference), "{reference}");
    }
    for part in page.split("://").skip(1) {
        // Namespaces of SVG are names, not addresses that are looked up.
        let start: String = part.chars().take(60).collect();
        assert!(start.starts_with("www.w3.org/"), "://{start}");
    }
    // Exports.
    for (file, start) in [("m.onnx", None), ("m.safetensors", None), ("m.json", Some('{'))] {
        place.ok(&format!("export q.pmf -o {file}"));
        let bytes = place.bytes(file);
        assert!(bytes.len() > 200, "{file}");
        if let Some(start) = start {
            assert_eq!(bytes[0], start as u8);
            let _: Value = serde_json::from_slice(&bytes).unwrap();
        }
    }
    let header = place.bytes("m.safetensors");
    let length = u64::from_le_bytes(header[..8].try_into().unwrap()) as usize;
    let _: Value = serde_json::from_slice(&header[8..8 + length]).unwrap();
}

/// Every kind of model can be looked at, drawn and taken elsewhere.
#[test]
fn every_kind_of_model_has_all_views() {
    let place = Place::new();
    let table = classes(&place);
    let half = table.rows.len() / 2;
    let part = |rows: &[Vec<String>]| Table { rows: rows.to_vec(), ..table.clone() }.csv();
    place.put("a.csv", part(&table.rows[..half]));
    place.put("b.csv", part(&table.rows[half..]));
    for (i, made) in [
        "--target rentals --memory compact",
        "--target rentals --basis spline:4 --features temp,hum",
        "--target rentals,temp --accumulator gram --standardize",
        "--target rentals --no-intercept --prefer decay:0.5",
        "--target weather",
        "--target weather --loss squared",
        "--target weather --loss logistic",
        "--target weather --loss logistic --scheme sequential --curvature blend",
        "--target workingday --loss logistic --memory compact",
        "--target weather --basis rff:16",
        "--target rentals --basis auto:60",
        "--target weather --basis auto:60",
        "--target weather --memory compact",
    ]
    .iter()
    .enumerate()
    {
        let m = format!("m{i}.pmf");
        place.ok(&format!("learn {m} a.csv b.csv {made}"));
        for view in ["show", "verify"] {
            place.ok(&format!("{view} {m}"));
        }
        place.ok(&format!("report {m} -o r{i}.html"));
        for ending in ["onnx", "safetensors", "json"] {
            place.ok(&format!("export {m} -o e{i}.{ending}"));
        }
        let scored = place.json(&format!("score {m} a.csv b.csv"));
        let fit =
            &scored["overall"][if scored["overall"]["r2"].is_number() { "r2" } else { "accuracy" }];
        assert!(fit.as_f64().unwrap() > 0.05, "{made}: {scored}");
        assert_eq!(
            place.ok(&format!("predict {m} a.csv b.csv")).lines().count(),
            table.rows.len() + 1
        );
        let front = place.run(&format!("front {m} a b --json"));
        if made.contains("compact") {
            assert_eq!(front.code, Some(1), "{made}");
            assert!(front.stderr.contains("compact"), "{}", front.stderr);
        } else {
            assert_eq!(front.code, Some(0), "{made}: {}", front.stderr);
        }
    }
}

#[test]
fn help_completions_and_manuals() {
    let place = Place::new();
    for command in COMMANDS.iter().chain(&["demo", "completions", "man"]) {
        let help = place.ok(&format!("{command} --help"));
        assert!(help.contains("Example"), "{command}");
        assert!(help.contains("--json"), "{command}");
        let wide = help.lines().map(|l| l.chars().count()).max().unwrap();
        assert!(wide <= 120, "{command}: {wide} columns");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ok(&format!("completions {shell}"));
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let page = place.ok("man");
    assert!(page.contains(".TH pmfcl"));
    place.ok("man --dir pages");
    assert!(place.text("pages/pmfcl-learn.1").contains("pmfcl"));
    assert!(place.ok("--version").starts_with("pmfcl "));
}

#[test]
fn wrong_usage_exits_with_2() {
    let place = Place::new();
    for words in [
        "",
        "lern m.pmf a.csv",
        "learn",
        "learn m.pmf",
        "learn m.pmf a.csv --no-such-flag",
        "learn m.pmf a.csv --basis cubic:3",
        "learn m.pmf a.csv --ridge -1",
        "learn m.pmf a.csv --ridge much",
        "learn m.pmf a.csv --memory huge",
        "learn m.pmf a.csv --loss absolute",
        "learn m.pmf a.csv --prefer decay:2",
        "learn m.pmf a.csv --name n --task-column t",
        "learn m.pmf a.csv --features x --exclude y",
        "learn m.pmf a.csv --missing ignore",
        "show",
        "show m.pmf --quiet --verbose",
        "front m.pmf a b --points 1",
        "prefer m.pmf --samples --equal",
        "completions tcsh",
        "export m.pmf",
    ] {
        let run = place.run(words);
        assert_eq!(run.code, Some(2), "{words}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{words}");
        assert!(!run.stderr.is_empty(), "{words}");
        assert!(!place.path("m.pmf").exists());
    }
}

#[test]
fn quiet_prints_nothing() {
    let place = Place::new();
    bike(&place);
    for words in [
        "learn m.pmf q.csv --target rentals --task-column quarter --exclude split",
        "score m.pmf q.csv",
        "show m.pmf --coef",
        "front m.pmf 2011Q1 2011Q2 -o f.svg",
        "report m.pmf -o r.html",
        "prefer m.pmf --equal",
        "unlearn m.pmf 2011Q2",
        "merge n.pmf m.pmf",
        "export m.pmf -o m.onnx",
        "predict m.pmf q.csv -o p.csv",
        "verify m.pmf",
    ] {
        let run = place.run(&format!("{words} --quiet"));
        assert_eq!(
            (run.code, run.stdout.as_str(), run.stderr.as_str()),
            (Some(0), "", ""),
            "{words}"
        );
    }
    // An error is told all the same.
    let run = place.run("unlearn m.pmf 2011Q2 --quiet");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.starts_with("error: "));
}

#[test]
fn standard_input_is_a_table() {
    let place = Place::new();
    let table = bike(&place);
    let parts = table.split("quarter");
    let text = |i: usize| parts[i].1.without(&["quarter", "split"]).csv();
    place.put("a.csv", text(0));
    place.put("b.csv", text(1));
    place.ok("learn files.pmf a.csv b.csv --target rentals --ridge 0.01");
    let fed = |words: &str, input: &str| -> Run {
        let run = place.feed(words, input);
        assert_eq!(run.code, Some(0), "{words}: {}", run.stderr);
        run
    };
    fed("learn pipe.pmf - --target rentals --ridge 0.01", &text(0));
    fed("learn pipe.pmf - --name b", &text(1));
    let (files, pipe) = (place.show("files.pmf"), place.show("pipe.pmf"));
    assert_same(&files, &pipe);
    assert_eq!(pipe.names(), ["stdin", "b"]);
    let predicted = fed("predict pipe.pmf -", &text(1)).stdout;
    assert_eq!(predicted, place.ok("predict pipe.pmf b.csv"));
    let scored: Value =
        serde_json::from_str(&fed("score pipe.pmf - --json", &text(1)).stdout).unwrap();
    assert_eq!(scored["overall"], place.json("score pipe.pmf b.csv")["overall"]);
    // A basis that looks at its rows twice can be fed too.
    fed("learn basis.pmf - --target rentals --basis rff:8", &text(0));
    // So can classes, which look at their rows several times, in a model that exists.
    let labelled = |i: usize| parts[i].1.without(&["quarter", "split", "hour"]).csv();
    fed("learn classes.pmf - --target workingday --loss logistic", &labelled(0));
    fed("learn classes.pmf - --name b", &labelled(1));
}

#[test]
fn tables_fit_into_80_columns() {
    let place = Place::new();
    let table = bike(&place);
    let long = "a-task-with-a-name-that-is-much-longer-than-any-table-has-room-for-and-then-some";
    place.put("more.csv", table.without(&["quarter"]).csv());
    place.ok(&format!("learn q.pmf more.csv --name {long}"));
    classes(&place);
    // Numbers as wide as they come, and classes with long names.
    let mut tiny = table.choose(&["temp", "hum", "weather"]);
    for (i, row) in tiny.rows.iter_mut().enumerate() {
        row[0] = format!("{}e-9", 1 + i % 7);
        row[2] = format!("a-class-with-a-long-name-{}", i % 5);
    }
    place.put("tiny.csv", tiny.csv());
    place.ok(&format!("learn tiny.pmf tiny.csv --target temp --exclude weather --name {long}"));
    place.ok("learn names.pmf tiny.csv --target weather");
    for words in [
        "show tiny.pmf --coef".to_owned(),
        "show names.pmf --coef".to_owned(),
        "score tiny.pmf tiny.csv".to_owned(),
        "prefer tiny.pmf --equal".to_owned(),
        "show q.pmf --coef".to_owned(),
        "show c.pmf --coef".to_owned(),
        "show l.pmf --coef".to_owned(),
        "score q.pmf q.csv --task-column quarter".to_owned(),
        "score c.pmf c.csv".to_owned(),
        format!("front q.pmf 2011Q1 {long}"),
        "front q.pmf 2011Q1,2011Q2,2011Q3 2011Q4".to_owned(),
        "prefer q.pmf --equal".to_owned(),
        "verify q.pmf".to_owned(),
    ] {
        let text = place.ok(&words);
        for line in text.lines() {
            let wide = line.chars().count();
            assert!(wide <= 80, "{words}: {wide} columns: {line}");
        }
    }
}

#[test]
fn a_pattern_is_one_task_and_a_missing_one_is_told() {
    let place = Place::new();
    let table = bike(&place);
    for (name, part) in table.split("quarter") {
        place.put(&format!("{name}.csv"), part.without(&["quarter", "split"]).csv());
    }
    // Arguments go to the program as they are: nobody expands the pattern before.
    place.ok("learn m.pmf 2011Q[12].csv 2011Q[34].csv --target rentals");
    assert_eq!(place.show("m.pmf").names(), ["2011Q[12]", "2011Q[34]"]);
    let run = place.run("learn m.pmf 1999*.csv");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("no file matches"), "{}", run.stderr);
}

#[test]
fn json_stays_alone_on_stdout() {
    let place = Place::new();
    let table = bike(&place);
    let mut holes = table.without(&["quarter"]);
    let at = holes.at("temp");
    holes.rows[3][at].clear();
    place.put("holes.csv", holes.csv());
    let output = place
        .command("learn q.pmf holes.csv --missing drop --json --verbose")
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let run = Run::from(output);
    let _: Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(run.stderr.contains("1 rows with missing values were dropped"), "{}", run.stderr);
}
