//! Types made of other types: composites, collections, tuples. Their forms are sequences of
//! components.

use super::dynamic::{ordering_names, reversed_name};
use super::errors::{Malformed, TypeError, error};
use super::frame::NULL;
use super::vector::{put_vector_element, vector_elements};
use super::{DynamicTypes, Type};

/// Ends a sequence.
const END: u8 = 0x38;
/// Ends a composite that is before all that begin like it.
const BEFORE: u8 = 0x20;
/// Ends a composite that is after all that begin like it.
const AFTER: u8 = 0x60;

// ----------------------------------------------------------------------------------------------
// values as clients send them

/// Iterates over the components of a composite with their end bytes; returns the reason if it is
/// malformed. Component `i` has type `types[i]`.
pub(super) fn composite(
    types: &[Type],
    value: &[u8],
    mut each: impl FnMut(&Type, &[u8], i8) -> Result<(), TypeError>,
) -> Result<(), TypeError> {
    let type_of = |_: &mut &[u8], i: usize| {
        types.get(i).ok_or_else(|| TypeError("Too many bytes for comparator".into()))
    };
    components(value, type_of, |of: &Type, part, end| each(of, part, end))
}

/// Like [`composite`], for components with type tags. Each component is passed with its tag as
/// written.
pub(super) fn dynamic(
    types: &DynamicTypes,
    value: &[u8],
    mut each: impl FnMut(&Type, &[u8], &[u8], i8) -> Result<(), TypeError>,
) -> Result<(), TypeError> {
    let type_of = |rest: &mut &[u8], i: usize| {
        let mut from = *rest;
        let (of, written) = types.take_type(&mut from, i)?;
        let written = written.to_vec();
        *rest = &rest[rest.len() - from.len()..];
        Ok(TypedComponent { of, written })
    };
    components(value, type_of, |c: TypedComponent, part, end| each(&c.of, &c.written, part, end))
}

/// Type of a component, and its tag as written.
struct TypedComponent {
    of: Type,
    written: Vec<u8>,
}

impl AsRef<Type> for TypedComponent {
    fn as_ref(&self) -> &Type {
        &self.of
    }
}

impl AsRef<Type> for Type {
    fn as_ref(&self) -> &Type {
        self
    }
}

/// Iterates over the components of a composite. `type_of` takes the type tag from the start of the
/// rest, and determines the type from it and from the index.
fn components<T: AsRef<Type>>(
    value: &[u8],
    type_of: impl Fn(&mut &[u8], usize) -> Result<T, TypeError>,
    mut each: impl FnMut(T, &[u8], i8) -> Result<(), TypeError>,
) -> Result<(), TypeError> {
    let (mut rest, mut i) = (value, 0);
    while !rest.is_empty() {
        let of = type_of(&mut rest, i)?;
        let Some((len, after)) = rest.split_first_chunk::<2>() else {
            return error(format!("Not enough bytes to read value size of component {i}"));
        };
        let Some((part, after)) = after.split_at_checked(usize::from(u16::from_be_bytes(*len)))
        else {
            return error(format!("Not enough bytes to read value of component {i}"));
        };
        of.as_ref().validate(part)?;
        let Some((&end, after)) = after.split_first() else {
            return error(format!(
                "Not enough bytes to read the end-of-component byte of component{i}"
            ));
        };
        if end != 0 && !after.is_empty() {
            return error(format!(
                "Invalid bytes remaining after an end-of-component at component{i}"
            ));
        }
        each(of, part, end as i8)?;
        (rest, i) = (after, i + 1);
    }
    Ok(())
}

fn take_part<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (len, after) = rest.split_first_chunk::<4>()?;
    let Ok(len) = usize::try_from(i32::from_be_bytes(*len)) else {
        *rest = after;
        return Some(None);
    };
    let (part, after) = after.split_at_checked(len)?;
    *rest = after;
    Some(Some(part))
}

/// Iterates over the elements of a collection (for a map, keys and values alternate); returns the
/// reason if it is malformed.
pub(super) fn elements<'a>(
    of: &Type,
    value: &'a [u8],
    mut each: impl FnMut(&Type, Option<&'a [u8]>) -> Result<(), TypeError>,
) -> Result<(), TypeError> {
    let (kind, types): (_, [&Type; 2]) = match of {
        Type::List(e) => ("list", [e, e]),
        Type::Set(e) => ("set", [e, e]),
        Type::Map(kv) => ("map", [&kv.0, &kv.1]),
        _ => return error("not a collection"),
    };
    let short = || TypeError(format!("Not enough bytes to read a {kind}"));
    let (count, mut rest) = value.split_first_chunk::<4>().ok_or_else(short)?;
    let Ok(count) = u64::try_from(i32::from_be_bytes(*count)) else {
        return error(format!("The data cannot be deserialized as a {kind}"));
    };
    let turns = if kind == "map" { 2 } else { 1 };
    for i in 0..count * turns {
        each(types[(i % 2) as usize], take_part(&mut rest).ok_or_else(short)?)?;
    }
    if !rest.is_empty() {
        return error(format!("Unexpected extraneous bytes after {kind} value"));
    }
    Ok(())
}

