//! Plain text of values outside CQL, such as in a cell of a CSV file.
//!
//! Invariant: [`from_plain`] restores the bytes of every value from the output of [`plain`]. There
//! is one exception: a tuple or user type with missing fields at its end, written before a field
//! was added, gets nulls for them. If the usual text is invalid or means another value, [`plain`]
//! writes the bytes in hex, which [`from_plain`] accepts for all types except texts.

use firn_wide::{Type, Wording};

use super::literal::{hex, is_quoted, literal_of, quoted};
use super::value::bytes_of_text;
use super::{BoundTerm, Context, Receiver, put_many, server_text};
use crate::catalog::Catalog;
use crate::error::{Result, bail, invalid};
use crate::syntax::ast::{ConstantKind, Term, TermKind, TermPrimary};
use crate::syntax::parse_term;

/// Returns a value without the quotes of a literal: texts unchanged, blobs as `0x…`, collections,
/// tuples and user types as literals. Timestamps before year 1 and after year 9999, whose years
/// Cassandra writes differently, are milliseconds since 1970. A value whose text would not be read
/// back is `0x…`: an empty one, or an unusual NaN.
pub fn plain(of: &Type, bytes: &[u8]) -> String {
    let of = of.unreversed();
    match of {
        Type::Tuple(_) | Type::Udt(_) if bytes.is_empty() => hex(bytes),
        _ if of.has_parts() => literal_of(of, Some(bytes), part),
        _ => scalar(of, bytes),
    }
}

fn is_text(of: &Type) -> bool {
    matches!(of, Type::Utf8 | Type::Ascii)
}

/// Returns the text of a scalar value.
fn scalar(of: &Type, bytes: &[u8]) -> String {
    if *of == Type::Bytes {
        return hex(bytes);
    }
    let usual = of.to_text(bytes, Wording::Cql);
    let text = match (of, <[u8; 8]>::try_from(bytes)) {
        _ if is_text(of) && of.validate(bytes).is_ok() => return usual,
        // Cassandra writes the year with another number or sign.
        (Type::Timestamp | Type::Date, Ok(millis)) if server_text(of, bytes) != usual => {
            i64::from_be_bytes(millis).to_string()
        }
        (Type::Duration, _) if usual.is_empty() => "0s".into(),
        _ => usual,
    };
    // The parser takes texts that begin with `0x` as hex.
    let is_whole = !text.is_empty()
        && !text.starts_with("0x")
        && from_scalar(of, &text).is_ok_and(|read| read == bytes);
    if is_whole { text } else { hex(bytes) }
}

/// Returns the text of a scalar value inside another value.
fn part(of: &Type, bytes: &[u8]) -> String {
    let text = scalar(of, bytes);
    let is_hex = text.starts_with("0x") && !is_text(of);
    if is_quoted(of) && !is_hex { quoted(&text) } else { text }
}

/// Parses a text outside CQL: the inverse of [`plain`].
///
/// # Errors
/// `Invalid` if the text is not a value of the type.
pub fn from_plain(of: &Type, text: &str) -> Result<Vec<u8>> {
    let of = of.unreversed();
    if of.has_parts() && !text.starts_with("0x") {
        return from_term(of, &parse_term(text)?);
    }
    from_scalar(of, text)
}

/// Parses a scalar value, or the bytes of any value in hex.
fn from_scalar(of: &Type, text: &str) -> Result<Vec<u8>> {
    let bytes = match text.strip_prefix("0x") {
        Some(digits) if !is_text(of) => bytes_of_text(&Type::Bytes, digits)?,
        _ if *of == Type::Bytes => bail!("a blob must begin with 0x"),
        _ => bytes_of_text(of, text)?,
    };
    of.validate(&bytes).map_err(|e| invalid(e.0))?;
    Ok(bytes)
}

