//! The HTTP interface: security, data, live samples, bounds.
#![allow(clippy::disallowed_methods, reason = "a password's encoding and a waiting client")]

use std::io::{BufRead, BufReader};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use firn_console::{Console, ConsoleStore, HttpLogin, OpenedStore};
use firn_cql::Session;
use firn_kv::{Db, DbOptions, TreeOptions};
use firn_tools::output::Failure;
use serde_json::{Value, json};

use super::client::{TestDir, fill, get, options, post, request, send, start, token};

fn in_memory(may_write: bool) -> (Session, Console) {
    let session = Session::in_memory().unwrap();
    fill(&session);
    let console = start(ConsoleStore::own(&session), HttpLogin::Open, may_write);
    (session, console)
}

#[test]
fn a_page_of_another_site_has_no_access() {
    let (_session, console) = in_memory(true);
    let at = console.address();
    let evil = request(at, "GET /api/store", &[("Host", "rebound.example.org")], "");
    evil.said(403, "localhost");
    let none = request(at, "GET /api/store", &[("Host", "")], "");
    none.said(403, "localhost");
    let text = json!({"statement": "TRUNCATE shop.items"}).to_string();
    request(at, "POST /api/cql", &[], &text).said(403, "token");
    request(at, "POST /api/cql", &[("X-Firn-Token", "guess")], &text).said(403, "token");
    let token = token(&get(at, "/").body);
    let other = [("X-Firn-Token", &*token), ("Origin", "http://example.org")];
    request(at, "POST /api/cql", &other, &text).said(403, "another site");
    let origin = format!("http://{at}");
    let own = [("X-Firn-Token", &*token), ("Origin", &*origin)];
    request(at, "POST /api/cql", &own, &text).good();
    for path in ["/", "/app.js", "/api/store", "/nothing"] {
        let head = get(at, path).head;
        for header in ["script-src 'self'", "frame-ancestors 'none'", "nosniff", "no-store"] {
            assert!(head.contains(header), "{path}: {head}");
        }
        assert!(!head.contains("unsafe") && !head.contains("Access-Control"), "{head}");
    }
}

#[test]
fn requests_are_bounded() {
    let (_session, console) = in_memory(false);
    let at = console.address();
    post(at, "/api/cql", &json!({"statement": "x".repeat(300 << 10)})).said(413, "at most");
    post(at, "/api/cql", &json!({"statement": "SELEC"})).said(400, "SELEC");
    request(at, "PUT /api/cql", &[], "").said(405, "POST");
    get(at, "/nothing").said(404, "no such page");
    let token = token(&get(at, "/").body);
    let headers = [("X-Firn-Token", &*token)];
    request(at, "POST /api/cql", &headers, "{").said(400, "no JSON");
    let other = Console::start(
        ConsoleStore::own(&Session::in_memory().unwrap()).into(),
        firn_console::ConsoleOptions {
            address: "0.0.0.0:0".parse().unwrap(),
            ..options(HttpLogin::Open, false)
        },
    );
    let Err(Failure::Failed { what, next }) = other else { panic!() };
    assert!(what.contains("no login") && next.unwrap().contains("--console-password"), "{what}");
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}")))
}

#[test]
fn a_password_is_required_where_one_is_set() {
    let session = Session::in_memory().unwrap();
    let login = HttpLogin::Password("secret".into());
    let console = start(ConsoleStore::own(&session), login, false);
    let at = console.address();
    for path in ["/", "/app.js", "/api/store", "/api/live"] {
        let refused = get(at, path);
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.head.contains("WWW-Authenticate: Basic"), "{}", refused.head);
    }
    let with = |password: &str| {
        let headers = [("Authorization", &*basic("any", password)), ("Host", "db.example.org")];
        request(at, "GET /api/store", &headers, "").status
    };
    assert_eq!((with("wrong"), with("secre"), with("secret")), (401, 401, 200));
}

