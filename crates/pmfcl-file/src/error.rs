//! What can be wrong with a model file, where, and what to do.

use std::path::{Path, PathBuf};

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
    /// Another process writes.
    #[error("{path}: another process is changing this model; try again when it has finished", path = .0.display())]
    Locked(PathBuf),
    /// Bytes have changed.
    #[error("{path}: the file is damaged: {what}; restore it from a copy", path = .0.display(), what = .1)]
    Damaged(PathBuf, String),
    /// No room.
    #[error("{path}: the disk is full; the model is as it was, make room and run the command again", path = .0.display())]
    Full(PathBuf),
    /// The system refuses.
    #[error("{path}: {what}", path = .0.display(), what = .1)]
    Io(PathBuf, String),
    /// A server is started on a file of another one.
    #[error("{path}: this is the model of another federation (other columns, basis, loss or classes); name another file", path = .0.display())]
    OtherFederation(PathBuf),
    /// The learner refuses.
    #[error(transparent)]
    Core(#[from] pmfcl::Error),
}

impl FileError {
    /// What SQLite said, in our words. `doing` is `"read"` or `"write"`.
    pub(crate) fn sqlite(path: &Path, doing: &'static str, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let path = path.to_path_buf();
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Locked(path),
            Some(Code::DiskFull) => Self::Full(path),
            Some(Code::ReadOnly | Code::PermissionDenied) => Self::Permission(path, "write"),
            Some(Code::CannotOpen) => Self::Permission(path, doing),
            Some(Code::NotADatabase) => Self::NotAModel(path, "no SQLite database"),
            Some(Code::SystemIoFailure) if doing == "write" => Self::Io(
                path,
                format!("the system could not write it ({text}); the model is as it was"),
            ),
            Some(Code::SystemIoFailure) => {
                Self::Io(path, format!("the system could not read it ({text})"))
            }
            _ => Self::Damaged(path, text),
        }
    }
}
