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
#[non_exhaustive]
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
    /// Bytes by which the file is shorter than when its segment was begun. It was truncated, or the
    /// machine stopped before its length was durable. More than the records in flight may be lost.
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
}

impl SegmentInfo {
    /// Creates the info of a segment that its writer filled up to `end`, or is still filling
    /// (`None`).
    pub fn written(number: u64, base: Option<Lsn>, end: Option<Lsn>, capacity: u64) -> SegmentInfo {
        SegmentInfo { number, base, end: end.unwrap_or(Lsn::MAX), capacity }
    }
}

/// Returns the total capacity in bytes of those of these segments that end above `floor`, full or
/// not, and their number.
pub fn retained_size<'a>(
    segments: impl IntoIterator<Item = &'a SegmentInfo>,
    floor: Lsn,
) -> (u64, usize) {
    let needed = segments.into_iter().filter(|s| s.end > floor);
    needed.fold((0, 0), |(bytes, n), s| (bytes + s.capacity, n + 1))
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

/// The error for a record of another writer within a segment.
const FOREIGN_RECORD: &str = "this is a record of another writer: a part of another store's \
    file, or of a clone's, has been put into this one; restore it from a copy, or save what can be \
    read with `sstable-dump salvage`";

/// The place where reading stopped.
struct RecoveryStop {
    /// Index of the segment; `None` if no segment covers the position.
    segment: Option<usize>,
    offset: u64,
    reason: Option<&'static str>,
    /// Whether the mark of a clean close is there.
    closed: bool,
}

/// The valid content beyond the place where reading stopped.
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

/// A recovery: its inputs, and the state of its reading.
struct Recovery<'a> {
    env: &'a dyn Env,
    dir: &'a Path,
    known: &'a KnownSegments<'a>,
    segments: Vec<SegmentInfo>,
    pos: Lsn,
    /// Number of visited records.
    records: u64,
    /// The highest position that a visited record or the manifest proves to be durable.
    proven: Lsn,
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
        let base = header.as_ref().filter(|_| mismatch.is_none()).map(|h| h.base);
        segments.push(SegmentInfo { number, base, end: 0, capacity: r.file_len() });
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
    let mut segments = list(env, dir, known)?;
    check_begun(dir, &segments, from, known)?;
    bound(&mut segments, Lsn::MAX);
    let mut log =
        Recovery { env, dir, known, segments, pos: from, records: 0, proven: known.durable };
    let mut doubted = None;
    loop {
        let stop = log.read(visit)?;
        let beyond = log.beyond(&stop)?;
        let is_lost = beyond.synced > log.pos;
        let proof = match is_lost || beyond.records == 0 {
            true => None,
            false => log.proof(&stop, beyond.next)?,
        };
        if (is_lost || proof.is_some()) && doubted != Some(log.pos) {
            doubted = Some(log.pos);
            continue;
        }
        return match is_lost {
            true => Err(log.corruption(&stop, beyond)?),
            false => log.end(stop, beyond, proof),
        };
    }
}

