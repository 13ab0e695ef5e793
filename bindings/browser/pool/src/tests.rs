//! The contract of every environment, and stores after a power cut.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use firn_kv::{Db, DbOptions, Durability, Env, ErrorKind, TreeOptions};

use crate::journal::JOURNALS;
use crate::storage::{MemoryFiles, PoolStorage};
use crate::{PoolEnv, lock};

#[allow(clippy::disallowed_methods, reason = "threads of tests")]
#[path = "../../../../engine/kv/src/env/tests/contract.rs"]
mod contract;

fn with_every_env(test: impl Fn(&Arc<dyn Env>, &Path)) {
    let env: Arc<dyn Env> = Arc::new(PoolEnv::open(Arc::new(MemoryFiles::default())).unwrap());
    let dir = Path::new("/dir");
    env.create_dir_all(dir).unwrap();
    test(&env, dir);
}

#[derive(Clone)]
enum DiskOp {
    Add,
    Write(u32, u64, Vec<u8>),
    SetLen(u32, u64),
    Flush(u32),
}

impl DiskOp {
    fn file(&self) -> u32 {
        match self {
            DiskOp::Add => u32::MAX,
            DiskOp::Write(file, ..) | DiskOp::SetLen(file, _) | DiskOp::Flush(file) => *file,
        }
    }
}

/// Files that record every operation.
#[derive(Default)]
struct RecordingDisk {
    files: MemoryFiles,
    ops: Mutex<Vec<DiskOp>>,
}

impl RecordingDisk {
    fn note(&self, op: DiskOp) {
        lock(&self.ops).push(op);
    }

    fn len_of_history(&self) -> usize {
        lock(&self.ops).len()
    }

