//! Comparisons, and the order of rows.

use super::{AstName, Term};

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Comparison {
    /// Returns its sign.
    pub fn sign(self) -> &'static str {
        match self {
            Comparison::Eq => "=",
            Comparison::Ne => "!=",
            Comparison::Lt => "<",
            Comparison::Le => "<=",
            Comparison::Gt => ">",
            Comparison::Ge => ">=",
        }
    }
}

/// `column [ANN OF term] [ASC | DESC]`; a definition has no `ANN`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ordering<'a> {
    pub column: AstName<'a>,
    /// Vector of `ANN OF`.
    pub nearest: Option<Term<'a>>,
    pub descending: bool,
}
