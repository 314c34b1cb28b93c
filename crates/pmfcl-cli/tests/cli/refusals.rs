//! Bad input is refused with one message that says where and what, and the model stays as it was.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{Draw, Place, Run, Table};

/// A model `m.pmf` of two tasks `a` and `b`: numbers `x` and `z`, a text `k`, the target `y`.
pub(crate) fn made() -> Place {
    let place = Place::new();
    for (name, seed) in [("a", 1), ("b", 2)] {
        place.put(&format!("{name}.csv"), table(seed).csv());
    }
    place.ok("learn m.pmf a.csv b.csv --target y --ridge 0.01");
    place
}

pub(crate) fn table(seed: u64) -> Table {
    let mut draw = Draw(seed);
    let mut table = Table::new(&["x", "k", "z", "y"]);
    for _ in 0..40 {
        let (x, z) = (draw.unit(), draw.unit());
        let k = ["red", "green"][draw.below(2)];
        let y = 2.0 * x - z + if k == "red" { 0.5 } else { 0.0 } + 0.1 * draw.unit();
        table.rows.push(vec![x.to_string(), k.to_owned(), z.to_string(), y.to_string()]);
    }
    table
}

/// The table with another value in one cell.
pub(crate) fn with(row: usize, column: &str, value: &str) -> String {
    let mut table = table(3);
    let at = table.at(column);
    value.clone_into(&mut table.rows[row][at]);
    table.csv()
}

