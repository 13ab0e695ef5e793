//! Floor 6: rewrites entries into tables, for flushes and compactions.
//!
//! - [`retain`]: versions that a flush or a compaction must retain.
//! - [`emptied`]: ranges that the deletes of a memtable have emptied, so range deletions can
//!   replace them.
//! - [`job`]: writes the tables of a flush or a compaction.

pub mod emptied;
pub mod job;
pub mod retain;
