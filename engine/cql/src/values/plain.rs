//! Values as text outside of CQL, as in a cell of a CSV file.

use firn_wide::Type;

use super::{BoundTerm, Context, Markers, Receiver, literal, value::bytes_of_text};
use crate::catalog::{Catalog, ColumnType};
use crate::error::{Result, invalid};
use crate::syntax::parse_term;

/// A value without the quotes that a literal has around it: texts as they are, blobs as `0x…`,
/// collections, tuples and user types as literals. [`from_plain`] makes the same value of it, but
/// for zero bytes of a type that is no text.
pub fn plain(of: &Type, bytes: &[u8]) -> String {
    let text = literal(of, Some(bytes));
    match text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => text,
    }
}

/// The value that a text outside of CQL means: the opposite of [`plain`].
///
/// # Errors
/// The text is no value of the type.
pub fn from_plain(of: &Type, text: &str) -> Result<Vec<u8>> {
    let of = of.unreversed();
    match of {
        Type::Bytes => bytes_of_text(
            of,
            text.strip_prefix("0x").ok_or_else(|| invalid("a blob begins with 0x"))?,
        ),
        Type::List(_)
        | Type::Set(_)
        | Type::Map(_)
        | Type::Vector(..)
        | Type::Tuple(_)
        | Type::Udt(_) => from_literal(of, text),
        _ => {
            let bytes = bytes_of_text(of, text)?;
            of.validate(&bytes).map_err(|e| invalid(e.0))?;
            Ok(bytes)
        }
    }
}

fn from_literal(of: &Type, text: &str) -> Result<Vec<u8>> {
    let catalog = Catalog::default();
    let mut context = Context {
        catalog: &catalog,
        keyspace: "",
        partition: vec![],
        partitioner: Default::default(),
        markers: Markers::default(),
        calls: vec![],
    };
    let of = ColumnType::frozen(of.clone());
    let receiver =
        Receiver { name: "value".into(), of, keyspace: String::new(), table: String::new() };
    match BoundTerm::prepare(&parse_term(text)?, &receiver, &mut context)? {
        BoundTerm::Constant(Some(bytes)) => Ok(bytes),
        _ => Err(invalid(format!("{text} is no constant"))),
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
