//! Functions added in Cassandra 5: of numbers, of collections, masks.

use crate::catalog::part_types;
use std::sync::Arc;

use firn_wide::{Type, uuids};
use md5::{Digest, Md5};
use num_bigint::BigInt;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};

use super::aggregate::{Accumulator, AggregateKind};
use super::call::CallArguments;
use super::function::{Function, is_value_of, signature_type};
use super::number::{Number, is_number, no_signature, signatures};
use super::{logarithm, put_many, split};
use crate::error::{Error, Result, bail, bail_if, invalid};

/// Maximum number of digits that rounding may add to a decimal.
const MAX_DIGITS: i64 = 10_000;
/// Maximum number of elements in a default vector.
const MAX_ELEMENTS: u32 = 65_536;

/// Functions of numbers.
#[derive(Clone, Copy)]
enum Calculation {
    Abs,
    Exp,
    Log,
    Log10,
    Round,
}

/// Returns the function with this name for these arguments and the expected type `wanted`; `None`
/// if this module has none with this name.
///
/// # Errors
/// Errors for wrong arguments, and for an argument of unknown type.
pub(super) fn named(
    word: &str,
    call: &CallArguments<'_>,
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
        return of_number(word, calculation, call.types, wanted).map(Some);
    }
    if word.starts_with("map_") || word.starts_with("collection_") {
        return of_collection(word, call);
    }
    if word.starts_with("mask_") {
        return mask(word, call);
    }
    Ok(None)
}

fn of_number(
    word: &str,
    calculation: Calculation,
    arguments: &[Option<Type>],
    wanted: Option<&Type>,
) -> Result<Function> {
    let [argument] = arguments else { return Err(no_signature(word)) };
    let wanted = wanted.map(Type::unreversed).filter(|of| is_number(of));
    let of = match argument.as_ref().map(Type::unreversed) {
        Some(own) if is_number(own) => wanted.unwrap_or(own),
        Some(_) => return Err(no_signature(word)),
        None => wanted.ok_or_else(|| {
            invalid!(
                "Ambiguous call to function {word} (can be matched by following signatures: {}): use type casts to disambiguate",
                signatures(word)
            )
        })?,
    };
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
        // As in Java, halves are rounded up, and numbers that are too large become the maximum.
        (Calculation::Round, Number::Double(n)) => {
            let up = if n.fract() == -0.5 { n.ceil() } else { n.round() };
            match of {
                Type::Float => Number::Double(f64::from(up as i32)),
                _ => Number::Double(up as i64 as f64),
            }
        }
        (Calculation::Round, Number::Decimal(scale, n)) => Number::Decimal(0, rounded(scale, n)?),
        (calculation, number) if matches!(of, Type::Integer | Type::Decimal) => {
            let x = number.decimal()?;
            let (scale, n) = match calculation {
                Calculation::Exp => logarithm::exp(&x)?,
                Calculation::Log => logarithm::ln(&x)?,
                _ => logarithm::log_10(&x)?,
            };
            let result = Number::Decimal(scale, n);
            if *of == Type::Integer { Number::Whole(result.whole(of)) } else { result }
        }
        (Calculation::Exp, number) => Number::Double(number.double().exp()),
        (Calculation::Log, number) => Number::Double(number.double().ln()),
        (Calculation::Log10, number) => Number::Double(number.double().log10()),
    })
}

/// Returns `n` divided by ten `scale` times, rounded half away from zero.
fn rounded(scale: i64, n: BigInt) -> Result<BigInt> {
    // Every digit has more than three bits, so the number is less than a half.
    if scale > n.bits() as i64 {
        return Ok(BigInt::ZERO);
    }
    bail_if!(scale < -MAX_DIGITS, "a decimal has too large a scale");
    let ten = BigInt::from(10u8).pow(scale.unsigned_abs() as u32);
    if scale <= 0 {
        return Ok(n * ten);
    }
    let half = &ten / 2u8;
    Ok(if n.sign() == num_bigint::Sign::Minus { (n - half) / ten } else { (n + half) / ten })
}

