//! Properties of every type: forms sort like values, are decoded to them, and accept any bytes;
//! names are parsed to the same type.

use std::sync::Arc;

use firn_wide::internals::types::{EMPTY, put_vector_element};
use firn_wide::{
    Comparator, Malformed, Registry, TimeSource, Type, TypeError, UserType, Wording, uuids,
};
use proptest::prelude::*;

/// Orders texts by length, then by bytes.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "com.example.ByLength"
    }
    fn validate(&self, value: &[u8]) -> Result<(), TypeError> {
        if value.len() < 256 { Ok(()) } else { Err(TypeError("too long".into())) }
    }
    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        out.push(value.len() as u8);
        out.extend_from_slice(value);
        Ok(())
    }
    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(form.get(1..).ok_or(Malformed)?);
        Ok(())
    }
    fn from_text(&self, text: &str, out: &mut Vec<u8>) -> Result<(), TypeError> {
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }
    fn to_text(&self, value: &[u8]) -> String {
        String::from_utf8_lossy(value).into_owned()
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.register(Arc::new(ByLength));
    registry
}

/// Types whose names have all syntactic elements of names.
const NAMES: &[&str] = &[
    "BytesType",
    "AsciiType",
    "UTF8Type",
    "LongType",
    "IntegerType",
    "Int32Type",
    "ShortType",
    "ByteType",
    "LexicalUUIDType",
    "TimeUUIDType",
    "UUIDType",
    "DateType",
    "TimestampType",
    "SimpleDateType",
    "TimeType",
    "BooleanType",
    "FloatType",
    "DoubleType",
    "DecimalType",
    "InetAddressType",
    "DurationType",
    "CounterColumnType",
    "EmptyType",
    "CompositeType(UTF8Type,LongType)",
    "CompositeType(ReversedType(BytesType),DecimalType,ReversedType(LongType))",
    "DynamicCompositeType",
    "DynamicCompositeType(a=>AsciiType,l=>LongType,L=>ReversedType(LongType),t=>UTF8Type)",
    "ListType(Int32Type)",
    "SetType(UTF8Type)",
    "MapType(UTF8Type,IntegerType)",
    "ListType(ListType(BytesType))",
    "TupleType(Int32Type,UTF8Type,BytesType)",
    "VectorType(FloatType , 2)",
    "VectorType(UTF8Type , 3)",
    "VectorType(FrozenType(ListType(Int32Type)) , 1)",
    "ListType(VectorType(VectorType(LongType , 2) , 1))",
    "com.example.ByLength",
];

fn types() -> impl Strategy<Value = Type> {
    let all: Vec<Type> = NAMES.iter().map(|n| Type::parse(n, &registry()).unwrap()).collect();
    let user = UserType {
        keyspace: "ks".into(),
        name: "päir".into(),
        fields: vec![("a".into(), Type::Long), ("b".into(), Type::Bytes)],
    };
    let all = prop::sample::select([all, vec![Type::Udt(Arc::new(user))]].concat());
    (all, any::<bool>())
        .prop_map(|(t, turned)| if turned { Type::Reversed(Arc::new(t)) } else { t })
}

fn small_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![
            Just(0u8),
            Just(1),
            Just(0x3E),
            Just(0x7F),
            Just(0x80),
            Just(0xFE),
            Just(0xFF),
            any::<u8>()
        ],
        0..20,
    )
}

fn sized(n: usize) -> BoxedStrategy<Vec<u8>> {
    let bits = prop_oneof![Just(0u8), Just(1), Just(0x7F), Just(0x80), Just(0xFF), any::<u8>()];
    prop::collection::vec(bits, n).boxed()
}

/// Generates `<4-byte length><bytes>`, or null.
fn part(t: &Type, nullable: bool) -> BoxedStrategy<Vec<u8>> {
    let there = value(t).prop_map(|v| [&(v.len() as i32).to_be_bytes()[..], &v].concat());
    if nullable { prop_oneof![3 => there, 1 => Just(vec![0xFF; 4])].boxed() } else { there.boxed() }
}

fn counted(items: Vec<Vec<u8>>) -> Vec<u8> {
    [&(items.len() as i32).to_be_bytes()[..], &items.concat()].concat()
}

fn fields(of: &[Type]) -> BoxedStrategy<Vec<u8>> {
    let parts: Vec<_> = of.iter().map(|t| part(t, true)).collect();
    (parts, 1..=of.len()).prop_map(|(p, n)| p[..n].concat()).boxed()
}

