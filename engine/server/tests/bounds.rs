//! What clients can make a server hold is bounded: each test drives one collection of
//! `docs/trust.md` ("Bounds") to its bound.

#![allow(clippy::disallowed_methods, reason = "clients have no environment")]

use super::common;

use std::net::SocketAddr;

use common::*;
use firn_cql::Session;
use firn_server::{Options, Server};

const AUTH_RESPONSE: u8 = 0x0f;
const MIB: u64 = 1 << 20;

/// Anonymous memory of this process in bytes.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// How much more memory this process holds than before, in MiB.
fn grown(before: u64) -> u64 {
    anonymous().saturating_sub(before) / MIB
}

#[cfg(target_os = "linux")]
#[test]
fn large_statements_leave_no_memory_behind() {
    firn_testkit::own_process!();
    let server = Server::start(Options::ephemeral()).unwrap();
    let mut peer = Peer::ready(server.address(), 4);
    peer.good(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    peer.good("CREATE TABLE ks.m (k int PRIMARY KEY, v text)");
    let ints = (1..20_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let select = |n: i32| format!("SELECT k FROM ks.m WHERE k IN ({},{ints})", -n);
    // What the threads and the allocator take for one, they take.
    (0..8).for_each(|n| drop(peer.good(&select(n))));
    let before = anonymous();
    (8..60).for_each(|n| drop(peer.good(&select(n))));
    assert!(grown(before) < 32, "{} MiB for 52 statements with large lists", grown(before));

    // Each with a plan of 6 MiB: only one fits.
    let markers = vec!["?"; 20_000].join(",");
    let ids: Vec<_> = (0..30)
        .map(|n| peer.prepare(&format!("SELECT k FROM ks.m WHERE k IN ({},{markers})", -n)))
        .collect();
    assert!(grown(before) < 96, "{} MiB for 30 large prepared statements", grown(before));
    let metrics = server.metrics();
    let bytes = metrics.lines().find_map(|l| l.strip_prefix("firn_server_prepared_bytes "));
    let bytes: u64 = bytes.unwrap().parse().unwrap();
    assert!(bytes <= 10 * MIB && bytes > 2 * MIB, "{bytes}");
    // A client that asks for one that was dropped prepares it again.
    peer.send(3, EXECUTE, &peer.execute_body(&ids[0], &[], 0));
    assert_eq!(peer.receive().unwrap().error().0, 0x2500);
    let (cached, bytes) = server.session().cached_statements();
    assert!(bytes <= 8 << 20, "{cached} statements of {bytes} bytes are cached");
    // One that exceeds the bound alone is refused.
    let most = vec!["?"; 60_000].join(",");
    let body = long_string(&format!("SELECT k FROM ks.m WHERE k IN (7,{most})"));
    peer.send(4, PREPARE, &body);
    let (code, text) = peer.receive().unwrap().error();
    assert!(code == 0x2200 && text.contains("larger than allowed maximum"), "{code} {text}");
}

/// Answers the request of a password so; the code of the error.
fn guess(address: SocketAddr) -> i32 {
    let mut peer = Peer::connect(address, 4);
    peer.send(1, STARTUP, &map(&[("CQL_VERSION", "3.0.0")]));
    peer.receive().unwrap();
    peer.send(2, AUTH_RESPONSE, &value(b"\0ghost\0x"));
    peer.receive().unwrap().error().0
}

#[cfg(target_os = "linux")]
#[test]
fn wrong_passwords_leave_no_memory_behind() {
    firn_testkit::own_process!();
    let session = Session::in_memory().unwrap();
    session.execute("CREATE ROLE ann WITH PASSWORD = 'x' AND LOGIN = true", ()).unwrap();
    let server = Server::over(session, Options::ephemeral()).unwrap();
    let address = server.address();
    let before = anonymous();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || (0..5).for_each(|_| assert_eq!(guess(address), 0x0100)));
        }
        // A statement that hashes a password is done meanwhile.
        for n in 0..4 {
            let cql = format!("ALTER ROLE ann WITH PASSWORD = '{n}'");
            server.session().execute(&cql, ()).unwrap();
        }
    });
    // Two buffers of 19 MiB, and 8 connections.
    assert!(grown(before) < 64, "{} MiB for 40 wrong passwords", grown(before));
    assert!(server.session().log_in("ann", "3").is_ok());
}

/// Serves a store in the directory of this variable, in a process that may open few files.
const STORE: &str = "FIRN_BOUNDS_STORE";

#[cfg(target_os = "linux")]
#[test]
fn connections_take_no_descriptor_that_the_store_needs() {
    let test = "bounds::connections_take_no_descriptor_that_the_store_needs";
    if firn_testkit::process::is_own_process(test) {
        return serve_until_the_input_ends(&std::env::var(STORE).unwrap());
    }
    let dir = std::env::temp_dir().join(format!("firn-bounds-{}", std::process::id()));
    let own = firn_testkit::process::command(test);
    let mut served = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 128; exec \"$0\" \"$@\""])
        .arg(own.get_program())
        .args(own.get_args())
        .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env(STORE, &dir)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(served.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(lines).map_while(Result::ok);
    let address = lines
        .find_map(|line| line.split_once("serves at ").map(|(_, at)| at.trim().to_owned()))
        .expect("an address");
    let address: SocketAddr = address.parse().unwrap();

    let mut peer = Peer::ready(address, 4);
    peer.good(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    let idle: Vec<_> = (0..200).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    // The store makes tables, flushes and compacts, and none of it lacks a file.
    for n in 0..30 {
        peer.good(&format!("CREATE TABLE ks.t{n} (k int PRIMARY KEY, v text)"));
        peer.good(&format!("INSERT INTO ks.t{n} (k, v) VALUES (1, 'x')"));
        peer.good(&format!("CREATE INDEX ON ks.t{n} (v)"));
    }
    (0..30).for_each(|n| assert_eq!(peer.good(&format!("SELECT * FROM ks.t{n}")).kind(), 2));
    let most = "SELECT value FROM system_views.settings WHERE name = 'native_transport_max_concurrent_connections'";
    let most = peer.good(most);
    let taken = (30..80).find(|n: &i32| most.has(&value(n.to_string().as_bytes())));
    assert!(taken.is_some(), "{most:?}");
    // Those beyond the bound were closed at once.
    let closed = idle.iter().filter(|socket| {
        socket.set_nonblocking(true).unwrap();
        matches!(std::io::Read::read(&mut &**socket, &mut [0]), Ok(0))
    });
    assert!(closed.count() >= 120);
    drop(idle);
    drop(served.stdin.take());
    let rest: Vec<_> = lines.collect();
    assert!(rest.iter().any(|line| line.contains("1 passed")), "{rest:?}");
    assert!(served.wait().unwrap().success());
    std::fs::remove_dir_all(dir).unwrap();
}

fn serve_until_the_input_ends(dir: &str) {
    let mut options = Options::directory(dir);
    options.address = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(options).unwrap();
    println!("\nserves at {}", server.address());
    std::io::Read::read_to_end(&mut std::io::stdin(), &mut vec![]).unwrap();
    server.stop().unwrap();
}
