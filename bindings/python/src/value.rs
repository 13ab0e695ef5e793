//! Conversion between Python's and CQL's values, by the table of `README.md`.
//!
//! Invariant: values that were read can be bound again. A timestamp, date or time out of Python's
//! range is an integer, and a map or value of a user type that must be hashable is a tuple of
//! pairs; `of_python` accepts both.

use std::net::IpAddr;

use firn_cql::Value;
use firn_wide::Type;
use num_bigint::BigInt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    IntoPyDict, PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet,
    PyString, PyTuple,
};
use uuid::Uuid;

use crate::error::{InvalidRequest, ServerError};

/// Types of Python's standard library that values use.
struct Known {
    datetime: Py<PyAny>,
    date: Py<PyAny>,
    time: Py<PyAny>,
    delta: Py<PyAny>,
    utc: Py<PyAny>,
    epoch: Py<PyAny>,
    decimal: Py<PyAny>,
    uuid: Py<PyAny>,
    address: Py<PyAny>,
    v4: Py<PyAny>,
    v6: Py<PyAny>,
}

static KNOWN: PyOnceLock<Known> = PyOnceLock::new();

/// The day 1970-01-01 in the numbers of `date.toordinal`.
const EPOCH_DAY: i64 = 719_163;
/// The last day of Python's range, 9999-12-31; the first one is 1, 0001-01-01.
const LAST_DAY: i64 = 3_652_059;
const DAY_MILLIS: i64 = 86_400_000;
const DAY_NANOS: i64 = DAY_MILLIS * 1_000_000;

/// Reports whether the day, counted from 1970-01-01, is in Python's range.
fn known_day(day: i64) -> bool {
    (1 - EPOCH_DAY..=LAST_DAY - EPOCH_DAY).contains(&day)
}

fn known(py: Python<'_>) -> PyResult<&Known> {
    KNOWN.get_or_try_init(py, || {
        let datetime = py.import("datetime")?;
        let addresses = py.import("ipaddress")?;
        let utc = datetime.getattr("timezone")?.getattr("utc")?;
        let class = datetime.getattr("datetime")?;
        Ok(Known {
            epoch: class.call1((1970, 1, 1, 0, 0, 0, 0, &utc))?.unbind(),
            datetime: class.unbind(),
            date: datetime.getattr("date")?.unbind(),
            time: datetime.getattr("time")?.unbind(),
            delta: datetime.getattr("timedelta")?.unbind(),
            utc: utc.unbind(),
            decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
            uuid: py.import("uuid")?.getattr("UUID")?.unbind(),
            address: addresses.getattr("ip_address")?.unbind(),
            v4: addresses.getattr("IPv4Address")?.unbind(),
            v6: addresses.getattr("IPv6Address")?.unbind(),
        })
    })
}

