//! Encoding, decoding and canonical form of collections, tuples and user types.

use crate::catalog::part_types;
use std::borrow::Cow;
use std::cmp::Ordering;

use firn_wide::Type;

use super::vector::{null_inside, put_vector, split_vector};
use crate::error::{Result, invalid};

/// Appends a part with its length; a null part has length -1.
///
/// # Errors
/// Errors for a part longer than 2 GiB.
fn put_part(part: Option<&[u8]>, out: &mut Vec<u8>) -> Result<()> {
    let Some(part) = part else {
        out.extend_from_slice(&(-1i32).to_be_bytes());
        return Ok(());
    };
    let len =
        i32::try_from(part.len()).map_err(|_| invalid("a part of a value is longer than 2 GiB"))?;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(part);
    Ok(())
}

/// Appends `count` and these parts: `count` is the number of elements or pairs.
///
/// # Errors
/// Errors for more than 2^31 - 1 elements, or for a part longer than 2 GiB.
pub fn put_parts<'a>(
    count: usize,
    parts: impl IntoIterator<Item = Option<&'a [u8]>>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let count = i32::try_from(count)
        .map_err(|_| invalid("a collection has more than 2147483647 elements"))?;
    out.extend_from_slice(&count.to_be_bytes());
    parts.into_iter().try_for_each(|p| put_part(p, out))
}

/// Encodes a list, set or map of these parts; for a map, keys and values alternate. Sets and maps
/// are sorted, and of equal keys the last one wins.
///
/// # Errors
/// Those of [`put_parts`].
pub fn put_collection(of: &Type, parts: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut out = vec![];
    match of {
        Type::Set(element) => {
            let sorted = sorted(parts, 1, element);
            put_parts(sorted.len(), sorted.iter().map(|p| Some(&*p[0])), &mut out)?;
        }
        Type::Map(kv) => {
            let sorted = sorted(parts, 2, &kv.0);
            put_parts(
                sorted.len(),
                sorted.iter().flat_map(|p| p.iter()).map(|p| Some(&**p)),
                &mut out,
            )?;
        }
        _ => put_parts(parts.len(), parts.iter().map(|p| Some(&**p)), &mut out)?,
    }
    Ok(out)
}

fn sorted<'p>(parts: &'p [Vec<u8>], each: usize, by: &Type) -> Vec<&'p [Vec<u8>]> {
    let mut all: Vec<&[Vec<u8>]> = parts.chunks_exact(each).collect();
    all.sort_by(|a, b| by.compare(&a[0], &b[0]));
    let mut unique: Vec<&[Vec<u8>]> = Vec::with_capacity(all.len());
    for part in all {
        match unique.last_mut() {
            Some(last) if by.compare(&last[0], &part[0]) == Ordering::Equal => *last = part,
            _ => unique.push(part),
        }
    }
    unique
}

/// Reports whether values of the type may contain sets or maps.
fn has_order(of: &Type) -> bool {
    match of {
        Type::Set(_) | Type::Map(_) => true,
        Type::List(e) | Type::Reversed(e) | Type::Vector(e, _) => has_order(e),
        Type::Tuple(types) => types.iter().any(has_order),
        Type::Udt(udt) => udt.fields.iter().any(|f| has_order(&f.1)),
        _ => false,
    }
}

/// Returns the canonical form of a valid value: its sets and maps are sorted, and of equal keys the
/// last one wins. A value already in canonical form is not copied.
///
/// # Errors
/// `Invalid` for truncated bytes.
pub fn canonical<'b>(of: &Type, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>> {
    let of = of.unreversed();
    if bytes.is_empty() || !has_order(of) {
        return Ok(Cow::Borrowed(bytes));
    }
    let parts = split(of, bytes)?;
    let types = part_types(of);
    let each = parts
        .iter()
        .zip(types.into_iter().cycle())
        .map(|(part, of)| part.map(|p| canonical(of, p)).transpose());
    let each = each.collect::<Result<Vec<Option<Cow<'_, [u8]>>>>>()?;
    let is_ordered = |key: &Type, step: usize| {
        let keys = || each.iter().step_by(step).map(|k| k.as_deref().unwrap_or_default());
        keys().zip(keys().skip(1)).all(|(a, b)| key.compare(a, b).is_lt())
    };
    let is_ordered = match of {
        Type::Set(e) => is_ordered(e, 1),
        Type::Map(kv) => is_ordered(&kv.0, 2),
        _ => true,
    };
    if is_ordered && each.iter().flatten().all(|part| matches!(part, Cow::Borrowed(_))) {
        return Ok(Cow::Borrowed(bytes));
    }
    let each: Vec<Option<Vec<u8>>> =
        each.into_iter().map(|part| part.map(Cow::into_owned)).collect();
    Ok(Cow::Owned(match of {
        Type::Tuple(_) | Type::Udt(_) => put_tuple(&each)?,
        Type::Vector(..) => put_many(of, each)?,
        // Valid collections contain no nulls.
        _ => put_collection(
            of,
            &each.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>(),
        )?,
    }))
}