fn listing(place: &Place) -> BTreeSet<String> {
    let entries = fs::read_dir(place.path("")).unwrap();
    entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// What a refusal must be: one line, exit code 1, nothing on stdout; and it must tell all of `told`.
#[track_caller]
fn assert_refusal(run: &Run, words: &str, told: &[&str]) {
    assert_eq!(run.code, Some(1), "pmfcl {words}\n{}{}", run.stdout, run.stderr);
    assert_eq!(run.stdout, "", "pmfcl {words}");
    assert!(run.stderr.starts_with("error: "), "pmfcl {words}\n{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "pmfcl {words}\n{}", run.stderr);
    for part in told {
        assert!(run.stderr.contains(part), "pmfcl {words}: no `{part}` in\n{}", run.stderr);
    }
}

/// Runs a command that must be refused and must leave everything as it was.
#[track_caller]
fn refuse(place: &Place, words: &str, told: &[&str]) {
    let (before, files) = (fs::read(place.path("m.pmf")).ok(), listing(place));
    let run = place.run(words);
    assert_refusal(&run, words, told);
    assert!(before == fs::read(place.path("m.pmf")).ok(), "pmfcl {words}: the model changed");
    assert_eq!(files, listing(place), "pmfcl {words}");
}

#[test]
fn cells_that_are_no_values() {
    let place = made();
    for (value, told) in [
        ("", "missing or not finite"),
        ("NaN", "'NaN' is missing or not finite"),
        ("inf", "'inf' is missing or not finite"),
        ("-inf", "'-inf' is missing or not finite"),
        ("abc", "'abc' is not a number"),
        ("1.2.3", "'1.2.3' is not a number"),
    ] {
        for column in ["x", "y"] {
            place.put("bad.csv", with(6, column, value));
            let place_told = format!("column '{column}'");
            for command in ["learn m.pmf bad.csv", "score m.pmf bad.csv"] {
                refuse(&place, command, &["bad.csv", "row 7 (line 8)", &place_told, told]);
            }
            if value != "abc" && value != "1.2.3" {
                // Such rows can be left out.
                let scored = place.json("score m.pmf bad.csv --missing drop");
                assert_eq!(scored["overall"]["samples"].as_f64().unwrap() as usize, 39);
            }
        }
        place.put("bad.csv", with(6, "x", value));
        refuse(&place, "predict m.pmf bad.csv -o out.csv", &["row 7 (line 8)", "column 'x'"]);
    }
    place.put("bad.csv", with(0, "k", ""));
    refuse(&place, "learn m.pmf bad.csv", &["row 1 (line 2)", "column 'k'"]);
    place.put("holes.csv", with(6, "x", ""));
    place.ok("learn m.pmf holes.csv --missing drop");
    assert_eq!(place.json("show m.pmf")["tasks"][2]["samples"].as_f64().unwrap() as usize, 39);
}

/// The first of several faults is told, however many threads read; and rows are counted as the file has them.
/// A fault in the last file leaves the model as it was before the first, and makes no new model.
#[test]
fn a_command_is_all_or_nothing() {
    let place = made();
    place.put("c.csv", table(5).csv());
    place.put("bad.csv", with(30, "x", "oops"));
    refuse(&place, "learn m.pmf c.csv bad.csv", &["bad.csv", "row 31", "oops"]);
    refuse(&place, "learn new.pmf c.csv bad.csv --target y", &["bad.csv", "row 31", "oops"]);
    refuse(&place, "learn new.pmf c.csv bad.csv --target k --loss logistic", &["bad.csv", "oops"]);
    refuse(&place, "learn new.pmf c.csv bad.csv --target y --basis spline:4", &["bad.csv", "oops"]);
    place.ok("learn m.pmf c.csv");
}

#[test]
fn the_first_fault_is_told() {
    let place = made();
    let mut rows = table(3).rows;
    rows = rows.iter().cycle().take(120_000).cloned().collect();
    let big = |faults: &[(usize, &str, &str)]| {
        let mut table = Table { rows: rows.clone(), ..table(3) };
        for (row, column, value) in faults {
            let at = table.at(column);
            (*value).clone_into(&mut table.rows[*row][at]);
        }
        table.csv()
    };
    let late = (110_000, "x", "late");
    place.put("two.csv", big(&[(60_000, "z", "early"), late]));
    for threads in [1, 2, 5] {
        for command in
            ["learn m.pmf two.csv", "score m.pmf two.csv", "predict m.pmf two.csv -o p.csv"]
        {
            let told = ["row 60001 (line 60002)", "'z'", "'early'"];
            refuse(&place, &format!("{command} --threads {threads}"), &told);
        }
    }
    // Rows left out are counted all the same, and a category nobody knows is found behind them.
    place.put("three.csv", big(&[(10, "x", ""), (70_000, "z", "NaN"), (100_000, "k", "blue")]));
    for threads in [1, 3] {
        let told = ["row 100001", "'k'", "'blue'"];
        let words = format!("predict m.pmf three.csv --missing drop -o p.csv --threads {threads}");
        refuse(&place, &words, &told);
    }
    // A fault in the second file is told with that file.
    place.put("good.csv", table(5).csv());
    refuse(&place, "learn m.pmf good.csv two.csv --name both", &["two.csv", "row 60001"]);
}

#[test]
fn columns_that_do_not_fit() {
    let place = made();
    place.put("few.csv", table(3).without(&["z"]).csv());
    for command in ["learn", "predict", "score"] {
        refuse(
            &place,
            &format!("{command} m.pmf few.csv"),
            &["few.csv", "'z'", "there are: x, k, y"],
        );
    }
    place.put("untold.csv", table(3).without(&["y"]).csv());
    refuse(&place, "learn m.pmf untold.csv", &["untold.csv", "'y'"]);
    refuse(&place, "score m.pmf untold.csv", &["untold.csv", "'y'"]);
    let more = table(3).csv().replace("y\n", "y,w\n");
    let more: String = more
        .lines()
        .enumerate()
        .map(|(i, l)| if i == 0 { format!("{l}\n") } else { format!("{l},1\n") })
        .collect();
    place.put("more.csv", &more);
    refuse(&place, "learn m.pmf more.csv", &["more.csv", "'w'", "--exclude w"]);
    place.ok("predict m.pmf more.csv");
    place.ok("learn m.pmf more.csv --exclude w");
    // Other settings than the model was made with.
    place.put("c.csv", table(4).csv());
    for (flag, told) in [
        ("--target x", "--target y"),
        ("--basis poly:2", "--basis linear"),
        ("--ridge 0.5", "--ridge 0.01"),
        ("--memory compact", "--memory ledger"),
        ("--prefer equal", "--prefer samples"),
        ("--loss gaussian", "--loss squared"),
        ("--accumulator gram", "--accumulator auto"),
        ("--store f32", "--store f64"),
        ("--features x", "--features k,x,z"),
    ] {
        refuse(&place, &format!("learn m.pmf c.csv {flag}"), &["made with", told]);
    }
    // A number as category and the like are said at creation.
    for (words, told) in [
        ("learn n.pmf c.csv", "--target"),
        ("learn n.pmf c.csv --target nothing", "'nothing'"),
        ("learn n.pmf c.csv --target y --features x,nothing", "'nothing'"),
        ("learn n.pmf c.csv --target y --features x,y", "'y'"),
        ("learn n.pmf c.csv --target y --exclude nothing", "'nothing'"),
        ("learn n.pmf c.csv --target y --exclude x,k,z", "no column is left"),
        ("learn n.pmf c.csv --target y --task-column nothing", "'nothing'"),
        ("learn n.pmf c.csv --target y --classes p,q", "--classes"),
        ("learn n.pmf c.csv --target k,y --loss gaussian", "one target"),
    ] {
        refuse(&place, words, &[told]);
    }
}

#[test]
fn files_that_are_no_tables() {
    let place = made();
    let csv = table(3).csv();
    place.put("empty.csv", "");
    place.put("header.csv", "x,k,z,y\n");
    place.put("ragged.csv", format!("{csv}1,red\n"));
    place.put("wide.csv", format!("{csv}1,red,2,3,4\n"));
    place.put("quote.csv", format!("{csv}1,\"red,2,3\n"));
    let parquet = table(3).parquet();
    place.put("cut.parquet", &parquet[..parquet.len() / 2]);
    place.put("cut.arrow", &table(3).arrow()[..200]);
    place.put("cut.csv.gz", &table(3).gz()[..100]);
    place.put("text.parquet", &csv);
    place.put("table.xls", &csv);
    fs::create_dir(place.path("folder.csv")).unwrap();
    for (file, told) in [
        ("empty.csv", "is empty"),
        ("header.csv", "no rows"),
        ("ragged.csv", "row 41 (line 42)"),
        ("wide.csv", "row 41 (line 42)"),
        ("quote.csv", "row 41 (line 42)"),
        ("cut.parquet", "not a readable"),
        ("cut.arrow", "not a readable"),
        ("cut.csv.gz", "cut.csv.gz"),
        ("text.parquet", "not a readable"),
        ("table.xls", "unknown kind of file"),
        ("folder.csv", "is a folder"),
        ("nowhere.csv", "cannot be opened"),
    ] {
        refuse(&place, &format!("learn m.pmf {file}"), &[file, told]);
        refuse(&place, &format!("learn n.pmf {file} --target y"), &[file, told]);
        if file != "header.csv" {
            refuse(&place, &format!("predict m.pmf {file} -o out.csv"), &[file, told]);
        }
        let named: &[&str] = if file == "header.csv" { &["no rows"] } else { &[file] };
        refuse(&place, &format!("score m.pmf {file}"), named);
    }
    place.put("holes.csv", "x,k,z,y\n,red,1,2\n1,green,,2\n");
    refuse(&place, "learn m.pmf holes.csv --missing drop", &["no rows", "2 were dropped"]);
    // Dates and free text are asked about.
    let mut dated = table(5);
    dated.columns.push("day".to_owned());
    let mut free = table(5);
    free.columns.push("words".to_owned());
    free.rows = free.rows.iter().cycle().take(1100).cloned().collect();
    for (i, row) in dated.rows.iter_mut().enumerate() {
        row.push(format!("2024-01-{:02}", i % 28 + 1));
    }
    for (i, row) in free.rows.iter_mut().enumerate() {
        row.push(format!("text {i}"));
    }
    place.put("dated.csv", dated.csv());
    place.put("free.csv", free.csv());
    refuse(&place, "learn n.pmf dated.csv --target y", &["'day'", "--dates day"]);
    refuse(&place, "learn n.pmf free.csv --target y", &["'words'", "1000", "--exclude words"]);
    place.ok("learn dates.pmf dated.csv --target y --dates day");
    place.ok("learn words.pmf free.csv --target y --exclude words");
}

#[test]
fn models_that_are_none() {
    let place = made();
    place.put("c.csv", table(3).csv());
    fs::create_dir(place.path("folder")).unwrap();
    place.put("empty.pmf", "");
    place.put("text.pmf", "x,y\n1,2\n".repeat(200));
    let mut newer = place.bytes("m.pmf");
    newer[60..64].copy_from_slice(&7_u32.to_be_bytes());
    place.put("newer.pmf", &newer);
    let bytes = place.bytes("m.pmf");
    place.put("cut.pmf", &bytes[..bytes.len() / 2]);
    for (model, told) in [
        ("folder", "is a directory"),
        ("empty.pmf", "not a pmfcl model"),
        ("text.pmf", "not a pmfcl model"),
        ("newer.pmf", "newer pmfcl (file version 7"),
        ("cut.pmf", "damaged"),
        ("nowhere.pmf", "no such model"),
    ] {
        for words in [
            format!("show {model}"),
            format!("verify {model}"),
            format!("predict {model} c.csv"),
            format!("unlearn {model} a"),
            format!("prefer {model} --equal"),
            format!("merge n.pmf m.pmf {model}"),
            format!("export {model} -o n.onnx"),
            format!("report {model} -o n.html"),
            format!("learn {model} c.csv"),
        ] {
            let before = fs::read(place.path(model)).ok();
            refuse(
                &place,
                &words,
                &[model, if words == "learn nowhere.pmf c.csv" { "--target" } else { told }],
            );
            assert!(before == fs::read(place.path(model)).ok(), "{words}");
        }
    }
    refuse(&place, "learn no/such/n.pmf c.csv --target y", &["n.pmf", "no directory"]);
    refuse(&place, "learn folder c.csv --target y", &["is a directory"]);
    refuse(&place, "merge m.pmf m.pmf", &["m.pmf", "already"]);
    fs::create_dir(place.path("folder.csv")).unwrap();
    refuse(&place, "predict m.pmf c.csv -o folder.csv", &["folder.csv: cannot be written"]);
    refuse(&place, "report m.pmf -o no/such/r.html", &["r.html", "cannot be written"]);
}

#[cfg(unix)]
#[test]
fn no_permission() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = made();
    place.put("c.csv", table(3).csv());
    let mode = |name: &str, bits| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(bits)).unwrap();
    };
    mode("m.pmf", 0o000);
    if fs::File::open(place.path("m.pmf")).is_ok() {
        // The superuser may read and write everything.
        mode("m.pmf", 0o644);
        return;
    }
    for words in ["show m.pmf", "learn m.pmf c.csv"] {
        assert_refusal(&place.run(words), words, &["m.pmf", "no permission"]);
    }
    mode("m.pmf", 0o444);
    refuse(&place, "learn m.pmf c.csv", &["m.pmf", "no permission to write"]);
    place.ok("show m.pmf");
}

