//! Byte-level exchanges: requests of clients of each version with the expected responses, and the
//! treatment of clients that violate the protocol.

#![allow(clippy::disallowed_methods, reason = "a client has no environment")]

use super::common;

use std::io::{Read, Write};
use std::time::Duration;

use common::*;
use firn_server::{Options, Server};
use firn_testkit::rng::Rng;

fn server() -> Server {
    Server::start(Options::ephemeral()).unwrap()
}

fn with_table(server: &Server) {
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))",
    ] {
        server.session().execute(cql, ()).unwrap();
    }
}

#[test]
fn options_and_startup_are_answered_in_each_version() {
    let server = server();
    for version in [3, 4, 5] {
        let mut peer = Peer::connect(server.address(), version);
        peer.send(-5, OPTIONS, &[]);
        let answer = peer.receive().unwrap();
        assert_eq!((answer.version, answer.stream, answer.opcode), (0x80 | version, -5, SUPPORTED));
        for text in ["PROTOCOL_VERSIONS", "3/v3", "4/v4", "5/v5", "COMPRESSION", "snappy", "lz4"] {
            assert!(answer.has(&string(text)), "{text}");
        }
        // Unknown options of a driver are accepted.
        peer.startup(&[("CQL_VERSION", "3.4.5"), ("DRIVER_BAGGAGE", "{}"), ("X", "y")]);
        peer.send(9, OPTIONS, &[]);
        assert_eq!(peer.receive().unwrap().stream, 9);
        assert_eq!(peer.good("SELECT key FROM system.local").kind(), 2);
    }
}

#[test]
fn unsupported_versions_are_refused_with_cassandras_message() {
    let server = server();
    for version in [1, 2, 6, 65, 66] {
        let mut peer = Peer::connect(server.address(), version);
        peer.send(3, OPTIONS, &[]);
        let answer = peer.receive().unwrap();
        assert_eq!((answer.version, answer.stream, answer.opcode), (0x85, 0, ERROR));
        let text = format!(
            "Invalid or unsupported protocol version ({version}); supported versions are (3/v3, 4/v4, 5/v5)"
        );
        assert_eq!(answer.error(), (0x0a, text));
        assert_eq!(peer.receive(), None);
    }
    // The header of the first versions has eight bytes.
    let mut peer = Peer::connect(server.address(), 1);
    peer.send_bytes(&[1, 0, 0, OPTIONS, 0, 0, 0, 0]);
    assert_eq!(peer.receive().unwrap().version, 0x85);
    let mut peer = Peer::ready(server.address(), 4);
    peer.send_bytes(&frame(3, 0, 2, OPTIONS, &[]));
    let (code, text) = peer.receive().unwrap().error();
    assert_eq!(code, 0x0a);
    assert!(text.starts_with("Invalid message version. Got 3/v3 but previous"), "{text}");
    assert_eq!(peer.receive(), None);
}

