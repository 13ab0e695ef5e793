//! `firn migrate` as a process: what it shows, and that one which is killed again and again ends as
//! one that was not.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "a test kills processes at times of its own")]

mod common;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::Temp;
use firn_cluster::Session as ClusterSession;
use firn_cql::Session;
use firn_server::{Options, Server};
use firn_testkit::rng::Rng;

const TABLES: [&str; 2] = [
    "CREATE TABLE shop.items (shop int, item int, name text, tags set<text>, notes list<text>, PRIMARY KEY (shop, item))",
    "CREATE TABLE shop.visits (shop int, day text, visitors counter, PRIMARY KEY (shop, day))",
];

/// A store with a table of cells and one of counters.
fn make(temp: &Temp, shops: i64) {
    let session = Session::open(temp.path("shop")).unwrap();
    let keyspace = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    session.execute(keyspace, ()).unwrap();
    TABLES.iter().for_each(|t| drop(session.execute(t, ()).unwrap()));
    for shop in 0..shops {
        for item in 0..4 {
            let timestamp = shop * 10 + item;
            let text = match item {
                3 => format!(
                    "DELETE FROM shop.items USING TIMESTAMP {timestamp} WHERE shop = {shop} AND item > 8"
                ),
                _ => format!(
                    "INSERT INTO shop.items (shop, item, name, tags, notes) VALUES ({shop}, {item}, 'n{timestamp}', {{'a', 'b'}}, ['x', 'y']) USING TIMESTAMP {timestamp}"
                ),
            };
            session.execute(&text, ()).unwrap();
        }
        let visits = format!(
            "UPDATE shop.visits SET visitors = visitors + {} WHERE shop = {shop} AND day = 'd'",
            shop + 1
        );
        session.execute(&visits, ()).unwrap();
    }
    session.close().unwrap();
}

/// What a side has.
fn content(execute: impl Fn(&str) -> firn_cql::Rows) -> BTreeSet<String> {
    let items = "SELECT JSON shop, item, name, writetime(name) AS w, tags, writetime(tags) AS wt, notes FROM shop.items";
    let visits = "SELECT JSON * FROM shop.visits";
    let mut all = BTreeSet::new();
    for cql in [items, visits] {
        let rows: Vec<(String,)> = execute(cql).typed().unwrap();
        all.extend(rows.into_iter().map(|r| r.0));
    }
    all
}

fn migrate(temp: &Temp, url: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
    command.args(["--db", "shop", "migrate", "--to", url, "--settle", "0"]).args(more);
    command.current_dir(&temp.0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(command: &mut Command) -> (Option<i32>, String, String) {
    let done = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (done.status.code(), text(&done.stdout), text(&done.stderr))
}

#[test]
fn one_that_is_killed_again_and_again_ends_the_same() {
    let temp = Temp::new("migrate", "killed");
    make(&temp, 400);
    let server = Server::start(Options::ephemeral()).unwrap();
    let url = format!("cassandra://{}", server.address());
    let mut rng = Rng::new(20);
    let (mut killed, mut resume) = (0, false);
    while killed < 20 {
        let mut command = migrate(&temp, &url, &["--parallel", "4", "--rate", "8000"]);
        if resume {
            command.arg("--resume");
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50 + rng.below(250)));
        child.kill().unwrap();
        child.wait().unwrap();
        killed += 1;
        resume = temp.path("shop.migration").exists();
    }
    let end = if resume { &["--resume"][..] } else { &[] };
    let (code, _, told) = said(&mut migrate(&temp, &url, end));
    assert_eq!(code, Some(0), "{told}");
    let source = Session::open(temp.path("shop")).unwrap();
    let target = ClusterSession::connect(&url).unwrap();
    let here = content(|cql| source.execute(cql, ()).unwrap());
    assert_eq!(here.len(), 1600);
    assert_eq!(here, content(|cql| target.execute(cql, ()).unwrap()));
    server.stop().unwrap();
}

#[test]
fn it_shows_what_it_would_do_and_carries_what_is_asked_for() {
    let temp = Temp::new("migrate", "chosen");
    make(&temp, 10);
    let server = Server::start(Options::ephemeral()).unwrap();
    let url = format!("cassandra://{}", server.address());
    let target = ClusterSession::connect(&url).unwrap();
    let (code, shown, told) = said(&mut migrate(&temp, &url, &["--dry-run"]));
    assert_eq!(code, Some(0), "{told}");
    assert!(shown.contains("CREATE TABLE IF NOT EXISTS shop.items ("), "{shown}");
    assert!(
        told.contains("shop.items has 10 partitions, 30 rows, 150 cells and 70 deletions"),
        "{told}"
    );
    assert!(target.execute("SELECT * FROM shop.items", ()).is_err());

    let some = ["--tables", "shop.items", "--where", "shop IN (2, 3) AND item < 2", "--json"];
    let (code, shown, told) = said(&mut migrate(&temp, &url, &some));
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("2 deletions of partitions and ranges left out"), "{told}");
    let json: serde_json::Value = serde_json::from_str(shown.trim()).unwrap();
    assert_eq!(json["tables"][0]["changed"]["deletions_kept_back"], 2);
    assert_eq!(json["cells_sent"], 28);
    let keys: Vec<(i32, i32)> =
        target.execute("SELECT shop, item FROM shop.items", ()).unwrap().typed().unwrap();
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), [(2, 0), (2, 1), (3, 0), (3, 1)].into());

    // A journal is not overwritten, and is of one migration only.
    let (code, _, told) = said(&mut migrate(&temp, &url, &some));
    assert_eq!(code, Some(2));
    assert!(told.contains("--resume goes on"), "{told}");
    let (code, _, told) = said(&mut migrate(&temp, &url, &["--resume"]));
    assert_eq!(code, Some(2));
    assert!(told.contains("of another store, cluster, choice of tables or condition"), "{told}");
    for wrong in [
        &["--tables", "shop.none"][..],
        &["--where", "name = 'a'"],
        &["--where", "token(shop) > 1"],
        &["--where", "shop = 1 LIMIT 1"],
        &["--replication", "none"],
        &["--parallel", "0"],
    ] {
        let (code, _, told) = said(&mut migrate(&temp, &url, wrong));
        assert_eq!(code, Some(2), "{wrong:?}: {told}");
    }
    server.stop().unwrap();
}

#[test]
fn what_is_refused_is_told_with_its_key() {
    let temp = Temp::new("migrate", "refused");
    make(&temp, 3);
    let server = Server::start(Options::ephemeral()).unwrap();
    let url = format!("cassandra://{}", server.address());
    let target = ClusterSession::connect(&url).unwrap();
    let keyspace = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    target.execute(keyspace, ()).unwrap();
    target
        .execute(
            "CREATE TABLE shop.items (shop int, item int, name int, PRIMARY KEY (shop, item))",
            (),
        )
        .unwrap();
    let (code, _, told) = said(&mut migrate(&temp, &url, &[]));
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("shop.items is there without") && told.contains("name text"), "{told}");
    server.stop().unwrap();
}
