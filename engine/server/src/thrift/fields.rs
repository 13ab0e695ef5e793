//! Fields of Thrift's structures, and their conversion to the types of the data model and back.
//! Unknown fields are ignored; a missing required field is refused with the message of Thrift's
//! servers.

use std::collections::BTreeMap;

use firn_wide::{IndexOperator, IndexType};

use super::binary::{ThriftValue, element};
use super::fault::{ThriftError, invalid};

pub(super) type Result<T> = std::result::Result<T, ThriftError>;
type TextMap = BTreeMap<String, String>;

/// Fields of a structure, or arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct ThriftFields<'v> {
    /// Name of the structure, for messages.
    name: &'static str,
    fields: &'v [(i16, ThriftValue<'v>)],
}

impl<'v> ThriftFields<'v> {
    /// Returns the fields of a structure.
    ///
    /// # Errors
    /// A value of another type.
    pub fn of(name: &'static str, value: &'v ThriftValue<'v>) -> Result<ThriftFields<'v>> {
        match value {
            ThriftValue::Struct(fields) => Ok(ThriftFields { name, fields }),
            _ => Err(ThriftError::protocol(format!("{name} is no structure"))),
        }
    }

    /// Returns the unconverted value of a field.
    pub fn value(&self, number: i16) -> Option<&'v ThriftValue<'v>> {
        self.fields.iter().find(|(n, _)| *n == number).map(|(_, value)| value)
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
    pub fn read<T: ReadField>(&self, number: i16, field: &str) -> Result<T> {
        match self.value(number) {
            None => T::absent().ok_or_else(|| self.missing(field)),
            Some(value) => T::read(value)?.ok_or_else(|| self.wrong_type(field)),
        }
    }

    /// Reads an optional field with a default.
    ///
    /// # Errors
    /// As [`read`](ThriftFields::read).
    pub fn read_or<T: ReadField>(&self, number: i16, field: &str, default: T) -> Result<T> {
        Ok(self.read::<Option<T>>(number, field)?.unwrap_or(default))
    }

    /// Returns the bytes of a required field.
    ///
    /// # Errors
    /// As [`read`](ThriftFields::read).
    pub fn bytes(&self, number: i16, field: &str) -> Result<&'v [u8]> {
        match self.value(number) {
            None => Err(self.missing(field)),
            Some(ThriftValue::Bytes(bytes)) => Ok(bytes),
            Some(_) => Err(self.wrong_type(field)),
        }
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
    fn from_fields(fields: ThriftFields<'_>) -> Result<Self>;
}

/// Conversion to the fields of a structure.
pub trait ToThrift: Sized {
    /// Returns the value.
    fn to_thrift(self) -> ThriftValue<'static>;
}

/// A type that a field can be read as.
pub trait ReadField: Sized {
    /// Converts a value; `None` for one of another type.
    ///
    /// # Errors
    /// An invalid value.
    fn read(value: &ThriftValue<'_>) -> Result<Option<Self>>;

    /// Returns the value of a missing field. `None`: the field is required.
    fn absent() -> Option<Self> {
        None
    }
}

/// A type that a field can be written from.
pub trait WriteField: Sized {
    /// Type of the value.
    const CODE: u8;

    /// Returns the value. `None`: the field is left out.
    fn write(self) -> Option<ThriftValue<'static>>;
}

/// Returns a structure with these fields, as far as they have a value.
pub fn structure(
    fields: impl IntoIterator<Item = (i16, Option<ThriftValue<'static>>)>,
) -> ThriftValue<'static> {
    let present = fields.into_iter().filter_map(|(number, value)| Some((number, value?)));
    ThriftValue::Struct(present.collect())
}

/// Converts a list.
pub fn list_of<T: WriteField>(all: Vec<T>) -> ThriftValue<'static> {
    ThriftValue::list(T::CODE, all.into_iter().filter_map(T::write))
}

macro_rules! scalars {
    ($($of:ty, $variant:ident, $code:ident;)+) => {$(
        impl ReadField for $of {
            fn read(value: &ThriftValue<'_>) -> Result<Option<$of>> {
                Ok(match value {
                    ThriftValue::$variant(value) => Some(*value),
                    _ => None,
                })
            }
        }

        impl WriteField for $of {
            const CODE: u8 = element::$code;

            fn write(self) -> Option<ThriftValue<'static>> {
                Some(ThriftValue::$variant(self))
            }
        }
    )+};
}

scalars! {
    bool, Bool, BOOL;
    i32, I32, I32;
    i64, I64, I64;
    f64, Double, DOUBLE;
}

impl ReadField for Vec<u8> {
    fn read(value: &ThriftValue<'_>) -> Result<Option<Vec<u8>>> {
        Ok(match value {
            ThriftValue::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        })
    }
}

impl WriteField for Vec<u8> {
    const CODE: u8 = element::BYTES;

    fn write(self) -> Option<ThriftValue<'static>> {
        Some(ThriftValue::bytes(self))
    }
}

impl ReadField for String {
    fn read(value: &ThriftValue<'_>) -> Result<Option<String>> {
        Ok(Vec::read(value)?.and_then(|bytes| String::from_utf8(bytes).ok()))
    }
}

impl WriteField for String {
    const CODE: u8 = element::BYTES;

