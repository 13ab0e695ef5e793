//! C interface of Firn; cbindgen generates the header `include/firn.h` from it.
//!
//! Invariants: no panic leaves a call; null pointers are never dereferenced; a result is written
//! only on success. Handles are boxes that C holds as pointers: `Option<&T>`, `Option<&mut T>` and
//! `Option<Box<T>>` have the layout of nullable pointers. So the compiler enforces the null check,
//! and `unsafe` is needed in two places only, where C lends bytes ([`FirnSlice`]) and a buffer. The caller must
//! ensure that other pointers came from this library, are not used after they are freed, and not by
//! two threads at once where the header forbids it.
//!
//!  module | content |
//! |---|---|
//! | `call` | codes, messages, panics; bytes lent by C and bytes returned to C |
//! | `store` | stores, trees, batches |
//! | `merge` | trees with options and merge functions |
//! | `bulk` | loads, copies, flushes, compactions |
//! | `changes` | subscriptions and their changes |
//! | `read` | snapshots, transactions, iterators |
//! | `cursor` | cursors |
//! | `cql` | sessions, statements, rows |
//! | `packed` | many entries, keys or rows with one call |

mod bulk;
mod call;
mod changes;
mod cql;
mod cursor;
mod merge;
mod packed;
mod read;
mod store;

pub use bulk::*;
pub use call::{
    FirnBytes, FirnCode, FirnOwner, FirnSlice, firn_bytes_free, firn_error_message, firn_version,
};
pub use changes::*;
pub use cql::*;
pub use cursor::*;
pub use merge::*;
pub use packed::*;
pub use read::*;
pub use store::*;
