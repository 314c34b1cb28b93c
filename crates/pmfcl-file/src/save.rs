//! A model in memory, written to a file that others may have changed since.

use std::path::Path;

use crate::error::FileError;
use crate::model::Model;
use crate::store::{Access, Result, Store};
use crate::version::Version;

/// Which model in a file may be replaced.
#[derive(Debug, Clone, Copy)]
pub enum Replace<'a> {
    /// One of these versions: those this model was read from or written to. Nothing is lost that it has not seen.
    Known(&'a [Version]),
    /// Any; its tasks are lost.
    Any,
}

impl Model {
    /// Writes the model, solved where it has learned something, to a new file, or in the place of the one in the file.
    ///
    /// # Errors
    /// When the file holds a model that may not be replaced: [`FileError::Changed`] where it held a known one before,
    /// [`FileError::Occupied`] where it never did. And as [`Store::create`] and [`Store::commit`]; the file is unchanged.
    pub fn save(&self, path: &Path, replace: Replace<'_>) -> Result<Version> {
        if !path.exists() {
            match Store::create(path, self) {
                // Somebody else was quicker; theirs is judged like any other.
                Err(FileError::Exists(_)) => {}
                created => return Ok(created?.version().clone()),
            }
        }
        let problem = self.learner.problem();
        let find = |spec: &str| Some(problem.clone()).filter(|own| own.to_string() == spec);
        let (mut store, _) = Store::open_with(path, Access::Write, &find)?;
        if let Replace::Known(known) = replace {
            let found = store.version();
            if !known.iter().any(|version| version.is_same(found)) {
                let path = path.to_path_buf();
                return Err(match known.iter().find(|version| version.is_at(&path)) {
                    Some(version) => FileError::Changed(path, version.changes(found)),
                    None => FileError::Occupied(path, found.names().map(str::to_owned).collect()),
                });
            }
        }
        let mut model = self.clone();
        store.load(&mut model)?;
        if !model.learner.records().is_empty() {
            model.learner.solution()?;
        }
        store.commit(&mut model)?;
        Ok(store.version().clone())
    }
}
