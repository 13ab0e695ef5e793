//! What fjall's own tests ask of a store with named keyspaces, asked of Firn. Its package on the registry has no tests, so these are ours, in our
//! words; what is about its own files (fixtures of old versions, separated values, names of folders) has no counterpart here.
#![allow(clippy::disallowed_methods, reason = "a test makes and removes its own folder")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_kv::base::key::Kind;
use firn_kv::{Batch, Db, ErrorKind, Policy, Purge, PurgeJob, PurgePass, Readable, Result, Tree, TreeOptions, Verdict};

struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("firn-keyspaces-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Dir(std::env::temp_dir().join(name))
    }

    fn open(&self) -> Db {
        Db::open(&self.0).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tree(db: &Db, name: &str) -> Tree {
    db.tree(name, TreeOptions::default()).unwrap()
}

#[test]
fn a_batch_shows_when_it_is_written_and_its_last_word_counts() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open();
    let (one, large) = (tree(&db, "one"), "oxygen".repeat(128_000));
    let mut batch = Batch::new();
    for (key, value) in [("1", "abc"), ("3", &large), ("5", "abc"), ("1", "def")] {
        batch.put(&one, key, value)?;
    }
    assert_eq!(one.len()?, 0);
    db.write(batch)?;
    assert_eq!(one.len()?, 3);
    assert_eq!(one.get("1")?.unwrap(), "def");
    assert_eq!(one.get("3")?.unwrap(), large.as_bytes());
    Ok(())
}

#[test]
fn batches_over_two_trees_survive_many_openings() -> Result<()> {
    let dir = Dir::new();
    for i in 0..25u64 {
        let db = dir.open();
        let (a, b) = (tree(&db, "a"), tree(&db, "b"));
        assert_eq!((a.len()?, b.len()?), (i, i));
        let mut batch = Batch::new();
        batch.put(&a, i.to_be_bytes(), "a")?;
        batch.put(&b, i.to_be_bytes(), "b")?;
        db.write(batch)?;
    }
    Ok(())
}

#[test]
fn a_snapshot_is_not_touched_by_clearing_nor_by_a_fifo() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open();
    let fifo = TreeOptions { policy: Policy::Fifo { max_bytes: 1, max_age_secs: 0 }, ..TreeOptions::default() };
    let (plain, fifo) = (tree(&db, "plain"), db.tree("fifo", fifo)?);
    plain.put("a", "a")?;
    fifo.put("a", "a")?;
    let snapshot = db.snapshot();
    plain.clear()?;
    fifo.flush()?;
    db.wait_idle()?;
    assert!(snapshot.contains(&plain, "a")? && snapshot.contains(&fifo, "a")?);
    assert!(plain.is_empty()? && db.snapshot().is_empty(&plain)?);
    Ok(())
}

#[test]
fn what_was_cleared_stays_so_after_openings() -> Result<()> {
    let dir = Dir::new();
    {
        let db = dir.open();
        let (a, b) = (tree(&db, "a"), tree(&db, "b"));
        a.put("a", "a")?;
        a.clear()?;
        b.put("a", "z")?;
    }
    {
        let db = dir.open();
        assert!(tree(&db, "a").is_empty()?);
        tree(&db, "b").clear()?;
    }
    let db = dir.open();
    assert!(tree(&db, "a").is_empty()? && tree(&db, "b").is_empty()?);
    Ok(())
}

/// Keeps keys that begin with `a`.
struct OnlyA;

impl Purge for OnlyA {
    fn name(&self) -> &str {
        "only a"
    }
    fn start(&self, _: PurgeJob) -> Box<dyn PurgePass> {
        Box::new(OnlyA)
    }
}

impl PurgePass for OnlyA {
    fn judge(&mut self, key: &[u8], _: Kind, _: &[u8], _: bool) -> Verdict {
        if key.starts_with(b"a") { Verdict::Keep } else { Verdict::Drop }
    }
}

#[test]
fn a_filter_of_compactions_counts_for_its_tree_alone_also_after_an_opening() -> Result<()> {
    let dir = Dir::new();
    let filtered = || TreeOptions { purge: Some(Arc::new(OnlyA)), ..TreeOptions::default() };
    {
        let db = dir.open();
        for t in [db.tree("filtered", filtered())?, tree(&db, "other")] {
            t.put("a", "a")?;
            t.flush()?;
            t.put("abc", "abc")?;
            t.put("b", "b")?;
            t.flush()?;
        }
    }
    let db = dir.open();
    let (one, other) = (db.tree("filtered", filtered())?, tree(&db, "other"));
    assert_eq!((one.len()?, other.len()?), (3, 3));
    one.compact()?;
    other.compact()?;
    assert_eq!((one.len()?, other.len()?), (2, 3));
    Ok(())
}

