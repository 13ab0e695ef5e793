//! Conversions between types: exact, or an error.

use firn_cql::internals::values::{from_plain, plain};
use firn_transfer::convert::{convert, varint};
use firn_transfer::form::ByteForm;
use firn_wide::Type;
use proptest::prelude::*;

/// Converts the text of a value, and returns the text of the result.
fn converted(from: &Type, text: &str, to: &Type, lossy: bool) -> Result<String, String> {
    let bytes = from_plain(from, text).unwrap();
    convert(from, to, bytes, lossy).map(|bytes| plain(to, &bytes))
}

#[test]
fn equal_values_are_found() {
    let list = Type::List(Type::Long.into());
    let set = Type::Set(Type::Int32.into());
    for (from, text, to, wanted) in [
        (&Type::Long, "-128", &Type::Byte, "-128"),
        (&Type::Long, "2147483647", &Type::Int32, "2147483647"),
        (&Type::Int32, "7", &Type::Double, "7.0"),
        (&Type::Double, "7.0", &Type::Int32, "7"),
        (&Type::Double, "0.5", &Type::Float, "0.5"),
        (&Type::Double, "NaN", &Type::Float, "NaN"),
        (&Type::Double, "1.1", &Type::Decimal, "1.1"),
        (&Type::Decimal, "1.50", &Type::Double, "1.5"),
        (&Type::Decimal, "12.00", &Type::Short, "12"),
        (&Type::Integer, "123456789012345678901", &Type::Decimal, "123456789012345678901"),
        (&Type::Long, "1", &Type::Boolean, "true"),
        (&Type::Boolean, "true", &Type::Int32, "1"),
        (&Type::Long, "0", &Type::Timestamp, "1970-01-01 00:00:00.000Z"),
        (&Type::SimpleDate, "1969-12-31", &Type::Timestamp, "1969-12-31 00:00:00.000Z"),
        (&Type::Timestamp, "1969-12-31 00:00:00.000Z", &Type::SimpleDate, "1969-12-31"),
        (&Type::Utf8, "2020-02-29", &Type::SimpleDate, "2020-02-29"),
        (&Type::Utf8, "7", &Type::Int32, "7"),
        (&Type::Int32, "7", &Type::Utf8, "7"),
        (&Type::Bytes, "0x6162", &Type::Utf8, "ab"),
        (&Type::Utf8, "ab", &Type::Bytes, "0x6162"),
        (&list, "[3, 1]", &set, "{1, 3}"),
        (&list, "[3, 1]", &Type::Utf8, "[3, 1]"),
        (&Type::Utf8, "[3, 1]", &list, "[3, 1]"),
    ] {
        assert_eq!(converted(from, text, to, false).as_deref(), Ok(wanted), "{from:?} {to:?}");
    }
}

#[test]
fn other_values_are_refused() {
    let vector = Type::Vector(Type::Float.into(), 3);
    for (from, text, to) in [
        (&Type::Long, "128", &Type::Byte),
        (&Type::Long, "9007199254740993", &Type::Double),
        (&Type::Double, "0.1", &Type::Float),
        (&Type::Double, "7.5", &Type::Int32),
        (&Type::Double, "NaN", &Type::Decimal),
        (&Type::Decimal, "0.12345678901234567890", &Type::Double),
        (&Type::Decimal, "1.5", &Type::Int32),
        (&Type::Long, "2", &Type::Boolean),
        (&Type::Timestamp, "1969-12-31 00:00:00.001Z", &Type::SimpleDate),
        (&Type::Bytes, "0xff", &Type::Utf8),
        (&Type::Utf8, "seven", &Type::Int32),
        (&Type::Bytes, "0x00000007", &Type::Int32),
        (&Type::Utf8, "é", &Type::Ascii),
        (&Type::List(Type::Float.into()), "[1.0, 2.0]", &vector),
    ] {
        let said = converted(from, text, to, false);
        assert!(said.is_err(), "{from:?} {text} {to:?} {said:?}");
    }
    assert_eq!(converted(&Type::Double, "0.1", &Type::Float, true).as_deref(), Ok("0.1"));
    assert_eq!(converted(&Type::Double, "7.5", &Type::Int32, true).as_deref(), Ok("7"));
}

#[test]
fn forms_come_back() {
    for (form, bytes) in [
        (ByteForm::Binary, &b"\xff\0"[..]),
        (ByteForm::Utf8, "é".as_bytes()),
        (ByteForm::Hex, b"\xff\0"),
        (ByteForm::U32, &[255, 0, 0, 1]),
        (ByteForm::U64, &[0, 0, 0, 0, 255, 0, 0, 1]),
        (ByteForm::I32, &[0, 0, 0, 1]),
        (ByteForm::I64, &[0x7f, 255, 255, 255, 255, 255, 255, 255]),
    ] {
        let value = form.read(bytes).unwrap();
        assert_eq!(form.write(&form.value_type(), value).as_deref(), Ok(bytes), "{form:?}");
    }
    let long = |n: i64| n.to_be_bytes().to_vec();
    assert_eq!(ByteForm::I64.read(&[0x80, 0, 0, 0, 0, 0, 0, 1]), Ok(long(1)));
    assert!(ByteForm::U32.write(&Type::Long, long(-1)).is_err());
    assert!(ByteForm::U64.read(&[255; 8]).unwrap_err().contains("exceeds a bigint"));
    assert!(ByteForm::Utf8.read(&[255]).is_err() && ByteForm::U32.read(&[1]).is_err());
}

proptest! {
    #[test]
    fn varints_are_the_shortest(n: i128) {
        let bytes = varint(n);
        prop_assert_eq!(plain(&Type::Integer, &bytes), n.to_string());
        prop_assert_eq!(from_plain(&Type::Integer, &n.to_string()).unwrap(), bytes);
    }

    #[test]
    fn numbers_convert_and_return(n: i64) {
        for through in [Type::Integer, Type::Decimal, Type::Utf8, Type::Timestamp] {
            let there = convert(&Type::Long, &through, n.to_be_bytes().to_vec(), false).unwrap();
            let back = convert(&through, &Type::Long, there, false).unwrap();
            prop_assert_eq!(back, n.to_be_bytes());
        }
    }

    #[test]
    fn no_bytes_panic(from in 0_usize..20, to in 0_usize..20, bytes: Vec<u8>, lossy: bool) {
        let types = super::common::scalars();
        if types[from].0.validate(&bytes).is_ok() {
            let done = convert(&types[from].0, &types[to].0, bytes, lossy);
            prop_assert!(done.is_err() || types[to].0.validate(&done.unwrap()).is_ok());
        }
    }
}
