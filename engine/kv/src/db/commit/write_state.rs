//! State under the write lock: the write-ahead log, the sequence numbers, and the memtables that
//! need the log.
//!
//! Invariants:
//! - W1 of the write path: sequence numbers are consecutive and in log order.
//! - `unflushed` contains each memtable that was written to and is not yet flushed, ordered by the
//!   log position from which it needs the log.

use std::mem::offset_of;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{MAX_SEQ, Seq};
use crate::base::ops::TreeId;
use crate::env::LogSlice;
use crate::util::sorted_map::SortedSet;
use crate::util::sync::{MutexGuard, rank};
use crate::wal::{self, Lsn, RecoveredLog, Wal};

use crate::db::commit::mem_handle::MemHandle;
use crate::db::scheduler::gate::closed;

/// Number of log segments above which the log is too long. Each segment costs an open one more file
/// to open.
const MANY_SEGMENTS: usize = 16;

/// State that the write lock protects. The fields that every write changes are in its first cache
/// line. Each further line would be transferred from the core of the previous writer while all
/// others wait.
#[repr(C, align(128))]
pub struct WriteState {
    next_seq: Seq,
    /// Operations and bytes written since the store was opened.
    ops: u64,
    bytes: u64,
    /// `None` if the store was opened read-only, and until the store begins to write.
    wal: Option<Wal>,
    /// Log as the open found it, until the store begins to write.
    found: Option<RecoveredLog>,
    unflushed: SortedSet<(Lsn, TreeId)>,
    /// Next sequence number at the last call of `rests`, and the time since when it has been that,
    /// in nanoseconds.
    rests: (Seq, u64),
}

const _: () = assert!(offset_of!(WriteState, wal) + Wal::HOT <= 64);

/// Nanoseconds without a write after which the store is idle.
const REST: u64 = 1_000_000_000;

/// Guard of the write lock.
pub type Writing<'a> = MutexGuard<'a, WriteState, rank::Write>;

/// Amount of writes since a store was opened.
#[derive(Clone, Copy)]
pub struct WrittenSum {
    /// Number of operations.
    pub ops: u64,
    /// Bytes of keys and values, or of encoded batches.
    pub bytes: u64,
}

/// Range of a record in the log.
#[derive(Clone, Copy)]
pub struct RecordPlace {
    /// Position of its first byte.
    pub begin: Lsn,
    /// Position after its last byte.
    pub end: Lsn,
}

impl WriteState {
    /// Creates the state of a store with this newest sequence number, before its log is read.
    pub fn new(last_seq: Seq) -> WriteState {
        WriteState {
            wal: None,
            found: None,
            next_seq: last_seq + 1,
            ops: 0,
            bytes: 0,
            unflushed: SortedSet::new(),
            rests: (0, 0),
        }
    }

    /// Ends the reading of the log: sets the newest sequence number, and the log to continue at its
    /// end once the store begins to write.
    pub fn go_on_from(&mut self, last_seq: Seq, found: Option<RecoveredLog>) {
        self.next_seq = last_seq + 1;
        self.found = found;
    }

    /// Returns the log as the open found it, until the store begins to write.
    pub fn found(&self) -> Option<&RecoveredLog> {
        self.found.as_ref()
    }

    /// Begins to write into this log.
    pub fn begin(&mut self, wal: Wal) {
        self.found = None;
        self.wal = Some(wal);
    }

