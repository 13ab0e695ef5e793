//! The write-ahead log: one per Db, shared by all its trees.
//!
//! A position in the log is an [`Lsn`]: a byte position in one endless log. The log is split into
//! *segments*: files of fixed capacity whose blocks are reserved before use.
//!
//! If memory is plentiful and the log grows fast, the writer recycles segments: it renames a
//! retired segment and overwrites it. Its stale bytes remain until then. Otherwise the writer
//! removes retired segments, before the system writes back their old dirty pages. Pages that are
//! still dirty then are never written.
//!
//! Memtables refer to long values in the log's memory instead of copying them ([`LogSlice`](crate::env::LogSlice)). A
//! segment is not recycled while a memtable or a reader of one refers to it.
//!
//! [`mod@format`] describes the bytes. [`writer`] appends, [`group_commit`] makes the log durable,
//! [`segment_reader`] reads, and [`recovery`] finds the end of the log.
//!
//! Invariants, numbered for reference from code:
//! - W1: segment numbers only grow, over the whole life of a Db. A segment's name is durable before
//!   the first record in it. Therefore a file never contains records of one generation from two
//!   writers.
//! - W2: a segment ends where the next one begins. The base of a segment voids everything that
//!   segments of lower number contain at or after that position. Therefore records beyond a gap
//!   never reappear after a new writer has started.
//! - W3: a record's `synced` is never above the durable position at the time of writing. If a
//!   record is damaged below the `synced` of a later valid record, it had been durable: that is
//!   corruption. Any other damage is the end of the log.
//! - W4: nothing below a position passed to [`Wal::retire`] is ever read again. The manifest
//!   durably records this position first.
//! - W5: after a failed sync no later sync reports success.
//! - W6: the manifest records each writer and its first segment before the writer appends anything.
//!   That segment is durable before the manifest is. It stays as long as the log is read from where
//!   it begins. Therefore a segment with records of any other writer is foreign: a clone or another
//!   store wrote it, or the manifest is older than it.
//! - W7: a log was closed cleanly if its newest file (of the highest number) ends with a
//!   mark whose `synced` is the mark's own position. All records before the mark were durable when
//!   it was written (W3). Nothing follows it, neither in this file nor in another, so an opening
//!   looks nowhere else. No crash can leave such a mark with records after it. Its writer appends
//!   nothing more ([`Wal::close`] consumes it). Any other writer starts a segment of a higher
//!   number, whose name is durable before its first record (W1). The mark occupies no position in
//!   the log: the next writer begins at the mark's position and voids it (W2). So the mark itself
//!   need not be durable. A log that loses it in a power cut ends at the same position and is
//!   scanned like any other.
//!
//! Spec: `format-spec/README.md`, "Write-ahead log".

use std::path::{Path, PathBuf};

pub mod format;
pub mod group_commit;
pub mod recovery;
pub mod segment_reader;
pub mod tail;
pub mod writer;

#[cfg(test)]
mod testenv;
#[cfg(test)]
mod tests;

pub use group_commit::Syncer;
pub use recovery::{
    KnownSegments, RecoveredLog, RecoveryVisit, SegmentInfo, TornTail, live_bytes, recover,
    recover_known, retained_size, segments, writers,
};
pub use segment_reader::{Damage, LogItem, SegmentReader, WalRecord};
pub use writer::{PrepareJob, Unneeded, Wal};

/// A byte position in the log. Records start and end at multiples of 8.
pub type Lsn = u64;

/// Exclusive upper bound of segment numbers; it guarantees that a next number exists.
const MAX_NUMBER: u64 = 1 << 62;

/// Returns the file name of a segment: its number in at least eight digits, and `.wal`.
pub fn segment_name(number: u64) -> String {
    format!("{number:08}.wal")
}

/// Returns the number in a segment's file name; `None` for any other name.
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal")?;
    let number = digits.parse().ok()?;
    (number < MAX_NUMBER && segment_name(number) == name).then_some(number)
}

fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(segment_name(number))
}
