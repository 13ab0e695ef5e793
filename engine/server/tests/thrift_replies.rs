//! Bytes of Thrift replies, compared with recorded ones. `FIRN_REWRITE=1` records them again.

#![allow(clippy::disallowed_methods, reason = "a client and a file have no environment")]

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;

use firn_server::internals::thrift::{ThriftCall, ThriftConversation, ThriftReply, ThriftValue};
use firn_server::{Options, Server};

type Fields<'v> = Vec<(i16, ThriftValue<'v>)>;

/// Compares lines with those of a file.
fn compare(file: &str, replies: &str) {
    let path = format!("{}/tests/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("FIRN_REWRITE").is_some() {
        std::fs::write(&path, replies).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    for (reply, recorded) in replies.lines().zip(recorded.lines()) {
        assert_eq!(reply, recorded);
    }
    assert_eq!(replies.lines().count(), recorded.lines().count());
}

fn text(text: &str) -> ThriftValue<'static> {
    ThriftValue::text(text)
}

fn structure<const N: usize>(fields: [(i16, ThriftValue<'static>); N]) -> ThriftValue<'static> {
    ThriftValue::Struct(fields.into())
}

fn list<const N: usize>(all: [ThriftValue<'static>; N]) -> ThriftValue<'static> {
    ThriftValue::List(all.into())
}

fn one() -> ThriftValue<'static> {
    ThriftValue::I32(1)
}

fn parent(family: &str) -> ThriftValue<'static> {
    structure([(3, text(family))])
}

fn path(family: &str, name: &str) -> ThriftValue<'static> {
    structure([(3, text(family)), (5, text(name))])
}

fn column(name: &str) -> ThriftValue<'static> {
    structure([(1, text(name)), (2, text("value")), (3, ThriftValue::I64(7))])
}

fn counter() -> ThriftValue<'static> {
    structure([(1, text("n")), (2, ThriftValue::I64(5))])
}

/// Returns a predicate for columns in this order, with this limit.
fn slice(is_reversed: bool, count: i32) -> ThriftValue<'static> {
    let order = ThriftValue::Bool(is_reversed);
    let range = [(1, text("")), (2, text("")), (3, order), (4, ThriftValue::I32(count))];
    structure([(2, structure(range))])
}

fn keys() -> ThriftValue<'static> {
    structure([(1, text("")), (2, text("")), (5, ThriftValue::I32(9))])
}

