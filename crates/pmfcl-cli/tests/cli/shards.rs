//! Shards made apart and learned at one place: the model of one process, or a refusal that names the shard.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::program::{Draw, Place, Table, assert_same};

/// Numbers, text with a category that only the last shard has, a class, three tasks; 600 rows in six files and in one.
fn rows(place: &Place) -> Table {
    let mut draw = Draw(11);
    let mut all = Table::new(&["x", "z", "site", "month", "y", "grade"]);
    fs::create_dir(place.path("rows")).unwrap();
    for shard in 0..6 {
        let mut own = Table::new(&["x", "z", "site", "month", "y", "grade"]);
        for row in 0..100 {
            let (x, z) = (draw.unit() * 4.0 - 2.0, draw.unit());
            let site =
                if shard == 5 && row == 7 { "alone" } else { ["north", "south"][draw.below(2)] };
            let month = ["may", "june", "july"][(shard + row / 40) % 3];
            let y = 2.0 * x - z + f64::from(u8::from(site == "south")) + 0.1 * draw.unit();
            let grade = if y > 1.0 {
                "high"
            } else if y < -1.0 {
                "low"
            } else {
                "mid"
            };
            let cells = [
                x.to_string(),
                z.to_string(),
                site.into(),
                month.into(),
                y.to_string(),
                grade.into(),
            ];
            own.rows.push(cells.to_vec());
        }
        place.put(&format!("rows/{shard}.csv"), own.csv());
        all.rows.extend(own.rows);
    }
    place.put("all.csv", all.csv());
    all
}

const OPTIONS: [&str; 2] =
    ["--target y --exclude grade --ridge 0.01", "--target grade --exclude y --loss gaussian"];

fn shards(place: &Place, options: &str) {
    for shard in 0..6 {
        place.ok(&format!(
            "summarize rows/{shard}.csv --task-column month {options} -o {shard}.pms"
        ));
    }
}

#[test]
fn shards_give_the_model_of_one_process_in_any_order() {
    for options in OPTIONS {
        let place = Place::new();
        rows(&place);
        shards(&place, options);
        let learned = place.json("learn apart.pmf --summaries [0-9].pms");
        assert_eq!((learned["shards"].as_u64(), learned["tasks"].as_u64()), (Some(6), Some(3)));
        place.ok(&format!("learn whole.pmf all.csv --task-column month {options}"));
        let (apart, whole) = (place.show("apart.pmf"), place.show("whole.pmf"));
        assert_same(&apart, &whole);
        assert_eq!(apart.names(), whole.names());
        for (a, b) in apart.tasks.as_array().unwrap().iter().zip(whole.tasks.as_array().unwrap()) {
            assert_eq!(a["samples"], b["samples"]);
        }
        // However they are listed, the same shards give the same bits.
        place.ok("learn again.pmf --summaries 5.pms 3.pms 0.pms 1.pms 4.pms 2.pms");
        assert_eq!(place.show("again.pmf").coef, apart.coef);
        place.ok("verify apart.pmf");
    }
}

#[test]
fn probabilities_of_shards_are_measured_by_calibrate() {
    let place = Place::new();
    rows(&place);
    shards(&place, OPTIONS[1]);
    let run = place.run("learn apart.pmf --summaries [0-9].pms");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("pmfcl calibrate MODEL DATA --learned"), "{}", run.stderr);
    place.ok(&format!("learn whole.pmf all.csv --task-column month {}", OPTIONS[1]));
    for model in ["apart", "whole"] {
        place.ok(&format!("calibrate {model}.pmf all.csv --learned"));
    }
    // From the same rows at the same model the same temperature, and the same probabilities.
    let [a, b] = ["apart", "whole"].map(|model| {
        place.ok(&format!("predict {model}.pmf all.csv --proba -o {model}.csv"));
        let text = place.text(&format!("{model}.csv"));
        let cells = text.lines().skip(1).flat_map(|line| line.split(',').map(str::to_owned));
        cells.filter_map(|cell| cell.parse::<f64>().ok()).collect::<Vec<_>>()
    });
    assert_eq!(a.len(), b.len());
    assert!(a.len() >= 3 * 600);
    let gap = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(gap <= 1e-8, "{gap:e}");
}

