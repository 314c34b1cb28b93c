//! What was learned piece by piece is what all rows at once would have given, whatever the files look like.

use crate::program::{Place, Shown, Table, assert_same};

/// Made with: every coefficient is then unique, and the same for all ways to the model.
const MADE: &str = "--target rentals --exclude split --ridge 0.01";

/// The quarters of the bundled data, one file each: `2011Q1.csv`, …
fn quarters(place: &Place) -> Vec<(String, Table)> {
    let parts = bike().split("quarter");
    assert_eq!(parts.len(), 8);
    for (name, part) in &parts {
        place.put(&format!("{name}.csv"), part.without(&["quarter"]).csv());
    }
    parts
}

fn bike() -> Table {
    Table::bike(5)
}

fn files(parts: &[(String, Table)]) -> String {
    parts.iter().map(|(n, _)| format!("{n}.csv")).collect::<Vec<_>>().join(" ")
}

/// Quarters one by one, and all rows as one task.
#[test]
fn files_one_by_one_equal_all_rows_at_once() {
    let place = Place::new();
    let parts = quarters(&place);
    place.put("all.csv", bike().without(&["quarter"]).csv());
    place.ok(&format!("learn whole.pmf all.csv {MADE}"));
    let whole = place.show("whole.pmf");
    place.ok(&format!("learn at-once.pmf {} {MADE}", files(&parts)));
    assert_same(&whole, &place.show("at-once.pmf"));
    // A command for each file; settings are given once.
    for (i, (name, _)) in parts.iter().enumerate() {
        place.ok(&format!("learn later.pmf {name}.csv {}", if i == 0 { MADE } else { "" }));
    }
    let later = place.show("later.pmf");
    assert_same(&whole, &later);
    assert_eq!(later.names(), parts.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>());
    // The other accumulator, and the other memory.
    for other in ["--memory compact", "--accumulator gram"] {
        let name = other.rsplit(' ').next().unwrap();
        place.ok(&format!("learn {name}.pmf {} {MADE} {other}", files(&parts)));
        assert_same(&whole, &place.show(&format!("{name}.pmf")));
    }
    // A column that names the task.
    place.put("named.csv", bike().csv());
    place.ok(&format!("learn named.pmf named.csv {MADE} --task-column quarter"));
    let named = place.show("named.pmf");
    assert_same(&whole, &named);
    assert_eq!(named.names(), later.names());
    for (a, b) in named.tasks.as_array().unwrap().iter().zip(later.tasks.as_array().unwrap().iter())
    {
        assert_eq!(a["samples"], b["samples"]);
    }
    // A quoted pattern, and one name, are one task.
    place.ok(&format!("learn pattern.pmf 201?Q?.csv {MADE}"));
    assert_same(&whole, &place.show("pattern.pmf"));
    assert_eq!(place.show("pattern.pmf").names().len(), 1);
    place.ok(&format!("learn one.pmf {} {MADE} --name one", files(&parts)));
    assert_same(&whole, &place.show("one.pmf"));
    assert_eq!(place.show("one.pmf").names(), ["one"]);
}

#[test]
fn every_format_and_column_order_gives_the_same_model() {
    let place = Place::new();
    let table = bike().without(&["quarter"]);
    place.put("a.csv", table.csv());
    place.put("a.csv.gz", table.gz());
    place.put("a.parquet", table.parquet());
    place.put("a.arrow", table.arrow());
    place.put("a.feather", table.arrow());
    place.put("a.tsv", table.csv().replace(',', "\t"));
    let mut shuffled: Vec<&str> = table.columns.iter().map(String::as_str).collect();
    shuffled.reverse();
    shuffled.swap(2, 7);
    place.put("shuffled.csv", table.choose(&shuffled).csv());
    place.ok(&format!("learn m.pmf a.csv {MADE}"));
    let csv = place.show("m.pmf");
    for file in ["a.csv.gz", "a.parquet", "a.arrow", "a.feather", "a.tsv", "shuffled.csv"] {
        let model = format!("{file}.pmf");
        place.ok(&format!("learn {model} {file} {MADE}"));
        assert_same(&csv, &place.show(&model));
    }
    // Another order in a later file, too.
    place.ok(&format!("learn first.pmf a.csv {MADE}"));
    place.ok("learn first.pmf shuffled.csv");
    assert_same(&csv, &place.show("first.pmf"));
}