fn family(name: &str, more: &[(i16, ThriftValue<'static>)]) -> (&'static str, Fields<'static>) {
    let mut def = vec![(1, text("K")), (2, text(name)), (5, text("UTF8Type"))];
    def.extend_from_slice(more);
    ("define", vec![(1, ThriftValue::Struct(def))])
}

fn cql(statement: &str) -> (&'static str, Fields<'static>) {
    ("execute_cql3_query", vec![(1, text(statement)), (2, ThriftValue::I32(2)), (3, one())])
}

/// The calls in their order. `define` adds a column family; its reply is random.
fn calls() -> Vec<(&'static str, Fields<'static>)> {
    let mut values = vec![(1, text("i")), (2, text("v")), (3, ThriftValue::I64(7))];
    values.push((4, ThriftValue::I32(100_000)));
    let expiring = ThriftValue::Struct(values);
    let inner = structure([(1, text("s")), (2, list([column("a"), column("b")]))]);
    let write = |number, of| list([structure([(1, structure([(number, of)]))])]);
    let families = ThriftValue::Map(vec![
        (text("F"), write(1, column("d"))),
        (text("S"), write(2, inner)),
        (text("C"), write(3, counter())),
    ]);
    let mutations = || ThriftValue::Map(vec![(text("m"), families.clone())]);
    let index = structure([(1, text("a")), (2, ThriftValue::I32(0)), (3, text("value"))]);
    let clause = structure([(1, list([index])), (2, text("")), (3, ThriftValue::I32(5))]);
    let definition = structure([(1, text("a")), (2, text("UTF8Type")), (3, ThriftValue::I32(0))]);
    let request = |count| {
        let part = structure([(1, text("a")), (2, text("c"))]);
        structure([
            (1, text("k")),
            (2, parent("F")),
            (3, list([part])),
            (5, ThriftValue::I32(count)),
            (6, one()),
        ])
    };
    let cas = |value: &str| {
        let expected = structure([(1, text("a")), (2, text(value))]);
        vec![
            (1, text("k")),
            (2, text("F")),
            (3, list([expected])),
            (4, list([column("z")])),
            (5, ThriftValue::I32(9)),
            (6, one()),
        ]
    };
    let insert = |key: &str, name: &str| {
        vec![(1, text(key)), (2, parent("F")), (3, column(name)), (4, one())]
    };
    let sliced = |key: &str, family: &str, count| {
        vec![(1, text(key)), (2, parent(family)), (3, slice(false, count)), (4, one())]
    };
    let of_keys = |keys: &[&str], of| {
        let keys = ThriftValue::List(keys.iter().map(|k| text(k)).collect());
        vec![(1, keys), (2, parent("F")), (3, slice(of, 9)), (4, one())]
    };
    let get = |key: &str, path| vec![(1, text(key)), (2, path), (3, one())];
    vec![
        ("get", get("k", path("F", "a"))),
        ("set_keyspace", vec![(1, text("X"))]),
        ("set_keyspace", vec![]),
        ("set_keyspace", vec![(1, one())]),
        ("set_keyspace", vec![(1, text("K"))]),
        family("F", &[(13, list([definition]))]),
        family("S", &[(3, text("Super")), (6, text("UTF8Type"))]),
        family("C", &[(15, text("CounterColumnType"))]),
        ("insert", insert("k", "a")),
        ("insert", insert("k", "b")),
        ("insert", insert("l", "a")),
        ("insert", vec![(1, text("k")), (2, parent("F")), (3, expiring), (4, one())]),
        ("insert", vec![(1, text("k")), (2, parent("F")), (4, one())]),
        ("insert", vec![(1, text("k")), (2, parent("F")), (3, structure([])), (4, one())]),
        ("insert", vec![(1, one()), (2, parent("F")), (3, column("c")), (4, one())]),
        ("insert", vec![(2, parent("F")), (3, column("c")), (4, one())]),
        ("insert", vec![(1, text("k")), (2, text("F")), (3, column("c")), (4, one())]),
        ("insert", vec![(1, text("k")), (2, parent("F")), (3, column("c")), (4, text("ONE"))]),
        ("insert", vec![(1, text("k")), (2, parent("nowhere")), (3, column("c")), (4, one())]),
        ("insert", vec![(1, text("k")), (2, parent("F")), (3, column("c"))]),
        ("add", vec![(1, text("k")), (2, parent("C")), (3, counter()), (4, one())]),
        ("batch_mutate", vec![(1, mutations()), (2, one())]),
        ("batch_mutate", vec![(1, list([])), (2, one())]),
        ("batch_mutate", vec![(1, ThriftValue::Map(vec![])), (2, one())]),
        ("atomic_batch_mutate", vec![(1, mutations()), (2, one())]),
        ("get", get("k", path("F", "a"))),
        ("get", get("k", path("F", "nothing"))),
        ("get", get("k", path("C", "n"))),
        ("get", get("m", structure([(3, text("S")), (4, text("s"))]))),
        ("get", get("m", structure([(3, text("S")), (4, text("s")), (5, text("a"))]))),
        ("get", get("", path("F", "a"))),
        ("get_slice", sliced("k", "F", 2)),
        ("get_slice", sliced("m", "S", 2)),
        ("get_slice", sliced("m", "C", 2)),
        ("get_slice", sliced("nothing", "F", 2)),
        ("get_slice", sliced("k", "F", -1)),
        ("get_slice", vec![(1, text("k")), (2, parent("F")), (3, structure([])), (4, one())]),
        ("get_count", sliced("k", "F", 9)),
        ("multiget_slice", of_keys(&["k", "l", "nothing"], true)),
        ("multiget_slice", of_keys(&[], true)),
        ("multiget_count", of_keys(&["k", "l"], false)),
        ("multiget_count", of_keys(&[], false)),
        ("get_range_slices", vec![(1, parent("F")), (2, slice(true, 2)), (3, keys()), (4, one())]),
        ("get_range_slices", vec![(1, parent("S")), (2, slice(true, 2)), (3, keys()), (4, one())]),
        ("get_paged_slice", vec![(1, text("F")), (2, keys()), (3, text("b")), (4, one())]),
        (
            "get_indexed_slices",
            vec![(1, parent("F")), (2, clause), (3, slice(false, 1)), (4, one())],
        ),
        ("get_multi_slice", vec![(1, request(5))]),
        ("get_multi_slice", vec![(1, text("no structure"))]),
        ("cas", cas("other")),
        ("cas", cas("value")),
        ("remove", vec![(1, text("k")), (2, path("F", "a")), (3, ThriftValue::I64(8)), (4, one())]),
        ("remove_counter", vec![(1, text("k")), (2, path("C", "n")), (3, one())]),
        ("truncate", vec![(1, text("S"))]),
        ("get_range_slices", vec![(1, parent("S")), (2, slice(true, 2)), (3, keys()), (4, one())]),
        ("describe_keyspace", vec![(1, text("system"))]),
        ("describe_keyspace", vec![(1, text("nowhere"))]),
        ("describe_version", vec![]),
        ("describe_ring", vec![(1, text("K"))]),
        ("describe_token_map", vec![]),
        ("describe_splits", vec![(1, text("F")), (2, text("0")), (3, text("0")), (4, one())]),
        ("describe_splits_ex", vec![(1, text("F")), (2, text("0")), (3, text("0")), (4, one())]),
        cql("CREATE TABLE t (k int, c text, v blob, PRIMARY KEY (k, c))"),
        cql("SELECT * FROM t"),
        cql("INSERT INTO t (k, c) VALUES (1, 'one')"),
        cql("INSERT INTO t (k, c, v) VALUES (1, 'two', 0x00ff)"),
        cql("SELECT * FROM t"),
        cql("SELECT nothing FROM t"),
        (
            "prepare_cql3_query",
            vec![(1, text("SELECT c FROM t WHERE k = ?")), (2, ThriftValue::I32(2))],
        ),
        (
            "execute_prepared_cql3_query",
            vec![(1, one()), (2, list([text("\0\0\0\x01")])), (3, one())],
        ),
        ("execute_prepared_cql3_query", vec![(1, ThriftValue::I32(2)), (2, list([])), (3, one())]),
        ("execute_cql_query", vec![]),
        ("no_method", vec![]),
    ]
}

fn message(method: &str, is_strict: bool, arguments: Fields<'_>) -> Vec<u8> {
    let (sequence, is_oneway, mut out) = (3, false, vec![]);
    let arguments = ThriftValue::Struct(arguments);
    ThriftCall { method, sequence, is_strict, is_oneway, arguments }.put(&mut out);
    out
}

/// Executes a call with a random reply.
fn define(conversation: &mut ThriftConversation, method: &str, arguments: Fields<'_>) {
    let mut out = vec![];
    conversation.answer(&message(method, true, arguments), &mut out).unwrap();
    let reply = ThriftReply::read(&out).unwrap();
    assert!(matches!(reply.value, ThriftValue::Struct(fields) if fields[0].0 == 0));
}

fn conversation() -> ThriftConversation {
    let session = firn_cql::Session::in_memory().unwrap();
    let mut conversation = ThriftConversation::new(session).unwrap();
    let def = structure([(1, text("K")), (2, text("SimpleStrategy")), (4, one())]);
    define(&mut conversation, "system_add_keyspace", vec![(1, def)]);
    conversation
}

#[test]
fn replies_have_the_recorded_bytes() {
    let mut conversation = conversation();
    let mut replies = String::new();
    for (i, (method, arguments)) in calls().into_iter().enumerate() {
        let mut out = b"before".to_vec();
        if method == "define" {
            define(&mut conversation, "system_add_column_family", arguments);
            continue;
        }
        conversation.answer(&message(method, i % 5 != 0, arguments), &mut out).unwrap();
        let reply = out.strip_prefix(b"before").expect("a reply is appended");
        let _ = writeln!(replies, "{method} {}", reply.escape_ascii());
    }
    compare("thrift_replies.txt", &replies);
}

/// Calls of 0.4, after the definition of their keyspace.
fn calls_of_0_4() -> Vec<(&'static str, Fields<'static>)> {
    let at = || ThriftValue::I64(7);
    let insert = |keyspace: &str, path, level| {
        let key = [(1, text(keyspace)), (2, text("k")), (3, path), (4, text("value"))];
        [&key[..], &[(5, at()), (6, level)]].concat()
    };
    let of_row = |key: &str, more: &[(i16, ThriftValue<'static>)]| {
        [&[(1, text("K")), (2, text(key))][..], more].concat()
    };
    let get = |key: &str, path| of_row(key, &[(3, path), (4, one())]);
    let super_path = |name: &str| structure([(3, text("S")), (4, text("s")), (5, text(name))]);
    let inner = structure([(1, text("s")), (2, list([column("a"), column("b")]))]);
    let families = ThriftValue::Map(vec![
        (text("F"), list([structure([(1, column("d"))])])),
        (text("S"), list([structure([(2, inner)])])),
    ]);
    let batch = |of| of_row("m", &[(3, of), (4, one())]);
    let multiget = |keys, path: Option<ThriftValue<'static>>| {
        let mut arguments = vec![(1, text("K")), (2, keys)];
        arguments.extend(path.map(|path| (3, path)));
        arguments.push((4, one()));
        arguments
    };
    let range = |start, more: &[(i16, ThriftValue<'static>)]| {
        [&[(1, text("K")), (2, text("F")), (3, start), (4, text(""))][..], more].concat()
    };
    vec![
        ("insert", insert("K", path("F", "a"), one())),
        ("insert", insert("K", path("F", "b"), one())),
        ("insert", insert("K", super_path("c"), one())),
        ("insert", insert("K", parent("F"), one())),
        ("insert", insert("X", path("F", "a"), one())),
        ("insert", insert("K", path("nowhere", "a"), one())),
        ("insert", insert("K", path("F", "a"), ThriftValue::I32(99))),
        ("insert", insert("K", path("F", "a"), text("ONE"))),
        ("insert", of_row("k", &[(3, path("F", "a"))])),
        ("insert", vec![(1, text("K")), (3, path("F", "a")), (4, text("value"))]),
        ("batch_insert", batch(families)),
        ("batch_insert", batch(ThriftValue::Map(vec![]))),
        ("batch_insert", batch(ThriftValue::Map(vec![(text("F"), one())]))),
        ("batch_insert", batch(ThriftValue::Map(vec![(text("F"), list([]))]))),
        ("batch_insert", batch(ThriftValue::Map(vec![(one(), list([one()]))]))),
        ("batch_insert", batch(ThriftValue::Map(vec![(text("F"), list([one()]))]))),
        ("batch_insert", batch(list([]))),
        ("batch_insert", vec![(1, text("K")), (3, ThriftValue::Map(vec![]))]),
        ("get", get("k", path("F", "a"))),
        ("get", get("k", path("F", "nothing"))),
        ("get", get("m", super_path("a"))),
        ("get_slice", of_row("k", &[(3, parent("F")), (4, slice(true, 9)), (5, one())])),
        ("get_count", of_row("k", &[(3, parent("F")), (4, one())])),
        ("get_count", of_row("m", &[(3, parent("S")), (4, one())])),
        ("get_count", of_row("m", &[(4, one())])),
        ("multiget", multiget(list([text("k"), text("m"), text("n")]), Some(path("F", "a")))),
        ("multiget", multiget(list([text("n")]), Some(path("F", "a")))),
        ("multiget", multiget(list([text("k")]), None)),
        ("multiget", multiget(ThriftValue::List(vec![]), None)),
        ("multiget", multiget(text("k"), None)),
        ("get_key_range", range(text(""), &[(5, ThriftValue::I32(9)), (6, one())])),
        ("get_key_range", range(text("k"), &[])),
        ("get_key_range", range(one(), &[])),
        ("get_string_property", vec![(1, text("version"))]),
        ("get_string_property", vec![(1, text("cluster name"))]),
        ("get_string_property", vec![(1, text("token map"))]),
        ("get_string_property", vec![(1, text("nothing"))]),
        ("get_string_list_property", vec![(1, text("keyspaces"))]),
        ("get_string_list_property", vec![(1, text("nothing"))]),
        ("describe_keyspace", vec![(1, text("K"))]),
        ("remove", of_row("k", &[(3, path("F", "a")), (4, ThriftValue::I64(8)), (5, one())])),
        ("get", get("k", path("F", "a"))),
        ("login", vec![(1, text("K")), (2, structure([]))]),
        ("login", vec![(1, text("K"))]),
        ("get", vec![]),
        ("get", vec![(1, one())]),
        ("no_method", vec![]),
    ]
}

#[test]
fn replies_of_0_4_have_the_recorded_bytes() {
    let mut options = Options::ephemeral();
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    options.thrift_0_4 = true;
    let server = Server::start(options).unwrap();
    let mut socket = TcpStream::connect(server.thrift_address().unwrap()).unwrap();
    let mut call = |method: &str, arguments| {
        let message = message(method, true, arguments);
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        socket.write_all(&[&length[..], &message].concat()).unwrap();
        let mut length = [0; 4];
        socket.read_exact(&mut length).unwrap();
        let mut reply = vec![0; u32::from_be_bytes(length) as usize];
        socket.read_exact(&mut reply).unwrap();
        reply
    };
    let family = |name: &str, of: &str| {
        structure([(1, text("K")), (2, text(name)), (3, text(of)), (5, text("UTF8Type"))])
    };
    let families = list([family("F", "Standard"), family("S", "Super")]);
    let def = [(1, text("K")), (2, text("SimpleStrategy")), (4, one()), (5, families)];
    call("system_add_keyspace", vec![(1, structure(def))]);
    let mut replies = String::new();
    for (method, arguments) in calls_of_0_4() {
        let _ = writeln!(replies, "{method} {}", call(method, arguments).escape_ascii());
    }
    compare("thrift_replies_0_4.txt", &replies);
}

#[test]
fn truncated_calls_are_refused_and_have_no_reply() {
    let mut conversation = conversation();
    for (method, arguments) in calls() {
        let message = message(method, true, arguments);
        for len in 0..message.len() {
            let mut out = vec![];
            assert!(conversation.answer(&message[..len], &mut out).is_err(), "{method}, {len}");
            assert_eq!(ThriftCall::length(&message[..len]), Ok(None), "{method}, {len}");
            assert!(out.is_empty());
        }
        assert_eq!(ThriftCall::length(&message), Ok(Some(message.len())), "{method}");
    }
}