#[test]
fn a_basis_that_needs_rows_is_fixed_once_by_a_recipe() {
    let place = Place::new();
    rows(&place);
    let options = "--target y --exclude grade,site --basis rbf:12 --ridge 0.001";
    place.ok(&format!("summarize all.csv --task-column month {options} --recipe -o recipe.pms"));
    for shard in 0..6 {
        place.ok(&format!(
            "summarize rows/{shard}.csv --task-column month --exclude grade,site --like recipe.pms -o {shard}.pms"
        ));
    }
    place.ok("learn apart.pmf --summaries [0-9].pms");
    place.ok(&format!("learn whole.pmf all.csv --task-column month {options}"));
    let gap = place.show("apart.pmf").gap(&place.show("whole.pmf"));
    assert!(gap <= 1e-7, "rbf columns are nearly dependent; {gap:e}");
    // Fixed by other rows: refused by name.
    place.ok(&format!("summarize rows/1.csv --task-column month {options} -o other.pms"));
    let run = place.run("learn mixed.pmf --summaries [0-9].pms other.pms");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("other.pms: its basis rbf:12"), "{}", run.stderr);
    assert!(run.stderr.contains("was fixed by other rows"), "{}", run.stderr);
    assert!(!place.path("mixed.pmf").exists());
}

#[test]
fn a_shard_is_learned_by_a_model_that_has_learned_since() {
    let place = Place::new();
    rows(&place);
    let options = "--target y --exclude grade,month --ridge 0.01";
    place.ok(&format!("learn m.pmf rows/0.csv --name first {options}"));
    place.ok("summarize rows/1.csv --name second --exclude grade,month --like m.pmf -o second.pms");
    // A category that the shard did not know when it was made.
    place.ok("learn m.pmf rows/5.csv --name third");
    place.ok("learn m.pmf --summaries second.pms");
    place.ok(&format!("learn whole.pmf rows/0.csv --name first {options}"));
    place.ok("learn whole.pmf rows/5.csv --name third");
    place.ok("learn whole.pmf rows/1.csv --name second");
    assert_same(&place.show("m.pmf"), &place.show("whole.pmf"));
    // Once more changes nothing, and says so.
    let before = place.bytes("m.pmf");
    let again = place.json("learn m.pmf --summaries second.pms");
    assert_eq!(again["repeated"], serde_json::json!(["second"]));
    assert_eq!(place.bytes("m.pmf"), before);
    // Other rows under the same name are refused.
    place.ok("summarize rows/2.csv --name second --exclude grade,month --like m.pmf -o two.pms");
    let run = place.run("learn m.pmf --summaries two.pms");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("second"), "{}", run.stderr);
    place.ok("summarize rows/2.csv --name fourth --exclude grade,month --like m.pmf -o four.pms");
    let dry = place.json("learn m.pmf --summaries four.pms --dry-run");
    assert_eq!(dry["would_learn"][0]["name"], "fourth");
    assert_eq!(place.bytes("m.pmf"), before);
}

