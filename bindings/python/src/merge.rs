//! What the engine asks of Python: to fold operands, and for the pairs of a load.
//!
//! Both are asked by threads of the engine, or by ones that have given up the interpreter's lock,
//! and take it for the call: whoever waits for the engine doesn't hold it. Once the interpreter is
//! going down no function is asked any more ([`ended`]): a thread that wanted its lock then would
//! never have it, and closing a store waits for such threads.
//!
//! What a function raises is an error of the engine's, which keeps operands that can't be folded
//! and goes on. What is no `Exception` (an interrupt, an exit) is meant for whoever made the call
//! in whose thread the function ran: [`call`] raises it there, whatever the engine made of it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use firn_kv::{Error, Folded, MergeOperator, Result};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyIterator, PyList};

use crate::error::of_kv;
use crate::handle::Handle;

/// How many calls of functions are under way, and whether the interpreter is about to end.
static FOLDING: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// How many of the calls are this thread's.
    static OWN: Cell<usize> = const { Cell::new(0) };
    /// How many calls of the engine this thread is in.
    static CALLS: Cell<usize> = const { Cell::new(0) };
    /// What a function has raised in the innermost of them that is no `Exception`.
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
/// What a merge function has raised meanwhile that is no `Exception`, also where the engine has
/// done what it was asked for; else the engine's.
pub fn call<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    CALLS.set(CALLS.get() + 1);
    let one = Call;
    let done = py.detach(work);
    drop(one);
    RAISED.take().map_or_else(|| done.map_err(of_kv), Err)
}

/// Whether the call that this thread is in is to raise what a function has raised.
pub fn is_interrupted() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// What a function raised, in words. It is kept where it isn't for the engine.
fn told(py: Python<'_>, e: PyErr) -> String {
    let text = e.to_string();
    if CALLS.get() > 0 && !e.is_instance_of::<PyException>(py) {
        RAISED.set(Some(e));
    }
    text
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

/// Whether this thread is in a call: it may be one of a store's own, which nobody may wait for
/// here.
pub fn is_folding() -> bool {
    OWN.get() > 0
}

/// The interpreter is about to end (`atexit`): lets the calls that have begun end, and no other
/// begin.
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
pub fn hook(name: String, function: Py<PyAny>) -> Arc<dyn MergeOperator> {
    Arc::new(Function { name, function })
}

impl MergeOperator for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded> {
        let fold = |py: Python<'_>| -> PyResult<Folded> {
            let operands = PyList::new(py, operands.iter().map(|o| PyBytes::new(py, o)))?;
            let value = self
                .function
                .call1(py, (PyBytes::new(py, key), base.map(|b| PyBytes::new(py, b)), operands))?;
            let value: Option<PyBackedBytes> = value.extract(py)?;
            Ok(value.map_or(Folded::Absent, |v| Folded::Value(v.to_vec())))
        };
        let _folding = Folding::begin();
        if is_interrupted() {
            return Err(Error::invalid("the call was interrupted"));
        }
        let is_over = ENDED.load(Ordering::SeqCst);
        // An exception is put into words by the interpreter, so while it is there.
        let folded =
            if is_over { None } else { Python::try_attach(|py| fold(py).map_err(|e| told(py, e))) };
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
