//! Types of expressions before they are prepared, and the fit of terms to types.

use std::fmt::Display;

use firn_wide::Type;

use super::call::{ArgumentFit, CallArguments};
use super::context::Context;
use super::function::{self, Function};
use super::user::{Callee, find_callee, misplaced_aggregate};
use super::vector::argument_of_list;
use crate::catalog::native_type;
use crate::error::Result;
use crate::syntax::ast::{self, ConstantKind, TermKind, TermPrimary};

/// Reports whether a constant of this kind can have the type.
pub(super) fn fits(kind: ConstantKind, of: &Type) -> bool {
    use ConstantKind as K;
    match of {
        Type::Ascii
        | Type::Utf8
        | Type::Inet
        | Type::Custom(_)
        | Type::Composite(_)
        | Type::Dynamic(_) => kind == K::String,
        Type::Timestamp | Type::Date | Type::SimpleDate | Type::Time => {
            matches!(kind, K::String | K::Integer)
        }
        Type::Long | Type::Counter | Type::Int32 | Type::Short | Type::Byte | Type::Integer => {
            kind == K::Integer
        }
        Type::Decimal | Type::Double | Type::Float => matches!(kind, K::Integer | K::Float),
        Type::Uuid | Type::TimeUuid | Type::LexicalUuid => kind == K::Uuid,
        Type::Boolean => kind == K::Boolean,
        Type::Bytes => kind == K::Hex,
        Type::Duration => matches!(kind, K::Duration | K::Integer),
        Type::Tuple(_) => kind == K::String,
        _ => false,
    }
}

/// Returns the type of a term by itself: that of a constant, a hint, a cast or a function. `None`
/// if it depends on the expected type.
pub fn own_type(term: &ast::Term<'_>, context: &Context<'_>) -> Option<Type> {
    let other = || match &term.kind {
        TermKind::Primary(TermPrimary::Constant(c)) => Some(match c.kind {
            ConstantKind::String => Type::Utf8,
            ConstantKind::Integer if c.text.parse::<i32>().is_ok() => Type::Int32,
            ConstantKind::Integer if c.text.parse::<i64>().is_ok() => Type::Long,
            ConstantKind::Integer => Type::Integer,
            ConstantKind::Float => Type::Double,
            ConstantKind::Boolean => Type::Boolean,
            ConstantKind::Duration => Type::Duration,
            ConstantKind::Uuid => Type::Uuid,
            ConstantKind::Hex => Type::Bytes,
        }),
        TermKind::Call(call) => called(call, None, context).ok().map(|f| f.result),
        TermKind::Negate(inner) => own_type(inner, context),
        _ => None,
    };
    inferred_type(term, &|operand| own_type(operand, context), &other, context)
}

