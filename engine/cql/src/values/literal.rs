//! CQL literals of values.

use firn_wide::{Type, Wording};

use super::split;
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
    // The value is already validated.
    let parts = split(of, bytes).unwrap_or_default();
    let part = |of: &Type, part: Option<&[u8]>| literal_of(of, part, constant);
    let all = |of: &Type| parts.iter().map(|p| part(of, *p)).collect::<Vec<_>>().join(", ");
    match of {
        Type::Set(e) => format!("{{{}}}", all(e)),
        Type::Map(kv) => {
            let pair =
                |p: &[Option<&[u8]>]| format!("{}: {}", part(&kv.0, p[0]), part(&kv.1, p[1]));
            format!("{{{}}}", parts.chunks_exact(2).map(pair).collect::<Vec<_>>().join(", "))
        }
        Type::Tuple(types) => {
            let component = |(i, of)| part(of, parts.get(i).copied().flatten());
            format!("({})", types.iter().enumerate().map(component).collect::<Vec<_>>().join(", "))
        }
        Type::Udt(udt) => {
            let field = |(i, (name, of)): (usize, &(String, Type))| {
                format!("{}: {}", quote_if_needed(name), part(of, parts.get(i).copied().flatten()))
            };
            format!(
                "{{{}}}",
                udt.fields.iter().enumerate().map(field).collect::<Vec<_>>().join(", ")
            )
        }
        Type::List(e) | Type::Vector(e, _) => format!("[{}]", all(e)),
        _ => hex(bytes),
    }
}