/// A call of a function that is generic in its argument types.
struct GenericCall<'a> {
    word: &'a str,
    /// Kinds of its arguments, for messages.
    kinds: &'a str,
    call: &'a CallArguments<'a>,
}

impl GenericCall<'_> {
    /// Returns the error for a wrong number of arguments.
    fn wrong_number(&self) -> Error {
        let GenericCall { word, kinds, .. } = self;
        invalid!("Invalid number of arguments for function system.{word}({kinds})")
    }

    /// Returns the type of an argument.
    ///
    /// # Errors
    /// `Invalid` if it is unknown.
    fn known(&self, at: usize) -> Result<Type> {
        let of = self.call.types.get(at).and_then(Option::as_ref).map(Type::unreversed);
        of.cloned().ok_or_else(|| {
            let GenericCall { word, kinds, .. } = self;
            invalid!("Cannot infer type of argument {} in call to function system.{word}({kinds}): use type casts to disambiguate",
                (self.call.shown)(at))
        })
    }

    /// Returns the error for an argument of a wrong type.
    fn wrong_kind(&self, at: usize, wanted: &str, of: &Type) -> Error {
        invalid!(
            "Function system.{} requires {wanted}, but found argument {} of type {}",
            self.word,
            (self.call.shown)(at),
            signature_type(of)
        )
    }
}

