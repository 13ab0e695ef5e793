//! The folder has each change once, after kills at random moments and after it has lagged.
#![allow(clippy::disallowed_methods)] // the test starts programs, and removes their files

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use firn_change_folder::ChangeFolder;
use firn_changes::ChangeDecoder;
use firn_cql::Session;
use firn_kv::{Db, TreeOptions};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Number of kills.
const KILLS: u64 = 12;

/// A directory that is removed at the end of a test.
struct TestDir(PathBuf);

impl TestDir {
    fn new(name: &str) -> TestDir {
        let dir = std::env::temp_dir().join(format!("firn-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        TestDir(dir)
    }

    fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    fn folder(&self) -> PathBuf {
        self.0.join("folder")
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An event of the files: sequence number, source, kind, key, columns.
type Event = (i64, String, String, String, String);

/// Reads the events of all files, in the order of their names.
fn events(dir: &Path) -> Vec<Event> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut out = vec![];
    for file in files {
        assert_eq!(file.extension().unwrap(), "parquet");
        let file = std::fs::File::open(file).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let text = |column: usize, row: usize| {
                batch.column(column).as_string::<i32>().value(row).to_owned()
            };
            for row in 0..batch.num_rows() {
                let seq = batch.column(0).as_primitive::<Int64Type>().value(row);
                out.push((seq, text(1, row), text(2, row), text(4, row), text(5, row)));
            }
        }
    }
    out
}

/// Follows a store of trees to its end.
fn follow(dir: &TestDir, db: &Db, hold_log: u64) {
    let mut folder = ChangeFolder::open(&dir.folder()).unwrap();
    let mut decoder = ChangeDecoder::of_trees(false);
    folder.follow(db, &mut decoder, hold_log, &AtomicBool::new(true)).unwrap();
}

/// Checks that the files have each number of the store once, in order.
fn check_numbers(dir: &TestDir) -> usize {
    let db = Db::open(dir.store()).unwrap();
    follow(dir, &db, 1 << 30);
    let events = events(&dir.folder());
    let numbers: Vec<String> = events.iter().map(|event| event.4.clone()).collect();
    let stored = db.existing_tree("numbers").unwrap().len().unwrap();
    let expected: Vec<String> = (0..stored).map(|n| format!("{{\"value\":\"{n}\"}}")).collect();
    assert_eq!(numbers.len(), expected.len());
    assert!(numbers == expected, "a number is missing, or twice");
    assert!(events.is_sorted_by_key(|event| event.0));
    numbers.len()
}

#[test]
fn kills_neither_lose_nor_double_a_change() {
    let dir = TestDir::new("change-folder-kills");
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for kill in 1..=KILLS {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lake"))
            .args([dir.store(), dir.folder()])
            .args(["churn", &kill.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lines = 1 + (random >> 33) % 60;
        let out = BufReader::new(child.stdout.take().unwrap());
        let seen = out.lines().take(lines as usize).filter(Result::is_ok).count();
        assert_eq!(seen as u64, lines, "the program ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        if kill % 4 == 0 {
            check_numbers(&dir);
        }
    }
    assert!(check_numbers(&dir) > 10_000);
    let files = std::fs::read_dir(dir.folder()).unwrap().count();
    assert!(files > 10, "{files} files");
}

#[test]
fn a_snapshot_replaces_the_files_after_a_lag() {
    let dir = TestDir::new("change-folder-lag");
    let db = Db::open(dir.store()).unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    tree.put("a", "1").unwrap();
    let hold_log = 64 << 10;
    follow(&dir, &db, hold_log);
    tree.put("b", "2").unwrap();
    tree.delete("a").unwrap();
    follow(&dir, &db, hold_log);
    let kinds = |events: &[Event]| events.iter().map(|e| e.2.clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&events(&dir.folder())), ["read", "put", "delete"]);
    for round in 0..20 {
        for n in 0..100 {
            tree.put(format!("{n:03}"), format!("{round} {}", "x".repeat(1000))).unwrap();
        }
        tree.flush().unwrap();
    }
    // As a kill leaves it.
    std::fs::write(dir.folder().join("00000000000000000099-changes.parquet.unfinished"), "PAR1")
        .unwrap();
    follow(&dir, &db, hold_log);
    let all = events(&dir.folder());
    assert_eq!(all.len(), 101);
    assert!(kinds(&all).iter().all(|kind| kind == "read"), "{:?}", kinds(&all));
}

#[test]
fn rows_of_tables_are_events() {
    let dir = TestDir::new("change-folder-tables");
    let session = Session::open(dir.store()).unwrap();
    let run = |text: &str| drop(session.execute(text, ()).unwrap());
    run(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run("CREATE TABLE k.t (id int PRIMARY KEY, v text)");
    run("INSERT INTO k.t (id, v) VALUES (1, 'one')");
    let db = session.engine().store().db().clone();
    let follow = || {
        let mut folder = ChangeFolder::open(&dir.folder()).unwrap();
        let mut decoder = ChangeDecoder::of_tables(session.clone()).unwrap();
        folder.follow(&db, &mut decoder, 1 << 30, &AtomicBool::new(true)).unwrap();
    };
    follow();
    run("UPDATE k.t SET v = 'two' WHERE id = 1");
    run("DELETE FROM k.t WHERE id = 1");
    follow();
    let found = events(&dir.folder());
    let found: Vec<_> = found.iter().map(|e| (&*e.1, &*e.2, &*e.3, &*e.4)).collect();
    let event = |op, columns| ("k.t", op, r#"{"id":1}"#, columns);
    let expected =
        [event("read", r#"{"v":"one"}"#), event("update", r#"{"v":"two"}"#), event("delete", "{}")];
    assert_eq!(found, expected);
}
