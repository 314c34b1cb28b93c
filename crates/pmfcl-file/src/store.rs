//! A model in its file: opened, changed one transaction at a time, checked.
//!
//! **Journal.** The database keeps a rollback journal (`DELETE`) and syncs fully, the directory too (`EXTRA`). A
//! write-ahead log would let a reader go on while a task is committed, which takes milliseconds; for that the
//! model would be three files while in use, a copy of the one could lack learned tasks, and network drives and
//! read-only directories would not do. A model should be one file.
//!
//! **Writers.** A command that changes the model takes the write lock when it opens it, so that what it learns
//! stands on what it read. Readers go on meanwhile; a second writer is told at once.
//!
//! **Creation.** A new model is written under another name and linked to its own when its first task is in:
//! a file of that name is a model with at least one task.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pmfcl::classify::{ClassifierParts, TaskNote};
use pmfcl::learner::{LearnerParts, MemoryParts, TaskRecord};
use pmfcl::{
    Classifier, Design, Learner, Map, MemoryKind, Model as Solution, Outcome, Penalty, Summary,
    Theta,
};
use rusqlite::{Connection, OpenFlags, params};
use serde_json::{Value, json};

use crate::digest;
use crate::error::FileError;
use crate::layout::{self, APPLICATION, PAGE, Seal, TABLES, VERSION};
use crate::model::{Learned, Model};
use crate::schema::Schema;
use crate::settings::{self, Found};
use crate::verify;

/// How long a reader waits for a commit, and a writer for a reader.
const PATIENCE: Duration = Duration::from_secs(10);

/// The generation of a new file.
const FIRST: i64 = 1;

/// Results of this crate.
pub type Result<T, E = FileError> = std::result::Result<T, E>;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To look.
    Read,
    /// To change: nobody else can until it is closed.
    Write,
}

/// What has changed since the last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// One task was learned, and nothing about the earlier ones has changed.
    Task,
    /// Preference, ridge, solution.
    Solution,
    /// Anything: all is written anew, and what is gone is wiped from the file.
    All,
}

/// An open file, without the model in it.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
    access: Access,
    /// Counts commits, so that a writer sees whether anybody wrote since it last read.
    generation: i64,
    /// Somebody else was quicker to take the lock after a commit of ours: that commit stands, another would not
    /// stand on what is in the file.
    lost: bool,
    /// Commits since the file was last summed up.
    unsummed: bool,
    sealed: TaskSeal,
}

impl Drop for Store {
    /// The check number of the whole file is made once, when it is closed: a thousand tasks in a row should not
    /// cost a thousand readings of all of them.
    fn drop(&mut self) {
        if self.unsummed && !self.lost {
            sum_up(&mut self.connection);
        }
    }
}

/// An open model file.
#[derive(Debug)]
pub struct ModelFile {
    store: Store,
    model: Model,
}

impl ModelFile {
    /// As [`Store::open`].
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        let (store, model) = Store::open(path, access)?;
        Ok(Self { store, model })
    }

    /// As [`Store::create`].
    ///
    /// # Errors
    /// As [`Store::create`].
    pub fn create(path: &Path, model: &Model) -> Result<Self> {
        let store = Store::create(path, model)?;
        Ok(Self { store, model: model.clone() })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The model, to change; [`ModelFile::commit`] keeps what was changed.
    pub fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    /// File and model, each on its own.
    pub fn into_parts(self) -> (Store, Model) {
        (self.store, self.model)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.store.path
    }

    /// As [`Store::load`].
    ///
    /// # Errors
    /// As [`Store::load`].
    pub fn load(&mut self) -> Result<()> {
        self.store.load(&mut self.model)
    }

    /// As [`Store::commit`].
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn commit(&mut self, change: Change) -> Result<()> {
        self.store.commit(&mut self.model, change)
    }

    pub(crate) fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    pub(crate) fn damaged(&self, what: String) -> FileError {
        self.store.damaged(what)
    }
}

impl Store {
    /// Opens a model. Summaries of single tasks stay in the file until [`Store::load`].
    ///
    /// # Errors
    /// When there is none, it is no model, a newer one, damaged, or being changed by somebody else.
    pub fn open(path: &Path, access: Access) -> Result<(Self, Model)> {
        check_file(path)?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let read = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
        check_layout(path, &connection)?;
        if access == Access::Write {
            lock(path, &connection)?;
        } else {
            // One view of the file, whatever a writer commits meanwhile.
            connection.execute_batch("BEGIN").map_err(read)?;
        }
        let stored = Stored::read(path, &connection)?;
        if access == Access::Read {
            connection.execute_batch("COMMIT").map_err(read)?;
        }
        let (generation, sealed) = (stored.generation, stored.sealed.clone());
        let model = stored.into_model(path)?;
        let path = path.to_path_buf();
        let store =
            Self { path, connection, access, generation, lost: false, unsummed: false, sealed };
        Ok((store, model))
    }