/// Iterates over the components of a tuple, except missing ones at its end.
pub(super) fn tuple<'a>(
    types: &mut dyn Iterator<Item = &Type>,
    value: &'a [u8],
    mut each: impl FnMut(&Type, Option<&'a [u8]>) -> Result<(), TypeError>,
) -> Result<(), TypeError> {
    let (mut rest, mut i) = (value, 0);
    for of in types {
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() < 4 {
            return error(format!("Not enough bytes to read size of {i}th component"));
        }
        let Some(part) = take_part(&mut rest) else {
            return error(format!("Not enough bytes to read {i}th component"));
        };
        each(of, part)?;
        i += 1;
    }
    if rest.is_empty() { Ok(()) } else { error("Invalid remaining data after end of tuple value") }
}

fn fields(of: &Type) -> Box<dyn Iterator<Item = &Type> + '_> {
    match of {
        Type::Tuple(types) => Box::new(types.iter()),
        Type::Udt(u) => Box::new(u.fields.iter().map(|f| &f.1)),
        _ => Box::new(std::iter::empty()),
    }
}

pub(super) fn validate(of: &Type, value: &[u8]) -> Result<(), TypeError> {
    match of {
        Type::Composite(types) => composite(types, value, |_, _, _| Ok(())),
        Type::Dynamic(types) => dynamic(types, value, |_, _, _, _| Ok(())),
        Type::Tuple(_) | Type::Udt(_) => {
            tuple(&mut fields(of), value, |t, part| part.map_or(Ok(()), |p| t.validate(p)))
        }
        Type::Vector(element, count) => vector_elements(element, *count, value)?
            .into_iter()
            .try_for_each(|part| element.validate(part)),
        _ => elements(of, value, |t, part| match part {
            Some(p) => t.validate(p),
            None => error("null is not supported inside collections"),
        }),
    }
}

fn put_part(of: &Type, part: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), TypeError> {
    let Some(part) = part else {
        out.extend_from_slice(&[0xFF; 4]);
        return Ok(());
    };
    let mut whole = vec![];
    put_whole(of, part, &mut whole)?;
    let len = i32::try_from(whole.len()).map_err(|e| TypeError(e.to_string()))?;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&whole);
    Ok(())
}

/// Appends a value with nulls for missing components at the ends of tuples.
pub(super) fn put_whole(of: &Type, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
    match of {
        Type::Reversed(of) => put_whole(of, value, out)?,
        Type::Tuple(_) | Type::Udt(_) if !value.is_empty() => {
            let mut missing = fields(of).count();
            tuple(&mut fields(of), value, |t, part| {
                missing -= 1;
                put_part(t, part, out)
            })?;
            out.extend(std::iter::repeat_n(0xFF, 4 * missing));
        }
        Type::Vector(element, count) => {
            for part in vector_elements(element, *count, value)? {
                let mut whole = vec![];
                put_whole(element, part, &mut whole)?;
                put_vector_element(element, &whole, out);
            }
        }
        Type::List(_) | Type::Set(_) | Type::Map(_) => {
            out.extend(value.iter().take(4));
            elements(of, value, |t, part| put_part(t, part, out))?;
        }
        _ => out.extend_from_slice(value),
    }
    Ok(())
}

// ----------------------------------------------------------------------------------------------
// forms

pub(super) fn encode(of: &Type, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
    let mut put = |t: &Type, part: Option<&[u8]>| match part {
        Some(p) => t.put_component(p, out),
        None => {
            out.push(NULL);
            Ok(())
        }
    };
    match of {
        Type::Composite(types) => {
            let mut end = END;
            composite(types, value, |t, part, eoc| {
                end = end_of(eoc);
                put(t, Some(part))
            })?;
            out.push(end);
        }
        Type::Dynamic(types) => {
            let mut end = END;
            dynamic(types, value, |t, _, part, eoc| {
                end = end_of(eoc);
                for name in ordering_names(t) {
                    Type::Utf8.put_component(name.as_bytes(), out)?;
                }
                t.put_component(part, out)
            })?;
            out.push(end);
        }
        Type::Tuple(_) | Type::Udt(_) => {
            // Trailing nulls are omitted: a tuple without them is equal.
            let mut nulls = 0;
            tuple(&mut fields(of), value, |t, part| {
                nulls = if part.is_none() { nulls + 1 } else { 0 };
                put(t, part)
            })?;
            out.truncate(out.len() - nulls);
            out.push(END);
        }
        Type::Vector(element, count) => {
            let parts = vector_elements(element, *count, value)?;
            parts.into_iter().try_for_each(|part| put(element, Some(part)))?;
            out.push(END);
        }
        _ => {
            elements(of, value, &mut put)?;
            out.push(END);
        }
    }
    Ok(())
}

/// Returns the byte that ends the form of a composite whose last component has this end byte.
fn end_of(end_of_component: i8) -> u8 {
    match end_of_component.signum() {
        -1 => BEFORE,
        0 => END,
        _ => AFTER,
    }
}

