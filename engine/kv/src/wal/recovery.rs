//! Finds the end of the log after a crash, and detects the loss of durable records.
//!
//! W2 orders the segments of a directory: a segment ends where one of higher number begins. A
//! segment whose whole range later ones cover is void. Recovery then reads records from the
//! requested position on. The log ends at the first place without a valid record. The exception is
//! corruption: a later record or segment header, in this segment or one of higher number, proves by
//! its `synced` that the place had been durable.
//!
//! Recovery checks the log against the manifest ([`KnownSegments`]). A segment with records of a
//! writer that the manifest does not know is foreign (W6). A segment that the manifest knows to
//! have been begun must exist.
//!
//! Invariants:
//! - The visited records are a prefix of the appended ones, without gaps, and include everything
//!   that was synced.
//! - A place is read twice before it is called corrupt or damaged, because a reader beside a live
//!   writer may see a half-written record.
//! - Recovery writes nothing.
//! - After a cleanly closed log nothing is scanned (W7).
//!
//! Records beyond the end were in flight when the machine stopped, and are lost with the torn
//! place. If the torn place is provably damage, those records had been acknowledged.
//! [`TornTail::proof`] reports it, and the caller that opens the store decides.

use std::path::{Path, PathBuf};

use super::format::{MAX_LSN, SEGMENT_HEADER, SegmentHeader};
use super::segment_reader::{PAST_END, SegmentReader, was_closed};
use super::{Lsn, segment_number};
use crate::base::error::{Error, Result};
use crate::base::identity::{LogWriter, writer_of};
use crate::base::key::Seq;
use crate::base::ops::OpReader;
use crate::env::Env;
use crate::util::sort::sort;

/// Receives every record: its sequence number, the position after it, and its payload.
pub type RecoveryVisit<'a> = dyn FnMut(Seq, Lsn, &[u8]) -> Result<()> + 'a;

/// The result of recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredLog {
    /// Position after the last record, at least the requested one. A new writer starts here
    /// ([`Wal::create`](super::Wal::create)).
    pub end: Lsn,
    /// Position below which the log itself proves that it had been durable; at most `end`.
    pub durable: Lsn,
    /// Whether the log was closed cleanly: all of it is durable, and nothing follows its end.
    pub closed: bool,
    /// The highest segment number, 0 without segments; a new writer takes a higher one.
    pub last_number: u64,
    /// Number of visited records.
    pub records: u64,
    /// The discarded tail: a half-written record, or records beyond a gap. `None` after a clean
    /// end.
    pub torn: Option<TornTail>,
    /// All segment files, ascending by number.
    pub segments: Vec<SegmentInfo>,
}

/// An unsynced end of a log after a crash of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file in which the log ends.
    pub file: PathBuf,
    /// Offset of the end in that file.
    pub offset: u64,
    /// The problem at that offset.
    pub reason: &'static str,
    /// Bytes of valid records beyond the end. They are discarded because a record before them is
    /// missing.
    pub bytes_beyond: u64,
    /// Number of those records.
    pub records_beyond: u64,
    /// Bytes by which the file is shorter than when its segment was begun, see
    /// [`SegmentInfo::cut`]. More than the records in flight may be lost.
    pub cut: u64,
    /// Number of operations in the records beyond the end.
    pub operations_beyond: u64,
    /// Proof that the tail is damage to written data and not the result of a crash. Then
    /// acknowledged records beyond are lost as well.
    pub proof: Option<String>,
}

/// A segment file and its part of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The segment's number.
    pub number: u64,
    /// Position of its first record; `None` when the header is unreadable or was never written.
    pub base: Option<Lsn>,
    /// Position after its last valid record; 0 when it has no valid record.
    pub end: Lsn,
    /// Length of the file in bytes.
    pub capacity: u64,
    /// Bytes by which the file is shorter than when the segment was begun. It was truncated, or the
    /// machine stopped before its length was durable. 0 in all other files, including those with
    /// the mark of a clean close.
    pub cut: u64,
    /// Offset of that mark (W7).
    closed_at: Option<u64>,
}

