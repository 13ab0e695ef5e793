//! Conversion of Rust types to keys, names and values, and back.

use std::borrow::Cow;

use uuid::Uuid;

use super::Column;
use crate::base::error::{Result, invalid};

/// Types that can be a key, a name or a value.
///
/// | Rust | bytes | accepted by |
/// |---|---|---|
/// | `str`, `String` | UTF-8 | `UTF8Type`, `AsciiType`, `BytesType` |
/// | `[u8]`, `Vec<u8>`, `[u8; N]` | as they are | any |
/// | `i64` | 8, big-endian | `LongType`, `IntegerType`, `DateType`, `TimestampType` |
/// | `i32` | 4, big-endian | `Int32Type`, `IntegerType` |
/// | `f64`, `f32` | 8, 4, big-endian | `DoubleType`, `FloatType` |
/// | `bool` | 1 | `BooleanType` |
/// | `Uuid` | 16 | `UUIDType`, `TimeUUIDType`, `LexicalUUIDType` |
pub trait ToBytes {
    /// Returns its bytes.
    fn to_bytes(&self) -> Cow<'_, [u8]>;
}

/// Types to which a name or a value can be converted.
pub trait FromBytes: Sized {
    /// Converts these bytes.
    ///
    /// # Errors
    /// `InvalidRequest` if they are invalid for the type.
    fn from_bytes(bytes: &[u8]) -> Result<Self>;
}

impl<T: ToBytes + ?Sized> ToBytes for &T {
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        (**self).to_bytes()
    }
}

macro_rules! borrowed {
    ($($t:ty => $bytes:ident),*) => {$(
        impl ToBytes for $t {
            fn to_bytes(&self) -> Cow<'_, [u8]> {
                Cow::Borrowed(self.$bytes())
            }
        }
    )*};
}

borrowed!(str => as_bytes, String => as_bytes, [u8] => as_ref, Vec<u8> => as_slice, Uuid => as_bytes);

impl<const N: usize> ToBytes for [u8; N] {
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self)
    }
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl ToBytes for $t {
            fn to_bytes(&self) -> Cow<'_, [u8]> {
                Cow::Owned(self.to_be_bytes().to_vec())
            }
        }

        impl FromBytes for $t {
            fn from_bytes(bytes: &[u8]) -> Result<$t> {
                let expected = size_of::<$t>();
                let bytes = bytes.try_into().map_err(|_| {
                    invalid(format!("expected the {expected} bytes of an {}, there are {}", stringify!($t), bytes.len()))
                })?;
                Ok(<$t>::from_be_bytes(bytes))
            }
        }
    )*};
}

numbers!(i64, i32, f64, f32);

impl ToBytes for bool {
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(if *self { &[1] } else { &[0] })
    }
}

impl FromBytes for bool {
    fn from_bytes(bytes: &[u8]) -> Result<bool> {
        match bytes {
            [b] => Ok(*b != 0),
            _ => Err(invalid(format!("expected the byte of a bool, there are {}", bytes.len()))),
        }
    }
}

impl FromBytes for Vec<u8> {
    fn from_bytes(bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

impl FromBytes for String {
    fn from_bytes(bytes: &[u8]) -> Result<String> {
        String::from_utf8(bytes.to_vec()).map_err(|e| invalid(format!("not text: {e}")))
    }
}

impl FromBytes for Uuid {
    fn from_bytes(bytes: &[u8]) -> Result<Uuid> {
        Uuid::from_slice(bytes).map_err(|_| {
            invalid(format!("expected the 16 bytes of a UUID, there are {}", bytes.len()))
        })
    }
}

impl Column {
    /// Converts its name to a Rust value.
    ///
    /// # Errors
    /// `InvalidRequest` if it is invalid for the type.
    pub fn name_as<T: FromBytes>(&self) -> Result<T> {
        T::from_bytes(&self.name)
    }

    /// Converts its value to a Rust value.
    ///
    /// # Errors
    /// `InvalidRequest` if it is invalid for the type.
    pub fn value_as<T: FromBytes>(&self) -> Result<T> {
        T::from_bytes(&self.value)
    }
}
