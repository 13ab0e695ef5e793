//! Firn for Python: `firn._firn`, which the package `firn` exports.
//!
//! Invariants: operations that may wait for a device, another thread or a lock of the engine run
//! without the interpreter's lock, and so does the drop of a store's last handle. Operations on own
//! memory (batches, names, columns) keep the lock. A handle that Python shares among threads has
//! its own lock if the engine requires exclusive use. A thread waits for such a lock only without
//! the interpreter's lock, or it is never held during a wait. PyO3 converts a panic to an
//! exception.
//!
//! | module | content |
//! |---|---|
//! | `error` | the exceptions |
//! | `handle` | handles of the engine, which are dropped without the interpreter's lock |
//! | `db` | stores and trees |
//! | `mapping` | key ranges as ordered mappings |
//! | `iterate` | key ranges and their iterators |
//! | `batch` | batches |
//! | `changes` | subscriptions and their changes |
//! | `merge` | calls of the engine, and callbacks into Python: folding operands, pairs to load |
//! | `read` | snapshots, transactions |
//! | `cql` | sessions, statements, rows |
//! | `value` | conversion between Python's and CQL's values |
//! | `arrow` | results as Arrow record batches |

mod arrow;
mod batch;
mod changes;
mod cql;
mod db;
mod error;
mod handle;
mod iterate;
mod mapping;
mod merge;
mod read;
mod value;

use pyo3::prelude::*;

#[pymodule]
fn _firn(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::add(module)?;
    module.add_class::<db::Db>()?;
    module.add_class::<mapping::TreeRange>()?;
    module.add_class::<mapping::MutableTreeRange>()?;
    module.add_class::<db::Tree>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::BatchTree>()?;
    module.add_class::<iterate::Items>()?;
    module.add_class::<read::Snapshot>()?;
    module.add_class::<read::Transaction>()?;
    module.add_class::<read::Savepoint>()?;
    module.add_class::<changes::Subscription>()?;
    module.add_class::<changes::Change>()?;
    module.add_class::<cql::Session>()?;
    module.add_class::<cql::Statement>()?;
    module.add_class::<cql::Rows>()?;
    module.add_class::<cql::Row>()?;
    module.add_class::<arrow::ArrowReader>()?;
    module.add_class::<arrow::ArrowBatch>()?;
    let ended = wrap_pyfunction!(merge::ended, module)?;
    module.py().import("atexit")?.call_method1("register", (ended,))?;
    Ok(())
}
