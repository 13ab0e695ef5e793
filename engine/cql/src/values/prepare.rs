//! Prepares terms: checks them against the expected type and evaluates constants.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use firn_wide::Type;

use super::context::{Context, Receiver};
use super::function;
use super::infer::{called, fits, is_assignable, is_tuple_of_fields, own_type};
use super::put_tuple;
use super::term::BoundTerm;
use super::vector::check_count;
use crate::catalog::{ColumnType, native_type};
use crate::error::{Error, Result, bail, bail_if, invalid};
use crate::syntax::ast::{self, Constant, ConstantKind, Operator, TermKind, TermPrimary};

impl BoundTerm {
    /// Checks and prepares a term for a receiver.
    ///
    /// # Errors
    /// `Invalid` with Cassandra's text.
    pub fn prepare(
        term: &ast::Term<'_>,
        receiver: &Receiver,
        context: &mut Context<'_>,
    ) -> Result<BoundTerm> {
        match &term.kind {
            TermKind::Primary(primary) => prepare_primary(primary, receiver, context),
            TermKind::List(terms) if matches!(receiver.of.value_type, Type::Vector(..)) => {
                prepare_vector(terms, receiver, context)
            }
            TermKind::List(_) | TermKind::Set(_) | TermKind::Map(_) => {
                prepare_collection(term, receiver, context)
            }
            TermKind::Tuple(parts) => match &receiver.of.value_type {
                Type::Tuple(types) => prepare_tuple(parts, &types.clone(), receiver, context),
                of @ Type::Udt(udt)
                    if !receiver.of.multicell && is_tuple_of_fields(parts, of, context) =>
                {
                    let types: Vec<Type> = udt.fields.iter().map(|f| f.1.clone()).collect();
                    prepare_tuple(parts, &types, receiver, context)
                }
                _ if parts.len() == 1 => BoundTerm::prepare(&parts[0], receiver, context),
                _ => Err(invalid!(
                    "Invalid tuple type literal for {} of type {}",
                    receiver.name,
                    receiver.of
                )),
            },
            TermKind::Hint(hint) => {
                let of = context.catalog.resolve_type(context.keyspace, &hint.0)?;
                bail_if!(
                    !function::is_value_of(&of.value_type, &receiver.of.value_type),
                    "Cannot assign value {term} to {} of type {}",
                    receiver.name,
                    receiver.of
                );
                let hinted = Receiver { of, ..receiver.clone() };
                BoundTerm::prepare(&hint.1, &hinted, context)
            }
            TermKind::Cast(..) | TermKind::Call(_) | TermKind::Negate(_) | TermKind::Binary(_) => {
                prepare_computed(term, receiver, context)
            }
        }
    }
}

fn constant_bytes(constant: &Constant<'_>, of: &Type) -> Result<Vec<u8>> {
    let text: Cow<'_, str> = match constant.kind {
        ConstantKind::Hex => constant.text.get(2..).unwrap_or_default().into(),
        _ => (&*constant.text).into(),
    };
    match of {
        Type::Tuple(types) => tuple_of_text(types, &text),
        _ => super::value::bytes_of_text(of, &text),
    }
}

/// Parses a tuple in a text: parts separated by colons, `@` for null, possibly fewer parts than
/// types. `\\` escapes a separator. An empty text has no parts.
fn tuple_of_text(types: &[Type], text: &str) -> Result<Vec<u8>> {
    if text.is_empty() {
        return Ok(vec![]);
    }
    let mut parts = vec![String::new()];
    let mut is_null = vec![false];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        match c {
            ':' => {
                parts.push(String::new());
                is_null.push(false);
            }
            '@' if parts[last].is_empty() => is_null[last] = true,
            '\\' => parts[last].extend(chars.next()),
            c => parts[last].push(c),
        }
    }
    if parts.len() > types.len() {
        let of = ColumnType::frozen(Type::Tuple(types.into()));
        bail!(
            "Invalid tuple literal: too many elements. Type {of} expects {} but got {}",
            types.len(),
            parts.len()
        );
    }
    let mut values = vec![];
    for ((part, is_null), of) in parts.iter().zip(is_null).zip(types) {
        values.push(if is_null && part.is_empty() {
            None
        } else {
            match of {
                Type::Tuple(types) => Some(tuple_of_text(types, part)?),
                _ => Some(super::value::bytes_of_text(of, part)?),
            }
        });
    }
    put_tuple(&values)
}

fn is_moment(receiver: &Receiver) -> bool {
    matches!(receiver.of.value_type, Type::Timestamp | Type::Date)
}

