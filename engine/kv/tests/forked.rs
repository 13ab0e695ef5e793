//! Forks a process with an open store while workers are running. The child reads all contents with
//! the usual read costs, calls no other thread and writes nothing. The parent continues unaffected.
//!
//! The test runs in a process of its own. At the fork, all threads except one are known to be
//! stopped. The main thread waits for the test. Each worker waits in the environment and holds no
//! lock of the engine. So no lock is held in the child forever.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "fork() is C's")]
#![allow(clippy::disallowed_methods, reason = "a directory and processes of this test's own")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use firn_kv::fs::{Thread, WriteFile};
use firn_kv::policy::Tiered;
use firn_kv::{Batch, Db, DbOptions, Env, ErrorKind, OsEnv, Policy, Result, Tree, TreeOptions};
use firn_testkit::as_inside;
use firn_testkit::own_process;

/// Number of threads that wait before they create a table, and whether the gate is closed.
#[derive(Default)]
struct TableGate {
    waiting: usize,
    shut: bool,
}

/// Environment of the operating system with a gate before new tables.
struct Gated {
    inner: Arc<dyn Env>,
    gate: Mutex<TableGate>,
    changed: Condvar,
    parent: u32,
}

impl Gated {
    fn is_child(&self) -> bool {
        std::process::id() != self.parent
    }

    fn set(&self, shut: bool) {
        self.gate.lock().unwrap().shut = shut;
        self.changed.notify_all();
    }

    /// Waits until `waiting` threads wait at the gate.
    fn wait_for(&self, waiting: usize) {
        let mut gate = self.gate.lock().unwrap();
        while gate.waiting < waiting {
            gate = self.changed.wait(gate).unwrap();
        }
    }
}

impl Env for Gated {
    as_inside! {
        inner: create_dir_all list sync_dir file_len open_read read_all append create_log reuse_log rename hard_link remove
        remove_dir lock free_space memory wall_micros monotonic_nanos sleep random
    }

    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        assert!(!self.is_child(), "a child creates {}", file.display());
        if file.extension().is_some_and(|e| e == "sst") {
            let mut gate = self.gate.lock().unwrap();
            gate.waiting += 1;
            self.changed.notify_all();
            while gate.shut {
                gate = self.changed.wait(gate).unwrap();
            }
            gate.waiting -= 1;
        }
        self.inner.create(file)
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        assert!(!self.is_child(), "a child starts {name}");
        self.inner.spawn(name, work)
    }

    fn is_forked(&self) -> bool {
        self.inner.is_forked()
    }
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn put(tree: &Tree, map: &mut Map, i: u32, round: u8) {
    let (key, value) = (i.wrapping_mul(0x9e37_79b1).to_be_bytes().to_vec(), [round; 300].to_vec());
    tree.put(&key, &value).unwrap();
    map.insert(key, value);
}

/// Runs the child's checks. It returns normally only if the child found the expected contents.
fn read_as_child(db: &Db, tree: &Tree, map: &Map) {
    assert!(db.stats().trees[0].runs.len() > 1);
    let all: Map = tree.iter().map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
    assert!(all == *map);
    // Read often enough that reads in the parent would trigger a compaction.
    let mut c = tree.cursor(..).unwrap();
    for _ in 0..3 {
        for (key, value) in map {
            c.seek(key).unwrap();
            assert!(c.key() == key.as_slice() && c.value() == value.as_slice());
            assert_eq!(tree.get(key).unwrap().as_deref(), Some(value.as_slice()));
        }
    }
    drop(c);
    let snapshot = db.snapshot();
    assert_eq!(firn_kv::Readable::iter(&snapshot, tree).count(), map.len());
    let mut batch = Batch::new();
    batch.put(tree, b"k", b"v").unwrap();
    for refused in [tree.put(b"k", b"v"), db.write(batch), tree.flush(), tree.compact()] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly);
    }
}

#[test]
fn a_child_reads_what_workers_of_its_parent_are_busy_with() {
    own_process!();
    let dir = std::env::temp_dir().join(format!("firn-forked-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let env = Arc::new(Gated {
        inner: OsEnv::new(),
        gate: Mutex::default(),
        changed: Condvar::new(),
        parent: std::process::id(),
    });
    let options = DbOptions {
        background_threads: 2,
        memory_budget: 16 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    let db = Db::open_in(env.clone(), &dir, options.clone()).unwrap();
    let tree_options = TreeOptions {
        policy: Policy::Tiered(Tiered {
            min_runs: 2,
            max_runs: 16,
            bucket: 4.0,
            ..Tiered::default()
        }),
        memtable_size: 1 << 20,
        blob_threshold: 200,
        ..TreeOptions::default()
    };
    let tree = db.tree("t", tree_options.clone()).unwrap();
    let mut map = Map::new();
    let pause = db.pause_background().unwrap();
    for round in 0..4 {
        (0..2000).for_each(|i| put(&tree, &mut map, i * 3 + u32::from(round), round));
        tree.flush().unwrap();
    }
    db.wait_idle().unwrap();
    // One worker begins a compaction, then the other one begins a flush.
    env.set(true);
    drop(pause);
    env.wait_for(1);
    let mut i = 0;
    while tree.db().stats().trees[0].sealed == 0 {
        put(&tree, &mut map, i, 9);
        i += 1;
    }
    put(&tree, &mut map, i, 9);
    env.wait_for(2);
    // SAFETY: no other thread of this process runs, as the module docs explain. So the child sees
    // consistent memory. It exits by `_exit`, which runs none of the parent's exit handlers.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        let read = catch_unwind(AssertUnwindSafe(|| read_as_child(&db, &tree, &map)));
        // SAFETY: `_exit` ends the process in any state.
        unsafe { libc::_exit(i32::from(read.is_err())) };
    }
    let child = rustix::process::Pid::from_raw(child).unwrap();
    // Stop a child that hangs, so that the test fails instead of its runner.
    let ended = (0..6000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        rustix::process::waitpid(Some(child), rustix::process::WaitOptions::NOHANG).unwrap()
    });
    if ended.is_none() {
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
        rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap();
    }
    let (_, status) = ended.expect("the child did not exit");
    assert_eq!(status.exit_status(), Some(0), "the child prints the reason");
    // The parent's jobs continue at the gate.
    env.set(false);
    (0..3000).for_each(|i| put(&tree, &mut map, i, 10));
    db.wait_idle().unwrap();
    let shown = |tree: &Tree| -> Map {
        tree.iter().map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
    };
    assert!(shown(&tree) == map);
    assert!(db.verify(|_, _| {}).unwrap().errors.is_empty());
    drop((tree, db));
    let db = Db::open_in(env, &dir, options).unwrap();
    assert!(shown(&db.tree("t", tree_options).unwrap()) == map);
    drop(db);
    std::fs::remove_dir_all(&dir).unwrap();
}
