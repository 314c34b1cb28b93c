//! Killed at any moment, the program has kept every task it said it had learned, and the model goes on from there.
//!
//! `PMFCL_KILLS` says how many kills (200 by default).

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{Draw, Place, Table, assert_same};

const TASKS: usize = 8;
const MADE: &str = "--target y --ridge 0.1";

fn kills() -> usize {
    std::env::var("PMFCL_KILLS").map_or(200, |n| n.parse().expect("PMFCL_KILLS is a number"))
}

fn name(task: usize) -> String {
    format!("t{task}")
}

/// Eight small task files; every other one brings a category of its own.
fn tables(place: &Place) {
    let mut draw = Draw(5);
    for task in 0..TASKS {
        let mut table = Table::new(&["x", "k", "y"]);
        for row in 0..6 {
            let k = if task % 2 == 1 && row == 3 { format!("own{task}") } else { "all".to_owned() };
            table.rows.push(vec![draw.unit().to_string(), k, draw.unit().to_string()]);
        }
        place.put(&format!("t{task}.csv"), table.csv());
    }
}

fn files(tasks: &[usize]) -> String {
    tasks.iter().map(|t| format!("t{t}.csv")).collect::<Vec<_>>().join(" ")
}

/// When a run is killed.
enum Moment {
    /// So long after its start.
    After(Duration),
    /// So long after it has said that so many tasks are learned.
    Told(usize, Duration),
}

/// Starts a command, kills it, and gives back the lines it had printed and whether the kill came in time.
fn kill(place: &Place, words: &str, moment: &Moment) -> (Vec<String>, bool) {
    let mut command = place.command(words);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut told = Vec::new();
    let mut line = String::new();
    let mut next = |told: &mut Vec<String>| {
        line.clear();
        // A line without its end is none: nobody could have relied on it.
        let whole = out.read_line(&mut line).unwrap() > 0 && line.ends_with('\n');
        if whole {
            told.push(line.trim_end().to_owned());
        }
        whole
    };
    match moment {
        Moment::After(delay) => std::thread::sleep(*delay),
        Moment::Told(count, delay) => {
            while told.len() < *count && next(&mut told) {}
            std::thread::sleep(*delay);
        }
    }
    let _ = child.kill();
    while next(&mut told) {}
    let status = child.wait().unwrap();
    (told, status.code().is_none())
}

fn acknowledged(told: &[String]) -> impl Iterator<Item = String> + '_ {
    told.iter()
        .filter_map(|l| l.strip_prefix("learned ")?.split_once(':').map(|(n, _)| n.to_owned()))
}

/// Runs the program to its end once, and gives the time it took.
fn timed(place: &Place, words: &str) -> Duration {
    let start = Instant::now();
    place.ok(words);
    start.elapsed()
}

/// What kills met.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    before_any: usize,
    /// Killed after a task was told and before the last one was.
    between: usize,
    after_all: usize,
    /// Tasks in the file that had not been told yet.
    untold: usize,
    models: usize,
}

#[test]
fn no_acknowledged_task_is_lost() {
    let wanted = kills();
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|seed| scope.spawn(move || learn_and_kill(seed, wanted.div_ceil(2))))
            .collect();
        workers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    println!("{tallies:?}");
    for tally in tallies {
        assert!(tally.between > tally.kills / 5, "kills come between commits: {tally:?}");
        assert!(tally.before_any > 0 && tally.models > 0, "{tally:?}");
    }
}

