//! Where the log ends after a crash, and whether what is missing had been durable.
//!
//! The segments of a directory are put in order by W2: a segment ends where one of higher number begins, and one whose whole
//! range is taken by later ones is void. Records are then read from the wanted position on. At the first place that holds no
//! sound record the log ends, unless a later record or segment header, in this segment or one of higher number, says by its
//! `synced` that the place had been durable: then it is corruption.
//!
//! Invariants: what is visited is a prefix of what was appended, without gaps, and holds everything that was synced; before a
//! place is called corrupt it is read a second time, because a reader beside a live writer may have met a record half written;
//! nothing is written.

use std::path::{Path, PathBuf};

use super::format::{MAX_LSN, SEGMENT_HEADER};
use super::reader::{Item, SegmentReader};
use super::{Lsn, segment_number};
use crate::base::error::{Error, Result};
use crate::base::key::Seq;
use crate::env::Env;

/// Is shown every record: its sequence number, the position after it, its payload.
pub type Visit<'a> = dyn FnMut(Seq, Lsn, &[u8]) -> Result<()> + 'a;

/// What recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Position after the last record, at least the one asked for: a new writer starts here ([`Wal::create`](super::Wal::create)).
    pub end: Lsn,
    /// Position below which the log itself proves that it had been durable; at most `end`.
    pub durable: Lsn,
    /// The highest number of any segment, 0 without any: a new writer takes a higher one.
    pub last_number: u64,
    /// Records visited.
    pub records: u64,
    /// What was given up: bytes of a record that was being written, or records beyond a gap. `None` after a clean end.
    pub torn: Option<TornTail>,
    /// All segment files, ascending by number.
    pub segments: Vec<SegmentInfo>,
}

/// The end of a log that was not synced when the machine stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file in which the log ends.
    pub file: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What is wrong there.
    pub reason: &'static str,
    /// Bytes of sound records that lie beyond and are given up, because something before them is missing.
    pub bytes_beyond: u64,
    /// The number of those records.
    pub records_beyond: u64,
}

/// A segment file and the part of the log that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The segment's number.
    pub number: u64,
    /// Position of its first record; `None` when the header is unreadable or was never written.
    pub base: Option<Lsn>,
    /// Position after its last valid record; 0 when it holds nothing valid.
    pub end: Lsn,
    /// Length of the file in bytes.
    pub capacity: u64,
}

/// Where reading stopped. `segment` is its place in the list.
struct Stop {
    pos: Lsn,
    segment: Option<usize>,
    offset: u64,
    reason: Option<&'static str>,
}

#[derive(Default)]
struct Beyond {
    bytes: u64,
    records: u64,
    /// The highest position that anything beyond knows to be synced.
    synced: Lsn,
    first: Option<PathBuf>,
}

/// All segment files in `dir`, ascending, with their headers' bases; `end` is not known yet.
fn list(env: &dyn Env, dir: &Path) -> Result<Vec<SegmentInfo>> {
    let mut numbers: Vec<u64> = env.list(dir)?.iter().filter_map(|n| segment_number(n)).collect();
    numbers.sort_unstable();
    let mut segments = Vec::with_capacity(numbers.len());
    for number in numbers {
        let r = SegmentReader::open(env, dir, number)?;
        segments.push(SegmentInfo { number, base: r.header().map(|h| h.base), end: 0, capacity: r.file_len() });
    }
    Ok(segments)
}

/// All segment files in `dir`, ascending, each with the position that its records end before ([`SegmentInfo::end`]; the last one's is
/// the largest there is, and 0 stands for segments that hold nothing that counts): for the tools.
///
/// # Errors
/// `Incompatible` for a newer format version; what the environment says.
pub fn segments(env: &dyn Env, dir: &Path) -> Result<Vec<SegmentInfo>> {
    let mut segments = list(env, dir)?;
    bound(&mut segments, Lsn::MAX);
    Ok(segments)
}

/// Sets each segment's `end` to where a later one begins, at most `end`; to 0 for void ones.
fn bound(segments: &mut [SegmentInfo], end: Lsn) {
    let mut limit = end;
    for s in segments.iter_mut().rev() {
        s.end = 0;
        if let Some(base) = s.base.filter(|&b| b <= limit) {
            s.end = limit;
            limit = base;
        }
    }
}

/// Reads the log in `dir` from position `from` on, where a record began or the log ended, and shows every record to
/// `visit`.
///
/// A log of which nothing reaches `from` ends there: that is what a power cut leaves when tables were made durable and the log
/// was not. The Db creates its first segment before its first manifest; a Db without any segment has lost its log.
///
/// # Errors
/// `Corruption` for damage to what had been durable, naming the place, and for a `from` of 2⁶² or more; `Incompatible` for a newer
/// format version; what `visit` and the environment say.
pub fn recover(env: &dyn Env, dir: &Path, from: Lsn, visit: &mut Visit<'_>) -> Result<Recovered> {
    recover_durable(env, dir, from, 0, visit)
}

