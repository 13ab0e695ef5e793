//! Parses values from text, as cassandra-cli and CQL do. The empty text is the empty value.

use std::net::IpAddr;

use num_bigint::BigInt;

use super::errors::{TypeError, error};
use super::hex::hex_to_bytes;
use super::{Type, date, decimal, duration, uuids};
use crate::types::decimal::MAX_DIGITS;

/// Selects the error texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wording {
    /// Texts of cassandra-cli and Thrift (1.1).
    Cli,
    /// Texts of CQL (4.0).
    Cql,
}

/// Source of time and randomness for texts such as `now`.
pub trait TimeSource {
    /// Returns the milliseconds since 1970.
    fn millis(&mut self) -> i64;

    /// Returns a new time-uuid of the current time ([`uuids::time_uuid`]).
    fn time_uuid(&mut self) -> [u8; 16];

    /// Returns a new time-uuid of a given time, so that two texts with the same time are two names.
    fn time_uuid_at(&mut self, millis: i64) -> [u8; 16];
}

/// Refuses numbers with too many digits: parsing takes time quadratic in the digits.
fn check_digits(text: &str) -> Result<(), TypeError> {
    // Most texts are short, so the digits are rarely counted.
    if text.len() <= MAX_DIGITS {
        return Ok(());
    }
    match text.bytes().filter(u8::is_ascii_digit).count() {
        digits if digits > MAX_DIGITS => {
            error(format!("a number has {MAX_DIGITS} digits at most, and this one has {digits}"))
        }
        _ => Ok(()),
    }
}

impl Type {
    /// Parses a text and appends the value.
    ///
    /// # Errors
    /// The error text of a server of this wording. Then nothing was appended.
    pub fn from_text(
        &self,
        text: &str,
        wording: Wording,
        source: &mut dyn TimeSource,
        out: &mut Vec<u8>,
    ) -> Result<(), TypeError> {
        // Dates and times are never empty.
        if text.is_empty() && !matches!(self, Type::Custom(_) | Type::SimpleDate | Type::Time) {
            return Ok(());
        }
        match self {
            Type::Utf8 => out.extend_from_slice(text.as_bytes()),
            Type::Ascii => ascii(text, wording, out)?,
            Type::Bytes => match hex_to_bytes(text) {
                Ok(bytes) => out.extend(bytes),
                Err(_) => return error(format!("cannot parse '{text}' as hex bytes")),
            },
            Type::Long | Type::Counter => out.extend(
                text.parse::<i64>().map_err(|_| cannot("long", text, wording))?.to_be_bytes(),
            ),
            Type::Int32 => out.extend(
                text.parse::<i32>().map_err(|_| cannot("int", text, wording))?.to_be_bytes(),
            ),
            Type::Short => out.extend(
                text.parse::<i16>().map_err(|_| cannot("short", text, wording))?.to_be_bytes(),
            ),
            Type::Byte => out.extend(
                text.parse::<i8>().map_err(|_| cannot("byte", text, wording))?.to_be_bytes(),
            ),
            Type::Integer => {
                check_digits(text)?;
                let parsed = text
                    .parse::<BigInt>()
                    .map_err(|_| TypeError(format!("unable to make int from '{text}'")))?;
                out.extend(parsed.to_signed_bytes_be());
            }
            Type::Float => out.extend(
                float::<f32>(text).ok_or_else(|| cannot("float", text, wording))?.to_be_bytes(),
            ),
            Type::Double => out.extend(
                float::<f64>(text).ok_or_else(|| cannot("double", text, wording))?.to_be_bytes(),
            ),
            Type::Decimal => {
                check_digits(text)?;
                decimal::from_text(text, out)
                    .ok_or_else(|| TypeError(format!("unable to make BigDecimal from '{text}'")))?
            }
            Type::Boolean => match text.to_ascii_lowercase().as_str() {
                "true" => out.push(1),
                "false" => out.push(0),
                _ => return error(format!("unable to make boolean from '{text}'")),
            },
            Type::Reversed(inner) => return inner.from_text(text, wording, source, out),
            Type::Custom(c) => return c.0.from_text(text, out),
            _ => return self.read_other(text, wording, source, out),
        }
        Ok(())
    }

