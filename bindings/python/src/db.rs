//! Stores and trees.

use std::path::PathBuf;

use firn_kv::{DbOptions, Durability, Retry};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes as Bytes;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::handle::{Closable, Handle};
use crate::merge::{self, Pairs, call};
use crate::read::{Batch, Items, Kind, Limits, Snapshot, Transaction, limits};

/// Parses a durability.
pub fn durability(name: Option<&str>) -> PyResult<Option<Durability>> {
    match name {
        None => Ok(None),
        Some("process") => Ok(Some(Durability::Process)),
        Some("power") => Ok(Some(Durability::Power)),
        Some(other) => Err(PyValueError::new_err(format!(
            "{other:?} is no durability: there are \"process\" and \"power\""
        ))),
    }
}

/// Converts the options of a store.
pub fn options(
    memory_budget: Option<usize>,
    background_threads: Option<usize>,
    durable: Option<&str>,
    read_only: bool,
    create: bool,
) -> PyResult<DbOptions> {
    let mut options = DbOptions { read_only, create, ..DbOptions::default() };
    options.memory_budget = memory_budget.unwrap_or(options.memory_budget);
    options.background_threads = background_threads.unwrap_or(options.background_threads);
    options.durability = durability(durable)?.unwrap_or(options.durability);
    Ok(options)
}

/// A store: trees of bytes in a directory, or in memory.
#[pyclass(frozen, module = "firn")]
pub struct Db(Closable<firn_kv::Db>);

impl Db {
    fn open(db: firn_kv::Db) -> Db {
        Db(Closable::new("store", db))
    }
}

