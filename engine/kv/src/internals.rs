//! The rooms of the engine, for the tools that look into files, the benches and the fuzzers.
//!
//! **Nothing here is promised.** Names, signatures and behaviour change with any release, also with
//! a patch; an application takes what it needs from the crate's root, where names stay. Rooms are
//! modules of the crate; a module imports only lower floors: [`compaction`], [`base`] (0) <
//! [`mod@env`], [`cache`] (1) < [`wal`], [`memtable`], [`sstable`], [`manifest`] (2) < [`merge`]
//! (3) < [`db`] (4).

/// Floor 0: the vocabulary of the engine.
pub mod base {
    pub use crate::base::*;
}
/// Floor 1: decoded blocks in recycled frames.
pub mod cache {
    pub use crate::cache::*;
}
/// Floor 0: the policies, and the jobs that they ask for.
pub mod compaction {
    pub use crate::compaction::*;
}
/// Floor 4: what a store counts, as a scraper reads it; what a new store has.
pub mod db {
    pub use crate::db::{PrometheusText, create_dir, new_id};
}
/// Floor 1: the environments.
pub mod env {
    pub use crate::env::*;
}
/// Floor 2: what is live.
pub mod manifest {
    pub use crate::manifest::*;
}
/// Floor 2: what has been written since the last flush.
pub mod memtable {
    pub use crate::memtable::*;
}
/// Floor 3: runs of tables, and what a reader sees of them.
pub mod merge {
    pub use crate::merge::*;
}
/// Floor 2: table files.
pub mod sstable {
    pub use crate::sstable::*;
}
/// Floor 2: the log.
pub mod wal {
    pub use crate::wal::*;
}
