//! What the schema asks of types, and with which texts it refuses.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::error::invalid;

/// INTERIM, until `crate::types` is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type(String);
/// INTERIM.
#[derive(Clone, Debug, Default)]
pub struct Registry;

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

impl Type {
    pub fn is_counter(&self) -> bool {
        self.short() == "CounterColumnType"
    }
    fn short(&self) -> &str {
        self.0.strip_prefix(PACKAGE).unwrap_or(&self.0)
    }
}

/// The type of this name.
pub fn parse(text: &str, _registry: &Arc<Registry>) -> Result<Type> {
    let short = text.strip_prefix(PACKAGE).unwrap_or(text);
    let known = [
        "BytesType",
        "UTF8Type",
        "AsciiType",
        "LongType",
        "IntegerType",
        "UUIDType",
        "TimeUUIDType",
        "LexicalUUIDType",
        "CounterColumnType",
        "DateType",
    ];
    if known.contains(&short) {
        Ok(Type(format!("{PACKAGE}{short}")))
    } else {
        let name = if text.contains('.') { text.to_owned() } else { format!("{PACKAGE}{text}") };
        Err(invalid(format!("Unable to find abstract-type class '{name}'")))
    }
}

/// The name in full, as definitions hold it.
pub fn name(t: &Type) -> String {
    t.0.clone()
}

/// The bytes as text, as default names of indexes and error texts show them.
pub fn text(t: &Type, bytes: &[u8]) -> String {
    match t.short() {
        "UTF8Type" | "AsciiType" => String::from_utf8_lossy(bytes).into_owned(),
        _ => bytes.iter().map(|b| format!("{b:02x}")).collect(),
    }
}

/// Refuses a name in `column_metadata` that is not of the family's type of names.
pub fn check_name(t: &Type, bytes: &[u8]) -> Result<()> {
    if t.short() == "LongType" && bytes.len() != 8 {
        return Err(invalid(format!("A long is exactly 8 bytes: {}", bytes.len())));
    }
    Ok(())
}

/// The one spelling of names that compare equal, where it is another one.
pub fn respelled(_t: &Type, _bytes: &[u8]) -> Option<Vec<u8>> {
    None
}

/// Whether what is sorted by `old` is sorted by `new` too, and every name valid in it.
pub fn is_compatible(new: &Type, old: &Type) -> bool {
    new == old || matches!((new.short(), old.short()), ("BytesType", "UTF8Type" | "AsciiType") | ("UTF8Type", "AsciiType"))
}

/// The name with Cassandra's package where it has none.
pub fn full_name(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("{PACKAGE}{name}") }
}

/// The names of all types, for messages.
pub fn known(_registry: &Registry) -> Vec<String> {
    vec!["BytesType".into()]
}
