//! Types of selectors before they are resolved.

use std::sync::Arc;

use firn_wide::Type;

use crate::catalog::TableSchema;
use crate::error::{Result, invalid};
use crate::syntax::ast::{
    self, About, AstName, FunctionCall, Selector, SelectorKind, SelectorPrimary,
};
use crate::values::aggregate::AggregateKind;
use crate::values::{Callee, Context, inferred_type, is_assignable, own_type, resolve_call};

/// Infers the types of selectors of a table.
#[derive(Debug)]
pub struct SelectorTypes<'a, 'c> {
    pub table: &'a TableSchema,
    pub context: &'a Context<'c>,
}

impl SelectorTypes<'_, '_> {
    /// Returns the type of a selector, if it is known without an expected type.
    pub fn type_of(&self, selector: &Selector<'_>) -> Option<Type> {
        let first =
            |items: &[Selector<'_>]| items.iter().find_map(|i| self.type_of(i)).map(Arc::new);
        let other = || match &selector.kind {
            SelectorKind::Primary(primary) => self.type_of_primary(primary),
            SelectorKind::List(items) => first(items).map(Type::List),
            SelectorKind::Set(items) => first(items).map(Type::Set),
            SelectorKind::Call(call) => match aggregate_of(call) {
                Some(kind) => {
                    let of = call.arguments.first().and_then(|a| self.type_of(a));
                    kind.result(&of.unwrap_or(Type::Long)).ok()
                }
                None => match self.callee(call, None).ok()? {
                    Callee::Function(function) => Some(function.result),
                    Callee::Aggregate(aggregate) => Some(aggregate.result.value_type.clone()),
                },
            },
            SelectorKind::Tuple(items) if items.len() == 1 => self.type_of(&items[0]),
            SelectorKind::Tuple(items) => {
                let types: Option<Vec<_>> = items.iter().map(|i| self.type_of(i)).collect();
                types.map(|of| Type::Tuple(of.into()))
            }
            SelectorKind::Negate(inner) => self.type_of(inner),
            _ => None,
        };
        inferred_type(selector, &|operand| self.operand_type(operand), &other, self.context)
    }

    fn type_of_primary(&self, primary: &SelectorPrimary<'_>) -> Option<Type> {
        match primary {
            SelectorPrimary::Column(name) => {
                self.table.column(&name.text).map(|c| c.of.value_type.clone())
            }
            SelectorPrimary::Term(_) => None,
            SelectorPrimary::CountRows => Some(Type::Long),
            SelectorPrimary::About(about, of) => {
                let is_whole = |of: &Selector<'_>| {
                    use SelectorPrimary::{Column, Slice};
                    matches!(&of.kind, SelectorKind::Primary(Slice(_) | Column(_)))
                };
                let column = self.table.column(&column_within(of).ok()?.text)?;
                Some(type_of_times(*about, column.of.multicell && is_whole(of)))
            }
            SelectorPrimary::Field(field) => match self.type_of(&field.0)? {
                Type::Udt(udt) => {
                    udt.fields.iter().find(|f| f.0 == field.1.text).map(|f| f.1.clone())
                }
                _ => None,
            },
            SelectorPrimary::Element(element) => match self.type_of(&element.0)? {
                of @ (Type::Map(_) | Type::Set(_)) => Some(key_and_value(&of).1),
                _ => None,
            },
            SelectorPrimary::Slice(slice) => self.type_of(&slice.0),
        }
    }

    /// Returns the type of an argument; for a constant, the type it has by itself.
    pub fn argument_type(&self, selector: &Selector<'_>) -> Option<Type> {
        term_of(selector)
            .map_or_else(|| self.type_of(selector), |term| own_type(term, self.context))
    }

    /// Returns the type of a side of an operator. A text literal of ASCII characters is `ascii`
    /// rather than `text`.
    pub fn operand_type(&self, selector: &Selector<'_>) -> Option<Type> {
        let of = self.argument_type(selector)?;
        let is_ascii = of == Type::Utf8
            && term_of(selector).is_some_and(|t| {
                is_assignable(t, &Type::Ascii, self.context) && t.to_string().is_ascii()
            });
        Some(if is_ascii { Type::Ascii } else { of })
    }

    pub fn callee(
        &self,
        call: &FunctionCall<'_, Selector<'_>>,
        wanted: Option<&Type>,
    ) -> Result<Callee> {
        resolve_call(call, &|s| self.argument_type(s), &term_of, wanted, self.context)
    }
}

/// Returns the column to which a part belongs.
pub fn column_within<'s, 't>(of: &'s Selector<'t>) -> Result<&'s AstName<'t>> {
    match &of.kind {
        SelectorKind::Primary(SelectorPrimary::Column(name)) => Ok(name),
        SelectorKind::Primary(SelectorPrimary::Field(field)) => column_within(&field.0),
        SelectorKind::Primary(SelectorPrimary::Element(element)) => column_within(&element.0),
        SelectorKind::Primary(SelectorPrimary::Slice(slice)) => column_within(&slice.0),
        _ => Err(invalid!("{of} is not a part of a column")),
    }
}

/// Returns the type of write times or TTLs; `many`: one for each of several cells.
pub fn type_of_times(about: About, many: bool) -> Type {
    match about {
        About::MaxWriteTime => Type::Long,
        About::WriteTime if !many => Type::Long,
        About::Ttl if !many => Type::Int32,
        About::WriteTime => Type::List(Arc::new(Type::Long)),
        About::Ttl => Type::List(Arc::new(Type::Int32)),
    }
}

/// Returns the term in a selector, if it is a term.
pub fn term_of<'s, 't>(selector: &'s Selector<'t>) -> Option<&'s ast::Term<'t>> {
    match &selector.kind {
        SelectorKind::Primary(SelectorPrimary::Term(term)) => Some(term),
        _ => None,
    }
}

pub fn aggregate_of(call: &FunctionCall<'_, Selector<'_>>) -> Option<AggregateKind> {
    let own = call.function.keyspace.as_ref().is_none_or(|k| k.text == "system");
    AggregateKind::named(&call.function.name.text.to_ascii_lowercase()).filter(|_| own)
}

/// Returns the type of a map's keys or a set's elements, and the type of the selected value.
pub fn key_and_value(of: &Type) -> (Type, Type) {
    match of {
        Type::Map(kv) => (kv.0.clone(), kv.1.clone()),
        Type::Set(e) => ((**e).clone(), (**e).clone()),
        other => (other.clone(), other.clone()),
    }
}
