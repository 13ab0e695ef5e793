//! Ordered mappings: key ranges of a tree, of a snapshot and of a transaction.
//!
//! `TreeRange` has the reads, `MutableTreeRange` the writes, and a `Tree` is the mutable range of
//! all its keys. Views (`keys`, `values`, `items`) are Python classes of `firn._views`.

use firn_kv::{Range, Value};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes as Bytes;
use pyo3::types::{PyBytes, PyMapping, PySlice, PyTuple};

use crate::arrow::ArrowReader;
use crate::error::ReadOnlyError;
use crate::handle::Handle;
use crate::iterate::{Items, Kind, Limits, limits};
use crate::merge::call;
use crate::read::{Snapshot, Transaction};

/// A pair of bytes.
pub type Pair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Converts an entry to Python.
pub fn pair<'py>(py: Python<'py>, entry: Option<(Value, Value)>) -> Option<Pair<'py>> {
    entry.map(|(k, v)| (PyBytes::new(py, &k), PyBytes::new(py, &v)))
}

fn missing(py: Python<'_>, key: &[u8]) -> PyErr {
    PyKeyError::new_err(PyBytes::new(py, key).unbind())
}

/// Returns the range of a slice of keys.
pub fn slice_limits(slice: &Bound<'_, PySlice>) -> PyResult<Limits> {
    if !slice.getattr("step")?.is_none() {
        return Err(PyValueError::new_err("a range of keys has no step"));
    }
    limits(slice.getattr("start")?.extract()?, slice.getattr("stop")?.extract()?, None)
}

/// Calls `add` with the pairs of a mapping, or of an iterable of pairs.
pub fn each_pair(
    other: &Bound<'_, PyAny>,
    mut add: impl FnMut(Bytes, Bytes) -> PyResult<()>,
) -> PyResult<()> {
    let pairs = match other.cast::<PyMapping>() {
        Ok(mapping) => mapping.as_any().call_method0("items")?.try_iter()?,
        Err(_) => other.try_iter()?,
    };
    for pair in pairs {
        let (key, value) = pair?.extract()?;
        add(key, value)?;
    }
    Ok(())
}

/// Bytes of keys and values after which `update` writes a batch.
const UPDATE_BYTES: usize = 1 << 20;

/// The state that a range reads, and that its writes change.
pub enum State {
    Newest,
    Snapshot(Py<Snapshot>),
    Transaction(Py<Transaction>),
}

impl State {
    fn clone_ref(&self, py: Python<'_>) -> State {
        match self {
            State::Newest => State::Newest,
            State::Snapshot(snapshot) => State::Snapshot(snapshot.clone_ref(py)),
            State::Transaction(tx) => State::Transaction(tx.clone_ref(py)),
        }
    }
}

/// An ordered mapping of the keys in a range to their values.
#[pyclass(frozen, subclass, mapping, module = "firn")]
pub struct TreeRange {
    tree: Handle<firn_kv::Tree>,
    state: State,
    limits: Limits,
}

impl TreeRange {
    /// Creates the range of all keys of a tree.
    pub fn all(tree: firn_kv::Tree, state: State) -> TreeRange {
        TreeRange { tree: Handle::new(tree), state, limits: Limits::default() }
    }

