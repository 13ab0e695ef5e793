//! Golden stores are not only read: this program opens, writes and compacts each of them. And a
//! drill of the next format version: a program that knows version 2 reads version 1, upgrades a
//! store on request, and a program that knows only version 1 refuses it then, and changes nothing.

#![allow(clippy::disallowed_methods, reason = "golden files are read as they are")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_crash::{CrashEnv, Cut, Fault, FaultEnv};
use firn_kv::internals::base::format_version::{FormatVersion, pretended::set_newest};
use firn_kv::internals::sstable::format::{FOOTER, Footer};
use firn_kv::internals::wal::format::{SEGMENT_HEADER, SegmentHeader};
use firn_kv::{Db, DbOptions, Env, ErrorKind, MemEnv, OsEnv, Result};
use firn_testkit::own_process;
use serde_json::{Value, json};

use super::golden::stores::{self, db_options, tree_options};
use super::golden::{golden, made};

const DIR: &str = "/db";

/// A golden store: its folder, and the hash of its content.
struct GoldenStore {
    name: String,
    files: Vec<(String, Vec<u8>)>,
    hash: Value,
}

impl GoldenStore {
    /// Returns all golden stores.
    fn all() -> Vec<GoldenStore> {
        let folder = golden().join("v1");
        let expected = std::fs::read_to_string(folder.join("expected.jsonl")).unwrap();
        let lines = expected.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        let all: Vec<_> = lines
            .filter(|line| line["kind"] == "store")
            .map(|line| {
                let name = line["path"].as_str().unwrap().to_owned();
                let files = OsEnv::new().list(&folder.join(&name)).unwrap();
                let read = |f: String| {
                    let bytes = std::fs::read(folder.join(&name).join(&f)).unwrap();
                    (f, bytes)
                };
                let files = files.into_iter().map(read).collect();
                GoldenStore { name, files, hash: line["hash"].clone() }
            })
            .collect();
        assert!(all.len() > 8, "{}", all.len());
        all
    }

    /// Returns a copy in memory.
    fn copy(&self) -> MemEnv {
        let env = MemEnv::new(1);
        env.create_dir_all(Path::new(DIR)).unwrap();
        for (name, bytes) in &self.files {
            env.write_file(&Path::new(DIR).join(name), bytes).unwrap();
        }
        env
    }
}

/// An environment that several openings share.
type SharedEnv = Arc<dyn Env>;

fn open(env: &SharedEnv) -> Result<Db> {
    Db::open_in(env.clone(), DIR, DbOptions { create: false, ..db_options() })
}

/// Returns the content of all trees of an open store.
fn content(db: &Db) -> BTreeMap<String, Value> {
    let of = |name: String| {
        let tree = db.tree(&name, tree_options(&name)).unwrap();
        let pairs = stores::pairs(&tree).unwrap();
        (name, pairs)
    };
    db.tree_names().into_iter().map(of).collect()
}

fn hash(content: &BTreeMap<String, Value>) -> Value {
    made::hash(&json!(content)).into()
}

/// Puts a key into each tree, and into the expected content; flushes every other tree.
fn write(db: &Db, key: &str, expected: &mut BTreeMap<String, Value>) {
    for (i, (name, pairs)) in expected.iter_mut().enumerate() {
        let tree = db.tree(name, tree_options(name)).unwrap();
        let value = "a value that is long enough for a blob file, which begins at 64 bytes";
        tree.put(key, value).unwrap();
        let pairs = pairs.as_array_mut().unwrap();
        pairs.retain(|p| p[0] != made::hex(key.as_bytes()));
        pairs.push(json!([made::hex(key.as_bytes()), made::hex(value.as_bytes())]));
        pairs.sort_by_key(|p| p[0].as_str().unwrap().to_owned());
        if i % 2 == 0 {
            tree.flush().unwrap();
        }
    }
}

fn compact(db: &Db) {
    for name in db.tree_names() {
        db.tree(&name, tree_options(&name)).unwrap().compact().unwrap();
    }
}

/// Returns the files of the store with their bytes.
fn files(env: &MemEnv) -> BTreeMap<PathBuf, Vec<u8>> {
    env.files().into_iter().map(|f| (f.clone(), env.read_file(&f).unwrap())).collect()
}

/// Returns the format versions of all tables, or of all tables, blob files and log segments.
fn versions_of(env: &MemEnv, only_tables: bool) -> Vec<u32> {
    let of = |(path, bytes): (PathBuf, Vec<u8>)| {
        let number = || path.file_stem()?.to_str()?.parse::<u64>().ok();
        match path.extension()?.to_str()? {
            "sst" => {
                let at = bytes.len() - FOOTER;
                let f: &[u8; FOOTER] = bytes[at..].try_into().unwrap();
                let footer = Footer::decode(f, &path, number()?, at as u64);
                let footer = footer.unwrap();
                let is_counted = !only_tables || !footer.is_of_values();
                is_counted.then(|| footer.version.number())
            }
            "wal" if !only_tables => {
                let h: &[u8; SEGMENT_HEADER as usize] =
                    bytes[..SEGMENT_HEADER as usize].try_into().unwrap();
                Some(SegmentHeader::decode(number()?, h).unwrap()?.version.number())
            }
            _ => None,
        }
    };
    files(env).into_iter().filter_map(of).collect()
}

