//! Floor 0: types of keys, names and values (model 2.1): validation with Cassandra's texts, order,
//! byte-comparable forms for keys, and text.
//!
//! Invariants:
//! - `encode(a) < encode(b)` exactly if `a < b`. Forms are prefix-free if followed by a separator
//!   of a sequence (0x20..=0x60).
//! - Values that compare equal have one form, and `decode` returns one canonical spelling. For
//!   varints it is the shortest; for booleans `00` or `01`; for every NaN `7fc00000`. Decimals have
//!   no trailing zeros in the fraction, and tuples no trailing nulls.
//! - No bytes and no text make a function of this module panic.
//!
//! Where Cassandra versions differ, the newest is followed, with these exceptions:
//! - UTF-8 is strict (Cassandra accepts surrogates, overlong zeros and code points beyond
//!   U+10FFFF).
//! - A value truncated inside a collection or a duration is refused with a plain text, where
//!   Cassandra fails with an internal error.
//! - Booleans are ordered by being zero (1.1.12: by the signed byte).
//! - Decimals are validated as in 4.0. Any scale and an integer of zero bytes (a zero) can be
//!   ordered.
//! - `LexicalUUIDType` has the text of 1.1.12; newer versions were not tested.
//! - Text may be parsed with the wording of either version ([`Wording`]).
//!
//! Time-uuids with equal timestamps are ordered by their low bytes, signed (0.7 and later); text is
//! ordered by its bytes (0.6 and later).

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
    /// `BytesType`, blob: any bytes, in byte order.
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
    /// `LexicalUUIDType`: uuids ordered by their signed halves.
    LexicalUuid,
    /// `TimeUUIDType`, timeuuid: version 1, ordered by time.
    TimeUuid,
    /// `UUIDType`, uuid: ordered by version, version 1 by time.
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
    /// `DurationType`: months, days, nanoseconds as zigzag varints; its order has no meaning.
    Duration,
    /// `CounterColumnType`: 8 bytes; its order has no meaning.
    Counter,
    /// `EmptyType`: only the empty value.
    Empty,
    /// `CompositeType`: `<2-byte length><bytes><end of component>` for each component.
    Composite(Arc<[Type]>),
    /// `DynamicCompositeType`: a composite whose components are preceded by their types.
    Dynamic(Arc<DynamicTypes>),
    /// `ReversedType`: another type in reverse order; empty values are last.
    Reversed(Arc<Type>),
    /// `ListType`, frozen: a count, then `<4-byte length><bytes>` for each element.
    List(Arc<Type>),
    /// `SetType`, frozen: like a list.
    Set(Arc<Type>),
    /// `MapType`, frozen: keys and values alternate.
    Map(Arc<(Type, Type)>),
    /// `TupleType`: `<4-byte length><bytes>` for each component, length -1 for null. Components at
    /// the end may be missing.
    Tuple(Arc<[Type]>),
    /// `UserType`: a tuple with field names.
    Udt(Arc<UserType>),
    /// `VectorType`: this number of elements. Each is `<varint length><bytes>` if the values of
    /// their type have different lengths.
    Vector(Arc<Type>, u32),
    /// A custom comparator ([`Comparator`]).
    Custom(Custom),
}

/// Types that the components of a `DynamicCompositeType` may have.
#[derive(Clone, Debug)]
pub struct DynamicTypes {
    /// One-byte aliases of types.
    pub aliases: BTreeMap<u8, Type>,
    /// Custom comparators, to which names in values may refer.
    pub custom: Arc<BTreeMap<String, Custom>>,
}

impl PartialEq for DynamicTypes {
    fn eq(&self, other: &DynamicTypes) -> bool {
        self.aliases == other.aliases
    }
}

impl Eq for DynamicTypes {}

impl DynamicTypes {
    /// Reports whether it has all aliases of `before` with the same types, so that values of
    /// `before` are values of this type.
    fn extends(&self, before: &DynamicTypes) -> bool {
        before.aliases.iter().all(|(alias, of)| self.aliases.get(alias) == Some(of))
    }
}

/// A user-defined type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserType {
    /// Keyspace of the type.
    pub keyspace: String,
    /// Name of the type.
    pub name: String,
    /// Names and types of its fields, in order.
    pub fields: Vec<(String, Type)>,
}

impl Type {
    /// Reports whether values are counters.
    pub fn is_counter(&self) -> bool {
        *self == Type::Counter
    }

    /// Reports whether the order is reversed.
    pub fn is_reversed(&self) -> bool {
        matches!(self, Type::Reversed(_))
    }

    /// Reports whether it equals `before`, except for additional components at the ends of tuples.
    /// Then values and forms of `before` are the same values of this type.
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

    /// Returns the type inside `ReversedType`, or the type itself.
    pub fn unreversed(&self) -> &Type {
        match self {
            Type::Reversed(inner) => inner,
            _ => self,
        }
    }

    /// Reports whether values of a CQL type consist of other values: collections, vectors, tuples
    /// and user types.
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