/// Evaluates a literal, which may contain hex where CQL does not accept it.
fn from_term(of: &Type, term: &Term<'_>) -> Result<Vec<u8>> {
    let of = of.unreversed();
    let part = |(of, term): (&Type, &Term<'_>)| match &term.kind {
        TermKind::Primary(TermPrimary::Null) => Ok(None),
        _ => from_term(of, term).map(Some),
    };
    let all = |of: &Type, terms: &[Term<'_>]| {
        terms.iter().map(|term| part((of, term))).collect::<Result<Vec<_>>>()
    };
    let parts = match (&term.kind, of) {
        (TermKind::Primary(TermPrimary::Constant(c)), _)
            if c.kind == ConstantKind::Hex && !is_text(of) =>
        {
            return from_plain(of, &c.text);
        }
        (TermKind::List(terms), Type::List(e)) | (TermKind::Set(terms), Type::Set(e)) => {
            all(e, terms)?
        }
        (TermKind::List(terms), Type::Vector(e, count)) if terms.len() == *count as usize => {
            all(e, terms)?
        }
        (TermKind::Map(pairs), Type::Map(kv)) => pairs
            .iter()
            .flat_map(|(key, value)| [(&kv.0, key), (&kv.1, value)])
            .map(part)
            .collect::<Result<_>>()?,
        (TermKind::Tuple(terms), Type::Tuple(types)) if terms.len() <= types.len() => {
            types.iter().zip(terms).map(part).collect::<Result<_>>()?
        }
        (TermKind::Primary(TermPrimary::User(fields)), Type::Udt(udt))
            if fields.iter().all(|(name, _)| udt.fields.iter().any(|f| f.0 == name.text)) =>
        {
            let field = |(name, of): &(String, Type)| {
                let given = fields.iter().find(|(n, _)| n.text == *name);
                given.map_or(Ok(None), |(_, term)| part((of, term)))
            };
            udt.fields.iter().map(field).collect::<Result<_>>()?
        }
        _ => return constant(of, term),
    };
    put_many(of, parts)
}

/// Evaluates a constant as CQL does.
fn constant(of: &Type, term: &Term<'_>) -> Result<Vec<u8>> {
    let catalog = Catalog::default();
    let mut context = Context::new(&catalog, "", Default::default());
    let receiver = Receiver::without_table("value", of.clone());
    match BoundTerm::prepare(term, &receiver, &mut context)? {
        BoundTerm::Constant(Some(bytes)) => Ok(bytes),
        _ => Err(invalid!("{term} is not a constant")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_gives_the_value_back() {
        let list = Type::List(Type::Utf8.into());
        let map = Type::Map((Type::Int32, Type::Set(Type::Bytes.into())).into());
        let tuple = Type::Tuple([Type::Int32, Type::Utf8, Type::Timestamp].into());
        let cases = [
            (Type::Utf8, "it's, \"so\"\nand 'so'"),
            (Type::Utf8, "'"),
            (Type::Utf8, ""),
            (Type::Int32, "-7"),
            (Type::Integer, "123456789012345678901234567890"),
            (Type::Decimal, "-1.50"),
            (Type::Double, "1.7976931348623157E308"),
            (Type::Float, "0.1"),
            (Type::Double, "NaN"),
            (Type::Boolean, "true"),
            (Type::Bytes, "0x00ff"),
            (Type::Bytes, "0x"),
            (Type::Timestamp, "2009-08-18 01:13:24.007Z"),
            (Type::SimpleDate, "1969-12-31"),
            (Type::Time, "08:12:54.123456789"),
            (Type::Uuid, "550e8400-e29b-41d4-a716-446655440000"),
            (Type::Inet, "::1"),
            (Type::Duration, "1mo2d3h"),
            (list, "['it''s', 'null', '']"),
            (map, "{-1: {0x, 0x00}, 2: {0xff}}"),
            (tuple, "(1, null, '2009-08-18 01:13:24.007Z')"),
        ];
        for (of, text) in cases {
            let bytes = from_plain(&of, text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(plain(&of, &bytes), text);
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let list = Type::List(Type::Int32.into());
        for (of, text) in [
            (Type::Int32, "1.5"),
            (Type::Int32, "2147483648"),
            (Type::Bytes, "ff"),
            (Type::Ascii, "é"),
            (Type::TimeUuid, "550e8400-e29b-41d4-a716-446655440000"),
            (list.clone(), "[1, 2"),
            (list.clone(), "[1]); DROP TABLE t"),
            (list.clone(), "?"),
            (list, "{1}"),
        ] {
            assert!(from_plain(&of, text).is_err(), "{text}");
        }
    }
}
