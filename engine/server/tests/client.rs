//! The client against the server, which must return the same as a session; and against servers that
//! violate the protocol.

#![allow(clippy::disallowed_methods, reason = "a server of a test has no environment")]

use super::common;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{frame, int, segment, short, string, value};
use firn_cql::{BoundValue, LoggedSize, LoggedStatement};
use firn_server::client::{ClientError, ClientOptions, ClientRun, Consistency, CqlClient};
use firn_server::internals::wire::{
    BatchMember, BatchRequest, Opcode, QueryParameters, Version, WireConsistency, WireRequest,
    WireValue,
};
use firn_server::{Options, Server};

fn connect(server: &Server) -> CqlClient {
    CqlClient::connect(&ClientOptions::new(server.address().to_string())).unwrap()
}

/// Starts a server that answers the first request of each connection, and then each further read,
/// with the result of `answer`. `None` ends the connection.
fn with_odd_server(answer: impl Fn(usize, u8) -> Option<Vec<u8>> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let talk = move |mut socket: TcpStream| {
        let (mut buffer, mut version, mut turn) = ([0; 4096], 0, 0);
        while socket.read(&mut buffer).is_ok_and(|n| n > 0) {
            version = if turn == 0 { buffer[0] } else { version };
            let Some(bytes) = answer(turn, version) else { return };
            socket.write_all(&bytes).unwrap();
            turn += 1;
        }
    };
    std::thread::Builder::new()
        .spawn(move || listener.incoming().flatten().for_each(&talk))
        .unwrap();
    address
}

/// Returns the frame of a response on this stream.
fn response(version: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    frame(version | 0x80, 0, stream, opcode, body)
}

const READY: u8 = 2;
const RESULT: u8 = 8;

/// Returns the client's error for these bytes as the response to its first statement, in version 4.
fn reported(body: Vec<u8>) -> ClientError {
    let address = with_odd_server(move |turn, version| match (version, turn) {
        (4, 0) => Some(response(4, 1, READY, &[])),
        (4, 1) => Some(body.clone()),
        (4, _) => None,
        _ => {
            let text = string("Invalid or unsupported protocol version");
            Some(response(4, 0, 0, &[&int(0x0a)[..], &text].concat()))
        }
    });
    let mut options = ClientOptions::new(address);
    options.max_response = 1 << 20;
    options.request_timeout = Some(Duration::from_millis(300));
    let mut client = CqlClient::connect(&options).unwrap();
    assert_eq!(client.version(), 4);
    let error = client.query("SELECT * FROM t", &ClientRun::default()).unwrap_err();
    assert!(!client.is_open());
    let after = client.query("SELECT * FROM t", &ClientRun::default()).unwrap_err();
    assert!(matches!(after, ClientError::Lost(_)), "{after}");
    error
}

