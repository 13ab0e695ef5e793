//! What the engine asks of Python: to fold operands, and for the pairs of a load.
//!
//! Both are asked by threads of the engine, or by ones that have given up the interpreter's lock, and take it for the call: whoever waits for the
//! engine doesn't hold it. Once the interpreter is going down no function is asked any more ([`ended`]): a thread that wanted its lock then
//! would never have it, and closing a store waits for such threads.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use firn_kv::{Error, Folded, Merge, Result};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyIterator, PyList};

use crate::handle::Handle;

/// How many calls of functions are under way, and whether the interpreter is about to end.
static FOLDING: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// How many of the calls are this thread's.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// A call that is under way.
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

/// Whether this thread is in a call: it may be one of a store's own, which nobody may wait for here.
pub fn is_folding() -> bool {
    OWN.get() > 0
}

/// The interpreter is about to end (`atexit`): lets the calls that have begun end, and no other begin.
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

/// A function of Python's that folds operands.
struct Function {
    name: String,
    function: Py<PyAny>,
}

/// The hook of a tree whose operands this function folds.
pub fn hook(name: String, function: Py<PyAny>) -> Arc<dyn Merge> {
    Arc::new(Function { name, function })
}

impl Merge for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded> {
        let call = |py: Python<'_>| -> PyResult<Folded> {
            let operands = PyList::new(py, operands.iter().map(|o| PyBytes::new(py, o)))?;
            let value = self.function.call1(py, (PyBytes::new(py, key), base.map(|b| PyBytes::new(py, b)), operands))?;
            let value: Option<PyBackedBytes> = value.extract(py)?;
            Ok(value.map_or(Folded::Absent, |v| Folded::Value(v.to_vec())))
        };
        let _folding = Folding::begin();
        let is_over = ENDED.load(Ordering::SeqCst);
        // An exception is put into words by the interpreter, so while it is there.
        let folded = if is_over { None } else { Python::try_attach(|py| call(py).map_err(|e| e.to_string())) };
        let folded = folded.unwrap_or_else(|| Err("the interpreter has ended".into()));
        folded.map_err(|e| Error::invalid(format!("the merge function {}: {e}", self.name)))
    }
}

/// The pairs of an iterator of Python's, and what it raised.
pub struct Pairs {
    pairs: Handle<Py<PyIterator>>,
    failure: Option<PyErr>,
}

impl Pairs {
    /// Of this iterator.
    pub fn new(pairs: Py<PyIterator>) -> Pairs {
        Pairs { pairs: Handle::new(pairs), failure: None }
    }

    /// What the iterator raised, or what was wrong with a pair of it.
    pub fn failure(self) -> Option<PyErr> {
        self.failure
    }
}

impl Iterator for Pairs {
    type Item = Result<(PyBackedBytes, PyBackedBytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Python::attach(|py| self.pairs.bind(py).clone().next().map(|pair| pair?.extract()));
        next.map(|pair: PyResult<_>| {
            pair.map_err(|e| {
                self.failure = Some(e);
                Error::invalid("the iterator raised an exception")
            })
        })
    }
}
