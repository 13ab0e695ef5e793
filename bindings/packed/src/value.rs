//! Values of CQL as bytes: a tag and its content.
//!
//! | tag | value | content |
//! |---:|---|---|
//! | 0 | null | none |
//! | 1 | not set: the column is unchanged | none |
//! | 2 | zero bytes of a type other than text and blob | none |
//! | 3, 4 | false, true | none |
//! | 5 | tinyint, smallint, int | `i32` |
//! | 6 | bigint, counter | `i64` |
//! | 7 | varint | bytes: two's complement, big endian |
//! | 8 | decimal | text |
//! | 9 | float | `f32` |
//! | 10 | double | `f64` |
//! | 11 | text, ascii | text |
//! | 12 | blob, and types without another tag | bytes |
//! | 13 | uuid, timeuuid | 16 bytes |
//! | 14 | inet | text |
//! | 15 | date | `i64`: days since 1970-01-01 |
//! | 16 | time | `i64`: nanoseconds since midnight |
//! | 17 | timestamp | `i64`: milliseconds since 1970-01-01 |
//! | 18 | duration | text |
//! | 19, 20, 22 | list or vector, set, tuple | `u32` number, the values |
//! | 21 | map | `u32` number, for each: key, value |
//! | 23 | user type | `u32` number, for each: text with the name, value |
//!
//! A bound value may have a tag that only resembles its type: a number of any tag for a type of
//! numbers, a text for a type with a text form, a list for a set or tuple, a user type for a map
//! with text keys. [`value`] converts it to the type of the marker.

use firn_cql::VarInt;
use firn_cql::{Error, Result, Value};
use firn_wide::Type;
use uuid::Uuid;

use crate::{Unpacker, invalid, put_bytes, put_len};

/// Maximum number of parts for which memory is reserved before they are read.
const MAX_RESERVED: usize = 1024;

/// Appends a value.
pub fn put_value(out: &mut Vec<u8>, value: &Value) {
    let number = |out: &mut Vec<u8>, tag: u8, n: i64| {
        out.push(tag);
        out.extend_from_slice(&n.to_le_bytes());
    };
    let int = |out: &mut Vec<u8>, n: i32| {
        out.push(5);
        out.extend_from_slice(&n.to_le_bytes());
    };
    let bytes = |out: &mut Vec<u8>, tag: u8, bytes: &[u8]| {
        out.push(tag);
        put_bytes(out, bytes);
    };
    let all = |out: &mut Vec<u8>, tag: u8, values: &[Value]| {
        out.push(tag);
        put_len(out, values.len());
        values.iter().for_each(|v| put_value(out, v));
    };
    match value {
        Value::Null => out.push(0),
        Value::Unset => out.push(1),
        Value::Empty => out.push(2),
        Value::Boolean(b) => out.push(3 + u8::from(*b)),
        Value::TinyInt(n) => int(out, i32::from(*n)),
        Value::SmallInt(n) => int(out, i32::from(*n)),
        Value::Int(n) => int(out, *n),
        Value::BigInt(n) | Value::Counter(n) => number(out, 6, *n),
        Value::VarInt(n) => bytes(out, 7, &n.to_signed_bytes_be()),
        Value::Decimal(text) => bytes(out, 8, text.as_bytes()),
        Value::Float(n) => {
            out.push(9);
            out.extend_from_slice(&n.to_le_bytes());
        }
        Value::Double(n) => {
            out.push(10);
            out.extend_from_slice(&n.to_le_bytes());
        }
        Value::Text(text) => bytes(out, 11, text.as_bytes()),
        Value::Blob(blob) => bytes(out, 12, blob),
        Value::Uuid(uuid) => {
            out.push(13);
            out.extend_from_slice(uuid.as_bytes());
        }
        Value::Inet(address) => bytes(out, 14, address.to_string().as_bytes()),
        Value::Date(n) => number(out, 15, *n),
        Value::Time(n) => number(out, 16, *n),
        Value::Timestamp(n) => number(out, 17, *n),
        Value::Duration(text) => bytes(out, 18, text.as_bytes()),
        Value::List(values) => all(out, 19, values),
        Value::Set(values) => all(out, 20, values),
        Value::Tuple(values) => all(out, 22, values),
        Value::Map(pairs) => {
            out.push(21);
            put_len(out, pairs.len());
            for (key, value) in pairs {
                put_value(out, key);
                put_value(out, value);
            }
        }
        Value::User(fields) => {
            out.push(23);
            put_len(out, fields.len());
            for (name, value) in fields {
                put_bytes(out, name.as_bytes());
                put_value(out, value);
            }
        }
        // Newer kinds of values in their text form for errors, so that a reader sees one.
        other => bytes(out, 11, format!("{other:?}").as_bytes()),
    }
}

