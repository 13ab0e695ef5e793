//! An async interface to [`firn_kv`] for [tokio].
//!
//! The engine's calls are synchronous: they may read from disk, wait for a sync or be slowed. An
//! [`AsyncDb`] runs them on tokio's blocking threads, so that they do not block the executor.
//!
//! ```
//! use firn_tokio::AsyncDb;
//! use firn_kv::{Db, TreeOptions};
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let db = AsyncDb::new(Db::in_memory()?); // or AsyncDb::open("my-data").await?
//! let fruit = db.tree("fruit", TreeOptions::default()).await?;
//! fruit.put("apple", "red").await?;
//! assert_eq!(fruit.get("apple").await?.unwrap(), "red");
//! db.close().await
//! # })?;
//! # Ok::<(), firn_kv::Error>(())
//! ```
//!
//! # Guarantees
//!
//! - **Bound.** At most [`AsyncOptions::max_running`] calls run at the same time, 64 by default.
//!   Other calls wait, and begin in the order of their first poll. A waiting call needs no thread.
//! - **Cancellation.** Dropping the future of a waiting call cancels it: it has no effect. A call
//!   that runs completes, even if its future is dropped. So a write happens entirely or not at all,
//!   and after a cancellation the program does not know which.
//! - **Progress.** A future that is not polled does not delay other calls.
//! - **Panics.** A panic of a closure continues in the task that awaits it.
//! - **Runtimes.** Calls work on both of tokio's runtimes, inside a runtime only. If the runtime shuts
//!   down before a call runs, the call fails with kind [`Closed`](firn_kv::ErrorKind::Closed).
//!
//! # Costs
//!
//! A call moves to another thread and back. With one caller that took 10 µs, and 15 to 24 µs on busy
//! cores; a direct `get` from a small memtable took 55 ns. `cargo run --release -p firn-tokio
//! --example hop` measures both. The engine cannot say beforehand whether a read needs the disk, so every call moves. For many
//! small reads or writes in one request use [`AsyncDb::call`], [`AsyncTree::multi_get`] or a batch:
//! they move once.
//!
//! [tokio]: https://docs.rs/tokio

#![warn(missing_debug_implementations)]

mod db;
mod options;
mod queue;
mod stream;
mod tree;

pub use db::AsyncDb;
pub use options::AsyncOptions;
pub use stream::RangeStream;
pub use tree::AsyncTree;

/// Runs the examples of the pages as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/async.md")]
struct AsyncPages;
