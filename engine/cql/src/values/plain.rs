//! Values as text outside of CQL, as in a cell of a CSV file.

use firn_wide::types::Type;

use super::{Context, Markers, Receiver, Term, literal, value::bytes_of_text};
use crate::catalog::{Catalog, ColumnType};
use crate::error::{Result, invalid};
use crate::syntax::parse_term;

/// A value without the quotes that a literal has around it: texts as they are, blobs as `0x…`, collections, tuples and user types as
/// literals. [`from_plain`] makes the same value of it, but for zero bytes of a type that is no text.
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
/// What can't be a value of the type.
pub fn from_plain(of: &Type, text: &str) -> Result<Vec<u8>> {
    let of = of.unreversed();
    match of {
        Type::Bytes => bytes_of_text(of, text.strip_prefix("0x").ok_or_else(|| invalid("a blob begins with 0x"))?),
        Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Tuple(_) | Type::Udt(_) => from_literal(of, text),
        _ => {
            let bytes = bytes_of_text(of, text)?;
            of.validate(&bytes).map_err(|e| invalid(e.0))?;
            Ok(bytes)
        }
    }
}

fn from_literal(of: &Type, text: &str) -> Result<Vec<u8>> {
    let catalog = Catalog::default();
    let mut context = Context { catalog: &catalog, keyspace: "", partition: vec![], markers: Markers::default() };
    let of = ColumnType::frozen(of.clone());
    let receiver = Receiver { name: "value".into(), of, keyspace: String::new(), table: String::new() };
    match Term::prepare(&parse_term(text)?, &receiver, &mut context)? {
        Term::Constant(Some(bytes)) => Ok(bytes),
        _ => Err(invalid(format!("{text} is no constant"))),
    }
}
