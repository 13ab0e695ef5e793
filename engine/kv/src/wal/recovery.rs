//! Recovery finds where the log ends after a crash, and whether records that are missing had been
//! durable.
//!
//! The segments of a directory are put in order by W2: a segment ends where one of higher number
//! begins, and one whose whole range is taken by later ones is void. Records are then read from the
//! wanted position on. At the first place that holds no sound record the log ends, unless a later
//! record or segment header, in this segment or one of higher number, says by its `synced` that the
//! place had been durable: then it is corruption.
//!
//! What the manifest knows of the log ([`KnownSegments`]) is held against it: a segment with
//! records of a writer that the manifest does not know is none of this log (W6), and one that it
//! knows to have been begun must be there.
//!
//! Invariants: what is visited is a prefix of what was appended, without gaps, and holds everything
//! that was synced; before a place is called corrupt or damaged it is read a second time, because a
//! reader beside a live writer may have met a record half written; nothing is written. Behind a log
//! that was closed cleanly nothing is looked for (W7).
//!
//! Records that lie beyond the end were being written when the machine stopped, and go with what
//! was torn. Where the torn place can be proven to be damage instead (`rot`), they were
//! acknowledged: [`TornTail::proof`] says so, and who opens the store decides.

use std::path::{Path, PathBuf};

use super::format::{MAX_LSN, SEGMENT_HEADER, SegmentHeader};
use super::reader::{LogItem, PAST_END, SegmentReader, was_closed};
use super::{Lsn, rot, segment_number};
use crate::base::error::{Error, Result};
use crate::base::identity::{LogWriter, writer_of};
use crate::base::key::Seq;
use crate::base::ops::OpReader;
use crate::env::Env;

/// Is shown every record: its sequence number, the position after it, its payload.
pub type RecoveryVisit<'a> = dyn FnMut(Seq, Lsn, &[u8]) -> Result<()> + 'a;

/// What recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredLog {
    /// Position after the last record, at least the one asked for: a new writer starts here
    /// ([`Wal::create`](super::Wal::create)).
    pub end: Lsn,
    /// Position below which the log itself proves that it had been durable; at most `end`.
    pub durable: Lsn,
    /// Whether the log was closed cleanly: all of it is durable, and nothing lies behind its end.
    pub closed: bool,
    /// The highest number of any segment, 0 without any: a new writer takes a higher one.
    pub last_number: u64,
    /// Records visited.
    pub records: u64,
    /// What was given up: bytes of a record that was being written, or records beyond a gap. `None`
    /// after a clean end.
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
    /// Bytes of sound records that lie beyond and are given up, because something before them is
    /// missing.
    pub bytes_beyond: u64,
    /// The number of those records.
    pub records_beyond: u64,
    /// Bytes by which the file is shorter than when its segment was begun, see
    /// [`SegmentInfo::cut`]: more may be lost than was being written.
    pub cut: u64,
    /// The number of operations in them.
    pub operations_beyond: u64,
    /// What proves that this is not what a crash left, but damage to what had been written: then
    /// the records beyond were lost with it.
    pub proof: Option<String>,
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
    /// Bytes by which it is shorter than when the segment was begun: it has been cut off, or the
    /// machine stopped before its length was durable. 0 in all other files, those that end with the
    /// mark of a clean close among them.
    pub cut: u64,
    /// Offset of that mark (W7).
    closed_at: Option<u64>,
}

impl SegmentInfo {
    /// A segment that a writer has filled up to `end`, or one that it fills, where that is `None`.
    pub fn written(number: u64, base: Option<Lsn>, end: Option<Lsn>, capacity: u64) -> SegmentInfo {
        SegmentInfo {
            number,
            base,
            end: end.unwrap_or(Lsn::MAX),
            capacity,
            cut: 0,
            closed_at: None,
        }
    }
}

/// What segments may hold, full or not, in bytes; and how many there are.
pub fn kept<'a>(segments: impl IntoIterator<Item = &'a SegmentInfo>) -> (u64, usize) {
    segments.into_iter().fold((0, 0), |(bytes, n), s| (bytes + s.capacity, n + 1))
}

