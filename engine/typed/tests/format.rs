//! Golden bytes of the format, which never change, and errors of decoding.

use std::borrow::Cow;
use std::fmt::Debug;

use firn_typed::{AsKey, AsValue, Buffer, DecodeError, Key, KeyPrefix, Value};

/// Checks the bytes of a key as a whole and as a part, and that they decode to it.
fn golden<K: Key + PartialEq + Debug>(key: K, whole: &str, part: &str) {
    let (mut buffer, mut part_buffer) = (Buffer::new(), Buffer::new());
    let bytes = key.encode(&mut buffer);
    assert_eq!(hex(bytes), whole, "{key:?}");
    assert_eq!(K::decode(bytes).as_ref(), Ok(&key));
    key.write_part(&mut part_buffer);
    assert_eq!(hex(&part_buffer), part, "{key:?} as a part");
    let mut value = Buffer::new();
    assert_eq!(hex(key.encode_value(&mut value).unwrap()), whole, "{key:?} as a value");
}

fn both<K: Key + PartialEq + Debug>(key: K, bytes: &str) {
    golden(key, bytes, bytes);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn numbers_have_these_bytes() {
    both(0u8, "00");
    both(0x1234u16, "1234");
    both(7u32, "00000007");
    both(u64::MAX, "ffffffffffffffff");
    both(1u128 << 64, "00000000000000010000000000000000");
    both(i8::MIN, "00");
    both(-1i16, "7fff");
    both(0i32, "80000000");
    both(-2i64, "7ffffffffffffffe");
    both(5i64, "8000000000000005");
    both(i128::MAX, "ffffffffffffffffffffffffffffffff");
    both(1.0f32, "bf800000");
    both(-1.0f32, "407fffff");
    both(0.0f64, "8000000000000000");
    both(-0.0f64, "7fffffffffffffff");
    both(f64::INFINITY, "fff0000000000000");
    both(f64::NEG_INFINITY, "000fffffffffffff");
    both(false, "00");
    both(true, "01");
    both('ä', "000000e4");
    both([1u8, 0, 255], "0100ff");
}

#[test]
fn strings_have_these_bytes() {
    golden(String::new(), "", "0000");
    golden("ä\0b".to_owned(), "c3a40062", "c3a400ff620000");
    golden(vec![0u8, 0, 255], "0000ff", "00ff00ffff0000");
}

#[test]
fn composed_keys_have_these_bytes() {
    both(None::<u8>, "00");
    both(Some(5u8), "0105");
    both(Some("a".to_owned()), "01610000");
    both((7u8,), "07");
    both(("a".to_owned(), 1u16), "6100000001");
    both((1u8, "a".to_owned()), "01610000");
    both((("a".to_owned(), -1i8), Some(true), vec![0u8]), "6100007f010100ff0000");
    both((1u8, 2u8, 3u8, 4u8, 5u8, 6u8), "010203040506");
}

#[test]
fn prefixes_have_these_bytes() {
    fn prefix<K>(prefix: &(impl KeyPrefix<K> + ?Sized)) -> String {
        let mut out = Buffer::new();
        prefix.write_prefix(&mut out);
        hex(&out)
    }
    assert_eq!(prefix::<(String, u8, u8)>(&("a",)), "610000");
    assert_eq!(prefix::<(String, u8, u8)>(&("a", 3)), "61000003");
    assert_eq!(prefix::<String>("ab"), "6162");
    assert_eq!(prefix::<Vec<u8>>(&[0, 1]), "0001");
}

#[test]
fn borrowed_forms_have_the_same_bytes() {
    fn of<K>(key: impl AsKey<K>) -> String {
        hex(key.encode(&mut Buffer::new()))
    }
    assert_eq!(of::<String>("a\0"), of::<String>("a\0".to_owned()));
    assert_eq!(of::<String>(Cow::from("a\0")), "6100");
    assert_eq!(of::<Vec<u8>>(&[97, 0]), of::<Vec<u8>>(vec![97, 0]));
    assert_eq!(of::<Vec<u8>>(b"a\0".as_slice()), of::<Vec<u8>>(Cow::from(b"a\0".as_slice())));
    let parts = ("a\0", b"b", Some("c"), 1);
    let owned = ("a\0".to_owned(), b"b".to_vec(), Some("c".to_owned()), 1u8);
    type Parts = (String, Vec<u8>, Option<String>, u8);
    assert_eq!(of::<Parts>(parts), of::<Parts>(&owned));
}

#[test]
fn views_borrow_unless_a_zero_byte_is_escaped() {
    let mut out = Buffer::new();
    ("plain", "ze\0ro").write_part(&mut out);
    let (plain, zero) = <(String, String)>::view(&out).unwrap();
    assert!(matches!(plain, Cow::Borrowed("plain")), "{plain:?}");
    assert!(matches!(&zero, Cow::Owned(zero) if zero == "ze\0ro"), "{zero:?}");
    assert!(matches!(String::view(b"ze\0ro"), Ok(Cow::Borrowed("ze\0ro"))));
}

#[test]
fn errors_state_type_and_offset() {
    fn error<K: Key + Debug>(bytes: &[u8]) -> String {
        let e: DecodeError = K::decode(bytes).unwrap_err();
        assert!(e.offset() <= bytes.len(), "{e}");
        format!("{} {}, {e}", e.offset(), e.type_name())
    }
    assert_eq!(error::<u32>(&[1, 2]), "0 u32, cannot decode u32 at offset 0: the bytes end");
    assert_eq!(
        error::<(u8, bool)>(&[0, 9]),
        "1 bool, cannot decode bool at offset 1: the byte is neither 0 nor 1"
    );
    assert_eq!(
        error::<u8>(&[0, 9]),
        "1 u8, cannot decode u8 at offset 1: bytes remain after the end"
    );
    assert_eq!(
        error::<char>(&[0, 0, 0xd8, 0]),
        "0 char, cannot decode char at offset 0: no character has this number"
    );
    assert_eq!(
        error::<Option<u8>>(&[2]),
        "0 Option, cannot decode Option at offset 0: the byte is neither 0 nor 1"
    );
    let part = "cannot decode String at offset";
    assert_eq!(
        error::<(u8, String)>(b"\x01ab"),
        format!("3 String, {part} 3: the string has no end")
    );
    assert_eq!(error::<(String,)>(b"a\0"), format!("2 String, {part} 2: the string has no end"));
    assert_eq!(
        error::<(String,)>(b"a\0b"),
        format!("2 String, {part} 2: the escape is neither 00 nor FF")
    );
    assert_eq!(
        error::<(u8, String)>(b"\x01a\xff\0\0"),
        format!("2 String, {part} 2: the bytes are not UTF-8")
    );
    assert!(<()>::view_value(b"x").is_err());
}
