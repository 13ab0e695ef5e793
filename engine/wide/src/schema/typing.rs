//! Rules for types in the schema, with the error texts.

use crate::base::error::{Result, invalid};
use crate::types::{PACKAGE, hex};
pub use crate::types::{Registry, Type};

/// Error for an unknown type.
#[derive(Debug)]
pub struct UnknownType {
    /// Name of the type, with Cassandra's package if it has none.
    pub class: String,
    /// Existing names.
    pub known: Vec<String>,
}

/// Start of the error for an unknown type.
pub const NO_SUCH_TYPE: &str = "Unable to find abstract-type class '";

/// Explains how to provide a class that is not built in.
pub const OWN_TYPES: &str = "a class of your own is a script (`firn define --comparator NAME=FILE`) or a type that the program registers \
                             (types::Registry)";

/// Parses the name of a type.
pub fn parse(text: &str, registry: &Registry) -> Result<Type> {
    lookup(text, registry).map_err(|e| invalid(format!("{NO_SUCH_TYPE}{}'", e.class)))
}

/// Like `parse`; an error has the existing types.
pub fn lookup(text: &str, registry: &Registry) -> std::result::Result<Type, UnknownType> {
    Type::parse(text, registry).map_err(|_| UnknownType {
        class: if text.contains('.') { text.to_owned() } else { format!("{PACKAGE}{text}") },
        known: registry.names(),
    })
}

/// Refuses a name in `column_metadata` that is invalid in the family's comparator type.
pub fn check_name(comparator: &Type, name: &[u8]) -> Result<()> {
    match comparator {
        _ if comparator.validate(name).is_ok() => Ok(()),
        Type::Long | Type::Date => {
            Err(invalid(format!("A long is exactly 8 bytes: {}", name.len())))
        }
        _ => {
            let (name, comparator) = (hex(name), comparator.full_name());
            Err(invalid(format!("Column name {name} is not valid for comparator {comparator}")))
        }
    }
}

/// Returns the canonical spelling of a name, if it differs.
pub fn respelled(comparator: &Type, name: &[u8]) -> Option<Vec<u8>> {
    if name.is_empty() || comparator.validate(name).is_err() {
        return None;
    }
    let (mut form, mut spelling) = (Vec::new(), Vec::new());
    comparator.encode(name, &mut form).ok()?;
    comparator.decode(&mut &form[..], &mut spelling).ok()?;
    (spelling != name).then_some(spelling)
}

/// Reports whether `new` has the same order and the same encoding as `old` for all names of `old`,
/// and all of them are valid in it.
pub fn is_compatible(new: &Type, old: &Type) -> bool {
    new == old
        || matches!((new, old), (Type::Dynamic(_), Type::Dynamic(_)) if new.extends(old))
        || matches!((new, old), (Type::Bytes, Type::Utf8 | Type::Ascii) | (Type::Utf8, Type::Ascii))
}
