//! A commit that failed is repeated, in a process of its own: killed at any moment, the file holds every task that was acknowledged.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use pmfcl::{Learner, Problem, Rows, Settings, TaskRows};
use pmfcl_file::{Access, FileError, Model, ModelFile, Schema, verify};
use pmfcl_oracle::Draw;
use rusqlite::Connection;

const D: usize = 3;
const TASKS: usize = 300;

fn learn(model: &mut Model, name: &str, seed: u64) {
    let mut draw = Draw::new(seed);
    let (x, y) = (draw.normals(5 * D), draw.normals(5));
    let rows = TaskRows::new(Rows::new(&x, D).unwrap(), Rows::new(&y, 1).unwrap());
    model.learner.learn(name, rows, 1.0).unwrap();
}

fn old_names() -> BTreeSet<String> {
    (0..TASKS).map(|t| format!("t{t}")).collect()
}

fn write_model(path: &Path) {
    let settings = Settings { threads: 1, ..Settings::default() };
    let learner = Learner::new(Problem::squared(), settings).unwrap();
    let schema = Schema::numbers(&["a", "b", "c"].map(String::from), &["y".to_owned()]);
    let mut model = Model { schema, learner };
    for t in 0..TASKS {
        learn(&mut model, &format!("t{t}"), t as u64);
    }
    drop(ModelFile::create(path, &model).unwrap());
}

/// Holds the shared lock, as a slow reader does.
fn reader(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    connection.query_row("SELECT count(*) FROM task", [], |row| row.get::<_, i64>(0)).unwrap();
    connection
}

fn report(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn wait() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

/// The process that the other tests start: learns a task, and commits until that has worked.
#[test]
#[ignore = "the other tests start it as a process of its own"]
fn writer() {
    let path = std::env::var_os("PMFCL_RETRY").expect("the other tests set PMFCL_RETRY");
    let mut file = ModelFile::open(Path::new(&path), Access::Write).unwrap();
    file.load().unwrap();
    // A task that is renamed twice has its old name, and the file is written anew all the same.
    for (name, new) in [("t0", "other"), ("other", "t0")] {
        file.model_mut().learner.rename(name, new).unwrap();
    }
    learn(file.model_mut(), "new", 1000);
    report("opened");
    for _ in 0..3 {
        wait();
        report("committing");
        match file.commit() {
            Ok(()) => {
                report("committed");
                break;
            }
            Err(error) => report(&format!("failed: {error}")),
        }
    }
    wait();
}

struct Writer {
    child: Child,
    orders: ChildStdin,
    lines: BufReader<std::process::ChildStderr>,
}

impl Writer {
    fn start(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "retry::writer", "--nocapture"])
            .env("PMFCL_RETRY", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, lines) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
        let mut writer = Self { child, orders, lines: BufReader::new(lines) };
        assert_eq!(writer.line(), "opened");
        writer
    }

    /// The next whole line; empty where the process has ended.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        if line.ends_with('\n') { line.trim_end().to_owned() } else { String::new() }
    }

    fn order_commit(&mut self) {
        writeln!(self.orders, "commit").unwrap();
        assert_eq!(self.line(), "committing");
    }

    /// A commit that a reader keeps from happening.
    fn fail(&mut self, path: &Path) -> String {
        let reading = reader(path);
        self.order_commit();
        let told = self.line();
        drop(reading);
        assert!(told.starts_with("failed: "), "{told}");
        told
    }
}

fn names(path: &Path) -> BTreeSet<String> {
    let file = ModelFile::open(path, Access::Read).unwrap();
    file.model().learner.names().map(str::to_owned).collect()
}

