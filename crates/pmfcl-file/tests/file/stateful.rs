//! Random sequences of everything two writers can do to a model file, against one fit of the tasks that were acknowledged.
//!
//! One writer keeps the file open, the other has its model in memory and saves it, as Python does. Commits fail now and then, and
//! the first writer is killed at any operation. `PMFCL_STEPS` and `PMFCL_SEED` choose how long and which, `PMFCL_WORLDS` among how many
//! files the steps are divided (a writer that is locked out waits); `make soak` runs a million steps.

#![allow(clippy::print_stdout, reason = "how far a long run is")]

use std::path::{Path, PathBuf};

use pmfcl::{Learner, Preference, Problem, Ridge, Rows, Settings, TaskRows};
use pmfcl_faults::{Fault, fail, heal, install};
use pmfcl_file::{Access, FileError, Model, ModelFile, Replace, Schema, Version, verify};
use pmfcl_oracle::Draw;

pub(crate) const D: usize = 2;
/// Tasks a model has before some are removed again.
const MOST_TASKS: usize = 12;

/// What a model is known to be made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    /// Names, and the seeds of their rows.
    pub(crate) tasks: Vec<(String, u64)>,
    pub(crate) equal: bool,
}

pub(crate) fn rows(seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut draw = Draw::new(seed);
    let x = draw.normals((4 + seed as usize % 5) * D);
    let y = x.chunks_exact(D).map(|r| r[0] - 2.0 * r[1] + 0.1 * draw.normal()).collect();
    (x, y)
}

pub(crate) fn learn(learner: &mut Learner, name: &str, seed: u64) {
    let (x, y) = rows(seed);
    let rows = TaskRows::new(Rows::new(&x, D).unwrap(), Rows::new(&y, 1).unwrap());
    learner.learn(name, rows, 1.0).unwrap();
}

pub(crate) fn empty() -> Learner {
    let settings = Settings { threads: 1, ridge: Ridge::Fixed(1e-3), ..Settings::default() };
    Learner::new(Problem::squared(), settings).unwrap()
}

pub(crate) fn schema() -> Schema {
    Schema::numbers(&["a", "b"].map(String::from), &["y".to_owned()])
}

pub(crate) fn preference(equal: bool) -> Preference {
    if equal { Preference::Equal } else { Preference::Samples }
}

fn outputs(learner: &Learner) -> Vec<f64> {
    let x = [0.3, -1.0, 2.0, 0.5, -0.7, 1.1];
    learner.predict(Rows::new(&x, D).unwrap()).unwrap()
}

/// The oracle: the tasks learned from their rows, in a learner that nothing has ever happened to.
pub(crate) fn check(known: &Known, model: &Model, what: &str) {
    let names: Vec<&str> = model.learner.names().collect();
    let expected: Vec<&str> = known.tasks.iter().map(|(name, _)| &**name).collect();
    let (mut a, mut b) = (names.clone(), expected.clone());
    a.sort_unstable();
    b.sort_unstable();
    assert_eq!(a, b, "{what}");
    if known.tasks.is_empty() {
        return;
    }
    let mut joint = empty();
    known.tasks.iter().for_each(|(name, seed)| learn(&mut joint, name, *seed));
    joint.prefer(preference(known.equal)).unwrap();
    for (found, expected) in outputs(&model.learner).iter().zip(outputs(&joint)) {
        let gap = (found - expected).abs();
        assert!(gap <= 1e-9 * (1.0 + expected.abs()), "{what}: {found} is not {expected}");
    }
}

/// The first writer: the file open, its lock held.
struct Open {
    file: ModelFile,
    known: Known,
    /// Whether a commit has failed since, so that the lock is gone and others may have written.
    unlocked: bool,
}

/// The second: a model in memory and where it comes from.
struct Loose {
    model: Model,
    known: Known,
    version: Version,
}

struct World {
    path: PathBuf,
    draw: Draw,
    next: u64,
    acknowledged: Known,
    open: Option<Open>,
    loose: Option<Loose>,
    /// Releases that the privacy ledger in the file holds.
    #[cfg(feature = "private")]
    released: u64,
    counts: std::collections::BTreeMap<&'static str, usize>,
}

