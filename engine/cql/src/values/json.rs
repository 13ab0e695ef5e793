//! Values as JSON (`SELECT JSON`, `INSERT JSON`, `toJson`, `fromJson`).

use firn_wide::types::{Type, Wording};
use serde_json::Value as Json;

use super::{Bound, Value, put_collection, put_tuple, split};
use crate::error::{Result, invalid};

fn string(text: &str) -> String {
    Json::from(text).to_string()
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

fn unable(what: &str, value: &Json) -> crate::error::Error {
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    invalid(format!("Unable to make {what} from '{shown}'"))
}

/// The value of the type that a JSON value means.
///
/// # Errors
/// `Expected …, but got …`, `Unable to make int from '…'` and the like.
pub fn from_json(of: &Type, value: &Json) -> Result<Bound> {
    let of = of.unreversed();
    if value.is_null() {
        return Ok(Bound::Null);
    }
    let text = |what: &str| match value {
        Json::String(text) => Value::Text(text.clone()).encode(of),
        other => Err(invalid(format!("Expected a {what}, but got a {}: {other}", kind(other)))),
    };
    match of {
        Type::Utf8 => text("UTF-8 string"),
        Type::Ascii => text("ascii string"),
        Type::Boolean => match value {
            Json::Bool(b) => Value::Boolean(*b).encode(of),
            Json::String(s) if s.eq_ignore_ascii_case("true") || s.eq_ignore_ascii_case("false") => {
                Value::Boolean(s.eq_ignore_ascii_case("true")).encode(of)
            }
            other => Err(invalid(format!("Expected a boolean value, but got a {}: {other}", kind(other)))),
        },
        Type::Bytes => {
            let hex = value.as_str().and_then(|s| s.strip_prefix("0x")).map(firn_wide::types::hex_to_bytes);
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

fn number(what: &str, of: &Type, value: &Json) -> Result<Bound> {
    let text = match value {
        Json::String(s) => s.clone(),
        Json::Number(n) => n.to_string(),
        other => return Err(invalid(format!("Expected a {what} value, but got a {}: {other}", kind(other)))),
    };
    super::value::bytes_of_text(of, &text).map(Bound::Bytes).map_err(|_| unable(what, value))
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "Boolean",
        Json::Number(n) if n.is_f64() => "Double",
        Json::Number(_) => "Integer",
        Json::String(_) => "String",
        Json::Array(_) => "ArrayList",
        Json::Object(_) => "LinkedHashMap",
    }
}

fn from_parts(of: &Type, value: &Json) -> Result<Bound> {
    let element = |of: &Type, value: &Json| match from_json(of, value)? {
        Bound::Bytes(bytes) => Ok(bytes),
        _ => Err(invalid(format!("Invalid null element in {}", of.cql_name()))),
    };
    let optional = |of: &Type, value: &Json| Ok(from_json(of, value)?.bytes().map(<[u8]>::to_vec));
    let wrong = |what: &str| Err(invalid(format!("Expected a {what}, but got a {}: {value}", kind(value))));
    Ok(Bound::Bytes(match (of, value) {
        (Type::List(e) | Type::Set(e), Json::Array(all)) => {
            put_collection(of, &all.iter().map(|v| element(e, v)).collect::<Result<Vec<_>>>()?)?
        }
        (Type::Map(kv), Json::Object(all)) => {
            let mut parts = vec![];
            for (key, value) in all {
                let text = Json::from(key.as_str());
                // Keys of other types are JSON in a text.
                let inner = serde_json::from_str::<Json>(key).ok().filter(|_| !matches!(kv.0, Type::Utf8 | Type::Ascii));
                parts.push(element(&kv.0, inner.as_ref().unwrap_or(&text))?);
                parts.push(element(&kv.1, value)?);
            }
            put_collection(of, &parts)?
        }
        (Type::Tuple(types), Json::Array(all)) if all.len() == types.len() => {
            put_tuple(&types.iter().zip(all).map(|(t, v)| optional(t, v)).collect::<Result<Vec<_>>>()?)?
        }
        (Type::Tuple(types), Json::Array(all)) => {
            let many = if all.len() > types.len() { "contains extraneous" } else { "is missing" };
            return Err(invalid(format!("Tuple {many} items: expected {} but got {}", types.len(), all.len())));
        }
        (Type::Udt(udt), Json::Object(all)) => {
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