    /// Writes a new model that has learned at least one task, and keeps it open to change.
    ///
    /// # Errors
    /// When there is a file of that name, or it cannot be written.
    pub fn create(path: &Path, model: &Model) -> Result<Self> {
        if path.is_dir() {
            return Err(FileError::Directory(path.to_path_buf()));
        }
        if path.exists() {
            return Err(FileError::Exists(path.to_path_buf()));
        }
        let draft = claim_draft(path)?;
        let done = write_draft(&draft, model).and_then(|()| publish(&draft, path));
        // Whatever happened, the other name goes.
        let _ = fs::remove_file(&draft);
        done?;
        // The model is safe by now. Whoever has seen it may have it already.
        let mut store = match Self::open(path, Access::Write) {
            Err(FileError::Locked(_)) => Self::open(path, Access::Read)?.0,
            opened => opened?.0,
        };
        store.lost = store.access == Access::Read || store.generation != FIRST;
        store.access = Access::Write;
        Ok(store)
    }

    /// Reads the summaries of all tasks that are still in the file.
    ///
    /// # Errors
    /// When one of them is damaged.
    pub fn load(&self, model: &mut Model) -> Result<()> {
        let away = model.learner().away();
        if away == 0 {
            return Ok(());
        }
        if self.lost {
            return Err(FileError::Locked(self.path.clone()));
        }
        let checks: Vec<Option<i64>> =
            self.query("SELECT crc FROM task ORDER BY place LIMIT ?1", away, |row| row.get(0))?;
        let blobs: Vec<Vec<u8>> =
            self.query("SELECT bytes FROM summary ORDER BY place LIMIT ?1", away, |row| {
                row.get(0)
            })?;
        let names: Vec<String> = model.learner().names().take(away).map(str::to_owned).collect();
        if blobs.len() != away || checks.len() != away {
            return Err(self.damaged("there is not one summary for each task".to_owned()));
        }
        let mut summaries = Vec::with_capacity(away);
        for ((blob, check), name) in blobs.iter().zip(checks).zip(&names) {
            summaries.push(thaw(&self.path, blob, check, name)?);
        }
        match &mut model.learned {
            Learned::Regression(learner) => learner.supply(summaries),
            Learned::Classification(classifier) => classifier.supply(summaries),
        }
        .map_err(|e| self.damaged(e.to_string()))
    }

    /// Keeps what was changed: all of it or, whatever happens, nothing.
    ///
    /// # Errors
    /// When it cannot be written, or somebody else has changed the file since; the file is then what it was.
    pub fn commit(&mut self, model: &mut Model, change: Change) -> Result<()> {
        debug_assert!(self.access == Access::Write, "opened to look");
        if self.lost {
            return Err(FileError::Locked(self.path.clone()));
        }
        let wipe = change == Change::All;
        if wipe {
            self.load(model)?;
        }
        let next = self.generation + 1;
        self.sealed = write_all(&self.path, &self.connection, model, change, next, &self.sealed)?;
        (self.generation, self.unsummed) = (next, true);
        if wipe {
            // What was unlearned must not linger in pages the database has merely marked as free. The
            // removal is committed by now; a file too large to rewrite at the moment stays correct.
            let _ = self.connection.execute_batch("VACUUM");
        }
        match self.lock_again(model) {
            // What was to be kept is kept.
            Err(FileError::Locked(_)) => {
                self.lost = true;
                Ok(())
            }
            done => done,
        }
    }

    /// Takes the lock a commit has let go, and catches up with what others wrote meanwhile.
    fn lock_again(&mut self, model: &mut Model) -> Result<()> {
        lock(&self.path, &self.connection)?;
        if generation(&self.path, &self.connection)? != self.generation {
            // Somebody wrote between our commit and our lock: go on from what is there now.
            let stored = Stored::read(&self.path, &self.connection)?;
            (self.generation, self.sealed) = (stored.generation, stored.sealed.clone());
            *model = stored.into_model(&self.path)?;
        }
        Ok(())
    }

