//! Bad input of every kind at the level of the `Db`. Each causes a typed error that states what
//! failed, where, and what to do next. No data is lost, and nothing panics.
//!
//! `bad_input.txt` contains the expected messages, one conversation per case. A directive is a
//! function in this file, and its output is the message of the store. After each case the damage is
//! undone, if there was any. Then the store is opened once more and everything is read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_crash::{CrashEnv, Fault, FaultEnv, OpClass};
use firn_kv::Env;
use firn_kv::internals::util::checksum::checksum;
use firn_kv::policy::Movement;
use firn_kv::policy::{LazyLeveled, Leveled, Tiered, TimeWindow, Unified};
use firn_kv::{
    Batch, CompactionFilter, CompactionFilterContext, CompactionFilterPass, Db, DbOptions,
    ErrorKind, FilterKind, FilterPrefix, MAX_KEY_LEN, MAX_VALUE_LEN, MergeOperator, MergeResult,
    Policy, Result, Summary, SummaryPass, Tree, TreeOptions,
};
use firn_testkit::datadriven::walk;

const DIR: &str = "/db";

fn options() -> DbOptions {
    DbOptions {
        background_threads: 0,
        memory_budget: 1 << 20,
        wal_segment: 64 << 10,
        event_log: false,
        ..DbOptions::default()
    }
}

fn small() -> TreeOptions {
    TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() }
}

fn open_with(env: &CrashEnv, o: DbOptions) -> Result<Db> {
    Db::open_in(Arc::new(env.clone()), DIR, o)
}

fn open(env: &CrashEnv) -> Result<Db> {
    open_with(env, options())
}

fn key(i: u32) -> Vec<u8> {
    format!("key{i:02}").into_bytes()
}

/// Builds a store of one tree, with half of the entries in two tables and half in its log.
fn store() -> CrashEnv {
    let env = CrashEnv::new(1);
    fill(&env, 0);
    env
}

fn fill(env: &CrashEnv, from: u32) {
    let db = open(env).unwrap();
    let t = db.tree("t", small()).unwrap();
    for i in 0..40 {
        t.put(&key(from + i), b"value").unwrap();
        if i == 9 || i == 19 {
            t.flush().unwrap();
        }
    }
}

fn contents(db: &Db) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    db.existing_tree("t")?.iter().map(|item| item.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect()
}

/// Checks that all entries of [`store`] are present, by scan and by key, and that the tables are
/// sound.
fn whole(env: &CrashEnv) {
    let db = open(env).unwrap();
    let there = contents(&db).unwrap();
    let t = db.existing_tree("t").unwrap();
    for i in 0..40 {
        assert_eq!(there.get(&key(i)).map(Vec::as_slice), Some(&b"value"[..]), "{i}");
        assert_eq!(t.get(&key(i)).unwrap().as_deref(), Some(&b"value"[..]), "{i}");
    }
    assert!(db.verify(|_, _| {}).unwrap().errors.is_empty());
}

/// Formats a result as one line.
fn said<T, E: std::fmt::Display>(r: Result<T, E>) -> String {
    r.map_or_else(|e| format!("{e}\n"), |_| "fine\n".into())
}

/// Opens, reads everything and verifies; returns the first error.
fn use_it(env: &CrashEnv) -> Result<()> {
    let db = open(env)?;
    contents(&db)?;
    db.verify(|_, _| {})?.errors.into_iter().next().map_or(Ok(()), Err)
}

fn files(env: &CrashEnv, ext: &str) -> Vec<PathBuf> {
    env.files()
        .into_iter()
        .filter(|f| f.starts_with(DIR) && f.to_string_lossy().contains(ext))
        .collect()
}

/// Removes a file, returns the resulting message, and restores the file.
fn without(file: &Path, env: &CrashEnv) -> String {
    let image = env.fork();
    image.remove(file).unwrap();
    let words = said(use_it(&image));
    assert!(!words.starts_with("fine"), "{}", file.display());
    image.write_file(file, &env.read_file(file).unwrap()).unwrap();
    whole(&image);
    words
}

