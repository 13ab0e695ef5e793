//! Values of Arrow arrays as CQL values, by the table of `docs/transfer.md`.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use firn_cql::internals::values::{from_plain, put_many};
use firn_wide::{Type, UserType};
use std::sync::Arc;

use super::CQL_TYPE;
use crate::convert::{convert, varint};

/// Maximum depth of nested types.
const MAX_DEPTH: u32 = 16;
/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;
const EXTENSION: &str = "ARROW:extension:name";

/// Returns the CQL type of a field's values. A struct becomes a user type of the name `name`, and
/// structs in it have longer names.
///
/// # Errors
/// The reason if CQL has no such type.
pub fn column_type(keyspace: &str, name: &str, field: &Field) -> Result<Type, String> {
    nested_type(keyspace, name, field, MAX_DEPTH)
}

fn nested_type(keyspace: &str, name: &str, field: &Field, depth: u32) -> Result<Type, String> {
    if depth == 0 {
        return Err(format!("{name} is nested more than {MAX_DEPTH} times"));
    }
    let word = field.metadata().get(CQL_TYPE).map(String::as_str);
    let inner = |name: &str, field: &Field| nested_type(keyspace, name, field, depth - 1);
    Ok(match (word, field.data_type()) {
        (_, DataType::Dictionary(_, values)) => {
            let values = Field::new(field.name(), (**values).clone(), true);
            inner(name, &values.with_metadata(field.metadata().clone()))?
        }
        (Some("ascii"), _) => Type::Ascii,
        (Some("inet"), _) => Type::Inet,
        (Some("timeuuid"), _) => Type::TimeUuid,
        (Some("varint"), _) => Type::Integer,
        (Some("decimal"), _) => Type::Decimal,
        (Some("duration"), _) => Type::Duration,
        (Some("counter"), _) => Type::Counter,
        (Some("set"), DataType::List(e)) => Type::Set(inner(name, e)?.into()),
        (
            _,
            DataType::List(e)
            | DataType::LargeList(e)
            | DataType::ListView(e)
            | DataType::LargeListView(e),
        ) => Type::List(inner(name, e)?.into()),
        (_, DataType::FixedSizeList(e, n)) => {
            let n = u32::try_from(*n).map_err(|e| e.to_string())?;
            Type::Vector(inner(name, e)?.into(), n)
        }
        (_, DataType::Map(entries, _)) => match entries.data_type() {
            DataType::Struct(kv) if kv.len() == 2 => {
                Type::Map((inner(name, &kv[0])?, inner(name, &kv[1])?).into())
            }
            other => return Err(format!("a map of {other}")),
        },
        (Some("tuple"), DataType::Struct(fields)) => {
            let types: Result<Vec<Type>, String> = fields.iter().map(|f| inner(name, f)).collect();
            Type::Tuple(types?.into())
        }
        (word, DataType::Struct(fields)) => {
            let own = word.and_then(|w| w.strip_prefix("type ")).unwrap_or(name).to_owned();
            let part =
                |f: &Arc<Field>| Ok((f.name().clone(), inner(&format!("{own}_{}", f.name()), f)?));
            let fields = fields.iter().map(part).collect::<Result<_, String>>()?;
            Type::Udt(Arc::new(UserType { keyspace: keyspace.to_owned(), name: own, fields }))
        }
        (_, of) => leaf_type(field, of)?,
    })
}

/// Returns the CQL type of values without parts.
fn leaf_type(field: &Field, of: &DataType) -> Result<Type, String> {
    Ok(match of {
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::Utf8,
        DataType::Boolean => Type::Boolean,
        DataType::Int8 => Type::Byte,
        DataType::Int16 | DataType::UInt8 => Type::Short,
        DataType::Int32 | DataType::UInt16 => Type::Int32,
        DataType::Int64 | DataType::UInt32 => Type::Long,
        DataType::UInt64 => Type::Integer,
        DataType::Float16 | DataType::Float32 => Type::Float,
        DataType::Float64 => Type::Double,
        DataType::FixedSizeBinary(16) if is_uuid(field) => Type::Uuid,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Type::Bytes,
        DataType::Date32 => Type::SimpleDate,
        DataType::Timestamp(..) | DataType::Date64 => Type::Timestamp,
        DataType::Time32(_) | DataType::Time64(_) => Type::Time,
        DataType::Duration(_) | DataType::Interval(_) => Type::Duration,
        DataType::Decimal32(_, 0)
        | DataType::Decimal64(_, 0)
        | DataType::Decimal128(_, 0)
        | DataType::Decimal256(_, 0) => Type::Integer,
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Type::Decimal,
        other => return Err(format!("CQL has no type for {other}")),
    })
}

fn is_uuid(field: &Field) -> bool {
    field.metadata().get(EXTENSION).is_some_and(|name| name == "arrow.uuid")
}

