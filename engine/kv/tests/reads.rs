//! Device reads of a lookup: one block for a get, and none if the answer is in memory.

use std::path::Path;
use std::sync::Arc;

use firn_crash::{CrashEnv, Fault, FaultEnv, OpClass};
use firn_kv::{Compression, Db, DbOptions, Env, ErrorKind, ReadMode, Tree, TreeOptions};

const KEYS: u32 = 4000;

fn key(i: u32) -> Vec<u8> {
    format!("key{i:08}").into_bytes()
}

/// Returns a compacted store that was just opened, and the environment that counts its reads.
fn store(memory: Option<u64>, mode: ReadMode, compression: Compression) -> (FaultEnv, Db, Tree) {
    let mem = CrashEnv::new(1);
    mem.set_memory(memory);
    let options = || DbOptions {
        background_threads: 0,
        read_mode: mode,
        memory_budget: 16 << 20,
        ..DbOptions::default()
    };
    let tree_options = || TreeOptions { compression: vec![compression], ..TreeOptions::default() };
    {
        let db = Db::open_in(Arc::new(mem.clone()), Path::new("/db"), options()).unwrap();
        let tree = db.tree("t", tree_options()).unwrap();
        (0..KEYS).for_each(|i| tree.put(&key(i), &[i as u8; 100]).unwrap());
        tree.compact().unwrap();
    }
    let env = FaultEnv::new(Arc::new(mem));
    env.only(&[OpClass::Read]);
    let db =
        Db::open_in(Arc::new(env.clone()) as Arc<dyn Env>, Path::new("/db"), options()).unwrap();
    let tree = db.tree("t", tree_options()).unwrap();
    tree.get(&key(0)).unwrap().unwrap(); // opens the table
    (env, db, tree)
}

/// Returns the number of device reads for a get of this key.
fn cost(env: &FaultEnv, tree: &Tree, i: u32) -> u64 {
    let before = env.count();
    assert_eq!(&*tree.get(&key(i)).unwrap().unwrap(), [i as u8; 100]);
    env.count() - before
}

#[test]
fn a_get_reads_one_block_and_only_once() {
    for (memory, mode, compression) in [
        (Some(16 << 30), ReadMode::Auto, Compression::Lz4),
        (Some(64 << 10), ReadMode::Auto, Compression::None),
        (None, ReadMode::Auto, Compression::None),
        (Some(16 << 30), ReadMode::Pread, Compression::None),
    ] {
        let (env, _db, tree) = store(memory, mode, compression);
        for i in (500..KEYS).step_by(500) {
            assert_eq!(cost(&env, &tree, i), 1, "{mode:?} {compression:?}");
            assert_eq!(cost(&env, &tree, i), 0, "{mode:?} {compression:?}");
        }
    }
}

#[test]
fn maps_serve_what_fits_in_memory_and_stop_when_it_no_longer_does() {
    let (env, db, tree) = store(Some(2 << 20), ReadMode::Auto, Compression::None);
    assert_eq!(cost(&env, &tree, 1000), 0, "from the map");
    let pinned = tree.get(&key(1000)).unwrap().unwrap();
    let other = db
        .tree(
            "other",
            TreeOptions { compression: vec![Compression::None], ..TreeOptions::default() },
        )
        .unwrap();
    (0..2 * KEYS).for_each(|i| other.put(&key(i), &[0; 100]).unwrap());
    other.flush().unwrap();
    assert_eq!(cost(&env, &tree, 2000), 1, "the tables need more than half of the memory");
    assert_eq!(&*pinned, [1000u32 as u8; 100]);
    drop(other);
    db.drop_tree("other").unwrap();
    // The tables are deleted when no reader can use them. Each of these keys is in a block that has
    // not been read.
    let fits = |i| {
        (0..1000).for_each(|_| drop(tree.get(&key(1)).unwrap()));
        cost(&env, &tree, i) == 0
    };
    assert!((2200..KEYS).step_by(40).any(fits), "reads must use the map again");
}

/// A commit does not read tables without data newer than the snapshot. It queries the filters of
/// the other tables first.
#[test]
fn validation_reads_no_table_that_cannot_matter() {
    let env = FaultEnv::new(Arc::new(CrashEnv::new(1)));
    env.only(&[OpClass::Read]);
    let db_options =
        DbOptions { read_mode: ReadMode::Pread, background_threads: 0, ..DbOptions::default() };
    let options = TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() };
    let db = Db::open_in(Arc::new(env.clone()), "/db", db_options).unwrap();
    let tree = db.tree("t", TreeOptions { block_size: 512, ..options }).unwrap();
    let fill = |from: u32| {
        (from..3000).step_by(3).for_each(|i| tree.put(&i.to_be_bytes(), &[7; 50]).unwrap());
        tree.flush().unwrap();
    };
    fill(0);
    let mut tx = db.transaction();
    // Keys between the existing ones: only the filters are read for them.
    for i in (1..3000u32).step_by(30) {
        assert!(tx.get(&tree, &[&i.to_be_bytes()[..], b"x"].concat()).unwrap().is_none());
    }
    tx.put(&tree, b"k", b"v").unwrap();
    env.fail_from(env.count(), Fault::Eio);
    tx.commit().unwrap();
    env.heal();
    // Newer changes are found in memtable and table: a put, a delete and a range deletion.
    for flushed in [false, true] {
        for change in 0..3 {
            let key = 300u32.to_be_bytes();
            let mut tx = db.transaction();
            tx.get(&tree, &key).unwrap();
            tx.put(&tree, b"k", b"w").unwrap();
            match change {
                0 => tree.put(&key, b"new").unwrap(),
                1 => tree.delete(&key).unwrap(),
                _ => tree.delete_range(&key..&400u32.to_be_bytes()).unwrap(),
            }
            if flushed {
                tree.flush().unwrap();
            }
            assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Conflict, "{flushed}, {change}");
        }
    }
}
