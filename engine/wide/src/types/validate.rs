//! Validation of bytes as values of a type, with Cassandra's texts.

use super::errors::{TypeError, error};
use super::hex::hex;
use super::{Type, duration, nested, uuids};

impl Type {
    /// Checks that bytes are a value of the type.
    ///
    /// # Errors
    /// Cassandra's error text.
    pub fn validate(&self, value: &[u8]) -> Result<(), TypeError> {
        let n = value.len();
        let of_length = |len: usize, text: &str| {
            if n == len || n == 0 { Ok(()) } else { error(format!("{text} ({n})")) }
        };
        match self {
            Type::Bytes | Type::Integer => Ok(()),
            Type::Utf8 => {
                std::str::from_utf8(value).map(|_| ()).or_else(|_| error("String didn't validate."))
            }
            Type::Ascii => match value.iter().find(|b| !b.is_ascii()) {
                Some(&b) => error(format!("Invalid byte for ascii: {}", b as i8)),
                None => Ok(()),
            },
            Type::Long | Type::Counter => of_length(8, "Expected 8 or 0 byte long"),
            Type::Int32 => of_length(4, "Expected 4 or 0 byte int"),
            Type::Short if n == 0 => error("Expected 2 bytes for a smallint (0)"),
            Type::Short => of_length(2, "Expected 2 bytes for a smallint"),
            Type::Byte if n == 0 => error("Expected 1 byte for a tinyint (0)"),
            Type::Byte => of_length(1, "Expected 1 byte for a tinyint"),
            Type::LexicalUuid => of_length(16, "LexicalUUID should be 16 or 0 bytes"),
            Type::Uuid => of_length(16, "UUID should be 16 or 0 bytes"),
            Type::TimeUuid => {
                of_length(16, "UUID should be 16 or 0 bytes")?;
                match value.try_into() {
                    Ok(uuid) if uuids::version(uuid) != 1 => {
                        error("Invalid version for TimeUUID type.")
                    }
                    _ => Ok(()),
                }
            }
            Type::Date | Type::Timestamp => of_length(8, "Expected 8 or 0 byte long for date"),
            Type::SimpleDate if n == 0 => error("Expected 4 byte long for date (0)"),
            Type::SimpleDate => of_length(4, "Expected 4 byte long for date"),
            Type::Time if n == 0 => error("Expected 8 byte long for time (0)"),
            Type::Time => of_length(8, "Expected 8 byte long for time"),
            Type::Boolean => of_length(1, "Expected 1 or 0 byte value"),
            Type::Float => of_length(4, "Expected 4 or 0 byte value for a float"),
            Type::Double => of_length(8, "Expected 8 or 0 byte value for a double"),
            Type::Decimal if (1..4).contains(&n) => {
                error(format!("Expected 0 or at least 4 bytes ({n})"))
            }
            Type::Decimal => Ok(()),
            Type::Inet if matches!(n, 0 | 4 | 16) => Ok(()),
            Type::Inet => error(format!("Expected 4 or 16 byte inetaddress; got {}", hex(value))),
            Type::Duration => duration::parse(value).map(|_| ()),
            Type::Empty if n == 0 => Ok(()),
            Type::Empty => error("EmptyType only accept empty values"),
            Type::Reversed(inner) => inner.validate(value),
            Type::Custom(c) => c.0.validate(value),
            _ => nested::validate(self, value),
        }
    }
}