impl SegmentInfo {
    /// Creates the info of a segment that its writer filled up to `end`, or is still filling
    /// (`None`).
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

/// Returns the total capacity of these segments in bytes, full or not, and their number.
pub fn kept<'a>(segments: impl IntoIterator<Item = &'a SegmentInfo>) -> (u64, usize) {
    segments.into_iter().fold((0, 0), |(bytes, n), s| (bytes + s.capacity, n + 1))
}

/// Returns the bytes of log in these segments.
pub fn live_bytes<'a>(segments: impl IntoIterator<Item = &'a SegmentInfo>) -> u64 {
    segments.into_iter().map(|s| s.end.saturating_sub(s.base.unwrap_or(s.end))).sum()
}

/// The manifest's knowledge of the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownSegments<'a> {
    /// The store's id.
    pub store: u64,
    /// The log was durable below this position: some tree has been flushed up to it.
    pub durable: Lsn,
    /// The writers of the segments, ascending by the number of their first one. `None` if unknown;
    /// then every segment counts.
    pub writers: Option<&'a [LogWriter]>,
}

impl KnownSegments<'_> {
    /// Opens segment `number`; only records of the writer that the manifest assigns to it count.
    fn open(&self, env: &dyn Env, dir: &Path, number: u64) -> Result<SegmentReader> {
        let writer = self.writers.and_then(|w| writer_of(w, number));
        SegmentReader::open_of(env, dir, number, writer.map(|w| w.id))
    }

    /// Reports whether a segment with this header belongs to the log.
    pub fn is_own(&self, h: &SegmentHeader) -> bool {
        self.writers.is_none_or(|w| writer_of(w, h.number).is_some_and(|w| w.id == h.writer))
    }

    /// Returns the error for a foreign segment, for which [`is_own`](KnownSegments::is_own) is
    /// `false`.
    pub fn mismatch(&self, h: &SegmentHeader) -> Error {
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

/// The place where reading stopped. `segment` is its index in the list.
struct RecoveryStop {
    pos: Lsn,
    segment: Option<usize>,
    offset: u64,
    reason: Option<&'static str>,
    /// Whether the mark of a clean close is there.
    closed: bool,
}

#[derive(Default)]
struct Beyond {
    bytes: u64,
    records: u64,
    operations: u64,
    /// The highest position that anything beyond proves to be synced.
    synced: Lsn,
    first: Option<PathBuf>,
    /// Offset of the first valid record beyond, in the segment where reading stopped.
    next: Option<u64>,
}

/// Lists all segment files in `dir`, ascending, with the bases of their headers; `end` is not set
/// yet. A failed opening leaves a segment of its own without records, which counts as never used.
fn list(env: &dyn Env, dir: &Path, known: &KnownSegments<'_>) -> Result<Vec<SegmentInfo>> {
    let mut numbers: Vec<u64> = env.list(dir)?.iter().filter_map(|n| segment_number(n)).collect();
    sort(&mut numbers);
    let mut segments = Vec::with_capacity(numbers.len());
    for number in numbers {
        let mut r = known.open(env, dir, number)?;
        let header = r.header().cloned();
        let mismatch = header.as_ref().filter(|h| !known.is_own(h));
        if let Some(h) = mismatch
            && r.next_record()?.is_some()
        {
            return Err(known.mismatch(h).at(r.path(), 0));
        }
        let own = header.as_ref().filter(|_| mismatch.is_none());
        let (base, capacity) = (own.map(|h| h.base), r.file_len());
        let closed_at = own.map_or(Ok(None), |_| r.closed_at())?;
        let is_short = own.is_some_and(|h| closed_at.is_none() && h.capacity > capacity);
        let cut = if is_short { r.cut_off()? } else { 0 };
        segments.push(SegmentInfo { number, base, end: 0, capacity, cut, closed_at });
    }
    Ok(segments)
}

/// Checks that the newest writer's first segment exists, if the log is read from before its start
/// (W6).
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

/// Lists all segment files in `dir`, ascending, for tools. [`SegmentInfo::end`] is the exclusive
/// bound of each one's records: `Lsn::MAX` for the last segment, and 0 for segments without valid
/// content.
///
/// # Errors
/// `Incompatible` for a newer format version; errors of the environment.
pub fn segments(env: &dyn Env, dir: &Path) -> Result<Vec<SegmentInfo>> {
    let mut segments = list(env, dir, &KnownSegments::default())?;
    bound(&mut segments, Lsn::MAX);
    Ok(segments)
}

/// Returns the writers of the valid segments in `dir`. The manifest of a store with this log must
/// contain them.
///
/// # Errors
/// See [`segments`].
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

/// Sets each segment's `end` to the base of the next valid one, at most `end`; to 0 for void ones.
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

/// Reads the log in `dir` from position `from` on and passes every record to `visit`. At `from` a
/// record must begin or the log must end.
///
/// If no segment reaches `from`, the log ends there. A power cut leaves this state when tables were
/// made durable and the log was not. The Db creates its first segment before its first manifest; a
/// Db without any segment has lost its log.
///
/// # Errors
/// `Corruption` for damage to durable records, with its place, and for a `from` of 2⁶² or more.
/// `Incompatible` for a newer format version. Errors of `visit` and the environment.
pub fn recover(
    env: &dyn Env,
    dir: &Path,
    from: Lsn,
    visit: &mut RecoveryVisit<'_>,
) -> Result<RecoveredLog> {
    recover_known(env, dir, from, &KnownSegments::default(), visit)
}

/// Reads the log like [`recover`] and checks it against the manifest. It is corrupt if it ends
/// below the durable position, has a foreign segment, or lacks the newest writer's first segment.
///
/// # Errors
/// See [`recover`].
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

/// Returns a proof that the place where reading stopped is damaged.
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
        if let Some(words) = reader.record_damage(stop.offset, next, end)? {
            return Ok(Some(words));
        }
    }
    // Otherwise the log may continue in a segment that has lost its header.
    match lost_header(env, dir, known, segments, stop)? {
        Some(number) => Ok(SegmentReader::open(env, dir, number)?
            .header_damage()?
            .map(|words| format!("{}: {words}", super::segment_name(number)))),
        None => Ok(None),
    }
}

