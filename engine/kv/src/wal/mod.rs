//! Floor 2: the write-ahead log: one per Db, shared by all its trees.
//!
//! A position in the log is an [`Lsn`]: a byte position in one endless log. The log is cut into
//! *segments*, files of fixed capacity whose blocks are reserved before use. Where memory is plenty
//! they are recycled while the log grows fast: a retired segment is renamed and overwritten, and
//! its stale bytes stay in it until then. Otherwise, and before the system would write what has
//! long been dirty, it is removed, and what has not been written of it by then never is. Bytes are described in [`mod@format`]; writing is in [`writer`],
//! durability in [`syncer`], reading in [`reader`], deciding where the log ends in [`recovery`].
//!
//! Invariants, numbered so that code can point at them:
//! - W1: segment numbers only grow, over the whole life of a Db, and a segment's name is durable
//!   before a record is written into it. So no record of one generation can ever be met in a file
//!   that is about to hold another writer's records of the same generation.
//! - W2: a segment ends where the next one begins: the base of a segment voids whatever segments of
//!   lower number hold at or after that position. So records beyond a gap never come back to life
//!   once a new writer has started.
//! - W3: a record's `synced` never lies beyond what was durable when the record was written. A
//!   record that lies damaged below the `synced` of a sound later record had been durable: that is
//!   corruption, everything else is the end of the log.
//! - W4: what lies below a position given to [`Wal::retire`] is never read again; the manifest says
//!   so durably before.
//! - W5: after a sync has failed no later one reports success.
//! - W6: the manifest knows each writer and the segment that it began with before the writer
//!   appends anything, and that segment is durable before the manifest is and stays as long as the
//!   log is read from where it begins. So a segment with records of any other writer is none of
//!   this log: it is a clone's or another store's, or the manifest is older than it.
//! - W7: a log was closed cleanly when its newest file, the one of the highest number, ends with a
//!   mark whose `synced` is the mark's own position. Then all before the mark had been durable when
//!   it was written (W3), and nothing lies behind it: neither in this file, nor in another. So an
//!   opening looks nowhere else. No crash can leave such a mark while something was appended after
//!   it: the writer that wrote it appends nothing more ([`Wal::close`] takes it), and any other
//!   begins a segment of a higher number, whose name is durable before its first record (W1). The
//!   mark takes no place in the log: the next writer begins where the mark stands, and voids it
//!   (W2). So it need not be durable itself; a log that lost it to a power cut ends in the same
//!   place, and is looked through as any other.
//!
//! Spec: `format-spec/README.md`, "Write-ahead log".

use std::path::{Path, PathBuf};

pub mod follow;
pub mod format;
pub mod reader;
pub mod recovery;
mod rot;
pub mod syncer;
pub mod writer;

#[cfg(test)]
mod testenv;
#[cfg(test)]
mod tests;

pub use reader::{Damage, LogItem, SegmentReader, WalRecord};
pub use recovery::{
    KnownSegments, RecoveredLog, RecoveryVisit, SegmentInfo, TornTail, kept, live_bytes, recover,
    recover_known, segments, writers,
};
pub use syncer::Syncer;
pub use writer::{PrepareJob, Unneeded, Wal};

/// A byte position in the log. Records start and end at multiples of 8.
pub type Lsn = u64;

/// Numbers of segments lie below this, so that there is always a next one.
const MAX_NUMBER: u64 = 1 << 62;

/// The file name of a segment: its number in at least eight digits, and `.wal`.
pub fn segment_name(number: u64) -> String {
    format!("{number:08}.wal")
}

/// The number in a segment's file name; `None` for names that are no segment's.
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal")?;
    let number = digits.parse().ok()?;
    (number < MAX_NUMBER && segment_name(number) == name).then_some(number)
}

fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(segment_name(number))
}
