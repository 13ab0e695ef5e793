//! [`KeyReader`], which decodes the parts of a key, and its error.
//!
//! Invariant: no bytes panic. A failed read names the offset in the key or value and the type.

use std::borrow::Cow;
use std::fmt;

/// Escape of a zero byte in a string inside a key: the byte after the zero.
pub(crate) const ESCAPED_ZERO: u8 = 0xff;
/// End of a string inside a key: the byte after the zero.
pub(crate) const STRING_END: u8 = 0;

/// Error of decoding a key or a value: a type, a byte offset, and a reason.
///
/// ```
/// use firn_typed::Key;
/// let e = <(bool, u8)>::decode(&[7, 1]).unwrap_err();
/// assert_eq!(e.to_string(), "cannot decode bool at offset 0: the byte is neither 0 nor 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    offset: usize,
    type_name: &'static str,
    reason: Cow<'static, str>,
}

impl DecodeError {
    /// Creates an error for a type at a byte offset.
    pub fn new(
        type_name: &'static str,
        offset: usize,
        reason: impl Into<Cow<'static, str>>,
    ) -> DecodeError {
        DecodeError { offset, type_name, reason: reason.into() }
    }

    /// Returns the byte offset in the key or value.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the name of the type that could not be decoded.
    pub fn type_name(&self) -> &'static str {
        self.type_name
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeError { offset, type_name, reason } = self;
        write!(f, "cannot decode {type_name} at offset {offset}: {reason}")
    }
}

impl std::error::Error for DecodeError {}

/// Reads the parts of an encoded key one after the other.
#[derive(Clone, Debug)]
pub struct KeyReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> KeyReader<'a> {
    /// Creates a reader at the beginning of a key.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> KeyReader<'a> {
        KeyReader { bytes, offset: 0 }
    }

    /// Returns the number of bytes read.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Reads `N` bytes of a `type_name`.
    ///
    /// # Errors
    /// The key ends before.
    #[inline]
    pub fn array<const N: usize>(
        &mut self,
        type_name: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        match self.bytes[self.offset..].first_chunk() {
            Some(array) => {
                self.offset += N;
                Ok(*array)
            }
            None => Err(DecodeError::new(type_name, self.offset, "the bytes end")),
        }
    }

    /// Reads the tag byte of a `type_name`.
    ///
    /// # Errors
    /// The key ends before.
    pub fn tag(&mut self, type_name: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(type_name).map(|[tag]| tag)
    }

    /// Reads an escaped byte string with its end. The bytes are borrowed unless one is zero.
    ///
    /// # Errors
    /// The string has no end, or a zero byte is not followed by 00 or FF.
    pub fn string(&mut self, type_name: &'static str) -> Result<Cow<'a, [u8]>, DecodeError> {
        let rest = &self.bytes[self.offset..];
        let mut unescaped: Option<Vec<u8>> = None;
        let mut from = 0;
        loop {
            let zero = rest[from..].iter().position(|b| *b == 0).map(|i| from + i);
            let after = zero.and_then(|i| Some((i, *rest.get(i + 1)?)));
            let (zero, mark) = after.ok_or_else(|| {
                DecodeError::new(type_name, self.offset + rest.len(), "the string has no end")
            })?;
            match mark {
                STRING_END => {
                    self.offset += zero + 2;
                    let last = &rest[from..zero];
                    return Ok(match unescaped {
                        None => Cow::Borrowed(last),
                        Some(mut bytes) => {
                            bytes.extend_from_slice(last);
                            Cow::Owned(bytes)
                        }
                    });
                }
                ESCAPED_ZERO => {
                    unescaped.get_or_insert_default().extend_from_slice(&rest[from..=zero]);
                    from = zero + 2;
                }
                _ => {
                    let at = self.offset + zero + 1;
                    return Err(DecodeError::new(type_name, at, "the escape is neither 00 nor FF"));
                }
            }
        }
    }

    /// Checks that all bytes have been read.
    ///
    /// # Errors
    /// Bytes remain.
    #[inline]
    pub fn end(&self, type_name: &'static str) -> Result<(), DecodeError> {
        if self.offset == self.bytes.len() {
            return Ok(());
        }
        Err(DecodeError::new(type_name, self.offset, "bytes remain after the end"))
    }
}
