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
//! **What a commit writes.** The store remembers which tasks the file holds. Where the learner has only learned more since
//! ([`pmfcl::Learner::edits`]), these are appended; after any other change everything is written anew and the old content wiped.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pmfcl::{Learner, Problem};
use rusqlite::{Connection, OpenFlags};

use crate::audit::AuditEntry;
use crate::digest;
use crate::error::FileError;
use crate::layout::Layout;
use crate::model::Model;
use crate::read::{Contents, summaries};
use crate::releases::ReleaseRows;
use crate::settings::FindLoss;
use crate::version::{Changes, Mark, Version};
use crate::write::{FileState, KnownPool, Scope, write};

/// How long a reader waits for a commit, and a writer for a reader.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Most pages that are kept in memory, in KiB.
const CACHE: i64 = 64 << 10;

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

/// An open file, without the model in it.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
    access: Access,
    /// What the file held when the model was last read from it or written to it.
    version: Version,
    /// The same, as a commit needs to know it.
    state: FileState,
    /// The problem of a model with a loss of the user's own.
    own: Option<Problem>,
    /// Whether a write transaction is open, begun on `version`.
    locked: bool,
    /// Whether commits since have left the file without a digest.
    undigested: bool,
    /// What the next commit adds to the audit table.
    entries: Vec<AuditEntry>,
}

impl Drop for Store {
    /// The checksum of the whole file is made once, when it is closed: a thousand tasks in a row should not
    /// cost a thousand readings of all of them.
    fn drop(&mut self) {
        // Whatever others have committed since, the digest is that of the file as it is.
        if self.undigested && (self.locked || lock(&self.path, &self.connection).is_ok()) {
            write_digest(&mut self.connection);
        }
    }
}

impl Store {
    /// Opens a model. Summaries of single tasks stay in the file until [`Store::load`], except those that the next solution
    /// needs. A file of an earlier layout is read as it is, and rewritten by the first commit.
    ///
    /// # Errors
    /// When there is none, it is no model, a newer one, damaged, being changed by somebody else, or one with a loss that is not
    /// pmfcl's own.
    pub fn open(path: &Path, access: Access) -> Result<(Self, Model)> {
        Self::open_with(path, access, &|_| None)
    }