/// Bytes of log in these segments.
pub fn live_bytes<'a>(segments: impl IntoIterator<Item = &'a SegmentInfo>) -> u64 {
    segments.into_iter().map(|s| s.end.saturating_sub(s.base.unwrap_or(s.end))).sum()
}

/// What the manifest knows of the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownSegments<'a> {
    /// The store's id.
    pub store: u64,
    /// The log had been durable below this position: so far some tree has been flushed.
    pub durable: Lsn,
    /// Who wrote its segments, by number of their first ones; `None` where nobody can say, and
    /// every segment counts.
    pub writers: Option<&'a [LogWriter]>,
}

impl KnownSegments<'_> {
    /// Opens segment `number`, of which only records of the writer that it must be of count.
    fn open(&self, env: &dyn Env, dir: &Path, number: u64) -> Result<SegmentReader> {
        let writer = self.writers.and_then(|w| writer_of(w, number));
        SegmentReader::open_of(env, dir, number, writer.map(|w| w.id))
    }

    /// Whether a segment with this header is one of the log's.
    pub fn is_own(&self, h: &SegmentHeader) -> bool {
        self.writers.is_none_or(|w| writer_of(w, h.number).is_some_and(|w| w.id == h.writer))
    }

    /// An error about a segment of somebody else, which [`is_own`](KnownSegments::is_own) tells of.
    pub fn stranger(&self, h: &SegmentHeader) -> Error {
        let what = if h.store == self.store {
            "it was written by another opening of this store than the manifest tells of: it is of a clone (a copy of the directory that went on \
             for itself), or newer than the manifest"
                .to_owned()
        } else {
            format!("it is of another store (id {:016x}, not {:016x})", h.store, self.store)
        };
        Error::corruption(format!(
            "this log segment is not this store's: {what}; put this store's own file here, or save the rest with `sstable-dump salvage`"
        ))
        .block("wal segment header")
    }
}

/// Where reading stopped. `segment` is its place in the list.
struct RecoveryStop {
    pos: Lsn,
    segment: Option<usize>,
    offset: u64,
    reason: Option<&'static str>,
    /// Whether the mark of a clean close lies there.
    closed: bool,
}

#[derive(Default)]
struct Beyond {
    bytes: u64,
    records: u64,
    operations: u64,
    /// The highest position that anything beyond knows to be synced.
    synced: Lsn,
    first: Option<PathBuf>,
    /// Where the first sound record beyond begins, in the segment in which reading stopped.
    next: Option<u64>,
}

/// All segment files in `dir`, ascending, with their headers' bases; `end` is not known yet. An
/// opening that came to nothing leaves a segment of its own without records, which counts as one
/// that was never used.
fn list(env: &dyn Env, dir: &Path, known: &KnownSegments<'_>) -> Result<Vec<SegmentInfo>> {
    let mut numbers: Vec<u64> = env.list(dir)?.iter().filter_map(|n| segment_number(n)).collect();
    numbers.sort_unstable();
    let mut segments = Vec::with_capacity(numbers.len());
    for number in numbers {
        let mut r = known.open(env, dir, number)?;
        let header = r.header().cloned();
        let stranger = header.as_ref().filter(|h| !known.is_own(h));
        if let Some(h) = stranger {
            while let Some(item) = r.next()? {
                if let LogItem::Record(_) = item {
                    return Err(known.stranger(h).at(r.path(), 0));
                }
            }
        }
        let own = header.as_ref().filter(|_| stranger.is_none());
        let (base, capacity) = (own.map(|h| h.base), r.file_len());
        let closed_at = own.map_or(Ok(None), |_| r.closed_at())?;
        let is_short = own.is_some_and(|h| closed_at.is_none() && h.capacity > capacity);
        let cut = if is_short { r.cut_off()? } else { 0 };
        segments.push(SegmentInfo { number, base, end: 0, capacity, cut, closed_at });
    }
    Ok(segments)
}