/// Reports whether a term can have the type.
pub fn is_assignable(term: &ast::Term<'_>, of: &Type, context: &Context<'_>) -> bool {
    let all =
        |terms: &[ast::Term<'_>], of: &Type| terms.iter().all(|t| is_assignable(t, of, context));
    match (&term.kind, of) {
        (TermKind::Primary(TermPrimary::Null), _) => !of.is_counter(),
        (TermKind::Primary(TermPrimary::Marker(_)), _) => true,
        (TermKind::Primary(TermPrimary::Constant(c)), _) => fits(c.kind, of),
        (TermKind::List(terms), Type::List(e)) => all(terms, e),
        (TermKind::List(terms), Type::Vector(e, count)) => {
            terms.len() == *count as usize && all(terms, e)
        }
        (TermKind::Set(terms), Type::Set(e)) => all(terms, e),
        (TermKind::Set(terms), Type::Map(_)) => terms.is_empty(),
        (TermKind::Map(pairs), Type::Map(kv)) => pairs
            .iter()
            .all(|(k, v)| is_assignable(k, &kv.0, context) && is_assignable(v, &kv.1, context)),
        (TermKind::Tuple(terms), Type::Tuple(types)) => {
            terms.len() <= types.len()
                && terms.iter().zip(types.iter()).all(|(t, of)| is_assignable(t, of, context))
        }
        (TermKind::Tuple(terms), Type::Udt(udt)) if is_tuple_of_fields(terms, of, context) => {
            let fields = udt.fields.iter().map(|f| &f.1);
            terms.len() <= fields.len()
                && terms.iter().zip(fields).all(|(t, of)| is_assignable(t, of, context))
        }
        (TermKind::Tuple(terms), _) if terms.len() == 1 => is_assignable(&terms[0], of, context),
        (TermKind::Primary(TermPrimary::User(fields)), Type::Udt(udt)) => {
            fields.iter().all(|(name, t)| {
                udt.fields
                    .iter()
                    .find(|f| f.0 == name.text)
                    .is_some_and(|f| is_assignable(t, &f.1, context))
            })
        }
        (TermKind::Binary(b), Type::Timestamp | Type::SimpleDate)
            if own_type(&b.right, context) == Some(Type::Duration) =>
        {
            is_assignable(&b.left, of, context)
        }
        (TermKind::Binary(b), _) => {
            is_assignable(&b.left, of, context) && is_assignable(&b.right, of, context)
        }
        (TermKind::Negate(inner), _) => is_assignable(inner, of, context),
        // An unknown function is reported when the term is prepared.
        (TermKind::Call(call), _) => {
            called(call, Some(of), context).map_or(true, |f| function::is_value_of(&f.result, of))
        }
        (TermKind::Hint(_) | TermKind::Cast(..), _) => {
            own_type(term, context).is_none_or(|t| function::is_value_of(&t, of))
        }
        _ => false,
    }
}

/// Reports whether terms in parentheses are the first fields of a user type, not a value of it.
pub(super) fn is_tuple_of_fields(
    terms: &[ast::Term<'_>],
    of: &Type,
    context: &Context<'_>,
) -> bool {
    !matches!(terms, [one] if is_assignable(one, of, context))
}

/// Returns how well a term, which has the type `own` by itself, matches another type.
pub fn term_fit(
    term: &ast::Term<'_>,
    own: Option<&Type>,
    of: &Type,
    context: &Context<'_>,
) -> ArgumentFit {
    match &term.kind {
        TermKind::Primary(TermPrimary::Constant(c)) if !fits(c.kind, of) => ArgumentFit::Never,
        // A text literal of ASCII characters is `ascii` rather than `text`.
        TermKind::Primary(TermPrimary::Constant(c)) if c.kind == ConstantKind::String => {
            let best = if c.text.is_ascii() { Type::Ascii } else { Type::Utf8 };
            if *of == best { ArgumentFit::Exact } else { ArgumentFit::Weak }
        }
        TermKind::Primary(TermPrimary::Constant(_)) if own == Some(of) => ArgumentFit::Exact,
        TermKind::Call(_) | TermKind::Cast(..) | TermKind::Hint(_) => ArgumentFit::of(own, of),
        _ if !is_assignable(term, of, context) => ArgumentFit::Never,
        _ => ArgumentFit::Weak,
    }
}

/// Finds the function of a call. `own` returns the type of an argument, as far as it is known, and
/// `term` the argument if it is a term.
///
/// # Errors
/// `Invalid` with Cassandra's text.
pub fn resolve_call<'s, 't, P: Display>(
    call: &'s ast::FunctionCall<'t, ast::Expression<'t, P>>,
    own: &dyn Fn(&ast::Expression<'t, P>) -> Option<Type>,
    term: &dyn Fn(&'s ast::Expression<'t, P>) -> Option<&'s ast::Term<'t>>,
    wanted: Option<&Type>,
    context: &Context<'_>,
) -> Result<Callee> {
    let each = |argument: &ast::Expression<'t, P>| match &argument.kind {
        ast::ExpressionKind::List(items) => {
            argument_of_list(&call.function, items.len()).or_else(|| own(argument))
        }
        _ => own(argument),
    };
    let types: Vec<Option<Type>> = call.arguments.iter().map(each).collect();
    let fit = |i: usize, of: &Type| {
        let own = types.get(i).and_then(Option::as_ref);
        match call.arguments.get(i).and_then(term) {
            Some(term) => term_fit(term, own, of, context),
            None => ArgumentFit::of(own, of),
        }
    };
    let shown = |i: usize| call.arguments.get(i).map(ToString::to_string).unwrap_or_default();
    let arguments = CallArguments { types: &types, shown: &shown, fit: &fit };
    find_callee(&call.function, &arguments, wanted, context)
}

pub(super) fn called(
    call: &ast::FunctionCall<'_, ast::Term<'_>>,
    wanted: Option<&Type>,
    context: &Context<'_>,
) -> Result<Function> {
    match resolve_call(call, &|term| own_type(term, context), &Some, wanted, context)? {
        Callee::Function(function) => Ok(function),
        Callee::Aggregate(_) => Err(misplaced_aggregate()),
    }
}

/// Infers the type of a hint, a cast or arithmetic. `operand` returns the type of an operand, and
/// `other` that of any other expression.
pub fn inferred_type<P>(
    expression: &ast::Expression<'_, P>,
    operand: &dyn Fn(&ast::Expression<'_, P>) -> Option<Type>,
    other: &dyn Fn() -> Option<Type>,
    context: &Context<'_>,
) -> Option<Type> {
    match &expression.kind {
        ast::ExpressionKind::Hint(hint) => {
            context.catalog.resolve_type(context.keyspace, &hint.0).ok().map(|t| t.value_type)
        }
        ast::ExpressionKind::Cast(_, to) => Some(native_type(*to)),
        ast::ExpressionKind::Binary(binary) => {
            let (l, r) = (operand(&binary.left), operand(&binary.right));
            function::result_type(l.as_ref().or(r.as_ref())?, r.as_ref().or(l.as_ref())?)
        }
        _ => other(),
    }
}
