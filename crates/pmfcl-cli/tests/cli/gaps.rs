//! Rows that miss values: learned with means or indicators, in any split, as if all rows had been filled at once.

use crate::program::{Draw, Place, Table};

/// Rows of `y = 2a − b + town + noise`; cells of `a`, `b` and `town` are empty here and there, `b` only in later rows.
fn table(rows: usize) -> Table {
    let mut draw = Draw(11);
    let mut table = Table::new(&["a", "b", "town", "y"]);
    for i in 0..rows {
        let (a, b) = (100.0 + 10.0 * draw.unit(), draw.unit());
        let town = draw.below(3);
        let y = 2.0 * a - b + town as f64 + 0.1 * draw.unit();
        let mut row = vec![
            a.to_string(),
            b.to_string(),
            ["Bern", "Basel", "Chur"][town].to_owned(),
            y.to_string(),
        ];
        if draw.below(5) == 0 {
            row[0].clear();
        }
        if i > rows / 2 && draw.below(4) == 0 {
            "NA".clone_into(&mut row[1]);
        }
        if draw.below(6) == 0 {
            row[2].clear();
        }
        table.rows.push(row);
    }
    table
}

/// The same as numbers alone: towns as shares or indicators, gaps filled by hand.
fn by_hand(table: &Table, indicators: bool) -> Table {
    let towns = ["Bern", "Basel", "Chur"];
    let number = |text: &str| text.parse::<f64>().ok();
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let column = |at: usize| table.rows.iter().filter_map(|row| number(&row[at])).collect();
    let (a, b): (f64, f64) = (mean(column(0)), mean(column(1)));
    let there = table.rows.iter().filter(|row| !row[2].is_empty()).count() as f64;
    let share = |town: &str| table.rows.iter().filter(|row| row[2] == town).count() as f64 / there;
    let mut filled = Table::new(&["a", "b", "t1", "t2", "t3", "y"]);
    if indicators {
        filled = Table::new(&["a", "b", "t1", "t2", "t3", "ma", "mb", "mt", "y"]);
    }
    for row in &table.rows {
        let (own_a, own_b, gap) = (number(&row[0]), number(&row[1]), row[2].is_empty());
        let fill = |mean: f64| if indicators { 0.0 } else { mean };
        let mut cells = vec![own_a.unwrap_or(fill(a)), own_b.unwrap_or(fill(b))];
        for town in towns {
            let own = f64::from(u8::from(row[2] == town));
            cells.push(if gap { fill(share(town)) } else { own });
        }
        if indicators {
            let gaps = [own_a.is_none(), own_b.is_none(), gap];
            cells.extend(gaps.map(|gap| f64::from(u8::from(gap))));
        }
        let mut texts: Vec<String> = cells.iter().map(f64::to_string).collect();
        texts.push(row[3].clone());
        filled.rows.push(texts);
    }
    filled
}

fn part(table: &Table, from: usize, to: usize) -> Table {
    let mut part = table.clone();
    part.rows = table.rows[from..to].to_vec();
    part
}

fn predictions(place: &Place, words: &str) -> Vec<f64> {
    let text = place.ok(&format!("predict {words}"));
    text.lines().skip(1).map(|line| line.parse().unwrap()).collect()
}

#[track_caller]
fn near(a: &[f64], b: &[f64]) {
    let gap = a.iter().zip(b).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f64::max);
    assert!(a.len() == b.len() && gap < 1e-10, "{gap:e} ({} and {})", a.len(), b.len());
}