#[test]
fn superusers_log_in_where_the_server_has_roles() {
    let session = Session::in_memory().unwrap();
    fill(&session);
    for text in [
        "CREATE ROLE ann WITH PASSWORD = 'a' AND LOGIN = true AND SUPERUSER = true",
        "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true",
    ] {
        session.execute(text, ()).unwrap();
    }
    let console = start(ConsoleStore::own(&session), HttpLogin::Roles, false);
    let at = console.address();
    let with = |name: &str, password: &str| {
        request(at, "GET /api/store", &[("Authorization", &basic(name, password))], "")
    };
    assert_eq!(with("bob", "b").status, 401);
    assert_eq!(with("ann", "b").status, 401);
    // The second request uses the remembered login.
    assert_eq!(with("ann", "a").good()["role"], "ann");
    assert_eq!(with("ann", "a").good()["role"], "ann");
    session.execute("ALTER ROLE ann WITH SUPERUSER = false", ()).unwrap();
    assert_eq!(with("ann", "a").status, 401);
}

#[test]
fn samples_and_events_arrive_live() {
    let dir = TestDir::new("live");
    let session = Session::open(&dir.0).unwrap();
    fill(&session);
    let console = start(ConsoleStore::own(&session), HttpLogin::Open, false);
    let at = console.address();
    let stream = send(at, &format!("GET /api/live HTTP/1.1\r\nHost: {at}\r\n\r\n"));
    let mut lines = BufReader::new(stream).lines();
    let tree = session.engine().store().db().tree_names().pop().unwrap();
    post(at, "/api/recording", &json!({"tree": tree})).good();
    fill_more(&session, 0);
    session.engine().store().db().existing_tree(&tree).unwrap().flush().unwrap();
    let mut next = || {
        let mut data = lines.by_ref().map_while(Result::ok).filter(|l| l.starts_with("data: "));
        data.next().map(|l| serde_json::from_str::<Value>(&l[6..]).unwrap())
    };
    let (mut changed, mut flushed, mut wrote) = (false, false, false);
    while !(changed && flushed && wrote) {
        let part = next().unwrap();
        let sample = &part["sample"];
        changed |= sample["changed"].as_array().unwrap().contains(&json!(tree));
        wrote |= sample["rates"]["operations"].as_f64() > Some(0.0);
        let events = part["events"].as_array().unwrap();
        flushed |= events.iter().any(|e| e["event"] == "flush" && e["tree"] == *tree);
    }
    let history = get(at, "/api/samples").good();
    assert!(!history["samples"].as_array().unwrap().is_empty());
    assert!(history["events"].as_array().unwrap().iter().any(|e| e["event"] == "flush"));
    let recording = get(at, "/api/recording");
    assert!(recording.head.contains("attachment"), "{}", recording.head);
    assert!(recording.body.contains("flush: ") && recording.body.contains("table shop.items"));
    console.stop();
    // The stream ends, and the port is closed.
    while next().is_some() {}
    assert!(std::net::TcpStream::connect(at).is_err());
}

fn fill_more(session: &Session, from: i32) {
    let insert = session.prepare("INSERT INTO shop.items (id, name) VALUES (?, ?)").unwrap();
    for id in from..from + 300 {
        session.run(&insert, (id, "again"), &Default::default()).unwrap();
    }
}

