//! Byte-level exchanges on the Thrift port: both framings, both forms of messages, logins, and the
//! treatment of clients that violate the protocol.

#![allow(clippy::disallowed_methods, reason = "a client has no environment")]

use super::common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use firn_server::{Options, Server};
use firn_testkit::rng::Rng;

fn options() -> Options {
    let mut options = Options::ephemeral();
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    options
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Returns a text field of a structure.
fn field(number: u16, value: &str) -> Vec<u8> {
    [&[11][..], &number.to_be_bytes(), &text(value)].concat()
}

fn message(strict: bool, method: &str, arguments: &[u8]) -> Vec<u8> {
    let head = match strict {
        true => [&[0x80, 1, 0, 1][..], &text(method)].concat(),
        false => [&text(method)[..], &[1]].concat(),
    };
    [&head[..], &7u32.to_be_bytes(), arguments, &[0]].concat()
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
}

struct Peer(TcpStream);

impl Peer {
    fn connect(address: SocketAddr) -> Peer {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Peer(socket)
    }

    /// Reads until these bytes arrive; `None` if the server closes the connection before.
    fn until(&mut self, wanted: &[u8]) -> Option<Vec<u8>> {
        let mut all = vec![];
        let mut byte = [0];
        while !all.windows(wanted.len()).any(|w| w == wanted) {
            if self.0.read(&mut byte).ok()? == 0 {
                return None;
            }
            all.push(byte[0]);
        }
        Some(all)
    }
}

#[test]
fn replies_have_the_framing_of_their_calls() {
    let server = Server::start(options()).unwrap();
    let address = server.thrift_address().unwrap();
    for strict in [true, false] {
        for is_framed in [true, false] {
            let mut peer = Peer::connect(address);
            for _ in 0..3 {
                let call = message(strict, "describe_cluster_name", &[]);
                let call = if is_framed { framed(&call) } else { call };
                // Split at arbitrary positions.
                for part in call.chunks(5) {
                    peer.0.write_all(part).unwrap();
                }
                let answer = peer.until(&text("Firn")).unwrap();
                let at = if is_framed { 4 } else { 0 };
                if strict {
                    assert_eq!(answer[at..at + 4], [0x80, 1, 0, 2]);
                } else {
                    assert_eq!(answer[at..at + 25], text("describe_cluster_name"));
                }
                peer.until(&[0]).unwrap();
            }
        }
    }
}

#[test]
fn a_failed_call_keeps_the_connection_and_a_malformed_message_ends_it() {
    let mut options = options();
    options.login_timeout = Duration::from_secs(2);
    let server = Server::start(options).unwrap();
    let address = server.thrift_address().unwrap();
    let mut peer = Peer::connect(address);
    for (method, arguments, wanted) in [
        ("nothing", vec![], "Invalid method name: 'nothing'"),
        ("set_keyspace", vec![], "Required field 'keyspace' was not present!"),
        ("set_keyspace", field(1, "nowhere"), "Keyspace nowhere does not exist"),
        ("truncate", field(1, "x"), "You have not set a keyspace for this session"),
        ("set_keyspace", vec![8, 0, 1, 0, 0, 0, 1], "set_keyspace"),
        ("execute_cql_query", field(1, "x"), "CQL2 has been removed"),
    ] {
        peer.0.write_all(&framed(&message(true, method, &arguments))).unwrap();
        peer.until(wanted.as_bytes()).unwrap_or_else(|| panic!("{method}: {wanted}"));
    }
    peer.0.write_all(&framed(&message(true, "describe_snitch", &[]))).unwrap();
    peer.until(b"SimpleSnitch").unwrap();
    let deep = [&[15, 0, 1][..], &[15, 0, 0, 0, 1].repeat(40)].concat();
    let long = vec![15, 0, 1, 2, 0x7f, 255, 255, 255];
    for bytes in [
        framed(&message(true, "get", &deep)),
        framed(&message(true, "get", &long)),
        // Looks like a method's name, and never continues.
        framed(b"GET / HTTP/1.1\r\n\r\n"),
        vec![0x7f, 255, 255, 255, 0x80, 1, 0, 1],
        [&[0x80, 2, 0, 1][..], &text("get"), &[0; 5]].concat(),
        framed(&[&message(true, "describe_snitch", &[])[..], &[1, 2]].concat()),
    ] {
        let mut peer = Peer::connect(address);
        peer.0.write_all(&bytes).unwrap();
        assert_eq!(peer.until(b"never"), None, "{bytes:?}");
    }
}

#[test]
fn a_role_that_can_log_in_makes_logins_required() {
    let session = firn_cql::Session::in_memory().unwrap();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE ROLE ann WITH PASSWORD = 'secret' AND LOGIN = true",
        "CREATE TABLE ks.f (key text, column1 text, value text MASKED WITH DEFAULT, PRIMARY KEY (key, column1)) WITH COMPACT STORAGE",
        "INSERT INTO ks.f (key, column1, value) VALUES ('k', 'c', 'a value')",
        "GRANT SELECT ON ks.f TO ann",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let server = Server::start_with_session(session, options()).unwrap();
    let session = server.session();
    let credentials = |password: &str| {
        let pairs = [("username", "ann"), ("password", password)];
        let pairs: Vec<u8> = pairs.iter().flat_map(|(k, v)| [text(k), text(v)].concat()).collect();
        let map = [&[13, 0, 1, 11, 11, 0, 0, 0, 2][..], &pairs, &[0]].concat();
        [&[12, 0, 1][..], &map].concat()
    };
    let mut peer = Peer::connect(server.thrift_address().unwrap());
    let mut said = |method: &str, arguments: &[u8], wanted: &str| {
        peer.0.write_all(&framed(&message(true, method, arguments))).unwrap();
        peer.until(wanted.as_bytes()).unwrap_or_else(|| panic!("{method}: {wanted}"));
    };
    said("set_keyspace", &field(1, "ks"), "You have not logged in");
    said("login", &credentials("guess"), "Provided username and/or password are incorrect");
    said("login", &credentials("secret"), "login");
    said("set_keyspace", &field(1, "ks"), "set_keyspace");
    said("truncate", &field(1, "t"), "User ann has no MODIFY permission on <table ks.t>");
    said("system_drop_keyspace", &field(1, "ks"), "no DROP permission on <keyspace ks>");
    let create =
        [field(1, "CREATE TABLE t (k int PRIMARY KEY)"), vec![8, 0, 2, 0, 0, 0, 2]].concat();
    said("execute_cql3_query", &create, "no CREATE permission on <keyspace ks>");
    // Thrift does not mask: a role without the permission gets an error.
    let path = [&[12, 0, 2][..], &field(3, "f"), &field(5, "c"), &[0]].concat();
    let get = [&field(1, "k")[..], &path, &[8, 0, 3, 0, 0, 0, 1]].concat();
    said("get", &get, "User ann has no UNMASK permission on <table ks.f>");
    session.execute("GRANT UNMASK ON ks.f TO ann", ()).unwrap();
    said("get", &get, "a value");
}

#[test]
fn thrift_batches_have_the_native_limits() {
    for (fail_bytes, is_refused) in [(50 << 10, true), (usize::MAX, false)] {
        let mut options = options();
        options.batches.fail_bytes = fail_bytes;
        let server = Server::start(options).unwrap();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
        ] {
            server.session().execute(cql, ()).unwrap();
        }
        let row = |k: i32| {
            let long = "x".repeat(30_000);
            format!("INSERT INTO ks.t (k, v) VALUES ({k}, '{long}')")
        };
        let batch =
            |keys: [i32; 2]| format!("BEGIN BATCH {} {} APPLY BATCH", row(keys[0]), row(keys[1]));
        let compression = [8, 0, 2, 0, 0, 0, 2];
        let level = [8, 0, 3, 0, 0, 0, 1];
        let mut peer = Peer::connect(server.thrift_address().unwrap());
        let said = |peer: &mut Peer, method: &str, arguments: &[u8], wanted: &[u8]| {
            peer.0.write_all(&framed(&message(true, method, arguments))).unwrap();
            peer.until(wanted).unwrap_or_else(|| panic!("{method}"));
        };
        // The result of a statement without rows: its type.
        let void: &[u8] = &[8, 0, 1, 0, 0, 0, 2];
        let across = if is_refused { b"Batch too large" } else { void };
        // One partition has no limit.
        for (keys, wanted) in [([1, 1], void), ([1, 2], across)] {
            let text = field(1, &batch(keys));
            let query = [&text[..], &compression, &level].concat();
            said(&mut peer, "execute_cql3_query", &query, wanted);
            // The first field of a prepared result is its number.
            let prepare = [&text[..], &compression].concat();
            said(&mut peer, "prepare_cql3_query", &prepare, &[8, 0, 1]);
            let mut number = [0; 4];
            peer.0.read_exact(&mut number).unwrap();
            let execute = [&[8, 0, 1][..], &number, &[15, 0, 2, 11, 0, 0, 0, 0], &level].concat();
            said(&mut peer, "execute_prepared_cql3_query", &execute, wanted);
        }
    }
}

