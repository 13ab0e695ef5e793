//! The monitoring port: metrics, health, and invalid requests.

#![allow(clippy::disallowed_methods, reason = "a client has no environment")]

use super::common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use common::*;
use firn_cql::internals::exec::{SystemRows, SystemSource};
use firn_cql::{Session, Value};
use firn_crash::{CrashEnv, Fault, FaultEnv, OpClass};
use firn_server::{Options, Server};
use firn_wide::Wide;

fn watched() -> Options {
    let mut options = Options::ephemeral();
    options.metrics = Some("127.0.0.1:0".parse().unwrap());
    options
}

fn connect(server: &Server) -> TcpStream {
    let socket = TcpStream::connect(server.metrics_address().unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

/// Returns status, headers and body of the response to these bytes.
fn ask(address: SocketAddr, bytes: &[u8]) -> (String, String, String) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.write_all(bytes).unwrap();
    let mut all = String::new();
    socket.read_to_string(&mut all).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").expect("an empty line");
    let (status, headers) = head.split_once("\r\n").expect("headers");
    (status.to_owned(), headers.to_owned(), body.to_owned())
}

fn get(server: &Server, path: &str) -> (String, String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ask(server.metrics_address().unwrap(), request.as_bytes())
}

#[test]
fn only_metrics_and_health_are_served() {
    let server = Server::start(watched()).unwrap();
    Peer::ready(server.address(), 4).good("SELECT key FROM system.local");
    let (status, headers, body) = get(&server, "/metrics?x=y");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let length = format!("Content-Length: {}", body.len());
    for header in ["Content-Type: text/plain; version=0.0.4", &length, "Connection: close"] {
        assert!(headers.contains(header), "{headers}");
    }
    for line in ["firn_server_request_seconds_count{kind=\"query\"} 1", "firn_writable 1"] {
        assert!(body.lines().any(|l| l == line), "{body}");
    }
    let (status, headers, body) = get(&server, "/health");
    assert_eq!((&*status, &*body), ("HTTP/1.1 200 OK", "{\"status\":\"serving\"}\n"));
    assert!(headers.contains("Content-Type: application/json"), "{headers}");
    let at = server.metrics_address().unwrap();
    let head = ask(at, b"HEAD /health HTTP/1.0\r\n\r\n");
    assert_eq!((&*head.0, &*head.2), ("HTTP/1.1 200 OK", ""));
    assert!(head.1.contains("Content-Length: 21"), "{}", head.1);
    let long = [b"GET /health HTTP/1.1\r\nX: ", &[b'x'; 9 << 10][..]].concat();
    for (bytes, wanted) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405"),
        (b"GET /health\r\n\r\n", "400"),
        (b"\r\n\r\n", "400"),
        (b"\xff\xfe / HTTP/1.1\r\n\r\n", "400"),
        (&long, "431"),
    ] {
        let mut socket = connect(&server);
        socket.write_all(bytes).unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(std::str::from_utf8(&answer).unwrap(), format!("HTTP/1.1 {wanted}"));
    }
}

#[test]
fn silent_http_clients_do_not_block_others_or_a_stop() {
    let server = Server::start(watched()).unwrap();
    let mut silent: Vec<_> = (0..3).map(|_| connect(&server)).collect();
    silent[1].write_all(b"GET /met").unwrap();
    assert_eq!(get(&server, "/health").0, "HTTP/1.1 200 OK");
    // A client that disconnects early frees its slot.
    silent.pop();
    let more: Vec<_> = (0..2).map(|_| connect(&server)).collect();
    assert_eq!(get(&server, "/health").0, "HTTP/1.1 200 OK");
    server.stop().unwrap();
    for mut socket in silent.into_iter().chain(more) {
        let mut rest = vec![];
        // Cut off or closed.
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
}

#[test]
fn partial_requests_delay_no_complete_one() {
    let server = Server::start(watched()).unwrap();
    let mut halves: Vec<_> = (0..200)
        .map(|_| {
            let mut half = connect(&server);
            half.write_all(b"GET /").unwrap();
            half
        })
        .collect();
    // The oldest are cut off long before their timeout.
    let mut rest = vec![];
    let cut_off = halves[0].read_to_end(&mut rest);
    assert!(rest.is_empty() && cut_off.map_or(true, |len| len == 0));
    for _ in 0..3 {
        assert_eq!(get(&server, "/health").0, "HTTP/1.1 200 OK");
        // More clients come meanwhile.
        halves.extend((0..20).map(|_| {
            let mut half = connect(&server);
            half.write_all(b"GET /metr").unwrap();
            half
        }));
        assert_eq!(get(&server, "/metrics").0, "HTTP/1.1 200 OK");
    }
    // A complete request is answered, even if its client connected long before others.
    let mut first = connect(&server);
    let more: Vec<_> = (0..10).map(|_| connect(&server)).collect();
    first.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    drop((halves, more));
}

#[test]
fn a_read_only_store_is_not_healthy() {
    let mem = CrashEnv::new(1);
    let faults = FaultEnv::new(Arc::new(mem.clone()));
    faults.only(&[OpClass::Sync]);
    let wide = Wide::open_in(Arc::new(faults.clone()), "/db", Default::default()).unwrap();
    let server = Server::start_with_session(Session::new(wide).unwrap(), watched()).unwrap();
    let health = || {
        let (status, _, body) = get(&server, "/health");
        (status.split(' ').nth(1).unwrap().to_owned(), body)
    };
    assert_eq!(health().0, "200");
    mem.set_free_space(Some(1 << 20));
    let (code, body) = health();
    assert!(
        code == "503"
            && body.contains("\"disk full\",\"why\":\"the store's disk has 1048576 free bytes"),
        "{body}"
    );
    mem.set_free_space(Some(1 << 30));
    assert_eq!(health().0, "200");
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY)",
        "INSERT INTO ks.t (k) VALUES (1)",
    ] {
        server.session().execute(cql, ()).unwrap();
    }
    faults.fail_from(faults.count(), Fault::SyncFails);
    server.session().engine().wide().db().sync().unwrap_err();
    let (code, body) = health();
    assert!(code == "503" && body.contains("{\"status\":\"read-only\",\"why\":\""), "{body}");
    // Reads still succeed.
    Peer::ready(server.address(), 5).good("SELECT key FROM system.local");
    server.stop().unwrap_err();
}

