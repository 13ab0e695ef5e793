//! Conversion of Rust types to bound values, and of row values to Rust types.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;

use firn_wide::Type;
use uuid::Uuid;

use super::{BoundValue, ColumnSpec, Value, VarInt};
use crate::error::{Result, invalid};

/// A Rust type to which a column's value can be converted.
pub trait FromValue: Sized {
    /// Converts a value.
    ///
    /// # Errors
    /// `Invalid` if the value has another type, or is null and the Rust type has no null.
    fn from_value(value: Value) -> Result<Self>;
}

/// A Rust type that can be bound to a marker.
pub trait ToValue {
    /// Converts to a value.
    fn to_value(&self) -> Value;

    /// Returns the bytes of the value in this type.
    ///
    /// # Errors
    /// `Invalid` if it is not a value of the type.
    fn bound(&self, of: &Type) -> Result<BoundValue> {
        self.to_value().encode(of)
    }
}

fn wrong<T>(what: &str, value: &Value) -> Result<T> {
    Err(invalid(match value {
        Value::Null => format!("null can't be read as {what}; Option is for what may be null"),
        value => format!("{} can't be read as {what}", value.short()),
    }))
}

macro_rules! read_as {
    ($($rust:ty, $($from:pat => $read:expr),+;)+) => {$(
        impl FromValue for $rust {
            fn from_value(value: Value) -> Result<Self> {
                match value {
                    $($from => Ok($read),)+
                    other => wrong(stringify!($rust), &other),
                }
            }
        }
    )+};
}

read_as! {
    bool, Value::Boolean(b) => b;
    i8, Value::TinyInt(n) => n;
    i16, Value::SmallInt(n) => n, Value::TinyInt(n) => n.into();
    i32, Value::Int(n) => n, Value::SmallInt(n) => n.into(), Value::TinyInt(n) => n.into();
    i64, Value::BigInt(n) | Value::Counter(n) | Value::Timestamp(n) | Value::Time(n) => n, Value::Int(n) => n.into(),
        Value::SmallInt(n) => n.into(), Value::TinyInt(n) => n.into();
    f32, Value::Float(n) => n;
    f64, Value::Double(n) => n, Value::Float(n) => n.into();
    String, Value::Text(s) | Value::Decimal(s) | Value::Duration(s) => s, Value::VarInt(n) => n.to_string();
    Uuid, Value::Uuid(u) => u;
    IpAddr, Value::Inet(a) => a;
    VarInt, Value::VarInt(n) => n, Value::BigInt(n) => n.into(), Value::Int(n) => n.into();
    Vec<u8>, Value::Blob(b) => b;
}

macro_rules! bound_as {
    ($($rust:ty, $to:ident;)+) => {$(
        impl ToValue for $rust {
            fn to_value(&self) -> Value {
                Value::$to(self.clone())
            }
        }
    )+};
}

bound_as! {
    bool, Boolean;
    i8, TinyInt;
    i16, SmallInt;
    i32, Int;
    i64, BigInt;
    f32, Float;
    f64, Double;
    Uuid, Uuid;
    IpAddr, Inet;
    VarInt, VarInt;
}

#[cfg(feature = "num-bigint-04")]
impl FromValue for num_bigint::BigInt {
    fn from_value(value: Value) -> Result<Self> {
        VarInt::from_value(value).map(Self::from)
    }
}

#[cfg(feature = "num-bigint-04")]
impl ToValue for num_bigint::BigInt {
    fn to_value(&self) -> Value {
        Value::VarInt(self.clone().into())
    }
}

/// Binds a type like another type to which it dereferences.
macro_rules! bound_like {
    ($($rust:ty, $lent:ty;)+) => {$(
        impl ToValue for $rust {
            fn to_value(&self) -> Value {
                <$lent>::to_value(self)
            }

            fn bound(&self, of: &Type) -> Result<BoundValue> {
                <$lent>::bound(self, of)
            }
        }
    )+};
}

bound_like! {
    String, str;
    Vec<u8>, [u8];
}

impl FromValue for Value {
    fn from_value(value: Value) -> Result<Self> {
        Ok(value)
    }
}

impl ToValue for Value {
    fn to_value(&self) -> Value {
        self.clone()
    }
}

impl ToValue for str {
    fn to_value(&self) -> Value {
        Value::Text(self.to_owned())
    }

    fn bound(&self, of: &Type) -> Result<BoundValue> {
        // The most frequent case, copied once.
        if *of == Type::Utf8 {
            Ok(BoundValue::Bytes(self.as_bytes().to_vec()))
        } else {
            self.to_value().encode(of)
        }
    }
}

impl ToValue for [u8] {
    fn to_value(&self) -> Value {
        Value::Blob(self.to_vec())
    }

