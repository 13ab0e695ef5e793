//! JSON of values (`SELECT JSON`, `INSERT JSON`, `toJson`, `fromJson`).
//!
//! JSON is parsed as raw text, each part when its type is known, so numbers keep all of their
//! digits.
//!
//! Statements use Cassandra's form ([`json`], [`from_json`]), which cannot represent all values: a
//! NaN becomes null, and a year BC has no sign. Other variants are described by a [`JsonForm`].

use super::bytes::{PartStyle, render};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use firn_wide::internals::types::MAX_DIGITS;
use firn_wide::{Type, Wording};
use serde_json::value::RawValue;

use super::literal::hex;
use super::vector::put_vector;
use super::{BoundValue, Value, put_collection, put_tuple};
use crate::error::{Result, bail, invalid};

/// Quotes a text. As in Cassandra, control characters are escaped with upper-case hex digits.
fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\0'..' ' => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Parses a text as a value.
type FormReader = fn(&Type, &str) -> Option<Vec<u8>>;

/// Differences from Cassandra's JSON.
pub(super) struct JsonForm {
    /// Writes a value, which may be a part of another one. `None`: as Cassandra writes it.
    pub write: fn(&Type, &[u8]) -> Option<String>,
    /// Parses a string or key. Absent, or returning `None`: as Cassandra parses it.
    pub read: Option<FormReader>,
    /// Whether field names that begin with a quote are distinguished from quoted names.
    pub keeps_quotes: bool,
}

/// Cassandra's JSON.
const SERVERS: JsonForm = JsonForm { write: |_, _| None, read: None, keeps_quotes: false };

/// Returns the JSON of a value; `null` for none.
pub fn json(of: &Type, bytes: Option<&[u8]>) -> String {
    write(of, bytes, &SERVERS)
}

/// Like [`json`], in this form.
pub(super) fn write(of: &Type, bytes: Option<&[u8]>, form: &JsonForm) -> String {
    let Some(bytes) = bytes else { return "null".into() };
    let of = of.unreversed();
    if let Some(text) = (form.write)(of, bytes) {
        return text;
    }
    if bytes.is_empty() && !matches!(of, Type::Bytes | Type::Tuple(_) | Type::Udt(_)) {
        return "\"\"".into();
    }
    if of.has_parts() { many(of, bytes, form) } else { scalar(of, bytes) }
}

fn scalar(of: &Type, bytes: &[u8]) -> String {
    match of {
        Type::Utf8 | Type::Ascii => string(&String::from_utf8_lossy(bytes)),
        Type::Bytes => string(&hex(bytes)),
        Type::Int32
        | Type::Long
        | Type::Short
        | Type::Byte
        | Type::Integer
        | Type::Counter
        | Type::Boolean
        | Type::Decimal => match of.to_text(bytes, Wording::Cql) {
            // A number with more digits than are written.
            text if text.starts_with("0x") => string(&text),
            text => text,
        },
        Type::Float | Type::Double => match of.to_text(bytes, Wording::Cql) {
            // JSON has no such numbers.
            text if text.contains(['N', 'I']) => "null".into(),
            text => text,
        },
        _ => string(&server_text(of, bytes)),
    }
}

/// Returns a value as Cassandra writes it in JSON and in casts to text. It is as in CQL, with some
/// exceptions. An IPv6 address has all its zeros, or is written as IPv4 if it is a mapped one. A
/// year of more than four digits has a sign, and the year of a timestamp has no era.
pub fn server_text(of: &Type, bytes: &[u8]) -> String {
    match (of.unreversed(), <[u8; 16]>::try_from(bytes)) {
        (Type::Inet, Ok(address)) => {
            let address = Ipv6Addr::from(address);
            address.to_ipv4_mapped().map_or_else(
                || address.segments().map(|part| format!("{part:x}")).join(":"),
                |mapped| mapped.to_string(),
            )
        }
        (Type::SimpleDate, _) => {
            let text = of.to_text(bytes, Wording::Cql);
            match text.find('-') {
                Some(year) if year > 4 => format!("+{text}"),
                _ => text,
            }
        }
        (Type::Timestamp | Type::Date, _) => with_year_of_era(of.to_text(bytes, Wording::Cql)),
        _ => of.to_text(bytes, Wording::Cql),
    }
}

