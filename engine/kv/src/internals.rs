//! The engine's internal modules, for file inspection tools, benchmarks and fuzzers.
//!
//! **Nothing here is stable.** Names, signatures and behaviour change with any release, including
//! patch releases. Applications use the crate root, whose API is stable.
//!
//! The modules form floors (layers), and a module imports only lower floors: [`compaction`],
//! [`util`] (0) < [`base`] (1) < [`mod@env`], [`block_cache`], [`range_del`], [`counters`] (2) <
//! [`wal`], [`memtable`], [`sstable`], [`manifest`] (3) < [`iterator`] (4) < [`rewrite`] (5) <
//! [`db`] (6).

/// Floor 1: common types of the engine.
pub mod base {
    pub use crate::base::*;
}
/// Floor 2: block cache, which holds decoded blocks in recycled frames.
pub mod block_cache {
    pub use crate::block_cache::*;
}
/// Floor 0: compaction policies and the jobs that they pick.
pub mod compaction {
    pub use crate::compaction::*;
}
/// Floor 2: counters of reads.
pub mod counters {
    pub use crate::counters::*;
}
/// Floor 6: statistics in Prometheus format, and creation of a store.
pub mod db {
    pub use crate::db::{PrometheusText, create_dir, new_id};
}
/// Floor 2: environments (file systems, threads and clocks).
pub mod env {
    pub use crate::env::*;
}
/// Floor 4: runs of tables, and the merged view of a reader.
pub mod iterator {
    pub use crate::iterator::*;
}
/// Floor 3: memtable, which holds the writes since the last flush.
pub mod memtable {
    pub use crate::memtable::*;
}
/// Floor 2: range deletions.
pub mod range_del {
    pub use crate::range_del::*;
}
/// Floor 5: rewriting of entries into tables.
pub mod rewrite {
    pub use crate::rewrite::*;
}
/// Floor 3: table files.
pub mod sstable {
    pub use crate::sstable::*;
}
/// Floor 0: utilities.
pub mod util {
    pub use crate::util::*;
}
/// Floor 3: manifest, the record of live files.
pub mod manifest {
    pub use crate::manifest::*;
}
/// Floor 3: write-ahead log.
pub mod wal {
    pub use crate::wal::*;
}
