//! Callbacks of the engine into Python: folding operands, and the pairs of a load.
//!
//! Both are called by threads of the engine, or by threads that have released the interpreter's
//! lock, and acquire it for the call: a thread that waits for the engine does not hold it. When the
//! interpreter is shutting down, no callback runs any more ([`ended`]): a thread that wanted the
//! lock then would never get it, and closing a store waits for such threads.
//!
//! An exception of a callback becomes an error of the engine, which retains operands that cannot be
//! folded and continues. An exception that is no `Exception` (an interrupt, an exit) is for the
//! caller of the operation on whose thread the callback ran: [`call`] raises it there, regardless
//! of the engine's result.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use firn_kv::{Error, MergeOperator, MergeResult, Result};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes as Bytes;
use pyo3::types::{PyBytes, PyIterator, PyList};

use crate::error::of_kv;
use crate::handle::Handle;

/// Number of running callbacks, and whether the interpreter is about to end.
static FOLDING: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Number of callbacks that run on this thread.
    static OWN: Cell<usize> = const { Cell::new(0) };
    /// Nesting depth of engine calls on this thread.
    static CALLS: Cell<usize> = const { Cell::new(0) };
    /// The exception raised in the innermost of them that is no `Exception`.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// A call of the engine.
struct Call;

impl Drop for Call {
    fn drop(&mut self) {
        CALLS.set(CALLS.get() - 1);
    }
}

/// Calls the engine without the interpreter's lock.
///
/// # Errors
/// An exception of a merge function that is no `Exception`, even if the engine has succeeded;
/// otherwise the engine's error.
pub fn call<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    call_with(py, work, of_kv)
}

/// Like [`call`], for other errors than those of the engine.
pub fn call_with<T: Send, E: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> std::result::Result<T, E> + Send,
    convert: impl FnOnce(E) -> PyErr,
) -> PyResult<T> {
    CALLS.set(CALLS.get() + 1);
    let one = Call;
    let done = py.detach(work);
    drop(one);
    RAISED.take().map_or_else(|| done.map_err(convert), Err)
}

/// Reports whether the current call has to raise an exception of a callback.
pub fn is_interrupted() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// Formats an exception of a callback. Stores it if it is not for the engine.
fn message_of(py: Python<'_>, e: PyErr) -> String {
    let text = e.to_string();
    if CALLS.get() > 0 && !e.is_instance_of::<PyException>(py) {
        RAISED.set(Some(e));
    }
    text
}

/// A running callback.
struct Folding;

impl Folding {
    fn begin() -> Folding {
        FOLDING.fetch_add(1, Ordering::SeqCst);
        OWN.set(OWN.get() + 1);
        Folding
    }
}

impl Drop for Folding {
    fn drop(&mut self) {
        OWN.set(OWN.get() - 1);
        FOLDING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Reports whether this thread runs a callback: it may be one of a store's own threads, which must
/// not be waited for here.
pub fn is_folding() -> bool {
    OWN.get() > 0
}

/// Called when the interpreter is about to end (`atexit`): lets running callbacks finish, and
/// prevents new ones.
#[pyfunction]
#[allow(clippy::disallowed_methods)] // waits for Python's threads, which no store knows of
pub fn ended(py: Python<'_>) {
    ENDED.store(true, Ordering::SeqCst);
    py.detach(|| {
        while FOLDING.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// A Python function that folds operands.
struct Function {
    name: String,
    function: Py<PyAny>,
}

/// Returns the merge operator of a tree for this function.
pub fn hook(name: String, function: Py<PyAny>) -> Arc<dyn MergeOperator> {
    Arc::new(Function { name, function })
}

impl MergeOperator for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<MergeResult> {
        let fold = |py: Python<'_>| -> PyResult<MergeResult> {
            let operands = PyList::new(py, operands.iter().map(|o| PyBytes::new(py, o)))?;
            let value = self
                .function
                .call1(py, (PyBytes::new(py, key), base.map(|b| PyBytes::new(py, b)), operands))?;
            let value: Option<Bytes> = value.extract(py)?;
            Ok(value.map_or(MergeResult::Absent, |v| MergeResult::Value(v.to_vec())))
        };
        let _folding = Folding::begin();
        if is_interrupted() {
            return Err(Error::invalid("the call was interrupted"));
        }
        let is_over = ENDED.load(Ordering::SeqCst);
        // Only the interpreter can format an exception, so do it while it exists.
        let folded = if is_over {
            None
        } else {
            Python::try_attach(|py| fold(py).map_err(|e| message_of(py, e)))
        };
        let folded = folded.unwrap_or_else(|| Err("the interpreter has ended".into()));
        folded.map_err(|e| Error::invalid(format!("the merge function {}: {e}", self.name)))
    }
}

/// The pairs of a Python iterator, and its exception.
pub struct Pairs {
    pairs: Handle<Py<PyIterator>>,
    failure: Option<PyErr>,
}

impl Pairs {
    /// Wraps this iterator.
    pub fn new(pairs: Py<PyIterator>) -> Pairs {
        Pairs { pairs: Handle::new(pairs), failure: None }
    }

    /// Returns the iterator's exception, or the error of an invalid pair.
    pub fn failure(self) -> Option<PyErr> {
        self.failure
    }
}

impl Iterator for Pairs {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next =
            Python::attach(|py| self.pairs.bind(py).clone().next().map(|pair| pair?.extract()));
        next.map(|pair: PyResult<_>| {
            pair.map_err(|e| {
                self.failure = Some(e);
                Error::invalid("the iterator raised an exception")
            })
        })
    }
}
