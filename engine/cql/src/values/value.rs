//! A decoded value.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use firn_wide::{TimeSource, Type, Wording};
use num_bigint::BigInt;
use uuid::Uuid;

use super::bytes::{put_many, typed_parts};
use super::vector::check_count;
use super::{BoundValue, VarInt};
use crate::error::{Result, bail, invalid};

/// A value of any type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Null.
    Null,
    /// Not set: a column that it is bound to is not changed.
    Unset,
    /// Zero bytes, for types other than text and blob.
    Empty,
    /// `boolean`
    Boolean(bool),
    /// `tinyint`
    TinyInt(i8),
    /// `smallint`
    SmallInt(i16),
    /// `int`
    Int(i32),
    /// `bigint`
    BigInt(i64),
    /// `counter`
    Counter(i64),
    /// `varint`
    VarInt(VarInt),
    /// `decimal`, in decimal notation
    Decimal(String),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `text`, `ascii`
    Text(String),
    /// `blob`, and types without another variant
    Blob(Vec<u8>),
    /// `uuid`, `timeuuid`
    Uuid(Uuid),
    /// `inet`
    Inet(IpAddr),
    /// `date`: days since 1970
    Date(i64),
    /// `time`: nanoseconds since midnight
    Time(i64),
    /// `timestamp`: milliseconds since 1970
    Timestamp(i64),
    /// `duration`, in CQL syntax
    Duration(String),
    /// `list`, `vector`
    List(Vec<Value>),
    /// `set`, in order
    Set(Vec<Value>),
    /// `map`, in the order of its keys
    Map(Vec<(Value, Value)>),
    /// `tuple`
    Tuple(Vec<Value>),
    /// A user-defined type: its fields by name
    User(Vec<(String, Value)>),
}

/// A time source for texts that do not use the time.
struct NoClock;

impl TimeSource for NoClock {
    fn millis(&mut self) -> i64 {
        0
    }

    fn time_uuid(&mut self) -> [u8; 16] {
        firn_wide::uuids::min_time_uuid(0)
    }

    fn time_uuid_at(&mut self, millis: i64) -> [u8; 16] {
        firn_wide::uuids::min_time_uuid(millis)
    }
}

/// Returns the bytes of a text that does not depend on the time.
pub(super) fn bytes_of_text(of: &Type, text: &str) -> Result<Vec<u8>> {
    if text.eq_ignore_ascii_case("now")
        && matches!(of, Type::Timestamp | Type::Date | Type::Uuid | Type::TimeUuid)
    {
        bail!("'{text}' is no {} by itself; write a function", of.cql_name());
    }
    let mut out = vec![];
    of.from_text(text, Wording::Cql, &mut NoClock, &mut out).map_err(|e| invalid(e.0))?;
    Ok(out)
}

fn read(of: &Type, text: &str) -> Result<BoundValue> {
    bytes_of_text(of, text).map(BoundValue::Bytes)
}

/// Maximum bytes of a value that an error shows.
const SHOWN: usize = 60;

/// The beginning of a text; writing more fails.
struct Beginning(String);

