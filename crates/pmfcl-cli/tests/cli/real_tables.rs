//! Real tables, as people have them: what is guessed is shown, what is probably wrong is refused, and rows are looked at before
//! they are learned.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::program::{Draw, Place, Run, Table};

#[track_caller]
fn refused(run: &Run, told: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    for part in told {
        assert!(run.stderr.contains(part), "no `{part}` in\n{}", run.stderr);
    }
}

/// A stream of months: `y = 2·temp − hum + town + noise`.
fn month(seed: u64, rows: usize) -> Table {
    let mut draw = Draw(seed);
    let mut table = Table::new(&["temp", "hum", "town", "y"]);
    for _ in 0..rows {
        let noise = |draw: &mut Draw| (0..6).map(|_| draw.unit()).sum::<f64>() - 3.0;
        let (temp, hum) = (15.0 + 8.0 * noise(&mut draw), 60.0 + 10.0 * noise(&mut draw));
        let town = draw.below(3);
        let y = 2.0 * temp - hum + town as f64 + noise(&mut draw);
        let town = ["Bern", "Basel", "Chur"][town].to_owned();
        table.rows.push(vec![temp.to_string(), hum.to_string(), town, y.to_string()]);
    }
    table
}

fn changed(table: &Table, column: &str, change: impl Fn(usize, f64) -> f64) -> Table {
    let at = table.at(column);
    let mut table = table.clone();
    for (i, row) in table.rows.iter_mut().enumerate() {
        row[at] = change(i, row[at].parse().unwrap()).to_string();
    }
    table
}

/// A model `m.pmf` of two months.
fn learned() -> Place {
    let place = Place::new();
    place.put("jan.csv", month(1, 400).csv());
    place.put("feb.csv", month(2, 400).csv());
    place.ok("learn m.pmf jan.csv feb.csv --target y");
    place
}