    /// The check number of the whole file: whether there is one, or what is wrong.
    pub(crate) fn digest(&mut self) -> Result<bool> {
        let path = self.path.clone();
        let read = |e: rusqlite::Error| FileError::sqlite(&path, "read", &e);
        let connection = &mut self.connection;
        connection.execute_batch("BEGIN").map_err(read)?;
        let mut looked = || {
            let size =
                connection.pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0))?;
            let size = usize::try_from(size).unwrap_or(1);
            let (own, stored) = (digest::own_page(connection)?, digest::stored(connection)?);
            Ok(digest::image(connection)?.map(|image| digest::check(&image, size, own, &stored)))
        };
        let found = looked().map_err(read);
        connection.execute_batch("COMMIT").map_err(read)?;
        match found? {
            None => Ok(false),
            Some(checked) => checked.map_err(|what| self.damaged(what.to_owned())),
        }
    }

    /// How many summaries the file holds.
    pub(crate) fn summaries(&self) -> Result<usize> {
        let count: Vec<i64> = self.query("SELECT count(*) FROM summary", 0, |row| row.get(0))?;
        Ok(count.first().and_then(|n| usize::try_from(*n).ok()).unwrap_or(usize::MAX))
    }

    /// Everything SQLite itself finds wrong, page by page.
    pub(crate) fn integrity(&self) -> Result<Vec<String>> {
        let lines: Vec<String> = self.query("PRAGMA integrity_check(20)", 0, |row| row.get(0))?;
        // A finding may come with a heading in a line of its own.
        let lines = lines.iter().flat_map(|finding| finding.lines());
        Ok(lines.filter(|l| *l != "ok" && !l.starts_with("***")).map(str::to_owned).collect())
    }

    pub(crate) fn damaged(&self, what: String) -> FileError {
        FileError::Damaged(self.path.clone(), what)
    }

    fn query<T>(
        &self,
        sql: &str,
        limit: usize,
        f: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let read = |e: rusqlite::Error| FileError::sqlite(&self.path, "read", &e);
        let mut statement = self.connection.prepare(sql).map_err(read)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = if sql.contains("?1") {
            statement.query_map([limit], f).map_err(read)?.collect::<rusqlite::Result<Vec<T>>>()
        } else {
            statement.query_map([], f).map_err(read)?.collect()
        };
        rows.map_err(read)
    }
}

/// Is there a file? It is not opened here: closing it would drop the locks this process may hold on it.
fn check_file(path: &Path) -> Result<()> {
    let owned = || path.to_path_buf();
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(FileError::Directory(owned())),
        Ok(meta) if meta.len() == 0 => Err(FileError::NotAModel(owned(), "the file is empty")),
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(FileError::NotFound(owned())),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(FileError::Permission(owned(), "read"))
        }
        Err(e) => Err(FileError::Io(owned(), e.to_string())),
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let read = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
    let connection =
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(read)?;
    connection.busy_timeout(PATIENCE).map_err(read)?;
    for (name, value) in [
        ("trusted_schema", "OFF"),
        ("cell_size_check", "ON"),
        ("secure_delete", "ON"),
        ("synchronous", "EXTRA"),
    ] {
        connection.pragma_update(None, name, value).map_err(read)?;
    }
    Ok(connection)
}

