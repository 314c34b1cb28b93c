//! Files of layout 1 open, predict the same bits, and become files of layout 2 by their first commit, whenever that is killed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use pmfcl::{Labels, Preference, Rows, TaskRows};
use pmfcl_file::{Access, Model, ModelFile, verify};

/// The generator the files were made with.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 11) as f64 / (1u64 << 53) as f64
    }
}

const D: usize = 3;

fn rows(seed: u64, n: usize) -> Vec<f64> {
    let mut draw = Draw(seed);
    let cell =
        |i: usize| (draw.next() * 4.0 - 2.0) * [1.0, 10.0, 0.1][i % D] + [0.0, 50.0, 0.0][i % D];
    (0..n * D).map(cell).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layout_1")
}

/// What each file predicted, by file and kind of output.
fn expected() -> BTreeMap<String, BTreeMap<String, String>> {
    let text = std::fs::read_to_string(folder().join("predictions.txt")).unwrap();
    let mut all: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap().to_owned();
        let (name, kind) = (word(), word());
        all.entry(name).or_default().insert(kind, word());
    }
    assert_eq!(all.len(), 18);
    all
}

fn hex(values: &[f64]) -> String {
    values.iter().map(|v| format!("{:016x}", v.to_bits())).collect::<Vec<_>>().join(" ")
}

/// What a model predicts for the eight rows, by kind of output.
fn predictions(model: &Model) -> BTreeMap<String, String> {
    let cells = rows(77, 8);
    let x = Rows::new(&cells, D).unwrap();
    let learner = &model.learner;
    let mut found = BTreeMap::new();
    if learner.problem().predicts_classes() {
        found.insert("scores".to_owned(), hex(&learner.scores(x).unwrap()));
        found.insert("probabilities".to_owned(), hex(&learner.probabilities(x).unwrap()));
        found.insert("classes".to_owned(), learner.classes().join(" "));
    } else {
        found.insert("values".to_owned(), hex(&learner.predict(x).unwrap()));
    }
    found
}

fn layout(path: &Path) -> i64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// Learns one more task; weights chosen by name come to an end first.
fn learn(model: &mut Model, name: &str) {
    let cells = rows(5, 20);
    let x = Rows::new(&cells, D).unwrap();
    let learner = &mut model.learner;
    if learner.problem().predicts_classes() {
        let labels: Vec<&str> = (0..20).map(|i| ["red", "10"][i % 2]).collect();
        learner.learn(name, TaskRows::new(x, &Labels::new(&labels)), 1.0).unwrap();
    } else {
        let targets = learner.solution().unwrap().theta.targets();
        let y: Vec<f64> = (0..20 * targets).map(|i| (i % 7) as f64).collect();
        let y = Rows::new(&y, targets).unwrap();
        learner.learn(name, TaskRows::new(x, y), 1.0).unwrap();
    }
}

/// A copy of a file.
fn copied(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(format!("{name}.pmf"));
    std::fs::copy(folder().join(format!("{name}.pmf")), &path).unwrap();
    path
}

fn verified(path: &Path) -> usize {
    verify(path).unwrap_or_else(|e| panic!("{e}")).tasks
}

#[test]
fn every_file_opens_and_predicts_the_same_bits() {
    let directory = tempfile::tempdir().unwrap();
    for (name, expected) in expected() {
        let path = copied(directory.path(), &name);
        let bytes = std::fs::read(&path).unwrap();
        verified(&path);
        let mut file = ModelFile::open(&path, Access::Read).unwrap();
        assert!(file.model().learner.is_solved());
        assert_eq!(predictions(file.model()), expected, "{name}");
        file.load().unwrap();
        file.model().learner.tasks().unwrap();
        drop(file);
        // Without a commit even a writer leaves the file alone.
        drop(ModelFile::open(&path, Access::Write).unwrap());
        assert!(std::fs::read(&path).unwrap() == bytes, "{name}: written without a commit");
        let whole = Model::from_bytes(&bytes).unwrap();
        assert_eq!((predictions(&whole), whole.learner.unloaded()), (expected, 0), "{name}");
    }
}

