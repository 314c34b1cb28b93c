//! A model in its file: opened, changed one transaction at a time, checked.
//!
//! **Journal.** The database keeps a rollback journal (`DELETE`) and syncs fully, the directory too (`EXTRA`). A
//! write-ahead log would let a reader go on while a task is committed, which takes milliseconds; for that the
//! model would be three files while in use, a copy of the one could lack learned tasks, and network drives and
//! read-only directories would not do. A model should be one file.
//!
//! **Writers.** A command that changes the model takes the write lock when it opens it, so that what it learns
//! stands on what it read. Readers go on meanwhile; a second writer is told at once. A commit ends the transaction and
//! with it the lock, and so does any error. Whoever locks the file again compares its [`Version`] before writing: nothing
//! that another process wrote is ever overwritten unseen.
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
use crate::stored::{Stored, thaw};
use crate::version::{Changes, Mark, Version};
use crate::written::write_all;

/// How long a reader waits for a commit, and a writer for a reader.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

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

/// What has changed since the last commit; a later one includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Preference, ridge, solution.
    Solution,
    /// Tasks were learned, and nothing about the earlier ones has changed.
    Task,
    /// Anything: all is written anew, and what is gone is wiped from the file.
    All,
}

/// An open file, without the model in it.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
    access: Access,
    /// What the file held when the model was last read from it or written to it.
    version: Version,
    /// Whether a write transaction is open, begun on `version`.
    locked: bool,
    /// What commits that failed were to write: the next one writes that too.
    owed: Option<Change>,
    /// Commits since the file was last summed up.
    unsummed: bool,
    sealed: TaskSeal,
}