/// That the segment is there in which the newest writer began, while the log is read from before
/// that place (W6).
fn check_begun(
    dir: &Path,
    segments: &[SegmentInfo],
    from: Lsn,
    known: &KnownSegments<'_>,
) -> Result<()> {
    let Some(w) = known.writers.and_then(|w| w.last()).filter(|w| from <= w.base) else {
        return Ok(());
    };
    let what = match segments.iter().find(|s| s.number == w.from) {
        Some(s) if s.base.is_some() => return Ok(()),
        Some(_) => "has a damaged header",
        None => "is missing",
    };
    let words = format!(
        "segment {} of the log {what}, in which the log goes on from position {} as the manifest says; restore it from a copy, or save what \
         can be read with `sstable-dump salvage`",
        w.from, w.base
    );
    Err(Error::corruption(words)
        .at(super::segment_path(dir, w.from), 0)
        .block("wal segment header"))
}

/// All segment files in `dir`, ascending, each with the position that its records end before
/// ([`SegmentInfo::end`]; the last one's is the largest there is, and 0 stands for segments that
/// hold nothing that counts): for the tools.
///
/// # Errors
/// `Incompatible` for a newer format version; what the environment says.
pub fn segments(env: &dyn Env, dir: &Path) -> Result<Vec<SegmentInfo>> {
    let mut segments = list(env, dir, &KnownSegments::default())?;
    bound(&mut segments, Lsn::MAX);
    Ok(segments)
}

/// Who wrote the segments in `dir` that count: what the manifest of a store with this log has to
/// say.
///
/// # Errors
/// As [`segments`].
pub fn writers(env: &dyn Env, dir: &Path) -> Result<Vec<LogWriter>> {
    let mut writers: Vec<LogWriter> = vec![];
    for s in segments(env, dir)?.iter().filter(|s| s.end > 0) {
        if let Some(h) = SegmentReader::open(env, dir, s.number)?.header()
            && writers.last().is_none_or(|w| w.id != h.writer)
        {
            writers.push(LogWriter { from: s.number, id: h.writer, base: h.base });
        }
    }
    Ok(writers)
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

/// Reads the log in `dir` from position `from` on, where a record began or the log ended, and shows
/// every record to `visit`.
///
/// A log of which nothing reaches `from` ends there: that is what a power cut leaves when tables
/// were made durable and the log was not. The Db creates its first segment before its first
/// manifest; a Db without any segment has lost its log.
///
/// # Errors
/// `Corruption` for damage to what had been durable, naming the place, and for a `from` of 2⁶² or
/// more; `Incompatible` for a newer format version; what `visit` and the environment say.
pub fn recover(
    env: &dyn Env,
    dir: &Path,
    from: Lsn,
    visit: &mut RecoveryVisit<'_>,
) -> Result<RecoveredLog> {
    recover_known(env, dir, from, &KnownSegments::default(), visit)
}

/// The same where the manifest tells of the log: one that ends below what had been durable is
/// corrupt, and so is one with a segment of somebody else, or without the one that the newest
/// writer began with.
///
/// # Errors
/// As [`recover`].
pub fn recover_known(
    env: &dyn Env,
    dir: &Path,
    from: Lsn,
    known: &KnownSegments<'_>,
    visit: &mut RecoveryVisit<'_>,
) -> Result<RecoveredLog> {
    if from >= MAX_LSN {
        return Err(Error::corruption(format!(
            "the log is to be read from {from}, which is no position"
        ))
        .in_file(dir));
    }
    let (mut segments, durable) = (list(env, dir, known)?, known.durable);
    check_begun(dir, &segments, from, known)?;
    bound(&mut segments, Lsn::MAX);
    let last_number = segments.last().map_or(0, |s| s.number);
    let (mut pos, mut records, mut doubted, mut proven) = (from, 0, None, durable);
    loop {
        let stop = read(env, dir, known, &segments, pos, &mut records, &mut proven, visit)?;
        pos = stop.pos;
        let closed = stop.closed && stop.segment == segments.len().checked_sub(1);
        let mut beyond =
            if closed { Beyond::default() } else { beyond(env, dir, known, &segments, &stop)? };
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
            if let Some(number) = lost_header(env, dir, known, &segments, &stop)? {
                let e = corruption(pos, beyond.synced, Some("a segment with a damaged header"));
                return Err(e.at(super::segment_path(dir, number), 0).block("wal segment header"));
            }
            return Err(corruption(pos, beyond.synced, stop.reason)
                .at(file, offset)
                .block("wal record"));
        }
        let proof = if beyond.records > 0 {
            proof(env, dir, known, &segments, &stop, beyond.next)?
        } else {
            None
        };
        if proof.is_some() && doubted != Some(pos) {
            doubted = Some(pos);
            continue;
        }
        bound(&mut segments, pos);
        let cut = stop
            .segment
            .map(|i| &segments[i])
            .filter(|s| !was_closed(s.capacity, stop.offset, stop.reason))
            .map_or(0, |s| s.cut);
        let reason = match stop.reason {
            None | Some(PAST_END) if cut > 0 => {
                Some("the end of a file that is shorter than when the segment was begun")
            }
            None if beyond.records > 0 => Some("records whose predecessors never reached the disk"),
            reason => reason,
        };
        let (bytes_beyond, records_beyond, operations_beyond) =
            (beyond.bytes, beyond.records, beyond.operations);
        let torn = reason.map(|reason| TornTail {
            file,
            offset,
            reason,
            bytes_beyond,
            records_beyond,
            cut,
            operations_beyond,
            proof,
        });
        let durable = proven.max(beyond.synced).min(pos);
        return Ok(RecoveredLog {
            end: pos,
            durable,
            closed,
            last_number,
            records,
            torn,
            segments,
        });
    }
}

