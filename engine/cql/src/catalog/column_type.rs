//! Types of columns and of values.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use firn_wide::{Registry, Type, UserType};

use crate::syntax::quote_type_if_needed;

/// Type of a column or of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TypeText", into = "TypeText")]
#[non_exhaustive]
pub struct ColumnType {
    /// Type of its values; never reversed.
    pub value_type: Type,
    /// Whether every element is a separate cell: a collection or user type that is not frozen.
    pub multicell: bool,
}

impl ColumnType {
    /// Creates the type of a value that is a single cell.
    pub fn frozen(of: Type) -> ColumnType {
        ColumnType { value_type: of, multicell: false }
    }

    #[doc(hidden)]
    pub fn from_parts(value_type: Type, multicell: bool) -> ColumnType {
        ColumnType { value_type, multicell }
    }

    /// Reports whether it uses the user type with this name.
    #[doc(hidden)]
    pub fn mentions(&self, name: &str) -> bool {
        mentions(&self.value_type, name)
    }

    /// Reports whether it is a list, set or map.
    pub fn is_collection(&self) -> bool {
        matches!(self.value_type, Type::List(_) | Type::Set(_) | Type::Map(_))
    }

    /// Returns the type of the paths of its cells, which orders its elements. `None` if it is one
    /// cell.
    #[doc(hidden)]
    pub fn path_type(&self) -> Option<Type> {
        match &self.value_type {
            _ if !self.multicell => None,
            Type::List(_) => Some(Type::TimeUuid),
            Type::Set(of) => Some((**of).clone()),
            Type::Map(kv) => Some(kv.0.clone()),
            Type::Udt(_) => Some(Type::Short),
            _ => None,
        }
    }

    /// Returns the type of a cell's value; with a path, that of an element. It is empty for a set,
    /// and bytes for an unknown field of a user type.
    #[doc(hidden)]
    pub fn cell_type(&self, path: Option<&[u8]>) -> Type {
        match (&self.value_type, path) {
            (Type::List(of), Some(_)) => (**of).clone(),
            (Type::Map(kv), Some(_)) => kv.1.clone(),
            (Type::Set(_), Some(_)) => Type::Empty,
            (Type::Udt(user), Some(path)) => {
                let number = <[u8; 2]>::try_from(path).map(u16::from_be_bytes).ok();
                let field = number.and_then(|n| user.fields.get(usize::from(n)));
                field.map_or(Type::Bytes, |(_, of)| of.clone())
            }
            (of, _) => of.clone(),
        }
    }
}

/// Formats the type in CQL syntax, as in statements: `int`, `list<int>`, `frozen<list<int>>`,
/// `frozen<"Type">`.
impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |of: &Type| ColumnType::frozen(of.clone());
        let bare = match &self.value_type {
            Type::List(of) => format!("list<{}>", part(of)),
            Type::Set(of) => format!("set<{}>", part(of)),
            Type::Map(of) => format!("map<{}, {}>", part(&of.0), part(&of.1)),
            Type::Tuple(of) => format!(
                "tuple<{}>",
                of.iter().map(|t| part(t).to_string()).collect::<Vec<_>>().join(", ")
            ),
            Type::Udt(user) => quote_type_if_needed(&user.name).into_owned(),
            Type::Vector(of, count) => {
                // Its elements are not separate cells, so `frozen` is not shown, except for a
                // tuple.
                let (of, multicell) = ((**of).clone(), !matches!(**of, Type::Tuple(_)));
                return write!(f, "vector<{}, {count}>", ColumnType { value_type: of, multicell });
            }
            simple => return f.write_str(&simple.cql_name()),
        };
        if self.multicell { f.write_str(&bare) } else { write!(f, "frozen<{bare}>") }
    }
}

/// Returns the types of the parts of a type: elements, keys and values, components, fields.
pub fn part_types(of: &Type) -> Vec<&Type> {
    match of {
        Type::List(e) | Type::Set(e) | Type::Reversed(e) | Type::Vector(e, _) => vec![e],
        Type::Map(kv) => vec![&kv.0, &kv.1],
        Type::Tuple(parts) | Type::Composite(parts) => parts.iter().collect(),
        Type::Udt(udt) => udt.fields.iter().map(|(_, of)| of).collect(),
        _ => vec![],
    }
}

/// Returns the type with every part replaced.
pub fn with_parts(of: &Type, replaced: &dyn Fn(&Type) -> Type) -> Type {
    let part = |of: &Type| Arc::new(replaced(of));
    match of {
        Type::List(e) => Type::List(part(e)),
        Type::Set(e) => Type::Set(part(e)),
        Type::Map(kv) => Type::Map(Arc::new((replaced(&kv.0), replaced(&kv.1)))),
        Type::Vector(e, count) => Type::Vector(part(e), *count),
        Type::Tuple(parts) => Type::Tuple(parts.iter().map(replaced).collect()),
        Type::Reversed(of) => Type::Reversed(part(of)),
        Type::Udt(udt) => {
            let fields = udt.fields.iter().map(|(name, of)| (name.clone(), replaced(of)));
            Type::Udt(Arc::new(UserType { fields: fields.collect(), ..(**udt).clone() }))
        }
        simple => simple.clone(),
    }
}

/// Returns the type with tuples in place of user types.
pub fn without_user_types(of: &Type) -> Type {
    match of {
        Type::Udt(udt) => {
            Type::Tuple(udt.fields.iter().map(|(_, of)| without_user_types(of)).collect())
        }
        other => with_parts(other, &without_user_types),
    }
}

/// Reports whether the user type of this name is in the type.
pub(super) fn mentions(of: &Type, name: &str) -> bool {
    matches!(of, Type::Udt(udt) if udt.name == name)
        || part_types(of).into_iter().any(|part| mentions(part, name))
}

/// Reports whether the type is not allowed in keys because it contains durations. As in Cassandra
/// 5.0.9, any vector is allowed: its bytes are compared.
pub fn is_unordered(of: &Type) -> bool {
    match of {
        Type::Vector(..) => false,
        Type::Duration => true,
        _ => part_types(of).into_iter().any(is_unordered),
    }
}

/// Reports whether values of the type contain durations, which have no order.
pub fn has_duration(of: &Type) -> bool {
    *of == Type::Duration || part_types(of).into_iter().any(has_duration)
}

/// Stored form of a type: its full class name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeText {
    class: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    multicell: bool,
}

impl From<ColumnType> for TypeText {
    fn from(of: ColumnType) -> TypeText {
        TypeText { class: of.value_type.full_name(), multicell: of.multicell }
    }
}

impl TryFrom<TypeText> for ColumnType {
    type Error = String;

    fn try_from(text: TypeText) -> std::result::Result<ColumnType, String> {
        let of = Type::parse(&text.class, &Registry::new()).map_err(|e| e.0)?;
        let may_be = matches!(of, Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Udt(_));
        if text.multicell && !may_be {
            return Err(format!("a {} has no cells of its own", text.class));
        }
        Ok(ColumnType { value_type: of, multicell: text.multicell })
    }
}