fn versions(env: &MemEnv) -> Vec<u32> {
    versions_of(env, false)
}

#[test]
fn golden_stores_are_opened_written_and_compacted() {
    for store in GoldenStore::all() {
        let env: SharedEnv = Arc::new(store.copy());
        let db = open(&env).unwrap_or_else(|e| panic!("{}: {e}", store.name));
        let mut expected = content(&db);
        assert_eq!(hash(&expected), store.hash, "{}", store.name);
        write(&db, "key0100", &mut expected);
        assert_eq!(content(&db), expected, "{}", store.name);
        db.close().unwrap();
        let db = open(&env).unwrap();
        assert_eq!(content(&db), expected, "{}", store.name);
        compact(&db);
        assert_eq!(content(&db), expected, "{}", store.name);
        let verified = db.verify(|_, _| ()).unwrap();
        assert!(verified.errors.is_empty() && verified.entries > 0, "{}: {verified:?}", store.name);
        db.close().unwrap();
        assert_eq!(content(&open(&env).unwrap()), expected, "{}", store.name);
    }
}

/// The pretended version is one of the process.
#[test]
fn a_store_is_upgraded_on_request_and_then_refused_by_the_older_program() {
    own_process!();
    for store in GoldenStore::all() {
        let (mem, name) = (store.copy(), &store.name);
        let env: SharedEnv = Arc::new(mem.clone());
        // The newer program writes version 1 into it.
        set_newest(2);
        let db = open(&env).unwrap();
        assert_eq!(db.format_version(), 1, "{name}");
        let mut expected = content(&db);
        assert_eq!(hash(&expected), store.hash, "{name}");
        write(&db, "key0100", &mut expected);
        compact(&db);
        db.checkpoint("/old").unwrap();
        db.close().unwrap();
        assert!(versions(&mem).iter().all(|v| *v == 1), "{name}: {:?}", versions(&mem));
        // So the older one still opens it, and the newer one again.
        set_newest(1);
        let db = open(&env).unwrap();
        assert_eq!(content(&db), expected, "{name}");
        write(&db, "key0101", &mut expected);
        db.close().unwrap();
        set_newest(2);
        let db = open(&env).unwrap();
        assert_eq!(content(&db), expected, "{name}");
        // The upgrade, and writes after it. Existing files stay as they are.
        assert_eq!(db.upgrade_format().unwrap(), 2, "{name}");
        assert_eq!((db.format_version(), db.upgrade_format().unwrap()), (2, 2), "{name}");
        assert!(versions(&mem).iter().all(|v| *v == 1), "{name}: {:?}", versions(&mem));
        write(&db, "key0102", &mut expected);
        assert!(versions(&mem).contains(&2), "{name}: {:?}", versions(&mem));
        db.close().unwrap();
        // The older program refuses it, and changes nothing.
        set_newest(1);
        let before = files(&mem);
        for read_only in [false, true] {
            let options = DbOptions { read_only, ..db_options() };
            let e = Db::open_in(env.clone(), DIR, options).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Incompatible, "{name}: {e}");
            assert!(e.to_string().contains("version 2"), "{name}: {e}");
            assert!(e.file().is_some_and(|f| f.ends_with("CURRENT")), "{name}: {e}");
        }
        assert_eq!(files(&mem), before, "{name}");
        // The newer one goes on. A compaction leaves no table of version 1. Values stay in their
        // blob files, and log segments are released later.
        set_newest(2);
        let db = open(&env).unwrap();
        assert_eq!((db.format_version(), content(&db)), (2, expected.clone()), "{name}");
        compact(&db);
        assert_eq!(content(&db), expected, "{name}");
        assert!(db.verify(|_, _| ()).unwrap().errors.is_empty(), "{name}");
        db.checkpoint("/new").unwrap();
        db.close().unwrap();
        let in_store = |(path, _): &(PathBuf, Vec<u8>)| path.starts_with(DIR);
        let now = MemEnv::new(0);
        now.create_dir_all(Path::new(DIR)).unwrap();
        files(&mem).into_iter().filter(in_store).for_each(|(p, b)| now.write_file(&p, &b).unwrap());
        let left = versions_of(&now, true);
        assert!(left.iter().all(|v| *v == 2), "{name}: {left:?}");
        // Copies have the version of the moment when they were made.
        for (dir, version) in [("/old", 1), ("/new", 2)] {
            let db = Db::open_in(env.clone(), dir, db_options()).unwrap();
            assert_eq!(db.format_version(), version, "{name}: {dir}");
        }
        set_newest(1);
        assert!(Db::open_in(env.clone(), "/old", db_options()).is_ok(), "{name}");
        assert!(Db::open_in(env.clone(), "/new", db_options()).is_err(), "{name}");
    }
}