/// Returns an array whose values are not in a dictionary.
///
/// # Errors
/// The reason if the array is malformed.
#[cfg(feature = "parquet")]
pub fn flat(array: &ArrayRef) -> Result<ArrayRef, String> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) => {
            arrow_select::take::take(&**dictionary.values(), dictionary.keys(), None)
                .map_err(|e| e.to_string())
        }
        None => Ok(array.clone()),
    }
}

/// Returns a number that a division leaves no rest of.
fn divided(n: i64, by: i64, lossy: bool) -> Result<i64, String> {
    match lossy || n.rem_euclid(by) == 0 {
        true => Ok(n.div_euclid(by)),
        false => Err(format!(
            "a timestamp of {n} has digits below a millisecond, which CQL's have not; --lossy drops them"
        )),
    }
}

fn scaled(n: i64, by: i64) -> Result<i64, String> {
    n.checked_mul(by).ok_or_else(|| format!("the time {n} is out of range"))
}

/// Encodes a duration.
fn duration(months: i64, days: i64, nanos: i64) -> Result<Vec<u8>, String> {
    let parts = [months, days, nanos];
    let is_negative = parts.iter().any(|n| *n < 0);
    if is_negative && parts.iter().any(|n| *n > 0) {
        return Err("a duration has parts with different signs".to_owned());
    }
    let sign = if is_negative { "-" } else { "" };
    let [months, days, nanos] = parts.map(i64::unsigned_abs);
    let text = format!("{sign}{months}mo{days}d{nanos}ns");
    from_plain(&Type::Duration, &text).map_err(|e| e.to_string())
}

/// Encodes a decimal with its scale, or an integer without one.
fn decimal(scale: i8, digits: Vec<u8>) -> (Type, Vec<u8>) {
    match scale {
        0 => (Type::Integer, digits),
        _ => (Type::Decimal, [&i32::from(scale).to_be_bytes()[..], &digits].concat()),
    }
}

/// Returns the value at an index as a value of a type of [`column_type`].
///
/// # Errors
/// The reason if it is no value of the type. `lossy`: a near value is none.
pub fn read(
    array: &dyn Array,
    i: usize,
    of: &Type,
    lossy: bool,
) -> Result<Option<Vec<u8>>, String> {
    if array.is_null(i) || *array.data_type() == DataType::Null {
        return Ok(None);
    }
    let elements = |values: &ArrayRef| -> Result<Vec<u8>, String> {
        let (Type::List(e) | Type::Set(e) | Type::Vector(e, _)) = of else {
            return Err("a list".to_owned());
        };
        let all = (0..values.len()).map(|i| read(values, i, e, lossy));
        put_many(of, all.collect::<Result<_, _>>()?).map_err(|e| e.to_string())
    };
    Ok(Some(match array.data_type() {
        DataType::List(_) => elements(&array.as_list::<i32>().value(i))?,
        DataType::LargeList(_) => elements(&array.as_list::<i64>().value(i))?,
        DataType::ListView(_) => elements(&array.as_list_view::<i32>().value(i))?,
        DataType::LargeListView(_) => elements(&array.as_list_view::<i64>().value(i))?,
        DataType::FixedSizeList(..) => elements(&array.as_fixed_size_list().value(i))?,
        DataType::Map(..) => {
            let Type::Map(kv) = of else { return Err("a map".to_owned()) };
            let entries = array.as_map().value(i);
            let mut all = Vec::with_capacity(entries.len() * 2);
            for at in 0..entries.len() {
                all.push(read(entries.column(0), at, &kv.0, lossy)?);
                all.push(read(entries.column(1), at, &kv.1, lossy)?);
            }
            put_many(of, all).map_err(|e| e.to_string())?
        }
        DataType::Struct(_) => {
            let types: Vec<&Type> = match of {
                Type::Tuple(types) => types.iter().collect(),
                Type::Udt(user) => user.fields.iter().map(|f| &f.1).collect(),
                _ => return Err("a struct".to_owned()),
            };
            let parts = array.as_struct().columns().iter().zip(types);
            let all = parts.map(|(part, of)| read(part, i, of, lossy));
            put_many(of, all.collect::<Result<_, _>>()?).map_err(|e| e.to_string())?
        }
        _ => {
            let (own, bytes) = leaf(array, i, of, lossy)?;
            convert(&own, of, bytes, lossy)?
        }
    }))
}

