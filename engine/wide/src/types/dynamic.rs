//! Composites whose components have type tags: `DynamicCompositeType`.
//!
//! ```text
//! value     ::= component*
//! component ::= header type? <2-byte length><bytes> <end of component>
//! header    ::= 0x80 alias | <2-byte length of the type's name>
//! ```
//! Two components of different types are ordered by the simple names of their classes, then by the
//! full names. For two reversed types the inner types are compared.

use super::class::PACKAGE;
use super::errors::{TypeError, error};
use super::registry::Registry;
use super::{DynamicTypes, Type};

/// Set in the header of a component whose type is an alias.
const ALIAS: u16 = 0x8000;

impl DynamicTypes {
    /// Returns the type with this name, if components can have it.
    pub(super) fn named(&self, name: &str) -> Option<Type> {
        Type::parse(name, &Registry::of(&self.custom))
            .ok()
            .filter(|of| !matches!(of, Type::Dynamic(_)))
    }

    /// Returns the first alias of a type.
    pub(super) fn alias_of(&self, of: &Type) -> Option<u8> {
        self.aliases.iter().find(|(_, t)| *t == of).map(|(alias, _)| *alias)
    }

    /// Takes the type of component `i` from the start of a value, and returns it with its tag as
    /// written: the alias or the name.
    pub(super) fn take_type<'v>(
        &self,
        rest: &mut &'v [u8],
        i: usize,
    ) -> Result<(Type, &'v [u8]), TypeError> {
        let Some((header, after)) = rest.split_first_chunk::<2>() else {
            return error(format!(
                "Not enough bytes to header of the comparator part of component {i}"
            ));
        };
        let number = u16::from_be_bytes(*header);
        let unknown = || TypeError(format!("Cannot find comparator for component {i}"));
        if number & ALIAS != 0 {
            *rest = after;
            let of = self.aliases.get(&header[1]).cloned().ok_or_else(unknown)?;
            return Ok((of, &header[1..]));
        }
        let Some((name, after)) = after.split_at_checked(usize::from(number)) else {
            return error(format!("Not enough bytes to read comparator name of component {i}"));
        };
        *rest = after;
        let of = std::str::from_utf8(name).ok().and_then(|name| self.named(name));
        Ok((of.ok_or_else(unknown)?, name))
    }

    /// Appends the header of a component of this type: the alias, if it has one.
    pub(super) fn put_type(&self, of: &Type, out: &mut Vec<u8>) -> Result<(), TypeError> {
        match self.alias_of(of) {
            Some(alias) => out.extend((ALIAS | u16::from(alias)).to_be_bytes()),
            None => {
                let name = of.full_name();
                let len = u16::try_from(name.len()).ok().filter(|len| len & ALIAS == 0);
                let long = || TypeError(format!("the name of the type {name} is too long"));
                out.extend(len.ok_or_else(long)?.to_be_bytes());
                out.extend(name.as_bytes());
            }
        }
        Ok(())
    }

    /// Returns the type that a text names, by alias or by name.
    pub(super) fn of_text(&self, name: &str) -> Option<Type> {
        match name.as_bytes() {
            [alias] if self.aliases.contains_key(alias) => self.aliases.get(alias).cloned(),
            _ => self.named(name),
        }
    }
}

/// Returns the class of a type without its package and parameters.
fn simple_name(full: &str) -> &str {
    let class = full.split('(').next().unwrap_or_default();
    class.rsplit(['.', '$']).next().unwrap_or_default()
}

/// Returns the names by which a component's type is ordered. The first is the simple name of its
/// class; for a reversed type, that of the inner type follows. The last is the full name, which
/// identifies the type.
pub(super) fn ordering_names(of: &Type) -> Vec<String> {
    let inner = of.unreversed().full_name();
    let mut names = vec![];
    if of.is_reversed() {
        names.push("ReversedType".to_owned());
    }
    names.push(simple_name(&inner).to_owned());
    names.push(inner);
    names
}

/// Returns the full name of the reversed type.
pub(super) fn reversed_name(inner: &str) -> String {
    format!("{PACKAGE}ReversedType({inner})")
}
