//! The notations of the specification, read from a body (section 3).

use super::error::WireError;

type Result<T> = std::result::Result<T, WireError>;

/// Reads a body from its front. Its results borrow from the body.
#[derive(Clone, Copy, Debug)]
pub struct WireReader<'a> {
    rest: &'a [u8],
}

fn short(what: &str) -> WireError {
    WireError::protocol(format!("The message ends within a {what}"))
}

impl<'a> WireReader<'a> {
    /// Creates a reader of this body.
    pub fn new(body: &'a [u8]) -> WireReader<'a> {
        WireReader { rest: body }
    }

    fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| short(what))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| short(what))?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads a `[byte]`.
    ///
    /// # Errors
    /// The body ends before; so of the others.
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>("[byte]")?[0])
    }

    /// Reads a `[short]`.
    ///
    /// # Errors
    /// As [`byte`](WireReader::byte).
    pub fn short(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array("[short]")?))
    }

    /// Reads an `[int]`.
    ///
    /// # Errors
    /// As [`byte`](WireReader::byte).
    pub fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array("[int]")?))
    }

    /// Reads a `[long]`.
    ///
    /// # Errors
    /// As [`byte`](WireReader::byte).
    pub fn long(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array("[long]")?))
    }

    fn text(&mut self, len: usize, what: &str) -> Result<&'a str> {
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|_| WireError::protocol("Cannot decode string as UTF8"))
    }

    /// Reads a `[string]`.
    ///
    /// # Errors
    /// As [`byte`](WireReader::byte), and for invalid UTF-8.
    pub fn string(&mut self) -> Result<&'a str> {
        let len = self.short()?;
        self.text(usize::from(len), "[string]")
    }

    /// Reads a `[long string]`.
    ///
    /// # Errors
    /// As [`string`](WireReader::string), and for a negative length.
    pub fn long_string(&mut self) -> Result<&'a str> {
        let len = usize::try_from(self.int()?)
            .map_err(|_| WireError::protocol("A [long string] has a negative length"))?;
        self.text(len, "[long string]")
    }

    /// Reads `[bytes]`; `None` is null.
    ///
    /// # Errors
    /// As [`byte`](WireReader::byte).
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>> {
        match usize::try_from(self.int()?) {
            Ok(len) => self.take(len, "[bytes]").map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Reads a `[short bytes]`.
    ///
    /// # Errors
    /// As [`byte`](WireReader::byte).
    pub fn short_bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.short()?;
        self.take(usize::from(len), "[short bytes]")
    }

    /// Reads a `[string list]`.
    ///
    /// # Errors
    /// As [`string`](WireReader::string).
    pub fn string_list(&mut self) -> Result<Vec<&'a str>> {
        (0..self.short()?).map(|_| self.string()).collect()
    }

    /// Reads a `[uuid]`.
    ///
    /// # Errors
    /// As [`byte`](WireReader::byte).
    pub fn uuid(&mut self) -> Result<[u8; 16]> {
        self.array("[uuid]")
    }

    /// Reads a `[string map]`.
    ///
    /// # Errors
    /// As [`string`](WireReader::string).
    pub fn string_map(&mut self) -> Result<Vec<(&'a str, &'a str)>> {
        (0..self.short()?).map(|_| Ok((self.string()?, self.string()?))).collect()
    }
}
