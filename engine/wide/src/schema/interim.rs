//! INTERIM, until `crate::types` is merged: as much of its interface as the schema uses.

use std::fmt::Debug;
use std::sync::Arc;

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// A type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Type {
    Bytes,
    Ascii,
    Utf8,
    Long,
    Integer,
    Int32,
    LexicalUuid,
    TimeUuid,
    Uuid,
    Date,
    Counter,
    Custom(Custom),
}
/// A type of the user.
#[derive(Clone, Debug)]
pub struct Custom(pub Arc<dyn Comparator>);
impl PartialEq for Custom {
    fn eq(&self, o: &Custom) -> bool {
        self.0.name() == o.0.name()
    }
}
/// Why not.
#[derive(Debug)]
pub struct Invalid(pub String);
/// A type of the user.
#[allow(missing_docs)]
#[allow(clippy::wrong_self_convention)]
pub trait Comparator: Send + Sync + 'static + Debug {
    fn name(&self) -> &str;
    fn validate(&self, value: &[u8]) -> Result<(), Invalid>;
    fn encode(&self, value: &[u8], out: &mut Vec<u8>);
    fn decode(&self, from: &mut &[u8]) -> Option<Vec<u8>>;
    fn from_text(&self, text: &str) -> Result<Vec<u8>, Invalid>;
    fn to_text(&self, value: &[u8]) -> String;
}
/// No such type.
#[derive(Debug)]
pub struct UnknownType {
    /// Which.
    pub class: String,
    /// Which there are.
    pub known: Vec<String>,
}
/// The types there are.
#[derive(Clone, Default)]
pub struct Registry(Vec<Arc<dyn Comparator>>);
impl Registry {
    /// The built-in ones.
    pub fn new() -> Registry {
        Registry::default()
    }
    /// One more.
    pub fn add(&mut self, c: Arc<dyn Comparator>) {
        self.0.push(c)
    }
    /// All names.
    pub fn names(&self) -> Vec<String> {
        TYPES.iter().map(|(_, n)| n.to_string()).chain(self.0.iter().map(|c| c.name().to_owned())).collect()
    }
}
const TYPES: &[(Type, &str)] = &[
    (Type::Bytes, "BytesType"),
    (Type::Ascii, "AsciiType"),
    (Type::Utf8, "UTF8Type"),
    (Type::Long, "LongType"),
    (Type::Integer, "IntegerType"),
    (Type::Int32, "Int32Type"),
    (Type::LexicalUuid, "LexicalUUIDType"),
    (Type::TimeUuid, "TimeUUIDType"),
    (Type::Uuid, "UUIDType"),
    (Type::Date, "DateType"),
    (Type::Counter, "CounterColumnType"),
];
#[allow(missing_docs)]
impl Type {
    pub fn parse(text: &str, registry: &Registry) -> Result<Type, UnknownType> {
        let short = text.strip_prefix(PACKAGE).unwrap_or(text);
        if let Some((t, _)) = TYPES.iter().find(|(_, n)| *n == short) {
            return Ok(t.clone());
        }
        if let Some(c) = registry.0.iter().find(|c| c.name() == text) {
            return Ok(Type::Custom(Custom(Arc::clone(c))));
        }
        Err(UnknownType {
            class: if text.contains('.') { text.to_owned() } else { format!("{PACKAGE}{text}") },
            known: registry.names(),
        })
    }
    pub fn name(&self) -> String {
        match self {
            Type::Custom(c) => c.0.name().to_owned(),
            _ => TYPES.iter().find(|(t, _)| t == self).map(|(_, n)| format!("{PACKAGE}{n}")).unwrap_or_default(),
        }
    }
    pub fn validate(&self, value: &[u8]) -> Result<(), Invalid> {
        let ok = match self {
            Type::Long | Type::Date => matches!(value.len(), 0 | 8),
            Type::Int32 => matches!(value.len(), 0 | 4),
            Type::Uuid | Type::TimeUuid | Type::LexicalUuid => matches!(value.len(), 0 | 16),
            Type::Utf8 => std::str::from_utf8(value).is_ok(),
            Type::Ascii => value.is_ascii(),
            Type::Custom(c) => return c.0.validate(value),
            _ => true,
        };
        if ok { Ok(()) } else { Err(Invalid("invalid".into())) }
    }
    pub fn encode(&self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Type::Custom(c) => c.0.encode(value, out),
            Type::Integer => {
                let mut v = value;
                while v.len() > 1 && (v[0] == 0 && v[1] < 128 || v[0] == 255 && v[1] >= 128) {
                    v = &v[1..];
                }
                out.extend(v)
            }
            _ => out.extend(value),
        }
    }
    pub fn decode(&self, from: &mut &[u8]) -> Option<Vec<u8>> {
        match self {
            Type::Custom(c) => c.0.decode(from),
            _ => Some(std::mem::take(from).to_vec()),
        }
    }
    pub fn to_text(&self, value: &[u8]) -> String {
        match self {
            Type::Utf8 | Type::Ascii => String::from_utf8_lossy(value).into_owned(),
            Type::Custom(c) => c.0.to_text(value),
            _ => value.iter().map(|b| format!("{b:02x}")).collect(),
        }
    }
    pub fn is_counter(&self) -> bool {
        *self == Type::Counter
    }
}
