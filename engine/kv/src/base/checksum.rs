//! Checksums with context: a CRC-32 (IEEE) over where the bytes belong and then the bytes themselves.
//!
//! Invariants: the same bytes in another file, or at another offset of the same file, have another checksum, so a
//! misdirected, duplicated or stale write is found like a flipped bit. Spec: `format-spec/README.md`, "Checksums".

/// CRC-32 of `context` (file id, then offset, both little-endian `u64`) followed by each of `parts`.
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

/// Appends a block of varint-coded fields' own CRC-32 (no context): for small files that are replaced as a whole.
pub fn seal(out: &mut Vec<u8>) {
    let crc = crc32fast::hash(out);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Checks and strips what [`seal`] appended.
pub fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(body) == u32::from_le_bytes(*crc)).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::super::coding::put_varint;
    use super::*;

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
}