fn has_marker(term: &ast::Term<'_>) -> bool {
    match &term.kind {
        TermKind::Primary(TermPrimary::Marker(_)) => true,
        TermKind::Primary(TermPrimary::User(fields)) => fields.iter().any(|f| has_marker(&f.1)),
        made => {
            let mut found = false;
            made.operands(&mut |operand| found |= has_marker(operand));
            found
        }
    }
}

fn prepare_primary(
    primary: &TermPrimary<'_>,
    receiver: &Receiver,
    context: &mut Context<'_>,
) -> Result<BoundTerm> {
    match primary {
        TermPrimary::Null if receiver.of.value_type.is_counter() => {
            Err(invalid("Invalid null value for counter increment/decrement"))
        }
        TermPrimary::Null => Ok(BoundTerm::Constant(None)),
        TermPrimary::Constant(c)
            if c.kind == ConstantKind::String
                && c.text.eq_ignore_ascii_case("now")
                && is_moment(receiver) =>
        {
            Ok(BoundTerm::Call(Arc::new(function::current_timestamp()), vec![]))
        }
        TermPrimary::Constant(c) if fits(c.kind, &receiver.of.value_type) => {
            Ok(BoundTerm::Constant(Some(constant_bytes(c, &receiver.of.value_type)?)))
        }
        TermPrimary::Constant(c) => Err(invalid!(
            "Invalid {} constant ({}) for \"{}\" of type {}",
            c.kind.word(),
            c.text,
            receiver.name,
            receiver.of
        )),
        TermPrimary::Marker(marker) => {
            context.markers.set(marker, receiver);
            Ok(BoundTerm::Marker(marker.index, receiver.of.value_type.clone()))
        }
        TermPrimary::User(fields) => prepare_user(fields, receiver, context),
    }
}

fn prepare_collection(
    term: &ast::Term<'_>,
    receiver: &Receiver,
    context: &mut Context<'_>,
) -> Result<BoundTerm> {
    let (name, of) = (&receiver.name, &receiver.of);
    let (kind, terms): (_, Vec<&ast::Term<'_>>) = match &term.kind {
        TermKind::List(terms) => ("list", terms.iter().collect()),
        TermKind::Set(terms) => ("set", terms.iter().collect()),
        TermKind::Map(pairs) => ("map", pairs.iter().flat_map(|(k, v)| [k, v]).collect()),
        _ => ("list", vec![]),
    };
    // `{}` is an empty map if a map is expected.
    let empty_map = kind == "set" && terms.is_empty() && matches!(of.value_type, Type::Map(_));
    let (types, words): ([&Type; 2], [&str; 2]) = match (&of.value_type, kind) {
        (Type::List(e), "list") | (Type::Set(e), "set") => ([e, e], ["value", "value"]),
        (Type::Map(kv), "map") => ([&kv.0, &kv.1], ["key", "value"]),
        (Type::Map(kv), "set") if empty_map => ([&kv.0, &kv.1], ["key", "value"]),
        _ => bail!("Invalid {kind} literal for {name} of type {of}"),
    };
    for (i, element) in terms.iter().enumerate() {
        if !is_assignable(element, types[i % 2], context) {
            let shown = ColumnType::frozen(types[i % 2].clone());
            bail!(
                "Invalid {kind} literal for {name}: {} {element} is not of type {shown}",
                words[i % 2]
            );
        }
    }
    let mut parts = Vec::with_capacity(terms.len());
    for (i, element) in terms.iter().enumerate() {
        bail_if!(
            has_marker(element),
            "Invalid {kind} literal for {name}: bind variables are not supported inside collection literals"
        );
        let part = receiver.other(format!("{}({name})", words[i % 2]), types[i % 2].clone());
        let prepared = BoundTerm::prepare(element, &part, context)?;
        if matches!(prepared, BoundTerm::Constant(None)) {
            bail!("null is not supported inside collections");
        }
        parts.push(prepared);
    }
    BoundTerm::Many(of.value_type.clone(), parts).folded()
}