#[test]
fn a_changed_byte_is_found_wherever_it_is() {
    let place = made();
    let sound = place.bytes("m.pmf");
    place.ok("verify m.pmf");
    let mut draw = Draw(11);
    // The header byte by byte, then places all over the file, then its last bytes.
    let mut spots: Vec<usize> = (0..100).collect();
    spots.extend((0..150).map(|_| draw.below(sound.len())));
    spots.extend(sound.len() - 5..sound.len());
    let missed: Vec<usize> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|w| {
                let (spots, sound) = (&spots, &sound);
                let flips: Vec<u8> = spots.iter().map(|_| 1 << draw.below(8)).collect();
                scope.spawn(move || {
                    let place = Place::new();
                    let mut missed = Vec::new();
                    for (spot, flip) in spots.iter().zip(flips).skip(w).step_by(2) {
                        let mut bytes = sound.clone();
                        bytes[*spot] ^= flip;
                        place.put("d.pmf", &bytes);
                        let run = place.run("verify d.pmf");
                        if run.code == Some(0) {
                            missed.push(*spot);
                        } else {
                            assert_refusal(&run, &format!("verify d.pmf ({spot})"), &["d.pmf"]);
                        }
                        let _ = fs::remove_file(place.path("d.pmf-wal"));
                        let _ = fs::remove_file(place.path("d.pmf-shm"));
                    }
                    missed
                })
            })
            .collect();
        workers.into_iter().flat_map(|w| w.join().unwrap()).collect()
    });
    assert!(missed.is_empty(), "of {} bytes: {missed:?}", sound.len());
}