/// Reads a value that is bound where a value of this type is expected.
///
/// # Errors
/// `Invalid` if the bytes are not a packed value, or the type has no such values. Texts and ranges
/// of numbers are checked when the value is bound.
pub fn value(packed: &mut Unpacker<'_>, of: &Type) -> Result<Value> {
    let of = of.unreversed();
    Ok(match packed.byte()? {
        0 => Value::Null,
        1 => Value::Unset,
        2 => Value::Empty,
        3 => Value::Boolean(false),
        4 => Value::Boolean(true),
        5 => whole(i64::from(i32::from_le_bytes(packed.array()?)), of),
        6 => whole(i64::from_le_bytes(packed.array()?), of),
        7 => {
            let n = VarInt::from_signed_bytes_be(packed.bytes()?);
            match (i64::try_from(&n), of) {
                (Ok(n), _) => whole(n, of),
                (Err(_), Type::Decimal) => Value::Decimal(n.to_string()),
                (Err(_), _) => Value::VarInt(n),
            }
        }
        8 => match (packed.text()?, of) {
            (text, Type::Decimal) => Value::Decimal(text.to_owned()),
            (text, _) => Value::Text(text.to_owned()),
        },
        9 => double(f64::from(f32::from_le_bytes(packed.array()?)), of)?,
        10 => double(f64::from_le_bytes(packed.array()?), of)?,
        11 | 14 => Value::Text(packed.text()?.to_owned()),
        12 => Value::Blob(packed.bytes()?.to_vec()),
        13 => Value::Uuid(Uuid::from_bytes(packed.array()?)),
        15 => match (i64::from_le_bytes(packed.array()?), of) {
            (days, Type::Timestamp | Type::Date) => {
                Value::Timestamp(days.saturating_mul(86_400_000))
            }
            (days, _) => Value::Date(days),
        },
        16 => Value::Time(i64::from_le_bytes(packed.array()?)),
        17 => match (i64::from_le_bytes(packed.array()?), of) {
            (millis, Type::SimpleDate) => Value::Date(millis.div_euclid(86_400_000)),
            (millis, _) => Value::Timestamp(millis),
        },
        18 => match (packed.text()?, of) {
            (text, Type::Duration) => Value::Duration(text.to_owned()),
            (text, _) => Value::Text(text.to_owned()),
        },
        tag @ (19 | 20 | 22) => sequence(packed, tag, of)?,
        21 => map(packed, of)?,
        23 => fields(packed, of)?,
        other => return Err(invalid(format!("there is no packed value with the tag {other}"))),
    })
}

/// Converts an integer to a value of the type.
fn whole(n: i64, of: &Type) -> Value {
    match of {
        Type::Double | Type::Float => Value::Double(n as f64),
        Type::Decimal => Value::Decimal(n.to_string()),
        Type::SimpleDate => Value::Date(n),
        _ => Value::BigInt(n),
    }
}

/// Converts a number to a value of the type: languages with one type of numbers bind integers so.
fn double(n: f64, of: &Type) -> Result<Value> {
    /// The largest integer below which a double has every integer.
    const EXACT: f64 = 9_007_199_254_740_991.0;
    match of {
        Type::Double | Type::Float => return Ok(Value::Double(n)),
        Type::Decimal if n.is_finite() => return Ok(Value::Decimal(n.to_string())),
        _ => {}
    }
    let is_whole_type = matches!(
        of,
        Type::Byte
            | Type::Short
            | Type::Int32
            | Type::Long
            | Type::Counter
            | Type::Integer
            | Type::Timestamp
            | Type::Date
            | Type::SimpleDate
            | Type::Time
    );
    if !is_whole_type {
        return Ok(Value::Double(n));
    }
    if n.fract() != 0.0 || n.abs() > EXACT {
        return Err(invalid(format!("{n} is not an exact integer, for {}", of.cql_name())));
    }
    Ok(whole(n as i64, of))
}

fn mismatch(what: &str, of: &Type) -> Error {
    invalid(format!("{what} can't be bound where {} is expected", of.cql_name()))
}

fn sequence(packed: &mut Unpacker<'_>, tag: u8, of: &Type) -> Result<Value> {
    let count = packed.number()?;
    let mut all = |of: &Type| {
        let mut values = Vec::with_capacity(count.min(MAX_RESERVED));
        for _ in 0..count {
            values.push(value(packed, of)?);
        }
        Ok::<_, Error>(values)
    };
    match (tag, of) {
        (19 | 22, Type::List(of) | Type::Vector(of, _)) => all(of).map(Value::List),
        (_, Type::Set(of)) => all(of).map(Value::Set),
        (19 | 22, Type::Tuple(types)) if count > types.len() => {
            Err(mismatch(&format!("a tuple of {count}"), of))
        }
        (19 | 22, Type::Tuple(types)) => {
            let values = types.iter().take(count).map(|of| value(packed, of));
            values.collect::<Result<_>>().map(Value::Tuple)
        }
        (20, _) => Err(mismatch("a set", of)),
        _ => Err(mismatch("a list", of)),
    }
}

fn map(packed: &mut Unpacker<'_>, of: &Type) -> Result<Value> {
    let count = packed.number()?;
    let Type::Map(kv) = of else { return Err(mismatch("a map", of)) };
    let mut pairs = Vec::with_capacity(count.min(MAX_RESERVED));
    for _ in 0..count {
        pairs.push((value(packed, &kv.0)?, value(packed, &kv.1)?));
    }
    Ok(Value::Map(pairs))
}

