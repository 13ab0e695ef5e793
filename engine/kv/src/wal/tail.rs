//! Follows the log beside its writer: reads records in order from a position on, including those
//! appended meanwhile.
//!
//! A follower pins the log ([`LogHold`]): segments that nobody else needs stay, up to a bound in
//! bytes of log. A follower that falls behind further loses its hold, is notified, and reads no
//! more.
//!
//! Invariants:
//! - Every returned record has passed its checksum, which covers segment and offset. So records of
//!   a recycled segment never pass for its earlier content.
//! - A hold is marked lost before any segment that it pinned is released.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Lsn;
use super::format::SEGMENT_HEADER;
use super::segment_reader::SegmentReader;
use crate::base::error::{Error, Result};
use crate::base::key::Seq;
use crate::env::Env;
use crate::util::sync::{AtomicBool, AtomicU64, Ordering};

/// Pins segments of the log for a follower, as long as it lives.
pub struct LogHold {
    from: AtomicU64,
    most: AtomicU64,
    lost: AtomicBool,
    /// Whether the pinned log must survive a power cut.
    is_durable: bool,
}

debug_by!(LogHold, "LogHold");

impl LogHold {
    /// Pins the log from this position on, without a bound.
    pub fn new(from: Lsn) -> LogHold {
        LogHold {
            from: AtomicU64::new(from),
            most: AtomicU64::new(u64::MAX),
            lost: AtomicBool::new(false),
            is_durable: false,
        }
    }

    /// Pins the log from this position on, at most `most` bytes, for a follower that resumes there
    /// after a restart.
    pub fn durable(from: Lsn, most: u64) -> LogHold {
        LogHold { most: AtomicU64::new(most), is_durable: true, ..LogHold::new(from) }
    }

    /// Reports whether the pinned log must survive a power cut.
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Sets the maximum number of bytes of log that it pins.
    pub fn bound(&self, most: u64) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Returns the position from which it pins the log.
    pub fn from(&self) -> Lsn {
        self.from.load(Ordering::Relaxed)
    }

    /// Releases the whole log.
    pub fn release(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Releases the log below this position.
    pub fn move_to(&self, from: Lsn) {
        self.from.store(from, Ordering::Relaxed);
    }

    /// Returns the position from which the log must stay, if it ends at `end` and is to be released
    /// below `lsn`. Returns `None`, and marks the hold lost, if that exceeds the bound.
    pub(super) fn keeps(&self, end: Lsn, lsn: Lsn) -> Option<Lsn> {
        let from = self.from.load(Ordering::Relaxed);
        if from < lsn && end.saturating_sub(from) > self.most.load(Ordering::Relaxed) {
            self.lost.store(true, Ordering::Release);
        }
        (!self.is_lost()).then_some(from)
    }

    /// Reports whether the hold was lost.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

/// A segment of the present log: its number and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPlace {
    /// The segment's number.
    pub number: u64,
    /// Position of its first record.
    pub base: Lsn,
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedRecord {
    /// Position of its first byte in the log.
    pub begin: Lsn,
    /// Sequence number of its first operation.
    pub seq: Seq,
    /// Its operations.
    pub payload: Vec<u8>,
}

/// A reader that follows the log.
pub struct LogFollower {
    env: Arc<dyn Env>,
    dir: PathBuf,
    at: Lsn,
    hold: Arc<LogHold>,
    segment: Option<FollowedSegment>,
}

/// The open segment.
struct FollowedSegment {
    base: Lsn,
    /// Start of the next segment, if it was known at opening.
    until: Option<Lsn>,
    reader: SegmentReader,
}

debug_by!(LogFollower, "LogFollower", at);

impl LogFollower {
    /// Starts a follower at this position, which the hold must cover.
    pub fn new(env: &Arc<dyn Env>, dir: &Path, at: Lsn, hold: Arc<LogHold>) -> LogFollower {
        LogFollower { env: env.clone(), dir: dir.to_path_buf(), at, hold, segment: None }
    }

    /// Returns the current position.
    pub fn at(&self) -> Lsn {
        self.at
    }

    /// Returns the hold.
    pub fn hold(&self) -> &Arc<LogHold> {
        &self.hold
    }

    /// Returns the next record; `None` at the present end of the log. `log` returns the segments,
    /// in order, and the end of the log.
    ///
    /// # Errors
    /// `Corruption` if there is no valid record at the position; errors of the environment. A lost
    /// hold explains either: the caller must check [`LogHold::is_lost`].
    pub fn next(
        &mut self,
        log: impl Fn() -> Result<(Vec<SegmentPlace>, Lsn)>,
    ) -> Result<Option<FollowedRecord>> {
        // Position for which a segment was opened.
        let mut opened_for = None;
        loop {
            if let Some(record) = self.here()? {
                return Ok(Some(record));
            }
            let (segments, end) = log()?;
            if self.at >= end {
                return Ok(None);
            }
            // The segment just opened for this position has nothing there.
            if opened_for == Some(self.at) {
                return Err(self.damaged());
            }
            let Some(n) = segments.iter().rposition(|s| s.base <= self.at) else {
                return Err(self.damaged());
            };
            let reader = SegmentReader::open(&*self.env, &self.dir, segments[n].number)?;
            let until = segments.get(n + 1).map(|next| next.base);
            self.segment = Some(FollowedSegment { base: segments[n].base, until, reader });
            opened_for = Some(self.at);
        }
    }

    /// Returns the record exactly at the current position, in the open segment.
    fn here(&mut self) -> Result<Option<FollowedRecord>> {
        let Some(FollowedSegment { base, until, reader }) = &mut self.segment else {
            return Ok(None);
        };
        if until.is_some_and(|until| self.at >= until) {
            return Ok(None);
        }
        // Try the read-ahead buffer first, then read what has been appended since.
        for _ in 0..2 {
            reader.seek(SEGMENT_HEADER + (self.at - *base));
            match reader.here()? {
                // A mark ends the file and occupies no position in the log (W7), unless a crash
                // came before the file was truncated: then the next segment begins behind it.
                Ok(record) if record.mark => {
                    if *until == Some(self.at + record.size) {
                        self.at += record.size;
                        self.hold.move_to(self.at);
                    }
                    return Ok(None);
                }
                Ok(record) => {
                    let begin = self.at;
                    self.at += record.size;
                    let (seq, payload) = (record.seq, record.payload.to_vec());
                    self.hold.move_to(self.at);
                    return Ok(Some(FollowedRecord { begin, seq, payload }));
                }
                Err(_) => reader.forget(),
            }
        }
        Ok(None)
    }

    fn damaged(&self) -> Error {
        let words = format!("the log has no record at position {}, and goes on behind it", self.at);
        let (file, offset) = match &self.segment {
            Some(s) => (s.reader.path(), s.reader.offset()),
            None => (self.dir.as_path(), 0),
        };
        Error::corruption(words).at(file, offset).block("wal record")
    }
}

/// Returns the sequence number of a segment's first record; `None` when it has no record.
///
/// # Errors
/// Errors of the environment.
pub fn first_of(env: &dyn Env, dir: &Path, place: SegmentPlace) -> Result<Option<Seq>> {
    let mut reader = SegmentReader::open(env, dir, place.number)?;
    Ok(reader.here()?.ok().filter(|record| !record.mark).map(|record| record.seq))
}
