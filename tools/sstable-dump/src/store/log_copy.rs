//! Copies a log, damaged or not, into one that can be replayed. Every sound record retains its
//! position. Records without content ([`filler`]) fill the gaps of lost records, so that replay
//! reads the records after the damage too.
//!
//! Invariants: which records count and which are void is decided as in recovery (W2). A torn end
//! remains a torn end. The original is only read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_kv::Env;
use firn_kv::fs::{ReadFile, WriteFile};
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::key::Kind;
use firn_kv::internals::base::ops::{Op, OpReader, TreeId};
use firn_kv::internals::wal::format::{
    RECORD_HEADER, SEGMENT_HEADER, SegmentHeader, filler, generation,
};
use firn_kv::internals::wal::{LogItem, SegmentInfo, SegmentReader, segment_name, segments};
use firn_kv::{Error, Result};

use crate::salvage::losses::Loss;
use crate::store::names::FileNames;
use crate::store::target::dir_of;

/// Largest hole between segments that is filled, in bytes.
const MAX_HOLE: u64 = 1 << 30;

/// Callback for every retained record: its first sequence number, the position after it, its
/// payload.
pub type RecordVisit<'a> = dyn FnMut(u64, u64, &[u8]) + 'a;

/// An operation of a retained record.
pub struct LoggedOp<'a> {
    /// Tree of the operation.
    pub tree: TreeId,
    /// The operation.
    pub op: Op<'a>,
    /// Sequence number of the operation.
    pub seq: u64,
    /// Position after the record.
    pub end: u64,
}

impl LoggedOp<'_> {
    /// Reports whether the operation is a merge operand.
    pub fn is_merge(&self) -> bool {
        matches!(self.op, Op::Point { kind: Kind::Merge, .. })
    }
}

/// Result of copying a log.
#[derive(Default)]
pub struct CopiedLog {
    /// Position of the first record; 0 without segments.
    pub start: u64,
    /// Segment of the first record.
    pub first_number: u64,
    /// Start of the record that contains the floor. `None` if a record begins at the floor, or if
    /// no known record contains it.
    pub before_floor: Option<u64>,
    /// Position after the last record.
    pub end: u64,
    /// Number of retained records.
    pub records: u64,
    /// Whether there was any segment.
    pub any: bool,
    /// Whether any segment counts, so that the copy has a segment.
    pub counts: bool,
    /// Sequence number after the last record, if there is one.
    pub next_seq: Option<u64>,
    /// Losses.
    pub losses: Vec<Loss>,
    /// Notes for the report.
    pub notes: Vec<String>,
}

/// The segment that is being written.
struct OutputSegment {
    header: SegmentHeader,
    path: PathBuf,
    out: Option<Box<dyn WriteFile>>,
}

struct LogCopier<'a> {
    names: &'a FileNames,
    out: Option<&'a Path>,
    floor: u64,
    pos: u64,
    /// Sequence number after the last record.
    next_seq: Option<u64>,
    synced: u64,
    /// Store and writer of the last segment.
    owner: (u64, u64),
    /// Format version of the last segment.
    version: FormatVersion,
    current: Option<OutputSegment>,
    /// A mark that a close may have written. Such a mark takes no position in the log. It is
    /// written if something follows it in its segment, or if nothing follows at all.
    closing: Option<Vec<u8>>,
    /// The current segment if its file was truncated: its path, its length now and its original
    /// length.
    cut: Option<(PathBuf, u64, u64)>,
    /// Whether the copy ended at a hole that cannot be filled.
    ended: bool,
    /// Damage that counts as a loss only if a sound record follows or if it had been synced.
    pending: Option<(PathBuf, u64, &'static str)>,
    done: CopiedLog,
}

