//! Functions that Cassandra 5 has brought: of numbers, of collections, masks.

use std::sync::Arc;

use firn_wide::{Type, uuids};
use num_bigint::BigInt;

use super::aggregate::{Accumulator, AggregateKind};
use super::function::{Function, signature_type};
use super::number::{Number, is_number};
use super::{put_many, split};
use crate::error::{Error, Result, invalid};

/// Digits that a decimal is given by rounding, at most.
const MAX_DIGITS: i64 = 10_000;

/// The functions of numbers.
#[derive(Clone, Copy)]
enum Calculation {
    Abs,
    Exp,
    Log,
    Log10,
    Round,
}

/// The function of this name for arguments of these types, where `wanted` is wanted; `None`: it is
/// none of these.
///
/// # Errors
/// Arguments that it doesn't take, and a type that must be known and isn't.
pub(super) fn named(
    word: &str,
    arguments: &[Option<Type>],
    wanted: Option<&Type>,
) -> Result<Option<Function>> {
    let calculation = match word {
        "abs" => Some(Calculation::Abs),
        "exp" => Some(Calculation::Exp),
        "log" => Some(Calculation::Log),
        "log10" => Some(Calculation::Log10),
        "round" => Some(Calculation::Round),
        _ => None,
    };
    if let Some(calculation) = calculation {
        return of_number(word, calculation, arguments, wanted).map(Some);
    }
    if word.starts_with("map_") || word.starts_with("collection_") {
        return of_collection(word, arguments);
    }
    if word.starts_with("mask_") {
        return mask(word, arguments);
    }
    Ok(None)
}

fn of_number(
    word: &str,
    calculation: Calculation,
    arguments: &[Option<Type>],
    wanted: Option<&Type>,
) -> Result<Function> {
    let all = || {
        let names = [
            "tinyint", "smallint", "int", "bigint", "counter", "varint", "decimal", "float",
            "double",
        ];
        let each = names.iter().map(|n| format!("system.{word} : ({n}) -> {n}"));
        each.collect::<Vec<_>>().join(", ")
    };
    let none = || {
        invalid(format!(
            "Invalid call to function {word}, none of its type signatures match (known type signatures: {})",
            all()
        ))
    };
    let [argument] = arguments else { return Err(none()) };
    let wanted = wanted.map(Type::unreversed).filter(|of| is_number(of));
    let of = match argument.as_ref().map(Type::unreversed) {
        Some(own) if is_number(own) => wanted.unwrap_or(own),
        Some(_) => return Err(none()),
        None => wanted.ok_or_else(|| {
            invalid(format!(
                "Ambiguous call to function {word} (can be matched by following signatures: {}): use type casts to disambiguate",
                all()
            ))
        })?,
    };
    let is_exact = matches!(calculation, Calculation::Abs | Calculation::Round);
    if !is_exact && matches!(of, Type::Integer | Type::Decimal) {
        let shown = of.cql_name();
        return Err(invalid(format!(
            "The function {word} of a {shown} is not computed here: cast the argument to double"
        )));
    }
    let own = of.clone();
    Ok(Function::of_one(format!("system.{word}"), of, of.clone(), move |bytes| {
        if bytes.is_empty() {
            return Ok(None);
        }
        calculate(calculation, &own, Number::decode(&own, bytes)?)?.encode(&own).map(Some)
    }))
}

fn calculate(calculation: Calculation, of: &Type, number: Number) -> Result<Number> {
    Ok(match (calculation, number) {
        (Calculation::Abs, Number::Whole(n)) => Number::Whole(BigInt::from(n.magnitude().clone())),
        (Calculation::Abs, Number::Double(n)) => Number::Double(n.abs()),
        (Calculation::Abs, Number::Decimal(scale, n)) => {
            Number::Decimal(scale, BigInt::from(n.magnitude().clone()))
        }
        (Calculation::Round, Number::Whole(n)) => Number::Whole(n),
        // Halves go upwards, and what is too large becomes the largest, as Java rounds.
        (Calculation::Round, Number::Double(n)) => {
            let up = if n.fract() == -0.5 { n.ceil() } else { n.round() };
            match of {
                Type::Float => Number::Double(f64::from(up as i32)),
                _ => Number::Double(up as i64 as f64),
            }
        }
        (Calculation::Round, Number::Decimal(scale, n)) => Number::Decimal(0, rounded(scale, n)?),
        (Calculation::Exp, number) => Number::Double(number.double().exp()),
        (Calculation::Log, number) => Number::Double(number.double().ln()),
        (Calculation::Log10, number) => Number::Double(number.double().log10()),
    })
}