/// Returns the used segment with a lost header that continues a log which ends cleanly but too
/// early.
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
    // If no segment covers the position, some header is lost. Spares that were never begun have
    // none either.
    let mut any = None;
    for s in segments.iter().skip(stop.segment.map_or(0, |i| i + 1)).filter(|s| s.base.is_none()) {
        let mut reader = known.open(env, dir, s.number)?;
        let is_missed = stop.segment.is_none() && reader.header().is_none();
        let is_blank =
            reader.bytes(0, SEGMENT_HEADER)?.is_some_and(|header| header.iter().all(|&b| b == 0));
        if is_missed && !is_blank || s.capacity < SEGMENT_HEADER || reader.next_record()?.is_some()
        {
            return Ok(Some(s.number));
        }
        any = any.or(Some(s.number).filter(|_| is_missed));
    }
    Ok(any)
}

/// Visits records from `pos` on, across segments, up to the first place without one. Raises
/// `proven` to the highest position that a record proves to be durable.
#[allow(clippy::too_many_arguments)] // inputs, manifest knowledge and outputs
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
        // The newest segment that begins at or before `pos` contains it (W2).
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

/// Scans everything beyond the place where reading stopped.
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
            // A failed opening records the synced position of a manifest that is gone.
            b.synced = b.synced.max(h.synced);
            if h.base >= stop.pos && b.first.is_none() {
                b.first = Some(reader.path().to_path_buf());
            }
        }
        while let Some(r) = reader.next_record()? {
            // Skip records that a later segment has voided: they are not lost now.
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
    Ok(b)
}