#[test]
fn gaps_in_any_split_equal_filling_all_rows_at_once() {
    let whole = table(300);
    for way in ["mean", "indicator"] {
        let place = Place::new();
        place.put("all.csv", whole.csv());
        for (name, from, to) in [("p1", 0, 41), ("p2", 41, 180), ("p3", 180, 300)] {
            place.put(&format!("{name}.csv"), part(&whole, from, to).csv());
        }
        place.put("hand.csv", by_hand(&whole, way == "indicator").csv());
        for ridge in ["auto", "0.1"] {
            let made = format!("--target y --ridge {ridge}");
            place.ok(&format!("learn hand-{ridge}.pmf hand.csv {made}"));
            let expected = predictions(&place, &format!("hand-{ridge}.pmf hand.csv"));
            // Split into tasks, in another order, and merged; later commands need not say it again.
            let made = format!("{made} --missing {way}");
            place.ok(&format!("learn a-{ridge}.pmf p1.csv p2.csv p3.csv {made}"));
            near(&predictions(&place, &format!("a-{ridge}.pmf all.csv")), &expected);
            place.ok(&format!("learn b-{ridge}.pmf p3.csv {made}"));
            place.ok(&format!("learn b-{ridge}.pmf p1.csv p2.csv"));
            near(&predictions(&place, &format!("b-{ridge}.pmf all.csv")), &expected);
            place.ok(&format!("learn c-{ridge}.pmf p2.csv {made}"));
            place.ok(&format!("learn d-{ridge}.pmf p3.csv p1.csv {made}"));
            place.ok(&format!("merge e-{ridge}.pmf c-{ridge}.pmf d-{ridge}.pmf"));
            near(&predictions(&place, &format!("e-{ridge}.pmf all.csv")), &expected);
            // Rows and a task removed, after which all is as before.
            place.put("extra.csv", table(350).csv());
            place.ok(&format!("learn a-{ridge}.pmf extra.csv"));
            place.ok(&format!("unlearn a-{ridge}.pmf extra"));
            near(&predictions(&place, &format!("a-{ridge}.pmf all.csv")), &expected);
            place.ok(&format!("verify a-{ridge}.pmf"));
            // Losses are those of the filled rows.
            let (own, hand) = (
                place.json(&format!("score a-{ridge}.pmf all.csv")),
                place.json(&format!("score hand-{ridge}.pmf hand.csv")),
            );
            let mse = |found: &serde_json::Value| found["overall"]["mse"].as_f64().unwrap();
            assert!((mse(&own) - mse(&hand)).abs() < 1e-10, "{own} {hand}");
        }
    }
}

#[test]
fn the_schema_file_and_single_rows_carry_it() {
    let place = Place::new();
    let whole = table(200);
    place.put("t.csv", whole.csv());
    place.ok("schema t.csv --target y --missing mean -o t.toml");
    assert!(place.text("t.toml").contains("missing = \"mean\""));
    place.ok("learn m.pmf t.csv --schema t.toml --ridge 0.01");
    place.ok("learn n.pmf t.csv --target y --missing mean --ridge 0.01");
    near(&predictions(&place, "m.pmf t.csv"), &predictions(&place, "n.pmf t.csv"));
    // Single rows removed: as if they had never been there.
    place.put("few.csv", part(&whole, 150, 200).csv());
    place.put("rest.csv", part(&whole, 0, 150).csv());
    place.ok("unlearn m.pmf t --data few.csv");
    place.ok("learn r.pmf rest.csv --target y --missing mean --ridge 0.01");
    near(&predictions(&place, "m.pmf t.csv"), &predictions(&place, "r.pmf t.csv"));
}

#[test]
fn a_column_without_gaps_so_far_is_predicted_with_its_mean() {
    let place = Place::new();
    let mut rows = "x,k,y\n".to_owned();
    for i in 0..40 {
        rows += &format!("{i},{},{}\n", ["u", "v", "v", "v"][i % 4], 3 * i + 5 * (i % 4));
    }
    place.put("t.csv", rows);
    for way in ["mean", "indicator"] {
        place.ok(&format!("learn {way}.pmf t.csv --target y --ridge 0 --missing {way}"));
        place.put("gap.csv", "x,k\n,u\n7,\n");
        let found = predictions(&place, &format!("{way}.pmf gap.csv"));
        place.put("full.csv", "x,k\n19.5,u\n7,u\n7,v\n");
        let full = predictions(&place, &format!("{way}.pmf full.csv"));
        near(&found, &[full[0], 0.25 * full[1] + 0.75 * full[2]]);
    }
    // A model that was made without takes means too, where that is asked for, and nothing otherwise.
    place.ok("learn plain.pmf t.csv --target y --ridge 0");
    let asked = predictions(&place, "plain.pmf gap.csv --missing mean");
    near(&asked, &predictions(&place, "mean.pmf gap.csv"));
    for (words, told) in [
        ("predict plain.pmf gap.csv", "--missing drop"),
        ("predict plain.pmf gap.csv --missing indicator", "made with --missing error"),
        ("predict mean.pmf gap.csv --missing indicator", "made with --missing mean"),
        ("predict mean.pmf gap.csv --missing error", "row 1"),
    ] {
        let run = place.run(words);
        assert_eq!(run.code, Some(1), "{words}");
        assert!(run.stderr.contains(told), "{words}: {}", run.stderr);
    }
    let dropped = place.ok("predict mean.pmf gap.csv --missing drop");
    assert_eq!(dropped, "y,reason\n,x is missing\n,k is missing\n");
}

