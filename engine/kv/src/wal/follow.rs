//! Following the log beside its writer: records in order, from a position on, those too that are
//! appended meanwhile.
//!
//! Who follows holds the log ([`LogHold`]): segments that nobody else needs stay, up to so many bytes
//! of log. When it is further behind than that, it loses its hold, is told so, and reads no more.
//!
//! Invariants:
//! - What was read has passed its checksum, which knows segment and place: a segment that was used
//!   again under the reader's hands is never taken for what it was.
//! - A hold is lost before any segment that it held is given up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Lsn;
use super::format::SEGMENT_HEADER;
use super::reader::SegmentReader;
use crate::base::error::{Error, Result};
use crate::base::key::Seq;
use crate::base::sync::{AtomicBool, AtomicU64, Ordering};
use crate::env::Env;

/// What keeps segments of the log for one who follows it, as long as it lives.
pub struct LogHold {
    from: AtomicU64,
    most: AtomicU64,
    lost: AtomicBool,
}

debug_by!(LogHold, "LogHold");

impl LogHold {
    /// Of the log from this position on, whatever that takes.
    pub fn new(from: Lsn) -> LogHold {
        LogHold {
            from: AtomicU64::new(from),
            most: AtomicU64::new(u64::MAX),
            lost: AtomicBool::new(false),
        }
    }

    /// From now on only of so many bytes.
    pub fn bound(&self, most: u64) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// What lies below is not needed any more.
    fn move_to(&self, from: Lsn) {
        self.from.store(from, Ordering::Relaxed);
    }

    /// Where the log must be kept from, when it ends at `end` and is to be given up below `lsn`;
    /// `None` when that is more than is held: the hold is lost then.
    pub(super) fn keeps(&self, end: Lsn, lsn: Lsn) -> Option<Lsn> {
        let from = self.from.load(Ordering::Relaxed);
        if from < lsn && end.saturating_sub(from) > self.most.load(Ordering::Relaxed) {
            self.lost.store(true, Ordering::Release);
        }
        (!self.is_lost()).then_some(from)
    }

    /// Whether it was lost.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

/// A segment that the log has now: its number, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPlace {
    /// Its number.
    pub number: u64,
    /// Position of its first record.
    pub base: Lsn,
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedRecord {
    /// Sequence number of its first operation.
    pub seq: Seq,
    /// Its operations.
    pub payload: Vec<u8>,
}

/// A walk over the log.
pub struct LogFollower {
    env: Arc<dyn Env>,
    dir: PathBuf,
    at: Lsn,
    hold: Arc<LogHold>,
    segment: Option<FollowedSegment>,
}

/// The segment that is read.
struct FollowedSegment {
    base: Lsn,
    /// Where the next one begins, as far as that was known.
    until: Option<Lsn>,
    reader: SegmentReader,
}

debug_by!(LogFollower, "LogFollower", at);

impl LogFollower {
    /// From this position on, which the hold covers.
    pub fn new(env: &Arc<dyn Env>, dir: &Path, at: Lsn, hold: Arc<LogHold>) -> LogFollower {
        LogFollower { env: env.clone(), dir: dir.to_path_buf(), at, hold, segment: None }
    }

    /// Where it stands.
    pub fn at(&self) -> Lsn {
        self.at
    }

    /// The hold.
    pub fn hold(&self) -> &Arc<LogHold> {
        &self.hold
    }

    /// The next record; `None` where the log ends, for now. `log` tells the segments, in order, and
    /// where the log ends.
    ///
    /// # Errors
    /// `Corruption` when what lies there is no record, and what the environment says. Whether the
    /// hold was lost meanwhile, which explains either, is for the caller to ask.
    pub fn next(
        &mut self,
        log: impl Fn() -> Result<(Vec<SegmentPlace>, Lsn)>,
    ) -> Result<Option<FollowedRecord>> {
        let mut is_fresh = false;
        loop {
            if let Some(record) = self.here()? {
                return Ok(Some(record));
            }
            let (segments, end) = log()?;
            if self.at >= end {
                return Ok(None);
            }
            // The one that was opened for this place a moment ago has nothing there.
            if is_fresh {
                return Err(self.damaged());
            }
            let Some(n) = segments.iter().rposition(|s| s.base <= self.at) else {
                return Err(self.damaged());
            };
            let reader = SegmentReader::open(&*self.env, &self.dir, segments[n].number)?;
            let until = segments.get(n + 1).map(|next| next.base);
            self.segment = Some(FollowedSegment { base: segments[n].base, until, reader });
            is_fresh = true;
        }
    }

    /// The record at the very place where the walk stands, in the segment that is open.
    fn here(&mut self) -> Result<Option<FollowedRecord>> {
        let Some(FollowedSegment { base, until, reader }) = &mut self.segment else {
            return Ok(None);
        };
        if until.is_some_and(|until| self.at >= until) {
            return Ok(None);
        }
        // As it was read ahead, and with what has been appended since.
        for _ in 0..2 {
            reader.seek(SEGMENT_HEADER + (self.at - *base));
            match reader.here()? {
                // It ends the file, and takes no place in the log (W7).
                Ok(record) if record.mark => return Ok(None),
                Ok(record) => {
                    self.at += record.size;
                    let (seq, payload) = (record.seq, record.payload.to_vec());
                    self.hold.move_to(self.at);
                    return Ok(Some(FollowedRecord { seq, payload }));
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

/// The first record of a segment: its sequence number and its place; `None` when it has none.
///
/// # Errors
/// What the environment says.
pub fn first_of(env: &dyn Env, dir: &Path, place: SegmentPlace) -> Result<Option<Seq>> {
    let mut reader = SegmentReader::open(env, dir, place.number)?;
    Ok(reader.here()?.ok().filter(|record| !record.mark).map(|record| record.seq))
}
