//! Encodes a manifest as tagged fields, so that later versions can add fields.
//!
//! A message is a sequence of fields, each `tag varint ‖ length varint ‖ bytes`. A field of a list
//! may be repeated. A field with an *even* tag is critical: a reader that does not know the tag must
//! refuse the file. A field with an *odd* tag is ignorable. Numbers are varints that fill their
//! field, texts are UTF-8, and a nested message is its bytes.
//!
//! A stored type lists its fields once, as [`Message::FIELDS`]. Encoding and decoding follow this
//! table.
//!
//! Invariants: decoding never panics, and allocates only memory that the input's bytes account for.

use std::sync::Arc;

use crate::base::blob_ref::{BlobUse, decode_uses, encode_uses};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::identity::TableIdentity;
use crate::util::coding::{ByteReader, put_bytes, put_varint, varint_len};

/// Type that is stored as a message.
pub(super) trait Message: Default + 'static {
    /// Name of the message in errors.
    const NAME: &'static str;
    /// Fields in the order in which they are written; see [`field!`].
    const FIELDS: &'static [FieldDef<Self>];

    /// Returns the value of a message without fields.
    fn empty() -> Self {
        Self::default()
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        decode_fields(Self::empty(), Self::NAME, Self::FIELDS, bytes)
    }
}

/// Definition of a field of the stored type `M`.
pub(super) struct FieldDef<M> {
    pub tag: u64,
    /// Name in the error for a message that lacks the field; `None` if it may be missing.
    pub name: Option<&'static str>,
    /// Appends the field.
    pub write: fn(&M, u64, &mut FieldWriter),
    /// Sets the field, or adds an element to its list.
    pub read: fn(&mut M, &Field<'_>) -> Result<()>,
}

/// Value that is stored as one field, or as one field for each of its elements.
pub(super) trait FieldValue {
    /// Appends the fields of this value; none for a missing value or an empty list.
    fn write(&self, tag: u64, w: &mut FieldWriter);

    /// Sets this value from a field, or adds an element to this list.
    fn read(&mut self, f: &Field<'_>) -> Result<()>;
}

/// Defines a field of `Self`: its tag, its path, and its name in errors if it must not be missing.
/// `if condition` says when the field is written.
macro_rules! field {
    ($tag:literal, $($path:ident).+ $(, $name:literal)? $(, if $written:expr)?) => {
        $crate::manifest::fields::FieldDef {
            tag: $tag,
            name: [$(Some($name),)? None][0],
            write: |m, tag, w| {
                $(let written: fn(&Self) -> bool = $written;
                if !written(m) {
                    return;
                })?
                $crate::manifest::fields::FieldValue::write(&m.$($path).+, tag, w)
            },
            read: |m, f| $crate::manifest::fields::FieldValue::read(&mut m.$($path).+, f),
        }
    };
}
pub(super) use field;

/// Appends the fields of `m`.
pub(super) fn encode_fields<M>(m: &M, defs: &[FieldDef<M>], w: &mut FieldWriter) {
    defs.iter().for_each(|d| (d.write)(m, d.tag, w));
}

/// Sets the fields of `m` from a message; `of` names the message in errors.
pub(super) fn decode_fields<M>(
    mut m: M,
    of: &'static str,
    defs: &[FieldDef<M>],
    bytes: &[u8],
) -> Result<M> {
    let mut seen = 0u32;
    for f in read_fields(bytes, of) {
        let f = f?;
        match defs.iter().position(|d| d.tag == f.tag) {
            Some(i) => {
                (defs[i].read)(&mut m, &f)?;
                seen |= 1 << i;
            }
            None => f.unknown()?,
        }
    }
    let missing = defs.iter().enumerate().find_map(|(i, d)| d.name.filter(|_| seen & 1 << i == 0));
    missing.map_or(Ok(m), |name| Err(lacks(of, name)))
}

/// Returns the error for a message without a required field.
pub(super) fn lacks(of: &str, name: &str) -> Error {
    Error::corruption(format!("a {of} lacks its {name}"))
}

/// Writer of one message.
#[derive(Default)]
pub(super) struct FieldWriter(pub Vec<u8>);

impl FieldWriter {
    pub fn bytes(&mut self, tag: u64, b: &[u8]) {
        put_varint(&mut self.0, tag);
        put_bytes(&mut self.0, b);
    }

    pub fn number(&mut self, tag: u64, v: u64) {
        put_varint(&mut self.0, tag);
        put_varint(&mut self.0, varint_len(v) as u64);
        put_varint(&mut self.0, v);
    }