#[test]
fn gaps_that_cannot_be_filled_are_refused_and_nothing_is_made() {
    let place = Place::new();
    place.put("t.csv", table(60).choose(&["a", "b", "y"]).csv());
    for (options, told) in [
        ("--missing mean --basis poly:2", "linear basis"),
        ("--missing indicator --basis rff:20", "linear basis"),
        ("--missing mean --no-intercept", "intercept"),
        ("--missing mean --loss huber", "indicator"),
    ] {
        let run = place.run(&format!("learn m.pmf t.csv --target y {options}"));
        assert_eq!(run.code, Some(1), "{options}: {}", run.stderr);
        assert!(run.stderr.contains(told), "{options}: {}", run.stderr);
        assert!(!place.path("m.pmf").exists(), "{options}");
    }
    place.ok("learn m.pmf t.csv --target y --missing mean");
    let before = place.bytes("m.pmf");
    let run = place.run("learn m.pmf t.csv --name again --missing indicator");
    assert!(run.code == Some(1) && run.stderr.contains("`mean`"), "{}", run.stderr);
    assert_eq!(place.bytes("m.pmf"), before);
    // Rows without a target cannot be learned: they are left out, and that is said.
    place.put("u.csv", "a,b,y\n1,2,3\n4,,\n,5,6\n");
    let run = place.run("learn m.pmf u.csv");
    assert!(run.code == Some(0) && run.stderr.contains("1 rows without a target were dropped"));
    // Huber and logistic loss learn indicators.
    place.ok("learn h.pmf t.csv --target y --missing indicator --loss huber");
    assert_eq!(predictions(&place, "h.pmf t.csv").len(), 60);
}

#[test]
fn a_model_that_had_no_gaps_may_learn_them_later() {
    let place = Place::new();
    let whole = table(200);
    let full = |row: &Vec<String>| row.iter().all(|cell| !cell.is_empty() && cell != "NA");
    let mut first = whole.clone();
    first.rows = whole.rows.iter().filter(|row| full(row)).cloned().collect();
    let mut second = whole.clone();
    second.rows = whole.rows.iter().filter(|row| !full(row)).cloned().collect();
    place.put("first.csv", first.csv());
    place.put("second.csv", second.csv());
    place.put("all.csv", whole.csv());
    place.ok("learn m.pmf first.csv --target y --ridge 0.01");
    place.ok("learn m.pmf second.csv --missing mean");
    place.ok("learn n.pmf all.csv --target y --ridge 0.01 --missing mean");
    near(&predictions(&place, "m.pmf all.csv"), &predictions(&place, "n.pmf all.csv"));
    // Parquet knows gaps too, and compact memory and classes keep the same sums.
    place.put("first.parquet", first.parquet());
    place.ok("learn c.pmf all.csv --target y --ridge 0.01 --missing mean --memory compact");
    near(&predictions(&place, "c.pmf first.parquet"), &predictions(&place, "n.pmf first.csv"));
}