/// Takes the type names of a component from the start of a form.
fn take_named(types: &DynamicTypes, rest: &mut &[u8]) -> Option<Type> {
    let name = |rest: &mut &[u8]| {
        let mut name = vec![];
        Type::Utf8.take_component(rest, &mut name).ok().filter(|there| *there)?;
        String::from_utf8(name).ok()
    };
    let is_reversed = name(rest)? == "ReversedType";
    if is_reversed {
        name(rest)?;
    }
    let full = name(rest)?;
    types.named(&if is_reversed { reversed_name(&full) } else { full })
}

fn dynamic_len(types: &DynamicTypes, bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    while !matches!(rest.first()?, &END | &BEFORE | &AFTER) {
        let of = take_named(types, &mut rest)?;
        rest = rest.get(of.component_len(rest)?..)?;
    }
    Some(bytes.len() - rest.len() + 1)
}

fn decode_dynamic(types: &DynamicTypes, form: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (&end, mut rest) = form.split_last()?;
    let mut end_at = None;
    while !rest.is_empty() {
        let of = take_named(types, &mut rest)?;
        types.put_type(&of, out).ok()?;
        let mut part = vec![];
        of.take_component(&mut rest, &mut part).ok().filter(|there| *there)?;
        out.extend(u16::try_from(part.len()).ok()?.to_be_bytes());
        out.extend(part);
        end_at = Some(out.len());
        out.push(0);
    }
    match (end, end_at) {
        (END, _) => {}
        (BEFORE, Some(at)) => out[at] = 0xFF,
        (AFTER, Some(at)) => out[at] = 1,
        _ => return None,
    }
    Some(())
}

pub(super) fn form_len(of: &Type, bytes: &[u8]) -> Option<usize> {
    if let Type::Dynamic(types) = of {
        return dynamic_len(types, bytes);
    }
    let mut types = cycle(of);
    let mut at = 0;
    loop {
        if matches!((bytes.get(at)?, of), (&END, _) | (&(BEFORE | AFTER), Type::Composite(_))) {
            return Some(at + 1);
        }
        at += types.next()?.component_len(&bytes[at..])?;
    }
}

/// Iterates over the types of the components of a sequence; endless for collections.
fn cycle(of: &Type) -> Box<dyn Iterator<Item = &Type> + '_> {
    match of {
        Type::Composite(types) => Box::new(types.iter()),
        Type::List(e) | Type::Set(e) | Type::Vector(e, _) => Box::new(std::iter::repeat(&**e)),
        Type::Map(kv) => Box::new([&kv.0, &kv.1].into_iter().cycle()),
        _ => fields(of),
    }
}

pub(super) fn decode_form(of: &Type, form: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if let Type::Dynamic(types) = of {
        return decode_dynamic(types, form, out);
    }
    let (&end, mut rest) = form.split_last()?;
    if let Type::Vector(element, count) = of {
        return decode_vector(element, *count, rest, out).filter(|()| end == END);
    }
    let count_at = out.len();
    let collection = matches!(of, Type::List(_) | Type::Set(_) | Type::Map(_));
    if collection {
        out.extend_from_slice(&[0; 4]);
    }
    let (mut types, mut count, mut end_at) = (cycle(of), 0u32, None);
    while !rest.is_empty() {
        let t = types.next()?;
        let len_at = out.len();
        out.extend_from_slice(if matches!(of, Type::Composite(_)) { &[0; 2] } else { &[0; 4] });
        let start = out.len();
        let there = t.take_component(&mut rest, out).map_err(|_: Malformed| ()).ok()?;
        let len = out.len() - start;
        if matches!(of, Type::Composite(_)) {
            if !there {
                return None;
            }
            out[len_at..start].copy_from_slice(&u16::try_from(len).ok()?.to_be_bytes());
            end_at = Some(out.len());
            out.push(0);
        } else {
            let len = if there { i32::try_from(len).ok()? } else { -1 };
            out[len_at..start].copy_from_slice(&len.to_be_bytes());
        }
        count += 1;
    }
    if count == 0 && matches!(of, Type::Tuple(_) | Type::Udt(_)) {
        // A tuple of nulls is not the empty value.
        out.extend_from_slice(&[0xFF; 4]);
    }
    match (end, end_at) {
        (END, _) => {}
        (BEFORE, Some(at)) => out[at] = 0xFF,
        (AFTER, Some(at)) => out[at] = 1,
        _ => return None,
    }
    if collection {
        let turns = if matches!(of, Type::Map(_)) { 2 } else { 1 };
        if count % turns != 0 {
            return None;
        }
        out[count_at..count_at + 4].copy_from_slice(&(count / turns).to_be_bytes());
    }
    Some(())
}

fn decode_vector(element: &Type, count: u32, mut rest: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (mut found, mut part) = (0, vec![]);
    while !rest.is_empty() {
        part.clear();
        element.take_component(&mut rest, &mut part).ok().filter(|there| *there)?;
        put_vector_element(element, &part, out);
        found += 1;
    }
    (found == count).then_some(())
}