#[test]
fn an_unlearned_task_has_never_been_there() {
    let place = Place::new();
    let parts = quarters(&place);
    for (memory, first) in [("ledger", "2011Q1"), ("compact", "2011Q2")] {
        // Only the first quarter has a storm: compact memory cannot tell what would be left of it.
        let gone = [first, "2011Q4", "2012Q4"];
        let others: Vec<_> =
            parts.iter().filter(|(n, _)| !gone.contains(&n.as_str())).cloned().collect();
        let made = format!("{MADE} --memory {memory}");
        place.ok(&format!("learn {memory}.pmf {} {made}", files(&parts)));
        for name in gone {
            let data =
                if memory == "compact" { format!("--data {name}.csv") } else { String::new() };
            place.ok(&format!("unlearn {memory}.pmf {name} {data}"));
        }
        place.ok(&format!("learn never-{memory}.pmf {} {made}", files(&others)));
        let (left, never) =
            (place.show(&format!("{memory}.pmf")), place.show(&format!("never-{memory}.pmf")));
        // A category that only the removed tasks had is still known by name, and counts for nothing.
        let mut known = left.clone();
        known.coef.retain(|key, _| never.coef.contains_key(key));
        let largest = left.coef.values().fold(0.0_f64, |m, v| m.max(v.abs()));
        for (key, value) in left.coef.iter().filter(|(key, _)| !never.coef.contains_key(*key)) {
            assert!(value.abs() <= 1e-8 * largest, "{memory}: {key:?} is {value}");
        }
        let gap = known.gap(&never);
        let bound = if memory == "ledger" { 1e-10 } else { 1e-8 };
        assert!(gap <= bound, "{memory}: {gap:e}");
        assert_eq!(left.names(), never.names());
        for (a, b) in
            left.tasks.as_array().unwrap().iter().zip(never.tasks.as_array().unwrap().iter())
        {
            for key in ["samples", "rank", "guaranteed"] {
                assert_eq!(a[key], b[key], "{memory}, {key} of {}", a["name"]);
            }
            if memory == "ledger" {
                for key in ["weight", "loss", "min_loss", "forgetting", "bound"] {
                    let (a, b) = (a[key].as_f64().unwrap(), b[key].as_f64().unwrap());
                    assert!((a - b).abs() <= 1e-8 * (1.0 + b.abs()), "{key}: {a} and {b}");
                }
            }
        }
        place.ok(&format!("verify {memory}.pmf"));
    }
}

