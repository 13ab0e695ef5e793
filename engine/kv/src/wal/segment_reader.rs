//! Reads one segment, valid or damaged, for recovery and the dump tools.
//!
//! Invariants:
//! - Every returned record has passed its checksum.
//! - After damage, the reader continues at the next valid record of this segment, in steps of 8
//!   bytes.
//! - Allocations never exceed the length of the file.
//! - A full scan takes time linear in the file's length, even over bytes crafted to look like
//!   records (see `budget`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{
    DATA, MARK, RECORD_HEADER, RecordHeader, SEGMENT_HEADER, SegmentHeader, generation, record_size,
};
use super::{Lsn, segment_path};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{MAX_BATCH_LEN, Seq};
use crate::env::{Env, ReadFile};
use crate::util::checksum::{bit_of, checksum};
use crate::util::coding::u32_at;

/// Bytes read from the file at a time.
const CHUNK: u64 = 256 << 10;
/// Maximum length in bytes of candidates that are still checked after the budget is spent.
const CHEAP: usize = 16 << 10;

/// Bytes that a device writes atomically.
const SECTOR: u64 = 512;
/// Longest payload in bytes in which a bit flip is searched: 2¹⁷ bits. So at most one in 32,768
/// crashes that tear one record but complete a later one could pass for damage.
const MAX_FLIP_SEARCH: usize = 16 << 10;

/// Reason for a record whose end is beyond the file's end.
pub(super) const PAST_END: &str = "a length that runs past the end of the file";

/// Reports whether the file has room for exactly one mark after its records, which end at `end` for
/// this `reason`. Then the log was closed cleanly, but the mark is damaged or a power cut lost it.
pub(super) fn was_closed(len: u64, end: u64, reason: Option<&str>) -> bool {
    len == end + RECORD_HEADER && reason != Some(PAST_END)
}

/// A valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalRecord<'a> {
    /// Position of the record; `None` when the segment's header is unreadable.
    pub lsn: Option<Lsn>,
    /// Offset in the file.
    pub offset: u64,
    /// Size in bytes in the file and in the log: header, payload and padding.
    pub size: u64,
    /// Whether it is a mark: no operations, only [`synced`](WalRecord::synced).
    pub mark: bool,
    /// Sequence number of its first operation.
    pub seq: Seq,
    /// Position below which the log was known durable when the record was written.
    pub synced: Lsn,
    /// Its checksum.
    pub checksum: u32,
    /// Identifies the writer and the segment: see [`format`](super::format).
    pub generation: u32,
    /// The operations: see [`ops`](crate::base::ops).
    pub payload: &'a [u8],
}

/// Bytes that are no valid record of this segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes up to the next valid record. Without one: up to the claimed end of the damaged record.
    pub len: u64,
    /// The kind of damage.
    pub reason: &'static str,
}

/// One item of a segment scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogItem<'a> {
    /// A valid record.
    Record(WalRecord<'a>),
    /// Bytes that are no valid record.
    Damage(Damage),
}

/// A reader of one segment.
pub struct SegmentReader {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    number: u64,
    header: Option<SegmentHeader>,
    /// The generation of valid records; without it, any record that passes its checksum is valid.
    generation: Option<u32>,
    offset: u64,
    buffer: Vec<u8>,
    /// Offset in the file of the buffer's first byte.
    start: u64,
    /// Remaining bytes for failed checks of candidates longer than [`CHEAP`].
    budget: u64,
}

debug_by!(SegmentReader, "SegmentReader", path, number, offset);

/// The content of a segment at one offset.
enum Frame {
    Record(RecordHeader),
    /// Zeros, bytes of an earlier use of the file, or the end of the file.
    Blank,
    /// A damaged record: its claimed size in bytes, and the problem.
    Damaged(u64, &'static str),
}

impl SegmentReader {
    /// Opens segment `number` in `dir` and reads its header.
    ///
    /// # Errors
    /// `Incompatible` for a segment of a newer format version; errors of the environment.
    pub fn open(env: &dyn Env, dir: &Path, number: u64) -> Result<SegmentReader> {
        let path = segment_path(dir, number);
        let file = env.open_read(&path, false)?;
        let budget = file.len().saturating_mul(4);
        let mut r = SegmentReader {
            file,
            path,
            number,
            header: None,
            generation: None,
            offset: SEGMENT_HEADER,
            buffer: vec![],
            start: 0,
            budget,
        };
        if r.file.len() >= SEGMENT_HEADER {
            // Bypass the buffer: most segments are opened only for their headers.
            let mut b = [0; SEGMENT_HEADER as usize];
            r.file.read_at(0, &mut b)?;
            r.header = SegmentHeader::decode(number, &b).map_err(|e| e.at(&r.path, 0))?;
            r.generation = r.header.as_ref().map(SegmentHeader::generation);
        }
        Ok(r)
    }

