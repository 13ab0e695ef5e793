//! A primary and its replica as commands: kills of both, definitions that change, promotion.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "processes that are killed")]

use super::common;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Ran, Temp};
use firn_server::client::{ClientError, ClientOptions, ClientRun, CqlClient};
use firn_testkit::rng::Rng;
use serde_json::Value;

/// Time within which a replica catches up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    /// Starts `firn serve`; returns when it serves.
    fn start(temp: &Temp, db: &str, listen: &str, args: &[&str]) -> Serving {
        let fixed = ["--json", "serve", "--listen", listen, "--no-login"];
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args([&["--db", db], &fixed[..], args].concat())
            .current_dir(&temp.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let at: Value = serde_json::from_str(&line).unwrap();
        Serving { child, address: format!("127.0.0.1:{}", at["port"]) }
    }

    fn connect(&self) -> Result<CqlClient, ClientError> {
        CqlClient::connect(&ClientOptions::new(self.address.clone()))
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

fn run(client: &mut CqlClient, cql: &str) {
    client.query(cql, &ClientRun::default()).unwrap_or_else(|e| panic!("{cql}: {e}"));
}

/// Returns the rows of a table, sorted.
fn rows(client: &mut CqlClient, table: &str) -> Result<Vec<(i64, i64)>, ClientError> {
    let answer = client.query(&format!("SELECT k, v FROM ks.{table}"), &ClientRun::default())?;
    let mut all: Vec<(i64, i64)> = answer.rows.typed().unwrap();
    all.sort_unstable();
    Ok(all)
}

/// Waits until the replica has the same rows in this table.
fn await_equal(primary: &mut CqlClient, replica: &Serving, table: &str) {
    let wanted = rows(primary, table).unwrap();
    let begin = Instant::now();
    loop {
        // The server of a replica starts again when definitions change.
        let found = replica.connect().and_then(|mut client| rows(&mut client, table));
        if found.as_ref().is_ok_and(|found| *found == wanted) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{table}: {wanted:?}\n{found:?}");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_replica_follows_through_kills_of_both() {
    let temp = Temp::new("replication", "kills");
    // Fixed ports, because both servers start again.
    let (at, listen) = (free_port(), free_port());
    let mut rng = Rng::new(4);
    let primary_args = ["--replicas", &at];
    let listen = format!("127.0.0.1:{listen}");
    let replica_args = ["--replica-of", &at];
    let start_primary = || Serving::start(&temp, "store", "127.0.0.1:0", &primary_args);
    let start_replica = || Serving::start(&temp, "copy", &listen, &replica_args);
    let mut primary = start_primary();
    let mut client = primary.connect().unwrap();
    run(
        &mut client,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(&mut client, "CREATE TABLE ks.rows (w int, k bigint, v bigint, PRIMARY KEY (w, k))");
    let mut replica = start_replica();
    let mut next = 0i64;
    for cycle in 0..6 {
        let table = format!("t{cycle}");
        run(&mut client, &format!("CREATE TABLE ks.{table} (k bigint PRIMARY KEY, v bigint)"));
        for _ in 0..100 + rng.below(200) {
            // One writer writes in order, so a state of the primary has no gaps.
            run(&mut client, &format!("INSERT INTO ks.rows (w, k, v) VALUES (1, {next}, {next})"));
            if next % 3 == 0 {
                run(&mut client, &format!("INSERT INTO ks.{table} (k, v) VALUES ({next}, 1)"));
            }
            if next % 7 == 0 {
                run(&mut client, &format!("DELETE FROM ks.{table} WHERE k = {}", next - 6));
            }
            next += 1;
        }
        if cycle % 2 == 0 {
            replica.kill();
        } else {
            primary.kill();
        }
        if cycle == 4 {
            run(&mut client, "DROP TABLE ks.t0");
        }
        if cycle % 2 == 0 {
            replica = start_replica();
        } else {
            primary = start_primary();
            client = primary.connect().unwrap();
        }
        if let Ok(found) = replica.connect().and_then(|mut client| rows(&mut client, "rows")) {
            let ordered: Vec<_> = (0..found.len() as i64).map(|n| (n, n)).collect();
            assert_eq!(found, ordered, "cycle {cycle}");
        }
        await_equal(&mut client, &replica, "rows");
        await_equal(&mut client, &replica, &table);
    }
    let refused = replica
        .connect()
        .unwrap()
        .query("INSERT INTO ks.rows (w, k, v) VALUES (1, 1, 1)", &ClientRun::default());
    assert!(refused.unwrap_err().to_string().contains("only reads"));
    assert!(replica.connect().and_then(|mut client| rows(&mut client, "t0")).is_err());
}

#[test]
fn a_replica_is_read_and_promoted_by_commands() {
    let temp = Temp::new("replication", "commands");
    let at = free_port();
    let primary = Serving::start(&temp, "store", "127.0.0.1:0", &["--replicas", &at]);
    let mut client = primary.connect().unwrap();
    run(
        &mut client,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(&mut client, "CREATE TABLE ks.t (k bigint PRIMARY KEY, v bigint)");
    run(&mut client, "INSERT INTO ks.t (k, v) VALUES (1, 2)");
    let value = |ran: Ran| -> u64 {
        let row: Value = serde_json::from_str(&ran.good()).unwrap();
        row["v"].as_u64().unwrap()
    };
    let firn = |args: &[&str], input: &str| Ran::of(temp.run("copy", args, input.as_bytes()));
    firn(&["replicate", &at, "--once"], "").good();
    let shown = firn(&["replicate", "--status"], "").good();
    assert!(shown.contains("primary") && shown.contains("change"), "{shown}");
    let read = firn(&["--json", "cql"], "SELECT v FROM ks.t;");
    assert!(read.2.contains("a replica"), "{}", read.2);
    assert_eq!(value(read), 2);
    let write = "INSERT INTO ks.t (k, v) VALUES (1, 3);";
    assert_eq!(firn(&["cql"], write).0, 1);
    for refused in [&["put", "a", "b"][..], &["compact"], &["serve"]] {
        let refused = firn(refused, "");
        assert!(refused.0 == 2 && refused.2.contains("is a replica"), "{}", refused.2);
    }
    run(&mut client, "INSERT INTO ks.t (k, v) VALUES (2, 4)");
    let shown = firn(&["--json", "replicate", &at, "--once"], "").good();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((shown["behind"].as_u64(), shown["copies"].as_u64()), (Some(0), Some(0)), "{shown}");
    firn(&["promote"], "").good();
    assert_eq!(firn(&["replicate", "--status"], "").0, 2);
    firn(&["cql"], write).good();
    assert_eq!(firn(&["replicate", &at, "--once"], "").0, 2, "it is no replica any more");
    assert_eq!(value(firn(&["--json", "cql"], "SELECT v FROM ks.t WHERE k = 1;")), 3);
}