#[test]
fn merged_halves_equal_the_whole() {
    let place = Place::new();
    let parts = quarters(&place);
    // The second half meets categories in another order, and has its columns in another order.
    let mut backwards: Vec<String> = Vec::new();
    for (name, part) in &parts[4..] {
        let mut part = part.without(&["quarter"]);
        part.rows.reverse();
        let mut columns: Vec<&str> = part.columns.iter().map(String::as_str).collect();
        columns.reverse();
        place.put(&format!("back-{name}.csv"), part.choose(&columns).csv());
        backwards.push(format!("back-{name}.csv"));
    }
    place.ok(&format!("learn whole.pmf {} {} {MADE}", files(&parts[..4]), backwards.join(" ")));
    place.ok(&format!("learn one.pmf {} {MADE}", files(&parts[..4])));
    place.ok(&format!("learn two.pmf {} {MADE}", backwards.join(" ")));
    place.ok("merge sum.pmf one.pmf two.pmf");
    place.ok("merge turned.pmf two.pmf one.pmf");
    let whole = place.show("whole.pmf");
    assert_same(&whole, &place.show("sum.pmf"));
    assert_same(&whole, &place.show("turned.pmf"));
    assert_eq!(whole.names(), place.show("sum.pmf").names());
    place.ok("verify sum.pmf");
    // A merged model goes on learning.
    place.ok("unlearn sum.pmf 2011Q2");
    place.ok("learn sum.pmf 2011Q2.csv");
    assert_same(&whole, &place.show("sum.pmf"));
    // Compact memories and classes merge as well.
    for (made, name) in
        [("--memory compact", "compact"), ("--loss gaussian --target weather", "classes")]
    {
        let made = if name == "classes" {
            format!("{made} --exclude split")
        } else {
            format!("{MADE} {made}")
        };
        place.ok(&format!("learn {name}-1.pmf {} {made}", files(&parts[..4])));
        place.ok(&format!("learn {name}-2.pmf {} {made}", backwards.join(" ")));
        let all = format!("{} {}", files(&parts[..4]), backwards.join(" "));
        place.ok(&format!("learn {name}.pmf {all} {made}"));
        place.ok(&format!("merge {name}-sum.pmf {name}-1.pmf {name}-2.pmf"));
        assert_same(&place.show(&format!("{name}.pmf")), &place.show(&format!("{name}-sum.pmf")));
    }
}

#[test]
fn a_preference_in_hindsight_equals_learning_with_it() {
    let place = Place::new();
    let parts = quarters(&place);
    let two = &parts[..2];
    let (a, b) = (&two[0].0, &two[1].0);
    place.ok(&format!("learn m.pmf {} {MADE}", files(two)));
    let before = place.show("m.pmf");
    place.ok(&format!("prefer m.pmf {a}=0.7 {b}=0.3"));
    let chosen = place.show("m.pmf");
    assert!(before.gap(&chosen) > 1e-4, "the preference changes something");
    place.ok(&format!("learn again.pmf {a}.csv {MADE} --prefer equal --weight 0.7"));
    place.ok(&format!("learn again.pmf {b}.csv --weight 0.3"));
    assert_same(&chosen, &place.show("again.pmf"));
    // All other preferences in hindsight equal theirs from the start.
    for (hindsight, start) in [("--equal", "equal"), ("--decay 0.5", "decay:0.5")] {
        place.ok(&format!("prefer m.pmf {hindsight}"));
        let model = start.replace(':', "-");
        place.ok(&format!("learn {model}.pmf {} {MADE} --prefer {start}", files(two)));
        assert_same(&place.show("m.pmf"), &place.show(&format!("{model}.pmf")));
    }
    // And back again.
    place.ok("prefer m.pmf --samples");
    assert_same(&before, &place.show("m.pmf"));
    // Another ridge likewise.
    place.ok("set m.pmf --ridge 0.5");
    place.ok(&format!("learn ridge.pmf {} {}", files(two), MADE.replace("0.01", "0.5")));
    assert_same(&place.show("m.pmf"), &place.show("ridge.pmf"));
}