/// The same where somebody else (the manifest, by what trees have been flushed to) knows that the log had been durable below
/// `durable`: a log that ends before is corrupt.
///
/// # Errors
/// As [`recover`].
pub fn recover_durable(env: &dyn Env, dir: &Path, from: Lsn, durable: Lsn, visit: &mut Visit<'_>) -> Result<Recovered> {
    if from >= MAX_LSN {
        return Err(Error::corruption(format!("the log is to be read from {from}, which is no position")).in_file(dir));
    }
    let mut segments = list(env, dir)?;
    bound(&mut segments, Lsn::MAX);
    let last_number = segments.last().map_or(0, |s| s.number);
    let (mut pos, mut records, mut doubted, mut proven) = (from, 0, None, durable);
    loop {
        let stop = read(env, dir, &segments, pos, &mut records, &mut proven, visit)?;
        pos = stop.pos;
        let mut beyond = beyond(env, dir, &segments, &stop)?;
        beyond.synced = beyond.synced.max(durable);
        if beyond.synced > pos && doubted != Some(pos) {
            doubted = Some(pos);
            continue;
        }
        let (file, offset) = match stop.segment.and_then(|i| segments.get(i)) {
            Some(s) => (super::segment_path(dir, s.number), stop.offset),
            None => (beyond.first.unwrap_or_else(|| dir.to_path_buf()), 0),
        };
        if beyond.synced > pos {
            if let Some(number) = lost_header(env, dir, &segments, &stop)? {
                let e = corruption(pos, beyond.synced, Some("a segment with a damaged header"));
                return Err(e.at(super::segment_path(dir, number), 0).block("wal segment header"));
            }
            return Err(corruption(pos, beyond.synced, stop.reason).at(file, offset).block("wal record"));
        }
        bound(&mut segments, pos);
        let torn = (stop.reason.is_some() || beyond.records > 0).then(|| TornTail {
            file,
            offset,
            reason: stop.reason.unwrap_or("records whose predecessors never reached the disk"),
            bytes_beyond: beyond.bytes,
            records_beyond: beyond.records,
        });
        let durable = proven.max(beyond.synced).min(pos);
        return Ok(Recovered { end: pos, durable, last_number, records, torn, segments });
    }
}

fn corruption(pos: Lsn, synced: Lsn, reason: Option<&'static str>) -> Error {
    let what = reason.unwrap_or("no record");
    Error::corruption(format!(
        "the log has {what} at position {pos}, though everything below position {synced} is known to have been durable; \
         keep the files, restore this one from a copy, or save what can be read with `sstable-dump salvage`"
    ))
}

/// Where the log ends cleanly, and yet too early: the segment that goes on there, if it was used and its header is gone.
fn lost_header(env: &dyn Env, dir: &Path, segments: &[SegmentInfo], stop: &Stop) -> Result<Option<u64>> {
    if stop.segment.is_some() && stop.reason.is_some() {
        return Ok(None);
    }
    for s in segments.iter().skip(stop.segment.map_or(0, |i| i + 1)).filter(|s| s.base.is_none()) {
        let used = stop.segment.is_none()
            || s.capacity < SEGMENT_HEADER
            || matches!(SegmentReader::open(env, dir, s.number)?.next()?, Some(Item::Record(_)));
        if used {
            return Ok(Some(s.number));
        }
    }
    Ok(None)
}

/// Visits records from `pos` on, through as many segments as they fill, up to the first place without one; `proven` becomes the
/// highest position that any of them knows to be durable.
fn read(
    env: &dyn Env,
    dir: &Path,
    segments: &[SegmentInfo],
    mut pos: Lsn,
    records: &mut u64,
    proven: &mut Lsn,
    visit: &mut Visit<'_>,
) -> Result<Stop> {
    loop {
        // Of the segments that begin at or before `pos` the newest holds it (W2).
        let Some(i) = segments.iter().rposition(|s| s.base.is_some_and(|b| b <= pos)) else {
            let reason = (!segments.is_empty()).then_some("no segment");
            return Ok(Stop { pos, segment: None, offset: 0, reason });
        };
        let (limit, base) = (segments[i].end, segments[i].base.unwrap_or(pos));
        let mut reader = SegmentReader::open(env, dir, segments[i].number)?;
        reader.seek(SEGMENT_HEADER.saturating_add(pos - base));
        while pos < limit {
            let offset = reader.offset();
            let reason = match reader.here()? {
                Ok(r) if r.size <= limit - pos => {
                    pos += r.size;
                    *proven = r.synced.max(*proven);
                    if !r.mark {
                        visit(r.seq, pos, r.payload)?;
                        *records += 1;
                    }
                    continue;
                }
                Ok(_) => Some("a record that runs into the next segment's range"),
                Err(reason) => reason,
            };
            return Ok(Stop { pos, segment: Some(i), offset, reason });
        }
    }
}

/// Walks what lies beyond the place where reading stopped.
fn beyond(env: &dyn Env, dir: &Path, segments: &[SegmentInfo], stop: &Stop) -> Result<Beyond> {
    let mut b = Beyond::default();
    for (i, s) in segments.iter().enumerate().skip(stop.segment.unwrap_or(0)) {
        let mut reader = SegmentReader::open(env, dir, s.number)?;
        if stop.segment == Some(i) {
            reader.seek(stop.offset.saturating_add(8));
        } else if let Some(h) = reader.header() {
            b.synced = b.synced.max(h.synced);
            if h.base >= stop.pos && b.first.is_none() {
                b.first = Some(reader.path().to_path_buf());
            }
        }
        while let Some(item) = reader.next()? {
            if let Item::Record(r) = item {
                if r.lsn.is_none_or(|lsn| lsn >= stop.pos) {
                    b.records += 1;
                    b.bytes += r.size;
                }
                b.synced = b.synced.max(r.synced);
            }
        }
    }
    Ok(b)
}
