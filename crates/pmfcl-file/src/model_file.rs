//! A model and the file it is in.

use std::path::Path;

use pmfcl::problem::Draft;
use pmfcl::{Design, Problem};

use crate::error::FileError;
use crate::model::Model;
use crate::store::{Access, Result, Store};

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

    /// As [`Store::open_with`], for a model with a loss of the user's own.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(
        path: &Path,
        access: Access,
        find: &dyn Fn(&str) -> Option<Problem>,
    ) -> Result<Self> {
        let (store, model) = Store::open_with(path, access, find)?;
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

    /// The model, to change; [`ModelFile::commit`] writes what was changed.
    pub fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Puts a fitted task into memory: [`Learner::insert`](pmfcl::Learner::insert).
    ///
    /// # Errors
    /// As [`Learner::insert`](pmfcl::Learner::insert).
    pub fn insert(
        &mut self,
        name: &str,
        design: &Design,
        draft: impl Into<Draft>,
        weight: f64,
    ) -> Result<()> {
        Ok(self.model.learner.insert(name, design, draft, weight)?)
    }

    /// File and model, each on its own.
    pub fn into_parts(self) -> (Store, Model) {
        (self.store, self.model)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.store.path()
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
    pub fn commit(&mut self) -> Result<()> {
        self.store.commit_and_follow(&mut self.model)
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
