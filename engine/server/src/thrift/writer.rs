//! Writes values into a message, without trees of them: a type writes its own encoding. The same
//! code measures the memory that a value takes before it is written.

use std::collections::BTreeMap;

use firn_wide::{IndexOperator, IndexType};

use super::binary::element;

/// Estimated memory of a field, and of an element of a list, in addition to its bytes.
pub(super) const FIELD_BYTES: usize = 40;
const ELEMENT_BYTES: usize = 32;

/// Appends values to a message, or only measures them.
pub struct ThriftWriter<'o> {
    out: Option<&'o mut Vec<u8>>,
    memory: usize,
}

impl<'o> ThriftWriter<'o> {
    /// Creates a writer that appends to these bytes.
    pub fn new(out: &'o mut Vec<u8>) -> ThriftWriter<'o> {
        ThriftWriter { out: Some(out), memory: 0 }
    }

    /// Appends encoded bytes.
    pub fn raw(&mut self, bytes: &[u8]) {
        if let Some(out) = &mut self.out {
            out.extend_from_slice(bytes);
        }
    }

    fn count(&mut self, n: usize) {
        self.raw(&i32::try_from(n).unwrap_or(i32::MAX).to_be_bytes());
    }

    /// Begins a field with a value of this type.
    pub fn field_head(&mut self, of: u8, number: i16) {
        self.memory += FIELD_BYTES;
        let [high, low] = number.to_be_bytes();
        self.raw(&[of, high, low]);
    }

    /// Writes a field, unless its value is absent.
    pub fn field<T: WriteField + ?Sized>(&mut self, number: i16, value: &T) {
        if value.is_present() {
            self.field_head(T::CODE, number);
            value.put(self);
        }
    }

    /// Ends a structure.
    pub fn stop(&mut self) {
        self.raw(&[element::STOP]);
    }

    /// Begins a list of `len` values of this type.
    pub fn list_head(&mut self, of: u8, len: usize) {
        self.memory += ELEMENT_BYTES * len;
        self.raw(&[of]);
        self.count(len);
    }

    /// Begins a map of `len` keys and values of these types.
    pub fn map_head(&mut self, key: u8, value: u8, len: usize) {
        self.memory += 2 * ELEMENT_BYTES * len;
        self.raw(&[key, value]);
        self.count(len);
    }

    fn list<T: WriteField>(&mut self, len: usize, all: impl IntoIterator<Item = T>) {
        self.list_head(T::CODE, len);
        all.into_iter().for_each(|value| value.put(self));
    }

    fn map<K: WriteField, V: WriteField>(&mut self, all: impl ExactSizeIterator<Item = (K, V)>) {
        self.map_head(K::CODE, V::CODE, all.len());
        for (key, value) in all {
            key.put(self);
            value.put(self);
        }
    }
}

/// A type that a field can be written from.
pub trait WriteField {
    /// Type of the value.
    const CODE: u8;

    /// Reports whether a field with the value is written.
    fn is_present(&self) -> bool {
        true
    }

    /// Writes the value.
    fn put(&self, writer: &mut ThriftWriter<'_>);

    /// Estimates the memory of the value, in bytes.
    fn memory(&self) -> usize {
        let mut writer = ThriftWriter { out: None, memory: 0 };
        self.put(&mut writer);
        writer.memory
    }
}

macro_rules! numbers {
    ($($of:ty, $code:ident, $value:ident => $number:expr;)+) => {$(
        impl WriteField for $of {
            const CODE: u8 = element::$code;

            fn put(&self, writer: &mut ThriftWriter<'_>) {
                let $value = *self;
                writer.raw(&$number.to_be_bytes());
            }
        }
    )+};
}

numbers! {
    bool, BOOL, on => u8::from(on);
    i32, I32, n => n;
    i64, I64, n => n;
    f64, DOUBLE, n => n;
    u32, I32, n => n;
    IndexOperator, I32, of => (of as i32);
    IndexType, I32, of => (of as i32);
}

impl WriteField for [u8] {
    const CODE: u8 = element::BYTES;

