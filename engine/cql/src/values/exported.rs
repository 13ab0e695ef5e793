//! JSON of values in files, as the shell's `--json` prints it.
//!
//! Invariant: [`from_exported_json`] restores the bytes of a value from the output of
//! [`exported_json`], with the same exception as for [`plain`].

use firn_wide::Type;
use serde_json::value::RawValue;

use super::json::{JsonForm, json, read, write};
use super::literal::hex;
use super::{BoundValue, from_plain, plain};
use crate::error::Result;

const EXPORT: JsonForm =
    JsonForm { write: lost, read: Some(|of, text| from_plain(of, text).ok()), keeps_quotes: true };

/// Returns the export form of a value that Cassandra's JSON cannot represent. It is [`plain`]: as a
/// number if it is one and is read back, else quoted.
fn lost(of: &Type, bytes: &[u8]) -> Option<String> {
    let quoted = |text: &str| json(&Type::Utf8, Some(text.as_bytes()));
    match of {
        Type::Utf8 | Type::Ascii | Type::Bytes => return None,
        // In Cassandra's JSON it would become a value of nulls.
        Type::Tuple(_) | Type::Udt(_) if bytes.is_empty() => return Some(quoted(&hex(bytes))),
        _ if of.has_parts() => return None,
        _ => {}
    }
    let is_read_back = |text: &str| {
        let value = serde_json::from_str::<&RawValue>(text).ok();
        let read = value.and_then(|value| from_exported_json(of, value).ok());
        read.as_ref().and_then(BoundValue::bytes) == Some(bytes)
    };
    if is_read_back(&json(of, Some(bytes))) {
        return None;
    }
    let text = plain(of, bytes);
    Some(if is_read_back(&text) { text } else { quoted(&text) })
}

/// Returns the JSON of a value; `null` for none. It differs from [`json`] only where that loses
/// information.
pub fn exported_json(of: &Type, bytes: Option<&[u8]>) -> String {
    write(of, bytes, &EXPORT)
}

