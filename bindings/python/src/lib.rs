//! Firn for Python: `firn._firn`, which the package `firn` shows.
//!
//! Invariants: nothing that may wait, for a device, another thread or a lock of the engine, is done
//! with the interpreter's lock held, and neither is the last handle of a store dropped with it;
//! what only touches memory of its own (batches, names, columns) is. A handle that Python shares
//! among threads is behind a lock of its own where the engine wants one user at a time; such a lock
//! is waited for only without the interpreter's, or is never held while somebody waits. A panic
//! becomes an exception (PyO3 sees to it).
//!
//! | module | what |
//! |---|---|
//! | `error` | the exceptions |
//! | `handle` | handles of the engine, which are dropped without the interpreter's lock |
//! | `db` | stores and trees |
//! | `merge` | calls of the engine, and what it asks of Python: to fold operands, pairs to load |
//! | `read` | iterators, snapshots, transactions, batches |
//! | `cql` | sessions, statements, rows |
//! | `value` | Python's values as CQL's, and back |

mod cql;
mod db;
mod error;
mod handle;
mod merge;
mod read;
mod value;

use pyo3::prelude::*;

#[pymodule]
fn _firn(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::add(module)?;
    module.add_class::<db::Db>()?;
    module.add_class::<db::Tree>()?;
    module.add_class::<read::Batch>()?;
    module.add_class::<read::Items>()?;
    module.add_class::<read::Snapshot>()?;
    module.add_class::<read::Transaction>()?;
    module.add_class::<cql::Session>()?;
    module.add_class::<cql::Statement>()?;
    module.add_class::<cql::Rows>()?;
    module.add_class::<cql::Row>()?;
    let ended = wrap_pyfunction!(merge::ended, module)?;
    module.py().import("atexit")?.call_method1("register", (ended,))?;
    Ok(())
}