/// Generates elements of some types, without empty values if the type has a fixed length.
fn vector(of: &Type, count: usize) -> BoxedStrategy<Vec<u8>> {
    let put = {
        let of = of.clone();
        move |parts: Vec<Vec<u8>>| {
            let mut out = vec![];
            parts.iter().for_each(|p| put_vector_element(&of, p, &mut out));
            out
        }
    };
    let element = match of {
        Type::Float => sized(4),
        Type::Long => sized(8),
        other => value(other),
    };
    prop::collection::vec(element, count).prop_map(put).boxed()
}

/// Generates valid values that are close to each other, including empty ones if the type has them.
fn value(t: &Type) -> BoxedStrategy<Vec<u8>> {
    let whole = match t {
        Type::Long | Type::Counter | Type::Timestamp | Type::Date | Type::Double => sized(8),
        Type::Time => return sized(8),
        Type::SimpleDate => return sized(4),
        Type::Short => return sized(2),
        Type::Byte => return sized(1),
        Type::Boolean => sized(1),
        Type::Int32 | Type::Float => sized(4),
        Type::Uuid | Type::LexicalUuid => sized(16),
        Type::TimeUuid => sized(16)
            .prop_map(|mut v| {
                v[6] = v[6] & 0xF | 0x10;
                v
            })
            .boxed(),
        Type::Ascii => "[\0ab~]{0,5}".prop_map(String::into_bytes).boxed(),
        Type::Utf8 => "[\0abé\u{10FFFF}]{0,5}".prop_map(String::into_bytes).boxed(),
        Type::Inet => prop_oneof![sized(4), sized(16)].boxed(),
        Type::Decimal => (-12i32..12, prop::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(scale, n)| [&scale.to_be_bytes()[..], &n].concat())
            .boxed(),
        Type::Duration => {
            return prop::sample::select(vec![
                vec![0u8, 0, 0],
                vec![2, 4, 6],
                vec![1, 3, 5],
                vec![2, 0x80, 0x90, 0],
            ])
            .boxed();
        }
        Type::Empty => return Just(vec![]).boxed(),
        Type::Composite(of) => {
            let parts: Vec<_> = of.iter().map(value).collect();
            (parts, 1..=of.len(), -1i8..2)
                .prop_map(|(parts, n, end)| {
                    let mut out = vec![];
                    for (i, p) in parts[..n].iter().enumerate() {
                        out.extend((p.len() as u16).to_be_bytes());
                        out.extend(p);
                        out.push(if i + 1 == n { end as u8 } else { 0 });
                    }
                    out
                })
                .boxed()
        }
        Type::Dynamic(_) => dynamic_value(t),
        Type::Reversed(inner) => return value(inner),
        Type::List(e) | Type::Set(e) => {
            return prop::collection::vec(part(e, false), 0..4).prop_map(counted).boxed();
        }
        Type::Map(kv) => {
            let pair = (part(&kv.0, false), part(&kv.1, false)).prop_map(|(k, v)| [k, v].concat());
            return prop::collection::vec(pair, 0..4).prop_map(counted).boxed();
        }
        Type::Vector(of, count) => return vector(of, *count as usize),
        Type::Tuple(of) => fields(of),
        Type::Udt(u) => fields(&u.fields.iter().map(|f| f.1.clone()).collect::<Vec<_>>()),
        _ => small_bytes().boxed(),
    };
    prop_oneof![9 => whole, 1 => Just(vec![])].boxed()
}

/// Returns the header of a component with a type given by an alias or by its class.
fn header(written: &str) -> Vec<u8> {
    match written.as_bytes() {
        [alias] => vec![0x80, *alias],
        name => [&(name.len() as u16).to_be_bytes()[..], name].concat(),
    }
}

/// Type tags of components of `DynamicCompositeType`, with their types. Aliases exist only if the
/// type defines them.
const WRITTEN: [(&str, &str); 9] = [
    ("UTF8Type", "UTF8Type"),
    ("org.apache.cassandra.db.marshal.UTF8Type", "UTF8Type"),
    ("LongType", "LongType"),
    ("LongType(reversed=true)", "ReversedType(LongType)"),
    ("ReversedType(UTF8Type)", "ReversedType(UTF8Type)"),
    ("com.example.ByLength", "com.example.ByLength"),
    ("l", "LongType"),
    ("L", "ReversedType(LongType)"),
    ("t", "UTF8Type"),
];