    fn read_other(
        &self,
        text: &str,
        wording: Wording,
        source: &mut dyn TimeSource,
        out: &mut Vec<u8>,
    ) -> Result<(), TypeError> {
        match self {
            Type::LexicalUuid | Type::TimeUuid | Type::Uuid => {
                out.extend(self.uuid(text, wording, source)?)
            }
            Type::Date | Type::Timestamp => {
                let millis = if text.eq_ignore_ascii_case("now") {
                    Some(source.millis())
                } else {
                    moment(text)
                };
                out.extend(millis.ok_or_else(|| not_a_date(text, wording))?.to_be_bytes());
            }
            Type::SimpleDate => out.extend(simple_date(text)?.to_be_bytes()),
            Type::Time => out.extend(time_of_day(text)?.to_be_bytes()),
            Type::Inet => match address(text) {
                Some(IpAddr::V4(a)) => out.extend(a.octets()),
                // An IPv4-mapped address becomes an IPv4 address.
                Some(IpAddr::V6(a)) => match a.to_ipv4_mapped() {
                    Some(a) => out.extend(a.octets()),
                    None => out.extend(a.octets()),
                },
                None => return error(format!("Unable to make inet address from '{text}'")),
            },
            Type::Duration => duration::put(duration::from_text(text)?, out),
            Type::Empty => return error(format!("'{text}' is not empty")),
            Type::Composite(types) => {
                let type_of = |i: usize, part: &str| match types.get(i) {
                    Some(of) => Ok((of.clone(), part.to_owned())),
                    None => {
                        error(format!("a composite of {} components can't have more", types.len()))
                    }
                };
                let header = |_: &Type, _: &mut Vec<u8>| Ok(());
                return composite((&type_of, &header), text, wording, source, out);
            }
            Type::Dynamic(types) => {
                let type_of = |_: usize, part: &str| {
                    let parts = part.split_once('@');
                    let wrong = || TypeError(format!("Invalid component representation: {part}"));
                    let (name, rest) = parts.ok_or_else(wrong)?;
                    let of = types.of_text(name);
                    let unknown = || TypeError(format!("'{name}' is no alias or type"));
                    Ok((of.ok_or_else(unknown)?, rest.to_owned()))
                };
                let header = |of: &Type, out: &mut Vec<u8>| types.put_type(of, out);
                return composite((&type_of, &header), text, wording, source, out);
            }
            _ => return error(format!("a text can't be read as {}", self.name())),
        }
        Ok(())
    }

    fn uuid(
        &self,
        text: &str,
        wording: Wording,
        source: &mut dyn TimeSource,
    ) -> Result<[u8; 16], TypeError> {
        let written = || {
            (text.len() == 36)
                .then(|| text.parse::<uuid::Uuid>().ok())
                .flatten()
                .map(uuid::Uuid::into_bytes)
        };
        if *self == Type::LexicalUuid {
            return written()
                .ok_or_else(|| TypeError(format!("unable to make UUID from '{text}'")));
        }
        if let Some(uuid) = written() {
            return match (self, uuids::version(uuid)) {
                (Type::TimeUuid, 0 | 2..) => error("TimeUUID supports only version 1 UUIDs"),
                _ => Ok(uuid),
            };
        }
        if text.eq_ignore_ascii_case("now") {
            return Ok(source.time_uuid());
        }
        match (moment(text), wording, self) {
            (Some(millis), ..) => Ok(source.time_uuid_at(millis)),
            (None, Wording::Cli, Type::TimeUuid) => Err(not_a_date(text, wording)),
            (None, Wording::Cli, _) => {
                error(format!("unable to coerce '{text}' to version 1 UUID"))
            }
            (None, Wording::Cql, Type::TimeUuid) => {
                error(format!("Unknown timeuuid representation: {text}"))
            }
            (None, Wording::Cql, _) => error(format!("Unable to make UUID from '{text}'")),
        }
    }
}

fn cannot(what: &str, text: &str, wording: Wording) -> TypeError {
    let unable = if wording == Wording::Cli { "unable" } else { "Unable" };
    TypeError(format!("{unable} to make {what} from '{text}'"))
}

fn not_a_date(text: &str, wording: Wording) -> TypeError {
    TypeError(match wording {
        Wording::Cli => format!("unable to coerce '{text}' to a  formatted date (long)"),
        Wording::Cql => format!("Unable to coerce '{text}' to a formatted date (long)"),
    })
}

