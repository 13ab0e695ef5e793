//! Reads numbers and bytes from the front of a slice (`FORMAT.md`, "Numbers"). It never reads
//! beyond the end, and each fault has its offset.

use crate::fault::BytesFault;

/// Reads from the front of bytes in memory.
#[derive(Clone, Debug)]
pub(crate) struct ByteCursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the bytes for faults.
    base: u64,
}

/// Returns the number of bytes after the first byte of a number.
pub(crate) fn vint_extra(first: u8) -> usize {
    first.leading_ones() as usize
}

impl<'a> ByteCursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: u64) -> ByteCursor<'a> {
        ByteCursor { bytes, at: 0, base }
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    pub(crate) fn fault<T>(&self, why: impl Into<String>) -> Result<T, BytesFault> {
        Err(BytesFault::new(self.offset(), why))
    }

    pub(crate) fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8], BytesFault> {
        if len > self.left() {
            let left = self.left();
            return self.fault(format!("{what} takes {len} bytes, and {left} are left"));
        }
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], BytesFault> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, BytesFault> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16, BytesFault> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, BytesFault> {
        Ok(u32::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, BytesFault> {
        Ok(u64::from_be_bytes(self.array(what)?))
    }

    /// Reads a number of 1 to 9 bytes, whose first byte determines the length.
    pub(crate) fn vint(&mut self, what: &str) -> Result<u64, BytesFault> {
        let first = self.u8(what)?;
        let extra = vint_extra(first);
        // The leading ones of the first byte, and the zero after them, are no part of the number.
        let mut n = u64::from(first) & (0xff_u64 >> extra);
        for &b in self.take(extra, what)? {
            n = n << 8 | u64::from(b);
        }
        Ok(n)
    }

    /// Reads a length that must not exceed the remaining bytes.
    pub(crate) fn length(&mut self, what: &str) -> Result<usize, BytesFault> {
        let at = self.offset();
        let n = self.vint(what)?;
        match usize::try_from(n).ok().filter(|n| *n <= self.left()) {
            Some(n) => Ok(n),
            None => Err(BytesFault::new(
                at,
                format!("{what} takes {n} bytes, and {} are left", self.left()),
            )),
        }
    }

    /// Reads length-prefixed bytes.
    pub(crate) fn sized(&mut self, what: &str) -> Result<&'a [u8], BytesFault> {
        let len = self.length(what)?;
        self.take(len, what)
    }

    /// Reads a text with a two-byte length.
    pub(crate) fn text(&mut self, what: &str) -> Result<&'a str, BytesFault> {
        let at = self.offset();
        let len = usize::from(self.u16(what)?);
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|_| BytesFault::new(at, format!("{what} is no text")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_each_length_are_read() {
        for (bytes, n) in [
            (&[0x00][..], 0),
            (&[0x7f], 127),
            (&[0x80, 0x80], 128),
            (&[0xbf, 0xff], 0x3fff),
            (&[0xc0, 0x40, 0x00], 0x4000),
            (&[0xf0, 0xff, 0xff, 0xff, 0xff], 0xffff_ffff),
            (&[0xfe, 1, 2, 3, 4, 5, 6, 7], 0x01_0203_0405_0607),
            (&[0xff; 9], u64::MAX),
        ] {
            let mut c = ByteCursor::new(bytes, 0);
            assert_eq!(c.vint("n").unwrap(), n, "{bytes:x?}");
            assert_eq!(c.left(), 0);
        }
        let cut = ByteCursor::new(&[0xff; 8], 7).vint("n").unwrap_err();
        assert_eq!((cut.at, &*cut.why), (8, "n takes 8 bytes, and 7 are left"));
    }
}