#[test]
fn native_clients_get_events_of_thrift_schema_changes() {
    let server = Server::start(options()).unwrap();
    let mut listener = common::Peer::ready(server.address(), 5);
    let kinds = [&common::short(1)[..], &common::string("SCHEMA_CHANGE")].concat();
    listener.send(1, common::REGISTER, &kinds);
    assert_eq!(listener.receive().unwrap().opcode, common::READY);
    let mut peer = Peer::connect(server.thrift_address().unwrap());
    let definition = |factor: &str| {
        let pair = [text("replication_factor"), text(factor)].concat();
        let options = [&[13, 0, 3, 11, 11, 0, 0, 0, 1][..], &pair].concat();
        let names = [field(1, "ks"), field(2, "SimpleStrategy")].concat();
        [&[12, 0, 1][..], &names, &options, &[15, 0, 5, 12, 0, 0, 0, 0, 0]].concat()
    };
    for (method, arguments, reported) in [
        ("system_add_keyspace", definition("1"), "CREATED"),
        ("system_update_keyspace", definition("2"), "UPDATED"),
        ("system_drop_keyspace", field(1, "ks"), "DROPPED"),
    ] {
        peer.0.write_all(&framed(&message(true, method, &arguments))).unwrap();
        // The version of the schema.
        peer.until(&[11, 0, 0, 0, 0, 0, 36]).unwrap();
        let event = listener.receive().unwrap();
        assert_eq!((event.opcode, event.stream), (common::EVENT, -1));
        let parts = ["SCHEMA_CHANGE", reported, "KEYSPACE", "ks"].map(common::string).concat();
        assert_eq!(event.body, parts, "{method}");
    }
}

