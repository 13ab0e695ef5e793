//! Native scalar functions, casts and arithmetic. Aggregates and functions of cells (`writetime`,
//! `count`) belong to the selection.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use firn_wide::internals::types::{after, duration_parts};
use firn_wide::{Partitioner, Type, Wording, uuids};
use serde_json::value::RawValue;

use super::vector::{Similarity, is_zero};
use super::{Context, EvalEnv, number, server_text};
use crate::catalog::{ColumnType, Resource};
use crate::error::{Error, ErrorClass, Result, bail, bail_if, invalid};
use crate::syntax::ast::{Operator, QualifiedName};

type Evaluate = dyn Fn(&EvalEnv<'_>, &[Option<&[u8]>]) -> Result<Option<Vec<u8>>> + Send + Sync;

/// A scalar function.
#[derive(Clone)]
pub struct Function {
    /// Name for messages: `system.now`.
    pub name: String,
    /// Types of its arguments.
    pub arguments: Vec<Type>,
    /// Type of its result.
    pub result: Type,
    /// Whether the result depends only on the arguments.
    pub is_pure: bool,
    /// Resource for the permission to call it, if it is user-defined.
    pub resource: Option<Resource>,
    run: Arc<Evaluate>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.name).finish()
    }
}

impl Function {
    pub(super) fn new(
        name: impl Into<String>,
        arguments: Vec<Type>,
        result: Type,
        run: impl Fn(&EvalEnv<'_>, &[Option<&[u8]>]) -> Result<Option<Vec<u8>>> + Send + Sync + 'static,
    ) -> Function {
        let (name, run) = (name.into(), Arc::new(run));
        Function { name, arguments, result, is_pure: true, resource: None, run }
    }

    /// Creates a function of one argument that returns null for null.
    pub(super) fn of_one(
        name: impl Into<String>,
        from: &Type,
        to: Type,
        run: impl Fn(&[u8]) -> Result<Option<Vec<u8>>> + Send + Sync + 'static,
    ) -> Function {
        let each = move |_: &EvalEnv<'_>, a: &[Option<&[u8]>]| {
            a.first().copied().flatten().map_or(Ok(None), &run)
        };
        Function::new(name, vec![from.clone()], to, each)
    }

    /// Creates a user-defined function. It is not pure, because its body is unknown.
    pub(super) fn of_user(
        name: String,
        arguments: Vec<Type>,
        result: Type,
        resource: Resource,
        run: impl Fn(&[Option<&[u8]>]) -> Result<Option<Vec<u8>>> + Send + Sync + 'static,
    ) -> Function {
        let made = Function::new(name, arguments, result, move |_, given| run(given));
        Function { resource: Some(resource), ..made.changing() }
    }

    fn changing(self) -> Function {
        Function { is_pure: false, ..self }
    }

    /// Returns the error for an argument that cannot have its type.
    pub fn wrong_argument(&self, number: usize, shown: &dyn fmt::Display) -> Error {
        let of = self.arguments.get(number).unwrap_or(&Type::Bytes);
        wrong_argument(&self.name, number, of, shown)
    }

    /// Returns the error for an unset argument.
    pub fn unset_argument(&self) -> Error {
        let name = self.name.strip_prefix("system.").unwrap_or(&self.name);
        invalid!("Invalid unset value for argument in call to function {name}")
    }

    /// Calls it with these arguments, which have its types; `None` is null.
    ///
    /// # Errors
    /// `Invalid` if the result cannot be computed.
    pub fn call(&self, env: &EvalEnv<'_>, arguments: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>> {
        (self.run)(env, arguments)
    }
}

/// Returns the error for a function argument that cannot have its type.
pub fn wrong_argument(function: &str, number: usize, of: &Type, shown: &dyn fmt::Display) -> Error {
    invalid!(
        "Type error: {shown} cannot be passed as argument {number} of function {function} of type {}",
        signature_type(of)
    )
}