/// Exactly our version and our tables.
fn check_layout(path: &Path, connection: &Connection) -> Result<()> {
    let read = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if number("application_id").map_err(read)? != APPLICATION {
        let why = "an SQLite database of something else";
        return Err(FileError::NotAModel(path.to_path_buf(), why));
    }
    let version = number("user_version").map_err(read)?;
    if version > VERSION {
        return Err(FileError::Newer(path.to_path_buf(), version, VERSION));
    }
    let damaged = |what: &str| FileError::Damaged(path.to_path_buf(), what.to_owned());
    let journal: String =
        connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(read)?;
    if journal == "wal" {
        return Err(damaged(
            "it was switched to a write-ahead log; switch it back with PRAGMA journal_mode=DELETE",
        ));
    }
    if version != VERSION {
        return Err(damaged("its version makes no sense"));
    }
    let mut statement = connection
        .prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name")
        .map_err(read)?;
    let found: Vec<(String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(read)?
        .collect::<rusqlite::Result<_>>()
        .map_err(read)?;
    let expected = TABLES.map(|(name, sql)| (name.to_owned(), sql.to_owned()));
    if found == expected { Ok(()) } else { Err(damaged("its tables are not those of a model")) }
}

/// Begins a transaction that nobody else can write beside.
fn lock(path: &Path, connection: &Connection) -> Result<()> {
    // A writer holds its lock for as long as it reads data: waiting for that would look like hanging.
    let write = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
    connection.busy_timeout(Duration::from_millis(200)).map_err(write)?;
    let locked = connection.execute_batch("BEGIN IMMEDIATE").map_err(write);
    connection.busy_timeout(PATIENCE).map_err(write)?;
    locked
}

fn generation(path: &Path, connection: &Connection) -> Result<i64> {
    let read = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
    let bytes: Vec<u8> = connection
        .query_row("SELECT value FROM model WHERE key = 'generation'", [], |row| row.get(0))
        .map_err(read)?;
    let text = String::from_utf8_lossy(&bytes);
    text.parse()
        .map_err(|_| FileError::Damaged(path.to_path_buf(), "its count of commits".to_owned()))
}

/// Puts the check number of the whole file in its place and ends the transaction. The tasks are safe by now,
/// so where this fails the file merely has none.
fn sum_up(connection: &mut Connection) {
    let mut written = || {
        let size = connection.pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0))?;
        let size = usize::try_from(size).unwrap_or(1);
        if let Some(image) = digest::image(connection)? {
            let value = digest::value(&image, size, digest::own_page(connection)?);
            connection.execute("UPDATE digest SET value = ?1", [&value[..]])?;
        }
        connection.execute_batch("COMMIT")
    };
    if written().is_err() {
        let _ = connection.execute_batch("ROLLBACK");
    }
}

/// An empty file beside the model's name that nobody else has: two machines may well have processes of the same
/// number.
fn claim_draft(path: &Path) -> Result<PathBuf> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty());
    if let Some(directory) = directory
        && !directory.is_dir()
    {
        let what = format!("there is no directory {}; create it first", directory.display());
        return Err(FileError::Io(path.to_path_buf(), what));
    }
    for attempt in 0u32..1000 {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}-{attempt}.draft", std::process::id()));
        let draft = path.with_file_name(name);
        match fs::OpenOptions::new().write(true).create_new(true).open(&draft) {
            Ok(_) => return Ok(draft),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(FileError::Permission(path.to_path_buf(), "write"));
            }
            Err(e) => return Err(FileError::Io(path.to_path_buf(), e.to_string())),
        }
    }
    let what = "a thousand drafts of it are left over; remove the files that end in .draft";
    Err(FileError::Io(path.to_path_buf(), what.to_owned()))
}

fn write_draft(draft: &Path, model: &Model) -> Result<()> {
    let write = |e: rusqlite::Error| FileError::sqlite(draft, "write", &e);
    let mut connection =
        connect(draft, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    connection.pragma_update(None, "page_size", PAGE).map_err(write)?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(write)?;
    connection.pragma_update(None, "application_id", APPLICATION).map_err(write)?;
    connection.pragma_update(None, "user_version", VERSION).map_err(write)?;
    for (_, sql) in TABLES {
        connection.execute_batch(sql).map_err(write)?;
    }
    connection.execute("INSERT INTO digest VALUES (1, ?1)", [&digest::NONE[..]]).map_err(write)?;
    write_all(draft, &connection, model, Change::All, FIRST, &TaskSeal::default())?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(write)?;
    sum_up(&mut connection);
    connection.close().map_err(|(_, e)| write(e))
}

/// Gives the finished draft its name, unless somebody else was first.
fn publish(draft: &Path, path: &Path) -> Result<()> {
    fs::hard_link(draft, path).or_else(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Err(FileError::Exists(path.to_path_buf())),
        // A file system without links: a rename is the next best, though it would replace.
        _ if !path.exists() => {
            fs::rename(draft, path).map_err(|e| FileError::Io(path.to_path_buf(), e.to_string()))
        }
        _ => Err(FileError::Exists(path.to_path_buf())),
    })?;
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(directory) = fs::File::open(directory) {
        // Where a directory cannot be synced there is nothing more to do.
        let _ = directory.sync_all();
    }
    Ok(())
}

/// Writes what a change asks for and commits the transaction that is open.
fn write_all(
    path: &Path,
    connection: &Connection,
    model: &Model,
    change: Change,
    generation: i64,
    sealed: &TaskSeal,
) -> Result<TaskSeal> {
    let done = write_rows(connection, model, change, generation, sealed)
        .and_then(|sealed| connection.execute_batch("COMMIT").map(|()| sealed));
    done.map_err(|e| {
        // The rollback may have happened already; either way nothing of this is in the file.
        let _ = connection.execute_batch("ROLLBACK");
        FileError::sqlite(path, "write", &e)
    })
}

