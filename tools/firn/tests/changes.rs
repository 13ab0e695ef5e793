//! Tests `firn serve --changes` and `firn follow --connect`: processes that are killed, effects that
//! happen once, and options.
#![cfg(unix)] // the server is ended as by Ctrl-C
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "processes that are killed, and their output")]

use super::common;
use super::console::Serving;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::{Ran, Temp};
use firn_changes::ChangeClient;
use serde_json::Value;

const SCHEMA: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; \
     CREATE TABLE k.t (id int PRIMARY KEY, v int);";

/// A server of the store `db`, with its addresses.
struct ChangesOfStore {
    serving: Serving,
    cql: String,
    changes: String,
}

impl ChangesOfStore {
    fn start(t: &Temp, more: &[&str]) -> ChangesOfStore {
        let args = ["--db", "db", "serve", "--listen", "127.0.0.1:0", "--changes", "0", "--json"];
        let (serving, line) = Serving::start(t, &[&args[..], more].concat());
        let at = |port: &Value| format!("127.0.0.1:{port}");
        ChangesOfStore { serving, cql: at(&line["port"]), changes: at(&line["changes"]) }
    }

    fn execute(&self, t: &Temp, statements: &str) -> Ran {
        Ran::of(t.firn_with(&["cql", "--connect", &self.cql], statements.as_bytes()))
    }

    /// Begins to execute statements in another process.
    fn executes(&self, t: &Temp, statements: impl Iterator<Item = String>) -> Child {
        let statements: String = statements.collect();
        std::fs::write(t.path("statements"), statements).unwrap();
        Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["cql", "--connect", &self.cql, "-f", "statements"])
            .current_dir(&t.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }
}

fn inserts(from: u32, count: u32) -> impl Iterator<Item = String> {
    (from..from + count).map(|n| format!("INSERT INTO k.t (id, v) VALUES ({n}, {n});\n"))
}

/// A consumer that stores its position with its effects.
#[derive(Default)]
struct StoredEffects {
    position: Option<String>,
    /// Number of changes of each row.
    rows: BTreeMap<i64, u32>,
    /// Effects of an incomplete change, which are lost with the connection.
    pending: Vec<i64>,
}

impl StoredEffects {
    /// Applies events until `is_done`, or the connection ends.
    fn apply(&mut self, at: &str, is_done: impl Fn(&StoredEffects) -> bool) {
        self.pending.clear();
        let client = ChangeClient::new(at, None);
        let after = self.position.clone().map(|position| ("after", position));
        let mut lines = client.stream("effects", after.as_slice()).unwrap();
        while !is_done(self) {
            let Ok(Some(line)) = lines.next_line() else { return };
            let event: Value = serde_json::from_str(&line).unwrap();
            match event["op"].as_str().unwrap() {
                "snapshot_begin" => self.rows.clear(),
                "insert" | "read" => self.pending.push(event["key"]["id"].as_i64().unwrap()),
                "snapshot_end" | "heartbeat" => {}
                _ => panic!("{event}"),
            }
            if event["more"].is_null() {
                for row in self.pending.drain(..) {
                    *self.rows.entry(row).or_default() += 1;
                }
                self.position = Some(event["position"].as_str().unwrap().to_owned());
                if self.rows.len().is_multiple_of(100) {
                    // It may fail: the server may be gone.
                    let _ = client.acknowledge("effects", self.position.as_ref().unwrap());
                }
            }
        }
    }
}

/// The server is killed while it writes and sends. Each acknowledged write takes effect once.
#[test]
fn a_killed_server_continues_at_the_position_of_its_consumer() {
    const ROUND: u32 = 1500;
    let t = Temp::new("changes", "server");
    let server = ChangesOfStore::start(&t, &[]);
    server.execute(&t, SCHEMA).good();
    server.execute(&t, &inserts(0, 10).collect::<String>()).good();
    server.serving.stop();
    let mut effects = StoredEffects::default();
    for round in 0..3_u32 {
        let mut server = ChangesOfStore::start(&t, &[]);
        let writer = server.executes(&t, inserts(10 + round * ROUND, ROUND));
        let enough = (10 + round * ROUND + 300 + 400 * round) as i64;
        effects.apply(&server.changes, |e| e.rows.contains_key(&enough));
        server.serving.kill();
        let mut writer = writer;
        writer.wait().unwrap();
    }
    let server = ChangesOfStore::start(&t, &[]);
    server.execute(&t, &inserts(100_000, 1).collect::<String>()).good();
    effects.apply(&server.changes, |e| e.rows.contains_key(&100_000));
    let counted = server.execute(&t, "SELECT count(*) FROM k.t;").good();
    assert!(
        counted.contains(&format!(" {}", effects.rows.len())),
        "{}: {counted}",
        effects.rows.len()
    );
    let repeated: Vec<_> = effects.rows.iter().filter(|(_, count)| **count > 1).collect();
    assert!(repeated.is_empty(), "{repeated:?}");
    assert!(effects.rows.len() > 1000);
    server.serving.stop();
}