/// Returns the error for a function argument of the wrong type.
pub fn mistyped_argument(
    function: &str,
    number: usize,
    of: &Type,
    (shown, own): (&dyn fmt::Display, &Type),
) -> Error {
    match of {
        Type::Vector(..) if function.starts_with("system.") => {
            no_float_vector(function, shown, own)
        }
        _ => wrong_argument(function, number, of, shown),
    }
}

/// Returns a type as function signatures show it: without `frozen` for collections and user types.
pub fn signature_type(of: &Type) -> String {
    let multicell = !matches!(of, Type::Tuple(_));
    ColumnType { value_type: of.clone(), multicell }.to_string()
}

/// Returns a new time-uuid for the time of the statement.
pub fn time_uuid(env: &EvalEnv<'_>) -> [u8; 16] {
    let bits = (env.random)();
    // Within a microsecond, the random clock sequence and node distinguish uuids.
    uuids::time_uuid(env.now, ((bits >> 96) % 10) as u8, (bits >> 64) as u16, bits as u64 | 1 << 40)
}

/// Reports whether a value of one type is accepted for another type without conversion.
pub fn is_value_of(value: &Type, wanted: &Type) -> bool {
    let (value, wanted) = (value.unreversed(), wanted.unreversed());
    value == wanted
        || match wanted {
            Type::Bytes => true,
            Type::Utf8 => *value == Type::Ascii,
            Type::Uuid => *value == Type::TimeUuid,
            Type::Integer => {
                matches!(value, Type::Int32 | Type::Long | Type::Timestamp | Type::Date)
            }
            Type::Long => matches!(value, Type::Timestamp | Type::Date),
            Type::Time => *value == Type::Long,
            Type::SimpleDate => *value == Type::Int32,
            Type::Timestamp | Type::Date => {
                matches!(value, Type::Timestamp | Type::Date | Type::Long)
            }
            _ => false,
        }
}

/// Returns the type of arithmetic on these types; `None` if they cannot be added.
pub fn result_type(left: &Type, right: &Type) -> Option<Type> {
    match (left.unreversed(), right.unreversed()) {
        (left @ (Type::Timestamp | Type::SimpleDate), Type::Duration) => Some(left.clone()),
        (Type::Ascii, Type::Ascii) => Some(Type::Ascii),
        (Type::Ascii | Type::Utf8, Type::Ascii | Type::Utf8) => Some(Type::Utf8),
        (left, right) => number::result_type(left, right),
    }
}

/// Returns the function with this name for arguments of these types (`None`: unknown) and the
/// expected type `wanted`. `context` has the types of `token()`.
///
/// # Errors
/// `Unknown function …`, or errors for a wrong number or wrong types of arguments.
pub fn find(
    name: &QualifiedName<'_>,
    arguments: &[Option<Type>],
    wanted: Option<&Type>,
    context: &Context<'_>,
) -> Result<Function> {
    if let Some(similarity) = Similarity::of_function(name) {
        return of_vectors(similarity, arguments);
    }
    let shown = name.to_string();
    let own = name.keyspace.as_ref().is_none_or(|k| k.text == "system");
    let word = name.name.text.to_ascii_lowercase();
    if own && matches!(arguments, [None]) {
        let times: Option<(&[Type], Type)> = match &*older_name(&word) {
            "todate" => Some((&[Type::Timestamp, Type::TimeUuid], Type::SimpleDate)),
            "totimestamp" => Some((&[Type::SimpleDate, Type::TimeUuid], Type::Timestamp)),
            "tounixtimestamp" => {
                Some((&[Type::Timestamp, Type::SimpleDate, Type::TimeUuid], Type::Long))
            }
            _ => None,
        };
        if let Some((from, to)) = times {
            return Err(ambiguous(&word, &format!("system.{word}"), from, &to));
        }
    }
    let found = own.then(|| named(&word, arguments, wanted, context)).flatten();
    let wrong_number = |name: &str, wanted: usize| {
        let given = arguments.len();
        invalid!(
            "Invalid number of arguments in call to function {name}: {wanted} required but {given} provided"
        )
    };
    let unknown = || match &*older_name(&word) {
        "tojson" if own && arguments.len() == 1 => invalid!(
            "Cannot infer the type of the argument of function {shown} (try using a cast to force a type)"
        ),
        "tojson" if own => wrong_number("system.tojson", 1),
        "fromjson" if own => {
            invalid("fromJson() cannot be used in the selection clause of a SELECT statement")
        }
        _ => self::unknown(name),
    };
    let function = found.ok_or_else(unknown)?;
    if function.arguments.len() != arguments.len() {
        return Err(wrong_number(&function.name, function.arguments.len()));
    }
    Ok(function)
}

