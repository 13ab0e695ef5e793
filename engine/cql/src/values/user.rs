//! User-defined functions: overload resolution, and conversion of arguments and results between CQL
//! and the script language.
//!
//! | CQL | script language |
//! |---|---|
//! | boolean | `bool` |
//! | tinyint, smallint, int, bigint, counter | an integer |
//! | date, time, timestamp | an integer: days since 1970, nanoseconds, milliseconds since 1970 |
//! | varint | an integer; a text if it exceeds 64 bits |
//! | float, double | a float |
//! | decimal, duration, inet, uuid, timeuuid | a text |
//! | text, ascii | a text |
//! | blob | a blob |
//! | list, set, tuple | an array |
//! | map | an object map, keyed by the texts of its keys |
//! | a user type | an object map, keyed by the names of its fields |
//! | null | `()` |
//!
//! Results are converted in reverse. An integer is also accepted for a float or a decimal, and a
//! text for any type with a text form.

use std::sync::Arc;

use firn_wide::internals::types::{hex, hex_to_bytes};
use firn_wide::{Type, Wording};

use super::call::{ArgumentFit, CallArguments};
use super::function::{self, Function, is_value_of};
use super::value::bytes_of_text;
use super::{Context, Value, native, put_many};
use crate::catalog::{ColumnType, Resource, StoredAggregate, StoredFunction};
use crate::error::{Error, Result, bail, bail_if, invalid};
use crate::script::ScriptValue;
use crate::syntax::ast::QualifiedName;

/// Target of a call.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A native or user-defined function.
    Function(Function),
    /// A user-defined aggregate.
    Aggregate(Arc<StoredAggregate>),
}

/// A user-defined function or aggregate in overload resolution.
#[derive(Clone)]
enum Candidate {
    Function(Arc<StoredFunction>),
    Aggregate(Arc<StoredAggregate>),
}

impl Candidate {
    fn parts(&self) -> (&str, &str, &[ColumnType], &ColumnType) {
        match self {
            Candidate::Function(f) => (&f.keyspace, &f.name, &f.arguments, &f.result),
            Candidate::Aggregate(a) => (&a.keyspace, &a.name, &a.arguments, &a.result),
        }
    }

    /// Returns `ks.f : (int) -> text`.
    fn shown(&self) -> String {
        let (keyspace, name, arguments, result) = self.parts();
        let types: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        format!("{keyspace}.{name} : ({}) -> {result}", types.join(", "))
    }

    fn callee(self) -> Callee {
        match self {
            Candidate::Function(f) => Callee::Function(user_function(&f)),
            Candidate::Aggregate(a) => Callee::Aggregate(a),
        }
    }
}

/// Resolves a call of this name with the expected type `wanted`, among native functions and those
/// of the keyspace.
///
/// # Errors
/// Those of [`function::find`]; errors for arguments that match none of several functions, or more
/// than one.
pub fn find_callee(
    name: &QualifiedName<'_>,
    call: &CallArguments<'_>,
    wanted: Option<&Type>,
    context: &Context<'_>,
) -> Result<Callee> {
    let CallArguments { types: arguments, fit, .. } = *call;
    let home = name.keyspace.as_ref().map_or(context.keyspace, |k| &*k.text);
    let word = &*name.name.text;
    let mut candidates = vec![];
    if let Some(home) = context.catalog.keyspace(home) {
        let functions = home.functions().filter(|f| f.name == word);
        candidates.extend(functions.cloned().map(Candidate::Function));
        let aggregates = home.aggregates().filter(|a| a.name == word);
        candidates.extend(aggregates.cloned().map(Candidate::Aggregate));
    }
    let native = || {
        let is_own = name.keyspace.as_ref().is_none_or(|k| k.text == "system");
        let newer = match is_own {
            true => native::named(&word.to_ascii_lowercase(), call, wanted)?,
            false => None,
        };
        let found = newer.map_or_else(|| function::find(name, arguments, wanted, context), Ok);
        found.map(Callee::Function)
    };
    let own = match &candidates[..] {
        [] => return native(),
        _ if name.keyspace.is_none() => native().ok(),
        _ => None,
    };
    if let ([only], None) = (&candidates[..], &own) {
        let (keyspace, name, types, _) = only.parts();
        bail_if!(
            types.len() != arguments.len(),
            "Invalid number of arguments in call to function {keyspace}.{name}: {} required but {} provided",
            types.len(),
            arguments.len()
        );
        return Ok(only.clone().callee());
    }
    let of = |candidate: &Candidate| {
        let (_, _, types, result) = candidate.parts();
        let gives = wanted.is_none_or(|wanted| is_value_of(&result.value_type, wanted));
        if !gives || types.len() != arguments.len() {
            return ArgumentFit::Never;
        }
        let each = types.iter().enumerate().map(|(i, of)| fit(i, &of.value_type));
        each.min().unwrap_or(ArgumentFit::Exact)
    };
    let fits: Vec<(ArgumentFit, &Candidate)> = candidates.iter().map(|c| (of(c), c)).collect();
    if let Some((_, exact)) = fits.iter().find(|(fit, _)| *fit == ArgumentFit::Exact) {
        return Ok((*exact).clone().callee());
    }
    if let Some(own) = own {
        return Ok(own);
    }
    let weak: Vec<&Candidate> =
        fits.iter().filter(|(fit, _)| *fit == ArgumentFit::Weak).map(|(_, c)| *c).collect();
    let list = |all: &[&Candidate]| all.iter().map(|c| c.shown()).collect::<Vec<_>>().join(", ");
    match weak[..] {
        [only] => Ok(only.clone().callee()),
        [] => {
            let all: Vec<&Candidate> = candidates.iter().collect();
            Err(invalid!(
                "Invalid call to function {name}, none of its type signatures match (known type signatures: {})",
                list(&all)
            ))
        }
        _ => Err(invalid!(
            "Ambiguous call to function {name} (can be matched by following signatures: {}): use type casts to disambiguate",
            list(&weak)
        )),
    }
}

