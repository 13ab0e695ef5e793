//! Floor 0: the types of keys, names and values (model 2.1): validation with the texts of the
//! servers, order, the byte-comparable form that keys are made of, text.
//!
//! Invariants:
//! - `encode(a) < encode(b)` exactly when `a < b`; forms are prefix-free when one of the separators
//!   of a sequence (0x20..=0x60) follows.
//! - Values that compare equal have one form, and `decode` gives one spelling back: the shortest
//!   varint, decimals without zeros at the end of the fraction, `00`/`01` for booleans, `7fc00000`
//!   for every NaN, tuples without nulls at the end.
//! - No bytes and no text make a function of this module panic.
//!
//! Where versions of the servers differ, the newest is followed, but:
//! - UTF-8 is strict (the servers accept surrogates, overlong zeros and code points beyond
//!   U+10FFFF);
//! - a value that breaks off inside a collection or a duration is refused with a plain text, where
//!   the servers fail with an internal error;
//! - booleans order by being zero (1.1.12: by the signed byte);
//! - decimals are checked as 4.0 checks them, and any scale and an integer of no bytes (a zero) can
//!   be ordered;
//! - `LexicalUUIDType` keeps the text of 1.1.12, which no newer server was asked for;
//! - text may be read with the wordings of either time ([`Wording`]).
//!
//! Time-uuids with equal timestamps order by their low bytes, signed (0.7 and later); text orders
//! by its bytes (0.6 and later).

mod class;
mod comparator;
mod compare;
mod date;
mod decimal;
mod duration;
mod dynamic;
mod encode;
mod errors;
pub mod escape;
mod foreign;
mod frame;
mod from_text;
mod hex;
mod name;
mod nested;
mod registry;
mod scripted;
mod to_text;
pub mod uuids;
mod validate;
mod varint;
mod vector;
mod zone;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use class::PACKAGE;
pub use comparator::{Comparator, Custom};
pub use date::after;
pub use decimal::{MAX_DIGITS, has_many_digits};
pub use duration::parse as duration_parts;
pub use errors::{Malformed, TypeError};
pub use foreign::ForeignType;
pub use frame::{EMPTY, EMPTY_REVERSED, NEXT, NULL};
pub use from_text::{TimeSource, Wording};
pub use hex::{hex, hex_to_bytes};
pub use registry::Registry;
pub use scripted::{ComparatorLanguage, OrderFunction, ScriptComparator};
pub use vector::{put_vector_element, vector_elements};

/// The type of a key, a name or a value. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// `BytesType`, blob: any bytes, in their order.
    Bytes,
    /// `AsciiType`: bytes below 0x80.
    Ascii,
    /// `UTF8Type`, text.
    Utf8,
    /// `LongType`, bigint: 8 bytes.
    Long,
    /// `IntegerType`, varint: two's complement of any length.
    Integer,
    /// `Int32Type`, int.
    Int32,
    /// `ShortType`, smallint.
    Short,
    /// `ByteType`, tinyint.
    Byte,
    /// `LexicalUUIDType`: uuids by their signed halves.
    LexicalUuid,
    /// `TimeUUIDType`, timeuuid: version 1 by time.
    TimeUuid,
    /// `UUIDType`, uuid: by version, version 1 by time.
    Uuid,
    /// `DateType`: milliseconds in unsigned order.
    Date,
    /// `TimestampType`, timestamp: milliseconds since 1970.
    Timestamp,
    /// `SimpleDateType`, date: days, 1970-01-01 is 2^31.
    SimpleDate,
    /// `TimeType`, time: nanoseconds since midnight.
    Time,
    /// `BooleanType`.
    Boolean,
    /// `FloatType`.
    Float,
    /// `DoubleType`.
    Double,
    /// `DecimalType`: scale (4 bytes), then an integer.
    Decimal,
    /// `InetAddressType`, inet: 4 or 16 bytes.
    Inet,
    /// `DurationType`: months, days, nanoseconds as zigzag varints; its order means nothing.
    Duration,
    /// `CounterColumnType`: 8 bytes; its order means nothing.
    Counter,
    /// `EmptyType`: only the empty value.
    Empty,
    /// `CompositeType`: `<2-byte length><bytes><end of component>` for each component.
    Composite(Arc<[Type]>),
    /// `DynamicCompositeType`: as a composite, each component behind its type.
    Dynamic(Arc<DynamicTypes>),
    /// `ReversedType`: the order of another type turned round; empty values are last.
    Reversed(Arc<Type>),
    /// `ListType`, frozen: a count, then `<4-byte length><bytes>` for each element.
    List(Arc<Type>),
    /// `SetType`, frozen: as a list.
    Set(Arc<Type>),
    /// `MapType`, frozen: keys and values in turns.
    Map(Arc<(Type, Type)>),
    /// `TupleType`: `<4-byte length><bytes>` for each component, length -1 for null; components at
    /// the end may be missing.
    Tuple(Arc<[Type]>),
    /// `UserType`: a tuple with names.
    Udt(Arc<UserType>),
    /// `VectorType`: so many elements, each `<varint length><bytes>` where their type has values of
    /// several lengths.
    Vector(Arc<Type>, u32),
    /// A comparator of the embedder ([`Comparator`]).
    Custom(Custom),
}