/// Converts a value to Python; `hashable`: for an element of a set or a key.
pub fn to_python<'py>(
    py: Python<'py>,
    value: &Value,
    hashable: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let k = known(py)?;
    let all = |values: &[Value], hashable| {
        values.iter().map(|v| to_python(py, v, hashable)).collect::<PyResult<Vec<_>>>()
    };
    Ok(match value {
        Value::Null | Value::Unset | Value::Empty => py.None().into_bound(py),
        Value::Boolean(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::TinyInt(n) => n.into_pyobject(py)?.into_any(),
        Value::SmallInt(n) => n.into_pyobject(py)?.into_any(),
        Value::Int(n) => n.into_pyobject(py)?.into_any(),
        Value::BigInt(n) | Value::Counter(n) => n.into_pyobject(py)?.into_any(),
        Value::VarInt(n) => BigInt::from(n.clone()).into_pyobject(py)?.into_any(),
        Value::Decimal(text) => k.decimal.bind(py).call1((text,))?,
        Value::Float(n) => PyFloat::new(py, f64::from(*n)).into_any(),
        Value::Double(n) => PyFloat::new(py, *n).into_any(),
        Value::Text(text) | Value::Duration(text) => PyString::new(py, text).into_any(),
        Value::Blob(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Uuid(uuid) => uuid.into_pyobject(py)?.into_any(),
        Value::Inet(address) => k.address.bind(py).call1((address.to_string(),))?,
        Value::Date(days) if known_day(*days) => {
            k.date.bind(py).call_method1("fromordinal", (days + EPOCH_DAY,))?
        }
        Value::Time(nanos) if (0..DAY_NANOS).contains(nanos) => {
            let micros = nanos / 1000;
            let (second, minute) = (micros / 1_000_000, micros / 60_000_000);
            k.time.bind(py).call1((minute / 60, minute % 60, second % 60, micros % 1_000_000))?
        }
        Value::Timestamp(millis) if known_day(millis.div_euclid(DAY_MILLIS)) => {
            let since = k.delta.bind(py).call1((0, 0, 0, *millis))?;
            k.epoch.bind(py).add(since)?
        }
        Value::Date(n) | Value::Time(n) | Value::Timestamp(n) => n.into_pyobject(py)?.into_any(),
        Value::List(values) if hashable => PyTuple::new(py, all(values, true)?)?.into_any(),
        Value::List(values) => PyList::new(py, all(values, false)?)?.into_any(),
        Value::Set(values) if hashable => PyFrozenSet::new(py, all(values, true)?)?.into_any(),
        Value::Set(values) => PySet::new(py, all(values, true)?)?.into_any(),
        Value::Tuple(values) => PyTuple::new(py, all(values, hashable)?)?.into_any(),
        Value::Map(pairs) if hashable => {
            let pair = |(key, value): &(Value, Value)| {
                Ok((to_python(py, key, true)?, to_python(py, value, true)?))
            };
            PyTuple::new(py, pairs.iter().map(pair).collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Value::Map(pairs) => {
            let dict = PyDict::new(py);
            for (key, value) in pairs {
                dict.set_item(to_python(py, key, true)?, to_python(py, value, false)?)?;
            }
            dict.into_any()
        }
        Value::User(fields) if hashable => {
            let pair =
                |(name, value): &(String, Value)| Ok((name.clone(), to_python(py, value, true)?));
            PyTuple::new(py, fields.iter().map(pair).collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Value::User(fields) => {
            let dict = PyDict::new(py);
            for (name, value) in fields {
                dict.set_item(name, to_python(py, value, false)?)?;
            }
            dict.into_any()
        }
        other => {
            return Err(ServerError::new_err(format!("there is no value of Python for {other:?}")));
        }
    })
}

/// Converts a Python object to a value of this CQL type.
pub fn of_python(object: &Bound<'_, PyAny>, of: &Type) -> PyResult<Value> {
    let (py, of) = (object.py(), of.unreversed());
    let k = known(py)?;
    let is = |class: &Py<PyAny>| object.is_instance(class.bind(py));
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(b) = object.cast::<PyBool>() {
        return Ok(Value::Boolean(b.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        return match (object.extract::<i64>(), of) {
            (Ok(n), Type::Double | Type::Float) => Ok(Value::Double(n as f64)),
            (Ok(n), Type::Decimal) => Ok(Value::Decimal(n.to_string())),
            (Ok(n), Type::SimpleDate) => Ok(Value::Date(n)),
            (Ok(n), _) => Ok(Value::BigInt(n)),
            (Err(_), Type::Double | Type::Float) => {
                object.extract().map(Value::Double).map_err(|_| {
                    InvalidRequest::new_err(format!(
                        "a whole number is too great for {}",
                        of.cql_name()
                    ))
                })
            }
            (Err(_), Type::Decimal) => {
                object.extract::<BigInt>().map(|n| Value::Decimal(n.to_string()))
            }
            (Err(_), _) => object.extract::<BigInt>().map(|n| Value::VarInt(n.into())),
        };
    }
    if object.is_instance_of::<PyFloat>() {
        return object.extract().map(Value::Double);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::Text(text.to_cow()?.into_owned()));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Value::Blob(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Value::Blob(bytes.to_vec()));
    }
    if is(&k.uuid)? {
        return object.extract::<Uuid>().map(Value::Uuid);
    }
    if is(&k.decimal)? {
        return Ok(Value::Decimal(object.str()?.to_cow()?.into_owned()));
    }
    // A datetime is a date, too.
    if is(&k.datetime)? {
        let zoned = match object.getattr("tzinfo")?.is_none() {
            true => object.call_method(
                "replace",
                (),
                Some(&[("tzinfo", k.utc.bind(py))].into_py_dict(py)?),
            )?,
            false => object.clone(),
        };
        let milli = k.delta.bind(py).call1((0, 0, 0, 1))?;
        return zoned.sub(k.epoch.bind(py))?.floor_div(milli)?.extract().map(Value::Timestamp);
    }
    if is(&k.date)? {
        let days: i64 = object.call_method0("toordinal")?.extract()?;
        return Ok(Value::Date(days - EPOCH_DAY));
    }
    if is(&k.time)? {
        let part = |name: &str| object.getattr(name)?.extract::<i64>();
        let seconds = (part("hour")? * 60 + part("minute")?) * 60 + part("second")?;
        return Ok(Value::Time((seconds * 1_000_000 + part("microsecond")?) * 1000));
    }
    if is(&k.v4)? || is(&k.v6)? {
        return object.extract::<IpAddr>().map(Value::Inet);
    }
    collection(object, of)
}

/// A key or a name with its value.
type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Returns the pairs of a dict, or of a list or tuple of pairs, the form of a key that is a map or
/// of a user type.
fn pairs<'py>(object: &Bound<'py, PyAny>) -> Option<Vec<Pair<'py>>> {
    if let Ok(dict) = object.cast::<PyDict>() {
        return Some(dict.iter().collect());
    }
    let listed = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    listed.then(|| object.try_iter().ok()?.map(|pair| pair.ok()?.extract().ok()).collect())?
}

fn collection(object: &Bound<'_, PyAny>, of: &Type) -> PyResult<Value> {
    let each = |of: &Type| {
        object.try_iter()?.map(|item| of_python(&item?, of)).collect::<PyResult<Vec<_>>>()
    };
    let is_row = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    let is_set = object.is_instance_of::<PySet>() || object.is_instance_of::<PyFrozenSet>();
    match (of, pairs(object)) {
        (Type::List(e) | Type::Vector(e, _), _) if is_row => each(e).map(Value::List),
        (Type::Set(e), _) if is_row || is_set => each(e).map(Value::Set),
        (Type::Tuple(types), _) if is_row => {
            if object.len()? > types.len() {
                return Err(PyTypeError::new_err(format!(
                    "a tuple of {} where {} is wanted",
                    object.len()?,
                    of.cql_name()
                )));
            }
            let items =
                object.try_iter()?.zip(types.iter()).map(|(item, of)| of_python(&item?, of));
            items.collect::<PyResult<_>>().map(Value::Tuple)
        }
        (Type::Map(kv), Some(pairs)) => {
            let pair =
                |(key, value): Pair<'_>| Ok((of_python(&key, &kv.0)?, of_python(&value, &kv.1)?));
            pairs.into_iter().map(pair).collect::<PyResult<_>>().map(Value::Map)
        }
        (Type::Udt(user), Some(pairs)) => {
            let field = |(name, value): Pair<'_>| {
                let name: String = name.extract()?;
                let of = user.fields.iter().find(|f| f.0 == name).map_or(&Type::Bytes, |f| &f.1);
                Ok((name, of_python(&value, of)?))
            };
            pairs.into_iter().map(field).collect::<PyResult<_>>().map(Value::User)
        }
        _ => {
            let class = object.get_type().qualname()?;
            Err(PyTypeError::new_err(format!(
                "a {class} can't be bound where {} is wanted",
                of.cql_name()
            )))
        }
    }
}