/// A system table whose rows appear when the test releases them.
#[derive(Default)]
struct Slow(Mutex<bool>, Condvar);

impl SystemSource for Slow {
    fn fill(&self, rows: &mut SystemRows<'_>) {
        if rows.is("system_views", "caches") {
            let mut goes_on = self.0.lock().unwrap();
            while !*goes_on {
                goes_on = self.1.wait(goes_on).unwrap();
            }
        }
    }
}

#[test]
fn a_stopping_server_reports_it_while_requests_finish() {
    let server = Server::start(watched()).unwrap();
    let slow = Arc::new(Slow::default());
    server.session().engine().add_source(slow.clone());
    let mut peer = Peer::ready(server.address(), 4);
    peer.send(3, QUERY, &[long_string("SELECT * FROM system_views.caches"), plain(4)].concat());
    let busy = "firn_server_workers_busy 1";
    while !get(&server, "/metrics").2.lines().any(|l| l == busy) {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| server.stop().unwrap());
        loop {
            let (status, _, body) = get(&server, "/health");
            if status == "HTTP/1.1 503 Service Unavailable" {
                assert_eq!(body, "{\"status\":\"stopping\"}\n");
                break;
            }
        }
        *slow.0.lock().unwrap() = true;
        slow.1.notify_all();
        stopping.join().unwrap();
    });
    assert_eq!(peer.receive().unwrap().opcode, RESULT);
    assert!(TcpStream::connect(server.metrics_address().unwrap()).is_err());
}

#[test]
fn a_remote_address_without_logins_is_refused() {
    let mut options = watched();
    options.metrics = Some("0.0.0.0:0".parse().unwrap());
    let e = Server::start(options.clone()).unwrap_err().to_string();
    assert!(e.contains("0.0.0.0 can be reached from other machines"), "{e}");
    options.insecure = true;
    let server = Server::start(options).unwrap();
    assert_eq!(get(&server, "/health").0, "HTTP/1.1 200 OK");
    // The error names a port in use.
    let mut options = Options::ephemeral();
    options.metrics = server.metrics_address();
    options.insecure = true;
    let e = Server::start(options).unwrap_err().to_string();
    assert!(e.starts_with("listen at 0.0.0.0:"), "{e}");
}

#[test]
fn compactions_since_the_start_are_listed() {
    let dir = std::env::temp_dir().join(format!("firn-watch-history-{}", std::process::id()));
    let heard = Arc::new(Mutex::new(vec![]));
    let mut options = firn_wide::Options::default();
    let listener = heard.clone();
    options.store.db.listener = Some(Arc::new(move |event: &firn_kv::Event| {
        if let firn_kv::Event::CompactionEnded { bytes_in, bytes_out, .. } = event {
            listener.lock().unwrap().push((*bytes_in as i64, *bytes_out as i64));
        }
    }));
    let mut all = Options::directory(&dir);
    all.address = "127.0.0.1:0".parse().unwrap();
    all.store = firn_server::StoreLocation::Directory(dir.clone(), Box::new(options));
    let server = Server::start(all).unwrap();
    let session = server.session();
    let make = |cql: &str| session.execute(cql, ()).unwrap();
    make(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    let db = session.engine().wide().db();
    let compact = |table: &str| {
        make(&format!("CREATE TABLE ks.{table} (k int PRIMARY KEY, v text)"));
        let trees = db.stats().trees.into_iter().map(|t| t.name);
        let tree = trees.filter(|name| name.starts_with("cf-")).max().unwrap();
        let tree = db.existing_tree(&tree).unwrap();
        for n in 0..3 {
            make(&format!("INSERT INTO ks.{table} (k, v) VALUES ({n}, 'one')"));
            tree.flush().unwrap();
        }
        tree.compact().unwrap();
    };
    ["gone", "t"].into_iter().for_each(compact);
    make("DROP TABLE ks.gone");
    let history = || {
        let rows = make(
            "SELECT columnfamily_name, keyspace_name, bytes_in, bytes_out, compacted_at, compaction_properties, \
             toTimestamp(id) FROM system.compaction_history",
        );
        let rows: Vec<(String, String, i64, i64, Value, Value, Value)> = rows.typed().unwrap();
        rows
    };
    // Events come soon after.
    while history().is_empty() {
        std::thread::yield_now();
    }
    for (table, keyspace, bytes_in, bytes_out, at, properties, id_at) in history() {
        assert_eq!((&*table, &*keyspace), ("t", "ks"));
        assert!(bytes_in > bytes_out && bytes_out > 0, "{bytes_in} {bytes_out}");
        assert_eq!(at, id_at);
        assert!(format!("{properties:?}").contains("COMPACTION"), "{properties:?}");
        // The listener of the options receives them, too.
        assert!(heard.lock().unwrap().contains(&(bytes_in, bytes_out)));
    }
    drop(server);
    std::fs::remove_dir_all(dir).unwrap();
}
