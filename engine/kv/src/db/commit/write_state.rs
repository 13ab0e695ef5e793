//! The log of an open store, the sequence numbers, and which memtables need the log: what the write
//! lock protects.
//!
//! Invariants:
//! - W1 of the write path: sequence numbers are consecutive and in log order.
//! - Each memtable that was written to and is not in tables yet waits here, by where it needs the
//!   log from.

use std::collections::BTreeSet;
use std::mem::offset_of;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{MAX_SEQ, Seq};
use crate::base::ops::TreeId;
use crate::base::sync::{MutexGuard, rank};
use crate::wal::{self, Lsn, RecoveredLog, Wal};

use crate::db::commit::mem_handle::MemHandle;
use crate::db::scheduler::gate::closed;

/// More segments of the log are too many: each costs an opening a file to be opened.
const MANY_SEGMENTS: usize = 16;

/// What the write lock protects. What every write changes is its first cache line: each line more
/// would have to come from the core of the writer before, while all others wait.
#[repr(C, align(128))]
pub struct WriteState {
    next_seq: Seq,
    /// Operations and bytes written since the store was opened.
    ops: u64,
    bytes: u64,
    /// None when the store was opened read-only, and as long as it has not begun to write.
    wal: Option<Wal>,
    /// Until it has: the log as opening found it.
    found: Option<RecoveredLog>,
    waiting: BTreeSet<(Lsn, TreeId)>,
    /// The next sequence number when somebody asked last whether it rests, and since when it has
    /// been that; nanoseconds.
    rests: (Seq, u64),
}

const _: () = assert!(offset_of!(WriteState, wal) + Wal::HOT <= 64);

/// Nanoseconds: where nothing was written for so long the store rests.
const REST: u64 = 1_000_000_000;

/// The write lock, held.
pub type Writing<'a> = MutexGuard<'a, WriteState, rank::Write>;

/// What was written since a store was opened.
#[derive(Clone, Copy)]
pub struct WrittenSum {
    /// Operations.
    pub ops: u64,
    /// Bytes of keys and values, or of encoded batches.
    pub bytes: u64,
}

/// The place of a record in the log.
#[derive(Clone, Copy)]
pub struct RecordPlace {
    /// Where it begins.
    pub begin: Lsn,
    /// Where it ends.
    pub end: Lsn,
}

impl WriteState {
    /// Of a store in which this is the newest sequence number; its log is still to be read.
    pub fn new(last_seq: Seq) -> WriteState {
        WriteState {
            wal: None,
            found: None,
            next_seq: last_seq + 1,
            ops: 0,
            bytes: 0,
            waiting: BTreeSet::new(),
            rests: (0, 0),
        }
    }

    /// The log has been read: this is the newest sequence number, and the log is to be gone on
    /// with where it ends, if ever.
    pub fn go_on_from(&mut self, last_seq: Seq, found: Option<RecoveredLog>) {
        self.next_seq = last_seq + 1;
        self.found = found;
    }

    /// The log as opening found it, as long as the store has not begun to write.
    pub fn found(&self) -> Option<&RecoveredLog> {
        self.found.as_ref()
    }

    /// The store begins to write, into this log.
    pub fn begin(&mut self, wal: Wal) {
        self.found = None;
        self.wal = Some(wal);
    }

    /// Whether the store has begun to write.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.wal.is_some()
    }

    /// Whether the store has begun to write, and nothing has been written for a while. `now` is the
    /// monotonic clock.
    pub fn rests(&mut self, now: u64) -> bool {
        if self.rests.0 != self.next_seq {
            self.rests = (self.next_seq, now);
        }
        self.has_begun() && now.saturating_sub(self.rests.1) >= REST
    }

    /// The log, to be closed; nothing is written after it.
    pub fn take_log(&mut self) -> Option<Wal> {
        self.wal.take()
    }

    /// The log, for what is done with its segments.
    pub fn log(&mut self) -> Option<&mut Wal> {
        self.wal.as_mut()
    }

    /// The sequence number of the next operation, when there are numbers left for so many.
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

    /// The newest sequence number that was given to anything.
    #[inline]
    pub fn newest(&self) -> Seq {
        self.next_seq - 1
    }

    /// Takes the next sequence number for something that is not in the log.
    pub fn take_seq(&mut self) -> Seq {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// Appends a record of `count` operations, the first with the number `seq`, which is the
    /// next; `bytes` are those that the user counts.
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

    /// Sends a writer, whose record begins at this place in the log, into a memtable.
    #[inline]
    pub fn enter(&mut self, tree: TreeId, mem: &MemHandle, begin: Lsn) {
        if mem.enter(begin) {
            self.waiting.insert((mem.start(), tree));
        }
    }

    /// Says that a memtable needs the log, if it was written to: one that opening has filled.
    pub fn wait(&mut self, tree: TreeId, mem: &MemHandle) {
        if mem.is_touched() {
            self.waiting.insert((mem.start(), tree));
        }
    }

    /// Says that a memtable is in tables, or that its tree is gone.
    pub fn release(&mut self, tree: TreeId, mem: &MemHandle) {
        // The one behind an untouched memtable may begin where that was made.
        if mem.is_touched() {
            self.waiting.remove(&(mem.start(), tree));
        }
    }

    /// The memtables that need the log, those first that need most of it: from where, and of which
    /// tree.
    pub fn waiting(&self) -> impl Iterator<Item = (Lsn, TreeId)> + '_ {
        self.waiting.iter().copied()
    }

    /// The position below which no tree needs the log any more, once these memtables are in tables.
    /// Under the write lock, because a writer has its place in the log before its entry is in the
    /// memtable.
    pub fn wal_floor(&self, flushed: &[(TreeId, &MemHandle)]) -> Lsn {
        let done = |&&(start, tree): &&(Lsn, TreeId)| {
            flushed.iter().any(|(t, m)| *t == tree && m.is_touched() && m.start() == start)
        };
        self.waiting.iter().find(|w| !done(w)).map_or(self.end(), |w| w.0)
    }

    /// Where the log ends.
    pub fn end(&self) -> Lsn {
        match (&self.wal, &self.found) {
            (Some(wal), _) => wal.end(),
            (None, found) => found.as_ref().map_or(0, |f| f.end),
        }
    }

    /// Bytes of log that are kept.
    pub fn log_bytes(&self) -> u64 {
        match (&self.wal, &self.found) {
            (Some(wal), _) => wal.live_bytes(),
            (None, found) => found.as_ref().map_or(0, |f| wal::live_bytes(&f.segments)),
        }
    }

    /// What was written since the store was opened.
    pub fn written(&self) -> WrittenSum {
        WrittenSum { ops: self.ops, bytes: self.bytes }
    }

    /// Whether the segments of the log are many, or take more than `limit` bytes, full or not.
    pub fn is_log_long(&self, limit: u64) -> bool {
        let (bytes, segments) = match (&self.wal, &self.found) {
            (Some(wal), _) => wal.kept(),
            (None, found) => found.as_ref().map_or((0, 0), |f| wal::kept(&f.segments)),
        };
        bytes > limit || segments > MANY_SEGMENTS
    }

    /// Where the segments end that earlier openings have left, when there are twice as many of them
    /// as an opening should find; else 0.
    pub fn inherited_too_many(&self) -> Lsn {
        let (segments, end) = self.wal.as_ref().map_or((0, 0), Wal::inherited);
        if segments > 2 * MANY_SEGMENTS { end } else { 0 }
    }
}
