//! Expressions: what terms and selectors have in common.

use std::fmt;

use super::{Native, Pos, QualifiedName, TypeSyntax};

/// A term or a selector. `P` is what only one of the two has: a [`Term`](super::Term) is made of
/// [`TermPrimary`](super::TermPrimary), a [`Selector`](super::Selector) of
/// [`SelectorPrimary`](super::SelectorPrimary).
#[derive(Clone, PartialEq, Eq)]
pub struct Expression<'a, P> {
    /// Where it begins.
    pub at: Pos,
    /// What it is.
    pub kind: ExpressionKind<'a, P>,
}

impl<P: fmt::Debug> fmt::Debug for Expression<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// The kinds of expressions.
#[derive(Clone, PartialEq, Eq)]
pub enum ExpressionKind<'a, P> {
    /// What only this sort of expression has.
    Primary(P),
    /// `[a, b]`
    List(Vec<Expression<'a, P>>),
    /// `{a, b}`; `{}` also means an empty map where a map is wanted.
    Set(Vec<Expression<'a, P>>),
    /// `{a: b, c: d}`, at least one. Whether a selector's key that is a name is a column or a field
    /// of a user-defined type the analysis decides.
    Map(Vec<(Expression<'a, P>, Expression<'a, P>)>),
    /// `(a, b)`, at least one; with one only, parentheses or a tuple, as the analysis decides.
    Tuple(Vec<Expression<'a, P>>),
    /// `function(a, b)`
    Call(Box<FunctionCall<'a, Expression<'a, P>>>),
    /// `(type) a`: no conversion, only a word about which type is meant.
    Hint(Box<(TypeSyntax<'a>, Expression<'a, P>)>),
    /// `CAST(a AS type)`
    Cast(Box<Expression<'a, P>>, Native),
    /// `- a`
    Negate(Box<Expression<'a, P>>),
    /// `a + b`
    Binary(Box<Binary<Expression<'a, P>>>),
}

impl<P: fmt::Debug> fmt::Debug for ExpressionKind<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut one =
            |name: &str, value: &dyn fmt::Debug| f.debug_tuple(name).field(value).finish();
        match self {
            ExpressionKind::Primary(primary) => primary.fmt(f),
            ExpressionKind::List(items) => one("List", items),
            ExpressionKind::Set(items) => one("Set", items),
            ExpressionKind::Map(pairs) => one("Map", pairs),
            ExpressionKind::Tuple(items) => one("Tuple", items),
            ExpressionKind::Call(call) => one("Call", call),
            ExpressionKind::Hint(hint) => one("Hint", hint),
            ExpressionKind::Cast(of, native) => {
                f.debug_tuple("Cast").field(of).field(native).finish()
            }
            ExpressionKind::Negate(of) => one("Negate", of),
            ExpressionKind::Binary(binary) => one("Binary", binary),
        }
    }
}

impl<'a, P> ExpressionKind<'a, P> {
    /// Calls `each` with the expressions that this one is directly made of, in their order; a
    /// primary has none here.
    pub fn operands<'s>(&'s self, each: &mut dyn FnMut(&'s Expression<'a, P>)) {
        match self {
            ExpressionKind::Primary(_) => {}
            ExpressionKind::List(items)
            | ExpressionKind::Set(items)
            | ExpressionKind::Tuple(items) => {
                items.iter().for_each(each);
            }
            ExpressionKind::Map(pairs) => pairs.iter().flat_map(|(k, v)| [k, v]).for_each(each),
            ExpressionKind::Call(call) => call.arguments.iter().for_each(each),
            ExpressionKind::Hint(hint) => each(&hint.1),
            ExpressionKind::Cast(of, _) | ExpressionKind::Negate(of) => each(of),
            ExpressionKind::Binary(binary) => {
                [&binary.left, &binary.right].into_iter().for_each(each)
            }
        }
    }
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FunctionCall<'a, T> {
    pub function: QualifiedName<'a>,
    pub arguments: Vec<T>,
}

/// `left operator right`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Binary<T> {
    pub operator: Operator,
    pub left: T,
    pub right: T,
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Operator {
    /// Its sign.
    pub fn sign(self) -> char {
        match self {
            Operator::Add => '+',
            Operator::Subtract => '-',
            Operator::Multiply => '*',
            Operator::Divide => '/',
            Operator::Modulo => '%',
        }
    }
}
