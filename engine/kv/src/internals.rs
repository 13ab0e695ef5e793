//! The engine's internal modules, for file inspection tools, benchmarks and fuzzers.
//!
//! **Nothing here is stable.** Names, signatures and behaviour change with any release, including
//! patch releases. Applications use the crate root, whose API is stable.
//!
//! The modules form floors (layers), and a module imports only lower floors: [`compaction`],
//! [`base`] (0) < [`mod@env`], [`cache`] (1) < [`wal`], [`memtable`], [`sstable`], [`manifest`] (2)
//! < [`merge`] (3) < [`db`] (4).

/// Floor 0: common types of the engine.
pub mod base {
    pub use crate::base::*;
}
/// Floor 1: block cache, which holds decoded blocks in recycled frames.
pub mod cache {
    pub use crate::cache::*;
}
/// Floor 0: compaction policies and the jobs that they pick.
pub mod compaction {
    pub use crate::compaction::*;
}
/// Floor 4: statistics in Prometheus format, and creation of a store.
pub mod db {
    pub use crate::db::{PrometheusText, create_dir, new_id};
}
/// Floor 1: environments (file systems, threads and clocks).
pub mod env {
    pub use crate::env::*;
}
/// Floor 2: manifest, the record of live files.
pub mod manifest {
    pub use crate::manifest::*;
}
/// Floor 2: memtable, which holds the writes since the last flush.
pub mod memtable {
    pub use crate::memtable::*;
}
/// Floor 3: runs of tables, and the merged view of a reader.
pub mod merge {
    pub use crate::merge::*;
}
/// Floor 2: table files.
pub mod sstable {
    pub use crate::sstable::*;
}
/// Floor 2: write-ahead log.
pub mod wal {
    pub use crate::wal::*;
}
