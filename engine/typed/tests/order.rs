//! Random keys: the order of encodings is the order of values, decoding returns the value, and
//! arbitrary bytes never panic.

use std::cmp::Ordering;
use std::fmt::Debug;

use firn_testkit::effort::times_effort;
use firn_typed::{Buffer, Key, KeyPrefix};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};

use crate::derive::{Event, Reading};

fn bytes<K: Key>(key: &K) -> Vec<u8> {
    key.encode(&mut Buffer::new()).to_vec()
}

fn part<K: Key>(key: &K) -> Vec<u8> {
    let mut out = Buffer::new();
    key.write_part(&mut out);
    out.to_vec()
}

/// Checks two keys whose order is `order`.
fn check<K: Key + Debug>(a: &K, b: &K, order: Ordering) -> TestCaseResult {
    prop_assert_eq!(bytes(a).cmp(&bytes(b)), order);
    prop_assert_eq!(part(a).cmp(&part(b)), order);
    for key in [a, b] {
        let decoded = K::decode(&bytes(key)).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(bytes(&decoded), bytes(key));
        let cut = &part(key)[..part(key).len().saturating_sub(1)];
        prop_assert!(
            part(key).is_empty() || K::view_part(&mut firn_typed::KeyReader::new(cut)).is_err()
        );
    }
    // A part inside a tuple ends before the next one begins, whatever follows.
    for (x, y) in [(0u8, 0u8), (0, 255), (255, 0)] {
        let (a, b) = ([part(a), vec![x]].concat(), [part(b), vec![y]].concat());
        prop_assert_eq!(a.cmp(&b), order.then(x.cmp(&y)));
    }
    Ok(())
}

fn ordered<K: Key + Ord + Debug>(a: &K, b: &K) -> TestCaseResult {
    check(a, b, a.cmp(b))?;
    let decoded = K::decode(&bytes(a)).unwrap();
    prop_assert_eq!(&decoded, a);
    Ok(())
}

/// Bytes with many zeros and FFs, which are special to the format.
fn blob() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0u8), Just(1), Just(254), Just(255), any::<u8>()], 0..6)
}

fn text() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just('\0'), Just('\u{1}'), Just('a'), Just('ÿ'), any::<char>()], 0..5)
        .prop_map(|chars| chars.into_iter().collect())
}

fn small() -> impl Strategy<Value = i8> {
    -2..2i8
}

/// Writes a test for each line: pairs of keys from a strategy are ordered.
macro_rules! orders {
    ($($name:ident: $strategy:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(times_effort(512) as u32))]
            $(#[test]
            fn $name(a in $strategy, b in $strategy) {
                ordered(&a, &b)?;
                ordered(&a, &a)?;
            })*
        }
    };
}

orders! {
    u8_sorts: any::<u8>();
    u16_sorts: any::<u16>();
    u32_sorts: any::<u32>();
    u64_sorts: any::<u64>();
    u128_sorts: any::<u128>();
    i8_sorts: any::<i8>();
    i16_sorts: any::<i16>();
    i32_sorts: any::<i32>();
    i64_sorts: any::<i64>();
    i128_sorts: any::<i128>();
    bool_sorts: any::<bool>();
    char_sorts: any::<char>();
    text_sorts: text();
    blobs_sort: blob();
    arrays_sort: any::<[u8; 5]>();
    options_sort: option::of(option::of(blob()));
    pairs_sort: (blob(), blob());
    triples_sort: (text(), small(), option::of(blob()));
    nested_tuples_sort: ((text(), blob()), option::of((small(), text())), (blob(),));
    six_parts_sort: (small(), blob(), small(), text(), option::of(small()), blob());
    structs_sort: (any::<u32>(), small(), text()).prop_map(|(a, b, c)| Reading::new(a % 2, b.into(), c));
    enums_sort: event();
    enums_in_tuples_sort: (option::of(event()), small());
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Start),
        (0..2u64, blob()).prop_map(|(page, data)| Event::Read { page, data }),
        (text(), small()).prop_map(|(text, n)| Event::Stop(text, n)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(times_effort(512) as u32))]

    #[test]
    fn floats_sort_by_total_cmp(a in any::<u64>(), b in any::<u64>()) {
        let special = [f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY];
        for a in special.into_iter().chain([f64::from_bits(a)]) {
            for b in special.into_iter().chain([f64::from_bits(b)]) {
                check(&a, &b, a.total_cmp(&b))?;
                let (a, b) = (a as f32, b as f32);
                check(&a, &b, a.total_cmp(&b))?;
            }
            prop_assert_eq!(f64::decode(&bytes(&a)).unwrap().to_bits(), a.to_bits());
        }
        let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        check(&a, &b, a.total_cmp(&b))?;
        prop_assert_eq!(f32::decode(&bytes(&a)).unwrap().to_bits(), a.to_bits());
    }

    #[test]
    fn exactly_the_keys_with_a_prefix_begin_with_its_bytes(
        key in (blob(), text(), small()), first in blob(), second in text(),
    ) {
        let begins = |prefix: &dyn KeyPrefix<(Vec<u8>, String, i8)>| {
            let mut out = Buffer::new();
            prefix.write_prefix(&mut out);
            bytes(&key).starts_with(&out)
        };
        prop_assert_eq!(begins(&(&first,)), key.0 == first);
        prop_assert_eq!(begins(&(&first, &second)), key.0 == first && key.1 == second);
        prop_assert!(begins(&(&key.0,)) && begins(&(&key.0, &key.1)));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(prop_oneof![Just(0u8), Just(255), Just(1), any::<u8>()], 0..40)) {
        /// A decoded key encodes to the same bytes, because each key has one encoding.
        fn read<K: Key>(bytes: &[u8]) {
            if let Ok(key) = K::decode(bytes) {
                assert_eq!(super::order::bytes(&key), bytes);
            }
        }
        macro_rules! read_all { ($($of:ty),*) => { $(read::<$of>(&bytes);)* }; }
        read_all!(u8, i16, u32, i64, u128, f32, f64, bool, char, String, Vec<u8>, [u8; 3]);
        read_all!(Option<String>, (String, u8), (bool, Vec<u8>, char), Event, Reading, (Event, Event));
        read_all!((u8, (Vec<u8>, Option<(i8, String)>)), (String, String, String, String, String, u8));
    }
}
