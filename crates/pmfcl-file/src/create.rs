//! New model files, and models as the bytes of one.
//!
//! A new model is written under another name and linked to its own when its first task is in: a file of that name is a whole
//! model.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::digest;
use crate::error::FileError;
use crate::layout::{APPLICATION, TABLES, VERSION, page};
use crate::model::Model;
use crate::read::Contents;
use crate::store::{Result, connect, load_summaries, write_digest};
use crate::write::{FileState, Scope, Written, write};

/// What a model that is no file is called in messages.
const IN_MEMORY: &str = "(bytes)";

/// The generation of a new file.
const FIRST: i64 = 1;

/// Writes a new file, and returns what it holds. The solution is written where it has been made.
pub(crate) fn create(path: &Path, model: &Model) -> Result<Written> {
    if path.is_dir() {
        return Err(FileError::Directory(path.to_path_buf()));
    }
    if path.exists() {
        return Err(FileError::Exists(path.to_path_buf()));
    }
    check_loaded(model, "a copy in another file")?;
    let draft = claim_draft(path)?;
    let done = write_draft(&draft, model).and_then(|written| {
        publish(&draft, path)?;
        Ok(written)
    });
    // Whatever happened, the other name goes, and a journal that could not be deleted with it.
    let _ = fs::remove_file(&draft);
    let mut journal = draft.into_os_string();
    journal.push("-journal");
    let _ = fs::remove_file(journal);
    done
}

/// Refuses a model whose summaries are in another file.
fn check_loaded(model: &Model, operation: &'static str) -> Result<()> {
    match model.learner.unloaded() {
        0 => Ok(()),
        missing => Err(pmfcl::Error::Unloaded { operation, missing }.into()),
    }
}

/// Makes the solution of a model that has learned something, so that it is written.
pub(crate) fn solve(model: &Model) -> Result<()> {
    if !model.learner.records().is_empty() {
        model.learner.solution()?;
    }
    Ok(())
}

/// An empty file next to the model's name that nobody else has: two machines may well have processes of the same
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
        match private().write(true).create_new(true).open(&draft) {
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

/// Options for a file that its owner alone can read: a summary gives rows away. Whoever may read the model is for the owner to say.
fn private() -> fs::OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates an empty file for its owner alone, unless it is there.
#[cfg(feature = "private")]
pub(crate) fn private_file(path: &Path) -> std::io::Result<()> {
    match private().write(true).create_new(true).open(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}

fn write_draft(draft: &Path, model: &Model) -> Result<Written> {
    let mut connection =
        connect(draft, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let written = write_new(draft, &mut connection, model)?;
    connection.close().map_err(|(_, e)| FileError::sqlite(draft, "write", &e))?;
    Ok(written)
}

/// Writes a whole model into an empty database.
fn write_new(path: &Path, connection: &mut Connection, model: &Model) -> Result<Written> {
    let failed = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
    connection.pragma_update(None, "page_size", page(&model.learner)).map_err(failed)?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    connection.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
    connection.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    for (_, sql) in TABLES {
        connection.execute_batch(sql).map_err(failed)?;
    }
    connection.execute("INSERT INTO digest VALUES (1, ?1)", [&digest::NONE[..]]).map_err(failed)?;
    let state = FileState::empty();
    let written = write(path, connection, model, Scope::Everything, FIRST, &state, &[])?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    write_digest(connection);
    Ok(written)
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

impl Model {
    /// The model as the bytes of a model file; the same model gives the same bytes. It is solved first.
    ///
    /// # Errors
    /// When it cannot be solved, or some of its summaries are still in a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        check_loaded(self, "a copy as bytes")?;
        solve(self)?;
        let path = Path::new(IN_MEMORY);
        let failed = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
        let mut connection = Connection::open_in_memory().map_err(failed)?;
        write_new(path, &mut connection, self)?;
        Ok(connection.serialize("main").map_err(failed)?.to_vec())
    }

    /// Reads what [`Model::to_bytes`] wrote, or the bytes of any model file, with all summaries.
    ///
    /// # Errors
    /// As [`Store::open`](crate::Store::open).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let path = PathBuf::from(IN_MEMORY);
        let read = |e: rusqlite::Error| FileError::sqlite(&path, "read", &e);
        if bytes.is_empty() {
            return Err(FileError::NotAModel(path, "there are no bytes"));
        }
        let mut connection = Connection::open_in_memory().map_err(read)?;
        connection.pragma_update(None, "trusted_schema", "OFF").map_err(read)?;
        connection.deserialize_read_exact("main", bytes, bytes.len(), true).map_err(read)?;
        let contents = Contents::read(&path, &connection)?;
        let layout = contents.layout;
        let mut model = contents.into_model(&path, &|_| None)?;
        load_summaries(&path, &connection, layout, &mut model)?;
        Ok(model)
    }
}