fn dynamic_value(t: &Type) -> BoxedStrategy<Vec<u8>> {
    let known = if t.name().contains("=>") { WRITTEN.len() } else { WRITTEN.len() - 3 };
    let component = prop::sample::select(WRITTEN[..known].to_vec())
        .prop_flat_map(|(written, of)| {
            (Just(written), value(&Type::parse(of, &registry()).unwrap()))
        })
        .prop_map(|(written, v)| {
            [&header(written)[..], &(v.len() as u16).to_be_bytes(), &v].concat()
        });
    (prop::collection::vec(component, 1..4), -1i8..2)
        .prop_map(|(parts, end)| {
            let mut out = vec![];
            for (i, part) in parts.iter().enumerate() {
                out.extend(part);
                out.push(if i + 1 == parts.len() { end as u8 } else { 0 });
            }
            out
        })
        .boxed()
}

/// Compares two values of `DynamicCompositeType`, step by step as Cassandra's class does.
fn dynamic_order(t: &Type, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    fn take(t: &Type, rest: &mut &[u8]) -> (Type, Vec<u8>, i8) {
        let aliases = |a: u8| {
            let pair = WRITTEN.iter().find(|(w, _)| w.as_bytes() == [a]).unwrap();
            assert!(t.name().contains("=>"));
            pair.1
        };
        let len = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
        *rest = &rest[2..];
        let name = if len & 0x8000 != 0 {
            aliases(len as u8).to_owned()
        } else {
            let (name, after) = rest.split_at(len);
            *rest = after;
            String::from_utf8(name.to_vec()).unwrap()
        };
        let len = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
        let (value, after) = rest[2..].split_at(len);
        *rest = &after[1..];
        (Type::parse(&name, &registry()).unwrap(), value.to_vec(), after[0] as i8)
    }
    let class = |of: &Type| of.full_name().split('(').next().unwrap().to_owned();
    let simple = |of: &Type| class(of).rsplit('.').next().unwrap().to_owned();
    let (mut a, mut b) = (a, b);
    while !a.is_empty() && !b.is_empty() {
        let ((of_a, va, end_a), (of_b, vb, end_b)) = (take(t, &mut a), take(t, &mut b));
        let (inner_a, inner_b) = match (of_a.is_reversed(), of_b.is_reversed()) {
            (true, true) => (of_a.unreversed(), of_b.unreversed()),
            _ => (&of_a, &of_b),
        };
        let by_class = simple(inner_a).cmp(&simple(inner_b));
        let order = by_class
            .then_with(|| class(inner_a).cmp(&class(inner_b)))
            .then_with(|| of_a.compare(&va, &vb))
            .then_with(|| end_a.cmp(&end_b));
        if order.is_ne() {
            return order;
        }
    }
    a.len().min(1).cmp(&b.len().min(1))
}