    /// Returns the offset of the mark of a clean close (W7): the last bytes of the file.
    pub(super) fn closed_at(&mut self) -> Result<Option<u64>> {
        let at = self.file.len().saturating_sub(RECORD_HEADER);
        let Some(base) = self.header.as_ref().map(|h| h.base) else { return Ok(None) };
        if at < SEGMENT_HEADER || !at.is_multiple_of(8) {
            return Ok(None);
        }
        let lsn = base + (at - SEGMENT_HEADER);
        let is_close = matches!(
            self.frame(at)?,
            Frame::Record(h) if h.kind == MARK && h.len == 0 && h.synced == lsn
        );
        Ok(is_close.then_some(at))
    }

    /// Opens a segment like [`open`](SegmentReader::open), given its writer if known. Without a
    /// valid header, only that writer's records count.
    ///
    /// # Errors
    /// See [`open`](SegmentReader::open).
    pub(super) fn open_of(
        env: &dyn Env,
        dir: &Path,
        number: u64,
        writer: Option<u64>,
    ) -> Result<SegmentReader> {
        let mut r = SegmentReader::open(env, dir, number)?;
        r.generation = r.generation.or(writer.map(|w| generation(w, number)));
        Ok(r)
    }

    /// Returns the bytes by which the file is shorter than when the segment was begun. It was
    /// truncated, or the machine stopped before its length was durable. Returns 0 without a header,
    /// and after a clean close, even if the mark is damaged.
    ///
    /// # Errors
    /// See [`next`](SegmentReader::next).
    pub fn cut_off(&mut self) -> Result<u64> {
        let missing =
            self.header.as_ref().map_or(0, |h| h.capacity.saturating_sub(self.file.len()));
        if missing == 0 || self.closed_at()?.is_some() {
            return Ok(0);
        }
        let before = std::mem::replace(&mut self.offset, SEGMENT_HEADER);
        // Bytes after the mark of a clean close are not part of the log.
        let mut closed = false;
        let reason = loop {
            match self.here()? {
                Ok(r) => closed = r.mark && r.lsn == Some(r.synced),
                Err(reason) => break reason,
            }
        };
        let end = std::mem::replace(&mut self.offset, before);
        Ok(if closed || was_closed(self.file.len(), end, reason) { 0 } else { missing })
    }

    /// Returns the segment's header; `None` when it is unreadable or was never written.
    pub fn header(&self) -> Option<&SegmentHeader> {
        self.header.as_ref()
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.file.len()
    }

    /// Positions the reader at this offset, a multiple of 8.
    pub(super) fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Returns the offset of the next item.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Drops the read-ahead buffer, because the log may have grown into its range.
    pub(super) fn forget(&mut self) {
        self.buffer.clear();
    }

    /// Returns `len` bytes at `offset`; `None` when the file ends before.
    pub(super) fn bytes(&mut self, offset: u64, len: u64) -> Result<Option<&[u8]>> {
        let Some(end) = offset.checked_add(len).filter(|&e| e <= self.file.len()) else {
            return Ok(None);
        };
        if offset < self.start || end > self.start + self.buffer.len() as u64 {
            let n = len.max(CHUNK).min(self.file.len() - offset);
            // Emptied first, so that a failed read leaves no bytes that pass for the file's.
            let mut buffer = std::mem::take(&mut self.buffer);
            if buffer.len() < n as usize {
                buffer = vec![0; n as usize];
            }
            buffer.truncate(n as usize);
            self.file.read_at(offset, &mut buffer)?;
            (self.buffer, self.start) = (buffer, offset);
        }
        let at = (offset - self.start) as usize;
        Ok(Some(&self.buffer[at..at + len as usize]))
    }