/// Parses the output of [`exported_json`]. Like [`from_json`](super::from_json), but a string or a
/// key may also be in the form of [`from_plain`].
///
/// # Errors
/// Those of `from_json`.
pub fn from_exported_json(of: &Type, value: &RawValue) -> Result<BoundValue> {
    read(of, value, &EXPORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::value::bytes_of_text;
    use crate::values::{put_many, put_tuple};
    use firn_wide::internals::types::ForeignType;
    use firn_wide::{Custom, UserType};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Returns the scalar types, each with values at the ends of its range, and with values whose
    /// usual text means another value or none.
    fn scalars() -> Vec<(Type, Vec<Vec<u8>>)> {
        let int = |n: &[i64], len: usize| -> Vec<Vec<u8>> {
            n.iter().map(|n| n.to_be_bytes()[8 - len..].to_vec()).collect()
        };
        let hex = |texts: &[&str]| -> Vec<Vec<u8>> {
            let bytes = texts.iter().map(|t| bytes_of_text(&Type::Bytes, t));
            bytes.map(Result::unwrap).collect()
        };
        let texts = |texts: &[&str]| -> Vec<Vec<u8>> {
            texts.iter().map(|t| t.as_bytes().to_vec()).collect()
        };
        let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        let empty = || vec![vec![]];
        // Years -291 million, -1000000, -10000, -9999, -1, 0, 1, 9999, 10000, 1000000 and so on.
        let moments = [
            &ends[..],
            &[-31_619_087_596_800_000, -377_736_739_200_000, -377_705_116_800_001],
            &[-62_198_755_200_000, -62_167_219_200_001, -62_167_219_200_000],
            &[-62_135_596_800_001, -62_135_596_800_000, 253_402_300_799_999, 253_402_300_800_000],
            &[31_494_784_780_800_000, 315_569_520_000_000_000, -315_600_000_000_000_000],
        ]
        .concat();
        let days = [0, 1, 1 << 31, (1 << 31) - 719_529, (1 << 31) + 2_932_897, (1 << 32) - 1];
        let floats = ["7fc00000", "7fc00001", "ffc00000", "7f800000", "ff800000", "00000000"];
        let more = ["80000000", "00000001", "7f7fffff", "ff7fffff", "00800000"];
        let doubles = ["7ff8000000000000", "fff8000000000001", "7ff0000000000000"];
        let more_doubles = ["fff0000000000000", "8000000000000000", "0000000000000001"];
        let uuids = ["550e8400e29b41d4a716446655440000", "00000000000000000000000000000000"];
        let timeuuids = ["00000000000010000000000000000000", "ffffffffffff1fffffffffffffffffff"];
        let strange = ["", "it's", "null", "0x00", "0xzz", "\\N", "NaN", "[1]", "\"", "'", "a, b"];
        let utf8 = ["\0\u{1f}\u{7f}\u{2028}", "é🙂", "\r\n\t", "{\"a\": 1}", " x ", "now"];
        let foreign = Custom(Arc::new(ForeignType("org.example.Else".into())));
        let pair: Arc<[Type]> = [Type::Utf8, Type::Duration].into();
        vec![
            (Type::Bytes, hex(&["", "00", "ff", "0a0d"])),
            (Type::Ascii, texts(&strange)),
            (Type::Utf8, [texts(&strange), texts(&utf8)].concat()),
            (Type::Long, [int(&ends, 8), empty()].concat()),
            (Type::Int32, [int(&[i32::MIN.into(), -1, 0, i32::MAX.into()], 4), empty()].concat()),
            (Type::Short, int(&[i16::MIN.into(), -1, 0, i16::MAX.into()], 2)),
            (Type::Byte, int(&[i8::MIN.into(), -1, 0, i8::MAX.into()], 1)),
            (Type::Counter, int(&ends, 8)),
            (
                Type::Integer,
                [int(&ends, 8), hex(&["", "00", "0001", "ff", "7f80", "ffff"])].concat(),
            ),
            (Type::Integer, vec![vec![0x7f; 40], vec![0x80; 40]]),
            (Type::Timestamp, [int(&moments, 8), empty()].concat()),
            (Type::Date, int(&moments, 8)),
            (Type::SimpleDate, int(&days, 4)),
            (Type::Time, int(&[0, 1, 86_399_999_999_999, 86_400_000_000_000, -1, i64::MIN], 8)),
            (Type::Boolean, hex(&["", "00", "01", "02", "ff"])),
            (Type::Float, [hex(&floats), hex(&more), empty()].concat()),
            (Type::Double, [hex(&doubles), hex(&more_doubles), empty()].concat()),
            (
                // With the largest and the smallest scale, and an empty value.
                Type::Decimal,
                hex(&["", "00000000", "0000000000", "00000003ff", "7fffffff01", "800000000c"]),
            ),
            (Type::Decimal, hex(&["80000001000c", "7fffffff80", "fffffffd01", "000000020000"])),
            (Type::Uuid, [hex(&uuids), hex(&timeuuids), empty()].concat()),
            (Type::LexicalUuid, hex(&uuids)),
            (Type::TimeUuid, [hex(&timeuuids), empty()].concat()),
            (
                Type::Inet,
                [hex(&["", "00000000", "7f000001"]), vec![vec![0; 16], vec![255; 16]]].concat(),
            ),
            (
                Type::Inet,
                hex(&["00000000000000000000ffff01020304", "20010db8000000000000000000000001"]),
            ),
            (
                // Zero; then months, days and nanoseconds at both ends.
                Type::Duration,
                hex(&[
                    "000000",
                    "f0fffffffef0fffffffefffffffffffffffffe",
                    "f0fffffffff0ffffffffffffffffffffffffff",
                    "020406",
                    "01030500",
                    "80000000",
                ]),
            ),
            (Type::Empty, empty()),
            (Type::Custom(foreign), hex(&["", "00", "ff00"])),
            (Type::Composite(pair), hex(&["", "00013a00000300000000", "00043078666600"])),
        ]
    }

    /// Returns a value alone, and as each kind of part.
    fn wrapped(of: &Type, bytes: &[u8]) -> Vec<(Type, Vec<u8>)> {
        let part = || Some(bytes.to_vec());
        let udt = Type::Udt(Arc::new(UserType {
            keyspace: "ks".into(),
            name: "u".into(),
            fields: ["a", "A", "\"a\"", "it's null"].map(|n| (n.into(), of.clone())).into(),
        }));
        let list = Type::List(of.clone().into());
        let tuple = Type::Tuple([of.clone(), Type::Int32, list.clone()].into());
        let listed = put_many(&list, vec![part(), part()]).unwrap();
        let tupled = put_tuple(&[part(), None, Some(listed.clone())]).unwrap();
        let map = Type::Map((of.clone(), of.clone()).into());
        let by_tuple = Type::Map((tuple.clone(), Type::Set(of.clone().into())).into());
        let set = put_many(&Type::Set(of.clone().into()), vec![part()]).unwrap();
        let mut all = vec![
            (of.clone(), bytes.to_vec()),
            (Type::Reversed(of.clone().into()), bytes.to_vec()),
            (Type::Set(of.clone().into()), set.clone()),
            (map.clone(), put_many(&map, vec![part(), part()]).unwrap()),
            (by_tuple.clone(), put_many(&by_tuple, vec![Some(tupled.clone()), Some(set)]).unwrap()),
            (list, listed),
            (tuple.clone(), tupled),
            (tuple.clone(), vec![]),
            (udt.clone(), put_tuple(&[part(), None, part(), part()]).unwrap()),
            (udt, vec![]),
        ];
        let vector = Type::Vector(of.clone().into(), 2);
        let vectored = put_many(&vector, vec![part(), part()]).unwrap();
        // Vectors of empty parts, and of empty values of a fixed length, are invalid.
        if vector.validate(&vectored).is_ok() {
            all.push((vector, vectored));
        }
        all
    }

    fn comes_back(of: &Type, bytes: &[u8]) {
        for (of, bytes) in wrapped(of, bytes) {
            let text = plain(&of, &bytes);
            let read = from_plain(&of, &text).unwrap_or_else(|e| panic!("{of:?} {text}: {e}"));
            assert_eq!(read, bytes, "{of:?} {text}");
            let text = exported_json(&of, Some(&bytes));
            let value: &RawValue =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{of:?} {text}: {e}"));
            let read = from_exported_json(&of, value);
            let read = read.unwrap_or_else(|e| panic!("{of:?} {text}: {e}"));
            assert_eq!(read, BoundValue::Bytes(bytes), "{of:?} {text}");
        }
    }

    #[test]
    fn both_ends_of_every_type_come_back() {
        for (of, values) in scalars() {
            for bytes in values {
                of.validate(&bytes).unwrap_or_else(|e| panic!("{of:?} {bytes:?}: {}", e.0));
                comes_back(&of, &bytes);
            }
        }
    }

    proptest! {
        #[test]
        fn any_value_of_any_type_comes_back(
            len in prop::sample::select(vec![1usize, 2, 3, 4, 5, 8, 16, 20]),
            random: [u8; 20],
            text: String,
        ) {
            for (of, _) in scalars() {
                let bytes = if matches!(of, Type::Utf8 | Type::Ascii) { text.as_bytes() } else { &random[..len] };
                if of.validate(bytes).is_ok() {
                    comes_back(&of, bytes);
                }
            }
        }
    }

    #[test]
    fn what_servers_write_otherwise_is_written_as_it_is_read() {
        let millis = |n: i64| n.to_be_bytes().to_vec();
        for (of, bytes, text, json) in [
            (Type::Timestamp, millis(-62_198_755_200_000), "-62198755200000", "-62198755200000"),
            (
                Type::Timestamp,
                millis(-62_135_596_800_000),
                "0001-01-01 00:00:00.000Z",
                "\"0001-01-01 00:00:00.000Z\"",
            ),
            (Type::SimpleDate, vec![255; 4], "5881580-07-11", "\"5881580-07-11\""),
            (Type::Duration, vec![0; 3], "0s", "\"0s\""),
            (Type::Float, vec![0x7f, 0xc0, 0, 0], "NaN", "\"NaN\""),
            (Type::Float, vec![0x7f, 0xc0, 0, 1], "0x7fc00001", "\"0x7fc00001\""),
            (Type::Int32, vec![], "0x", "\"\""),
            (
                Type::List(Type::Duration.into()),
                vec![0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0],
                "[0s]",
                "[\"0s\"]",
            ),
        ] {
            assert_eq!(plain(&of, &bytes), text);
            assert_eq!(exported_json(&of, Some(&bytes)), json);
        }
        // A field was added to the type.
        let pair = Type::Tuple([Type::Boolean, Type::Boolean].into());
        let short = [0, 0, 0, 1, 1];
        assert_eq!(plain(&pair, &short), "(true, null)");
        assert_eq!(exported_json(&pair, Some(&short)), "[true, null]");
    }
}
