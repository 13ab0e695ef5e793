//! Snapshots and iterators: their contents, and the versions that are retained for them.

use firn_kv::policy::Fifo;
use firn_kv::{Db, Policy, Result, TreeOptions};

use super::{Dir, tree};

#[test]
fn a_snapshot_is_not_touched_by_clearing_nor_by_a_fifo() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open();
    let fifo = TreeOptions {
        policy: Policy::Fifo(Fifo { max_bytes: 1, max_age_secs: 0, ..Fifo::default() }),
        ..TreeOptions::default()
    };
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
fn a_walk_and_a_snapshot_show_what_was_there_when_they_began() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open();
    let (one, two) = (tree(&db, "one"), tree(&db, "two"));
    ["a#1", "a#2", "a#3"].into_iter().try_for_each(|k| one.put(k, "v"))?;
    two.put("b#1", "5")?;
    let (snapshot, walk) = (db.snapshot(), one.iter());
    one.flush()?;
    one.put("a#4", "d")?;
    two.put("b#2", "6")?;
    assert_eq!(walk.count(), 3);
    for _ in 0..2 {
        assert_eq!((snapshot.iter(&one).count(), snapshot.iter(&two).count()), (3, 1));
    }
    assert_eq!((one.len()?, two.len()?), (4, 2));
    Ok(())
}

#[test]
fn each_write_is_one_number_further_for_snapshots() -> Result<()> {
    let db = Db::in_memory()?;
    let t = tree(&db, "t");
    let from = db.snapshot().seq();
    for i in 1..=5 {
        t.put("k", "v")?;
        assert_eq!(db.snapshot().seq(), from + i);
    }
    Ok(())
}

/// Returns the number of entries in the tree's tables, after a flush and a full compaction.
fn kept(db: &Db, name: &str) -> Result<u64> {
    tree(db, name).compact()?;
    Ok(db
        .stats()
        .trees
        .iter()
        .find(|t| t.name == name)
        .unwrap()
        .runs
        .iter()
        .map(|r| r.entries)
        .sum())
}

#[test]
fn flushes_and_merges_keep_a_version_for_whoever_may_see_it() -> Result<()> {
    let db = Db::in_memory()?;
    let t = tree(&db, "t");
    t.put("a", "a")?;
    t.put("a", "b")?;
    t.flush()?;
    assert_eq!(t.get("a")?.unwrap(), "b");
    assert_eq!(kept(&db, "t")?, 1);
    let snapshot = db.snapshot();
    t.put("a", "c")?;
    for merged in [false, true] {
        assert_eq!(t.get("a")?.unwrap(), "c");
        assert_eq!(snapshot.get(&t, "a")?.unwrap(), "b");
        if merged {
            assert_eq!(kept(&db, "t")?, 2);
        } else {
            t.flush()?;
        }
    }
    drop(snapshot);
    assert_eq!(kept(&db, "t")?, 1);
    assert_eq!(t.get("a")?.unwrap(), "c");
    Ok(())
}

#[test]
fn snapshots_that_come_and_go_hold_nothing_back_and_an_old_one_does() -> Result<()> {
    let db = Db::in_memory()?;
    let t = tree(&db, "t");
    for i in 0..10_000u32 {
        t.put("a", i.to_be_bytes())?;
        drop(db.snapshot());
    }
    assert_eq!(kept(&db, "t")?, 1);
    let old = db.snapshot();
    for i in 0..10_000u32 {
        t.put("a", i.to_be_bytes())?;
        drop(db.snapshot());
    }
    assert_eq!(kept(&db, "t")?, 2);
    assert_eq!(old.get(&t, "a")?.unwrap(), 9_999u32.to_be_bytes());
    Ok(())
}

#[test]
fn snapshots_are_counted_and_a_clone_holds_what_the_first_did() -> Result<()> {
    let db = Db::in_memory()?;
    let t = tree(&db, "t");
    t.put("a", "a")?;
    let count = || db.stats().snapshots.len();
    assert_eq!(count(), 0);
    let (one, two) = (db.snapshot(), db.snapshot());
    assert_eq!((one.seq(), count()), (two.seq(), 2));
    let clone = one.clone();
    t.put("a", "b")?;
    drop((one, two));
    // Clones share one position of a snapshot.
    assert_eq!(count(), 1);
    assert_eq!(kept(&db, "t")?, 2);
    assert_eq!(clone.get(&t, "a")?.unwrap(), "a");
    drop(clone);
    assert_eq!(count(), 0);
    Ok(())
}