/// Prepares `[1.0, 2.0]` as a vector.
fn prepare_vector(
    terms: &[ast::Term<'_>],
    receiver: &Receiver,
    context: &mut Context<'_>,
) -> Result<BoundTerm> {
    let name = &receiver.name;
    let Type::Vector(element, _) = &receiver.of.value_type else {
        bail!("Invalid list literal for {name} of type {}", receiver.of);
    };
    check_count(name, &receiver.of.value_type, terms.len())?;
    if let Some(wrong) = terms.iter().find(|t| !is_assignable(t, element, context)) {
        let shown = ColumnType::frozen((**element).clone());
        bail!("Invalid vector literal for {name}: value {wrong} is not of type {shown}");
    }
    let part = receiver.other(format!("value({name})"), (**element).clone());
    let parts = terms.iter().map(|term| BoundTerm::prepare(term, &part, context));
    BoundTerm::Many(receiver.of.value_type.clone(), parts.collect::<Result<_>>()?).folded()
}

fn prepare_tuple(
    parts: &[ast::Term<'_>],
    types: &[Type],
    receiver: &Receiver,
    context: &mut Context<'_>,
) -> Result<BoundTerm> {
    let name = &receiver.name;
    for (i, part) in parts.iter().enumerate() {
        let Some(of) = types.get(i) else {
            bail!(
                "Invalid tuple literal for {name}: too many elements. Type {} expects {} but got {}",
                receiver.of,
                types.len(),
                parts.len()
            );
        };
        bail_if!(
            !is_assignable(part, of, context),
            "Invalid tuple literal for {name}: component {i} is not of type {}",
            of.cql_name()
        );
    }
    let prepared = parts.iter().zip(types).enumerate().map(|(i, (part, of))| {
        let part_receiver = receiver.other(format!("{name}[{i}]"), of.clone());
        BoundTerm::prepare(part, &part_receiver, context)
    });
    let prepared: Result<Vec<_>> = prepared.collect();
    BoundTerm::Many(receiver.of.value_type.clone(), prepared?).folded()
}

fn prepare_user(
    fields: &[(ast::AstName<'_>, ast::Term<'_>)],
    receiver: &Receiver,
    context: &mut Context<'_>,
) -> Result<BoundTerm> {
    let name = &receiver.name;
    let Type::Udt(udt) = &receiver.of.value_type else {
        bail!("Invalid user type literal for {name} of type {}", receiver.of);
    };
    if let Some((unknown, _)) =
        fields.iter().find(|(n, _)| !udt.fields.iter().any(|f| f.0 == n.text))
    {
        bail!("Unknown field '{unknown}' in value of user defined type {}", udt.name);
    }
    let mut parts = vec![];
    for (field, of) in &udt.fields {
        let Some((_, term)) = fields.iter().find(|(n, _)| n.text == *field) else {
            parts.push(BoundTerm::Constant(None));
            continue;
        };
        bail_if!(
            !is_assignable(term, of, context),
            "Invalid user type literal for {name}: field {field} is not of type {}",
            of.cql_name()
        );
        parts.push(BoundTerm::prepare(
            term,
            &receiver.other(format!("{name}.{field}"), of.clone()),
            context,
        )?);
    }
    let all = if receiver.of.multicell {
        BoundTerm::Fields(parts)
    } else {
        BoundTerm::Many(receiver.of.value_type.clone(), parts)
    };
    all.folded()
}

/// Reports whether it is a marker without a hint.
pub fn is_marker(term: &ast::Term<'_>) -> bool {
    matches!(term.kind, TermKind::Primary(TermPrimary::Marker(_)))
}

/// Returns the error for a marker whose type is ambiguous.
pub fn ambiguous(operator: Operator, left: &dyn Display, right: &dyn Display) -> Error {
    let sign = operator.sign();
    let what = format!("Ambiguous '{sign}' operation with args {left} and {right}");
    invalid!("{what}: use type hint to disambiguate, example '(int) ?'")
}

/// Returns the types of both sides of an operator, of which one is a marker, if only one pair of
/// types has the expected result.
fn operands(
    binary: &ast::Binary<ast::Term<'_>>,
    of: &Type,
    context: &Context<'_>,
) -> Result<(Type, Type)> {
    const TYPES: [Type; 11] = [
        Type::Counter,
        Type::Byte,
        Type::Short,
        Type::Int32,
        Type::Long,
        Type::Integer,
        Type::Decimal,
        Type::Float,
        Type::Double,
        Type::Ascii,
        Type::Utf8,
    ];
    let can = |term: &ast::Term<'_>, of: &Type| match own_type(term, context) {
        Some(own)
            if matches!(term.kind, TermKind::Hint(_) | TermKind::Cast(..) | TermKind::Call(_)) =>
        {
            own == *of
        }
        _ => is_assignable(term, of, context),
    };
    let pairs = TYPES.iter().flat_map(|l| TYPES.iter().map(move |r| (l, r)));
    let mut fitting = pairs.filter(|(l, r)| {
        can(&binary.left, l)
            && can(&binary.right, r)
            && function::arithmetic(binary.operator, l, r)
                .is_some_and(|f| function::is_value_of(&f.result, of))
    });
    let (operator, left, right) = (binary.operator, &binary.left, &binary.right);
    match (fitting.next(), fitting.next()) {
        (Some((l, r)), None) => Ok((l.clone(), r.clone())),
        (None, _) => Err(function::unsupported(operator, left, right)),
        (Some(_), Some(_)) => Err(ambiguous(operator, left, right)),
    }
}

/// Prepares a call, a cast or arithmetic.
fn prepare_computed(
    term: &ast::Term<'_>,
    receiver: &Receiver,
    context: &mut Context<'_>,
) -> Result<BoundTerm> {
    let of = &receiver.of.value_type;
    let wrong_type = |result: &Type| {
        invalid!(
            "Type error: cannot assign result of function {term} (type {}) to {} (type {})",
            result.cql_name(),
            receiver.name,
            receiver.of
        )
    };
    match &term.kind {
        TermKind::Call(call) => {
            let function = called(call, Some(of), context)?;
            context.calls.extend(function.resource.clone());
            bail_if!(
                !function::is_value_of(&function.result, of),
                "Type error: cannot assign result of function {} (type {}) to {} (type {})",
                function.name,
                function::signature_type(&function.result),
                receiver.name,
                receiver.of
            );
            let mut arguments = vec![];
            for (i, (argument, of)) in call.arguments.iter().zip(&function.arguments).enumerate() {
                if !is_assignable(argument, of, context) {
                    return Err(function.wrong_argument(i, argument));
                }
                let wanted = receiver.other(format!("arg{i}({})", function.name), of.clone());
                arguments.push(BoundTerm::prepare(argument, &wanted, context)?);
            }
            BoundTerm::Call(Arc::new(function), arguments).folded()
        }
        TermKind::Cast(inner, to) => {
            let to = native_type(*to);
            let known = own_type(inner, context);
            if known.is_none() && matches!(inner.kind, TermKind::Primary(TermPrimary::Marker(_))) {
                return Err(function::ambiguous_cast(&to));
            }
            let from = known.unwrap_or_else(|| to.clone());
            let function = function::cast(&from, &to)?;
            if !function::is_value_of(&to, of) {
                return Err(wrong_type(&to));
            }
            let argument =
                BoundTerm::prepare(inner, &receiver.other(receiver.name.clone(), from), context)?;
            BoundTerm::Call(Arc::new(function), vec![argument]).folded()
        }
        TermKind::Negate(inner) => {
            let function = function::negate(of)?;
            let wanted = receiver.other(format!("arg0({})", function.name), of.clone());
            let argument = BoundTerm::prepare(inner, &wanted, context)?;
            BoundTerm::Call(Arc::new(function), vec![argument]).folded()
        }
        TermKind::Binary(binary) => {
            // Constants, and expressions of constants, get the expected type if they can have it.
            let exact = |t: &ast::Term<'_>| match &t.kind {
                TermKind::Primary(TermPrimary::Constant(_))
                | TermKind::Binary(_)
                | TermKind::Negate(_)
                | TermKind::Tuple(_)
                    if is_assignable(t, of, context) =>
                {
                    of.clone()
                }
                _ => own_type(t, context).unwrap_or_else(|| of.clone()),
            };
            let (left, right) = match of {
                // Only a duration can be added to a time.
                Type::Timestamp | Type::SimpleDate => (
                    exact(&binary.left),
                    own_type(&binary.right, context).unwrap_or(Type::Duration),
                ),
                _ if is_marker(&binary.left) || is_marker(&binary.right) => {
                    operands(binary, of, context)?
                }
                _ => (exact(&binary.left), exact(&binary.right)),
            };
            let function = function::arithmetic(binary.operator, &left, &right)
                .filter(|function| function::is_value_of(&function.result, of))
                .ok_or_else(|| {
                    function::unsupported(binary.operator, &binary.left, &binary.right)
                })?;
            let argument =
                |i: usize, of: Type| receiver.other(format!("arg{i}({})", function.name), of);
            let left = BoundTerm::prepare(&binary.left, &argument(0, left), context)?;
            let right = BoundTerm::prepare(&binary.right, &argument(1, right), context)?;
            BoundTerm::Call(Arc::new(function), vec![left, right]).folded()
        }
        _ => Err(invalid!("{term} can't be computed")),
    }
}
