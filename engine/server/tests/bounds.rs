//! Memory that clients can make a server use is bounded: each test fills one collection of
//! `docs/trust.md` ("Bounds") to its bound.

#![allow(clippy::disallowed_methods, reason = "clients have no environment")]

use super::common;

use std::net::SocketAddr;

use common::*;
use firn_cql::Session;
use firn_server::client::{ClientError, ClientOptions, ClientRun, CqlClient, FamilyClient};
use firn_server::{Options, Server};
use firn_wide::{CfDef, Column, ColumnParent, KsDef, SliceRange};

const AUTH_RESPONSE: u8 = 0x0f;
const MIB: u64 = 1 << 20;

/// Returns the anonymous memory of this process in bytes.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Returns the growth of this process's memory since `before`, in MiB.
fn grown(before: u64) -> u64 {
    anonymous().saturating_sub(before) / MIB
}

#[cfg(target_os = "linux")]
#[test]
fn large_statements_leak_no_memory() {
    firn_testkit::own_process!();
    let server = Server::start(Options::ephemeral()).unwrap();
    let mut peer = Peer::ready(server.address(), 4);
    peer.good(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    peer.good("CREATE TABLE ks.m (k int PRIMARY KEY, v text)");
    let ints = (1..20_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let select = |n: i32| format!("SELECT k FROM ks.m WHERE k IN ({},{ints})", -n);
    // Warm up: threads and the allocator take their memory first.
    (0..8).for_each(|n| drop(peer.good(&select(n))));
    let before = anonymous();
    (8..60).for_each(|n| drop(peer.good(&select(n))));
    assert!(grown(before) < 32, "{} MiB for 52 statements with large lists", grown(before));

    // Each has a plan of 6 MiB: only one fits.
    let markers = vec!["?"; 20_000].join(",");
    let ids: Vec<_> = (0..30)
        .map(|n| peer.prepare(&format!("SELECT k FROM ks.m WHERE k IN ({},{markers})", -n)))
        .collect();
    assert!(grown(before) < 96, "{} MiB for 30 large prepared statements", grown(before));
    let metrics = server.metrics();
    let bytes = metrics.lines().find_map(|l| l.strip_prefix("firn_server_prepared_bytes "));
    let bytes: u64 = bytes.unwrap().parse().unwrap();
    assert!(bytes <= 10 * MIB && bytes > 2 * MIB, "{bytes}");
    // A client that executes an evicted statement must prepare it again.
    peer.send(3, EXECUTE, &peer.execute_body(&ids[0], &[], 0));
    assert_eq!(peer.receive().unwrap().error().0, 0x2500);
    let (cached, bytes) = server.session().cached_statements();
    assert!(bytes <= 8 << 20, "{cached} statements of {bytes} bytes are cached");
    // A statement that exceeds the bound alone is refused.
    let most = vec!["?"; 60_000].join(",");
    let body = long_string(&format!("SELECT k FROM ks.m WHERE k IN (7,{most})"));
    peer.send(4, PREPARE, &body);
    let (code, text) = peer.receive().unwrap().error();
    assert!(code == 0x2200 && text.contains("larger than allowed maximum"), "{code} {text}");
}

#[cfg(target_os = "linux")]
#[test]
fn large_texts_are_compiled_a_few_at_a_time() {
    firn_testkit::own_process!();
    let server = Server::start(Options::ephemeral()).unwrap();
    let address = server.address();
    let mut peer = Peer::ready(address, 4);
    peer.good(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    peer.good("CREATE TABLE ks.m (k int PRIMARY KEY, v text)");
    // A plan takes 50 times the memory of its text while it is compiled.
    let changes: String = (0..9_000).map(|n| format!("DELETE FROM ks.m WHERE k={n};")).collect();
    let before = anonymous();
    std::thread::scope(|scope| {
        for n in 0..24 {
            let text = format!("BEGIN BATCH /* {n} */ {changes} APPLY BATCH");
            scope.spawn(move || drop(Peer::ready(address, 4).prepare_or_refuse(&text)));
        }
    });
    let peak = peak().saturating_sub(before) / MIB;
    println!("peak {peak} MiB of {} KiB", changes.len() >> 10);
    assert!(peak < 240, "{peak} MiB");
}

/// Returns the peak memory of this process.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Answers the password request so; returns the code of the error.
fn guess(address: SocketAddr) -> i32 {
    let mut peer = Peer::connect(address, 4);
    peer.send(1, STARTUP, &map(&[("CQL_VERSION", "3.0.0")]));
    peer.receive().unwrap();
    peer.send(2, AUTH_RESPONSE, &value(b"\0ghost\0x"));
    peer.receive().unwrap().error().0
}

#[cfg(target_os = "linux")]
#[test]
fn wrong_passwords_leak_no_memory() {
    firn_testkit::own_process!();
    let session = Session::in_memory().unwrap();
    session.execute("CREATE ROLE ann WITH PASSWORD = 'x' AND LOGIN = true", ()).unwrap();
    let server = Server::start_with_session(session, Options::ephemeral()).unwrap();
    let address = server.address();
    let before = anonymous();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || (0..5).for_each(|_| assert_eq!(guess(address), 0x0100)));
        }
        // Meanwhile a statement that hashes a password succeeds.
        for n in 0..4 {
            let cql = format!("ALTER ROLE ann WITH PASSWORD = '{n}'");
            server.session().execute(&cql, ()).unwrap();
        }
    });
    // Two buffers of 19 MiB, and 8 connections.
    assert!(grown(before) < 64, "{} MiB for 40 wrong passwords", grown(before));
    assert!(server.session().log_in("ann", "3").is_ok());
}