/// Returns the error for an unknown function.
pub fn unknown(name: &QualifiedName<'_>) -> Error {
    invalid!("Unknown function '{name}'")
}

/// Returns the name that a function had before Cassandra 5 wrote it with underscores: `todate` for
/// `to_date`.
fn older_name(word: &str) -> Cow<'_, str> {
    let is_renamed = word.starts_with("blob_as_")
        || word.ends_with("_as_blob")
        || matches!(
            word,
            "current_date"
                | "current_time"
                | "current_timestamp"
                | "current_timeuuid"
                | "max_timeuuid"
        )
        || matches!(
            word,
            "min_timeuuid"
                | "to_date"
                | "to_timestamp"
                | "to_unix_timestamp"
                | "to_json"
                | "from_json"
        );
    if is_renamed { word.replace('_', "").into() } else { word.into() }
}

fn named(
    word: &str,
    arguments: &[Option<Type>],
    wanted: Option<&Type>,
    context: &Context<'_>,
) -> Option<Function> {
    let name = format!("system.{word}");
    let word = &*older_name(word);
    let first = arguments.first().cloned().flatten();
    if let Some(to) = word.strip_prefix("blobas") {
        let to = Type::from_cql_word(if to == "varchar" { "text" } else { to })?;
        return Some(blob_as(name, to));
    }
    if let Some(from) = word.strip_suffix("asblob") {
        let from = Type::from_cql_word(from)?;
        return Some(Function::of_one(name, &from, Type::Bytes, |b| Ok(Some(b.to_vec()))));
    }
    let now = |to: Type, make: fn(i64) -> Vec<u8>| {
        Function::new(name.clone(), vec![], to, move |env, _| {
            Ok(Some(make(env.now.div_euclid(1000))))
        })
        .changing()
    };
    let limit = |make: fn(i64) -> [u8; 16]| {
        Function::of_one(name.clone(), &Type::Timestamp, Type::TimeUuid, move |b| {
            Ok(Some(make(long(b)?).to_vec()))
        })
    };
    let of_time = |to: Type, make: fn(i64) -> Vec<u8>| {
        let from = first.as_ref().and_then(|given| match given {
            Type::TimeUuid | Type::Timestamp | Type::SimpleDate => Some(given.clone()),
            _ => [Type::Timestamp, Type::SimpleDate]
                .into_iter()
                .find(|of| *of != to && is_value_of(given, of)),
        });
        // Without a known type, use the newest alternative.
        let from = from.unwrap_or(Type::TimeUuid);
        let of = from.clone();
        Function::of_one(name.clone(), &from, to, move |b| Ok(Some(make(millis(&of, b)?))))
    };
    // In old versions these accepted a timeuuid only.
    let of_time_uuid = |to: Type, make: fn(i64) -> Vec<u8>| {
        let run = move |b: &[u8]| Ok(Some(make(millis(&Type::TimeUuid, b)?)));
        Function::of_one(name.clone(), &Type::TimeUuid, to, run)
    };
    Some(match word {
        "now" | "currenttimeuuid" => {
            Function::new(name.clone(), vec![], Type::TimeUuid, |env, _| {
                Ok(Some(time_uuid(env).to_vec()))
            })
            .changing()
        }
        "uuid" => Function::new(name.clone(), vec![], Type::Uuid, |env, _| {
            let random = uuid::Builder::from_random_bytes((env.random)().to_be_bytes()).into_uuid();
            Ok(Some(random.as_bytes().to_vec()))
        })
        .changing(),
        "currenttimestamp" => current_timestamp(),
        "currentdate" => now(Type::SimpleDate, date_bytes),
        "currenttime" => {
            now(Type::Time, |ms| (ms.rem_euclid(86_400_000) * 1_000_000).to_be_bytes().to_vec())
        }
        "mintimeuuid" => limit(uuids::min_time_uuid),
        "maxtimeuuid" => limit(uuids::max_time_uuid),
        "todate" => of_time(Type::SimpleDate, date_bytes),
        "totimestamp" => of_time(Type::Timestamp, timestamp_bytes),
        "tounixtimestamp" => of_time(Type::Long, timestamp_bytes),
        "dateof" => of_time_uuid(Type::Timestamp, timestamp_bytes),
        "unixtimestampof" => of_time_uuid(Type::Long, timestamp_bytes),
        "token" => token(name, &context.partition, context.partitioner),
        "tojson" => {
            let from = first?;
            let of = from.clone();
            let run = move |_: &EvalEnv<'_>, a: &[Option<&[u8]>]| {
                let value = a.first().copied().flatten();
                let value = value.filter(|bytes| !bytes.is_empty() || has_empty(&of));
                Ok(Some(super::json(&of, value).into_bytes()))
            };
            Function::new(name, vec![from], Type::Utf8, run)
        }
        "fromjson" => {
            let to = wanted.cloned()?;
            let of = to.clone();
            Function::of_one(name, &Type::Utf8, to, move |b| {
                let text = String::from_utf8_lossy(b);
                let failed = |why: String| {
                    Error::refused(
                        ErrorClass::FunctionFailure,
                        format!("execution of 'system.fromjson[text]' failed: {why}"),
                    )
                };
                let value: &RawValue = serde_json::from_str(&text)
                    .map_err(|e| failed(format!("Could not decode JSON string '{text}': {e}")))?;
                Ok(super::from_json(&of, value).map_err(|e| failed(e.to_string()))?.into_bytes())
            })
        }
        _ => return None,
    })
}