    fn bound(&self, of: &Type) -> Result<BoundValue> {
        if *of == Type::Bytes {
            Ok(BoundValue::Bytes(self.to_vec()))
        } else {
            self.to_value().encode(of)
        }
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value {
        (**self).to_value()
    }

    fn bound(&self, of: &Type) -> Result<BoundValue> {
        (**self).bound(of)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value) -> Result<Self> {
        match value {
            Value::Null => Ok(None),
            other => T::from_value(other).map(Some),
        }
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }

    fn bound(&self, of: &Type) -> Result<BoundValue> {
        self.as_ref().map_or(Ok(BoundValue::Null), |value| value.bound(of))
    }
}

fn elements<T: FromValue, C: FromIterator<T>>(what: &str, value: Value) -> Result<C> {
    match value {
        // A collection without elements is null.
        Value::Null => Ok(C::from_iter([])),
        Value::List(all) | Value::Set(all) => all.into_iter().map(T::from_value).collect(),
        other => wrong(what, &other),
    }
}

fn pairs<K: FromValue, V: FromValue, C: FromIterator<(K, V)>>(value: Value) -> Result<C> {
    match value {
        Value::Null => Ok(C::from_iter([])),
        Value::Map(all) => {
            all.into_iter().map(|(k, v)| Ok((K::from_value(k)?, V::from_value(v)?))).collect()
        }
        other => wrong("a map", &other),
    }
}

macro_rules! lists {
    ($($rust:ty),+) => {$(
        impl FromValue for Vec<$rust> {
            fn from_value(value: Value) -> Result<Self> {
                elements("a list", value)
            }
        }

        impl ToValue for Vec<$rust> {
            fn to_value(&self) -> Value {
                Value::List(self.iter().map(ToValue::to_value).collect())
            }
        }
    )+};
}

// Not for every type: a Vec<u8> is a blob.
lists!(
    bool,
    i8,
    i16,
    i32,
    i64,
    f32,
    f64,
    String,
    &'static str,
    Uuid,
    IpAddr,
    VarInt,
    Vec<u8>,
    Value
);

impl FromValue for &'static str {
    fn from_value(value: Value) -> Result<Self> {
        wrong("a text that lives for ever; read a String", &value)
    }
}

/// Converts collections of the standard library, which are encoded in the order of CQL.
macro_rules! collections {
    ($($set:ident, $map:ident, $($bound:ident)+;)+) => {$(
        impl<T: FromValue + $($bound +)+> FromValue for $set<T> {
            fn from_value(value: Value) -> Result<Self> {
                elements("a set", value)
            }
        }

        impl<T: ToValue> ToValue for $set<T> {
            #[allow(clippy::disallowed_methods, reason = "its bytes are put in order")]
            fn to_value(&self) -> Value {
                Value::Set(self.iter().map(ToValue::to_value).collect())
            }
        }

        impl<K: FromValue + $($bound +)+, V: FromValue> FromValue for $map<K, V> {
            fn from_value(value: Value) -> Result<Self> {
                pairs(value)
            }
        }

        impl<K: ToValue, V: ToValue> ToValue for $map<K, V> {
            #[allow(clippy::disallowed_methods, reason = "its bytes are put in order")]
            fn to_value(&self) -> Value {
                Value::Map(self.iter().map(|(k, v)| (k.to_value(), v.to_value())).collect())
            }
        }
    )+};
}

collections! {
    HashSet, HashMap, Eq Hash;
    BTreeSet, BTreeMap, Ord;
}

/// Values for the markers of a statement: a tuple in their order, a slice of [`Value`], or
/// [`Named`].
pub trait Values {
    /// Returns one value for each marker.
    ///
    /// # Errors
    /// `Invalid` if there are too many or too few values; the message has both numbers and the
    /// markers. `Invalid` for a value that a marker does not accept; the message has the marker's
    /// number, name and type.
    fn bind(&self, markers: &[ColumnSpec]) -> Result<Vec<BoundValue>>;

    /// Like [`bind`](Values::bind), but consumes the values.
    ///
    /// # Errors
    /// Those of [`bind`](Values::bind).
    fn into_bound(self, markers: &[ColumnSpec]) -> Result<Vec<BoundValue>>
    where
        Self: Sized,
    {
        self.bind(markers)
    }
}

fn in_order(values: &[&dyn ToValue], markers: &[ColumnSpec]) -> Result<Vec<BoundValue>> {
    check_amount(values.len(), markers)?;
    let mut bound = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        bound.push(bind_one(*value, at, markers)?);
    }
    Ok(bound)
}