/// Returns the error for an aggregate outside a selection.
pub fn misplaced_aggregate() -> Error {
    invalid("Aggregation function are not supported in the where clause")
}

/// Returns a user-defined function in a form that terms and selections can call.
pub fn user_function(stored: &Arc<StoredFunction>) -> Function {
    let resource = {
        let (name, types) = stored.signature();
        Resource::Function(stored.keyspace.clone(), name, types)
    };
    let types: Vec<Type> = stored.arguments.iter().map(|of| of.value_type.clone()).collect();
    let (function, of) = (stored.clone(), types.clone());
    let name = format!("{}.{}", stored.keyspace, stored.name);
    Function::of_user(name, types, stored.result.value_type.clone(), resource, move |arguments| {
        call(&function, &of, arguments)
    })
}

/// Reports whether a user-defined function is called with these arguments. It is not called with
/// nulls unless it is declared so.
pub fn is_callable(called_on_null: bool, types: &[Type], arguments: &[Option<&[u8]>]) -> bool {
    let is_null = |(of, value): (&Type, &Option<&[u8]>)| match value {
        None => true,
        Some(bytes) => bytes.is_empty() && !has_empty(of),
    };
    called_on_null || !types.iter().zip(arguments).any(is_null)
}

/// Reports whether an empty byte string is a value of the type.
fn has_empty(of: &Type) -> bool {
    matches!(of, Type::Utf8 | Type::Ascii | Type::Bytes)
}

fn call(
    function: &StoredFunction,
    types: &[Type],
    arguments: &[Option<&[u8]>],
) -> Result<Option<Vec<u8>>> {
    if !is_callable(function.called_on_null, types, arguments) {
        return Ok(None);
    }
    let given = types.iter().zip(arguments).map(|(of, value)| script_value(of, *value));
    let given = given.collect::<Result<Vec<_>>>()?;
    let made = function.program.call(given);
    let result = &function.result.value_type;
    made.and_then(|made| bytes_of(result, made)).map_err(|why| Error::FunctionFailed {
        keyspace: function.keyspace.clone(),
        name: function.name.clone(),
        arguments: function.arguments.iter().map(ToString::to_string).collect(),
        why,
    })
}

fn script_value(of: &Type, bytes: Option<&[u8]>) -> Result<ScriptValue> {
    shown_to(of, Value::decode(of, bytes)?)
}

fn shown_to(of: &Type, value: Value) -> Result<ScriptValue> {
    let of = of.unreversed();
    let all = |of: &Type, values: Vec<Value>| {
        let each = values.into_iter().map(|v| shown_to(of, v));
        each.collect::<Result<_>>().map(ScriptValue::Array)
    };
    Ok(match (value, of) {
        (Value::Null | Value::Unset | Value::Empty, _) => ScriptValue::Nothing,
        (Value::Boolean(b), _) => ScriptValue::Boolean(b),
        (Value::TinyInt(n), _) => ScriptValue::Integer(n.into()),
        (Value::SmallInt(n), _) => ScriptValue::Integer(n.into()),
        (Value::Int(n), _) => ScriptValue::Integer(n.into()),
        (
            Value::BigInt(n)
            | Value::Counter(n)
            | Value::Date(n)
            | Value::Time(n)
            | Value::Timestamp(n),
            _,
        ) => ScriptValue::Integer(n),
        (Value::VarInt(n), _) => i64::try_from(&n)
            .map_or_else(|_| ScriptValue::Text(n.to_string()), ScriptValue::Integer),
        (Value::Float(n), _) => ScriptValue::Real(n.into()),
        (Value::Double(n), _) => ScriptValue::Real(n),
        (Value::Decimal(text) | Value::Text(text) | Value::Duration(text), _) => {
            ScriptValue::Text(text)
        }
        (Value::Blob(bytes), _) => ScriptValue::Blob(bytes),
        (Value::Uuid(id), _) => ScriptValue::Text(id.to_string()),
        (Value::Inet(address), _) => ScriptValue::Text(address.to_string()),
        (Value::List(values), Type::List(e)) | (Value::Set(values), Type::Set(e)) => {
            all(e, values)?
        }
        (Value::Tuple(values), Type::Tuple(types)) => {
            let each = types.iter().zip(values).map(|(of, v)| shown_to(of, v));
            ScriptValue::Array(each.collect::<Result<_>>()?)
        }
        (Value::Map(pairs), Type::Map(kv)) => {
            let entry = |(key, value): (Value, Value)| {
                let key = key.encode(&kv.0)?;
                Ok((key_text(&kv.0, key.bytes().unwrap_or_default())?, shown_to(&kv.1, value)?))
            };
            ScriptValue::Map(pairs.into_iter().map(entry).collect::<Result<_>>()?)
        }
        (Value::User(fields), Type::Udt(udt)) => {
            let field = |((name, value), (_, of)): ((String, Value), &(String, Type))| {
                Ok((name, shown_to(of, value)?))
            };
            ScriptValue::Map(fields.into_iter().zip(&udt.fields).map(field).collect::<Result<_>>()?)
        }
        (other, of) => {
            bail!("{other:?} of type {} has no form in the script language", of.cql_name());
        }
    })
}

