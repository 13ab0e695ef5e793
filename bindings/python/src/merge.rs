//! What the engine asks of Python: to fold operands, and for the pairs of a load.
//!
//! Both are asked by threads of the engine, or by ones that have given up the interpreter's lock, and take it for the call: whoever waits for the
//! engine doesn't hold it. Once the interpreter is going down nothing is asked any more.

use std::sync::Arc;

use firn_kv::{Error, Folded, Merge, Result};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyIterator, PyList};

use crate::handle::Handle;

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
        let folded = Python::try_attach(|py| {
            let operands = PyList::new(py, operands.iter().map(|o| PyBytes::new(py, o)))?;
            let value = self.function.call1(py, (PyBytes::new(py, key), base.map(|b| PyBytes::new(py, b)), operands))?;
            let value: Option<PyBackedBytes> = value.extract(py)?;
            Ok(value.map_or(Folded::Absent, |v| Folded::Value(v.to_vec())))
        });
        let folded =
            folded.unwrap_or_else(|| Err(PyErr::new::<pyo3::exceptions::PyRuntimeError, _>("the interpreter has ended")));
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