#[pymethods]
impl Db {
    #[new]
    #[pyo3(signature = (path, *, memory_budget=None, background_threads=None, durability=None, read_only=false, create=true))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        memory_budget: Option<usize>,
        background_threads: Option<usize>,
        durability: Option<&str>,
        read_only: bool,
        create: bool,
    ) -> PyResult<Db> {
        let options = options(memory_budget, background_threads, durability, read_only, create)?;
        call(py, || firn_kv::Db::open_with(path, options)).map(Db::open)
    }

    /// Open an empty store in memory.
    #[staticmethod]
    fn in_memory(py: Python<'_>) -> PyResult<Db> {
        call(py, firn_kv::Db::in_memory).map(Db::open)
    }

    /// Open the tree of this name; create it if missing. Options have the names and values of `firn
    /// set-options`: `policy="lazy-leveled:4"`, `memtable_size="16m"`; others are unchanged. `merge` is a
    /// name and a function `fold(key, base, operands)` that returns the value, or None for no
    /// value.
    #[pyo3(signature = (name, *, merge=None, **options))]
    fn tree(
        &self,
        py: Python<'_>,
        name: &str,
        merge: Option<(String, Py<PyAny>)>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Tree> {
        let (db, merge) =
            (self.0.get()?, merge.map(|(name, function)| merge::hook(name, function)));
        let mut changes: Vec<(String, String)> = vec![];
        for (option, value) in options.into_iter().flatten() {
            if !value.is_none() {
                changes.push((option.extract()?, value.str()?.extract()?));
            }
        }
        let changes: Vec<(&str, &str)> = changes.iter().map(|(n, v)| (&**n, &**v)).collect();
        let tree = call(py, || firn_tools::trees::with_options(&db, name, &changes, merge))?;
        Ok(Tree { tree: Handle::new(tree), name: name.to_owned() })
    }

    fn tree_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let db = self.0.get()?;
        Ok(py.detach(|| db.tree_names()))
    }

    fn drop_tree(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let db = self.0.get()?;
        call(py, || db.drop_tree(name))
    }

    /// Execute the batch atomically; the batch is empty afterwards, even on failure.
    #[pyo3(signature = (batch, *, durability=None))]
    fn write(&self, py: Python<'_>, batch: &Batch, durability: Option<&str>) -> PyResult<()> {
        let batch = batch.take();
        let (durability, db) = (self::durability(durability)?, self.0.get()?);
        let db = durability.map_or_else(|| db.clone(), |d| db.with(d));
        call(py, || db.write(batch))
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let db = self.0.get()?;
        Ok(Snapshot::new(py.detach(|| db.snapshot())))
    }

    /// Begin a transaction: `with db.transaction() as tx` commits it, unless an exception leaves
    /// the block.
    fn transaction(&self, py: Python<'_>) -> PyResult<Transaction> {
        let db = self.0.get()?;
        Ok(Transaction::new(py.detach(|| db.transaction())))
    }

    /// Call `work(tx)` with a transaction and commit it. On a conflict retry, at most `attempts`
    /// times, with the engine's pauses in between.
    #[pyo3(signature = (work, *, attempts=32))]
    fn transact(
        &self,
        py: Python<'_>,
        work: &Bound<'_, PyAny>,
        attempts: u32,
    ) -> PyResult<Py<PyAny>> {
        let retry = Retry { attempts, ..Retry::default() };
        for attempt in 1.. {
            let tx = Bound::new(py, self.transaction(py)?)?;
            let done = work.call1((&tx,)).and_then(|out| tx.get().commit(py).map(|()| out));
            match done {
                Err(e)
                    if e.is_instance_of::<crate::error::ConflictError>(py)
                        && attempt < attempts =>
                {
                    tx.get().rollback(py);
                    let db = Handle::new(self.0.get()?);
                    py.detach(|| retry.pause(&db, attempt));
                }
                other => return other.map(Bound::unbind),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Create a copy of the store in a missing or empty directory on the same file system: tables
    /// are linked, not copied.
    fn checkpoint(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let db = self.0.get()?;
        call(py, || db.checkpoint(path))
    }

    /// Wait until no flush and no compaction is due.
    fn wait_idle(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.0.get()?;
        call(py, || db.wait_idle())
    }

    /// Wait until all earlier writes are on the device.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.0.get()?;
        call(py, || db.sync())
    }

    /// Return the statistics, as in `firn stats --json`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let db = self.0.get()?;
        let text = py.detach(|| firn_tools::stats::stats_json(&db.stats()).to_string());
        py.import("json")?.call_method1("loads", (text,))
    }

    /// Close the store: all writes are durable when it returns. Objects obtained from it raise
    /// `ClosedError` from now on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.0.take();
        call(py, || open.map_or(Ok(()), |db| db.close()))
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

/// A tree of a store: an ordered map from bytes to bytes, used like a dict.
#[pyclass(frozen, module = "firn")]
pub struct Tree {
    pub tree: Handle<firn_kv::Tree>,
    name: String,
}

impl Tree {
    /// Returns the tree with this durability.
    fn with(&self, name: Option<&str>) -> PyResult<firn_kv::Tree> {
        Ok(durability(name)?.map_or_else(|| (*self.tree).clone(), |d| self.tree.with(d)))
    }

    fn read<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = call(py, || self.tree.get(key))?;
        Ok(found.map(|v| PyBytes::new(py, &v)))
    }

    fn walk(&self, py: Python<'_>, bounds: &Limits, kind: Kind) -> Items {
        Items::new(py.detach(|| self.tree.range(bounds.range())), kind, bounds.reverse, true)
    }
}

/// A pair of bytes.
type Pair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

fn pair<'py>(
    py: Python<'py>,
    entry: Option<(firn_kv::Value, firn_kv::Value)>,
) -> Option<Pair<'py>> {
    entry.map(|(k, v)| (PyBytes::new(py, &k), PyBytes::new(py, &v)))
}

