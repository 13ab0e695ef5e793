//! Building blocks for printing statements: lists, names, literals.

use crate::syntax::ast::QualifiedName;
use crate::syntax::keyword::Keyword;
use std::fmt::{Display, Formatter, Result};

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(super) fn string(f: &mut Formatter<'_>, text: &str) -> Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

/// Prints `a<separator>b`.
pub(super) struct Joined<'t, T>(pub &'t [T], pub &'static str);

impl<T: Display> Display for Joined<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(self.1)?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// Prints `a: b, c: d`.
pub(super) struct PrintedPairs<'t, K, V>(pub &'t [(K, V)]);

impl<K: Display, V: Display> Display for PrintedPairs<'_, K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (i, (key, value)) in self.0.iter().enumerate() {
            write!(f, "{}{key}: {value}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

pub(super) fn list<T>(items: &[T]) -> Joined<'_, T> {
    Joined(items, ", ")
}

/// Returns `word` if `when` is set.
pub(super) fn opt(when: bool, word: &'static str) -> &'static str {
    if when { word } else { "" }
}

/// Prints a qualified name; `quotes` reports which keywords that are names elsewhere must be
/// quoted.
pub(super) fn qualified(
    f: &mut Formatter<'_>,
    name: &QualifiedName<'_>,
    quotes: fn(Keyword) -> bool,
) -> Result {
    if let Some(keyspace) = &name.keyspace {
        write!(f, "{keyspace}.")?;
    }
    if Keyword::of(&name.name.text).is_some_and(quotes) {
        f.write_str(&quoted(&name.name.text))
    } else {
        name.name.fmt(f)
    }
}
