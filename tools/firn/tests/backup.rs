//! Tests `firn backup` from the command line, and the backups of a server.
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "files of tests, and a server that is sent signals")]

use super::common;

use std::fs;
use std::path::PathBuf;

use common::{Ran, Temp};
use serde_json::Value;

impl Temp {
    /// Runs `firn` on `db`; standard error has both outputs, so that tests can search all of them.
    fn firn_all(&self, args: &[&str]) -> Ran {
        let Ran(code, out, err) = Ran::of(self.run("db", args, b""));
        Ran(code, out.clone(), out + err.as_str())
    }

    fn json_of(&self, args: &[&str]) -> Value {
        let text = self.firn_all(&[args, &["--json"]].concat()).good();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    fn scan(&self, db: &str) -> String {
        Ran::of(self.run(db, &["scan"], b"")).good()
    }

    fn tables(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("backups/tables")).unwrap();
        entries.map(|e| e.unwrap().path()).collect()
    }
}

#[test]
fn backups_are_made_listed_restored_and_pruned() {
    let t = Temp::new("backup", "whole");
    t.firn_all(&["put", "apple", "red", "pear", "green"]).good();
    let would = t.json_of(&["backup", "create", "backups", "--dry-run"]);
    assert_eq!(would["dry_run"], true);
    assert!(!t.path("backups").exists(), "a dry run writes nothing");
    let first = t.firn_all(&["backup", "create", "backups"]).good().trim().to_owned();
    t.firn_all(&["put", "cherry", "red"]).good();
    let second = t.json_of(&["backup", "create", "backups", "--rate", "100m"]);
    assert_eq!((&second["tables"], &second["copied_tables"]), (&2.into(), &1.into()));
    let listed = t.json_of(&["backup", "list", "backups"]);
    assert_eq!(listed["backups"][0]["id"], first.as_str());
    assert_eq!(listed["backups"][1]["id"], second["id"]);
    t.firn_all(&["backup", "list", "backups"]).said(0, &[&first, "trees", "tables", " UTC"]);
    let verdict = t.json_of(&["backup", "verify", "backups"]);
    assert_eq!(
        (&verdict["sound"], &verdict["backups"], &verdict["tables"]),
        (&true.into(), &2.into(), &2.into())
    );
    t.firn_all(&["backup", "restore", "backups", "--into", "newest"])
        .said(0, &["2 tables", "3 entries", "verified"]);
    assert_eq!(t.scan("newest"), t.scan("db"));
    t.firn_all(&["backup", "restore", "backups", &first, "--into", "older", "--dry-run"])
        .said(0, &["would restore", &first, "1 table"]);
    assert!(!t.path("older").exists());
    let report = t.json_of(&["backup", "restore", "backups", &first, "--into", "older"]);
    assert_eq!(report["entries"], 2);
    assert_eq!(t.scan("older"), "apple\tred\npear\tgreen\n");
    t.firn_all(&["backup", "restore", "backups", "--into", "older"]).said(2, &["not empty"]);
    t.firn_all(&["backup", "restore", "backups", "nothing", "--into", "x"])
        .said(2, &["no backup \"nothing\"", "firn backup list"]);
    let would = t.json_of(&["backup", "prune", "backups", "--keep", "1", "--dry-run"]);
    assert_eq!(would["removed"], Value::from(vec![first.clone()]));
    t.firn_all(&["backup", "prune", "backups", "--keep-days", "1"])
        .said(0, &["0 backups", "2 remaining"]);
    t.firn_all(&["backup", "prune", "backups", "--keep", "1"]).said(0, &[&first, "1 remaining"]);
    assert_eq!(t.json_of(&["backup", "list", "backups"])["backups"].as_array().unwrap().len(), 1);
    t.firn_all(&["backup", "prune", "backups", "--keep", "0"]).said(0, &["0 remaining"]);
    assert!(t.tables().is_empty());
    t.firn_all(&["backup", "list", "backups"]).said(0, &["there is no backup"]);
    t.firn_all(&["backup", "restore", "backups", "--into", "x"]).said(2, &["there is no backup"]);
}

