//! Types of columns and of values.

use std::fmt;

use firn_wide::Type;

use crate::syntax::quote_type_if_needed;

/// Type of a column or of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// Type of its values; never reversed.
    pub of: Type,
    /// Whether every element is a separate cell: a collection or user type that is not frozen.
    pub multicell: bool,
}

impl ColumnType {
    /// Creates the type of a value that is a single cell.
    pub fn frozen(of: Type) -> ColumnType {
        ColumnType { of, multicell: false }
    }

    /// Reports whether it uses the user type with this name.
    pub fn mentions(&self, name: &str) -> bool {
        mentions(&self.of, name)
    }

    /// Reports whether it is a list, set or map.
    pub fn is_collection(&self) -> bool {
        matches!(self.of, Type::List(_) | Type::Set(_) | Type::Map(_))
    }

    /// Returns the type of the paths of its cells, which orders its elements. `None` if it is one
    /// cell.
    pub fn path_type(&self) -> Option<Type> {
        match &self.of {
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
    pub fn cell_type(&self, path: Option<&[u8]>) -> Type {
        match (&self.of, path) {
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
        let bare = match &self.of {
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
                return write!(f, "vector<{}, {count}>", ColumnType { of, multicell });
            }
            simple => return f.write_str(&simple.cql_name()),
        };
        if self.multicell { f.write_str(&bare) } else { write!(f, "frozen<{bare}>") }
    }
}

/// Reports whether `of` uses a user type.
pub(super) fn mentions(of: &Type, name: &str) -> bool {
    match of {
        Type::List(e) | Type::Set(e) | Type::Reversed(e) | Type::Vector(e, _) => mentions(e, name),
        Type::Map(kv) => mentions(&kv.0, name) || mentions(&kv.1, name),
        Type::Tuple(parts) => parts.iter().any(|p| mentions(p, name)),
        Type::Udt(u) => u.name == name || u.fields.iter().any(|(_, t)| mentions(t, name)),
        _ => false,
    }
}

/// Reports whether the type is not allowed in keys because it contains durations. As in Cassandra
/// 5.0.9, any vector is allowed: its bytes are compared.
pub fn is_unordered(of: &Type) -> bool {
    match of {
        Type::Vector(..) => false,
        Type::Duration => true,
        Type::List(e) | Type::Set(e) | Type::Reversed(e) => is_unordered(e),
        Type::Map(kv) => is_unordered(&kv.0) || is_unordered(&kv.1),
        Type::Tuple(parts) | Type::Composite(parts) => parts.iter().any(is_unordered),
        Type::Udt(udt) => udt.fields.iter().any(|f| is_unordered(&f.1)),
        _ => false,
    }
}

/// Reports whether values of the type contain durations, which have no order.
pub fn has_duration(of: &Type) -> bool {
    match of {
        Type::Duration => true,
        Type::List(e) | Type::Set(e) | Type::Reversed(e) | Type::Vector(e, _) => has_duration(e),
        Type::Map(kv) => has_duration(&kv.0) || has_duration(&kv.1),
        Type::Tuple(parts) | Type::Composite(parts) => parts.iter().any(has_duration),
        Type::Udt(udt) => udt.fields.iter().any(|f| has_duration(&f.1)),
        _ => false,
    }
}