/// `n` divided by ten `scale` times, halves away from zero.
fn rounded(scale: i64, n: BigInt) -> Result<BigInt> {
    // Every digit has more than three bits: so many are all behind the point, and less than a half.
    if scale > n.bits() as i64 {
        return Ok(BigInt::ZERO);
    }
    if scale < -MAX_DIGITS {
        return Err(invalid("a decimal has too large a scale"));
    }
    let ten = BigInt::from(10u8).pow(scale.unsigned_abs() as u32);
    if scale <= 0 {
        return Ok(n * ten);
    }
    let half = &ten / 2u8;
    Ok(if n.sign() == num_bigint::Sign::Minus { (n - half) / ten } else { (n + half) / ten })
}

/// The error for an argument of another kind than is wanted.
fn wrong_kind(word: &str, wanted: &str, argument: &Option<Type>) -> Error {
    match argument {
        Some(of) => invalid(format!(
            "Function system.{word} requires a {wanted} argument, but found argument of type {}",
            signature_type(of)
        )),
        None => invalid(format!(
            "Cannot infer type of argument in call to function system.{word}: use type casts to disambiguate"
        )),
    }
}

fn of_collection(word: &str, arguments: &[Option<Type>]) -> Result<Option<Function>> {
    let wanted = match word {
        "map_keys" | "map_values" => "map",
        "collection_count" => "collection",
        "collection_min" | "collection_max" => "set or list",
        "collection_sum" | "collection_avg" => "numeric set/list",
        _ => return Ok(None),
    };
    let [argument] = arguments else {
        return Err(invalid(format!(
            "Invalid number of arguments for function system.{word}({})",
            wanted.replace(' ', "_")
        )));
    };
    let own = argument.as_ref().map(Type::unreversed).cloned();
    let wrong = || wrong_kind(word, wanted, argument);
    let of = own.clone().ok_or_else(wrong)?;
    let element = match (wanted, &of) {
        ("map", Type::Map(kv)) => {
            if word == "map_keys" {
                kv.0.clone()
            } else {
                kv.1.clone()
            }
        }
        ("collection", Type::List(_) | Type::Set(_) | Type::Map(_)) => Type::Int32,
        ("set or list", Type::List(e) | Type::Set(e)) => (**e).clone(),
        ("numeric set/list", Type::List(e) | Type::Set(e)) if is_number(e) => (**e).clone(),
        _ => return Err(wrong()),
    };
    let (name, from) = (format!("system.{word}"), of.clone());
    Ok(Some(match word {
        "map_keys" | "map_values" => {
            let (result, at) = match word {
                "map_keys" => (Type::Set(Arc::new(element)), 0),
                _ => (Type::List(Arc::new(element)), 1),
            };
            let to = result.clone();
            Function::of_one(name, &from, result, move |bytes| {
                let parts = split(&of, bytes)?;
                let chosen = parts.chunks_exact(2).map(|pair| pair[at].map(<[u8]>::to_vec));
                put_many(&to, chosen.collect()).map(Some)
            })
        }
        "collection_count" => Function::of_one(name, &from, Type::Int32, move |bytes| {
            let each = if matches!(of, Type::Map(_)) { 2 } else { 1 };
            let count = i32::try_from(split(&of, bytes)?.len() / each).unwrap_or(i32::MAX);
            Ok(Some(count.to_be_bytes().to_vec()))
        }),
        _ => {
            let kind = match word {
                "collection_min" => AggregateKind::Min,
                "collection_max" => AggregateKind::Max,
                "collection_sum" => AggregateKind::Sum,
                _ => AggregateKind::Avg,
            };
            let result = element.clone();
            Function::of_one(name, &from, result, move |bytes| {
                let mut all = Accumulator::new(kind, &element);
                split(&of, bytes)?.into_iter().try_for_each(|part| all.add(part))?;
                all.result()
            })
        }
    }))
}

