//! Comparisons, and the order of rows.

use super::AstName;

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
    /// Its sign.
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

/// `column [ASC | DESC]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ordering<'a> {
    pub column: AstName<'a>,
    pub descending: bool,
}
