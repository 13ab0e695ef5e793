//! A manifest that is read while a program writes to the store is not called outdated or foreign.
//! No command reports a store as damaged while a program writes to it.
#![allow(clippy::disallowed_methods)] // a writer runs beside the commands

use super::support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_kv::internals::manifest::CURRENT;
use firn_kv::{Db, DbOptions, Env, OsEnv, Result, Tree, TreeOptions};
use firn_testkit::as_inside;
use sstable_dump::history::current::{CurrentManifest, current};
use support::{Room, arg, dump, options, tree_options};

/// An action before a file is read or a directory listed. Its result replaces the file's content.
type Step = Box<dyn FnMut(&Path) -> Option<Vec<u8>> + Send>;

/// An environment in which a writer acts between two reads.
struct Between {
    inner: Arc<dyn Env>,
    step: Mutex<Step>,
}

impl Env for Between {
    as_inside! {
        inner: create_dir_all sync_dir file_len open_read create append create_log reuse_log rename hard_link remove remove_dir
        lock free_space wall_micros monotonic_nanos sleep spawn random
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        (self.step.lock().unwrap())(dir);
        self.inner.list(dir)
    }

    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        let instead = (self.step.lock().unwrap())(file);
        instead.map_or_else(|| self.inner.read_all(file, cap), Ok)
    }
}

/// Reads the current manifest of `dir`, with this action in between.
fn read(
    dir: &Path,
    step: impl FnMut(&Path) -> Option<Vec<u8>> + Send + 'static,
) -> CurrentManifest {
    let env: Arc<dyn Env> =
        Arc::new(Between { inner: OsEnv::new(), step: Mutex::new(Box::new(step)) });
    current(&env, dir, &[]).unwrap().1.unwrap().unwrap()
}

fn tables(found: &CurrentManifest) -> usize {
    found.state.trees.values().flat_map(|t| t.tables()).count()
}

fn store(dir: &Path) -> (Db, Tree) {
    let db = Db::open_with(dir, options()).unwrap();
    let tree = db.tree("t", tree_options()).unwrap();
    put_and_flush(&tree);
    (db, tree)
}

fn put_and_flush(tree: &Tree) {
    tree.put("k", "v").unwrap();
    tree.flush().unwrap();
}

/// Runs this many flushes. Each has finished its table when the files are listed. The manifest gets
/// the table only after it was read.
fn flushes(
    dir: &Path,
    tree: Tree,
    mut left: u32,
) -> impl FnMut(&Path) -> Option<Vec<u8>> + Send + 'static {
    let (dir, mut as_it_was) = (dir.to_path_buf(), None);
    move |path| {
        let is_manifest =
            path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("MANIFEST-"));
        if path == dir && left > 0 && as_it_was.is_none() {
            left -= 1;
            let manifest = OsEnv::new().read_all(&dir.join("MANIFEST-000001"), 1 << 20).unwrap();
            as_it_was = Some(manifest);
            put_and_flush(&tree);
        }
        if is_manifest { as_it_was.take() } else { None }
    }
}

#[test]
fn a_flush_between_two_reads_makes_no_manifest_old() {
    let room = Room::new("flush");
    let dir = room.path("s");
    let (_db, tree) = store(&dir);
    let found = read(&dir, flushes(&dir, tree, 1));
    assert_eq!(found.against, None);
    assert_eq!(tables(&found), 2);
}

/// The state differs each time, so equal words are no proof.
#[test]
fn a_writer_that_flushes_all_the_time_makes_no_manifest_old() {
    let room = Room::new("flushes");
    let dir = room.path("s");
    let (_db, tree) = store(&dir);
    assert_eq!(read(&dir, flushes(&dir, tree, u32::MAX)).against, None);
}

/// All listed tables are gone, and others are in their place.
#[test]
fn a_compaction_between_two_reads_makes_no_manifest_foreign() {
    let room = Room::new("merge");
    let dir = room.path("s");
    let (_db, tree) = store(&dir);
    put_and_flush(&tree);
    let mut merged = false;
    let found = read(&dir, move |path| {
        if path.ends_with(CURRENT) && !std::mem::replace(&mut merged, true) {
            tree.compact().unwrap();
        }
        None
    });
    assert_eq!(found.against, None);
    assert_eq!(tables(&found), 1);
}

/// A manifest that does not change, with evidence against it, is outdated: the same as above, with
/// the manifest put back.
#[test]
fn a_manifest_that_was_put_back_is_old() {
    let room = Room::new("old");
    let dir = room.path("s");
    let (db, tree) = store(&dir);
    let manifest = OsEnv::new().read_all(&dir.join("MANIFEST-000001"), 1 << 20).unwrap();
    put_and_flush(&tree);
    drop((db, tree));
    let of_manifest = |path: &Path| {
        path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("MANIFEST-"))
    };
    let found = read(&dir, move |path| of_manifest(path).then(|| manifest.clone()));
    assert!(found.against.is_some_and(|(_, words)| words.contains("of an older time")));
}

#[test]
fn a_busy_store_is_not_called_damaged() {
    let room = Room::new("busy");
    let dir = room.path("s");
    let options = DbOptions { wal_segment: 256 << 10, ..DbOptions::default() };
    let db = Db::open_with(&dir, options).unwrap();
    let small = TreeOptions { memtable_size: 64 << 10, blob_threshold: 64, ..tree_options() };
    let tree = db.tree("t", small).unwrap();
    // `find` may run before the thread has written anything.
    tree.put(0u32.to_be_bytes(), [0; 300]).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            for i in 0..2_000_000u32 {
                if is_over.load(Relaxed) {
                    break;
                }
                let key = (i.wrapping_mul(2_654_435_761) % 5000).to_be_bytes();
                tree.put(key, [i as u8; 300]).unwrap();
                if i % 500 == 0 {
                    tree.flush().unwrap();
                    // Even on a busy machine a reading is no slower than all of ten flushes.
                    OsEnv::new().sleep(Duration::from_millis(20));
                }
            }
        });
        let path = arg(&dir);
        let commands: [&[&str]; 4] = [
            &["check", &path],
            &["space", &path],
            &["filters", &path, "--probes", "100"],
            &["find", &path, "--hex", "00000000"],
        ];
        let ran: Vec<_> = (0..10).flat_map(|_| commands.map(dump)).collect();
        is_over.store(true, Relaxed);
        for (text, code) in ran {
            assert_eq!(code, 0, "{text}");
        }
    });
    // A store in use is not copied, so no copy reports losses.
    for command in ["salvage", "repair"] {
        let new = room.path(command);
        let (text, code) = dump(&[command, &arg(&dir), "--out", &arg(&new)]);
        assert!(code == 2 && text.contains("next: end the program"), "{text}");
        assert!(!new.exists());
    }
    drop((tree, db));
    for command in ["salvage", "repair"] {
        let (text, code) = dump(&[command, &arg(&dir), "--out", &arg(&room.path(command))]);
        assert_eq!(code, 0, "{text}");
    }
}