/// Replaces the bytes of a file, returns the resulting message, and restores the file.
fn with(file: &Path, bytes: Vec<u8>, env: &CrashEnv) -> String {
    let image = env.fork();
    image.write_file(file, &bytes).unwrap();
    let words = said(use_it(&image));
    assert!(!words.starts_with("fine"), "{}", file.display());
    image.write_file(file, &env.read_file(file).unwrap()).unwrap();
    whole(&image);
    words
}

fn limits(t: &Tree) -> String {
    let long = vec![b'k'; MAX_KEY_LEN + 1];
    let huge = vec![0; MAX_VALUE_LEN + 1]; // never touched, so it costs no memory
    let mut batch = Batch::new();
    let mut out = said(t.put(&long, b""));
    out += &said(t.put(b"k", &huge));
    out += &said(t.delete(&long));
    out += &said(t.delete_range(b"a".to_vec()..long.clone()));
    out += &said(batch.put(t, b"k", &huge));
    out += &said(t.ingest([(&long, b"")]));
    out += &said(t.ingest([(b"k", &huge)]));
    out += &said(t.merge(b"k", b"operand"));
    assert!(batch.is_empty());
    // Valid input: the longest key, the empty key, the empty value, lookups of impossible keys,
    // inverted ranges.
    t.put(&long[1..], b"longest").unwrap();
    t.put(b"", b"").unwrap();
    assert_eq!(
        (t.get(&long[1..]).unwrap().as_deref(), t.get(b"").unwrap().as_deref()),
        (Some(&b"longest"[..]), Some(&b""[..]))
    );
    assert!(t.get(&long).unwrap().is_none() && t.range(&long[..]..).next().is_none());
    assert_eq!(
        t.range(&b"z"[..]..&b"a"[..]).count() + t.range(&b"a"[..]..&b"a"[..]).rev().count(),
        0
    );
    t.delete_range("z".."a").unwrap();
    t.delete_range("key00".."key00").unwrap();
    t.flush().unwrap();
    assert_eq!(t.iter().next().unwrap().unwrap().0.len(), 0);
    out
}

fn names(db: &Db) -> String {
    let mut out = said(db.tree("", small()));
    out += &said(db.tree(&"n".repeat(256), small()));
    out += &said(db.existing_tree("nobody"));
    out += &said(db.drop_tree("nobody"));
    for odd in ["with/slash", "with\0nul", "..", "t ", &"n".repeat(255)] {
        db.tree(odd, small()).unwrap().put(b"k", odd.as_bytes()).unwrap();
        assert_eq!(
            db.existing_tree(odd).unwrap().get(b"k").unwrap().as_deref(),
            Some(odd.as_bytes())
        );
    }
    out
}

