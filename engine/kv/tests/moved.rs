//! A store is bound to a directory, not to a path. A store stays intact when the working directory
//! changes, and when directories are moved, replaced or removed while a store is open.

#![allow(clippy::disallowed_methods)] // the tests move directories directly

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_crash::FaultEnv;
use firn_kv::{Db, DbOptions, Durability, Env, ErrorKind, OsEnv, Result, Tree, TreeOptions};
use firn_testkit::effort::times_effort;
use firn_testkit::own_process;

/// Temporary directory of a test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("firn-moved-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns options with small files, so that the store creates and removes files often.
fn small(threads: usize) -> (DbOptions, TreeOptions) {
    let db = DbOptions {
        memory_budget: 1 << 20,
        wal_segment: 64 << 10,
        background_threads: threads,
        ..DbOptions::default()
    };
    let tree =
        TreeOptions { table_size: 64 << 10, memtable_size: 64 << 10, ..TreeOptions::default() };
    (db, tree)
}

fn open(env: Arc<dyn Env>, dir: &Path, threads: usize) -> Result<(Db, Tree)> {
    let (options, tree_options) = small(threads);
    let db = Db::open_in(env, dir, options)?;
    let tree = db.tree("t", tree_options)?;
    Ok((db, tree))
}

/// Returns the number of keys in the store. Checks that all keys from 0 up to that number exist.
fn count(dir: &Path) -> u64 {
    let (db, tree) =
        open(OsEnv::new(), dir, 0).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let n = tree.iter().count() as u64;
    (0..n).for_each(|i| assert!(tree.get(i.to_be_bytes()).unwrap().is_some(), "key {i} of {n}"));
    assert!(db.verify(|_, _| {}).unwrap().errors.is_empty());
    n
}

/// Contents of files by name.
type Files = BTreeMap<OsString, Vec<u8>>;

fn files(dir: &Path) -> Files {
    let files = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap());
    files.map(|f| (f.file_name(), std::fs::read(f.path()).unwrap())).collect()
}

#[test]
fn a_relative_path_stays_in_its_directory_when_the_working_directory_changes() {
    own_process!();
    let folder = Folder::new("chdir");
    for (round, before) in [0_u64, 137, 1_000].into_iter().enumerate() {
        let (a, b) = (folder.path(&format!("a{round}")), folder.path(&format!("b{round}")));
        std::fs::create_dir_all(&a).unwrap();
        std::fs::create_dir_all(&b).unwrap();
        let (other, others) = open(OsEnv::new(), &b.join("data"), 2).unwrap();
        std::env::set_current_dir(&a).unwrap();
        let (db, tree) = open(OsEnv::new(), Path::new("data"), 2).unwrap();
        for n in 0..before {
            tree.put(n.to_be_bytes(), [1; 100]).unwrap();
        }
        std::env::set_current_dir(&b).unwrap();
        for n in 0..5_000_u64 {
            others.put(n.to_be_bytes(), [2; 100]).unwrap();
            tree.put((before + n).to_be_bytes(), [3; 100]).unwrap();
        }
        tree.flush().unwrap();
        db.checkpoint(a.join("copy")).unwrap();
        db.close().unwrap();
        other.close().unwrap();
        assert_eq!(count(&b.join("data")), 5_000, "the other store");
        assert_eq!(count(&a.join("data")), before + 5_000, "the store opened by a relative path");
        assert_eq!(count(&a.join("copy")), before + 5_000, "its checkpoint");
        std::env::set_current_dir(&folder.0).unwrap();
    }
}

const MESSAGE: &str = "moved, replaced or removed";

/// Moves the directory of an open store away at operation `at` and moves another store, `other`,
/// into its place. `other` has the files `files_of_other` and is moved back at the end. Returns
/// false if the store performs fewer operations than `at`.
fn is_replaced(folder: &Folder, other: &Path, files_of_other: &Files, at: u64) -> bool {
    let (dir, moved) = (folder.path("data"), folder.path("moved"));
    let env = FaultEnv::new(OsEnv::new());
    let (db, tree) = open(Arc::new(env.clone()), &dir, 0).unwrap();
    for n in 0..100_u64 {
        tree.put(n.to_be_bytes(), [1; 100]).unwrap();
    }
    let replace = {
        let (dir, moved, other) = (dir.clone(), moved.clone(), other.to_path_buf());
        move || {
            std::fs::rename(&dir, &moved).unwrap();
            std::fs::rename(&other, &dir).unwrap();
        }
    };
    env.call_at(env.count() + at, replace);
    let mut acknowledged = 100;
    for n in 100..1_500_u64 {
        if let Err(e) = tree.put(n.to_be_bytes(), [1; 100]) {
            assert!(e.to_string().contains(MESSAGE), "operation {at}: {e}");
            let again =
                tree.put(0_u64.to_be_bytes(), "").expect_err("a moved store must refuse writes");
            assert!(again.to_string().contains(MESSAGE), "operation {at}: {again}");
            break;
        }
        acknowledged += 1;
    }
    let failed_before_close = acknowledged < 1_500;
    let closed = db.close();
    drop((db, tree));
    let is_replaced = moved.exists();
    if failed_before_close {
        let e = closed.expect_err("closing a moved store must fail");
        assert!(e.to_string().contains(MESSAGE), "operation {at}: {e}");
    }
    if is_replaced {
        assert!(files(&dir) == *files_of_other, "operation {at}: the other store was changed");
        std::fs::rename(&dir, other).unwrap();
        std::fs::rename(&moved, &dir).unwrap();
    }
    let found = count(&dir);
    assert!(
        found >= acknowledged,
        "operation {at}: the moved store has {found} of {acknowledged} acknowledged puts"
    );
    std::fs::remove_dir_all(&dir).unwrap();
    is_replaced
}

