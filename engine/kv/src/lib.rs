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
//! # Features
//!
//! No feature is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `explain` | the cost of single reads: `Db::record_reads`, `Db::with_read_context`, module `explain` |
//! | `policies` | the rarer compaction policies; without it: tiered, leveled, time-window and fifo |
//! | `prometheus` | statistics as a text for Prometheus |
//! | `full` | the three above |
//! | `tracing` | events as records of the `tracing` crate |
//! | `zstd` | Zstandard compression, with a C library |
//! | `internals` | the engine's modules, for tools; nothing in it is stable |

#![warn(missing_debug_implementations)]
// Without its tools the engine has parts without users.
#![cfg_attr(
    not(all(feature = "internals", feature = "explain", feature = "policies")),
    allow(dead_code, unused_imports)
)]

#[macro_use]
mod util;
mod base;
mod block_cache;
mod compaction;
mod counters;
mod db;
mod env;
#[cfg(feature = "internals")]
#[doc(hidden)]
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
    MergeOperator, MergeResult, Summary, SummaryPass,
};
pub use base::key::{
    Kind as EntryKind, MAX_BATCH_LEN, MAX_BATCH_OPS, MAX_KEY_LEN, MAX_VALUE_LEN, Seq,
};
pub use base::open_files::OpenFiles;
pub use base::options::{
    Compression, DbOptions, Durability, FilterAllocation, FilterKind, MemoryBudget, ReadMode,
    TreeOptions,
};
pub use compaction::policy::{self, Policy};
pub use compaction::space::SpaceBound;
#[cfg(feature = "tracing")]
pub use db::TracingListener;
#[cfg(feature = "explain")]
pub use db::explain;
pub use db::{
    Batch, BatchOp, BatchOps, Change, ChangeFeed, ChangeOps, ChangePosition, Cursor, Db, DecodedOp,
    KeyBounds, Keys, Pause, Range, Readable, Retry, Savepoint, Snapshot, StoreVerification,
    Subscription, SubscriptionInfo, TableInfo, Transaction, Tree, TtlRange, TtlTree, TtlValue,
    Updated,
};
pub use env::Env;
pub use env::mem::MemEnv;
pub use env::os::OsEnv;
pub use iterator::value::Value;
pub use wal::TornTail;

/// Statistics of a store: [`Db::stats`] and what it consists of.
pub mod stats {
    pub use crate::base::open_files::FileStats;
    pub use crate::block_cache::CacheStats;
    pub use crate::counters::reads::ReadStats;
    #[cfg(feature = "prometheus")]
    #[doc(hidden)]
    pub use crate::db::PrometheusText;
    pub use crate::db::{
        BlobStats, Latencies, Latency, Memory, Pin, PinKind, RunStats, SnapshotInfo, Space, Stats,
        TreeStats,
    };
}

/// Traits that an [`Env`] of your own implements: files, locks, maps and threads.
pub mod fs {
    pub use crate::env::{
        FileLock, FileMap, FileTerms, LogFile, LogView, ReadFile, Thread, WriteFile,
    };
}

/// Runs the examples of the pages as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/coming-from.md")]
#[doc = include_str!("../../../docs/embed.md")]
#[doc = include_str!("../../../docs/research.md")]
struct Pages;