    /// Checks the bytes at `offset`. Leaves a valid record in the buffer.
    fn frame(&mut self, offset: u64) -> Result<Frame> {
        let (number, file_len) = (self.number, self.file.len());
        let Some(b) = self.bytes(offset, RECORD_HEADER)? else { return Ok(Frame::Blank) };
        let h = RecordHeader::decode(b);
        let owned = self.generation.map_or(matches!(h.kind, DATA | MARK), |g| h.generation == g);
        if !owned || h.kind == 0 {
            return Ok(Frame::Blank);
        }
        // Without a known generation, damage cannot be distinguished from bytes of an earlier use.
        let expected = self.generation.is_some();
        let bad = |len, reason| if expected { Frame::Damaged(len, reason) } else { Frame::Blank };
        let (len, size) = (h.len as usize, record_size(h.len as usize));
        if len > MAX_BATCH_LEN || offset + size > file_len {
            return Ok(bad(file_len - offset, PAST_END));
        }
        let sound = match self.bytes(offset, RECORD_HEADER + len as u64)? {
            Some(b) => checksum(number, offset, &[&b[4..]]) == h.crc,
            None => false,
        };
        if !sound {
            return Ok(bad(size, "a checksum that does not match"));
        }
        if h.kind != DATA && h.kind != MARK {
            return Err(Error::new(
                ErrorKind::Incompatible,
                format!(
                    "a log record of unknown kind {}: a newer version wrote it, use a newer build",
                    h.kind
                ),
            )
            .at(&self.path, offset)
            .block("wal record"));
        }
        Ok(Frame::Record(h))
    }

    /// Returns the offset of the first valid record at or after `offset`.
    fn find(&mut self, mut offset: u64) -> Result<Option<u64>> {
        let generation = self.generation;
        loop {
            let left = self.file.len().saturating_sub(offset);
            if left < RECORD_HEADER {
                return Ok(None);
            }
            let Some(b) = self.bytes(offset, left.min(CHUNK))? else { return Ok(None) };
            let places = (b.len() - RECORD_HEADER as usize) / 8 + 1;
            let owned = |at| generation.is_none_or(|g| u32_at(b, at + 8) == g);
            let place =
                (0..places).find(|p| matches!(u32_at(b, 8 * p + 12), DATA | MARK) && owned(8 * p));
            let Some(place) = place else {
                offset += 8 * places as u64;
                continue;
            };
            let len = u32_at(b, 8 * place + 4) as usize;
            offset += 8 * place as u64;
            if len <= CHEAP || self.budget >= len as u64 {
                if let Frame::Record(_) = self.frame(offset)? {
                    return Ok(Some(offset));
                }
                if len > CHEAP && len <= MAX_BATCH_LEN {
                    self.budget = self.budget.saturating_sub(len as u64);
                }
            }
            offset += 8;
        }
    }

    /// Reads the record exactly at the reader's position. Otherwise returns the problem there, or
    /// `None` for the end of the segment, and does not move.
    pub(super) fn here(&mut self) -> Result<Result<WalRecord<'_>, Option<&'static str>>> {
        match self.frame(self.offset)? {
            Frame::Record(h) => Ok(Ok(self.record(h))),
            Frame::Blank => Ok(Err(None)),
            Frame::Damaged(_, reason) => Ok(Err(Some(reason))),
        }
    }

    /// Reports whether another writer's valid record, with this segment number and offset, is at
    /// the reader's position. It comes from another file, because two writers of one log never
    /// share a segment number.
    pub(super) fn is_foreign_here(&mut self) -> Result<bool> {
        let own = std::mem::take(&mut self.generation);
        let found = self.frame(self.offset);
        self.generation = own;
        Ok(matches!(found?, Frame::Record(h) if own.is_some_and(|g| g != h.generation)))
    }

    /// Returns the next record or the next damage; `None` at the clean end of the segment.
    ///
    /// # Errors
    /// `Incompatible` for a valid record of a kind that this build does not know; errors of the
    /// environment.
    #[allow(clippy::should_implement_trait)] // a lending iterator
    pub fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        let offset = self.offset;
        let (claimed, reason) = match self.frame(offset)? {
            Frame::Record(h) => return Ok(Some(LogItem::Record(self.record(h)))),
            Frame::Blank => (0, "bytes of no record of this segment"),
            Frame::Damaged(size, reason) => (size, reason),
        };
        let next = self.find(offset.saturating_add(8))?;
        self.offset = next.unwrap_or(self.file.len());
        let len = next.map_or(claimed, |n| n - offset);
        Ok((len > 0).then_some(LogItem::Damage(Damage { offset, len, reason })))
    }