/// Converts a key of a map to a text.
fn key_text(of: &Type, bytes: &[u8]) -> Result<String> {
    match of {
        Type::Bytes => Ok(format!("0x{}", hex(bytes))),
        Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Tuple(_) | Type::Udt(_) => {
            Err(invalid!("a key of type {} has no form in the script language", of.cql_name()))
        }
        _ => Ok(of.to_text(bytes, Wording::Cql)),
    }
}

fn key_bytes(of: &Type, text: String) -> Result<Vec<u8>> {
    let bytes = match of {
        Type::Bytes => {
            let digits = text.strip_prefix("0x");
            hex_to_bytes(digits.ok_or_else(|| invalid("a blob begins with 0x"))?)?
        }
        _ => bytes_of_text(of, &text)?,
    };
    of.validate(&bytes)?;
    Ok(bytes)
}

/// Converts a value of the script language to bytes of this type.
fn bytes_of(of: &Type, value: ScriptValue) -> std::result::Result<Option<Vec<u8>>, String> {
    let of = of.unreversed();
    let many = |parts: Vec<Option<Vec<u8>>>| put_many(of, parts).map(Some).map_err(text_of);
    let value = match (value, of) {
        (ScriptValue::Nothing, _) => return Ok(None),
        (ScriptValue::Boolean(b), _) => Value::Boolean(b),
        (ScriptValue::Integer(n), Type::Float | Type::Double) => Value::Double(n as f64),
        (ScriptValue::Integer(n), Type::Decimal) => Value::Decimal(n.to_string()),
        (ScriptValue::Integer(n), Type::SimpleDate) => Value::Date(n),
        (ScriptValue::Integer(n), _) => Value::BigInt(n),
        (ScriptValue::Real(n), Type::Decimal) => Value::Decimal(n.to_string()),
        (ScriptValue::Real(n), _) => Value::Double(n),
        (ScriptValue::Text(text), _) => Value::Text(text),
        (ScriptValue::Blob(bytes), _) => Value::Blob(bytes),
        (ScriptValue::Array(values), Type::List(e) | Type::Set(e)) => {
            let each = values.into_iter().map(|v| match bytes_of(e, v)? {
                None => Err("null is not supported inside collections".to_owned()),
                value => Ok(value),
            });
            return many(each.collect::<std::result::Result<_, _>>()?);
        }
        (ScriptValue::Array(values), Type::Tuple(types)) => {
            if values.len() > types.len() {
                return Err(format!("{} values are too many for {}", values.len(), of.cql_name()));
            }
            let each = types.iter().zip(values).map(|(of, v)| bytes_of(of, v));
            return many(each.collect::<std::result::Result<_, _>>()?);
        }
        (ScriptValue::Map(entries), Type::Map(kv)) => {
            let mut parts = Vec::with_capacity(entries.len() * 2);
            for (key, value) in entries {
                parts.push(Some(key_bytes(&kv.0, key).map_err(text_of)?));
                let value = bytes_of(&kv.1, value)?;
                parts.push(Some(value.ok_or("null is not supported inside collections")?));
            }
            return many(parts);
        }
        (ScriptValue::Map(mut entries), Type::Udt(udt)) => {
            let mut parts = vec![];
            for (name, of) in &udt.fields {
                let at = entries.iter().position(|(key, _)| key == name);
                let value = at.map_or(ScriptValue::Nothing, |at| entries.swap_remove(at).1);
                parts.push(bytes_of(of, value)?);
            }
            if let Some((name, _)) = entries.first() {
                return Err(format!("{} has no field {name}", of.cql_name()));
            }
            return many(parts);
        }
        (ScriptValue::Array(_), _) => return Err(format!("an array is no {}", of.cql_name())),
        (ScriptValue::Map(_), _) => return Err(format!("an object map is no {}", of.cql_name())),
    };
    Ok(value.encode(of).map_err(text_of)?.into_bytes())
}

fn text_of(e: Error) -> String {
    e.text().into_owned()
}