#[test]
fn the_first_commit_migrates_and_the_model_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    for (name, expected) in expected() {
        let path = copied(directory.path(), &name);
        let mut file = ModelFile::open(&path, Access::Write).unwrap();
        let tasks = file.model().learner.records().len();
        file.commit().unwrap();
        assert_eq!(predictions(file.model()), expected, "{name} after its commit");
        drop(file);
        assert_eq!((layout(&path), verified(&path)), (2, tasks));
        let mut file = ModelFile::open(&path, Access::Write).unwrap();
        assert!(file.model().learner.is_solved());
        assert_eq!(predictions(file.model()), expected, "{name} migrated");
        file.load().unwrap();
        let learned = learn_and_commit(&mut file);
        drop(file);
        assert_eq!(verified(&path), tasks + 1);
        let file = ModelFile::open(&path, Access::Read).unwrap();
        assert_eq!(predictions(file.model()), learned, "{name} with one more task");
    }
}

/// Learns one more task, and returns what is predicted then.
fn learn_and_commit(file: &mut ModelFile) -> BTreeMap<String, String> {
    if file.model().learner.settings().prefer.to_string() == "chosen" {
        file.model_mut().learner.prefer(Preference::Samples).unwrap();
    }
    learn(file.model_mut(), "one more");
    file.model().learner.solution().unwrap();
    file.commit().unwrap();
    predictions(file.model())
}

/// The same numbers, whether the task is learned before or after the migration, or by the bytes in memory.
#[test]
fn a_task_may_be_learned_by_the_commit_that_migrates() {
    let directory = tempfile::tempdir().unwrap();
    for name in expected().keys() {
        let path = copied(directory.path(), name);
        let mut file = ModelFile::open(&path, Access::Write).unwrap();
        file.load().unwrap();
        let learned = learn_and_commit(&mut file);
        let tasks = file.model().learner.records().len();
        drop(file);
        assert_eq!((layout(&path), verified(&path)), (2, tasks));
        let file = ModelFile::open(&path, Access::Read).unwrap();
        assert_eq!(predictions(file.model()), learned, "{name}");
    }
}

#[test]
fn a_task_may_be_unlearned_by_the_commit_that_migrates() {
    let directory = tempfile::tempdir().unwrap();
    for name in expected().keys() {
        let path = copied(directory.path(), name);
        let mut file = ModelFile::open(&path, Access::Write).unwrap();
        file.load().unwrap();
        let gone = file.model().learner.records()[0].name.clone();
        if file.model_mut().learner.unlearn(&gone).is_err() {
            // Compact memory has merged it, or later bounds depend on it.
            continue;
        }
        file.commit().unwrap();
        let (left, now) = (file.model().learner.records().len(), predictions(file.model()));
        drop(file);
        assert_eq!((layout(&path), verified(&path)), (2, left));
        let file = ModelFile::open(&path, Access::Read).unwrap();
        assert_eq!(predictions(file.model()), now, "{name}");
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(gone.len()).any(|w| w == gone.as_bytes()), "{name}: traces");
    }
}

/// The process that the next test starts and kills.
#[test]
#[ignore = "another test starts it as a process of its own"]
fn migrator() {
    let path = std::env::var_os("PMFCL_MIGRATE").expect("the other test sets PMFCL_MIGRATE");
    let mut file = ModelFile::open(Path::new(&path), Access::Write).unwrap();
    eprintln!("opened");
    match file.commit() {
        Ok(()) => eprintln!("committed"),
        Err(error) => eprintln!("failed: {error}"),
    }
    std::mem::forget(file);
}

struct Migrator {
    child: std::process::Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Migrator {
    /// Starts a process that migrates a file, and waits until it begins to.
    fn start(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "layout_1::migrator", "--nocapture"])
            .env("PMFCL_MIGRATE", path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut migrator = Self { child, lines };
        assert_eq!(migrator.line(), "opened");
        migrator
    }

    /// The next line; empty where the process has ended.
    fn line(&mut self) -> String {
        self.lines.next().and_then(Result::ok).unwrap_or_default()
    }
}