/// Returns the number of a segment that is missing or empty although a later one exists. It must
/// have followed the last segment with records, because a segment is completed before the next one
/// is created.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn lost_end(names: &FileNames) -> Result<Option<u64>> {
    let list = segments(names, names.dir())?;
    let Some(last) = list.iter().rfind(|s| s.base.is_some() && s.end > 0) else { return Ok(None) };
    let made = |n: u64| list.iter().any(|s| s.number == n && s.capacity >= SEGMENT_HEADER);
    let end =
        list.iter().filter(|s| s.capacity >= SEGMENT_HEADER).map(|s| s.number).max().unwrap_or(0);
    Ok((last.number + 1..end).find(|&n| !made(n)))
}

/// Returns the reason why a segment may be missing at the end of the log, with the number of the
/// last existing one. That segment is full and was not closed. If another record of its size would
/// still have fitted, the log ends as a crash leaves it.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn may_lack_end(names: &FileNames) -> Result<Option<String>> {
    let list = segments(names, names.dir())?;
    let Some(last) = list.iter().rfind(|s| s.base.is_some() && s.end > 0) else { return Ok(None) };
    let mut reader = names.open_segment(last.number)?;
    let (mut end, mut largest, mut closed) = (SEGMENT_HEADER, 0, false);
    while let Some(item) = reader.next()? {
        match item {
            LogItem::Record(r) => {
                (end, closed) = (r.offset + r.size, r.mark);
                largest = if r.mark { largest } else { r.size.max(largest) };
            }
            LogItem::Damage(_) => return Ok(None),
        }
    }
    let is_full = largest > 0 && end + largest > reader.file_len();
    let capacity = reader.header().map_or(0, |h| h.capacity);
    // A segment shorter than its capacity was closed, or truncated, which is reported elsewhere. A
    // copy is as long as its content.
    if closed || !is_full || capacity == SEGMENT_HEADER || reader.file_len() < capacity {
        return Ok(None);
    }
    Ok(Some(format!(
        "whether the log went on: {} is full, and was not closed, so the next segment may be missing, with the last writes",
        segment_name(last.number)
    )))
}

/// Describes two segments that cannot both belong to this log. The header of the later one says
/// that its writer wrote the earlier one, but another writer did. One of them belongs to a clone.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn foreign_predecessor(names: &FileNames) -> Result<Option<String>> {
    let mut writers = BTreeMap::new();
    for info in segments(names, names.dir())?.iter().filter(|s| s.end > 0) {
        let reader = names.open_segment(info.number)?;
        let Some(h) = reader.header() else { continue };
        if writers.get(&h.previous).is_some_and(|w| *w != h.writer) {
            return Ok(Some(format!(
                "which of {} and {} is of this store: other openings wrote them, though one names the other as its predecessor; one is of a \
                 clone (a copy of the directory that was used independently), and its records have been taken too",
                segment_name(h.previous),
                segment_name(info.number)
            )));
        }
        writers.insert(info.number, h.writer);
    }
    Ok(None)
}

/// Reason for the loss of the segment that [`lost_end`] finds.
pub const LOST_END: &str = "the segment is missing or empty, though a later one has been made: it contained the last writes";

/// Copies the log in the directory of `names` to the directory `out`. Without `out` it only reads
/// the log. Damage below the position `floor` is no loss.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn copy(
    names: &FileNames,
    out: Option<&Path>,
    floor: u64,
    visit: &mut RecordVisit<'_>,
) -> Result<CopiedLog> {
    let list = segments(names, names.dir())?;
    let mut c = LogCopier::new(names, out, floor);
    c.done.any = !list.is_empty();
    for (i, info) in list.iter().enumerate() {
        let next = list[i + 1..].iter().find_map(|s| s.base.filter(|_| s.end > 0));
        c.segment(info, next, visit)?;
    }
    c.finish()?;
    Ok(c.done)
}

/// Reads the log like [`copy`], without copying it. Calls `visit` for every operation.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn each_op(
    names: &FileNames,
    floor: u64,
    visit: &mut dyn FnMut(LoggedOp<'_>),
) -> Result<CopiedLog> {
    copy(names, None, floor, &mut |seq, end, payload| {
        for ((tree, op), seq) in OpReader::new(payload).flatten().zip(seq..) {
            visit(LoggedOp { tree, op, seq, end });
        }
    })
}

