//! Values as JSON (`SELECT JSON`, `INSERT JSON`, `toJson`, `fromJson`).
//!
//! JSON is read as the text that it is, each part when its type is known: numbers keep all of their digits.

use std::collections::BTreeMap;

use firn_wide::types::{Type, Wording};
use serde_json::value::RawValue;

use super::{Bound, Value, put_collection, put_tuple, split};
use crate::error::{Result, invalid};

fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The JSON text of a value; `null` for none.
pub fn json(of: &Type, bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "null".into() };
    let of = of.unreversed();
    if bytes.is_empty() && !matches!(of, Type::Bytes | Type::Tuple(_) | Type::Udt(_)) {
        return "\"\"".into();
    }
    match of {
        Type::Utf8 | Type::Ascii => string(&String::from_utf8_lossy(bytes)),
        Type::Bytes => string(&super::literal(of, Some(bytes))),
        Type::Int32 | Type::Long | Type::Short | Type::Byte | Type::Integer | Type::Counter | Type::Boolean | Type::Decimal => {
            of.to_text(bytes, Wording::Cql)
        }
        Type::Float | Type::Double => match of.to_text(bytes, Wording::Cql) {
            // JSON has no such numbers.
            text if text.contains(['N', 'I']) => "null".into(),
            text => text,
        },
        Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Tuple(_) | Type::Udt(_) => many(of, bytes),
        _ => string(&of.to_text(bytes, Wording::Cql)),
    }
}

fn many(of: &Type, bytes: &[u8]) -> String {
    let Ok(parts) = split(of, bytes) else { return "null".into() };
    let list = |texts: Vec<String>| format!("[{}]", texts.join(", "));
    let object = |texts: Vec<String>| format!("{{{}}}", texts.join(", "));
    let part = |i: usize| parts.get(i).copied().flatten();
    // Keys of objects are texts.
    let key = |text: String| if text.starts_with('"') { text } else { string(&text) };
    match of {
        Type::List(e) | Type::Set(e) => list(parts.iter().map(|p| json(e, *p)).collect()),
        Type::Map(kv) => {
            let pair = |p: &[Option<&[u8]>]| format!("{}: {}", key(json(&kv.0, p[0])), json(&kv.1, p[1]));
            object(parts.chunks_exact(2).map(pair).collect())
        }
        Type::Tuple(types) => list(types.iter().enumerate().map(|(i, of)| json(of, part(i))).collect()),
        Type::Udt(udt) => {
            let name = |n: &str| if n.chars().any(char::is_uppercase) { string(&format!("\"{n}\"")) } else { string(n) };
            let fields = udt.fields.iter().enumerate();
            object(fields.map(|(i, (n, of))| format!("{}: {}", name(n), json(of, part(i)))).collect())
        }
        _ => "null".into(),
    }
}

/// What a JSON value is, by its first letter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

fn kind_of(value: &RawValue) -> Kind {
    match value.get().as_bytes().first() {
        Some(b'"') => Kind::String,
        Some(b'[') => Kind::Array,
        Some(b'{') => Kind::Object,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'n') | None => Kind::Null,
        _ => Kind::Number,
    }
}

/// `a String: "x"`, as messages of what was met have it.
fn met(value: &RawValue) -> String {
    let text = value.get();
    let word = match kind_of(value) {
        Kind::Null => "null",
        Kind::Boolean => "Boolean",
        Kind::Number if text.contains(['.', 'e', 'E']) => "Double",
        Kind::Number => "Integer",
        Kind::String => "String",
        Kind::Array => "ArrayList",
        Kind::Object => "LinkedHashMap",
    };
    format!("a {word}: {text}")
}

fn parsed<'a, T: serde::Deserialize<'a>>(value: &'a RawValue) -> Result<T> {
    serde_json::from_str(value.get()).map_err(|e| invalid(format!("Could not decode JSON string '{value}': {e}")))
}

/// Whether it is `null`.
pub fn is_null(value: &RawValue) -> bool {
    kind_of(value) == Kind::Null
}

