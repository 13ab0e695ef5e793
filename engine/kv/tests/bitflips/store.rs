//! Builds a small store for the bit-flip tests, with every kind of file, block and record in a few
//! kilobytes each.
//!
//! [`build`] returns two disks with one history. On one, the process died with the store open and
//! its last records not synced. On the other, the store was closed. [`Sound::contents`] returns the
//! expected contents, also for a log that ends earlier.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_crash::CrashEnv;
use firn_kv::internals::base::key::Seq;
use firn_kv::internals::manifest::Manifest;
use firn_kv::internals::wal::{LogItem, SegmentReader, segment_number, segments};
use firn_kv::{
    Compression, Db, DbOptions, Durability, FilterKind, FilterPrefix, MergeOperator, MergeResult,
    ReadMode, Result, TreeOptions,
};

/// Directory of the store.
pub const DIR: &str = "/db";
/// Names of its trees.
pub const TREES: [&str; 5] = ["raw", "packed", "rows", "logged", "late"];
/// Number of zero bytes to retain after the last record of a log segment. Reading a segment depends
/// on the file's length, not on the length at creation. So the truncated files are equivalent to
/// the whole ones and take less time.
const ZEROS: usize = 256;

/// All keys and values, by tree.
pub type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Merge operator that concatenates operands.
struct Join;

impl MergeOperator for Join {
    fn name(&self) -> &str {
        "join"
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(MergeResult::Value([&[base.unwrap_or_default()], operands].concat().concat()))
    }
}

/// Filter prefix of four bytes.
struct Four;

impl FilterPrefix for Four {
    fn name(&self) -> &str {
        "four"
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        key.len().min(4)
    }
}

/// Returns the options of a tree.
pub fn tree_options(name: &str) -> TreeOptions {
    let small = TreeOptions {
        block_size: 512,
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        ..TreeOptions::default()
    };
    match name {
        "raw" => TreeOptions {
            compression: vec![Compression::None],
            filter: vec![FilterKind::Fuse16],
            ..small
        },
        "packed" => TreeOptions { merge_operator: Some(Arc::new(Join)), ..small },
        "rows" => TreeOptions { filter_prefix: Some(Arc::new(Four)), ..small },
        _ => TreeOptions { filter: vec![FilterKind::None], ..small },
    }
}

/// Opens the store on a disk.
pub fn open(env: &CrashEnv, read_mode: ReadMode) -> Result<Db> {
    let options = DbOptions {
        memory_budget: 1 << 20,
        background_threads: 0,
        wal_segment: 64 << 10,
        create: false,
        event_log: false,
        read_mode,
        ..DbOptions::default()
    };
    Db::open_in(Arc::new(env.clone()), DIR, options)
}

/// Reads everything in the named `trees` in every possible way, and checks that the ways agree.
pub fn read(db: &Db, trees: &[&str], known: &Contents) -> Result<Contents> {
    let mut all = Contents::new();
    let names = db.tree_names();
    for &name in trees.iter().filter(|t| names.iter().any(|n| n == **t)) {
        let tree = db.tree(name, tree_options(name))?;
        let mut there = BTreeMap::new();
        for item in tree.iter() {
            let (k, v) = item?;
            assert!(
                there.insert(k.to_vec(), v.to_vec()).is_none(),
                "{name}: {} twice",
                k.escape_ascii()
            );
        }
        let mut back = vec![];
        for item in tree.iter().rev() {
            let (k, v) = item?;
            back.push((k.to_vec(), v.to_vec()));
        }
        back.reverse();
        assert!(
            back.into_iter().eq(there.clone()),
            "{name}: a backward scan differs from a forward scan"
        );
        for key in known.get(name).into_iter().flatten().map(|(k, _)| k).chain(there.keys()) {
            assert_eq!(
                tree.get(key)?.as_deref(),
                there.get(key).map(Vec::as_slice),
                "{name}: {}",
                key.escape_ascii()
            );
        }
        all.insert(name.to_owned(), there);
    }
    Ok(all)
}

/// A log record whose entries are not in tables.
pub struct LogRecord {
    pub file: PathBuf,
    /// Byte range from the start of its header to the end of its payload.
    pub bytes: std::ops::Range<usize>,
    /// Position in the log.
    pub lsn: u64,
    pub seq: Seq,
    pub mark: bool,
}

/// A disk with an undamaged store.
pub struct Sound {
    pub env: CrashEnv,
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Records that an opening reads, in order.
    pub log: Vec<LogRecord>,
    states: BTreeMap<Seq, Contents>,
}

impl Sound {
    fn new(env: CrashEnv, states: BTreeMap<Seq, Contents>) -> Sound {
        for file in env.files().into_iter().filter(|f| is_log(f)) {
            let mut bytes = env.read_file(&file).unwrap();
            let end = bytes.iter().rposition(|&b| b != 0).unwrap_or(0);
            bytes.truncate((end + ZEROS).next_multiple_of(8).min(bytes.len()));
            env.write_file(&file, &bytes).unwrap();
        }
        let files =
            env.files().into_iter().map(|f| (f.clone(), env.read_file(&f).unwrap())).collect();
        let (state, _) = Manifest::load(&env, Path::new(DIR)).unwrap().unwrap();
        let log = records(&env).into_iter().filter(|r| r.lsn >= state.wal_floor).collect();
        Sound { env, files, log, states }
    }

    /// Returns the contents of the store if its log ends before `record`, or all contents for
    /// `None`.
    pub fn contents(&self, record: Option<&LogRecord>) -> &Contents {
        let before = self
            .log
            .iter()
            .filter(|r| !r.mark && record.is_some_and(|e| r.lsn >= e.lsn))
            .map(|r| r.seq)
            .min();
        self.states.range(..before.unwrap_or(Seq::MAX)).next_back().unwrap().1
    }
}

