//! Encodes a manifest as tagged fields, so that later versions can add fields.
//!
//! A message is a sequence of fields, each `tag varint ‖ length varint ‖ bytes`. A field of a list
//! may be repeated. A field with an *even* tag is required: a reader that does not know it must
//! refuse the file. A field with an *odd* tag may be skipped. Numbers are varints that fill their
//! field, texts are UTF-8, and a nested message is its bytes.
//!
//! Invariants: decoding never panics, and allocates only memory that the input's bytes account for.

use crate::base::error::{Error, ErrorKind, Result};
use crate::util::coding::{ByteReader, put_bytes, put_varint};

/// Writer of one message.
#[derive(Default)]
pub(super) struct FieldWriter(pub Vec<u8>);

impl FieldWriter {
    pub fn bytes(&mut self, tag: u64, b: &[u8]) {
        put_varint(&mut self.0, tag);
        put_bytes(&mut self.0, b);
    }

    pub fn number(&mut self, tag: u64, v: u64) {
        let mut b = vec![];
        put_varint(&mut b, v);
        self.bytes(tag, &b);
    }

    pub fn message(&mut self, tag: u64, fill: impl FnOnce(&mut FieldWriter)) {
        let mut inner = FieldWriter::default();
        fill(&mut inner);
        self.bytes(tag, &inner.0);
    }
}

/// Field of a decoded message.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub tag: u64,
    pub bytes: &'a [u8],
    of: &'static str,
}

/// Iterates over the fields of a message; `of` names the message in errors.
pub(super) fn fields<'a>(
    bytes: &'a [u8],
    of: &'static str,
) -> impl Iterator<Item = Result<Field<'a>>> {
    let mut r = ByteReader::new(bytes);
    std::iter::from_fn(move || {
        if r.is_empty() {
            return None;
        }
        let field = r.varint().and_then(|tag| Some(Field { tag, bytes: r.bytes()?, of }));
        if field.is_none() {
            r = ByteReader::new(&[]);
        }
        Some(field.ok_or_else(|| Error::corruption(format!("a {of} breaks off within a field"))))
    })
}

impl<'a> Field<'a> {
    fn unsound(&self) -> Error {
        Error::corruption(format!("field {} of a {} is not sound", self.tag, self.of))
    }

    pub fn number(&self) -> Result<u64> {
        let mut r = ByteReader::new(self.bytes);
        r.varint().filter(|_| r.is_empty()).ok_or_else(|| self.unsound())
    }

    /// Returns bytes of a fixed length.
    pub fn fixed<const N: usize>(&self) -> Result<[u8; N]> {
        self.bytes.try_into().map_err(|_| self.unsound())
    }

    /// Returns a number that must fit a smaller type.
    pub fn small<T: TryFrom<u64>>(&self) -> Result<T> {
        T::try_from(self.number()?).map_err(|_| self.unsound())
    }

    pub fn text(&self) -> Result<String> {
        String::from_utf8(self.bytes.to_vec()).map_err(|_| self.unsound())
    }

    /// Handles an unknown tag: skips the field if the tag is odd, refuses it if even.
    pub fn unknown(&self) -> Result<()> {
        if self.tag % 2 == 1 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Incompatible,
            format!(
                "a {} has the unknown required field {}: the store was written by a newer version, use a newer build",
                self.of, self.tag
            ),
        ))
    }
}

/// Returns the value of a required field.
pub(super) fn need<T>(v: Option<T>, of: &'static str, name: &'static str) -> Result<T> {
    v.ok_or_else(|| Error::corruption(format!("a {of} lacks its {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_tags_may_be_skipped_and_even_ones_not() {
        let mut w = FieldWriter::default();
        w.number(5, 300);
        w.bytes(6, b"x");
        let all: Vec<_> = fields(&w.0, "test").map(|f| f.unwrap()).collect();
        assert_eq!((all[0].number().unwrap(), all[1].text().unwrap()), (300, "x".to_owned()));
        assert!(all[0].unknown().is_ok() && all[0].small::<u8>().is_err());
        assert_eq!(all[1].unknown().unwrap_err().kind(), ErrorKind::Incompatible);
        let cut: Result<Vec<_>> = fields(&w.0[..w.0.len() - 1], "test").collect();
        assert_eq!(cut.err().map(|e| e.kind()), Some(ErrorKind::Corruption));
    }
}