    /// Returns the files after a power cut at this point of the history. A file has all operations
    /// before its last flush, and a share of the later ones that depends on the seed.
    fn after_power_cut(&self, at: usize, seed: u64) -> MemoryFiles {
        let image = MemoryFiles::default();
        let ops = lock(&self.ops)[..at].to_vec();
        for _ in ops.iter().filter(|op| matches!(op, DiskOp::Add)) {
            image.add().unwrap();
        }
        for file in 0..image.count() {
            let own: Vec<_> = ops.iter().filter(|op| op.file() == file).collect();
            let flushed = own.iter().rposition(|op| matches!(op, DiskOp::Flush(_)));
            let durable = flushed.map_or(0, |at| at + 1);
            let hash = (seed ^ u64::from(file)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            let later = (own.len() - durable) as u64 * (hash % 5) / 4;
            for op in &own[..durable + later as usize] {
                match op {
                    DiskOp::Write(file, offset, bytes) => image.write(*file, *offset, bytes),
                    DiskOp::SetLen(file, len) => image.set_len(*file, *len),
                    DiskOp::Add | DiskOp::Flush(_) => Ok(()),
                }
                .unwrap();
            }
        }
        image
    }
}

impl PoolStorage for RecordingDisk {
    fn count(&self) -> u32 {
        self.files.count()
    }
    fn add(&self) -> io::Result<u32> {
        self.note(DiskOp::Add);
        self.files.add()
    }
    fn len(&self, file: u32) -> io::Result<u64> {
        self.files.len(file)
    }
    fn read(&self, file: u32, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.files.read(file, offset, buf)
    }
    fn write(&self, file: u32, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.note(DiskOp::Write(file, offset, bytes.to_vec()));
        self.files.write(file, offset, bytes)
    }
    fn set_len(&self, file: u32, len: u64) -> io::Result<()> {
        self.note(DiskOp::SetLen(file, len));
        self.files.set_len(file, len)
    }
    fn flush(&self, file: u32) -> io::Result<()> {
        self.note(DiskOp::Flush(file));
        self.files.flush(file)
    }
    fn page_cache_bytes(&self) -> Option<u64> {
        None
    }
}

fn options() -> DbOptions {
    DbOptions {
        memory_budget: 1 << 20,
        wal_segment: 64 << 10,
        background_threads: 0,
        event_log: false,
        ..DbOptions::default()
    }
}

fn small_tree() -> TreeOptions {
    TreeOptions { memtable_size: 64 << 10, table_size: 64 << 10, ..TreeOptions::default() }
}

fn key(n: u32) -> [u8; 4] {
    (n.wrapping_mul(2_654_435_761) % 5000).to_be_bytes()
}

/// Flushes and compactions remove files, and the pool uses them again.
#[test]
fn a_power_cut_at_any_point_loses_no_durable_write() {
    let disk = Arc::new(RecordingDisk::default());
    let db = Db::open_in(Arc::new(PoolEnv::open(disk.clone()).unwrap()), "/db", options()).unwrap();
    let tree = db.tree("t", small_tree()).unwrap();
    // Points of the history, and the number of writes that are durable there.
    let mut durable = vec![(disk.len_of_history(), 0)];
    for n in 0..12_000_u32 {
        tree.put(key(n), [n.to_be_bytes(); 25].concat()).unwrap();
        if n % 400 == 399 {
            db.sync().unwrap();
            durable.push((disk.len_of_history(), n + 1));
        }
    }
    assert!(db.stats().compactions > 0 && disk.count() < 60);
    let end = disk.len_of_history();
    let step = end / 60;
    for (seed, at) in (durable[0].0..=end).step_by(step).enumerate() {
        let known = durable.iter().rfind(|(point, _)| *point <= at).unwrap().1;
        let image = Arc::new(disk.after_power_cut(at, seed as u64));
        let db = Db::open_in(Arc::new(PoolEnv::open(image).unwrap()), "/db", options()).unwrap();
        let tree = db.tree("t", small_tree()).unwrap();
        for n in (0..known).rev().take(5000) {
            let value = tree.get(key(n)).unwrap();
            let written = value.map(|v| u32::from_be_bytes(v[..4].try_into().unwrap()));
            assert!(
                written.is_some_and(|w| w >= n && key(w) == key(n)),
                "{n} at {at}: {written:?}"
            );
        }
        tree.put("still", "writable").unwrap();
    }
}

#[test]
fn a_reopened_pool_has_its_names_and_reuses_files() {
    let files = Arc::new(MemoryFiles::default());
    for round in 0..30 {
        let env = PoolEnv::open(files.clone()).unwrap();
        let dir = Path::new("/d");
        env.create_dir_all(dir).unwrap();
        let names = env.list(dir).unwrap();
        assert_eq!(names, if round == 0 { vec![] } else { vec!["kept".to_owned()] });
        for n in 0..200 {
            let (from, to) = (dir.join(format!("f{n}")), dir.join("kept"));
            env.create(&from).unwrap().append(format!("{round} {n}").as_bytes()).unwrap();
            env.rename(&from, &to).unwrap();
        }
        assert_eq!(
            env.read_all(&dir.join("kept"), 100).unwrap(),
            format!("{round} 199").as_bytes()
        );
    }
    assert!(files.count() < 10, "{} files", files.count());
}

#[test]
fn damaged_names_are_refused() {
    let files = Arc::new(MemoryFiles::default());
    let env = PoolEnv::open(files.clone()).unwrap();
    env.create(Path::new("f")).unwrap().append(b"content").unwrap();
    drop(env);
    for file in 0..JOURNALS {
        files.write(file, 20, &[0xFF; 8]).unwrap();
    }
    let e = PoolEnv::open(files.clone()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    // Nothing was changed, so a copy of the journals can be restored.
    assert!((0..files.count()).any(|n| files.len(n).unwrap() == 7));
}

#[test]
fn random_journals_do_not_panic() {
    let mut state = 7_u64;
    let mut draw = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..2000 {
        let files = Arc::new(MemoryFiles::default());
        let env = PoolEnv::open(files.clone()).unwrap();
        for name in ["a", "b", "c"] {
            env.create(Path::new(name)).unwrap().append(name.as_bytes()).unwrap();
        }
        drop(env);
        for _ in 0..1 + draw() % 3 {
            let file = (draw() % u64::from(JOURNALS)) as u32;
            let at = draw() % files.len(file).unwrap().max(1);
            files.write(file, at, &[draw() as u8]).unwrap();
        }
        if let Ok(env) = PoolEnv::open(files) {
            for name in env.list(Path::new("/")).unwrap() {
                assert_eq!(env.read_all(Path::new(&name), 9).unwrap(), name.as_bytes());
            }
        }
    }
}

#[test]
fn a_write_survives_with_power_durability() {
    let disk = Arc::new(RecordingDisk::default());
    let env = Arc::new(PoolEnv::open(disk.clone()).unwrap());
    let db = Db::open_in(env, "/db", options()).unwrap();
    let tree = db.tree("t", small_tree()).unwrap().with_durability(Durability::Power);
    for n in 0..50_u32 {
        tree.put(n.to_be_bytes(), "v").unwrap();
        let image = Arc::new(disk.after_power_cut(disk.len_of_history(), u64::from(n)));
        let db = Db::open_in(Arc::new(PoolEnv::open(image).unwrap()), "/db", options()).unwrap();
        assert_eq!(db.tree("t", small_tree()).unwrap().len().unwrap(), u64::from(n) + 1);
    }
}

/// The removal of a name is durable before its file is emptied or gets other content.
#[test]
fn a_name_never_shows_the_content_of_another_after_a_power_cut() {
    let disk = Arc::new(RecordingDisk::default());
    let env = PoolEnv::open(disk.clone()).unwrap();
    let begin = disk.len_of_history();
    let content = |name: &str| name.repeat(50).into_bytes();
    // Points of the history, and the names that are durable there until they are removed.
    let mut durable = vec![];
    let mut removed = vec![];
    for n in 0..60 {
        let name = format!("name {n:02}");
        let mut file = env.create(Path::new(&name)).unwrap();
        file.append(&content(&name)).unwrap();
        file.sync().unwrap();
        if n % 3 == 0 {
            env.sync_dir(Path::new("/")).unwrap();
            durable.push((disk.len_of_history(), name.clone()));
        }
        if n >= 4 {
            let old = format!("name {:02}", n - 4);
            removed.push((disk.len_of_history(), old.clone()));
            env.remove(Path::new(&old)).unwrap();
        }
    }
    for at in begin..=disk.len_of_history() {
        for seed in 0..5 {
            let env = PoolEnv::open(Arc::new(disk.after_power_cut(at, seed))).unwrap();
            let names = env.list(Path::new("/")).unwrap();
            for name in &names {
                let bytes = env.read_all(Path::new(name), 1 << 20).unwrap();
                let is_durable = durable.iter().any(|(point, known)| *point <= at && known == name);
                let expected = content(name);
                assert!(expected.starts_with(&bytes), "{name} at {at} has other content");
                assert!(!is_durable || bytes == expected, "{name} at {at} lost its content");
            }
            for (point, name) in durable.iter().filter(|(point, _)| *point <= at) {
                let is_removed = removed.iter().any(|(end, other)| *end <= at && other == name);
                assert!(is_removed || names.contains(name), "{name} of {point} is gone at {at}");
            }
        }
    }
}
