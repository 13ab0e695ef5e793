//! Subscriptions: durable change feeds.

use std::sync::Mutex;
use std::time::Duration;

use firn_kv::{BatchOp, ChangePosition, DecodedOp};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::error::closed;
use crate::handle::Handle;
use crate::iterate::lock;
use crate::merge::call;
use crate::read::Snapshot;

/// A durable change feed of a store. Iterating over it returns the changes up to the newest one.
#[pyclass(frozen, module = "firn")]
pub struct Subscription(Handle<Mutex<Option<firn_kv::Subscription>>>);

impl Subscription {
    pub fn new(subscription: firn_kv::Subscription) -> Subscription {
        Subscription(Handle::new(Mutex::new(Some(subscription))))
    }

    /// Works with the subscription without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut firn_kv::Subscription) -> firn_kv::Result<T> + Send,
    ) -> PyResult<T> {
        // The lock is acquired without the interpreter's lock, to avoid a deadlock.
        call(py, || lock(&self.0).as_mut().map(work).transpose())?
            .ok_or_else(|| closed("subscription"))
    }

    fn take(&self, py: Python<'_>, wait: Duration) -> PyResult<Option<Change>> {
        self.with(py, move |s| {
            let change = s.next(wait)?;
            Ok(change.map(|change| Change { change, position: s.position() }))
        })
    }
}

fn parse(position: &str) -> PyResult<ChangePosition> {
    position.parse().map_err(|e: firn_kv::Error| PyValueError::new_err(e.to_string()))
}

#[pymethods]
impl Subscription {
    /// The name of the subscription.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |s| Ok(s.name().to_owned()))
    }

    /// Whether the consumer must copy a snapshot before it continues.
    #[getter]
    fn snapshot_due(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |s| Ok(s.is_snapshot_due()))
    }

    /// The position behind the last reported change: store it with the effects of the change.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |s| Ok(s.position().to_string()))
    }

    /// Begin again at the present state, and return a snapshot of it.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        self.with(py, |s| s.snapshot()).map(Snapshot::new)
    }

    /// Return the next change. Wait for it for `timeout` seconds; return None if none came.
    #[pyo3(signature = (timeout=0.0))]
    fn next(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<Change>> {
        let wait = Duration::try_from_secs_f64(timeout)
            .map_err(|_| PyValueError::new_err(format!("{timeout} is no timeout in seconds")))?;
        self.take(py, wait)
    }

    /// Acknowledge all changes up to this position; without one, up to the last reported change.
    #[pyo3(signature = (position=None))]
    fn acknowledge(&self, py: Python<'_>, position: Option<&str>) -> PyResult<()> {
        let position = position.map(parse).transpose()?;
        self.with(py, move |s| {
            let seq = position.unwrap_or_else(|| s.position()).seq;
            s.acknowledge(seq)
        })
    }

    /// Write the acknowledged position to the manifest now.
    fn persist(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |s| s.persist())
    }

    /// Continue behind the position that the consumer stored with its effects.
    fn resume(&self, py: Python<'_>, position: &str) -> PyResult<()> {
        let position = parse(position)?;
        self.with(py, move |s| s.resume(position))
    }

    /// Release the handle. The subscription stays in the store.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(lock(&self.0).take()));
    }

    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Change>> {
        self.take(py, Duration::ZERO)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

/// A change: a batch or a single operation.
#[pyclass(frozen, module = "firn")]
pub struct Change {
    change: firn_kv::Change,
    position: ChangePosition,
}

#[pymethods]
impl Change {
    /// The position behind the change.
    #[getter]
    fn position(&self) -> String {
        self.position.to_string()
    }

    /// Whether it bypassed the log or dropped a tree, so that it has no operations: copy a snapshot.
    #[getter]
    fn loaded(&self) -> bool {
        self.change.is_loaded() || self.change.is_drop()
    }

    /// The operations, as tuples: ("put", tree, key, value, expires), ("delete", tree, key),
    /// ("delete_range", tree, start, end) and ("merge", tree, key, operand). `expires` is the
    /// deadline in microseconds since 1970, or None; `end` is None for a range without an end.
    #[getter]
    fn ops<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let bytes = |b: &[u8]| PyBytes::new(py, b);
        for DecodedOp { op, expires_micros } in self.change.decoded_ops() {
            let op = match op {
                BatchOp::Put { tree, key, value } => {
                    ("put", tree, bytes(key), bytes(value), expires_micros).into_pyobject(py)?
                }
                BatchOp::Delete { tree, key } => ("delete", tree, bytes(key)).into_pyobject(py)?,
                BatchOp::DeleteRange { tree, start, end } => {
                    ("delete_range", tree, bytes(start), end.map(bytes)).into_pyobject(py)?
                }
                BatchOp::Merge { tree, key, operand } => {
                    ("merge", tree, bytes(key), bytes(operand)).into_pyobject(py)?
                }
                _ => continue,
            };
            list.append(op)?;
        }
        Ok(list)
    }

    fn __repr__(&self) -> String {
        format!("<firn.Change {}>", self.position)
    }
}

/// Returns the subscriptions of a store as dicts.
pub fn list(py: Python<'_>, db: &firn_kv::Db) -> PyResult<Vec<Py<PyDict>>> {
    let all = py.detach(|| db.subscriptions());
    let one = |s: firn_kv::SubscriptionInfo| {
        let dict = PyDict::new(py);
        dict.set_item("name", s.name)?;
        dict.set_item("seq", s.seq)?;
        dict.set_item("behind", s.behind)?;
        dict.set_item("retained_bytes", s.retained_bytes)?;
        dict.set_item("max_log_bytes", s.max_log_bytes)?;
        dict.set_item("snapshot_due", s.is_snapshot_due)?;
        Ok(dict.unbind())
    };
    all.into_iter().map(one).collect()
}