/// Checks that there are as many values as markers.
pub(crate) fn check_amount(came: usize, markers: &[ColumnSpec]) -> Result<()> {
    if came == markers.len() {
        return Ok(());
    }
    let wanted = match markers {
        [] => "there are no bind markers".to_owned(),
        [one] => format!("1 is wanted, {}", named(one)),
        some => format!("{} are wanted, {}", some.len(), all_named(some)),
    };
    Err(invalid("Invalid amount of bind variables").with_help(format!("{wanted}, and {came} came")))
}

/// Maximum number of markers that an error lists.
const NAMED: usize = 12;

fn all_named(markers: &[ColumnSpec]) -> String {
    let shown: Vec<_> = markers.iter().take(NAMED).map(named).collect();
    shown.join(", ") + if markers.len() > NAMED { ", …" } else { "" }
}

fn named(marker: &ColumnSpec) -> String {
    format!("{} {}", marker.name, marker.column_type)
}

fn bind_one(value: &dyn ToValue, at: usize, markers: &[ColumnSpec]) -> Result<BoundValue> {
    let marker = &markers[at];
    value
        .bound(&marker.column_type.value_type)
        .map_err(|e| invalid!("bind marker {}, {}: {e}", at + 1, named(marker)))
}

impl Values for [Value] {
    fn bind(&self, markers: &[ColumnSpec]) -> Result<Vec<BoundValue>> {
        in_order(&self.iter().map(|v| v as &dyn ToValue).collect::<Vec<_>>(), markers)
    }
}

impl Values for Vec<Value> {
    fn bind(&self, markers: &[ColumnSpec]) -> Result<Vec<BoundValue>> {
        self[..].bind(markers)
    }
}

impl<T: Values + ?Sized> Values for &T {
    fn bind(&self, markers: &[ColumnSpec]) -> Result<Vec<BoundValue>> {
        (**self).bind(markers)
    }
}

/// Encoded values, as a client sends them.
impl Values for [BoundValue] {
    fn bind(&self, markers: &[ColumnSpec]) -> Result<Vec<BoundValue>> {
        check_amount(self.len(), markers)?;
        Ok(self.to_vec())
    }
}

impl Values for Vec<BoundValue> {
    fn bind(&self, markers: &[ColumnSpec]) -> Result<Vec<BoundValue>> {
        self[..].bind(markers)
    }

    fn into_bound(self, markers: &[ColumnSpec]) -> Result<Vec<BoundValue>> {
        check_amount(self.len(), markers)?;
        Ok(self)
    }
}

/// Values by marker name. Markers without a value are unset.
pub struct Named<'a>(pub &'a [(&'a str, &'a dyn ToValue)]);

impl std::fmt::Debug for Named<'_> {
    // Only names, because values may be confidential.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Values for Named<'_> {
    fn bind(&self, markers: &[ColumnSpec]) -> Result<Vec<BoundValue>> {
        if let Some((unknown, _)) =
            self.0.iter().find(|(n, _)| !markers.iter().any(|m| m.name == *n))
        {
            let there = if markers.is_empty() { "none".to_owned() } else { all_named(markers) };
            return Err(invalid!("there is no bind marker :{unknown}")
                .with_help(format!("there are {there}")));
        }
        let each = |(at, marker): (usize, &ColumnSpec)| match self
            .0
            .iter()
            .find(|(n, _)| *n == marker.name)
        {
            Some((_, value)) => bind_one(*value, at, markers),
            None => Ok(BoundValue::Unset),
        };
        markers.iter().enumerate().map(each).collect()
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: ToValue),*> Values for ($($name,)*) {
            #[allow(non_snake_case)]
            fn bind(&self, markers: &[ColumnSpec]) -> Result<Vec<BoundValue>> {
                let ($($name,)*) = self;
                in_order(&[$($name as &dyn ToValue),*], markers)
            }
        }
        tuples!(@shorter $($name)*);
    };
    (@shorter) => {};
    (@shorter $first:ident $($name:ident)*) => {
        tuples!($($name)*);
    };
}

tuples!(A B C D E F G H I J K L);

macro_rules! tuple_values {
    ($($name:ident $index:tt),+) => {
        impl<$($name: FromValue),+> FromValue for ($($name,)+) {
            fn from_value(value: Value) -> Result<Self> {
                match value {
                    Value::Tuple(parts) => {
                        let mut parts = parts.into_iter();
                        Ok(($($name::from_value(parts.next().unwrap_or(Value::Null))?,)+))
                    }
                    other => wrong("a tuple", &other),
                }
            }
        }

        impl<$($name: ToValue),+> ToValue for ($($name,)+) {
            fn to_value(&self) -> Value {
                Value::Tuple(vec![$(self.$index.to_value()),+])
            }
        }
    };
}

tuple_values!(A 0);
tuple_values!(A 0, B 1);
tuple_values!(A 0, B 1, C 2);
tuple_values!(A 0, B 1, C 2, D 3);
