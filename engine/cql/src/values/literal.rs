//! A value as CQL writes it.

use firn_wide::{Type, Wording};

use super::split;
use crate::syntax::quote_if_needed;

/// The literal that CQL reads back as this value; `null` for none. Bytes that are no value of the
/// type are shown as a blob.
pub fn literal(of: &Type, bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "null".into() };
    let of = of.unreversed();
    if of.validate(bytes).is_err() {
        return hex(bytes);
    }
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match of {
        Type::Utf8 | Type::Ascii => quoted(&String::from_utf8_lossy(bytes)),
        Type::Bytes => hex(bytes),
        Type::List(_)
        | Type::Set(_)
        | Type::Map(_)
        | Type::Vector(..)
        | Type::Tuple(_)
        | Type::Udt(_) => many(of, bytes),
        _ if bytes.is_empty() => "''".into(),
        Type::Timestamp
        | Type::Date
        | Type::SimpleDate
        | Type::Time
        | Type::Inet
        | Type::Composite(_)
        | Type::Custom(_) => quoted(&of.to_text(bytes, Wording::Cql)),
        _ => of.to_text(bytes, Wording::Cql),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("0x"), |mut out, b| {
        out.push_str(&format!("{b:02x}"));
        out
    })
}

fn many(of: &Type, bytes: &[u8]) -> String {
    // It was validated.
    let parts = split(of, bytes).unwrap_or_default();
    let all = |of: &Type| parts.iter().map(|p| literal(of, *p)).collect::<Vec<_>>().join(", ");
    match of {
        Type::Set(e) => format!("{{{}}}", all(e)),
        Type::Map(kv) => {
            let pair =
                |p: &[Option<&[u8]>]| format!("{}: {}", literal(&kv.0, p[0]), literal(&kv.1, p[1]));
            format!("{{{}}}", parts.chunks_exact(2).map(pair).collect::<Vec<_>>().join(", "))
        }
        Type::Tuple(types) => {
            let part = |(i, of)| literal(of, parts.get(i).copied().flatten());
            format!("({})", types.iter().enumerate().map(part).collect::<Vec<_>>().join(", "))
        }
        Type::Udt(udt) => {
            let field = |(i, (name, of)): (usize, &(String, Type))| {
                format!(
                    "{}: {}",
                    quote_if_needed(name),
                    literal(of, parts.get(i).copied().flatten())
                )
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
