//! Derived keys: their bytes, prefixes and errors.

use firn_kv::Db;
use firn_typed::{Buffer, Key, TypedTree};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
pub struct Reading {
    sensor: u32,
    second: i64,
    r#type: String,
}

impl Reading {
    pub fn new(sensor: u32, second: i64, kind: String) -> Reading {
        Reading { sensor, second, r#type: kind }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
pub enum Event {
    Start,
    #[firn(tag = 5)]
    Read {
        page: u64,
        data: Vec<u8>,
    },
    Stop(String, i8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Key)]
struct Id(u64);

#[derive(Debug, PartialEq, Eq, Key)]
struct Nothing;

fn bytes<K: Key>(key: &K) -> Vec<u8> {
    key.encode(&mut Buffer::new()).to_vec()
}

#[test]
fn a_struct_is_the_tuple_of_its_fields() {
    let reading = Reading::new(7, -1, "°C".into());
    assert_eq!(bytes(&reading), bytes(&(7u32, -1i64, "°C".to_owned())));
    assert_eq!(bytes(&(Id(7), Nothing)), 7u64.to_be_bytes());
    assert_eq!(Nothing::decode(b""), Ok(Nothing));
}

#[test]
fn an_enum_is_a_tag_and_fields() {
    assert_eq!(bytes(&Event::Start), [0]);
    let read = Event::Read { page: 1, data: vec![9] };
    assert_eq!(bytes(&read), [5, 0, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0]);
    assert_eq!(bytes(&Event::Stop("a".into(), 0)), [6, b'a', 0, 0, 128]);
    assert_eq!(
        <(u8, Event)>::decode(&[1, 2]).unwrap_err().to_string(),
        "cannot decode Event at offset 1: no variant has this tag"
    );
    assert_eq!(
        Event::decode(&[]).unwrap_err().to_string(),
        "cannot decode Event at offset 0: the bytes end"
    );
}

#[test]
fn a_derived_key_has_prefixes_and_is_a_value() {
    let tree: TypedTree<Reading, Event> = TypedTree::open(&Db::in_memory().unwrap(), "t").unwrap();
    for (sensor, second) in [(1, 5), (2, -5), (2, 5), (3, 0)] {
        tree.put(&Reading::new(sensor, second, "x".into()), &Event::Stop("x".into(), 1)).unwrap();
    }
    let seconds = |found: firn_typed::TypedRange<Reading, Event>| -> Vec<i64> {
        found.map(|item| item.unwrap().0.second).collect()
    };
    assert_eq!(seconds(tree.prefix(&(2,))), [-5, 5]);
    assert_eq!(seconds(tree.prefix(&(2, 5))), [5]);
    assert_eq!(tree.first().unwrap().unwrap().1, Event::Stop("x".into(), 1));
}
