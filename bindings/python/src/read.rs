//! Iterators, snapshots, transactions, batches.

use std::collections::VecDeque;
use std::ops::Bound as End;
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_kv::internals::base::key::prefix_end;
use firn_kv::{Range, Readable, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};

use crate::db::Tree;
use crate::error::{closed, of_kv};
use crate::handle::Handle;
use crate::merge::{call, is_interrupted};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is walked through.
pub struct Limits {
    start: End<Vec<u8>>,
    end: End<Vec<u8>>,
    /// From the end to the beginning.
    pub reverse: bool,
}

impl Limits {
    /// The range of keys.
    pub fn range(&self) -> (End<&[u8]>, End<&[u8]>) {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }
}

/// The keys from `start` on, before `end`, or those with a prefix.
pub fn limits(
    start: Option<PyBackedBytes>,
    end: Option<PyBackedBytes>,
    prefix: Option<PyBackedBytes>,
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

/// What an iterator gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Items,
    Keys,
    Values,
}

/// How many entries are fetched at once, so that the interpreter's lock is given up once for them.
const AHEAD: usize = 64;

struct Walk {
    range: Range,
    /// What was fetched and not yet given.
    ready: VecDeque<(Value, Value)>,
    /// What ended the range.
    failed: Option<firn_kv::Error>,
    /// How many are fetched next.
    step: usize,
}

/// Entries of a range of keys, as they were when it was made.
#[pyclass(frozen, module = "firn")]
pub struct Items {
    walk: Handle<Mutex<Walk>>,
    kind: Kind,
    reverse: bool,
    ahead: bool,
}