/// The value of the type that a JSON value means.
///
/// # Errors
/// `Expected …, but got …`, `Unable to make int from '…'` and the like.
pub fn from_json(of: &Type, value: &RawValue) -> Result<Bound> {
    let of = of.unreversed();
    if is_null(value) {
        return Ok(Bound::Null);
    }
    let text = |what: &str| match kind_of(value) {
        Kind::String => Value::Text(parsed(value)?).encode(of),
        _ => Err(invalid(format!("Expected a {what}, but got {}", met(value)))),
    };
    match of {
        Type::Utf8 => text("UTF-8 string"),
        Type::Ascii => text("ascii string"),
        Type::Boolean => match value.get().trim_matches('"').to_ascii_lowercase().as_str() {
            "true" => Value::Boolean(true).encode(of),
            "false" => Value::Boolean(false).encode(of),
            _ => Err(invalid(format!("Expected a boolean value, but got {}", met(value)))),
        },
        Type::Bytes => {
            let text: Option<String> = parsed(value).ok();
            let hex = text.as_deref().and_then(|s| s.strip_prefix("0x")).map(firn_wide::types::hex_to_bytes);
            match hex {
                Some(Ok(bytes)) => Ok(Bound::Bytes(bytes)),
                _ => Err(invalid(format!(
                    "Value '{value}' is not a valid blob representation: String representation of blob is missing 0x prefix"
                ))),
            }
        }
        Type::Int32 => number("int", of, value),
        Type::Long | Type::Counter => number("long", of, value),
        Type::Short => number("short", of, value),
        Type::Byte => number("byte", of, value),
        Type::Integer => number("varint", of, value),
        Type::Decimal => number("BigDecimal", of, value),
        Type::Float => number("float", of, value),
        Type::Double => number("double", of, value),
        Type::Timestamp | Type::Date | Type::SimpleDate | Type::Time => number("date", of, value),
        Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Tuple(_) | Type::Udt(_) => from_parts(of, value),
        _ => text(&format!("string representation of {}", of.cql_name())),
    }
}

fn number(what: &str, of: &Type, value: &RawValue) -> Result<Bound> {
    let text = match kind_of(value) {
        Kind::String => parsed(value)?,
        Kind::Number => value.get().to_owned(),
        _ => return Err(invalid(format!("Expected a {what} value, but got {}", met(value)))),
    };
    let bytes = super::value::bytes_of_text(of, &text);
    bytes.map(Bound::Bytes).map_err(|_| invalid(format!("Unable to make {what} from '{text}'")))
}

fn element(of: &Type, value: &RawValue) -> Result<Vec<u8>> {
    match from_json(of, value)? {
        Bound::Bytes(bytes) => Ok(bytes),
        _ => Err(invalid(format!("Invalid null element in {}", of.cql_name()))),
    }
}

/// The key of an object as a key of this type: texts as they are, others are JSON in a text.
fn key_of(of: &Type, key: &str) -> Result<Vec<u8>> {
    let inner = serde_json::from_str::<&RawValue>(key).ok().filter(|_| !matches!(of, Type::Utf8 | Type::Ascii));
    match inner {
        Some(value) => element(of, value),
        None => element(of, &RawValue::from_string(string(key)).map_err(|e| invalid(e.to_string()))?),
    }
}

fn from_parts(of: &Type, value: &RawValue) -> Result<Bound> {
    let optional = |of: &Type, value: &RawValue| Ok(from_json(of, value)?.bytes().map(<[u8]>::to_vec));
    let wrong = |what: &str| Err(invalid(format!("Expected a {what}, but got {}", met(value))));
    Ok(Bound::Bytes(match (of, kind_of(value)) {
        (Type::List(e) | Type::Set(e), Kind::Array) => {
            let all: Vec<&RawValue> = parsed(value)?;
            put_collection(of, &all.iter().map(|v| element(e, v)).collect::<Result<Vec<_>>>()?)?
        }
        (Type::Map(kv), Kind::Object) => {
            let mut parts = vec![];
            for (key, value) in parsed::<BTreeMap<String, &RawValue>>(value)? {
                parts.push(key_of(&kv.0, &key)?);
                parts.push(element(&kv.1, value)?);
            }
            put_collection(of, &parts)?
        }
        (Type::Tuple(types), Kind::Array) => {
            let all: Vec<&RawValue> = parsed(value)?;
            if all.len() != types.len() {
                let many = if all.len() > types.len() { "contains extraneous" } else { "is missing" };
                return Err(invalid(format!("Tuple {many} items: expected {} but got {}", types.len(), all.len())));
            }
            put_tuple(&types.iter().zip(all).map(|(t, v)| optional(t, v)).collect::<Result<Vec<_>>>()?)?
        }
        (Type::Udt(udt), Kind::Object) => {
            let all: BTreeMap<String, &RawValue> = parsed(value)?;
            let name =
                |n: &str| n.strip_prefix('"').and_then(|n| n.strip_suffix('"')).map_or_else(|| n.to_lowercase(), str::to_owned);
            if let Some(unknown) = all.keys().find(|k| !udt.fields.iter().any(|f| f.0 == name(k))) {
                return Err(invalid(format!("Found unknown field(s) in UDT definition {}: {unknown}", udt.name)));
            }
            let field =
                |(n, of): &(String, Type)| all.iter().find(|(k, _)| name(k) == *n).map_or(Ok(None), |(_, v)| optional(of, v));
            put_tuple(&udt.fields.iter().map(field).collect::<Result<Vec<_>>>()?)?
        }
        (Type::List(_), _) => return wrong("list"),
        (Type::Set(_), _) => return wrong("list (representing a set)"),
        (Type::Map(_), _) => return wrong("map"),
        (Type::Tuple(_), _) => return wrong("list representation of tuple"),
        _ => return wrong("map"),
    }))
}
