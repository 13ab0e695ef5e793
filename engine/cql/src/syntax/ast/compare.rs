//! Comparisons, and the order of rows.

use super::{AstName, Term};
use crate::syntax::text_enum;

text_enum! {
    /// A comparison.
    Comparison, sign {
        Eq "=",
        Ne "!=",
        Lt "<",
        Le "<=",
        Gt ">",
        Ge ">=",
    }
}

/// `column [ANN OF term] [ASC | DESC]`; a definition has no `ANN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordering<'a> {
    pub column: AstName<'a>,
    /// Vector of `ANN OF`.
    pub nearest: Option<Term<'a>>,
    pub descending: bool,
}