#[test]
fn wrong_shards_are_refused_by_name_and_nothing_is_written() {
    let place = Place::new();
    rows(&place);
    shards(&place, OPTIONS[0]);
    let whole = place.bytes("1.pms");
    place.put("cut.pms", &whole[..whole.len() - 40]);
    place.put("none.pms", "rows,of,text\n");
    place.put("empty.pms", "");
    let mut changed = whole.clone();
    changed[200] ^= 1;
    place.put("changed.pms", changed);
    place.put("copy.pms", &whole);
    for (name, options) in [
        ("target", "--target x --exclude grade"),
        ("columns", "--target y --exclude grade,z --ridge 0.01"),
        ("basis", "--target y --exclude grade --basis poly:2 --ridge 0.01"),
        ("loss", OPTIONS[1]),
        ("ridge", "--target y --exclude grade --ridge 0.5"),
    ] {
        place.ok(&format!("summarize rows/2.csv --task-column month {options} -o {name}.pms"));
    }
    let all = "learn m.pmf --summaries 0.pms 1.pms";
    for (more, words) in [
        ("cut.pms", "cut.pms: the checksum does not match"),
        ("changed.pms", "changed.pms: the checksum does not match"),
        ("none.pms", "none.pms: this is no shard"),
        ("empty.pms", "empty.pms: this is no shard"),
        ("gone.pms", "gone.pms: there is no such shard"),
        ("copy.pms", "1.pms and copy.pms hold the same rows of the task"),
        ("target.pms", "target.pms: it was made for the target 'x', and the model predicts 'y'"),
        ("columns.pms", "columns.pms: it was made for other columns"),
        ("basis.pms", "basis.pms: it was made for the basis poly:2, and the model has linear"),
        ("loss.pms", "loss.pms: it was made for the target 'grade'"),
        ("ridge.pms", "ridge.pms: it was made with other settings than 0.pms"),
    ] {
        let run = place.run(&format!("{all} {more}"));
        assert_eq!(run.code, Some(1), "{more}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{more}: {}", run.stderr);
        assert!(!place.path("m.pmf").exists(), "{more}");
    }
    place.ok(all);
    // A ridge can be changed in hindsight, so a model that is there takes shards of any; other columns it does not.
    place.ok("summarize rows/2.csv --name more --exclude grade,month --like 0.pms -o more.pms");
    place.ok("set m.pmf --ridge 0.7");
    let before = place.bytes("m.pmf");
    let run = place.run("learn m.pmf --summaries basis.pms");
    assert!(run.stderr.contains("the model has linear"), "{}", run.stderr);
    assert_eq!(place.bytes("m.pmf"), before);
    place.ok("learn m.pmf --summaries more.pms");
    for (words, code, said) in [
        (
            "summarize rows/0.csv --target grade --exclude y --loss logistic -o l.pms",
            1,
            "several times",
        ),
        ("summarize rows/0.csv --target y -o l.csv", 2, ".pms"),
        ("summarize rows/0.csv --like m.pmf --ridge 1 -o l.pms", 1, "leave the settings out"),
        ("summarize rows/0.csv --like m.pmf --target x -o l.pms", 1, "leave --target out"),
        ("summarize rows/0.csv -o l.pms", 1, "--target"),
        ("summarize -o l.pms", 2, "required"),
        ("learn m.pmf", 2, "required"),
        ("learn m.pmf rows/0.csv --summaries 0.pms", 2, "cannot be used with"),
        ("learn n.pmf --summaries more.pms --basis rbf:5", 1, "--basis"),
    ] {
        let run = place.run(words);
        assert_eq!(run.code, Some(code), "{words}: {}", run.stderr);
        assert!(run.stderr.contains(said), "{words}: {}", run.stderr);
        assert!(!place.path("l.pms").exists(), "{words}");
    }
}

#[test]
fn a_finished_shard_is_recognised_and_anything_else_is_made_again() {
    let place = Place::new();
    rows(&place);
    let line = "summarize rows/0.csv --name q --target y --exclude grade,month -o q.pms";
    let kept = |place: &Place| place.json(line)["kept"].as_bool().unwrap();
    assert!(!kept(&place));
    let first = place.bytes("q.pms");
    let time = fs::metadata(place.path("q.pms")).unwrap().modified().unwrap();
    assert!(kept(&place));
    assert_eq!(fs::metadata(place.path("q.pms")).unwrap().modified().unwrap(), time);
    // A damaged shard, other rows and other options are no finished shard.
    place.put("q.pms", &first[..first.len() / 2]);
    assert!(!kept(&place));
    assert_eq!(place.bytes("q.pms"), first);
    let text = place.text("rows/0.csv");
    place.put("rows/0.csv", text.replacen("north", "south", 1));
    assert!(!kept(&place));
    place.put("rows/0.csv", &text);
    assert!(!place.json(&format!("{line} --ridge 3"))["kept"].as_bool().unwrap());
    // A file that is no shard is not replaced.
    place.put("q.pms", "my notes");
    let run = place.run(line);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("q.pms: there is a file that is no shard"), "{}", run.stderr);
    assert_eq!(place.text("q.pms"), "my notes");
}

