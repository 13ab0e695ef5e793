//! CQL literals of values.

use firn_wide::{Type, Wording};

use super::bytes::{PartStyle, render};
use crate::syntax::quote_if_needed;

/// Returns the CQL literal of a value; `null` for none. Bytes that are not a valid value of the
/// type are shown as a blob.
pub fn literal(of: &Type, bytes: Option<&[u8]>) -> String {
    literal_of(of, bytes, constant)
}

/// Like [`literal`], with another format for valid scalar values.
pub(super) fn literal_of(
    of: &Type,
    bytes: Option<&[u8]>,
    constant: fn(&Type, &[u8]) -> String,
) -> String {
    let Some(bytes) = bytes else { return "null".into() };
    let of = of.unreversed();
    if of.validate(bytes).is_err() {
        return hex(bytes);
    }
    if of.has_parts() { many(of, bytes, constant) } else { constant(of, bytes) }
}

/// Quotes a text in CQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Reports whether constants of the type are quoted.
pub(super) fn is_quoted(of: &Type) -> bool {
    matches!(
        of,
        Type::Utf8
            | Type::Ascii
            | Type::Timestamp
            | Type::Date
            | Type::SimpleDate
            | Type::Time
            | Type::Inet
            | Type::Composite(_)
            | Type::Dynamic(_)
            | Type::Custom(_)
    )
}

fn constant(of: &Type, bytes: &[u8]) -> String {
    match of {
        Type::Bytes => hex(bytes),
        _ if bytes.is_empty() => "''".into(),
        _ if is_quoted(of) => quoted(&of.to_text(bytes, Wording::Cql)),
        _ => of.to_text(bytes, Wording::Cql),
    }
}

/// Returns the bytes as a blob literal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("0x"), |mut out, b| {
        out.push_str(&format!("{b:02x}"));
        out
    })
}

fn many(of: &Type, bytes: &[u8], constant: fn(&Type, &[u8]) -> String) -> String {
    let style = PartStyle {
        brackets: |of| match of {
            Type::Tuple(_) => ['(', ')'],
            Type::List(_) | Type::Vector(..) => ['[', ']'],
            _ => ['{', '}'],
        },
        part: &|of, part| literal_of(of, part, constant),
        key: |key| key,
        field: &|name| quote_if_needed(name).into_owned(),
    };
    // The value is already validated.
    render(of, bytes, &style).unwrap_or_else(|_| hex(bytes))
}