#[test]
fn a_client_reads_what_a_session_reads() {
    let server = Server::start(Options::ephemeral()).unwrap();
    let session = server.session();
    let types = "a ascii, b bigint, c blob, d boolean, e date, f decimal, g double, h duration, i float, j inet, k int, l smallint, \
                 m text, n time, o timestamp, p timeuuid, q tinyint, r uuid, s varint, t list<int>, u set<text>, v map<text, frozen<list<int>>>, \
                 w tuple<int, text>, x frozen<pair>, y pair, z vector<frozen<list<int>>, 2>";
    let values = "'a', 1, 0x00ff, true, '2020-01-02', 1.5, 0.1, 1mo2d3h, 0.5, '::1', -1, 2, 'ü', '08:12:54.1', '2020-01-01', \
                  50554d6e-29bb-11e5-b345-feff819cdc9f, 3, 550e8400-e29b-41d4-a716-446655440000, 123456789012345678901234567890, [1], {'x'}, \
                  {'y': [2]}, (1, null), {one: 1, \"Two\": ['z']}, {one: 2}, [[1], [2, 3]]";
    let names: Vec<String> = (b'a'..=b'z').map(|letter| char::from(letter).to_string()).collect();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE ks",
        "CREATE TYPE pair (one int, \"Two\" frozen<list<text>>)",
        &format!("CREATE TABLE t (id int PRIMARY KEY, {types})"),
        &format!("INSERT INTO t (id, {}) VALUES (1, {values})", names.join(", ")),
        "INSERT INTO t (id) VALUES (2)",
        "CREATE TABLE counts (id int PRIMARY KEY, n counter)",
        "UPDATE counts SET n = n + 5 WHERE id = 1",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let mut client = connect(&server);
    assert_eq!(client.version(), 5);
    client.use_keyspace("ks").unwrap();
    assert_eq!(client.keyspace(), Some("ks"));
    for cql in [
        "SELECT * FROM t",
        "SELECT * FROM counts",
        "DESCRIBE TABLE t",
        "SELECT * FROM system_schema.columns",
    ] {
        let here = session.execute(cql, ()).unwrap();
        let there = client.query(cql, &ClientRun::default()).unwrap().rows;
        assert_eq!(here.len(), there.len(), "{cql}");
        for (a, b) in here.columns().iter().zip(there.columns().iter()) {
            assert_eq!((&a.keyspace, &a.table, &a.name), (&b.keyspace, &b.table, &b.name));
            assert_eq!(a.column_type.value_type, b.column_type.value_type, "{cql}: {}", a.name);
        }
        for (a, b) in here.iter().zip(there.iter()) {
            (0..here.columns().len()).for_each(|c| assert_eq!(a.bytes(c), b.bytes(c), "{cql}"));
        }
    }
    // With paging, prepared, and traced.
    let mut how = ClientRun { page_size: Some(1), traced: true, ..ClientRun::default() };
    let first = client.query("SELECT id FROM t", &how).unwrap();
    assert!(first.trace.is_some() && first.rows.len() == 1);
    how.paging = first.rows.paging().cloned();
    let second = client.query("SELECT id FROM t", &how).unwrap().rows;
    assert!(
        second.len() == 1 && second.row(0).unwrap().bytes(0) != first.rows.row(0).unwrap().bytes(0)
    );
    let mut one = client.prepare("SELECT m FROM t WHERE id = ?").unwrap();
    assert_eq!((one.markers()[0].name.as_str(), one.columns()[0].name.as_str()), ("id", "m"));
    let key = [BoundValue::Bytes(int(1).to_vec())];
    let run = ClientRun { consistency: Consistency::Quorum, ..ClientRun::default() };
    assert_eq!(
        client
            .execute(&mut one, &key, &run)
            .unwrap()
            .rows
            .row(0)
            .unwrap()
            .get::<String>("m")
            .unwrap(),
        "ü"
    );
    // A trace contains the bound values and all parameters of the request.
    let traced = ClientRun { traced: true, ..run };
    let traced = client.execute(&mut one, &key, &traced).unwrap().trace.unwrap();
    let shown = "SELECT parameters FROM system_traces.sessions WHERE session_id = ?";
    let shown = session.execute(shown, vec![BoundValue::Bytes(traced.to_vec())]).unwrap();
    let parameters = shown.typed::<(BTreeMap<String, String>,)>().unwrap().remove(0).0;
    for (name, value) in [
        ("query", "SELECT m FROM t WHERE id = ?"),
        ("bound_var_0_id", "1"),
        ("consistency_level", "QUORUM"),
        ("serial_consistency_level", "SERIAL"),
    ] {
        assert_eq!(parameters.get(name).map(|v| &**v), Some(value), "{parameters:?}");
    }
    // A refused statement leaves the connection usable.
    let refused = client.query("SELECT nope FROM t", &ClientRun::default()).unwrap_err();
    assert_eq!(
        (refused.class(), refused.to_string().as_str()),
        ("InvalidRequest", "Undefined column name nope in table ks.t")
    );
    assert!(client.is_open());
    let warned = client.query("SELECT count(*) FROM t", &ClientRun::default()).unwrap().rows;
    assert_eq!(
        warned.warnings(),
        session.execute("SELECT count(*) FROM t", ()).unwrap().warnings()
    );
}