/// Writes the year as a year of the era: year 0 is 1 BC, and its number is 1.
fn with_year_of_era(text: String) -> String {
    let before = text.strip_prefix('-');
    let year_of = |(year, rest): (&str, &str)| {
        let year: i64 = year.parse().ok()?;
        let year = if before.is_some() || year == 0 { year + 1 } else { year };
        let sign = if year > 9999 { "+" } else { "" };
        Some(format!("{sign}{year:04}-{rest}"))
    };
    let parts = before.unwrap_or(&text).split_once('-');
    parts.and_then(year_of).unwrap_or(text)
}

fn many(of: &Type, bytes: &[u8], form: &JsonForm) -> String {
    let style = PartStyle {
        brackets: |of| match of {
            Type::Map(_) | Type::Udt(_) => ['{', '}'],
            _ => ['[', ']'],
        },
        part: &|of, part| write(of, part, form),
        // Keys are strings: other values are written in quotes.
        key: |key| if key.starts_with('"') { key } else { string(&key) },
        field: &|name| {
            let is_taken_apart = form.keeps_quotes && name.starts_with('"');
            match name.chars().any(char::is_uppercase) || is_taken_apart {
                true => string(&format!("\"{name}\"")),
                false => string(name),
            }
        },
    };
    render(of, bytes, &style).unwrap_or_else(|_| "null".into())
}

/// Kind of a JSON value, determined by its first character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonKind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

fn kind_of(value: &RawValue) -> JsonKind {
    match value.get().as_bytes().first() {
        Some(b'"') => JsonKind::String,
        Some(b'[') => JsonKind::Array,
        Some(b'{') => JsonKind::Object,
        Some(b't' | b'f') => JsonKind::Boolean,
        Some(b'n') | None => JsonKind::Null,
        _ => JsonKind::Number,
    }
}

/// Returns `a String: x`, as messages show a value.
fn described(value: &RawValue) -> String {
    let text = value.get();
    let word = match kind_of(value) {
        JsonKind::Null => "null",
        JsonKind::Boolean => "Boolean",
        JsonKind::Number if text.contains(['.', 'e', 'E']) => "Double",
        JsonKind::Number if text.parse::<i32>().is_ok() => "Integer",
        JsonKind::Number if text.parse::<i64>().is_ok() => "Long",
        JsonKind::Number => "BigInteger",
        JsonKind::String => "String",
        JsonKind::Array => "ArrayList",
        JsonKind::Object => "LinkedHashMap",
    };
    format!("a {word}: {}", bare(value))
}

/// Returns the text of a string, or the JSON of any other value.
fn bare(value: &RawValue) -> String {
    parsed::<String>(value).unwrap_or_else(|_| value.get().to_owned())
}

fn parsed<'a, T: serde::Deserialize<'a>>(value: &'a RawValue) -> Result<T> {
    serde_json::from_str(value.get())
        .map_err(|e| invalid!("Could not decode JSON string '{value}': {e}"))
}

/// Reports whether it is `null`.
pub fn is_null(value: &RawValue) -> bool {
    kind_of(value) == JsonKind::Null
}

/// Converts a JSON value to a value of the type.
///
/// # Errors
/// `Expected …, but got …`, `Unable to make int from '…'` and similar.
pub fn from_json(of: &Type, value: &RawValue) -> Result<BoundValue> {
    read(of, value, &SERVERS)
}

