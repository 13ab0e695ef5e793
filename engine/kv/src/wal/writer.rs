//! Appends records to the log.
//!
//! Invariants:
//! - A record is in one segment.
//! - `append` neither allocates nor makes a system call, unless it starts a segment, touches fresh
//!   pages, or is the first of its thread.
//! - A failed append leaves the end of the log unchanged.
//! - Each segment number is used once (W1).
//! - The directory is synced before a new segment is used, so [`Syncer::sync`] only syncs file
//!   contents.

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use super::format::{
    DATA, MARK, RECORD_HEADER, RecordHeader, SEGMENT_HEADER, SegmentHeader, record_size,
};
use super::group_commit::Syncer;
use super::recovery::{RecoveredLog, SegmentInfo, live_bytes, retained_size};
use super::tail::{LogHold, SegmentPlace};
use super::{Lsn, segment_path};
use crate::base::error::{Error, Result};
use crate::base::format_version::FormatVersion;
use crate::base::identity::LogWriter;
use crate::base::key::{MAX_BATCH_LEN, MAX_SEQ, Seq};
use crate::env::{Env, LogFile, LogSlice, LogView};
use crate::util::sync::{Mutex, rank};

/// Maximum number of retired segments that wait for recycling; more are removed.
pub(super) const MAX_SPARES: usize = 2;
/// Size in bytes of a writer's first segment. Each later one is twice as large, up to the
/// configured size. So the log of a rarely written store stays small.
const FIRST: u64 = 256 << 10;
/// Maximum segment size in bytes if memory is short. Segments are released one by one, and only
/// removing a file drops its dirty pages unwritten.
const LARGEST_WHERE_SHORT: u64 = 16 << 20;
/// Memory is short if it holds fewer segments than this. Then retired segments are not recycled:
/// their dirty pages would be written, evicted, and read back before they are overwritten.
const ROOM_FOR_SPARES: u64 = 24;
/// Maximum age in nanoseconds of a recycled file's dirty pages. Linux writes back a whole file once
/// any page has been dirty for 30 seconds. A file removed earlier is never written back.
pub(super) const YOUNG: u64 = 10_000_000_000;
/// Maximum fill time in nanoseconds of a segment after which the next one is touched completely.
/// After a slower one, stale pages would be written back before they are overwritten.
const FAST: u64 = 4_000_000_000;
/// Number of bytes whose pages are touched at once, ahead of the writes.
const PREPARE: u64 = 1 << 20;
/// Maximum length in bytes of a payload that is assembled in the thread's buffer and written with
/// one call.
const SMALL: usize = 8192;
/// Bytes of checksum context at the start of the buffer. The header's bytes 4 to 31 follow it, so
/// the checksum covers one slice.
const CONTEXT: usize = 16;
const HEADER: usize = RECORD_HEADER as usize;