#[test]
fn native_clients_see_a_column_family_as_a_table() {
    let server = Server::start(options()).unwrap();
    let session = server.session();
    session
        .execute(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )
        .unwrap();
    let mut listener = common::Peer::ready(server.address(), 5);
    let kinds = [&common::short(1)[..], &common::string("SCHEMA_CHANGE")].concat();
    listener.send(1, common::REGISTER, &kinds);
    assert_eq!(listener.receive().unwrap().opcode, common::READY);
    let mut peer = Peer::connect(server.thrift_address().unwrap());
    let said = |peer: &mut Peer, method: &str, arguments: &[u8], wanted: &[u8]| {
        peer.0.write_all(&framed(&message(true, method, arguments))).unwrap();
        peer.until(wanted).unwrap_or_else(|| panic!("{method}"));
    };
    let mut reported = |word: &str| {
        let parts = ["SCHEMA_CHANGE", word, "TABLE", "ks", "f"].map(common::string).concat();
        assert_eq!(listener.receive().unwrap().body, parts);
    };
    said(&mut peer, "set_keyspace", &field(1, "ks"), b"set_keyspace");
    let types = [5, 15, 26].map(|number| field(number, "UTF8Type")).concat();
    let names = [field(1, "ks"), field(2, "f")].concat();
    let definition = [&[12, 0, 1][..], &names, &types, &[0]].concat();
    said(&mut peer, "system_add_column_family", &definition, &[11, 0, 0, 0, 0, 0, 36]);
    reported("CREATED");
    let insert = "INSERT INTO ks.f (key, column1, value) VALUES ('k', 'c', 'a value')";
    session.execute(insert, ()).unwrap();
    let path = [&[12, 0, 2][..], &field(3, "f"), &field(5, "c"), &[0]].concat();
    let get = [&field(1, "k")[..], &path, &[8, 0, 3, 0, 0, 0, 1]].concat();
    said(&mut peer, "get", &get, b"a value");
    said(&mut peer, "system_drop_column_family", &field(1, "f"), &[11, 0, 0, 0, 0, 0, 36]);
    reported("DROPPED");
    let gone = session.execute(insert, ()).unwrap_err();
    assert_eq!(gone.to_string(), "table f does not exist");
}