/// Like [`from_json`], in this form.
///
/// # Errors
/// Those of [`from_json`].
pub(super) fn read(of: &Type, value: &RawValue, form: &JsonForm) -> Result<BoundValue> {
    let of = of.unreversed();
    if is_null(value) {
        return Ok(BoundValue::Null);
    }
    if let Some(read) = form.read
        && kind_of(value) == JsonKind::String
        && let Some(bytes) = read(of, &parsed::<String>(value)?)
    {
        return Ok(BoundValue::Bytes(bytes));
    }
    let text = |what: &str| match kind_of(value) {
        JsonKind::String => Value::Text(parsed(value)?).encode(of),
        _ => Err(invalid!("Expected a {what}, but got {}", described(value))),
    };
    match of {
        Type::Utf8 => text("UTF-8 string"),
        Type::Ascii => text("ascii string"),
        Type::Boolean => match value.get().trim_matches('"').to_ascii_lowercase().as_str() {
            "true" => Value::Boolean(true).encode(of),
            "false" => Value::Boolean(false).encode(of),
            _ => Err(invalid!("Expected a boolean value, but got {}", described(value))),
        },
        Type::Bytes => {
            let text: Option<String> = parsed(value).ok();
            let hex = text
                .as_deref()
                .and_then(|s| s.strip_prefix("0x"))
                .map(firn_wide::internals::types::hex_to_bytes);
            match hex {
                Some(Ok(bytes)) => Ok(BoundValue::Bytes(bytes)),
                _ => Err(invalid!(
                    "Value '{value}' is not a valid blob representation: String representation of blob is missing 0x prefix"
                )),
            }
        }
        Type::Int32 => number("an int value", "int", of, value),
        Type::Long | Type::Counter => number("a bigint value", "long", of, value),
        Type::Short => number("a short value", "short", of, value),
        Type::Byte => number("a byte value", "byte", of, value),
        Type::Float => number("a float value", "float", of, value),
        Type::Double => number("a double value", "double", of, value),
        Type::Integer | Type::Decimal => {
            let text = bare(value);
            let read = super::value::bytes_of_text(of, &text);
            if text.len() > MAX_DIGITS {
                // The error has the reason; showing the text would not help.
                return read.map(BoundValue::Bytes);
            }
            let read = read.ok().filter(|_| *of == Type::Decimal || !text.is_empty());
            let wrong = || {
                invalid!(
                    "Value '{text}' is not a valid representation of a {} value",
                    of.cql_name()
                )
            };
            read.map(BoundValue::Bytes).ok_or_else(wrong)
        }
        Type::Timestamp | Type::Date => moment(of, value),
        Type::SimpleDate => text("string representation of a date value"),
        Type::Time => text("string representation of a time value"),
        _ if of.has_parts() => from_parts(of, value, form),
        Type::Inet => text("string representation of an inet value"),
        _ => text(&format!("string representation of a {}", of.cql_name())),
    }
}

/// Parses a number, or a number in a string; `wanted` and `word` name it in messages.
fn number(wanted: &str, word: &str, of: &Type, value: &RawValue) -> Result<BoundValue> {
    let other = || invalid!("Expected {wanted}, but got {}", described(value));
    let text = match kind_of(value) {
        JsonKind::String => parsed(value)?,
        JsonKind::Number => value.get().to_owned(),
        _ => return Err(other()),
    };
    super::value::bytes_of_text(of, &text).map(BoundValue::Bytes).map_err(|_| {
        match kind_of(value) {
            JsonKind::Number => other(),
            _ => invalid!("Unable to make {word} from '{text}'"),
        }
    })
}

/// Parses milliseconds, or a date in a string.
fn moment(of: &Type, value: &RawValue) -> Result<BoundValue> {
    let text = bare(value);
    let other = || {
        invalid!(
            "Expected a long or a datestring representation of a timestamp value, but got {}",
            described(value)
        )
    };
    match kind_of(value) {
        JsonKind::String => {
            let read = super::value::bytes_of_text(of, &text).map(BoundValue::Bytes);
            read.map_err(|_| invalid!("Unable to parse a date/time from '{text}'"))
        }
        JsonKind::Number if text.parse::<i64>().is_ok() => {
            super::value::bytes_of_text(of, &text).map(BoundValue::Bytes)
        }
        _ => Err(other()),
    }
}

/// Parses a part of a collection, which must not be null; `what` names the part and the collection.
fn element(of: &Type, value: &RawValue, what: [&str; 2], form: &JsonForm) -> Result<Vec<u8>> {
    match read(of, value, form)? {
        BoundValue::Bytes(bytes) => Ok(bytes),
        _ => Err(invalid!("Invalid null {} in {}", what[0], what[1])),
    }
}

/// Parses the key of an object as a map key: texts as they are, other types as JSON in a text.
fn key_of(of: &Type, key: &str, form: &JsonForm) -> Result<Vec<u8>> {
    if let Some(bytes) = form.read.and_then(|read| read(of, key)) {
        return Ok(bytes);
    }
    let inner = serde_json::from_str::<&RawValue>(key)
        .ok()
        .filter(|_| !matches!(of, Type::Utf8 | Type::Ascii));
    match inner {
        Some(value) => element(of, value, ["key", "map"], form),
        None => element(
            of,
            &RawValue::from_string(string(key)).map_err(|e| invalid(e.to_string()))?,
            ["key", "map"],
            form,
        ),
    }
}

