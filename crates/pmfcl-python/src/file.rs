//! Models as bytes and as files, the same as the command line's.

use std::path::PathBuf;

use pmfcl_file::{Access, Change, Model, Store};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::{outside, raised_by_file};
use crate::model::PyModel;

#[pymethods]
impl PyModel {
    /// The bytes of its model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = outside(py, || self.model.to_bytes().map_err(raised_by_file))?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        outside(py, || Model::from_bytes(bytes).map(Self::new).map_err(raised_by_file))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let from_bytes = slf.get_type().getattr("from_bytes")?;
        Ok((from_bytes, (slf.borrow().to_bytes(slf.py())?,)))
    }

    fn __copy__(&self) -> Self {
        Self { model: self.model.clone(), features: self.features.clone() }
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }

    /// Writes the model file, or puts this model in the place of the one in it.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        outside(py, || {
            let written = || {
                if !path.exists() {
                    return Store::create(&path, &self.model).map(|_| ());
                }
                let (mut store, _) = Store::open(&path, Access::Write)?;
                store.commit(&mut self.model.clone(), Change::All)
            };
            written().map_err(raised_by_file)
        })
    }

    /// Reads a model file with all its summaries.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        outside(py, || {
            let read = || {
                let (store, mut model) = Store::open(&path, Access::Read)?;
                store.load(&mut model)?;
                Ok(Self::new(model))
            };
            read().map_err(raised_by_file)
        })
    }
}
