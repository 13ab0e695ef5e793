//! Numbers and slices of LevelDB's files.

/// Reader of a byte string. Each call returns `None` beyond its end.
pub struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// Creates a reader.
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader(bytes)
    }

    /// Reports whether everything is read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of unread bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reads this number of bytes.
    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    /// Reads a number of four bytes.
    pub fn fixed32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// Reads a number of eight bytes.
    pub fn fixed64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Reads a number of variable length.
    pub fn varint(&mut self) -> Option<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    /// Reads a length.
    pub fn length(&mut self) -> Option<usize> {
        self.varint().and_then(|n| usize::try_from(n).ok())
    }

    /// Reads bytes after their length.
    pub fn slice(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }
}

/// Reports whether a stored checksum is that of these parts.
pub fn is_sum(stored: u32, parts: [&[u8]; 2]) -> bool {
    let sum = parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
    sum.rotate_right(15).wrapping_add(0xA282_EAD8) == stored
}
