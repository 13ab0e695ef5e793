//! The result of a rule of the grammar.

use crate::syntax::lexer::{CqlToken, Tok};

/// What a rule returns. The error is boxed: it is large, and rare.
pub(super) type Rule<T> = Result<T, Box<RuleFault>>;

/// What is wrong, before its place is counted out in lines: a fault may be forgotten, when a type
/// was tried where there is none.
pub(super) struct RuleFault {
    pub token: CqlToken,
    pub expected: Vec<String>,
    pub message: Option<String>,
    pub hint: Option<String>,
}

/// Something that could have stood at a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Tok(Tok),
    What(&'static str),
}
