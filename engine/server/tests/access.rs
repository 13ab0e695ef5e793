//! Permissions of the system tables; and passwords never appear in them.

#![allow(clippy::disallowed_methods, reason = "clients have no environment")]

use super::common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use common::*;
use firn_cql::Session;
use firn_cql::internals::catalog::system_keyspaces;
use firn_server::{Options, Server};

const AUTH_RESPONSE: u8 = 0x0f;
const AUTH_SUCCESS: u8 = 0x10;
const UNAUTHORIZED: i32 = 0x2100;

/// Returns a database in which `nobody` may log in but has no permissions, and `admin` has all.
fn database() -> Session {
    let session = Session::in_memory().unwrap();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
        "CREATE ROLE nobody WITH PASSWORD = 'n' AND LOGIN = true",
        "CREATE ROLE admin WITH PASSWORD = 'a' AND LOGIN = true AND SUPERUSER = true",
    ] {
        session.execute(cql, ()).unwrap();
    }
    session
}

fn server() -> Server {
    let mut options = Options::ephemeral();
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    Server::start_with_session(database(), options).unwrap()
}

fn login(server: &Server, role: &str, password: &str) -> Peer {
    let mut peer = Peer::connect(server.address(), 4);
    peer.send(1, STARTUP, &map(&[("CQL_VERSION", "3.0.0")]));
    peer.receive().unwrap();
    peer.send(2, AUTH_RESPONSE, &value(format!("\0{role}\0{password}").as_bytes()));
    assert_eq!(peer.receive().unwrap().opcode, AUTH_SUCCESS);
    peer
}

/// A Thrift client.
struct ThriftPeer(TcpStream);

impl ThriftPeer {
    fn connect(server: &Server) -> ThriftPeer {
        let socket = TcpStream::connect(server.thrift_address().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        ThriftPeer(socket)
    }

    /// Returns the bytes of the response. `None`: the server has closed the connection.
    fn call(&mut self, method: &str, arguments: &[u8]) -> Option<Vec<u8>> {
        let text = |text: &str| [&int(text.len() as i32)[..], text.as_bytes()].concat();
        let message = [&[0x80, 1, 0, 1][..], &text(method), &int(7), arguments, &[0]].concat();
        self.0.write_all(&[&int(message.len() as i32)[..], &message].concat()).ok()?;
        let mut len = [0; 4];
        self.0.read_exact(&mut len).ok()?;
        let mut answer = vec![0; u32::from_be_bytes(len) as usize];
        self.0.read_exact(&mut answer).ok()?;
        Some(answer)
    }

    fn log_in(&mut self, role: &str, password: &str) {
        let text = |text: &str| [&int(text.len() as i32)[..], text.as_bytes()].concat();
        let pairs = [text("username"), text(role), text("password"), text(password)].concat();
        let map = [&[13, 0, 1, 11, 11, 0, 0, 0, 2][..], &pairs, &[0]].concat();
        let answer = self.call("login", &[&[12, 0, 1][..], &map].concat()).unwrap();
        assert!(!has(&answer, b"incorrect"));
    }

    fn cql(&mut self, cql: &str) -> Option<Vec<u8>> {
        let query = [&[11, 0, 1][..], &int(cql.len() as i32), cql.as_bytes()].concat();
        // No compression, consistency ONE.
        let rest = [8, 0, 2, 0, 0, 0, 2, 8, 0, 3, 0, 0, 0, 1];
        self.call("execute_cql3_query", &[&query[..], &rest].concat())
    }
}

fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|w| w == wanted)
}

/// Returns the system tables of the page, with whether every role may read them.
fn documented() -> Vec<(String, bool)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serve.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("| system tables | permission |").unwrap();
    let rows = section.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut all = vec![];
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let is_open = cells[1] == "every role";
        let (keyspace, tables) = cells[0].split_once(": ").unwrap();
        let keyspace = keyspace.trim_matches('`');
        for table in tables.split(", ") {
            all.push((format!("{keyspace}.{}", table.trim_matches('`')), is_open));
        }
    }
    all.sort();
    all
}

#[test]
fn a_role_without_permissions_reads_the_documented_system_tables() {
    let mut there: Vec<(String, bool)> = system_keyspaces()
        .flat_map(|keyspace| keyspace.tables())
        .map(|table| {
            let name = firn_cql::quote_if_needed(&table.name);
            (format!("{}.{name}", table.keyspace), table.is_readable_by_all())
        })
        .collect();
    there.sort();
    assert_eq!(
        documented(),
        there,
        "docs/serve.md names every system table, and which roles may read it"
    );

    let server = server();
    let (mut nobody, mut admin) = (login(&server, "nobody", "n"), login(&server, "admin", "a"));
    let mut thrift = ThriftPeer::connect(&server);
    thrift.log_in("nobody", "n");
    for (table, is_open) in &there {
        let cql = format!("SELECT * FROM {table}");
        let answer = nobody.query(&cql);
        let text = format!("User nobody has no SELECT permission on <table {}>", unquoted(table));
        let by_thrift = thrift.cql(&cql).unwrap();
        if *is_open {
            assert_eq!(answer.opcode, RESULT, "{cql}: {:?}", answer.error());
            assert!(!has(&by_thrift, b"has no SELECT permission"), "{cql}");
        } else {
            let (code, said) = answer.error();
            assert!(code == UNAUTHORIZED && said.starts_with(&text), "{cql}: {code} {said}");
            assert!(has(&by_thrift, text.as_bytes()), "{cql}");
        }
        admin.good(&cql);
        // Nor by a prepared statement.
        let prepared = nobody.prepare(&cql);
        nobody.send(3, EXECUTE, &nobody.execute_body(&prepared, &[], 0));
        assert_eq!(nobody.receive().unwrap().opcode == RESULT, *is_open, "{cql}");
    }
    // A grant on a table opens it, and so does one on its keyspace.
    admin.good("GRANT SELECT ON system_views.clients TO nobody");
    nobody.good("SELECT * FROM system_views.clients");
    assert_eq!(nobody.query("SELECT * FROM system_views.queries").error().0, UNAUTHORIZED);
    admin.good("GRANT SELECT ON KEYSPACE system_traces TO nobody");
    nobody.good("SELECT * FROM system_traces.sessions");
    admin.good("REVOKE SELECT ON KEYSPACE system_traces FROM nobody");
    assert_eq!(nobody.query("SELECT * FROM system_traces.events").error().0, UNAUTHORIZED);
}

