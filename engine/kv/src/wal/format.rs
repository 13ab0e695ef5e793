//! The bytes of a WAL segment.
//!
//! All integers are little-endian. A segment is a header of 80 bytes and then records, one directly
//! after the other, each starting at a multiple of 8. The record at position `lsn` starts at file
//! offset `80 + (lsn − base)`.
//!
//! Segment header:
//!
//! | offset | size | field |
//! |---:|---:|---|
//! | 0 | 8 | magic, the bytes `FIRNWAL` and 0x0a |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | length of this header, 80 |
//! | 16 | 8 | number of the segment; at least 1, and the same as in the file's name |
//! | 24 | 8 | base: position of the first record, a multiple of 8, below 2⁶²; the previous segment ends here |
//! | 32 | 8 | synced: position below which the log was durable when this segment was started |
//! | 40 | 8 | number of the segment that the same writer filled before; 0 in a writer's first |
//! | 48 | 8 | capacity of the file in bytes when this segment was started |
//! | 56 | 8 | id of the store |
//! | 64 | 8 | writer: a random number that was drawn when the store was opened |
//! | 72 | 4 | zero |
//! | 76 | 4 | CRC-32 of the context (segment number, 0) and bytes 0 to 75 |
//!
//! Record:
//!
//! | offset | size | field |
//! |---:|---:|---|
//! | 0 | 4 | CRC-32 of the context (segment number, offset of the record in the file), of bytes 4 to 31, and of the payload |
//! | 4 | 4 | length of the payload, at most 2²⁹ |
//! | 8 | 4 | generation: the low 32 bits of the writer's number plus the segment's |
//! | 12 | 4 | kind: 1 data, 2 mark (no payload: a mark only carries `synced`; the mark of a clean close is the end of its file, which is truncated after it) |
//! | 16 | 8 | sequence number of the payload's first operation; 0 in a mark |
//! | 24 | 8 | synced: position below which the log was known to be durable when this record was written |
//! | 32 | … | payload, then 0 to 7 bytes of padding, ignored |
//!
//! Invariants: a record's checksum covers its segment's number and its offset. So bytes of another
//! segment, or of an earlier use of the file, never pass for a record. The checksum also covers
//! `generation`, which rules out another writer's segment of the same number. `generation`
//! distinguishes such bytes from damage before any checksum is computed.

use super::Lsn;
use crate::base::error::{Error, Result};
use crate::base::format_version::FormatVersion;
use crate::base::key::{Kind, Seq};
use crate::base::ops::{NO_TREE, Op, encode};
use crate::util::checksum::checksum;
use crate::util::coding::{u32_at, u64_at};

/// Length of a segment's header in bytes.
pub const SEGMENT_HEADER: u64 = 80;
/// Length of a record's header in bytes.
pub const RECORD_HEADER: u64 = 32;
/// The kind of a record with operations.
pub const DATA: u32 = 1;
/// The kind of a record that only carries the synced position.
pub const MARK: u32 = 2;

const MAGIC: [u8; 8] = *b"FIRNWAL\n";
/// Exclusive upper bound of positions, so that adding lengths never overflows.
pub(super) const MAX_LSN: Lsn = 1 << 62;

/// The content of a segment's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Format version of the segment.
    pub version: FormatVersion,
    /// The segment's number.
    pub number: u64,
    /// Position of the first record.
    pub base: Lsn,
    /// Position below which the log was durable when the segment was started.
    pub synced: Lsn,
    /// Number of the segment that the same writer filled before; 0 in a writer's first.
    pub previous: u64,
    /// Capacity of the file in bytes when the segment was started.
    pub capacity: u64,
    /// Id of the store.
    pub store: u64,
    /// Random number that the writer drew at its start.
    pub writer: u64,
}

/// Returns the generation in the records of segment `number` written by `writer`.
pub fn generation(writer: u64, number: u64) -> u32 {
    writer.wrapping_add(number) as u32
}

