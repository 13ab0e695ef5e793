//! Encoding of numbers and bytes for [`ByteCursor`](crate::cursor::ByteCursor) (`FORMAT.md`,
//! "Numbers").

/// Appends a number of 1 to 9 bytes.
pub(crate) fn put_vint(out: &mut Vec<u8>, n: u64) {
    let bits = 64 - (n | 1).leading_zeros() as usize;
    // Each byte except the ninth uses a bit for the length.
    let extra = if bits > 56 { 8 } else { (bits - 1) / 7 };
    let bytes = n.to_be_bytes();
    match bytes.get(7usize.wrapping_sub(extra)) {
        Some(first) => {
            out.push(first | !(0xff_u8 >> extra));
            out.extend_from_slice(&bytes[8 - extra..]);
        }
        None => {
            out.push(0xff);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a signed number; its last bit is the sign.
pub(crate) fn put_signed_vint(out: &mut Vec<u8>, n: i64) {
    put_vint(out, (n << 1 ^ n >> 63) as u64);
}

/// Appends bytes with a variable-length size.
pub(crate) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    put_vint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends bytes with a two-byte length; returns false if they are too long.
#[must_use]
pub(crate) fn put_short(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let Ok(len) = u16::try_from(bytes.len()) else { return false };
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cursor::ByteCursor;

    fn vint(n: u64) -> Vec<u8> {
        let mut out = vec![];
        put_vint(&mut out, n);
        out
    }

    #[test]
    fn the_shortest_form_is_written() {
        assert_eq!(vint(0), [0]);
        assert_eq!(vint(127), [0x7f]);
        assert_eq!(vint(128), [0x80, 0x80]);
        assert_eq!(vint(0x4000), [0xc0, 0x40, 0x00]);
        assert_eq!(vint(0x02_0304_0506_0708), [0xfe, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(vint(1 << 56), [0xff, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(vint(u64::MAX), [0xff; 9]);
        let mut signed = vec![];
        [-1, 1, i64::MIN].into_iter().for_each(|n| put_signed_vint(&mut signed, n));
        assert_eq!(signed, [&[1, 2][..], &[0xff; 9]].concat());
        assert!(!put_short(&mut signed, &[0; 65_536]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(n in any::<u64>(), shift in 0u32..64) {
            let n = n >> shift;
            prop_assert_eq!(ByteCursor::new(&vint(n), 0).vint("n").unwrap(), n);
        }
    }
}
