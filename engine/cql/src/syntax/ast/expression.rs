//! Expressions: the common parts of terms and selectors.

use std::fmt;

use super::{Native, Pos, QualifiedName, TypeSyntax};

/// A term or a selector. `P` is the part that differs: a [`Term`](super::Term) has
/// [`TermPrimary`](super::TermPrimary), a [`Selector`](super::Selector) has
/// [`SelectorPrimary`](super::SelectorPrimary).
#[derive(Clone, PartialEq, Eq)]
pub struct Expression<'a, P> {
    /// Start position.
    pub at: Pos,
    /// Kind of the expression.
    pub kind: ExpressionKind<'a, P>,
}

impl<P: fmt::Debug> fmt::Debug for Expression<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// Kinds of expressions.
#[derive(Clone, PartialEq, Eq)]
pub enum ExpressionKind<'a, P> {
    /// A primary, which is specific to terms or to selectors.
    Primary(P),
    /// `[a, b]`
    List(Vec<Expression<'a, P>>),
    /// `{a, b}`; `{}` is also an empty map if a map is expected.
    Set(Vec<Expression<'a, P>>),
    /// `{a: b, c: d}`, at least one. The analysis decides whether a key in a selector that is a
    /// name is a column or a field of a user-defined type.
    Map(Vec<(Expression<'a, P>, Expression<'a, P>)>),
    /// `(a, b)`, at least one. The analysis decides whether a single one is a tuple or an
    /// expression in parentheses.
    Tuple(Vec<Expression<'a, P>>),
    /// `function(a, b)`
    Call(Box<FunctionCall<'a, Expression<'a, P>>>),
    /// `(type) a`: a type hint without conversion.
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
    /// Calls `each` with the direct operands of this expression, in order. A primary has none here.
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
pub struct FunctionCall<'a, T> {
    pub function: QualifiedName<'a>,
    pub arguments: Vec<T>,
}

/// `left operator right`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary<T> {
    pub operator: Operator,
    pub left: T,
    pub right: T,
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Operator {
    /// Returns its sign.
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