fn component(t: &Type, v: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    t.put_component(v, &mut out).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 500, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn forms_sort_as_values_and_come_back(
        (t, a, b) in types().prop_flat_map(|t| { let v = value(&t); (Just(t), v.clone(), v) }),
        next in prop::sample::select(vec![0x20u8, 0x38, 0x3E, 0x3F, 0x40, 0x41, 0x60]),
    ) {
        prop_assert_eq!(t.validate(&a), Ok(()), "{:?}", t);
        let (fa, fb) = (component(&t, &a), component(&t, &b));
        let with = |f: &[u8]| [f, &[next]].concat();
        prop_assert_eq!(with(&fa).cmp(&with(&fb)), t.compare(&a, &b), "{:?}", &t);
        prop_assert_eq!(t.compare(&a, &b), t.compare(&b, &a).reverse());
        if fa != fb {
            prop_assert!(!fb.starts_with(&with(&fa)) && !fa.starts_with(&with(&fb)), "{:?}", &t);
        }
        let followed = with(&fa);
        prop_assert_eq!(t.component_len(&followed), Some(fa.len()));
        let (mut rest, mut back) = (&followed[..], vec![]);
        prop_assert_eq!(t.take_component(&mut rest, &mut back), Ok(true));
        prop_assert_eq!(rest, &[next][..]);
        prop_assert!(t.compare(&a, &back).is_eq());
        prop_assert_eq!(t.validate(&back), Ok(()));
        prop_assert_eq!(component(&t, &back), fa);
    }

    #[test]
    fn composites_of_any_types_order_as_cassandras_class_does(
        (t, a, b) in prop::sample::select(vec![
            "DynamicCompositeType",
            "DynamicCompositeType(l=>LongType,L=>LongType(reversed=true),t=>UTF8Type)",
        ]).prop_flat_map(|name| {
            let t = Type::parse(name, &registry()).unwrap();
            let v = dynamic_value(&t);
            (Just(t), v.clone(), v)
        })
    ) {
        prop_assert_eq!(t.compare(&a, &b), dynamic_order(&t, &a, &b));
        let text = t.to_text(&a, Wording::Cql);
        if !text.contains("ByLength") {
            let mut back = vec![];
            t.from_text(&text, Wording::Cql, &mut Fixed, &mut back).unwrap();
            prop_assert!(t.compare(&a, &back).is_eq(), "{}", text);
        }
    }

    #[test]
    fn any_bytes_are_judged(t in types(), bytes in prop_oneof![small_bytes(), prop::collection::vec(any::<u8>(), 0..60)], wanted in ".{0,12}") {
        let _ = t.validate(&bytes);
        let _ = t.to_text(&bytes, Wording::Cql);
        let _ = t.compare(&bytes, wanted.as_bytes());
        let _ = t.component_len(&bytes);
        let (mut rest, mut out) = (&bytes[..], vec![]);
        if t.decode(&mut rest, &mut out).is_ok() {
            prop_assert_eq!(t.form_len(&bytes), Some(bytes.len() - rest.len()));
        }
        let _ = t.from_text(&wanted, Wording::Cli, &mut Fixed, &mut vec![]);
        let _ = Type::parse(&wanted, &registry());
    }

    #[test]
    fn names_are_read_back(t in types()) {
        prop_assert_eq!(Type::parse(&t.name(), &registry()), Ok(t.clone()));
        prop_assert_eq!(Type::parse(&t.full_name(), &registry()), Ok(t));
    }

    #[test]
    fn integers_sort_as_numbers(a in any::<i128>(), b in any::<i128>(), by in 0u32..128, pad in 0usize..3) {
        let (a, b) = (a >> by, b >> by);
        let bytes = |n: i128, pad: usize| [vec![if n < 0 { 0xFF } else { 0 }; pad], n.to_be_bytes().to_vec()].concat();
        prop_assert_eq!(Type::Integer.compare(&bytes(a, pad), &bytes(b, 0)), a.cmp(&b));
        let (form, mut back) = (component(&Type::Integer, &bytes(a, pad)), vec![]);
        Type::Integer.take_component(&mut &form[..], &mut back).unwrap();
        prop_assert_eq!(back, num_bigint::BigInt::from(a).to_signed_bytes_be());
    }

    #[test]
    fn text_is_read_back(
        (t, v) in types().prop_filter("has a text that says all", readable).prop_flat_map(|t| { let v = value(&t); (Just(t), v) })
    ) {
        let mut back = vec![];
        t.from_text(&t.to_text(&v, Wording::Cql), Wording::Cql, &mut Fixed, &mut back).unwrap();
        prop_assert!(t.compare(&v, &back).is_eq(), "{:?} {:?} {:?}", t, v, t.to_text(&v, Wording::Cql));
    }
}

fn readable(t: &Type) -> bool {
    let t = t.unreversed();
    !t.has_parts()
        && !matches!(
            t,
            Type::Composite(_)
                | Type::Dynamic(_)
                | Type::Timestamp
                | Type::Date
                | Type::SimpleDate
                | Type::Time
                | Type::Duration
                | Type::Custom(_)
        )
}

struct Fixed;

impl TimeSource for Fixed {
    fn millis(&mut self) -> i64 {
        1000
    }
    fn time_uuid(&mut self) -> [u8; 16] {
        uuids::time_uuid(1_000_000, 0, 1, 2)
    }
    fn time_uuid_at(&mut self, millis: i64) -> [u8; 16] {
        uuids::time_uuid(millis * 1000, 0, 1, 2)
    }
}

