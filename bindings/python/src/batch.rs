//! Batches: writes that are executed together.

use std::sync::Mutex;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes as Bytes;
use pyo3::types::{PyAny, PySlice, PyTuple};

use crate::db::Tree;
use crate::error::of_kv;
use crate::handle::Handle;
use crate::iterate::{limits, lock};
use crate::mapping::{each_pair, slice_limits};
use crate::merge::call;

/// Writes that are executed atomically, by `Db.write` or at the end of `with db.batch()`.
#[pyclass(frozen, module = "firn")]
pub struct Batch {
    batch: Mutex<firn_kv::Batch>,
    /// The store that the end of a `with` block writes to.
    db: Option<Handle<firn_kv::Db>>,
}

impl Batch {
    /// Creates a batch that a `with` block writes to this store.
    pub fn of(db: firn_kv::Db) -> Batch {
        Batch { batch: Mutex::default(), db: Some(Handle::new(db)) }
    }

    /// Takes the writes; it is empty afterwards.
    pub fn take(&self) -> firn_kv::Batch {
        std::mem::take(&mut lock(&self.batch))
    }
}

#[pymethods]
impl Batch {
    #[new]
    fn new() -> Batch {
        Batch { batch: Mutex::default(), db: None }
    }

    fn __len__(&self) -> usize {
        lock(&self.batch).len()
    }

    /// Return the writes of a tree: `batch[tree][key] = value`, `del batch[tree][key]`.
    fn __getitem__(this: Bound<'_, Self>, tree: &Tree) -> BatchTree {
        BatchTree { batch: this.unbind(), tree: Handle::new((*tree.tree).clone()) }
    }

    fn put(&self, tree: &Tree, key: Bytes, value: Bytes) -> PyResult<()> {
        lock(&self.batch).put(&tree.tree, &key, &value).map_err(of_kv)
    }

    fn merge(&self, tree: &Tree, key: Bytes, operand: Bytes) -> PyResult<()> {
        lock(&self.batch).merge(&tree.tree, &key, &operand).map_err(of_kv)
    }

    fn delete(&self, tree: &Tree, key: Bytes) -> PyResult<()> {
        lock(&self.batch).delete(&tree.tree, &key).map_err(of_kv)
    }

    #[pyo3(signature = (tree, start=None, end=None))]
    fn delete_range(&self, tree: &Tree, start: Option<Bytes>, end: Option<Bytes>) -> PyResult<()> {
        let limits = limits(start, end, None)?;
        lock(&self.batch).delete_range(&tree.tree, limits.range()).map_err(of_kv)
    }

    /// Discard the writes.
    fn clear(&self) {
        drop(self.take());
    }

    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        match this.get().db {
            Some(_) => Ok(this),
            None => Err(PyValueError::new_err("the batch has no store: use `with db.batch()`")),
        }
    }

    #[pyo3(signature = (kind, *_why))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _why: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let batch = self.take();
        match &self.db {
            Some(db) if kind.is_none() => call(py, || db.write(batch)),
            _ => Ok(()),
        }
    }
}

/// The writes of a tree in a batch. It cannot be read.
#[pyclass(frozen, module = "firn")]
pub struct BatchTree {
    batch: Py<Batch>,
    tree: Handle<firn_kv::Tree>,
}

impl BatchTree {
    fn with(
        &self,
        add: impl FnOnce(&mut firn_kv::Batch, &firn_kv::Tree) -> firn_kv::Result<()>,
    ) -> PyResult<()> {
        add(&mut lock(&self.batch.get().batch), &self.tree).map_err(of_kv)
    }
}

#[pymethods]
impl BatchTree {
    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if key.is_instance_of::<PySlice>() {
            return Err(PyTypeError::new_err("a range of keys cannot be assigned: use update"));
        }
        let (key, value): (Bytes, Bytes) = (key.extract()?, value.extract()?);
        self.with(|batch, tree| batch.put(tree, &key, &value))
    }

    /// Deletes a key, which may be missing, or the keys of a slice.
    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let limits = slice_limits(slice)?;
            return self.with(|batch, tree| batch.delete_range(tree, limits.range()));
        }
        let key: Bytes = key.extract()?;
        self.with(|batch, tree| batch.delete(tree, &key))
    }

    /// Add an operand to a key.
    fn merge(&self, key: Bytes, operand: Bytes) -> PyResult<()> {
        self.with(|batch, tree| batch.merge(tree, &key, &operand))
    }

    /// Set the keys of a mapping, or of an iterable of pairs.
    fn update(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        each_pair(other, |key, value| self.with(|batch, tree| batch.put(tree, &key, &value)))
    }

    /// Delete all keys of the tree.
    fn clear(&self) -> PyResult<()> {
        self.with(|batch, tree| batch.delete_range(tree, ..))
    }
}
