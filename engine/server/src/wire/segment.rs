//! Segments, the outer frames of version 5 (section 2.2 of its specification): a header with a
//! checksum of 24 bits, a payload of at most 128 KiB with one of 32 bits.
//!
//! A self-contained segment holds whole envelopes; an envelope that is larger than a segment is
//! split over several. The parser concatenates the payloads and reads envelopes from that.

use super::compress::unpack_lz4;
use super::error::WireError;

/// Longest payload: the limit of its 17 bits.
pub const MAX_PAYLOAD: usize = (1 << 17) - 1;
/// Initial bytes of every payload checksum.
const SEED: [u8; 4] = [0xfa, 0x2d, 0x55, 0xca];
const CRC: usize = 4;
/// Minimum length of a compressed payload.
const WORTH: usize = 64;

/// Returns the checksum of a header: polynomial 0x1974f0b, initial value 0x875060.
fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = 0x87_5060u32;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= 0x197_4f0b;
            }
        }
    }
    crc & 0xff_ffff
}

fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&SEED);
    hasher.update(payload);
    hasher.finalize()
}

/// Appends one segment.
fn put_segment(out: &mut Vec<u8>, payload: &[u8], self_contained: bool, lz4: bool) {
    let flag = u64::from(self_contained);
    let len = payload.len() as u64;
    if !lz4 {
        let header = (len | flag << 17).to_le_bytes();
        out.extend_from_slice(&header[..3]);
        out.extend_from_slice(&crc24(&header[..3]).to_le_bytes()[..3]);
        out.extend_from_slice(payload);
        out.extend_from_slice(&crc32(payload).to_le_bytes());
        return;
    }
    let packed = (payload.len() >= WORTH).then(|| lz4_flex::block::compress(payload));
    // A length of zero marks an uncompressed payload.
    let (bytes, whole) = match &packed {
        Some(packed) if packed.len() < payload.len() => (&**packed, len),
        _ => (payload, 0),
    };
    let header = (bytes.len() as u64 | whole << 17 | flag << 34).to_le_bytes();
    out.extend_from_slice(&header[..5]);
    out.extend_from_slice(&crc24(&header[..5]).to_le_bytes()[..3]);
    out.extend_from_slice(bytes);
    out.extend_from_slice(&crc32(bytes).to_le_bytes());
}

/// Appends envelopes, which end at `ends`, as segments; each holds as many as fit.
pub fn put_segments(out: &mut Vec<u8>, envelopes: &[u8], ends: &[usize], lz4: bool) {
    let (mut from, mut until) = (0, 0);
    for end in ends {
        if end - from > MAX_PAYLOAD {
            if until > from {
                put_segment(out, &envelopes[from..until], true, lz4);
                from = until;
            }
            if end - from > MAX_PAYLOAD {
                for part in envelopes[from..*end].chunks(MAX_PAYLOAD) {
                    put_segment(out, part, false, lz4);
                }
                from = *end;
            }
        }
        until = *end;
    }
    if until > from {
        put_segment(out, &envelopes[from..until], true, lz4);
    }
}

/// Segment parser.
#[derive(Clone, Copy, Debug)]
pub struct SegmentParser {
    /// Whether payloads may be compressed.
    pub lz4: bool,
}

impl SegmentParser {
    /// Appends the payload of the segment at the start of `bytes`, and returns the segment's
    /// length; `None` if it is incomplete.
    ///
    /// # Errors
    /// A wrong checksum: later bytes cannot be trusted.
    pub fn read(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, WireError> {
        let width = if self.lz4 { 5 } else { 3 };
        let Some(header) = bytes.get(..width + 3) else { return Ok(None) };
        let number =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |all: u64, byte| all << 8 | u64::from(*byte));
        let (fields, said) = (number(&header[..width]), number(&header[width..]));
        let computed = crc24(&header[..width]);
        if said != u64::from(computed) {
            return Err(WireError::protocol(format!(
                "Invalid or corrupt frame header: CRC {said:#x} was said, {computed:#x} computed"
            )));
        }
        let len = (fields & MAX_PAYLOAD as u64) as usize;
        let whole = if self.lz4 { (fields >> 17 & MAX_PAYLOAD as u64) as usize } else { 0 };
        let Some(body) = bytes.get(width + 3..width + 3 + len + CRC) else { return Ok(None) };
        let (payload, said) = body.split_at(len);
        let computed = crc32(payload);
        if number(said) != u64::from(computed) {
            return Err(WireError::protocol(format!(
                "Invalid or corrupt frame: CRC {:#x} was said, {computed:#x} computed",
                number(said)
            )));
        }
        match whole {
            0 => out.extend_from_slice(payload),
            whole => out.extend_from_slice(&unpack_lz4(payload, whole, MAX_PAYLOAD)?),
        }
        Ok(Some(width + 3 + len + CRC))
    }
}
