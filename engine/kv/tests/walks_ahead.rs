//! Scans over blobs prefetch the next blobs from the device. Other reads request only the bytes
//! that they read. A counting environment records the requests.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use firn_kv::fs::{FileMap, ReadFile};
use firn_kv::policy::Tiered;
use firn_kv::{
    Compression, Db, DbOptions, Env, MemEnv, Policy, ReadMode, Result, Tree, TreeOptions,
};
use firn_testkit::as_inside;
use firn_testkit::rng::Rng;

/// Maximum size of one prefetch request in bytes.
const MOST: u64 = 1 << 20;

/// Requests for one file.
#[derive(Clone, Debug, Default)]
struct AskedBytes {
    /// Offset and length of each prefetch request.
    ahead: Vec<(u64, u64)>,
    /// Offset and length of each read.
    read: Vec<(u64, u64)>,
}

type Files = Arc<Mutex<BTreeMap<String, AskedBytes>>>;

/// Environment that records the requests for table and blob files.
struct NotingAhead {
    inner: Arc<dyn Env>,
    files: Files,
}

struct NotedFile {
    inner: Arc<dyn ReadFile>,
    name: String,
    files: Files,
}

struct NotedMap {
    inner: Arc<dyn FileMap>,
    name: String,
    files: Files,
}

fn note(files: &Files, name: &str, what: impl FnOnce(&mut AskedBytes)) {
    what(files.lock().unwrap().entry(name.to_owned()).or_default());
}

impl ReadFile for NotedFile {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        note(&self.files, &self.name, |a| a.read.push((offset, buf.len() as u64)));
        self.inner.read_at(offset, buf)
    }
    fn map(&self) -> Option<Arc<dyn FileMap>> {
        let inner = self.inner.map()?;
        Some(Arc::new(NotedMap { inner, name: self.name.clone(), files: self.files.clone() }))
    }
    fn will_need(&self, offset: u64, len: u64) {
        note(&self.files, &self.name, |a| a.ahead.push((offset, len)));
    }
}

impl FileMap for NotedMap {
    fn bytes(&self) -> &[u8] {
        self.inner.bytes()
    }
    fn will_need(&self, offset: u64, len: u64) {
        note(&self.files, &self.name, |a| a.ahead.push((offset, len)));
    }
}

impl Env for NotingAhead {
    as_inside! {
        inner: create_dir_all list sync_dir file_len read_all create append create_log reuse_log rename hard_link remove
        remove_dir lock free_space memory wall_micros monotonic_nanos sleep spawn random
    }

    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>> {
        let inner = self.inner.open_read(file, map)?;
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        Ok(Arc::new(NotedFile { inner, name, files: self.files.clone() }))
    }
}

fn key(i: u64) -> Vec<u8> {
    format!("key{i:05}").into_bytes()
}

/// Creates a store with values of about `len` bytes in several blob files, and reopens it with a
/// cache that holds few of them. Returns it with the recorded requests.
fn store(
    mode: ReadMode,
    compression: Compression,
    n: u64,
    len: usize,
    files: u64,
) -> (Tree, Files) {
    let mem: Arc<dyn Env> = Arc::new(MemEnv::new(1));
    let policy =
        Policy::Tiered(Tiered { min_runs: 32, max_runs: 64, bucket: 3.0, ..Tiered::default() });
    let options = TreeOptions {
        policy,
        blob_threshold: 512,
        compression: vec![compression],
        ..TreeOptions::default()
    };
    let db_options = DbOptions {
        background_threads: 0,
        memory_budget: 1 << 20,
        read_mode: mode,
        ..DbOptions::default()
    };
    let mut rng = Rng::new(len as u64);
    {
        // Each flush creates one blob file.
        let writing = DbOptions { memory_budget: 1 << 30, ..db_options.clone() };
        let db = Db::open_in(mem.clone(), "/db", writing).unwrap();
        let tree =
            db.tree("t", TreeOptions { memtable_size: 64 << 20, ..options.clone() }).unwrap();
        for file in 0..files {
            for i in (file..n).step_by(files as usize) {
                let mut value = vec![7; len];
                rng.fill(&mut value[..len / 2]);
                tree.put(key(i), value).unwrap();
            }
            tree.flush().unwrap();
        }
        tree.compact().unwrap();
    }
    let files = Files::default();
    let env = Arc::new(NotingAhead { inner: mem, files: files.clone() });
    let tree = Db::open_in(env, "/db", db_options).unwrap().tree("t", options).unwrap();
    (tree, files)
}

