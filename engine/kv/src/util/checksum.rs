//! Checksums with context: a CRC-32 (IEEE) over the location of the bytes and then the bytes
//! themselves.
//!
//! Invariant: the same bytes in another file, or at another offset of the same file, have another
//! checksum. So a misdirected, duplicated or stale write is detected like a flipped bit. Spec:
//! `format-spec/README.md`, "Checksums".

/// Returns the CRC-32 of `context` (file id, then offset, both little-endian `u64`) followed by
/// each of `parts`.
pub fn checksum(file: u64, offset: u64, parts: &[&[u8]]) -> u32 {
    let mut context = [0; 16];
    context[..8].copy_from_slice(&file.to_le_bytes());
    context[8..].copy_from_slice(&offset.to_le_bytes());
    let mut h = crc32fast::Hasher::new();
    h.update(&context);
    for p in parts {
        h.update(p);
    }
    h.finalize()
}

/// Finds the single flipped bit that explains `difference`, the XOR of two checksums of a message
/// of `len` bytes. Returns the index of the byte and of the bit in it, or `None` if no single bit
/// does.
pub fn bit_of(difference: u32, len: usize) -> Option<(usize, u32)> {
    let shift = |crc: u32| (0..8).fold(crc, |c, _| c >> 1 ^ if c & 1 == 1 { REVERSED } else { 0 });
    // The effect of each bit of the last byte on the checksum, then of the byte before it, and so
    // on.
    let mut bits: [u32; 8] = std::array::from_fn(|bit| shift(1 << bit));
    (0..len).rev().find_map(|byte| {
        let found = bits.iter().position(|&d| d == difference);
        bits = bits.map(shift);
        Some((byte, found? as u32))
    })
}

/// Polynomial of the checksum, bits reversed.
const REVERSED: u32 = 0xEDB8_8320;

/// Appends the CRC-32 of `out`, without context. For small files that are replaced as a whole.
pub fn seal(out: &mut Vec<u8>) {
    let crc = crc32fast::hash(out);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Verifies and removes the checksum that [`seal`] appended.
pub fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(body) == u32::from_le_bytes(*crc)).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::coding::put_varint;

    #[test]
    fn place_and_content_both_count() {
        let a = checksum(1, 0, &[b"ab", b"c"]);
        assert_eq!(a, checksum(1, 0, &[b"abc"]));
        assert_ne!(a, checksum(2, 0, &[b"abc"]));
        assert_ne!(a, checksum(1, 8, &[b"abc"]));
        let mut v = vec![];
        put_varint(&mut v, 300);
        seal(&mut v);
        assert!(unseal(&v).is_some());
        v[0] ^= 1;
        assert!(unseal(&v).is_none());
    }

    #[test]
    fn the_bit_that_was_turned_over_is_found() {
        let message: Vec<u8> = (0..300u32).map(|i| (i * 7) as u8).collect();
        let sound = checksum(3, 512, &[&message]);
        for (byte, bit) in (0..message.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
            let mut bad = message.clone();
            bad[byte] ^= 1 << bit;
            let off = checksum(3, 512, &[&bad]) ^ sound;
            assert_eq!(bit_of(off, message.len()), Some((byte, bit)));
            bad[(byte + 17) % 300] ^= 1;
            let two = checksum(3, 512, &[&bad]) ^ sound;
            assert_eq!(bit_of(two, message.len()), None);
        }
        assert_eq!(bit_of(0, message.len()), None);
    }
}