fn unquoted(table: &str) -> String {
    table.replace('"', "")
}

#[test]
fn passwords_are_not_shown_to_others() {
    let dir = std::env::temp_dir().join(format!("firn-access-{}", std::process::id()));
    let mut options = Options::ephemeral();
    options.statement_log = Some(dir.clone());
    let server = Server::start_with_session(database(), options).unwrap();
    let mut admin = login(&server, "admin", "a");
    for (n, cql) in [
        "CREATE ROLE r1 WITH PASSWORD = 'SECRET-1' AND LOGIN = true",
        "ALTER ROLE r1 WITH PASSWORD = 'SECRET-2'",
        "CREATE USER r2 WITH PASSWORD 'SECRET-3'",
        "ALTER USER r2 WITH PASSWORD 'SECRET-4'",
        "CREATE ROLE r3 WITH HASHED PASSWORD = '$2a$10$SECRET-5'",
        "/* PASSWORD */ ALTER ROLE r3 WITH hashed password='$2a$10$SECRET-6' AND LOGIN=true",
        "ALTER ROLE r3 WITH PASSWORD = 'SECRET-7' AND nonsense",
    ]
    .iter()
    .enumerate()
    {
        // Traced, as client and as reader of the traces.
        let body = [long_string(cql), plain(4)].concat();
        admin.send_bytes(&frame(4, 2, 1, QUERY, &body));
        let answer = admin.receive().unwrap();
        assert_eq!(answer.opcode == RESULT, n < 6, "{cql}: {:?}", answer.opcode);
        admin.send_bytes(&frame(4, 2, 1, PREPARE, &long_string(cql)));
        admin.receive().unwrap();
    }
    let shown: Vec<Vec<u8>> = [
        "SELECT * FROM system.prepared_statements",
        "SELECT * FROM system_traces.sessions",
        "SELECT * FROM system_traces.events",
        "SELECT * FROM system_views.queries",
    ]
    .iter()
    .map(|cql| admin.good(cql).body)
    .collect();
    assert!(has(&shown[0], b"***") && has(&shown[1], b"***") && has(&shown[2], b"***"));
    server.stop().unwrap();
    let log = std::fs::read(&dir).unwrap();
    std::fs::remove_file(&dir).unwrap();
    assert!(has(&log, b"***"));
    for bytes in shown.iter().chain([&log]) {
        assert!(!has(bytes, b"SECRET"), "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn connections_of_a_dropped_role_are_closed() {
    let server = server();
    let mut admin = login(&server, "admin", "a");
    let mut nobody = login(&server, "nobody", "n");
    let mut thrift = ThriftPeer::connect(&server);
    thrift.log_in("nobody", "n");
    assert!(thrift.cql("SELECT key FROM system.local").is_some());
    nobody.good("SELECT key FROM system.local");
    let embedded = server.session();
    embedded.log_in("nobody", "n").unwrap();
    let prepared = embedded.prepare("SELECT key FROM system.local").unwrap();
    admin.good("DROP ROLE nobody");
    assert_eq!(nobody.receive(), None, "it is closed without a request");
    // A later role of the same name is another role.
    admin.good("CREATE ROLE nobody WITH PASSWORD = 'n' AND LOGIN = true AND SUPERUSER = true");
    let answer = thrift.cql("SELECT * FROM ks.t").unwrap();
    assert!(has(&answer, b"was dropped"));
    assert_eq!(thrift.cql("SELECT key FROM system.local"), None);
    for refused in [
        embedded.execute("SELECT key FROM system.local", ()),
        embedded.run(&prepared, (), &Default::default()),
        embedded.execute("CREATE TABLE ks.more (k int PRIMARY KEY)", ()),
        embedded.execute("USE ks", ()),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("was dropped; log in again"), "{refused}");
    }
    login(&server, "nobody", "n").good("SELECT * FROM ks.t");
    // Other changes of a role do not affect its connections.
    let mut again = login(&server, "nobody", "n");
    admin.good("ALTER ROLE nobody WITH PASSWORD = 'm' AND SUPERUSER = false");
    admin.good("GRANT SELECT ON ks.t TO nobody");
    again.good("SELECT * FROM ks.t");
}