fn corruption(pos: Lsn, synced: Lsn, reason: Option<&'static str>) -> Error {
    let what = reason.unwrap_or("no record");
    Error::corruption(format!(
        "the log has {what} at position {pos}, though everything below position {synced} is known to have been durable; \
         keep the files, restore this one from a copy, or save what can be read with `sstable-dump salvage`"
    ))
}

/// What proves that the place where reading stopped was damaged: see [`rot`](super::rot).
fn proof(
    env: &dyn Env,
    dir: &Path,
    known: &KnownSegments<'_>,
    segments: &[SegmentInfo],
    stop: &RecoveryStop,
    next: Option<u64>,
) -> Result<Option<String>> {
    if let Some(s) = stop.segment.map(|i| &segments[i]) {
        let end = s.base.filter(|_| s.end < Lsn::MAX).map(|base| SEGMENT_HEADER + (s.end - base));
        let mut reader = SegmentReader::open(env, dir, s.number)?;
        if let Some(words) = rot::of_record(&mut reader, stop.offset, next, end)? {
            return Ok(Some(words));
        }
    }
    // Or the log goes on in a segment that has lost its header.
    match lost_header(env, dir, known, segments, stop)? {
        Some(number) => Ok(rot::of_header(&mut SegmentReader::open(env, dir, number)?)?
            .map(|words| format!("{}: {words}", super::segment_name(number)))),
        None => Ok(None),
    }
}

/// Where the log ends cleanly, and yet too early: the segment that goes on there, if it was used
/// and its header is gone.
fn lost_header(
    env: &dyn Env,
    dir: &Path,
    known: &KnownSegments<'_>,
    segments: &[SegmentInfo],
    stop: &RecoveryStop,
) -> Result<Option<u64>> {
    if stop.segment.is_some() && stop.reason.is_some() {
        return Ok(None);
    }
    // Where not one segment has what is to be read, some header is gone; but spares that were never
    // begun have none either.
    let mut any = None;
    for s in segments.iter().skip(stop.segment.map_or(0, |i| i + 1)).filter(|s| s.base.is_none()) {
        let mut reader = known.open(env, dir, s.number)?;
        let is_missed = stop.segment.is_none() && reader.header().is_none();
        let is_blank =
            reader.bytes(0, SEGMENT_HEADER)?.is_some_and(|header| header.iter().all(|&b| b == 0));
        if is_missed && !is_blank
            || s.capacity < SEGMENT_HEADER
            || matches!(reader.next()?, Some(LogItem::Record(_)))
        {
            return Ok(Some(s.number));
        }
        any = any.or(Some(s.number).filter(|_| is_missed));
    }
    Ok(any)
}