/// What `show` says afterwards is within the budget, under the ridge the model then has; or the command fails with the least that is
/// possible, and the file is unchanged.
#[test]
fn budgets_are_kept_or_refused() {
    const MADE: &str = "--target rentals --exclude split";
    let place = Place::new();
    let parts = quarters(&place);
    let forgetting = |model: &str, task: usize| {
        place.json(&format!("show {model}"))["tasks"][task]["forgetting"].as_f64().unwrap()
    };
    for ridge in ["auto", "0", "0.1"] {
        place.ok(&format!("learn free.pmf {} {MADE} --ridge {ridge}", files(&parts)));
        let free = [forgetting("free.pmf", 0), forgetting("free.pmf", 5)];
        let mut refused = 0;
        for share in [0.5, 0.1, 0.01, 1e-3, 1e-14] {
            let budgets = [share * free[0], 2.0 * share * free[1]];
            let both = format!("{}={},{}={}", parts[0].0, budgets[0], parts[5].0, budgets[1]);
            for asked in [format!("{}={}", parts[0].0, budgets[0]), both] {
                let before = place.bytes("free.pmf");
                place.put("m.pmf", &before);
                let run = place.run(&format!("prefer m.pmf --budget {asked}"));
                if run.code == Some(0) {
                    for (task, budget) in [(0, budgets[0]), (5, budgets[1])] {
                        let kept = forgetting("m.pmf", task);
                        let named = asked.contains(parts[task].0.as_str());
                        assert!(
                            !named || kept <= budget * (1.0 + 1e-9),
                            "ridge {ridge}, {asked}: {kept} is above {budget}"
                        );
                    }
                    continue;
                }
                refused += 1;
                assert_eq!(run.code, Some(1), "{}", run.stderr);
                assert!(run.stderr.contains("budget cannot be met"), "{}", run.stderr);
                assert_eq!(place.bytes("m.pmf"), before, "ridge {ridge}, {asked}");
                if asked.contains(',') {
                    continue;
                }
                // The least that is possible is possible, and much less is not.
                let least = run.stderr.split("can lose is ").nth(1).unwrap();
                let least: f64 = least.split(',').next().unwrap().parse().unwrap();
                assert!(least > budgets[0], "{least} is allowed");
                place.ok(&format!("prefer m.pmf --budget {}={}", parts[0].0, 1.001 * least));
                assert!(forgetting("m.pmf", 0) <= 1.001 * least * (1.0 + 1e-9));
                place.put("m.pmf", &before);
                let less = format!("prefer m.pmf --budget {}={}", parts[0].0, 0.99 * least);
                assert_eq!(place.run(&less).code, Some(1), "{least}");
            }
        }
        // With a ridge a task loses something even where nothing else counts.
        assert!(refused > 0 || ridge == "0", "ridge {ridge}");
        std::fs::remove_file(place.path("free.pmf")).unwrap();
    }
    // Budgets are kept under the ridge the model has.
    place.ok(&format!("learn last.pmf {} {MADE}", files(&parts)));
    place.ok("set last.pmf --ridge 0.02");
    let budget = forgetting("last.pmf", 0) / 2.0;
    place.ok(&format!("prefer last.pmf --budget {}={budget}", parts[0].0));
    assert!(forgetting("last.pmf", 0) <= budget * (1.0 + 1e-9));
}

#[test]
fn later_categories_extend_the_model_exactly() {
    let place = Place::new();
    let table = bike().without(&["quarter"]);
    let first = table.filter("weather", |w| w == "clear").filter("hour", |h| h < "h12");
    let second = table.filter("weather", |w| w != "clear").filter("hour", |h| h < "h18");
    let third = table.filter("hour", |h| h >= "h18");
    let mut all = Table { columns: table.columns.clone(), rows: Vec::new() };
    for (i, part) in [first, second, third].iter().enumerate() {
        place.put(&format!("{i}.csv"), part.csv());
        all.rows.extend(part.rows.clone());
    }
    place.put("all.csv", all.csv());
    place.ok(&format!("learn all.pmf all.csv {MADE}"));
    for memory in ["ledger", "compact"] {
        let m = format!("{memory}.pmf");
        place.ok(&format!("learn {m} 0.csv {MADE} --memory {memory}"));
        let narrow = place.json(&format!("show {m}"))["features"].as_array().unwrap().len();
        place.ok(&format!("learn {m} 1.csv"));
        place.ok(&format!("learn {m} 2.csv"));
        let wide = place.json(&format!("show {m}"))["features"].as_array().unwrap().len();
        assert!(wide > narrow + 10, "{narrow} features, then {wide}");
        assert_same(&place.show("all.pmf"), &place.show(&m));
        place.ok(&format!("verify {m}"));
    }
}