    fn write(self) -> Option<ThriftValue<'static>> {
        Some(ThriftValue::text(self))
    }
}

impl<T: ReadField> ReadField for Option<T> {
    fn read(value: &ThriftValue<'_>) -> Result<Option<Option<T>>> {
        Ok(T::read(value)?.map(Some))
    }

    fn absent() -> Option<Option<T>> {
        Some(None)
    }
}

impl<T: WriteField> WriteField for Option<T> {
    const CODE: u8 = T::CODE;

    fn write(self) -> Option<ThriftValue<'static>> {
        self?.write()
    }
}

impl<T: ReadField> ReadField for Vec<T> {
    fn read(value: &ThriftValue<'_>) -> Result<Option<Vec<T>>> {
        match value {
            ThriftValue::List(all) => all.iter().map(T::read).collect(),
            _ => Ok(None),
        }
    }
}

impl<T: WriteField> WriteField for Vec<T> {
    const CODE: u8 = element::LIST;

    fn write(self) -> Option<ThriftValue<'static>> {
        Some(list_of(self))
    }
}

/// The pairs of a map, in the order of the message.
pub struct Pairs<K, V>(pub Vec<(K, V)>);

impl<K: ReadField, V: ReadField> ReadField for Pairs<K, V> {
    fn read(value: &ThriftValue<'_>) -> Result<Option<Pairs<K, V>>> {
        let ThriftValue::Map(pairs) = value else { return Ok(None) };
        let pair = |(key, value): &(ThriftValue<'_>, ThriftValue<'_>)| {
            Ok(K::read(key)?.zip(V::read(value)?))
        };
        Ok(pairs.iter().map(pair).collect::<Result<Option<_>>>()?.map(Pairs))
    }
}

impl<K: ReadField + Ord, V: ReadField> ReadField for BTreeMap<K, V> {
    fn read(value: &ThriftValue<'_>) -> Result<Option<BTreeMap<K, V>>> {
        Ok(Pairs::read(value)?.map(|Pairs(pairs)| pairs.into_iter().collect()))
    }
}

impl WriteField for TextMap {
    const CODE: u8 = element::MAP;

    fn write(self) -> Option<ThriftValue<'static>> {
        let pairs = self.into_iter().filter_map(|(key, value)| key.write().zip(value.write()));
        Some(ThriftValue::map(element::BYTES, element::BYTES, pairs))
    }
}

impl<T: FromThrift> ReadField for T {
    fn read(value: &ThriftValue<'_>) -> Result<Option<T>> {
        T::from_fields(ThriftFields::of(T::NAME, value)?).map(Some)
    }
}

impl<T: ToThrift> WriteField for T {
    const CODE: u8 = element::STRUCT;

    fn write(self) -> Option<ThriftValue<'static>> {
        Some(self.to_thrift())
    }
}

impl ReadField for IndexOperator {
    fn read(value: &ThriftValue<'_>) -> Result<Option<IndexOperator>> {
        let Some(op) = i32::read(value)? else { return Ok(None) };
        let unknown = || invalid(format!("{op} is no operator of an index"));
        IndexOperator::from_number(op).ok_or_else(unknown).map(Some)
    }
}

impl ReadField for IndexType {
    fn read(value: &ThriftValue<'_>) -> Result<Option<IndexType>> {
        let Some(of) = i32::read(value)? else { return Ok(None) };
        let unknown = || invalid(format!("{of} is no type of an index"));
        IndexType::from_number(of).ok_or_else(unknown).map(Some)
    }
}

macro_rules! numbers {
    ($($of:ty),+) => {$(
        impl WriteField for $of {
            const CODE: u8 = element::I32;

            fn write(self) -> Option<ThriftValue<'static>> {
                (self as i32).write()
            }
        }
    )+};
}

numbers!(IndexOperator, IndexType, u32);

impl ReadField for u32 {
    fn read(value: &ThriftValue<'_>) -> Result<Option<u32>> {
        Ok(i32::read(value)?.map(|n| u32::try_from(n).unwrap_or_default()))
    }
}