/// Parses a collection, tuple or user type; a string contains JSON.
fn from_parts(of: &Type, value: &RawValue, form: &JsonForm) -> Result<BoundValue> {
    let decoded: Box<RawValue>;
    let value = match kind_of(value) {
        JsonKind::String => {
            let text: String = parsed(value)?;
            let inner = serde_json::from_str(&text)
                .map_err(|e| invalid!("Error decoding JSON string: {e}"));
            decoded = inner?;
            if is_null(&decoded) {
                return Ok(BoundValue::Null);
            }
            &*decoded
        }
        _ => value,
    };
    let optional = |of: &Type, value: &RawValue| Ok(read(of, value, form)?.into_bytes());
    let wrong = |what: &str| Err(invalid!("Expected a {what}, but got {}", described(value)));
    Ok(BoundValue::Bytes(match (of, kind_of(value)) {
        (Type::List(e) | Type::Set(e), JsonKind::Array) => {
            let all: Vec<&RawValue> = parsed(value)?;
            let what = ["element", if matches!(of, Type::Set(_)) { "set" } else { "list" }];
            put_collection(
                of,
                &all.iter().map(|v| element(e, v, what, form)).collect::<Result<Vec<_>>>()?,
            )?
        }
        (Type::Vector(e, count), JsonKind::Array) => {
            let all: Vec<&RawValue> = parsed(value)?;
            if all.len() != *count as usize {
                let shown: Vec<String> = all.iter().map(|v| bare(v)).collect();
                bail!(
                    "List had incorrect size: expected {count} but given {}; [{}]",
                    all.len(),
                    shown.join(", ")
                );
            }
            let parts = all.iter().map(|v| element(e, v, ["element", "list"], form));
            put_vector(e, &parts.collect::<Result<Vec<_>>>()?)
        }
        (Type::Map(kv), JsonKind::Object) => {
            let mut parts = vec![];
            for (key, value) in parsed::<BTreeMap<String, &RawValue>>(value)? {
                parts.push(key_of(&kv.0, &key, form)?);
                parts.push(element(&kv.1, value, ["value", "map"], form)?);
            }
            put_collection(of, &parts)?
        }
        (Type::Tuple(types), JsonKind::Array) => {
            let all: Vec<&RawValue> = parsed(value)?;
            if all.len() != types.len() {
                let many = if all.len() > types.len() { "contains extra" } else { "is missing" };
                let shown: Vec<String> = all.iter().map(|v| bare(v)).collect();
                bail!("Tuple {many} items (expected {}): [{}]", types.len(), shown.join(", "));
            }
            put_tuple(
                &types.iter().zip(all).map(|(t, v)| optional(t, v)).collect::<Result<Vec<_>>>()?,
            )?
        }
        (Type::Udt(udt), JsonKind::Object) => {
            let all: BTreeMap<String, &RawValue> = parsed(value)?;
            let name = |n: &str| {
                n.strip_prefix('"')
                    .and_then(|n| n.strip_suffix('"'))
                    .map_or_else(|| n.to_lowercase(), str::to_owned)
            };
            if let Some(unknown) = all.keys().find(|k| !udt.fields.iter().any(|f| f.0 == name(k))) {
                bail!("Unknown field '{unknown}' in value of user defined type {}", udt.name);
            }
            let field = |(n, of): &(String, Type)| {
                all.iter().find(|(k, _)| name(k) == *n).map_or(Ok(None), |(_, v)| optional(of, v))
            };
            put_tuple(&udt.fields.iter().map(field).collect::<Result<Vec<_>>>()?)?
        }
        (Type::List(_) | Type::Vector(..), _) => return wrong("list"),
        (Type::Set(_), _) => return wrong("list (representing a set)"),
        (Type::Map(_), _) => return wrong("map"),
        (Type::Tuple(_), _) => return wrong("list representation of a tuple"),
        _ => return wrong("map"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of Cassandra 5.0.9.
    #[test]
    fn years_of_timestamps_have_no_era() {
        for (millis, text) in [
            (9_223_372_036_854_775_i64, "+294247-01-10 04:00:54.775Z"),
            (-99_999_999_999_999, "1200-02-15 14:13:20.001Z"),
            (1_767_323_045_678, "2026-01-02 03:04:05.678Z"),
            (0, "1970-01-01 00:00:00.000Z"),
        ] {
            assert_eq!(server_text(&Type::Timestamp, &millis.to_be_bytes()), text);
        }
        assert_eq!(server_text(&Type::Timestamp, &[1, 2]), "0102");
    }
}
