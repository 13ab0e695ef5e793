//! The index equals the tree after kills at random moments, and after it has lagged.
#![allow(clippy::disallowed_methods)] // the test starts programs, and removes their files

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use firn_full_text::TextIndex;
use firn_kv::{Db, TreeOptions};

/// Number of kills.
const KILLS: u64 = 24;

/// A directory that is removed at the end of a test.
struct TestDir(PathBuf);

impl TestDir {
    fn new(name: &str) -> TestDir {
        let dir = std::env::temp_dir().join(format!("firn-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("index")).unwrap();
        TestDir(dir)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn index_of(dir: &Path) -> TextIndex {
    TextIndex::open(&dir.join("index")).unwrap()
}

/// Follows to the end, and compares all documents with the tree.
fn check(index: &mut TextIndex, db: &Db, hold_log: u64) {
    let tree = db.tree("notes", TreeOptions::default()).unwrap();
    index.follow(db, &tree, hold_log, &AtomicBool::new(true)).unwrap();
    let stored: BTreeMap<Vec<u8>, String> = tree
        .iter()
        .map(|entry| {
            let (key, value) = entry.unwrap();
            (key.to_vec(), String::from_utf8(value.to_vec()).unwrap())
        })
        .collect();
    let found = index.search("*", 100_000).unwrap();
    assert_eq!(found.len(), stored.len(), "documents and keys");
    assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), stored);
}

#[test]
fn the_index_equals_the_tree_after_kills() {
    let dir = TestDir::new("full-text-kills");
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for kill in 1..=KILLS {
        let mut child = Command::new(env!("CARGO_BIN_EXE_notes"))
            .arg(&dir.0)
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
            check(&mut index_of(&dir.0), &Db::open(dir.0.join("store")).unwrap(), 1 << 30);
        }
    }
    let db = Db::open(dir.0.join("store")).unwrap();
    assert!(db.existing_tree("notes").unwrap().len().unwrap() > 100);
    let mut index = index_of(&dir.0);
    check(&mut index, &db, 1 << 30);
    let some = index.search("word7", 10).unwrap();
    assert!(some.iter().all(|(_, text)| text.contains("word7 ")), "{some:?}");
}

#[test]
fn the_index_is_built_again_after_it_has_lagged() {
    let dir = TestDir::new("full-text-lag");
    let db = Db::open(dir.0.join("store")).unwrap();
    let tree = db.tree("notes", TreeOptions::default()).unwrap();
    tree.put("old", "the first note").unwrap();
    let hold_log = 64 << 10;
    check(&mut index_of(&dir.0), &db, hold_log);
    tree.delete("old").unwrap();
    for round in 0..20 {
        for n in 0..200 {
            tree.put(format!("{n:03}"), format!("{round} {}", "x".repeat(500))).unwrap();
        }
        tree.flush().unwrap();
    }
    assert!(db.subscriptions()[0].is_snapshot_due || db.subscriptions()[0].retained_bytes == 0);
    check(&mut index_of(&dir.0), &db, hold_log);
    // Data that bypasses the log.
    tree.ingest([("zz1", "ingested"), ("zz2", "ingested")]).unwrap();
    let mut index = index_of(&dir.0);
    check(&mut index, &db, hold_log);
    assert_eq!(index.search("ingested", 10).unwrap().len(), 2);
    // Another store in the place of the old one.
    drop((tree, db, index));
    std::fs::remove_dir_all(dir.0.join("store")).unwrap();
    let db = Db::open(dir.0.join("store")).unwrap();
    db.tree("notes", TreeOptions::default()).unwrap().put("new", "another store").unwrap();
    check(&mut index_of(&dir.0), &db, hold_log);
}
