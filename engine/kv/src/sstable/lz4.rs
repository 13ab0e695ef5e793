//! Computes the decompressed length of an LZ4 block from its sequences, without decompressing it.

/// Returns the decompressed length of the LZ4 block `packed`; `None` if its sequences are cut off.
///
/// Offsets are not checked: a block with a length may still not decompress.
pub fn raw_len(packed: &[u8]) -> Option<u64> {
    let (mut at, mut raw) = (0usize, 0u64);
    loop {
        let token = *packed.get(at)?;
        at += 1;
        let literals = length(packed, &mut at, token >> 4)?;
        at = at.checked_add(usize::try_from(literals).ok()?)?;
        raw = raw.checked_add(literals)?;
        if at >= packed.len() {
            return (at == packed.len()).then_some(raw);
        }
        // Skip an offset of two bytes, then read the rest of the match's length.
        at += 2;
        raw = raw.checked_add(4 + length(packed, &mut at, token & 15)?)?;
    }
}

/// Reads a length whose token has these four bits.
fn length(packed: &[u8], at: &mut usize, bits: u8) -> Option<u64> {
    let mut n = u64::from(bits);
    if bits < 15 {
        return Some(n);
    }
    loop {
        let more = *packed.get(*at)?;
        *at += 1;
        n += u64::from(more);
        if more < 255 {
            return Some(n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_that_of_the_content(raw in prop::collection::vec(0u8..3, 0..3000), same: u16) {
            let raw = [raw, vec![7; same.into()]].concat();
            let packed = lz4_flex::block::compress(&raw);
            prop_assert_eq!(raw_len(&packed), Some(raw.len() as u64));
        }

        #[test]
        fn any_bytes_have_the_length_that_they_decompress_to(packed: Vec<u8>) {
            let found = raw_len(&packed);
            let mut out = vec![0; 255 * packed.len() + 64];
            if let Ok(n) = lz4_flex::block::decompress_into(&packed, &mut out) {
                prop_assert_eq!(found, Some(n as u64));
            }
        }
    }
}