#[test]
fn tasks_and_weights_that_do_not_fit() {
    let place = made();
    for (words, told) in [
        ("unlearn m.pmf c", vec!["`c`", "`a`, `b`"]),
        ("front m.pmf a c", vec!["`c`"]),
        ("front m.pmf a a", vec!["`a`", "both sides"]),
        ("front m.pmf a", vec!["two tasks"]),
        ("prefer m.pmf a=0.5 c=0.5", vec!["`c`"]),
        ("prefer m.pmf a=0.5 b=0.2", vec!["sum to 1"]),
        ("prefer m.pmf a=0.5", vec!["sum to 1"]),
        ("prefer m.pmf a=1.5 b=-0.5", vec!["-0.5"]),
        ("prefer m.pmf a=much b=0.2", vec!["'much'"]),
        ("prefer m.pmf a", vec!["TASK=NUMBER"]),
        ("prefer m.pmf a=NaN b=1", vec!["NaN"]),
        ("prefer m.pmf", vec!["--samples"]),
        ("prefer m.pmf --decay 2", vec!["2"]),
        ("prefer m.pmf --budget c=0.1", vec!["`c`"]),
        ("prefer m.pmf --budget a=-1", vec!["-1"]),
        ("learn m.pmf a.csv", vec!["`a`"]),
        ("learn m.pmf c.csv --weight=-1", vec!["-1"]),
        ("learn m.pmf c.csv --weight NaN", vec!["NaN"]),
        ("predict m.pmf a.csv --interval 2", vec!["--interval"]),
        ("predict m.pmf a.csv --proba", vec!["--proba"]),
        ("predict m.pmf c.csv", vec!["cannot be opened"]),
    ] {
        if words.contains("--weight") {
            place.put("c.csv", table(3).csv());
        }
        refuse(&place, words, &told);
        let _ = fs::remove_file(place.path("c.csv"));
    }
    // A category nobody has learned.
    place.put("blue.csv", with(4, "k", "blue"));
    refuse(&place, "predict m.pmf blue.csv", &["row 5", "'k'", "'blue'"]);
    refuse(&place, "score m.pmf blue.csv", &["row 5", "'k'", "'blue'"]);
}

