//! A basis that the program chooses: learned in one pass, chosen from the summaries, printed, kept.

use crate::program::{Place, Table};
use serde_json::Value;

/// Predictions of a model for the rows of a file.
fn predicted(place: &Place, model: &str, data: &str) -> Vec<f64> {
    let text = place.ok(&format!("predict {model} {data}"));
    text.lines().skip(1).map(|line| line.parse().unwrap()).collect()
}

fn gap(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()))
}

fn chosen(document: &Value) -> String {
    let list = document["candidates"].as_array().unwrap();
    let mut chosen = list.iter().filter(|c| c["chosen"] == true);
    chosen.next().unwrap()["name"].as_str().unwrap().to_owned()
}

#[test]
fn auto_is_chosen_printed_kept_and_does_not_depend_on_the_order_of_files() {
    let place = Place::new();
    let numbers = ["temp", "atemp", "hum", "windspeed", "month_sin", "month_cos", "rentals"];
    let table = Table::bike(3).choose(&numbers);
    let part = |from: usize, to: usize| {
        Table { rows: table.rows[from..to].to_vec(), ..table.clone() }.csv()
    };
    let n = table.rows.len();
    for (name, from, to) in [("a", 0, n / 3), ("b", n / 3, n / 2), ("c", n / 2, n)] {
        place.put(&format!("{name}.csv"), part(from, to));
    }
    place.put("all.csv", table.csv());
    let made = "--target rentals --basis auto:120";
    place.ok(&format!("learn one.pmf a.csv b.csv c.csv {made}"));
    place.ok(&format!("learn two.pmf a.csv {made}"));
    place.ok("learn two.pmf c.csv");
    place.ok("learn two.pmf b.csv");
    let (one, two) = (place.json("show one.pmf"), place.json("show two.pmf"));
    assert_eq!(chosen(&one), chosen(&two));
    assert!(one["candidates"].as_array().unwrap().len() >= 6, "{one}");
    let expected = predicted(&place, "one.pmf", "all.csv");
    let sd = 180.0;
    assert!(gap(&expected, &predicted(&place, "two.pmf", "all.csv")) / sd < 1e-7);

    let text = place.ok("show one.pmf");
    assert!(text.contains("Candidates") && text.contains("chosen"), "{text}");
    place.ok("report one.pmf -o one.html");
    let page = place.text("one.html");
    assert!(page.contains("<h3>Candidates</h3>"));
    place.ok("verify one.pmf");

    let before = one["state_bytes"].as_f64().unwrap();
    place.ok("set two.pmf --basis chosen");
    let kept = place.json("show two.pmf");
    assert_eq!(kept["basis"], format!("auto:120,only={}", chosen(&one)));
    assert!(kept["state_bytes"].as_f64().unwrap() <= before);
    assert!(gap(&expected, &predicted(&place, "two.pmf", "all.csv")) / sd < 1e-7);
    place.ok("verify two.pmf");
    place.ok("learn two.pmf b.csv --name again");

    place.ok("learn line.pmf a.csv --target rentals");
    let refused = place.run("set line.pmf --basis chosen");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("only `auto` has"), "{}", refused.stderr);
}

#[test]
fn check_says_when_rows_lie_outside_what_fixed_the_basis() {
    let place = Place::new();
    let row = |i: usize, by: f64| format!("{},{},{}\n", i % 17, (i * i) % 23, by * (i % 7) as f64);
    let rows = |by: f64, shift: f64| {
        let cell = |i: usize| format!("{},", i as f64 % 13.0 + shift) + &row(i, by);
        format!("a,b,c,y\n{}", (0..400).map(cell).collect::<String>())
    };
    place.put("first.csv", rows(1.0, 0.0));
    place.put("near.csv", rows(1.1, 0.0));
    place.put("far.csv", rows(1.0, 400.0));
    place.ok("learn m.pmf first.csv --target y --basis auto:60");
    let far = place.ok("check m.pmf far.csv");
    assert!(far.contains("outside the rows that fixed the basis") && far.contains("'a'"), "{far}");
    let near = place.ok("check m.pmf near.csv");
    assert!(!near.contains("fixed the basis"), "{near}");
}
