//! The change server: contents and changes, acknowledgements, refusals, slow and lost consumers,
//! changes of the schema.
#![allow(clippy::disallowed_methods, reason = "consumers and writers at the same time")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;

use firn_changes::{ChangeClient, ClientFailure};
use firn_server::http::HttpLogin;
use serde_json::{Value, json};

use super::consumer::{Consumer, cql, request, serve, store};

fn ids(op: &str, ids: impl IntoIterator<Item = i64>) -> Vec<(String, i64)> {
    ids.into_iter().map(|id| (op.to_owned(), id)).collect()
}

#[test]
fn contents_are_followed_by_changes_and_acknowledged() {
    let session = store();
    cql(&session, &["INSERT INTO k.t (id, v) VALUES (1, 10)"]);
    let server = serve(&session, HttpLogin::Open, &[]);
    let mut consumer = Consumer::new(&server, "index", &[]);
    let begin = consumer.next();
    assert_eq!(begin, json!({"op": "snapshot_begin", "reason": "new", "more": true}));
    let read = consumer.next();
    assert_eq!(
        (&read["op"], &read["columns"]["v"], &read["more"]),
        (&json!("read"), &json!(10), &json!(true))
    );
    let end = consumer.next();
    assert_eq!(end["op"], "snapshot_end");
    // The rows of a batch are one change: a consumer resumes after the last one.
    cql(
        &session,
        &[
            "BEGIN BATCH INSERT INTO k.t (id, v) VALUES (2, 1); INSERT INTO k.t (id, v) VALUES (3, 1); APPLY BATCH",
            "DELETE FROM k.t WHERE id = 1",
        ],
    );
    let batch = [consumer.next(), consumer.next()];
    assert_eq!(batch[0]["position"], batch[1]["position"]);
    assert_eq!((&batch[0]["more"], &batch[1]["more"]), (&json!(true), &Value::Null));
    let deleted = consumer.next();
    assert_eq!((&deleted["op"], &deleted["key"]), (&json!("delete"), &json!({"id": 1})));
    // The delete is not acknowledged, so it is sent again.
    let position = batch[1]["position"].as_str().unwrap();
    consumer.client.acknowledge("index", position).unwrap();
    let listed = consumer.client.subscriptions().unwrap()["subscriptions"][0].clone();
    assert_eq!((&listed["position"], &listed["behind"]), (&json!(position), &json!(2)));
    assert_eq!((&listed["connected"], &listed["snapshot_due"]), (&json!(true), &json!(false)));
    drop(consumer);
    let mut consumer = Consumer::new(&server, "index", &[]);
    assert_eq!(consumer.next(), deleted);
    drop(consumer);
    // A consumer that stores positions continues at its own.
    let last = deleted["position"].as_str().unwrap();
    let mut consumer = Consumer::new(&server, "index", &[("after", last)]);
    cql(&session, &["INSERT INTO k.t (id, v) VALUES (4, 1)"]);
    assert_eq!(consumer.take(1), ids("insert", [4]));
    drop(consumer);
    // Without a consumer, too, a position can be acknowledged.
    let client = ChangeClient::new(&server.address().to_string(), None);
    while let Err(ClientFailure::Refused(409, _)) = client.acknowledge("index", last) {
        thread::yield_now();
    }
    client.drop_subscription("index").unwrap();
    assert_eq!(client.subscriptions().unwrap(), json!({"subscriptions": []}));
}

#[test]
fn a_subscription_may_begin_now_and_have_some_tables() {
    let session = store();
    cql(
        &session,
        &["CREATE TABLE k.other (id int PRIMARY KEY)", "INSERT INTO k.t (id, v) VALUES (1, 10)"],
    );
    let server = serve(&session, HttpLogin::Open, &[]);
    let mut all = Consumer::new(&server, "all", &[("from", "now"), ("ack", "sent")]);
    let mut one = Consumer::new(&server, "one", &[("from", "now"), ("tables", "k.other,x")]);
    let mut keyspace = Consumer::new(&server, "keyspace", &[("from", "now"), ("tables", "k")]);
    let parameters = [("from", "now"), ("format", "debezium"), ("tables", "k.t")];
    let mut envelopes = Consumer::new(&server, "envelopes", &parameters);
    cql(
        &session,
        &["INSERT INTO k.t (id, v) VALUES (2, 1)", "INSERT INTO k.other (id) VALUES (3)"],
    );
    assert_eq!(all.take(2), ids("insert", [2, 3]));
    assert_eq!(one.take(1), ids("insert", [3]));
    assert_eq!(keyspace.take(2), ids("insert", [2, 3]));
    let envelope = envelopes.next();
    assert_eq!((&envelope["op"], &envelope["after"]), (&json!("c"), &json!({"id": 2, "v": 1})));
    // The server acknowledges what it has sent, if the consumer wants that.
    while all.client.subscriptions().unwrap()["subscriptions"][0]["behind"] != 0 {
        thread::yield_now();
    }
    let behind = all.client.subscriptions().unwrap()["subscriptions"][3]["behind"].clone();
    assert_ne!(behind, 0);
}