thread_local! {
    /// A thread's buffer for assembling records. A buffer shared by all writers would move several
    /// cache lines between cores per record, while the write lock is held.
    static RECORD: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The writer of the log. The Db's write mutex protects it. The fields that every record changes
/// come first ([`HOT`](Wal::HOT)).
#[repr(C)]
pub struct Wal {
    end: Lsn,
    syncer: Arc<Syncer>,
    current: CurrentSegment,
    env: Arc<dyn Env>,
    dir: PathBuf,
    segment_size: u64,
    next_number: u64,
    /// Format version of the next segment.
    format: FormatVersion,
    store: u64,
    /// This writer's random id, its first segment and its start position.
    writer: LogWriter,
    /// Full segments and those of earlier writers, ascending by number.
    old: VecDeque<OldSegment>,
    /// Whether retired segments are recycled.
    recycle: bool,
    /// Retired segments of `segment_size` bytes, ready for recycling.
    spares: Vec<Spare>,
    /// Retired segments that become spares when their views are gone; at most [`MAX_SPARES`].
    viewed: Vec<(Spare, Weak<dyn LogView>)>,
    /// Whether memtables may refer to the log's memory.
    has_views: bool,
    /// Numbers of segment files to be removed.
    waste: Vec<u64>,
    /// Time at which the current segment was begun, and the fill time of the one before;
    /// nanoseconds.
    began: u64,
    fill_time: u64,
    /// The end of the log at the last [`rest`](Wal::rest), and the end from which on segments are
    /// held in reserve again.
    rested: Lsn,
    reserve_from: Lsn,
    slot: Arc<Mutex<WriteSlot, rank::Segment>>,
    /// Called when a segment is full and no next one was ready.
    grows: Option<Box<dyn Fn() + Send>>,
    /// The holds of the log's followers.
    holds: Vec<Weak<LogHold>>,
}

debug_by!(Wal, "Wal", dir, end);

/// A segment that receives no more records.
struct OldSegment {
    info: SegmentInfo,
    /// Time in nanoseconds since when its file has had dirty pages, unless it was synced later.
    dirty: u64,
    /// The views of its memory, if there was one.
    view: Option<Weak<dyn LogView>>,
}

/// A file that can be renamed and recycled.
#[derive(Clone, Copy)]
struct Spare {
    number: u64,
    /// Time in nanoseconds since when it has had dirty pages; `None` when it has none.
    dirty: Option<u64>,
}

impl Spare {
    fn is_young(&self, now: u64) -> bool {
        self.dirty.is_none_or(|since| now.saturating_sub(since) < YOUNG)
    }
}

#[repr(C)]
struct CurrentSegment {
    /// File offset of the next record.
    offset: u64,
    capacity: u64,
    /// Offset up to which pages have been touched.
    prepared: u64,
    number: u64,
    file: Arc<dyn LogFile>,
    generation: u32,
    base: Lsn,
    /// See [`OldSegment::dirty`].
    dirty: u64,
    /// See [`OldSegment::view`].
    view: Option<Weak<dyn LogView>>,
}

/// A file that can become the next segment.
struct Ready {
    number: u64,
    file: Arc<dyn LogFile>,
    prepared: u64,
    /// See [`OldSegment::dirty`].
    dirty: u64,
}

#[derive(Default)]
struct WriteSlot {
    ready: Option<Ready>,
    busy: bool,
}

/// A job that prepares the next segment, or touches more pages of a prepared one. Runs on any
/// thread without the write mutex. The writer may take the segment meanwhile.
pub struct PrepareJob {
    /// The source of the segment; `None` if it has been created already.
    source: Option<SegmentSource>,
    /// Touch all pages, not only the first ones.
    touch: bool,
    slot: Arc<Mutex<WriteSlot, rank::Segment>>,
}

debug_by!(PrepareJob, "PrepareJob");

struct SegmentSource {
    env: Arc<dyn Env>,
    dir: PathBuf,
    number: u64,
    spare: Option<Spare>,
    capacity: u64,
}

impl SegmentSource {
    /// Creates or recycles the file and makes its name durable (W1). After a failure it removes the
    /// remains, so that repeated attempts do not fill the disk.
    fn open(&self) -> Result<Ready> {
        let path = segment_path(&self.dir, self.number);
        let spare = self.spare.map(|spare| segment_path(&self.dir, spare.number));
        let dirty = self.spare.and_then(|spare| spare.dirty);
        let dirty = dirty.unwrap_or_else(|| self.env.monotonic_nanos());
        let open = || {
            let file = match &spare {
                Some(spare) => {
                    self.env.rename(spare, &path)?;
                    self.env.reuse_log(&path)?
                }
                None => self.env.create_log(&path, self.capacity)?,
            };
            self.env.sync_dir(&self.dir)?;
            Ok(Ready { number: self.number, file: Arc::from(file), prepared: 0, dirty })
        };
        open().inspect_err(|_| {
            for left in spare.iter().chain([&path]) {
                let _ = self.env.remove(left);
            }
        })
    }
}

impl PrepareJob {
    /// Creates or recycles the file, makes its name durable and touches its pages.
    ///
    /// If the log grows fast, the job touches all pages, which takes milliseconds per MiB, until
    /// `stop` returns `true`. The next job continues from there. The writer touches the pages that
    /// it needs earlier.
    ///
    /// # Errors
    /// Errors of the environment. The log continues without the job: the writer creates the next
    /// segment itself when it needs one.
    pub fn run(mut self, stop: &dyn Fn() -> bool) -> Result<()> {
        if let Some(source) = self.source.take() {
            let ready = source.open()?;
            self.slot.lock().ready = Some(ready);
        }
        let ready = self.slot.lock().ready.as_ref().map(|r| (r.number, r.file.clone(), r.prepared));
        let Some((number, file, mut prepared)) = ready else { return Ok(()) };
        let capacity = file.capacity();
        let until = if self.touch { capacity } else { capacity.min(PREPARE) };
        while prepared < until && (prepared == 0 || !stop()) {
            let step = PREPARE.min(until - prepared);
            file.prepare(prepared, step);
            prepared += step;
            match &mut self.slot.lock().ready {
                Some(r) if r.number == number => r.prepared = prepared,
                _ => break,
            }
        }
        Ok(())
    }
}

impl Drop for PrepareJob {
    fn drop(&mut self) {
        self.slot.lock().busy = false;
    }
}

/// Segment files that nobody needs. Remove them without the write mutex, because removing a large
/// file takes milliseconds.
#[must_use]
pub struct Unneeded {
    env: Arc<dyn Env>,
    dir: PathBuf,
    numbers: Vec<u64>,
    _ready: Option<Ready>,
}

debug_by!(Unneeded, "Unneeded", numbers);

impl Unneeded {
    /// Removes the files. Dirty pages that the system has not written yet are never written.
    ///
    /// # Errors
    /// The environment's first error; all removals are tried. A later opening removes the rest.
    pub fn remove(self) -> Result<()> {
        let mut all = Ok(());
        for &number in &self.numbers {
            all = all.and(self.env.remove(&segment_path(&self.dir, number)));
        }
        all
    }
}

impl Wal {
    /// Number of leading bytes that a record changes. The owner places its own hot fields in the
    /// same cache line, because that line moves to the next writer's core.
    pub const HOT: usize = offset_of!(Wal, current) + offset_of!(CurrentSegment, number);

    /// Starts a writer at the end that recovery found, in a new segment with an unused number.
    /// `segment_size` is in bytes, at least 4,096. `store` is the store's id. In an empty directory
    /// [`recover`](super::recover) returns an empty log to start from.
    ///
    /// Records that recovery read may be only in the page cache. Before this returns they are
    /// durable (`secure`), and so is the new segment (W3). The old segments stay until
    /// [`retire`](Wal::retire). The caller makes the writer's random id ([`writer`](Wal::writer))
    /// durable before anything is appended (W6).
    ///
    /// # Errors
    /// `InvalidArgument` for arguments out of bounds, and errors of the environment.
    pub fn create(
        env: Arc<dyn Env>,
        dir: &Path,
        store: u64,
        format: FormatVersion,
        after: &RecoveredLog,
        segment_size: u64,
    ) -> Result<Wal> {
        let (number, start) = (after.last_number.saturating_add(1), after.end);
        if !start.is_multiple_of(8) || segment_size < 4096 {
            return Err(Error::invalid(format!(
                "a log cannot start at position {start} with segments of {segment_size} bytes"
            )));
        }
        for s in after.segments.iter().filter(|s| s.end > after.durable) {
            secure(&*env, &segment_path(dir, s.number), s, after.durable)?;
        }
        let recycle = env.memory().is_none_or(|bytes| bytes / ROOM_FOR_SPARES >= segment_size);
        let segment_size =
            if recycle { segment_size } else { segment_size.min(LARGEST_WHERE_SHORT) };
        let capacity = segment_size.min(FIRST);
        let source = SegmentSource {
            env: env.clone(),
            dir: dir.to_path_buf(),
            number,
            spare: None,
            capacity,
        };
        let ready = source.open()?;
        let syncer = Arc::new(Syncer::new(start));
        let writer = LogWriter { from: number, id: env.random(), base: start };
        let owner = SegmentOwner { format, store, writer: writer.id };
        let current = begin(ready, start, 0, owner, &syncer)?;
        current.file.sync()?;
        Ok(Wal {
            recycle,
            waste: vec![],
            began: env.monotonic_nanos(),
            fill_time: 0,
            rested: start,
            reserve_from: start + capacity / 2,
            env,
            dir: dir.to_path_buf(),
            segment_size,
            next_number: number.saturating_add(1),
            end: start,
            format,
            store,
            writer,
            current,
            old: after
                .segments
                .iter()
                .map(|s| OldSegment { info: s.clone(), dirty: 0, view: None })
                .collect(),
            spares: vec![],
            viewed: vec![],
            has_views: false,
            slot: Arc::default(),
            syncer,
            grows: None,
            holds: vec![],
        })
    }

    /// Appends one record whose payload is the concatenation of `parts`. Returns the position after
    /// it. `seq` is the sequence number of its first operation. The record survives a process crash
    /// when this returns. It survives a power cut once [`Syncer::sync`] has returned for that
    /// position.
    ///
    /// # Errors
    /// `InvalidArgument` for a payload over [`MAX_BATCH_LEN`] or a number over [`MAX_SEQ`], or an
    /// error of the environment. A full disk can occur only where a segment starts. After an error
    /// nothing has been appended.
    #[inline]
    pub fn append(&mut self, seq: Seq, parts: &[&[u8]]) -> Result<Lsn> {
        self.put(DATA, seq, parts)
    }

    /// Lets memtables refer to the log's memory, if the environment provides it. Where memory is
    /// short, they do not: the system would evict the log's pages and read them back.
    pub fn allow_views(&mut self) {
        self.has_views = self.recycle;
    }

    /// Returns a view of the payload of the record that was appended last; `len` is its length.
    /// Returns `None` if the log's memory cannot be read.
    pub fn last_payload(&mut self, len: usize) -> Option<LogSlice> {
        let c = &mut self.current;
        let offset = (c.offset - record_size(len)) + RECORD_HEADER;
        let view = self.has_views.then(|| c.file.view(offset + len as u64)).flatten()?;
        c.view.get_or_insert_with(|| Arc::downgrade(&view));
        LogSlice::new(view, offset, len)
    }

    fn put(&mut self, kind: u32, seq: Seq, parts: &[&[u8]]) -> Result<Lsn> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        if len > MAX_BATCH_LEN || seq > MAX_SEQ {
            return Err(Error::invalid(format!(
                "a log record of {len} bytes at sequence number {seq} is out of bounds"
            )));
        }
        let size = record_size(len);
        if self.current.offset + size > self.current.capacity {
            self.rotate(size)?;
        }
        let c = &mut self.current;
        if c.offset + size > c.prepared {
            // Touch a small segment in quarters, so that a nearly empty store touches few pages.
            let to = (c.offset + size)
                .next_multiple_of(PREPARE.min(c.capacity.next_multiple_of(16 << 10) / 4))
                .min(c.capacity);
            c.file.prepare(c.prepared, to - c.prepared);
            c.prepared = to;
        }
        let header = RecordHeader {
            crc: 0,
            len: len as u32,
            generation: c.generation,
            kind,
            seq,
            synced: self.syncer.synced(),
        };
        let header = header.encode_without_crc();
        if len <= SMALL {
            self.write_small(header, parts, len)?;
        } else {
            self.write_large(header, parts)?;
        }
        self.current.offset += size;
        self.end += size;
        self.syncer.publish(self.end);
        Ok(self.end)
    }

    /// Writes a small record from one buffer with context, header and payload. This takes one
    /// checksum pass and one copy into the file.
    #[inline]
    fn write_small(&mut self, header: [u8; HEADER], parts: &[&[u8]], len: usize) -> Result<()> {
        // Take the buffer out and put it back: the write may reenter, and the thread may be
        // exiting.
        let mut b = RECORD.try_with(Cell::take).unwrap_or_default();
        if b.is_empty() {
            b.resize(CONTEXT - 4 + HEADER + SMALL + 8, 0);
        }
        let c = &self.current;
        b[..8].copy_from_slice(&c.number.to_le_bytes());
        b[8..16].copy_from_slice(&c.offset.to_le_bytes());
        b[CONTEXT..CONTEXT + HEADER - 4].copy_from_slice(&header[4..]);
        let mut at = CONTEXT + HEADER - 4;
        for p in parts {
            b[at..at + p.len()].copy_from_slice(p);
            at += p.len();
        }
        let crc = crc32fast::hash(&b[..at]);
        b[at..at + 8].fill(0);
        b[CONTEXT - 4..CONTEXT].copy_from_slice(&crc.to_le_bytes());
        let written =
            c.file.write_at(c.offset, &b[CONTEXT - 4..CONTEXT - 4 + record_size(len) as usize]);
        let _ = RECORD.try_with(|own| own.set(b));
        written
    }

    /// Writes the payload first, then the header, without an intermediate copy.
    fn write_large(&mut self, mut header: [u8; HEADER], parts: &[&[u8]]) -> Result<()> {
        let c = &self.current;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&c.number.to_le_bytes());
        crc.update(&c.offset.to_le_bytes());
        crc.update(&header[4..]);
        let mut at = c.offset + RECORD_HEADER;
        for p in parts {
            crc.update(p);
            c.file.write_at(at, p)?;
            at += p.len() as u64;
        }
        header[..4].copy_from_slice(&crc.finalize().to_le_bytes());
        c.file.write_at(c.offset, &header)
    }

    /// Switches to a new segment with room for a record of `size` bytes.
    #[cold]
    fn rotate(&mut self, size: u64) -> Result<()> {
        let need = SEGMENT_HEADER + size;
        let mut ready = self.slot.lock().ready.take();
        if let Some(r) =
            ready.take_if(|r| r.number < self.current.number || r.file.capacity() < need)
        {
            self.put_by_ready(r);
        }
        let ready = match ready {
            Some(r) => r,
            None => {
                if let Some(grows) = &self.grows {
                    grows();
                }
                self.next_source(need.max(self.next_size()).next_multiple_of(8)).open()?
            }
        };
        let next = begin(
            ready,
            self.end,
            self.current.number,
            SegmentOwner { format: self.format, store: self.store, writer: self.writer.id },
            &self.syncer,
        )?;
        let full = std::mem::replace(&mut self.current, next);
        self.old.push_back(OldSegment {
            info: SegmentInfo::written(full.number, Some(full.base), Some(self.end), full.capacity),
            dirty: full.dirty,
            view: full.view,
        });
        let now = self.env.monotonic_nanos();
        self.fill_time = now.saturating_sub(self.began);
        self.began = now;
        Ok(())
    }

    /// Returns the size in bytes of the segment after the current one.
    fn next_size(&self) -> u64 {
        self.current
            .capacity
            .saturating_mul(2)
            .clamp(self.segment_size.min(FIRST), self.segment_size)
    }

    /// Stores an unused segment as a spare, or marks it for removal.
    fn put_by(&mut self, spare: Spare, capacity: u64) {
        let fits = self.recycle && capacity == self.segment_size;
        if fits && self.spares.len() < MAX_SPARES && spare.is_young(self.env.monotonic_nanos()) {
            self.spares.push(spare);
        } else {
            self.waste.push(spare.number);
        }
    }

    /// Recycles or removes retired segments that no view refers to any more.
    fn put_by_unviewed(&mut self) {
        let (viewed, gone): (Vec<_>, _) =
            self.viewed.drain(..).partition(|(_, view)| view.strong_count() > 0);
        self.viewed = viewed;
        // The readers of the views are done before anybody writes to the file.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        gone.into_iter().for_each(|(spare, _)| self.put_by(spare, self.segment_size));
    }

    /// Handles a prepared segment that is too late or too small.
    fn put_by_ready(&mut self, ready: Ready) {
        let Ready { number, file, dirty, .. } = ready;
        self.put_by(Spare { number, dirty: Some(dirty) }, file.capacity());
    }

    /// Takes a spare whose dirty pages are young; marks the older ones for removal.
    fn take_spare(&mut self) -> Option<Spare> {
        self.put_by_unviewed();
        let now = self.env.monotonic_nanos();
        while let Some(spare) = self.spares.pop() {
            if spare.is_young(now) {
                return Some(spare);
            }
            self.waste.push(spare.number);
        }
        None
    }

    /// Returns the files to be removed.
    fn unneeded(&mut self, ready: Option<Ready>) -> Unneeded {
        let mut numbers = std::mem::take(&mut self.waste);
        numbers.extend(ready.as_ref().map(|r| r.number));
        Unneeded { env: self.env.clone(), dir: self.dir.clone(), numbers, _ready: ready }
    }

    fn next_source(&mut self, capacity: u64) -> SegmentSource {
        let spare = if capacity == self.segment_size { self.take_spare() } else { None };
        let number = self.next_number;
        self.next_number += 1;
        SegmentSource { env: self.env.clone(), dir: self.dir.clone(), number, spare, capacity }
    }

    /// Returns a job that prepares the next segment, or touches more of the prepared one. A
    /// background worker runs it without the write mutex. Returns `None` if a segment is ready or
    /// being prepared, and while the log hardly grows.
    pub fn prepare_next(&mut self) -> Option<PrepareJob> {
        if self.end < self.reserve_from {
            return None;
        }
        let touch = self.recycle && self.fill_time < FAST;
        let (late, is_begun) = {
            let mut slot = self.slot.lock();
            if slot.busy {
                return None;
            }
            let late = slot.ready.take_if(|r| r.number < self.current.number);
            if slot.ready.as_ref().is_some_and(|r| !touch || r.prepared == r.file.capacity()) {
                return None;
            }
            slot.busy = true;
            (late, slot.ready.is_some())
        };
        if let Some(late) = late {
            self.put_by_ready(late);
        }
        let source = (!is_begun).then(|| self.next_source(self.next_size()));
        Some(PrepareJob { source, touch, slot: self.slot.clone() })
    }

    /// Sets a callback for when a segment is full and no next one is ready. It should schedule a
    /// [`PrepareJob`]. It must not call the log.
    pub fn call_when_it_grows(&mut self, f: Box<dyn Fn() + Send>) {
        self.grows = Some(f);
    }

    /// Sets the format version of later segments. The store's manifest must have it already.
    pub fn set_format(&mut self, format: FormatVersion) {
        self.format = format;
    }

    /// Releases the reserve if nothing has been appended since the last call. Call it now and then
    /// while the store is idle. So an idle store takes no more space than it needs, and stale pages
    /// are not written back.
    pub fn rest(&mut self) -> Unneeded {
        if self.rested == self.end {
            self.give_up_reserve()
        } else {
            self.rested = self.end;
            self.unneeded(None)
        }
    }

    /// Returns the bytes appended since the last [`rest`](Wal::rest).
    pub fn since_rest(&self) -> u64 {
        self.end - self.rested
    }

    /// Releases the spares and the prepared segment. New ones are prepared after the log has grown
    /// by an eighth of a segment.
    pub fn give_up_reserve(&mut self) -> Unneeded {
        self.reserve_from = self.end + self.segment_size / 8;
        let ready = self.slot.lock().ready.take();
        self.waste.extend(self.spares.drain(..).map(|spare| spare.number));
        self.waste.extend(self.viewed.drain(..).map(|(spare, _)| spare.number));
        self.unneeded(ready)
    }

    /// Returns this writer's identity. The manifest must record it before anyone relies on the
    /// writer's records.
    pub fn writer(&self) -> LogWriter {
        self.writer
    }

    /// Returns the position after the last record.
    #[inline]
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Returns the handle that makes the log durable; all writing threads share it.
    pub fn syncer(&self) -> Arc<Syncer> {
        self.syncer.clone()
    }

    /// Returns the total capacity in bytes of the segments that end above `floor`, full or not, and
    /// their number.
    pub fn retained_size(&self, floor: Lsn) -> (u64, usize) {
        let (bytes, old) = retained_size(self.old.iter().map(|s| &s.info), floor);
        (bytes + self.current.capacity, old + 1)
    }

    /// Returns how many retained segments earlier writers wrote, and the position where those end.
    pub fn inherited(&self) -> (usize, Lsn) {
        (self.old.iter().filter(|s| s.info.number < self.writer.from).count(), self.writer.base)
    }

    /// Returns the bytes of records in all segments that are not yet retired.
    pub fn live_bytes(&self) -> u64 {
        live_bytes(self.old.iter().map(|s| &s.info)) + (self.end - self.current.base)
    }

    /// Pins the whole present log for a follower. Returns the hold and the log's segments.
    pub fn hold(&mut self) -> (Arc<LogHold>, Vec<SegmentPlace>) {
        let places = self.places();
        let hold = LogHold::new(places.first().map_or(self.end, |s| s.base));
        (self.add_hold(hold), places)
    }

    /// Pins the log as the hold says.
    pub fn add_hold(&mut self, hold: LogHold) -> Arc<LogHold> {
        let hold = Arc::new(hold);
        self.holds.retain(|hold| hold.strong_count() > 0);
        self.holds.push(Arc::downgrade(&hold));
        hold
    }

    /// Reports whether any pinned log must survive a power cut.
    pub fn has_durable_holds(&self) -> bool {
        self.holds.iter().filter_map(Weak::upgrade).any(|hold| hold.is_durable())
    }

    /// Returns the segments that form the log without a gap up to its end, in order (W2).
    pub fn places(&self) -> Vec<SegmentPlace> {
        let mut places =
            vec![SegmentPlace { number: self.current.number, base: self.current.base }];
        let mut begins = self.current.base;
        for OldSegment { info, .. } in self.old.iter().rev() {
            match info.base {
                Some(base) if base < begins && info.end >= begins => {
                    places.push(SegmentPlace { number: info.number, base });
                    begins = base;
                }
                Some(base) if base < begins => break,
                // The segment is void or was never used.
                _ => {}
            }
        }
        places.reverse();
        places
    }

    /// Returns the position below which no follower pins the log either.
    fn gc_below(&mut self, lsn: Lsn) -> Lsn {
        let (end, mut floor) = (self.end, lsn);
        self.holds.retain(|hold| {
            let kept = hold.upgrade().and_then(|hold| hold.keeps(end, lsn));
            floor = floor.min(kept.unwrap_or(lsn));
            kept.is_some()
        });
        floor
    }

    /// Releases the log below `lsn`, except segments that followers pin. Segments wholly below it
    /// become spares if they are young (`YOUNG`) or synced. The result contains the others, to be
    /// removed. The caller has made the position durable first (W4).
    pub fn retire(&mut self, lsn: Lsn) -> Unneeded {
        let lsn = self.gc_below(lsn);
        let mut i = 0;
        while i < self.old.len() {
            let s = &self.old[i].info;
            // A writer's first segment stays while the log is read from where it begins, even if
            // the segment is empty (W6).
            if s.end > lsn || (s.number == self.writer.from && self.writer.base >= lsn) {
                i += 1;
            } else if let Some(OldSegment { info, dirty, view }) = self.old.remove(i) {
                let dirty = (info.end > self.syncer.synced()).then_some(dirty);
                self.syncer.forget(info.number);
                let spare = Spare { number: info.number, dirty };
                match view.filter(|view| view.strong_count() > 0) {
                    // An earlier handle of this store in this process may have views of it.
                    _ if info.number < self.writer.from => self.waste.push(info.number),
                    None => self.put_by(spare, info.capacity),
                    Some(view)
                        if self.recycle
                            && info.capacity == self.segment_size
                            && self.viewed.len() < MAX_SPARES =>
                    {
                        self.viewed.push((spare, view));
                    }
                    Some(_) => self.waste.push(info.number),
                }
            }
        }
        self.unneeded(None)
    }

    /// Closes the log for good. Makes it durable, appends a mark of the clean close (W7) and
    /// releases all reserved space. The mark distinguishes later damage from a torn tail. Costs one
    /// sync, or none if everything was durable.
    ///
    /// # Errors
    /// Errors of [`append`](Wal::append), of [`Syncer::sync`], and of shortening and removing
    /// files.
    pub fn close(mut self) -> Result<()> {
        // Pages after the mark were only touched ahead and need not be written.
        self.current.file.discard_from(self.current.offset + record_size(0));
        self.syncer.sync(self.end)?;
        self.put(MARK, 0, &[])?;
        self.syncer.let_go();
        // No one else holds the file now. Otherwise it would keep its length, and the next opening
        // would scan it.
        let end = self.current.offset;
        let shortened =
            Arc::get_mut(&mut self.current.file).map_or(Ok(()), |file| file.shorten(end));
        shortened.and(self.give_up_reserve().remove())
    }
}