fn write_rows(
    connection: &Connection,
    model: &Model,
    change: Change,
    generation: i64,
    sealed: &TaskSeal,
) -> rusqlite::Result<TaskSeal> {
    let learner = model.learner();
    let records = learner.records();
    let at_hand = learner.at_hand();
    let first = match change {
        Change::All => {
            connection.execute_batch("DELETE FROM model; DELETE FROM task; DELETE FROM summary")?;
            0
        }
        Change::Task => records.len().saturating_sub(1),
        Change::Solution => records.len(),
    };
    // Compact memory turns its summaries into one when they have become many.
    let mut touched = change == Change::All;
    if learner.is_folded() {
        connection.execute("DELETE FROM summary", [])?;
        let folded = "UPDATE task SET crc = NULL, moments = NULL \
                      WHERE crc IS NOT NULL OR moments IS NOT NULL";
        touched |= connection.execute(folded, [])? > 0;
    }
    let mut task = connection.prepare(
        "INSERT INTO task (place, name, samples, rank, weight, min_loss, bytes, note, moments, losses, crc) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let mut summary = connection.prepare("INSERT INTO summary (place, bytes) VALUES (?1, ?2)")?;
    for (place, record) in records.iter().enumerate().skip(first) {
        // The summaries at hand are those of the last tasks.
        let own = (place + at_hand.len()).checked_sub(records.len()).and_then(|i| at_hand.get(i));
        let mut check = None;
        if let Some(own) = own {
            let (bytes, number) = layout::sealed(own);
            summary.execute(params![place.cast_signed(), bytes])?;
            check = Some(number);
        }
        let note = model.classifier().and_then(|c| c.note(&record.name).ok());
        let words = note
            .as_ref()
            .map(|n| json!({ "counts": n.counts, "separable": n.separable }).to_string());
        let numbers = |list: Option<&Vec<f64>>| list.map(|v| layout::to_bytes(v));
        task.execute(params![
            place.cast_signed(),
            record.name,
            record.samples,
            record.rank.cast_signed(),
            record.weight,
            record.min_loss,
            record.bytes.cast_signed(),
            words,
            numbers(note.as_ref().and_then(|n| n.moments.as_ref())),
            numbers(note.as_ref().and_then(|n| n.losses.as_ref())),
            check,
        ])?;
    }
    let mut put =
        connection.prepare("INSERT OR REPLACE INTO model (key, value) VALUES (?1, ?2)")?;
    for (key, value) in values(model, generation) {
        put.execute(params![key, value])?;
    }
    // Lines of earlier tasks are as they were, unless all was written anew.
    let sealed = if touched { TaskSeal::default() } else { sealed.clone() };
    let sealed = sealed.extended(connection)?;
    put.execute(params!["seal", seal(connection, &sealed)?.to_string().into_bytes()])?;
    // It no longer holds; [`sum_up`] makes a new one when this is safe.
    connection.execute("UPDATE digest SET value = ?1", [&digest::NONE[..]])?;
    Ok(sealed)
}

/// The rows of the table `model`, but for the seal.
fn values(model: &Model, generation: i64) -> Vec<(&'static str, Vec<u8>)> {
    let learner = model.learner();
    let text = |value: Value| value.to_string().into_bytes();
    let mut rows = vec![
        ("generation", generation.to_string().into_bytes()),
        ("program", concat!("pmfcl ", env!("CARGO_PKG_VERSION")).into()),
        ("schema", serde_json::to_vec(&model.schema).expect("a schema is plain text")),
        ("settings", text(settings::write(model))),
    ];
    if let Some(design) = learner.design() {
        rows.push(("basis", layout::to_bytes(&design.map().frozen())));
    }
    if let Some(classifier) = model.classifier() {
        rows.push(("classes", text(json!(classifier.classes()))));
        if let Some(moments) = classifier.kept_moments() {
            rows.push(("moments", layout::to_bytes(&moments)));
        }
    }
    if let Some((pool, floor)) = learner.kept_pool() {
        rows.push(("pool", pool.to_bytes()));
        rows.push(("floor", layout::to_bytes(&[floor])));
    }
    if let Ok(solution) = learner.model() {
        rows.push(("theta", layout::to_bytes(solution.theta.cells())));
        rows.push((
            "solution",
            text(json!({
                "width": solution.theta.width(),
                "targets": solution.theta.targets(),
                "rank": solution.rank,
                "unique": solution.outcome == Outcome::Unique,
                "ridge": solution.penalty.ridge(),
                "standardize": solution.penalty.standardize(),
            })),
        ));
    }
    rows
}

/// The check number over all rows of `model` and `task`.
fn seal(connection: &Connection, tasks: &TaskSeal) -> rusqlite::Result<u32> {
    let mut seal = Seal::default();
    let mut statement =
        connection.prepare("SELECT key, value FROM model WHERE key <> 'seal' ORDER BY key")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let value: Vec<u8> = row.get(1)?;
        seal.add(&row.get::<_, String>(0)?, &value);
    }
    seal.append(&tasks.seal);
    Ok(seal.value())
}

