//! [`Buffer`], into which keys and values are encoded.

use std::ops::Deref;

use smallvec::SmallVec;

/// Bytes of an encoded key or value. Up to 64 bytes are stored inline, without an allocation.
///
/// ```
/// let mut buffer = firn_typed::Buffer::new();
/// buffer.push(b'a');
/// buffer.extend_from_slice(b"bc");
/// assert_eq!(*buffer, *b"abc");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Buffer(SmallVec<[u8; 64]>);

impl Buffer {
    /// Creates an empty buffer.
    #[inline]
    pub fn new() -> Buffer {
        Buffer::default()
    }

    /// Appends a byte.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Extend<u8> for Buffer {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.0.extend(bytes);
    }
}