#[test]
fn texts_of_cassandra_cli() {
    let read = |t: &Type, text: &str| {
        let mut out = vec![];
        t.from_text(text, Wording::Cli, &mut Fixed, &mut out).map(|()| out).map_err(|e| e.0)
    };
    let refused = |t: Type, text: &str, why: &str| assert_eq!(read(&t, text), Err(why.to_owned()));
    refused(Type::Bytes, "zz", "cannot parse 'zz' as hex bytes");
    refused(Type::Bytes, "abc", "cannot parse 'abc' as hex bytes");
    refused(Type::Long, "abc", "unable to make long from 'abc'");
    refused(Type::Integer, "abc", "unable to make int from 'abc'");
    refused(Type::Uuid, "abc", "unable to coerce 'abc' to version 1 UUID");
    refused(Type::Date, "yesterday", "unable to coerce 'yesterday' to a  formatted date (long)");
    assert_eq!(read(&Type::Date, "now"), Ok(1000i64.to_be_bytes().to_vec()));
    assert_eq!(
        read(&Type::Date, "2009-08-16 15:53:24+0000"),
        Ok(1_250_438_004_000i64.to_be_bytes().to_vec())
    );
    assert_eq!(read(&Type::TimeUuid, "now").map(|v| v.len()), Ok(16));
    assert_eq!(read(&Type::Ascii, "é"), Ok(b"?".to_vec()));
    assert_eq!(read(&Type::Long, ""), Ok(vec![]));
    let composite = Type::Composite([Type::Utf8, Type::Long].into());
    let made = read(&composite, "a\\:b:5:!").unwrap();
    assert_eq!(made, b"\0\x03a:b\0\0\x08\0\0\0\0\0\0\0\x05\x01");
    assert_eq!(composite.to_text(&made, Wording::Cli), "a\\:b:5:!");
}

#[test]
fn examples_of_the_specification() {
    let mut out = component(&Type::Short, &[0, 1]);
    out.extend(component(&Type::Float, &1f32.to_be_bytes()));
    assert_eq!(out, [0x40, 0x80, 1, 0x40, 0xBF, 0x80, 0, 0]);
    assert_eq!(component(&Type::Long, &[]), [EMPTY]);
    let why = Type::parse("NoSuchType", &registry()).unwrap_err().0;
    assert!(
        why.starts_with(
            "Unable to load class org.apache.cassandra.db.marshal.NoSuchType; known are BytesType, "
        ),
        "{why}"
    );
    assert!(why.ends_with(", com.example.ByLength"), "{why}");
    assert!(Type::parse(&"ListType(".repeat(100_000), &registry()).is_err());
}

#[test]
fn tuples_in_keys_get_their_last_nulls_back() {
    let of = Type::parse("ReversedType(TupleType(Int32Type,UTF8Type,Int32Type))", &Registry::new())
        .unwrap();
    let null = [0xFF; 4];
    let five = [&[0, 0, 0, 4][..], &5_i32.to_be_bytes()].concat();
    for (value, whole) in [
        (vec![], vec![]),
        (null.to_vec(), null.repeat(3)),
        (five.clone(), [&five[..], &null, &null].concat()),
    ] {
        assert_eq!(of.with_last_nulls(&value).unwrap(), whole);
        let mut form = vec![];
        of.put_component(&whole, &mut form).unwrap();
        let (mut rest, mut back) = (&*form, vec![]);
        assert!(of.take_component(&mut rest, &mut back).unwrap());
        assert_eq!(of.with_last_nulls(&back).unwrap(), whole);
    }
    let sized = |v: &[u8]| [&(v.len() as u32).to_be_bytes()[..], v].concat();
    let of = Type::parse(
        "MapType(Int32Type,VectorType(TupleType(Int32Type,Int32Type),1))",
        &Registry::new(),
    )
    .unwrap();
    let map = |tuple: &[u8]| {
        let vector = [&[tuple.len() as u8], tuple].concat();
        [&1_u32.to_be_bytes()[..], &sized(&[0; 4]), &sized(&vector)].concat()
    };
    assert_eq!(of.with_last_nulls(&map(&five)).unwrap(), map(&[&five[..], &null].concat()));
    for wrong in [&[0, 0][..], &[0, 0, 0, 9, 0]] {
        assert!(of.with_last_nulls(wrong).is_err());
    }
}

