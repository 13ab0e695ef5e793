//! Iterators, snapshots, transactions, batches.

use std::collections::VecDeque;
use std::ops::Bound as End;
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_kv::internals::base::key::prefix_end;
use firn_kv::{Range, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes as Bytes;
use pyo3::types::{PyBytes, PyTuple};

use crate::db::Tree;
use crate::error::{closed, of_kv};
use crate::handle::{Closable, Handle};
use crate::merge::{call, is_interrupted};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Range and direction of an iterator.
pub struct Limits {
    start: End<Vec<u8>>,
    end: End<Vec<u8>>,
    /// From the end to the start.
    pub reverse: bool,
}

impl Limits {
    /// Returns the range of keys.
    pub fn range(&self) -> (End<&[u8]>, End<&[u8]>) {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }
}

/// Returns the keys from `start` on, before `end`, or those with a prefix.
pub fn limits(
    start: Option<Bytes>,
    end: Option<Bytes>,
    prefix: Option<Bytes>,
    reverse: bool,
) -> PyResult<Limits> {
    if prefix.is_some() && (start.is_some() || end.is_some()) {
        return Err(PyValueError::new_err("keys are chosen by a prefix, or by start and end"));
    }
    if let Some(prefix) = prefix {
        let end = prefix_end(&prefix).map_or(End::Unbounded, End::Excluded);
        return Ok(Limits { start: End::Included(prefix.to_vec()), end, reverse });
    }
    let start = start.map_or(End::Unbounded, |b| End::Included(b.to_vec()));
    Ok(Limits { start, end: end.map_or(End::Unbounded, |b| End::Excluded(b.to_vec())), reverse })
}

/// The items of an iterator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Items,
    Keys,
    Values,
}

/// Maximum number of entries fetched at once, so that the interpreter's lock is released once for
/// all of them.
const AHEAD: usize = 64;

struct Walk {
    range: Range,
    /// Fetched entries that are not returned yet.
    ready: VecDeque<(Value, Value)>,
    /// The error that ended the range.
    failed: Option<firn_kv::Error>,
    /// Number of entries of the next fetch.
    step: usize,
}

/// Entries of a key range, in the state of its creation.
#[pyclass(frozen, module = "firn")]
pub struct Items {
    walk: Handle<Mutex<Walk>>,
    kind: Kind,
    reverse: bool,
    ahead: bool,
}

impl Items {
    /// `ahead`: whether to prefetch entries. In a transaction these would count as read.
    pub fn new(range: Range, kind: Kind, reverse: bool, ahead: bool) -> Items {
        let walk = Walk { range, ready: VecDeque::new(), failed: None, step: 1 };
        Items { walk: Handle::new(Mutex::new(walk)), kind, reverse, ahead }
    }

    fn entry(&self) -> firn_kv::Result<Option<(Value, Value)>> {
        let mut walk = lock(&self.walk);
        if walk.ready.is_empty() && walk.failed.is_none() {
            for _ in 0..walk.step {
                let next = if self.reverse { walk.range.next_back() } else { walk.range.next() };
                match next.transpose() {
                    Ok(Some(entry)) => walk.ready.push_back(entry),
                    Ok(None) => break,
                    Err(e) => {
                        walk.failed = Some(e);
                        break;
                    }
                }
            }
            if self.ahead {
                walk.step = (walk.step * 2).min(AHEAD);
            }
        }
        // Entries fetched before an interrupt stay available for a caller that continues.
        if let Some(e) = walk.failed.take_if(|_| is_interrupted()) {
            return Err(e);
        }
        match walk.ready.pop_front() {
            Some(entry) => Ok(Some(entry)),
            // All entries fetched before it were returned.
            None => walk.failed.take().map_or(Ok(None), Err),
        }
    }
}

#[pymethods]
impl Items {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((key, value)) = call(py, || self.entry())? else { return Ok(None) };
        let (key, value) = (|| PyBytes::new(py, &key), || PyBytes::new(py, &value));
        Ok(Some(match self.kind {
            Kind::Items => PyTuple::new(py, [key(), value()])?.into_any(),
            Kind::Keys => key().into_any(),
            Kind::Values => value().into_any(),
        }))
    }
}

/// Writes that `Db.write` executes atomically.
#[pyclass(frozen, module = "firn")]
pub struct Batch(Mutex<firn_kv::Batch>);

impl Batch {
    /// Takes the writes; it is empty afterwards.
    pub fn take(&self) -> firn_kv::Batch {
        std::mem::take(&mut lock(&self.0))
    }
}

#[pymethods]
impl Batch {
    #[new]
    fn new() -> Batch {
        Batch(Mutex::new(firn_kv::Batch::new()))
    }

    fn __len__(&self) -> usize {
        lock(&self.0).len()
    }

    fn put(&self, tree: &Tree, key: Bytes, value: Bytes) -> PyResult<()> {
        lock(&self.0).put(&tree.tree, &key, &value).map_err(of_kv)
    }

    fn merge(&self, tree: &Tree, key: Bytes, operand: Bytes) -> PyResult<()> {
        lock(&self.0).merge(&tree.tree, &key, &operand).map_err(of_kv)
    }

    fn delete(&self, tree: &Tree, key: Bytes) -> PyResult<()> {
        lock(&self.0).delete(&tree.tree, &key).map_err(of_kv)
    }

    #[pyo3(signature = (tree, start=None, end=None))]
    fn delete_range(&self, tree: &Tree, start: Option<Bytes>, end: Option<Bytes>) -> PyResult<()> {
        let limits = limits(start, end, None, false)?;
        lock(&self.0).delete_range(&tree.tree, limits.range()).map_err(of_kv)
    }
}

/// A snapshot of a store. `with` releases it at the end of the block.
#[pyclass(frozen, module = "firn")]
pub struct Snapshot(Closable<firn_kv::Snapshot>);

impl Snapshot {
    pub fn new(snapshot: firn_kv::Snapshot) -> Snapshot {
        Snapshot(Closable::new("snapshot", snapshot))
    }
}

#[pymethods]
impl Snapshot {
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
    fn items(
        &self,
        py: Python<'_>,
        tree: &Tree,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        reverse: bool,
    ) -> PyResult<Items> {
        let (limits, snapshot) = (limits(start, end, prefix, reverse)?, self.0.get()?);
        let range = py.detach(move || snapshot.range(&tree.tree, limits.range()));
        Ok(Items::new(range, Kind::Items, reverse, true))
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

    fn with<T: Send>(
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
        let limits = limits(start, end, None, false)?;
        self.with(py, |tx| tx.delete_range(&tree.tree, limits.range()))
    }

    #[pyo3(signature = (tree, start=None, end=None, *, prefix=None, reverse=false))]
    fn items(
        &self,
        py: Python<'_>,
        tree: &Tree,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        reverse: bool,
    ) -> PyResult<Items> {
        let limits = limits(start, end, prefix, reverse)?;
        let range = self.with(py, |tx| Ok(tx.range(&tree.tree, limits.range())))?;
        Ok(Items::new(range, Kind::Items, reverse, false))
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