/// Rows left out for missing values have never been there.
#[test]
fn dropped_rows_count_for_nothing() {
    let place = Place::new();
    let table = bike().without(&["quarter"]);
    let mut holes = table.clone();
    let mut whole = Table { columns: table.columns.clone(), rows: Vec::new() };
    for (i, row) in holes.rows.iter_mut().enumerate() {
        if i % 7 == 3 {
            // In a number, a category or the target.
            let column = ["temp", "weather", "rentals"][i % 3];
            let value = if column == "weather" { "" } else { ["", "NaN", "inf"][i % 2] };
            let at = table.at(column);
            value.clone_into(&mut row[at]);
        } else {
            whole.rows.push(row.clone());
        }
    }
    place.put("holes.csv", holes.csv());
    place.put("whole.csv", whole.csv());
    let some = "--target rentals --ridge 0.01 --basis spline:4 --features temp,hum";
    for made in [MADE, "--target weather --exclude split,hour", some] {
        let tag = made.len();
        place.ok(&format!("learn h{tag}.pmf holes.csv {made} --missing drop"));
        place.ok(&format!("learn w{tag}.pmf whole.csv {made}"));
        if made == some {
            // Holes in columns nobody asks for are none.
            let samples =
                |m: &str| place.json(&format!("show {m}{tag}.pmf"))["samples"].as_f64().unwrap();
            assert!(samples("h") > samples("w"));
        } else {
            assert_same(&place.show(&format!("w{tag}.pmf")), &place.show(&format!("h{tag}.pmf")));
        }
    }
}

/// Nor do their categories, where a basis or a loss has to know them all beforehand.
#[test]
fn dropped_rows_leave_no_category() {
    let place = Place::new();
    let table = bike().choose(&["weekday", "temp", "hum", "workingday", "rentals"]);
    let mut holes = table.clone();
    for (i, column) in ["temp", "rentals", "workingday"].iter().enumerate() {
        // Ahead of all others, so that its row would be among those a basis is fixed by.
        let mut row = table.rows[i].clone();
        format!("never-{column}").clone_into(&mut row[0]);
        row[table.at(column)].clear();
        holes.rows.insert(0, row);
    }
    place.put("holes.csv", holes.csv());
    place.put("whole.csv", table.csv());
    for (i, made) in [
        "--target rentals --ridge 0.01 --basis rff:16",
        "--target rentals --ridge 0.01 --basis rbf:9",
        "--target workingday --ridge 0.01 --loss logistic",
    ]
    .iter()
    .enumerate()
    {
        place.ok(&format!("learn h{i}.pmf holes.csv {made} --missing drop"));
        place.ok(&format!("learn w{i}.pmf whole.csv {made}"));
        assert_same(&place.show(&format!("w{i}.pmf")), &place.show(&format!("h{i}.pmf")));
    }
}

/// A category that is a number goes by its value, however a file writes it.
#[test]
fn numbers_as_categories_go_by_their_value() {
    let place = Place::new();
    let mut table = bike().choose(&["holiday", "workingday", "weekday", "temp", "rentals"]);
    place.put("a.csv", table.csv());
    place.put("a.parquet", table.parquet());
    let half = table.rows.len() / 2;
    for row in &mut table.rows[half..] {
        row[0].push_str(".0");
    }
    place.put("b.csv", table.csv());
    let made = "--target rentals --ridge 0.01 --as-category holiday,workingday";
    for basis in ["linear", "poly:2"] {
        let mut shown = Vec::new();
        for file in ["a.csv", "a.parquet", "b.csv"] {
            let model = format!("{file}-{}.pmf", &basis[..4]);
            place.ok(&format!("learn {model} {file} {made} --basis {basis}"));
            shown.push(place.show(&model));
        }
        assert_same(&shown[0], &shown[1]);
        assert_same(&shown[0], &shown[2]);
        // And a later file meets no new category.
        place.ok(&format!("learn a.csv-{}.pmf b.csv", &basis[..4]));
        assert_same(&shown[0], &place.show(&format!("a.csv-{}.pmf", &basis[..4])));
    }
    // Texts that merely look like numbers in a later file stay texts.
    place.put("zip.csv", "zip,y\n01234,1\nA1,2\n01234,3\n");
    place.put("later.csv", "zip,y\n01234,1\n01234,2\n");
    place.ok("learn zip.pmf zip.csv later.csv --target y");
    let features = place.json("show zip.pmf")["features"].clone();
    assert_eq!(features, serde_json::json!(["zip=01234", "zip=A1"]));
}