/// Names that old clients send.
#[test]
fn classes_with_properties() {
    let parse = |text: &str| Type::parse(text, &registry()).map(|t| t.name()).map_err(|e| e.0);
    for (text, name) in [
        ("UTF8Type()", "UTF8Type"),
        ("LongType(reversed=true)", "ReversedType(LongType)"),
        ("LongType(reversed)", "ReversedType(LongType)"),
        ("LongType( reversed = false )", "LongType"),
        (
            "org.apache.cassandra.db.marshal.TimeUUIDType(reversed=true)",
            "ReversedType(TimeUUIDType)",
        ),
        (
            "CompositeType(LongType(reversed=true),UTF8Type)",
            "CompositeType(ReversedType(LongType),UTF8Type)",
        ),
        ("com.example.ByLength(reversed=true)", "ReversedType(com.example.ByLength)"),
        (
            "DynamicCompositeType(s=>UTF8Type, S => UTF8Type(reversed=true))",
            "DynamicCompositeType(S=>ReversedType(UTF8Type),s=>UTF8Type)",
        ),
        ("DynamicCompositeType()", "DynamicCompositeType"),
    ] {
        assert_eq!(parse(text).as_deref(), Ok(name), "{text}");
    }
    for (text, why) in [
        ("LongType(reversed=maybe)", "reversed is true or false, and not 'maybe'"),
        ("LongType(order=up)", "unknown property 'order': there is reversed"),
        (
            "LongType(reversed=true",
            "Syntax error in the properties of LongType: expected ',' or ')'",
        ),
        (
            "DynamicCompositeType(ab=>LongType)",
            "Syntax error in the parameters of DynamicCompositeType: expected (alias=>type,…), each alias one letter or digit",
        ),
        (
            "DynamicCompositeType(a=>DynamicCompositeType)",
            "a component of DynamicCompositeType can't be of that type",
        ),
    ] {
        assert_eq!(parse(text), Err(why.to_owned()), "{text}");
    }
}

#[test]
fn components_that_name_their_types() {
    let of = Type::parse("DynamicCompositeType(a=>AsciiType,l=>LongType)", &registry()).unwrap();
    let read = |text: &str| {
        let mut out = vec![];
        of.from_text(text, Wording::Cli, &mut Fixed, &mut out).map(|()| out).map_err(|e| e.0)
    };
    let value = read("a@x\\:y:l@5:UTF8Type@z:!").unwrap();
    assert_eq!(
        value,
        [
            &b"\x80a\0\x03x:y\0\x80l\0\x08\0\0\0\0\0\0\0\x05\0"[..],
            b"\0\x28org.apache.cassandra.db.marshal.UTF8Type\0\x01z\x01",
        ]
        .concat()
    );
    assert_eq!(
        of.to_text(&value, Wording::Cli),
        "a@x\\:y:l@5:org.apache.cassandra.db.marshal.UTF8Type@z:!"
    );
    assert_eq!(read("b@x"), Err("'b' is no alias or type".into()));
    assert_eq!(read("x"), Err("Invalid component representation: x".into()));
    // A type with an alias is always written as the alias.
    let mut back = vec![];
    let written = [&header("AsciiType")[..], b"\0\x01x\0"].concat();
    of.take_component(&mut &component(&of, &written)[..], &mut back).unwrap();
    assert_eq!(back, [&header("a")[..], b"\0\x01x\0"].concat());
    for (bytes, why) in [
        (&b"\x80"[..], "Not enough bytes to header of the comparator part of component 0"),
        (b"\0\x05LongT", "Cannot find comparator for component 0"),
        (b"\0\x09LongT", "Not enough bytes to read comparator name of component 0"),
        (b"\x80b\0\x01x\0", "Cannot find comparator for component 0"),
        (b"\x80a\0", "Not enough bytes to read value size of component 0"),
        (b"\x80l\0\x01x\0", "Expected 8 or 0 byte long (1)"),
        (b"\x80a\0\x01x", "Not enough bytes to read the end-of-component byte of component0"),
        (
            b"\x80a\0\x01x\x01\x80",
            "Invalid bytes remaining after an end-of-component at component0",
        ),
    ] {
        assert_eq!(of.validate(bytes), Err(TypeError(why.into())), "{bytes:?}");
    }
    let more =
        Type::parse("DynamicCompositeType(a=>AsciiType,l=>LongType,x=>UTF8Type)", &registry());
    let more = more.unwrap();
    assert!(more.extends(&of) && !of.extends(&more));
}
