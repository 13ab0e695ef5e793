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
use crate::util::checksum::checksum;
use crate::util::coding::u32_at;

/// Bytes read from the file at a time.
const CHUNK: u64 = 256 << 10;
/// Maximum length in bytes of candidates that are still checked after the budget is spent.
const CHEAP: usize = 16 << 10;

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

enum Check {
    Sound(RecordHeader),
    /// Zeros, bytes of an earlier use of the file, or the end of the file.
    Blank,
    Bad(u64, &'static str),
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
        Ok(match self.check(at)? {
            Check::Sound(h)
                if h.kind == MARK && h.len == 0 && h.synced == base + (at - SEGMENT_HEADER) =>
            {
                Some(at)
            }
            _ => None,
        })
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

    /// Returns the segment's number, from the file's name.
    pub(super) fn number(&self) -> u64 {
        self.number
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

    fn check(&mut self, offset: u64) -> Result<Check> {
        let (number, file_len) = (self.number, self.file.len());
        let Some(b) = self.bytes(offset, RECORD_HEADER)? else { return Ok(Check::Blank) };
        let h = RecordHeader::decode(b);
        let owned = self.generation.map_or(matches!(h.kind, DATA | MARK), |g| h.generation == g);
        if !owned || h.kind == 0 {
            return Ok(Check::Blank);
        }
        // Without a known generation, damage cannot be distinguished from bytes of an earlier use.
        let expected = self.generation.is_some();
        let bad = |len, reason| if expected { Check::Bad(len, reason) } else { Check::Blank };
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
        Ok(Check::Sound(h))
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
                if let Check::Sound(_) = self.check(offset)? {
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
        match self.check(self.offset)? {
            Check::Sound(h) => self.record(self.offset, h).map(Ok),
            Check::Blank => Ok(Err(None)),
            Check::Bad(_, reason) => Ok(Err(Some(reason))),
        }
    }

    /// Reports whether another writer's valid record, with this segment number and offset, is at
    /// the reader's position. It comes from another file, because two writers of one log never
    /// share a segment number.
    pub(super) fn is_foreign_here(&mut self) -> Result<bool> {
        let own = std::mem::take(&mut self.generation);
        let found = self.check(self.offset);
        self.generation = own;
        Ok(matches!(found?, Check::Sound(h) if own.is_some_and(|g| g != h.generation)))
    }

    /// Returns the next record or the next damage; `None` at the clean end of the segment.
    ///
    /// # Errors
    /// `Incompatible` for a valid record of a kind that this build does not know; errors of the
    /// environment.
    #[allow(clippy::should_implement_trait)] // a lending iterator
    pub fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        let offset = self.offset;
        let (claimed, reason) = match self.check(offset)? {
            Check::Sound(h) => return Ok(Some(LogItem::Record(self.record(offset, h)?))),
            Check::Blank => (0, "bytes of no record of this segment"),
            Check::Bad(size, reason) => (size, reason),
        };
        let next = self.find(offset.saturating_add(8))?;
        self.offset = next.unwrap_or(self.file.len());
        let len = next.map_or(claimed, |n| n - offset);
        Ok((len > 0).then_some(LogItem::Damage(Damage { offset, len, reason })))
    }

    fn record(&mut self, offset: u64, h: RecordHeader) -> Result<WalRecord<'_>> {
        let size = record_size(h.len as usize);
        self.offset = offset + size;
        let lsn = self.header.as_ref().map(|s| s.base + (offset - SEGMENT_HEADER));
        let path = self.path.clone();
        let bytes = self.bytes(offset, RECORD_HEADER + h.len as u64)?;
        let bytes = bytes.ok_or_else(|| {
            Error::corruption("the file became shorter").at(path, offset).block("wal record")
        })?;
        Ok(WalRecord {
            lsn,
            offset,
            size,
            mark: h.kind == MARK,
            seq: h.seq,
            synced: h.synced,
            checksum: h.crc,
            generation: h.generation,
            payload: &bytes[RECORD_HEADER as usize..],
        })
    }
}
