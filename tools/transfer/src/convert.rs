//! Converts values between CQL types.
//!
//! Invariant: a conversion is exact, or an error. `lossy` allows a nearest value instead: fewer
//! digits of a number or of a time.

use std::cmp::Ordering;

use firn_cql::ColumnType;
use firn_cql::internals::values::{exported_json, from_plain, plain, put_many, split};
use firn_wide::Type;

use crate::text::from_field;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;
/// The stored number of 1970-01-01.
const EPOCH: i64 = 1 << 31;

/// Reports whether a type is a text.
fn is_text(of: &Type) -> bool {
    matches!(of, Type::Utf8 | Type::Ascii)
}

fn is_uuid(of: &Type) -> bool {
    matches!(of, Type::Uuid | Type::TimeUuid | Type::LexicalUuid)
}

/// Returns the width of an integer type of fixed length.
fn width(of: &Type) -> Option<usize> {
    Some(match of {
        Type::Byte | Type::Boolean => 1,
        Type::Short => 2,
        Type::Int32 => 4,
        Type::Long | Type::Counter | Type::Timestamp | Type::Date | Type::Time => 8,
        _ => return None,
    })
}

/// Returns a whole number of any integer type that fits 128 bits.
fn whole(of: &Type, bytes: &[u8]) -> Option<i128> {
    if *of != Type::Integer && width(of)? != bytes.len() {
        return None;
    }
    let fill = if bytes.first()? & 0x80 == 0 { 0 } else { 0xFF };
    let mut out = [fill; 16];
    let (over, rest) = bytes.split_at(bytes.len().saturating_sub(16));
    out[16 - rest.len()..].copy_from_slice(rest);
    let is_same = (out[0] ^ fill) & 0x80 == 0;
    (over.iter().all(|b| *b == fill) && is_same).then(|| i128::from_be_bytes(out))
}

/// Returns the shortest two's complement of a number.
pub fn varint(n: i128) -> Vec<u8> {
    let bytes = n.to_be_bytes();
    let fill = if n < 0 { 0xFF } else { 0 };
    let is_spare = |i: usize| bytes[i] == fill && (bytes[i + 1] ^ fill) & 0x80 == 0;
    let first = (0..15).find(|i| !is_spare(*i)).unwrap_or(15);
    bytes[first..].to_vec()
}

/// Encodes a whole number as an integer type; `None` if it is out of range.
fn put_whole(n: i128, to: &Type) -> Option<Vec<u8>> {
    match to {
        Type::Integer => Some(varint(n)),
        Type::Decimal => Some([&[0; 4][..], &varint(n)].concat()),
        Type::Boolean => (0..=1).contains(&n).then(|| vec![n as u8]),
        _ => {
            let (width, n) = (width(to)?, i64::try_from(n).ok()?);
            let bits = 8 * width as u32;
            let is_in_range = bits == 64 || (-(1 << (bits - 1))..1 << (bits - 1)).contains(&n);
            is_in_range.then(|| n.to_be_bytes()[8 - width..].to_vec())
        }
    }
}

