//! Tests `firn migrate --from` and `--verify` as processes: their output, that a copy killed
//! repeatedly has the same result as an uninterrupted one, and that differences are found.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "a test has no environment")]

use super::common;

use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Ran, Temp};
use firn_cluster::Session;
use firn_server::{Options, Server};
use firn_testkit::rng::Rng;
use serde_json::Value;

const DEFINITIONS: [&str; 3] = [
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE shop.items (shop int, item int, name text, tags set<text>, notes list<text>, total int static, PRIMARY KEY (shop, item))",
    "CREATE TABLE shop.visits (shop int, day text, visitors counter, PRIMARY KEY (shop, day))",
];

/// A server as the cluster, and a directory of stores.
struct Sides {
    temp: Temp,
    server: Server,
    cluster: Session,
    url: String,
}

impl Sides {
    /// Creates a table of cells and one of counters, with this number of partitions.
    fn new(name: &str, shops: i64) -> Sides {
        let server = Server::start(Options::ephemeral()).unwrap();
        let url = format!("cassandra://{}", server.address());
        let cluster = Session::connect(&url).unwrap();
        let execute = |cql: &str| drop(cluster.execute(cql, ()).unwrap());
        DEFINITIONS.iter().for_each(|cql| execute(cql));
        for shop in 0..shops {
            for item in 0..3 {
                execute(&format!(
                    "INSERT INTO shop.items (shop, item, name, tags, notes) VALUES ({shop}, {item}, 'n{item}', {{'a', 'b'}}, ['x', 'y']) USING TIMESTAMP {item}"
                ));
            }
            execute(&format!(
                "UPDATE shop.items USING TTL 500000 SET total = 3 WHERE shop = {shop}"
            ));
            let more = shop + 1;
            execute(&format!(
                "UPDATE shop.visits SET visitors = visitors + {more} WHERE shop = {shop} AND day = 'd'"
            ));
        }
        Sides { temp: Temp::new("migrate-from", name), server, cluster, url }
    }

    fn migrate(&self, side: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
        command.args(["--db", "shop", "migrate", side, &self.url]).args(more);
        command.current_dir(&self.temp.0).stdin(Stdio::null());
        command
    }

    fn ran(&self, side: &str, more: &[&str]) -> Ran {
        Ran::of(self.migrate(side, more).output().unwrap())
    }

    fn in_store(&self, cql: &str) {
        let args = ["--db", "shop", "cql", "-e", cql];
        Ran::of(self.temp.firn_with(&args, b"")).good();
    }

    /// Returns the JSON output of --verify.
    fn verified(&self, code: i32, more: &[&str]) -> Value {
        let args = [&["--verify", "--json"], more].concat();
        let done = self.migrate("--to", &args).output().unwrap();
        let output = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{output}");
        serde_json::from_slice(&done.stdout).unwrap()
    }
}

#[test]
fn a_copy_that_is_killed_again_and_again_ends_the_same() {
    let sides = Sides::new("killed", 300);
    let mut rng = Rng::new(11);
    let mut resume = false;
    for _ in 0..20 {
        let mut command = sides.migrate("--from", &["--parallel", "4", "--rate", "8000"]);
        command.args(resume.then_some("--resume"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50 + rng.below(250)));
        child.kill().unwrap();
        child.wait().unwrap();
        resume = sides.temp.path("shop.migration").exists();
    }
    sides.ran("--from", if resume { &["--resume"] } else { &[] }).good();
    let verified = sides.verified(0, &[]);
    assert_eq!(verified["equal"], true);
    let tables = verified["tables"].as_array().unwrap();
    let numbers: Vec<_> = tables.iter().map(|t| (&t["rows"], &t["cells"])).collect();
    assert_eq!(numbers, [(&1200.into(), &4800.into()), (&300.into(), &300.into())]);
    // A repetition refers to the journal; without a journal, to the existing data.
    sides.ran("--from", &[]).said(2, &["this migration is complete", "--verify"]);
    std::fs::remove_file(sides.temp.path("shop.migration")).unwrap();
    sides.ran("--from", &[]).said(2, &["shop.items has lists", "is not empty", "TRUNCATE"]);
    sides.server.stop().unwrap();
}

