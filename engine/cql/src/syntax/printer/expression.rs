//! Prints expressions, the common part of terms and selectors.

use std::fmt::{Display, Formatter, Result};

use super::{PrintedPairs, list, qualified};
use crate::syntax::ast::{Binary, Expression, ExpressionKind, FunctionCall};
use crate::syntax::keyword::{Keyword, KeywordClass};

impl<T: Display> Display for FunctionCall<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match (&self.function.keyspace, &*self.function.name.text) {
            // A reserved word, but the name of a function.
            (None, "token") => f.write_str("token")?,
            _ => qualified(f, &self.function, |k| {
                k.class() == KeywordClass::Name && k != Keyword::Count
            })?,
        }
        write!(f, "({})", list(&self.arguments))
    }
}

impl<T: Display> Display for Binary<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {} {}", self.left, self.operator.sign(), self.right)
    }
}

impl<P: Display> Display for Expression<'_, P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            ExpressionKind::Primary(primary) => primary.fmt(f),
            ExpressionKind::List(items) => write!(f, "[{}]", list(items)),
            ExpressionKind::Set(items) => write!(f, "{{{}}}", list(items)),
            ExpressionKind::Map(pairs) => write!(f, "{{{}}}", PrintedPairs(pairs)),
            ExpressionKind::Tuple(items) => write!(f, "({})", list(items)),
            ExpressionKind::Call(call) => call.fmt(f),
            ExpressionKind::Hint(hint) => write!(f, "({}){}", hint.0, hint.1),
            ExpressionKind::Cast(of, native) => write!(f, "CAST({of} AS {native})"),
            ExpressionKind::Negate(of) => write!(f, "- {of}"),
            ExpressionKind::Binary(binary) => binary.fmt(f),
        }
    }
}