/// A name that is taken is told before anything is read or learned.
#[test]
fn names_that_are_taken_are_told_first() {
    let place = made();
    place.put("c.csv", table(3).csv());
    refuse(&place, "learn m.pmf c.csv a.csv", &["`a`"]);
    refuse(&place, "learn m.pmf c.csv ./c.csv", &["`c`"]);
    refuse(&place, "learn n.pmf c.csv ./c.csv --target y", &["`c`"]);
    // Also where a column names the tasks, and the taken one is not the first.
    place.put("named.csv", "x,k,z,y,t\n1,red,2,3,new\n2,green,2,1,a\n3,red,1,1,new\n");
    refuse(&place, "learn m.pmf named.csv --task-column t", &["`a`"]);
    let run = Run::from(place.command("learn m.pmf c.csv --name").arg("").output().unwrap());
    assert_refusal(&run, "learn m.pmf c.csv --name ''", &["--name"]);
}

#[test]
fn models_that_cannot_be_merged() {
    let place = made();
    place.put("c.csv", table(3).csv());
    for (i, (made, told)) in [
        ("--target y --ridge 0.01 --basis poly:2", "basis"),
        ("--target y --ridge 0.01 --no-intercept", "intercept"),
        ("--target x --ridge 0.01", "target"),
        ("--target k", "loss"),
        ("--target y --ridge 0.01 --exclude z", "'z'"),
        ("--target y --ridge 0.01 --as-category z", "'z'"),
        ("--target y --ridge 0.01 --memory compact", "memory"),
        ("--target y --ridge 0.5", "ridge"),
        ("--target y --ridge 0.01 --prefer equal", "prefer"),
    ]
    .iter()
    .enumerate()
    {
        place.ok(&format!("learn other{i}.pmf c.csv {made}"));
        let words = format!("merge n.pmf m.pmf other{i}.pmf");
        refuse(&place, &words, &["m.pmf", &format!("other{i}.pmf"), told]);
    }
    // Names that are there twice.
    place.ok("learn again.pmf a.csv --target y --ridge 0.01");
    refuse(&place, "merge n.pmf m.pmf again.pmf", &["again.pmf", "`a`", "--rename", "`again/a`"]);
    place.ok("merge n.pmf m.pmf again.pmf --rename");
    assert_eq!(place.show("n.pmf").names(), ["a", "b", "again/a"]);
    refuse(&place, "merge o.pmf m.pmf nowhere.pmf", &["nowhere.pmf", "no such model"]);
}

