//! Stores of results: the command's directory, a mapping of the caller, or none.

use std::sync::Arc;

use ebbpool_lab::{ResultDirectory, ResultStorage, Settings, SharedStore};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A place for results.
#[pyclass(frozen, module = "ebbpool._ebbpool")]
pub(crate) struct Results {
    storage: Option<ResultStorage>,
    trace_key: Option<[u8; 32]>,
}

/// A mapping from text to bytes. What it cannot return or take is computed again.
struct MappingStore(Py<PyAny>);

impl SharedStore for MappingStore {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        Python::attach(|py| {
            let value = self.0.bind(py).get_item(key).ok()?;
            let value = value.cast::<PyBytes>().ok()?;
            Some(value.as_bytes().to_vec())
        })
    }

    fn put(&self, key: &str, value: &[u8]) {
        Python::attach(|py| {
            let value = PyBytes::new(py, value);
            let _ = self.0.bind(py).set_item(key, value);
        });
    }
}

#[pymethods]
impl Results {
    /// No place: nothing is stored.
    #[staticmethod]
    fn nowhere() -> Self {
        Results { storage: None, trace_key: None }
    }

    /// The directory in which the command stores results, or another one.
    #[staticmethod]
    #[pyo3(signature = (path = None))]
    fn directory(path: Option<&str>) -> Self {
        let directory = match path {
            Some(path) => Some(ResultDirectory::new(path)),
            None => ebbpool_cli::result_directory(),
        };
        Results { storage: directory.map(ResultStorage::Directory), trace_key: None }
    }

    /// A mapping from text to bytes.
    #[staticmethod]
    fn mapping(mapping: Py<PyAny>) -> Self {
        Results { storage: Some(ResultStorage::Shared(Arc::new(MappingStore(mapping)))), trace_key: None }
    }

    /// Results in this place over the trace with this key, which is then not computed again.
    fn of_trace(&self, key: [u8; 32]) -> Self {
        Results { storage: self.storage.clone(), trace_key: Some(key) }
    }

    /// The value of a key of 64 hexadecimal digits.
    fn get<'py>(&self, py: Python<'py>, key: &str) -> Option<Bound<'py, PyBytes>> {
        let value = py.detach(|| self.storage.as_ref()?.get(key))?;
        Some(PyBytes::new(py, &value))
    }

    /// Stores a value.
    fn put(&self, py: Python<'_>, key: &str, value: Vec<u8>) {
        py.detach(|| {
            if let Some(storage) = &self.storage {
                storage.put(key, &value);
            }
        });
    }
}

impl Results {
    /// Settings of a lab that uses this place.
    pub(crate) fn settings(&self, threads: Option<usize>) -> Settings {
        let settings = Settings::default().storage(self.storage.clone());
        let settings = match threads {
            Some(threads) => settings.threads(threads),
            None => settings,
        };
        match self.trace_key {
            Some(key) => settings.trace_key(key),
            None => settings,
        }
    }
}
