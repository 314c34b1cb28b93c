//! Models as bytes and as files, the same as the command line's.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmfcl_file::{Access, Changes, FileError, Model, Replace, Store, Version};
use pyo3::exceptions::{PyFileExistsError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::call::{ModelChangedError, outside, raised_by_file};
use crate::model::PyModel;

/// Files a model remembers; others are replaced only where the caller says so.
const MOST_FILES: usize = 16;

/// The versions of the files that a model was loaded from or saved to, the latest last. Behind a lock, so that other threads can
/// predict while one saves.
#[derive(Default)]
pub(crate) struct KnownFiles(Mutex<Vec<Version>>);

impl Clone for KnownFiles {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.lock().clone()))
    }
}

impl KnownFiles {
    fn lock(&self) -> MutexGuard<'_, Vec<Version>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, version: Version) {
        let mut files = self.lock();
        files.retain(|known| !known.is_beside(&version));
        files.push(version);
        let surplus = files.len().saturating_sub(MOST_FILES);
        files.drain(..surplus);
    }
}

impl PyModel {
    /// The exception for a file that others have changed: what they did, and how to keep both.
    fn changed(&self, py: Python<'_>, path: &Path, changes: &Changes) -> PyErr {
        let files = self.files.lock();
        let base = files.iter().find(|version| version.is_at(path));
        let before = |name: &str| base.is_some_and(|base| base.names().any(|known| known == name));
        let own: Vec<&str> = self.learner().names().filter(|name| !before(name)).collect();
        let advice = || -> PyResult<String> {
            let place = PyString::new(py, &path.to_string_lossy()).repr()?;
            if own.is_empty() {
                return Ok(format!(
                    "load it again (pmfcl.load({place})), repeat the change and save"
                ));
            }
            let tasks = PyList::new(py, &own)?.repr()?;
            if self.learner().is_folded() {
                return Ok(format!(
                    "load it again (pmfcl.load({place})), partial_fit the rows of {tasks} once more and save"
                ));
            }
            let taken = own.iter().any(|name| {
                changes.learned.iter().chain(&changes.replaced).any(|theirs| theirs == name)
            });
            let prefix = if taken { ", prefix='mine'" } else { "" };
            Ok(format!(
                "to keep both: new = pmfcl.load({place}); new.merge(model, tasks={tasks}{prefix}); new.save({place}); \
                 or load it and partial_fit the rows once more"
            ))
        };
        match advice() {
            Ok(advice) => ModelChangedError::new_err(format!(
                "{}: the file was changed since this model was loaded from it or saved to it ({changes}); nothing was written; {advice}",
                path.display()
            )),
            Err(error) => error,
        }
    }
}

/// What pickle rebuilds a model from: a function, and the bytes and known versions to call it with.
type Recipe<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>, Option<String>));

#[pymethods]
impl PyModel {
    /// The bytes of its model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = outside(py, || self.model.to_bytes().map_err(raised_by_file))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// From bytes of a model file, and what `__reduce__` wrote about the files the model knows.
    #[staticmethod]
    #[pyo3(signature = (bytes, files=None))]
    fn from_bytes(py: Python<'_>, bytes: &[u8], files: Option<&str>) -> PyResult<Self> {
        let model = outside(py, || Model::from_bytes(bytes).map(Self::of).map_err(raised_by_file))?;
        if let Some(text) = files {
            let known = Version::from_text(text).map_err(PyValueError::new_err)?;
            for version in known {
                model.files.remember(version);
            }
        }
        Ok(model)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Recipe<'py>> {
        let from_bytes = slf.get_type().getattr("from_bytes")?;
        let own = slf.borrow();
        let files = Version::to_text(&own.files.lock());
        Ok((from_bytes, (own.to_bytes(slf.py())?, files)))
    }

    fn __copy__(&self) -> Self {
        let (model, features) = (self.model.clone(), self.features.clone());
        Self { model, features, files: self.files.clone() }
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }

    /// Writes the model file, solved. Where there is one, it is replaced if this model was loaded from it or saved to it and nobody
    /// has changed it since, or if `overwrite` is set.
    #[pyo3(signature = (path, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let known = self.files.lock().clone();
        let saved = outside(py, || {
            let replace = if overwrite { Replace::Any } else { Replace::Known(&known) };
            Ok(self.model.save(&path, replace))
        })?;
        match saved {
            Ok(version) => {
                self.files.remember(version);
                Ok(())
            }
            Err(FileError::Changed(path, changes)) => Err(self.changed(py, &path, &changes)),
            Err(error @ FileError::Occupied(..)) => Err(PyFileExistsError::new_err(format!(
                "{error}; save(path, overwrite=True) replaces it, and its tasks are lost"
            ))),
            Err(other) => Err(raised_by_file(other)),
        }
    }

    /// Reads a model file with all its summaries.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let (model, version) = outside(py, || {
            let read = || {
                let (mut store, mut model) = Store::open(&path, Access::Read)?;
                store.load(&mut model)?;
                Ok((model, store.version().clone()))
            };
            read().map_err(raised_by_file)
        })?;
        let model = Self::of(model);
        model.files.remember(version);
        Ok(model)
    }
}