    fn put(&self, writer: &mut ThriftWriter<'_>) {
        writer.memory += self.len();
        writer.count(self.len());
        writer.raw(self);
    }
}

/// Implements the writing of types that are written as another one.
macro_rules! written_as {
    ($($of:ty, $other:ty;)+) => {$(
        impl WriteField for $of {
            const CODE: u8 = <$other>::CODE;

            fn put(&self, writer: &mut ThriftWriter<'_>) {
                <$other>::put(self.as_ref(), writer);
            }
        }
    )+};
}

written_as! {
    Vec<u8>, [u8];
    str, [u8];
    String, [u8];
}

impl<T: WriteField + ?Sized> WriteField for &T {
    const CODE: u8 = T::CODE;

    fn is_present(&self) -> bool {
        (**self).is_present()
    }

    fn put(&self, writer: &mut ThriftWriter<'_>) {
        (**self).put(writer);
    }
}

impl<T: WriteField> WriteField for Option<T> {
    const CODE: u8 = T::CODE;

    fn is_present(&self) -> bool {
        self.as_ref().is_some_and(T::is_present)
    }

    fn put(&self, writer: &mut ThriftWriter<'_>) {
        if let Some(value) = self {
            value.put(writer);
        }
    }
}

impl<T: WriteField> WriteField for Vec<T> {
    const CODE: u8 = element::LIST;

    fn put(&self, writer: &mut ThriftWriter<'_>) {
        writer.list(self.len(), self);
    }
}

/// A list of the values of an iterator, which the function creates.
pub struct Elements<F>(pub F);

impl<F: Fn() -> I, I: Iterator<Item: WriteField>> WriteField for Elements<F> {
    const CODE: u8 = element::LIST;

    fn put(&self, writer: &mut ThriftWriter<'_>) {
        writer.list((self.0)().count(), (self.0)());
    }
}

/// The pairs of a map, in the order of the message.
pub struct Pairs<K, V>(pub Vec<(K, V)>);

impl<K: WriteField, V: WriteField> WriteField for Pairs<K, V> {
    const CODE: u8 = element::MAP;

    fn put(&self, writer: &mut ThriftWriter<'_>) {
        writer.map(self.0.iter().map(|(key, value)| (key, value)));
    }
}

impl<K: WriteField, V: WriteField> WriteField for BTreeMap<K, V> {
    const CODE: u8 = element::MAP;

    fn put(&self, writer: &mut ThriftWriter<'_>) {
        writer.map(self.iter());
    }
}

/// Creates a structure from the function that writes its fields.
pub fn structure<F: Fn(&mut ThriftWriter<'_>)>(fields: F) -> Structure<F> {
    Structure(fields)
}

/// Structure with the fields that a function writes.
pub struct Structure<F>(F);

impl<F: Fn(&mut ThriftWriter<'_>)> WriteField for Structure<F> {
    const CODE: u8 = element::STRUCT;

    fn put(&self, writer: &mut ThriftWriter<'_>) {
        (self.0)(writer);
        writer.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_are_left_out_and_containers_state_their_types() {
        let empty: Vec<String> = vec![];
        let value = structure(|w| {
            w.field(1, &None::<i32>);
            w.field(2, &empty);
            w.field(3, &Pairs(vec![("k", true)]));
        });
        let mut out = vec![];
        value.put(&mut ThriftWriter::new(&mut out));
        let list = [15, 0, 2, 11, 0, 0, 0, 0];
        let map = [13, 0, 3, 11, 2, 0, 0, 0, 1, 0, 0, 0, 1, b'k', 1];
        assert_eq!(out, [&list[..], &map, &[0]].concat());
        assert_eq!(value.memory(), 2 * FIELD_BYTES + 2 * ELEMENT_BYTES + 1);
    }
}