impl fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = SHOWN - self.0.len();
        let fits =
            (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.0.push_str(&text[..fits]);
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl Value {
    /// Returns the value for errors, truncated if it is long.
    pub(super) fn short(&self) -> String {
        let mut out = Beginning(String::new());
        let whole = write!(out, "{self:?}").is_ok();
        out.0 + if whole { "" } else { "…" }
    }

    /// Decodes a value of the type; `None` is null.
    ///
    /// # Errors
    /// `Invalid` if the bytes are not a value of the type.
    pub fn decode(of: &Type, bytes: Option<&[u8]>) -> Result<Value> {
        let Some(bytes) = bytes else { return Ok(Value::Null) };
        let of = of.unreversed();
        of.validate(bytes).map_err(|e| invalid(e.0))?;
        if bytes.is_empty()
            && !matches!(
                of,
                Type::Utf8
                    | Type::Ascii
                    | Type::Bytes
                    | Type::Custom(_)
                    | Type::Tuple(_)
                    | Type::Udt(_)
            )
        {
            return Ok(Value::Empty);
        }
        let wrong = |_| invalid!("{} bytes are no {}", bytes.len(), of.cql_name());
        Ok(match of {
            Type::Boolean => Value::Boolean(bytes[0] != 0),
            Type::Byte => Value::TinyInt(i8::from_be_bytes(bytes.try_into().map_err(wrong)?)),
            Type::Short => Value::SmallInt(i16::from_be_bytes(bytes.try_into().map_err(wrong)?)),
            Type::Int32 => Value::Int(i32::from_be_bytes(bytes.try_into().map_err(wrong)?)),
            Type::Long => Value::BigInt(i64::from_be_bytes(bytes.try_into().map_err(wrong)?)),
            Type::Counter => Value::Counter(i64::from_be_bytes(bytes.try_into().map_err(wrong)?)),
            Type::Timestamp | Type::Date => {
                Value::Timestamp(i64::from_be_bytes(bytes.try_into().map_err(wrong)?))
            }
            Type::Time => Value::Time(i64::from_be_bytes(bytes.try_into().map_err(wrong)?)),
            Type::SimpleDate => Value::Date(
                i64::from(u32::from_be_bytes(bytes.try_into().map_err(wrong)?)) - (1 << 31),
            ),
            Type::Float => Value::Float(f32::from_be_bytes(bytes.try_into().map_err(wrong)?)),
            Type::Double => Value::Double(f64::from_be_bytes(bytes.try_into().map_err(wrong)?)),
            Type::Integer => Value::VarInt(VarInt::from_signed_bytes_be(bytes)),
            Type::Decimal => Value::Decimal(of.to_text(bytes, Wording::Cql)),
            Type::Duration => Value::Duration(of.to_text(bytes, Wording::Cql)),
            Type::Utf8 | Type::Ascii => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
            Type::Uuid | Type::TimeUuid | Type::LexicalUuid => {
                Value::Uuid(Uuid::from_bytes(bytes.try_into().map_err(wrong)?))
            }
            Type::Inet => Value::Inet(match <[u8; 4]>::try_from(bytes) {
                Ok(four) => IpAddr::from(four),
                Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes).map_err(wrong)?),
            }),
            _ if of.has_parts() => Value::decode_parts(of, bytes)?,
            _ => Value::Blob(bytes.to_vec()),
        })
    }

    fn decode_parts(of: &Type, bytes: &[u8]) -> Result<Value> {
        let parts = typed_parts(of, bytes)?.into_iter();
        let mut parts =
            parts.map(|(of, part)| Value::decode(of, part)).collect::<Result<Vec<_>>>()?;
        Ok(match of {
            Type::List(_) | Type::Vector(..) => Value::List(parts),
            Type::Set(_) => Value::Set(parts),
            Type::Tuple(_) => Value::Tuple(parts),
            Type::Map(_) => {
                let mut parts = parts.drain(..);
                let pair = || Some((parts.next()?, parts.next()?));
                Value::Map(std::iter::from_fn(pair).collect())
            }
            Type::Udt(udt) => {
                let names = udt.fields.iter().map(|(name, _)| name.clone());
                Value::User(names.zip(parts).collect())
            }
            _ => Value::Blob(bytes.to_vec()),
        })
    }

    /// Encodes the value in this type.
    ///
    /// # Errors
    /// `Invalid` if it has another type.
    pub fn encode(&self, of: &Type) -> Result<BoundValue> {
        let of = of.unreversed();
        let bytes = match (self, of) {
            (Value::Null, _) => return Ok(BoundValue::Null),
            (Value::Unset, _) => return Ok(BoundValue::Unset),
            (Value::Empty, _) => vec![],
            (Value::Boolean(b), Type::Boolean) => vec![u8::from(*b)],
            (Value::TinyInt(n), _) if fits(i64::from(*n), of) => whole(i64::from(*n), of),
            (Value::SmallInt(n), _) if fits(i64::from(*n), of) => whole(i64::from(*n), of),
            (Value::Int(n), _) if fits(i64::from(*n), of) => whole(i64::from(*n), of),
            (Value::BigInt(n) | Value::Counter(n), _) if fits(*n, of) => whole(*n, of),
            (Value::BigInt(n) | Value::Timestamp(n), Type::Timestamp | Type::Date) => {
                n.to_be_bytes().to_vec()
            }
            (Value::BigInt(n) | Value::Time(n), Type::Time) => n.to_be_bytes().to_vec(),
            (Value::VarInt(n), Type::Integer) => n.to_signed_bytes_be(),
            (Value::Decimal(text), Type::Decimal) => return read(of, text),
            (Value::Duration(text), Type::Duration) => return read(of, text),
            (Value::Float(n), Type::Float) => n.to_be_bytes().to_vec(),
            (Value::Float(n), Type::Double) => f64::from(*n).to_be_bytes().to_vec(),
            (Value::Double(n), Type::Double) => n.to_be_bytes().to_vec(),
            (Value::Double(n), Type::Float) => (*n as f32).to_be_bytes().to_vec(),
            (Value::Text(text), Type::Utf8) => text.as_bytes().to_vec(),
            // These types accept a text form.
            (
                Value::Text(text),
                Type::Ascii
                | Type::Inet
                | Type::Timestamp
                | Type::SimpleDate
                | Type::Time
                | Type::Duration
                | Type::Decimal
                | Type::Integer
                | Type::Uuid
                | Type::TimeUuid
                | Type::Composite(_)
                | Type::Dynamic(_),
            ) => return read(of, text),
            (
                Value::Blob(bytes),
                Type::Bytes | Type::Composite(_) | Type::Dynamic(_) | Type::Custom(_),
            ) => bytes.clone(),
            (Value::Uuid(uuid), Type::Uuid | Type::TimeUuid | Type::LexicalUuid) => {
                uuid.as_bytes().to_vec()
            }
            (Value::Inet(IpAddr::V4(a)), Type::Inet) => a.octets().to_vec(),
            (Value::Inet(IpAddr::V6(a)), Type::Inet) => a.octets().to_vec(),
            (Value::Date(days), Type::SimpleDate) => {
                let number = days.checked_add(1 << 31).and_then(|d| u32::try_from(d).ok());
                number
                    .ok_or_else(|| invalid!("{days} days are out of range"))?
                    .to_be_bytes()
                    .to_vec()
            }
            _ => return self.encode_parts(of),
        };
        of.validate(&bytes).map_err(|e| invalid(e.0))?;
        Ok(BoundValue::Bytes(bytes))
    }

    fn encode_parts(&self, of: &Type) -> Result<BoundValue> {
        let parts: Vec<(&Value, &Type)> = match (self, of) {
            (Value::List(values), Type::List(e))
            | (Value::Set(values) | Value::List(values), Type::Set(e)) => {
                values.iter().map(|v| (v, &**e)).collect()
            }
            (Value::List(values), Type::Vector(e, _)) => {
                check_count("a value", of, values.len())?;
                values.iter().map(|v| (v, &**e)).collect()
            }
            (Value::Map(pairs), Type::Map(kv)) => {
                pairs.iter().flat_map(|(k, v)| [(k, &kv.0), (v, &kv.1)]).collect()
            }
            (Value::Tuple(values), Type::Tuple(types)) if values.len() <= types.len() => {
                values.iter().zip(types.iter()).collect()
            }
            (Value::User(fields), Type::Udt(udt)) => {
                let is_known = |name: &str| udt.fields.iter().any(|f| f.0 == name);
                if let Some((unknown, _)) = fields.iter().find(|(name, _)| !is_known(name)) {
                    bail!("Unknown field '{unknown}' in value of user defined type {}", udt.name);
                }
                let given = |name: &str| fields.iter().find(|f| f.0 == name).map(|f| &f.1);
                let field = |(name, of)| (given(name).unwrap_or(&Value::Null), of);
                udt.fields.iter().map(|(name, of)| field((name, of))).collect()
            }
            _ => bail!("{} is no {}", self.short(), of.cql_name()),
        };
        let bytes = parts.into_iter().map(|(v, of)| Ok(v.encode(of)?.into_bytes()));
        Ok(BoundValue::Bytes(put_many(of, bytes.collect::<Result<_>>()?)?))
    }
}

/// Reports whether an integer is in the range of the type.
fn fits(n: i64, of: &Type) -> bool {
    match of {
        Type::Byte => i8::try_from(n).is_ok(),
        Type::Short => i16::try_from(n).is_ok(),
        Type::Int32 => i32::try_from(n).is_ok(),
        Type::Long | Type::Counter | Type::Integer => true,
        _ => false,
    }
}

/// Encodes an integer that is in the range of the type.
fn whole(n: i64, of: &Type) -> Vec<u8> {
    let bytes = n.to_be_bytes();
    match of {
        Type::Byte => bytes[7..].to_vec(),
        Type::Short => bytes[6..].to_vec(),
        Type::Int32 => bytes[4..].to_vec(),
        Type::Integer => BigInt::from(n).to_signed_bytes_be(),
        _ => bytes.to_vec(),
    }
}