/// Returns the vector similarity function for such arguments.
fn of_vectors(similarity: Similarity, arguments: &[Option<Type>]) -> Result<Function> {
    let shown = format!("system.similarity_{}", similarity.word());
    let signature = format!("{shown}(vector<float, n>, vector<float, n>)");
    bail_if!(arguments.len() != 2, "Invalid number of arguments for function {signature}");
    let count = |of: &Type| if let Type::Vector(_, n) = of { Some(*n) } else { None };
    let counts: Vec<u32> = arguments.iter().flatten().filter_map(count).collect();
    let Some(first) = counts.first() else {
        return Err(match arguments.iter().flatten().next() {
            Some(of) => no_float_vector(&shown, &"of it", of),
            None => invalid!(
                "Cannot infer type of argument ? in call to function {signature}: use type casts to disambiguate"
            ),
        });
    };
    if counts.iter().any(|n| n != first) {
        bail!("All arguments must have the same vector dimensions");
    }
    let of = Type::Vector(Arc::new(Type::Float), *first);
    let (is_cosine, text) = (similarity == Similarity::Cosine, shown.clone());
    Ok(Function::new(shown, vec![of.clone(), of], Type::Float, move |_, vectors| {
        let [Some(a), Some(b)] = vectors else { return Ok(None) };
        if is_cosine && (is_zero(a) || is_zero(b)) {
            bail!("Function {text} doesn't support all-zero vectors.");
        }
        Ok(Some(similarity.of(a, b)?.to_be_bytes().to_vec()))
    }))
}

/// Returns the error for an argument that is not a vector of floats.
fn no_float_vector(function: &str, argument: &dyn fmt::Display, of: &Type) -> Error {
    invalid!(
        "Function {function} requires a float vector argument, but found argument {argument} of type {}",
        of.cql_name()
    )
}