#[test]
fn damage_is_named() {
    let t = Temp::new("backup", "wrong");
    t.firn_all(&["backup", "create", "backups"]).said(2, &["there is no store", "--db DIR"]);
    t.firn_all(&["put", "k", "v"]).good();
    for args in [&["verify", "backups"][..], &["verify", "backups", "--json"]] {
        t.firn_all(&[&["backup"], args].concat()).said(2, &["there is no backup", "backups"]);
    }
    t.firn_all(&["backup", "create", ""]).said(2, &["no repository of backups is named"]);
    assert!(!t.path("FIRN-BACKUPS").exists(), "nothing is written where nothing was named");
    let id = t.firn_all(&["backup", "create", "backups"]).good().trim().to_owned();
    let table = t.tables().remove(0);
    let mut bytes = fs::read(&table).unwrap();
    bytes[5] ^= 1;
    fs::write(&table, &bytes).unwrap();
    let name = table.file_name().unwrap().to_str().unwrap();
    t.firn_all(&["backup", "verify", "backups"])
        .said(1, &["damaged:", name, &id, "firn backup create", "1 error"]);
    t.firn_all(&["backup", "restore", "backups", "--into", "x"])
        .said(2, &["can't be restored", "firn backup verify", name]);
    assert!(!t.path("x").exists());
    fs::remove_file(&table).unwrap();
    t.firn_all(&["backup", "verify", "backups"]).said(1, &["not there", name]);
    // Follows the advice.
    t.firn_all(&["backup", "create", "backups"]).good();
    t.firn_all(&["backup", "verify", "backups"]).said(0, &["sound", "2 backups"]);
    let record = t.path("backups/backups").join(&id);
    fs::write(&record, "firn backup 1\n").unwrap();
    t.firn_all(&["backup", "list", "backups"]).said(1, &[&id, "damaged"]);
    t.firn_all(&["backup", "prune", "backups", "--keep", "1"]).said(2, &["damaged", &id]);
    fs::create_dir(t.path("other")).unwrap();
    fs::write(t.path("other/file"), "x").unwrap();
    t.firn_all(&["backup", "create", "other"]).said(2, &["no repository of backups"]);
    t.firn_all(&["backup", "create", "ftp://x/y"]).said(2, &["ftp://x/y", "a folder"]);
    t.firn_all(&["backup", "create", "backups", "--rate", "fast"]).said(2, &["--rate"]);
    t.firn_all(&["backup", "create", "backups", "--rate", "0"]).said(2, &["leave --rate out"]);
}

/// A server that ends with the test.
#[cfg(unix)]
struct StoreServer(std::process::Child);

#[cfg(unix)]
impl Drop for StoreServer {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[cfg(unix)]
#[test]
fn a_server_makes_the_backups_of_its_store() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    let t = Temp::new("backup", "server");
    let script = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.items (id int PRIMARY KEY, name text);
        INSERT INTO shop.items (id, name) VALUES (1, 'pear');";
    t.firn_all(&["cql", "-e", script]).good();
    let server = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["--db", "db", "serve", "--listen", "127.0.0.1:0", "--log", "info"])
        .args(["--backup", "backups", "--backup-every", "1000", "--backup-keep", "1"])
        .current_dir(&t.0)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = StoreServer(server);
    let mut log = BufReader::new(server.0.stderr.take().unwrap());
    let mut said = |wanted: &str| loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the log ends without {wanted:?}");
        if line.contains(wanted) {
            return line;
        }
    };
    // There is no backup yet, so one is due.
    said("backup 2");
    said("removed 0 backups");
    t.firn_all(&["backup", "create", "backups"]).said(2, &["locked", "firn serve --backup"]);
    t.firn_all(&["backup", "create", "backups", "--dry-run"]).said(0, &["would copy 0"]);
    kill_process(Pid::from_child(&server.0), Signal::USR1).unwrap();
    said("backup 2");
    said("removed 1 backup");
    kill_process(Pid::from_child(&server.0), Signal::TERM).unwrap();
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert!(server.0.wait().unwrap().success(), "{rest}");
    t.firn_all(&["backup", "restore", "backups", "--into", "again"]).good();
    let rows = Ran::of(t.run("again", &["cql", "-e", "SELECT name FROM shop.items"], b"")).good();
    assert!(rows.contains("pear"), "{rows}");
}