/// Reports whether a file is a log segment.
pub fn is_log(file: &Path) -> bool {
    segment(file).is_some()
}

fn segment(file: &Path) -> Option<u64> {
    segment_number(file.file_name()?.to_str()?)
}

fn records(env: &CrashEnv) -> Vec<LogRecord> {
    let mut all = vec![];
    for s in segments(env, Path::new(DIR)).unwrap() {
        let mut reader = SegmentReader::open(env, Path::new(DIR), s.number).unwrap();
        let file = reader.path().to_path_buf();
        while let Some(LogItem::Record(r)) = reader.next().unwrap() {
            let start = r.offset as usize;
            let bytes = start..start + 32 + r.payload.len();
            // The mark of a clean close is void if the next writer begins at its position.
            if r.lsn.unwrap() < s.end {
                all.push(LogRecord {
                    file: file.clone(),
                    bytes,
                    lsn: r.lsn.unwrap(),
                    seq: r.seq,
                    mark: r.mark,
                });
            }
        }
    }
    all.sort_by_key(|r| r.lsn);
    all
}

/// Returns the highest log position up to which a tree was flushed. The log was durable up to
/// there.
pub fn flushed(env: &CrashEnv) -> u64 {
    let state = Manifest::load(env, Path::new(DIR)).unwrap().unwrap().0;
    state.trees.values().map(|t| t.flushed).max().unwrap()
}

/// Returns the log position up to which the manifest and the undamaged bytes of a damaged log prove
/// the log durable.
pub fn proven(env: &CrashEnv) -> u64 {
    let mut synced = flushed(env);
    for number in env.files().iter().filter_map(|f| segment(f)) {
        let Ok(mut reader) = SegmentReader::open(env, Path::new(DIR), number) else { continue };
        synced = synced.max(reader.header().map_or(0, |h| h.synced));
        while let Ok(Some(item)) = reader.next() {
            if let LogItem::Record(r) = item {
                synced = synced.max(r.synced);
            }
        }
    }
    synced
}

fn key(i: u32) -> Vec<u8> {
    format!("key{i:03}").into_bytes()
}

fn value(i: u32, words: &str) -> Vec<u8> {
    format!("{words}-{i}-{words}-{words}").into_bytes()
}

/// Opens the store and its trees with the options of its owner.
fn owner(env: &CrashEnv) -> (Db, Vec<firn_kv::Tree>) {
    let options = DbOptions {
        memory_budget: 1 << 20,
        background_threads: 0,
        wal_segment: 64 << 10,
        ..DbOptions::default()
    };
    let db = Db::open_in(Arc::new(env.clone()), DIR, options).unwrap();
    let trees = TREES[..4].iter().map(|n| db.tree(n, tree_options(n)).unwrap()).collect();
    (db, trees)
}

/// Builds two disks: on the first the process died with the store open, on the second the store was
/// closed.
pub fn build() -> (Sound, Sound) {
    let env = CrashEnv::new(7);
    tables(&env);
    let mut states = BTreeMap::new();
    let note = |db: &Db, states: &mut BTreeMap<Seq, Contents>| {
        states.insert(db.snapshot().seq(), read(db, &TREES, &Contents::new()).unwrap());
    };
    // A sealed segment with records that are not in any table.
    let (db, t) = owner(&env);
    note(&db, &mut states);
    for i in 0..4 {
        t[3].put(&key(i), &value(i, "only in the log")).unwrap();
        note(&db, &mut states);
    }
    drop((db, t));
    let (db, t) = owner(&env);
    // Frames in the manifest: a flush and a new tree.
    t[0].put(&key(3), b"changed").unwrap();
    note(&db, &mut states);
    t[0].flush().unwrap();
    let late = db.tree("late", tree_options("late")).unwrap();
    note(&db, &mut states);
    late.put(b"a", b"1").unwrap();
    note(&db, &mut states);
    t[1].merge(&key(1), b"+synced").unwrap();
    note(&db, &mut states);
    t[3].with_durability(Durability::Power).put(&key(2), b"durable").unwrap();
    note(&db, &mut states);
    t[3].delete(&key(0)).unwrap();
    note(&db, &mut states);
    t[0].delete_range(&key(5)..&key(8)).unwrap();
    note(&db, &mut states);
    late.put(b"b", &value(2, "the last one, and a long one")).unwrap();
    note(&db, &mut states);
    let died = Sound::new(env.fork(), states.clone());
    drop((db, t, late));
    (died, Sound::new(env, states))
}

/// Writes tables of every kind, and log segments that are no longer needed.
fn tables(env: &CrashEnv) {
    for round in 0..3u32 {
        let (_db, t) = owner(env);
        if round == 0 {
            (0..18).for_each(|i| t[0].put(&key(i), &value(i, "raw")).unwrap());
            (0..24).for_each(|i| t[1].put(&key(i), &value(i, "packed packed packed")).unwrap());
            (0..12).for_each(|i| {
                t[2].put(format!("row{}.{i}", i / 3).as_bytes(), &value(i, "cell")).unwrap()
            });
        }
        if round == 1 {
            t[1].delete_range(&key(4)..&key(9)).unwrap();
            t[1].delete_range(&key(7)..&key(11)).unwrap();
            (0..6).for_each(|i| t[1].merge(&key(2 * i), b"+operand").unwrap());
            t[1].delete(&key(20)).unwrap();
            t[2].ingest((3..6u32).map(|i| (format!("row{i}.9"), "loaded"))).unwrap();
        }
        t.iter().for_each(|t| t.flush().unwrap());
    }
}