#[pymethods]
impl Tree {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self) -> String {
        format!("<firn.Tree {:?}>", self.name)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes) -> PyResult<Bound<'py, PyBytes>> {
        self.read(py, &key)?.ok_or_else(|| PyKeyError::new_err(PyBytes::new(py, &key).unbind()))
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes, value: Bytes) -> PyResult<()> {
        call(py, || self.tree.put(&key, &value))
    }

    fn __delitem__(&self, py: Python<'_>, key: Bytes) -> PyResult<()> {
        if !self.__contains__(py, key.clone_ref(py))? {
            return Err(PyKeyError::new_err(PyBytes::new(py, &key).unbind()));
        }
        call(py, || self.tree.delete(&key))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes) -> PyResult<bool> {
        call(py, || self.tree.contains(&key))
    }

    /// Counts the keys one by one.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        call(py, || self.tree.len()).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        call(py, || self.tree.is_empty()).map(|empty| !empty)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Items> {
        Ok(self.walk(py, &limits(None, None, None, false)?, Kind::Keys))
    }

    #[pyo3(signature = (key, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        key: Bytes,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.read(py, &key)?.map(|v| v.into_any().unbind()).or(default))
    }

    /// Set a key to a value; `durability` is "process" or "power".
    #[pyo3(signature = (key, value, *, durability=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Bytes,
        value: Bytes,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let tree = self.with(durability)?;
        call(py, || tree.put(&key, &value))
    }

    /// Delete a key, whether it exists or not.
    #[pyo3(signature = (key, *, durability=None))]
    fn delete(&self, py: Python<'_>, key: Bytes, durability: Option<&str>) -> PyResult<()> {
        let tree = self.with(durability)?;
        call(py, || tree.delete(&key))
    }

    /// Add an operand to a key; reads fold it with the tree's merge function.
    #[pyo3(signature = (key, operand, *, durability=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: Bytes,
        operand: Bytes,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let tree = self.with(durability)?;
        call(py, || tree.merge(&key, &operand))
    }

    /// Load pairs in ascending key order directly into tables, which is faster than puts. Load all
    /// of them or none. Return the number of pairs.
    fn ingest(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut pairs = Pairs::new(pairs.try_iter()?.unbind());
        let loaded = call(py, || self.tree.try_ingest(&mut pairs));
        pairs.failure().map_or(loaded, Err)
    }

    /// Flush the memtable.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.tree.flush())
    }

    /// Compact all tables with keys from `start` on, before `end`, into one run, and the memtable,
    /// too.
    #[pyo3(signature = (start=None, end=None))]
    fn compact(&self, py: Python<'_>, start: Option<Bytes>, end: Option<Bytes>) -> PyResult<()> {
        let bounds = limits(start, end, None, false)?;
        call(py, || self.tree.compact_range(bounds.range()))
    }

    /// Delete all keys from `start` on, before `end`.
    #[pyo3(signature = (start=None, end=None, *, durability=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Bytes>,
        end: Option<Bytes>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let (tree, bounds) = (self.with(durability)?, limits(start, end, None, false)?);
        call(py, || tree.delete_range(bounds.range()))
    }

    /// Set a missing key atomically; return the resulting value.
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: Bytes,
        value: Bytes,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let before = call(py, || self.tree.insert_if_absent(&key, &value))?;
        Ok(before.map_or_else(|| PyBytes::new(py, &value), |v| PyBytes::new(py, &v)))
    }

    /// Set a key with the value `old` to `new` atomically; None means no value. Return whether it
    /// had that value.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: Bytes,
        old: Option<Bytes>,
        new: Option<Bytes>,
    ) -> PyResult<bool> {
        call(py, || self.tree.compare_and_swap(&key, old.as_deref(), new.as_deref()))
            .map(|swapped| swapped.is_ok())
    }

    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        Ok(pair(py, call(py, || self.tree.first())?))
    }

    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        Ok(pair(py, call(py, || self.tree.last())?))
    }

    /// Remove the first entry atomically and return it.
    fn pop_first<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        Ok(pair(py, call(py, || self.tree.pop_first())?))
    }

    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        reverse: bool,
    ) -> PyResult<Items> {
        Ok(self.walk(py, &limits(start, end, prefix, reverse)?, Kind::Items))
    }

    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        reverse: bool,
    ) -> PyResult<Items> {
        Ok(self.walk(py, &limits(start, end, prefix, reverse)?, Kind::Keys))
    }

    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        reverse: bool,
    ) -> PyResult<Items> {
        Ok(self.walk(py, &limits(start, end, prefix, reverse)?, Kind::Values))
    }
}
