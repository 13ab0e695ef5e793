//! The native module of the package for Node.js. `lib` in the package wraps it: the classes here
//! are private to the package.
//!
//! Invariants: a call with `wait` false does its work on libuv's pool and returns a promise, and
//! bytes from JavaScript are copied before. Entries, rows and values cross the boundary packed
//! ([`firn_packed`]), because a call costs more than the work for one of them. An error has its code
//! on the first line of its message.
//!
//! | module | content |
//! |---|---|
//! | `call` | results, errors, work on the pool |
//! | `store` | stores, trees, batches |
//! | `read` | iterators, snapshots, transactions |
//! | `changes` | subscriptions |
//! | `cql` | sessions, statements, rows |

mod call;
mod changes;
mod cql;
mod read;
mod store;
