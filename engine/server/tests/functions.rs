//! User-defined functions through drivers: schema changes and errors.

use super::common;

use common::*;
use firn_server::{Options, Server};

fn server() -> Server {
    let server = Server::start(Options::ephemeral()).unwrap();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "INSERT INTO ks.t (k, v) VALUES (1, 21)",
    ] {
        server.session().execute(cql, ()).unwrap();
    }
    server
}

fn strings(all: &[&str]) -> Vec<u8> {
    let mut out = short(all.len() as u16).to_vec();
    all.iter().for_each(|text| out.extend(string(text)));
    out
}

fn words(all: &[&str]) -> Vec<u8> {
    all.iter().flat_map(|text| string(text)).collect()
}

#[test]
fn definitions_are_told_with_the_types_of_arguments() {
    let server = server();
    for version in [3, 4, 5] {
        let mut listener = Peer::ready(server.address(), version);
        listener.send(1, REGISTER, &[&short(1)[..], &string("SCHEMA_CHANGE")].concat());
        assert_eq!(listener.receive().unwrap().opcode, READY);
        let mut peer = Peer::ready(server.address(), version);
        for (cql, change, target, name, types) in [
            (
                "CREATE FUNCTION ks.f(a int, b list<text>) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 'a'",
                "CREATED",
                "FUNCTION",
                "f",
                &["int", "list<text>"][..],
            ),
            (
                "CREATE OR REPLACE FUNCTION ks.f(a int, b list<text>) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 'a + 1'",
                "UPDATED",
                "FUNCTION",
                "f",
                &["int", "list<text>"],
            ),
            (
                "CREATE AGGREGATE ks.g(list<text>) SFUNC f STYPE int",
                "CREATED",
                "AGGREGATE",
                "g",
                &["list<text>"],
            ),
            ("DROP AGGREGATE ks.g", "DROPPED", "AGGREGATE", "g", &["list<text>"]),
            ("DROP FUNCTION ks.f", "DROPPED", "FUNCTION", "f", &["int", "list<text>"]),
        ] {
            let wanted = match version {
                // Version 3 has no functions.
                3 => words(&["UPDATED", "KEYSPACE", "ks"]),
                _ => [words(&[change, target, "ks", name]), strings(types)].concat(),
            };
            let answer = peer.good(cql);
            assert_eq!(answer.body, [int(5).to_vec(), wanted.clone()].concat(), "{cql}");
            let event = listener.receive().unwrap();
            assert_eq!(event.body, [string("SCHEMA_CHANGE"), wanted].concat(), "{cql}");
        }
        // A statement without effect sends no event.
        assert_eq!(peer.good("DROP FUNCTION IF EXISTS ks.f").kind(), 1);
    }
}

#[test]
fn a_failure_names_the_function() {
    let server = server();
    let define =
        "CREATE FUNCTION ks.bad(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 'a / 0'";
    server.session().execute(define, ()).unwrap();
    for version in [3, 4, 5] {
        let mut peer = Peer::ready(server.address(), version);
        let answer = peer.query("SELECT ks.bad(v) FROM ks.t");
        let (code, text) = answer.error();
        let wanted =
            "execution of 'ks.bad[int]' failed: Division by zero: 21 / 0 (line 1, position 3)";
        assert_eq!(text, wanted);
        assert_eq!(code, if version == 3 { 0x2200 } else { 0x1400 });
        let detail = [words(&["ks", "bad"]), strings(&["int"])].concat();
        assert_eq!(answer.body.ends_with(&detail), version > 3);
        assert_eq!(peer.good("SELECT v FROM ks.t").kind(), 2);
    }
}

#[test]
fn prepared_statements_follow_their_functions() {
    let server = server();
    let define = |body: &str| {
        let cql = format!(
            "CREATE OR REPLACE FUNCTION ks.f(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS '{body}'"
        );
        server.session().execute(&cql, ()).unwrap();
    };
    define("a");
    let mut peer = Peer::ready(server.address(), 4);
    let text = "SELECT ks.f(v) FROM ks.t";
    let ids = peer.prepare(text);
    let run = |peer: &mut Peer, ids: &(Vec<u8>, Vec<u8>)| {
        let body = peer.execute_body(ids, &[], 0);
        peer.send(9, EXECUTE, &body);
        peer.receive().unwrap()
    };
    assert!(run(&mut peer, &ids).has(&[&int(4)[..], &int(21)].concat()));
    define("a * 2");
    assert_eq!(run(&mut peer, &ids).error().0, 0x2500);
    let ids = peer.prepare(text);
    assert!(run(&mut peer, &ids).has(&[&int(4)[..], &int(42)].concat()));
    server.session().execute("DROP FUNCTION ks.f", ()).unwrap();
    assert_eq!(run(&mut peer, &ids).error().0, 0x2500);
    let body = long_string(text);
    peer.send(8, PREPARE, &body);
    assert_eq!(peer.receive().unwrap().error(), (0x2200, "Unknown function 'ks.f'".to_owned()));
}
