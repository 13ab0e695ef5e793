//! Arrow columns of CQL values, by the table of `docs/transfer.md`.
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
use firn_cql::internals::values::{plain, split};
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

/// Metadata of a field: the CQL type whose values have the field's Arrow type.
pub const CQL_TYPE: &str = "firn.type";

/// Choices where CQL's types have no single counterpart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrowForms {
    /// Digits after the point of decimals, which then have type `decimal128`, as varints do. `None`:
    /// decimals and varints are text, which is exact.
    pub decimal_scale: Option<i8>,
    /// Whether durations are text: Parquet has no type for them.
    pub text_durations: bool,
}

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
pub fn field(name: &str, of: &Type, forms: ArrowForms) -> FieldRef {
    let field = Field::new(name, data_type(of, forms), true);
    let mut metadata = HashMap::new();
    if let Some(word) = type_word(of.unreversed()) {
        metadata.insert(CQL_TYPE.to_owned(), word);
    }
    if matches!(of.unreversed(), Type::Uuid | Type::TimeUuid | Type::LexicalUuid) {
        // The name of Arrow's canonical extension type.
        metadata.insert("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned());
        metadata.insert("ARROW:extension:metadata".to_owned(), String::new());
    }
    Arc::new(field.with_metadata(metadata))
}

/// Returns the metadata for a type that cannot be inferred from the field's Arrow type.
fn type_word(of: &Type) -> Option<String> {
    Some(match of {
        Type::Ascii => "ascii".to_owned(),
        Type::Inet => "inet".to_owned(),
        Type::TimeUuid => "timeuuid".to_owned(),
        Type::Integer => "varint".to_owned(),
        Type::Decimal => "decimal".to_owned(),
        Type::Duration => "duration".to_owned(),
        Type::Counter => "counter".to_owned(),
        Type::Set(_) => "set".to_owned(),
        Type::Tuple(_) => "tuple".to_owned(),
        Type::Udt(user) => format!("type {}", user.name),
        _ => return None,
    })
}

fn entries(kv: &(Type, Type), forms: ArrowForms) -> Fields {
    let key = field("key", &kv.0, forms).as_ref().clone().with_nullable(false);
    Fields::from(vec![Arc::new(key), field("value", &kv.1, forms)])
}

fn parts(of: &Type, forms: ArrowForms) -> Fields {
    match of {
        Type::Udt(user) => user.fields.iter().map(|(n, of)| field(n, of, forms)).collect(),
        Type::Tuple(types) => {
            types.iter().enumerate().map(|(i, of)| field(&i.to_string(), of, forms)).collect()
        }
        _ => Fields::empty(),
    }
}

/// Returns the Arrow type of values.
fn data_type(of: &Type, forms: ArrowForms) -> DataType {
    match of.unreversed() {
        Type::Boolean => DataType::Boolean,
        Type::Byte => DataType::Int8,
        Type::Short => DataType::Int16,
        Type::Int32 => DataType::Int32,
        Type::Long | Type::Counter => DataType::Int64,
        Type::Float => DataType::Float32,
        Type::Double => DataType::Float64,
        Type::Integer if forms.decimal_scale.is_some() => DataType::Decimal128(DIGITS, 0),
        Type::Integer => DataType::Utf8,
        Type::Decimal => match forms.decimal_scale {
            Some(scale) => DataType::Decimal128(DIGITS, scale),
            None => DataType::Utf8,
        },
        Type::Duration if forms.text_durations => DataType::Utf8,
        Type::Ascii | Type::Utf8 | Type::Inet => DataType::Utf8,
        Type::Uuid | Type::TimeUuid | Type::LexicalUuid => DataType::FixedSizeBinary(16),
        Type::Timestamp | Type::Date => {
            DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
        }
        Type::SimpleDate => DataType::Date32,
        Type::Time => DataType::Time64(TimeUnit::Nanosecond),
        Type::Duration => DataType::Interval(IntervalUnit::MonthDayNano),
        Type::List(e) | Type::Set(e) => DataType::List(field("item", e, forms)),
        of @ Type::Vector(e, n) => match vector_length(of, *n) {
            Some(n) => DataType::FixedSizeList(field("item", e, forms), n),
            None => DataType::Binary,
        },
        Type::Map(kv) => {
            let entries = DataType::Struct(entries(kv, forms));
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
        of @ (Type::Tuple(_) | Type::Udt(_)) => DataType::Struct(parts(of, forms)),
        _ => DataType::Binary,
    }
}

/// A column under construction.
pub struct Column(ColumnBuilder);

impl std::fmt::Debug for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Column").finish_non_exhaustive()
    }
}