fn bounds(env: &CrashEnv) -> String {
    let mut out = String::new();
    let d = options();
    for bad in [
        DbOptions { memory_budget: 1, ..d.clone() },
        DbOptions { background_threads: 65, ..d.clone() },
        DbOptions { wal_segment: 100, ..d.clone() },
        DbOptions { wal_segment: 2 << 30, ..d.clone() },
    ] {
        out += &said(open_with(env, bad));
    }
    let db = open(env).unwrap();
    let policy = |policy| TreeOptions { policy, ..small() };
    for bad in [
        TreeOptions { compression: vec![], ..small() },
        TreeOptions { filter: vec![FilterKind::Fuse8; 300], ..small() },
        TreeOptions { block_size: 1, ..small() },
        TreeOptions { table_size: 1, ..small() },
        TreeOptions { memtable_size: 1, ..small() },
        TreeOptions { memtable_size: usize::MAX, ..small() },
        policy(Policy::Tiered(Tiered {
            min_runs: 1,
            max_runs: 4,
            bucket: 2.0,
            ..Tiered::default()
        })),
        policy(Policy::Tiered(Tiered {
            min_runs: 4,
            max_runs: 2,
            bucket: 2.0,
            ..Tiered::default()
        })),
        policy(Policy::Tiered(Tiered {
            min_runs: 2,
            max_runs: 4,
            bucket: f64::NAN,
            ..Tiered::default()
        })),
        policy(Policy::Leveled(Leveled {
            level0_runs: 0,
            ratio: 4,
            base: 1 << 20,
            movement: Movement::default(),
            ..Leveled::default()
        })),
        policy(Policy::Leveled(Leveled {
            level0_runs: 1,
            ratio: 1,
            base: 1 << 20,
            movement: Movement::default(),
            ..Leveled::default()
        })),
        policy(Policy::Leveled(Leveled {
            level0_runs: 1,
            ratio: 4,
            base: 1,
            movement: Movement::default(),
            ..Leveled::default()
        })),
        policy(Policy::LazyLeveled(LazyLeveled { ratio: 1, ..LazyLeveled::default() })),
        policy(Policy::Unified(Unified {
            scaling: vec![],
            target_table: 1 << 20,
            base_shards: 1,
            ..Unified::default()
        })),
        policy(Policy::Unified(Unified {
            scaling: vec![63],
            target_table: 1 << 20,
            base_shards: 1,
            ..Unified::default()
        })),
        policy(Policy::Unified(Unified {
            scaling: vec![0],
            target_table: 1,
            base_shards: 1,
            ..Unified::default()
        })),
        policy(Policy::Unified(Unified {
            scaling: vec![0],
            target_table: 1 << 20,
            base_shards: 0,
            ..Unified::default()
        })),
        policy(Policy::TimeWindow(TimeWindow {
            window_secs: 0,
            min_runs: 2,
            ..TimeWindow::default()
        })),
        policy(Policy::TimeWindow(TimeWindow {
            window_secs: 1,
            min_runs: 1,
            ..TimeWindow::default()
        })),
    ] {
        out += &said(db.tree("t", bad.clone()));
        assert_eq!(db.tree("new", bad).err().map(|e| e.kind()), Some(ErrorKind::InvalidArgument));
    }
    assert_eq!(db.tree_names(), ["t"]);
    out
}

fn directories() -> String {
    let env = store();
    let at = |dir: &str, o: DbOptions| said(Db::open_in(Arc::new(env.clone()), dir, o));
    env.create_dir_all(Path::new("/full")).unwrap();
    env.write_file(Path::new("/full/letter.txt"), b"dear").unwrap();
    env.write_file(Path::new("/file"), b"").unwrap();
    env.create_dir_all(Path::new("/tables")).unwrap();
    env.write_file(Path::new("/tables/00000007.sst"), b"").unwrap();
    let mut out = at("/file", options());
    out += &at("/file/below", options());
    out += &at("/full", options());
    out += &at("/tables", options());
    out += &at("/missing", DbOptions { create: false, ..options() });
    out += &at("/missing", DbOptions { read_only: true, ..options() });
    out += &at("/full", DbOptions { read_only: true, ..options() });
    assert!(env.list(Path::new("/missing")).is_err(), "a refused open created a directory");
    assert_eq!(env.list(Path::new("/full")).unwrap(), ["letter.txt"]);
    whole(&env);
    out
}

fn locked(env: &CrashEnv) -> String {
    let _db = open(env).unwrap();
    let out = said(open(env));
    assert!(open_with(env, DbOptions { read_only: true, ..options() }).is_ok());
    out
}

/// Sets another format version and recomputes the affected checksums.
fn newer(env: &CrashEnv) -> String {
    let mut out = String::new();
    let patch = |file: &Path, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = env.read_file(file).unwrap();
        change(&mut bytes);
        with(file, bytes, env)
    };
    out += &patch(Path::new("/db/CURRENT"), &|b| {
        let lines = String::from_utf8(b.clone()).unwrap().replace("format 1", "format 2");
        let lines = lines.split("crc").next().unwrap().to_owned();
        *b = format!("{lines}crc {:08x}\n", crc(lines.as_bytes())).into_bytes();
    });
    let manifest = files(env, "MANIFEST").remove(0);
    let number = manifest.to_str().unwrap()[13..].parse().unwrap();
    out += &patch(&manifest, &|b| {
        b[8] = 2;
        let crc = checksum(number, 0, &[&b[..12]]);
        b[12..16].copy_from_slice(&crc.to_le_bytes());
    });
    let table = files(env, ".sst").remove(0);
    out += &patch(&table, &|b| {
        let at = b.len() - 12;
        b[at] = 2;
    });
    let segment = files(env, ".wal").pop().unwrap();
    let number = segment.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    out += &patch(&segment, &|b| {
        b[8] = 2;
        let crc = checksum(number, 0, &[&b[..76]]);
        b[76..80].copy_from_slice(&crc.to_le_bytes());
    });
    out
}