    /// Reports whether the store has begun to write.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.wal.is_some()
    }

    /// Reports whether the store has begun to write and has been idle for [`REST`]. `now` is the
    /// monotonic clock in nanoseconds.
    pub fn rests(&mut self, now: u64) -> bool {
        if self.rests.0 != self.next_seq {
            self.rests = (self.next_seq, now);
        }
        self.has_begun() && now.saturating_sub(self.rests.1) >= REST
    }

    /// Removes and returns the log, to be closed. Later writes fail.
    pub fn take_log(&mut self) -> Option<Wal> {
        self.wal.take()
    }

    /// Returns the log, for operations on its segments.
    pub fn log(&mut self) -> Option<&mut Wal> {
        self.wal.as_mut()
    }

    /// Returns the sequence number of the next operation.
    ///
    /// # Errors
    /// `ReadOnly` if fewer than `count` sequence numbers are left.
    #[inline]
    pub fn next_seq(&self, count: u64) -> Result<Seq> {
        if self.next_seq + count > MAX_SEQ {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the store has used up its sequence numbers",
            ));
        }
        Ok(self.next_seq)
    }

    /// Returns the newest sequence number in use.
    #[inline]
    pub fn newest(&self) -> Seq {
        self.next_seq - 1
    }

    /// Allocates the next sequence number for a change that is not in the log.
    pub fn take_seq(&mut self) -> Seq {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// Appends a record of `count` operations. The first one has the number `seq`, which must be
    /// the next. `bytes` is added to the bytes written that statistics report.
    #[inline]
    pub fn append(
        &mut self,
        seq: Seq,
        count: u64,
        bytes: usize,
        parts: &[&[u8]],
    ) -> Result<RecordPlace> {
        let Some(wal) = &mut self.wal else { return Err(closed()) };
        let begin = wal.end();
        let end = wal.append(seq, parts)?;
        self.next_seq = seq + count;
        self.ops += count;
        self.bytes += bytes as u64;
        Ok(RecordPlace { begin, end })
    }

    /// Returns a view of the payload of the record that was appended last, if the log's memory can
    /// be read; `len` is its length.
    pub fn last_payload(&mut self, len: usize) -> Option<LogSlice> {
        self.wal.as_mut()?.last_payload(len)
    }

    /// Enters a writer, whose record begins at this log position, into a memtable.
    #[inline]
    pub fn enter(&mut self, tree: TreeId, mem: &MemHandle, begin: Lsn) {
        if mem.enter(begin) {
            self.unflushed.insert((mem.start(), tree));
        }
    }

    /// Records that a memtable needs the log, if it was written to. Replay calls this for memtables
    /// that it filled.
    pub fn note_unflushed(&mut self, tree: TreeId, mem: &MemHandle) {
        if mem.is_touched() {
            self.unflushed.insert((mem.start(), tree));
        }
    }

    /// Records that a memtable was flushed, or that its tree was dropped.
    pub fn release(&mut self, tree: TreeId, mem: &MemHandle) {
        // The successor of an untouched memtable may start at the same log position.
        if mem.is_touched() {
            self.unflushed.remove(&(mem.start(), tree));
        }
    }

    /// Returns the memtables that need the log, the one with the lowest position first: log
    /// position and tree.
    pub fn unflushed(&self) -> impl Iterator<Item = (Lsn, TreeId)> + '_ {
        self.unflushed.iter().copied()
    }

    /// Returns the position below which no tree needs the log once these memtables are flushed.
    /// Requires the write lock, because a writer has its log position before its entry is in the
    /// memtable.
    pub fn wal_floor(&self, flushed: &[(TreeId, &MemHandle)]) -> Lsn {
        let done = |&&(start, tree): &&(Lsn, TreeId)| {
            flushed.iter().any(|(t, m)| *t == tree && m.is_touched() && m.start() == start)
        };
        self.unflushed.iter().find(|w| !done(w)).map_or(self.end(), |w| w.0)
    }

    /// Returns the end of the log.
    pub fn end(&self) -> Lsn {
        match (&self.wal, &self.found) {
            (Some(wal), _) => wal.end(),
            (None, found) => found.as_ref().map_or(0, |f| f.end),
        }
    }

    /// Returns the bytes of live log segments.
    pub fn log_bytes(&self) -> u64 {
        match (&self.wal, &self.found) {
            (Some(wal), _) => wal.live_bytes(),
            (None, found) => found.as_ref().map_or(0, |f| wal::live_bytes(&f.segments)),
        }
    }

    /// Returns the amount of writes since the store was opened.
    pub fn written(&self) -> WrittenSum {
        WrittenSum { ops: self.ops, bytes: self.bytes }
    }

    /// Reports whether the memtables need more than [`MANY_SEGMENTS`] segments of the log, or more
    /// than `limit` bytes, in full segments or not. Segments that only followers pin do not count.
    pub fn is_log_long(&self, limit: u64) -> bool {
        let floor = self.wal_floor(&[]);
        let (bytes, segments) = match (&self.wal, &self.found) {
            (Some(wal), _) => wal.retained_size(floor),
            (None, found) => {
                found.as_ref().map_or((0, 0), |f| wal::retained_size(&f.segments, floor))
            }
        };
        bytes > limit || segments > MANY_SEGMENTS
    }

    /// Returns the end of the segments from earlier opens, if they are more than twice
    /// [`MANY_SEGMENTS`]. Returns 0 otherwise.
    pub fn inherited_too_many(&self) -> Lsn {
        let (segments, end) = self.wal.as_ref().map_or((0, 0), Wal::inherited);
        if segments > 2 * MANY_SEGMENTS { end } else { 0 }
    }
}
