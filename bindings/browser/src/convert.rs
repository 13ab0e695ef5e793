//! Bytes and values of CQL as values of JavaScript, with the types of Firn for Node.js.

use firn_cql::Value;
use firn_packed::{put_bytes, put_len};
use js_sys::{Array, BigInt, Date, Map, Object, Reflect, Set, Uint8Array};
use wasm_bindgen::prelude::*;

use crate::errors::{JsOutcome, wrong_type};

const MILLIS_OF_DAY: f64 = 86_400_000.0;
/// Days of the years 0 and 9999, counted from 1970-01-01: outside, a date is a number.
const DAYS: std::ops::RangeInclusive<i64> = -719_528..=2_932_896;
/// Milliseconds that a `Date` can have on each side of 1970.
const MAX_MILLIS: i64 = 8_640_000_000_000_000;
const NANOS_OF_SECOND: i64 = 1_000_000_000;
/// Maximum depth of a bound value, so that a cyclic object is refused.
const MAX_DEPTH: usize = 64;

/// Returns the bytes of a key or value: a `Uint8Array`, or a string for its UTF-8 bytes.
pub(crate) fn bytes(given: &JsValue, what: &str) -> JsOutcome<Vec<u8>> {
    if let Some(array) = given.dyn_ref::<Uint8Array>() {
        return Ok(array.to_vec());
    }
    let text = given.as_string().map(String::into_bytes);
    text.ok_or_else(|| wrong_type(&format!("a {what} must be a string or a Uint8Array")))
}

/// Parses JSON that this crate has written.
pub(crate) fn json(value: &serde_json::Value) -> JsOutcome<JsValue> {
    js_sys::JSON::parse(&value.to_string())
}

/// Sets a field of a new object, whatever its name.
fn set_field(object: &Object, name: &str, value: &JsValue) -> JsOutcome<()> {
    if name != "__proto__" {
        Reflect::set(object, &name.into(), value)?;
        return Ok(());
    }
    let descriptor = Object::new();
    for (field, value) in [
        ("value", value),
        ("enumerable", &JsValue::TRUE),
        ("configurable", &JsValue::TRUE),
        ("writable", &JsValue::TRUE),
    ] {
        Reflect::set(&descriptor, &field.into(), value)?;
    }
    Object::define_property(object, &name.into(), &descriptor);
    Ok(())
}

/// Creates an object with these fields.
pub(crate) fn object(fields: &[(&str, JsValue)]) -> JsOutcome<JsValue> {
    let object = Object::new();
    fields.iter().try_for_each(|(name, value)| set_field(&object, name, value))?;
    Ok(object.into())
}

fn array(values: &[Value]) -> JsOutcome<Array> {
    values.iter().map(value).collect()
}

/// Converts a value that was read.
pub(crate) fn value(value: &Value) -> JsOutcome<JsValue> {
    let number = |n: i32| JsValue::from(n);
    Ok(match value {
        Value::Null | Value::Unset | Value::Empty => JsValue::NULL,
        Value::Boolean(b) => (*b).into(),
        Value::TinyInt(n) => number(i32::from(*n)),
        Value::SmallInt(n) => number(i32::from(*n)),
        Value::Int(n) => number(*n),
        Value::BigInt(n) | Value::Counter(n) => BigInt::from(*n).into(),
        Value::VarInt(n) => BigInt::new(&n.to_string().into()).map(JsValue::from)?,
        Value::Float(n) => f64::from(*n).into(),
        Value::Double(n) => (*n).into(),
        Value::Decimal(text) | Value::Text(text) | Value::Duration(text) => (&**text).into(),
        Value::Blob(blob) => Uint8Array::from(&blob[..]).into(),
        Value::Uuid(uuid) => uuid.to_string().into(),
        Value::Inet(address) => address.to_string().into(),
        Value::Date(days) if DAYS.contains(days) => {
            let text = String::from(date(*days as f64 * MILLIS_OF_DAY).to_iso_string());
            text.split('T').next().unwrap_or_default().into()
        }
        Value::Date(days) => (*days as f64).into(),
        Value::Time(nanos) => time(*nanos).into(),
        Value::Timestamp(millis) if (-MAX_MILLIS..=MAX_MILLIS).contains(millis) => {
            date(*millis as f64).into()
        }
        Value::Timestamp(millis) => BigInt::from(*millis).into(),
        Value::List(values) | Value::Tuple(values) => array(values)?.into(),
        Value::Set(values) => Set::new(&array(values)?.into()).into(),
        Value::Map(pairs) => {
            let map = Map::new();
            for (key, of) in pairs {
                map.set(&self::value(key)?, &self::value(of)?);
            }
            map.into()
        }
        Value::User(fields) => {
            let object = Object::new();
            for (name, of) in fields {
                set_field(&object, name, &self::value(of)?)?;
            }
            object.into()
        }
        // Newer kinds of values in their text form for errors, so that a reader sees one.
        other => format!("{other:?}").into(),
    })
}