/// Returns `currentTimestamp()`, which the constant `'now'` means for a timestamp.
pub(super) fn current_timestamp() -> Function {
    let now = |env: &EvalEnv<'_>, _: &[Option<&[u8]>]| {
        Ok(Some(timestamp_bytes(env.now.div_euclid(1000))))
    };
    Function::new("system.currenttimestamp", vec![], Type::Timestamp, now).changing()
}

fn blob_as(name: String, to: Type) -> Function {
    let (of, shown) = (to.clone(), name.clone());
    Function::of_one(name, &Type::Bytes, to, move |b| {
        of.validate(b).map_err(|_| {
            let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
            invalid!("In call to function {shown}, value 0x{hex} is not a valid binary representation for type {}",
                of.cql_name())
        })?;
        Ok(Some(b.to_vec()))
    })
}

fn token(name: String, partition: &[Type], partitioner: Partitioner) -> Function {
    Function::new(name, partition.to_vec(), partitioner.token_type(), move |_, parts| {
        let Some(parts) = parts.iter().copied().collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let key = match parts[..] {
            [only] => only.to_vec(),
            _ => {
                let mut key = vec![];
                for part in parts {
                    let len = u16::try_from(part.len())
                        .map_err(|_| invalid("a part of a key is longer than 65535 bytes"))?;
                    key.extend_from_slice(&len.to_be_bytes());
                    key.extend_from_slice(part);
                    key.push(0);
                }
                key
            }
        };
        Ok(Some(partitioner.token_bytes(partitioner.token(&key).map_err(|e| invalid(e.0))?)))
    })
}

fn long(bytes: &[u8]) -> Result<i64> {
    let n = bytes.try_into().map(i64::from_be_bytes);
    n.map_err(|_| invalid!("Expected 8 or 0 byte long for date ({})", bytes.len()))
}

/// Returns the milliseconds since 1970 of a time-uuid, timestamp or date.
fn millis(of: &Type, bytes: &[u8]) -> Result<i64> {
    match of {
        Type::TimeUuid => {
            let micros = bytes.try_into().ok().and_then(uuids::micros_of);
            Ok(micros
                .ok_or_else(|| invalid("Invalid version for TimeUUID type."))?
                .div_euclid(1000))
        }
        Type::SimpleDate => {
            let days = bytes.try_into().map(u32::from_be_bytes);
            let days =
                days.map_err(|_| invalid!("Expected 4 byte long for date ({})", bytes.len()))?;
            Ok((i64::from(days) - (1 << 31)) * 86_400_000)
        }
        _ => long(bytes),
    }
}

fn timestamp_bytes(millis: i64) -> Vec<u8> {
    millis.to_be_bytes().to_vec()
}

/// Returns the day of a time, rounded as in Java: the last seconds before 1970 belong to its first
/// day.
fn date_bytes(millis: i64) -> Vec<u8> {
    let day = millis.div_euclid(1_000) / 86_400;
    ((day + (1 << 31)) as u32).to_be_bytes().to_vec()
}

/// Reports whether functions treat an empty byte string of the type as a value, not as null.
fn has_empty(of: &Type) -> bool {
    matches!(
        of.unreversed(),
        Type::Ascii | Type::Utf8 | Type::Bytes | Type::Tuple(_) | Type::Udt(_)
    )
}

/// Converts bytes of the first type to bytes of the second.
type Conversion = fn(&Type, &Type, &[u8]) -> Result<Option<Vec<u8>>>;

