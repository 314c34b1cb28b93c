//! Every operation on the file fails once, or it and all after it: nothing that was acknowledged is lost, the file is sound, and the
//! store works again.

#![allow(clippy::print_stdout, reason = "how many faults there were")]

use std::path::Path;

use pmfcl::federated::{Rules, Update};
use pmfcl::summary::Products;
use pmfcl::{Learner, Preference, Problem, Rows, Settings, TaskRows};
use pmfcl_faults::{Fault, fail, fail_allocation, heal, install, install_allocator};
use pmfcl_file::{
    Access, FileError, Model, ModelFile, Register, Replace, Result, Schema, Store, verify,
};
use pmfcl_oracle::Draw;

const D: usize = 3;

fn rows(seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut draw = Draw::new(seed);
    (draw.normals(9 * D), draw.normals(9))
}

fn learn(model: &mut Model, name: &str, seed: u64) {
    let (x, y) = rows(seed);
    let rows = TaskRows::new(Rows::new(&x, D).unwrap(), Rows::new(&y, 1).unwrap());
    model.learner.learn(name, rows, 1.0).unwrap();
}

fn empty() -> Model {
    let settings = Settings { threads: 1, ..Settings::default() };
    let learner = Learner::new(Problem::squared(), settings).unwrap();
    let schema = Schema::numbers(&["a", "b", "c"].map(String::from), &["y".to_owned()]);
    Model { schema, learner }
}

fn model(tasks: usize) -> Model {
    let mut model = empty();
    (0..tasks).for_each(|t| learn(&mut model, &format!("t{t}"), t as u64));
    model
}

/// What a file holds: tasks, their summaries, and parameters to the bit.
#[derive(Debug, Clone, PartialEq)]
struct Held {
    names: Vec<String>,
    summaries: Vec<Products>,
    theta: Vec<u64>,
}

fn held(model: &Model) -> Held {
    let learner = &model.learner;
    let numbers = |at: usize| learner.task_summary_at(at).expect("loaded").quadratic.products();
    let theta = learner.solution().map_or_else(
        |_| Vec::new(),
        |solution| solution.theta.cells().iter().map(|v| v.to_bits()).collect(),
    );
    Held {
        names: learner.names().map(str::to_owned).collect(),
        summaries: (0..learner.records().len()).map(numbers).collect(),
        theta,
    }
}

/// As another process finds it; `None` where there is no file.
fn found(path: &Path) -> Option<Held> {
    if !path.exists() {
        return None;
    }
    verify(path).expect("a sound file");
    let mut file = ModelFile::open(path, Access::Read).expect("a file that opens");
    file.load().expect("a file whose summaries are read");
    Some(held(file.model()))
}

/// A change that is made to a file, and made again after it has failed.
struct Change {
    name: &'static str,
    /// What is there before it.
    prepare: fn(&Path),
    /// Opens and changes; gives what is then to be acknowledged again and again.
    begin: fn(&Path) -> Result<Box<dyn Writer>>,
}

/// Something that can be committed until it works.
trait Writer {
    fn commit(&mut self) -> Result<()>;
}

impl Writer for ModelFile {
    fn commit(&mut self) -> Result<()> {
        ModelFile::commit(self)
    }
}

impl Writer for Register {
    fn commit(&mut self) -> Result<()> {
        Register::commit(self).map(|_| ())
    }
}

/// A model in memory that is saved.
struct Saved(Model, std::path::PathBuf);

impl Writer for Saved {
    fn commit(&mut self) -> Result<()> {
        self.0.save(&self.1, Replace::Any).map(|_| ())
    }
}

/// A model that is written to a new file.
struct Created(Model, std::path::PathBuf);