/// Returns a value without parts, and its type.
fn leaf(array: &dyn Array, i: usize, of: &Type, lossy: bool) -> Result<(Type, Vec<u8>), String> {
    let own = |of: Type, bytes: &[u8]| (of, bytes.to_vec());
    let millis = |n: i64| (Type::Timestamp, n.to_be_bytes().to_vec());
    let time = |n: i64| (Type::Time, n.to_be_bytes().to_vec());
    let nanos = |n: Result<i64, String>| Ok::<_, String>((Type::Duration, duration(0, 0, n?)?));
    let bytes_type = if *of == Type::Uuid { Type::Uuid } else { Type::Bytes };
    macro_rules! at {
        ($of:ty) => {
            array.as_primitive::<$of>().value(i)
        };
    }
    Ok(match array.data_type() {
        DataType::Boolean => own(Type::Boolean, &[u8::from(array.as_boolean().value(i))]),
        DataType::Int8 => own(Type::Byte, &at!(Int8Type).to_be_bytes()),
        DataType::Int16 => own(Type::Short, &at!(Int16Type).to_be_bytes()),
        DataType::Int32 => own(Type::Int32, &at!(Int32Type).to_be_bytes()),
        DataType::Int64 => own(Type::Long, &at!(Int64Type).to_be_bytes()),
        DataType::UInt8 => own(Type::Short, &i16::from(at!(UInt8Type)).to_be_bytes()),
        DataType::UInt16 => own(Type::Int32, &i32::from(at!(UInt16Type)).to_be_bytes()),
        DataType::UInt32 => own(Type::Long, &i64::from(at!(UInt32Type)).to_be_bytes()),
        DataType::UInt64 => own(Type::Integer, &varint(at!(UInt64Type).into())),
        DataType::Float16 => own(Type::Float, &at!(Float16Type).to_f32().to_be_bytes()),
        DataType::Float32 => own(Type::Float, &at!(Float32Type).to_be_bytes()),
        DataType::Float64 => own(Type::Double, &at!(Float64Type).to_be_bytes()),
        DataType::Utf8 => own(Type::Utf8, array.as_string::<i32>().value(i).as_bytes()),
        DataType::LargeUtf8 => own(Type::Utf8, array.as_string::<i64>().value(i).as_bytes()),
        DataType::Utf8View => own(Type::Utf8, array.as_string_view().value(i).as_bytes()),
        DataType::Binary => own(bytes_type, array.as_binary::<i32>().value(i)),
        DataType::LargeBinary => own(bytes_type, array.as_binary::<i64>().value(i)),
        DataType::BinaryView => own(bytes_type, array.as_binary_view().value(i)),
        DataType::FixedSizeBinary(_) => own(bytes_type, array.as_fixed_size_binary().value(i)),
        DataType::Date32 => {
            let days = at!(Date32Type).cast_unsigned() ^ 1 << 31;
            own(Type::SimpleDate, &days.to_be_bytes())
        }
        DataType::Date64 => millis(at!(Date64Type)),
        DataType::Timestamp(unit, _) => millis(match unit {
            TimeUnit::Second => scaled(at!(TimestampSecondType), 1000)?,
            TimeUnit::Millisecond => at!(TimestampMillisecondType),
            TimeUnit::Microsecond => divided(at!(TimestampMicrosecondType), 1000, lossy)?,
            TimeUnit::Nanosecond => divided(at!(TimestampNanosecondType), 1_000_000, lossy)?,
        }),
        DataType::Time32(TimeUnit::Second) => time(i64::from(at!(Time32SecondType)) * SECOND),
        DataType::Time32(_) => time(i64::from(at!(Time32MillisecondType)) * 1_000_000),
        DataType::Time64(TimeUnit::Microsecond) => time(scaled(at!(Time64MicrosecondType), 1000)?),
        DataType::Time64(_) => time(at!(Time64NanosecondType)),
        DataType::Duration(unit) => nanos(match unit {
            TimeUnit::Second => scaled(at!(DurationSecondType), SECOND),
            TimeUnit::Millisecond => scaled(at!(DurationMillisecondType), 1_000_000),
            TimeUnit::Microsecond => scaled(at!(DurationMicrosecondType), 1000),
            TimeUnit::Nanosecond => Ok(at!(DurationNanosecondType)),
        })?,
        DataType::Interval(IntervalUnit::YearMonth) => {
            (Type::Duration, duration(at!(IntervalYearMonthType).into(), 0, 0)?)
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let n = at!(IntervalDayTimeType);
            let nanos = i64::from(n.milliseconds) * 1_000_000;
            (Type::Duration, duration(0, n.days.into(), nanos)?)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let n = at!(IntervalMonthDayNanoType);
            (Type::Duration, duration(n.months.into(), n.days.into(), n.nanoseconds)?)
        }
        DataType::Decimal32(_, scale) => decimal(*scale, varint(at!(Decimal32Type).into())),
        DataType::Decimal64(_, scale) => decimal(*scale, varint(at!(Decimal64Type).into())),
        DataType::Decimal128(_, scale) => decimal(*scale, varint(at!(Decimal128Type))),
        DataType::Decimal256(_, scale) => {
            let bytes = at!(Decimal256Type).to_be_bytes();
            let fill = if bytes[0] & 0x80 == 0 { 0 } else { 0xFF };
            let is_spare = |i: usize| bytes[i] == fill && (bytes[i + 1] ^ fill) & 0x80 == 0;
            let first = (0..bytes.len() - 1).find(|i| !is_spare(*i)).unwrap_or(bytes.len() - 1);
            decimal(*scale, bytes[first..].to_vec())
        }
        other => return Err(format!("CQL has no type for {other}")),
    })
}
