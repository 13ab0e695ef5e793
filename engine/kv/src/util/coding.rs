//! Encoding of integers: fixed little-endian and LEB128 varints, read from untrusted input with
//! bounds checks.
//!
//! Invariant: every read of [`ByteReader`] returns `None` instead of panicking if bytes are missing
//! or a varint is over-long.

/// Appends a LEB128 varint of at most 10 bytes.
pub fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Writes a varint into `out` and returns its length in bytes. `out` must hold [`varint_len`]`(v)`
/// bytes.
#[inline]
pub fn write_varint(out: &mut [u8], mut v: u64) -> usize {
    let mut i = 0;
    while v >= 0x80 {
        out[i] = v as u8 | 0x80;
        v >>= 7;
        i += 1;
    }
    out[i] = v as u8;
    i + 1
}

/// Returns the length of the varint of `v` in bytes: 1 to 10.
#[inline]
pub fn varint_len(v: u64) -> usize {
    ((70 - (v | 1).leading_zeros()) / 7) as usize
}

/// Appends a varint length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, b: &[u8]) {
    put_varint(out, b.len() as u64);
    out.extend_from_slice(b);
}

/// Reads the `u32` at `at`, little-endian. Panics when out of bounds: for lengths already checked.
#[inline]
pub fn u32_at(b: &[u8], at: usize) -> u32 {
    let mut a = [0; 4];
    a.copy_from_slice(&b[at..at + 4]);
    u32::from_le_bytes(a)
}

/// Reads the `u64` at `at`, little-endian. Panics when out of bounds: for lengths already checked.
#[inline]
pub fn u64_at(b: &[u8], at: usize) -> u64 {
    let mut a = [0; 8];
    a.copy_from_slice(&b[at..at + 8]);
    u64::from_le_bytes(a)
}

/// Bounds-checked reader of untrusted bytes.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ByteReader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        ByteReader { bytes, at: 0 }
    }

    /// Returns the offset of the next byte to read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the number of bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reports whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(n)?;
        let s = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(s)
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let b = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(b)
    }

    /// Reads a little-endian `u16`.
    pub fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|s| u16::from_le_bytes([s[0], s[1]]))
    }

    /// Reads a little-endian `u32`.
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|s| u32_at(s, 0))
    }

    /// Reads a little-endian `u64`.
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|s| u64_at(s, 0))
    }

    /// Reads a varint; returns `None` if it is cut off or does not fit 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        if first < 0x80 {
            return Some(first as u64);
        }
        let mut v = (first & 0x7f) as u64;
        for i in 1..10 {
            let b = self.u8()?;
            if i == 9 && b > 1 {
                return None;
            }
            v |= ((b & 0x7f) as u64) << (7 * i);
            if b < 0x80 {
                return Some(v);
            }
        }
        None
    }

    /// Reads a varint of at most `max`.
    #[inline]
    pub fn len(&mut self, max: usize) -> Option<usize> {
        let v = self.varint()?;
        (v <= max as u64).then_some(v as usize)
    }

    /// Reads length-prefixed bytes as written by [`put_bytes`].
    #[inline]
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.len(self.remaining())?;
        self.take(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(v: u64, shift in 0u32..64) {
            let v = v >> shift;
            let mut out = vec![];
            put_varint(&mut out, v);
            prop_assert_eq!(out.len(), varint_len(v));
            let mut fixed = [0; 10];
            prop_assert_eq!(write_varint(&mut fixed, v), out.len());
            prop_assert_eq!(&fixed[..out.len()], &out[..]);
            let mut r = ByteReader::new(&out);
            prop_assert_eq!(r.varint(), Some(v));
            prop_assert!(r.is_empty());
            prop_assert_eq!(ByteReader::new(&out[..out.len() - 1]).varint(), None);
        }
    }

    #[test]
    fn an_over_long_varint_is_refused() {
        assert_eq!(ByteReader::new(&[0xff; 10]).varint(), None);
        assert_eq!(ByteReader::new(&[0x80; 11]).varint(), None);
    }
}