/// Weights that make no difference between categories but relative ones.
#[test]
fn codings_say_the_same_in_other_words() {
    let place = Place::new();
    let whole = table(300);
    let mut full = whole.clone();
    full.rows.retain(|row| row.iter().all(|cell| !cell.is_empty() && cell != "NA"));
    place.put("t.csv", full.csv());
    let mut coefs = Vec::new();
    for coding in ["onehot", "reference", "sum"] {
        place.ok(&format!("learn {coding}.pmf t.csv --target y --ridge 0 --coding {coding}"));
        near(
            &predictions(&place, &format!("{coding}.pmf t.csv")),
            &predictions(&place, "onehot.pmf t.csv"),
        );
        let shown = place.json(&format!("show {coding}.pmf"));
        assert_eq!(shown["coding"], coding);
        let numbers = shown["coef"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap());
        coefs.push((numbers.collect::<Vec<f64>>(), shown["intercept"].as_f64().unwrap()));
        let text = place.ok(&format!("show {coding}.pmf --coef"));
        assert!(text.contains(&format!("coding {coding}")), "{text}");
        place.ok(&format!("report {coding}.pmf -o {coding}.html"));
        assert!(place.text(&format!("{coding}.html")).contains(&format!("coding {coding}")));
    }
    let [(onehot, base), (reference, first), (sum, middle)] = &coefs[..] else { panic!() };
    let mean = onehot[2..5].iter().sum::<f64>() / 3.0;
    near(&reference[2..5], &[0.0, onehot[3] - onehot[2], onehot[4] - onehot[2]]);
    near(&sum[2..5], &[onehot[2] - mean, onehot[3] - mean, onehot[4] - mean]);
    near(&[*first, *middle], &[base + onehot[2], base + mean]);
    // The same model changes its coding in hindsight, and a new category is relative too.
    place.ok("set onehot.pmf --coding reference");
    assert_eq!(place.json("show onehot.pmf")["coef"], place.json("show reference.pmf")["coef"]);
    place.put("new.csv", "a,b,town,y\n1,2,Zug,9\n2,2,Zug,11\n3,1,Bern,13\n");
    place.ok("learn onehot.pmf new.csv");
    assert_eq!(place.json("show onehot.pmf")["coef"][2], 0.0);
    let run = place.run("learn p.pmf t.csv --target y --coding sum --no-intercept");
    assert!(run.code == Some(1) && run.stderr.contains("intercept"), "{}", run.stderr);
}

#[test]
fn categories_nobody_has_any_more_are_purged() {
    let place = Place::new();
    place.put("a.csv", "x,k,y\n1,u,1\n2,v,3\n3,u,2\n4,v,5\n");
    place.put("b.csv", "x,k,y\n1,w,9\n2,secret,3\n3,w,2\n");
    place.ok("learn m.pmf a.csv b.csv --target y --ridge 0.1");
    place.ok("learn n.pmf a.csv --target y --ridge 0.1");
    place.ok("unlearn m.pmf b");
    assert_eq!(place.json("show m.pmf")["inputs"], place.json("show n.pmf")["inputs"]);
    near(&predictions(&place, "m.pmf a.csv"), &predictions(&place, "n.pmf a.csv"));
    let bytes = place.bytes("m.pmf");
    assert!(!bytes.windows(6).any(|six| six == b"secret"));
    place.ok("verify m.pmf");
    place.ok("learn m.pmf b.csv");
}

/// A column far from zero, such as a year, whose first gaps come late: they are no outliers, and the column has not moved.
#[test]
fn first_gaps_are_no_reason_to_warn() {
    let place = Place::new();
    let mut draw = Draw(5);
    let mut rows = |gaps: bool| {
        let mut text = "year,x,y\n".to_owned();
        for _ in 0..300 {
            let (year, x) = (2000.0 + 3.0 * draw.unit(), draw.unit());
            let y = 0.4 * (year - 2000.0) + x + 3.0 * draw.unit();
            let gap = gaps && draw.below(10) == 0;
            text += &format!("{},{x},{y}\n", if gap { String::new() } else { year.to_string() });
        }
        text
    };
    place.put("a.csv", rows(false));
    place.put("b.csv", rows(true));
    place.put("c.csv", rows(true));
    for way in ["mean", "indicator"] {
        place.ok(&format!("learn {way}.pmf a.csv --target y --missing {way}"));
        for file in ["b.csv", "c.csv"] {
            let found = place.json(&format!("check {way}.pmf {file}"));
            let kinds: Vec<&str> = found["tasks"][0]["findings"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|finding| finding["warning"] == true)
                .map(|finding| finding["kind"].as_str().unwrap())
                .collect();
            assert!(
                !kinds.iter().any(|k| ["outliers", "units"].contains(k)),
                "{way} {file} {found}"
            );
            let moved = found["tasks"][0]["columns"].as_array().unwrap();
            let year = moved.iter().find(|column| column["name"] == "year").unwrap();
            assert!(year["shift"].as_f64().unwrap().abs() < 0.3, "{way} {file} {year}");
            place.ok(&format!("learn {way}.pmf {file}"));
        }
        place.ok(&format!("report {way}.pmf -o {way}.html"));
        assert!(place.text(&format!("{way}.html")).contains("checked against the others"));
    }
}
