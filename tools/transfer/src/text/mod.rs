//! Text formats: TSV, CSV, JSON lines and deb822, as records of named fields, or of one key and one
//! value.

mod fields;
mod record;

pub use fields::{FieldReader, Fields};
pub use record::{
    Choice, Coding, Format, MAX_LINE, Record, RecordLines, RecordTrouble, RecordValues, Records,
};

use firn_cql::internals::values::{from_exported_json, from_plain};
use firn_wide::Type;

/// Parses a field of a text file as a value of a CQL type. `is_json`: the field is from JSON, where
/// a text may be JSON or a CQL literal.
///
/// # Errors
/// The reason if the field is not a value of the type.
pub fn from_field(of: &Type, field: &[u8], is_json: bool) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(field).map_err(|_| "it is not UTF-8".to_owned())?;
    if is_json
        && of.has_parts()
        && let Ok(value) = serde_json::from_str(text)
    {
        let read =
            from_exported_json(of, value).map(|value| value.into_bytes().unwrap_or_default());
        return read.or_else(|why| from_plain(of, text).map_err(|_| why.to_string()));
    }
    from_plain(of, text).map_err(|e| e.to_string())
}

/// Reports whether a field belongs to a column: the same name, ignoring case and `-` for `_`.
pub fn is_same_name(column: &str, field: &[u8]) -> bool {
    let same =
        |(a, b): (u8, &u8)| a == *b || a == b.to_ascii_lowercase() || (a == b'_' && *b == b'-');
    column.len() == field.len() && column.bytes().zip(field).all(same)
}
