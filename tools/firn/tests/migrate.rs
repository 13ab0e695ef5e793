//! Tests `firn migrate` as a process: its output, and that a migration killed repeatedly has the
//! same result as an uninterrupted one.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "a test kills processes at times of its own")]

use super::common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
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

/// Creates a store with a table of cells and one of counters.
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

/// Returns the content of a side.
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
    command.args(["--db", "shop", "migrate", "--to", url, "--counter-wait", "0"]).args(more);
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
    let (code, _, output) = said(&mut migrate(&temp, &url, end));
    assert_eq!(code, Some(0), "{output}");
    let source = Session::open(temp.path("shop")).unwrap();
    let target = ClusterSession::connect(&url).unwrap();
    let here = content(|cql| source.execute(cql, ()).unwrap());
    assert_eq!(here.len(), 1600);
    assert_eq!(here, content(|cql| target.execute(cql, ()).unwrap()));
    server.stop().unwrap();
}

#[test]
fn a_dry_run_shows_the_plan_and_a_run_copies_the_selected_tables() {
    let temp = Temp::new("migrate", "chosen");
    make(&temp, 10);
    let server = Server::start(Options::ephemeral()).unwrap();
    let url = format!("cassandra://{}", server.address());
    let target = ClusterSession::connect(&url).unwrap();
    let (code, shown, output) = said(&mut migrate(&temp, &url, &["--dry-run"]));
    assert_eq!(code, Some(0), "{output}");
    assert!(shown.contains("CREATE TABLE IF NOT EXISTS shop.items ("), "{shown}");
    assert!(
        output.contains("shop.items has 10 partitions, 30 rows, 150 cells and 70 deletions"),
        "{output}"
    );
    assert!(target.execute("SELECT * FROM shop.items", ()).is_err());

    let some = ["--tables", "shop.items", "--where", "shop IN (2, 3) AND item < 2", "--json"];
    let (code, shown, output) = said(&mut migrate(&temp, &url, &some));
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("2 deletions of partitions and ranges left out"), "{output}");
    let json: serde_json::Value = serde_json::from_str(shown.trim()).unwrap();
    assert_eq!(json["tables"][0]["changed"]["deletions_kept_back"], 2);
    assert_eq!(json["cells_sent"], 28);
    let keys: Vec<(i32, i32)> =
        target.execute("SELECT shop, item FROM shop.items", ()).unwrap().typed().unwrap();
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), [(2, 0), (2, 1), (3, 0), (3, 1)].into());

    // A journal is not overwritten, and belongs to one migration.
    let (code, _, output) = said(&mut migrate(&temp, &url, &some));
    assert_eq!(code, Some(2));
    assert!(output.contains("this migration is complete"), "{output}");
    let (code, _, output) = said(&mut migrate(&temp, &url, &["--resume"]));
    assert_eq!(code, Some(2));
    assert!(
        output.contains("of another store, cluster, choice of tables or condition"),
        "{output}"
    );
    for wrong in [
        &["--tables", "shop.none"][..],
        &["--where", "name = 'a'"],
        &["--where", "token(shop) > 1"],
        &["--where", "shop = 1 LIMIT 1"],
        &["--replication", "none"],
        &["--parallel", "0"],
    ] {
        let (code, _, output) = said(&mut migrate(&temp, &url, wrong));
        assert_eq!(code, Some(2), "{wrong:?}: {output}");
    }
    server.stop().unwrap();
}

#[test]
fn refused_rows_are_reported_with_their_keys() {
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
    let (code, _, output) = said(&mut migrate(&temp, &url, &[]));
    assert_eq!(code, Some(2), "{output}");
    assert!(
        output.contains("shop.items is there without") && output.contains("name text"),
        "{output}"
    );
    server.stop().unwrap();
}