/// Returns the CRC-32 of some bytes, without the context that block checksums include.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |c: u32, b| {
        (0..8).fold(c ^ *b as u32, |c, _| if c & 1 == 1 { c >> 1 ^ 0xEDB8_8320 } else { c >> 1 })
    })
}

fn missing(env: &CrashEnv) -> String {
    let mut out = String::new();
    let gone = ["CURRENT", "MANIFEST", ".sst"].map(|what| files(env, what).remove(0));
    gone.iter().for_each(|f| out += &without(f, env));
    // First remove the last closed log segment, then all segments.
    out += &without(&files(env, ".wal").pop().unwrap(), env);
    let image = env.fork();
    files(env, ".wal").iter().for_each(|f| image.remove(f).unwrap());
    out += &said(use_it(&image));
    files(env, ".wal")
        .iter()
        .for_each(|f| image.write_file(f, &env.read_file(f).unwrap()).unwrap());
    whole(&image);
    out
}

/// With an older manifest, live tables look obsolete. An opening that detects this removes no
/// files.
#[test]
fn an_older_manifest_removes_nothing() {
    let env = store();
    let old: Vec<_> = ["CURRENT", "MANIFEST"].iter().flat_map(|n| files(&env, n)).collect();
    let old: Vec<_> = old.into_iter().map(|f| (f.clone(), env.read_file(&f).unwrap())).collect();
    open(&env).unwrap().existing_tree("t").unwrap().compact().unwrap();
    let now = env.fork();
    old.iter().for_each(|(f, bytes)| env.write_file(f, bytes).unwrap());
    // Readers decide when the compacted tables are removed.
    let merged = PathBuf::from("/db/00000001.sst");
    if env.files().contains(&merged) {
        env.remove(&merged).unwrap();
    }
    let before = env.files();
    assert!(open(&env).err().unwrap().message().contains("a live table is missing"));
    assert_eq!(env.files(), before);
    whole(&now);
}

/// Files of other programs stay. A table of another store, or under another name, is not accepted
/// as a table of this store.
fn foreign(env: &CrashEnv) -> String {
    let strangers = [
        "notes.tmp",
        "README",
        "7.sst",
        "000000000007.sst",
        "+0000007.sst",
        "MANIFEST-7",
        "CURRENT.bak",
        "x.wal",
    ];
    for name in strangers {
        env.write_file(&Path::new(DIR).join(name), name.as_bytes()).unwrap();
    }
    env.create_dir_all(Path::new("/db/lost+found")).unwrap();
    whole(env);
    for name in strangers {
        assert_eq!(env.read_file(&Path::new(DIR).join(name)).unwrap(), name.as_bytes(), "{name}");
    }
    let tables = files(env, "/0000");
    let tables: Vec<_> = tables
        .into_iter()
        .filter(|f| f.extension().is_some_and(|x| x == "sst") && f.as_os_str().len() == 16)
        .collect();
    let mut out = with(&tables[0], env.read_file(&tables[1]).unwrap(), env);
    // A twin of the store: the same names and lengths, but other keys.
    let other = CrashEnv::new(2);
    fill(&other, 50);
    let twin = other.read_file(&tables[0]).unwrap();
    assert_eq!(twin.len(), env.read_file(&tables[0]).unwrap().len());
    out += &with(&tables[0], twin, env);
    out += &with(
        &files(env, "MANIFEST-0").remove(0),
        other.read_file(&files(&other, "MANIFEST-0").remove(0)).unwrap(),
        env,
    );
    out
}

struct Hook(&'static str);

impl MergeOperator for Hook {
    fn name(&self) -> &str {
        self.0
    }
    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(MergeResult::Value(operands.concat()))
    }
}
impl CompactionFilter for Hook {
    fn name(&self) -> &str {
        self.0
    }
    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        unreachable!("nothing is compacted")
    }
}
impl Summary for Hook {
    fn name(&self) -> &str {
        self.0
    }
    fn start(&self) -> Box<dyn SummaryPass> {
        unreachable!("nothing is flushed")
    }
}
impl FilterPrefix for Hook {
    fn name(&self) -> &str {
        self.0
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        key.len().min(2)
    }
}

