//! Types of columns and markers, as `[option]` (section 4.2.5.2).
//!
//! Invariant: parsed types are bounded in depth and number, regardless of claims.

use std::sync::Arc;

use firn_wide::internals::types::ForeignType;
use firn_wide::{Custom, Registry, Type, UserType};

use super::error::WireError;
use super::frame::Version;
use super::read::WireReader;
use super::write::{put_short, put_short_count, put_string};

/// Maximum nesting of types.
const MAX_DEPTH: usize = 32;
/// Codes of the types without parameters.
const SIMPLE: [(u16, Type); 21] = [
    (0x01, Type::Ascii),
    (0x02, Type::Long),
    (0x03, Type::Bytes),
    (0x04, Type::Boolean),
    (0x05, Type::Counter),
    (0x06, Type::Decimal),
    (0x07, Type::Double),
    (0x08, Type::Float),
    (0x09, Type::Int32),
    (0x0a, Type::Utf8),
    (0x0b, Type::Timestamp),
    (0x0c, Type::Uuid),
    (0x0d, Type::Utf8),
    (0x0e, Type::Integer),
    (0x0f, Type::TimeUuid),
    (0x10, Type::Inet),
    (0x11, Type::SimpleDate),
    (0x12, Type::Time),
    (0x13, Type::Short),
    (0x14, Type::Byte),
    (0x15, Type::Duration),
];

/// Returns the code of a type if it has one in this version.
fn code(of: &Type, version: Version) -> Option<u16> {
    let least = |code: u16| match code {
        0x11..=0x14 => Version::V4,
        0x15 => Version::V5,
        _ => Version::V3,
    };
    let of = if *of == Type::Date { &Type::Timestamp } else { of };
    // The last match: of the two codes of text, the one in use.
    let known = SIMPLE.iter().rev().find(|(_, simple)| simple == of)?.0;
    (version >= least(known)).then_some(known)
}

/// Appends a type. A type without a code in this version is sent as its class.
pub fn put_type(out: &mut Vec<u8>, of: &Type, version: Version) {
    let of = of.unreversed();
    if let Some(code) = code(of, version) {
        return put_short(out, code);
    }
    match of {
        Type::List(element) => {
            put_short(out, 0x20);
            put_type(out, element, version);
        }
        Type::Map(pair) => {
            put_short(out, 0x21);
            put_type(out, &pair.0, version);
            put_type(out, &pair.1, version);
        }
        Type::Set(element) => {
            put_short(out, 0x22);
            put_type(out, element, version);
        }
        Type::Udt(user) => {
            put_short(out, 0x30);
            put_string(out, &user.keyspace);
            put_string(out, &user.name);
            put_short_count(out, user.fields.len());
            for (name, of) in &user.fields {
                put_string(out, name);
                put_type(out, of, version);
            }
        }
        Type::Tuple(parts) => {
            put_short(out, 0x31);
            put_short_count(out, parts.len());
            parts.iter().for_each(|of| put_type(out, of, version));
        }
        other => {
            put_short(out, 0x00);
            put_string(out, &other.full_name());
        }
    }
}

/// Type reader with a limit of types in a message.
#[derive(Debug)]
pub struct TypeReader {
    left: usize,
}

impl TypeReader {
    /// Creates a reader for a message with at most this many types.
    pub fn new(most: usize) -> TypeReader {
        TypeReader { left: most }
    }

    /// Reads the next type. An unknown class is a custom type whose values are bytes.
    ///
    /// # Errors
    /// An unknown code; types nested too deep, or too many of them; the message's end.
    pub fn read(&mut self, reader: &mut WireReader<'_>) -> Result<Type, WireError> {
        self.nested(reader, MAX_DEPTH)
    }

    fn nested(&mut self, reader: &mut WireReader<'_>, depth: usize) -> Result<Type, WireError> {
        let code = reader.short()?;
        let Some(depth) = depth.checked_sub(1) else {
            return Err(WireError::protocol(format!("Types are nested over {MAX_DEPTH} deep")));
        };
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| WireError::protocol("There are too many types in one message"))?;
        if let Some((_, simple)) = SIMPLE.iter().find(|(known, _)| *known == code) {
            return Ok(simple.clone());
        }
        Ok(match code {
            0x00 => {
                let class = reader.string()?;
                let foreign = || Type::Custom(Custom(Arc::new(ForeignType(class.to_owned()))));
                Type::parse(class, &Registry::new()).unwrap_or_else(|_| foreign())
            }
            0x20 => Type::List(Arc::new(self.nested(reader, depth)?)),
            0x21 => {
                let key = self.nested(reader, depth)?;
                Type::Map(Arc::new((key, self.nested(reader, depth)?)))
            }
            0x22 => Type::Set(Arc::new(self.nested(reader, depth)?)),
            0x30 => {
                let (keyspace, name) = (reader.string()?.to_owned(), reader.string()?.to_owned());
                let count = reader.short()?;
                let field = |_| Ok((reader.string()?.to_owned(), self.nested(reader, depth)?));
                let fields = (0..count).map(field).collect::<Result<_, WireError>>()?;
                Type::Udt(Arc::new(UserType { keyspace, name, fields }))
            }
            0x31 => {
                let count = reader.short()?;
                let parts = (0..count).map(|_| self.nested(reader, depth));
                Type::Tuple(parts.collect::<Result<Vec<_>, WireError>>()?.into())
            }
            other => {
                return Err(WireError::protocol(format!("No type has the number {other:#x}")));
            }
        })
    }
}