impl SegmentHeader {
    /// Returns the generation in this segment's records.
    pub fn generation(&self) -> u32 {
        generation(self.writer, self.number)
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER as usize] {
        let mut b = [0; SEGMENT_HEADER as usize];
        b[..8].copy_from_slice(&MAGIC);
        b[8..12].copy_from_slice(&self.version.number().to_le_bytes());
        b[12..16].copy_from_slice(&(SEGMENT_HEADER as u32).to_le_bytes());
        b[16..24].copy_from_slice(&self.number.to_le_bytes());
        b[24..32].copy_from_slice(&self.base.to_le_bytes());
        b[32..40].copy_from_slice(&self.synced.to_le_bytes());
        b[40..48].copy_from_slice(&self.previous.to_le_bytes());
        b[48..56].copy_from_slice(&self.capacity.to_le_bytes());
        b[56..64].copy_from_slice(&self.store.to_le_bytes());
        b[64..72].copy_from_slice(&self.writer.to_le_bytes());
        let crc = checksum(self.number, 0, &[&b[..76]]);
        b[76..].copy_from_slice(&crc.to_le_bytes());
        b
    }

    /// Returns the number in a valid segment header, regardless of the file's name.
    pub fn own_number(b: &[u8; SEGMENT_HEADER as usize]) -> Option<u64> {
        let number = u64_at(b, 16);
        matches!(SegmentHeader::decode(number, b), Ok(Some(_)) | Err(_)).then_some(number)
    }

    /// Decodes the header of the segment that the file's name calls `number`. Returns `None` if
    /// these bytes are no such header: the file was never used, shows an earlier use, or is
    /// damaged.
    ///
    /// # Errors
    /// `Incompatible` for a valid header of a newer format version.
    pub fn decode(number: u64, b: &[u8; SEGMENT_HEADER as usize]) -> Result<Option<SegmentHeader>> {
        if b[..8] != MAGIC || u32_at(b, 76) != checksum(number, 0, &[&b[..76]]) {
            return Ok(None);
        }
        let version = u32_at(b, 8);
        let known = FormatVersion::known(version);
        let version = known.ok_or_else(|| {
            let newest = FormatVersion::newest().number();
            Error::newer("the log segment", version, newest).block("wal segment header")
        })?;
        let base = u64_at(b, 24);
        let len = u64::from(u32_at(b, 12));
        if len != SEGMENT_HEADER
            || u64_at(b, 16) != number
            || number == 0
            || base >= MAX_LSN
            || !base.is_multiple_of(8)
        {
            return Ok(None);
        }
        Ok(Some(SegmentHeader {
            version,
            number,
            base,
            synced: u64_at(b, 32),
            previous: u64_at(b, 40),
            capacity: u64_at(b, 48),
            store: u64_at(b, 56),
            writer: u64_at(b, 64),
        }))
    }
}

/// The content of a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub crc: u32,
    pub len: u32,
    pub generation: u32,
    pub kind: u32,
    pub seq: Seq,
    pub synced: Lsn,
}

impl RecordHeader {
    /// Encodes all bytes except the checksum's four, which stay zero.
    #[inline]
    pub fn encode_without_crc(&self) -> [u8; RECORD_HEADER as usize] {
        let mut b = [0; RECORD_HEADER as usize];
        b[4..8].copy_from_slice(&self.len.to_le_bytes());
        b[8..12].copy_from_slice(&self.generation.to_le_bytes());
        b[12..16].copy_from_slice(&self.kind.to_le_bytes());
        b[16..24].copy_from_slice(&self.seq.to_le_bytes());
        b[24..32].copy_from_slice(&self.synced.to_le_bytes());
        b
    }

    /// Decodes the first 32 bytes of `b`. Panics if there are fewer.
    #[inline]
    pub fn decode(b: &[u8]) -> RecordHeader {
        RecordHeader {
            crc: u32_at(b, 0),
            len: u32_at(b, 4),
            generation: u32_at(b, 8),
            kind: u32_at(b, 12),
            seq: u64_at(b, 16),
            synced: u64_at(b, 24),
        }
    }
}

