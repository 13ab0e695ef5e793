//! Arrow columns of CQL values, by the table of `README.md`.
//!
//! Invariant: a column accepts any bytes; bytes that are not a value of its type are an error.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder,
    Float32Builder, Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder,
    IntervalMonthDayNanoBuilder, StringBuilder, Time64NanosecondBuilder,
    TimestampMillisecondBuilder,
};
use arrow_array::types::IntervalMonthDayNano;
use arrow_array::{ArrayRef, FixedSizeListArray, ListArray, MapArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use firn_cql::internals::values::split;
use firn_wide::Type;
use firn_wide::internals::types::duration_parts;

/// Maximum number of digits of a decimal column.
const DIGITS: u8 = 38;
/// Maximum number of elements of a vector column; longer vectors are binary. A null takes as much
/// memory as a vector.
const MAX_VECTOR: u64 = 1 << 16;
/// Approximate memory of a null of most types.
const NULL_BYTES: usize = 8;
/// Maximum memory of a batch to which a null vector is added.
const MAX_BYTES: usize = 1 << 28;

/// Returns the number of elements that a null of a type takes.
fn slots(of: &Type) -> u64 {
    match of.unreversed() {
        Type::Vector(e, n) => u64::from(*n).saturating_mul(slots(e)),
        Type::Tuple(types) => types.iter().map(slots).fold(1, u64::saturating_add),
        Type::Udt(user) => user.fields.iter().map(|f| slots(&f.1)).fold(1, u64::saturating_add),
        _ => 1,
    }
}

/// Returns the length of a vector that has a column of its elements.
fn vector_length(of: &Type, n: u32) -> Option<i32> {
    i32::try_from(n).ok().filter(|_| slots(of) <= MAX_VECTOR)
}

/// Returns the field of a value.
pub fn field(name: &str, of: &Type, scale: i8) -> FieldRef {
    let field = Field::new(name, data_type(of, scale), true);
    Arc::new(match of.unreversed() {
        // The name of Arrow's canonical extension type.
        Type::Uuid | Type::TimeUuid | Type::LexicalUuid => field.with_metadata(HashMap::from([
            ("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned()),
            ("ARROW:extension:metadata".to_owned(), String::new()),
        ])),
        _ => field,
    })
}

fn entries(kv: &(Type, Type), scale: i8) -> Fields {
    let key = field("key", &kv.0, scale).as_ref().clone().with_nullable(false);
    Fields::from(vec![Arc::new(key), field("value", &kv.1, scale)])
}

fn parts(of: &Type, scale: i8) -> Fields {
    match of {
        Type::Udt(user) => user.fields.iter().map(|(n, of)| field(n, of, scale)).collect(),
        Type::Tuple(types) => {
            types.iter().enumerate().map(|(i, of)| field(&i.to_string(), of, scale)).collect()
        }
        _ => Fields::empty(),
    }
}

fn data_type(of: &Type, scale: i8) -> DataType {
    match of.unreversed() {
        Type::Boolean => DataType::Boolean,
        Type::Byte => DataType::Int8,
        Type::Short => DataType::Int16,
        Type::Int32 => DataType::Int32,
        Type::Long | Type::Counter => DataType::Int64,
        Type::Float => DataType::Float32,
        Type::Double => DataType::Float64,
        Type::Integer => DataType::Decimal128(DIGITS, 0),
        Type::Decimal => DataType::Decimal128(DIGITS, scale),
        Type::Ascii | Type::Utf8 | Type::Inet => DataType::Utf8,
        Type::Uuid | Type::TimeUuid | Type::LexicalUuid => DataType::FixedSizeBinary(16),
        Type::Timestamp | Type::Date => {
            DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
        }
        Type::SimpleDate => DataType::Date32,
        Type::Time => DataType::Time64(TimeUnit::Nanosecond),
        Type::Duration => DataType::Interval(IntervalUnit::MonthDayNano),
        Type::List(e) | Type::Set(e) => DataType::List(field("item", e, scale)),
        of @ Type::Vector(e, n) => match vector_length(of, *n) {
            Some(n) => DataType::FixedSizeList(field("item", e, scale), n),
            None => DataType::Binary,
        },
        Type::Map(kv) => {
            let entries = DataType::Struct(entries(kv, scale));
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
        of @ (Type::Tuple(_) | Type::Udt(_)) => DataType::Struct(parts(of, scale)),
        _ => DataType::Binary,
    }
}

/// A column under construction.
pub enum Column {
    Boolean(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Integer(Decimal128Builder),
    Decimal(Decimal128Builder, i8),
    Text(StringBuilder),
    Binary(BinaryBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Inet(StringBuilder),
    Timestamp(TimestampMillisecondBuilder),
    Date(Date32Builder),
    Time(Time64NanosecondBuilder),
    Duration(IntervalMonthDayNanoBuilder),
    /// A list or set.
    List(Nested, Vec<i32>),
    /// A map; keys and values.
    Map(Nested, Vec<i32>),
    /// A tuple or a user type.
    Struct(Nested),
    /// A vector of this length.
    Vector(Nested, i32),
}

/// Columns of the parts of values.
pub struct Nested {
    of: Type,
    /// The field of an element, or of a part of a struct.
    fields: Fields,
    children: Vec<Column>,
    nulls: NullBufferBuilder,
    /// Approximate memory of a null.
    null_bytes: usize,
}

impl Nested {
    fn new<'t>(
        of: &Type,
        fields: Fields,
        parts: impl IntoIterator<Item = &'t Type>,
        scale: i8,
    ) -> Nested {
        let children = parts.into_iter().map(|of| Column::new(of, scale)).collect();
        let null_bytes =
            usize::try_from(slots(of)).unwrap_or(usize::MAX).saturating_mul(NULL_BYTES);
        let nulls = NullBufferBuilder::new(0);
        Nested { of: of.clone(), fields, children, nulls, null_bytes }
    }

    /// Appends elements to the children in turn; returns their number.
    fn append(&mut self, bytes: &[u8], taken: &mut usize) -> Result<usize, String> {
        let parts = split(&self.of, bytes).map_err(|e| e.to_string())?;
        let count = self.children.len();
        for (i, part) in parts.iter().enumerate() {
            self.children[i % count].append(*part, taken)?;
        }
        self.nulls.append(true);
        Ok(parts.len() / count)
    }
}

/// Reads a number of big-endian bytes.
fn number<const N: usize, T>(bytes: &[u8], read: fn([u8; N]) -> T) -> Result<T, String> {
    let bytes = bytes.try_into();
    bytes.map(read).map_err(|_| format!("the value does not have {N} bytes"))
}

/// Returns an integer of the fewest bytes that fits 128 bits.
fn integer(bytes: &[u8]) -> Option<i128> {
    let fill = if bytes.first()? & 0x80 == 0 { 0 } else { 0xFF };
    let mut out = [fill; 16];
    let (over, rest) = bytes.split_at(bytes.len().saturating_sub(16));
    out[16 - rest.len()..].copy_from_slice(rest);
    let is_same = (out[0] ^ fill) & 0x80 == 0;
    (over.iter().all(|b| *b == fill) && is_same).then(|| i128::from_be_bytes(out))
}

/// Returns a decimal in units of `10^-scale`; `None` if it does not fit exactly.
fn decimal(bytes: &[u8], scale: i8) -> Option<i128> {
    let (own, rest) = bytes.split_first_chunk::<4>()?;
    let unscaled = if rest.is_empty() { 0 } else { integer(rest)? };
    let shift = i64::from(scale) - i64::from(i32::from_be_bytes(*own));
    if unscaled == 0 {
        return Some(0);
    }
    let power = 10_i128.checked_pow(u32::try_from(shift.unsigned_abs()).ok()?)?;
    if shift >= 0 {
        return unscaled.checked_mul(power);
    }
    (unscaled % power == 0).then_some(unscaled / power)
}

/// Refuses a number with too many digits.
fn fitting(value: Option<i128>, scale: i8) -> Result<i128, String> {
    value.filter(|v| v.unsigned_abs() < 10_u128.pow(DIGITS.into())).ok_or_else(|| {
        format!(
            "a number does not fit decimal128({DIGITS}, {scale}): choose another decimal_scale, or select it as text"
        )
    })
}

impl Column {
    /// Creates a column for values of a type. Decimals have `scale` digits after the point.
    pub fn new(of: &Type, scale: i8) -> Column {
        let of = of.unreversed();
        match of {
            Type::Boolean => Column::Boolean(BooleanBuilder::new()),
            Type::Byte => Column::Int8(Int8Builder::new()),
            Type::Short => Column::Int16(Int16Builder::new()),
            Type::Int32 => Column::Int32(Int32Builder::new()),
            Type::Long | Type::Counter => Column::Int64(Int64Builder::new()),
            Type::Float => Column::Float32(Float32Builder::new()),
            Type::Double => Column::Float64(Float64Builder::new()),
            Type::Integer => {
                Column::Integer(Decimal128Builder::new().with_data_type(data_type(of, scale)))
            }
            Type::Decimal => Column::Decimal(
                Decimal128Builder::new().with_data_type(data_type(of, scale)),
                scale,
            ),
            Type::Ascii | Type::Utf8 => Column::Text(StringBuilder::new()),
            Type::Inet => Column::Inet(StringBuilder::new()),
            Type::Uuid | Type::TimeUuid | Type::LexicalUuid => {
                Column::Uuid(FixedSizeBinaryBuilder::new(16))
            }
            Type::Timestamp | Type::Date => Column::Timestamp(
                TimestampMillisecondBuilder::new().with_data_type(data_type(of, scale)),
            ),
            Type::SimpleDate => Column::Date(Date32Builder::new()),
            Type::Time => Column::Time(Time64NanosecondBuilder::new()),
            Type::Duration => Column::Duration(IntervalMonthDayNanoBuilder::new()),
            Type::List(e) | Type::Set(e) => {
                let fields = Fields::from(vec![field("item", e, scale)]);
                Column::List(Nested::new(of, fields, [&**e], scale), vec![0])
            }
            Type::Vector(e, n) => match vector_length(of, *n) {
                Some(n) => {
                    let fields = Fields::from(vec![field("item", e, scale)]);
                    Column::Vector(Nested::new(of, fields, [&**e], scale), n)
                }
                None => Column::Binary(BinaryBuilder::new()),
            },
            Type::Map(kv) => {
                let nested = Nested::new(of, entries(kv, scale), [&kv.0, &kv.1], scale);
                Column::Map(nested, vec![0])
            }
            Type::Tuple(types) => {
                Column::Struct(Nested::new(of, parts(of, scale), types.iter(), scale))
            }
            Type::Udt(user) => {
                let types = user.fields.iter().map(|f| &f.1);
                Column::Struct(Nested::new(of, parts(of, scale), types, scale))
            }
            _ => Column::Binary(BinaryBuilder::new()),
        }
    }

    /// Appends a value; `None` is null. Adds its approximate memory to `taken`.
    ///
    /// # Errors
    /// The reason if the bytes are not a value of the type, a number does not fit, or the batch
    /// takes too much memory.
    pub fn append(&mut self, bytes: Option<&[u8]>, taken: &mut usize) -> Result<(), String> {
        // The empty value of types other than text and blob is null, as in Python.
        let is_text = matches!(self, Column::Text(_) | Column::Binary(_));
        let Some(bytes) = bytes.filter(|b| is_text || !b.is_empty()) else {
            let null_bytes = self.null_bytes();
            *taken = taken.saturating_add(null_bytes);
            if null_bytes > NULL_BYTES && *taken > MAX_BYTES {
                return Err(format!("the nulls of a batch take more than {MAX_BYTES} bytes"));
            }
            self.append_null();
            return Ok(());
        };
        *taken = taken.saturating_add(NULL_BYTES).saturating_add(match self {
            Column::List(..) | Column::Map(..) | Column::Struct(_) | Column::Vector(..) => 0,
            _ => bytes.len(),
        });
        match self {
            Column::Text(c) => {
                c.append_value(std::str::from_utf8(bytes).map_err(|e| e.to_string())?);
            }
            Column::Binary(c) => c.append_value(bytes),
            Column::Boolean(c) => c.append_value(number(bytes, |[b]: [u8; 1]| b != 0)?),
            Column::Int8(c) => c.append_value(number(bytes, i8::from_be_bytes)?),
            Column::Int16(c) => c.append_value(number(bytes, i16::from_be_bytes)?),
            Column::Int32(c) => c.append_value(number(bytes, i32::from_be_bytes)?),
            Column::Int64(c) => c.append_value(number(bytes, i64::from_be_bytes)?),
            Column::Float32(c) => c.append_value(number(bytes, f32::from_be_bytes)?),
            Column::Float64(c) => c.append_value(number(bytes, f64::from_be_bytes)?),
            Column::Integer(c) => c.append_value(fitting(integer(bytes), 0)?),
            Column::Decimal(c, scale) => c.append_value(fitting(decimal(bytes, *scale), *scale)?),
            Column::Uuid(c) => c.append_value(bytes).map_err(|e| e.to_string())?,
            Column::Inet(c) => c.append_value(match bytes.len() {
                4 => number(bytes, |b: [u8; 4]| Ipv4Addr::from(b).to_string())?,
                _ => number(bytes, |b: [u8; 16]| Ipv6Addr::from(b).to_string())?,
            }),
            Column::Timestamp(c) => c.append_value(number(bytes, i64::from_be_bytes)?),
            // Day 2^31 is 1970-01-01.
            Column::Date(c) => c.append_value(number(bytes, |b: [u8; 4]| {
                (u32::from_be_bytes(b) ^ 1 << 31).cast_signed()
            })?),
            Column::Time(c) => c.append_value(number(bytes, i64::from_be_bytes)?),
            Column::Duration(c) => {
                let (months, days, nanos) = duration_parts(bytes).map_err(|e| e.0)?;
                let whole = |n: i64| i32::try_from(n).map_err(|e| e.to_string());
                c.append_value(IntervalMonthDayNano::new(whole(months)?, whole(days)?, nanos));
            }
            Column::List(nested, offsets) | Column::Map(nested, offsets) => {
                let count = nested.append(bytes, taken)?;
                let end = i32::try_from(count).ok().and_then(|n| offsets.last()?.checked_add(n));
                offsets.push(end.ok_or("too many elements")?);
            }
            Column::Vector(nested, _) => drop(nested.append(bytes, taken)?),
            Column::Struct(nested) => {
                let parts = split(&nested.of, bytes).map_err(|e| e.to_string())?;
                // Parts at the end may be missing.
                for (i, child) in nested.children.iter_mut().enumerate() {
                    child.append(parts.get(i).copied().flatten(), taken)?;
                }
                nested.nulls.append(true);
            }
        }
        Ok(())
    }

    fn null_bytes(&self) -> usize {
        match self {
            Column::List(nested, _)
            | Column::Map(nested, _)
            | Column::Struct(nested)
            | Column::Vector(nested, _) => nested.null_bytes,
            _ => NULL_BYTES,
        }
    }

    fn append_null(&mut self) {
        match self {
            Column::Boolean(c) => c.append_null(),
            Column::Int8(c) => c.append_null(),
            Column::Int16(c) => c.append_null(),
            Column::Int32(c) => c.append_null(),
            Column::Int64(c) => c.append_null(),
            Column::Float32(c) => c.append_null(),
            Column::Float64(c) => c.append_null(),
            Column::Integer(c) | Column::Decimal(c, _) => c.append_null(),
            Column::Text(c) | Column::Inet(c) => c.append_null(),
            Column::Binary(c) => c.append_null(),
            Column::Uuid(c) => c.append_null(),
            Column::Timestamp(c) => c.append_null(),
            Column::Date(c) => c.append_null(),
            Column::Time(c) => c.append_null(),
            Column::Duration(c) => c.append_null(),
            Column::List(nested, offsets) | Column::Map(nested, offsets) => {
                nested.nulls.append(false);
                offsets.extend(offsets.last().copied());
            }
            Column::Struct(nested) => {
                nested.nulls.append(false);
                nested.children.iter_mut().for_each(Column::append_null);
            }
            Column::Vector(nested, length) => {
                nested.nulls.append(false);
                for child in &mut nested.children {
                    (0..*length).for_each(|_| child.append_null());
                }
            }
        }
    }

    /// Returns the values, and leaves an empty column.
    ///
    /// # Errors
    /// The reason if the values make no array: a map has a null key.
    pub fn finish(&mut self) -> Result<ArrayRef, String> {
        Ok(match self {
            Column::Boolean(c) => Arc::new(c.finish()),
            Column::Int8(c) => Arc::new(c.finish()),
            Column::Int16(c) => Arc::new(c.finish()),
            Column::Int32(c) => Arc::new(c.finish()),
            Column::Int64(c) => Arc::new(c.finish()),
            Column::Float32(c) => Arc::new(c.finish()),
            Column::Float64(c) => Arc::new(c.finish()),
            Column::Integer(c) | Column::Decimal(c, _) => Arc::new(c.finish()),
            Column::Text(c) | Column::Inet(c) => Arc::new(c.finish()),
            Column::Binary(c) => Arc::new(c.finish()),
            Column::Uuid(c) => Arc::new(c.finish()),
            Column::Timestamp(c) => Arc::new(c.finish()),
            Column::Date(c) => Arc::new(c.finish()),
            Column::Time(c) => Arc::new(c.finish()),
            Column::Duration(c) => Arc::new(c.finish()),
            Column::List(nested, offsets) => {
                let offsets =
                    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![0])));
                let values = nested.children[0].finish()?;
                let list = ListArray::try_new(
                    nested.fields[0].clone(),
                    offsets,
                    values,
                    nested.nulls.finish(),
                );
                Arc::new(list.map_err(|e| e.to_string())?)
            }
            Column::Map(nested, offsets) => {
                let offsets =
                    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![0])));
                let pairs =
                    nested.children.iter_mut().map(Column::finish).collect::<Result<_, _>>()?;
                let pairs = StructArray::try_new(nested.fields.clone(), pairs, None);
                let pairs = pairs.map_err(|e| e.to_string())?;
                let of = DataType::Struct(nested.fields.clone());
                let entries = Arc::new(Field::new("entries", of, false));
                let map = MapArray::try_new(entries, offsets, pairs, nested.nulls.finish(), false);
                Arc::new(map.map_err(|e| e.to_string())?)
            }
            Column::Struct(nested) => {
                let parts =
                    nested.children.iter_mut().map(Column::finish).collect::<Result<_, _>>()?;
                let len = nested.nulls.len();
                let nulls = nested.nulls.finish();
                let of = nested.fields.clone();
                let value = StructArray::try_new_with_length(of, parts, nulls, len);
                Arc::new(value.map_err(|e| e.to_string())?)
            }
            Column::Vector(nested, length) => {
                let values = nested.children[0].finish()?;
                let nulls = nested.nulls.finish();
                let of = nested.fields[0].clone();
                let list = FixedSizeListArray::try_new(of, *length, values, nulls);
                Arc::new(list.map_err(|e| e.to_string())?)
            }
        })
    }
}
