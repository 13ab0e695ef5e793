//! Long values of memtables are in the memory of the log. They stay valid and unchanged as long as
//! anybody can read them: while segments are retired, recycled and removed, and after the store was
//! closed and opened again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_kv::{Batch, Db, DbOptions, OsEnv, ReadMode, Tree, TreeOptions, Value};
use firn_testkit::rng::Rng;

/// Lengths around the shortest value that stays in the log, and longer than a segment.
const LENGTHS: [usize; 8] = [0, 100, 4095, 4096, 5000, 70_000, 300_000, 1_200_000];

/// A directory of the operating system, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("firn-long-values-{name}-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }
}

#[allow(clippy::disallowed_methods)] // removes a directory of the test
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(dir: &Path, read_mode: ReadMode) -> (Db, Tree) {
    let options = DbOptions {
        memory_budget: 16 << 20,
        wal_segment: 1 << 20,
        read_mode,
        ..DbOptions::default()
    };
    let db = Db::open_with(dir, options).unwrap();
    let tree = TreeOptions { memtable_size: 2 << 20, ..TreeOptions::default() };
    let tree = db.tree("t", tree).unwrap();
    (db, tree)
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let mut value = vec![0; LENGTHS[rng.below(LENGTHS.len() as u64) as usize]];
    rng.fill(&mut value);
    value
}

/// Values that readers hold, with the bytes that they had.
#[derive(Default)]
struct Held(Vec<(Value, Vec<u8>)>);

impl Held {
    fn hold(&mut self, value: Value, expected: &[u8]) {
        assert!(value == *expected, "a value of {} bytes", expected.len());
        self.0.push((value, expected.to_vec()));
    }

    fn check(&self) {
        for (value, expected) in &self.0 {
            assert!(*value == **expected, "a held value of {} bytes changed", expected.len());
        }
    }
}

#[test]
fn held_values_do_not_change() {
    for read_mode in [ReadMode::Auto, ReadMode::Pread] {
        let dir = Folder::new("held");
        let mut rng = Rng::new(7);
        let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut held = Held::default();
        for _ in 0..3 {
            let (db, tree) = open(&dir.0, read_mode);
            for round in 0..60 {
                let key = |rng: &mut Rng| format!("k{:03}", rng.below(50)).into_bytes();
                match rng.below(4) {
                    0 => {
                        let mut batch = Batch::new();
                        for _ in 0..rng.below(5) {
                            let (k, v) = (key(&mut rng), value(&mut rng));
                            batch.put(&tree, &k, &v).unwrap();
                            map.insert(k, v);
                        }
                        let k = key(&mut rng);
                        batch.delete(&tree, &k).unwrap();
                        map.remove(&k);
                        db.write(batch).unwrap();
                    }
                    1 => {
                        let (k, v) = (key(&mut rng), value(&mut rng));
                        db.transact(|tx| tx.put(&tree, &k, &v)).unwrap();
                        map.insert(k, v);
                    }
                    _ => {
                        let (k, v) = (key(&mut rng), value(&mut rng));
                        tree.put(&k, &v).unwrap();
                        map.insert(k, v);
                    }
                }
                let k = key(&mut rng);
                match (tree.get(&k).unwrap(), map.get(&k)) {
                    (Some(value), Some(expected)) => held.hold(value, expected),
                    (found, expected) => assert_eq!(found.is_some(), expected.is_some()),
                }
                if round % 20 == 19 {
                    tree.flush().unwrap();
                    held.check();
                    // Segments are recycled while only some values are held.
                    held.0.retain(|_| rng.below(3) > 0);
                }
            }
            for (item, (k, v)) in tree.iter().zip(&map) {
                let (key, value) = item.unwrap();
                assert!(key == **k, "{key:?}");
                held.hold(value, v);
            }
            for (item, (k, v)) in tree.iter().rev().zip(map.iter().rev()) {
                let (key, value) = item.unwrap();
                assert!(key == **k && value == **v, "{key:?}");
            }
            assert_eq!(tree.iter().count(), map.len());
            db.close().unwrap();
            held.check();
        }
        drop(dir);
        held.check();
    }
}

/// Readers of values and writers that recycle the log run at the same time.
#[test]
#[allow(clippy::disallowed_methods)] // the test's own threads
fn readers_beside_recycled_segments() {
    let dir = Folder::new("beside");
    let (db, tree) = open(&dir.0, ReadMode::Auto);
    // Each value repeats the number of its key's write, so that a changed byte is seen.
    let write = |key: u8, n: u32| {
        let value: Vec<u8> = n.to_le_bytes().repeat(25_000);
        tree.put([key], value).unwrap();
    };
    (0..8).for_each(|key| write(key, 0));
    std::thread::scope(|threads| {
        for reader in 0..2_u64 {
            let tree = &tree;
            threads.spawn(move || {
                let mut rng = Rng::new(reader);
                let mut held: Vec<Value> = vec![];
                for _ in 0..3000 {
                    held.push(tree.get([rng.below(8) as u8]).unwrap().unwrap());
                    if held.len() > 20 {
                        let value = held.swap_remove(rng.below(20) as usize);
                        assert_eq!(value.len(), 100_000);
                        assert!(value.chunks(4).all(|n| n == &value[..4]));
                    }
                }
            });
        }
        (0..1000).for_each(|n| write((n % 8) as u8, n));
    });
    db.close().unwrap();
}

/// A store that was written and closed has no reserve of the log, although values are held.
#[test]
fn a_close_shortens_a_log_with_held_values() {
    let dir = Folder::new("closed");
    let (db, tree) = open(&dir.0, ReadMode::Auto);
    tree.put("k", vec![7; 10_000]).unwrap();
    let held = tree.get("k").unwrap().unwrap();
    db.close().unwrap();
    let env = OsEnv::new();
    let names = env.list(&dir.0).unwrap().into_iter().filter(|name| name.ends_with(".wal"));
    let bytes: u64 = names.map(|name| env.file_len(&dir.0.join(name)).unwrap()).sum();
    assert!((10_000..20_000).contains(&bytes), "{bytes}");
    assert!(held.iter().all(|&b| b == 7));
}