    /// [`Store::open`] for models with a loss of the user's own: `find` is given the name and parameters of a loss that is not
    /// pmfcl's ([`Loss::spec`](pmfcl::loss::Loss::spec)), and returns the problem.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(
        path: &Path,
        access: Access,
        find: &dyn Fn(&str) -> Option<Problem>,
    ) -> Result<(Self, Model)> {
        check_file(path)?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let read = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
        crate::read::check_layout(path, &connection)?;
        if access == Access::Write {
            lock(path, &connection)?;
        } else {
            // One view of the file, whatever a writer commits meanwhile.
            connection.execute_batch("BEGIN").map_err(read)?;
        }
        let (version, state, model) = read_model(path, &connection, find)?;
        if access == Access::Read {
            connection.execute_batch("COMMIT").map_err(read)?;
        }
        let (path, locked) = (path.to_path_buf(), access == Access::Write);
        let problem = model.learner.problem();
        let own = find(&problem.to_string()).map(|_| problem.clone());
        let (undigested, entries) = (false, Vec::new());
        let store =
            Self { path, connection, access, version, state, own, locked, undigested, entries };
        Ok((store, model))
    }

    /// Writes a new model, solved where it has learned something, and keeps it open to change.
    ///
    /// # Errors
    /// When there is a file of that name, it cannot be written, the model cannot be solved, or some of its summaries are still
    /// in another file.
    pub fn create(path: &Path, model: &Model) -> Result<Self> {
        crate::create::solve(model)?;
        Self::create_as_it_is(path, model)
    }

    fn create_as_it_is(path: &Path, model: &Model) -> Result<Self> {
        let written = crate::create::create(path, model)?;
        // The model is safe by now. Whoever has seen it may have changed it already: the first commit will tell.
        // An error would say that there is no file; what failed for a moment is tried again.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = connect(path, flags).or_else(|_| connect(path, flags))?;
        let mut store = Self {
            path: path.to_path_buf(),
            connection,
            access: Access::Write,
            version: Version::new(path, written.mark, model.learner.records()),
            state: written.state,
            own: Some(model.learner.problem().clone()),
            locked: false,
            undigested: false,
            entries: Vec::new(),
        };
        let _ = store.lock_unchanged();
        Ok(store)
    }

    /// [`Store::create`] for a model that grows task by task, with the solution only where it has been made: where others have
    /// created the file meanwhile, they have changed the model this one is to go into.
    ///
    /// # Errors
    /// As [`Store::create`], with [`FileError::Changed`] in place of [`FileError::Exists`].
    pub fn create_first(path: &Path, model: &Model) -> Result<Self> {
        Self::create_as_it_is(path, model).map_err(|error| match error {
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

    /// Adds a row to the audit table with the next commit.
    pub fn audit(&mut self, entry: AuditEntry) {
        self.entries.push(entry);
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a program has noted in the file under a key ([`Store::set_note`]).
    pub(crate) fn note(&self, key: &str) -> Option<&[u8]> {
        self.state.notes.get(key).map(Vec::as_slice)
    }

    /// Notes something next to the model; the next commit writes it in its transaction.
    pub(crate) fn set_note(&mut self, key: &str, value: Vec<u8>) {
        self.state.notes.insert(key.to_owned(), value);
    }

    /// Reads the summaries of all tasks that are still in the file.
    ///
    /// Where others have written since, a file opened to look is read again, the model with it.
    ///
    /// # Errors
    /// When one of them is damaged, and where others have written since to a file opened to change.
    pub fn load(&mut self, model: &mut Model) -> Result<()> {
        if model.learner.unloaded() == 0 {
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
        let find = |spec: &str| self.own.clone().filter(|own| own.to_string() == spec);
        let (version, state, found) = read_model(&self.path, &self.connection, &find)?;
        (self.version, self.state, *model) = (version, state, found);
        Ok(())
    }

    /// [`Store::load`] in a transaction that is open, of the version the model is of.
    fn load_here(&self, model: &mut Model) -> Result<()> {
        load_summaries(&self.path, &self.connection, self.state.layout, model)
    }

    /// Writes what was changed: all of it or, whatever happens, nothing. The solution is written where it has been made
    /// ([`Learner::is_solved`]); else it is made by whoever asks for it next.
    ///
    /// # Errors
    /// When it cannot be written, or others have changed the file since it was read. The file is then unchanged and no longer
    /// locked; `model` is unchanged too. The next commit locks the file again, writes what this one was to write as well, and
    /// refuses with [`FileError::Changed`] where others have written in between.
    pub fn commit(&mut self, model: &mut Model) -> Result<()> {
        let scope = self.scope(&model.learner);
        let written = self.write(model, scope);
        // The transaction has ended, one way or the other.
        self.locked = false;
        if let Err(error) = written {
            self.exclude_others(false);
            let _ = self.connection.execute_batch("ROLLBACK");
            // A lock that outlasted the transaction goes with the next look at the file.
            let _ = Mark::read(&self.path, &self.connection);
            return Err(error);
        }
        self.undigested = true;
        if scope == Scope::Everything {
            self.wipe();
        }
        // What was to be written is written. Where somebody else was quicker to take the lock, the next commit will tell.
        let _ = self.lock_unchanged();
        Ok(())
    }

    /// [`Store::commit`]; where somebody else wrote right after it, `model` becomes what is in the file then.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn commit_and_follow(&mut self, model: &mut Model) -> Result<()> {
        self.commit(model)?;
        // The commit stands, whatever happens here; the next one will tell.
        if !self.locked && lock(&self.path, &self.connection).is_ok() {
            self.locked = self.follow(model).is_ok();
            if !self.locked {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
        }
        Ok(())
    }

    /// What a commit of this learner has to write.
    fn scope(&self, learner: &Learner) -> Scope {
        let same = learner.edits() == self.state.edits && self.version.begins(learner.records());
        if same { Scope::Append } else { Scope::Everything }
    }

    /// Writes and commits, under the lock.
    fn write(&mut self, model: &mut Model, scope: Scope) -> Result<()> {
        if !self.locked {
            self.lock_unchanged()?;
        }
        if scope == Scope::Everything {
            self.load(model)?;
            self.exclude_others(true);
        }
        let next = self.version.mark().generation + 1;
        let (state, entries) = (&self.state, &self.entries);
        let written = write(&self.path, &self.connection, model, scope, next, state, entries)?;
        self.entries.clear();
        let same = if scope == Scope::Append { self.state.sealed.count() } else { 0 };
        self.version.advance(written.mark, same, model.learner.records());
        self.state = written.state;
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
    /// `VACUUM` cannot be part of a transaction. Were others to write and digest the file before it, it would leave a
    /// checksum of pages that lie elsewhere now; so they are excluded until there is a new one.
    fn wipe(&mut self) {
        let _ = self.connection.execute_batch("VACUUM");
        let begun = self.connection.execute_batch("BEGIN IMMEDIATE").is_ok();
        self.exclude_others(false);
        if begun {
            self.undigested = !write_digest(&mut self.connection);
        } else {
            // The lock goes with the next look at the file.
            let _ = Mark::read(&self.path, &self.connection);
        }
    }

    /// Takes the write lock, if the file has not changed since the model was read from it or written to it.
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
        let now = Contents::read(&self.path, &self.connection)?.version(&self.path);
        Ok(Some(self.version.changes(&now)))
    }

    /// The checksum of the whole file: whether there is one, or what is wrong.
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
        let count: Vec<i64> = self.query("SELECT count(*) FROM summary", |row| row.get(0))?;
        Ok(count.first().and_then(|n| usize::try_from(*n).ok()).unwrap_or(usize::MAX))
    }

    /// How many releases its privacy ledger holds, where it has one.
    pub(crate) fn releases(&self) -> Result<Option<usize>> {
        let read = |e: rusqlite::Error| FileError::sqlite(&self.path, "read", &e);
        let found = ReleaseRows::read(&self.connection).map_err(read)?.transpose();
        Ok(found.map_err(|what| self.damaged(what))?.map(|all| all.rows.len() - 1))
    }

    /// Everything SQLite itself finds wrong, page by page.
    pub(crate) fn integrity(&self) -> Result<Vec<String>> {
        let lines: Vec<String> = self.query("PRAGMA integrity_check(20)", |row| row.get(0))?;
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
        f: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let read = |e: rusqlite::Error| FileError::sqlite(&self.path, "read", &e);
        let mut statement = self.connection.prepare(sql).map_err(read)?;
        let rows = statement.query_map([], f).map_err(read)?.collect::<rusqlite::Result<_>>();
        rows.map_err(read)
    }
}

/// Reads the model of an open file, in the transaction that is open.
fn read_model(
    path: &Path,
    connection: &Connection,
    find: FindLoss<'_>,
) -> Result<(Version, FileState, Model)> {
    let contents = Contents::read(path, connection)?;
    let (version, layout) = (contents.version(path), contents.layout);
    let (sealed, pooled) = (contents.sealed.clone(), contents.pool.as_ref().map(|p| p.tasks));
    let notes = crate::write::notes(&contents.values);
    let model = contents.into_model(path, find)?;
    let prefer = || model.learner.settings().prefer.clone();
    let pool = pooled.map(|tasks| KnownPool { tasks, prefer: prefer() });
    let (edits, calibrations) = (model.learner.edits(), model.learner.calibrations());
    let state = FileState { layout, sealed, edits, calibrations, pool, notes };
    Ok((version, state, model))
}

/// Reads the summaries that are still in an open file.
pub(crate) fn load_summaries(
    path: &Path,
    connection: &Connection,
    layout: Layout,
    model: &mut Model,
) -> Result<()> {
    let learner = &mut model.learner;
    let unloaded = |learner: &Learner, place: usize| learner.task_summary_at(place).is_none();
    let mut from = 0;
    while learner.unloaded() > 0 {
        let count = learner.records().len();
        let Some(start) = (from..count).find(|place| unloaded(learner, *place)) else { break };
        let end = (start..count).find(|place| !unloaded(learner, *place)).unwrap_or(count);
        let found = summaries(path, connection, layout, learner.records(), start..end)?;
        learner
            .load_summaries(found)
            .map_err(|e| FileError::Damaged(path.to_path_buf(), e.to_string()))?;
        from = end;
    }
    Ok(())
}

/// Is there a file? It is not opened here: closing it would drop the locks this process may hold on it.
pub(crate) fn check_file(path: &Path) -> Result<()> {
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

pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
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
    // In kibibytes: where pages of a transaction do not fit, the journal is synced every time some of them are written ahead.
    connection.pragma_update(None, "cache_size", -CACHE).map_err(read)?;
    Ok(connection)
}

/// Begins a transaction during which nobody else can write.
fn lock(path: &Path, connection: &Connection) -> Result<()> {
    // A writer holds its lock for as long as it reads data: waiting for that would look like hanging.
    let failed = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
    connection.busy_timeout(Duration::from_millis(200)).map_err(failed)?;
    let locked = connection.execute_batch("BEGIN IMMEDIATE").map_err(failed);
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    locked
}

/// Writes the checksum of the whole file and ends the transaction. The tasks are safe by now,
/// so where this fails the file merely has none; whether it worked.
pub(crate) fn write_digest(connection: &mut Connection) -> bool {
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