    /// Returns it as a Python object, of the class for its state.
    pub fn into_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.state {
            State::Snapshot(_) => Ok(Py::new(py, self)?.into_any()),
            State::Newest | State::Transaction(_) => {
                let range = PyClassInitializer::from(self).add_subclass(MutableTreeRange);
                Ok(Py::new(py, range)?.into_any())
            }
        }
    }

    fn part(&self, py: Python<'_>, limits: Limits) -> TreeRange {
        TreeRange {
            tree: Handle::new((*self.tree).clone()),
            state: self.state.clone_ref(py),
            limits: self.limits.and(limits),
        }
    }

    fn read(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Value>> {
        if !self.limits.contains(key) {
            return Ok(None);
        }
        match &self.state {
            State::Newest => call(py, || self.tree.get(key)),
            State::Snapshot(snapshot) => {
                let snapshot = snapshot.get().handle()?;
                // Another thread may close the snapshot meanwhile: then this is its last handle.
                call(py, move || snapshot.get(&self.tree, key))
            }
            State::Transaction(tx) => tx.get().with(py, |tx| tx.get(&self.tree, key)),
        }
    }

    fn range(&self, py: Python<'_>) -> PyResult<Range> {
        match &self.state {
            State::Newest => Ok(py.detach(|| self.tree.range(self.limits.range()))),
            State::Snapshot(snapshot) => {
                let snapshot = snapshot.get().handle()?;
                Ok(py.detach(move || snapshot.range(&self.tree, self.limits.range())))
            }
            State::Transaction(tx) => {
                tx.get().with(py, |tx| Ok(tx.range(&self.tree, self.limits.range())))
            }
        }
    }

    fn iterate(&self, py: Python<'_>, kind: Kind, reverse: bool) -> PyResult<Items> {
        let ahead = !matches!(self.state, State::Transaction(_));
        Ok(Items::new(self.range(py)?, kind, reverse, ahead))
    }

    fn end(&self, py: Python<'_>, last: bool) -> PyResult<Option<(Value, Value)>> {
        let mut range = self.range(py)?;
        call(py, move || if last { range.next_back() } else { range.next() }.transpose())
    }

    /// Returns the items of a range that `into_object` has returned.
    pub fn view_of<'py>(
        range: &Bound<'py, PyAny>,
        bounds: Limits,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        TreeRange::view(range.cast()?, Kind::Items, bounds, reverse)
    }

    fn view<'py>(
        this: &Bound<'py, Self>,
        kind: Kind,
        bounds: Limits,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let range = match bounds.is_all() {
            true => this.clone().into_any(),
            false => this.get().part(py, bounds).into_object(py)?.into_bound(py),
        };
        kind.class(py)?.call1((range, reverse))
    }

    /// Refuses a key outside the range.
    fn check(&self, key: &[u8]) -> PyResult<()> {
        if self.limits.contains(key) {
            return Ok(());
        }
        Err(PyValueError::new_err("the key is outside the range"))
    }

    fn put(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.check(key)?;
        match &self.state {
            State::Newest => call(py, || self.tree.put(key, value)),
            State::Transaction(tx) => tx.get().with(py, |tx| tx.put(&self.tree, key, value)),
            State::Snapshot(_) => Err(read_only()),
        }
    }

    fn delete(&self, py: Python<'_>, key: &[u8]) -> PyResult<()> {
        self.check(key)?;
        match &self.state {
            State::Newest => call(py, || self.tree.delete(key)),
            State::Transaction(tx) => tx.get().with(py, |tx| tx.delete(&self.tree, key)),
            State::Snapshot(_) => Err(read_only()),
        }
    }

    fn delete_range(&self, py: Python<'_>, limits: Limits) -> PyResult<()> {
        let limits = self.limits.and(limits);
        match &self.state {
            State::Newest => call(py, || self.tree.delete_range(limits.range())),
            State::Transaction(tx) => {
                tx.get().with(py, |tx| tx.delete_range(&self.tree, limits.range()))
            }
            State::Snapshot(_) => Err(read_only()),
        }
    }

    /// Removes a key and returns its value; no other caller gets it, too.
    fn remove(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Value>> {
        let Some(found) = self.read(py, key)? else { return Ok(None) };
        match &self.state {
            State::Newest => {
                let mut old = Some(found);
                call(py, move || {
                    while let Some(value) = &old {
                        match self.tree.compare_and_swap(key, Some(value), None)? {
                            Ok(()) => break,
                            Err(other) => old = other,
                        }
                    }
                    Ok(old)
                })
            }
            State::Transaction(_) | State::Snapshot(_) => {
                self.delete(py, key).map(|()| Some(found))
            }
        }
    }

    /// Removes the first or the last entry and returns it.
    pub fn remove_end(&self, py: Python<'_>, last: bool) -> PyResult<Option<(Value, Value)>> {
        if matches!(self.state, State::Newest) && self.limits.is_all() {
            return call(py, || if last { self.tree.pop_last() } else { self.tree.pop_first() });
        }
        while let Some((key, _)) = self.end(py, last)? {
            if let Some(value) = self.remove(py, &key)? {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }
}

fn read_only() -> PyErr {
    ReadOnlyError::new_err("a snapshot cannot be changed")
}

#[pymethods]
impl TreeRange {
    /// Returns the value of a key, or the range of a slice of keys.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            return Ok(self.part(py, slice_limits(slice)?).into_object(py)?.into_bound(py));
        }
        let key: Bytes = key.extract()?;
        let value = self.read(py, &key)?.ok_or_else(|| missing(py, &key))?;
        Ok(PyBytes::new(py, &value).into_any())
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes) -> PyResult<bool> {
        match self.state {
            State::Newest if self.limits.contains(&key) => call(py, || self.tree.contains(&key)),
            _ => Ok(self.read(py, &key)?.is_some()),
        }
    }

    /// Counts the keys one by one.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let mut keys = self.range(py)?.keys();
        call(py, move || keys.try_fold(0, |n, key| key.map(|_| n + 1)))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let mut keys = self.range(py)?.keys();
        Ok(call(py, move || keys.next().transpose())?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Items> {
        self.iterate(py, Kind::Keys, false)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Items> {
        self.iterate(py, Kind::Keys, true)
    }

    /// Iterate over the parts of the entries; for the views.
    fn _iterate(&self, py: Python<'_>, parts: &str, reverse: bool) -> PyResult<Items> {
        let kind = match parts {
            "keys" => Kind::Keys,
            "values" => Kind::Values,
            _ => Kind::Items,
        };
        self.iterate(py, kind, reverse)
    }

    fn __eq__(this: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = this.py();
        if this.is(other) {
            return Ok(true.into_pyobject(py)?.to_owned().into_any().unbind());
        }
        if other.cast::<PyMapping>().is_err() {
            return Ok(py.NotImplemented());
        }
        let equal = py.import("firn._views")?.getattr("is_equal")?;
        Ok(equal.call1((this, other))?.unbind())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let end = |key: &Option<Vec<u8>>| match key {
            Some(key) => PyBytes::new(py, key).repr()?.extract::<String>(),
            None => Ok(String::new()),
        };
        let (start, end) = (end(&self.limits.start)?, end(&self.limits.end)?);
        Ok(format!("<firn.TreeRange {:?}[{start}:{end}]>", self.tree.name()))
    }

    #[pyo3(signature = (key, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        key: Bytes,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let found = self.read(py, &key)?;
        Ok(found.map(|v| PyBytes::new(py, &v).into_any().unbind()).or(default))
    }

    /// Return the entry with the smallest key, or None.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        Ok(pair(py, self.end(py, false)?))
    }

    /// Return the entry with the largest key, or None.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        Ok(pair(py, self.end(py, true)?))
    }

    /// Return the keys that begin with a prefix, as a range.
    fn prefix(&self, py: Python<'_>, prefix: Bytes) -> PyResult<Py<PyAny>> {
        self.part(py, Limits::with_prefix(&prefix)).into_object(py)
    }

    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn keys<'py>(
        this: &Bound<'py, Self>,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        TreeRange::view(this, Kind::Keys, limits(start, end, prefix)?, reverse)
    }

    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn values<'py>(
        this: &Bound<'py, Self>,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        TreeRange::view(this, Kind::Values, limits(start, end, prefix)?, reverse)
    }

    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn items<'py>(
        this: &Bound<'py, Self>,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        TreeRange::view(this, Kind::Items, limits(start, end, prefix)?, reverse)
    }

    fn _arrow_reader(&self, py: Python<'_>) -> PyResult<ArrowReader> {
        Ok(ArrowReader::of_entries(self.range(py)?))
    }

    /// Return the entries as a `pyarrow.Table` of the binary columns `key` and `value`.
    fn to_arrow<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        py.import("firn._arrow")?.call_method1("table", (this.get()._arrow_reader(py)?,))
    }

    /// Return the entries as a `pyarrow.RecordBatchReader`, which reads them as needed.
    fn to_arrow_batches<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        py.import("firn._arrow")?.call_method1("reader", (this.get()._arrow_reader(py)?,))
    }

    /// Return the entries by the Arrow C stream protocol.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = requested_schema;
        self._arrow_reader(py)?.stream(py)
    }
}

