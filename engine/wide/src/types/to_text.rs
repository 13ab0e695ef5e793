//! Formats values as text, like cassandra-cli and sstabledump.

use std::net::{Ipv4Addr, Ipv6Addr};

use num_bigint::BigInt;

use super::errors::TypeError;
use super::hex::hex;
use super::vector::vector_elements;
use super::{DynamicTypes, Type, Wording, date, decimal, duration, nested};

impl Type {
    /// Formats a value; [`from_text`](Type::from_text) parses the result (except for collections,
    /// vectors, tuples and user types). Bytes that are not a value are written in hex. `wording`
    /// selects the format of timestamps: `2009-08-16 15:53:24+0000` or `2009-08-16 15:53:24.000Z`.
    pub fn to_text(&self, value: &[u8], wording: Wording) -> String {
        if let Type::Custom(c) = self {
            return c.0.to_text(value);
        }
        if value.is_empty() {
            return String::new();
        }
        self.text_of(value, wording).unwrap_or_else(|| hex(value))
    }

    fn text_of(&self, value: &[u8], wording: Wording) -> Option<String> {
        Some(match self {
            Type::Bytes | Type::Empty | Type::Custom(_) => hex(value),
            Type::Utf8 | Type::Ascii => String::from_utf8_lossy(value).into_owned(),
            Type::Long | Type::Counter => i64::from_be_bytes(value.try_into().ok()?).to_string(),
            Type::Integer if decimal::has_many_digits(value) => format!("0x{}", hex(value)),
            Type::Integer => BigInt::from_signed_bytes_be(value).to_string(),
            Type::Int32 => i32::from_be_bytes(value.try_into().ok()?).to_string(),
            Type::Short => i16::from_be_bytes(value.try_into().ok()?).to_string(),
            Type::Byte => i8::from_be_bytes(value.try_into().ok()?).to_string(),
            Type::LexicalUuid | Type::TimeUuid | Type::Uuid => {
                uuid::Uuid::from_slice(value).ok()?.to_string()
            }
            Type::Date | Type::Timestamp => date::timestamp_text(
                i64::from_be_bytes(value.try_into().ok()?),
                wording == Wording::Cql,
            ),
            Type::SimpleDate => {
                date::date_text(i64::from(u32::from_be_bytes(value.try_into().ok()?)) - (1 << 31))
            }
            Type::Time => {
                let nanos = i64::from_be_bytes(value.try_into().ok()?);
                (0..86_400_000_000_000).contains(&nanos).then(|| date::time_text(nanos))?
            }
            Type::Boolean => <[u8; 1]>::try_from(value).ok().map(|v| (v != [0]).to_string())?,
            Type::Float => float(
                f64::from(f32::from_be_bytes(value.try_into().ok()?)),
                f32::from_be_bytes(value.try_into().ok()?),
            ),
            Type::Double => {
                let v = f64::from_be_bytes(value.try_into().ok()?);
                float(v, v)
            }
            Type::Decimal if decimal::has_many_digits(value) => format!("0x{}", hex(value)),
            Type::Decimal => decimal::to_text(value)?,
            Type::Inet => match value.len() {
                4 => Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).to_string(),
                _ => Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).to_string(),
            },
            Type::Duration => duration::to_text(duration::parse(value).ok()?),
            Type::Reversed(inner) => inner.to_text(value, wording),
            Type::Composite(types) => composite(types, value, wording)?,
            Type::Dynamic(types) => dynamic(types, value, wording)?,
            Type::Tuple(types) => tuple(&mut types.iter(), value, wording)?,
            Type::Udt(u) => tuple(&mut u.fields.iter().map(|f| &f.1), value, wording)?,
            Type::Vector(element, count) => {
                let parts = vector_elements(element, *count, value).ok()?;
                let texts: Vec<_> = parts.iter().map(|p| element.to_text(p, wording)).collect();
                format!("[{}]", texts.join(", "))
            }
            Type::List(_) | Type::Set(_) | Type::Map(_) => collection(self, value, wording)?,
        })
    }
}

/// Formats a number like Java's `Double.toString`, with the digits of `shown` that distinguish it
/// from its neighbours. A single digit becomes the nearest two digits: the smallest double is
/// `4.9E-324`.
fn float<F>(size: f64, shown: F) -> String
where
    F: std::fmt::Display + std::fmt::LowerExp + std::str::FromStr + PartialEq,
{
    if size.is_nan() {
        return "NaN".into();
    }
    if size.is_infinite() {
        return if size > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    if size == 0.0 || (1e-3..1e7).contains(&size.abs()) {
        let plain = format!("{shown}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let scientific = format!("{shown:e}");
    match scientific.split_once('e') {
        Some((m, e)) if m.contains('.') => format!("{m}E{e}"),
        _ => {
            let two = format!("{shown:.1e}");
            let is_same = two.parse().is_ok_and(|read: F| read == shown);
            if is_same { two } else { scientific.replace('e', ".0e") }.replace('e', "E")
        }
    }
}

fn composite(types: &[Type], value: &[u8], wording: Wording) -> Option<String> {
    let mut parts = vec![];
    let mut end = 0;
    let read = nested::composite(types, value, |t, part, eoc| {
        parts.push(t.to_text(part, wording).replace(':', "\\:"));
        end = eoc;
        Ok(())
    });
    read.ok()?;
    Some(ended(parts, end))
}

/// Formats components preceded by their types: `a@text`, or `UTF8Type@text` with the name as
/// written.
fn dynamic(types: &DynamicTypes, value: &[u8], wording: Wording) -> Option<String> {
    let mut parts = vec![];
    let mut end = 0;
    let read = nested::dynamic(types, value, |t, written, part, eoc| {
        let text = t.to_text(part, wording).replace(':', "\\:");
        parts.push(format!("{}@{text}", String::from_utf8_lossy(written)));
        end = eoc;
        Ok(())
    });
    read.ok()?;
    Some(ended(parts, end))
}

/// Joins components, and appends the sign of a nonzero end byte.
fn ended(mut parts: Vec<String>, end: i8) -> String {
    match end {
        0 => {}
        1.. => parts.push("!".into()),
        _ => parts.push("_".into()),
    }
    parts.join(":")
}

fn part_text(t: &Type, part: Option<&[u8]>, wording: Wording) -> String {
    part.map_or("null".into(), |p| t.to_text(p, wording))
}

fn tuple(types: &mut dyn Iterator<Item = &Type>, value: &[u8], wording: Wording) -> Option<String> {
    let mut parts = vec![];
    let each =
        |t: &Type, part: Option<&[u8]>| -> Result<(), TypeError> {
            parts.push(part.map_or("@".into(), |p| {
                t.to_text(p, wording).replace(':', "\\:").replace('@', "\\@")
            }));
            Ok(())
        };
    nested::tuple(types, value, each).ok()?;
    Some(parts.join(":"))
}

fn collection(of: &Type, value: &[u8], wording: Wording) -> Option<String> {
    let mut parts = vec![];
    let each = |t: &Type, part: Option<&[u8]>| -> Result<(), TypeError> {
        parts.push(part_text(t, part, wording));
        Ok(())
    };
    nested::elements(of, value, each).ok()?;
    Some(match of {
        Type::Set(_) => format!("{{{}}}", parts.join(", ")),
        Type::Map(_) => {
            let pairs: Vec<_> = parts.chunks(2).map(|kv| kv.join(": ")).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        _ => format!("[{}]", parts.join(", ")),
    })
}
