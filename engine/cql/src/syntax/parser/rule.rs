//! The result of a rule of the grammar.

use crate::syntax::lexer::{CqlToken, Tok};

/// Result of a rule. The error is boxed, because it is large and rare.
pub(super) type Rule<T> = Result<T, Box<RuleFault>>;

/// An error without line numbers. These are computed only when it is reported, because the fault of
/// a tried type is dropped.
pub(super) struct RuleFault {
    pub token: CqlToken,
    pub expected: Vec<String>,
    pub message: Option<String>,
    pub hint: Option<String>,
}

/// A token or construct expected at a position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Tok(Tok),
    What(&'static str),
}