fn hooks(env: &CrashEnv) -> String {
    let h = |name| Arc::new(Hook(name));
    let all = TreeOptions {
        merge_operator: Some(h("a")),
        compaction_filter: Some(h("b")),
        summary: Some(h("c")),
        filter_prefix: Some(h("d")),
        ..small()
    };
    open(env).unwrap().tree("hooked", all.clone()).unwrap().merge(b"k", b"operand").unwrap();
    let db = open(env).unwrap();
    let mut out = String::new();
    for other in [
        TreeOptions { merge_operator: Some(h("x")), ..all.clone() },
        TreeOptions { compaction_filter: None, ..all.clone() },
        TreeOptions { summary: Some(h("x")), ..all.clone() },
        TreeOptions { filter_prefix: None, ..all.clone() },
    ] {
        out += &said(db.tree("hooked", other));
    }
    out += &said(db.tree("t", TreeOptions { merge_operator: Some(h("a")), ..small() }));
    out += &said(db.existing_tree("hooked").unwrap().get(b"k"));
    assert_eq!(
        db.tree("hooked", all).unwrap().get(b"k").unwrap().as_deref(),
        Some(&b"operand"[..])
    );
    out
}

fn dropped(db: &Db) -> String {
    let t = db.tree("gone", small()).unwrap();
    t.put(b"a", b"1").unwrap();
    t.flush().unwrap();
    t.put(b"b", b"2").unwrap();
    let snapshot = db.snapshot();
    let mut open_before = t.iter();
    let mut tx = db.transaction();
    tx.put(&t, b"c", b"").unwrap();
    let mut batch = Batch::new();
    batch.put(&t, b"c", b"").unwrap();
    open_before.next().unwrap().unwrap();
    db.drop_tree("gone").unwrap();
    assert_eq!(open_before.map(|i| i.unwrap().0.to_vec()).collect::<Vec<_>>(), [b"b"]);
    fn first<T>(mut items: impl Iterator<Item = Result<T>>) -> String {
        let words = items.next().map_or("nothing at all\n".into(), said);
        assert!(items.next().is_none());
        words
    }
    let mut out = said(t.get(b"a"));
    for words in [
        said(t.put(b"a", b"")),
        said(t.delete_range("z".."a")),
        said(t.flush()),
        said(t.compact()),
        said(t.multi_get(&[b"a"])),
        said(t.cursor(..)),
        said(t.ingest([(b"a", b"")])),
        said(t.approximate_size("a".."b")),
        first(t.iter()),
        first(t.iter().rev()),
        first(t.prefix(b"a")),
        said(snapshot.get(&t, b"a")),
        first(snapshot.range(&t, ..)),
        first(snapshot.prefix(&t, b"a")),
        said(snapshot.cursor(&t, ..)),
        said(tx.get(&t, b"a")),
        first(tx.range(&t, ..)),
        said(tx.commit()),
        said(db.write(batch)),
        said(db.drop_tree("gone").map_err(|e| e.context("a second time"))),
    ] {
        if !out.ends_with(&words) {
            out += &words;
        }
    }
    db.tree("gone", small()).unwrap().put(b"a", b"new").unwrap();
    assert!(t.get(b"a").is_err(), "the new tree with the same name is another tree");
    out
}

/// Uses trees of another store in a snapshot, a transaction and a batch.
fn strangers(db: &Db) -> String {
    let elsewhere = open(&store()).unwrap();
    let other = elsewhere.existing_tree("t").unwrap();
    let mut tx = db.transaction();
    let mut batch = Batch::new();
    batch.put(&other, b"k", b"").unwrap();
    let mut out = said(db.write(batch));
    out += &said(db.snapshot().get(&other, b"k"));
    out += &said(db.snapshot().range(&other, ..).next().unwrap());
    assert!(db.snapshot().cursor(&other, ..).is_err());
    assert!(tx.get(&other, b"k").is_err() && tx.range(&other, ..).next().unwrap().is_err());
    assert!(tx.put(&other, b"k", b"").is_err() && tx.delete(&other, b"k").is_err());
    drop(tx);
    // A refused transaction has written nothing, and releases its snapshot.
    let t = db.existing_tree("t").unwrap();
    let mut tx = db.transaction();
    tx.get(&t, b"key00").unwrap();
    tx.put(&t, b"key01", b"lost").unwrap();
    t.put(b"key00", b"value").unwrap();
    out += &said(tx.commit());
    assert!(db.stats().snapshots.is_empty());
    out
}