#[test]
fn a_store_is_locked_while_it_is_open_and_not_afterwards() {
    let dir = Dir::new();
    let db = dir.open();
    assert_eq!(Db::open(&dir.0).unwrap_err().kind(), ErrorKind::Locked);
    drop((tree(&db, "t"), db));
    drop(dir.open());
}

#[test]
fn files_that_a_file_manager_leaves_do_not_matter() {
    let dir = Dir::new();
    drop(dir.open());
    for name in [".DS_Store", "._0"] {
        std::fs::write(dir.0.join(name), "").unwrap();
        drop(dir.open());
    }
}

#[test]
fn a_store_may_be_moved() -> Result<()> {
    let (dir, other) = (Dir::new(), Dir::new());
    tree(&dir.open(), "t").put("a", "a")?;
    std::fs::rename(&dir.0, &other.0).unwrap();
    assert!(tree(&other.open(), "t").contains("a")?);
    Ok(())
}

#[test]
fn what_was_loaded_is_there_after_openings_for_snapshots_too() -> Result<()> {
    let dir = Dir::new();
    tree(&dir.open(), "t").ingest([("abc", "zzz")])?;
    for _ in 0..2 {
        let db = dir.open();
        let t = tree(&db, "t");
        assert_eq!(t.get("abc")?.unwrap(), "zzz");
        assert_eq!(db.snapshot().get(&t, "abc")?.unwrap(), "zzz");
    }
    Ok(())
}

#[test]
fn sequence_numbers_go_on_where_they_were() -> Result<()> {
    let dir = Dir::new();
    let seq = {
        let db = dir.open();
        for name in ["a", "b", "c"] {
            let t = tree(&db, name);
            for i in 0..200u64 {
                t.put(i.to_be_bytes(), "v".repeat(i as usize))?;
            }
        }
        db.stats().seq
    };
    for _ in 0..5 {
        let db = dir.open();
        assert_eq!(db.stats().seq, seq);
        for name in ["a", "b", "c"] {
            let t = tree(&db, name);
            assert_eq!((t.len()?, t.iter().count(), t.iter().rev().count()), (200, 200, 200));
        }
    }
    Ok(())
}

#[test]
fn a_walk_is_not_touched_by_what_is_put_meanwhile() -> Result<()> {
    let db = Db::in_memory()?;
    let t = db.tree("t", TreeOptions { memtable_size: 128 << 10, ..TreeOptions::default() })?;
    (0..5_000u64).try_for_each(|i| t.put(i.to_be_bytes(), i.to_be_bytes()))?;
    t.flush()?;
    let mut n = 0;
    for pair in t.iter() {
        let (key, value) = pair?;
        assert_eq!(*key, *value);
        t.put(key, value.repeat(4))?;
        n += 1;
    }
    assert_eq!(n, 5_000);
    Ok(())
}

#[test]
fn a_walk_of_a_transaction_shows_what_it_held_when_the_walk_began() -> Result<()> {
    let db = Db::in_memory()?;
    let t = tree(&db, "t");
    let mut tx = db.transaction();
    let before = tx.iter(&t);
    for i in 0..100u64 {
        tx.put(&t, i.to_be_bytes(), "a")?;
    }
    assert_eq!((before.count(), tx.iter(&t).count()), (0, 100));
    // Nor do others' writes show.
    t.put("2", "2")?;
    let walk = tx.iter(&t);
    t.put("3", "3")?;
    assert_eq!((walk.count(), tx.iter(&t).count()), (100, 100));
    Ok(())
}

#[test]
fn what_memtables_take_is_told_and_given_back_by_a_flush() -> Result<()> {
    let db = Db::in_memory()?;
    let t = tree(&db, "t");
    let taken = || db.stats().trees[0].memtable_bytes;
    let empty = taken();
    t.put("asd", "def")?;
    let one = taken();
    let mut batch = Batch::new();
    batch.put(&t, "dsa", "qwe")?;
    db.write(batch)?;
    assert!(empty < one && one < taken(), "{empty} {one} {}", taken());
    t.flush()?;
    assert_eq!(taken(), empty);
    Ok(())
}