/// Returns the bytes of a record with `len` bytes of payload: header, payload, padding.
#[inline]
pub fn record_size(len: usize) -> u64 {
    (RECORD_HEADER + len as u64).next_multiple_of(8)
}

/// Returns records that fill `len` bytes (a multiple of 8, at least 32) at `offset` of a segment,
/// in place of lost records. They affect no tree, so the rest of the log stays readable. `seq` and
/// `synced` are those of an earlier record.
///
/// # Errors
/// `InvalidArgument` for a length that records cannot fill.
pub fn filler(
    segment: &SegmentHeader,
    offset: u64,
    len: u64,
    seq: Seq,
    synced: Lsn,
) -> Result<Vec<u8>> {
    if len < RECORD_HEADER || !len.is_multiple_of(8) {
        return Err(Error::invalid(format!("no record fills {len} bytes")));
    }
    let mut out: Vec<u8> = vec![];
    while (out.len() as u64) < len {
        let at = out.len();
        let left = len - at as u64;
        // The remainder after a record must have room for another one.
        let size = if left >= LARGEST_FILLER + RECORD_HEADER { LARGEST_FILLER } else { left };
        let payload = filler_payload((size - RECORD_HEADER) as usize);
        let kind = if payload.is_empty() { MARK } else { DATA };
        let seq = if kind == MARK { 0 } else { seq };
        let h = RecordHeader {
            crc: 0,
            len: payload.len() as u32,
            generation: segment.generation(),
            kind,
            seq,
            synced,
        };
        out.extend_from_slice(&h.encode_without_crc());
        out.extend_from_slice(&payload);
        let crc = checksum(segment.number, offset + at as u64, &[&out[at + 4..]]);
        out[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        out.resize(at + size as usize, 0);
    }
    Ok(out)
}

/// Maximum size in bytes of one filler; longer gaps get several records.
const LARGEST_FILLER: u64 = 1 << 20;

/// Returns a payload of at most `room` and more than `room - 8` bytes: a put in a tree whose number
/// no tree can have.
fn filler_payload(room: usize) -> Vec<u8> {
    let mut payload = vec![];
    for value in (0..room.saturating_sub(7)).rev() {
        payload.clear();
        encode(
            &mut payload,
            NO_TREE,
            Op::Point { kind: Kind::Put, key: b"", value: &vec![0; value] },
        );
        if payload.len() <= room {
            break;
        }
    }
    if payload.len() <= room { payload } else { vec![] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ops::OpReader;

    #[test]
    fn fillers_fill_exactly_and_say_nothing() {
        let large = (LARGEST_FILLER - 40..LARGEST_FILLER + 80)
            .chain(3 * LARGEST_FILLER..3 * LARGEST_FILLER + 80);
        let segment = SegmentHeader {
            version: FormatVersion::OLDEST,
            number: 7,
            base: 0,
            synced: 0,
            previous: 0,
            capacity: 1 << 20,
            store: 1,
            writer: u64::MAX - 2,
        };
        for len in (RECORD_HEADER..700).chain(large).filter(|n| n.is_multiple_of(8)) {
            let bytes = filler(&segment, 640, len, 5, 8).unwrap();
            assert_eq!(bytes.len() as u64, len);
            let mut at = 0;
            while at < bytes.len() {
                let h = RecordHeader::decode(&bytes[at..]);
                let payload = &bytes[at + RECORD_HEADER as usize..][..h.len as usize];
                assert_eq!(
                    h.crc,
                    checksum(
                        7,
                        640 + at as u64,
                        &[&bytes[at + 4..at + RECORD_HEADER as usize], payload]
                    )
                );
                assert_eq!((h.generation, h.kind == MARK), (4, payload.is_empty()));
                assert!(
                    OpReader::new(payload).all(|op| op.is_some_and(|(tree, _)| tree == NO_TREE))
                );
                at += record_size(payload.len()) as usize;
            }
            assert_eq!(at, bytes.len());
        }
        assert!(filler(&segment, 80, 24, 0, 0).is_err() && filler(&segment, 80, 33, 0, 0).is_err());
    }
}