#[test]
fn omitted_tables_are_reported_with_advice() {
    let temp = Temp::new("migrate", "left");
    let firn = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
        said(command.args(["--db", "shop"]).args(args).current_dir(&temp.0))
    };
    let (code, _, output) = firn(&["demo", "songs"]);
    assert_eq!(code, Some(0), "{output}");
    let families = "5 column families left out: \"Music\".comments, ";
    let nowhere = "cassandra://127.0.0.1:1";
    let (code, _, output) = firn(&["migrate", "--to", nowhere, "--dry-run"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("there are no tables to carry"), "{output}");
    assert!(output.contains(families) && !output.contains("compact table"), "{output}");

    let made = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.items (id int PRIMARY KEY, name text);
        CREATE TABLE shop.old (id int PRIMARY KEY, name text) WITH COMPACT STORAGE;";
    let (code, _, output) = firn(&["cql", "-e", made]);
    assert_eq!(code, Some(0), "{output}");
    let (code, _, output) = firn(&["migrate", "--to", nowhere, "--dry-run"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("what the cluster has was not looked at"), "{output}");
    assert!(output.contains(families), "{output}");
    assert!(output.contains("1 compact table left out: shop.old; ALTER TABLE"), "{output}");
    assert!(output.contains("not carried: 6 tables: "), "{output}");

    // No command succeeds if it left out a table that the user did not exclude.
    let server = Server::start(Options::ephemeral()).unwrap();
    let url = &*format!("cassandra://{}", server.address());
    let (code, _, output) = firn(&["migrate", "--to", url, "--tables", "shop"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(
        output.contains("not carried: 1 table: shop.old; select the others with --tables"),
        "{output}"
    );
    let (code, shown, output) = firn(&["migrate", "--to", url, "--tables", "shop", "--verify"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(shown.contains("the table shop.old is only in Firn"), "{shown}");
    let target = ClusterSession::connect(url).unwrap();
    target
        .execute("CREATE TABLE shop.old (id int PRIMARY KEY, name text) WITH COMPACT STORAGE", ())
        .unwrap();
    let (code, shown, output) = firn(&["migrate", "--to", url, "--tables", "shop", "--verify"]);
    assert_eq!((code, &*shown), (Some(1), ""), "{output}");
    assert!(
        output.contains("0 differences") && output.contains("not compared: shop.old"),
        "{output}"
    );
    let back = ["--db", "back", "migrate", "--from", url];
    let (code, _, output) =
        said(Command::new(env!("CARGO_BIN_EXE_firn")).args(back).current_dir(&temp.0));
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("not carried: 1 table: shop.old"), "{output}");
    for more in [&[][..], &["--verify"]] {
        let args = [&["migrate", "--to", url, "--tables", "shop.items"], more].concat();
        let journal = ["--journal", "of-items"];
        let (code, _, output) = firn(&match more {
            [] => [&*args, &journal].concat(),
            _ => args,
        });
        assert_eq!(code, Some(0), "{output}");
    }
    server.stop().unwrap();
}

#[test]
fn the_cluster_is_judged_before_the_store_is_read_and_anything_is_made() {
    let temp = Temp::new("migrate", "judged");
    make(&temp, 3);
    let read = "shop.items has 3 partitions";
    let (code, _, output) = said(&mut migrate(&temp, "cassandra://127.0.0.1:1", &[]));
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("cannot connect to 127.0.0.1:1") && !output.contains(read), "{output}");

    let server = Server::start(Options::ephemeral()).unwrap();
    let url = format!("cassandra://{}", server.address());
    let target = ClusterSession::connect(&url).unwrap();
    let keyspaces = || {
        let cql = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'shop'";
        target.execute(cql, ()).unwrap().len()
    };
    for more in [&["--dry-run"][..], &[]] {
        let args = [&["--replication", "5"], more].concat();
        let (code, _, output) = said(&mut migrate(&temp, &url, &args));
        assert_eq!(code, Some(2), "{output}");
        assert!(
            output.contains("the keyspace shop does not fit the cluster: it asks for 5 copies")
        );
        assert!(output.contains("has 1 node") && !output.contains(read), "{output}");
        assert_eq!((keyspaces(), temp.path("shop.migration").exists()), (0, false));
    }
    let (code, _, output) = said(&mut migrate(&temp, &url, &["--replication", "1"]));
    assert_eq!(code, Some(0), "{output}");
    for more in [&["--replication", "2", "--resume"][..], &["--replication", "2", "--dry-run"]] {
        let (code, _, output) = said(&mut migrate(&temp, &url, more));
        assert_eq!(code, Some(2), "{output}");
        assert!(output.contains("is there with the replication"), "{output}");
        assert!(output.contains("ALTER KEYSPACE shop WITH") && !output.contains(read), "{output}");
    }

    // A repetition reports that it is complete, and does not advise TRUNCATE.
    let (code, _, output) = said(&mut migrate(&temp, &url, &[]));
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("this migration is complete: shop.migration says so"), "{output}");
    assert!(!output.contains("TRUNCATE") && !output.contains(read), "{output}");
    let (code, _, output) = said(&mut migrate(&temp, &url, &["--resume"]));
    assert_eq!(code, Some(0), "{output}");
    // The journal does not block the other direction, which has its own journal of the same name.
    let from = ["--db", "shop", "migrate", "--from", &url, "--tables", "shop.items"];
    let (code, _, output) =
        said(Command::new(env!("CARGO_BIN_EXE_firn")).args(from).current_dir(&temp.0));
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("has lists, to which a copy would append"), "{output}");

    // Existing counters are found before any data is read.
    std::fs::remove_file(temp.path("shop.migration")).unwrap();
    let (code, _, output) = said(&mut migrate(&temp, &url, &["--tables", "shop.visits"]));
    assert_eq!(code, Some(2), "{output}");
    assert!(
        output.contains("TRUNCATE it there") && !output.contains("has 3 partitions"),
        "{output}"
    );
    server.stop().unwrap();
}

#[test]
fn followed_writes_do_not_count_for_the_rate_of_the_copy() {
    let temp = Temp::new("migrate", "followed");
    make(&temp, 3);
    let server = Server::start(Options::ephemeral()).unwrap();
    let url = format!("cassandra://{}", server.address());
    let follow = ["--follow", "--listen", "127.0.0.1:0", "--until-idle", "2"];
    let mut child = migrate(&temp, &url, &follow).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let served = lines.find_map(|l| l.strip_prefix("serving shop at ").map(str::to_owned));
    let client = ClusterSession::connect(&format!("cassandra://{}", served.unwrap())).unwrap();
    assert!(lines.any(|l| l.starts_with("the copy is complete")));
    client.execute("UPDATE shop.items SET name = 'late' WHERE shop = 1 AND item = 1", ()).unwrap();
    let output: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{output:?}");
    assert!(output.iter().any(|l| l.starts_with("sent 69 cells and deletions in ")), "{output:?}");
    // The log has a change for the cell, and possibly some of the store itself.
    let followed = output
        .iter()
        .find(|l| l.ends_with(" of the store's log followed, 1 cell and deletion sent"));
    assert!(followed.is_some(), "{output:?}");
    server.stop().unwrap();
}