/// After a power cut at any moment of an upgrade, the store is of version 1 or of version 2, with
/// all its data.
#[test]
fn a_power_cut_during_an_upgrade_leaves_one_version_or_the_other() {
    own_process!();
    let mut seen = [0; 2];
    for seed in 0..4 {
        set_newest(1);
        let env = CrashEnv::new(seed);
        let db = Db::open_in(Arc::new(env.clone()), DIR, db_options()).unwrap();
        let tree = db.tree("raw", tree_options("raw")).unwrap();
        for key in ["a", "b"] {
            tree.put(key, "1").unwrap();
            tree.flush().unwrap();
        }
        tree.put("c", "1").unwrap();
        db.sync().unwrap();
        if seed % 2 == 0 {
            db.close().unwrap();
        }
        set_newest(2);
        // With or without a clean end of the log.
        let env = env.fork();
        env.start_journal();
        let db = Db::open_in(Arc::new(env.clone()), DIR, db_options()).unwrap();
        db.upgrade_format().unwrap();
        db.existing_tree("raw").unwrap().put("d", "2").unwrap();
        db.sync().unwrap();
        for at in 0..=env.journal_len() {
            for cut in [Cut::Process, Cut::PowerAll, Cut::PowerNone, Cut::Torn { bytes: 7 }] {
                let image = env.crash_image(at, &cut);
                set_newest(1);
                let older = Db::open_in(Arc::new(image.fork()), DIR, db_options());
                set_newest(2);
                let newer = Db::open_in(Arc::new(image), DIR, db_options())
                    .unwrap_or_else(|e| panic!("{at} {cut:?}: {e}"));
                seen[newer.format_version() as usize - 1] += 1;
                match &older {
                    Ok(_) => assert_eq!(newer.format_version(), 1, "{at} {cut:?}"),
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::Incompatible, "{at} {cut:?}: {e}");
                        assert_eq!(newer.format_version(), 2, "{at} {cut:?}: {e}");
                    }
                }
                for db in older.iter().chain([&newer]) {
                    let tree = db.existing_tree("raw").unwrap();
                    for key in ["a", "b", "c"] {
                        assert_eq!(tree.get(key).unwrap().unwrap(), "1", "{at} {cut:?}");
                    }
                }
            }
        }
    }
    assert!(seen.iter().all(|n| *n > 20), "{seen:?}");
}

/// Operations that fail during an upgrade lose nothing. If the store can still be written, it has
/// one of the two versions for certain.
#[test]
fn failures_during_an_upgrade_lose_nothing() {
    own_process!();
    for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite, Fault::SyncFails] {
        let mut n = 0;
        loop {
            set_newest(1);
            let disk = CrashEnv::new(n);
            let faults = FaultEnv::new(Arc::new(disk.clone()));
            let db = Db::open_in(Arc::new(faults.clone()), DIR, db_options()).unwrap();
            let tree = db.tree("raw", tree_options("raw")).unwrap();
            tree.put("a", "1").unwrap();
            tree.flush().unwrap();
            set_newest(2);
            let at = faults.count() + n;
            faults.fail_nth(at, fault);
            let upgraded = db.upgrade_format();
            let is_past = faults.count() <= at;
            faults.heal();
            let version = db.format_version();
            assert!(upgraded.is_err() || version == 2, "{n} {fault:?}");
            if tree.put("b", "1").is_ok() {
                assert_eq!(version, upgraded.unwrap_or(1), "{n} {fault:?}");
                tree.flush().unwrap();
                assert_eq!(db.upgrade_format().unwrap(), 2, "{n} {fault:?}");
            }
            drop((tree, db));
            let db = Db::open_in(Arc::new(disk.fork()), DIR, db_options()).unwrap();
            let tree = db.existing_tree("raw").unwrap();
            assert_eq!(tree.get("a").unwrap().unwrap(), "1", "{n} {fault:?}");
            if is_past {
                assert!(n > 5, "{n}");
                break;
            }
            n += 1;
        }
    }
}

#[test]
fn a_store_without_a_newer_version_is_not_changed_by_an_upgrade() {
    let env = MemEnv::new(3);
    let db = Db::open_in(Arc::new(env.clone()), DIR, db_options()).unwrap();
    db.tree("raw", tree_options("raw")).unwrap().put("a", "1").unwrap();
    db.sync().unwrap();
    let before = files(&env);
    let newest = FormatVersion::newest().number();
    assert_eq!((db.upgrade_format().unwrap(), db.format_version()), (newest, newest));
    assert_eq!(files(&env), before);
}