impl Column {
    /// Creates a column for values of a type.
    pub fn new(of: &Type, forms: ArrowForms) -> Column {
        Column(ColumnBuilder::new(of, forms))
    }

    /// Appends a value; `None` is null. Adds its approximate memory to `taken`.
    ///
    /// # Errors
    /// The reason if the bytes are not a value of the type, a number does not fit, or the batch
    /// takes too much memory.
    pub fn append(&mut self, bytes: Option<&[u8]>, taken: &mut usize) -> Result<(), String> {
        self.0.append(bytes, taken)
    }

    /// Returns the values, and leaves an empty column.
    ///
    /// # Errors
    /// The reason if the values make no array: a map has a null key.
    pub fn finish(&mut self) -> Result<ArrayRef, String> {
        self.0.finish()
    }
}

/// Builder of the array of a column.
enum ColumnBuilder {
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
    /// Values of this type as text.
    Plain(Type, StringBuilder),
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
struct Nested {
    of: Type,
    /// The field of an element, or of a part of a struct.
    fields: Fields,
    children: Vec<ColumnBuilder>,
    nulls: NullBufferBuilder,
    /// Approximate memory of a null.
    null_bytes: usize,
}

impl Nested {
    fn new<'t>(
        of: &Type,
        fields: Fields,
        parts: impl IntoIterator<Item = &'t Type>,
        forms: ArrowForms,
    ) -> Nested {
        let children = parts.into_iter().map(|of| ColumnBuilder::new(of, forms)).collect();
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

impl ColumnBuilder {
    fn new(of: &Type, forms: ArrowForms) -> ColumnBuilder {
        let of = of.unreversed();
        match of {
            Type::Boolean => ColumnBuilder::Boolean(BooleanBuilder::new()),
            Type::Byte => ColumnBuilder::Int8(Int8Builder::new()),
            Type::Short => ColumnBuilder::Int16(Int16Builder::new()),
            Type::Int32 => ColumnBuilder::Int32(Int32Builder::new()),
            Type::Long | Type::Counter => ColumnBuilder::Int64(Int64Builder::new()),
            Type::Float => ColumnBuilder::Float32(Float32Builder::new()),
            Type::Double => ColumnBuilder::Float64(Float64Builder::new()),
            Type::Integer if forms.decimal_scale.is_some() => ColumnBuilder::Integer(
                Decimal128Builder::new().with_data_type(data_type(of, forms)),
            ),
            Type::Duration if forms.text_durations => {
                ColumnBuilder::Plain(of.clone(), StringBuilder::new())
            }
            Type::Decimal => match forms.decimal_scale {
                Some(scale) => ColumnBuilder::Decimal(
                    Decimal128Builder::new().with_data_type(data_type(of, forms)),
                    scale,
                ),
                None => ColumnBuilder::Plain(of.clone(), StringBuilder::new()),
            },
            Type::Integer => ColumnBuilder::Plain(of.clone(), StringBuilder::new()),
            Type::Ascii | Type::Utf8 => ColumnBuilder::Text(StringBuilder::new()),
            Type::Inet => ColumnBuilder::Inet(StringBuilder::new()),
            Type::Uuid | Type::TimeUuid | Type::LexicalUuid => {
                ColumnBuilder::Uuid(FixedSizeBinaryBuilder::new(16))
            }
            Type::Timestamp | Type::Date => ColumnBuilder::Timestamp(
                TimestampMillisecondBuilder::new().with_data_type(data_type(of, forms)),
            ),
            Type::SimpleDate => ColumnBuilder::Date(Date32Builder::new()),
            Type::Time => ColumnBuilder::Time(Time64NanosecondBuilder::new()),
            Type::Duration => ColumnBuilder::Duration(IntervalMonthDayNanoBuilder::new()),
            Type::List(e) | Type::Set(e) => {
                let fields = Fields::from(vec![field("item", e, forms)]);
                ColumnBuilder::List(Nested::new(of, fields, [&**e], forms), vec![0])
            }
            Type::Vector(e, n) => match vector_length(of, *n) {
                Some(n) => {
                    let fields = Fields::from(vec![field("item", e, forms)]);
                    ColumnBuilder::Vector(Nested::new(of, fields, [&**e], forms), n)
                }
                None => ColumnBuilder::Binary(BinaryBuilder::new()),
            },
            Type::Map(kv) => {
                let nested = Nested::new(of, entries(kv, forms), [&kv.0, &kv.1], forms);
                ColumnBuilder::Map(nested, vec![0])
            }
            Type::Tuple(types) => {
                ColumnBuilder::Struct(Nested::new(of, parts(of, forms), types.iter(), forms))
            }
            Type::Udt(user) => {
                let types = user.fields.iter().map(|f| &f.1);
                ColumnBuilder::Struct(Nested::new(of, parts(of, forms), types, forms))
            }
            _ => ColumnBuilder::Binary(BinaryBuilder::new()),
        }
    }

    fn append(&mut self, bytes: Option<&[u8]>, taken: &mut usize) -> Result<(), String> {
        // The empty value of types other than text and blob is null, as in Python.
        let is_text = matches!(self, ColumnBuilder::Text(_) | ColumnBuilder::Binary(_));
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
            ColumnBuilder::List(..)
            | ColumnBuilder::Map(..)
            | ColumnBuilder::Struct(_)
            | ColumnBuilder::Vector(..) => 0,
            _ => bytes.len(),
        });
        match self {
            ColumnBuilder::Text(c) => {
                c.append_value(std::str::from_utf8(bytes).map_err(|e| e.to_string())?);
            }
            ColumnBuilder::Plain(of, c) => c.append_value(plain(of, bytes)),
            ColumnBuilder::Binary(c) => c.append_value(bytes),
            ColumnBuilder::Boolean(c) => c.append_value(number(bytes, |[b]: [u8; 1]| b != 0)?),
            ColumnBuilder::Int8(c) => c.append_value(number(bytes, i8::from_be_bytes)?),
            ColumnBuilder::Int16(c) => c.append_value(number(bytes, i16::from_be_bytes)?),
            ColumnBuilder::Int32(c) => c.append_value(number(bytes, i32::from_be_bytes)?),
            ColumnBuilder::Int64(c) => c.append_value(number(bytes, i64::from_be_bytes)?),
            ColumnBuilder::Float32(c) => c.append_value(number(bytes, f32::from_be_bytes)?),
            ColumnBuilder::Float64(c) => c.append_value(number(bytes, f64::from_be_bytes)?),
            ColumnBuilder::Integer(c) => c.append_value(fitting(integer(bytes), 0)?),
            ColumnBuilder::Decimal(c, scale) => {
                c.append_value(fitting(decimal(bytes, *scale), *scale)?)
            }
            ColumnBuilder::Uuid(c) => c.append_value(bytes).map_err(|e| e.to_string())?,
            ColumnBuilder::Inet(c) => c.append_value(match bytes.len() {
                4 => number(bytes, |b: [u8; 4]| Ipv4Addr::from(b).to_string())?,
                _ => number(bytes, |b: [u8; 16]| Ipv6Addr::from(b).to_string())?,
            }),
            ColumnBuilder::Timestamp(c) => c.append_value(number(bytes, i64::from_be_bytes)?),
            // Day 2^31 is 1970-01-01.
            ColumnBuilder::Date(c) => c.append_value(number(bytes, |b: [u8; 4]| {
                (u32::from_be_bytes(b) ^ 1 << 31).cast_signed()
            })?),
            ColumnBuilder::Time(c) => c.append_value(number(bytes, i64::from_be_bytes)?),
            ColumnBuilder::Duration(c) => {
                let (months, days, nanos) = duration_parts(bytes).map_err(|e| e.0)?;
                let whole = |n: i64| i32::try_from(n).map_err(|e| e.to_string());
                c.append_value(IntervalMonthDayNano::new(whole(months)?, whole(days)?, nanos));
            }
            ColumnBuilder::List(nested, offsets) | ColumnBuilder::Map(nested, offsets) => {
                let count = nested.append(bytes, taken)?;
                let end = i32::try_from(count).ok().and_then(|n| offsets.last()?.checked_add(n));
                offsets.push(end.ok_or("too many elements")?);
            }
            ColumnBuilder::Vector(nested, _) => drop(nested.append(bytes, taken)?),
            ColumnBuilder::Struct(nested) => {
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
            ColumnBuilder::List(nested, _)
            | ColumnBuilder::Map(nested, _)
            | ColumnBuilder::Struct(nested)
            | ColumnBuilder::Vector(nested, _) => nested.null_bytes,
            _ => NULL_BYTES,
        }
    }

    fn append_null(&mut self) {
        match self {
            ColumnBuilder::Boolean(c) => c.append_null(),
            ColumnBuilder::Int8(c) => c.append_null(),
            ColumnBuilder::Int16(c) => c.append_null(),
            ColumnBuilder::Int32(c) => c.append_null(),
            ColumnBuilder::Int64(c) => c.append_null(),
            ColumnBuilder::Float32(c) => c.append_null(),
            ColumnBuilder::Float64(c) => c.append_null(),
            ColumnBuilder::Integer(c) | ColumnBuilder::Decimal(c, _) => c.append_null(),
            ColumnBuilder::Text(c) | ColumnBuilder::Inet(c) | ColumnBuilder::Plain(_, c) => {
                c.append_null()
            }
            ColumnBuilder::Binary(c) => c.append_null(),
            ColumnBuilder::Uuid(c) => c.append_null(),
            ColumnBuilder::Timestamp(c) => c.append_null(),
            ColumnBuilder::Date(c) => c.append_null(),
            ColumnBuilder::Time(c) => c.append_null(),
            ColumnBuilder::Duration(c) => c.append_null(),
            ColumnBuilder::List(nested, offsets) | ColumnBuilder::Map(nested, offsets) => {
                nested.nulls.append(false);
                offsets.extend(offsets.last().copied());
            }
            ColumnBuilder::Struct(nested) => {
                nested.nulls.append(false);
                nested.children.iter_mut().for_each(ColumnBuilder::append_null);
            }
            ColumnBuilder::Vector(nested, length) => {
                nested.nulls.append(false);
                for child in &mut nested.children {
                    (0..*length).for_each(|_| child.append_null());
                }
            }
        }
    }

    fn finish(&mut self) -> Result<ArrayRef, String> {
        Ok(match self {
            ColumnBuilder::Boolean(c) => Arc::new(c.finish()),
            ColumnBuilder::Int8(c) => Arc::new(c.finish()),
            ColumnBuilder::Int16(c) => Arc::new(c.finish()),
            ColumnBuilder::Int32(c) => Arc::new(c.finish()),
            ColumnBuilder::Int64(c) => Arc::new(c.finish()),
            ColumnBuilder::Float32(c) => Arc::new(c.finish()),
            ColumnBuilder::Float64(c) => Arc::new(c.finish()),
            ColumnBuilder::Integer(c) | ColumnBuilder::Decimal(c, _) => Arc::new(c.finish()),
            ColumnBuilder::Text(c) | ColumnBuilder::Inet(c) | ColumnBuilder::Plain(_, c) => {
                Arc::new(c.finish())
            }
            ColumnBuilder::Binary(c) => Arc::new(c.finish()),
            ColumnBuilder::Uuid(c) => Arc::new(c.finish()),
            ColumnBuilder::Timestamp(c) => Arc::new(c.finish()),
            ColumnBuilder::Date(c) => Arc::new(c.finish()),
            ColumnBuilder::Time(c) => Arc::new(c.finish()),
            ColumnBuilder::Duration(c) => Arc::new(c.finish()),
            ColumnBuilder::List(nested, offsets) => {
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
            ColumnBuilder::Map(nested, offsets) => {
                let offsets =
                    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![0])));
                let pairs = nested
                    .children
                    .iter_mut()
                    .map(ColumnBuilder::finish)
                    .collect::<Result<_, _>>()?;
                let pairs = StructArray::try_new(nested.fields.clone(), pairs, None);
                let pairs = pairs.map_err(|e| e.to_string())?;
                let of = DataType::Struct(nested.fields.clone());
                let entries = Arc::new(Field::new("entries", of, false));
                let map = MapArray::try_new(entries, offsets, pairs, nested.nulls.finish(), false);
                Arc::new(map.map_err(|e| e.to_string())?)
            }
            ColumnBuilder::Struct(nested) => {
                let parts = nested
                    .children
                    .iter_mut()
                    .map(ColumnBuilder::finish)
                    .collect::<Result<_, _>>()?;
                let len = nested.nulls.len();
                let nulls = nested.nulls.finish();
                let of = nested.fields.clone();
                let value = StructArray::try_new_with_length(of, parts, nulls, len);
                Arc::new(value.map_err(|e| e.to_string())?)
            }
            ColumnBuilder::Vector(nested, length) => {
                let values = nested.children[0].finish()?;
                let nulls = nested.nulls.finish();
                let of = nested.fields[0].clone();
                let list = FixedSizeListArray::try_new(of, *length, values, nulls);
                Arc::new(list.map_err(|e| e.to_string())?)
            }
        })
    }
}
