//! The schema's rules for types, and the texts of its refusals.

use super::def::hex;
use crate::base::error::{Result, invalid};
use crate::types::PACKAGE;
pub use crate::types::{Registry, Type};

/// A name that no type has.
#[derive(Debug)]
pub struct UnknownType {
    /// The name, with Cassandra's package where it has none.
    pub class: String,
    /// The names that there are.
    pub known: Vec<String>,
}

/// How the refusal of a type that there is none of begins.
pub const NO_SUCH_TYPE: &str = "Unable to find abstract-type class '";

/// What makes a class known that is none of the built-in ones.
pub const OWN_TYPES: &str = "a class of your own is a script (`firn define --comparator NAME=FILE`) or a type that the program registers \
                             (types::Registry)";

/// The type of this name.
pub fn parse(text: &str, registry: &Registry) -> Result<Type> {
    lookup(text, registry).map_err(|e| invalid(format!("{NO_SUCH_TYPE}{}'", e.class)))
}

/// The same; an error says which types there are.
pub fn lookup(text: &str, registry: &Registry) -> std::result::Result<Type, UnknownType> {
    Type::parse(text, registry).map_err(|_| UnknownType {
        class: if text.contains('.') { text.to_owned() } else { format!("{PACKAGE}{text}") },
        known: registry.names(),
    })
}

/// Refuses a name in `column_metadata` that is not of the family's type of names.
pub fn check_name(comparator: &Type, name: &[u8]) -> Result<()> {
    match comparator {
        _ if comparator.validate(name).is_ok() => Ok(()),
        Type::Long | Type::Date => {
            Err(invalid(format!("A long is exactly 8 bytes: {}", name.len())))
        }
        _ => {
            let (name, comparator) = (hex::to_text(name), comparator.full_name());
            Err(invalid(format!("Column name {name} is not valid for comparator {comparator}")))
        }
    }
}

/// The one spelling of names that compare equal, where it is another one.
pub fn respelled(comparator: &Type, name: &[u8]) -> Option<Vec<u8>> {
    if name.is_empty() || comparator.validate(name).is_err() {
        return None;
    }
    let (mut form, mut spelling) = (Vec::new(), Vec::new());
    comparator.encode(name, &mut form).ok()?;
    comparator.decode(&mut &form[..], &mut spelling).ok()?;
    (spelling != name).then_some(spelling)
}

/// Whether what is sorted by `old` is sorted by `new` too, in the same bytes, and every name valid
/// in it.
pub fn is_compatible(new: &Type, old: &Type) -> bool {
    new == old
        || matches!((new, old), (Type::Dynamic(_), Type::Dynamic(_)) if new.extends(old))
        || matches!((new, old), (Type::Bytes, Type::Utf8 | Type::Ascii) | (Type::Utf8, Type::Ascii))
}
