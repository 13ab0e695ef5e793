//! Class names of types.

use super::Type;

/// Package of the built-in types.
pub const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Types without parameters: type, class name, CQL name.
pub(super) const SIMPLE: &[(Type, &str, &str)] = &[
    (Type::Bytes, "BytesType", "blob"),
    (Type::Ascii, "AsciiType", "ascii"),
    (Type::Utf8, "UTF8Type", "text"),
    (Type::Long, "LongType", "bigint"),
    (Type::Integer, "IntegerType", "varint"),
    (Type::Int32, "Int32Type", "int"),
    (Type::Short, "ShortType", "smallint"),
    (Type::Byte, "ByteType", "tinyint"),
    (Type::LexicalUuid, "LexicalUUIDType", "'org.apache.cassandra.db.marshal.LexicalUUIDType'"),
    (Type::TimeUuid, "TimeUUIDType", "timeuuid"),
    (Type::Uuid, "UUIDType", "uuid"),
    (Type::Date, "DateType", "'org.apache.cassandra.db.marshal.DateType'"),
    (Type::Timestamp, "TimestampType", "timestamp"),
    (Type::SimpleDate, "SimpleDateType", "date"),
    (Type::Time, "TimeType", "time"),
    (Type::Boolean, "BooleanType", "boolean"),
    (Type::Float, "FloatType", "float"),
    (Type::Double, "DoubleType", "double"),
    (Type::Decimal, "DecimalType", "decimal"),
    (Type::Inet, "InetAddressType", "inet"),
    (Type::Duration, "DurationType", "duration"),
    (Type::Counter, "CounterColumnType", "counter"),
    (Type::Empty, "EmptyType", "empty"),
];

/// Types with parameters.
pub(super) const PARAMETRIC: [&str; 10] = [
    "CompositeType",
    "DynamicCompositeType",
    "ReversedType",
    "ListType",
    "SetType",
    "MapType",
    "TupleType",
    "UserType",
    "VectorType",
    "FrozenType",
];

/// Returns the full class name: without a dot, Cassandra's package is added.
pub(super) fn with_package(class: &str) -> String {
    if class.contains('.') { class.to_owned() } else { format!("{PACKAGE}{class}") }
}