fn of_collection(word: &str, call: &CallArguments<'_>) -> Result<Option<Function>> {
    let (wanted, kinds) = match word {
        "map_keys" | "map_values" => ("map", "map"),
        "collection_count" => ("collection", "collection"),
        "collection_min" | "collection_max" => ("set or list", "numeric_set_or_list"),
        "collection_sum" | "collection_avg" => ("numeric set/list", "numeric_set_or_list"),
        _ => return Ok(None),
    };
    let signed = GenericCall { word, kinds, call };
    if call.types.len() != 1 {
        return Err(signed.wrong_number());
    }
    let of = signed.known(0)?;
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
        _ => return Err(signed.wrong_kind(0, &format!("a {wanted} argument"), &of)),
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

fn mask(word: &str, call: &CallArguments<'_>) -> Result<Option<Function>> {
    let (kinds, counts) = match word {
        "mask_null" | "mask_default" => ("any", 1..=1),
        "mask_replace" => ("any, any", 2..=2),
        "mask_inner" | "mask_outer" => ("[text|varchar|ascii], int, int, [text]", 3..=4),
        "mask_hash" => ("any, [text]", 1..=2),
        _ => return Ok(None),
    };
    let (name, count) = (format!("system.{word}"), call.types.len());
    let signed = GenericCall { word, kinds, call };
    if !counts.contains(&count) {
        return Err(signed.wrong_number());
    }
    // Requires an argument to have one type. Constants are checked later.
    let must_be = |at: usize, wanted: Type| match call.types.get(at).and_then(Option::as_ref) {
        Some(of) if !is_value_of(of, &wanted) => {
            let shown = format!("an argument of type {}", wanted.cql_name());
            Err(signed.wrong_kind(at, &shown, of))
        }
        _ => Ok(wanted),
    };
    Ok(Some(match word {
        "mask_null" => {
            let of = signed.known(0)?;
            Function::new(name, vec![of.clone()], of, |_, _| Ok(None))
        }
        "mask_replace" => {
            let of = signed.known(0)?;
            Function::new(name, vec![of.clone(), of.clone()], of, |_, given| {
                Ok(given.get(1).copied().flatten().map(<[u8]>::to_vec))
            })
        }
        "mask_inner" | "mask_outer" => {
            let of = call.types.first().cloned().flatten().unwrap_or(Type::Utf8);
            let of = of.unreversed().clone();
            if !matches!(of, Type::Utf8 | Type::Ascii) {
                let wanted = "an argument of type [text|varchar|ascii]";
                return Err(signed.wrong_kind(0, wanted, &of));
            }
            let word = word.to_owned();
            let mut types = vec![of.clone(), must_be(1, Type::Int32)?, must_be(2, Type::Int32)?];
            if count == 4 {
                types.push(must_be(3, Type::Utf8)?);
            }
            Function::new(name, types, of, move |_, given| masked(&word, given))
        }
        "mask_hash" => {
            let mut types = vec![signed.known(0)?];
            if count == 2 {
                types.push(must_be(1, Type::Utf8)?);
            }
            Function::new(name, types, Type::Bytes, |_, given| {
                let Some(bytes) = given.first().copied().flatten() else { return Ok(None) };
                let algorithm = given.get(1).copied().flatten().map(String::from_utf8_lossy);
                hashed(bytes, algorithm.as_deref().unwrap_or("SHA-256")).map(Some)
            })
        }
        _ => {
            let of = signed.known(0)?;
            let shown = default_value(&of)?;
            Function::new(name, vec![of.clone()], of, move |_, _| Ok(Some(shown.clone())))
        }
    }))
}

/// Returns the hash of bytes by the algorithm with this Java name.
fn hashed(bytes: &[u8], algorithm: &str) -> Result<Vec<u8>> {
    Ok(match &*algorithm.to_ascii_uppercase() {
        "MD5" => Md5::digest(bytes).to_vec(),
        "SHA-1" | "SHA" => Sha1::digest(bytes).to_vec(),
        "SHA-224" => Sha224::digest(bytes).to_vec(),
        "SHA-256" => Sha256::digest(bytes).to_vec(),
        "SHA-384" => Sha384::digest(bytes).to_vec(),
        "SHA-512" => Sha512::digest(bytes).to_vec(),
        "SHA-512/224" => Sha512_224::digest(bytes).to_vec(),
        "SHA-512/256" => Sha512_256::digest(bytes).to_vec(),
        _ => bail!("Hash algorithm not found: {algorithm}"),
    })
}

/// Returns the value with which `mask_default` replaces all values of a type.
fn default_value(of: &Type) -> Result<Vec<u8>> {
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
        of @ (Type::Tuple(_) | Type::Udt(_)) => {
            let parts = part_types(of).into_iter().map(|of| default_value(of).map(Some));
            put_many(of, parts.collect::<Result<_>>()?)?
        }
        of @ Type::Vector(element, count) => {
            bail_if!(*count > MAX_ELEMENTS, "a vector of {count} elements has no default value");
            put_many(of, vec![Some(default_value(element)?); *count as usize])?
        }

        _ => vec![],
    })
}

/// Masks the characters of a text between the given numbers at both ends, or outside of them.
fn masked(word: &str, given: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>> {
    let (is_inner, at) = (word == "mask_inner", |i: usize| given.get(i).copied().flatten());
    let Some(text) = at(0) else { return Ok(None) };
    // Negative numbers count as zero.
    let end = |i: usize| {
        let n = at(i).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_be_bytes);
        usize::try_from(n).unwrap_or(0)
    };
    let (begin, end) = (end(1), end(2));
    let padding = at(3).map(String::from_utf8_lossy);
    let mut letters = padding.as_deref().unwrap_or("*").chars();
    let (Some(cover), None) = (letters.next(), letters.next()) else {
        let shown = padding.as_deref().unwrap_or_default();
        bail!(
            "The padding argument for function system.{word} should be single-character, but '{shown}' has {} characters.",
            shown.chars().count()
        );
    };
    let text = String::from_utf8_lossy(text);
    let count = text.chars().count();
    let shown = text.chars().enumerate().map(|(i, letter)| {
        let is_inside = i >= begin && i < count.saturating_sub(end);
        if is_inside == is_inner { cover } else { letter }
    });
    Ok(Some(shown.collect::<String>().into_bytes()))
}
