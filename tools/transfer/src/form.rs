//! Forms of the keys and values of trees outside the store.
//!
//! Integers are big-endian, and signed ones have their first bit flipped, so that keys sort as their
//! numbers; `firn-typed` encodes integers in the same way.

use clap::ValueEnum;
use firn_tools::escape;
use firn_wide::Type;

use crate::convert::convert;

/// Form of the keys or values of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ByteForm {
    /// Bytes as they are
    #[default]
    Binary,
    /// Text in UTF-8
    Utf8,
    /// Hexadecimal digits
    Hex,
    /// Unsigned integer of 4 bytes
    U32,
    /// Unsigned integer of 8 bytes
    U64,
    /// Signed integer of 4 bytes
    I32,
    /// Signed integer of 8 bytes
    I64,
}

/// Flips the sign bit of a big-endian integer.
fn flipped<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    bytes[0] ^= 0x80;
    bytes
}

impl ByteForm {
    /// Returns the CQL type of values in this form.
    pub fn value_type(self) -> Type {
        match self {
            ByteForm::Binary => Type::Bytes,
            ByteForm::Utf8 | ByteForm::Hex => Type::Utf8,
            ByteForm::I32 => Type::Int32,
            ByteForm::U32 | ByteForm::U64 | ByteForm::I64 => Type::Long,
        }
    }

    /// Converts bytes of a tree to a value of [`value_type`](ByteForm::value_type).
    ///
    /// # Errors
    /// The reason if the bytes do not have this form.
    pub fn read(self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let shown = || escape::words(&bytes[..bytes.len().min(40)]);
        let wrong = |form: &str| format!("{} is not {form}", shown());
        match self {
            ByteForm::Binary => Ok(bytes.to_vec()),
            ByteForm::Utf8 => match std::str::from_utf8(bytes) {
                Ok(_) => Ok(bytes.to_vec()),
                Err(_) => Err(wrong("UTF-8")),
            },
            ByteForm::Hex => Ok(escape::hex(bytes).into_bytes()),
            ByteForm::U32 => {
                let n = bytes.try_into().map(u32::from_be_bytes);
                n.map(|n| i64::from(n).to_be_bytes().to_vec()).map_err(|_| wrong("4 bytes"))
            }
            ByteForm::U64 => {
                let n = bytes.try_into().map(u64::from_be_bytes).map_err(|_| wrong("8 bytes"))?;
                let n = i64::try_from(n).map_err(|_| format!("{n} exceeds a bigint"))?;
                Ok(n.to_be_bytes().to_vec())
            }
            ByteForm::I32 => <[u8; 4]>::try_from(bytes)
                .map(|b| flipped(b).to_vec())
                .map_err(|_| wrong("4 bytes")),
            ByteForm::I64 => <[u8; 8]>::try_from(bytes)
                .map(|b| flipped(b).to_vec())
                .map_err(|_| wrong("8 bytes")),
        }
    }

    /// Converts a value of a CQL type to the bytes of a tree; the inverse of
    /// [`read`](ByteForm::read). Binary is the bytes of a blob or text, and the text of other
    /// values.
    ///
    /// # Errors
    /// The reason if the value has no such form.
    pub fn write(self, of: &Type, value: Vec<u8>) -> Result<Vec<u8>, String> {
        let number = |value: Vec<u8>| {
            let bytes = convert(of, &Type::Long, value, false)?;
            bytes.try_into().map(i64::from_be_bytes).map_err(|_| "it is empty".to_owned())
        };
        let range = |n: i64| format!("{n} is out of range");
        match self {
            ByteForm::Binary if *of == Type::Bytes => Ok(value),
            ByteForm::Binary | ByteForm::Utf8 => convert(of, &Type::Utf8, value, false),
            ByteForm::Hex => {
                let mut out = vec![];
                let text = convert(of, &Type::Utf8, value, false)?;
                escape::decode_hex(&text, &mut out).map(|()| out)
            }
            ByteForm::U32 => {
                let n = number(value)?;
                u32::try_from(n).map(|n| n.to_be_bytes().to_vec()).map_err(|_| range(n))
            }
            ByteForm::U64 => {
                let n = number(value)?;
                u64::try_from(n).map(|n| n.to_be_bytes().to_vec()).map_err(|_| range(n))
            }
            ByteForm::I32 => {
                let n = number(value)?;
                let n = i32::try_from(n).map_err(|_| range(n))?;
                Ok(flipped(n.to_be_bytes()).to_vec())
            }
            ByteForm::I64 => Ok(flipped(number(value)?.to_be_bytes()).to_vec()),
        }
    }
}
