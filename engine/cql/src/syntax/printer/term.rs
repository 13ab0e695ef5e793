//! Terms and constants.

use std::fmt::{Display, Formatter, Result};

use super::{PrintedPairs, quote_if_needed, string};
use crate::syntax::ast::{Constant, ConstantKind, Marker, TermPrimary};

impl Display for Constant<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.kind == ConstantKind::String {
            string(f, &self.text)
        } else {
            f.write_str(&self.text)
        }
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

impl Display for TermPrimary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            TermPrimary::Null => f.write_str("NULL"),
            TermPrimary::Constant(constant) => constant.fmt(f),
            TermPrimary::Marker(marker) => marker.fmt(f),
            TermPrimary::User(fields) => write!(f, "{{{}}}", PrintedPairs(fields)),
        }
    }
}