#[test]
fn a_repeated_commit_that_is_killed_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let template = directory.path().join("template.pmf");
    write_model(&template);
    // The reader is waited for; that many processes wait at the same time.
    let runs = 24;
    let copies: Vec<_> = (0..=runs)
        .map(|i| {
            let path = directory.path().join(format!("m{i}.pmf"));
            std::fs::copy(&template, &path).unwrap();
            path
        })
        .collect();
    let failed: Vec<(Writer, String)> = std::thread::scope(|scope| {
        let start = |path| {
            let mut writer = Writer::start(path);
            let told = writer.fail(path);
            (writer, told)
        };
        let waiting: Vec<_> = copies.iter().map(|path| scope.spawn(move || start(path))).collect();
        waiting.into_iter().map(|w| w.join().unwrap()).collect()
    });
    let mut failed = failed.into_iter();
    // The first is left alone, to know how long a commit takes.
    let (mut first, why) = failed.next().unwrap();
    let start = Instant::now();
    first.order_commit();
    let done = first.line();
    let whole = start.elapsed();
    drop(first.orders);
    first.child.wait().unwrap();
    let mut all = old_names();
    all.insert("new".to_owned());
    assert_eq!(names(&copies[0]), all);
    verify(&copies[0]).unwrap();
    let mut interrupted = 0;
    for (i, ((mut writer, _), path)) in failed.zip(&copies[1..]).enumerate() {
        writer.order_commit();
        std::thread::sleep(whole.mul_f64(i as f64 / f64::from(runs)));
        writer.child.kill().unwrap();
        let acknowledged = writer.line() == "committed";
        writer.child.wait().unwrap();
        interrupted += usize::from(!acknowledged);
        let found = verify(path).unwrap_or_else(|e| panic!("killed at {i}/{runs}: {e}"));
        let names = names(path);
        assert_eq!(found.tasks, names.len());
        assert!(names.is_superset(&old_names()), "killed at {i}/{runs}: {} left", names.len());
        assert!(!acknowledged || names == all, "killed at {i}/{runs}: `new` was acknowledged");
    }
    assert!(
        interrupted >= 4,
        "only {interrupted} of {runs} were killed before the commit was done"
    );
    assert!(why.contains("reading") && why.contains("no longer locked"), "{why}");
    assert_eq!(done, "committed");
}

#[test]
fn a_repeated_commit_does_not_overwrite_what_others_wrote_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.pmf");
    write_model(&path);
    let mut writer = Writer::start(&path);
    writer.fail(&path);
    // The failed commit has given up the lock.
    let mut other = ModelFile::open(&path, Access::Write).unwrap();
    other.load().unwrap();
    other.model_mut().learner.unlearn("t7").unwrap();
    learn(other.model_mut(), "other", 7);
    other.commit().unwrap();
    drop(other);
    let expected = names(&path);
    for _ in 0..2 {
        writer.order_commit();
        let told = writer.line();
        assert!(told.contains("learned `other`; unlearned `t7`"), "{told}");
        assert!(told.contains("nothing was written"), "{told}");
    }
    drop(writer.orders);
    writer.child.wait().unwrap();
    assert_eq!(names(&path), expected);
    verify(&path).unwrap();
}

/// The second task must not be written without the first, whose commit failed.
#[test]
fn what_a_failed_commit_did_not_write_is_written_by_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.pmf");
    write_model(&path);
    let mut file = ModelFile::open(&path, Access::Write).unwrap();
    let reading = reader(&path);
    learn(file.model_mut(), "first", 1);
    let told = file.commit().unwrap_err();
    assert!(told.to_string().contains("reading"), "{told}");
    drop(reading);
    learn(file.model_mut(), "second", 2);
    file.commit().unwrap();
    drop(file);
    let mut expected = old_names();
    expected.extend(["first".to_owned(), "second".to_owned()]);
    assert_eq!(names(&path), expected);
    verify(&path).unwrap();
}

/// A preference is a smaller change than the removal whose commit failed before it.
#[test]
fn a_removal_that_failed_is_done_by_the_next_commit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.pmf");
    write_model(&path);
    let mut file = ModelFile::open(&path, Access::Write).unwrap();
    file.load().unwrap();
    let reading = reader(&path);
    file.model_mut().learner.unlearn("t0").unwrap();
    assert!(file.commit().is_err());
    drop(reading);
    file.model_mut().learner.prefer(pmfcl::Preference::Equal).unwrap();
    file.commit().unwrap();
    drop(file);
    let mut expected = old_names();
    expected.remove("t0");
    assert_eq!(names(&path), expected);
    verify(&path).unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_that_was_replaced_is_not_written_to() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("m.pmf"), directory.path().join("o.pmf"));
    write_model(&path);
    std::fs::copy(&path, &other).unwrap();
    let mut file = ModelFile::open(&path, Access::Write).unwrap();
    learn(file.model_mut(), "new", 1);
    std::fs::rename(&other, &path).unwrap();
    let told = file.commit().unwrap_err();
    assert!(told.to_string().contains("replaced"), "{told}");
    drop(file);
    assert_eq!(names(&path), old_names());
    verify(&path).unwrap();
    let mut file = ModelFile::open(&path, Access::Write).unwrap();
    std::fs::remove_file(&path).unwrap();
    learn(file.model_mut(), "new", 1);
    assert!(file.commit().is_err());
    assert!(matches!(ModelFile::open(&path, Access::Read), Err(FileError::NotFound(_))));
}