/// The kinds of warnings about a file.
fn warned(place: &Place, words: &str) -> BTreeSet<String> {
    let found = place.json(&format!("check m.pmf {words}"));
    let findings = found["tasks"][0]["findings"].as_array().unwrap();
    let warnings = findings.iter().filter(|f| f["warning"] == Value::Bool(true));
    warnings.map(|f| f["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_german_table_is_read_as_it_is_meant() {
    let place = Place::new();
    let (mut german, mut plain) =
        ("Datum;Preis;Ort;Umsatz\n".to_owned(), "Datum,Preis,Ort,Umsatz\n".to_owned());
    for i in 1..=12 {
        let (town, price) = (["Köln", "Ulm"][i % 2], 100 * i * i % 917);
        let price = if i == 4 { "-".to_owned() } else { format!("{}.{price:03},25", i % 5) };
        german += &format!("{i:02}.02.2024;{price};{town};{i},5\n");
        if i != 4 {
            let price = price.replace('.', "").replace(',', ".");
            plain += &format!("2024-02-{i:02},{price},{town},{i}.5\n");
        }
    }
    place.put("de.csv", german);
    let learn = "learn m.pmf de.csv --target Umsatz";
    refused(&place.run(learn), &["column 'Preis'", "--decimal , --thousands ."]);
    let learn = format!("{learn} --decimal , --thousands . --ridge 0.001");
    refused(&place.run(&learn), &["column 'Datum'", "'01.02.2024'", "--dates Datum:%d.%m.%Y"]);
    let learn = format!("{learn} --dates Datum:%d.%m.%Y");
    refused(&place.run(&learn), &["row 4", "'Preis'", "'-'", "--na"]);
    let run = place.run(&format!("{learn} --na=- --missing drop"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for line in ["Datum   date:%d.%m.%Y", "Preis   number", "Ort     category", "Umsatz  target"] {
        assert!(run.stderr.contains(line), "no `{line}` in\n{}", run.stderr);
    }
    // The same rows written as programs write them give the same model.
    place.put("en.csv", plain);
    place.ok("learn n.pmf en.csv --target Umsatz --dates Datum --ridge 0.001");
    let (a, b) = (place.json("show m.pmf"), place.json("show n.pmf"));
    assert_eq!((&a["coef"], &a["intercept"]), (&b["coef"], &b["intercept"]));
    // The format of dates is part of the model; marks are those of a file.
    let predicted =
        place.ok("predict m.pmf de.csv --decimal , --thousands . --na=- --missing drop");
    let plain = place.ok("predict n.pmf en.csv");
    let numbers = |text: &str| -> Vec<String> {
        let lines = text.lines().skip(1).map(|l| l.split(',').next().unwrap().to_owned());
        lines.filter(|cell| !cell.is_empty()).collect()
    };
    assert_eq!(numbers(&predicted), numbers(&plain));
}

#[test]
fn an_identifier_is_no_category() {
    let place = Place::new();
    let mut table = Table::new(&["customer", "x", "y"]);
    for i in 0..700 {
        table.rows.push(vec![format!("C-{i:04}"), (i % 13).to_string(), (i % 7).to_string()]);
    }
    place.put("t.csv", table.csv());
    place.put("t.parquet", table.parquet());
    for file in ["t.csv", "t.parquet"] {
        let run = place.run(&format!("learn m.pmf {file} --target y"));
        refused(
            &run,
            &["column 'customer'", "'C-0000'", "700 different texts", "--exclude customer"],
        );
    }
    place.ok("learn m.pmf t.csv --target y --exclude customer");
    place.ok("learn n.pmf t.csv --target y --as-category customer");
    refused(
        &place.run("learn k.pmf t.csv --target customer --exclude x"),
        &["column 'customer'", "classes"],
    );
}

#[test]
fn words_among_numbers_are_not_guessed_at() {
    let place = Place::new();
    let mut table = Table::new(&["x", "y"]);
    for i in 0..50 {
        let x = if i == 17 { "n/k".to_owned() } else { (i % 11).to_string() };
        table.rows.push(vec![x, (i % 7).to_string()]);
    }
    place.put("t.csv", table.csv());
    let run = place.run("learn m.pmf t.csv --target y");
    refused(
        &run,
        &["row 18", "column 'x'", "'n/k'", "49 of the first 50", "--na n/k", "--as-category x"],
    );
    place.ok("learn m.pmf t.csv --target y --na n/k --missing drop");
    assert_eq!(place.json("show m.pmf")["samples"], 49.0);
    place.ok("learn n.pmf t.csv --target y --as-category x");
    // A number that stands for a missing value.
    place.put("u.csv", "x,y\n1,2\n-999,3\n2,4\n3,5\n");
    place.ok("learn u.pmf u.csv --target y --na=-999 --missing drop");
    assert_eq!(place.json("show u.pmf")["samples"], 3.0);
}

#[test]
fn what_columns_are_taken_for_is_shown_and_can_be_stated() {
    let place = Place::new();
    place.put("t.csv", "id,town,open,day,c,label\n1,Bern,true,2024-01-31,5,0\n2,Ulm,false,2024-02-01,5,1\n3,Bern,true,2024-02-02,5,1\n4,Ulm,true,2024-02-03,5,0\n");
    let found = place.json("schema t.csv --target label");
    let roles: Vec<&str> =
        found["columns"].as_array().unwrap().iter().map(|c| c["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["number", "category", "boolean", "date", "number", "target"]);
    let text = place.ok("schema t.csv --target label");
    for part in
        ["'id' counts the rows", "'c' is 5 in all 4 rows", "2 different whole numbers (0, 1)"]
    {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    for file in ["s.toml", "s.json"] {
        place.ok(&format!("schema t.csv --target label -o {file}"));
        let stated = place.text(file).replace("\"number\"", "\"ignore\"");
        place.put(file, &stated);
        place.ok(&format!("learn {file}.pmf t.csv --schema {file}"));
        let found = place.json(&format!("show {file}.pmf"));
        assert_eq!(
            found["inputs"],
            serde_json::json!(["open", "day", "town=Bern", "town=Ulm"]),
            "{stated}"
        );
        assert_eq!(found["targets"], serde_json::json!(["label"]));
    }
    place.put("u.csv", "id,town,open,day,c,label,new\n1,Bern,true,2024-01-31,5,0,1\n");
    refused(
        &place.run("learn u.pmf u.csv --schema s.toml"),
        &["column 'new'", "not in the schema"],
    );
    place.put("bad.toml", "[columns]\nid = \"nummer\"\n");
    refused(
        &place.run("learn u.pmf u.csv --schema bad.toml"),
        &["bad.toml", "column 'id'", "'nummer'"],
    );
    let run = place.run("learn m.pmf t.csv --target label --dates day");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("--loss gaussian or --loss logistic"), "{}", run.stderr);
}

/// A sensor in other units, a cell of 9.9e9, the same file twice, a shuffled target: each is said before it is learned.
#[test]
fn harm_is_told_before_it_is_done() {
    let place = learned();
    let march = month(3, 400);
    place.put("mar.csv", march.csv());
    assert_eq!(warned(&place, "mar.csv"), BTreeSet::new());
    let set =
        |kinds: &[&str]| -> BTreeSet<String> { kinds.iter().map(|k| (*k).to_owned()).collect() };
    for (name, factor, offset) in [("ten", 10.0, 0.0), ("thousand", 1000.0, 0.0), ("f", 1.8, 32.0)]
    {
        place.put("units.csv", changed(&march, "temp", |_, v| factor * v + offset).csv());
        assert!(warned(&place, "units.csv").is_superset(&set(&["units", "drift"])), "{name}");
    }
    place.put("cell.csv", changed(&march, "hum", |i, v| if i == 7 { 9.9e9 } else { v }).csv());
    let found = place.json("check m.pmf cell.csv");
    assert_eq!(found["tasks"][0]["outliers"]["worst"][0]["row"], 8);
    assert!(warned(&place, "cell.csv").contains("outliers"));
    // One row in a hundred, ten standard deviations of the noise off.
    place.put(
        "tails.csv",
        changed(&march, "y", |i, v| if i % 100 == 3 { v + 10.0 } else { v }).csv(),
    );
    assert!(warned(&place, "tails.csv").contains("outliers"));
    let ys: Vec<f64> = march.numbers("y");
    place.put("shuffled.csv", changed(&march, "y", |i, _| ys[(i * 173 + 31) % ys.len()]).csv());
    assert!(warned(&place, "shuffled.csv").contains("drift"));
    // The same rows again, in another order, under another name.
    let mut again = month(2, 400);
    again.rows.reverse();
    place.put("again.csv", again.csv());
    assert!(warned(&place, "again.csv").contains("repeat"));
    let run = place.run("learn m.pmf again.csv --dry-run");
    assert_eq!(run.code, Some(0));
    assert!(
        run.stderr.contains("warning: again: the same rows were learned before, as task `feb`"),
        "{}",
        run.stderr
    );
    assert!(run.stdout.contains("would learn again"), "{}", run.stdout);
    let before = place.bytes("m.pmf");
    let run = place.run("learn m.pmf again.csv --refuse-if repeat,units");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("refused: again: --refuse-if repeat holds"), "{}", run.stderr);
    assert!(before == place.bytes("m.pmf"));
    assert_eq!(place.run("check m.pmf again.csv --refuse-if repeat").code, Some(1));
    assert_eq!(place.run("check m.pmf mar.csv --refuse-if any,drift<0.0001,shift>1").code, Some(0));
    // New categories are known, and learning goes on.
    place.put("new.csv", march.csv().replace("Chur", "Genf"));
    assert!(warned(&place, "new.csv").contains("categories"));
    let run = place.run("learn m.pmf new.csv");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("warning: new: new categories: 'town=Genf'"), "{}", run.stderr);
}

#[test]
fn rows_leave_a_task_as_if_they_had_never_been_in_it() {
    let place = learned();
    let (january, february) = (month(1, 400), month(2, 400));
    let person = |table: &Table, of: bool| {
        let mut part = table.clone();
        let mut at = 0;
        part.rows.retain(|_| {
            at += 1;
            (at % 40 == 0) == of
        });
        part
    };
    place.put("person.csv", person(&january, true).csv());
    place.put("rest.csv", person(&january, false).csv());
    place.put("feb.csv", february.csv());
    let run = place.run("unlearn m.pmf jan --data person.csv --receipt r.json");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("unlearned 10 rows of jan"), "{}", run.stdout);
    place.ok("learn n.pmf rest.csv feb.csv --target y");
    let (a, b) = (place.json("show m.pmf"), place.json("show n.pmf"));
    let numbers = |v: &Value| -> Vec<f64> {
        v["coef"].as_array().unwrap().iter().map(|c| c.as_f64().unwrap()).collect()
    };
    for (x, y) in numbers(&a).iter().zip(numbers(&b)) {
        assert!((x - y).abs() < 1e-10, "{x} {y}");
    }
    // What is left is known by its content: the rest is not learned a second time without a word.
    assert!(warned(&place, "rest.csv").contains("repeat"));
    let found = place.json("verify m.pmf --receipt r.json");
    assert!(found["checks"].to_string().contains("to the byte"), "{found}");
    // A receipt that was changed, of another model, and of rows that came back.
    place.put("forged.json", place.text("r.json").replace("\"rows\": 10", "\"rows\": 11"));
    refused(&place.run("verify m.pmf --receipt forged.json"), &["was changed since it was signed"]);
    refused(&place.run("verify n.pmf --receipt r.json"), &["no such removal"]);
    place.ok("learn m.pmf person.csv");
    refused(&place.run("verify m.pmf --receipt r.json"), &["learned again", "`person`"]);
    // Rows that were never in it.
    place.put("strange.csv", month(9, 10).csv());
    let run = place.run("unlearn m.pmf feb --data strange.csv");
    assert!(run.code == Some(0) || run.stderr.contains("never added"), "{}", run.stderr);
    place.put("town.csv", month(9, 10).csv().replace("Bern", "Genf"));
    refused(&place.run("unlearn m.pmf feb --data town.csv"), &["does not know", "Genf"]);
}

#[test]
fn a_receipt_is_signed_and_every_change_is_noticed() {
    let place = learned();
    place.put("before.pmf", place.bytes("m.pmf"));
    let run = place.run("unlearn m.pmf jan --receipt r.json");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let (_, fingerprint) = run.stdout.trim().rsplit_once("signed by ").unwrap();
    // The key was made, for its owner alone, and is used again.
    let key = place.path("config/pmfcl/sign-key.pem");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let found = place.json("verify m.pmf --receipt r.json")["checks"].to_string();
    assert!(found.contains(fingerprint) && found.contains("your key"), "{found}");
    place.ok(&format!("verify m.pmf --receipt r.json --signed-by {fingerprint}"));
    // Every word of the statement is signed.
    let receipt: Value = serde_json::from_str(&place.text("r.json")).unwrap();
    for (name, value) in receipt.as_object().unwrap() {
        let mut forged = receipt.clone();
        forged[name] = match value {
            Value::Number(n) => Value::from(n.as_u64().unwrap_or(0) + 1),
            Value::String(s) if s.ends_with('0') => Value::from(format!("{}1", &s[..s.len() - 1])),
            Value::String(s) => Value::from(format!("{}0", &s[..s.len() - 1])),
            _ => Value::from("jan"),
        };
        place.put("forged.json", forged.to_string());
        assert_eq!(place.run("verify m.pmf --receipt forged.json").code, Some(1), "{name}");
    }
    let mut more = receipt.clone();
    more["note"] = Value::from("something else");
    place.put("forged.json", more.to_string());
    refused(&place.run("verify m.pmf --receipt forged.json"), &["was changed since it was signed"]);
    // The same statement by another key: sound, but not by the one that was named, and not one's own.
    std::fs::rename(&key, place.path("first.pem")).unwrap();
    place.put("n.pmf", place.bytes("before.pmf"));
    place.ok("unlearn n.pmf jan --receipt other.json");
    let found = place.json("verify m.pmf --receipt r.json")["checks"].to_string();
    assert!(found.contains("not yours"), "{found}");
    let named = format!("verify n.pmf --receipt other.json --signed-by {fingerprint}");
    refused(&place.run(&named), &["signed by the key", fingerprint]);
    // A key that is named is used; one that is none is refused before anything is removed.
    place.put("k.pmf", place.bytes("before.pmf"));
    place.ok("unlearn k.pmf feb --receipt k.json --sign-key first.pem");
    place.ok(&format!("verify k.pmf --receipt k.json --signed-by {fingerprint}"));
    place.put("no.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let owner = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(place.path("no.pem"), owner).unwrap();
    }
    let run = place.run("unlearn k.pmf jan --receipt j.json --sign-key no.pem");
    refused(&run, &["no.pem", "openssl genpkey"]);
    place.ok("unlearn k.pmf jan");
    // The file before the removal is not the file of the receipt.
    refused(&place.run("verify before.pmf --receipt r.json"), &["no such removal"]);
    let run = place.run("verify m.pmf --signed-by abc");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
}

#[test]
fn every_row_has_its_line_with_its_name_and_a_reason() {
    let place = learned();
    place.put(
        "new.csv",
        "name,temp,hum,town\nanna,1,2,Bern\nben,,2,Ulm\ncora,3,4,\ndora,5,6,Chur\n",
    );
    let text = place.ok("predict m.pmf new.csv --missing drop --unknown zero --id name");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0], ["name", "y", "reason"]);
    let names: Vec<&str> = lines[1..].iter().map(|line| line[0]).collect();
    assert_eq!(names, ["anna", "ben", "cora", "dora"]);
    let reasons: Vec<&str> = lines[1..].iter().map(|line| line[2]).collect();
    assert_eq!(reasons, ["", "temp is missing", "town is missing", ""]);
    assert!(lines[2][1].is_empty() && lines[4][1].parse::<f64>().is_ok());
    // An unknown town has no effect of its own.
    place.put("ulm.csv", "temp,hum,town\n1,2,Ulm\n");
    refused(&place.run("predict m.pmf ulm.csv"), &["'Ulm'", "--unknown zero"]);
    place.ok("predict m.pmf ulm.csv --unknown zero");
}

#[test]
fn show_leads_with_errors_in_units_of_the_target() {
    let place = learned();
    let text = place.ok("show m.pmf");
    assert!(text.contains("RMSE"), "{text}");
    let found = place.json("show m.pmf");
    let scored = place.json("score m.pmf jan.csv feb.csv");
    let near = |a: &Value, b: f64| (a.as_f64().unwrap() - b).abs() < 1e-9 * b.abs();
    let overall = &scored["overall"];
    assert!(near(&found["fit"][0]["rmse"], overall["mse"].as_f64().unwrap().sqrt()), "{overall}");
    assert!(near(&found["fit"][0]["r2"], overall["r2"].as_f64().unwrap()));
    let one = place.json("score m.pmf jan.csv");
    assert!(near(&found["tasks"][0]["rmse"], one["overall"]["mse"].as_f64().unwrap().sqrt()));
}

/// A column that is measured later: the model is that of all rows at once, with zeros where it was not measured.
#[test]
fn a_new_column_has_been_zero_so_far() {
    let place = Place::new();
    let (old, new) = (month(1, 60), month(2, 60));
    let add = |table: &Table, value: &dyn Fn(usize) -> usize| {
        let mut table = table.clone();
        table.columns.push("wind".to_owned());
        let rows = table.rows.iter_mut().enumerate();
        rows.for_each(|(i, row)| row.push(value(i).to_string()));
        table
    };
    place.put("old.csv", old.csv());
    place.put("new.csv", add(&new, &|i| i * i % 11).csv());
    place.ok("learn m.pmf old.csv --target y --ridge 0.01");
    refused(&place.run("learn m.pmf new.csv"), &["column 'wind' is new", "--new-columns wind"]);
    place.ok("learn m.pmf new.csv --new-columns wind");
    place.put("old0.csv", add(&old, &|_| 0).csv());
    place.ok("learn n.pmf old0.csv new.csv --target y --ridge 0.01");
    assert!(place.show("m.pmf").gap(&place.show("n.pmf")) < 1e-10);
    place.ok("predict m.pmf new.csv");
    place.ok("verify m.pmf");
    let run = place.run("predict m.pmf old.csv");
    refused(&run, &["needs the column 'wind'"]);
    refused(&place.run("learn m.pmf old0.csv --new-columns gust"), &["no column 'gust'"]);
    // Another past, stated: as if the file before had held it.
    place.put("old35.csv", add(&old, &|_| 7).csv());
    for memory in ["ledger", "compact"] {
        place.ok(&format!("learn s{memory}.pmf old.csv --target y --ridge 0.01 --memory {memory}"));
        let model = format!("s{memory}.pmf");
        let run = place.run(&format!("learn {model} new.csv --new-columns wind=calm"));
        refused(&run, &["column 'wind' holds numbers", "'calm' is none"]);
        place.ok(&format!("learn {model} new.csv --new-columns wind=7"));
        place.ok(&format!(
            "learn t{memory}.pmf old35.csv new.csv --target y --ridge 0.01 --memory {memory}"
        ));
        assert!(place.show(&model).gap(&place.show(&format!("t{memory}.pmf"))) < 1e-10);
        place.ok(&format!("verify {model}"));
    }
    place.ok("unlearn sledger.pmf new");
    place.ok("learn again.pmf old35.csv --target y --ridge 0.01");
    assert!(place.show("sledger.pmf").gap(&place.show("again.pmf")) < 1e-10);
    place.ok("learn none.pmf old.csv --target y --no-intercept");
    refused(&place.run("learn none.pmf new.csv --new-columns wind=7"), &["without an intercept"]);
    place.ok("learn none.pmf new.csv --new-columns wind=0");
}
