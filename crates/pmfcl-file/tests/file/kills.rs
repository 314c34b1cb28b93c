//! SIGKILL at any moment of everything that writes a model file: what was acknowledged is there, and the file is sound.
//!
//! The writer is this test program again, in a process of its own, which tells what it is about to write and that it has written it. A
//! kill costs the start of a process and a look at the file, some milliseconds. `PMFCL_KILLS` says how many of each kind; `make soak` sends
//! ten thousand in all.

#![allow(clippy::print_stdout, reason = "the processes talk, and the result is a table")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pmfcl::federated::{Rules, Update};
use pmfcl::{Rows, TaskRows};
use pmfcl_file::{Access, FileError, Model, ModelFile, Register, Replace, verify};
use pmfcl_oracle::Draw;

use crate::stateful::{D, Known, check, empty, learn, number, preference, rows, schema};

/// What is written over and over.
const KINDS: [&str; 7] = ["create", "learn", "unlearn", "prefer", "merge", "federated", "save"];
/// Tasks a model has before some are removed again.
const MOST_TASKS: usize = 10;
/// The line that says a change was written.
const WRITTEN: &str = "written";

/// A change of a model, as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Learn(u64),
    Unlearn(u64),
    Equal(bool),
    /// The file is removed, to be created again.
    Gone,
}

impl Change {
    fn word(self) -> String {
        match self {
            Self::Learn(seed) => format!("+{seed}"),
            Self::Unlearn(seed) => format!("-{seed}"),
            Self::Equal(equal) => format!("={equal}"),
            Self::Gone => "gone".to_owned(),
        }
    }

    fn parse(word: &str) -> Self {
        if word == "gone" {
            return Self::Gone;
        }
        let (kind, rest) = word.split_at(1);
        match kind {
            "+" => Self::Learn(rest.parse().unwrap()),
            "-" => Self::Unlearn(rest.parse().unwrap()),
            _ => Self::Equal(rest.parse().unwrap()),
        }
    }
}

/// The tasks of a file by the seeds of their rows; `None` where there is no file.
type State = Option<(BTreeSet<u64>, bool)>;

fn changed(state: &State, changes: &[Change]) -> State {
    let mut state = state.clone();
    for change in changes {
        let (tasks, equal) = state.get_or_insert_default();
        match change {
            Change::Learn(seed) => assert!(tasks.insert(*seed), "{seed} is there already"),
            Change::Unlearn(seed) => assert!(tasks.remove(seed), "{seed} is not there"),
            Change::Equal(on) => *equal = *on,
            Change::Gone => state = None,
        }
    }
    state
}

fn name(seed: u64) -> String {
    format!("t{seed}")
}

/// The seed in the name of a task, or of the step of a client.
fn seed(name: &str) -> u64 {
    name.trim_start_matches(['t', 'c', '/']).parse().unwrap()
}

/// What another process finds in the file: every summary is read, and the model is one fit of the tasks in it.
fn found(path: &Path) -> State {
    if !path.exists() {
        return None;
    }
    verify(path).expect("a sound file");
    let mut file = ModelFile::open(path, Access::Read).expect("a file that opens");
    file.load().expect("summaries that are read");
    let learner = &file.model().learner;
    let equal = learner.settings().prefer == preference(true);
    let known =
        Known { tasks: learner.names().map(|name| (name.to_owned(), seed(name))).collect(), equal };
    check(&known, file.model(), "after a kill");
    Some((known.tasks.into_iter().map(|(_, seed)| seed).collect(), equal))
}

/// The body of a writing process; in the list of tests it does nothing.
#[test]
#[ignore = "the process that is killed; the tests start it"]
fn writer() {
    let Ok(kind) = std::env::var("PMFCL_KILLED") else { return };
    let path = PathBuf::from(std::env::var("PMFCL_KILLED_FILE").unwrap());
    let mut draw = Draw::new(number("PMFCL_KILLED_SEED", 0));
    let next = number("PMFCL_KILLED_NEXT", 1);
    let stride = number("PMFCL_KILLED_STRIDE", 1);
    let mut fresh = (0..).map(|i| next + i * stride);
    match &*kind {
        "create" => create(&path, &mut fresh),
        "federated" => federate(&path, &mut fresh),
        "save" => save(&path, &mut draw, &mut fresh),
        #[cfg(feature = "private")]
        "spend" => spend(&path),
        kind => commit(kind, &path, &mut draw, &mut fresh, stride),
    }
}

/// Says what is about to be written, writes it, and says that it was.
fn report(
    changes: &[Change],
    write: impl FnOnce() -> Result<(), FileError>,
) -> Result<(), FileError> {
    let words: Vec<String> = changes.iter().map(|change| change.word()).collect();
    println!("\nwriting {}", words.join(" "));
    let done = write();
    match &done {
        Ok(()) => println!("{WRITTEN}"),
        Err(error) => println!("refused {error}"),
    }
    done
}