#[test]
fn threads_change_no_bit() {
    let place = Place::new();
    // Enough rows for many pieces.
    let mut table = Table::bike(1).without(&["quarter", "split"]);
    table.rows.extend(table.rows.clone());
    place.put("a.csv", table.csv());
    let made = "--target rentals";
    for loss in ["", "--basis rff:16", "--loss gaussian --target weather"] {
        let made = if loss.contains("target") { loss.to_owned() } else { format!("{made} {loss}") };
        let mut documents = Vec::new();
        for threads in [1, 2, 5] {
            let model = format!("{}-{threads}.pmf", loss.len());
            place.ok(&format!("learn {model} a.csv {made} --threads {threads}"));
            documents.push(place.ok(&format!("show {model} --json")));
        }
        assert_eq!(documents[0], documents[1], "{loss}");
        assert_eq!(documents[0], documents[2], "{loss}");
    }
}

#[test]
fn classes_are_learned_over_files() {
    let place = Place::new();
    let parts = quarters(&place);
    place.put("all.csv", bike().without(&["quarter"]).csv());
    let made = "--target weather --exclude split,hour";
    // By default text is classified with Gaussian classes.
    place.ok(&format!("learn whole.pmf all.csv {made}"));
    place.ok(&format!("learn parts.pmf {} {made} --loss gaussian", files(&parts)));
    assert_eq!(place.json("show parts.pmf")["loss"], "gaussian");
    assert_same(&place.show("whole.pmf"), &place.show("parts.pmf"));
    // Squared loss on indicators as well.
    let squared = format!("{made} --loss squared --ridge 0.01");
    place.ok(&format!("learn whole-s.pmf all.csv {squared}"));
    place.ok(&format!("learn parts-s.pmf {} {squared}", files(&parts)));
    assert_same(&place.show("whole-s.pmf"), &place.show("parts-s.pmf"));
    // Classes that appear later only.
    let table = bike().without(&["quarter"]);
    let first = table.filter("weather", |w| w == "clear");
    let second = table.filter("weather", |w| w != "clear");
    place.put("first.csv", first.csv());
    place.put("second.csv", second.csv());
    place.put("joined.csv", Table { rows: [first.rows, second.rows].concat(), ..table }.csv());
    place.ok(&format!("learn late.pmf first.csv {made}"));
    place.ok("learn late.pmf second.csv");
    place.ok(&format!("learn joined.pmf joined.csv {made}"));
    assert_same(&place.show("joined.pmf"), &place.show("late.pmf"));
    // Logistic: several files, bounds that are guaranteed, and a score near that of one file.
    let mut classes: Vec<&str> = parts.iter().flat_map(|(_, t)| t.texts("weather")).collect();
    classes.sort_unstable();
    classes.dedup();
    assert!(classes.len() >= 3);
    let classes = classes.join(",");
    let logistic = format!("{made} --loss logistic --classes {classes} --ridge 0.001");
    place.ok(&format!("learn whole-l.pmf all.csv {logistic}"));
    let score = |model: &str| place.json(&format!("score {model} all.csv"));
    let log_loss = |scores: &serde_json::Value| scores["log_loss"].as_f64().unwrap();
    for scheme in ["one-shot", "sequential"] {
        let model = format!("{scheme}.pmf");
        place.ok(&format!("learn {model} {} {logistic} --scheme {scheme}", files(&parts)));
        // No task has lost more than its bound.
        let tasks = place.show(&model).tasks;
        let scores = score(&model);
        for ((name, part), task) in parts.iter().zip(tasks.as_array().unwrap()) {
            place.put("one.csv", part.csv());
            let scored = place.json(&format!("score {model} one.csv"));
            let number = |key: &str| task[key].as_f64().unwrap();
            assert_eq!(task["guaranteed"], true);
            let lost = log_loss(&scored["overall"]) - number("min_loss");
            assert!(lost <= number("bound") + 1e-9, "{scheme}, {name}: {lost} lost; {task}");
        }
        if scheme == "sequential" {
            let whole = log_loss(&score("whole-l.pmf")["overall"]);
            let split = log_loss(&scores["overall"]);
            assert!(split < whole + 0.05, "{split} against {whole} at once");
        }
    }
}