#[test]
fn a_value_of_many_segments_is_returned_complete() {
    let server = Server::start(Options::ephemeral()).unwrap();
    let mut client = connect(&server);
    let long = "y".repeat(400_000);
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (id int PRIMARY KEY, v text)",
        &format!("INSERT INTO ks.t (id, v) VALUES (1, '{long}')"),
    ] {
        client.query(cql, &ClientRun::default()).unwrap();
    }
    let rows = client.query("SELECT v FROM ks.t", &ClientRun::default()).unwrap().rows;
    assert_eq!(rows.typed::<(String,)>().unwrap(), [(long,)]);
}

#[test]
fn logins_are_required_and_checked() {
    let mut options = Options::ephemeral();
    options.login = Some(true);
    let session = firn_cql::Session::in_memory().unwrap();
    session.execute("CREATE ROLE ann WITH PASSWORD = 'secret' AND LOGIN = true", ()).unwrap();
    let server = Server::start_with_session(session, options).unwrap();
    let mut options = ClientOptions::new(server.address().to_string());
    let wanted = CqlClient::connect(&options).unwrap_err();
    assert!(matches!(wanted, ClientError::LoginRequired), "{wanted}");
    options.login = Some(("ann".to_owned(), "guess".to_owned()));
    assert!(!format!("{options:?}").contains("guess"));
    let refused = CqlClient::connect(&options).unwrap_err();
    assert_eq!(refused.class(), "BadCredentials");
    options.login = Some(("ann".to_owned(), "secret".to_owned()));
    let mut client = CqlClient::connect(&options).unwrap();
    client.query("SELECT key FROM system.local", &ClientRun::default()).unwrap();
}

#[test]
fn a_lost_server_is_noticed() {
    let server = Server::start(Options::ephemeral()).unwrap();
    let address = server.address();
    let mut client = connect(&server);
    assert!(client.is_open());
    server.stop().unwrap();
    assert!(!client.is_open());
    assert!(matches!(client.query("USE x", &ClientRun::default()), Err(ClientError::Lost(_))));
    let nobody = CqlClient::connect(&ClientOptions::new(address.to_string())).unwrap_err();
    assert!(matches!(nobody, ClientError::Unreachable(..)), "{nobody}");
}