fn double(of: &Type, bytes: &[u8]) -> Option<f64> {
    match of {
        Type::Float => Some(f32::from_be_bytes(bytes.try_into().ok()?).into()),
        Type::Double => Some(f64::from_be_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// Encodes a double; `None` if the type has no equal value.
fn put_double(n: f64, to: &Type, lossy: bool) -> Option<Vec<u8>> {
    match to {
        Type::Double => Some(n.to_be_bytes().to_vec()),
        Type::Float => {
            let near = n as f32;
            let is_same = n.is_nan() || f64::from(near) == n;
            (is_same || lossy).then(|| near.to_be_bytes().to_vec())
        }
        Type::Decimal => from_plain(to, &plain(&Type::Double, &n.to_be_bytes())).ok(),
        _ if n.is_finite() && n.abs() < 1e38 && (lossy || n.fract() == 0.0) => {
            put_whole(n as i128, to)
        }
        _ => None,
    }
}

/// Converts between number types.
fn number(from: &Type, to: &Type, bytes: &[u8], lossy: bool) -> Option<Vec<u8>> {
    if let Some(n) = whole(from, bytes) {
        return match to {
            Type::Float | Type::Double => {
                let near = n as f64;
                let near_enough = near.abs() < 1e38 && near as i128 == n;
                if near_enough || lossy { put_double(near, to, lossy) } else { None }
            }
            _ => put_whole(n, to),
        };
    }
    if let Some(n) = double(from, bytes) {
        return put_double(n, to, lossy);
    }
    match (from, to) {
        (Type::Integer, Type::Decimal) => Some([&[0; 4][..], bytes].concat()),
        (Type::Integer, Type::Float | Type::Double) if lossy => {
            put_double(plain(from, bytes).parse().ok()?, to, lossy)
        }
        (Type::Decimal, Type::Float | Type::Double) => {
            let near: f64 = plain(from, bytes).parse().ok()?;
            let back = put_double(near, &Type::Decimal, false)?;
            let is_same = from.compare(&back, bytes) == Ordering::Equal;
            if is_same || lossy { put_double(near, to, lossy) } else { None }
        }
        (Type::Decimal, _) => {
            let text = plain(from, bytes);
            let (front, fraction) = text.split_once('.').unwrap_or((&text, ""));
            if !lossy && fraction.bytes().any(|b| b != b'0') {
                return None;
            }
            let n = from_plain(&Type::Integer, front).ok()?;
            if *to == Type::Integer { Some(n) } else { put_whole(whole(&Type::Integer, &n)?, to) }
        }
        _ => None,
    }
}

fn is_number(of: &Type) -> bool {
    matches!(
        of,
        Type::Byte
            | Type::Short
            | Type::Int32
            | Type::Long
            | Type::Counter
            | Type::Integer
            | Type::Float
            | Type::Double
            | Type::Decimal
    )
}

/// Converts between dates and times.
fn time(from: &Type, to: &Type, bytes: &[u8], lossy: bool) -> Option<Vec<u8>> {
    match (from, to) {
        (Type::SimpleDate, Type::Timestamp | Type::Date) => {
            let days = i64::from(u32::from_be_bytes(bytes.try_into().ok()?)) - EPOCH;
            Some((days * DAY).to_be_bytes().to_vec())
        }
        (Type::Timestamp | Type::Date, Type::SimpleDate) => {
            let millis = i64::from_be_bytes(bytes.try_into().ok()?);
            let days = u32::try_from(millis.div_euclid(DAY) + EPOCH).ok()?;
            (lossy || millis.rem_euclid(DAY) == 0).then(|| days.to_be_bytes().to_vec())
        }
        _ => None,
    }
}

/// Converts the parts of a value; the types have the same number of parts, or are lists.
fn parts(from: &Type, to: &Type, bytes: &[u8], lossy: bool) -> Result<Vec<u8>, String> {
    let found = split(from, bytes).map_err(|e| e.to_string())?;
    let element = |of: &Type| match of {
        Type::List(e) | Type::Set(e) | Type::Vector(e, _) => Some((**e).clone()),
        _ => None,
    };
    let part = |from: &Type, to: &Type, part: Option<&[u8]>| {
        part.map(|bytes| convert(from, to, bytes.to_vec(), lossy)).transpose()
    };
    let all: Result<Vec<_>, String> = match (from, to) {
        (Type::Map(a), Type::Map(b)) => found
            .chunks_exact(2)
            .flat_map(|kv| [part(&a.0, &b.0, kv[0]), part(&a.1, &b.1, kv[1])])
            .collect(),
        (Type::Udt(a), Type::Udt(b)) => {
            let unknown = a.fields.iter().find(|f| b.fields.iter().all(|g| f.0 != g.0));
            if let Some((name, _)) = unknown {
                return Err(format!("the type {} has no field {name}", b.name));
            }
            let field = |(name, to): &(String, Type)| {
                let at = a.fields.iter().position(|f| f.0 == *name);
                at.map_or(Ok(None), |at| {
                    part(&a.fields[at].1, to, found.get(at).copied().flatten())
                })
            };
            b.fields.iter().map(field).collect()
        }
        (Type::Tuple(_) | Type::Udt(_), Type::Tuple(_) | Type::Udt(_)) => {
            let types = |of: &Type| -> Vec<Type> {
                match of {
                    Type::Tuple(types) => types.to_vec(),
                    Type::Udt(user) => user.fields.iter().map(|f| f.1.clone()).collect(),
                    _ => vec![],
                }
            };
            let (a, b) = (types(from), types(to));
            if a.len() > b.len() {
                return Err(format!("{} parts, but the type has {}", a.len(), b.len()));
            }
            let pairs = a.iter().zip(&b).enumerate();
            pairs.map(|(i, (a, b))| part(a, b, found.get(i).copied().flatten())).collect()
        }
        _ => match (element(from), element(to)) {
            (Some(a), Some(b)) => found.iter().map(|bytes| part(&a, &b, *bytes)).collect(),
            _ => return Err(format!("{} is not {}", from.name(), to.name())),
        },
    };
    let all = all?;
    if let Type::Vector(_, count) = to
        && all.len() != *count as usize
    {
        return Err(format!("{} elements, but a vector of {count}", all.len()));
    }
    put_many(to, all).map_err(|e| e.to_string())
}

/// Converts a value of one type to another.
///
/// # Errors
/// The reason if the other type has no equal value; with `lossy`, if it has no near one.
pub fn convert(from: &Type, to: &Type, bytes: Vec<u8>, lossy: bool) -> Result<Vec<u8>, String> {
    let (from, to) = (from.unreversed(), to.unreversed());
    if from == to {
        return Ok(bytes);
    }
    let refused = |bytes: &[u8]| {
        let value: String = exported_json(from, Some(bytes)).chars().take(80).collect();
        format!("{value} ({}) is no value of {}", type_name(from), type_name(to))
    };
    let converted = match (from, to) {
        _ if is_text(to) => match from {
            _ if is_text(from) || *from == Type::Bytes => Some(bytes.clone()),
            _ if from.has_parts() => Some(exported_json(from, Some(&bytes)).into_bytes()),
            _ => Some(plain(from, &bytes).into_bytes()),
        },
        (_, Type::Bytes) if is_text(from) || is_uuid(from) => Some(bytes.clone()),
        _ if is_text(from) => return from_field(to, &bytes, true),
        // The empty value of other types is not a value of theirs, as in Cassandra.
        _ if bytes.is_empty() && !from.has_parts() => Some(vec![]),
        (Type::Bytes, Type::Inet) => Some(bytes.clone()),
        (Type::Bytes, _) | (_, Type::Bytes) if is_uuid(from) || is_uuid(to) => Some(bytes.clone()),
        _ if is_uuid(from) && is_uuid(to) => Some(bytes.clone()),
        _ if is_number(from) && is_number(to) => number(from, to, &bytes, lossy),
        (_, Type::Timestamp | Type::Date | Type::Time | Type::Boolean) if width(from).is_some() => {
            whole(from, &bytes).and_then(|n| put_whole(n, to))
        }
        (Type::Timestamp | Type::Date | Type::Time | Type::Boolean, _) if is_number(to) => {
            whole(from, &bytes).and_then(|n| put_whole(n, to))
        }
        _ if from.has_parts() && to.has_parts() => {
            return parts(from, to, &bytes, lossy)
                .map_err(|why| format!("{}: {why}", refused(&bytes)));
        }
        _ => time(from, to, &bytes, lossy),
    };
    let converted = converted.ok_or_else(|| refused(&bytes))?;
    to.validate(&converted).map_err(|e| format!("{}: {}", refused(&bytes), e.0))?;
    Ok(converted)
}

/// Returns the name of a type as CQL writes it.
pub fn type_name(of: &Type) -> String {
    ColumnType::frozen(of.clone()).to_string()
}