fn loading(env: &CrashEnv, db: &Db) -> String {
    let t = db.existing_tree("t").unwrap();
    let before = files(env, ".sst");
    let mut out = said(t.ingest([("b", "1"), ("a", "2")]));
    out += &said(t.ingest([("a", "1"), ("a", "2")]));
    out += &said(t.import("/nowhere"));
    env.write_file(Path::new("/letter"), b"dear").unwrap();
    out += &said(t.import("/letter"));
    out += &said(t.import(&before[0]));
    out += &said(t.export(.., "/letter"));
    assert_eq!(files(env, ".sst"), before, "a refused ingestion leaves no files");
    // Ingested pairs may overlap existing entries: they replace them.
    t.ingest([("key05", "value"), ("key35", "value")]).unwrap();
    out
}

fn checkpoints(env: &CrashEnv, db: &Db) -> String {
    env.write_file(Path::new("/file"), b"").unwrap();
    db.checkpoint("/copy").unwrap();
    let mut out = said(db.checkpoint("/copy"));
    out += &said(db.checkpoint(DIR));
    out += &said(db.checkpoint("/file"));
    let copy = Db::open_in(Arc::new(env.clone()), "/copy", options()).unwrap();
    assert_eq!(contents(&copy).unwrap(), contents(db).unwrap());
    out
}

fn read_only(env: &CrashEnv) -> String {
    let db = open_with(env, DbOptions { read_only: true, ..options() }).unwrap();
    let t = db.existing_tree("t").unwrap();
    let mut out = said(t.put(b"k", b""));
    let mut batch = Batch::new();
    batch.put(&t, b"k", b"").unwrap();
    for words in [
        said(t.delete_range("z".."a")),
        said(db.write(batch)),
        said(db.tree("new", small())),
        said(db.drop_tree("t")),
        said(t.flush()),
        said(t.compact()),
        said(t.ingest([("a", "")])),
        said(db.checkpoint("/copy")),
    ] {
        if !out.ends_with(&words) {
            out += &words;
        }
    }
    assert_eq!(contents(&db).unwrap().len(), 40);
    out
}

/// The disk becomes full at some operation, in the middle of each kind of work. Then space is
/// available again.
fn full_disk() -> String {
    type Work = fn(&Db, &Tree) -> Result<()>;
    let works: [(&str, Work); 6] = [
        ("write", |_, t| (0..2000).try_for_each(|_| t.put(&key(0), &[b'x'; 100]))),
        ("flush", |_, t| t.flush()),
        ("compact", |_, t| t.compact()),
        ("checkpoint", |db, _| db.checkpoint("/copy").map(|_| ())),
        ("ingest", |_, t| t.ingest([("a", ""), ("b", "")]).map(|_| ())),
        ("new tree", |db, _| db.tree("new", small()).map(|_| ())),
    ];
    let mut out = String::new();
    let classes = [OpClass::Write, OpClass::Dir];
    for n in 0..12 {
        let env = store();
        let fault = FaultEnv::new(Arc::new(env.clone()));
        fault.only(&classes);
        fault.fail_from(n, Fault::Enospc);
        let opened = Db::open_in(Arc::new(fault.clone()), DIR, options());
        if n == 0 {
            out += &format!("open: {}", said(opened.as_ref()));
        }
        assert!(opened.err().is_none_or(|e| e.kind() == ErrorKind::NoSpace), "open, operation {n}");
        whole(&env);
    }
    for (what, work) in works {
        for n in 0..6 {
            let env = store();
            let fault = FaultEnv::new(Arc::new(env.clone()));
            fault.only(&classes);
            let db = Db::open_in(Arc::new(fault.clone()), DIR, options()).unwrap();
            let t = db.existing_tree("t").unwrap();
            fault.fail_from(fault.count() + n, Fault::Enospc);
            let done = work(&db, &t);
            if n == 0 {
                out += &format!("{what}: {}", said(done.as_ref()));
            }
            assert!(
                done.err()
                    .is_none_or(|e| matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::ReadOnly)),
                "{what}, {n}"
            );
            assert!(
                contents(&db).unwrap().len() >= 40,
                "{what}, operation {n}: reads failed on a full disk"
            );
            fault.heal();
            drop((db, t));
            let db = open(&env).unwrap();
            let t = db.existing_tree("t").unwrap();
            assert!(contents(&db).unwrap().len() >= 40, "{what}, operation {n}");
            t.put(&key(0), b"value").unwrap();
            drop((db, t));
            whole(&env);
        }
    }
    out
}