#[test]
fn the_first_file_fixes_a_basis_for_all() {
    let place = Place::new();
    // The ranges of the first file are those of all rows, so that its basis is that of one file.
    let table = bike().without(&["quarter", "split"]);
    let half = table.rows.len() / 2;
    let numbers = ["temp", "atemp", "hum", "windspeed", "month_sin", "month_cos", "rentals"];
    let table = table.choose(&numbers);
    let part = |rows: &[Vec<String>]| Table { rows: rows.to_vec(), ..table.clone() }.csv();
    place.put("a.csv", part(&table.rows[..half]));
    place.put("b.csv", part(&table.rows[half..]));
    place.put("ab.csv", table.csv());
    for basis in
        ["spline:4", "rff:32", "rff:32,scale=range", "rff:32,gamma=0.5,seed=7", "poly:2", "rbf:10"]
    {
        let made = format!("--target rentals --ridge 0.001 --basis {basis}");
        // `b` alone cannot fix the basis: it is fixed by `a` in both.
        let tag = basis.replace([':', ',', '='], "-");
        place.ok(&format!("learn {tag}-1.pmf a.csv b.csv {made}"));
        place.ok(&format!("learn {tag}-2.pmf a.csv {made}"));
        place.ok(&format!("learn {tag}-2.pmf b.csv"));
        let (one, two) = (place.show(&format!("{tag}-1.pmf")), place.show(&format!("{tag}-2.pmf")));
        assert_same(&one, &two);
        assert!(one.coef.len() > 10, "{basis}");
        // Learning both together under the basis of the first: unlearn `b`, then add it twice as one task with `a`.
        place.ok(&format!("unlearn {tag}-1.pmf b"));
        place.ok(&format!("learn {tag}-1.pmf ab.csv"));
        place.ok(&format!("unlearn {tag}-1.pmf a"));
        assert_same(&two, &place.show(&format!("{tag}-1.pmf")));
    }
}

/// Numbers that every quarter has.
const INPUTS: &str = "temp,atemp,hum,windspeed,month_sin,month_cos,holiday,workingday";