impl<'a> LogCopier<'a> {
    fn new(names: &'a FileNames, out: Option<&'a Path>, floor: u64) -> LogCopier<'a> {
        LogCopier {
            names,
            out,
            floor,
            pos: 0,
            next_seq: None,
            synced: 0,
            owner: (0, 0),
            version: FormatVersion::OLDEST,
            current: None,
            closing: None,
            cut: None,
            ended: false,
            pending: None,
            done: CopiedLog::default(),
        }
    }

    fn segment(
        &mut self,
        info: &SegmentInfo,
        next: Option<u64>,
        visit: &mut RecordVisit<'_>,
    ) -> Result<()> {
        let mut reader = self.names.open_segment(info.number)?;
        let header = reader.header().cloned();
        let base = match &header {
            Some(h) if info.end > self.floor || (info.end > 0 && h.base >= self.floor) => h.base,
            Some(_) => return Ok(()),
            None => match self.lost_base(info.number, next)? {
                Some(base) => base,
                None => return Ok(()),
            },
        };
        let path = reader.path().to_path_buf();
        if self.ended {
            return self.count_lost(reader, path);
        }
        if base < self.pos {
            // Only a reconstructed base can overlap; recovery would not accept it either.
            self.done
                .notes
                .push(format!("{}: its place in the log is taken; left out", path.display()));
            return Ok(());
        }
        if self.current.is_some()
            && base > self.pos
            && !self.fill(base, "the log has nothing here: a segment is missing, or its end")?
        {
            return Ok(());
        }
        let file = self.names.open_read(&path, false)?;
        let is_cut = reader.cut_off()? > 0;
        self.cut =
            header.as_ref().filter(|_| is_cut).map(|h| (path.clone(), file.len(), h.capacity));
        let header = match header {
            Some(h) => h,
            None => self.lost_header(info, base)?,
        };
        self.synced = self.synced.max(header.synced);
        self.start(header, path)?;
        let limit = if info.base.is_some() { info.end } else { next.unwrap_or(u64::MAX) };
        while let Some(item) = reader.next()? {
            match item {
                LogItem::Record(r) => {
                    let lsn = base + (r.offset - SEGMENT_HEADER);
                    self.pos += self.put_mark()?;
                    if lsn + r.size > limit || !self.fill_damage(lsn)? {
                        return Ok(());
                    }
                    self.synced = self.synced.max(r.synced);
                    if r.mark && r.synced == lsn {
                        let mut bytes = vec![0; r.size as usize];
                        file.read_at(r.offset, &mut bytes)?;
                        self.closing = Some(bytes);
                        continue;
                    }
                    self.pos = lsn + r.size;
                    if lsn < self.floor && self.floor < self.pos {
                        self.done.before_floor = Some(lsn);
                    }
                    if !r.mark {
                        self.note_seqs(lsn, r.seq, r.payload);
                        visit(r.seq, self.pos, r.payload);
                        self.done.records += 1;
                    }
                    let (offset, size) = (r.offset, r.size);
                    self.put(&*file, offset, size)?;
                }
                LogItem::Damage(d) => {
                    let path = self.current.as_ref().map(|c| c.path.clone()).unwrap_or_default();
                    self.pending.get_or_insert((path, d.offset, d.reason));
                }
            }
        }
        Ok(())
    }

    /// Counts the records after a hole that cannot be filled as lost, although they can be read.
    fn count_lost(&mut self, mut reader: SegmentReader, file: PathBuf) -> Result<()> {
        let (mut entries, mut len) = (0, 0);
        while let Some(r) = reader.next_record()? {
            entries += OpReader::new(r.payload).count() as u64;
            len += r.size;
        }
        let reason = "it follows a hole in the log that is too large to be bridged";
        let entries = Some(entries);
        self.done.losses.push(Loss { len, entries, ..Loss::new("log", file, reason) });
        Ok(())
    }

    /// Reconstructs the lost header of a segment. Its writer is that of the previous segment,
    /// unless the records contradict; they contain the lower half of the writer's number.
    fn lost_header(&self, info: &SegmentInfo, base: u64) -> Result<SegmentHeader> {
        let mut reader = self.names.open_segment(info.number)?;
        let (store, mut writer) = self.owner;
        if let Some(r) = reader.next_record()?
            && r.generation != generation(writer, info.number)
        {
            writer = u64::from(r.generation.wrapping_sub(info.number as u32));
        }
        let (number, synced, capacity) = (info.number, self.synced, info.capacity);
        let version = self.version;
        Ok(SegmentHeader { version, number, base, synced, previous: 0, capacity, store, writer })
    }

    /// Returns the position at which a segment without a header began, from its records and its
    /// neighbours. Returns `None` for a segment without records.
    fn lost_base(&mut self, number: u64, next: Option<u64>) -> Result<Option<u64>> {
        let mut reader = self.names.open_segment(number)?;
        let mut end = 0;
        while let Some(r) = reader.next_record()? {
            end = r.offset + r.size;
        }
        if end == 0 {
            return Ok(None);
        }
        let from_next =
            next.and_then(|n| n.checked_sub(end - SEGMENT_HEADER)).filter(|&b| b >= self.pos);
        let base = from_next.unwrap_or(self.pos);
        let name = segment_name(number);
        self.done.notes.push(format!(
            "{name}: its header is damaged; according to its neighbours, it began at position {base}"
        ));
        Ok(Some(base))
    }

    fn start(&mut self, header: SegmentHeader, path: PathBuf) -> Result<()> {
        self.closing = None;
        self.close()?;
        self.pending = None;
        let out = match self.out {
            Some(dir) => {
                let mut f = self.names.create(&dir.join(segment_name(header.number)))?;
                // The copy is as long as its content. With the old capacity it would look
                // truncated.
                f.append(&SegmentHeader { capacity: SEGMENT_HEADER, ..header.clone() }.encode())?;
                Some(f)
            }
            None => None,
        };
        if self.done.start == 0 && self.done.records == 0 && self.current.is_none() {
            (self.done.start, self.done.first_number) = (header.base, header.number);
        }
        self.pos = header.base;
        (self.owner, self.version) = ((header.store, header.writer), header.version);
        self.current = Some(OutputSegment { header, path, out });
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        match self.current.as_mut().and_then(|c| c.out.as_mut()) {
            Some(f) => f.sync(),
            None => Ok(()),
        }
    }

    /// Writes the delayed mark, and returns its size in bytes.
    fn put_mark(&mut self) -> Result<u64> {
        let Some(bytes) = self.closing.take() else { return Ok(0) };
        if let Some(out) = self.current.as_mut().and_then(|c| c.out.as_mut()) {
            out.append(&bytes)?;
        }
        Ok(bytes.len() as u64)
    }

    /// Copies bytes of the current segment.
    fn put(&mut self, file: &dyn ReadFile, offset: u64, size: u64) -> Result<()> {
        let Some(out) = self.current.as_mut().and_then(|c| c.out.as_mut()) else { return Ok(()) };
        let mut bytes = vec![0; size as usize];
        file.read_at(offset, &mut bytes)?;
        out.append(&bytes)
    }

    /// Records the sequence numbers of a record, and the number of missing ones before it.
    fn note_seqs(&mut self, lsn: u64, seq: u64, payload: &[u8]) {
        if let Some(expected) = self.next_seq
            && let Some(loss) =
                self.done.losses.last_mut().filter(|l| l.what == "log" && l.entries.is_none())
            && lsn > self.floor
        {
            // Ingested tables use sequence numbers without log records, so this is an upper bound
            // of the loss.
            loss.entries = Some(seq.saturating_sub(expected));
        }
        self.next_seq = Some(seq.saturating_add(OpReader::new(payload).count() as u64));
    }

    /// Fills the damage before the record at `lsn`, if there is any.
    fn fill_damage(&mut self, lsn: u64) -> Result<bool> {
        let reason = self.pending.take().map_or("no record", |p| p.2);
        if lsn > self.pos { self.fill(lsn, reason) } else { Ok(true) }
    }

    /// Fills the log up to position `to`. Returns false if the hole is too large.
    fn fill(&mut self, to: u64, reason: &'static str) -> Result<bool> {
        let Some(c) = self.current.as_mut() else { return Ok(true) };
        let (len, offset) = (to - self.pos, SEGMENT_HEADER + (self.pos - c.header.base));
        if to > self.floor {
            self.done.losses.push(Loss::log(c.path.clone(), offset, len, reason.into()));
        }
        if !(RECORD_HEADER..=MAX_HOLE).contains(&len) {
            self.done.notes.push(format!(
                "a hole of {len} bytes at position {} of the log cannot be bridged; it ends there",
                self.pos
            ));
            self.ended = true;
            return Ok(false);
        }
        if let Some(out) = &mut c.out {
            let mut at = offset;
            let end = offset + len;
            // Reading begins at the floor, so a record must begin there.
            let inside = self.floor >= self.pos + RECORD_HEADER && self.floor + RECORD_HEADER <= to;
            let cut = if inside { SEGMENT_HEADER + (self.floor - c.header.base) } else { end };
            while at < end {
                let limit = if at < cut { cut } else { end };
                let step = if limit - at > (2 << 20) { 1 << 20 } else { limit - at };
                out.append(&filler(
                    &c.header,
                    at,
                    step,
                    self.next_seq.unwrap_or(0).saturating_sub(1),
                    self.synced.min(self.pos),
                )?)?;
                at += step;
            }
        }
        self.pos = to;
        Ok(true)
    }

    fn finish(&mut self) -> Result<()> {
        // In earlier segments the position of the next segment shows the missing bytes.
        if let Some((file, offset, capacity)) = self.cut.take() {
            let reason = format!(
                "the file has been cut off: it had {capacity} bytes, and the log may have gone on in them"
            );
            self.done.losses.push(Loss::log(file, offset, capacity - offset, reason));
        }
        if let Some((file, offset, reason)) = self.pending.take() {
            if self.synced > self.pos && self.pos >= self.floor {
                let reason =
                    format!("{reason}, and positions up to {} had been synced", self.synced);
                let len = self.synced - self.pos;
                self.done.losses.push(Loss::log(file, offset, len, reason));
            } else {
                self.done.notes.push(format!(
                    "{}: the log ends torn at offset {offset}, as a crash leaves it: {reason}",
                    file.display()
                ));
            }
        }
        self.put_mark()?;
        self.done.end = self.pos;
        self.done.counts = self.current.is_some();
        self.done.next_seq = self.next_seq;
        self.close()
    }
}

/// Copies one segment into a new file; returns the result.
///
/// # Errors
/// `InvalidArgument` if the new file's name does not have the segment's number, which is in every
/// checksum; I/O errors.
pub fn copy_one(path: &Path, number: u64, out: &Path) -> Result<CopiedLog> {
    if out.file_name().and_then(|n| n.to_str()) != Some(&segment_name(number)) {
        let words = format!(
            "a segment's number is in its checksums: the new file must be called {}",
            segment_name(number)
        );
        return Err(Error::invalid(words));
    }
    let (names, to) = (FileNames::with_present_names(&dir_of(path)), dir_of(out));
    let base = names.open_segment(number)?.header().map(|h| h.base);
    let mut c = LogCopier::new(&names, Some(&to), 0);
    c.done.any = true;
    let capacity = names.file_len(path)?;
    c.segment(&SegmentInfo::written(number, base, None, capacity), None, &mut |_, _, _| {})?;
    c.finish()?;
    Ok(c.done)
}
