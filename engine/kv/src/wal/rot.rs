//! Distinguishes later damage at the end of the log from the effects of a crash.
//!
//! A power cut leaves any subset of the unsynced sectors, each in any state since the last sync. So
//! valid records after a place without one prove nothing: the sectors of that place may never have
//! been written. Two observations do prove damage:
//! - **A valid record begins in the same sector, after the place.** That sector was written after
//!   the place was.
//! - **Flipping one bit makes the checksum match.** Crash remains pass with probability 2⁻³² per
//!   tried bit. At most the bits of [`MOST`] bytes are tried.
//!
//! Invariant: nothing is written; the work is bounded.

use super::format::{RECORD_HEADER, RecordHeader, SEGMENT_HEADER, record_size};
use super::segment_reader::SegmentReader;
use crate::base::error::Result;
use crate::util::checksum::{bit_of, checksum};
use crate::util::coding::u32_at;

/// Bytes that a device writes atomically.
const SECTOR: u64 = 512;
/// Longest payload in bytes in which a bit flip is searched: 2¹⁷ bits. So at most one in 32,768
/// crashes that tear one record but complete a later one could pass for damage.
const MOST: usize = 16 << 10;

/// Returns a proof that the bytes at `offset`, where a record has to begin, have been damaged.
/// `next` is the offset of the segment's next valid record; without one, `end` is where the next
/// segment continues. Returns `None` if a crash may have left these bytes.
pub(super) fn of_record(
    reader: &mut SegmentReader,
    offset: u64,
    next: Option<u64>,
    end: Option<u64>,
) -> Result<Option<String>> {
    if next.is_some_and(|next| offset / SECTOR == next / SECTOR) {
        return Ok(Some(
            "a sound record behind it begins in the same sector, which was written later".into(),
        ));
    }
    let (number, left) =
        (reader.number(), reader.file_len().saturating_sub(offset + RECORD_HEADER));
    let Some(head) = reader.bytes(offset, RECORD_HEADER)?.map(RecordHeader::decode) else {
        return Ok(None);
    };
    // The stored length, and every length one bit away from it that leads to the next record.
    let fits =
        |len: &u32| next.or(end).is_some_and(|next| offset + record_size(*len as usize) == next);
    let other = (0..u32::BITS).map(|bit| head.len ^ (1 << bit)).filter(fits);
    for len in std::iter::once(head.len)
        .chain(other)
        .filter(|&len| len as usize <= MOST && u64::from(len) <= left)
    {
        let Some(bytes) = reader.bytes(offset, RECORD_HEADER + u64::from(len))? else { continue };
        let report = RecordHeader { len, ..head }.encode_without_crc();
        let off =
            checksum(number, offset, &[&report[4..], &bytes[RECORD_HEADER as usize..]]) ^ head.crc;
        let turned = (head.len ^ len).trailing_zeros();
        let found = match len == head.len {
            true => bit(off, bytes.len()),
            false => (off == 0).then_some((4 + turned as usize / 8, turned % 8)),
        };
        if let Some(found) = found {
            return Ok(Some(words(offset, found)));
        }
    }
    Ok(None)
}

/// Returns a proof that a segment's unreadable header has been damaged.
pub(super) fn of_header(reader: &mut SegmentReader) -> Result<Option<String>> {
    let number = reader.number();
    let Some(bytes) = reader.bytes(0, SEGMENT_HEADER)? else { return Ok(None) };
    let (body, crc) = bytes.split_at(SEGMENT_HEADER as usize - 4);
    let off = checksum(number, 0, &[body]) ^ u32_at(crc, 0);
    let last = off
        .is_power_of_two()
        .then(|| (body.len() + off.trailing_zeros() as usize / 8, off.trailing_zeros() % 8));
    Ok(last.or_else(|| bit_of(off, body.len())).map(|found| words(0, found)))
}

/// Returns the bit of a record of `len` bytes whose flip explains a checksum difference of `off`: a
/// bit of the checksum itself or of the covered bytes.
fn bit(off: u32, len: usize) -> Option<(usize, u32)> {
    if off.is_power_of_two() {
        return Some((off.trailing_zeros() as usize / 8, off.trailing_zeros() % 8));
    }
    bit_of(off, len - 4).map(|(byte, bit)| (4 + byte, bit))
}

fn words(offset: u64, (byte, bit): (usize, u32)) -> String {
    format!(
        "with bit {bit} of the byte at {} turned over its checksum matches",
        offset + byte as u64
    )
}
