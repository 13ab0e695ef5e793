//! The C interface of Firn; the header is `include/firn.h`, made from this by cbindgen.
//!
//! Invariants: no panic leaves a call; no null is followed; what a call makes is written only when
//! it succeeds. Handles are boxes that C holds as pointers: `Option<&T>`, `Option<&mut T>` and
//! `Option<Box<T>>` have the form of pointers that may be null, so that the compiler asks for the
//! check and `unsafe` is needed in one place only, where C lends bytes ([`FirnSlice`]). That the
//! other pointers are what C was given, and are not used after they are freed or by two threads at
//! once where the header forbids it, is the caller's to keep.
//!
//! | module | what |
//! |---|---|
//! | `call` | codes, messages, panics; bytes that C lends and bytes that it is given |
//! | `store` | stores, trees, batches |
//! | `merge` | trees with options and merge functions |
//! | `bulk` | loads, copies, flushes, compactions |
//! | `read` | snapshots, transactions, iterators |
//! | `cql` | sessions, statements, rows |

mod bulk;
mod call;
mod cql;
mod merge;
mod read;
mod store;

pub use bulk::*;
pub use call::{
    FirnBytes, FirnCode, FirnOwner, FirnSlice, firn_bytes_free, firn_error_message, firn_version,
};
pub use cql::*;
pub use merge::*;
pub use read::*;
pub use store::*;