impl Drop for Store {
    /// The check number of the whole file is made once, when it is closed: a thousand tasks in a row should not
    /// cost a thousand readings of all of them.
    fn drop(&mut self) {
        // Whatever others have committed since, the sum is that of the file as it is.
        if self.unsummed && (self.locked || lock(&self.path, &self.connection).is_ok()) {
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

    /// As [`Store::commit_and_follow`].
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn commit(&mut self, change: Change) -> Result<()> {
        self.store.commit_and_follow(&mut self.model, change)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
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
        let (version, sealed) = (stored.version(path), stored.sealed.clone());
        let model = stored.into_model(path)?;
        let path = path.to_path_buf();
        let (locked, owed, unsummed) = (access == Access::Write, None, false);
        Ok((Self { path, connection, access, version, locked, owed, unsummed, sealed }, model))
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
        let done = write_draft(&draft, model).and_then(|mark| publish(&draft, path).map(|()| mark));
        // Whatever happened, the other name goes.
        let _ = fs::remove_file(&draft);
        let mark = done?;
        // The model is safe by now. Whoever has seen it may have changed it already: the first commit will tell.
        let (mut store, _) = Self::open(path, Access::Read)?;
        store.access = Access::Write;
        store.version = Version::new(path, mark, model.learner().records().iter());
        let _ = store.lock_unchanged();
        Ok(store)
    }

    /// [`Store::create`] for a model that grows task by task: where others have created the file meanwhile, they have changed
    /// the model this one is to go into.
    ///
    /// # Errors
    /// As [`Store::create`], with [`FileError::Changed`] in place of [`FileError::Exists`].
    pub fn create_first(path: &Path, model: &Model) -> Result<Self> {
        Self::create(path, model).map_err(|error| match error {
            FileError::Exists(path) => match Self::open(&path, Access::Read) {
                Ok((store, _)) => FileError::Changed(path, Changes::since_nothing(&store.version)),
                Err(other) => other,
            },
            other => other,
        })
    }

    /// What the file held when the model was last read from it or written to it.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Reads the summaries of all tasks that are still in the file.
    ///
    /// Where others have written since, a file opened to look is read again, the model with it.
    ///
    /// # Errors
    /// When one of them is damaged, and where others have written since to a file opened to change.
    pub fn load(&mut self, model: &mut Model) -> Result<()> {
        if model.learner().away() == 0 {
            return Ok(());
        }
        if self.locked {
            return self.load_here(model);
        }
        // One view of the file, as in [`Store::open`].
        let begun = self.connection.execute_batch("BEGIN");
        begun.map_err(|e| FileError::sqlite(&self.path, "read", &e))?;
        let loaded = match self.changes() {
            Ok(None) => self.load_here(model),
            Ok(Some(_)) if self.access == Access::Read => {
                self.follow(model).and_then(|()| self.load_here(model))
            }
            Ok(Some(changes)) => Err(FileError::Changed(self.path.clone(), changes)),
            Err(error) => Err(error),
        };
        // It has only read.
        let _ = self.connection.execute_batch("ROLLBACK");
        loaded
    }

    /// Reads the file again in the transaction that is open.
    fn follow(&mut self, model: &mut Model) -> Result<()> {
        let stored = Stored::read(&self.path, &self.connection)?;
        let (version, sealed) = (stored.version(&self.path), stored.sealed.clone());
        *model = stored.into_model(&self.path)?;
        (self.version, self.sealed) = (version, sealed);
        Ok(())
    }

    /// [`Store::load`] in a transaction that is open, of the version the model is of.
    fn load_here(&self, model: &mut Model) -> Result<()> {
        let away = model.learner().away();
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
    /// When it cannot be written, or others have changed the file since it was read. The file is then unchanged and no longer
    /// locked; `model` is unchanged too. The next commit locks the file again, writes what this one was to write as well, and
    /// refuses with [`FileError::Changed`] where others have written in between.
    pub fn commit(&mut self, model: &mut Model, change: Change) -> Result<()> {
        let fewer = model.learner().records().len() < self.sealed.count();
        let change = if fewer { Change::All } else { change };
        let change = self.owed.map_or(change, |owed| owed.max(change));
        self.owed = Some(change);
        let written = self.write(model, change);
        // The transaction has ended, one way or the other.
        self.locked = false;
        if let Err(error) = written {
            self.exclude_others(false);
            let _ = self.connection.execute_batch("ROLLBACK");
            // A lock that outlasted the transaction goes with the next look at the file.
            let _ = Mark::read(&self.path, &self.connection);
            return Err(error);
        }
        (self.owed, self.unsummed) = (None, true);
        if change == Change::All {
            self.wipe();
        }
        // What was to be kept is kept. Where somebody else was quicker to take the lock, the next commit will tell.
        let _ = self.lock_unchanged();
        Ok(())
    }

    /// [`Store::commit`]; where somebody else wrote right after it, `model` becomes what is in the file then.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn commit_and_follow(&mut self, model: &mut Model, change: Change) -> Result<()> {
        self.commit(model, change)?;
        // The commit stands, whatever happens here; the next one will tell.
        if !self.locked && lock(&self.path, &self.connection).is_ok() {
            self.locked = self.follow(model).is_ok();
            if !self.locked {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
        }
        Ok(())
    }

    /// Writes and commits, under the lock.
    fn write(&mut self, model: &mut Model, change: Change) -> Result<()> {
        if !self.locked {
            self.lock_unchanged()?;
        }
        if change == Change::All {
            self.load(model)?;
        }
        let next = self.version.mark().generation + 1;
        if change == Change::All {
            self.exclude_others(true);
        }
        let written = write_all(&self.path, &self.connection, model, change, next, &self.sealed)?;
        self.version.advance(written.mark, written.same, model.learner().records());
        self.sealed = written.sealed;
        Ok(())
    }

    /// Whether the lock outlasts the transaction.
    fn exclude_others(&self, exclude: bool) {
        let mode = if exclude { "EXCLUSIVE" } else { "NORMAL" };
        let _ = self.connection.pragma_update(None, "locking_mode", mode);
    }

    /// What was unlearned must not linger in pages the database has merely marked as free. The removal is committed by
    /// now; a file too large to rewrite at the moment stays correct.
    ///
    /// `VACUUM` cannot be part of a transaction. Were others to write and sum up the file before it, it would leave a
    /// checksum of pages that lie elsewhere now; so they are excluded until there is a new one.
    fn wipe(&mut self) {
        let _ = self.connection.execute_batch("VACUUM");
        let begun = self.connection.execute_batch("BEGIN IMMEDIATE").is_ok();
        self.exclude_others(false);
        if begun {
            self.unsummed = !sum_up(&mut self.connection);
        } else {
            // The lock goes with the next look at the file.
            let _ = Mark::read(&self.path, &self.connection);
        }
    }

    /// Takes the write lock, if the file still is what it was when the model was read from it or written to it.
    fn lock_unchanged(&mut self) -> Result<()> {
        lock(&self.path, &self.connection)?;
        let refused = match self.changes() {
            Ok(None) => {
                self.locked = true;
                return Ok(());
            }
            Ok(Some(changes)) => FileError::Changed(self.path.clone(), changes),
            Err(error) => error,
        };
        let _ = self.connection.execute_batch("ROLLBACK");
        Err(refused)
    }

    /// What others have done to the file since; `None` where nothing.
    pub(crate) fn changes(&self) -> Result<Option<Changes>> {
        if Mark::read(&self.path, &self.connection)? == *self.version.mark() {
            return Ok(None);
        }
        let now = Stored::read(&self.path, &self.connection)?.version(&self.path);
        Ok(Some(self.version.changes(&now)))
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
/// so where this fails the file merely has none; says whether it worked.
fn sum_up(connection: &mut Connection) -> bool {
    let mut written = || {
        let size = connection.pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0))?;
        let size = usize::try_from(size).unwrap_or(1);
        if let Some(image) = digest::image(connection)? {
            let value = digest::value(&image, size, digest::own_page(connection)?);
            connection.execute("UPDATE digest SET value = ?1", [&value[..]])?;
        }
        connection.execute_batch("COMMIT")
    };
    let done = written().is_ok();
    if !done {
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
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

fn write_draft(draft: &Path, model: &Model) -> Result<Mark> {
    let mut connection =
        connect(draft, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let mark = write_new(draft, &mut connection, model)?;
    connection.close().map_err(|(_, e)| FileError::sqlite(draft, "write", &e))?;
    Ok(mark)
}

/// Writes a whole model into an empty database.
fn write_new(path: &Path, connection: &mut Connection, model: &Model) -> Result<Mark> {
    let write = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
    connection.pragma_update(None, "page_size", PAGE).map_err(write)?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(write)?;
    connection.pragma_update(None, "application_id", APPLICATION).map_err(write)?;
    connection.pragma_update(None, "user_version", VERSION).map_err(write)?;
    for (_, sql) in TABLES {
        connection.execute_batch(sql).map_err(write)?;
    }
    connection.execute("INSERT INTO digest VALUES (1, ?1)", [&digest::NONE[..]]).map_err(write)?;
    let written = write_all(path, connection, model, Change::All, FIRST, &TaskSeal::default())?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(write)?;
    sum_up(connection);
    Ok(written.mark)
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
        let (version, sealed) = (stored.version(&path), stored.sealed.clone());
        let mut model = stored.into_model(&path)?;
        let (access, locked, owed, unsummed) = (Access::Read, false, None, false);
        Store { path, connection, access, version, locked, owed, unsummed, sealed }
            .load(&mut model)?;
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
