//! Stores and trees.

use std::path::PathBuf;

use firn_kv::{DbOptions, Durability, Retry};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes as Bytes;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::batch::Batch;
use crate::changes::{self, Subscription};
use crate::handle::{Closable, Handle};
use crate::iterate::limits;
use crate::mapping::{MutableTreeRange, Pair, State, TreeRange, pair};
use crate::merge::{self, Pairs, call};
use crate::read::{Snapshot, Transaction};

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

    /// Returns the store with this durability.
    fn with(&self, name: Option<&str>) -> PyResult<firn_kv::Db> {
        let (durability, db) = (durability(name)?, self.0.get()?);
        Ok(durability.map_or_else(|| db.clone(), |d| db.with_durability(d)))
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
    ) -> PyResult<Py<Tree>> {
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
        Tree::open(py, tree)
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
        let db = self.with(durability)?;
        call(py, || db.write(batch))
    }

    /// Begin a batch: the end of `with db.batch() as batch` writes it atomically, unless an
    /// exception leaves the block.
    #[pyo3(signature = (*, durability=None))]
    fn batch(&self, durability: Option<&str>) -> PyResult<Batch> {
        Ok(Batch::of(self.with(durability)?))
    }

    /// Open the durable change feed of this name; create it if missing. The store retains at most
    /// `max_log_bytes` of its log for it.
    #[pyo3(signature = (name, *, max_log_bytes=1 << 30))]
    fn subscribe(&self, py: Python<'_>, name: &str, max_log_bytes: u64) -> PyResult<Subscription> {
        let db = self.0.get()?;
        call(py, || db.subscribe(name, max_log_bytes)).map(Subscription::new)
    }

    /// Return the durable change feeds with their positions.
    fn subscriptions(&self, py: Python<'_>) -> PyResult<Vec<Py<PyDict>>> {
        changes::list(py, &self.0.get()?)
    }

    /// Drop a durable change feed and release its part of the log.
    fn drop_subscription(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let db = self.0.get()?;
        call(py, || db.drop_subscription(name))
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let db = self.0.get()?;
        Ok(Snapshot::new(py.detach(|| db.snapshot())))
    }

    /// Begin a transaction: `with db.transaction() as tx` commits it, unless an exception leaves
    /// the block.
    #[pyo3(signature = (*, durability=None))]
    fn transaction(&self, py: Python<'_>, durability: Option<&str>) -> PyResult<Transaction> {
        let db = self.with(durability)?;
        Ok(Transaction::new(py.detach(|| db.transaction())))
    }

    /// Call `work(tx)` with a transaction and commit it. On a conflict retry, at most `attempts`
    /// times, with the engine's pauses in between.
    #[pyo3(signature = (work, *, attempts=32, durability=None))]
    fn transact(
        &self,
        py: Python<'_>,
        work: &Bound<'_, PyAny>,
        attempts: u32,
        durability: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let retry = Retry { attempts, ..Retry::default() };
        for attempt in 1.. {
            let tx = Bound::new(py, self.transaction(py, durability)?)?;
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
        call(py, || db.checkpoint(path).map(drop))
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

/// A tree of a store: the mutable range of all its keys, with the operations of a whole tree.
#[pyclass(frozen, mapping, extends = MutableTreeRange, module = "firn")]
pub struct Tree {
    pub tree: Handle<firn_kv::Tree>,
}

impl Tree {
    fn open(py: Python<'_>, tree: firn_kv::Tree) -> PyResult<Py<Tree>> {
        let range = TreeRange::all(tree.clone(), State::Newest);
        let base = PyClassInitializer::from(range).add_subclass(MutableTreeRange);
        Py::new(py, base.add_subclass(Tree { tree: Handle::new(tree) }))
    }

    /// Returns the tree with this durability.
    fn with(&self, name: Option<&str>) -> PyResult<firn_kv::Tree> {
        Ok(durability(name)?.map_or_else(|| (*self.tree).clone(), |d| self.tree.with_durability(d)))
    }
}

#[pymethods]
impl Tree {
    #[getter]
    fn name(&self) -> &str {
        self.tree.name()
    }

    fn __repr__(&self) -> String {
        format!("<firn.Tree {:?}>", self.tree.name())
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
        if durability.is_none() {
            return call(py, || self.tree.put(&key, &value));
        }
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
        let bounds = limits(start, end, None)?;
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
        let (tree, bounds) = (self.with(durability)?, limits(start, end, None)?);
        call(py, || tree.delete_range(bounds.range()))
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

    /// Return the values of keys, None for a missing one, faster than one by one.
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bytes>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let found = call(py, || self.tree.multi_get(&keys))?;
        Ok(found.into_iter().map(|value| value.map(|v| PyBytes::new(py, &v))).collect())
    }

    /// Remove the first entry atomically and return it, or None.
    fn pop_first<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        Ok(pair(py, call(py, || self.tree.pop_first())?))
    }

    /// Remove the last entry atomically and return it, or None.
    fn pop_last<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        Ok(pair(py, call(py, || self.tree.pop_last())?))
    }
}