/// Returns the function of `CAST(… AS …)`.
///
/// # Errors
/// `… cannot be cast to …`
pub fn cast(from: &Type, to: &Type) -> Result<Function> {
    let name = format!("system.cast_as_{}", to.cql_name());
    let (of, target) = (from.unreversed().clone(), to.clone());
    let simple = |run: Conversion| {
        let (a, b) = (of.clone(), target.clone());
        Ok(Function::of_one(name.clone(), from, to.clone(), move |bytes| {
            match bytes.is_empty() && !has_empty(&a) {
                true => Ok(None),
                false => run(&a, &b, bytes),
            }
        }))
    };
    match (&of, &target) {
        (a, b) if a == b => simple(|_, _, b| Ok(Some(b.to_vec()))),
        (a, b) if number::is_number(a) && number::is_number(b) && *b != Type::Counter => {
            simple(|from, to, b| number::cast(from, to, b).map(Some))
        }
        // These types have the same bytes.
        (Type::Timestamp, Type::Long) => simple(|_, _, b| Ok(Some(b.to_vec()))),
        (Type::Timestamp, Type::Integer) => {
            simple(|_, to, b| number::cast(&Type::Long, to, b).map(Some))
        }
        (Type::Long, Type::SimpleDate) => {
            simple(|_, _, b| Ok(Some(date_bytes(millis(&Type::Timestamp, b)?))))
        }
        (
            Type::Bytes
            | Type::Duration
            | Type::List(_)
            | Type::Set(_)
            | Type::Map(_)
            | Type::Tuple(_)
            | Type::Vector(..)
            | Type::Udt(_),
            _,
        ) => Err(invalid!("{} cannot be cast to {}", of.cql_name(), target.cql_name())),
        (Type::Utf8, Type::Ascii) => {
            Err(invalid!("{} cannot be cast to {}", of.cql_name(), target.cql_name()))
        }
        // ISO 8601 form, with `T` in place of the blank.
        (Type::Timestamp | Type::Date, Type::Utf8 | Type::Ascii) => simple(|from, _, b| {
            let text = || server_text(from, b).replacen(' ', "T", 1).into_bytes();
            Ok((!b.is_empty()).then(text))
        }),
        (_, Type::Utf8 | Type::Ascii) => simple(|from, _, b| {
            // Only texts have an empty value.
            let is_text = matches!(from, Type::Utf8 | Type::Ascii);
            Ok((is_text || !b.is_empty()).then(|| server_text(from, b).into_bytes()))
        }),
        (Type::TimeUuid | Type::Timestamp | Type::SimpleDate, Type::Timestamp) => {
            simple(|from, _, b| Ok(Some(timestamp_bytes(millis(from, b)?))))
        }
        (Type::TimeUuid | Type::Timestamp, Type::SimpleDate) => {
            simple(|from, _, b| Ok(Some(date_bytes(millis(from, b)?))))
        }
        _ => Err(invalid!("{} cannot be cast to {}", of.cql_name(), target.cql_name())),
    }
}

/// Returns the error for a cast of an argument with unknown type.
pub fn ambiguous_cast(to: &Type) -> Error {
    const ALL: [Type; 19] = [
        Type::Ascii,
        Type::Boolean,
        Type::Byte,
        Type::Counter,
        Type::Decimal,
        Type::Double,
        Type::Float,
        Type::Inet,
        Type::Int32,
        Type::Integer,
        Type::Long,
        Type::Short,
        Type::SimpleDate,
        Type::Time,
        Type::TimeUuid,
        Type::Timestamp,
        Type::Utf8,
        Type::Uuid,
        Type::Duration,
    ];
    let from: Vec<Type> =
        ALL.into_iter().filter(|from| from != to && cast(from, to).is_ok()).collect();
    let name = format!("system.cast_as_{}", to.cql_name());
    ambiguous(&name, &name, &from, to)
}

/// Returns the error for an ambiguous call, with its candidate signatures.
fn ambiguous(called: &str, name: &str, from: &[Type], to: &Type) -> Error {
    let to = to.cql_name();
    let each = from.iter().map(|from| format!("{name} : ({}) -> {to}", from.cql_name()));
    invalid!(
        "Ambiguous call to function {called} (can be matched by following signatures: {}): use type casts to disambiguate",
        each.collect::<Vec<_>>().join(", ")
    )
}