#[test]
fn a_directory_that_is_replaced_at_any_operation_damages_neither_store() {
    let folder = Folder::new("replaced");
    let other = folder.path("other");
    let (db, tree) = open(OsEnv::new(), &other, 0).unwrap();
    for n in 0..2_000_u64 {
        tree.put(n.to_be_bytes(), [2; 100]).unwrap();
    }
    drop((db, tree));
    let files_of_other = files(&other);
    let step = (8 / times_effort(1)).max(1);
    let mut at = 0;
    while is_replaced(&folder, &other, &files_of_other, at) {
        at += step;
    }
    assert!(at > 100, "only {at} operations");
    assert_eq!(count(&other), 2_000);
}

#[test]
fn what_is_made_durable_in_a_removed_directory_is_not_acknowledged() {
    let folder = Folder::new("removed");
    type Removal = fn(&Path);
    let removals: [(&str, Removal); 3] = [
        ("the directory is removed", |dir| std::fs::remove_dir_all(dir).unwrap()),
        ("the directory is moved", |dir| {
            std::fs::rename(dir, dir.with_extension("moved")).unwrap()
        }),
        ("the lock is removed", |dir| std::fs::remove_file(dir.join("LOCK")).unwrap()),
    ];
    for (what, remove) in removals {
        let dir = folder.path("data");
        let (db, tree) = open(OsEnv::new(), &dir, 0).unwrap();
        let durable = tree.with_durability(Durability::Power);
        durable.put("a", "1").unwrap();
        remove(&dir);
        let e = durable.put("b", "2").unwrap_err();
        assert!(e.to_string().contains(MESSAGE), "{what}: {e}");
        let e = tree.put("c", "3").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::ReadOnly, "{what}: {e}");
        assert_eq!(tree.get("a").unwrap().unwrap(), "1", "{what}: reads must still work");
        assert_eq!(db.close().unwrap_err().kind(), ErrorKind::ReadOnly, "{what}");
        let _ = std::fs::remove_dir_all(&dir);
    }
}

/// Files are accessible to their owner only, or have the permissions that the user configured. The
/// umask removes bits.
#[cfg(unix)]
#[test]
fn new_files_have_the_mode_that_was_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("modes");
    for (mode, dir_mode) in [(0o600, 0o700), (0o640, 0o750), (0o660, 0o770), (0o644, 0o755)] {
        let dir = folder.path(&format!("s{mode:o}"));
        let (mut options, tree_options) = small(0);
        options.file_mode = mode;
        let db = Db::open_with(&dir, options).unwrap();
        let tree = db.tree("t", TreeOptions { blob_threshold: 256, ..tree_options }).unwrap();
        (0..400u64).for_each(|n| tree.put(n.to_be_bytes(), [b'x'; 300]).unwrap());
        tree.flush().unwrap();
        db.checkpoint(dir.join("copy")).unwrap();
        drop((db, tree));
        let probe = folder.path(&format!("probe{mode:o}"));
        std::fs::write(&probe, "").unwrap();
        let of = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        // Derives the process's umask from a file that was created with mode 0666.
        let umask = !of(&probe) & 0o666;
        let umask_dir = umask | (umask >> 2 | umask >> 1) & 0o011;
        for path in [&dir, &dir.join("copy")] {
            assert_eq!(of(path) & !umask_dir, dir_mode & !umask_dir, "{}", path.display());
            let files = std::fs::read_dir(path).unwrap().map(|f| f.unwrap().path());
            let files: Vec<PathBuf> = files.filter(|f| f.is_file()).collect();
            assert!(files.len() > 5, "{files:?}");
            for file in files {
                assert_eq!(of(&file), mode & !umask, "{}", file.display());
            }
        }
    }
    let odd = DbOptions { file_mode: 0o400, ..DbOptions::default() };
    let e = Db::open_with(folder.path("odd"), odd).map(drop).unwrap_err();
    assert!(e.to_string().contains("file_mode is 0400"), "{e}");
}