impl World {
    fn new(path: &Path, seed: u64) -> Self {
        let mut learner = empty();
        learn(&mut learner, "first", 0);
        let model = Model { schema: schema(), learner };
        drop(ModelFile::create(path, &model).unwrap());
        Self {
            path: path.to_path_buf(),
            draw: Draw::new(seed),
            next: 1,
            acknowledged: Known { tasks: vec![("first".to_owned(), 0)], equal: false },
            open: None,
            loose: None,
            #[cfg(feature = "private")]
            released: 0,
            counts: std::collections::BTreeMap::new(),
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.draw.below(n)
    }

    fn fresh(&mut self) -> (String, u64) {
        let seed = self.next;
        self.next += 1;
        (format!("t{seed}"), seed)
    }

    /// What is in the file, as another process finds it.
    fn look(&mut self, what: &str) {
        let mut file = ModelFile::open(&self.path, Access::Read).unwrap();
        file.load().unwrap();
        check(&self.acknowledged, file.model(), what);
        #[cfg(feature = "private")]
        assert_eq!(self.releases(), self.released, "{what}");
    }

    /// What another process finds in the ledger.
    #[cfg(feature = "private")]
    fn releases(&self) -> u64 {
        let file = rusqlite::Connection::open(&self.path).unwrap();
        let count = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        match count("SELECT count(*) FROM sqlite_schema WHERE name = 'release'") {
            0 => 0,
            _ => (count("SELECT count(*) FROM release") - 1).cast_unsigned(),
        }
    }

    /// A release is noted in the file; sometimes an operation fails, or all that follow.
    #[cfg(feature = "private")]
    fn spend(&mut self) {
        use pmfcl::private::Budget;
        // Who has the lock keeps it, and waiting for it would only take time.
        if self.open.as_ref().is_some_and(|open| !open.unlocked) {
            return;
        }
        let fault = [Fault::Once, Fault::Lasting][self.below(2)];
        if self.below(3) == 0 {
            fail(self.below(40) as u64, fault);
        }
        let [total, one] = [100.0, 0.01].map(|epsilon| Budget { epsilon, delta: 1e-6 });
        let done = pmfcl_file::Ledger::open(&self.path, total)
            .and_then(|mut ledger| ledger.spend(one, "a step"));
        let hit = heal();
        if let Err(error) = done {
            assert!(hit, "{error}");
            // Where noting it failed it may be there, and counts as spent then.
            let found = self.releases();
            assert!(found == self.released || found == self.released + 1, "{found}");
            self.released = found;
            *self.counts.entry("release failed").or_default() += 1;
        } else {
            self.released += 1;
            *self.counts.entry("release").or_default() += 1;
        }
        self.look("after a release");
    }

    /// Changes a model at random.
    fn change(&mut self, learner: &mut Learner, known: &mut Known) {
        let choice = self.below(8);
        match choice {
            0 if known.tasks.len() > 1 => {
                let at = self.below(known.tasks.len());
                let (name, _) = known.tasks.remove(at);
                learner.unlearn(&name).unwrap();
                *self.counts.entry("unlearn").or_default() += 1;
            }
            1 => {
                known.equal = !known.equal;
                learner.prefer(preference(known.equal)).unwrap();
                *self.counts.entry("prefer").or_default() += 1;
            }
            2 if known.tasks.len() < MOST_TASKS => {
                let mut other = empty();
                for _ in 0..2 {
                    let (name, seed) = self.fresh();
                    learn(&mut other, &name, seed);
                    known.tasks.push((name, seed));
                }
                other.prefer(preference(known.equal)).unwrap();
                learner.merge(&other).unwrap();
                *self.counts.entry("merge").or_default() += 1;
            }
            _ if known.tasks.len() < MOST_TASKS => {
                let (name, seed) = self.fresh();
                learn(learner, &name, seed);
                known.tasks.push((name, seed));
                *self.counts.entry("learn").or_default() += 1;
            }
            _ => {
                let (name, _) = known.tasks.remove(0);
                learner.unlearn(&name).unwrap();
                *self.counts.entry("unlearn").or_default() += 1;
            }
        }
    }

    fn step(&mut self) {
        match self.below(11) {
            #[cfg(feature = "private")]
            10 => self.spend(),
            0 | 1 if self.open.is_none() => {
                let mut file = ModelFile::open(&self.path, Access::Write).unwrap();
                file.load().unwrap();
                check(&self.acknowledged, file.model(), "opened");
                let known = self.acknowledged.clone();
                self.open = Some(Open { file, known, unlocked: false });
                *self.counts.entry("open").or_default() += 1;
            }
            0 => {
                // Closed without a commit: what was changed is gone.
                self.open = None;
                self.look("closed");
            }
            1..=3 => {
                if let Some(mut open) = self.open.take() {
                    // Where the lock was lost, others may have written: then it can no longer be read.
                    if open.file.load().is_ok() {
                        let mut known = open.known.clone();
                        self.change(&mut open.file.model_mut().learner, &mut known);
                        open.known = known;
                    }
                    self.open = Some(open);
                }
            }
            4 | 5 => self.commit(),
            6 => self.kill(),
            7 => {
                let mut file = ModelFile::open(&self.path, Access::Read).unwrap();
                file.load().unwrap();
                let (store, model) = file.into_parts();
                let (version, known) = (store.version().clone(), self.acknowledged.clone());
                check(&known, &model, "loaded");
                self.loose = Some(Loose { model, known, version });
                *self.counts.entry("load").or_default() += 1;
            }
            8 => self.save(),
            _ => {
                self.look("looked");
                if self.below(20) == 0 {
                    verify(&self.path).unwrap();
                    *self.counts.entry("verify").or_default() += 1;
                }
            }
        }
    }

    /// The first writer commits; sometimes an operation fails.
    fn commit(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        if self.below(3) == 0 {
            fail(self.below(60) as u64, Fault::Once);
        }
        let done = open.file.commit();
        let hit = heal();
        match done {
            Ok(()) => {
                self.acknowledged = open.known.clone();
                open.unlocked = false;
                self.open = Some(open);
                *self.counts.entry("commit").or_default() += 1;
            }
            Err(FileError::Changed(..)) => {
                // Only where the lock was lost; the writer has to begin anew.
                assert!(open.unlocked || hit, "changed by nobody");
                *self.counts.entry("commit refused").or_default() += 1;
            }
            Err(error) => {
                assert!(hit, "{error}");
                open.unlocked = true;
                self.open = Some(open);
                *self.counts.entry("commit failed").or_default() += 1;
            }
        }
        self.look("after a commit");
    }

    /// The first writer dies at some operation of its commit.
    fn kill(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        fail(self.below(60) as u64, Fault::Lasting);
        let done = open.file.commit();
        drop(open.file);
        heal();
        *self.counts.entry("kill").or_default() += 1;
        match done {
            Ok(()) => self.acknowledged = open.known,
            Err(FileError::Changed(..)) => {}
            Err(_) => {
                // It may have died before or after the moment that counts; nothing lies between.
                let mut file = ModelFile::open(&self.path, Access::Read).unwrap();
                file.load().unwrap();
                let names = file.model().learner.names().count();
                let before = self.acknowledged.clone();
                let is_after =
                    names == open.known.tasks.len()
                        && open.known.tasks.iter().all(|(name, _)| {
                            file.model().learner.names().any(|found| found == name)
                        });
                if is_after && before.tasks != open.known.tasks {
                    self.acknowledged = open.known;
                }
            }
        }
        self.look("after a kill");
    }

    /// The second writer changes its model and saves it in the place of the one it knows.
    fn save(&mut self) {
        let Some(mut loose) = self.loose.take() else { return };
        let mut known = loose.known.clone();
        self.change(&mut loose.model.learner, &mut known);
        loose.known = known;
        if self.below(4) == 0 {
            fail(self.below(80) as u64, Fault::Once);
        }
        let done = loose.model.save(&self.path, Replace::Known(&[loose.version.clone()]));
        let hit = heal();
        match done {
            Ok(version) => {
                self.acknowledged = loose.known.clone();
                loose.version = version;
                self.loose = Some(loose);
                *self.counts.entry("save").or_default() += 1;
            }
            Err(FileError::Changed(..) | FileError::Occupied(..)) => {
                *self.counts.entry("save refused").or_default() += 1;
            }
            Err(FileError::Locked(_)) => {
                assert!(self.open.as_ref().is_some_and(|open| !open.unlocked) || hit);
                self.loose = Some(loose);
                *self.counts.entry("save locked out").or_default() += 1;
            }
            Err(error) => {
                assert!(hit, "{error}");
                self.loose = Some(loose);
                *self.counts.entry("save failed").or_default() += 1;
            }
        }
        self.look("after a save");
    }
}

pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn two_writers_that_fail_and_die_lose_nothing_that_was_acknowledged() {
    install();
    let (steps, seed) = (number("PMFCL_STEPS", 400), number("PMFCL_SEED", 7));
    let worlds = number("PMFCL_WORLDS", 1);
    let share = steps.div_ceil(worlds);
    // Faults are of a thread, so that worlds do not disturb each other.
    let counts: Vec<_> = std::thread::scope(|scope| {
        let run = |world: u64| scope.spawn(move || run(share, seed + world));
        let all: Vec<_> = (0..worlds).map(run).collect();
        all.into_iter().map(|world| world.join().unwrap()).collect()
    });
    let mut total: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for (what, count) in counts.iter().flatten() {
        *total.entry(what).or_default() += count;
    }
    println!("{} steps: {total:?}", share * worlds);
    for what in ["learn", "commit", "save", "kill", "unlearn"] {
        assert!(total.get(what).is_some_and(|count| *count > 0), "{what} never happened");
    }
}

/// So many steps on a file of their own.
fn run(steps: u64, seed: u64) -> std::collections::BTreeMap<&'static str, usize> {
    let directory = tempfile::tempdir().unwrap();
    let mut world = World::new(&directory.path().join("model.pmf"), seed);
    for step in 0..steps {
        if step % 10_000 == 9_999 {
            println!("seed {seed}, {} steps: {:?}", step + 1, world.counts);
        }
        world.step();
    }
    world.open = None;
    world.look("at the end");
    verify(&world.path).unwrap();
    world.counts
}