impl Writer for Created {
    fn commit(&mut self) -> Result<()> {
        match Store::create(&self.1, &self.0) {
            // It was created, and the failure came later.
            Ok(_) | Err(FileError::Exists(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn prepare(path: &Path) {
    drop(Store::create(path, &model(3)).unwrap());
}

fn agreed() -> Model {
    empty().founded(None).unwrap()
}

fn update(client: &str, step: u64) -> Update {
    let (x, y) = rows(step + 50);
    let rows = TaskRows::new(Rows::new(&x, D).unwrap(), Rows::new(&y, 1).unwrap());
    Update::of_rows(&agreed().agreement().unwrap(), client, step, rows).unwrap()
}

fn changes() -> [Change; 6] {
    [
        Change {
            name: "learn",
            prepare,
            begin: |path| {
                let mut file = ModelFile::open(path, Access::Write)?;
                learn(file.model_mut(), "new", 99);
                Ok(Box::new(file))
            },
        },
        Change {
            name: "unlearn",
            prepare,
            begin: |path| {
                let mut file = ModelFile::open(path, Access::Write)?;
                file.load()?;
                file.model_mut().learner.unlearn("t1").unwrap();
                Ok(Box::new(file))
            },
        },
        Change {
            name: "prefer",
            prepare,
            begin: |path| {
                let mut file = ModelFile::open(path, Access::Write)?;
                file.load()?;
                file.model_mut().learner.prefer(Preference::Equal).unwrap();
                file.model().learner.solution().unwrap();
                Ok(Box::new(file))
            },
        },
        Change {
            name: "federated commit",
            prepare: |path| {
                let mut register = Register::open(path, &agreed(), Rules::default()).unwrap();
                register.server_mut().accept(update("north", 0)).unwrap();
                register.commit().unwrap();
            },
            begin: |path| {
                let mut register = Register::open(path, &agreed(), Rules::default())?;
                register.server_mut().accept(update("north", 1)).unwrap();
                register.server_mut().accept(update("south", 0)).unwrap();
                register.set_nodes([("south".to_owned(), 12)].into());
                Ok(Box::new(register))
            },
        },
        Change {
            name: "save",
            prepare,
            begin: |path| Ok(Box::new(Saved(model(5), path.to_path_buf()))),
        },
        Change {
            name: "create",
            prepare: |_| (),
            begin: |path| Ok(Box::new(Created(model(2), path.to_path_buf()))),
        },
    ]
}

/// Runs a change with a fault at operation `k`; whether there were that many.
fn run(change: &Change, directory: &Path, k: u64, fault: Fault, fail: fn(u64, Fault)) -> bool {
    let path = directory.join(format!("{}-{fault:?}-{k}.pmf", change.name));
    (change.prepare)(&path);
    let before = found(&path);
    fail(k, fault);
    let mut writer = match (change.begin)(&path) {
        Ok(writer) => writer,
        Err(error) => {
            assert!(heal(), "{} {k}: {error}", change.name);
            assert_eq!(found(&path), before, "{} {k}: opening changed it", change.name);
            return true;
        }
    };
    let done = writer.commit();
    if fault == Fault::Lasting {
        // The process ends without a word.
        drop(writer);
        let hit = heal();
        let after = found(&path);
        match done {
            Ok(()) => assert_eq!(after, finished(change, directory), "{} {k}: lost", change.name),
            Err(error) => {
                let whole = after == before || after == finished(change, directory);
                assert!(whole, "{} {k}: neither before nor after, {error}", change.name);
            }
        }
        return hit;
    }
    let hit = heal();
    if let Err(error) = done {
        assert!(hit, "{} {k}: {error}", change.name);
        assert_eq!(found(&path), before, "{} {k}: {error}, and it was changed", change.name);
        writer.commit().unwrap_or_else(|e| panic!("{} {k}: again: {e}", change.name));
    }
    assert_eq!(found(&path), finished(change, directory), "{} {k}", change.name);
    // The store is still good for another commit, or says why it is not.
    writer.commit().unwrap_or_else(|e| panic!("{} {k}: a third time: {e}", change.name));
    drop(writer);
    assert_eq!(found(&path), finished(change, directory), "{} {k}", change.name);
    let left: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(&format!("{}-{fault:?}-{k}.", change.name)))
        .collect();
    assert_eq!(left.len(), 1, "{} {k}: left over: {left:?}", change.name);
    std::fs::remove_file(&path).unwrap();
    hit
}

/// What the change leads to where nothing fails.
fn finished(change: &Change, directory: &Path) -> Option<Held> {
    let path = directory.join(format!("{}-finished.pmf", change.name));
    if !path.exists() {
        (change.prepare)(&path);
        (change.begin)(&path).unwrap().commit().unwrap();
    }
    found(&path)
}

fn every_fault(fault: Fault, what: &str, fail: fn(u64, Fault), stride: u64) {
    for change in changes() {
        let directory = tempfile::tempdir().unwrap();
        let (mut k, mut faults) = (0, 0);
        while run(&change, directory.path(), k, fault, fail) {
            k += stride;
            faults += 1;
            assert!(k < 20_000, "{}: it never ends", change.name);
        }
        assert!(k > 10, "{}: {k} {what} only: the faults are not there", change.name);
        println!("{} ({fault:?}): {faults} faults of {what}", change.name);
    }
}

#[test]
fn an_operation_that_fails_once_loses_nothing_and_the_store_works_again() {
    install();
    every_fault(Fault::Once, "operations", fail, 1);
}

#[test]
fn a_process_that_dies_at_any_operation_leaves_a_sound_file() {
    install();
    every_fault(Fault::Lasting, "operations", fail, 1);
}

/// The allocator of SQLite is chosen before it is first used, so this test has a process of its own. There are six thousand allocations:
/// every nineteenth fails here, and every single one with `PMFCL_STRIDE=1`, as in `make soak`.
#[test]
fn an_allocation_that_fails_loses_nothing_and_the_store_works_again() {
    let done = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["faults::allocations", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env("PMFCL_ALLOCATIONS", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    println!("{said}");
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
    assert!(said.contains("faults of allocations"), "{said}");
}

#[test]
#[ignore = "the process of the test above"]
fn allocations() {
    if std::env::var_os("PMFCL_ALLOCATIONS").is_none() {
        return;
    }
    install_allocator();
    let stride = crate::stateful::number("PMFCL_STRIDE", 19);
    every_fault(Fault::Once, "allocations", fail_allocation, stride);
    every_fault(Fault::Lasting, "allocations", fail_allocation, stride);
}

#[cfg(unix)]
#[test]
fn model_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pmf");
    prepare(&path);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut file = ModelFile::open(&path, Access::Write).unwrap();
    file.load().unwrap();
    file.model_mut().learner.unlearn("t1").unwrap();
    file.commit().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
