//! User-defined functions and aggregates: create, drop and describe.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::engine::Engine;
use super::rows::{Rows, SchemaChange};
use crate::catalog::{
    Catalog, ColumnType, Resource, Signature, StoredAggregate, StoredFunction, argument_text,
    keyspace_of,
};
use crate::error::Result;
use crate::syntax::ast::{QualifiedName, Statement, Term};
use crate::syntax::quote_if_needed;
use crate::values::{BoundTerm, Context, EvalEnv, Receiver, literal};

/// Executes a statement about functions; returns `None` for any other statement. `role` is the
/// logged-in role.
///
/// # Errors
/// Errors of the statement. Then nothing was changed.
pub(super) fn execute(
    engine: &Engine,
    keyspace: Option<&str>,
    role: Option<&str>,
    statement: &Statement<'_>,
    stop: Option<&Arc<AtomicBool>>,
) -> Result<Option<Rows>> {
    let home = |name: &QualifiedName<'_>| keyspace_of(name, keyspace).map(str::to_owned);
    // The kind of change, the kind of object, and its signature.
    let mut done: Option<(&'static str, &'static str, Signature)> = None;
    let mut made = |next: Option<(Catalog, bool)>, target, resource: Resource| {
        let Some((catalog, replaces)) = next else { return Ok(None) };
        let catalog =
            if replaces { catalog } else { catalog.granted_to_creator(role, &resource)? };
        done = Some((if replaces { "UPDATED" } else { "CREATED" }, target, key_of(resource)));
        Ok(Some(catalog))
    };
    let home = match statement {
        Statement::CreateFunction(s) => {
            let home = home(&s.name)?;
            engine.change(stop, |c| {
                let types: Vec<_> = s.arguments.iter().map(|(_, of)| of.clone()).collect();
                let next = c.create_function(s, &home)?;
                made(next, "FUNCTION", c.function_resource(&home, &s.name.name.text, &types)?)
            })?;
            home
        }
        Statement::CreateAggregate(s) => {
            let home = home(&s.name)?;
            engine.change(stop, |c| {
                let initial = |of: &ColumnType| match &s.initial {
                    Some(term) => value_of(engine, c, &home, term, of),
                    None => Ok(None),
                };
                let next = c.create_aggregate(s, &home, initial)?;
                let resource = c.function_resource(&home, &s.name.name.text, &s.arguments)?;
                made(next, "AGGREGATE", resource)
            })?;
            home
        }
        Statement::DropFunction(s) => {
            let home = home(&s.name.name)?;
            engine.change(stop, |c| {
                let found = c.drop_function(s, &home)?;
                Ok(found.map(|(next, key)| {
                    done = Some(("DROPPED", "FUNCTION", key));
                    next
                }))
            })?;
            home
        }
        Statement::DropAggregate(s) => {
            let home = home(&s.name.name)?;
            engine.change(stop, |c| {
                let found = c.drop_aggregate(s, &home)?;
                Ok(found.map(|(next, key)| {
                    done = Some(("DROPPED", "AGGREGATE", key));
                    next
                }))
            })?;
            home
        }
        _ => return Ok(None),
    };
    let Some((change, target, (name, arguments))) = done else { return Ok(Some(Rows::void())) };
    let change = SchemaChange { change, target, keyspace: home, name: Some(name), arguments };
    engine.report(&change);
    Ok(Some(Rows::schema(change)))
}

/// Returns the signature in a resource.
fn key_of(resource: Resource) -> Signature {
    match resource {
        Resource::Function(_, name, types) => (name, types),
        _ => Signature::default(),
    }
}

/// Returns the value of a constant term.
fn value_of(
    engine: &Engine,
    catalog: &Catalog,
    keyspace: &str,
    term: &Term<'_>,
    of: &ColumnType,
) -> Result<Option<Vec<u8>>> {
    let mut context = Context::new(catalog, keyspace, engine.partitioner());
    let receiver = Receiver::without_table("(dummy)", of.value_type.clone()).of_table(keyspace, "");
    let term = BoundTerm::prepare(term, &receiver, &mut context)?;
    let random = || engine.random_bits();
    let env = EvalEnv { bound: &[], now: engine.store().timestamp(), random: &random };
    Ok(term.eval(&env)?.into_bytes())
}

/// Returns the `CREATE FUNCTION` statement of this function.
pub(super) fn function_text(function: &StoredFunction) -> String {
    let names = function.program.arguments().iter().zip(&function.arguments);
    let arguments: Vec<String> = names
        .map(|(name, of)| format!("{} {}", quote_if_needed(name), argument_text(of)))
        .collect();
    let on_null = if function.called_on_null { "CALLED" } else { "RETURNS NULL" };
    let body = function.program.body();
    let body = match body.contains("$$") || body.ends_with('$') {
        true => format!("'{}'", body.replace('\'', "''")),
        false => format!("$${body}$$"),
    };
    format!(
        "CREATE FUNCTION {}.{}({})\n    {on_null} ON NULL INPUT\n    RETURNS {}\n    LANGUAGE {}\n    AS {body};",
        quote_if_needed(&function.keyspace),
        quote_if_needed(&function.name),
        arguments.join(", "),
        argument_text(&function.result),
        function.language,
    )
}

/// Returns the initial state of an aggregate as a CQL literal.
pub(super) fn initial_text(aggregate: &StoredAggregate) -> Option<String> {
    aggregate.initial.as_ref().map(|bytes| literal(&aggregate.state.value_type, Some(bytes)))
}

/// Returns the `CREATE AGGREGATE` statement of this aggregate.
pub(super) fn aggregate_text(aggregate: &StoredAggregate) -> String {
    let mut text = format!(
        "CREATE AGGREGATE {}.{}\n    SFUNC {}\n    STYPE {}",
        quote_if_needed(&aggregate.keyspace),
        aggregate.signed_name(),
        quote_if_needed(&aggregate.state_function),
        argument_text(&aggregate.state)
    );
    if let Some(name) = &aggregate.final_function {
        text.push_str(&format!("\n    FINALFUNC {}", quote_if_needed(name)));
    }
    if let Some(initial) = initial_text(aggregate) {
        text.push_str(&format!("\n    INITCOND {initial}"));
    }
    text + ";"
}