fn create(path: &Path, fresh: &mut impl Iterator<Item = u64>) {
    loop {
        let seed = fresh.next().unwrap();
        if path.exists() {
            report(&[Change::Gone], || {
                fs::remove_file(path).unwrap();
                Ok(())
            })
            .unwrap();
        }
        let mut learner = empty();
        learn(&mut learner, &name(seed), seed);
        let model = Model { schema: schema(), learner };
        report(&[Change::Learn(seed)], || ModelFile::create(path, &model).map(drop)).unwrap();
    }
}

/// What a kind of writer does next to tasks of its own.
fn plan(
    kind: &str,
    own: &[u64],
    equal: bool,
    fresh: &mut impl Iterator<Item = u64>,
) -> Vec<Change> {
    let mut take = |n: usize| fresh.by_ref().take(n).map(Change::Learn).collect::<Vec<_>>();
    match kind {
        "prefer" => vec![Change::Equal(!equal)],
        "unlearn" if own.len() > 1 => vec![Change::Unlearn(own[own.len() / 2])],
        "unlearn" => take(6),
        _ if own.len() >= MOST_TASKS => {
            own[1..].iter().map(|seed| Change::Unlearn(*seed)).collect()
        }
        "merge" => take(2),
        _ => take(1),
    }
}

fn apply(changes: &[Change], model: &mut Model, merged: bool) {
    let mut other = empty();
    for change in changes {
        match change {
            Change::Learn(seed) if merged => learn(&mut other, &name(*seed), *seed),
            Change::Learn(seed) => learn(&mut model.learner, &name(*seed), *seed),
            Change::Unlearn(seed) => model.learner.unlearn(&name(*seed)).unwrap(),
            Change::Equal(equal) => model.learner.prefer(preference(*equal)).unwrap(),
            Change::Gone => unreachable!(),
        }
    }
    if !other.records().is_empty() {
        other.prefer(model.learner.settings().prefer.clone()).unwrap();
        model.learner.merge(&other).unwrap();
    }
}