/// Makes the records of a segment above `durable` durable. An earlier sync of them may have failed.
/// Then the operating system returns them on read but considers them written, so they are written
/// again.
fn secure(env: &dyn Env, path: &Path, s: &SegmentInfo, durable: Lsn) -> Result<()> {
    let log = env.rewrite_log(path)?;
    let base = s.base.unwrap_or(s.end);
    let file = env.open_read(path, false)?;
    let copy = |mut from: u64, until: u64| -> Result<()> {
        // A void, damaged part may be missing from the file.
        let until = until.min(file.len());
        let mut buffer = vec![0; until.saturating_sub(from).min(PREPARE) as usize];
        while from < until {
            let n = (until - from).min(PREPARE) as usize;
            file.read_at(from, &mut buffer[..n])?;
            log.write_at(from, &buffer[..n])?;
            from += n as u64;
        }
        Ok(())
    };
    copy(0, SEGMENT_HEADER)?;
    copy(SEGMENT_HEADER + durable.saturating_sub(base), SEGMENT_HEADER + (s.end - base))?;
    log.sync()
}

/// Fields of a segment header that are the same for the whole log.
struct SegmentOwner {
    format: FormatVersion,
    store: u64,
    writer: u64,
}

/// Writes a segment's header and registers the file with the syncer.
fn begin(
    ready: Ready,
    base: Lsn,
    previous: u64,
    owner: SegmentOwner,
    syncer: &Syncer,
) -> Result<CurrentSegment> {
    let Ready { number, file, prepared, dirty } = ready;
    let capacity = file.capacity();
    let SegmentOwner { format: version, store, writer } = owner;
    let synced = syncer.synced();
    let header = SegmentHeader { version, number, base, synced, previous, capacity, store, writer };
    file.write_at(0, &header.encode())?;
    syncer.add(number, base, file.clone());
    Ok(CurrentSegment {
        number,
        generation: header.generation(),
        base,
        file,
        dirty,
        capacity,
        offset: SEGMENT_HEADER,
        prepared,
        view: None,
    })
}