#[test]
fn server_sent_events_have_ids_to_resume_after() {
    let session = store();
    cql(&session, &["INSERT INTO k.t (id, v) VALUES (1, 10)"]);
    let server = serve(&session, HttpLogin::Open, &[]);
    let connect = |headers: &str| {
        let mut socket = TcpStream::connect(server.address()).unwrap();
        let text = format!(
            "GET /changes/page HTTP/1.0\r\nHost: localhost\r\nAccept: text/event-stream\r\n{headers}\r\n"
        );
        socket.write_all(text.as_bytes()).unwrap();
        BufReader::new(socket).lines().map(Result::unwrap)
    };
    let mut lines = connect("").skip_while(|line| !line.is_empty()).skip(1);
    let mut event = |fields: usize| -> Vec<String> {
        let event = lines.by_ref().take(fields).collect();
        assert_eq!(lines.next().unwrap(), "");
        event
    };
    assert_eq!(event(1), ["retry: 2000"]);
    assert_eq!(event(2)[0], "event: snapshot_begin");
    assert!(event(1)[0].starts_with("data: {"), "a row of a snapshot has no id");
    let end = event(3);
    assert_eq!(end[0], "event: snapshot_end");
    let id = end[1].strip_prefix("id: ").unwrap().to_owned();
    cql(&session, &["INSERT INTO k.t (id, v) VALUES (2, 1)"]);
    let insert = event(2);
    assert!(insert[0].starts_with("id: ") && insert[1].contains("\"insert\""), "{insert:?}");
    drop(lines);
    // A browser sends the last id that it has.
    let mut again = vec![];
    while !again.iter().any(|line: &String| line.starts_with("HTTP/1.1 200")) {
        again = connect(&format!("Last-Event-ID: {id}\r\n"))
            .take_while(|line| !line.contains("\"insert\"") && !line.contains("409"))
            .collect();
    }
    let text = again.join("\n");
    assert!(text.contains("text/event-stream") && !text.contains("snapshot"), "{text}");
}

#[test]
fn a_second_consumer_is_refused_while_the_first_is_connected() {
    let session = store();
    let server = serve(&session, HttpLogin::Open, &[]);
    let first = Consumer::new(&server, "one", &[]);
    let client = first.client.clone();
    let Err(ClientFailure::Refused(409, e)) = client.stream("one", &[]) else { panic!() };
    assert!(e.words().contains("has a consumer"), "{e:?}");
    drop(first);
    drop(Consumer::new(&server, "one", &[]));
    // A handle of the program itself counts, too.
    let db = session.engine().store().db();
    let _own = db.subscribe("own", 1 << 20).unwrap();
    let Err(ClientFailure::Refused(409, _)) = client.stream("own", &[]) else { panic!() };
}