    pub fn message<M>(&mut self, tag: u64, m: &M, defs: &[FieldDef<M>]) {
        let mut inner = FieldWriter::default();
        encode_fields(m, defs, &mut inner);
        self.bytes(tag, &inner.0);
    }
}

/// Field of a decoded message.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub tag: u64,
    pub bytes: &'a [u8],
    pub of: &'static str,
}

/// Iterates over the fields of a message; `of` names the message in errors.
pub(super) fn read_fields<'a>(
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

impl Field<'_> {
    pub fn unsound(&self) -> Error {
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

/// Implements [`FieldValue`] for a type that is one field: how `self` is written with `tag` to a
/// writer, and how it is read from a field.
macro_rules! field_value {
    ($($type:ty: |$v:ident, $tag:ident, $w:ident| $write:expr, |$f:ident| $read:expr;)+) => {$(
        impl $crate::manifest::fields::FieldValue for $type {
            fn write(&self, $tag: u64, $w: &mut $crate::manifest::fields::FieldWriter) {
                let $v = self;
                $write
            }

            fn read(&mut self, $f: &$crate::manifest::fields::Field<'_>) -> Result<()> {
                *self = $read;
                Ok(())
            }
        }
    )+};
}
pub(super) use field_value;

field_value! {
    u64: |v, tag, w| w.number(tag, *v), |f| f.number()?;
    u32: |v, tag, w| w.number(tag, (*v).into()), |f| f.small()?;
    u8: |v, tag, w| w.number(tag, (*v).into()), |f| f.small()?;
    Vec<u8>: |v, tag, w| w.bytes(tag, v), |f| f.bytes.to_vec();
    String: |v, tag, w| w.bytes(tag, v.as_bytes()),
        |f| String::from_utf8(f.bytes.to_vec()).map_err(|_| f.unsound())?;
    TableIdentity: |v, tag, w| w.bytes(tag, &v.encode()),
        |f| TableIdentity::decode(f.bytes).ok_or_else(|| f.unsound())?;
    Vec<BlobUse>: |v, tag, w| w.bytes(tag, &encode_uses(v)),
        |f| decode_uses(f.bytes).ok_or_else(|| f.unsound())?;
}

impl<M: Message> FieldValue for M {
    fn write(&self, tag: u64, w: &mut FieldWriter) {
        w.message(tag, self, M::FIELDS);
    }

    fn read(&mut self, f: &Field<'_>) -> Result<()> {
        *self = M::decode(f.bytes)?;
        Ok(())
    }
}

impl<M: Message> FieldValue for Arc<M> {
    fn write(&self, tag: u64, w: &mut FieldWriter) {
        (**self).write(tag, w);
    }

    fn read(&mut self, f: &Field<'_>) -> Result<()> {
        *self = Arc::new(M::decode(f.bytes)?);
        Ok(())
    }
}

impl<T: FieldValue + Default> FieldValue for Option<T> {
    fn write(&self, tag: u64, w: &mut FieldWriter) {
        self.iter().for_each(|v| v.write(tag, w));
    }

    fn read(&mut self, f: &Field<'_>) -> Result<()> {
        self.insert(T::default()).read(f)
    }
}

/// Element of a list, which has one field for each.
pub(super) trait Element: FieldValue + Sized {
    fn from_field(f: &Field<'_>) -> Result<Self>;
}

impl Element for u64 {
    fn from_field(f: &Field<'_>) -> Result<u64> {
        f.number()
    }
}

impl<M: Message> Element for M {
    fn from_field(f: &Field<'_>) -> Result<M> {
        M::decode(f.bytes)
    }
}

impl<M: Message> Element for Arc<M> {
    fn from_field(f: &Field<'_>) -> Result<Arc<M>> {
        M::decode(f.bytes).map(Arc::new)
    }
}

impl<T: Element> FieldValue for Vec<T> {
    fn write(&self, tag: u64, w: &mut FieldWriter) {
        self.iter().for_each(|v| v.write(tag, w));
    }

    fn read(&mut self, f: &Field<'_>) -> Result<()> {
        self.push(T::from_field(f)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_tags_may_be_skipped_and_even_ones_not() {
        let mut w = FieldWriter::default();
        w.number(5, 300);
        w.bytes(6, b"x");
        let all: Vec<_> = read_fields(&w.0, "test").map(|f| f.unwrap()).collect();
        assert_eq!((all[0].number().unwrap(), all[1].bytes), (300, &b"x"[..]));
        assert!(all[0].unknown().is_ok() && all[0].small::<u8>().is_err());
        assert_eq!(all[1].unknown().unwrap_err().kind(), ErrorKind::Incompatible);
        let cut: Result<Vec<_>> = read_fields(&w.0[..w.0.len() - 1], "test").collect();
        assert_eq!(cut.err().map(|e| e.kind()), Some(ErrorKind::Corruption));
    }
}