#[test]
fn the_data_of_each_page_is_that_of_the_store() {
    let dir = TestDir::new("data");
    let session = Session::open(&dir.0).unwrap();
    fill(&session);
    let db = session.engine().store().db().clone();
    let tree = db.tree_names().pop().unwrap();
    for from in [0, 100] {
        fill_more(&session, from);
        db.existing_tree(&tree).unwrap().flush().unwrap();
    }
    let console = start(ConsoleStore::own(&session), HttpLogin::Open, false);
    let at = console.address();
    let store = get(at, "/api/store").good();
    assert_eq!((&store["keyspaces"], &store["cql"]), (&json!(["shop"]), &json!(true)));
    let trees = get(at, "/api/trees").good();
    let own = trees["trees"].as_array().unwrap().iter().find(|t| t["name"] == *tree).unwrap();
    assert_eq!(own["words"], "table shop.items");
    assert!(own["policy"].as_str().unwrap().starts_with("tiered"), "{own}");
    assert_eq!(own["options"]["compression"], "lz4");
    let shape = get(at, &format!("/api/shape?tree={tree}")).good();
    let runs = shape["runs"].as_array().unwrap();
    let stats = db.stats();
    let real = &stats.trees.iter().find(|t| t.name == tree).unwrap().runs;
    let bytes: Vec<u64> = runs.iter().map(|r| r["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, real.iter().map(|r| r.bytes).collect::<Vec<_>>());
    assert!(shape["first_key"].as_str().unwrap().starts_with("id = "), "{shape}");
    get(at, "/api/shape?tree=none").said(400, "none");
    let schema = get(at, "/api/schema").good();
    assert!(schema["items"].as_array().unwrap().iter().any(|i| i["name"] == "items"));
    let select = json!({"statement": "SELECT name FROM items WHERE id = 3", "keyspace": "shop"});
    let explained = post(at, "/api/explain", &select).good();
    assert_eq!(explained["rows"], 1);
    assert_eq!(explained["reads"][0]["partition"], "id = 3");
    let change = json!({"statement": "DELETE FROM shop.items WHERE id = 3"});
    post(at, "/api/explain", &change).said(400, "only SELECT");
    post(at, "/api/cql", &change).said(400, "read-only");
    let rows = post(at, "/api/cql", &select).good();
    assert_eq!(rows["rows"], json!([["'again'"]]));
    let sampled = post(at, "/api/sample-reads", &json!({"seconds": 1})).good();
    assert_eq!(sampled["costly"], json!([]));
    let policies = json!({"tree": tree, "policies": ["leveled:4"]});
    assert_eq!(post(at, "/api/simulate", &policies).good()["state"], "running");
    let done = loop {
        let state = get(at, "/api/simulate").good();
        if state["state"] == "done" {
            break state["result"].clone();
        }
    };
    assert_eq!(done["cases"], json!(["as recorded", "as simulated", "leveled:4"]));
    assert_eq!(done["flushes"], 2);
    let bad = json!({"tree": tree, "policies": ["sideways"]});
    post(at, "/api/simulate", &bad).said(400, "sideways");
}

#[test]
fn a_store_of_another_process_is_followed() {
    let dir = TestDir::new("followed");
    let writer = Session::open(&dir.0).unwrap();
    fill(&writer);
    let path = dir.0.clone();
    let open = move || {
        let db = DbOptions { read_only: true, create: false, ..DbOptions::default() };
        let store = firn_wide::StoreOptions { db, clock: None, ..Default::default() };
        let options = firn_wide::Options { store, ..Default::default() };
        let session =
            Session::open_with(&path, options).map_err(|e| Failure::new(e.to_string()))?;
        let db = session.engine().store().db().clone();
        Ok(OpenedStore { db, session: Some(session) })
    };
    let console = start(ConsoleStore::followed(open).unwrap(), HttpLogin::Open, false);
    let at = console.address();
    let count = || {
        let statement = json!({"statement": "SELECT count(*) FROM shop.items"});
        post(at, "/api/cql", &statement).good()["rows"][0][0].clone()
    };
    assert_eq!(count(), "500");
    writer.execute("INSERT INTO shop.items (id, name) VALUES (900, 'new')", ()).unwrap();
    // It is read again while a page is open.
    let stream = send(at, &format!("GET /api/live HTTP/1.1\r\nHost: {at}\r\n\r\n"));
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while count() != "501" {
        assert!(lines.any(|l| l.starts_with("data: ")));
    }
    assert_eq!(get(at, "/api/store").good()["followed"], true);
}

#[test]
fn a_store_of_keys_has_no_cql() {
    let db = Db::in_memory().unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    tree.put("k", "v").unwrap();
    let opened = OpenedStore { db, session: None };
    let console = start(ConsoleStore::opened(opened), HttpLogin::Open, false);
    let at = console.address();
    assert_eq!(get(at, "/api/store").good()["cql"], false);
    assert_eq!(get(at, "/api/schema").good()["items"], json!([]));
    post(at, "/api/cql", &json!({"statement": "SELECT 1"})).said(400, "keys and values");
    let read = post(at, "/api/explain", &json!({"tree": "t", "key": "k"})).good();
    assert_eq!(read["reads"][0]["found"], 1);
    let hex = post(at, "/api/explain", &json!({"tree": "t", "key": "6b", "hex": true})).good();
    assert_eq!(hex["reads"][0]["found"], 1);
    post(at, "/api/explain", &json!({"tree": "t", "key": "x", "hex": true})).said(400, "x");
    post(at, "/api/simulate", &json!({"tree": "t"})).said(400, "in memory");
    get(at, "/api/recording").said(404, "no tree");
}
