//! Checks that a store leaves no resources in its process after its last handle was dropped, or
//! after a failed opening. This holds even if no other store is used afterwards. The epoch is
//! global to the process, so the test runs in a process of its own.

#![allow(clippy::disallowed_methods)] // the test removes the store's directory directly

use std::path::Path;
use std::sync::Arc;

use firn_kv::{Compression, Db, DbOptions, Env, ErrorKind, OpenFiles, OsEnv, Result, TreeOptions};

use firn_kv::fs::Thread;
use firn_testkit::{as_inside, own_process};

/// Environment of the operating system without held directories. A store then holds this
/// environment itself, not one that was made for its directory. So its references can be counted.
struct Counted {
    inner: Arc<dyn Env>,
}

fn counted() -> Arc<dyn Env> {
    Arc::new(Counted { inner: OsEnv::new() })
}

impl Env for Counted {
    as_inside! {
        inner: create_dir_all list sync_dir file_len open_read read_all create append create_log reuse_log rename
        hard_link remove remove_dir lock free_space memory wall_micros monotonic_nanos sleep random
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        self.inner.spawn(name, work)
    }
}

#[test]
fn nothing_stays_when_the_last_handle_goes() {
    own_process!();
    let dir = std::env::temp_dir().join(format!("firn-left-{}", std::process::id()));
    for (threads, closes, tree_last) in
        [(0, true, false), (0, false, true), (1, true, true), (2, false, false), (2, true, true)]
    {
        let env = counted();
        let files = OpenFiles::new(100);
        // Compressed tables are read through file descriptors.
        let lz4 = TreeOptions { compression: vec![Compression::Lz4], ..TreeOptions::default() };
        let options = DbOptions {
            background_threads: threads,
            open_files: Some(files.clone()),
            ..DbOptions::default()
        };
        let db = Db::open_in(env.clone(), &dir, options).unwrap();
        let tree = db.tree("t", lz4).unwrap();
        for round in 0..3 {
            for i in 0..2_000_u32 {
                tree.put(i.to_be_bytes(), [round; 100]).unwrap();
            }
            tree.flush().unwrap();
            assert_eq!(tree.iter().count(), 2_000);
        }
        tree.put("in the memtable", "a value").unwrap();
        assert!(Arc::strong_count(&env) > 1 && files.open_count() > 0);
        if closes {
            db.close().unwrap();
        }
        // Drop both; one of them is the last handle.
        if tree_last {
            drop(db);
            drop(tree);
        } else {
            drop(tree);
            drop(db);
        }
        assert_eq!(files.open_count(), 0, "{threads} threads: files");
        assert_eq!(Arc::strong_count(&env), 1, "{threads} threads: references to the environment");
        nothing_stays_of_what_fails(&dir, threads);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

/// Runs an opening, and a refresh, that meet a damaged log after tables have been opened.
fn nothing_stays_of_what_fails(dir: &Path, threads: usize) {
    let env = counted();
    let files = OpenFiles::new(100);
    let options = |read_only| DbOptions {
        read_only,
        background_threads: threads,
        open_files: Some(files.clone()),
        ..DbOptions::default()
    };
    let reader = Db::open_in(env.clone(), dir, options(true)).unwrap();
    let before = (files.open_count(), Arc::strong_count(&env));
    let db = Db::open_in(env.clone(), dir, options(false)).unwrap();
    let tree = db.existing_tree("t").unwrap();
    for i in 0..3_u8 {
        tree.put([i], [i; 100]).unwrap();
        tree.flush().unwrap();
    }
    for i in 0..3_u8 {
        tree.put([i], [7; 1_000]).unwrap();
    }
    drop((db, tree));
    assert_eq!((files.open_count(), Arc::strong_count(&env)), before);

    let logs = env.list(dir).unwrap().into_iter().filter(|n| n.ends_with(".wal"));
    let log = dir.join(logs.max().unwrap());
    let whole = std::fs::read(&log).unwrap();
    let mut damaged = whole.clone();
    let value = whole.windows(1_000).position(|w| w == [7; 1_000]).unwrap();
    damaged[value] ^= 1;
    std::fs::write(&log, damaged).unwrap();
    let e = reader.refresh().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    assert_eq!(
        (files.open_count(), Arc::strong_count(&env)),
        before,
        "{threads} threads: a refresh"
    );
    drop(reader);
    for read_only in [true, false, true] {
        let e = Db::open_in(env.clone(), dir, options(read_only)).map(drop).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
        let left = (files.open_count(), Arc::strong_count(&env));
        assert_eq!(left, (0, 1), "{threads} threads, read_only {read_only}");
    }
    std::fs::write(&log, whole).unwrap();
    let db = Db::open_in(env, dir, options(false)).unwrap();
    assert_eq!(db.existing_tree("t").unwrap().get([2]).unwrap().unwrap(), [7; 1_000]);
}