/// `firn follow --connect` is killed while it prints. All runs together print each change, and
/// continue after a restart of the server.
#[test]
fn a_killed_consumer_loses_no_change() {
    const ROUND: u32 = 2000;
    let t = Temp::new("changes", "consumer");
    let mut server = ChangesOfStore::start(&t, &[]);
    server.execute(&t, SCHEMA).good();
    let mut seen: BTreeMap<i64, u32> = BTreeMap::new();
    let follow = |at: &str, limit: &str| {
        Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["follow", "--connect", at, "--from", "now", "--limit", limit])
            .current_dir(&t.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    // It begins now, before the first write.
    let client = ChangeClient::new(&server.changes, None);
    drop(client.stream("follow", &[("from", "now".to_owned())]).unwrap());
    for round in 0..3_u32 {
        let mut writer = server.executes(&t, inserts(round * ROUND, ROUND));
        let mut child = follow(&server.changes, "1000000");
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in out.by_ref().take(200 + 300 * round as usize) {
            note(&line.unwrap(), &mut seen);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // A consumer gets the rest of the pipe, too.
        out.map_while(Result::ok).for_each(|line| note(&line, &mut seen));
        assert!(writer.wait().unwrap().success());
        server.serving.stop();
        server = ChangesOfStore::start(&t, &[]);
    }
    server.execute(&t, &inserts(100_000, 1).collect::<String>()).good();
    let mut child = follow(&server.changes, "1000000");
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        note(&line.unwrap(), &mut seen);
        if seen.contains_key(&100_000) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(seen.len(), 3 * ROUND as usize + 1);
    server.serving.stop();
}

/// Counts a whole line; a cut one is printed again by the next run.
fn note(line: &str, seen: &mut BTreeMap<i64, u32>) {
    if let Ok(event) = serde_json::from_str::<Value>(line) {
        *seen.entry(event["key"]["id"].as_i64().unwrap()).or_default() += 1;
    }
}

#[test]
fn a_server_is_followed_listed_and_protected() {
    let t = Temp::new("changes", "options");
    std::fs::write(t.path("secret"), "open sesame\n").unwrap();
    std::fs::write(t.path("wrong"), "open\n").unwrap();
    let server = ChangesOfStore::start(&t, &["--changes-password", "secret"]);
    server.execute(&t, &format!("{SCHEMA} INSERT INTO k.t (id, v) VALUES (1, 2);")).good();
    let at = ["follow", "--connect", &*server.changes];
    let run = |args: &[&str]| Ran::of(t.firn_with(&[&at[..], args].concat(), b""));
    let login = ["--user", "any", "--password-file", "secret"];
    let logged_in = |args: &[&str]| run(&[&login[..], args].concat());
    run(&["--list"]).said(2, &["requires a login", "--user NAME"]);
    run(&["--user", "any", "--password-file", "wrong"]).said(2, &["requires a login"]);
    let text = logged_in(&["--tables", "k", "--limit", "2"]).good();
    assert!(text.contains("snapshot_begin") && text.contains("\"key\":{\"id\":1}"), "{text}");
    let text = logged_in(&["--list"]).good();
    assert!(text.contains("\nfollow"), "{text}");
    logged_in(&["--drop", "follow"]).said(0, &["dropped the subscription \"follow\""]);
    logged_in(&["--drop", "follow"]).said(2, &["there is no subscription \"follow\""]);
    // A stream does not delay the end of the server.
    let client = ChangeClient::new(&server.changes, Some(("any", "open sesame")));
    let mut open = client.stream("open", &[]).unwrap();
    assert!(open.next_line().unwrap().is_some());
    server.serving.stop();
    let gone = Ran::of(t.firn_with(&at, b""));
    gone.said(2, &["cannot be reached", "firn serve --changes"]);
    let both = Ran::of(t.run("db", &at, b""));
    both.said(2, &["a store (--db) and from a server (--connect)"]);
    let far = ["serve", "--ephemeral", "--changes", "0.0.0.0:0"];
    Ran::of(t.firn_with(&far, b"")).said(2, &["requires no login", "--changes-password"]);
    let origin = ["serve", "--changes", "0", "--changes-origin", "https://a.example/b"];
    Ran::of(t.firn_with(&origin, b"")).said(2, &["without a path"]);
    let checked = t.firn(&["serve", "--check", "--changes", "8043"]).good();
    assert!(checked.contains("http://127.0.0.1:8043/changes"), "{checked}");
}