impl Recovery<'_> {
    /// Opens the segment with this index.
    fn open(&self, i: usize) -> Result<SegmentReader> {
        self.known.open(self.env, self.dir, self.segments[i].number)
    }

    /// Visits records from the position on, across segments, up to the first place without one.
    fn read(&mut self, visit: &mut RecoveryVisit<'_>) -> Result<RecoveryStop> {
        loop {
            // The newest segment that begins at or before the position contains it (W2).
            let found = self.segments.iter().rposition(|s| s.base.is_some_and(|b| b <= self.pos));
            let Some(i) = found else {
                let reason = (!self.segments.is_empty()).then_some("no segment");
                return Ok(RecoveryStop { segment: None, offset: 0, reason, closed: false });
            };
            let (limit, base) = (self.segments[i].end, self.segments[i].base.unwrap_or(self.pos));
            let mut reader = self.open(i)?;
            let closed_at = if limit == Lsn::MAX { reader.closed_at()? } else { None };
            reader.seek(SEGMENT_HEADER.saturating_add(self.pos - base));
            while self.pos < limit {
                let offset = reader.offset();
                let stop =
                    |reason, closed| RecoveryStop { segment: Some(i), offset, reason, closed };
                if closed_at == Some(offset) {
                    self.proven = self.pos.max(self.proven);
                    return Ok(stop(None, i + 1 == self.segments.len()));
                }
                let reason = match reader.here()? {
                    Ok(r) if r.size <= limit - self.pos => {
                        self.pos += r.size;
                        self.proven = r.synced.max(self.proven);
                        if !r.mark {
                            visit(r.seq, self.pos, r.payload)?;
                            self.records += 1;
                        }
                        continue;
                    }
                    Ok(_) => Some("a record that runs into the next segment's range"),
                    Err(reason) => reason,
                };
                if reason.is_none() && reader.is_foreign_here()? {
                    return Err(Error::corruption(FOREIGN_RECORD)
                        .at(reader.path(), offset)
                        .block("wal record"));
                }
                return Ok(stop(reason, false));
            }
        }
    }

    /// Scans everything beyond the place where reading stopped; nothing after a clean close (W7).
    fn beyond(&self, stop: &RecoveryStop) -> Result<Beyond> {
        let mut b = Beyond { synced: self.known.durable, ..Beyond::default() };
        if stop.closed {
            return Ok(b);
        }
        for (i, s) in self.segments.iter().enumerate().skip(stop.segment.unwrap_or(0)) {
            let mut reader = self.open(i)?;
            if stop.segment == Some(i) {
                reader.seek(stop.offset.saturating_add(8));
            } else if let Some(h) = reader.header().filter(|h| self.known.is_own(h)) {
                // A failed opening records the synced position of a manifest that is gone.
                b.synced = b.synced.max(h.synced);
                if h.base >= self.pos && b.first.is_none() {
                    b.first = Some(reader.path().to_path_buf());
                }
            }
            while let Some(r) = reader.next_record()? {
                // Skip records that a later segment has voided: they are not lost now.
                if r.lsn.is_none_or(|lsn| lsn >= self.pos && lsn < s.end) {
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

    /// Returns a proof that the place where reading stopped is damaged.
    fn proof(&self, stop: &RecoveryStop, next: Option<u64>) -> Result<Option<String>> {
        if let Some(i) = stop.segment {
            let s = &self.segments[i];
            let end =
                s.base.filter(|_| s.end < Lsn::MAX).map(|base| SEGMENT_HEADER + (s.end - base));
            if let Some(words) = self.open(i)?.record_damage(stop.offset, next, end)? {
                return Ok(Some(words));
            }
        }
        // Otherwise the log may continue in a segment that has lost its header.
        let Some(i) = self.lost_header(stop)? else { return Ok(None) };
        let name = super::segment_name(self.segments[i].number);
        Ok(self.open(i)?.header_damage()?.map(|words| format!("{name}: {words}")))
    }

    /// Returns the index of the used segment with a lost header that continues a log which ends
    /// cleanly but too early.
    fn lost_header(&self, stop: &RecoveryStop) -> Result<Option<usize>> {
        if stop.segment.is_some() && stop.reason.is_some() {
            return Ok(None);
        }
        // If no segment covers the position, some header is lost. Spares that were never begun have
        // none either.
        let mut any = None;
        for i in stop.segment.map_or(0, |i| i + 1)..self.segments.len() {
            if self.segments[i].base.is_some() {
                continue;
            }
            let mut reader = self.open(i)?;
            let is_missed = stop.segment.is_none() && reader.header().is_none();
            let is_blank = reader
                .bytes(0, SEGMENT_HEADER)?
                .is_some_and(|header| header.iter().all(|&b| b == 0));
            if is_missed && !is_blank
                || reader.file_len() < SEGMENT_HEADER
                || reader.next_record()?.is_some()
            {
                return Ok(Some(i));
            }
            any = any.or(Some(i).filter(|_| is_missed));
        }
        Ok(any)
    }

    /// Returns the file and offset where reading stopped.
    fn place(&self, stop: &RecoveryStop, beyond: &mut Beyond) -> (PathBuf, u64) {
        match stop.segment {
            Some(i) => (super::segment_path(self.dir, self.segments[i].number), stop.offset),
            None => (beyond.first.take().unwrap_or_else(|| self.dir.to_path_buf()), 0),
        }
    }

    /// Returns the error for durable records that are lost where reading stopped.
    fn corruption(&self, stop: &RecoveryStop, mut beyond: Beyond) -> Result<Error> {
        let (what, (file, offset), block) = match self.lost_header(stop)? {
            Some(i) => (
                "a segment with a damaged header",
                (super::segment_path(self.dir, self.segments[i].number), 0),
                "wal segment header",
            ),
            None => {
                (stop.reason.unwrap_or("no record"), self.place(stop, &mut beyond), "wal record")
            }
        };
        Ok(Error::corruption(format!(
            "the log has {what} at position {}, though everything below position {} is known to \
             have been durable; keep the files, restore this one from a copy, or save what can be \
             read with `sstable-dump salvage`",
            self.pos, beyond.synced
        ))
        .at(file, offset)
        .block(block))
    }

    /// Returns the recovered log, which ends where reading stopped.
    fn end(
        mut self,
        stop: RecoveryStop,
        mut beyond: Beyond,
        proof: Option<String>,
    ) -> Result<RecoveredLog> {
        let cut = match stop.segment {
            Some(i) if !stop.closed => {
                let mut reader = self.open(i)?;
                match was_closed(reader.file_len(), stop.offset, stop.reason) {
                    true => 0,
                    false => reader.cut_off()?,
                }
            }
            _ => 0,
        };
        let reason = match stop.reason {
            None | Some(PAST_END) if cut > 0 => {
                Some("the end of a file that is shorter than when the segment was begun")
            }
            None if beyond.records > 0 => Some("records whose predecessors never reached the disk"),
            reason => reason,
        };
        let (file, offset) = self.place(&stop, &mut beyond);
        let torn = reason.map(|reason| TornTail {
            file,
            offset,
            reason,
            bytes_beyond: beyond.bytes,
            records_beyond: beyond.records,
            cut,
            operations_beyond: beyond.operations,
            proof,
        });
        bound(&mut self.segments, self.pos);
        Ok(RecoveredLog {
            end: self.pos,
            durable: self.proven.max(beyond.synced).min(self.pos),
            closed: stop.closed,
            last_number: self.segments.last().map_or(0, |s| s.number),
            records: self.records,
            torn,
            segments: self.segments,
        })
    }
}