/// The types that the components of a `DynamicCompositeType` may have.
#[derive(Clone, Debug)]
pub struct DynamicTypes {
    /// Short names of types, a byte each.
    pub aliases: BTreeMap<u8, Type>,
    /// The comparators of the embedder, which names in values may mean.
    pub custom: Arc<BTreeMap<String, Custom>>,
}

impl PartialEq for DynamicTypes {
    fn eq(&self, other: &DynamicTypes) -> bool {
        self.aliases == other.aliases
    }
}

impl Eq for DynamicTypes {}

impl DynamicTypes {
    /// Whether it has all aliases of `before`, of the same types: values of that one are values of
    /// this one.
    fn extends(&self, before: &DynamicTypes) -> bool {
        before.aliases.iter().all(|(alias, of)| self.aliases.get(alias) == Some(of))
    }
}

/// A user-defined type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserType {
    /// The keyspace that it belongs to.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// The names of its fields and their types, in order.
    pub fields: Vec<(String, Type)>,
}

impl Type {
    /// Whether values are counters.
    pub fn is_counter(&self) -> bool {
        *self == Type::Counter
    }

    /// Whether the order is turned round.
    pub fn is_reversed(&self) -> bool {
        matches!(self, Type::Reversed(_))
    }

    /// Whether it is `before`, but for more components at the ends of tuples: values and forms of
    /// that one are the same values of this one.
    pub fn extends(&self, before: &Type) -> bool {
        match (self, before) {
            (Type::Tuple(parts), Type::Tuple(then)) => {
                parts.len() >= then.len() && parts.iter().zip(&**then).all(|(p, t)| p.extends(t))
            }
            (Type::Composite(parts), Type::Composite(then)) => {
                parts.len() == then.len() && parts.iter().zip(&**then).all(|(p, t)| p.extends(t))
            }
            (Type::Dynamic(types), Type::Dynamic(then)) => types.extends(then),
            (Type::List(of), Type::List(then))
            | (Type::Set(of), Type::Set(then))
            | (Type::Reversed(of), Type::Reversed(then)) => of.extends(then),
            (Type::Map(kv), Type::Map(then)) => kv.0.extends(&then.0) && kv.1.extends(&then.1),
            (Type::Vector(of, count), Type::Vector(then, counted)) => {
                count == counted && of.extends(then)
            }
            _ => self == before,
        }
    }

    /// The type under `ReversedType`, or itself.
    pub fn unreversed(&self) -> &Type {
        match self {
            Type::Reversed(inner) => inner,
            _ => self,
        }
    }

    /// Whether values of CQL's type are made of other values: collections, vectors, tuples and user
    /// types.
    pub fn has_parts(&self) -> bool {
        matches!(
            self.unreversed(),
            Type::List(_)
                | Type::Set(_)
                | Type::Map(_)
                | Type::Vector(..)
                | Type::Tuple(_)
                | Type::Udt(_)
        )
    }
}