impl Items {
    /// `ahead`: whether more may be fetched than is asked for. In a transaction that would be more
    /// than it has read.
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
        // What was fetched before an interrupt is there for whoever goes on after it.
        if let Some(e) = walk.failed.take_if(|_| is_interrupted()) {
            return Err(e);
        }
        match walk.ready.pop_front() {
            Some(entry) => Ok(Some(entry)),
            // What was fetched before it has been given.
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

/// Writes that are done together or not at all, with `Db.write`.
#[pyclass(frozen, module = "firn")]
pub struct Batch(Mutex<firn_kv::Batch>);

impl Batch {
    /// All that it says; it is empty then.
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

    fn put(&self, tree: &Tree, key: PyBackedBytes, value: PyBackedBytes) -> PyResult<()> {
        lock(&self.0).put(&tree.tree, &key, &value).map_err(of_kv)
    }

    fn merge(&self, tree: &Tree, key: PyBackedBytes, operand: PyBackedBytes) -> PyResult<()> {
        lock(&self.0).merge(&tree.tree, &key, &operand).map_err(of_kv)
    }

    fn delete(&self, tree: &Tree, key: PyBackedBytes) -> PyResult<()> {
        lock(&self.0).delete(&tree.tree, &key).map_err(of_kv)
    }

    #[pyo3(signature = (tree, start=None, end=None))]
    fn delete_range(
        &self,
        tree: &Tree,
        start: Option<PyBackedBytes>,
        end: Option<PyBackedBytes>,
    ) -> PyResult<()> {
        let limits = limits(start, end, None, false)?;
        lock(&self.0).delete_range(&tree.tree, limits.range()).map_err(of_kv)
    }
}

/// A store as it was at one moment. `with` gives it back at the end of the block.
#[pyclass(frozen, module = "firn")]
pub struct Snapshot(Handle<Mutex<Option<firn_kv::Snapshot>>>);

impl Snapshot {
    pub fn new(snapshot: firn_kv::Snapshot) -> Snapshot {
        Snapshot(Handle::new(Mutex::new(Some(snapshot))))
    }

    fn held(&self) -> PyResult<firn_kv::Snapshot> {
        lock(&self.0).clone().ok_or_else(|| closed("snapshot"))
    }
}

#[pymethods]
impl Snapshot {
    #[pyo3(signature = (tree, key, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        tree: &Tree,
        key: PyBackedBytes,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let held = self.held()?;
        // Another thread may close the snapshot meanwhile: then this is the last handle of it.
        let found = call(py, move || held.get(&tree.tree, &key))?;
        Ok(found.map(|v| PyBytes::new(py, &v).into_any().unbind()).or(default))
    }

    #[pyo3(signature = (tree, start=None, end=None, *, prefix=None, reverse=false))]
    fn items(
        &self,
        py: Python<'_>,
        tree: &Tree,
        start: Option<PyBackedBytes>,
        end: Option<PyBackedBytes>,
        prefix: Option<PyBackedBytes>,
        reverse: bool,
    ) -> PyResult<Items> {
        let (limits, held) = (limits(start, end, prefix, reverse)?, self.held()?);
        Ok(Items::new(
            py.detach(move || held.range(&tree.tree, limits.range())),
            Kind::Items,
            reverse,
            true,
        ))
    }

    /// Gives it back: until then the store keeps what it shows.
    fn close(&self, py: Python<'_>) {
        let held = lock(&self.0).take();
        py.detach(|| drop(held));
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

/// Reads and writes as one step. `with` commits it at the end of the block, and gives it up when an
/// exception leaves it.
#[pyclass(frozen, module = "firn")]
pub struct Transaction(Handle<Mutex<Option<firn_kv::Transaction>>>);

impl Transaction {
    pub fn new(transaction: firn_kv::Transaction) -> Transaction {
        Transaction(Handle::new(Mutex::new(Some(transaction))))
    }

    fn held<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut firn_kv::Transaction) -> firn_kv::Result<T> + Send,
    ) -> PyResult<T> {
        // The lock is taken without the interpreter's, so that nobody waits for one with the other.
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
        key: PyBackedBytes,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let found = self.held(py, |tx| tx.get(&tree.tree, &key))?;
        Ok(found.map(|v| PyBytes::new(py, &v).into_any().unbind()).or(default))
    }

    fn put(
        &self,
        py: Python<'_>,
        tree: &Tree,
        key: PyBackedBytes,
        value: PyBackedBytes,
    ) -> PyResult<()> {
        self.held(py, |tx| tx.put(&tree.tree, &key, &value))
    }

    fn delete(&self, py: Python<'_>, tree: &Tree, key: PyBackedBytes) -> PyResult<()> {
        self.held(py, |tx| tx.delete(&tree.tree, &key))
    }

    #[pyo3(signature = (tree, start=None, end=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        tree: &Tree,
        start: Option<PyBackedBytes>,
        end: Option<PyBackedBytes>,
    ) -> PyResult<()> {
        let limits = limits(start, end, None, false)?;
        self.held(py, |tx| tx.delete_range(&tree.tree, limits.range()))
    }

    #[pyo3(signature = (tree, start=None, end=None, *, prefix=None, reverse=false))]
    fn items(
        &self,
        py: Python<'_>,
        tree: &Tree,
        start: Option<PyBackedBytes>,
        end: Option<PyBackedBytes>,
        prefix: Option<PyBackedBytes>,
        reverse: bool,
    ) -> PyResult<Items> {
        let limits = limits(start, end, prefix, reverse)?;
        let range = self.held(py, |tx| Ok(tx.range(&tree.tree, limits.range())))?;
        Ok(Items::new(range, Kind::Items, reverse, false))
    }

    /// Does all that it wrote; on `ConflictError` or another failure nothing. It is over in any
    /// case.
    pub fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let done = call(py, || lock(&self.0).take().map(firn_kv::Transaction::commit).transpose())?;
        done.ok_or_else(|| closed("transaction"))
    }

    /// Gives it up.
    pub fn rollback(&self, py: Python<'_>) {
        // Who waits for a call of another thread, or gives up what kept files, does it without the
        // interpreter's lock.
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
        // Who has committed or given it up in the block wants no more.
        call(py, || lock(&self.0).take().map_or(Ok(()), firn_kv::Transaction::commit))
    }
}
