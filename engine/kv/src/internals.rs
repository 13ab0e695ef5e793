//! The engine's internal modules, for file inspection tools, benchmarks and fuzzers.
//!
//! **Nothing here is stable.** Names, signatures and behaviour change with any release, including
//! patch releases. Applications use the crate root, whose API is stable.
//!
//! The modules form floors (layers), and a module imports only lower floors: [`util`] (0) <
//! [`compaction`] (1) < [`base`] (2) < [`mod@env`], [`block_cache`], [`range_del`], [`counters`]
//! (3) < [`wal`], [`memtable`], [`sstable`], [`manifest`] (4) < [`iterator`] (5) < [`rewrite`] (6)
//! < [`db`] (7).

/// Floor 2: common types of the engine.
pub mod base {
    pub use crate::base::*;
}
/// Floor 3: block cache, which holds decoded blocks in recycled frames.
pub mod block_cache {
    pub use crate::block_cache::*;
}
/// Floor 1: compaction policies and the jobs that they pick.
pub mod compaction {
    pub use crate::compaction::*;
}
/// Floor 3: counters of reads.
pub mod counters {
    pub use crate::counters::*;
}
/// Floor 7: creation of a store, and the table of its metrics.
pub mod db {
    #[cfg(feature = "prometheus")]
    pub use crate::db::metrics;
    pub use crate::db::{create_dir, new_id};
}
/// Floor 3: environments (file systems, threads and clocks).
pub mod env {
    pub use crate::env::*;
}
/// Floor 7: definitions of trees and encoded operations, for copies of a store.
pub mod replication {
    pub use crate::db::replication::*;
}
/// Floor 5: runs of tables, and the merged view of a reader.
pub mod iterator {
    pub use crate::iterator::*;
}
/// Floor 4: memtable, which holds the writes since the last flush.
pub mod memtable {
    pub use crate::memtable::*;
}
/// Floor 3: range deletions.
pub mod range_del {
    pub use crate::range_del::*;
}
/// Floor 6: rewriting of entries into tables.
pub mod rewrite {
    pub use crate::rewrite::*;
}
/// Floor 4: table files.
pub mod sstable {
    pub use crate::sstable::*;
}
/// Floor 0: utilities.
pub mod util {
    pub use crate::util::*;
}
/// Floor 4: manifest, the record of live files.
pub mod manifest {
    pub use crate::manifest::*;
}
/// Floor 4: write-ahead log.
pub mod wal {
    pub use crate::wal::*;
}