#[test]
fn a_dry_run_shows_the_plan_and_a_run_copies_the_selected_tables() {
    let sides = Sides::new("chosen", 9);
    let shown = sides.migrate("--from", &["--dry-run"]).output().unwrap();
    let (out, output) =
        (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(out.contains("CREATE TABLE IF NOT EXISTS shop.items ("), "{out}");
    for said in ["shop.items: elements of notes get new names", "shop.visits: it has to be empty"] {
        assert!(output.contains(said), "{output}");
    }
    assert!(!sides.temp.path("shop").exists());
    sides.ran("--from", &["--tables", "shop.nothing"]).said(2, &["shop.nothing", "shop"]);
    sides.ran("--from", &["--where", "shop ="]).said(2, &["--where", "line 1"]);
    let some = ["--tables", "shop.items", "--where", "item >= 1"];
    sides.ran("--from", &some).good();
    let verified = sides.verified(0, &some);
    assert_eq!(verified["tables"][0]["rows"], 18);
    // Without the condition, rows and a table are missing.
    let verified = sides.verified(1, &[]);
    assert_eq!(verified["tables"][0]["differences"]["row_only_in_cluster"], 9);
    assert_eq!(verified["tables_of_one_side"][0]["kind"], "table_only_in_cluster");
    sides.server.stop().unwrap();
}

#[test]
fn differences_are_found() {
    let sides = Sides::new("found", 5);
    sides.ran("--from", &["--tables", "shop.items"]).good();
    let all = ["--tables", "shop.items", "--drift", "1000"];
    assert_eq!(sides.verified(0, &all)["differences"], 0);
    for (damage, kind) in [
        ("UPDATE shop.items USING TIMESTAMP 1 SET name = 'z' WHERE shop = 1 AND item = 1", "value"),
        (
            "UPDATE shop.items USING TIMESTAMP 7 SET name = 'n1' WHERE shop = 2 AND item = 1",
            "write_time",
        ),
        (
            "UPDATE shop.items USING TIMESTAMP 2 AND TTL 900 SET tags = {'c'} WHERE shop = 3 AND item = 9",
            "",
        ),
        ("DELETE FROM shop.items WHERE shop = 4 AND item = 0", "row_only_in_cluster"),
        ("INSERT INTO shop.items (shop, item) VALUES (5, 5)", "row_only_in_firn"),
        ("DELETE tags['a'] FROM shop.items WHERE shop = 0 AND item = 0", "cell_only_in_cluster"),
    ] {
        let before = sides.verified(if kind == "value" { 0 } else { 1 }, &all);
        sides.in_store(damage);
        let after = sides.verified(1, &all);
        let of = |output: &Value| output["tables"][0]["differences"][kind].as_u64().unwrap_or(0);
        match kind {
            // It expires soon: one side may have no row by now.
            "" => assert_eq!(after["tables"][0]["uncompared"]["expired"], 1, "{after}"),
            _ => assert_eq!(of(&after), of(&before) + 1, "{damage}: {after}"),
        }
    }
    sides.in_store("UPDATE shop.items USING TTL 900000 SET total = 3 WHERE shop = 0");
    let more = sides.verified(1, &all);
    assert_eq!(more["tables"][0]["differences"]["time_to_live"], 1, "{more}");
    sides
        .ran("--to", &["--verify", "--tables", "shop.items", "--show", "1"])
        .said(1, &["more differences not shown", "differences in"]);
    // A row written at the cluster is missing in the store.
    sides.cluster.execute("INSERT INTO shop.items (shop, item) VALUES (77, 1)", ()).unwrap();
    let output = sides.verified(1, &all);
    assert_eq!(output["tables"][0]["differences"]["row_only_in_cluster"], 2, "{output}");
    sides.server.stop().unwrap();
}