#[test]
fn requests_in_the_wrong_state_are_refused() {
    let server = server();
    let address = server.address();
    let refused = |version: u8, opcode: u8, body: &[u8], wanted: &str| {
        let mut peer = Peer::connect(address, version);
        peer.send(4, opcode, body);
        let answer = peer.receive().unwrap();
        assert_eq!((answer.stream, answer.version), (4, version | 0x80));
        let (code, text) = answer.error();
        assert_eq!(code, 0x0a);
        assert!(text.contains(wanted), "{text}");
        assert_eq!(peer.receive(), None, "{wanted}");
    };
    let query = [long_string("SELECT key FROM system.local"), plain(4)].concat();
    refused(4, QUERY, &query, "Unexpected message QUERY, expecting STARTUP or OPTIONS");
    refused(4, STARTUP, &map(&[]), "Missing value CQL_VERSION in STARTUP");
    refused(4, STARTUP, &map(&[("CQL_VERSION", "2.0.0")]), "CQL version 2.0.0 is not supported");
    refused(4, STARTUP, &map(&[("CQL_VERSION", "new")]), "CQL version new is not supported");
    refused(4, 0x55, &[], "Unknown opcode 85");
    refused(4, SUPPORTED, &[], "Wrong protocol direction");
    let odd = map(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", "zip")]);
    refused(4, STARTUP, &odd, "Unknown compression algorithm: zip");
    let snappy = map(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", "snappy")]);
    refused(5, STARTUP, &snappy, "Unsupported compression type snappy");
    // After setup, a connection survives an invalid request.
    let mut peer = Peer::ready(address, 4);
    let long = [&int(i32::MAX)[..], b"SELECT"].concat();
    let negative = [&int(-3)[..], b"SELECT"].concat();
    let no_code = [long_string("SELECT key FROM system.local"), vec![0, 77, 0]].concat();
    let many = [long_string("SELECT key FROM system.local"), vec![0, 1, 1, 255, 255]].concat();
    for (opcode, body, wanted) in [
        (QUERY, &long[..], "The message ends within a [long string]"),
        (QUERY, &negative, "A [long string] has a negative length"),
        (QUERY, &no_code, "Unknown code 77 for a consistency level"),
        (QUERY, &many, "The message ends within a [int]"),
        (BATCH, &[9], "Invalid BATCH message type 9"),
        (BATCH, &[0, 0, 1, 7], "Invalid query kind in BATCH messages. Must be 0 or 1 but got 7"),
        (REGISTER, &[&short(1)[..], &string("ANYTHING")].concat(), "Invalid value 'ANYTHING'"),
        (0x0f, &int(-1), "Unexpected message AUTH_RESPONSE"),
        (0x77, &[], "Unknown opcode 119"),
    ] {
        peer.send(6, opcode, body);
        let answer = peer.receive().unwrap();
        assert_eq!(answer.stream, 6);
        let (code, text) = answer.error();
        assert_eq!(code, 0x0a);
        assert!(text.contains(wanted), "{text}");
    }
    assert_eq!(peer.good("SELECT key FROM system.local").kind(), 2);
}

#[test]
fn an_oversized_request_is_refused_before_it_arrives() {
    let mut options = Options::ephemeral();
    options.max_frame = 64 << 10;
    let server = Server::start(options).unwrap();
    // Before setup the limit is lower.
    let mut peer = Peer::connect(server.address(), 4);
    peer.send_bytes(&[4, 0, 0, 1, STARTUP, 0x7f, 0xff, 0xff, 0xff]);
    let (code, text) = peer.receive().unwrap().error();
    assert_eq!(code, 0x0a);
    assert_eq!(text, "Request is too big: length 2147483647 exceeds maximum allowed length 4096");
    assert_eq!(peer.receive(), None);
    for version in [4, 5] {
        let mut peer = Peer::ready(server.address(), version);
        let query = format!("SELECT key FROM system.local -- {}", "x".repeat(60_000));
        assert_eq!(peer.good(&query).kind(), 2);
        let header = [&[version, 0, 0, 2, QUERY][..], &int(70_000)].concat();
        peer.send_framed(&header);
        let answer = peer.receive().unwrap();
        assert_eq!((answer.error().0, answer.stream), (0x0a, 2));
        assert_eq!(peer.receive(), None);
    }
    // A body that would exceed the limit when decompressed.
    for (name, packed) in [
        ("lz4", [&int(1 << 30)[..], &[0x1f, b'x', 1, 0, 255, 255]].concat()),
        ("snappy", vec![0x80, 0x80, 0x80, 0x80, 0x04, 0]),
    ] {
        let mut peer = Peer::connect(server.address(), 4);
        peer.startup(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", name)]);
        peer.send_bytes(&frame(4, 1, 3, QUERY, &packed));
        assert_eq!(peer.receive().unwrap().opcode, ERROR, "{name}");
        assert_eq!(peer.receive(), None, "{name}");
    }
}

#[test]
fn a_refused_client_that_keeps_sending_can_read_the_reason() {
    let mut options = Options::ephemeral();
    options.max_frame = 64 << 10;
    options.login_timeout = Duration::from_secs(600);
    let server = Server::start(options).unwrap();
    let body = vec![7; 8 << 20];
    for (version, len) in [(4, body.len()), (5, 1 << 20)] {
        let mut peer = Peer::ready(server.address(), version);
        peer.send(2, QUERY, &body[..len]);
        let answer = peer.receive().unwrap();
        assert_eq!((answer.error().0, answer.stream), (0x0a, 2));
        assert_eq!(peer.receive(), None);
    }
    // A client that keeps sending is cut off.
    let mut peer = Peer::ready(server.address(), 4);
    peer.socket.write_all(&frame(9, 0, 1, QUERY, &[])).unwrap();
    assert_eq!(peer.receive().unwrap().opcode, ERROR);
    while peer.socket.write_all(&body).is_ok() {}
}

#[test]
fn requests_may_arrive_in_any_pieces() {
    let server = server();
    with_table(&server);
    for version in [3, 4, 5] {
        let mut peer = Peer::ready(server.address(), version);
        let query = |stream: i16, text: &str| {
            frame(version, 0, stream, QUERY, &[long_string(text), plain(version)].concat())
        };
        let one = query(1, "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'a')");
        let other = query(2, "SELECT v FROM ks.t WHERE k = 1 AND c = 1");
        let both = [one, other].concat();
        let bytes = if version == 5 { segment(&both, true) } else { both.clone() };
        peer.socket.set_nodelay(true).unwrap();
        for byte in bytes.chunks(1) {
            peer.send_bytes(byte);
        }
        let answers = [peer.receive().unwrap(), peer.receive().unwrap()];
        assert_eq!(answers.each_ref().map(|a| a.stream), [1, 2]);
        assert!(answers[1].has(&value(b"a")));
        if version == 5 {
            // Envelopes split over segments that are not self-contained.
            for part in both.chunks(7) {
                peer.send_bytes(&segment(part, false));
            }
            assert_eq!([peer.receive().unwrap().stream, peer.receive().unwrap().stream], [1, 2]);
        }
        // A value that fills several segments, in both directions.
        let text = "y".repeat(400_000);
        peer.good(&format!("INSERT INTO ks.t (k, c, v) VALUES (2, 2, '{text}')"));
        assert!(peer.good("SELECT v FROM ks.t WHERE k = 2").has(text.as_bytes()));
    }
}

#[test]
fn a_damaged_segment_ends_only_its_connection() {
    let server = server();
    let mut other = Peer::ready(server.address(), 5);
    let query = [long_string("SELECT key FROM system.local"), plain(5)].concat();
    let good = segment(&frame(5, 0, 1, QUERY, &query), true);
    for at in [0, 1, 3, 5, 6, 20, good.len() - 1] {
        let mut peer = Peer::ready(server.address(), 5);
        let mut bytes = good.clone();
        bytes[at] ^= 0x01;
        peer.send_bytes(&bytes);
        let (code, text) = peer.receive().unwrap().error();
        assert_eq!(code, 0x0a);
        assert!(text.starts_with("Invalid or corrupt frame"), "{text}");
        assert_eq!(peer.receive(), None);
    }
    assert_eq!(other.good("SELECT key FROM system.local").kind(), 2);
}

#[test]
fn compressed_bodies_are_understood_and_answered() {
    let server = server();
    let query = [long_string("SELECT * FROM system.local"), plain(4)].concat();
    // A block of literals only is valid LZ4 and valid Snappy.
    let lz4 = {
        let mut out = int(query.len() as i32).to_vec();
        out.extend([0xf0, (query.len() - 15) as u8]);
        out.extend(&query);
        out
    };
    let snappy = {
        let mut out = vec![query.len() as u8];
        for part in query.chunks(60) {
            out.push((part.len() as u8 - 1) << 2);
            out.extend(part);
        }
        out
    };
    for (name, packed) in [("lz4", lz4), ("SNAPPY", snappy)] {
        let mut peer = Peer::connect(server.address(), 4);
        peer.startup(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", name)]);
        peer.send_bytes(&frame(4, 1, 3, QUERY, &packed));
        let answer = peer.receive().unwrap();
        assert_eq!((answer.opcode, answer.flags & 1), (RESULT, 1), "{name}");
        // An uncompressed request is accepted, too.
        peer.send(5, QUERY, &query);
        assert_eq!(peer.receive().unwrap().stream, 5);
    }
}

#[test]
fn prepared_statements_keep_their_ids_and_report_changed_columns() {
    let server = server();
    with_table(&server);
    for version in [3, 4, 5] {
        let mut peer = Peer::ready(server.address(), version);
        peer.good(&format!("CREATE TABLE ks.p{version} (k int PRIMARY KEY, v text)"));
        let text = format!("INSERT INTO ks.p{version} (k, v) VALUES (?, ?)");
        let put = peer.prepare(&text);
        assert_eq!(Peer::ready(server.address(), version).prepare(&text).0, put.0);
        let body = peer.execute_body(&put, &[value(&int(1)), value(b"one")], 0);
        peer.send(1, EXECUTE, &body);
        assert_eq!(peer.receive().unwrap().kind(), 1);
        if version > 3 {
            // Unset leaves the stored value; too few values are refused.
            let body = peer.execute_body(&put, &[value(&int(1)), int(-2).to_vec()], 0);
            peer.send(1, EXECUTE, &body);
            assert_eq!(peer.receive().unwrap().kind(), 1);
        }
        let body = peer.execute_body(&put, &[value(&int(1))], 0);
        peer.send(1, EXECUTE, &body);
        let text = "there were 2 markers(?) in CQL but 1 bound variables".to_owned();
        assert_eq!(peer.receive().unwrap().error(), (0x2200, text));
        let read = peer.prepare(&format!("SELECT * FROM ks.p{version} WHERE k = ?"));
        let skip = peer.execute_body(&read, &[value(&int(1))], 0x02);
        peer.send(1, EXECUTE, &skip);
        let answer = peer.receive().unwrap();
        assert_eq!(answer.rows_flags(), 0x04, "the metadata is skipped");
        assert!(answer.has(&value(b"one")));
        peer.good(&format!("ALTER TABLE ks.p{version} ADD w int"));
        // Any client must prepare it again: that is how drivers get the new columns.
        peer.send(1, EXECUTE, &skip);
        assert_eq!(peer.receive().unwrap().error().0, 0x2500);
        let member = [&[0, 0, 1, 1][..], &short(16), &put.0, &short(0)].concat();
        let flags = if version == 5 { int(0).to_vec() } else { vec![0] };
        peer.send(1, BATCH, &[member, short(1).to_vec(), flags].concat());
        assert_eq!(peer.receive().unwrap().error().0, 0x2500);
        let mut other = Peer::ready(server.address(), version);
        let again = other.prepare(&format!("SELECT * FROM ks.p{version} WHERE k = ?"));
        assert_eq!((again.0 == read.0, again.1 == read.1), (true, version < 5));
        peer.send(1, EXECUTE, &skip);
        let answer = peer.receive().unwrap();
        if version == 5 {
            assert_eq!(answer.rows_flags(), 0x09, "they have changed");
            assert_eq!(answer.body[14..30], again.1);
            let body = peer.execute_body(&again, &[value(&int(1))], 0x02);
            peer.send(1, EXECUTE, &body);
            assert_eq!(peer.receive().unwrap().rows_flags(), 0x04);
        } else {
            assert_eq!(answer.rows_flags(), 0x01, "the metadata is sent because it has changed");
        }
        assert!(answer.has(&string("w")));
        let unknown = (vec![7; 16], vec![7; 16]);
        let body = peer.execute_body(&unknown, &[], 0);
        peer.send(1, EXECUTE, &body);
        let answer = peer.receive().unwrap();
        assert_eq!(answer.error().0, 0x2500);
        assert!(answer.body.ends_with(&[&short(16)[..], &[7; 16]].concat()));
    }
}

#[test]
fn batches_are_atomic() {
    let server = server();
    with_table(&server);
    for version in [3, 4, 5] {
        let mut peer = Peer::ready(server.address(), version);
        peer.good("TRUNCATE ks.t");
        let put = peer.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
        let member = |k: i32, text: &[u8]| {
            let values = [value(&int(k)), value(&int(1)), value(text)].concat();
            [&[1][..], &short(16), &put.0, &short(3), &values].concat()
        };
        let text = |cql: &str| [&[0][..], &long_string(cql), &short(0)].concat();
        let batch = |members: &[Vec<u8>]| {
            let flags = if version == 5 { int(0).to_vec() } else { vec![0] };
            let count = short(members.len() as u16);
            [&[1][..], &count, &members.concat(), &short(1), &flags].concat()
        };
        let one = text("INSERT INTO ks.t (k, c, v) VALUES (3, 3, 'c')");
        peer.send(1, BATCH, &batch(&[member(1, b"a"), one, member(2, b"b")]));
        assert_eq!(peer.receive().unwrap().kind(), 1);
        let wrong = text("SELECT * FROM ks.t");
        peer.send(1, BATCH, &batch(&[member(9, b"z"), wrong]));
        assert_eq!(peer.receive().unwrap().error().0, 0x2200);
        // Larger batches run on another thread.
        let many: Vec<_> = (10..100).map(|k| member(k, b"m")).collect();
        peer.send(1, BATCH, &batch(&many));
        assert_eq!(peer.receive().unwrap().kind(), 1);
        assert!(peer.good("SELECT count(*) FROM ks.t").has(&value(&93i64.to_be_bytes())));
    }
}

#[test]
fn a_request_of_version_5_may_set_the_time() {
    let server = server();
    with_table(&server);
    let mut peer = Peer::ready(server.address(), 5);
    let insert = "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'a') USING TTL 100";
    let select = "SELECT v FROM ks.t WHERE k = 1";
    // Consistency ONE, the flag, the second.
    let at = |second: u32| [&short(1)[..], &int(0x100), &second.to_be_bytes()].concat();
    let ids = peer.prepare(insert);
    let execute = [&short(16)[..], &ids.0, &short(16), &ids.1].concat();
    let batch = [&[0, 0, 1, 0][..], &long_string(insert), &short(0)].concat();
    for (opcode, body) in [(QUERY, long_string(insert)), (EXECUTE, execute), (BATCH, batch)] {
        peer.good("TRUNCATE ks.t");
        peer.send(3, opcode, &[body, at(1_000)].concat());
        assert_eq!(peer.receive().unwrap().kind(), 1);
        let mut rows = |second: u32| {
            peer.send(3, QUERY, &[long_string(select), at(second)].concat());
            peer.receive().unwrap().has(&value(b"a"))
        };
        assert!(rows(1_099), "{opcode}");
        // It is unsigned: the second before 1970 is one in 2106.
        assert!(!rows(1_100) && !rows(u32::MAX), "{opcode}");
        assert!(!peer.good(select).has(&value(b"a")), "{opcode}");
    }
}

#[test]
fn many_tombstones_warn_and_then_fail_the_read() {
    let mut options = Options::ephemeral();
    (options.tombstones.warn, options.tombstones.fail) = (2, 4);
    let server = Server::start(options).unwrap();
    with_table(&server);
    let mut peer = Peer::ready(server.address(), 4);
    let select = "SELECT v FROM ks.t WHERE k = 77";
    let mut delete = |c: i32| peer.good(&format!("DELETE FROM ks.t WHERE k = 77 AND c = {c}"));
    (0..3).for_each(|c| drop(delete(c)));
    let reported = peer.good(select).warnings();
    assert!(
        matches!(&*reported, [one] if one.starts_with("Read 0 live rows and 3 tombstone cells for query SELECT * FROM ks.t WHERE k = 77 ALLOW FILTERING; token ")),
        "{reported:?}"
    );
    (3..6).for_each(|c| drop(peer.good(&format!("DELETE FROM ks.t WHERE k = 77 AND c = {c}"))));
    // At ONE no replica of one has answered, and one has failed. Version 5 names the replica and
    // the reason.
    let counts = [&short(1)[..], &int(0), &int(1), &int(1)].concat();
    let why = [&[4, 127, 0, 0, 1][..], &short(1)].concat();
    for (version, code, rest) in [
        (3, 0, vec![]),
        (4, 0x1300, [&counts[..], &[0]].concat()),
        (5, 0x1300, [&counts[..], &why, &[0]].concat()),
    ] {
        let answer = Peer::ready(server.address(), version).query(select);
        let (found, text) = answer.error();
        assert_eq!(found, code, "{version}: {text}");
        assert!(text.ends_with("1 failures: READ_TOO_MANY_TOMBSTONES"), "{text}");
        assert_eq!(answer.body[6 + text.len()..], rest, "{version}");
    }
}

#[test]
fn batch_limits_warn_and_refuse_as_in_cassandra() {
    let server = server();
    with_table(&server);
    let mut peer = Peer::ready(server.address(), 4);
    let batch = |kind: &str, rows: &[(i32, usize)]| {
        let row = |(n, (k, len)): (usize, &(i32, usize))| {
            format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {n}, '{}')", "x".repeat(*len))
        };
        let rows: Vec<_> = rows.iter().enumerate().map(row).collect();
        format!("BEGIN {kind} BATCH {} APPLY BATCH", rows.join(" "))
    };
    let is_warned = |warnings: Vec<String>, start: &str| {
        assert!(matches!(&*warnings, [one] if one.starts_with(start)), "{start}: {warnings:?}");
    };
    // By weight, only over several partitions.
    for (kind, len) in [("", 2_400), ("UNLOGGED", 2_400)] {
        let two = peer.good(&batch(kind, &[(1, len), (2, len)]));
        assert_eq!(two.warnings(), [] as [&str; 0]);
        let over = peer.good(&batch(kind, &[(1, len + 200), (2, len)]));
        is_warned(over.warnings(), "Batch for [ks.t] is of size 51");
        let one = peer.good(&batch(kind, &[(1, 30_000), (1, 30_000)]));
        assert_eq!(one.warnings(), [] as [&str; 0]);
        let (code, text) = peer.query(&batch(kind, &[(8, 30_000), (9, 30_000)])).error();
        assert_eq!(code, 0x2200);
        assert!(text.starts_with("Batch too large; it weighs 60"), "{text}");
    }
    assert!(!peer.good("SELECT v FROM ks.t WHERE k = 8").has(b"xx"));
    // Writes of a batch to one row are combined first, and weighed as one row.
    let mut both = |each: &str| {
        let of = |k: i32| each.replace('K', &k.to_string());
        peer.good(&format!("BEGIN BATCH {} {} APPLY BATCH", of(1), of(2))).warnings()
    };
    let long = "y".repeat(2_400);
    let put = format!("INSERT INTO ks.t (k, c, v) VALUES (K, 1, '{long}');");
    let short = "UPDATE ks.t SET v = 'x' WHERE k = K AND c = 1;";
    let elsewhere = put.replace("(K, 1", "(K, 2");
    assert_eq!(both(&format!("{put} {short} {put}")), [] as [&str; 0]);
    is_warned(both(&format!("{put} {elsewhere}")), "Batch for [ks.t] is of size 98");
    // The larger value counts; for a deleted row, only the deletion.
    let deletion = "DELETE FROM ks.t WHERE k = K AND c = 1;";
    let dead = format!("{put} {elsewhere} {deletion}");
    is_warned(both(&format!("{put} {elsewhere} {short}")), "Batch for [ks.t] is of size 98");
    assert_eq!(both(&dead), [] as [&str; 0]);
    // By partitions.
    let rows = |n: i32| (0..n).map(|k| (k, 1)).collect::<Vec<_>>();
    assert_eq!(peer.good(&batch("UNLOGGED", &rows(10))).warnings(), [] as [&str; 0]);
    assert_eq!(peer.good(&batch("", &rows(11))).warnings(), [] as [&str; 0]);
    assert_eq!(
        peer.good(&batch("UNLOGGED", &rows(11))).warnings(),
        [
            "Unlogged batch covering 11 partitions detected against table [ks.t]. You should use a logged batch for atomicity, or \
          asynchronous writes for performance."
        ]
    );
    // A condition restricts it to one partition. Version 3 cannot send warnings.
    let guarded = "IF NOT EXISTS APPLY BATCH";
    let guarded = batch("", &[(20, 30_000), (20, 30_000)]).replace("APPLY BATCH", guarded);
    assert_eq!(peer.good(&guarded).warnings(), [] as [&str; 0]);
    let mut old = Peer::ready(server.address(), 3);
    assert_eq!(old.good(&batch("UNLOGGED", &rows(11))).flags, 0);
    // Other limits, or no limits for embedded sessions.
    server.session().execute(&batch("", &[(8, 30_000), (9, 30_000)]), ()).unwrap();
    let mut options = Options::ephemeral();
    options.batches.fail_bytes = usize::MAX;
    let server = Server::start(options).unwrap();
    with_table(&server);
    let mut peer = Peer::ready(server.address(), 5);
    let over = peer.good(&batch("", &[(8, 30_000), (9, 30_000)]));
    is_warned(over.warnings(), "Batch for [ks.t] is of size 60");
}

#[test]
fn options_without_effect_warn_and_errors_have_advice() {
    let server = server();
    with_table(&server);
    let mut peer = Peer::ready(server.address(), 4);
    for (cql, reported) in [
        (
            "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
            "Your replication factor 3 for keyspace a is higher than the number of nodes 1",
        ),
        (
            "ALTER KEYSPACE a WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 2}",
            "Your replication factor 2 for keyspace a is higher than the number of nodes 1 for datacenter datacenter1",
        ),
        (
            "ALTER KEYSPACE a WITH durable_writes = false",
            "durable_writes of keyspace a is stored and shown, but has no effect here: all writes are in the log",
        ),
        (
            "CREATE TABLE a.t (k int PRIMARY KEY) WITH cdc = true AND comment = 'c' AND speculative_retry = '99p' AND caching = {'keys': 'NONE'}",
            "Options of table t that are stored and shown, but have no effect here: cdc, caching",
        ),
        (
            "ALTER TABLE a.t WITH read_repair = 'NONE'",
            "Options of table t that are stored and shown, but have no effect here: read_repair",
        ),
    ] {
        assert_eq!(peer.good(cql).warnings(), [reported], "{cql}");
    }
    for cql in [
        "CREATE KEYSPACE b WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
        "CREATE TABLE b.t (k int PRIMARY KEY) WITH gc_grace_seconds = 5 AND compaction = {'class': 'LeveledCompactionStrategy'}",
        "ALTER TABLE b.t ADD v int",
    ] {
        assert_eq!(peer.good(cql).warnings(), [] as [&str; 0], "{cql}");
    }
    // The warning about a prepared statement that depends on the current keyspace, once.
    let prepare = |peer: &mut Peer, text: &str| {
        peer.send(8, PREPARE, &long_string(text));
        peer.receive().unwrap().warnings()
    };
    let (bare, full) = ("SELECT * FROM t WHERE k = ?", "SELECT * FROM ks.t WHERE k = ?");
    assert_eq!(prepare(&mut peer, full), [] as [&str; 0]);
    peer.good("USE ks");
    assert_eq!(prepare(&mut peer, full), [] as [&str; 0]);
    let reported = prepare(&mut peer, bare);
    assert!(
        reported[0].starts_with("`USE <keyspace>` with prepared statements is"),
        "{reported:?}"
    );
    assert!(reported[0].contains("Keyspace used: ks, statement keyspace: ks, statement id: "));
    assert_eq!(prepare(&mut peer, "INSERT INTO t (k, c) VALUES (?, ?)"), [] as [&str; 0]);
    // Advice follows Cassandra's message.
    let (code, text) = peer.query("SELECT * FROM ks.t WHERE c = 1").error();
    let words = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. If you want to \
                 execute this query despite the performance unpredictability, use ALLOW FILTERING";
    assert_eq!(code, 0x2200);
    let help = text.strip_prefix(words).unwrap_or_else(|| panic!("{text}"));
    assert!(help.starts_with("; ") && help.len() > 10, "{help}");
    assert_eq!(peer.query("SELECT * FROM ks.none").error().1, "table none does not exist");
}

#[test]
fn statements_are_counted_by_table_and_running_ones_are_listed() {
    let server = server();
    with_table(&server);
    let mut peer = Peer::ready(server.address(), 5);
    let ids = peer.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, 1, 'x')");
    for k in 0..5 {
        peer.send(1, EXECUTE, &peer.execute_body(&ids, &[value(&int(k))], 0));
        assert_eq!(peer.receive().unwrap().kind(), 1);
    }
    (0..3).for_each(|k| drop(peer.good(&format!("SELECT v FROM ks.t WHERE k = {k} AND c = 1"))));
    peer.good("SELECT v FROM ks.t");
    peer.good("CREATE TABLE ks.idle (k int PRIMARY KEY)");
    let ask = |cql: String| server.session().execute(&cql, ()).unwrap();
    for (what, count) in [("read", 3), ("scan", 1), ("write", 5)] {
        for of in ["coordinator", "local"] {
            let from = format!("system_views.{of}_{what}_latency WHERE keyspace_name = 'ks'");
            let columns = "count, max_ms, p50th_ms, p99th_ms, per_second";
            let reported = ask(format!("SELECT {columns} FROM {from} AND table_name = 't'"));
            let all: Vec<(i64, f64, f64, f64, f64)> = reported.typed().unwrap();
            let [(n, max, median, most, rate)] = all[..] else { panic!("{all:?}") };
            assert_eq!(n, count, "{of} {what}");
            assert!(0.0 < median && median <= most && most <= max && max < 60_000.0, "{all:?}");
            assert!(rate > 0.0, "{all:?}");
            let idle = ask(format!("SELECT {columns} FROM {from} AND table_name = 'idle'"));
            let zeros: Vec<(i64, f64, f64, f64, f64)> = idle.typed().unwrap();
            assert_eq!(zeros, [(0, 0.0, 0.0, 0.0, 0.0)]);
        }
    }
    let metrics = ask("SELECT name, value FROM system_views.cql_metrics".to_owned());
    let mut metrics: Vec<(String, f64)> = metrics.typed().unwrap();
    metrics.sort_by(|a, b| a.0.cmp(&b.0));
    let of = |at: usize| (&*metrics[at].0, metrics[at].1);
    assert_eq!(of(0), ("prepared_statements_count", 1.0));
    assert_eq!(of(1), ("prepared_statements_evicted", 0.0));
    assert_eq!(of(2), ("prepared_statements_executed", 5.0));
    assert_eq!(of(3), ("prepared_statements_ratio", 0.5));
    assert_eq!(of(4), ("regular_statements_executed", 5.0));
    // Distribution of partitions of batches; refused and conditional ones do not count.
    peer.good("CREATE TABLE ks.n (k int PRIMARY KEY, n counter)");
    let insert = |k: i32| format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 'x');");
    let all = |keys: std::ops::Range<i32>| keys.map(insert).collect::<String>();
    let add = "UPDATE ks.n SET n = n + 1 WHERE k IN (1, 2);";
    for (kind, changes) in [
        ("", all(0..3)),
        ("", all(0..12)),
        ("", insert(1).repeat(3)),
        ("UNLOGGED", all(0..2)),
        ("COUNTER", add.to_owned()),
        ("", insert(1).replace(';', " IF NOT EXISTS;")),
    ] {
        peer.good(&format!("BEGIN {kind} BATCH {changes} APPLY BATCH"));
    }
    let columns = "name, p50th, p99th, p999th, max";
    let reported = ask(format!("SELECT {columns} FROM system_views.batch_metrics"));
    let mut reported: Vec<(String, f64, f64, f64, i64)> = reported.typed().unwrap();
    reported.sort_by(|a, b| a.0.cmp(&b.0));
    let of = |kind: &str| format!("partitions_per_{kind}_batch");
    let wanted = [
        (of("counter"), 2.0, 2.0, 2.0, 2),
        (of("logged"), 3.0, 12.0, 12.0, 12),
        (of("unlogged"), 2.0, 2.0, 2.0, 2),
    ];
    assert_eq!(reported, wanted);
    // The query itself is a running request.
    let cql = "SELECT task, thread_id FROM system_views.queries";
    let reported = peer.good(cql);
    assert!(reported.has(&value(cql.as_bytes())) && reported.has(b"firn-request-"), "{reported:?}");
    assert!(ask(cql.to_owned()).is_empty());
}

#[test]
fn listeners_get_a_schema_event_before_the_response() {
    let server = server();
    with_table(&server);
    let mut listener = Peer::ready(server.address(), 5);
    let mut silent = Peer::ready(server.address(), 4);
    let kinds = [&short(1)[..], &string("SCHEMA_CHANGE")].concat();
    listener.send(1, REGISTER, &kinds);
    assert_eq!(listener.receive().unwrap().opcode, READY);
    let answer = silent.good("ALTER TABLE ks.t ADD x int");
    let change = ["UPDATED", "TABLE", "ks", "t"].map(string).concat();
    assert_eq!(answer.body, [&int(5)[..], &change].concat());
    let event = listener.receive().unwrap();
    assert_eq!((event.opcode, event.stream), (EVENT, -1));
    assert_eq!(event.body, [string("SCHEMA_CHANGE"), change].concat());
    server.session().execute("DROP TABLE ks.t", ()).unwrap();
    assert!(listener.receive().unwrap().has(&string("DROPPED")));
    let error = silent.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    assert_eq!(error.error().0, 0x2400);
    assert!(error.body.ends_with(&[string("ks"), string("")].concat()));
}

#[test]
fn invalid_consistency_levels_are_refused() {
    const ANY: u16 = 0;
    const SERIAL: u16 = 8;
    const LOCAL_SERIAL: u16 = 9;
    let server = server();
    with_table(&server);
    server.session().execute("CREATE TABLE ks.n (k int PRIMARY KEY, n counter)", ()).unwrap();
    let put = "INSERT INTO ks.t (k, c) VALUES (1, 1)";
    let once = format!("{put} IF NOT EXISTS");
    let batch = format!("BEGIN BATCH {put}; {put} APPLY BATCH");
    let count = "UPDATE ks.n SET n = n + 1 WHERE k = 1";
    let conditional = |name| {
        format!(
            "{name} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is accepted but I \
             don't care how many replicas commit it for non-SERIAL reads\""
        )
    };
    for version in [3, 4, 5] {
        let mut peer = Peer::ready(server.address(), version);
        for (text, consistency, wanted) in [
            ("SELECT * FROM ks.t", ANY, "ANY ConsistencyLevel is only supported for writes"),
            ("SELECT * FROM ks.t", SERIAL, ""),
            (put, ANY, ""),
            (put, SERIAL, "You must use conditional updates for serializable writes"),
            (put, LOCAL_SERIAL, "You must use conditional updates for serializable writes"),
            (&once, ANY, ""),
            (&once, SERIAL, &conditional("SERIAL")),
            (&once, LOCAL_SERIAL, &conditional("LOCAL_SERIAL")),
            (&batch, SERIAL, ""),
            (count, SERIAL, "Counter operations are inherently non-serializable"),
            (count, ANY, "Consistency level ANY is not yet supported for counter table n"),
            ("CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY)", ANY, ""),
        ] {
            let flags = if version == 5 { int(0).to_vec() } else { vec![0] };
            let at = [&short(consistency)[..], &flags].concat();
            peer.send(3, QUERY, &[long_string(text), at.clone()].concat());
            let answer = peer.receive().unwrap();
            assert_eq!(answer.error().1, wanted, "{text}, {consistency}");
            let id = peer.prepare(text);
            let mut body = [&short(16)[..], &id.0].concat();
            if version == 5 {
                body.extend([&short(16)[..], &id.1].concat());
            }
            peer.send(3, EXECUTE, &[body, at].concat());
            assert_eq!(peer.receive().unwrap().error().1, wanted, "{text}, {consistency}");
        }
    }
}

#[test]
fn use_applies_to_later_requests() {
    let server = server();
    with_table(&server);
    let mut peer = Peer::ready(server.address(), 4);
    let all: Vec<u8> = ["USE ks", "SELECT v FROM t WHERE k = 1", "SELECT * FROM t"]
        .iter()
        .zip(1..)
        .flat_map(|(text, stream)| {
            frame(4, 0, stream, QUERY, &[long_string(text), plain(4)].concat())
        })
        .collect();
    peer.send_bytes(&all);
    let mut answers: Vec<_> = (0..3).map(|_| peer.receive().unwrap()).collect();
    answers.sort_by_key(|a| a.stream);
    assert_eq!(answers.iter().map(Answer::kind).collect::<Vec<_>>(), [3, 2, 2]);
    // Other connections have no keyspace; in version 5 a request can name its own.
    assert_eq!(Peer::ready(server.address(), 4).query("SELECT * FROM t").error().0, 0x2200);
    let mut peer = Peer::ready(server.address(), 5);
    let body = [&long_string("SELECT * FROM t")[..], &short(1), &int(0x80), &string("ks")].concat();
    peer.send(2, QUERY, &body);
    assert_eq!(peer.receive().unwrap().kind(), 2);
}

#[test]
fn pages_are_consecutive_and_an_invalid_paging_state_is_refused() {
    let server = server();
    with_table(&server);
    let mut peer = Peer::ready(server.address(), 4);
    for c in 0..10 {
        peer.good(&format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, 'v{c}')"));
    }
    let page = |state: Option<&[u8]>| {
        let flags = if state.is_some() { 0x0c } else { 0x04 };
        let mut body =
            [&long_string("SELECT v FROM ks.t")[..], &short(1), &[flags], &int(4)].concat();
        if let Some(state) = state {
            body.extend(value(state));
        }
        body
    };
    let (mut state, mut seen) = (None::<Vec<u8>>, 0);
    loop {
        peer.send(1, QUERY, &page(state.as_deref()));
        let answer = peer.receive().unwrap();
        seen += (0..10).filter(|c| answer.has(&value(format!("v{c}").as_bytes()))).count();
        if answer.rows_flags() & 2 == 0 {
            break;
        }
        let len = i32::from_be_bytes(answer.body[12..16].try_into().unwrap()) as usize;
        state = Some(answer.body[16..16 + len].to_vec());
    }
    assert_eq!(seen, 10);
    peer.send(1, QUERY, &page(Some(b"nonsense")));
    assert_eq!(peer.receive().unwrap().error().0, 0x2200);
}

#[test]
fn a_stalled_client_does_not_block_others() {
    let server = server();
    with_table(&server);
    let session = server.session();
    let text = "z".repeat(1 << 19);
    for c in 0..4 {
        let cql = "INSERT INTO ks.t (k, c, v) VALUES (1, ?, ?)";
        session.execute(cql, (c, &*text)).unwrap();
    }
    // These request much more than a connection buffers, and read none of it.
    let mut deaf: Vec<Peer> = (0..8).map(|_| Peer::ready(server.address(), 4)).collect();
    for peer in &mut deaf {
        for stream in 0..8 {
            let body = [long_string("SELECT v FROM ks.t"), plain(4)].concat();
            peer.send(stream, QUERY, &body);
        }
    }
    // This one requests more than the memory of the machine.
    let mut greedy = Peer::ready(server.address(), 5);
    let all: Vec<u8> = (0..2000)
        .flat_map(|n| {
            let body = [long_string("SELECT v FROM ks.t"), plain(5)].concat();
            segment(&frame(5, 0, n, QUERY, &body), true)
        })
        .collect();
    greedy.send_bytes(&all);
    // These stop within a frame.
    let mut half: Vec<Peer> = (0..20).map(|_| Peer::ready(server.address(), 5)).collect();
    for peer in &mut half {
        let query = [long_string("SELECT key FROM system.local"), plain(5)].concat();
        let bytes = segment(&frame(5, 0, 1, QUERY, &query), true);
        peer.send_bytes(&bytes[..bytes.len() / 2]);
    }
    let mut peer = Peer::ready(server.address(), 5);
    let waiting = "SELECT active_tasks + pending_tasks AS n FROM system_views.thread_pools";
    for _ in 0..50 {
        let n: i32 = session.execute(waiting, ()).unwrap().row(0).unwrap().get("n").unwrap();
        assert!(n <= 8 * 8 + 32 + 1, "{n} requests are read whose responses nobody reads");
        assert_eq!(peer.good("SELECT c FROM ks.t WHERE k = 1").kind(), 2);
    }
    // One of them starts to read.
    let mut first = deaf.remove(0);
    let mut streams: Vec<i16> = (0..8).map(|_| first.receive().unwrap().stream).collect();
    streams.sort_unstable();
    assert_eq!(streams, (0..8).collect::<Vec<_>>());
    let before = greedy.receive().unwrap();
    assert_eq!(before.opcode, RESULT);
    drop((deaf, half, greedy));
    server.stop().unwrap();
}

#[test]
fn a_stop_finishes_running_requests_and_keeps_writes() {
    let dir = std::env::temp_dir().join(format!("firn-server-stop-{}", std::process::id()));
    let mut options = Options::directory(&dir);
    options.address.set_port(0);
    let server = Server::start(options.clone()).unwrap();
    with_table(&server);
    let mut peer = Peer::ready(server.address(), 5);
    let mut listener = Peer::ready(server.address(), 4);
    listener.send(1, REGISTER, &[&short(1)[..], &string("STATUS_CHANGE")].concat());
    listener.receive().unwrap();
    peer.good("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'old')");
    server.stop().unwrap();
    let event = listener.receive().unwrap();
    assert!(event.opcode == EVENT && event.has(&string("DOWN")));
    assert_eq!((peer.receive(), listener.receive()), (None, None));
    let server = Server::start(options).unwrap();
    let mut peer = Peer::ready(server.address(), 5);
    assert!(peer.good("SELECT v FROM ks.t WHERE k = 1").has(&value(b"old")));
    drop(server);
    std::fs::remove_dir_all(dir).ok();
}

#[test]
fn a_stop_flushes_large_memtables() {
    let dir = std::env::temp_dir().join(format!("firn-server-log-{}", std::process::id()));
    let mut options = Options::directory(&dir);
    options.address.set_port(0);
    let in_memory = |server: &Server| -> u64 {
        let stats = server.session().engine().wide().db().stats();
        stats.trees.iter().map(|tree| tree.memtable_bytes).sum()
    };
    let server = Server::start(options.clone()).unwrap();
    with_table(&server);
    let session = server.session();
    let text = "x".repeat(100 << 10);
    for c in 0..20 {
        session.execute("INSERT INTO ks.t (k, c, v) VALUES (1, ?, ?)", (c, &*text)).unwrap();
    }
    assert!(in_memory(&server) > 2_000_000);
    server.stop().unwrap();
    let server = Server::start(options).unwrap();
    assert!(in_memory(&server) < 100_000, "{}", in_memory(&server));
    let found = server.session().execute("SELECT c FROM ks.t WHERE k = 1", ()).unwrap();
    assert_eq!(found.len(), 20);
    drop((session, server));
    std::fs::remove_dir_all(dir).ok();
}

#[test]
fn silent_connections_and_those_above_the_limit_are_closed() {
    let mut options = Options::ephemeral();
    (options.max_connections, options.login_timeout) = (2, Duration::from_millis(500));
    options.idle_timeout = Some(Duration::from_secs(2));
    let server = Server::start(options).unwrap();
    let mut silent = Peer::connect(server.address(), 4);
    assert_eq!(silent.receive(), None, "nothing was said in time");
    // A byte now and then does not finish the setup.
    let mut slow = Peer::connect(server.address(), 4);
    let letters = frame(4, 0, 1, STARTUP, &map(&[("CQL_VERSION", "3.0.0")]));
    let sent = letters.iter().take_while(|byte| {
        std::thread::sleep(Duration::from_millis(100));
        slow.socket.write_all(&[**byte]).is_ok()
    });
    assert!(sent.count() < letters.len(), "it took its time and was heard");
    while server.connections() > 0 {
        std::thread::yield_now();
    }
    let mut one = Peer::ready(server.address(), 4);
    let mut two = Peer::ready(server.address(), 4);
    let mut three = Peer::connect(server.address(), 4);
    assert_eq!(three.receive(), None, "there are two");
    assert_eq!(two.good("SELECT key FROM system.local").kind(), 2);
    assert_eq!((one.receive(), two.receive()), (None, None), "nothing was said for long");
}

#[test]
fn random_bytes_are_answered_or_end_the_connection() {
    let server = server();
    let mut rng = Rng::new(13);
    let mut next = || rng.next_u64();
    for round in 0..200 {
        let version = 3 + (round % 3) as u8;
        let mut peer = if round % 2 == 0 {
            Peer::ready(server.address(), version)
        } else {
            Peer::connect(server.address(), version)
        };
        let body: Vec<u8> = (0..next() % 60).map(|_| next() as u8).collect();
        let mut bytes = frame(version, next() as u8 & 0x0f, 1, next() as u8 % 0x11, &body);
        if version == 5 && round % 2 == 0 {
            bytes = segment(&bytes, next() % 2 == 0);
        }
        // The server may have closed it already.
        let _ = peer.socket.write_all(&bytes);
        let _ = peer.socket.shutdown(std::net::Shutdown::Write);
        let mut rest = vec![];
        let _ = peer.socket.read_to_end(&mut rest);
    }
    assert_eq!(Peer::ready(server.address(), 5).good("SELECT key FROM system.local").kind(), 2);
}

/// Returns a server over a database in which `ann` may log in and read one table.
fn guarded() -> Server {
    let session = firn_cql::Session::in_memory().unwrap();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))",
        "CREATE ROLE ann WITH PASSWORD = 'secret' AND LOGIN = true",
        "GRANT SELECT ON ks.t TO ann",
    ] {
        session.execute(cql, ()).unwrap();
    }
    Server::start_with_session(session, Options::ephemeral()).unwrap()
}

