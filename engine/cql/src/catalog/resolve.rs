//! Resolves types in statements (model 3.3).

use std::sync::Arc;

use firn_wide::{Registry, Type, UserType};

use super::{Catalog, ColumnType, KeyspaceEntry, with_parts};
use crate::error::{Result, bail, bail_if, invalid};
use crate::syntax::ast;
use crate::syntax::ast::{Native, TypeKind};

/// Returns the type of a native type name.
pub fn native_type(native: Native) -> Type {
    match native {
        Native::Ascii => Type::Ascii,
        Native::BigInt => Type::Long,
        Native::Blob => Type::Bytes,
        Native::Boolean => Type::Boolean,
        Native::Counter => Type::Counter,
        Native::Date => Type::SimpleDate,
        Native::Decimal => Type::Decimal,
        Native::Double => Type::Double,
        Native::Duration => Type::Duration,
        Native::Float => Type::Float,
        Native::Inet => Type::Inet,
        Native::Int => Type::Int32,
        Native::SmallInt => Type::Short,
        Native::Text | Native::VarChar => Type::Utf8,
        Native::Time => Type::Time,
        Native::Timestamp => Type::Timestamp,
        Native::TimeUuid => Type::TimeUuid,
        Native::TinyInt => Type::Byte,
        Native::Uuid => Type::Uuid,
        Native::VarInt => Type::Integer,
    }
}

impl Catalog {
    /// Resolves a type in a statement on this keyspace.
    ///
    /// # Errors
    /// `Invalid` for an unknown type and for invalid nesting.
    pub fn resolve_type(&self, keyspace: &str, of: &ast::TypeSyntax<'_>) -> Result<ColumnType> {
        let unknown = || invalid!("Keyspace '{keyspace}' doesn't exist");
        resolve(self.keyspace(keyspace).ok_or_else(unknown)?, of, false)
    }
}

pub(super) fn resolve(
    keyspace: &KeyspaceEntry,
    of: &ast::TypeSyntax<'_>,
    frozen: bool,
) -> Result<ColumnType> {
    let collection = |of: Type| ColumnType { value_type: of, multicell: !frozen };
    Ok(match &of.kind {
        TypeKind::Native(native) => ColumnType::frozen(native_type(*native)),
        TypeKind::List(element) => {
            collection(Type::List(Arc::new(part(keyspace, of, element, frozen)?)))
        }
        TypeKind::Set(element) => {
            if is_native(element, Native::Duration) {
                bail!("Durations are not allowed inside sets: {of}");
            }
            collection(Type::Set(Arc::new(part(keyspace, of, element, frozen)?)))
        }
        TypeKind::Map(pair) => {
            let (key, value) = &**pair;
            if is_native(key, Native::Duration) {
                bail!("Durations are not allowed as map keys: {of}");
            }
            let key = part(keyspace, of, key, frozen)?;
            collection(Type::Map(Arc::new((key, part(keyspace, of, value, frozen)?))))
        }
        TypeKind::Tuple(parts) => {
            if parts.iter().any(|p| is_native(p, Native::Counter)) {
                bail!("Counters are not allowed inside tuples");
            }
            let parts: Result<Vec<_>> =
                parts.iter().map(|p| Ok(resolve(keyspace, p, true)?.value_type)).collect();
            ColumnType::frozen(Type::Tuple(parts?.into()))
        }
        TypeKind::Frozen(inner) => resolve(keyspace, inner, true)?,
        TypeKind::User(name) => {
            let own = name.keyspace.as_ref().is_none_or(|k| k.text == keyspace.name);
            bail_if!(
                !own,
                "Statement on keyspace {} cannot refer to a user type in keyspace {}; user types can only be used in the \
                     keyspace they are defined in",
                keyspace.name,
                name.keyspace.as_ref().map_or("", |k| &*k.text)
            );
            let unknown = || {
                let hint = ast::lacks_parameters(&name.name.text);
                let hint = hint.map_or(String::new(), |hint| format!(": {hint}"));
                invalid!("Unknown type {}.{}{hint}", keyspace.name, name.name.text)
            };
            let found = keyspace.user_type(&name.name.text).ok_or_else(unknown)?;
            collection(Type::Udt(found.user_type(&keyspace.name)))
        }
        TypeKind::Custom(class) => {
            match Type::parse(class, &Registry::new()).map_err(|e| invalid(e.0))? {
                Type::Reversed(of) => {
                    let text = "is an order, not the type of a column; write";
                    bail!("'{class}' {text} {} and CLUSTERING ORDER BY (… DESC)", of.cql_name());
                }
                of => ColumnType::frozen(of),
            }
        }
        TypeKind::Vector(element, given) => {
            let Some(count) = u32::try_from(*given).ok().filter(|n| *n > 0) else {
                bail!("vectors may only have positive dimensions; given {given}");
            };
            // The elements may be declared frozen or not, which affects their own elements.
            let element = resolve(keyspace, element, frozen)?.value_type;
            ColumnType::frozen(Type::Vector(Arc::new(element), count))
        }
    })
}

fn is_native(of: &ast::TypeSyntax<'_>, native: Native) -> bool {
    matches!(of.kind, TypeKind::Native(n) if n == native)
}

/// Resolves the element type of `whole`.
fn part(
    keyspace: &KeyspaceEntry,
    whole: &ast::TypeSyntax<'_>,
    of: &ast::TypeSyntax<'_>,
    frozen: bool,
) -> Result<Type> {
    if is_native(of, Native::Counter) {
        bail!("Counters are not allowed inside collections: {whole}");
    }
    match of.kind {
        TypeKind::List(_) | TypeKind::Set(_) | TypeKind::Map(_) if !frozen => {
            Err(invalid!("Non-frozen collections are not allowed inside collections: {whole}"))
        }
        TypeKind::User(_) if !frozen => {
            Err(invalid!("Non-frozen UDTs are not allowed inside collections: {whole}"))
        }
        _ => Ok(resolve(keyspace, of, true)?.value_type),
    }
}

/// Returns `of` with all uses of a user type updated to its current definition.
pub(super) fn refresh(of: &Type, changed: &Arc<UserType>) -> Type {
    match of {
        Type::Udt(u) if u.keyspace == changed.keyspace && u.name == changed.name => {
            Type::Udt(changed.clone())
        }
        other => with_parts(other, &|part| refresh(part, changed)),
    }
}
