//! Terms and constants.

use std::fmt::{Display, Formatter, Result};

use super::{Pairs, list, qualified, quote_if_needed, string};
use crate::syntax::ast::{Binary, Call, Constant, ConstantKind, Marker, Term, TermKind};
use crate::syntax::keyword::{Class, Keyword};

impl Display for Constant<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.kind == ConstantKind::String { string(f, &self.text) } else { f.write_str(&self.text) }
    }
}

impl Display for Marker<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.name {
            Some(name) => write!(f, ":{}", quote_if_needed(name)),
            None => f.write_str("?"),
        }
    }
}

impl<T: Display> Display for Call<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match (&self.function.keyspace, &*self.function.name.text) {
            // Reserved, but a function's name.
            (None, "token") => f.write_str("token")?,
            _ => qualified(f, &self.function, |k| k.class() == Class::Name && k != Keyword::Count)?,
        }
        write!(f, "({})", list(&self.arguments))
    }
}

impl<T: Display> Display for Binary<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {} {}", self.left, self.operator.sign(), self.right)
    }
}

impl Display for Term<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            TermKind::Null => f.write_str("NULL"),
            TermKind::Constant(constant) => constant.fmt(f),
            TermKind::Marker(marker) => marker.fmt(f),
            TermKind::List(items) => write!(f, "[{}]", list(items)),
            TermKind::Set(items) => write!(f, "{{{}}}", list(items)),
            TermKind::Map(pairs) => write!(f, "{{{}}}", Pairs(pairs)),
            TermKind::User(fields) => write!(f, "{{{}}}", Pairs(fields)),
            TermKind::Tuple(items) => write!(f, "({})", list(items)),
            TermKind::Call(call) => call.fmt(f),
            TermKind::Hint(hint) => write!(f, "({}) {}", hint.0, hint.1),
            TermKind::Cast(of, native) => write!(f, "CAST({of} AS {native})"),
            TermKind::Negate(of) => write!(f, "- {of}"),
            TermKind::Binary(binary) => binary.fmt(f),
        }
    }
}