const AUTHENTICATE: u8 = 0x03;
const AUTH_RESPONSE: u8 = 0x0f;
const AUTH_SUCCESS: u8 = 0x10;

#[test]
fn a_role_that_can_log_in_makes_logins_required() {
    let server = guarded();
    for version in [3, 4, 5] {
        let login = |password: &str| {
            let mut peer = Peer::connect(server.address(), version);
            peer.send(1, STARTUP, &map(&[("CQL_VERSION", "3.0.0")]));
            let answer = peer.receive().unwrap();
            assert_eq!((answer.opcode, answer.stream), (AUTHENTICATE, 1));
            assert_eq!(answer.body, string("org.apache.cassandra.auth.PasswordAuthenticator"));
            peer.settle();
            let token = [b"\0ann\0", password.as_bytes()].concat();
            peer.send(2, AUTH_RESPONSE, &value(&token));
            (peer.receive().unwrap(), peer)
        };
        let (answer, mut peer) = login("guess");
        let text = "Provided username and/or password are incorrect".to_owned();
        assert_eq!(answer.error(), (0x0100, text));
        assert_eq!(peer.receive(), None);
        let (answer, mut peer) = login("secret");
        assert_eq!((answer.opcode, answer.stream), (AUTH_SUCCESS, 2));
        assert_eq!(answer.body, int(-1));
        assert_eq!(peer.good("SELECT * FROM ks.t").kind(), 2);
        assert_eq!(peer.query("INSERT INTO ks.t (k, c) VALUES (1, 1)").error().0, 0x2100);
        assert_eq!(peer.query("SELECT * FROM system_auth.roles").error().0, 0x2100);
        peer.send(2, AUTH_RESPONSE, &value(b"\0ann\0secret"));
        assert_eq!(peer.receive().unwrap().error().0, 0x0a, "nobody asked again");
        // Before the login nothing is executed, and no large request is read.
        let mut peer = Peer::connect(server.address(), version);
        peer.send(1, STARTUP, &map(&[("CQL_VERSION", "3.0.0")]));
        peer.receive().unwrap();
        peer.settle();
        let query = [long_string("SELECT * FROM ks.t"), plain(version)].concat();
        peer.send(3, QUERY, &query);
        let (code, text) = peer.receive().unwrap().error();
        assert_eq!((code, &*text), (0x0a, "Unexpected message QUERY, expecting AUTH_RESPONSE"));
        assert_eq!(peer.receive(), None);
        let mut peer = Peer::connect(server.address(), version);
        peer.send(1, STARTUP, &map(&[("CQL_VERSION", "3.0.0")]));
        peer.receive().unwrap();
        peer.settle();
        peer.send(3, AUTH_RESPONSE, &value(&[0; 5000]));
        assert!(peer.receive().unwrap().error().1.starts_with("Request is too big"));
    }
    let clients = "SELECT username FROM system_views.clients";
    assert!(server.session().execute(clients, ()).is_ok());
}