/// Rows of a wide design are gathered over pieces and over files; few of them are kept as rows until they are added up.
#[test]
fn wide_bases_do_not_depend_on_pieces_tasks_or_memory() {
    let place = Place::new();
    let parts = quarters(&place);
    place.put("named.csv", bike().csv());
    place.put("whole.csv", bike().without(&["quarter"]).csv());
    // 434 rows each: fewer than half of the columns, and more.
    for basis in ["relu:1000,scale=none", "relu:600,scale=none"] {
        let wide = format!("--target rentals --features {INPUTS} --ridge 0.01 --basis {basis}");
        let compact = format!("{wide} --memory compact --accumulator gram");
        let name = |way: &str| format!("{way}-{}.pmf", &basis[5..8]);
        let learn = |way: &str, rest: &str| {
            place.ok(&format!("learn {} {rest}", name(way)));
            let shown = place.show(&name(way));
            place.ok(&format!("verify {}", name(way)));
            shown
        };
        let expected = learn("whole", &format!("whole.csv {wide} --accumulator qr"));
        let same = |way: &str, shown: &Shown| {
            let gap = expected.gap(shown);
            assert!(gap <= 1e-7, "{basis}, {way}: {gap:.3e}");
        };
        same("ledger", &learn("ledger", &format!("{} {wide}", files(&parts))));
        let at_once = learn("at-once", &format!("{} {compact}", files(&parts)));
        same("at once", &at_once);
        same("named", &learn("named", &format!("named.csv {compact} --task-column quarter")));
        place.ok(&format!("summarize named.csv {compact} --task-column quarter -o parts.pms"));
        same("shards", &learn("shards", "--summaries parts.pms"));
        // One file after the other, and a command for each.
        for (i, (file, _)) in parts.iter().enumerate() {
            let made = if i == 0 { &compact } else { "" };
            place.ok(&format!("learn {} {file}.csv {made}", name("later")));
        }
        let later = place.show(&name("later"));
        same("later", &later);
        let count = |shown: &Shown| -> f64 {
            let tasks = shown.tasks.as_array().unwrap();
            tasks.iter().map(|task| task["samples"].as_f64().unwrap()).sum()
        };
        for shown in [&later, &at_once] {
            assert!((count(shown) - bike().rows.len() as f64).abs() < 0.5);
        }
        // And single precision to its own digits.
        let mixed = learn(
            "mixed",
            &format!("{} {wide} --memory compact --accumulator mixed", files(&parts)),
        );
        assert!(expected.gap(&mixed) <= 0.05, "{basis}: {:.3e}", expected.gap(&mixed));
    }
}

/// Many pieces of one file, and threads.
#[test]
fn wide_bases_have_the_same_bits_on_any_number_of_threads() {
    let place = Place::new();
    let mut table = Table::bike(1).without(&["quarter", "split"]);
    table.rows.extend(table.rows.clone());
    place.put("a.csv", table.csv());
    let made = "--basis relu:600,scale=none --ridge 0.01 --memory compact --target rentals";
    let bits = |threads: usize| {
        let model = format!("{threads}.pmf");
        place.ok(&format!("learn {model} a.csv {made} --features {INPUTS} --threads {threads}"));
        place.ok(&format!("show {model} --json"))
    };
    let one = bits(1);
    assert_eq!(one, bits(2));
    assert_eq!(one, bits(5));
}

/// What is wrong with rows that wait is found before the first task of the command is learned.
#[test]
fn a_bad_row_of_a_wide_design_leaves_no_model() {
    let place = Place::new();
    let parts = quarters(&place);
    let good = parts[0].1.without(&["quarter"]);
    place.put("good.csv", good.csv());
    let wide = format!("--features {INPUTS} --basis relu:1000,scale=none --memory compact");
    let fixed = "--ridge 0.01";
    for (column, value, target) in [
        ("temp", "1e200", format!("rentals {fixed}")),
        ("rentals", "1e200", format!("rentals {fixed}")),
        ("temp", "nan", "rentals".to_owned()),
        ("temp", "", "rentals".to_owned()),
        ("weather", "hail", "weather --classes clear,mist,rain,storm".to_owned()),
    ] {
        let mut bad = good.clone();
        let at = bad.at(column);
        value.clone_into(&mut bad.rows[7][at]);
        place.put("bad.csv", bad.csv());
        let run = place.run(&format!("learn m.pmf good.csv bad.csv {wide} --target {target}"));
        assert_eq!(run.code, Some(1), "{column} {value}: {}", run.stderr);
        assert!(!place.path("m.pmf").exists(), "{column} {value}");
    }
}