#[test]
fn every_kind_is_refused_with_words_and_loses_nothing() {
    walk(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_input.txt"), |case| {
        let env = store();
        let db = || open(&env).unwrap();
        let out = match case.directive.as_str() {
            "limits" => limits(&db().existing_tree("t").unwrap()),
            "names" => names(&db()),
            "bounds" => bounds(&env),
            "directories" => directories(),
            "locked" => locked(&env),
            "newer" => newer(&env),
            "missing" => missing(&env),
            "foreign" => foreign(&env),
            "hooks" => hooks(&env),
            "dropped" => dropped(&db()),
            "strangers" => strangers(&db()),
            "loading" => loading(&env, &db()),
            "checkpoints" => checkpoints(&env, &db()),
            "read-only" => read_only(&env),
            "full-disk" => full_disk(),
            other => panic!("no such case: {other}"),
        };
        whole(&env);
        out
    });
}

/// Opens a tree with prefix filters without the prefix hook. Its existing filters are then unused,
/// and new tables get none.
#[test]
fn a_filter_is_not_asked_without_its_hook() {
    let env = CrashEnv::new(3);
    let hooked = TreeOptions { filter_prefix: Some(Arc::new(Hook("two"))), ..small() };
    let t = open(&env).unwrap().tree("t", hooked.clone()).unwrap();
    (0..20).for_each(|i| t.put(&key(i), b"value").unwrap());
    t.flush().unwrap();
    (20..30).for_each(|i| t.put(&key(i), b"value").unwrap());
    drop(t);
    for round in 0..2 {
        let db = open(&env).unwrap();
        let t = db.existing_tree("t").unwrap();
        for i in 0..30 {
            assert_eq!(t.get(&key(i)).unwrap().as_deref(), Some(&b"value"[..]), "{i}");
        }
        t.flush().unwrap();
        t.ingest([(key(30 + round), "value")]).unwrap();
    }
    let t = open(&env).unwrap().tree("t", hooked).unwrap();
    for i in 0..32 {
        assert_eq!(t.get(&key(i)).unwrap().as_deref(), Some(&b"value"[..]), "{i}");
    }
}

/// A batch may not be larger than the log accepts. Needs a gigabyte of memory: `cargo test --
/// --ignored`.
#[test]
#[ignore = "needs a gigabyte of memory"]
fn a_batch_over_its_limit() {
    let db = open(&store()).unwrap();
    let t = db.existing_tree("t").unwrap();
    let mut batch = Batch::new();
    batch.put(&t, b"a", &vec![0; MAX_VALUE_LEN]).unwrap();
    let before = batch.size();
    let e = batch.put(&t, b"b", &vec![0; MAX_VALUE_LEN]).unwrap_err();
    assert_eq!((e.kind(), batch.size(), batch.len()), (ErrorKind::InvalidArgument, before, 1));
}

/// Uses a directory of the operating system without write permission. The superuser may write
/// anywhere, so the test checks nothing then.
#[test]
#[allow(clippy::disallowed_methods)] // the test is about the directory's permissions
fn a_directory_that_is_not_writable() {
    use std::os::unix::fs::PermissionsExt;
    let dir = std::env::temp_dir().join(format!("firn-bad-input-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(dir.join("probe"), b"").is_err() {
        let e = Db::open(&dir).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Io);
        assert!(
            e.to_string().contains("Permission denied")
                && e.file().is_some_and(|f| f.starts_with(&dir)),
            "{e}"
        );
    }
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}