#[test]
fn bad_requests_are_refused() {
    let session = store();
    let server = serve(&session, HttpLogin::Open, &[]);
    let at = server.address();
    for (request_line, status, words) in [
        ("GET /", 404, "GET /changes/NAME"),
        ("PUT /changes/a", 405, "only"),
        ("GET /changes/a?format=xml", 400, "format=debezium"),
        ("GET /changes/a?from=then", 400, "from=now"),
        ("GET /changes/a?after=7", 400, "16 hexadecimal digits"),
        ("GET /changes/a?hold_log=much", 400, "hold_log"),
        ("GET /changes/%ff", 400, "malformed"),
        ("GET /changes/", 400, "1 to 255 bytes"),
        ("DELETE /changes/none", 404, "no subscription"),
    ] {
        let (got, text) = request(at, request_line, "");
        assert!(got == status && text.contains(words), "{request_line}: {text}");
    }
    let ack = |body: &str| request(at, "POST /changes/a/ack", body);
    assert_eq!(ack("0000000000000001-5").0, 404);
    let mut consumer = Consumer::new(&server, "a", &[("from", "now")]);
    cql(&session, &["INSERT INTO k.t (id, v) VALUES (1, 10)"]);
    let position = consumer.next()["position"].as_str().unwrap().to_owned();
    assert_eq!((ack("x").0, ack("0000000000000001-5").0), (400, 400));
    assert_eq!(ack(&format!("{}-99999", position.split_once('-').unwrap().0)).0, 400);
    assert_eq!(ack(&format!("{position}\n")).0, 200);
    // Positions of another store, and of a lost history, begin with a snapshot.
    drop(consumer);
    let mut consumer = Consumer::new(&server, "a", &[("after", "0000000000000001-5")]);
    assert_eq!(consumer.next()["reason"], "other history");
}

#[test]
fn pages_of_other_sites_and_wrong_passwords_are_refused() {
    let session = store();
    let open = serve(&session, HttpLogin::Open, &["https://app.example.org"]);
    let get = |headers: &str| request(open.address(), &format!("GET /changes\n{headers}"), "");
    assert_eq!(get("Host: evil.example.org").0, 403);
    assert_eq!(get("Origin: http://evil.example.org").0, 403);
    assert_eq!(get("Origin: null").0, 403);
    assert_eq!(get("Sec-Fetch-Site: cross-site").0, 403);
    assert_eq!(get("Sec-Fetch-Site: same-origin").0, 200);
    let (status, text) = get("Origin: https://app.example.org\nSec-Fetch-Site: cross-site");
    assert!(status == 200 && text.contains("Allow-Origin: https://app.example.org"), "{text}");
    assert!(!get("").1.contains("Allow-Origin"));
    let closed = serve(&session, HttpLogin::Password("secret".into()), &[]);
    let at = closed.address().to_string();
    for login in [None, Some(("any", "wrong"))] {
        let Err(ClientFailure::Refused(401, _)) = ChangeClient::new(&at, login).stream("a", &[])
        else {
            panic!()
        };
    }
    assert!(session.engine().store().db().subscriptions().is_empty());
    ChangeClient::new(&at, Some(("any", "secret"))).stream("a", &[]).unwrap();
    for role in [
        "CREATE ROLE ann WITH PASSWORD = 'a' AND LOGIN = true AND SUPERUSER = true",
        "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true",
    ] {
        cql(&session, &[role]);
    }
    let of_roles = serve(&session, HttpLogin::Roles, &[]);
    let list = |name, password| {
        let at = of_roles.address().to_string();
        ChangeClient::new(&at, Some((name, password))).subscriptions().is_ok()
    };
    assert!(list("ann", "a") && !list("ann", "b") && !list("bob", "b"));
    let far = firn_changes::ChangeServerOptions {
        address: "0.0.0.0:0".parse().unwrap(),
        login: HttpLogin::Open,
        origins: vec![],
    };
    assert!(far.check().unwrap_err().words().contains("requires no login"));
}

#[test]
fn consumers_that_read_at_different_speed_get_the_same_changes_during_writes() {
    const ROWS: i64 = 3000;
    let session = store();
    let server = serve(&session, HttpLogin::Open, &[]);
    let names = ["fast", "slow", "late"];
    let mut consumers = names.map(|name| Consumer::new(&server, name, &[("from", "now")]));
    let all = thread::scope(|scope| {
        for writer in 0..2 {
            let session = session.clone();
            scope.spawn(move || {
                for n in 0..ROWS {
                    let text =
                        format!("INSERT INTO k.t (id, v) VALUES ({}, {writer})", 2 * n + writer);
                    cql(&session, &[&text]);
                }
            });
        }
        let mut read = consumers.iter_mut().zip([0, 300, 6000]).map(|(consumer, pause_at)| {
            scope.spawn(move || {
                let mut got: Vec<(String, i64)> = vec![];
                while got.len() < 2 * ROWS as usize {
                    got.extend(consumer.take(1));
                    if pause_at > 0 && got.len() % pause_at == 1 {
                        thread::sleep(std::time::Duration::from_millis(30));
                    }
                }
                got
            })
        });
        let read = [read.next(), read.next(), read.next()];
        read.map(|thread| thread.unwrap().join().unwrap())
    });
    assert!(all[0] == all[1] && all[1] == all[2]);
    let mut sorted = all[0].clone();
    sorted.sort_by_key(|(_, id)| *id);
    assert_eq!(sorted, ids("insert", 0..2 * ROWS));
}