/// Returns the requests for blob files since the last call, by file name.
fn asked(tree: &Tree, files: &Files) -> BTreeMap<String, AskedBytes> {
    let tables: Vec<String> =
        tree.tables().unwrap().iter().map(|t| format!("{:08}.sst", t.id)).collect();
    let mut all = std::mem::take(&mut *files.lock().unwrap());
    all.retain(|name, _| name.ends_with(".sst") && !tables.contains(name));
    all
}

const KINDS: [(ReadMode, Compression); 3] = [
    (ReadMode::Mmap, Compression::None),
    (ReadMode::Pread, Compression::None),
    (ReadMode::Pread, Compression::Lz4),
];

/// Each byte is requested once, and no request is far ahead. In each file, at most the first two
/// values are read without a prefetch.
#[test]
fn a_walk_over_values_asks_for_them_before_it_reads_them() {
    for (mode, compression) in KINDS {
        for (n, len, number) in
            [(2000, 1000, 1), (2000, 1000, 3), (300, 10_000, 2), (60, 100_000, 1)]
        {
            for forward in [true, false] {
                let (tree, files) = store(mode, compression, n, len, number);
                // Opens the blob files first, because opening one reads more than its values.
                for file in 0..number {
                    tree.get(key(n / 2 + file)).unwrap().unwrap();
                }
                asked(&tree, &files);
                let values = if forward {
                    tree.iter().map(|e| e.unwrap().1.len() as u64).sum::<u64>()
                } else {
                    tree.iter().rev().map(|e| e.unwrap().1.len() as u64).sum()
                };
                assert_eq!(values, n * len as u64);
                let asked = asked(&tree, &files);
                let what = format!("{mode:?} {compression:?} {n} of {len} {forward}: {asked:?}");
                assert_eq!(asked.len() as u64, number, "{what}");
                for of in asked.values() {
                    let mut ahead = of.ahead.clone();
                    // With a map, the first two values are requested singly, before the scan is
                    // recognized.
                    if mode == ReadMode::Mmap {
                        ahead.drain(..2);
                    }
                    assert!(ahead.iter().all(|&(_, len)| len <= MOST), "{what}");
                    if !forward {
                        ahead.reverse();
                    }
                    assert!(ahead.windows(2).all(|w| w[0].0 + w[0].1 == w[1].0), "{what}");
                    let (first, last) = (ahead[0], ahead[ahead.len() - 1]);
                    let (from, until) = (first.0, last.0 + last.1);
                    let blocks: Vec<_> =
                        of.read.iter().filter(|r| r.1 as usize > len / 3).collect();
                    assert!(
                        mode == ReadMode::Mmap || blocks.len() as u64 >= n / number - 10,
                        "{what}"
                    );
                    let alone = blocks.iter().filter(|r| r.0 < from || r.0 + r.1 > until).count();
                    assert!(alone <= 2, "{alone}: {what}");
                    // A request covers many values, so there are far fewer requests than values.
                    assert!(ahead.len() as u64 <= 6 + values / number / (MOST / 2), "{what}");
                }
            }
        }
    }
}

#[test]
fn key_only_scans_read_no_neighbouring_values() {
    for (mode, compression) in KINDS {
        let (tree, files) = store(mode, compression, 2000, 1000, 1);
        assert_eq!(tree.keys().count(), 2000);
        let of_keys = asked(&tree, &files);
        // Opening a file reads its footer.
        let is_end = |a: &AskedBytes| a.ahead.is_empty() && a.read.iter().all(|r| r.1 < 100);
        assert!(of_keys.values().all(is_end), "a walk over keys reads no values: {of_keys:?}");
        for i in (0..2000).step_by(97) {
            tree.get(key(i)).unwrap().unwrap();
            let mut c = tree.cursor(key(i + 40)..).unwrap();
            c.first().unwrap();
            if c.is_valid() {
                c.next().unwrap();
            }
        }
        let of = asked(&tree, &files).into_values().next().unwrap();
        let most = of.ahead.iter().map(|a| a.1).max().unwrap_or(0);
        assert!(most < 1100, "{mode:?} {compression:?}: {of:?}");
    }
}