#[test]
fn a_class_logistic_loss_does_not_know() {
    let place = Place::new();
    let (first, second) = (table(1), {
        let mut table = table(2);
        let at = table.at("k");
        "blue".clone_into(&mut table.rows[6][at]);
        table
    });
    place.put("a.csv", first.csv());
    place.put("b.csv", second.csv());
    place.ok("learn m.pmf a.csv --target k --loss logistic");
    refuse(&place, "learn m.pmf b.csv", &["b.csv", "blue", "--classes"]);
    place.ok("learn n.pmf a.csv b.csv --target k --loss logistic --classes red,green,blue");
    place.ok("learn g.pmf a.csv b.csv --target k");
    refuse(&place, "predict m.pmf a.csv --interval 0.9", &["--proba"]);
}

/// `--data` names rows; a task must not go with some of them.
#[test]
fn rows_alone_do_not_remove_a_task() {
    let place = made();
    let mut part = table(1);
    part.rows.truncate(5);
    place.put("part.csv", part.csv());
    refuse(&place, "unlearn m.pmf a --data b.csv", &["`a`", "other rows"]);
    place.ok("unlearn m.pmf a --data part.csv");
    assert_eq!(place.show("m.pmf").names(), ["a", "b"]);
    let left = &place.json("show m.pmf")["tasks"][0]["samples"];
    assert!((left.as_f64().unwrap() - 35.0).abs() < 1e-9);
    // Rows that are gone already cannot be taken out again, and the others are all that is left.
    let mut rest = table(1);
    rest.rows.drain(..5);
    place.put("rest.csv", rest.csv());
    refuse(&place, "unlearn m.pmf a --data a.csv", &["`a`", "40 were given"]);
    place.ok("unlearn m.pmf a --data rest.csv");
    assert_eq!(place.show("m.pmf").names(), ["b"]);
    // Compact memory, which has merged its tasks, and where there is nothing to merge yet.
    for (files, left) in [("a.csv b.csv", vec!["b"]), ("a.csv", vec![])] {
        place.ok(&format!("learn c.pmf {files} --target y --memory compact --ridge 0.01"));
        if left.len() == 1 {
            let told = ["`a`", "40 samples", "5 were given"];
            refuse(&place, "unlearn c.pmf a --data part.csv", &told);
        }
        refuse(&place, "unlearn c.pmf a --data b.csv", &["`a`", "other rows"]);
        place.ok("verify c.pmf");
        place.ok("unlearn c.pmf a --data a.csv");
        let tasks = &place.json("show c.pmf")["tasks"];
        let names: Vec<&str> =
            tasks.as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert_eq!(names, left);
        fs::remove_file(place.path("c.pmf")).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_model_as_it_was() {
    let place = made();
    place.put("c.csv", table(3).csv());
    let sound = place.bytes("m.pmf");
    let room = sound.len() / 512;
    let (mut refused, mut done) = (0, 0);
    for blocks in
        [0, 1, 2, 3, 5, 8, room / 2, room - 2, room, room + 1, room + 2, room + 4, 4 * room]
    {
        place.put("m.pmf", &sound);
        let line = format!("trap '' XFSZ; ulimit -f {blocks}; pmfcl learn m.pmf c.csv");
        let run = place.shell(&line);
        if run.code == Some(0) {
            done += 1;
            assert_eq!(place.show("m.pmf").names(), ["a", "b", "c"]);
        } else {
            refused += 1;
            assert_refusal(&run, &line, &["m.pmf", "as it was"]);
            // There is room again: the first to open the file restores pages that a limit below its size left changed.
            place.ok("verify m.pmf");
            assert!(sound == place.bytes("m.pmf"), "{line}: the model changed");
            place.ok("learn m.pmf c.csv");
            assert_eq!(place.show("m.pmf").names(), ["a", "b", "c"]);
        }
        place.ok("verify m.pmf");
        assert!(!place.path("m.pmf-journal").exists(), "{line}");
    }
    assert!(refused >= 3 && done >= 1, "{refused} refused, {done} done");
    // Nothing new appears when there is no room for it.
    place.put("m.pmf", &sound);
    for command in [
        "learn n.pmf c.csv --target y",
        "merge n.pmf m.pmf",
        "report m.pmf -o n.html",
        "predict m.pmf c.csv -o n.csv",
        "prefer m.pmf --equal",
        "unlearn m.pmf a",
    ] {
        let files = listing(&place);
        let line = format!("trap '' XFSZ; ulimit -f 1; pmfcl {command}");
        let run = place.shell(&line);
        if command.starts_with("predict") && run.code == Some(0) {
            // Forty numbers may fit.
            fs::remove_file(place.path("n.csv")).unwrap();
        } else {
            assert_refusal(&run, &line, &[]);
        }
        assert_eq!(files, listing(&place), "{line}");
        assert!(sound == place.bytes("m.pmf"), "{line}: the model changed");
    }
}

#[test]
fn one_writer_at_a_time() {
    let place = made();
    place.put("c.csv", table(3).csv());
    // A writer that waits for its data holds the model.
    let mut slow = place
        .command("learn m.pmf - --name slow")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = slow.stdin.take().unwrap();
    let text = table(4).csv();
    let (head, rest) = text.split_at(text.len() / 2);
    pipe.write_all(head.as_bytes()).unwrap();
    // An unknown task is told until the writer has opened the model.
    let start = Instant::now();
    while !place.run("unlearn m.pmf nothing").stderr.contains("another process") {
        assert!(start.elapsed() < Duration::from_secs(20), "the writer does not start");
    }
    for words in ["learn m.pmf c.csv", "unlearn m.pmf a", "prefer m.pmf --equal"] {
        let start = Instant::now();
        refuse_beside(&place, words);
        assert!(start.elapsed() < Duration::from_secs(5), "{words}: told at once");
    }
    // Readers go on.
    for words in [
        "show m.pmf",
        "predict m.pmf c.csv",
        "score m.pmf c.csv",
        "verify m.pmf",
        "merge n.pmf m.pmf",
    ] {
        place.ok(words);
    }
    pipe.write_all(rest.as_bytes()).unwrap();
    drop(pipe);
    let run = Run::from(slow.wait_with_output().unwrap());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(place.show("m.pmf").names(), ["a", "b", "slow"]);
    place.ok("learn m.pmf c.csv");
    place.ok("verify m.pmf");
}

fn refuse_beside(place: &Place, words: &str) {
    let before = place.bytes("m.pmf");
    assert_refusal(&place.run(words), words, &["m.pmf", "another process"]);
    assert!(before == place.bytes("m.pmf"), "{words}");
}