fn fields(packed: &mut Unpacker<'_>, of: &Type) -> Result<Value> {
    let count = packed.number()?;
    match of {
        Type::Udt(user) => {
            let mut fields = vec![];
            for _ in 0..count {
                let name = packed.text()?;
                // An unknown field is refused by its name when the value is bound.
                let of = user.fields.iter().find(|f| f.0 == name).map(|f| &f.1);
                let Some(of) = of else {
                    fields.push((name.to_owned(), Value::Null));
                    break;
                };
                fields.push((name.to_owned(), value(packed, of)?));
            }
            Ok(Value::User(fields))
        }
        Type::Map(kv) => {
            let mut pairs = Vec::with_capacity(count.min(MAX_RESERVED));
            for _ in 0..count {
                let name = Value::Text(packed.text()?.to_owned());
                pairs.push((name, value(packed, &kv.1)?));
            }
            Ok(Value::Map(pairs))
        }
        _ => Err(mismatch("an object with fields", of)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn round_trip(given: Value, of: &Type) {
        let mut out = vec![];
        put_value(&mut out, &given);
        let mut packed = Unpacker::new(&out);
        let read = value(&mut packed, of).unwrap();
        assert!(packed.is_at_end(), "{given:?}");
        assert_eq!(read.encode(of).unwrap(), given.encode(of).unwrap(), "{given:?}");
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        let text = |t: &str| Value::Text(t.to_owned());
        round_trip(Value::Null, &Type::Utf8);
        round_trip(Value::Empty, &Type::Int32);
        round_trip(Value::Boolean(true), &Type::Boolean);
        round_trip(Value::TinyInt(-3), &Type::Byte);
        round_trip(Value::SmallInt(300), &Type::Short);
        round_trip(Value::Int(i32::MIN), &Type::Int32);
        round_trip(Value::BigInt(i64::MIN), &Type::Long);
        round_trip(Value::VarInt(VarInt::from(i128::from(i64::MAX) * 12345)), &Type::Integer);
        round_trip(Value::VarInt(VarInt::from(-5)), &Type::Integer);
        round_trip(Value::Decimal("-1.250".into()), &Type::Decimal);
        round_trip(Value::Float(1.5), &Type::Float);
        round_trip(Value::Double(f64::MIN_POSITIVE), &Type::Double);
        round_trip(text("ñ"), &Type::Utf8);
        round_trip(Value::Blob(vec![0, 255]), &Type::Bytes);
        round_trip(Value::Uuid(Uuid::from_bytes([7; 16])), &Type::Uuid);
        round_trip(Value::Inet([1, 2, 3, 4].into()), &Type::Inet);
        round_trip(Value::Date(-1), &Type::SimpleDate);
        round_trip(Value::Time(1), &Type::Time);
        round_trip(Value::Timestamp(-1), &Type::Timestamp);
        round_trip(Value::Duration("1mo2d".into()), &Type::Duration);
        let list = Value::List(vec![Value::Int(1), Value::Int(-1)]);
        round_trip(list, &Type::List(Type::Int32.into()));
        round_trip(Value::Set(vec![text("a")]), &Type::Set(Type::Utf8.into()));
        let pairs = vec![(text("a"), Value::Int(1))];
        round_trip(Value::Map(pairs), &Type::Map((Type::Utf8, Type::Int32).into()));
        let tuple = Value::Tuple(vec![Value::Int(1), text("b")]);
        round_trip(tuple, &Type::Tuple([Type::Int32, Type::Utf8].into()));
    }

    #[track_caller]
    fn read(packed: &[u8], of: &Type) -> Result<Value> {
        value(&mut Unpacker::new(packed), of)
    }

    #[test]
    fn numbers_become_those_of_the_type() {
        let packed = |n: f64| [&[10][..], &n.to_le_bytes()].concat();
        assert_eq!(read(&packed(3.0), &Type::Int32).unwrap(), Value::BigInt(3));
        assert_eq!(read(&packed(3.0), &Type::Double).unwrap(), Value::Double(3.0));
        assert_eq!(read(&packed(0.1), &Type::Decimal).unwrap(), Value::Decimal("0.1".into()));
        assert!(read(&packed(0.5), &Type::Int32).is_err());
        assert!(read(&packed(1e16), &Type::Long).is_err());
        assert!(read(&packed(f64::NAN), &Type::Long).is_err());
        assert!(read(&packed(f64::NAN), &Type::Decimal).unwrap().encode(&Type::Decimal).is_err());
    }

    #[test]
    fn damaged_bytes_are_errors() {
        let list = Type::List(Type::Int32.into());
        for packed in [&[][..], &[24], &[6, 1], &[11, 9, 0, 0, 0, 1], &[19, 255, 255, 255, 255]] {
            assert!(read(packed, &list).is_err(), "{packed:?}");
        }
        assert!(read(&[19, 0, 0, 0, 0], &Type::Int32).is_err());
        assert!(read(&[11, 1, 0, 0, 0, 255], &Type::Utf8).is_err());
    }
}