/// The part of the seal that stands for the first `count` tasks, so that one more does not cost all before it.
#[derive(Debug, Clone, Default)]
struct TaskSeal {
    seal: Seal,
    count: i64,
}

impl TaskSeal {
    /// With the tasks that have come since.
    fn extended(mut self, connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare(
            "SELECT name, samples, rank, weight, min_loss, bytes, note, moments, losses, crc, place \
             FROM task WHERE place >= ?1 ORDER BY place",
        )?;
        let mut rows = statement.query([self.count])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let mut line = Vec::new();
            for i in [1, 3, 4] {
                line.extend_from_slice(&row.get::<_, f64>(i)?.to_bits().to_le_bytes());
            }
            for i in [2, 5, 10] {
                line.extend_from_slice(&row.get::<_, i64>(i)?.to_le_bytes());
            }
            line.extend_from_slice(&row.get::<_, Option<i64>>(9)?.unwrap_or(-1).to_le_bytes());
            self.seal.add(&name, &line);
            self.seal.add("note", row.get::<_, Option<String>>(6)?.unwrap_or_default().as_bytes());
            self.seal.add("moments", &row.get::<_, Option<Vec<u8>>>(7)?.unwrap_or_default());
            self.seal.add("losses", &row.get::<_, Option<Vec<u8>>>(8)?.unwrap_or_default());
            self.count += 1;
        }
        Ok(self)
    }
}

/// A summary from its bytes.
fn thaw(path: &Path, blob: &[u8], check: Option<i64>, name: &str) -> Result<Summary> {
    let damaged = |what: String| FileError::Damaged(path.to_path_buf(), what);
    if check != Some(layout::check_number(blob)) {
        return Err(damaged(format!("the summary of task `{name}` has changed bytes")));
    }
    Summary::from_bytes(blob).map_err(|e| damaged(format!("the summary of task `{name}`: {e}")))
}

/// What a file holds, before it is made a model.
struct Stored {
    generation: i64,
    sealed: TaskSeal,
    values: std::collections::BTreeMap<String, Vec<u8>>,
    tasks: Vec<(TaskRecord, TaskNote)>,
    /// Summaries of compact memory, which are few and always needed.
    held: Vec<Summary>,
}

