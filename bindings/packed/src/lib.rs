//! Entries, rows and values as bytes. A call from another language costs more than the work for
//! one entry, so a binding moves many of them with one call.
//!
//! All numbers are little endian. A *text* and *bytes* have a `u32` length before them.
//!
//! | form | layout |
//! |---|---|
//! | entries | for each entry: `u32` length of the key, `u32` length of the value, key, value |
//! | keys | for each key: bytes |
//! | values | for each key: bytes, or the length `0xFFFFFFFF` if it has no value |
//! | rows | bytes with the header, byte 1 in the last chunk and 0 before, `u32` number of rows, the values of each row |
//! | header of rows | `u32` number of columns, for each: text with its name, text with its CQL type |
//! | parameters in order | byte 0, `u32` number, the values |
//! | parameters by name | byte 1, `u32` number, for each: text with the name, value |
//!
//! The module [`value`] describes the form of a value.

pub mod entries;
pub mod params;
pub mod rows;
pub mod value;

use firn_cql::{Error, Result};

/// Reader of packed bytes.
#[derive(Debug)]
pub struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Unpacker<'a> {
        Unpacker(bytes)
    }

    /// Reports whether all bytes are read.
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bytes that are left.
    pub fn remaining(&self) -> usize {
        self.0.len()
    }

    /// Returns the next `len` bytes.
    ///
    /// # Errors
    /// `Invalid` if fewer are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| truncated())
    }

    /// Returns the next byte.
    ///
    /// # Errors
    /// `Invalid` if none is left.
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Returns the next length or number.
    ///
    /// # Errors
    /// `Invalid` if too few bytes are left.
    pub fn number(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// Returns the next bytes with their length.
    ///
    /// # Errors
    /// `Invalid` if too few bytes are left.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.number()?;
        self.take(len)
    }

    /// Returns the next text.
    ///
    /// # Errors
    /// `Invalid` if too few bytes are left, or they are not UTF-8.
    pub fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| invalid("a packed text is not UTF-8"))
    }
}

fn truncated() -> Error {
    invalid("packed bytes end too early")
}

fn invalid(text: impl Into<String>) -> Error {
    Error::Wide(firn_wide::Error::InvalidRequest(text.into()))
}

/// Appends a length.
pub fn put_len(out: &mut Vec<u8>, len: usize) {
    // Keys, values and rows are far shorter: the engine bounds them.
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
}

/// Appends bytes with their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}
