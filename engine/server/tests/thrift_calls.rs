//! Thrift calls compared with the replies of Cassandra: possible exceptions, several slices of a
//! row, lists, returned definitions.

#![allow(clippy::disallowed_methods, reason = "a client has no environment")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use firn_server::client::{ClientOptions, FamilyClient};
use firn_server::internals::thrift::{MessageKind, ThriftCall, ThriftReply, ThriftValue};
use firn_server::{Options, Server};
use firn_wide::{CfDef, Column, ColumnParent, KsDef};

type Fields = Vec<(i16, ThriftValue<'static>)>;

fn start() -> Server {
    let mut options = Options::ephemeral();
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    Server::start(options).unwrap()
}

/// A connection for arbitrary calls.
struct Caller(TcpStream);

impl Caller {
    fn connect(server: &Server) -> Caller {
        let socket = TcpStream::connect(server.thrift_address().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Caller(socket)
    }

    /// Returns the fields of the reply; `Err` for an exception of Thrift itself.
    fn call(&mut self, method: &str, arguments: Fields) -> Result<Fields, Fields> {
        let call = ThriftCall {
            method,
            sequence: 1,
            is_strict: true,
            is_oneway: false,
            arguments: ThriftValue::Struct(arguments),
        };
        let mut message = vec![0; 4];
        call.put(&mut message);
        let len = u32::try_from(message.len() - 4).unwrap();
        message[..4].copy_from_slice(&len.to_be_bytes());
        self.0.write_all(&message).unwrap();
        let mut len = [0; 4];
        self.0.read_exact(&mut len).unwrap();
        let mut bytes = vec![0; u32::from_be_bytes(len) as usize];
        self.0.read_exact(&mut bytes).unwrap();
        let reply = ThriftReply::read(&bytes).unwrap();
        let fields = match &reply.value {
            ThriftValue::Struct(fields) => fields.iter().map(|(n, v)| (*n, owned(v))).collect(),
            other => panic!("{other:?}"),
        };
        if reply.kind == MessageKind::Reply { Ok(fields) } else { Err(fields) }
    }

    /// Returns the result of a call.
    fn given(&mut self, method: &str, arguments: Fields) -> ThriftValue<'static> {
        match self.call(method, arguments).as_deref() {
            Ok([(0, value)]) => value.clone(),
            other => panic!("{method}: {other:?}"),
        }
    }

    /// Returns field number and text of the interface's exception of a call.
    fn refused(&mut self, method: &str, arguments: Fields) -> (i16, String) {
        match self.call(method, arguments).as_deref() {
            Ok([(number, ThriftValue::Struct(why))]) if *number != 0 => {
                (*number, why.first().map_or(String::new(), |(_, text)| text_of(text)))
            }
            other => panic!("{method}: {other:?}"),
        }
    }
}

fn owned(value: &ThriftValue<'_>) -> ThriftValue<'static> {
    match value {
        ThriftValue::Bytes(bytes) => ThriftValue::bytes(bytes.to_vec()),
        ThriftValue::Struct(fields) => {
            ThriftValue::Struct(fields.iter().map(|(n, v)| (*n, owned(v))).collect())
        }
        ThriftValue::List(all) => ThriftValue::List(all.iter().map(owned).collect()),
        ThriftValue::Map(all) => {
            ThriftValue::Map(all.iter().map(|(k, v)| (owned(k), owned(v))).collect())
        }
        ThriftValue::Bool(on) => ThriftValue::Bool(*on),
        ThriftValue::I32(n) => ThriftValue::I32(*n),
        ThriftValue::I64(n) => ThriftValue::I64(*n),
        ThriftValue::Double(n) => ThriftValue::Double(*n),
        other => panic!("{other:?}"),
    }
}

fn text(text: &str) -> ThriftValue<'static> {
    ThriftValue::text(text.to_owned())
}

fn text_of(value: &ThriftValue<'_>) -> String {
    match value {
        ThriftValue::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn field<'v>(value: &'v ThriftValue<'static>, number: i16) -> Option<&'v ThriftValue<'static>> {
    match value {
        ThriftValue::Struct(fields) => fields.iter().find(|(n, _)| *n == number).map(|(_, v)| v),
        other => panic!("{other:?}"),
    }
}

fn families(server: &Server) -> FamilyClient {
    let address = server.thrift_address().unwrap();
    let mut client = FamilyClient::connect(&ClientOptions::new(address.to_string())).unwrap();
    client.system_add_keyspace(&KsDef::new("K")).unwrap();
    client.set_keyspace("K").unwrap();
    client
}

#[test]
fn every_attribute_of_a_definition_is_described_again() {
    let server = start();
    let mut client = families(&server);
    let def = CfDef {
        default_time_to_live: 100,
        speculative_retry: Some("50ms".into()),
        memtable_flush_period_in_ms: Some(60_000),
        min_index_interval: Some(64),
        max_index_interval: Some(512),
        cells_per_row_to_cache: Some("NONE".into()),
        ..CfDef::new("K", "F")
    };
    client.system_add_column_family(&def).unwrap();
    let described = client.describe_keyspace("K").unwrap().cf_defs.remove(0);
    let id = described.id;
    let classes = |class: &str| format!("org.apache.cassandra.db.marshal.{class}");
    let full = CfDef {
        id,
        comparator_type: classes("BytesType"),
        default_validation_class: classes("BytesType"),
        key_validation_class: classes("BytesType"),
        ..def
    };
    assert_eq!(described, full);
    client.insert(b"k", &ColumnParent::new("F"), &Column::new("c", "v", 1)).unwrap();
    let path = firn_wide::ColumnPath::new("F").column("c");
    assert_eq!(client.get(b"k", &path).unwrap().column().unwrap().ttl, Some(100));
    let mut caller = Caller::connect(&server);
    let triggers = ThriftValue::List(vec![ThriftValue::Struct(vec![(1, text("t"))])]);
    let with_triggers = ThriftValue::Struct(vec![(1, text("K")), (2, text("T")), (43, triggers)]);
    let (number, why) = caller.refused("system_add_column_family", vec![(1, with_triggers)]);
    assert_eq!((number, &*why), (1, "triggers are not supported: leave the field `triggers` out"));
}

#[test]
fn slices_of_a_row_are_sorted_and_joined() {
    let server = start();
    let mut client = families(&server);
    client.system_add_column_family(&CfDef::new("K", "F")).unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        client.insert(b"k", &ColumnParent::new("F"), &Column::new(name, "v", 1)).unwrap();
    }
    let mut caller = Caller::connect(&server);
    assert!(caller.call("set_keyspace", vec![(1, text("K"))]).is_ok());
    let mut found = |slices: &[(&str, &str)], reversed: bool, count: i32| {
        let slice = |(start, finish): &(&str, &str)| {
            ThriftValue::Struct(vec![(1, text(start)), (2, text(finish))])
        };
        let request = ThriftValue::Struct(vec![
            (1, text("k")),
            (2, ThriftValue::Struct(vec![(3, text("F"))])),
            (3, ThriftValue::List(slices.iter().map(slice).collect())),
            (4, ThriftValue::Bool(reversed)),
            (5, ThriftValue::I32(count)),
            (6, ThriftValue::I32(1)),
        ]);
        let ThriftValue::List(all) = caller.given("get_multi_slice", vec![(1, request)]) else {
            panic!("no list")
        };
        all.iter().map(|c| text_of(field(field(c, 1).unwrap(), 1).unwrap())).collect::<String>()
    };
    let two = [("c", "d"), ("a", "b")];
    assert_eq!(found(&two, false, 2), "ab");
    assert_eq!(found(&two, false, 100), "abcd");
    assert_eq!(found(&[("b", "a"), ("d", "b")], true, 3), "dcb");
}

#[test]
fn the_system_keyspace_is_there_and_has_no_families() {
    let server = start();
    let mut client = families(&server);
    let names: Vec<String> =
        client.describe_keyspaces().unwrap().into_iter().map(|k| k.name).collect();
    assert!(names.contains(&"K".to_owned()) && names.contains(&"system".to_owned()), "{names:?}");
    let system = client.describe_keyspace("system").unwrap();
    assert_eq!((system.cf_defs.len(), system.durable_writes), (0, true));
    assert_eq!(system.strategy_class, "org.apache.cassandra.locator.LocalStrategy");
    let mut caller = Caller::connect(&server);
    assert!(caller.call("set_keyspace", vec![(1, text("system"))]).is_ok());
    let parent = ThriftValue::Struct(vec![(3, text("LocationInfo"))]);
    let range = [&[(1, text("")), (2, text(""))][..], &[(3, ThriftValue::Bool(false))]].concat();
    let predicate = ThriftValue::Struct(vec![(2, ThriftValue::Struct(range))]);
    let slice = vec![(1, text("k")), (2, parent), (3, predicate), (4, ThriftValue::I32(1))];
    assert_eq!(
        caller.refused("get_slice", slice),
        (1, "unconfigured columnfamily LocationInfo".to_owned())
    );
    let query = vec![
        (1, text("SELECT cluster_name FROM local")),
        (2, ThriftValue::I32(2)),
        (3, ThriftValue::I32(1)),
    ];
    assert!(field(&caller.given("execute_cql3_query", query), 2).is_some());
    let refused = client
        .system_add_keyspace(&KsDef { strategy_class: "LocalStrategy".into(), ..KsDef::new("L") });
    assert!(refused.unwrap_err().to_string().contains("LocalStrategy is reserved"));
}

#[test]
fn before_a_login_only_describe_calls_are_allowed() {
    let session = firn_cql::Session::in_memory().unwrap();
    session.execute("CREATE ROLE ann WITH PASSWORD = 'secret' AND LOGIN = true", ()).unwrap();
    let mut options = Options::ephemeral();
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::start_with_session(session, options).unwrap();
    let mut caller = Caller::connect(&server);
    for method in [
        "describe_cluster_name",
        "describe_version",
        "describe_partitioner",
        "describe_snitch",
        "describe_schema_versions",
        "trace_next_query",
    ] {
        caller.given(method, vec![]);
    }
    // The interface allows these to throw it.
    for (method, arguments) in [
        ("describe_keyspaces", vec![]),
        ("describe_ring", vec![(1, text("system"))]),
        ("set_keyspace", vec![(1, text("system"))]),
        ("system_drop_keyspace", vec![(1, text("K"))]),
    ] {
        let refused = caller.refused(method, arguments);
        assert_eq!(refused, (1, "You have not logged in".to_owned()), "{method}");
    }
}

#[test]
fn invalid_consistency_levels_of_calls_are_refused() {
    let server = start();
    let mut client = families(&server);
    client.system_add_column_family(&CfDef::new("K", "F")).unwrap();
    let counters =
        CfDef { default_validation_class: "CounterColumnType".into(), ..CfDef::new("K", "C") };
    client.system_add_column_family(&counters).unwrap();
    let mut caller = Caller::connect(&server);
    assert!(caller.call("set_keyspace", vec![(1, text("K"))]).is_ok());
    let column = |name: &str| {
        let fields = vec![(1, text(name)), (2, text("v")), (3, ThriftValue::I64(1))];
        ThriftValue::Struct(fields)
    };
    let parent = |family: &str| ThriftValue::Struct(vec![(3, text(family))]);
    let level = ThriftValue::I32;
    const SERIAL: i32 = 9;
    let insert = |of| vec![(1, text("k")), (2, parent("F")), (3, column("c")), (4, level(of))];
    let why = "You must use conditional updates for serializable writes";
    assert_eq!(caller.refused("insert", insert(SERIAL)), (1, why.to_owned()));
    assert_eq!(caller.call("insert", insert(1)), Ok(vec![]));
    let cas = |updates: &[&str], serial, commit| {
        vec![
            (1, text("k")),
            (2, text("F")),
            (3, ThriftValue::List(vec![column("c")])),
            (4, ThriftValue::List(updates.iter().map(|name| column(name)).collect())),
            (5, level(serial)),
            (6, level(commit)),
        ]
    };
    let why = "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL";
    assert_eq!(caller.refused("cas", cas(&["d"], 1, 1)), (1, why.to_owned()));
    let (_, why) = caller.refused("cas", cas(&["d"], SERIAL, SERIAL));
    assert!(why.starts_with("SERIAL is not supported as conditional update commit"), "{why}");
    let done = caller.given("cas", cas(&[], SERIAL, 1));
    assert_eq!(field(&done, 1), Some(&ThriftValue::Bool(true)));
    let counter = ThriftValue::Struct(vec![(1, text("c")), (2, ThriftValue::I64(1))]);
    let add = |of| vec![(1, text("k")), (2, parent("C")), (3, counter.clone()), (4, level(of))];
    let why = "Counter operations are inherently non-serializable";
    assert_eq!(caller.refused("add", add(SERIAL)), (1, why.to_owned()));
    let write = ThriftValue::Struct(vec![(3, counter.clone())]);
    let mutation = ThriftValue::List(vec![ThriftValue::Struct(vec![(1, write)])]);
    let families = ThriftValue::Map(vec![(text("C"), mutation)]);
    let rows = || vec![(1, ThriftValue::Map(vec![(text("k"), families.clone())])), (2, level(1))];
    let why = "Counter mutations are not allowed in atomic batches";
    assert_eq!(caller.refused("atomic_batch_mutate", rows()), (1, why.to_owned()));
    assert_eq!(caller.call("batch_mutate", rows()), Ok(vec![]));
}

/// Each call of 0.4 begins with the keyspace.
#[test]
fn calls_of_0_4_name_their_keyspace() {
    let mut options = Options::ephemeral();
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    options.thrift_0_4 = true;
    let server = Server::start(options).unwrap();
    let mut caller = Caller::connect(&server);
    let family = |name: &str| {
        let types = [5, 15, 26].map(|number| (number, text("UTF8Type")));
        ThriftValue::Struct([&[(1, text("K")), (2, text(name))][..], &types].concat())
    };
    let mut supers = vec![(1, text("K")), (2, text("S")), (3, text("Super"))];
    supers.extend([5, 6, 15, 26].map(|number| (number, text("UTF8Type"))));
    let def = ThriftValue::Struct(vec![
        (1, text("K")),
        (2, text("SimpleStrategy")),
        (4, ThriftValue::I32(1)),
        (5, ThriftValue::List(vec![family("F"), ThriftValue::Struct(supers)])),
    ]);
    caller.given("system_add_keyspace", vec![(1, def)]);
    let (one, at) = (ThriftValue::I32(1), ThriftValue::I64(7));
    let path =
        |family: &str, name: &str| ThriftValue::Struct(vec![(3, text(family)), (5, text(name))]);
    let parent = || ThriftValue::Struct(vec![(3, text("F"))]);
    let keyed = |key: &str| vec![(1, text("K")), (2, text(key))];
    let with = |mut first: Fields, more: Fields| {
        first.extend(more);
        first
    };
    for (key, name) in [("r", "a"), ("r", "b"), ("s", "a")] {
        let more = vec![(3, path("F", name)), (4, text("v")), (5, at.clone()), (6, one.clone())];
        assert_eq!(caller.call("insert", with(keyed(key), more)), Ok(vec![]));
    }
    let inner = ThriftValue::Struct(vec![(1, text("c")), (2, text("w")), (3, at.clone())]);
    let super_column =
        ThriftValue::Struct(vec![(1, text("sc")), (2, ThriftValue::List(vec![inner.clone()]))]);
    let write = |number, of| ThriftValue::List(vec![ThriftValue::Struct(vec![(number, of)])]);
    let rows =
        ThriftValue::Map(vec![(text("S"), write(2, super_column)), (text("F"), write(1, inner))]);
    let more = vec![(3, rows), (4, one.clone())];
    assert_eq!(caller.call("batch_insert", with(keyed("r"), more)), Ok(vec![]));

    let name_of =
        |found: &ThriftValue<'static>| text_of(field(field(found, 1).unwrap(), 1).unwrap());
    let found = caller.given("get", with(keyed("r"), vec![(3, path("F", "a")), (4, one.clone())]));
    assert_eq!(name_of(&found), "a");
    let whole =
        [(1, text("")), (2, text("")), (3, ThriftValue::Bool(false)), (4, ThriftValue::I32(9))];
    let predicate = ThriftValue::Struct(vec![(2, ThriftValue::Struct(whole.to_vec()))]);
    let more = vec![(3, parent()), (4, predicate.clone()), (5, one.clone())];
    let ThriftValue::List(slice) = caller.given("get_slice", with(keyed("r"), more)) else {
        panic!("no list")
    };
    assert_eq!(slice.iter().map(name_of).collect::<String>(), "abc");
    let more = vec![(3, parent()), (4, one.clone())];
    assert_eq!(caller.given("get_count", with(keyed("r"), more)), ThriftValue::I32(3));
    let keys = |of: &[&str]| (2, ThriftValue::List(of.iter().map(|k| text(k)).collect()));
    let more = vec![(1, text("K")), keys(&["r", "s", "t"]), (3, path("F", "b")), (4, one.clone())];
    let ThriftValue::Map(columns) = caller.given("multiget", more) else { panic!("no map") };
    assert_eq!(columns.len(), 1);
    let more =
        vec![(1, text("K")), keys(&["r", "s"]), (3, parent()), (4, predicate), (5, one.clone())];
    let ThriftValue::Map(slices) = caller.given("multiget_slice", more) else { panic!("no map") };
    assert_eq!(slices.len(), 2);
    let more = vec![
        (1, text("K")),
        (2, text("F")),
        (3, text("")),
        (4, text("")),
        (5, ThriftValue::I32(9)),
    ];
    let ThriftValue::List(all) = caller.given("get_key_range", more) else { panic!("no list") };
    assert_eq!(all.len(), 2);
    let more = vec![(3, path("F", "a")), (4, ThriftValue::I64(8)), (5, one.clone())];
    assert_eq!(caller.call("remove", with(keyed("r"), more)), Ok(vec![]));
    let get = with(keyed("r"), vec![(3, path("F", "a")), (4, one.clone())]);
    assert_eq!(caller.refused("get", get).0, 2);
    let ThriftValue::Map(described) = caller.given("describe_keyspace", vec![(1, text("K"))])
    else {
        panic!("no map")
    };
    assert_eq!(described.len(), 2);
    let ThriftValue::List(names) =
        caller.given("get_string_list_property", vec![(1, text("keyspaces"))])
    else {
        panic!("no list")
    };
    assert_eq!(names, [text("K")]);
    let nowhere = vec![(1, text("X")), (2, text("r")), (3, path("F", "a")), (4, one)];
    let refused = (1, "Keyspace X does not exist".to_owned());
    assert_eq!(caller.refused("get", nowhere), refused);
}
