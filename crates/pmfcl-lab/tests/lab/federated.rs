//! `pmfcl-lab federated`: equal to pooled training, whoever is absent; the document and the files it writes.

use crate::program::Place;
use serde_json::Value;

/// Four clients with slopes of their own over three years.
fn table(classes: bool) -> String {
    let mut text = String::from("farm,year,rain,sun,yield\n");
    let mut state = 1_u64;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1_u32 << 31)
    };
    for year in 2021..2024 {
        for farm in 0..4 {
            for _ in 0..30 {
                let (rain, sun) = (draw(), draw());
                let value = (f64::from(farm) + 1.0) * rain - sun + 0.1 * draw();
                let cell = match (classes, value > 0.6) {
                    (false, _) => value.to_string(),
                    (true, true) => "good".to_owned(),
                    (true, false) => "poor".to_owned(),
                };
                text.push_str(&format!("farm{farm},{year},{rain},{sun},{cell}\n"));
            }
        }
    }
    text
}

const WORDS: &str = "federated farms.csv --client-column farm --target yield";

fn document(place: &Place, more: &str) -> Value {
    serde_json::from_str(&place.ok(&format!("{WORDS} --json {more}"))).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn every_loss_equals_pooled_training_with_clients_absent() {
    let place = Place::new();
    for (classes, more) in [
        (false, "--task-column year"),
        (false, "--task-column year --ridge 0 --basis poly:2"),
        (false, "--task-column year --basis spline:4 --absent 0.6"),
        (true, "--task-column year"),
        (true, "--task-column year --loss squared"),
        (true, "--task-column year --loss logistic"),
    ] {
        place.put("farms.csv", table(classes));
        let document = document(&place, more);
        assert_eq!(keys(&document), ["final", "steps"], "{more}");
        assert_eq!(keys(&document["final"]), ["gap_to_pooled", "samples"]);
        let steps = document["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 3);
        for (k, step) in steps.iter().enumerate() {
            let names = ["bytes_down", "bytes_up", "clients", "gap_to_pooled", "step"];
            assert_eq!(keys(step), names);
            assert_eq!(step["step"], k + 1);
            assert!(step["gap_to_pooled"].as_f64().unwrap() < 1e-9, "{more}: {step}");
            assert!(step["bytes_up"].as_u64() > Some(0) && step["bytes_down"].as_u64() > Some(0));
        }
        assert_eq!(document["final"]["gap_to_pooled"], steps[2]["gap_to_pooled"]);
    }
}

#[test]
fn the_seed_decides_who_is_absent_and_what_is_tested() {
    let place = Place::new();
    place.put("farms.csv", table(false));
    let samples = |more: &str| document(&place, more)["final"]["samples"].as_f64().unwrap();
    let clients = |more: &str| -> u64 {
        let document = document(&place, more);
        let steps = document["steps"].as_array().unwrap().clone();
        steps.iter().map(|step| step["clients"].as_u64().unwrap()).sum()
    };
    assert_eq!(clients("--task-column year --absent 0"), 12);
    assert_eq!(clients("--task-column year"), 12, "nobody is absent unless asked for");
    assert!(clients("--task-column year --absent 0.7") < 12);
    // Cut into steps, the rows are the same.
    let whole = samples("--absent 0");
    assert!((240.0..300.0).contains(&whole), "{whole}");
    assert!((samples("--absent 0 --steps 5") - whole).abs() < 0.5);
    assert!((samples("--absent 0 --seed 1") - whole).abs() > 0.5);
    let twice = [(); 2].map(|()| place.ok(&format!("{WORDS} --steps 3 --threads 1")));
    assert_eq!(twice[0], twice[1]);
    assert_eq!(twice[0], place.ok(&format!("{WORDS} --steps 3 --threads 2")));
}

#[test]
fn tables_and_pictures_are_written() {
    let place = Place::new();
    place.put("farms.csv", table(false));
    let words = place.ok(&format!("{WORDS} --task-column year --out pictures --single"));
    for part in ["FedAvg", "local", "up/client", "What clients pay", "farm0"] {
        assert!(words.contains(part), "{part} in\n{words}");
    }
    assert!(place.text("pictures/federated.svg").contains("FedAvg"));
    assert!(place.bytes("pictures/federated.png").starts_with(b"\x89PNG"));
    assert_eq!(place.text("pictures/federated.csv").lines().count(), 4);
    let lost = place.text("pictures/forgetting.csv");
    assert!(lost.starts_with("client,step,samples,loss,min_loss,forgetting,bound\nfarm0,1,"));
    // Loss less least loss is what was forgotten.
    for line in lost.lines().skip(1) {
        let cells: Vec<f64> = line.split(',').skip(3).map(|c| c.parse().unwrap()).collect();
        assert!((cells[0] - cells[1] - cells[2]).abs() < 1e-9 * cells[0].max(1.0), "{line}");
    }
}

#[test]
fn wrong_usage_is_named() {
    let place = Place::new();
    place.put("farms.csv", table(false));
    for (more, word) in [
        ("--absent 1", "--absent"),
        ("--task-column nowhere", "nowhere"),
        ("--loss gaussian --task-column farm", "twice"),
    ] {
        let run = place.run(&format!("{WORDS} {more}"));
        assert_eq!(run.code, Some(1), "{more}");
        assert!(run.stderr.contains(word), "{more}: {}", run.stderr);
    }
    assert_eq!(place.run(&format!("{WORDS} --steps 2 --task-column year")).code, Some(2));
}

/// A table whose second year is on another scale: `rain` near 0 first, then in the hundreds of thousands; the slope stays.
fn shifted() -> String {
    let mut text = String::from("farm,year,rain,sun,yield\n");
    for (farm, year, row, rain, sun) in table(false).lines().skip(1).enumerate().map(|(i, line)| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |k: usize| cells[k].parse::<f64>().unwrap();
        (cells[0].to_owned(), cells[1].to_owned(), i, number(2), number(3))
    }) {
        let rain = if year == "2021" { 1e-3 * rain } else { 1e5 * (1.0 + rain) };
        // One line for all, up to a thousandth.
        let value = 3.0 + 1e-5 * rain - sun + 1e-3 * f64::from(u32::try_from(row % 3).unwrap());
        text.push_str(&format!("{farm},{year},{rain},{sun},{value}\n"));
    }
    text
}

/// Columns `ours`, `fedavg`, `local` of all rows so far, then of the newest step, after the last step.
fn last_errors(place: &Place) -> Vec<f64> {
    let text = place.text("pictures/federated.csv");
    let head: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let last: Vec<&str> = text.lines().last().unwrap().split(',').collect();
    let of = |name: &str| last[head.iter().position(|h| *h == name).unwrap()].parse().unwrap();
    ["ours", "fedavg", "local", "ours_newest", "fedavg_newest", "local_newest"].map(of).to_vec()
}

#[test]
fn a_later_step_on_another_scale_does_not_blow_federated_averaging_up() {
    let place = Place::new();
    place.put("farms.csv", shifted());
    let words = place.ok(&format!("{WORDS} --task-column year --out pictures"));
    let errors = last_errors(&place);
    // The values of the later years spread by half a unit or so: a model that has learned anything stays well below.
    assert!(errors[1] < 0.2, "FedAvg {}\n{words}", errors[1]);
    assert!(words.contains("standardized by their means and deviations over all steps so far"));
    assert!(words.contains("the best on the test rows of"), "{words}");
    assert!(!words.contains("an end of the grid"), "{words}");
}

#[test]
fn a_rival_that_is_better_is_named_from_the_numbers() {
    let place = Place::new();
    // Every farm has its own slope, so clients alone are ahead of one model for all. Where the relation turns around in the
    // last year, whoever trains on that year last is ahead there.
    let turned = table(false)
        .lines()
        .map(|line| match line.split_once(",2023,") {
            Some((farm, rest)) => {
                let (inputs, value) = rest.rsplit_once(',').unwrap();
                format!("{farm},2023,{inputs},{}\n", -value.parse::<f64>().unwrap())
            }
            None => format!("{line}\n"),
        })
        .collect::<String>();
    // On one line for all farms and years, training on all rows is ahead of both.
    for (text, fedavg, local) in
        [(turned, true, false), (table(false), true, true), (shifted(), false, false)]
    {
        place.put("farms.csv", text);
        let words = place.ok(&format!("{WORDS} --task-column year --out pictures"));
        let errors = last_errors(&place);
        for (name, k, expected) in [("FedAvg", 1, fedavg), ("Every client alone", 2, local)] {
            let better = errors[k] < errors[0] || errors[k + 3] < errors[3];
            assert_eq!(better, expected, "{name}: {errors:?}");
            let line = format!("{name} is better than ours");
            assert_eq!(words.contains(&line), better, "{errors:?}\n{words}");
        }
        assert!(words.contains("On the test rows of the newest step alone (2023)"), "{words}");
    }
}

#[test]
fn bounds_that_most_rows_exceed_are_refused_with_the_share() {
    let place = Place::new();
    let words = |x: &str, y: &str| {
        format!(
            "{WORDS} --task-column year --private 50 --clip-x {x} --clip-y {y} --split-column late"
        )
    };
    // Of 20 rows to learn from, `long` have features of norm 5 and the others of norm 1; targets are 2.
    let put = |long: usize| {
        let mut text = String::from("farm,year,rain,sun,yield,late\n");
        for row in 0..24 {
            let norm = if row < long { 5.0 } else { 1.0 };
            let (rain, sun) = if row % 2 == 0 { (0.6 * norm, 0.8 * norm) } else { (norm, 0.0) };
            text.push_str(&format!(
                "farm{},2021,{rain},{sun},2,{}\n",
                row % 2,
                u8::from(row >= 20)
            ));
        }
        place.put("farms.csv", text);
    };
    put(11);
    let run = place.run(&words("1", "2"));
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stdout.is_empty());
    for part in ["55.0 % of the rows", "features", "--clip-x 1", "is not private"] {
        assert!(run.stderr.contains(part), "{part} in\n{}", run.stderr);
    }
    assert!(!run.stderr.contains("--clip-y 2"), "the targets keep to their bound: {}", run.stderr);
    let run = place.run(&words("5", "1.9"));
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("100.0 % of the rows have targets"), "{}", run.stderr);
    put(3);
    let run = place.run(&words("1", "2"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("15.0 % of the rows have features"), "{}", run.stderr);
    put(2);
    let run = place.run(&words("1", "2"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("of the rows"), "10 % is no reason to say so: {}", run.stderr);
}

#[test]
fn private_updates_say_what_they_promise_and_what_they_cost() {
    let place = Place::new();
    place.put("farms.csv", table(false));
    let private = "--task-column year --absent 0 --private 50 --clip-x 1.5 --clip-y 4";
    let document = document(&place, &format!("{private} --delta 1e-5"));
    assert_eq!(keys(&document["final"]), ["delta", "epsilon", "gap_to_pooled", "samples"]);
    assert_eq!(document["final"]["epsilon"], 50.0);
    assert_eq!(document["final"]["delta"], 1e-5);
    // Noise, and not so much that nothing is left.
    let gap = document["final"]["gap_to_pooled"].as_f64().unwrap();
    assert!((1e-6..3.0).contains(&gap), "{gap}");
    let samples = document["final"]["samples"].as_f64().unwrap();
    assert!(samples.fract() != 0.0, "the number of rows is private too: {samples}");
    let words = place.ok(&format!("{WORDS} {private}"));
    for part in
        ["epsilon 50 and delta 1e-6", "each of 3 steps", "counted with noise", "is not private"]
    {
        assert!(words.contains(part), "{part} in\n{words}");
    }
    for (more, word) in [
        ("--private 0 --clip-x 1 --clip-y 1", "epsilon"),
        ("--private 1 --clip-x 0 --clip-y 1", "bound on features"),
        ("--private 1 --clip-x 1 --clip-y 1 --basis spline:4", "first client's rows"),
        ("--private 1 --clip-x 1 --clip-y 1 --loss gaussian", "for numbers"),
    ] {
        let run = place.run(&format!("{WORDS} --task-column year {more}"));
        assert_eq!(run.code, Some(1), "{more}");
        assert!(run.stderr.contains(word), "{more}: {}", run.stderr);
    }
    assert_eq!(place.run(&format!("{WORDS} --private 1 --clip-x 1")).code, Some(2));
    assert_eq!(place.run(&format!("{WORDS} --clip-x 1")).code, Some(2));
}