#[test]
fn a_writer_that_is_killed_leaves_no_half_shard_and_two_writers_leave_one_whole() {
    let place = Place::new();
    rows(&place);
    let line = "summarize all.csv --name q --target y --exclude grade,month -o parts/q.pms";
    fs::create_dir(place.path("parts")).unwrap();
    let start = std::time::Instant::now();
    place.ok(line);
    let time = start.elapsed();
    let whole = place.bytes("parts/q.pms");
    let (mut draw, mut absent) = (Draw(3), 0);
    for _ in 0..40 {
        let _ = fs::remove_file(place.path("parts/q.pms"));
        let mut child =
            place.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs_f64(draw.unit() * 1.2 * time.as_secs_f64()));
        let _ = child.kill();
        child.wait().unwrap();
        match fs::read(place.path("parts/q.pms")) {
            Ok(found) => assert_eq!(found, whole),
            Err(_) => absent += 1,
        }
    }
    assert!(absent > 0, "no kill came in time");
    let _ = fs::remove_file(place.path("parts/q.pms"));
    let spawn = || place.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for mut writer in [spawn(), spawn(), spawn()] {
        assert!(writer.wait().unwrap().success());
    }
    assert_eq!(place.bytes("parts/q.pms"), whole);
    place.ok("learn m.pmf --summaries parts/*.pms");
}

/// The lines of the document, run as they stand.
#[test]
fn the_lines_for_parallel_and_xargs_in_the_document_work() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scale.md");
    let document = fs::read_to_string(document).unwrap();
    let line = |word: &str| {
        let found =
            document.lines().find(|line| line.contains(word) && line.contains("pmfcl summarize"));
        found.unwrap_or_else(|| panic!("docs/scale.md has no line with {word}")).to_owned()
    };
    let mut ways = vec![line("| xargs")];
    let there =
        Command::new("parallel").arg("--version").output().is_ok_and(|o| o.status.success());
    if there {
        ways.push(line("| parallel"));
    } else {
        eprintln!(
            "******** GNU parallel is not here: its line was NOT run, that of xargs was ********"
        );
    }
    let recipe = line("--recipe");
    let learn = document.lines().find(|line| line.starts_with("pmfcl learn sales.pmf --summaries"));
    let folder = Path::new(crate::PROGRAM).parent().unwrap().display().to_string();
    for way in ways {
        let place = Place::new();
        let all = rows(&place).without(&["grade"]);
        for (shard, part) in all.rows.chunks(100).enumerate() {
            let part = Table { columns: all.columns.clone(), rows: part.to_vec() };
            place.put(&format!("rows/{shard}.csv"), part.csv());
        }
        place.put("all.csv", all.csv());
        fs::create_dir(place.path("parts")).unwrap();
        for line in [&recipe, &way, learn.unwrap()] {
            let line = format!("PATH=\"{folder}:$PATH\"; export PATH; unset -f pmfcl; {line}");
            let run = place.shell(&line);
            assert_eq!(run.code, Some(0), "{line}\n{}", run.stderr);
        }
        assert_eq!(fs::read_dir(place.path("parts")).unwrap().count(), 6);
        place.ok("learn whole.pmf all.csv --task-column month --target y");
        assert_same(&place.show("sales.pmf"), &place.show("whole.pmf"));
    }
}