fn mask(word: &str, arguments: &[Option<Type>]) -> Result<Option<Function>> {
    let name = format!("system.{word}");
    let known = |at: usize| {
        let of = arguments.get(at).cloned().flatten();
        of.ok_or_else(|| wrong_kind(word, "any", &None))
    };
    let wrong_number = || invalid(format!("Invalid number of arguments for function {name}"));
    Ok(Some(match (word, arguments.len()) {
        ("mask_null", 1) => {
            let of = known(0)?;
            Function::new(name, vec![of.clone()], of, |_, _| Ok(None))
        }
        ("mask_replace", 2) => {
            let of = known(0)?;
            Function::new(name, vec![of.clone(), of.clone()], of, |_, given| {
                Ok(given.get(1).copied().flatten().map(<[u8]>::to_vec))
            })
        }
        ("mask_inner" | "mask_outer", 3 | 4) => {
            let of = known(0)?;
            if !matches!(of, Type::Utf8 | Type::Ascii) {
                return Err(wrong_kind(word, "text", &Some(of)));
            }
            let word = word.to_owned();
            let mut types = vec![of.clone(), Type::Int32, Type::Int32];
            types.extend((arguments.len() == 4).then_some(Type::Utf8));
            Function::new(name, types, of, move |_, given| masked(&word, given))
        }
        ("mask_default", 1) => {
            let of = known(0)?;
            let shown = default_value(&of)?;
            Function::new(name, vec![of.clone()], of, move |_, _| Ok(Some(shown.clone())))
        }
        ("mask_null" | "mask_default" | "mask_replace" | "mask_inner" | "mask_outer", _) => {
            return Err(wrong_number());
        }
        ("mask_hash", _) => return Err(invalid("There is no function mask_hash here")),
        _ => return Ok(None),
    }))
}

/// What stands for every value of a type.
fn default_value(of: &Type) -> Result<Vec<u8>> {
    let all = |types: &mut dyn Iterator<Item = &Type>| {
        types.map(|of| default_value(of).map(Some)).collect::<Result<Vec<_>>>()
    };
    Ok(match of.unreversed() {
        of if is_number(of) => Number::Whole(BigInt::ZERO).encode(of)?,
        Type::Utf8 | Type::Ascii => b"****".to_vec(),
        Type::Boolean => vec![0],
        Type::Uuid => vec![0; 16],
        Type::TimeUuid => uuids::min_time_uuid(0).to_vec(),
        Type::Timestamp | Type::Date | Type::Time => vec![0; 8],
        Type::SimpleDate => (1u32 << 31).to_be_bytes().to_vec(),
        Type::Duration => vec![0; 3],
        Type::Inet => vec![0; 4],
        of @ (Type::List(_) | Type::Set(_) | Type::Map(_)) => put_many(of, vec![])?,
        of @ Type::Tuple(types) => put_many(of, all(&mut types.iter())?)?,
        of @ Type::Udt(udt) => put_many(of, all(&mut udt.fields.iter().map(|(_, of)| of))?)?,
        _ => vec![],
    })
}

/// A text whose letters are hidden, inside of these many at both ends, or outside of them.
fn masked(word: &str, given: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>> {
    let (is_inner, at) = (word == "mask_inner", |i: usize| given.get(i).copied().flatten());
    let Some(text) = at(0) else { return Ok(None) };
    // Less than none is none.
    let end = |i: usize| {
        let n = at(i).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_be_bytes);
        usize::try_from(n).unwrap_or(0)
    };
    let (begin, end) = (end(1), end(2));
    let padding = at(3).map(String::from_utf8_lossy);
    let mut letters = padding.as_deref().unwrap_or("*").chars();
    let (Some(cover), None) = (letters.next(), letters.next()) else {
        let shown = padding.as_deref().unwrap_or_default();
        return Err(invalid(format!(
            "The padding argument for function system.{word} should be single-character, but '{shown}' has {} characters.",
            shown.chars().count()
        )));
    };
    let text = String::from_utf8_lossy(text);
    let count = text.chars().count();
    let shown = text.chars().enumerate().map(|(i, letter)| {
        let is_inside = i >= begin && i < count.saturating_sub(end);
        if is_inside == is_inner { cover } else { letter }
    });
    Ok(Some(shown.collect::<String>().into_bytes()))
}