#[test]
fn a_migration_that_is_killed_leaves_a_sound_file_of_one_layout() {
    let directory = tempfile::tempdir().unwrap();
    let all = expected();
    let mut layouts = [0, 0];
    for name in ["squared-compact-held", "squared-ntk", "classes-logistic"] {
        let path = copied(directory.path(), name);
        let start = Instant::now();
        let mut first = Migrator::start(&path);
        let opened = start.elapsed();
        assert_eq!(first.line(), "committed");
        let whole = start.elapsed().saturating_sub(opened);
        first.child.wait().unwrap();
        let runs = 40;
        for run in 0..runs {
            let path = copied(directory.path(), name);
            let mut migrator = Migrator::start(&path);
            std::thread::sleep(whole.mul_f64(f64::from(run) / f64::from(runs)));
            migrator.child.kill().unwrap();
            migrator.child.wait().unwrap();
            assert_eq!(verified(&path), 3, "{name} killed at {run}/{runs}");
            let file = ModelFile::open(&path, Access::Read).unwrap();
            assert_eq!(predictions(file.model()), all[name], "{name} killed at {run}/{runs}");
            drop(file);
            layouts[usize::from(layout(&path) == 2)] += 1;
        }
    }
    assert!(layouts[0] >= 4, "only {} of 120 were killed before the commit was done", layouts[0]);
}

/// What a process says last that may write so many blocks of any file: at the first write beyond them it is killed, or is told,
/// so that its commit fails.
#[cfg(unix)]
fn migrate_within(path: &Path, blocks: u32, kill: bool) -> String {
    let told = if kill { "" } else { "trap '' XFSZ; " };
    let run = "exec \"$0\" --ignored --exact layout_1::migrator --nocapture";
    let output = Command::new("sh")
        .args(["-c", &format!("{told}ulimit -c 0; ulimit -f {blocks}; {run}")])
        .arg(std::env::current_exe().unwrap())
        .env("PMFCL_MIGRATE", path)
        .stdout(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(kill && !output.status.success(), kill && output.status.code().is_none());
    let text = String::from_utf8(output.stderr).unwrap();
    text.lines().last().unwrap_or_default().to_owned()
}

/// SQLite writes the journal from its beginning, then pages in their order, so that limits from nothing upwards end a migration at
/// each of its writes. Whoever opens the file next finds what was there, byte for byte.
#[cfg(unix)]
#[test]
fn a_migration_that_ends_at_any_write_leaves_the_file_of_layout_1() {
    let directory = tempfile::tempdir().unwrap();
    let mut ends = 0;
    for (name, expected) in expected() {
        let bytes = std::fs::read(folder().join(format!("{name}.pmf"))).unwrap();
        let tasks = verified(&copied(directory.path(), &name));
        for kill in [true, false] {
            for blocks in 0.. {
                let path = copied(directory.path(), &name);
                let said = migrate_within(&path, blocks, kill);
                let what = format!("{name} ends after {blocks} blocks: {said}");
                let done = said == "committed";
                assert!(
                    done || said == "opened" || (!kill && said.starts_with("failed: ")),
                    "{what}"
                );
                assert_eq!(
                    (verified(&path), layout(&path)),
                    (tasks, 1 + i64::from(done)),
                    "{what}"
                );
                let file = ModelFile::open(&path, Access::Read).unwrap();
                assert_eq!(predictions(file.model()), expected, "{what}");
                if done {
                    break;
                }
                assert!(std::fs::read(&path).unwrap() == bytes, "{what}");
                ends += 1;
            }
        }
    }
    assert!(ends > 400, "only {ends} ends");
}

/// A reader that does not end keeps the first commit from happening: the file stays as it is, byte for byte.
#[test]
fn a_migration_that_fails_changes_nothing_and_is_done_by_the_next_commit() {
    let directory = tempfile::tempdir().unwrap();
    let path = copied(directory.path(), "squared-rff");
    let bytes = std::fs::read(&path).unwrap();
    let mut file = ModelFile::open(&path, Access::Write).unwrap();
    let reading = rusqlite::Connection::open(&path).unwrap();
    reading.execute_batch("BEGIN; SELECT count(*) FROM task").unwrap();
    assert!(file.commit().is_err());
    drop(reading);
    assert!(std::fs::read(&path).unwrap() == bytes);
    verified(&path);
    learn(file.model_mut(), "one more");
    file.commit().unwrap();
    drop(file);
    assert_eq!((layout(&path), verified(&path)), (2, 4));
}