#[test]
fn a_server_at_a_remote_address_requires_roles_or_consent() {
    let mut options = Options::ephemeral();
    options.address = "0.0.0.0:0".parse().unwrap();
    let refused = Server::start(options.clone()).unwrap_err().to_string();
    assert!(refused.contains("nobody would have to log in"), "{refused}");
    options.login = Some(true);
    let refused = Server::start(options).unwrap_err().to_string();
    assert!(refused.contains("there is no role that may"), "{refused}");
}

/// Returns the value of a sample.
fn sample(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find(|l| l.strip_prefix(name).is_some_and(|l| l.starts_with(' ')));
    line.and_then(|l| l.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn requests_errors_bytes_and_tables_are_counted() {
    let server = server();
    with_table(&server);
    let mut peer = Peer::ready(server.address(), 4);
    let put = peer.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
    let one = [value(&int(1)), value(&int(2)), value(b"v")];
    for _ in 0..3 {
        let body = peer.execute_body(&put, &one, 0);
        peer.send(1, EXECUTE, &body);
        assert_eq!(peer.receive().unwrap().opcode, RESULT);
    }
    peer.good("SELECT * FROM ks.t WHERE k = 1 AND c = 2");
    peer.good("SELECT * FROM ks.t");
    assert_eq!(peer.query("SELECT * FROM ks.nowhere").error().0, 0x2200);
    assert_eq!(peer.query("SELEKT").error().0, 0x2000);
    // Two changes of one table are one batch: one by id, one by text.
    let text = long_string("INSERT INTO ks.t (k, c) VALUES (5, 5)");
    let members = [&[1][..], &short(16), &put.0, &short(3), &one.concat(), &[0], &text, &short(0)];
    peer.send(1, BATCH, &[&[0][..], &short(2), &members.concat(), &short(1), &[0]].concat());
    assert_eq!(peer.receive().unwrap().opcode, RESULT);
    // A response of the connection's own thread is counted before the next request is read; one of
    // a worker, soon after.
    peer.good("USE ks");
    let scan = "firn_server_request_seconds_count{kind=\"query\"} 5";
    while !server.metrics().contains(scan) {
        std::thread::yield_now();
    }
    let reported = server.metrics();
    let table = |access: &str| {
        let labels = format!("{{keyspace=\"ks\",table=\"t\",access=\"{access}\"}}");
        sample(&reported, &format!("firn_server_table_seconds_count{labels}"))
    };
    assert_eq!((table("write"), table("read"), table("scan")), (4.0, 1.0, 1.0));
    for (name, wanted) in [
        ("firn_server_connections{protocol=\"native\"}", 1.0),
        ("firn_server_connections{protocol=\"thrift\"}", 0.0),
        ("firn_server_connections_total", 1.0),
        ("firn_server_request_seconds_count{kind=\"startup\"}", 1.0),
        ("firn_server_request_seconds_count{kind=\"prepare\"}", 1.0),
        ("firn_server_request_seconds_count{kind=\"execute\"}", 3.0),
        ("firn_server_request_seconds_bucket{kind=\"execute\",le=\"60\"}", 3.0),
        ("firn_server_request_seconds_count{kind=\"batch\"}", 1.0),
        ("firn_server_errors_total{error=\"invalid\"}", 1.0),
        ("firn_server_errors_total{error=\"syntax\"}", 1.0),
        ("firn_server_errors_total{error=\"server\"}", 0.0),
        ("firn_server_prepared_statements", 1.0),
        ("firn_server_prepared_evicted_total", 0.0),
        ("firn_server_in_flight_bytes", 0.0),
    ] {
        assert_eq!(sample(&reported, name), wanted, "{name}");
    }
    assert!(sample(&reported, "firn_server_received_bytes_total") > 300.0);
    assert!(sample(&reported, "firn_server_sent_bytes_total") > 100.0);
    assert!(sample(&reported, "firn_operations_written_total") > 3.0, "the store's follow");
    // Each family has help and type once.
    let helps: Vec<_> = reported.lines().filter(|l| l.starts_with("# HELP")).collect();
    let names: std::collections::BTreeSet<_> = helps.iter().map(|l| l.split(' ').nth(2)).collect();
    assert_eq!(names.len(), helps.len());
    server.session().execute("DROP TABLE ks.t", ()).unwrap();
    assert!(!server.metrics().contains("table=\"t\",access"));
}