#[test]
fn a_timed_out_response_ends_the_connection() {
    let address = with_odd_server(|turn, version| {
        (turn == 0).then(|| response(version, 1, READY, &[])).or(Some(vec![]))
    });
    let mut options = ClientOptions::new(address.clone());
    options.request_timeout = Some(Duration::from_millis(50));
    let mut client = CqlClient::connect(&options).unwrap();
    let late = client.query("SELECT", &ClientRun::default()).unwrap_err();
    assert!(late.to_string().contains("no answer came for 0.05 s"), "{late}");
    let mut client = CqlClient::connect(&ClientOptions::new(address)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let other = stop.clone();
    let presses = std::thread::Builder::new().spawn(move || other.store(true, Ordering::Relaxed));
    let how = ClientRun { stop: Some(stop), ..ClientRun::default() };
    assert!(matches!(client.query("SELECT", &how), Err(ClientError::Stopped)));
    presses.unwrap().join().unwrap();
    assert!(!client.is_open());
}

#[test]
fn invalid_requests_are_refused_without_harm() {
    let rows = |flags: i32, columns: i32, rest: &[u8]| {
        let body = [&int(2)[..], &int(flags), &int(columns), rest].concat();
        response(4, 2, RESULT, &body)
    };
    let tables = [string("k"), string("t")].concat();
    let nested: Vec<u8> = [&tables[..], &string("c"), &short(0x20).repeat(100_000)].concat();
    let five: Vec<u8> = (0..5)
        .flat_map(|_| {
            [&string("c")[..], &short(0x31), &short(u16::MAX), &short(9).repeat(65_535)].concat()
        })
        .collect();
    let wide = [&tables[..], &five].concat();
    let named = [string(&"k".repeat(60_000)), string("t")].concat();
    let one_column = [&tables[..], &string("c"), &short(9)].concat();
    for (what, bytes, wanted) in [
        (
            "another protocol",
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            "unsupported protocol version",
        ),
        ("a request", frame(4, 0, 2, 7, &[]), "No response has the opcode"),
        ("an opcode", response(4, 2, 0x77, &[]), "No response has the opcode"),
        (
            "a length",
            [&[0x84, 0, 0, 2, RESULT][..], &int(i32::MAX)].concat(),
            "Response is too big",
        ),
        (
            "half a frame",
            [&[0x84, 0, 0, 2, RESULT][..], &int(100), &[0; 9]].concat(),
            "no answer came",
        ),
        ("a kind", response(4, 2, RESULT, &int(77)), "No result is of the kind 77"),
        ("no kind", response(4, 2, RESULT, &[0]), "ends within"),
        ("columns", rows(1, i32::MAX, &tables), "There are 2147483647 columns"),
        ("fewer columns", rows(1, -1, &tables), "There are -1 columns"),
        ("no columns", rows(4, 3, &int(1)), "Rows came without their columns"),
        ("deep types", rows(1, 1, &nested), "nested over 32 deep"),
        ("wide types", rows(1, 5, &wide), "too many types"),
        ("a long name", rows(1, 60_000, &named), "name of a table is too long"),
        (
            "rows",
            rows(1, 1, &[&one_column[..], &int(i32::MAX), &value(&[0; 4])].concat()),
            "ends within",
        ),
        (
            "a value",
            rows(1, 1, &[&one_column[..], &int(1), &int(i32::MAX)].concat()),
            "ends within",
        ),
        ("another answer", response(4, 2, READY, &[]), "READY is no answer"),
        (
            "a change",
            response(4, 2, RESULT, &[&int(5)[..], &string("MOVED")].concat()),
            "No change",
        ),
    ] {
        let error = reported(bytes).to_string();
        assert!(error.contains(wanted), "{what}: {error}");
    }
    // A response to an unknown stream, then one to the right one.
    let late = [response(4, 9, RESULT, &int(1)), response(4, 2, RESULT, &int(77))].concat();
    assert!(reported(late).to_string().contains("kind 77"));
    // Damaged segments.
    let address = with_odd_server(|turn, version| match turn {
        0 => Some(response(version, 1, READY, &[])),
        _ => {
            let mut bytes = segment(&response(version, 2, RESULT, &int(1)), true);
            bytes[8] ^= 1;
            Some(bytes)
        }
    });
    let mut client = CqlClient::connect(&ClientOptions::new(address)).unwrap();
    let error = client.query("SELECT", &ClientRun::default()).unwrap_err();
    assert!(error.to_string().contains("corrupt frame"), "{error}");
}

#[test]
fn an_unknown_class_is_bytes() {
    let class = "org.apache.cassandra.db.marshal.PartitionType(s=>org.apache.cassandra.db.marshal.UTF8Type)";
    let address = with_odd_server(move |turn, version| {
        let body = [
            &int(2)[..],
            &int(1),
            &int(1),
            &string("k"),
            &string("t"),
            &string("v"),
            &short(0),
            &string(class),
            &int(1),
            &value(&[1, 2, 0xff]),
        ]
        .concat();
        match turn {
            0 => Some(response(version, 1, READY, &[])),
            _ => Some(segment(&response(version, 2, RESULT, &body), true)),
        }
    });
    let mut client = CqlClient::connect(&ClientOptions::new(address)).unwrap();
    let rows = client.query("SELECT v FROM t", &ClientRun::default()).unwrap().rows;
    let (of, bytes) =
        (&rows.columns()[0].column_type.value_type, rows.row(0).unwrap().bytes(0).unwrap());
    assert_eq!(of.full_name(), class);
    let text = of.to_text(bytes, firn_wide::Wording::Cql);
    assert_eq!(text, "0x0102ff");
    let firn_wide::Type::Custom(custom) = of else { panic!("{of:?}") };
    let mut back = vec![];
    custom.0.from_text(&text, &mut back).unwrap();
    assert_eq!(back, bytes);
    assert!(["0x1", "0xgg", "vector"].iter().all(|t| custom.0.from_text(t, &mut back).is_err()));
}

#[test]
fn a_request_is_read_as_it_was_written() {
    let full = |version: Version| QueryParameters {
        consistency: WireConsistency::LocalQuorum,
        values: vec![(Some("a"), WireValue::Bytes(b"x")), (Some("b"), WireValue::Null)],
        skip_metadata: true,
        page_size: Some(7),
        paging_state: Some(b"state"),
        serial_consistency: Some(WireConsistency::LocalSerial),
        timestamp: Some(-5),
        keyspace: (version == Version::V5).then_some("ks"),
        now_in_seconds: (version == Version::V5).then_some(9),
    };
    for version in [Version::V3, Version::V4, Version::V5] {
        let is_v5 = version == Version::V5;
        let batch = BatchRequest {
            kind: firn_cql::BatchKind::Counter,
            members: vec![
                BatchMember { statement: Ok("UPDATE"), values: vec![WireValue::Bytes(b"v")] },
                BatchMember { statement: Err(b"id"), values: vec![] },
            ],
            parameters: QueryParameters {
                consistency: WireConsistency::All,
                values: vec![],
                skip_metadata: false,
                page_size: None,
                paging_state: None,
                serial_consistency: Some(WireConsistency::Serial),
                timestamp: Some(1),
                keyspace: is_v5.then_some("ks"),
                now_in_seconds: None,
            },
        };
        let requests = [
            WireRequest::Startup(vec![("CQL_VERSION", "3.0.0")]),
            WireRequest::Options,
            WireRequest::Register(vec!["SCHEMA_CHANGE"]),
            WireRequest::AuthResponse(Some(b"\0ann\0secret")),
            WireRequest::Prepare(firn_server::internals::wire::PrepareRequest {
                text: "SELECT",
                keyspace: is_v5.then_some("ks"),
            }),
            WireRequest::Query(firn_server::internals::wire::QueryRequest {
                text: "SELECT",
                parameters: full(version),
            }),
            WireRequest::Execute(firn_server::internals::wire::ExecuteRequest {
                id: b"id",
                metadata_id: is_v5.then_some(b"meta"),
                parameters: full(version),
            }),
            WireRequest::Batch(batch),
        ];
        for request in requests {
            let mut body = vec![];
            request.put(&mut body, version);
            let opcode: Opcode = request.opcode();
            let read = WireRequest::read(opcode, version, false, &body).unwrap();
            assert_eq!(format!("{read:?}"), format!("{request:?}"));
        }
    }
}

#[test]
fn statements_are_logged_to_a_file() {
    let file = std::env::temp_dir().join(format!("firn-server-asked-{}", std::process::id()));
    let mut options = Options::ephemeral();
    options.statement_log = Some(file.clone());
    let server = Server::start(options).unwrap();
    let mut client = connect(&server);
    let how = ClientRun::default();
    client.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", &how).unwrap();
    client.query("CREATE TABLE k.t (id int PRIMARY KEY, v text)", &how).unwrap();
    let mut insert = client.prepare("INSERT INTO k.t (id, v) VALUES (?, ?)").unwrap();
    let values = [&[0, 0, 0, 1][..], b"a secret"].map(|bytes| BoundValue::Bytes(bytes.to_vec()));
    client.execute(&mut insert, &values, &how).unwrap();
    server.stop().unwrap();

    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    let lines: Vec<_> = text.lines().map(|line| LoggedStatement::parse(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!(last.statement.as_deref(), Some("INSERT INTO k.t (id, v) VALUES (?, ?)"));
    assert_eq!(last.values, [4, 8].map(|bytes| Some(LoggedSize::Bytes(bytes))));
    assert!(lines.iter().any(|l| l.statement.as_deref().is_some_and(|s| s.contains("TABLE k.t"))));
    assert!(!text.contains("secret"), "{text}");
}