/// Opens the file, changes the model once or several times, and closes it. Of two writers each removes tasks of its own alone.
fn commit(
    kind: &str,
    path: &Path,
    draw: &mut Draw,
    fresh: &mut impl Iterator<Item = u64>,
    stride: u64,
) {
    let parity = number("PMFCL_KILLED_NEXT", 1) % stride;
    loop {
        let mut file = match ModelFile::open(path, Access::Write) {
            Ok(file) => file,
            Err(FileError::Locked(_)) => continue,
            Err(error) => panic!("{error}"),
        };
        file.load().unwrap();
        for _ in 0..=draw.below(3) {
            let learner = &file.model().learner;
            let own: Vec<u64> =
                learner.names().map(seed).filter(|seed| seed % stride == parity).collect();
            let equal = learner.settings().prefer == preference(true);
            let changes = plan(kind, &own, equal, fresh);
            apply(&changes, file.model_mut(), kind == "merge");
            report(&changes, || file.commit()).unwrap();
        }
        drop(file);
        if stride > 1 {
            // The other one has its turn.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A model in memory that is saved again and again, as from Python.
fn save(path: &Path, draw: &mut Draw, fresh: &mut impl Iterator<Item = u64>) {
    loop {
        let mut file = ModelFile::open(path, Access::Read).unwrap();
        file.load().unwrap();
        let (store, mut model) = file.into_parts();
        let mut version = store.version().clone();
        drop(store);
        for _ in 0..=draw.below(3) {
            let own: Vec<u64> = model.learner.names().map(seed).collect();
            let changes = plan("learn", &own, false, fresh);
            apply(&changes, &mut model, false);
            report(&changes, || {
                version = model.save(path, Replace::Known(&[version.clone()]))?;
                Ok(())
            })
            .unwrap();
        }
    }
}

/// What a ledger is opened with, and what each release of it costs.
#[cfg(feature = "private")]
const BUDGETS: [pmfcl::private::Budget; 2] = [
    pmfcl::private::Budget { epsilon: 100.0, delta: 1e-6 },
    pmfcl::private::Budget { epsilon: 0.01, delta: 1e-6 },
];

/// Spends what a ledger in the model file allows, opened anew now and then.
#[cfg(feature = "private")]
fn spend(path: &Path) {
    loop {
        let mut ledger = match pmfcl_file::Ledger::open(path, BUDGETS[0]) {
            Err(FileError::Locked(_)) => continue,
            opened => opened.unwrap(),
        };
        for _ in 0..3 {
            println!("\nwriting a release");
            match ledger.spend(BUDGETS[1], "a release") {
                Ok(_) => println!("{WRITTEN}"),
                // The other one has the lock: nothing was begun.
                Err(FileError::Locked(_)) => println!("busy"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A server of a federation; step `s` of its one client is the task `c/s`.
fn federate(path: &Path, fresh: &mut impl Iterator<Item = u64>) {
    let agreed = Model { schema: schema(), learner: empty() }.founded(None).unwrap();
    let agreement = agreed.agreement().unwrap();
    let mut register = Register::open(path, &agreed, Rules::default()).unwrap();
    loop {
        let held: Vec<u64> = register.server().updates().map(Update::step).collect();
        let changes = plan("learn", &held, false, fresh);
        for change in &changes {
            match change {
                Change::Learn(seed) => {
                    let (x, y) = rows(*seed);
                    let rows = TaskRows::new(Rows::new(&x, D).unwrap(), Rows::new(&y, 1).unwrap());
                    let update = Update::of_rows(&agreement, "c", *seed, rows).unwrap();
                    register.server_mut().accept(update).unwrap();
                }
                Change::Unlearn(seed) => assert!(register.server_mut().remove("c", *seed)),
                Change::Equal(_) | Change::Gone => unreachable!(),
            }
        }
        report(&changes, || register.commit().map(drop)).unwrap();
    }
}

/// A writing process, and what it has said so far.
struct Writer {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Writer {
    fn start(kind: &str, path: &Path, (seed, next, stride): (u64, u64, u64)) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kills::writer", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env("PMFCL_KILLED", kind)
            .env("PMFCL_KILLED_FILE", path)
            .env("PMFCL_KILLED_SEED", seed.to_string())
            .env("PMFCL_KILLED_NEXT", next.to_string())
            .env("PMFCL_KILLED_STRIDE", stride.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The next line, if it has come whole.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let whole = self.out.read_line(&mut line).unwrap() > 0 && line.ends_with('\n');
        whole.then(|| line.trim_end().to_owned())
    }

    /// Waits until it begins to write, and gives that line.
    fn begun(&mut self) -> String {
        loop {
            let line = self.line().expect("a writer that begins");
            if line.starts_with("writing ") {
                return line;
            }
        }
    }

    /// Kills it; everything it has said since, and whether the kill came in time.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let lines = std::iter::from_fn(|| self.line()).collect();
        let status = self.child.wait().unwrap();
        assert!(status.code().is_none(), "the writer ended by itself: {status}, {lines:?}");
        lines
    }
}

/// What was acknowledged, and what was begun after that.
fn said(
    state: &State,
    lines: impl IntoIterator<Item = String>,
) -> (State, Option<Vec<Change>>, usize) {
    let (mut state, mut begun, mut written) = (state.clone(), None, 0);
    for line in lines {
        if let Some(words) = line.strip_prefix("writing ") {
            begun = Some(words.split(' ').map(Change::parse).collect::<Vec<_>>());
        } else if line == WRITTEN {
            state = changed(&state, &begun.take().expect("begun before it was written"));
            written += 1;
        } else {
            assert!(!line.starts_with("refused"), "{line}");
        }
    }
    (state, begun, written)
}

/// What kills met.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    /// Within a change: the file was that of before, or that of after.
    before: usize,
    after: usize,
    written: usize,
}

impl Tally {
    fn print(&self, kind: &str) {
        let Self { kills, before, after, written } = self;
        println!(
            "{kind}: {kills} kills, {} within a change (file of before {before}, of after {after}), {written} changes acknowledged, none lost",
            before + after
        );
    }
}

fn first(kind: &str, path: &Path) -> State {
    match kind {
        "create" | "federated" => None,
        _ => {
            let mut learner = empty();
            learn(&mut learner, &name(0), 0);
            drop(ModelFile::create(path, &Model { schema: schema(), learner }).unwrap());
            Some((BTreeSet::from([0]), false))
        }
    }
}

/// Removes what a process that died has left of files it had not finished.
fn sweep(directory: &Path, path: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let other = entry.unwrap().path();
        let name = other.to_string_lossy().into_owned();
        if other != *path && name.contains(".draft") {
            fs::remove_file(other).unwrap();
        }
    }
}

fn kill_often(kind: &str, kills: usize) -> Tally {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.pmf");
    let mut state = first(kind, &path);
    let mut draw = Draw::new(kind.len() as u64);
    let mut tally = Tally::default();
    while tally.kills < kills {
        let next = 1 + 1000 * tally.kills as u64;
        let mut writer = Writer::start(kind, &path, (draw.below(1 << 20) as u64, next, 1));
        let line = writer.begun();
        std::thread::sleep(Duration::from_micros(draw.below(6000) as u64));
        let lines = writer.kill();
        let (known, begun, written) = said(&state, [line].into_iter().chain(lines));
        let here = found(&path);
        tally.kills += 1;
        tally.written += written;
        if here == known {
            tally.before += usize::from(begun.is_some());
        } else {
            let begun = begun
                .unwrap_or_else(|| panic!("{kind}: {known:?} was acknowledged, {here:?} is there"));
            assert_eq!(here, changed(&known, &begun), "{kind}: neither before nor after");
            tally.after += 1;
        }
        state = here;
        sweep(directory.path(), &path);
    }
    tally
}

fn kills() -> usize {
    number("PMFCL_KILLS", 12) as usize
}

#[test]
fn a_writer_killed_at_any_moment_has_kept_what_it_acknowledged() {
    for kind in KINDS {
        let tally = kill_often(kind, kills());
        tally.print(kind);
        // A dozen kills may all come before the first write where the machine is busy.
        assert!(tally.written > 0 || kills() < 100, "{kind}: nothing was ever written");
    }
}

/// Two processes learn and remove tasks of their own in one file, and both are killed.
#[test]
fn two_writers_at_once_killed_at_any_moment_have_kept_what_they_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.pmf");
    let mut state = first("learn", &path);
    let mut draw = Draw::new(3);
    let (mut tally, mut both) = (Tally::default(), 0);
    while tally.kills < kills() {
        let next = 2 + 1000 * tally.kills as u64;
        let kinds = [["learn", "unlearn"], ["merge", "learn"]][draw.below(2)];
        let mut writers = [0, 1].map(|i| {
            let of = (draw.below(1 << 20) as u64, next + i, 2);
            Writer::start(kinds[i as usize], &path, of)
        });
        // The lock is one process's at a time, so the other may not have begun.
        let line = writers[0].begun();
        std::thread::sleep(Duration::from_micros(draw.below(9000) as u64));
        let lines = writers.map(Writer::kill);
        let (known, begun, written) = said(&state, [line].into_iter().chain(lines[0].clone()));
        let (known, other, more) = said(&known, lines[1].clone());
        let here = found(&path);
        tally.kills += 2;
        tally.written += written + more;
        both += usize::from(written > 0 && more > 0);
        // Each may have died within a change of its own; they wrote one after the other, so both can be there.
        let open: Vec<Vec<Change>> = [begun, other].into_iter().flatten().collect();
        let mut possible = vec![known];
        for changes in &open {
            let more: Vec<State> = possible.iter().map(|state| changed(state, changes)).collect();
            possible.extend(more);
        }
        let at = possible.iter().position(|state| *state == here);
        let at = at.unwrap_or_else(|| panic!("{here:?} is none of {possible:?}"));
        tally.after += at.count_ones() as usize;
        tally.before += open.len() - at.count_ones() as usize;
        state = here;
    }
    tally.print("two writers");
    println!("two writers: both had written in {both} rounds");
}

/// One process learns and removes tasks, the other spends from the privacy ledger in the same file, and both are killed.
#[cfg(feature = "private")]
#[test]
fn a_ledger_in_a_model_that_is_learned_keeps_every_release() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.pmf");
    let mut state = first("learn", &path);
    let mut draw = Draw::new(5);
    let mut tally = Tally::default();
    let (mut released, mut acknowledged) = (0, 0);
    while tally.kills < kills() {
        let next = 2 + 1000 * tally.kills as u64;
        let kind = ["learn", "unlearn", "merge"][draw.below(3)];
        let of = |i: u64| (next + 7 * i, next + i, 2);
        let mut spends = Writer::start("spend", &path, of(1));
        let learns = Writer::start(kind, &path, of(0));
        let line = spends.begun();
        std::thread::sleep(Duration::from_micros(draw.below(9000) as u64));
        let (lines, other) = (spends.kill(), learns.kill());
        let spent = lines.iter().filter(|line| *line == WRITTEN).count();
        let busy = lines.iter().filter(|line| *line == "busy").count();
        let begun = [&line].into_iter().chain(&lines).filter(|l| l.starts_with("writing")).count();
        let begun = begun - busy;
        let (known, open, written) = said(&state, other);
        let here = found(&path);
        let ledger = pmfcl_file::Ledger::open(&path, BUDGETS[0]).unwrap();
        let there = ledger.releases().unwrap().len();
        assert!(
            (released + spent..=released + begun).contains(&there),
            "{there} releases are on file; {released} were, {spent} were acknowledged, {begun} begun"
        );
        let after = open.as_deref().map(|changes| changed(&known, changes));
        assert!(here == known || Some(&here) == after.as_ref(), "{here:?}: {known:?} or {after:?}");
        tally.kills += 2;
        tally.written += written + spent;
        acknowledged += spent;
        tally.before += begun - spent - (there - released - spent)
            + usize::from(open.is_some() && here == known);
        tally.after += there - released - spent + usize::from(here != known);
        (state, released) = (here, there);
    }
    tally.print("a ledger in a model");
    assert!(acknowledged > 0 || kills() < 100, "nothing was ever spent");
}
