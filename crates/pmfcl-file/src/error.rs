//! What can be wrong with a model file, where, and what to do.

use std::path::{Path, PathBuf};

use rusqlite::ffi::SQLITE_READONLY_DBMOVED;

use crate::store::PATIENCE;
use crate::version::{Changes, listed};

/// A model file that cannot be read, or cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Nothing there.
    #[error("{path}: there is no such model; `pmfcl learn` creates one", path = .0.display())]
    NotFound(PathBuf),
    /// Something is there already.
    #[error("{path}: there is a file of that name already; choose another name or remove it first", path = .0.display())]
    Exists(PathBuf),
    /// A directory is no model.
    #[error("{path}: this is a directory; name a model file, such as {example}", path = .0.display(), example = .0.join("model.pmf").display())]
    Directory(PathBuf),
    /// No permission.
    #[error("{path}: no permission to {doing} it; check the rights of the file and its directory", path = .0.display(), doing = .1)]
    Permission(PathBuf, &'static str),
    /// Another kind of file.
    #[error("{path}: this is not a pmfcl model ({why})", path = .0.display(), why = .1)]
    NotAModel(PathBuf, &'static str),
    /// Written by a newer program.
    #[error("{path}: written by a newer pmfcl (file version {found}, this program knows {known}); update pmfcl to use it", path = .0.display(), found = .1, known = .2)]
    Newer(PathBuf, i64, i64),
    /// Learned by a loss that is not pmfcl's own.
    #[error("{path}: this model was learned by the loss `{loss}`, which this program does not know; open it with `ModelFile::open_with` and that loss", path = .0.display(), loss = .1)]
    UnknownLoss(PathBuf, String),
    /// Another process writes.
    #[error("{path}: another process is changing this model; try again when it has finished", path = .0.display())]
    Locked(PathBuf),
    /// A commit has waited for another process in vain.
    #[error("{path}: another process has been reading this model for {seconds} s; nothing was written, and the model is no longer locked by this one; try again when it has finished", path = .0.display(), seconds = PATIENCE.as_secs())]
    Reading(PathBuf),
    /// Others have written since the model was read.
    #[error("{path}: another process has changed this model since it was read ({changes}); nothing was written; run the command again, or open the model again and repeat the change", path = .0.display(), changes = .1)]
    Changed(PathBuf, Changes),
    /// Somebody moved the file while it was open.
    #[error("{path}: the file was moved, removed or replaced while it was open; nothing was written; open the model again and repeat the change", path = .0.display())]
    Moved(PathBuf),
    /// There is another model.
    #[error("{path}: there is a model already, which this one does not come from (it holds {tasks}); load it and go on with it, or choose another name", path = .0.display(), tasks = listed(.1.iter().map(String::as_str)))]
    Occupied(PathBuf, Vec<String>),
    /// Bytes have changed.
    #[error("{path}: the file is damaged: {what}; restore it from a copy", path = .0.display(), what = .1)]
    Damaged(PathBuf, String),
    /// No room.
    #[error("{path}: the disk is full; the model is as it was and no longer locked by this process; make room and try again", path = .0.display())]
    Full(PathBuf),
    /// The system refuses.
    #[error("{path}: {what}", path = .0.display(), what = .1)]
    Io(PathBuf, String),
    /// A server is started on a file of another one.
    #[error("{path}: this is the model of another federation (other columns, basis, loss or classes); name another file", path = .0.display())]
    OtherFederation(PathBuf),
    /// A server is started on a file with a task that no client sent.
    #[error("{path}: {what}; `pmfcl unlearn {path} TASK` removes such a task, and `pmfcl learn --name CLIENT/STEP` learns rows as a client's step", path = .0.display(), what = .1)]
    NotOfAClient(PathBuf, String),
    /// A privacy ledger is opened with another total than it was begun with.
    #[error("{path}: this privacy ledger was begun with a total of {kept}, not of {asked}; what was promised cannot be raised: open it with that total", path = .0.display(), kept = .1, asked = .2)]
    OtherTotal(PathBuf, String, String),
    /// The learner refuses.
    #[error(transparent)]
    Core(#[from] pmfcl::Error),
}

impl FileError {
    /// What SQLite said of a `COMMIT`, which waits for readers: nobody else can be writing.
    pub(crate) fn committing(path: &Path, error: &rusqlite::Error) -> Self {
        match Self::sqlite(path, "write", error) {
            Self::Locked(path) => Self::Reading(path),
            other => other,
        }
    }

    /// What SQLite said, in our words. `doing` is `"read"` or `"write"`.
    pub(crate) fn sqlite(path: &Path, doing: &'static str, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let path = path.to_path_buf();
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Locked(path),
            Some(Code::DiskFull) => Self::Full(path),
            Some(Code::ReadOnly) if extended(error) == Some(SQLITE_READONLY_DBMOVED) => {
                Self::Moved(path)
            }
            Some(Code::ReadOnly | Code::PermissionDenied) => Self::Permission(path, "write"),
            Some(Code::CannotOpen) => Self::Permission(path, doing),
            Some(Code::NotADatabase) => Self::NotAModel(path, "no SQLite database"),
            Some(Code::SystemIoFailure) if doing == "write" => Self::Io(
                path,
                format!(
                    "the system could not write it ({text}); the model is as it was and no longer locked by this process; try again"
                ),
            ),
            Some(Code::SystemIoFailure) => {
                Self::Io(path, format!("the system could not read it ({text})"))
            }
            _ => Self::Damaged(path, text),
        }
    }
}

/// SQLite's finer code.
fn extended(error: &rusqlite::Error) -> Option<i32> {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => Some(failure.extended_code),
        _ => None,
    }
}
