//! The types of columns and markers, as `[option]` (section 4.2.5.2).

use firn_wide::Type;

use super::frame::Version;
use super::write::{put_short, put_short_count, put_string};

/// The number of a type that has one.
fn code(of: &Type, version: Version) -> Option<u16> {
    let newer = |least: Version, code: u16| (version >= least).then_some(code);
    match of {
        Type::Ascii => Some(0x01),
        Type::Long => Some(0x02),
        Type::Bytes => Some(0x03),
        Type::Boolean => Some(0x04),
        Type::Counter => Some(0x05),
        Type::Decimal => Some(0x06),
        Type::Double => Some(0x07),
        Type::Float => Some(0x08),
        Type::Int32 => Some(0x09),
        Type::Timestamp | Type::Date => Some(0x0b),
        Type::Uuid => Some(0x0c),
        Type::Utf8 => Some(0x0d),
        Type::Integer => Some(0x0e),
        Type::TimeUuid => Some(0x0f),
        Type::Inet => Some(0x10),
        Type::SimpleDate => newer(Version::V4, 0x11),
        Type::Time => newer(Version::V4, 0x12),
        Type::Short => newer(Version::V4, 0x13),
        Type::Byte => newer(Version::V4, 0x14),
        Type::Duration => newer(Version::V5, 0x15),
        _ => None,
    }
}

/// Appends a type. What the version has no number for is told by its class.
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
