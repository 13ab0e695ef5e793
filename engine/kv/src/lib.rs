//! Firn's engine: an embedded, ordered, durable key-value store, built as an LSM tree.
//!
//! A [`Db`] holds many trees (column families in RocksDB), each a map from bytes to bytes in
//! bytewise order. All trees share one atomic order of writes. The engine has snapshots,
//! transactions, merge operators, range deletions and a compaction policy for each tree. The
//! documentation of each call states its guarantees.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("firn-doc-lib-{}", std::process::id()));
//! use firn_kv::{Db, TreeOptions};
//! let db = Db::open(&dir)?;
//! let fruit = db.tree("fruit", TreeOptions::default())?;
//! fruit.put("apple", "red")?;
//! fruit.put("pear", "green")?;
//! for item in fruit.range("a".."b") {
//!     let (key, value) = item?;
//!     assert!(key == "apple" && value == "red");
//! }
//! # drop((fruit, db)); std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), firn_kv::Error>(())
//! ```
//!
//! The API at the crate root is stable. [`internals`] exposes the engine's modules without
//! stability guarantees.

#![warn(missing_debug_implementations)]

#[macro_use]
mod util;
mod base;
mod block_cache;
mod compaction;
mod counters;
mod db;
mod env;
pub mod internals;
mod iterator;
mod manifest;
mod memtable;
mod range_del;
mod rewrite;
mod sstable;
mod wal;

pub use base::error::{Error, ErrorKind, Result};
pub use base::events::{Event, Listener};
pub use base::hooks::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, FilterDecision, FilterPrefix,
    Folded, MergeOperator, Summary, SummaryPass,
};
pub use base::key::{Kind, MAX_BATCH_LEN, MAX_BATCH_OPS, MAX_KEY_LEN, MAX_VALUE_LEN, Seq};
pub use base::open_files::{FileStats, OpenFiles};
pub use base::options::{
    Compression, DbOptions, Durability, FilterAllocation, FilterKind, MemoryBudget, ReadMode,
    TreeOptions,
};
pub use block_cache::CacheStats;
pub use compaction::policy::{self, Movement, Policy};
pub use compaction::space::SpaceBound;
pub use counters::reads::ReadStats;
#[cfg(feature = "tracing")]
pub use db::TracingListener;
pub use db::explain;
pub use db::explain::{ReadContext, ReadSum};
pub use db::{
    Batch, BatchOp, BatchOps, BlobStats, Change, ChangeFeed, ChangeOps, Cursor, Db, KeyBounds,
    Keys, Latencies, Latency, Memory, Pause, Pin, PinKind, Range, Readable, Retry, RunStats,
    Snapshot, SnapshotInfo, Space, Stats, TableInfo, Transaction, Tree, TreeStats, TtlRange,
    TtlTree, TtlValue, Updated, Verified,
};
pub use env::mem::MemEnv;
pub use env::os::OsEnv;
pub use env::{Env, FileLock, FileMap, FileTerms, LogFile, ReadFile, Thread, WriteFile};
pub use iterator::value::Value;
pub use wal::TornTail;

/// Runs the examples of the documentation pages as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/embed.md")]
struct Pages;