fn learn_and_kill(seed: u64, wanted: usize) -> Tally {
    let place = Place::new();
    tables(&place);
    let all: Vec<usize> = (0..TASKS).collect();
    let whole = timed(&place, &format!("learn whole.pmf {} {MADE}", files(&all)));
    let expected = place.show("whole.pmf");
    let (mut draw, mut tally) = (Draw(seed), Tally::default());
    let mut safe: BTreeSet<String> = BTreeSet::new();
    while tally.kills < wanted {
        let missing: Vec<usize> =
            all.iter().copied().filter(|t| !safe.contains(&name(*t))).collect();
        let share = missing.len() as f64 / TASKS as f64;
        // On a busy machine a commit takes so long that most tasks share one; what is aimed at then is the time after the first task,
        // which is committed alone.
        let few_between = tally.between <= tally.kills / 4;
        let moment = if few_between && missing.len() > 2 {
            Moment::Told(1, Duration::ZERO)
        } else if draw.below(2) == 0 {
            Moment::After(whole.mul_f64(draw.unit() * (0.2 + 0.8 * share)))
        } else {
            let count = draw.below(missing.len() + 1);
            Moment::Told(count, whole.mul_f64(draw.unit() / TASKS as f64))
        };
        let (told, killed) =
            kill(&place, &format!("learn m.pmf {} {MADE}", files(&missing)), &moment);
        let new: Vec<String> = acknowledged(&told).collect();
        if killed {
            tally.kills += 1;
            match new.len() {
                0 => tally.before_any += 1,
                n if n < missing.len() => tally.between += 1,
                _ => tally.after_all += 1,
            }
        }
        safe.extend(new);
        if !place.path("m.pmf").exists() {
            assert!(safe.is_empty(), "{safe:?} were learned, and there is no model");
            continue;
        }
        let verified = place.run("verify m.pmf");
        assert_eq!(verified.code, Some(0), "{}", verified.stderr);
        let shown = place.show("m.pmf");
        let names: BTreeSet<String> = shown.names().into_iter().collect();
        assert_eq!(names.len(), shown.names().len(), "every task once");
        assert!(names.is_superset(&safe), "{safe:?} were learned, {names:?} are in the model");
        tally.untold += names.len() - safe.len();
        safe = names;
        if safe.len() == TASKS {
            assert_same(&expected, &shown);
            fs::remove_file(place.path("m.pmf")).unwrap();
            safe.clear();
            tally.models += 1;
        }
    }
    tally
}

/// A change of the whole model is there or not, never half.
#[test]
fn other_changes_are_whole_or_not_there() {
    let place = Place::new();
    tables(&place);
    let all: Vec<usize> = (0..TASKS).collect();
    place.ok(&format!("learn m.pmf {} {MADE}", files(&all[..6])));
    place.ok(&format!("learn o.pmf {} {MADE}", files(&all[6..])));
    let sound = place.bytes("m.pmf");
    let expected = {
        place.ok(&format!("learn whole.pmf {} {MADE}", files(&all)));
        place.show("whole.pmf")
    };
    let unlearn = timed(&place, "unlearn m.pmf t3");
    place.put("m.pmf", &sound);
    let prefer = timed(&place, "prefer m.pmf --equal");
    place.put("m.pmf", &sound);
    let merge = timed(&place, "merge n.pmf m.pmf o.pmf");
    fs::remove_file(place.path("n.pmf")).unwrap();
    let mut draw = Draw(9);
    let rounds = kills() / 5;
    let mut changed = [0; 3];
    for _ in 0..rounds {
        let mut moment = |whole: Duration| {
            if draw.below(3) == 0 {
                Moment::Told(1, Duration::ZERO)
            } else {
                Moment::After(whole.mul_f64(draw.unit()))
            }
        };
        let (told, _) = kill(&place, "unlearn m.pmf t3", &moment(unlearn));
        place.ok("verify m.pmf");
        let names = place.show("m.pmf").names();
        match names.len() {
            6 => assert!(told.is_empty(), "{told:?}, and it is still there"),
            5 => assert!(!names.contains(&name(3))),
            n => panic!("{n} tasks"),
        }
        changed[0] += usize::from(names.len() == 5);
        place.put("m.pmf", &sound);

        let (told, _) = kill(&place, "prefer m.pmf --equal", &moment(prefer));
        place.ok("verify m.pmf");
        let preference = place.json("show m.pmf")["preference"].clone();
        assert!(preference == "equal" || (preference == "samples" && told.is_empty()));
        changed[1] += usize::from(preference == "equal");
        place.put("m.pmf", &sound);

        let (told, _) = kill(&place, "merge n.pmf m.pmf o.pmf", &moment(merge));
        if place.path("n.pmf").exists() {
            changed[2] += 1;
        } else {
            assert!(told.is_empty(), "{told:?}, and there is no model");
            place.ok("merge n.pmf m.pmf o.pmf");
        }
        place.ok("verify n.pmf");
        assert_same(&expected, &place.show("n.pmf"));
        fs::remove_file(place.path("n.pmf")).unwrap();
        assert!(sound == place.bytes("m.pmf"), "a merger reads only");
    }
    println!("of {rounds} kills each, so many came after the change: {changed:?}");
    assert!(changed.iter().all(|c| *c > 0 && *c <= rounds), "{changed:?}");
}