/// Returns the function of `- a`.
///
/// # Errors
/// `Invalid` if it is not a number.
pub fn negate(of: &Type) -> Result<Function> {
    let of = of.unreversed().clone();
    bail_if!(!number::is_number(&of), "the '-' operation is not supported on {}", of.cql_name());
    let of_value = of.clone();
    Ok(Function::of_one("system._negate", &of.clone(), of, move |b| {
        let zero = number::Number::Whole(num_bigint::BigInt::ZERO).encode(&of_value)?;
        number::compute(Operator::Subtract, &of_value, &zero, &of_value, b, &of_value).map(Some)
    }))
}

/// Returns the error for operands of unsupported types, shown as in the statement.
pub fn unsupported(
    operator: Operator,
    left: &dyn std::fmt::Display,
    right: &dyn std::fmt::Display,
) -> Error {
    let sign = operator.sign();
    invalid!("the '{sign}' operation is not supported between {left} and {right}")
}

/// Returns the function of `left operator right`: arithmetic of numbers, concatenation of texts, or
/// addition of a duration to a time or its subtraction. `None` for unsupported types
/// ([`unsupported`]).
pub fn arithmetic(operator: Operator, left: &Type, right: &Type) -> Option<Function> {
    let (lt, rt) = (left.unreversed().clone(), right.unreversed().clone());
    let result = result_type(&lt, &rt)?;
    let is_moment = rt == Type::Duration;
    let is_text = matches!(result, Type::Ascii | Type::Utf8);
    match operator {
        Operator::Add => {}
        Operator::Subtract if !is_text => {}
        _ if is_moment || is_text => return None,
        _ => {}
    }
    let of = result.clone();
    let (a, b) = (lt.clone(), rt.clone());
    let run = move |_: &EvalEnv<'_>, parts: &[Option<&[u8]>]| match parts {
        [Some(l), Some(r)] if is_text => Ok(Some([*l, *r].concat())),
        [Some(l), Some(r)] if !l.is_empty() && !r.is_empty() => match is_moment {
            true => moment(&of, l, r, operator == Operator::Subtract).map(Some),
            false => number::compute(operator, &of, l, &a, r, &b).map(Some),
        },
        _ => Ok(None),
    };
    let name = match operator {
        Operator::Add => "add",
        // Cassandra's spelling.
        Operator::Subtract => "substract",
        Operator::Multiply => "multiply",
        Operator::Divide => "divide",
        Operator::Modulo => "modulo",
    };
    Some(Function::new(format!("system._{name}"), vec![lt, rt], result, run))
}

/// Adds a duration to a timestamp or date, or subtracts it.
fn moment(of: &Type, time: &[u8], duration: &[u8], back: bool) -> Result<Vec<u8>> {
    let (months, days, nanos) = duration_parts(duration).map_err(|e| invalid(e.0))?;
    let sign = if back { '-' } else { '+' };
    let failed = |why: &str| {
        let text = format!("the operation '{} {sign} duration' failed: {why}", of.cql_name());
        Error::refused(ErrorClass::FunctionFailure, text)
    };
    let precision = match of {
        Type::SimpleDate => (nanos != 0).then_some("day"),
        _ => (nanos % 1_000_000 != 0).then_some("millisecond"),
    };
    if let Some(precision) = precision {
        let shown = Type::Duration.to_text(duration, Wording::Cql);
        let why = format!("The duration must have a {precision} precision. Was: {shown}");
        return Err(failed(&why));
    }
    let parts = if back { (-months, -days, nanos.saturating_neg()) } else { (months, days, nanos) };
    let too_far = || failed(&format!("there is no such {}", of.cql_name()));
    let millis = after(millis(of, time)?, parts).ok_or_else(too_far)?;
    match of {
        Type::SimpleDate => {
            let day =
                u32::try_from(millis.div_euclid(86_400_000) + (1 << 31)).map_err(|_| too_far())?;
            Ok(day.to_be_bytes().to_vec())
        }
        _ => Ok(timestamp_bytes(millis)),
    }
}