#[test]
fn a_traced_call_is_listed() {
    let server = Server::start(options()).unwrap();
    let mut peer = Peer::connect(server.thrift_address().unwrap());
    let mut ask = |method: &str, arguments: &[u8], wanted: &[u8]| {
        peer.0.write_all(&framed(&message(true, method, arguments))).unwrap();
        peer.until(wanted).unwrap();
    };
    ask("trace_next_query", &[], &[11, 0, 0, 0, 0, 0, 16]);
    let mut identity = [0; 17];
    peer.0.read_exact(&mut identity).unwrap();
    let mut ask = |method: &str, arguments: &[u8], wanted: &[u8]| {
        peer.0.write_all(&framed(&message(true, method, arguments))).unwrap();
        peer.until(wanted).unwrap();
    };
    ask("set_keyspace", &field(1, "nowhere"), b"Keyspace nowhere does not exist");
    ask("describe_snitch", &[], b"SimpleSnitch");
    let rows = |cql: &str| server.session().execute(cql, ()).unwrap();
    let sessions = rows("SELECT session_id, request FROM system_traces.sessions");
    assert_eq!(sessions.len(), 1);
    let session = sessions.row(0).unwrap();
    assert_eq!(session.bytes(0).unwrap(), &identity[..16]);
    assert_eq!(session.get::<String>("request").unwrap(), "set_keyspace");
    let events = rows("SELECT activity FROM system_traces.events");
    assert_eq!(
        events.typed::<(String,)>().unwrap(),
        [("Refused: Keyspace nowhere does not exist".to_owned(),)]
    );
}

#[test]
fn random_bytes_are_answered_or_end_the_connection() {
    let server = Server::start(options()).unwrap();
    let address = server.thrift_address().unwrap();
    let mut rng = Rng::new(13);
    let mut next = || rng.next_u64();
    for round in 0..200 {
        let body: Vec<u8> = (0..next() % 80).map(|_| (next() % 17) as u8).collect();
        let call = message(round % 2 == 0, "batch_mutate", &body);
        let call = if round % 3 == 0 { call } else { framed(&call) };
        let mut peer = Peer::connect(address);
        // The server may have closed it already.
        let _ = peer.0.write_all(&call);
        let _ = peer.0.shutdown(std::net::Shutdown::Write);
        let mut rest = vec![];
        let _ = peer.0.read_to_end(&mut rest);
    }
    let mut peer = Peer::connect(address);
    peer.0.write_all(&framed(&message(true, "describe_version", &[]))).unwrap();
    peer.until(b"20.1.0").unwrap();
}