impl Stored {
    fn read(path: &Path, connection: &Connection) -> Result<Self> {
        let read = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
        let damaged = |what: &str| FileError::Damaged(path.to_path_buf(), what.to_owned());
        let mut values = std::collections::BTreeMap::new();
        {
            let mut statement = connection.prepare("SELECT key, value FROM model").map_err(read)?;
            let mut rows = statement.query([]).map_err(read)?;
            while let Some(row) = rows.next().map_err(read)? {
                values.insert(row.get(0).map_err(read)?, row.get(1).map_err(read)?);
            }
        }
        let noted = values.get("seal").map(|v: &Vec<u8>| String::from_utf8_lossy(v).into_owned());
        let sealed = TaskSeal::default().extended(connection).map_err(read)?;
        if noted != Some(seal(connection, &sealed).map_err(read)?.to_string()) {
            return Err(damaged("its check number does not match: bytes were changed"));
        }
        let mut tasks = Vec::new();
        let mut checks: Vec<Option<i64>> = Vec::new();
        let mut statement = connection
            .prepare(
                "SELECT name, samples, rank, weight, min_loss, bytes, note, moments, losses, crc, place \
                 FROM task ORDER BY place",
            )
            .map_err(read)?;
        let mut rows = statement.query([]).map_err(read)?;
        while let Some(row) = rows.next().map_err(read)? {
            let size =
                |i: usize| row.get::<_, i64>(i).map(|v| usize::try_from(v).unwrap_or(usize::MAX));
            let record = || {
                Ok(TaskRecord {
                    name: row.get(0)?,
                    samples: row.get(1)?,
                    rank: size(2)?,
                    weight: row.get(3)?,
                    min_loss: row.get(4)?,
                    bytes: size(5)?,
                })
            };
            let blob = |i: usize| row.get::<_, Option<Vec<u8>>>(i).map_err(read);
            let note: Option<String> = row.get(6).map_err(read)?;
            let note = read_note(note.as_deref(), blob(7)?, blob(8)?).map_err(|e| damaged(&e))?;
            if size(10).map_err(read)? != tasks.len() {
                return Err(damaged("tasks are missing from its list"));
            }
            tasks.push((record().map_err(read)?, note));
            checks.push(row.get(9).map_err(read)?);
        }
        let mut stored = Self {
            generation: generation(path, connection)?,
            sealed,
            values,
            tasks,
            held: Vec::new(),
        };
        let found = settings::read(stored.text("settings").map_err(|e| damaged(&e))?)
            .map_err(|e| damaged(&e))?;
        let compact = match &found {
            Found::Regression(s) => s.memory,
            Found::Classification(s) => s.memory,
        } == MemoryKind::Compact;
        if compact && !stored.values.contains_key("pool") {
            let mut statement =
                connection.prepare("SELECT bytes FROM summary ORDER BY place").map_err(read)?;
            let blobs: Vec<Vec<u8>> = statement
                .query_map([], |row| row.get(0))
                .map_err(read)?
                .collect::<rusqlite::Result<_>>()
                .map_err(read)?;
            for ((blob, check), (record, _)) in blobs.iter().zip(checks).zip(&stored.tasks) {
                stored.held.push(thaw(path, blob, check, &record.name)?);
            }
        }
        Ok(stored)
    }

    fn text(&self, key: &str) -> Result<&str, String> {
        let bytes = self.values.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
        std::str::from_utf8(bytes).map_err(|_| format!("`{key}` is no text"))
    }

    fn numbers(&self, key: &str) -> Result<Vec<f64>, String> {
        let bytes = self.values.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
        layout::from_bytes(bytes).ok_or_else(|| format!("`{key}` is cut off"))
    }

    fn into_model(self, path: &Path) -> Result<Model> {
        self.build().map_err(|what| FileError::Damaged(path.to_path_buf(), what))
    }

    fn build(self) -> Result<Model, String> {
        let schema: Schema =
            serde_json::from_str(self.text("schema")?).map_err(|e| format!("its schema: {e}"))?;
        schema.check()?;
        let found = settings::read(self.text("settings")?)?;
        let (basis, intercept, memory) = match &found {
            Found::Regression(s) => (s.basis.clone(), s.intercept, s.memory),
            Found::Classification(s) => (s.basis.clone(), s.intercept, s.memory),
        };
        let design = if self.values.contains_key("basis") {
            let map = Map::thaw(&basis, schema.inputs.len(), &self.numbers("basis")?)
                .map_err(|e| e.to_string())?;
            Some(Design::new(map, intercept))
        } else {
            None
        };
        let solution =
            if self.values.contains_key("solution") { Some(self.solution()?) } else { None };
        let memory = match (memory, self.values.get("pool")) {
            _ if self.tasks.is_empty() => MemoryParts::Empty,
            (MemoryKind::Ledger, Some(pool)) => {
                let pool = Summary::from_bytes(pool).map_err(|e| format!("its pool: {e}"))?;
                MemoryParts::Ledger { pool, floor: self.floor()?, summaries: Vec::new() }
            }
            (MemoryKind::Compact, Some(pool)) => {
                let pool = Summary::from_bytes(pool).map_err(|e| format!("its pool: {e}"))?;
                MemoryParts::Folded { pool, floor: self.floor()? }
            }
            (MemoryKind::Compact, None) => MemoryParts::Held(self.held.clone()),
            (MemoryKind::Ledger, None) => return Err("its pool is missing".to_owned()),
        };
        let classes = match &found {
            Found::Classification(_) => serde_json::from_str::<Vec<String>>(self.text("classes")?)
                .map_err(|e| format!("its classes: {e}"))?,
            Found::Regression(_) => Vec::new(),
        };
        let moments =
            if self.values.contains_key("moments") { Some(self.numbers("moments")?) } else { None };
        let (records, notes): (Vec<_>, Vec<_>) = self.tasks.into_iter().unzip();
        let parts = |settings| LearnerParts {
            settings,
            design,
            targets: solution.as_ref().map_or(0, |s: &Solution| s.theta.targets()),
            tasks: records,
            memory,
            model: solution,
        };
        let learned = match found {
            Found::Regression(settings) => Learned::Regression(Box::new(
                Learner::from_parts(parts(settings)).map_err(|e| e.to_string())?,
            )),
            Found::Classification(settings) => {
                let learner = parts(pmfcl::Settings::default());
                let whole = ClassifierParts { settings, classes, learner, notes, moments };
                Learned::Classification(Box::new(
                    Classifier::from_parts(whole).map_err(|e| e.to_string())?,
                ))
            }
        };
        let model = Model { schema, learned };
        let targets = match &model.learned {
            Learned::Regression(learner) => {
                learner.model().map_or(model.schema.targets.len(), |m| m.theta.targets())
            }
            Learned::Classification(_) => 1,
        };
        if model.schema.targets.len() != targets {
            return Err("there are not as many target names as targets".to_owned());
        }
        Ok(model)
    }