fn date(millis: f64) -> Date {
    Date::new(&millis.into())
}

/// Formats a time of day, as `01:02:03.000000004`.
fn time(nanos: i64) -> String {
    let (seconds, fraction) = (nanos / NANOS_OF_SECOND, nanos % NANOS_OF_SECOND);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{fraction:09}", seconds % 60)
}

/// Packs the parameters of a statement (`bindings/packed`): an array in order, or an object by name.
pub(crate) fn parameters(given: &JsValue) -> JsOutcome<Vec<u8>> {
    let mut out = vec![];
    if given.is_undefined() || given.is_null() {
        return Ok(out);
    }
    if let Some(values) = given.dyn_ref::<Array>() {
        out.push(0);
        put_all(&mut out, values, MAX_DEPTH)?;
    } else if given.is_object() {
        out.push(1);
        put_fields(&mut out, given, MAX_DEPTH)?;
    } else {
        return Err(wrong_type("parameters are an array, or an object with their names"));
    }
    Ok(out)
}

fn put_all(out: &mut Vec<u8>, values: &Array, depth: usize) -> JsOutcome<()> {
    put_len(out, values.length() as usize);
    values.iter().try_for_each(|value| put_value(out, &value, depth))
}

fn put_fields(out: &mut Vec<u8>, object: &JsValue, depth: usize) -> JsOutcome<()> {
    let fields = Object::entries(&Object::from(object.clone()));
    put_len(out, fields.length() as usize);
    for field in fields.iter() {
        let field = Array::from(&field);
        put_bytes(out, field.get(0).as_string().unwrap_or_default().as_bytes());
        put_value(out, &field.get(1), depth)?;
    }
    Ok(())
}

fn put_value(out: &mut Vec<u8>, value: &JsValue, depth: usize) -> JsOutcome<()> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(wrong_type("a bound value is nested too deeply"));
    };
    if value.is_null() {
        out.push(0);
    } else if value.is_undefined() {
        out.push(1);
    } else if let Some(b) = value.as_bool() {
        out.push(3 + u8::from(b));
    } else if let Some(n) = value.as_f64() {
        out.push(10);
        out.extend_from_slice(&n.to_le_bytes());
    } else if let Some(n) = value.dyn_ref::<BigInt>() {
        let text = String::from(n.to_string(10)?);
        let n: firn_cql::VarInt = text.parse().map_err(|_| wrong_type("a bigint is too large"))?;
        out.push(7);
        put_bytes(out, &n.to_signed_bytes_be());
    } else if let Some(text) = value.as_string() {
        out.push(11);
        put_bytes(out, text.as_bytes());
    } else if let Some(bytes) = value.dyn_ref::<Uint8Array>() {
        out.push(12);
        put_bytes(out, &bytes.to_vec());
    } else if let Some(date) = value.dyn_ref::<Date>() {
        let millis = date.get_time();
        if millis.is_nan() {
            return Err(wrong_type("an invalid Date can't be bound"));
        }
        out.push(17);
        out.extend_from_slice(&(millis as i64).to_le_bytes());
    } else if let Some(values) = value.dyn_ref::<Array>() {
        out.push(19);
        put_all(out, values, depth)?;
    } else if value.is_instance_of::<Set>() {
        out.push(20);
        put_all(out, &Array::from(value), depth)?;
    } else if value.is_instance_of::<Map>() {
        let pairs = Array::from(value);
        out.push(21);
        put_len(out, pairs.length() as usize);
        for pair in pairs.iter() {
            Array::from(&pair).iter().try_for_each(|part| put_value(out, &part, depth))?;
        }
    } else if value.is_object() {
        out.push(23);
        put_fields(out, value, depth)?;
    } else {
        return Err(wrong_type("a symbol or function can't be bound"));
    }
    Ok(())
}