#[test]
fn a_consumer_that_lags_gets_an_event_and_the_contents() {
    let session = store();
    let server = serve(&session, HttpLogin::Open, &[]);
    let mut consumer = Consumer::new(&server, "slow", &[("hold_log", "64k")]);
    assert_eq!(consumer.take(2), [("snapshot_begin".into(), -1), ("snapshot_end".into(), -1)]);
    // More than the buffers of the connection and the bound, with flushes that release the log.
    let value = "x".repeat(1000);
    cql(&session, &["CREATE TABLE k.long (id int PRIMARY KEY, v text)"]);
    let db = session.engine().store().db();
    for id in 0..60_000 {
        let insert = format!("INSERT INTO k.long (id, v) VALUES ({id}, '{value}')");
        cql(&session, &[&insert]);
        if id % 5000 == 4999 {
            db.tree_names()
                .iter()
                .for_each(|name| db.existing_tree(name).unwrap().flush().unwrap());
        }
    }
    let mut before = 0;
    let reason = loop {
        let event = consumer.next();
        match event["op"].as_str() {
            Some("insert") => before += 1,
            Some("snapshot_begin") => break event["reason"].clone(),
            _ => panic!("{event}"),
        }
    };
    assert_eq!(reason, "lagged");
    assert!(before < 60_000, "{before}");
    let mut rows = 0;
    let end = loop {
        let event = consumer.next();
        match event["op"].as_str() {
            Some("read") => rows += 1,
            Some("snapshot_end") => break event,
            _ => panic!("{event}"),
        }
    };
    assert_eq!(rows, 60_000);
    let position = end["position"].as_str().unwrap();
    consumer.client.acknowledge("slow", position).unwrap();
    cql(&session, &["INSERT INTO k.t (id, v) VALUES (7, 1)"]);
    assert_eq!(consumer.take(1), ids("insert", [7]));
}

#[test]
fn the_schema_may_change_during_a_stream() {
    let session = store();
    let server = serve(&session, HttpLogin::Open, &[]);
    let mut consumer = Consumer::new(&server, "schema", &[("from", "now")]);
    cql(&session, &["INSERT INTO k.t (id, v) VALUES (1, 1)"]);
    assert_eq!(consumer.take(1), ids("insert", [1]));
    cql(&session, &["ALTER TABLE k.t ADD w text", "INSERT INTO k.t (id, w) VALUES (2, 'new')"]);
    let event = consumer.next();
    assert_eq!(event["columns"], json!({"w": "new"}));
    cql(
        &session,
        &[
            "CREATE TABLE k.later (id int PRIMARY KEY)",
            "INSERT INTO k.later (id) VALUES (3)",
            "CREATE INDEX ON k.t (v)",
            "INSERT INTO k.t (id, v) VALUES (4, 1)",
        ],
    );
    assert_eq!(consumer.take(2), ids("insert", [3, 4]));
    cql(
        &session,
        &[
            "DROP TABLE k.later",
            "DROP INDEX k.t_v_idx",
            "ALTER TABLE k.t DROP v",
            "INSERT INTO k.t (id, w) VALUES (5, 'x')",
        ],
    );
    let dropped = consumer.next();
    assert_eq!((&dropped["op"], &dropped["table"]), (&json!("drop"), &json!("later")));
    assert_eq!(consumer.take(1), ids("insert", [5]));
    cql(&session, &["TRUNCATE k.t"]);
    assert_eq!(consumer.take(1)[0].0, "truncate");
    cql(&session, &["DROP KEYSPACE k"]);
    assert_eq!(consumer.take(1)[0].0, "drop");
    drop(consumer);
    // A consumer cannot know of a drop from before its connection, so it has to copy the contents.
    cql(
        &session,
        &[
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.short (id int PRIMARY KEY)",
            "DROP TABLE k.short",
        ],
    );
    let mut consumer = Consumer::new(&server, "schema", &[]);
    while consumer.next()["op"] != "load" {}
}
