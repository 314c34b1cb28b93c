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

use rusqlite::{Connection, OpenFlags};

use crate::digest;
use crate::error::FileError;
use crate::layout::{APPLICATION, PAGE, TABLES, VERSION};
use crate::model::{Learned, Model};
use crate::seal::TaskSeal;
use crate::stored::{Stored, generation, thaw};
use crate::written::write_all;

/// How long a reader waits for a commit, and a writer for a reader.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a model that is no file is called in messages.
const IN_MEMORY: &str = "(bytes)";

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
    let mut connection =
        connect(draft, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    write_new(draft, &mut connection, model)?;
    connection.close().map_err(|(_, e)| FileError::sqlite(draft, "write", &e))
}

/// Writes a whole model into an empty database.
fn write_new(path: &Path, connection: &mut Connection, model: &Model) -> Result<()> {
    let write = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
    connection.pragma_update(None, "page_size", PAGE).map_err(write)?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(write)?;
    connection.pragma_update(None, "application_id", APPLICATION).map_err(write)?;
    connection.pragma_update(None, "user_version", VERSION).map_err(write)?;
    for (_, sql) in TABLES {
        connection.execute_batch(sql).map_err(write)?;
    }
    connection.execute("INSERT INTO digest VALUES (1, ?1)", [&digest::NONE[..]]).map_err(write)?;
    write_all(path, connection, model, Change::All, FIRST, &TaskSeal::default())?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(write)?;
    sum_up(connection);
    Ok(())
}

impl Model {
    /// The model as the bytes of a model file; the same model gives the same bytes.
    ///
    /// # Errors
    /// When some of its summaries are still in another file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let missing = self.learner().away();
        if missing > 0 {
            return Err(pmfcl::Error::Away { operation: "a copy as bytes", missing }.into());
        }
        let path = Path::new(IN_MEMORY);
        let write = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
        let mut connection = Connection::open_in_memory().map_err(write)?;
        write_new(path, &mut connection, self)?;
        Ok(connection.serialize("main").map_err(write)?.to_vec())
    }

    /// Reads what [`Model::to_bytes`] wrote, or the bytes of any model file, with all summaries.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let path = PathBuf::from(IN_MEMORY);
        let read = |e: rusqlite::Error| FileError::sqlite(&path, "read", &e);
        if bytes.is_empty() {
            return Err(FileError::NotAModel(path, "there are no bytes"));
        }
        let mut connection = Connection::open_in_memory().map_err(read)?;
        connection.pragma_update(None, "trusted_schema", "OFF").map_err(read)?;
        connection.deserialize_read_exact("main", bytes, bytes.len(), true).map_err(read)?;
        check_layout(&path, &connection)?;
        let stored = Stored::read(&path, &connection)?;
        let (generation, sealed) = (stored.generation, stored.sealed.clone());
        let mut model = stored.into_model(&path)?;
        let (access, lost, unsummed) = (Access::Read, false, false);
        Store { path, connection, access, generation, lost, unsummed, sealed }.load(&mut model)?;
        Ok(model)
    }
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