    fn floor(&self) -> Result<f64, String> {
        match self.numbers("floor")?[..] {
            [floor] => Ok(floor),
            _ => Err("its pooled least loss is cut off".to_owned()),
        }
    }

    fn solution(&self) -> Result<Solution, String> {
        let value: Value = serde_json::from_str(self.text("solution")?)
            .map_err(|e| format!("its solution: {e}"))?;
        let size = |name: &str| {
            let n = value[name].as_u64().and_then(|n| usize::try_from(n).ok());
            n.ok_or_else(|| format!("its solution lacks `{name}`"))
        };
        let truth = |name: &str| {
            value[name].as_bool().ok_or_else(|| format!("its solution lacks `{name}`"))
        };
        let ridge = value["ridge"].as_f64().ok_or("its solution lacks `ridge`")?;
        let theta = Theta::from_columns(size("width")?, size("targets")?, self.numbers("theta")?)
            .map_err(|e| e.to_string())?;
        Ok(Solution {
            theta,
            rank: size("rank")?,
            outcome: if truth("unique")? { Outcome::Unique } else { Outcome::MinimumNorm },
            penalty: Penalty::new(ridge, truth("standardize")?).map_err(|e| e.to_string())?,
        })
    }
}

fn numbers(bytes: Option<Vec<u8>>) -> Result<Option<Vec<f64>>, String> {
    match bytes {
        None => Ok(None),
        Some(bytes) => {
            let numbers = layout::from_bytes(&bytes);
            numbers.map(Some).ok_or_else(|| "numbers of a task are cut off".to_owned())
        }
    }
}

fn read_note(
    text: Option<&str>,
    moments: Option<Vec<u8>>,
    losses: Option<Vec<u8>>,
) -> Result<TaskNote, String> {
    let mut note = TaskNote::default();
    if let Some(text) = text {
        let value: Value =
            serde_json::from_str(text).map_err(|e| format!("the note of a task: {e}"))?;
        note.counts = serde_json::from_value(value["counts"].clone())
            .map_err(|e| format!("the class counts of a task: {e}"))?;
        note.separable = value["separable"].as_bool();
    }
    note.moments = numbers(moments)?;
    note.losses = numbers(losses)?;
    Ok(note)
}

/// What a row of `task` holds, as it lies there.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct TaskRow {
    pub record: TaskRecord,
    pub note: Option<String>,
    pub moments: Option<Vec<u8>>,
    pub losses: Option<Vec<u8>>,
}

/// The model that these rows make, by the same code that opens, loads and verifies a file. For fuzzing, where
/// a file for each try would cost fifty times as much.
#[doc(hidden)]
pub fn assemble(
    values: std::collections::BTreeMap<String, Vec<u8>>,
    tasks: Vec<TaskRow>,
    summaries: Vec<Summary>,
) -> Result<Model, String> {
    let mut rows = Vec::with_capacity(tasks.len());
    for task in tasks {
        rows.push((task.record, read_note(task.note.as_deref(), task.moments, task.losses)?));
    }
    let held = if values.contains_key("pool") { Vec::new() } else { summaries.clone() };
    let mut model =
        Stored { generation: 0, sealed: TaskSeal::default(), values, tasks: rows, held }.build()?;
    if model.learner().away() > 0 {
        match &mut model.learned {
            Learned::Regression(learner) => learner.supply(summaries),
            Learned::Classification(classifier) => classifier.supply(summaries),
        }
        .map_err(|e| e.to_string())?;
    }
    verify::follows(Path::new("a model"), &model).map_err(|e| e.to_string())?;
    Ok(model)
}
