//! Keys, values and the engine's errors as JSON.

use firn_kv::Error;
use serde_json::{Map, Value, json};

use crate::escape;

/// Adds a key or value as a JSON field: as text if it is UTF-8, else in hexadecimal as `NAME_hex`.
pub fn put_field(object: &mut Map<String, Value>, name: &str, bytes: &[u8], hex: bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !hex => object.insert(name.to_owned(), Value::from(text)),
        _ => object.insert(format!("{name}_hex"), Value::from(escape::hex(bytes))),
    };
}

/// Returns an error of the engine as JSON, with all its context and the advice.
pub fn error(e: &Error, advice: &str) -> Value {
    let keys = e.key_range().map(|(a, b)| json!([escape::words(a), escape::words(b)]));
    json!({
        "kind": e.kind().name(),
        "message": e.message(),
        "tree": e.tree(),
        "file": e.file().map(|f| f.display().to_string()),
        "offset": e.offset(),
        "block": e.block_kind(),
        "keys": keys,
        "advice": advice,
    })
}
