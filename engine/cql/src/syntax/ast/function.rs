//! User-defined functions and aggregates.

use std::borrow::Cow;

use super::{AstName, QualifiedName, Term, TypeSyntax};

/// `CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] name (…) … RETURNS type LANGUAGE word AS '…'`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateFunction<'a> {
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub name: QualifiedName<'a>,
    pub arguments: Vec<(AstName<'a>, TypeSyntax<'a>)>,
    /// `CALLED ON NULL INPUT`; otherwise the result is null if an argument is null.
    pub called_on_null: bool,
    pub result: TypeSyntax<'a>,
    /// In lower case.
    pub language: Cow<'a, str>,
    pub body: Cow<'a, str>,
}

/// `CREATE [OR REPLACE] AGGREGATE [IF NOT EXISTS] name (…) SFUNC name STYPE type …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAggregate<'a> {
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub name: QualifiedName<'a>,
    pub arguments: Vec<TypeSyntax<'a>>,
    pub state_function: AstName<'a>,
    pub state: TypeSyntax<'a>,
    pub final_function: Option<AstName<'a>>,
    pub initial: Option<Term<'a>>,
}

/// A function or aggregate, optionally with the types of its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overload<'a> {
    pub name: QualifiedName<'a>,
    pub arguments: Option<Vec<TypeSyntax<'a>>>,
}