/// An ordered mapping of the keys in a range that can be changed.
#[pyclass(frozen, subclass, mapping, extends = TreeRange, module = "firn")]
pub struct MutableTreeRange;

fn base<'a>(this: &'a Bound<'_, MutableTreeRange>) -> &'a TreeRange {
    this.as_super().get()
}

#[pymethods]
impl MutableTreeRange {
    fn __setitem__(this: &Bound<'_, Self>, key: &Bound<'_, PyAny>, value: Bytes) -> PyResult<()> {
        if key.is_instance_of::<PySlice>() {
            return Err(PyTypeError::new_err("a range of keys cannot be assigned: use update"));
        }
        let key: Bytes = key.extract()?;
        base(this).put(this.py(), &key, &value)
    }

    /// Deletes an existing key, or the keys of a slice.
    fn __delitem__(this: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, range) = (this.py(), base(this));
        if let Ok(slice) = key.cast::<PySlice>() {
            return range.delete_range(py, slice_limits(slice)?);
        }
        let key: Bytes = key.extract()?;
        if !range.__contains__(py, key.clone_ref(py))? {
            return Err(missing(py, &key));
        }
        range.delete(py, &key)
    }

    /// Delete a key, whether it exists or not.
    fn delete(this: &Bound<'_, Self>, key: Bytes) -> PyResult<()> {
        base(this).delete(this.py(), &key)
    }

    /// Remove a key atomically and return its value. If it is missing, return the default or raise
    /// `KeyError`.
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        this: &Bound<'py, Self>,
        key: Bytes,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and at most one default"));
        }
        match base(this).remove(py, &key)? {
            Some(value) => Ok(PyBytes::new(py, &value).into_any()),
            None => default.get_item(0).map_err(|_| missing(py, &key)),
        }
    }

    /// Remove the last entry, or the first one, atomically and return it. Raise `KeyError` if there
    /// is none.
    #[pyo3(signature = (last=true))]
    fn popitem<'py>(this: &Bound<'py, Self>, last: bool) -> PyResult<Pair<'py>> {
        let py = this.py();
        let entry = base(this).remove_end(py, last)?;
        pair(py, entry).ok_or_else(|| PyKeyError::new_err("the range is empty"))
    }

    /// Set a missing key atomically; return the resulting value.
    fn setdefault<'py>(
        this: &Bound<'py, Self>,
        key: Bytes,
        default: Bytes,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (py, range) = (this.py(), base(this));
        range.check(&key)?;
        let before = match &range.state {
            State::Newest => call(py, || range.tree.insert_if_absent(&key, &default))?,
            State::Transaction(_) | State::Snapshot(_) => {
                let before = range.read(py, &key)?;
                if before.is_none() {
                    range.put(py, &key, &default)?;
                }
                before
            }
        };
        Ok(before.map_or_else(|| PyBytes::new(py, &default), |v| PyBytes::new(py, &v)))
    }

    /// Set the keys of a mapping, or of an iterable of pairs. A tree writes them in batches of 1
    /// MiB, each of which is atomic.
    fn update(this: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, range) = (this.py(), base(this));
        if !matches!(range.state, State::Newest) {
            return each_pair(other, |key, value| range.put(py, &key, &value));
        }
        let db = Handle::new(range.tree.db());
        let (mut batch, mut bytes) = (firn_kv::Batch::new(), 0);
        each_pair(other, |key, value| {
            range.check(&key)?;
            batch.put(&range.tree, &key, &value).map_err(crate::error::of_kv)?;
            bytes += key.len() + value.len();
            if bytes >= UPDATE_BYTES {
                bytes = 0;
                let full = std::mem::take(&mut batch);
                call(py, || db.write(full))?;
            }
            Ok(())
        })?;
        call(py, || db.write(batch))
    }

    /// Delete all keys, by a range deletion.
    fn clear(this: &Bound<'_, Self>) -> PyResult<()> {
        base(this).delete_range(this.py(), Limits::default())
    }
}