/// Encodes a collection, vector, tuple or user type of these parts; for a map, keys and values
/// alternate.
///
/// # Errors
/// `Invalid` for a null in a collection, and for a value that is too long.
pub fn put_many(of: &Type, parts: Vec<Option<Vec<u8>>>) -> Result<Vec<u8>> {
    if matches!(of, Type::Tuple(_) | Type::Udt(_)) {
        return put_tuple(&parts);
    }
    let all: Option<Vec<_>> = parts.into_iter().collect();
    if let Type::Vector(element, _) = of {
        return Ok(put_vector(element, &all.ok_or_else(null_inside)?));
    }
    put_collection(of, &all.ok_or_else(|| invalid("null is not supported inside collections"))?)
}

/// Encodes a tuple or user type of these parts.
///
/// # Errors
/// Errors for a part longer than 2 GiB.
pub fn put_tuple(parts: &[Option<Vec<u8>>]) -> Result<Vec<u8>> {
    let mut out = vec![];
    parts.iter().try_for_each(|p| put_part(p.as_deref(), &mut out))?;
    Ok(out)
}

/// Decodes the parts of a list, set, map (keys and values alternate), vector, tuple or user type. A
/// tuple or user type may have fewer parts than its type.
///
/// # Errors
/// `Invalid` for truncated bytes.
pub fn split<'b>(of: &Type, bytes: &'b [u8]) -> Result<Vec<Option<&'b [u8]>>> {
    if let Type::Vector(element, count) = of {
        return split_vector(element, *count, bytes);
    }
    let broken = || invalid!("not enough bytes for a value of type {}", of.cql_name());
    let mut rest = bytes;
    let mut left = match of {
        Type::List(_) | Type::Set(_) | Type::Map(_) => {
            let (count, after) = rest.split_first_chunk::<4>().ok_or_else(broken)?;
            rest = after;
            let count = usize::try_from(i32::from_be_bytes(*count)).map_err(|_| broken())?;
            Some(if matches!(of, Type::Map(_)) {
                count.checked_mul(2).ok_or_else(broken)?
            } else {
                count
            })
        }
        _ => None,
    };
    // Every part has at least 4 bytes, so a wrong count allocates little memory.
    let mut parts = Vec::with_capacity((rest.len() / 4).min(left.unwrap_or(16)));
    while left.map_or(!rest.is_empty(), |n| n > 0) {
        let (len, after) = rest.split_first_chunk::<4>().ok_or_else(broken)?;
        match usize::try_from(i32::from_be_bytes(*len)) {
            Ok(len) => {
                let (part, after) = after.split_at_checked(len).ok_or_else(broken)?;
                parts.push(Some(part));
                rest = after;
            }
            Err(_) => {
                parts.push(None);
                rest = after;
            }
        }
        left = left.map(|n| n - 1);
    }
    Ok(parts)
}

/// A part of a value, with its type. `None` is null.
pub type TypedPart<'t, 'b> = (&'t Type, Option<&'b [u8]>);

/// Returns the parts of a value with their types: elements, keys and values in turn, components,
/// fields.
///
/// # Errors
/// `Invalid` if the bytes are not a value of the type.
pub fn typed_parts<'t, 'b>(of: &'t Type, bytes: &'b [u8]) -> Result<Vec<TypedPart<'t, 'b>>> {
    let (parts, types) = (split(of, bytes)?, part_types(of));
    let is_fixed = matches!(of, Type::Tuple(_) | Type::Udt(_));
    let count = if is_fixed { types.len() } else { parts.len() };
    let part = |i: usize| (types[i % types.len()], parts.get(i).copied().flatten());
    Ok((0..count).map(part).collect())
}

/// How a text form shows values that have parts.
pub(super) struct PartStyle<'s> {
    /// Brackets around a value of the type.
    pub brackets: fn(&Type) -> [char; 2],
    /// Returns the text of a part.
    pub part: &'s dyn Fn(&Type, Option<&[u8]>) -> String,
    /// Returns the text of the key of a map.
    pub key: fn(String) -> String,
    /// Returns the text of the name of a field.
    pub field: &'s dyn Fn(&str) -> String,
}

/// Renders a value that has parts.
///
/// # Errors
/// `Invalid` if the bytes are not a value of the type.
pub(super) fn render(of: &Type, bytes: &[u8], style: &PartStyle<'_>) -> Result<String> {
    let [open, close] = (style.brackets)(of);
    let mut out = String::from(open);
    for (i, (of_part, bytes)) in typed_parts(of, bytes)?.into_iter().enumerate() {
        let is_value = matches!(of, Type::Map(_)) && i % 2 == 1;
        out.push_str(if is_value {
            ": "
        } else if i > 0 {
            ", "
        } else {
            ""
        });
        let text = (style.part)(of_part, bytes);
        match of {
            Type::Map(_) if !is_value => out.push_str(&(style.key)(text)),
            Type::Udt(udt) => {
                out.push_str(&format!("{}: {text}", (style.field)(&udt.fields[i].0)));
            }
            _ => out.push_str(&text),
        }
    }
    out.push(close);
    Ok(out)
}
