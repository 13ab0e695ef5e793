//! Snapshots and transactions.

use std::sync::Mutex;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes as Bytes;
use pyo3::types::{PyBytes, PyTuple};

use crate::db::Tree;
use crate::error::closed;
use crate::handle::{Closable, Handle};
use crate::iterate::{limits, lock};
use crate::mapping::{State, TreeRange};
use crate::merge::call;

/// A snapshot of a store. `with` releases it at the end of the block.
#[pyclass(frozen, module = "firn")]
pub struct Snapshot(Closable<firn_kv::Snapshot>);

impl Snapshot {
    pub fn new(snapshot: firn_kv::Snapshot) -> Snapshot {
        Snapshot(Closable::new("snapshot", snapshot))
    }

    /// Returns the engine's snapshot.
    pub fn handle(&self) -> PyResult<firn_kv::Snapshot> {
        self.0.get()
    }
}

#[pymethods]
impl Snapshot {
    /// Return the tree as it was, as a mapping.
    fn __getitem__(this: Bound<'_, Self>, tree: &Tree) -> PyResult<Py<PyAny>> {
        let py = this.py();
        TreeRange::all((*tree.tree).clone(), State::Snapshot(this.unbind())).into_object(py)
    }

    #[pyo3(signature = (tree, key, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        tree: &Tree,
        key: Bytes,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let snapshot = self.0.get()?;
        // Another thread may close the snapshot meanwhile: then this is its last handle.
        let found = call(py, move || snapshot.get(&tree.tree, &key))?;
        Ok(found.map(|v| PyBytes::new(py, &v).into_any().unbind()).or(default))
    }

    #[pyo3(signature = (tree, start=None, end=None, *, prefix=None, reverse=false))]
    fn items<'py>(
        this: &Bound<'py, Self>,
        tree: &Tree,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let range = Snapshot::__getitem__(this.clone(), tree)?;
        TreeRange::view_of(range.bind(this.py()), limits(start, end, prefix)?, reverse)
    }

    /// Release it: until then the store retains its data.
    fn close(&self, py: Python<'_>) {
        let open = self.0.take();
        py.detach(|| drop(open));
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

/// Atomic reads and writes. `with` commits at the end of the block, and aborts if an exception
/// leaves it.
#[pyclass(frozen, module = "firn")]
pub struct Transaction(Handle<Mutex<Option<firn_kv::Transaction>>>);

impl Transaction {
    pub fn new(transaction: firn_kv::Transaction) -> Transaction {
        Transaction(Handle::new(Mutex::new(Some(transaction))))
    }

    /// Reports whether it was committed or rolled back.
    fn is_over(&self, py: Python<'_>) -> bool {
        py.detach(|| lock(&self.0).is_none())
    }

    /// Works with the transaction without the interpreter's lock.
    pub fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut firn_kv::Transaction) -> firn_kv::Result<T> + Send,
    ) -> PyResult<T> {
        // The lock is acquired without the interpreter's lock, to avoid a deadlock.
        call(py, || lock(&self.0).as_mut().map(work).transpose())?
            .ok_or_else(|| closed("transaction"))
    }
}

#[pymethods]
impl Transaction {
    /// Return the tree as the transaction sees and changes it, as a mapping.
    fn __getitem__(this: Bound<'_, Self>, tree: &Tree) -> PyResult<Py<PyAny>> {
        let py = this.py();
        TreeRange::all((*tree.tree).clone(), State::Transaction(this.unbind())).into_object(py)
    }

    #[pyo3(signature = (tree, key, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        tree: &Tree,
        key: Bytes,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let found = self.with(py, |tx| tx.get(&tree.tree, &key))?;
        Ok(found.map(|v| PyBytes::new(py, &v).into_any().unbind()).or(default))
    }

    fn put(&self, py: Python<'_>, tree: &Tree, key: Bytes, value: Bytes) -> PyResult<()> {
        self.with(py, |tx| tx.put(&tree.tree, &key, &value))
    }

    fn delete(&self, py: Python<'_>, tree: &Tree, key: Bytes) -> PyResult<()> {
        self.with(py, |tx| tx.delete(&tree.tree, &key))
    }

    #[pyo3(signature = (tree, start=None, end=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        tree: &Tree,
        start: Option<Bytes>,
        end: Option<Bytes>,
    ) -> PyResult<()> {
        let limits = limits(start, end, None)?;
        self.with(py, |tx| tx.delete_range(&tree.tree, limits.range()))
    }

    #[pyo3(signature = (tree, start=None, end=None, *, prefix=None, reverse=false))]
    fn items<'py>(
        this: &Bound<'py, Self>,
        tree: &Tree,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let range = Transaction::__getitem__(this.clone(), tree)?;
        TreeRange::view_of(range.bind(this.py()), limits(start, end, prefix)?, reverse)
    }

    /// Lock a key until the transaction ends: another transaction that locks it waits, in the order
    /// of the calls, for at most `timeout` seconds. Raise `LockedError` after that time, and
    /// `ConflictError` for a deadlock.
    #[pyo3(signature = (tree, key, *, timeout=10.0))]
    fn lock(&self, py: Python<'_>, tree: &Tree, key: Bytes, timeout: f64) -> PyResult<()> {
        let wait = Duration::try_from_secs_f64(timeout)
            .map_err(|e| PyValueError::new_err(format!("the timeout {timeout}: {e}")))?;
        self.with(py, |tx| tx.lock(&tree.tree, &key, wait))
    }

    /// Return the pending writes, for `rollback_to`. `with tx.savepoint()` rolls back to it if an
    /// exception leaves the block.
    fn savepoint(this: Bound<'_, Self>) -> PyResult<Savepoint> {
        let py = this.py();
        let savepoint = this.get().with(py, |tx| Ok(tx.savepoint()))?;
        Ok(Savepoint { savepoint: Handle::new(savepoint), transaction: this.unbind() })
    }

    /// Restore the pending writes of a savepoint, which stays usable. Reads still count, and locks
    /// stay.
    fn rollback_to(&self, py: Python<'_>, savepoint: &Savepoint) -> PyResult<()> {
        self.with(py, |tx| tx.rollback_to(&savepoint.savepoint))
    }

    /// Execute all writes; on `ConflictError` or another failure none. The transaction is over in
    /// any case.
    pub fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let done = call(py, || lock(&self.0).take().map(firn_kv::Transaction::commit).transpose())?;
        done.ok_or_else(|| closed("transaction"))
    }

    /// Abort the transaction.
    pub fn rollback(&self, py: Python<'_>) {
        // Waiting for a call of another thread, or releasing data that retained files, happens
        // without the interpreter's lock.
        py.detach(|| drop(lock(&self.0).take()));
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (kind, *_why))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _why: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        if !kind.is_none() {
            self.rollback(py);
            return Ok(());
        }
        // A commit or rollback in the block has ended the transaction already.
        call(py, || lock(&self.0).take().map_or(Ok(()), firn_kv::Transaction::commit))
    }
}

/// The pending writes of a transaction at one moment.
#[pyclass(frozen, module = "firn")]
pub struct Savepoint {
    savepoint: Handle<firn_kv::Savepoint>,
    transaction: Py<Transaction>,
}

#[pymethods]
impl Savepoint {
    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (kind, *_why))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _why: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        // A transaction that has ended has nothing to restore.
        if kind.is_none() || self.transaction.get().is_over(py) {
            return Ok(());
        }
        self.transaction.get().rollback_to(py, self)
    }
}