#[test]
fn partial_requests_are_bounded_and_do_not_block_others() {
    const MOST: usize = 1 << 20;
    let mut options = Options::ephemeral();
    (options.max_frame, options.max_in_flight) = (MOST, MOST);
    options.login_timeout = std::time::Duration::from_millis(500);
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::start(options).unwrap();
    let held = || {
        let metrics = server.metrics();
        let line = metrics.lines().find_map(|l| l.strip_prefix("firn_server_receiving_bytes "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let text = format!("SELECT key FROM system.local /* {} */", "x".repeat(900_000));
    let request = frame(4, 0, 1, QUERY, &[long_string(&text), plain(4)].concat());
    let framed = [&int(900_000)[..], &[0x80, 1, 0, 1], &vec![0; 800_000]].concat();
    // The clients never send the end; the server reads only a part of most requests.
    let stalled: Vec<_> = (0..8)
        .map(|n| {
            let mut peer = Peer::ready(server.address(), 4);
            if n % 4 == 3 {
                peer = Peer::connect(server.thrift_address().unwrap(), 4);
            }
            let (bytes, socket) = (if n % 4 == 3 { &framed } else { &request }, peer.socket);
            socket.set_nonblocking(true).unwrap();
            let part = &bytes[..bytes.len() - 1000];
            let mut sent = 0;
            while sent < part.len() {
                match std::io::Write::write(&mut &socket, &part[sent..]) {
                    Ok(len) => sent += len,
                    Err(_) => break,
                }
            }
            assert!(held() <= MOST + 8 * (64 << 10), "{}", held());
            socket
        })
        .collect();
    // Others are answered, a small request at once, a large one after those were cut off.
    Peer::ready(server.address(), 4).good("SELECT key FROM system.local");
    assert_eq!(Peer::ready(server.address(), 4).query(&text).kind(), 2);
    drop(stalled);
    while held() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn results_are_bounded_and_pages_end_before() {
    let mut options = Options::ephemeral();
    options.max_result = 64 << 10;
    let server = Server::start(options).unwrap();
    let mut peer = Peer::ready(server.address(), 4);
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))",
    ] {
        peer.good(cql);
    }
    let text = "x".repeat(1000);
    for c in 0..200 {
        peer.good(&format!("INSERT INTO ks.t (k, c, v) VALUES ({}, {c}, '{text}')", c % 3));
    }
    let all = "SELECT k, c, v FROM ks.t";
    let (code, said) = peer.query(all).error();
    assert!(code == 0x2200 && said.contains("The result has more than 65536 bytes"), "{said}");
    peer.good("SELECT k, c FROM ks.t");
    peer.good(&format!("{all} LIMIT 50"));
    // A page of any number of rows is limited to a few.
    let session = server.session();
    let mut how = firn_cql::RunOptions::default();
    (how.page_size, how.max_result_bytes) = (Some(100_000), Some(64 << 10));
    let (mut rows, mut pages) = (0, 0);
    loop {
        let page = session.execute_with(all, (), &how).unwrap();
        (rows, pages) = (rows + page.len(), pages + 1);
        assert!(page.len() <= 20, "{}", page.len());
        how.paging = page.paging().cloned();
        if how.paging.is_none() {
            break;
        }
    }
    assert_eq!((rows, pages > 10), (200, true), "{pages} pages");
    how.page_size = Some(1);
    let sorted = format!("{all} WHERE k IN (0, 1, 2) ORDER BY c");
    assert!(session.execute_with(&sorted, (), &how).is_err(), "all of it is sorted");
}

/// Calls `execute_cql3_query` over Thrift; returns the number of the reply's field.
fn cql_over_thrift(server: &Server, cql: &str) -> u8 {
    let query = [&[11, 0, 1][..], &int(cql.len() as i32), cql.as_bytes()].concat();
    let rest = [8, 0, 2, 0, 0, 0, 2, 8, 0, 3, 0, 0, 0, 1, 0];
    let method = "execute_cql3_query";
    let head = [&[0x80, 1, 0, 1][..], &int(method.len() as i32), method.as_bytes(), &int(7)];
    let call = [&head.concat()[..], &query, &rest].concat();
    let mut socket = std::net::TcpStream::connect(server.thrift_address().unwrap()).unwrap();
    let framed = [&int(call.len() as i32)[..], &call].concat();
    std::io::Write::write_all(&mut socket, &framed).unwrap();
    let mut answer = vec![0; 4 + 12 + method.len() + 3];
    std::io::Read::read_exact(&mut socket, &mut answer).unwrap();
    answer[4 + 12 + method.len() + 2]
}

#[cfg(target_os = "linux")]
#[test]
fn results_of_many_clients_share_one_budget() {
    firn_testkit::own_process!();
    const MOST: usize = 20 << 20;
    let mut options = Options::ephemeral();
    (options.max_result, options.max_results_memory) = (MOST, Some(2 * MOST));
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::start(options).unwrap();
    let address = server.address();
    let taken = || {
        let metrics = server.metrics();
        let line = metrics.lines().find_map(|l| l.strip_prefix("firn_server_results_bytes "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let mut peer = Peer::ready(address, 4);
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))",
    ] {
        peer.good(cql);
    }
    let text = "x".repeat(1 << 20);
    for n in 0..16 {
        peer.good(&format!("INSERT INTO ks.t (k, c, v) VALUES ({}, {n}, '{text}')", n % 2));
    }
    let at = server.thrift_address().unwrap().to_string();
    let mut families = FamilyClient::connect(&ClientOptions::new(at)).unwrap();
    families.system_add_keyspace(&KsDef::new("K")).unwrap();
    families.set_keyspace("K").unwrap();
    families.system_add_column_family(&CfDef::new("K", "F")).unwrap();
    for n in 0..8 {
        let column = Column::new(n.to_string(), &*text, 1);
        families.insert(b"k", &ColumnParent::new("F"), &column).unwrap();
    }
    let mut slice =
        || families.get_slice(b"k", &ColumnParent::new("F"), &SliceRange::default().into());
    let all = "SELECT k, c, v FROM ks.t";
    let sorted = "SELECT k, c, v FROM ks.t WHERE k IN (0, 1) ORDER BY c";
    let asked = |cql: &str| {
        let mut peer = Peer::ready(address, 4);
        peer.send(7, QUERY, &[long_string(cql), plain(4)].concat());
        peer
    };

    // The unread response exceeds the buffers of the connection.
    let before = anonymous();
    let mut unread = asked(all);
    while taken() < 2 * (16 << 20) {
        std::thread::yield_now();
    }
    let others: Vec<_> = (0..24).map(|n| asked(if n % 4 == 3 { sorted } else { all })).collect();
    for mut other in others {
        let (code, said) = other.receive().unwrap().error();
        assert!(code == 0x1001 && said.contains("Too many bytes of results"), "{code} {said}");
    }
    assert_eq!(cql_over_thrift(&server, all), 2, "UnavailableException");
    let refused = slice().unwrap_err();
    assert!(matches!(refused, ClientError::Refused { code: 0x1000, .. }), "{refused:?}");
    // Paging continues, with fewer rows a page.
    let mut client = CqlClient::connect(&ClientOptions::new(address.to_string())).unwrap();
    let mut how = ClientRun { page_size: Some(100), ..ClientRun::default() };
    let (mut rows, mut pages) = (0, 0);
    loop {
        let page = client.query(all, &how).unwrap().rows;
        (rows, pages) = (rows + page.len(), pages + 1);
        how.paging = page.paging().cloned();
        if how.paging.is_none() {
            break;
        }
    }
    assert!(rows == 16 && pages > 4, "{rows} rows in {pages} pages");
    assert!(taken() <= 2 * MOST && taken() >= 32 << 20, "{}", taken());
    let peak = peak().saturating_sub(before) / MIB;
    println!("peak {peak} MiB of 25 results of 16 MiB");
    assert!(peak < 220, "{peak} MiB");

    assert_eq!(unread.receive().unwrap().kind(), 2);
    for cql in [all, sorted] {
        // The server releases the share of a response after the client has read it.
        while taken() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(asked(cql).receive().unwrap().kind(), 2);
    }
    assert_eq!(cql_over_thrift(&server, "SELECT k FROM ks.t"), 0);
    assert_eq!(slice().unwrap().len(), 8);
    // A client that disconnects releases its share.
    drop(asked(all));
    while taken() > 0 {
        std::thread::yield_now();
    }
}

/// Serves a store in the directory of this variable, in a process with a low limit of open files.
const STORE: &str = "FIRN_BOUNDS_STORE";

#[cfg(target_os = "linux")]
#[test]
fn connections_leave_the_descriptors_that_the_store_needs() {
    let test = "bounds::connections_leave_the_descriptors_that_the_store_needs";
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
    // The store creates tables, flushes and compacts without running out of files.
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
    // Connections beyond the bound were closed at once.
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

#[test]
fn every_bound_of_the_page_names_existing_tests() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("../docs/trust.md")).unwrap();
    let (_, section) = page.split_once("### Server and CQL sessions").unwrap();
    let rows: Vec<&str> =
        section.lines().skip(4).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 20, "{rows:?}");
    let mut sources: Vec<(String, String)> = vec![];
    let mut folders: Vec<_> = ["cql/src", "cql/tests", "server/src", "server/tests"]
        .iter()
        .map(|folder| root.join(folder))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(name) = path.to_str().and_then(|p| p.strip_suffix(".rs")) {
                let module = name.rsplit('/').next().unwrap().to_owned();
                sources.push((module, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    for row in rows {
        let tests = row.trim_end_matches('|').rsplit('|').next().unwrap();
        assert!(tests.contains("::"), "no test: {row}");
        for test in tests.split(',') {
            let (module, name) = test.trim().trim_matches('`').split_once("::").unwrap();
            let is_there = |(of, text): &(String, String)| {
                of == module && text.contains(&format!("fn {name}()"))
            };
            assert!(sources.iter().any(is_there), "{test} of {row}");
        }
    }
}