/// Visits records from `pos` on, through as many segments as they fill, up to the first place
/// without one; `proven` becomes the highest position that any of them knows to be durable.
#[allow(clippy::too_many_arguments)] // where to read, what is known, and what comes of it
fn read(
    env: &dyn Env,
    dir: &Path,
    known: &KnownSegments<'_>,
    segments: &[SegmentInfo],
    mut pos: Lsn,
    records: &mut u64,
    proven: &mut Lsn,
    visit: &mut RecoveryVisit<'_>,
) -> Result<RecoveryStop> {
    loop {
        // Of the segments that begin at or before `pos` the newest holds it (W2).
        let Some(i) = segments.iter().rposition(|s| s.base.is_some_and(|b| b <= pos)) else {
            let reason = (!segments.is_empty()).then_some("no segment");
            return Ok(RecoveryStop { pos, segment: None, offset: 0, reason, closed: false });
        };
        let (limit, base) = (segments[i].end, segments[i].base.unwrap_or(pos));
        let mut reader = known.open(env, dir, segments[i].number)?;
        reader.seek(SEGMENT_HEADER.saturating_add(pos - base));
        while pos < limit {
            let offset = reader.offset();
            if limit == Lsn::MAX && segments[i].closed_at == Some(offset) {
                *proven = pos.max(*proven);
                return Ok(RecoveryStop {
                    pos,
                    segment: Some(i),
                    offset,
                    reason: None,
                    closed: true,
                });
            }
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
            if reason.is_none() && reader.is_foreign_here()? {
                let words = "a record of another writer lies here: a part of another store's file, or of a clone's, has been put into this \
                             one; restore it from a copy, or save what can be read with `sstable-dump salvage`";
                return Err(Error::corruption(words).at(reader.path(), offset).block("wal record"));
            }
            return Ok(RecoveryStop { pos, segment: Some(i), offset, reason, closed: false });
        }
    }
}

/// Walks what lies beyond the place where reading stopped.
fn beyond(
    env: &dyn Env,
    dir: &Path,
    known: &KnownSegments<'_>,
    segments: &[SegmentInfo],
    stop: &RecoveryStop,
) -> Result<Beyond> {
    let mut b = Beyond::default();
    for (i, s) in segments.iter().enumerate().skip(stop.segment.unwrap_or(0)) {
        let mut reader = known.open(env, dir, s.number)?;
        if stop.segment == Some(i) {
            reader.seek(stop.offset.saturating_add(8));
        } else if let Some(h) = reader.header().filter(|h| known.is_own(h)) {
            // An opening that came to nothing says what was so by a manifest that is no more.
            b.synced = b.synced.max(h.synced);
            if h.base >= stop.pos && b.first.is_none() {
                b.first = Some(reader.path().to_path_buf());
            }
        }
        while let Some(item) = reader.next()? {
            if let LogItem::Record(r) = item {
                // What a later segment has made void is not given up now.
                if r.lsn.is_none_or(|lsn| lsn >= stop.pos && lsn < s.end) {
                    if stop.segment == Some(i) {
                        b.next.get_or_insert(r.offset);
                    }
                    b.records += u64::from(!r.mark);
                    b.bytes += if r.mark { 0 } else { r.size };
                    b.operations += OpReader::new(r.payload).count() as u64;
                }
                b.synced = b.synced.max(r.synced);
            }
        }
    }
    Ok(b)
}