    /// Returns the next record, skipping damage; `None` when no more valid record follows.
    ///
    /// # Errors
    /// See [`next`](SegmentReader::next).
    pub fn next_record(&mut self) -> Result<Option<WalRecord<'_>>> {
        while self.offset < self.file.len() {
            if let Frame::Record(h) = self.frame(self.offset)? {
                return Ok(Some(self.record(h)));
            }
            self.offset = self.find(self.offset.saturating_add(8))?.unwrap_or(self.file.len());
        }
        Ok(None)
    }

    /// Returns a proof that the bytes at `offset`, where a record has to begin, have been damaged.
    /// `next` is the offset of the segment's next valid record; without one, `end` is where the
    /// next segment continues. Returns `None` if a crash may have left these bytes.
    ///
    /// A power cut leaves any subset of the unsynced sectors, each in any state since the last
    /// sync. So valid records after a place without one prove nothing: the sectors of that place
    /// may never have been written. Two observations do prove damage:
    /// - **A valid record begins in the same sector, after the place.** That sector was written
    ///   after the place was.
    /// - **Flipping one bit makes the checksum match.** Crash remains pass with probability 2⁻³²
    ///   per tried bit. At most the bits of [`MAX_FLIP_SEARCH`] bytes are tried.
    pub(super) fn record_damage(
        &mut self,
        offset: u64,
        next: Option<u64>,
        end: Option<u64>,
    ) -> Result<Option<String>> {
        if next.is_some_and(|next| offset / SECTOR == next / SECTOR) {
            return Ok(Some(
                "a sound record behind it begins in the same sector, which was written later"
                    .into(),
            ));
        }
        let (number, left) = (self.number, self.file.len().saturating_sub(offset + RECORD_HEADER));
        let Some(head) = self.bytes(offset, RECORD_HEADER)?.map(RecordHeader::decode) else {
            return Ok(None);
        };
        // The stored length, and every length one bit away from it that leads to the next record.
        let fits = |&len: &u32| next.or(end) == Some(offset + record_size(len as usize));
        let other = (0..u32::BITS).map(|bit| head.len ^ (1 << bit)).filter(fits);
        for len in std::iter::once(head.len)
            .chain(other)
            .filter(|&len| len as usize <= MAX_FLIP_SEARCH && u64::from(len) <= left)
        {
            let Some(bytes) = self.bytes(offset, RECORD_HEADER + u64::from(len))? else { continue };
            let fields = RecordHeader { len, ..head }.encode_without_crc();
            let payload = &bytes[RECORD_HEADER as usize..];
            let difference = checksum(number, offset, &[&fields[4..], payload]) ^ head.crc;
            let turned = (head.len ^ len).trailing_zeros();
            let found = match len == head.len {
                true => flipped_bit(difference, 0, 4, bytes.len() - 4),
                false => (difference == 0).then_some((4 + turned as usize / 8, turned % 8)),
            };
            if let Some(found) = found {
                return Ok(Some(flip_text(offset, found)));
            }
        }
        Ok(None)
    }

    /// Returns a proof that the segment's unreadable header has been damaged.
    pub(super) fn header_damage(&mut self) -> Result<Option<String>> {
        let number = self.number;
        let Some(bytes) = self.bytes(0, SEGMENT_HEADER)? else { return Ok(None) };
        let (body, crc) = bytes.split_at(SEGMENT_HEADER as usize - 4);
        let difference = checksum(number, 0, &[body]) ^ u32_at(crc, 0);
        Ok(flipped_bit(difference, body.len(), 0, body.len()).map(|found| flip_text(0, found)))
    }

    /// Returns the record at the reader's position, which [`frame`](SegmentReader::frame) has left
    /// in the buffer, and moves past it.
    fn record(&mut self, h: RecordHeader) -> WalRecord<'_> {
        let (offset, size) = (self.offset, record_size(h.len as usize));
        self.offset += size;
        let payload = (offset + RECORD_HEADER - self.start) as usize;
        WalRecord {
            lsn: self.header.as_ref().map(|s| s.base + (offset - SEGMENT_HEADER)),
            offset,
            size,
            mark: h.kind == MARK,
            seq: h.seq,
            synced: h.synced,
            checksum: h.crc,
            generation: h.generation,
            payload: &self.buffer[payload..payload + h.len as usize],
        }
    }
}

/// Returns the byte and bit whose flip explains this checksum difference: a bit of the checksum
/// itself, at `crc_at`, or of the `len` covered bytes at `body_at`.
fn flipped_bit(difference: u32, crc_at: usize, body_at: usize, len: usize) -> Option<(usize, u32)> {
    if difference.is_power_of_two() {
        let bit = difference.trailing_zeros();
        return Some((crc_at + bit as usize / 8, bit % 8));
    }
    bit_of(difference, len).map(|(byte, bit)| (body_at + byte, bit))
}

fn flip_text(offset: u64, (byte, bit): (usize, u32)) -> String {
    format!(
        "with bit {bit} of the byte at {} turned over its checksum matches",
        offset + byte as u64
    )
}