fn ascii(text: &str, wording: Wording, out: &mut Vec<u8>) -> Result<(), TypeError> {
    if wording == Wording::Cql && !text.is_ascii() {
        return error(
            "Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input length = 1",
        );
    }
    out.extend(text.chars().map(|c| if c.is_ascii() { c as u8 } else { b'?' }));
    Ok(())
}

/// Parses a number like Java: `NaN` and `Infinity` are valid, `inf` is not.
fn float<F: std::str::FromStr>(text: &str) -> Option<F> {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let numeric = body.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let body_ok = numeric || body == "NaN" || body == "Infinity";
    if body_ok { text.parse().ok() } else { None }
}

/// Parses a numeric address; IPv6 may be in brackets. An IPv4 address may have fewer than four
/// parts, of which the last one fills the rest: `10.1` is 10.0.0.1.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .filter(|t| t.contains(':'))
        .unwrap_or(text);
    if let Ok(address) = bare.parse() {
        return Some(address);
    }
    let parts: Vec<&str> = text.split('.').collect();
    let digits = |p: &&str| !p.is_empty() && p.len() <= 10 && p.bytes().all(|b| b.is_ascii_digit());
    if parts.len() > 4 || !parts.iter().all(digits) {
        return None;
    }
    let (last, first) = parts.split_last()?;
    let mut address = 0u32;
    for (i, part) in first.iter().enumerate() {
        address |= u32::from(part.parse::<u8>().ok()?) << (24 - 8 * i);
    }
    let rest: u64 = last.parse().ok()?;
    let room = 1u64 << (32 - 8 * first.len());
    (rest < room).then(|| IpAddr::from((address | rest as u32).to_be_bytes()))
}

/// Parses milliseconds, or a date.
fn moment(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| date::timestamp(text))
}

fn simple_date(text: &str) -> Result<u32, TypeError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map_err(|_| {
            TypeError(format!("Unable to make unsigned int (for date) from: '{text}'"))
        });
    }
    let days = date::date(text).and_then(|d| u32::try_from(d + (1 << 31)).ok());
    days.ok_or_else(|| TypeError(format!("Unable to coerce '{text}' to a formatted date (long)")))
}

fn time_of_day(text: &str) -> Result<i64, TypeError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        let nanos = text.parse().ok().filter(|n| (0..86_400_000_000_000).contains(n));
        return nanos
            .ok_or_else(|| TypeError(format!("Unable to make long (for time) from: '{text}'")));
    }
    date::time(text).ok_or_else(|| {
        TypeError(format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)"))
    })
}

/// Returns the type of a component by its index and text, and the text without the type's name.
type ComponentType<'a> = dyn Fn(usize, &str) -> Result<(Type, String), TypeError> + 'a;
/// Appends the header of a component of this type.
type ComponentHeader<'a> = dyn Fn(&Type, &mut Vec<u8>) -> Result<(), TypeError> + 'a;

/// Parses components separated by colons (`\:` is a colon in a component). A final `!` or `_` puts
/// the composite after or before all that begin like it.
fn composite(
    (type_of, header): (&ComponentType<'_>, &ComponentHeader<'_>),
    text: &str,
    wording: Wording,
    source: &mut dyn TimeSource,
    out: &mut Vec<u8>,
) -> Result<(), TypeError> {
    let mut parts = split_colons(text);
    let end = match parts.last().map(String::as_str) {
        Some("!") => 1u8,
        Some("_") => 0xFF,
        _ => 0,
    };
    if end != 0 {
        parts.pop();
    }
    for (i, part) in parts.iter().enumerate() {
        let (of, part) = type_of(i, part)?;
        let mut value = vec![];
        of.from_text(&part, wording, source, &mut value)?;
        header(&of, out)?;
        let len = u16::try_from(value.len())
            .map_err(|_| TypeError(format!("component {i} is longer than 65535 bytes")))?;
        out.extend(len.to_be_bytes());
        out.extend(value);
        out.push(if i + 1 == parts.len() { end } else { 0 });
    }
    Ok(())
}

fn split_colons(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = c == '\\' && chars.peek() == Some(&':');
        match (c, parts.last_mut()) {
            (':', _) => parts.push(String::new()),
            (_, Some(part)) => part.push(if escaped { chars.next().unwrap_or(c) } else { c }),
            (_, None) => {}
        }
    }
    parts
}
