//! Fields of Thrift's structures, and the types that they are read as. Unknown fields are ignored;
//! a missing required field is refused with the message of Thrift's servers.

use std::collections::BTreeMap;

use firn_wide::{IndexOperator, IndexType};

use super::binary::{EncodedFields, EncodedValue, element};
use super::fault::{ThriftError, invalid};
use super::writer::Pairs;

pub(super) type Result<T> = std::result::Result<T, ThriftError>;

/// Fields of a structure, or arguments of a call.
#[derive(Clone, Debug)]
pub struct ThriftFields<'v> {
    /// Name of the structure, for messages.
    name: &'static str,
    fields: EncodedFields<'v>,
}

impl<'v> ThriftFields<'v> {
    /// Returns fields as those of a structure.
    pub fn new(name: &'static str, fields: EncodedFields<'v>) -> ThriftFields<'v> {
        ThriftFields { name, fields }
    }

    /// Returns the fields of a structure.
    ///
    /// # Errors
    /// A value of another type.
    pub fn of(name: &'static str, value: EncodedValue<'v>) -> Result<ThriftFields<'v>> {
        let another = || ThriftError::protocol(format!("{name} is no structure"));
        Ok(ThriftFields { name, fields: value.fields().ok_or_else(another)? })
    }

    /// Returns the unconverted value of a field.
    pub fn value(&self, number: i16) -> Option<EncodedValue<'v>> {
        self.fields.iter().find(|(n, _)| *n == number).map(|(_, value)| *value)
    }

    /// Returns the error of a field of another type.
    pub fn wrong_type(&self, field: &str) -> ThriftError {
        ThriftError::protocol(format!("{}.{field} has another type", self.name))
    }

    fn missing(&self, field: &str) -> ThriftError {
        let name = self.name;
        ThriftError::protocol(format!("Required field '{field}' was not present! Struct: {name}"))
    }

    /// Reads a field; a missing one is `None` for an `Option`.
    ///
    /// # Errors
    /// A field that is missing or of another type; an invalid value.
    pub fn read<T: ReadField<'v>>(&self, number: i16, field: &str) -> Result<T> {
        match self.value(number) {
            None => T::absent().ok_or_else(|| self.missing(field)),
            Some(value) => T::read(value)?.ok_or_else(|| self.wrong_type(field)),
        }
    }

    /// Reads an optional field with a default.
    ///
    /// # Errors
    /// As [`read`](ThriftFields::read).
    pub fn read_or<T: ReadField<'v>>(&self, number: i16, field: &str, default: T) -> Result<T> {
        Ok(self.read::<Option<T>>(number, field)?.unwrap_or(default))
    }

    /// Returns the fields of a required structure.
    ///
    /// # Errors
    /// As [`read`](ThriftFields::read).
    pub fn structure(&self, number: i16, field: &'static str) -> Result<ThriftFields<'v>> {
        let value = self.value(number).ok_or_else(|| self.missing(field))?;
        ThriftFields::of(field, value)
    }
}

/// Conversion from the fields of a structure.
pub trait FromThrift: Sized {
    /// Name of the structure.
    const NAME: &'static str;

    /// Converts these fields.
    ///
    /// # Errors
    /// A missing required field, or an invalid value.
    fn from_fields(fields: &ThriftFields<'_>) -> Result<Self>;
}

/// A type that a field can be read as.
pub trait ReadField<'v>: Sized {
    /// Converts a value; `None` for one of another type.
    ///
    /// # Errors
    /// An invalid value.
    fn read(value: EncodedValue<'v>) -> Result<Option<Self>>;

    /// Returns the value of a missing field. `None`: the field is required.
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! numbers {
    ($($of:ty, $code:ident;)+) => {$(
        impl ReadField<'_> for $of {
            fn read(value: EncodedValue<'_>) -> Result<Option<$of>> {
                Ok(value.scalar(element::$code).map(<$of>::from_be_bytes))
            }
        }
    )+};
}

numbers! {
    i32, I32;
    i64, I64;
    f64, DOUBLE;
}

impl ReadField<'_> for bool {
    fn read(value: EncodedValue<'_>) -> Result<Option<bool>> {
        Ok(value.scalar(element::BOOL).map(|[byte]| byte != 0))
    }
}

impl ReadField<'_> for u32 {
    fn read(value: EncodedValue<'_>) -> Result<Option<u32>> {
        Ok(i32::read(value)?.map(|n| u32::try_from(n).unwrap_or_default()))
    }
}

impl<'v> ReadField<'v> for &'v [u8] {
    fn read(value: EncodedValue<'v>) -> Result<Option<&'v [u8]>> {
        Ok(value.bytes())
    }
}

impl<'v> ReadField<'v> for &'v str {
    fn read(value: EncodedValue<'v>) -> Result<Option<&'v str>> {
        Ok(value.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()))
    }
}

impl ReadField<'_> for Vec<u8> {
    fn read(value: EncodedValue<'_>) -> Result<Option<Vec<u8>>> {
        Ok(value.bytes().map(<[u8]>::to_vec))
    }
}

impl ReadField<'_> for String {
    fn read(value: EncodedValue<'_>) -> Result<Option<String>> {
        Ok(<&str>::read(value)?.map(str::to_owned))
    }
}

impl<'v, T: ReadField<'v>> ReadField<'v> for Option<T> {
    fn read(value: EncodedValue<'v>) -> Result<Option<Option<T>>> {
        Ok(T::read(value)?.map(Some))
    }

    fn absent() -> Option<Option<T>> {
        Some(None)
    }
}

impl<'v, T: ReadField<'v>> ReadField<'v> for Vec<T> {
    fn read(value: EncodedValue<'v>) -> Result<Option<Vec<T>>> {
        value.elements().map_or(Ok(None), |all| all.map(T::read).collect())
    }
}

impl<'v, K: ReadField<'v>, V: ReadField<'v>> ReadField<'v> for Pairs<K, V> {
    fn read(value: EncodedValue<'v>) -> Result<Option<Pairs<K, V>>> {
        let Some(pairs) = value.pairs() else { return Ok(None) };
        let pair = |(key, value)| Ok(K::read(key)?.zip(V::read(value)?));
        Ok(pairs.map(pair).collect::<Result<Option<_>>>()?.map(Pairs))
    }
}

impl<'v, K: ReadField<'v> + Ord, V: ReadField<'v>> ReadField<'v> for BTreeMap<K, V> {
    fn read(value: EncodedValue<'v>) -> Result<Option<BTreeMap<K, V>>> {
        Ok(Pairs::read(value)?.map(|Pairs(pairs)| pairs.into_iter().collect()))
    }
}

impl<T: FromThrift> ReadField<'_> for T {
    fn read(value: EncodedValue<'_>) -> Result<Option<T>> {
        T::from_fields(&ThriftFields::of(T::NAME, value)?).map(Some)
    }
}

impl ReadField<'_> for IndexOperator {
    fn read(value: EncodedValue<'_>) -> Result<Option<IndexOperator>> {
        let Some(op) = i32::read(value)? else { return Ok(None) };
        let unknown = || invalid(format!("{op} is no operator of an index"));
        IndexOperator::from_number(op).ok_or_else(unknown).map(Some)
    }
}

impl ReadField<'_> for IndexType {
    fn read(value: EncodedValue<'_>) -> Result<Option<IndexType>> {
        let Some(of) = i32::read(value)? else { return Ok(None) };
        let unknown = || invalid(format!("{of} is no type of an index"));
        IndexType::from_number(of).ok_or_else(unknown).map(Some)
    }
}
