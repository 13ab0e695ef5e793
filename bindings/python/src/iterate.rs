//! Key ranges, and iterators over their entries.

use std::collections::VecDeque;
use std::ops::Bound as End;
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_kv::internals::base::key::prefix_end;
use firn_kv::{Keys, Range, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes as Bytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyTuple, PyType};

use crate::handle::Handle;
use crate::merge::{call, is_interrupted};

/// Locks a mutex, also after a panic of another thread.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keys from `start` on, before `end`.
#[derive(Clone, Default)]
pub struct Limits {
    pub start: Option<Vec<u8>>,
    pub end: Option<Vec<u8>>,
}

impl Limits {
    /// Returns the range of keys.
    pub fn range(&self) -> (End<&[u8]>, End<&[u8]>) {
        (
            self.start.as_deref().map_or(End::Unbounded, End::Included),
            self.end.as_deref().map_or(End::Unbounded, End::Excluded),
        )
    }

    /// Reports whether the range has this key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_deref().is_none_or(|s| s <= key)
            && self.end.as_deref().is_none_or(|e| key < e)
    }

    /// Reports whether the range has all keys.
    pub fn is_all(&self) -> bool {
        self.start.is_none() && self.end.is_none()
    }

    /// Returns the keys that are in both ranges.
    pub fn and(&self, other: Limits) -> Limits {
        let start = match (&self.start, other.start) {
            (Some(a), Some(b)) => Some(if *a > b { a.clone() } else { b }),
            (a, b) => b.or_else(|| a.clone()),
        };
        let end = match (&self.end, other.end) {
            (Some(a), Some(b)) => Some(if *a < b { a.clone() } else { b }),
            (a, b) => b.or_else(|| a.clone()),
        };
        Limits { start, end }
    }

    /// Returns the keys with this prefix.
    pub fn with_prefix(prefix: &[u8]) -> Limits {
        Limits { start: Some(prefix.to_vec()), end: prefix_end(prefix) }
    }
}

/// Returns the keys from `start` on, before `end`, or those with a prefix.
pub fn limits(start: Option<Bytes>, end: Option<Bytes>, prefix: Option<Bytes>) -> PyResult<Limits> {
    match prefix {
        Some(_) if start.is_some() || end.is_some() => {
            Err(PyValueError::new_err("give either a prefix, or start and end"))
        }
        Some(prefix) => Ok(Limits::with_prefix(&prefix)),
        None => Ok(Limits { start: start.map(|b| b.to_vec()), end: end.map(|b| b.to_vec()) }),
    }
}

/// The parts of an entry that an iterator returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Items,
    Keys,
    Values,
}

impl Kind {
    /// Returns the class of views of these parts.
    pub fn class<'py>(self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyType>> {
        static CLASSES: [PyOnceLock<Py<PyType>>; 3] = [const { PyOnceLock::new() }; 3];
        let (class, name) = match self {
            Kind::Items => (&CLASSES[0], "ItemsView"),
            Kind::Keys => (&CLASSES[1], "KeysView"),
            Kind::Values => (&CLASSES[2], "ValuesView"),
        };
        class.import(py, "firn._views", name)
    }
}

/// Maximum number of entries fetched at once, so that the interpreter's lock is released once for
/// all of them.
const AHEAD: usize = 64;
/// Bytes of keys and values after which a fetch ends.
const AHEAD_BYTES: usize = 1 << 20;

/// An iterator of the engine. Without values it does not read them.
pub enum Source {
    Entries(Range),
    Keys(Keys),
}

impl Source {
    /// Returns the next entry, the value empty if only keys are read.
    fn next(&mut self, reverse: bool) -> firn_kv::Result<Option<(Value, Option<Value>)>> {
        match self {
            Source::Entries(range) => {
                let next = if reverse { range.next_back() } else { range.next() };
                Ok(next.transpose()?.map(|(key, value)| (key, Some(value))))
            }
            Source::Keys(keys) => {
                let next = if reverse { keys.next_back() } else { keys.next() };
                Ok(next.transpose()?.map(|key| (key, None)))
            }
        }
    }
}

type Entry = (Value, Option<Value>);

struct Fetcher {
    source: Source,
    /// Fetched entries that are not returned yet.
    ready: VecDeque<Entry>,
    /// The error that ended the range.
    failed: Option<firn_kv::Error>,
    /// Number of entries of the next fetch.
    step: usize,
    /// Whether to prefetch entries.
    ahead: bool,
    reverse: bool,
}

impl Fetcher {
    /// Fetches entries until `count` are ready or their bytes reach the bound.
    fn fill(&mut self, count: usize) {
        let mut bytes = 0;
        while self.ready.len() < count && bytes < AHEAD_BYTES && self.failed.is_none() {
            match self.source.next(self.reverse) {
                Ok(Some(entry)) => {
                    bytes += entry.0.len() + entry.1.as_ref().map_or(0, |v| v.len());
                    self.ready.push_back(entry);
                }
                Ok(None) => break,
                Err(e) => self.failed = Some(e),
            }
        }
    }

    /// Returns an error that ends the call now.
    fn check(&mut self) -> firn_kv::Result<()> {
        // Entries fetched before an interrupt stay available for a caller that continues. Those
        // before another error are returned first.
        if is_interrupted() || self.ready.is_empty() {
            return self.failed.take().map_or(Ok(()), Err);
        }
        Ok(())
    }

    fn next(&mut self) -> firn_kv::Result<Option<Entry>> {
        if self.ready.is_empty() {
            self.fill(self.step);
            if self.ahead {
                self.step = (self.step * 2).min(AHEAD);
            }
        }
        self.check()?;
        Ok(self.ready.pop_front())
    }

    fn take(&mut self, count: usize) -> firn_kv::Result<Vec<Entry>> {
        self.fill(count);
        self.check()?;
        let count = count.min(self.ready.len());
        Ok(self.ready.drain(..count).collect())
    }
}

/// Entries of a key range, in the state of its creation.
#[pyclass(frozen, module = "firn")]
pub struct Items {
    fetcher: Handle<Mutex<Fetcher>>,
    kind: Kind,
}

impl Items {
    /// `ahead`: whether to prefetch entries. In a transaction these would count as read.
    pub fn new(range: Range, kind: Kind, reverse: bool, ahead: bool) -> Items {
        let source = match kind {
            Kind::Keys => Source::Keys(range.keys()),
            Kind::Items | Kind::Values => Source::Entries(range),
        };
        let fetcher =
            Fetcher { source, ready: VecDeque::new(), failed: None, step: 1, ahead, reverse };
        Items { fetcher: Handle::new(Mutex::new(fetcher)), kind }
    }

    fn part<'py>(&self, py: Python<'py>, entry: &Entry) -> PyResult<Bound<'py, PyAny>> {
        let key = || PyBytes::new(py, &entry.0);
        let value = || PyBytes::new(py, entry.1.as_deref().unwrap_or_default());
        Ok(match self.kind {
            Kind::Items => PyTuple::new(py, [key(), value()])?.into_any(),
            Kind::Keys => key().into_any(),
            Kind::Values => value().into_any(),
        })
    }
}

#[pymethods]
impl Items {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = call(py, || lock(&self.fetcher).next())?;
        next.map(|entry| self.part(py, &entry)).transpose()
    }

    /// Return at most `count` further entries, fewer if their bytes exceed 1 MiB. An empty list is
    /// the end.
    fn take<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        let entries = call(py, || lock(&self.fetcher).take(count))?;
        let parts =
            entries.iter().map(|entry| self.part(py, entry)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, parts)
    }
}
